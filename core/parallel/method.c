#include "parallel/program.h"

#include "parallel/programs.h"
#include "torch/autograd.h"

const struct method_row method_rows[METHOD_COUNT] = {
#define METHOD(id, name, program, sharded, replicated) {name, program, sharded, replicated},
#include "parallel/methods.def"
#undef METHOD
};

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

bool method_offloads(enum method m, enum offload what)
{
    if (method_is_zero(m)) /* parameters are on the host only where they are sharded */
        return what == OFFLOAD_OPTIMIZER || m == METHOD_ZERO3;
    return (method_is_fsdp1(m) || method_is_fsdp2(m)) && what == OFFLOAD_OPTIMIZER_PARAMS;
}
