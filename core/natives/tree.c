/* tree.c - the modules of a model as core/torch's tree: what adapters, methods and meters read. */
#include "natives/nn.h"

#include <string.h>

struct planting {
    struct tree *t;
    struct module *parent;
    unsigned depth;
};

/* As a symbol: it lives as long as the script, which lies in the tree's arena. */
static const char *name_text(struct script *s, sv name)
{
    sv symbol = script_intern(s, name);

    return sv_ok(symbol) ? str_text(symbol, NULL) : NULL;
}

/* integrations/moe.py: how a class of experts says which way its weights lie */
static bool is_transposed(struct script *s, sv module)
{
    sv v = script_get(s, module, natives_of(s)->is_transposed);
    bool ret = sv_ok(v) && script_truth(s, v) == 1;

    if (!sv_ok(v))
        script_forgive(s);
    sv_drop(s, v);
    return ret;
}

enum { NAMED_ONCE = 2 }; /* by the module, and by who looks at it */

static bool plant_tensor(struct script *s, struct tree *t, struct module *m, struct nn_module *o, sv module, const struct nn_entry *e)
{
    sv v = script_get_plain(s, module, e->name);
    struct tensor *p = sv_ok(v) ? as_tensor(s, v) : NULL;
    const char *name = p ? name_text(s, e->name) : NULL;
    bool buffer = e->kind == ENTRY_BUFFER;
    struct param *made;

    if (!p || !name) {
        sv_drop(s, v);
        return !script_failed(s); /* None: a bias that is not there */
    }
    if (shape_of(p)->ndim > PARAM_DIMS) {
        sv_drop(s, v);
        (void)script_leave(s, "a parameter of more than %d dimensions", (int)PARAM_DIMS);
        return false;
    }
    made = buffer ? buffer_add(t, m, name, (enum dtype)shape_of(p)->dtype, shape_of(p)->ndim, shape_of(p)->size)
                  : param_add(t, m, name, shape_of(p)->ndim, shape_of(p)->size);
    if (made && !buffer) {
        made->dtype = (enum dtype)shape_of(p)->dtype; /* that of the weights, or the one that the class gave it */
        made->requires_grad = shape_of(p)->requires_grad;
        made->born_frozen = !made->requires_grad;
        made->transposed = made->ndim == 3 && is_transposed(s, module);
    }
    if (made && buffer)
        made->named_twice = p->base.h.refs > NAMED_ONCE;
    if (made && p->param)
        tie(made, p->param->tied ? p->param->tied : p->param); /* the same Parameter under two names */
    else if (made) {
        p->param = made;
        p->next = natives_of(s)->planted;
        natives_of(s)->planted = p;
    }
    if (o->kind && !strcmp(name, "weight"))
        m->weight = made;
    if (o->kind && !strcmp(name, "bias"))
        m->bias = made;
    sv_drop(s, v);
    return made != NULL;
}

static val python_forward(struct run *r, struct module *m, val x)
{
    (void)m;
    (void)x;
    run_fail(r, ERR_INTERNAL, "", "a module of a class of its own is called as a leaf");
    return 0;
}

/* A class derived from Linear with a forward of its own, under what adapters put in its place: run as they call it. */
struct derived {
    struct natives *n;
    sv self;
};

static val derived_forward(struct run *r, struct module *m, val x)
{
    const struct derived *d = m->extra;
    struct script *s = d->n->s;
    struct frame f = frame_enter(r);
    sv given = natives_tensor(d->n, local(r, x)), result;
    val out = 0;

    result = sv_ok(given) ? script_call_method(s, d->self, d->n->forward, 1, &given) : given;
    sv_drop(s, given);
    if (sv_ok(result))
        out = natives_value(d->n, result);
    else
        natives_fail_run(d->n);
    if (out)
        value_ref(r, out);
    sv_drop(s, result);
    if (out)
        r->values[out].floating = true;
    return frame_leave(r, f, out);
}

bool natives_is_replaced(const struct module *m)
{
    return m->forward != python_forward && m->forward != derived_forward;
}

static bool plant(struct script *s, void *of, sv name, sv child);

static bool fill(struct script *s, struct tree *t, struct module *m, sv module, unsigned depth)
{
    struct nn_module *o = nn_of(module);
    struct planting below = {.t = t, .parent = m, .depth = depth};

    if (depth >= MODULES_DEEPEST) {
        (void)script_raise(s, EXC_RecursionError, "maximum recursion depth exceeded");
        return false;
    }
    for (uint32_t i = 0; i < o->n; i++)
        if (o->entries[i].kind != ENTRY_MODULE && !plant_tensor(s, t, m, o, module, &o->entries[i]))
            return false;
    return children_visit(s, module, plant, &below) && !t->error.code;
}

static bool forward_is_native(struct script *s, sv module)
{
    sv f = script_get(s, cls_value(sv_class(s, module)), natives_of(s)->forward);
    bool native = sv_is(f, KIND_NATIVE);

    if (!sv_ok(f)) /* a ModuleList */
        script_forgive(s);
    sv_drop(s, f);
    return native;
}

static struct module *node_of(struct script *s, struct tree *t, struct module *parent, const char *name, sv module)
{
    struct nn_module *o = nn_of(module);
    struct module *m = container(t, parent, name);

    if (t->error.code)
        return m;
    o->m = m;
    m->class_name = cls_name(sv_class(s, module));
    m->class_module = cls_module(sv_class(s, module));
    o->leaf = o->kind != MODULE_CONTAINER && !(o->kind == MODULE_DROPOUT && o->in_place) && forward_is_native(s, module);
    m->kind = (enum module_kind)o->kind;
    m->in = o->in;
    m->out = o->out;
    m->p = o->p;
    m->padding_idx = o->padding_idx;
    m->forward = o->leaf ? module_leaf_forward(m->kind) : python_forward;
    if (!o->leaf && m->kind == MODULE_LINEAR) {
        struct derived *d = arena_new(t->arena, struct derived);

        if (!d)
            return t->root;
        *d = (struct derived){natives_of(s), module}; /* its parent keeps it */
        m->extra = d;
        m->forward = derived_forward;
    }
    return m;
}

static bool plant(struct script *s, void *of, sv name, sv child)
{
    struct planting *p = of;
    const char *text = name_text(s, name);
    struct module *m;

    if (!text || !as_module(s, child))
        return !script_failed(s);
    if (nn_of(child)->m) { /* one module under two names: named_modules() tells it once */
        p->t->shares_modules = true;
        return true;
    }
    m = node_of(s, p->t, p->parent, text, child);
    return !p->t->error.code && fill(s, p->t, m, child, p->depth + 1);
}

struct module *natives_module(struct natives *n, sv module)
{
    return as_module(n->s, module) ? nn_of(module)->m : NULL;
}

enum err_code natives_tree(struct natives *n, sv model, struct tree *t, struct err *err)
{
    struct script *s = n->s;
    struct module *root;

    if (!as_module(s, model))
        return err_set(err, ERR_ARCH_INVALID, "", "the class that the config names is no nn.Module");
    n->tree = t;
    root = node_of(s, t, NULL, "", model);
    if (!t->error.code && fill(s, t, root, model, 0))
        return ERR_OK;
    if (t->error.code) {
        *err = t->error;
        return err->code;
    }
    return script_error(s, err);
}
