/*
 * training_arguments: TrainingArguments of transformers, and the names that trl, LLaMA-Factory and axolotl give the same things.
 *
 * Source    transformers 5.23.0 and 4.40.0 training_args.py (every field of either is here);
 *           trl sft_config.py @a4458afb; LLaMA-Factory src/llamafactory/hparams/{finetuning,model,data}_args.py @f9ced615, @cc22c045,
 *           @072bfe29; axolotl src/axolotl/utils/schemas/{config,peft,model,training}.py @70be5461, @f5ff7a9c, @113e9cd1, @94c00c1d.
 */
#include "api/theirs.h"

#include <stdio.h>
#include <string.h>

/* --- the Trainer ------------------------------------------------------------------------------------------------------------------ */

/* bf16 and fp16 are flags; axolotl's "auto" is bf16 where the GPU has it. false says nothing while the other may be true. */
static enum err_code read_amp(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    bool on = s && word_among("auto|full", s, strlen(s), false);
    enum err_code rc = on ? ERR_OK : theirs_flag_only(t, v, &on);

    return rc || !on ? rc : theirs_say_amp(t, !strcmp(key->member, "bf16") ? AMP_BF16 : AMP_FP16);
}

static enum err_code read_find_batch(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    return theirs_flag_only(t, v, &t->find_batch);
}

/* torch/nn/parallel/distributed.py: bucket_cap_mb x 1024 x 1024. */
static enum err_code read_bucket_mb(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t mb;

    if (!json_uint64(v, &mb) || !mb || mb > 1048576)
        return decode_fail(&t->d, ERR_FIELD_RANGE, "must be MiB, 1 to 1048576");
    return theirs_say_number(t, key->member, mb << 20);
}

static enum err_code read_every_n(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t n;

    if (!json_uint64(v, &n) || n < 1 || n > 2)
        return decode_fail(&t->d, ERR_FIELD_VALUE, "1 and 2 are known: every layer, every other layer");
    return n == 2 ? theirs_say_word(t, key->member, "every_2nd_layer") : ERR_OK;
}

static enum err_code read_deepspeed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    t->e->deepspeed = true;
    if (json_type(v) == JSON_OBJECT)
        return theirs_walk(t, v, deepspeed_keys, false);
    if (!json_str(v))
        return decode_fail(&t->d, ERR_FIELD_TYPE, "must be an object, not %s", json_type_name(json_type(v)));
    return theirs_read_file_name(t, key, v);
}

/* --- LLaMA-Factory and axolotl ----------------------------------------------------------------------------------------------------- */

/* "q_proj,v_proj", "all", or a list. */
static enum err_code read_targets(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    char text[2048] = "[";
    size_t used = 1;

    if (!s || word_among("all|all-linear", s, strlen(s), true))
        return theirs_say(t, key->member, v);
    for (size_t n; *s; s += n + (s[n] == ',')) {
        s += strspn(s, " ");
        n = strcspn(s, ",");
        if (used + n + 8 > sizeof text || memchr(s, '"', n) || memchr(s, '\\', n))
            return decode_fail(&t->d, ERR_FIELD_VALUE, "is no list of modules");
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%.*s\"", used > 1 ? "," : "", (int)n, s);
    }
    (void)snprintf(text + used, sizeof text - used, "]");
    return theirs_say_text(t, key->member, text);
}

/* LLaMA-Factory model_utils/quantization.py: 4 bits are nf4, doubly quantised unless told otherwise. */
static enum err_code read_bits(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool twice = true;
    uint64_t bits;

    (void)theirs_flag(json_get(t->doc, "double_quantization"), &twice);
    if (!json_uint64(v, &bits) || (bits != 4 && bits != 8))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "4 and 8 are known");
    return theirs_say_word(t, key->member, bits == 8 ? "int8" : twice ? "nf4-dq" : "nf4");
}

static enum err_code read_flash_attn(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const struct {
        const char *theirs, *ours;
    } words[] = {{"fa2", "flash_attention_2"}, {"sdpa", "sdpa"}, {"disabled", "eager"}};
    const char *s = json_str(v);

    for (size_t i = 0; s && i < sizeof words / sizeof *words; i++)
        if (!strcmp(s, words[i].theirs))
            return theirs_say_word(t, key->member, words[i].ours);
    return s && !strcmp(s, "auto") ? ERR_OK : decode_fail(&t->d, ERR_FIELD_VALUE, "auto, disabled, sdpa and fa2 are known");
}

/* axolotl's "unsloth" and "offload" keep the layers' inputs on the host. */
static enum err_code read_checkpointing(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    enum err_code rc;

    if (!s || !word_among("unsloth|offload", s, strlen(s), true))
        return theirs_say(t, key->member, v);
    rc = theirs_say_text(t, key->member, "true");
    return rc ? rc : theirs_say_word(t, "training.offload", "activations");
}

