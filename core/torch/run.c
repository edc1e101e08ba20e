#include "base/budget.h"
#include "base/buf.h"
#include "torch/hooks.h"
#include "torch/module.h"
#include "torch/views.h"
#include "torch/work.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *dtype_name(enum dtype t)
{
    static const char *const names[DTYPE_COUNT] = {"bool", "uint8", "int32", "int64", "fp16", "bf16", "fp32", "fp64", "complex64"};

    return names[t];
}

/* c10/core/ScalarType.h */
const char *scalar_type(enum dtype t)
{
    static const char *const names[DTYPE_COUNT] = {"Bool", "Byte", "Int", "Long", "Half", "BFloat16", "Float", "Double", "ComplexFloat"};

    return names[t];
}

unsigned dtype_bytes(enum dtype t)
{
    static const uint8_t bytes[DTYPE_COUNT] = {1, 1, 4, 8, 2, 2, 4, 8, 8};

    return bytes[t];
}

enum { COUNT_EVERY = 4096 }; /* births */

/* ------------------------------------------------------------------------------------------------------------- pools */
enum err_code run_init(struct run *r, struct arena *arena, const struct quirks *q, struct device device, struct run_limits limits,
                       struct err *err)
{
    *r = (struct run){.arena = arena, .q = q, .device = device, .grad_enabled = true};
    r->cudnn_attention = device_prefers_cudnn(q, &device);
    r->max_values = limits.values;
    r->max_storages = limits.storages;
    r->max_nodes = limits.nodes;
    r->room_births = limits.births;
    r->max_births = limits.births < COUNT_EVERY ? limits.births : COUNT_EVERY;
    r->max_marks = limits.marks + 2; /* EVENT_RELEASE, a wrapper's and the loop's */
    r->max_events = 2 * limits.births + r->max_marks;
    r->max_locals = 4096;
    r->max_ready = limits.nodes;
    r->max_casts = limits.values / 8;
    r->births = arena_array_raw(arena, struct birth, limits.births); /* the tape first: run_tape_alone() */
    r->events = arena_array_raw(arena, uint32_t, r->max_events);
    r->values = arena_array_raw(arena, struct value, limits.values);
    r->storages = arena_array_raw(arena, struct storage, limits.storages);
    r->nodes = arena_array_raw(arena, struct node, limits.nodes);
    r->locals = arena_array_raw(arena, val, r->max_locals);
    r->ready = arena_array_raw(arena, uint32_t, r->max_ready);
    r->casts = arena_array_raw(arena, val, r->max_casts);
    r->max_hooks = limits.hooks;
    r->hooks = arena_array_raw(arena, struct hook, limits.hooks + 1);
    if (!r->hooks || !r->values || !r->storages || !r->nodes || !r->births || !r->events || !r->locals || !r->ready || !r->casts)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for a run of this model");
    r->n_values = r->n_storages = r->n_nodes = 1; /* 0 is None */
    memset(r->values, 0, sizeof *r->values);
    memset(r->storages, 0, sizeof *r->storages);
    memset(r->nodes, 0, sizeof *r->nodes);
    return ERR_OK;
}

void run_tape_alone(struct run *r)
{
    size_t bytes = r->n_events * sizeof *r->events;

    r->events = memmove(r->births + r->n_births, r->events, bytes);
    arena_rewind(r->arena, (unsigned char *)r->events + bytes);
}

void run_fail(struct run *r, enum err_code code, const char *at, const char *detail)
{
    if (!r->error.code)
        (void)err_set(&r->error, code, at, "%s", detail);
}

bool run_raise(struct run *r, const char *format, ...)
{
    static const char kind[] = "RuntimeError: ";
    char text[224];
    va_list args;

    memcpy(text, kind, sizeof kind);
    va_start(args, format);
    (void)vsnprintf(text + sizeof kind - 1, sizeof text - sizeof kind + 1, format, args);
    va_end(args);
    run_fail(r, ERR_SCRIPT_RAISED, "", text);
    return false;
}

