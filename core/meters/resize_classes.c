/* resize_classes.c - which rows of a run are alike: resize.h */
#include "meters/resize_inside.h"

enum { CLASSES_MAX = 8192, SLOTS_EACH = 2 };

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

uint64_t resize_what(const struct birth *b)
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
    uint64_t kind = mixed(mixed(1, resize_what(b)), role);

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
    uint32_t at = (uint32_t)(key >> 40) & k->mask;

    while (k->slot[at] && k->key[k->slot[at] - 1] != key)
        at = (at + 1) & k->mask;
    return &k->slot[at];
}

static bool keys_init(struct keys *k, uint32_t most, struct arena *arena)
{
    k->most = most;
    for (k->mask = 1; k->mask < SLOTS_EACH * most; k->mask = 2 * k->mask + 1)
        ;
    k->key = arena_array_raw(arena, uint64_t, most);
    k->slot = arena_array(arena, uint32_t, k->mask + (size_t)1);
    return k->key && k->slot;
}

/* RESIZE_UNLIKE: there is no more room. */
static uint32_t key_add(struct keys *k, uint64_t key)
{
    uint32_t *slot = slot_of(k, key);

    if (!*slot && k->n < k->most) {
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
    uint32_t most = deep < CLASSES_MAX ? deep : CLASSES_MAX;

    c->of = arena_array_raw(arena, uint32_t, deep);
    c->of_shallow = arena_array_raw(arena, uint32_t, shallow);
    c->wider_of_shallow = arena_array_raw(arena, uint32_t, shallow);
    c->kind_of_shallow = arena_array_raw(arena, uint32_t, shallow);
    c->wider_of = arena_array_raw(arena, uint32_t, most);
    c->kind = arena_array_raw(arena, uint32_t, most);
    c->fixed = arena_array_raw(arena, bool, most);
    return c->of && c->of_shallow && c->wider_of_shallow && c->kind_of_shallow && c->wider_of && c->kind && c->fixed && keys_init(&c->keys, most, arena) &&
           keys_init(&c->wider, most, arena) && keys_init(&c->kinds, most, arena);
}

static bool class_add(struct classes *c, uint32_t row, struct key key)
{
    uint32_t known = c->keys.n, of = key_add(&c->keys, key.whole);

    c->of[row] = of;
    if (of == known) {
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
