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
    uint32_t at;               /* events that the tape had */
    struct work_group group;
    uint8_t collective, stage; /* enum collective, enum stage */
    uint8_t stream;            /* enum stream_id: messages of one stream follow each other */
    uint8_t from;              /* enum stream_id that was current, whose work it waits for */
    bool after_compute;        /* it also waits for the compute stream's kernels before it */
    bool native;               /* enqueued from C++: no Python runs for it */
    bool counts;               /* a number of each tensor of the model, or of each bucket */
    bool apart;                /* over a communicator of its own: waits for those alone */
};
#define MESSAGE_UNWAITED UINT32_MAX

/* Whose flash kernels a run has: the log holds the operator, not the release that wrote it. */
enum flash_kernel { FLASH_2, FLASH_1, FLASH_3, FLASH_CUDNN };

/* One launch, or several alike that follow each other (the chunks of a foreach list). */
struct kernel {
    uint64_t flops, bytes;
    uint32_t rows, columns, inner, batch; /* of a matrix product; batch 0: no product */
    uint32_t launches;
    uint32_t chunks, tensors;             /* of a foreach list */
    uint16_t op;
    uint16_t calls;                       /* what the host ran for it: operators and autograd nodes since the kernel before, itself included */
    uint16_t hooks;                       /* and hooks in Python */
    uint8_t work, dtype, stage, stream;   /* enum work_class; what it computes in; enum stage; enum stream_id */
    uint8_t lists;                        /* that a foreach kernel goes along; 0: no such kernel */
    bool recompute;                       /* a checkpointed region runs again */
    bool unaligned;                       /* of a product: rows of a factor or of the result begin at odd halves */
    uint32_t at;                          /* events that the tape had */
};

/* What streams and the host wait for, in program order among kernels and messages. */
enum order_kind {
    ORDER_STREAM_WAITS, /* `stream` for all that `of`, a stream, was given */
    ORDER_TAKES,        /* `stream` for the message `of` */
    ORDER_EVENT,        /* a CUDA event is recorded on `stream`; its number is `of` */
    ORDER_HOST_WAITS,   /* the host for the event `of` */
    ORDER_HOST_SYNCS,   /* the host for all streams */
};

struct order {
    uint32_t kernel, message; /* those before it */
    uint32_t at;              /* events that the tape had */
    uint32_t of;
    uint8_t kind, stream;
};

struct work {
    uint32_t n_kernels, max_kernels, n_messages, max_messages, n_orders, max_orders; /* max_orders 0: none are logged */
    uint32_t calls, hooks;                /* since the last kernel */
    uint32_t n_events;                    /* CUDA events recorded */
    struct kernel *kernels;
    struct message *messages;
    struct order *orders;
};

struct work_limits {
    uint32_t kernels, messages, orders;
};

/* false when the arena is full. No kernels: messages alone; no orders: none are logged. The kernels stand last: what they do not take can be
 * given back. */
bool work_init(struct work *w, struct arena *arena, struct work_limits limits);

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
uint32_t work_send_apart(struct run *r, struct work_sending s); /* over a communicator of its own among those of the group */
void work_wait(struct run *r, uint32_t message); /* the current stream waits for it, here */
void stream_waits(struct run *r, unsigned stream); /* the current stream for all that another, an enum stream_id, was given */
void stream_takes(struct run *r, uint32_t message); /* for the message alone; step times leave it to the end of its stage */
uint32_t event_records(struct run *r); /* of the current stream; its number from 1, 0 without a log */
void event_awaited(struct run *r, uint32_t number); /* by the host */
void streams_awaited(struct run *r);
void work_host_after(struct run *r, uint32_t message, uint32_t kernels); /* the host waits for that many, before it enqueues it */
void work_message(struct run *r, enum collective what, uint64_t bytes);          /* over all ranks, after compute, waited for at the end of its stage */
uint32_t work_send_native(struct run *r, enum collective what, uint64_t bytes); /* of C++ itself, over all ranks, after compute: DDP's reducer */
uint32_t work_send_counts(struct run *r, enum collective what, uint64_t n); /* the same: n numbers, one of each tensor or bucket */

/* For a foreach list or a kernel of one launch over plain arrays: optimizers, clipping. Nothing without a log. `op`: an enum op. */
void work_add(struct run *r, unsigned op, uint64_t flops, uint64_t bytes, uint32_t launches);

void work_add_product(struct run *r, unsigned op, unsigned dtype, uint64_t flops, uint64_t bytes); /* of packed factors, multiplied in `dtype` */

/* A foreach list: `lists` tensors side by side, so many each, cut into chunks; how often it launches, and what the host runs beside the first launch. */
void work_add_list(struct run *r, unsigned op, uint64_t flops, uint64_t bytes, unsigned lists, uint64_t chunks, uint64_t tensors);
uint32_t work_launches(unsigned lists, uint64_t chunks, uint64_t tensors);

static inline uint32_t work_calls(uint32_t launches)
{
    return launches < 1024 ? launches - 1 : 1023;
}

#endif
