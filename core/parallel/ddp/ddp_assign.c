/* ddp_assign.c - which gradients share a bucket: reducer.cpp compute_bucket_assignment_by_size. */
#include "parallel/ddp/ddp.h"

struct opened {
    uint32_t n, limit; /* tensors in it; which limit closes it */
    uint64_t bytes;
};

static uint32_t lowest(const struct ddp_assignment *a, uint32_t bucket)
{
    uint32_t begin = bucket ? a->ends[bucket - 1] : 0, least = a->indices[begin];

    for (uint32_t i = begin; i < a->ends[bucket]; i++)
        if (a->indices[i] < least)
            least = a->indices[i];
    return least;
}

/* Buckets of one dtype close in order already: only those of several dtypes have to move, each before those that it overtakes. */
static void sort_buckets(struct ddp_assignment *a)
{
    for (uint32_t b = 1; b < a->n_buckets; b++)
        for (uint32_t k = b; k && lowest(a, k - 1) > lowest(a, k); k--) {
            uint32_t begin = k > 1 ? a->ends[k - 2] : 0, middle = a->ends[k - 1], end = a->ends[k];

            for (uint32_t moved = middle; moved < end; moved++)
                for (uint32_t at = moved; at > begin + (moved - middle); at--) {
                    uint32_t index = a->indices[at];

                    a->indices[at] = a->indices[at - 1];
                    a->indices[at - 1] = index;
                }
            a->ends[k - 1] = begin + (end - middle);
        }
}

/* A bucket that closes takes its tensors out of the order in which they came: those of its dtype since the last one closed. */
static void close_bucket(uint32_t upto, const struct ddp_tensor *tensors, const uint32_t *order, enum dtype dtype, uint32_t n,
                         struct ddp_assignment *ret)
{
    uint32_t at = (ret->n_buckets ? ret->ends[ret->n_buckets - 1] : 0) + n;

    ret->ends[ret->n_buckets] = at;
    for (uint32_t i = upto; n && i-- > 0;) {
        uint32_t index = order ? order[i] : i;

        if (tensors[index].dtype != dtype)
            continue;
        ret->indices[--at] = index;
        n--;
    }
    ret->n_buckets++;
}

void ddp_assign(uint32_t n, const struct ddp_tensor *tensors, const uint32_t *order, uint32_t n_limits, const uint64_t *limits,
                struct ddp_assignment *ret)
{
    struct opened open[DTYPE_COUNT] = {{0}};

    ret->n_buckets = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct ddp_tensor *t = &tensors[order ? order[i] : i];
        struct opened *o = &open[t->dtype];

        o->n++;
        o->bytes += t->bytes;
        if (o->bytes < limits[o->limit])
            continue;
        close_bucket(i + 1, tensors, order, t->dtype, o->n, ret);
        *o = (struct opened){.limit = o->limit + 1 < n_limits ? o->limit + 1 : o->limit};
    }
    for (int t = 0; t < DTYPE_COUNT; t++)
        if (open[t].n)
            close_bucket(n, tensors, order, (enum dtype)t, open[t].n, ret);
    if (!order)
        sort_buckets(ret);
}
