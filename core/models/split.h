/*
 * split.h - how a family's plan for tensor parallelism cuts its modules.
 *
 * Purpose   split_apply() writes into each module of a declared tree what transformers' plan says of it; parallel/tensor/tp.c does it.
 * Source    transformers 5.23: base_model_tp_plan of models/<family>/configuration_<family>.py and _tp_plan of its causal model (lm_head:
 *           colwise_gather_output); distributed/mixin.py adds the embedding where the base model calls it embed_tokens.
 */
#ifndef MODELS_SPLIT_H
#define MODELS_SPLIT_H

#include "models/model.h"

/* Or why the family cannot be cut, in a sentence of err: ERR_FIELD_CONFLICT. What does not divide is parallel/gap.h's. */
MUST_CHECK enum err_code split_apply(struct model *m, struct err *err);

#endif
