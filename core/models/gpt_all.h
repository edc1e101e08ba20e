/*
 * gpt_all.h - what gpt2, gpt_neo, gpt_neox, gptj, codegen, gpt_bigcode, opt, bloom and biogpt changed in the same releases: the rows
 * gpt_all_* of quirks.def.
 */
#ifndef MODELS_GPT_ALL_H
#define MODELS_GPT_ALL_H

#include "models/blocks.h"

/*
 * Inside a model's forward: position_ids, a local of the caller's. Up to 5.3 they are a view of cache_position, a local of the same
 * storage (before that, of an arange of their own); since then an arange plus the past length.
 */
val gpt_all_positions(struct run *r, const struct model *m, int64_t seq);

/* self.loss_function, or what each class wrote out before: its locals are then the caller's. A temporary. */
val gpt_all_loss(struct run *r, struct model *m, val logits, val labels);

#endif
