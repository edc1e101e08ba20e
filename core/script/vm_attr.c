/* Attributes at a site: what its cache remembers of a class, a module or a slot. */
#include "script/vm.h"

static bool plain_value(sv v)
{
    if (!sv_is_obj(v))
        return true;
    switch (v.o->kind) {
    case KIND_FUNC:
    case KIND_NATIVE:
    case KIND_WRAP:
    case KIND_PROPERTY:
    case KIND_MEMBER:
    case KIND_INSTANCE:
        return false;
    default:
        return true;
    }
}

static void note_attr(struct script *s, struct cache *k, sv of)
{
    struct cls *c = of.o->cls;
    struct script_object *o = (struct script_object *)(void *)of.o;
    sv found;

    k->version = k->index = 0;
    if (cls_has(s, c) & HAS_GETATTRIBUTE)
        return;
    found = type_find(s, c, k->name);
    if (sv_is(found, KIND_MEMBER)) {
        k->value = found;
        k->index = CACHE_MEMBER;
        k->version = c->version;
    } else if (o->dict && !(sv_ok(found) && !plain_value(found))) { /* as long as neither the dict's layout changes nor the class */
        struct entry *e = dict_find_name(o->dict, k->name);

        if (e) {
            k->version = o->dict->version;
            k->index = c->version;
            k->entry = e;
        }
    } else if (o->dict || (sv_ok(found) && !plain_value(found) && (found.o->kind == KIND_PROPERTY || found.o->kind == KIND_INSTANCE))) {
        return;
    } else {
        sv *slot = instance_slot(s, o, c, k->name);

        if (slot) {
            k->index = (uint32_t)(slot - o->slots);
            k->version = c->version;
        } else if (instances_may_hide(c, k->name)) {
            return;
        } else if (sv_ok(found) && (plain_value(found) || sv_is(found, KIND_FUNC))) {
            k->value = found;
            k->index = sv_is(found, KIND_FUNC) ? CACHE_BOUND : CACHE_CLASS;
            k->version = c->version;
        } else if (sv_is(found, KIND_WRAP) && !AS(wrap, found)->is_class) {
            k->value = AS(wrap, found)->function;
            k->index = CACHE_STATIC;
            k->version = c->version;
        }
    }
}

sv vm_attr(struct script *s, struct cache *k, sv of)
{
    sv r;

    if (sv_is(of, KIND_INSTANCE)) {
        const struct dict *own = ((struct script_object *)(void *)of.o)->dict;

        if (own && own->n && own->version == k->version && k->index == of.o->cls->version)
            return sv_keep(k->entry->value);
        if (of.o->cls->version == k->version) {
            if (k->index == CACHE_MEMBER) {
                const struct script_member *m = AS(member, k->value)->def;

                r = m->get(s, of, m->data);
                if (sv_ok(r) || script_failed(s))
                    return r;
            } else if (k->index >= CACHE_CLASS && !((struct script_object *)(void *)of.o)->dict)
                return k->index == CACHE_BOUND ? method_new(s, k->value, of) : sv_keep(k->value);
        } else
            note_attr(s, k, of);
    } else if (sv_is(of, KIND_MODULE)) {
        const struct dict *d = AS(module, of)->dict;
        struct entry *e;

        if (d->version == k->version)
            return sv_keep(k->entry->value);
        e = dict_find_name(d, k->name);
        if (e) {
            k->version = d->version;
            k->entry = e;
            return sv_keep(e->value);
        }
    }
    return attr_get(s, of, k->name);
}

/* Where instances of the class have the attribute, when nothing but the native class looks at what is set. */
static void note_set(struct script *s, struct cache *k, sv of)
{
    const struct script_object *o = (struct script_object *)(void *)of.o;
    struct cls *c = of.o->cls;
    sv found, *slot;

    k->version = 0;
    if (o->dict || cls_has(s, c) & HAS_SETATTR)
        return;
    found = type_find(s, c, k->name);
    slot = sv_ok(found) && !plain_value(found) ? NULL : instance_slot(s, (struct script_object *)(void *)of.o, c, k->name);
    if (slot) {
        k->index = (uint32_t)(slot - o->slots);
        k->version = c->version;
    }
}

