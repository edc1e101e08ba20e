/* chunk.c - chunk.py, manager.py: chunks are filled, scattered, gathered, reduced. */
#include "parallel/colossal/inside.h"

#include "torch/autograd.h"
#include "torch/collective.h"

#include <string.h>

static val flat(struct colossal *c, enum op op, enum dtype dtype, int64_t elems, enum mark mark)
{
    val v = owned(c->r, value_empty(c->r, op, dtype, 1, &elems));

    mark_block(c->r, v, mark);
    return v;
}

static bool is_shared(const struct colossal_chunk *k)
{
    return !k->group->keeps;
}

/* The first rank's part is the fullest: what a chunk has no tensors for is at its end. */
int64_t colossal_share(const struct colossal_chunk *k)
{
    int64_t shard = k->elems / k->group->ranks.ranks;

    return !is_shared(k) || k->used < shard ? k->used : shard;
}

/* __scatter(): the shard is born, the whole dies. */
static val scatter(struct colossal *c, struct colossal_chunk *k, val whole, enum dtype dtype, enum mark mark)
{
    val shard = flat(c, OP_EMPTY, dtype, k->elems / k->group->ranks.ranks, mark);

    storage_resize(c->r, whole, OP_EMPTY, 0);
    return shard;
}

static struct colossal_chunk *open_chunk(const struct colossal *c, const struct colossal_group *g)
{
    return g->open ? &c->chunks[g->open - 1] : NULL;
}

/* close_chunk() of both, which are filled alike */
void colossal_close(struct colossal *c, struct colossal_group *g)
{
    struct colossal_chunk *k = open_chunk(c, g);

    if (!k || !is_shared(k) || run_dead(c->r))
        return;
    k->half_shard = scatter(c, k, k->half, c->dtype, MARK_PARAMETER);
    k->master_shard = scatter(c, k, k->master, DTYPE_FP32, MARK_OPTIMIZER_STATE);
    value_unref(c->r, k->master);
    k->master = 0;
}

static struct colossal_chunk *new_chunk(struct colossal *c, struct colossal_group *g, int64_t least)
{
    struct colossal_chunk *k = &c->chunks[c->n_chunks++];
    int64_t elems = g->chunk_elems > least ? g->chunk_elems : round_up(least, g->ranks.ranks);

    *k = (struct colossal_chunk){.group = g, .elems = elems};
    k->half = flat(c, OP_ZEROS, c->dtype, elems, MARK_PARAMETER);
    k->master = flat(c, OP_ZEROS, DTYPE_FP32, elems, MARK_OPTIMIZER_STATE);
    g->open = c->n_chunks;
    return k;
}

/* tensor.data = chunk[begin:end].view(shape): what it was dies. */
static void take_view(struct colossal *c, const struct colossal_param *p, val of)
{
    struct run *r = c->r;
    val v = value_alias(r, of);

    if (!v)
        return;
    r->values[v].ndim = (uint8_t)p->p->ndim;
    memcpy(r->values[v].size, p->p->size, sizeof p->p->size);
    value_strides(&r->values[v]);
    r->values[v].view = true;
    set_data(r, p->p->value, v);
}

/* register_tensor() of the half parameter and of p.data.float() */
void colossal_register(struct colossal *c, uint32_t param)
{
    struct colossal_param *p = &c->params[param];
    struct colossal_group *g = &c->groups[p->group];
    struct colossal_chunk *k = open_chunk(c, g);
    val full = flat(c, OP_TO_COPY, DTYPE_FP32, p->elems, MARK_NONE);

    if (run_dead(c->r))
        return;
    if (!k || k->used + p->elems > k->elems) {
        colossal_close(c, g);
        k = new_chunk(c, g, p->elems);
    }
    take_view(c, p, k->half);
    value_unref(c->r, full);
    p->chunk = (uint32_t)(k - c->chunks);
    p->begin = k->used;
    k->used += p->elems;
    k->n++;
}

