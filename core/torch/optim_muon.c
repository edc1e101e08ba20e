/*
 * optim_muon.c - torch.optim.Muon over the matrices of the layers, torch.optim.AdamW over the rest, stepped one after the other as torch's documentation
 * shows. A matrix's update is made orthogonal by five Newton-Schulz iterations in bf16; each name lives until it is bound anew.
 * Over DTensors its products are optim_dtensor.h's. Source: torch/optim/_muon.py 2.15.0.
 */
#include "torch/optim_dtensor.h"
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

static val scalar(struct run *r, enum op op, val of)
{
    return take(r, value_empty(r, op, dtype_of(r, of), 0, NULL));
}

/* math_ops.py _NormPartial: a power, its sum over the ranks, the root of that */
static void sum_norm(struct run *r, val x)
{
    val power = scalar(r, OP_POW, x), sum = scalar(r, OP_ALL_REDUCE, x), root = scalar(r, OP_POW, x);

    work_message(r, COLLECTIVE_ALL_REDUCE, dtype_bytes(dtype_of(r, x)));
    value_unref(r, power);
    value_unref(r, sum);
    value_unref(r, scalar(r, OP_CLAMP, x));
    value_unref(r, root);
}

/* ortho_grad.div_(ortho_grad.norm().clamp(min=eps)) */
static void normalise(struct run *r, const struct optim_mesh *mesh, val x)
{
    val norm = scalar(r, OP_VECTOR_NORM, x), floor;

    reduce_scratch(r, OP_VECTOR_NORM, x, 3, 4);
    if (mesh->group.ranks) {
        sum_norm(r, x);
    } else {
        floor = scalar(r, OP_CLAMP, x);
        value_unref(r, floor);
    }
    value_unref(r, norm);
}

static void bind_name(struct run *r, val *name, val v)
{
    val old = *name;

    *name = v;
    value_unref(r, old);
}

static void bind_matrix(struct run *r, struct dtensor *name, struct dtensor v)
{
    val old = name->local;

    *name = v;
    value_unref(r, old);
}

/* ortho_grad @ ortho_grad.T; one device has no layouts */
static struct dtensor gram_of(struct run *r, const struct optim_mesh *mesh, const struct dtensor *x)
{
    struct dtensor turned = dtensor_turned(r, x), gram = dtensor_product(r, mesh, NULL, x, &turned);

    value_unref(r, turned.local);
    return gram;
}

/* _zeropower_via_newtonschulz(): gram_matrix and gram_update live until the next iteration's stand */
static struct dtensor orthogonal(struct run *r, const struct optim_mesh *mesh, struct dtensor update)
{
    struct dtensor x = update, gram = {0}, square = {0};
    bool tall = update.rows > update.columns;

    x.local = take(r, cast_copy(r, update.local, DTYPE_BF16));
    if (tall)
        bind_matrix(r, &x, dtensor_turned(r, &x));
    normalise(r, mesh, x.local);
    for (int i = 0; i < NS_STEPS && !run_dead(r); i++) {
        bind_matrix(r, &gram, gram_of(r, mesh, &x));
        bind_matrix(r, &square, dtensor_product(r, mesh, &gram, &gram, &gram));
        bind_matrix(r, &x, dtensor_product(r, mesh, &x, &square, &x));
    }
    value_unref(r, square.local);
    value_unref(r, gram.local);
    if (tall && !run_dead(r))
        bind_matrix(r, &x, dtensor_turned(r, &x));
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
        int64_t rows = size_of(r, leaf, 0) * (o->mesh.group.ranks ? o->mesh.group.ranks : 1);
        struct dtensor made;

        if (!optim_has_grad(r, leaf))
            continue;
        bind_name(r, &update, optim_like(r, OP_ADD, leaf));
        made = orthogonal(r, &o->mesh, (struct dtensor){update, o->mesh.group.ranks ? PLACED_ROWS : PLACED_WHOLE, rows, size_of(r, leaf, 1)});
        bind_name(r, &update, made.local);
        if (o->mesh.group.ranks) /* param.add_(): it comes to where the parameter lies */
            value_unref(r, dtensor_moved(r, &o->mesh, &made, PLACED_ROWS));
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
