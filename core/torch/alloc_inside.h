/*
 * alloc_inside.h - inside alloc.h: blocks, the order of the free ones, and what a stream's pool takes from the device.
 *
 * Seen by   alloc_replay.c (births, deaths, streams), alloc_pool.c (segments and pages), nobody else.
 * Order     PyTorch keeps the free blocks of all streams in one set, ordered by stream, size and address: so does this.
 */
#ifndef TORCH_ALLOC_INSIDE_H
#define TORCH_ALLOC_INSIDE_H

#include "torch/alloc.h"

#include <string.h>

/* kSmallSize, and made-up addresses: only their order within a stream's pool matters. Rising, a new segment lies above all earlier ones,
 * also above those that were given back: there is room for 512 TiB of segments in the life of an allocator. */
#define ALLOC_SMALL_BYTES       UINT64_C(1048576)
#define ALLOC_SEGMENT_MAX_BYTES (UINT64_C(1) << 45)
#define ALLOC_ADDRESS_END       (UINT64_C(1) << 49)

/* SPARE_ROWS: writes of the one operation in which the nodes run out; each row is another block until then. */
enum { NO_NODE = 0, NODE_BITS = 24, NODES_MAX = 1 << NODE_BITS, SPARE_ROWS = 8, STREAM_SHIFT = 56 };

/* A stretch of a segment. Node 0 is no block: a sink for writes once the nodes have run out. */
struct block {
    uint64_t at, bytes;
    uint64_t asked_bytes;
    uint32_t prev, next;   /* neighbours in the segment; next also links the free nodes */
    uint32_t below, above; /* of a cached one: neighbours on its shelf */
    uint32_t shelf;
    uint8_t stream;
    bool free, mapped, small, crossed;
};

/* The cached blocks of one stream and size, by address. `fit` is the size with the stream above it. */
struct shelf {
    uint64_t fit;
    uint32_t first, last; /* NO_NODE: it is empty */
    uint32_t near;        /* where one was put last, or beside it */
    uint32_t place;       /* in the order of fits, where it was seen last: shelf_place() */
};

/* A small pool cuts segments of 2 MiB (kSmallBuffer) on its first stream, and what is left of a cut has another size each time: up to there each size has a
 * shelf of its own from the begin on, whose number is its place. */
enum { NARROW_STEP = 512, NARROW_BYTES = 2 << 20, NARROW = NARROW_BYTES / NARROW_STEP };

/* All shelves of a pool, by number, and their order. Few sizes return again and again: what is asked for mostly has a shelf. */
struct shelves {
    struct shelf *shelf; /* from 1; those that are narrow come first */
    uint64_t *narrow;    /* a bit for each of these that is filled, from number 1 on */
    uint64_t narrow_words; /* a bit for each word of it */
    uint32_t n_narrow, narrow_filled; /* n_narrow: NARROW, or 0 where the pool has none */
    uint64_t *fits;      /* by place, rising */
    uint32_t *number;    /* by place */
    uint64_t *filled;    /* a bit by place */
    uint32_t *known;     /* some number that a fit had, by its hash: looked at first */
    uint32_t n, max, fresh, spare, n_filled;
};

/* Unmapped stretches in the order of their stream and address: `rank` is the address (a multiple of 512) with the node below it. */
struct row {
    uint64_t fit, rank;
};

struct sorted {
    struct row *rows;
    uint32_t n;
};

struct pool {
    struct shelves free;                 /* free and mapped, by (stream, size, address) */
    struct sorted holes;                 /* expandable: unmapped stretches, by (stream, address) */
    uint32_t first[TORCH_ALLOC_STREAMS]; /* expandable: lowest block of the stream's one segment, which starts at address 0 */
    uint64_t end;                        /* default: where the next segment begins */
    bool small;
};

/* Falling addresses, of all pools and streams. A gap that has no row left is forgotten. */
enum { GAPS_MAX = 1024 };

struct addresses {
    uint64_t low;
    struct gap {
        uint64_t at, bytes;
    } *gaps; /* NULL: they rise */
    uint32_t n;
};

