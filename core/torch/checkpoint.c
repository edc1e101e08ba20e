#include "torch/checkpoint.h"

#include "torch/autograd.h"
#include "torch/module.h"
#include "torch/offload.h"

#include <stdlib.h>
#include <string.h>

enum { REGION_SAVES = 512 }; /* a loop over tokens has more */

struct region {
    struct module *module;
    region_function run;
    void *context;
    region_release release, returns;
    val args[REGION_ARGS], closed[REGION_CLOSED];
    val second; /* the shape of a second result, without storage; 0: one result */
    int n_args, n_closed, n_given;
    bool given[REGION_ARGS]; /* which arguments are tensors */
    bool offloaded;
    struct region *within;        /* that packed the arguments; NULL: none did */
    uint32_t handle[REGION_ARGS]; /* of arguments that were packed: offload.h, or a region's */
    struct edge edge[REGION_ARGS]; /* what those of a region are gradients of: a SavedVariable gives its grad_fn back */
    uint32_t refs;
    uint64_t began; /* the sequence number */
    bool recomputing, recomputed, autocast;
    enum dtype autocast_dtype;
    uint32_t packed, seen;   /* saves of the forward; of the recomputation so far */
    uint32_t room;           /* of the two below */
    val *kept;               /* what the recomputation saved under each handle */
    bool *open;              /* its SavedVariable still waits for it */
    bool selective;
    uint32_t products;       /* mm's of this run of it */
    uint32_t n_results, next_result, room_results;
    val *results;            /* of selected operators, in their order; 0: taken, or none */
    uint32_t *makers;        /* nodes that gave them */
    struct region *next;
};

static struct region *region_new(struct run *r)
{
    struct region *g = r->free_region;

    if (g)
        r->free_region = g->next;
    else
        g = arena_new(r->arena, struct region);
    if (!g)
        run_fail(r, ERR_NOMEM, "", "too many checkpointed regions for the working memory of one request");
    else
        *g = (struct region){.autocast = r->autocast, .autocast_dtype = r->autocast_dtype, .room = g->room, .kept = g->kept, .open = g->open,
                             .selective = r->selective, .results = g->results, .makers = g->makers, .room_results = g->room_results};
    return g;
}

/* module(*args): the arguments live until it returns */
static val run_in(struct run *r, struct module *module, region_function run, void *context, int n_args, const val *args)
{
    struct frame arguments, f;
    val given[REGION_ARGS];

    if (!module)
        return run(r, context, args);
    memcpy(given, args, (size_t)n_args * sizeof *given);
    arguments = frame_enter(r);
    for (int i = 0; i < n_args; i++)
        (void)hold(r, args[i]);
    f = module_enter_with(r, module, &given[0]);
    return frame_leave(r, arguments, frame_leave(r, f, run(r, context, given)));
}

static void region_hold(struct run *r, struct region *g, struct module *module, region_function run, void *context, int n_args,
                        const val *args, int n_closed, const val *closed)
{
    g->module = module;
    g->run = run;
    g->context = context;
    g->release = r->release;
    g->returns = r->returns;
    r->release = r->returns = NULL;
    g->n_args = n_args;
    g->n_closed = n_closed;
    g->began = r->sequence;
    for (int i = 0; i < n_args; i++)
        value_ref(r, g->args[i] = args[i]);
    for (int i = 0; i < n_closed; i++)
        value_ref(r, g->closed[i] = closed[i]);
}

void region_ref(struct region *g)
{
    g->refs++;
}

static void region_give(struct run *r, struct region *g)
{
    g->next = r->free_region;
    r->free_region = g;
}

void region_unref(struct run *r, struct region *g)
{
    if (--g->refs)
        return;
    for (int i = 0; g->within && i < g->n_args; i++)
        if (g->given[i]) {
            region_drop(r, g->within, g->handle[i]);
            node_unref(r, g->edge[i].node);
        }
    if (g->within)
        region_unref(r, g->within);
    for (int i = 0; i < g->n_closed; i++)
        value_unref(r, g->closed[i]);
    for (int i = 0; i < g->n_args; i++)
        value_unref(r, g->args[i]);
    for (uint32_t i = g->next_result; i < g->n_results; i++)
        value_unref(r, g->results[i]);
    value_unref(r, g->second);
    if (g->release)
        g->release(r, g->context);
    region_give(r, g);
}

/* ----------------------------------------------------------------------------------------------------- not reentrant */
bool region_recomputes(const struct region *g)
{
    return g->recomputing;
}

