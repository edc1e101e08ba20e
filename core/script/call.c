/* Calls: who is called, with what in which place. */
#include "script/vm.h"

#include "base/ascii.h"

bool enter(struct script *s)
{
    if (s->c_depth >= SCRIPT_C_DEPTH) {
        (void)script_raise(s, EXC_RecursionError, "maximum recursion depth exceeded");
        return false;
    }
    s->c_depth++;
    return true;
}

sv raise_type(struct script *s, const char *fmt, sv of)
{
    (void)fmt;
    return script_raise(s, EXC_TypeError, "'%s' object is not %s", class_of(s, of)->name->text, fmt);
}

/* ---- functions of the language */

static sv missing(struct script *s, const struct func *f, const struct str *name, bool keyword)
{
    return script_raise(s, EXC_TypeError, "%.100s() missing 1 required %s argument: '%.100s'", as_str(f->qualname)->text,
                        keyword ? "keyword-only" : "positional", name->text);
}

static int param_at(const struct code *c, const struct str *name)
{
    uint32_t n = (uint32_t)c->n_args + c->n_keyword;

    for (uint32_t i = c->n_positional_only; i < n; i++)
        if (c->vars[i] == name)
            return (int)i;
    for (uint32_t i = c->n_positional_only; !(name->h.flags & STR_SYMBOL) && i < n; i++)
        if (str_same(c->vars[i], name))
            return (int)i;
    return -1;
}

/* Where one of `names`, from `first` on, is what a library calls `name` too (image_keywords()); -1: none is. */
static int other_name_at(const struct script *s, struct str *const *names, uint32_t first, uint32_t n, const struct str *name)
{
    for (const struct script_keyword *k = s->w->keywords; k && k->name; k++)
        for (uint32_t i = first; i < n && !strcmp(k->also, name->text); i++)
            if (!strcmp(names[i]->text, k->name))
                return (int)i;
    return -1;
}

/* A function of the language has such names where it is the library's. */
static int param_beside(const struct script *s, const struct code *c, const struct str *name)
{
    bool has = s->w->keywords && !strncmp(c->path, s->w->keywords_under, strlen(s->w->keywords_under));

    return has ? other_name_at(s, c->vars, c->n_positional_only, (uint32_t)c->n_args + c->n_keyword, name) : -1;
}

static bool bind_keyword(struct script *s, struct func *f, sv *locals, sv name, sv value, struct dict *kw)
{
    const struct code *c = f->code;
    struct str *t = sv_is(name, KIND_STR) ? AS(str, name) : as_str(name);
    int at = t ? param_at(c, t) : -1;

    if (!t) {
        (void)script_raise(s, EXC_TypeError, "keywords must be strings");
        return false;
    }
    if (at < 0 && t && !kw)
        at = param_beside(s, c, t);
    if (at >= 0) {
        if (sv_ok(locals[at])) {
            (void)script_raise(s, EXC_TypeError, "%.100s() got multiple values for argument '%.100s'", as_str(f->qualname)->text, t->text);
            return false;
        }
        locals[at] = sv_keep(value);
        return true;
    }
    if (kw) /* a call names each once: what is no symbol is looked for all the same */
        return t->h.flags & STR_SYMBOL && !(kw->h.flags & DICT_OTHERS) ? dict_add(s, kw, t, value) : dict_put(s, kw, name, value);
    (void)script_raise(s, EXC_TypeError, "%.100s() got an unexpected keyword argument '%.100s'", as_str(f->qualname)->text, t->text);
    return false;
}

static bool bind_defaults(struct script *s, struct func *f, sv *locals, uint32_t given)
{
    const struct code *c = f->code;
    uint32_t n = 0, first;
    const sv *defaults = sv_ok(f->defaults) ? seq_items(f->defaults, &n) : NULL;

    first = n > c->n_args ? 0 : c->n_args - n;
    for (uint32_t i = given; i < c->n_args; i++) {
        if (sv_ok(locals[i]))
            continue;
        if (i < first || !defaults) {
            (void)missing(s, f, c->vars[i], false);
            return false;
        }
        locals[i] = sv_keep(defaults[i - first + (n > c->n_args ? n - c->n_args : 0)]);
    }
    for (uint32_t i = c->n_args; i < (uint32_t)c->n_args + c->n_keyword; i++) {
        struct entry *e;

        if (sv_ok(locals[i]))
            continue;
        e = sv_ok(f->kwdefaults) ? dict_find_name(dict_ptr(f->kwdefaults), c->vars[i]) : NULL;
        if (!e) {
            (void)missing(s, f, c->vars[i], true);
            return false;
        }
        locals[i] = sv_keep(e->value);
    }
    return true;
}

