/*
 * What ms-swift's arguments are: of `swift sft`, `swift pt` and `swift rlhf`, as a YAML file or as the command.
 *
 * Source    ms-swift 4.6.0 swift/arguments/{sft,tuner,rlhf}_args.py, base_args/{base,model,data,template,generation,quant}_args.py,
 *           trainers/{arguments,mixin,seq2seq_trainer}.py, pipelines/train/tuner.py, rlhf_trainers/args_mixin.py, config/{zero0..fsdp2}.json:
 *           every field is here (tests/data/members).
 */
#include "api/theirs/theirs.h"

#include "tuning/pattern.h"

#include <stdio.h>
#include <string.h>

static bool is_among(const char *words, const struct json *v)
{
    const char *s = json_str(v);

    return s && word_among(words, s, strlen(s), true);
}

static enum err_code read_tuner(struct theirs *t, const struct their_key *key, const struct json *v)
{
    if (is_among("longlora|adalora|llamapro|adapter|vera|boft|fourierft|reft|bone|ia3|dummy|lora_llm", v)) {
        theirs_gap(&t->d, "a tuner other than full and lora");
        return ERR_OK;
    }
    return theirs_say(t, key->member, v);
}

/* tuner.py get_target_modules: ["all-linear"] is all linear layers but the head. */
static enum err_code read_targets(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const struct json *first = json_type(v) == JSON_ARRAY ? json_first(v) : v;

    if (is_among("all-embedding|all-norm", first) || (is_among("all-linear", first) && json_type(v) == JSON_ARRAY && json_count(v) > 1)) {
        theirs_gap(&t->d, "targets of ms-swift's beside all-linear");
        return ERR_OK;
    }
    if (json_str(v) && *json_str(v) && !is_among("all-linear", v) && !strpbrk(json_str(v), "\"\\")) { /* one word of a command: nargs "+" makes a list of it */
        char text[160];

        if ((size_t)snprintf(text, sizeof text, "[\"%s\"]", json_str(v)) < sizeof text)
            return theirs_say_text(t, key->member, text);
    }
    return theirs_say(t, key->member, is_among("all-linear", first) ? first : v);
}

/* quant_args.py get_quantization_config: bits without a method say nothing. */
static enum err_code read_bits(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const struct json *method = json_get(t->doc, "quant_method");
    bool twice = true, fp4 = is_among("fp4", json_get(t->doc, "bnb_4bit_quant_type"));
    uint64_t bits;

    (void)theirs_flag(json_get(t->doc, "bnb_4bit_use_double_quant"), &twice);
    if (!is_among("bnb", method))
        return ERR_OK;
    if (!json_uint64(v, &bits) || (bits != 4 && bits != 8))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "bnb has 4 and 8");
    if (bits == 4 && fp4 && twice)
        theirs_gap(&t->d, "fp4 whose scales are quantised too");
    return theirs_say_word(t, key->member, bits == 8 ? "int8" : fp4 ? "fp4" : twice ? "nf4-dq" : "nf4");
}

static enum err_code read_quant_method(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    if (!is_among("bnb|awq|gptq|gptq_v2", v)) /* those but bnb are the checkpoint's own */
        theirs_gap(&t->d, "a quantisation other than bitsandbytes'");
    return ERR_OK;
}

/* model/model_meta.py AttnImpl: flash_attn is the newest that is installed; its second is what most have. */
static enum err_code read_attention(struct theirs *t, const struct their_key *key, const struct json *v)
{
    return is_among("flash_attn", v) ? theirs_say_word(t, key->member, "flash_attention_2") : theirs_read_attention(t, key, v);
}

static enum err_code read_task(struct theirs *t, const struct their_key *key, const struct json *v)
{
    if (is_among("causal_lm", v))
        return ERR_OK;
    if (is_among("seq_cls", v))
        return theirs_say_word(t, key->member, "classification");
    theirs_gap(&t->d, "a loss of ms-swift's own");
    return ERR_OK;
}

static bool asks_for(struct theirs *t, const char *key, const char *words)
{
    const struct json *v = json_get(t->arguments, key);

    return v && is_among(words, v);
}