/* Room for twice as many saves; what it had is given up, and kept for the next region that takes its place. */
static bool region_grow(struct run *r, struct region *g)
{
    uint32_t room = g->room ? 2 * g->room : REGION_SAVES;
    val *kept = run_room(r, sizeof *kept, room);
    bool *open = run_room(r, sizeof *open, room);

    if (!kept || !open)
        return false;
    if (g->room) {
        memcpy(kept, g->kept, g->room * sizeof *kept);
        memcpy(open, g->open, g->room * sizeof *open);
    }
    g->kept = kept;
    g->open = open;
    g->room = room;
    return true;
}

bool region_pack(struct run *r, struct region *g, uint32_t *ret_handle)
{
    if (g->packed == g->room && !region_grow(r, g))
        return false;
    g->open[g->packed] = true;
    g->kept[g->packed] = 0;
    *ret_handle = g->packed++;
    return true;
}

/* _recomputation_hook.pack_hook: keep the tensor for its handle; after the last one the recomputation ends. A result comes as
 * saved_variable.cpp's tensor_data(): what holds it holds no graph. */
void region_keep(struct run *r, struct region *g, val v, bool result)
{
    uint32_t i = g->seen++;

    if (i < g->packed && g->open[i]) {
        if (r->q->checkpoint_detaches_all || result || wants_grad(r, v))
            g->kept[i] = owned(r, value_alias(r, v));
        else
            value_ref(r, g->kept[i] = v);
    }
    if (g->seen == g->packed)
        r->stopped = true;
}

/* torchtitan 0.2.0 distributed/activation_checkpoint.py _apply_op_sac: of products each second one is made again */
bool region_selects(struct run *r, enum op op)
{
    struct region *g = r->region;

    if (!g || !g->selective || run_dead(r))
        return false;
    return op != OP_MM || r->all_products || g->products++ % 2 == 0;
}

bool region_kept(struct run *r, int n, val *ret)
{
    struct region *g = r->region;

    if (!g->recomputing)
        return false;
    if (n == 1 && g->next_result < g->n_results && !g->results[g->next_result]) { /* nobody reads it: made again */
        g->next_result++;
        return false;
    }
    for (int i = 0; i < n && g->next_result < g->n_results; i++) {
        val held = g->results[g->next_result++];

        ret[i] = value_alias(r, held);
        value_unref(r, held);
    }
    return true;
}

void region_keeps(struct run *r, uint32_t node, int n, const val *results)
{
    struct region *g = r->region;

    if (g->recomputing)
        return;
    if (g->n_results + (uint32_t)n > g->room_results) {
        uint32_t room = g->room_results ? 2 * g->room_results : REGION_SAVES;
        val *more = run_room(r, sizeof *more, room);
        uint32_t *makers = run_room(r, sizeof *makers, room);

        if (!more || !makers)
            return;
        if (g->n_results) {
            memcpy(more, g->results, g->n_results * sizeof *more);
            memcpy(makers, g->makers, g->n_results * sizeof *makers);
        }
        g->results = more;
        g->makers = makers;
        g->room_results = room;
    }
    for (int i = 0; i < n; i++) {
        g->makers[g->n_results] = node;
        g->results[g->n_results++] = results[i] ? owned(r, value_alias(r, results[i])) : 0;
    }
}

struct made {
    uint64_t sequence;
    uint32_t node;
};

static int by_age(const void *a, const void *b)
{
    uint64_t first = ((const struct made *)a)->sequence, second = ((const struct made *)b)->sequence;

    return (first < second) - (first > second);
}

/* The nodes of this sequence number on, youngest first, which nobody depends on yet; NULL: none, or the run is over. */
static struct made *made_since(struct run *r, uint64_t since, uint32_t *ret_n)
{
    enum { NODES_OF_AN_EVENT = 16 };
    struct made *made;
    uint32_t n = 0;

    *ret_n = 0;
    for (uint32_t i = 1; i < r->n_nodes; i++)
        n += r->nodes[i].sequence > since;
    made = n && run_spend(r, r->n_nodes / NODES_OF_AN_EVENT + n) ? run_room(r, sizeof *made, n) : NULL;
    for (uint32_t i = 1; made && i < r->n_nodes; i++)
        if (r->nodes[i].sequence > since) {
            made[(*ret_n)++] = (struct made){r->nodes[i].sequence, i};
            r->nodes[i].dependencies = 0;
        }
    if (made)
        qsort(made, *ret_n, sizeof *made, by_age);
    return made;
}

/* What only sums and views read up to the region's end no formula wants: partitioners.py keeps the sum, which is the next layer's input. `since`: the sequence
 * number that the region began with. `dependencies` are counted anew by whoever runs the graph. */
