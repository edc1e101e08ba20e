/*
 * recipe.h - what is asked of a fine-tuning step, and the step with every default made explicit.
 *
 * Purpose   api decodes a request into a recipe; train_resolve() turns it into a step in which nothing is left open.
 *           `resolved` of the answer is a step, written out.
 * Source    defaults: ../api.md's table, each row's source file beside its line in resolve.c.
 * Errors    ERR_FIELD_VALUE / ERR_FIELD_CONFLICT at the member's JSON Pointer under /training; ERR_NO_TARGETS at
 *           /training/lora/target_modules.
 * Units     tokens, elements, bytes as named.
 */
#ifndef TRAIN_RECIPE_H
#define TRAIN_RECIPE_H

#include "base/arena.h"
#include "base/err.h"
#include "models/kernels.h"
#include "models/task.h"
#include "parallel/method.h"
#include "stack/device.h"
#include "stack/stack.h"
#include "torch/optim_kind.h"
#include "torch/work.h"
#include "tuning/kbit.h"
#include "tuning/narrow.h"
#include "tuning/part.h"

#include <stdbool.h>
#include <stdint.h>

struct arch;

enum tri { TRI_UNSET, TRI_FALSE, TRI_TRUE };

/* Which layers are checkpointed, and what of them is kept. The words of a request go on where tri ends. */
enum checkpoint_kind {
    CHECKPOINT_WHOLE,
    CHECKPOINT_SECOND = TRI_TRUE + 1,
    CHECKPOINT_SELECTIVE,
    CHECKPOINT_LEAST_SELECTIVE, /* no word: of a compiled step, what a graph of it cannot do without */
    CHECKPOINT_LEAST_PRODUCTS   /* the same of a step without checkpoints */
};

enum tuning { TUNING_FULL, TUNING_LORA, TUNING_QLORA, TUNING_COUNT };

enum precision {
    PRECISION_UNSET,
    PRECISION_BF16,          /* pure half: weights, gradients, states in it */
    PRECISION_BF16_AUTOCAST, /* bf16 weights, autocast on */
    PRECISION_BF16_MIXED,    /* fp32 weights, autocast on */
    PRECISION_FP16,
    PRECISION_FP16_AUTOCAST,
    PRECISION_FP16_MIXED,    /* fp32 weights, autocast on, GradScaler */
    PRECISION_FP32,
    PRECISION_COUNT
};

static inline bool precision_autocasts(enum precision p)
{
    return p == PRECISION_BF16_AUTOCAST || p == PRECISION_BF16_MIXED || p == PRECISION_FP16_AUTOCAST || p == PRECISION_FP16_MIXED;
}
static inline bool precision_is_mixed(enum precision p) /* master weights in fp32 */
{
    return p == PRECISION_BF16_MIXED || p == PRECISION_FP16_MIXED;
}
static inline bool precision_scales_loss(enum precision p) /* under a GradScaler */
{
    return p == PRECISION_FP16_AUTOCAST || p == PRECISION_FP16_MIXED;
}

enum optimizer {
    OPTIMIZER_UNSET,
#define OPTIMIZER(id, kind, paged, under) OPTIMIZER_##id,
#include "train/optimizers.def"
#undef OPTIMIZER
    OPTIMIZER_COUNT
};

/* Which tensors an optimizer may be handed. */
enum optimizer_under { OPTIMIZER_UNDER_WHOLE, OPTIMIZER_UNDER_PIECES, OPTIMIZER_UNDER_LOCAL, OPTIMIZER_UNDER_DTENSORS, OPTIMIZER_UNDER_SHARDS };

struct optimizer_row {
    enum optim_kind kind;
    bool paged; /* large states in managed memory */
    enum optimizer_under under;
};
extern const struct optimizer_row optimizer_rows[OPTIMIZER_COUNT]; /* [OPTIMIZER_UNSET]: AdamW in lists */

/* What stands in the place of the model's head and cross-entropy: models/library/liger, losses.py */
enum loss {
    LOSS_HF,
    LOSS_LIGER,
    LOSS_CHUNKED,
    LOSS_CHUNKED_NLL,
    LOSS_CUT_CROSS_ENTROPY,
    LOSS_LOGITS_ONCE, /* no word: of a compiled step, at the least */
    LOSS_COMPILED,    /* no word: of a compiled step, at the most */
    LOSS_COMPILED_IN_PARTS,
};

enum float8 { FLOAT8_NONE, FLOAT8_TENSORWISE, FLOAT8_ROWWISE, FLOAT8_ROWWISE_GW_HP }; /* torchao float8/config.py Float8LinearRecipeName */

enum attention { ATTENTION_UNSET, ATTENTION_SDPA, ATTENTION_EAGER, ATTENTION_FLASH_2, ATTENTION_FLASH_3, ATTENTION_FLEX, ATTENTION_COUNT };