/* loss_scale/mapping.py get_loss_scale(): scales of nought and one are labels (template/base.py _encode_context_list), others are a loss of each token. */
static enum err_code read_scale(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const char binary[] = "default|last_round|all|base|ignore_empty_think|ignore_think_prefix";
    const char *s = json_str(v);
    bool labels = false, told = theirs_flag(json_get(t->doc, "is_binary_loss_scale"), &labels), weighs = told && !labels;

    (void)key;
    for (size_t k; s && *s && !labels; s += k + (s[k] == '+')) {
        k = strcspn(s, "+");
        weighs = weighs || !word_among(binary, s, k, false);
    }
    if (weighs)
        theirs_gap(&t->d, "a loss of each token by itself");
    return ERR_OK;
}

/* seq2seq_trainer.py _prepare_inputs: a weight has the forward of a mixture return its router's logits; others have no use for either. */
static enum err_code read_balance(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *weight;
    enum err_code rc = theirs_read_weight(t, v, &weight);

    (void)key;
    if (rc || !weight || weight[0] == '-')
        return rc;
    if (json_get(t->doc, "rlhf_type")) {
        theirs_gap(&t->d, "the balancing loss of experts beside a preference's");
        return ERR_OK;
    }
    theirs_change(t, &(struct config_change){.name = "router_aux_loss_coef", .text = weight, .of_text = true});
    theirs_change(t, &(struct config_change){.name = "output_router_logits", .text = "true", .of_text = true});
    return ERR_OK;
}

/* rlhf_trainers: RewardTrainer's step is that of trl 1.16, the others' their own. arguments/rlhf_args.py _init_simpo(): simpo is cpo with another loss_type. */
static enum err_code read_rlhf(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *stage = json_str(v);
    enum err_code rc;

    if (is_among("rm", v))
        return theirs_say_word(t, key->member, "reward");
    if (!is_among("dpo|kto|orpo|cpo|simpo", v)) {
        theirs_gap(&t->d, "a trainer of ms-swift's own over trl's (training.stage is trl 1.16's)");
        return ERR_OK;
    }
    if (is_among("cpo|simpo", v))
        stage = asks_for(t, "loss_type", "simpo") || (is_among("simpo", v) && !asks_for(t, "loss_type", "sigmoid")) ? "simpo" : "cpo";
    rc = theirs_say_word(t, key->member, stage);
    return rc ? rc : theirs_say_word(t, "training.trainer", "ms-swift");
}

/* trl 0.29.1 experimental/cpo/cpo_trainer.py: 0 leaves the loss of the chosen rows out, and its copy of their logits. */
static enum err_code read_alpha(struct theirs *t, const struct their_key *key, const struct json *v)
{
    double alpha = 1;

    (void)key;
    if (json_number(v, &alpha) && alpha == 0 && asks_for(t, "rlhf_type", "cpo|simpo"))
        theirs_gap(&t->d, "CPO without the loss of the chosen rows (cpo_alpha 0)");
    return ERR_OK;
}

/* _set_default(): what each trainer has unasked; ORPOTrainer reads none. */
static enum err_code read_loss(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *own = asks_for(t, "rlhf_type", "kto") ? "kto" : asks_for(t, "rlhf_type", "cpo|simpo") ? "sigmoid|simpo" : "sigmoid";

    (void)key;
    if (!asks_for(t, "rlhf_type", "orpo") && !is_among(own, v))
        theirs_gap(&t->d, "a loss of ms-swift's own");
    return ERR_OK;
}

static enum err_code read_ref_model(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *reference = json_str(v), *model = json_str(json_get(t->arguments, "model"));

    (void)key;
    if (reference && (!model || strcmp(reference, model) != 0))
        theirs_gap(&t->d, "a reference other than the model as it was");
    return ERR_OK;
}

/* --- config/NAME.json ------------------------------------------------------------------------------------------------------------ */

static enum err_code read_deepspeed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    t->e->deepspeed = true;
    if (json_type(v) == JSON_OBJECT)
        return theirs_walk(t, v, deepspeed_keys, false);
    return theirs_read_file_name(t, key, v);
}

static const struct their_key fsdp_file_keys[] = {
    BY(theirs_read_fsdp, "fsdp", NULL),
    OBJECT("fsdp_config", fsdp_keys),
    KNOWN("_description|_requires|_note|_param_docs"),
    {0},
};

