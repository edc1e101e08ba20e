/*
 * What trl's configs have beside TrainingArguments: SFTConfig and ModelConfig, and the names that only another trainer's config has.
 *
 * Source    trl 1.16.0, 0.23.1, 0.19.1, 0.12.2, 0.9.6 and 0.8.6 trainer/..._config.py, scripts/utils.py: every field of SFTConfig, DPOConfig,
 *           KTOConfig, RewardConfig, GRPOConfig, RLOOConfig, DistillationConfig and ModelConfig is here (tests/data/members).
 */
#include "api/theirs/theirs.h"

#include <string.h>

/* The one that docs/options.md has of each stage. */
static bool says_stage_loss(const struct theirs *t, const char *loss)
{
    static const struct {
        const char *stage, *loss;
    } own[] = {{"dpo", "sigmoid"}, {"kto", "kto"}, {"cpo", "sigmoid"}, {"simpo", "simpo"}};

    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (has_word(&t->e->rq.training.stage, stage_words, own[i].stage))
            return !strcmp(own[i].loss, loss);
    return false;
}

/* SFTConfig.loss_type, or another trainer's. 1.16.0 computes "nll" a chunk of the tokens at a time, without all logits; "chunked_nll" is its older name. */
static enum err_code read_loss(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(json_type(v) == JSON_ARRAY && json_count(v) == 1 ? json_first(v) : v);

    if (s && theirs_has_stage(t) && says_stage_loss(t, s))
        return ERR_OK;
    if (s && !theirs_has_stage(t) && word_among("nll|chunked_nll", s, strlen(s), false))
        return theirs_say_word(t, key->member, "chunked_nll");
    theirs_gap(&t->d, "a loss of trl's own");
    return ERR_OK;
}

/* The trainers of 1.16 have a mixture's balancing loss unasked: its weight moves no memory, 0 does. */
static enum err_code read_balance(struct theirs *t, const struct their_key *key, const struct json *v)
{
    double weight = 1;

    (void)key;
    if (json_type(v) != JSON_NULL && json_number(v, &weight) && weight == 0)
        theirs_change(t, &(struct config_change){.name = "router_aux_loss_coef", .value = v, .of_text = true});
    return ERR_OK;
}

/* Of a preference trainer, where training.stage or the command says which; without, nobody knows whose file it is. */
static enum err_code read_preference(struct theirs *t, const struct their_key *key, const struct json *v)
{
    if (json_type(v) != JSON_NULL && !theirs_has_stage(t))
        theirs_gap(&t->d, "a trainer of trl's other than SFTTrainer: training.stage says which (dpo, kto, orpo, cpo, simpo, reward), and has figures");
    (void)key;
    return ERR_OK;
}

/* The same of what moves memory, but for its neutral values. */
static enum err_code read_preference_option(struct theirs *t, const struct their_key *key, const struct json *v)
{
    if (!theirs_has_stage(t))
        return read_preference(t, key, v);
    if (!theirs_is_neutral(key, v))
        theirs_gap(&t->d, "an option of this trainer's");
    return ERR_OK;
}

static enum err_code read_precomputed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;
    enum err_code rc = read_preference(t, key, v);

    if (!rc && json_type(v) != JSON_NULL)
        rc = theirs_flag_only(t, v, &on);
    return rc || !on || !theirs_has_stage(t) ? rc : theirs_say_word(t, key->member, "precomputed");
}

/* trl 1.16.0 trainer/sft_trainer.py: padding_free flattens a batch to one row, whether its rows are packed or not; ms-swift's the same (template/base.py). */
enum err_code theirs_read_flat(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool packed = false, flat = false;

    (void)v;
    (void)theirs_flag(json_get(t->doc, "packing"), &packed);
    (void)theirs_flag(json_get(t->doc, "padding_free"), &flat);
    return theirs_say_text(t, key->member, packed || flat ? "true" : "false");
}

/* true: TRL's OffloadActivations; axolotl's "legacy", "disk" and "hidden_states" are others. */
static enum err_code read_activations(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;

    if (json_bool(v, &on))
        return on ? theirs_say_word(t, key->member, "activations") : ERR_OK;
    if (json_str(v))
        theirs_gap(&t->d, "kept activations on the host");
    return ERR_OK;
}

/* axolotl quantises scales too (0.19.0 loaders/model.py); trl where use_bnb_nested_quant says so (0.9.6, 0.12.2, 1.16.0 trainer/utils.py). */
static enum err_code read_4bit(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on, twice = json_get(t->doc, "base_model") || json_get(t->doc, "adapter") || json_get(t->doc, "sequence_len");
    const char *type = json_str(json_get(t->doc, "bnb_4bit_quant_type"));
    bool fp4 = type && !strcmp(type, "fp4");
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (rc || !on)
        return rc;
    if (t->tool)
        twice = theirs_tool_is(t, TOOL_AXOLOTL);
    (void)theirs_flag(json_get(t->doc, "use_bnb_nested_quant"), &twice);
    if (fp4 && twice)
        theirs_gap(&t->d, "fp4 whose scales are quantised too");
    return theirs_say_word(t, key->member, fp4 ? "fp4" : twice ? "nf4-dq" : "nf4");
}

