/*
 * perf.h - seconds of one optimizer step: what a rank computes, moves and sends, on a system given by numbers.
 *
 * Purpose   perf_step_time() plays the kernels of a step in order on two clocks, the host that launches them and the GPU that runs them, and
 *           its collectives on a third, as torch does: a bucket's all-reduce starts when its last gradient is there and the one before it has
 *           ended; what is left of them after the last kernel of backward is exposed.
 * Models    matrix products by tiles and waves over the multiprocessors, or by memory; attention as a share of the rate of products; all other
 *           kernels by memory; ring and hierarchical collectives (latency + bytes / bandwidth). Clipping and the optimizer follow backward.
 *           Not modelled: pipelines (bubble_s is 0), offload (offload_s is 0), what a nearly full allocator costs, the input pipeline,
 *           kernels slowed by a collective beside them.
 * Constants empirical ones stand in constants.c, each with its data; perf_constant() prints them, `accuracy fit` fits them.
 * Units     seconds, bytes, flops and their quotients, as named; 0 in a system: no source gave it, see plan/system.h for what stands for it.
 * Threads   pure.
 */
#ifndef PERF_PERF_H
#define PERF_PERF_H

#include "meters/cost.h"

/* A direction of one GPU inside a node, of a whole node between nodes. */
struct perf_link {
    double bytes_per_s;     /* what a collective reaches: NCCL's bus bandwidth */
    double latency_s;       /* of one collective, for the first byte */
};

struct perf_system {
    double flops_per_s[DTYPE_COUNT]; /* dense peaks of products, by what they compute in */
    double best_products;   /* best published product / peak, 0: none */
    unsigned capability;    /* CUDA's, 10 x major + minor */
    double memory_bytes_per_s;
    uint64_t cache_bytes;   /* L2 */
    unsigned multiprocessors;
    struct perf_link intra, inter;
    unsigned gpus_per_node, nodes;
};

struct step_time {
    double step_s, tokens_per_s, samples_per_s; /* tokens and samples of the whole job */
    double mfu;             /* model_flops / (step_s x peak); facts: timing.h */
    double compute_s, communication_exposed_s, optimizer_s, offload_s, bubble_s; /* sum to step_s */
};

/* Of `c` on every rank of `s`; c->accumulation > 0, sums of zero kernels included. */
void perf_step_time(const struct cost *c, const struct perf_system *s, struct step_time *ret);

/* One collective over all ranks of `s`. */
double perf_collective_s(const struct perf_system *s, enum collective what, uint64_t bytes);

/* --- empirical constants ------------------------------------------------------------------------------------------------------- */
enum perf_constant_id {
    PERF_PRODUCT_SHARE,
    PERF_BEST_SHARE,
    PERF_BEST_SHARE_86,
    PERF_BEST_SHARE_89,
    PERF_ATTENTION_SHARE,
    PERF_EFFICIENT_SHARE,
    PERF_MEMORY_SHARE,
    PERF_CACHE_SPEED,
    PERF_KERNEL_S,
    PERF_FORWARD_CALL_S,
    PERF_BACKWARD_CALL_S,
    PERF_CONSTANTS
};

struct perf_constant {
    const char *name, *unit;
    double value;
    double prior;           /* what is expected before any row; a fit pays for leaving it. 0: not fitted */
    const char *data;       /* what it was read off */
};

const struct perf_constant *perf_constant(enum perf_constant_id id);

/* The same with other constants: for fitting them. */
void perf_step_time_with(const double constants[PERF_CONSTANTS], const struct cost *c, const struct perf_system *s, struct step_time *ret);

/* A sentence for `assumptions`: how many constants, fitted on what, how far the answered rows are from them. */
const char *perf_assumption(void);

#endif
