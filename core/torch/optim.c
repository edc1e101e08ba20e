#include "torch/optim.h"

#include "torch/autograd.h"

#include <string.h>
#include "torch/work.h"

static val like(struct run *r, enum op op, val of)
{
    val v = value_empty(r, op, dtype_of(r, of), r->values[of].ndim, r->values[of].size);

    if (v && !r->values[of].contiguous)
        for (int i = 0; i < r->values[of].ndim; i++)
            r->values[v].stride[i] = r->values[of].stride[i];
    return owned(r, v);
}

static val state(struct run *r, enum op op, val of)
{
    val v = like(r, op, of);

    mark_block(r, v, MARK_OPTIMIZER_STATE);
    return v;
}

static bool has_grad(const struct run *r, val leaf)
{
    val *g = grad_of((struct run *)(uintptr_t)r, leaf);

    return g && *g;
}

/* ----------------------------------------------------------------------------------------------------------- kernels */
enum { CHUNK = 65536, BLOCKS_MAX = 320 }; /* MultiTensorApply.cuh kChunkSize; depth_to_max_blocks */

/* What one kernel does with each element of a parameter: tensors it reads and writes, in the parameter's dtype. `lists` of a foreach
 * kernel: depth_to_max_tensors of MultiTensorApply.cuh, indexed from 1. */
struct update {
    uint8_t op, accesses, flops, lists;
};
enum { MAX_UPDATES = 8 };
static const uint8_t tensors_max[] = {0, 110, 64, 48, 36, 30};

/* adam.py _multi_tensor_adam and _single_tensor_adam: decay, lerp_, mul_, addcmul_, sqrt, div_, add_, addcdiv_; fused_adam_impl.cu reads and
 * writes parameter and two states and reads the gradient; sgd.py: one add_. */
static const struct update updates[][MAX_UPDATES] = {
    [OPTIM_ADAMW_FOREACH] = {{OP_MUL, 2, 1, 1},
                             {OP_ADD, 3, 3, 2},
                             {OP_MUL, 2, 1, 1},
                             {OP_ADD, 3, 3, 3},
                             {OP_FOREACH_SQRT, 2, 1, 2},
                             {OP_DIV, 2, 1, 1},
                             {OP_ADD, 2, 1, 1},
                             {OP_DIV, 4, 3, 3}},
    [OPTIM_ADAMW_FUSED] = {{OP_ADD, 7, 14, 4}},
    [OPTIM_ADAMW_LOOP] = {{OP_MUL, 2, 1, 0},
                          {OP_ADD, 3, 3, 0},
                          {OP_MUL, 2, 1, 0},
                          {OP_ADD, 3, 3, 0},
                          {OP_SQRT, 2, 1, 0},
                          {OP_DIV, 2, 1, 0},
                          {OP_ADD, 2, 1, 0},
                          {OP_DIV, 4, 3, 0}},
    [OPTIM_SGD] = {{OP_ADD, 3, 2, 2}},
};

struct sums {
    uint64_t elems, bytes, chunks, tensors;
};

static struct sums sums_of(const struct run *r, uint32_t n, const val *leaves)
{
    struct sums s = {0};

    for (uint32_t i = 0; i < n; i++)
        if (has_grad(r, leaves[i])) {
            uint64_t elems = (uint64_t)numel(r, leaves[i]);

            s.elems += elems;
            s.bytes += elems * dtype_bytes(dtype_of(r, leaves[i]));
            s.chunks += (elems + CHUNK - 1) / CHUNK;
            s.tensors++;
        }
    return s;
}

static void launch_update(struct run *r, const struct update *u, const struct sums *s)
{
    uint64_t launches = s->tensors;

    if (u->lists && s->tensors)
        launches = 1 + s->chunks / BLOCKS_MAX + s->tensors / tensors_max[u->lists];
    work_add(r, u->op, s->elems * u->flops, s->bytes * u->accesses, (uint32_t)launches);
}

static void launch_updates(struct run *r, const struct optim *o, int g)
{
    struct sums s;

    if (!r->work || !o->n_group[g])
        return;
    s = sums_of(r, o->n_group[g], o->group[g]);
    for (int i = 0; i < MAX_UPDATES && updates[o->kind][i].accesses; i++)
        launch_update(r, &updates[o->kind][i], &s);
}

