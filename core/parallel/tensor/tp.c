/*
 * tp.c - transformers' tensor parallelism: the modules that the family's plan names hold a part of their weights as DTensors.
 *
 * A module is cut before it comes to the device and its forward becomes tp_forward of transformers/distributed/tensor_parallel.py 5.23
 * (ColwiseParallel, RowwiseParallel, EmbeddingParallel, MoeExpertsParallel, MlaKvAProjParallel); what stands between runs on local tensors, as the
 * families write it. All is played as rank 0 has it: the first rank's part is the largest.
 */
#include "parallel/tensor/tp.h"

#include "parallel/programs.h"
#include "torch/autograd.h"
#include "torch/collective.h"
#include "torch/hooks.h"

#include <string.h>

struct cut {
    struct work_group group;
    int64_t whole; /* of the dimension that is cut */
    val sum;       /* SPLIT_VOCABULARY in a class of its own, while it runs */
};

/* ---------------------------------------------------------------------------------------------------------------- forward */
static val columns_forward(struct run *r, struct module *m, val x)
{
    const struct cut *c = m->extra;

    return linear_op(r, sum_gradient(r, x, c->group), m->weight->value, m->bias ? m->bias->value : 0);
}

static val gathered_forward(struct run *r, struct module *m, val x)
{
    const struct cut *c = m->extra;

    return gather_columns(r, columns_forward(r, m, x), c->whole, c->group);
}

/* A bias is whole on every rank: a part of it is added to each rank's part of the sum (Replicate to Partial divides a copy). */
static uint32_t part_of_bias(struct run *r, const struct module *m)
{
    enum dtype t = r->autocast ? r->autocast_dtype : dtype_of(r, m->weight->value);

    return m->bias ? scratch_take(r, OP_DIV, (uint64_t)m->out * dtype_bytes(t), MARK_NONE) : 0;
}

/* RowwiseParallel without autograd (a reentrant checkpoint's first forward): the part is summed where it stands, the bias added behind. */
static val rows_without_grad(struct run *r, const struct module *m, val x)
{
    const struct cut *c = m->extra;
    val out = linear_op(r, x, m->weight->value, 0);

    if (run_dead(r))
        return out;
    out = sum_in_place(r, out, c->group);
    return m->bias ? add(r, out, m->bias->value) : out;
}

static val rows_forward(struct run *r, struct module *m, val x)
{
    const struct cut *c = m->extra;
    uint32_t part;
    val out;

    if (!r->grad_enabled)
        return rows_without_grad(r, m, x);
    part = part_of_bias(r, m);
    out = linear_op(r, x, m->weight->value, m->bias ? m->bias->value : 0);
    scratch_give(r, part);
    return run_dead(r) ? out : sum_over_ranks(r, out, c->group);
}

/* A Replicate that the ranks take their columns of. */
static val rows_of_whole_forward(struct run *r, struct module *m, val x)
{
    const struct cut *c = m->extra;

    return rows_forward(r, m, take_columns(r, x, c->group));
}

/* MlaKvAProjParallel: the keys' turned part goes to attention as it is, where each rank has heads of its own. */
static val last_columns_forward(struct run *r, struct module *m, val x)
{
    const struct cut *c = m->extra;
    val out = linear_op(r, x, m->weight->value, m->bias ? m->bias->value : 0), part[2];
    int64_t sizes[2] = {m->out - m->last_columns, m->last_columns};

    if (run_dead(r))
        return 0;
    split_with_sizes(r, out, -1, 2, sizes, part);
    part[1] = sum_gradient_in_place(r, part[1], c->group);
    return cat(r, 2, part, -1);
}

/* MoeExpertsParallel: hooks around a forward of several arguments. Gradients of the routing weights are summed too. */
static val experts_enter(struct run *r, struct module *m, void *of, val x)
{
    const struct cut *c = of;

    (void)m;
    return sum_gradient_in_place(r, x, c->group);
}

static val experts_leave(struct run *r, struct module *m, void *of, val result)
{
    const struct cut *c = of;

    (void)m;
    return sum_in_place(r, result, c->group);
}

/* _use_local_dtensor_params(): while forward runs its weights are what to_local() gave. Gradients wait at those nodes, which are older than all that
 * forward makes, and are added to what accumulated behind them. */
struct local {
    struct local *next;
    struct param *p;
    val value; /* 0: the parameter's own */
};

static val read_local(struct run *r, struct param *p)
{
    const struct local *l = p->reads_of;

    (void)r;
    return l->value ? l->value : p->value;
}

