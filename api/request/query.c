#include "api/request/query.h"

#include "base/utf8.h"

#include <string.h>

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_escaped_well(const char *text)
{
    for (const char *p = strchr(text, '%'); p; p = strchr(p + 1, '%'))
        if (hex(p[1]) < 0 || hex(p[2]) < 0)
            return false;
    return true;
}

/* Decodes n characters of text; NULL when the arena is full. */
static char *decoded(const char *text, size_t n, char for_plus, struct arena *arena)
{
    char *out = arena_array(arena, char, n + 1), *put = out;

    for (size_t i = 0; out && i < n; i++) {
        if (text[i] != '%') {
            *put++ = text[i] == '+' ? for_plus : text[i];
            continue;
        }
        *put++ = (char)(hex(text[i + 1]) * 16 + hex(text[i + 2]));
        i += 2;
    }
    return out;
}

static bool is_text(const char *s, size_t bytes)
{
    size_t n;

    for (size_t i = 0; i < bytes; i += n) {
        n = utf8_char(s + i, bytes - i);
        if (!n || (n == 1 && ((unsigned char)s[i] < 0x20 && !strchr("\t\r\n", s[i]))) || s[i] == 0x7F || !s[i])
            return false;
    }
    return true;
}

/* Bytes that n characters decode to: a %00 does not end them early. */
static size_t decoded_bytes(const char *text, size_t n)
{
    size_t bytes = n;

    for (size_t i = 0; i < n; i++)
        bytes -= text[i] == '%' ? 2 : 0;
    return bytes;
}

static enum err_code read_one(const char *text, size_t n, struct arena *arena, struct parameter *ret, struct err *err)
{
    size_t name = 0, after;

    while (name < n && text[name] != '=')
        name++;
    after = name < n ? name + 1 : n;
    ret->name = decoded(text, name, ' ', arena);
    ret->value = decoded(text + after, n - after, ' ', arena);
    ret->plus = decoded(text + after, n - after, '+', arena);
    if (!ret->name || !ret->value || !ret->plus)
        return err_set(err, ERR_NOMEM, "", "no room for the query");
    if (!is_text(ret->name, decoded_bytes(text, name)) || !is_text(ret->value, decoded_bytes(text + after, n - after)))
        return err_set(err, ERR_REQUEST, "", "the query is no UTF-8 text");
    return ERR_OK;
}

enum err_code query_read(const char *text, struct arena *arena, struct query *ret, struct err *err)
{
    struct parameter *v;
    uint32_t n = 0;

    *ret = (struct query){0};
    if (!text || !text[0])
        return ERR_OK;
    if (!is_escaped_well(text))
        return err_set(err, ERR_REQUEST, "", "the query has a %% that two hexadecimal digits do not follow");
    v = arena_array(arena, struct parameter, QUERY_MAX);
    if (!v)
        return err_set(err, ERR_NOMEM, "", "no room for the query");
    for (const char *p = text; *p;) {
        size_t bytes = strcspn(p, "&");
        enum err_code rc;

        if (n == QUERY_MAX)
            return err_set(err, ERR_REQUEST, "", "a query has at most %d parameters", (int)QUERY_MAX);
        rc = bytes ? read_one(p, bytes, arena, &v[n], err) : ERR_OK;
        if (rc)
            return rc;
        n += bytes && v[n].name[0] && v[n].value[0];
        p += bytes + (p[bytes] == '&');
    }
    *ret = (struct query){n, v};
    return ERR_OK;
}

const char *query_value(const struct query *q, const char *name)
{
    const char *found = NULL;

    for (uint32_t i = 0; i < q->n; i++)
        if (!strcmp(q->v[i].name, name))
            found = q->v[i].value;
    return found;
}

/* --- which member a name means ------------------------------------------------------------------------------------------------- */

static const struct member *member_named(const struct member *members, const char *name, size_t n)
{
    for (const struct member *m = members; m && m->key; m++)
        if ((strlen(m->key) == n && !memcmp(m->key, name, n)) || word_among(m->also, name, n, false))
            return m;
    return NULL;
}

/* The first name: a member of the table, else of the first of its objects that has one. */
static void find_first(const struct member *members, const char *name, size_t n, struct place *ret)
{
    const struct member *inner;

    ret->row[0] = member_named(members, name, n);
    ret->depth = ret->row[0] ? 1 : 0;
    for (const struct member *m = members; m->key && !ret->depth; m++) {
        inner = m->kind == KIND_OBJECT ? member_named(m->members, name, n) : NULL;
        if (inner)
            *ret = (struct place){{m, inner}, 2, ""};
    }
}

struct place place_find(const struct member *members, const char *name)
{
    struct place ret = {{0}, 0, ""};
    size_t n = strcspn(name, ".");
    const struct member *m;

    find_first(members, name, n, &ret);
    if (!ret.depth)
        return ret;
    for (name += n; *name; name += n) {
        name++;
        n = strcspn(name, ".");
        m = ret.depth < PLACE_DEPTH ? member_named(ret.row[ret.depth - 1]->members, name, n) : NULL;
        if (!m) {
            ret.rest = name;
            return ret;
        }
        ret.row[ret.depth++] = m;
    }
    m = ret.row[ret.depth - 1];
    if (m->kind == KIND_OBJECT && member_named(m->members, "name", 4)) /* cluster=lumi */
        ret.row[ret.depth++] = member_named(m->members, "name", 4);
    return ret;
}
