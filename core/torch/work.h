/*
 * work.h - what a run gives the GPU to do: kernels and messages in program order.
 *
 * Purpose   one run, several meters: meters/cost reads this log, as meters/peak reads the tape. Nothing is recorded where
 *           run.work is NULL, and memory never depends on it.
 * Rules     the column `work` of ops.def says how an operator's kernel is counted. A tensor that a kernel reads or writes counts at its real
 *           size and dtype, dimensions that are expanded once; views launch nothing.
 * Units     bytes moved between the GPU and its memory; flops as multiplications and additions counted apart.
 * Models    caches not at all: what a kernel reads comes from memory. Small loads that the host launches (copies of a scalar) are left out.
 * Owner     the run's arena.
 */
#ifndef TORCH_WORK_H
#define TORCH_WORK_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct run;

enum collective { COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_BROADCAST, COLLECTIVE_COUNT };

/* A collective as it is enqueued: payload on one rank, and how many kernels stood in the compute stream before it. */
struct message {
    uint64_t bytes;
    uint32_t kernels_before;
    uint8_t collective, stage; /* enum collective, enum stage */
};

/* One launch, or several alike that follow each other (the chunks of a foreach list). */
struct kernel {
    uint64_t flops, bytes;
    uint32_t rows, columns, inner, batch; /* of a matrix product; batch 0: no product */
    uint32_t launches;
    uint16_t op;
    uint16_t calls;                       /* what the host ran for it: operators and autograd nodes since the kernel before, itself included */
    uint8_t work, dtype, stage;           /* enum work_class; what it computes in; enum stage */
    bool recompute;                       /* a checkpointed region runs again */
};

struct work {
    uint32_t n_kernels, max_kernels, n_messages, max_messages;
    uint32_t calls;                       /* since the last kernel */
    struct kernel *kernels;
    struct message *messages;
};

/* false when the arena is full. max_kernels 0: messages alone. The kernels stand last: what they do not take can be given back. */
bool work_init(struct work *w, struct arena *arena, uint32_t max_kernels, uint32_t max_messages);

/* Nothing without a log. A full log fails the run with ERR_NOMEM. */
void work_message(struct run *r, enum collective c, uint64_t bytes);

/* For a foreach list or a kernel of one launch over plain arrays: optimizers, clipping. Nothing without a log. `op`: an enum op. */
void work_add(struct run *r, unsigned op, uint64_t flops, uint64_t bytes, uint32_t launches);

#endif
