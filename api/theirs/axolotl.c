/*
 * What axolotl's YAML has beside TrainingArguments.
 *
 * Source    axolotl 0.19.0 utils/schemas/{config,peft,model,training,datasets,integrations,deprecated,multimodal}.py and integrations/.../args.py:
 *           every field of AxolotlInputConfig and of its plugins is here (tests/data/members).
 */
#include "api/theirs/theirs.h"

#include "tuning/pattern.h"

#include "api/decode/unknown.h"

#include <stdio.h>
#include <string.h>

/* rl: the trainer that is used, of the trl that axolotl pins: other than the ones that training.stage is modelled by. */
static enum err_code read_rl(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    const struct json *kind = json_get(t->arguments, "dpo_loss_type");

    if (s && word_among("dpo|orpo|simpo|kto", s, strlen(s), true) && (!kind || json_type(kind) == JSON_NULL)) {
        enum err_code rc = theirs_say_word(t, key->member, s);

        return rc ? rc : theirs_say_word(t, "training.trainer", "axolotl");
    }
    if (!theirs_is_neutral(key, v))
        theirs_gap(&t->d, "a preference trainer of the trl that axolotl pins (training.stage is trl 1.16's)");
    return ERR_OK;
}

/* core/trainers/trl.py AxolotlRewardTrainer: the step is that of trl 1.16's RewardTrainer. As trl has it, PPO's model that scores. */
static enum err_code read_reward(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;

    if (json_str(v) && !theirs_flag(v, &on)) {
        theirs_gap(&t->d, "a trainer of trl's other than SFTTrainer");
        return ERR_OK;
    }
    return json_type(v) == JSON_NULL || !theirs_flag(v, &on) || !on ? ERR_OK : theirs_say_word(t, key->member, "reward");
}

/* utils/config normalize_config: rows of one GPU in a step, where gradient_accumulation_steps is left out. */
static enum err_code read_batch(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const struct json *accumulation = json_get(t->doc, "gradient_accumulation_steps");
    uint64_t batch, rows = 1;

    if (!theirs_tool_is(t, TOOL_AXOLOTL))
        return unknown_refuse(&t->d, "batch_size", "per_device_train_batch_size");
    if (json_type(v) == JSON_NULL || (accumulation && json_type(accumulation) != JSON_NULL))
        return ERR_OK;
    if (!json_uint64(v, &batch))
        return decode_fail(&t->d, ERR_FIELD_TYPE, "must be a whole number, not %s", json_type_name(json_type(v)));
    (void)json_uint64(json_get(t->doc, "micro_batch_size"), &rows);
    (void)key;
    return theirs_say_number(t, "training.gradient_accumulation_steps", rows && batch > rows ? batch / rows : 1);
}

/* lora_target_linear adds all linear layers to the list (axolotl loaders/adapter.py): what is in it beside them is not known here. */
enum err_code theirs_read_targets(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool all = false;

    if (!theirs_flag(json_get(t->doc, "lora_target_linear"), &all) || !all)
        return json_type(v) == JSON_ARRAY && !json_first(v) ? ERR_OK : theirs_say(t, key->member, v);
    json_each (name, v)
        if (json_str(name) && (strstr(json_str(name), "head") || strstr(json_str(name), "embed")))
            theirs_gap(&t->d, "adapters on head or embeddings beside all linear layers");
    return ERR_OK;
}

static bool is_said(const struct theirs *t, const char *key)
{
    const struct json *v = json_get(t->arguments, key);

    return v && json_type(v) != JSON_NULL;
}

static bool is_on(const struct theirs *t, const char *key)
{
    bool on = false;

    return theirs_flag(json_get(t->arguments, key), &on) && on;
}

static const struct {
    const char *key, *word;
} lora_kernels[] = {{"lora_qkv_kernel", "qkv"}, {"lora_o_kernel", "o"}, {"lora_mlp_kernel", "mlp"}};

static enum err_code say_kernels(struct theirs *t)
{
    char list[64] = "[";
    size_t n = 1;

    for (size_t i = 0; i < sizeof lora_kernels / sizeof *lora_kernels; i++)
        if (is_on(t, lora_kernels[i].key))
            n += (size_t)snprintf(list + n, sizeof list - n, "%s\"%s\"", n > 1 ? ", " : "", lora_kernels[i].word);
    (void)snprintf(list + n, sizeof list - n, "]");
    return n > 1 ? theirs_say_text(t, "training.lora.kernels", list) : ERR_OK;
}