static inline bool attention_is_flash(enum attention a) /* a package's */
{
    return a == ATTENTION_FLASH_2 || a == ATTENTION_FLASH_3;
}

enum framework { FRAMEWORK_TRANSFORMERS, FRAMEWORK_TORCH, FRAMEWORK_ENGINE, FRAMEWORK_COLOSSAL }; /* the last two: of requests alone */

enum lora_dtype { LORA_DTYPE_UNSET, LORA_DTYPE_FP32, LORA_DTYPE_BF16, LORA_DTYPE_FP16 };

enum { LORA_ALPHA = 8 }; /* peft tuners/lora/config.py */

struct lora {
    uint32_t rank;              /* 0: left out */
    double alpha;               /* 0: left out, LORA_ALPHA */
    double dropout;
    enum lora_dtype dtype;      /* of the adapters, whatever the base weights have */
    bool dora;                  /* use_dora */
    unsigned kernels;           /* axolotl's, a bit each, 1u << LORA_KERNEL_QKV */
    enum lora_bias bias;
    bool all_linear;            /* target_modules: "all-linear" */
    uint32_t n_targets;         /* 0 and not all_linear: peft's table for the model type */
    const char *const *targets; /* module names, matched as suffixes like peft does */
    const struct pattern *pattern; /* target_modules as one string, a regular expression; NULL: none */
    const char *pattern_text;
    uint32_t n_parameters; /* target_parameters: ends of names of tensors */
    const char *const *parameters;
    uint32_t n_saved; /* modules_to_save */
    const char *const *saved;
    const struct lora_narrow *narrow; /* NULL: nothing does */
};

#define ELEMS_UNSET UINT64_MAX

/* 0 / UNSET = left out. */
struct recipe {
    uint32_t seq_len_tokens, micro_batch_size, gradient_accumulation_steps;
    enum tuning tuning;
    struct lora lora;
    struct freeze freeze;         /* what of full tuning is not trained */
    bool inputs_want_grad;        /* the embeddings' output, trained or not */
    bool llama_factory;           /* its own way to cast what is trained in part and to checkpoint it */
    enum kbit quantization; /* of the frozen base */
    bool quantize_experts;  /* in tensors, as axolotl's quantize_moe_experts */
    enum kbit_prepare prepare_kbit;
    enum checkpoint_form checkpoint; /* what its config.json says of it */
    enum precision precision;
    enum optimizer optimizer;
    double max_grad_norm;       /* < 0: left out; 0: no clipping */
    enum tri gradient_checkpointing, checkpoint_reentrant, use_cache, keep_outputs;
    bool compile;                         /* torch.compile of the model in its default mode */
    bool least;                           /* no member: the walk is what a compiled step cannot do without */
    enum float8 float8;
    bool optimizer_in_backward;           /* each parameter's step as soon as its gradient stands */
    enum checkpoint_kind checkpoint_kind; /* of gradient_checkpointing true */
    enum attention attention;
    enum tri cudnn_attention; /* false: scaled_dot_product_attention passes cuDNN's kernel by, where torch takes it first */
    bool no_flash;            /* asked what scaled_dot_product_attention needs without flash's and cuDNN's kernels; of a range alone */
    enum loss loss;
    unsigned liger_kernels;     /* a bit each, 1u << LIGER_ROPE */
    bool padded;
    bool packing;               /* rows of several sequences, whose positions start anew: one without a mask, or as packs_by_mask() has them */
    double expert_skew;         /* how many even shares of the tokens the first expert of a layer has; 0: 1 */
    double sequence_tokens;     /* mean length of a packed row's sequences; 0: not known */
    enum tri attention_mask;    /* whether batches have one; without it their rows are single sequences all the same */
    enum task_id stage;
    enum reference reference;   /* of a stage that has one */
    enum framework framework;
    enum method method;
    uint32_t data_parallel;     /* ranks with a micro-batch of their own; 0: 1 */
    uint32_t tensor_parallel, pipeline_parallel, shard_group; /* 0: 1; shard_group 0: all data-parallel ranks */
    bool hosts;                 /* those of Muon under fully_shard are on several, which DTensor's prices ask */
    uint32_t rank;              /* whose memory is played: train_measure() looks at all that may be the highest */
    enum offload offload;
    uint64_t ddp_bucket_bytes;
    enum tri find_unused_parameters;     /* of DistributedDataParallel; unset: what the Trainer sets */
    enum tri gradient_as_bucket_view, sync_each_batch; /* sync_each_batch: no no_sync() while gradients accumulate */
    struct fsdp_recipe {
        enum fsdp_wrap wrap;
        enum fsdp_prefetch backward_prefetch;
        enum tri forward_prefetch, use_orig_params, limit_all_gathers, autocast;
        enum tri cpu_ram_efficient_loading; /* the launcher's: from_pretrained() keeps the model on the host, of one process a node */
        enum half_or_full { REDUCE_UNSET, REDUCE_FP32, REDUCE_BF16, REDUCE_AS_COMPUTED } reduce_dtype;
    } fsdp;
    struct zero_recipe {        /* ELEMS_UNSET: left out */
        uint64_t reduce_elems, allgather_elems, prefetch_elems, max_live_elems, sub_group_elems, persistence_elems;
        enum tri overlap_comm, zero_init;
        bool auto_prefetch, auto_persistence; /* "auto" in their file: made of the width when train() begins */
        bool round_robin, reuse_is_said;
        uint64_t reuse_elems; /* not said: max_live_elems */
    } zero;
    struct stack stack;         /* 0 = left out: stack_complete() */
    bool upcast;                /* accelerate holds in fp32 what was loaded in half */
    bool upcasts_saved;         /* and modules_to_save, before fully_shard() cuts them */
    bool upcasts_adapters;      /* and adapters in half once FSDP1 has cut them */
    bool flash_attn_named;      /* stack.flash_attn was, by the caller */
    bool peft_unnamed;         /* what only some releases of peft refuse is answered, and told of */
};