/* fsdp2.json checkpoints by FSDP, in the place of gradient_checkpointing. */
static enum err_code read_fsdp(struct theirs *t, const struct their_key *key, const struct json *v)
{
    if (is_among("fsdp2", v))
        return theirs_walk_text(t,
                                "{\"fsdp\":\"full_shard auto_wrap\",\"fsdp_config\":{\"fsdp_version\":2,\"reshard_after_forward\":true,"
                                "\"auto_wrap_policy\":\"TRANSFORMER_BASED_WRAP\",\"cpu_ram_efficient_loading\":true,"
                                "\"activation_checkpointing\":true}}",
                                fsdp_file_keys);
    if (json_type(v) == JSON_OBJECT)
        return theirs_walk(t, v, fsdp_file_keys, false);
    return theirs_read_fsdp(t, key, v);
}

/* --- what hangs on other keys ---------------------------------------------------------------------------------------------------- */

/* trainers/arguments.py: 16 sequences a step over all processes. */
static enum err_code settle_accumulation(struct theirs *t)
{
    const struct training_request *r = &t->e->rq.training;
    uint64_t gpus = theirs_gpus(t), rows = r->micro_batch_size.whole * (gpus ? gpus : 1);
    char text[24];

    if (!rows || theirs_is_filled(t, "training.global_batch_size"))
        return ERR_OK;
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)(rows < 16 ? (16 + rows - 1) / rows : 1));
    return theirs_leave_out(t, "training.gradient_accumulation_steps", text, "gradient_accumulation_steps");
}

/* mixin.py _fix_gradient_checkpointing: reentrant but under torchrun's plain data parallelism. */
enum err_code ms_swift_settle(struct theirs *t)
{
    bool plain = theirs_gpus(t) > 1 && !t->e->deepspeed && !t->at.stage && !t->at.strategy && !t->e->rq.deepspeed_config;
    enum err_code rc = settle_accumulation(t);

    if (asks_for(t, "rlhf_type", "kto"))
        note_of(&t->e->assumptions, NOTE_OF_YOURS,
                "every token has a label (with one row all but the first): ms-swift's use_logits_to_keep then keeps the logits of all");
    else if (!asks_for(t, "rlhf_type", "orpo|cpo|simpo"))
        note_of(&t->e->assumptions, NOTE_OF_YOURS,
                "every token has a label: ms-swift's use_logits_to_keep then keeps the logits of all (with one row it copies the last hidden states "
                "besides, which is not in the figures)");
    return rc ? rc
              : theirs_leave_out(t, "training.checkpoint_reentrant", plain ? "false" : "true",
                                 "gradient_checkpointing_kwargs.use_reentrant");
}

/* --- the table ------------------------------------------------------------------------------------------------------------------- */

/* "a b", or a list, as (?:a|b): what names begin with. A regular expression: what is in them. */
static size_t add_names(char *text, size_t room, const struct json *names, const struct json *regex)
{
    const char *one = json_str(names), *inside = json_str(regex);
    size_t n = (size_t)snprintf(text, room, "(?:"), empty = n;

    for (const struct json *e = one ? names : json_type(names) == JSON_ARRAY ? json_first(names) : NULL; e && n < room; e = one ? NULL : json_next(e))
        for (const char *s = json_str(e); s && *s && n < room; s += strspn(s, " ")) {
            size_t k = strcspn(s, " ");

            n += n > empty ? (size_t)snprintf(text + n, room - n, "|") : 0;
            for (size_t i = 0; i < k && n < room; i++)
                n += (size_t)snprintf(text + n, room - n, "%s%c", strchr(".+*?()[]{}|^$\\", s[i]) ? "\\" : "", s[i]);
            s += k;
        }
    if (inside && *inside && n < room)
        n += (size_t)snprintf(text + n, room - n, "%s.*(?:%s)", n > empty ? "|" : "", inside);
    if (n == empty)
        return 0;
    return n < room ? n + (size_t)snprintf(text + n, room - n, ")") : n;
}

/*
 * Full tuning of a part: what is frozen by a share, by names and by a regular expression, and what is trained all the same, as one pattern of what is trained.
 * utils/transformers_utils.py freeze_parameters, activate_parameters; beside adapters tuner.py reads none of it.
 */
