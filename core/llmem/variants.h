/*
 * variants.h - the two readings of the estimator. Only answer.c includes this.
 */
#ifndef LLMEM_VARIANTS_H
#define LLMEM_VARIANTS_H

#include "llmem/chunks.h"

/* How one method lays the GPUs out: dp * tp of them share the states. CDP: 1 x 1, whatever the cluster has. */
struct layout {
    enum llmem_method method;
    uint32_t dp, tp;
    const struct chunks *undivided; /* of the whole model on one GPU: the search for their size is done once */
};

struct variant {
    const char *name;
    /* terms that no batch changes, and those that one brings */
    void (*at_rest)(const struct llmem_question *q, const struct layout *l, struct llmem_terms *ret);
    void (*of_batch)(const struct llmem_question *q, const struct layout *l, uint32_t batch, struct llmem_terms *ret);
};

extern const struct variant llmem_paper, llmem_repository;

/* The three tensors of the loss: logits, their copy shifted by one token, one more for the loss. */
uint64_t llmem_logits_bytes(const struct llmem_question *q, uint32_t batch);

#endif
