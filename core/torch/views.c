/* views.c - writes in place, and what they make of the history of views and of what they are of. */
#include "torch/views.h"

#include "torch/autograd.h"
#include "torch/calls.h"
#include "torch/function.h"

#include <string.h>

/* What a CopySlices is made of, and what the writer's node is without it. */
struct slices {
    struct slices *next; /* of the free ones */
    enum op op;
    uint8_t n_saved;
    struct function *function;
    val meta;        /* of its first edge */
    struct edge was; /* the view's own history, which the writer's node would hold */
    int base_ndim, ndim;
    int64_t base_size[MAX_DIMS], base_stride[MAX_DIMS], size[MAX_DIMS];
};

static bool needs(const struct back *b, int edge)
{
    return node_edge(&b->r->nodes[b->node], edge)->node != 0;
}

static void hand(struct back *b, int edge, val v)
{
    b->r->values[v].floating = false;
    b->out[edge] = v;
}

/* ------------------------------------------------------------------------------------------------------------ history */
void view_is_of(struct run *r, val v, val a)
{
    if (r->calls) {
        calls_ask_many(r, CALLED_view_is_of, 2, (const val[]){v, a}, 0, NULL, 0, NULL);
        return;
    }
    struct value *x = &r->values[v];
    const struct value *of = &r->values[a];

    x->view = true;
    if (!r->grad_enabled) {
        x->made = MADE_NO_GRAD;
        return;
    }
    x->base = of->base ? of->base : a;
    r->values[x->base].refs++;
    r->values[x->base].n_views++;
    x->made = of->made;
    x->version = writes_of(r, x->storage).version;
}

/* Where the gradient of a tensor that is no view goes. */
static struct edge gradient_edge(struct run *r, val v)
{
    struct value *x = &r->values[v];

    if (x->leaf)
        return (struct edge){x->requires_grad ? accumulate_node(r, v) : 0, 0};
    return (struct edge){x->node, x->output_nr};
}

static void set_history(struct run *r, val v, uint32_t node)
{
    struct value *x = &r->values[v];
    uint32_t old = x->leaf ? 0 : x->node; /* a leaf does not hold its node */

    node_ref(r, node);
    x->leaf = false;
    x->node = node;
    x->output_nr = 0;
    x->requires_grad = true;
    node_unref(r, old);
}

static void raise(struct run *r, const char *what)
{
    run_fail(r, ERR_SCRIPT_RAISED, "", what);
}

static void raise_made(struct run *r, enum view_made made)
{
    if (made == MADE_PARTS)
        raise(
            r,
            "RuntimeError: a view that is one of several of split(), chunk() or unbind() is modified inplace, or its base is. Such functions do not "
            "allow the output views to be modified inplace");
    else if (made == MADE_NO_GRAD)
        raise(r, "RuntimeError: A view was created in no_grad mode and it or its base is modified inplace with grad mode enabled");
    else
        run_fail(r, ERR_LEAVES_LANGUAGE, "", "a view that an autograd.Function returned is modified inplace, or its base is");
}

COLD void view_renews(struct run *r, val v)
{
    struct value *x = &r->values[v];
    const struct value *base = &r->values[x->base];
    uint32_t node;
    struct edge to;
    struct node *n;
    val like;

    if ((!x->node && !base->requires_grad) || run_dead(r))
        return;
    if (x->made != MADE_PLAIN && x->made != MADE_DATA) {
        raise_made(r, (enum view_made)x->made);
        return;
    }
    to = gradient_edge(r, x->base);
    node = node_new(r, OP_AS_STRIDED, 1);
    like = node ? value_new(r, (enum dtype)base->dtype, base->ndim, base->size) : 0;
    if (!like)
        return;
    n = &r->nodes[node];
    n->n_edges = 1;
    n->edge[0] = to;
    node_ref(r, to.node);
    r->values[like].floating = false;
    memcpy(r->values[like].stride, base->stride, sizeof base->stride);
    n->meta[0] = like;
    for (int i = 0; i < x->ndim; i++)
        n->at.dim |= (x->size[i] > 1 && !x->stride[i]) << i;
    x->version = writes_of(r, x->storage).version;
    set_history(r, v, node);
}

COLD void views_renew(struct run *r, int n, const val *v)
{
    for (int i = 0; i < n; i++)
        if (wants_grad(r, v[i]) && !r->values[v[i]].leaf)
            (void)grad_fn(r, v[i]);
}