/* Whether only a range is known: what a compiler keeps is its own choice. */
static inline bool recipe_is_a_range(const struct recipe *r)
{
    return r->compile || r->float8;
}

/* axolotl's loader casts what nothing packs too, but FSDP's models, and DeepSpeed's engine casts all to its own dtype: routers called gate to fp32, and norms,
 * embedding and head where nothing wants them in half again. Source: axolotl 0.19.0 loaders/model.py _configure_embedding_dtypes, utils/schemas/enums.py
 * ATTN_IMPLS_WITHOUT_DTYPE_CAST. */
static inline bool recipe_casts_as_axolotl(const struct recipe *r)
{
    return r->prepare_kbit == KBIT_PREPARE_AXOLOTL && !r->quantization && (r->method <= METHOD_DDP || r->method == METHOD_TP);
}
static inline bool recipe_keeps_wide(const struct recipe *r)
{
    return r->tuning == TUNING_FULL && r->loss != LOSS_CUT_CROSS_ENTROPY && (r->attention == ATTENTION_SDPA || r->attention == ATTENTION_EAGER);
}

/* Whether the loss over logits is in the compiled graph: accelerate compiles the whole model, whose forward has it; other loops may compile layers alone. */
static inline bool recipe_fuses_loss(const struct recipe *r)
{
    return r->compile && r->framework == FRAMEWORK_TRANSFORMERS && r->loss == LOSS_HF && r->stage == TASK_SFT && r->method != METHOD_PP &&
           !method_has_tensor_parallel(r->method);
}

/* The same with nothing left open; n_targets > 0 whenever tuning is LoRA. attention is the kernel family that will run:
 * classes without SDPA in that version run eager, as transformers does by itself. */
struct step {
    struct recipe r;
    bool find_unused_parameters; /* of DistributedDataParallel: what the Trainer sets */
    bool autocast;               /* around the model's forward */
    enum flash_kernel flash;
    unsigned capability; /* ten times the device's: code may ask for it before there is a run */
    struct quirks quirks;
};

/* The rows of a batch and their tokens, and how many sequences a packed row holds: 0 where rows are not packed. */
struct batch_shape {
    int64_t rows, tokens;
    uint32_t sequences;
};
/* LLaMA-Factory 0.9.5 data/collator.py SFTDataCollatorWith4DAttentionMask: rows as they are, and a mask of all pairs of a row's tokens. */
static inline bool packs_by_mask(const struct recipe *r)
{
    return r->packing && r->llama_factory && !attention_is_flash(r->attention);
}

struct batch_shape train_batch_shape(const struct recipe *r);

/* Whether 4-bit weights wait on the host from when they are packed until a method cuts them. */
bool step_packs_by_host(const struct step *s);

/* Whether the loop reads sync_each_batch: some releases of the Trainer do not, whatever they are told. */
bool train_reads_sync(const struct recipe *r);

/* Targets that were left out: peft's for this type. ERR_NO_TARGETS: it has none. */
MUST_CHECK enum err_code train_targets(const struct arch *arch, const struct stack *stack, struct arena *arena, struct lora *l, struct err *err);

/* Fills what `asked` left out. `arch` gives the model's own defaults (saved dtype, use_cache, maximum length). */
MUST_CHECK enum err_code train_resolve(const struct recipe *asked, const struct arch *arch, const struct device *device,
                                       struct arena *arena, struct step *ret, struct err *err);

#endif