struct torch_alloc {
    struct torch_alloc_stats stats;
    struct addresses falling;
    struct pool large, small;
    struct block *blocks;
    uint32_t *live;                   /* by handle: its block */
    uint32_t *waiting;                /* a ring: blocks given away while another stream may read them, oldest first */
    uint32_t given, passed, returned; /* of such blocks so far: given away; the streams are past them; free again */
    double *until_s;                  /* TORCH_LAG_TIMED: when the streams have passed waiting[i], i from 0 to n_waiting */
    double now_s, first_s;            /* first_s: no later than any of until_s */
    uint32_t n_waiting;
    uint64_t capacity_bytes;
    uint32_t n_live, n_blocks;
    uint32_t spare, fresh; /* nodes given back; first node never used */
    uint64_t looks, looks_paid; /* at blocks in a row, so far; those that births and the budget paid for */
    struct budget *budget;
    bool expandable;
    enum torch_lag lag;
    const struct torch_alloc_watch *watch;
    enum err_code rc;
};

/* Small and large segments lie apart, and so do the expandable segments of two streams. */
static inline uint64_t alloc_address(const struct torch_alloc *t, uint64_t at, unsigned stream, bool small)
{
    return (UINT64_C(1) << (small ? 51 : 50)) + (t->expandable ? (uint64_t)stream << 46 : 0) + at;
}

static inline void alloc_tell(const struct torch_alloc *t, bool taken, uint64_t at, uint64_t bytes, unsigned stream, bool small)
{
    if (t->watch)
        t->watch->segment(t->watch->of, taken, alloc_address(t, at, stream, small), bytes, stream, small);
}

/* So many blocks of a list were looked at: beyond LOOKS a birth they are work of the budget's. Of traced steps the most were 52. */
enum { LOOKS = 256 };
void alloc_pay(struct torch_alloc *t);
static inline void alloc_look(struct torch_alloc *t, uint32_t n)
{
    t->looks += n;
    if (t->looks > t->looks_paid)
        alloc_pay(t);
}

uint32_t alloc_grow(struct torch_alloc *t, struct pool *p, uint8_t stream, uint64_t want); /* a cached block that has room, or NO_NODE */
void alloc_release(struct torch_alloc *t, struct pool *p);                                 /* gives back what is wholly free */

/* alloc_addresses.c */
bool addresses_new(struct arena *a, struct addresses *ret);
uint64_t addresses_take(struct addresses *s, uint64_t bytes); /* ALLOC_ADDRESS_END: there are none left */
void addresses_give(struct addresses *s, uint64_t at, uint64_t bytes);

/* alloc_shelves.c */
bool shelves_new(struct arena *a, uint32_t most, bool small, struct shelves *ret);
uint32_t shelf_make(struct shelves *s, uint64_t fit);                  /* the number of a shelf that `fit` has, or a new one's */
uint32_t shelves_from(const struct shelves *s, uint32_t place);        /* the first filled place from there on; s->n: none */
uint32_t shelves_place(const struct shelves *s, uint64_t fit);         /* the first that is not below `fit` */
uint32_t shelves_again(const struct shelves *s, const struct shelf *h); /* that of a shelf which stands elsewhere than it was seen last */
void shelf_insert(struct torch_alloc *t, struct shelf *h, uint32_t b); /* between its first and its last */

static inline uint64_t max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Shelves ---------------------------------------------------------------------------------------------------------------- */

static inline uint64_t fit_of(uint8_t stream, uint64_t bytes)
{
    return (uint64_t)stream << STREAM_SHIFT | bytes;
}

enum { KNOWN = 512 };

static inline uint32_t known_of(uint64_t fit)
{
    return (uint32_t)((fit * UINT64_C(0x9E3779B97F4A7C15)) >> 55);
}

static inline bool is_narrow(const struct shelves *s, uint32_t number)
{
    return number <= s->n_narrow;
}

/* The shelf that `fit` has or had; 0: none is known. */
static inline uint32_t shelf_known(const struct shelves *s, uint64_t fit)
{
    uint32_t number;

    if (fit <= (uint64_t)s->n_narrow * NARROW_STEP)
        return (uint32_t)(fit / NARROW_STEP);
    number = s->known[known_of(fit)];
    return s->shelf[number].fit == fit ? number : 0;
}

/* The first that is filled from `number` on; 0: none. */
static inline uint32_t narrow_from(const struct shelves *s, uint32_t number)
{
    uint32_t bit = number - 1, at = bit / 64;
    uint64_t words, word;

    if (number > s->n_narrow)
        return 0;
    word = s->narrow[at] >> bit % 64 << bit % 64;
    if (!word) {
        words = s->narrow_words & ~((UINT64_C(2) << at) - 1);
        if (!words)
            return 0;
        at = (uint32_t)__builtin_ctzll(words);
        word = s->narrow[at];
    }
    return 64 * at + (uint32_t)__builtin_ctzll(word) + 1;
}

