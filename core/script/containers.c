/* Methods of list, tuple, dict and its views, range, slice. */
#include "script/object.h"

#define PLAIN 0, NATIVE_PLAIN
#define END                               \
    {                                     \
        NULL, NULL, NULL, 0, NATIVE_PLAIN \
    }

static sv done(bool ok)
{
    return ok ? sv_none() : sv_null();
}

/* object's dunder of the same meaning, for super().__getitem__(..) */
static sv getitem_plain(struct script *s, const struct script_args *a)
{
    sv of = a->v[0], r, e;
    struct cls *c = of.o->cls;
    struct entry *found;
    int there;

    if (sv_is(of, KIND_DICT)) {
        there = dict_find(s, dict_ptr(of), a->v[1], &found);
        if (there < 0)
            return sv_null();
        if (there)
            return sv_keep(found->value);
        r = tuple_new(s, 1, &a->v[1]);
        e = sv_ok(r) ? exc_new(s, s->w->exceptions[EXC_KeyError], r) : r;
        sv_drop(s, r);
        if (sv_ok(e))
            exc_set(s, e);
        return sv_null();
    }
    if (as_tuple(of)) {
        of = sv_keep(sv_is(of, KIND_TUPLE) ? of : AS(boxed, of)->value);
        r = script_getitem(s, of, a->v[1]);
        sv_drop(s, of);
        return r;
    }
    of.o->cls = NULL;
    r = script_getitem(s, of, a->v[1]);
    of.o->cls = c;
    return r;
}

static sv setitem_plain(struct script *s, const struct script_args *a)
{
    sv of = a->v[0];
    struct cls *c = of.o->cls;
    bool ok;

    if (sv_is(of, KIND_DICT) && sv_ok(a->v[2]))
        return done(dict_put(s, dict_ptr(of), a->v[1], a->v[2]));
    of.o->cls = NULL;
    ok = script_setitem(s, of, a->v[1], a->v[2]);
    of.o->cls = c;
    return done(ok);
}

static sv len_plain(struct script *s, const struct script_args *a)
{
    sv v = a->v[0];

    (void)s;
    if (sv_is(v, KIND_LIST))
        return sv_int(AS(list, v)->n);
    if (as_tuple(v))
        return sv_int(as_tuple(v)->n);
    if (as_str(v))
        return sv_int(str_length(as_str(v)));
    return sv_int(dict_ptr(v)->n);
}

static sv contains_plain(struct script *s, const struct script_args *a)
{
    struct entry *e;
    int there;

    if (as_dict(a->v[0]))
        there = dict_find(s, dict_ptr(a->v[0]), a->v[1], &e);
    else {
        sv copy = as_tuple(a->v[0]) ? sv_keep(sv_counted(as_tuple(a->v[0]))) : sv_keep(a->v[0]);
        uint32_t n;
        const sv *items = seq_items(copy, &n);

        there = 0;
        for (uint32_t i = 0; !there && i < n; i++)
            there = !script_charge(s, i % 8 == 7) ? -1 : script_equal(s, items[i], a->v[1]);
        sv_drop(s, copy);
    }
    return there < 0 ? sv_null() : sv_bool(there);
}

static sv iter_plain(struct script *s, const struct script_args *a)
{
    sv v = a->v[0], it;

    if (as_dict(v)) {
        it = iter_new(s, ITER_KEYS, v);
        if (sv_ok(it))
            AS(iter, it)->stop = dict_ptr(v)->n;
        return it;
    }
    return iter_new(s, ITER_SEQ, v);
}

/* ---- list */

static sv list_new_(struct script *s, const struct script_args *a)
{
    return instance_new(s, AS(cls, a->v[0]));
}

static sv list_init(struct script *s, const struct script_args *a)
{
    struct list *l = AS(list, a->v[0]);

    stirs(s, l);
    while (l->n)
        sv_drop(s, l->items[--l->n]);
    return done(!sv_ok(a->v[1]) || list_extend(s, l, a->v[1]));
}

static sv list_append_(struct script *s, const struct script_args *a)
{
    return done(list_push(s, AS(list, a->v[0]), sv_keep(a->v[1])));
}