/* utils/schemas/config.py check_auto_enable_lora_kernels: kernels that nobody asked for. FSDP's first version has none. */
enum err_code axolotl_settle(struct theirs *t)
{
    const char *adapter = json_str(json_get(t->arguments, "adapter"));
    bool first_fsdp = is_said(t, "fsdp_config") && t->fsdp_version != 2, said = is_said(t, "lora_embedding_kernel");
    bool packs = is_on(t, "load_in_8bit") || is_on(t, "load_in_4bit");
    bool casts = packs ? adapter != NULL : !theirs_is_filled(t, "training.quantization");
    enum err_code rc = casts ? theirs_say_word(t, "training.prepare_kbit", "axolotl") : ERR_OK;

    if (rc)
        return rc;
    for (size_t i = 0; i < sizeof lora_kernels / sizeof *lora_kernels; i++)
        said = said || is_said(t, lora_kernels[i].key);
    if (said)
        return say_kernels(t);
    t->e->lora_kernels_at =
        adapter && word_among("lora|qlora", adapter, strlen(adapter), false) && !is_said(t, "rl") && !is_on(t, "trust_remote_code") && !first_fsdp &&
                !(!strcmp(adapter, "lora") && is_on(t, "load_in_8bit"))
            ? t->arguments_at
            : NULL;
    return ERR_OK;
}

/* A range of a tensor's rows, "[:32000]": the gradient of the rest is zeroed where it lies. */
static size_t without_range(const char *s)
{
    size_t n = strlen(s), k = n;

    if (n && s[n - 1] == ']')
        for (k = n - 1; k && strchr("0123456789:", s[k - 1]); k--)
            ;
    return k && k < n && s[k - 1] == '[' && k - 1 ? k - 1 : n;
}

/*
 * utils/freeze.py freeze_layers_except: names begin with one of these, whose dots are dots; all else is frozen, adapters too. train.py then has the
 * embeddings' output want a gradient where the head or the embeddings are among them.
 */
static enum err_code read_unfrozen(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *one = json_str(v);
    char text[PATTERN_MAX_BYTES + 1] = "(?:";
    enum err_code rc;
    size_t n = 3;

    if (!one && json_type(v) != JSON_ARRAY)
        return decode_wrong_type(&t->d, "a list of names", v);
    if (!one && !json_count(v))
        return ERR_OK;
    if (json_str(json_get(t->doc, "adapter"))) {
        theirs_gap(&t->d, "a part of the model beside adapters (it freezes these too)");
        return ERR_OK;
    }
    for (const struct json *e = one ? v : json_first(v); e; e = one ? NULL : json_next(e)) {
        const char *s = json_str(e) ? json_str(e) : "";

        t->e->inputs_want_grad |= strstr(s, "lm_head") || strstr(s, "embed_tokens");
        n += n > 3 && n < sizeof text ? (size_t)snprintf(text + n, sizeof text - n, "|") : 0;
        for (size_t i = 0, end = without_range(s); i < end && n + 2 < sizeof text; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%c", s[i] == '.' && s[i + 1] != '+' ? "\\" : "", s[i]);
    }
    if (n + 4 >= sizeof text) {
        theirs_gap(&t->d, "so many patterns of names");
        return ERR_OK;
    }
    if (t->e->inputs_want_grad)
        note_of(&t->e->assumptions, NOTE_OF_YOURS,
                "framework_config.unfrozen_parameters names the head or the embeddings: axolotl has the embeddings' output want a gradient, which reaches it "
                "through all layers");
    (void)snprintf(text + n, sizeof text - n, ").*");
    rc = theirs_say_word(t, "training.tuning", "full");
    return rc ? rc : theirs_say_plain(t, key->member, text);
}

/* loaders/model.py resize_token_embeddings: to the tokenizer's length rounded up, where the embeddings are fewer; theirs_resolve() knows how many they are */
static enum err_code read_32x(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;

    (void)key;
    if (json_type(v) != JSON_NULL && !theirs_flag(v, &on))
        return decode_wrong_type(&t->d, "a boolean", v);
    if (on)
        t->e->vocabulary_to_32x_at = arena_str(t->e->call->arena, t->d.path, strlen(t->d.path));
    return on && !t->e->vocabulary_to_32x_at ? err_set(t->e->call->err, ERR_NOMEM, "", "no memory for a pointer") : ERR_OK;
}

/* integrations/liger/plugin.py: a kernel of axolotl's that the layers of qwen3_5 have, and nobody else; theirs_resolve() knows whose model it is */
static enum err_code read_gated(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;

    (void)key;
    if (theirs_flag(v, &on) && on)
        t->e->gated_norm_at = theirs_path(t);
    return ERR_OK;
}

/* loaders/model.py _set_quantization_config(): mxfp4 that is dequantised as it is loaded, as it is here unasked. */
static enum err_code read_packed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool whole = false;

    (void)theirs_flag(json_get(json_get(t->doc, "model_quantization_config_kwargs"), "dequantize"), &whole);
    if (!theirs_is_neutral(key, v) && !(json_str(v) && !strcmp(json_str(v), "Mxfp4Config") && whole))
        theirs_gap(&t->d, "a quantisation of axolotl's own");
    return ERR_OK;
}

