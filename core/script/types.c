/* What int, float, object, type, property, functions, exceptions and the like offer. */
#include "script/object.h"

#include "script/number.h"

#include <math.h>

#define PLAIN 0, NATIVE_PLAIN
#define END                               \
    {                                     \
        NULL, NULL, NULL, 0, NATIVE_PLAIN \
    }
#define END_MEMBERS         \
    {                       \
        NULL, NULL, NULL, 0 \
    }

static sv boxed(struct script *s, sv cls, enum builtin plain, sv value)
{
    struct cls *c = AS(cls, cls);
    sv v;

    if (!sv_ok(value) || c == s->w->types[plain])
        return value;
    v = instance_new(s, c);
    if (sv_ok(v))
        AS(boxed, v)->value = value;
    else
        sv_drop(s, value);
    return v;
}

static sv plain_value(sv v)
{
    return sv_is(v, KIND_INSTANCE) && v.o->cls->flags & CLS_BOXED ? AS(boxed, v)->value : v;
}

/* ---- int, float, bool */

static sv int_of_text(struct script *s, const struct str *t, sv base)
{
    char text[80];
    size_t n = 0;
    int64_t b = 10, i = 0;
    enum number_what what = NUMBER_BAD;

    if (sv_ok(base) && !script_int(s, base, &b))
        return sv_null();
    for (uint32_t k = 0; k < t->bytes; k++) {
        char c = t->text[k];

        if (c == '_' && n)
            continue;
        if ((c == ' ' || c == '\n' || c == '\t') && (!n || k + 1 == t->bytes || t->text[k + 1] == ' ' || t->text[k + 1] == '\n'))
            continue;
        if (n + 1 >= sizeof text)
            return script_leave(s, "an integer beyond 64 bits");
        text[n++] = c;
    }
    text[n] = '\0';
    if (b >= 0 && b <= 36)
        what = number_int(text, n, (int)b, &i);
    if (what == NUMBER_BIG)
        return script_leave(s, "an integer beyond 64 bits");
    if (what == NUMBER_BAD)
        return script_raise(s, EXC_ValueError, "invalid literal for int() with base %d: '%.200s'", (int)b, t->text);
    return sv_int(i);
}

static sv to_int(struct script *s, sv v, sv base)
{
    sv r;
    int found;
    int64_t i;

    if (!sv_ok(v))
        return sv_int(0);
    v = plain_value(v);
    if (v.tag == SV_INT || v.tag == SV_BOOL)
        return sv_int(v.i);
    if (v.tag == SV_FLOAT) {
        if (isnan(v.f) || isinf(v.f))
            return script_raise(s, isnan(v.f) ? EXC_ValueError : EXC_OverflowError, "cannot convert float %s to integer",
                                isnan(v.f) ? "NaN" : "infinity");
        if (v.f >= 9.2233720368547758e18 || v.f < -9.2233720368547758e18)
            return script_leave(s, "an integer beyond 64 bits");
        return sv_int((int64_t)v.f);
    }
    if (as_str(v))
        return int_of_text(s, as_str(v), base);
    found = sv_is(v, KIND_INSTANCE) ? special(s, v, SYM_int, 0, NULL, &r) : 0;
    if (found)
        return found < 0 ? sv_null() : r;
    if (sv_is(v, KIND_INSTANCE))
        return script_int(s, v, &i) ? sv_int(i) : sv_null();
    return script_raise(s, EXC_TypeError, "int() argument must be a string, a bytes-like object or a real number, not '%s'",
                        class_of(s, v)->name->text);
}

static sv int_new(struct script *s, const struct script_args *a)
{
    return boxed(s, a->v[0], B_INT, to_int(s, a->v[1], a->v[2]));
}

static sv to_float(struct script *s, sv v)
{
    double f = 0;
    const struct str *t;
    size_t from = 0, n;

    if (!sv_ok(v))
        return sv_float(0);
    t = as_str(v);
    if (!t)
        return script_double(s, v, &f) ? sv_float(f) : sv_null();
    n = t->bytes;
    if (!pay_letters(s, n))
        return sv_null();
    while (from < n && (t->text[from] == ' ' || t->text[from] == '\n'))
        from++;
    while (n > from && (t->text[n - 1] == ' ' || t->text[n - 1] == '\n'))
        n--;
    if (!number_double(t->text + from, n - from, &f))
        return script_raise(s, EXC_ValueError, "could not convert string to float: '%.200s'", t->text);
    return sv_float(f);
}

static sv float_new(struct script *s, const struct script_args *a)
{
    return boxed(s, a->v[0], B_FLOAT, to_float(s, a->v[1]));
}

static sv bool_new(struct script *s, const struct script_args *a)
{
    int truth = script_truth(s, a->v[1]);

    return truth < 0 ? sv_null() : sv_bool(truth);
}

static sv int_bit_length(struct script *s, const struct script_args *a)
{
    int64_t i = plain_value(a->v[0]).i;
    uint64_t v = i < 0 ? 0 - (uint64_t)i : (uint64_t)i;
    int64_t n = 0;

    (void)s;
    for (; v; v >>= 1)
        n++;
    return sv_int(n);
}

static sv float_is_integer(struct script *s, const struct script_args *a)
{
    sv v = plain_value(a->v[0]);

    (void)s;
    return sv_bool(v.tag != SV_FLOAT || (!isinf(v.f) && floor(v.f) == v.f));
}

