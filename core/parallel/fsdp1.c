/* fsdp1.c - FullyShardedDataParallel: units, their hooks in forward and backward, prefetching. _runtime_utils.py, _exec_order_utils.py. */
#include "parallel/fsdp1.h"

#include "parallel/programs.h"
#include "torch/autograd.h"
#include "torch/hooks.h"
#include "torch/work.h"

#include <stddef.h>

void *fsdp1_room(struct run *r, size_t size, size_t n)
{
    void *p = arena_push(r->arena, size, _Alignof(max_align_t), n ? n : 1);

    if (!p)
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the units of FullyShardedDataParallel");
    return p;
}

/* ----------------------------------------------------------------------------------------------------------- prefetching */
static struct unit *next_in_backward(const struct unit *u)
{
    int32_t at = u->post_forward_index - 1;
    struct unit *next = at >= 0 && (uint32_t)at < u->all->n_order ? u->all->post_forward_order[at] : NULL;

    return next && next->needs_backward_unshard && !next->prefetched ? next : NULL;
}

static struct unit *next_in_forward(const struct unit *u)
{
    int32_t at = u->pre_forward_index + 1;
    struct unit *next = u->pre_forward_index >= 0 && (uint32_t)at < u->all->n_first_order ? u->all->pre_forward_order[at] : NULL;

    return next && next->needs_forward_unshard && !next->prefetched ? next : NULL;
}

/* _get_handle_to_prefetch */
static struct unit *next_of(const struct unit *u)
{
    enum fsdp_prefetch p = u->all->o->fsdp.backward_prefetch;

    if ((u->state == HANDLE_BACKWARD_PRE && p == FSDP_PREFETCH_PRE) || (u->state == HANDLE_BACKWARD_POST && p == FSDP_PREFETCH_POST))
        return next_in_backward(u);
    return u->state == HANDLE_FORWARD && u->all->o->fsdp.forward_prefetch ? next_in_forward(u) : NULL;
}

/* _prefetch_handle: as if it were in the state that it is gathered for */
static void prefetch(struct unit *u, enum handle_state as)
{
    struct unit *next = next_of(u);
    enum handle_state was;

    if (!next)
        return;
    was = next->state;
    next->state = as;
    unit_unshard(next);
    next->state = was;
    next->prefetched = true;
}

/* --------------------------------------------------------------------------------------------------------------- backward */
static bool frees_in_backward(const struct fsdp1 *f)
{
    return f->sharded && (f->synchronises || f->reshards_after_forward);
}

static void post_backward_reshard(struct unit *u)
{
    unit_reshard(u, frees_in_backward(u->all));
    prefetch(u, HANDLE_BACKWARD_PRE);
}

/* _post_backward_hook, of the flat parameter's AccumulateGrad */
static void post_backward(void *of, val leaf)
{
    struct fsdp1 *f = of;
    uint32_t i = leaf <= f->last_flat ? f->unit_of_flat[leaf] : 0;
    struct unit *u = i ? &f->units[i - 1] : NULL;

    if (!u || run_dead(f->r))
        return;
    u->post_backward_called = true;
    u->state = HANDLE_BACKWARD_POST;
    post_backward_reshard(u);
    if (f->synchronises)
        unit_reduce_gradient(u);
    else if (f->o->fsdp.use_orig_params)
        unit_use_unsharded_gradient_views(u);
}

/* _post_backward_reshard_only_hook: a frozen unit's input has its gradient. */
static void post_backward_reshard_only(struct run *r, void *of)
{
    struct unit *u = of;

    if (r->q->fsdp1_frozen_units_prefetch)
        u->state = HANDLE_BACKWARD_POST;
    post_backward_reshard(u);
}

/* _finalize_params; what its hook watched is let go of */
static void finalize(struct unit *u)
{
    u->hooked = false;
    node_unref(u->all->r, u->watched);
    u->watched = 0;
    if (u->trained && u->all->synchronises) {
        unit_prepare_for_optimizer(u);
        u->post_backward_called = false;
    }
    u->ran_pre_backward = u->needs_backward_unshard = u->prefetched = false;
    u->post_forward_index = -1;
    u->state = HANDLE_IDLE;
}

