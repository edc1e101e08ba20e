/* Operators on any values. */
#include "script/object.h"

#include <math.h>

/* ---- numbers */

static sv too_big(struct script *s)
{
    return script_leave(s, "an integer beyond 64 bits");
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return q - (a % b != 0 && (a < 0) != (b < 0));
}

static double floor_mod(double a, double b)
{
    double r = fmod(a, b);

    if (r != 0 && (r < 0) != (b < 0))
        r += b;
    return r;
}

static sv int_power(struct script *s, int64_t a, int64_t n)
{
    int64_t r = 1;

    if (n < 0)
        return a ? sv_float(pow((double)a, (double)n)) : script_raise(s, EXC_ZeroDivisionError, "0.0 cannot be raised to a negative power");
    for (; n; n >>= 1) {
        if (n & 1 && __builtin_mul_overflow(r, a, &r))
            return too_big(s);
        if (n > 1 && __builtin_mul_overflow(a, a, &a))
            return too_big(s);
    }
    return sv_int(r);
}

static sv int_binary(struct script *s, enum script_binary op, int64_t a, int64_t b)
{
    int64_t r;

    switch (op) {
    case BINARY_ADD:
        return __builtin_add_overflow(a, b, &r) ? too_big(s) : sv_int(r);
    case BINARY_SUB:
        return __builtin_sub_overflow(a, b, &r) ? too_big(s) : sv_int(r);
    case BINARY_MUL:
        return __builtin_mul_overflow(a, b, &r) ? too_big(s) : sv_int(r);
    case BINARY_DIV:
        return b ? sv_float((double)a / (double)b) : script_raise(s, EXC_ZeroDivisionError, "division by zero");
    case BINARY_FLOORDIV:
    case BINARY_MOD:
        if (!b)
            return script_raise(s, EXC_ZeroDivisionError, "integer division or modulo by zero");
        if (b == -1)
            return op == BINARY_MOD ? sv_int(0) : a == INT64_MIN ? too_big(s) : sv_int(-a);
        r = floor_div(a, b);
        return sv_int(op == BINARY_MOD ? a - r * b : r);
    case BINARY_POW:
        return int_power(s, a, b);
    case BINARY_AND:
        return sv_int(a & b);
    case BINARY_OR:
        return sv_int(a | b);
    case BINARY_XOR:
        return sv_int(a ^ b);
    case BINARY_LSHIFT:
    case BINARY_RSHIFT:
        if (b < 0)
            return script_raise(s, EXC_ValueError, "negative shift count");
        if (op == BINARY_RSHIFT)
            return sv_int(b > 63 ? (a < 0 ? -1 : 0) : a >> b);
        if (!a)
            return sv_int(0);
        if (b > 62 || a > INT64_MAX >> b || a < INT64_MIN >> b)
            return too_big(s);
        return sv_int((int64_t)((uint64_t)a << b));
    default:
        return sv_not_implemented();
    }
}

static sv float_binary(struct script *s, enum script_binary op, double a, double b)
{
    switch (op) {
    case BINARY_ADD:
        return sv_float(a + b);
    case BINARY_SUB:
        return sv_float(a - b);
    case BINARY_MUL:
        return sv_float(a * b);
    case BINARY_DIV:
        return b != 0 ? sv_float(a / b) : script_raise(s, EXC_ZeroDivisionError, "float division by zero");
    case BINARY_FLOORDIV:
        return b != 0 ? sv_float(floor((a - floor_mod(a, b)) / b + 0.25))
                      : script_raise(s, EXC_ZeroDivisionError, "float floor division by zero");
    case BINARY_MOD:
        return b != 0 ? sv_float(floor_mod(a, b)) : script_raise(s, EXC_ZeroDivisionError, "float modulo");
    case BINARY_POW:
        if (a == 0 && b < 0)
            return script_raise(s, EXC_ZeroDivisionError, "0.0 cannot be raised to a negative power");
        if (a < 0 && floor(b) != b)
            return script_leave(s, "a complex number");
        return sv_float(pow(a, b));
    default:
        return sv_not_implemented();
    }
}

static bool is_number(sv v)
{
    return v.tag == SV_INT || v.tag == SV_FLOAT || v.tag == SV_BOOL;
}

static double to_double(sv v)
{
    return v.tag == SV_FLOAT ? v.f : (double)v.i;
}

static sv number_binary(struct script *s, enum script_binary op, sv a, sv b)
{
    sv r;

    if (a.tag == SV_FLOAT || b.tag == SV_FLOAT)
        return float_binary(s, op, to_double(a), to_double(b));
    r = int_binary(s, op, a.i, b.i);
    if (a.tag == SV_BOOL && b.tag == SV_BOOL && r.tag == SV_INT && op >= BINARY_AND && op <= BINARY_XOR)
        r = sv_bool(r.i);
    return r;
}

