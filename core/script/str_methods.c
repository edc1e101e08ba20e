/* Methods of str. */
#include "script/object.h"

#include "base/ascii.h"

#define PLAIN 0, NATIVE_PLAIN

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f);
}

static const struct str *self(const struct script_args *a)
{
    return as_str(a->v[0]);
}

static const struct str *text_arg(struct script *s, sv v)
{
    const struct str *t = as_str(v);

    if (!t)
        (void)script_raise(s, EXC_TypeError, "must be str, not %s", class_of(s, v)->name->text);
    return t;
}

static sv piece(struct script *s, const char *from, const char *to)
{
    return str_new(s, from, (size_t)(to - from));
}

static bool add(struct script *s, sv list, const char *from, const char *to)
{
    sv t = script_charge(s, 1) ? piece(s, from, to) : sv_null();

    return sv_ok(t) && list_push(s, AS(list, list), t);
}

static sv split(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *by = sv_given(a->v[1]) ? text_arg(s, a->v[1]) : NULL;
    const char *at = t->text, *end = at + t->bytes, *next;
    int64_t most = -1;
    sv r;

    if ((sv_given(a->v[1]) && !by) || (sv_ok(a->v[2]) && !script_int(s, a->v[2], &most)))
        return sv_null();
    if (by && !by->bytes)
        return script_raise(s, EXC_ValueError, "empty separator");
    r = list_new(s, 0, NULL);
    if (!sv_ok(r))
        return r;
    if (by) {
        for (; most != 0 && (next = text_find(s, at, (size_t)(end - at), by)); most--) {
            if (!add(s, r, at, next))
                goto fail;
            at = next + by->bytes;
        }
        if (!add(s, r, at, end))
            goto fail;
        return r;
    }
    for (; at < end; most--) {
        while (at < end && blank(*at))
            at++;
        if (at == end)
            break;
        for (next = at; next < end && (most == 0 || !blank(*next)); next++)
            ;
        if (most == 0)
            while (next > at && blank(next[-1]))
                next--;
        if (!add(s, r, at, next))
            goto fail;
        at = next;
        if (most == 0)
            break;
    }
    return r;
fail:
    sv_drop(s, r);
    return sv_null();
}

static sv rsplit(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *by = sv_given(a->v[1]) ? text_arg(s, a->v[1]) : NULL;
    int64_t most = -1;
    const char *end = t->text + t->bytes, *at;
    sv r;

    if (!by)
        return sv_given(a->v[1]) ? sv_null() : split(s, a);
    if (sv_ok(a->v[2]) && !script_int(s, a->v[2], &most))
        return sv_null();
    if (!by->bytes)
        return script_raise(s, EXC_ValueError, "empty separator");
    r = list_new(s, 0, NULL);
    if (!pay_letters(s, t->bytes))
        most = 0;
    for (at = end - by->bytes; sv_ok(r) && most != 0 && at >= t->text;) {
        if (!pay_bytes(s, by->bytes))
            break;
        if (memcmp(at, by->text, by->bytes) != 0) {
            at--;
            continue;
        }
        if (!add(s, r, at + by->bytes, end))
            break;
        end = at;
        at -= by->bytes;
        most--;
    }
    if (!sv_ok(r) || !add(s, r, t->text, end)) {
        sv_drop(s, r);
        return sv_null();
    }
    for (uint32_t i = 0, k = AS(list, r)->n; i + 1 < k; i++) {
        sv x = AS(list, r)->items[i];

        AS(list, r)->items[i] = AS(list, r)->items[--k];
        AS(list, r)->items[k] = x;
    }
    return r;
}

static sv splitlines(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a);
    const char *at = t->text, *end = at + t->bytes;
    sv r = pay_letters(s, t->bytes) ? list_new(s, 0, NULL) : sv_null();

    while (sv_ok(r) && at < end) {
        const char *next = at;

        while (next < end && *next != '\n' && *next != '\r')
            next++;
        if (!add(s, r, at, next))
            return sv_null();
        at = next + (next + 1 < end && next[0] == '\r' && next[1] == '\n' ? 2 : 1);
    }
    return r;
}

