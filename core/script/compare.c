/* Comparing, truth, length, membership, items. */
#include "script/object.h"

#include <math.h>

static bool is_number(sv v)
{
    return v.tag == SV_INT || v.tag == SV_FLOAT || v.tag == SV_BOOL;
}

static bool is_same(sv a, sv b)
{
    if (sv_is_obj(a))
        return sv_is_obj(b) && a.o == b.o;
    return a.tag == b.tag && (a.tag < SV_BOOL || a.tag > SV_FLOAT || (a.i == b.i && a.tag != SV_FLOAT));
}

static bool by_order(enum script_compare op, int order)
{
    switch (op) {
    case COMPARE_LT:
        return order < 0;
    case COMPARE_LE:
        return order <= 0;
    case COMPARE_EQ:
        return order == 0;
    case COMPARE_NE:
        return order != 0;
    case COMPARE_GT:
        return order > 0;
    default:
        return order >= 0;
    }
}

static sv number_compare(enum script_compare op, sv a, sv b)
{
    if (a.tag != SV_FLOAT && b.tag != SV_FLOAT)
        return sv_bool(by_order(op, a.i < b.i ? -1 : a.i > b.i));
    double x = a.tag == SV_FLOAT ? a.f : (double)a.i, y = b.tag == SV_FLOAT ? b.f : (double)b.i;

    if (isnan(x) || isnan(y))
        return sv_bool(op == COMPARE_NE);
    if (x == y && a.tag != b.tag && fabs(x) >= 9007199254740992.0 && fabs(x) < 9.2e18) {
        int64_t i = a.tag == SV_FLOAT ? (int64_t)a.f : a.i, k = b.tag == SV_FLOAT ? (int64_t)b.f : b.i;

        return sv_bool(by_order(op, i < k ? -1 : i > k));
    }
    return sv_bool(by_order(op, x < y ? -1 : x > y));
}