static sv number_self(struct script *s, sv self, uint32_t data)
{
    (void)s;
    return data == 0 ? plain_value(self) : data == 1 ? sv_int(0) : sv_int(1);
}

static sv number_repr_(struct script *s, const struct script_args *a)
{
    return script_repr(s, plain_value(a->v[0]));
}

const struct script_native int_methods[] = {{"__new__", int_new, "cls, x=, base=", 0, NATIVE_STATIC},
                                            {"bit_length", int_bit_length, "self, /", PLAIN},
                                            {"is_integer", float_is_integer, "self, /", PLAIN},
                                            {"__repr__", number_repr_, "self, /", PLAIN},
                                            END};
const struct script_member int_members[] = {{"real", number_self, NULL, 0},
                                            {"imag", number_self, NULL, 1},
                                            {"numerator", number_self, NULL, 0},
                                            {"denominator", number_self, NULL, 2},
                                            END_MEMBERS};
const struct script_native float_methods[] = {{"__new__", float_new, "cls, x=, /", 0, NATIVE_STATIC},
                                              {"is_integer", float_is_integer, "self, /", PLAIN},
                                              {"__repr__", number_repr_, "self, /", PLAIN},
                                              END};
const struct script_member float_members[] = {{"real", number_self, NULL, 0}, END_MEMBERS};
const struct script_native bool_methods[] = {{"__new__", bool_new, "cls, x=, /", 0, NATIVE_STATIC}, END};
const struct script_native none_methods[] = {END};

/* ---- object */

static sv object_new(struct script *s, const struct script_args *a)
{
    if (!a->n || !sv_as_class(a->v[0]))
        return script_raise(s, EXC_TypeError, "object.__new__(X): X is not a type object");
    return instance_new(s, AS(cls, a->v[0]));
}

static sv nothing(struct script *s, const struct script_args *a)
{
    (void)s;
    (void)a;
    return sv_none();
}

static sv object_init_subclass(struct script *s, const struct script_args *a)
{
    if (a->n_kw)
        return script_raise(s, EXC_TypeError, "%s.__init_subclass__() takes no keyword arguments", AS(cls, a->v[0])->name->text);
    return sv_none();
}

static sv object_setattr(struct script *s, const struct script_args *a)
{
    return script_set_plain(s, a->v[0], a->v[1], a->v[2]) ? sv_none() : sv_null();
}

static sv object_getattribute(struct script *s, const struct script_args *a)
{
    return script_get_plain(s, a->v[0], a->v[1]);
}

static sv object_eq(struct script *s, const struct script_args *a)
{
    (void)s;
    if (sv_is_obj(a->v[0]) && sv_is_obj(a->v[1]) && a->v[0].o == a->v[1].o)
        return sv_bool(true);
    return sv_not_implemented();
}

static sv object_ne(struct script *s, const struct script_args *a)
{
    sv r;
    int found = special(s, a->v[0], SYM_eq, 1, &a->v[1], &r), truth;

    if (found < 0 || !found || r.tag == SV_NOTIMPLEMENTED)
        return found < 0 ? sv_null() : sv_not_implemented();
    truth = script_truth(s, r);
    sv_drop(s, r);
    return truth < 0 ? sv_null() : sv_bool(!truth);
}

static sv object_hash(struct script *s, const struct script_args *a)
{
    return sv_int((int64_t)(script_place(s, a->v[0].o) >> 4));
}

static sv object_repr(struct script *s, const struct script_args *a)
{
    struct cls *c = class_of(s, a->v[0]);

    return str_format(s, "<%.150s.%.300s object at 0x%llx>", c->module ? c->module->text : "builtins", c->qualname->text,
                      (unsigned long long)script_place(s, a->v[0].o));
}

static sv object_str(struct script *s, const struct script_args *a)
{
    return script_repr(s, a->v[0]);
}

static sv object_reduce(struct script *s, const struct script_args *a)
{
    (void)a;
    return script_leave(s, "__reduce__");
}

const struct script_native object_methods[] = {{"__new__", object_new, NULL, 0, NATIVE_STATIC},
                                               {"__init__", nothing, NULL, PLAIN},
                                               {"__init_subclass__", object_init_subclass, NULL, 0, NATIVE_CLASS},
                                               {"__setattr__", object_setattr, "self, name, value, /", PLAIN},
                                               {"__delattr__", object_setattr, "self, name, value=, /", PLAIN},
                                               {"__getattribute__", object_getattribute, "self, name, /", PLAIN},
                                               {"__eq__", object_eq, "self, other, /", PLAIN},
                                               {"__ne__", object_ne, "self, other, /", PLAIN},
                                               {"__hash__", object_hash, "self, /", PLAIN},
                                               {"__repr__", object_repr, "self, /", PLAIN},
                                               {"__str__", object_str, "self, /", PLAIN},
                                               {"__reduce__", object_reduce, "self, /", PLAIN},
                                               END};

static sv object_class(struct script *s, sv self, uint32_t data)
{
    (void)data;
    return sv_forever(class_of(s, self));
}

static sv object_doc(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)self;
    (void)data;
    return sv_none();
}

static bool no_class(struct script *s, sv self, sv value, uint32_t data)
{
    (void)self;
    (void)value;
    (void)data;
    (void)script_leave(s, "an assignment to __class__");
    return false;
}

static sv object_module(struct script *s, sv self, uint32_t data)
{
    struct cls *c = class_of(s, self);

    (void)data;
    return sv_forever(c->module ? c->module : s->sym[SYM_builtins_module]);
}

