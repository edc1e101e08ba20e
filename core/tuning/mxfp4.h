/*
 * mxfp4.h - experts whose checkpoint is in mxfp4 (gpt-oss) come to the device: packed, as Triton's kernels want them, or unpacked to half.
 *
 * Purpose   mxfp4_apply() says what a byte of the declared experts stands for; mxfp4_load() stands in the place of materialise(), mxfp4_unpack() too, where
 *           experts are declared in half and the checkpoint is not.
 * Source    transformers 4.55 to 5.23 integrations/mxfp4.py: swizzle_mxfp4_convertops(), convert_moe_packed_tensors(); core_model_loading.py for the order;
 *           kernels-community/gpt-oss-triton-kernels tensor_details/layout_details/hopper_value.py.
 * Models    one tensor after the other. transformers 5 reads on four threads, which may bring some packed tensors ahead of their turn: not modelled.
 * Owner     blocks live in the run.
 */
#ifndef TUNING_MXFP4_H
#define TUNING_MXFP4_H

#include "torch/module.h"

void mxfp4_apply(struct tree *t);
void mxfp4_load(struct run *r, struct tree *t);
void mxfp4_unpack(struct run *r, struct tree *t);

#endif
