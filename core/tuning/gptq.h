/*
 * gptq.h - checkpoints of GPTQ: rewrites linear modules of a declared tree into Triton v2 QuantLinear, the only one of their kernels that trains.
 *
 * Purpose   gptq_apply() puts qweight, qzeros, scales and g_idx where a weight was. Nothing is quantised while it loads: words come to the device as any
 *           tensor does. Forward and backward unpack a whole weight to half, multiply, and let go of it.
 * Source    fms-acceleration-peft 0.3.1 gptqmodel/nn_modules: qlinear/qlinear_tritonv2.py QuantLinear, triton_utils/dequant.py QuantLinearFunction (the host
 *           code of auto-gptq 0.7.1 and of gptqmodel); autogptq_utils.py for FSDP. peft 0.13.2 to 0.21.2 tuners/lora/gptq.py, utils/other.py.
 * Models    groups of 128 rows, the checkpoints' usual ones.
 * Errors    ERR_NOMEM.
 * Owner     what it allocates lies in the tree's arena.
 */
#ifndef TUNING_GPTQ_H
#define TUNING_GPTQ_H

#include "torch/module.h"
#include "tuning/kbit.h"

enum { GPTQ_GROUP = 128 };

struct gptq_options {
    enum kbit kind;
    enum dtype compute;
    bool as_parameters; /* under FSDP qweight and qzeros are parameters of the compute dtype, so that they are flattened with the rest */
};

/* Every linear but the output embeddings. Before adapters are declared. */
MUST_CHECK enum err_code gptq_apply(struct tree *t, const struct gptq_options *o, struct err *err);
bool gptq_is_quantised(const struct module *m);

#endif