COLD bool check_in_place(struct run *r, val v)
{
    const struct value *x = &r->values[v];

    if (run_dead(r))
        return false;
    for (int i = 0; i < x->ndim; i++)
        if (x->size[i] > 1 && !x->stride[i])
            raise(r,
                  "RuntimeError: unsupported operation: more than one element of the written-to tensor refers to a single memory location");
    if (x->made != MADE_PLAIN && x->made != MADE_DATA)
        raise_made(r, (enum view_made)x->made);
    else if (x->base && r->values[x->base].leaf && r->values[x->base].requires_grad)
        raise(r, "RuntimeError: a view of a leaf Variable that requires grad is being used in an in-place operation.");
    else if (x->leaf && x->requires_grad)
        raise(r, "RuntimeError: a leaf Variable that requires grad is being used in an in-place operation.");
    return !run_dead(r);
}

/* The views of what begins to want a gradient want one too. `v` is one of them, and mostly the only one. */
static void spread(struct run *r, val base, val v)
{
    uint32_t others = r->values[base].n_views - 1;

    r->values[v].requires_grad = true;
    if (!others || !run_spend(r, r->n_values / 32))
        return;
    for (uint32_t i = 1; i < r->n_values && others; i++)
        if (r->values[i].base == base && i != v) {
            r->values[i].requires_grad = true;
            others--;
        }
}

static struct slices *slices_new(struct run *r)
{
    struct slices *s = r->free_slices;

    if (s)
        r->free_slices = s->next;
    else
        s = run_room(r, sizeof *s, 1);
    return s;
}

/* The node is the writer's. */
static void uncover(struct node *n)
{
    const struct slices *s = n->slices;

    n->op = (uint16_t)s->op;
    n->n_saved = s->n_saved;
    n->function = s->function;
    *node_meta(n, 0) = s->meta;
}

void slices_release(struct run *r, struct node *n)
{
    struct slices *s = n->slices;

    uncover(n);
    n->slices = NULL;
    node_unref(r, s->was.node);
    s->next = r->free_slices;
    r->free_slices = s;
}

/* CopySlices::CopySlices: the writer's edges, but for the first, which is the base's. The node takes the writer's place. */
static void write_part(struct run *r, val v, uint32_t node)
{
    struct value *x = &r->values[v];
    const val base = x->base;
    const struct value *y = &r->values[base];
    struct node *n = &r->nodes[node];
    struct slices *s = slices_new(r);
    bool begins = !y->requires_grad;

    if (!s)
        return;
    s->op = (enum op)n->op;
    s->n_saved = n->n_saved;
    s->function = n->function;
    s->meta = *node_meta(n, 0);
    s->was = *node_edge(n, 0);
    s->base_ndim = y->ndim;
    s->ndim = x->ndim;
    memcpy(s->base_size, y->size, sizeof s->base_size);
    memcpy(s->base_stride, y->stride, sizeof s->base_stride);
    memcpy(s->size, x->size, sizeof s->size);
    n->op = OP_COPY_SLICES;
    n->n_saved = 0;
    n->function = NULL;
    *node_meta(n, 0) = 0;
    n->slices = s;
    *node_edge(n, 0) = gradient_edge(r, base);
    node_ref(r, node_edge(n, 0)->node);
    set_history(r, base, node);
    if (begins)
        spread(r, base, v);
    (void)grad_fn(r, v);
}

/* Numbers of storages beyond those of the last time are new: nobody wrote them. */
static bool writes_known(struct run *r, uint32_t storage)
{
    uint32_t n = r->max_storages - r->n_storages < r->n_storages ? r->max_storages : 2 * r->n_storages;
    struct storage_write *more;

    if (storage < r->n_writes)
        return true;
    more = run_room(r, sizeof *more, n);
    if (!more)
        return false;
    if (r->n_writes)
        memcpy(more, r->writes, r->n_writes * sizeof *more);
    r->writes = more;
    r->n_writes = n;
    return r->wrote = true;
}

/* derivatives.yaml elu_, leaky_relu_: in place they ask for the result */
static bool saves_written(unsigned op)
{
    return op == OP_ELU || op == OP_LEAKY_RELU;
}

/* x.mul_(x): what it saved it writes over. x.exp_() saves what it wrote. */
static bool saves(const struct run *r, uint32_t node, uint32_t storage)
{
    const struct node *n = &r->nodes[node];

    if (n->function ? n->function->saves_result : op_rows[n->op].saves == SAVES_RESULT || saves_written(n->op))
        return false;
    for (int i = 0; i < n->n_saved; i++)
        if (!(n->saved[i] & (SAVED_PACKED | SAVED_OFFLOADED)) && r->values[n->saved[i]].storage == storage)
            return true;
    return false;
}

