/*
 * bnb_inside.h - what one quantised module holds, and how it comes to the device. Included by core/tuning/bnb*.c only.
 */
#ifndef TUNING_BNB_INSIDE_H
#define TUNING_BNB_INSIDE_H

#include "torch/function.h"
#include "torch/module.h"

enum { BNB_BLOCK = 64, BNB_NESTED_BLOCK = 256, BNB_CODE = 16, BNB_NESTED_CODE = 256 };

/* Params4bit with its QuantState, or Int8Params; int8: absmax are the largest values of rows */
struct bnb_linear {
    int64_t in, out, blocks;       /* blocks: of BNB_BLOCK elements, each with an absmax */
    bool int8, doubly, transposed, compute_is_set; /* transposed: the checkpoint holds it as Conv1D does */
    enum dtype compute, dtype;     /* dtype: of the weight before */
    bool tiled;                    /* int8 before 0.45: its weight lies as the kernel wants it, since it was used first */
    val absmax, code, offset, nested_absmax, nested_code, tile_indices;
    struct bnb_context *idle;      /* of nodes that have ended */
};

typedef void bnb_backward(struct run *r, void *of, const val *grad, const val *saved, val *ret);

/* ctx of one MatMul4Bit or MatMul8bitLt: what it has as an attribute lives as long as the node, beside what hooks see. */
struct bnb_context {
    struct function function;
    struct bnb_linear *linear;
    struct bnb_context *next; /* of those that nobody uses */
    val kept;                 /* 0: nothing is */
    val codes, columns;       /* int8 before 0.45: of its input, quantised by columns */
    bool of_input, of_bias;   /* whose gradients backward makes */
};
/* One whose node's backward that is; NULL: no room. */
struct bnb_context *bnb_context(struct run *r, struct bnb_linear *l, bnb_backward *backward);
void bnb_context_end(struct run *r, void *context);

val bnb_forward(struct run *r, struct module *m, val x);
val bnb_forward_int8(struct run *r, struct module *m, val x);
/* MatMul8bitLt.forward between its beginning and its results. */
struct bnb_call {
    struct bnb_context *context; /* NULL: no room */
    uint32_t node;               /* 0: nobody wants a gradient */
    bool grad_enabled;           /* before */
    int ndim;
    int64_t size[MAX_DIMS]; /* of the output */
    val rows;               /* the input in two dimensions */
};
void bnb_call_begin(struct run *r, struct bnb_linear *l, val x, val bias, bnb_backward *backward, struct bnb_call *ret);
val bnb_call_end(struct run *r, const struct bnb_call *call, val out); /* its input is kept as an attribute, which no hook sees */
/* torch.matmul(grad_output of two dimensions, weight).view(ctx.grad_shape): a view, so that what comes after it is not added in place */
val bnb_gradient(struct run *r, val grad, val weight, const struct bnb_linear *l);

val bnb_matmul_tiled(struct run *r, struct bnb_linear *l, struct param *weight, val x, val bias); /* bnb_tiled.c */
val bnb_bias(struct run *r, struct module *m, enum dtype dtype); /* of the module in that dtype, for good; 0: it has none */

val bnb_unpacked(struct run *r, const struct bnb_linear *l, int ndim,
                 const int64_t *size);                    /* dequantize_4bit(): a temporary, in the dtype before */
void bnb_pack_words(struct param *p, enum dtype storage); /* what holds it from now on */
val bnb_packed(struct run *r, struct bnb_linear *l, const struct param *p, val *map); /* quantize_4bit() of a half copy, which dies */
val bnb_packed_rows(struct run *r, struct bnb_linear *l,
                    const struct param *p); /* int8_vectorwise_quant() of it in fp16, all of one tensor's rows */

bool bnb_packs_tensor(const struct param *p);
void bnb_pack_tensor(struct run *r, struct param *p, val *map);
bool bnb_packs(const struct param *p);
void bnb_pack(struct run *r, struct param *p, val *map); /* its value; map: of double quantisation, once made */

#endif