static enum err_code read_stage(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    if (!json_str(v) || strcmp(json_str(v), "sft") != 0)
        note(t->d.warnings, "%.100s: the models of a stage other than sft are not in the figures", t->d.path);
    return ERR_OK;
}

/* --- the tables -------------------------------------------------------------------------------------------------------------------- */

static const struct their_key checkpointing_kwargs[] = {
    SAY("use_reentrant", "training.checkpoint_reentrant"),
    BY(read_every_n, "every_n_layers", "training.gradient_checkpointing"),
    FLAG("offload", "training.offload=\"activations\""),
    KNOWN("preserve_rng_state|determinism_check|debug|early_stop"),
    {0},
};

static const struct their_key accumulation_kwargs[] = {
    SAY("sync_each_batch", "training.sync_each_batch"),
    SAY("num_steps", "training.gradient_accumulation_steps"),
    KNOWN("adjust_scheduler|sync_with_dataloader"),
    {0},
};

static const struct their_key accelerator_keys[] = {
    OBJECT("gradient_accumulation_kwargs", accumulation_kwargs),
    KNOWN("split_batches|dispatch_batches|even_batches|use_seedable_sampler|non_blocking|use_configured_state"),
    {0},
};

static const struct their_key model_init_kwargs[] = {
    SAY("attn_implementation", "training.attention"),
    NOTE("dtype|torch_dtype", "the dtype the model is loaded in (training.precision says it)"),
    SAY("revision", "revision"),
    KNOWN("trust_remote_code|cache_dir|token|use_cache|low_cpu_mem_usage|device_map"),
    {0},
};