/*
 * initialize_locals: positional ones into their places, what is too much into *rest, then keywords, then defaults. `taken`: argv's
 * references go over to the locals, also when it fails. locals[0..n_all) are written.
 */
bool bind_args(struct script *s, struct func *f, sv *locals, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names, bool taken)
{
    const struct code *c = f->code;
    uint32_t params = (uint32_t)c->n_args + c->n_keyword, place = params, direct = n < c->n_args ? n : c->n_args;
    struct dict *kw = NULL;
    bool ok = true;

    for (uint32_t i = 0; i < c->n_all; i++)
        locals[i] = sv_null();
    if (c->flags & CODE_KW) {
        kw = dict_make(s);
        if (!kw)
            return false;
        if (n_kw && !dict_room(s, kw, n_kw < 4 ? 4 : n_kw)) {
            sv_drop(s, sv_counted(kw));
            return false;
        }
        locals[params + (c->flags & CODE_REST ? 1 : 0)] = sv_counted(kw);
    }
    for (uint32_t i = 0; i < direct; i++)
        locals[i] = taken ? argv[i] : sv_keep(argv[i]);
    if (c->flags & CODE_REST) {
        locals[place] = taken ? tuple_take(s, n - direct, argv + direct) : tuple_new(s, n - direct, argv + direct);
        ok = sv_ok(locals[place]);
    } else if (n > direct) {
        (void)script_raise(s, EXC_TypeError, "%.100s() takes %u positional argument%s but %u %s given", as_str(f->qualname)->text,
                           c->n_args, c->n_args == 1 ? "" : "s", n, n == 1 ? "was" : "were");
        for (uint32_t i = direct; taken && i < n; i++)
            sv_drop(s, argv[i]);
        ok = false;
    }
    for (uint32_t i = 0; i < n_kw; i++) {
        ok = ok && bind_keyword(s, f, locals, names[i], argv[n + i], kw);
        if (taken)
            sv_drop(s, argv[n + i]);
    }
    return ok && bind_defaults(s, f, locals, direct);
}

/* Of a simple function that is given its first n arguments: all other locals. False: an argument is missing, nothing is written. */
bool defaults_fill(const struct func *f, uint32_t n, sv *locals)
{
    const struct code *code = f->code;
    uint32_t given = 0, k = n;

    if (n < code->n_args) {
        const sv *defaults = sv_ok(f->defaults) ? seq_items(f->defaults, &given) : NULL;

        if (!defaults || given > code->n_args || n + given < code->n_args)
            return false;
        for (defaults += n + given - code->n_args; k < code->n_args; k++)
            locals[k] = sv_keep(*defaults++);
    }
    for (; k < code->n_all; k++)
        locals[k] = sv_null();
    return true;
}

struct frame *frame_push(struct script *s, const struct code *code)
{
    struct frame *f;

    if ((s->steps -= 1 + (code->n_ops >> OPS_PER_STEP)) < 0 && !script_charge(s, 0))
        return NULL;
    if (s->depth >= s->max_depth || (size_t)(s->stack_end - s->sp) < (size_t)code->n_all + code->stack + 2 * SCRIPT_PARAMETERS) {
        (void)script_raise(s, EXC_RecursionError, "maximum recursion depth exceeded");
        return NULL;
    }
    f = heap_take(s, sizeof *f);
    if (!f)
        return NULL;
    *f = (struct frame){.back = s->frame, .code = code};
    f->locals = s->sp;
    f->sp = s->sp + code->n_all;
    f->limit = f->sp + code->stack;
    f->pc = code->ops;
    s->depth++;
    return f;
}

