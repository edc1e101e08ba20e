#include "meters/resize.h"

#include <string.h>

enum { CLASSES_MAX = 8192, SLOTS = 4 * CLASSES_MAX };

/* ---------------------------------------------------------------------------------------------------------------- keys */
static inline uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Births of one kernel in one node of one module follow each other in the order of its program: a product's gradients of input and weight differ in that
 * alone, where both matrices happen to be as large. */
struct place {
    uint32_t module, node, stage;
    uint32_t stretch, stretch_of[OP_COUNT];
    uint16_t count[OP_COUNT];
};

static uint32_t place_of(struct place *p, const struct birth *b)
{
    if (!p->stretch || b->module != p->module || b->node != p->node || b->stage != p->stage) {
        p->module = b->module;
        p->node = b->node;
        p->stage = b->stage;
        p->stretch++;
    }
    if (p->stretch_of[b->op] != p->stretch) {
        p->stretch_of[b->op] = p->stretch;
        p->count[b->op] = 0;
    }
    return p->count[b->op]++;
}

static uint64_t what_of(const struct birth *b)
{
    return b->op | (uint64_t)b->node << 16 | (uint64_t)b->stage << 32 | (uint64_t)b->forward_stage << 36 | (uint64_t)b->mark << 40 |
           (uint64_t)b->stream << 44 | (uint64_t)b->recompute << 48 | (uint64_t)b->readers << 52;
}

/* What parameters, optimizers and messages need is the same at every batch. */
static bool is_fixed(const struct birth *b)
{
    return b->mark != MARK_NONE || b->stage == STAGE_INIT || b->stage == STAGE_CLIP || b->stage == STAGE_OPTIMIZER || b->stage == STAGE_ZERO_GRAD ||
           b->stream != STREAM_COMPUTE || b->op == OP_EMPTY;
}

static bool kernel_is_fixed(const struct kernel *k)
{
    return k->stream != STREAM_COMPUTE || k->stage == STAGE_CLIP || k->stage == STAGE_OPTIMIZER || k->stage == STAGE_ZERO_GRAD || k->op == OP_CAT;
}

/* What a row is; without its place among its like; without its size either. */
struct key {
    uint64_t whole, wider, kind;
    bool fixed;
};

static struct key birth_key(const struct rows_of_run *r, struct place *p, const struct birth *b)
{
    uint32_t role = b->module < r->n_roles ? r->role[b->module] : b->module;
    uint64_t kind = mixed(mixed(1, what_of(b)), role);

    uint64_t wider = mixed(kind, b->bytes);

    return (struct key){mixed(wider, place_of(p, b)), wider, kind, is_fixed(b)};
}

static struct key kernel_key(const struct kernel *k)
{
    uint64_t kind = mixed(2, k->op | (uint64_t)k->work << 16 | (uint64_t)k->dtype << 24 | (uint64_t)k->stage << 32 | (uint64_t)k->stream << 40 |
                                (uint64_t)k->recompute << 48 | (uint64_t)k->unaligned << 49);

    uint64_t key = mixed(mixed(kind, k->flops), k->bytes);

    key = mixed(mixed(key, k->rows | (uint64_t)k->columns << 32), k->inner | (uint64_t)k->batch << 32) + k->launches;
    return (struct key){key, key, kind, kernel_is_fixed(k)};
}

static struct key message_key(const struct message *m)
{
    uint64_t kind = mixed(3, m->collective | (uint64_t)m->stage << 8 | (uint64_t)m->stream << 16 | (uint64_t)m->from << 24 | (uint64_t)m->group.ranks << 32);

    return (struct key){mixed(kind, m->bytes), mixed(kind, m->bytes), kind, true};
}

/* ------------------------------------------------------------------------------------------------------------- classes */
static uint32_t *slot_of(const struct keys *k, uint64_t key)
{
    uint32_t at = (uint32_t)(key >> 40) % SLOTS;

    while (k->slot[at] && k->key[k->slot[at] - 1] != key)
        at = (at + 1) % SLOTS;
    return &k->slot[at];
}

