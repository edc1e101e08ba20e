/* A query as the JSON document that a POST would have sent. */
#include "api/decode/unknown.h"
#include "api/request/query.h"

#include "base/buf.h"
#include "base/jsonw.h"

#include <string.h>

enum { DOCUMENT_MAX_BYTES = 1 << 20 };

struct draft {
    struct jsonw w;
    const struct query *q;
    const struct place *places; /* of each parameter; depth 0: no member */
    struct arena *arena;
    const char *parameter; /* that the error is about */
    enum err_code rc;
    struct err *err;
};

static void refuse(struct draft *d, uint32_t i, enum err_code code, const char *what)
{
    char at[POINTER_BYTES];

    if (d->rc)
        return;
    place_pointer(&d->places[i], at);
    d->parameter = d->q->v[i].name;
    d->rc = err_set(d->err, code, at, "the parameter %.80s %s", d->parameter, what);
}

static void no_room(struct draft *d)
{
    if (!d->rc)
        d->rc = err_set(d->err, ERR_NOMEM, "", "no room for the query");
}

/* --- values ------------------------------------------------------------------------------------------------------------------- */

static size_t digits(const char *s)
{
    return strspn(s, "0123456789");
}

/* A number as JSON writes it. */
static bool is_number(const char *s)
{
    size_t n;

    s += *s == '-';
    n = digits(s);
    if (!n || (n > 1 && *s == '0') || n > 40)
        return false;
    s += n;
    if (*s == '.') {
        n = digits(++s);
        if (!n || n > 20)
            return false;
        s += n;
    }
    if (*s == 'e' || *s == 'E') {
        s++;
        s += *s == '+' || *s == '-';
        n = digits(s);
        return n && n < 4 && !s[n];
    }
    return !*s;
}

static void write_scalar(struct draft *d, const char *name, const char *s, bool number)
{
    if (number && is_number(s))
        jsonw_raw(&d->w, name, s, strlen(s));
    else
        jsonw_str(&d->w, name, s);
}

static void write_flag(struct draft *d, const char *name, const char *s)
{
    if (word_among("true|1|on|yes", s, strlen(s), true))
        jsonw_bool(&d->w, name, true);
    else if (word_among("false|0|off|no", s, strlen(s), true))
        jsonw_bool(&d->w, name, false);
    else
        jsonw_str(&d->w, name, s);
}

/* '+' joins the parts of a word, unless only the blank it also stands for makes one. */
static const char *spelled(const struct member *m, const struct parameter *p)
{
    return m->kind == KIND_WORDS && word_find(m->words, p->value, strlen(p->value)) >= 0 ? p->value : p->plus;
}

static void write_pieces(struct draft *d, const struct member *m, const char *s)
{
    while (*s) {
        size_t n = strcspn(s, ",");
        const char *piece = arena_str(d->arena, s, n);

        if (!piece)
            no_room(d);
        else if (n)
            write_scalar(d, NULL, piece, m->kind == KIND_OWN);
        s += n + (s[n] == ',');
    }
}

static bool is_one_word(const struct draft *d, const struct member *m, uint32_t i)
{
    const char *s = d->q->v[i].value;

    return m->kind == KIND_STRS && m->words && word_find(m->words, s, strlen(s)) >= 0;
}

static void write_json(struct draft *d, const struct member *m, uint32_t i)
{
    const char *s = d->q->v[i].value;
    struct json *doc = NULL;
    enum err_code rc;

    s += strncmp(s, "\xEF\xBB\xBF", 3) ? 0 : 3; /* a byte order mark begins a file, not a value within one */
    if (m->open && s[0] != '{') {
        jsonw_str(&d->w, m->key, s);
        return;
    }
    rc = json_parse(s, strlen(s), &json_limits_request, &doc, NULL);
    if (rc == ERR_NOMEM)
        no_room(d);
    else if (rc)
        refuse(d, i, ERR_FIELD_VALUE, "holds a JSON object");
    else
        jsonw_raw(&d->w, m->key, s, strlen(s));
    json_free(doc);
}

static bool is_list(const struct member *m)
{
    return m->list || m->kind == KIND_STRS;
}

static void write_list(struct draft *d, const struct member *m, unsigned depth)
{
    jsonw_array(&d->w, m->key);
    for (uint32_t i = 0; i < d->q->n; i++)
        if (d->places[i].depth == depth + 1 && d->places[i].row[depth] == m)
            write_pieces(d, m, spelled(m, &d->q->v[i]));
    jsonw_end(&d->w);
}

