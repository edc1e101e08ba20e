/*
 * blocks.h - what several families of transformers write alike: norms, rotary, attention, masks, activations, losses, caches.
 *
 * Each function mirrors one Python function or module, named beside it; nobody here says what is kept. Where two releases wrote
 * it differently there are two functions, chosen by a quirk where the family calls.
 */
#ifndef MODELS_BLOCKS_H
#define MODELS_BLOCKS_H

#include "models/model.h"

/* ---- declarations */
struct module *rms_norm(struct tree *t, struct module *parent, const char *name, int64_t width);
/* activation: a module of ACT2FN; call() it */
struct module *activation_module(struct tree *t, struct module *parent, const char *name, enum activation act);

/* ---- rotary position embedding */
struct two {
    val a, b; /* temporaries */
};
/* LlamaRotaryEmbedding.forward of each release. `ids` stays the caller's. */
struct two rotary_tables(struct run *r, const struct model *m, struct module *rotary, val ids, enum dtype dtype, val inv_freq);
val rotate_half(struct run *r, val x);
/* apply_rotary_pos_emb: q, k arguments of the caller's; tables unsqueezed at dimension 1 */
struct two apply_rotary(struct run *r, val q, val k, val cos, val sin);
/* 4.40 mistral and its copies: cos[position_ids], sin[position_ids] first */
struct two apply_rotary_at(struct run *r, val q, val k, val cos, val sin, val ids);

/* ---- attention; q, k, v: [batch, heads, seq, head_dim] */
val repeat_kv(struct run *r, const struct model *m, val x, int64_t n);
struct attention_call {
    val mask;            /* 0: none */
    double dropout;
    int64_t groups;      /* query heads a key head serves */
    double softcap;      /* 0: none */
    bool scale_by_division; /* / sqrt(d) before 5.x, * scaling since */
    bool softmax_as_is;  /* eager: softmax in the scores' dtype, not in fp32 and back */
    val *weights;        /* eager: what it returns beside the output, a temporary; NULL: the caller lets go of them at once */
};
/* transformers 5 ALL_ATTENTION_FUNCTIONS: sdpa_attention.py, eager_attention_forward, flash_attention.py.
 * Takes q, k, v (temporaries or not); returns [batch, seq, heads, head_dim] contiguous. */
val attention_interface(struct run *r, struct model *m, val q, val k, val v, const struct attention_call *c);
/* The same inside a 4.40 attention's own forward: q, k, v are its locals and are bound anew; the result is one more. */
val attention_440(struct run *r, struct model *m, val *q, val *k, val *v, const struct attention_call *c);
/* What classes of their own for SDPA did (GPT2SdpaAttention, ..): as it comes; [batch, seq, heads, head_dim] contiguous */
val sdpa_of_class(struct run *r, val q, val k, val v, val mask, double dropout_p);
/* the flash-attn package through transformers: fixed length, or unpadded by the 2-D mask */
val flash_attention_2(struct run *r, struct model *m, val q, val k, val v, const struct attention_call *c);
val flash_attention_mask(struct run *r, struct model *m, val mask);

/* ---- masks */
/*
 * masking_utils.create_causal_mask of 5.x: 0 where the kernel needs none. window: 0, or the sliding window. ids: position ids, where
 * the class hands them over. A batch without a mask counts as packed then, several sequences in a row, each blind to the others.
 */
/* torch.ones(batch, seq), as wide as the tokens: what classes put in the place of a mask that was left out */
val ones_for(struct run *r, val tokens, enum dtype dtype);
val causal_mask(struct run *r, struct model *m, val embeds, val mask_2d, val ids, int64_t window);
/* torch.all(attention_mask == 1) of AttentionMaskConverter._ignore_causal_mask_sdpa */
bool mask_is_full_440(struct run *r, const struct model *m, val mask_2d);
/* _update_causal_mask, which makes the mask of `position`, the cache's positions: [b, 1, s, s], 0 where the kernel needs none */
val causal_mask_by_position(struct run *r, struct model *m, val embeds, val mask_2d, val position);
/* the same of gemma2, which never leaves it to the kernel */
val causal_mask_always(struct run *r, struct model *m, val embeds, val mask_2d, val position);
/* attention_mask[:, -1].sum().item() != batch_size, which flash attention of mistral and qwen2 refuses in some releases */
void look_for_right_padding(struct run *r, const struct model *m);
/* the same of a class that cuts a sliding window; 0: its config has none */
val causal_mask_in_window(struct run *r, struct model *m, val embeds, val mask_2d, val position, int64_t window);
/* 4.40 modeling_attn_mask_utils._prepare_4d_causal_attention_mask (eager), .._for_sdpa */
val causal_mask_4d_440(struct run *r, struct model *m, val embeds, val mask_2d, int64_t window, bool for_sdpa);
/* 4.40 gpt2 and its like, whose causal mask is a buffer: padding alone, [batch, 1, 1, seq], to be added to the scores */
val additive_mask_440(struct run *r, struct model *m, val mask_2d);
/* 4.40 AttentionMaskConverter._unmask_unattended of a [b, 1, s, s] mask that is added */
val unmask_unattended_440(struct run *r, val mask, int64_t b, int64_t s);
/* torch.all(attention_mask == 1) of AttentionMaskConverter._ignore_causal_mask_sdpa; without a mask nothing is asked */
bool mask_is_full_440(struct run *r, const struct model *m, val mask_2d);
/* _update_causal_mask of 4.44 to 5.1, which makes the mask of `position`, the cache's positions: [b, 1, s, s], 0 where the kernel needs none */
val causal_mask_by_position(struct run *r, struct model *m, val embeds, val mask_2d, val position);
/* 4.40 flash attention: the 2-D mask where it holds zeros */
val flash_mask_440(const struct model *m, val mask_2d);

/* ---- losses: the stage is LOSS already; `logits` is the caller's local, labels the batch's */
/* loss_utils.ForCausalLMLoss: upcast, shifted labels; by_items: divided by num_items_in_batch */
val causal_lm_loss(struct run *r, val logits, val labels, bool by_items);
/* self.loss_function(..), or what forward itself did before; binds *logits anew where that did */
val lm_loss(struct run *r, const struct model *m, val *logits, val labels);
/* hidden_states[:, -num_logits_to_keep:, :] with 0 to keep: all, and a node for each slice of torch that makes one */
val last_states(struct run *r, const struct model *m, val hidden);
/* up to 4.45: shift_logits = logits[..., :-1, :].contiguous() and CrossEntropyLoss; the caller upcast or did not */
val shifted_loss(struct run *r, const struct model *m, val logits, val labels);

/* ---- a KV cache that is built while training: 4.40 keeps what it is given, 5.x (cache_utils.py DynamicLayer.update) its own copy,
 * which takes the place of the caller's locals. value: NULL where one tensor holds both. */
void cache_update(struct run *r, struct model *m, uint32_t layer, val *key, val *value);

/* Calls a decoder layer (`self`; `run` is its forward and does not enter it), checkpointed where the step asks for it.
 * args[0] is the hidden states; in 5.x the others are closed over and forward alone is checkpointed, in 4.x all are positional
 * and the module's __call__ is. */
val decoder_layer(struct run *r, struct model *m, struct module *self, val (*run)(struct run *, void *, const val *), void *context, int n_args,
                  const val *args, int n_closed, const val *closed);

#endif