static enum err_code read_part(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const struct json *doc = t->doc, *share = json_get(doc, "freeze_parameters_ratio");
    char text[PATTERN_MAX_BYTES + 8] = "", frozen[PATTERN_MAX_BYTES], trained[PATTERN_MAX_BYTES];
    size_t no = add_names(frozen, sizeof frozen, json_get(doc, "freeze_parameters"), json_get(doc, "freeze_parameters_regex"));
    size_t yes = add_names(trained, sizeof trained, json_get(doc, "trainable_parameters"), json_get(doc, "trainable_parameters_regex"));
    double ratio = 0;
    size_t n = 0;
    enum err_code rc = ERR_OK;

    (void)v;
    if (!is_among("full", json_get(doc, "tuner_type")) && !is_among("full", json_get(doc, "train_type")) && !is_among("full", json_get(doc, "sft_type")))
        return ERR_OK;
    if (share && !json_number(share, &ratio) && (!json_str(share) || sscanf(json_str(share), "%lf", &ratio) != 1))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "freeze_parameters_ratio is a number from 0 to 1");
    if (no >= sizeof frozen || yes >= sizeof trained || (ratio > 0 && no)) {
        theirs_gap(&t->d, no && ratio > 0 ? "parameters that are frozen by a share and by names" : "so many names of parameters");
        return ERR_OK;
    }
    if (ratio > 0)
        rc = theirs_say(t, "training.freeze_ratio", share);
    if (yes && (no || ratio > 0)) /* without anything frozen it changes nothing */
        n += (size_t)snprintf(text + n, sizeof text - n, "%s.*", trained);
    if (no && n < sizeof text)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s(?!%s).*", n ? "|" : "", frozen);
    if (n > PATTERN_MAX_BYTES) {
        theirs_gap(&t->d, "so many names of parameters");
        return ERR_OK;
    }
    return rc || !n ? rc : theirs_say_plain(t, key->member, text);
}

