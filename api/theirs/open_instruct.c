/*
 * What open-instruct's finetune.py takes, as a YAML file or as the command. Its loop over accelerate is read as the Trainer's: it drops the
 * model's outputs before backward and has two groups of parameters.
 *
 * Source    allenai/open-instruct e6c3044a open_instruct/finetune.py FlatArguments, dataset_transformation.py TokenizerConfig (tests/data/members)
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
    MOVES(
        "beta|dpo_beta|dpo_loss_type|dpo_use_paged_optimizer|dpo_label_smoothing|dpo_gamma_beta_ratio|concatenated_forward|loss_type|num_epochs",
        "open-instruct's own preference trainer (training.stage is trl 1.16's)"),
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
