/* optim_dtensor.c - see optim_dtensor.h */
#include "torch/optim_dtensor.h"

#include "torch/autograd.h"

#include <math.h>

/* ----------------------------------------------------------------------------------------------------------- what a layout costs */
/* _collective_utils.py MeshTopoInfo: microseconds a hop, GB/s; a group that reaches beyond a host has the second */
struct topology {
    double latency, bandwidth;
};
static const struct topology topologies[2] = {{0.6, 87.7}, {2.7, 87.7 * 0.22}};

static double ring(const struct topology *t, double ranks, double hops, double gigabytes)
{
    return 6.6 + hops * t->latency + gigabytes * hops / ranks / t->bandwidth * 1e6;
}

static bool is_cut(enum placement at)
{
    return at == PLACED_ROWS || at == PLACED_COLUMNS;
}

/* redistribute_cost(): an all-to-all is priced as a gathering, and one more; `share` of a rank */
static double cost_of(const struct topology *t, double ranks, enum placement from, enum placement to, double share)
{
    if (from == to || from == PLACED_WHOLE)
        return 0;
    if (to == PLACED_SUM)
        return INFINITY;
    if (is_cut(from))
        return to == PLACED_WHOLE ? ring(t, ranks, ranks - 1, share * ranks) : ring(t, ranks, ranks - 1, share) + 1;
    return ring(t, ranks, to == PLACED_WHOLE ? 2 * (ranks - 1) : ranks - 1, share);
}