COLD void rebase_history(struct run *r, val v, val writer)
{
    if (r->calls) {
        calls_ask_many(r, CALLED_rebase_history, 2, (const val[]){v, writer}, 0, NULL, 0, NULL);
        return;
    }
    struct value *x = &r->values[v];
    uint32_t node = writer && writer != v ? r->values[writer].node : 0;

    if (run_dead(r))
        return;
    if (x->storage && x->made != MADE_DATA && writes_known(r, x->storage)) {
        r->sequence += !node || saves(r, node, x->storage); /* after all nodes that saved it */
        r->writes[x->storage].version++;
        r->writes[x->storage].at = (uint32_t)r->sequence;
    }
    if (node && x->base)
        write_part(r, v, node);
    else if (node)
        set_history(r, v, node);
}

bool written_since(struct run *r, uint64_t sequence, val v)
{
    if (!r->views_known) /* kernels of the library write past autograd's counters: Triton's, as Liger's backward takes its input's room */
        return false;
    if (writes_of(r, r->values[v].storage).at <= sequence)
        return false;
    raise(r, "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation");
    return true;
}

COLD bool saved_written(const struct back *b)
{
    const struct node *n = &b->r->nodes[b->node];

    for (int i = 0; i < n->n_saved; i++)
        if (!(n->saved[i] & (SAVED_PACKED | SAVED_OFFLOADED)) && written_since(b->r, n->sequence, n->saved[i]))
            return true;
    return false;
}

/* The gradient of the whole, copied; the writer's formula for a clone of the part; what it gives the part is put back. */
void back_copy_slices(struct back *b)
{
    struct run *r = b->r;
    struct node *n = &r->nodes[b->node];
    const struct slices *s = n->slices;
    const val given = b->grad[0];
    val whole;

    if (!given || run_dead(r))
        return;
    whole = owned(r, factory(r, OP_EMPTY_STRIDED, dtype_of(r, given), s->base_ndim, s->base_size));
    if (!whole)
        return;
    memcpy(r->values[whole].stride, s->base_stride, sizeof s->base_stride);
    launch(r, OP_CLONE, whole, 1, &given);
    b->grad[0] = owned(r, factory(r, OP_CLONE, dtype_of(r, given), s->ndim, s->size));
    launch(r, OP_CLONE, b->grad[0], 1, &whole);
    uncover(n);
    writer_runs(b);
    value_unref(r, b->grad[0]);
    b->grad[0] = given;
    if (b->out[0]) {
        launch(r, OP_COPY_INTO, b->out[0], 1, b->out);
        value_unref(r, b->out[0]);
        b->out[0] = whole;
    } else {
        value_unref(r, whole);
    }
    slices_release(r, n);
    value_unref(r, *node_meta(n, 0)); /* what goes to the base is as the base is */
    *node_meta(n, 0) = 0;
}

/* FunctionsManual.cpp as_strided_backward: zeros as far as the base reaches, the gradient put into its places */
COLD void back_as_strided(struct back *b)
{
    struct run *r = b->r;
    const struct node *n = &r->nodes[b->node];
    const struct value *like = &r->values[n->meta[0]];
    val g = b->grad[0], out, held = 0;
    int64_t reach = 1;

    for (int i = r->values[g].ndim; i-- > 0 && !run_dead(r);)
        if (n->at.dim >> i & 1) {
            g = owned(r, sum_dim(r, g, i, false));
            value_unref(r, held);
            held = g;
        }
    for (int i = 0; i < like->ndim; i++)
        reach = like->size[i] ? reach + (like->size[i] - 1) * like->stride[i] : 0;
    out = value_new(r, dtype_of(r, b->grad[0]), like->ndim, like->size);
    if (out) {
        memcpy(r->values[out].stride, like->stride, sizeof like->stride);
        r->values[out].view = true;
        value_birth(r, out, OP_NEW_ZEROS, (uint64_t)reach * dtype_bytes(dtype_of(r, out)));
        launch(r, OP_NEW_ZEROS, out, 0, NULL);
        launch(r, OP_COPY_INTO, g, 1, &g);
        hand(b, 0, out);
    }
    value_unref(r, held);
}

/* ------------------------------------------------------------------------------------------------------------- in place */
val copy_in_place(struct run *r, val a, val from)
{
    ASKED_VV(r, copy_in_place, a, from);
    val in[2] = {a, from}, out;
    uint32_t node = attach(r, OP_COPY_INTO, 2, in);

    if (run_dead(r))
        return 0;
    meta_of(r, node, 1, from);
    out = value_alias(r, a);
    launch(r, OP_COPY_INTO, out, 1, &from);
    attach_output(r, node, out, 0);
    consume(r, from);
    return out;
}

