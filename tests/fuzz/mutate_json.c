/* Mutations that leave a JSON document one: values and members move, by their places in the text. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>

enum { SPANS_MAX = 1024, DEPTH_MAX = 80 };

struct span {
    size_t at, end;           /* of the value */
    size_t name_at, name_end; /* of a member's name, within its quotes; 0, 0: none */
    char kind;                /* its first letter */
};

struct spans {
    const char *text;
    size_t bytes, at;
    uint32_t n;
    struct span v[SPANS_MAX];
};

/* --- where the values are --------------------------------------------------------------------------------------------------------- */

static void blanks(struct spans *s)
{
    while (s->at < s->bytes && strchr(" \t\r\n", s->text[s->at]) && s->text[s->at])
        s->at++;
}

static char next(const struct spans *s)
{
    return s->at < s->bytes ? s->text[s->at] : 0;
}

static bool string(struct spans *s)
{
    for (s->at++; s->at < s->bytes && s->text[s->at] != '"'; s->at++)
        s->at += s->text[s->at] == '\\';
    s->at++;
    return s->at <= s->bytes;
}

static bool value(struct spans *s, struct span v, unsigned depth);

static bool members(struct spans *s, char end, unsigned depth)
{
    struct span v = {0};

    s->at++;
    blanks(s);
    while (next(s) && next(s) != end) {
        v = (struct span){0};
        if (end == '}') {
            v.name_at = s->at + 1;
            if (next(s) != '"' || !string(s))
                return false;
            v.name_end = s->at - 1;
            blanks(s);
            if (next(s) != ':')
                return false;
            s->at++;
            blanks(s);
        }
        if (!value(s, v, depth))
            return false;
        blanks(s);
        if (next(s) == ',') {
            s->at++;
            blanks(s);
        } else if (next(s) != end) {
            return false;
        }
    }
    s->at++;
    return s->at <= s->bytes;
}

/* Places of all values, the outer before the inner. */
static bool value(struct spans *s, struct span v, unsigned depth)
{
    uint32_t mine = s->n;
    bool good;

    if (depth > DEPTH_MAX || s->n == SPANS_MAX)
        return false;
    v.at = s->at;
    v.kind = next(s);
    s->v[s->n++] = v;
    if (v.kind == '{' || v.kind == '[')
        good = members(s, v.kind == '{' ? '}' : ']', depth + 1);
    else if (v.kind == '"')
        good = string(s);
    else
        for (good = false; s->at < s->bytes && !strchr(" \t\r\n,]}", s->text[s->at]); s->at++)
            good = true;
    s->v[mine].end = s->at;
    return good;
}

static bool find(struct spans *s, const uint8_t *data, size_t size)
{
    s->text = (const char *)data;
    s->bytes = size;
    s->at = s->n = 0;
    blanks(s);
    return value(s, (struct span){0}, 0);
}

/* --- changes ------------------------------------------------------------------------------------------------------------------------ */

/* Puts n bytes in the place of those from `at` to `end`; 0: no room. */
static size_t splice(uint8_t *data, size_t size, size_t max, size_t at, size_t end, const void *with, size_t n)
{
    if (size - (end - at) + n > max)
        return 0;
    memmove(data + at + n, data + end, size - end);
    memcpy(data + at, with, n);
    return size - (end - at) + n;
}

static const struct span *any(const struct spans *s, uint64_t *random, const char *kinds)
{
    for (int tries = 0; tries < 16; tries++) {
        const struct span *v = &s->v[fuzz_below(random, s->n)];

        if (!kinds || strchr(kinds, v->kind))
            return v;
    }
    return NULL;
}

/* With its comma. */
static void whole_member(const struct spans *s, const struct span *v, size_t *ret_at, size_t *ret_end)
{
    size_t at = v->name_end ? v->name_at - 1 : v->at, end = v->end;

    while (end < s->bytes && strchr(" \t\r\n", s->text[end]))
        end++;
    if (end < s->bytes && s->text[end] == ',') {
        end++;
    } else {
        end = v->end;
        while (at && strchr(" \t\r\n", s->text[at - 1]))
            at--;
        at -= at && s->text[at - 1] == ',';
    }
    *ret_at = at;
    *ret_end = end;
}

static size_t remove_one(const struct spans *s, uint64_t *random, uint8_t *data, size_t size, size_t max)
{
    const struct span *v = any(s, random, NULL);
    size_t at, end;

    if (!v || v == s->v)
        return 0;
    whole_member(s, v, &at, &end);
    return splice(data, size, max, at, end, "", 0);
}

