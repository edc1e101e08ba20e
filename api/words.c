#include "api/words.h"

#include "plan/plan.h"

#include <string.h>

/* Known, accepted, not modelled yet. */
#define LATER(...) {__VA_ARGS__, WORD_UNMODELLED, NULL}
#define LATER_TOO(name, also) {name, WORD_UNMODELLED, also}

const struct word workload_words[] = {{"finetune", 0, "fine-tune|finetuning|training"}, LATER("inference"), {0}};

const struct word tuning_words[] = {
    {"full", TUNING_FULL, NULL},
    {"lora", TUNING_LORA, NULL},
    LATER("qlora"),
    {0},
};

const struct word quantization_words[] = {
    {"none", 0, NULL}, LATER_TOO("int8", "8bit|llm.int8"), LATER_TOO("nf4", "int4|4bit"), LATER_TOO("nf4-dq", "nf4-double-quant"),
    LATER("gptq4"),    LATER("gptq8"),                     LATER("awq4"),                 {0},
};

const struct word prepare_kbit_words[] = {{"none", 0, NULL}, LATER("peft"), LATER("trl"), {0}};

const struct word precision_words[] = {
    {"bf16", PRECISION_BF16, "bfloat16"},
    {"bf16-autocast", PRECISION_BF16_AUTOCAST, "bfloat16-autocast"},
    {"bf16-mixed", PRECISION_BF16_MIXED, "bfloat16-mixed"},
    {"fp16", PRECISION_FP16, "float16|half"},
    {"fp16-autocast", PRECISION_FP16_AUTOCAST, "float16-autocast"},
    {"fp16-mixed", PRECISION_FP16_MIXED, "float16-mixed"},
    {"fp32", PRECISION_FP32, "float32|float"},
    {0},
};

const struct word float8_words[] = {{"none", 0, NULL}, LATER("tensorwise"), LATER("rowwise"), LATER("rowwise_with_gw_hp"), LATER("mxfp8"), {0}};

/* OptimizerNames of transformers training_args.py, 4.40.0 and 5.23.0. */
const struct word optimizer_words[] = {
    {"adamw_torch", OPTIMIZER_ADAMW_TORCH, "adamw"},
    {"adamw_torch_fused", OPTIMIZER_ADAMW_TORCH_FUSED, "fused_adamw"},
    {"sgd", OPTIMIZER_SGD, NULL},
    LATER("adamw_hf"),
    LATER("adamw_torch_xla"),
    LATER("adamw_torch_npu_fused"),
    LATER("adamw_apex_fused"),
    LATER("adamw_anyprecision"),
    LATER("adamw_torch_4bit"),
    LATER("adamw_torch_8bit"),
    LATER("adafactor"),
    LATER("ademamix"),
    LATER("ademamix_8bit"),
    LATER("adagrad"),
    LATER_TOO("adamw_bnb_8bit", "adamw_8bit"),
    LATER_TOO("lion_32bit", "lion"),
    LATER("lion_8bit"),
    LATER_TOO("paged_adamw_32bit", "paged_adamw"),
    LATER("paged_adamw_8bit"),
    LATER_TOO("paged_ademamix_32bit", "paged_ademamix"),
    LATER("paged_ademamix_8bit"),
    LATER_TOO("paged_lion_32bit", "paged_lion"),
    LATER("paged_lion_8bit"),
    LATER("rmsprop"),
    LATER("rmsprop_bnb"),
    LATER("rmsprop_bnb_8bit"),
    LATER("rmsprop_bnb_32bit"),
    LATER("galore_adamw"),
    LATER("galore_adamw_8bit"),
    LATER("galore_adafactor"),
    LATER("galore_adamw_layerwise"),
    LATER("galore_adamw_8bit_layerwise"),
    LATER("galore_adafactor_layerwise"),
    LATER("lomo"),
    LATER("adalomo"),
    LATER("grokadamw"),
    LATER("schedule_free_radam"),
    LATER("schedule_free_adamw"),
    LATER("schedule_free_sgd"),
    LATER("apollo_adamw"),
    LATER("apollo_adamw_layerwise"),
    LATER("stable_adamw"),
    {0},
};

const struct word checkpointing_words[] = {
    {"false", TRI_FALSE, "none|off"}, {"true", TRI_TRUE, "full|on"}, LATER_TOO("selective_op", "selective"), LATER("every_2nd_layer"), {0},
};

const struct word attention_words[] = {
    {"sdpa", ATTENTION_SDPA, NULL},
    {"eager", ATTENTION_EAGER, NULL},
    {"flash_attention_2", ATTENTION_FLASH_2, "flash_attn_2|fa2"},
    {0},
};

