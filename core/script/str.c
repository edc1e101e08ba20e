/* Strings: UTF-8, counted in code points. */
#include "script/object.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

enum { STR_MAX = 1 << 28 };

uint32_t text_hash(const char *text, size_t bytes)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ bytes, word;

    for (; bytes >= 8; bytes -= 8, text += 8) {
        memcpy(&word, text, 8);
        h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    for (; bytes; bytes--)
        h = (h ^ (unsigned char)*text++) * UINT64_C(0x100000001b3);
    h ^= h >> 32;
    h *= UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 32;
    return (uint32_t)h | 1; /* 0: not known yet */
}

uint32_t str_hash(const struct str *t)
{
    if (!t->hash) /* only counted ones: what an image holds has its hash */
        ((struct str *)(uintptr_t)t)->hash = text_hash(t->text, t->bytes);
    return t->hash;
}

struct str *str_raw(struct script *s, size_t bytes)
{
    struct str *t = bytes > STR_MAX ? NULL : obj_new(s, sizeof *t + bytes + 1, KIND_STR);

    if (!t) {
        (void)script_nomem(s);
        return NULL;
    }
    t->bytes = (uint32_t)bytes;
    t->hash = 0;
    memset(t->text + bytes, 0, sizeof(uint64_t) - (offsetof(struct str, text) + bytes) % sizeof(uint64_t)); /* whole words: freeze.h */
    return t;
}

static bool ascii(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80)
            return false;
    return true;
}

sv str_new(struct script *s, const char *text, size_t bytes)
{
    struct str *t;

    if (!bytes)
        return sv_forever(s->sym[SYM_empty]);
    if (bytes == 1 && (unsigned char)*text < 128)
        return sv_forever(s->w->letters[(unsigned char)*text]);
    t = str_raw(s, bytes);
    if (!t)
        return sv_null();
    memcpy(t->text, text, bytes);
    if (ascii(text, bytes))
        t->h.flags = STR_ASCII;
    return sv_counted(t);
}