const struct their_key trainer_keys[] = {
    /* transformers */
    SAY("per_device_train_batch_size|per_gpu_train_batch_size|micro_batch_size", "training.micro_batch_size"),
    SAY("gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    BY(read_find_batch, "auto_find_batch_size", NULL),
    SAY("optim|optimizer", "training.optimizer"),
    SAY("optim_args", "training.optim_args"),
    FLAG("adafactor", "training.optimizer=\"adafactor\""),
    SAY("max_grad_norm", "training.max_grad_norm"),
    BY(read_amp, "bf16", "bf16"),
    BY(read_amp, "fp16", "fp16"),
    SAY("tf32", "training.tf32"),
    BY(read_checkpointing, "gradient_checkpointing|activation_checkpointing", "training.gradient_checkpointing"),
    OBJECT("gradient_checkpointing_kwargs|activation_checkpointing_kwargs", checkpointing_kwargs),
    SAY("torch_compile", "training.compile"),
    SAY("use_cache", "training.use_cache"),
    FLAG("use_liger_kernel|enable_liger_kernel", "training.liger_kernels=[\"rope\",\"rms_norm\",\"swiglu\",\"fused_linear_cross_entropy\"]"),
    BY(read_bucket_mb, "ddp_bucket_cap_mb", "training.buckets.ddp_bytes"),
    BY(read_deepspeed, "deepspeed", NULL),
    BY(theirs_read_fsdp, "fsdp", NULL),
    OBJECT("fsdp_config", fsdp_keys),
    OBJECT("accelerator_config", accelerator_keys),
    OBJECT("parallelism_config", parallelism_keys),
    NOTE("liger_kernel_config", "the choice among Liger's kernels"),
    NOTE("neftune_noise_alpha", "NEFTune's noise on the embeddings"),
    NOTE("label_smoothing_factor", "the loss with label smoothing"),
    NOTE("torch_empty_cache_steps", "emptying the cache between steps"),
    NOTE("eval_strategy|evaluation_strategy", "evaluation between steps"),
    NOTE("optim_target_modules", "the choice of modules of an optimizer"),
    NOTE("use_cpu|no_cuda|use_mps_device|torchdynamo|mp_parameters", "a run that is not on CUDA as it is by default"),
    KNOWN("_n_gpu|adam_beta1|adam_beta2|adam_epsilon|average_tokens_across_devices|batch_eval_metrics|bf16_full_eval|data_seed|"
          "dataloader_drop_last|dataloader_in_order|dataloader_multiprocessing_context|dataloader_num_workers|"
          "dataloader_persistent_workers|dataloader_pin_memory|dataloader_prefetch_factor|ddp_backend|ddp_broadcast_buffers|"
          "ddp_find_unused_parameters|ddp_static_graph|ddp_timeout|debug|disable_tqdm|dispatch_batches|do_eval|do_predict|do_train|"
          "enable_jit_checkpoint|eval_accumulation_steps|eval_delay|eval_do_concat_batches|eval_on_start|eval_steps|"
          "eval_use_gather_object|fp16_backend|fp16_full_eval|fp16_opt_level|fsdp_min_num_params|fsdp_transformer_layer_cls_to_wrap|"
          "full_determinism|greater_is_better|group_by_length|half_precision_backend|hub_always_push|hub_model_id|hub_private_repo|"
          "hub_revision|hub_strategy|hub_token|ignore_data_skip|include_for_metrics|include_inputs_for_metrics|"
          "include_num_input_tokens_seen|include_tokens_per_second|jit_mode_eval|label_names|learning_rate|length_column_name|"
          "load_best_model_at_end|local_rank|log_level|log_level_replica|log_on_each_node|logging_dir|logging_first_step|"
          "logging_nan_inf_filter|logging_steps|logging_strategy|lr_scheduler_kwargs|lr_scheduler_type|max_steps|metric_for_best_model|"
          "num_train_epochs|output_dir|overwrite_output_dir|past_index|per_device_eval_batch_size|per_gpu_eval_batch_size|"
          "prediction_loss_only|project|push_to_hub|push_to_hub_model_id|push_to_hub_organization|push_to_hub_token|ray_scope|"
          "remove_unused_columns|report_to|restore_callback_states_from_checkpoint|resume_from_checkpoint|run_name|save_on_each_node|"
          "save_only_model|save_safetensors|save_steps|save_strategy|save_total_limit|seed|skip_memory_metrics|split_batches|"
          "torch_compile_backend|torch_compile_mode|tpu_metrics_debug|tpu_num_cores|trackio_bucket_id|trackio_space_id|"
          "trackio_static_space_id|train_sampling_strategy|use_ipex|use_legacy_prediction_loop|warmup_ratio|warmup_steps|weight_decay"),
    /* trl */
    SAY("max_length|max_seq_length|cutoff_len|sequence_len", "training.seq_len"),
    OBJECT("model_init_kwargs", model_init_kwargs),
    FLAG("activation_offloading", "training.offload=\"activations\""),
    NOTE("loss_type", "a loss of trl's own"),
    NOTE("padding_free", "padding-free batches"),
    KNOWN("packing|packing_strategy|eval_packing|dataset_text_field|dataset_kwargs|dataset_num_proc|pad_token|eos_token|pad_to_multiple_of|"
          "completion_only_loss|assistant_only_loss|chat_template_path|shuffle_dataset|truncation_mode"),
    /* LLaMA-Factory */
    SAY("finetuning_type|adapter", "training.tuning"),
    SAY("lora_rank|lora_r", "training.lora.rank"),
    SAY("lora_alpha", "training.lora.alpha"),
    SAY("lora_dropout", "training.lora.dropout"),
    BY(read_targets, "lora_target|lora_target_modules", "training.lora.target_modules"),
    BY(read_targets, "additional_target|lora_modules_to_save", "training.lora.modules_to_save"),
    BY(read_bits, "quantization_bit", "training.quantization"),
    BY(read_flash_attn, "flash_attn", "training.attention"),
    FLAG("pure_bf16", "training.precision=\"bf16\""),
    FLAG("disable_gradient_checkpointing", "training.gradient_checkpointing=false"),
    SAY("use_reentrant_gc", "training.checkpoint_reentrant"),
    BY(read_stage, "stage", NULL),
    NOTE("use_dora|use_galore|use_apollo|use_badam|use_llama_pro|use_unsloth|upcast_layernorm|upcast_lmhead_output|shift_attn|"
         "mixture_of_depths|neat_packing", "this option of LLaMA-Factory"),
    KNOWN("model_name_or_path|adapter_name_or_path|template|dataset|eval_dataset|dataset_dir|max_samples|overwrite_cache|"
          "preprocessing_num_workers|val_size|plot_loss|quantization_method|quantization_type|double_quantization|use_rslora|"
          "loraplus_lr_ratio|pissa_init|mask_history|train_on_prompt|streaming|buffer_size|mix_strategy|tokenized_path|rope_scaling|"
          "trust_remote_code|use_fast_tokenizer"),
    /* axolotl */
    FLAG("lora_target_linear", "training.lora.target_modules=\"all-linear\""),
    FLAG("load_in_8bit", "training.quantization=\"int8\""),
    FLAG("load_in_4bit", "training.quantization=\"nf4-dq\""),
    FLAG("flash_attention", "training.attention=\"flash_attention_2\""),
    FLAG("sdp_attention", "training.attention=\"sdpa\""),
    FLAG("eager_attention", "training.attention=\"eager\""),
    SAY("attn_implementation", "training.attention"),
    NOTE("bfloat16|float16|xformers_attention|s2_attention|flex_attention|unfrozen_parameters|relora|lisa_n_layers|fp8|sample_packing",
         "this option of axolotl"),
    KNOWN("base_model|base_model_config|model_type|tokenizer_type|datasets|test_datasets|dataset_prepared_path|val_set_size|chat_template|"
          "pad_to_sequence_len|num_epochs|lr_scheduler|train_on_inputs|strict|wandb_project|wandb_entity|wandb_watch|wandb_name|"
          "wandb_log_model|special_tokens|evals_per_epoch|saves_per_epoch|eval_sample_packing|local_files_only|is_llama_derived_model|plugins"),
    {0},
};