/* _foreach_norm and _foreach_mul_ of the gradients, _amp_foreach_non_finite_check_and_unscale_ */
static void launch_over_gradients(struct run *r, enum op op, unsigned accesses, uint32_t n, const val *leaves)
{
    struct sums s;

    if (!r->work)
        return;
    s = sums_of(r, n, leaves);
    launch_update(r, &(struct update){(uint8_t)op, (uint8_t)accesses, 1, 1}, &s);
}

/* adam.py _init_group: fused keeps its step on the device */
static void init_state(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    if (o->kind == OPTIM_ADAFACTOR) {
        optim_adafactor_init(r, s, leaf);
        return;
    }
    if (optim_is_bnb(o->kind)) {
        optim_bnb_init(r, o, s, leaf);
        return;
    }
    if (o->kind == OPTIM_ADAMW_FUSED) {
        s->step = owned(r, value_empty(r, OP_ZEROS, DTYPE_FP32, 0, NULL));
        mark_block(r, s->step, MARK_OPTIMIZER_STATE);
    }
    s->exp_avg = state(r, OP_ZEROS_LIKE, leaf);
    s->exp_avg_sq = state(r, OP_ZEROS_LIKE, leaf);
}

static void init_states(struct run *r, struct optim *o, int g)
{
    for (uint32_t i = 0; i < o->n_group[g]; i++)
        if (!o->state[g][i].exp_avg && has_grad(r, o->group[g][i]))
            init_state(r, o, &o->state[g][i], o->group[g][i]);
}

void optim_prepare(struct run *r, struct optim *o)
{
    for (int g = 0; g < OPTIM_GROUPS && o->kind != OPTIM_SGD; g++)
        for (uint32_t i = 0; i < o->n_group[g]; i++)
            init_state(r, o, &o->state[g][i], o->group[g][i]);
}

/* _group_tensors_by_device_and_dtype, ForeachUtils.cpp: an unordered_map, which libstdc++ walks from the key that came last. Returns how many. */
static int dtypes_of(const struct run *r, uint32_t n, const val *leaves, enum dtype ret[DTYPE_COUNT])
{
    int count = 0, k;

    for (uint32_t i = 0; i < n; i++) {
        enum dtype t = dtype_of(r, leaves[i]);

        for (k = 0; k < count && ret[k] != t; k++)
            ;
        if (k < count || !has_grad(r, leaves[i]))
            continue;
        memmove(ret + 1, ret, (size_t)count * sizeof *ret);
        ret[0] = t;
        count++;
    }
    return count;
}

/* _multi_tensor_adam: exp_avg_sq_sqrt = torch._foreach_sqrt(..), one list for each dtype, a local that the next one binds anew */
static void foreach_adamw(struct run *r, struct optim *o, int g)
{
    uint32_t n = o->n_group[g], before = 0, last = 0;
    unsigned char *mark = r->arena->cur;
    val *roots = arena_array(r->arena, val, n);
    enum dtype order[DTYPE_COUNT];
    int dtypes = dtypes_of(r, n, o->group[g], order);

    if (!roots) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the optimizer's lists");
        return;
    }
    for (int t = 0; t < dtypes; t++) {
        uint32_t m = last;

        for (uint32_t i = 0; i < n; i++)
            if (o->state[g][i].exp_avg_sq && dtype_of(r, o->group[g][i]) == order[t])
                roots[m++] = like(r, OP_FOREACH_SQRT, o->state[g][i].exp_avg_sq);
        for (uint32_t i = last; i > before; i--)
            value_unref(r, roots[i - 1]);
        before = last;
        last = m;
    }
    while (last > before)
        value_unref(r, roots[--last]);
    arena_rewind(r->arena, mark);
}

/* _single_tensor_adam: denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps), a local that the next parameter binds anew */
static void loop_adamw(struct run *r, struct optim *o, int g)
{
    val denominator = 0;

    for (uint32_t i = 0; i < o->n_group[g]; i++) {
        val root, last = denominator;

        if (!o->state[g][i].exp_avg_sq)
            continue;
        root = like(r, OP_SQRT, o->state[g][i].exp_avg_sq);
        denominator = like(r, OP_DIV, o->state[g][i].exp_avg_sq);
        value_unref(r, root);
        value_unref(r, last);
    }
    value_unref(r, denominator);
}

