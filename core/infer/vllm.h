/*
 * vllm.h - vLLM's start on each GPU of a tensor-parallel group: what it takes of the memory, and how many blocks of keys and values are left.
 *
 * Purpose   vllm_budget() follows the rule of the worker: a share of the whole memory is asked for; weights, the peak of a profiling run, what is not
 *           PyTorch's and CUDA graphs come off; the rest becomes blocks.
 * Source    vLLM 0.33.0. v1/worker/utils.py request_memory(); v1/worker/gpu_worker.py determine_available_memory(); utils/mem_utils.py memory_profiling();
 *           v1/kv_cache_interface.py page_size_bytes, max_admission_blocks_per_request(); v1/core/kv_cache_planning.py get_kv_cache_groups(),
 *           get_kv_cache_config_from_groups(); v1/core/kv_cache_utils.py get_max_concurrency_for_kv_cache_config(); engine/arg_utils.py get_batch_defaults();
 *           model_executor/layers/vocab_parallel_embedding.py; model_executor/models/llama.py LlamaDecoderLayer.
 * Range     what vLLM measures when it starts is not known before: the profile's peak lies between two counts of what a layer holds at once, its sampler's
 *           between two sets of kernels; the two EMPIRICAL terms are what its logs print. `low` is the least that is left for blocks, `high` the most.
 *           Checked against start-up logs: tests/unit/test_vllm.c.
 *           States: platforms/interface.py _align_hybrid_block_size(); model_executor/layers/mamba/mamba_utils.py; prefix caching is on, as it is by default.
 * Models    full, windowed and latent attention, states of convolutions and recurrences, in groups (hybrid cache manager); tensor parallelism by vLLM's own
 *           classes, or by transformers' plan where it wraps transformers'. Not modelled: pipeline and data parallelism, speculative decoding, adapters,
 *           encoders.
 * Units     bytes, tokens of a GPU.
 * Errors    as generate(); ERR_FIELD_CONFLICT for what is not modelled.
 * Threads   pure.
 */
#ifndef INFER_VLLM_H
#define INFER_VLLM_H

#include "infer/generate.h"

struct vllm_question {
    struct generate_question model; /* its tokens and batch are not read */
    uint64_t memory_bytes;          /* torch.cuda.mem_get_info()'s total */
    double utilization;             /* gpu_memory_utilization */
    bool a100;                      /* by its name: it has smaller batches by default */
    unsigned kv_bytes;              /* of an element of the cache */
    uint32_t tensor_parallel, max_model_len;
    uint32_t max_num_seqs, batched_tokens; /* 0: its default */
    bool eager;                     /* enforce_eager: nothing is compiled, no CUDA graphs */
};

struct vllm_range {
    uint64_t low, high;
};

enum { VLLM_MOST_GROUPS = 64 };
struct vllm_group {
    uint32_t block_tokens, window, layers; /* window 0: all tokens stay */
    uint32_t state_blocks;                 /* of states, which do not grow: that a request holds; 0: keys and values */
};

struct vllm_answer {
    uint64_t requested_bytes, weights_bytes;
    uint64_t expert_bytes;               /* of weights_bytes: experts' */
    struct vllm_range profile, outside, graphs; /* transient peak of the profile; outside PyTorch; CUDA graphs */
    struct vllm_range pool;              /* bytes for blocks; 0: none are left */
    uint64_t bytes_per_block, bytes_per_token; /* bytes_per_token: that attention reads, of a token that no window has dropped */
    uint64_t state_bytes;                /* of a request's convolutions and recurrences, unpadded */
    struct vllm_range blocks;
    uint32_t batched_tokens, max_num_seqs, in_flight_tokens;
    uint32_t n_groups;
    struct vllm_group group[VLLM_MOST_GROUPS];
    uint64_t parameters;
    uint32_t tensors;
    double active_parameters;            /* that a token meets, of the whole model */
};

MUST_CHECK enum err_code vllm_budget(const struct vllm_question *q, struct arena *arena, struct vllm_answer *ret, struct err *err);

/* The last release that had a class for a type; NULL: it is there, or was never. */
const char *vllm_gave_up(const char *model_type);

/* Blocks that one request of `tokens` holds at most. */
uint64_t vllm_blocks_of(const struct vllm_answer *a, uint64_t tokens);
/* The longest request that `blocks` hold, at most `most`; 0: none. */
uint64_t vllm_longest(const struct vllm_answer *a, uint64_t blocks, uint64_t most);

#endif
