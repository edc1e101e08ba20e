/*
 * request.h - POST /estimate's body as a struct, and the table that reads and writes it.
 *
 * Purpose   what the contract calls each thing, in its order. "Left out" is zero.
 * Owner     strings point into the JSON document, which lives as long as the request.
 */
#ifndef API_REQUEST_REQUEST_H
#define API_REQUEST_REQUEST_H

#include "api/decode/decode.h"
#include "api/request/left_out.h"
#include "api/words/words.h"

/* Micro-batches of a step: all their inputs are on the device at once since transformers 4.46, and a run keeps a record of each. */
enum { ACCUMULATION_MAX = 16384 };

struct gpu_numbers {
    struct quantity memory_bytes, bf16_tflops, fp16_tflops, memory_gbs, multiprocessors;
    const char *compute_capability;
};

struct gpu_request {
    const char *name;
    bool by_numbers;
    struct gpu_numbers numbers;
};

struct cluster_request {
    const char *name;
    struct gpu_request gpu;
    struct quantity gpus_per_node, nodes, free_memory_bytes, host_memory_bytes_per_node, host_memory_gbs;
    const char *intra_node, *inter_node;
    struct quantity intra_node_gbs, inter_node_gbs;
};

/* A number or a list, or numbers by name: the document itself, looked at (narrow.c). */
struct given_request {
    const struct json *v;
};

struct lora_request {
    struct quantity rank, alpha, dropout;
    struct strs target_modules, target_parameters, modules_to_save, layers_pattern, exclude_modules;
    struct given_request layers_to_transform, rank_pattern, alpha_pattern;
    struct words dtype, bias, kernels;
    enum tri use_dora;
};

struct fsdp_request {
    struct words wrap, backward_prefetch;
    enum tri forward_prefetch, use_orig_params, limit_all_gathers, autocast, cpu_ram_efficient_loading;
};

struct buckets_request {
    struct quantity reduce_elems, allgather_elems, prefetch_elems, max_live_elems, reuse_elems, sub_group_elems, persistence_elems, ddp_bytes;
    enum tri round_robin;
    bool auto_prefetch, auto_persistence; /* no members: of a DeepSpeed file that says "auto" */
};

/* Lengths of the data set's sequences; the document itself is kept, to be echoed. */
struct lengths_request {
    const struct json *given;
};

struct images_request {
    struct quantity per_sequence, height, width;
};

struct training_request {
    struct quantity seq_len, micro_batch_size, global_batch_size, gradient_accumulation_steps;
    struct methods methods;
    struct quantity tensor_parallel, pipeline_parallel, context_parallel, expert_parallel;
    struct words tuning;
    struct lora_request lora;
    struct words quantization, prepare_kbit, precision, float8;
    enum tri tf32;
    struct words optimizer;
    const char *optim_args;
    enum tri optimizer_in_backward;
    struct quantity max_grad_norm;
    struct words gradient_checkpointing;
    enum tri checkpoint_reentrant;
    enum tri cudnn_attention;
    struct words attention, loss, liger_kernels;
    enum tri compile;
    struct words reduce_dtype;
    enum tri keep_outputs, gradient_as_bucket_view, overlap_comm, sync_each_batch;
    struct fsdp_request fsdp;
    struct quantity shard_group;
    struct words offload;
    enum tri padded, attention_mask, use_cache;
    enum tri packing, find_unused_parameters, quantize_experts;
    struct lengths_request lengths;
    struct words stage, trainer, reference;
    struct strs freeze, trainable;
    struct quantity freeze_ratio;
    struct images_request images;
    struct quantity expert_skew;
    struct quantity eval_batch_size, eval_batches, eval_accumulation_steps; /* around a step */
    enum tri prediction_loss_only;
    struct buckets_request buckets;
};

enum { MAX_MEMORY_GPUS = 64 };