/* _post_backward_final_callback */
static void backward_ended(struct run *r, void *of)
{
    struct fsdp1 *f = of;

    if (f->last_reduce)
        work_wait(r, f->last_reduce);
    if (f->last_all_reduce)
        work_wait(r, f->last_all_reduce);
    f->last_reduce = f->last_all_reduce = 0;
    f->n_order = 0;
    f->second_iteration = true;
    for (uint32_t i = 0; i < f->n_units && !run_dead(r); i++) {
        struct unit *u = &f->units[i];

        if (!u->n_params)
            continue;
        if (!unit_is_resharded(u))
            unit_reshard(u, frees_in_backward(f));
        finalize(u);
    }
    f->callback_queued = false;
}

static void reset_gradients(struct fsdp1 *f)
{
    for (uint32_t i = 0; i < f->n_units; i++)
        unit_reset_gradient(&f->units[i]);
}

/* _pre_backward_hook, of what forward returned */
static void pre_backward(struct run *r, void *of)
{
    struct unit *u = of;
    struct fsdp1 *f = u->all;

    if (u->ran_pre_backward)
        return;
    if (u == root_of(f) && !f->callback_queued) {
        f->callback_queued = true;
        hook_backward_end(r, backward_ended, f);
        reset_gradients(f);
    }
    u->state = HANDLE_BACKWARD_PRE;
    if (u->needs_backward_unshard && !u->prefetched)
        unit_unshard(u);
    unit_wait(u);
    u->needs_backward_unshard = false;
    prefetch(u, HANDLE_BACKWARD_PRE);
    unit_prepare_for_backward(u);
    u->ran_pre_backward = true;
}

/* ---------------------------------------------------------------------------------------------------------------- forward */
/* _register_post_backward_reshard_only_hook. What it registers holds the nodes of the inputs until backward has ended: a leaf's, and so its
 * gradient, where a reentrant checkpoint detached them. */
static void watch_input(struct unit *u, val x)
{
    struct run *r = u->all->r;

    u->hooked = true;
    if (u->trained || !wants_grad(r, x))
        return;
    hook_gradient(r, x, post_backward_reshard_only, u);
    if (!r->values[x].leaf)
        return;
    u->watched = accumulate_node(r, x);
    node_ref(r, u->watched);
}

static void record_pre_forward(struct unit *u)
{
    struct fsdp1 *f = u->all;

    if (f->second_iteration || u->pre_forward_index >= 0)
        return;
    u->pre_forward_index = (int32_t)f->n_first_order;
    f->pre_forward_order[f->n_first_order++] = u;
}

/* `if handle._post_forward_index`: the first one's is 0, and found anew when it runs again */
static void record_post_forward(struct unit *u)
{
    struct fsdp1 *f = u->all;

    if (f->n_order == f->max_order) {
        run_fail(f->r, ERR_INTERNAL, "", "a unit of FullyShardedDataParallel runs more often than the model of it holds");
        return;
    }
    if (u->post_forward_index <= 0)
        u->post_forward_index = (int32_t)f->n_order;
    f->post_forward_order[f->n_order++] = u;
}

static val pre_forward_unit(struct run *r, struct module *m, void *of, val x)
{
    struct unit *u = of;

    (void)m;
    if (u->state == HANDLE_BACKWARD_PRE)
        return x;
    record_pre_forward(u);
    u->state = HANDLE_FORWARD;
    if (!u->prefetched)
        unit_unshard(u);
    u->needs_forward_unshard = false;
    unit_wait(u);
    prefetch(u, HANDLE_FORWARD);
    if (r->grad_enabled && !u->hooked)
        watch_input(u, x);
    return x;
}

/* _register_pre_backward_hooks */
static void hook_outputs(struct unit *u, uint32_t n, const val *outputs)
{
    struct run *r = u->all->r;

    if (!r->grad_enabled)
        return;
    if (u == root_of(u->all))
        u->all->callback_queued = false;
    u->needs_backward_unshard = u->ran_pre_backward = false;
    for (uint32_t i = 0; i < n; i++) {
        if (!wants_grad(r, outputs[i]))
            continue;
        hook_gradient(r, outputs[i], pre_backward, u);
        u->needs_backward_unshard = true;
    }
}

