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
/* Under FSDP with cpu_ram_efficient_loading, before transformers 5: packed on the device and back to the host, whence units come with what they hold in fp32
 * after prepare_model_for_kbit_training(), and in half again after TRL. Of the weights only their statistics stay. */
enum kbit_casts { KBIT_CASTS_NONE, KBIT_CASTS_UP, KBIT_CASTS_BACK };
void kbit_load_by_host(struct run *r, struct tree *t, enum kbit_casts casts);
void kbit_prepare_weights(struct run *r, struct tree *t);   /* after kbit_load() */
void kbit_cast_back(struct run *r, struct tree *t); /* after adapters: embedding and head to half */

val kbit_kept(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size); /* one that stays, as a parameter */
void kbit_place(struct run *r, enum op op, struct param *p);                              /* the same of p, as its value */
bool kbit_load_shards(struct run *r, struct tree *t, bool by_host, val *map); /* kbit_shards.c: all but buffers and ties; false: no room */

#endif