static bool keys_init(struct keys *k, struct arena *arena)
{
    k->key = arena_array_raw(arena, uint64_t, CLASSES_MAX);
    k->slot = arena_array(arena, uint32_t, SLOTS);
    return k->key && k->slot;
}

/* RESIZE_UNLIKE: there is no more room. */
static uint32_t key_add(struct keys *k, uint64_t key)
{
    uint32_t *slot = slot_of(k, key);

    if (!*slot && k->n < CLASSES_MAX) {
        k->key[k->n] = key;
        *slot = ++k->n;
    }
    return *slot - 1;
}

static uint32_t key_find(const struct keys *k, uint64_t key)
{
    return *slot_of(k, key) - 1; /* RESIZE_UNLIKE from an empty slot */
}

static bool classes_init(struct classes *c, uint32_t deep, uint32_t shallow, struct arena *arena)
{
    c->of = arena_array_raw(arena, uint32_t, deep);
    c->of_shallow = arena_array_raw(arena, uint32_t, shallow);
    c->wider_of_shallow = arena_array_raw(arena, uint32_t, shallow);
    c->kind_of_shallow = arena_array_raw(arena, uint32_t, shallow);
    c->wider_of = arena_array_raw(arena, uint32_t, CLASSES_MAX);
    c->kind = arena_array_raw(arena, uint32_t, CLASSES_MAX);
    c->fixed = arena_array_raw(arena, bool, CLASSES_MAX);
    return c->of && c->of_shallow && c->wider_of_shallow && c->kind_of_shallow && c->wider_of && c->kind && c->fixed && keys_init(&c->keys, arena) &&
           keys_init(&c->wider, arena) && keys_init(&c->kinds, arena);
}

static bool class_add(struct classes *c, uint32_t row, struct key key)
{
    uint32_t known = c->keys.n, of = key_add(&c->keys, key.whole);

    c->of[row] = of;
    if (of == known && of < CLASSES_MAX) {
        c->wider_of[of] = key_add(&c->wider, key.wider);
        c->kind[of] = key_add(&c->kinds, key.kind);
        c->fixed[of] = key.fixed;
    }
    return of != RESIZE_UNLIKE; /* a kind has a class at least */
}

static void class_find(struct classes *c, uint32_t row, struct key key)
{
    c->of_shallow[row] = key_find(&c->keys, key.whole);
    c->wider_of_shallow[row] = key_find(&c->wider, key.wider);
    c->kind_of_shallow[row] = key_find(&c->kinds, key.kind);
}

static bool classify_births(struct resizing *z, struct arena *arena)
{
    struct place *p = arena_new(arena, struct place), *q = arena_new(arena, struct place);
    bool room = p && q;

    for (uint32_t i = 0; i < z->deep.n_births && room; i++)
        room = class_add(&z->births, i, birth_key(&z->deep, p, &z->deep.births[i]));
    for (uint32_t i = 0; i < z->shallow.n_births && room; i++)
        class_find(&z->births, i, birth_key(&z->shallow, q, &z->shallow.births[i]));
    return room;
}

static bool classify_log(struct resizing *z)
{
    const struct work *deep = z->deep.log, *shallow = z->shallow.log;
    bool room = true;

    for (uint32_t i = 0; i < deep->n_kernels && room; i++)
        room = class_add(&z->kernels, i, kernel_key(&deep->kernels[i]));
    for (uint32_t i = 0; i < shallow->n_kernels && room; i++)
        class_find(&z->kernels, i, kernel_key(&shallow->kernels[i]));
    for (uint32_t i = 0; i < deep->n_messages && room; i++)
        room = class_add(&z->messages, i, message_key(&deep->messages[i]));
    for (uint32_t i = 0; i < shallow->n_messages && room; i++)
        class_find(&z->messages, i, message_key(&shallow->messages[i]));
    return room;
}

