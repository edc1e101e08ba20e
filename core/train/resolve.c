/*
 * Every default of a fine-tuning step, one line each: those of the asked stack (stack/defaults.h).
 */
#include "config/arch.h"
#include "models/modeling.h"
#include "parallel/ddp/ddp.h"
#include "parallel/program.h"
#include "stack/defaults.h"
#include "stack/refusals.h"
#include "stack/release.h"
#include "train/recipe.h"
#include "tuning/pattern.h"
#include "tuning/targets.h"

#include <math.h>

struct resolving {
    const struct arch *arch;
    const struct device *device;
    const struct stack *stack;
    struct stack_defaults defaults;
    struct arena *arena;
    struct err *err;
};

static enum tri tri_of(bool b)
{
    return b ? TRI_TRUE : TRI_FALSE;
}

static void tri_default(enum tri *t, bool otherwise)
{
    if (*t == TRI_UNSET)
        *t = tri_of(otherwise);
}

/* Lengths and counts. 2048 or what the model was made for: training beyond it is a wish, not a default. */
static void resolve_batch(struct recipe *r, const struct arch *arch)
{
    uint32_t longest = arch->max_positions, most = tasks[r->stage].tokens ? tasks[r->stage].tokens : 2048;

    if (!r->seq_len_tokens)
        r->seq_len_tokens = longest && longest < most ? longest : most;
    if (!r->micro_batch_size)
        r->micro_batch_size = 1;
    if (!r->gradient_accumulation_steps) /* training_args.py; arXiv 1811.06965 section 2.3: four a stage leave little idle */
        r->gradient_accumulation_steps = r->method == METHOD_PP ? 4 * (r->pipeline_parallel ? r->pipeline_parallel : 1) : 1;
}

/*
 * transformers 5.23.0 data/data_collator.py DataCollatorWithFlattening, trl 1.16.0 sft_trainer.py (padding_free, packing): one row. Where nobody says how long
 * sequences are, two a row of seq_len: the fewest that are packed at all.
 */
struct batch_shape train_batch_shape(const struct recipe *r)
{
    struct batch_shape s = {r->micro_batch_size, r->seq_len_tokens, 0};
    double mean = r->sequence_tokens > 0 ? r->sequence_tokens : (double)r->seq_len_tokens / 2;

    s.rows *= tasks[r->stage].rows;
    if (!r->packing)
        return s;
    if (!packs_by_mask(r)) {
        s.tokens *= s.rows;
        s.rows = 1;
    }
    s.sequences = mean < (double)s.tokens ? (uint32_t)ceil((double)s.tokens / (mean < 1 ? 1 : mean)) : 1;
    return s;
}

/* A collator hands a mask over; padding shows in it alone. */
static enum err_code resolve_mask(struct recipe *r, struct err *err)
{
    bool masks = packs_by_mask(r);

    if (r->packing && (r->padded || r->attention_mask == (masks ? TRI_FALSE : TRI_TRUE)))
        return err_set(err, ERR_FIELD_CONFLICT, r->padded ? "/training/padded" : "/training/attention_mask",
                       masks ? "LLaMA-Factory's packed rows have no padding, and a mask of all pairs of tokens that tells their sequences apart"
                             : "packed rows have neither padding nor a mask: positions that start anew tell their sequences apart");
    if (masks && r->attention == ATTENTION_FLEX)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/attention", "LLaMA-Factory has no flex attention: sdpa, eager or flash_attention_2");
    if (r->packing && r->method == METHOD_PP)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/packing", "packed rows through a pipeline are not modelled");
    if (r->packing)
        r->attention_mask = masks ? TRI_TRUE : TRI_FALSE;
    tri_default(&r->attention_mask, true);
    if (r->padded && r->attention_mask == TRI_FALSE)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/attention_mask",
                       "padded batches have an attention mask: it is what tells padding from tokens");
    return ERR_OK;
}

/* The Trainer's bf16=True or fp16=True on the weights as from_pretrained loads them. */
static enum precision precision_default(const struct recipe *r, const struct resolving *c)
{
    bool half = c->arch->saved == SAVED_BF16 || c->arch->saved == SAVED_FP16, hqq = kbit_is_hqq(r->quantization); /* quantise.c: not in fp32 */

    if (c->device->cc_major < 8) /* no bf16 tensor cores before Ampere */
        return hqq ? PRECISION_FP16_AUTOCAST : PRECISION_FP16_MIXED;
    return (half && c->defaults.loads_as_saved) || hqq ? PRECISION_BF16_AUTOCAST : PRECISION_BF16_MIXED;
}

/* Weights that were loaded in half do not stay so where accelerate shards what is trained: bf16=True under FSDP is fp32 shards. */
static void resolve_upcast(struct recipe *r, const struct resolving *c)
{
    bool shards = method_is_fsdp1(r->method) || method_is_fsdp2(r->method);

    if (!shards || !c->defaults.fsdp_upcasts || r->framework != FRAMEWORK_TRANSFORMERS || r->tuning != TUNING_FULL)
        return;
    r->upcast = r->precision == PRECISION_BF16_AUTOCAST || r->precision == PRECISION_FP16_AUTOCAST;
    if (r->precision == PRECISION_BF16_AUTOCAST)
        r->precision = PRECISION_BF16_MIXED;
    if (r->precision == PRECISION_FP16_AUTOCAST)
        r->precision = PRECISION_FP16_MIXED;
}

/* dpo_trainer.py: a PeftModel without its adapters is its own reference, else the model is loaded a second time. */
static enum err_code resolve_reference(struct recipe *r, const struct task *task, struct err *err)
{
    static const char at[] = "/training/reference";

    if (!task->refers)
        return r->reference > REFERENCE_NONE ? err_set(err, ERR_FIELD_CONFLICT, at, "%s has no reference model", task->stage) : ERR_OK;
    if (task->refers == REFERS_TEACHER) {
        if (r->reference > REFERENCE_COPY)
            return err_set(err, ERR_FIELD_CONFLICT, at, "the teacher of %s is a model beside the student: copy", task->stage);
        r->reference = REFERENCE_COPY;
        return ERR_OK;
    }
    if (r->reference == REFERENCE_UNSET)
        r->reference = r->tuning == TUNING_FULL ? REFERENCE_COPY : REFERENCE_ADAPTER;
    if (r->reference == REFERENCE_NONE)
        return err_set(err, ERR_FIELD_CONFLICT, at, "%s compares with a reference model: copy, adapter or precomputed", task->stage);
    if (r->reference == REFERENCE_ADAPTER && r->tuning == TUNING_FULL)
        return err_set(err, ERR_FIELD_CONFLICT, at, "without adapters there are none to leave out: copy or precomputed");
    if (r->reference == REFERENCE_PRECOMPUTED && task->by == TRAINER_MS_SWIFT)
        return err_set(err, ERR_FIELD_CONFLICT, at, "numbers from before training in ms-swift are not modelled yet: copy or adapter");
    if (r->reference == REFERENCE_PRECOMPUTED && task->by == TRAINER_LLAMA_FACTORY)
        return err_set(err, ERR_FIELD_CONFLICT, at, "LLaMA-Factory's trainers compute the reference in each step: copy or adapter");
    if (r->reference == REFERENCE_COPY && r->quantization)
        return err_set(err, ERR_FIELD_CONFLICT, at, "a quantised copy is not modelled yet: adapter or precomputed");
    return ERR_OK;
}

