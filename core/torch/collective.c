#include "torch/collective.h"

#include "torch/autograd.h"

#include <string.h>

static uint64_t bytes_of(const struct run *r, val v)
{
    return (uint64_t)numel(r, v) * dtype_bytes(dtype_of(r, v));
}

/* The compute stream waits for it at once: wait_tensor. */
static void send(struct run *r, enum collective what, uint64_t bytes, struct work_group g)
{
    if (r->work)
        work_wait(r, work_send(r, (struct work_sending){what, bytes, g, STREAM_GATHER, true}));
}

static val reduced_clone(struct run *r, val x, struct work_group g)
{
    val out = run_dead(r) ? 0 : value_empty(r, OP_ALL_REDUCE, dtype_of(r, x), r->values[x].ndim, r->values[x].size);

    if (!out)
        return 0;
    launch(r, OP_CLONE, out, 1, &x);
    send(r, COLLECTIVE_ALL_REDUCE, bytes_of(r, x), g);
    return out;
}

static uint32_t attach_group(struct run *r, enum op op, val x, struct work_group g)
{
    uint32_t node = attach(r, op, 1, &x);

    if (node) {
        r->nodes[node].at.i[0] = g.ranks;
        r->nodes[node].at.i[1] = g.stride;
    }
    return node;
}

static struct work_group group_of(const struct back *b)
{
    const struct attributes *at = &b->r->nodes[b->node].at;

    return (struct work_group){(uint32_t)at->i[0], (uint32_t)at->i[1]};
}

val sum_gradient(struct run *r, val x, struct work_group g)
{
    uint32_t node = attach_group(r, OP_SUM_GRADIENT, x, g);
    val out;

    if (!node)
        return x;
    out = value_alias(r, x);
    r->values[out].view = true;
    consume(r, x);
    attach_output(r, node, out, 0);
    return out;
}

void back_sum_gradient(struct back *b)
{
    val sum = reduced_clone(b->r, b->grad[0], group_of(b));

    owned(b->r, sum);
    b->out[0] = sum;
}

val sum_over_ranks(struct run *r, val x, struct work_group g)
{
    uint32_t node = attach_group(r, OP_ALL_REDUCE, x, g);
    val out = reduced_clone(r, x, g);

    attach_output(r, node, out, 0);
    consume(r, x);
    return out;
}

/* Where the ranks do not divide the columns, the shorter parts were padded to the first one's. */
static val without_padding(struct run *r, val padded, int64_t width)
{
    struct value *x = &r->values[padded];
    int64_t size[MAX_DIMS];
    val out;

    if (run_dead(r) || x->size[x->ndim - 1] == width)
        return padded;
    memcpy(size, x->size, sizeof size);
    size[x->ndim - 1] = width;
    out = value_empty(r, OP_CLONE, (enum dtype)x->dtype, x->ndim, size);
    launch(r, OP_CLONE, out, 1, &out);
    consume(r, padded);
    return out;
}

val gather_columns(struct run *r, val x, int64_t width, struct work_group g)
{
    uint32_t node = attach_group(r, OP_ALL_GATHER, x, g);
    int64_t size[MAX_DIMS];
    int nd = r->values[x].ndim;
    val stacked, out;

    if (run_dead(r))
        return 0;
    memcpy(size, r->values[x].size, sizeof size);
    size[0] *= g.ranks;
    stacked = owned(r, value_empty(r, OP_ALL_GATHER, dtype_of(r, x), nd, size));
    send(r, COLLECTIVE_ALL_GATHER, bytes_of(r, stacked), g);
    size[0] /= g.ranks;
    size[nd - 1] *= g.ranks;
    out = value_empty(r, OP_CAT, dtype_of(r, x), nd, size);
    launch(r, OP_CAT, out, 1, &stacked);
    value_unref(r, stacked);
    out = without_padding(r, out, width);
    if (node)
        r->nodes[node].at.i[2] = size_of(r, x, -1);
    attach_output(r, node, out, 0);
    consume(r, x);
    return out;
}

void back_all_gather(struct back *b)
{
    struct run *r = b->r;
    const struct value *g = &r->values[b->grad[0]];
    int64_t size[MAX_DIMS];
    val mine;

    memcpy(size, g->size, sizeof size);
    size[g->ndim - 1] = r->nodes[b->node].at.i[2];
    mine = value_empty(r, OP_CLONE, (enum dtype)g->dtype, g->ndim, size);
    launch(r, OP_CLONE, mine, 1, &mine);
    b->out[0] = owned(r, mine);
}
