#include "tests/support/traced.h"

#include "stack/defaults.h"
#include "stack/release.h"
#include "tuning/targets.h"

#include <string.h>

const struct stack traced_new = {2015, 5023, 21, 1015, 50, 19, 2008, 8, 0, 0, 0}, traced_old = {2002, 4040, 10, 29, 43, 14, 2005, 6, 0, 0, 0};
const struct device traced_device = {8, 0, 108, 2048, false, UINT64_C(84974239744), 0, false, false};

bool traced_stack(const char *text, struct stack *ret)
{
    static const enum package order[] = {PACKAGE_TORCH, PACKAGE_TRANSFORMERS, PACKAGE_PEFT, PACKAGE_ACCELERATE, PACKAGE_BITSANDBYTES};
    struct stack s = {0};
    struct err err;

    if (!strcmp(text, "new") || !strcmp(text, "2.15")) {
        *ret = traced_new;
        return true;
    }
    if (!strcmp(text, "old") || !strcmp(text, "2.2")) {
        *ret = traced_old;
        return true;
    }
    for (unsigned i = 0; *text; i++) {
        size_t n = strcspn(text, "/");
        char one[16];

        if (i == sizeof order / sizeof *order || n >= sizeof one)
            return false;
        memcpy(one, text, n);
        one[n] = 0;
        if (stack_name(&s, order[i], one, &err))
            return false;
        text += n + (text[n] == '/');
    }
    if (!s.torch || !s.transformers || stack_complete(&s, &err))
        return false;
    *ret = s;
    return true;
}

struct name {
    const char *name;
    int value;
};

static const struct name precisions[] = {
    {"bf16", PRECISION_BF16}, {"bf16-autocast", PRECISION_BF16_AUTOCAST}, {"bf16-mixed", PRECISION_BF16_MIXED},
    {"fp16", PRECISION_FP16}, {"fp16-autocast", PRECISION_FP16_AUTOCAST}, {"fp16-mixed", PRECISION_FP16_MIXED},
    {"fp32", PRECISION_FP32}, {NULL, 0},
};
static const struct name attentions[] = {
    {"sdpa", ATTENTION_SDPA}, {"eager", ATTENTION_EAGER}, {"flash_attention_2", ATTENTION_FLASH_2}, {NULL, 0},
};
static const struct name optimizers[] = {
    {"adamw_torch", OPTIMIZER_ADAMW_TORCH}, {"adamw_torch_fused", OPTIMIZER_ADAMW_TORCH_FUSED},
    {"adamw_torch_loop", OPTIMIZER_ADAMW_TORCH_LOOP}, {"sgd", OPTIMIZER_SGD}, {"paged_adamw_8bit", OPTIMIZER_BNB_ADAMW_8BIT_PAGED}, {NULL, 0},
};
static const struct name tunings[] = {{"full", TUNING_FULL}, {"lora", TUNING_LORA}, {"qlora", TUNING_QLORA}, {NULL, 0}};
static const struct name quantizations[] = {{"none", KBIT_NONE}, {"int8", KBIT_INT8}, {"nf4", KBIT_NF4}, {"nf4-dq", KBIT_NF4_DQ}, {NULL, 0}};
static const struct name lora_dtypes[] = {{"fp32", LORA_DTYPE_FP32}, {"bf16", LORA_DTYPE_BF16}, {NULL, 0}};

/* The first name stands for what is left out; -1: not one of them. */
static int word(const struct json *o, const char *key, const struct name *names)
{
    const char *s = json_str(json_get(o, key));

    if (!s)
        return names[0].value;
    for (; names->name; names++)
        if (!strcmp(names->name, s))
            return names->value;
    return -1;
}

static double number(const struct json *o, const char *key, double otherwise)
{
    (void)json_number(json_get(o, key), &otherwise);
    return otherwise;
}

static enum tri flag(const struct json *o, const char *key, enum tri otherwise)
{
    bool b;

    return json_bool(json_get(o, key), &b) ? b ? TRI_TRUE : TRI_FALSE : otherwise;
}

