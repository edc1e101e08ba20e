/*
 * hqq.h - half-quadratic quantisation: rewrites linear modules of a declared tree into hqq's HQQLinear, which adapters are trained over.
 *
 * Purpose   hqq_apply() puts W_q, scale and zero where a weight was; hqq_pack() stands in the place of one weight's copy to the device. Forward unpacks the
 *           weight with PyTorch's operators and multiplies by it, and saves its input; backward unpacks it again.
 * Source    hqq 0.2.8 core/quantize.py HQQLinear, Quantizer, HQQMatmulNoCacheMul (HQQBackend.PYTORCH), core/bitpack.py, core/optimize.py
 *           optimize_weights_proximal_legacy. transformers 4.51 to 4.56 quantizers/quantizer_hqq.py; from 5.0 on it loads nothing (get_quantize_ops() is not
 *           implemented). peft 0.16 tuners/lora/hqq.py. Traced: tests/data/accuracy/quantisers.jsonl.
 * Models    groups of 64 with numbers in the dtype that the model is loaded in (HqqConfig's defaults), 4 or 8 bits, nothing left out but lm_head; one GPU.
 *           The search for zeros stops where the error grows: two turns are made of it, which is as high as more are.
 * Errors    ERR_FIELD_CONFLICT for weights that groups do not fit, ERR_NOMEM.
 * Owner     what it allocates lies in the tree's arena.
 */
#ifndef TUNING_HQQ_H
#define TUNING_HQQ_H

#include "torch/module.h"

/* Every nn.Linear but lm_head. Before adapters are declared. */
MUST_CHECK enum err_code hqq_apply(struct tree *t, int bits, struct err *err);
bool hqq_is_quantised(const struct module *m);
bool hqq_packs(const struct param *p);
void hqq_pack(struct run *r, struct param *p);

#endif
