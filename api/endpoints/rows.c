#include "api/endpoints/rows.h"

#include "api/decode/decode.h"
#include "base/ascii.h"
#include "base/near.h"

#include <stdio.h>
#include <string.h>

/* --- one object as text ------------------------------------------------------------------------------------------------------------- */

struct line {
    const char *text;
    size_t bytes;
};

/* The next object behind `at`, without the comma; bytes 0: none. */
static struct line next_line(const char *at)
{
    const char *from = strstr(at, "\n    {"), *end;

    if (!from)
        return (struct line){at, 0};
    from += 5;
    end = strchr(from, '\n');
    return (struct line){from, (size_t)(end - from) - (end[-1] == ',')};
}

/* The member's value as it is written: a number, "text", [..]; NULL: the object has no such member. */
static const char *value_of(const struct line *l, const char *key, size_t *ret_bytes)
{
    char quoted[96];
    int n = snprintf(quoted, sizeof quoted, "\"%.80s\": ", key);
    const char *at = strchr(key, '"') ? NULL : strstr(l->text, quoted), *end;

    if (!at || at >= l->text + l->bytes)
        return NULL;
    at += n;
    if (*at == '[')
        end = strchr(at, ']') + 1;
    else if (*at == '"')
        for (end = at + 1; *end++ != '"';)
            end += *end == '\\' ? 2 : 0;
    else
        end = at + strcspn(at, ",}");
    *ret_bytes = (size_t)(end - at);
    return at;
}

/* The value itself, or one of a list. */
static bool is_or_has(const char *value, size_t bytes, const char *wanted)
{
    if (*value != '"' && *value != '[')
        return word_same(value, bytes, wanted, strlen(wanted));
    for (const char *p = memchr(value, '"', bytes); p && p < value + bytes;) {
        const char *end = strchr(p + 1, '"');

        if (word_same(p + 1, (size_t)(end - p - 1), wanted, strlen(wanted)))
            return true;
        p = memchr(end + 1, '"', (size_t)(value + bytes - end - 1));
    }
    return false;
}

static bool holds(const char *text, size_t bytes, const char *part)
{
    size_t n = strlen(part);

    for (size_t i = 0; i + n <= bytes; i++)
        if (ascii_begins(text + i, part, n))
            return true;
    return false;
}

static bool names_hold(const struct line *l, const char *part)
{
    size_t bytes;
    const char *name = value_of(l, "name", &bytes), *aliases;

    if (holds(name, bytes, part))
        return true;
    aliases = value_of(l, "aliases", &bytes);
    return aliases && holds(aliases, bytes, part);
}

/* --- what a query chooses ------------------------------------------------------------------------------------------------------------- */

static enum err_code no_such_key(struct call *c, const char *name, const struct near *near)
{
    c->parameter = name;
    (void)err_set(c->err, ERR_UNKNOWN_MEMBER, "", "'%.60s' is no member of these objects, by which they could be chosen", name);
    return near_tell(near, c->err);
}

/* Keys of the first object stand for all: each has every column. */
static enum err_code check_keys(struct call *c, const struct line *first)
{
    for (uint32_t i = 0; i < c->query.n; i++) {
        const char *name = c->query.v[i].name;
        struct near near;
        size_t bytes;

        if (!strcmp(name, "q") || value_of(first, name, &bytes))
            continue;
        near_init(&near, name);
        near_offer(&near, "q", "query");
        for (const char *p = strchr(first->text, '"'); p && p < first->text + first->bytes; p = strchr(p + 1, '"')) {
            size_t n = strcspn(p + 1, "\"");
            const char *key = p[n + 2] == ':' ? arena_str(c->arena, p + 1, n) : NULL;

            if (key)
                near_offer(&near, key, key);
        }
        return no_such_key(c, name, &near);
    }
    return ERR_OK;
}

