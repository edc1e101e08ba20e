/*
 * traced.h - the options of a traced run as a resolved step: what tests and the accuracy tool walk beside a tape.
 *
 * Reads     seq_len, micro_batch_size, gradient_accumulation_steps, precision, weights_dtype, tuning, lora {rank, dropout, dtype,
 *           target_modules}, gradient_checkpointing, use_reentrant, use_cache, train_loop ("plain": not the Trainer's), attention_used or
 *           attention, padded, optimizer, max_grad_norm, each left out = the default of tests/data/tapes/make_tapes.py.
 * Models    any stack, on the A100 they were traced on; the two that most were traced with have names.
 */
#ifndef SUPPORT_TRACED_H
#define SUPPORT_TRACED_H

#include "base/json.h"
#include "config/arch.h"
#include "train/recipe.h"

extern const struct stack traced_new, traced_old;
extern const struct device traced_device;

/* "new", "old", "2.15", "2.2": the two above; else "TORCH/TRANSFORMERS[/PEFT]", what is not named of the same day. false: none of these. */
bool traced_stack(const char *text, struct stack *ret);

/* NULL, or what is wrong with the options. LoRA's targets point into `options` or into `targets`. */
enum { TRACED_TARGETS = 16 };
const char *traced_step(const struct json *options, const struct arch *arch, const struct stack *stack, const char *targets[TRACED_TARGETS],
                        struct step *ret);

/* The same for options of several GPUs, before train_resolve(): also world_size, ddp_bytes, gradient_as_bucket_view, no_sync, loop,
 * drop_outputs, attention_mask, autocast, gradient_clipping, checkpoint_reentrant, and what FSDP and DeepSpeed are told. */
const char *traced_ddp_recipe(const struct json *options, const struct arch *arch, const struct stack *stack, const char *targets[TRACED_TARGETS],
                              struct recipe *ret);

#endif