const struct script_member object_members[] = {{"__class__", object_class, no_class, 0}, END_MEMBERS};

/* ---- type */

static sv type_new(struct script *s, const struct script_args *a)
{
    struct cls *meta = AS(cls, a->v[0]);
    struct script_args kw = {.kw = a->kw, .names = a->names, .n_kw = a->n_kw};
    uint32_t n;
    const sv *bases;
    struct str *name;

    if (a->n == 2)
        return sv_forever(class_of(s, a->v[1]));
    if (a->n != 4 || !as_tuple(a->v[2]) || !sv_is(a->v[3], KIND_DICT))
        return script_raise(s, EXC_TypeError, "type() takes 1 or 3 arguments");
    name = name_of(s, a->v[1]);
    bases = seq_items(a->v[2], &n);
    return name ? class_new(s, name, n, bases, dict_ptr(a->v[3]), meta == s->w->types[B_TYPE] ? sv_null() : a->v[0], &kw) : sv_null();
}

static sv type_call(struct script *s, const struct script_args *a)
{
    struct script_args rest = *a;

    if (!a->n || !sv_as_class(a->v[0]))
        return script_raise(s, EXC_TypeError, "type.__call__ needs a class");
    rest.v = a->v + 1;
    rest.n = a->n - 1;
    return class_make(s, a->v[0], &rest);
}

static sv type_mro(struct script *s, const struct script_args *a)
{
    struct cls *c = AS(cls, a->v[0]);
    sv list = list_new(s, 0, NULL);

    for (uint32_t i = 0; sv_ok(list) && i < c->n_mro; i++)
        if (!list_append(s, list, sv_forever(c->mro[i])))
            return sv_null();
    return list;
}

static sv type_subclasses(struct script *s, const struct script_args *a)
{
    struct cls *c = AS(cls, a->v[0]);
    sv list = list_new(s, 0, NULL);

    for (struct cls *x = s->classes; sv_ok(list) && x; x = x->next)
        for (uint32_t i = 0; i < x->n_bases; i++)
            if (x->bases[i] == c && !list_append(s, list, sv_forever(x)))
                return sv_null();
    return list;
}

static sv type_or(struct script *s, const struct script_args *a)
{
    return script_binary(s, BINARY_OR, a->v[0], a->v[1], false);
}

const struct script_native type_methods[] = {{"__new__", type_new, NULL, 0, NATIVE_STATIC},
                                             {"__init__", nothing, NULL, PLAIN},
                                             {"__call__", type_call, NULL, PLAIN},
                                             {"mro", type_mro, "self, /", PLAIN},
                                             {"__subclasses__", type_subclasses, "self, /", PLAIN},
                                             {"__or__", type_or, "self, other, /", PLAIN},
                                             END};

enum { TYPE_NAME, TYPE_QUALNAME, TYPE_MODULE, TYPE_MRO, TYPE_BASES, TYPE_DICT, TYPE_BASE, TYPE_ANNOTATIONS, TYPE_DOC };

static sv classes(struct script *s, struct cls **list, uint32_t n)
{
    sv l = list_new(s, 0, NULL), t;

    for (uint32_t i = 0; sv_ok(l) && i < n; i++)
        if (!list_append(s, l, sv_forever(list[i])))
            return sv_null();
    if (!sv_ok(l))
        return l;
    t = tuple_of(s, l);
    sv_drop(s, l);
    return t;
}

static sv type_get(struct script *s, sv self, uint32_t data)
{
    struct cls *c = AS(cls, self);
    struct entry *e;
    sv d;

    switch (data) {
    case TYPE_NAME:
        return sv_forever(c->name);
    case TYPE_QUALNAME:
        return sv_forever(c->qualname);
    case TYPE_MODULE:
        return sv_forever(c->module ? c->module : s->sym[SYM_builtins_module]);
    case TYPE_MRO:
        return classes(s, c->mro, c->n_mro);
    case TYPE_BASES:
        return classes(s, c->bases, c->n_bases);
    case TYPE_DICT:
        return dict_copy(s, c->dict);
    case TYPE_BASE:
        return c->n_bases ? sv_forever(c->bases[0]) : sv_none();
    case TYPE_DOC:
        e = dict_find_name(c->dict, s->sym[SYM_doc]);
        return e ? sv_keep(e->value) : sv_none();
    default: /* its own ones */
        e = dict_find_name(c->dict, s->sym[SYM_annotations]);
        if (e)
            return sv_keep(e->value);
        d = dict_new(s);
        if (sv_ok(d) && !(c->flags & CLS_SHARED) && !class_set(s, c, s->sym[SYM_annotations], d)) {
            sv_drop(s, d);
            return sv_null();
        }
        return d;
    }
}

static bool type_set(struct script *s, sv self, sv value, uint32_t data)
{
    static const uint8_t names[] = {SYM_name, SYM_qualname, SYM_module};

    if (data == TYPE_ANNOTATIONS || data == TYPE_DOC)
        return class_set(s, AS(cls, self), s->sym[data == TYPE_DOC ? SYM_doc : SYM_annotations], value);
    return data <= TYPE_MODULE && class_set(s, AS(cls, self), s->sym[names[data]], value);
}

const struct script_member type_members[] = {
    {"__name__", type_get, type_set, TYPE_NAME},     {"__qualname__", type_get, type_set, TYPE_QUALNAME},
    {"__module__", type_get, type_set, TYPE_MODULE}, {"__mro__", type_get, NULL, TYPE_MRO},
    {"__bases__", type_get, NULL, TYPE_BASES},       {"__dict__", type_get, NULL, TYPE_DICT},
    {"__base__", type_get, NULL, TYPE_BASE},         {"__annotations__", type_get, NULL, TYPE_ANNOTATIONS},
    {"__doc__", type_get, NULL, TYPE_DOC},           END_MEMBERS};

