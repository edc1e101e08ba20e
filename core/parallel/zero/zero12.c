/* zero12.c - deepspeed.initialize() with ZeRO stage 1 or 2, and the engine's part in a step. */
#include "parallel/zero/inside12.h"

#include "parallel/programs.h"
#include "torch/autograd.h"

#include <string.h>

/* --------------------------------------------------------------------------------------------------------- the engine */
struct taking {
    struct zero12 *z;
    unsigned group;
};

static void take_param(void *context, struct module *m, struct param *p)
{
    struct taking *t = context;
    struct zero12 *z = t->z;
    struct zero12_group *g = &z->groups[z->n_groups];
    uint64_t elems;

    (void)m;
    if (!p->requires_grad || p->tied || p->group != t->group || !p->value)
        return;
    elems = (uint64_t)numel(z->r, p->value);
    z->params[z->n++] = (struct zero12_param){.leaf = p->value, .group = (uint8_t)z->n_groups, .elems = elems, .offset = g->elems};
    g->elems += elems;
    z->largest = elems > z->largest ? elems : z->largest;
    z->last_leaf = p->value > z->last_leaf ? p->value : z->last_leaf;
}

/* Groups without parameters are left out. */
static void take_groups(struct zero12 *z, struct tree *tree)
{
    for (unsigned k = 0; k < ZERO_GROUPS; k++) {
        struct taking t = {z, k};
        struct zero12_group *g = &z->groups[z->n_groups];

        g->begin = z->n;
        params_visit(tree->root, take_param, &t);
        g->end = z->n;
        z->n_groups += g->end > g->begin;
    }
}

/* _round_robin_reorder: what the first rank gets of each round, then the second's; within the flat buffer alone, whose shares do not heed it */
static bool deal_out(struct zero12 *z)
{
    struct zero12_param *was = arena_array(z->r->arena, struct zero12_param, z->n);

    z->in_order = arena_array(z->r->arena, uint32_t, z->n);
    if (!was || !z->in_order)
        return false;
    memcpy(was, z->params, z->n * sizeof *was);
    for (uint32_t k = 0; k < z->n_groups; k++) {
        struct zero12_group *g = &z->groups[k];
        uint64_t offset = 0;
        uint32_t at = g->begin;

        for (uint32_t j = 0; j < z->ranks && at < g->end; j++)
            for (uint32_t i = g->begin + j; i < g->end; i += z->ranks) {
                z->in_order[i] = at;
                z->params[at] = was[i];
                z->params[at++].offset = offset;
                offset += was[i].elems;
            }
    }
    return true;
}

static bool make_room(struct zero12 *z, uint32_t max)
{
    struct arena *a = z->r->arena;
    bool ok = true;

    z->params = arena_array(a, struct zero12_param, max);
    z->bucket = arena_array(a, uint32_t, max);
    z->norm_order = arena_array(a, uint32_t, max);
    z->list = arena_array(a, val, max + ZERO_GROUPS);
    for (int i = 0; i < ZERO_GROUPS; i++) {
        z->groups[i].averaged = arena_array(a, val, max + 1);
        ok = ok && z->groups[i].averaged;
    }
    return ok && z->params && z->bucket && z->norm_order && z->list;
}

static void start_optimizer(struct zero12 *z, struct zero12_group *g)
{
    struct run *r = z->r;

    if (!g->master)
        return;
    require_grad(r, g->master);
    pin_leaf(r, g->master);
    g->optim = zero_optim(z->o);
    g->optim.n_group[0] = 1;
    g->optim.group[0] = &g->master;
    g->optim.state[0] = &g->state;
}

/* initialize_optimizer_states: a gradient of zeros for each group, all gone again at its end */
static void try_gradients(struct zero12 *z)
{
    val zeros[ZERO_GROUPS];

    if (z->offload)
        return;
    for (uint32_t i = 0; i < z->n_groups; i++)
        zeros[i] = zero_flat(z->r, OP_ZEROS, DTYPE_FP32, z->groups[i].share);
    for (uint32_t i = 0; i < z->n_groups; i++)
        value_unref(z->r, zeros[i]);
}

static bool index_leaves(struct zero12 *z)
{
    z->index_of = arena_array(z->r->arena, uint32_t, z->last_leaf + (size_t)1);
    if (!z->index_of)
        return false;
    for (uint32_t i = 0; i < z->n; i++)
        z->index_of[z->params[i].leaf] = i + 1;
    return true;
}