bool same_dtype(struct run *r, int n, const val *in)
{
    for (int i = 1; i < n; i++) {
        if (run_dead(r))
            return false;
        if (!in[0] || !in[i] || r->values[in[i]].dtype == r->values[in[0]].dtype)
            continue;
        (void)run_raise(r, "expected scalar type %s but found %s%s", scalar_type(r->values[in[0]].dtype), scalar_type(r->values[in[i]].dtype),
                        r->autocast ? "" : " (nothing is cast without autocast: precision bf16-autocast or bf16-mixed has it)");
    }
    return !run_dead(r);
}

void run_outgrew(struct run *r, const char *detail)
{
    r->outgrew = r->outgrew || !r->error.code;
    run_fail(r, ERR_NOMEM, "", detail);
}

void *run_room(struct run *r, size_t size, size_t n)
{
    void *p = arena_push(r->arena, size, _Alignof(max_align_t), n ? n : 1);

    if (!p)
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for this way of training");
    return p;
}

static COLD void too_many_storages(struct run *r)
{
    run_outgrew(r, "too many storages live at once for the working memory of one request");
}

static inline uint32_t storage_new(struct run *r)
{
    uint32_t s = r->free_storage;

    if (s) {
        r->free_storage = r->storages[s].block;
        if (s < r->n_writes)
            r->writes[s].at = 0; /* of another: a parameter that is gathered anew was not written with it */
    } else if (r->n_storages < r->max_storages) {
        s = r->n_storages++;
    } else {
        too_many_storages(r);
        return 0;
    }
    return s;
}

bool run_spend(struct run *r, uint64_t events)
{
    if (budget_spend(r->arena->budget, events))
        return true;
    if (!r->error.code)
        (void)budget_status(r->arena->budget, &r->error);
    return false;
}

bool run_count(struct run *r)
{
    uint32_t grown = r->n_events - r->counted_events;
    uint64_t fetched = (uint64_t)FAR_NODE_EVENTS * r->far_nodes;

    r->counted_events = r->n_events;
    r->far_nodes = 0;
    return run_spend(r, grown + fetched);
}

/* Where the room for births ends the run does; before it, work is counted from time to time. */
static COLD bool goes_on(struct run *r)
{
    uint32_t left = r->room_births - r->n_births;

    if (!left) { /* a block dies once: max_events always suffices */
        run_outgrew(r, "the run has more births of blocks than the working memory of one request holds");
        return false;
    }
    if (!run_count(r))
        return false;
    r->max_births = r->n_births + (left < COUNT_EVERY ? left : COUNT_EVERY);
    return true;
}

/* Sums of thousands of them, and products with the number of layers, are taken everywhere too. */
enum { SUMMABLE_BITS = 54 };

static COLD void not_summable(struct run *r, uint64_t bytes)
{
    char text[96];

    (void)snprintf(text, sizeof text, "a tensor of %llu GiB is larger than any memory", (unsigned long long)(bytes >> 30));
    run_fail(r, ERR_TENSOR_SIZE, "", text);
}

static struct birth *block_birth(struct run *r, enum op op, uint64_t bytes, enum mark mark)
{
    struct birth *b;

    if (bytes > UINT64_C(1) << SUMMABLE_BITS) {
        not_summable(r, bytes);
        return NULL;
    }
    if (r->n_births >= r->max_births && !goes_on(r))
        return NULL;
    b = &r->births[r->n_births];
    b->bytes = bytes;
    b->module = r->module;
    b->op = (uint16_t)(r->op_over ? r->op_over : op);
    b->node = r->node_running ? r->nodes[r->node_running].op : OP_NONE;
    b->stage = r->stage;
    b->forward_stage = r->node_running ? r->nodes[r->node_running].stage : r->stage;
    b->mark = (uint8_t)mark;
    b->stream = r->stream;
    b->recompute = r->recompute;
    b->readers = 0;
    b->wrapped = false;
    r->events[r->n_events++] = r->n_births++;
    return b;
}

void blocks_again(struct run *r, uint32_t from, uint32_t since, uint32_t until, uint32_t times, struct blocks *ret)
{
    uint8_t *dead = arena_array(r->arena, uint8_t, until - from);

    *ret = (struct blocks){r->n_births, 0};
    if (!dead)
        return;
    for (uint32_t i = since; i < r->n_events; i++) {
        uint32_t e = r->events[i], block = e & EVENT_BLOCK;

        if (event_is_of_block(e) && e & EVENT_DEATH && block >= from && block < until)
            dead[block - from] = 1;
    }
    for (; times && !run_dead(r); times--)
        for (uint32_t b = from; b < until; b++) {
            if (dead[b - from])
                continue;
            if (r->n_births >= r->max_births && !goes_on(r))
                return;
            r->births[r->n_births] = r->births[b];
            r->events[r->n_events++] = r->n_births++;
            ret->n++;
        }
}

