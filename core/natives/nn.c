/* nn.c - torch.nn.Module: attributes that are modules, parameters or buffers are remembered in their order; a call is core/torch's. */
#include "natives/functions.h"
#include "natives/heard.h"
#include "natives/nn.h"

#include <string.h>

struct nn_module *as_module(struct script *s, sv v)
{
    return sv_is(v, KIND_INSTANCE) && sv_isa(s, v, &module_class) ? nn_of(v) : NULL;
}

/* ------------------------------------------------------------------------------------------------------------ entries */
static int find_entry(const struct nn_module *m, sv name)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->entries[i].name.o == name.o)
            return (int)i;
    return -1;
}

static bool add_entry(struct script *s, struct nn_module *m, sv name, enum entry_kind kind)
{
    int at;

    name = script_intern(s, name);
    if (!sv_ok(name))
        return false;
    at = find_entry(m, name);
    script_stirs(s, &m->base.h);
    if (at >= 0) {
        m->entries[at].kind = (uint8_t)kind;
        return true;
    }
    if (m->n == m->cap) {
        uint32_t cap = m->cap ? 2 * m->cap : 8;
        struct nn_entry *more = arena_array(script_arena(s), struct nn_entry, cap);

        if (!more) {
            (void)script_nomem(s);
            return false;
        }
        if (m->n)
            memcpy(more, m->entries, m->n * sizeof *more);
        m->entries = more;
        m->cap = cap;
    }
    m->entries[m->n++] = (struct nn_entry){name, (uint8_t)kind};
    return true;
}

static void remove_entry(struct nn_module *m, sv name)
{
    int at = find_entry(m, name);

    if (at < 0)
        return;
    m->n--;
    memmove(&m->entries[at], &m->entries[at + 1], (m->n - (uint32_t)at) * sizeof *m->entries);
}

bool module_own(struct script *s, sv self, sv name, sv value, enum entry_kind kind)
{
    return add_entry(s, nn_of(self), name, kind) && script_store(s, self, name, value);
}

/* A buffer of the model that forward puts another in the place of, and that nothing else names: the tree lets go of it too. */
static void forget_buffer(struct script *s, sv old)
{
    struct tensor *t = sv_ok(old) ? as_tensor(s, old) : NULL;

    if (t && t->param && t->param->buffer && t->param->value && t->base.h.refs == 1 && natives_of(s)->run) {
        value_unref(natives_of(s)->run, t->param->value);
        t->param->value = 0;
    }
    sv_drop(s, old);
}

/* `self.name = tensor` where a buffer of that name is: _buffers[name] = value. */
static bool replace_buffer(struct script *s, sv self, sv name, sv value)
{
    sv old = script_get_plain(s, self, name);
    bool ok = script_store(s, self, name, value);

    calls_unheard(natives_of(s)->run);
    forget_buffer(s, old);
    return ok;
}

static int module_setattr(struct script *s, sv self, sv name, sv value)
{
    struct nn_module *m = nn_of(self);

    if (!sv_ok(value)) {
        remove_entry(m, script_intern(s, name));
        return 0;
    }
    if (!sv_is(value, KIND_INSTANCE))
        return 0;
    if (value.o->cls == natives_of(s)->tensor) {
        int at = m->m && natives_of(s)->run ? find_entry(m, script_intern(s, name)) : -1;

        return at < 0 || m->entries[at].kind != ENTRY_BUFFER || replace_buffer(s, self, name, value) ? 0 : -1;
    }
    if (value.o->cls == natives_of(s)->parameter)
        return add_entry(s, m, name, ENTRY_PARAMETER) ? 0 : -1;
    if (as_module(s, value))
        return add_entry(s, m, name, ENTRY_MODULE) ? 0 : -1;
    if (sv_isa(s, value, &parameter_class))
        return add_entry(s, m, name, ENTRY_PARAMETER) ? 0 : -1;
    if (natives_of(s)->buffer && value.o->cls == natives_of(s)->buffer)
        return add_entry(s, m, name, ENTRY_BUFFER) ? 0 : -1;
    return 0;
}

static sv module_init(struct script *s, const struct script_args *a)
{
    (void)s;
    (void)a;
    return sv_none();
}