/* ---- property, staticmethod, classmethod, super */

static sv property_make(struct script *s, sv get, sv set, sv del, struct cls *c)
{
    struct property *p = obj_new(s, sizeof *p, KIND_PROPERTY);

    if (!p)
        return sv_null();
    p->h.cls = c;
    p->get = sv_keep(get);
    p->set = sv_keep(set);
    p->del = sv_keep(del);
    p->doc = p->name = sv_null();
    return sv_counted(p);
}

static sv property_new(struct script *s, const struct script_args *a)
{
    struct cls *c = AS(cls, a->v[0]);

    return property_make(s, a->v[1], a->v[2], a->v[3], c == s->w->types[B_PROPERTY] ? NULL : s->w->types[B_CACHED]);
}

static sv property_with(struct script *s, const struct script_args *a)
{
    struct property *p = AS(property, a->v[0]);
    sv f = a->v[1];

    return property_make(s, a->def->data == 0 ? f : p->get, a->def->data == 1 ? f : p->set, a->def->data == 2 ? f : p->del, p->h.cls);
}

static sv property_get(struct script *s, const struct script_args *a)
{
    return descriptor_get(s, a->v[0], sv_given(a->v[1]) ? a->v[1] : sv_null(), class_of(s, a->v[1]));
}

static sv property_put(struct script *s, const struct script_args *a)
{
    sv made;

    if (!sv_ok(AS(property, a->v[0])->set))
        return script_raise(s, EXC_AttributeError, "property has no setter");
    made = script_call(s, AS(property, a->v[0])->set, 2, a->v + 1);
    sv_drop(s, made);
    return sv_ok(made) ? sv_none() : made;
}

const struct script_native property_methods[] = {{"__new__", property_new, "cls, fget=, fset=, fdel=, doc=", 0, NATIVE_STATIC},
                                                 {"getter", property_with, "self, f, /", 0, NATIVE_PLAIN},
                                                 {"setter", property_with, "self, f, /", 1, NATIVE_PLAIN},
                                                 {"deleter", property_with, "self, f, /", 2, NATIVE_PLAIN},
                                                 {"__set__", property_put, "self, instance, value, /", 0, NATIVE_PLAIN},
                                                 {"__get__", property_get, "self, instance, owner=, /", PLAIN},
                                                 END};
const struct script_native cached_methods[] = {{"__new__", property_new, "cls, fget=, fset=, fdel=, doc=", 0, NATIVE_STATIC}, END};

static sv property_part(struct script *s, sv self, uint32_t data)
{
    struct property *p = AS(property, self);
    sv v = data == 0 ? p->get : data == 1 ? p->set : p->del;

    (void)s;
    return sv_ok(v) ? sv_keep(v) : sv_none();
}

const struct script_member property_members[] = {{"fget", property_part, NULL, 0},
                                                 {"fset", property_part, NULL, 1},
                                                 {"fdel", property_part, NULL, 2},
                                                 {"func", property_part, NULL, 0},
                                                 END_MEMBERS};

static sv wrap_new(struct script *s, const struct script_args *a)
{
    struct wrap *w = obj_new(s, sizeof *w, KIND_WRAP);

    if (!w)
        return sv_null();
    w->h.cls = AS(cls, a->v[0]);
    w->is_class = cls_derives(w->h.cls, s->w->types[B_CLASSMETHOD]);
    w->function = sv_keep(a->v[1]);
    return sv_counted(w);
}

const struct script_native wrap_methods[] = {{"__new__", wrap_new, "cls, f, /", 0, NATIVE_STATIC}, END};

static sv wrap_func(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_keep(AS(wrap, self)->function);
}

const struct script_member wrap_members[] = {{"__func__", wrap_func, NULL, 0}, {"__wrapped__", wrap_func, NULL, 0}, END_MEMBERS};

/* super() finds its class in the cell __class__ and its object in the first local of who called it. */
static bool super_here(struct script *s, sv *after, sv *self)
{
    const struct frame *f = s->frame;
    const struct code *c = f ? f->code : NULL;

    if (!c || !c->n_args) {
        (void)script_raise(s, EXC_RuntimeError, "super(): no arguments");
        return false;
    }
    *self = f->locals[0];
    if (sv_is(*self, KIND_CELL))
        *self = AS(cell, *self)->value;
    for (uint32_t i = (uint32_t)c->n_all - c->n_free; i < c->n_all; i++)
        if (c->vars[i] == s->sym[SYM_class] && sv_is(f->locals[i], KIND_CELL)) {
            *after = AS(cell, f->locals[i])->value;
            if (sv_as_class(*after) && sv_ok(*self))
                return true;
        }
    (void)script_raise(s, EXC_RuntimeError, "super(): __class__ cell not found");
    return false;
}