static sv strip(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *any = sv_given(a->v[1]) ? text_arg(s, a->v[1]) : NULL;
    const char *from = t->text, *to = from + t->bytes;

    if (sv_given(a->v[1]) && !any)
        return sv_null();
    if (!script_charge(s, t->bytes / 64) || (any && t->bytes && !script_charge(s, any->bytes * (uint64_t)t->bytes / 1024)))
        return sv_null();
    if (a->def->data & 1)
        while (from < to && (any ? memchr(any->text, *from, any->bytes) != NULL : blank(*from)))
            from++;
    if (a->def->data & 2)
        while (to > from && (any ? memchr(any->text, to[-1], any->bytes) != NULL : blank(to[-1])))
            to--;
    return piece(s, from, to);
}

static int affix_one(struct script *s, const char *at, size_t n, sv v, bool end)
{
    const struct str *t = text_arg(s, v);

    if (!t || (t->bytes <= n && !pay_bytes(s, t->bytes)))
        return -1;
    return t->bytes <= n && memcmp(end ? at + n - t->bytes : at, t->text, t->bytes) == 0;
}

static sv affix(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a);
    const char *at = t->text;
    size_t n = t->bytes;
    uint32_t k = 1;
    const sv *items = as_tuple(a->v[1]) ? seq_items(a->v[1], &k) : &a->v[1];
    int64_t from = 0;

    if (!pay_items(s, k))
        return sv_null();
    if (sv_ok(a->v[2])) {
        if (!script_int(s, a->v[2], &from) || !pay_letters(s, t->bytes))
            return sv_null();
        from += from < 0 ? str_length(t) : 0;
        from = from < 0 ? 0 : from;
        if (from > str_length(t))
            return sv_bool(false);
        at += str_offset(t, (uint32_t)from);
        n -= (size_t)(at - t->text);
    }
    for (uint32_t i = 0; i < k; i++) {
        int yes = affix_one(s, at, n, items[i], a->def->data);

        if (yes)
            return yes < 0 ? sv_null() : sv_bool(true);
    }
    return sv_bool(false);
}

static sv remove_affix(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *x = text_arg(s, a->v[1]);
    int yes = x ? affix_one(s, t->text, t->bytes, a->v[1], a->def->data) : -1;

    if (yes < 0)
        return sv_null();
    if (!yes)
        return sv_keep(a->v[0]);
    return a->def->data ? piece(s, t->text, t->text + t->bytes - x->bytes) : piece(s, t->text + x->bytes, t->text + t->bytes);
}

enum { CASE_LOWER, CASE_UPPER, CASE_CAPITALIZE, CASE_TITLE, CASE_SWAP };

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static sv recase(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a);
    struct str *r = str_raw(s, t->bytes);
    bool first = true;

    if (!r || !pay_letters(s, t->bytes))
        return sv_null();
    for (uint32_t i = 0; i < t->bytes; i++) {
        char c = t->text[i];

        switch (a->def->data) {
        case CASE_LOWER:
            c = ascii_lower(c);
            break;
        case CASE_UPPER:
            c = upper(c);
            break;
        case CASE_SWAP:
            c = c >= 'a' && c <= 'z' ? upper(c) : ascii_lower(c);
            break;
        default:
            c = first ? upper(c) : ascii_lower(c);
            first = a->def->data == CASE_TITLE && ascii_lower(c) == upper(c);
        }
        r->text[i] = c;
    }
    r->h.flags = t->h.flags & STR_ASCII;
    return sv_counted(r);
}

static sv join(struct script *s, const struct script_args *a)
{
    return str_join(s, self(a), a->v[1]);
}

