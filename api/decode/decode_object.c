/* A JSON object into a struct: which member each name means. */
#include "api/decode/decode.h"
#include "api/request/left_out.h"
#include "api/decode/unknown.h"

#include <string.h>

static const struct member *find_member(const struct member *members, const char *name)
{
    for (const struct member *m = members; m->key; m++)
        if (!strcmp(m->key, name) || word_among(m->also, name, strlen(name), false))
            return m;
    return NULL;
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
    uint64_t seen;        /* a bit a member: no table has more than 64 */
    const bool *counts;   /* of duplicate names the last */
    struct lexicon names; /* made when a name is not known */
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

/* All names that may stand in an object, those of find_flat() too; keys: and those within its objects. `l` NULL: counts them. */
static size_t add_names(struct lexicon *l, const struct member *members, bool keys)
{
    size_t n = 0;

    for (const struct member *m = members; m->key; m++) {
        n += 1 + lexicon_count(m->also);
        if (l) {
            lexicon_add(l, m->key, m);
            lexicon_add(l, m->also, m);
        }
        for (const struct member *k = m->kind == KIND_OBJECT ? m->members : NULL; k && k->key; k++) {
            n += lexicon_count(k->also) + keys;
            if (l)
                lexicon_add(l, k->also, k);
            if (l && keys)
                lexicon_add(l, k->key, k);
        }
    }
    return n;
}

static enum err_code decode_unknown(struct decoding *d, struct decoded *o, size_t parent, const struct json *v)
{
    bool known = false, keys;
    enum err_code rc = d->others ? d->others(d, o->members, v, &known) : ERR_OK;

    if (rc || known || !d->left_out)
        return rc;
    if (!o->names.v) {
        keys = d->left_out->by_query && o->members == d->root;
        lexicon_init(&o->names, d->arena, add_names(NULL, o->members, keys));
        (void)add_names(&o->names, o->members, keys);
    }
    if (o->names.full)
        return decode_fail(d, ERR_NOMEM, "no room for the request");
    return unknown_member(d, parent, json_name(v), &o->names);
}

/* After all others, so that an object that says the same has been read. */
static enum err_code decode_flat(struct decoding *d, struct decoded *o, size_t parent, const struct json *v)
{
    size_t at = 0;
    const struct member *m = find_flat(o->members, json_name(v), &at);

    if (!m)
        return decode_unknown(d, o, parent, v);
    return member_is_set(m, o->into + at) ? another_name(d, m) : decode_value(d, m, v, o->into + at);
}

static enum err_code decode_pass(struct decoding *d, struct decoded *o, const struct json *doc, bool flat)
{
    size_t n = strlen(d->path), i = 0;
    enum err_code rc = ERR_OK;

    json_each (v, doc) {
        const struct member *m = o->counts[i++] ? find_member(o->members, json_name(v)) : NULL;

        if (!o->counts[i - 1] || json_type(v) == JSON_NULL || flat != !m)
            continue;
        decode_path_push(d, json_name(v));
        rc = m ? decode_member(d, o, m, v) : decode_flat(d, o, n, v);
        if (rc)
            break;
        d->path[n] = 0;
    }
    return rc;
}

enum err_code decode(struct decoding *d, const struct json *doc, const struct member *members, void *into)
{
    struct decoded o = {.members = members, .into = into};
    enum err_code rc;

    if (json_type(doc) != JSON_OBJECT)
        return decode_wrong_type(d, "an object", doc);
    if (!json_first(doc))
        return ERR_OK;
    o.counts = members_that_count(d->arena, doc);
    if (!o.counts)
        return decode_fail(d, ERR_NOMEM, "no room for the request");
    rc = decode_pass(d, &o, doc, false);
    return rc ? rc : decode_pass(d, &o, doc, true);
}