static sv list_extend_(struct script *s, const struct script_args *a)
{
    return done(list_extend(s, AS(list, a->v[0]), a->v[1]));
}

static sv list_pop(struct script *s, const struct script_args *a)
{
    struct list *l = AS(list, a->v[0]);
    int64_t i = -1;
    sv r;

    if (sv_ok(a->v[1]) && !script_int(s, a->v[1], &i))
        return sv_null();
    if (!l->n)
        return script_raise(s, EXC_IndexError, "pop from empty list");
    i += i < 0 ? l->n : 0;
    if (i < 0 || i >= l->n)
        return script_raise(s, EXC_IndexError, "pop index out of range");
    if (!script_charge(s, (l->n - (uint64_t)i) / 64))
        return sv_null();
    stirs(s, l);
    r = l->items[i];
    memmove(l->items + i, l->items + i + 1, ((size_t)l->n - (size_t)i - 1) * sizeof(sv));
    l->n--;
    return r;
}

static sv list_insert(struct script *s, const struct script_args *a)
{
    struct list *l = AS(list, a->v[0]);
    int64_t i;

    if (!script_int(s, a->v[1], &i) || !script_charge(s, l->n / 64) || !list_push(s, l, sv_none()))
        return sv_null();
    i += i < 0 ? l->n - 1 : 0;
    i = i < 0 ? 0 : i > l->n - 1 ? l->n - 1 : i;
    memmove(l->items + i + 1, l->items + i, ((size_t)l->n - 1 - (size_t)i) * sizeof(sv));
    l->items[i] = sv_keep(a->v[2]);
    return sv_none();
}

static int64_t position(struct script *s, sv seq, sv value, int64_t from, int64_t to)
{
    uint32_t n;
    const sv *items = seq_items(seq, &n);

    from += from < 0 ? n : 0;
    to += to < 0 ? n : 0;
    for (int64_t i = from < 0 ? 0 : from; i < n && i < to; i++) {
        sv item = sv_keep(items[i]);
        int same = !script_charge(s, i % 8 == 7) ? -1 : script_equal(s, item, value);

        sv_drop(s, item);
        if (same)
            return same < 0 ? -2 : i;
        items = seq_items(seq, &n);
    }
    return -1;
}

static sv list_remove(struct script *s, const struct script_args *a)
{
    int64_t i = position(s, a->v[0], a->v[1], 0, INT64_MAX / 2);

    if (i == -2)
        return sv_null();
    if (i < 0)
        return script_raise(s, EXC_ValueError, "list.remove(x): x not in list");
    return done(script_setitem(s, a->v[0], sv_int(i), sv_null()));
}

static sv seq_index(struct script *s, const struct script_args *a)
{
    int64_t from = 0, to = INT64_MAX / 2, i;

    if ((sv_ok(a->v[2]) && !script_int(s, a->v[2], &from)) || (sv_ok(a->v[3]) && !script_int(s, a->v[3], &to)))
        return sv_null();
    i = position(s, a->v[0], a->v[1], from, to);
    if (i == -1) {
        sv text = script_repr(s, a->v[1]);

        if (sv_ok(text))
            (void)script_raise(s, EXC_ValueError, "%.200s is not in %s", AS(str, text)->text, sv_is(a->v[0], KIND_LIST) ? "list" : "tuple");
        sv_drop(s, text);
    }
    return i < 0 ? sv_null() : sv_int(i);
}

static sv seq_count(struct script *s, const struct script_args *a)
{
    int64_t count = 0, at = -1;

    while ((at = position(s, a->v[0], a->v[1], at + 1, INT64_MAX / 2)) >= 0)
        count++;
    return at == -2 ? sv_null() : sv_int(count);
}

static sv list_reverse(struct script *s, const struct script_args *a)
{
    struct list *l = AS(list, a->v[0]);

    if (!pay_items(s, l->n))
        return sv_null();
    stirs(s, l);
    for (uint32_t i = 0, k = l->n; i + 1 < k; i++) {
        sv t = l->items[i];

        l->items[i] = l->items[--k];
        l->items[k] = t;
    }
    return sv_none();
}

