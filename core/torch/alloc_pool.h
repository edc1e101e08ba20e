/*
 * alloc_pool.h - inside alloc.h: blocks, the order of the free ones, and what a stream's pool takes from the device.
 *
 * Seen by   alloc.c (births, deaths, streams), alloc_pool.c (segments and pages), nobody else.
 * Order     PyTorch keeps the free blocks of all streams in one set, ordered by stream, size and address: so does this.
 */
#ifndef TORCH_ALLOC_POOL_H
#define TORCH_ALLOC_POOL_H

#include "torch/alloc.h"

#include <string.h>

/* kSmallSize, and made-up addresses: only their order within a stream's pool matters. A new segment lies above all earlier ones,
 * also above those that were given back: there is room for 512 TiB of segments in the life of an allocator. */
#define ALLOC_SMALL_BYTES UINT64_C(1048576)
#define ALLOC_SEGMENT_MAX_BYTES (UINT64_C(1) << 45)
#define ALLOC_ADDRESS_END (UINT64_C(1) << 49)

/* SPARE_ROWS: writes of the one operation in which the nodes run out; each row is another block until then. */
enum { NO_NODE = 0, NODE_BITS = 24, NODES_MAX = 1 << NODE_BITS, SPARE_ROWS = 8, STREAM_SHIFT = 56 };
#define NO_ROW UINT32_MAX

/* A stretch of a segment. Node 0 is no block: a sink for writes once the nodes have run out. */
struct block {
    uint64_t at, bytes;
    uint64_t asked_bytes;
    uint32_t prev, next; /* neighbours in the segment; next also links the free nodes */
    uint8_t stream;
    bool free, mapped, small, crossed;
};

/* Blocks in the order of the best fit: `fit` is the size with the stream above it, `rank` the address (a multiple of 512) with
 * the node below it. */
struct row {
    uint64_t fit, rank;
};

struct sorted {
    struct row *rows;
    uint32_t n;
};

struct pool {
    struct sorted free;  /* free and mapped, by (stream, size, address) */
    struct sorted holes; /* expandable: unmapped stretches, by (stream, address) */
    uint32_t first[TORCH_ALLOC_STREAMS]; /* expandable: lowest block of the stream's one segment, which starts at address 0 */
    uint64_t end;        /* default: where the next segment begins */
    bool small;
};

struct torch_alloc {
    struct torch_alloc_stats stats;
    struct pool large, small;
    struct block *blocks;
    uint32_t *live;    /* by handle: its block */
    uint32_t *waiting; /* a ring: blocks given away while another stream may read them, oldest first */
    uint32_t given, passed, returned; /* of such blocks so far: given away; the streams are past them; free again */
    double *until_s;   /* TORCH_LAG_TIMED: when the streams have passed waiting[i], i from 0 to n_waiting */
    double now_s, first_s; /* first_s: no later than any of until_s */
    uint32_t n_waiting;
    uint64_t capacity_bytes;
    uint32_t n_live, n_blocks;
    uint32_t spare, fresh; /* nodes given back; first node never used */
    bool expandable;
    enum torch_lag lag;
    enum err_code rc;
};

uint32_t alloc_grow(struct torch_alloc *t, struct pool *p, uint8_t stream, uint64_t want); /* the new free row, or NO_ROW */
void alloc_release(struct torch_alloc *t, struct pool *p);                                 /* gives back what is wholly free */

static inline uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Rows ------------------------------------------------------------------------------------------------------------------- */

static inline uint64_t fit_of(uint8_t stream, uint64_t bytes) { return (uint64_t)stream << STREAM_SHIFT | bytes; }

static inline bool row_is_of(struct row r, uint8_t stream) { return r.fit >> STREAM_SHIFT == stream; }

static inline uint32_t row_block(struct row r) { return (uint32_t)(r.rank & (NODES_MAX - 1)); }

static inline struct row row_of(const struct torch_alloc *t, uint32_t b)
{
    const struct block *block = &t->blocks[b];

    return (struct row){fit_of(block->stream, block->bytes), block->at << (NODE_BITS - 9) | b};
}

static inline struct row hole_of(const struct torch_alloc *t, uint32_t b)
{
    return (struct row){fit_of(t->blocks[b].stream, 0), row_of(t, b).rank};
}

static inline bool before(struct row a, struct row b)
{
    return (a.fit < b.fit) | ((a.fit == b.fit) & (a.rank < b.rank)); /* no branch: the order of sizes is not predictable */
}

/* The first row that is not before `key`. */
static inline uint32_t rows_find(const struct sorted *s, struct row key)
{
    const struct row *base = s->rows;

    for (uint32_t n = s->n; n > 1; n -= n / 2)
        base += before(base[n / 2 - 1], key) ? n / 2 : 0;
    return (uint32_t)(base - s->rows) + (s->n && before(*base, key));
}

static inline uint32_t rows_add(struct sorted *s, struct row key)
{
    uint32_t i = rows_find(s, key);

    memmove(s->rows + i + 1, s->rows + i, (s->n++ - i) * sizeof *s->rows);
    s->rows[i] = key;
    return i;
}

static inline void rows_remove(struct sorted *s, uint32_t i)
{
    memmove(s->rows + i, s->rows + i + 1, (--s->n - i) * sizeof *s->rows);
}

/* Row i becomes `key`: only the rows between the old and the new place move. */
static inline uint32_t rows_change(struct sorted *s, uint32_t i, struct row key)
{
    uint32_t to = rows_find(s, key);

    if (to <= i) {
        memmove(s->rows + to + 1, s->rows + to, (i - to) * sizeof *s->rows);
    } else {
        to--;
        memmove(s->rows + i, s->rows + i + 1, (to - i) * sizeof *s->rows);
    }
    s->rows[to] = key;
    return to;
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

static inline bool cached(const struct torch_alloc *t, uint32_t b) { return b && t->blocks[b].free && t->blocks[b].mapped; }

static inline bool is_hole(const struct torch_alloc *t, uint32_t b) { return b && !t->blocks[b].mapped; }

/* free_block(), try_merge_blocks(): b is free now; merged with its cached neighbours it is a row, whose number is returned. */
static inline uint32_t cache(struct torch_alloc *t, struct pool *p, uint32_t b)
{
    uint32_t prev = t->blocks[b].prev, next = t->blocks[b].next;
    uint32_t row = NO_ROW;

    if (cached(t, next)) {
        row = rows_find(&p->free, row_of(t, next));
        if (cached(t, prev))
            rows_remove(&p->free, row);
        block_absorb(t, b);
    }
    if (cached(t, prev)) {
        row = rows_find(&p->free, row_of(t, prev));
        block_absorb(t, prev);
        b = prev;
    }
    t->blocks[b].free = true;
    return row == NO_ROW ? rows_add(&p->free, row_of(t, b)) : rows_change(&p->free, row, row_of(t, b));
}

#endif
