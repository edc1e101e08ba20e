/*
 * arch.h - a config.json, normalised.
 *
 * Purpose   one descriptor that every family's program reads, whatever the keys were called; class defaults filled in, so
 *           nothing downstream asks "was it given?". What a family does not have is 0.
 * Source    the configuration_*.py of each model type, transformers 5.23.0; what 4.40.0 does otherwise stands beside the member.
 *           Key spellings and class defaults: config/families.c. Where both spellings are given the alias wins, as in both versions.
 * Reads     null as absent, except where the class knows None: pad_token_id, sliding_window, head_dim, the softcappings.
 *           5.23.0 itself refuses null elsewhere, and 4096.0 for 4096, which is read here.
 *           Width, layers, heads, vocabulary and FFN have to be there: no saved config lacks them, a guess would hide a typo.
 * Errors    ERR_ARCH_UNKNOWN at /model_type; ERR_FIELD_* and ERR_ARCH_INVALID at the config's own key.
 * Owner     strings and layer_kinds live in the arena given to arch_parse. Read-only afterwards, so threads may share one.
 */
#ifndef CONFIG_ARCH_H
#define CONFIG_ARCH_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct json;

enum { ARCH_MAX_LAYERS = 1024 };

/* The model types that have a program in models/families/. One row each in config/families.c. */
enum family {
    FAMILY_OPT,
    FAMILY_BLOOM,
    FAMILY_CODEGEN,
    FAMILY_GPTJ,
    FAMILY_BIOGPT,
    FAMILY_GPT_BIGCODE,
    FAMILY_GPT_NEO,
    FAMILY_GPT2,
    FAMILY_GPT_NEOX,
    FAMILY_LLAMA,
    FAMILY_MISTRAL,
    FAMILY_QWEN2,
    FAMILY_QWEN3,
    FAMILY_GEMMA2,
    FAMILY_COUNT
};

/* ACT2FN of transformers activations.py: which formula runs decides what is kept for backward. */
enum activation {
    ACT_GELU,              /* "gelu": nn.functional.gelu, one kernel */
    ACT_GELU_NEW,          /* "gelu_new": written out in Python (NewGELUActivation) */
    ACT_GELU_PYTORCH_TANH, /* "gelu_pytorch_tanh": nn.functional.gelu(approximate="tanh"), one kernel */
    ACT_GELU_FAST,         /* "gelu_fast": written out in Python (FastGELUActivation) */
    ACT_SILU,              /* "silu", "swish" */
    ACT_RELU,
    ACT_BLOOM_GELU,        /* BloomGelu: its own autograd function in modeling_bloom.py */
    ACT_OTHER,             /* another of ACT2FN (models/library/activations.py) */
    ACT_COUNT
};

enum dtype_saved { SAVED_ABSENT, SAVED_FP32, SAVED_BF16, SAVED_FP16 };

/* What decides the attention of one layer. */
enum layer_kind { LAYER_FULL, LAYER_SLIDING };

/* Which formula fills the rotary tables. 4.40.0: llama and gpt_neox know linear and dynamic (classes of their own) and refuse
 * the rest, mistral and qwen2 ignore the key. */
enum rope { ROPE_NONE, ROPE_DEFAULT, ROPE_LINEAR, ROPE_DYNAMIC, ROPE_YARN, ROPE_LLAMA3, ROPE_LONGROPE, ROPE_PROPORTIONAL };

struct program_source;

struct arch {
    const struct program_source *program; /* classes in the language in the family's place: models/program.h; NULL: none */
    enum family family;
    const char *model_type;   /* "llama" */
    unsigned offers;          /* of a program: attention that its class has, CLASS_* of stack/defaults.h; 0: the release's table says so */
    bool whole_heads;         /* of a program: its tensor parallel plan leaves heads whole, however many GPUs share the rest */
    bool never_adapts;        /* of a program: it is no GenerationMixin, which peft's model for causal language models asks for */
    bool inventory_only;      /* of a program: its modules are known, its forward is not */
    bool encoder;             /* of a program: its classes are an encoder's, what it trains by itself is what architectures[0] says */
    enum { PROBLEM_SINGLE, PROBLEM_REGRESSION, PROBLEM_MULTI } problem; /* problem_type; of one label regression */
    uint32_t turn_tokens, turn_nodes; /* of a program whose layers loop over a sequence: of one turn; 0: none do */
    uint32_t loop_nodes;              /* of loops of a layer that are as long whatever the sequence */
    const char *loop_package;         /* whose kernels leave no such loop where it is installed; NULL: nobody's */
    uint32_t modules_beside;  /* of a program: those that are not its layers' */
    uint32_t modules_within;  /* and those that are */
    bool has_towers;          /* of a program: lists of modules beside its layers, which a batch may leave alone, so that nothing of them has a gradient */
    bool never_checkpoints;   /* of a program: supports_gradient_checkpointing is not set */
    bool fixed_depth;         /* of a program: nobody knows that fewer layers are the same model's */
    bool may_repeat;          /* then: its config and its layers say so; its forward has to show it (train/repeats.h) */
    bool theirs;              /* of a program: files of a request or of an installed release, whose class is what was asked for */
    uint32_t num_labels;      /* of a *ForSequenceClassification: num_labels, the length of id2label, else 2 (PretrainedConfig) */
    const char *architecture; /* architectures[0], "LlamaForCausalLM"; "" when absent */

