/*
 * baseline.h - LLMem's answer for a model of ours: the adapter between core/llmem and an inventory.
 *
 * Purpose   lists the tensors of the causal model in their order, asks llmem_answer(). Whatever a request asks of tuning, precision,
 *           optimizer or stack: LLMem knows full fine-tuning in its own setting alone.
 * Source    which classes upcast their logits: transformers 4.29.2, the paper's. Parameters and their order are those of the newest
 *           modelled stack; in every family they are the same in the oldest.
 * Errors    ERR_NOMEM; what the family's declaration refuses. A method that LLMem does not define is absent, with a reason.
 * Owner     `scratch` is as it was afterwards; the answer points to nothing in it. baseline_model()'s tensors live in its arena.
 */
#ifndef PLAN_BASELINE_H
#define PLAN_BASELINE_H

#include "base/arena.h"
#include "base/err.h"
#include "llmem/llmem.h"

struct arch;

struct baseline_question {
    const struct arch *arch;
    const char *model_id; /* the repository looks for "codegen" and "neo" in it; NULL: the model type stands in */
    enum llmem_variant variant;
    uint32_t seq_len_tokens;
    uint32_t gpus;             /* of the cluster: LLMem takes them for one node */
    uint32_t tensor_parallel;  /* of DP+TP; 0: LLMEM_DEFAULT_TENSOR_PARALLEL */
    uint32_t micro_batch_size; /* the peaks are of this one; 0: of the largest */
    uint64_t base_bytes;       /* as asked, else LLMEM_DEFAULT_BASE_BYTES, which is an assumption to be named */
    uint64_t capacity_bytes;
    bool left_out[LLMEM_METHODS]; /* methods that the request does not name, when it names some of these */
};

MUST_CHECK enum err_code baseline_answer(const struct baseline_question *q, struct arena *scratch, struct llmem_answer *ret,
                                         struct err *err);

MUST_CHECK enum err_code baseline_model(const struct arch *arch, const char *model_id, struct arena *arena, struct llmem_model *ret,
                                        struct err *err);

#endif