static sv replace(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *from = text_arg(s, a->v[1]), *to = from ? text_arg(s, a->v[2]) : NULL;
    const char *at = t->text, *end = at + t->bytes, *next;
    struct writer w = {.s = s};
    int64_t most = -1;

    if (!to || (sv_ok(a->v[3]) && !script_int(s, a->v[3], &most)))
        return sv_null();
    if (!from->bytes)
        return script_leave(s, "str.replace() of nothing");
    for (; most != 0 && (next = text_find(s, at, (size_t)(end - at), from)); most--) {
        if (!script_charge(s, 1 + to->bytes / 64))
            break;
        text_put(&w, at, (size_t)(next - at));
        text_put(&w, to->text, to->bytes);
        at = next + from->bytes;
    }
    text_put(&w, at, (size_t)(end - at));
    return written(&w);
}

static uint32_t points_before(const struct str *t, const char *at)
{
    uint32_t n = 0;

    for (const char *p = t->text; p < at; p++)
        n += ((unsigned char)*p & 0xC0) != 0x80;
    return n;
}

static sv find_in(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *x = text_arg(s, a->v[1]);
    const char *found = NULL, *from = t->text, *end = from + t->bytes;
    int64_t lo = 0, hi = INT64_MAX / 2, n = str_length(t);

    if (!x || (sv_given(a->v[2]) && !script_int(s, a->v[2], &lo)) || (sv_given(a->v[3]) && !script_int(s, a->v[3], &hi)))
        return sv_null();
    lo = lo < 0 ? (lo + n < 0 ? 0 : lo + n) : lo;
    hi = hi < 0 ? (hi + n < 0 ? 0 : hi + n) : hi > n ? n : hi;
    if (!pay_letters(s, t->bytes))
        return sv_null();
    if (lo <= hi) {
        from = t->text + str_offset(t, (uint32_t)lo);
        end = t->text + str_offset(t, (uint32_t)hi);
        if (!(a->def->data & 2)) {
            found = text_find(s, from, (size_t)(end - from), x);
        } else
            for (const char *at = end - x->bytes; !found && at >= from; at--)
                if (!pay_bytes(s, x->bytes))
                    return sv_null();
                else if (memcmp(at, x->text, x->bytes) == 0)
                    found = at;
    }
    if (!found)
        return a->def->data & 1 ? script_raise(s, EXC_ValueError, "substring not found") : sv_int(-1);
    return sv_int(points_before(t, found));
}

static sv count(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *x = text_arg(s, a->v[1]);
    const char *at = t->text, *end = at + t->bytes;
    int64_t n = 0;

    if (!x)
        return sv_null();
    if (!x->bytes)
        return sv_int((int64_t)str_length(t) + 1);
    for (; (at = text_find(s, at, (size_t)(end - at), x)); at += x->bytes)
        if (++n % 16 == 0 && !script_charge(s, 4))
            return sv_null();
    return sv_int(n);
}

static sv partition(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *x = text_arg(s, a->v[1]);
    const char *found = NULL;
    sv three[3], empty = sv_forever(s->sym[SYM_empty]);

    if (!x)
        return sv_null();
    if (!x->bytes)
        return script_raise(s, EXC_ValueError, "empty separator");
    if (!a->def->data) {
        found = text_find(s, t->text, t->bytes, x);
    } else
        for (const char *at = t->text + t->bytes - x->bytes; !found && at >= t->text; at--)
            if (!pay_bytes(s, x->bytes))
                return sv_null();
            else if (memcmp(at, x->text, x->bytes) == 0)
                found = at;
    if (!pay_letters(s, t->bytes))
        return sv_null();
    three[0] = three[1] = three[2] = empty;
    if (!found) {
        three[a->def->data ? 2 : 0] = a->v[0];
        return tuple_new(s, 3, three);
    }
    three[0] = piece(s, t->text, found);
    three[1] = sv_keep(a->v[1]);
    three[2] = piece(s, found + x->bytes, t->text + t->bytes);
    return tuple_take(s, 3, three);
}

enum { IS_DIGIT, IS_ALPHA, IS_ALNUM, IS_SPACE, IS_UPPER, IS_LOWER, IS_IDENTIFIER };