/* A DTensor's gradient may be whole where the parameter is cut (an embedding's): each list of gradients that a kernel takes has this rank's part copied
 * out first (placement_types.py Shard._replicate_to_shard), and lets go of it after. */
static void take_shards(struct run *r, const struct optim *o, int g, uint32_t lists)
{
    unsigned char *mark = r->arena->cur;
    uint32_t n = 0, most = lists * o->n_group[g];
    val *shards = arena_array(r->arena, val, most ? most : 1);

    if (!shards) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the optimizer's lists");
        return;
    }
    for (uint32_t l = 0; l < lists; l++)
        for (uint32_t i = 0; i < o->n_group[g]; i++) {
            val leaf = o->group[g][i], *grad = grad_of(r, leaf);

            if (grad && *grad && numel(r, *grad) != numel(r, leaf))
                shards[n++] = like(r, OP_CLONE, leaf);
        }
    while (n)
        value_unref(r, shards[--n]);
    arena_rewind(r->arena, mark);
}

void optim_step(struct run *r, struct optim *o)
{
    if (o->kind == OPTIM_ADAFACTOR) {
        optim_adafactor_step(r, o);
        return;
    }
    for (int g = 0; g < OPTIM_GROUPS; g++) {
        if (optim_is_bnb(o->kind)) {
            optim_bnb_step(r, o, g);
            continue;
        }
        launch_updates(r, o, g);
        if (o->kind != OPTIM_SGD)
            init_states(r, o, g);
        take_shards(r, o, g, 1); /* lerp_, fused, add_ */
        if (o->kind == OPTIM_ADAMW_FOREACH || o->kind == OPTIM_ADAMW_LOOP)
            take_shards(r, o, g, 2); /* addcmul_ */
        if (o->kind == OPTIM_ADAMW_FOREACH)
            foreach_adamw(r, o, g);
        else if (o->kind == OPTIM_ADAMW_LOOP)
            loop_adamw(r, o, g);
    }
}

/* ---------------------------------------------------------------------------------------------------------- clipping */
static int64_t chunks(const struct run *r, val v)
{
    return (numel(r, v) + CHUNK - 1) / CHUNK;
}

/* ForeachReduceOp.cu foreach_tensor_norm_cuda: fp32 partial sums of every chunk, then one norm a tensor. */
static uint32_t foreach_norm(struct run *r, enum dtype t, uint32_t n, const val *leaves, val *norms)
{
    uint32_t m = 0, partial, offsets = 0;
    int64_t total = 0, most = 0;

    for (uint32_t i = 0; i < n; i++)
        if (has_grad(r, leaves[i]) && dtype_of(r, leaves[i]) == t) {
            int64_t c = chunks(r, leaves[i]);

            total += c;
            most = c > most ? c : most;
            m++;
        }
    if (!m)
        return 0;
    if (r->q->foreach_norm != FOREACH_NORM_VIEWS) {
        if (r->q->foreach_norm == FOREACH_NORM_PACKED) {
            offsets = scratch_take(r, OP_TO_COPY, (m + 1) * 8, MARK_NONE);
            partial = scratch_take(r, OP_FOREACH_NORM, (uint64_t)total * 4, MARK_NONE);
        } else
            partial = scratch_take(r, OP_ZEROS, (uint64_t)(m * most) * 4, MARK_NONE);
        for (uint32_t i = 0; i < m; i++)
            norms[i] = owned(r, value_empty(r, OP_FOREACH_NORM, t, 0, NULL));
        scratch_give(r, partial);
        scratch_give(r, offsets);
        return m;
    }
    partial = scratch_take(r, OP_ZEROS, (uint64_t)(m * most) * 4, MARK_NONE);
    norms[0] = owned(r, value_empty(r, OP_FOREACH_NORM, t, SHAPE(m))); /* the list is views of one tensor */
    scratch_give(r, partial);
    return 1;
}