static void drop_what_nobody_reads(struct run *r, struct region *g, uint64_t since)
{
    uint32_t n;
    struct made *made = made_since(r, since, &n);

    for (uint32_t i = 0; i < n; i++) { /* youngest first: who reads a node's output comes before it */
        struct node *reader = &r->nodes[made[i].node];

        for (int e = 0; e < reader->n_edges && (reader->n_saved || reader->dependencies); e++)
            if (r->nodes[node_edge(reader, e)->node].sequence > since)
                r->nodes[node_edge(reader, e)->node].dependencies = 1;
    }
    for (uint32_t i = 0; made && i < g->n_results; i++)
        if (g->makers[i] && !r->nodes[g->makers[i]].dependencies) {
            value_unref(r, g->results[i]);
            g->results[i] = 0;
        }
}

/* _CheckpointFrame.save_inputs(), get_inputs(): saved tensors under the hooks that stand outside */
static void pack_arg(struct run *r, struct region *g, int i)
{
    struct region *outer = r->region;
    val v = g->args[i];

    if (outer && region_recomputes(outer)) { /* its hook keeps the tensor and hands it on, detached */
        bool detached = wants_grad(r, v);

        region_keep(r, outer, v, false);
        if (run_dead(r) || !detached)
            return;
        g->args[i] = owned(r, value_alias(r, v));
    } else {
        if (!outer)
            g->handle[i] = offload_pack(r, v);
        else if (!region_pack(r, outer, &g->handle[i]))
            return;
        if (outer && wants_grad(r, v)) {
            g->edge[i].node = r->values[v].leaf ? accumulate_node(r, v) : grad_fn(r, v);
            g->edge[i].input = r->values[v].leaf ? 0 : r->values[v].output_nr;
            node_ref(r, g->edge[i].node);
        }
        g->given[i] = true;
        g->args[i] = 0;
    }
    value_unref(r, v);
}

static void pack_args(struct run *r, struct region *g)
{
    if (!r->region && !offload_packs(r))
        return;
    g->offloaded = !r->region;
    for (int i = 0; i < g->n_args && !run_dead(r); i++)
        if (g->args[i])
            pack_arg(r, g, i);
    if (r->region && !region_recomputes(r->region))
        region_ref(g->within = r->region);
}

static val unpack_arg(struct run *r, struct region *g, int i)
{
    uint32_t node = g->edge[i].node;
    val v = g->within ? region_unpack(r, g->within, g->handle[i]) : offload_unpack(r, g->handle[i]);

    if (v && node && !r->values[v].requires_grad) {
        node_ref(r, r->values[v].node = node);
        r->values[v].output_nr = g->edge[i].input;
        r->values[v].requires_grad = true;
    }
    return v;
}

static void unpack_args(struct run *r, struct region *g)
{
    for (int i = 0; i < g->n_args && (g->offloaded || g->within); i++)
        if (g->given[i])
            g->args[i] = unpack_arg(r, g, i);
}

static void drop_args(struct run *r, struct region *g)
{
    for (int i = 0; i < g->n_args && (g->offloaded || g->within); i++) {
        value_unref(r, g->args[i]);
        g->args[i] = 0;
    }
}

static void drop_second(struct run *r)
{
    consume(r, r->second);
    r->second = 0;
}

static void recompute(struct run *r, struct region *g)
{
    bool grad_enabled = r->grad_enabled;
    struct region *outer = r->region;
    struct frame f;

    for (int i = 0; i < g->n_args && !g->within && !g->offloaded && r->wrote; i++)
        if (written_since(r, g->began, g->args[i]))
            return;
    unpack_args(r, g); /* a region around this one may run again for them */
    f = frame_enter(r);
    r->grad_enabled = true;
    r->region = g;
    g->recomputing = true;
    g->products = 0;
    if (g->autocast)
        autocast_enter(r, g->autocast_dtype);
    val out = run_in(r, g->module, g->run, g->context, g->n_args, g->args);

    r->stopped = false; /* unwound: the frames' locals are gone, and so is what the last operator had made */
    consume(r, out);
    drop_second(r);
    if (g->autocast)
        autocast_leave(r);
    (void)frame_leave(r, f, 0);
    drop_args(r, g);
    g->recomputing = false;
    g->recomputed = true;
    r->region = outer;
    r->grad_enabled = grad_enabled;
}

val region_unpack(struct run *r, struct region *g, uint32_t handle)
{
    val v;

    if (!g->recomputed)
        recompute(r, g);
    v = g->kept[handle];
    g->kept[handle] = 0;
    return v;
}

void region_drop(struct run *r, struct region *g, uint32_t handle)
{
    g->open[handle] = false;
    value_unref(r, g->kept[handle]);
    g->kept[handle] = 0;
}

/* --------------------------------------------------------------------------------------------------------- reentrant */
static void attach_second(struct run *r, uint32_t node)
{
    const struct value *x = &r->values[r->second];
    val shape = value_new(r, (enum dtype)x->dtype, x->ndim, x->size);

    if (shape)
        r->values[shape].floating = false;
    if (r->nodes[node].closure)
        r->nodes[node].closure->second = shape;
    attach_output(r, node, r->second, 1);
}

