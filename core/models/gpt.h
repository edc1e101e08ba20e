/*
 * gpt.h - the skeleton that gpt2, gpt_bigcode and gpt_neo share: transformer.{wte, wpe, drop, h, ln_f}, GPT2Block, GPT2MLP, the
 * head. What a family does its own way is a member of gpt_style: its attention. Position ids and masks stand in its forward.
 *
 * Source  models/{gpt2,gpt_bigcode,gpt_neo}/modeling_*.py: the other two copy GPT2Block and GPT2MLP line by line.
 */
#ifndef MODELS_GPT_H
#define MODELS_GPT_H

#include "models/gpt_all.h"

struct gpt_layer;

struct gpt_style {
    bool conv1d;                   /* linear modules are transformers' Conv1D */
    void (*declare_attention)(struct model *m, struct gpt_layer *l);
    /* a: the attention's output, b: what it returns beside it (0: nothing). x is the caller's local. */
    struct two (*attention)(struct run *r, struct gpt_layer *l, val x, val mask);
};

struct gpt_layer {
    struct model *model;
    const struct gpt_style *style;
    uint32_t index;
    struct module *self, *attn, *ln_1, *ln_2, *mlp, *c_fc, *c_proj, *act, *dropout;
    /* the attention's own */
    struct module *inner, *qkv, *q, *k, *v, *out, *attn_dropout, *resid_dropout;
    struct param *bias;            /* the causal mask it keeps as a buffer */
    val mask_value;                /* gpt_bigcode of 4.40 keeps the scalar it fills masked scores with; 0: not yet */
};

/* What GPT2Block.forward returns beside the hidden states. gpt2's cache is told within the attention: it is never checkpointed. */
enum gpt_second {
    GPT_SECOND_NONE,
    GPT_SECOND_WEIGHTS, /* gpt_neo and gpt_bigcode, in some releases */
    GPT_SECOND_CACHE,   /* gpt_bigcode, while it kept its cache when it checkpointed */
};

struct gpt {
    struct module *transformer, *wpe, *dropout, *ln_f;
    struct param *bias;
    val mask, position, ids;       /* of the forward that runs: what each block is handed; cache_position and position_ids where they are */
    bool by_place;                 /* a block that checkpoints itself gets mask and cache_position by place all the same */
    bool block_in_tuple;           /* GPT2Block returns a tuple: it stays until the next one's */
    enum gpt_second second;
    bool casts_logits;             /* gpt_neo: the loss is computed in fp32 and comes back in the model's dtype */
};

/* The whole tree. Buffers of `transformer` itself are added after it: they are born last all the same. */
struct gpt *gpt_declare(struct model *m, const struct gpt_style *style);
/* The declaration of a projection as the style has it. */
struct module *gpt_linear(struct gpt_layer *l, struct module *parent, const char *name, int64_t in, int64_t out, bool bias);

/* Inside the model's forward: every block and ln_f. Locals are the caller's. */
val gpt_blocks(struct run *r, struct model *m, val hidden);

/* GPT2LMHeadModel.forward around the family's model forward. */
void gpt_forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret,
                 val (*model_forward)(struct run *r, struct model *m, const struct batch *b));

#endif
