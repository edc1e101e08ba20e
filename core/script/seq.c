/* Tuples, lists, slices. */
#include "script/object.h"

enum { SEQ_MAX = 1 << 28 };

static struct tuple *tuple_raw(struct script *s, uint32_t n)
{
    struct tuple *t = n > SEQ_MAX ? NULL : obj_new(s, sizeof *t + n * sizeof(sv), KIND_TUPLE);

    if (t)
        t->n = n;
    else if (n > SEQ_MAX)
        (void)script_nomem(s);
    return t;
}

sv tuple_take(struct script *s, uint32_t n, const sv *items)
{
    struct tuple *t;

    if (!n)
        return sv_forever(s->w->empty);
    t = tuple_raw(s, n);
    if (!t) {
        for (uint32_t i = 0; i < n; i++)
            sv_drop(s, items[i]);
        return sv_null();
    }
    memcpy(t->items, items, n * sizeof(sv));
    return sv_counted(t);
}

sv tuple_new(struct script *s, uint32_t n, const sv *items)
{
    struct tuple *t;

    if (!n)
        return sv_forever(s->w->empty);
    t = tuple_raw(s, n);
    if (!t)
        return sv_null();
    for (uint32_t i = 0; i < n; i++)
        t->items[i] = sv_keep(items[i]);
    return sv_counted(t);
}

struct tuple *as_tuple(sv v)
{
    if (sv_is(v, KIND_TUPLE))
        return AS(tuple, v);
    if (sv_is(v, KIND_INSTANCE) && v.o->cls->flags & CLS_BOXED && sv_is(AS(boxed, v)->value, KIND_TUPLE))
        return AS(tuple, AS(boxed, v)->value);
    return NULL;
}

struct list *as_list(sv v)
{
    return sv_is(v, KIND_LIST) ? AS(list, v) : NULL;
}

bool slice_parts(sv v, sv ret[3])
{
    const struct slice *t = AS(slice, v);

    if (!sv_is(v, KIND_SLICE))
        return false;
    ret[0] = t->start;
    ret[1] = t->stop;
    ret[2] = t->step;
    return true;
}

const sv *seq_items(sv v, uint32_t *ret_n)
{
    struct tuple *t;

    if (sv_is(v, KIND_LIST)) {
        static const sv nothing = {.tag = SV_NULL};

        *ret_n = AS(list, v)->n;
        return *ret_n ? AS(list, v)->items : &nothing;
    }
    t = as_tuple(v);
    *ret_n = t ? t->n : 0;
    return t ? t->items : NULL;
}

/* ---- lists */

static struct list *list_raw(struct script *s, uint32_t cap)
{
    struct list *l = obj_new(s, sizeof *l, KIND_LIST);

    if (!l)
        return NULL;
    l->n = l->cap = 0;
    l->items = NULL;
    l->attributes = NULL;
    if (cap) {
        l->items = heap_take(s, cap * sizeof(sv));
        if (!l->items) {
            heap_give(s, l, sizeof *l);
            return NULL;
        }
        l->cap = cap;
    }
    return l;
}

static bool list_room(struct script *s, struct list *l, uint32_t n)
{
    uint32_t cap;
    sv *items;

    stirs(s, l);
    if (n <= l->cap)
        return true;
    if (n > SEQ_MAX)
        return script_nomem(s).tag;
    cap = n < 4 ? 4 : n + n / 2;
    items = heap_take(s, cap * sizeof(sv));
    if (!items)
        return false;
    if (l->n)
        memcpy(items, l->items, l->n * sizeof(sv));
    if (l->cap)
        heap_give(s, l->items, l->cap * sizeof(sv));
    l->items = items;
    l->cap = cap;
    return true;
}

sv list_new(struct script *s, uint32_t n, const sv *items)
{
    struct list *l = list_raw(s, n);

    if (!l)
        return sv_null();
    for (uint32_t i = 0; i < n; i++)
        l->items[i] = sv_keep(items[i]);
    l->n = n;
    return sv_counted(l);
}

