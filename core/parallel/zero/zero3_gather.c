/* zero3_gather.c - partition_parameters.py: gathers, their handles, and what frees a parameter. */
#include "parallel/zero/inside3.h"
#include "torch/work.h"

#include <stdlib.h>
#include <string.h>

void zero3_crosses(struct run *r, val v)
{
    const struct storage *s = &r->storages[v ? r->values[v].storage : 0];

    if (v && r->values[v].storage && s->block != NO_BLOCK && r->births[s->block].stream != r->stream)
        record_stream(r, v);
}

static uint32_t take_handle(struct zero3 *z, struct zero3_gather g)
{
    uint32_t i = z->free_gather;

    if (i != ZERO3_NONE)
        z->free_gather = z->gathers[i].first;
    else
        i = z->n_gathers++; /* never more than parameters */
    z->gathers[i] = g;
    return i;
}

/* The Parameter's own sizes over what `of` holds. */
void zero3_view(struct zero3 *z, struct zero3_param *p, val of)
{
    struct run *r = z->r;
    val v = value_alias(r, of);

    if (!v)
        return;
    r->values[v].ndim = (uint8_t)p->p->ndim;
    memcpy(r->values[v].size, p->p->size, sizeof p->p->size);
    value_strides(&r->values[v]);
    r->values[v].view = true;
    set_data(r, p->value, v);
}

static val whole(struct zero3 *z, const struct zero3_param *p, enum op op)
{
    return value_empty(z->r, op, z->dtype, p->p->ndim, p->p->size);
}

static val of_elems(struct zero3 *z, enum op op, int64_t elems)
{
    val v = owned(z->r, value_empty(z->r, op, z->dtype, 1, &elems));

    mark_block(z->r, v, MARK_COMMUNICATION);
    return v;
}

static uint64_t bytes_of(const struct zero3 *z, int64_t elems)
{
    return (uint64_t)elems * dtype_bytes(z->dtype);
}

static uint32_t sends(struct zero3 *z, int64_t shards, unsigned stream, bool after_compute)
{
    uint64_t bytes = bytes_of(z, shards) * z->ranks;

    return work_send(z->r, (struct work_sending){COLLECTIVE_ALL_GATHER, bytes, {0, 0}, stream, after_compute});
}

/* ds_tensor.to(device): nothing where it stands there. Returns what holds the copy. */
static val shard_here(struct zero3 *z, const struct zero3_param *p)
{
    struct run *r = z->r;
    uint32_t id;

    if (!z->offload_params)
        return 0;
    id = work_send(r, (struct work_sending){COLLECTIVE_FROM_HOST, bytes_of(z, p->shard_elems), {0, 0}, STREAM_COPY, false});
    work_wait(r, id);
    return of_elems(z, OP_TO_COPY, p->shard_elems);
}

/* NoGatherHandle: one rank; the shard is the parameter. */
static void take_whole(struct zero3 *z, struct zero3_param *p)
{
    if (z->offload_params)
        set_data(z->r, p->value, whole(z, p, OP_TO_COPY));
    else
        zero3_view(z, p, p->shard ? p->shard : z->half);
}

/* _all_gather_sequential: into the parameter's own buffer */
static void gather_one(struct zero3 *z, struct zero3_param *p)
{
    val flat = of_elems(z, OP_EMPTY, p->shard_elems * z->ranks), shard = shard_here(z, p);

    zero3_view(z, p, flat);
    value_unref(z->r, shard);
    value_unref(z->r, flat);
}

static void put_into_buffer(struct zero3 *z, struct zero3_param *p)
{
    val flat = of_elems(z, OP_EMPTY, p->shard_elems * z->ranks);

    zero3_view(z, p, flat);
    value_unref(z->r, flat);
    work_wait(z->r, sends(z, p->shard_elems, STREAM_GATHER, true));
}

/* _all_gather_dtype: one buffer for all; their shards are put together in this rank's part of it. */
static val gather_many(struct zero3 *z, uint32_t n, const uint32_t *list, int64_t shards)
{
    val flat = of_elems(z, OP_EMPTY, shards * z->ranks);

    for (uint32_t i = 0; i < n; i++)
        z->sorted[i] = shard_here(z, &z->params[list[i]]);
    work_add(z->r, OP_CAT, 0, 2 * bytes_of(z, shards), 1);
    while (n)
        value_unref(z->r, z->sorted[--n]);
    return flat;
}

