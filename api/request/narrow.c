/* What a LoraConfig says beside its targets: layers_to_transform, layers_pattern, exclude_modules, rank_pattern, alpha_pattern. */
#include "api/answer/estimate.h"

#include "tuning/narrow.h"
#include "tuning/pattern.h"

#include <stdio.h>
#include <string.h>

enum { LAYERS_MAX = 1024, LAYER_MAX = 65535, NAMES_MAX = 64, NAME_MAX_BYTES = 128, RANK_MAX = 65536, ALPHA_MAX = 1000000 };

/* --- as members --------------------------------------------------------------------------------------------------------------- */
static bool is_layer(const struct json *v)
{
    uint64_t n;

    return json_uint64(v, &n) && n <= LAYER_MAX;
}

enum err_code narrow_layers_read(struct decoding *d, const struct json *v, void *at)
{
    uint32_t n = 0;

    if (json_type(v) == JSON_ARRAY) {
        json_each (e, v)
            if (!is_layer(e) || ++n > LAYERS_MAX)
                return decode_fail(d, ERR_FIELD_RANGE, "must be numbers of layers, 0 to %d, at most %d", LAYER_MAX, LAYERS_MAX);
    } else if (!is_layer(v)) {
        return decode_fail(d, ERR_FIELD_TYPE, "must be a layer's number or a list of them, not %s", json_type_name(json_type(v)));
    }
    ((struct given_request *)at)->v = v;
    return ERR_OK;
}

void narrow_layers_write(struct jsonw *w, const char *key, const void *at)
{
    const struct json *v = ((const struct given_request *)at)->v;
    uint64_t n;

    if (v && json_uint64(v, &n)) {
        jsonw_u64(w, key, n);
    } else if (v) {
        jsonw_array(w, key);
        json_each (e, v)
            if (json_uint64(e, &n))
                jsonw_u64(w, NULL, n);
        jsonw_end(w);
    }
}

/* A number is what a list of it alone is. */
static const struct json *alone(const struct json *v)
{
    return json_type(v) == JSON_ARRAY && json_count(v) == 1 ? json_first(v) : v;
}

static bool same_numbers(const struct json *a, const struct json *b)
{
    double x, y;

    if (json_number(a, &x) || json_number(b, &y))
        return json_number(a, &x) && json_number(b, &y) && !(x < y) && !(x > y);
    if (json_type(a) != json_type(b) || json_count(a) != json_count(b))
        return false;
    for (const struct json *p = json_first(a), *q = json_first(b); p && q; p = json_next(p), q = json_next(q))
        if (!same_numbers(p, json_type(a) == JSON_OBJECT ? json_get(b, json_name(p)) : q))
            return false;
    return true;
}

bool narrow_agrees(const void *have, const void *said)
{
    return same_numbers(alone(((const struct given_request *)have)->v), alone(((const struct given_request *)said)->v));
}

/* As many as are echoed: what is less would come back as 0. */
static const double last_decimal = 1e-9;

static enum err_code numbers_read(struct decoding *d, const struct json *v, bool whole, struct given_request *ret)
{
    uint32_t n = 0;
    uint64_t rank;
    double number;

    if (json_type(v) != JSON_OBJECT)
        return decode_fail(d, ERR_FIELD_TYPE, "must be an object of numbers by name, not %s", json_type_name(json_type(v)));
    json_each (e, v) {
        if (!json_name(e)[0] || strlen(json_name(e)) > NAME_MAX_BYTES || ++n > NAMES_MAX)
            return decode_fail(d, ERR_FIELD_RANGE, "must have at most %d names of 1 to %d bytes", NAMES_MAX, NAME_MAX_BYTES);
        if (whole ? !json_uint64(e, &rank) || !rank || rank > RANK_MAX : !json_number(e, &number) || !(number >= last_decimal) || number > ALPHA_MAX)
            return decode_fail(d, ERR_FIELD_RANGE, "must be %s above 0, at most %d", whole ? "whole numbers" : "numbers", whole ? RANK_MAX : ALPHA_MAX);
    }
    ret->v = v;
    return ERR_OK;
}

enum err_code narrow_ranks_read(struct decoding *d, const struct json *v, void *at)
{
    return numbers_read(d, v, true, at);
}

enum err_code narrow_alphas_read(struct decoding *d, const struct json *v, void *at)
{
    return numbers_read(d, v, false, at);
}

void narrow_numbers_write(struct jsonw *w, const char *key, const void *at)
{
    const struct json *v = ((const struct given_request *)at)->v;
    double number;

    if (!v)
        return;
    jsonw_object(w, key);
    json_each (e, v)
        if (json_number(e, &number))
            jsonw_fixed(w, json_name(e), number, 9);
    jsonw_end(w);
}

