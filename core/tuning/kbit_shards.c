/*
 * kbit_shards.c - the model on the device as transformers before 5 loads it: file by file of the checkpoint, in the order of their names, and
 * accelerate's hooks after. See kbit_load.h.
 *
 * Source    modeling_utils.py _load_state_dict_into_meta_model, caching_allocator_warmup of 4.40 to 4.57; quantizers/quantizer_bnb_4bit.py, _8bit.py and
 *           quantizer_hqq.py create_quantized_param; accelerate utils/modeling.py set_module_tensor_to_device, which ends in empty_cache(); hooks.py
 *           AlignDevicesHook.init_hook.
 * Models    a checkpoint as save_pretrained() cuts and sorts it, in files of 10 GB (max_shard_size until transformers 4.39; hubs have such and smaller ones).
 */
#include "tuning/bnb.h"
#include "torch/autograd.h"
#include "torch/ops.h"
#include "tuning/bnb_inside.h"
#include "tuning/kbit_load.h"
#include "tuning/quantiser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES UINT64_C(10000000000)

struct stored {
    struct param *param;
    const char *name;
    uint32_t file;
};

struct checkpoint {
    struct stored *at;
    uint32_t n, file;
    uint64_t file_bytes; /* of the last one */
    enum dtype dtype;
    struct tree *tree;
    enum kbit_home home;
    bool copies_linears; /* quantizer_hqq.py check_quantized_param(): whatever is a linear, also what it leaves alone */
    bool failed;
};

static void count(void *context, struct module *m, struct param *p)
{
    uint32_t *n = context;

    (void)m;
    *n += !kbit_comes_later(p) && !p->tied;
}

/* As it was before it was packed. */
static uint64_t elems_of(const struct param *p)
{
    return (uint64_t)(p->stands_for ? p->stands_for : param_numel(p));
}

static void store(void *context, struct module *m, struct param *p)
{
    struct checkpoint *c = context;
    uint64_t bytes = elems_of(p) * dtype_bytes(c->dtype);
    char buf[256], path[384];

    if (kbit_comes_later(p) || p->tied)
        return;
    (void)snprintf(path, sizeof path, "%s.%s", module_path(c->tree, m->number, buf, sizeof buf),
                   p == m->weight ? "weight" : p->name); /* as before it was packed */
    if (c->file_bytes && c->file_bytes + bytes > FILE_BYTES) {
        c->file++;
        c->file_bytes = 0;
    }
    c->file_bytes += bytes;
    c->at[c->n] = (struct stored){p, arena_str(c->tree->arena, path, strlen(path)), c->file};
    c->failed |= !c->at[c->n].name;
    c->n++;
}

static int by_file(const void *a, const void *b)
{
    const struct stored *x = a, *y = b;

    if (x->file != y->file)
        return x->file < y->file ? -1 : 1;
    return strcmp(x->name, y->name);
}

static bool copies_linears(const struct tree *t)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        const struct quantiser *q = quantiser_of(t->modules[i]);

        if (q && q->takes_bias)
            return true;
    }
    return false;
}

/* empty_cache(), where anything died since the cache was emptied */
static void empty_if_changed(struct run *r)
{
    for (uint32_t i = r->n_events; i-- > 0 && r->events[i] != EVENT_RELEASE;)
        if (r->events[i] & EVENT_DEATH) {
            empty_cache(r);
            return;
        }
}

/* set_module_tensor_to_device(), or what replaced it: load_state_dict(assign=True) */
static void place(struct run *r, struct param *p)
{
    kbit_place(r, OP_TO_COPY, p);
    if (!r->q->load_keeps_last)
        empty_if_changed(r);
}

/* From 4.51 on each tensor comes to the device first, where a name holds it until the next one came; packing begins on the host again. */
static void load_one(struct run *r, const struct checkpoint *c, struct param *p, val *map, val *last)
{
    const struct quantiser *q = quantiser_of(p->owner), *packs = quantiser_that_packs(p);
    bool bias_of_4bit = bnb_is_quantised(p->owner) && !bnb_is_int8(p->owner) && p == p->owner->bias;
    bool comes_twice = packs || (c->copies_linears && p->owner->kind == MODULE_LINEAR);

    if (p->value || run_dead(r))
        return;
    run_owner(r, p->owner);
    if (r->q->load_keeps_last && comes_twice) {
        val half = owned(r, value_empty(r, OP_TO_COPY, c->dtype, 1, (const int64_t[]){(int64_t)elems_of(p)}));

        value_unref(r, *last);
        *last = half;
    }
    if (packs)
        packs->pack(r, p, map);
    else if (bias_of_4bit)
        kbit_place(r, OP_TO_COPY, p);
    else if (!q || !q->takes_bias)
        place(r, p);
    if (r->q->load_keeps_last && !comes_twice) {
        value_unref(r, *last);
        *last = 0; /* the parameter itself */
    }
    run_owner(r, NULL);
}

struct warming {
    const struct run *r;
    uint64_t bytes;
    enum dtype dtype; /* of what is packed, before */
    bool tied_too;
};

static void add_bytes(void *context, struct module *m, struct param *p)
{
    struct warming *w = context;
    const struct param *of = p->tied ? p->tied : p;

    if (!kbit_comes_later(p) && (!p->tied || w->tied_too))
        w->bytes += kbit_share(w->r, m, elems_of(of) * dtype_bytes(bnb_packs(of) ? w->dtype : of->dtype));
}

