/*
 * bnb_inside.h - what one quantised module holds. Included by core/tuning/bnb*.c only.
 */
#ifndef TUNING_BNB_INSIDE_H
#define TUNING_BNB_INSIDE_H

#include "torch/function.h"
#include "torch/module.h"

enum { BNB_BLOCK = 64, BNB_NESTED_BLOCK = 256, BNB_CODE = 16, BNB_NESTED_CODE = 256 };

/* Params4bit with its QuantState */
struct bnb_linear {
    int64_t in, out, blocks;   /* blocks: of BNB_BLOCK elements, each with an absmax */
    bool doubly, transposed;   /* transposed: the checkpoint holds it as Conv1D does */
    enum dtype compute, dtype; /* dtype: of the weight before */
    val absmax, code, offset, nested_absmax, nested_code;
    struct function function; /* of every MatMul4Bit of it: one input wants a gradient, nothing is saved */
};

val bnb_forward(struct run *r, struct module *m, val x);

#endif
