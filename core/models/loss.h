/* loss.h - the loss of a pipeline, whose last stage hands out logits; what a model's own forward computes is in its text. */
#ifndef MODELS_LOSS_H
#define MODELS_LOSS_H

#include "torch/ops.h"

/* loss_utils.ForCausalLMLoss: upcast, shifted labels; by_items: divided by num_items_in_batch. The stage is LOSS already. */
val causal_lm_loss(struct run *r, val logits, val labels, bool by_items);

#endif
