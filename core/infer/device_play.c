#include "infer/device_play.h"

#include "torch/alloc.h"

enum { NOWHERE = 254, NO_LAYER = UINT32_MAX };

struct playing {
    const struct device_play_question *q;
    struct device_spread *ret;
    struct arena *arena;
    struct err *err;
    enum err_code rc;
    const struct run *r;
    const struct model *m;
    const struct module *list; /* of decoder layers; NULL: none */
    const uint8_t *map;
    uint32_t *layer;    /* of a module; NO_LAYER */
    uint64_t weights_bytes;
    uint8_t *weight_of; /* of a birth that is a weight: its GPU, NOWHERE on the host; 255: it is none */
};

/* A GPU's part of the tape. */
struct part {
    struct birth *births;
    uint32_t *events, *number; /* number: of a birth of the whole tape + 1; 0: another GPU's */
    uint32_t n_births, n_events, steps_begin;
    uint8_t device;
    uint32_t copied, brought; /* births + 1 of the hidden states that were copied here, of weights that came from the host */
    uint32_t copied_for;      /* the layer; */
    uint32_t brought_for;     /* the module */
};

static uint32_t layer_of(const struct playing *p, const struct module *m)
{
    uint32_t n = 0;

    while (m && m->parent != p->list)
        m = m->parent;
    if (!m || !p->list)
        return NO_LAYER;
    for (const struct module *c = p->list->first; c != m; c = c->next)
        n++;
    return n;
}

/* A GPU computes for what stands on it; the first for the host's, and for what no module is put anywhere for. */
static uint8_t computes(const struct playing *p, uint32_t module)
{
    uint8_t at = p->map[module];

    return at < p->q->gpus ? at : 0;
}

static void take_weight(struct playing *p, const struct param *w)
{
    uint8_t at = p->map[w->owner->number];
    uint64_t bytes;
    uint32_t block;

    if (w->tied || !w->value)
        return;
    bytes = (uint64_t)numel(p->r, w->value) * dtype_bytes(dtype_of(p->r, w->value));
    if (!bytes)
        return; /* Marlin has given it up */
    p->weights_bytes += bytes;
    if (at == p->q->gpus)
        p->ret->host_bytes += bytes;
    else if (at == p->q->gpus + 1)
        p->ret->disk_bytes += bytes;
    block = p->r->storages[value_of(p->r, w->value)->storage].block;
    if (block != NO_BLOCK)
        p->weight_of[block] = at < p->q->gpus ? at : at == DEVICE_MAP_SPLIT ? 0 : NOWHERE;
    if (at < p->q->gpus)
        p->ret->share[at].weights_bytes += bytes;
}

static void describe_shares(struct playing *p)
{
    const struct tree *t = &p->m->tree;

    for (uint32_t i = 1; i < t->n_modules; i++) {
        const struct module *m = t->modules[i];
        uint8_t at = p->map[i];

        p->layer[i] = layer_of(p, m);
        for (const struct param *w = m->params; w; w = w->next)
            take_weight(p, w);
        if (m->parent == p->list && p->list && at == p->q->gpus)
            p->ret->host_layers++;
        if (m->parent == p->list && p->list && at == p->q->gpus + 1)
            p->ret->disk_layers++;
        if (at >= p->q->gpus)
            continue;
        if (m->parent == p->list && p->list && !p->ret->share[at].n_layers++)
            p->ret->share[at].first_layer = p->layer[i];
        p->ret->share[at].embeddings |= m == p->m->embeddings;
        p->ret->share[at].head |= m == t->head;
    }
}

static uint32_t add_birth(struct part *t, struct birth b)
{
    t->births[t->n_births] = b;
    t->events[t->n_events++] = t->n_births;
    return ++t->n_births;
}

static void end(struct part *t, uint32_t *birth)
{
    if (*birth)
        t->events[t->n_events++] = (*birth - 1) | EVENT_DEATH;
    *birth = 0;
}

static uint64_t hidden_bytes(const struct playing *p, const struct birth *b)
{
    const struct generate_question *g = &p->q->model;

    uint32_t again = g->cache == CACHE_NONE ? g->prompt_tokens + g->new_tokens - 1 : 1; /* of the last token, where they are most */

    return (uint64_t)g->batch_size * (b->stage == STAGE_PREFILL ? g->prompt_tokens : again) * p->m->arch->hidden * dtype_bytes(g->dtype);
}

