#include "torch/offload.h"

#include "base/budget.h"
#include "torch/alloc.h"
#include "torch/autograd.h"
#include "torch/hooks.h"

#include <string.h>

enum { STASH = 5, MIN_BYTES = 1024, BACK = 256 }; /* max_fwd_stash_size, min_offload_size; what a node and the one before it bring back */
enum { BLOCKS = 1 << 16 };                        /* of the allocator that is followed */

/* What a tensor is known by: where it lies, which may be where another lay that is gone, and its dtype. */
struct key {
    uint64_t place; /* 0: none */
    uint8_t dtype;
};

/* tracker[id]: the tensor itself, or its shape and that it is on the host. */
struct tracked {
    val v;           /* 0: unpacked, or never made */
    struct key handed; /* what it is known by, while that is tracked */
    int64_t elems;   /* of the storage, where dimensions are broadcast; 0: as the shape says */
    bool moved, wants; /* wants: a gradient was wanted of it */
};

struct offloading {
    struct torch_alloc *alloc; /* has seen the tape's first `seen` events; NULL: there is no room for it */
    uint32_t seen;
    struct tracked *of;
    uint32_t n, max, oldest; /* stash: ids from oldest on that hold `stash` */
    struct {
        uint32_t id, node; /* back: that brought it */
        val v;
    } stash[STASH + 1], back[BACK];
    uint32_t n_stash, n_back, n_before; /* back: brought back; the first n_before by nodes before this one */
    uint32_t node, graph;               /* that unpacked last, and is held with the leaves behind it until another does; whose nodes let go of what
                                         * others brought back: a checkpoint's inner ones do not */
    uint32_t unpacked_by[2];            /* nodes that have not run yet, of inner graphs and of this one; 0: none */
    uint32_t n_tracked;                 /* saved, and not unpacked yet: none left means that another forward begins, a checkpoint's last too */
    bool paused, waits_for_end, by_place;
    uint64_t host_bytes, most_host_bytes;
};

struct offloading *offload_new(struct run *r, uint32_t saves, bool by_place)
{
    struct offloading *o = run_room(r, sizeof *o, 1);

    if (!o)
        return NULL;
    *o = (struct offloading){.max = saves, .by_place = by_place};
    o->of = run_room(r, sizeof *o->of, saves);
    if (o->of && torch_alloc_new(r->arena, &(struct torch_alloc_options){.max_live = r->room_births, .max_blocks = BLOCKS}, &o->alloc, &(struct err){0}))
        o->alloc = NULL;
    return o->of ? o : NULL;
}

static void follow(struct run *r, struct offloading *o)
{
    uint32_t grown = r->n_events - o->seen;

    if (!o->alloc || budget_take(r->arena->budget, grown / EVENTS_REPLAYED, &r->error))
        return;
    for (; o->seen < r->n_events; o->seen++) {
        uint32_t e = r->events[o->seen], block = e & EVENT_BLOCK;

        if (e == EVENT_RELEASE)
            torch_alloc_empty_cache(o->alloc);
        else if (!event_is_of_block(e))
            continue;
        else if (e & EVENT_DEATH)
            torch_alloc_give(o->alloc, block);
        else
            (void)torch_alloc_take(o->alloc, block, r->births[block].bytes, r->births[block].stream);
    }
}

static struct key key_of(struct run *r, struct offloading *o, val v)
{
    const struct value *x = &r->values[v];
    uint32_t block = r->storages[x->storage].block;
    uint64_t address;

    if (block == NO_BLOCK)
        return (struct key){0};
    follow(r, o);
    address = o->alloc ? torch_alloc_address(o->alloc, block) : 0;
    return (struct key){(address ? address : UINT64_C(1) << 63 | (uint64_t)block << 40) + (uint64_t)x->offset, x->dtype};
}

static void drop_stash(struct run *r, struct offloading *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        o->of[o->stash[i].id].handed.place = 0;
        value_unref(r, o->stash[i].v);
    }
    o->n_stash -= n;
    memmove(o->stash, o->stash + n, o->n_stash * sizeof *o->stash);
}

static void drop_back(struct run *r, struct offloading *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        value_unref(r, o->back[i].v);
    o->n_back -= n;
    memmove(o->back, o->back + n, o->n_back * sizeof *o->back);
    o->n_before -= n < o->n_before ? n : o->n_before;
}

static void forget(struct run *r, struct offloading *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        value_unref(r, o->of[i].v);
    drop_stash(r, o, o->n_stash);
    drop_back(r, o, o->n_back);
    o->n = o->n_tracked = 0;
    o->host_bytes = 0;
}

void offload_enter(struct run *r, struct offloading *o)
{
    forget(r, o);
    o->waits_for_end = false;
    r->offload = o;
    empty_cache(r); /* bitsandbytes is in sys.modules: trl imports peft, whose tuners/lora/bnb.py imports it */
}