static sv list_clear(struct script *s, const struct script_args *a)
{
    struct list *l = AS(list, a->v[0]);
    sv *items = l->items;
    uint32_t n = l->n, cap = l->cap;

    stirs(s, l);
    l->n = l->cap = 0;
    l->items = NULL;
    while (n-- > 0)
        sv_drop(s, items[n]);
    if (cap)
        heap_give(s, items, cap * sizeof(sv));
    return sv_none();
}

static sv list_copy(struct script *s, const struct script_args *a)
{
    return list_new(s, AS(list, a->v[0])->n, AS(list, a->v[0])->items);
}

static sv list_sort_(struct script *s, const struct script_args *a)
{
    int reverse = sv_ok(a->v[2]) ? script_truth(s, a->v[2]) : 0;

    return done(reverse >= 0 && list_sort(s, AS(list, a->v[0]), a->v[1], reverse));
}

const struct script_native list_methods[] = {{"__new__", list_new_, "cls, /, *rest, **kw", 0, NATIVE_STATIC},
                                             {"__init__", list_init, "self, iterable=, /", PLAIN},
                                             {"append", list_append_, "self, item, /", PLAIN},
                                             {"extend", list_extend_, "self, iterable, /", PLAIN},
                                             {"pop", list_pop, "self, index=, /", PLAIN},
                                             {"insert", list_insert, "self, index, item, /", PLAIN},
                                             {"remove", list_remove, "self, value, /", PLAIN},
                                             {"index", seq_index, "self, value, start=, stop=, /", PLAIN},
                                             {"count", seq_count, "self, value, /", PLAIN},
                                             {"reverse", list_reverse, "self, /", PLAIN},
                                             {"clear", list_clear, "self, /", PLAIN},
                                             {"copy", list_copy, "self, /", PLAIN},
                                             {"sort", list_sort_, "self, *, key=, reverse=", PLAIN},
                                             {"__getitem__", getitem_plain, "self, key, /", PLAIN},
                                             {"__setitem__", setitem_plain, "self, key, value, /", PLAIN},
                                             {"__delitem__", setitem_plain, "self, key, value=, /", PLAIN},
                                             {"__len__", len_plain, "self, /", PLAIN},
                                             {"__contains__", contains_plain, "self, value, /", PLAIN},
                                             {"__iter__", iter_plain, "self, /", PLAIN},
                                             END};

/* ---- tuple */

static sv boxed_new(struct script *s, struct cls *c, sv value)
{
    sv v = c->layout == KIND_INSTANCE ? instance_new(s, c) : script_raise(s, EXC_TypeError, "cannot create '%s' instances", c->name->text);

    if (sv_ok(v))
        AS(boxed, v)->value = value;
    else
        sv_drop(s, value);
    return v;
}

static sv tuple_new_(struct script *s, const struct script_args *a)
{
    struct cls *c = AS(cls, a->v[0]);
    sv t = sv_ok(a->v[1]) ? tuple_of(s, a->v[1]) : sv_forever(s->w->empty);

    return !sv_ok(t) || c == s->w->types[B_TUPLE] ? t : boxed_new(s, c, t);
}

const struct script_native tuple_methods[] = {{"__new__", tuple_new_, "cls, iterable=, /", 0, NATIVE_STATIC},
                                              {"__getitem__", getitem_plain, "self, key, /", PLAIN},
                                              {"index", seq_index, "self, value, start=, stop=, /", PLAIN},
                                              {"count", seq_count, "self, value, /", PLAIN},
                                              {"__len__", len_plain, "self, /", PLAIN},
                                              {"__contains__", contains_plain, "self, value, /", PLAIN},
                                              {"__iter__", iter_plain, "self, /", PLAIN},
                                              END};

/* ---- dict */

static sv dict_new_(struct script *s, const struct script_args *a)
{
    return instance_new(s, AS(cls, a->v[0]));
}