val clip_grad_norm(struct run *r, uint32_t n, const val *leaves)
{
    unsigned char *mark = r->arena->cur;
    val *norms = arena_array(r->arena, val, n ? n : 1), stacked, total, sum, inverse, coefficient, clamped;
    uint32_t m = 0, count = 0;
    enum dtype t = DTYPE_FP32, order[DTYPE_COUNT];
    int dtypes;

    if (!norms) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the gradients' norms");
        return 0;
    }
    dtypes = dtypes_of(r, n, leaves, order);
    for (uint32_t i = 0; i < n; i++)
        if (has_grad(r, leaves[i]) && count++ == 0)
            t = dtype_of(r, leaves[i]);
    launch_over_gradients(r, OP_FOREACH_NORM, 1, n, leaves);
    launch_over_gradients(r, OP_MUL, 2, n, leaves);
    for (int k = 0; k < dtypes; k++)
        m += foreach_norm(r, order[k], n, leaves, norms + m);
    if (!m) {
        arena_rewind(r->arena, mark);
        return 0;
    }
    stacked = owned(r, value_empty(r, OP_CAT, t, SHAPE(count)));
    total = owned(r, value_empty(r, OP_VECTOR_NORM, t, 0, NULL));
    value_unref(r, stacked);
    while (m && r->q->norms_die_with_total)
        value_unref(r, norms[--m]);
    /* max_norm / (total_norm + 1e-6): add, then reciprocal and mul; clamp; the gradients are multiplied in place */
    sum = owned(r, value_empty(r, OP_ADD, t, 0, NULL));
    inverse = owned(r, value_empty(r, OP_RECIPROCAL, t, 0, NULL));
    coefficient = owned(r, value_empty(r, OP_MUL, t, 0, NULL));
    value_unref(r, inverse);
    value_unref(r, sum);
    clamped = owned(r, value_empty(r, OP_CLAMP, t, 0, NULL));
    value_unref(r, coefficient);
    value_unref(r, clamped);
    while (m)
        value_unref(r, norms[--m]);
    arena_rewind(r->arena, mark);
    return total;
}

/* ------------------------------------------------------------------------------------------------------------ scaler */
val scaler_scale(struct run *r, struct scaler *s, val loss)
{
    if (!s->scale) {
        s->scale = owned(r, value_empty(r, OP_FULL, DTYPE_FP32, 0, NULL));
        s->growth_tracker = owned(r, value_empty(r, OP_FULL, DTYPE_INT32, 0, NULL));
    }
    return mul(r, loss, s->scale);
}

/* unscale_: 1 / scale in double and back; _MultiDeviceReplicator.get copies found_inf, which stays, and the inverse */
void scaler_unscale(struct run *r, struct scaler *s)
{
    val wide = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP64, 0, NULL));
    val inverse = owned(r, value_empty(r, OP_RECIPROCAL, DTYPE_FP64, 0, NULL)), narrow, master, copy;

    value_unref(r, wide);
    narrow = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, 0, NULL));
    value_unref(r, inverse);
    master = owned(r, value_empty(r, OP_FULL, DTYPE_FP32, 0, NULL));
    s->found_inf = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, 0, NULL));
    copy = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, 0, NULL));
    value_unref(r, copy);
    value_unref(r, master);
    value_unref(r, narrow);
}

/* step: without clipping nobody unscaled yet; fused kernels are handed sum(found_inf), which dies with the step */
void scaler_step(struct run *r, struct scaler *s, struct optim *o)
{
    val sum = 0;

    if (!s->found_inf)
        scaler_unscale(r, s);
    for (int g = 0; g < OPTIM_GROUPS; g++)
        launch_over_gradients(r, OP_MUL, 2, o->n_group[g], o->group[g]);
    if (o->kind == OPTIM_ADAMW_FUSED)
        sum = owned(r, value_empty(r, OP_ADD, DTYPE_FP32, 0, NULL));
    optim_step(r, o);
    value_unref(r, sum);
}

void scaler_update(struct run *r, struct scaler *s)
{
    if (s->found_inf)
        value_unref(r, s->found_inf);
    s->found_inf = 0;
}
