/* optim_torch.c - torch.optim and what is written as it is: lists of tensors at a time, fused, one by one. See optim.h. */
#include "torch/optim_inside.h"

#include <string.h>

val optim_like(struct run *r, enum op op, val of)
{
    val v = value_empty(r, op, dtype_of(r, of), r->values[of].ndim, r->values[of].size);

    if (v && !r->values[of].contiguous)
        for (int i = 0; i < r->values[of].ndim; i++)
            r->values[v].stride[i] = r->values[of].stride[i];
    return owned(r, v);
}

val optim_state_like(struct run *r, enum op op, val of)
{
    val v = optim_like(r, op, of);

    mark_block(r, v, MARK_OPTIMIZER_STATE);
    return v;
}

/* ----------------------------------------------------------------------------------------------------------- kernels */
/* What one kernel does with each element of a parameter: tensors it reads and writes, in the parameter's dtype. `lists` of a foreach
 * kernel: its depth in MultiTensorApply.cuh. */
struct update {
    uint8_t op, accesses, flops, lists;
};
enum { MAX_UPDATES = 10 };

/* adam.py _multi_tensor_adam and _single_tensor_adam: decay, lerp_, mul_, addcmul_, sqrt, div_, add_, addcdiv_; fused_adam_impl.cu reads and
 * writes parameter and two states and reads the gradient; sgd.py: one add_. adagrad.py _multi_tensor_adagrad, rmsprop.py _multi_tensor_rmsprop,
 * schedulefree 1.4.1 adamw_schedulefree.py, sgd_schedulefree.py: as they stand there. */
static const struct update updates[][MAX_UPDATES] = {
    [OPTIM_ADAMW_FOREACH] = {{OP_MUL, 2, 1, 1},
                             {OP_ADD, 3, 3, 2},
                             {OP_MUL, 2, 1, 1},
                             {OP_ADD, 3, 3, 3},
                             {OP_FOREACH_SQRT, 2, 1, 2},
                             {OP_DIV, 2, 1, 1},
                             {OP_ADD, 2, 1, 1},
                             {OP_DIV, 4, 3, 3}},
    [OPTIM_ADAMW_FUSED] = {{OP_ADD, 7, 14, 4}},
    [OPTIM_ADAMW_LOOP] = {{OP_MUL, 2, 1, 0},
                          {OP_ADD, 3, 3, 0},
                          {OP_MUL, 2, 1, 0},
                          {OP_ADD, 3, 3, 0},
                          {OP_SQRT, 2, 1, 0},
                          {OP_DIV, 2, 1, 0},
                          {OP_ADD, 2, 1, 0},
                          {OP_DIV, 4, 3, 0}},
    [OPTIM_ADAMW_HF] = {{OP_MUL, 2, 1, 0}, {OP_ADD, 3, 2, 0}, {OP_MUL, 2, 1, 0}, {OP_ADD, 3, 3, 0}, {OP_SQRT, 2, 1, 0}, {OP_ADD, 2, 1, 0}, {OP_DIV, 4, 3, 0}},
    [OPTIM_SGD] = {{OP_ADD, 3, 2, 2}},
    [OPTIM_ADAGRAD] = {{OP_ADD, 3, 3, 2}, {OP_FOREACH_SQRT, 2, 1, 2}, {OP_ADD, 2, 1, 1}, {OP_MUL, 2, 1, 2}, {OP_DIV, 4, 3, 3}},
    [OPTIM_RMSPROP] = {{OP_MUL, 2, 1, 1}, {OP_ADD, 3, 3, 2}, {OP_FOREACH_SQRT, 2, 1, 2}, {OP_ADD, 2, 1, 1}, {OP_DIV, 4, 3, 3}},
    [OPTIM_FREE_ADAMW] = {{OP_MUL, 2, 1, 1},
                          {OP_ADD, 3, 3, 2},
                          {OP_DIV, 2, 1, 2},
                          {OP_FOREACH_SQRT, 2, 1, 1},
                          {OP_ADD, 2, 1, 1},
                          {OP_DIV, 3, 1, 2},
                          {OP_ADD, 3, 3, 2},
                          {OP_ADD, 3, 2, 2},
                          {OP_SUB, 3, 2, 2}},
    [OPTIM_FREE_SGD] = {{OP_ADD, 3, 3, 2}, {OP_ADD, 3, 2, 2}, {OP_SUB, 3, 2, 2}},
};

struct sums {
    uint64_t elems, bytes, chunks, tensors;
};

static struct sums sums_of(const struct run *r, uint32_t n, const val *leaves)
{
    struct sums s = {0};

    for (uint32_t i = 0; i < n; i++)
        if (optim_has_grad(r, leaves[i])) {
            uint64_t elems = (uint64_t)numel(r, leaves[i]);

            s.elems += elems;
            s.bytes += elems * dtype_bytes(dtype_of(r, leaves[i]));
            s.chunks += (elems + CHUNK - 1) / CHUNK;
            s.tensors++;
        }
    return s;
}

