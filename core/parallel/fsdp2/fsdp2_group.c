/* fsdp2_group.c - a unit's parameters gathered and let go of: FSDPParamGroup, foreach_all_gather() and foreach_all_gather_copy_out(). */
#include "parallel/fsdp2/inside.h"

#include "torch/autograd.h"

static struct work_group group_of(const struct fsdp2 *f)
{
    return (struct work_group){f->ranks, f->stride};
}

/* _fsdp_state.py _init_shared_state: a root has an FSDPCommContext of its own, and with it streams */
static uint8_t copy_in_stream(const struct fsdp2 *f)
{
    return f->beside ? STREAM_BESIDE_COPY : STREAM_GATHER_COPY;
}

static int64_t shard_elems(const struct fsdp2_unit *u)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < u->n_params; i++)
        n += u->params[i].shard_elems;
    return n;
}

static int64_t shard_bytes(const struct fsdp2_unit *u)
{
    int64_t n = 0;

    for (uint32_t i = 0; i < u->n_params; i++)
        n += u->params[i].shard_elems * (int64_t)dtype_bytes(u->params[i].compute);
    return n;
}

static val flat(struct run *r, enum op op, enum dtype dtype, int64_t elems)
{
    val v = owned(r, value_empty(r, op, dtype, 1, &elems));

    mark_block(r, v, MARK_COMMUNICATION);
    return v;
}

/* ------------------------------------------------------------------------------------------------------------- copy in */
static bool casts(const struct fsdp2_param *p)
{
    return p->stored != p->compute;
}

/* _get_param_all_gather_inputs: shards that the policy casts are cast together, others are taken as they are. */
static val cast_together(struct fsdp2_unit *u)
{
    int64_t elems = 0;

    for (uint32_t i = 0; i < u->n_params; i++)
        elems += casts(&u->params[i]) ? u->params[i].shard_elems : 0;
    return elems ? flat(u->all->r, OP_EMPTY, u->all->compute, elems) : 0;
}

/* FSDPParam.all_gather_inputs under offload: a copy from pinned memory, and its cast. */
static val from_host(struct fsdp2 *f, const struct fsdp2_param *p)
{
    struct run *r = f->r;
    val copied = flat(r, OP_TO_COPY, p->stored, p->shard_elems), cast;

    (void)work_send(r, (struct work_sending){.what = COLLECTIVE_FROM_HOST,
                                             .bytes = (uint64_t)p->shard_elems * dtype_bytes(p->stored),
                                             .stream = copy_in_stream(f)});
    if (!casts(p))
        return copied;
    cast = flat(r, OP_TO_COPY, p->compute, p->shard_elems);
    value_unref(r, copied);
    return cast;
}

struct inputs {
    unsigned char *mark;
    val cast, *copied;
};

static struct inputs copy_in(struct fsdp2_unit *u)
{
    struct run *r = u->all->r;
    struct inputs in = {.mark = r->arena->cur};

    if (!u->all->offload) {
        in.cast = cast_together(u);
        return in;
    }
    in.copied = arena_array(r->arena, val, u->n_params);
    if (!in.copied)
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the copies of a unit");
    for (uint32_t i = 0; in.copied && i < u->n_params; i++)
        in.copied[i] = from_host(u->all, &u->params[i]);
    return in;
}

static void drop_inputs(struct fsdp2_unit *u, struct inputs *in)
{
    struct run *r = u->all->r;

    value_unref(r, in->cast);
    for (uint32_t i = u->n_params; in->copied && i-- > 0;)
        value_unref(r, in->copied[i]);
    arena_rewind(r->arena, in->mark);
}

/* foreach_all_gather: shards are copied into their place in the output. */
static void gather(struct fsdp2_unit *u, enum fsdp2_state as)
{
    struct fsdp2 *f = u->all;
    struct run *r = f->r;
    bool apart = as == FSDP2_FORWARD || as == FSDP2_PRE_BACKWARD, root_begins = f->forward_root == u && !f->n_order;
    uint8_t stream = r->stream;
    struct inputs in;

    r->stream = apart ? copy_in_stream(f) : stream;
    in = copy_in(u);
    u->result = u->bytes ? flat(r, OP_EMPTY, DTYPE_UINT8, shard_bytes(u) * f->ranks)
                         : flat(r, OP_EMPTY, u->params[0].compute, shard_elems(u) * f->ranks);
    u->gather = work_send(r, (struct work_sending){.what = COLLECTIVE_ALL_GATHER,
                                                   .bytes = (uint64_t)shard_bytes(u) * f->ranks,
                                                   .group = group_of(f),
                                                   .stream = f->beside ? STREAM_BESIDE_GATHER : STREAM_GATHER,
                                                   .after_compute = !apart || root_begins});
    drop_inputs(u, &in);
    r->stream = stream;
}

void fsdp2_unshard(struct fsdp2_unit *u, enum fsdp2_state as)
{
    if (u->pending || !u->sharded || !u->n_params || run_dead(u->all->r))
        return;
    u->pending = true;
    if (u->all->ranks > 1)
        gather(u, as);
}

/* ------------------------------------------------------------------------------------------------------------ copy out */
static void show(struct fsdp2 *f, const struct fsdp2_param *p)
{
    p->declared->value = p->gathered;
    f->r->values[p->gathered].parameter = true;
    for (uint32_t i = 0; i < f->n_tied; i++)
        if (f->tied[i]->tied == p->declared)
            f->tied[i]->value = p->gathered;
}