void blocks_die(struct run *r, struct blocks b)
{
    for (uint32_t i = 0; i < b.n; i++)
        r->events[r->n_events++] = (b.first + i) | EVENT_DEATH;
}

static uint32_t storage_birth(struct run *r, enum op op, uint64_t bytes, enum mark mark)
{
    uint32_t s = bytes ? storage_new(r) : 0;

    if (!s)
        return 0;
    if (!block_birth(r, op, bytes, mark))
        return 0;
    r->storages[s] = (struct storage){bytes, 1, r->n_births - 1};
    return s;
}

static inline void storage_unref(struct run *r, uint32_t s)
{
    struct storage *x = &r->storages[s];

    if (!s || --x->refs)
        return;
    if (x->block != NO_BLOCK)
        r->events[r->n_events++] = x->block | EVENT_DEATH;
    x->block = r->free_storage;
    r->free_storage = s;
}

uint32_t scratch_take(struct run *r, enum op op, uint64_t bytes, enum mark mark)
{
    return run_dead(r) ? 0 : storage_birth(r, op, bytes, mark);
}

void scratch_give(struct run *r, uint32_t storage)
{
    storage_unref(r, storage);
}

void scratch(struct run *r, enum op op, uint64_t bytes)
{
    scratch_give(r, scratch_take(r, op, bytes, MARK_NONE));
}

void empty_cache(struct run *r)
{
    if (run_dead(r) || r->n_marks == r->max_marks)
        return;
    r->n_marks++;
    r->events[r->n_events++] = EVENT_RELEASE;
}

void release_cached(struct run *r)
{
    if (!r->released)
        empty_cache(r);
    r->released = true;
}

void host_waits(struct run *r)
{
    streams_awaited(r);
    host_waits_for(r, r->n_events);
}

void host_waits_for(struct run *r, uint32_t position)
{
    uint32_t event = position < r->n_events ? EVENT_WAIT | position : EVENT_SYNC;

    if (run_dead(r) || (r->n_events && r->events[r->n_events - 1] == event))
        return;
    if (r->n_marks == r->max_marks) {
        run_fail(r, ERR_NOMEM, "", "the host waits more often than the working memory of one request holds");
        return;
    }
    r->n_marks++;
    r->events[r->n_events++] = event;
}

void record_stream(struct run *r, val v)
{
    const struct storage *s = &r->storages[v ? r->values[v].storage : 0];

    if (v && s->refs && s->block != NO_BLOCK && r->births[s->block].stream != r->stream)
        r->births[s->block].readers |= (uint8_t)(1u << r->stream);
}

/* A storage that another one's block takes the place of keeps its number. */
void storage_resize(struct run *r, val v, enum op op, uint64_t bytes)
{
    uint32_t s = v ? r->values[v].storage : 0;
    struct storage *x = &r->storages[s];

    if (!s || run_dead(r) || x->bytes == bytes)
        return;
    if (x->block != NO_BLOCK)
        r->events[r->n_events++] = x->block | EVENT_DEATH;
    x->block = NO_BLOCK;
    x->bytes = bytes;
    if (bytes && block_birth(r, op, bytes, MARK_NONE))
        x->block = r->n_births - 1;
}

void set_data(struct run *r, val v, val from)
{
    struct value *x = &r->values[v];
    const struct value *y = &r->values[from]; /* 0 is None: no sizes, no storage */
    uint32_t old = x->storage;

    if (!v || run_dead(r))
        return;
    x->storage = y->storage;
    if (x->storage)
        r->storages[x->storage].refs++;
    if (from) {
        memcpy(x->size, y->size, sizeof x->size);
        memcpy(x->stride, y->stride, sizeof x->stride);
        x->offset = y->offset;
        x->ndim = y->ndim;
        x->dtype = y->dtype;
        x->contiguous = y->contiguous;
    }
    storage_unref(r, old);
    consume(r, from);
}