/* The model's own class under the Trainer, or a plain loop. */
static enum err_code resolve_head(struct recipe *r, const struct task *task, struct err *err)
{
    if (r->loss != LOSS_HF || r->liger_kernels)
        return err_set(err, ERR_FIELD_CONFLICT, r->loss != LOSS_HF ? "/training/loss" : "/training/liger_kernels",
                       "the head of %s has its own loss, without Liger's kernels", task->stage);
    if (r->method == METHOD_PP || method_has_tensor_parallel(r->method))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/stage", "%s under %s is not modelled yet", task->stage, method_rows[r->method].name);
    if (r->tuning != TUNING_FULL && r->lora.all_linear && (r->stage == TASK_TOKEN_CLASSIFICATION || r->stage == TASK_QUESTION_ANSWERING))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/target_modules",
                       "all-linear of %s adapts the head too (tuners_utils.py), which is not modelled: name modules", task->stage);
    return ERR_OK;
}

/* A trainer of TRL's: what its text was read for. */
static enum err_code resolve_stage(struct recipe *r, const struct resolving *c)
{
    const struct task *task = &tasks[r->stage];
    enum err_code rc = resolve_reference(r, task, c->err);

    if (rc || r->stage == TASK_SFT)
        return rc;
    if (r->stage == TASK_EMBEDDING && r->attention_mask == TRI_FALSE)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention_mask", "embedding has rows with a mask: tokens that count are what is averaged");
    if (r->packing && r->stage == TASK_EMBEDDING && attention_is_flash(r->attention) && !r->padded)
        r->packing = false; /* sentence-transformers flattens rows for flash attention: of equal ones it holds what it holds of rows */
    if (r->packing && (c->arch->encoder || !task->module))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/packing", "%s of packed rows is not modelled: rows with a mask", task->stage);
    if (!task->module)
        return resolve_head(r, task, c->err);
    if (!quirks_for(c->stack, c->arch->model_type).bnb_loads_by_name)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/transformers", "%s is modelled as %s has it, beside transformers 5", task->stage,
                       trainer_rows[task->by].release);
    if (r->framework != FRAMEWORK_TRANSFORMERS && r->stage != TASK_EMBEDDING)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/framework", "%s is a Trainer's: stack.framework transformers", task->stage);
    if (r->loss != LOSS_HF || (r->liger_kernels & (1u << LIGER_FUSED_LINEAR | 1u << LIGER_CROSS_ENTROPY)))
        return err_set(c->err, ERR_FIELD_CONFLICT, r->loss != LOSS_HF ? "/training/loss" : "/training/liger_kernels",
                       "the loss of %s is its trainer's own", task->stage);
    if (r->packing)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/packing", "%s has rows with a mask%s", task->stage,
                       task->by == TRAINER_TRL ? " (padding_free is unavailable in trl 1.16)" : "");
    if (task->by != TRAINER_TRL && r->reference == REFERENCE_COPY && r->method != METHOD_SINGLE && r->method != METHOD_DDP)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/trainer",
                       "the reference model of %s's %s under %s is not modelled yet: single, ddp, or adapters",
                       trainer_rows[task->by].name, task->stage, method_rows[r->method].name);
    if (r->stage == TASK_LF_REWARD && r->method != METHOD_SINGLE && !(r->method == METHOD_DDP && r->tuning != TUNING_FULL))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/trainer",
                       "LLaMA-Factory's value head, in fp32 beside a model whose own head gets no gradient, under %s %s is not modelled yet: single, or "
                       "adapters under ddp",
                       method_rows[r->method].name, r->tuning == TUNING_FULL ? "in full" : "with adapters");
    if (r->method == METHOD_TP || r->method == METHOD_TP_FSDP2 || r->method == METHOD_PP)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/stage", "%s under %s is not modelled yet: single, ddp, zero1 to zero3, fsdp or fsdp2",
                       task->stage, method_rows[r->method].name);
    if (task->refers == REFERS_TEACHER && (method_is_fsdp1(r->method) || method_is_fsdp2(r->method)))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/stage",
                       "GKDTrainer of trl 1.16 leaves the teacher on the host under %s (prepare_model(evaluation_mode=True)), and its first step fails: "
                       "single, ddp or zero1 to zero3",
                       method_rows[r->method].name);
    return ERR_OK;
}

static enum err_code check_engine(const struct recipe *r, const struct quirks *q, struct err *err)
{
    if (r->method == METHOD_ZERO0 && !q->zero0_is_unfused)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/deepspeed",
                       "stage 0 as DeepSpeed had it before 0.19 is not modelled (until 0.17.5 BF16_Optimizer stepped bf16): 0.19, zero1 or ddp");
    return ERR_OK;
}

static const char *precision_gap(const struct recipe *r)
{
    if (r->precision == PRECISION_FP32 && attention_is_flash(r->attention))
        return "flash attention computes in fp16 and bf16 only: another precision, or attention sdpa";
    return NULL;
}

/* What the class's __init__ raises on. */
static enum err_code check_class(const struct resolving *c)
{
    const struct arch *a = c->arch;
    const char *type = a->model_type;
    struct release_text have = release_text(c->stack->transformers);
    release rope = stack_refuses(REFUSAL_ROPE, type, c->stack), heads = stack_refuses(REFUSAL_UNEVEN_HEADS, type, c->stack);

    if (a->theirs) /* files of their own: whatever the release's class of that name does */
        return ERR_OK;
    if (!stack_class_attention(type, c->stack))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/transformers", "transformers %s has no %s: it came with %s", have.text, type,
                       release_text(stack_class_first(type)).text);
    if (rope && a->rope > ROPE_DYNAMIC)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "transformers %s knows rope_scaling of %s as linear and dynamic only, and raises: others came with %s", have.text,
                       type, release_text(rope).text);
    if (!a->heads || !(a->hidden % a->heads))
        return ERR_OK;
    if (heads == NO_RELEASE)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "%u heads do not divide the width of %u, and the config class of %s of transformers %s raises, whatever head_dim says", a->heads,
                       a->hidden, type, have.text);
    if (heads)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "%u heads do not divide the width of %u, and %s of transformers %s raises: it takes head_dim since %s", a->heads,
                       a->hidden, type, have.text, release_text(heads).text);
    return ERR_OK;
}