static void after_forward(struct unit *u, uint32_t n, const val *outputs)
{
    struct fsdp1 *f = u->all;

    if (u->state == HANDLE_BACKWARD_PRE || run_dead(f->r))
        return;
    record_post_forward(u);
    unit_reshard(u, u != root_of(f) && f->sharded && f->reshards_after_forward);
    hook_outputs(u, n, outputs);
    u->state = HANDLE_IDLE;
}

static val post_forward_unit(struct run *r, struct module *m, void *of, val result)
{
    (void)r;
    (void)m;
    after_forward(of, 1, &result);
    return result;
}

/* ------------------------------------------------------------------------------------------------------------- first forward */
static void cast_buffers(struct fsdp1 *f, struct module *m)
{
    struct run *r = f->r;

    for (struct param *p = m->params; p; p = p->next) {
        val old = p->value;

        if (!p->buffer || !dtype_is_float(dtype_of(r, old)) || dtype_of(r, old) == f->o->compute)
            continue;
        p->value = owned(r, value_empty(r, OP_TO_COPY, f->o->compute, p->ndim, p->size));
        mark_block(r, p->value, MARK_BUFFER);
        value_unref(r, old);
    }
    for (struct module *c = m->first; c; c = c->next)
        cast_buffers(f, c);
}

/* _lazy_init: buffers from the last unit to the root, then what each unit gathers into. */
static void initialise(struct fsdp1 *f)
{
    for (uint32_t i = f->n_units; i-- > 0 && f->mixed;)
        cast_buffers(f, f->units[i].module);
    for (uint32_t i = 0; i < f->n_units; i++)
        if (f->units[i].n_params)
            unit_init_attributes(&f->units[i]);
    f->initialised = true;
}

/* _root_pre_forward, and _pre_forward of the root */
static void pre_forward(void *of)
{
    struct fsdp1 *f = of;

    if (run_dead(f->r))
        return;
    if (!f->initialised)
        initialise(f);
    for (uint32_t i = 0; i < f->n_units && f->o->fsdp.forward_prefetch; i++) {
        f->units[i].needs_forward_unshard = true;
        f->units[i].prefetched = false;
    }
    reset_gradients(f);
    if (f->mixed && f->o->counts_items)
        f->item_count = owned(f->r, value_empty(f->r, OP_TO_COPY, f->o->compute, 0, NULL));
    if (root_of(f)->n_params)
        (void)pre_forward_unit(f->r, f->tree->root, root_of(f), 0);
}

static void post_forward(void *of, uint32_t n, val *outputs)
{
    struct fsdp1 *f = of;

    (void)n;
    after_forward(root_of(f), 2, outputs); /* loss and logits */
    if (f->item_count && wants_grad(f->r, outputs[0])) /* the division that made the loss keeps what it divided by */
        save(f->r, f->r->values[outputs[0]].node, f->item_count);
    value_unref(f->r, f->item_count);
    f->item_count = 0;
}

static void begin_micro_step(void *of, bool sync)
{
    struct fsdp1 *f = of;

    f->synchronises = sync;
}

/* ---------------------------------------------------------------------------------------------------------------- wrapping */
/* transformer_auto_wrap_policy of the decoder layers' class; with adapters also peft's: every leaf module whose weight is trained. */
static bool is_unit(const struct wrapping *w, const struct module *m)
{
    if (m->parent == w->layers)
        return true;
    return w->o->adapters && !m->first && m->weight && m->weight->requires_grad;
}

static void find_units(struct fsdp1 *f, const struct wrapping *w, struct module *m)
{
    if (m == w->tree->root || is_unit(w, m)) {
        struct unit *u = &f->units[f->n_units++];

        *u = (struct unit){.all = f, .module = m};
        f->unit_of_module[m->number] = f->n_units;
    }
    for (struct module *c = m->first; c; c = c->next)
        find_units(f, w, c);
}

/* Post-order: the units inside a module before its own. */
static void load_units(struct fsdp1 *f, struct module *m)
{
    uint32_t unit = f->unit_of_module[m->number];

    for (struct module *c = m->first; c; c = c->next)
        load_units(f, c);
    if (unit)
        unit_load(&f->units[unit - 1]);
}

