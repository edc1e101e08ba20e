/* Classes: made, called, asked. They live as long as the script. */
#include "script/object.h"

/* ---- C3: bases' orders, merged */

static bool in_tail(struct cls *c, struct cls ***lists, const uint32_t *n, const uint32_t *at, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++)
        for (uint32_t j = at[i] + 1; j < n[i]; j++)
            if (lists[i][j] == c)
                return true;
    return false;
}

static bool order(struct script *s, struct cls *c)
{
    enum { BASES_MAX = 32, MRO_MAX = 64 /* what is looked for may be looked for in each */ };
    struct cls **lists[BASES_MAX + 1];
    uint32_t n[BASES_MAX + 1], at[BASES_MAX + 1] = {0}, k = c->n_bases, total = 1;

    if (k > BASES_MAX) {
        (void)script_leave(s, "a class of more than %d bases", BASES_MAX);
        return false;
    }
    for (uint32_t i = 0; i < k; i++) {
        lists[i] = c->bases[i]->mro;
        n[i] = c->bases[i]->n_mro;
        total += n[i];
    }
    lists[k] = c->bases;
    n[k] = c->n_bases;
    if (!script_charge(s, (uint64_t)total * (k > 1 ? total : 1)))
        return false;
    if (k == 1 && total > MRO_MAX) {
        (void)script_leave(s, "a class of more than %d ancestors", MRO_MAX);
        return false;
    }
    c->mro = heap_take(s, total * sizeof *c->mro);
    if (!c->mro)
        return false;
    c->mro[0] = c;
    c->n_mro = 1;
    if (k == 1) {
        memcpy(c->mro + 1, lists[0], n[0] * sizeof *c->mro);
        c->n_mro += n[0];
        return true;
    }
    if (total > 1000) {
        (void)script_leave(s, "a hierarchy of more than 1000 classes");
        return false;
    }
    for (;;) {
        struct cls *next = NULL;
        bool left = false;

        for (uint32_t i = 0; i <= k && !next; i++) {
            if (at[i] >= n[i])
                continue;
            left = true;
            if (!in_tail(lists[i][at[i]], lists, n, at, k + 1))
                next = lists[i][at[i]];
        }
        if (!left)
            return true;
        if (!next) {
            (void)script_raise(s, EXC_TypeError, "Cannot create a consistent method resolution order (MRO) for bases of '%s'",
                               c->name->text);
            return false;
        }
        c->mro[c->n_mro++] = next;
        for (uint32_t i = 0; i <= k; i++)
            at[i] += at[i] < n[i] && lists[i][at[i]] == next;
    }
}

static bool solid(const struct cls *c)
{
    return c->layout != KIND_INSTANCE || c->bytes > sizeof(struct script_object);
}

/* The base whose layout its instances have. */
static bool layout(struct script *s, struct cls *c)
{
    struct cls *best = s->w->types[B_OBJECT];

    for (uint32_t i = 0; i < c->n_bases; i++) {
        struct cls *b = c->bases[i];

        if (b->flags & CLS_FINAL) {
            (void)script_raise(s, EXC_TypeError, "type '%s' is not an acceptable base type", b->name->text);
            return false;
        }
        if (!solid(b) || (b->bytes == best->bytes && b->layout == best->layout && (b->native == best->native || !solid(best))))
            continue;
        if (!solid(best) || cls_derives(b, best))
            best = b;
        else if (!cls_derives(best, b) && (best->layout != b->layout || best->bytes != b->bytes || best->native != b->native)) {
            (void)script_raise(s, EXC_TypeError, "multiple bases have instance lay-out conflict");
            return false;
        }
    }
    c->layout = best->layout;
    c->bytes = best->bytes;
    c->flags |= best->flags & (CLS_BOXED | CLS_EXCEPTION);
    c->exc = best->exc;
    for (uint32_t i = 1; i < c->n_mro && !c->native; i++)
        c->native = c->mro[i]->native;
    return true;
}