struct max_memory_request {
    bool set, host; /* host: it names "cpu" */
    uint32_t gpus;  /* from 0 on */
    uint64_t gpu_bytes[MAX_MEMORY_GPUS], host_bytes;
};

struct inference_request {
    struct quantity prompt_tokens, new_tokens, batch_size;
    struct words weights, compute_dtype, kv_cache, cache, engine, device_map;
    struct quantity tensor_parallel, gpu_memory_utilization, max_model_len, max_num_batched_tokens, num_beams, prefill_chunk_size, num_speculative_tokens;
    struct quantity temperature, top_k, top_p, num_return_sequences, pipeline_parallel, data_parallel, cpu_offload_gb;
    enum tri enforce_eager, do_sample, enable_expert_parallel, use_cache;
    struct max_memory_request max_memory;
    const char *assistant_model;
};

struct stack_request {
    struct words framework;
    const char *torch, *transformers, *peft, *accelerate, *bitsandbytes, *deepspeed, *flash_attn, *liger, *trl, *cuda;
    const char *causal_conv1d, *mamba_ssm, *fla;
    enum tri zero_init;
};

/* Another tool's own file. */
struct framework_config_request {
    struct words framework;
    const char *text;
};

struct allocator_request {
    enum tri expandable_segments;
};

struct llmem_request {
    struct words variant;
    struct quantity base_bytes;
};

struct estimate_request {
    const char *model, *revision;
    const struct json *config;
    struct words workload;
    struct cluster_request cluster;
    struct training_request training;
    struct inference_request inference;
    struct stack_request stack;
    struct allocator_request allocator;
    struct words objective, program;
    struct quantity margin;
    struct llmem_request llmem;
    const struct json *deepspeed_config, *accelerate_config, *training_arguments, *modeling;
    struct framework_config_request framework_config;
};

enum err_code narrow_layers_read(struct decoding *d, const struct json *v, void *at);
void narrow_layers_write(struct jsonw *w, const char *key, const void *at);
enum err_code narrow_ranks_read(struct decoding *d, const struct json *v, void *at);
enum err_code narrow_alphas_read(struct decoding *d, const struct json *v, void *at);
void narrow_numbers_write(struct jsonw *w, const char *key, const void *at);
bool narrow_agrees(const void *have, const void *said);
enum err_code lengths_read(struct decoding *d, const struct json *v, void *at);
void lengths_write(struct jsonw *w, const char *key, const void *at);
double lengths_mean(const struct lengths_request *l, uint64_t longest); /* of sequences cut at `longest` tokens; 0: none were given */

extern const struct member estimate_members[], training_members[], lora_members[], stack_members[];

/* Whether a list of words holds a word. */
bool has_word(const struct words *w, const struct word *vocabulary, const char *name);
unsigned words_bits(const struct words *w, const struct word *vocabulary); /* 1u << the value of each */

/* Reads the document; each member by itself is right then. warnings: what a person should know. left_out: what is not known, and what other
 * tools call it (theirs.h). */
MUST_CHECK enum err_code request_read(const struct json *doc, struct arena *arena, struct notes *warnings, struct left_out *left_out,
                                      struct estimate_request *ret, struct err *err);

/* What one member alone cannot tell, as far as it can be checked without the model. */
MUST_CHECK enum err_code request_check(struct estimate_request *rq, struct notes *assumptions, struct notes *warnings, struct err *err);

/* A repository's id as the hub takes it; a sentence saying what is wrong, or NULL. Source: huggingface_hub utils/_validators.py. */
const char *model_id_fault(const char *id);

/* The same for a branch, a tag, refs/pr/N or a commit. */
enum { REVISION_MAX = 255 };
const char *revision_fault(const char *revision);

/* GPUs that the request has: nodes x GPUs per node. */
uint64_t request_gpus(const struct estimate_request *rq);

/* Replicas that share a global batch, or 0 when the degrees do not divide the GPUs. */
uint64_t request_data_parallel(const struct estimate_request *rq);

#endif
