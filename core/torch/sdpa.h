/*
 * sdpa.h - sizes that the attention kernels' host code computes, shared by forward and backward. Inside core/torch only.
 */
#ifndef TORCH_SDPA_H
#define TORCH_SDPA_H

#include "torch/run.h"

int64_t flash_head_rounded(const struct run *r, int64_t d);
/* What cuDNN's graphs take while they run. Backward: b batches, h heads of q, kv of k. */
enum { CUDNN_ATTENTION_TAIL = 256 };
uint64_t cudnn_attention_bytes(const struct attended *a, int64_t kv, int64_t value_dim, unsigned element_bytes);
int64_t efficient_workspace_bytes(const struct run *r, int64_t b, int64_t h, int64_t sq, int64_t sk, int64_t d, int64_t dv, bool half, bool dropout);

#endif