static bool is_chosen(const struct call *c, const struct line *l)
{
    for (uint32_t i = 0; i < c->query.n; i++) {
        const struct parameter *p = &c->query.v[i];
        size_t bytes;
        const char *value;

        if (!strcmp(p->name, "q")) {
            if (!names_hold(l, p->value))
                return false;
            continue;
        }
        value = value_of(l, p->name, &bytes);
        if (!value || !is_or_has(value, bytes, p->value))
            return false;
    }
    return true;
}

static enum err_code give(struct call *c, const char *text, size_t bytes)
{
    if (!text)
        return err_set(c->err, ERR_NOMEM, "", "no room for the answer");
    c->ret->status = 200;
    c->ret->content_type = "application/json";
    c->ret->body = text;
    c->ret->bytes = bytes;
    return ERR_OK;
}

enum err_code rows_give(struct call *c, const struct rows *rows)
{
    struct line l = next_line(rows->text);
    enum err_code rc = check_keys(c, &l);
    struct buf out;
    unsigned n = 0;

    if (rc)
        return rc;
    if (!c->query.n)
        return give(c, rows->text, strlen(rows->text));
    buf_init(&out, c->arena, strlen(rows->text) + 64);
    buf_str(&out, "{\n  \"");
    buf_str(&out, rows->key);
    buf_str(&out, "\": [");
    for (; l.bytes; l = next_line(l.text + l.bytes))
        if (is_chosen(c, &l)) {
            buf_str(&out, n++ ? ",\n    " : "\n    ");
            buf_add(&out, l.text, l.bytes);
        }
    buf_str(&out, n ? "\n  ]\n}\n" : "]\n}\n");
    return give(c, buf_ok(&out) ? buf_text(&out) : NULL, out.bytes);
}

enum err_code rows_give_one(struct call *c, const struct rows *rows, size_t i)
{
    struct line l = next_line(rows->text);
    char *text;

    while (i--)
        l = next_line(l.text + l.bytes);
    text = arena_str(c->arena, l.text, l.bytes + 1);
    if (text)
        text[l.bytes] = '\n';
    return give(c, text, l.bytes + 1);
}

/* --- pages ------------------------------------------------------------------------------------------------------------------------ */

enum { PAGE_MOST = 1000000 };

static bool is_of_page(const char *name)
{
    return !strcmp(name, "limit") || !strcmp(name, "offset");
}

enum err_code rows_page_read(struct call *c, struct rows_page *ret)
{
    *ret = (struct rows_page){.limit = UINT64_MAX};
    for (uint32_t i = 0; i < c->query.n; i++) {
        const char *name = c->query.v[i].name, *text = c->query.v[i].value;
        uint64_t n = 0;

        if (!is_of_page(name))
            continue;
        for (; ascii_digit(*text) && n <= PAGE_MOST; text++)
            n = n * 10 + (uint64_t)(*text - '0');
        if (*text || n > PAGE_MOST) {
            c->parameter = name;
            return err_set(c->err, ERR_FIELD_RANGE, "", "must be a whole number from 0 to %d", (int)PAGE_MOST);
        }
        *(name[0] == 'l' ? &ret->limit : &ret->offset) = n;
    }
    return ERR_OK;
}

bool rows_page_has(const struct rows_page *p, uint64_t i)
{
    return i >= p->offset && i - p->offset < p->limit;
}

bool rows_choose(struct call *c, const struct row_member *members, size_t n, const char *names, bool *ret_known)
{
    *ret_known = true;
    for (uint32_t i = 0; i < c->query.n; i++) {
        const struct parameter *p = &c->query.v[i];
        size_t k = 0;
        struct near near;

        if (is_of_page(p->name))
            continue;
        if (!strcmp(p->name, "q")) {
            if (!holds(names, strlen(names), p->value))
                return false;
            continue;
        }
        while (k < n && strcmp(members[k].key, p->name) != 0)
            k++;
        if (k == n) {
            near_init(&near, p->name);
            for (k = 0; k < n; k++)
                near_offer(&near, members[k].key, members[k].key);
            (void)no_such_key(c, p->name, &near);
            *ret_known = false;
            return false;
        }
        if (!members[k].value || !word_same(members[k].value, strlen(members[k].value), p->value, strlen(p->value)))
            return false;
    }
    return true;
}
