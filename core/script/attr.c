/* Attributes: how a name is found on a value, and set. */
#include "script/object.h"

enum { KEYS_MAX = 30 }; /* SHARED_KEYS_MAX_SIZE: beyond, attributes lie in a dict */

static const uint8_t kind_builtin[KIND_COUNT] = {
    [KIND_STR] = B_STR,      [KIND_TUPLE] = B_TUPLE,     [KIND_LIST] = B_LIST,         [KIND_DICT] = B_DICT,
    [KIND_SET] = B_SET,      [KIND_FUNC] = B_FUNC,       [KIND_NATIVE] = B_NATIVE,     [KIND_METHOD] = B_METHOD,
    [KIND_CLASS] = B_TYPE,   [KIND_INSTANCE] = B_OBJECT, [KIND_MODULE] = B_MODULE,     [KIND_CELL] = B_CELL,
    [KIND_CODE] = B_CODE,    [KIND_GEN] = B_GEN,         [KIND_RANGE] = B_RANGE,       [KIND_SLICE] = B_SLICE,
    [KIND_ITER] = B_ITER,    [KIND_SUPER] = B_SUPER,     [KIND_PROPERTY] = B_PROPERTY, [KIND_WRAP] = B_STATICMETHOD,
    [KIND_TRACE] = B_TRACE,  [KIND_FRAME] = B_FRAME,     [KIND_VIEW] = B_VIEW,         [KIND_ALIAS] = B_ALIAS,
    [KIND_MEMBER] = B_MEMBER};

struct cls *class_of_any(const struct script *s, sv v)
{
    static const uint8_t simple[] = {[SV_NULL] = B_NONE,
                                     [SV_NONE] = B_NONE,
                                     [SV_BOOL] = B_BOOL,
                                     [SV_INT] = B_INT,
                                     [SV_FLOAT] = B_FLOAT,
                                     [SV_ELLIPSIS] = B_ELLIPSIS,
                                     [SV_NOTIMPLEMENTED] = B_NOTIMPLEMENTED};

    if (!sv_is_obj(v))
        return s->w->types[simple[v.tag]];
    if (v.o->kind == KIND_CLASS) {
        sv meta = AS(cls, v)->meta;

        return sv_ok(meta) ? AS(cls, meta) : s->w->types[B_TYPE];
    }
    return v.o->cls ? v.o->cls : s->w->types[kind_builtin[v.o->kind]];
}

struct cls *sv_class(struct script *s, sv v)
{
    return class_of(s, v);
}

const char *cls_name(const struct cls *c)
{
    return c->name->text;
}

const char *cls_module(const struct cls *c)
{
    return c->module ? c->module->text : "";
}

sv cls_value(struct cls *c)
{
    return sv_forever(c);
}

struct cls *sv_as_class(sv v)
{
    return sv_is(v, KIND_CLASS) ? AS(cls, v) : NULL;
}

bool cls_derives(const struct cls *c, const struct cls *from)
{
    if (c == from)
        return true;
    for (uint32_t i = 1; i < c->n_mro; i++)
        if (c->mro[i] == from)
            return true;
    return false;
}

/* Along the class's order; remembered by class, version and name. */
sv type_find(struct script *s, struct cls *c, const struct str *name)
{
    struct method_cache *m = &s->cache[(((uintptr_t)c >> 5) ^ name->hash) % METHOD_CACHE];
    const struct entry *e = NULL;

    if (m->cls == c && m->version == c->version && m->name == name)
        return m->value;
    for (uint32_t i = 0; i < c->n_mro && !e; i++)
        e = dict_find_name(c->mro[i]->dict, name);
    *m = (struct method_cache){c, c->version, name, e ? e->value : sv_null()};
    return m->value;
}

static bool found_below_object(struct script *s, struct cls *c, enum symbol name)
{
    for (uint32_t i = 0; i < c->n_mro; i++)
        if (!(c->mro[i]->flags & CLS_SHARED) && dict_find_name(c->mro[i]->dict, s->sym[name]))
            return true;
    return false;
}

