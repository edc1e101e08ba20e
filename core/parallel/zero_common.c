#include "parallel/zero_common.h"

#include "torch/autograd.h"
#include "torch/work.h"

val zero_flat(struct run *r, enum op op, enum dtype dtype, uint64_t elems)
{
    return owned(r, value_empty(r, op, dtype, 1, (const int64_t[]){(int64_t)elems}));
}

val zero_scalar(struct run *r, enum op op, enum dtype dtype)
{
    return owned(r, value_empty(r, op, dtype, 0, NULL));
}

static void die(struct run *r, int n, const val *all)
{
    for (int i = 0; i < n; i++)
        value_unref(r, all[i]);
}
#define DIE(r, ...) die(r, (int)(sizeof((val[]){__VA_ARGS__}) / sizeof(val)), (const val[]){__VA_ARGS__})

static void moved(struct run *r, enum op op, val v, unsigned bytes_each)
{
    work_add(r, op, 0, (uint64_t)numel(r, v) * bytes_each, 1);
}

/* ---------------------------------------------------------------------------------------------------------- backward */
static void graph(struct run *r, val root)
{
    val one = owned(r, value_empty(r, OP_ONES_LIKE, dtype_of(r, root), 0, NULL));

    if (run_dead(r))
        return;
    run_graph(r, 1, &root, &one);
    value_unref(r, one);
}

/* loss / gradient_accumulation_steps; scale_loss */
static void backward_divides(struct zero_engine *e, val loss, const struct zero_stage *s)
{
    struct run *r = e->r;
    val part = owned(r, div_scalar(r, loss)), scaled = owned(r, mul_scalar(r, part));

    graph(r, scaled);
    s->epilogue(s->of);
    DIE(r, scaled, part);
}

static void optimizer_backward(struct run *r, val loss, const struct zero_stage *s)
{
    val full, scaled;

    if (s->prologue)
        s->prologue(s->of);
    full = to_dtype(r, loss, DTYPE_FP32);
    if (full == loss)
        value_ref(r, full);
    (void)owned(r, full);
    scaled = owned(r, mul_scalar(r, full));
    graph(r, scaled);
    DIE(r, full, scaled);
}

/* loss.mean().detach() is summed up in engine.losses */
static val sum_losses(struct zero_engine *e, val loss)
{
    struct run *r = e->r;
    val mean = zero_scalar(r, OP_MEAN, dtype_of(r, loss)), old = e->losses;

    if (old) {
        e->losses = zero_scalar(r, OP_ADD, dtype_of(r, loss));
        value_unref(r, old);
    } else {
        e->losses = mean;
        value_ref(r, mean);
    }
    return mean;
}

static void backward_sums(struct zero_engine *e, val loss, const struct zero_stage *s)
{
    struct run *r = e->r;
    val part = loss, mean;

    if (e->o->gradient_accumulation_steps > 1) {
        val full = to_dtype(r, loss, DTYPE_FP32);

        part = owned(r, div_scalar(r, full));
    } else {
        value_ref(r, part);
    }
    mean = sum_losses(e, part);
    optimizer_backward(r, part, s);
    s->epilogue(s->of);
    DIE(r, mean, part);
}

void zero_backward(struct zero_engine *e, val loss, const struct zero_stage *s)
{
    if (run_dead(e->r))
        return;
    if (e->r->q->zero_keeps_losses)
        backward_sums(e, loss, s);
    else
        backward_divides(e, loss, s);
}

void zero_step_ends(struct zero_engine *e)
{
    value_unref(e->r, e->last_norm);
    value_unref(e->r, e->losses);
    e->last_norm = e->losses = 0;
}

/* ---------------------------------------------------------------------------------------------------------- overflows */
bool zero_checks_overflow(const struct zero_engine *e)
{
    return e->o->compute == DTYPE_FP16 || (e->o->compute == DTYPE_BF16 && e->r->q->zero_bf16_overflow);
}

/* (x == x) * (x.abs() != inf): the second factor first */
static val is_finite(struct run *r, val x)
{
    const struct value *v = &r->values[x];
    enum dtype dtype = (enum dtype)v->dtype;
    val abs = owned(r, value_empty(r, OP_ABS, dtype, v->ndim, v->size)), below = owned(r, value_empty(r, OP_NE, DTYPE_BOOL, v->ndim, v->size));
    val same = owned(r, value_empty(r, OP_EQ, DTYPE_BOOL, v->ndim, v->size)), both;

    both = owned(r, value_empty(r, OP_MUL, DTYPE_BOOL, v->ndim, v->size));
    DIE(r, same, below, abs);
    return both;
}

