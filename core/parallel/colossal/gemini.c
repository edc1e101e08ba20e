/* gemini.c - GeminiDDP and ZeroOptimizer over HybridAdam: a model becomes chunks, hooks gather and reduce them, a step updates shards. */
#include "parallel/colossal/inside.h"

#include "parallel/programs.h"
#include "torch/autograd.h"
#include "torch/collective.h"
#include "torch/hooks.h"
#include "torch/ops.h"

/* --------------------------------------------------------------------------------------------------------------- wrap */
static void number(void *context, struct module *m, struct param *p)
{
    struct colossal *c = context;
    bool cut = c->o->at.tensor_parallel > 1 && colossal_is_cut(m, p);

    if (!p->requires_grad || p->tied || !p->value)
        return;
    c->params[c->n++] = (struct colossal_param){.p = p, .elems = numel(c->r, p->value), .group = cut || c->o->at.tensor_parallel <= 1 ? 0 : 1};
    c->last_value = p->value > c->last_value ? p->value : c->last_value;
}

/* process_group.py: ranks of a tensor-parallel group are neighbours; what is not cut has the group of all. */
static void name_groups(struct colossal *c)
{
    const struct layout *at = &c->o->at;

    c->groups[0].ranks = (struct work_group){at->data_parallel, at->tensor_parallel};
    c->groups[1].ranks = (struct work_group){at->world, 1};
}

static bool make_room(struct colossal *c, uint32_t n)
{
    c->params = run_room(c->r, sizeof *c->params, n + (size_t)1);
    c->chunks = run_room(c->r, sizeof *c->chunks, n + (size_t)1);
    return c->params && c->chunks;
}

static bool index_values(struct colossal *c)
{
    c->index_of = run_room(c->r, sizeof *c->index_of, c->last_value + (size_t)1);
    for (uint32_t i = 0; c->index_of && i < c->n; i++)
        c->index_of[c->params[i].p->value] = i + 1;
    return c->index_of != NULL;
}

static struct colossal_chunk *chunk_of(struct colossal *c, val v)
{
    uint32_t i = v <= c->last_value ? c->index_of[v] : 0;

    return i ? &c->chunks[c->params[i - 1].chunk] : NULL;
}

/* GeminiZeROHook.pre_op of the operators that read the module's parameters */
static val before_module(struct run *r, struct module *m, void *of, val x)
{
    struct colossal *c = of;

    (void)r;
    for (const struct param *p = m->params; p; p = p->next) {
        struct colossal_chunk *k = p->buffer ? NULL : chunk_of(c, p->value);

        if (k)
            colossal_access(c, k);
    }
    return x;
}

static void hook_modules(struct colossal *c, struct tree *t)
{
    for (uint32_t i = 1; i < t->n_modules; i++)
        if (t->modules[i]->params && module_is_below(t->modules[i], t->root))
            module_hook(t, &t->modules[i]->hooks, (struct module_hook){before_module, NULL, c, NULL, NULL});
}

/* grad_handle(): a tensor without storage stands for the gradient, which lies in the chunk from now on. */
static void grad_ready(void *of, val leaf)
{
    struct colossal *c = of;
    struct run *r = c->r;
    struct colossal_chunk *k = run_dead(r) ? NULL : chunk_of(c, leaf);
    val *grad = k ? grad_of(r, leaf) : NULL, old;
    uint64_t bytes;

    if (!grad || !*grad)
        return;
    old = *grad;
    bytes = (uint64_t)numel(r, old) * dtype_bytes(c->dtype);
    scratch(r, OP_EMPTY, bytes);
    work_add(r, OP_CLONE, 0, 2 * bytes, 1);
    *grad = 0;
    value_unref(r, old);
    if (++k->ready == k->n)
        colossal_reduce(c, k);
}

/* HybridAdam's _dummy_overflow_buf; DynamicGradScaler's scale, its smallest and largest; found_overflow */
static void place_scalars(struct colossal *c)
{
    static const enum dtype scalars[] = {DTYPE_INT32, DTYPE_FP32, DTYPE_FP32, DTYPE_FP32, DTYPE_FP32};

    for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++)
        mark_block(c->r, owned(c->r, value_empty(c->r, OP_EMPTY, scalars[i], 0, NULL)), MARK_OPTIMIZER_STATE);
}

