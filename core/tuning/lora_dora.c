/*
 * lora_dora.c - DoRA: a magnitude for each output beside A and B; what is added is scaled by it over the norm of the adapted weight, which
 * each forward takes anew.
 *
 * Source: peft tuners/lora/dora.py DoraLinearLayer, variants.py DoraLinearVariant (0.12 to 0.21).
 */
#include "torch/autograd.h"
#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/lora_inside.h"

#include <string.h>

/* torch.linalg.norm(weight, dim=1).to(weight.dtype) of what wants no gradient */
static val norm_of_rows(struct run *r, val weight)
{
    int64_t rows = size_of(r, weight, 0);
    enum dtype dtype = dtype_of(r, weight);
    val out = value_empty(r, OP_VECTOR_NORM, autocast_dtype(r, OP_VECTOR_NORM, weight, DTYPE_COUNT), 1, &rows);

    reduce_scratch(r, OP_VECTOR_NORM, weight, 1U << 1, 4);
    consume(r, weight);
    return run_dead(r) ? 0 : to_dtype(r, out, dtype);
}

static val unit(struct run *r, const struct adapter *l, enum dtype dtype)
{
    return local(r, factory(r, OP_EYE, dtype, 2, (int64_t[]){l->a->in, l->a->in}));
}

/* get_lora_weight(): A and B of a unit matrix, as modules, in the dtype of x */
static val product_of(struct run *r, const struct adapter *l, enum dtype dtype)
{
    struct frame f = frame_enter(r);
    val eye = unit(r, l, dtype_of(r, l->a->weight->value)), product;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    product = frame_leave(r, f, t_op(r, call(r, l->b, call(r, l->a, eye))));
    return run_dead(r) ? 0 : to_dtype(r, product, dtype);
}

/* other.py transpose(): Conv1D has its weight the other way around */
static val turned(struct run *r, const struct adapter *l, val weight)
{
    return l->base->kind == MODULE_CONV1D && !bnb_is_quantised(l->base) ? t_op(r, weight) : weight; /* packed, it is a Linear4bit */
}

static val base_weight(struct run *r, const struct adapter *l)
{
    module_read(r, l->base);
    return bnb_is_quantised(l->base) ? bnb_dequantised(r, l->base) : l->base->weight->value;
}

/* get_weight_norm(): `weight + scaling * lora_weight`, in its own frame */
static val weight_norm(struct run *r, const struct adapter *l, val weight, val product)
{
    struct frame f = frame_enter(r);
    val sum;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    weight = local(r, turned(r, l, weight));
    sum = local(r, add(r, weight, mul_scalar(r, product)));
    return frame_leave(r, f, run_dead(r) ? 0 : norm_of_rows(r, sum));
}

/* DoraLinearLayer.forward(); base 0: dropout stands before it, and the base multiplies once more */
static val dora_forward(struct run *r, const struct adapter *l, val x, val base)
{
    struct frame f = frame_enter(r);
    enum dtype dtype = dtype_of(r, x);
    val product, weight, norm, scale, result = 0, left;

    x = local(r, x);
    base = base ? local(r, base) : 0;
    module_read(r, l->a); /* how wide it is, and of which dtype */
    if (r->q->dora_multiplies_first)
        result = local(r, call(r, l->b, call(r, l->a, x)));
    if (r->q->dora_unit_as_input) { /* the matrix lives as long as forward does */
        val eye = unit(r, l, dtype);

        product = local(r, run_dead(r) ? 0 : t_op(r, call(r, l->b, call(r, l->a, eye))));
    } else {
        product = local(r, product_of(r, l, dtype));
    }
    if (run_dead(r))
        return frame_leave(r, f, 0);
    weight = local(r, to_dtype(r, base_weight(r, l), dtype));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    norm = local(r, weight_norm(r, l, weight, detach(r, product)));
    scale = divide(r, l->magnitude->weight->value, norm);
    scale = local(r, view(r, scale, 2, (int64_t[]){1, l->magnitude->weight->size[0]}));
    if (!r->q->dora_multiplies_first)
        result = local(r, call(r, l->b, call(r, l->a, x)));
    if (!base || r->q->dora_multiplies_first)
        base = local(r, linear_op(r, x, turned(r, l, weight), 0));
    else if (l->base->bias)
        base = local(r, sub(r, base, l->base->bias->value));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    left = mul(r, sub_scalar(r, scale), base);
    return frame_leave(r, f, add(r, left, mul_scalar(r, mul(r, scale, result))));
}

/* What the magnitude's module is called with beside its first argument. */
struct dora {
    const struct adapter *of;
    val base;
};

static val called(struct run *r, struct module *m, val x)
{
    const struct dora *d = m->extra;

    return dora_forward(r, d->of, x, d->base);
}

val dora_call(struct run *r, const struct adapter *l, val x, val base)
{
    ((struct dora *)l->magnitude->extra)->base = base;
    return call(r, l->magnitude, x);
}

bool dora_declare(struct tree *t, struct module *at, const struct adapter *of)
{
    struct dora *d = arena_new(t->arena, struct dora);

    if (!d)
        return false;
    d->of = of;
    at->extra = d;
    at->forward = called;
    return true;
}

/* update_layer(): the norms of what A and B, as they were just made, add up to with the weight */
void dora_give_birth(struct run *r, const struct adapter *l)
{
    struct frame f = frame_enter(r);
    struct param *p = l->magnitude->weight;
    val weight, product;

    if (!p->late)
        return;
    weight = local(r, base_weight(r, l));
    product = local(r, matmul(r, l->b->weight->value, l->a->weight->value));
    p->value = owned(r, weight_norm(r, l, weight, product));
    (void)frame_leave(r, f, 0);
}