sv call_func(struct script *s, struct func *f, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names)
{
    const struct code *code = f->code;
    struct frame *fr;
    sv r, *base = s->sp;
    bool ok;

    if (!enter(s))
        return sv_null();
    fr = frame_push(s, code);
    if (!fr) {
        leave(s);
        return sv_null();
    }
    sv_keep(sv_counted(f));
    fr->func = f;
    fr->module = f->module;
    fr->run = f->run;
    fr->entry = true;
    if (code->flags & CODE_SIMPLE && !n_kw && n <= code->n_args && defaults_fill(f, n, fr->locals)) {
        for (uint32_t i = 0; i < n; i++)
            fr->locals[i] = sv_keep(argv[i]);
        ok = true;
    } else {
        s->sp = fr->sp;
        ok = bind_args(s, f, fr->locals, argv, n, n_kw, names, false);
        s->sp = base;
    }
    if (!ok) {
        s->sp = fr->limit;
        frame_end(s, fr);
        r = sv_null();
    } else if (code->flags & CODE_GENERATOR)
        r = gen_new(s, fr);
    else
        r = vm_run(s, fr);
    s->sp = base;
    leave(s);
    return r;
}

/* ---- natives */

static sv too_many(struct script *s, const struct native *f, uint32_t n)
{
    return script_raise(s, EXC_TypeError, "%s() takes at most %u positional arguments (%u given)", f->name->text,
                        f->signature->n_positional, n);
}

static int name_at(const struct signature *g, const sv name)
{
    for (uint32_t i = g->n_positional_only; i < g->n; i++)
        if (g->names[i] == AS(str, name))
            return (int)i;
    for (uint32_t i = g->n_positional_only; !(name.o->flags & STR_SYMBOL) && i < g->n; i++)
        if (str_same(g->names[i], AS(str, name)))
            return (int)i;
    return -1;
}

static sv missing_of_native(struct script *s, const struct native *f, const sv *p)
{
    const struct signature *g = f->signature;

    for (uint32_t i = 0; i < g->n; i++)
        if ((g->required >> i & 1) && !sv_ok(p[i]))
            return script_raise(s, EXC_TypeError, "%s() missing required argument: '%s'", f->name->text, g->names[i]->text);
    return sv_null();
}

/* Keywords into their places, what is left into a->kw. */
static bool native_keywords(struct script *s, const struct native *f, sv *p, uint32_t *given, const sv *values, uint32_t n_kw,
                            const sv *names, struct script_args *a, sv *kw, sv *kw_names)
{
    const struct signature *g = f->signature;

    for (uint32_t i = 0; i < n_kw; i++) {
        int k = sv_is(names[i], KIND_STR) ? name_at(g, names[i]) : -1;

        if (k < 0 && !g->kw && f->registered && sv_is(names[i], KIND_STR))
            k = other_name_at(s, g->names, g->n_positional_only, g->n, AS(str, names[i]));
        if (k >= 0 && !sv_ok(p[k])) {
            p[k] = values[i];
            *given |= 1u << k;
        } else if (k >= 0) {
            (void)script_raise(s, EXC_TypeError, "%s() got multiple values for argument '%s'", f->name->text, g->names[k]->text);
            return false;
        } else if (g->kw && a->n_kw < SCRIPT_PARAMETERS) {
            kw[a->n_kw] = values[i];
            kw_names[a->n_kw++] = names[i];
        } else if (g->kw) {
            (void)script_leave(s, "more than %d further keywords to %s()", SCRIPT_PARAMETERS, f->name->text);
            return false;
        } else {
            const char *name = as_str(names[i]) ? as_str(names[i])->text : "?";

            (void)(f->registered ? script_leave(s, "%s(%s=)", f->name->text, name)
                                 : script_raise(s, EXC_TypeError, "%s() got an unexpected keyword argument '%s'", f->name->text, name));
            return false;
        }
    }
    return true;
}

/* One of "mean|sum", as a text or a digit. */
static bool is_one_of(sv v, const char *values)
{
    size_t n;

    for (; *values && *values != ','; values += n + (values[n] == '|')) {
        n = strcspn(values, "|,");
        if (sv_is(v, KIND_STR) && AS(str, v)->bytes == n && !memcmp(AS(str, v)->text, values, n))
            return true;
        if (n == 1 && ascii_digit(*values) && ((v.tag == SV_INT && v.i == *values - '0') || (v.tag == SV_FLOAT && v.f == *values - '0')))
            return true;
        if (v.tag == SV_BOOL && v.i && n == 4 && !memcmp(values, "True", n))
            return true;
    }
    return false;
}

/* An argument that would change what is allocated, and has no model. */
static bool refused(struct script *s, const struct native *f, const sv *p, uint32_t which)
{
    for (uint32_t i = 0; i < f->signature->n; i++)
        if ((which >> i & 1) && sv_given(p[i]) && !(p[i].tag == SV_BOOL && !p[i].i) &&
            !is_one_of(p[i], signature_allows(f->def->signature, i))) {
            (void)script_leave(s, "%s(%s=) of this value", f->name->text, f->signature->names[i]->text);
            return true;
        }
    return false;
}