static sv register_buffer(struct script *s, const struct script_args *a)
{
    bool known = nn_of(a->v[0])->m != NULL, ok;
    sv old = known ? script_get_plain(s, a->v[0], a->v[1]) : sv_null();

    if (natives_of(s)->run) /* the module is another one from here on */
        calls_unheard(natives_of(s)->run);
    if (sv_ok(a->v[2]) && !add_entry(s, nn_of(a->v[0]), a->v[1], ENTRY_BUFFER)) {
        sv_drop(s, old);
        return sv_null();
    }
    ok = script_set_plain(s, a->v[0], a->v[1], a->v[2]);
    if (known)
        forget_buffer(s, old);
    return ok ? sv_none() : sv_null();
}

static sv register_parameter(struct script *s, const struct script_args *a)
{
    return script_set(s, a->v[0], a->v[1], a->v[2]) ? sv_none() : sv_null();
}

/* ----------------------------------------------------------------------------------------------------------- children */
bool children_visit(struct script *s, sv module, child_visitor visit, void *of)
{
    struct nn_module *m = nn_of(module);

    if (sv_is(m->items, KIND_LIST)) {
        uint32_t n;
        const sv *items = seq_items(m->items, &n);

        for (uint32_t i = 0; i < n; i++) {
            sv name = script_intern(s, str_format(s, "%u", i));

            if (!sv_ok(name) || !visit(s, of, name, items[i]))
                return false;
        }
    } else if (sv_is(m->items, KIND_DICT)) {
        uint32_t at = 0;
        sv name, child;

        while (dict_each(m->items, &at, &name, &child))
            if (!visit(s, of, name, child))
                return false;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        sv child;
        bool on;

        if (m->entries[i].kind != ENTRY_MODULE)
            continue;
        child = script_get_plain(s, module, m->entries[i].name);
        if (!sv_ok(child))
            return false;
        on = !as_module(s, child) || visit(s, of, m->entries[i].name, child);
        sv_drop(s, child);
        if (!on)
            return false;
    }
    return true;
}

struct gathering {
    sv list, seen; /* seen: a module that stands in itself, or in two, is told once; absent: of children alone */
    bool named, flat; /* flat: of the module alone */
    enum entry_kind kind; /* parameters or buffers */
    unsigned depth;
};

static bool gather_below(struct script *s, struct gathering *g, sv module, child_visitor visit)
{
    bool ok;

    if (g->depth >= MODULES_DEEPEST) {
        (void)script_raise(s, EXC_RecursionError, "maximum recursion depth exceeded");
        return false;
    }
    g->depth++;
    ok = children_visit(s, module, visit, g);
    g->depth--;
    return ok;
}

/* False: it was seen, or the script is over. */
static bool is_new(struct script *s, const struct gathering *g, sv module)
{
    sv key = sv_int((int64_t)script_place(s, module.o));

    return !sv_ok(dict_get(s, g->seen, key)) && dict_set(s, g->seen, key, sv_none());
}

static bool gather_all(struct script *s, struct gathering *g, sv module, child_visitor visit)
{
    bool ok;

    g->list = list_new(s, 0, NULL);
    g->seen = dict_new(s);
    ok = sv_ok(g->list) && sv_ok(g->seen) && visit(s, g, sv_null(), module);
    sv_drop(s, g->seen);
    if (!ok)
        sv_drop(s, g->list);
    return ok;
}

static bool gather_child(struct script *s, void *of, sv name, sv child)
{
    struct gathering *g = of;
    sv item = g->named ? tuple_new(s, 2, (sv[]){name, child}) : sv_keep(child);
    bool ok = sv_ok(item) && list_append(s, g->list, item);

    sv_drop(s, item);
    return ok;
}

static bool gather_module(struct script *s, void *of, sv name, sv child)
{
    struct gathering *g = of;

    (void)name;
    if (!is_new(s, g, child))
        return !script_failed(s);
    return list_append(s, g->list, child) && gather_below(s, g, child, gather_module);
}

/* children(), named_children(), modules(): lists here */
static sv gather(struct script *s, const struct script_args *a)
{
    struct gathering g = {.named = a->def->data == 1};

    if (a->def->data == 2)
        return gather_all(s, &g, a->v[0], gather_module) ? g.list : sv_null();
    g.list = list_new(s, 0, NULL);
    if (sv_ok(g.list) && children_visit(s, a->v[0], gather_child, &g))
        return g.list;
    sv_drop(s, g.list);
    return sv_null();
}

