/*
 * deepspeed_config: the JSON file of DeepSpeed.
 *
 * Source    deepspeed 0.19.8 runtime/config.py, runtime/constants.py, runtime/zero/config.py, runtime/zero/offload_config.py,
 *           runtime/precision_config.py; what "auto" becomes: transformers 5.23.0 integrations/deepspeed.py.
 */
#include "api/theirs.h"

#include <string.h>

static enum err_code read_half(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on;

    if (json_str(v) && !strcmp(json_str(v), "auto"))
        return ERR_OK;
    if (!theirs_flag(v, &on))
        return decode_fail(&t->d, ERR_FIELD_TYPE, "must be true, false or \"auto\", not %s", json_type_name(json_type(v)));
    return on ? theirs_say_amp(t, !strcmp(key->member, "bf16") ? AMP_BF16 : AMP_FP16) : ERR_OK;
}

enum err_code theirs_read_stage(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t stage;

    (void)key;
    if (!json_uint64(v, &stage) || stage > 3)
        return decode_fail(&t->d, ERR_FIELD_RANGE, "must be 0, 1, 2 or 3");
    if (t->at.stage && t->stage != stage)
        return decode_fail(&t->d, ERR_FIELD_CONFLICT, "contradicts %s: give one of them, or the same", t->at.stage);
    t->stage = (unsigned)stage;
    t->at.stage = theirs_path(t);
    return ERR_OK;
}

static void offload(struct theirs *t, const struct their_key *key)
{
    if (!strcmp(key->member, "params"))
        t->at.offload_params = theirs_path(t);
    else
        t->at.offload_optimizer = theirs_path(t);
}

enum err_code theirs_read_device(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (!s || !word_among("none|cpu|nvme", s, strlen(s), false))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "none, cpu and nvme are known");
    if (!strcmp(s, "none"))
        return ERR_OK;
    if (!strcmp(s, "nvme"))
        note(t->d.warnings, "%.100s: nvme is taken as cpu, so that host memory is counted too high", t->d.path);
    offload(t, key);
    return ERR_OK;
}

/* cpu_offload and cpu_offload_param, before offload_optimizer and offload_param came. */
static enum err_code read_old_offload(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on;
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (!rc && on)
        offload(t, key);
    return rc;
}

/* An element count, or "auto": made of the hidden size once the model is known. */
static enum err_code read_bucket(struct theirs *t, const struct their_key *key, const struct json *v)
{
    struct auto_buckets *a = &t->e->auto_buckets;

    if (!json_str(v) || strcmp(json_str(v), "auto") != 0)
        return theirs_say(t, key->member, v);
    a->reduce |= !strcmp(key->member, "training.buckets.reduce_elems");
    a->prefetch |= !strcmp(key->member, "training.buckets.prefetch_elems");
    a->persistence |= !strcmp(key->member, "training.buckets.persistence_elems");
    return ERR_OK;
}

/* runtime/engine.py _configure_basic_optimizer: Adam and AdamW are FusedAdam on the GPU. */
static enum err_code read_optimizer(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const struct {
        const char *theirs, *ours;
    } words[] = {{"adam|adamw", "adamw_torch_fused"}, {"lion", "lion_32bit"}, {"adagrad", "adagrad"}, {"sgd", "sgd"}};
    const char *s = json_str(v);

    for (size_t i = 0; s && i < sizeof words / sizeof *words; i++)
        if (word_among(words[i].theirs, s, strlen(s), true)) {
            if (!i)
                note(&t->e->assumptions, "%.100s: DeepSpeed's FusedAdam has the states of adamw_torch_fused, and no temporaries either", t->d.path);
            return theirs_say_word(t, key->member, words[i].ours);
        }
    return decode_fail(&t->d, ERR_FIELD_VALUE, "'%.40s' is not known; one of: Adam, AdamW, Lion, Adagrad, SGD", s ? s : "");
}

static enum err_code read_communication(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (s && word_among("fp32|bf16|bfp16|bfloat16", s, strlen(s), true))
        return theirs_say_word(t, key->member, !strcmp(s, "fp32") ? "fp32" : "bf16");
    note(t->d.warnings, "%.100s: reduction in this dtype is not in the figures", t->d.path);
    return ERR_OK;
}

static const struct their_key bf16_keys[] = {
    BY(read_half, "enabled", "bf16"),
    NOTE("immediate_grad_update|bf16_master_weights_and_grads|bf16_optimizer_states", "this option of DeepSpeed's bf16"),
    KNOWN("check_overflow"),
    {0},
};

static const struct their_key fp16_keys[] = {
    BY(read_half, "enabled", "fp16"),
    NOTE("auto_cast|fp16_master_weights_and_grads", "this option of DeepSpeed's fp16"),
    KNOWN("loss_scale|loss_scale_window|initial_scale_power|hysteresis|consecutive_hysteresis|min_loss_scale|opt_level"),
    {0},
};

static const struct their_key offload_optimizer_keys[] = {
    BY(theirs_read_device, "device", "optimizer"),
    NOTE("super_offload", "SuperOffload"),
    KNOWN("nvme_path|buffer_count|pin_memory|pipeline_read|pipeline_write|pipeline|fast_init|ratio|cpuadam_cores_perc"),
    {0},
};

