/*
 * llmem.h - LLMem (IJCAI 2024, arXiv 2404.10933), kept apart from our own model as the named baseline.
 *
 * Purpose   peak memory of one GPU under Colossal-AI Gemini by closed forms, the largest batch by them, and Algorithm 1's choice.
 * Setting   full fine-tuning, fp16 with fp32 master weights, Adam, gradient checkpointing, all chunks on the GPU.
 * Variants  paper: its equations. repository: taehokim20/LLMem at 3d289b4, size_estimator.py, where they differ; the chunks that it
 *           measures on a GPU are laid out here as Gemini lays them out (chunks.h). docs/internals/llmem.md has the differences.
 * Units     bytes of one GPU, elements, tokens. A share that does not divide is rounded up to the byte.
 * Outside   DP+TP on other than 2 x 2 GPUs: the equation as it stands, which is right for 2 x 2 alone (`beyond_paper` says so).
 *           One homogeneous node. No LoRA, no quantised weights, no accumulation; CPU offloading is a word, not a figure.
 * Errors    none: a method that the equations do not define is absent, with a reason. Sums too large for 64 bits stay at the largest.
 * Threads   pure; the caller owns the tensors.
 */
#ifndef LLMEM_LLMEM_H
#define LLMEM_LLMEM_H

#include <stdbool.h>
#include <stdint.h>

/* Context and framework where the caller knows no better. Empirical: 0.55 to 0.65 GiB fits the repository's formula on a V100. */
#define LLMEM_DEFAULT_BASE_BYTES (UINT64_C(600) << 20)

/* tp_real.py: tp_size = 2. */
enum { LLMEM_DEFAULT_TENSOR_PARALLEL = 2, LLMEM_MAX_BATCH = 1 << 24 };

enum llmem_variant { LLMEM_PAPER, LLMEM_REPOSITORY };

/* In the order in which Algorithm 1 settles ties. */
enum llmem_method { LLMEM_CDP, LLMEM_ADP, LLMEM_TP, LLMEM_DPTP, LLMEM_METHODS, LLMEM_OFFLOAD = LLMEM_METHODS };

/* torch.nn.Embedding and torch.nn.Linear are what the estimator sees; transformers' Conv1D is neither. */
enum llmem_kind { LLMEM_OTHER, LLMEM_EMBEDDING, LLMEM_LINEAR_WEIGHT, LLMEM_LINEAR_BIAS };

struct llmem_tensor {
    uint64_t elems;
    enum llmem_kind kind;
    bool input_embedding, lm_head; /* get_input_embeddings(), get_output_embeddings(): weight and bias */
    bool tied;                     /* shares the storage of an earlier one */
};

struct llmem_model {
    const struct llmem_tensor *tensors; /* in the order of model.parameters(), each tied one at its own place */
    uint32_t n;
    uint32_t layers, hidden, ffn, vocab;
    uint32_t embed_dim;                 /* word_embed_proj_dim of opt-350m; elsewhere = hidden */
    bool logits_fp32[2];                /* by variant: the code upcasts logits; the id contains "codegen" or "neo" */
};

struct llmem_question {
    struct llmem_model model;
    enum llmem_variant variant;
    uint32_t seq_len_tokens;      /* >= 1 */
    uint32_t gpus;                /* >= 1 */
    uint32_t tensor_parallel;     /* of DP+TP; 0: LLMEM_DEFAULT_TENSOR_PARALLEL */
    uint32_t micro_batch_size;    /* 0: peaks are given at the largest batch */
    uint64_t base_bytes;          /* m_base */
    uint64_t capacity_bytes;      /* m_total */
    bool left_out[LLMEM_METHODS]; /* not among the methods that were asked */
};

/* The terms of one peak; their sum is the peak. */
struct llmem_terms {
    uint64_t m_base_bytes;
    uint64_t m_p16_bytes, m_p32_bytes; /* this GPU's share of the chunks */
    uint64_t m_gather_bytes;           /* repository: what ADP and DP+TP gather of the others' fp16 */
    uint64_t m_os_bytes;
    uint64_t lm_p_bytes;
    uint64_t m_in_bytes;               /* repository: token ids */
    uint64_t m_out_bytes, m_logits_bytes, m_back_bytes;
    uint64_t cs_elems;                 /* Gemini's chunk size */
    uint32_t n_chunks;                 /* of the simulated layout */
};

struct llmem_method_answer {
    const char *absent;      /* NULL: computed; else why not, and nothing below is set */
    uint32_t dp, tp;         /* degrees */
    bool beyond_paper;       /* DP+TP, not 2 x 2 */
    uint32_t max_micro_batch_size;
    double evaluation;       /* Algorithm 1's score */
    uint32_t peak_micro_batch_size; /* the one that terms and peak are of: asked, else the largest, else 1 */
    struct llmem_terms terms;
    uint64_t peak_bytes;
};

struct llmem_answer {
    enum llmem_variant variant;
    enum llmem_method method;  /* LLMEM_OFFLOAD: not one sequence fits under any method */
    uint32_t micro_batch_size; /* its largest; 0 under offload */
    uint64_t peak_bytes;       /* its peak; under offload the lowest of the methods. 0: no method is defined */
    struct llmem_method_answer methods[LLMEM_METHODS];
};

void llmem_answer(const struct llmem_question *q, struct llmem_answer *ret);

/* "llmem_adp", "offload"; "paper", "repository". */
const char *llmem_method_name(enum llmem_method method);
const char *llmem_variant_name(enum llmem_variant variant);

#endif
