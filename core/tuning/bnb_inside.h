/*
 * bnb_inside.h - what one quantised module holds, and how it comes to the device. Included by core/tuning/bnb*.c only.
 */
#ifndef TUNING_BNB_INSIDE_H
#define TUNING_BNB_INSIDE_H

#include "torch/function.h"
#include "torch/module.h"

enum { BNB_BLOCK = 64, BNB_NESTED_BLOCK = 256, BNB_CODE = 16, BNB_NESTED_CODE = 256 };

struct bnb_context;
struct holding;

/* Params4bit with its QuantState, or Int8Params; int8: absmax are the largest values of rows */
struct bnb_linear {
    int64_t in, out, blocks;       /* blocks: of BNB_BLOCK elements, each with an absmax */
    bool int8, doubly, transposed, compute_is_set; /* transposed: the checkpoint holds it as Conv1D does */
    bool of_input, of_bias;        /* whose gradients backward makes */
    enum dtype compute, dtype;     /* dtype: of the weight before */
    val absmax, code, offset, nested_absmax, nested_code;
    struct bnb_context *idle; /* int8: of nodes that have ended */
    struct holding *idle_4bit; /* 4 bits: the same */
};

val bnb_forward(struct run *r, struct module *m, val x);
val bnb_forward_int8(struct run *r, struct module *m, val x);
val bnb_bias(struct run *r, struct module *m, enum dtype dtype); /* of the module in that dtype, for good; 0: it has none */

bool bnb_packs(const struct param *p);
void bnb_pack(struct run *r, struct param *p, val *map); /* its value; map: of double quantisation, once made */

#endif