static sv is(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a);
    bool cased = false;

    if (!pay_letters(s, t->bytes))
        return sv_null();
    for (uint32_t i = 0; i < t->bytes; i++) {
        char c = t->text[i];
        bool alpha = ascii_lower(c) != upper(c) || (unsigned char)c >= 0x80, digit = ascii_digit(c), ok = true;

        switch (a->def->data) {
        case IS_DIGIT:
            ok = digit;
            break;
        case IS_ALPHA:
            ok = alpha;
            break;
        case IS_ALNUM:
            ok = alpha || digit;
            break;
        case IS_SPACE:
            ok = blank(c);
            break;
        case IS_UPPER:
            ok = !(c >= 'a' && c <= 'z');
            break;
        case IS_LOWER:
            ok = !(c >= 'A' && c <= 'Z');
            break;
        default:
            ok = alpha || c == '_' || (digit && i);
        }
        cased |= alpha;
        if (!ok)
            return sv_bool(false);
    }
    return sv_bool(t->bytes && (cased || (a->def->data != IS_UPPER && a->def->data != IS_LOWER)));
}

static sv pad(struct script *s, const struct script_args *a)
{
    const struct str *t = self(a), *fill = sv_ok(a->v[2]) ? text_arg(s, a->v[2]) : NULL;
    int64_t width, have = str_length(t), left;
    struct writer w = {.s = s};
    size_t sign = 0;

    if ((sv_ok(a->v[2]) && !fill) || !script_int(s, a->v[1], &width))
        return sv_null();
    if (width > 1 << 20)
        return script_nomem(s);
    left = a->def->data == 'l' ? 0 : a->def->data == 'c' ? (width - have) / 2 : width - have;
    if (a->def->data == 'z' && t->bytes && (t->text[0] == '-' || t->text[0] == '+'))
        sign = 1;
    text_put(&w, t->text, sign);
    for (int64_t i = 0; i < left; i++)
        put_text(&w, fill ? fill->text : a->def->data == 'z' ? "0" : " ");
    text_put(&w, t->text + sign, t->bytes - sign);
    for (int64_t i = left < 0 ? 0 : left; i < width - have; i++)
        put_text(&w, fill ? fill->text : " ");
    return written(&w);
}

static sv format(struct script *s, const struct script_args *a)
{
    struct script_args rest = *a;

    if (!a->n)
        return script_raise(s, EXC_TypeError, "format() needs a string");
    rest.v = a->v + 1;
    rest.n = a->n - 1;
    return format_call(s, self(a), &rest);
}

static sv encode(struct script *s, const struct script_args *a)
{
    (void)a;
    return script_leave(s, "bytes");
}

static sv new (struct script *s, const struct script_args *a)
{
    struct cls *c = AS(cls, a->v[0]);
    sv t = sv_ok(a->v[1]) ? script_str(s, a->v[1]) : sv_forever(s->sym[SYM_empty]), v;

    if (!sv_ok(t) || c == s->w->types[B_STR])
        return t;
    v = instance_new(s, c);
    if (sv_ok(v))
        AS(boxed, v)->value = t;
    else
        sv_drop(s, t);
    return v;
}

static sv plain_str(struct script *s, const struct script_args *a)
{
    (void)s;
    return sv_keep(sv_is(a->v[0], KIND_STR) ? a->v[0] : AS(boxed, a->v[0])->value);
}

static sv plain_eq(struct script *s, const struct script_args *a)
{
    const struct str *t = as_str(a->v[1]);

    if (t && !pay_bytes(s, t->bytes))
        return sv_null();
    return t ? sv_bool(str_same(self(a), t)) : sv_not_implemented();
}

static sv plain_hash(struct script *s, const struct script_args *a)
{
    (void)s;
    return sv_int(str_hash(self(a)));
}

