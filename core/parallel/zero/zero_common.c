#include "parallel/zero/zero_common.h"

#include "torch/autograd.h"

val zero_flat(struct run *r, enum op op, enum dtype dtype, uint64_t elems)
{
    return owned(r, value_empty(r, op, dtype, 1, (const int64_t[]){(int64_t)elems}));
}

val zero_scalar(struct run *r, enum op op, enum dtype dtype)
{
    return owned(r, value_empty(r, op, dtype, 0, NULL));
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

/* backward(loss, scale_wrt_gas): the Trainer divides by itself where it divides at all */
static bool divides(const struct zero_engine *e)
{
    return e->o->plain || !e->r->q->trainer_divides_for_engine;
}

/* loss / gradient_accumulation_steps; scale_loss */
static void backward_divides(struct zero_engine *e, val loss, const struct zero_stage *s)
{
    struct run *r = e->r;
    val part = loss, scaled;

    if (divides(e))
        part = owned(r, div_scalar(r, loss));
    else
        value_ref(r, part);
    scaled = s->unscaled ? part : owned(r, mul_scalar(r, part));
    if (s->unscaled)
        value_ref(r, scaled);
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

    if (e->o->gradient_accumulation_steps > 1 && divides(e)) {
        val full = to_dtype(r, loss, DTYPE_FP32);

        part = owned(r, div_scalar(r, full));
    } else {
        value_ref(r, part);
    }
    mean = sum_losses(e, part);
    if (r->q->zero_backward_in_parts) {
        value_unref(r, mean);
        mean = 0;
    }
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
val zero_is_finite(struct run *r, val x)
{
    const struct value *v = &r->values[x];
    enum dtype dtype = (enum dtype)v->dtype;
    val abs = owned(r, value_empty(r, OP_ABS, dtype, v->ndim, v->size)),
        below = owned(r, value_empty(r, OP_NE, DTYPE_BOOL, v->ndim, v->size));
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
    zero_moved(r, op, x, dtype_bytes(dtype_of(r, x)));
    finite = zero_is_finite(r, extreme);
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
    zero_moved(r, OP_TO_COPY, x, 6);
    zero_moved(r, OP_ABS, x, 8 + 5 + 5 + 3 + 5 + 4);
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

/* FusedAdam, in the place of torch's AdamW: no temporaries */
struct optim zero_optim(const struct parallel_options *o)
{
    bool adam = o->optimizer <= OPTIM_ADAMW_HF;

    return (struct optim){.kind = adam ? OPTIM_ADAMW_FUSED : o->optimizer, .paged = o->paged};
}

static void share_maps(struct optim *to, const struct optim *from)
{
    for (int i = 0; i < 2; i++)
        to->qmap[i] = from->qmap[i];
}

void zero_optim_step(struct run *r, struct optim *of_group, struct optim *first)
{
    share_maps(of_group, first);
    optim_step(r, of_group);
    share_maps(first, of_group);
}

void zero_optim_prepare(struct run *r, struct optim *of_group, struct optim *first)
{
    share_maps(of_group, first);
    optim_prepare(r, of_group);
    share_maps(first, of_group);
}
