/*
 * sdpa.h - sizes that the attention kernels' host code computes, shared by forward and backward. Inside core/torch only.
 */
#ifndef TORCH_SDPA_H
#define TORCH_SDPA_H

#include "torch/run.h"

int64_t flash_head_rounded(const struct run *r, int64_t d);
int64_t efficient_workspace_bytes(const struct run *r, int64_t b, int64_t h, int64_t sq, int64_t sk, int64_t d, int64_t dv, bool half, bool dropout);

#endif