static const char *default_lora(const struct arch *arch, struct recipe *r)
{
    struct default_targets d;

    if (!targets_default(arch->model_type, r->stack.peft, &d) || d.pattern)
        return "no default targets";
    r->lora.targets = d.modules;
    r->lora.n_targets = d.n;
    return NULL;
}

static const char *lora(const struct json *o, const struct arch *arch, const char *targets[TRACED_TARGETS], struct recipe *r)
{
    const struct json *l = json_get(o, "lora"), *given = json_get(l, "target_modules");

    r->lora.rank = (uint32_t)number(l, "rank", 16);
    r->lora.alpha = number(l, "alpha", 0);
    r->lora.dropout = number(l, "dropout", 0);
    r->lora.dtype = (enum lora_dtype)word(l, "dtype", lora_dtypes);
    r->lora.all_linear = json_str(given) && !strcmp(json_str(given), "all-linear");
    if (r->lora.all_linear)
        return NULL;
    if (json_type(given) != JSON_ARRAY)
        return default_lora(arch, r);
    json_each(t, given) {
        if (r->lora.n_targets == TRACED_TARGETS)
            return "too many targets";
        targets[r->lora.n_targets++] = json_str(t);
    }
    r->lora.targets = targets;
    json_each(t, json_get(l, "target_parameters")) {
        if (r->lora.n_targets + r->lora.n_parameters == TRACED_TARGETS)
            return "too many targets";
        targets[r->lora.n_targets + r->lora.n_parameters++] = json_str(t);
    }
    r->lora.parameters = targets + r->lora.n_targets;
    return NULL;
}

/* Asked for nothing, a class without SDPA takes eager attention. */
static enum attention attention_of(int asked, const struct arch *arch, const struct stack *stack)
{
    unsigned offers = arch->offers ? arch->offers : stack_class_attention(arch->model_type, stack);

    return asked == ATTENTION_SDPA && !(offers & (CLASS_SDPA | CLASS_SDPA_IF_ASKED)) ? ATTENTION_EAGER : (enum attention)asked;
}

static void stage(const struct json *options, struct recipe *r)
{
    for (int i = 0; i < TASK_COUNT; i++)
        if (json_str(json_get(options, "stage")) && !strcmp(json_str(json_get(options, "stage")), tasks[i].stage))
            r->stage = (enum task_id)i;
}

const char *traced_step(const struct json *options, const struct arch *arch, const struct stack *stack, const char *targets[TRACED_TARGETS],
                        struct step *ret)
{
    struct recipe *r = &ret->r;
    int precision = word(options, "precision", precisions), attention = word(options, "attention", attentions),
        optimizer = word(options, "optimizer", optimizers), tuning = word(options, "tuning", tunings);
    const char *weights = json_str(json_get(options, "weights_dtype")), *loop = json_str(json_get(options, "train_loop"));
    bool is_plain = loop && !strcmp(loop, "plain"); /* the newer Trainer turns the cache off */
    struct stack_defaults defaults = stack_defaults_of(stack);

