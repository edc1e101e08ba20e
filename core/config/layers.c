/* Which attention each layer has: layer_types, attention_types, or the class's own rule. */
#include "config/keys.h"

#include "base/json.h"

#include <string.h>

struct kinds {
    uint8_t *kind;
    uint32_t n, used;
};

static void repeat(struct kinds *k, enum layer_kind kind)
{
    if (k->used < k->n)
        k->kind[k->used] = (uint8_t)kind;
    k->used++; /* beyond n: counted, so that the error can say how many */
}

/* Appends the names of a list; returns the first that is not known. */
static const char *append(struct kinds *k, const struct json *names, const char *full, const char *sliding)
{
    json_each(v, names) {
        const char *name = json_str(v);

        if (!name || (strcmp(name, full) && strcmp(name, sliding)))
            return name ? name : "(not a string)";
        repeat(k, strcmp(name, full) ? LAYER_SLIDING : LAYER_FULL);
    }
    return NULL;
}

static enum err_code counted(const struct kinds *k, const char *key, struct err *err)
{
    if (k->used != k->n)
        return keys_refuse(err, ERR_ARCH_INVALID, key, "names %u layers, the model has %u", k->used, k->n);
    return ERR_OK;
}

static enum err_code listed(struct kinds *k, const struct json *names, const char *key, const char *full, const char *sliding,
                            struct err *err)
{
    const char *unknown;

    if (json_type(names) != JSON_ARRAY)
        return keys_refuse(err, ERR_FIELD_TYPE, key, "must be a list of \"%s\" and \"%s\"", full, sliding);
    unknown = append(k, names, full, sliding);
    if (unknown)
        return keys_refuse(err, ERR_FIELD_VALUE, key, "'%.40s' is neither \"%s\" nor \"%s\"", unknown, full, sliding);
    return counted(k, key, err);
}

/* [[["global", "local"], 12]]: the names, as often as the number says. */
static enum err_code gpt_neo_kinds(struct kinds *k, const struct json *config, struct err *err)
{
    static const char key[] = "attention_types";
    const struct json *layers = json_get(config, "attention_layers"), *types = json_get(config, key);

    if (json_type(layers) > JSON_NULL) /* set after the expansion, so it wins */
        return listed(k, layers, "attention_layers", "global", "local", err);
    if (json_type(types) <= JSON_NULL) {
        for (uint32_t i = 0; i < 24; i++) /* the default [[["global", "local"], 12]] */
            repeat(k, i % 2 ? LAYER_SLIDING : LAYER_FULL);
        return counted(k, "num_layers", err);
    }
    json_each(item, types) {
        const struct json *names = json_first(item), *times = names ? json_next(names) : NULL;
        uint64_t n;

        if (json_type(item) != JSON_ARRAY || json_type(names) != JSON_ARRAY || !json_uint64(times, &n) || n > ARCH_MAX_LAYERS)
            return keys_refuse(err, ERR_FIELD_TYPE, key, "must be a list like [[[\"global\", \"local\"], 12]]");
        while (n--) {
            const char *unknown = append(k, names, "global", "local");

            if (unknown)
                return keys_refuse(err, ERR_FIELD_VALUE, key, "'%.40s' is neither \"global\" nor \"local\"", unknown);
            if (k->used > k->n)
                return keys_refuse(err, ERR_ARCH_INVALID, key, "names more layers than the %u of the model", k->n);
        }
    }
    return counted(k, key, err);
}

/* Qwen2Config, Qwen3Config: use_sliding_window, and then from max_window_layers upwards. */
static enum err_code kinds_above(struct arch *a, struct kinds *k, const struct json *config, struct err *err)
{
    struct { bool use; uint32_t from; } window = {false, 0};
    const struct arch_key keys[] = {
        {KEY_FLAG, "use_sliding_window", NULL, 0, 0, 0, false, false},
        {KEY_END, NULL, NULL, 0, 0, 0, false, false},
    };
    const struct json *from = json_get(config, "max_window_layers");
    uint64_t first = 28; /* the class default */
    enum err_code rc = keys_read(&window, keys, config, true, err);

    if (rc)
        return rc;
    if (json_type(from) > JSON_NULL && !json_uint64(from, &first))
        return keys_refuse(err, ERR_FIELD_TYPE, "max_window_layers", "must be a whole number");
    if (!window.use)
        a->sliding_window = 0; /* declared_window keeps it */
    for (uint32_t i = 0; i < a->layers; i++)
        repeat(k, a->sliding_window && i >= first ? LAYER_SLIDING : LAYER_FULL);
    return ERR_OK;
}

static enum err_code by_rule(struct arch *a, enum layer_rule rule, struct kinds *k, const struct json *config, struct err *err)
{
    if (rule == LAYERS_GPT_NEO)
        return gpt_neo_kinds(k, config, err);
    if (rule == LAYERS_ABOVE)
        return kinds_above(a, k, config, err);
    for (uint32_t i = 0; i < a->layers; i++)
        repeat(k, (rule == LAYERS_WINDOWED && a->sliding_window) || (rule == LAYERS_ALTERNATE && i % 2 == 0) ? LAYER_SLIDING : LAYER_FULL);
    return ERR_OK;
}

enum err_code layers_read(struct arch *a, const struct family_row *f, const struct json *config, struct arena *arena, struct err *err)
{
    struct kinds k = {arena_array(arena, uint8_t, a->layers), a->layers, 0};
    const struct json *types = json_get(config, "layer_types");
    enum err_code rc;

    if (!k.kind)
        return err_set(err, ERR_NOMEM, "", "no room for %u layers", a->layers);
    a->declared_window = a->sliding_window;
    rc = by_rule(a, f->layers, &k, config, err);
    if (!rc && (f->layers == LAYERS_ABOVE || f->layers == LAYERS_ALTERNATE) && json_type(types) > JSON_NULL) {
        k.used = 0;
        rc = listed(&k, types, "layer_types", "full_attention", "sliding_attention", err);
    }
    if (rc)
        return rc;
    if (!a->sliding_window && memchr(k.kind, LAYER_SLIDING, a->layers))
        return keys_refuse(err, ERR_ARCH_INVALID, "sliding_window", "some layers are sliding, but the model has no window");
    a->layer_kinds = k.kind;
    a->whole_layers = a->layers;
    return ERR_OK;
}
