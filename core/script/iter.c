/* Iterators. zip, enumerate and items() use their tuple again when nobody else holds it, as CPython's do: it keeps what it held. */
#include "script/object.h"

sv iter_new(struct script *s, enum iter_kind kind, sv of)
{
    struct iter *it = obj_new(s, sizeof *it, KIND_ITER);

    if (!it)
        return sv_null();
    it->h.aux = (uint16_t)kind;
    it->of = sv_keep(of);
    it->other = sv_null();
    it->at = it->stop = 0;
    it->step = 1;
    return sv_counted(it);
}

static sv iter_instance(struct script *s, sv v)
{
    struct cls *c = class_of(s, v);
    sv r, f = type_find(s, c, s->sym[SYM_iter]);

    if (f.tag == SV_NONE)
        return raise_type(s, "iterable", v);
    if (sv_ok(f) && !(sv_is(f, KIND_NATIVE) && c->flags & CLS_SHARED && c->native && c->native->iter)) {
        r = special_call(s, v, SYM_iter, 0, NULL);
        if (sv_ok(r) && sv_is(r, KIND_INSTANCE) && !sv_ok(type_find(s, r.o->cls, s->sym[SYM_next])) &&
            !(r.o->cls->native && r.o->cls->native->next)) {
            sv_drop(s, r);
            return script_raise(s, EXC_TypeError, "iter() returned non-iterator");
        }
        return r;
    }
    if (c->native && c->native->iter)
        return c->native->iter(s, v);
    if (c->native && c->native->next)
        return sv_keep(v);
    if (c->flags & CLS_BOXED)
        return iter_of(s, AS(boxed, v)->value);
    if (sv_ok(type_find(s, c, s->sym[SYM_getitem])) || (c->native && c->native->getitem && c->native->len))
        return iter_new(s, ITER_GETITEM, v);
    return raise_type(s, "iterable", v);
}

sv iter_of(struct script *s, sv v)
{
    sv it;

    if (!sv_is_obj(v))
        return raise_type(s, "iterable", v);
    if (v.o->cls && v.o->kind != KIND_INSTANCE && v.o->kind != KIND_CLASS && cls_has(s, v.o->cls) & HAS_ITER)
        return special_call(s, v, SYM_iter, 0, NULL);
    switch (v.o->kind) {
    case KIND_LIST:
    case KIND_TUPLE:
        return iter_new(s, ITER_SEQ, v);
    case KIND_STR:
        return iter_new(s, ITER_STR, v);
    case KIND_DICT:
    case KIND_SET:
        it = iter_new(s, ITER_KEYS, v);
        if (sv_ok(it))
            AS(iter, it)->stop = dict_ptr(v)->n;
        return it;
    case KIND_VIEW:
        it = iter_new(s, (enum iter_kind)v.o->aux, AS(view, v)->dict);
        if (sv_ok(it))
            AS(iter, it)->stop = dict_ptr(AS(view, v)->dict)->n;
        return it;
    case KIND_RANGE:
        it = iter_new(s, ITER_RANGE, sv_none());
        if (sv_ok(it)) {
            AS(iter, it)->at = AS(range, v)->start;
            AS(iter, it)->stop = AS(range, v)->stop;
            AS(iter, it)->step = AS(range, v)->step;
        }
        return it;
    case KIND_GEN:
    case KIND_ITER:
        return sv_keep(v);
    case KIND_INSTANCE:
        return iter_instance(s, v);
    case KIND_CLASS:
        if (sv_ok(AS(cls, v)->meta) && sv_ok(type_find(s, AS(cls, AS(cls, v)->meta), s->sym[SYM_iter])))
            return special_call(s, v, SYM_iter, 0, NULL);
        return raise_type(s, "iterable", v);
    default:
        return raise_type(s, "iterable", v);
    }
}

sv script_iter(struct script *s, sv v)
{
    return iter_of(s, v);
}

static sv ended(struct script *s, struct iter *it)
{
    sv of = it->of;

    it->of = sv_null();
    sv_drop(s, of);
    return sv_null();
}

/* (a, b): the tuple of the last time, when only the iterator holds it. Takes both. */
static sv pair(struct script *s, struct iter *it, sv a, sv b)
{
    sv items[2] = {a, b}, t;

    if (sv_ok(it->other) && it->other.o->refs == 1) {
        struct tuple *last = AS(tuple, it->other);
        sv old_a = last->items[0], old_b = last->items[1];

        t = sv_keep(it->other);
        last->items[0] = a;
        last->items[1] = b;
        sv_drop(s, old_a);
        sv_drop(s, old_b);
        return t;
    }
    t = tuple_take(s, 2, items);
    if (sv_ok(t) && !sv_ok(it->other))
        it->other = sv_keep(t);
    return t;
}

