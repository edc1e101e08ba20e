/* Text of values: str(), repr(), format(), %. */
#include "script/object.h"

#include "base/ascii.h"
#include "script/number.h"

#include <math.h>
#include <stdio.h>

static void put_repr(struct writer *w, sv v)
{
    sv t;

    if (w->failed || w->s->over)
        return;
    t = script_repr(w->s, v);
    if (!sv_ok(t)) {
        unwritten(w);
        w->failed = true;
        return;
    }
    text_put(w, AS(str, t)->text, AS(str, t)->bytes);
    sv_drop(w->s, t);
}

/* Bytes that repr() writes as they are. */
static uint32_t plain_run(const struct str *t, uint32_t from, char quote)
{
    uint32_t i = from;

    while (i < t->bytes && (unsigned char)t->text[i] >= 0x20 && t->text[i] != 0x7F && t->text[i] != quote && t->text[i] != '\\')
        i++;
    return i - from;
}

static sv repr_str(struct script *s, const struct str *t)
{
    struct writer w = {.s = s};
    char quote = memchr(t->text, '\'', t->bytes) && !memchr(t->text, '"', t->bytes) ? '"' : '\'';
    char text[8];

    if (!pay_letters(s, t->bytes))
        return sv_null();
    text_put(&w, &quote, 1);
    for (uint32_t i = 0, run; i < t->bytes; i++) {
        unsigned char c;

        run = plain_run(t, i, quote);
        text_put(&w, t->text + i, run);
        i += run;
        if (i == t->bytes)
            break;
        c = (unsigned char)t->text[i];
        if (c == (unsigned char)quote || c == '\\') {
            text[0] = '\\';
            text[1] = (char)c;
            text_put(&w, text, 2);
        } else if (c == '\n' || c == '\r' || c == '\t') {
            put_text(&w, c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t");
        } else {
            text_put(&w, text, (size_t)snprintf(text, sizeof text, "\\x%02x", c));
        }
    }
    text_put(&w, &quote, 1);
    return written(&w);
}

static sv repr_items(struct script *s, const sv *items, uint32_t n, const char *open, const char *close, bool tuple)
{
    struct writer w = {.s = s};

    put_text(&w, open);
    for (uint32_t i = 0; i < n && !w.failed; i++) {
        if (i)
            put_text(&w, ", ");
        put_repr(&w, items[i]);
    }
    if (tuple && n == 1)
        put_text(&w, ",");
    put_text(&w, close);
    return written(&w);
}

static sv repr_dict(struct script *s, const struct dict *d, bool set, enum iter_kind part)
{
    struct writer w = {.s = s};
    bool first = true, frozen = set && d->h.cls == s->w->types[B_FROZENSET];

    if (set && !d->n)
        return str_format(s, frozen ? "frozenset()" : "set()");
    if (frozen)
        put_text(&w, "frozenset(");
    put_text(&w, part == ITER_KEYS ? "{" : part == ITER_VALUES ? "dict_values([" : "dict_items([");
    for (uint32_t i = 0; i < d->used && !w.failed; i++) {
        if (d->entries[i].key.tag == SV_NULL)
            continue;
        if (!first)
            put_text(&w, ", ");
        first = false;
        if (part == ITER_ITEMS)
            put_text(&w, "(");
        if (part != ITER_VALUES)
            put_repr(&w, d->entries[i].key);
        if (set)
            continue;
        if (part == ITER_KEYS)
            put_text(&w, ": ");
        if (part == ITER_ITEMS)
            put_text(&w, ", ");
        if (i < d->used)
            put_repr(&w, d->entries[i].value);
        if (part == ITER_ITEMS)
            put_text(&w, ")");
    }
    put_text(&w, part == ITER_KEYS ? "}" : "])");
    if (frozen)
        put_text(&w, ")");
    return written(&w);
}

static sv repr_view(struct script *s, const struct view *v)
{
    const struct dict *d = dict_ptr(v->dict);
    struct writer w = {.s = s};
    bool first = true;

    if (v->h.aux != ITER_KEYS)
        return repr_dict(s, d, false, (enum iter_kind)v->h.aux);
    put_text(&w, "dict_keys([");
    for (uint32_t i = 0; i < d->used && !w.failed; i++) {
        if (d->entries[i].key.tag == SV_NULL)
            continue;
        put_text(&w, first ? "" : ", ");
        first = false;
        put_repr(&w, d->entries[i].key);
    }
    put_text(&w, "])");
    return written(&w);
}

static sv repr_alias(struct script *s, const struct alias *a)
{
    struct writer w = {.s = s};
    uint32_t n;
    const sv *items = seq_items(a->args, &n);

    if (a->origin.tag != SV_NONE) {
        put_text(&w, sv_as_class(a->origin) ? sv_as_class(a->origin)->name->text : "alias");
        put_text(&w, "[");
    }
    for (uint32_t i = 0; i < n && !w.failed; i++) {
        if (i)
            put_text(&w, a->origin.tag == SV_NONE ? " | " : ", ");
        if (sv_as_class(items[i]))
            put_text(&w, sv_as_class(items[i])->name->text);
        else
            put_repr(&w, items[i]);
    }
    if (a->origin.tag != SV_NONE)
        put_text(&w, "]");
    return written(&w);
}

static sv repr_exc(struct script *s, sv v)
{
    struct exc *e = AS(exc, v);
    struct writer w = {.s = s};
    uint32_t n;
    const sv *items = seq_items(e->args, &n);

    put_text(&w, v.o->cls->name->text);
    put_text(&w, "(");
    for (uint32_t i = 0; i < n && !w.failed; i++) {
        if (i)
            put_text(&w, ", ");
        put_repr(&w, items[i]);
    }
    put_text(&w, ")");
    return written(&w);
}

static sv repr_object(struct script *s, sv v)
{
    struct cls *c = class_of(s, v);

    if (cls_has(s, c) & HAS_REPR) {
        sv r = special_call(s, v, SYM_repr, 0, NULL);

        if (sv_ok(r) && !sv_is(r, KIND_STR)) {
            sv_drop(s, r);
            return script_raise(s, EXC_TypeError, "__repr__ returned non-string");
        }
        return r;
    }
    if (c->native && c->native->repr)
        return c->native->repr(s, v);
    if (c->flags & CLS_EXCEPTION)
        return repr_exc(s, v);
    if (c->flags & CLS_BOXED)
        return script_repr(s, AS(boxed, v)->value);
    return str_format(s, "<%s.%s object at 0x%llx>", c->module ? c->module->text : "builtins", c->qualname->text,
                      (unsigned long long)script_place(s, v.o));
}

static sv repr_kind(struct script *s, sv v)
{
    uint32_t n;
    const sv *items;
    const struct range *r;

    switch (v.o->kind) {
    case KIND_STR:
        return repr_str(s, AS(str, v));
    case KIND_TUPLE:
        items = seq_items(v, &n);
        return repr_items(s, items, n, "(", ")", true);
    case KIND_LIST:
        items = seq_items(v, &n);
        return repr_items(s, items, n, "[", "]", false);
    case KIND_DICT:
        return repr_dict(s, dict_ptr(v), false, ITER_KEYS);
    case KIND_SET:
        return repr_dict(s, dict_ptr(v), true, ITER_KEYS);
    case KIND_VIEW:
        return repr_view(s, AS(view, v));
    case KIND_FUNC:
        return str_format(s, "<function %.300s at 0x%llx>", as_str(AS(func, v)->qualname)->text, (unsigned long long)script_place(s, v.o));
    case KIND_NATIVE:
        return str_format(s, "<built-in function %s>", AS(native, v)->name->text);
    case KIND_METHOD:
        return str_format(s, "<bound method>");
    case KIND_CLASS: {
        const struct cls *c = AS(cls, v);

        if (!c->module || c->module == s->sym[SYM_builtins_module])
            return str_format(s, "<class '%.300s'>", c->qualname->text);
        return str_format(s, "<class '%.150s.%.300s'>", c->module->text, c->qualname->text);
    }
    case KIND_MODULE:
        return str_format(s, "<module '%.300s'>", AS(module, v)->name->text);
    case KIND_RANGE:
        r = AS(range, v);
        if (r->step == 1)
            return str_format(s, "range(%lld, %lld)", (long long)r->start, (long long)r->stop);
        return str_format(s, "range(%lld, %lld, %lld)", (long long)r->start, (long long)r->stop, (long long)r->step);
    case KIND_SLICE: {
        sv part[3] = {AS(slice, v)->start, AS(slice, v)->stop, AS(slice, v)->step};

        return repr_items(s, part, 3, "slice(", ")", false);
    }
    case KIND_ALIAS:
        return repr_alias(s, AS(alias, v));
    default:
        return str_format(s, "<%s object at 0x%llx>", class_of(s, v)->name->text, (unsigned long long)script_place(s, v.o));
    }
}

sv script_repr(struct script *s, sv v)
{
    char text[40];
    sv r;

    if (!script_charge(s, v.tag == SV_FLOAT ? 32 : 4)) /* the shortest of its texts is looked for */
        return sv_null();
    switch (v.tag) {
    case SV_NULL:
        return str_format(s, "<nothing>");
    case SV_NONE:
        return str_format(s, "None");
    case SV_BOOL:
        return str_format(s, v.i ? "True" : "False");
    case SV_INT:
        return str_format(s, "%lld", (long long)v.i);
    case SV_FLOAT:
        return str_new(s, text, number_repr(v.f, text));
    case SV_ELLIPSIS:
        return str_format(s, "Ellipsis");
    case SV_NOTIMPLEMENTED:
        return str_format(s, "NotImplemented");
    default:
        break;
    }
    if (!enter(s))
        return sv_null();
    if (v.o->kind == KIND_INSTANCE || (v.o->cls && v.o->kind != KIND_CLASS && cls_has(s, v.o->cls) & HAS_REPR))
        r = repr_object(s, v);
    else
        r = repr_kind(s, v);
    leave(s);
    return r;
}

sv script_str(struct script *s, sv v)
{
    struct cls *c;

    if (sv_is(v, KIND_STR))
        return sv_keep(v);
    if (!sv_is_obj(v) || !v.o->cls || v.o->kind == KIND_CLASS)
        return script_repr(s, v);
    c = v.o->cls;
    if (cls_has(s, c) & HAS_STR) {
        sv r = special_call(s, v, SYM_str, 0, NULL);

        if (sv_ok(r) && !as_str(r)) {
            sv_drop(s, r);
            return script_raise(s, EXC_TypeError, "__str__ returned non-string");
        }
        return r;
    }
    if (c->flags & CLS_EXCEPTION && v.o->kind == KIND_INSTANCE) {
        uint32_t n;
        const sv *items = seq_items(AS(exc, v)->args, &n);

        if (!n)
            return sv_forever(s->sym[SYM_empty]);
        if (n > 1)
            return script_repr(s, AS(exc, v)->args);
        return cls_derives(c, s->w->exceptions[EXC_KeyError]) ? script_repr(s, items[0]) : script_str(s, items[0]);
    }
    if (c->flags & CLS_BOXED && sv_is(AS(boxed, v)->value, KIND_STR) && !(cls_has(s, c) & HAS_REPR))
        return sv_keep(AS(boxed, v)->value);
    if (c->flags & CLS_BOXED && sv_is(AS(boxed, v)->value, KIND_STR))
        return sv_keep(AS(boxed, v)->value);
    return script_repr(s, v);
}

/* ---- format(value, spec) */

static sv padded(struct script *s, const char *text, size_t n, size_t points, const struct number_spec *spec, char align)
{
    struct writer w = {.s = s};
    size_t room = spec->width > points ? spec->width - points : 0, left, sign = 0;

    if (!script_charge(s, 16 + room / 16))
        return sv_null();
    align = spec->align ? spec->align : align;
    left = align == '>' || align == '=' ? room : align == '^' ? room / 2 : 0;
    if (align == '=' && n && (text[0] == '-' || text[0] == '+' || text[0] == ' '))
        sign = 1;
    text_put(&w, text, sign);
    for (size_t i = 0; i < left; i++)
        put_text(&w, spec->fill);
    text_put(&w, text + sign, n - sign);
    for (size_t i = left; i < room; i++)
        put_text(&w, spec->fill);
    return written(&w);
}

sv format_value(struct script *s, sv v, sv spec_text)
{
    const struct str *t = sv_ok(spec_text) ? as_str(spec_text) : NULL;
    struct number_spec spec;
    char text[512];
    size_t n;
    sv r;

    if (sv_is(v, KIND_INSTANCE)) {
        sv arg = t ? spec_text : sv_forever(s->sym[SYM_empty]);
        int found = special(s, v, SYM_format, 1, &arg, &r);

        if (found)
            return found < 0 ? sv_null() : r;
        if (v.o->cls->flags & CLS_BOXED && t && t->bytes) {
            if (sv_is(AS(boxed, v)->value, KIND_STR))
                v = AS(boxed, v)->value;
            else
                return format_value(s, AS(boxed, v)->value, spec_text);
        }
    }
    if (!t || !t->bytes)
        return script_str(s, v);
    if (!number_spec(t->text, t->bytes, &spec))
        return script_raise(s, EXC_ValueError, "Invalid format specifier '%.60s'", t->text);
    if (v.tag == SV_INT || v.tag == SV_BOOL) {
        n = number_format_int(v.i, &spec, text, sizeof text);
    } else if (v.tag == SV_FLOAT) {
        if (!script_charge(s, spec.precision > 20 || fabs(v.f) > 1e20 ? 64 : 4))
            return sv_null();
        n = number_format_double(v.f, &spec, text, sizeof text);
    } else if (sv_is(v, KIND_STR)) {
        const struct str *x = AS(str, v);
        uint32_t points = str_length(x);
        size_t bytes = x->bytes;

        if (spec.type && spec.type != 's')
            return script_raise(s, EXC_ValueError, "Unknown format code '%c' for object of type 'str'", spec.type);
        if (spec.precision >= 0 && (uint32_t)spec.precision < points) {
            points = (uint32_t)spec.precision;
            bytes = str_offset(x, points);
        }
        return padded(s, x->text, bytes, points, &spec, '<');
    } else
        return script_raise(s, EXC_TypeError, "unsupported format string passed to %s.__format__", class_of(s, v)->name->text);
    if (!n)
        return script_raise(s, EXC_ValueError, "Unknown format code '%c' for object of type '%s'", spec.type ? spec.type : '?',
                            class_of(s, v)->name->text);
    return padded(s, text, n, n, &spec, '>');
}

/* ---- "..." % values */

static bool percent_one(struct script *s, struct writer *w, const char *spec, size_t n, char type, sv v)
{
    struct number_spec f = {.fill = " ", .precision = -1, .align = '>'};
    char text[512];
    size_t got = 0;
    sv t;

    for (size_t i = 0; i < n; i++) {
        char c = spec[i];

        if (c == '-')
            f.align = '<';
        else if (c == '+' || c == ' ')
            f.sign = c;
        else if (c == '0' && !f.width && f.precision < 0) {
            if (f.align == '>') {
                f.align = '=';
                memcpy(f.fill, "0", 2);
            }
        } else if (c == '#')
            f.alternate = true;
        else if (c == '.')
            f.precision = 0;
        else if (ascii_digit(c) && f.precision < 0)
            f.width = f.width < 10000 ? f.width * 10 + (uint32_t)(c - '0') : f.width;
        else if (ascii_digit(c))
            f.precision = f.precision < 10000 ? f.precision * 10 + (c - '0') : f.precision;
    }
    if (type == 's' || type == 'r' || type == 'a') {
        t = type == 's' ? script_str(s, v) : script_repr(s, v);
        if (!sv_ok(t))
            return false;
        uint32_t points = str_length(AS(str, t));
        sv p = padded(s, AS(str, t)->text, AS(str, t)->bytes, points, &f, '>');

        sv_drop(s, t);
        if (!sv_ok(p))
            return false;
        text_put(w, AS(str, p)->text, AS(str, p)->bytes);
        sv_drop(s, p);
        return true;
    }
    if (strchr("diuxXo", type)) {
        int64_t i;

        if (v.tag == SV_FLOAT)
            i = (int64_t)v.f;
        else if (!script_int(s, v, &i))
            return false;
        f.type = type == 'x' || type == 'X' || type == 'o' ? type : 'd';
        f.precision = -1;
        got = number_format_int(i, &f, text, sizeof text);
    } else if (strchr("eEfFgG", type)) {
        double x;

        if (!script_double(s, v, &x))
            return false;
        f.type = type;
        got = number_format_double(x, &f, text, sizeof text);
    } else {
        (void)script_raise(s, EXC_ValueError, "unsupported format character '%c'", type);
        return false;
    }
    t = padded(s, text, got, got, &f, '>');
    if (!sv_ok(t))
        return false;
    text_put(w, AS(str, t)->text, AS(str, t)->bytes);
    sv_drop(s, t);
    return true;
}

sv format_percent(struct script *s, const struct str *fmt, sv args)
{
    struct writer w = {.s = s};
    uint32_t n = 1, at = 0;
    const sv *items = as_tuple(args) ? seq_items(args, &n) : &args;

    for (uint32_t i = 0; i < fmt->bytes && !w.failed;) {
        uint32_t from = i;
        sv v;

        while (i < fmt->bytes && fmt->text[i] != '%')
            i++;
        text_put(&w, fmt->text + from, i - from);
        if (i >= fmt->bytes)
            break;
        if (++i < fmt->bytes && fmt->text[i] == '%') {
            put_text(&w, "%");
            i++;
            continue;
        }
        v = sv_null();
        if (i < fmt->bytes && fmt->text[i] == '(') {
            uint32_t key = ++i;
            sv name;

            while (i < fmt->bytes && fmt->text[i] != ')')
                i++;
            name = str_new(s, fmt->text + key, i - key);
            i += i < fmt->bytes;
            v = sv_ok(name) ? script_getitem(s, args, name) : name;
            sv_drop(s, name);
            if (!sv_ok(v)) {
                unwritten(&w);
                return sv_null();
            }
            at = n;
        }
        from = i;
        while (i < fmt->bytes && strchr("-+ #0123456789.", fmt->text[i]))
            i++;
        if (!sv_ok(v)) {
            if (at >= n) {
                unwritten(&w);
                return script_raise(s, EXC_TypeError, "not enough arguments for format string");
            }
            v = sv_keep(items[at++]);
        }
        bool ok = i < fmt->bytes && percent_one(s, &w, fmt->text + from, i - from, fmt->text[i], v);

        sv_drop(s, v);
        if (!ok) {
            unwritten(&w);
            return script_failed(s) ? sv_null() : script_raise(s, EXC_ValueError, "incomplete format");
        }
        i++;
    }
    if (at < n && as_tuple(args)) {
        unwritten(&w);
        return script_raise(s, EXC_TypeError, "not all arguments converted during string formatting");
    }
    return written(&w);
}

/* ---- "...".format(..) */

static sv field_value(struct script *s, const char *name, size_t n, const struct script_args *a, uint32_t *next)
{
    size_t i = 0;
    sv v = sv_null();
    int64_t at;

    while (i < n && name[i] != '.' && name[i] != '[')
        i++;
    if (!i || ascii_digit(*name)) {
        uint32_t k = *next;

        if (i) {
            k = 0;
            for (size_t d = 0; d < i; d++)
                k = k < 100000 ? k * 10 + (uint32_t)(name[d] - '0') : k;
        } else
            ++*next;
        if (k >= a->n)
            return script_raise(s, EXC_IndexError, "Replacement index %u out of range for positional args tuple", k);
        v = sv_keep(a->v[k]);
    } else {
        for (uint32_t k = 0; k < a->n_kw; k++)
            if (as_str(a->names[k])->bytes == i && memcmp(as_str(a->names[k])->text, name, i) == 0)
                v = sv_keep(a->kw[k]);
        if (!sv_ok(v)) {
            sv key = str_new(s, name, i);

            if (sv_ok(key))
                (void)script_raise(s, EXC_KeyError, "%s", AS(str, key)->text);
            sv_drop(s, key);
            return sv_null();
        }
    }
    while (i < n && sv_ok(v)) {
        size_t from = i + 1;
        sv key, r;

        if (name[i] == '.') {
            for (i = from; i < n && name[i] != '.' && name[i] != '['; i++)
                ;
            key = str_new(s, name + from, i - from);
            r = sv_ok(key) ? script_get(s, v, key) : key;
        } else {
            for (i = from; i < n && name[i] != ']'; i++)
                ;
            if (number_int(name + from, i - from, 10, &at) == NUMBER_OK)
                key = sv_int(at);
            else
                key = str_new(s, name + from, i - from);
            r = sv_ok(key) ? script_getitem(s, v, key) : key;
            i++;
        }
        sv_drop(s, key);
        sv_drop(s, v);
        v = r;
    }
    return v;
}

sv format_call(struct script *s, const struct str *fmt, const struct script_args *a)
{
    struct writer w = {.s = s};
    uint32_t next = 0;
    const char *t = fmt->text, *end = t + fmt->bytes;

    while (t < end && !w.failed) {
        const char *from = t, *name, *spec;
        char conversion = 0;
        sv v, text, r;

        while (t < end && *t != '{' && *t != '}')
            t++;
        text_put(&w, from, (size_t)(t - from));
        if (t >= end)
            break;
        if (t + 1 < end && t[1] == *t) {
            text_put(&w, t, 1);
            t += 2;
            continue;
        }
        name = ++t;
        while (t < end && *t != '}' && *t != ':' && *t != '!' && *t != '{')
            t++;
        v = field_value(s, name, (size_t)(t - name), a, &next);
        if (t + 1 < end && *t == '!') {
            conversion = t[1];
            t += 2;
        }
        spec = t < end && *t == ':' ? ++t : t;
        while (t < end && *t != '}' && *t != '{')
            t++;
        if (!sv_ok(v) || t >= end || *t == '{') {
            sv_drop(s, v);
            unwritten(&w);
            return script_failed(s) ? sv_null() : script_leave(s, "a format string whose spec has fields");
        }
        if (conversion) {
            r = conversion == 's' ? script_str(s, v) : script_repr(s, v);
            sv_drop(s, v);
            v = r;
        }
        text = sv_ok(v) ? str_new(s, spec, (size_t)(t - spec)) : v;
        r = sv_ok(text) ? format_value(s, v, text) : text;
        sv_drop(s, v);
        sv_drop(s, text);
        if (!sv_ok(r)) {
            unwritten(&w);
            return r;
        }
        text_put(&w, AS(str, r)->text, AS(str, r)->bytes);
        sv_drop(s, r);
        t++;
    }
    return written(&w);
}