bool vm_set_attr(struct script *s, struct cache *k, sv of, sv value)
{
    struct script_object *o;
    struct cls *c;

    if (!sv_is(of, KIND_INSTANCE))
        return attr_set(s, of, k->name, value);
    o = (struct script_object *)(void *)of.o;
    c = of.o->cls;
    if (c->version != k->version || o->dict) {
        bool ok = attr_set(s, of, k->name, value);

        if (ok)
            note_set(s, k, of);
        return ok;
    }
    if (sv_is(value, KIND_INSTANCE) && c->native && c->native->setattr) {
        int done = c->native->setattr(s, of, sv_forever(k->name), value);

        if (done)
            return done > 0;
    }
    if (k->index < o->h.aux) {
        sv old = o->slots[k->index];

        stirs(s, o);
        o->slots[k->index] = sv_keep(value);
        sv_drop(s, old);
        return true;
    }
    return instance_set(s, o, c, k->name, value);
}

sv vm_super_method(struct script *s, sv of, struct str *name, sv *self)
{
    struct super *u = AS(super, of);
    bool of_class = sv_is(u->self, KIND_CLASS) && AS(cls, u->self) == u->type;
    uint32_t i = 0;

    *self = sv_null();
    while (i < u->type->n_mro && u->type->mro[i] != u->after)
        i++;
    for (i++; i < u->type->n_mro && !of_class; i++) {
        struct entry *e = dict_find_name(u->type->mro[i]->dict, name);

        if (!e)
            continue;
        if (sv_is(e->value, KIND_FUNC) ||
            (sv_is(e->value, KIND_NATIVE) && AS(native, e->value)->owner && AS(native, e->value)->def->how == NATIVE_PLAIN)) {
            *self = sv_keep(u->self);
            return sv_keep(e->value);
        }
        break;
    }
    return attr_get(s, of, name);
}

bool vm_method(struct script *s, struct cache *k, sv *stack)
{
    sv of = stack[0], self, f;
    struct cls *c;

    if (sv_is(of, KIND_MODULE)) {
        f = vm_attr(s, k, of);
        if (!sv_ok(f))
            return false;
        stack[0] = sv_null();
        stack[1] = f;
        sv_drop(s, of);
        return true;
    }
    if (sv_is(of, KIND_SUPER)) {
        f = vm_super_method(s, of, k->name, &self);
    } else {
        c = class_of(s, of);
        if (c->version == k->version && k->index == CACHE_CLASS && sv_is_obj(of) && of.o->kind != KIND_INSTANCE &&
            of.o->kind != KIND_CLASS) {
            struct dict **own = attributes_of(of);

            if (!own || !*own) {
                stack[0] = sv_keep(k->value);
                stack[1] = of;
                return true;
            }
        }
        if (c->version == k->version && k->index == CACHE_STATIC && sv_is(of, KIND_INSTANCE) &&
            !((struct script_object *)(void *)of.o)->dict) {
            stack[0] = sv_null();
            stack[1] = sv_keep(k->value);
            sv_drop(s, of);
            return true;
        }
        f = method_find(s, of, k->name, &self);
        if (sv_ok(f) && !sv_ok(self) && sv_is(of, KIND_INSTANCE)) {
            note_attr(s, k, of);
            if (k->index >= CACHE_SLOTS && k->index != CACHE_STATIC)
                k->version = 0;
        }
        if (sv_ok(self) && !sv_is(of, KIND_CLASS) &&
            !(sv_is(of, KIND_INSTANCE) && (((struct script_object *)(void *)of.o)->dict || instances_may_hide(c, k->name)))) {
            k->version = c->version;
            k->index = CACHE_CLASS;
            k->value = f;
        }
    }
    if (!sv_ok(f))
        return false;
    if (sv_ok(self)) {
        stack[0] = f;
        stack[1] = self;
    } else {
        stack[0] = sv_null();
        stack[1] = f;
    }
    sv_drop(s, of);
    return true;
}