static sv bound_call(struct script *s, const struct native *f, sv self, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names)
{
    const struct signature *g = f->signature;
    sv p[SCRIPT_PARAMETERS], kw[SCRIPT_PARAMETERS], kw_names[SCRIPT_PARAMETERS];
    struct script_args a;
    uint32_t at = 0, from = 0, given;

    a.n = g->n;
    a.def = f->def;
    a.n_kw = 0;
    a.names = kw_names;
    a.kw = kw;
    if (!sv_ok(self) && !n_kw && n >= g->n && g->n == g->n_positional && !g->refused) { /* all of them lie there already */
        a.v = argv;
        a.rest = argv + g->n;
        a.n_rest = n - g->n;
        return a.n_rest && !g->rest ? too_many(s, f, n) : f->def->fn(s, &a);
    }
    a.v = p;

    if (sv_ok(self))
        p[at++] = self;
    for (; from < n && at < g->n_positional; at++, from++)
        p[at] = argv[from];
    for (uint32_t i = at; i < g->n; i++)
        p[i] = sv_null();
    a.rest = argv + from;
    a.n_rest = n - from;
    if (a.n_rest && !g->rest)
        return too_many(s, f, n);
    given = at < SCRIPT_PARAMETERS ? (1u << at) - 1 : UINT32_MAX;
    if (n_kw && !native_keywords(s, f, p, &given, argv + n, n_kw, names, &a, kw, kw_names))
        return sv_null();
    if (g->required & ~given)
        return missing_of_native(s, f, p);
    if (g->refused & given && refused(s, f, p, g->refused & given))
        return sv_null();
    return f->def->fn(s, &a);
}

sv call_native(struct script *s, const struct native *f, sv self, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names)
{
    sv *base = s->sp, r;

    if (!sv_ok(self))
        self = f->self;
    if (f->signature)
        return bound_call(s, f, self, argv, n, n_kw, names);
    struct script_args a = {.v = argv, .n = n, .kw = argv + n, .names = names, .n_kw = n_kw, .def = f->def};

    if (!sv_ok(self))
        return f->def->fn(s, &a);
    if ((size_t)(s->stack_end - base) < (size_t)n + n_kw + SCRIPT_PARAMETERS)
        return script_raise(s, EXC_RecursionError, "the evaluation stack is full");
    base[0] = self;
    if (n + n_kw)
        memcpy(base + 1, argv, (n + n_kw) * sizeof(sv));
    a.v = base;
    a.n = n + 1;
    a.kw = base + 1 + n;
    s->sp += n + n_kw + 1;
    r = f->def->fn(s, &a);
    s->sp = base;
    return r;
}

/* ---- anything */

static sv call_prefixed(struct script *s, sv f, sv first, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names)
{
    sv *base = s->sp, r;

    if ((size_t)(s->stack_end - base) < (size_t)n + n_kw + SCRIPT_PARAMETERS)
        return script_raise(s, EXC_RecursionError, "the evaluation stack is full");
    base[0] = first;
    if (n + n_kw)
        memcpy(base + 1, argv, (n + n_kw) * sizeof(sv));
    s->sp += n + n_kw + 1;
    r = sv_call(s, f, base, n + 1, n_kw, names);
    s->sp = base;
    return r;
}

static sv call_instance(struct script *s, sv f, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names)
{
    struct cls *c = f.o->cls;
    sv found, r;

    if (!(cls_has(s, c) & HAS_CALL) && c->native && c->native->call) {
        struct script_args a = {.v = argv, .n = n, .kw = argv + n, .names = names, .n_kw = n_kw};

        if (!enter(s))
            return sv_null();
        r = c->native->call(s, f, &a);
        leave(s);
        return r;
    }
    found = type_find(s, c, s->sym[SYM_call]);
    if (!sv_ok(found))
        return raise_type(s, "callable", f);
    if (!enter(s))
        return sv_null();
    if (sv_is(found, KIND_FUNC) || (sv_is(found, KIND_NATIVE) && AS(native, found)->def->how == NATIVE_PLAIN)) {
        r = call_prefixed(s, found, f, argv, n, n_kw, names);
    } else {
        found = descriptor_get(s, found, f, c);
        r = sv_ok(found) ? sv_call(s, found, argv, n, n_kw, names) : found;
        sv_drop(s, found);
    }
    leave(s);
    return r;
}