/* Masks, positions and the like behind the last that a gradient may be of need no edge. */
static int edges_of(const struct run *r, int n, const val *args)
{
    while (n > MAX_EDGES && !wants_grad(r, args[n - 1]))
        n--;
    return n;
}

static val reentrant_forward(struct run *r, struct module *module, region_function run, void *context, int n_args, const val *args,
                             int n_closed, const val *closed)
{
    bool grad_enabled = r->grad_enabled;
    int n_edges = edges_of(r, n_args, args);
    uint32_t node = attach(r, OP_CHECKPOINT, n_edges, args);
    region_release ends;
    struct region *g;
    val out;

    if (node) {
        g = region_new(r);
        if (g) {
            region_hold(r, g, module, run, context, 0, args, n_closed, closed);
            g->n_given = n_args;
            for (int i = 0; i < n_args; i++)
                g->given[i] = args[i] != 0;
            region_ref(r->nodes[node].closure = g);
        }
        for (int i = 0; i < n_args; i++)
            save(r, node, args[i]);
    }
    ends = r->release;
    r->release = NULL;
    r->grad_enabled = false;
    out = run_in(r, module, run, context, n_args, args);
    r->grad_enabled = grad_enabled;
    if (ends)
        ends(r, context);
    attach_output(r, node, out, 0);
    if (node && r->second)
        attach_second(r, node);
    return out;
}

void back_checkpoint(struct back *b)
{
    struct run *r = b->r;
    struct node *n = &r->nodes[b->node];
    struct region *g = n->closure;
    struct frame f = frame_enter(r);
    val inputs[REGION_ARGS] = {0}, out[2] = {0};
    int n_args = g->n_given, n_edges = n->n_edges;

    if (g->second && !b->grad[1]) { /* materialize_grads: what nobody used gets zeros */
        const struct value *x = &r->values[g->second];

        b->grad[1] = value_empty(r, OP_ZEROS, (enum dtype)x->dtype, x->ndim, x->size);
        r->values[b->grad[1]].floating = false;
    }
    for (int i = 0, slot = 0; i < n_args; i++) {
        if (!g->given[i])
            continue;
        inputs[i] = local(r, value_alias(r, b->saved[slot++]));
        if (i < n_edges && node_edge(n, i)->node)
            require_grad(r, inputs[i]);
    }
    r->grad_enabled = true;
    if (g->autocast)
        autocast_enter(r, g->autocast_dtype);
    out[0] = local(r, run_in(r, g->module, g->run, g->context, n_args, inputs));
    out[1] = local(r, r->second);
    r->second = 0;
    if (g->autocast)
        autocast_leave(r);
    r->grad_enabled = false;
    if (!run_dead(r))
        run_graph(r, g->second ? 2 : 1, out, b->grad);
    for (int i = 0; i < n_edges; i++) {
        val *grad = node_edge(n, i)->node ? grad_of(r, inputs[i]) : NULL;

        if (grad && *grad)
            value_ref(r, b->out[i] = *grad);
    }
    (void)frame_leave(r, f, 0);
    if (g->returns)
        g->returns(r, g->context);
}

void checkpoint_releases(struct run *r, region_release ends)
{
    r->release = ends;
}

void checkpoint_returns(struct run *r, region_release returns)
{
    r->returns = returns;
}

/* No region is made: the function has run. */
static val ran(struct run *r, void *context, val out)
{
    region_release ends = r->release;

    r->release = NULL;
    if (ends)
        ends(r, context);
    return out;
}

val checkpoint(struct run *r, bool reentrant, struct module *module, region_function run, void *context, int n_args, const val *args,
               int n_closed, const val *closed)
{
    struct region *outer = r->region, *g;
    struct frame f;
    uint64_t since;
    val out;

    if (run_dead(r))
        return 0;
    f = frame_enter(r);
    for (int i = 0; i < n_args; i++)
        (void)local(r, args[i]);
    if (reentrant)
        return frame_leave(r, f, reentrant_forward(r, module, run, context, n_args, args, n_closed, closed));
    g = region_new(r);
    if (!g || !r->grad_enabled) {
        region_release ends = r->release;

        if (g)
            region_give(r, g);
        r->release = NULL;
        out = run_in(r, module, run, context, n_args, args);
        r->release = ends;
        return frame_leave(r, f, ran(r, context, out));
    }
    region_hold(r, g, module, run, context, n_args, args, n_closed, closed);
    region_ref(g);
    pack_args(r, g);
    r->region = g;
    since = r->sequence;
    out = run_dead(r) ? 0 : run_in(r, module, run, context, n_args, args);
    r->region = outer;
    if (g->selective && r->what_is_read && !run_dead(r))
        drop_what_nobody_reads(r, g, since);
    region_unref(r, g);
    return frame_leave(r, f, out);
}
