/* sum.c - what the parts of a step sum to. */
#include "perf/perf.h"

/* The dtype that most products compute in decides which peak the flops are held against. */
static double peak_of(const struct cost *c, const struct perf_system *s)
{
    double sum[DTYPE_COUNT] = {0};
    int most = DTYPE_FP32;

    for (uint32_t i = 0; i < c->n_kernels; i++)
        if (c->kernels[i].work >= WORK_MATMUL)
            sum[c->kernels[i].dtype] += (double)c->kernels[i].flops;
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (sum[t] > sum[most])
            most = t;
    return s->flops_per_s[most];
}

void perf_sum_up(const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    double samples = (double)c->micro_batch_size * c->accumulation * c->data_parallel;

    ret->step_s = ret->compute_s + ret->communication_exposed_s + ret->optimizer_s + ret->offload_s + ret->bubble_s;
    ret->samples_per_s = samples / ret->step_s;
    ret->tokens_per_s = ret->samples_per_s * c->seq_len_tokens;
    ret->mfu = c->model_flops / c->ranks_of_model * c->accumulation / (ret->step_s * peak_of(c, s));
}
