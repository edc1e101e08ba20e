#include "server/hub/snapshot.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct held_text {
    atomic_uint holders;
    size_t bytes;
    char text[];
};

struct held_snapshot {
    struct snapshot s;
    atomic_uint holders;
    struct held_text *text;
};

struct held_config {
    struct hub_config c;
    atomic_uint holders;
    struct snapshot *snapshot;
    char names[]; /* model, revision, note */
};

static struct held_snapshot *held(const struct snapshot *s)
{
    return (struct held_snapshot *)(uintptr_t)s; /* its first member */
}

/* --- snapshots --------------------------------------------------------------------------------------------------------------------- */

static struct snapshot *over(struct held_text *text, const struct snapshot_facts *facts)
{
    struct held_snapshot *h = malloc(sizeof *h);

    if (!h)
        return NULL;
    atomic_init(&h->holders, 1);
    h->text = text;
    h->s = (struct snapshot){.facts = *facts, .bytes = text->bytes, .text = text->text};
    return &h->s;
}

struct snapshot *snapshot_new(const char *text, size_t bytes, const struct snapshot_facts *facts)
{
    struct held_text *t = malloc(sizeof *t + bytes + 1);
    struct snapshot *s;

    if (!t)
        return NULL;
    atomic_init(&t->holders, 1);
    t->bytes = bytes;
    memcpy(t->text, text, bytes);
    t->text[bytes] = 0;
    s = over(t, facts);
    if (!s)
        free(t);
    return s;
}

struct snapshot *snapshot_with(const struct snapshot *s, const struct snapshot_facts *facts)
{
    struct held_text *t = held(s)->text;
    struct snapshot *other = over(t, facts);

    if (other)
        atomic_fetch_add(&t->holders, 1);
    return other;
}

struct snapshot *snapshot_hold(struct snapshot *s)
{
    if (s)
        atomic_fetch_add(&held(s)->holders, 1);
    return s;
}

void snapshot_release(struct snapshot *s)
{
    if (!s || atomic_fetch_sub(&held(s)->holders, 1) != 1)
        return;
    if (atomic_fetch_sub(&held(s)->text->holders, 1) == 1)
        free(held(s)->text);
    free(held(s));
}

static enum err_code check_code(const char *file, const char *text, size_t bytes, char *ret_why, size_t why_bytes)
{
    const char *at = text, *end = text + bytes;

    for (size_t n; at < end && *at && (n = utf8_char(at, (size_t)(end - at))); at += n)
        ;
    if (at == end)
        return ERR_OK;
    (void)snprintf(ret_why, why_bytes, "its %.63s %s at byte %zu", file, *at ? "is not UTF-8" : "has a NUL", (size_t)(at - text));
    return ERR_JSON;
}

enum err_code snapshot_check(const char *file, const char *text, size_t bytes, char *ret_why, size_t why_bytes)
{
    struct json *doc = NULL;
    struct err err = {0};
    enum err_code rc;

    if (strcmp(file, "config.json"))
        return check_code(file, text, bytes, ret_why, why_bytes);
    rc = json_parse(text, bytes, &json_limits_config, &doc, &err);
    if (rc) {
        (void)snprintf(ret_why, why_bytes, "its config.json cannot be read: %.120s", err.detail);
        return rc;
    }
    if (json_type(doc) != JSON_OBJECT) {
        (void)snprintf(ret_why, why_bytes, "its config.json is %s, not an object", json_type_name(json_type(doc)));
        rc = ERR_JSON;
    }
    json_free(doc);
    return rc;
}

/* --- configs ----------------------------------------------------------------------------------------------------------------------- */

static const struct hub_config no_memory = {
    .model = "", .revision = "", .source = "hub", .tier = "hub", .err = {.code = ERR_OVERLOADED, .detail = "no memory for a config.json"}};

static struct held_config *held_config(const struct hub_config *c)
{
    return (struct held_config *)(uintptr_t)c;
}

static const char *put(char **at, const char *text)
{
    const char *start = *at;

    if (!text)
        return NULL;
    *at = stpcpy(*at, text) + 1;
    return start;
}

static void show(struct hub_config *c, const struct snapshot *s)
{
    c->text = s->text;
    c->bytes = s->bytes;
    c->source = s->facts.source;
    c->commit = s->facts.commit[0] ? s->facts.commit : NULL;
    c->parameters = s->facts.parameters;
    c->is_private = s->facts.is_private;
}

const struct hub_config *config_new(const struct view *v)
{
    size_t names = strlen(v->model) + strlen(v->revision) + (v->note ? strlen(v->note) : 0) + 3;
    struct held_config *h = calloc(1, sizeof *h + names);
    char *at;

    if (!h)
        return &no_memory;
    at = h->names;
    atomic_init(&h->holders, 1);
    h->c.model = put(&at, v->model);
    h->c.revision = put(&at, v->revision);
    h->c.note = put(&at, v->note);
    h->c.tier = v->tier;
    h->c.source = "hub";
    h->c.retry_after_s = v->retry_after_s;
    h->snapshot = snapshot_hold(v->snapshot);
    if (h->snapshot)
        show(&h->c, h->snapshot);
    else
        h->c.err = *v->err;
    return &h->c;
}

bool config_is_made(const struct hub_config *c)
{
    return c != &no_memory;
}

const struct hub_config *config_hold(const struct hub_config *c)
{
    if (c && c != &no_memory)
        atomic_fetch_add(&held_config(c)->holders, 1);
    return c;
}

void hub_give_back(const struct hub_config *c)
{
    if (!c || c == &no_memory || atomic_fetch_sub(&held_config(c)->holders, 1) != 1)
        return;
    snapshot_release(held_config(c)->snapshot);
    free(held_config(c));
}

struct snapshot *config_snapshot(const struct hub_config *c)
{
    return c == &no_memory ? NULL : held_config(c)->snapshot;
}

size_t config_bytes(const struct hub_config *c)
{
    return sizeof(struct held_config) + sizeof(struct held_snapshot) + c->bytes + strlen(c->model) + strlen(c->revision) +
           (c->note ? strlen(c->note) : 0);
}
