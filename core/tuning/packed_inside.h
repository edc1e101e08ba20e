/* packed_inside.h - a packed linear, shared by packed.c and packed_kernels.c. */
#ifndef TUNING_PACKED_INSIDE_H
#define TUNING_PACKED_INSIDE_H

#include "tuning/packed.h"

enum packed_kernel { PACKED_MARLIN, PACKED_EXLLAMA, PACKED_CUDA_OLD, PACKED_AWQ, PACKED_FP8 };

struct packed_linear {
    enum packing kind;
    enum packed_kernel kernel;
    int64_t in, out, group, groups, bits;
    bool newer_marlin;
    bool quantises_within, adds_in_place; /* fp8 */
};

val packed_forward(struct run *r, struct module *m, val x);

#endif