static void initialise(struct zero12 *z)
{
    for (uint32_t i = 0; i < z->n_groups && !run_dead(z->r); i++) {
        zero12_share(z, &z->groups[i]);
        zero12_flatten(z, &z->groups[i]);
        start_optimizer(z, &z->groups[i]);
    }
    if (z->offload) {
        z->temp_buffer = zero_flat(z->r, OP_ZEROS, z->dtype, z->largest);
        mark_block(z->r, z->temp_buffer, MARK_COMMUNICATION);
    }
    try_gradients(z);
}

/* AccumulateGrad's post hook. Stage 1 reduces when the backward has ended, unless communication overlaps. */
static void grad_ready(void *of, val leaf)
{
    struct zero12 *z = of;
    uint32_t param = leaf <= z->last_leaf ? z->index_of[leaf] : 0;

    if (!param || run_dead(z->r))
        return;
    if (!z->r->q->zero_buckets_first)
        zero12_make_buffers(z);
    if (z->shards_gradients || (z->overlap && z->boundary))
        zero12_add(z, param - 1);
}

static struct zero12 *engine_new(struct wrapping *w)
{
    struct run *r = w->r;
    struct zero12 *z = arena_new(r->arena, struct zero12);

    if (!z)
        return NULL;
    z->engine = (struct zero_engine){.r = r, .o = w->o};
    z->r = r;
    z->o = w->o;
    z->ranks = w->o->at.data_parallel;
    z->rank = w->o->at.rank;
    z->shards_gradients = w->o->method == METHOD_ZERO2;
    z->offload = w->o->offload != OFFLOAD_NONE;
    z->overlap = w->o->zero.overlap_comm;
    z->dtype = w->o->compute;
    return z;
}

static void *wrap(struct wrapping *w)
{
    struct run *r = w->r;
    struct zero12 *z = engine_new(w);

    zero_place(w);
    wrapping_train_all(w);
    if (run_dead(r))
        return NULL;
    if (!z || !make_room(z, w->leaves.max)) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for ZeRO's partitions");
        return NULL;
    }
    take_groups(z, w->tree);
    if ((w->o->zero.round_robin && z->n && !deal_out(z)) || !index_leaves(z)) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for ZeRO's partitions");
        return NULL;
    }
    initialise(z);
    r->grad_ready = grad_ready;
    r->grad_ready_of = z;
    r->grad_ready_of_tensors = true; /* deepspeed/utils/torch.py register_grad_hook */
    return run_dead(r) ? NULL : z;
}

/* ----------------------------------------------------------------------------------------------------------- a step */
static void begin_micro_step(void *of, bool sync)
{
    struct zero12 *z = of;

    z->boundary = sync;
}

static void prologue(void *of)
{
    zero12_make_buffers(of);
}

/* engine.allreduce_gradients: stage 2 after every backward; stage 1 at the boundary, all gradients in the order of their groups */
static void epilogue(void *of)
{
    struct zero12 *z = of;

    if (!z->shards_gradients && !z->boundary)
        return;
    for (uint32_t i = 0; i < z->n && !z->shards_gradients && !z->overlap && !run_dead(z->r); i++)
        if (*zero12_gradient(z, z->in_order ? z->in_order[i] : i))
            zero12_add(z, z->in_order ? z->in_order[i] : i);
    zero12_epilogue(z);
}

static void backward(void *of, val loss)
{
    struct zero12 *z = of;
    struct zero_stage s = {.prologue = z->r->q->zero_buckets_first ? prologue : NULL, .epilogue = epilogue, .of = z};

    zero_backward(&z->engine, loss, &s);
}

static void prepare(void *of)
{
    struct zero12 *z = of;

    for (uint32_t i = 0; i < z->n_groups; i++)
        zero_optim_prepare(z->r, &z->groups[i].optim, &z->groups[0].optim);
}

static void leave(void *of)
{
    struct zero12 *z = of;

    z->engine.global_norm = zero_scalar(z->r, OP_DIV, DTYPE_FP32);
}

static void end_micro_step(void *of, bool boundary)
{
    if (boundary)
        zero12_step(of);
}

static uint64_t host_bytes(const void *of)
{
    const struct zero12 *z = of;

    return zero12_host_bytes(z);
}

static uint64_t host_bytes_of_all(const void *of)
{
    return zero12_host_bytes_of_all(of);
}

const struct method_program zero12_program = {
    .source = "deepspeed runtime/engine.py, runtime/zero/stage_1_and_2.py",
    .wrap = wrap,
    .begin_micro_step = begin_micro_step,
    .backward = backward,
    .end_micro_step = end_micro_step,
    .prepare = prepare,
    .leave = leave,
    .host_bytes = host_bytes,
    .host_bytes_of_all = host_bytes_of_all,
    .ranks = zero12_ranks,
    .first_is_highest = true,
    .cuts_layers = true,
};