bool resize_prepare(const struct rows_of_run *deep, const struct rows_of_run *shallow, struct arena *arena, struct resizing *ret)
{
    struct resizing z = {.deep = *deep, .shallow = *shallow};

    if (!deep->log != !shallow->log || !classes_init(&z.births, deep->n_births, shallow->n_births, arena) || !classify_births(&z, arena))
        return false;
    if (deep->log && (!classes_init(&z.kernels, deep->log->n_kernels, shallow->log->n_kernels, arena) ||
                      !classes_init(&z.messages, deep->log->n_messages, shallow->log->n_messages, arena) || !classify_log(&z)))
        return false;
    *ret = z;
    return true;
}

/* ------------------------------------------------------------------------------------------------------- event by event */
static bool same_tape(const struct rows_of_run *a, const struct rows_of_run *b)
{
    if (a->n_births != b->n_births || a->n_events != b->n_events || memcmp(a->events, b->events, a->n_events * sizeof *a->events) != 0)
        return false;
    for (uint32_t i = 0; i < a->n_births; i++)
        if (what_of(&a->births[i]) != what_of(&b->births[i]) || a->births[i].module != b->births[i].module)
            return false;
    return true;
}

static bool same_kernel(const struct kernel *a, const struct kernel *b)
{
    return a->op == b->op && a->calls == b->calls && a->hooks == b->hooks && a->work == b->work && a->dtype == b->dtype && a->stage == b->stage &&
           a->stream == b->stream && a->recompute == b->recompute && a->at == b->at && a->launches == b->launches;
}

static bool same_message(const struct message *a, const struct message *b)
{
    return a->collective == b->collective && a->stage == b->stage && a->stream == b->stream && a->from == b->from && a->at == b->at &&
           a->kernels_before == b->kernels_before && a->waited_before == b->waited_before && a->group.ranks == b->group.ranks;
}

static bool same_log(const struct work *a, const struct work *b)
{
    if (a->n_kernels != b->n_kernels || a->n_messages != b->n_messages || a->n_orders != b->n_orders || a->n_events != b->n_events)
        return false;
    for (uint32_t i = 0; i < a->n_kernels; i++)
        if (!same_kernel(&a->kernels[i], &b->kernels[i]))
            return false;
    for (uint32_t i = 0; i < a->n_messages; i++)
        if (!same_message(&a->messages[i], &b->messages[i]))
            return false;
    return true;
}

/* --------------------------------------------------------------------------------------------------------------- sizes */
/* By class: a row of the shallow run that is of it, from 1; 0: none is. One that stands elsewhere among its like serves where all those have the same size
 * then. False: two of a class differ, or the arena is full. */
typedef bool (*as_large)(const struct rows_of_run *r, uint32_t a, uint32_t b);

#define DIFFERENT UINT32_MAX

static bool likes_of(const struct classes *c, const struct rows_of_run *then, uint32_t n, as_large same, struct arena *arena, uint32_t **ret)
{
    uint32_t *like = arena_array(arena, uint32_t, c->keys.n), *wider = arena_array(arena, uint32_t, c->wider.n);

    if (!like || !wider)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t of = c->of_shallow[i], w = c->wider_of_shallow[i];

        if (of != RESIZE_UNLIKE && like[of] && !same(then, like[of] - 1, i))
            return false;
        if (of != RESIZE_UNLIKE)
            like[of] = i + 1;
        if (w != RESIZE_UNLIKE)
            wider[w] = wider[w] && (wider[w] == DIFFERENT || !same(then, wider[w] - 1, i)) ? DIFFERENT : i + 1;
    }
    for (uint32_t i = 0; i < c->keys.n; i++)
        if (!like[i] && wider[c->wider_of[i]] != DIFFERENT)
            like[i] = wider[c->wider_of[i]];
    *ret = like;
    return true;
}

static bool births_as_large(const struct rows_of_run *r, uint32_t a, uint32_t b)
{
    return r->births[a].bytes == r->births[b].bytes;
}

static bool same_size(const struct kernel *a, const struct kernel *b)
{
    return a->flops == b->flops && a->bytes == b->bytes && a->rows == b->rows && a->columns == b->columns && a->inner == b->inner && a->batch == b->batch &&
           a->unaligned == b->unaligned;
}