static const struct their_key offload_param_keys[] = {
    BY(theirs_read_device, "device", "params"),
    KNOWN("nvme_path|buffer_count|buffer_size|max_in_cpu|pin_memory"),
    {0},
};

static const struct their_key zero_keys[] = {
    BY(theirs_read_stage, "stage", NULL),
    BY(read_bucket, "reduce_bucket_size", "training.buckets.reduce_elems"),
    SAY("allgather_bucket_size", "training.buckets.allgather_elems"),
    BY(read_bucket, "stage3_prefetch_bucket_size|prefetch_bucket_size", "training.buckets.prefetch_elems"),
    BY(read_bucket, "stage3_param_persistence_threshold|param_persistence_threshold", "training.buckets.persistence_elems"),
    SAY("stage3_max_live_parameters|max_live_parameters", "training.buckets.max_live_elems"),
    SAY("sub_group_size", "training.buckets.sub_group_elems"),
    SAY("overlap_comm", "training.overlap_comm"),
    OBJECT("offload_optimizer", offload_optimizer_keys),
    OBJECT("offload_param", offload_param_keys),
    BY(read_old_offload, "cpu_offload", "optimizer"),
    BY(read_old_offload, "cpu_offload_param|cpu_offload_params", "params"),
    NOTE("zero_quantized_weights|zero_quantized_nontrainable_weights|zero_quantized_gradients|mics_shard_size|"
         "mics_hierarchical_params_gather|zenflow|load_from_fp32_weights_only", "this option of ZeRO"),
    KNOWN("zero_hpz_partition_size|contiguous_gradients|reduce_scatter|use_multi_rank_bucket_allreduce|allgather_partitions|compute_grad_norm|"
          "load_from_fp32_weights|elastic_checkpoint|cpu_offload_use_pin_memory|stage3_max_reuse_distance|max_reuse_distance|"
          "stage3_model_persistence_threshold|model_persistence_threshold|stage3_gather_16bit_weights_on_model_save|"
          "gather_16bit_weights_on_model_save|stage3_gather_fp16_weights_on_model_save|stage3_module_granularity_threshold|"
          "module_granularity_threshold|stage3_use_all_reduce_for_fetch_params|use_all_reduce_for_fetch_params|stage3_allgather_sequential|"
          "allgather_sequential|ignore_unused_parameters|legacy_stage1|round_robin_gradients|parameter_alignment|memory_efficient_linear|"
          "pipeline_loading_checkpoint|override_module_apply|log_trace_cache_warnings|enable_sanity_checks|"
          "save_muon_momentum_buffer_in_memory|leaf_module"),
    {0},
};

static const struct their_key optimizer_keys[] = {
    BY(read_optimizer, "type", "training.optimizer"),
    KNOWN("params|legacy_fusion"),
    {0},
};

static const struct their_key tensor_parallel_keys[] = {
    SAY("autotp_size|tp_size", "training.tensor_parallel"),
    KNOWN("tp_grain_size|tp_overlap_comm|dtype|tp|tensor_parallel|injection_policy_tuple|keep_module_on_host|replace_with_kernel_inject"),
    {0},
};

const struct their_key deepspeed_keys[] = {
    SAY("train_batch_size", "training.global_batch_size"),
    SAY("train_micro_batch_size_per_gpu", "training.micro_batch_size"),
    SAY("gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    SAY("gradient_clipping", "training.max_grad_norm"),
    OBJECT("bf16|bfloat16", bf16_keys),
    OBJECT("fp16", fp16_keys),
    OBJECT("zero_optimization", zero_keys),
    OBJECT("optimizer", optimizer_keys),
    OBJECT("tensor_parallel", tensor_parallel_keys),
    BY(read_communication, "communication_data_type", "training.reduce_dtype"),
    NOTE("torch_autocast", "DeepSpeed's own autocast"),
    NOTE("data_types", "the dtype that gradients are accumulated in"),
    NOTE("amp", "NVIDIA Apex"),
    NOTE("sparse_gradients|sparse_attention|compression_training|hybrid_engine|expert_parallel|pipeline|weight_quantization|quantize_training|"
         "prescale_gradients|fp32_allreduce|progressive_layer_drop|curriculum_learning|data_efficiency|eigenvalue|compile",
         "this option of DeepSpeed"),
    KNOWN("scheduler|steps_per_print|wall_clock_breakdown|memory_breakdown|dump_state|disable_python_gc|disable_allgather|"
          "gradient_predivide_factor|gradient_allreduce_op|managed_gradient_accumulation|zero_allow_untested_optimizer|"
          "zero_force_ds_cpu_optimizer|activation_checkpointing|flops_profiler|tensorboard|wandb|csv_monitor|comet|monitor_config|"
          "comms_logger|aio|autotuning|elasticity|checkpoint|data_parallel_size|dataloader_drop_last|seq_parallel_communication_data_type|"
          "log_level|timers|nebula|vocabulary_size|load_universal|use_data_before_expert_parallelism|graph_harvesting|use_node_local_storage"),
    {0},
};
