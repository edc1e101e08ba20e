/*
 * fsdp2_place.c - shards and buffers on the device. A plain loop shards a model without storage and makes room after, to_empty();
 * the Trainer has the model on the host, and each call of fully_shard moves what it manages to the device whole and cuts it there.
 */
#include "parallel/fsdp2/inside.h"

#include "torch/autograd.h"

static val birth(struct run *r, enum op op, const struct param *p, int64_t rows, enum mark mark)
{
    int64_t size[PARAM_DIMS] = {rows, p->size[1], p->size[2], p->size[3], p->size[4]};
    val v = owned(r, value_empty(r, op, p->dtype, p->ndim, size));

    mark_block(r, v, mark);
    return v;
}

static val shard_of(const struct fsdp2 *f, enum op op, const struct param *p)
{
    return birth(f->r, op, p, (p->size[0] + f->ranks - 1) / f->ranks, MARK_PARAMETER);
}

static void place_buffers(struct fsdp2 *f, const struct module *m)
{
    for (struct param *p = m->params; p; p = p->next)
        if (p->buffer && !p->value)
            p->value = birth(f->r, OP_EMPTY, p, p->ndim ? p->size[0] : 0, MARK_BUFFER);
}

/* ------------------------------------------------------------------------------------------------- to_empty(), plain loops */
/* nn.Module._apply swaps what a parameter holds: of one that two modules share, the first room dies when the second stands. */
static void empty_param(struct fsdp2 *f, struct param *p)
{
    struct param *held = p->tied ? p->tied : p;
    val shard = shard_of(f, OP_EMPTY, p);

    value_unref(f->r, held->shard);
    held->shard = shard;
}

/* Children first. */
static void empty_module(struct fsdp2 *f, const struct module *m)
{
    for (const struct module *c = m->first; c; c = c->next)
        empty_module(f, c);
    for (struct param *p = m->params; p && !f->offload; p = p->next)
        if (!p->buffer)
            empty_param(f, p);
    place_buffers(f, m);
}

/* ----------------------------------------------------------------------------------------------------- from the host, unit by unit */
static void move_buffers(struct fsdp2 *f, const struct module *m, const struct fsdp2_unit *u)
{
    for (const struct module *c = m->first; c; c = c->next)
        if (!fsdp2_unit_of(f, c))
            move_buffers(f, c, u);
    place_buffers(f, m);
}

/* FSDPParam.__init__: new_zeros(), filled from the whole; the whole ones die when fully_shard returns (_composable/contract.py: a dict that holds them). */
static void cut(struct fsdp2 *f, const struct fsdp2_unit *u)
{
    for (uint32_t i = 0; i < u->n_params; i++) {
        struct param *p = u->params[i].declared;
        val shard = shard_of(f, OP_NEW_ZEROS, p);

        if (f->offload)
            value_unref(f->r, shard); /* .cpu() */
        else
            p->shard = shard;
    }
}

static void shard_unit(struct fsdp2 *f, struct fsdp2_unit *u)
{
    for (uint32_t i = 0; i < u->n_params; i++)
        if (!u->params[i].declared->value)
            u->params[i].declared->value = birth(f->r, OP_TO_COPY, u->params[i].declared, u->params[i].declared->size[0], MARK_PARAMETER);
    for (uint32_t k = 0; k < u->n_modules; k++)
        move_buffers(f, u->modules[k], u);
    cut(f, u);
    for (uint32_t i = 0; i < u->n_params; i++) {
        value_unref(f->r, u->params[i].declared->value);
        u->params[i].declared->value = 0;
    }
}

static void count_host_bytes(struct fsdp2 *f, const struct fsdp2_unit *u)
{
    for (uint32_t i = 0; i < u->n_params; i++) {
        uint64_t bytes = (uint64_t)u->params[i].shard_elems * dtype_bytes(u->params[i].stored);
        bool trained = u->params[i].declared->requires_grad;

        f->host_bytes += trained ? 3 * bytes : bytes;
        f->trained_host_bytes += trained ? bytes : 0;
    }
}

void fsdp2_place(struct fsdp2 *f, struct wrapping *w)
{
    for (uint32_t i = 0; i < f->n_units && f->offload; i++)
        count_host_bytes(f, &f->units[i]);
    if (!w->o->plain || w->o->quantised) {
        for (uint32_t i = 0; i < f->n_units; i++)
            shard_unit(f, &f->units[i]);
        return;
    }
    empty_module(f, w->tree->root);
}
