/*
 * generation.h - generate() over a model that is declared from a program: its prompt, then token by token.
 *
 * Purpose   each call is a part of the greedy loop of transformers' GenerationMixin, run in the language (library/generation/utils.py); what it holds
 *           between two tokens lives on in the run.
 * Order     begin, prefill, choose, then { decode, choose } for each further token; skip() stands for as many of those as it is told, or takes them back.
 * Errors    the run's.
 * Threads   one model, one run.
 */
#ifndef MODELS_GENERATION_H
#define MODELS_GENERATION_H

#include "models/model.h"

struct generation;

enum generation_cache {
    CACHE_DYNAMIC, /* grows with each token */
    CACHE_STATIC,  /* as long as prompt and answer from the start; disable_compile=True */
    CACHE_FP8,     /* QuantizedCache(backend="fp8") */
    CACHE_LITGPT,  /* static, and logits of the whole prompt: litgpt */
    CACHE_NONE     /* use_cache=False: each token is the whole text again */
};

/* How a token is chosen: do_sample with its warpers; all zero: the most likely one. */
struct generation_choice {
    bool drawn, tempered, cut; /* do_sample; temperature other than 1; top_p below 1 */
    uint32_t top_k;            /* 0: all */
};

/* `ids` and `mask` are int64 [batch, prompt], held by the caller; a static cache has room for `tokens`. NULL: the run has failed. */
struct generation *generation_begin(struct run *r, struct model *m, val ids, val mask, enum generation_cache cache, int64_t tokens,
                                    const struct generation_choice *choice);
void generation_prefill(struct generation *g);
void generation_choose(struct generation *g);
void generation_decode(struct generation *g);
void generation_skip(struct generation *g, int64_t tokens);

/* Tells blocks of the KV cache apart from what else was made; *ret: their bytes. */
void generation_mark_cache(struct generation *g, uint64_t *ret_bytes);

/* What the cache holds of a layer that keeps keys or states: library/generation/layers.py. */
enum cache_states { STATES_NONE, STATES_CONVOLUTION, STATES_MAMBA, STATES_MAMBA2, STATES_DELTA };
struct cache_layer {
    uint32_t heads, key_width, value_width; /* latent attention: one head, the latent vector and its rotated part, no value; 0: it keeps no keys */
    uint32_t window;                        /* 0: none */
    uint32_t states;                        /* enum cache_states, beside keys or instead */
    uint32_t conv_channels, conv_columns;   /* of a convolution; columns that a next token wants */
    uint32_t state_heads, head_elems;       /* of a recurrence */
    uint32_t groups, group_channels;        /* of the convolution: B and C, of Mamba 2 */
    uint32_t chunk_tokens;                  /* that a prompt's recurrence is cut in; 0: it steps */
    bool states_in_full;                    /* vLLM keeps the recurrence in fp32 */
};
uint32_t generation_layers(struct generation *g, struct cache_layer *ret, uint32_t max); /* how many; 0: the run has failed, or there are more */

#endif