void offload_leave(struct run *r)
{
    struct offloading *o = r->offload;

    if (!o)
        return;
    drop_back(r, o, o->n_back);
    drop_stash(r, o, o->n_stash);
    r->offload = NULL;
}

void offload_pause(struct run *r, bool paused)
{
    if (r->offload)
        r->offload->paused = paused;
}

bool offload_packs(const struct run *r)
{
    return r->offload && !r->offload->paused;
}

static bool is_same(const struct tracked *t, struct key key)
{
    return t->handed.place == key.place && t->handed.dtype == key.dtype;
}

/* storage_to_tensor_id: what the stash holds, and what was saved beside it and stays */
static bool is_tracked(const struct offloading *o, struct key key)
{
    for (uint32_t i = 0; i < o->n_stash; i++)
        if (key.place && is_same(&o->of[o->stash[i].id], key))
            return true;
    for (uint32_t i = 0; i < o->n; i++)
        if (key.place && o->of[i].v && !o->of[i].moved && is_same(&o->of[i], key))
            return true;
    return false;
}

/* isinstance(nn.Parameter), param_storages */
static bool is_parameter(const struct run *r, const struct offloading *o, val v)
{
    const struct storage *s = &r->storages[r->values[v].storage];

    if (!o->by_place)
        return r->values[v].parameter;
    return !run_dead(r) && s->block != NO_BLOCK && r->births[s->block].mark == MARK_PARAMETER;
}

static bool broadcasts(const struct value *x)
{
    for (int i = 0; i < x->ndim; i++)
        if (x->stride[i] == 0)
            return true;
    return false;
}

static val shape_of(struct run *r, val v, bool with_strides)
{
    const struct value *x = &r->values[v];
    val shape = value_new(r, (enum dtype)x->dtype, x->ndim, x->size);

    if (shape) {
        r->values[shape].floating = false;
        if (with_strides)
            memcpy(r->values[shape].stride, r->values[v].stride, sizeof r->values[v].stride);
    }
    return shape;
}

static void move_to_host(struct run *r, struct offloading *o, uint32_t id, val v, struct key key)
{
    struct tracked *t = &o->of[id];
    bool broadcast = broadcasts(&r->values[v]);
    uint32_t old = 0;
    uint64_t bytes;
    val moved = v;

    if (!broadcast && (!r->values[v].contiguous || r->values[v].offset))
        moved = owned(r, cast_copy(r, v, dtype_of(r, v)));
    else
        value_ref(r, moved);
    while (old < o->n_stash && o->stash[old].id + STASH <= id)
        old++;
    drop_stash(r, o, old);
    t->moved = true;
    t->elems = broadcast ? (int64_t)(r->storages[r->values[v].storage].bytes / dtype_bytes(dtype_of(r, v))) : 0;
    t->v = shape_of(r, moved, broadcast);
    t->handed = key;
    bytes = (uint64_t)(t->elems ? t->elems : numel(r, moved)) * dtype_bytes(dtype_of(r, moved));
    o->host_bytes += bytes;
    if (o->host_bytes > o->most_host_bytes)
        o->most_host_bytes = o->host_bytes;
    (void)work_send(r, (struct work_sending){.what = COLLECTIVE_TO_HOST, .bytes = bytes, .stream = STREAM_COPY, .after_compute = true});
    if (o->n_stash == STASH + 1)
        drop_stash(r, o, 1);
    o->stash[o->n_stash].id = id;
    o->stash[o->n_stash++].v = moved;
}

/* is_first_forward_call: whose unpacking comes next is the graph that counts, and nothing is known any more */
static void begin_forward(struct offloading *o)
{
    o->waits_for_end = false;
    for (uint32_t i = 0; i < o->n; i++)
        o->of[i].handed.place = 0;
}

uint32_t offload_pack(struct run *r, val v)
{
    struct offloading *o = r->offload;
    uint32_t id = o->n;
    struct tracked *t = &o->of[id];
    struct key key;
    bool seen;

    if (o->n == o->max) {
        run_fail(r, ERR_NOMEM, "", "more tensors are saved than the model of activation offload holds");
        return 0;
    }
    if (!o->n_tracked++)
        begin_forward(o);
    if (r->q->storages_count_wrappers && r->storages[r->values[v].storage].block != NO_BLOCK)
        r->births[r->storages[r->values[v].storage].block].wrapped = true; /* _get_unique_tensor_key: untyped_storage() */
    key = key_of(r, o, v);
    seen = is_tracked(o, key);
    o->n++;
    *t = (struct tracked){.wants = wants_grad(r, v)};
    if (!seen && (uint64_t)numel(r, v) * dtype_bytes(dtype_of(r, v)) >= MIN_BYTES && !is_parameter(r, o, v)) {
        move_to_host(r, o, id, v, key);
        return id;
    }
    t->v = owned(r, value_alias(r, v));
    if (seen)
        t->handed = key;
    return id;
}