/* A function that is a static or class method by its name alone. */
static bool wrap_by_name(struct script *s, struct dict *names, enum symbol name, bool is_class)
{
    struct entry *e = dict_find_name(names, s->sym[name]);
    struct wrap *w;

    if (!e || !sv_is(e->value, KIND_FUNC))
        return true;
    w = obj_new(s, sizeof *w, KIND_WRAP);
    if (!w)
        return false;
    w->h.cls = s->w->types[is_class ? B_CLASSMETHOD : B_STATICMETHOD];
    w->is_class = is_class;
    w->function = e->value;
    e->value = sv_counted(w);
    return true;
}

static bool tell_names(struct script *s, struct cls *c)
{
    for (uint32_t i = 0; i < c->dict->used; i++) {
        sv key = c->dict->entries[i].key, v = c->dict->entries[i].value, argv[2], r;

        if (key.tag == SV_NULL || !sv_is_obj(v))
            continue;
        if (v.o->kind == KIND_PROPERTY && v.o->cls == s->w->types[B_CACHED]) {
            stirs(s, v.o);
            AS(property, v)->name = sv_forever(name_of(s, key));
        } else if (v.o->kind == KIND_INSTANCE && sv_ok(type_find(s, v.o->cls, s->sym[SYM_set_name]))) {
            argv[0] = sv_forever(c);
            argv[1] = key;
            r = special_call(s, v, SYM_set_name, 2, argv);
            if (!sv_ok(r))
                return false;
            sv_drop(s, r);
        }
    }
    return true;
}

static bool tell_bases(struct script *s, struct cls *c, const struct script_args *kw)
{
    static const struct script_args nothing = {0};
    sv f = sv_null(), r;

    for (uint32_t i = 1; i < c->n_mro && !sv_ok(f); i++) {
        struct entry *e = dict_find_name(c->mro[i]->dict, s->sym[SYM_init_subclass]);

        if (e)
            f = descriptor_get(s, e->value, sv_null(), c);
    }
    if (!sv_ok(f))
        return !script_failed(s);
    r = script_call_args(s, f, kw ? kw : &nothing);
    sv_drop(s, f);
    sv_drop(s, r);
    return sv_ok(r);
}

static struct str *symbol_of(struct script *s, struct dict *names, enum symbol name)
{
    struct entry *e = dict_find_name(names, s->sym[name]);

    return e && as_str(e->value) ? name_of(s, e->value) : NULL;
}

sv class_new(struct script *s, struct str *name, uint32_t n_bases, const sv *bases, struct dict *names, sv meta,
             const struct script_args *kw)
{
    struct cls *c = heap_zero(s, sizeof *c);
    sv copy = dict_copy(s, names);

    if (!c || !sv_ok(copy))
        return sv_null();
    c->h = (struct obj){.refs = 1, .kind = KIND_CLASS};
    c->name = name;
    c->qualname = symbol_of(s, names, SYM_qualname);
    if (!c->qualname)
        c->qualname = name;
    c->module = symbol_of(s, names, SYM_module);
    c->dict = dict_ptr(copy);
    c->n_bases = n_bases ? n_bases : 1;
    c->bases = heap_take(s, c->n_bases * sizeof *c->bases);
    if (!c->bases)
        return sv_null();
    c->bases[0] = s->w->types[B_OBJECT];
    c->meta = meta;
    for (uint32_t i = 0; i < n_bases; i++) {
        c->bases[i] = sv_as_class(bases[i]);
        if (!c->bases[i])
            return script_raise(s, EXC_TypeError, "a base of class '%s' is no class", name->text);
        for (uint32_t k = 0; k < i; k++)
            if (c->bases[k] == c->bases[i])
                return script_raise(s, EXC_TypeError, "duplicate base class '%s'", c->bases[i]->name->text);
    }
    c->version = ++s->next_version;
    if (!order(s, c) || !layout(s, c))
        return sv_null();
    if (!wrap_by_name(s, c->dict, SYM_new, false) || !wrap_by_name(s, c->dict, SYM_init_subclass, true) ||
        !wrap_by_name(s, c->dict, SYM_class_getitem, true))
        return sv_null();
    if (dict_find_name(c->dict, s->sym[SYM_eq]) && !dict_find_name(c->dict, s->sym[SYM_hash]) &&
        !dict_put_name(s, c->dict, s->sym[SYM_hash], sv_none()))
        return sv_null();
    c->next = s->classes;
    s->classes = c;
    if (!tell_names(s, c) || !tell_bases(s, c, kw))
        return sv_null();
    return sv_forever(c);
}

