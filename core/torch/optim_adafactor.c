/*
 * optim_adafactor.c - transformers' Adafactor as the Trainer makes it (scale_parameter and relative_step off, no first moment): a parameter at a time,
 * in fp32. What a name of step() holds lives until the next parameter binds it anew. optimization.py Adafactor.step, the same in 4.40.0 and 5.23.0.
 */
#include "torch/optim_inside.h"

struct locals {
    val grad, wide, update; /* grad, p_data_fp32, update: owned copies; 0: the parameter's own */
};

static val make(struct run *r, enum op op, int ndim, const int64_t *size)
{
    return owned(r, value_empty(r, op, DTYPE_FP32, ndim, size));
}

static val make_like(struct run *r, enum op op, val of)
{
    return make(r, op, r->values[of].ndim, r->values[of].size);
}

static void bind_name(struct run *r, val *name, val v)
{
    val old = *name;

    *name = v;
    value_unref(r, old);
}

static val state_of(struct run *r, enum op op, int ndim, const int64_t *size)
{
    val v = make(r, op, ndim, size);

    mark_block(r, v, MARK_OPTIMIZER_STATE);
    return v;
}

/* zeros(grad_shape[:-1]).to(grad), zeros(grad_shape[:-2] + grad_shape[-1:]).to(grad); of a vector all of it */
static void make_states(struct run *r, struct optim_state *s, val leaf)
{
    const struct value *x = &r->values[leaf];
    int64_t column[MAX_DIMS];
    int nd = x->ndim;

    if (nd < 2) {
        s->exp_avg = state_of(r, OP_ZEROS_LIKE, nd, x->size);
        s->stands = true;
        return;
    }
    for (int i = 0; i < nd - 1; i++)
        column[i] = x->size[i < nd - 2 ? i : nd - 1];
    s->exp_avg = state_of(r, OP_TO_COPY, nd - 1, x->size);
    s->exp_avg_sq = state_of(r, OP_TO_COPY, nd - 1, column);
    s->stands = true;
}

/* As a step leaves them: state["RMS"] is a number before the first, and its tensor ever after. */
void optim_adafactor_init(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    (void)o;
    make_states(r, s, leaf);
    bind_name(r, &s->step, make(r, OP_DIV, 0, NULL));
}

/* tensor.norm(2) / n: two numbers, of which the second stays */
static val rms(struct run *r, val of)
{
    val norm = make(r, OP_VECTOR_NORM, 0, NULL), out;

    reduce_scratch(r, OP_VECTOR_NORM, of, (1u << r->values[of].ndim) - 1, 4);
    out = make(r, OP_DIV, 0, NULL);
    value_unref(r, norm);
    return out;
}

static void mean_and_add(struct run *r, val update, int dim)
{
    value_unref(r, owned(r, mean_dims(r, update, 1u << (r->values[update].ndim + dim), false)));
}

/* _approx_sq_grad(): the factors die with its frame, when their product stands */
static val product_of_factors(struct run *r, const struct optim_state *s, val leaf)
{
    val mean = owned(r, mean_dims(r, s->exp_avg, 1u << (r->values[s->exp_avg].ndim - 1), true)), row, column, out;

    row = make_like(r, OP_DIV, s->exp_avg);
    value_unref(r, mean);
    column = make_like(r, OP_RSQRT, s->exp_avg_sq);
    out = make_like(r, OP_MUL, leaf);
    value_unref(r, row);
    value_unref(r, column);
    return out;
}

static void step_one(struct run *r, struct optim_state *s, val leaf, struct locals *l)
{
    bool half = dtype_of(r, leaf) != DTYPE_FP32, factored = r->values[leaf].ndim >= 2;
    val squared, sum, scale, number;

    bind_name(r, &l->grad, 0);
    if (half)
        l->grad = make_like(r, OP_TO_COPY, leaf);
    if (!s->stands)
        make_states(r, s, leaf);
    bind_name(r, &l->wide, 0);
    if (half)
        l->wide = make_like(r, OP_TO_COPY, leaf);
    number = rms(r, half ? l->wide : leaf);
    bind_name(r, &s->step, number); /* state["RMS"] */
    squared = make_like(r, OP_POW, leaf);
    sum = make_like(r, OP_ADD, leaf);
    value_unref(r, squared);
    bind_name(r, &l->update, sum);
    if (factored) {
        mean_and_add(r, l->update, -1);
        mean_and_add(r, l->update, -2);
        bind_name(r, &l->update, product_of_factors(r, s, leaf));
    } else {
        bind_name(r, &l->update, make_like(r, OP_RSQRT, leaf));
    }
    scale = rms(r, l->update);
    number = make(r, OP_DIV, 0, NULL);
    value_unref(r, scale);
    value_unref(r, number);
    value_unref(r, make_like(r, OP_NEG, leaf));
}

/* Each element is read and written about so often: 13 passes over fp32, 3 over the parameter's own dtype where that is half. */
static void log_one(struct run *r, val leaf)
{
    uint64_t n = (uint64_t)numel(r, leaf), own = dtype_bytes(dtype_of(r, leaf));

    work_add(r, OP_MUL, 14 * n, n * (26 * 4 + 3 * own), 20);
}

void optim_adafactor_step(struct run *r, struct optim *o)
{
    struct locals l = {0};

    for (int g = 0; g < OPTIM_GROUPS; g++)
        for (uint32_t i = 0; i < o->n_group[g] && !run_dead(r); i++) {
            val leaf = o->group[g][i], *grad = grad_of(r, leaf);

            if (!grad || !*grad)
                continue;
            log_one(r, leaf);
            step_one(r, &o->state[g][i], leaf, &l);
        }
    value_unref(r, l.grad);
    value_unref(r, l.wide);
    value_unref(r, l.update);
}
