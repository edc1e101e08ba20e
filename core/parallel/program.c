#include "parallel/program.h"

#include "torch/autograd.h"

void wrapping_train(struct wrapping *w, val leaf, unsigned group)
{
    struct leaves *l = &w->leaves;

    if (!leaf || run_dead(w->r))
        return;
    if (l->n == l->max) {
        run_fail(w->r, ERR_INTERNAL, "", "a method trains more leaves than the model has parameters");
        return;
    }
    require_grad(w->r, leaf);
    pin_leaf(w->r, leaf);
    l->leaf[l->n] = leaf;
    l->group[l->n++] = (uint8_t)group;
}

static void train_one(void *context, struct module *m, struct param *p)
{
    (void)m;
    if (p->requires_grad && !p->tied)
        wrapping_train(context, p->shard ? p->shard : p->value, p->group);
}

void wrapping_train_all(struct wrapping *w)
{
    params_visit(w->tree->root, train_one, w);
}

/* The old tensor dies when the new one stands, unless it has another name, which the Trainer leaves on the host. */
void wrapping_cast(struct wrapping *w, struct param *p)
{
    struct run *r = w->r;
    val v = p->value;

    if (p->tied || !v || !dtype_is_float(dtype_of(r, v)) || dtype_of(r, v) == w->o->compute || run_dead(r))
        return;
    p->dtype = w->o->compute; /* adapters look at what was declared */
    p->value = owned(r, value_empty(r, OP_TO_COPY, w->o->compute, p->ndim, p->size));
    p->dtype = w->o->compute;
    mark_block(r, p->value, p->buffer ? MARK_BUFFER : MARK_PARAMETER);
    if (!p->named_twice || !w->o->plain)
        value_unref(r, v);
}

/* nn.Module._apply: children first, parameters, then buffers */
static void cast_module(struct wrapping *w, struct module *m)
{
    for (struct module *c = m->first; c; c = c->next)
        cast_module(w, c);
    for (int buffers = 0; buffers < 2; buffers++)
        for (struct param *p = m->params; p; p = p->next)
            if (p->buffer == (buffers == 1))
                wrapping_cast(w, p);
}

static void retie(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    if (p->tied)
        p->value = p->tied->value;
}

void wrapping_retie(struct wrapping *w)
{
    params_visit(w->tree->root, retie, NULL);
}

void wrapping_half(struct wrapping *w)
{
    cast_module(w, w->tree->root);
    wrapping_retie(w);
}
