/* fsdp1_clip.c - fully_sharded_data_parallel.py clip_grad_norm_: a norm of each gradient, one of them all, summed over the ranks. */
#include "parallel/fsdp1/inside.h"

#include "torch/autograd.h"
#include "torch/work.h"

static val scalar(struct run *r, enum op op)
{
    return owned(r, value_empty(r, op, DTYPE_FP32, 0, NULL));
}

/* torch.linalg.vector_norm(grad, dtype=float32), and the multiplication that will follow */
static val norm_of(struct run *r, val gradient)
{
    val norm = scalar(r, OP_VECTOR_NORM);

    launch(r, OP_VECTOR_NORM, norm, 1, &gradient);
    launch(r, OP_MUL, gradient, 1, &gradient);
    reduce_scratch(r, OP_VECTOR_NORM, gradient, (1u << r->values[gradient].ndim) - 1, 4);
    return norm;
}

struct clipping {
    val *norms;
    uint32_t n;
    bool wide; /* a gradient in fp32 */
};

static void take_norm(struct run *r, struct clipping *c, val leaf)
{
    val *g = grad_of(r, leaf);

    if (!g || !*g)
        return;
    c->wide |= dtype_of(r, *g) == DTYPE_FP32;
    c->norms[c->n++] = norm_of(r, *g);
}

static void take_norms(struct fsdp1 *f, struct clipping *c)
{
    for (uint32_t i = 0; i < f->n_units; i++) {
        struct unit *u = &f->units[i];

        for (uint32_t k = 0; k < u->n_params && f->o->fsdp.use_orig_params; k++)
            take_norm(f->r, c, u->original[k]);
        if (!f->o->fsdp.use_orig_params && u->flat)
            take_norm(f->r, c, u->flat);
    }
}

/* stack of the norms, their norm; the list dies from its end. */
static val local_norm(struct run *r, struct clipping *c)
{
    val stacked = owned(r, value_empty(r, OP_STACK, DTYPE_FP32, SHAPE(c->n))), total;

    while (c->n)
        value_unref(r, c->norms[--c->n]);
    total = scalar(r, OP_VECTOR_NORM);
    value_unref(r, stacked);
    return total;
}

/* (local ** 2, summed over the ranks) ** 0.5 */
static val total_norm(struct fsdp1 *f, val local)
{
    struct run *r = f->r;
    val square = scalar(r, OP_POW), total;

    work_wait(r, work_send(r, (struct work_sending){
                                  COLLECTIVE_ALL_REDUCE, 4, {f->hybrid ? f->shards : 0, f->hybrid ? 1 : 0}, STREAM_COMPUTE, true}));
    total = scalar(r, OP_POW);
    value_unref(r, square);
    (void)local;
    return total;
}

/* clamp(max_norm / (total + 1e-6)); copies of it in the gradients' dtype are one scalar after another. */
static void coefficient(struct run *r, val local)
{
    val sum = scalar(r, OP_ADD), inverse = scalar(r, OP_RECIPROCAL), ratio = scalar(r, OP_MUL), clamped;

    value_unref(r, inverse);
    value_unref(r, sum);
    clamped = scalar(r, OP_CLAMP);
    value_unref(r, local);
    value_unref(r, ratio);
    value_unref(r, clamped);
}

/* The norm has the widest dtype of the gradients. */
static val norm_for_caller(struct run *r, const struct fsdp1 *f, bool wide, val total)
{
    val narrow;

    if (wide)
        return total;
    narrow = owned(r, value_empty(r, OP_TO_COPY, f->o->compute, 0, NULL));
    value_unref(r, total);
    return narrow;
}

/* Norms, coefficient and products are the host's; the local norm goes to the device to be summed over the ranks. */
static void clip_on_host(struct fsdp1 *f)
{
    struct run *r = f->r;
    val local = scalar(r, OP_TO_COPY), total = total_norm(f, local);

    value_unref(r, total);
    value_unref(r, local);
}

val fsdp1_clip(void *of, double max_norm)
{
    struct fsdp1 *f = of;
    struct run *r = f->r;
    unsigned char *mark = r->arena->cur;
    struct clipping c = {0};
    val local, total;

    (void)max_norm;
    if (!f->zero_scalar && r->q->fsdp1_keeps_a_zero)
        f->zero_scalar = scalar(r, OP_TO_COPY);
    if (!f->sharded)
        return clip_grad_norm(r, f->leaves->n, f->leaves->leaf);
    if (f->offload) {
        clip_on_host(f);
        return 0;
    }
    c.norms = run_room(r, sizeof *c.norms, f->leaves->n + 1);
    if (!c.norms)
        return 0;
    take_norms(f, &c);
    if (!c.n)
        return 0;
    local = local_norm(r, &c);
    arena_rewind(r->arena, mark);
    total = total_norm(f, local);
    coefficient(r, local);
    return run_dead(r) ? 0 : norm_for_caller(r, f, c.wide, total);
}