/* The hidden states come with the first block that a layer makes here behind one elsewhere, and live while that layer runs. */
static void copy_hidden(const struct playing *p, struct part *t, const struct birth *b, uint8_t *before)
{
    uint32_t layer = p->layer[b->module];
    uint8_t at = computes(p, b->module);

    if (b->stage == STAGE_INIT || !b->module || p->map[b->module] == DEVICE_MAP_SPLIT)
        return;
    if (t->copied && (layer != t->copied_for || at != t->device))
        end(t, &t->copied);
    if (at != *before && at == t->device) {
        t->copied = add_birth(t, (struct birth){.bytes = hidden_bytes(p, b),
                                                .module = b->module,
                                                .op = OP_TO_COPY,
                                                .stage = b->stage,
                                                .forward_stage = b->stage});
        t->copied_for = layer;
    }
    *before = at;
}

/* Weights of a module that stands on the host live on the first GPU while it runs. */
static void bring_weights(const struct playing *p, struct part *t, const struct birth *b)
{
    uint64_t bytes = 0;
    uint8_t at = b->module ? p->map[b->module] : 0;

    if (t->device || b->stage == STAGE_INIT)
        return;
    if (t->brought && b->module != t->brought_for)
        end(t, &t->brought);
    if (t->brought || at < p->q->gpus || at == DEVICE_MAP_SPLIT)
        return;
    for (const struct param *w = p->m->tree.modules[b->module]->params; w; w = w->next)
        bytes += (uint64_t)param_numel(w) * dtype_bytes(w->dtype);
    if (!bytes)
        return;
    t->brought =
        add_birth(t, (struct birth){.bytes = bytes, .module = b->module, .op = OP_TO_COPY, .stage = b->stage, .forward_stage = b->stage});
    t->brought_for = b->module;
}

/* caching_allocator_warmup(): a block on each GPU, as large as what will stand there. */
static bool is_taken_ahead(const struct playing *p, const struct birth *b)
{
    return p->q->model.weights && b->stage == STAGE_INIT && !b->module && b->mark == MARK_NONE && b->op == OP_EMPTY;
}

/* cuBLAS's, of each GPU's own handle; the buffers that exllama's layers of one GPU share. */
static bool is_on_each(const struct playing *p, const struct birth *b)
{
    return (b->mark == MARK_WORKSPACE && p->r->q->cublas_workspace_kept) ||
           (p->q->model.packed.kind && b->stage == STAGE_INIT && !b->module && b->op == OP_ZEROS);
}

static struct birth share_of(const struct playing *p, const struct part *t, struct birth b)
{
    if (p->weights_bytes)
        b.bytes = (uint64_t)((double)b.bytes * (double)p->ret->share[t->device].weights_bytes / (double)p->weights_bytes);
    return b;
}

static void take_part(const struct playing *p, struct part *t)
{
    const struct run *r = p->r;
    uint8_t before = 0;

    for (uint32_t i = 0; i < r->n_events; i++) {
        uint32_t event = r->events[i], block = event & EVENT_BLOCK;
        const struct birth *b = &r->births[block];

        if (!event_is_of_block(event)) {
            t->events[t->n_events++] = event;
            continue;
        }
        if (event & EVENT_DEATH) {
            if (t->number[block])
                t->events[t->n_events++] = (t->number[block] - 1) | EVENT_DEATH;
            continue;
        }
        copy_hidden(p, t, b, &before);
        bring_weights(p, t, b);
        if (is_on_each(p, b))
            t->number[block] = add_birth(t, *b);
        else if (is_taken_ahead(p, b))
            t->number[block] = add_birth(t, share_of(p, t, *b));
        else if ((p->weight_of[block] == UINT8_MAX ? computes(p, b->module) : p->weight_of[block]) == t->device)
            t->number[block] = add_birth(t, *b);
        if (b->stage == STAGE_INIT)
            t->steps_begin = t->n_events;
    }
}

static enum err_code replay_part(struct playing *p, uint8_t device)
{
    const struct run *r = p->r;
    unsigned char *mark = p->arena->cur;
    struct part t = {.device = device};
    struct torch_alloc *a = NULL;
    struct peak walk, peak;
    enum err_code rc = ERR_OK;

    t.births = arena_array(p->arena, struct birth, 3 * (size_t)r->n_births + 1);
    t.events = arena_array(p->arena, uint32_t, 2 * (size_t)r->n_births + 2 * (size_t)r->n_events + 2);
    t.number = arena_array(p->arena, uint32_t, (size_t)r->n_births + 1);
    if (!t.births || !t.events || !t.number)
        return err_set(p->err, ERR_NOMEM, "", "the working memory of one request is too small for the parts of each GPU");
    take_part(p, &t);
    struct tape tape = {.births = t.births,
                        .events = t.events,
                        .n_births = t.n_births,
                        .n_events = t.n_events,
                        .steps_begin = t.steps_begin,
                        .peaks_begin = t.steps_begin,
                        .budget = p->arena->budget};
    struct torch_alloc_options o = {.addresses_fall = p->q->model.device->addresses_fall, .max_live = t.n_births + 1};

