#include "torch/module.h"

#include "torch/autograd.h"
#include "torch/calls.h"
#include "torch/hooks.h"
#include "torch/ops.h"

#include <stdio.h>
#include <string.h>

enum err_code tree_init(struct tree *t, struct arena *arena, enum dtype dtype, uint32_t max_modules, struct err *err)
{
    *t = (struct tree){.arena = arena, .dtype = dtype, .max_modules = max_modules};
    t->modules = arena_array(arena, struct module *, max_modules);
    if (!t->modules)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for a model of this size");
    t->n_modules = 1;
    return ERR_OK;
}

static const struct module none; /* what a full tree hands out: nothing is written to it */

static void tree_full(struct tree *t)
{
    if (!t->error.code)
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for a model of this size");
}

struct module *container(struct tree *t, struct module *parent, const char *name)
{
    struct module *m = !t->error.code && t->n_modules < t->max_modules ? arena_new(t->arena, struct module) : NULL;

    if (!m) {
        tree_full(t);
        return (struct module *)(uintptr_t)&none;
    }
    m->name = name;
    m->parent = parent;
    m->number = t->n_modules;
    t->modules[t->n_modules++] = m;
    if (!parent)
        t->root = m;
    else if (parent->last)
        parent->last = parent->last->next = m;
    else
        parent->first = parent->last = m;
    return m;
}

struct module *container_at(struct tree *t, struct module *parent, uint32_t index)
{
    char *name = arena_array(t->arena, char, 12);

    if (!name) {
        tree_full(t);
        return (struct module *)(uintptr_t)&none;
    }
    (void)snprintf(name, 12, "%u", index);
    return container(t, parent, name);
}

static struct param *add_param(struct tree *t, struct module *m, const char *name, enum dtype dtype, bool buffer, int ndim,
                               const int64_t *size)
{
    struct param *p = arena_new(t->arena, struct param);

    if (!p || t->error.code) {
        tree_full(t);
        return NULL;
    }
    p->name = name;
    p->owner = m;
    p->dtype = dtype;
    p->buffer = buffer;
    p->ndim = ndim;
    for (int i = 0; i < ndim; i++)
        p->size[i] = size[i];
    if (m->last_param)
        m->last_param = m->last_param->next = p;
    else
        m->params = m->last_param = p;
    return p;
}

struct param *param_add(struct tree *t, struct module *m, const char *name, int ndim, const int64_t *size)
{
    return add_param(t, m, name, t->dtype, false, ndim, size);
}

struct param *buffer_add(struct tree *t, struct module *m, const char *name, enum dtype dtype, int ndim, const int64_t *size)
{
    return add_param(t, m, name, dtype, true, ndim, size);
}

int64_t param_numel(const struct param *p)
{
    int64_t n = 1;

    for (int i = 0; i < p->ndim; i++)
        n *= p->size[i];
    return n;
}

void tie(struct param *p, struct param *to)
{
    while (to && to->tied)
        to = to->tied;
    if (p && to != p) /* a head that is the embedding itself */
        p->tied = to;
}

bool module_is_below(const struct module *m, const struct module *root)
{
    while (m && m != root)
        m = m->parent;
    return m != NULL;
}

void module_unlink(struct module *m)
{
    struct module *parent = m->parent, **at = &parent->first, *last = NULL;

    while (*at) {
        if (*at == m)
            *at = m->next;
        else
            at = &(last = *at)->next;
    }
    parent->last = last;
    m->next = NULL;
}

/* ------------------------------------------------------------------------------------------------------ leaf modules */
static val linear_forward(struct run *r, struct module *m, val x)
{
    if (r->float8 && m != r->float8_not)
        return float8_linear(r, x, m->weight->value, m->bias ? m->bias->value : 0);
    return linear_op(r, x, m->weight->value, m->bias ? m->bias->value : 0);
}

/* pytorch_utils.py Conv1D: addmm(bias, x.view(-1, in), weight).view(..) */
static val conv1d_forward(struct run *r, struct module *m, val x)
{
    const struct value *v = &r->values[x];
    int64_t size[MAX_DIMS];
    int nd = v->ndim;

    memcpy(size, v->size, sizeof size);
    size[nd - 1] = m->out;
    x = local(r, addmm(r, m->bias->value, view(r, x, SHAPE(-1, m->in)), m->weight->value));
    return view(r, x, nd, size);
}

static val embedding_forward(struct run *r, struct module *m, val ids)
{
    return embedding_op(r, m->weight->value, ids, m->padding_idx);
}

static val layer_norm_forward(struct run *r, struct module *m, val x)
{
    return layer_norm(r, x, m->weight ? m->weight->value : 0, m->bias ? m->bias->value : 0);
}

static val dropout_forward(struct run *r, struct module *m, val x)
{
    return dropout(r, x, m->p);
}

