/* fsdp1_reduce.c - gradients of flat parameters: _runtime_utils.py _post_backward_hook from the cast on, _flat_param.py prepare_gradient_*. */
#include "parallel/fsdp1/inside.h"

#include "torch/autograd.h"
#include "torch/work.h"

#include <string.h>

static val *flat_gradient(const struct unit *u)
{
    return grad_of(u->all->r, u->flat);
}

static void drop_value(struct run *r, val *v)
{
    val old = *v;

    *v = 0;
    value_unref(r, old);
}

/* ----------------------------------------------------------------------------------------------- views of the parameters */
/* A view of a flat gradient in the shape of a parameter of the optimizer. */
static val part_of_gradient(struct run *r, val whole, val like)
{
    const struct value *p = &r->values[like];
    val part = owned(r, value_alias(r, whole));
    struct value *x = &r->values[part];

    if (!part)
        return 0;
    for (int k = 0; k < p->ndim; k++)
        x->size[k] = p->size[k];
    x->ndim = p->ndim;
    value_strides(x);
    x->view = true;
    return part;
}

/* The gradient of each parameter of the optimizer: its part of the sharded flat one, None where the rank has none of it. */
static void use_sharded_gradient_views(struct unit *u, val whole)
{
    struct run *r = u->all->r;

    u->frozen_shown = false;
    for (uint32_t i = 0; i < u->n_params && !run_dead(r); i++) {
        val like = u->original[i], *g = u->params[i]->requires_grad ? grad_of(r, like) : NULL, old;

        if (!g)
            continue;
        old = *g;
        *g = r->values[like].storage ? part_of_gradient(r, whole, like) : 0;
        value_unref(r, old);
    }
}

/* NO_SHARD's parameters, and a vector that lies within the shard, are as their gradients are. */
static bool fits_gradient(const struct run *r, const struct param *of, const struct value *p, val whole)
{
    return p->dtype == r->values[whole].dtype && p->ndim == of->ndim && !memcmp(p->size, of->size, (size_t)of->ndim * sizeof *of->size);
}

/* While gradients are not reduced: an empty gradient is made for each parameter that is not as its part of the whole one, and pointed at that; a frozen one's
 * too, whose view here has no place of its own: the whole one outlives it. */
void unit_use_unsharded_gradient_views(struct unit *u)
{
    struct run *r = u->all->r;
    val whole = *flat_gradient(u);

    for (uint32_t i = 0; i < u->n_params; i++) {
        const struct value *p = &r->values[u->original[i]];
        bool frozen = !u->params[i]->requires_grad, fits = fits_gradient(r, u->params[i], p, whole);
        val *g = frozen ? NULL : grad_of(r, u->original[i]), old = g ? *g : 0;

        if (!fits && (g ? !*g : frozen && !u->frozen_shown))
            old = owned(r, value_empty(r, OP_EMPTY, (enum dtype)p->dtype, p->ndim, p->size));
        if (!g) {
            value_unref(r, old);
            continue;
        }
        *g = owned(r, value_alias(r, whole));
        r->values[*g].view = true;
        value_unref(r, old);
    }
    u->frozen_shown = true;
}

/* _reset_flat_param_grad_info_if_needed */
void unit_reset_gradient(struct unit *u)
{
    struct run *r = u->all->r;
    val *flat = u->flat ? flat_gradient(u) : NULL;

    if (!u->all->o->fsdp.use_orig_params || u->all->offload || !flat || !*flat) /* on the host it is None, or whole while nothing is reduced */
        return;
    for (uint32_t i = 0; i < u->n_params; i++) {
        val *g = grad_of(r, u->original[i]);

        if (g && *g)
            return;
    }
    drop_value(r, flat);
}

/* --------------------------------------------------------------------------------------------------------------- before, after */
/* The sharded gradient of earlier micro-batches waits beside; one that was not reduced stays and is added to. */
void unit_prepare_for_backward(struct unit *u)
{
    struct run *r = u->all->r;
    val *g = u->trained ? flat_gradient(u) : NULL;

    if (!g || !*g || !u->all->sharded || numel(r, *g) == u->elems)
        return;
    value_unref(r, u->saved_gradient);
    u->saved_gradient = *g;
    *g = 0;
}

void unit_prepare_for_optimizer(struct unit *u)
{
    struct run *r = u->all->r;
    val *g = flat_gradient(u);

    if (u->all->offload) { /* flat_param.grad = _cpu_grad */
        drop_value(r, g);
        drop_value(r, &u->saved_gradient);
        return;
    }
    if (!u->saved_gradient)
        return;
    if (u->post_backward_called) {
        value_unref(r, *g);
        *g = u->saved_gradient;
    } else {
        value_unref(r, u->saved_gradient);
    }
    u->saved_gradient = 0;
}

/* ------------------------------------------------------------------------------------------------------------- reduction */
static val cast(struct run *r, val v, enum dtype to)
{
    val out = owned(r, value_empty(r, OP_TO_COPY, to, 1, r->values[v].size));

    work_add(r, OP_TO_COPY, 0, (uint64_t)numel(r, v) * (dtype_bytes(dtype_of(r, v)) + dtype_bytes(to)), 1);
    return out;
}

