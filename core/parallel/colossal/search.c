/* search.c - search_utils.py: the size of chunks that wastes least. */
#include "parallel/colossal/inside.h"

#include "torch/autograd.h"

#include <math.h>

/* min_chunk_size_mb and search_range_mb are both 32, taken times 1024 * 1024 and compared with elements; search_interval_byte is 1024. */
enum { MIN_CHUNK = 32 << 20, RANGE = 32 << 20, INTERVAL = 1024 };

struct searching {
    const struct colossal *c;
    double limit;
};

static bool takes_part(const struct colossal *c, uint32_t i)
{
    return !c->groups[c->params[i].group].chunk_elems;
}

/* _filter_exlarge_params: mean + 3 * std of all, as numpy has it */
static double limit_of(const struct colossal *c)
{
    double sum = 0, squares = 0, mean;
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->n; i++)
        if (takes_part(c, i)) {
            sum += (double)c->params[i].elems;
            n++;
        }
    mean = n ? sum / n : 0;
    for (uint32_t i = 0; i < c->n; i++)
        if (takes_part(c, i))
            squares += ((double)c->params[i].elems - mean) * ((double)c->params[i].elems - mean);
    return mean + 3 * sqrt(n ? squares / n : 0);
}

/* Chunks that the filtered tensors fill; one that does not fit abandons the rest of the open chunk. */
static int64_t filled(const struct searching *s, int64_t chunk)
{
    int64_t left[COLOSSAL_GROUPS] = {0}, n = 0;

    for (uint32_t i = 0; i < s->c->n; i++) {
        const struct colossal_param *p = &s->c->params[i];

        if (!takes_part(s->c, i) || (double)p->elems > s->limit)
            continue;
        if (p->elems > left[p->group]) {
            left[p->group] = chunk;
            n++;
        }
        left[p->group] -= p->elems;
    }
    return n;
}

static int64_t first_of(const struct searching *s)
{
    int64_t most = MIN_CHUNK;

    for (uint32_t i = 0; i < s->c->n; i++)
        if (takes_part(s->c, i) && (double)s->c->params[i].elems <= s->limit && s->c->params[i].elems > most)
            most = s->c->params[i].elems;
    return round_up(most, INTERVAL);
}

/* The first step after `step` whose chunks are fewer; `last + 1`: none. A larger size never takes more, since filling in order takes the fewest. */
static int64_t next_fewer(const struct searching *s, int64_t start, int64_t step, int64_t last, int64_t n)
{
    int64_t low = step + 1, high = last + 1;

    while (low < high) {
        int64_t middle = low + (high - low) / 2;

        if (filled(s, start + middle * INTERVAL) < n)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Least waste, the first of equals: it is n chunks less a constant, so only where n falls can it be. */
static int64_t search(const struct searching *s)
{
    int64_t start = first_of(s), last = RANGE / INTERVAL, best = start, least = INT64_MAX;

    for (int64_t step = 0; step <= last;) {
        int64_t size = start + step * INTERVAL, n = filled(s, size);

        if (n * size < least) {
            least = n * size;
            best = size;
        }
        step = next_fewer(s, start, step, last, n);
    }
    return best;
}

/* A small group is one chunk of its size, kept whole. */
static void keep_small(struct colossal *c)
{
    int64_t elems[COLOSSAL_GROUPS] = {0};

    for (uint32_t i = 0; i < c->n; i++)
        elems[c->params[i].group] += c->params[i].elems;
    for (int g = 0; g < COLOSSAL_GROUPS; g++)
        if (elems[g] && elems[g] < MIN_CHUNK) {
            c->groups[g].chunk_elems = elems[g];
            c->groups[g].keeps = true;
        }
}

static int64_t common_multiple(const struct colossal *c)
{
    int64_t most = 1;

    for (int g = 0; g < COLOSSAL_GROUPS; g++) /* one is a multiple of the other */
        if (c->groups[g].ranks.ranks > most)
            most = c->groups[g].ranks.ranks;
    return most;
}

void colossal_search(struct colossal *c)
{
    struct searching s = {.c = c};
    int64_t size;

    keep_small(c);
    s.limit = limit_of(c);
    size = round_up(search(&s), common_multiple(c));
    for (int g = 0; g < COLOSSAL_GROUPS; g++)
        if (!c->groups[g].chunk_elems) {
            c->groups[g].chunk_elems = size;
            c->groups[g].keeps = c->groups[g].ranks.ranks <= 1 || c->o->method == METHOD_LLMEM_CDP;
        }
}
