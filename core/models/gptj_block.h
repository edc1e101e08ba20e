/*
 * gptj_block.h - what modeling_codegen.py copies from modeling_gptj.py: rotation of neighbouring elements, attention in fp32, a block
 * whose MLP runs beside its attention, the model around it. How q, k and v are projected and where the rows of the sine table
 * come from is each family's own: a gptj_style.
 */
#ifndef MODELS_GPTJ_BLOCK_H
#define MODELS_GPTJ_BLOCK_H

#include "models/blocks.h"

struct gptj_layer;

struct gptj_style {
    const char *mask, *mask_value; /* buffers of 4.40: the causal mask; a number beside it that nothing reads, NULL: none */
    /* The projections, between the attention's dropouts and out_proj. */
    void (*declare_projections)(struct model *m, struct gptj_layer *l);
    /* query and key: [batch, seq, heads, head_dim], value: [batch, heads, seq, head_dim]; locals of the caller's frame. */
    void (*project)(struct run *r, struct gptj_layer *l, val x, val *query, val *key, val *value);
    /* [batch or 1, seq, rotary_dim]: a temporary */
    val (*sincos)(struct run *r, struct gptj_layer *l, val ids, enum dtype dtype);
    bool scales_before_masking; /* 4.40: scores are divided before where(causal, ..); 5.x of the same file: after the mask */
};

struct gptj_layer {
    struct model *model;
    const struct gptj_style *style;
    uint32_t index;
    struct module *self, *ln_1, *attn, *attn_dropout, *resid_dropout, *q, *k, *v, *out, *mlp, *fc_in, *fc_out, *act, *dropout;
    struct param *bias, *scale, *positions; /* bias, scale: causal mask and sqrt(head_dim) of 4.40 */
};

void gptj_declare(struct model *m, const struct gptj_style *style);
void gptj_forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret);

#endif