sv sv_call(struct script *s, sv f, const sv *argv, uint32_t n, uint32_t n_kw, const sv *names)
{
    if (!sv_is_obj(f))
        return raise_type(s, "callable", f);
    if (--s->steps < 0 && !script_charge(s, 0))
        return sv_null();
    switch (f.o->kind) {
    case KIND_FUNC:
        return call_func(s, AS(func, f), argv, n, n_kw, names);
    case KIND_NATIVE:
        return call_native(s, AS(native, f), sv_null(), argv, n, n_kw, names);
    case KIND_METHOD:
        if (sv_is(AS(method, f)->function, KIND_NATIVE) && AS(native, AS(method, f)->function)->signature)
            return call_native(s, AS(native, AS(method, f)->function), AS(method, f)->self, argv, n, n_kw, names);
        return call_prefixed(s, AS(method, f)->function, AS(method, f)->self, argv, n, n_kw, names);
    case KIND_CLASS:
        return class_call(s, AS(cls, f), &(struct script_args){.v = argv, .n = n, .kw = argv + n, .names = names, .n_kw = n_kw});
    case KIND_INSTANCE:
        return call_instance(s, f, argv, n, n_kw, names);
    case KIND_WRAP:
        return sv_call(s, AS(wrap, f)->function, argv, n, n_kw, names);
    case KIND_ALIAS:
        return sv_call(s, AS(alias, f)->origin, argv, n, n_kw, names);
    default:
        return raise_type(s, "callable", f);
    }
}

sv script_call(struct script *s, sv f, uint32_t n, const sv *argv)
{
    return sv_call(s, f, argv, n, 0, NULL);
}

sv script_call_kw(struct script *s, sv f, uint32_t n, const sv *argv, uint32_t n_kw, const sv *names)
{
    return sv_call(s, f, argv, n, n_kw, names);
}

sv script_call_args(struct script *s, sv f, const struct script_args *a)
{
    sv *base = s->sp, r;
    uint32_t total = a->n + a->n_kw;

    if (!a->n_kw || (a->n && a->kw == a->v + a->n))
        return sv_call(s, f, a->v, a->n, a->n_kw, a->names);
    if ((size_t)(s->stack_end - base) < (size_t)total + SCRIPT_PARAMETERS)
        return script_raise(s, EXC_RecursionError, "the evaluation stack is full");
    if (a->n)
        memcpy(base, a->v, a->n * sizeof(sv));
    memcpy(base + a->n, a->kw, a->n_kw * sizeof(sv));
    s->sp += total;
    r = sv_call(s, f, base, a->n, a->n_kw, a->names);
    s->sp = base;
    return r;
}

sv script_call_method(struct script *s, sv self, sv name, uint32_t n, const sv *argv)
{
    struct script_args a = {.v = argv, .n = n};

    return script_call_method_args(s, self, name, &a);
}

sv script_call_method_args(struct script *s, sv of, sv name, const struct script_args *a)
{
    struct str *t = name_of(s, name);
    sv self, f = t ? method_find(s, of, t, &self) : sv_null(), r, *base = s->sp;
    uint32_t total = a->n + a->n_kw, first;

    if (!sv_ok(f))
        return f;
    if ((size_t)(s->stack_end - base) < (size_t)total + SCRIPT_PARAMETERS) {
        sv_drop(s, f);
        sv_drop(s, self);
        return script_raise(s, EXC_RecursionError, "the evaluation stack is full");
    }
    first = sv_ok(self);
    if (first)
        base[0] = self;
    if (a->n)
        memcpy(base + first, a->v, a->n * sizeof(sv));
    if (a->n_kw)
        memcpy(base + first + a->n, a->kw, a->n_kw * sizeof(sv));
    s->sp += total + first;
    r = sv_call(s, f, base, a->n + first, a->n_kw, a->names);
    s->sp = base;
    sv_drop(s, f);
    sv_drop(s, self);
    return r;
}

sv method_new(struct script *s, sv function, sv self)
{
    struct method *m = obj_new(s, sizeof *m, KIND_METHOD);

    if (!m)
        return sv_null();
    m->function = sv_keep(function);
    m->self = sv_keep(self);
    return sv_counted(m);
}

sv script_call_spread(struct script *s, sv f, sv args, sv kw)
{
    sv t = args;

    return vm_call_ex(s, f, &t, kw);
}