static void nccl_reads(struct run *r, val v)
{
    uint8_t stream = r->stream;

    r->stream = STREAM_GATHER;
    record_stream(r, v);
    r->stream = stream;
}

/* access_chunk(): __gather() */
void colossal_access(struct colossal *c, struct colossal_chunk *k)
{
    struct run *r = c->r;

    if (!k->half_shard || run_dead(r))
        return;
    storage_resize(r, k->half, OP_EMPTY, (uint64_t)k->elems * dtype_bytes(c->dtype));
    mark_block(r, k->half, MARK_PARAMETER);
    list_collective(r, COLLECTIVE_ALL_GATHER, c->dtype, k->elems, k->group->ranks);
    nccl_reads(r, k->half);
    nccl_reads(r, k->half_shard);
    value_unref(r, k->half_shard);
    k->half_shard = 0;
}

/* torch.isinf(x).any().item() | torch.isnan(x).any().item(): isinf() takes the absolute values first. */
static void look_for_overflow(struct colossal *c, int64_t elems)
{
    struct run *r = c->r;
    uint64_t bytes = (uint64_t)elems * dtype_bytes(c->dtype);
    uint32_t magnitude = scratch_take(r, OP_ABS, bytes, MARK_NONE), flags = scratch_take(r, OP_EQ, (uint64_t)elems, MARK_NONE);

    scratch_give(r, magnitude);
    scratch(r, OP_ANY, 1);
    scratch_give(r, flags);
    work_add(r, OP_ABS, 0, 2 * bytes, 1);
    work_add(r, OP_EQ, 0, bytes + (uint64_t)elems, 1);
    work_add(r, OP_ANY, 0, (uint64_t)elems, 1);
    host_waits(r);
    flags = scratch_take(r, OP_NE, (uint64_t)elems, MARK_NONE);
    scratch(r, OP_ANY, 1);
    scratch_give(r, flags);
    work_add(r, OP_NE, 0, 2 * bytes + (uint64_t)elems, 1);
    work_add(r, OP_ANY, 0, (uint64_t)elems, 1);
    host_waits(r);
}

/* set_l2_norm(): x.float().norm(2).item() */
static void take_norm(struct colossal *c, int64_t elems)
{
    struct run *r = c->r;
    uint32_t full = scratch_take(r, OP_TO_COPY, 4 * (uint64_t)elems, MARK_NONE);

    scratch(r, OP_VECTOR_NORM, 4);
    scratch_give(r, full);
    work_add(r, OP_TO_COPY, 0, 6 * (uint64_t)elems, 1);
    work_add(r, OP_VECTOR_NORM, 0, 4 * (uint64_t)elems, 1);
    host_waits(r);
}

/* reduce_scatter over views of the whole */
static void scatter_sum(struct colossal *c, struct colossal_chunk *k)
{
    struct run *r = c->r;

    k->half_shard = flat(c, OP_EMPTY, c->dtype, k->elems / k->group->ranks.ranks, MARK_GRADIENT);
    list_collective(r, COLLECTIVE_REDUCE_SCATTER, c->dtype, k->elems, k->group->ranks);
    nccl_reads(r, k->half);
    storage_resize(r, k->half, OP_EMPTY, 0);
}

/* reduce_chunk() and what grad_handle() does with it */
void colossal_reduce(struct colossal *c, struct colossal_chunk *k)
{
    struct run *r = c->r;
    int64_t elems = colossal_share(k);

    k->ready = 0;
    if (is_shared(k))
        scatter_sum(c, k);
    else if (k->group->ranks.ranks > 1)
        all_reduce_in_place(r, k->half, k->group->ranks);
    work_add(r, OP_DIV, 0, 2 * (uint64_t)elems * dtype_bytes(c->dtype), 1);
    look_for_overflow(c, elems);
    if (c->o->max_grad_norm > 0)
        take_norm(c, elems);
}