/* AutoModelForSequenceClassification and AutoModelForTokenClassification raise on a config that their table does not hold. */
static enum err_code check_head(const struct recipe *r, const struct resolving *c)
{
    const struct arch *a = c->arch;
    bool tokens = r->stage == TASK_TOKEN_CLASSIFICATION;
    unsigned head = tokens ? CLASS_TOKENS : CLASS_SEQUENCES;
    release first = stack_head_first(a->model_type, head);
    /* an encoder's classes are its family's, a type of nobody's is answered by a generic decoder */
    bool has = stack_type_is_known(a->model_type) ? stack_class_heads(a->model_type, c->stack) & head : a->encoder || !program_is_builtin(a->model_type);

    if (a->theirs || has || (!tokens && r->stage != TASK_CLASSIFICATION && r->stage != TASK_REWARD))
        return ERR_OK;
    return err_set(c->err, ERR_FIELD_CONFLICT, "/training/stage", "transformers %s has no AutoModelFor%sClassification of %s: %s%s",
                   release_text(c->stack->transformers).text, tokens ? "Token" : "Sequence", a->model_type,
                   first == UINT32_MAX ? "no release has" : "it came with ", first == UINT32_MAX ? "" : release_text(first).text);
}

/* modeling_*.py: is_padding_right, looked at beside a KV cache; checkpointing turns that off. */
static enum err_code check_padding(const struct recipe *r, const struct resolving *c)
{
    release since = stack_refuses(REFUSAL_PADDING_RIGHT, c->arch->model_type, c->stack);

    if (!since || !r->padded || r->use_cache != TRI_TRUE || r->gradient_checkpointing == TRI_TRUE)
        return ERR_OK;
    return err_set(
        c->err, ERR_FIELD_CONFLICT, "/training/attention",
        "flash_attention_2 of transformers %s raises where rows of %s end in padding and use_cache is on: not so with use_cache false, or since %s",
        release_text(c->stack->transformers).text, c->arch->model_type, release_text(since).text);
}

/* flash-attention/hopper README: H100; its backward is built for 8.x too, for nothing newer than 9.x */
static enum err_code check_flash_3(const struct resolving *c)
{
    if (!c->defaults.has_flash_3)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention", "transformers %s has no flash_attention_3 of all classes: it came with 4.54",
                       release_text(c->stack->transformers).text);
    if (c->device->cc_major > 9)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention", "FlashAttention 3 has no kernels for compute capability %u.%u: flash_attention_2",
                       c->device->cc_major, c->device->cc_minor);
    return ERR_OK;
}

enum { FLEX_ROWS = 128 }; /* torch/_inductor/kernel/flex/flex_decoding.py: fewer may take the kernel for decoding */

static enum err_code check_flex(const struct recipe *r, const struct resolving *c, unsigned offers)
{
    struct quirks q = quirks_for(c->stack, c->arch->model_type);

    if (c->arch->theirs)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention", "flex_attention through files of their own is not modelled: sdpa or eager");
    if (!(offers & CLASS_FLEX))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention", "the %s class of this transformers release has no flex attention",
                       c->arch->model_type);
    if (!q.flex_compiled || !q.flex_mask_of_padding)
        return err_set(c->err, ERR_FIELD_CONFLICT, q.flex_compiled ? "/stack/transformers" : "/stack/torch",
                       "flex_attention is modelled as torch 2.15 compiles it for transformers 5.14 and later");
    if (r->seq_len_tokens < FLEX_ROWS)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention",
                       "flex_attention of fewer than %d tokens may take its kernel for decoding, which is not modelled: sdpa", (int)FLEX_ROWS);
    return ERR_OK;
}

/* Said of those steps alone whose sdpa looks at cuDNN's kernel first. */
static void resolve_cudnn(struct recipe *r, const struct quirks *q, const struct device *device)
{
    if (r->attention == ATTENTION_SDPA && r->precision != PRECISION_FP32 && device_prefers_cudnn(q, device))
        tri_default(&r->cudnn_attention, true);
    else
        r->cudnn_attention = TRI_UNSET;
}

static enum err_code resolve_attention(struct recipe *r, const struct resolving *c)
{
    unsigned offers = c->arch->offers ? c->arch->offers : stack_class_attention(c->arch->model_type, c->stack);
    const char *gap;

    if (r->attention == ATTENTION_SDPA && (offers & CLASS_SDPA_IF_ASKED))
        offers |= CLASS_SDPA;
    if (r->attention == ATTENTION_UNSET)
        r->attention = ATTENTION_SDPA; /* modeling_utils.py takes it where the class has it */
    if (r->attention == ATTENTION_SDPA && !(offers & CLASS_SDPA))
        r->attention = ATTENTION_EAGER;
    if (r->attention == ATTENTION_FLEX)
        return check_flex(r, c, offers);
    if (!attention_is_flash(r->attention))
        return ERR_OK;
    if (!(offers & CLASS_FLASH_2))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention",
                       "the %s class of this transformers release has no flash attention", c->arch->model_type);
    if (c->device->cc_major < 8) /* flash-attn 2's README: Ampere, Ada, Hopper */
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention", "flash attention needs compute capability 8.0 or newer");
    if (r->attention == ATTENTION_FLASH_3 && check_flash_3(c))
        return c->err->code;
    gap = precision_gap(r);
    return gap ? err_set(c->err, ERR_FIELD_CONFLICT, "/training/attention", "%s", gap) : check_padding(r, c);
}

static enum lora_dtype base_dtype(enum precision p)
{
    switch (p) {
    case PRECISION_BF16:
    case PRECISION_BF16_AUTOCAST:
        return LORA_DTYPE_BF16;
    case PRECISION_FP16:
    case PRECISION_FP16_AUTOCAST:
        return LORA_DTYPE_FP16;
    default:
        return LORA_DTYPE_FP32;
    }
}

/* Where mixed precision is on: accelerator.py prepare_model casts flat parameters that are trained, once they are cut;
 * utils/fsdp_utils.py fsdp2_prepare_model each parameter before, where none is packed in 4 bits. */
