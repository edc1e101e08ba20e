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