static inline uint32_t shelf_place(const struct shelves *s, uint32_t number)
{
    struct shelf *h = &s->shelf[number];

    if (h->place >= s->n || s->number[h->place] != number)
        h->place = shelves_again(s, h);
    return h->place;
}

/* It holds its first block; or none any more. */
static inline void shelf_filled(struct shelves *s, uint32_t number)
{
    uint32_t at;

    if (is_narrow(s, number)) {
        at = (number - 1) / 64;
        s->narrow[at] |= UINT64_C(1) << (number - 1) % 64;
        s->narrow_words |= UINT64_C(1) << at;
        s->narrow_filled++;
        return;
    }
    at = shelf_place(s, number);
    s->filled[at / 64] |= UINT64_C(1) << at % 64;
    s->n_filled++;
}

static inline void shelf_emptied(struct shelves *s, uint32_t number)
{
    uint32_t at;

    if (is_narrow(s, number)) {
        at = (number - 1) / 64;
        s->narrow[at] &= ~(UINT64_C(1) << (number - 1) % 64);
        s->narrow_words &= ~((uint64_t)!s->narrow[at] << at);
        s->narrow_filled--;
        return;
    }
    at = shelf_place(s, number);
    s->filled[at / 64] &= ~(UINT64_C(1) << at % 64);
    s->n_filled--;
}

static inline void shelf_put(struct torch_alloc *t, struct shelves *s, uint32_t b)
{
    uint64_t fit = fit_of(t->blocks[b].stream, t->blocks[b].bytes);
    uint32_t number = shelf_known(s, fit);
    struct shelf *h;

    if (!b)
        return;
    h = &s->shelf[number ? number : (number = shelf_make(s, fit))];
    t->blocks[b].shelf = number;
    if (!h->first) {
        t->blocks[b].below = t->blocks[b].above = NO_NODE;
        h->first = h->last = h->near = b;
        shelf_filled(s, number);
    } else if (t->blocks[b].at < t->blocks[h->first].at) {
        t->blocks[b].below = NO_NODE;
        t->blocks[b].above = h->first;
        t->blocks[h->first].below = b;
        h->first = h->near = b;
    } else if (t->blocks[b].at > t->blocks[h->last].at) {
        t->blocks[b].above = NO_NODE;
        t->blocks[b].below = h->last;
        t->blocks[h->last].above = b;
        h->last = h->near = b;
    } else {
        shelf_insert(t, h, b);
    }
}

static inline void shelf_take(struct torch_alloc *t, struct shelves *s, uint32_t b)
{
    const struct block *block = &t->blocks[b];
    struct shelf *h = &s->shelf[block->shelf];

    if (block->below)
        t->blocks[block->below].above = block->above;
    else
        h->first = block->above;
    if (block->above)
        t->blocks[block->above].below = block->below;
    else
        h->last = block->below;
    if (h->near == b)
        h->near = block->below ? block->below : block->above;
    if (!h->first)
        shelf_emptied(s, block->shelf);
}

/* The first filled place from there on, of one stream. */
static inline uint32_t shelves_first(const struct shelves *s, uint8_t stream, uint32_t place)
{
    place = shelves_from(s, place);
    return place < s->n && s->fits[place] >> STREAM_SHIFT == stream ? s->shelf[s->number[place]].first : NO_NODE;
}

/* The smallest that has `want`, the lowest among equals; NO_NODE: there is none. */
static inline uint32_t shelves_fit(const struct shelves *s, uint8_t stream, uint64_t want)
{
    uint64_t fit = fit_of(stream, want);
    uint32_t number = shelf_known(s, fit);

    if (number && s->shelf[number].first)
        return s->shelf[number].first;
    if (number && is_narrow(s, number)) {
        number = narrow_from(s, number);
        return number ? s->shelf[number].first : shelves_first(s, stream, 0);
    }
    return shelves_first(s, stream, number ? shelf_place(s, number) : shelves_place(s, fit));
}

