/*
 * packed.h - checkpoints whose weights are packed already, as a generation reads them: GPTQ, AWQ, and fp8 with scales of blocks.
 *
 * Purpose   packed_apply() puts what such a checkpoint stores where a linear's weight was, and the kernel that the release's packages choose in the place
 *           of its product. packed_load() brings all to the device and does what the package does once the weights stand there.
 * Source    which package: transformers quantizers/quantizer_gptq.py, quantizer_awq.py, integrations/finegrained_fp8.py of 4.40 to 5.23. Kernels: auto-gptq
 *           0.7.1 nn_modules/qlinear/qlinear_exllama.py (4 bits), qlinear_cuda_old.py (8), modeling/_utils.py autogptq_post_init; GPTQModel 2.2.0 and 7.3.4
 *           nn_modules/qlinear/marlin.py, marlin_awq.py, utils/marlin.py, gptqmodel_ext/marlin; autoawq 0.2.9 modules/linear/gemm.py with awq_ext;
 *           act_quant() and w8a8_block_fp8_matmul_triton() of finegrained_fp8.py, later kernels-community/finegrained-fp8 version 4 (traced); DeepGEMM,
 *           which transformers prefers on compute capability 9 and 10 beside a CUDA toolkit, is not modelled. Storages and temporaries are the host code's.
 * Models    weights without act-order (desc_act), the output embeddings, embeddings and norms in half. No backward.
 * Errors    ERR_FIELD_CONFLICT for widths that the kernel refuses and for experts that are one tensor in other formats than fp8, ERR_NOMEM.
 * Owner     what it allocates lies in the tree's arena.
 */
#ifndef TUNING_PACKED_H
#define TUNING_PACKED_H

#include "base/json.h"
#include "torch/module.h"

enum packing { PACKING_NONE, PACKING_GPTQ4, PACKING_GPTQ8, PACKING_AWQ4, PACKING_FP8, PACKING_MXFP4 };
enum { PACKED_GROUP = 128, PACKED_BLOCK = 128 }; /* of rows that share a scale; of an fp8 block: where the config says nothing */

struct packed_options {
    enum packing kind;
    uint32_t group; /* rows that share a scale; 0: all of a column */
    bool leaves_experts; /* that are one tensor: whoever asks counts them by itself */
    const struct json *left_alone; /* modules_to_not_convert, an array of names; the output embeddings stay in half anyway */
};

MUST_CHECK enum err_code packed_apply(struct tree *t, const struct packed_options *o, const struct quirks *q, struct err *err);
void packed_load(struct run *r, struct tree *t, enum packing kind);
bool packed_is_quantised(const struct module *m);

#endif
