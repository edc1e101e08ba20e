/* step.c - the parts of a step on their clocks, and what they sum to. */
#include "perf/clocks.h"

static double waited_s(const struct clocks *t)
{
    return t->waited_wire_s + t->waited_host_s;
}

/* All clocks of a part begin together: the Trainer reads the loss after each micro-step (trainer.py, logging_nan_inf_filter), a loop over torch prints it. */
static struct clocks play_micro_step(struct rates *r, const struct cost *c, uint32_t i, bool apart)
{
    bool last = i + 1 == c->n_micro;
    struct part p = {i ? c->micro_begin[i] : 0, last ? c->end_begin : c->micro_begin[i + 1], c->micro_message[i],
                     last ? c->end_message : c->micro_message[i + 1]};
    struct clocks t = {.apart = apart};

    play_part(r, c, p, &t);
    return t;
}

static struct clocks play_end(struct rates *r, const struct cost *c)
{
    struct clocks t = {0};

    play_part(r, c, (struct part){c->end_begin, c->n_kernels, c->end_message, c->n_messages}, &t);
    return t;
}

static void add_waits(const struct clocks *t, double times, struct step_time *ret)
{
    ret->communication_exposed_s += times * t->waited_wire_s;
    ret->offload_s += times * t->waited_host_s;
}

/* Micro-steps of an accumulation between the first and the last compute as the last does, which finds gradients, and send as the first does, which may not
 * send its own. */
static void play_micro_steps(struct rates *r, const struct cost *c, struct step_time *ret)
{
    struct clocks first = {0}, last = {0};
    double between = c->n_micro > 1 ? c->accumulation - c->n_micro : 0, repeated = c->n_micro > 1 ? 1 : c->accumulation;

    if (c->n_micro > 1) {
        first = play_micro_step(r, c, 0, false);
        ret->compute_s += first.gpu_s - waited_s(&first);
        add_waits(&first, 1 + between, ret);
    }
    last = play_micro_step(r, c, c->n_micro ? c->n_micro - 1 : 0, false);
    ret->compute_s += (repeated + between) * (last.gpu_s - waited_s(&last));
    add_waits(&last, repeated, ret);
}

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

void perf_step_time_with(const double constants[PERF_CONSTANTS], const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    struct step_time t = {0};
    struct rates r;
    struct clocks end;

    rates_of(constants, s, &r);
    play_micro_steps(&r, c, &t);
    end = play_end(&r, c);
    add_waits(&end, 1, &t);
    t.optimizer_s = end.gpu_s - waited_s(&end);
    perf_sum_up(c, s, &t);
    *ret = t;
}

void perf_constants(double ret[PERF_CONSTANTS])
{
    for (int i = 0; i < PERF_CONSTANTS; i++)
        ret[i] = perf_constant((enum perf_constant_id)i)->value;
}

void perf_step_time(const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    double constants[PERF_CONSTANTS];

    perf_constants(constants);
    perf_step_time_with(constants, c, s, ret);
}

/* --------------------------------------------------------------------------------------------------------------- a stage */
static void add_micro_batch(const struct clocks *m, double share, struct stage_time *t)
{
    double forward = m->stage_s[COST_BATCH] + m->stage_s[COST_FORWARD] + m->stage_s[COST_LOSS];

    t->forward_s += share * forward;
    t->backward_s += share * (m->gpu_s - forward);
    t->waited_wire_s += share * m->waited_wire_s;
    t->waited_host_s += share * m->waited_host_s;
    t->send_s = larger(t->send_s, m->send_s);
}

void perf_stage_time(const struct cost *c, const struct perf_system *s, struct stage_time *ret)
{
    double constants[PERF_CONSTANTS];
    struct stage_time t = {0};
    struct rates r;
    struct clocks end;

    perf_constants(constants);
    rates_of(constants, s, &r);
    for (uint32_t i = 0; i < c->n_micro; i++) {
        struct clocks m = play_micro_step(&r, c, i, true);

        add_micro_batch(&m, (double)cost_times(c, i) / c->accumulation, &t);
    }
    end = play_end(&r, c);
    t.end_s = end.gpu_s;
    t.end_waited_wire_s = end.waited_wire_s;
    t.end_waited_host_s = end.waited_host_s;
    *ret = t;
}
