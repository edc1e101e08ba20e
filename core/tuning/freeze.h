/*
 * freeze.h - a part of a declared model that is not trained: `requires_grad_(False)` of what a list of names means.
 *
 * Names     of modules or parameters, by their dotted path or a run of its parts: "embed_tokens", "model.layers", "lm_head.weight", "layers.0-7" (a range of
 *           a list).
 *           What is tied to a frozen parameter is the same one.
 * Errors    ERR_FIELD_VALUE at /training/freeze: a name that means nothing, or nothing left to train.
 */
#ifndef TUNING_FREEZE_H
#define TUNING_FREEZE_H

#include "torch/module.h"

MUST_CHECK enum err_code freeze_apply(struct tree *t, uint32_t n, const char *const *names, struct err *err);

/* Whether layers that are built alike are trained otherwise: a name has a number in it. */
bool freeze_is_uneven(uint32_t n, const char *const *names);

#endif