const struct script_native str_methods[] = {{"__new__", new, "cls, object=, encoding=, errors=", 0, NATIVE_STATIC},
                                            {"__str__", plain_str, "self, /", PLAIN},
                                            {"__eq__", plain_eq, "self, other, /", PLAIN},
                                            {"__hash__", plain_hash, "self, /", PLAIN},
                                            {"split", split, "self, sep=, maxsplit=", PLAIN},
                                            {"rsplit", rsplit, "self, sep=, maxsplit=", PLAIN},
                                            {"splitlines", splitlines, "self, /", PLAIN},
                                            {"strip", strip, "self, chars=, /", 3, NATIVE_PLAIN},
                                            {"lstrip", strip, "self, chars=, /", 1, NATIVE_PLAIN},
                                            {"rstrip", strip, "self, chars=, /", 2, NATIVE_PLAIN},
                                            {"startswith", affix, "self, prefix, start=, /", 0, NATIVE_PLAIN},
                                            {"endswith", affix, "self, suffix, start=, /", 1, NATIVE_PLAIN},
                                            {"removeprefix", remove_affix, "self, prefix, /", 0, NATIVE_PLAIN},
                                            {"removesuffix", remove_affix, "self, suffix, /", 1, NATIVE_PLAIN},
                                            {"lower", recase, "self, /", CASE_LOWER, NATIVE_PLAIN},
                                            {"casefold", recase, "self, /", CASE_LOWER, NATIVE_PLAIN},
                                            {"upper", recase, "self, /", CASE_UPPER, NATIVE_PLAIN},
                                            {"capitalize", recase, "self, /", CASE_CAPITALIZE, NATIVE_PLAIN},
                                            {"title", recase, "self, /", CASE_TITLE, NATIVE_PLAIN},
                                            {"swapcase", recase, "self, /", CASE_SWAP, NATIVE_PLAIN},
                                            {"join", join, "self, iterable, /", PLAIN},
                                            {"replace", replace, "self, old, new, count=, /", PLAIN},
                                            {"find", find_in, "self, sub, start=, end=, /", 0, NATIVE_PLAIN},
                                            {"index", find_in, "self, sub, start=, end=, /", 1, NATIVE_PLAIN},
                                            {"rfind", find_in, "self, sub, start=, end=, /", 2, NATIVE_PLAIN},
                                            {"rindex", find_in, "self, sub, start=, end=, /", 3, NATIVE_PLAIN},
                                            {"count", count, "self, sub, /", PLAIN},
                                            {"partition", partition, "self, sep, /", 0, NATIVE_PLAIN},
                                            {"rpartition", partition, "self, sep, /", 1, NATIVE_PLAIN},
                                            {"isdigit", is, "self, /", IS_DIGIT, NATIVE_PLAIN},
                                            {"isdecimal", is, "self, /", IS_DIGIT, NATIVE_PLAIN},
                                            {"isnumeric", is, "self, /", IS_DIGIT, NATIVE_PLAIN},
                                            {"isalpha", is, "self, /", IS_ALPHA, NATIVE_PLAIN},
                                            {"isalnum", is, "self, /", IS_ALNUM, NATIVE_PLAIN},
                                            {"isspace", is, "self, /", IS_SPACE, NATIVE_PLAIN},
                                            {"isupper", is, "self, /", IS_UPPER, NATIVE_PLAIN},
                                            {"islower", is, "self, /", IS_LOWER, NATIVE_PLAIN},
                                            {"isidentifier", is, "self, /", IS_IDENTIFIER, NATIVE_PLAIN},
                                            {"ljust", pad, "self, width, fill=, /", 'l', NATIVE_PLAIN},
                                            {"rjust", pad, "self, width, fill=, /", 'r', NATIVE_PLAIN},
                                            {"center", pad, "self, width, fill=, /", 'c', NATIVE_PLAIN},
                                            {"zfill", pad, "self, width, fill=, /", 'z', NATIVE_PLAIN},
                                            {"format", format, NULL, PLAIN},
                                            {"encode", encode, "self, encoding=, errors=", PLAIN},
                                            {NULL, NULL, NULL, PLAIN}};