/* --- as core takes them ------------------------------------------------------------------------------------------------------- */
struct reading {
    const char *of; /* "/training/lora" */
    size_t n;
    char at[96];
    struct arena *arena;
    struct err *err;
};

static const char *pointer(struct reading *r, const char *member)
{
    (void)snprintf(r->at, sizeof r->at, "%.*s/%s", (int)r->n, r->of, member);
    return r->at;
}

static enum err_code no_room(struct reading *r)
{
    return err_set(r->err, ERR_NOMEM, "", "the working memory of one request is too small");
}

static enum err_code read_layers(struct reading *r, const struct json *v, struct lora_narrow *ret)
{
    bool one = v && json_type(v) != JSON_ARRAY;
    size_t n = !v ? 0 : one ? 1 : json_count(v);
    uint32_t *layers = n ? arena_array(r->arena, uint32_t, n) : NULL;
    uint64_t k;

    if (!n)
        return ERR_OK;
    if (!layers)
        return no_room(r);
    if (one && json_uint64(v, &k))
        layers[ret->n_layers++] = (uint32_t)k;
    json_each (e, one ? NULL : v)
        if (json_uint64(e, &k))
            layers[ret->n_layers++] = (uint32_t)k;
    ret->layers = layers;
    return ERR_OK;
}

static enum err_code read_name(struct reading *r, const char *member, const char *name, double value, struct lora_named *ret)
{
    *ret = (struct lora_named){.name = name, .value = value};
    return pattern_compile(name, pointer(r, member), r->arena, &ret->pattern, r->err);
}

static enum err_code read_lists(struct reading *r, const struct strs *lists, struct lora_narrow *ret)
{
    struct lora_named *v = lists->n ? arena_array(r->arena, struct lora_named, lists->n) : NULL;
    enum err_code rc = lists->n && !v ? no_room(r) : ERR_OK;

    for (uint32_t i = 0; i < lists->n && !rc; i++)
        rc = read_name(r, "layers_pattern", lists->v[i], 0, &v[i]);
    ret->lists = v;
    ret->n_lists = lists->n;
    return rc;
}

static enum err_code read_numbers(struct reading *r, const char *member, const struct json *given, const struct lora_named **ret, uint32_t *ret_n)
{
    size_t n = given ? json_count(given) : 0, i = 0;
    struct lora_named *v = n ? arena_array(r->arena, struct lora_named, n) : NULL;
    enum err_code rc = n && !v ? no_room(r) : ERR_OK;
    double number;

    if (n && !rc)
        json_each (e, given)
            if (!rc && json_number(e, &number))
                rc = read_name(r, member, json_name(e), number, &v[i++]);
    *ret = v;
    *ret_n = (uint32_t)i;
    return rc;
}

/* peft tuners/lora/config.py __post_init__ */
static enum err_code check(struct reading *r, const struct lora_request *asked, const struct lora_narrow *n)
{
    if (asked->target_modules.is_string && n->n_layers)
        return err_set(r->err, ERR_FIELD_CONFLICT, pointer(r, "layers_to_transform"),
                       "peft: \"`layers_to_transform` cannot be used when `target_modules` is a str\": a list of names");
    if (n->n_lists && (asked->target_modules.is_string || !n->n_layers))
        return err_set(r->err, ERR_FIELD_CONFLICT, pointer(r, "layers_pattern"), "peft takes it beside layers_to_transform and a list of target_modules alone");
    return ERR_OK;
}

enum err_code narrow_read(const struct lora_request *asked, const char *at, struct arena *arena, const struct lora_narrow **ret, struct err *err)
{
    struct reading r = {.of = at, .n = (size_t)(strrchr(at, '/') - at), .arena = arena, .err = err};
    const struct strs *excluded = &asked->exclude_modules;
    struct lora_narrow *n = arena_new(arena, struct lora_narrow);
    enum err_code rc;

    if (!n)
        return no_room(&r);
    n->excluded = excluded->v;
    n->n_excluded = excluded->is_string ? 0 : excluded->n;
    n->excluded_text = excluded->is_string ? excluded->v[0] : NULL;
    rc = read_layers(&r, asked->layers_to_transform.v, n);
    if (!rc)
        rc = read_lists(&r, &asked->layers_pattern, n);
    if (!rc && n->excluded_text)
        rc = pattern_compile(n->excluded_text, pointer(&r, "exclude_modules"), arena, &n->excluded_pattern, err);
    if (!rc)
        rc = read_numbers(&r, "rank_pattern", asked->rank_pattern.v, &n->ranks, &n->n_ranks);
    if (!rc)
        rc = read_numbers(&r, "alpha_pattern", asked->alpha_pattern.v, &n->alphas, &n->n_alphas);
    if (!rc)
        rc = check(&r, asked, n);
    if (!rc && (n->n_layers || n->n_lists || n->n_excluded || n->excluded_pattern || n->n_ranks || n->n_alphas))
        *ret = n;
    return rc;
}
