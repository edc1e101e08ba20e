/* Native modules of the language: math, and the natives that its library builds on. */
#include "script/object.h"

#include <math.h>
#include <string.h>

#define PLAIN 0, NATIVE_PLAIN

enum math { M_SQRT, M_LOG2, M_EXP, M_FLOOR, M_CEIL, M_FABS, M_ISNAN, M_ISINF, M_ISFINITE, M_TRUNC, M_COS, M_SIN, M_TANH, M_LOG10 };

static sv whole(struct script *s, double f)
{
    if (isnan(f) || isinf(f))
        return script_raise(s, isnan(f) ? EXC_ValueError : EXC_OverflowError, "cannot convert float to integer");
    if (fabs(f) > 9.2e18)
        return script_leave(s, "an integer beyond 64 bits");
    return sv_int((int64_t)f);
}

static sv math_one(struct script *s, const struct script_args *a)
{
    sv v = a->v[0];
    double f;

    if (a->def->data == M_FLOOR || a->def->data == M_CEIL || a->def->data == M_TRUNC)
        if (v.tag == SV_INT || v.tag == SV_BOOL)
            return sv_int(v.i);
    if (!script_double(s, v, &f))
        return sv_null();
    switch (a->def->data) {
    case M_SQRT:
        return f < 0 ? script_raise(s, EXC_ValueError, "math domain error") : sv_float(sqrt(f));
    case M_LOG2:
    case M_LOG10:
        if (f <= 0)
            return script_raise(s, EXC_ValueError, "math domain error");
        return sv_float(a->def->data == M_LOG2 ? log2(f) : log(f) / 2.302585092994046);
    case M_EXP:
        f = exp(f);
        return isinf(f) ? script_raise(s, EXC_OverflowError, "math range error") : sv_float(f);
    case M_FLOOR:
        return whole(s, floor(f));
    case M_CEIL:
        return whole(s, ceil(f));
    case M_TRUNC:
        return whole(s, f < 0 ? ceil(f) : floor(f));
    case M_FABS:
        return sv_float(fabs(f));
    case M_ISNAN:
        return sv_bool(isnan(f));
    case M_ISINF:
        return sv_bool(isinf(f));
    case M_ISFINITE:
        return sv_bool(!isnan(f) && !isinf(f));
    default:
        return script_leave(s, "math.%s()", a->def->name);
    }
}

static sv math_log(struct script *s, const struct script_args *a)
{
    double x, base;

    if (!script_double(s, a->v[0], &x))
        return sv_null();
    if (x <= 0)
        return script_raise(s, EXC_ValueError, "math domain error");
    if (!sv_ok(a->v[1]))
        return sv_float(log(x));
    if (!script_double(s, a->v[1], &base))
        return sv_null();
    if (base <= 0)
        return script_raise(s, EXC_ValueError, "math domain error");
    return log(base) != 0 ? sv_float(log(x) / log(base)) : script_raise(s, EXC_ZeroDivisionError, "float division by zero");
}

static sv math_pow(struct script *s, const struct script_args *a)
{
    double x, y;

    return script_double(s, a->v[0], &x) && script_double(s, a->v[1], &y) ? sv_float(pow(x, y)) : sv_null();
}

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        int64_t t = a % b;

        a = b;
        b = t;
    }
    return a < 0 ? -a : a;
}

static sv math_gcd(struct script *s, const struct script_args *a)
{
    int64_t r = a->def->data, x;

    for (uint32_t i = 0; i < a->n_rest; i++) {
        if (!script_int(s, a->rest[i], &x))
            return sv_null();
        if (x == INT64_MIN)
            return script_leave(s, "an integer beyond 64 bits");
        if (!a->def->data)
            r = gcd(r, x);
        else if (!x)
            return sv_int(0);
        else if (__builtin_mul_overflow(r / gcd(r, x), x < 0 ? -x : x, &r))
            return script_leave(s, "an integer beyond 64 bits");
    }
    return sv_int(r);
}

static sv math_isqrt(struct script *s, const struct script_args *a)
{
    int64_t n, r;

    if (!script_int(s, a->v[0], &n))
        return sv_null();
    if (n < 0)
        return script_raise(s, EXC_ValueError, "isqrt() argument must be nonnegative");
    r = (int64_t)sqrt((double)n);
    while (r > 0 && r > n / r)
        r--;
    while ((r + 1) <= n / (r + 1))
        r++;
    return sv_int(r);
}

static sv math_prod(struct script *s, const struct script_args *a)
{
    sv iter = iter_of(s, a->v[0]), item, r = sv_ok(a->v[1]) ? sv_keep(a->v[1]) : sv_int(1);

    if (!sv_ok(iter))
        return iter;
    while (sv_ok(r) && sv_ok(item = script_next(s, iter))) {
        sv next = script_binary(s, BINARY_MUL, r, item, false);

        sv_drop(s, r);
        sv_drop(s, item);
        r = next;
    }
    sv_drop(s, iter);
    return script_failed(s) ? sv_null() : r;
}

