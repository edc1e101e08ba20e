/*
 * optim_muon.c - torch.optim.Muon over the matrices of the layers, torch.optim.AdamW over the rest, stepped one after the other as torch's documentation
 * shows. A matrix's update is made orthogonal by five Newton-Schulz iterations in bf16; each name lives until it is bound anew.
 * Source: torch/optim/_muon.py 2.15.0.
 */
#include "torch/optim_inside.h"

enum { NS_STEPS = 5 };

void optim_muon_init(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    (void)o;
    s->exp_avg = optim_state_like(r, OP_ZEROS_LIKE, leaf);
    s->stands = true;
}

static val take(struct run *r, val temporary)
{
    return owned(r, temporary);
}

static val turned(struct run *r, val v)
{
    return transpose(r, v, 0, 1);
}

/* ortho_grad.div_(ortho_grad.norm().clamp(min=eps)) */
static void normalise(struct run *r, val x)
{
    val norm = take(r, value_empty(r, OP_VECTOR_NORM, dtype_of(r, x), 0, NULL)), floor;

    reduce_scratch(r, OP_VECTOR_NORM, x, 3, 4);
    floor = take(r, value_empty(r, OP_CLAMP, dtype_of(r, x), 0, NULL));
    value_unref(r, norm);
    value_unref(r, floor);
}

static void bind_name(struct run *r, val *name, val v)
{
    val old = *name;

    *name = v;
    value_unref(r, old);
}

/* _zeropower_via_newtonschulz(): gram_matrix and gram_update live until the next iteration's stand */
static val orthogonal(struct run *r, val update)
{
    int64_t rows = size_of(r, update, 0), columns = size_of(r, update, 1);
    val x = take(r, cast_copy(r, update, DTYPE_BF16)), gram = 0, square = 0;

    if (rows > columns)
        bind_name(r, &x, take(r, turned(r, x)));
    normalise(r, x);
    for (int i = 0; i < NS_STEPS && !run_dead(r); i++) {
        bind_name(r, &gram, take(r, matmul(r, x, turned(r, x))));
        bind_name(r, &square, take(r, addmm(r, gram, gram, gram)));
        bind_name(r, &x, take(r, addmm(r, x, square, x)));
    }
    value_unref(r, square);
    value_unref(r, gram);
    return x;
}

/* _single_tensor_muon(): `update` is bound twice, and lives until the next parameter's stands */
static void step_matrices(struct run *r, struct optim *o)
{
    val update = 0;

    for (uint32_t i = 0; i < o->n_group[0]; i++)
        if (!o->state[0][i].stands && optim_has_grad(r, o->group[0][i]))
            optim_muon_init(r, o, &o->state[0][i], o->group[0][i]);
    for (uint32_t i = 0; i < o->n_group[0] && !run_dead(r); i++) {
        val leaf = o->group[0][i];
        uint64_t n = (uint64_t)numel(r, leaf), own = dtype_bytes(dtype_of(r, leaf));

        if (!optim_has_grad(r, leaf))
            continue;
        bind_name(r, &update, optim_like(r, OP_ADD, leaf));
        bind_name(r, &update, orthogonal(r, update));
        work_add(r, OP_ADD, 8 * n, n * (11 * own + 8), 6); /* two lerps, the copy in half and its division, decay, the update */
    }
    value_unref(r, update);
}

void optim_muon_step(struct run *r, struct optim *o)
{
    struct optim rest = *o;

    step_matrices(r, o);
    rest.kind = OPTIM_ADAMW_FOREACH;
    for (int g = 1; g < OPTIM_GROUPS; g++)
        optim_torch_group(r, &rest, g);
}