uint32_t cls_learn(struct script *s, struct cls *c)
{
    static const struct {
        uint32_t has;
        uint8_t name;
    } rows[] = {{HAS_GETATTR, SYM_getattr}, {HAS_GETATTRIBUTE, SYM_getattribute},
                {HAS_SETATTR, SYM_setattr}, {HAS_DELATTR, SYM_delattr},
                {HAS_DEL, SYM_del},         {HAS_GET, SYM_get},
                {HAS_SET, SYM_set},         {HAS_EQ, SYM_eq},
                {HAS_HASH, SYM_hash},       {HAS_BOOL, SYM_bool},
                {HAS_LEN, SYM_len},         {HAS_NEW, SYM_new},
                {HAS_ITER, SYM_iter},       {HAS_GETITEM, SYM_getitem},
                {HAS_CALL, SYM_call},       {HAS_NE, SYM_ne},
                {HAS_SETITEM, SYM_setitem}, {HAS_CONTAINS, SYM_contains},
                {HAS_REPR, SYM_repr},       {HAS_STR, SYM_str},
                {HAS_NEXT, SYM_next},       {HAS_INIT, SYM_init},
                {HAS_DELITEM, SYM_delitem}};

    c->has = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (found_below_object(s, c, (enum symbol)rows[i].name))
            c->has |= rows[i].has;
    c->has_known = 1;
    return c->has;
}

/* ---- where attributes lie */

struct dict **attributes_of(sv v)
{
    switch (v.o->kind) {
    case KIND_LIST:
        return v.o->cls ? &AS(list, v)->attributes : NULL;
    case KIND_DICT:
    case KIND_SET:
        return v.o->cls ? &dict_ptr(v)->attributes : NULL;
    case KIND_FUNC:
        return &AS(func, v)->attributes;
    default:
        return NULL;
    }
}

static int32_t key_at(const struct cls *c, const struct str *name)
{
    for (uint32_t i = 0; i < c->n_keys; i++)
        if (c->keys[i] == name)
            return (int32_t)i;
    return -1;
}

sv *instance_slot(struct script *s, struct script_object *o, struct cls *c, const struct str *name)
{
    int32_t at;
    struct entry *e;

    (void)s;
    if (o->dict) {
        e = dict_find_name(o->dict, name);
        return e ? &e->value : NULL;
    }
    at = o->h.aux ? key_at(c, name) : -1;
    return at >= 0 && at < o->h.aux && o->slots[at].tag != SV_NULL ? &o->slots[at] : NULL;
}

bool instances_may_hide(const struct cls *c, const struct str *name)
{
    return key_at(c, name) >= 0;
}

/* From slots to a dict: in the order of the slots. */
static struct dict *to_dict(struct script *s, struct script_object *o, const struct cls *c)
{
    struct dict *d = o->dict;

    if (d)
        return d;
    stirs(s, o);
    d = dict_make(s);
    if (!d)
        return NULL;
    for (uint32_t i = 0; i < o->h.aux; i++)
        if (o->slots[i].tag != SV_NULL) {
            if (!dict_put_name(s, d, c->keys[i], o->slots[i]))
                return NULL;
            sv_drop(s, o->slots[i]);
        }
    if (o->slots)
        heap_give(s, o->slots, o->h.aux * sizeof(sv));
    o->slots = NULL;
    o->h.aux = 0;
    o->dict = d;
    return d;
}

/* What instances have where is learned, and stays so: an order of names that says nothing of any object. */
static bool key_new(struct script *s, struct cls *c, struct str *name)
{
    if (c->n_keys == c->max_keys) {
        uint32_t max = c->max_keys ? c->max_keys * 2 : 8;
        struct str **keys = script_lasting(s, max * sizeof *keys);

        if (!keys)
            return false;
        if (c->n_keys)
            memcpy(keys, c->keys, c->n_keys * sizeof *keys);
        c->keys = keys;
        c->max_keys = max;
    }
    c->keys[c->n_keys++] = name;
    if (sv_ok(type_find(s, c, name)))
        c->version = ++s->next_version; /* an instance's may hide the class's from now on */
    return true;
}

bool instance_set(struct script *s, struct script_object *o, struct cls *c, struct str *name, sv value)
{
    sv *slot = instance_slot(s, o, c, name), old;
    int32_t at;

    stirs(s, o);
    if (!sv_ok(value)) {
        if (!slot)
            return false;
        if (o->dict)
            return dict_remove(s, o->dict, sv_forever(name), NULL) == 1;
        old = *slot;
        *slot = sv_null();
        sv_drop(s, old);
        return true;
    }
    if (slot) {
        old = *slot;
        *slot = sv_keep(value);
        sv_drop(s, old);
        return true;
    }
    if (!o->dict && !(c->flags & CLS_SHARED)) {
        at = key_at(c, name);
        if (at < 0 && c->n_keys < KEYS_MAX) {
            if (!key_new(s, c, name))
                return false;
            at = (int32_t)c->n_keys - 1;
        }
        if (at >= 0) {
            if (at >= o->h.aux) {
                uint32_t room = o->h.aux ? o->h.aux : 4;
                sv *slots;

                while (room <= (uint32_t)at || room < c->n_keys)
                    room *= 2;
                slots = heap_zero(s, room * sizeof(sv));
                if (!slots)
                    return false;
                if (o->slots) {
                    memcpy(slots, o->slots, o->h.aux * sizeof(sv));
                    heap_give(s, o->slots, o->h.aux * sizeof(sv));
                }
                o->slots = slots;
                o->h.aux = (uint16_t)room;
            }
            o->slots[at] = sv_keep(value);
            return true;
        }
    }
    return to_dict(s, o, c) && dict_put_name(s, o->dict, name, value);
}

