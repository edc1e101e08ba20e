/*
 * targets.h - which modules peft adapts when nobody says.
 *
 * Source    peft utils/constants.py, TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING of 0.10.0 and 0.21.2 (targets.def).
 *           A release between them is answered by the older one.
 */
#ifndef TUNING_TARGETS_H
#define TUNING_TARGETS_H

#include "stack/stack.h"

#include <stdbool.h>
#include <stdint.h>

/* false when peft has no default for this type: it then refuses (tuners/lora/model.py: "Please specify `target_modules`"). */
bool targets_default(const char *model_type, release peft, const char *const **ret, uint32_t *ret_n);

#endif
