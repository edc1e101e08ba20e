/*
 * torchao.h - weights in torchao's Int8Tensor: linear modules of a declared tree whose weights are quantised, a row at a time, as the model loads.
 *
 * Purpose   torchao_apply() finds what is quantised; torchao_pack() stands in the place of one weight's copy to the device. A product casts the whole weight to
 *           the input's dtype, multiplies, and scales what came out: no function of its own, so that the graph keeps each cast weight until backward.
 * Source    torchao 0.18.0 quantization/quantize_/workflows/int8/int8_tensor.py Int8Tensor, F.linear of block_size[-1] = K; quantization/quant_primitives.py
 *           choose_qparams_affine, quantize_affine. transformers 5.23 quantizers/quantizer_torchao.py, integrations/torchao.py TorchAoQuantize. peft 0.21.2
 *           tuners/lora/torchao.py (the plain Linear's forward). Traced: tests/data/accuracy/quantisers.jsonl.
 * Models    Int8WeightOnlyConfig() of PerRow; one GPU; transformers from 5.0 on.
 * Errors    ERR_FIELD_CONFLICT for linears with a forward of their own, ERR_NOMEM.
 * Owner     what it allocates lies in the tree's arena.
 */
#ifndef TUNING_TORCHAO_H
#define TUNING_TORCHAO_H

#include "torch/module.h"

/* Every nn.Linear but the output embeddings. Before adapters are declared. */
MUST_CHECK enum err_code torchao_apply(struct tree *t, struct err *err);
bool torchao_is_quantised(const struct module *m);
bool torchao_packs(const struct param *p);
void torchao_pack(struct run *r, struct param *p);

#endif