static void upcast_adapters(struct recipe *r, const struct resolving *c)
{
    bool mixed = c->defaults.fsdp_upcasts && r->framework == FRAMEWORK_TRANSFORMERS && precision_autocasts(r->precision);

    r->upcasts_saved = mixed && method_is_fsdp2(r->method) && !kbit_is_bnb(r->quantization);
    r->upcasts_adapters = mixed && method_is_fsdp1(r->method) && (r->lora.n_saved || r->lora.dtype != LORA_DTYPE_FP32);
    if (!mixed || r->lora.dtype == LORA_DTYPE_FP32)
        return;
    if (method_is_fsdp2(r->method) && !kbit_is_bnb(r->quantization))
        r->lora.dtype = LORA_DTYPE_FP32;
}

static bool trains_fp32(const struct lora *l, const struct recipe *r)
{
    return l->dtype == LORA_DTYPE_FP32 || r->upcasts_adapters;
}

/* Names of a type that nobody knows, as the decoder that answers for it has them. */
static enum err_code take_names_of_sketch(struct lora *l, struct arena *arena, struct err *err)
{
    enum { AS_MOST = 3 };
    const char **names = arena_array(arena, const char *, (size_t)AS_MOST * l->n_targets);
    uint32_t n = 0;

    if (!names)
        return err_set(err, ERR_NOMEM, "", "no room for the names of the adapted modules");
    for (uint32_t i = 0; i < l->n_targets; i++) {
        const char *const *as = targets_of_sketch(l->targets[i]);

        if (!as)
            names[n++] = l->targets[i];
        for (; as && *as; as++)
            names[n++] = *as;
    }
    l->targets = names;
    l->n_targets = n;
    return ERR_OK;
}

static bool is_sketched(const struct arch *a)
{
    return a->program && !arch_is_of_files(a) && !program_is_builtin(a->model_type);
}

enum err_code train_targets(const struct arch *arch, const struct stack *stack, struct arena *arena, struct lora *l, struct err *err)
{
    static const char at[] = "/training/lora/target_modules";
    struct default_targets d;

    if (l->n_targets)
        return is_sketched(arch) ? take_names_of_sketch(l, arena, err) : ERR_OK;
    if (l->all_linear || l->pattern || l->n_parameters)
        return ERR_OK;
    if (!targets_default(arch->model_type, stack->peft, &d))
        return err_set(err, ERR_NO_TARGETS, at, "this peft release has no default target modules for '%.64s': name them, or write \"all-linear\"",
                       arch->model_type);
    l->targets = d.modules;
    l->n_targets = d.n;
    l->pattern_text = d.pattern;
    if (d.pattern)
        return pattern_compile(d.pattern, at, arena, &l->pattern, err);
    return is_sketched(arch) ? take_names_of_sketch(l, arena, err) : ERR_OK;
}

static enum err_code resolve_lora(struct recipe *r, const struct resolving *c)
{
    struct lora *l = &r->lora;

    if (r->tuning == TUNING_FULL &&
        r->precision == PRECISION_FP16_AUTOCAST) /* torch/amp/grad_scaler.py: "Attempting to unscale FP16 gradients." */
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/precision",
                       "the GradScaler refuses to unscale gradients of fp16 weights: fp16-mixed keeps them in fp32");
    if (r->tuning == TUNING_FULL)
        return ERR_OK;
    if (!l->rank)
        l->rank = 8; /* peft tuners/lora/config.py, as is the dropout of 0 */
    if (l->dtype == LORA_DTYPE_UNSET)
        l->dtype = c->defaults.adapters_in_fp32 ? LORA_DTYPE_FP32 : base_dtype(r->precision);
    upcast_adapters(r, c);
    if (precision_scales_loss(r->precision) && !method_is_zero(r->method) && !trains_fp32(l, r)) /* torch/amp/grad_scaler.py, cuda/AmpKernels.cu */
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/lora/dtype",
                       "the GradScaler of fp16 precisions unscales fp32 gradients only: fp32 adapters");
    return train_targets(c->arch, &r->stack, c->arena, l, c->err);
}

/* A KV cache is built in forward when config.use_cache says so; the classes switch it off when they checkpoint, save gpt_bigcode in some releases. Files of a
 * request and of an installed release do so themselves, or do not. */
static void resolve_cache(struct recipe *r, const struct resolving *c)
{
    bool trainer = r->framework == FRAMEWORK_TRANSFORMERS;
    struct quirks q = quirks_for(c->stack, c->arch->model_type);
    bool keeps = arch_is_of_files(c->arch) || (c->arch->family == FAMILY_GPT_BIGCODE && (!q.bigcode_cache_off || q.bigcode_never_checkpoints));

    tri_default(&r->use_cache, c->arch->use_cache && !(trainer && c->defaults.cache_off));
    if (r->gradient_checkpointing == TRI_TRUE && !keeps)
        r->use_cache = TRI_FALSE;
}

static void resolve_loop(struct recipe *r, const struct resolving *c)
{
    if (r->optimizer == OPTIMIZER_UNSET)
        r->optimizer = c->defaults.fused_adamw ? OPTIMIZER_ADAMW_TORCH_FUSED : OPTIMIZER_ADAMW_TORCH;
    if (r->max_grad_norm < 0)
        r->max_grad_norm = r->optimizer_in_backward ? 0 : 1.0; /* training_args.py */
    tri_default(&r->gradient_checkpointing, false);
    if (r->method == METHOD_ZERO3 && r->tuning != TUNING_FULL && tasks[r->stage].refers == REFERS_POLICY)
        r->checkpoint_reentrant = TRI_TRUE; /* dpo_trainer.py and kto_trainer.py set it, whatever was asked */
    tri_default(&r->checkpoint_reentrant, c->defaults.reentrant && r->checkpoint_kind != CHECKPOINT_SELECTIVE);
    tri_default(&r->keep_outputs,
                r->framework == FRAMEWORK_TORCH && r->method != METHOD_PP); /* trainer.py drops the outputs before backward */
    resolve_cache(r, c);
}

/*
 * Colossal-AI's GeminiPlugin as dp_real.py and tp_real.py of LLMem call it: half weights with fp32 masters, HybridAdam (a fused AdamW), checkpoints, a plain
 * loop that drops the outputs before backward and clips nothing. Gradients take the weights' place in their chunks, so none can be accumulated.
 */
static enum err_code resolve_colossal(struct recipe *r, struct err *err)
{
    enum optim_kind kind = optimizer_rows[r->optimizer].kind;
    enum precision p = r->precision;