/* In their order: all whole; the inner dimension cut; the left one's rows; the right one's columns; linear in the left, in the right. */
struct layout_of_product {
    uint8_t out, a, b;
};
static const struct layout_of_product layouts[] = {
    {PLACED_WHOLE, PLACED_WHOLE, PLACED_WHOLE},     {PLACED_SUM, PLACED_COLUMNS, PLACED_ROWS}, {PLACED_ROWS, PLACED_ROWS, PLACED_WHOLE},
    {PLACED_COLUMNS, PLACED_WHOLE, PLACED_COLUMNS}, {PLACED_SUM, PLACED_SUM, PLACED_WHOLE},    {PLACED_SUM, PLACED_WHOLE, PLACED_SUM},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

static double share_of(const struct run *r, const struct dtensor *d, uint32_t ranks)
{
    return (double)(d->rows * d->columns) * dtype_bytes(dtype_of(r, d->local)) / (is_cut(d->at) ? ranks : 1) / (1 << 30);
}

/* is_tensor_shardable() */
static bool can_lie(const struct dtensor *d, enum placement at, uint32_t ranks)
{
    return at == PLACED_ROWS ? d->rows >= ranks : at == PLACED_COLUMNS ? d->columns >= ranks : true;
}

static double price(const struct run *r, const struct topology *t, uint32_t ranks, const struct dtensor *d, enum placement to)
{
    if (!can_lie(d, to, ranks))
        return INFINITY;
    return cost_of(t, ranks, d->at, to, share_of(r, d, ranks));
}

static const struct layout_of_product *cheapest(const struct run *r, const struct optim_mesh *m, const struct dtensor *bias, const struct dtensor *a,
                                                const struct dtensor *b)
{
    const struct topology *t = &topologies[m->hosts];
    uint32_t ranks = m->group.ranks;
    double least = INFINITY;
    int best = 0;

    for (int i = 0; i < LAYOUTS; i++) {
        double cost = price(r, t, ranks, a, layouts[i].a) + price(r, t, ranks, b, layouts[i].b);

        cost += bias ? price(r, t, ranks, bias, layouts[i].out) : 0;
        if (cost < least) {
            least = cost;
            best = i;
        }
    }
    return &layouts[best];
}

/* ------------------------------------------------------------------------------------------------------------ what a change makes */
static uint64_t bytes_of(const struct run *r, val v)
{
    return (uint64_t)numel(r, v) * dtype_bytes(dtype_of(r, v));
}

/* The compute stream waits for it at once. */
static void send(struct run *r, enum collective what, uint64_t bytes, const struct optim_mesh *m)
{
    if (r->work)
        work_wait(r, work_send(r, (struct work_sending){what, bytes, m->group, STREAM_GATHER, true}));
}

static val matrix(struct run *r, enum op op, enum dtype t, int64_t rows, int64_t columns)
{
    return owned(r, value_empty(r, op, t, SHAPE(rows, columns)));
}

static val in_order(struct run *r, val v)
{
    val copy;

    if (r->values[v].contiguous) {
        value_ref(r, v);
        return v;
    }
    copy = matrix(r, OP_CLONE, dtype_of(r, v), size_of(r, v, 0), size_of(r, v, 1));
    launch(r, OP_CLONE, copy, 1, &v);
    return copy;
}

/* Shard._to_replicate_tensor: columns come as rows, are cut and put side by side */
static val gathered(struct run *r, const struct optim_mesh *m, const struct dtensor *d)
{
    enum dtype t = dtype_of(r, d->local);
    val part = in_order(r, d->local), stacked, out;

    if (d->at == PLACED_ROWS) {
        out = matrix(r, OP_ALL_GATHER, t, d->rows, d->columns);
        send(r, COLLECTIVE_ALL_GATHER, bytes_of(r, out), m);
        value_unref(r, part);
        return out;
    }
    stacked = matrix(r, OP_ALL_GATHER, t, d->rows * m->group.ranks, d->columns / m->group.ranks);
    send(r, COLLECTIVE_ALL_GATHER, bytes_of(r, stacked), m);
    out = matrix(r, OP_CAT, t, d->rows, d->columns);
    launch(r, OP_CAT, out, 1, &stacked);
    value_unref(r, stacked);
    value_unref(r, part);
    return out;
}

/* shard_dim_alltoall: what is sent is laid out first, or what came is after. A rank sends as much as it does of a gathering of this size. */
static val turned_over(struct run *r, const struct optim_mesh *m, const struct dtensor *d, enum placement to)
{
    enum dtype t = dtype_of(r, d->local);
    bool rows = to == PLACED_ROWS;
    int64_t height = rows ? d->rows / m->group.ranks : d->rows, width = rows ? d->columns : d->columns / m->group.ranks;
    val part = in_order(r, d->local), first = matrix(r, rows ? OP_ALL_GATHER : OP_CAT, t, height, width);
    val out = matrix(r, rows ? OP_CAT : OP_ALL_GATHER, t, height, width);

    send(r, COLLECTIVE_ALL_GATHER, bytes_of(r, first), m);
    launch(r, OP_CAT, out, 1, &first);
    value_unref(r, first);
    value_unref(r, part);
    return out;
}

static val reduced(struct run *r, const struct optim_mesh *m, const struct dtensor *d, enum placement to)
{
    val out = matrix(r, OP_ALL_REDUCE, dtype_of(r, d->local), to == PLACED_ROWS ? d->rows / m->group.ranks : d->rows, d->columns);

    if (to == PLACED_WHOLE)
        launch(r, OP_CLONE, out, 1, &d->local);
    send(r, to == PLACED_WHOLE ? COLLECTIVE_ALL_REDUCE : COLLECTIVE_REDUCE_SCATTER, bytes_of(r, d->local), m);
    return out;
}

static bool divides(const struct dtensor *d, enum placement at, uint32_t ranks)
{
    return at == PLACED_ROWS ? d->rows % ranks == 0 : at == PLACED_COLUMNS ? d->columns % ranks == 0 : true;
}

val dtensor_moved(struct run *r, const struct optim_mesh *m, const struct dtensor *d, enum placement to)
{
    if (d->at == to || run_dead(r))
        return 0;
    if (!divides(d, d->at, m->group.ranks) || !divides(d, to, m->group.ranks) || d->at == PLACED_WHOLE ||
        (!is_cut(d->at) && to != PLACED_WHOLE && to != PLACED_ROWS)) {
        run_fail(r, ERR_FIELD_CONFLICT, "/training/optimizer", "Muon over matrices that the ranks do not divide is not modelled yet: adamw_torch, or ddp");
        return 0;
    }
    if (!is_cut(d->at))
        return reduced(r, m, d, to);
    return is_cut(to) ? turned_over(r, m, d, to) : gathered(r, m, d);
}

struct dtensor dtensor_turned(struct run *r, const struct dtensor *d)
{
    struct dtensor out = {owned(r, transpose(r, d->local, 0, 1)), d->at, d->columns, d->rows};

    out.at = d->at == PLACED_ROWS ? PLACED_COLUMNS : d->at == PLACED_COLUMNS ? PLACED_ROWS : d->at;
    return out;
}

/* redistribute_local_args(): one after the other, the same tensor twice too; they die when the product stands, the last first */
struct dtensor dtensor_product(struct run *r, const struct optim_mesh *m, const struct dtensor *bias, const struct dtensor *a, const struct dtensor *b)
{
    const struct layout_of_product *l = cheapest(r, m, bias, a, b);
    struct dtensor out = {0, l->out, a->rows, b->columns};
    val c = bias ? dtensor_moved(r, m, bias, l->out) : 0, left = dtensor_moved(r, m, a, l->a), right = dtensor_moved(r, m, b, l->b);

    if (!run_dead(r)) {
        val x = left ? left : a->local, y = right ? right : b->local;

        out.local = owned(r, bias ? addmm(r, c ? c : bias->local, x, y) : matmul(r, x, y));
    }
    value_unref(r, right);
    value_unref(r, left);
    value_unref(r, c);
    return out;
}
