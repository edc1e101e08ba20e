/*
 * oumi's YAML of `oumi train`: model, data, training, peft, fsdp and deepspeed, which become arguments of trl's and transformers' trainers.
 *
 * Source    oumi 0.9 core/configs/training_config.py, params/{model,data,training,peft,fsdp,deepspeed}_params.py (every field is here,
 *           tests/data/members), builders/models.py, builders/training.py, core/distributed.py.
 */
#include "api/theirs/theirs.h"

#include <stdio.h>
#include <string.h>

static bool is_among(const char *words, const struct json *v)
{
    const char *s = json_str(v);

    return s && word_among(words, s, strlen(s), true);
}

static bool is_on(const struct theirs *t, const char *name)
{
    bool on = false;

    return theirs_flag(json_get(t->doc, name), &on) && on;
}

/* trl_sft's loss is the model's own: oumi takes trl below 1.7. */
static enum err_code read_trainer(struct theirs *t, const struct their_key *key, const struct json *v)
{
    if (is_among("trl_sft|hf", v))
        return ERR_OK;
    if (is_among("trl_dpo", v))
        return theirs_say_word(t, key->member, "dpo");
    if (is_among("trl_kto", v))
        return theirs_say_word(t, key->member, "kto");
    theirs_gap(&t->d, is_among("oumi", v) ? "oumi's own loop (trainer_type HF or TRL_SFT)"
                                          : "a trainer other than HF, TRL_SFT, TRL_DPO and TRL_KTO");
    return ERR_OK;
}

static enum err_code read_mixed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    return is_among("bf16", v) ? theirs_say_amp(t, AMP_BF16) : is_among("fp16", v) ? theirs_say_amp(t, AMP_FP16) : ERR_OK;
}

static enum err_code read_qlora(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false, nf4 = is_among("nf4", json_get(t->doc, "bnb_4bit_quant_type")), twice = is_on(t, "use_bnb_nested_quant");
    uint64_t bits = 4;
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (rc || !on)
        return rc;
    (void)json_uint64(json_get(t->doc, "q_lora_bits"), &bits);
    if (bits == 4 && !nf4 && twice)
        theirs_gap(&t->d, "fp4 whose scales are quantised too");
    return theirs_say_word(t, key->member, bits == 8 ? "int8" : !nf4 ? "fp4" : twice ? "nf4-dq" : "nf4");
}

static enum err_code read_targets(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const struct json *first = json_first(v);

    return theirs_say(t, key->member, json_count(v) == 1 && is_among("all-linear", first) ? first : v);
}

/* What is said beside a switch that is off says nothing. */
static enum err_code read_switched(struct theirs *t, const struct json *v, const char *name, const struct their_key *keys)
{
    bool on = false;

    if (json_type(v) != JSON_OBJECT)
        return decode_fail(&t->d, ERR_FIELD_TYPE, "must be an object, not %s", json_type_name(json_type(v)));
    return theirs_flag(json_get(v, name), &on) && on ? theirs_walk(t, v, keys, false) : ERR_OK;
}

/* accelerate's environment: FSDP of version 1, wrapped by the model's layers unless told otherwise. */
static enum err_code read_enable_fsdp(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    (void)v;
    t->fsdp_version = t->fsdp_version ? t->fsdp_version : 1;
    t->at.strategy = t->at.strategy ? t->at.strategy : theirs_path(t);
    return ERR_OK;
}

static const struct their_key oumi_fsdp_keys[] = {
    BY(read_enable_fsdp, "enable_fsdp", NULL),
    BY(theirs_read_layer_class, "transformer_layer_cls", NULL),
    KNOWN("mixed_precision"), /* of the wrapper; the trainer's own flag overrides it */
    TABLE(fsdp_keys),
    {0},
};

static enum err_code read_fsdp(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    return read_switched(t, v, "enable_fsdp", oumi_fsdp_keys);
}