static int by_id(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static uint32_t absent(struct zero3 *z, uint32_t n, uint32_t *list, int64_t *ret_shards, int64_t *ret_elems)
{
    uint32_t m = 0;

    for (uint32_t i = 0; i < n; i++) {
        const struct zero3_param *p = &z->params[list[i]];

        if (p->status != ZERO3_ABSENT)
            continue;
        list[m++] = list[i];
        *ret_shards += p->shard_elems;
        *ret_elems += p->elems;
    }
    return m;
}

/* __all_gather_params_, all_gather_coalesced */
void zero3_gather(struct zero3 *z, uint32_t n, uint32_t *list)
{
    struct run *r = z->r;
    struct zero3_gather g = {.left = 0, .first = ZERO3_NONE};
    int64_t shards = 0, elems = 0;
    uint32_t handle;

    n = absent(z, n, list, &shards, &elems);
    if (!n || run_dead(r))
        return;
    z->available_elems += elems;
    r->stream = z->gather_stream;
    if (n > 1)
        qsort(list, n, sizeof *list, by_id);
    if (z->ranks > 1 && n > 1) {
        g.coalesced = true;
        g.flat = gather_many(z, n, list, shards);
    } else if (z->ranks > 1) {
        gather_one(z, &z->params[list[0]]);
    }
    if (z->ranks > 1)
        g.message = sends(z, shards, z->gather_stream, false);
    g.left = n;
    g.first = list[0];
    handle = take_handle(z, g);
    for (uint32_t i = 0; i < n; i++) {
        struct zero3_param *p = &z->params[list[i]];

        p->status = ZERO3_INFLIGHT;
        p->gather = handle;
        p->next = i + 1 < n ? list[i + 1] : ZERO3_NONE;
        if (z->ranks == 1)
            take_whole(z, p);
    }
    r->stream = STREAM_COMPUTE;
}

/* AllGatherCoalescedHandle.wait: each parameter is put together from the ranks' parts. */
static void wait(struct zero3 *z, struct zero3_gather *g)
{
    struct run *r = z->r;

    work_wait(r, g->message);
    for (uint32_t i = g->first; i != ZERO3_NONE; i = z->params[i].next) {
        struct zero3_param *p = &z->params[i];

        if (g->coalesced) {
            val data = whole(z, p, OP_CAT);

            mark_block(r, data, MARK_COMMUNICATION);
            set_data(r, p->value, data);
            work_add(r, OP_CAT, 0, 2 * bytes_of(z, p->elems), 1);
        }
        p->status = ZERO3_AVAILABLE;
    }
    g->complete = true;
}

void zero3_arrive(struct zero3 *z, uint32_t param)
{
    uint32_t handle = z->params[param].gather;
    struct zero3_gather *g;

    if (handle == ZERO3_NONE || run_dead(z->r))
        return;
    g = &z->gathers[handle];
    z->r->stream = z->gather_stream;
    z->params[param].gather = ZERO3_NONE;
    if (!g->complete)
        wait(z, g);
    if (!--g->left) {
        value_unref(z->r, g->flat);
        g->first = z->free_gather;
        z->free_gather = handle;
    }
    z->r->stream = STREAM_COMPUTE;
}

/* Param.partition(), free_param() */
void zero3_free(struct zero3 *z, struct zero3_param *p)
{
    zero3_crosses(z->r, p->value);
    set_data(z->r, p->value, 0);
    p->status = ZERO3_ABSENT;
    z->available_elems -= p->elems;
}

/* _allgather_params of one: what came from all ranks is copied into a tensor of the parameter's shape. */
static void gather_and_copy(struct zero3 *z, struct zero3_param *p)
{
    val flat = of_elems(z, OP_EMPTY, p->shard_elems * z->ranks), data = whole(z, p, OP_EMPTY);

    mark_block(z->r, data, MARK_COMMUNICATION);
    set_data(z->r, p->value, data);
    work_add(z->r, OP_TO_COPY, 0, 2 * bytes_of(z, p->elems), z->ranks);
    value_unref(z->r, flat);
}

/* Param.all_gather(), on the current stream: into a buffer of its own, with one rank too */
static void gather_now(struct zero3 *z, struct zero3_param *p)
{
    if (z->r->q->zero3_gathers_in_place)
        gather_one(z, p);
    else
        gather_and_copy(z, p);
    if (z->ranks > 1)
        work_wait(z->r, sends(z, p->shard_elems, STREAM_GATHER, true));
    p->status = ZERO3_AVAILABLE;
}

/* ZeROOrderedDict.__getitem__: peft asks for lora_A.weight.dtype, a fused loss for the head's weight. What is absent then is gathered at once, and is
 * the reader's, too, from now on: register_external_parameter(FWD_MODULE_STACK[-1]). */
void zero3_read(struct zero3 *z, struct zero3_module *m, struct zero3_module *reader)
{
    for (uint32_t i = 0; i < m->n; i++) {
        struct zero3_param *p = &z->params[z->of_module[m->first + i]];
        bool known = false;

        if (p->status != ZERO3_ABSENT)
            continue;
        gather_now(z, p);
        for (uint32_t k = 0; k < reader->n; k++)
            known |= z->of_module[reader->first + k] == z->of_module[m->first + i];
        if (!known && reader->n < reader->room)
            z->of_module[reader->first + reader->n++] = z->of_module[m->first + i];
    }
}

static uint32_t absent_persistent(struct zero3 *z)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < z->n; i++)
        if (z->params[i].persistent && z->params[i].status == ZERO3_ABSENT)
            z->list[n++] = i;
    return n;
}

/* _post_step: _allgather_params_coalesced, on the current stream; what comes from the host comes first, and the step waits for all. */
void zero3_gather_persistent(struct zero3 *z)
{
    uint32_t n = absent_persistent(z);

    for (uint32_t i = 0; i < n && z->ranks > 1; i++)
        z->sorted[i] = shard_here(z, &z->params[z->list[i]]);
    for (uint32_t i = 0; i < n; i++) {
        struct zero3_param *p = &z->params[z->list[i]];

        if (z->ranks == 1)
            take_whole(z, p);
        else
            put_into_buffer(z, p);
        p->status = ZERO3_AVAILABLE;
    }
    for (uint32_t i = n; i-- > 0 && z->ranks > 1;)
        value_unref(z->r, z->sorted[i]);
    if (n)
        host_waits(z->r);
}
