/* alloc_pool.c - see alloc.h and alloc_inside.h. Function names in comments are those of c10/cuda/CUDACachingAllocator.cpp. */
#include "torch/alloc_inside.h"

#define MIB UINT64_C(1048576)

/* The constants of the same names there: kSmallBuffer, kLargeBuffer, kMinLargeAlloc, kRoundLarge. */
#define SMALL_BUFFER_BYTES (2 * MIB)
#define LARGE_BUFFER_BYTES (20 * MIB)
#define MIN_LARGE_BYTES    (10 * MIB)
#define ROUND_LARGE_BYTES  (2 * MIB)

static uint64_t round_up(uint64_t n, uint64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* get_allocation_size() */
static uint64_t segment_bytes(uint64_t bytes)
{
    if (bytes <= ALLOC_SMALL_BYTES)
        return SMALL_BUFFER_BYTES;
    return bytes < MIN_LARGE_BYTES ? LARGE_BUFFER_BYTES : round_up(bytes, ROUND_LARGE_BYTES);
}

static bool has_room(const struct torch_alloc *t, uint64_t bytes)
{
    uint64_t reserved = t->stats.reserved_bytes;

    return !t->capacity_bytes || (reserved <= t->capacity_bytes && bytes <= t->capacity_bytes - reserved);
}

static void reserve(struct torch_alloc *t, uint64_t bytes)
{
    struct torch_alloc_stats *s = &t->stats;

    s->reserved_bytes += bytes;
    s->reserved_peak_bytes = max_u64(s->reserved_peak_bytes, s->reserved_bytes);
}

static uint64_t page_bytes(const struct pool *p)
{
    return p->small ? SMALL_BUFFER_BYTES : LARGE_BUFFER_BYTES;
}

/* Where a segment lies; ALLOC_ADDRESS_END: no address is left for it. */
static uint64_t address_of(struct torch_alloc *t, struct pool *p, uint64_t bytes)
{
    uint64_t at = p->end;

    if (t->falling.gaps)
        return addresses_take(&t->falling, bytes);
    if (bytes > ALLOC_ADDRESS_END - at)
        return ALLOC_ADDRESS_END;
    p->end += bytes;
    return at;
}

/* alloc_block(): a new segment, one free block. */
static uint32_t add_segment(struct torch_alloc *t, struct pool *p, uint8_t stream, uint64_t want)
{
    uint64_t bytes = segment_bytes(want), at = has_room(t, bytes) ? address_of(t, p, bytes) : ALLOC_ADDRESS_END;
    uint32_t b;

    if (at == ALLOC_ADDRESS_END)
        return NO_NODE;
    reserve(t, bytes);
    b = block_new(t, (struct block){.at = at, .bytes = bytes, .stream = stream, .mapped = true, .small = p->small});
    alloc_tell(t, true, t->blocks[b].at, bytes, stream, p->small);
    return cache(t, p, b);
}

/* find_expandable_block(): the lowest hole that has room together with the cached block below it and all that is free above it.
 * Returns where that begins; the hole at the end of the segment always has room. */
static uint32_t find_gap(struct torch_alloc *t, const struct pool *p, uint8_t stream, uint64_t want)
{
    uint32_t i = rows_find(&p->holes, (struct row){fit_of(stream, 0), 0});

    for (; i < p->holes.n && row_is_of(p->holes.rows[i], stream) && !t->rc; i++) {
        uint32_t hole = row_block(p->holes.rows[i]), prev = t->blocks[hole].prev;
        uint32_t first = cached(t, prev) ? prev : hole;
        uint64_t have = 0;
        uint32_t n = 1;

        for (uint32_t b = first; b && t->blocks[b].free && have < want; b = t->blocks[b].next, n++)
            have += t->blocks[b].bytes;
        alloc_look(t, n);
        if (have >= want)
            return first;
    }
    return NO_NODE;
}

/* map_block(): the first pages of a hole, `want` bytes and the rest of the last page; joined with what is free beside it. */
static uint32_t map_hole(struct torch_alloc *t, struct pool *p, uint32_t b, uint64_t want)
{
    uint64_t bytes = round_up(want, page_bytes(p));
    bool all = bytes >= t->blocks[b].bytes;

    if (!has_room(t, all ? t->blocks[b].bytes : bytes))
        return NO_NODE;
    reserve(t, all ? t->blocks[b].bytes : bytes);
    rows_remove(&p->holes, rows_find(&p->holes, hole_of(t, b)));
    if (!all)
        rows_add(&p->holes, hole_of(t, block_cut(t, b, bytes)));
    t->blocks[b].mapped = true;
    alloc_tell(t, true, t->blocks[b].at, t->blocks[b].bytes, t->blocks[b].stream, p->small);
    return cache(t, p, b);
}

/* try_allocate_expandable_block(): maps the holes of a gap, from its beginning, until it has room. */
static uint32_t map_pages(struct torch_alloc *t, struct pool *p, uint8_t stream, uint64_t want)
{
    uint32_t b;

    if (!p->first[stream]) {
        p->first[stream] =
            block_new(t, (struct block){.bytes = ALLOC_SEGMENT_MAX_BYTES, .stream = stream, .free = true, .small = p->small});
        rows_add(&p->holes, hole_of(t, p->first[stream]));
    }
    b = find_gap(t, p, stream, want);
    if (is_hole(t, b))
        b = map_hole(t, p, b, want);
    while (b && !t->rc && t->blocks[b].bytes < want)
        b = map_hole(t, p, t->blocks[b].next, want - t->blocks[b].bytes);
    return b;
}

/* unmap_block(): the whole pages of a cached block become a hole. Returns the block from which to look on. */
static uint32_t unmap_pages(struct torch_alloc *t, struct pool *p, uint32_t b)
{
    uint64_t page = page_bytes(p), at = t->blocks[b].at, end = at + t->blocks[b].bytes;
    uint64_t from = round_up(at, page), to = end / page * page;

    if (to <= from)
        return b;
    t->stats.reserved_bytes -= to - from;
    alloc_tell(t, false, from, to - from, t->blocks[b].stream, p->small);
    shelf_take(t, &p->free, b);
    if (from > at) {
        uint32_t rest = block_cut(t, b, from - at);

        shelf_put(t, &p->free, b);
        b = rest;
    }
    if (to < end)
        shelf_put(t, &p->free, block_cut(t, b, to - from));
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

static void unmap_stream(struct torch_alloc *t, struct pool *p, uint32_t first)
{
    for (uint32_t b = first; b && !t->rc; b = t->blocks[b].next)
        if (cached(t, b))
            b = unmap_pages(t, p, b);
}

/* Of one size, lowest first. */
static void release_shelf(struct torch_alloc *t, struct pool *p, uint32_t number)
{
    for (uint32_t b = p->free.shelf[number].first, above; b; b = above) {
        above = t->blocks[b].above;
        if (t->blocks[b].prev || t->blocks[b].next)
            continue;
        shelf_take(t, &p->free, b);
        t->stats.reserved_bytes -= t->blocks[b].bytes;
        alloc_tell(t, false, t->blocks[b].at, t->blocks[b].bytes, t->blocks[b].stream, p->small);
        if (t->falling.gaps)
            addresses_give(&t->falling, t->blocks[b].at, t->blocks[b].bytes);
        block_drop(t, b);
    }
}

/* release_cached_blocks(): segments that are wholly free go back to the device; of expandable ones every free page. */
void alloc_release(struct torch_alloc *t, struct pool *p)
{
    const struct shelves *s = &p->free;

    alloc_look(t, t->expandable ? t->fresh : s->n_filled + s->narrow_filled);
    if (t->expandable) {
        for (uint32_t stream = 0; stream < TORCH_ALLOC_STREAMS; stream++)
            unmap_stream(t, p, p->first[stream]);
        return;
    }
    for (uint32_t number = narrow_from(s, 1); number; number = narrow_from(s, number + 1))
        release_shelf(t, p, number);
    for (uint32_t i = shelves_from(s, 0); i < s->n; i = shelves_from(s, i + 1))
        release_shelf(t, p, s->number[i]);
}

uint32_t alloc_grow(struct torch_alloc *t, struct pool *p, uint8_t stream, uint64_t want)
{
    return t->expandable ? map_pages(t, p, stream, want) : add_segment(t, p, stream, want);
}
