/* fsdp1_load.c - units on their way to the device: laid out, moved, flattened, sharded. _flat_param.py, _init_utils.py. */
#include <string.h>
#include "parallel/fsdp1/inside.h"

#include "torch/autograd.h"

enum { ALIGNMENT_BYTES = 16 }; /* _flat_param.py _get_aligned_numel */

/* ------------------------------------------------------------------------------------------------------------- layout */
struct walk {
    struct unit *u;
    uint32_t n_params, n_tied; /* found */
    bool take;                 /* else they are counted */
};

/* Of m's child c, what u has to look through: all of it, the original in it, or nothing (NULL). peft's copy of a module is a unit; its original
 * belongs to whoever is around. */
static struct module *below(const struct unit *u, const struct module *m, struct module *c)
{
    if (u->all->unit_of_module[c->number])
        return c->original;
    return m == u->module && m->weight && c == m->original ? NULL : c;
}

/* Parameters of a module's tree that no unit inside of it has. */
static void find_params(struct walk *w, struct module *m)
{
    struct unit *u = w->u;

    for (struct param *p = m->params; p; p = p->next) {
        if (p->buffer)
            continue;
        if (w->take)
            *(p->tied ? &u->tied[w->n_tied] : &u->params[w->n_params]) = p;
        *(p->tied ? &w->n_tied : &w->n_params) += 1;
    }
    for (struct module *c = m->first; c; c = c->next)
        if (below(u, m, c))
            find_params(w, below(u, m, c));
}

static void add_piece(struct unit *u, struct param *p, int64_t elems)
{
    u->lengths[u->n_pieces] = elems;
    u->pieces[u->n_pieces++] = (struct piece){p, elems};
    u->elems += elems;
}

static void pad_to(struct unit *u, int64_t multiple)
{
    if (u->elems % multiple)
        add_piece(u, NULL, multiple - u->elems % multiple);
}

/* Addresses are aligned, and the whole divides by the ranks, for use_orig_params alone. */
static void lay_out(struct unit *u)
{
    bool align = u->all->o->fsdp.use_orig_params;

    for (uint32_t i = 0; i < u->n_params; i++) {
        if (align)
            pad_to(u, ALIGNMENT_BYTES / dtype_bytes(u->compute));
        add_piece(u, u->params[i], param_numel(u->params[i]));
    }
    if (align)
        pad_to(u, u->all->shards);
    u->shard_elems = u->all->sharded ? div_up(u->elems, u->all->shards) : u->elems;
}

static void tell_dtypes(struct unit *u)
{
    const struct fsdp1 *f = u->all;

    u->master = u->params[0]->dtype;
    u->compute = f->mixed ? f->o->compute : u->master;
    u->reduce = f->mixed ? f->o->fsdp.reduce_dtype : u->master;
    for (uint32_t i = 0; i < u->n_params; i++) {
        u->trained |= u->params[i]->requires_grad;
        if (!f->o->fsdp.use_orig_params && u->params[i]->requires_grad != u->params[0]->requires_grad) /* _validate_tensors_to_flatten */
            run_fail(f->r, ERR_FIELD_CONFLICT, "/training/fsdp/use_orig_params",
                     "Must flatten tensors with uniform `requires_grad` when `use_orig_params=False`");
        if (u->params[i]->dtype != u->master)
            run_fail(f->r, ERR_FIELD_CONFLICT, "/training", "a unit of FullyShardedDataParallel holds parameters of one dtype");
    }
}

/* _flat_param.py _use_unsharded_views(as_params=True): what another name is set to is a view by then, "as_params=True type(prim_param)=<class 'torch.Tensor'>"
 * (traced, 2.15: frozen units alone, none that is offloaded). _use_sharded_grad_views: what was not reduced yet is given to the other name in the dtype
 * that it was computed in. */
static void check_ties(const struct unit *u)
{
    const struct fsdp1 *f = u->all;

    if (!u->n_tied || f->sharded || !f->o->fsdp.use_orig_params)
        return;
    if (u->tied[0]->requires_grad && u->compute != u->master && f->o->gradient_accumulation_steps > 1 && !f->o->sync_each_batch)
        run_fail(f->r, ERR_FIELD_CONFLICT, "/training/gradient_accumulation_steps",
                 "NO_SHARD raises a RuntimeError at tied embeddings whose gradients wait in half: use_orig_params false, sync_each_batch, ddp, or a method "
                 "that shards");
    if (!u->trained && f->offload)
        run_fail(f->r, ERR_FIELD_CONFLICT, "/training/offload",
                 "tied embeddings of a frozen unit under NO_SHARD with offload have no model: ddp, or a method that shards");
    else if (!u->trained)
        run_fail(f->r, ERR_FIELD_CONFLICT, "/training/fsdp/use_orig_params",
                 "NO_SHARD raises an AssertionError at the tied embeddings of a frozen unit: use_orig_params false, ddp, or a method that shards");
}

