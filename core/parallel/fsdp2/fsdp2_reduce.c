/* fsdp2_reduce.c - gradients of a unit: FSDPParamGroup.post_backward(), foreach_reduce(), and the end of a backward. */
#include "parallel/fsdp2/inside.h"

#include "torch/autograd.h"

static val take(struct run *r, val leaf)
{
    val *grad = leaf ? grad_of(r, leaf) : NULL, taken = grad ? *grad : 0;

    if (grad)
        *grad = 0;
    return taken;
}

/* ------------------------------------------------------------------------------------------------------------- one unit */
struct reduction {
    struct fsdp2_unit *u;
    uint32_t n, *of; /* parameters that have a gradient */
    val *grads, last; /* last: held by a name */
    int64_t elems;    /* of a rank's share */
    enum dtype dtype; /* that is reduced in */
};

/* unsharded_grad_data: under tensor parallelism a gradient may be whole where the parameter is cut; this rank's part is copied out of it. */
static val part_of(struct run *r, val grad, val leaf)
{
    val part;

    if (!grad || numel(r, grad) == numel(r, leaf))
        return grad;
    part = owned(r, value_empty(r, OP_CLONE, dtype_of(r, grad), r->values[leaf].ndim, r->values[leaf].size));
    value_unref(r, grad);
    return part;
}

static bool collect(struct reduction *d)
{
    struct run *r = d->u->all->r;

    d->of = arena_array(r->arena, uint32_t, d->u->n_params);
    d->grads = arena_array(r->arena, val, d->u->n_params);
    if (!d->of || !d->grads) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the gradients of a unit");
        return false;
    }
    for (uint32_t i = 0; i < d->u->n_params; i++) {
        struct fsdp2_param *p = &d->u->params[i];
        val grad = part_of(r, p->accumulated ? p->accumulated : take(r, p->gathered), p->gathered);

        p->accumulated = 0;
        if (!grad)
            continue;
        d->grads[d->n] = grad;
        d->of[d->n++] = i;
        d->elems += p->shard_elems;
        d->dtype = d->u->all->mixed ? d->u->all->reduce : p->stored;
    }
    return true;
}

static val flat(struct run *r, enum dtype dtype, int64_t elems, enum mark mark)
{
    val v = owned(r, value_empty(r, OP_EMPTY, dtype, 1, &elems));

    mark_block(r, v, mark);
    return v;
}

/* chunk_cat_mixed_dtype: all gradients into one buffer, each rank's share of each beside the others; then the list of gradients is
 * cleared, the last first. */
static val copy_in(struct reduction *d)
{
    struct fsdp2 *f = d->u->all;
    struct run *r = f->r;
    val input;
    struct fsdp2_chunks c = {0};
    uint64_t bytes = (uint64_t)(d->elems * f->ranks) * dtype_bytes(d->dtype);

    if (!r->q->fsdp2_keeps_reduce_input)
        r->stream = STREAM_REDUCE;
    input = flat(r, d->dtype, d->elems * f->ranks, MARK_COMMUNICATION);
    for (uint32_t i = 0; i < d->n; i++) {
        fsdp2_chunk(&c, (uint64_t)d->u->params[d->of[i]].shard_elems * dtype_bytes(d->dtype));
        bytes += (uint64_t)numel(r, d->grads[i]) * dtype_bytes(dtype_of(r, d->grads[i]));
    }
    scratch(r, OP_CLONE, fsdp2_chunk_table_bytes(&c));
    work_add(r, OP_CLONE, 0, bytes, 1);
    if (r->q->fsdp2_holds_last_gradient)
        value_ref(r, d->last = d->grads[d->n - 1]);
    for (uint32_t i = d->n; i-- > 0;)
        value_unref(r, d->grads[i]);
    return input;
}

static uint32_t send(struct fsdp2 *f, enum collective what, uint64_t bytes, struct work_group group, enum stream_id stream)
{
    return work_send(f->r, (struct work_sending){what, bytes, group, stream, true});
}

static val scatter(struct reduction *d)
{
    struct fsdp2 *f = d->u->all;
    struct run *r = f->r;
    uint64_t bytes = (uint64_t)d->elems * dtype_bytes(d->dtype);
    val output;

    r->stream = STREAM_REDUCE;
    output = flat(r, d->dtype, d->elems, MARK_GRADIENT);
    f->reduction = send(f, COLLECTIVE_REDUCE_SCATTER, bytes * f->ranks, (struct work_group){f->ranks, f->stride}, STREAM_REDUCE);
    if (f->copies > 1)
        f->all_reduction = send(f, COLLECTIVE_ALL_REDUCE, bytes, (struct work_group){f->copies, f->ranks * f->stride}, STREAM_ALL_REDUCE);
    if (f->hybrid)
        r->stream = STREAM_ALL_REDUCE;
    if (f->hybrid && r->q->fsdp2_keeps_reduce_input) {
        value_ref(r, output);
        value_unref(r, d->u->all_reduced);
        d->u->all_reduced = output;
    }
    return output;
}

static val share_of(struct run *r, val whole, val shard)
{
    const struct value *s = &r->values[shard];
    val v = owned(r, value_alias(r, whole));

    if (!v)
        return 0;
    r->values[v].ndim = s->ndim;
    for (int i = 0; i < s->ndim; i++)
        r->values[v].size[i] = s->size[i];
    value_strides(&r->values[v]);
    r->values[v].view = true;
    return v;
}