const struct their_key ms_swift_keys[] = {
    OBJECT("launcher", launcher_keys),
    BY(read_tuner, "tuner_type|train_type|sft_type", "training.tuning"),
    SAY("max_length", "training.seq_len"),
    BY(theirs_read_flat, "packing|padding_free", "training.packing"),
    SAY("lora_rank", "training.lora.rank"),
    SAY("lora_alpha", "training.lora.alpha"),
    SAY("lora_dropout", "training.lora.dropout"),
    SAY("use_dora", "training.lora.use_dora"),
    BY(read_targets, "target_modules", "training.lora.target_modules"),
    SAY("target_regex", "training.lora.target_modules"),
    SAY("target_parameters", "training.lora.target_parameters"),
    BY(read_targets, "modules_to_save", "training.lora.modules_to_save"),
    BY(theirs_read_dtype, "torch_dtype|dtype", "training.precision"),
    BY(read_attention, "attn_impl|attn_implementation", "training.attention"),
    BY(read_quant_method, "quant_method", NULL),
    BY(read_bits, "quant_bits", "training.quantization"),
    BY(read_task, "task_type", "training.stage"),
    BY(read_deepspeed, "deepspeed", NULL),
    BY(read_fsdp, "fsdp", NULL),
    SAY("model_revision", "revision"),
    BY(read_rlhf, "rlhf_type", "training.stage"),
    BY(read_ref_model, "ref_model", NULL),
    MOVES("ref_adapters|ref_adapter_name|reference_free", "a reference other than the model as it was"),
    NOTE("rpo_alpha", "the loss of the chosen rows, which is made in any case, gives some numbers a token a gradient too"),
    MOVES("ld_alpha|loss_weights|center_rewards_coefficient", "a loss beside the stage's own"),
    MOVES_BUT("peft", "tuner_backend", "another backend of adapters"),
    MOVES("use_swift_lora", "adapters of ms-swift's own"),
    SAY("lora_bias", "training.lora.bias"),
    MOVES_BUT("float32|fp32", "lora_dtype", "adapters in half"),
    MOVES_BUT("true|false|gaussian", "init_weights", "adapters that are made of the weights"),
    BY(read_part, "freeze_parameters|freeze_parameters_regex|freeze_parameters_ratio|trainable_parameters|trainable_parameters_regex", "training.trainable"),
    MOVES("freeze_llm", "training a part of the model (training.freeze says it)"),
    MOVES_BUT("true", "freeze_vit|freeze_aligner", "training an image tower or its projector"),
    MOVES("use_galore|lisa_activated_layers|optimizer", "an optimizer of ms-swift's own"),
    MOVES_BUT("1", "sequence_parallel_size", "ms-swift's sequence parallelism"),
    BY(read_loss, "loss_type", "training.stage"),
    BY(read_alpha, "cpo_alpha", NULL),
    MOVES("enable_dft_loss|enable_channel_loss", "a loss of ms-swift's own"),
    BY(read_scale, "loss_scale", NULL),
    BY(read_balance, "router_aux_loss_coef", NULL),
    MOVES("new_special_tokens", "a vocabulary that grows (config.vocab_size says it)"),
    MOVES("rope_scaling", "a rope of another kind (config.rope_scaling says it)"),
    BY(theirs_read_labels, "num_labels", NULL),
    BY(theirs_read_problem, "problem_type", NULL),
    MOVES_BUT("auto", "device_map", "a model that is cut as it is loaded"),
    MOVES("max_memory", "a model that is cut as it is loaded"),
    MOVES("external_plugins|custom_register_path|callbacks", "plugins, which change the model, the loss or the step"),
    MOVES_BUT("grouped_mm", "experts_impl", "an implementation of the experts"),
    MOVES_BUT("1", "zero_hpz_partition_size", "ZeRO++'s second copy within a node"),
    SAY("deepspeed_autotp_size", "training.tensor_parallel"),
    MOVES("mrl_dims", "a loss of ms-swift's own"),
    KNOWN(
        "model|model_type|model_name|model_author|model_kwargs|template|template_backend|system|dataset|val_dataset|cached_dataset|"
        "cached_val_dataset|split_dataset_ratio|dataset_num_proc|load_from_cache_file|dataset_shuffle|val_dataset_shuffle|streaming|"
        "interleave_prob|stopping_strategy|shuffle_buffer_size|download_mode|columns|strict|disable_auto_column_mapping|custom_dataset_info|"
        "decision_drop_instructions|decision_subsample_options|decision_state_as_text|decision_shuffle_fields|truncation_strategy|max_pixels|"
        "agent_template|norm_bbox|use_chat_template|padding_side|is_binary_loss_scale|response_prefix|enable_thinking|preserve_thinking|"
        "add_non_thinking_prefix|disable_ignore_empty_think|max_new_tokens|temperature|top_k|top_p|repetition_penalty|num_beams|stream|"
        "stop_words|logprobs|top_logprobs|structured_outputs_regex|hqq_axis|bnb_4bit_compute_dtype|bnb_4bit_quant_type|"
        "bnb_4bit_use_double_quant|bnb_4bit_quant_storage|max_model_len|local_repo_path|init_strategy|adapters|"
        "enable_npu_model_patch|load_args|load_data_args|packing_length|packing_num_proc|packing_strategy|lazy_tokenize|use_hf|"
        "ignore_args_error|add_version|create_checkpoint_symlink|use_ray|ray_exp_name|device_groups|loss_scale_type|to_cached_dataset"),
    KNOWN(
        "use_rslora|lorap_lr_ratio|lora_ga_batch_size|lora_ga_iters|lora_ga_max_length|lora_ga_direction|lora_ga_scale|lora_ga_stable_gamma|"
        "fourier_n_frequency|fourier_scaling|boft_block_size|boft_block_num|boft_n_butterfly_factor|boft_dropout|vera_rank|"
        "vera_projection_prng_key|vera_dropout|vera_d_initial|adapter_act|adapter_length|adalora_target_r|adalora_init_r|adalora_tinit|"
        "adalora_tfinal|adalora_deltaT|adalora_beta1|adalora_beta2|adalora_orth_reg_weight|llamapro_num_new_blocks|llamapro_num_groups|"
        "reft_layer_key|reft_layers|reft_rank|reft_intervention_type|reft_args"),
    KNOWN("vit_gradient_checkpointing|safe_serialization|max_shard_size|check_model|acc_strategy|train_dataloader_shuffle|max_epochs|"
          "aligner_lr|vit_lr|use_logits_to_keep|ds3_gather_for_generation|resume_only_model|eval_metric|metric|early_stop_interval|"
          "eval_use_evalscope|eval_dataset|eval_dataset_args|eval_limit|eval_generation_config|extra_eval_args|galore_target_modules|"
          "galore_rank|galore_update_proj_gap|galore_scale|galore_proj_type|galore_optim_per_parameter|galore_with_embedding|"
          "galore_quantization|galore_proj_quant|galore_proj_bits|galore_proj_group_size|galore_cos_threshold|galore_gamma_proj|"
          "galore_queue_size|lisa_step_interval|use_flash_ckpt|swanlab_token|swanlab_project|swanlab_workspace|swanlab_exp_name|"
          "swanlab_notification_method|swanlab_webhook_url|swanlab_secret|swanlab_sender_email|swanlab_receiver_email|swanlab_smtp_server|"
          "swanlab_smtp_port|swanlab_email_language|swanlab_mode"),
    /* Of rlhf alone, which rlhf_type has left out. */
    KNOWN(
        "ref_model_type|ref_model_revision|beta|label_smoothing|max_completion_length|discopop_tau|"
        "simpo_gamma|desirable_weight|undesirable_weight|sft_alpha|lmbda|seq_kd|"
        "gkd_logits_topk|reward_model|reward_adapters|reward_model_type|reward_model_revision|reward_template|teacher_model|"
        "teacher_adapters|teacher_model_type|teacher_model_revision|teacher_deepspeed|teacher_model_server|offload_teacher_model|"
        "num_ppo_epochs|whiten_rewards|kl_coef|cliprange|vf_coef|cliprange_value|gamma|lam|num_mini_batches|"
        "local_rollout_forward_batch_size|num_sample_generations|response_length|missing_eos_penalty|num_generations|reward_funcs|"
        "reward_weights|log_completions|num_iterations|min_p|use_vllm|async_generate|sleep_level|"
        "move_model_batches|offload_optimizer|offload_model|wandb_log_unique_prompts|generation_batch_size|steps_per_generation|"
        "teacher_tag_key|epsilon|epsilon_high|delta|reward_model_plugin|sync_ref_model|ref_model_sync_steps|ref_model_mixup_alpha|"
        "multi_turn_scheduler|max_turns|completion_length_limit_scope|use_gym_env|gym_env|dynamic_sample|max_resample_times|overlong_filter|"
        "soft_max_length|soft_cache_length|scale_rewards|log_entropy|top_entropy_quantile|importance_sampling_level|advantage_estimator|"
        "kl_in_reward|num_generations_eval|enable_flattened_weight_sync|tau_pos|tau_neg|real_tau|advantage_reweight|sdar_loss_coef|"
        "sdar_gate_beta|teacher_kl_coef|off_policy_sequence_mask_delta|log_rollout_offpolicy_metrics|rollout_importance_sampling_mode|"
        "rollout_importance_sampling_threshold|repetition_n_grams|repetition_max_penalty"),
    KNOWN(
        "vllm_mode|vllm_gpu_memory_utilization|vllm_tensor_parallel_size|vllm_pipeline_parallel_size|vllm_enable_expert_parallel|"
        "vllm_max_num_seqs|vllm_max_model_len|vllm_disable_custom_all_reduce|vllm_enforce_eager|vllm_limit_mm_per_prompt|vllm_max_lora_rank|"
        "vllm_enable_prefix_caching|vllm_use_async_engine|vllm_quantization|vllm_reasoning_parser|vllm_disable_cascade_attn|"
        "vllm_mm_processor_cache_gb|vllm_speculative_config|vllm_engine_kwargs|vllm_data_parallel_size|vllm_enable_lora|"
        "vllm_server_base_url|vllm_server_host|vllm_server_port|vllm_server_timeout|vllm_server_group_port|vllm_server_pass_dataset|"
        "cosine_min_len_value_wrong|cosine_max_len_value_wrong|cosine_min_len_value_correct|cosine_max_len_value_correct|cosine_max_len|"
        "chord_sft_dataset|chord_sft_per_device_train_batch_size|chord_enable_phi_function|chord_mu_warmup_steps|chord_mu_decay_steps|"
        "chord_mu_peak|chord_mu_valley|rlsd_lambda|rlsd_reweight_clip_range|rlsd_lambda_warmup_steps|rlsd_lambda_decay_steps|"
        "rlsd_negative_only|fipo_decay_rate|fipo_clip_range|fipo_clip_high_only|fipo_safety_threshold"),
    TABLE(transformers_keys),
    {0},
};
