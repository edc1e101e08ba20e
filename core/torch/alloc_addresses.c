/* alloc_addresses.c - where the driver lays segments: falling addresses, see alloc.h. */
#include "torch/alloc_inside.h"

#define UNIT_BYTES (UINT64_C(32) << 20)

bool addresses_new(struct arena *a, struct addresses *ret)
{
    *ret = (struct addresses){.low = ALLOC_ADDRESS_END, .gaps = arena_array_raw(a, struct gap, GAPS_MAX)};
    return ret->gaps != NULL;
}

/* The smallest that has room, the lowest of equals. */
static struct gap *gap_for(const struct addresses *s, uint64_t bytes)
{
    struct gap *best = NULL;

    for (struct gap *g = s->gaps; g < s->gaps + s->n; g++)
        if (g->bytes >= bytes && (!best || g->bytes < best->bytes || (g->bytes == best->bytes && g->at < best->at)))
            best = g;
    return best;
}

static void drop(struct addresses *s, struct gap *g)
{
    *g = s->gaps[--s->n];
}

static void add(struct addresses *s, uint64_t at, uint64_t bytes)
{
    if (bytes && s->n < GAPS_MAX)
        s->gaps[s->n++] = (struct gap){at, bytes};
}

uint64_t addresses_take(struct addresses *s, uint64_t bytes)
{
    struct gap *g = gap_for(s, bytes);
    uint64_t units = (bytes + UNIT_BYTES - 1) / UNIT_BYTES * UNIT_BYTES, at;

    if (!g && units > s->low)
        return ALLOC_ADDRESS_END;
    if (!g) {
        s->low -= units;
        add(s, s->low + bytes, units - bytes);
        return s->low;
    }
    at = g->at;
    g->at += bytes;
    g->bytes -= bytes;
    if (!g->bytes)
        drop(s, g);
    return at;
}

/* Joined with the gaps beside it. */
void addresses_give(struct addresses *s, uint64_t at, uint64_t bytes)
{
    for (struct gap *g = s->gaps; g < s->gaps + s->n;) {
        bool below = g->at + g->bytes == at, above = at + bytes == g->at;

        if (below || above) {
            at = below ? g->at : at;
            bytes += g->bytes;
            drop(s, g);
            g = s->gaps;
        } else {
            g++;
        }
    }
    add(s, at, bytes);
}