/* functions/tensor.cpp CopyBackwards */
void back_copy_into(struct back *b)
{
    struct run *r = b->r;
    const struct value *g = &r->values[b->grad[0]];

    if (needs(b, 0))
        hand(b, 0, factory(r, OP_ZEROS_LIKE, (enum dtype)g->dtype, g->ndim, g->size));
    if (needs(b, 1)) {
        val given = to_dtype(r, b->grad[0], dtype_of(r, r->nodes[b->node].meta[1]));

        if (given == b->grad[0])
            value_ref(r, given);
        hand(b, 1, given);
    }
}

val fill_in_place(struct run *r, val a)
{
    ASKED_V(r, fill_in_place, a);
    uint32_t node = attach(r, OP_FILL, 1, &a);
    val out = run_dead(r) ? 0 : value_alias(r, a);

    if (!out)
        return 0;
    launch(r, OP_FILL, out, 0, NULL);
    attach_output(r, node, out, 0);
    return out;
}

/* derivatives.yaml fill_, zero_: zeros_like(grad) */
void back_fill(struct back *b)
{
    const struct value *g = &b->r->values[b->grad[0]];

    hand(b, 0, factory(b->r, OP_ZEROS_LIKE, (enum dtype)g->dtype, g->ndim, g->size));
}

/* a op= b: a keeps its storage. What the formula needs of the old a is cloned before: VariableType's original_self. */
val write_in_place(struct run *r, enum op op, val a, val b)
{
    ASKED(r, write_in_place, 2, ((const val[]){a, b}), 1, (&(const int64_t){op}));
    val in[2] = {a, b}, old = 0, out;
    uint32_t node = attach(r, op, b ? 2 : 1, in);
    bool multiplies = op == OP_MUL || op == OP_DIV;

    if (run_dead(r))
        return 0;
    if (multiplies && b && wants_grad(r, b)) {
        old = value_empty(r, OP_CLONE, dtype_of(r, a), r->values[a].ndim, r->values[a].size);
        launch(r, OP_CLONE, old, 1, &a);
    }
    if (b && (op == OP_DIV || (op == OP_MUL && wants_grad(r, a))))
        save(r, node, b);
    if (old)
        save(r, node, old);
    consume(r, old);
    out = value_alias(r, a);
    launch(r, op, out, b ? 2 : 1, in);
    for (int k = 0; k < 2 && node && in[k]; k++)
        if (numel(r, in[k]) != numel(r, out) || dtype_of(r, in[k]) != dtype_of(r, out) || dtype_of(r, in[0]) != dtype_of(r, b ? b : a))
            meta_of(r, node, k, in[k]); /* a gradient is as wide as the wider of the two */
    attach_output(r, node, out, 0);
    consume(r, b);
    return out;
}

/* A derivative asks for the old x: VariableType's original_self */
static void save_old(struct run *r, uint32_t node, val a)
{
    val old = node ? value_empty(r, OP_CLONE, dtype_of(r, a), r->values[a].ndim, r->values[a].size) : 0;

    if (!old)
        return;
    launch(r, OP_CLONE, old, 1, &a);
    save(r, node, old);
    consume(r, old);
}

val unary_in_place(struct run *r, enum op op, val a, double p)
{
    ASKED_VI(r, unary_in_place, a, op, calls_bits(p));
    uint32_t node = attach(r, op, 1, &a);
    const bool result = op_rows[op].saves == SAVES_RESULT || saves_written(op);
    val out;

    if (run_dead(r))
        return 0;
    if (node)
        r->nodes[node].at.p = p;
    if (op_rows[op].saves == SAVES_IN0 && !result)
        save_old(r, node, a);
    out = value_alias(r, a);
    launch(r, op, out, 1, &a);
    if (result)
        save_result(r, node, out);
    attach_output(r, node, out, 0);
    return out;
}

/* x.clamp_(min, max) */
val clamp_in_place(struct run *r, val a, bool min, bool max)
{
    ASKED_VI(r, clamp_in_place, a, min, max);
    uint32_t node = attach(r, OP_CLAMP, 1, &a);
    val out;

    if (run_dead(r))
        return 0;
    if (node)
        r->nodes[node].at.dim = min + 2 * max;
    save_old(r, node, a);
    out = value_alias(r, a);
    launch(r, OP_CLAMP, out, 1, &a);
    attach_output(r, node, out, 0);
    return out;
}
