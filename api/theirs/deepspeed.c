/*
 * deepspeed_config: the JSON file of DeepSpeed.
 *
 * Source    deepspeed 0.19.8 runtime/config.py, runtime/constants.py, runtime/zero/config.py, runtime/zero/offload_config.py,
 *           runtime/precision_config.py; what "auto" becomes: transformers 5.23.0 integrations/deepspeed.py.
 */
#include "api/theirs/theirs.h"

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

    if (!s || !word_among("none|cpu|nvme", s, strlen(s), true)) /* oumi's are in capitals */
        return decode_fail(&t->d, ERR_FIELD_VALUE, "none, cpu and nvme are known");
    if (word_among("none", s, strlen(s), true))
        return ERR_OK;
    if (word_among("nvme", s, strlen(s), true))
        theirs_gap(&t->d, "states on NVMe");
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
                t->at.own_adam = theirs_path(t);
            if (!i)
                note(&t->e->assumptions, "%.100s: DeepSpeed's FusedAdam has the states of adamw_torch_fused, and no temporaries either",
                     t->d.path);
            return theirs_say_word(t, key->member, words[i].ours);
        }
    return decode_fail(&t->d, ERR_FIELD_VALUE, "'%.40s' is not known; one of: Adam, AdamW, Lion, Adagrad, SGD", s ? s : "");
}

static bool has_half(const struct json *doc, const char *name)
{
    bool on;

    return theirs_flag(json_get(json_get(doc, name), "enabled"), &on) && on;
}

/* runtime/engine.py communication_data_type: left out, gradients travel in the engine's own half. */
static enum err_code read_communication(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    bool half = s && word_among("bf16|bfp16|bfloat16", s, strlen(s), true) && has_half(t->doc, "bf16");

    (void)key;
    half |= s && word_among("fp16|float16", s, strlen(s), true) && has_half(t->doc, "fp16");
    if (!half && !(s && !strcmp(s, "auto")))
        theirs_gap(&t->d, "reduction in a dtype of its own");
    return ERR_OK;
}

/* runtime/zero/stage3.py: a group is closed as soon as it has so many, with 0 after each parameter. */
static enum err_code read_sub_group(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t n;

    return json_uint64(v, &n) && !n ? theirs_say_number(t, key->member, 1) : theirs_say(t, key->member, v);
}

/* Stages 1 and 2 alone read it (runtime/zero/stage_1_and_2.py). */
static enum err_code read_round_robin(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t stage;
    bool on;
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (!rc && on && json_uint64(json_get(t->doc, "stage"), &stage) && (stage == 1 || stage == 2))
        rc = theirs_say_text(t, key->member, "true");
    return rc;
}

static const struct their_key bf16_keys[] = {
    BY(read_half, "enabled", "bf16"),
    MOVES("immediate_grad_update|bf16_master_weights_and_grads|bf16_optimizer_states", "states of DeepSpeed's bf16"),
    KNOWN("check_overflow|check_grad_overflow"),
    {0},
};

static const struct their_key fp16_keys[] = {
    BY(read_half, "enabled", "fp16"),
    MOVES("auto_cast|fp16_master_weights_and_grads", "states of DeepSpeed's fp16"),
    KNOWN("loss_scale|loss_scale_window|initial_scale_power|hysteresis|consecutive_hysteresis|min_loss_scale|opt_level"),
    {0},
};

static const struct their_key offload_optimizer_keys[] = {
    BY(theirs_read_device, "device", "optimizer"),
    MOVES("super_offload", "SuperOffload"),
    MOVES_BUT("1", "ratio", "a part of the optimizer that stays on the GPU"),
    MOVES("pipeline_read|pipeline_write|pipeline", "an optimizer that is read while it steps"),
    KNOWN("nvme_path|buffer_count|pin_memory|fast_init|cpuadam_cores_perc"),
    {0},
};

static const struct their_key offload_param_keys[] = {
    BY(theirs_read_device, "device", "params"),
    KNOWN("nvme_path|buffer_count|buffer_size|max_in_cpu|pin_memory"), /* of them nvme alone reads the sizes */
    {0},
};

