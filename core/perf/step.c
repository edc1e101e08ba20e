/* step.c - the parts of a step on their clocks, and what they sum to. */
#include "perf/clocks.h"

static double waited_s(const struct clocks *t)
{
    return t->waited_wire_s + t->waited_host_s;
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

void perf_step_time_with(const double constants[PERF_CONSTANTS], const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    struct step_time t = {0};
    struct rates r;
    struct clocks end;

    rates_of(constants, c, s, &r);
    play_micro_steps(&r, c, &t);
    end = play_end(&r, c);
    add_waits(&end, 1, &t);
    t.optimizer_s = end.gpu_s - waited_s(&end);
    perf_sum_up(c, s, &t);
    *ret = t;
}

void perf_step_time(const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    double constants[PERF_CONSTANTS];

    perf_constants(constants);
    perf_step_time_with(constants, c, s, ret);
}