static enum err_code read_zero_stage(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const char *const names[] = {"ZERO_0|0", "ZERO_1|1", "ZERO_2|2", "ZERO_3|3"};
    uint64_t n = 4;

    (void)key;
    (void)json_uint64(v, &n);
    for (unsigned i = 0; i < 4; i++)
        if (is_among(names[i], v) || n == i) {
            t->stage = i;
            t->at.stage = theirs_path(t);
            return ERR_OK;
        }
    return decode_fail(&t->d, ERR_FIELD_VALUE, "ZERO_0 to ZERO_3 are known");
}

static const struct their_key oumi_zero_keys[] = {
    BY(read_zero_stage, "zero_stage", NULL),
    BY(theirs_read_file_name, "deepspeed_config_path", NULL),
    MOVES("activation_checkpointing", "DeepSpeed's checkpointing"),
    KNOWN(
        "enable_deepspeed|precision|train_batch_size|train_micro_batch_size_per_gpu|gradient_accumulation_steps|gradient_clipping|"
        "zero_allow_untested_optimizer|zero_force_ds_cpu_optimizer|steps_per_print|wall_clock_breakdown|stage3_gather_16bit_weights_on_model_save"),
    TABLE(zero_keys),
    {0},
};

static enum err_code read_deepspeed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;

    (void)key;
    t->e->deepspeed |= theirs_flag(json_get(v, "enable_deepspeed"), &on) && on;
    return read_switched(t, v, "enable_deepspeed", oumi_zero_keys);
}

/* builders/models.py _get_quantization_config_for_training(): mxfp4 is dequantised as it is loaded, as it is here unasked. */
static enum err_code read_model_kwargs(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *packed = json_str(json_get(json_get(v, "quantization_config"), "quant_method"));

    return packed && !strcmp(packed, "mxfp4") && json_count(v) == 1 ? ERR_OK : theirs_read_changes(t, key, v);
}

/* builders/models.py: before peft, which freezes all of the base. */
static enum err_code read_freeze(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool adapts = false;

    (void)theirs_flag(json_get(json_get(t->arguments, "training"), "use_peft"), &adapts);
    return adapts ? ERR_OK : theirs_say(t, key->member, v);
}

static const struct their_key model_keys[] = {
    SAY("model_max_length", "training.seq_len"),
    BY(theirs_read_dtype, "torch_dtype_str|torch_dtype", "training.precision"),
    BY(theirs_read_attention, "attn_implementation", "training.attention"),
    BY(theirs_read_liger, "enable_liger_kernel", "training.liger_kernels"),
    SAY("compile", "training.compile"),
    SAY("model_revision", "revision"),
    BY(read_model_kwargs, "model_kwargs", NULL),
    BY(read_freeze, "freeze_layers", "training.freeze"),
    MOVES("text_only", "the text of a model with images (its text_config says it)"),
    KNOWN("model_name|adapter_model|adapter_trainable|tokenizer_name|tokenizer_pad_token|tokenizer_kwargs|processor_kwargs|"
          "load_pretrained_weights|trust_remote_code|chat_template|chat_template_kwargs|device_map|shard_for_eval|tool_call_parser"),
    {0},
};

static const struct their_key split_keys[] = {
    SAY("pack", "training.packing"),
    KNOWN("datasets|collator_name|collator_kwargs|train_target|stream|target_col|mixture_strategy|seed|use_torchdata|use_async_dataset"),
    {0},
};

static const struct their_key data_keys[] = {
    OBJECT("train", split_keys),
    KNOWN("test|validation"),
    {0},
};

/* "${model.model_max_length}", which says it itself */
static enum err_code read_length(struct theirs *t, const struct their_key *key, const struct json *v)
{
    return is_among("${model.model_max_length}", v) ? ERR_OK : theirs_say(t, key->member, v);
}

/* trainer_kwargs: arguments of the trainer's config as they are. */
static const struct their_key trainer_kwargs[] = {
    BY(read_length, "max_seq_length|max_length", "training.seq_len"),
    TABLE(transformers_keys),
    TABLE(trl_keys),
    {0},
};