static bool gather_parameters(struct script *s, void *of, sv name, sv module)
{
    struct gathering *g = of;
    struct nn_module *m = nn_of(module);

    (void)name;
    if (!is_new(s, g, module))
        return !script_failed(s);
    for (uint32_t i = 0; i < m->n; i++) {
        sv p;
        bool ok;

        if (m->entries[i].kind != g->kind)
            continue;
        p = script_get_plain(s, module, m->entries[i].name);
        ok = sv_ok(p) && (sv_is_none(p) || list_append(s, g->list, p));
        sv_drop(s, p);
        if (!ok)
            return false;
    }
    return g->flat || gather_below(s, g, module, gather_parameters);
}

/* parameters(), buffers(): an iterator over a list */
static sv parameters(struct script *s, const struct script_args *a)
{
    struct gathering g = {.kind = (enum entry_kind)a->def->data};
    bool recurse = true;
    sv iter;

    if (!bool_arg(s, a->v[1], &recurse))
        return sv_null();
    g.flat = !recurse;
    if (!gather_all(s, &g, a->v[0], gather_parameters))
        return sv_null();
    iter = script_iter(s, g.list);
    sv_drop(s, g.list);
    return iter;
}

struct applying {
    struct gathering g;
    sv function;
};

static bool apply_to(struct script *s, void *of, sv name, sv child)
{
    struct applying *f = of;
    sv done;

    (void)name;
    if (!gather_below(s, &f->g, child, apply_to))
        return false;
    done = script_call(s, f->function, 1, &child);
    sv_drop(s, done);
    return sv_ok(done);
}

static sv apply(struct script *s, const struct script_args *a)
{
    struct applying f = {.function = a->v[1]};

    return apply_to(s, &f, sv_null(), a->v[0]) ? sv_keep(a->v[0]) : sv_null();
}

struct casting {
    struct gathering g;
    enum dtype dtype;
};

/* What of it is floating is of another dtype from now on: it lies on the host, where tensors are shapes. */
static bool cast_below(struct script *s, void *of, sv name, sv module)
{
    struct casting *c = of;
    struct nn_module *m = nn_of(module);

    (void)name;
    if (!is_new(s, &c->g, module))
        return !script_failed(s);
    for (uint32_t i = 0; i < m->n; i++) {
        sv v = m->entries[i].kind == ENTRY_MODULE ? sv_null() : script_get_plain(s, module, m->entries[i].name);
        struct tensor *t = sv_ok(v) ? as_tensor(s, v) : NULL;

        if (t && t->run == &natives_of(s)->host && dtype_is_float((enum dtype)shape_of(t)->dtype))
            shape_of(t)->dtype = (uint8_t)c->dtype;
        sv_drop(s, v);
        if (script_failed(s))
            return false;
    }
    return gather_below(s, &c->g, module, cast_below);
}

/* to(device, dtype): where it stands is known already. While the model is made it is cast; later on nothing but what it is in can be asked. */
static sv moved_itself(struct script *s, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    struct casting c = {.dtype = DTYPE_COUNT};

    for (uint32_t i = 0; i < a->n_rest + a->n_kw; i++) {
        sv v = i < a->n_rest ? a->rest[i] : a->kw[i - a->n_rest];
        enum dtype dtype = n->default_dtype;

        if (sv_is(v, KIND_INSTANCE) && sv_isa(s, v, &dtype_class) &&
            (!dtype_arg(s, v, &dtype) || (dtype != n->default_dtype && !n->making)))
            return script_failed(s) ? sv_null() : script_leave(s, "a module that casts itself");
        if (sv_is(v, KIND_INSTANCE) && sv_isa(s, v, &dtype_class))
            c.dtype = dtype;
    }
    if (c.dtype < DTYPE_COUNT && n->making && !n->any_dtype) {
        if (!gather_all(s, &c.g, a->v[0], cast_below))
            return sv_null();
        sv_drop(s, c.g.list);
    }
    return sv_keep(a->v[0]);
}

static sv set_training(struct script *s, const struct script_args *a)
{
    bool on = a->def->data;

    if (!bool_arg(s, a->n > 1 ? a->v[1] : sv_null(), &on))
        return sv_null();
    script_stirs(s, a->v[0].o);
    nn_of(a->v[0])->eval = !on;
    return sv_keep(a->v[0]);
}

