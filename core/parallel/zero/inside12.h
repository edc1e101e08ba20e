/*
 * inside12.h - DeepSpeed's ZeRO stages 1 and 2 on one rank: what zero12*.c share. Included by core/parallel only.
 *
 * Purpose   half weights are views of one flat buffer for each group of the optimizer; a rank owns an equal share of it, as fp32 weights and states.
 *           Gradients go through a bucket of reduce_elems elements, are averaged over the ranks, and what touches the rank's share is kept.
 * Source    deepspeed 0.14.2 and 0.19.8 runtime/zero/stage_1_and_2.py, runtime/engine.py; defaults of runtime/zero/config.py.
 * Models    contiguous_gradients, reduce_scatter, use_multi_rank_bucket_allreduce (all defaults); overlap_comm; offload of the optimizer.
 *           Not modelled: round_robin_gradients, parameter_alignment, grad_accum_dtype, zero_init (stage 3's), ZenFlow, Muon, experts;
 *           flattening on the host where the device is full.
 * Units     elements, unless a name says bytes.
 * Owner     the run's arena.
 */
#ifndef PARALLEL_ZERO_INSIDE12_H
#define PARALLEL_ZERO_INSIDE12_H

#include "parallel/zero/zero_common.h"

/* A trained parameter; its number is DeepSpeed's param_id. */
struct zero12_param {
    val leaf;
    uint8_t group;
    bool mine;              /* the rank's share touches it */
    uint64_t elems, offset; /* offset: in the group's flat buffer */
    uint64_t begin, end;    /* of its own elements, which are in the rank's share */
    val norm;               /* offload: norm_for_param_grads */
};

struct zero12_group {
    uint32_t begin, end;           /* in params */
    uint32_t mine_begin, mine_end; /* of those, that the share touches */
    uint64_t elems, flat_elems, share;
    val flat, master;
    struct optim optim;
    struct optim_state state;
    val *averaged; /* averaged_gradients: what the share needs of each, and last the padding; while gradients accumulate and at the step */
    uint32_t n_averaged;
};

struct zero12 {
    struct zero_engine engine;
    struct run *r;
    const struct parallel_options *o;
    uint32_t ranks, rank;
    bool shards_gradients, offload, overlap; /* stage 2; */
    enum dtype dtype;
    struct zero12_group groups[ZERO_GROUPS];
    uint32_t n_groups, n;
    struct zero12_param *params;
    uint32_t *index_of; /* by value: parameter + 1 */
    uint32_t *in_order; /* where the model's i-th stands, once they are dealt out; NULL: they are not */
    val last_leaf;
    uint64_t largest; /* elements of the largest parameter */
    bool boundary, ready, pending_copies;
    bool accumulated; /* accumulated_grads_in_cpu stands */
    uint32_t micro_step;
    /* ipg_bucket */
    val buffer[2];
    unsigned which;
    uint64_t in_bucket;
    uint32_t *bucket, n_bucket;
    bool extra_large;
    val block; /* grads_in_partition */
    uint32_t *norm_order, n_norms;
    val temp_buffer; /* temp_grad_buffer_for_gpu_offload */
    val *list;       /* room for the gradients of a step */
};

/* zero12_layout.c: the share of a rank, of a group whose params have offsets. */
void zero12_share(struct zero12 *z, struct zero12_group *g);
void zero12_flatten(struct zero12 *z, struct zero12_group *g); /* the constructor's loop over param_groups */
static inline uint32_t zero12_owner(const struct zero12_group *g, uint64_t element)
{
    return (uint32_t)(element / g->share);
}

/*
 * zero12_ranks.c. The first is the highest as a rule: in 498 of 528 walks (6 models of 0.5 to 8 B, 2 to 32 ranks, both stages, offload, accumulation, both
 * releases) no other rank had more live blocks; the worst miss was 4.5 %, the mean 0.06 %.
 */
uint32_t zero12_ranks(const struct parallel_options *o, const struct tree *tree, uint32_t max, uint32_t *ret);

/* zero12_reduce.c */
void zero12_make_buffers(struct zero12 *z);
void zero12_add(struct zero12 *z, uint32_t param); /* reduce_independent_p_g_buckets_and_remove_grads */
void zero12_reduce(struct zero12 *z);              /* reduce_ipg_grads */
void zero12_epilogue(struct zero12 *z);            /* independent_gradient_partition_epilogue */

/* zero12_copy.c */
void zero12_keep_gradient(struct zero12 *z, uint32_t param); /* copy_grads_in_partition */
uint64_t zero12_host_bytes(const struct zero12 *z);          /* of this rank; of all together */
uint64_t zero12_host_bytes_of_all(const struct zero12 *z);

/* zero12_step.c */
void zero12_step(struct zero12 *z);

static inline val *zero12_gradient(const struct zero12 *z, uint32_t param)
{
    return grad_of(z->r, z->params[param].leaf);
}
void zero12_clear_gradient(struct zero12 *z, uint32_t param);
val zero12_slice(struct run *r, val of, uint64_t elems); /* a view of so many of its elements, in one dimension; owned */

#endif