    if (!method_is_colossal(r->method))
        return ERR_OK;
    if (r->tuning != TUNING_FULL)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/tuning", "LLMem's Colossal-AI trains all parameters: tuning full");
    if (p != PRECISION_UNSET && !precision_is_mixed(p) && p != PRECISION_FP16 && p != PRECISION_BF16)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/precision", "Gemini holds half weights and fp32 masters: fp16-mixed or bf16-mixed");
    if (r->optimizer != OPTIMIZER_UNSET && kind != OPTIM_ADAMW_FUSED && kind != OPTIM_ADAMW_FOREACH)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer", "Gemini's optimizer is HybridAdam, a fused AdamW: adamw_torch_fused");
    if (r->gradient_accumulation_steps > 1)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/gradient_accumulation_steps",
                       "under Gemini gradients take the weights' place in their chunks: they cannot be accumulated");
    if (r->loss != LOSS_HF || r->liger_kernels || r->packing || r->stage != TASK_SFT || freeze_asked(&r->freeze))
        return err_set(err, ERR_FIELD_CONFLICT, "/training",
                       "of Colossal-AI LLMem's own setting is modelled: stage sft in rows, all parameters, the model's own loss");
    if (p == PRECISION_UNSET)
        r->precision = PRECISION_FP16_MIXED;
    r->framework = FRAMEWORK_TORCH;
    r->optimizer = OPTIMIZER_ADAMW_TORCH_FUSED;
    r->gradient_accumulation_steps = 1;
    r->max_grad_norm = r->max_grad_norm < 0 ? 0 : r->max_grad_norm;
    r->keep_outputs = TRI_FALSE;
    r->use_cache = TRI_FALSE;
    tri_default(&r->gradient_checkpointing, true);
    return ERR_OK;
}

/*
 * trainer.py sets it for whatever is no PreTrainedModel (peft's is none), and for what does not checkpoint. A plain loop leaves it. What reentrant
 * checkpoints hide counts as unused, and the step ends in "Expected to mark a variable ready only once" (reducer.cpp): who trains so has set
 * ddp_find_unused_parameters to false.
 */
static bool finds_unused(const struct recipe *r)
{
    if (r->framework != FRAMEWORK_TRANSFORMERS || r->stage == TASK_LF_REWARD) /* LLaMA-Factory's hparams/parser.py, with adapters */
        return false;
    return r->gradient_checkpointing != TRI_TRUE || (r->tuning != TUNING_FULL && r->checkpoint_reentrant == TRI_FALSE);
}

const struct optimizer_row optimizer_rows[OPTIMIZER_COUNT] = {
#define OPTIMIZER(id, kind, paged, under) [OPTIMIZER_##id] = {OPTIM_##kind, paged, OPTIMIZER_UNDER_##under},
#include "train/optimizers.def"
#undef OPTIMIZER
};

static bool takes_no_bf16(enum optim_kind kind)
{
    return kind == OPTIM_BNB_RMSPROP_8BIT || kind == OPTIM_BNB_RMSPROP_32BIT;
}

static bool trains_bf16(const struct recipe *r)
{
    if (r->tuning != TUNING_FULL)
        return r->lora.dtype == LORA_DTYPE_BF16 && !r->upcasts_adapters;
    return r->precision == PRECISION_BF16 || r->precision == PRECISION_BF16_AUTOCAST;
}

/* accelerate 1.15.0 utils/deepspeed.py map_pytorch_optim_to_deepspeed: DeepSpeedCPUAdam stands for what is offloaded, but for these two */
static bool becomes_host_adam(enum optim_kind kind)
{
    return kind != OPTIM_ADAGRAD && kind != OPTIM_BNB_LION_32BIT;
}

static bool takes_flat(enum optimizer_under under)
{
    return under == OPTIMIZER_UNDER_PIECES || under == OPTIMIZER_UNDER_SHARDS;
}

static bool takes_dtensors(enum optimizer_under under)
{
    return under == OPTIMIZER_UNDER_DTENSORS || under == OPTIMIZER_UNDER_SHARDS;
}

/* NULL, or why an optimizer does not run over what a method hands it. */
static const char *optimizer_gap(const struct recipe *r, enum optim_kind kind)
{
    bool dtensors = method_is_fsdp2(r->method) || r->method == METHOD_TP;

    if (dtensors && optim_is_bnb(kind)) /* 0.50.2 over torch 2.15, traced; before its updates were operators it read null pointers: its issue 1633 */
        return "bitsandbytes' optimizers do not run over the DTensors of %s: \"bitsandbytes.optimizer_update_32bit.default does not have a sharding strategy "
               "registered\", in earlier releases an illegal memory access. adamw_torch_8bit (torchao's), or fsdp";
    if (dtensors && kind == OPTIM_ADAFACTOR) /* transformers 4.53.3 and 5.23.0 optimization.py: its factors are no DTensors */
        return "transformers' Adafactor raises over the DTensors of %s: \"aten.add_.Tensor got mixed torch.Tensor and DTensor\". adamw_torch, or fsdp";
    if (kind == OPTIM_MUON && method_is_fsdp1(r->method)) /* torch 2.15 optim/_muon.py */
        return "the flat shards of %s have one dimension, and torch.optim.Muon takes matrices alone: ValueError. adamw_torch, or ddp";
    if (kind == OPTIM_MUON && method_is_zero(r->method)) /* deepspeed 0.19.8 runtime/engine.py */
        return "the engine of %s takes one optimizer, and torch.optim.Muon steps beside AdamW: AssertionError (\"Client Optimizer is of unexpected type\"). "
               "adamw_torch, or ddp";
    if (kind == OPTIM_ADAGRAD && method_is_zero(r->method) && r->method != METHOD_ZERO0) /* runtime/zero/stage_1_and_2.py initialize_optimizer_states() */
        return "DeepSpeed makes torch's Adagrad anew with one group of parameters under %s, where the Trainer has two: IndexError (\"list index out of "
               "range\"). adamw_torch, or ddp";
    return NULL;
}

/* Whole parameters stay whole on one GPU, under DDP and in a pipeline's stage; ZeRO and FSDP1 hand flat tensors over, fully_shard and tensor
 * parallelism DTensors. */
static enum err_code check_optimizer(const struct recipe *r, const struct resolving *c, struct err *err)
{
    const struct optimizer_row *row = &optimizer_rows[r->optimizer];
    enum optimizer_under under = row->under;
    bool whole = r->method == METHOD_SINGLE || r->method == METHOD_DDP || method_is_colossal(r->method); /* the last has its own */
    bool stage = r->method == METHOD_PP && !row->paged; /* plain tensors of a part of the model */
    bool engine = method_is_zero(r->method);
    bool sharded = method_is_fsdp2(r->method) && r->method != METHOD_TP_FSDP2 && !offload_of_states(r->offload);
    bool muon = row->kind == OPTIM_MUON && sharded && r->method != METHOD_HSDP2 && c->defaults.dtensor_products;
    bool flat = (engine || method_is_fsdp1(r->method)) && !offload_of_states(r->offload); /* on the host its states have other sizes */

