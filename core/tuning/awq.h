/*
 * awq.h - checkpoints of AWQ: rewrites linear modules of a declared tree into autoawq's WQLinear_GEMM, which adapters are trained over.
 *
 * Purpose   awq_apply() puts qweight, qzeros and scales where a weight was; words come to the device as any tensor does. Forward takes half copies of input
 *           and weight, or the kernel's eight partial products where there are few rows; it saves the half input. Backward unpacks the weight and repeats it
 *           for each row of the batch.
 * Source    autoawq 0.2.9 awq/modules/linear/gemm.py WQLinear_GEMM, WQLinearMMFunction; AutoAWQ_kernels awq_ext/quantization/gemm_cuda_gen.cu, whose host
 *           code was read. transformers 4.40 to 4.57 quantizers/quantizer_awq.py, integrations/awq.py. peft 0.16.0 tuners/lora/awq.py.
 *           Traced: tests/data/accuracy/quantisers.jsonl.
 * Models    groups of 128 rows; one GPU; weights, embeddings and norms in fp16, which quantizer_awq.py makes of bf16. From transformers 5 on gptqmodel's
 *           Marlin is taken, which raises in train().
 * Errors    ERR_FIELD_CONFLICT for widths that cannot be packed, ERR_NOMEM.
 * Owner     what it allocates lies in the tree's arena.
 */
#ifndef TUNING_AWQ_H
#define TUNING_AWQ_H

#include "torch/module.h"

/* Every linear but the output embeddings. Before adapters are declared. */
MUST_CHECK enum err_code awq_apply(struct tree *t, struct err *err);
bool awq_is_quantised(const struct module *m);

#endif
