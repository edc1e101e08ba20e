/*
 * targets.h - which modules peft adapts when nobody says.
 *
 * Source    peft utils/constants.py (before 0.6 utils/other.py), TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING of each release
 *           from 0.2 to 0.21 (targets.def).
 */
#ifndef TUNING_TARGETS_H
#define TUNING_TARGETS_H

#include "stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

/* false when peft has no default for this type: it then refuses (tuners/lora/model.py: "Please specify `target_modules`"). */
struct default_targets {
    const char *const *modules; /* ends of names */
    uint32_t n;
    const char *pattern; /* instead of them a regular expression; NULL: none */
};
bool targets_default(const char *model_type, release peft, struct default_targets *ret);

/*
 * The linears of the generic decoder that do the work of one that a type of nobody's calls `name` ("query_key_value": q_proj, k_proj, v_proj); NULL: it has
 * the name itself, or nothing like it. A fused one has one A where these have one each.
 */
const char *const *targets_of_sketch(const char *name);

/*
 * Names of linears that experts once were, which peft takes for the tensors they are now: such a name adapts no linear of that name any more.
 * utils/transformers_weight_conversion.py _convert_peft_config_moe, since 0.19; transformers conversion_mapping.py says which types are alike.
 */
struct expert_names {
    const char *name;  /* of target_modules */
    const char *tensor; /* "gate_up_proj", "down_proj"; "gate.weight": the router's */
};
const struct expert_names *targets_of_experts(const char *model_type); /* ends with a NULL name; NULL: none */

#endif