/* The result exists with None in it before the first turn: so it is used from the first on. */
static void prepare(struct script *s, struct iter *it, uint32_t n)
{
    sv none[SCRIPT_PARAMETERS];

    for (uint32_t i = 0; i < n; i++)
        none[i] = sv_none();
    it->other = tuple_take(s, n, none);
}

static sv next_dict(struct script *s, struct iter *it)
{
    const struct dict *d = dict_ptr(it->of);
    const struct entry *e;
    int64_t from = it->at;

    if (it->stop != d->n) {
        it->stop = -1;
        return script_raise(s, EXC_RuntimeError, "%s changed size during iteration", d->h.kind == KIND_SET ? "Set" : "dictionary");
    }
    while (it->at < d->used && d->entries[it->at].key.tag == SV_NULL)
        it->at++;
    if (!pay_items(s, (uint64_t)(it->at - from)))
        return sv_null();
    if (it->at >= d->used)
        return ended(s, it);
    e = &d->entries[it->at++];
    if (it->h.aux == ITER_KEYS)
        return sv_keep(e->key);
    if (it->h.aux == ITER_VALUES)
        return sv_keep(e->value);
    if (!sv_ok(it->other))
        prepare(s, it, 2);
    return pair(s, it, sv_keep(e->key), sv_keep(e->value));
}

static sv next_zip(struct script *s, struct iter *it)
{
    const struct tuple *iters = AS(tuple, it->of);
    sv t, item;
    bool again;

    if (!iters->n)
        return sv_null();
    if (!sv_ok(it->other)) {
        if (iters->n > SCRIPT_PARAMETERS)
            return script_leave(s, "zip() of more than %d", SCRIPT_PARAMETERS);
        prepare(s, it, iters->n);
        if (!sv_ok(it->other))
            return sv_null();
    }
    again = it->other.o->refs == 1;
    if (again) {
        t = sv_keep(it->other);
    } else {
        sv none[SCRIPT_PARAMETERS];

        for (uint32_t i = 0; i < iters->n; i++)
            none[i] = sv_none();
        t = tuple_take(s, iters->n, none);
        if (!sv_ok(t))
            return t;
    }
    for (uint32_t i = 0; i < iters->n; i++) {
        sv old;

        item = iter_next(s, iters->items[i]);
        if (!sv_ok(item)) {
            sv_drop(s, t);
            if (it->step == 2 && !script_failed(s) && i) /* strict */
                return script_raise(s, EXC_ValueError, "zip() argument %u is shorter than argument%s", i + 1, i > 1 ? "s" : " 1");
            if (it->step == 2 && !script_failed(s))
                for (uint32_t k = 1; k < iters->n; k++) {
                    item = iter_next(s, iters->items[k]);
                    if (sv_ok(item)) {
                        sv_drop(s, item);
                        return script_raise(s, EXC_ValueError, "zip() argument %u is longer than argument%s", k + 1, k > 1 ? "s" : " 1");
                    }
                }
            return sv_null();
        }
        old = AS(tuple, t)->items[i];
        AS(tuple, t)->items[i] = item;
        sv_drop(s, old);
    }
    return t;
}

static sv next_map(struct script *s, struct iter *it)
{
    const struct tuple *iters = AS(tuple, it->of);
    sv argv[SCRIPT_PARAMETERS] = {{.tag = SV_NULL}}, r;
    uint32_t n = 0;

    if (iters->n > SCRIPT_PARAMETERS)
        return script_leave(s, "map() of more than %d", SCRIPT_PARAMETERS);
    for (; n < iters->n; n++) {
        argv[n] = iter_next(s, iters->items[n]);
        if (!sv_ok(argv[n]))
            break;
    }
    r = n == iters->n ? script_call(s, it->other, n, argv) : sv_null();
    for (uint32_t i = 0; i < n; i++)
        sv_drop(s, argv[i]);
    return r;
}

static sv next_filter(struct script *s, struct iter *it)
{
    sv item, r;
    int yes;

    while (sv_ok(item = iter_next(s, it->of))) {
        if (it->other.tag == SV_NONE) {
            yes = script_truth(s, item);
        } else {
            r = script_call(s, it->other, 1, &item);
            yes = sv_ok(r) ? script_truth(s, r) : -1;
            sv_drop(s, r);
        }
        if (yes > 0)
            return item;
        sv_drop(s, item);
        if (yes < 0)
            break;
    }
    return sv_null();
}

