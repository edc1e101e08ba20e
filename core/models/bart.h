/*
 * bart.h - the decoder layer that opt and biogpt have from BART: its modules, its attention, its positions with an offset.
 *
 * Models  every layer: with layerdrop a step skips some at random, this is the most that one takes.
 * Source  models/{opt,biogpt}/modeling_*.py: BioGptAttention is BartAttention, OPTAttention of 4.40 that and a clamp of the scores.
 */
#ifndef MODELS_BART_H
#define MODELS_BART_H

#include "models/gpt_all.h"
#include "torch/checkpoint.h"

/* What opt and biogpt did each at its own release: rows of quirks.def, read in declare(). */
struct bart_release {
    bool interface;       /* ALL_ATTENTION_FUNCTIONS; before a class each kernel */
    bool views;           /* heads are views and a DynamicCache is built; before heads are copies and the cache is a tuple, made in any case */
    bool returns_weights; /* attention hands its weights over */
    bool layer_in_tuple;  /* a layer returns a tuple: it stays until the next one's */
};

struct bart_layer {
    struct model *model;
    const struct bart_release *release;
    uint32_t index;
    struct module *self, *attn, *k, *v, *q, *out, *act, *norm1, *fc1, *fc2, *norm2;
};

/* what an attention returns beside its output: held by the layer as long as it runs */
struct bart_beside {
    val weights, key, value;
};

void bart_layer_declare(struct model *m, struct module *list, struct bart_layer *l, uint32_t index, bool bias, bool affine);
/* Of every layer, NULL: no memory. */
struct bart_release *bart_release_new(struct model *m);
struct module *bart_positions_declare(struct model *m, struct module *parent);

/* Attention's module; the results in `ret` are temporaries. */
val bart_attention(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret);

/* OPTLearnedPositionalEmbedding.forward; ids 0: made of the mask */
val bart_positions(struct run *r, struct module *positions, val ids, val mask);

/* (torch.cumsum(mask, dim=1) * mask - 1).long() in the decoder: position_ids, a local of the caller's */
val bart_masked_positions(struct run *r, val mask);

/* The decoder's layers one after the other. Locals are the caller's. position: cache_position, 0 where there is none. */
val bart_layers(struct run *r, struct model *m, region_function layer, val hidden, val mask, val ids, val position);

/* OPTForCausalLM.forward around the decoder's */
void bart_forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret,
                  val (*decoder)(struct run *r, struct model *m, const struct batch *b));

#endif
