/* Builtin functions. */
#include "script/object.h"

#include "script/number.h"

#include <math.h>

#define PLAIN 0, NATIVE_PLAIN

static sv len(struct script *s, const struct script_args *a)
{
    int64_t n = script_len(s, a->v[0]);

    return n < 0 ? sv_null() : sv_int(n);
}

static sv isinstance(struct script *s, const struct script_args *a)
{
    int yes = a->def->data ? issubclass_of(s, a->v[0], a->v[1]) : isinstance_of(s, a->v[0], a->v[1]);

    return yes < 0 ? sv_null() : sv_bool(yes);
}

static sv getattr(struct script *s, const struct script_args *a)
{
    sv v;
    int found;

    if (!sv_ok(a->v[2]))
        return script_get(s, a->v[0], a->v[1]);
    found = script_find(s, a->v[0], a->v[1], &v);
    return found < 0 ? sv_null() : found ? sv_keep(a->v[2]) : v;
}

static sv hasattr(struct script *s, const struct script_args *a)
{
    sv v;
    int found = script_find(s, a->v[0], a->v[1], &v);

    if (found < 0)
        return sv_null();
    if (!found)
        sv_drop(s, v);
    return sv_bool(!found);
}

static sv setattr(struct script *s, const struct script_args *a)
{
    return script_set(s, a->v[0], a->v[1], a->n > 2 ? a->v[2] : sv_null()) ? sv_none() : sv_null();
}

static sv callable(struct script *s, const struct script_args *a)
{
    sv v = a->v[0];
    struct cls *c = class_of(s, v);

    if (!sv_is_obj(v))
        return sv_bool(false);
    switch (v.o->kind) {
    case KIND_FUNC:
    case KIND_NATIVE:
    case KIND_METHOD:
    case KIND_CLASS:
        return sv_bool(true);
    case KIND_INSTANCE:
        return sv_bool((c->native && c->native->call) || sv_ok(type_find(s, c, s->sym[SYM_call])));
    default:
        return sv_bool(false);
    }
}

static sv one_of(struct script *s, const struct script_args *a)
{
    sv iter = iter_of(s, a->v[0]), item;
    bool want = a->def->data, found = false;

    if (!sv_ok(iter))
        return iter;
    while (!found && sv_ok(item = script_next(s, iter))) {
        int truth = script_truth(s, item);

        sv_drop(s, item);
        if (truth < 0)
            break;
        found = truth == want;
    }
    sv_drop(s, iter);
    return script_failed(s) ? sv_null() : sv_bool(found == want);
}

static sv sum(struct script *s, const struct script_args *a)
{
    sv iter = iter_of(s, a->v[0]), item, total = sv_ok(a->v[1]) ? sv_keep(a->v[1]) : sv_int(0);

    if (!sv_ok(iter)) {
        sv_drop(s, total);
        return iter;
    }
    while (sv_ok(total) && sv_ok(item = script_next(s, iter))) {
        sv r = script_binary(s, BINARY_ADD, total, item, false);

        sv_drop(s, total);
        sv_drop(s, item);
        total = r;
    }
    sv_drop(s, iter);
    if (script_failed(s)) {
        sv_drop(s, total);
        return sv_null();
    }
    return total;
}

/* min and max hold the best so far and its key. */
static sv extreme(struct script *s, const struct script_args *a)
{
    enum script_compare op = a->def->data ? COMPARE_GT : COMPARE_LT;
    sv otherwise = a->v[0], key = a->v[1], best = sv_null(), best_key = sv_null(), iter, item;
    sv args = a->n_rest > 1 ? tuple_new(s, a->n_rest, a->rest) : sv_null();

    if (!a->n_rest)
        return script_raise(s, EXC_TypeError, "%s expected at least 1 argument, got 0", a->def->name);
    iter = iter_of(s, a->n_rest > 1 ? args : a->rest[0]);
    sv_drop(s, args);
    if (!sv_ok(iter))
        return iter;
    while (sv_ok(item = script_next(s, iter))) {
        sv k = sv_given(key) ? script_call(s, key, 1, &item) : sv_keep(item), r;
        int better = 1;

        if (sv_ok(k) && sv_ok(best)) {
            r = script_compare(s, op, k, best_key);
            better = sv_ok(r) ? script_truth(s, r) : -1;
            sv_drop(s, r);
        }
        if (!sv_ok(k) || better < 0) {
            sv_drop(s, k);
            sv_drop(s, item);
            break;
        }
        if (better) {
            sv old = best, old_key = best_key;

            best = item;
            best_key = k;
            sv_drop(s, old);
            sv_drop(s, old_key);
        } else {
            sv_drop(s, item);
            sv_drop(s, k);
        }
    }
    sv_drop(s, best_key);
    sv_drop(s, iter);
    if (script_failed(s)) {
        sv_drop(s, best);
        return sv_null();
    }
    if (sv_ok(best))
        return best;
    return sv_ok(otherwise) ? sv_keep(otherwise) : script_raise(s, EXC_ValueError, "%s() arg is an empty sequence", a->def->name);
}