static const struct script_native math_functions[] = {{"sqrt", math_one, "x, /", M_SQRT, NATIVE_PLAIN},
                                                      {"log2", math_one, "x, /", M_LOG2, NATIVE_PLAIN},
                                                      {"log10", math_one, "x, /", M_LOG10, NATIVE_PLAIN},
                                                      {"exp", math_one, "x, /", M_EXP, NATIVE_PLAIN},
                                                      {"floor", math_one, "x, /", M_FLOOR, NATIVE_PLAIN},
                                                      {"ceil", math_one, "x, /", M_CEIL, NATIVE_PLAIN},
                                                      {"trunc", math_one, "x, /", M_TRUNC, NATIVE_PLAIN},
                                                      {"fabs", math_one, "x, /", M_FABS, NATIVE_PLAIN},
                                                      {"isnan", math_one, "x, /", M_ISNAN, NATIVE_PLAIN},
                                                      {"isinf", math_one, "x, /", M_ISINF, NATIVE_PLAIN},
                                                      {"isfinite", math_one, "x, /", M_ISFINITE, NATIVE_PLAIN},
                                                      {"cos", math_one, "x, /", M_COS, NATIVE_PLAIN},
                                                      {"sin", math_one, "x, /", M_SIN, NATIVE_PLAIN},
                                                      {"tanh", math_one, "x, /", M_TANH, NATIVE_PLAIN},
                                                      {"log", math_log, "x, base=, /", PLAIN},
                                                      {"pow", math_pow, "x, y, /", PLAIN},
                                                      {"gcd", math_gcd, "*rest", 0, NATIVE_PLAIN},
                                                      {"lcm", math_gcd, "*rest", 1, NATIVE_PLAIN},
                                                      {"isqrt", math_isqrt, "n, /", PLAIN},
                                                      {"prod", math_prod, "iterable, /, *, start=", PLAIN},
                                                      {NULL, NULL, NULL, PLAIN}};
static const struct script_constant math_constants[] = {{"pi", {.tag = SV_FLOAT, .f = 3.141592653589793}},
                                                        {"e", {.tag = SV_FLOAT, .f = 2.718281828459045}},
                                                        {"tau", {.tag = SV_FLOAT, .f = 6.283185307179586}},
                                                        {"inf", {.tag = SV_FLOAT, .f = (double)INFINITY}},
                                                        {"nan", {.tag = SV_FLOAT, .f = (double)NAN}},
                                                        {NULL, {.tag = SV_NULL}}};
static const struct script_module math = {"math", math_functions, NULL, math_constants, NULL};

/* ---- partial */

static const struct script_class partial_class;

struct partial {
    struct script_object base;
    sv function, args, kw;
};

static sv partial_init(struct script *s, const struct script_args *a)
{
    struct partial *p = (struct partial *)(void *)a->v[0].o;
    sv kw;

    if (a->n < 2)
        return script_raise(s, EXC_TypeError, "type 'partial' takes at least one argument");
    kw = dict_new(s);
    for (uint32_t i = 0; sv_ok(kw) && i < a->n_kw; i++)
        if (!dict_put(s, dict_ptr(kw), a->names[i], a->kw[i]))
            return sv_null();
    p->function = sv_keep(a->v[1]);
    p->args = tuple_new(s, a->n - 2, a->v + 2);
    p->kw = kw;
    return sv_ok(kw) && sv_ok(p->args) ? sv_none() : sv_null();
}

static sv partial_call(struct script *s, sv self, const struct script_args *a)
{
    struct partial *p = (struct partial *)(void *)self.o;
    sv l = list_of(s, p->args), t, kw, r;
    bool ok = sv_ok(l);

    for (uint32_t i = 0; ok && i < a->n; i++)
        ok = list_append(s, l, a->v[i]);
    kw = ok ? dict_copy(s, dict_ptr(p->kw)) : sv_null();
    ok = ok && sv_ok(kw);
    for (uint32_t i = 0; ok && i < a->n_kw; i++)
        ok = dict_put(s, dict_ptr(kw), a->names[i], a->kw[i]);
    t = ok ? tuple_of(s, l) : sv_null();
    sv_drop(s, l);
    r = sv_ok(t) ? script_call_spread(s, p->function, t, kw) : t;
    sv_drop(s, t);
    sv_drop(s, kw);
    return r;
}

