/* fsdp1_flat.c - _flat_param.py FlatParamHandle: a unit gathered and freed, views of the whole. */
#include "parallel/fsdp1/inside.h"

#include "torch/autograd.h"
#include "torch/work.h"

enum { MAX_IN_FLIGHT = 2 }; /* _limiter_utils.py _max_num_inflight_all_gathers */

static uint64_t bytes_of(int64_t elems, enum dtype t)
{
    return (uint64_t)elems * dtype_bytes(t);
}

/* init_flat_param_attributes: born and freed at once. The last, full in the master dtype, is for evaluation. */
void unit_init_attributes(struct unit *u)
{
    struct run *r = u->all->r;
    int64_t padded = u->shard_elems * u->all->shards;

    if (u->compute != u->master) {
        u->low = owned(r, value_empty(r, OP_EMPTY, u->compute, 1, &u->shard_elems));
        storage_resize(r, u->low, OP_EMPTY, 0);
    }
    if (!u->all->sharded)
        return;
    u->full = owned(r, value_empty(r, OP_EMPTY, u->compute, 1, &padded));
    storage_resize(r, u->full, OP_EMPTY, 0);
    if (u->compute != u->master)
        scratch(r, OP_EMPTY, bytes_of(padded, u->master));
}

/* --------------------------------------------------------------------------------------------------------------- unshard */
static bool held(const struct run *r, val v)
{
    return v && r->storages[r->values[v].storage].bytes;
}

static void use_data(struct unit *u, val from, int64_t elems)
{
    struct run *r = u->all->r;
    val part = value_alias(r, from);

    if (!part)
        return;
    r->values[part].size[0] = elems;
    set_data(r, u->flat, part);
}

/* fsdp/_runtime_utils.py _init_streams: a root has streams of its own */
static uint8_t gather_stream(const struct fsdp1 *f)
{
    return f->beside ? STREAM_BESIDE_GATHER : STREAM_GATHER;
}

static uint8_t copy_stream(const struct fsdp1 *f)
{
    return f->beside ? STREAM_BESIDE_COPY : STREAM_GATHER_COPY;
}

/* _local_shard.to(device): from pinned memory */
static val from_host(struct unit *u)
{
    struct run *r = u->all->r;
    val v = owned(r, value_empty(r, OP_TO_COPY, u->master, 1, &u->shard_elems));

    mark_block(r, v, MARK_COMMUNICATION);
    (void)work_send(r, (struct work_sending){.what = COLLECTIVE_FROM_HOST, .bytes = bytes_of(u->shard_elems, u->master),
                                             .stream = copy_stream(u->all)});
    return v;
}

/* Allocated on the device once more and filled; copy_() casts. */
static void use_low_precision_shard(struct unit *u)
{
    struct run *r = u->all->r;
    val copied;

    r->stream = copy_stream(u->all);
    storage_resize(r, u->low, OP_EMPTY, bytes_of(u->shard_elems, u->compute));
    mark_block(r, u->low, MARK_COMMUNICATION);
    copied = u->all->offload ? from_host(u) : 0;
    value_unref(r, copied);
    work_add(r, OP_TO_COPY, 0, bytes_of(u->shard_elems, u->master) + bytes_of(u->shard_elems, u->compute), 1);
    use_data(u, u->low, u->shard_elems);
}

/* flat_param_to(device): the flat parameter holds the copy until it has the whole; use_orig_params' parameters until they are views of the shard again. */
static void use_copy_of_shard(struct unit *u, bool gathers)
{
    struct run *r = u->all->r;
    val copied, old = u->copied;

    r->stream = copy_stream(u->all);
    copied = from_host(u);
    use_data(u, copied, u->shard_elems);
    if (gathers) { /* handed over to the stream that gathers it */
        r->stream = gather_stream(u->all);
        record_stream(r, copied);
    }
    u->copied = u->all->o->fsdp.use_orig_params ? copied : 0;
    value_unref(r, u->copied ? old : copied);
}

static void free_storage(struct unit *u, val v)
{
    struct run *r = u->all->r;

    if (run_dead(r) || !held(r, v)) /* of a run out of room a storage has no block */
        return;
    if (r->births[r->storages[r->values[v].storage].block].stream != r->stream)
        record_stream(r, v);
    storage_resize(r, v, OP_EMPTY, 0);
}

/* torch.split and a view of each part, for autograd whatever the mode. */
static void make_views(struct unit *u)
{
    struct run *r = u->all->r;
    bool enabled = r->grad_enabled;
    val *parts = u->all->parts;
    uint32_t n = 0;

    r->grad_enabled = true;
    split_with_sizes(r, u->flat, 0, (int)u->n_pieces, u->lengths, parts);
    for (uint32_t i = 0; i < u->n_pieces; i++) {
        const struct param *p = u->pieces[i].param;
        val old = p ? u->view[n] : 0;

        if (!p) {
            consume(r, parts[i]);
            continue;
        }
        u->view[n++] = owned(r, view(r, parts[i], p->ndim, p->size));
        value_unref(r, old);
    }
    r->grad_enabled = enabled;
    if (!run_dead(r))
        unit_show(u, u->view);
}

