/*
 * inside.h - FullyShardedDataParallel (FSDP1) around a model: the memory of one rank. Included by core/parallel/fsdp1 only.
 *
 * Purpose   every decoder layer is a unit, what is left the root unit; under LoRA each trained leaf module is one of its own (peft's policy).
 *           A unit's parameters are one flat tensor, of which a rank keeps an equal piece. Forward reads views of the gathered flat tensor,
 *           which autograd sees: the gradient of the whole is put together from theirs, reduced, and a piece of it kept.
 * Order     as _runtime_utils.py has it; functions here bear its names. Streams: STREAM_GATHER is its unshard stream, STREAM_GATHER_COPY
 *           pre_unshard, STREAM_REDUCE post_backward, STREAM_ALL_REDUCE all_reduce.
 * Source    torch/distributed/fsdp/{_runtime_utils,_flat_param,_init_utils,_exec_order_utils,_limiter_utils,fully_sharded_data_parallel,wrap}.py, the
 *           same in 2.2 and 2.15 but for the rows of quirks.def.
 * Not modelled: communication hooks, ignored modules, summon_full_params, models with several root units.
 * Owner     the run's arena.
 */
#ifndef PARALLEL_FSDP1_INSIDE_H
#define PARALLEL_FSDP1_INSIDE_H

#include "parallel/program.h"

enum handle_state { HANDLE_IDLE, HANDLE_FORWARD, HANDLE_BACKWARD_PRE, HANDLE_BACKWARD_POST };

/* A parameter in the flat tensor, or padding before it. */
struct piece {
    struct param *param; /* NULL: padding */
    int64_t elems;
};

/* FlatParamHandle and the state of its FullyShardedDataParallel. */
struct unit {
    struct fsdp1 *all;
    struct module *module;
    uint32_t n_params, n_pieces, n_tied;
    struct piece *pieces;
    struct param **params, **tied; /* tied: other names of params of the unit */
    int64_t *lengths;              /* of the pieces */
    val *view;                     /* of each param: what forward and its recomputation read; _tensors */
    val *original;                 /* use_orig_params: each param's piece of the shard, what the optimizer trains */
    val flat;                      /* the FlatParameter, a leaf whose data changes */
    val local, low, full; /* its shard, under offload without a storage here; the shard in the compute dtype, 0 where nothing is cast; all of it, padded */
    val half, *halves;             /* the shard that was cast to fp32 and its pieces, while use_orig_params' parameters are those */
    val seen;                      /* what was flattened on the device and left for the host, until views of it stand */
    val copied;                    /* under offload: the shard on the device, while use_orig_params' parameters are views of it */
    int64_t elems, shard_elems;
    enum dtype master, compute, reduce;
    enum handle_state state;
    bool trained, hooked, prefetched, skipped_sharded_views;
    bool needs_forward_unshard, needs_backward_unshard, ran_pre_backward, post_backward_called;
    bool frozen_shown;                             /* its frozen parameters' gradients are views of the whole one */
    val saved_gradient;                            /* _saved_grad_shard, owned */
    int32_t pre_forward_index, post_forward_index; /* -1: none */
    uint32_t watched;                              /* AccumulateGrad of a leaf whose gradient a hook waits for */
    uint32_t message;                              /* work.h: the all-gather that is under way */
};

struct fsdp1 {
    struct run *r;
    struct tree *tree;
    const struct parallel_options *o;
    struct leaves *leaves; /* the optimizer's, for clipping where nothing is sharded */
    uint32_t n_units, n_order, max_order, n_first_order;
    struct unit *units;       /* [0]: the root; then as modules stand in the tree */
    uint32_t *unit_of_module; /* by number: unit + 1 */
    uint32_t *unit_of_flat;   /* by value: unit + 1 */
    val last_flat;
    struct unit **post_forward_order, **pre_forward_order;
    val *parts;            /* of the flat tensor that is split now */
    uint32_t shards, rank; /* of the group that shares one copy */
    bool beside; /* it is only asked: no backward, no optimizer */
    bool offload; /* CPUOffload(offload_params=True): shards, their gradients and the optimizer are on the host */
    uint64_t host_bytes, trained_host_bytes; /* under offload: what stays between two steps; shards of what is trained */
    bool sharded, reshards_after_forward, hybrid, mixed, initialised, second_iteration, synchronises, callback_queued;
    struct {
        uint32_t *position; /* of the tape, when a gathered tensor was freed; a ring */
        uint32_t *kernels;  /* of the log, then */
        uint32_t first, n, room;
    } freed; /* rate limiter: _FreeEventQueue */
    uint32_t last_reduce, last_all_reduce;
    val zero_scalar, item_count; /* item_count: cast_root_forward_inputs casts what is no integer */
};

static inline struct unit *root_of(struct fsdp1 *f)
{
    return &f->units[0];
}

/* ---- fsdp1_load.c */
bool unit_declare(struct unit *u);                 /* which parameters, where in the flat tensor */
void unit_load(struct unit *u);                    /* to the device, flattened, sharded */
void unit_upcast(struct unit *u);                  /* a trained shard in half becomes fp32, where accelerate does that */
void unit_show(struct unit *u, const val *values); /* what forward finds under the parameters' names */

/* ---- fsdp1_flat.c: the flat tensor */
void unit_init_attributes(struct unit *u); /* at the first forward: what shards are gathered into */
void unit_unshard(struct unit *u);
void unit_wait(struct unit *u); /* the compute stream waits for it */
void unit_reshard(struct unit *u, bool free_full);
bool unit_is_resharded(const struct unit *u);

/* ---- fsdp1_runtime.c: hooks; `of`: the unit, of the first the program's state */
void fsdp1_post_backward(void *of, val leaf);
val fsdp1_pre_forward(struct run *r, struct module *m, void *of, val x);
val fsdp1_post_forward(struct run *r, struct module *m, void *of, val result);
void fsdp1_after_forward(struct unit *u, uint32_t n, const val *outputs);
void fsdp1_reset_gradients(struct fsdp1 *f);

/* ---- fsdp1_reduce.c: gradients */
void unit_reset_gradient(struct unit *u); /* once the optimizer's parameters have let go of theirs, the flat one goes */
void unit_prepare_for_backward(struct unit *u);
void unit_prepare_for_optimizer(struct unit *u);
void unit_use_unsharded_gradient_views(struct unit *u);
void unit_reduce_gradient(struct unit *u);

/* ---- fsdp1_clip.c */
val fsdp1_clip(void *of, double max_norm);

#endif