bool list_push(struct script *s, struct list *l, sv item)
{
    stirs(s, l);
    if (l->n == l->cap && !list_room(s, l, l->n + 1)) {
        sv_drop(s, item);
        return false;
    }
    l->items[l->n++] = item;
    return true;
}

bool list_append(struct script *s, sv list, sv item)
{
    return list_push(s, AS(list, list), sv_keep(item));
}

bool list_extend(struct script *s, struct list *l, sv iterable)
{
    uint32_t n;
    const sv *items = sv_is(iterable, KIND_LIST) || sv_is(iterable, KIND_TUPLE) ? seq_items(iterable, &n) : NULL;
    sv iter, item;

    if (items) {
        if (!list_room(s, l, l->n + n))
            return false;
        items = seq_items(iterable, &n); /* a list may be its own */
        for (uint32_t i = 0; i < n; i++)
            l->items[l->n + i] = sv_keep(items[i]);
        l->n += n;
        return true;
    }
    iter = script_iter(s, iterable);
    if (!sv_ok(iter))
        return false;
    while (sv_ok(item = iter_next(s, iter)))
        if (!script_charge(s, 1) || !list_push(s, l, item))
            break;
    sv_drop(s, iter);
    return !script_failed(s);
}

sv list_of(struct script *s, sv iterable)
{
    sv l = list_new(s, 0, NULL);

    if (sv_ok(l) && !list_extend(s, AS(list, l), iterable)) {
        sv_drop(s, l);
        return sv_null();
    }
    return l;
}

sv tuple_of(struct script *s, sv iterable)
{
    sv l, t;

    if (sv_is(iterable, KIND_TUPLE))
        return sv_keep(iterable);
    if (sv_is(iterable, KIND_LIST))
        return tuple_new(s, AS(list, iterable)->n, AS(list, iterable)->items);
    l = list_of(s, iterable);
    if (!sv_ok(l))
        return l;
    t = tuple_take(s, AS(list, l)->n, AS(list, l)->items);
    AS(list, l)->n = 0;
    sv_drop(s, l);
    return t;
}

/* ---- slices and indices */

sv slice_new(struct script *s, sv start, sv stop, sv step)
{
    struct slice *x = obj_new(s, sizeof *x, KIND_SLICE);

    if (!x) {
        sv_drop(s, start);
        sv_drop(s, stop);
        sv_drop(s, step);
        return sv_null();
    }
    x->start = start;
    x->stop = stop;
    x->step = step;
    return sv_counted(x);
}

static bool bound(struct script *s, sv v, int64_t otherwise, int64_t *ret)
{
    if (v.tag == SV_NONE) {
        *ret = otherwise;
        return true;
    }
    if (script_int(s, v, ret))
        return true;
    if (script_caught(s, EXC_TypeError)) {
        script_forgive(s);
        (void)script_raise(s, EXC_TypeError, "slice indices must be integers or None or have an __index__ method");
    }
    return false;
}

static int64_t clipped(int64_t i, int64_t length, int64_t least, int64_t most)
{
    if (i < 0)
        i = i < -length ? least : i + length;
    return i < least ? least : i > most ? most : i;
}

/* `n` items from `from` on, every `step`. */
bool slice_bounds(struct script *s, const struct slice *at, int64_t length, int64_t *from, int64_t *step, int64_t *n)
{
    int64_t a, b, by;

    if (!bound(s, at->step, 1, &by))
        return false;
    if (by == 0) {
        (void)script_raise(s, EXC_ValueError, "slice step cannot be zero");
        return false;
    }
    if (by < -INT64_MAX)
        by = -INT64_MAX;
    if (!bound(s, at->start, by < 0 ? INT64_MAX : 0, &a) || !bound(s, at->stop, by < 0 ? INT64_MIN : INT64_MAX, &b))
        return false;
    if (by > 0) {
        a = clipped(a, length, 0, length);
        b = clipped(b, length, 0, length);
        *n = b > a ? (b - a - 1) / by + 1 : 0;
    } else {
        a = clipped(a, length, -1, length - 1);
        b = at->stop.tag == SV_NONE ? -1 : clipped(b, length, -1, length - 1);
        *n = a > b ? (a - b - 1) / -by + 1 : 0;
    }
    *from = a;
    *step = by;
    return true;
}