    *ret = (struct step){0};
    r->stack = *stack;
    ret->quirks = quirks_for(&r->stack, arch->model_type);
    if (json_str(json_get(options, "attention_used")))
        attention = word(options, "attention_used", attentions);
    if (precision < 0 || attention < 0 || optimizer < 0 || tuning < 0)
        return "an unknown precision, attention, optimizer or tuning";
    r->seq_len_tokens = (uint32_t)number(options, "seq_len", 1024);
    r->micro_batch_size = (uint32_t)number(options, "micro_batch_size", 1);
    r->gradient_accumulation_steps = (uint32_t)number(options, "gradient_accumulation_steps", 1);
    stage(options, r);
    r->reference = tasks[r->stage].refers ? REFERENCE_COPY : REFERENCE_UNSET;
    if (json_str(json_get(options, "offload")) && !strcmp(json_str(json_get(options, "offload")), "activations"))
        r->offload = OFFLOAD_ACTIVATIONS;
    r->precision = (enum precision)precision;
    if (precision == PRECISION_BF16_MIXED && weights && !strcmp(weights, "bf16"))
        r->precision = PRECISION_BF16_AUTOCAST;
    if (precision == PRECISION_FP16_MIXED && weights && !strcmp(weights, "fp16"))
        r->precision = PRECISION_FP16_AUTOCAST;
    ret->autocast = precision_autocasts(r->precision);
    r->gradient_checkpointing = flag(options, "gradient_checkpointing", TRI_FALSE);
    r->checkpoint_reentrant = flag(options, "use_reentrant", defaults.reentrant ? TRI_TRUE : TRI_FALSE);
    r->use_cache = flag(options, "use_cache", (!defaults.cache_off || is_plain) && arch->use_cache ? TRI_TRUE : TRI_FALSE);
    r->keep_outputs = TRI_FALSE;
    r->attention = attention_of(attention, arch, stack);
    r->padded = flag(options, "padded", TRI_FALSE) == TRI_TRUE;
    r->attention_mask = flag(options, "attention_mask", TRI_TRUE);
    r->max_grad_norm = number(options, "max_grad_norm", 1);
    r->optimizer = (enum optimizer)optimizer;
    r->tuning = (enum tuning)tuning;
    r->quantization = (enum kbit)word(options, "quantization", quantizations);
    if (r->quantization && flag(options, "prepare_kbit", TRI_TRUE) == TRI_TRUE)
        r->prepare_kbit = flag(options, "trl_cast", TRI_FALSE) == TRI_TRUE ? KBIT_PREPARE_TRL : KBIT_PREPARE_PEFT;
    return tuning == TUNING_FULL ? NULL : lora(options, arch, targets, r);
}

/* Base weights of adapters are in half whatever the suffix says; `autocast` is what a mixed precision means here. */
static enum precision traced_precision(const struct json *o, bool lora_on)
{
    enum precision p = json_str(json_get(o, "precision")) ? (enum precision)word(o, "precision", precisions) : PRECISION_BF16_MIXED;

    if (flag(o, "autocast", TRI_FALSE) == TRI_TRUE && p == PRECISION_BF16)
        return PRECISION_BF16_AUTOCAST;
    if (lora_on && p == PRECISION_BF16_MIXED)
        return PRECISION_BF16_AUTOCAST;
    return lora_on && p == PRECISION_FP16_MIXED ? PRECISION_FP16_AUTOCAST : p;
}

static const struct name offloads[] = {
    {"none", OFFLOAD_NONE}, {"optimizer", OFFLOAD_OPTIMIZER}, {"optimizer+params", OFFLOAD_OPTIMIZER_PARAMS}, {NULL, 0},
};

/* What DeepSpeed's engine is told. */
static void zero(const struct json *o, struct recipe *r)
{
    double reduce;

    r->offload = (enum offload)word(o, "offload", offloads);
    r->rank = (uint32_t)number(o, "rank", 0);
    r->zero.reduce_elems = json_number(json_get(json_get(o, "buckets"), "reduce_elems"), &reduce) ? (uint64_t)reduce : ELEMS_UNSET;
    r->zero.allgather_elems = r->zero.prefetch_elems = r->zero.max_live_elems = r->zero.sub_group_elems = r->zero.persistence_elems = ELEMS_UNSET;
    r->zero.overlap_comm = flag(o, "overlap_comm", TRI_UNSET);
    r->zero.zero_init = TRI_FALSE; /* models are made before the engine */
}

static const struct name wraps[] = {
    {"layers", FSDP_WRAP_LAYERS}, {"titan", FSDP_WRAP_TITAN}, {"accelerate", FSDP_WRAP_ACCELERATE}, {NULL, 0},
};
static const struct name prefetches[] = {{"pre", FSDP_PREFETCH_PRE}, {"post", FSDP_PREFETCH_POST}, {"none", FSDP_PREFETCH_NONE}, {NULL, 0}};
static const struct name reductions[] = {{"fp32", REDUCE_FP32}, {"bf16", REDUCE_BF16}, {NULL, 0}};