/* ---- containers */

static sv repeat(struct script *s, sv seq, int64_t n)
{
    uint32_t len;
    const sv *items = seq_items(seq, &len);
    sv r;

    n = n < 0 ? 0 : n;
    if (len && n > (1 << 26) / (int64_t)len)
        return script_nomem(s);
    if (!script_charge(s, (uint64_t)n * len / 16))
        return sv_null();
    if (sv_is(seq, KIND_TUPLE) && n == 1)
        return sv_keep(seq);
    r = list_new(s, 0, NULL);
    for (int64_t i = 0; sv_ok(r) && len && i < n; i++) {
        items = seq_items(seq, &len);
        for (uint32_t k = 0; k < len; k++)
            if (!list_append(s, r, items[k])) {
                sv_drop(s, r);
                return sv_null();
            }
    }
    if (sv_ok(r) && !sv_is(seq, KIND_LIST)) {
        sv t = tuple_take(s, AS(list, r)->n, AS(list, r)->items);

        AS(list, r)->n = 0;
        sv_drop(s, r);
        return t;
    }
    return r;
}

static sv seq_concat(struct script *s, sv a, sv b)
{
    uint32_t n, m;
    const sv *x = seq_items(a, &n), *y = seq_items(b, &m);

    if (sv_is(a, KIND_LIST)) {
        sv r = list_new(s, n, x);

        if (sv_ok(r) && !list_extend(s, AS(list, r), b)) {
            sv_drop(s, r);
            return sv_null();
        }
        return r;
    }
    if (!n && sv_is(b, KIND_TUPLE))
        return sv_keep(b);
    if (!m && sv_is(a, KIND_TUPLE))
        return sv_keep(a);
    struct tuple *t = obj_new(s, sizeof *t + ((size_t)n + m) * sizeof(sv), KIND_TUPLE);

    if (!t)
        return sv_null();
    t->n = n + m;
    for (uint32_t i = 0; i < n; i++)
        t->items[i] = sv_keep(x[i]);
    for (uint32_t i = 0; i < m; i++)
        t->items[n + i] = sv_keep(y[i]);
    return sv_counted(t);
}

static bool whole_number(sv v)
{
    return v.tag == SV_INT || v.tag == SV_BOOL;
}

static bool is_type(sv v)
{
    return sv_is(v, KIND_CLASS) || sv_is(v, KIND_ALIAS) || v.tag == SV_NONE;
}

static sv union_of(struct script *s, sv a, sv b)
{
    sv list = list_new(s, 0, NULL), part[2] = {a, b}, t, r;

    for (int i = 0; sv_ok(list) && i < 2; i++) {
        bool ok = sv_is(part[i], KIND_ALIAS) && AS(alias, part[i])->origin.tag == SV_NONE
                      ? list_extend(s, AS(list, list), AS(alias, part[i])->args)
                      : list_append(s, list, part[i]);

        if (!ok) {
            sv_drop(s, list);
            return sv_null();
        }
    }
    if (!sv_ok(list))
        return list;
    t = tuple_of(s, list);
    sv_drop(s, list);
    r = sv_ok(t) ? alias_new(s, sv_none(), t) : t;
    sv_drop(s, t);
    return r;
}