const struct word loss_words[] = {{"hf", 0, NULL}, LATER("liger"), LATER("chunked"), LATER_TOO("cut_cross_entropy", "cce"), {0}};

const struct word liger_words[] = {
    LATER("rope"), LATER("rms_norm"), LATER("swiglu"), LATER("geglu"), LATER("layer_norm"), LATER("cross_entropy"), LATER("fused_linear_cross_entropy"), {0},
};

const struct word reduce_words[] = {{"fp32", 0, "float32"}, {"bf16", 0, "bfloat16"}, {0}};
const struct word wrap_words[] = {{"layers", 0, NULL}, {"titan", 0, NULL}, {"accelerate", 0, NULL}, {0}};
const struct word prefetch_words[] = {{"pre", 0, "BACKWARD_PRE"}, {"post", 0, "BACKWARD_POST"}, {"none", 0, "NO_PREFETCH"}, {0}};

const struct word offload_words[] = {
    {"none", 0, NULL}, LATER("optimizer"), LATER("optimizer+params"), LATER("activations"), LATER("optimizer+params+activations"), {0},
};

const struct word lora_dtype_words[] = {
    {"fp32", LORA_DTYPE_FP32, "float32"}, {"bf16", LORA_DTYPE_BF16, "bfloat16"}, {"fp16", LORA_DTYPE_FP16, "float16|half"}, {0},
};
const struct word target_words[] = {{"all-linear", 0, NULL}, {0}};

const struct word weights_words[] = {
    {"bf16", 0, "bfloat16"}, {"fp16", 0, "float16|half"}, {"fp32", 0, "float32"}, {"int8", 0, NULL},  {"nf4", 0, NULL}, {"nf4-dq", 0, NULL},
    {"fp4", 0, NULL},        {"gptq4", 0, NULL},          {"gptq8", 0, NULL},     {"awq4", 0, NULL}, {"fp8", 0, NULL}, {0},
};
const struct word compute_words[] = {{"bf16", 0, "bfloat16"}, {"fp16", 0, "float16|half"}, {"fp32", 0, "float32"}, {0}};
const struct word kv_cache_words[] = {{"bf16", 0, "bfloat16|fp16|float16"}, {"fp8", 0, "float8_e4m3fn"}, {0}};
const struct word engine_words[] = {{"transformers", 0, "hf"}, {"vllm", 0, NULL}, {0}};

const struct word framework_words[] = {
    {"transformers", FRAMEWORK_TRANSFORMERS, "hf|trainer"}, {"torch", FRAMEWORK_TORCH, "pytorch"}, LATER("deepspeed"), LATER("torchtitan"),
    LATER("torchtune"), LATER("litgpt"), LATER("colossalai"), LATER("megatron"), LATER("composer"), {0},
};

const struct word objective_words[] = {
    {"fastest", OBJECTIVE_FASTEST, NULL},
    {"least_memory", OBJECTIVE_LEAST_MEMORY, NULL},
    {"fewest_gpus", OBJECTIVE_FEWEST_GPUS, NULL},
    {"longest_sequence", OBJECTIVE_LONGEST_SEQUENCE, NULL},
    {0},
};

const struct word llmem_words[] = {{"paper", 0, NULL}, {"repository", 0, "repo"}, {0}};

/* Links within and between nodes. Not modelled: one GPU sends nothing. */
const struct word link_words[] = {
    LATER("pcie3"), LATER("pcie4"), LATER("pcie4-x8"), LATER("pcie4-noP2P"), LATER("pcie5"), LATER("pcie6"), LATER("nvlink"),
    LATER("nvlink1"), LATER("nvlink2"), LATER("nvlink2-bridge"), LATER("nvlink3"), LATER("nvlink3-pair"),
    LATER("nvlink3-bridge"), LATER("nvlink4"), LATER("nvlink4-sharp"), LATER("nvlink4-bridge"), LATER("nvlink4-h800"),
    LATER("nvlink5"), LATER("nvlink5-sharp"), LATER("nvlink5-nvl72"), LATER("nvlink-c2c"), LATER("xgmi-mi250x"),
    LATER("xgmi-mi300x"), LATER("xgmi-mi355x"), LATER("ib-edr"), LATER("ib-hdr100"), LATER("ib-hdr"), LATER("ib-ndr"),
    LATER("ib-ndr200"), LATER("ib-xdr"), LATER("roce-100"), LATER("roce-200"), LATER("roce-400"), LATER("ethernet-1g"),
    LATER("ethernet-10g"), LATER("ethernet-25g"), LATER("ethernet-100g"), LATER("slingshot-11"),
    LATER("slingshot-11-gh200-2n"), LATER("slingshot-11-fallback"), LATER("slingshot-11-mi250x"), LATER("efa-v1"),
    LATER("efa-v2"), LATER("efa-v3"), LATER("efa-v4"), LATER("tcpx"), LATER("tcpxo"), LATER("omnipath-100"),
    LATER("generic-4-node"), {0},
};