static void hand_over(struct fsdp2 *f, struct fsdp2_param *p, val whole)
{
    struct run *r = f->r;
    val *grad = p->declared->shard ? grad_of(r, p->declared->shard) : NULL;

    if (f->offload) {
        (void)work_send(r, (struct work_sending){.what = COLLECTIVE_TO_HOST,
                                                 .bytes = (uint64_t)p->shard_elems * dtype_bytes(p->stored),
                                                 .stream = STREAM_REDUCE});
        p->host_gradient = true;
        return;
    }
    if (!grad)
        return;
    if (*grad)
        work_add(r, OP_ADD, (uint64_t)p->shard_elems, 3 * (uint64_t)p->shard_elems * dtype_bytes(p->stored), 1);
    else
        *grad = share_of(r, whole, p->declared->shard);
}

/* In the dtype of the shards: one cast of the whole share; each gradient is a view of it. */
static void accumulate(struct reduction *d, val output)
{
    struct fsdp2 *f = d->u->all;
    struct run *r = f->r;
    enum dtype stored = d->u->params[d->of[0]].stored;
    val cast = stored == d->dtype ? 0 : owned(r, cast_copy(r, output, stored));

    mark_block(r, cast, MARK_GRADIENT);
    for (uint32_t i = 0; i < d->n; i++)
        hand_over(f, &d->u->params[d->of[i]], cast ? cast : output);
    value_unref(r, cast ? output : 0);
    value_unref(r, d->last);
    value_unref(r, cast ? cast : output);
}

static void reduce(struct reduction *d)
{
    struct fsdp2 *f = d->u->all;
    struct run *r = f->r;
    uint8_t stream = r->stream;
    val input, output;

    value_unref(r, d->u->all_reduced);
    d->u->all_reduced = 0;
    input = copy_in(d);
    output = scatter(d);
    accumulate(d, output);
    r->stream = stream;
    if (r->q->fsdp2_keeps_reduce_input)
        f->reduce_input = input;
    else
        value_unref(r, input);
}

/* accumulate_unsharded_grad_if_needed() */
static void add_to_accumulated(struct fsdp2_unit *u)
{
    struct run *r = u->all->r;

    for (uint32_t i = 0; i < u->n_params; i++) {
        const struct fsdp2_param *p = &u->params[i];
        val grad = p->accumulated ? take(r, p->gathered) : 0;

        if (!grad)
            continue;
        launch(r, OP_ADD, p->accumulated, 2, (val[]){p->accumulated, grad});
        value_unref(r, grad);
    }
}

/* to_accumulated_grad_if_needed() */
static void accumulate_wide(struct fsdp2_unit *u)
{
    struct run *r = u->all->r;

    for (uint32_t i = 0; i < u->n_params; i++) {
        struct fsdp2_param *p = &u->params[i];
        val grad = p->widens ? take(r, p->gathered) : 0;

        if (!grad)
            continue;
        p->accumulated = owned(r, cast_copy(r, grad, u->all->reduce));
        value_unref(r, grad);
    }
}

void fsdp2_post_backward(struct fsdp2_unit *u)
{
    struct fsdp2 *f = u->all;
    struct run *r = f->r;
    unsigned char *mark = r->arena->cur;
    struct reduction d = {.u = u};

    if (!u->n_params || run_dead(r))
        return;
    u->group_state = FSDP2_POST_BACKWARD;
    add_to_accumulated(u);
    if (f->sync && !collect(&d))
        return;
    fsdp2_gradient_dtypes(u, false);
    fsdp2_reshard(u);
    if (!f->sync && !r->q->fsdp2_widens_by_autograd)
        accumulate_wide(u);
    if (f->sync && (d.n || r->q->fsdp2_empty_units_free)) {
        work_wait(r, f->reduction);
        value_unref(r, f->reduce_input); /* one at most is kept */
        f->reduce_input = 0;
    }
    if (d.n)
        reduce(&d);
    arena_rewind(r->arena, mark);
}

/* ------------------------------------------------------------------------------------------------------------- the end */
/* finalize_backward() */
static void finish_unit(struct fsdp2_unit *u)
{
    struct fsdp2 *f = u->all;

    value_unref(f->r, u->all_reduced);
    u->all_reduced = 0;
    for (uint32_t i = 0; i < u->n_params && f->offload; i++)
        if (u->params[i].host_gradient) {
            host_waits(f->r);
            u->params[i].host_gradient = false;
        }
    if (u->pending) { /* gathered ahead, and never used */
        value_unref(f->r, u->result);
        u->result = 0;
        u->pending = false;
    }
    u->n_turns = 0;
}

/* _root_post_backward_final_callback: units whose inputs want no gradient are reduced here, the root first. */
void fsdp2_end_backward(struct fsdp2 *f)
{
    f->forward_root = NULL;
    for (uint32_t i = 0; i < f->n_units; i++) {
        struct fsdp2_unit *u = &f->units[i];

        u->to_run = 0;
        if (u->group_state != FSDP2_POST_BACKWARD)
            fsdp2_post_backward(u);
        u->group_state = u->state = FSDP2_IDLE;
    }
    work_wait(f->r, f->reduction);
    work_wait(f->r, f->all_reduction);
    for (uint32_t i = 0; i < f->n_units; i++)
        finish_unit(&f->units[i]);
    fsdp2_release_kept(f);
    f->n_order = 0;
    value_unref(f->r, f->reduce_input);
    f->reduce_input = 0;
    f->queued = false;
}
