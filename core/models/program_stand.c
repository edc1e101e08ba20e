/* program_stand.c - models as they stood when they were declared, for the walks that follow. */
#include "models/program_parts.h"
#include "script/freeze.h"
#include "torch/calls.h"

#include "base/budget.h"

#include <string.h>

/* That are put back count as one event. Empirical: tests/data/worst.jsonl */
enum { BYTES_COPIED = 512 };
enum { APART_ROOM = 12 << 20, BOOK_ROOM = 4 << 20, MODELS_HEARD = 24, ALIGN = 64 };
enum { MODEL_ROOM = 8 << 20, LEAST_ROOM = 3 << 20, LASTING_ROOM = 96 << 10 }; /* of one: while it is made; at least; for what lasts beside it */
enum { KEPT_ROOM = 14 << 20, PASSING_ROOM = STANDS_ROOM - KEPT_ROOM - APART_ROOM - BOOK_ROOM };

/* All that declare() may read, whatever a member of struct model is called that came since; the source and its config are one. */
struct stand_key {
    struct quirks q;
    struct model m; /* without its addresses */
    uint32_t layers;
};

/* A program that has begun and has made nothing yet, and what is remembered of it (freeze.h). Models are made of it one after the other: runs rarely write
 * there, and where one does all of them are gone. */
struct begun {
    struct quirks q; /* what its modules were imported for */
    bool layers_wrapped;
    unsigned capability;
    struct arena arena;
    struct program *p;
    unsigned char *apart_end; /* of its host's tables and its stack */
    void *script, *program, *host;
    size_t bytes;
    bool is_stirred;
};

/* One model, where it stands whenever it is asked for; where it has a beginning of its own, that is copied, too. */
struct stood {
    struct stood *next;
    struct stand_key key;
    struct model m; /* as declare() left it */
    struct begun *of; /* NULL: its own */
    struct arena arena;
    unsigned char *begin, *copy;
    void *modules, *script, *program, *host;
    size_t bytes, own_bytes; /* bytes: of the copy */
};

struct region {
    struct arena arena;
    unsigned char *begin;
    struct stood *first;
    struct begun *begun; /* of which the next is made; NULL: there is none */
};

/* Models of those that pass; of those whose tape is kept, of which one is used at a time. The tables of their hosts and their stacks lie apart: one runs at a
 * time. */
struct stands {
    struct region of[2];
    struct arena apart;
    unsigned char *apart_begin;
    bool used, are_stirred; /* their runs write what was thawed: it is copied, too, of those that are made from then on */
    struct calls_book *book;
    struct stand_key *heard; /* MODELS_HEARD of them, whatever their depth */
    uint32_t n_heard;
};

static void region_init(struct region *r, unsigned char *room, size_t bytes)
{
    arena_init(&r->arena, room, bytes);
    r->begin = r->arena.cur;
}

struct stands *program_stands_new(struct arena *arena)
{
    struct stands *s = arena_new(arena, struct stands);
    unsigned char *room = s ? arena_push_raw(arena, STANDS_ROOM, ALIGN, 1) : NULL;

