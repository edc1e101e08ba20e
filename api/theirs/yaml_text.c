#include "api/theirs/yaml_text.h"

#include "base/buf.h"
#include "base/jsonw.h"

#include <yaml.h>

#include <string.h>

enum { DEPTH_MAX = 16, TEXT_MAX_BYTES = 1 << 20, NAME_MAX_BYTES = 256 };

struct reading {
    yaml_parser_t parser;
    struct jsonw w;
    struct arena *arena;
    struct err *err;
    unsigned depth;
    struct {
        bool mapping;
        const char *name; /* of the member whose value comes next; NULL: a name comes next */
    } at[DEPTH_MAX + 1];
};

static enum err_code refuse(struct reading *r, size_t line, const char *what)
{
    return err_set(r->err, ERR_FIELD_VALUE, "", "line %zu: %.200s", line + 1, what);
}

/* --- plain scalars --------------------------------------------------------------------------------------------------------------- */

static bool among(const char *s, const char *const *words)
{
    for (; *words; words++)
        if (!strcmp(s, *words))
            return true;
    return false;
}

static bool is_true(const char *s)
{
    static const char *const words[] = {"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", NULL};

    return among(s, words);
}

static bool is_false(const char *s)
{
    static const char *const words[] = {"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF", NULL};

    return among(s, words);
}

static bool is_null(const char *s)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL", NULL};

    return among(s, words);
}

/* Digits with '_' among them, into `out`; the number of characters read. */
static size_t take_digits(const char *s, char *out, size_t *used)
{
    size_t n = 0;

    for (; (s[n] >= '0' && s[n] <= '9') || (n && s[n] == '_'); n++)
        if (s[n] != '_')
            out[(*used)++] = s[n];
    return n;
}

/* A decimal whole number or a fraction with a dot, respelled for JSON. Octal, hexadecimal and sexagesimal ones stay text. */
static bool is_number(const char *s, char out[64])
{
    size_t used = 0, n;
    const char *p = s + (*s == '-' || *s == '+');

    if (strlen(s) > 40 || (p[0] == '0' && p[1] && p[1] != '.'))
        return false;
    if (*s == '-')
        out[used++] = '-';
    n = take_digits(p, out, &used);
    p += n;
    if (!n && (*p != '.' || p[1] < '0' || p[1] > '9'))
        return false;
    if (!n)
        out[used++] = '0';
    if (*p == '.') {
        out[used++] = '.';
        p++;
        n = take_digits(p, out, &used);
        p += n;
        if (!n)
            out[used++] = '0';
        if ((*p == 'e' || *p == 'E') && (p[1] == '+' || p[1] == '-') && p[2]) {
            out[used++] = 'e';
            out[used++] = p[1];
            p += 2;
            p += take_digits(p, out, &used);
        }
    }
    out[used] = 0;
    return !*p;
}

void yaml_write_plain(struct jsonw *w, const char *name, const char *s)
{
    char number[64];

    if (is_null(s))
        jsonw_null(w, name);
    else if (is_true(s) || is_false(s))
        jsonw_bool(w, name, is_true(s));
    else if (is_number(s, number))
        jsonw_raw(w, name, number, strlen(number));
    else
        jsonw_str(w, name, s);
}

/* --- events ---------------------------------------------------------------------------------------------------------------------- */

/* The name under which the next value stands; NULL within a sequence. */
static const char *take_name(struct reading *r)
{
    const char *name = r->at[r->depth].name;

    r->at[r->depth].name = NULL;
    return name;
}

static bool wants_name(const struct reading *r)
{
    return r->at[r->depth].mapping && !r->at[r->depth].name;
}

static enum err_code scalar(struct reading *r, const yaml_event_t *event)
{
    const char *s = (const char *)event->data.scalar.value;
    size_t bytes = event->data.scalar.length, line = event->start_mark.line;

    if (event->data.scalar.tag || strlen(s) != bytes)
        return refuse(r, line, "tags and zero bytes are not read");
    if (wants_name(r)) {
        if (bytes > NAME_MAX_BYTES)
            return refuse(r, line, "a name is too long");
        r->at[r->depth].name = arena_str(r->arena, s, bytes);
        return r->at[r->depth].name ? ERR_OK : err_set(r->err, ERR_NOMEM, "", "no room for the file");
    }
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE)
        yaml_write_plain(&r->w, take_name(r), s);
    else
        jsonw_str(&r->w, take_name(r), s);
    return ERR_OK;
}

static enum err_code begin(struct reading *r, const yaml_event_t *event, bool mapping)
{
    const char *name;

    if (wants_name(r))
        return refuse(r, event->start_mark.line, "a name must be a scalar");
    if (r->depth == DEPTH_MAX)
        return refuse(r, event->start_mark.line, "too many levels");
    name = take_name(r);
    if (mapping)
        jsonw_object(&r->w, name);
    else
        jsonw_array(&r->w, name);
    r->at[++r->depth].mapping = mapping;
    r->at[r->depth].name = NULL;
    return ERR_OK;
}

static enum err_code end(struct reading *r)
{
    r->depth--;
    jsonw_end(&r->w);
    return ERR_OK;
}

static enum err_code take(struct reading *r, const yaml_event_t *event, unsigned *documents)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return scalar(r, event);
    case YAML_MAPPING_START_EVENT:
        return begin(r, event, true);
    case YAML_SEQUENCE_START_EVENT:
        return begin(r, event, false);
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        return end(r);
    case YAML_ALIAS_EVENT:
        return refuse(r, event->start_mark.line, "aliases are not read");
    case YAML_DOCUMENT_START_EVENT:
        return ++*documents > 1 ? refuse(r, event->start_mark.line, "a second document") : ERR_OK;
    default:
        return ERR_OK;
    }
}

static enum err_code read_events(struct reading *r)
{
    enum err_code rc = ERR_OK;
    unsigned documents = 0;
    bool more = true;

    while (more && !rc) {
        yaml_event_t event;

        if (!yaml_parser_parse(&r->parser, &event) && r->parser.error == YAML_MEMORY_ERROR)
            return err_set(r->err, ERR_NOMEM, "", "no memory for a YAML document");
        if (r->parser.error)
            return refuse(r, r->parser.problem_mark.line, r->parser.problem ? r->parser.problem : "is no YAML");
        more = event.type != YAML_STREAM_END_EVENT;
        rc = take(r, &event, &documents);
        yaml_event_delete(&event);
    }
    if (!rc && !documents)
        jsonw_null(&r->w, NULL);
    return rc;
}

enum err_code yaml_parse(const char *text, size_t bytes, struct arena *arena, struct json **ret, struct err *err)
{
    struct reading r = {.arena = arena, .err = err};
    struct buf out;
    enum err_code rc;

    if (!yaml_parser_initialize(&r.parser))
        return err_set(err, ERR_NOMEM, "", "no memory for a YAML document");
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, bytes);
    buf_init(&out, arena, TEXT_MAX_BYTES);
    jsonw_init(&r.w, &out, false);
    rc = read_events(&r);
    yaml_parser_delete(&r.parser);
    if (rc)
        return rc;
    if (!jsonw_done(&r.w))
        return err_set(err, ERR_NOMEM, "", "the file is too large");
    return json_parse(buf_text(&out), out.bytes, &json_limits_request, ret, err);
}