static void end_of_backward(struct run *r, void *of)
{
    struct offloading *o = of;

    drop_back(r, o, o->n_back);
    o->waits_for_end = false;
}

static val bring_back(struct run *r, const struct tracked *t)
{
    const struct value shape = r->values[t->v];
    uint8_t stream = r->stream;
    val v, out;

    r->stream = STREAM_COPY;
    v = owned(r, t->elems ? value_empty(r, OP_TO_COPY, (enum dtype)shape.dtype, 1, &t->elems)
                          : value_empty(r, OP_TO_COPY, (enum dtype)shape.dtype, shape.ndim, shape.size));
    r->stream = stream;
    work_wait(r, work_send(r, (struct work_sending){.what = COLLECTIVE_FROM_HOST,
                                                    .bytes = (uint64_t)numel(r, v) * dtype_bytes(dtype_of(r, v)),
                                                    .stream = STREAM_COPY}));
    if (!t->elems || !v)
        return v;
    out = owned(r, value_alias(r, v));
    value_unref(r, v);
    r->values[out].ndim = shape.ndim;
    memcpy(r->values[out].size, shape.size, sizeof shape.size);
    memcpy(r->values[out].stride, shape.stride, sizeof shape.stride);
    r->values[out].view = true;
    r->values[out].contiguous = false;
    return out;
}

static val stashed(const struct offloading *o, uint32_t id)
{
    for (uint32_t i = 0; i < o->n_stash; i++)
        if (o->stash[i].id == id)
            return o->stash[i].v;
    return 0;
}

val offload_unpack(struct run *r, uint32_t id)
{
    struct offloading *o = r->offload;
    struct tracked *t = o && id < o->n ? &o->of[id] : NULL;
    val v;

    if (!t || !t->v)
        return 0;
    if (!o->waits_for_end) {
        hook_backward_end(r, end_of_backward, o);
        o->graph = r->graph;
    }
    o->waits_for_end = true;
    v = t->v;
    if (t->moved) {
        val shape = v;

        if (r->graph == o->graph && o->node != r->node_running) {
            node_ref(r, r->node_running);
            node_unref(r, o->node);
            o->node = r->node_running;
            o->n_before = o->n_back;
        }
        o->unpacked_by[r->graph == o->graph] = r->node_running;
        v = stashed(o, id);
        if (v) {
            value_ref(r, v);
        } else {
            v = bring_back(r, t);
            if (o->n_back == BACK)
                run_fail(r, ERR_NOMEM, "", "a node brings more tensors back than the model of activation offload holds");
            else {
                value_ref(r, v);
                o->back[o->n_back].id = id;
                o->back[o->n_back].node = r->node_running;
                o->back[o->n_back++].v = v;
            }
        }
        o->host_bytes -= (uint64_t)(t->elems ? t->elems : numel(r, shape)) * dtype_bytes(dtype_of(r, shape));
        value_unref(r, shape);
    }
    if (v && t->wants)
        r->values[v].requires_grad = true;
    *t = (struct tracked){0};
    o->n_tracked--;
    return v;
}

static void forget_back(struct run *r, struct offloading *o, uint32_t i)
{
    value_unref(r, o->back[i].v);
    o->n_back--;
    memmove(&o->back[i], &o->back[i + 1], (o->n_back - i) * sizeof *o->back);
    if (i < o->n_before)
        o->n_before--;
}

/* What somebody holds beside the node that brought it back (an output that is a view, what a checkpoint's recomputation saves) is that one's from now on. */
static void hand_over(struct run *r, struct offloading *o)
{
    for (uint32_t i = o->n_back; i-- > 0;) {
        val v = o->back[i].v;

        if (o->back[i].node != r->node_running || (r->values[v].refs == 1 && r->storages[r->values[v].storage].refs == 1))
            continue;
        record_stream(r, v);
        forget_back(r, o, i);
    }
}

/* The hook of each tensor that was moved: the stash of forward goes, and what nodes before this one brought back. */
void offload_ran(struct run *r)
{
    struct offloading *o = r->offload;

    bool own = o && r->graph == o->graph;

    if (!o || !o->unpacked_by[own] || o->unpacked_by[own] != r->node_running)
        return;
    o->unpacked_by[own] = 0;
    hand_over(r, o);
    drop_stash(r, o, o->n_stash);
    if (!own)
        return;
    drop_back(r, o, o->n_before);
    o->n_before = 0;
}

uint64_t offload_host_bytes(const struct offloading *o)
{
    return o->most_host_bytes;
}
