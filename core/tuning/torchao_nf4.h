/*
 * torchao_nf4.h - weights in torchao's NF4Tensor: linear modules of a declared tree whose weights are quantised, twice, as the model loads.
 *
 * Purpose   torchao_nf4_apply() finds what is quantised; torchao_nf4_pack() stands in the place of one weight's copy to the device. A product makes the
 *           whole weight again with PyTorch's operators, by an index of eight bytes for each of its elements, forward and backward; LinearNF4 saves no input.
 * Source    torchao 0.18.0 quantization/quantize_/workflows/nf4/nf4_tensor.py NF4Tensor, LinearNF4; prototype/_nf4tensor_api.py NF4WeightOnlyConfig.
 *           transformers 5.23 quantizers/quantizer_torchao.py. peft 0.21.2 takes the plain Linear's forward. Traced: tests/data/accuracy/quantisers.jsonl.
 * Models    NF4WeightOnlyConfig() with its blocks of 64, scales in blocks of 256; one GPU; transformers from 5.0 on.
 * Errors    ERR_FIELD_CONFLICT for weights that blocks do not fit and for linears with a forward of their own, ERR_NOMEM.
 * Owner     what it allocates lies in the tree's arena.
 */
#ifndef TUNING_TORCHAO_NF4_H
#define TUNING_TORCHAO_NF4_H

#include "torch/module.h"

/* Every nn.Linear but the output embeddings. Before adapters are declared. */
MUST_CHECK enum err_code torchao_nf4_apply(struct tree *t, struct err *err);
bool torchao_nf4_is_quantised(const struct module *m);
bool torchao_nf4_packs(const struct param *p);
void torchao_nf4_pack(struct run *r, struct param *p);

#endif
