/* autograd.c - the graph and the engine. The formulas of each node are in formulas.c. */
#include "torch/autograd.h"
#include "torch/calls.h"

#include "torch/checkpoint.h"
#include "torch/function.h"
#include "torch/hooks.h"
#include "torch/offload.h"

#include <stddef.h>
#include <string.h>

const struct op_row op_rows[OP_COUNT] = {
    [OP_NONE] = {"", "", "", SAVES_NONE, AUTOCAST_KEEP, WORK_NONE},
#define OP(id, aten, node, saves, backward, autocast, work, source) \
    [OP_##id] = {aten, node, source, SAVES_##saves, AUTOCAST_##autocast, WORK_##work},
#include "torch/ops.def"
#undef OP
};

static const formula formulas[OP_COUNT] = {
#define OP(id, aten, node, saves, backward, autocast, work, source) [OP_##id] = backward,
#include "torch/ops.def"
#undef OP
};

/* ------------------------------------------------------------------------------------------------------------- graph */
uint32_t node_new(struct run *r, enum op op, int n_outputs)
{
    uint32_t i = r->free_node;
    struct node *n;

    if (i) {
        r->free_node = r->nodes[i].refs;
    } else if (r->n_nodes < r->max_nodes) {
        i = r->n_nodes++;
    } else {
        run_outgrew(r, "the autograd graph is too large for the working memory of one request");
        return 0;
    }
    r->far_nodes += i > NEAR_NODES;
    n = &r->nodes[i];
    memset(n, 0, offsetof(struct node, saved)); /* of saved[], the first n_saved are set */
    n->op = (uint16_t)op;
    n->n_outputs = (uint16_t)n_outputs;
    n->sequence = ++r->sequence;
    n->module = r->module;
    n->stage = r->stage;
    n->stream = r->stream;
    return i;
}

static struct wide *wide_new(struct run *r, uint32_t room)
{
    struct wide *w = arena_new(r->arena, struct wide);

    if (w) {
        w->room = room;
        w->grad = arena_array(r->arena, val, room);
        w->zeros = arena_array(r->arena, val, room);
        w->length = arena_array(r->arena, int64_t, room);
    }
    if (w && w->grad && w->zeros && w->length)
        return w;
    run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for a tensor that is split into so many");
    return NULL;
}

struct wide *widen(struct run *r, uint32_t node, uint32_t n)
{
    struct wide **at = &r->free_wide, *w;

    if (n > UINT16_MAX) {
        run_fail(r, ERR_LEAVES_LANGUAGE, "", "a tensor is split into more parts than the model of a split holds");
        return NULL;
    }
    while (*at && (*at)->room < n)
        at = &(*at)->next;
    w = *at;
    if (w)
        *at = w->next;
    else
        w = wide_new(r, n);
    if (w)
        memset(w->grad, 0, n * sizeof *w->grad);
    r->nodes[node].wide = w;
    return w;
}

static void give_wide(struct run *r, struct node *n)
{
    if (!n->wide)
        return;
    n->wide->next = r->free_wide;
    r->free_wide = n->wide;
    n->wide = NULL;
}

static struct many *many_new(struct run *r, uint32_t room)
{
    struct many *m = arena_new(r->arena, struct many);

    if (m) {
        m->room = room;
        m->edge = arena_array(r->arena, struct edge, room);
        m->meta = arena_array(r->arena, val, room);
        m->out = arena_array(r->arena, val, room);
        m->length = arena_array(r->arena, int64_t, room);
    }
    if (m && m->edge && m->meta && m->out && m->length)
        return m;
    run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for an operator of so many tensors");
    return NULL;
}

/* Room for the edges of a node of `n` inputs, all none. */
static bool many_edges(struct run *r, uint32_t node, uint32_t n)
{
    struct many **at = &r->free_many, *m;

    if (n > UINT16_MAX) {
        run_fail(r, ERR_LEAVES_LANGUAGE, "", "an operator of more tensors than the model of a node holds");
        return false;
    }
    while (*at && (*at)->room < n)
        at = &(*at)->next;
    m = *at;
    if (m)
        *at = m->next;
    else
        m = many_new(r, n);
    if (!m)
        return false;
    memset(m->edge, 0, n * sizeof *m->edge);
    memset(m->meta, 0, n * sizeof *m->meta);
    r->nodes[node].many = m;
    return true;
}

static void give_many(struct run *r, struct node *n)
{
    if (!n->many)
        return;
    n->many->next = r->free_many;
    r->free_many = n->many;
    n->many = NULL;
}

static void release_saved(struct run *r, struct node *n)
{
    if (n->released)
        return;
    n->released = true;
    for (int i = 0; i < n->n_saved; i++) {
        val v = n->saved[i];

        n->saved[i] = 0;
        if (v & SAVED_PACKED)
            region_drop(r, n->region, v & ~SAVED_PACKED);
        else if (!(v & SAVED_OFFLOADED)) /* the tracker keeps what was never unpacked */
            value_unref(r, v);
    }
    if (n->region) {
        struct region *region = n->region;

        n->region = NULL;
        region_unref(r, region);
    }
}

/* Releases what a dying node holds; nodes that die with it are put on the list, last first out (function.cpp deleteNode). */
static void node_bury(struct run *r, uint32_t i, uint32_t *list)
{
    struct node *n = &r->nodes[i];

    if (n->closure && n->op == OP_COPY_SLICES)
        slices_release(r, n);
    release_saved(r, n);
    if (n->closure)
        region_unref(r, n->closure);
    if (n->function)
        function_release(r, n->function);
    if (n->hooks || n->own) {
        hooks_release(r, n->hooks);
        hooks_release(r, n->own);
    }
    for (int e = 0; e < n->n_edges; e++)
        value_unref(r, *node_meta(n, e));
    for (int g = 0; g < n->n_outputs; g++)
        value_unref(r, *waiting_gradient(n, g));
    give_wide(r, n);
    value_unref(r, n->accumulated);
    if (n->variable) { /* the leaf's own reference to its node is weak */
        r->values[n->variable].node = 0;
        value_unref(r, n->variable);
    }
    for (int e = 0; e < n->n_edges; e++) {
        uint32_t to = node_edge(n, e)->node;

        if (to && !--r->nodes[to].refs && !r->nodes[to].pinned) {
            r->nodes[to].dependencies = *list;
            *list = to;
        }
    }
    give_many(r, n);
    n->refs = r->free_node;
    r->free_node = i;
}

void node_die(struct run *r, uint32_t i)
{
    uint32_t list;

    r->nodes[i].dependencies = 0;
    for (list = i; list;) {
        uint32_t next = list;

        list = r->nodes[next].dependencies;
        node_bury(r, next, &list);
    }
}

/* The AccumulateGrad of a leaf, made when it is first needed. Parameters keep theirs. */
uint32_t accumulate_node(struct run *r, val leaf)
{
    struct value *x = &r->values[leaf];
    uint64_t sequence = r->sequence;

    if (!x->node) {
        uint32_t i = node_new(r, OP_ACCUMULATE_GRAD, 1);

        r->sequence = sequence; /* AccumulateGrad takes no number: it runs before all others */
        if (!i)
            return 0;
        r->nodes[i].sequence = UINT64_MAX;
        r->nodes[i].variable = leaf;
        x->refs++;
        x->node = i;
    }
    return x->node;
}

void require_grad(struct run *r, val v)
{
    calls_unheard(r);
    if (!v)
        return;
    r->values[v].leaf = true;
    r->values[v].requires_grad = true;
}

void pin_leaf(struct run *r, val leaf)
{
    uint32_t n = accumulate_node(r, leaf);

    if (n)
        r->nodes[n].pinned = true;
}

val *grad_of(struct run *r, val leaf)
{
    uint32_t n = r->values[leaf].node;

    return n ? &r->nodes[n].accumulated : NULL;
}

void gradient_dtype(struct run *r, val leaf, enum dtype dtype)
{
    uint32_t n = leaf ? accumulate_node(r, leaf) : 0;

    if (n)
        r->nodes[n].grad_dtype = (uint8_t)(1 + dtype);
}

bool wants_grad(const struct run *r, val v)
{
    return v && r->values[v].requires_grad;
}

uint32_t attach(struct run *r, enum op op, int n_in, const val *in)
{
    bool any = false;
    uint32_t i;
    struct node *n;

    if (!r->grad_enabled || run_dead(r))
        return 0;
    for (int k = 0; k < n_in; k++)
        any |= wants_grad(r, in[k]);
    if (!any)
        return 0;
    if (r->wrote)
        views_renew(r, n_in, in);
    i = node_new(r, op, 1);
    if (!i)
        return 0;
    n = &r->nodes[i];
    n->n_edges = n_in > MAX_EDGES ? 0 : (uint16_t)n_in;
    if (n_in > MAX_EDGES && many_edges(r, i, (uint32_t)n_in))
        n->n_edges = (uint16_t)n_in;
    else if (n_in > MAX_EDGES)
        return 0;
    for (int k = 0; k < n_in; k++) {
        struct value *x = &r->values[in[k]];
        uint32_t to;

        if (!wants_grad(r, in[k]))
            continue;
        to = x->leaf ? accumulate_node(r, in[k]) : x->node;
        n = &r->nodes[i];
        *node_edge(n, k) = (struct edge){to, x->leaf ? 0 : x->output_nr};
        node_ref(r, to);
    }
    return i;
}

void attach_output(struct run *r, uint32_t node, val out, int nr)
{
    struct value *x = &r->values[out];

    if (!node)
        return;
    if (!out) { /* the operator did not run: a region stopped recomputing while it saved its inputs */
        if (!r->nodes[node].refs) {
            node_ref(r, node);
            node_unref(r, node);
        }
        return;
    }
    x->node = node;
    x->output_nr = (uint16_t)nr;
    x->requires_grad = true;
    node_ref(r, node);
    if (nr >= r->nodes[node].n_outputs)
        r->nodes[node].n_outputs = (uint16_t)(nr + 1);
}

void meta_of(struct run *r, uint32_t node, int edge, val in)
{
    struct value *x = &r->values[in];
    val m;

    if (!node || !node_edge(&r->nodes[node], edge)->node)
        return;
    m = value_new(r, (enum dtype)x->dtype, x->ndim, x->size);
    if (m)
        r->values[m].floating = false;
    *node_meta(&r->nodes[node], edge) = m;
}

static void save_as(struct run *r, uint32_t node, val v, bool result)
{
    struct node *n = &r->nodes[node];

    if (!node || !v || run_dead(r))
        return;
    if (r->region && !region_recomputes(r->region)) {
        uint32_t handle;

        if (!n->region)
            region_ref(n->region = r->region);
        if (region_pack(r, r->region, &handle))
            n->saved[n->n_saved++] = handle | SAVED_PACKED;
        return;
    }
    if (r->region)
        region_keep(r, r->region, v, result);
    if (run_dead(r))
        return;
    if (!r->region && offload_packs(r)) {
        n->saved[n->n_saved++] = offload_pack(r, v) | SAVED_OFFLOADED;
        return;
    }
    if (result || (r->wrote && r->region)) { /* what a recomputation's hook gives the node is detached: a view would hold the graph that is to come */
        v = value_alias(r, v);
        r->values[v].floating = false;
    } else {
        value_ref(r, v);
    }
    n->saved[n->n_saved++] = v;
}

void save(struct run *r, uint32_t node, val v)
{
    save_as(r, node, v, false);
}

/* saved_variable.cpp is_output: without the result's grad_fn, which is this node and would never die */
void save_result(struct run *r, uint32_t node, val v)
{
    save_as(r, node, v, true);
}

/* ------------------------------------------------------------------------------------------------------------ engine */
static void sift_up(struct run *r, uint32_t base, uint32_t at)
{
    while (at > base) {
        uint32_t up = base + (at - base - 1) / 2, t = r->ready[at];

        if (r->nodes[r->ready[up]].sequence >= r->nodes[t].sequence)
            return;
        r->ready[at] = r->ready[up];
        r->ready[up] = t;
        at = up;
    }
}

static void ready_push(struct run *r, uint32_t base, uint32_t node)
{
    if (r->n_ready == r->max_ready) {
        run_outgrew(r, "too many autograd nodes are ready at once");
        return;
    }
    r->ready[r->n_ready++] = node;
    sift_up(r, base, r->n_ready - 1);
}

static uint32_t ready_pop(struct run *r, uint32_t base)
{
    uint32_t top = r->ready[base], at = base;

    r->ready[base] = r->ready[--r->n_ready];
    for (;;) {
        uint32_t kid = base + 2 * (at - base) + 1, t = r->ready[at];

        if (kid >= r->n_ready)
            break;
        if (kid + 1 < r->n_ready && r->nodes[r->ready[kid + 1]].sequence > r->nodes[r->ready[kid]].sequence)
            kid++;
        if (r->nodes[t].sequence >= r->nodes[r->ready[kid]].sequence)
            break;
        r->ready[at] = r->ready[kid];
        r->ready[kid] = t;
        at = kid;
    }
    return top;
}

/* Counts for every node below the roots how many others feed it. */
static void count_dependencies(struct run *r, uint32_t n_roots, const uint32_t *roots, uint32_t stamp)
{
    uint32_t base = r->n_ready;

    for (uint32_t i = 0; i < n_roots; i++) {
        r->nodes[roots[i]].seen = stamp;
        r->nodes[roots[i]].dependencies = 0;
        r->ready[r->n_ready++] = roots[i]; /* the heap's memory serves as the stack: it is empty above `base` */
    }
    while (r->n_ready > base) {
        struct node *n = &r->nodes[r->ready[--r->n_ready]];

        for (int e = 0; e < n->n_edges; e++) {
            uint32_t to = node_edge(n, e)->node;

            if (!to)
                continue;
            if (r->nodes[to].seen != stamp) {
                r->nodes[to].seen = stamp;
                r->nodes[to].dependencies = 0;
                if (r->n_ready == r->max_ready) {
                    run_outgrew(r, "the autograd graph is too large");
                    r->n_ready = base;
                    return;
                }
                r->ready[r->n_ready++] = to;
            }
            r->nodes[to].dependencies++;
        }
    }
}

/* input_buffer.cpp can_accumulate_inplace: nobody else holds the tensor or its storage, a view holds its base. */
static bool own(const struct run *r, val v)
{
    const struct value *x = &r->values[v];
    const struct storage *s = &r->storages[x->storage];

    return x->refs == 1 && !x->view && x->storage && s->refs == 1 && dense(x) && (s->block == NO_BLOCK || !r->births[s->block].wrapped);
}

/* DTensors: a Shard and a Replicate. This rank's part of the whole is copied out and added, not in place (InputBuffer leaves tensor subclasses alone). */
static void add_part_of_whole(struct run *r, val *slot)
{
    val part = owned(r, value_empty(r, OP_CLONE, dtype_of(r, *slot), r->values[*slot].ndim, r->values[*slot].size));
    val sum = owned(r, add_like(r, *slot, part));

    value_unref(r, part);
    value_unref(r, *slot);
    *slot = sum;
}

/* Returns what was added, which its maker holds until it has handed on all it made; 0: it waits in the slot. */
static val buffer_add(struct run *r, val *slot, val grad)
{
    val sum;

    if (!*slot) {
        *slot = grad;
        return 0;
    }
    if (numel(r, *slot) > 0 && numel(r, grad) > numel(r, *slot)) {
        add_part_of_whole(r, slot);
        return grad;
    }
    if (own(r, *slot)) {
        launch(r, OP_ADD, *slot, 2, (val[]){*slot, grad});
        return grad;
    }
    sum = add_like(r, *slot, grad);
    r->values[sum].floating = false;
    value_unref(r, *slot);
    *slot = sum;
    return grad;
}

/* input_buffer.cpp: a gradient that comes from another stream is used on the consumer's too, and added to others there. */
static val hand_on(struct run *r, struct edge to, val grad)
{
    uint8_t stream = r->stream;

    r->stream = r->nodes[to.node].stream;
    if (r->stream != stream)
        record_stream(r, grad);
    grad = buffer_add(r, waiting_gradient(&r->nodes[to.node], to.input), grad);
    r->stream = stream;
    return grad;
}

/* A whole gradient of a parameter that is cut has the layout of the whole: always its own. */
static bool obeys_layout(const struct value *g, const struct value *p)
{
    if (g->ndim == p->ndim && g->contiguous && g->size[0] > p->size[0])
        return true;
    for (int i = 0; i < p->ndim; i++)
        if (g->size[i] != p->size[i] || (p->size[i] != 1 && g->stride[i] != p->stride[i]))
            return false;
    return g->ndim == p->ndim;
}

/* Returns the gradient that came, where the leaf did not steal it: its caller's, like what every node was given. */
static val accumulate(struct run *r, uint32_t node)
{
    struct node *n = &r->nodes[node];
    val grad = n->grad[0], leaf = n->variable, copy;

    n->grad[0] = 0;
    if (!grad)
        return 0;
    if (n->accumulated) { /* in place onto .grad */
        launch(r, OP_ADD, n->accumulated, 2, (val[]){n->accumulated, grad});
        return grad;
    }
    if (r->values[grad].refs <= 1 && obeys_layout(&r->values[grad], &r->values[leaf])) {
        n->accumulated = grad; /* stolen */
        return 0;
    }
    copy = value_empty(r, OP_EMPTY_STRIDED, dtype_of(r, grad), r->values[leaf].ndim, r->values[leaf].size);
    launch(r, OP_CLONE, copy, 1, &grad);
    r->values[copy].floating = false;
    r->nodes[node].accumulated = copy;
    return grad;
}

/* What a graph of Inductor's gave stays until it ends: in the slot that nobody needs any more. */
static val held_back(struct run *r, uint32_t node, val given)
{
    struct node *n = &r->nodes[node];

    if (!r->one_graph || !n->accumulated)
        return given;
    n->grad[0] = given ? given : n->accumulated;
    if (!given)
        value_ref(r, n->accumulated);
    return 0;
}

static void let_go_of_held(struct run *r)
{
    for (uint32_t i = 1; r->one_graph && i < r->n_nodes; i++) {
        struct node *n = &r->nodes[i];

        if (n->op != OP_ACCUMULATE_GRAD || !n->grad[0])
            continue;
        value_unref(r, n->grad[0]);
        n->grad[0] = 0;
    }
}

/* The new value takes the slot's place; the old one dies after it was born. */
static void replace(struct run *r, val *slot, val with)
{
    val old = *slot;

    if (with == old || !with)
        return;
    r->values[with].floating = false;
    *slot = with;
    value_unref(r, old);
}

/* What the engine casts a gradient to on its way to `to`; DTYPE_COUNT: nothing. */
static enum dtype wanted_dtype(const struct run *r, uint32_t to, val meta)
{
    uint8_t said = to ? r->nodes[to].grad_dtype : 0;

    return said ? (enum dtype)(said - 1) : meta ? dtype_of(r, meta) : DTYPE_COUNT;
}

/* validate_outputs: a gradient is summed to the shape of its input and cast to its dtype. */
static void validate(struct run *r, uint32_t node, val *out)
{
    for (int e = 0; e < r->nodes[node].n_edges; e++) {
        val m = *node_meta(&r->nodes[node], e);
        enum dtype wanted = wanted_dtype(r, node_edge(&r->nodes[node], e)->node, m);

        if (!out[e])
            continue;
        if (m)
            replace(r, &out[e], sum_to(r, out[e], m));
        if (wanted != DTYPE_COUNT && dtype_of(r, out[e]) != wanted)
            replace(r, &out[e], cast_copy(r, out[e], wanted));
    }
}

static val unpacked(struct run *r, uint32_t node, int i)
{
    const struct node *n = &r->nodes[node];

    if (n->saved[i] & SAVED_PACKED)
        return region_unpack(r, n->region, n->saved[i] & ~SAVED_PACKED);
    return n->saved[i] & SAVED_OFFLOADED ? offload_unpack(r, n->saved[i] & ~SAVED_OFFLOADED) : n->saved[i];
}

COLD void writer_runs(struct back *b)
{
    struct run *r = b->r;
    const struct node *n = &r->nodes[b->node];

    for (int i = 0; i < n->n_saved; i++)
        b->saved[i] = unpacked(r, b->node, i);
    if (saved_written(b))
        return;
    (n->function ? back_function : formulas[n->op])(b);
    while (b->n_temps)
        value_unref(r, b->temp[--b->n_temps]);
}

void node_gives_saved(struct back *b)
{
    struct node *n = &b->r->nodes[b->node];

    for (int i = 0; i < n->n_saved; i++)
        if (!(n->saved[i] & (SAVED_PACKED | SAVED_OFFLOADED)))
            value_ref(b->r, b->saved[i]);
    release_saved(b->r, n);
    n->n_saved = 0;
}

static void evaluate(struct run *r, uint32_t base, uint32_t node)
{
    struct back b;
    struct node *n = &r->nodes[node];
    uint32_t module = r->module, running = r->node_running;
    bool recompute = r->recompute, any = false;
    uint8_t stream = r->stream;
    int n_out;

    host_call(r);
    r->stream = n->stream;
    if (n->hooks)
        hooks_run(r, n->hooks);
    r->node_running = node;
    if (n->op == OP_ACCUMULATE_GRAD) {
        val given = held_back(r, node, accumulate(r, node));

        if (given && r->grad_ready_of_tensors && r->q->accumulated_goes_first) {
            value_unref(r, given);
            given = 0;
        }
        if (r->grad_ready && r->nodes[node].accumulated)
            r->grad_ready(r->grad_ready_of, r->nodes[node].variable);
        value_unref(r, given);
        r->node_running = running;
        r->stream = stream;
        return;
    }
    r->module = n->module;
    r->recompute = false;
    b.r = r;
    b.node = node;
    b.n_temps = 0;
    memset(b.few, 0, sizeof b.few);
    b.out = n->many ? n->many->out : b.few;
    n_out = n->many ? n->n_edges : MAX_EDGES;
    if (n->many)
        memset(b.out, 0, (size_t)n_out * sizeof *b.out);
    memset(b.saved, 0, sizeof b.saved);
    memset(b.grad, 0, sizeof b.grad);
    for (int i = 0; i < n->n_outputs && n->wide; i++)
        any |= n->wide->grad[i] != 0;
    if (!n->wide) {
        for (int i = 0; i < MAX_OUTPUTS; i++)
            any |= n->grad[i] != 0;
        memcpy(b.grad, n->grad, sizeof b.grad);
        memset(n->grad, 0, sizeof n->grad);
    }
    for (int i = 0; i < n->n_saved; i++)
        b.saved[i] = unpacked(r, node, i);
    n = &r->nodes[node];
    if (r->wrote && saved_written(&b))
        any = false;
    if (any || n->closure) /* any_grad_defined of generated code; a checkpoint materialises its gradients */
        (n->function ? back_function : formulas[n->op])(&b);
    while (b.n_temps)
        value_unref(r, b.temp[--b.n_temps]);
    for (int i = n->n_saved; i-- > 0;) /* what a checkpoint recomputed dies with the formula */
        if (n->saved[i] & (SAVED_PACKED | SAVED_OFFLOADED))
            value_unref(r, b.saved[i]);
    validate(r, node, b.out);
    offload_ran(r);
    n = &r->nodes[node];
    for (int i = 0; i < n->n_outputs && !n->wide; i++)
        value_unref(r, b.grad[i]);
    for (int i = 0; i < n->n_outputs && n->wide; i++) {
        value_unref(r, n->wide->grad[i]);
        n->wide->grad[i] = 0;
    }
    release_saved(r, n);
    for (int e = 0; e < n->n_edges; e++) {
        struct edge to = *node_edge(n, e);

        if (!to.node)
            continue;
        if (b.out[e])
            b.out[e] = hand_on(r, to, b.out[e]);
        if (--r->nodes[to.node].dependencies == 0)
            ready_push(r, base, to.node);
    }
    for (int e = 0; e < n_out; e++) /* the vector of its outputs ends */
        value_unref(r, b.out[e]);
    r->module = module;
    r->node_running = running;
    r->recompute = recompute;
    r->stream = stream;
}

/* GraphRoot hands each output its gradient; a root that others of the graph feed waits for them. */
void run_graph(struct run *r, int n, const val *outputs, const val *gradients)
{
    uint32_t base = r->n_ready, roots[MAX_ROOTS], n_roots = 0;
    struct hook *outer;
    bool grad_enabled = r->grad_enabled, in_backward = r->in_backward, autocast = r->autocast;
    uint32_t graph = r->graph;
    int autocast_depth = r->autocast_depth;

    for (int i = 0; i < n; i++) {
        const struct value *out = &r->values[outputs[i]];

        if (run_dead(r) || !grad_fn(r, outputs[i])) {
            consume(r, gradients[i]);
            continue;
        }
        if (r->values[gradients[i]].floating)
            r->values[gradients[i]].floating = false;
        else
            value_ref(r, gradients[i]);
        value_unref(r, buffer_add(r, waiting_gradient(&r->nodes[out->node], out->output_nr), gradients[i]));
        roots[n_roots++] = out->node;
    }
    if (!n_roots)
        return;
    count_dependencies(r, n_roots, roots, ++r->backward_calls);
    r->graph = r->backward_calls;
    r->grad_enabled = false;
    r->in_backward = true;
    r->autocast = false;
    r->autocast_depth = 0; /* autocast_mode.cpp counts by thread: what a checkpoint opens in the engine's clears the cache when it ends */
    outer = backward_begins(r);
    for (uint32_t i = 0; i < n_roots; i++)
        if (!r->nodes[roots[i]].dependencies)
            ready_push(r, base, roots[i]);
    while (r->n_ready > base && !run_dead(r))
        evaluate(r, base, ready_pop(r, base));
    r->n_ready = base;
    let_go_of_held(r);
    backward_ends(r, outer);
    r->graph = graph;
    r->grad_enabled = grad_enabled;
    r->in_backward = in_backward;
    r->autocast = autocast;
    r->autocast_depth = autocast_depth;
}
