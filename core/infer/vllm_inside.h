/* vllm_inside.h - what the files of vllm.h share. Included by core/infer only. */
#ifndef INFER_VLLM_INSIDE_H
#define INFER_VLLM_INSIDE_H

#include "infer/vllm.h"

struct looking {
    const struct vllm_question *q;
    struct vllm_answer *ret;
    struct cache_layer *layers;
    uint32_t n_layers;
    bool own;        /* vLLM has a class of its own for it */
    uint64_t widest; /* elements of a token that the widest part of a layer holds, beside those as wide as the model */
    struct err err;
};

static inline uint64_t vllm_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* vllm_weights.c */
enum { VLLM_PAD_VOCABULARY = 64 };
bool vllm_has_own(const char *model_type);
bool vllm_is_expert(const struct param *p);
void vllm_add_weights(struct looking *l, const struct model *m);
uint64_t vllm_rotary_table(const struct looking *l, const struct model *m);
uint32_t vllm_sharers(const struct looking *l, const struct module *m); /* ranks that share a linear's width; 1: each has all of it */

/* vllm_blocks.c; false: more kinds of layers than are known */
bool vllm_make_groups(struct looking *l, struct vllm_answer *a);
const char *vllm_indivisible(const struct looking *l); /* what of the states tensor_parallel does not divide; NULL: nothing */

#endif