/* _use_unsharded_views(): tensor.data = view, and what forward saved is that tensor. What is gathered comes to where it was before. */
static void move_views(struct unit *u)
{
    struct run *r = u->all->r;

    for (uint32_t i = 0; i < u->n_params && !u->all->sharded; i++) {
        const struct param *p = u->params[i];
        val part = u->view[i] ? value_alias(r, u->flat) : 0;

        if (!part)
            continue;
        r->values[part].ndim = (uint8_t)p->ndim;
        for (int k = 0; k < p->ndim; k++)
            r->values[part].size[k] = p->size[k];
        value_strides(&r->values[part]);
        set_data(r, u->view[i], part);
    }
}

static void use_unsharded_flat_param(struct unit *u)
{
    const struct fsdp1 *f = u->all;

    if (f->sharded)
        use_data(u, u->full, u->elems);
    if (u->state == HANDLE_FORWARD)
        make_views(u);
    else if (f->o->fsdp.use_orig_params && u->state == HANDLE_BACKWARD_PRE && !u->skipped_sharded_views) {
        move_views(u);
        unit_show(u, u->view);
    }
}

static void all_gather(struct unit *u, uint32_t host_after)
{
    struct run *r = u->all->r;
    uint64_t bytes = bytes_of(u->shard_elems * u->all->shards, u->compute);
    struct work_group group = {u->all->hybrid ? u->all->shards : 0, u->all->hybrid ? 1 : 0};

    storage_resize(r, u->full, OP_EMPTY, bytes);
    mark_block(r, u->full, MARK_COMMUNICATION);
    u->message = work_send(r, (struct work_sending){COLLECTIVE_ALL_GATHER, bytes, group, gather_stream(u->all), u == root_of(u->all)});
    work_host_after(r, u->message, host_after);
}

/* _limiter_utils.py: from the second one on, the host waits for the oldest. */
static uint32_t limit_gathers(struct fsdp1 *f)
{
    uint32_t kernels;

    if (f->freed.n < MAX_IN_FLIGHT)
        return 0;
    kernels = f->freed.kernels[f->freed.first];
    host_waits_for(f->r, f->freed.position[f->freed.first]);
    f->freed.first = (f->freed.first + 1) % f->freed.room;
    f->freed.n--;
    return kernels;
}

static void note_freed(struct fsdp1 *f)
{
    uint32_t at = (f->freed.first + f->freed.n) % f->freed.room;

    if (!f->o->fsdp.limit_all_gathers || f->freed.n == f->freed.room)
        return;
    f->freed.position[at] = f->r->n_events;
    f->freed.kernels[at] = f->r->work ? f->r->work->n_kernels : 0;
    f->freed.n++;
}

/* _unshard: pre_unshard, the rate limiter, unshard, post_unshard. */
void unit_unshard(struct unit *u)
{
    struct fsdp1 *f = u->all;
    struct run *r = f->r;
    uint8_t stream = r->stream;
    uint32_t host_after;
    bool gathers = f->sharded && !held(r, u->full);

    if (u->low && (gathers || !f->sharded || f->offload))
        use_low_precision_shard(u);
    else if (f->offload)
        use_copy_of_shard(u, gathers);
    host_after = limit_gathers(f);
    r->stream = gather_stream(u->all);
    if (gathers)
        all_gather(u, host_after);
    use_unsharded_flat_param(u);
    if (f->sharded)
        free_storage(u, u->low);
    r->stream = stream;
}

void unit_wait(struct unit *u)
{
    if (u->message)
        work_wait(u->all->r, u->message);
    u->message = 0;
}

/* --------------------------------------------------------------------------------------------------------------- reshard */
static void use_sharded_views(struct unit *u)
{
    struct run *r = u->all->r;

    u->skipped_sharded_views = false;
    for (uint32_t i = 0; i < u->n_params && u->half; i++)
        value_unref(r, u->halves[i]);
    value_unref(r, u->half);
    value_unref(r, u->copied);
    u->copied = u->half = 0;
    unit_show(u, u->original);
    for (uint32_t i = 0; i < u->n_params && u->state == HANDLE_BACKWARD_POST && u->all->sharded; i++) {
        value_unref(r, u->view[i]);
        u->view[i] = 0;
    }
}

static void use_sharded_flat_param(struct unit *u)
{
    const struct fsdp1 *f = u->all;
    val *gradient = grad_of(f->r, u->flat);

    use_data(u, u->local, u->shard_elems);
    if (!f->o->fsdp.use_orig_params)
        return;
    if (f->r->grad_enabled && u->state == HANDLE_FORWARD && f->sharded && !f->reshards_after_forward) {
        u->skipped_sharded_views = true;
        return;
    }
    use_sharded_views(u);
    if (u->state == HANDLE_FORWARD && f->sharded && gradient && *gradient && numel(f->r, *gradient) == u->elems)
        unit_use_unsharded_gradient_views(u);
}

void unit_reshard(struct unit *u, bool free_full)
{
    struct fsdp1 *f = u->all;

    use_sharded_flat_param(u);
    if (free_full) {
        free_storage(u, u->full);
        note_freed(f);
    }
    if (!f->sharded)
        free_storage(u, u->low);
    u->prefetched = false;
}

bool unit_is_resharded(const struct unit *u)
{
    const struct run *r = u->all->r;

    return r->values[u->flat].storage == r->values[u->local].storage && !u->skipped_sharded_views;
}