/* register_forward_hook(hook), register_forward_pre_hook(hook) */
static sv hook_forward(struct script *s, const struct script_args *a)
{
    sv argv[3] = {a->v[0], a->v[1], sv_bool(a->def->data)}, made;

    if (!as_module(s, a->v[0]))
        return script_raise(s, EXC_TypeError, "%s() of what is no module", a->def->name);
    made = written_out(s, "torch.nn._module", "hooked_with", 3, argv);
    if (sv_ok(made)) {
        script_stirs(s, a->v[0].o);
        nn_of(a->v[0])->hooked = true;
    }
    return made;
}

static sv module_called(struct script *s, sv self, const struct script_args *a);

static sv no_hooks(struct script *s, const struct script_args *a)
{
    return script_leave(s, "%s(): a hook of the model's own", a->def->name);
}

static sv get_training(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_bool(!nn_of(self)->eval);
}

static bool put_training(struct script *s, sv self, sv value, uint32_t data)
{
    int on = script_truth(s, value);

    (void)data;
    script_stirs(s, self.o);
    nn_of(self)->eval = on == 0;
    return on >= 0;
}

static void module_die(struct script *s, struct obj *self)
{
    struct nn_module *m = (struct nn_module *)(void *)self;

    sv_drop(s, m->items);
    m->items = sv_null();
}

/* super().__call__(..), layer.__call__ */
static sv call_by_name(struct script *s, const struct script_args *a)
{
    struct script_args rest = *a;

    if (!a->n || !as_module(s, a->v[0]))
        return script_raise(s, EXC_TypeError, "__call__() of what is no module");
    rest.v++;
    rest.n--;
    return module_call(s, a->v[0], &rest);
}

static sv call_unhooked(struct script *s, const struct script_args *a)
{
    struct script_args rest = *a;

    if (!a->n || !as_module(s, a->v[0]))
        return script_raise(s, EXC_TypeError, "_unhooked() of what is no module");
    rest.v++;
    rest.n--;
    return module_called(s, a->v[0], &rest);
}

/* Another of its class, with what is native of it and nothing else. */
static sv bare(struct script *s, const struct script_args *a)
{
    const struct nn_module *from = nn_of(a->v[0]);
    sv made = script_object(s, sv_class(s, a->v[0]));
    struct nn_module *m;

    if (!sv_ok(made))
        return made;
    m = nn_of(made);
    m->leaf = from->leaf;
    m->eval = from->eval;
    m->kind = from->kind;
    m->in = from->in;
    m->out = from->out;
    m->p = from->p;
    m->padding_idx = from->padding_idx;
    m->affine = from->affine;
    m->in_place = from->in_place;
    m->hooked = from->hooked;
    if (sv_ok(from->items))
        m->items = sv_is(from->items, KIND_DICT) ? dict_new(s) : list_new(s, 0, NULL);
    if (!script_failed(s))
        return made;
    sv_drop(s, made);
    return sv_null();
}

static sv deep_copy(struct script *s, const struct script_args *a)
{
    return written_out(s, "torch.nn._module", "deep_copied", 2, a->v);
}

static const struct script_native module_methods[] = {
    {"__call__", call_by_name, NULL, 0, NATIVE_PLAIN},
    {"__deepcopy__", deep_copy, "self, memo", 0, NATIVE_PLAIN},
    {"_bare", bare, "self", 0, NATIVE_PLAIN},
    {"__init__", module_init, "self, *rest, **kw", 0, NATIVE_PLAIN},
    {"register_buffer", register_buffer, "self, name, tensor, persistent=", 0, NATIVE_PLAIN},
    {"register_parameter", register_parameter, "self, name, param", 0, NATIVE_PLAIN},
    {"register_module", register_parameter, "self, name, module", 0, NATIVE_PLAIN},
    {"add_module", register_parameter, "self, name, module", 0, NATIVE_PLAIN},
    {"children", gather, "self", 0, NATIVE_PLAIN},
    {"named_children", gather, "self", 1, NATIVE_PLAIN},
    {"modules", gather, "self", 2, NATIVE_PLAIN},
    {"parameters", parameters, "self, recurse=", ENTRY_PARAMETER, NATIVE_PLAIN},
    {"buffers", parameters, "self, recurse=", ENTRY_BUFFER, NATIVE_PLAIN},
    {"apply", apply, "self, fn", 0, NATIVE_PLAIN},
    {"to", moved_itself, "self, *rest, **kw", 0, NATIVE_PLAIN},
    {"train", set_training, "self, mode=", 1, NATIVE_PLAIN},
    {"eval", set_training, "self", 0, NATIVE_PLAIN},
    {"register_forward_hook", hook_forward, "self, hook, *, prepend=!, with_kwargs=!, always_call=!", 0, NATIVE_PLAIN},
    {"register_forward_pre_hook", hook_forward, "self, hook, *, prepend=!, with_kwargs=!", 1, NATIVE_PLAIN},
    {"_unhooked", call_unhooked, NULL, 0, NATIVE_PLAIN},
    {"register_full_backward_hook", no_hooks, "self, *rest, **kw", 0, NATIVE_PLAIN},
    {0},
};
static const struct script_member module_members[] = {{"training", get_training, put_training, 0}, {0}};