static bool update(struct script *s, sv dict, sv from, const struct script_args *a)
{
    sv f, iter, item, pair[2];
    bool ok = true;

    if (sv_ok(from) && !sv_is(from, KIND_DICT) && script_find(s, from, sv_forever(s->sym[SYM_keys]), &f) != 0) {
        if (script_failed(s))
            return false;
        iter = iter_of(s, from); /* pairs */
        if (!sv_ok(iter))
            return false;
        while (ok && sv_ok(item = script_next(s, iter))) {
            sv t = tuple_of(s, item);

            sv_drop(s, item);
            ok = sv_ok(t) && AS(tuple, t)->n == 2;
            if (ok) {
                pair[0] = AS(tuple, t)->items[0];
                pair[1] = AS(tuple, t)->items[1];
                ok = dict_put(s, dict_ptr(dict), pair[0], pair[1]);
            } else if (sv_ok(t))
                (void)script_raise(s, EXC_ValueError, "dictionary update sequence element has length %u; 2 is required", AS(tuple, t)->n);
            sv_drop(s, t);
        }
        sv_drop(s, iter);
        ok = ok && !script_failed(s);
    } else if (sv_ok(from)) {
        if (!sv_is(from, KIND_DICT))
            sv_drop(s, f);
        ok = dict_merge(s, dict_ptr(dict), from, false);
    }
    for (uint32_t i = 0; ok && i < a->n_kw; i++)
        ok = dict_put(s, dict_ptr(dict), a->names[i], a->kw[i]);
    return ok;
}

static sv dict_update(struct script *s, const struct script_args *a)
{
    if (a->n > 2)
        return script_raise(s, EXC_TypeError, "update expected at most 1 argument, got %u", a->n - 1);
    return done(update(s, a->v[0], a->n > 1 ? a->v[1] : sv_null(), a));
}

static sv dict_get_(struct script *s, const struct script_args *a)
{
    struct entry *e;
    int there = dict_find(s, dict_ptr(a->v[0]), a->v[1], &e);

    if (there < 0)
        return sv_null();
    return there ? sv_keep(e->value) : sv_ok(a->v[2]) ? sv_keep(a->v[2]) : sv_none();
}

static sv dict_setdefault(struct script *s, const struct script_args *a)
{
    struct entry *e;
    int there = dict_find(s, dict_ptr(a->v[0]), a->v[1], &e);
    sv value = sv_ok(a->v[2]) ? a->v[2] : sv_none();

    if (there)
        return there < 0 ? sv_null() : sv_keep(e->value);
    return dict_put(s, dict_ptr(a->v[0]), a->v[1], value) ? sv_keep(value) : sv_null();
}

static sv dict_pop(struct script *s, const struct script_args *a)
{
    sv r;
    int there = dict_remove(s, dict_ptr(a->v[0]), a->v[1], &r);

    if (there)
        return there < 0 ? sv_null() : r;
    if (sv_ok(a->v[2]))
        return sv_keep(a->v[2]);
    return getitem_plain(s, a);
}

static sv dict_popitem(struct script *s, const struct script_args *a)
{
    struct dict *d = dict_ptr(a->v[0]);
    bool last = !sv_ok(a->v[1]) || script_truth(s, a->v[1]) == 1;
    sv pair[2];

    for (uint32_t i = 0; i < d->used; i++) {
        struct entry *e = &d->entries[last ? d->used - 1 - i : i];

        if (e->key.tag == SV_NULL)
            continue;
        if (!pay_items(s, i))
            return sv_null();
        pair[0] = sv_keep(e->key);
        if (dict_remove(s, d, pair[0], &pair[1]) != 1) {
            sv_drop(s, pair[0]);
            return sv_null();
        }
        while (d->used && d->entries[d->used - 1].key.tag == SV_NULL && !d->index)
            d->used--;
        return tuple_take(s, 2, pair);
    }
    return script_raise(s, EXC_KeyError, "popitem(): dictionary is empty");
}

static sv dict_clear_(struct script *s, const struct script_args *a)
{
    dict_clear(s, dict_ptr(a->v[0]));
    return sv_none();
}

static sv dict_copy_(struct script *s, const struct script_args *a)
{
    return dict_copy(s, dict_ptr(a->v[0]));
}

