/* zero_place.c - runtime/engine.py: the model in half, on the device, before a stage takes it apart. */
#include "parallel/zero/zero_common.h"

static void declare_half(void *context, struct module *m, struct param *p)
{
    const struct wrapping *w = context;

    (void)m;
    if (dtype_is_float(p->dtype))
        p->dtype = w->o->compute;
}

static void cast_one(struct wrapping *w, struct param *p)
{
    struct run *r = w->r;
    val v = p->value;

    if (p->tied || !v || !dtype_is_float(dtype_of(r, v)) || dtype_of(r, v) == w->o->compute || run_dead(r))
        return;
    p->dtype = w->o->compute; /* adapters look at what was declared */
    p->value = owned(r, value_empty(r, OP_TO_COPY, w->o->compute, p->ndim, p->size));
    p->dtype = w->o->compute;
    mark_block(r, p->value, p->buffer ? MARK_BUFFER : MARK_PARAMETER);
    value_unref(r, v);
}

static void cast_param(void *context, struct module *m, struct param *p)
{
    (void)m;
    cast_one(context, p);
}

/* nn.Module._apply: children first, parameters, then buffers */
static void cast_module(struct wrapping *w, struct module *m)
{
    for (struct module *c = m->first; c; c = c->next)
        cast_module(w, c);
    for (int buffers = 0; buffers < 2; buffers++)
        for (struct param *p = m->params; p; p = p->next)
            if (p->buffer == (buffers == 1))
                cast_one(w, p);
}

static void retie(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    if (p->tied)
        p->value = p->tied->value;
}

/*
 * _configure_distributed_model: the module is cast, then moved; until 0.14 its buffers are cast too. The plain loop's stands on the device before, and so
 * did that of the runs that were traced on torch 2.2.
 */
void zero_place(struct wrapping *w)
{
    if (!w->o->plain && !w->r->q->zero_casts_buffers)
        params_visit(w->tree->root, declare_half, w);
    w->place(w);
    if (w->r->q->zero_casts_buffers)
        cast_module(w, w->tree->root);
    else
        params_visit(w->tree->root, cast_param, w);
    params_visit(w->tree->root, retie, NULL);
}