/* What is shorter in the language: library/nn/_module.py. */
sv module_getattr(struct script *s, sv self, sv name)
{
    sv module, function = sv_null(), bound;
    const struct nn_covered *c = nn_of(self)->covered;

    for (uint32_t i = 0; c && i < c->n; i++)
        if (c->name[i].o == name.o) {
            (void)value_in(as_tensor(s, c->value[i]));
            return run_dead(natives_of(s)->run) ? run_failed(s, natives_of(s)->run) : sv_keep(c->value[i]);
        }
    if (str_text(name, NULL)[0] == '_' && strncmp(str_text(name, NULL), "_register", 9) != 0)
        return sv_null();
    module = script_import(s, "torch.nn._module");
    if (!sv_ok(module) || script_find(s, module, name, &function))
        return sv_null();
    bound = sv_is(function, KIND_FUNC) ? method_new(s, function, self) : sv_null();
    sv_drop(s, function);
    return bound;
}

const struct script_class module_class = {
    .name = "Module",
    .getattr = module_getattr,
    .bytes = sizeof(struct nn_module),
    .methods = module_methods,
    .members = module_members,
    .setattr = module_setattr,
    .call = module_call,
    .die = module_die,
};

/* --------------------------------------------------------------------------------------------------------------- calls */
/* What follows the head in a training step is its loss. */
static void behind_head(struct run *r)
{
    if (r->stage != STAGE_PREFILL && r->stage != STAGE_DECODE)
        r->stage = STAGE_LOSS;
}

/* forward is core/torch's: adapters, quantised and split products stand there. */
static sv call_leaf(struct script *s, struct nn_module *o, const struct script_args *a)
{
    const struct natives *n = natives_of(s);
    sv given = a->n ? a->v[0] : a->n_kw ? a->kw[0] : sv_null();
    struct tensor *x = need_tensor(s, given, "forward");
    struct run *r = n->run;
    val out;

    if (!x || !script_charge(s, 1))
        return sv_null();
    if (!on_device(n, x))
        return script_leave(s, "a module is called with a tensor of the host");
    out = call(r, o->m, value_in(x));
    if (run_dead(r)) {
        calls_held(r, CALLED_CONSUME, out);
        return run_failed(s, r);
    }
    if (o->m == n->tree->head)
        behind_head(r);
    if (o->m == n->embeddings && n->embeddings_require_grad && !r->values[out].requires_grad)
        require_grad(r, out);
    if (out == value_in(x)) { /* a dropout of nothing: its argument, as a temporary */
        calls_held(r, CALLED_CONSUME, out);
        return sv_keep(given);
    }
    return wrap(s, r, out);
}

/* Of a ModelOutput, which is a dict to those who look for tensors in it. */
static struct tensor *hidden_state(struct script *s, sv output)
{
    sv v = script_get_plain(s, output, natives_of(s)->last_hidden_state);
    struct tensor *t = sv_ok(v) ? as_tensor(s, v) : NULL;

    if (!sv_ok(v))
        script_forgive(s);
    sv_drop(s, v); /* the output keeps it */
    return t;
}

/* The first tensor of what forward returned: what hooks see. */
static struct tensor *main_result(struct script *s, const struct module *m, sv result)
{
    uint32_t n;
    const sv *items = seq_items(result, &n);
    struct tensor *t = items ? (n ? as_tensor(s, items[0]) : NULL) : as_tensor(s, result);

    return t || items || !sv_given(result) || !m->parent ? t : hidden_state(s, result);
}