static sv dict_view(struct script *s, const struct script_args *a)
{
    struct view *v = obj_new(s, sizeof *v, KIND_VIEW);

    if (!v)
        return sv_null();
    v->h.aux = (uint16_t)a->def->data;
    v->dict = sv_keep(a->v[0]);
    return sv_counted(v);
}

static sv dict_fromkeys(struct script *s, const struct script_args *a)
{
    sv d = script_call(s, a->v[0], 0, NULL), iter = sv_ok(d) ? iter_of(s, a->v[1]) : sv_null(), key;
    bool ok = sv_ok(iter);

    while (ok && sv_ok(key = script_next(s, iter))) {
        ok = script_setitem(s, d, key, sv_ok(a->v[2]) ? a->v[2] : sv_none());
        sv_drop(s, key);
    }
    sv_drop(s, iter);
    if (ok && !script_failed(s))
        return d;
    sv_drop(s, d);
    return sv_null();
}

static sv dict_reversed(struct script *s, const struct script_args *a)
{
    sv it = iter_new(s, ITER_REVERSED_KEYS, a->v[0]);

    if (sv_ok(it)) {
        AS(iter, it)->at = (int64_t)dict_ptr(a->v[0])->used - 1;
        AS(iter, it)->step = ITER_KEYS;
    }
    return it;
}

static sv dict_move_to_end(struct script *s, const struct script_args *a)
{
    struct dict *d = dict_ptr(a->v[0]);
    sv value, key, rest;
    bool last = !sv_ok(a->v[2]) || script_truth(s, a->v[2]) == 1, ok;

    if (dict_remove(s, d, a->v[1], &value) != 1)
        return script_failed(s) ? sv_null() : getitem_plain(s, a);
    key = a->v[1];
    if (last) {
        ok = dict_put(s, d, key, value);
    } else {
        rest = dict_copy(s, d);
        ok = sv_ok(rest);
        if (ok) {
            dict_clear(s, d);
            ok = dict_put(s, d, key, value) && dict_merge(s, d, rest, false);
        }
        sv_drop(s, rest);
    }
    sv_drop(s, value);
    return done(ok);
}

const struct script_native dict_methods[] = {{"__new__", dict_new_, "cls, /, *rest, **kw", 0, NATIVE_STATIC},
                                             {"__init__", dict_update, NULL, PLAIN},
                                             {"update", dict_update, NULL, PLAIN},
                                             {"get", dict_get_, "self, key, default=, /", PLAIN},
                                             {"setdefault", dict_setdefault, "self, key, default=, /", PLAIN},
                                             {"pop", dict_pop, "self, key, default=", PLAIN},
                                             {"popitem", dict_popitem, "self, last=", PLAIN},
                                             {"clear", dict_clear_, "self, /", PLAIN},
                                             {"copy", dict_copy_, "self, /", PLAIN},
                                             {"keys", dict_view, "self, /", ITER_KEYS, NATIVE_PLAIN},
                                             {"values", dict_view, "self, /", ITER_VALUES, NATIVE_PLAIN},
                                             {"items", dict_view, "self, /", ITER_ITEMS, NATIVE_PLAIN},
                                             {"fromkeys", dict_fromkeys, "cls, iterable, value=, /", 0, NATIVE_CLASS},
                                             {"move_to_end", dict_move_to_end, "self, key, last=", PLAIN},
                                             {"__getitem__", getitem_plain, "self, key, /", PLAIN},
                                             {"__setitem__", setitem_plain, "self, key, value, /", PLAIN},
                                             {"__delitem__", setitem_plain, "self, key, value=, /", PLAIN},
                                             {"__contains__", contains_plain, "self, key, /", PLAIN},
                                             {"__len__", len_plain, "self, /", PLAIN},
                                             {"__iter__", iter_plain, "self, /", PLAIN},
                                             {"__reversed__", dict_reversed, "self, /", PLAIN},
                                             END};

static sv view_reversed(struct script *s, const struct script_args *a)
{
    struct view *v = AS(view, a->v[0]);
    sv it = iter_new(s, ITER_REVERSED_KEYS, v->dict);

    if (sv_ok(it)) {
        AS(iter, it)->at = (int64_t)dict_ptr(v->dict)->used - 1;
        AS(iter, it)->step = v->h.aux;
    }
    return it;
}