/* ------------------------------------------------------------------------------------------------------------ values */
/* c10 TensorImpl::compute_non_overlapping_and_dense: the dimensions, by falling stride, fill the storage without holes. */
bool dense(const struct value *x)
{
    int64_t step = 1;
    bool used[MAX_DIMS] = {false};

    if (x->contiguous)
        return true;
    for (int n = 0; n < x->ndim; n++) {
        int best = -1;

        for (int i = 0; i < x->ndim; i++)
            if (!used[i] && x->size[i] != 1 && (best < 0 || x->stride[i] < x->stride[best]))
                best = i;
        if (best < 0)
            return true;
        if (x->stride[best] != step)
            return false;
        used[best] = true;
        step *= x->size[best];
    }
    return true;
}

static inline val value_take(struct run *r)
{
    val v = r->free_value;

    r->n_taken++;
    if (v) {
        r->free_value = r->values[v].storage;
    } else if (r->n_values < r->max_values) {
        v = r->n_values++;
    } else {
        run_outgrew(r, "too many tensors live at once for the working memory of one request");
        return 0;
    }
    return v;
}

bool sizes_countable(int ndim, const int64_t *size)
{
    double n = 1;

    for (int i = 0; i < ndim; i++)
        n *= (double)size[i];
    return n <= (double)MOST_ELEMENTS;
}

void sizes_too_large(int ndim, const int64_t *size, char *ret, size_t bytes)
{
    struct buf b;

    buf_init_fixed(&b, ret, bytes);
    buf_str(&b, "a tensor of ");
    for (int i = 0; i < ndim; i++) {
        char one[32];

        (void)snprintf(one, sizeof one, i ? " x %lld" : "%lld", (long long)size[i]);
        buf_str(&b, one);
    }
    buf_str(&b, " elements is larger than any memory");
}

static COLD bool countable(struct run *r, int ndim, const int64_t *size)
{
    char text[192];

    if (sizes_countable(ndim, size))
        return true;
    sizes_too_large(ndim, size, text, sizeof text);
    run_fail(r, ERR_TENSOR_SIZE, "", text);
    return false;
}

/* *ret: how many elements it has. */
static inline val value_sized(struct run *r, enum dtype dtype, int ndim, const int64_t *size, int64_t *ret)
{
    val v = run_dead(r) ? 0 : value_take(r);
    struct value *x = &r->values[v];
    int64_t step = 1;
    bool beyond = false;

    if (!v)
        return 0;
    for (int i = ndim; i-- > 0;) {
        x->size[i] = size[i];
        x->stride[i] = step;
        beyond |= __builtin_mul_overflow(step, size[i], &step);
    }
    if ((beyond || step > MOST_ELEMENTS) && !countable(r, ndim, size)) {
        x->storage = r->free_value;
        r->free_value = v;
        return 0;
    }
    x->offset = 0;
    x->storage = x->node = 0;
    x->refs = 1;
    x->dtype = (uint8_t)dtype;
    x->ndim = (uint8_t)ndim;
    x->output_nr = 0;
    x->requires_grad = x->leaf = x->view = x->parameter = x->shard = false;
    x->floating = x->contiguous = true;
    x->made = MADE_PLAIN;
    x->cast = x->base = x->n_views = 0;
    *ret = step;
    return v;
}

val value_new(struct run *r, enum dtype dtype, int ndim, const int64_t *size)
{
    int64_t n;

    return value_sized(r, dtype, ndim, size, &n);
}

void value_birth(struct run *r, val v, enum op op, uint64_t bytes)
{
    if (v)
        r->values[v].storage = storage_birth(r, op, bytes, MARK_NONE);
}

val value_empty(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    int64_t n;
    val v = value_sized(r, dtype, ndim, size, &n);

    if (v)
        r->values[v].storage = storage_birth(r, op, (uint64_t)n * dtype_bytes(dtype), MARK_NONE);
    return v;
}

val value_alias(struct run *r, val of)
{
    val v = run_dead(r) || !of ? 0 : value_take(r);
    struct value *x = &r->values[v];

    if (!v)
        return 0;
    *x = r->values[of];
    x->node = 0;
    x->refs = 1;
    x->output_nr = 0;
    x->requires_grad = x->leaf = false;
    x->view = x->parameter = x->shard = false;
    x->floating = true;
    x->made = MADE_PLAIN;
    x->cast = x->base = x->n_views = 0;
    if (x->storage)
        r->storages[x->storage].refs++;
    return v;
}

