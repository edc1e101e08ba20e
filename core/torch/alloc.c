/* alloc.c - see alloc.h. Function names in comments are those of c10/cuda/CUDACachingAllocator.cpp. */
#include "torch/alloc.h"

#include <string.h>

#define MIB UINT64_C(1048576)

/* The constants of the same names there: kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge. */
#define MIN_BLOCK_BYTES UINT64_C(512)
#define SMALL_BYTES MIB
#define SMALL_BUFFER_BYTES (2 * MIB)
#define LARGE_BUFFER_BYTES (20 * MIB)
#define MIN_LARGE_BYTES (10 * MIB)
#define ROUND_LARGE_BYTES (2 * MIB)

/* Made-up addresses. Only their order within a pool matters; a new segment lies above all earlier ones, also above those that
 * were given back: there is room for 512 TiB of segments in the life of an allocator. */
#define SEGMENT_MAX_BYTES (UINT64_C(1) << 45)
#define ADDRESS_END (UINT64_C(1) << 49)

/* SPARE_ROWS: writes of the one operation in which the nodes run out; each row is another block until then. */
enum { NO_BLOCK = 0, NODE_BITS = 24, NODES_MAX = 1 << NODE_BITS, SPARE_ROWS = 8 };
#define NO_ROW UINT32_MAX

/* A stretch of a segment. Node 0 is no block: a sink for writes once the nodes have run out. */
struct block {
    uint64_t at, bytes;
    uint64_t asked_bytes;
    uint32_t prev, next; /* neighbours in the segment; next also links the free nodes */
    bool free, mapped, small;
};

/* Blocks in the order of the best fit: size, then address. `rank` is the address (a multiple of 512) with the node below it. */
struct row {
    uint64_t bytes, rank;
};

struct sorted {
    struct row *rows;
    uint32_t n;
};

struct pool {
    struct sorted free;  /* free and mapped, by (size, address) */
    struct sorted holes; /* expandable: unmapped stretches, by address */
    uint32_t first;      /* expandable: lowest block of the one segment, which starts at address 0 */
    uint64_t end;        /* default: where the next segment begins */
    bool small;
};

struct torch_alloc {
    struct torch_alloc_stats stats;
    struct pool large, small;
    struct block *blocks;
    uint32_t *live; /* by handle: its block */
    uint64_t capacity_bytes;
    uint32_t n_live, n_blocks;
    uint32_t spare, fresh; /* nodes given back; first node never used */
    bool expandable;
    enum err_code rc;
};

static uint64_t round_up(uint64_t n, uint64_t unit) { return (n + unit - 1) / unit * unit; }

