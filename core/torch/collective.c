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

val reduced_clone(struct run *r, val x, struct work_group g)
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

/* An autograd.Function that returns its argument. */
static val same_tensor(struct run *r, enum op op, val x, struct work_group g)
{
    uint32_t node = attach_group(r, op, x, g);
    val out;

    if (!node)
        return x;
    out = value_alias(r, x);
    r->values[out].view = true;
    consume(r, x);
    attach_output(r, node, out, 0);
    return out;
}

val sum_gradient(struct run *r, val x, struct work_group g)
{
    return same_tensor(r, OP_SUM_GRADIENT, x, g);
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

/* Gathered along the first dimension, then cut and put side by side. */
static val side_by_side(struct run *r, val x, int64_t width, struct work_group g)
{
    int64_t size[MAX_DIMS];
    int nd = r->values[x].ndim;
    val stacked, out;

    memcpy(size, r->values[x].size, sizeof size);
    size[0] *= g.ranks;
    stacked = owned(r, value_empty(r, OP_ALL_GATHER, dtype_of(r, x), nd, size));
    send(r, COLLECTIVE_ALL_GATHER, bytes_of(r, stacked), g);
    size[0] /= g.ranks;
    size[nd - 1] *= g.ranks;
    out = value_empty(r, OP_CAT, dtype_of(r, x), nd, size);
    launch(r, OP_CAT, out, 1, &stacked);
    value_unref(r, stacked);
    return without_padding(r, out, width);
}

val gather_columns(struct run *r, val x, int64_t width, struct work_group g)
{
    uint32_t node = attach_group(r, OP_ALL_GATHER, x, g);
    val out;

    if (run_dead(r))
        return 0;
    out = side_by_side(r, x, width, g);
    if (node)
        r->nodes[node].at.i[2] = size_of(r, x, -1);
    attach_output(r, node, out, 0);
    consume(r, x);
    return out;
}

static val columns_of(struct run *r, val x, int64_t width)
{
    const struct value *v = &r->values[x];
    enum dtype t = (enum dtype)v->dtype;
    int64_t size[MAX_DIMS];
    val mine;

    memcpy(size, v->size, sizeof size);
    size[v->ndim - 1] = width;
    mine = value_empty(r, OP_CLONE, t, v->ndim, size);
    launch(r, OP_CLONE, mine, 1, &mine);
    return mine;
}

void back_all_gather(struct back *b)
{
    struct run *r = b->r;

    b->out[0] = owned(r, columns_of(r, b->grad[0], r->nodes[b->node].at.i[2]));
}

val take_columns(struct run *r, val x, struct work_group g)
{
    uint32_t node = attach_group(r, OP_TAKE_COLUMNS, x, g);
    val out;

    if (run_dead(r))
        return 0;
    out = columns_of(r, x, div_up(size_of(r, x, -1), g.ranks));
    if (node)
        r->nodes[node].at.i[2] = size_of(r, x, -1);
    attach_output(r, node, out, 0);
    consume(r, x);
    return out;
}

void back_take_columns(struct back *b)
{
    struct run *r = b->r;

    b->out[0] = owned(r, side_by_side(r, b->grad[0], r->nodes[b->node].at.i[2], group_of(b)));
}

val sum_gradient_in_place(struct run *r, val x, struct work_group g)
{
    return same_tensor(r, OP_SUM_GRADIENT_IN_PLACE, x, g);
}

void back_sum_gradient_in_place(struct back *b)
{
    struct run *r = b->r;
    val grad = contiguous(r, b->grad[0]);

    if (run_dead(r))
        return;
    send(r, COLLECTIVE_ALL_REDUCE, bytes_of(r, grad), group_of(b));
    if (grad == b->grad[0])
        value_ref(r, grad);
    else
        owned(r, grad);
    b->out[0] = grad;
}

val sum_in_place(struct run *r, val x, struct work_group g)
{
    if (run_dead(r))
        return 0;
    send(r, COLLECTIVE_ALL_REDUCE, bytes_of(r, x), g);
    return same_tensor(r, OP_SUM_IN_PLACE, x, g);
}

val to_local(struct run *r, val x)
{
    return run_dead(r) ? 0 : same_tensor(r, OP_TO_LOCAL, x, (struct work_group){0});
}

/* ---------------------------------------------------------------------------------------------------------- lists of tensors */
static void nccl_reads(struct run *r, val v)
{
    uint8_t stream = r->stream;

    if (run_dead(r))
        return;
    r->stream = STREAM_GATHER;
    record_stream(r, v);
    r->stream = stream;
}

void list_collective(struct run *r, enum collective what, enum dtype dtype, int64_t elems, struct work_group g)
{
    val flat = owned(r, value_empty(r, OP_EMPTY, dtype, 1, &elems));
    uint64_t bytes = (uint64_t)elems * dtype_bytes(dtype);

    mark_block(r, flat, MARK_COMMUNICATION);
    nccl_reads(r, flat);
    send(r, what, bytes, g);
    work_add(r, OP_TO_COPY, 0, 2 * bytes, 1);
    value_unref(r, flat);
}

void all_reduce_in_place(struct run *r, val v, struct work_group g)
{
    nccl_reads(r, v);
    if (!run_dead(r))
        send(r, COLLECTIVE_ALL_REDUCE, bytes_of(r, v), g);
}

/* [empty_like(x) for each rank], all_gather, cat */
static val gathered(struct run *r, val x, struct work_group g)
{
    unsigned char *mark = r->arena->cur;
    val *parts = run_room(r, sizeof *parts, g.ranks), out;
    int64_t size[MAX_DIMS];
    int nd = r->values[x].ndim;

    if (!parts)
        return 0;
    memcpy(size, r->values[x].size, sizeof size);
    for (uint32_t i = 0; i < g.ranks; i++)
        parts[i] = owned(r, value_empty(r, OP_EMPTY, dtype_of(r, x), nd, size));
    list_collective(r, COLLECTIVE_ALL_GATHER, dtype_of(r, x), numel(r, x) * g.ranks, g);
    for (uint32_t i = 0; i < g.ranks; i++)
        nccl_reads(r, parts[i]);
    size[nd - 1] *= g.ranks;
    out = value_empty(r, OP_CAT, dtype_of(r, x), nd, size);
    launch(r, OP_CAT, out, 1, &out);
    for (uint32_t i = 0; i < g.ranks; i++)
        value_unref(r, parts[i]);
    arena_rewind(r->arena, mark);
    return out;
}

val shard_columns(struct run *r, val x, struct work_group g)
{
    uint32_t node = attach_group(r, OP_SHARD_COLUMNS, x, g);
    val out = run_dead(r) ? 0 : columns_of(r, x, size_of(r, x, -1) / g.ranks);

    attach_output(r, node, out, 0);
    consume(r, x);
    return out;
}

void back_shard_columns(struct back *b)
{
    b->out[0] = owned(b->r, gathered(b->r, b->grad[0], group_of(b)));
}

val gather_list(struct run *r, val x, struct work_group g)
{
    uint32_t node = attach_group(r, OP_GATHER_LIST, x, g);
    val out = run_dead(r) ? 0 : gathered(r, x, g);

    attach_output(r, node, out, 0);
    consume(r, x);
    return out;
}

void back_gather_list(struct back *b)
{
    b->out[0] = owned(b->r, columns_of(b->r, b->grad[0], size_of(b->r, b->grad[0], -1) / group_of(b).ranks));
}
