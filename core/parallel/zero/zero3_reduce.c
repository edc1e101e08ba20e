/* zero3_reduce.c - stage3.py: gradients into the bucket, the bucket over the ranks, the rank's part into the flat buffer. */
#include "parallel/zero/inside3.h"
#include "torch/autograd.h"
#include "torch/work.h"

#include <stdlib.h>
#include <string.h>

enum { NORM_PIECE = 250000000 }; /* _constant_buffered_norm2 */

static uint64_t bytes_of(const struct zero3 *z, int64_t elems)
{
    return (uint64_t)elems * dtype_bytes(z->dtype);
}

/* coalesced_collectives.py: what a rank's part of a gradient lacks is filled up; those of all ranks stand in the list. */
static uint32_t pad(struct zero3 *z, const struct zero3_param *p, uint32_t n, val *pads, uint32_t max)
{
    for (uint32_t rank = (uint32_t)(p->elems / p->shard_elems); rank < z->ranks && !run_dead(z->r); rank++) {
        int64_t left = p->elems - (int64_t)rank * p->shard_elems, missing = p->shard_elems - (left > 0 ? left : 0);

        if (missing > 0 && n < max)
            pads[n++] = owned(z->r, value_empty(z->r, OP_EMPTY, z->dtype, 1, &missing));
    }
    return n;
}

/* At most; a run has no more values. */
static uint32_t padded(const struct zero3 *z)
{
    uint64_t n = 0;

    for (uint32_t i = 0; i < z->n_bucket; i++)
        if (z->params[z->in_bucket[i]].elems % z->ranks)
            n += z->ranks;
    return n < z->r->max_values ? (uint32_t)n : z->r->max_values;
}

/* reduce_scatter_coalesced: one tensor that is cut evenly is reduced where it stands, several are put together. */
static val scatter(struct zero3 *z)
{
    struct run *r = z->r;
    unsigned char *mark = r->arena->cur;
    uint32_t max = padded(z), n = 0;
    val *pads, all;
    int64_t elems = 0;

    if (z->n_bucket == 1 && !max) /* which the parts are views of */
        return value_alias(r, *grad_of(r, z->params[z->in_bucket[0]].value));
    pads = run_room(r, sizeof *pads, max);
    if (!pads)
        return 0;
    for (uint32_t i = 0; i < z->n_bucket; i++) {
        const struct zero3_param *p = &z->params[z->in_bucket[i]];

        if (p->elems % z->ranks)
            n = pad(z, p, n, pads, max);
        elems += p->shard_elems * z->ranks;
    }
    all = owned(r, value_empty(r, OP_CAT, z->dtype, 1, &elems));
    mark_block(r, all, MARK_COMMUNICATION);
    work_add(r, OP_CAT, 0, 2 * bytes_of(z, elems), 1);
    while (n)
        value_unref(r, pads[--n]);
    arena_rewind(r->arena, mark);
    return all;
}

/* part.double().norm(2) ** 2.0, piece by piece, and the root of their sum */
static val buffered_norm(struct zero3 *z, val part, int64_t elems)
{
    struct run *r = z->r;
    val sum = 0, root;

    (void)part;
    for (int64_t at = 0; at < elems; at += NORM_PIECE) {
        int64_t n = elems - at < NORM_PIECE ? elems - at : NORM_PIECE;
        val wide = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP64, 1, &n)), norm, square;

        norm = owned(r, value_empty(r, OP_VECTOR_NORM, DTYPE_FP64, 0, NULL));
        reduce_scratch(r, OP_VECTOR_NORM, wide, 1, 8);
        value_unref(r, wide);
        square = owned(r, value_empty(r, OP_POW, DTYPE_FP64, 0, NULL));
        value_unref(r, norm);
        if (sum)
            value_unref(r, square); /* added in place */
        else
            sum = square;
    }
    root = owned(r, value_empty(r, OP_POW, DTYPE_FP64, 0, NULL));
    value_unref(r, sum);
    return root;
}

/* The optimizer's offload: the flat buffer is on the host, the rank's part comes back for the norm and goes as fp32. */
static void to_host(struct zero3 *z, uint32_t param, val *held)
{
    struct run *r = z->r;
    const struct zero3_param *p = &z->params[param];
    val here, wide;

    if (!z->micro_step) { /* the name is bound to the host's part first */
        value_unref(r, *held);
        *held = 0;
    }
    here = owned(r, value_empty(r, OP_TO_COPY, z->dtype, 1, &p->shard_elems));
    value_unref(r, *held);
    *held = here;
    work_wait(r, work_send(r, (struct work_sending){COLLECTIVE_TO_HOST, bytes_of(z, p->shard_elems), {0, 0}, STREAM_COPY, true}));
    if (!z->boundary)
        return;
    value_unref(r, z->norms[param]);
    z->norms[param] = buffered_norm(z, here, p->shard_elems);
    if (z->dtype == DTYPE_FP32 || !r->q->zero3_casts_for_host)
        return;
    wide = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, 1, &p->shard_elems));
    work_wait(r, work_send(r, (struct work_sending){COLLECTIVE_TO_HOST, 4 * (uint64_t)p->shard_elems, {0, 0}, STREAM_COPY, true}));
    value_unref(r, wide);
}