    if (r->optimizer == OPTIMIZER_ADAMW_HF && !c->defaults.own_adamw)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer", "transformers %s has no adamw_hf, which ended with 4.49: adamw_torch",
                       release_text(r->stack.transformers).text);
    if (r->optimizer == OPTIMIZER_MUON && !c->defaults.muon)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer", "torch %s has no torch.optim.Muon, which came with 2.9: adamw_torch",
                       release_text(r->stack.torch).text);
    if (takes_no_bf16(row->kind) && trains_bf16(r)) /* bitsandbytes 0.50.2 backends/cuda/ops.py str2optimizer32bit */
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer",
                       "bitsandbytes has no RMSprop for gradients in bf16 and raises: precision fp16 or one with fp32 weights");
    if (method_is_fsdp1(r->method) && precision_scales_loss(r->precision) && r->optimizer == OPTIMIZER_ADAMW_TORCH_FUSED && r->framework != FRAMEWORK_TORCH)
        /* torch 2.2.2 to 2.15.0 fsdp/sharded_grad_scaler.py: found_inf has a dimension; optim/adam.py _fused_adam() takes it off steps that have none */
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer",
                       "the fused AdamW raises under FSDP1's ShardedGradScaler (\"output with shape [] doesn't match the broadcast shape [1]\"): adamw_torch");
    if (engine && offload_of_states(r->offload) && r->framework == FRAMEWORK_TRANSFORMERS && becomes_host_adam(row->kind))
        return ERR_OK;
    flat = flat && takes_flat(under) && !optimizer_gap(r, row->kind);
    if (whole || stage || under == OPTIMIZER_UNDER_LOCAL || flat || (sharded && takes_dtensors(under)) || muon)
        return ERR_OK;
    if (row->kind == OPTIM_MUON && sharded)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer",
                       "Muon over the DTensors of %s is modelled for torch 2.15 and a mesh of one dimension: fsdp2 there, single, ddp or pp",
                       method_rows[r->method].name);
    if (r->method == METHOD_PP && row->paged)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer",
                       "paged states of the stages of a pipeline, whose sum a node holds, are not modelled yet: the same optimizer without paged");
    if (optimizer_gap(r, row->kind))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer", optimizer_gap(r, row->kind), method_rows[r->method].name);
    if (takes_flat(under) && (engine || method_is_fsdp1(r->method)))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer",
                       "this optimizer's states on the host are not modelled yet: offload none under %s, or adamw_torch", method_rows[r->method].name);
    return err_set(err, ERR_FIELD_CONFLICT, "/training/optimizer", "this optimizer under %s is not modelled yet: single or ddp%s",
                   method_rows[r->method].name,
                   under == OPTIMIZER_UNDER_PIECES     ? ", zero1, zero2, zero3, fsdp"
                   : under == OPTIMIZER_UNDER_SHARDS   ? ", zero1, zero2, zero3, fsdp, fsdp2 or hsdp2 without offload"
                   : under == OPTIMIZER_UNDER_DTENSORS ? ", fsdp2 or hsdp2 without offload"
                                                       : "");
}

static bool loads_bf16(const struct recipe *r)
{
    return r->precision == PRECISION_BF16 || r->precision == PRECISION_BF16_AUTOCAST;
}

static enum err_code check_packed(const struct recipe *r, struct err *err)
{
    bool wide = method_is_fsdp1(r->method) || method_is_fsdp2(r->method) || r->method == METHOD_ZERO3;

    if (r->tuning != TUNING_QLORA)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/tuning",
                       "the checkpoint is quantised, and its weights are not trained: qlora, or quantization_config null for a copy in 16 bits");
    if (wide && r->checkpoint == CHECKPOINT_PACKED_BYTES)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/methods",
                       "the checkpoint's bnb_4bit_quant_storage is uint8, which %s does not cut with the rest: one whose storage is the compute dtype's",
                       method_rows[r->method].name);
    return ERR_OK;
}

/* transformers 5.23.0 quantizers/auto.py merge_quantization_configs, trainer.py; integrations/mxfp4.py and finegrained_fp8.py by release */
static enum err_code check_checkpoint(const struct recipe *r, const struct resolving *c, const struct quirks *q)
{
    struct release_text have = release_text(c->stack->transformers);

    if (r->checkpoint == CHECKPOINT_PACKED || r->checkpoint == CHECKPOINT_PACKED_BYTES)
        return check_packed(r, c->err);
    if (r->checkpoint != CHECKPOINT_NUMBERS && r->quantization)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/quantization",
                       "the checkpoint is saved in %s, and from_pretrained() raises where another quantization_config is passed: null for that of the "
                       "config is a copy in 16 bits", r->checkpoint == CHECKPOINT_MXFP4 ? "mxfp4" : "fp8");
    if (r->checkpoint == CHECKPOINT_FP8 && !q->fp8_unpacks_as_asked)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "%s gives dequantised fp8 weights the dtype of their scales, where it does at all: 5.11, or quantization_config null for a copy in "
                       "16 bits", have.text);
    if (r->checkpoint == CHECKPOINT_MXFP4 && !q->mxfp4_unpacks_as_asked && !loads_bf16(r))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/precision",
                       "transformers %s dequantises mxfp4 experts to bf16 whatever the rest is loaded in: bf16 or bf16-autocast", have.text);
    return ERR_OK;
}

/* trl 1.16.0 models/activation_offloading.py, trainer/sft_trainer.py training_step */
static enum err_code check_activations(const struct recipe *r, const struct resolving *c)
{
    if (r->offload != OFFLOAD_ACTIVATIONS)
        return ERR_OK;
    if (r->framework != FRAMEWORK_TRANSFORMERS)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/offload",
                       "offload of activations is modelled as TRL's trainers do it: stack.framework transformers");
    if (r->stage != TASK_SFT)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/offload", "offload of activations is modelled for stage sft");
    if (r->quantization && r->method != METHOD_SINGLE && r->method != METHOD_DDP) /* what is quantised stands on the device before anything wraps it */
        return err_set(c->err, ERR_FIELD_CONFLICT, "/training/offload", "offload of activations over quantised weights is modelled on one GPU and under ddp");
    if (!quirks_for(c->stack, c->arch->model_type).bnb_loads_by_name)
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/transformers", "offload of activations is modelled as trl 1.16 has it, beside transformers 5");
    return ERR_OK;
}

