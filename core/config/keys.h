/*
 * keys.h - config.json by table: one row a key, one table a model type. Inside config/ only.
 *
 * Purpose   a row says how a class spells a key, what it takes when the key is absent, and which values make sense.
 *           New spelling: a row. New family: a key table and a row in config/families.c.
 * Errors    ERR_FIELD_MISSING, ERR_FIELD_TYPE, ERR_FIELD_RANGE, ERR_FIELD_VALUE at the key as the file spells it.
 */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include "config/arch.h"

#include <stddef.h>

struct json;

enum key_kind {
    KEY_END,
    KEY_SIZE,       /* uint32_t, 1..max */
    KEY_TOKEN,      /* int64_t: a token id, NO_TOKEN for null */
    KEY_FLAG,       /* bool */
    KEY_RATE,       /* double, 0..1 */
    KEY_REAL,       /* double, finite, not negative */
    KEY_ACTIVATION, /* enum activation, by its name in ACT2FN */
    KEY_FIXED,      /* enum activation: the class has no key for it */
    KEY_REFUSED     /* a flag that is only modelled as false */
};

#define NO_TOKEN INT64_MIN

struct arch_key {
    enum key_kind kind;
    const char *key, *also; /* `also`: attribute_map or an older name; it wins over `key`, null does not */
    size_t at;
    double fallback;        /* the class default */
    uint32_t max;           /* KEY_SIZE */
    bool required, or_none; /* or_none: an explicit null is 0 (no such thing, or "derive it") */
};

/* Sizes beyond these are typing errors or attacks: the largest published models stay a factor of ten below. */
enum {
    MAX_hidden = 1 << 20, MAX_layers = ARCH_MAX_LAYERS, MAX_heads = 4096, MAX_kv_heads = 4096, MAX_head_dim = 1 << 16, MAX_ffn = 1 << 22,
    MAX_vocab = 1 << 24, MAX_max_positions = 1 << 28, MAX_rotary_dim = 1 << 16, MAX_sliding_window = 1 << 28, MAX_embed_dim = 1 << 20,
    MAX_pretraining_tp = 1024
};

/* Which attention each layer has when the class decides (layers.c). */
enum layer_rule { LAYERS_FULL, LAYERS_WINDOWED, LAYERS_ABOVE, LAYERS_ALTERNATE, LAYERS_GPT_NEO };

struct family_row {
    const char *name;
    const struct arch_key *keys;
    double rotary;              /* share of head_dim the class rotates by default; 0: no rope_parameters */
    enum layer_rule layers;
    bool heads_fill_hidden;     /* the class insists that heads divide hidden */
    enum err_code (*rule)(struct arch *a, const struct json *config, struct err *err); /* what no table says; NULL: nothing */
};

extern const struct family_row family_rows[FAMILY_COUNT];

/* "opt, bloom, ...", for a sentence. */
void family_names(char *ret, size_t bytes);

/* Reads the rows of `keys` into `into`. `lenient`: required keys may take the class default (a nested text_config). */
enum err_code keys_read(void *into, const struct arch_key *keys, const struct json *config, bool lenient, struct err *err);

/* How `config` spells the member at `at`: for errors found later. */
const char *keys_spelling(const struct arch_key *keys, size_t at, const struct json *config);

/* err_set at "/" + key. */
enum err_code keys_refuse(struct err *err, enum err_code code, const char *key, const char *fmt, ...) PRINTF(4, 5);

enum err_code rope_read(struct arch *a, const struct family_row *f, const struct json *config, struct err *err);
enum err_code layers_read(struct arch *a, const struct family_row *f, const struct json *config, struct arena *arena, struct err *err);

#endif
