/*
 * narrow.h - what a LoraConfig says beside its targets: layers, modules that are left out, ranks by name.
 *
 * Source    peft tuners/lora/config.py (0.21.2).
 * Owner     whoever read the request: its arena.
 */
#ifndef TUNING_NARROW_H
#define TUNING_NARROW_H

#include <stdint.h>

struct pattern;

/* bias: parameters of that name that are trained too, all of the model's or those of adapted modules. */
enum lora_bias { LORA_BIAS_NONE, LORA_BIAS_ALL, LORA_BIAS_ADAPTED };

/* A key of rank_pattern or alpha_pattern, or of layers_pattern. */
struct lora_named {
    const char *name;
    const struct pattern *pattern;
    double value;
};

/* What narrows target_modules, and ranks of their own; 0 and NULL: left out. */
struct lora_narrow {
    uint32_t n_layers; /* layers_to_transform */
    const uint32_t *layers;
    uint32_t n_lists; /* layers_pattern */
    const struct lora_named *lists;
    uint32_t n_excluded; /* exclude_modules */
    const char *const *excluded;
    const struct pattern *excluded_pattern;
    const char *excluded_text;
    uint32_t n_ranks, n_alphas; /* rank_pattern, alpha_pattern */
    const struct lora_named *ranks, *alphas;
};

#endif
