/* stage.c - the times of one stage of a pipeline. */
#include "perf/clocks.h"

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
    rates_of(constants, c, s, &r);
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