static void locals_enter(struct run *r, struct module *m)
{
    for (struct local *l = m->around->of; l && !run_dead(r); l = l->next) {
        val local = to_local(r, l->p->value);

        l->value = local == l->p->value ? 0 : owned(r, local);
        l->p->reads_of = l;
        l->p->reads = read_local;
    }
}

static void locals_leave(struct run *r, struct module *m)
{
    for (struct local *l = m->around->of; l; l = l->next) {
        l->p->reads = NULL;
        value_unref(r, l->value);
        l->value = 0;
    }
}

/* _MaskPartial: which ids are of other ranks, and the ids as rows of this one's part */
static val masked_ids(struct run *r, val ids, val *mask)
{
    const struct value *x = &r->values[ids];
    int nd = x->ndim;
    int64_t size[MAX_DIMS];
    val below, above, copy, masked;

    memcpy(size, x->size, sizeof size);
    below = owned(r, value_empty(r, OP_LT, DTYPE_BOOL, nd, size));
    above = owned(r, value_empty(r, OP_GT, DTYPE_BOOL, nd, size));
    *mask = owned(r, value_empty(r, OP_BITWISE_AND, DTYPE_BOOL, nd, size));
    value_unref(r, below);
    value_unref(r, above);
    copy = owned(r, value_empty(r, OP_CLONE, DTYPE_INT64, nd, size));
    masked = owned(r, value_empty(r, OP_SUB, DTYPE_INT64, nd, size));
    value_unref(r, copy);
    return masked;
}

/* Backward fills the gradient of the whole vocabulary: the node keeps the ids as they came, and its result is a Replicate. */
static val part_of_rows(struct run *r, struct module *m, val ids)
{
    const struct cut *c = m->extra;
    val mask, masked, out;

    masked = masked_ids(r, ids, &mask);
    out = embedding_op(r, m->weight->value, ids, m->padding_idx);
    if (out && r->values[out].node)
        r->nodes[r->values[out].node].at.i[0] = c->whole;
    value_unref(r, masked);
    value_unref(r, mask);
    return out;
}

static val vocabulary_forward(struct run *r, struct module *m, val ids)
{
    const struct cut *c = m->extra;
    val out = run_dead(r) ? 0 : part_of_rows(r, m, ids);

    return run_dead(r) ? out : sum_over_ranks(r, out, c->group);
}

/* super().forward() of a class that scales its rows: the product sums its argument for itself (redistribute_local_args), unseen by autograd. */
static val scaled_vocabulary_forward(struct run *r, struct module *m, val ids)
{
    struct cut *c = m->extra;
    val out = run_dead(r) ? 0 : part_of_rows(r, m, ids);

    if (!run_dead(r))
        c->sum = owned(r, reduced_clone(r, out, c->group));
    return out;
}

static val scaled_vocabulary_leave(struct run *r, struct module *m, void *of, val result)
{
    struct cut *c = of;

    (void)m;
    value_unref(r, c->sum);
    c->sum = 0;
    return result;
}

/* -------------------------------------------------------------------------------------------------------------------- cut */
/* By enum split: which dimension of weight and bias is cut (-1: none), and what forward becomes (NULL: what it is). */
static const struct {
    int weight, bias;
    module_forward forward;
} ways[] = {
    [SPLIT_COLUMNS] = {0, 0, columns_forward},
    [SPLIT_COLUMNS_GATHERED] = {0, 0, gathered_forward},
    [SPLIT_ROWS] = {1, -1, rows_forward},
    [SPLIT_ROWS_OF_WHOLE] = {1, -1, rows_of_whole_forward},
    [SPLIT_VOCABULARY] = {0, -1, vocabulary_forward},
    [SPLIT_SUM_LAST_COLUMNS] = {-1, -1, last_columns_forward},
    [SPLIT_NARROW_OUT] = {0, -1, NULL},
    [SPLIT_NARROW_IN] = {1, -1, NULL},
};

/* Shard: torch.chunk's sizes, the first of them. */
static void take_first(struct param *p, int dim, uint32_t ranks)
{
    if (p && dim >= 0)
        p->size[dim] = div_up(p->size[dim], ranks);
}

/* MoeExpertsParallel; LocalParamsParallel, which hooks nothing else. */
static bool cut_params(struct wrapping *w, struct module *m, struct cut *c)
{
    struct module_around *around = arena_new(w->tree->arena, struct module_around);
    struct local *locals = NULL, **end = &locals;

    for (struct param *p = m->params; p && around; p = p->next) {
        take_first(p, p->cut - 1, c->group.ranks);
        if (!p->cut)
            continue;
        *end = arena_new(w->tree->arena, struct local);
        if (!*end)
            return false;
        (*end)->p = p;
        end = &(*end)->next;
    }
    if (!around)
        return false;
    *around = (struct module_around){locals_enter, locals_leave, locals};
    m->around = around;
    if (m->split == SPLIT_EXPERTS)
        module_hook(w->tree, &m->hooks, (struct module_hook){experts_enter, experts_leave, c, NULL, NULL});
    return !w->tree->error.code;
}