static void launch_update(struct run *r, const struct update *u, const struct sums *s)
{
    if (u->lists && s->tensors)
        work_add_list(r, u->op, s->elems * u->flops, s->bytes * u->accesses, u->lists, s->chunks, s->tensors);
    else
        work_add(r, u->op, s->elems * u->flops, s->bytes * u->accesses, (uint32_t)s->tensors);
}

static void launch_updates(struct run *r, const struct optim *o, int g)
{
    struct sums s;

    if (!r->work || !o->n_group[g])
        return;
    s = sums_of(r, o->n_group[g], o->group[g]);
    for (int i = 0; i < MAX_UPDATES && updates[o->kind][i].accesses; i++)
        launch_update(r, &updates[o->kind][i], &s);
}

/* _foreach_norm and _foreach_mul_ of the gradients, _amp_foreach_non_finite_check_and_unscale_ */
void optim_launch_over(struct run *r, enum op op, unsigned accesses, uint32_t n, const val *leaves)
{
    struct sums s;

    if (!r->work)
        return;
    s = sums_of(r, n, leaves);
    launch_update(r, &(struct update){(uint8_t)op, (uint8_t)accesses, 1, 1}, &s);
}

static bool has_one_state(enum optim_kind kind)
{
    return kind == OPTIM_ADAGRAD || kind == OPTIM_RMSPROP || kind == OPTIM_FREE_SGD;
}

/* adam.py _init_group: fused keeps its step on the device. schedulefree: z is a clone of the parameter. */
void optim_torch_init(struct run *r, struct optim *o, struct optim_state *s, val leaf)
{
    bool free = o->kind == OPTIM_FREE_ADAMW || o->kind == OPTIM_FREE_SGD;

    s->stands = true;
    if (o->kind == OPTIM_ADAMW_FUSED) {
        s->step = owned(r, value_empty(r, OP_ZEROS, DTYPE_FP32, 0, NULL));
        mark_block(r, s->step, MARK_OPTIMIZER_STATE);
    }
    if (!has_one_state(o->kind) || free)
        s->exp_avg = optim_state_like(r, free ? OP_CLONE : OP_ZEROS_LIKE, leaf);
    if (o->kind != OPTIM_FREE_SGD)
        s->exp_avg_sq = optim_state_like(r, OP_ZEROS_LIKE, leaf);
}

static void init_states(struct run *r, struct optim *o, int g)
{
    for (uint32_t i = 0; i < o->n_group[g] && o->kind != OPTIM_SGD; i++)
        if (!o->state[g][i].stands && optim_has_grad(r, o->group[g][i]))
            optim_torch_init(r, o, &o->state[g][i], o->group[g][i]);
}

/* _group_tensors_by_device_and_dtype, ForeachUtils.cpp: an unordered_map, which libstdc++ walks from the key that came last. Returns how many. */
int optim_dtypes_of(const struct run *r, uint32_t n, const val *leaves, enum dtype ret[DTYPE_COUNT])
{
    int count = 0, k;

    for (uint32_t i = 0; i < n; i++) {
        enum dtype t = dtype_of(r, leaves[i]);

        for (k = 0; k < count && ret[k] != t; k++)
            ;
        if (k < count || !optim_has_grad(r, leaves[i]))
            continue;
        memmove(ret + 1, ret, (size_t)count * sizeof *ret);
        ret[0] = t;
        count++;
    }
    return count;
}

/* Lists that a foreach optimizer's names hold while it runs: one for each dtype and name, bound anew by the next dtype's; the last ones die together. */
struct names {
    val *v;
    uint32_t before, last;
};

static void bind_list(struct run *r, struct names *n, uint32_t to)
{
    for (uint32_t i = n->last; i > n->before; i--)
        value_unref(r, n->v[i - 1]);
    n->before = n->last;
    n->last = to;
}

static bool names_init(struct run *r, struct names *n, uint32_t most)
{
    *n = (struct names){.v = arena_array(r->arena, val, most ? most : 1)};
    if (!n->v)
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the optimizer's lists");
    return n->v;
}

/* One list as long as the parameters of this dtype, each as large. Returns where it ends. */
static uint32_t make_list(struct run *r, const struct optim *o, int g, enum dtype t, enum op op, struct names *n, uint32_t at)
{
    for (uint32_t i = 0; i < o->n_group[g]; i++)
        if (o->state[g][i].stands && optim_has_grad(r, o->group[g][i]) && dtype_of(r, o->group[g][i]) == t)
            n->v[at++] = optim_like(r, op, o->group[g][i]);
    return at;
}

