/* step.c - kernels and collectives of a step on their clocks. */
#include "perf/kernel.h"

/* One part of the log, from its first kernel on. All clocks begin together: the Trainer reads the loss after each micro-step (trainer.py,
 * logging_nan_inf_filter), a loop over torch prints it. */
struct clocks {
    double host_s, gpu_s, wire_s;
    double waited_s;        /* of gpu_s: for the wire */
};

static void wait_for_wire(struct clocks *c)
{
    c->waited_s += larger(0, c->wire_s - c->gpu_s);
    c->gpu_s = larger(c->gpu_s, c->wire_s);
}

static double call_s(const struct rates *r, const struct kernel *k)
{
    bool engine = (k->stage == STAGE_BACKWARD && !k->recompute) || k->stage == STAGE_OPTIMIZER || k->stage == STAGE_CLIP;

    return r->constants[engine ? PERF_BACKWARD_CALL_S : PERF_FORWARD_CALL_S];
}

static void play_kernel(struct rates *r, const struct kernel *k, struct clocks *c)
{
    c->host_s += k->calls * call_s(r, k);
    c->gpu_s = larger(c->gpu_s, c->host_s) + kernel_s(r, k);
}

/* Forward and optimizer wait for what they sent (buffers, parameters); backward does not, until all of it is sent: then the reducer waits and
 * copies its buckets back (reducer.cpp finalize_backward). */
static void play_message(const struct rates *r, const struct message *m, struct clocks *c)
{
    c->wire_s = larger(c->wire_s, c->gpu_s) + perf_collective_s(r->system, (enum collective)m->collective, m->bytes);
    if (m->stage != STAGE_BACKWARD)
        wait_for_wire(c);
}

/* Messages that were sent after kernel `from` began and before kernel `to` does. */
struct range {
    uint32_t first, last;
};

static struct range messages_in(const struct cost *c, uint32_t from, uint32_t to)
{
    struct range r = {0};

    while (r.first < c->n_messages && c->messages[r.first].kernels_before <= from && from)
        r.first++;
    for (r.last = r.first; r.last < c->n_messages && c->messages[r.last].kernels_before <= to; r.last++)
        ;
    return r;
}

static struct clocks play(struct rates *r, const struct cost *c, uint32_t from, uint32_t to, bool sends)
{
    struct range m = messages_in(c, from, to);
    bool any = sends && m.first < m.last;
    struct clocks t = {0};

    for (uint32_t i = from; i < to; i++) {
        for (; any && m.first < m.last && c->messages[m.first].kernels_before == i; m.first++)
            play_message(r, &c->messages[m.first], &t);
        if (any && m.first == m.last)
            wait_for_wire(&t);
        play_kernel(r, &c->kernels[i], &t);
    }
    for (; any && m.first < m.last; m.first++)
        play_message(r, &c->messages[m.first], &t);
    wait_for_wire(&t);
    return t;
}

static void add_micro(const struct clocks *t, double times, struct step_time *ret)
{
    ret->compute_s += times * (t->gpu_s - t->waited_s);
    ret->communication_exposed_s += times * t->waited_s;
}

/* Micro-steps of an accumulation between the first and the last send when the first does (sync_each_batch). */
static void play_micro_steps(struct rates *r, const struct cost *c, struct step_time *ret)
{
    struct range first = messages_in(c, 0, c->n_micro > 1 ? c->micro_begin[1] : 0);
    bool first_sends = first.first < first.last;

    for (uint32_t i = 0; i < c->n_micro; i++) {
        uint32_t from = i ? c->micro_begin[i] : 0, to = i + 1 < c->n_micro ? c->micro_begin[i + 1] : c->end_begin;
        uint32_t times = cost_times(c, i);
        struct clocks t = play(r, c, from, to, true);

        add_micro(&t, 1, ret);
        if (times < 2)
            continue;
        t = play(r, c, from, to, first_sends);
        add_micro(&t, times - 1, ret);
    }
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

void perf_step_time_with(const double constants[PERF_CONSTANTS], const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    struct step_time t = {0};
    struct rates r;
    struct clocks end;
    double samples = (double)c->micro_batch_size * c->accumulation * s->gpus_per_node * s->nodes;

    rates_of(constants, s, &r);
    play_micro_steps(&r, c, &t);
    end = play(&r, c, c->end_begin, c->n_kernels, true);
    t.optimizer_s = end.gpu_s;
    t.step_s = t.compute_s + t.communication_exposed_s + t.optimizer_s;
    t.samples_per_s = samples / t.step_s;
    t.tokens_per_s = t.samples_per_s * c->seq_len_tokens;
    t.mfu = c->model_flops * c->accumulation / (t.step_s * peak_of(c, s));
    *ret = t;
}

void perf_step_time(const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    double constants[PERF_CONSTANTS];

    for (int i = 0; i < PERF_CONSTANTS; i++)
        constants[i] = perf_constant((enum perf_constant_id)i)->value;
    perf_step_time_with(constants, c, s, ret);
}