/* sharded_grad.data = sharded_grad.data.to(dtype): what it was dies when the cast stands. */
static val cast_to_param_dtype(struct unit *u, val v)
{
    struct run *r = u->all->r;
    val out;

    if (dtype_of(r, v) == u->master)
        return v;
    out = cast(r, v, u->master);
    value_unref(r, v);
    return out;
}

/* _offload_grad: copied into pinned memory; the sharded gradient stays until backward has ended. */
static void offload_gradient(struct unit *u, int64_t elems)
{
    struct run *r = u->all->r;

    if (!u->all->offload)
        return;
    (void)work_send(r, (struct work_sending){.what = COLLECTIVE_TO_HOST,
                                             .bytes = (uint64_t)elems * dtype_bytes(u->master),
                                             .stream = STREAM_REDUCE});
}

static void accumulate_sharded(struct unit *u, val sharded)
{
    struct run *r = u->all->r;

    sharded = cast_to_param_dtype(u, sharded);
    if (u->saved_gradient) {
        work_add(r, OP_ADD, (uint64_t)u->shard_elems, 3 * (uint64_t)u->shard_elems * dtype_bytes(u->master), 1);
        value_unref(r, sharded);
    } else {
        mark_block(r, sharded, MARK_GRADIENT);
        u->saved_gradient = sharded;
    }
    offload_gradient(u, u->shard_elems);
    if (u->all->o->fsdp.use_orig_params)
        use_sharded_gradient_views(u, u->saved_gradient);
}

static void send(struct unit *u, enum collective what, uint64_t bytes)
{
    struct fsdp1 *f = u->all;
    struct work_group group = {f->hybrid ? f->shards : 0, f->hybrid ? 1 : 0};

    f->last_reduce = work_send(f->r, (struct work_sending){what, bytes, group, STREAM_REDUCE, true});
}

/* The replicas of a shard average it, on a stream of their own. */
static void all_reduce_replicas(struct unit *u, val sharded)
{
    struct fsdp1 *f = u->all;
    struct run *r = f->r;
    uint64_t bytes = (uint64_t)u->shard_elems * dtype_bytes(u->reduce);
    struct work_group group = {f->o->at.data_parallel / f->shards, f->shards};

    r->stream = STREAM_ALL_REDUCE;
    record_stream(r, sharded);
    f->last_all_reduce = work_send(r, (struct work_sending){COLLECTIVE_ALL_REDUCE, bytes, group, STREAM_ALL_REDUCE, true});
    accumulate_sharded(u, sharded);
    r->stream = STREAM_REDUCE;
}

/* _reduce_grad: the gradient is padded to the ranks, scattered into a shard, added to what is there. `whole`: owned, dies here. */
static void reduce_grad(struct unit *u, val whole)
{
    struct run *r = u->all->r;
    int64_t padded = u->shard_elems * u->all->shards;
    val input = whole, sharded;

    if (padded > u->elems) {
        input = owned(r, value_empty(r, OP_CAT, dtype_of(r, whole), 1, &padded));
        mark_block(r, input, MARK_COMMUNICATION);
    }
    sharded = owned(r, value_empty(r, OP_EMPTY, dtype_of(r, whole), 1, &u->shard_elems));
    send(u, COLLECTIVE_REDUCE_SCATTER, (uint64_t)padded * dtype_bytes(u->reduce));
    if (run_dead(r))
        return;
    if (u->all->hybrid)
        all_reduce_replicas(u, sharded);
    else
        accumulate_sharded(u, sharded);
    value_unref(r, whole);
    if (input != whole)
        value_unref(r, input);
}

/* _reduce_grad_no_shard: in place, and the whole gradient stays. */
static void reduce_grad_no_shard(struct unit *u, val *g)
{
    struct run *r = u->all->r;

    send(u, COLLECTIVE_ALL_REDUCE, (uint64_t)u->elems * dtype_bytes(dtype_of(r, *g)));
    *g = cast_to_param_dtype(u, *g);
    mark_block(r, *g, MARK_GRADIENT);
    offload_gradient(u, u->elems);
    if (u->all->o->fsdp.use_orig_params)
        use_sharded_gradient_views(u, *g);
}

void unit_reduce_gradient(struct unit *u)
{
    struct run *r = u->all->r;
    uint8_t stream = r->stream;
    val *g = flat_gradient(u), computed = *g, whole;

    r->stream = STREAM_REDUCE;
    mark_block(r, computed, MARK_COMMUNICATION);
    value_ref(r, computed);
    if (dtype_of(r, computed) != u->reduce) {
        *g = cast(r, computed, u->reduce);
        mark_block(r, *g, MARK_COMMUNICATION);
        value_unref(r, computed);
    }
    if (u->all->sharded) {
        whole = *g;
        *g = 0;
        reduce_grad(u, whole);
    } else {
        reduce_grad_no_shard(u, g);
    }
    record_stream(r, computed);
    value_unref(r, computed);
    r->stream = stream;
}
