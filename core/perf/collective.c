#include "perf/kernel.h"

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

/* Inside a node a ring; over nodes the node's adapters carry the same for the node as a whole while the ring inside goes on: the slower of the
 * two, since chunks are pipelined. Latencies add up. A ring over all ranks is no faster than its slowest link, so it is never better. */
double perf_collective_s(const struct perf_system *s, enum collective what, uint64_t bytes)
{
    double inside = 0, between = 0, latency = 0;

    if (s->gpus_per_node * s->nodes < 2)
        return 0;
    if (s->gpus_per_node > 1) {
        inside = factor(what, s->gpus_per_node) * (double)bytes / s->intra.bytes_per_s;
        latency += s->intra.latency_s;
    }
    if (s->nodes > 1) {
        between = factor(what, s->nodes) * (double)bytes / s->inter.bytes_per_s;
        latency += s->inter.latency_s;
    }
    return latency + larger(inside, between);
}