val value_again(struct run *r, val of)
{
    val v = value_alias(r, of);
    struct value *x = &r->values[v];
    const struct value *y = &r->values[of];

    if (!v || y->leaf)
        return v;
    x->view = y->view;
    x->made = y->made;
    if (y->base) {
        x->base = y->base;
        x->version = y->version;
        r->values[x->base].n_views++;
    }
    x->node = y->node;
    x->output_nr = y->output_nr;
    x->requires_grad = y->requires_grad;
    value_ref(r, x->base);
    node_ref(r, x->node);
    return v;
}

/* What a value holds but its base, which has none itself. */
static inline void value_ends(struct run *r, val v)
{
    struct value *x = &r->values[v];
    uint32_t storage = x->storage, node = x->node;

    x->storage = r->free_value;
    r->free_value = v;
    storage_unref(r, storage);
    node_unref(r, node);
}

static COLD void base_ends(struct run *r, struct value *x)
{
    val base = x->base;

    x->base = 0; /* views.c looks through all values */
    r->values[base].n_views--;
    if (!--r->values[base].refs)
        value_ends(r, base);
}

void value_die(struct run *r, val v)
{
    struct value *x = &r->values[v];

    value_ends(r, v);
    if (x->base)
        base_ends(r, x);
}

void mark_block(struct run *r, val v, enum mark mark)
{
    uint32_t s = v ? r->values[v].storage : 0;

    if (s && mark == MARK_PARAMETER)
        r->values[v].parameter = true;
    if (s && r->storages[s].block != NO_BLOCK && r->births[r->storages[s].block].mark == MARK_NONE)
        r->births[r->storages[s].block].mark = (uint8_t)mark;
}

/* ------------------------------------------------------------------------------------------------------------ frames */
struct frame frame_enter(struct run *r)
{
    return (struct frame){r->n_locals, r->module, r->node_running, r->recompute, NULL};
}

static bool push_local(struct run *r, val v)
{
    if (r->n_locals == r->max_locals) {
        run_fail(r, ERR_NOMEM, "", "frames nest too deeply");
        return false;
    }
    r->locals[r->n_locals++] = v;
    return true;
}

val local(struct run *r, val v)
{
    struct value *x = &r->values[v];

    if (!push_local(r, v) || !v)
        return v;
    if (x->floating)
        x->floating = false;
    else
        x->refs++;
    return v;
}

val *slot(struct run *r)
{
    (void)local(r, 0);
    return &r->locals[r->n_locals - 1];
}

val bind_slot(struct run *r, val *at, val v)
{
    (void)local(r, v);
    *at = r->locals[--r->n_locals];
    return v;
}

static val *slot_of(struct run *r, val v)
{
    for (uint32_t i = r->n_locals; i-- > 0;)
        if (r->locals[i] == v)
            return &r->locals[i];
    return NULL;
}

void rebind(struct run *r, val *name, val v)
{
    struct value *x = &r->values[v];
    val *slot = slot_of(r, *name);
    val old = *name;

    *name = v;
    if (v && x->floating)
        x->floating = false;
    else
        value_ref(r, v);
    if (slot) {
        *slot = v;
        value_unref(r, old);
    } else {
        (void)push_local(r, v);
    }
}

void drop(struct run *r, val *name)
{
    val *slot = slot_of(r, *name);

    if (slot) {
        *slot = 0;
        value_unref(r, *name);
    }
    *name = 0;
}

val give(struct run *r, val v)
{
    struct value *x = &r->values[v];

    if (v && !x->floating) {
        x->refs++;
        x->floating = true;
    }
    return v;
}

val frame_leave(struct run *r, struct frame f, val result)
{
    give(r, result);
    for (uint32_t i = f.locals; i < r->n_locals; i++)
        value_unref(r, r->locals[i]);
    r->n_locals = f.locals;
    if (f.hooked)
        result = module_returns(r, f.hooked, result);
    r->module = f.module;
    r->node_running = f.node;
    r->recompute = f.recompute;
    return result;
}