static const struct their_key training_keys[] = {
    BY(read_trainer, "trainer_type", "training.stage"),
    FLAG("use_peft", "training.tuning=\"lora\""),
    SAY("per_device_train_batch_size", "training.micro_batch_size"),
    SAY("per_device_eval_batch_size", "training.eval_batch_size"),
    SAY("gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    SAY("enable_gradient_checkpointing", "training.gradient_checkpointing"),
    SAY("max_grad_norm", "training.max_grad_norm"),
    SAY("compile", "training.compile"),
    SAY("ddp_find_unused_parameters", "training.find_unused_parameters"),
    BY(read_mixed, "mixed_precision_dtype", NULL),
    OBJECT("trainer_kwargs", trainer_kwargs),
    SAY("optimizer", "training.optimizer"),
    MOVES("full_determinism", "deterministic kernels, with another workspace"),
    NOTE("empty_device_cache_steps", "what the allocator keeps is given back between steps; peaks of a step are the same"),
    NOTE("eval_strategy", "an evaluation has a peak of its own"),
    KNOWN(
        "output_dir|max_steps|num_train_epochs|save_epoch|save_steps|save_final_model|seed|data_seed|use_deterministic|run_name|"
        "metrics_function|reward_functions|reward_function_kwargs|grpo|gkd|gold|log_level|dep_log_level|log_examples|enable_wandb|enable_mlflow|"
        "enable_tensorboard|logging_strategy|logging_dir|logging_steps|logging_first_step|eval_steps|learning_rate|lr_scheduler_type|"
        "lr_scheduler_kwargs|warmup_ratio|warmup_steps|weight_decay|adam_beta1|adam_beta2|adam_epsilon|sgd_momentum|"
        "include_performance_metrics|include_alternative_mfu_metrics|log_model_summary|resume_from_checkpoint|"
        "try_resume_from_last_checkpoint|dataloader_num_workers|dataloader_persistent_workers|dataloader_prefetch_factor|"
        "dataloader_main_process_only|verl_config_overrides|profiler|telemetry|nccl_default_timeout_minutes|label_ignore_index"),
    TABLE(transformers_keys), /* gradient_checkpointing_kwargs */
    {0},
};

static const struct their_key lora_keys[] = {
    SAY("lora_r", "training.lora.rank"),
    SAY("lora_alpha", "training.lora.alpha"),
    SAY("lora_dropout", "training.lora.dropout"),
    BY(read_targets, "lora_target_modules", "training.lora.target_modules"),
    SAY("lora_target_parameters", "training.lora.target_parameters"),
    SAY("lora_modules_to_save", "training.lora.modules_to_save"),
    BY(read_qlora, "q_lora", "training.quantization"),
    SAY("lora_exclude_modules", "training.lora.exclude_modules"),
    SAY("lora_bias", "training.lora.bias"),
    MOVES_BUT("default|random|gaussian|true|false", "lora_init_weights", "adapters that are made of the weights"),
    MOVES("llm_int8_skip_modules", "modules that are not quantised"),
    MOVES_BUT("uint8|bfloat16", "bnb_4bit_quant_storage", "4-bit weights in another dtype's storage"), /* the same bytes; what FSDP flattens */
    KNOWN("lora_task_type|q_lora_bits|bnb_4bit_quant_type|use_bnb_nested_quant|bnb_4bit_compute_dtype|peft_save_mode"),
    {0},
};

const struct their_key oumi_keys[] = {
    OBJECT("launcher", launcher_keys),
    OBJECT("model", model_keys),
    OBJECT("data", data_keys),
    OBJECT("training", training_keys),
    OBJECT("peft", lora_keys),
    BY(read_fsdp, "fsdp", NULL),
    BY(read_deepspeed, "deepspeed", NULL),
    {0},
};
