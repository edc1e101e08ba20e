/* Users' own configs: the one way to fill a member of the request. */
#include "api/theirs/theirs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for any kind of member. */
union slot {
    struct strs strs;
    struct methods methods;
    struct words words;
    struct quantity quantity;
    struct given_request given; /* of a document that outlives its reading: no text of ours */
    const char *text;
    enum tri tri;
};

struct target {
    const struct member *row;
    void *slot;
    char pointer[96];
};

static struct target target_of(struct theirs *t, const char *member)
{
    struct place place = place_find(estimate_members, member);
    struct target ret = {.slot = &t->e->rq};
    size_t used = 0;

    for (unsigned i = 0; i < place.depth; i++) {
        ret.row = place.row[i];
        ret.slot = (char *)ret.slot + ret.row->at;
        used += (size_t)snprintf(ret.pointer + used, sizeof ret.pointer - used, "/%s", ret.row->key);
    }
    return ret;
}

static bool is_filled(const struct target *target)
{
    if (target->row->kind == KIND_WORDS)
        return ((const struct words *)target->slot)->n > 0;
    return member_is_set(target->row, target->slot);
}

bool theirs_is_filled(struct theirs *t, const char *member)
{
    struct target target = target_of(t, member);

    return is_filled(&target);
}

static bool same_strs(const struct strs *a, const struct strs *b)
{
    bool same = a->n == b->n && a->is_string == b->is_string;

    for (uint32_t i = 0; same && i < a->n; i++)
        same = !strcmp(a->v[i], b->v[i]);
    return same;
}

static bool has_words(const struct words *have, const struct words *wanted)
{
    for (unsigned i = 0; i < wanted->n; i++)
        if (!memchr(have->at, wanted->at[i], have->n))
            return false;
    return true;
}

/* What is there already agrees: it is the same, or a list that has it. */
static bool agrees(const struct member *row, const void *have, const union slot *said)
{
    const struct quantity *q = have;

    switch (row->kind) {
    case KIND_WORDS:
        return has_words(have, &said->words);
    case KIND_STRS:
        return same_strs(have, &said->strs);
    case KIND_OWN:
        return row->agrees && row->agrees(have, said);
    case KIND_STR:
        return !strcmp(*(const char *const *)have, said->text);
    case KIND_BOOL:
        return *(const enum tri *)have == said->tri;
    default:
        return q->whole == said->quantity.whole && !(q->real < said->quantity.real) && !(q->real > said->quantity.real);
    }
}

static size_t slot_bytes(const struct member *row)
{
    switch (row->kind) {
    case KIND_WORDS:
        return sizeof(struct words);
    case KIND_STRS:
        return sizeof(struct strs);
    case KIND_OWN:
        return row->size;
    case KIND_STR:
        return sizeof(const char *);
    case KIND_BOOL:
        return sizeof(enum tri);
    default:
        return sizeof(struct quantity);
    }
}

const char *origin_of(const struct origins *o, const void *slot)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (o->v[i].slot == slot)
            return o->v[i].path;
    return NULL;
}

/* A value that was written here does not outlive its reading. */
static bool keep_strs(struct theirs *t, struct strs *s)
{
    for (uint32_t i = 0; i < s->n; i++) {
        s->v[i] = arena_str(t->d.arena, s->v[i], strlen(s->v[i]));
        if (!s->v[i])
            return false;
    }
    return true;
}

/* What a slot holds, for a sentence; "" where that would be long. */
static const char *in_words(const struct member *row, const void *slot, char ret[64])
{
    const struct quantity *q = slot;
    const struct words *words = slot;

    ret[0] = 0;
    if (row->kind == KIND_WORDS && words->n == 1)
        (void)snprintf(ret, 64, "%.40s", row->words[words->at[0]].name);
    else if (row->kind == KIND_BOOL)
        (void)snprintf(ret, 64, "%s", *(const enum tri *)slot == TRI_TRUE ? "true" : "false");
    else if (row->kind == KIND_WHOLE || row->kind == KIND_BYTES)
        (void)snprintf(ret, 64, "%llu", (unsigned long long)q->whole);
    return ret;
}

