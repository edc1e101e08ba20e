/*
 * What open-instruct's finetune.py and dpo_tune_cache.py take, as a YAML file or as the command. Their loop over accelerate is read as the
 * Trainer's: it drops the model's outputs before backward and has two groups of parameters.
 *
 * Source    allenai/open-instruct e6c3044a open_instruct/finetune.py FlatArguments, dpo_utils.py DPOExperimentConfig,
 *           dataset_transformation.py TokenizerConfig (tests/data/members)
 *           and the keys that its configs/train_configs still have.
 */
#include "api/theirs/theirs.h"

#include <string.h>

/* finetune.py: the seven linear layers of a Llama. */
static enum err_code read_lora(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (!rc && on)
        rc = theirs_say_word(t, key->member, "lora");
    if (rc || !on || theirs_is_filled(t, "training.lora.target_modules"))
        return rc;
    return theirs_say_text(t, "training.lora.target_modules",
                           "[\"q_proj\",\"o_proj\",\"v_proj\",\"k_proj\",\"gate_proj\",\"up_proj\",\"down_proj\"]");
}

static enum err_code read_qlora(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false, small = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)theirs_flag(json_get(t->doc, "use_8bit_optimizer"), &small);
    if (!rc && on)
        rc = theirs_say_word(t, key->member, "nf4-dq");
    return rc || !on ? rc : theirs_say_word(t, "training.optimizer", small ? "paged_adamw_8bit" : "paged_adamw_32bit");
}

static enum err_code read_fused(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = true, quantised = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)theirs_flag(json_get(t->doc, "use_qlora"), &quantised);
    return rc || quantised ? rc : theirs_say_word(t, key->member, on ? "adamw_torch_fused" : "adamw_torch");
}

/* -1: none */
static enum err_code read_clip(struct theirs *t, const struct their_key *key, const struct json *v)
{
    double most;

    return json_number(v, &most) && most <= 0 ? theirs_say_text(t, key->member, "0") : theirs_say(t, key->member, v);
}

/* Without QLoRA it makes no such optimizer. */
static enum err_code read_8bit(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;

    (void)key;
    return theirs_flag_only(t, v, &on);
}

/* dpo_tune_cache.py: bitsandbytes' AdamW in paged memory. */
static enum err_code read_paged(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false, small = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)theirs_flag(json_get(t->doc, "use_8bit_optimizer"), &small);
    return rc || !on ? rc : theirs_say_word(t, key->member, small ? "paged_adamw_8bit" : "paged_adamw_32bit");
}

/* dpo_utils.py DPOLossType; dpo_norm divides what dpo sums. */
static enum err_code read_loss(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (!s || !word_among("dpo|dpo_norm|simpo", s, strlen(s), false)) {
        theirs_gap(&t->d, "a loss other than dpo, dpo_norm and simpo");
        return ERR_OK;
    }
    return theirs_say_word(t, key->member, strcmp(s, "simpo") != 0 ? "dpo" : s);
}

/* Two forwards, one after the other. */
static enum err_code read_together(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = true;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)key;
    if (!rc && !on)
        theirs_gap(&t->d, "chosen and rejected rows in forwards of their own");
    return rc;
}

/* OLMo-core's names; model_utils.py olmo_core_attn_to_hf(). */
static enum err_code read_backend(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (s && word_among("flash_2|flash_3|torch", s, strlen(s), false))
        return theirs_say_word(t, key->member, !strcmp(s, "torch") ? "sdpa" : !strcmp(s, "flash_2") ? "flash_attention_2" : "flash_attention_3");
    return s ? theirs_read_attention(t, key, v) : ERR_OK;
}

/* Budgets below 1 checkpoint the whole layer. */
static enum err_code read_budget(struct theirs *t, const struct their_key *key, const struct json *v)
{
    double budget;

    return json_number(v, &budget) ? theirs_say_text(t, key->member, budget < 1 ? "true" : "false") : ERR_OK;
}

/* dpo_tune_cache.py build_deepspeed_config(); zero_hpz_partition_size has a row of its own. */
static enum err_code read_zero(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const char *const files[] = {
        "{\"zero_optimization\":{\"stage\":0,\"overlap_comm\":true,\"contiguous_gradients\":true,\"reduce_bucket_size\":\"auto\"}}",
        "{\"zero_optimization\":{\"stage\":1,\"overlap_comm\":true,\"contiguous_gradients\":true,\"reduce_bucket_size\":\"auto\"}}",
        "{\"zero_optimization\":{\"stage\":2,\"overlap_comm\":true,\"contiguous_gradients\":true,\"reduce_bucket_size\":\"auto\"}}",
        "{\"zero_optimization\":{\"stage\":3,\"overlap_comm\":true,\"contiguous_gradients\":true,\"reduce_bucket_size\":\"auto\",\"sub_group_size\":1e9,"
        "\"stage3_prefetch_bucket_size\":\"auto\",\"stage3_param_persistence_threshold\":\"auto\",\"stage3_max_live_parameters\":1e9,"
        "\"stage3_max_reuse_distance\":1e9}}"};
    uint64_t stage;

    (void)key;
    if (!json_uint64(v, &stage) || stage >= sizeof files / sizeof *files)
        return decode_fail(&t->d, ERR_FIELD_VALUE, "0, 1, 2 or 3");
    t->e->deepspeed = true;
    return theirs_walk_text(t, files[stage], deepspeed_keys);
}