static void hook_units(struct fsdp1 *f)
{
    for (uint32_t i = 1; i < f->n_units; i++) {
        struct unit *u = &f->units[i];

        if (u->n_params)
            module_hook(f->tree, &u->module->hooks, (struct module_hook){pre_forward_unit, post_forward_unit, u, NULL});
    }
}

static void index_flats(struct fsdp1 *f)
{
    for (uint32_t i = 0; i < f->n_units; i++)
        if (f->units[i].flat > f->last_flat)
            f->last_flat = f->units[i].flat;
    f->unit_of_flat = fsdp1_room(f->r, sizeof *f->unit_of_flat, f->last_flat + (size_t)1);
    for (uint32_t i = 0; i < f->n_units && f->unit_of_flat; i++)
        if (f->units[i].flat)
            f->unit_of_flat[f->units[i].flat] = i + 1;
}

/* The optimizer is handed each parameter's piece, or flat parameters. */
static void train_units(struct fsdp1 *f, struct wrapping *w)
{
    if (f->o->fsdp.use_orig_params) {
        wrapping_train_all(w);
        return;
    }
    for (uint32_t i = 0; i < f->n_units; i++)
        if (f->units[i].trained)
            wrapping_train(w, f->units[i].flat, 0);
}

/* A group of one rank shards nothing: _init_core_state. */
static void tell_strategy(struct fsdp1 *f)
{
    const struct parallel_options *o = f->o;
    bool no_shard;

    f->shards = o->method == METHOD_HSDP ? o->at.shard_group : o->at.data_parallel;
    f->shards = f->shards ? f->shards : 1;
    f->rank = o->at.rank % f->shards;
    no_shard = o->method == METHOD_FSDP_NO_SHARD || f->shards == 1;
    f->sharded = !no_shard;
    f->hybrid = o->method == METHOD_HSDP && !no_shard;
    f->reshards_after_forward = o->method != METHOD_FSDP_GRAD_OP;
    f->mixed = o->mixed;
    f->synchronises = true;
}

static struct fsdp1 *fsdp1_new(struct wrapping *w)
{
    struct run *r = w->r;
    struct fsdp1 *f = fsdp1_room(r, sizeof *f, 1);

    if (!f)
        return NULL;
    *f = (struct fsdp1){.r = r, .tree = w->tree, .o = w->o, .max_order = 4 * w->tree->n_modules};
    f->leaves = fsdp1_room(r, sizeof *f->leaves, 1);
    f->units = fsdp1_room(r, sizeof *f->units, w->tree->n_modules);
    f->unit_of_module = fsdp1_room(r, sizeof *f->unit_of_module, w->tree->n_modules);
    f->post_forward_order = fsdp1_room(r, sizeof(struct unit *), f->max_order);
    f->pre_forward_order = fsdp1_room(r, sizeof(struct unit *), w->tree->n_modules);
    tell_strategy(f);
    return run_dead(r) ? NULL : f;
}

static bool declare_units(struct fsdp1 *f)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < f->n_units; i++) {
        if (!unit_declare(&f->units[i]))
            return false;
        most = f->units[i].n_pieces > most ? f->units[i].n_pieces : most;
    }
    f->parts = fsdp1_room(f->r, sizeof *f->parts, most);
    return f->parts != NULL;
}

static void *wrap(struct wrapping *w)
{
    struct run *r = w->r;
    struct fsdp1 *f = fsdp1_new(w);

    if (!f)
        return NULL;
    find_units(f, w, w->tree->root);
    if (!declare_units(f))
        return NULL;
    load_units(f, w->tree->root);
    train_units(f, w);
    *f->leaves = w->leaves;
    index_flats(f);
    hook_units(f);
    r->grad_ready = post_backward;
    r->grad_ready_of = f;
    return run_dead(r) ? NULL : f;
}

const struct method_program fsdp1_program = {
    .source = "torch/distributed/fsdp/_runtime_utils.py, _flat_param.py",
    .wrap = wrap,
    .begin_micro_step = begin_micro_step,
    .pre_forward = pre_forward,
    .post_forward = post_forward,
    .clip = fsdp1_clip,
};