static enum err_code check_unused(const struct recipe *r, struct err *err)
{
    if (r->method != METHOD_DDP || r->find_unused_parameters != TRI_TRUE || r->gradient_checkpointing != TRI_TRUE ||
        r->checkpoint_reentrant != TRI_TRUE)
        return ERR_OK;
    return err_set(err, ERR_FIELD_CONFLICT, "/training/find_unused_parameters",
                   "reentrant checkpoints hide parameters from the search: \"Expected to mark a variable ready only once\" (reducer.cpp)");
}

static void degree_default(uint32_t *degree, uint32_t otherwise)
{
    if (!*degree)
        *degree = otherwise;
}

static void elems_default(uint64_t *elems, uint64_t otherwise)
{
    if (*elems == ELEMS_UNSET)
        *elems = otherwise;
}

/* deepspeed runtime/zero/config.py, the same in 0.14.2 and 0.19.8; a JSON with "auto" is resolved before (api/theirs/deepspeed.c). */
static void resolve_zero(struct recipe *r, const struct quirks *q)
{
    struct zero_recipe *z = &r->zero;

    elems_default(&z->reduce_elems, 500000000);
    elems_default(&z->allgather_elems, 500000000);
    elems_default(&z->prefetch_elems, ZERO_PREFETCH_ELEMS);
    elems_default(&z->max_live_elems, 1000000000);
    z->reuse_elems = z->reuse_is_said ? z->reuse_elems : z->max_live_elems;
    z->reuse_is_said = true;
    elems_default(&z->sub_group_elems, 1000000000);
    elems_default(&z->persistence_elems, ZERO_PERSISTENCE_ELEMS);
    tri_default(&z->overlap_comm, r->method == METHOD_ZERO3);
    /* integrations/deepspeed.py: from_pretrained() under HfTrainerDeepSpeedConfig. Where it decides what a step holds, nothing tells in which order a
     * script makes its arguments and its model: then it is not, which holds more. */
    tri_default(&z->zero_init, r->framework == FRAMEWORK_TRANSFORMERS && q->zero3_wraps_linears && !r->quantization); /* nor of quantised weights */
}

static void resolve_fsdp(struct recipe *r, const struct resolving *c)
{
    struct fsdp_recipe *f = &r->fsdp;
    bool units = r->framework == FRAMEWORK_TRANSFORMERS && method_is_fsdp2(r->method) && c->defaults.fsdp2_units;

    if (f->wrap == FSDP_WRAP_UNSET)
        f->wrap = units ? FSDP_WRAP_ACCELERATE : FSDP_WRAP_LAYERS;
    if (f->backward_prefetch == FSDP_PREFETCH_UNSET)
        f->backward_prefetch = FSDP_PREFETCH_PRE;
    if (f->reduce_dtype == REDUCE_UNSET)
        f->reduce_dtype = r->framework == FRAMEWORK_TRANSFORMERS ? REDUCE_AS_COMPUTED : REDUCE_FP32;
    tri_default(&f->forward_prefetch, false);
    tri_default(&f->use_orig_params, true);
    tri_default(&f->limit_all_gathers, true);
    /* accelerate 1.15.0 and 0.29.3 commands/launch.py --fsdp_cpu_ram_efficient_loading; a script of one's own has nobody tell from_pretrained() */
    tri_default(&f->cpu_ram_efficient_loading, r->framework == FRAMEWORK_TRANSFORMERS);
    tri_default(&f->autocast,
                !method_is_fsdp2(r->method) || !precision_is_mixed(r->precision)); /* fully_shard's own policy computes in half */
}

/* DeepSpeed's engine has half weights of its own; fully_shard's mixed precision policy computes in half without autocast. */
static bool autocasts(const struct recipe *r)
{
    if (!precision_autocasts(r->precision) || method_is_zero(r->method) || method_is_colossal(r->method))
        return false;
    return method_is_fsdp1(r->method) || method_is_fsdp2(r->method) ? r->fsdp.autocast == TRI_TRUE : true;
}

bool train_reads_sync(const struct recipe *r)
{
    return r->framework != FRAMEWORK_TRANSFORMERS || !stack_defaults_of(&r->stack).ignores_sync;
}

static void resolve_method(struct step *s, const struct resolving *c)
{
    struct recipe *r = &s->r;

    degree_default(&r->data_parallel, 1);
    degree_default(&r->tensor_parallel, 1);
    degree_default(&r->pipeline_parallel, 1);
    degree_default(&r->shard_group, r->data_parallel);
    resolve_zero(r, &s->quirks);
    resolve_fsdp(r, c);
    if (!r->ddp_bucket_bytes)
        r->ddp_bucket_bytes = (uint64_t)DDP_BUCKET_MIB << 20;
    tri_default(&r->gradient_as_bucket_view, false); /* nn/parallel/distributed.py */
    tri_default(&r->sync_each_batch, false);         /* accelerate utils/dataclasses.py GradientAccumulationPlugin */
    if (!train_reads_sync(r))
        r->sync_each_batch = TRI_FALSE;
    s->autocast = autocasts(r);
    tri_default(&r->find_unused_parameters, finds_unused(r));
    s->find_unused_parameters = r->method == METHOD_DDP && r->find_unused_parameters == TRI_TRUE;
}

/* transformers' flash_attention_2 takes the package from 2.0 on, whatever was current on a stack's day. A plain loop that asks for it and names no
 * release is timed as the published ones are: llm-foundry's, whose kernel is FlashAttention 1's in Triton. */
static enum flash_kernel flash_of(const struct step *s)
{
    if (s->r.attention == ATTENTION_FLASH_3)
        return FLASH_3;
    if (s->r.attention != ATTENTION_FLASH_2)
        return s->quirks.sdpa_is_flash_1 ? FLASH_1 : FLASH_2;
    if (!s->r.flash_attn_named)
        return s->r.framework == FRAMEWORK_TORCH ? FLASH_1 : FLASH_2;
    return s->quirks.package_is_flash_1 ? FLASH_1 : FLASH_2;
}

/* create_selective_checkpoint_contexts: a context of checkpoints that are not reentrant; traced on one GPU, where methods leave products as they are */
static enum err_code check_selective(struct recipe *r, struct err *err)
{
    bool plain = r->method == METHOD_SINGLE || r->method == METHOD_DDP || method_is_zero_whole(r->method) ||
                 (method_is_fsdp2(r->method) && r->method != METHOD_TP_FSDP2);

    if (r->checkpoint_reentrant == TRI_TRUE)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/checkpoint_reentrant", "a reentrant checkpoint takes no context_fn, which selective_op is");
    if (!plain || r->quantization)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/gradient_checkpointing",
                       "selective_op %s%s is not modelled yet: single, ddp, zero1, zero2 or fsdp2, of weights as loaded", r->quantization ? "over " : "under ",
                       r->quantization ? "quantised weights" : method_rows[r->method].name);
    return ERR_OK;
}