static sv next_getitem(struct script *s, struct iter *it)
{
    sv r = script_getitem(s, it->of, sv_int(it->at));

    if (sv_ok(r)) {
        it->at++;
        return r;
    }
    if (script_caught(s, EXC_IndexError) || script_caught(s, EXC_StopIteration)) {
        script_forgive(s);
        return ended(s, it);
    }
    return r;
}

static sv next_iter(struct script *s, struct iter *it)
{
    uint32_t n;
    const sv *items;
    sv item;

    if (!sv_ok(it->of))
        return sv_null();
    stirs(s, it);
    switch (it->h.aux) {
    case ITER_SEQ:
        items = seq_items(it->of, &n);
        return it->at < n ? sv_keep(items[it->at++]) : ended(s, it);
    case ITER_RANGE:
        if (it->step > 0 ? it->at >= it->stop : it->at <= it->stop)
            return sv_null();
        item = sv_int(it->at);
        if (__builtin_add_overflow(it->at, it->step, &it->at))
            it->stop = it->at = 0;
        return item;
    case ITER_STR: {
        const struct str *t = AS(str, it->of);
        int64_t from = it->at;

        if (from >= t->bytes)
            return ended(s, it);
        do
            it->at++;
        while (it->at < t->bytes && ((unsigned char)t->text[it->at] & 0xC0) == 0x80);
        return str_new(s, t->text + from, (size_t)(it->at - from));
    }
    case ITER_KEYS:
    case ITER_VALUES:
    case ITER_ITEMS:
        return next_dict(s, it);
    case ITER_ENUMERATE:
        item = iter_next(s, it->of);
        if (!sv_ok(item))
            return item;
        if (!sv_ok(it->other))
            prepare(s, it, 2);
        return pair(s, it, sv_int(it->at++), item);
    case ITER_ZIP:
        return next_zip(s, it);
    case ITER_MAP:
        return next_map(s, it);
    case ITER_FILTER:
        return next_filter(s, it);
    case ITER_REVERSED:
        if (sv_is(it->of, KIND_LIST) || sv_is(it->of, KIND_TUPLE)) {
            items = seq_items(it->of, &n);
            if (it->at >= 0 && it->at < n)
                return sv_keep(items[it->at--]);
            return ended(s, it);
        }
        if (it->at < 0)
            return ended(s, it);
        return script_getitem(s, it->of, sv_int(it->at--));
    case ITER_REVERSED_KEYS: {
        const struct dict *d = dict_ptr(it->of);
        int64_t from = it->at;

        while (it->at >= 0 && it->at < d->used && d->entries[it->at].key.tag == SV_NULL)
            it->at--;
        if (!pay_items(s, (uint64_t)(from - it->at)))
            return sv_null();
        if (it->at < 0 || it->at >= d->used)
            return ended(s, it);
        if (it->step == ITER_VALUES)
            return sv_keep(d->entries[it->at--].value);
        if (it->step == ITER_ITEMS) {
            sv two[2] = {d->entries[it->at].key, d->entries[it->at].value};

            it->at--;
            return tuple_new(s, 2, two);
        }
        return sv_keep(d->entries[it->at--].key);
    }
    case ITER_GETITEM:
        return next_getitem(s, it);
    default:
        item = script_call(s, it->of, 0, NULL);
        if (sv_ok(item)) {
            int same = script_equal(s, item, it->other);

            if (!same)
                return item;
            sv_drop(s, item);
            if (same > 0)
                return ended(s, it);
        }
        return sv_null();
    }
}

sv iter_next(struct script *s, sv it)
{
    sv r, returned;

    if (sv_is(it, KIND_ITER)) {
        if (it.o->aux >= ITER_ENUMERATE) { /* within each other */
            if (--s->steps < 0 && !script_charge(s, 0))
                return sv_null();
            if (!enter(s))
                return sv_null();
            r = next_iter(s, AS(iter, it));
            leave(s);
            return r;
        }
        return next_iter(s, AS(iter, it));
    }
    if (sv_is(it, KIND_GEN)) {
        r = gen_send(s, AS(gen, it), sv_none(), sv_null(), &returned);
        sv_drop(s, returned);
        return r;
    }
    if (sv_is(it, KIND_INSTANCE) && it.o->cls->native && it.o->cls->native->next && !(cls_has(s, it.o->cls) & HAS_NEXT))
        return it.o->cls->native->next(s, it);
    r = sv_null();
    switch (sv_is_obj(it) ? special(s, it, SYM_next, 0, NULL, &r) : 0) {
    case 1:
        return r;
    case 0:
        return raise_type(s, "an iterator", it);
    default:
        if (script_caught(s, EXC_StopIteration))
            script_forgive(s);
        return sv_null();
    }
}

sv script_next(struct script *s, sv iter)
{
    return script_charge(s, 1) ? iter_next(s, iter) : sv_null();
}
