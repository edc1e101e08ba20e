/*
 * freeze.h - a part of a declared model that is not trained: `requires_grad_(False)` of what a list of names means, of all that another list does not mean,
 * or of the first parameters up to a share of all.
 *
 * Names     of modules or parameters, by their dotted path or a run of its parts: "embed_tokens", "model.layers", "lm_head.weight", "layers.0-7" (a range of
 *           a list). A pattern is a regular expression that a parameter's whole name matches (re.fullmatch), a tied one's by its first name alone, as
 *           named_parameters() has it.
 *           What is tied to a frozen parameter is the same one.
 * Order     what `names` and `share` freeze, then what `trained` and `pattern` mean is trained all the same; where only these are given all else is frozen.
 * Share     of parameters in the model's order: ms-swift 4.6.0 utils/transformers_utils.py freeze_parameters.
 * Errors    ERR_FIELD_VALUE at /training/freeze or /training/trainable: a name that means nothing, or nothing left to train.
 */
#ifndef TUNING_FREEZE_H
#define TUNING_FREEZE_H

#include "torch/module.h"
#include "tuning/part.h"

MUST_CHECK enum err_code freeze_apply(struct tree *t, const struct freeze *f, struct err *err);

/* Whether layers that are built alike may be trained otherwise: a name or the pattern has a number in it, or a share ends somewhere. */
bool freeze_is_uneven(const struct freeze *f);

#endif
