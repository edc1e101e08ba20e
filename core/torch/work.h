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

/* SEND: to one neighbour. TO_HOST, FROM_HOST: a copy over the bus. HOST_STEP: the optimizer on the host, bytes of its fp32 weights. */
enum collective {
    COLLECTIVE_ALL_REDUCE,
    COLLECTIVE_ALL_GATHER,
    COLLECTIVE_REDUCE_SCATTER,
    COLLECTIVE_BROADCAST,
    COLLECTIVE_SEND,
    COLLECTIVE_TO_HOST,
    COLLECTIVE_FROM_HOST,
    COLLECTIVE_HOST_STEP,
    COLLECTIVE_COUNT
};

/* `ranks` ranks, each `stride` from the next: {0, 0} is all of them. */
struct work_group {
    uint32_t ranks, stride;
};

/* A message as it is enqueued. bytes: what the whole tensor holds on the side where it is whole (gathered, or before it is scattered). */
struct message {
    uint64_t bytes;
    uint32_t kernels_before;   /* in the compute stream, when it was enqueued */
    uint32_t host_after;       /* the host waits for so many of the compute stream's kernels before it is enqueued */
    uint32_t waited_before;    /* the compute stream waits for it before this kernel; MESSAGE_UNWAITED */
    struct work_group group;
    uint8_t collective, stage; /* enum collective, enum stage */
    uint8_t stream;            /* enum stream_id: messages of one stream follow each other */
    bool after_compute;        /* it also waits for the compute stream's kernels before it */
    bool native;               /* enqueued from C++: no Python runs for it */
};
#define MESSAGE_UNWAITED UINT32_MAX

/* Whose flash kernels a run has: the log holds the operator, not the release that wrote it. */
enum flash_kernel { FLASH_2, FLASH_1 };

/* One launch, or several alike that follow each other (the chunks of a foreach list). */
struct kernel {
    uint64_t flops, bytes;
    uint32_t rows, columns, inner, batch; /* of a matrix product; batch 0: no product */
    uint32_t launches;
    uint16_t op;
    uint16_t calls;                       /* what the host ran for it: operators and autograd nodes since the kernel before, itself included */
    uint16_t hooks;                       /* and hooks in Python */
    uint8_t work, dtype, stage;           /* enum work_class; what it computes in; enum stage */
    bool recompute;                       /* a checkpointed region runs again */
    bool unaligned;                       /* of a product: rows of a factor or of the result begin at odd halves */
};

struct work {
    uint32_t n_kernels, max_kernels, n_messages, max_messages;
    uint32_t calls, hooks;                /* since the last kernel */
    struct kernel *kernels;
    struct message *messages;
};

/* false when the arena is full. max_kernels 0: messages alone. The kernels stand last: what they do not take can be given back. */
bool work_init(struct work *w, struct arena *arena, uint32_t max_kernels, uint32_t max_messages);

/* Returns what work_wait() takes, 0 without a log; a full one fails the run with ERR_NOMEM. What nobody waits for, compute waits for at the end
 * of its stage. */
struct work_sending {
    enum collective what;
    uint64_t bytes;
    struct work_group group;
    unsigned stream;           /* enum stream_id */
    bool after_compute;
};
uint32_t work_send(struct run *r, struct work_sending s);
void work_wait(struct run *r, uint32_t message); /* the compute stream waits for it, here */
void work_host_after(struct run *r, uint32_t message, uint32_t kernels); /* the host waits for that many, before it enqueues it */
void work_message(struct run *r, enum collective what, uint64_t bytes);          /* over all ranks, after compute, waited for at the end of its stage */
uint32_t work_send_native(struct run *r, enum collective what, uint64_t bytes); /* of C++ itself, over all ranks, after compute: DDP's reducer */

/* For a foreach list or a kernel of one launch over plain arrays: optimizers, clipping. Nothing without a log. `op`: an enum op. */
void work_add(struct run *r, unsigned op, uint64_t flops, uint64_t bytes, uint32_t launches);

#endif
