/*
 * perf.h - seconds of one optimizer step: what a rank computes, moves and sends, on a system given by numbers.
 *
 * Purpose   perf_step_time() plays the log of a step on clocks (clocks.h): the host that launches, the GPU, the streams of messages, the links. A
 *           message may wait for the kernels before it, kernels wait for it where the method does; what compute waits is exposed. perf_pipeline()
 *           plays the schedule of a pipeline over the times of its stages.
 * Models    matrix products by tiles and waves over the multiprocessors, or by memory; attention as a share of the rate of products; all other
 *           kernels by memory; collectives over groups as NCCL sends them: rings and trees, latency a hop, groups of a node share its adapters;
 *           copies over the bus and Adam on the host by bandwidth.
 *           Not modelled: what a nearly full allocator costs, the input pipeline, kernels slowed by a collective beside them, collectives of
 *           different groups that slow each other, buses that GPUs share, interleaved pipelines.
 * Constants empirical ones stand in constants.c, each with its data; perf_constant() prints them, `accuracy fit` fits them.
 * Units     seconds, bytes, flops and their quotients, as named; 0 in a system: no source gave it, see plan/system.h for what stands for it.
 * Threads   pure.
 */
#ifndef PERF_PERF_H
#define PERF_PERF_H

#include "meters/clock.h"
#include "meters/cost.h"

/* A direction of one GPU inside a node, of a whole node between nodes. */
struct perf_link {
    double bytes_per_s;     /* what a collective reaches: NCCL's bus bandwidth */
    double latency_s;       /* of the smallest collective, where a source measured it above what NCCL's own figures give; 0: none */
    bool pcie;              /* not NVLink */
};

struct perf_system {
    double flops_per_s[DTYPE_COUNT]; /* dense peaks of products, by what they compute in */
    double best_products;   /* best published product / peak, 0: none */
    unsigned capability;    /* CUDA's, 10 x major + minor */
    bool geforce;           /* adds in fp32 at half the rate of the same die on a workstation card: 71 of 142 TFLOPS (GA102 whitepaper) */
    double board_power_w;   /* 0: not known, and no limit */
    double memory_bytes_per_s;
    uint64_t cache_bytes;   /* L2 */
    unsigned multiprocessors;
    struct perf_link intra, inter;
    double bus_bytes_per_s; /* between a GPU and its host, one direction, as the bus is specified */
    unsigned gpus_per_node, nodes;
};

struct step_time {
    double step_s, tokens_per_s, samples_per_s; /* tokens and samples of the whole job */
    double mfu;             /* model_flops / (step_s x peak); facts: timing.h */
    double compute_s, communication_exposed_s, optimizer_s, offload_s, bubble_s; /* sum to step_s */
};

/* Of `c` on every rank of `s`; c->accumulation > 0, sums of zero kernels included. */
void perf_step_time(const struct cost *c, const struct perf_system *s, struct step_time *ret);

/* Clocks for replays of runs on `s` (follow.c), which is read while they are used. */
struct timekeeper perf_timekeeper(const struct perf_system *s);

/* One collective over a group; {0, 0}: all ranks of `s`. */
double perf_collective_s(const struct perf_system *s, enum collective what, uint64_t bytes, struct work_group group);

/* --- pipelines ----------------------------------------------------------------------------------------------------------------- */
enum schedule { SCHEDULE_1F1B, SCHEDULE_GPIPE };

/* One micro-batch on one stage, waits included, and what follows the last one. */
struct stage_time {
    double forward_s, backward_s;
    double send_s;                        /* to a neighbour: COLLECTIVE_SEND stands in the log, and takes no part in the two above */
    double waited_wire_s, waited_host_s;  /* of forward_s + backward_s */
    double end_s, end_waited_wire_s, end_waited_host_s;
};

/* Of a log whose micro-steps are one micro-batch each. */
void perf_stage_time(const struct cost *c, const struct perf_system *s, struct stage_time *ret);

/* The parts of the step; perf_sum_up() makes the rest. False when the arena is full; it is given back. */
bool perf_pipeline(const struct stage_time *stages, uint32_t n, enum schedule schedule, uint32_t micro_batches, struct arena *arena, struct step_time *ret);

/* step_s, throughput and MFU from the parts, of a job of which `c` is one rank. */
void perf_sum_up(const struct cost *c, const struct perf_system *s, struct step_time *ret);

/* --- empirical constants ------------------------------------------------------------------------------------------------------- */
enum perf_constant_id {
    PERF_PRODUCT_SHARE,
    PERF_BEST_SHARE,
    PERF_BEST_SHARE_GEFORCE,
    PERF_ADA_FLOPS_PER_JOULE,
    PERF_HOPPER_FLOPS_PER_JOULE,
    PERF_UNALIGNED_SHARE,
    PERF_EFFICIENT_SHARE,
    PERF_MEMORY_SHARE,
    PERF_CACHE_SPEED,
    PERF_KERNEL_S,
    PERF_FORWARD_CALL_S,
    PERF_BACKWARD_CALL_S,
    PERF_MESSAGE_CALL_S,
    PERF_ENGINE_CALL_S,
    PERF_HOOK_S,
    PERF_SERVER_HOST,
    PERF_TILE_READS,
    PERF_INNER_START,
    PERF_BUS_SHARE,
    PERF_HOST_RANK_BYTES_PER_S,
    PERF_HOST_NODE_BYTES_PER_S,
    PERF_STAGE3_CALL_S,
    PERF_STAGE3_HOOK_S,
    PERF_BLOCKWISE_FLOPS,
    PERF_FAST_RANK,
    PERF_CONSTANTS
};

struct perf_constant {
    const char *name, *unit;
    double value;
    double prior;           /* what is expected before any row; a fit pays for leaving it. 0: not fitted */
    const char *data;       /* what it was read off */
};

const struct perf_constant *perf_constant(enum perf_constant_id id);
void perf_constants(double ret[PERF_CONSTANTS]);

/* The same with other constants: for fitting them. */
void perf_step_time_with(const double constants[PERF_CONSTANTS], const struct cost *c, const struct perf_system *s, struct step_time *ret);

/* A sentence for `assumptions`: how many constants, fitted on what, how far the answered rows are from them. */
const char *perf_assumption(void);

#endif
