#include "config/keys.h"

#include "base/json.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ACT2FN (transformers activations.py); how each is computed stands in models/library/activations.py. */
static const struct {
    const char *name;
    enum activation activation;
} activations[] = {
    {"gelu", ACT_GELU},           {"gelu_new", ACT_GELU_NEW},      {"gelu_pytorch_tanh", ACT_GELU_PYTORCH_TANH},
    {"gelu_fast", ACT_GELU_FAST}, {"silu", ACT_SILU},              {"swish", ACT_SILU},
    {"relu", ACT_RELU},           {"gelu_10", ACT_OTHER},          {"gelu_accurate", ACT_OTHER},
    {"gelu_python", ACT_OTHER},   {"gelu_python_tanh", ACT_OTHER}, {"hardswish", ACT_OTHER},
    {"laplace", ACT_OTHER},       {"leaky_relu", ACT_OTHER},       {"linear", ACT_OTHER},
    {"mish", ACT_OTHER},          {"quick_gelu", ACT_OTHER},       {"relu2", ACT_OTHER},
    {"relu6", ACT_OTHER},         {"sigmoid", ACT_OTHER},          {"sqrtsoftplus", ACT_OTHER},
    {"tanh", ACT_OTHER},          {"xielu", ACT_OTHER},
};

#define ACTIVATION_NAMES                                                                                                                           \
    "gelu, gelu_new, gelu_pytorch_tanh, gelu_fast, silu, swish, relu, gelu_10, gelu_accurate, gelu_python, gelu_python_tanh, hardswish, laplace, " \
    "leaky_relu, linear, mish, quick_gelu, relu2, relu6, sigmoid, sqrtsoftplus, tanh, xielu"

enum err_code keys_refuse(struct err *err, enum err_code code, const char *key, const char *fmt, ...)
{
    char at[sizeof err->at], detail[sizeof err->detail];
    va_list args;

    (void)snprintf(at, sizeof at, "/%s", key);
    va_start(args, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    return err_set(err, code, at, "%s", detail);
}

static bool given(const struct json *v)
{
    return json_type(v) > JSON_NULL;
}

/* The spelling that counts: the alias where both stand, since setattr runs after __init__'s own arguments. */
static const char *spelling(const struct arch_key *k, const struct json *config)
{
    if (k->also && (given(json_get(config, k->also)) || !json_get(config, k->key)))
        return json_get(config, k->also) ? k->also : k->key;
    return k->key;
}

const char *keys_spelling(const struct arch_key *keys, size_t at, const struct json *config)
{
    for (const struct arch_key *k = keys; k->kind != KEY_END; k++)
        if (k->at == at && k->key)
            return spelling(k, config);
    return "model_type";
}

static enum err_code wrong_type(struct err *err, const char *key, const char *wanted, const struct json *v)
{
    const char *s = json_str(v);

    if (s)
        return keys_refuse(err, ERR_FIELD_TYPE, key, "must be %s, but is the string \"%.40s\"", wanted, s);
    return keys_refuse(err, ERR_FIELD_TYPE, key, "must be %s, but is %s", wanted, json_type_name(json_type(v)));
}

static enum err_code read_whole(const char *key, const struct json *v, int64_t min, int64_t max, int64_t *ret, struct err *err)
{
    double number;

    if (!json_number(v, &number))
        return wrong_type(err, key, "a whole number", v);
    if (number < (double)min || number > (double)max)
        return keys_refuse(err, ERR_FIELD_RANGE, key, "must be within %lld..%lld, but is %.15g", (long long)min, (long long)max, number);
    if (!json_int64(v, ret))
        return keys_refuse(err, ERR_FIELD_TYPE, key, "must be a whole number, but is %.15g", number);
    return ERR_OK;
}

static enum err_code read_real(const char *key, const struct json *v, double max, double *ret, struct err *err)
{
    double number;

    if (!json_number(v, &number))
        return wrong_type(err, key, "a number", v);
    if (!(number >= 0 && number <= max))
        return keys_refuse(err, ERR_FIELD_RANGE, key, "must be within 0..%g, but is %g", max, number);
    *ret = number;
    return ERR_OK;
}

static enum err_code read_activation(const char *key, const struct json *v, enum activation *ret, struct err *err)
{
    const char *name = json_str(v);

    if (!name)
        return wrong_type(err, key, "the name of an activation", v);
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (!strcmp(name, activations[i].name)) {
            *ret = activations[i].activation;
            return ERR_OK;
        }
    return keys_refuse(err, ERR_FIELD_VALUE, key, "the activation '%.40s' is not modelled; known are " ACTIVATION_NAMES, name);
}

static void take_fallback(void *member, const struct arch_key *k, bool none)
{
    double value = none ? 0 : k->fallback;

    switch (k->kind) {
    case KEY_SIZE: *(uint32_t *)member = (uint32_t)value; break;
    case KEY_TOKEN: *(int64_t *)member = none || value < 0 ? NO_TOKEN : (int64_t)value; break;
    case KEY_FLAG: *(bool *)member = value > 0; break;
    case KEY_RATE:
    case KEY_REAL: *(double *)member = value; break;
    case KEY_ACTIVATION:
    case KEY_FIXED: *(enum activation *)member = (enum activation)value; break;
    case KEY_REFUSED:
    case KEY_END: break;
    }
}

static enum err_code take(void *member, const struct arch_key *k, const char *key, const struct json *v, struct err *err)
{
    bool flag = false;
    int64_t whole;
    enum err_code rc;

    switch (k->kind) {
    case KEY_SIZE:
        rc = read_whole(key, v, 1, k->max, &whole, err);
        if (!rc)
            *(uint32_t *)member = (uint32_t)whole;
        return rc;
    case KEY_TOKEN:
        return read_whole(key, v, -MAX_vocab, MAX_vocab, member, err);
    case KEY_RATE:
        return read_real(key, v, 1, member, err);
    case KEY_REAL:
        return read_real(key, v, 1e9, member, err);
    case KEY_ACTIVATION:
        return read_activation(key, v, member, err);
    case KEY_FLAG:
    case KEY_REFUSED:
        if (!json_bool(v, &flag))
            return wrong_type(err, key, "true or false", v);
        if (k->kind == KEY_FLAG)
            *(bool *)member = flag;
        else if (flag)
            return keys_refuse(err, ERR_FIELD_VALUE, key, "is only modelled as false");
        return ERR_OK;
    case KEY_FIXED:
    case KEY_END:
        break;
    }
    return ERR_OK;
}

enum err_code keys_read(void *into, const struct arch_key *keys, const struct json *config, bool lenient, struct err *err)
{
    for (const struct arch_key *k = keys; k->kind != KEY_END; k++) {
        const char *key = k->key ? spelling(k, config) : NULL;
        const struct json *v = key ? json_get(config, key) : NULL;
        void *member = (char *)into + k->at;
        enum err_code rc;

        take_fallback(member, k, k->or_none && json_type(v) == JSON_NULL);
        if (!given(v)) {
            if (k->required && !lenient)
                return keys_refuse(err, ERR_FIELD_MISSING, key, "this model type cannot be built without it");
            continue;
        }
        rc = take(member, k, key, v, err);
        if (rc)
            return rc;
    }
    return ERR_OK;
}