/* What hooks made of a result takes its place, in a tuple too. */
static sv replaced(struct script *s, struct run *r, sv result, val out)
{
    uint32_t n;
    const sv *items = seq_items(result, &n);
    sv made = wrap(s, r, out), *all, other = sv_null();

    if (sv_ok(made) && !items && !as_tensor(s, result)) {
        bool set = script_set(s, result, natives_of(s)->last_hidden_state, made);

        sv_drop(s, made);
        if (!set)
            sv_drop(s, result);
        return set ? result : sv_null();
    }
    if (!sv_ok(made) || !items) {
        sv_drop(s, result);
        return made;
    }
    all = script_memory(s, n * sizeof *all);
    for (uint32_t i = 0; all && i < n; i++)
        all[i] = i ? items[i] : made;
    if (all)
        other = tuple_new(s, n, all);
    script_memory_give(s, all, n * sizeof *all);
    sv_drop(s, result);
    sv_drop(s, made);
    return other;
}

/* enable_input_require_grads(): a hook of the embeddings */
static void inputs_require_grad(const struct natives *n, const struct tensor *out)
{
    if (n->embeddings_require_grad && out && !shape_of(out)->requires_grad)
        require_grad(n->run, value_in(out));
}

static bool cover(struct script *s, sv self, struct nn_covered *c)
{
    struct nn_module *o = nn_of(self);

    for (uint32_t i = 0; i < o->n; i++) {
        sv v = o->entries[i].kind == ENTRY_PARAMETER ? script_get_plain(s, self, o->entries[i].name) : sv_null();
        struct tensor *t = sv_ok(v) ? as_tensor(s, v) : NULL;

        if (!t || !t->param || !t->param->reads) {
            sv_drop(s, v);
            continue;
        }
        if (c->n == COVERED_MAX || !script_store(s, self, o->entries[i].name, sv_null())) {
            sv_drop(s, v);
            return false;
        }
        c->name[c->n] = o->entries[i].name;
        c->value[c->n++] = v;
    }
    o->covered = c;
    return true;
}

static void uncover(struct script *s, sv self, struct nn_covered *c)
{
    nn_of(self)->covered = NULL;
    for (uint32_t i = 0; i < c->n; i++) {
        (void)script_store(s, self, c->name[i], c->value[i]);
        sv_drop(s, c->value[i]);
    }
}

static sv covered_forward(struct script *s, sv self, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    struct module *m = nn_of(self)->m;
    struct nn_covered c = {0};
    sv result = sv_null();

    calls_unheard(n->run);
    m->around->enter(n->run, m);
    if (run_dead(n->run))
        (void)run_failed(s, n->run);
    else if (cover(s, self, &c))
        result = script_call_method_args(s, self, n->forward, a);
    uncover(s, self, &c);
    m->around->leave(n->run, m);
    return result;
}

static sv forward_of(struct script *s, sv self, const struct script_args *a)
{
    if (nn_of(self)->m->around)
        return covered_forward(s, self, a);
    if (is_heard(natives_of(s), nn_of(self)->m))
        return heard_forward(s, self, a);
    return script_call_method_args(s, self, natives_of(s)->forward, a);
}

/* forward with another first argument: what a hook put in its place. */
static sv call_with(struct script *s, sv self, const struct script_args *a, sv first)
{
    struct script_args other = *a;
    sv v[SCRIPT_PARAMETERS];

    if (a->n > SCRIPT_PARAMETERS)
        return script_leave(s, "a module that is called with more than %d arguments", SCRIPT_PARAMETERS);
    for (uint32_t i = 0; i < a->n; i++)
        v[i] = i ? a->v[i] : first;
    other.v = v;
    return forward_of(s, self, &other);
}

static sv cast_argument(struct script *s, struct run *r, sv v, enum dtype dtype);

static sv cast_items(struct script *s, struct run *r, sv v, uint32_t n, const sv *items, enum dtype dtype)
{
    sv *all = script_memory(s, n * sizeof *all), made = sv_null();
    uint32_t done = 0;

    while (all && done < n && sv_ok(all[done] = cast_argument(s, r, items[done], dtype)))
        done++;
    if (all && done == n)
        made = sv_is(v, KIND_LIST) ? list_new(s, n, all) : tuple_new(s, n, all);
    for (uint32_t i = 0; i < done; i++)
        sv_drop(s, all[i]);
    script_memory_give(s, all, n * sizeof *all);
    return made;
}

