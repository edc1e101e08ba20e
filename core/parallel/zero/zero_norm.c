/* zero_norm.c - norms of gradients and clipping by them: stage_1_and_2.py get_grad_norm_direct, scaled_global_norm, unscale_and_clip_grads. */
#include "parallel/zero/zero_common.h"
#include "torch/autograd.h"

val zero_norm(struct run *r, val gradient)
{
    val wide, norm;

    if (run_dead(r))
        return 0;
    wide = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP64, 1, (const int64_t[]){numel(r, gradient)}));
    norm = zero_scalar(r, OP_VECTOR_NORM, DTYPE_FP64);
    if (run_dead(r))
        return 0;
    reduce_scratch(r, OP_VECTOR_NORM, wide, 1, 8);
    zero_moved(r, OP_TO_COPY, gradient, 8 + dtype_bytes(dtype_of(r, gradient)));
    zero_moved(r, OP_VECTOR_NORM, gradient, 8);
    value_unref(r, wide);
    return norm;
}

static val sum_of_squares(struct run *r, uint32_t n)
{
    val all = zero_flat(r, OP_CAT, DTYPE_FP64, n), squares = zero_flat(r, OP_POW, DTYPE_FP64, n), sum;

    value_unref(r, all);
    sum = zero_next(r, OP_SUM, DTYPE_FP64, squares);
    return zero_next(r, OP_TO_COPY, DTYPE_FP32, sum);
}

/* isinf is (x.abs() == inf), isnan, either, -1.0; returned in the order in which they die */
static void mark_invalid(struct run *r, val ret[4])
{
    val abs = zero_scalar(r, OP_ABS, DTYPE_FP32);

    ret[0] = zero_next(r, OP_EQ, DTYPE_BOOL, abs);
    ret[1] = zero_scalar(r, OP_NE, DTYPE_BOOL);
    ret[2] = zero_scalar(r, OP_BITWISE_AND, DTYPE_BOOL);
    ret[3] = zero_scalar(r, OP_TO_COPY, DTYPE_FP32);
}

/* 0.14: inf_or_nan * err + inf_or_nan.logical_not() * total_norm */
static val choose_norm(struct run *r, val total)
{
    val wrong = zero_scalar(r, OP_MUL, DTYPE_FP32), valid = zero_scalar(r, OP_LOGICAL_NOT, DTYPE_BOOL), right, sum;

    right = zero_next(r, OP_MUL, DTYPE_FP32, valid);
    sum = zero_scalar(r, OP_ADD, DTYPE_FP32);
    DIE(r, wrong, right, total);
    return sum;
}

val zero_norm_of(struct run *r, uint32_t n, const val *grads)
{
    unsigned char *mark = r->arena->cur;
    val *norms = arena_array(r->arena, val, n ? n : 1), invalid[4], total;
    bool chosen = !r->q->zero_masks_norm;

    if (!norms) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the gradients' norms");
        return 0;
    }
    for (uint32_t i = 0; i < n; i++)
        norms[i] = zero_norm(r, grads[i]);
    total = n ? sum_of_squares(r, n) : zero_scalar(r, OP_TO_COPY, DTYPE_FP32);
    work_message(r, COLLECTIVE_ALL_REDUCE, 4);
    total = zero_next(r, OP_POW, DTYPE_FP32, total);
    mark_invalid(r, invalid);
    if (chosen)
        total = choose_norm(r, total);
    else
        zero_die(r, 4, invalid);
    while (n)
        value_unref(r, norms[--n]);
    if (chosen)
        zero_die(r, 4, invalid);
    arena_rewind(r->arena, mark);
    return total;
}

/* ~isfinite(x) | (x < 0), then any() */
static val invalid_of(struct run *r, val x)
{
    int64_t n = numel(r, x);
    val finite = zero_is_finite(r, x), not_finite = zero_flat(r, OP_BITWISE_NOT, DTYPE_BOOL, (uint64_t)n), negative, either;

    value_unref(r, finite);
    negative = zero_flat(r, OP_LT, DTYPE_BOOL, (uint64_t)n);
    either = zero_flat(r, OP_BITWISE_AND, DTYPE_BOOL, (uint64_t)n);
    DIE(r, not_finite, negative);
    return zero_next(r, OP_ALL, DTYPE_BOOL, either);
}

void zero_check_norm(struct run *r, val norm)
{
    if (run_dead(r))
        return;
    value_unref(r, invalid_of(r, norm));
    host_waits(r);
}

/* torch.where(invalid, inf, vector_norm(stacked)) */
static val combine_checked(struct run *r, uint32_t n)
{
    val stacked = zero_flat(r, OP_CAT, DTYPE_FP32, n), invalid, combined, inf, result;

    if (run_dead(r))
        return 0;
    invalid = invalid_of(r, stacked);
    combined = zero_scalar(r, OP_VECTOR_NORM, DTYPE_FP32);
    inf = zero_scalar(r, OP_FULL, DTYPE_FP32);
    result = zero_next(r, OP_WHERE, DTYPE_FP32, inf);
    DIE(r, stacked, invalid, combined);
    return result;
}

val zero_combine_norms(struct run *r, uint32_t n, const val *norms)
{
    val stacked, result;

    if (r->q->zero_checks_norm) {
        result = combine_checked(r, n);
        zero_die(r, (int)n, norms);
        return result;
    }
    stacked = zero_flat(r, OP_CAT, DTYPE_FP32, n);
    result = zero_next(r, OP_VECTOR_NORM, DTYPE_FP32, stacked);
    while (n)
        value_unref(r, norms[--n]);
    return result;
}

void zero_take_norm(struct zero_engine *e)
{
    e->last_norm = e->global_norm;
    e->global_norm = zero_scalar(e->r, OP_DIV, DTYPE_FP32);
}

/* ------------------------------------------------------------------------------------------------------------ clipping */
/* clip = (norm / loss_scale + 1e-6) / clip_grad */
static val excess(struct run *r)
{
    val v = zero_scalar(r, OP_DIV, DTYPE_FP32);

    v = zero_next(r, OP_ADD, DTYPE_FP32, v);
    return zero_next(r, OP_DIV, DTYPE_FP32, v);
}

/* All on the device. combined = clamp(clip, min=1) * loss_scale, then grad * (1 / combined) */
static void unscale_on_device(struct run *r, val norm)
{
    val clip, combined, inverse;

    if (r->q->zero_checks_norm)
        zero_check_norm(r, norm);
    clip = zero_next(r, OP_CLAMP, DTYPE_FP32, excess(r));
    combined = zero_scalar(r, OP_MUL, DTYPE_FP32);
    inverse = zero_next(r, OP_MUL, DTYPE_FP32, zero_scalar(r, OP_RECIPROCAL, DTYPE_FP32));
    DIE(r, inverse, combined, clip);
}

/* 0.14: if clip > 1, which it is not in the steps that are played */
static void unscale_asked(struct run *r)
{
    val clip = excess(r), above = zero_scalar(r, OP_GT, DTYPE_BOOL);

    host_waits(r);
    DIE(r, above, clip);
}

void zero_unscale(const struct zero_engine *e, val norm, val gradient)
{
    struct run *r = e->r;

    if (run_dead(r))
        return;
    if (e->o->max_grad_norm > 0 && r->q->zero_clamps_clip)
        unscale_on_device(r, norm);
    else if (e->o->max_grad_norm > 0)
        unscale_asked(r);
    zero_moved(r, OP_MUL, gradient, 2 * dtype_bytes(dtype_of(r, gradient)));
}