static val extreme_is_finite(struct run *r, enum op op, val x)
{
    val extreme = zero_scalar(r, op, dtype_of(r, x)), finite;

    if (run_dead(r))
        return 0;
    reduce_scratch(r, op, x, (1U << r->values[x].ndim) - 1, dtype_bytes(dtype_of(r, x)));
    moved(r, op, x, dtype_bytes(dtype_of(r, x)));
    finite = is_finite(r, extreme);
    value_unref(r, extreme);
    return finite;
}

/* 0.19: the largest and the smallest element */
static val look_at_extremes(struct run *r, val x)
{
    val high = extreme_is_finite(r, OP_MAX, x), low = extreme_is_finite(r, OP_MIN, x), both, result;

    both = zero_scalar(r, OP_BITWISE_AND, DTYPE_BOOL);
    DIE(r, high, low);
    result = zero_scalar(r, OP_LOGICAL_NOT, DTYPE_BOOL);
    value_unref(r, both);
    return result;
}

/* 0.14: masks of every element, over an fp32 copy */
static val look_at_all(struct run *r, val x)
{
    uint64_t n = (uint64_t)numel(r, x);
    bool full = dtype_of(r, x) == DTYPE_FP32;
    val wide = full ? 0 : zero_flat(r, OP_TO_COPY, DTYPE_FP32, n), nan = zero_flat(r, OP_NE, DTYPE_BOOL, n);
    val abs = zero_flat(r, OP_ABS, DTYPE_FP32, n), inf = zero_flat(r, OP_EQ, DTYPE_BOOL, n), either, as_float, most;

    value_unref(r, abs);
    either = zero_flat(r, OP_BITWISE_AND, DTYPE_BOOL, n);
    as_float = zero_flat(r, OP_TO_COPY, DTYPE_FP32, n);
    most = zero_scalar(r, OP_MAX, DTYPE_FP32);
    if (run_dead(r))
        return 0;
    reduce_scratch(r, OP_MAX, as_float, 1, 4);
    moved(r, OP_TO_COPY, x, 6);
    moved(r, OP_ABS, x, 8 + 5 + 5 + 3 + 5 + 4);
    DIE(r, as_float, wide, nan, inf, either);
    return most;
}

val zero_has_inf_or_nan(struct run *r, val x)
{
    if (run_dead(r))
        return 0;
    return r->q->zero_looks_at_extremes ? look_at_extremes(r, x) : look_at_all(r, x);
}

void zero_share_overflow(struct run *r)
{
    val flag = zero_scalar(r, OP_TO_COPY, DTYPE_UINT8);

    work_message(r, COLLECTIVE_ALL_REDUCE, 1);
    host_waits(r);
    value_unref(r, flag);
}

void zero_check_overflow(struct run *r, uint32_t n, const val *grads)
{
    val count = zero_scalar(r, OP_ZEROS, DTYPE_FP32), any, flag;

    for (uint32_t i = 0; i < n && !run_dead(r); i++)
        value_unref(r, zero_has_inf_or_nan(r, grads[i]));
    any = zero_scalar(r, OP_TO_COPY, DTYPE_BOOL);
    value_unref(r, count);
    flag = zero_scalar(r, OP_TO_COPY, DTYPE_UINT8);
    value_unref(r, any);
    work_message(r, COLLECTIVE_ALL_REDUCE, 1);
    host_waits(r);
    value_unref(r, flag);
}

/* -------------------------------------------------------------------------------------------------------------- norms */
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
    moved(r, OP_TO_COPY, gradient, 8 + dtype_bytes(dtype_of(r, gradient)));
    moved(r, OP_VECTOR_NORM, gradient, 8);
    value_unref(r, wide);
    return norm;
}

/* a scalar made of another, which dies */
static val next(struct run *r, enum op op, enum dtype dtype, val old)
{
    val v = zero_scalar(r, op, dtype);

    value_unref(r, old);
    return v;
}

static val sum_of_squares(struct run *r, uint32_t n)
{
    val all = zero_flat(r, OP_CAT, DTYPE_FP64, n), squares = zero_flat(r, OP_POW, DTYPE_FP64, n), sum;

    value_unref(r, all);
    sum = next(r, OP_SUM, DTYPE_FP64, squares);
    return next(r, OP_TO_COPY, DTYPE_FP32, sum);
}