/* --- methods ------------------------------------------------------------------------------------------------------------------ */

const struct method_part method_parts[] = {
    {{"single", METHOD_SINGLE, NULL}, 0},
    {LATER("ddp"), 5},
    {LATER_TOO("zero0", "z0"), 5},
    {LATER_TOO("zero1", "z1"), 5},
    {LATER_TOO("zero2", "z2"), 5},
    {LATER_TOO("zero3", "z3"), 5},
    {LATER_TOO("fsdp", "FULL_SHARD|fsdp1"), 5},
    {LATER_TOO("fsdp_grad_op", "SHARD_GRAD_OP"), 5},
    {LATER_TOO("fsdp_no_shard", "NO_SHARD"), 5},
    {LATER_TOO("hsdp", "HYBRID_SHARD"), 5},
    {LATER("fsdp2"), 5},
    {LATER("fsdp2_noreshard"), 5},
    {LATER("hsdp2"), 5},
    {LATER("tp"), 1},
    {LATER("pp"), 2},
    {LATER("cp"), 3},
    {LATER("ep"), 4},
    {LATER("llmem_cdp"), 0},
    {LATER("llmem_adp"), 0},
    {LATER("llmem_tp"), 0},
    {LATER("llmem_dptp"), 0},
    {{0}, 0},
};

static const struct method_part *part_find(const char *text, size_t bytes)
{
    for (const struct method_part *p = method_parts; p->word.name; p++) {
        struct word one[] = {p->word, {0}};

        if (word_find(one, text, bytes) >= 0)
            return p;
    }
    return NULL;
}

/* "TP + pp+Zero_1" -> "tp+pp+zero1". */
static enum err_code read_method(struct decoding *d, const struct json *v, const char **ret)
{
    const char *text = json_str(v);
    char name[96] = "";
    unsigned rank = 0, parts = 0;

    if (!text)
        return decode_fail(d, ERR_FIELD_TYPE, "must be a method's name or a list of them, not %s", json_type_name(json_type(v)));
    for (const char *p = text;; parts++) {
        size_t n = strcspn(p, "+");
        const struct method_part *part = part_find(p, n);

        if (!part || parts == 5)
            return decode_fail(d, ERR_FIELD_VALUE, "'%.40s' is no method; GET /methods lists them", text);
        if (parts && (!part->rank || !rank || part->rank <= rank))
            return decode_fail(d, ERR_FIELD_VALUE, "'%.40s': a composed method is its parts in the order tp+pp+cp+ep+ and one data-parallel part", text);
        rank = part->rank;
        if (parts)
            strcat(name, "+");
        strcat(name, part->word.name); /* five of at most 16 letters */
        if (!p[n])
            break;
        p += n + 1;
    }
    *ret = arena_str(d->arena, name, strlen(name));
    return *ret ? ERR_OK : decode_fail(d, ERR_NOMEM, "no room for the request");
}

static enum err_code add_method(struct decoding *d, const struct json *v, struct methods *m)
{
    const char *name = NULL;
    enum err_code rc = read_method(d, v, &name);

    if (rc)
        return rc;
    for (unsigned i = 0; i < m->n; i++)
        if (!strcmp(m->v[i], name))
            return ERR_OK;
    if (m->n == METHODS_MAX)
        return decode_fail(d, ERR_FIELD_RANGE, "at most %d methods", (int)METHODS_MAX);
    m->v[m->n++] = name;
    return ERR_OK;
}

enum err_code methods_read(struct decoding *d, const struct json *v, void *at)
{
    struct methods *m = at;
    enum err_code rc = ERR_OK;

    if (json_type(v) != JSON_ARRAY)
        return add_method(d, v, m);
    if (!json_count(v))
        return decode_fail(d, ERR_FIELD_RANGE, "must name at least one; leave it out for the planner's choice");
    json_each(e, v) {
        rc = add_method(d, e, m);
        if (rc)
            break;
    }
    return rc;
}

void methods_write(struct jsonw *w, const char *key, const void *at)
{
    const struct methods *m = at;

    if (!m->n)
        return;
    jsonw_array(w, key);
    for (unsigned i = 0; i < m->n; i++)
        jsonw_str(w, NULL, m->v[i]);
    jsonw_end(w);
}
