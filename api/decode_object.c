/* A JSON object into a struct: which member each name means. */
#include "api/decode.h"

#include <string.h>

static const struct member *find_member(const struct member *members, const char *name)
{
    for (const struct member *m = members; m->key; m++)
        if (!strcmp(m->key, name) || word_among(m->also, name, strlen(name), false))
            return m;
    return NULL;
}

/* With the member that was probably meant. */
static void note_unknown(struct decoding *d, const struct member *members, const char *name)
{
    const char *best = NULL;
    size_t least = SIZE_MAX;

    for (const struct member *m = members; m->key; m++)
        word_nearer(m->key, name, &best, &least);
    note(d->warnings, "%.100s is not known and was ignored%s%s%s", d->path, best ? ": did you mean " : "", best ? best : "", best ? "?" : "");
}

/* Of duplicate names the last counts (json.h), so only that one is read. */
static bool is_current(const struct json *object, const struct json *v)
{
    return json_get(object, json_name(v)) == v;
}

/* What other tools write without the object around it: lora_rank beside lora. The member's place in *ret_at. */
static const struct member *find_flat(const struct member *members, const char *name, size_t *ret_at)
{
    for (const struct member *o = members; o->key; o++)
        for (const struct member *m = o->kind == KIND_OBJECT ? o->members : NULL; m && m->key; m++)
            if (word_among(m->also, name, strlen(name), false)) {
                *ret_at = o->at + m->at;
                return m;
            }
    return NULL;
}

struct decoded {
    const struct member *members;
    char *into;
    uint64_t seen; /* a bit a member: no table has more than 64 */
};

static enum err_code another_name(struct decoding *d, const struct member *m)
{
    return decode_fail(d, ERR_FIELD_CONFLICT, "is %s by another name: give it once", m->key);
}

static enum err_code decode_member(struct decoding *d, struct decoded *o, const struct member *m, const struct json *v)
{
    uint64_t bit = UINT64_C(1) << (m - o->members);

    if (o->seen & bit)
        return another_name(d, m);
    o->seen |= bit;
    return decode_value(d, m, v, o->into + m->at);
}

/* After all others, so that an object that says the same has been read. */
static enum err_code decode_flat(struct decoding *d, struct decoded *o, const struct json *v)
{
    size_t at = 0;
    const struct member *m = find_flat(o->members, json_name(v), &at);

    if (!m) {
        note_unknown(d, o->members, json_name(v));
        return ERR_OK;
    }
    return member_is_set(m, o->into + at) ? another_name(d, m) : decode_value(d, m, v, o->into + at);
}

static enum err_code decode_pass(struct decoding *d, struct decoded *o, const struct json *doc, bool flat)
{
    size_t n = strlen(d->path);
    enum err_code rc = ERR_OK;

    json_each(v, doc) {
        const struct member *m = find_member(o->members, json_name(v));

        if (!is_current(doc, v) || json_type(v) == JSON_NULL || flat != !m)
            continue;
        decode_path_push(d, json_name(v));
        rc = m ? decode_member(d, o, m, v) : decode_flat(d, o, v);
        if (rc)
            break;
        d->path[n] = 0;
    }
    return rc;
}

enum err_code decode(struct decoding *d, const struct json *doc, const struct member *members, void *into)
{
    struct decoded o = {members, into, 0};
    enum err_code rc;

    if (json_type(doc) != JSON_OBJECT)
        return decode_wrong_type(d, "an object", doc);
    rc = decode_pass(d, &o, doc, false);
    return rc ? rc : decode_pass(d, &o, doc, true);
}