module_forward module_leaf_forward(enum module_kind kind)
{
    static const module_forward forwards[] = {
        [MODULE_LINEAR] = linear_forward, [MODULE_CONV1D] = conv1d_forward, [MODULE_EMBEDDING] = embedding_forward,
        [MODULE_LAYER_NORM] = layer_norm_forward, [MODULE_DROPOUT] = dropout_forward,
    };

    return kind < sizeof forwards / sizeof *forwards ? forwards[kind] : NULL;
}

static struct module *leaf(struct tree *t, struct module *parent, const char *name, enum module_kind kind, module_forward forward)
{
    struct module *m = container(t, parent, name);

    if (m != &none) {
        m->kind = kind;
        m->forward = forward;
    }
    return m;
}

struct module *linear(struct tree *t, struct module *parent, const char *name, int64_t in, int64_t out, bool bias)
{
    struct module *m = leaf(t, parent, name, MODULE_LINEAR, linear_forward);

    if (t->error.code)
        return m;
    m->in = in;
    m->out = out;
    m->weight = param_add(t, m, "weight", SHAPE(out, in));
    if (bias)
        m->bias = param_add(t, m, "bias", SHAPE(out));
    return m;
}

struct module *conv1d(struct tree *t, struct module *parent, const char *name, int64_t in, int64_t out)
{
    struct module *m = leaf(t, parent, name, MODULE_CONV1D, conv1d_forward);

    if (t->error.code)
        return m;
    m->in = in;
    m->out = out;
    m->weight = param_add(t, m, "weight", SHAPE(in, out));
    m->bias = param_add(t, m, "bias", SHAPE(out));
    return m;
}

struct module *embedding(struct tree *t, struct module *parent, const char *name, int64_t rows, int64_t width, bool padding_idx)
{
    struct module *m = leaf(t, parent, name, MODULE_EMBEDDING, embedding_forward);

    if (t->error.code)
        return m;
    m->in = rows;
    m->out = width;
    m->padding_idx = padding_idx;
    m->weight = param_add(t, m, "weight", SHAPE(rows, width));
    return m;
}

struct module *layer_norm_module(struct tree *t, struct module *parent, const char *name, int64_t width, bool affine)
{
    struct module *m = leaf(t, parent, name, MODULE_LAYER_NORM, layer_norm_forward);

    if (t->error.code || !affine)
        return m;
    m->weight = param_add(t, m, "weight", SHAPE(width));
    m->bias = param_add(t, m, "bias", SHAPE(width));
    return m;
}

struct module *dropout_module(struct tree *t, struct module *parent, const char *name, double p)
{
    struct module *m = leaf(t, parent, name, MODULE_DROPOUT, dropout_forward);

    if (!t->error.code)
        m->p = p;
    return m;
}

/* -------------------------------------------------------------------------------------------------------------- call */
void module_hook(struct tree *t, struct module_hook **list, struct module_hook hook)
{
    struct module_hook *h = arena_new(t->arena, struct module_hook);

    if (!h) {
        tree_full(t);
        return;
    }
    *h = hook;
    h->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = h;
}

static struct frame enter(struct run *r, struct module *m)
{
    struct frame f = frame_enter(r);

    r->module = m->number;
    if (r->node_running) { /* a module that runs inside a node: a checkpoint runs again */
        r->node_running = 0;
        r->recompute = true;
    }
    return f;
}

/* What a hook returns takes the argument's place; the caller's own lives as long as the call. */
struct frame module_enter_with(struct run *r, struct module *m, val *x)
{
    struct frame f = enter(r, m);

    f.hooked = m->hooks ? m : NULL;
    for (const struct module_hook *h = m->hooks; h && !run_dead(r); h = h->next) {
        val was = *x;

        if (!h->pre)
            continue;
        hook_call(r);
        *x = h->pre(r, m, h->of, was);
        if (*x != was)
            (void)hold(r, *x);
    }
    return f;
}

static struct module *in_use(const struct run *r, struct module *m)
{
    return r->adapters_off && m->original && m->original->forward ? m->original : m;
}

void module_read(struct run *r, struct module *m)
{
    if (r->calls) {
        calls_read(r, m);
        return;
    }
    m = in_use(r, m);
    for (const struct module_hook *h = m->hooks; h && !run_dead(r); h = h->next)
        if (h->read)
            h->read(r, m, h->of);
}

struct frame module_enter(struct run *r, struct module *m)
{
    val none_given = 0;

    return module_enter_with(r, m, &none_given);
}

val call(struct run *r, struct module *m, val x)
{
    struct frame f, arguments;

    if (r->calls)
        return calls_module(r, m, x);
    if (run_dead(r))
        return 0;
    m = in_use(r, m);
    if (!m->hooks) {
        f = enter(r, m);
        (void)hold(r, x);
        return frame_leave(r, f, m->forward(r, m, x));
    }
    arguments = frame_enter(r);
    (void)hold(r, x);
    f = module_enter_with(r, m, &x);
    return frame_leave(r, arguments, frame_leave(r, f, m->forward(r, m, x)));
}