const struct their_key axolotl_keys[] = {
    SAY("sequence_len", "training.seq_len"),
    SAY("sample_packing", "training.packing"),
    BY(read_rl, "rl", "training.stage"),
    BY(read_reward, "reward_model", "training.stage"),
    FLAG("process_reward_model", "training.stage=\"token_classification\""), /* trl's PRMTrainer: a label a token */
    FLAG("lora_target_linear", "training.lora.target_modules=\"all-linear\""),
    SAY("peft_use_dora", "training.lora.use_dora"),
    SAY("peft_layers_to_transform", "training.lora.layers_to_transform"),
    SAY("peft_layers_pattern", "training.lora.layers_pattern"),
    SAY("lora_rank_pattern", "training.lora.rank_pattern"),
    FLAG("flash_attention", "training.attention=\"flash_attention_2\""),
    FLAG("sdp_attention", "training.attention=\"sdpa\""),
    FLAG("eager_attention", "training.attention=\"eager\""),
    FLAG("flex_attention", "training.attention=\"flex_attention\""),
    FLAG("cut_cross_entropy", "training.loss=\"cut_cross_entropy\""),
    FLAG("chunked_cross_entropy", "training.loss=\"chunked\""),
    SAY("tensor_parallel_size", "training.tensor_parallel"),
    SAY("context_parallel_size|sequence_parallel_degree", "training.context_parallel"),
    SAY("expert_parallel_size", "training.expert_parallel"),
    BY(theirs_read_plugins, "plugins", "training.loss"),
    BY(theirs_read_liger_kernel,
       "liger_rope|liger_rms_norm|liger_layer_norm|liger_swiglu|liger_glu_activation|liger_cross_entropy|liger_fused_linear_cross_entropy",
       "training.liger_kernels"),
    BY(read_gated, "liger_rms_norm_gated", NULL),
    MOVES("liger_use_token_scaling", "a kernel of Liger's that few models have"),
    BY(theirs_read_amp, "bfloat16", "bf16"), /* core/builders/base.py: bf16 or bfloat16 */
    BY(read_batch, "batch_size", "training.micro_batch_size"),
    MOVES("float16|float32", "weights, gradients and states in one dtype"),
    MOVES("fp32_norms|embeddings_skip_upcast", "which weights are upcast"),
    KNOWN("fp8_config"), /* read beside fp8 */
    MOVES(
        "xformers_attention|s2_attention|sage_attention|sdpa_varlen|large_head_attention|gemma4_hybrid_attn_impl|scaling_softmax|fused_attn_kernel|"
        "flash_attn_cross_entropy|flash_attn_fuse_mlp|flash_attn_rms_norm|flash_optimum|flash_attn_d512",
        "an attention or kernels of axolotl's own"),
    MOVES("batch_flattening|pretraining_sample_concatenation|use_pose", "rows of several sequences"),
    MOVES("multipack_real_batches", "batches of packed rows"),
    BY(read_unfrozen, "unfrozen_parameters", "training.trainable"),
    MOVES("freeze_mm_modules", "training a part of the model (training.freeze names what is not trained)"),
    MOVES("relora|relora_cpu_offload|lisa_n_layers|use_mora|mora", "a training that changes what is trained"),
    MOVES("selective_checkpointing", "selective checkpointing"),
    MOVES("layer_offloading|ple_cpu_offload", "layers on the host"),
    KNOWN("lora_mlp_kernel|lora_qkv_kernel|lora_o_kernel|lora_embedding_kernel"), /* axolotl_settle() */
    MOVES("tiled_mlp", "an MLP a tile of the sequence at a time"),
    MOVES("use_eaft", "a loss of axolotl's own"),
    FLAG("quantize_moe_experts", "training.quantize_experts=\"true\""),
    MOVES_BUT("grouped_mm", "experts_implementation", "an implementation of the experts"), /* modeling_utils.py get_correct_experts_implementation() */
    MOVES("llama4_linearized_experts|expert_backend|nonexpert_quantization|moe_grouped_backend|"
          "moe_bnb_fast|use_scattermoe|use_sonicmoe|use_dsv4_kernels|use_glm_dsa_kernels|dense_mixer|dsv4_fp8_nonexpert_mode|"
          "dsv4_fp8_lora_kernel|dsv4_shared_mlp_lora_kernel|dsv4_bf16_all|dsv4_fp4_grouped_mode|gemma4_fp8_nonexpert|gemma4_nf4_nonexpert|"
          "nvfp4_merge_aware",
          "experts of axolotl's own"),
    MOVES("use_kernels|use_onebitllms", "kernels in the place of the model's"),
    BY(read_packed, "model_quantization_config", NULL),
    KNOWN("model_quantization_config_kwargs"),
    MOVES("gptq|qat|quantization|bnb_config_kwargs",
          "a quantisation of axolotl's own"),
    MOVES("deepcompile|torch_compile_options", "torch.compile"),
    MOVES("gc_steps|gc_collect_steps", "emptying the cache between steps"),
    MOVES("max_memory|gpu_memory_limit", "a limit of its own"),
    MOVES("profiler_steps", "the profiler's record of allocations"),
    MOVES("lora_on_cpu|qlora_sharded_model_loading", "adapters or weights that wait on the host"),
    MOVES("peft_layer_replication|peft_trainable_token_indices|peft_ensure_weight_tying", "layers or tokens that are trained beside adapters"),
    MOVES_BUT("true|false|gaussian", "peft_init_lora_weights", "adapters that are made of the weights"),
    MOVES("peft", "options of peft's"),
    MOVES_BUT("true", "peft_autocast_adapter_dtype", "adapters in the dtype of the base"),
    BY(read_32x, "resize_token_embeddings_to_32x", NULL),
    MOVES("shrink_embeddings|tokens|added_tokens_overrides",
          "a vocabulary of another size (config.vocab_size says it)"),
    BY(theirs_read_labels, "num_labels", NULL),
    MOVES("ebft|trainer_cls|vllm|trl|diffusion|hatchery|kd_trainer|nemo_gym_enabled|llmcompressor", "a trainer other than axolotl's own"),
    MOVES("dpo_use_weighting|dpo_use_liger_kernel|dpo_padding_free|dpo_loss_type|dpo_loss_weights|dpo_norm_loss|dpo_use_logits_to_keep|"
          "dpo_generate_during_eval",
          "a stage other than sft"),
    BY(theirs_read_changes, "overrides_of_model_config|overrides_of_model_kwargs|model_config", NULL),
    MOVES("rope_scaling", "a rope of another kind (config.rope_scaling says it)"),
    MOVES("image_size", "images in the sequences"),
    MOVES("spectrum_top_fraction|grokfast_alpha", "a plugin's change of what is trained"),
    MOVES("dp_shard_size|dp_replicate_size", "axolotl's device mesh (parallelism_config says it)"),
    MOVES("heads_k_stride|ring_attn_func", "ring attention"),
    MOVES("expert_parallel_backend|expert_parallel_num_nvl_bytes|expert_parallel_num_rdma_bytes|expert_parallel_token_capacity",
          "expert parallelism"),
    NOTE("do_causal_lm_eval|do_bench_eval|generate_samples", "an evaluation has a peak of its own"),
    /* FSDP's settings are in fsdp_config; what is written here beside it is the same. */
    BY(theirs_read_fsdp_version, "fsdp_version", NULL),
    KNOWN("rl_beta|dpo_beta|orpo_alpha|kto_desirable_weight|kto_undesirable_weight"), /* factors */
    KNOWN(
        "val_set_size|fsdp_final_state_dict_type|auto_resume_from_checkpoints|mean_resizing_embeddings|reinit_weights|dynamic_checkpoint|"
        "test_datasets|shuffle_merged_datasets|shuffle_before_merging_datasets|dataset_prepared_path|dataset_shard_num|dataset_shard_idx|"
        "skip_prepare_dataset|num_dataset_shards_to_save|pretraining_dataset|dataset_processes|dataset_exact_deduplication|"
        "dataset_keep_in_memory|push_dataset_to_hub|hf_use_auth_token|device|world_size|ddp|eval_causal_lm_metrics|bench_dataset|bench_split|"
        "loss_watchdog_threshold|loss_watchdog_patience|eval_sequence_len|excess_length_strategy|min_sample_len|max_prompt_len|"
        "sample_packing_group_size|sample_packing_bin_size|sample_packing_sequentially|sample_packing_mp_start_method|eval_sample_packing|"
        "pad_to_sequence_len|curriculum_sampling|pose_split_on_token_ids|pose_max_context_len|pose_num_chunks|"
        "pretrain_multipack_buffer_size|pretrain_multipack_attn|streaming_multipack_buffer_size|flex_attn_compile_kwargs|"
        "moe_dequant_chunk_size|scaling_softmax_factor|scaling_softmax_bias|chunked_cross_entropy_num_chunks|eaft_k|tiled_mlp_num_shards|"
        "tiled_mlp_use_original_mlp|fp32_norm_classes|special_tokens|evals_per_epoch|saves_per_epoch|save_first_step|"
        "early_stopping_patience|use_tensorboard|profiler_steps_start|include_tkps|chat_template|chat_template_jinja|eot_tokens|"
        "default_system_message|fix_untrained_tokens|is_preprocess|preprocess_iterable|total_num_tokens|total_supervised_tokens|"
        "sample_packing_eff_est|axolotl_config_path|is_falcon_derived_model|is_llama_derived_model|is_mistral_derived_model|"
        "is_qwen_derived_model|num_generation_samples|generation_max_new_tokens|generation_temperature|generation_top_p|generation_top_k|"
        "generation_prompt_ratio|generation_do_sample|strict|capabilities|env_capabilities"),
    KNOWN(
        "base_model|base_model_config|cls_model_config|model_type|type_of_model|revision_of_model|tokenizer_config|tokenizer_use_fast|"
        "tokenizer_legacy|tokenizer_use_mistral_common|tokenizer_type|tokenizer_save_jinja_files|processor_type|processor_kwargs|"
        "experimental_skip_move_to_device|lora_model_dir|lora_fan_in_fan_out|lora_alpha_pattern|peft_use_rslora|merge_lora|merge_method|"
        "loftq_config|relora_prune_ratio|relora_prune_method|lisa_step_interval|lisa_layers_attribute|eval_batch_size|train_on_inputs|"
        "embedding_lr|embedding_lr_scale|torchdistx_path|lr_scheduler|lr_quadratic_warmup|cosine_min_lr_ratio|cosine_constant_lr_ratio|"
        "lr_div_factor|lr_groups|adam_epsilon2|adam_beta3|dion_lr|dion_momentum|dion_rank_fraction|dion_rank_multiple_of|qgalore_rank|"
        "qgalore_update_proj_gap|qgalore_scale|qgalore_proj_type|qgalore_proj_quant|qgalore_proj_bits|qgalore_proj_group_size|"
        "qgalore_cos_threshold|qgalore_gamma_proj|qgalore_queue_size|jagged_restart_steps|jagged_restart_warmup_steps|"
        "jagged_restart_anneal_steps|image_resize_algorithm|role_boundaries|noisy_embedding_alpha|max_packed_sequence_len|eval_table_size|"
        "eval_max_new_tokens|local_files_only"),
    KNOWN("use_mlflow|mlflow_tracking_uri|mlflow_experiment_name|mlflow_run_name|hf_mlflow_log_artifacts|use_wandb|wandb_name|wandb_run_id|"
          "wandb_mode|wandb_project|wandb_entity|wandb_watch|wandb_log_model|use_comet|comet_api_key|comet_workspace|comet_project_name|"
          "comet_experiment_key|comet_mode|comet_online|comet_experiment_config|gradio_title|gradio_share|gradio_server_name|"
          "gradio_server_port|gradio_max_new_tokens|gradio_temperature|use_ray|ray_run_name|resources_per_worker|use_otel_metrics|"
          "otel_metrics_host|otel_metrics_port|use_trackio|trackio_project_name|trackio_run_name|swanlab_experiment_name|"
          "swanlab_description|swanlab_log_model|swanlab_web_host|swanlab_api_host|swanlab_log_completions|"
          "swanlab_completion_log_interval|swanlab_completion_max_buffer|lm_eval_tasks|lm_eval_batch_size|lm_eval_post_train|lm_eval_model|"
          "grokfast_lamb|kd_ce_alpha|kd_alpha|kd_temperature|kd_beta|kd_normalize_topk|kd_online_server_base_url|kd_online_topk|"
          "kd_online_server|kd_online_timeout|kd_temperature_min|liger_kernel_impl|nvfp4_merge_aware_start_step|spectrum_model_name|"
          "expert_parallel_fallback_on_unsupported|nemo_gym_dir|nemo_gym_auto_clone|nemo_gym_config_paths|nemo_gym_head_port|"
          "nemo_gym_server_timeout|nemo_gym_verify_timeout|nemo_gym_run_timeout|nemo_gym_datasets|nemo_gym_auto_start|nemo_gym_model_name|"
          "nemo_gym_multi_turn|nemo_gym_max_turns|mora_type"),
    {0},
};
