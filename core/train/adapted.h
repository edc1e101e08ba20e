/*
 * adapted.h - which modules of a model adapters would go to, before anything runs.
 *
 * Errors    ERR_NOMEM; what train_resolve() and the model's program refuse.
 * Owner     `arena` is scratch.
 */
#ifndef TRAIN_ADAPTED_H
#define TRAIN_ADAPTED_H

#include "config/arch.h"
#include "train/recipe.h"
#include "tuning/lora.h"

/* `r`: of one GPU, whose lora names its targets. */
MUST_CHECK enum err_code adapted_find(const struct arch *arch, const struct recipe *r, struct arena *arena, struct lora_found *ret, struct err *err);

#endif