bool index_of(struct script *s, sv key, int64_t length, const char *what, int64_t *ret)
{
    int64_t i;

    if (key.tag == SV_INT || key.tag == SV_BOOL) {
        i = key.i;
    } else if (!script_int(s, key, &i)) {
        if (script_caught(s, EXC_TypeError)) {
            script_forgive(s);
            (void)script_raise(s, EXC_TypeError, "%s indices must be integers or slices, not %s", what, class_of(s, key)->name->text);
        }
        return false;
    }
    if (i < 0)
        i += length;
    if (i < 0 || i >= length) {
        (void)script_raise(s, EXC_IndexError, "%s index out of range", what);
        return false;
    }
    *ret = i;
    return true;
}

sv tuple_slice(struct script *s, const struct tuple *t, int64_t from, int64_t step, int64_t n)
{
    struct tuple *r;

    if (!n)
        return sv_forever(s->w->empty);
    r = tuple_raw(s, (uint32_t)n);
    if (!r)
        return sv_null();
    for (int64_t i = 0; i < n; i++)
        r->items[i] = sv_keep(t->items[from + i * step]);
    return sv_counted(r);
}

sv list_slice(struct script *s, const struct list *l, int64_t from, int64_t step, int64_t n)
{
    struct list *r = list_raw(s, (uint32_t)n);

    if (!r)
        return sv_null();
    for (int64_t i = 0; i < n; i++)
        r->items[i] = sv_keep(l->items[from + i * step]);
    r->n = (uint32_t)n;
    return sv_counted(r);
}

/* Items that leave the list die from the last to the first, when the list is whole again (list_ass_slice). */
static bool replace(struct script *s, struct list *l, int64_t from, int64_t n, const sv *items, uint32_t k)
{
    sv *old = NULL;
    uint32_t rest = l->n - (uint32_t)(from + n);

    if (!pay_items(s, rest / 2 + (uint64_t)n))
        return false;
    if (n) {
        old = heap_take(s, (size_t)n * sizeof(sv));
        if (!old)
            return false;
        memcpy(old, l->items + from, (size_t)n * sizeof(sv));
    }
    if (!list_room(s, l, l->n - (uint32_t)n + k)) {
        if (n)
            heap_give(s, old, (size_t)n * sizeof(sv));
        return false;
    }
    if (rest)
        memmove(l->items + from + k, l->items + from + n, rest * sizeof(sv));
    for (uint32_t i = 0; i < k; i++)
        l->items[from + i] = sv_keep(items[i]);
    l->n = l->n - (uint32_t)n + k;
    for (int64_t i = n; i-- > 0;)
        sv_drop(s, old[i]);
    if (n)
        heap_give(s, old, (size_t)n * sizeof(sv));
    return true;
}