static sv super_new(struct script *s, const struct script_args *a)
{
    struct super *u;
    sv after = a->v[1], self = a->v[2];
    struct cls *type;

    if (!sv_ok(after) && !super_here(s, &after, &self))
        return sv_null();
    if (!sv_as_class(after) || !sv_ok(self))
        return script_leave(s, "super() of one argument");
    if (sv_as_class(self) && cls_derives(AS(cls, self), AS(cls, after)))
        type = AS(cls, self);
    else if (cls_derives(class_of(s, self), AS(cls, after)))
        type = class_of(s, self);
    else
        return script_raise(s, EXC_TypeError, "super(type, obj): obj must be an instance or subtype of type");
    u = obj_new(s, sizeof *u, KIND_SUPER);
    if (!u)
        return sv_null();
    u->after = AS(cls, after);
    u->type = type;
    u->self = sv_keep(self);
    return sv_counted(u);
}

const struct script_native super_methods[] = {{"__new__", super_new, "cls, type=, object=, /", 0, NATIVE_STATIC}, END};
const struct script_member super_members[] = {END_MEMBERS};

/* ---- functions, methods, natives, code */

enum { FUNC_NAME, FUNC_QUALNAME, FUNC_MODULE, FUNC_CODE, FUNC_DEFAULTS, FUNC_KWDEFAULTS, FUNC_GLOBALS, FUNC_ANNOTATIONS };

static sv annotations_of(struct script *s, struct func *f)
{
    struct entry *e = f->attributes ? dict_find_name(f->attributes, s->sym[SYM_annotations]) : NULL;
    sv d;

    if (e)
        return sv_keep(e->value);
    d = dict_new(s);
    for (uint32_t i = 0; sv_ok(d) && i < f->code->n_annotations; i++)
        if (!dict_put_name(s, dict_ptr(d), f->code->annotations[i].name, sv_forever(f->code->annotations[i].text)))
            return sv_null();
    if (sv_ok(d) && !f->attributes) {
        stirs(s, f);
        f->attributes = dict_make(s);
    }
    if (sv_ok(d) && f->attributes)
        (void)dict_put_name(s, f->attributes, s->sym[SYM_annotations], d);
    return d;
}

static sv func_get(struct script *s, sv self, uint32_t data)
{
    struct func *f = AS(func, self);

    switch (data) {
    case FUNC_NAME:
        return sv_keep(f->name);
    case FUNC_QUALNAME:
        return sv_keep(f->qualname);
    case FUNC_MODULE:
        return sv_forever(f->module->name);
    case FUNC_CODE:
        return sv_forever(f->code);
    case FUNC_DEFAULTS:
        return sv_ok(f->defaults) ? sv_keep(f->defaults) : sv_none();
    case FUNC_KWDEFAULTS:
        return sv_ok(f->kwdefaults) ? sv_keep(f->kwdefaults) : sv_none();
    case FUNC_GLOBALS:
        return sv_keep(sv_counted(f->module->dict));
    default:
        return annotations_of(s, f);
    }
}

static bool func_set(struct script *s, sv self, sv value, uint32_t data)
{
    struct func *f = AS(func, self);
    sv *at = data == FUNC_NAME ? &f->name : data == FUNC_QUALNAME ? &f->qualname : &f->defaults, old = *at;

    stirs(s, f);
    if (data == FUNC_MODULE)
        return true;
    if (data == FUNC_ANNOTATIONS) {
        if (!f->attributes)
            f->attributes = dict_make(s);
        return f->attributes && dict_put_name(s, f->attributes, s->sym[SYM_annotations], value);
    }
    if (data == FUNC_DEFAULTS ? value.tag != SV_NONE && !sv_is(value, KIND_TUPLE) : !sv_is(value, KIND_STR)) {
        (void)script_raise(s, EXC_TypeError, "a function's attribute of another type");
        return false;
    }
    *at = value.tag == SV_NONE ? sv_null() : sv_keep(value);
    sv_drop(s, old);
    return true;
}

static sv func_call(struct script *s, const struct script_args *a)
{
    struct script_args rest = *a;

    if (!a->n)
        return script_raise(s, EXC_TypeError, "__call__ needs a function");
    rest.v = a->v + 1;
    rest.n = a->n - 1;
    return script_call_args(s, a->v[0], &rest);
}

static sv func_bind(struct script *s, const struct script_args *a)
{
    return sv_given(a->v[1]) ? method_new(s, a->v[0], a->v[1]) : sv_keep(a->v[0]);
}

const struct script_native func_methods[] = {{"__call__", func_call, NULL, PLAIN},
                                             {"__get__", func_bind, "self, instance, owner=, /", PLAIN},
                                             END};
const struct script_member func_members[] = {{"__name__", func_get, func_set, FUNC_NAME},
                                             {"__qualname__", func_get, func_set, FUNC_QUALNAME},
                                             {"__module__", func_get, func_set, FUNC_MODULE},
                                             {"__code__", func_get, NULL, FUNC_CODE},
                                             {"__defaults__", func_get, func_set, FUNC_DEFAULTS},
                                             {"__kwdefaults__", func_get, NULL, FUNC_KWDEFAULTS},
                                             {"__globals__", func_get, NULL, FUNC_GLOBALS},
                                             {"__annotations__", func_get, func_set, FUNC_ANNOTATIONS},
                                             END_MEMBERS};

static sv code_get(struct script *s, sv self, uint32_t data)
{
    const struct code *c = AS(code, self);
    sv l, t;

    switch (data) {
    case 0:
        return sv_forever(c->name);
    case 1:
        return sv_int(c->n_args);
    case 2:
        return sv_int(c->n_keyword);
    case 4:
        return sv_int(c->n_positional_only);
    case 5:
        return sv_int((c->flags & CODE_REST ? 4 : 0) | (c->flags & CODE_KW ? 8 : 0) | (c->flags & CODE_GENERATOR ? 32 : 0));
    case 6:
        return sv_int(c->line);
    default:
        break;
    }
    l = list_new(s, 0, NULL);
    for (uint32_t i = 0; sv_ok(l) && i < c->n_vars; i++)
        if (!list_append(s, l, sv_forever(c->vars[i])))
            return sv_null();
    t = sv_ok(l) ? tuple_of(s, l) : l;
    sv_drop(s, l);
    return t;
}

