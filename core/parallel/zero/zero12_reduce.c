/* zero12_reduce.c - the bucket: gradients are copied into it, averaged over the ranks, and what the rank owns is kept. */
#include "parallel/zero/inside12.h"
#include "torch/work.h"

#include <string.h>

static uint64_t bytes_of(const struct zero12 *z, uint64_t elems)
{
    return elems * dtype_bytes(z->dtype);
}

static val new_buffer(struct zero12 *z)
{
    val v = zero_flat(z->r, OP_EMPTY, z->dtype, z->o->zero.reduce_elems);

    mark_block(z->r, v, MARK_COMMUNICATION);
    return v;
}

static void drop_buffers(struct zero12 *z)
{
    for (int i = 0; i < 2; i++) {
        value_unref(z->r, z->buffer[i]);
        z->buffer[i] = 0;
    }
}

/* setup_buckets, backward_prologue; in early releases at the beginning of optimizer.backward() */
void zero12_make_buffers(struct zero12 *z)
{
    if (z->ready && !z->r->q->zero_buckets_first)
        return;
    z->ready = true;
    z->micro_step++;
    drop_buffers(z);
    for (int i = 0; i < (z->overlap ? 2 : 1); i++)
        z->buffer[i] = new_buffer(z);
    z->which = 0;
}

/* grad.data = buffer.narrow(..).view_as(grad) */
static void move_into(struct zero12 *z, val grad, val buffer)
{
    struct run *r = z->r;
    val view = value_alias(r, buffer);
    struct value *v;

    if (!view)
        return;
    v = &r->values[view];
    v->ndim = r->values[grad].ndim;
    memcpy(v->size, r->values[grad].size, sizeof v->size);
    value_strides(v);
    set_data(r, grad, view);
}

/* ---------------------------------------------------------------------------------------------------------- averaging */
struct slices {
    struct zero12 *z;
    uint64_t elems, small, mine; /* of the last slice; of the list so far; of it, this rank's */
    uint32_t owner, n;
};

/* allreduce_bucket over a list of slices: flattened, which copies where they are more than one */
static void all_reduce(struct slices *s)
{
    struct zero12 *z = s->z;
    struct run *r = z->r;
    val flat = s->n > 1 ? zero_flat(r, OP_CAT, z->dtype, s->small) : 0;
    struct work_sending sending = {.what = COLLECTIVE_ALL_REDUCE,
                                   .bytes = bytes_of(z, s->small),
                                   .stream = STREAM_ALL_REDUCE,
                                   .after_compute = true};
    uint32_t message;

    if (flat)
        mark_block(r, flat, MARK_COMMUNICATION);
    if (flat)
        work_add(r, OP_CAT, 0, 2 * bytes_of(z, s->small), 1);
    message = work_send(r, sending);
    if (!z->overlap)
        work_wait(r, message);
    if (s->mine)
        work_add(r, OP_CLONE, 0, 2 * bytes_of(z, s->mine), 1);
    if (s->mine && z->overlap && r->q->zero_records_streams)
        record_stream(r, z->buffer[z->which]);
    value_unref(r, flat);
    s->n = 0;
    s->small = s->mine = 0;
}

static void end_slice(struct slices *s)
{
    if (!s->elems)
        return;
    s->n++;
    s->small += s->elems;
    s->mine += s->owner == s->z->rank ? s->elems : 0;
    s->elems = 0;
    if (s->small > s->z->o->zero.reduce_elems)
        all_reduce(s);
}

/* Owners from `owner` on, whose whole share it is, but for the last of them: all alike. How many. */
static uint32_t end_whole_slices(struct slices *s, uint32_t owner, uint64_t elems, uint64_t share)
{
    uint64_t limit = s->z->o->zero.reduce_elems;
    uint32_t left = elems > share ? (uint32_t)((elems - 1) / share) : 0, n = left;

    if (left)
        end_slice(s);
    while (left && run_spend(s->z->r, 1)) {
        uint64_t fill = (limit - s->small) / share + 1;
        uint32_t k = fill < left ? (uint32_t)fill : left;

        s->n += k;
        s->small += k * share;
        s->mine += s->z->rank >= owner && s->z->rank - owner < k ? share : 0;
        if (s->small > limit)
            all_reduce(s);
        owner += k;
        left -= k;
    }
    return n;
}

/* Neighbours of one owner make one slice. */
static void add_slices(struct slices *s, const struct zero12_param *p)
{
    const struct zero12_group *g = &s->z->groups[p->group];

    for (uint64_t at = p->offset, last = p->offset + p->elems; at < last;) {
        uint32_t owner = zero12_owner(g, at);
        uint64_t end = (owner + (uint64_t)1) * g->share;

        end = end < last ? end : last;
        if (owner != s->owner)
            end_slice(s);
        s->owner = owner;
        s->elems += end - at;
        at = end + g->share * end_whole_slices(s, owner + 1, last - end, g->share);
    }
}