static sv sorted(struct script *s, const struct script_args *a)
{
    sv l = list_of(s, a->v[0]);
    int reverse = sv_ok(a->v[2]) ? script_truth(s, a->v[2]) : 0;

    if (sv_ok(l) && (reverse < 0 || !list_sort(s, AS(list, l), a->v[1], reverse))) {
        sv_drop(s, l);
        return sv_null();
    }
    return l;
}

static sv iter(struct script *s, const struct script_args *a)
{
    sv it;

    if (!sv_ok(a->v[1]))
        return iter_of(s, a->v[0]);
    it = iter_new(s, ITER_CALL, a->v[0]);
    if (sv_ok(it))
        AS(iter, it)->other = sv_keep(a->v[1]);
    return it;
}

static sv next(struct script *s, const struct script_args *a)
{
    sv r, returned = sv_none(), args, e;

    if (sv_is(a->v[0], KIND_GEN)) {
        r = gen_send(s, AS(gen, a->v[0]), sv_none(), sv_null(), &returned);
    } else
        r = iter_next(s, a->v[0]);
    if (sv_ok(r) || script_failed(s))
        return r;
    if (sv_ok(a->v[1])) {
        sv_drop(s, returned);
        return sv_keep(a->v[1]);
    }
    args = returned.tag == SV_NONE ? sv_forever(s->w->empty) : tuple_new(s, 1, &returned);
    sv_drop(s, returned);
    e = sv_ok(args) ? exc_new(s, s->w->exceptions[EXC_StopIteration], args) : args;
    sv_drop(s, args);
    if (sv_ok(e))
        exc_set(s, e);
    return sv_null();
}

static sv print(struct script *s, const struct script_args *a)
{
    struct writer w = {.s = s};
    const struct str *sep = sv_given(a->v[0]) ? as_str(a->v[0]) : NULL, *end = sv_given(a->v[1]) ? as_str(a->v[1]) : NULL;
    sv text;

    for (uint32_t i = 0; i < a->n_rest; i++) {
        if (i)
            text_put(&w, sep ? sep->text : " ", sep ? sep->bytes : 1);
        put_str(&w, a->rest[i]);
    }
    text_put(&w, end ? end->text : "\n", end ? end->bytes : 1);
    text = written(&w);
    if (!sv_ok(text))
        return text;
    if (s->host.print)
        s->host.print(s->host.of, AS(str, text)->text, AS(str, text)->bytes);
    sv_drop(s, text);
    return sv_none();
}

static sv repr(struct script *s, const struct script_args *a)
{
    return script_repr(s, a->v[0]);
}

static sv format(struct script *s, const struct script_args *a)
{
    return format_value(s, a->v[0], a->v[1]);
}

static sv abs_(struct script *s, const struct script_args *a)
{
    return script_unary(s, UNARY_ABS, a->v[0]);
}

static sv id(struct script *s, const struct script_args *a)
{
    return sv_int(sv_is_obj(a->v[0]) ? (int64_t)script_place(s, a->v[0].o) : (int64_t)((uint64_t)a->v[0].i * 32 + a->v[0].tag));
}

static sv hash(struct script *s, const struct script_args *a)
{
    uint32_t h;

    if (a->v[0].tag == SV_INT || a->v[0].tag == SV_BOOL)
        return sv_int(a->v[0].i);
    return sv_hash(s, a->v[0], &h) ? sv_int(h) : sv_null();
}