sv dict_of(struct script *s, sv of)
{
    struct dict **at, *d;

    if (sv_is(of, KIND_INSTANCE)) {
        d = to_dict(s, (struct script_object *)(void *)of.o, of.o->cls);
        return d ? sv_keep(sv_counted(d)) : sv_null();
    }
    if (sv_is(of, KIND_MODULE))
        return sv_keep(sv_counted(AS(module, of)->dict));
    if (sv_is(of, KIND_CLASS)) /* a copy: the class's own is written by class_set() only */
        return dict_copy(s, AS(cls, of)->dict);
    at = sv_is_obj(of) ? attributes_of(of) : NULL;
    if (!at)
        return script_raise(s, EXC_AttributeError, "'%s' object has no attribute '__dict__'", class_of(s, of)->name->text);
    if (!*at) {
        stirs(s, of.o);
        *at = dict_make(s);
    }
    return *at ? sv_keep(sv_counted(*at)) : sv_null();
}

sv script_dict_of(struct script *s, sv of)
{
    return dict_of(s, of);
}

/* ---- descriptors */

static bool is_data_descriptor(struct script *s, sv v)
{
    if (!sv_is_obj(v))
        return false;
    if (v.o->kind == KIND_PROPERTY)
        return v.o->cls != s->w->types[B_CACHED];
    if (v.o->kind == KIND_MEMBER)
        return true;
    return v.o->kind == KIND_INSTANCE && cls_has(s, v.o->cls) & HAS_SET;
}

static sv cached_get(struct script *s, struct property *p, sv self)
{
    sv value = script_call(s, p->get, 1, &self);

    if (sv_ok(value) && !script_set_plain(s, self, p->name, value)) {
        sv_drop(s, value);
        return sv_null();
    }
    return value;
}

/* What a class has under a name, as seen through `self` (SV_NULL: through the class). */
sv descriptor_get(struct script *s, sv found, sv self, struct cls *of)
{
    if (!sv_is_obj(found))
        return sv_keep(found);
    switch (found.o->kind) {
    case KIND_FUNC:
        return sv_ok(self) ? method_new(s, found, self) : sv_keep(found);
    case KIND_NATIVE:
        if (AS(native, found)->owner && AS(native, found)->def->how == NATIVE_CLASS)
            return method_new(s, found, sv_forever(of));
        if (AS(native, found)->owner && AS(native, found)->def->how == NATIVE_PLAIN && sv_ok(self))
            return method_new(s, found, self);
        return sv_keep(found);
    case KIND_WRAP:
        return AS(wrap, found)->is_class ? method_new(s, AS(wrap, found)->function, sv_forever(of)) : sv_keep(AS(wrap, found)->function);
    case KIND_PROPERTY:
        if (!sv_ok(self))
            return sv_keep(found);
        if (found.o->cls == s->w->types[B_CACHED])
            return cached_get(s, AS(property, found), self);
        if (!sv_given(AS(property, found)->get))
            return script_raise(s, EXC_AttributeError, "property of '%s' object has no getter", of->name->text);
        return script_call(s, AS(property, found)->get, 1, &self);
    case KIND_MEMBER:
        return sv_ok(self) ? AS(member, found)->def->get(s, self, AS(member, found)->def->data) : sv_keep(found);
    case KIND_INSTANCE:
        if (cls_has(s, found.o->cls) & HAS_GET) {
            sv argv[2] = {sv_ok(self) ? self : sv_none(), sv_forever(of)};

            return special_call(s, found, SYM_get, 2, argv);
        }
        return sv_keep(found);
    default:
        return sv_keep(found);
    }
}

/* ---- finding: 0 and *ret, SCRIPT_ABSENT, -1 */