    const char *quantization; /* quantization_config.quant_method, "unknown" without it; "": not quantised. Shapes are unquantised */

    uint32_t hidden, layers, heads, kv_heads, ffn, vocab;
    uint32_t experts, experts_used; /* of a layer that has some, and how many a token takes; 0: none */
    uint32_t head_dim;        /* 4.40.0: hidden / heads whatever the key says */
    uint32_t max_positions;   /* 0: bloom has no limit */
    uint32_t rotary_dim;      /* elements of head_dim that are rotated; 0: no rotary */
    uint32_t sliding_window;  /* 0: none. gpt_neo: its window_size */
    uint32_t declared_window; /* sliding_window as the file or class has it, used or not: 4.40.0 cuts it into the 4-D masks all the same */
    uint32_t pretraining_tp;  /* llama of 4.40.0 cuts its linears into so many pieces when > 1; bloom only if slow_but_exact */
    uint32_t embed_dim;       /* opt word_embed_proj_dim; elsewhere = hidden */
    int64_t pad_token_id;     /* padding_idx of the embedding, as a row of it; -1: the class gives it none */
    enum activation activation;
    enum dtype_saved saved;   /* dtype, torch_dtype. 4.40.0 loads fp32 whatever it says */
    enum rope rope;

    bool tie_embeddings, use_cache;
    bool attention_bias;                      /* gpt_neox, llama, qwen3, gemma2. qwen2's q, k, v always have one */
    bool mlp_bias;                            /* llama; unknown to 4.40.0, where it is false */
    bool multi_query;                         /* gpt_bigcode */
    bool parallel_residual;                   /* gpt_neox */
    bool enable_bias;                         /* opt */
    bool norm_before;                         /* opt do_layer_norm_before */
    bool final_norm;                          /* opt: do_layer_norm_before && !_remove_final_layer_norm */
    bool norm_affine;                         /* opt layer_norm_elementwise_affine */
    bool residual_post_norm;                  /* bloom apply_residual_connection_post_layernorm */
    bool slow_but_exact;                      /* bloom */
    bool is_causal;                           /* llama and its kin; false: an embedding model whose mask hides nothing */
    bool scale_embedding;                     /* biogpt */
    bool scale_attn_weights;                  /* gpt2, gpt_bigcode */
    bool scale_attn_by_inverse_layer_idx, reorder_and_upcast_attn; /* gpt2 */
    bool attention_softmax_in_fp32, scale_attention_softmax_in_fp32; /* gpt_bigcode */

    double embed_dropout;      /* embd_pdrop, embed_dropout; biogpt, gpt_neox: the one of the residuals */
    double residual_dropout;   /* resid_pdrop, resid_dropout, hidden_dropout, hidden_dropout_prob, dropout */
    double attention_dropout;  /* attn_pdrop, attention_dropout, attention_probs_dropout_prob */
    double activation_dropout; /* biogpt */
    double layerdrop;          /* opt, biogpt */
    double attn_logit_softcapping, final_logit_softcapping; /* gemma2; 0: none */
    double query_pre_attn_scalar;
    double rope_attention_scaling;            /* != 1: yarn and the like multiply cos and sin all the same. 0: no rotary */
    bool rope_dynamic;                        /* rope_type "dynamic" or "longrope": the tables depend on the length */

    uint32_t whole_layers;      /* as many as layer_kinds has, where `layers` are the first of them */
    const uint8_t *layer_kinds; /* of each layer: equal for those that are alike (enum layer_kind: gpt_neo local, gemma2 and mistral sliding) */
};

/* Reads a config.json that was parsed to `config`. A text_config without a model_type around it is followed; with one, the rest of
 * that model is no decoder of this table and the type is refused. */
MUST_CHECK enum err_code arch_parse(const struct json *config, struct arena *arena, struct arch *ret, struct err *err);

/* num_labels and problem, of any config. */
void arch_read_labels(struct arch *a, const struct json *config);

/*
 * The class that is loaded to be trained, "" where the config names none: architectures[0]; of a checkpoint with code of its own, whose architectures
 * names the body alone (ChatGLM3-6B: ChatGLMModel), what auto_map has AutoModelForCausalLM take.
 */
const char *arch_class_of(const struct json *config);

/* Whether a class of that name is a body without a head: "LlamaModel", and not "GPT2LMHeadModel". */
bool arch_class_is_body(const char *name);

/* "llama" -> FAMILY_LLAMA; FAMILY_COUNT when there is no program for it. */
enum family family_find(const char *model_type);
const char *family_name(enum family family);

#endif