static sv builtin_binary(struct script *s, enum script_binary op, sv a, sv b, bool in_place)
{
    const struct str *x, *y;

    if (is_number(a) && is_number(b))
        return number_binary(s, op, a, b);
    if (op == BINARY_ADD) {
        x = as_str(a);
        y = as_str(b);
        if (x && y)
            return str_concat(s, x, y);
        if (x && !sv_is(b, KIND_INSTANCE))
            return script_raise(s, EXC_TypeError, "can only concatenate str (not \"%s\") to str", class_of(s, b)->name->text);
        if (in_place && sv_is(a, KIND_LIST))
            return list_extend(s, AS(list, a), b) ? sv_keep(a) : sv_null();
        if ((sv_is(a, KIND_LIST) && sv_is(b, KIND_LIST)) || (as_tuple(a) && as_tuple(b)))
            return seq_concat(s, a, b);
    }
    if (op == BINARY_MUL) {
        if (whole_number(a)) {
            sv t = a;

            a = b;
            b = t;
        }
        if (whole_number(b) && as_str(a))
            return str_repeat(s, as_str(a), b.i);
        if (whole_number(b) && (sv_is(a, KIND_LIST) || as_tuple(a))) {
            sv r = repeat(s, a, b.i);

            if (in_place && sv_ok(r) && sv_is(a, KIND_LIST)) {
                struct list *l = AS(list, a), *n = AS(list, r), keep = *l;

                stirs(s, l);
                l->items = n->items;
                l->n = n->n;
                l->cap = n->cap;
                n->items = keep.items;
                n->n = keep.n;
                n->cap = keep.cap;
                sv_drop(s, r);
                return sv_keep(a);
            }
            return r;
        }
    }
    if (op == BINARY_MOD && as_str(a))
        return format_percent(s, as_str(a), b);
    if (op == BINARY_OR && sv_is(a, KIND_DICT) && sv_is(b, KIND_DICT)) {
        sv r = in_place ? sv_keep(a) : dict_copy(s, dict_ptr(a));

        if (sv_ok(r) && !dict_merge(s, dict_ptr(r), b, false)) {
            sv_drop(s, r);
            return sv_null();
        }
        return r;
    }
    if (op == BINARY_OR && is_type(a) && is_type(b) && (a.tag != SV_NONE || b.tag != SV_NONE))
        return union_of(s, a, b);
    if ((sv_is(a, KIND_SET) || sv_is(a, KIND_VIEW)) && (sv_is(b, KIND_SET) || sv_is(b, KIND_VIEW)) && op != BINARY_ADD && op != BINARY_MUL)
        return set_operate(s, op, a, b, in_place);
    return sv_not_implemented();
}

/* ---- classes with operators */

static const char *const binary_text[] = {"+", "-", "*", "/", "//", "%", "** or pow()", "@", "&", "|", "^", "<<", ">>"};

static bool has_classes(sv v)
{
    return sv_is_obj(v) && ((v.o->cls && v.o->kind != KIND_CLASS) || (v.o->kind == KIND_CLASS && sv_ok(AS(cls, v)->meta)));
}

static sv try_native(struct script *s, enum script_binary op, sv of, sv a, sv b, bool in_place)
{
    const struct script_class *n = sv_is(of, KIND_INSTANCE) ? of.o->cls->native : NULL;

    return n && n->binary ? n->binary(s, op, a, b, in_place) : sv_not_implemented();
}

static sv try_method(struct script *s, sv of, unsigned name, sv other)
{
    sv r;
    int found = has_classes(of) ? special(s, of, (enum symbol)name, 1, &other, &r) : 0;

    return found > 0 ? r : found < 0 ? sv_null() : sv_not_implemented();
}

static bool overrides(struct script *s, struct cls *x, struct cls *y, enum symbol name)
{
    sv theirs = type_find(s, x, s->sym[name]), its = type_find(s, y, s->sym[name]);

    return sv_ok(its) && (!sv_ok(theirs) || theirs.o != its.o);
}

static sv unboxed(sv v)
{
    return sv_is(v, KIND_INSTANCE) && v.o->cls->flags & CLS_BOXED ? AS(boxed, v)->value : v;
}

/* No operator of its class, if it has one, is a function of the language. */
static bool no_methods(sv v)
{
    return !has_classes(v) || (v.o->kind == KIND_INSTANCE && v.o->cls->flags & CLS_SHARED);
}

static sv native_binary(struct script *s, enum script_binary op, sv a, sv b, bool in_place)
{
    sv r = sv_not_implemented();

    if (!enter(s))
        return sv_null();
    if (has_classes(a))
        r = try_native(s, op, a, a, b, in_place);
    if (r.tag == SV_NOTIMPLEMENTED && has_classes(b) && (!has_classes(a) || a.o->cls->native != b.o->cls->native))
        r = try_native(s, op, b, a, b, in_place);
    leave(s);
    return r;
}

sv script_binary(struct script *s, enum script_binary op, sv a, sv b, bool in_place)
{
    sv r = sv_not_implemented();
    struct cls *x, *y;
    bool right_first;

    if (!has_classes(a) && !has_classes(b))
        r = builtin_binary(s, op, a, b, in_place);
    else if (no_methods(a) && no_methods(b))
        r = native_binary(s, op, a, b, in_place);
    if (r.tag == SV_NOTIMPLEMENTED && (has_classes(a) || has_classes(b))) {
        if (!enter(s))
            return sv_null();
        x = class_of(s, a);
        y = class_of(s, b);
        if (in_place)
            r = try_method(s, a, SYM_iadd + op, b);
        right_first = x != y && cls_derives(y, x) && !(y->flags & CLS_SHARED) && overrides(s, x, y, (enum symbol)(SYM_radd + op));
        if (r.tag == SV_NOTIMPLEMENTED && right_first)
            r = try_method(s, b, SYM_radd + op, a);
        if (r.tag == SV_NOTIMPLEMENTED)
            r = try_method(s, a, SYM_add + op, b);
        if (r.tag == SV_NOTIMPLEMENTED)
            r = try_native(s, op, a, a, b, in_place);
        if (r.tag == SV_NOTIMPLEMENTED && !right_first && x != y)
            r = try_method(s, b, SYM_radd + op, a);
        if (r.tag == SV_NOTIMPLEMENTED && (!sv_is(a, KIND_INSTANCE) || x->native != y->native))
            r = try_native(s, op, b, a, b, in_place);
        if (r.tag == SV_NOTIMPLEMENTED)
            r = builtin_binary(s, op, unboxed(a), unboxed(b), in_place);
        leave(s);
    }
    if (r.tag == SV_NOTIMPLEMENTED)
        return script_raise(s, EXC_TypeError, "unsupported operand type(s) for %s%s: '%s' and '%s'", binary_text[op],
                            in_place && op != BINARY_POW ? "=" : "", class_of(s, a)->name->text, class_of(s, b)->name->text);
    return r;
}