/* Neutral values are those of runtime/zero/config.py, DeepSpeedZeroConfig. */
const struct their_key zero_keys[] = {
    BY(theirs_read_stage, "stage", NULL),
    BY(read_bucket, "reduce_bucket_size", "training.buckets.reduce_elems"),
    SAY("allgather_bucket_size", "training.buckets.allgather_elems"),
    BY(read_bucket, "stage3_prefetch_bucket_size|prefetch_bucket_size", "training.buckets.prefetch_elems"),
    BY(read_bucket, "stage3_param_persistence_threshold|param_persistence_threshold", "training.buckets.persistence_elems"),
    SAY("stage3_max_live_parameters|max_live_parameters", "training.buckets.max_live_elems"),
    BY(read_sub_group, "sub_group_size", "training.buckets.sub_group_elems"),
    SAY("overlap_comm", "training.overlap_comm"),
    OBJECT("offload_optimizer", offload_optimizer_keys),
    OBJECT("offload_param", offload_param_keys),
    BY(read_old_offload, "cpu_offload", "optimizer"),
    BY(read_old_offload, "cpu_offload_param|cpu_offload_params", "params"),
    MOVES("zero_quantized_weights|zero_quantized_nontrainable_weights|zero_quantized_gradients", "ZeRO++'s quantised messages"),
    MOVES_BUT("1|0", "zero_hpz_partition_size", "ZeRO++'s second copy within a node"),
    MOVES_BUT("-1|0|1", "mics_shard_size", "MiCS"),
    MOVES("mics_hierarchical_params_gather", "MiCS"),
    MOVES("zenflow", "ZenFlow"),
    MOVES_BUT("true", "contiguous_gradients", "gradients that are not copied into a bucket"),
    MOVES_BUT("true", "reduce_scatter", "gradients that are all-reduced"),
    MOVES_BUT("true", "allgather_partitions", "parameters that are broadcast"),
    MOVES_BUT("true", "use_multi_rank_bucket_allreduce", "buckets of one rank each"),
    MOVES_BUT("true", "memory_efficient_linear", "torch's own linear under ZeRO-3"),
    MOVES_BUT("true", "compute_grad_norm", "a step without the gradients' norm"),
    BY(read_round_robin, "round_robin_gradients", "training.buckets.round_robin"),
    MOVES("parameter_alignment|legacy_stage1", "another partition of ZeRO's"),
    SAY("stage3_max_reuse_distance|max_reuse_distance", "training.buckets.reuse_elems"),
    MOVES_BUT("9223372036854775807", "stage3_model_persistence_threshold|model_persistence_threshold", "a bound on what stays whole"),
    MOVES("stage3_module_granularity_threshold|module_granularity_threshold|leaf_module", "modules that are gathered as one"),
    MOVES("stage3_use_all_reduce_for_fetch_params|use_all_reduce_for_fetch_params|stage3_allgather_sequential|allgather_sequential",
          "another way to gather parameters"),
    MOVES("enable_sanity_checks", "checks in every step"),
    MOVES("load_from_fp32_weights_only", "this option of ZeRO"),
    KNOWN(
        "load_from_fp32_weights|elastic_checkpoint|cpu_offload_use_pin_memory|stage3_gather_16bit_weights_on_model_save|"
        "gather_16bit_weights_on_model_save|stage3_gather_fp16_weights_on_model_save|ignore_unused_parameters|pipeline_loading_checkpoint|"
        "override_module_apply|log_trace_cache_warnings|save_muon_momentum_buffer_in_memory"),
    {0},
};

static const struct their_key optimizer_keys[] = {
    BY(read_optimizer, "type", "training.optimizer"),
    MOVES("legacy_fusion", "an older fusion of the optimizer"),
    KNOWN("params"),
    {0},
};

static const struct their_key tensor_parallel_keys[] = {
    SAY("autotp_size|tp_size", "training.tensor_parallel"),
    MOVES("tp_overlap_comm", "tensor parallelism that overlaps its messages"),
    KNOWN(
        "tp_grain_size|dtype|tp|tensor_parallel|injection_policy_tuple|keep_module_on_host|replace_with_kernel_inject|preset_model|partition_config"),
    {0},
};

static const struct their_key data_type_keys[] = {MOVES("grad_accum_dtype|param_dtype|buffer_dtype",
                                                        "gradients that are accumulated in another dtype"),
                                                  {0}};

/* compile/config.py */
static const struct their_key compile_keys[] = {
    MOVES("deepcompile|enabled|backend", "DeepSpeed's compiler"),
    KNOWN(
        "autoep_non_moe|free_activation_threshold|offload_activation_pin_memory|free_activation|offload_activation|offload_opt_states|"
        "double_buffer|symmetric_memory|debug_log|offload_parameters|sync_before_reduce|"
        "sync_after_reduce|sync_before_allgather|sync_after_allgather|keep_int_input_tensors|keep_all_input_tensors|disable|kwargs|passes"),
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
    BY(read_communication, "communication_data_type", NULL),
    MOVES("torch_autocast", "DeepSpeed's own autocast"),
    OBJECT("data_types", data_type_keys),
    MOVES("amp", "NVIDIA Apex"),
    OBJECT("compile", compile_keys),
    MOVES(
        "sparse_gradients|sparse_attention|compression_training|hybrid_engine|expert_parallel|pipeline|weight_quantization|quantize_training|"
        "progressive_layer_drop|curriculum_learning|data_efficiency|eigenvalue|graph_harvesting",
        "this option of DeepSpeed"),
    MOVES("prescale_gradients|fp32_allreduce|disable_allgather", "another reduction of gradients"),
    MOVES_BUT("1", "gradient_predivide_factor", "another reduction of gradients"),
    MOVES_BUT("mean", "gradient_allreduce_op", "another reduction of gradients"),
    MOVES_BUT("true", "managed_gradient_accumulation", "accumulation that the script counts"),
    MOVES_BUT("true", "zero_force_ds_cpu_optimizer", "torch's own optimizer on the host"),
    MOVES_BUT("1", "sequence_parallel_size", "Ulysses sequence parallelism"),
    MOVES("wall_clock_breakdown|memory_breakdown|flops_profiler|comms_logger", "a step that waits for its own measurement"),
    MOVES("autotuning|elasticity", "batches that DeepSpeed chooses"),
    MOVES("disable_python_gc", "a step without Python's collector"),
    KNOWN(
        "scheduler|steps_per_print|dump_state|zero_allow_untested_optimizer|activation_checkpointing|tensorboard|wandb|csv_monitor|comet|"
        "monitor_config|aio|checkpoint|data_parallel_size|dataloader_drop_last|seq_parallel_communication_data_type|log_level|timers|nebula|"
        "vocabulary_size|load_universal|use_data_before_expert_parallelism|use_node_local_storage|datastates|datastates_ckpt"),
    {0},
};