static bool cut_module(struct wrapping *w, struct module *m)
{
    uint32_t ranks = w->o->at.tensor_parallel;
    struct cut *c = arena_new(w->tree->arena, struct cut);

    if (!c)
        return false;
    if (m->split == SPLIT_COLUMNS_GATHERED && m->out % ranks && !w->r->q->gathers_uneven_columns) {
        run_fail(w->r, ERR_FIELD_CONFLICT, "/training/tensor_parallel",
                 "transformers before 5.21 raises ValueError where the outputs of a linear that is gathered, such as the head's, do not divide by the GPUs");
        return false;
    }
    c->group = (struct work_group){ranks, 1};
    if (m->split == SPLIT_EXPERTS || m->split == SPLIT_OWN_PARAMS)
        return cut_params(w, m, c);
    c->whole = m->weight->tied ? m->weight->tied->owner->in : ways[m->split].weight < 0 ? m->out : m->weight->size[ways[m->split].weight];
    m->extra = c;
    if (m->split == SPLIT_VOCABULARY && m->forward != module_leaf_forward(m->kind)) {
        m->within = scaled_vocabulary_forward;
        module_hook(w->tree, &m->hooks, (struct module_hook){NULL, scaled_vocabulary_leave, c, NULL, NULL});
    } else if (ways[m->split].forward) {
        m->forward = ways[m->split].forward;
    }
    take_first(m->weight, ways[m->split].weight, ranks); /* a tied one too: who makes a tensor of its own for it asks for its size */
    take_first(m->bias, ways[m->split].bias, ranks);
    return true;
}

static bool is_touched(const struct module *m)
{
    return m->split != SPLIT_NONE && m->split != SPLIT_SUM_GRADIENT;
}

bool tp_is_sharded(const struct module *m)
{
    return is_touched(m) && m->split != SPLIT_SUM_LAST_COLUMNS && m->split != SPLIT_NARROW_OUT && m->split != SPLIT_NARROW_IN;
}

bool tp_cut(struct wrapping *w)
{
    for (uint32_t i = 1; i < w->tree->n_modules; i++) {
        struct module *m = w->tree->modules[i];

        if (is_touched(m) && !cut_module(w, m)) {
            if (!run_dead(w->r))
                run_fail(w->r, ERR_NOMEM, "", "the working memory of one request is too small for the plan of tensor parallelism");
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------------ the program */
struct tp {
    struct run *r;
    struct leaves leaves; /* as they were handed over */
    val *some;            /* leaves of one kind */
};

/* A foreach kernel takes DTensors or plain tensors, not both: each group of the optimizer is parted. */
static void train_one(void *context, struct module *m, struct param *p)
{
    struct wrapping *w = context;

    w->r->values[p->value].shard = p == m->weight && m->kind == MODULE_LINEAR && tp_is_sharded(m); /* should_use_local_tensors() */
    if (p->requires_grad && !p->tied)
        wrapping_train(context, p->value, 2U * p->group + !tp_is_sharded(m));
}

static void *wrap(struct wrapping *w)
{
    struct tp *t = arena_new(w->tree->arena, struct tp);

    if (!t || !tp_cut(w))
        return NULL;
    w->place(w);
    params_visit(w->tree->root, train_one, w);
    *t = (struct tp){.r = w->r, .leaves = w->leaves, .some = arena_array(w->tree->arena, val, w->leaves.n + (size_t)1)};
    return t->some ? t : NULL;
}

/* Norms of DTensors and of plain tensors do not mix either: each kind is clipped by its own; the last norm is what the caller sees. */
static val clip(void *of, double max_norm)
{
    struct tp *t = of;
    val norm = 0;

    (void)max_norm;
    for (unsigned plain = 0; plain < 2; plain++) {
        uint32_t n = 0;
        val old = norm;

        for (uint32_t i = 0; i < t->leaves.n; i++)
            if ((t->leaves.group[i] & 1U) == plain)
                t->some[n++] = t->leaves.leaf[i];
        if (!n)
            continue;
        norm = clip_grad_norm(t->r, n, t->some);
        value_unref(t->r, old);
    }
    return norm;
}

const struct method_program tp_program = {
    .source = "transformers/distributed/tensor_parallel.py, torch/distributed/tensor",
    .wrap = wrap,
    .clip = clip,
};