/* init_all_gather_outputs(), alloc_storage(): room for the padding too. */
static void make_whole(struct fsdp2 *f, struct fsdp2_param *p)
{
    struct run *r = f->r;
    const struct param *d = p->declared;
    uint64_t bytes = (uint64_t)p->shard_elems * f->ranks * dtype_bytes(p->compute);

    if (p->gathered) {
        storage_resize(r, p->gathered, OP_EMPTY, bytes);
        mark_block(r, p->gathered, MARK_COMMUNICATION);
        return;
    }
    p->gathered = owned(r, value_new(r, p->compute, d->ndim, d->size));
    value_birth(r, p->gathered, OP_EMPTY, bytes);
    mark_block(r, p->gathered, MARK_COMMUNICATION);
    if (d->requires_grad) {
        require_grad(r, p->gathered);
        pin_leaf(r, p->gathered);
        gradient_dtype(r, p->gathered, p->widens && r->q->fsdp2_widens_by_autograd ? f->reduce : p->compute);
    }
    show(f, p);
}

static void copy_out(struct fsdp2_unit *u)
{
    struct fsdp2 *f = u->all;

    for (uint32_t i = 0; i < u->n_params; i++)
        make_whole(f, &u->params[i]);
    scratch(f->r, OP_CLONE, fsdp2_split_table_bytes(f->r, u));
    work_add(f->r, OP_CLONE, 0, 2 * (uint64_t)shard_bytes(u) * f->ranks, 1);
}

/* A world of one: each shard, cast where the policy says so, is copied; a cast dies when the next one stands. */
static void copy_shards(struct fsdp2_unit *u)
{
    struct fsdp2 *f = u->all;
    struct run *r = f->r;
    val last = 0;

    for (uint32_t i = 0; i < u->n_params; i++) {
        const struct fsdp2_param *p = &u->params[i];
        val input = f->offload ? from_host(f, p) : casts(p) ? flat(r, OP_TO_COPY, p->compute, p->shard_elems) : 0;

        value_unref(r, last);
        last = input;
        make_whole(f, &u->params[i]);
    }
    value_unref(r, last);
}

void fsdp2_release_kept(struct fsdp2 *f)
{
    value_unref(f->r, f->kept);
    f->kept = 0;
}

/* In forward the buffer is kept until the next copy-in has another: the copy-out may overlap the next gather. */
void fsdp2_wait(struct fsdp2_unit *u)
{
    struct fsdp2 *f = u->all;
    val before = 0;

    if (!u->pending || run_dead(f->r))
        return;
    if (u->group_state == FSDP2_FORWARD) {
        before = f->kept;
        f->kept = 0;
    }
    if (f->r->q->fsdp2_frees_before_copy) {
        value_unref(f->r, before);
        before = 0;
    }
    work_wait(f->r, u->gather);
    if (f->ranks > 1)
        copy_out(u);
    else
        copy_shards(u);
    u->sharded = u->pending = false;
    if (u->group_state == FSDP2_FORWARD && f->ranks > 1)
        f->kept = u->result;
    else
        value_unref(f->r, u->result);
    u->result = 0;
    value_unref(f->r, before);
}

/* to_sharded(): the storages of the whole parameters are resized to nothing. */
void fsdp2_reshard(struct fsdp2_unit *u)
{
    if (u->sharded)
        return;
    for (uint32_t i = 0; i < u->n_params; i++)
        storage_resize(u->all->r, u->params[i].gathered, OP_EMPTY, 0);
    u->sharded = true;
}

/* ------------------------------------------------------------------------------------------------------------ backward */
/* _backward_prefetch: the unit that ran before this one in forward. */
static void prefetch(struct fsdp2_unit *u)
{
    uint32_t turn;

    if (!u->n_turns)
        return;
    turn = u->turns[--u->n_turns];
    if (turn)
        fsdp2_unshard(u->all->order[turn - 1], FSDP2_PRE_BACKWARD);
}

void fsdp2_pre_backward(struct fsdp2_unit *u)
{
    if (!u->n_params || u->group_state == FSDP2_PRE_BACKWARD)
        return;
    u->group_state = FSDP2_PRE_BACKWARD;
    fsdp2_unshard(u, u->group_state);
    fsdp2_wait(u);
    fsdp2_gradient_dtypes(u, true);
    prefetch(u);
}

/* _set_unsharded_grad_dtypes: what is reduced at once stays as autograd makes it; what starts to accumulate is widened. */
void fsdp2_gradient_dtypes(struct fsdp2_unit *u, bool defer)
{
    struct fsdp2 *f = u->all;
    struct run *r = f->r;

    if (!r->q->fsdp2_widens_by_autograd)
        return;
    for (uint32_t i = 0; i < u->n_params; i++) {
        const struct fsdp2_param *p = &u->params[i];
        val *grad = p->widens && p->gathered ? grad_of(r, p->gathered) : NULL;

        if (!grad)
            continue;
        if (defer) {
            if (*grad || f->sync)
                gradient_dtype(r, p->gathered, DTYPE_COUNT);
            continue;
        }
        if (*grad && dtype_of(r, *grad) != f->reduce) {
            val old = *grad;

            *grad = owned(r, cast_copy(r, old, f->reduce));
            value_unref(r, old);
        }
        gradient_dtype(r, p->gathered, f->reduce);
    }
}