static sv view_disjoint(struct script *s, const struct script_args *a)
{
    sv r = set_operate(s, BINARY_AND, a->v[0], a->v[1], false);
    bool none = sv_ok(r) && !dict_ptr(r)->n;

    sv_drop(s, r);
    return sv_ok(r) ? sv_bool(none) : sv_null();
}

const struct script_native view_methods[] = {{"__reversed__", view_reversed, "self, /", PLAIN},
                                             {"isdisjoint", view_disjoint, "self, other, /", PLAIN},
                                             END};

/* ---- range, slice */

static sv range_new(struct script *s, const struct script_args *a)
{
    struct range *r;
    int64_t start = 0, stop, step = 1;

    if (!script_int(s, a->v[1], &stop))
        return sv_null();
    if (sv_ok(a->v[2])) {
        start = stop;
        if (!script_int(s, a->v[2], &stop))
            return sv_null();
    }
    if (sv_ok(a->v[3]) && !script_int(s, a->v[3], &step))
        return sv_null();
    if (!step)
        return script_raise(s, EXC_ValueError, "range() arg 3 must not be zero");
    r = obj_new(s, sizeof *r, KIND_RANGE);
    if (!r)
        return sv_null();
    r->start = start;
    r->stop = stop;
    r->step = step;
    return sv_counted(r);
}

static sv range_index(struct script *s, const struct script_args *a)
{
    const struct range *r = AS(range, a->v[0]);
    int in = script_contains(s, a->v[0], a->v[1]);

    if (in < 0)
        return sv_null();
    return in && a->v[1].tag == SV_INT ? sv_int((a->v[1].i - r->start) / r->step)
                                       : script_raise(s, EXC_ValueError, "value is not in range");
}

const struct script_native range_methods[] = {{"__new__", range_new, "cls, start, stop=, step=, /", 0, NATIVE_STATIC},
                                              {"index", range_index, "self, value, /", PLAIN},
                                              END};

static sv range_part(struct script *s, sv self, uint32_t data)
{
    (void)s;
    return sv_int(data == 0 ? AS(range, self)->start : data == 1 ? AS(range, self)->stop : AS(range, self)->step);
}

const struct script_member range_members[] = {{"start", range_part, NULL, 0},
                                              {"stop", range_part, NULL, 1},
                                              {"step", range_part, NULL, 2},
                                              {NULL, NULL, NULL, 0}};

static sv slice_new_(struct script *s, const struct script_args *a)
{
    bool one = !sv_ok(a->v[2]);

    return slice_new(s, one ? sv_none() : sv_keep(a->v[1]), one ? sv_keep(a->v[1]) : sv_keep(a->v[2]),
                     sv_ok(a->v[3]) ? sv_keep(a->v[3]) : sv_none());
}

static sv slice_indices(struct script *s, const struct script_args *a)
{
    int64_t length, from, step, n;
    sv out[3];

    if (!script_int(s, a->v[1], &length) || !slice_bounds(s, AS(slice, a->v[0]), length, &from, &step, &n))
        return sv_null();
    out[0] = sv_int(from);
    out[1] = sv_int(from + n * step);
    out[2] = sv_int(step);
    return tuple_new(s, 3, out);
}

const struct script_native slice_methods[] = {{"__new__", slice_new_, "cls, start, stop=, step=, /", 0, NATIVE_STATIC},
                                              {"indices", slice_indices, "self, length, /", PLAIN},
                                              END};

static sv slice_part(struct script *s, sv self, uint32_t data)
{
    (void)s;
    return sv_keep(data == 0 ? AS(slice, self)->start : data == 1 ? AS(slice, self)->stop : AS(slice, self)->step);
}

const struct script_member slice_members[] = {{"start", slice_part, NULL, 0},
                                              {"stop", slice_part, NULL, 1},
                                              {"step", slice_part, NULL, 2},
                                              {NULL, NULL, NULL, 0}};