/* What FSDP is told, and how many ranks cut layers. */
static void sharding(const struct json *o, struct recipe *r)
{
    r->fsdp = (struct fsdp_recipe){
        .wrap = (enum fsdp_wrap)word(o, "wrap", wraps),
        .backward_prefetch = (enum fsdp_prefetch)word(o, "backward_prefetch", prefetches),
        .reduce_dtype = (enum half_or_full)word(o, "reduce_dtype", reductions),
        .forward_prefetch = flag(o, "forward_prefetch", TRI_UNSET),
        .use_orig_params = flag(o, "use_orig_params", TRI_UNSET),
        .limit_all_gathers = flag(o, "limit_all_gathers", TRI_UNSET),
        .autocast = flag(o, "autocast", TRI_UNSET),
    };
    r->shard_group = (uint32_t)number(o, "shard_group", 0);
    r->tensor_parallel = (uint32_t)number(o, "tensor_parallel", 1);
    if (r->method == METHOD_TP)
        r->tensor_parallel = r->data_parallel;
    r->data_parallel /= r->method == METHOD_TP || r->method == METHOD_TP_FSDP2 ? r->tensor_parallel : 1;
    if (r->shard_group > r->data_parallel || (r->method != METHOD_HSDP && r->method != METHOD_HSDP2))
        r->shard_group = r->data_parallel;
}

static enum method method_of(const struct json *o)
{
    const char *name = json_str(json_get(o, "method"));
    enum method m = name ? method_named(name) : METHOD_COUNT;

    return m < METHOD_COUNT ? m : METHOD_DDP;
}

const char *traced_ddp_recipe(const struct json *options, const struct arch *arch, const struct stack *stack, const char *targets[TRACED_TARGETS],
                              struct recipe *ret)
{
    struct recipe *r = ret;
    int attention = word(options, "attention", attentions), optimizer = word(options, "optimizer", optimizers),
        tuning = word(options, "tuning", tunings);
    const char *loop = json_str(json_get(options, "loop"));

    *ret = (struct recipe){.method = method_of(options), .stack = *stack};
    if (attention < 0 || optimizer < 0 || tuning < 0)
        return "an unknown attention, optimizer or tuning";
    r->framework = loop && !strcmp(loop, "trainer") ? FRAMEWORK_TRANSFORMERS : FRAMEWORK_TORCH;
    r->data_parallel = (uint32_t)number(options, "world_size", 8);
    r->ddp_bucket_bytes = (uint64_t)number(options, "ddp_bytes", 0);
    r->gradient_as_bucket_view = flag(options, "gradient_as_bucket_view", TRI_UNSET);
    r->sync_each_batch = flag(options, "no_sync", TRI_TRUE) == TRI_TRUE ? TRI_FALSE : TRI_TRUE;
    r->seq_len_tokens = (uint32_t)number(options, "seq_len", 1024);
    r->micro_batch_size = (uint32_t)number(options, "micro_batch_size", 1);
    r->gradient_accumulation_steps = (uint32_t)number(options, "gradient_accumulation_steps", 1);
    r->precision = traced_precision(options, tuning == TUNING_LORA);
    r->gradient_checkpointing = flag(options, "gradient_checkpointing", TRI_FALSE);
    r->checkpoint_reentrant = flag(options, "checkpoint_reentrant", stack_defaults_of(stack).reentrant ? TRI_TRUE : TRI_FALSE);
    r->use_cache = flag(options, "use_cache", TRI_FALSE);
    if (r->framework == FRAMEWORK_TORCH)
        r->keep_outputs = flag(options, "drop_outputs", TRI_FALSE) == TRI_TRUE ? TRI_FALSE : TRI_TRUE;
    r->attention = attention_of(attention, arch, stack);
    r->padded = flag(options, "padded", TRI_FALSE) == TRI_TRUE;
    r->attention_mask = flag(options, "attention_mask", TRI_TRUE);
    r->max_grad_norm = number(options, "gradient_clipping", 1);
    r->optimizer = (enum optimizer)optimizer;
    r->tuning = (enum tuning)tuning;
    zero(options, r);
    sharding(options, r);
    stage(options, r);
    if (method_is_fsdp2(r->method) && flag(options, "autocast", TRI_FALSE) == TRI_FALSE)
        r->precision = (enum precision)word(options, "precision", precisions) == PRECISION_BF16 ? PRECISION_BF16 : PRECISION_BF16_MIXED;
    return tuning == TUNING_LORA ? lora(options, arch, targets, r) : NULL;
}
