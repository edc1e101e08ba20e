/* rope_parameters (5.x) and rope_scaling (before): transformers 5.23.0 modeling_rope_utils.py. */
#include "config/keys.h"

#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct rope_type {
    const char *name;
    enum rope rope;
    bool factor, factors; /* the keys validate_rope insists on: factor; short_factor and long_factor */
};

static const struct rope_type rope_types[] = {
    {"default", ROPE_DEFAULT, false, false}, {"linear", ROPE_LINEAR, true, false},
    {"dynamic", ROPE_DYNAMIC, true, false},  {"yarn", ROPE_YARN, true, false},
    {"llama3", ROPE_LLAMA3, true, false},    {"longrope", ROPE_LONGROPE, false, true},
    {"proportional", ROPE_PROPORTIONAL, false, false},
};

#define ROPE_NAMES "default, linear, dynamic, yarn, llama3, longrope, proportional"

static enum err_code refuse_in(struct err *err, enum err_code code, const char *dict, const char *key, const char *detail)
{
    char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", dict, key);
    return keys_refuse(err, code, path, "%s", detail);
}

static enum err_code find_type(const struct json *rope, const char *dict, const struct rope_type **ret, struct err *err)
{
    const char *key = json_get(rope, "rope_type") ? "rope_type" : "type";
    const struct json *v = json_get(rope, key);
    const char *name = v ? json_str(v) : "default";
    char detail[160];

    for (size_t i = 0; name && i < sizeof rope_types / sizeof *rope_types; i++)
        if (!strcmp(name, rope_types[i].name)) {
            *ret = &rope_types[i];
            return ERR_OK;
        }
    if (!name)
        return refuse_in(err, ERR_FIELD_TYPE, dict, key, "must be a string");
    (void)snprintf(detail, sizeof detail, "'%.40s' is not one of " ROPE_NAMES, name);
    return refuse_in(err, ERR_FIELD_VALUE, dict, key, detail);
}

/* A number > 0; absent or null leaves *ret. */
static enum err_code number(const struct json *rope, const char *dict, const char *key, double *ret, struct err *err)
{
    const struct json *v = json_get(rope, key);
    double value;

    if (json_type(v) <= JSON_NULL)
        return ERR_OK;
    if (!json_number(v, &value))
        return refuse_in(err, ERR_FIELD_TYPE, dict, key, "must be a number");
    if (!(value > 0 && value < 1e12))
        return refuse_in(err, ERR_FIELD_RANGE, dict, key, "must be greater than 0");
    *ret = value;
    return ERR_OK;
}

static double mscale(double factor, double m)
{
    return factor <= 1 ? 1 : 0.1 * m * log(factor) + 1;
}

/* _compute_yarn_parameters, _compute_longrope_parameters: attention_factor. The others return 1. */
static enum err_code attention_scaling(struct arch *a, const struct json *rope, const char *dict, struct err *err)
{
    double given = 0, factor = 0, original = a->max_positions, m = 0, m_all = 0;
    enum err_code rc;

    a->rope_attention_scaling = 1;
    if (a->rope != ROPE_YARN && a->rope != ROPE_LONGROPE)
        return ERR_OK;
    if ((rc = number(rope, dict, "attention_factor", &given, err)) || (rc = number(rope, dict, "factor", &factor, err)) ||
        (rc = number(rope, dict, "original_max_position_embeddings", &original, err)) || (rc = number(rope, dict, "mscale", &m, err)) ||
        (rc = number(rope, dict, "mscale_all_dim", &m_all, err)))
        return rc;
    if (factor <= 0)
        factor = a->max_positions / original;
    if (given > 0)
        a->rope_attention_scaling = given;
    else if (a->rope == ROPE_LONGROPE)
        a->rope_attention_scaling = factor <= 1 || original <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    else
        a->rope_attention_scaling = m > 0 && m_all > 0 ? mscale(factor, m) / mscale(factor, m_all) : mscale(factor, 1);
    return ERR_OK;
}

/* GPTNeoXConfig.convert_rope_params_to_dict: in the dictionary, else rotary_pct, else the class default. Others rotate the whole head. */
static enum err_code rotated(struct arch *a, double share, const struct json *config, const struct json *rope, const char *dict,
                             struct err *err)
{
    struct { double pct; } outer;
    const struct arch_key pct[] = {{KEY_RATE, "rotary_pct", NULL, 0, share, 0, false, false}, {KEY_END, NULL, NULL, 0, 0, 0, false, false}};
    enum err_code rc = share < 1 ? keys_read(&outer, pct, config, true, err) : ERR_OK;

    if (rc)
        return rc;
    if (share < 1) {
        share = outer.pct;
        rc = number(rope, dict, "partial_rotary_factor", &share, err);
        if (rc)
            return rc;
        if (share > 1)
            return refuse_in(err, ERR_FIELD_RANGE, dict, "partial_rotary_factor", "must be within 0..1");
    }
    a->rotary_dim = (uint32_t)((double)a->head_dim * share);
    if (!a->rotary_dim)
        return keys_refuse(err, ERR_ARCH_INVALID, "rotary_pct", "leaves nothing of a head of %u to rotate", a->head_dim);
    a->rotary_dim += a->rotary_dim % 2; /* arange(0, dim, 2) doubled */
    return ERR_OK;
}

enum err_code rope_read(struct arch *a, const struct family_row *f, const struct json *config, struct err *err)
{
    const char *dict = json_count(json_get(config, "rope_scaling")) ? "rope_scaling" : "rope_parameters";
    const struct json *rope = json_get(config, dict);
    const struct rope_type *type = rope_types;
    enum err_code rc;

    if (f->rotary <= 0)
        return ERR_OK;
    if (json_type(rope) > JSON_NULL && json_type(rope) != JSON_OBJECT)
        return keys_refuse(err, ERR_FIELD_TYPE, dict, "must be an object");
    rc = find_type(rope, dict, &type, err);
    if (rc)
        return rc;
    if (type->factor && !json_get(rope, "factor"))
        return refuse_in(err, ERR_FIELD_MISSING, dict, "factor", "needed by this rope_type");
    if (type->factors && !json_get(rope, "short_factor"))
        return refuse_in(err, ERR_FIELD_MISSING, dict, "short_factor", "needed by this rope_type");
    if (type->factors && !json_get(rope, "long_factor"))
        return refuse_in(err, ERR_FIELD_MISSING, dict, "long_factor", "needed by this rope_type");
    a->rope = type->rope;
    a->rope_dynamic = type->rope == ROPE_DYNAMIC || type->rope == ROPE_LONGROPE;
    rc = attention_scaling(a, rope, dict, err);
    return rc ? rc : rotated(a, f->rotary, config, rope, dict, err);
}