static int answer(struct script *s, sv v, sv *ret)
{
    *ret = v;
    return sv_ok(v) ? 0 : script_failed(s) ? -1 : SCRIPT_ABSENT;
}

static int absent_if(struct script *s, int found, enum script_exc what)
{
    if (found < 0 && script_caught(s, what)) {
        script_forgive(s);
        return SCRIPT_ABSENT;
    }
    return found;
}

/* object.__getattribute__ */
int attr_plain(struct script *s, sv of, struct str *name, sv *ret)
{
    struct cls *c = class_of(s, of);
    sv found = type_find(s, c, name);
    struct entry *e;
    struct dict **own;
    sv *slot;

    if (sv_ok(found) && is_data_descriptor(s, found))
        return answer(s, descriptor_get(s, found, of, c), ret);
    if (sv_is_obj(of)) {
        switch (of.o->kind) {
        case KIND_INSTANCE:
            slot = instance_slot(s, (struct script_object *)(void *)of.o, c, name);
            if (slot) {
                *ret = sv_keep(*slot);
                return 0;
            }
            if (name == s->sym[SYM_dict])
                return answer(s, dict_of(s, of), ret);
            break;
        case KIND_MODULE:
            e = dict_find_name(AS(module, of)->dict, name);
            if (e) {
                *ret = sv_keep(e->value);
                return 0;
            }
            if (name == s->sym[SYM_dict])
                return answer(s, dict_of(s, of), ret);
            break;
        default:
            own = attributes_of(of);
            e = own && *own ? dict_find_name(*own, name) : NULL;
            if (e) {
                *ret = sv_keep(e->value);
                return 0;
            }
            if (own && name == s->sym[SYM_dict])
                return answer(s, dict_of(s, of), ret);
        }
    }
    if (sv_ok(found))
        return answer(s, descriptor_get(s, found, of, c), ret);
    return SCRIPT_ABSENT;
}

static int module_find(struct script *s, sv of, struct str *name, sv *ret)
{
    struct entry *e = dict_find_name(AS(module, of)->dict, s->sym[SYM_getattr]);
    sv arg = sv_forever(name), f;
    int found;

    if (!e)
        return SCRIPT_ABSENT;
    f = sv_keep(e->value);
    found = answer(s, script_call(s, f, 1, &arg), ret);
    sv_drop(s, f);
    return absent_if(s, found, EXC_AttributeError);
}

int attr_find(struct script *s, sv of, struct str *name, sv *ret)
{
    struct cls *c;
    sv arg = sv_forever(name);
    int found;

    if (sv_is(of, KIND_CLASS)) {
        found = class_get(s, AS(cls, of), name, ret);
        if (found != SCRIPT_ABSENT || !sv_ok(AS(cls, of)->meta))
            return found;
    }
    if (sv_is(of, KIND_SUPER))
        return super_find(s, AS(super, of), name, ret);
    c = class_of(s, of);
    if (cls_has(s, c) & HAS_GETATTRIBUTE) {
        found = special(s, of, SYM_getattribute, 1, &arg, ret);
        found = absent_if(s, found == 1 ? 0 : found, EXC_AttributeError);
    } else
        found = attr_plain(s, of, name, ret);
    if (found < 0 && (cls_has(s, c) & HAS_GETATTR || (c->native && c->native->getattr))) /* a property that raises it counts as absent */
        found = absent_if(s, found, EXC_AttributeError);
    if (found != SCRIPT_ABSENT)
        return found;
    if (cls_has(s, c) & HAS_GETATTR) {
        if (!enter(s))
            return -1;
        found = special(s, of, SYM_getattr, 1, &arg, ret);
        leave(s);
        return found == 1 ? 0 : found;
    }
    if (c->native && c->native->getattr && sv_is(of, KIND_INSTANCE))
        return answer(s, c->native->getattr(s, of, arg), ret);
    if (sv_is(of, KIND_MODULE))
        return module_find(s, of, name, ret);
    return SCRIPT_ABSENT;
}

int script_find(struct script *s, sv of, sv name, sv *ret)
{
    struct str *n = name_of(s, name);
    int found = n ? attr_find(s, of, n, ret) : -1;

    return absent_if(s, found, EXC_AttributeError);
}

/* PyObject_GetAttr: the exception holds whose attribute was missed. */
static sv missed(struct script *s, sv of)
{
    struct exc *e = script_caught(s, EXC_AttributeError) ? AS(exc, s->exc) : NULL;

    if (e && !sv_ok(e->obj))
        e->obj = sv_keep(of);
    return sv_null();
}