static bool kernels_as_large(const struct rows_of_run *r, uint32_t a, uint32_t b)
{
    return same_size(&r->log->kernels[a], &r->log->kernels[b]);
}

static bool messages_as_large(const struct rows_of_run *r, uint32_t a, uint32_t b)
{
    return r->log->messages[a].bytes == r->log->messages[b].bytes;
}

enum { UNSEEN, CONSTANT, VARYING }; /* a kind, at both sizes */

static void see_kind(uint8_t *kinds, uint32_t kind, bool varies)
{
    if (kind != RESIZE_UNLIKE && kinds[kind] != VARYING)
        kinds[kind] = varies ? VARYING : CONSTANT;
}

/* What no shallow run shows is of a deep run's own: buckets, groups and totals of parameters and gradients. */
static bool all_known(const struct classes *c, const uint32_t *like, const uint8_t *kinds)
{
    for (uint32_t i = 0; i < c->keys.n; i++)
        if (!like[i] && (kinds[c->kind[i]] == VARYING || (kinds[c->kind[i]] == UNSEEN && !c->fixed[i])))
            return false;
    return true;
}

static bool births_known(const struct resizing *z, const struct rows_of_run *then, const uint32_t *like, struct arena *scratch)
{
    uint8_t *kinds = arena_array(scratch, uint8_t, z->births.kinds.n);

    for (uint32_t i = 0; i < then->n_births && kinds; i++)
        see_kind(kinds, z->births.kind_of_shallow[i], then->births[i].bytes != z->shallow.births[i].bytes);
    return kinds && all_known(&z->births, like, kinds);
}

static bool kernels_known(const struct resizing *z, const struct work *then, const uint32_t *like, struct arena *scratch)
{
    uint8_t *kinds = arena_array(scratch, uint8_t, z->kernels.kinds.n);

    for (uint32_t i = 0; i < then->n_kernels && kinds; i++)
        see_kind(kinds, z->kernels.kind_of_shallow[i], !same_size(&then->kernels[i], &z->shallow.log->kernels[i]));
    return kinds && all_known(&z->kernels, like, kinds);
}

static void resize_births(struct resizing *z, const struct rows_of_run *then, const uint32_t *like)
{
    for (uint32_t i = 0; i < z->deep.n_births; i++) {
        uint32_t row = like[z->births.of[i]];

        if (row)
            z->deep.births[i].bytes = then->births[row - 1].bytes;
    }
}

static void resize_log(struct resizing *z, const struct work *then, const uint32_t *like, const uint32_t *like_message)
{
    for (uint32_t i = 0; i < z->deep.log->n_kernels; i++) {
        struct kernel *k = &z->deep.log->kernels[i];
        const struct kernel *as = &then->kernels[like[z->kernels.of[i]] - (size_t)1];

        if (!like[z->kernels.of[i]])
            continue;
        k->flops = as->flops;
        k->bytes = as->bytes;
        k->rows = as->rows;
        k->columns = as->columns;
        k->inner = as->inner;
        k->batch = as->batch;
        k->unaligned = as->unaligned;
    }
    for (uint32_t i = 0; i < z->deep.log->n_messages; i++)
        if (like_message[z->messages.of[i]])
            z->deep.log->messages[i].bytes = then->messages[like_message[z->messages.of[i]] - 1].bytes;
}

bool resize(struct resizing *z, const struct rows_of_run *then, struct arena *scratch)
{
    uint32_t *births, *kernels, *messages;

    if (!same_tape(&z->shallow, then) || !likes_of(&z->births, then, then->n_births, births_as_large, scratch, &births) ||
        !births_known(z, then, births, scratch))
        return false;
    if (z->deep.log) {
        const struct work *log = then->log;

        if (!same_log(z->shallow.log, log) || !likes_of(&z->kernels, then, log->n_kernels, kernels_as_large, scratch, &kernels) ||
            !likes_of(&z->messages, then, log->n_messages, messages_as_large, scratch, &messages) || !kernels_known(z, log, kernels, scratch))
            return false;
        resize_log(z, log, kernels, messages);
    }
    resize_births(z, then, births);
    return true;
}