const struct script_member code_members[] = {{"co_name", code_get, NULL, 0},
                                             {"co_argcount", code_get, NULL, 1},
                                             {"co_kwonlyargcount", code_get, NULL, 2},
                                             {"co_varnames", code_get, NULL, 3},
                                             {"co_posonlyargcount", code_get, NULL, 4},
                                             {"co_flags", code_get, NULL, 5},
                                             {"co_firstlineno", code_get, NULL, 6},
                                             END_MEMBERS};

static sv native_get(struct script *s, sv self, uint32_t data)
{
    (void)data;
    (void)s;
    return sv_forever(AS(native, self)->name);
}

const struct script_member native_members[] = {{"__name__", native_get, NULL, 0},
                                               {"__qualname__", native_get, NULL, 0},
                                               {"__module__", object_module, NULL, 0},
                                               {"__doc__", object_doc, NULL, 0},
                                               END_MEMBERS};

static sv method_get(struct script *s, sv self, uint32_t data)
{
    struct method *m = AS(method, self);

    return data == 0 ? sv_keep(m->self) : data == 1 ? sv_keep(m->function) : attr_get(s, m->function, s->sym[data]);
}

static sv method_make(struct script *s, const struct script_args *a)
{
    return method_new(s, a->v[1], a->v[2]);
}

const struct script_native method_methods[] = {{"__new__", method_make, "cls, function, instance, /", 0, NATIVE_STATIC},
                                               {"__call__", func_call, NULL, PLAIN},
                                               END};
const struct script_member method_members[] = {{"__self__", method_get, NULL, 0},
                                               {"__func__", method_get, NULL, 1},
                                               {"__name__", method_get, NULL, SYM_name},
                                               {"__qualname__", method_get, NULL, SYM_qualname},
                                               {"__module__", method_get, NULL, SYM_module},
                                               {"__code__", method_get, NULL, SYM_code},
                                               {"__defaults__", method_get, NULL, SYM_defaults},
                                               {"__annotations__", method_get, NULL, SYM_annotations},
                                               {"__wrapped__", method_get, NULL, SYM_wrapped},
                                               END_MEMBERS};

static sv cell_get(struct script *s, sv self, uint32_t data)
{
    (void)data;
    return sv_ok(AS(cell, self)->value) ? sv_keep(AS(cell, self)->value) : script_raise(s, EXC_ValueError, "Cell is empty");
}

const struct script_member cell_members[] = {{"cell_contents", cell_get, NULL, 0}, END_MEMBERS};
const struct script_member gen_members[] = {END_MEMBERS};
const struct script_member view_members[] = {END_MEMBERS};
const struct script_member trace_members[] = {END_MEMBERS};
const struct script_native module_methods[] = {END};

static sv module_get(struct script *s, sv self, uint32_t data)
{
    (void)s;
    (void)data;
    return sv_forever(AS(module, self)->name);
}

const struct script_member module_members[] = {{"__module_name__", module_get, NULL, 0}, END_MEMBERS};

static sv alias_get(struct script *s, sv self, uint32_t data)
{
    struct alias *a = AS(alias, self);

    if (data == 1)
        return sv_keep(a->args);
    return a->origin.tag == SV_NONE ? sv_forever(s->w->types[B_UNION]) : sv_keep(a->origin);
}

const struct script_member alias_members[] = {{"__origin__", alias_get, NULL, 0}, {"__args__", alias_get, NULL, 1}, END_MEMBERS};

/* ---- exceptions */

static sv exc_new_(struct script *s, const struct script_args *a)
{
    sv args, v;

    if (!a->n || !sv_as_class(a->v[0]) || !(AS(cls, a->v[0])->flags & CLS_EXCEPTION))
        return script_raise(s, EXC_TypeError, "an exception's __new__ needs its class");
    args = tuple_new(s, a->n - 1, a->v + 1);
    v = sv_ok(args) ? exc_new(s, AS(cls, a->v[0]), args) : args;
    sv_drop(s, args);
    return v;
}

static sv exc_init(struct script *s, const struct script_args *a)
{
    struct exc *e = AS(exc, a->v[0]);
    sv args = tuple_new(s, a->n - 1, a->v + 1), old = e->args;

    if (!sv_ok(args))
        return args;
    stirs(s, e);
    e->args = args;
    sv_drop(s, old);
    for (uint32_t i = 0; i < a->n_kw; i++)
        if (!attr_set(s, a->v[0], name_of(s, a->names[i]), a->kw[i]))
            return sv_null();
    return sv_none();
}

static sv exc_with_traceback(struct script *s, const struct script_args *a)
{
    struct exc *e = AS(exc, a->v[0]);
    sv old = e->trace;

    stirs(s, e);
    e->trace = a->v[1].tag == SV_NONE ? sv_null() : sv_keep(a->v[1]);
    sv_drop(s, old);
    return sv_keep(a->v[0]);
}