static sv no_attribute(struct script *s, sv of, const struct str *name)
{
    if (sv_is(of, KIND_MODULE))
        return script_raise(s, EXC_AttributeError, "module '%.200s' has no attribute '%.200s'", AS(module, of)->name->text, name->text);
    if (sv_is(of, KIND_CLASS))
        return script_raise(s, EXC_AttributeError, "type object '%.200s' has no attribute '%.200s'", AS(cls, of)->name->text, name->text);
    if (sv_is(of, KIND_SUPER))
        return script_raise(s, EXC_AttributeError, "'super' object has no attribute '%.200s'", name->text);
    return script_raise(s, EXC_AttributeError, "'%.200s' object has no attribute '%.200s'", class_of(s, of)->name->text, name->text);
}

sv attr_error(struct script *s, sv of, const struct str *name)
{
    (void)no_attribute(s, of, name);
    return missed(s, of);
}

sv attr_get(struct script *s, sv of, struct str *name)
{
    sv v;
    int found = attr_find(s, of, name, &v);

    if (!found)
        return v;
    return found < 0 ? missed(s, of) : attr_error(s, of, name);
}

sv script_get(struct script *s, sv of, sv name)
{
    struct str *n = name_of(s, name);

    return n ? attr_get(s, of, n) : sv_null();
}

sv script_get_plain(struct script *s, sv of, sv name)
{
    struct str *n = name_of(s, name);
    sv v;
    int found = n ? sv_is(of, KIND_CLASS) || sv_is(of, KIND_SUPER) ? attr_find(s, of, n, &v) : attr_plain(s, of, n, &v) : -1;

    if (!found)
        return v;
    return found < 0 ? sv_null() : attr_error(s, of, n);
}

int script_find_plain(struct script *s, sv of, sv name, sv *ret)
{
    return attr_plain(s, of, AS(str, name), ret);
}

/* A method of a value without a bound method in between: the function, and *self (kept) to go first; or *self SV_NULL. */
sv method_find(struct script *s, sv of, struct str *name, sv *self)
{
    struct cls *c = class_of(s, of);
    sv found;
    bool plain;

    *self = sv_null();
    if (sv_is(of, KIND_CLASS) || sv_is(of, KIND_SUPER) || sv_is(of, KIND_MODULE) || cls_has(s, c) & HAS_GETATTRIBUTE)
        return attr_get(s, of, name);
    found = type_find(s, c, name);
    plain =
        sv_is(found, KIND_FUNC) || (sv_is(found, KIND_NATIVE) && AS(native, found)->owner && AS(native, found)->def->how == NATIVE_PLAIN);
    if (!plain)
        return attr_get(s, of, name);
    if (sv_is(of, KIND_INSTANCE) && instance_slot(s, (struct script_object *)(void *)of.o, c, name))
        return attr_get(s, of, name);
    if (sv_is_obj(of) && attributes_of(of) && *attributes_of(of) && dict_find_name(*attributes_of(of), name))
        return attr_get(s, of, name);
    *self = sv_keep(of);
    return sv_keep(found);
}

/* type(of).name(of, ..): 1 and *ret, 0: there is none, -1 */
int special(struct script *s, sv of, enum symbol name, uint32_t n, const sv *argv, sv *ret)
{
    struct cls *c = class_of(s, of);
    sv found = type_find(s, c, s->sym[name]), args[6];

    if (!sv_ok(found) || found.tag == SV_NONE)
        return 0;
    if (sv_is(found, KIND_FUNC) || (sv_is(found, KIND_NATIVE) && AS(native, found)->def->how == NATIVE_PLAIN)) {
        args[0] = of;
        for (uint32_t i = 0; i < n && i < 5; i++)
            args[i + 1] = argv[i];
        *ret = sv_call(s, found, args, n + 1, 0, NULL);
    } else {
        sv f = descriptor_get(s, found, of, c);

        *ret = sv_ok(f) ? sv_call(s, f, argv, n, 0, NULL) : sv_null();
        sv_drop(s, f);
    }
    return sv_ok(*ret) ? 1 : -1;
}

sv special_call(struct script *s, sv of, enum symbol name, uint32_t n, const sv *argv)
{
    sv r = sv_null();
    int found = special(s, of, name, n, argv, &r);

    if (!found)
        return script_raise(s, EXC_TypeError, "'%s' object has no method '%s'", class_of(s, of)->name->text, s->sym[name]->text);
    return found < 0 ? sv_null() : r;
}