bool unit_declare(struct unit *u)
{
    struct run *r = u->all->r;
    struct walk w = {.u = u};

    find_params(&w, u->module);
    u->n_params = w.n_params;
    u->n_tied = w.n_tied;
    u->params = run_room(r, sizeof(struct param *), u->n_params);
    u->tied = run_room(r, sizeof(struct param *), u->n_tied);
    u->view = run_room(r, sizeof *u->view, u->n_params);
    u->original = run_room(r, sizeof *u->original, u->n_params);
    u->pieces = run_room(r, sizeof *u->pieces, 2 * (size_t)u->n_params + 1);
    u->lengths = run_room(r, sizeof *u->lengths, 2 * (size_t)u->n_params + 1);
    if (run_dead(r) || !u->n_params)
        return !run_dead(r);
    find_params(&(struct walk){.u = u, .take = true}, u->module);
    u->pre_forward_index = u->post_forward_index = -1;
    tell_dtypes(u);
    check_ties(u);
    lay_out(u);
    return !run_dead(r);
}

/* ------------------------------------------------------------------------------------------------------- to the device */
/* What forward finds under a parameter's names. */
void unit_show(struct unit *u, const val *values)
{
    for (uint32_t i = 0; i < u->n_params; i++)
        u->params[i]->value = values[i];
    for (uint32_t i = 0; i < u->n_tied; i++)
        u->tied[i]->value = u->tied[i]->tied->value;
}

static void move_own(struct run *r, struct module *m, bool buffers)
{
    for (struct param *p = m->params; p; p = p->next) {
        struct param *at = p->tied ? p->tied : p;

        if (p->buffer != buffers || at->value)
            continue;
        at->value = owned(r, value_empty(r, OP_TO_COPY, at->dtype, at->ndim, at->size));
        mark_block(r, at->value, buffers ? MARK_BUFFER : MARK_PARAMETER);
    }
}

/* Breadth first, as _move_module_to_device: all parameters, then all buffers. `level`: how deep. Returns whether there is more below. */
static bool move_level(struct unit *u, struct module *m, int level, bool buffers)
{
    bool more = false;

    if (!level) {
        move_own(u->all->r, m, buffers);
        return m->first != NULL;
    }
    for (struct module *c = m->first; c; c = c->next) {
        struct module *at = below(u, m, c);

        if (at == c)
            more |= move_level(u, c, level - 1, buffers);
        else if (at) /* one level deeper than the unit that it stands in */
            more |= level == 1 || move_level(u, at, level - 2, buffers);
    }
    return more;
}

static void move_to_device(struct unit *u)
{
    for (int buffers = 0; buffers < 2; buffers++)
        for (int level = 0; move_level(u, u->module, level, buffers); level++)
            ;
}

/* torch.ones(..) * value, for each padding */
static void make_padding(struct unit *u, val *padding)
{
    struct run *r = u->all->r;

    for (uint32_t i = 0; i < u->n_pieces; i++) {
        val ones;

        padding[i] = 0;
        if (u->pieces[i].param)
            continue;
        ones = owned(r, value_empty(r, OP_ONES_LIKE, u->master, 1, &u->pieces[i].elems));
        padding[i] = owned(r, value_empty(r, OP_MUL, u->master, 1, &u->pieces[i].elems));
        value_unref(r, ones);
    }
}

static val flatten(struct unit *u)
{
    struct run *r = u->all->r;
    unsigned char *mark = r->arena->cur;
    val *padding = run_room(r, sizeof *padding, u->n_pieces), flat;

    if (!padding)
        return 0;
    make_padding(u, padding);
    flat = owned(r, value_empty(r, OP_CAT, u->master, 1, &u->elems));
    for (uint32_t i = 0; i < u->n_pieces; i++)
        value_unref(r, padding[i]);
    arena_rewind(r->arena, mark);
    return flat;
}

/* _get_shard: a clone of the rank's chunk, padded where the last ones are short; the whole is resized to nothing. */
static val shard_of(struct unit *u, val flat)
{
    struct run *r = u->all->r;
    int64_t begin = u->shard_elems * u->all->rank, left = u->elems > begin ? u->elems - begin : 0;
    int64_t chunk = left < u->shard_elems ? left : u->shard_elems;
    val shard = owned(r, value_empty(r, OP_CLONE, u->master, 1, &chunk)), unpadded = shard;

    if (chunk < u->shard_elems) {
        shard = owned(r, value_empty(r, OP_CAT, u->master, 1, &u->shard_elems));
        storage_resize(r, flat, OP_EMPTY, 0);
        value_unref(r, unpadded);
    }
    value_unref(r, flat);
    mark_block(r, shard, MARK_PARAMETER);
    return shard;
}

/* Where a parameter lies in this rank's shard: elements, 0 for none. */
static int64_t elems_in_shard(const struct unit *u, int64_t from, int64_t elems)
{
    int64_t begin = u->all->sharded ? u->shard_elems * u->all->rank : 0, end = begin + u->shard_elems;
    int64_t first = from > begin ? from : begin, last = from + elems < end ? from + elems : end;

    return last > first ? last - first : 0;
}