static sv exc_str(struct script *s, const struct script_args *a)
{
    struct exc *e = AS(exc, a->v[0]);
    uint32_t n;
    const sv *items = seq_items(e->args, &n);

    return !n ? sv_forever(s->sym[SYM_empty]) : n == 1 ? script_str(s, items[0]) : script_repr(s, e->args);
}

const struct script_native exception_methods[] = {{"__new__", exc_new_, NULL, 0, NATIVE_STATIC},
                                                  {"__init__", exc_init, NULL, PLAIN},
                                                  {"__str__", exc_str, "self, /", PLAIN},
                                                  {"with_traceback", exc_with_traceback, "self, tb, /", PLAIN},
                                                  {"add_note", nothing, NULL, PLAIN},
                                                  END};

static sv *exc_part(sv self, uint32_t data)
{
    struct exc *e = AS(exc, self);

    return data == 0 ? &e->args : data == 1 ? &e->trace : data == 2 ? &e->cause : &e->context;
}

static sv exc_get(struct script *s, sv self, uint32_t data)
{
    uint32_t n;
    const sv *items;

    (void)s;
    if (data == 5)
        return sv_bool(AS(exc, self)->suppress);
    if (data == 4) { /* StopIteration.value */
        items = seq_items(AS(exc, self)->args, &n);
        return n ? sv_keep(items[0]) : sv_none();
    }
    return sv_ok(*exc_part(self, data)) ? sv_keep(*exc_part(self, data)) : sv_none();
}

static bool exc_put(struct script *s, sv self, sv value, uint32_t data)
{
    sv *at = exc_part(self, data), old = *at;

    stirs(s, self.o);
    if (data == 0) {
        value = tuple_of(s, value);
        if (!sv_ok(value))
            return false;
        *at = value;
    } else
        *at = value.tag == SV_NONE ? sv_null() : sv_keep(value);
    sv_drop(s, old);
    return true;
}

const struct script_member exception_members[] = {{"args", exc_get, exc_put, 0},
                                                  {"__traceback__", exc_get, exc_put, 1},
                                                  {"__cause__", exc_get, exc_put, 2},
                                                  {"__context__", exc_get, exc_put, 3},
                                                  {"value", exc_get, NULL, 4},
                                                  {"__suppress_context__", exc_get, NULL, 5},
                                                  END_MEMBERS};

/* ---- iterators as types */

static sv iter_self(struct script *s, const struct script_args *a)
{
    (void)s;
    return sv_keep(a->v[0]);
}

static sv iter_next_(struct script *s, const struct script_args *a)
{
    sv r = iter_next(s, a->v[0]);

    return sv_ok(r) || script_failed(s) ? r : script_raise(s, EXC_StopIteration, "%s", "");
}

const struct script_native iter_methods[] = {{"__iter__", iter_self, "self, /", PLAIN}, {"__next__", iter_next_, "self, /", PLAIN}, END};

static sv typed(struct script *s, sv it, enum builtin type)
{
    if (sv_ok(it))
        it.o->cls = s->w->types[type];
    return it;
}

static sv enumerate_new(struct script *s, const struct script_args *a)
{
    sv of = iter_of(s, a->v[1]), it = sv_ok(of) ? typed(s, iter_new(s, ITER_ENUMERATE, of), B_ENUMERATE) : of;

    sv_drop(s, of);
    if (sv_ok(it) && sv_ok(a->v[2]) && !script_int(s, a->v[2], &AS(iter, it)->at)) {
        sv_drop(s, it);
        return sv_null();
    }
    return it;
}

static sv iterators(struct script *s, const sv *of, uint32_t n)
{
    sv l = list_new(s, 0, NULL), t;

    for (uint32_t i = 0; sv_ok(l) && i < n; i++) {
        sv it = iter_of(s, of[i]);

        if (!sv_ok(it) || !list_push(s, AS(list, l), it)) {
            sv_drop(s, l);
            return sv_null();
        }
    }
    t = sv_ok(l) ? tuple_of(s, l) : l;
    sv_drop(s, l);
    return t;
}

static sv zip_new(struct script *s, const struct script_args *a)
{
    sv of = iterators(s, a->rest, a->n_rest), it = sv_ok(of) ? typed(s, iter_new(s, ITER_ZIP, of), B_ZIP) : of;

    sv_drop(s, of);
    if (sv_ok(it) && sv_ok(a->v[1]) && script_truth(s, a->v[1]) == 1)
        AS(iter, it)->step = 2;
    return it;
}

static sv map_new(struct script *s, const struct script_args *a)
{
    sv of = iterators(s, a->rest, a->n_rest), it;

    if (sv_ok(of) && !a->n_rest)
        return script_raise(s, EXC_TypeError, "map() must have at least two arguments.");
    it = sv_ok(of) ? typed(s, iter_new(s, ITER_MAP, of), B_MAP) : of;
    sv_drop(s, of);
    if (sv_ok(it))
        AS(iter, it)->other = sv_keep(a->v[1]);
    return it;
}

static sv filter_new(struct script *s, const struct script_args *a)
{
    sv of = iter_of(s, a->v[2]), it = sv_ok(of) ? typed(s, iter_new(s, ITER_FILTER, of), B_FILTER) : of;

    sv_drop(s, of);
    if (sv_ok(it))
        AS(iter, it)->other = sv_keep(a->v[1]);
    return it;
}

static sv reversed_new(struct script *s, const struct script_args *a)
{
    sv it, r;
    int found = special(s, a->v[1], SYM_reversed, 0, NULL, &r);
    int64_t n;

    if (found)
        return found < 0 ? sv_null() : r;
    n = script_len(s, a->v[1]);
    if (n < 0)
        return sv_null();
    it = typed(s, iter_new(s, ITER_REVERSED, a->v[1]), B_REVERSED);
    if (sv_ok(it))
        AS(iter, it)->at = n - 1;
    return it;
}

