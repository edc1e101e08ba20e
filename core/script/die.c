/* Deaths: what nobody holds any more lets go of what it held, in CPython's order. */
#include "script/object.h"

enum { DIE_DEPTH = 1000 }; /* nested deeper, the rest waits its turn */

static void release(struct script *s, struct obj *o);

static void drop_dict(struct script *s, struct dict *d)
{
    if (d)
        sv_drop(s, sv_counted(d));
}

static void drop_items(struct script *s, sv *items, uint32_t n)
{
    while (n-- > 0)
        sv_drop(s, items[n]);
}

/* __del__: the object is alive while it runs. False: somebody holds it now. */
static bool finalize(struct script *s, struct obj *o)
{
    sv self = sv_counted(o), exc = s->exc, r;

    s->exc = sv_null();
    o->refs = 1;
    r = special_call(s, self, SYM_del, 0, NULL);
    sv_drop(s, r);
    if (!s->over) {
        script_forgive(s);
        s->exc = exc;
    }
    return --o->refs == 0;
}

static void release_instance(struct script *s, struct obj *o)
{
    struct script_object *x = (struct script_object *)(void *)o;
    struct cls *c = o->cls;
    sv *slots = x->slots;
    uint32_t n = o->aux;

    if (c->native && c->native->die)
        c->native->die(s, o);
    x->slots = NULL;
    o->aux = 0;
    if (c->flags & CLS_EXCEPTION)
        sv_drop(s, ((struct exc *)(void *)o)->obj);
    for (uint32_t i = 0; i < n; i++)
        sv_drop(s, slots[i]);
    if (slots)
        heap_give(s, slots, n * sizeof(sv));
    drop_dict(s, x->dict);
    if (c->flags & CLS_BOXED)
        sv_drop(s, ((struct boxed *)(void *)o)->value);
    if (c->flags & CLS_EXCEPTION) {
        struct exc *e = (struct exc *)(void *)o;

        sv_drop(s, e->args);
        sv_drop(s, e->trace);
        sv_drop(s, e->cause);
        sv_drop(s, e->context);
    }
    heap_give(s, o, c->bytes);
}

static void release_list(struct script *s, struct list *l)
{
    sv *items = l->items;
    uint32_t n = l->n, cap = l->cap;

    l->n = l->cap = 0;
    drop_items(s, items, n);
    if (cap)
        heap_give(s, items, cap * sizeof(sv));
    drop_dict(s, l->attributes);
    heap_give(s, l, sizeof *l);
}

static void release_func(struct script *s, struct func *f)
{
    sv_drop(s, f->name);
    sv_drop(s, f->qualname);
    sv_drop(s, f->defaults);
    sv_drop(s, f->kwdefaults);
    drop_dict(s, f->attributes);
    sv_drop(s, f->closure);
    heap_give(s, f, sizeof *f);
}