static void *wrap(struct wrapping *w)
{
    struct run *r = w->r;
    struct colossal *c = run_dead(r) ? NULL : run_room(r, sizeof *c, 1);

    if (!c)
        return NULL;
    *c = (struct colossal){.r = r, .o = w->o, .dtype = w->o->compute};
    if (w->o->at.tensor_parallel > 1)
        colossal_cut(w);
    if (run_dead(r))
        return NULL;
    w->place(w);
    wrapping_half(w);
    empty_cache(r);
    wrapping_train_all(w);
    if (run_dead(r) || !make_room(c, w->leaves.max))
        return NULL;
    params_visit(w->tree->root, number, c);
    if (!index_values(c))
        return NULL;
    name_groups(c);
    colossal_search(c);
    for (uint32_t i = 0; i < c->n && !run_dead(r); i++)
        colossal_register(c, i);
    for (int g = 0; g < COLOSSAL_GROUPS; g++)
        colossal_close(c, &c->groups[g]);
    place_scalars(c);
    hook_modules(c, w->tree);
    r->grad_ready = grad_ready;
    r->grad_ready_of = c;
    return run_dead(r) ? NULL : c;
}

/* -------------------------------------------------------------------------------------------------------------- a step */
/* loss_scale * loss, the scale read from the device; dp_real.py empties the cache after its first backward. */
static void backward(void *of, val loss)
{
    struct colossal *c = of;
    struct run *r = c->r;
    val root, one;

    host_waits(r);
    value_ref(r, loss);
    r->values[loss].floating = true;
    root = owned(r, mul_scalar(r, loss));
    if (run_dead(r))
        return;
    one = owned(r, value_empty(r, OP_ONES_LIKE, dtype_of(r, root), 0, NULL));
    run_graph(r, 1, &root, &one);
    value_unref(r, one);
    value_unref(r, root);
    if (!c->emptied)
        empty_cache(r);
    c->emptied = true;
}

static int64_t clamped(int64_t n, int64_t most)
{
    return n < most ? n : most;
}

/* get_range_pair(): what of a parameter lies in this rank's shard */
static int64_t range_of(const struct colossal *c, const struct colossal_param *p)
{
    const struct colossal_chunk *k = &c->chunks[p->chunk];
    int64_t here = !k->group->keeps ? k->elems / k->group->ranks.ranks : k->elems;

    return clamped(p->begin + p->elems, here) - clamped(p->begin, here);
}

static val zeros_like(struct colossal *c, int64_t elems)
{
    val v = owned(c->r, value_empty(c->r, OP_ZEROS_LIKE, DTYPE_FP32, 1, &elems));

    mark_block(c->r, v, MARK_OPTIMIZER_STATE);
    return v;
}

/* hybrid_adam.py: each tensor's own, in the first step */
static void make_states(struct colossal *c)
{
    for (uint32_t i = 0; i < c->n && !c->stands; i++) {
        struct colossal_param *p = &c->params[i];
        int64_t elems = range_of(c, p);

        if (!elems)
            continue;
        p->exp_avg = zeros_like(c, elems);
        p->exp_avg_sq = zeros_like(c, elems);
    }
    c->stands = true;
}

static void prepare(void *of)
{
    make_states(of);
}

enum { ADAM_TENSORS_A_LAUNCH = 36 }; /* csrc/multi_tensor_apply.cuh depth_to_max_tensors of four lists */

/* multi_tensor_adam over the ranges; then optim_update() of each chunk: half from master. */
static void update(struct colossal *c)
{
    struct run *r = c->r;
    uint64_t elems = 0;
    uint32_t tensors = 0;

    for (uint32_t i = 0; i < c->n; i++) {
        elems += (uint64_t)range_of(c, &c->params[i]);
        tensors += range_of(c, &c->params[i]) > 0;
    }
    work_add(r, OP_ADD, 0, elems * (3 * 8 + dtype_bytes(c->dtype)), 1 + tensors / ADAM_TENSORS_A_LAUNCH);
    for (uint32_t i = 0; i < c->n_chunks; i++)
        work_add(r, OP_TO_COPY, 0, (uint64_t)colossal_share(&c->chunks[i]) * (4 + dtype_bytes(c->dtype)), 1);
}

/* check_overflow() and the norm's sum go around; the host reads each. */
static void step(struct colossal *c)
{
    struct run *r = c->r;

    if (run_dead(r))
        return;
    work_message(r, COLLECTIVE_ALL_REDUCE, 8);
    host_waits(r);
    if (c->o->max_grad_norm > 0) {
        scratch(r, OP_ZEROS, 4);
        work_message(r, COLLECTIVE_ALL_REDUCE, 4);
        host_waits(r);
    }
    make_states(c);
    update(c);
}

static void end_micro_step(void *of, bool boundary)
{
    if (boundary)
        step(of);
}

const struct method_program colossal_program = {
    .source = "colossalai zero/gemini/gemini_ddp.py, gemini_optimizer.py, chunk/chunk.py",
    .wrap = wrap,
    .backward = backward,
    .end_micro_step = end_micro_step,
    .prepare = prepare,
    .cuts_layers = true,
    .records_streams = true,
};