bool script_partial(struct script *s, sv v, sv *function, sv *args, sv *kw)
{
    const struct partial *p;

    if (!sv_is(v, KIND_INSTANCE) || !sv_isa(s, v, &partial_class))
        return false;
    p = (const struct partial *)(const void *)v.o;
    *function = p->function;
    *args = p->args;
    *kw = p->kw;
    return true;
}

static void partial_die(struct script *s, struct obj *o)
{
    struct partial *p = (struct partial *)(void *)o;

    sv_drop(s, p->function);
    sv_drop(s, p->args);
    sv_drop(s, p->kw);
}

static sv partial_part(struct script *s, sv self, uint32_t data)
{
    struct partial *p = (struct partial *)(void *)self.o;

    (void)s;
    return sv_keep(data == 0 ? p->function : data == 1 ? p->args : p->kw);
}

static const struct script_native partial_methods[] = {{"__init__", partial_init, NULL, PLAIN}, {NULL, NULL, NULL, PLAIN}};
static const struct script_member partial_members[] = {{"func", partial_part, NULL, 0},
                                                       {"args", partial_part, NULL, 1},
                                                       {"keywords", partial_part, NULL, 2},
                                                       {NULL, NULL, NULL, 0}};
static const struct script_class partial_class = {.name = "partial",
                                                  .bytes = sizeof(struct partial),
                                                  .methods = partial_methods,
                                                  .members = partial_members,
                                                  .die = partial_die,
                                                  .call = partial_call};
static const struct script_class *const functools_classes[] = {&partial_class, NULL};
static const struct script_module functools = {"functools", NULL, functools_classes, NULL, NULL};

/* ---- what the library's own modules ask for */

static sv type_of_kind(struct script *s, const struct script_args *a)
{
    static const struct {
        const char *name;
        uint8_t type;
    } rows[] = {{"NoneType", B_NONE},      {"FunctionType", B_FUNC}, {"MethodType", B_METHOD},
                {"ModuleType", B_MODULE},  {"GeneratorType", B_GEN}, {"BuiltinFunctionType", B_NATIVE},
                {"GenericAlias", B_ALIAS}, {"UnionType", B_UNION},   {"cached_property", B_CACHED},
                {"CellType", B_CELL},      {"CodeType", B_CODE},     {"EllipsisType", B_ELLIPSIS},
                {"TracebackType", B_TRACE}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_is(a->v[0], rows[i].name))
            return sv_forever(s->w->types[rows[i].type]);
    return script_raise(s, EXC_KeyError, "no such type");
}

static sv make_method(struct script *s, const struct script_args *a)
{
    return method_new(s, a->v[0], a->v[1]);
}

static sv make_alias(struct script *s, const struct script_args *a)
{
    return alias_new(s, a->v[0], a->v[1]);
}

/* The module whose function called the function that asks. */
static sv caller_module(struct script *s, const struct script_args *a)
{
    const struct frame *f = s->frame ? s->frame->back : NULL;

    (void)a;
    return f ? sv_forever(f->module) : sv_none();
}

static sv modules(struct script *s, const struct script_args *a)
{
    (void)a;
    return sv_keep(sv_counted(s->modules));
}

static sv import_by_name(struct script *s, const struct script_args *a)
{
    struct str *name = name_of(s, a->v[0]);

    return name ? import_module(s, name) : sv_null();
}

static sv set_plain(struct script *s, const struct script_args *a)
{
    return script_set_plain(s, a->v[0], a->v[1], a->v[2]) ? sv_none() : sv_null();
}

/* "self, dim, keepdim=": how a native is called; None: as it comes, or no native. */
static sv signature_of(struct script *s, const struct script_args *a)
{
    const char *text = sv_is(a->v[0], KIND_NATIVE) ? AS(native, a->v[0])->def->signature : NULL;

    return text ? str_new(s, text, strlen(text)) : sv_none();
}

static sv leave_here(struct script *s, const struct script_args *a)
{
    return script_leave(s, "%.150s", as_str(a->v[0]) ? as_str(a->v[0])->text : "?");
}

static const struct script_native library_functions[] = {{"type_of_kind", type_of_kind, "name, /", PLAIN},
                                                         {"make_method", make_method, "function, self, /", PLAIN},
                                                         {"make_alias", make_alias, "origin, args, /", PLAIN},
                                                         {"caller_module", caller_module, "", PLAIN},
                                                         {"modules", modules, "", PLAIN},
                                                         {"import_by_name", import_by_name, "name, /", PLAIN},
                                                         {"set_plain", set_plain, "obj, name, value, /", PLAIN},
                                                         {"signature_of", signature_of, "function, /", PLAIN},
                                                         {"leave", leave_here, "what, /", PLAIN},
                                                         {NULL, NULL, NULL, PLAIN}};
static const struct script_module library = {"_script", library_functions, NULL, NULL, NULL};

const struct script_module *const builtin_modules[] = {&math, &functools, &library, NULL};
