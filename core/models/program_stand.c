/* program_stand.c - models as they stood when they were declared, for the walks that follow. */
#include "models/program_parts.h"
#include "script/freeze.h"
#include "torch/calls.h"

#include "base/budget.h"

#include <string.h>

enum { LIVES = 2, LIVE_ROOM = 8 << 20, APART_ROOM = 12 << 20, BOOK_ROOM = 4 << 20, MODELS_HEARD = 24, ALIGN = 64 };
enum { COPIES_ROOM = STANDS_ROOM - LIVES * LIVE_ROOM - APART_ROOM - BOOK_ROOM };

/* All that declare() may read, whatever a member of struct model is called that came since; the source and its config are one. */
struct stand_key {
    struct quirks q;
    struct model m; /* without its addresses */
    uint32_t layers;
};

struct stood {
    struct stood *next;
    struct stand_key key;
    struct model m; /* as declare() left it */
    size_t bytes, own_bytes;
    const void *copy, *host;
    uint64_t steps;
};

struct live {
    struct arena arena;
    unsigned char *begin;
};

/* One model stands in a `live` at a time, at the same address as when it was copied: of those that pass, of those whose tape is kept.
 * The tables of its host and its stack lie apart: one runs at a time. */
struct stands {
    struct live live[LIVES];
    struct arena apart, copies;
    unsigned char *apart_begin, *copies_begin;
    struct stood *first;
    bool used;
    struct calls_book *book;
    struct stand_key *heard; /* MODELS_HEARD of them, whatever their depth */
    uint32_t n_heard;
};

struct stands *program_stands_new(struct arena *arena)
{
    struct stands *s = arena_new(arena, struct stands);
    unsigned char *room = s ? arena_push_raw(arena, STANDS_ROOM, ALIGN, 1) : NULL;

    if (!room)
        return NULL;
    for (int i = 0; i < LIVES; i++, room += LIVE_ROOM) {
        arena_init(&s->live[i].arena, room, LIVE_ROOM);
        s->live[i].begin = room;
    }
    arena_init(&s->apart, room, APART_ROOM);
    arena_init(&s->copies, room + APART_ROOM, COPIES_ROOM);
    s->heard = (struct stand_key *)(void *)(room + APART_ROOM + COPIES_ROOM);
    room += APART_ROOM + COPIES_ROOM + MODELS_HEARD * sizeof *s->heard;
    s->book = calls_book(room, BOOK_ROOM - MODELS_HEARD * sizeof *s->heard);
    s->apart_begin = s->apart.cur;
    s->copies_begin = s->copies.cur;
    return s;
}

static struct live *live_of(struct stands *all, const struct model *m)
{
    return &all->live[m->memory == MEMORY_KEPT];
}

/* That it would take in an arena of its own, which has a table of modules already. */
static size_t own_bytes(struct stands *all, const struct model *m)
{
    const struct live *live = live_of(all, m);

    return (size_t)(live->arena.cur - live->begin) + (size_t)(all->apart.cur - all->apart_begin) - m->tree.max_modules * sizeof *m->tree.modules;
}

/* Which tapes are kept beside each other follows from the room that is left: the same as if each had its model's beside it. Nobody touches it. */
static void take_room(const struct model *m, struct arena *arena, size_t bytes)
{
    if (m->memory == MEMORY_KEPT)
        (void)arena_push_raw(arena, bytes, ALIGN, 1);
}

static void key_of(const struct model *m, struct stand_key *ret)
{
    memset(ret, 0, sizeof *ret); /* gaps are compared too */
    memcpy(&ret->q, m->q, sizeof ret->q);
    memcpy(&ret->m, m, sizeof ret->m);
    ret->layers = m->arch->layers;
    ret->m.arch = NULL;
    ret->m.q = NULL;
    ret->m.source = NULL;
    ret->m.cache = NULL;
    ret->m.tree.arena = NULL;
    ret->m.tree.modules = NULL;
}

struct calls_book *program_book(const struct model *m, uint64_t *ret_identity)
{
    const struct program_source *from = m->source;
    struct stands *all = from->ready ? from->ready->stands : NULL;
    struct stand_key key;
    uint32_t i = 0;

    if (!all || program_is_of_files(from))
        return NULL;
    if (!ret_identity)
        return all->book;
    key_of(m, &key);
    key.layers = 0; /* whatever its depth, and wherever it lies */
    key.m.tree.max_modules = key.m.n_layers = key.m.end_layer = 0;
    key.m.memory = 0;
    while (i < all->n_heard && memcmp(&all->heard[i], &key, sizeof key) != 0)
        i++;
    if (i == MODELS_HEARD)
        return NULL;
    if (i == all->n_heard)
        memcpy(&all->heard[all->n_heard++], &key, sizeof key);
    *ret_identity = i + 1;
    return all->book;
}