void class_changed(struct script *s, struct cls *c)
{
    uint64_t n = 0;

    for (struct cls *x = s->classes; x; x = x->next, n++)
        if (cls_derives(x, c)) {
            x->version = ++s->next_version;
            x->has_known = 0;
        }
    (void)pay_items(s, n);
}

bool class_set(struct script *s, struct cls *c, struct str *name, sv value)
{
    bool ok;

    if (c->flags & CLS_SHARED) {
        (void)script_raise(s, EXC_TypeError, "cannot set '%s' attribute of immutable type '%s'", name->text, c->name->text);
        return false;
    }
    stirs(s, c);
    if (name == s->sym[SYM_name] && as_str(value)) {
        c->name = name_of(s, value);
        return c->name;
    }
    if (name == s->sym[SYM_qualname] && as_str(value)) {
        c->qualname = name_of(s, value);
        return c->qualname;
    }
    if (name == s->sym[SYM_module] && as_str(value))
        c->module = name_of(s, value);
    if (sv_ok(value)) {
        ok = dict_put_name(s, c->dict, name, value);
    } else {
        ok = dict_remove(s, c->dict, sv_forever(name), NULL) == 1;
        if (!ok && !script_failed(s))
            (void)attr_error(s, sv_forever(c), name);
    }
    class_changed(s, c);
    return ok;
}

/* type.__getattribute__: what the metaclass describes goes first */
int class_get(struct script *s, struct cls *c, struct str *name, sv *ret)
{
    sv self = sv_forever(c), found;
    struct cls *meta = class_of(s, self);
    sv described = type_find(s, meta, name);

    if (!sv_is(described, KIND_MEMBER) && !(sv_is(described, KIND_PROPERTY) && described.o->cls == NULL)) {
        found = type_find(s, c, name);
        if (sv_ok(found)) {
            *ret = descriptor_get(s, found, sv_null(), c);
            return sv_ok(*ret) ? 0 : -1;
        }
    }
    if (!sv_ok(described))
        return SCRIPT_ABSENT;
    *ret = descriptor_get(s, described, self, meta);
    return sv_ok(*ret) ? 0 : script_failed(s) ? -1 : SCRIPT_ABSENT;
}

/* ---- instances */