static uint64_t max_u64(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* round_size() */
/* get_allocation_size() */
static uint64_t segment_bytes(uint64_t bytes)
{
    if (bytes <= SMALL_BYTES)
        return SMALL_BUFFER_BYTES;
    return bytes < MIN_LARGE_BYTES ? LARGE_BUFFER_BYTES : round_up(bytes, ROUND_LARGE_BYTES);
}

/* Rows ------------------------------------------------------------------------------------------------------------------- */

static uint32_t row_block(struct row r) { return (uint32_t)(r.rank & (NODES_MAX - 1)); }

static struct row row_of(const struct torch_alloc *t, uint32_t b)
{
    return (struct row){t->blocks[b].bytes, t->blocks[b].at << (NODE_BITS - 9) | b};
}

static struct row hole_of(const struct torch_alloc *t, uint32_t b) { return (struct row){0, row_of(t, b).rank}; }

static bool before(struct row a, struct row b)
{
    return (a.bytes < b.bytes) | ((a.bytes == b.bytes) & (a.rank < b.rank)); /* no branch: the order of sizes is not predictable */
}

/* The first row that is not before `key`. */
static uint32_t rows_find(const struct sorted *s, struct row key)
{
    const struct row *base = s->rows;

    for (uint32_t n = s->n; n > 1; n -= n / 2)
        base += before(base[n / 2 - 1], key) ? n / 2 : 0;
    return (uint32_t)(base - s->rows) + (s->n && before(*base, key));
}

static uint32_t rows_add(struct sorted *s, struct row key)
{
    uint32_t i = rows_find(s, key);

    memmove(s->rows + i + 1, s->rows + i, (s->n++ - i) * sizeof *s->rows);
    s->rows[i] = key;
    return i;
}

static void rows_remove(struct sorted *s, uint32_t i) { memmove(s->rows + i, s->rows + i + 1, (--s->n - i) * sizeof *s->rows); }

/* Row i becomes `key`: only the rows between the old and the new place move. */
static uint32_t rows_change(struct sorted *s, uint32_t i, struct row key)
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

static uint32_t block_new(struct torch_alloc *t, struct block value)
{
    uint32_t b = t->spare;

    if (b) {
        t->spare = t->blocks[b].next;
    } else if (t->fresh < t->n_blocks) {
        b = t->fresh++;
    } else {
        t->rc = ERR_NOMEM;
        return NO_BLOCK;
    }
    t->blocks[b] = value;
    return b;
}

static void block_drop(struct torch_alloc *t, uint32_t b)
{
    t->blocks[b].next = t->spare;
    t->spare = b;
}

/* Cuts b to its first `bytes` and returns the rest, which is as b was. */
static uint32_t block_cut(struct torch_alloc *t, uint32_t b, uint64_t bytes)
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
static void block_absorb(struct torch_alloc *t, uint32_t b)
{
    struct block *block = &t->blocks[b];
    uint32_t gone = block->next;

    block->bytes += t->blocks[gone].bytes;
    block->next = t->blocks[gone].next;
    if (block->next)
        t->blocks[block->next].prev = b;
    block_drop(t, gone);
}

static bool cached(const struct torch_alloc *t, uint32_t b) { return b && t->blocks[b].free && t->blocks[b].mapped; }

static bool is_hole(const struct torch_alloc *t, uint32_t b) { return b && !t->blocks[b].mapped; }

/* free_block(), try_merge_blocks(): b is free now; merged with its cached neighbours it is a row, whose number is returned. */
static uint32_t cache(struct torch_alloc *t, struct pool *p, uint32_t b)
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

/* Memory of the device --------------------------------------------------------------------------------------------------- */

static bool reserve(struct torch_alloc *t, uint64_t bytes)
{
    struct torch_alloc_stats *s = &t->stats;

    if (t->capacity_bytes && (s->reserved_bytes > t->capacity_bytes || bytes > t->capacity_bytes - s->reserved_bytes))
        return false;
    s->reserved_bytes += bytes;
    s->reserved_peak_bytes = max_u64(s->reserved_peak_bytes, s->reserved_bytes);
    return true;
}

static uint64_t page_bytes(const struct pool *p) { return p->small ? SMALL_BUFFER_BYTES : LARGE_BUFFER_BYTES; }

/* alloc_block(): a new segment, one free block. */
static uint32_t add_segment(struct torch_alloc *t, struct pool *p, uint64_t want)
{
    uint64_t bytes = segment_bytes(want);

    if (bytes > ADDRESS_END - p->end || !reserve(t, bytes))
        return NO_ROW;

    uint32_t b = block_new(t, (struct block){.at = p->end, .bytes = bytes, .mapped = true, .small = p->small});
    p->end += bytes;
    return cache(t, p, b);
}

/* find_expandable_block(): the lowest hole that has room, together with the cached block right below it (*ret_have bytes). */
static uint32_t find_hole(const struct torch_alloc *t, const struct pool *p, uint64_t want, uint64_t *ret_have)
{
    for (uint32_t i = 0; i < p->holes.n; i++) {
        const struct block *hole = &t->blocks[row_block(p->holes.rows[i])];
        uint64_t have = cached(t, hole->prev) ? t->blocks[hole->prev].bytes : 0;

        if (have + hole->bytes >= want) {
            *ret_have = have;
            return i;
        }
    }
    return NO_ROW;
}

/* try_allocate_expandable_block(): maps pages from the start of a hole, as many as are missing. */
static uint32_t map_pages(struct torch_alloc *t, struct pool *p, uint64_t want)
{
    uint64_t have = 0;

    if (!p->first) {
        p->first = block_new(t, (struct block){.bytes = SEGMENT_MAX_BYTES, .free = true, .small = p->small});
        rows_add(&p->holes, hole_of(t, p->first));
    }

    uint32_t row = find_hole(t, p, want, &have);
    if (row == NO_ROW)
        return NO_ROW;

    uint32_t b = row_block(p->holes.rows[row]);
    uint64_t bytes = round_up(want - have, page_bytes(p));
    bool all = bytes >= t->blocks[b].bytes;
    if (!reserve(t, all ? t->blocks[b].bytes : bytes))
        return NO_ROW;
    rows_remove(&p->holes, row);
    if (!all)
        rows_add(&p->holes, hole_of(t, block_cut(t, b, bytes)));
    t->blocks[b].mapped = true;
    return cache(t, p, b);
}

/* unmap_block(): the whole pages of a cached block become a hole. Returns the block from which to look on. */
static uint32_t unmap_pages(struct torch_alloc *t, struct pool *p, uint32_t b)
{
    uint64_t page = page_bytes(p), at = t->blocks[b].at, end = at + t->blocks[b].bytes;
    uint64_t from = round_up(at, page), to = end / page * page;

    if (to <= from)
        return b;
    t->stats.reserved_bytes -= to - from;
    rows_remove(&p->free, rows_find(&p->free, row_of(t, b)));
    if (from > at) {
        uint32_t rest = block_cut(t, b, from - at);

        rows_add(&p->free, row_of(t, b));
        b = rest;
    }
    if (to < end)
        rows_add(&p->free, row_of(t, block_cut(t, b, to - from)));
    t->blocks[b].mapped = false;
    if (is_hole(t, t->blocks[b].next)) {
        rows_remove(&p->holes, rows_find(&p->holes, hole_of(t, t->blocks[b].next)));
        block_absorb(t, b);
    }
    if (is_hole(t, t->blocks[b].prev)) {
        b = t->blocks[b].prev;
        block_absorb(t, b);
    } else {
        rows_add(&p->holes, hole_of(t, b));
    }
    return b;
}

/* release_cached_blocks(): segments that are wholly free go back to the device; of expandable ones every free page. */
static void release(struct torch_alloc *t, struct pool *p)
{
    uint32_t kept = 0;

    if (t->expandable) {
        for (uint32_t b = p->first; b && !t->rc; b = t->blocks[b].next)
            if (cached(t, b))
                b = unmap_pages(t, p, b);
        return;
    }
    for (uint32_t i = 0; i < p->free.n; i++) {
        uint32_t b = row_block(p->free.rows[i]);

        if (t->blocks[b].prev || t->blocks[b].next) {
            p->free.rows[kept++] = p->free.rows[i];
        } else {
            t->stats.reserved_bytes -= t->blocks[b].bytes;
            block_drop(t, b);
        }
    }
    p->free.n = kept;
}

static uint32_t grow(struct torch_alloc *t, struct pool *p, uint64_t want)
{
    return t->expandable ? map_pages(t, p, want) : add_segment(t, p, want);
}

/* Births and deaths ------------------------------------------------------------------------------------------------------ */

/* What a cached block could grow to. */
static uint64_t reach(const struct torch_alloc *t, struct row r)
{
    uint32_t next = t->blocks[row_block(r)].next;

    return r.bytes + (is_hole(t, next) ? t->blocks[next].bytes : 0);
}

/* get_free_block(): the smallest that fits, the lowest among equals. An expandable one counts as large as it could grow, so
 * that a larger block elsewhere is preferred to the end of the segment. */
static uint32_t best_fit(const struct torch_alloc *t, const struct pool *p, uint64_t want)
{
    uint32_t i = rows_find(&p->free, (struct row){want, 0});

    if (i == p->free.n)
        return NO_ROW;
    if (t->expandable)
        while (i + 1 < p->free.n && reach(t, p->free.rows[i + 1]) < reach(t, p->free.rows[i]))
            i++;
    return i;
}

/* should_split(), alloc_found_block(): row i is handed out, its rest stays cached. */
static uint32_t claim(struct torch_alloc *t, struct pool *p, uint32_t i, uint64_t want)
{
    uint32_t b = row_block(p->free.rows[i]);
    uint64_t rest = t->blocks[b].bytes - want;

    if (p->small || t->expandable ? rest >= MIN_BLOCK_BYTES : rest > SMALL_BYTES)
        rows_change(&p->free, i, row_of(t, block_cut(t, b, want)));
    else
        rows_remove(&p->free, i);
    t->blocks[b].free = false;
    return b;
}

static bool usable(struct torch_alloc *t, uint32_t handle)
{
    if (!t->rc && handle >= t->n_live)
        t->rc = ERR_INTERNAL;
    return !t->rc;
}

bool torch_alloc_take(struct torch_alloc *t, uint32_t handle, uint64_t bytes)
{
    struct torch_alloc_stats *s = &t->stats;

    if (!usable(t, handle))
        return false;
    if (t->live[handle]) {
        t->rc = ERR_INTERNAL;
        return false;
    }
    if (bytes > SEGMENT_MAX_BYTES) {
        s->oom = true;
        return false;
    }

    uint64_t want = torch_alloc_round(bytes);
    struct pool *p = want <= SMALL_BYTES ? &t->small : &t->large;
    uint32_t row = best_fit(t, p, want);
    if (row == NO_ROW)
        row = grow(t, p, want);
    if (row == NO_ROW && !t->rc) {
        s->retries++;
        torch_alloc_empty_cache(t);
        row = grow(t, p, want);
        s->oom |= row == NO_ROW;
    }
    if (t->rc || row == NO_ROW)
        return false;

    uint32_t b = claim(t, p, row, want);
    if (t->rc)
        return false;
    t->live[handle] = b;
    t->blocks[b].asked_bytes = bytes;
    s->requested_bytes += bytes;
    s->allocated_bytes += t->blocks[b].bytes;
    s->slack_bytes += t->blocks[b].bytes - want;
    s->requested_peak_bytes = max_u64(s->requested_peak_bytes, s->requested_bytes);
    s->allocated_peak_bytes = max_u64(s->allocated_peak_bytes, s->allocated_bytes);
    s->slack_peak_bytes = max_u64(s->slack_peak_bytes, s->slack_bytes);
    return true;
}

void torch_alloc_give(struct torch_alloc *t, uint32_t handle)
{
    if (!usable(t, handle) || !t->live[handle])
        return;

    uint32_t b = t->live[handle];
    const struct block *block = &t->blocks[b];
    t->live[handle] = NO_BLOCK;
    t->stats.requested_bytes -= block->asked_bytes;
    t->stats.allocated_bytes -= block->bytes;
    t->stats.slack_bytes -= block->bytes - torch_alloc_round(block->asked_bytes);
    cache(t, block->small ? &t->small : &t->large, b);
}

uint64_t torch_alloc_block_bytes(const struct torch_alloc *t, uint32_t handle)
{
    return handle < t->n_live && t->live[handle] ? t->blocks[t->live[handle]].bytes : 0;
}

void torch_alloc_empty_cache(struct torch_alloc *t)
{
    release(t, &t->small);
    release(t, &t->large);
}

void torch_alloc_reset_peaks(struct torch_alloc *t)
{
    t->stats.allocated_peak_bytes = t->stats.allocated_bytes;
    t->stats.reserved_peak_bytes = t->stats.reserved_bytes;
    t->stats.requested_peak_bytes = t->stats.requested_bytes;
    t->stats.slack_peak_bytes = t->stats.slack_bytes;
}

struct torch_alloc_stats torch_alloc_stats(const struct torch_alloc *t) { return t->stats; }

enum err_code torch_alloc_status(const struct torch_alloc *t, struct err *err)
{
    if (t->rc == ERR_NOMEM)
        return err_set(err, ERR_NOMEM, "", "the allocator model has no more than %u blocks", (unsigned)t->n_blocks);
    if (t->rc)
        return err_set(err, t->rc, "", "a storage was born twice or has a handle that is out of range");
    return ERR_OK;
}

enum err_code torch_alloc_new(struct arena *a, const struct torch_alloc_options *options, struct torch_alloc **ret, struct err *err)
{
    uint64_t blocks = options->max_blocks ? options->max_blocks : UINT64_C(3) * options->max_live + 1024;
    struct torch_alloc *t = arena_new(a, struct torch_alloc);

    if (blocks > NODES_MAX - 1)
        blocks = NODES_MAX - 1;
    if (!t)
        return err_set(err, ERR_NOMEM, "", "no room for the allocator model");
    t->n_blocks = (uint32_t)blocks;
    t->n_live = options->max_live;
    t->capacity_bytes = options->capacity_bytes;
    t->expandable = options->expandable;
    t->fresh = NO_BLOCK + 1;
    t->small.small = true;
    t->live = arena_array(a, uint32_t, t->n_live);
    t->blocks = arena_array(a, struct block, t->n_blocks);
    t->small.free.rows = arena_array(a, struct row, t->n_blocks + SPARE_ROWS);
    t->large.free.rows = arena_array(a, struct row, t->n_blocks + SPARE_ROWS);
    if (t->expandable) {
        t->small.holes.rows = arena_array(a, struct row, t->n_blocks + SPARE_ROWS);
        t->large.holes.rows = arena_array(a, struct row, t->n_blocks + SPARE_ROWS);
    }
    if (!t->live || !t->blocks || !t->small.free.rows || !t->large.free.rows ||
        (t->expandable && (!t->small.holes.rows || !t->large.holes.rows)))
        return err_set(err, ERR_NOMEM, "", "no room for %u blocks in the allocator model", (unsigned)t->n_blocks);
    *ret = t;
    return ERR_OK;
}