sv str_format(struct script *s, const char *fmt, ...)
{
    char text[512];
    va_list list;
    int n;

    va_start(list, fmt);
    n = vsnprintf(text, sizeof text, fmt, list);
    va_end(list);
    return str_new(s, text, n < 0 ? 0 : (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

struct str *as_str(sv v)
{
    if (sv_is(v, KIND_STR))
        return AS(str, v);
    if (sv_is(v, KIND_INSTANCE) && v.o->cls->flags & CLS_BOXED && sv_is(AS(boxed, v)->value, KIND_STR))
        return AS(str, AS(boxed, v)->value);
    return NULL;
}

const char *str_text(sv v, size_t *ret_bytes)
{
    const struct str *t = as_str(v);

    if (t && ret_bytes)
        *ret_bytes = t->bytes;
    return t ? t->text : NULL;
}

bool str_is(sv v, const char *text)
{
    const struct str *t = as_str(v);

    return t && strlen(text) == t->bytes && memcmp(t->text, text, t->bytes) == 0;
}

/* ---- code points */

static bool is_ascii(const struct str *t)
{
    return t->h.flags & STR_ASCII;
}

uint32_t str_length(const struct str *t)
{
    uint32_t n = 0;

    if (is_ascii(t))
        return t->bytes;
    for (uint32_t i = 0; i < t->bytes; i++)
        n += ((unsigned char)t->text[i] & 0xC0) != 0x80;
    return n;
}

/* Byte at which the nth code point begins. */
size_t str_offset(const struct str *t, uint32_t nth)
{
    size_t i = 0;

    if (is_ascii(t))
        return nth;
    for (; i < t->bytes; i++)
        if (((unsigned char)t->text[i] & 0xC0) != 0x80 && !nth--)
            break;
    return i;
}

sv str_slice(struct script *s, const struct str *t, int64_t from, int64_t step, int64_t n)
{
    struct writer w = {.s = s};

    if (n <= 0)
        return sv_forever(s->sym[SYM_empty]);
    if (step == 1) {
        size_t a = str_offset(t, (uint32_t)from), b = str_offset(t, (uint32_t)(from + n));

        return str_new(s, t->text + a, b - a);
    }
    if (!script_charge(s, (uint64_t)n) || (!is_ascii(t) && !script_charge(s, (uint64_t)n * (t->bytes / 32))))
        return sv_null();
    for (int64_t i = 0; i < n; i++) {
        size_t a = str_offset(t, (uint32_t)(from + i * step)), b = str_offset(t, (uint32_t)(from + i * step + 1));

        text_put(&w, t->text + a, b - a);
    }
    return written(&w);
}

sv str_concat(struct script *s, const struct str *a, const struct str *b)
{
    struct str *t = str_raw(s, (size_t)a->bytes + b->bytes);

    if (!t)
        return sv_null();
    memcpy(t->text, a->text, a->bytes);
    memcpy(t->text + a->bytes, b->text, b->bytes);
    t->h.flags = a->h.flags & b->h.flags & STR_ASCII;
    return sv_counted(t);
}

sv str_repeat(struct script *s, const struct str *t, int64_t n)
{
    struct str *r;

    if (n <= 0 || !t->bytes)
        return sv_forever(s->sym[SYM_empty]);
    if (n > STR_MAX / t->bytes)
        return script_nomem(s);
    r = str_raw(s, (size_t)n * t->bytes);
    if (!r)
        return sv_null();
    memcpy(r->text, t->text, t->bytes);
    for (size_t at = t->bytes, all = (size_t)n * t->bytes, more; at < all; at += more) { /* what stands is doubled */
        more = at < all - at ? at : all - at;
        memcpy(r->text + at, r->text, more);
    }
    r->h.flags = t->h.flags & STR_ASCII;
    return sv_counted(r);
}

sv str_join(struct script *s, const struct str *between, sv of)
{
    sv list = sv_is(of, KIND_TUPLE) ? sv_keep(of) : list_of(s, of);
    struct writer w = {.s = s};
    const sv *items;
    uint32_t n;

    if (!sv_ok(list))
        return list;
    items = seq_items(list, &n);
    for (uint32_t i = 0; i < n; i++) {
        const struct str *t = as_str(items[i]);

        if (!t) {
            (void)script_raise(s, EXC_TypeError, "sequence item %u: expected str instance, %s found", i, class_of(s, items[i])->name->text);
            unwritten(&w);
            sv_drop(s, list);
            return sv_null();
        }
        if (i)
            text_put(&w, between->text, between->bytes);
        text_put(&w, t->text, t->bytes);
    }
    sv_drop(s, list);
    return written(&w);
}

/* Where t is within n bytes; NULL. Charged by what it compares. */
const char *text_find(struct script *s, const char *in, size_t n, const struct str *t)
{
    const char *end = in + n;
    uint64_t work = n / 256;

    if (t->bytes > n)
        return NULL;
    if (!t->bytes)
        return in;
    for (const char *at = in; at + t->bytes <= end; at++) {
        at = memchr(at, t->text[0], (size_t)(end - at) - t->bytes + 1);
        if (!at)
            break;
        if (memcmp(at, t->text, t->bytes) == 0) {
            (void)script_charge(s, (uint64_t)(at - in) / 256);
            return at;
        }
        work += 1 + t->bytes / 64;
        if (work > 4096) {
            if (!script_charge(s, work / 16))
                return NULL;
            work = 0;
        }
    }
    (void)script_charge(s, work / 16);
    return NULL;
}

/* ---- writers */

void text_put(struct writer *w, const char *text, size_t n)
{
    if (w->failed || !n)
        return;
    if (w->n + n > w->cap) {
        size_t cap = w->cap ? w->cap : 64;
        char *data;

        while (cap < w->n + n)
            cap *= 2;
        data = cap > STR_MAX ? NULL : heap_take(w->s, cap);
        if (!data) {
            (void)script_nomem(w->s);
            unwritten(w);
            w->failed = true;
            return;
        }
        if (w->n)
            memcpy(data, w->data, w->n);
        if (w->cap)
            heap_give(w->s, w->data, w->cap);
        w->data = data;
        w->cap = cap;
    }
    memcpy(w->data + w->n, text, n);
    w->n += n;
}

void put_text(struct writer *w, const char *text)
{
    text_put(w, text, strlen(text));
}

void put_str(struct writer *w, sv v)
{
    sv t = script_str(w->s, v);

    if (!sv_ok(t)) {
        unwritten(w);
        w->failed = true;
        return;
    }
    text_put(w, AS(str, t)->text, AS(str, t)->bytes);
    sv_drop(w->s, t);
}

void unwritten(struct writer *w)
{
    if (w->cap)
        heap_give(w->s, w->data, w->cap);
    w->data = NULL;
    w->n = w->cap = 0;
}

sv written(struct writer *w)
{
    sv t = w->failed || script_failed(w->s) ? sv_null() : str_new(w->s, w->n ? w->data : "", w->n);

    unwritten(w);
    w->failed = false;
    return t;
}
