#include "perf/kernel.h"

/*
 * Ways in which NCCL sends a collective: what it takes before any byte and for each hop, in microseconds, and the share of the link's bandwidth.
 * Source: NCCL, src/graph/tuning.cc at b647562, baseLat, hwLat and the shares of ncclTopoTuneModel(). Small messages go by the first, large ones by the last.
 */
static const struct way {
    double base_us, nvlink_us, pcie_us, network_us, share;
    bool nvlink_alone;
} rings[] =
    {
        {6.6, 0.6, 1.0, 2.7, 0.25, false}, /* LL: every 4 bytes carry a flag, and less at once */
        {14.0, 1.9, 2.5, 4.0, 0.92, true}, /* LL128 */
        {8.4, 3.4, 5.7, 14.0, 1, false},   /* Simple */
},
  trees[] = {
      {6.8, 0.6, 1.0, 5.0, 0.25, false},
      {14.0, 1.25, 1.9, 8.5, 0.92, true},
      {0, 28.0, 28.0, 28.0, 1, false},
};
enum { WAYS = sizeof rings / sizeof *rings };

/* Where the ranks of a group stand. */
struct place {
    double ranks, inside, nodes; /* of them in a node; nodes that they span */
    double groups;               /* alike, that share a node's adapters at the same time */
};

static struct place place_of(const struct perf_system *s, struct work_group g)
{
    double all = (double)s->gpus_per_node * s->nodes, stride = g.stride ? g.stride : 1;
    struct place p = {.ranks = g.ranks ? g.ranks : all, .nodes = 1, .groups = 1};
    double fit = s->gpus_per_node / stride; /* of one group, in a node */

    p.inside = smaller(p.ranks, fit < 1 ? 1 : (double)(uint64_t)fit);
    if (p.inside < p.ranks) {
        p.nodes = (p.ranks + p.inside - 1) / p.inside;
        p.nodes = smaller((double)(uint64_t)p.nodes, s->nodes);
        p.groups = s->gpus_per_node / p.inside;
    }
    return p;
}

/* What each rank puts on the link for a payload of 1: NCCL's nccl-tests/doc/PERFORMANCE.md, "bus bandwidth". */
static double factor(enum collective what, double n)
{
    switch (what) {
    case COLLECTIVE_ALL_REDUCE:
        return 2 * (n - 1) / n;
    case COLLECTIVE_ALL_GATHER:
    case COLLECTIVE_REDUCE_SCATTER:
        return (n - 1) / n;
    default:
        return 1;
    }
}

static double hops(enum collective what, double n)
{
    return what == COLLECTIVE_ALL_REDUCE ? 2 * (n - 1) : what == COLLECTIVE_SEND ? 1 : n - 1;
}

static double inside_us(const struct perf_system *s, const struct way *w)
{
    return s->intra.pcie ? w->pcie_us : w->nvlink_us;
}

/* Once around all ranks, no faster than the slowest link on the way. */
static double ring_s(const struct perf_system *s, enum collective what, double bytes, const struct place *p, const struct way *w)
{
    double n = hops(what, p->ranks), between = p->nodes > 1 ? hops(what, p->nodes) : 0, rate = INFINITY;

    if (p->inside > 1)
        rate = s->intra.bytes_per_s;
    if (p->nodes > 1)
        rate = smaller(rate, s->inter.bytes_per_s / p->groups);
    return (w->base_us + (n - between) * inside_us(s, w) + between * w->network_us) * 1e-6 +
           factor(what, p->ranks) * bytes / (rate * w->share);
}

/* A node's adapters carry what the node as a whole gives and takes, while the links inside go on: chunks are pipelined. */
static double tree_s(const struct perf_system *s, double bytes, const struct place *p, const struct way *w)
{
    double inside = p->inside > 1 ? factor(COLLECTIVE_ALL_REDUCE, p->inside) / s->intra.bytes_per_s : 0;
    double between = factor(COLLECTIVE_ALL_REDUCE, p->nodes) * p->groups / s->inter.bytes_per_s;

    return (w->base_us + 2 * ((p->inside - 1) * inside_us(s, w) + log2(p->nodes) * w->network_us)) * 1e-6 +
           larger(inside, between) * bytes / w->share;
}

double perf_collective_s(const struct perf_system *s, enum collective what, uint64_t bytes, struct work_group group)
{
    struct place p = place_of(s, group);
    double best = INFINITY;

    if (p.ranks < 2)
        return 0;
    for (size_t i = 0; i < WAYS; i++) {
        if (rings[i].nvlink_alone && s->intra.pcie)
            continue;
        best = smaller(best, ring_s(s, what, (double)bytes, &p, &rings[i]));
        if (what == COLLECTIVE_ALL_REDUCE && p.nodes > 1)
            best = smaller(best, tree_s(s, (double)bytes, &p, &trees[i]));
    }
    return larger(best, p.nodes > 1 ? s->inter.latency_s : s->intra.latency_s);
}

/* ------------------------------------------------------------------------------------------------------------ the host */
/* Every rank of a node copies over a bus of its own. */
static double copied_s(const struct rates *r, uint64_t bytes)
{
    return (double)bytes / (r->system->bus_bytes_per_s * r->constants[PERF_BUS_SHARE]);
}

/* Adam's states and weights are read and written, gradients read, half weights written: 30 bytes for 4 (deepspeed csrc/adam/cpu_adam_impl.cpp). One
 * process reaches no more than its share; all of a node no more than the node's memory gives. */
static double host_step_s(const struct rates *r, uint64_t bytes)
{
    double rank = r->constants[PERF_HOST_RANK_BYTES_PER_S], node = r->constants[PERF_HOST_NODE_BYTES_PER_S] / r->system->gpus_per_node;

    return 7.5 * (double)bytes / smaller(rank, node);
}

double message_s(const struct rates *r, const struct message *m)
{
    switch ((enum collective)m->collective) {
    case COLLECTIVE_TO_HOST:
    case COLLECTIVE_FROM_HOST:
        return copied_s(r, m->bytes);
    case COLLECTIVE_HOST_STEP:
        return host_step_s(r, m->bytes);
    default:
        return perf_collective_s(r->system, (enum collective)m->collective, m->bytes, m->group);
    }
}
