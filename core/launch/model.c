/* What the script gives from_pretrained() and peft. Source: transformers 5.23.0 and 4.40.0 modeling_utils.py from_pretrained,
 * distributed/configuration_utils.py; peft 0.21.2 tuners/lora/config.py. */
#include "launch/launch.h"

#include "stack/defaults.h"
#include "tuning/narrow.h"

static const char *dtype_name(enum precision p)
{
    switch (p) {
    case PRECISION_BF16:
    case PRECISION_BF16_AUTOCAST:
        return "bfloat16";
    case PRECISION_FP16:
    case PRECISION_FP16_AUTOCAST:
        return "float16";
    default:
        return "float32";
    }
}

/* DeepSpeed's engine casts what it is given to its own dtype and makes the fp32 master of that. */
static const char *loaded_dtype(const struct launch *l)
{
    return launch_has_deepspeed(l) && launch_half(l) ? l->step->r.precision == PRECISION_FP16_MIXED ? "float16" : "bfloat16"
                                                     : dtype_name(l->step->r.precision);
}

static void write_distributed(struct jsonw *w, const struct recipe *r)
{
    jsonw_object(w, "distributed_config");
    jsonw_u64(w, "tp_size", r->tensor_parallel);
    jsonw_end(w);
}

/* BitsAndBytesConfig as a dictionary: utils/quantization_config.py; weights are quantised on the device that they are to stand on */
static void write_quantization(struct jsonw *w, const struct recipe *r)
{
    const char *computed = dtype_name(r->precision == PRECISION_BF16_MIXED   ? PRECISION_BF16
                                      : r->precision == PRECISION_FP16_MIXED ? PRECISION_FP16
                                                                             : r->precision);

    if (!kbit_is_bnb(r->quantization)) /* its own config.json says it */
        return;
    jsonw_object(w, "quantization_config");
    jsonw_str(w, "quant_method", "bitsandbytes");
    jsonw_bool(w, r->quantization == KBIT_INT8 ? "load_in_8bit" : "load_in_4bit", true);
    if (r->quantization == KBIT_INT8) {
        jsonw_end(w);
        return;
    }
    jsonw_str(w, "bnb_4bit_quant_type", r->quantization == KBIT_FP4 ? "fp4" : "nf4");
    jsonw_bool(w, "bnb_4bit_use_double_quant", r->quantization == KBIT_NF4_DQ);
    jsonw_str(w, "bnb_4bit_compute_dtype", computed);
    if (method_is_fsdp1(r->method) || method_is_fsdp2(r->method) || r->method == METHOD_ZERO3) /* what is flattened or cut with the rest has its dtype */
        jsonw_str(w, "bnb_4bit_quant_storage", computed);
    jsonw_end(w);
}

const char *launch_torchao(enum kbit k)
{
    return k == KBIT_TORCHAO_NF4 ? "NF4WeightOnlyConfig" : "Int8WeightOnlyConfig";
}

const char *launch_unpacks(const struct launch *l)
{
    enum checkpoint_form form = l->step->r.checkpoint;

    return form == CHECKPOINT_MXFP4 ? "Mxfp4Config" : form == CHECKPOINT_FP8 ? "FineGrainedFP8Config" : NULL;
}

void launch_model_arguments(struct jsonw *w, const char *name, const struct launch *l)
{
    const struct recipe *r = &l->step->r;
    struct stack_defaults d = stack_defaults_of(&r->stack);

    jsonw_object(w, name);
    jsonw_str(w, d.dtype_argument ? "dtype" : "torch_dtype", loaded_dtype(l));
    jsonw_str(w, "attn_implementation", l->attention);
    if (!d.cache_off) /* of config.json; later releases take it from TrainingArguments */
        jsonw_bool(w, "use_cache", r->use_cache == TRI_TRUE);
    if (r->quantization)
        write_quantization(w, r);
    if (r->tensor_parallel > 1)
        write_distributed(w, r);
    jsonw_end(w);
}

static void write_names(struct jsonw *w, const char *member, uint32_t n, const char *const *names)
{
    jsonw_array(w, member);
    for (uint32_t i = 0; i < n; i++)
        jsonw_str(w, NULL, names[i]);
    jsonw_end(w);
}

static void write_numbers(struct jsonw *w, const char *member, uint32_t n, const struct lora_named *v)
{
    jsonw_object(w, member);
    for (uint32_t i = 0; i < n; i++)
        jsonw_fixed(w, v[i].name, v[i].value, 9);
    jsonw_end(w);
}

static void write_narrow(struct jsonw *w, const struct lora_narrow *n)
{
    if (n->n_layers) {
        jsonw_array(w, "layers_to_transform");
        for (uint32_t i = 0; i < n->n_layers; i++)
            jsonw_u64(w, NULL, n->layers[i]);
        jsonw_end(w);
    }
    if (n->n_lists) {
        jsonw_array(w, "layers_pattern");
        for (uint32_t i = 0; i < n->n_lists; i++)
            jsonw_str(w, NULL, n->lists[i].name);
        jsonw_end(w);
    }
    if (n->excluded_pattern)
        jsonw_str(w, "exclude_modules", n->excluded_text);
    else if (n->n_excluded)
        write_names(w, "exclude_modules", n->n_excluded, n->excluded);
    if (n->n_ranks)
        write_numbers(w, "rank_pattern", n->n_ranks, n->ranks);
    if (n->n_alphas)
        write_numbers(w, "alpha_pattern", n->n_alphas, n->alphas);
}

void launch_lora(struct jsonw *w, const char *name, const struct launch *l)
{
    const struct lora *lora = &l->step->r.lora;

    jsonw_object(w, name);
    jsonw_str(w, "task_type", "CAUSAL_LM");
    jsonw_u64(w, "r", lora->rank);
    if (l->lora_alpha > 0)
        jsonw_fixed(w, "lora_alpha", l->lora_alpha, 9);
    jsonw_fixed(w, "lora_dropout", lora->dropout, 9);
    if (lora->dora)
        jsonw_bool(w, "use_dora", true);
    if (lora->all_linear) {
        jsonw_str(w, "target_modules", "all-linear");
    } else if (lora->pattern) {
        jsonw_str(w, "target_modules", lora->pattern_text);
    } else {
        write_names(w, "target_modules", lora->n_targets, lora->targets);
    }
    if (lora->n_parameters)
        write_names(w, "target_parameters", lora->n_parameters, lora->parameters);
    if (lora->n_saved)
        write_names(w, "modules_to_save", lora->n_saved, lora->saved);
    if (lora->narrow)
        write_narrow(w, lora->narrow);
    jsonw_end(w);
}
