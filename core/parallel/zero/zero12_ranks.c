/* zero12_ranks.c - which ranks are looked at: shares cut across tensors, so that ranks keep different amounts of gradients. */
#include "parallel/zero/inside12.h"

struct span {
    uint64_t elems, begin;
};

struct spans {
    struct span largest[2];
    uint64_t total;
};

static void measure_span(void *context, struct module *m, struct param *p)
{
    struct spans *s = context;
    struct span here = {(uint64_t)param_numel(p), s->total};

    (void)m;
    if (!p->requires_grad || p->tied)
        return;
    s->total += here.elems;
    if (here.elems >= s->largest[0].elems) { /* of two alike the later */
        s->largest[1] = s->largest[0];
        s->largest[0] = here;
    } else if (here.elems > s->largest[1].elems) {
        s->largest[1] = here;
    }
}

/* ------------------------------------------------------------------------------------------------------ the likely one */
/* Walks tensors and ranks side by side, past ranks that lie within one tensor, which are all alike;
 * a block is what copy_grads_in_partition keeps: every tensor that the rank's share touches. */
struct likely {
    uint64_t total, at, share, reduce_elems, block, largest_block;
    uint32_t ranks, rank, found;
    bool reached, any; /* any: it need not be in the first bucket */
};

static void next_rank(struct likely *l)
{
    if ((l->reached || l->any) && l->block > l->largest_block) {
        l->largest_block = l->block;
        l->found = l->rank;
    }
    l->rank++;
    l->block = 0;
    l->reached = false;
}

/* That a tensor which ends there reaches. */
static uint32_t last_rank(const struct likely *l, uint64_t end)
{
    uint64_t last = (end + l->share - 1) / l->share;

    return (uint32_t)(last < l->ranks ? last : l->ranks) - 1;
}

static void weigh(void *context, struct module *m, struct param *p)
{
    struct likely *l = context;
    uint64_t elems = (uint64_t)param_numel(p), end = l->at + elems;
    uint32_t last;

    (void)m;
    if (!p->requires_grad || p->tied)
        return;
    while (l->rank + 1 < l->ranks && l->at >= (l->rank + (uint64_t)1) * l->share)
        next_rank(l);
    last = last_rank(l, end);
    for (unsigned i = 0;; i++) {
        l->block += elems;
        l->reached |= end == l->total || l->total - l->at <= l->reduce_elems;
        if (l->rank >= last)
            break;
        next_rank(l);
        l->rank = i ? last : l->rank; /* the second stands for those up to the last */
    }
    l->at = end;
}

/* Of the ranks that own the tensor the one with the largest piece. */
static uint32_t largest_piece(const struct span *t, uint64_t share)
{
    uint32_t first = (uint32_t)(t->begin / share);
    uint64_t here = (first + (uint64_t)1) * share - t->begin, after = t->elems > here ? t->elems - here : 0;

    return after > here && share > here ? first + 1 : first;
}

/*
 * With the optimizer on the host: who owns the largest tensor, whose norm and overflow mask are the largest temporaries. Else who keeps the
 * largest block while a bucket is averaged: one that the first bucket reaches, unless one holds all.
 */
static uint32_t likely_highest(const struct parallel_options *o, const struct tree *tree, const struct spans *s)
{
    uint32_t n = o->at.data_parallel;
    struct likely l = {.total = s->total, .share = s->total / n + 1, .reduce_elems = o->zero.reduce_elems, .ranks = n};
    bool earlier =
        o->method == METHOD_ZERO1 && s->largest[1].elems == s->largest[0].elems; /* stage 1 reduces from the first on, 2 from the last */

    if (o->offload != OFFLOAD_NONE)
        return largest_piece(&s->largest[earlier], l.share);
    l.any = s->total <= l.reduce_elems;
    params_visit(tree->root, weigh, &l);
    next_rank(&l);
    return l.found;
}

/* ---------------------------------------------------------------------------------------------------------------- all */
struct rank_set {
    uint32_t n, max, *ret;
};

static void put(struct rank_set *s, uint32_t rank)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->ret[i] == rank)
            return;
    if (s->n < s->max)
        s->ret[s->n++] = rank;
}

/* The likely one; all up to eight ranks; of more, eight evenly spaced and the owners of the two largest tensors. */
uint32_t zero12_ranks(const struct parallel_options *o, const struct tree *tree, uint32_t max, uint32_t *ret)
{
    struct spans s = {0};
    struct rank_set set = {.max = max, .ret = ret};
    uint32_t n = o->at.data_parallel;
    double share;

    params_visit(tree->root, measure_span, &s);
    share = (double)(s.total ? s.total : 1) / n;
    put(&set, likely_highest(o, tree, &s));
    for (int i = 0; i < 2 && s.largest[i].elems; i++) {
        uint32_t first = (uint32_t)((double)s.largest[i].begin / share), last;

        last = (uint32_t)((double)(s.largest[i].begin + s.largest[i].elems - 1) / share);
        put(&set, first < n ? first : n - 1);
        put(&set, last < n ? last : n - 1);
    }
    for (uint32_t i = 0; i < ZERO12_RANKS; i++)
        put(&set, n > ZERO12_RANKS ? i * (n - 1) / (ZERO12_RANKS - 1) : i % n);
    return set.n;
}
