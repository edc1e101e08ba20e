#include "llmem/chunks.h"

#include "llmem/round.h"

#include <math.h>

/* min_chunk_size_mb and search_range_mb are both 32, taken times 1024 * 1024 and compared with elements. */
enum { MIN_CHUNK_ELEMS = 32 << 20, SEARCH_RANGE_ELEMS = 32 << 20, SEARCH_STEP_ELEMS = 1024 };

struct packing {
    const struct llmem_model *m;
    uint32_t tp;
    double limit;             /* _filter_exlarge_params: what is larger has no say in the chunk size */
    uint64_t total, largest;  /* elements: of all, of the largest that has a say */
};

static uint64_t round_up(uint64_t a, uint64_t step)
{
    return divide_up(a, step) * step;
}

/* This rank's elements of tensor i; 0: it has no storage of its own. */
static uint64_t local_elems(const struct packing *p, uint32_t i)
{
    const struct llmem_tensor *t = &p->m->tensors[i];
    bool split = t->kind == LLMEM_EMBEDDING || t->kind == LLMEM_LINEAR_WEIGHT;

    return t->tied ? 0 : split ? divide_up(t->elems, p->tp) : t->elems;
}

/* mean + 3 * std, of the population as numpy takes it */
static void find_limit(struct packing *p)
{
    double mean, squares = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->m->n; i++) {
        n += local_elems(p, i) != 0;
        p->total += local_elems(p, i);
    }
    mean = n ? (double)p->total / n : 0;
    for (uint32_t i = 0; i < p->m->n; i++)
        if (local_elems(p, i))
            squares += ((double)local_elems(p, i) - mean) * ((double)local_elems(p, i) - mean);
    p->limit = mean + 3 * sqrt(n ? squares / n : 0);
}

static bool has_say(const struct packing *p, uint64_t elems)
{
    return elems && (double)elems <= p->limit;
}

/* Chunks of `cs` that the filtered tensors fill; one that does not fit abandons the rest of the open chunk. */
static uint64_t chunks_filled(const struct packing *p, uint64_t cs)
{
    uint64_t n = 0, left = 0;

    for (uint32_t i = 0; i < p->m->n; i++) {
        uint64_t elems = local_elems(p, i);

        if (!has_say(p, elems))
            continue;
        if (elems > left) {
            left = cs;
            n++;
        }
        left -= elems;
    }
    return n;
}

/* The first candidate after `step` whose chunks are fewer; `last + 1` when there is none. Filling in order takes the fewest chunks
 * that a size allows, so a larger size never takes more. */
static uint64_t next_fewer(const struct packing *p, uint64_t start, uint64_t step, uint64_t last, uint64_t n)
{
    uint64_t low = step + 1, high = last + 1;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (chunks_filled(p, start + middle * SEARCH_STEP_ELEMS) < n)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* The candidate of least waste, the first of equals: waste is n * cs less a constant, so only where n falls can it be. */
static uint64_t search(const struct packing *p)
{
    uint64_t start = round_up(p->largest > MIN_CHUNK_ELEMS ? p->largest : MIN_CHUNK_ELEMS, SEARCH_STEP_ELEMS);
    uint64_t last = SEARCH_RANGE_ELEMS / SEARCH_STEP_ELEMS, best = start, least = UINT64_MAX;

    for (uint64_t step = 0; step <= last;) {
        uint64_t cs = start + step * SEARCH_STEP_ELEMS, n = chunks_filled(p, cs);

        if (n * cs < least) {
            least = n * cs;
            best = cs;
        }
        step = next_fewer(p, start, step, last, n);
    }
    return best;
}

static void add_chunk(struct chunks *c, uint64_t elems, uint32_t dp)
{
    c->fp16_bytes += paged_share(elems, 2, dp);
    c->fp32_bytes += paged_share(elems, 4, dp);
    c->n++;
}

/* register_tensor(): in order, one too large for a chunk in a chunk of its own */
static void fill(const struct packing *p, struct chunks *c, uint32_t dp)
{
    uint64_t left = 0;

    for (uint32_t i = 0; i < p->m->n; i++) {
        uint64_t elems = local_elems(p, i);

        if (elems > left) {
            left = elems > c->cs_elems ? round_up(elems, dp) : c->cs_elems;
            add_chunk(c, left, dp);
        }
        left -= elems;
    }
}

struct chunks chunks_of(const struct llmem_model *m, uint32_t tp, uint32_t dp)
{
    struct packing p = {.m = m, .tp = tp};
    struct chunks c = {0};

    find_limit(&p);
    if (p.total < MIN_CHUNK_ELEMS) { /* small models stay gathered, in one chunk of their size */
        c.cs_elems = p.total;
        fill(&p, &c, 1);
        return c;
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (has_say(&p, local_elems(&p, i)) && local_elems(&p, i) > p.largest)
            p.largest = local_elems(&p, i);
    c.cs_elems = round_up(search(&p), dp);
    fill(&p, &c, dp);
    return c;
}
