/*
 * ddp.h - torch.nn.parallel.DistributedDataParallel around a model: the memory of one rank.
 *
 * Purpose   the reducer holds a second copy of the trained gradients in buckets, from the constructor on. Gradients are copied into them as
 *           they arrive, each full bucket is reduced in turn, and the result is copied back; with bucket_view a gradient becomes
 *           a view of its bucket and its own storage dies. After the first reduced backward the buckets are made anew, in the order in which
 *           the gradients came, unless unused parameters are looked for.
 * Hooks     run.grad_ready of AccumulateGrad. The loop calls ddp_new() when the model stands on the device, ddp_pre_forward() and
 *           ddp_post_forward() around the model's forward, and sets `sync` before each micro-step: false is no_sync().
 * Source    torch/csrc/distributed/c10d/reducer.cpp, torch/nn/parallel/distributed.py 2.2 and 2.15. All blocks are of the compute stream: the collective
 *           reduces the bucket in place.
 * Not modelled: static_graph, sparse gradients, communication hooks, batched_grad_copy, lazy_bucket_allocation; NCCL's own memory; the flat buffers
 *           of the constructor's broadcast (distributed.py broadcast_bucket_size, 250 MiB each), which are gone before the first step; the
 *           broadcast of buffers in forward, which has nothing to send where a model's buffers are not persistent.
 * Owner     the run's arena.
 */
#ifndef PARALLEL_DDP_DDP_H
#define PARALLEL_DDP_DDP_H

#include "torch/run.h"

enum { DDP_BUCKET_MIB = 25, DDP_FIRST_BUCKET_BYTES = 1 << 20 }; /* distributed.py bucket_cap_mb; dist._DEFAULT_FIRST_BUCKET_BYTES */

struct ddp_options {
    uint64_t bucket_bytes, first_bucket_bytes; /* limits: a bucket is closed when it reaches its limit */
    bool find_unused_parameters, bucket_view;
};

/* A trained parameter as buckets see it. */
struct ddp_tensor {
    uint64_t bytes;
    enum dtype dtype;
};

struct ddp_assignment {
    uint32_t n_buckets;
    uint32_t *indices; /* of the tensors, bucket by bucket */
    uint32_t *ends;    /* ends[b]: where bucket b ends in `indices` */
};

/*
 * _compute_bucket_assignment_by_size: a bucket for each dtype is open at a time; limits[k] closes the k-th of a dtype, the last one all
 * further. Taken in the order of `order`, or as they stand where it is NULL: then buckets are sorted by their lowest index.
 * ret's arrays have room for n each.
 */
void ddp_assign(uint32_t n, const struct ddp_tensor *tensors, const uint32_t *order, uint32_t n_limits, const uint64_t *limits,
                struct ddp_assignment *ret);

struct ddp;

/* The constructor, over the trained leaves in the order of named_parameters(). NULL when the run has failed. */
struct ddp *ddp_new(struct run *r, const struct ddp_options *options, uint32_t n, const val *params);
void ddp_sync(struct ddp *d, bool sync); /* require_backward_grad_sync of the micro-step that begins */
void ddp_pre_forward(struct ddp *d);

/* The caller's outputs become those of _DDPSink: clones, and the old ones die. Nothing where unused parameters are not looked for. */
void ddp_post_forward(struct ddp *d, uint32_t n, val *outputs);

#endif
