/* optim.c - the table of optimizers; gradient clipping; the gradient scaler. */
#include "torch/optim_inside.h"

#define TORCH {optim_torch_init, optim_torch_step, false}
#define BNB {optim_bnb_init, optim_bnb_step, false}
#define AO {optim_ao_init, optim_ao_step, false}
const struct optim_row optim_rows[OPTIM_KINDS] = {
    [OPTIM_ADAMW_FOREACH] = TORCH,
    [OPTIM_ADAMW_FUSED] = TORCH,
    [OPTIM_ADAMW_LOOP] = TORCH,
    [OPTIM_ADAMW_HF] = TORCH,
    [OPTIM_SGD] = {NULL, optim_torch_step, false},
    [OPTIM_ADAGRAD] = {optim_torch_init, optim_torch_step, true},
    [OPTIM_RMSPROP] = TORCH,
    [OPTIM_FREE_ADAMW] = TORCH,
    [OPTIM_FREE_SGD] = TORCH,
    [OPTIM_MUON] = {optim_muon_init, optim_muon_step, false},
    [OPTIM_BNB_ADAMW_8BIT] = BNB,
    [OPTIM_BNB_ADAMW_32BIT] = BNB,
    [OPTIM_BNB_ADEMAMIX_8BIT] = BNB,
    [OPTIM_BNB_ADEMAMIX_32BIT] = BNB,
    [OPTIM_BNB_LION_8BIT] = BNB,
    [OPTIM_BNB_LION_32BIT] = BNB,
    [OPTIM_BNB_RMSPROP_8BIT] = BNB,
    [OPTIM_BNB_RMSPROP_32BIT] = BNB,
    [OPTIM_AO_ADAMW_8BIT] = AO,
    [OPTIM_AO_ADAMW_4BIT] = AO,
    [OPTIM_ADAFACTOR] = {optim_adafactor_init, optim_adafactor_step, false},
};
#undef TORCH
#undef BNB
#undef AO

bool optim_takes_scaler(enum optim_kind kind)
{
    return kind == OPTIM_ADAMW_FUSED;
}

/* ------------------------------------------------------------------------------------------------------------- steps */
void optim_prepare(struct run *r, struct optim *o)
{
    struct optim rest = *o;

    rest.kind = OPTIM_ADAMW_FOREACH;
    for (int g = 0; g < OPTIM_GROUPS; g++) {
        struct optim *own = o->kind == OPTIM_MUON && g ? &rest : o;

        for (uint32_t i = 0; i < o->n_group[g] && optim_rows[own->kind].init; i++)
            if (!o->state[g][i].stands)
                optim_rows[own->kind].init(r, own, &o->state[g][i], o->group[g][i]);
    }
}

void optim_start(struct run *r, struct optim *o)
{
    if (optim_rows[o->kind].stands_at_start)
        optim_prepare(r, o);
}

void optim_step(struct run *r, struct optim *o)
{
    optim_rows[o->kind].step(r, o);
}

void optim_step_one(struct run *r, struct optim *o, int g, uint32_t i)
{
    struct optim one = {.kind = o->kind, .paged = o->paged}; /* maps of its own: each parameter has an optimizer */

    one.n_group[g] = 1;
    one.group[g] = &o->group[g][i];
    one.state[g] = &o->state[g][i];
    optim_step(r, &one);
    o->page_bytes += one.page_bytes;
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
        if (optim_has_grad(r, leaves[i]) && dtype_of(r, leaves[i]) == t) {
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
    dtypes = optim_dtypes_of(r, n, leaves, order);
    for (uint32_t i = 0; i < n; i++)
        if (optim_has_grad(r, leaves[i])) /* torch.stack() promotes */
            t = !count++ || dtype_of(r, leaves[i]) > t ? dtype_of(r, leaves[i]) : t;
    optim_launch_over(r, OP_FOREACH_NORM, 1, n, leaves);
    optim_launch_over(r, OP_MUL, 2, n, leaves);
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

/* step: without clipping nobody unscaled yet; fused kernels are handed sum(found_inf) */
val scaler_before_step(struct run *r, struct scaler *s, const struct optim *o)
{
    if (!s->found_inf)
        scaler_unscale(r, s);
    for (int g = 0; g < OPTIM_GROUPS; g++)
        optim_launch_over(r, OP_MUL, 2, o->n_group[g], o->group[g]);
    return optim_takes_scaler(o->kind) ? owned(r, value_empty(r, OP_ADD, DTYPE_FP32, 0, NULL)) : 0;
}

void scaler_update(struct run *r, struct scaler *s)
{
    if (s->found_inf)
        value_unref(r, s->found_inf);
    s->found_inf = 0;
}