/* What follows it in that order, of the same stream. */
static inline uint32_t shelves_next(const struct torch_alloc *t, const struct shelves *s, uint32_t b)
{
    uint32_t number = t->blocks[b].shelf;

    if (t->blocks[b].above)
        return t->blocks[b].above;
    if (is_narrow(s, number)) {
        number = narrow_from(s, number + 1);
        return number ? s->shelf[number].first : shelves_first(s, t->blocks[b].stream, 0);
    }
    return shelves_first(s, t->blocks[b].stream, shelf_place(s, number) + 1);
}

/* Holes ------------------------------------------------------------------------------------------------------------------ */

static inline bool row_is_of(struct row r, uint8_t stream)
{
    return r.fit >> STREAM_SHIFT == stream;
}

static inline uint32_t row_block(struct row r)
{
    return (uint32_t)(r.rank & (NODES_MAX - 1));
}

static inline struct row hole_of(const struct torch_alloc *t, uint32_t b)
{
    return (struct row){fit_of(t->blocks[b].stream, 0), t->blocks[b].at << (NODE_BITS - 9) | b};
}

static inline bool before(struct row a, struct row b)
{
    return (a.fit < b.fit) | ((a.fit == b.fit) & (a.rank < b.rank));
}

/* The first row that is not before `key`. */
static inline uint32_t rows_find(const struct sorted *s, struct row key)
{
    const struct row *base = s->rows;

    for (uint32_t n = s->n; n > 1; n -= n / 2)
        base += before(base[n / 2 - 1], key) ? n / 2 : 0;
    return (uint32_t)(base - s->rows) + (s->n && before(*base, key));
}

static inline void rows_add(struct sorted *s, struct row key)
{
    uint32_t i = rows_find(s, key);

    memmove(s->rows + i + 1, s->rows + i, (s->n++ - i) * sizeof *s->rows);
    s->rows[i] = key;
}

static inline void rows_remove(struct sorted *s, uint32_t i)
{
    memmove(s->rows + i, s->rows + i + 1, (--s->n - i) * sizeof *s->rows);
}

/* Blocks ----------------------------------------------------------------------------------------------------------------- */

static inline uint32_t block_new(struct torch_alloc *t, struct block value)
{
    uint32_t b = t->spare;

    if (b) {
        t->spare = t->blocks[b].next;
    } else if (t->fresh < t->n_blocks) {
        b = t->fresh++;
    } else {
        t->rc = ERR_NOMEM;
        return NO_NODE;
    }
    t->blocks[b] = value;
    return b;
}

static inline void block_drop(struct torch_alloc *t, uint32_t b)
{
    t->blocks[b].next = t->spare;
    t->spare = b;
}

/* Cuts b to its first `bytes` and returns the rest, which is as b was. */
static inline uint32_t block_cut(struct torch_alloc *t, uint32_t b, uint64_t bytes)
{
    struct block rest = t->blocks[b];

    rest.at += bytes;
    rest.bytes -= bytes;
    rest.prev = b;

    uint32_t made = block_new(t, rest);
    if (rest.next)
        t->blocks[rest.next].prev = made;
    t->blocks[b].next = made;
    t->blocks[b].bytes = bytes;
    return made;
}

/* b takes in its upper neighbour, which is in no list any more. */
static inline void block_absorb(struct torch_alloc *t, uint32_t b)
{
    struct block *block = &t->blocks[b];
    uint32_t gone = block->next;

    block->bytes += t->blocks[gone].bytes;
    block->next = t->blocks[gone].next;
    if (block->next)
        t->blocks[block->next].prev = b;
    block_drop(t, gone);
}

static inline bool cached(const struct torch_alloc *t, uint32_t b)
{
    return b && t->blocks[b].free && t->blocks[b].mapped;
}

static inline bool is_hole(const struct torch_alloc *t, uint32_t b)
{
    return b && !t->blocks[b].mapped;
}

/* free_block(), try_merge_blocks(): b is free now. Returns what it and its cached neighbours have become. */
static inline uint32_t cache(struct torch_alloc *t, struct pool *p, uint32_t b)
{
    uint32_t prev = t->blocks[b].prev, next = t->blocks[b].next;

    if (cached(t, next)) {
        shelf_take(t, &p->free, next);
        block_absorb(t, b);
    }
    if (cached(t, prev)) {
        shelf_take(t, &p->free, prev);
        block_absorb(t, prev);
        b = prev;
    }
    t->blocks[b].free = true;
    shelf_put(t, &p->free, b);
    return b;
}

#endif