static sv round_(struct script *s, const struct script_args *a)
{
    sv v = a->v[0], r;
    int64_t digits = 0;
    double f;
    char text[400];
    int found;

    if (sv_is(v, KIND_INSTANCE)) {
        found = special(s, v, SYM_round, sv_ok(a->v[1]), &a->v[1], &r);
        if (found)
            return found < 0 ? sv_null() : r;
    }
    if (sv_given(a->v[1]) && !script_int(s, a->v[1], &digits))
        return sv_null();
    if (v.tag == SV_INT || v.tag == SV_BOOL) {
        int64_t unit = 1, rest;

        if (digits >= 0)
            return sv_int(v.i);
        for (; digits < 0 && unit < INT64_MAX / 100; digits++)
            unit *= 10;
        rest = ((v.i % unit) + unit) % unit;
        v.i -= rest;
        if (rest * 2 > unit || (rest * 2 == unit && (v.i / unit) % 2))
            v.i += unit;
        return sv_int(v.i);
    }
    if (!script_double(s, v, &f) || !script_charge(s, digits > 20 || digits < -20 || fabs(f) > 1e20 ? 64 : 4)) /* hundreds of digits are written */
        return sv_null();
    if (!sv_given(a->v[1])) {
        double whole = floor(f), part = f - whole;

        if (isnan(f) || isinf(f))
            return script_raise(s, isnan(f) ? EXC_ValueError : EXC_OverflowError, "cannot convert float to integer");
        if (part > 0.5 || (part == 0.5 && fmod(whole, 2) != 0))
            whole += 1;
        if (fabs(whole) > 9.2e18)
            return script_leave(s, "an integer beyond 64 bits");
        return sv_int((int64_t)whole);
    }
    if (digits > 300 || isnan(f) || isinf(f))
        return sv_float(f);
    if (digits < 0) {
        double unit = pow(10, (double)-digits);

        return sv_float(digits < -308 ? 0 : floor(f / unit + 0.5) * unit);
    }
    {
        struct number_spec spec = {.type = 'f', .precision = (int)(digits > 60 ? 60 : digits)};
        size_t n = number_format_double(f, &spec, text, sizeof text);

        (void)number_double(text, n, &f);
    }
    return sv_float(f);
}

static sv pow_(struct script *s, const struct script_args *a)
{
    if (sv_given(a->v[2]))
        return script_leave(s, "pow() of three arguments");
    return script_binary(s, BINARY_POW, a->v[0], a->v[1], false);
}

static sv divmod_(struct script *s, const struct script_args *a)
{
    sv two[2] = {script_binary(s, BINARY_FLOORDIV, a->v[0], a->v[1], false), sv_null()};

    if (sv_ok(two[0]))
        two[1] = script_binary(s, BINARY_MOD, a->v[0], a->v[1], false);
    return sv_ok(two[1]) ? tuple_take(s, 2, two) : sv_null();
}

static sv in_base(struct script *s, const struct script_args *a)
{
    struct number_spec spec = {.type = (char)a->def->data, .alternate = true, .precision = -1};
    char text[100];
    int64_t i;

    return script_int(s, a->v[0], &i) ? str_new(s, text, number_format_int(i, &spec, text, sizeof text)) : sv_null();
}

static sv chr(struct script *s, const struct script_args *a)
{
    int64_t i;
    char text[4];
    size_t n = 0;

    if (!script_int(s, a->v[0], &i))
        return sv_null();
    if (i < 0 || i > 0x10FFFF || (i >= 0xD800 && i < 0xE000))
        return script_raise(s, EXC_ValueError, "chr() arg not in range");
    n = utf8_put(text, (uint32_t)i);
    return str_new(s, text, n);
}