    if (!room)
        return NULL;
    region_init(&s->of[0], room, PASSING_ROOM);
    region_init(&s->of[1], room + PASSING_ROOM, KEPT_ROOM);
    room += PASSING_ROOM + KEPT_ROOM;
    arena_init(&s->apart, room, APART_ROOM);
    s->heard = (struct stand_key *)(void *)(room + APART_ROOM);
    room += APART_ROOM + MODELS_HEARD * sizeof *s->heard;
    s->book = calls_book(room, BOOK_ROOM - MODELS_HEARD * sizeof *s->heard);
    s->apart_begin = s->apart.cur;
    return s;
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

/* One model, whether its layers are checkpointed or its weights packed or not: it is told when it stands. */
static void without_what_is_told(const struct model *m, struct stand_key *k)
{
    if (!program_is_of_files(m->source)) { /* ours look at these, and at the device, as they run; others may as they are made */
        k->m.quantised = false;
        k->m.capability = 0;
    }
    k->m.checkpointing = k->m.reentrant = k->m.checkpoints_trained_alone = k->m.embeddings_require_grad = false;
    k->m.checkpoint_every = 0;
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

/* Where what it was made of is as it was, or is put back. */
static bool is_whole(const struct stood *s)
{
    return !s->of || !s->of->is_stirred;
}

static struct stood *find(const struct region *r, const struct stand_key *key)
{
    for (struct stood *s = r->first; s; s = s->next)
        if (is_whole(s) && memcmp(&s->key, key, sizeof *key) == 0)
            return s;
    return NULL;
}

/* Others of this question may come again less often. */
static void begin_anew(struct region *r)
{
    arena_rewind(&r->arena, r->begin);
    r->arena.full = false;
    r->first = NULL;
    r->begun = NULL;
}

static void copy(struct region *r, struct stood *s, const struct stand_key *key, const struct model *m)
{
    struct program *p = m->parts;
    size_t bytes = (size_t)(s->arena.cur - s->begin), modules = m->tree.n_modules * sizeof *m->tree.modules;

    s->copy = arena_push_raw(&r->arena, bytes, ALIGN, 1);
    s->modules = arena_push_raw(&r->arena, modules, ALIGN, 1);
    s->host = arena_push_raw(&r->arena, natives_host_bytes(&p->n), ALIGN, 1);
    s->script = arena_push_raw(&r->arena, script_itself_bytes(), ALIGN, 1);
    s->program = arena_push_raw(&r->arena, sizeof *p, ALIGN, 1);
    if (!s->copy || !s->modules || !s->host || !s->script || !s->program)
        return;
    script_stands(p->s, s->script);
    arena_open(&s->arena, s->begin);
    memcpy(s->copy, s->begin, bytes);
    memcpy(s->modules, m->tree.modules, modules);
    memcpy(s->program, p, sizeof *p);
    natives_host_save(&p->n, s->host);
    memcpy(&s->key, key, sizeof *key);
    s->m = *m;
    s->bytes = bytes;
    s->next = r->first;
    r->first = s;
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

static void restore(struct stood *s)
{
    struct program *p = s->m.parts;
    unsigned char *from = s->begin;

    if (!s->of && script_is_stirred(p->s))
        arena_rewind(&s->arena, from + s->bytes); /* what was remembered goes, too */
    else if (!s->of)
        from = script_thawed_end(p->s);
    memcpy(from, s->copy + (from - s->begin), s->bytes - (size_t)(from - s->begin));
    memcpy(s->m.tree.modules, s->modules, s->m.tree.n_modules * sizeof *s->m.tree.modules);
    memcpy(p, s->program, sizeof *p);
    script_stands_again(p->s, s->script);
}

/* False: there is no work left. */
static bool put_back(struct stands *all, struct stood *s, struct model *m)
{
    struct arena *arena = m->tree.arena;

    restore(s);
    m->tree = s->m.tree;
    m->parts = s->m.parts;
    m->outputs_end = s->m.outputs_end;
    m->position_table = s->m.position_table;
    m->takes_items = s->m.takes_items;
    m->refuses_items = s->m.refuses_items;
    m->score_head = s->m.score_head;
    m->takes_token_types = s->m.takes_token_types;
    m->writes_into_views = s->m.writes_into_views;
    m->embeddings = s->m.embeddings;
    move_on(m, arena, s->host);
    take_room(m, arena, s->own_bytes);
    all->used = true;
    return budget_take(arena->budget, s->bytes / BYTES_COPIED, &m->tree.error) == ERR_OK;
}

/* An arena of what is left of the region's, up to MODEL_ROOM; NULL: there is too little. */
static unsigned char *open_room(struct region *r, struct arena *ret)
{
    size_t room = (size_t)(r->arena.end - r->arena.cur) & ~(size_t)(ALIGN - 1);
    unsigned char *begin;

    room = room > ALIGN + MODEL_ROOM ? MODEL_ROOM : room - ALIGN;
    begin = room > LASTING_ROOM ? arena_push_raw(&r->arena, room, ALIGN, 1) : NULL;
    if (begin)
        arena_init(ret, begin, room);
    return begin;
}

/* What it has not used goes back, but for so much. */
static void close_room(struct region *r, struct arena *a, size_t kept)
{
    if ((size_t)(a->end - a->cur) > kept)
        a->end = a->cur + kept;
    arena_rewind(&r->arena, a->end);
}

static void rewind_apart(struct stands *all, unsigned char *to, struct budget *budget)
{
    arena_rewind(&all->apart, to);
    all->apart.full = false;
    all->apart.budget = budget;
}

static bool is_begun_for(const struct begun *b, const struct program_ready *of)
{
    return !b->is_stirred && !memcmp(&b->q, &of->q, sizeof b->q) && b->layers_wrapped == of->layers_wrapped && b->capability == of->capability;
}

/* As it was when it had begun: the model's tree has nothing yet. */
static struct program *begin_again(struct stands *all, struct begun *b, const struct model *m)
{
    rewind_apart(all, b->apart_end, m->tree.arena->budget);
    memcpy(b->p, b->program, sizeof *b->p);
    script_stands_again(b->p->s, b->script);
    natives_host_load(&b->p->n, b->host, &all->apart, m->q);
    return b->p;
}

/* NULL: there is no room, or the tree says why. */
static struct begun *begin(struct stands *all, struct region *r, const struct frozen *frozen, struct model *m, const struct making_of *how, bool *ret_full)
{
    const struct program_ready *of = m->source->ready;
    struct begun *b = arena_new(&r->arena, struct begun);
    unsigned char *room = b ? open_room(r, &b->arena) : NULL;

    *ret_full = true;
    if (!room)
        return NULL;
    rewind_apart(all, all->apart_begin, m->tree.arena->budget);
    m->tree.arena = &b->arena;
    b->p = how->begin(m, frozen, &all->apart);
    *ret_full = b->arena.full;
    if (!b->p || b->arena.full || all->apart.full)
        return NULL;
    b->bytes = (size_t)(b->arena.cur - room);
    close_room(r, &b->arena, LASTING_ROOM);
    b->apart_end = all->apart.cur;
    b->host = arena_push_raw(&r->arena, natives_host_bytes(&b->p->n), ALIGN, 1);
    b->script = arena_push_raw(&r->arena, script_itself_bytes(), ALIGN, 1);
    b->program = arena_push_raw(&r->arena, sizeof *b->p, ALIGN, 1);
    *ret_full = !b->host || !b->script || !b->program;
    if (*ret_full)
        return NULL;
    script_stands(b->p->s, b->script);
    memcpy(b->program, b->p, sizeof *b->p);
    natives_host_save(&b->p->n, b->host);
    b->q = of->q;
    b->layers_wrapped = of->layers_wrapped;
    b->capability = of->capability;
    return b;
}
/* Of the region's beginning, which it then has one of, or of one of its own. */
static bool begin_one(struct stands *all, const struct region *r, const struct frozen *frozen, struct model *m, const struct making_of *how, struct stood *s,
                      bool *ret_full)
{
    struct tree *t = &m->tree;

    if (all->are_stirred) {
        rewind_apart(all, all->apart_begin, t->arena->budget);
        s->arena.budget = t->arena->budget;
        t->arena = &s->arena;
        m->parts = how->begin(m, frozen, &all->apart);
        *ret_full = s->arena.full;
        return m->parts;
    }
    s->of = r->begun;
    m->parts = begin_again(all, s->of, m);
    s->arena.budget = t->arena->budget;
    t->arena = &s->arena;
    script_moves_on(s->of->p->s, t->arena);
    return true;
}

/* What making wrote of it all that are made of it have; who is the first has it alone then. */
static void end_making(struct region *r, struct stood *s)
{
    if (!s->of || !script_is_stirred(s->of->p->s)) {
        r->begun = s->of;
        return;
    }
    for (const struct stood *other = r->first; other; other = other->next)
        s->of->is_stirred |= other->of == s->of;
    r->begun = NULL;
}

/* Declared where it will stand; NULL: it finds no room there, or cannot be. */
static struct stood *make_there(struct stands *all, struct region *r, const struct frozen *frozen, struct model *m, const struct making_of *how,
                                bool *ret_full)
{
    struct tree *t = &m->tree;
    struct arena *arena = t->arena;
    struct stood *s;

    if (!all->are_stirred && (!r->begun || !is_begun_for(r->begun, m->source->ready)))
        r->begun = begin(all, r, frozen, m, how, ret_full);
    t->arena = arena;
    if (!all->are_stirred && !r->begun)
        return NULL;
    s = arena_new(&r->arena, struct stood);
    t->modules = s ? arena_array(&r->arena, struct module *, t->max_modules) : NULL;
    s = t->modules ? s : NULL;
    if (s)
        s->begin = open_room(r, &s->arena);
    *ret_full = true;
    if (!s || !s->begin || !begin_one(all, r, frozen, m, how, s, ret_full))
        return NULL;
    how->make(m);
    *ret_full = s->arena.full;
    if (t->error.code || s->arena.full || all->apart.full)
        return NULL;
    end_making(r, s);
    close_room(r, &s->arena, s->of ? 0 : LASTING_ROOM);
    s->own_bytes = (s->of ? s->of->bytes : 0) + (size_t)(s->arena.cur - s->begin) + (size_t)(all->apart.cur - all->apart_begin);
    return s;
}

/* Since this was asked last one run at the most had each beginning. */
static void look_for_stirred(struct stands *all)
{
    for (size_t i = 0; i < sizeof all->of / sizeof *all->of; i++)
        for (struct stood *s = all->of[i].first; s; s = s->next) {
            bool is_stirred = s->of && script_is_stirred(s->of->p->s);

            if (is_stirred)
                all->are_stirred = s->of->is_stirred = true;
        }
}

bool program_stands(struct model *m, const struct making_of *how)
{
    struct stands *all = m->source->ready ? m->source->ready->stands : NULL;
    struct region *r = all ? &all->of[m->memory == MEMORY_KEPT] : NULL;
    struct arena *arena = m->tree.arena;
    const struct frozen *imported;
    struct stood *s;
    struct model before = *m;
    struct stand_key key;
    struct program *p;
    bool full = false;
    unsigned char *mark;

    if (!all)
        return false;
    look_for_stirred(all);
    key_of(m, &key);
    without_what_is_told(m, &key);
    s = find(r, &key);
    if (s)
        return put_back(all, s, m) || m->tree.error.code;
    imported = how->frozen(m);
    if ((size_t)(r->arena.end - r->arena.cur) < LEAST_ROOM)
        begin_anew(r);
    mark = r->arena.cur;
    s = imported ? make_there(all, r, imported, m, how, &full) : NULL;
    if (!s && full && mark != r->begin) {
        *m = before;
        begin_anew(r);
        mark = r->begin;
        s = make_there(all, r, imported, m, how, &full);
    }
    if (!s) {
        arena_rewind(&r->arena, mark);
        r->arena.full = false;
        r->begun = NULL;
        *m = before;
        return false;
    }
    p = m->parts;
    if (script_rests(p->s) && natives_rest(&p->n))
        copy(r, s, &key, m);
    else
        r->begun = NULL;
    take_room(m, arena, s->own_bytes);
    move_on(m, arena, NULL);
    return true;
}
