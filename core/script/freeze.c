#include "script/freeze.h"

#include "script/object.h"

struct frozen {
    const unsigned char *bytes;
    size_t n;
    const uint32_t *moves; /* words that are addresses within */
    uint32_t n_moves;
    uintptr_t base;
    size_t script, root;
};

enum { ALIGN = 64, MOST = 2 << 20 /* bytes of a script that is kept; a family has 0.3 million, an installed one 1.1 */ };

/* A script's arena and, behind it, what lies apart. */
struct place {
    struct arena arena, apart;
    unsigned char *begin;
    struct script *s;
    void *root;
};

static bool place_init(struct place *p, unsigned char *at, size_t room)
{
    p->begin = (unsigned char *)(((uintptr_t)at + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
    if (room < MOST + ALIGN)
        return false;
    arena_init(&p->arena, p->begin, MOST);
    arena_init(&p->apart, p->begin + MOST, room - MOST - ALIGN);
    if (!arena_push(&p->arena, 1, 1, MOST)) /* zeroes: gaps between what is pushed are compared too */
        return false;
    arena_rewind(&p->arena, p->begin);
    return true;
}

/* What was given back holds whatever it did. */
static void clean(struct script *s)
{
    for (size_t k = 0; k < HEAP_CLASSES; k++)
        for (unsigned char *p = s->free_lists[k].next, *next; p; p = next) {
            memcpy(&next, p, sizeof next);
            memset(p + sizeof next, 0, (k + 1) * HEAP_STEP - sizeof next);
        }
    for (size_t k = 0; k < sizeof s->large / sizeof *s->large; k++)
        for (unsigned char *p = s->large[k], *next; p; p = next) {
            memcpy(&next, p, sizeof next);
            memset(p + sizeof next, 0, ((size_t)1 << k) - sizeof next);
        }
}

/* Nothing that lies elsewhere, and will elsewhere for whoever thaws it. */
static bool sleep(struct script *s)
{
    if (!script_rests(s))
        return false;
    clean(s);
    s->arena = s->own->arena = NULL;
    s->own->end = NULL;
    s->stack = s->stack_end = s->sp = NULL;
    s->cache = NULL;
    s->host = (struct script_host){0};
    s->steps = s->steps_kept = 0;
    return true;
}

static bool fill(struct place *p, script_maker *make, void *of)
{
    p->s = make(of, &p->arena, &p->apart, &p->root);
    return p->s && sleep(p->s) && arena_push(&p->arena, sizeof(uint64_t), sizeof(uint64_t), 1); /* ends with whole words */
}

/* Four bytes that were written over an address, whose other half is a gap now: it differs where the two places lie on either side of 4 GiB. */
static bool is_half(uint64_t x, uint64_t y, const struct place *a, const struct place *b, size_t n)
{
    uintptr_t at = (uintptr_t)a->begin, bt = (uintptr_t)b->begin;

    return (uint32_t)x == (uint32_t)y && (x >> 32 == at >> 32 || x >> 32 == (at + n) >> 32) && (y >> 32 == bt >> 32 || y >> 32 == (bt + n) >> 32);
}

/* The words of a that are not as in b have moved with it. */
static bool find_moves(const struct place *a, const struct place *b, size_t n, uint32_t *moves, uint32_t *ret_n)
{
    uint32_t k = 0;

    for (size_t i = 0; i < n; i += sizeof(uint64_t)) {
        uint64_t x, y;

        memcpy(&x, a->begin + i, sizeof x);
        memcpy(&y, b->begin + i, sizeof y);
        if (x == y || is_half(x, y, a, b, n))
            continue;
        if (x - (uintptr_t)a->begin != y - (uintptr_t)b->begin || x - (uintptr_t)a->begin > n)
            return false;
        if (moves)
            moves[k] = (uint32_t)(i / sizeof x);
        k++;
    }
    *ret_n = k;
    return true;
}

static const struct frozen *keep_it(struct arena *keep, const struct place *a, const struct place *b, size_t n)
{
    struct frozen *f = arena_new(keep, struct frozen);
    uint32_t *moves, n_moves;
    unsigned char *bytes;

    if (!f || !find_moves(a, b, n, NULL, &n_moves))
        return NULL;
    bytes = arena_push_raw(keep, n, ALIGN, 1);
    moves = arena_array_raw(keep, uint32_t, n_moves);
    if (!bytes || !moves || !find_moves(a, b, n, moves, &n_moves))
        return NULL;
    memcpy(bytes, a->begin, n);
    *f = (struct frozen){.bytes = bytes,
                         .n = n,
                         .moves = moves,
                         .n_moves = n_moves,
                         .base = (uintptr_t)a->begin,
                         .script = (size_t)((unsigned char *)a->s - a->begin),
                         .root = (size_t)((unsigned char *)a->root - a->begin)};
    return f;
}

const struct frozen *script_freeze(struct arena *keep, struct arena *scratch, script_maker *make, void *of)
{
    struct place a = {0}, b = {0};
    size_t room = (size_t)(scratch->end - scratch->cur) / 2, n;

    if (!place_init(&a, scratch->cur, room) || !place_init(&b, scratch->cur + room, room))
        return NULL;
    a.arena.budget = b.arena.budget = scratch->budget;
    if (!fill(&a, make, of) || !fill(&b, make, of))
        return NULL;
    n = (size_t)(a.arena.cur - a.begin);
    if (n != (size_t)(b.arena.cur - b.begin) || n % sizeof(uint64_t) || n / sizeof(uint64_t) > UINT32_MAX)
        return NULL;
    arena_open(&a.arena, a.begin);
    arena_open(&b.arena, b.begin);
    return keep_it(keep, &a, &b, n);
}

const struct frozen *script_frozen_copy(const struct frozen *f, struct arena *to)
{
    bool full = to->full;
    unsigned char *mark = to->cur;
    struct frozen *own = arena_new(to, struct frozen);
    unsigned char *bytes = arena_push_raw(to, f->n, ALIGN, 1);
    uint32_t *moves = arena_array_raw(to, uint32_t, f->n_moves);

    if (!own || !bytes || !moves) {
        arena_rewind(to, mark);
        to->full = full;
        return NULL;
    }
    memcpy(bytes, f->bytes, f->n);
    memcpy(moves, f->moves, f->n_moves * sizeof *moves);
    *own = *f;
    own->bytes = bytes;
    own->moves = moves;
    return own;
}

struct script *script_thaw(const struct frozen *f, struct arena *arena, struct arena *apart, const struct script_limits *limits,
                           const struct script_host *host, void **ret_root)
{
    unsigned char *at = arena_push_raw(arena, f->n, ALIGN, 1);
    struct script *s;

    if (!at)
        return NULL;
    memcpy(at, f->bytes, f->n);
    for (uint32_t i = 0; i < f->n_moves; i++) {
        uint64_t word;

        memcpy(&word, at + (size_t)f->moves[i] * sizeof word, sizeof word);
        word += (uintptr_t)at - f->base;
        memcpy(at + (size_t)f->moves[i] * sizeof word, &word, sizeof word);
    }
    s = (struct script *)(void *)(at + f->script);
    *ret_root = at + f->root;
    s->own->arena = arena;
    return script_set_up(s, arena, arena, apart, limits, host) ? s : NULL;
}

bool script_rests(const struct script *s)
{
    return !s->frame && !sv_ok(s->exc) && !sv_ok(s->handled) && !s->over && s->sp == s->stack && !s->where;
}

/* What is given back of it, and what was given back before, is nobody's: whoever took it would stand where nothing is put back. */
void script_may_stay(struct script *s, const struct frozen *of)
{
    s->still = (unsigned char *)s - of->script;
    s->still_bytes = of->n;
    s->stirred = true; /* whoever is about to make something of it may write */
    memset(s->free_lists, 0, sizeof s->free_lists);
    memset(s->large, 0, sizeof s->large);
}

unsigned char *script_thawed_end(const struct script *s)
{
    return s->still + s->still_bytes;
}

size_t script_itself_bytes(void)
{
    return sizeof(struct script);
}

void script_stands(struct script *s, void *itself)
{
    s->stirred = false;
    memcpy(itself, s, sizeof *s);
}

bool script_is_stirred(const struct script *s)
{
    return s->stirred || s->own->is_beyond;
}

/* Versions are never given twice: sites remember them. */
void script_stands_again(struct script *s, const void *itself)
{
    uint32_t version = s->next_version;

    memcpy(s, itself, sizeof *s);
    s->next_version = version;
}

void script_moves_on(struct script *s, struct arena *arena)
{
    s->arena = arena;
    if (s->still)
        s->own->beyond = arena;
    else
        s->own->arena = arena;
}

size_t script_frozen_bytes(const struct frozen *f)
{
    return f->n + f->n_moves * sizeof *f->moves;
}