static void release(struct script *s, struct obj *o)
{
    sv v = sv_counted(o);

    switch (o->kind) {
    case KIND_STR:
        heap_give(s, o, sizeof(struct str) + AS(str, v)->bytes + 1);
        break;
    case KIND_TUPLE:
        drop_items(s, AS(tuple, v)->items, AS(tuple, v)->n);
        heap_give(s, o, sizeof(struct tuple) + AS(tuple, v)->n * sizeof(sv));
        break;
    case KIND_LIST:
        release_list(s, AS(list, v));
        break;
    case KIND_DICT:
    case KIND_SET:
        dict_release(s, AS(dict, v));
        drop_dict(s, AS(dict, v)->attributes);
        heap_give(s, o, sizeof(struct dict));
        break;
    case KIND_INSTANCE:
        release_instance(s, o);
        break;
    case KIND_FUNC:
        release_func(s, AS(func, v));
        break;
    case KIND_NATIVE:
        sv_drop(s, AS(native, v)->self);
        heap_give(s, o, sizeof(struct native));
        break;
    case KIND_METHOD: {
        struct method *m = AS(method, v);

        sv_drop(s, m->function);
        sv_drop(s, m->self);
        heap_give(s, o, sizeof *m);
        break;
    }
    case KIND_CELL:
        sv_drop(s, AS(cell, v)->value);
        heap_give(s, o, sizeof(struct cell));
        break;
    case KIND_GEN:
        gen_die(s, AS(gen, v));
        heap_give(s, o, sizeof(struct gen));
        break;
    case KIND_RANGE:
        heap_give(s, o, sizeof(struct range));
        break;
    case KIND_SLICE:
        sv_drop(s, AS(slice, v)->step);
        sv_drop(s, AS(slice, v)->start);
        sv_drop(s, AS(slice, v)->stop);
        heap_give(s, o, sizeof(struct slice));
        break;
    case KIND_ITER: {
        struct iter *it = AS(iter, v);

        if (o->aux == ITER_ZIP || o->aux == ITER_ENUMERATE || o->aux == ITER_MAP) {
            sv_drop(s, it->of);
            sv_drop(s, it->other);
        } else {
            sv_drop(s, it->other);
            sv_drop(s, it->of);
        }
        heap_give(s, o, sizeof *it);
        break;
    }
    case KIND_SUPER:
        sv_drop(s, AS(super, v)->self);
        heap_give(s, o, sizeof(struct super));
        break;
    case KIND_PROPERTY:
        sv_drop(s, AS(property, v)->get);
        sv_drop(s, AS(property, v)->set);
        sv_drop(s, AS(property, v)->del);
        heap_give(s, o, sizeof(struct property));
        break;
    case KIND_WRAP:
        sv_drop(s, AS(wrap, v)->function);
        heap_give(s, o, sizeof(struct wrap));
        break;
    case KIND_TRACE:
        sv_drop(s, AS(trace, v)->next);
        sv_drop(s, AS(trace, v)->frame);
        heap_give(s, o, sizeof(struct trace));
        break;
    case KIND_FRAME:
        frame_obj_die(s, AS(frame_obj, v));
        heap_give(s, o, sizeof(struct frame_obj));
        break;
    case KIND_VIEW:
        sv_drop(s, AS(view, v)->dict);
        heap_give(s, o, sizeof(struct view));
        break;
    case KIND_ALIAS:
        sv_drop(s, AS(alias, v)->origin);
        sv_drop(s, AS(alias, v)->args);
        heap_give(s, o, sizeof(struct alias));
        break;
    default:
        break;
    }
}

/* Nested too deeply: its turn comes. */
static void defer(struct script *s, struct obj *o)
{
    if (s->n_dying == s->max_dying) {
        uint32_t max = s->max_dying * 2 + 64;
        struct obj **more = heap_take(s, max * sizeof *more);

        if (!more)
            return;
        if (s->n_dying) {
            memcpy(more, s->dying, s->n_dying * sizeof *more);
            heap_give(s, s->dying, s->max_dying * sizeof *more);
        }
        s->dying = more;
        s->max_dying = max;
    }
    s->dying[s->n_dying++] = o;
}

static void release_deferred(struct script *s)
{
    while (s->n_dying) {
        s->die_depth++;
        release(s, s->dying[--s->n_dying]);
        s->die_depth--;
    }
}

void script_die(struct script *s, struct obj *o)
{
    if (s->over) /* its memory goes as a whole */
        return;
    if (lies_still(s, o) && !s->stirred) { /* what has been put back since may hold it, uncounted */
        o->refs = UINT32_MAX / 2;
        return;
    }
    if (o->kind == KIND_INSTANCE && o->cls->flags == CLS_SHARED && !((struct script_object *)(void *)o)->slots &&
        !((struct script_object *)(void *)o)->dict) { /* a tensor, most of the time: nothing dies with it that lies in the language */
        const struct script_class *native = o->cls->native;

        if (native && native->die)
            native->die(s, o);
        heap_give(s, o, o->cls->bytes);
        return;
    }
    if (o->cls && o->kind != KIND_CLASS && o->kind <= KIND_INSTANCE && cls_has(s, o->cls) & HAS_DEL && !finalize(s, o))
        return;
    if (s->die_depth >= DIE_DEPTH) {
        defer(s, o);
        return;
    }
    s->die_depth++;
    release(s, o);
    if (!--s->die_depth && s->n_dying)
        release_deferred(s);
}
