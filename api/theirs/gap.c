/* Users' own options without a model: where they stand, and which of their values change nothing. */
#include "api/theirs/theirs.h"

#include "api/request/query.h"
#include "api/decode/unknown.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Set to something: true, a number but 0, a text but "no" and the like, a list with something in it, an object that is not "enabled": false. */
static bool is_on(const struct json *v)
{
    const char *s = json_str(v);
    double number;
    bool flag;

    if (json_bool(v, &flag))
        return flag;
    if (json_number(v, &number))
        return number < 0 || number > 0;
    if (s)
        return s[0] && !word_among("no|none|false|auto|off|disabled|0", s, strlen(s), true);
    return json_get(v, "enabled") ? is_on(json_get(v, "enabled")) : json_count(v) > 0;
}

/* One of several values, as JSON writes them; a flag also as YAML does. */
static bool is_one_of(const char *neutral, const struct json *v)
{
    const char *s = json_str(v);
    double number;
    bool flag;

    if (s && (word_among("auto", s, strlen(s), false) || word_among(neutral, s, strlen(s), true)))
        return true;
    if (theirs_flag(v, &flag) && word_among(neutral, flag ? "true" : "false", flag ? 4 : 5, false))
        return true;
    for (const char *p = neutral; json_number(v, &number) && *p; p += strcspn(p, "|") + (p[strcspn(p, "|")] == '|')) {
        char *end;
        double same = strtod(p, &end);

        if (end > p && !(number < same) && !(number > same))
            return true;
    }
    return false;
}

bool theirs_is_neutral(const struct their_key *key, const struct json *v)
{
    if (json_type(v) == JSON_NULL)
        return true;
    if (!key->neutral)
        return !is_on(v);
    return key->neutral[0] && is_one_of(key->neutral, v);
}

void theirs_gap(struct decoding *d, const char *what)
{
    enum gap_of of = strstr(d->path, "/lora/") ? GAP_OF_ADAPTERS : GAP_OF_ALL;
    char name[sizeof d->path];

    (void)snprintf(name, sizeof name, "%s", d->path + 1);
    for (char *p = name; *p; p++)
        if (*p == '/')
            *p = '.';
    left_out_gap(d->left_out, of, d->path, "%s is not modelled yet: %s", name, what);
}

/* --- in the request itself ------------------------------------------------------------------------------------------------------- */

static const struct their_key *key_named(const struct their_key *keys, const char *name)
{
    const struct their_key *ret = NULL;

    for (; keys->names && !ret; keys++)
        if (keys->effect == ALSO)
            ret = key_named(keys->keys, name);
        else if (word_among(keys->names, name, strlen(name), false))
            ret = keys;
    return ret;
}

/* "training.seq_len=..." as a pointer. */
static const char *own_name(const struct their_key *key, const char *name, char text[POINTER_BYTES])
{
    size_t n = key->member ? strcspn(key->member, "=") : 0;

    if (!key->member || (key->effect != SAYS && !memchr(key->member, '.', n)))
        (void)snprintf(text, POINTER_BYTES, "/training_arguments/%.60s", name);
    else
        (void)snprintf(text, POINTER_BYTES, "/%.*s", (int)n, key->member);
    for (char *p = text; *p; p++)
        if (*p == '.')
            *p = '/';
    return text;
}

enum err_code theirs_known(struct decoding *d, const struct member *members, const struct json *v, bool *ret_known)
{
    const struct their_key *keys = members == training_members ? trainer_keys : members == lora_members ? peft_keys : NULL;
    const struct their_key *key = keys ? key_named(keys, json_name(v)) : NULL;
    char text[POINTER_BYTES];

    *ret_known = key != NULL;
    if (key && key->effect == QUIET)
        left_out_harmless(d->left_out, d->path);
    if (key && key->effect == NOTED && !theirs_is_neutral(key, v))
        note_of(d->warnings, NOTE_OF_FIGURES, "%.100s: %s", d->path, key->member);
    if (!key || key->effect == QUIET || key->effect == NOTED)
        return ERR_OK;
    if (key->effect != MOVED)
        return unknown_refuse(d, json_name(v), own_name(key, json_name(v), text));
    if (!theirs_is_neutral(key, v))
        theirs_gap(d, key->member);
    return ERR_OK;
}