    peak_walk(&tape, &walk);
    o.max_blocks = 3 * walk.most_live + 4096;
    rc = torch_alloc_new(p->arena, &o, &a, p->err);
    if (!rc && !peak_replay(&tape, a, &peak))
        rc = err_set(p->err, ERR_FIELD_CONFLICT, "", "the parts of each GPU are more work than one question may be");
    if (!rc) {
        p->ret->share[device].peak_allocated_bytes = peak.peak_bytes;
        p->ret->share[device].peak_reserved_bytes = torch_alloc_stats(a).reserved_peak_bytes;
    }
    arena_rewind(p->arena, mark);
    return rc;
}

/* What is computed on one GPU and added to what is on another raises: hooks bring inputs of modules alone. */
static bool cuts_a_layer(const struct playing *p)
{
    const struct tree *t = &p->m->tree;

    for (const struct module *c = p->list ? p->list->first : NULL; c; c = c->next) {
        uint8_t at = DEVICE_MAP_SPLIT;

        for (uint32_t i = c->number; i < t->n_modules; i++) {
            if (!module_is_below(t->modules[i], c) || !t->modules[i]->params)
                continue;
            if (at != DEVICE_MAP_SPLIT && computes(p, i) != at)
                return true;
            at = computes(p, i);
        }
    }
    return false;
}

static void count_crossings(struct playing *p)
{
    uint8_t before = p->m->embeddings ? computes(p, p->m->embeddings->number) : 0;

    for (const struct module *c = p->list ? p->list->first : NULL; c; c = c->next) {
        p->ret->crossings += computes(p, c->number) != before;
        before = computes(p, c->number);
    }
    if (p->m->tree.head)
        p->ret->crossings += computes(p, p->m->tree.head->number) != before;
    p->ret->moved_bytes = (uint64_t)p->ret->crossings * p->m->arch->hidden * dtype_bytes(p->q->model.dtype);
}

static void look(void *of, const struct run *r, struct model *m, struct generation *g)
{
    struct playing *p = of;
    struct device_map_question ask = {
        .tree = &m->tree,
        .gpus = p->q->gpus,
        .gpu_bytes = p->q->gpu_bytes,
        .host_bytes = p->q->host_bytes,
        .dtype = p->q->model.dtype,
        .weights = p->q->model.weights,
        .by_accelerate = p->q->by_accelerate,
        .as_given = p->q->as_given,
        .no_host = p->q->no_host,
        .shares = p->q->shares,
        .layers_split = !m->names_whole_modules,
    };
    uint8_t *map = NULL;

    (void)g;
    p->r = r;
    p->m = m;
    p->list = module_list(&m->tree);
    p->layer = arena_array(p->arena, uint32_t, m->tree.n_modules);
    p->weight_of = arena_array(p->arena, uint8_t, (size_t)r->n_births + 1);
    if (!p->layer || !p->weight_of) {
        p->rc = err_set(p->err, ERR_NOMEM, "", "the working memory of one request is too small for the parts of each GPU");
        return;
    }
    for (uint32_t i = 0; i < r->n_births; i++)
        p->weight_of[i] = UINT8_MAX;
    p->rc = device_map_infer(&ask, p->arena, &map, p->err);
    if (p->rc)
        return;
    map[0] = 0; /* what no module makes */
    p->map = map;
    p->layer[0] = NO_LAYER;
    describe_shares(p);
    p->ret->names_no_whole = !m->names_whole_modules;
    p->ret->cuts_a_layer = cuts_a_layer(p);
    count_crossings(p);
    for (uint32_t d = 0; d < p->q->gpus && !p->rc; d++)
        p->rc = replay_part(p, (uint8_t)d);
}

enum err_code device_play(const struct device_play_question *q, struct arena *arena, struct generated *ret,
                          struct device_spread *ret_spread, struct err *err)
{
    struct device_spread spread = {.gpus = q->gpus};
    struct err own = {0};
    struct playing p = {.q = q, .ret = &spread, .arena = arena, .err = &own};
    struct generate_question once = q->model;
    enum err_code rc;

    once.by_owner = true;
    once.replay = REPLAY_NONE;
    once.look = look;
    once.looks = &p;
    rc = generate(&once, arena, ret, err);
    if (!rc && p.rc) {
        *err = own;
        rc = p.rc;
    }
    *ret_spread = spread;
    return rc;
}