/* A name and a value, where an object begins. */
static size_t insert(const struct fuzz_grammar *g, const struct spans *s, uint64_t *random, uint8_t *data, size_t size, size_t max)
{
    char name[FUZZ_NAME], of[FUZZ_NAME], value_text[FUZZ_VALUE], text[FUZZ_NAME + FUZZ_VALUE + 8];
    const struct span *v = any(s, random, "{[");
    size_t at, n;

    if (!v)
        return 0;
    n = v->name_end - v->name_at < FUZZ_NAME ? v->name_end - v->name_at : 0;
    memcpy(of, s->text + v->name_at, n);
    of[n] = 0;
    fuzz_pick(g, random, n ? of : NULL, name, value_text);
    at = v->at + 1;
    while (at < size && strchr(" \t\r\n", s->text[at]))
        at++;
    n = (size_t)snprintf(text, sizeof text, v->kind == '{' ? "\"%s\":%s%s" : "%.0s%s%s", name, value_text, at < size && strchr("}]", s->text[at]) ? "" : ",");
    return splice(data, size, max, v->at + 1, v->at + 1, text, n);
}

/* By another of the document, or by one that its name's row would take. */
static size_t replace(const struct fuzz_grammar *g, const struct spans *s, uint64_t *random, uint8_t *data, size_t size, size_t max)
{
    const struct span *v = any(s, random, NULL), *by = any(s, random, NULL);
    char name[FUZZ_NAME], value_text[FUZZ_VALUE], copy[4096];
    size_t n;

    if (!v || !by || v == s->v)
        return 0;
    if (fuzz_below(random, 3)) {
        fuzz_pick(g, random, NULL, name, value_text);
        return splice(data, size, max, v->at, v->end, value_text, strlen(value_text));
    }
    n = by->end - by->at;
    if (n > sizeof copy)
        return 0;
    memcpy(copy, s->text + by->at, n);
    return splice(data, size, max, v->at, v->end, copy, n);
}

/* An element or a member once more. */
static size_t repeat(const struct spans *s, uint64_t *random, uint8_t *data, size_t size, size_t max)
{
    const struct span *v = any(s, random, NULL);
    char copy[4096];
    size_t at, n;

    if (!v || v == s->v)
        return 0;
    at = v->name_end ? v->name_at - 1 : v->at;
    n = v->end - at;
    if (n + 1 > sizeof copy)
        return 0;
    memcpy(copy, s->text + at, n);
    copy[n] = ',';
    return splice(data, size, max, at, at, copy, n + 1);
}

/* Bytes of a scalar or of a name. */
static size_t within(const struct spans *s, uint64_t *random, uint8_t *data, size_t size, size_t max)
{
    const struct span *v = any(s, random, "\"-0123456789tfn");
    uint8_t text[1024];
    size_t at, end, n;

    if (!v)
        return 0;
    at = v->kind == '"' ? v->at + 1 : v->at;
    end = v->kind == '"' ? v->end - 1 : v->end;
    if (v->name_end && fuzz_below(random, 4) == 0) {
        at = v->name_at;
        end = v->name_end;
    }
    n = end - at;
    if (n > sizeof text / 2)
        return 0;
    memcpy(text, s->text + at, n);
    n = LLVMFuzzerMutate(text, n, sizeof text);
    return splice(data, size, max, at, end, text, n);
}

size_t fuzz_mutate_json(const struct fuzz_grammar *g, uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    uint64_t random = seed;
    struct spans s;
    size_t changed = 0;

    if (!find(&s, data, size))
        return fuzz_below(&random, 4) || max_size < 2 ? LLVMFuzzerMutate(data, size, max_size) : (memcpy(data, "{}", 2), (size_t)2);
    switch (fuzz_below(&random, 16)) {
    case 0:
        return LLVMFuzzerMutate(data, size, max_size);
    case 1:
    case 2:
        changed = remove_one(&s, &random, data, size, max_size);
        break;
    case 3:
        changed = repeat(&s, &random, data, size, max_size);
        break;
    case 4:
    case 5:
    case 6:
        changed = within(&s, &random, data, size, max_size);
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        changed = replace(g, &s, &random, data, size, max_size);
        break;
    default:
        changed = insert(g, &s, &random, data, size, max_size);
    }
    return changed ? changed : LLVMFuzzerMutate(data, size, max_size);
}

/* A value of one in the place of a value of the other. */
size_t fuzz_cross_json(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes, uint8_t *out, size_t max, unsigned seed)
{
    uint64_t random = seed;
    struct spans from;
    struct spans to;
    const struct span *v, *by;

    if (a_bytes > max)
        return 0;
    memcpy(out, a, a_bytes);
    if (!find(&to, a, a_bytes) || !find(&from, b, b_bytes))
        return a_bytes;
    v = any(&to, &random, NULL);
    by = any(&from, &random, NULL);
    return splice(out, a_bytes, max, v->at, v->end, b + by->at, by->end - by->at);
}
