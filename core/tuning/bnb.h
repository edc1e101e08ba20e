/*
 * bnb.h - bitsandbytes: rewrites linear modules of a declared tree into Linear4bit or Linear8bitLt.
 *
 * Purpose   bnb_apply() finds what is quantised; while the model loads (kbit_load.h) a half tensor at a time comes to the device, is quantised, and dies.
 *           A 4-bit weight's parameter becomes what holds it: [words, 1] of the storage dtype, two elements a byte. An int8 one keeps its sizes.
 * Source    bitsandbytes 0.50.2: nn/modules.py Linear4bit, Params4bit, Linear8bitLt; autograd/_functions.py MatMul4Bit, MatMul8bitLt; functional.py
 *           quantize_4bit, dequantize_4bit; backends/cuda/ops.py. transformers 5.23: integrations/bitsandbytes.py, quantizers/,
 *           core_model_loading.py, modeling_utils.py caching_allocator_warmup. peft 0.21.2: utils/other.py, tuners/lora/bnb.py. Traced:
 *           tests/data/accuracy/kbit.jsonl. Releases of transformers before 5 load file by file (kbit_shards.c); bitsandbytes from 0.43 on, int8
 *           before 0.45 by bnb_tiled.c: cases.jsonl, stacks.jsonl, older.jsonl.
 * Models    LLM.int8() without outliers: which columns have them is data. One GPU, what wraps a model that stands on it, and
 *           4-bit weights that FSDP1 and fully_shard shard.
 * Errors    ERR_NOMEM.
 * Owner     what it allocates lies in the tree's arena.
 */
#ifndef TUNING_BNB_H
#define TUNING_BNB_H

#include "torch/module.h"
#include "tuning/kbit.h"

struct bnb_options {
    enum kbit kind;
    enum dtype compute; /* bnb_4bit_compute_dtype */
    enum dtype storage; /* bnb_4bit_quant_storage */
    bool head;          /* the output embeddings too, where they have weights of their own: lightning's BitsandbytesPrecision */
    bool derived;       /* classes derived from nn.Linear, with a forward of their own, too: transformers before 5.5 */
    bool ties_first;    /* weights are shared before it is chosen what stays: transformers before 5 */
};

struct bnb_linear; /* of one module: its packed weight's state */

/* Every linear but the output embeddings. Before adapters are declared. */
MUST_CHECK enum err_code bnb_apply(struct tree *t, const struct bnb_options *o, struct err *err);
/* Tensors of three dimensions whose names say so, as they are loaded: axolotl's quantize_moe_experts. After bnb_apply(). */
MUST_CHECK enum err_code bnb_apply_to_experts(struct tree *t, const struct bnb_options *o, struct err *err);
bool bnb_holds_tensors(const struct module *m); /* such ones */
bool bnb_is_quantised(const struct module *m);
bool bnb_is_int8(const struct module *m);

val bnb_dequantised(struct run *r, struct module *m); /* functional.dequantize_4bit(): a temporary, in the dtype before */
val bnb_unpacked_first(struct run *r, struct module *m); /* axolotl 0.19 kernels/quantize.py dequantize(): the same, born before the scales of double ones */

/* Whether one kernel multiplies by packed weights; else a half copy of them is made first. M rows, [N, K] weights. */
bool bnb_gemm_is_fused(const struct device *d, enum dtype dtype, int64_t m, int64_t n, int64_t k);

#endif