/* _multi_tensor_adam: exp_avg_sq_sqrt; _multi_tensor_rmsprop: avg; _multi_tensor_adagrad: std and numerator */
static void foreach_in_lists(struct run *r, struct optim *o, int g)
{
    unsigned char *mark = r->arena->cur;
    struct names first, second;
    enum dtype order[DTYPE_COUNT];
    int dtypes = optim_dtypes_of(r, o->n_group[g], o->group[g], order);
    bool two = o->kind == OPTIM_ADAGRAD;

    if (!names_init(r, &first, o->n_group[g]) || !names_init(r, &second, o->n_group[g]))
        return;
    for (int t = 0; t < dtypes; t++) {
        uint32_t to = make_list(r, o, g, order[t], OP_FOREACH_SQRT, &first, first.last);

        bind_list(r, &first, to);
        if (two)
            bind_list(r, &second, make_list(r, o, g, order[t], OP_MUL, &second, second.last));
    }
    bind_list(r, &second, second.last);
    bind_list(r, &first, first.last);
    arena_rewind(r->arena, mark);
}

/* _single_tensor_adam: denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps), a local that the next parameter binds anew; returns the last */
static val loop_adamw(struct run *r, struct optim *o, int g, val denominator)
{
    for (uint32_t i = 0; i < o->n_group[g]; i++) {
        val root, last = denominator, leaf = o->group[g][i];

        if (!optim_has_grad(r, leaf))
            continue;
        if (!o->state[g][i].stands)
            optim_torch_init(r, o, &o->state[g][i], leaf);
        root = optim_like(r, OP_SQRT, leaf);
        denominator = root;
        if (o->kind == OPTIM_ADAMW_LOOP) {
            denominator = optim_like(r, OP_DIV, leaf);
            value_unref(r, root);
        }
        value_unref(r, last);
    }
    return denominator;
}

/* transformers 4.40.0 optimization.py AdamW.step: denom = exp_avg_sq.sqrt().add_(eps) outlives its group */
static void hf_adamw(struct run *r, struct optim *o)
{
    val denominator = 0;

    for (int g = 0; g < OPTIM_GROUPS; g++) {
        launch_updates(r, o, g);
        denominator = loop_adamw(r, o, g, denominator);
    }
    value_unref(r, denominator);
}

/* AdamWScheduleFree.step: denom, a list of each group, outlives its group; the gradients are divided in place. SGDScheduleFree makes none. */
static void schedule_free(struct run *r, struct optim *o)
{
    unsigned char *mark = r->arena->cur;
    struct names denominators;
    uint32_t all = 0;

    for (int g = 0; g < OPTIM_GROUPS; g++)
        all += o->n_group[g];
    if (!names_init(r, &denominators, all))
        return;
    for (int g = 0; g < OPTIM_GROUPS; g++) {
        uint32_t at = denominators.last;

        launch_updates(r, o, g);
        init_states(r, o, g);
        if (o->kind != OPTIM_FREE_ADAMW || !o->n_group[g])
            continue;
        for (uint32_t i = 0; i < o->n_group[g]; i++)
            if (optim_has_grad(r, o->group[g][i]))
                denominators.v[at++] = optim_like(r, OP_DIV, o->group[g][i]);
        bind_list(r, &denominators, at);
    }
    bind_list(r, &denominators, denominators.last);
    arena_rewind(r->arena, mark);
}

/* A DTensor's gradient may be whole where the parameter is cut (an embedding's): each list of gradients that a kernel takes has this rank's part copied
 * out first (placement_types.py Shard._replicate_to_shard), and lets go of it after. */
static void take_shards(struct run *r, const struct optim *o, int g, uint32_t lists)
{
    unsigned char *mark = r->arena->cur;
    uint32_t n = 0, most = lists * o->n_group[g];
    val *shards = arena_array(r->arena, val, most ? most : 1);

    if (!shards) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the optimizer's lists");
        return;
    }
    for (uint32_t l = 0; l < lists; l++)
        for (uint32_t i = 0; i < o->n_group[g]; i++) {
            val leaf = o->group[g][i], *grad = grad_of(r, leaf);

            if (grad && *grad && numel(r, *grad) != numel(r, leaf))
                shards[n++] = optim_like(r, OP_CLONE, leaf);
        }
    while (n)
        value_unref(r, shards[--n]);
    arena_rewind(r->arena, mark);
}

void optim_torch_group(struct run *r, struct optim *o, int g)
{
    bool lists = o->kind == OPTIM_ADAMW_FOREACH || o->kind == OPTIM_ADAGRAD || o->kind == OPTIM_RMSPROP;

    launch_updates(r, o, g);
    init_states(r, o, g);
    take_shards(r, o, g, 1); /* lerp_, fused, add_ */
    if (lists || o->kind == OPTIM_ADAMW_LOOP)
        take_shards(r, o, g, 2); /* addcmul_ */
    if (lists)
        foreach_in_lists(r, o, g);
    else if (o->kind == OPTIM_ADAMW_LOOP)
        value_unref(r, loop_adamw(r, o, g, 0));
}

void optim_torch_step(struct run *r, struct optim *o)
{
    if (o->kind == OPTIM_ADAMW_HF)
        hf_adamw(r, o);
    else if (o->kind == OPTIM_FREE_ADAMW || o->kind == OPTIM_FREE_SGD)
        schedule_free(r, o);
    else
        for (int g = 0; g < OPTIM_GROUPS; g++)
            optim_torch_group(r, o, g);
}