/* mamba-ssm's functions take weights of modules that are not called: stage 3 gathers those as external parameters of the mixer. */
static enum err_code check_kernels(const struct resolving *c, const struct recipe *r)
{
    if (r->method == METHOD_ZERO3 && c->stack->mamba_ssm && (stack_kernels(c->arch->model_type) & PACKAGE_BIT(PACKAGE_MAMBA_SSM)))
        return err_set(c->err, ERR_FIELD_CONFLICT, "/stack/mamba_ssm", "mamba-ssm's kernels under zero3 are not modelled yet: zero2, fsdp or fsdp2");
    return ERR_OK;
}

/* torchao 0.18.0 float8/float8_linear_utils.py: convert_to_float8_training() takes nn.Linear; aten::_scaled_mm takes sm_89, by rows sm_90. */
static enum err_code check_float8(const struct recipe *r, const struct device *d, struct err *err)
{
    static const char at[] = "/training/float8";
    unsigned have = 10 * d->cc_major + d->cc_minor, least = r->float8 == FLOAT8_TENSORWISE ? 89 : 90;

    if (r->float8 && have < least)
        return err_set(err, ERR_FIELD_CONFLICT, at, "float8 products take compute capability %u.%u or newer, this GPU has %u.%u: none", least / 10, least % 10,
                       d->cc_major, d->cc_minor);
    if (r->float8 && (r->tuning != TUNING_FULL || r->quantization))
        return err_set(err, ERR_FIELD_CONFLICT, at, "float8 products under adapters are not modelled yet: tuning full, or float8 none");
    if (recipe_is_a_range(r) && method_is_colossal(r->method))
        return err_set(err, ERR_FIELD_CONFLICT, r->compile ? "/training/compile" : at, "Colossal-AI's step is not modelled with it");
    return ERR_OK;
}

/* torchtune 0.6.1 recipes/full_finetune_single_device.py: gradients that are gone after their step are neither summed, clipped nor scaled */
static enum err_code check_in_backward(struct recipe *r, struct err *err)
{
    static const char at[] = "/training/optimizer_in_backward";

    if (r->method != METHOD_SINGLE)
        return err_set(err, ERR_FIELD_CONFLICT, at, "optimizer_in_backward under %s is not modelled yet: single", method_rows[r->method].name);
    if (r->max_grad_norm > 0)
        return err_set(err, ERR_FIELD_CONFLICT, at, "a gradient that is let go of after its step leaves none to clip: max_grad_norm 0");
    if (r->gradient_accumulation_steps > 1)
        return err_set(err, ERR_FIELD_CONFLICT, at, "gradients of several micro-batches are not summed where each is stepped: gradient_accumulation_steps 1");
    if (precision_scales_loss(r->precision))
        return err_set(err, ERR_FIELD_CONFLICT, at, "a GradScaler unscales gradients after backward, where none is left: a precision without one");
    if (r->optimizer == OPTIMIZER_MUON || r->stage != TASK_SFT)
        return err_set(err, ERR_FIELD_CONFLICT, at, "optimizer_in_backward %s is not modelled yet", r->stage != TASK_SFT ? "in this stage" : "with muon");
    return ERR_OK;
}

enum err_code train_resolve(const struct recipe *asked, const struct arch *arch, const struct device *device, struct arena *arena,
                            struct step *ret, struct err *err)
{
    struct resolving c = {arch, device, &asked->stack, stack_defaults_of(&asked->stack), arena, err};
    struct step s = {.r = *asked};
    enum err_code rc;

    rc = check_class(&c);
    if (!rc)
        rc = check_head(asked, &c);
    if (rc)
        return rc;
    rc = resolve_colossal(&s.r, err);
    if (rc)
        return rc;
    if (s.r.precision == PRECISION_UNSET)
        s.r.precision = precision_default(&s.r, &c);
    resolve_upcast(&s.r, &c);
    if (arch->encoder && s.r.stage == TASK_SFT)
        s.r.stage = task_of_architecture(arch->architecture);
    resolve_batch(&s.r, arch);
    resolve_loop(&s.r, &c);
    if (s.r.gradient_checkpointing == TRI_TRUE && arch->never_checkpoints) /* modeling_utils.py, activation_checkpointing_enable() */
        return err_set(err, ERR_FIELD_CONFLICT, "/training/gradient_checkpointing",
                       "the model's class has no supports_gradient_checkpointing: transformers raises");
    if (s.r.checkpoint_kind == CHECKPOINT_SELECTIVE && check_selective(&s.r, err))
        return err->code;
    if (s.r.checkpoint_kind == CHECKPOINT_SECOND && s.r.gradient_checkpointing == TRI_TRUE && !quirks_for(c.stack, arch->model_type).checkpoints_every_n)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/gradient_checkpointing", "transformers %s checkpoints every layer: every_n_layers came with 5.16",
                       release_text(c.stack->transformers).text);
    if (s.r.tuning != TUNING_FULL && arch->never_adapts) /* peft/peft_model.py, PeftModelForCausalLM.__init__ */
        return err_set(err, ERR_FIELD_CONFLICT, "/training/tuning",
                       "the model's class has no prepare_inputs_for_generation, which peft asks for: derive it from GenerationMixin");
    s.capability = 10 * device->cc_major + device->cc_minor;
    s.quirks = quirks_for(&asked->stack, arch->model_type);
    rc = resolve_stage(&s.r, &c);
    if (!rc)
        rc = resolve_mask(&s.r, err);
    if (!rc)
        rc = resolve_attention(&s.r, &c);
    if (!rc)
        resolve_cudnn(&s.r, &s.quirks, device);
    if (!rc)
        rc = resolve_lora(&s.r, &c);
    if (!rc)
        rc = check_checkpoint(&s.r, &c, &s.quirks);
    if (!rc)
        rc = check_unused(&s.r, err);
    if (!rc)
        rc = check_engine(&s.r, &s.quirks, err);
    if (!rc)
        rc = check_optimizer(&s.r, &c, err);
    if (!rc)
        rc = check_activations(&s.r, &c);
    if (!rc)
        rc = check_float8(&s.r, device, err);
    if (!rc)
        rc = check_kernels(&c, &s.r);
    if (!rc && s.r.optimizer_in_backward)
        rc = check_in_backward(&s.r, err);
    if (rc)
        return rc;
    resolve_method(&s, &c);
    s.flash = flash_of(&s);
    *ret = s;
    return ERR_OK;
}