/* partition_grads */
static void keep_parts(struct zero3 *z)
{
    struct run *r = z->r;
    val held = 0;

    for (uint32_t i = 0; i < z->n_bucket; i++) {
        uint32_t param = z->in_bucket[i];
        val *grad = grad_of(r, z->params[param].value), old = *grad;

        work_add(r, OP_CLONE, 0, (z->micro_step ? 3 : 2) * bytes_of(z, z->params[param].shard_elems), 1);
        if (z->offload)
            to_host(z, param, &held);
        zero3_crosses(r, old);
        *grad = 0;
        value_unref(r, old);
    }
    value_unref(r, held);
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* param_reduce_events: a host that runs ahead of the GPU waits for the third last reduction. */
static void wait_for_reduced(struct zero3 *z)
{
    if (z->n_reduced <= ZERO3_AHEAD)
        return;
    event_awaited(z->r, z->reduced[0].event);
    host_waits_for(z->r, z->reduced[0].position);
    memmove(z->reduced, z->reduced + 1, --z->n_reduced * sizeof *z->reduced);
}

/* __reduce_and_partition_ipg_grads */
static void reduce(struct zero3 *z)
{
    struct run *r = z->r;
    struct work_sending scattering = {COLLECTIVE_REDUCE_SCATTER, bytes_of(z, z->bucket_elems), {0, 0}, z->reduce_stream, true};
    val all;

    if (!z->n_bucket || run_dead(r))
        return;
    wait_for_reduced(z);
    r->stream = z->reduce_stream;
    qsort(z->in_bucket, z->n_bucket, sizeof *z->in_bucket, by_id);
    all = scatter(z);
    if (z->ranks > 1)
        stream_takes(r, work_send_apart(r, scattering)); /* of the clone of the world's group; gathers are of that itself */
    keep_parts(z);
    value_unref(r, all);
    z->n_bucket = 0;
    z->bucket_elems = 0;
    z->reduced[z->n_reduced++] = (struct zero3_reduced){r->n_events, event_records(r)};
    r->stream = STREAM_COMPUTE;
}

/* __add_grad_to_ipg_bucket: what is larger than the bucket stays where it is. */
static void take(struct zero3 *z, uint32_t param, val *grad)
{
    struct run *r = z->r;
    int64_t elems = z->params[param].elems;
    val view;

    r->stream = z->reduce_stream;
    stream_waits(r, STREAM_COMPUTE);
    if (z->bucket_elems + elems <= (int64_t)z->o->zero.reduce_elems) {
        zero3_crosses(r, *grad);
        view = value_alias(r, z->bucket);
        if (view) {
            r->values[view].ndim = r->values[*grad].ndim;
            memcpy(r->values[view].size, r->values[*grad].size, sizeof r->values[view].size);
            value_strides(&r->values[view]);
            set_data(r, *grad, view);
        }
        work_add(r, OP_CLONE, 0, 2 * bytes_of(z, elems), 1);
    }
    r->stream = STREAM_COMPUTE;
    z->in_bucket[z->n_bucket++] = param;
    z->bucket_elems += elems;
}

static void enter(struct zero3 *z, uint32_t param)
{
    if (z->n_bucket && z->bucket_elems + z->params[param].elems > (int64_t)z->o->zero.reduce_elems)
        reduce(z);
    take(z, param, grad_of(z->r, z->params[param].value));
}

void zero3_gradient_ready(void *of, val leaf)
{
    struct zero3 *z = of;
    uint32_t param = leaf <= z->last_value ? z->index_of[leaf] : 0;

    if (!param-- || run_dead(z->r) || z->params[param].whole)
        return;
    enter(z, param);
}

/* In the order of the optimizer's groups; an expert that no token came to has zeros for a gradient. */
void zero3_reduce_whole(struct zero3 *z, const struct zero3_module *m)
{
    struct run *r = z->r;

    for (uint32_t i = 0; i < z->n_trained && !run_dead(r); i++) {
        uint32_t param = z->trained[i];
        const struct zero3_param *p = &z->params[param];
        val *g;

        if (p->whole != m->number)
            continue;
        g = grad_of(r, p->value);
        if (!*g)
            *g = owned(r, value_empty(r, OP_ZEROS_LIKE, (enum dtype)r->values[p->value].dtype, p->p->ndim, p->p->size));
        enter(z, param);
    }
}

/* independent_gradient_partition_epilogue; the host waits for the reduce stream, and that for all that was reduced. */
void zero3_reduce_rest(struct zero3 *z)
{
    reduce(z);
    host_waits(z->r);
    z->n_reduced = 0;
    z->micro_step++;
}
