#include "base/json.h"

#include "base/json_scan.h"

#include <cjson/cJSON.h>

#include <math.h>
#include <string.h>

const struct json_limits json_limits_request = {.bytes = 1 << 20, .depth = JSON_MAX_DEPTH, .values = 100000,
                                                .python_within = "config|deepspeed_config|accelerate_config|training_arguments"};
const struct json_limits json_limits_config = {.bytes = 1 << 20, .depth = JSON_MAX_DEPTH, .values = 100000, .python_floats = true};

static const double exact_max = 9007199254740992.0; /* 2^53 */

/* struct json is cJSON by another name: these two are the only places that know. */
static const cJSON *inside(const struct json *v)
{
    return (const cJSON *)(const void *)v;
}

static const struct json *outside(const cJSON *item)
{
    return (const struct json *)(const void *)item;
}

static enum err_code no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "", "no memory for a JSON document");
}

/*
 * cJSON does not know Python's spellings of what is no number: NaN becomes null, the infinities a literal that overflows.
 * `text` has been checked; within it these letters stand in strings or are such a number.
 */
static size_t respell(const char *text, size_t bytes, char *out)
{
    static const struct {
        const char *python, *json;
    } spelling[] = {{"NaN", "null"}, {"Infinity", "1e9999"}};
    size_t put = 0;
    bool quoted = false;

    for (size_t i = 0; i < bytes;) {
        size_t s = quoted || text[i] == 'N' ? 0 : 1;
        size_t n = strlen(spelling[s].python);

        if (!quoted && (text[i] == 'N' || text[i] == 'I')) {
            memcpy(out + put, spelling[s].json, strlen(spelling[s].json));
            put += strlen(spelling[s].json);
            i += n;
            continue;
        }
        if (quoted && text[i] == '\\')
            out[put++] = text[i++];
        else if (text[i] == '"')
            quoted = !quoted;
        out[put++] = text[i++];
    }
    return put;
}

/*
 * cJSON makes 2 and 2.0 the same double, Python an int and a float: `valueint`, which nobody reads and copies carry, says which was written. The tree has its
 * numbers in the text's order; strings are stepped over, and what remains of digits are numbers. Recursion is as deep as the limits allowed.
 */
static const char *mark_floats(cJSON *v, const char *at, const char *end)
{
    if ((v->type & 0xFF) == cJSON_Array || (v->type & 0xFF) == cJSON_Object)
        for (cJSON *child = v->child; child; child = child->next)
            at = mark_floats(child, at, end);
    if ((v->type & 0xFF) != cJSON_Number)
        return at;
    for (bool quoted = false; quoted || *at < '0' || *at > '9'; at++)
        if (quoted && *at == '\\')
            at++;
        else if (*at == '"')
            quoted = !quoted;
    v->valueint = 0;
    for (; at < end && strchr("0123456789.eE+-", *at); at++)
        v->valueint |= *at == '.' || *at == 'e' || *at == 'E';
    return at;
}

static cJSON *build(const char *text, size_t bytes, size_t python_floats)
{
    char *copy = NULL;
    cJSON *root;

    if (python_floats) {
        copy = cJSON_malloc(bytes + python_floats); /* NaN -> null is one longer, Infinity shrinks */
        if (!copy)
            return NULL;
        bytes = respell(text, bytes, copy);
        text = copy;
    }
    root = cJSON_ParseWithLength(text, bytes);
    if (root)
        (void)mark_floats(root, text, text + bytes);
    cJSON_free(copy);
    return root;
}

enum err_code json_parse(const char *text, size_t bytes, const struct json_limits *limits, struct json **ret, struct err *err)
{
    size_t python_floats = 0, skip = 0;
    enum err_code rc = json_scan(text, bytes, limits, &skip, &python_floats, err);
    cJSON *root;

    if (rc)
        return rc;
    root = build(text + skip, bytes - skip, python_floats);
    if (!root)
        return no_memory(err);
    *ret = (struct json *)(void *)root;
    return ERR_OK;
}

struct json *json_copy(const struct json *v)
{
    return (struct json *)cJSON_Duplicate(inside(v), true);
}

void json_free(struct json *doc)
{
    cJSON_Delete((cJSON *)(void *)doc);
}

enum json_type json_type(const struct json *v)
{
    if (!v)
        return JSON_ABSENT;
    switch (inside(v)->type & 0xFF) {
    case cJSON_False:
    case cJSON_True:
        return JSON_BOOL;
    case cJSON_Number:
        return JSON_NUMBER;
    case cJSON_String:
        return JSON_STRING;
    case cJSON_Array:
        return JSON_ARRAY;
    case cJSON_Object:
        return JSON_OBJECT;
    default:
        return JSON_NULL;
    }
}

