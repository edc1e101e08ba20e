/*
 * kbit_load.h - a model with quantised weights comes to the device: one tensor at a time, packed as it comes, in the order of each release;
 *               and the casts after.
 *
 * Source    transformers 5: core_model_loading.py, by name; 4.40 to 4.57: modeling_utils.py, file by file of the checkpoint (kbit_shards.c). peft
 *           utils/other.py prepare_model_for_kbit_training; TRL's peft_module_casting_to_bf16.
 * Errors    ERR_NOMEM, in the run.
 */
#ifndef TUNING_KBIT_LOAD_H
#define TUNING_KBIT_LOAD_H

#include "torch/module.h"

void kbit_load(struct run *r, struct tree *t);
/* All parameters in the order of core_model_loading.py, each by `load`; then buffers and ties. */
typedef void (*kbit_loader)(struct run *r, struct param *p, void *of);
void kbit_load_by_name(struct run *r, struct tree *t, kbit_loader load, void *of);
/* Before transformers 5, under FSDP with cpu_ram_efficient_loading and under ZeRO-3: packed on the device and back to the host; of the weights only their
 * statistics stay. What is not packed stays on the host as well, or on the device. */
void kbit_load_by_host(struct run *r, struct tree *t, bool rest_on_host);
/* What prepare_model_for_kbit_training() and TRL make of what waits on the host: it comes in fp32, or in half again. */
enum kbit_casts { KBIT_CASTS_NONE, KBIT_CASTS_UP, KBIT_CASTS_BACK };
void kbit_cast_on_host(struct tree *t, enum kbit_casts casts);
void kbit_move_rest(struct run *r, struct tree *t);       /* model.to(device) of what waits on the host, adapters too */
void kbit_prepare_weights(struct run *r, struct tree *t); /* after kbit_load() */
void kbit_cast_back(struct run *r, struct tree *t);       /* after adapters: embedding and head to half */
/* In the place of kbit_prepare_weights(), as axolotl does it: norms, embedding and head come back to half before there are adapters, routers that are called
 * gate stay in fp32, and so does all else that is not packed; where experts' tensors are packed (`packs_experts`) all else keeps its dtype. Source: axolotl
 * 0.19.0 loaders/model.py _configure_embedding_dtypes, _convert_embedding_modules_dtype, _prepare_model_for_quantization. */
void kbit_prepare_as_axolotl(struct run *r, struct tree *t, const char *model_type, bool packs_experts);
/* The same of a model that nothing packs, before it comes to the device: gates in fp32, and where nothing wants norms, embedding and head in half again
 * (`keeps_wide`: neither adapters, nor flash or flex attention, nor cut cross-entropy) these as well. */
void kbit_cast_as_axolotl(struct tree *t, const char *model_type, bool keeps_wide);

val kbit_kept(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size); /* one that stays, as a parameter */
void kbit_place(struct run *r, enum op op, struct param *p);                              /* the same of p, as its value */
uint64_t kbit_share(const struct run *r, const struct module *m, uint64_t bytes); /* of a parameter's bytes, what is counted ahead of loading */
bool kbit_comes_later(const struct param *p); /* peft brings it: no checkpoint has it */
enum kbit_home { KBIT_ON_DEVICE, KBIT_REST_ON_DEVICE, KBIT_ON_HOST }; /* where what was loaded waits; REST: what is not packed */
bool kbit_load_shards(struct run *r, struct tree *t, enum kbit_home home, val *map); /* kbit_shards.c: all but buffers and ties; false: no room */

#endif
