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

/* All shelves of a pool, by number, and their order. Few sizes return again and again: what is asked for mostly has a shelf. */
struct shelves {
    struct shelf *shelf; /* from 1 */
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
bool shelves_new(struct arena *a, uint32_t most, struct shelves *ret);
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

/* The shelf that `fit` has or had; 0: none is known. */
static inline uint32_t shelf_known(const struct shelves *s, uint64_t fit)
{
    uint32_t number = s->known[known_of(fit)];

    return s->shelf[number].fit == fit ? number : 0;
}

static inline uint32_t shelf_place(const struct shelves *s, uint32_t number)
{
    struct shelf *h = &s->shelf[number];

    if (h->place >= s->n || s->number[h->place] != number)
        h->place = shelves_again(s, h);
    return h->place;
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
        uint32_t place = shelf_place(s, number);

        t->blocks[b].below = t->blocks[b].above = NO_NODE;
        h->first = h->last = h->near = b;
        s->filled[place / 64] |= UINT64_C(1) << place % 64;
        s->n_filled++;
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
    if (!h->first) {
        uint32_t place = shelf_place(s, block->shelf);

        s->filled[place / 64] &= ~(UINT64_C(1) << place % 64);
        s->n_filled--;
    }
}

/* The smallest that has `want`, the lowest among equals; NO_NODE: there is none. */
static inline uint32_t shelves_fit(const struct shelves *s, uint8_t stream, uint64_t want)
{
    uint64_t fit = fit_of(stream, want);
    uint32_t number = shelf_known(s, fit), place;

    if (number && s->shelf[number].first)
        return s->shelf[number].first;
    place = shelves_from(s, number ? shelf_place(s, number) : shelves_place(s, fit));
    return place < s->n && s->fits[place] >> STREAM_SHIFT == stream ? s->shelf[s->number[place]].first : NO_NODE;
}

/* What follows it in that order, of the same stream. */
static inline uint32_t shelves_next(const struct torch_alloc *t, const struct shelves *s, uint32_t b)
{
    uint32_t place;

    if (t->blocks[b].above)
        return t->blocks[b].above;
    place = shelves_from(s, shelf_place(s, t->blocks[b].shelf) + 1);
    return place < s->n && s->fits[place] >> STREAM_SHIFT == t->blocks[b].stream ? s->shelf[s->number[place]].first : NO_NODE;
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