/* torch.utils._pytree.tree_map of a cast, as far as arguments are tensors, tuples and lists; is_floating_point() of complex numbers is false. */
static sv cast_argument(struct script *s, struct run *r, sv v, enum dtype dtype)
{
    struct tensor *t = as_tensor(s, v);
    uint32_t n = 0;
    const sv *items = t ? NULL : seq_items(v, &n);

    if (t && dtype_is_float((enum dtype)shape_of(t)->dtype) && shape_of(t)->dtype != DTYPE_COMPLEX64 && (enum dtype)shape_of(t)->dtype != dtype)
        return wrap(s, r, to_dtype(r, value_in(t), dtype));
    return items && n ? cast_items(s, r, v, n, items, dtype) : sv_keep(v);
}

/* A wrapper's hook has other arguments than the first in its dtype; what it made of them lives until the call has returned. */
static sv call_cast(struct script *s, sv self, const struct script_args *a, enum dtype dtype)
{
    struct run *r = natives_of(s)->run;
    struct script_args other = *a;
    sv v[SCRIPT_PARAMETERS], result = sv_null();
    uint32_t n = a->n + a->n_kw, done = 0;

    if (n > SCRIPT_PARAMETERS)
        return script_leave(s, "a module that is called with more than %d arguments", SCRIPT_PARAMETERS);
    while (done < n) {
        sv given = done < a->n ? a->v[done] : a->kw[done - a->n];

        v[done] = done ? cast_argument(s, r, given, dtype) : sv_keep(given);
        if (!sv_ok(v[done]))
            break;
        done++;
    }
    other.v = v;
    other.kw = v + a->n;
    if (done == n)
        result = module_called(s, self, &other);
    while (done)
        sv_drop(s, v[--done]);
    return result;
}

static sv call_hooked(struct script *s, sv self, const struct script_args *a)
{
    sv argv[3] = {self, tuple_new(s, a->n, a->v), dict_new(s)}, made = sv_null();
    bool ok = sv_ok(argv[1]) && sv_ok(argv[2]);

    for (uint32_t i = 0; i < a->n_kw && ok; i++)
        ok = dict_set(s, argv[2], a->names[i], a->kw[i]);
    if (ok)
        made = written_out(s, "torch.nn._module", "call_hooked", 3, argv);
    sv_drop(s, argv[1]);
    sv_drop(s, argv[2]);
    return made;
}

sv module_call(struct script *s, sv self, const struct script_args *a)
{
    const struct nn_module *o = nn_of(self);

    if (o->hooked && o->m && (o->leaf ? o->m->forward != module_leaf_forward(o->m->kind) : natives_is_replaced(o->m)))
        return script_leave(s, "a hook of a layer that is adapted");
    if (o->hooked)
        return call_hooked(s, self, a);
    return o->m && o->m->casts_to && natives_of(s)->run ? call_cast(s, self, a, (enum dtype)(o->m->casts_to - 1)) : module_called(s, self, a);
}

static sv module_called(struct script *s, sv self, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    struct nn_module *o = nn_of(self);
    struct tensor *x = a->n ? as_tensor(s, a->v[0]) : NULL, *main;
    struct frame f;
    val given, seen, out;
    sv result, first;

    if (!o->m || !n->run)
        return script_call_method_args(s, self, n->forward, a);
    if (o->leaf || (o->kind == MODULE_LINEAR && natives_is_replaced(o->m)))
        return call_leaf(s, o, a);
    given = x && on_device(n, x) && dtype_is_float((enum dtype)shape_of(x)->dtype) ? value_in(x) : 0;
    seen = given;
    f = n->run->calls ? calls_enter(n->run, o->m, &seen) : module_enter_with(n->run, o->m, &seen);
    if (seen != given && !run_dead(n->run)) {
        first = natives_tensor(n, seen);
        result = sv_ok(first) ? call_with(s, self, a, first) : first;
        sv_drop(s, first);
    } else {
        result = forward_of(s, self, a);
    }
    main = sv_ok(result) && (o->m->hooks || o->m == n->embeddings) ? main_result(s, o->m, result) : NULL;
    main = main && on_device(n, main) ? main : NULL;
    out = main ? value_in(main) : 0;
    seen = n->run->calls ? calls_leave(n->run, f, out) : frame_leave(n->run, f, out);
    if (seen != out && sv_ok(result)) {
        result = replaced(s, n->run, result, seen);
    } else if (out) { /* it was given up for the hooks, which left it as it is: the script has it still */
        calls_held(n->run, CALLED_SINK, out);
    }
    if (o->m == n->embeddings)
        inputs_require_grad(n, main);
    if (o->m == n->tree->head)
        behind_head(n->run);
    return result;
}