static sv ord(struct script *s, const struct script_args *a)
{
    const struct str *t = as_str(a->v[0]);
    const unsigned char *p = t ? (const unsigned char *)t->text : NULL;

    if (!t || str_length(t) != 1)
        return script_raise(s, EXC_TypeError, "ord() expected a character");
    if (*p < 0x80)
        return sv_int(*p);
    if (*p < 0xE0)
        return sv_int((*p & 0x1F) << 6 | (p[1] & 0x3F));
    if (*p < 0xF0)
        return sv_int((*p & 0x0F) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
    return sv_int((*p & 7) << 18 | (p[1] & 0x3F) << 12 | (p[2] & 0x3F) << 6 | (p[3] & 0x3F));
}

static sv vars(struct script *s, const struct script_args *a)
{
    return sv_ok(a->v[0]) ? dict_of(s, a->v[0]) : script_leave(s, "vars() of no argument");
}

static sv globals(struct script *s, const struct script_args *a)
{
    (void)a;
    return s->frame ? sv_keep(sv_counted(s->frame->module->dict)) : sv_null();
}

static sv locals(struct script *s, const struct script_args *a)
{
    const struct frame *f = s->frame;
    sv d = dict_new(s);

    (void)a;
    if (f && f->names) {
        sv_drop(s, d);
        return sv_keep(sv_counted(f->names));
    }
    for (uint32_t i = 0; f && sv_ok(d) && i < f->code->n_all; i++) {
        sv v = f->locals[i];

        if (sv_is(v, KIND_CELL))
            v = AS(cell, v)->value;
        if (sv_ok(v) && !dict_put_name(s, dict_ptr(d), f->code->vars[i], v))
            return sv_null();
    }
    return d;
}

static sv dir(struct script *s, const struct script_args *a)
{
    sv l = list_new(s, 0, NULL), seen = set_new(s, false), d;
    struct cls *c = sv_as_class(a->v[0]) ? AS(cls, a->v[0]) : class_of(s, a->v[0]);

    if (!sv_ok(l) || !sv_ok(seen))
        return sv_null();
    if (sv_is(a->v[0], KIND_INSTANCE) || sv_is(a->v[0], KIND_MODULE)) {
        d = dict_of(s, a->v[0]);
        if (!sv_ok(d) || !dict_merge(s, dict_ptr(seen), d, false))
            return sv_null();
        sv_drop(s, d);
    }
    for (uint32_t i = 0; i < c->n_mro && !sv_is(a->v[0], KIND_MODULE); i++)
        if (!dict_merge(s, dict_ptr(seen), sv_forever(c->mro[i]->dict), false))
            return sv_null();
    if (!list_extend(s, AS(list, l), seen) || !list_sort(s, AS(list, l), sv_null(), false)) {
        sv_drop(s, l);
        l = sv_null();
    }
    sv_drop(s, seen);
    return l;
}

static sv forbidden(struct script *s, const struct script_args *a)
{
    return script_leave(s, "%s()", a->def->name);
}

static sv import_(struct script *s, const struct script_args *a)
{
    struct str *name = name_of(s, a->v[0]);

    return name ? import_module(s, name) : sv_null();
}

const struct script_native builtin_functions[] = {{"len", len, "obj, /", PLAIN},
                                                  {"isinstance", isinstance, "obj, cls, /", 0, NATIVE_PLAIN},
                                                  {"issubclass", isinstance, "obj, cls, /", 1, NATIVE_PLAIN},
                                                  {"getattr", getattr, "obj, name, default=, /", PLAIN},
                                                  {"hasattr", hasattr, "obj, name, /", PLAIN},
                                                  {"setattr", setattr, "obj, name, value, /", PLAIN},
                                                  {"delattr", setattr, "obj, name, /", PLAIN},
                                                  {"callable", callable, "obj, /", PLAIN},
                                                  {"any", one_of, "iterable, /", 1, NATIVE_PLAIN},
                                                  {"all", one_of, "iterable, /", 0, NATIVE_PLAIN},
                                                  {"sum", sum, "iterable, start=", PLAIN},
                                                  {"min", extreme, "*rest, default=, key=", 0, NATIVE_PLAIN},
                                                  {"max", extreme, "*rest, default=, key=", 1, NATIVE_PLAIN},
                                                  {"sorted", sorted, "iterable, /, *, key=, reverse=", PLAIN},
                                                  {"iter", iter, "obj, sentinel=, /", PLAIN},
                                                  {"next", next, "iterator, default=, /", PLAIN},
                                                  {"print", print, "*rest, sep=, end=, file=, flush=", PLAIN},
                                                  {"repr", repr, "obj, /", PLAIN},
                                                  {"format", format, "value, spec=, /", PLAIN},
                                                  {"abs", abs_, "x, /", PLAIN},
                                                  {"id", id, "obj, /", PLAIN},
                                                  {"hash", hash, "obj, /", PLAIN},
                                                  {"round", round_, "number, ndigits=", PLAIN},
                                                  {"pow", pow_, "base, exp, mod=", PLAIN},
                                                  {"divmod", divmod_, "a, b, /", PLAIN},
                                                  {"bin", in_base, "number, /", 'b', NATIVE_PLAIN},
                                                  {"oct", in_base, "number, /", 'o', NATIVE_PLAIN},
                                                  {"hex", in_base, "number, /", 'x', NATIVE_PLAIN},
                                                  {"chr", chr, "i, /", PLAIN},
                                                  {"ord", ord, "c, /", PLAIN},
                                                  {"vars", vars, "obj=, /", PLAIN},
                                                  {"globals", globals, "", PLAIN},
                                                  {"locals", locals, "", PLAIN},
                                                  {"dir", dir, "obj, /", PLAIN},
                                                  {"__import__", import_, "name, *rest, globals=, locals=, fromlist=, level=", PLAIN},
                                                  {"open", forbidden, NULL, PLAIN},
                                                  {"eval", forbidden, NULL, PLAIN},
                                                  {"exec", forbidden, NULL, PLAIN},
                                                  {"compile", forbidden, NULL, PLAIN},
                                                  {"input", forbidden, NULL, PLAIN},
                                                  {"breakpoint", forbidden, NULL, PLAIN},
                                                  {"exit", forbidden, NULL, PLAIN},
                                                  {"quit", forbidden, NULL, PLAIN},
                                                  {"bytes", forbidden, NULL, PLAIN},
                                                  {"bytearray", forbidden, NULL, PLAIN},
                                                  {"memoryview", forbidden, NULL, PLAIN},
                                                  {"complex", forbidden, NULL, PLAIN},
                                                  {NULL, NULL, NULL, PLAIN}};