bool list_set_slice(struct script *s, struct list *l, const struct slice *at, sv value)
{
    int64_t from, step, n;
    uint32_t k = 0;
    const sv *items = NULL;
    sv copy = sv_null();
    bool ok = true;

    if (!slice_bounds(s, at, l->n, &from, &step, &n))
        return false;
    if (sv_ok(value)) {
        copy = tuple_of(s, value);
        if (!sv_ok(copy))
            return false;
        items = seq_items(copy, &k);
        if (!slice_bounds(s, at, l->n, &from, &step, &n)) {
            sv_drop(s, copy);
            return false;
        }
    }
    if (step == 1) {
        ok = replace(s, l, from, n, items, k);
    } else if (!sv_ok(value)) {
        if (step < 0) { /* from the front */
            from += (n - 1) * step;
            step = -step;
        }
        for (int64_t i = n; ok && i-- > 0;)
            ok = replace(s, l, from + i * step, 1, NULL, 0);
    } else if (k != n) {
        (void)script_raise(s, EXC_ValueError, "attempt to assign sequence of size %u to extended slice of size %lld", k, (long long)n);
        ok = false;
    } else {
        stirs(s, l);
        for (uint32_t i = 0; i < k; i++) {
            sv old = l->items[from + i * step];

            l->items[from + i * step] = sv_keep(items[i]);
            sv_drop(s, old);
        }
    }
    sv_drop(s, copy);
    return ok;
}

/* ---- sorting: stable, by merging; a comparison that lies or changes the list breaks nothing */

struct pair {
    sv key, item;
};

static int before(struct script *s, const struct pair *a, const struct pair *b)
{
    sv r;
    int truth;

    if (a->key.tag == SV_INT && b->key.tag == SV_INT)
        return a->key.i < b->key.i;
    r = script_compare(s, COMPARE_LT, a->key, b->key);
    if (!sv_ok(r))
        return -1;
    truth = script_truth(s, r);
    sv_drop(s, r);
    return truth;
}

static bool merge(struct script *s, struct pair *from, struct pair *to, size_t a, size_t mid, size_t b, bool reverse)
{
    size_t i = a, k = mid;

    for (size_t at = a; at < b; at++) {
        int second;

        if (k >= b)
            second = 0;
        else if (i >= mid)
            second = 1;
        else {
            second = reverse ? before(s, &from[i], &from[k]) : before(s, &from[k], &from[i]);
            if (second < 0 || !script_charge(s, 1))
                return false;
        }
        to[at] = second ? from[k++] : from[i++];
    }
    return true;
}

bool list_sort(struct script *s, struct list *l, sv key, bool reverse)
{
    uint32_t n = l->n, cap = l->cap;
    sv *items = l->items;
    struct pair *a, *b, *from;
    bool ok = true;
    size_t bytes = (n + 1) * sizeof *a;

    if (n < 2 && !sv_given(key))
        return true;
    a = heap_zero(s, bytes);
    b = heap_zero(s, bytes);
    if (!a || !b)
        return false;
    stirs(s, l);
    l->n = l->cap = 0; /* nobody sees it meanwhile */
    l->items = NULL;
    for (uint32_t i = 0; i < n; i++) {
        a[i].item = items[i];
        a[i].key = !ok ? sv_none() : sv_given(key) ? script_call(s, key, 1, &items[i]) : sv_keep(items[i]);
        ok &= sv_ok(a[i].key);
    }
    from = a;
    for (size_t width = 1; ok && width < n; width *= 2) {
        struct pair *to = from == a ? b : a;

        for (size_t at = 0; ok && at < n; at += 2 * width) {
            size_t mid = at + width < n ? at + width : n, end = at + 2 * width < n ? at + 2 * width : n;

            ok = merge(s, from, to, at, mid, end, reverse);
        }
        if (ok)
            from = to;
    }
    for (uint32_t i = 0; i < n; i++)
        items[i] = from[i].item;
    for (uint32_t i = 0; i < n; i++)
        sv_drop(s, from[i].key);
    if (l->items) { /* somebody filled it */
        for (uint32_t i = l->n; i-- > 0;)
            sv_drop(s, l->items[i]);
        heap_give(s, l->items, l->cap * sizeof(sv));
        if (ok)
            (void)script_raise(s, EXC_ValueError, "list modified during sort");
        ok = false;
    }
    l->items = items;
    l->n = n;
    l->cap = cap;
    heap_give(s, a, bytes);
    heap_give(s, b, bytes);
    return ok;
}