static bool trains_preferences(const struct theirs *t)
{
    static const char *const names[] = {"loss_type", "dpo_loss_type", "beta", "dpo_beta", "gamma_beta_ratio", "dpo_gamma_beta_ratio", "dpo_label_smoothing",
                                        "dpo_use_paged_optimizer", "concatenated_forward", "num_epochs", "cache_logprobs_only"};
    const char *run = json_str(json_get(json_get(t->arguments, "launcher"), "run"));

    if (run)
        return strstr(run, "dpo_tune_cache") != NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_get(t->arguments, names[i]))
            return true;
    return false;
}

enum err_code open_instruct_settle(struct theirs *t)
{
    const struct words *stage = &t->e->rq.training.stage;
    enum err_code rc = ERR_OK;

    if (stage->n ? !word_among("dpo|simpo", stage_words[stage->at[0]].name, strlen(stage_words[stage->at[0]].name), false) : !trains_preferences(t))
        return ERR_OK;
    rc = theirs_leave_out(t, "training.stage", "\"dpo\"", "loss_type");
    return rc ? rc : theirs_leave_out(t, "training.trainer", "\"open-instruct\"", "loss_type");
}

const struct their_key open_instruct_keys[] = {
    OBJECT("launcher", launcher_keys),
    SAY("max_seq_length", "training.seq_len"),
    SAY("per_device_train_batch_size", "training.micro_batch_size"),
    SAY("gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    SAY("gradient_checkpointing", "training.gradient_checkpointing"),
    SAY("packing", "training.packing"),
    SAY("sync_each_batch", "training.sync_each_batch"),
    SAY("lora_rank", "training.lora.rank"),
    SAY("lora_alpha", "training.lora.alpha"),
    SAY("lora_dropout", "training.lora.dropout"),
    BY(read_lora, "use_lora", "training.tuning"),
    BY(read_qlora, "use_qlora", "training.quantization"),
    BY(read_fused, "fused_optimizer", "training.optimizer"),
    BY(read_clip, "clip_grad_norm|max_grad_norm", "training.max_grad_norm"),
    SAY("model_revision", "revision"),
    FLAG("use_flash_attn", "training.attention=\"flash_attention_2\""),
    BY(theirs_read_liger, "use_liger_kernel", "training.liger_kernels"),
    MOVES("load_balancing_loss", "the auxiliary loss of experts"),
    MOVES_BUT("1", "sequence_parallel_size", "Ulysses sequence parallelism"),
    MOVES("additional_model_arguments", "a config of the model's that is changed (the request's config says it)"),
    BY(read_loss, "loss_type|dpo_loss_type", "training.stage"),
    BY(read_paged, "dpo_use_paged_optimizer", "training.optimizer"),
    BY(read_backend, "attn_implementation", "training.attention"),
    BY(read_together, "concatenated_forward", NULL),
    BY(read_budget, "activation_memory_budget", "training.gradient_checkpointing"),
    BY(read_zero, "zero_stage", NULL),
    KNOWN("beta|dpo_beta|dpo_label_smoothing|label_smoothing|dpo_gamma_beta_ratio|gamma_beta_ratio|num_epochs|cache_logprobs_only|profiling|"
          "temperature|mixer_list|"
          "mixer_list_splits|transform_fn|target_columns|send_slack_alerts|eval_workspace|eval_priority|oe_eval_gpu_multiplier"),
    BY(read_8bit, "use_8bit_optimizer", NULL),
    KNOWN(
        "exp_name|do_not_randomize_output_dir|model_name_or_path|config_name|low_cpu_mem_usage|dataset_name|dataset_mixer|dataset_mixer_list|"
        "dataset_mixer_list_splits|dataset_transform_fn|dataset_target_columns|dataset_cache_mode|dataset_local_cache_dir|dataset_config_hash|"
        "dataset_skip_cache|dataset_mix_dir|dataset_config_name|max_train_samples|preprocessing_num_workers|overwrite_cache|learning_rate|"
        "logging_steps|lr_scheduler_type|num_train_epochs|output_dir|warmup_ratio|final_lr_ratio|weight_decay|timeout|resume_from_checkpoint|"
        "report_to|save_to_hub|max_train_steps|seed|checkpointing_steps|keep_last_n_checkpoints|load_balancing_weight|clean_checkpoints_at_end|"
        "with_tracking|wandb_project_name|wandb_entity|push_to_hub|hf_entity|hf_repo_id|hf_repo_revision|hf_repo_url|"
        "try_launch_beaker_eval_jobs|hf_metadata_dataset|cache_dataset_only|try_auto_save_to_beaker|gs_bucket_path|oe_eval_tasks|"
        "oe_eval_max_length|verbose|train_file|use_slow_tokenizer|tokenizer_name|add_bos|trust_remote_code|reduce_loss|"
        "tokenizer_name_or_path|tokenizer_revision|use_fast|chat_template_name|get_tokenizer_fn|tokenizer_files_hash|ground_truths_key|"
        "sft_messages_key|number_samples|wandb_project|hf_metadata|try_launch_beaker_eval_jobs_on_weka|dataset_config_eval_hash"),
    {0},
};