/* ---- setting */

static bool descriptor_set(struct script *s, sv found, sv self, struct str *name, sv value)
{
    sv r = sv_null();

    if (found.o->kind == KIND_MEMBER) {
        const struct script_member *m = AS(member, found)->def;

        if (m->set)
            return m->set(s, self, value, m->data);
    } else if (found.o->kind == KIND_PROPERTY) {
        sv f = sv_ok(value) ? AS(property, found)->set : AS(property, found)->del, argv[2] = {self, value};

        if (sv_given(f)) {
            r = script_call(s, f, sv_ok(value) ? 2 : 1, argv);
            sv_drop(s, r);
            return sv_ok(r);
        }
        (void)script_raise(s, EXC_AttributeError, "property '%s' of '%s' object has no %s", name->text, class_of(s, self)->name->text,
                           sv_ok(value) ? "setter" : "deleter");
        return false;
    } else {
        sv argv[2] = {self, value};

        r = special_call(s, found, sv_ok(value) ? SYM_set : SYM_delete, sv_ok(value) ? 2 : 1, argv);
        sv_drop(s, r);
        return sv_ok(r);
    }
    (void)script_raise(s, EXC_AttributeError, "attribute '%s' of '%s' objects is not writable", name->text, class_of(s, self)->name->text);
    return false;
}

/* object.__setattr__ */
static bool set_plain(struct script *s, sv of, struct str *name, sv value)
{
    struct cls *c = class_of(s, of);
    sv found = type_find(s, c, name);
    struct dict **own;

    if (sv_ok(found) && is_data_descriptor(s, found))
        return descriptor_set(s, found, of, name, value);
    if (sv_is(of, KIND_INSTANCE)) {
        if (name == s->sym[SYM_class] && sv_as_class(value)) {
            (void)script_leave(s, "an assignment to __class__");
            return false;
        }
        if (instance_set(s, (struct script_object *)(void *)of.o, c, name, value))
            return true;
        if (!script_failed(s))
            (void)no_attribute(s, of, name);
        return false;
    }
    if (sv_is(of, KIND_MODULE)) {
        if (sv_ok(value))
            return dict_put_name(s, AS(module, of)->dict, name, value);
        if (dict_remove(s, AS(module, of)->dict, sv_forever(name), NULL) == 1)
            return true;
        (void)no_attribute(s, of, name);
        return false;
    }
    own = sv_is_obj(of) ? attributes_of(of) : NULL;
    if (own && sv_ok(value)) {
        if (!*own) {
            stirs(s, of.o);
            *own = dict_make(s);
        }
        return *own && dict_put_name(s, *own, name, value);
    }
    if (own && *own && dict_remove(s, *own, sv_forever(name), NULL) == 1)
        return true;
    (void)no_attribute(s, of, name);
    return false;
}

bool attr_set(struct script *s, sv of, struct str *name, sv value)
{
    struct cls *c;
    sv argv[2] = {sv_forever(name), value}, r;
    uint32_t has;

    if (sv_is(of, KIND_CLASS))
        return class_set(s, AS(cls, of), name, value);
    c = class_of(s, of);
    has = cls_has(s, c);
    if (has & (sv_ok(value) ? HAS_SETATTR : HAS_DELATTR)) {
        r = special_call(s, of, sv_ok(value) ? SYM_setattr : SYM_delattr, sv_ok(value) ? 2 : 1, argv);
        sv_drop(s, r);
        return sv_ok(r);
    }
    return script_set_plain(s, of, argv[0], value);
}

bool script_set(struct script *s, sv of, sv name, sv value)
{
    struct str *n = name_of(s, name);

    return n && attr_set(s, of, n, value);
}

bool script_store(struct script *s, sv of, sv name, sv value)
{
    return instance_set(s, (struct script_object *)(void *)of.o, of.o->cls, AS(str, name), value);
}

bool script_set_plain(struct script *s, sv of, sv name, sv value)
{
    struct str *n = name_of(s, name);
    struct cls *c = class_of(s, of);

    if (!n)
        return false;
    if (sv_is(of, KIND_CLASS))
        return class_set(s, AS(cls, of), n, value);
    if (c->native && c->native->setattr && sv_is(of, KIND_INSTANCE) && (sv_is(value, KIND_INSTANCE) || !sv_ok(value))) {
        int done = c->native->setattr(s, of, sv_forever(n), value);

        if (done)
            return done > 0;
    }
    return set_plain(s, of, n, value);
}
