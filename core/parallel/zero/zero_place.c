/* zero_place.c - runtime/engine.py: the model in half, on the device, before a stage takes it apart. */
#include "parallel/zero/zero_common.h"

static void declare_half(void *context, struct module *m, struct param *p)
{
    const struct wrapping *w = context;

    (void)m;
    if (dtype_is_float(p->dtype))
        p->dtype = w->o->compute;
}

static void cast_param(void *context, struct module *m, struct param *p)
{
    (void)m;
    wrapping_cast(context, p);
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
        wrapping_half(w);
    else
        params_visit(w->tree->root, cast_param, w);
    wrapping_retie(w);
}