/* caching_allocator_warmup(): half of the model as it would be unquantised, in one block; 4.50 takes all of it */
static void warm_up(struct run *r, const struct tree *t)
{
    struct warming w = {.r = r, .dtype = t->dtype, .tied_too = r->q->load_takes_ahead != LOAD_TAKES_UNTIED};
    uint64_t most = r->device.usable_bytes;

    if (!r->q->load_takes_ahead)
        return;
    params_visit(t->root, add_bytes, &w);
    most = r->q->load_takes_ahead < LOAD_TAKES_REST ? most / 100 * 95 : most - ((uint64_t)12 << 30) / 10;
    if (w.bytes > most)
        w.bytes = most;
    scratch(r, OP_EMPTY, w.bytes / (r->q->load_takes_ahead == LOAD_TAKES_ALL ? 2 : 4) * 2);
}

/* ----------------------------------------------------------------------------------------------------- dispatch_model() */

struct dispatching {
    struct run *r;
    val *clones;
};

static uint32_t clone_maps(struct dispatching *d, const struct module *m, uint32_t n)
{
    const struct bnb_linear *l = bnb_is_quantised(m) ? m->extra : NULL;

    if (l && l->doubly)
        d->clones[n++] = owned(d->r, value_empty(d->r, OP_CLONE, DTYPE_FP32, SHAPE(BNB_NESTED_CODE)));
    for (const struct module *c = m->first; c; c = c->next)
        n = clone_maps(d, c, n);
    return n;
}

/* m.state_dict(): QuantState.as_dict() clones the map of each doubly quantised weight */
static void list_states(struct dispatching *d, const struct module *m)
{
    uint32_t n = clone_maps(d, m, 0);

    for (uint32_t i = 0; i < n; i++)
        value_unref(d->r, d->clones[i]);
}

static bool has_parameters(const struct module *m)
{
    for (const struct param *p = m->params; p; p = p->next)
        if (!kbit_comes_later(p) && !p->buffer)
            return true;
    return false;
}

/* attach_execution_device_hook(): asks each module for its state, and places what it has itself */
static void attach_hooks(struct dispatching *d, const struct module *m)
{
    for (const struct module *c = m->first; c; c = c->next) {
        if (strcmp(c->name, "base_layer") != 0) /* peft comes later: it and its parent are one module yet */
            list_states(d, c);
        if (has_parameters(c))
            empty_if_changed(d->r);
        attach_hooks(d, c);
    }
}

static void place_buffers(struct run *r, struct module *m, bool children_first)
{
    for (struct module *c = m->first; children_first && c; c = c->next)
        place_buffers(r, c, true);
    for (struct param *p = m->params; p; p = p->next)
        if (p->buffer && !p->value && !p->late && !run_dead(r)) {
            p->value = owned(r, value_empty(r, OP_TO_COPY, p->dtype, p->ndim, p->size));
            mark_block(r, p->value, MARK_BUFFER);
        }
    for (struct module *c = m->first; !children_first && c; c = c->next)
        place_buffers(r, c, false);
}

static bool dispatch(struct run *r, struct tree *t)
{
    struct dispatching d = {r, arena_array(t->arena, val, t->n_modules + 1)};
    bool hooks = copies_linears(t); /* "force_hooks" of modeling_utils.py */

    if (!d.clones)
        return false;
    for (uint32_t i = 1; i < t->n_modules; i++)
        hooks |= bnb_is_quantised(t->modules[i]) && bnb_is_int8(t->modules[i]);
    list_states(&d, t->root); /* check_device_map() */
    if (!hooks && r->q->dispatch_moves_4bit) {
        place_buffers(r, t->root, true);
        return true;
    }
    empty_if_changed(r); /* the root's hook places all tensors */
    place_buffers(r, t->root, false);
    attach_hooks(&d, t->root);
    return true;
}

/* What is packed goes to the host at once, what is not may stay there, whatever was brought to the device to be looked at. */
static void load_by_host(struct run *r, const struct checkpoint *c, struct param *p, val *map, val *last)
{
    bool of_4bit = bnb_is_quantised(p->owner) && (bnb_packs(p) || p == p->owner->bias);

    if (!of_4bit && c->home == KBIT_REST_ON_DEVICE) {
        load_one(r, c, p, map, last);
        return;
    }
    if (bnb_packs(p)) {
        load_one(r, c, p, map, last);
        value_unref(r, p->value);
        p->value = 0;
    } else if (r->q->load_keeps_last && !run_dead(r)) {
        val seen = owned(r, value_empty(r, OP_TO_COPY, c->dtype, 1, (const int64_t[]){(int64_t)elems_of(p)}));

        value_unref(r, *last);
        *last = seen;
    }
}

bool kbit_load_shards(struct run *r, struct tree *t, enum kbit_home home, val *map)
{
    struct checkpoint c = {.dtype = t->dtype, .tree = t, .copies_linears = copies_linears(t), .home = home};
    val last = 0;
    uint32_t n = 0;

    params_visit(t->root, count, &n);
    c.at = arena_array(t->arena, struct stored, n + 1);
    if (!c.at)
        return false;
    params_visit(t->root, store, &c);
    if (c.failed)
        return false;
    qsort(c.at, c.n, sizeof *c.at, by_file);
    if (!c.copies_linears) /* is_hqq_or_quark */
        warm_up(r, t);
    for (uint32_t i = 0; i < c.n; i++) {
        if (i && c.at[i].file != c.at[i - 1].file) {
            value_unref(r, last);
            last = 0;
        }
        (home ? load_by_host : load_one)(r, &c, c.at[i].param, map, &last);
    }
    value_unref(r, last);
    return home || dispatch(r, t);
}
