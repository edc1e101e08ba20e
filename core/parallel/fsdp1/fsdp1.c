/* fsdp1.c - FullyShardedDataParallel around a model: which modules are units, the first forward, the program. wrap.py, _runtime_utils.py _lazy_init. */
#include "parallel/fsdp1/inside.h"

#include "parallel/programs.h"
#include "torch/autograd.h"
#include "torch/hooks.h"
#include "torch/work.h"

#include <stddef.h>

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
    fsdp1_reset_gradients(f);
    if (f->mixed && f->o->counts_items)
        f->item_count = owned(f->r, value_empty(f->r, OP_TO_COPY, f->o->compute, 0, NULL));
    if (root_of(f)->n_params)
        (void)fsdp1_pre_forward(f->r, f->tree->root, root_of(f), 0);
}

static val items(const void *of)
{
    const struct fsdp1 *f = of;

    return f->item_count;
}

static void post_forward(void *of, uint32_t n, val *outputs)
{
    struct fsdp1 *f = of;

    fsdp1_after_forward(root_of(f), f->r->q->cache_in_tuple ? 2 : n, outputs);
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
    return w->o->adapters && (!m->first || m->original) && m->weight && m->weight->requires_grad;
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
            module_hook(f->tree, &u->module->hooks, (struct module_hook){fsdp1_pre_forward, fsdp1_post_forward, u, NULL, NULL});
    }
}

static void index_flats(struct fsdp1 *f)
{
    for (uint32_t i = 0; i < f->n_units; i++)
        if (f->units[i].flat > f->last_flat)
            f->last_flat = f->units[i].flat;
    f->unit_of_flat = run_room(f->r, sizeof *f->unit_of_flat, f->last_flat + (size_t)1);
    for (uint32_t i = 0; i < f->n_units && f->unit_of_flat; i++)
        if (f->units[i].flat)
            f->unit_of_flat[f->units[i].flat] = i + 1;
}

/* The optimizer is handed each parameter's piece, or flat parameters. */
static void train_units(struct fsdp1 *f, struct wrapping *w)
{
    if (f->offload) /* the run holds none of them */
        return;
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
    f->offload = o->offload == OFFLOAD_OPTIMIZER_PARAMS;
    f->synchronises = true;
}

static struct fsdp1 *fsdp1_new(struct wrapping *w)
{
    struct run *r = w->r;
    struct fsdp1 *f = run_room(r, sizeof *f, 1);

    if (!f)
        return NULL;
    *f = (struct fsdp1){.r = r, .tree = w->tree, .o = w->o, .max_order = 4 * w->tree->n_modules};
    f->leaves = run_room(r, sizeof *f->leaves, 1);
    f->units = run_room(r, sizeof *f->units, w->tree->n_modules);
    f->unit_of_module = run_room(r, sizeof *f->unit_of_module, w->tree->n_modules);
    f->post_forward_order = run_room(r, sizeof(struct unit *), f->max_order);
    f->pre_forward_order = run_room(r, sizeof(struct unit *), w->tree->n_modules);
    f->freed.room = f->max_order;
    f->freed.position = run_room(r, sizeof *f->freed.position, f->freed.room);
    f->freed.kernels = run_room(r, sizeof *f->freed.kernels, f->freed.room);
    tell_strategy(f);
    return run_dead(r) ? NULL : f;
}

/* init_flat_param_attributes: a pinned shard and a pinned gradient of every unit; two states of what Adam trains. */
static void count_host_bytes(struct fsdp1 *f)
{
    for (uint32_t i = 0; i < f->n_units; i++) {
        const struct unit *u = &f->units[i];
        uint64_t bytes = u->n_params ? (uint64_t)u->shard_elems * dtype_bytes(u->master) : 0;
        bool states = u->trained && f->o->optimizer != OPTIM_SGD;

        f->host_bytes += (states ? 4 : 2) * bytes;
        f->trained_host_bytes += u->trained ? bytes : 0;
    }
}

static bool declare_units(struct fsdp1 *f)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < f->n_units; i++) {
        if (!unit_declare(&f->units[i]))
            return false;
        most = f->units[i].n_pieces > most ? f->units[i].n_pieces : most;
    }
    f->parts = run_room(f->r, sizeof *f->parts, most);
    return f->parts != NULL;
}

static struct fsdp1 *shard(struct wrapping *w)
{
    struct fsdp1 *f = fsdp1_new(w);

    if (!f)
        return NULL;
    if (w->o->quantised)
        w->place(w);
    find_units(f, w, w->tree->root);
    if (!declare_units(f))
        return NULL;
    load_units(f, w->tree->root);
    for (uint32_t i = 0; i < f->n_units; i++)
        unit_upcast(&f->units[i]);
    if (f->offload)
        count_host_bytes(f);
    hook_units(f);
    return f;
}

static void *wrap(struct wrapping *w)
{
    struct run *r = w->r;
    struct fsdp1 *f = shard(w);

    if (!f)
        return NULL;
    train_units(f, w);
    *f->leaves = w->leaves;
    index_flats(f);
    r->grad_ready = fsdp1_post_backward;
    r->grad_ready_of = f;
    return run_dead(r) ? NULL : f;
}

/* trl models/utils.py prepare_fsdp(): as the plugin says; in half where the policy was. */
static void *refer(struct wrapping *w)
{
    struct fsdp1 *f = shard(w);

    if (f)
        f->beside = true;
    return run_dead(w->r) ? NULL : f;
}

static void optimizer_step(void *of, struct optim *optim)
{
    struct fsdp1 *f = of;

    if (f->offload)
        (void)work_send(f->r, (struct work_sending){COLLECTIVE_HOST_STEP, f->trained_host_bytes, {0, 0}, STREAM_COMPUTE, true});
    else
        optim_step(f->r, optim);
}

static uint64_t host_bytes(const void *of)
{
    const struct fsdp1 *f = of;

    return f->host_bytes;
}

const struct method_program fsdp1_program = {
    .source = "torch/distributed/fsdp/_runtime_utils.py, _flat_param.py",
    .wrap = wrap,
    .refer = refer,
    .begin_micro_step = begin_micro_step,
    .pre_forward = pre_forward,
    .items = items,
    .post_forward = post_forward,
    .clip = fsdp1_clip,
    .optimizer_step = optimizer_step,
    .host_bytes = host_bytes,
};