sv instance_new(struct script *s, struct cls *c)
{
    sv v;

    if (c->layout == KIND_INSTANCE) {
        size_t words = (c->bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
        uint64_t *o = heap_take(s, c->bytes);

        if (!o)
            return sv_null();
        for (size_t i = 0; i < words; i++)
            o[i] = 0;
        *(struct obj *)(void *)o = (struct obj){.refs = 1, .kind = KIND_INSTANCE, .cls = c};
        if (c->flags & CLS_EXCEPTION)
            ((struct exc *)(void *)o)->args = sv_forever(s->w->empty);
        return sv_counted(o);
    }
    switch (c->layout) {
    case KIND_LIST:
        v = list_new(s, 0, NULL);
        break;
    case KIND_DICT:
        v = dict_new(s);
        break;
    case KIND_SET:
        v = set_new(s, false);
        break;
    default:
        return script_raise(s, EXC_TypeError, "cannot create '%s' instances", c->name->text);
    }
    if (sv_ok(v) && c != class_of(s, v))
        v.o->cls = c;
    return v;
}

sv script_object(struct script *s, struct cls *cls)
{
    return instance_new(s, cls);
}

struct cls *script_class(struct script *s, const struct script_class *def)
{
    for (const struct image *im = s->image; im; im = im->below)
        for (const struct native_classes *n = im->classes; n; n = n->next)
            if (n->def == def)
                return n->cls;
    return NULL;
}

bool sv_isa(struct script *s, sv v, const struct script_class *def)
{
    const struct cls *c;

    if (!sv_is(v, KIND_INSTANCE))
        return false;
    c = v.o->cls;
    if (c->def == def)
        return true;
    for (uint32_t i = 1; i < c->n_mro; i++)
        if (c->mro[i]->def == def)
            return true;
    (void)s;
    return false;
}

static sv call_self(struct script *s, sv f, sv self, const struct script_args *a)
{
    sv *base = s->sp, r;
    uint32_t total = a->n + a->n_kw + 1;

    if ((size_t)(s->stack_end - base) < total + SCRIPT_PARAMETERS)
        return script_raise(s, EXC_RecursionError, "the evaluation stack is full");
    base[0] = self;
    if (a->n)
        memcpy(base + 1, a->v, a->n * sizeof(sv));
    if (a->n_kw)
        memcpy(base + 1 + a->n, a->kw, a->n_kw * sizeof(sv));
    s->sp += total;
    r = sv_call(s, f, base, a->n + 1, a->n_kw, a->names);
    s->sp = base;
    return r;
}

/* type.__call__ */
sv class_make(struct script *s, sv of, const struct script_args *a)
{
    struct cls *c = AS(cls, of);
    sv make = type_find(s, c, s->sym[SYM_new]), init, v, r;
    bool plain = make.o == s->w->object_new;

    if (plain) {
        v = instance_new(s, c);
    } else {
        sv f = descriptor_get(s, make, sv_null(), c);

        v = sv_ok(f) ? call_self(s, f, of, a) : f;
        sv_drop(s, f);
    }
    if (!sv_ok(v) || (!plain && !cls_derives(class_of(s, v), c)))
        return v;
    init = type_find(s, class_of(s, v), s->sym[SYM_init]);
    if (init.o == s->w->object_init) {
        if (plain && (a->n || a->n_kw)) {
            sv_drop(s, v);
            return script_raise(s, EXC_TypeError, "%s() takes no arguments", c->name->text);
        }
        return v;
    }
    if (sv_is(init, KIND_FUNC) || (sv_is(init, KIND_NATIVE) && AS(native, init)->owner)) {
        r = call_self(s, init, v, a);
    } else {
        init = descriptor_get(s, init, v, c);
        r = sv_ok(init) ? script_call_args(s, init, a) : init;
        sv_drop(s, init);
    }
    if (sv_ok(r) && r.tag != SV_NONE) {
        sv_drop(s, r);
        sv_drop(s, v);
        return script_raise(s, EXC_TypeError, "__init__() should return None");
    }
    if (!sv_ok(r)) {
        sv_drop(s, v);
        return r;
    }
    return v;
}

sv class_call(struct script *s, struct cls *c, const struct script_args *a)
{
    sv self = sv_forever(c), r;

    if (sv_ok(c->meta) && cls_has(s, AS(cls, c->meta)) & HAS_CALL) {
        sv f = type_find(s, AS(cls, c->meta), s->sym[SYM_call]);

        return call_self(s, f, self, a);
    }
    if (c == s->w->types[B_TYPE] && a->n == 1)
        return sv_forever(class_of(s, a->v[0]));
    if (!enter(s))
        return sv_null();
    r = class_make(s, self, a);
    leave(s);
    return r;
}

/* ---- questions */

/* An object whose class answers for it, as a class's metaclass does: 1, 0, -1; SCRIPT_ABSENT: it does not. */
static int ask_object(struct script *s, sv of, enum symbol name, sv about)
{
    sv r;
    int truth;

    if (!sv_is(of, KIND_INSTANCE) || !sv_is(type_find(s, class_of(s, of), s->sym[name]), KIND_FUNC))
        return SCRIPT_ABSENT;
    r = special_call(s, of, name, 1, &about);
    truth = sv_ok(r) ? script_truth(s, r) : -1;
    sv_drop(s, r);
    return truth;
}

int issubclass_of(struct script *s, sv c, sv of)
{
    uint32_t n;
    const sv *items;
    struct cls *x = sv_as_class(c), *y = sv_as_class(of);
    sv r;
    int answer;

    if (!x)
        return script_raise(s, EXC_TypeError, "issubclass() arg 1 must be a class").tag ? 0 : -1;
    if (y) {
        if (sv_ok(y->meta) && sv_is(type_find(s, AS(cls, y->meta), s->sym[SYM_subclasscheck]), KIND_FUNC)) {
            int truth;

            r = special_call(s, of, SYM_subclasscheck, 1, &c);
            truth = sv_ok(r) ? script_truth(s, r) : -1;
            sv_drop(s, r);
            return truth;
        }
        return cls_derives(x, y);
    }
    items = sv_is(of, KIND_ALIAS) ? seq_items(AS(alias, of)->args, &n) : seq_items(of, &n);
    if (sv_is(of, KIND_ALIAS) && AS(alias, of)->origin.tag != SV_NONE)
        return issubclass_of(s, c, AS(alias, of)->origin);
    if (of.tag == SV_NONE)
        return x == s->w->types[B_NONE];
    if ((answer = ask_object(s, of, SYM_subclasscheck, c)) != SCRIPT_ABSENT)
        return answer;
    if (!items || !enter(s)) {
        if (!script_failed(s))
            (void)script_raise(s, EXC_TypeError, "issubclass() arg 2 must be a class, a tuple of classes, or a union");
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        int yes = !script_charge(s, i % 4 == 3 || !sv_as_class(items[i])) ? -1 : issubclass_of(s, c, items[i]);

        if (yes) {
            leave(s);
            return yes;
        }
    }
    leave(s);
    return 0;
}

int isinstance_of(struct script *s, sv v, sv of)
{
    struct cls *y = sv_as_class(of);
    uint32_t n;
    const sv *items;
    int answer;

    if (y) {
        if (sv_ok(y->meta) && sv_is(type_find(s, AS(cls, y->meta), s->sym[SYM_instancecheck]), KIND_FUNC)) {
            sv r = special_call(s, of, SYM_instancecheck, 1, &v);
            int truth = sv_ok(r) ? script_truth(s, r) : -1;

            sv_drop(s, r);
            return truth;
        }
        return cls_derives(class_of(s, v), y);
    }
    if (sv_is(of, KIND_ALIAS) && AS(alias, of)->origin.tag != SV_NONE)
        return isinstance_of(s, v, AS(alias, of)->origin);
    if (of.tag == SV_NONE)
        return v.tag == SV_NONE;
    if ((answer = ask_object(s, of, SYM_instancecheck, v)) != SCRIPT_ABSENT)
        return answer;
    items = sv_is(of, KIND_ALIAS) ? seq_items(AS(alias, of)->args, &n) : seq_items(of, &n);
    if (!items || !enter(s)) {
        if (!script_failed(s))
            (void)script_raise(s, EXC_TypeError, "isinstance() arg 2 must be a type, a tuple of types, or a union");
        return -1;
    }
    for (uint32_t i = 0; i < n; i++) {
        int yes = !script_charge(s, i % 4 == 3 || !sv_as_class(items[i])) ? -1 : isinstance_of(s, v, items[i]);

        if (yes) {
            leave(s);
            return yes;
        }
    }
    leave(s);
    return 0;
}

int super_find(struct script *s, struct super *u, struct str *name, sv *ret)
{
    uint32_t i = 0;
    bool of_class = sv_is(u->self, KIND_CLASS) && AS(cls, u->self) == u->type;

    if (name == s->sym[SYM_class]) {
        *ret = sv_forever(s->w->types[B_SUPER]);
        return 0;
    }
    while (i < u->type->n_mro && u->type->mro[i] != u->after)
        i++;
    for (i++; i < u->type->n_mro; i++) {
        struct entry *e = dict_find_name(u->type->mro[i]->dict, name);

        if (!e)
            continue;
        *ret = descriptor_get(s, e->value, of_class ? sv_null() : u->self, u->type);
        return sv_ok(*ret) ? 0 : script_failed(s) ? -1 : SCRIPT_ABSENT;
    }
    return SCRIPT_ABSENT;
}

sv alias_new(struct script *s, sv origin, sv args)
{
    struct alias *a = obj_new(s, sizeof *a, KIND_ALIAS);

    if (!a)
        return sv_null();
    if (origin.tag == SV_NONE)
        a->h.cls = s->w->types[B_UNION];
    a->origin = sv_keep(origin);
    a->args = sv_keep(args);
    return sv_counted(a);
}