const struct their_key trl_keys[] = {
    SAY("max_length|max_seq_length", "training.seq_len"),
    BY(theirs_read_flat, "packing|padding_free", "training.packing"),
    BY(read_loss, "loss_type", "training.loss"),
    OBJECT("model_init_kwargs", theirs_model_init_keys),
    BY(theirs_read_dtype, "dtype|torch_dtype", "training.precision"),
    BY(theirs_read_attention, "attn_implementation", "training.attention"),
    FLAG("use_peft", "training.tuning=\"lora\""),
    SAY("lora_r", "training.lora.rank"),
    SAY("lora_alpha", "training.lora.alpha"),
    SAY("lora_dropout", "training.lora.dropout"),
    BY(theirs_read_targets, "lora_target_modules", "training.lora.target_modules"),
    SAY("lora_modules_to_save", "training.lora.modules_to_save"),
    SAY("lora_target_parameters", "training.lora.target_parameters"),
    FLAG("load_in_8bit", "training.quantization=\"int8\""),
    BY(read_4bit, "load_in_4bit", "training.quantization"),
    BY(theirs_read_liger, "use_liger", "training.liger_kernels"),
    /* sft_trainer.py 1.16.0: rows without padding follow from bfd */
    MOVES_BUT("bfd|bfd_split|ffd", "packing_strategy", "rows of wrapped text, with a mask of their own"),
    BY(read_activations, "activation_offloading", "training.offload"),
    BY(read_balance, "router_aux_loss_coef", "config.router_aux_loss_coef"),
    MOVES("use_liger_loss", "Liger's losses"),
    KNOWN(
        "eval_packing|dataset_text_field|dataset_kwargs|dataset_num_proc|dataset_batch_size|num_of_sequences|chars_per_token|"
        "pad_token|eos_token|pad_to_multiple_of|completion_only_loss|assistant_only_loss|chat_template_path|shuffle_dataset|truncation_mode|"
        "trust_remote_code|chat_template_kwargs"),
    KNOWN(
        "model_name_or_path|model_revision|lora_task_type|use_rslora|bnb_4bit_quant_type|use_bnb_nested_quant|bnb_4bit_quant_storage|dataset_name|"
        "dataset_config|dataset_train_split|dataset_test_split|dataset_streaming|ignore_bias_buffers|dataset_mixer|datasets|callbacks|"
        "dataset_mixture|dataset_splits|"
        "exp_name|tracker_project_name|tracker_kwargs|accelerator_kwargs|project_kwargs|logdir|sanity_check|log_with|task_name|num_epochs"),
    /* DPO, KTO, ORPO, CPO, reward models: factors and lengths of data, then what moves memory */
    BY(read_preference,
       "beta|desirable_weight|undesirable_weight|max_prompt_length|max_target_length|precompute_ref_batch_size",
       NULL),
    BY(read_precomputed, "precompute_ref_log_probs", "training.reference"),
    KEYS("disable_dropout", .effect = READ, .read = read_preference_option, .neutral = "true"),
    KEYS("f_divergence_type", .effect = READ, .read = read_preference_option, .neutral = "reverse_kl"),
    KEYS("cpo_alpha", .effect = READ, .read = read_preference_option, .neutral = "1"),
    BY(read_preference_option,
       "label_smoothing|use_weighting|f_alpha_divergence_coef|discopop_tau|loss_weights|ld_alpha|center_rewards_coefficient|rpo_alpha|tpo_alpha|"
       "tpo_l_gamma|reference_free|sync_ref_model|force_use_ref_model|ref_model_init_kwargs|ref_adapter_name|model_adapter_name|"
       "use_logits_to_keep|generate_during_eval|is_encoder_decoder",
       NULL),
    KNOWN("simpo_gamma|ref_model_mixup_alpha|ref_model_sync_steps|label_pad_token_id|padding_value|base_model_attribute_name|tools"),
    /* GRPO, RLOO, PPO, distillation */
    MOVES(
        "num_generations|max_completion_length|response_length|use_vllm|num_iterations|steps_per_generation|"
        "generation_batch_size|reward_weights|"
        "cast_lm_head_to_fp32|scale_rewards|reward_model_path|sft_model_path|num_ppo_epochs|mini_batch_size|"
        "num_mini_batches|local_rollout_forward_batch_size|rloo_k|kl_coef|teacher_model_name_or_path|lmbda|seq_kd|teacher_temperature|"
        "importance_sampling_level|epsilon|use_transformers_continuous_batching|entropy_coef|use_adaptive_entropy|mask_truncated_completions|"
        "backward_batch_size|forward_batch_size|optimize_cuda_cache|optimize_device_cache|total_episodes|whiten_rewards|use_uld_loss|"
        "max_tool_calling_iterations|top_entropy_quantile|delta|epsilon_high|distillation_mode|distillation_alpha|distillation_weight",
        "a trainer of trl's other than SFTTrainer"),
    KNOWN(
        "max_new_tokens|num_generations_eval|ds3_gather_for_generation|temperature|top_p|top_k|min_p|generation_kwargs|repetition_penalty|"
        "cache_implementation|vllm_mode|vllm_model_impl|vllm_enable_sleep_mode|vllm_structured_outputs_regex|vllm_server_base_url|"
        "vllm_server_host|vllm_server_port|vllm_server_timeout|vllm_group_port|vllm_gpu_memory_utilization|vllm_max_model_length|"
        "vllm_tensor_parallel_size|vllm_guided_decoding_regex|vllm_sync_frequency|sapo_temperature_neg|sapo_temperature_pos|vespo_k_pos|"
        "vespo_lambda_pos|vespo_k_neg|vespo_lambda_neg|multi_objective_aggregation|entropy_coef_min|entropy_coef_max|entropy_coef_delta|"
        "entropy_target|vllm_importance_sampling_correction|vllm_importance_sampling_mode|vllm_importance_sampling_clip_max|"
        "vllm_importance_sampling_clip_min|vllm_importance_sampling_cap|off_policy_mask_threshold|use_bias_correction_kl|log_completions|"
        "log_multimodal|num_completions_to_print|log_unique_prompts|log_completions_hub_repo|log_completions_steps|"
        "transformers_continuous_batching_config|use_transformers_paged|normalize_advantages|normalize_advantage|normalize_reward|"
        "reward_clip_range|teacher_model_revision|teacher_model_init_kwargs|wandb_log_unique_prompts|num_sample_generations|"
        "stop_token|stop_token_id|missing_eos_penalty|kl_estimator|cliprange|cliprange_value|vf_coef|gamma|lam|kl_penalty|"
        "adap_kl_ctrl|init_kl_coef|target_kl|horizon|score_clip|use_score_norm|use_score_scaling|token_level_kl|step_separator|train_on_last_step_only"),
    /* scripts of older releases and experimental trainers */
    MOVES(
        "add_tail_bucket|allow_tf32|alpha|async_reward_computation|beta1|beta2|compare_steps|diagnostics_flat_tolerance|"
        "diagnostics_warning_interval|distillation_add_tail|distillation_is_clip|distillation_objective|distillation_topk|"
        "dont_reprompt_on_self_success|early_stopping|environment_feedback_only_without_solution|feedback_template|filter_all_incorrect|"
        "fork_threshold_tokens|generate_from_teacher|global_backward_batch_size|gpu_memory_utilization|heartbeat_stale_after_s|"
        "include_environment_feedback|is_peft_model|iw_opd_epsilon|iw_opd_gamma|judge|log_image_freq|loss_add_tail|loss_top_k|"
        "max_density_ratio|max_inflight_tasks|max_reprompt_len|max_staleness|max_workers|min_density_ratio|mixture_coef|"
        "model_name|negative_prompts|non_eos_penalty|num_checkpoint_limit|num_loss_tokens_to_skip|num_value_samples|penalty_reward_value|"
        "per_prompt_stat_tracking|per_prompt_stat_tracking_buffer_size|per_prompt_stat_tracking_min_count|prompt_sample_size|"
        "push_to_hub_if_best_kwargs|query_dataset|queue_maxsize|ratio_threshold|remove_thinking_from_demonstration|reprompt_template|"
        "request_timeout|resume_from|reverse_kl_top_1_mode|sample_batch_size|sample_eta|sample_guidance_scale|sample_num_batches_per_epoch|"
        "sample_num_steps|save_freq|solution_template|steps|success_reward_threshold|target|teacher_model_kind|teacher_model_server_url|"
        "teacher_prompt_template|teacher_server_urls|teacher_sync_steps|teacher_tokenizer_name_or_path|teacher_top_k|teacher_update_rate|"
        "token_budget|train_adam_beta1|train_adam_beta2|train_adam_epsilon|train_adam_weight_decay|train_adv_clip_max|train_cfg|"
        "train_clip_range|train_gradient_accumulation_steps|train_learning_rate|train_max_grad_norm|train_num_inner_epochs|"
        "train_timestep_fraction|train_use_8bit_adam|truncated_backprop_rand|truncated_backprop_timestep|truncated_rand_backprop_minmax|"
        "uld_crossentropy_weight|uld_distillation_weight|uld_hybrid_matched_weight|uld_hybrid_unmatched_weight|uld_skip_student_eos|"
        "uld_skip_teacher_eos|uld_student_temperature|uld_teacher_temperature|uld_token_merge_strategy|uld_use_hybrid_loss|"
        "use_extended_uld|use_successful_as_teacher|use_teacher_server|weight_sync_steps|weight_sync_timeout",
        "a trainer of trl's other than SFTTrainer"),
    {0},
};