/* A view of `elems` of a flat tensor, shaped as the parameter where that is whole. */
static val part_of(struct run *r, val flat, int64_t elems, const struct param *shape)
{
    val v = owned(r, elems ? value_alias(r, flat) : value_new(r, dtype_of(r, flat), 1, &elems));
    struct value *x = &r->values[v];

    if (!v)
        return 0;
    x->ndim = shape ? (uint8_t)shape->ndim : 1;
    for (int i = 0; i < x->ndim; i++)
        x->size[i] = shape ? shape->size[i] : elems;
    value_strides(x);
    x->view = true;
    return v;
}

static void make_originals(struct unit *u)
{
    int64_t at = 0;
    uint32_t n = 0;

    for (uint32_t i = 0; i < u->n_pieces; at += u->pieces[i++].elems) {
        struct param *p = u->pieces[i].param;

        if (!p)
            continue;
        u->original[n] = part_of(u->all->r, u->local, elems_in_shard(u, at, u->pieces[i].elems), u->all->sharded ? NULL : p);
        p->shard = u->original[n++];
    }
}

/* flat_param_to(cpu): the shard leaves the device as soon as it is made. Of NO_SHARD the views of __init__ hold what was flattened until they are replaced,
 * in the first forward; original parameters move along. */
static void leave_for_host(struct unit *u)
{
    struct run *r = u->all->r;
    val shard = u->local;

    u->local = owned(r, value_new(r, u->master, 1, &u->shard_elems));
    if (!u->all->sharded && !u->all->o->fsdp.use_orig_params)
        u->seen = shard;
    else
        value_unref(r, shard);
}

static void make_leaf(struct unit *u)
{
    struct run *r = u->all->r;

    u->flat = owned(r, value_alias(r, u->local));
    if (!u->trained || run_dead(r))
        return;
    require_grad(r, u->flat);
    pin_leaf(r, u->flat);
    if (!run_dead(r)) /* made where parameters are gathered: what runs after it runs on that stream */
        r->nodes[accumulate_node(r, u->flat)].stream = STREAM_GATHER;
}

/* What the optimizer and forward know a unit's shard by: `shown`, the dtype of views of what was flattened, which stand until they are gathered. */
static void stand(struct unit *u, enum dtype shown)
{
    make_leaf(u);
    if (u->all->o->fsdp.use_orig_params) {
        make_originals(u);
        unit_show(u, u->half ? u->halves : u->original);
        return;
    }
    for (uint32_t i = 0; i < u->n_params; i++)
        if ((u->view[i] = part_of(u->all->r, u->seen ? u->seen : u->local, param_numel(u->params[i]), u->params[i])))
            u->all->r->values[u->view[i]].dtype = (uint8_t)shown;
    unit_show(u, u->view);
    value_unref(u->all->r, u->seen);
    u->seen = 0;
}

static bool upcasts(const struct unit *u)
{
    return u->all->o->upcasts && u->trained && u->master != DTYPE_FP32;
}

/* accelerator.py prepare_model, once all units are wrapped; original parameters are views of the old shard until they are shown anew. */
void unit_upcast(struct unit *u)
{
    struct run *r = u->all->r;
    enum dtype loaded = u->master;
    val half = u->local;

    if (!upcasts(u) || run_dead(r))
        return;
    if (u->all->o->fsdp.use_orig_params) {
        u->half = half;
        u->halves = u->original;
        u->original = run_room(r, sizeof *u->original, u->n_params);
        if (!u->original)
            return;
    }
    u->master = DTYPE_FP32;
    u->local = owned(r, u->all->offload ? value_new(r, u->master, 1, &u->shard_elems) : value_empty(r, OP_TO_COPY, u->master, 1, &u->shard_elems));
    mark_block(r, u->local, MARK_PARAMETER);
    stand(u, loaded);
    if (!u->half)
        value_unref(r, half);
}

/* What stood on the device before it was flattened: replaced one by one, or a list that lets go of its last first. */
static void drop_moved(struct unit *u, const val *moved)
{
    struct run *r = u->all->r;
    bool in_order = u->all->o->fsdp.use_orig_params;

    for (uint32_t i = 0; i < u->n_params; i++)
        value_unref(r, moved[in_order ? i : u->n_params - 1 - i]);
}

void unit_load(struct unit *u)
{
    struct run *r = u->all->r;
    unsigned char *mark = r->arena->cur;
    val *moved, flat;

    move_to_device(u);
    moved = run_room(r, sizeof *moved, u->n_params);
    if (!moved || !u->n_params)
        return;
    for (uint32_t i = 0; i < u->n_params; i++)
        moved[i] = u->params[i]->value;
    flat = flatten(u);
    u->local = u->all->sharded ? shard_of(u, flat) : flat;
    mark_block(r, u->local, MARK_PARAMETER);
    if (u->all->offload)
        leave_for_host(u);
    if (!upcasts(u))
        stand(u, u->master);
    else if (u->all->o->fsdp.use_orig_params)
        make_originals(u);
    drop_moved(u, moved);
    arena_rewind(r->arena, mark);
}