static const struct stood *find(const struct stands *all, const struct stand_key *key)
{
    for (const struct stood *s = all->first; s; s = s->next)
        if (!memcmp(&s->key, key, sizeof *key))
            return s;
    return NULL;
}

static void copy(struct stands *all, const struct stand_key *key, const struct model *m)
{
    const struct program *p = m->parts;
    struct live *live = live_of(all, m);
    size_t bytes = (size_t)(live->arena.cur - live->begin), host_bytes = natives_host_bytes(&p->n);
    struct stood *s;
    void *copied, *host;

    if (bytes + host_bytes + sizeof *s + 3 * ALIGN > (size_t)(all->copies.end - all->copies.cur)) { /* others of this question may come again less often */
        arena_rewind(&all->copies, all->copies_begin);
        all->first = NULL;
    }
    s = arena_new(&all->copies, struct stood);
    copied = arena_push_raw(&all->copies, bytes, ALIGN, 1);
    host = arena_push_raw(&all->copies, host_bytes, ALIGN, 1);
    if (!s || !copied || !host)
        return;
    arena_open(&live->arena, live->begin);
    memcpy(copied, live->begin, bytes);
    natives_host_save(&p->n, host);
    memcpy(&s->key, key, sizeof *key);
    s->m = *m;
    s->bytes = bytes;
    s->own_bytes = own_bytes(all, m);
    s->copy = copied;
    s->host = host;
    s->steps = script_steps_taken(p->s, &script_limits_default);
    s->next = all->first;
    all->first = s;
}

/* What the model is from here on: another step's, in the arena of its run. */
static void move_on(struct model *m, struct arena *arena, const void *host)
{
    struct program *p = m->parts;

    natives_host_load(&p->n, host, arena, m->q);
    script_moves_on(p->s, arena);
    p->n.tree = &m->tree;
    m->tree.arena = arena;
}

bool program_has_stood(const struct program_ready *r)
{
    return r->stands && r->stands->used;
}

/* False: there is no work left. */
static bool put_back(struct stands *all, const struct stood *s, struct model *m)
{
    struct arena *arena = m->tree.arena;
    struct live *live = live_of(all, m);
    void *at;

    arena_rewind(&live->arena, live->begin);
    at = arena_push_raw(&live->arena, s->bytes, 1, 1);
    memcpy(at, s->copy, s->bytes);
    m->tree = s->m.tree;
    m->parts = s->m.parts;
    m->outputs_end = s->m.outputs_end;
    m->position_table = s->m.position_table;
    m->takes_items = s->m.takes_items;
    m->refuses_items = s->m.refuses_items;
    m->score_head = s->m.score_head;
    m->takes_token_types = s->m.takes_token_types;
    m->embeddings = s->m.embeddings;
    move_on(m, arena, s->host);
    take_room(m, arena, s->own_bytes);
    all->used = true;
    return budget_take(arena->budget, s->steps, &m->tree.error) == ERR_OK;
}

/* Declared where it will stand. */
static bool make_there(struct stands *all, const struct frozen *frozen, struct model *m, program_maker *make)
{
    struct tree *t = &m->tree;
    struct live *live = live_of(all, m);

    arena_rewind(&live->arena, live->begin);
    arena_rewind(&all->apart, all->apart_begin);
    live->arena.full = all->apart.full = false;
    live->arena.budget = all->apart.budget = t->arena->budget;
    t->arena = &live->arena;
    t->modules = arena_array(&live->arena, struct module *, t->max_modules);
    if (t->modules)
        make(m, frozen, &all->apart);
    return t->modules && !t->error.code && m->parts && !live->arena.full && !all->apart.full;
}

bool program_stands(struct model *m, const struct frozen *(*frozen)(struct model *), program_maker *make)
{
    struct stands *all = m->source->ready ? m->source->ready->stands : NULL;
    struct arena *arena = m->tree.arena;
    const struct frozen *imported;
    const struct stood *stood;
    struct model before = *m;
    struct stand_key key;
    struct program *p;

    if (!all)
        return false;
    key_of(m, &key);
    stood = find(all, &key);
    if (stood)
        return put_back(all, stood, m) || m->tree.error.code;
    imported = frozen(m);
    if (!imported || !make_there(all, imported, m, make)) {
        *m = before;
        return false;
    }
    p = m->parts;
    if (script_rests(p->s) && natives_rest(&p->n))
        copy(all, &key, m);
    take_room(m, arena, own_bytes(all, m));
    move_on(m, arena, NULL);
    return true;
}