const struct script_native enumerate_methods[] = {{"__new__", enumerate_new, "cls, iterable, start=", 0, NATIVE_STATIC}, END};
const struct script_native zip_methods[] = {{"__new__", zip_new, "cls, *rest, strict=", 0, NATIVE_STATIC}, END};
const struct script_native map_methods[] = {{"__new__", map_new, "cls, function, *rest", 0, NATIVE_STATIC}, END};
const struct script_native filter_methods[] = {{"__new__", filter_new, "cls, function, iterable, /", 0, NATIVE_STATIC}, END};
const struct script_native reversed_methods[] = {{"__new__", reversed_new, "cls, sequence, /", 0, NATIVE_STATIC}, END};

/* class cached_property(property): a class of the language takes its place. */
static sv property_to_derive(struct script *s)
{
    sv module = script_import(s, "_property"), cls = sv_ok(module) ? script_get(s, module, script_symbol(s, "property")) : module;

    sv_drop(s, module);
    sv_drop(s, cls); /* a class lives as long as the script */
    return cls;
}

sv class_statement(struct script *s, sv body, sv bases, sv keywords, struct str *name)
{
    sv names = dict_new(s), list = sv_null(), meta = sv_null(), r, cell = sv_null(), kw_values[SCRIPT_PARAMETERS],
       kw_names[SCRIPT_PARAMETERS];
    struct func *f = AS(func, body);
    struct script_args kw = {.kw = kw_values, .names = kw_names};
    struct entry *e;
    uint32_t n;
    const sv *items = seq_items(bases, &n);
    bool changed = false;

    if (!sv_ok(names))
        return names;
    if (!dict_put_name(s, dict_ptr(names), s->sym[SYM_module], sv_forever(f->module->name)) ||
        !dict_put_name(s, dict_ptr(names), s->sym[SYM_qualname], sv_forever(f->code->qualname)))
        return sv_null();
    r = run_body(s, f->code, f->module, dict_ptr(names), body);
    sv_drop(s, r);
    if (!sv_ok(r))
        goto end;
    list = list_new(s, 0, NULL);
    for (uint32_t i = 0; sv_ok(list) && i < n; i++) { /* Generic[T] is derived from as Generic */
        sv base = items[i];

        if (sv_as_class(base) == s->w->types[B_PROPERTY]) {
            base = property_to_derive(s);
            if (!sv_ok(base))
                goto fail;
        }
        while (sv_is(base, KIND_ALIAS)) {
            base = AS(alias, base)->origin;
            changed = true;
        }
        if (sv_is(base, KIND_INSTANCE) && !script_find(s, base, script_symbol(s, "__mro_entries__"), &r)) {
            sv t = script_call(s, r, 1, &bases);

            sv_drop(s, r);
            if (!sv_ok(t) || !list_extend(s, AS(list, list), t)) {
                r = sv_null();
                goto end;
            }
            sv_drop(s, t);
            changed = true;
            continue;
        }
        if (sv_as_class(base) && sv_ok(AS(cls, base)->meta) && (!sv_ok(meta) || cls_derives(AS(cls, AS(cls, base)->meta), AS(cls, meta))))
            meta = AS(cls, base)->meta;
        if (script_failed(s) || !list_append(s, list, base))
            goto fail;
    }
    if (!sv_ok(list) || (changed && !dict_put_name(s, dict_ptr(names), s->sym[SYM_orig_bases], bases)))
        goto fail;
    for (uint32_t i = 0; sv_is(keywords, KIND_DICT) && i < dict_ptr(keywords)->used; i++) {
        sv key = dict_ptr(keywords)->entries[i].key, value = dict_ptr(keywords)->entries[i].value;

        if (key.tag == SV_NULL)
            continue;
        if (str_is(key, "metaclass")) {
            if (value.o != (struct obj *)s->w->types[B_TYPE])
                meta = value;
        } else if (kw.n_kw < SCRIPT_PARAMETERS) {
            kw_values[kw.n_kw] = value;
            kw_names[kw.n_kw++] = key;
        }
    }
    e = dict_find_name(dict_ptr(names), s->sym[SYM_classcell]);
    if (e) {
        cell = sv_keep(e->value);
        (void)dict_remove(s, dict_ptr(names), sv_forever(s->sym[SYM_classcell]), NULL);
    }
    items = seq_items(list, &n);
    if (sv_ok(meta)) {
        sv argv[3] = {sv_forever(name), tuple_new(s, n, items), names};
        struct script_args a = {.v = argv, .n = 3, .kw = kw.kw, .names = kw.names, .n_kw = kw.n_kw};

        r = sv_ok(argv[1]) ? script_call_args(s, meta, &a) : sv_null();
        sv_drop(s, argv[1]);
    } else
        r = class_new(s, name, n, items, dict_ptr(names), sv_null(), &kw);
    if (sv_ok(r) && sv_is(cell, KIND_CELL)) {
        sv old = AS(cell, cell)->value;

        stirs(s, cell.o);
        AS(cell, cell)->value = sv_keep(r);
        sv_drop(s, old);
    }
    goto end;
fail:
    r = sv_null();
end:
    sv_drop(s, cell);
    sv_drop(s, list);
    sv_drop(s, names);
    return r;
}