sv script_unary(struct script *s, enum script_unary op, sv v)
{
    static const uint8_t names[] = {SYM_neg, SYM_pos, SYM_invert, SYM_abs};
    static const char *const text[] = {"unary -", "unary +", "unary ~", "abs()"};
    sv r = sv_not_implemented();

    if (v.tag == SV_INT || v.tag == SV_BOOL) {
        if (op == UNARY_INVERT)
            return sv_int(~v.i);
        if (op == UNARY_POS || (op == UNARY_ABS && v.i >= 0))
            return sv_int(v.i);
        return v.i == INT64_MIN ? too_big(s) : sv_int(-v.i);
    }
    if (v.tag == SV_FLOAT && op != UNARY_INVERT)
        return sv_float(op == UNARY_NEG ? -v.f : op == UNARY_ABS ? fabs(v.f) : v.f);
    if (has_classes(v)) {
        int found = special(s, v, (enum symbol)names[op], 0, NULL, &r);

        if (found)
            return found < 0 ? sv_null() : r;
        if (v.o->kind == KIND_INSTANCE && v.o->cls->native && v.o->cls->native->unary)
            r = v.o->cls->native->unary(s, op, v);
        else if (v.o->kind == KIND_INSTANCE && v.o->cls->flags & CLS_BOXED)
            return script_unary(s, op, AS(boxed, v)->value);
        else
            r = sv_not_implemented();
    }
    if (r.tag == SV_NOTIMPLEMENTED)
        return script_raise(s, EXC_TypeError, "bad operand type for %s: '%s'", text[op], class_of(s, v)->name->text);
    return r;
}

bool script_int(struct script *s, sv v, int64_t *ret)
{
    sv r;
    int found;

    if (v.tag == SV_INT || v.tag == SV_BOOL) {
        *ret = v.i;
        return true;
    }
    if (sv_is(v, KIND_INSTANCE)) {
        if (v.o->cls->flags & CLS_BOXED && AS(boxed, v)->value.tag == SV_INT) {
            *ret = AS(boxed, v)->value.i;
            return true;
        }
        found = special(s, v, SYM_index, 0, NULL, &r);
        if (!found && v.o->cls->native && v.o->cls->native->number) {
            r = v.o->cls->native->number(s, v, true);
            found = 1;
        }
        if (found) {
            if (found > 0 && r.tag == SV_INT) {
                *ret = r.i;
                return true;
            }
            sv_drop(s, found > 0 ? r : sv_null());
            if (script_failed(s))
                return false;
        }
    }
    (void)script_raise(s, EXC_TypeError, "'%s' object cannot be interpreted as an integer", class_of(s, v)->name->text);
    return false;
}

bool script_double(struct script *s, sv v, double *ret)
{
    sv r;
    int found;

    if (is_number(v)) {
        *ret = to_double(v);
        return true;
    }
    if (sv_is(v, KIND_INSTANCE)) {
        if (v.o->cls->flags & CLS_BOXED && is_number(AS(boxed, v)->value)) {
            *ret = to_double(AS(boxed, v)->value);
            return true;
        }
        found = special(s, v, SYM_float, 0, NULL, &r);
        if (!found && v.o->cls->native && v.o->cls->native->number) {
            r = v.o->cls->native->number(s, v, false);
            found = 1;
        }
        if (found) {
            if (found > 0 && is_number(r)) {
                *ret = to_double(r);
                return true;
            }
            sv_drop(s, found > 0 ? r : sv_null());
            if (script_failed(s))
                return false;
        }
    }
    (void)script_raise(s, EXC_TypeError, "must be real number, not %s", class_of(s, v)->name->text);
    return false;
}