/* isinf is (x.abs() == inf), isnan, either, -1.0; returned in the order in which they die */
static void mark_invalid(struct run *r, val ret[4])
{
    val abs = zero_scalar(r, OP_ABS, DTYPE_FP32);

    ret[0] = next(r, OP_EQ, DTYPE_BOOL, abs);
    ret[1] = zero_scalar(r, OP_NE, DTYPE_BOOL);
    ret[2] = zero_scalar(r, OP_BITWISE_AND, DTYPE_BOOL);
    ret[3] = zero_scalar(r, OP_TO_COPY, DTYPE_FP32);
}

/* 0.14: inf_or_nan * err + inf_or_nan.logical_not() * total_norm */
static val choose_norm(struct run *r, val total)
{
    val wrong = zero_scalar(r, OP_MUL, DTYPE_FP32), valid = zero_scalar(r, OP_LOGICAL_NOT, DTYPE_BOOL), right, sum;

    right = next(r, OP_MUL, DTYPE_FP32, valid);
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
    total = next(r, OP_POW, DTYPE_FP32, total);
    mark_invalid(r, invalid);
    if (chosen)
        total = choose_norm(r, total);
    else
        die(r, 4, invalid);
    while (n)
        value_unref(r, norms[--n]);
    if (chosen)
        die(r, 4, invalid);
    arena_rewind(r->arena, mark);
    return total;
}

/* ~isfinite(x) | (x < 0), then any() */
static val invalid_of(struct run *r, val x)
{
    int64_t n = numel(r, x);
    val finite = is_finite(r, x), not_finite = zero_flat(r, OP_BITWISE_NOT, DTYPE_BOOL, (uint64_t)n), negative, either;

    value_unref(r, finite);
    negative = zero_flat(r, OP_LT, DTYPE_BOOL, (uint64_t)n);
    either = zero_flat(r, OP_BITWISE_AND, DTYPE_BOOL, (uint64_t)n);
    DIE(r, not_finite, negative);
    return next(r, OP_ALL, DTYPE_BOOL, either);
}

void zero_check_norm(struct run *r, val norm)
{
    if (run_dead(r))
        return;
    value_unref(r, invalid_of(r, norm));
    host_waits(r);
}

/* 0.19: torch.where(invalid, inf, vector_norm(stacked)) */
static val combine_checked(struct run *r, uint32_t n)
{
    val stacked = zero_flat(r, OP_CAT, DTYPE_FP32, n), invalid, combined, inf, result;

    if (run_dead(r))
        return 0;
    invalid = invalid_of(r, stacked);
    combined = zero_scalar(r, OP_VECTOR_NORM, DTYPE_FP32);
    inf = zero_scalar(r, OP_FULL, DTYPE_FP32);
    result = next(r, OP_WHERE, DTYPE_FP32, inf);
    DIE(r, stacked, invalid, combined);
    return result;
}

val zero_combine_norms(struct run *r, uint32_t n, const val *norms)
{
    val stacked, result;

    if (r->q->zero_masks_norm) {
        result = combine_checked(r, n);
        die(r, (int)n, norms);
        return result;
    }
    stacked = zero_flat(r, OP_CAT, DTYPE_FP32, n);
    result = next(r, OP_VECTOR_NORM, DTYPE_FP32, stacked);
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

    v = next(r, OP_ADD, DTYPE_FP32, v);
    return next(r, OP_DIV, DTYPE_FP32, v);
}

/* 0.19: all on the device. combined = clamp(clip, min=1) * loss_scale, then grad * (1 / combined) */
static void unscale_on_device(struct run *r, val norm)
{
    val clip, combined, inverse;

    zero_check_norm(r, norm);
    clip = next(r, OP_CLAMP, DTYPE_FP32, excess(r));
    combined = zero_scalar(r, OP_MUL, DTYPE_FP32);
    inverse = next(r, OP_MUL, DTYPE_FP32, zero_scalar(r, OP_RECIPROCAL, DTYPE_FP32));
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
    if (e->o->max_grad_norm > 0 && r->q->zero_masks_norm)
        unscale_on_device(r, norm);
    else if (e->o->max_grad_norm > 0)
        unscale_asked(r);
    moved(r, OP_MUL, gradient, 2 * dtype_bytes(dtype_of(r, gradient)));
}
