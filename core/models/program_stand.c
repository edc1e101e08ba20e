/* program_stand.c - models as they stood when they were declared, for the walks that follow. */
#include "models/program_parts.h"
#include "script/freeze.h"

#include "base/budget.h"

#include <string.h>

enum { LIVE_ROOM = 8 << 20, APART_ROOM = 12 << 20, COPIES_ROOM = STANDS_ROOM - LIVE_ROOM - APART_ROOM, ALIGN = 64 };

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
    size_t bytes;
    const void *copy, *host;
    uint64_t steps;
};

/* One model stands in `live` at a time, at the same address as when it was copied; the tables of its host and its stack lie apart. */
struct stands {
    struct arena live, apart, copies;
    unsigned char *live_begin, *apart_begin, *copies_begin;
    struct stood *first;
    bool used;
};

struct stands *program_stands_new(struct arena *arena)
{
    struct stands *s = arena_new(arena, struct stands);
    unsigned char *room = s ? arena_push_raw(arena, STANDS_ROOM, ALIGN, 1) : NULL;

    if (!room)
        return NULL;
    arena_init(&s->live, room, LIVE_ROOM);
    arena_init(&s->apart, room + LIVE_ROOM, APART_ROOM);
    arena_init(&s->copies, room + LIVE_ROOM + APART_ROOM, COPIES_ROOM);
    s->live_begin = s->live.cur;
    s->apart_begin = s->apart.cur;
    s->copies_begin = s->copies.cur;
    return s;
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
    size_t bytes = (size_t)(all->live.cur - all->live_begin), host_bytes = natives_host_bytes(&p->n);
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
    arena_open(&all->live, all->live_begin);
    memcpy(copied, all->live_begin, bytes);
    natives_host_save(&p->n, host);
    memcpy(&s->key, key, sizeof *key);
    s->m = *m;
    s->bytes = bytes;
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
    void *at;

    arena_rewind(&all->live, all->live_begin);
    at = arena_push_raw(&all->live, s->bytes, 1, 1);
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
    all->used = true;
    return budget_take(arena->budget, s->steps, &m->tree.error) == ERR_OK;
}

/* Declared in `live`. */
static bool make_there(struct stands *all, const struct frozen *frozen, struct model *m, program_maker *make)
{
    struct tree *t = &m->tree;

    arena_rewind(&all->live, all->live_begin);
    arena_rewind(&all->apart, all->apart_begin);
    all->live.full = all->apart.full = false;
    all->live.budget = all->apart.budget = t->arena->budget;
    t->arena = &all->live;
    t->modules = arena_array(&all->live, struct module *, t->max_modules);
    if (t->modules)
        make(m, frozen, &all->apart);
    return t->modules && !t->error.code && m->parts && !all->live.full && !all->apart.full;
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
    move_on(m, arena, NULL);
    return true;
}