static int str_order(const struct str *a, const struct str *b)
{
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = n ? memcmp(a->text, b->text, n) : 0; /* UTF-8 is in the order of code points */

    return order ? order : a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static sv seq_compare(struct script *s, enum script_compare op, sv a, sv b)
{
    uint32_t n = 0, m = 0, i = 0;
    const sv *x = seq_items(a, &n), *y = seq_items(b, &m);
    int same = 1;

    if ((op == COMPARE_EQ || op == COMPARE_NE) && n != m)
        return sv_bool(op == COMPARE_NE);
    for (; i < n && i < m; i++) {
        sv p, q;

        if (!script_charge(s, 1))
            return sv_null();
        p = sv_keep(x[i]);
        q = sv_keep(y[i]);
        same = script_equal(s, p, q);
        if (same == 0 && op != COMPARE_EQ && op != COMPARE_NE) {
            sv r = script_compare(s, op, p, q);

            sv_drop(s, p);
            sv_drop(s, q);
            return r;
        }
        sv_drop(s, p);
        sv_drop(s, q);
        if (same < 0)
            return sv_null();
        if (!same)
            return sv_bool(op == COMPARE_NE);
        x = seq_items(a, &n);
        y = seq_items(b, &m);
    }
    return sv_bool(by_order(op, n < m ? -1 : n > m));
}

static sv dict_compare(struct script *s, enum script_compare op, const struct dict *a, const struct dict *b)
{
    if (op != COMPARE_EQ && op != COMPARE_NE)
        return sv_not_implemented();
    if (a->n != b->n)
        return sv_bool(op == COMPARE_NE);
    for (uint32_t i = 0; i < a->used; i++) {
        struct entry *e;
        int same;

        if (!script_charge(s, 1))
            return sv_null();
        if (a->entries[i].key.tag == SV_NULL)
            continue;
        same = dict_find(s, b, a->entries[i].key, &e);
        if (same > 0)
            same = script_equal(s, a->entries[i].value, e->value);
        if (same < 0)
            return sv_null();
        if (!same)
            return sv_bool(op == COMPARE_NE);
    }
    return sv_bool(op == COMPARE_EQ);
}

static sv kind_compare(struct script *s, enum script_compare op, sv a, sv b)
{
    if (is_number(a) && is_number(b))
        return number_compare(op, a, b);
    if (!sv_is_obj(a) || !sv_is_obj(b))
        return sv_not_implemented();
    if (sv_is(a, KIND_STR) && sv_is(b, KIND_STR)) {
        if (!pay_bytes(s, AS(str, a)->bytes < AS(str, b)->bytes ? AS(str, a)->bytes : AS(str, b)->bytes))
            return sv_null();
        if (op == COMPARE_EQ || op == COMPARE_NE)
            return sv_bool(str_same(AS(str, a), AS(str, b)) == (op == COMPARE_EQ));
        return sv_bool(by_order(op, str_order(AS(str, a), AS(str, b))));
    }
    if ((sv_is(a, KIND_LIST) && sv_is(b, KIND_LIST)) || (sv_is(a, KIND_TUPLE) && sv_is(b, KIND_TUPLE)))
        return seq_compare(s, op, a, b);
    if (sv_is(a, KIND_DICT) && sv_is(b, KIND_DICT))
        return dict_compare(s, op, dict_ptr(a), dict_ptr(b));
    if ((sv_is(a, KIND_SET) || (sv_is(a, KIND_VIEW) && a.o->aux == ITER_KEYS)) &&
        (sv_is(b, KIND_SET) || (sv_is(b, KIND_VIEW) && b.o->aux == ITER_KEYS))) {
        int r = set_compare(s, op, sv_is(a, KIND_SET) ? dict_ptr(a) : dict_ptr(AS(view, a)->dict),
                            sv_is(b, KIND_SET) ? dict_ptr(b) : dict_ptr(AS(view, b)->dict));

        return r < 0 ? sv_null() : sv_bool(r);
    }
    if (op != COMPARE_EQ && op != COMPARE_NE)
        return sv_not_implemented();
    if (a.o->kind == b.o->kind) {
        int r = -2;

        if (sv_is(a, KIND_METHOD))
            r = is_same(AS(method, a)->function, AS(method, b)->function) && is_same(AS(method, a)->self, AS(method, b)->self);
        else if (sv_is(a, KIND_RANGE))
            r = AS(range, a)->start == AS(range, b)->start && AS(range, a)->stop == AS(range, b)->stop &&
                AS(range, a)->step == AS(range, b)->step;
        else if (sv_is(a, KIND_ALIAS)) {
            r = script_equal(s, AS(alias, a)->origin, AS(alias, b)->origin);
            if (r > 0)
                r = script_equal(s, AS(alias, a)->args, AS(alias, b)->args);
        } else if (sv_is(a, KIND_SLICE)) {
            sv x[3] = {AS(slice, a)->start, AS(slice, a)->stop, AS(slice, a)->step},
               y[3] = {AS(slice, b)->start, AS(slice, b)->stop, AS(slice, b)->step};

            r = 1;
            for (int i = 0; r > 0 && i < 3; i++)
                r = script_equal(s, x[i], y[i]);
        }
        if (r == -1)
            return sv_null();
        if (r >= 0)
            return sv_bool(r == (op == COMPARE_EQ));
    }
    return sv_not_implemented();
}

static bool has_class(sv v)
{
    return sv_is_obj(v) && v.o->cls && v.o->kind != KIND_CLASS;
}

static sv try_compare(struct script *s, enum script_compare op, sv of, sv other)
{
    static const uint8_t names[] = {SYM_lt, SYM_le, SYM_eq, SYM_ne, SYM_gt, SYM_ge};
    sv r, f;
    int found, truth;
    struct cls *c;

    if (!has_class(of))
        return sv_not_implemented();
    c = of.o->cls;
    if (c->flags & CLS_SHARED && c->layout != KIND_INSTANCE)
        return sv_not_implemented();
    f = type_find(s, c, s->sym[names[op]]);
    if (sv_is(f, KIND_NATIVE) && AS(native, f)->owner == s->w->types[B_OBJECT])
        f = sv_null();
    if (sv_ok(f)) {
        found = special(s, of, (enum symbol)names[op], 1, &other, &r);
        return found > 0 ? r : sv_null();
    }
    if (op == COMPARE_NE && cls_has(s, c) & HAS_EQ) {
        found = special(s, of, SYM_eq, 1, &other, &r);
        if (found < 0)
            return sv_null();
        if (r.tag == SV_NOTIMPLEMENTED)
            return r;
        truth = script_truth(s, r);
        sv_drop(s, r);
        return truth < 0 ? sv_null() : sv_bool(!truth);
    }
    return sv_not_implemented();
}

static sv native_compare(struct script *s, enum script_compare op, sv of, sv a, sv b)
{
    const struct script_class *n = sv_is(of, KIND_INSTANCE) ? of.o->cls->native : NULL;

    return n && n->compare ? n->compare(s, op, a, b) : sv_not_implemented();
}

static sv unboxed(sv v)
{
    return sv_is(v, KIND_INSTANCE) && v.o->cls->flags & CLS_BOXED ? AS(boxed, v)->value : v;
}

sv script_compare(struct script *s, enum script_compare op, sv a, sv b)
{
    static const enum script_compare swapped[] = {COMPARE_GT, COMPARE_GE, COMPARE_EQ, COMPARE_NE, COMPARE_LT, COMPARE_LE};
    static const char *const text[] = {"<", "<=", "==", "!=", ">", ">="};
    sv r;

    if (!has_class(a) && !has_class(b)) {
        if (sv_is_obj(a) && sv_is_obj(b)) {
            if (!enter(s))
                return sv_null();
            r = kind_compare(s, op, a, b);
            leave(s);
        } else
            r = kind_compare(s, op, a, b);
    } else {
        bool right_first;

        if (!enter(s))
            return sv_null();
        right_first = has_class(b) && class_of(s, a) != class_of(s, b) && cls_derives(class_of(s, b), class_of(s, a));
        r = right_first ? try_compare(s, swapped[op], b, a) : sv_not_implemented();
        if (r.tag == SV_NOTIMPLEMENTED)
            r = try_compare(s, op, a, b);
        if (r.tag == SV_NOTIMPLEMENTED)
            r = native_compare(s, op, a, a, b);
        if (r.tag == SV_NOTIMPLEMENTED && !right_first)
            r = try_compare(s, swapped[op], b, a);
        if (r.tag == SV_NOTIMPLEMENTED)
            r = native_compare(s, op, b, a, b);
        if (r.tag == SV_NOTIMPLEMENTED)
            r = kind_compare(s, op, unboxed(a), unboxed(b));
        leave(s);
    }
    if (r.tag != SV_NOTIMPLEMENTED)
        return r;
    if (op == COMPARE_EQ || op == COMPARE_NE)
        return sv_bool(is_same(a, b) == (op == COMPARE_EQ));
    return script_raise(s, EXC_TypeError, "'%s' not supported between instances of '%s' and '%s'", text[op], class_of(s, a)->name->text,
                        class_of(s, b)->name->text);
}

/* As containers compare: the same object is equal to itself. */
int script_equal(struct script *s, sv a, sv b)
{
    sv r;
    int truth;

    if (is_same(a, b))
        return 1;
    r = script_compare(s, COMPARE_EQ, a, b);
    if (!sv_ok(r))
        return -1;
    truth = script_truth(s, r);
    sv_drop(s, r);
    return truth;
}

/* ---- truth, length */

int64_t script_len(struct script *s, sv v)
{
    sv r;
    int64_t n;
    struct cls *c;

    if (!sv_is_obj(v))
        return script_raise(s, EXC_TypeError, "object of type '%s' has no len()", class_of(s, v)->name->text).tag ? 0 : -1;
    c = class_of(s, v);
    if (cls_has(s, c) & HAS_LEN) {
        r = special_call(s, v, SYM_len, 0, NULL);
        if (!sv_ok(r))
            return -1;
        if (!script_int(s, r, &n))
            n = -1;
        else if (n < 0)
            (void)script_raise(s, EXC_ValueError, "__len__() should return >= 0");
        sv_drop(s, r);
        return n < 0 ? -1 : n;
    }
    switch (v.o->kind) {
    case KIND_STR:
        return v.o->flags & STR_ASCII || pay_letters(s, AS(str, v)->bytes) ? (int64_t)str_length(AS(str, v)) : -1;
    case KIND_TUPLE:
        return AS(tuple, v)->n;
    case KIND_LIST:
        return AS(list, v)->n;
    case KIND_DICT:
    case KIND_SET:
        return dict_ptr(v)->n;
    case KIND_VIEW:
        return dict_ptr(AS(view, v)->dict)->n;
    case KIND_RANGE: {
        const struct range *x = AS(range, v);

        if (x->step > 0)
            return x->stop > x->start ? (x->stop - x->start - 1) / x->step + 1 : 0;
        return x->start > x->stop ? (x->start - x->stop - 1) / -x->step + 1 : 0;
    }
    default:
        break;
    }
    if (sv_is(v, KIND_INSTANCE) && c->native && c->native->len)
        return c->native->len(s, v);
    if (sv_is(v, KIND_INSTANCE) && c->flags & CLS_BOXED)
        return script_len(s, AS(boxed, v)->value);
    (void)script_raise(s, EXC_TypeError, "object of type '%s' has no len()", c->name->text);
    return -1;
}

int script_truth(struct script *s, sv v)
{
    struct cls *c;
    sv r;
    int64_t n;
    int found;

    switch (v.tag) {
    case SV_NULL:
    case SV_NONE:
        return 0;
    case SV_BOOL:
    case SV_INT:
        return v.i != 0;
    case SV_FLOAT:
        return v.f != 0;
    case SV_ELLIPSIS:
    case SV_NOTIMPLEMENTED:
        return 1;
    default:
        break;
    }
    if (!v.o->cls || v.o->kind == KIND_CLASS) {
        switch (v.o->kind) {
        case KIND_STR:
            return AS(str, v)->bytes != 0;
        case KIND_TUPLE:
        case KIND_LIST:
        case KIND_DICT:
        case KIND_SET:
        case KIND_VIEW:
        case KIND_RANGE:
            return script_len(s, v) != 0;
        default:
            return 1;
        }
    }
    c = v.o->cls;
    if (cls_has(s, c) & HAS_BOOL) {
        r = special_call(s, v, SYM_bool, 0, NULL);
        if (!sv_ok(r))
            return -1;
        found = r.tag == SV_BOOL ? (int)r.i : script_raise(s, EXC_TypeError, "__bool__ should return bool").tag ? 0 : -1;
        sv_drop(s, r);
        return found;
    }
    if (v.o->kind == KIND_INSTANCE && c->native && c->native->truth)
        return c->native->truth(s, v);
    if (cls_has(s, c) & HAS_LEN || (v.o->kind != KIND_INSTANCE && v.o->kind <= KIND_SET) ||
        (v.o->kind == KIND_INSTANCE && c->native && c->native->len)) {
        n = script_len(s, v);
        return n < 0 ? -1 : n > 0;
    }
    if (v.o->kind == KIND_INSTANCE && c->flags & CLS_BOXED)
        return script_truth(s, AS(boxed, v)->value);
    return 1;
}

/* ---- membership */

static int in_sequence(struct script *s, sv in, sv value)
{
    uint32_t n;
    const sv *items = seq_items(in, &n);

    for (uint32_t i = 0; i < n; i++) {
        sv item = sv_keep(items[i]);
        int same;

        if (!script_charge(s, i % 8 == 7)) {
            sv_drop(s, item);
            return -1;
        }
        same = script_equal(s, item, value);
        sv_drop(s, item);
        if (same)
            return same;
        items = seq_items(in, &n);
    }
    return 0;
}

static int in_iterable(struct script *s, sv in, sv value)
{
    sv iter = iter_of(s, in), item;
    int same = 0;

    if (!sv_ok(iter))
        return -1;
    while (!same && sv_ok(item = script_next(s, iter))) {
        same = script_equal(s, item, value);
        sv_drop(s, item);
    }
    sv_drop(s, iter);
    return script_failed(s) ? -1 : same;
}

static int in_str(struct script *s, const struct str *in, sv value)
{
    const struct str *t = as_str(value);

    if (!t) {
        (void)script_raise(s, EXC_TypeError, "'in <string>' requires string as left operand, not %s", class_of(s, value)->name->text);
        return -1;
    }
    return text_find(s, in->text, in->bytes, t) != NULL;
}

int script_contains(struct script *s, sv in, sv value)
{
    struct entry *e;
    struct cls *c = class_of(s, in);
    sv r;
    int found, truth;

    if (!sv_is_obj(in)) {
        (void)raise_type(s, "a container", in);
        return -1;
    }
    if (cls_has(s, c) & HAS_CONTAINS || (in.o->kind == KIND_CLASS && sv_ok(AS(cls, in)->meta))) {
        found = special(s, in, SYM_contains, 1, &value, &r);
        if (found < 0)
            return -1;
        if (found) {
            truth = script_truth(s, r);
            sv_drop(s, r);
            return truth;
        }
    }
    switch (in.o->kind) {
    case KIND_STR:
        return in_str(s, AS(str, in), value);
    case KIND_LIST:
    case KIND_TUPLE:
        return in_sequence(s, in, value);
    case KIND_DICT:
    case KIND_SET:
        return dict_find(s, dict_ptr(in), value, &e);
    case KIND_VIEW:
        if (in.o->aux == ITER_KEYS)
            return dict_find(s, dict_ptr(AS(view, in)->dict), value, &e);
        return in_iterable(s, in, value);
    case KIND_RANGE:
        if (value.tag == SV_INT || value.tag == SV_BOOL) {
            const struct range *x = AS(range, in);

            if (x->step > 0 ? value.i < x->start || value.i >= x->stop : value.i > x->start || value.i <= x->stop)
                return 0;
            return (value.i - x->start) % x->step == 0;
        }
        return in_iterable(s, in, value);
    default:
        break;
    }
    if (in.o->kind == KIND_INSTANCE && c->native && c->native->contains)
        return c->native->contains(s, in, value);
    if (in.o->kind == KIND_INSTANCE && c->flags & CLS_BOXED && !(cls_has(s, c) & HAS_ITER))
        return script_contains(s, AS(boxed, in)->value, value);
    return in_iterable(s, in, value);
}

/* ---- items */

static sv class_item(struct script *s, sv of, sv key)
{
    struct cls *c = AS(cls, of);
    sv r, args;
    int found;

    if (sv_ok(c->meta)) {
        found = special(s, of, SYM_getitem, 1, &key, &r);
        if (found)
            return found < 0 ? sv_null() : r;
    }
    if (!attr_find(s, of, s->sym[SYM_class_getitem], &args)) {
        r = script_call(s, args, 1, &key);
        sv_drop(s, args);
        return r;
    }
    if (script_failed(s))
        return sv_null();
    if (!(c->flags & CLS_SHARED) || c->native)
        return raise_type(s, "subscriptable", of);
    args = sv_is(key, KIND_TUPLE) ? sv_keep(key) : tuple_new(s, 1, &key);
    r = sv_ok(args) ? alias_new(s, of, args) : args;
    sv_drop(s, args);
    return r;
}

static sv dict_item(struct script *s, sv of, sv key)
{
    struct entry *e;
    int found = dict_find(s, dict_ptr(of), key, &e);
    sv text, r;

    if (found < 0)
        return sv_null();
    if (found)
        return sv_keep(e->value);
    if (of.o->cls) {
        found = special(s, of, SYM_missing, 1, &key, &r);
        if (found)
            return found < 0 ? sv_null() : r;
    }
    /* KeyError(key) */
    text = tuple_new(s, 1, &key);
    r = sv_ok(text) ? exc_new(s, s->w->exceptions[EXC_KeyError], text) : text;
    sv_drop(s, text);
    if (sv_ok(r))
        exc_set(s, r);
    return sv_null();
}

sv script_getitem(struct script *s, sv of, sv key)
{
    int64_t i, step, n;
    struct cls *c = class_of(s, of);

    if (!sv_is_obj(of))
        return raise_type(s, "subscriptable", of);
    if (of.o->kind != KIND_CLASS && of.o->cls && cls_has(s, c) & HAS_GETITEM) {
        sv r;

        if (!enter(s))
            return sv_null();
        r = special_call(s, of, SYM_getitem, 1, &key);
        leave(s);
        return r;
    }
    switch (of.o->kind) {
    case KIND_LIST:
        if (sv_is(key, KIND_SLICE))
            return slice_bounds(s, AS(slice, key), AS(list, of)->n, &i, &step, &n) ? list_slice(s, AS(list, of), i, step, n) : sv_null();
        return index_of(s, key, AS(list, of)->n, "list", &i) ? sv_keep(AS(list, of)->items[i]) : sv_null();
    case KIND_TUPLE:
        if (sv_is(key, KIND_SLICE))
            return slice_bounds(s, AS(slice, key), AS(tuple, of)->n, &i, &step, &n)
                       ? n == AS(tuple, of)->n && step == 1 ? sv_keep(of) : tuple_slice(s, AS(tuple, of), i, step, n)
                       : sv_null();
        return index_of(s, key, AS(tuple, of)->n, "tuple", &i) ? sv_keep(AS(tuple, of)->items[i]) : sv_null();
    case KIND_DICT:
        return dict_item(s, of, key);
    case KIND_STR:
        if (!(of.o->flags & STR_ASCII) && !script_charge(s, AS(str, of)->bytes / 16))
            return sv_null();
        if (sv_is(key, KIND_SLICE))
            return slice_bounds(s, AS(slice, key), str_length(AS(str, of)), &i, &step, &n) ? str_slice(s, AS(str, of), i, step, n)
                                                                                           : sv_null();
        return index_of(s, key, str_length(AS(str, of)), "string", &i) ? str_slice(s, AS(str, of), i, 1, 1) : sv_null();
    case KIND_RANGE: {
        const struct range *x = AS(range, of);
        struct range *r;

        if (!sv_is(key, KIND_SLICE))
            return index_of(s, key, script_len(s, of), "range object", &i) ? sv_int(x->start + i * x->step) : sv_null();
        if (!slice_bounds(s, AS(slice, key), script_len(s, of), &i, &step, &n))
            return sv_null();
        r = obj_new(s, sizeof *r, KIND_RANGE);
        if (!r)
            return sv_null();
        r->start = x->start + i * x->step;
        r->step = x->step * step;
        r->stop = r->start + n * r->step;
        return sv_counted(r);
    }
    case KIND_CLASS:
        return class_item(s, of, key);
    case KIND_ALIAS:
        return sv_keep(of);
    case KIND_INSTANCE: {
        sv r, f = type_find(s, c, s->sym[SYM_getitem]);

        if (sv_ok(f) && !(c->native && c->native->getitem))
            return special_call(s, of, SYM_getitem, 1, &key);
        if (c->native && c->native->getitem)
            return c->native->getitem(s, of, key);
        (void)r;
        if (c->flags & CLS_BOXED)
            return script_getitem(s, AS(boxed, of)->value, key);
        return raise_type(s, "subscriptable", of);
    }
    default:
        return raise_type(s, "subscriptable", of);
    }
}

bool script_setitem(struct script *s, sv of, sv key, sv value)
{
    struct cls *c = class_of(s, of);
    sv argv[2] = {key, value}, r, old;
    int64_t i;
    struct list *l;
    int gone;

    if (!sv_is_obj(of)) {
        (void)script_raise(s, EXC_TypeError, "'%s' object does not support item assignment", c->name->text);
        return false;
    }
    if (of.o->kind != KIND_CLASS && of.o->cls && cls_has(s, c) & (sv_ok(value) ? HAS_SETITEM : HAS_DELITEM)) {
        r = special_call(s, of, sv_ok(value) ? SYM_setitem : SYM_delitem, sv_ok(value) ? 2 : 1, argv);
        sv_drop(s, r);
        return sv_ok(r);
    }
    switch (of.o->kind) {
    case KIND_LIST:
        l = AS(list, of);
        if (sv_is(key, KIND_SLICE))
            return list_set_slice(s, l, AS(slice, key), value);
        if (!index_of(s, key, l->n, "list assignment", &i))
            return false;
        if (!sv_ok(value) && !pay_items(s, (l->n - (uint64_t)i) / 2))
            return false;
        stirs(s, l);
        old = l->items[i];
        if (sv_ok(value)) {
            l->items[i] = sv_keep(value);
        } else {
            memmove(l->items + i, l->items + i + 1, ((size_t)l->n - (size_t)i - 1) * sizeof(sv));
            l->n--;
        }
        sv_drop(s, old);
        return true;
    case KIND_DICT:
        if (sv_ok(value))
            return dict_put(s, dict_ptr(of), key, value);
        gone = dict_remove(s, dict_ptr(of), key, NULL);
        if (!gone) {
            r = dict_item(s, of, key);
            sv_drop(s, r);
        }
        return gone > 0;
    case KIND_INSTANCE:
        if (c->native && c->native->setitem)
            return c->native->setitem(s, of, key, value);
        break;
    default:
        break;
    }
    (void)script_raise(s, EXC_TypeError, "'%s' object does not support item %s", c->name->text, sv_ok(value) ? "assignment" : "deletion");
    return false;
}