const char *module_path(const struct tree *t, uint32_t number, char *buf, size_t bytes)
{
    size_t at = bytes - 1;
    const struct module *m = number && number < t->n_modules ? t->modules[number] : NULL;

    buf[at] = 0;
    for (; m && m->parent; m = m->parent) {
        size_t n = strlen(m->name);

        if (n + 1 > at)
            break;
        at -= n;
        memcpy(buf + at, m->name, n);
        if (m->parent->parent)
            buf[--at] = '.';
    }
    return buf + at;
}

/* ------------------------------------------------------------------------------------------------------- on the device */
void run_owner(struct run *r, const struct module *m)
{
    if (r->loads_by_owner)
        r->module = m ? m->number : 0;
}

static void place(struct run *r, struct param *p)
{
    val v;

    if (p->tied) {
        if (!p->tied->value)
            place(r, p->tied);
        p->value = p->tied->value;
        return;
    }
    if (p->value || p->late)
        return;
    run_owner(r, p->owner);
    v = value_empty(r, OP_EMPTY, p->dtype, p->ndim, p->size);
    run_owner(r, NULL);
    if (!v)
        return;
    r->values[v].floating = false;
    mark_block(r, v, p->buffer ? MARK_BUFFER : MARK_PARAMETER);
    p->value = v;
}

static void materialise_module(struct run *r, struct module *m)
{
    for (struct module *c = m->first; c; c = c->next)
        if (!c->wraps_parent)
            materialise_module(r, c);
    for (struct param *p = m->params; p; p = p->next)
        if (!p->buffer)
            place(r, p);
    for (struct param *p = m->params; p; p = p->next)
        if (p->buffer)
            place(r, p);
    for (struct module *c = m->first; c; c = c->next)
        if (c->wraps_parent)
            materialise_module(r, c);
}

void materialise(struct run *r, struct tree *t)
{
    materialise_module(r, t->root);
}

/* p.data = p.data.to(torch.float32) */
static void widen_one(void *context, struct module *m, struct param *p)
{
    struct run *r = context;
    val old = p->value;

    (void)m;
    if (!p->requires_grad || p->tied || !old || run_dead(r) || (p->dtype != DTYPE_BF16 && p->dtype != DTYPE_FP16))
        return;
    p->dtype = DTYPE_FP32;
    p->value = 0;
    place(r, p);
    value_unref(r, old);
}

static void follow_tied(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    if (p->tied) {
        p->dtype = p->tied->dtype;
        p->value = p->tied->value;
    }
}

void widen_trained(struct run *r, struct tree *t)
{
    params_visit(t->root, widen_one, r);
    params_visit(t->root, follow_tied, NULL);
}

void params_visit(struct module *m, param_visitor visit, void *context)
{
    if (m->original)
        params_visit(m->original, visit, context);
    for (struct param *p = m->params; p; p = p->next)
        if (!p->buffer)
            visit(context, m, p);
    for (struct module *c = m->first; c; c = c->next)
        if (c != m->original)
            params_visit(c, visit, context);
}

static void count_elements(void *context, struct module *m, struct param *p)
{
    int64_t *n = context;

    (void)m;
    *n += param_numel(p);
}

static bool has_params(const struct module *m)
{
    for (const struct param *p = m->params; p; p = p->next)
        if (!p->buffer)
            return true;
    for (const struct module *c = m->first; c; c = c->next)
        if (has_params(c))
            return true;
    return false;
}

static int64_t elements_below(struct module *m)
{
    int64_t n = 0;

    params_visit(m, count_elements, &n);
    return n;
}

static bool is_list(const struct tree *t, const struct module *m)
{
    return m->first && *m->first->name >= '0' && *m->first->name <= '9' && (!t->root || module_is_below(m, t->root)) && has_params(m);
}

static bool has_layers(const struct tree *t, const struct module *list)
{
    uint32_t n = 0;

    for (const struct module *m = list->first; m && t->n_layers; m = m->next)
        n++;
    return n && n == t->n_layers;
}

/* Mostly there is one, whose elements nobody has to count. */
struct module *module_list(const struct tree *t)
{
    struct module *best = NULL;
    int64_t most = -1;
    bool as_many = false, fits;

    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        int64_t n;

        if (!is_list(t, m))
            continue;
        fits = has_layers(t, m);
        if (fits < as_many)
            continue;
        if (!best || fits > as_many) {
            best = m;
            most = -1;
            as_many = fits;
            continue;
        }
        most = most < 0 ? elements_below(best) : most;
        n = elements_below(m);
        if (n > most) {
            most = n;
            best = m;
        }
    }
    return best;
}

bool module_lists_beside(const struct tree *t)
{
    const struct module *list = module_list(t);

    for (uint32_t i = 1; i < t->n_modules && list; i++) {
        const struct module *m = t->modules[i];

        if (m != list && is_list(t, m) && !module_is_below(m, list) && !module_is_below(list, m))
            return true;
    }
    return false;
}