static void average(struct zero12 *z)
{
    struct slices s = {.z = z, .owner = UINT32_MAX};

    work_add(z->r, OP_DIV, z->in_bucket, 2 * bytes_of(z, z->in_bucket), 1);
    for (uint32_t i = 0; i < z->n_bucket && !run_dead(z->r); i++)
        add_slices(&s, &z->params[z->bucket[i]]);
    end_slice(&s);
    if (s.n)
        all_reduce(&s);
}

/* ------------------------------------------------------------------------------------------------------------- bucket */
/* Stage 2 drops what other ranks own; stage 1 keeps it until the step. */
static void settle(struct zero12 *z, uint32_t param)
{
    if (z->params[param].mine)
        zero12_keep_gradient(z, param);
    else if (z->shards_gradients)
        zero12_clear_gradient(z, param);
}

void zero12_reduce(struct zero12 *z)
{
    struct run *r = z->r;
    uint8_t stream = r->stream;
    val whole = 0, storage = 0;

    if (run_dead(r))
        return;
    if (z->extra_large && z->n_bucket) { /* names of the function hold it to its end: the tensor, and in some releases its storage */
        whole = *zero12_gradient(z, z->bucket[0]);
        value_ref(r, whole);
        storage = r->q->zero_holds_large_view ? owned(r, value_alias(r, whole)) : 0;
    }
    r->stream = z->overlap ? STREAM_REDUCE : stream;
    average(z);
    for (uint32_t i = 0; i < z->n_bucket && !run_dead(r); i++)
        settle(z, z->bucket[i]);
    r->stream = stream;
    z->n_bucket = 0;
    z->in_bucket = 0;
    z->extra_large = false;
    value_unref(r, storage);
    value_unref(r, whole);
}

/* Larger than a bucket: reduced by itself. Offload may take a copy of it. */
static void add_large(struct zero12 *z, val grad)
{
    struct run *r = z->r;

    z->extra_large = true;
    if (z->offload && r->q->zero_guards_offload)
        set_data(r, grad, value_empty(r, OP_CLONE, z->dtype, r->values[grad].ndim, r->values[grad].size));
}

void zero12_add(struct zero12 *z, uint32_t param)
{
    struct run *r = z->r;
    const struct zero12_param *p = &z->params[param];
    val grad;

    if (z->in_bucket + p->elems > z->o->zero.reduce_elems) {
        zero12_reduce(z);
        z->which = z->overlap ? 1 - z->which : 0;
    }
    grad = *zero12_gradient(z, param);
    if (run_dead(r))
        return;
    if (p->elems > z->o->zero.reduce_elems) {
        add_large(z, grad);
    } else {
        work_add(r, OP_CLONE, 0, 2 * bytes_of(z, p->elems), 1);
        move_into(z, grad, z->buffer[z->which]);
    }
    z->in_bucket += p->elems;
    z->bucket[z->n_bucket++] = param;
}

/* ----------------------------------------------------------------------------------------------------------- epilogue */
/* What get_flat_partition() makes of one parameter; zeros where it got no gradient. */
static val wanted(struct zero12 *z, uint32_t param)
{
    const struct zero12_param *p = &z->params[param];
    val grad = *zero12_gradient(z, param);

    return grad ? zero12_slice(z->r, grad, p->end - p->begin) : zero_flat(z->r, OP_ZEROS_LIKE, z->dtype, p->elems);
}

static uint64_t padding_of(const struct zero12 *z, const struct zero12_group *g)
{
    uint64_t n = g->share;

    for (uint32_t i = g->mine_begin; i < g->mine_end; i++)
        n -= z->params[i].end - z->params[i].begin;
    return n;
}

static void pad(struct zero12 *z, struct zero12_group *g)
{
    uint64_t n = padding_of(z, g);

    if (n && g->n_averaged == g->mine_end - g->mine_begin)
        g->averaged[g->n_averaged++] = zero_flat(z->r, OP_ZEROS, z->dtype, n);
}

static void accumulate(struct zero12 *z, struct zero12_group *g)
{
    struct run *r = z->r;
    bool first = !g->n_averaged;

    for (uint32_t i = g->mine_begin; i < g->mine_end && !run_dead(r); i++) {
        const struct zero12_param *p = &z->params[i];

        if (first)
            g->averaged[g->n_averaged++] = wanted(z, i);
        else
            work_add(r, OP_ADD, p->elems, 3 * bytes_of(z, p->elems), 1);
    }
    if (!first && r->q->zero_pads_each_list && padding_of(z, g)) /* the next list has a padding of its own */
        value_unref(r, zero_flat(r, OP_ZEROS, z->dtype, padding_of(z, g)));
    if (z->boundary || r->q->zero_pads_each_list)
        pad(z, g);
}

void zero12_epilogue(struct zero12 *z)
{
    struct run *r = z->r;

    zero12_reduce(z);
    if (z->overlap)
        host_waits(r);
    for (uint32_t g = 0; g < z->n_groups && !z->offload && !run_dead(r); g++)
        accumulate(z, &z->groups[g]);
    drop_buffers(z);
    z->ready = false;
    value_unref(r, z->block);
    z->block = 0;
    for (uint32_t i = 0; i < z->n && !run_dead(r); i++)
        zero12_clear_gradient(z, i);
}
