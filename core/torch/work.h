/*
 * work.h - what a run gives the GPU to do: kernels and messages in program order.
 *
 * Purpose   one run, several meters: meters/cost reads this log, as meters/peak reads the tape. Nothing is recorded where
 *           run.work is NULL, and memory never depends on it.
 * Units     bytes moved between the GPU and its memory; flops as multiplications and additions counted apart.
 * Owner     the run's arena.
 */
#ifndef TORCH_WORK_H
#define TORCH_WORK_H

#include <stdint.h>

struct run;

enum collective { COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_BROADCAST, COLLECTIVE_COUNT };

/* A collective as it is enqueued: payload on one rank, and how many kernels stood in the compute stream before it. */
struct message {
    uint64_t bytes;
    uint32_t kernels_before;
    uint8_t collective, stage; /* enum collective, enum stage */
};

struct work {
    uint32_t n_kernels, n_messages, max_messages;
    struct message *messages;
};

/* Nothing without a log. A full log fails the run with ERR_NOMEM. */
void work_message(struct run *r, enum collective c, uint64_t bytes);

#endif