static void write_value(struct draft *d, const struct member *m, unsigned depth, uint32_t i)
{
    const struct parameter *p = &d->q->v[i];

    if (is_list(m) && !is_one_word(d, m, i)) {
        write_list(d, m, depth);
        return;
    }
    switch (m->kind) {
    case KIND_WHOLE:
    case KIND_BYTES:
    case KIND_REAL:
        write_scalar(d, m->key, p->value, true);
        return;
    case KIND_BOOL:
        write_flag(d, m->key, p->value);
        return;
    case KIND_WORDS:
        jsonw_str(&d->w, m->key, spelled(m, p));
        return;
    case KIND_JSON:
        write_json(d, m, i);
        return;
    case KIND_OBJECT:
        refuse(d, i, ERR_FIELD_TYPE, "is an object: name its members, like lora.rank");
        return;
    default:
        jsonw_str(&d->w, m->key, p->value);
    }
}

/* --- objects ------------------------------------------------------------------------------------------------------------------ */

static void write_members(struct draft *d, const struct member *members, unsigned depth);

/* What is not in the table stays, so that it is noted as unknown; what lies within the caller's own document, too. */
static void write_rest(struct draft *d, const struct member *m, unsigned depth)
{
    for (uint32_t i = 0; i < d->q->n; i++) {
        const struct place *p = &d->places[i];
        const char *value = d->q->v[i].value;

        if (p->depth != depth || (m && p->row[depth - 1] != m) || !p->rest[0])
            continue;
        if (word_among("true|false", value, strlen(value), false))
            write_flag(d, p->rest, value);
        else
            write_scalar(d, p->rest, value, true);
    }
}

/* Which parameters are about a row: values of it, and members within it. */
struct about {
    uint32_t n, first, n_within;
};

static struct about parameters_of(const struct draft *d, const struct member *m, unsigned depth)
{
    struct about a = {0};

    for (uint32_t i = 0; i < d->q->n; i++) {
        const struct place *p = &d->places[i];

        if (p->depth <= depth || p->row[depth] != m)
            continue;
        if (p->depth > depth + 1 || p->rest[0])
            a.n_within++;
        else if (a.n++ == 0)
            a.first = i;
    }
    return a;
}

static void write_member(struct draft *d, const struct member *m, unsigned depth)
{
    struct about a = parameters_of(d, m, depth);

    if (a.n > 1 && !is_list(m))
        refuse(d, a.first, ERR_FIELD_CONFLICT, "is given twice, or by two names");
    else if (a.n && a.n_within)
        refuse(d, a.first, ERR_FIELD_CONFLICT, "is given as a whole and by its members");
    else if (a.n)
        write_value(d, m, depth, a.first);
    else if (a.n_within) {
        jsonw_object(&d->w, m->key);
        if (m->members)
            write_members(d, m->members, depth + 1);
        write_rest(d, m, depth + 1);
        jsonw_end(&d->w);
    }
}

static void write_members(struct draft *d, const struct member *members, unsigned depth)
{
    for (const struct member *m = members; m->key && !d->rc; m++)
        write_member(d, m, depth);
}

/* `batch_size` is a member of `inference`; who asks about training and writes it alone means another one. */
static bool means_training(const struct place *p, const struct query *q, const char *name)
{
    const char *workload = query_value(q, "workload");

    return p->depth == 2 && !strcmp(p->row[0]->key, "inference") && !strchr(name, '.') && alias_of(name) && (!workload || strcmp(workload, "inference") != 0);
}

static struct place *find_places(const struct query *q, const struct member *members, const char *except, struct arena *arena)
{
    struct place *places = arena_array(arena, struct place, q->n ? q->n : 1);

    for (uint32_t i = 0; places && i < q->n; i++) {
        places[i] = place_find(members, q->v[i].name);
        if (!places[i].depth ||
            (places[i].rest[0] && !places[i].row[places[i].depth - 1]->members && places[i].row[places[i].depth - 1]->kind != KIND_JSON))
            places[i] = (struct place){.rest = q->v[i].name};
        if (means_training(&places[i], q, q->v[i].name))
            places[i] = (struct place){.rest = q->v[i].name};
        if (word_among(except, q->v[i].name, strlen(q->v[i].name), false))
            places[i] = (struct place){.rest = ""};
    }
    return places;
}

enum err_code query_document(const struct query *q, const struct member *members, const char *except, struct arena *arena,
                             struct json **ret, const char **ret_parameter, struct err *err)
{
    struct draft d = {.q = q, .arena = arena, .err = err, .places = find_places(q, members, except, arena)};
    struct buf out;

    buf_init(&out, arena, DOCUMENT_MAX_BYTES);
    jsonw_init(&d.w, &out, false);
    jsonw_object(&d.w, NULL);
    if (d.places) {
        write_members(&d, members, 0);
        write_rest(&d, NULL, 0);
    }
    jsonw_end(&d.w);
    *ret_parameter = d.parameter;
    if (!d.places || !jsonw_done(&d.w))
        no_room(&d);
    if (d.rc)
        return d.rc;
    return json_parse(buf_text(&out), out.bytes, &json_limits_request, ret, err);
}
