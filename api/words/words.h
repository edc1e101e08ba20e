/*
 * words.h - the closed vocabularies of the contract: every accepted word, what else people write for it, and whether there is a
 * model of it. GET /methods, /optimizers and /dtypes list them, openapi.yaml is tested against them.
 */
#ifndef API_WORDS_WORDS_H
#define API_WORDS_WORDS_H

#include "api/decode/decode.h"

enum workload { WORKLOAD_FINETUNE, WORKLOAD_INFERENCE };
enum kv_cache { KV_CACHE_AUTO, KV_CACHE_HALF, KV_CACHE_FP8 };
enum device_map { DEVICE_MAP_AUTO, DEVICE_MAP_LOW_0, DEVICE_MAP_SEQUENTIAL, DEVICE_MAP_ONE, DEVICE_MAP_HOST };
enum engine { ENGINE_OF_TRANSFORMERS, ENGINE_OF_VLLM };
enum weights { WEIGHTS_BF16, WEIGHTS_FP16, WEIGHTS_FP32, WEIGHTS_INT8, WEIGHTS_NF4, WEIGHTS_NF4_DQ, WEIGHTS_FP4,
               WEIGHTS_GPTQ4, WEIGHTS_GPTQ8, WEIGHTS_AWQ4, WEIGHTS_FP8, WEIGHTS_MXFP4, WEIGHTS_COUNT };

extern const struct word workload_words[], tuning_words[], quantization_words[], prepare_kbit_words[], precision_words[], float8_words[],
    optimizer_words[], checkpointing_words[], attention_words[], loss_words[], liger_words[], reduce_words[], wrap_words[],
    prefetch_words[], offload_words[], lora_dtype_words[], lora_bias_words[], lora_kernel_words[], target_words[], weights_words[], compute_words[],
    kv_cache_words[], cache_words[], device_map_words[], engine_words[],
    framework_words[], stage_words[], trainer_words[], reference_words[], tool_words[], objective_words[], program_words[],
    llmem_words[], link_words[];

/* The word that has this value; NULL: none has. */
const char *word_named(const struct word *words, int value);

/* Parts of a method. A composed one is its parts in rising order, at most one of each rank: "tp+pp+zero1". */
struct method_part {
    struct word word; /* value: enum of the one that is modelled, or WORD_UNMODELLED */
    uint8_t rank;     /* 1 tp, 2 pp, 3 cp, 4 ep, 5 data-parallel; 0: stands alone */
};
extern const struct method_part method_parts[];

enum { METHODS_MAX = 16 };

struct methods {
    uint8_t n;
    bool offloads_optimizer, offloads_params, is_plain_too; /* "zero2_offload", "zero3_offload"; one without */
    const char *v[METHODS_MAX]; /* as the contract spells them */
};

enum err_code methods_read(struct decoding *d, const struct json *v, void *at);
void methods_write(struct jsonw *w, const char *key, const void *at);
bool methods_are_set(const void *at);
bool methods_agree(const void *have, const void *said); /* all that is said is there */

/* of tool_words */
enum tool { TOOL_AXOLOTL, TOOL_LLAMA_FACTORY, TOOL_TRL, TOOL_MS_SWIFT, TOOL_OPEN_INSTRUCT, TOOL_OUMI, TOOLS };

/* of program_words */
enum program_wanted { PROGRAM_ANY, PROGRAM_BUILTIN, PROGRAM_INSTALLED, PROGRAM_HUB };

#endif