static enum err_code contradicts(struct theirs *t, const struct target *target, const union slot *said, const char *path)
{
    char ours[64], theirs[64];

    (void)in_words(target->row, said, ours);
    (void)in_words(target->row, target->slot, theirs);
    if (!ours[0] || !theirs[0])
        return decode_fail(&t->d, ERR_FIELD_CONFLICT, "contradicts %s: give one of them, or the same", path);
    return decode_fail(&t->d, ERR_FIELD_CONFLICT, "means %s, which contradicts %s of %s: give one of them, or the same", ours, theirs, path);
}

static enum err_code fill(struct theirs *t, const struct target *target, union slot *said)
{
    const char *path;

    if (is_filled(target)) {
        if (agrees(target->row, target->slot, said))
            return ERR_OK;
        path = origin_of(&t->e->origins, target->slot);
        return contradicts(t, target, said, path ? path : target->pointer);
    }
    if (target->row->kind == KIND_STRS && !keep_strs(t, &said->strs))
        return decode_fail(&t->d, ERR_NOMEM, "no room for the request");
    memcpy(target->slot, said, slot_bytes(target->row));
    path = theirs_path(t);
    if (!path || t->e->origins.n == ORIGINS_MAX)
        return decode_fail(&t->d, ERR_NOMEM, "no room for the request");
    t->e->origins.v[t->e->origins.n].slot = target->slot;
    t->e->origins.v[t->e->origins.n++].path = path;
    return ERR_OK;
}

/* 1e-3 is a text in YAML 1.1, a number to HfArgumentParser and OmegaConf. */
static bool is_number_in_text(const struct member *row, const struct json *v, char text[40])
{
    const char *s = row->kind == KIND_REAL ? json_str(v) : NULL;
    double number;
    char *end;

    if (!s || !*s)
        return false;
    number = strtod(s, &end);
    return !*end && number > -1e15 && number < 1e15 && snprintf(text, 40, "%.15g", number) < 40;
}

enum err_code theirs_say(struct theirs *t, const char *member, const struct json *v)
{
    struct target target = target_of(t, member);
    union slot said;
    enum err_code rc;
    char number[40];
    bool flag;

    if (is_number_in_text(target.row, v, number))
        return theirs_say_text(t, member, number);
    memset(&said, 0, sizeof said);
    if (target.row->kind == KIND_BOOL && theirs_flag(v, &flag)) {
        said.tri = flag ? TRI_TRUE : TRI_FALSE;
        rc = ERR_OK;
    } else {
        rc = decode_value(&t->d, target.row, v, &said);
    }
    return rc ? rc : fill(t, &target, &said);
}

enum err_code theirs_say_text(struct theirs *t, const char *member, const char *text)
{
    struct json *v = NULL;
    enum err_code rc = json_parse(text, strlen(text), &json_limits_request, &v, t->d.err);

    if (!rc)
        rc = theirs_say(t, member, v);
    json_free(v);
    return rc;
}

enum err_code theirs_say_word(struct theirs *t, const char *member, const char *word)
{
    char text[128];

    (void)snprintf(text, sizeof text, "\"%.100s\"", word);
    return theirs_say_text(t, member, text);
}

enum err_code theirs_say_plain(struct theirs *t, const char *member, const char *plain)
{
    size_t n = strlen(plain), out = 0;
    char *text = arena_array(t->e->call->arena, char, 2 * n + 3);

    if (!text)
        return decode_fail(&t->d, ERR_NOMEM, "no room for the request");
    text[out++] = '"';
    for (size_t i = 0; i < n; i++) {
        if (plain[i] == '"' || plain[i] == '\\')
            text[out++] = '\\';
        text[out++] = plain[i];
    }
    text[out] = '"';
    return theirs_say_text(t, member, text);
}

enum err_code theirs_say_number(struct theirs *t, const char *member, uint64_t n)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return theirs_say_text(t, member, text);
}