const char *json_type_name(enum json_type type)
{
    static const char *const names[] = {
        [JSON_ABSENT] = "nothing", [JSON_NULL] = "null",      [JSON_BOOL] = "true or false", [JSON_NUMBER] = "a number",
        [JSON_STRING] = "a string", [JSON_ARRAY] = "an array", [JSON_OBJECT] = "an object",
    };

    return names[type];
}

const struct json *json_first(const struct json *container)
{
    enum json_type type = json_type(container);

    return type == JSON_ARRAY || type == JSON_OBJECT ? outside(inside(container)->child) : NULL;
}

const struct json *json_next(const struct json *v)
{
    return outside(inside(v)->next);
}

const char *json_name(const struct json *member)
{
    return member ? inside(member)->string : NULL;
}

size_t json_count(const struct json *container)
{
    size_t n = 0;

    json_each(v, container)
        n++;
    return n;
}

/* Not cJSON_GetObjectItemCaseSensitive: it returns the first of duplicates. */
const struct json *json_get(const struct json *object, const char *name)
{
    const struct json *last = NULL;

    if (json_type(object) != JSON_OBJECT)
        return NULL;
    json_each(v, object)
        if (*json_name(v) == *name && strcmp(json_name(v), name) == 0)
            last = v;
    return last;
}

const char *json_str(const struct json *v)
{
    return json_type(v) == JSON_STRING ? inside(v)->valuestring : NULL;
}

bool json_bool(const struct json *v, bool *ret)
{
    if (json_type(v) != JSON_BOOL)
        return false;
    *ret = (inside(v)->type & 0xFF) == cJSON_True;
    return true;
}

bool json_number(const struct json *v, double *ret)
{
    if (json_type(v) != JSON_NUMBER)
        return false;
    *ret = inside(v)->valuedouble;
    return true;
}

bool json_is_float(const struct json *v)
{
    return json_type(v) == JSON_NUMBER && inside(v)->valueint;
}

bool json_int64(const struct json *v, int64_t *ret)
{
    double d;

    if (!json_number(v, &d) || !(d >= -exact_max && d <= exact_max) || floor(d) < d)
        return false;
    *ret = (int64_t)d;
    return true;
}

bool json_uint64(const struct json *v, uint64_t *ret)
{
    int64_t i;

    if (!json_int64(v, &i) || i < 0)
        return false;
    *ret = (uint64_t)i;
    return true;
}

/* Every name is looked up among all others, so the number of members bounds the work. */
enum { MERGE_MAX_MEMBERS = 4096 };

static void drop(cJSON *object, const char *name)
{
    while (cJSON_GetObjectItemCaseSensitive(object, name))
        cJSON_DeleteItemFromObjectCaseSensitive(object, name);
}

static bool put(cJSON *object, const char *name, cJSON *value)
{
    if (value && cJSON_AddItemToObject(object, name, value))
        return true;
    cJSON_Delete(value);
    return false;
}

static enum err_code merge(cJSON *target, const struct json *patch, struct err *err);

static enum err_code merge_member(cJSON *target, const char *name, const struct json *p, struct err *err)
{
    const struct json *old = json_get(outside(target), name);
    cJSON *value;

    if (json_type(p) == JSON_OBJECT && json_type(old) == JSON_OBJECT)
        return merge((cJSON *)(void *)inside(old), p, err);
    drop(target, name);
    if (json_type(p) == JSON_NULL)
        return ERR_OK;
    if (json_type(p) != JSON_OBJECT)
        return put(target, name, cJSON_Duplicate(inside(p), true)) ? ERR_OK : no_memory(err);
    value = cJSON_CreateObject(); /* not a duplicate: nulls within the patch do not become members */
    if (!put(target, name, value))
        return no_memory(err);
    return merge(value, p, err);
}

/* The patch's depth is bounded by json_parse, so the recursion is. */
static enum err_code merge(cJSON *target, const struct json *patch, struct err *err)
{
    if (json_count(outside(target)) + json_count(patch) > MERGE_MAX_MEMBERS)
        return err_set(err, ERR_JSON, "", "an object of more than %d members is not merged", MERGE_MAX_MEMBERS);
    json_each(p, patch) {
        enum err_code rc = merge_member(target, json_name(p), p, err);

        if (rc)
            return rc;
    }
    return ERR_OK;
}

enum err_code json_merge_patch(struct json *target, const struct json *patch, struct err *err)
{
    return merge((cJSON *)(void *)target, patch, err);
}

enum err_code json_set(struct json *object, const char *within, const char *name, const struct json *v, struct err *err)
{
    const struct json *inner = within ? json_get(object, within) : NULL;
    cJSON *of = (cJSON *)(void *)inside(json_type(inner) == JSON_OBJECT ? inner : object);

    drop(of, name);
    return put(of, name, cJSON_Duplicate(inside(v), true)) ? ERR_OK : no_memory(err);
}
