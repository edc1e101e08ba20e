/*
 * training_arguments: TrainingArguments of transformers; those of trl, LLaMA-Factory and axolotl stand in tables of their own.
 *
 * Source    transformers 5.23.0, 4.53.3, 4.48.1 and 4.40.0 training_args.py: every field of each is here (tests/data/members).
 */
#include "api/theirs/theirs.h"

#include <stdio.h>
#include <string.h>

/* --- the Trainer ------------------------------------------------------------------------------------------------------------------ */

/* bf16 and fp16 are flags. axolotl 0.18.0 utils/config resolve_dtype: "auto" is bf16 where the GPU has it, fp16 where fp16 is true; beside bf16, fp16 says
 * nothing. false says nothing while the other may be true. */
enum err_code theirs_read_amp(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);
    bool on = s && word_among("auto|full", s, strlen(s), false);
    enum err_code rc = on ? ERR_OK : theirs_flag_only(t, v, &on);
    bool is_bf16 = !strcmp(key->member, "bf16"), other = false;

    (void)theirs_flag(json_get(t->doc, is_bf16 ? "fp16" : "bf16"), &other);
    if (on && other && theirs_tool_is(t, TOOL_AXOLOTL) && (s || !is_bf16))
        return ERR_OK;
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

/* The dtype that weights are loaded in: with bf16 or fp16 it makes the precision. "auto" is as saved, which transformers 5 does anyway. */
enum err_code theirs_read_dtype(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const struct {
        const char *names;
        enum dtype_saved saved;
    } dtypes[] = {{"bfloat16|bf16", SAVED_BF16}, {"float16|fp16|half", SAVED_FP16}, {"float32|fp32|float", SAVED_FP32}};
    const char *s = json_str(v);

    (void)key;
    if (s && !strncmp(s, "torch.", 6))
        s += 6;
    if (s && word_among("auto", s, strlen(s), true)) {
        t->e->loads_as_saved = true;
        return ERR_OK;
    }
    for (size_t i = 0; s && i < sizeof dtypes / sizeof *dtypes; i++)
        if (word_among(dtypes[i].names, s, strlen(s), true)) {
            t->e->loaded = dtypes[i].saved;
            return ERR_OK;
        }
    return decode_fail(&t->d, ERR_FIELD_VALUE, "auto, bfloat16, float16 and float32 are known");
}

/* Kernels of the hub, built of the two packages' sources: what transformers itself takes where a package is not installed
 * (5.23 modeling_flash_attention_utils.py FLASH_ATTN_KERNEL_FALLBACK; each is imported as that generation's interface). */
static const char *package_of_kernel(const char *s)
{
    static const struct {
        const char *names, *word;
    } built[] = {{"kernels-community/flash-attn2|kernels-community/flash-attn", "flash_attention_2"},
                 {"kernels-community/vllm-flash-attn3|kernels-community/flash-attn3", "flash_attention_3"}};
    size_t n = strcspn(s, "@:"); /* a revision, a function */

    for (size_t i = 0; i < sizeof built / sizeof *built; i++)
        if (word_among(built[i].names, s, n, true))
            return built[i].word;
    return NULL;
}

/* Other kernels of the hub, and what only some tools have. */
enum err_code theirs_read_attention(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v), *package = s ? package_of_kernel(s) : NULL;

    if (package)
        return theirs_say_word(t, key->member, package);
    if (s &&
        (strchr(s, '/') || strstr(s, "paged") || word_among("xformers|sage|s2|fp8|flash_attention_4|fa4|flash_mla", s, strlen(s), true))) {
        theirs_gap(&t->d, "an attention that is not torch's or flash-attn's");
        return ERR_OK;
    }
    return s && !strcmp(s, "auto") ? ERR_OK : theirs_say(t, key->member, v);
}

/* axolotl 0.19.0 utils/schemas/enums.py CustomSupportedOptimizers; those of LLaMA-Factory that are not of HF's optim. */
static enum err_code read_optimizer(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (s &&
        word_among(
            "optimi_adamw|ao_adamw_4bit|ao_adamw_8bit|ao_adamw_fp8|adopt_adamw|came_pytorch|muon|dion|sinkgd|q_galore_adamw8bit|flash_adamw|"
            "flash_adam|flash_sgd|flash_sgdw|flash_lion|adamc|polora|adam_mini|badam",
            s, strlen(s), true)) {
        theirs_gap(&t->d, "an optimizer that is not one of HF's optim");
        return ERR_OK;
    }
    return theirs_say(t, key->member, v);
}

/* training_args.py __post_init__: either of them switches torch_compile on. */
static enum err_code read_compile(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (s && !word_among("inductor|default", s, strlen(s), true))
        theirs_gap(&t->d, "torch.compile by another backend than Inductor, or in another mode than its default");
    return theirs_say_text(t, key->member, "true");
}

/* --- the tables -------------------------------------------------------------------------------------------------------------------- */

/* axolotl's "unsloth" and "offload" keep the layers' inputs alone on the host: unsloth's checkpoints, not TRL's offload. */
static enum err_code read_checkpointing(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v);

    if (!s || !word_among("unsloth|offload", s, strlen(s), true))
        return theirs_say(t, key->member, v);
    theirs_gap(&t->d, "checkpoints whose inputs wait on the host");
    return theirs_say_text(t, key->member, "true");
}

static const struct their_key checkpointing_kwargs[] = {
    SAY("use_reentrant", "training.checkpoint_reentrant"),
    BY(read_every_n, "every_n_layers", "training.gradient_checkpointing"),
    MOVES("offload", "checkpoints whose inputs wait on the host"),
    MOVES("debug", "checkpoints that record their operators"),
    MOVES_BUT("true", "early_stop", "recomputing a layer to its end"),
    KNOWN("preserve_rng_state|determinism_check|context_fn"),
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
    MOVES("split_batches", "batches that are cut over the processes"),
    MOVES("dispatch_batches", "batches that one process hands out"),
    KNOWN("even_batches|use_seedable_sampler|non_blocking|use_configured_state|data_seed"),
    {0},
};

const struct their_key theirs_model_init_keys[] = {
    BY(theirs_read_attention, "attn_implementation", "training.attention"),
    BY(theirs_read_dtype, "dtype|torch_dtype", "training.precision"),
    SAY("revision", "revision"),
    MOVES("quantization_config", "weights that are quantised as they are loaded"),
    MOVES("use_kernels|kernel_config", "kernels from the hub"),
    MOVES_BUT("grouped_mm", "experts_implementation", "an implementation of the experts"),
    MOVES("tp_plan|tp_size|distributed_config", "a model that is cut as it is loaded"),
    KNOWN(
        "trust_remote_code|cache_dir|token|use_cache|low_cpu_mem_usage|device_map|local_files_only|use_safetensors|subfolder|code_revision|variant|"
        "force_download|attn_kwargs|key_mapping"),
    {0},
};

/* Those that move neither memory nor time of a step: what is learned and how fast, what is logged, saved, pushed, named. */
#define HARMLESS                                                                                                                         \
    "_n_gpu|adam_beta1|adam_beta2|adam_epsilon|average_tokens_across_devices|data_seed|"               \
    "dataloader_drop_last|dataloader_in_order|dataloader_multiprocessing_context|dataloader_num_workers|dataloader_persistent_workers|"  \
    "dataloader_pin_memory|dataloader_prefetch_factor|ddp_timeout|disable_tqdm|do_eval|do_predict|do_train|enable_jit_checkpoint|"       \
    "eval_delay|eval_steps|eval_use_gather_object|fp16_opt_level|"         \
    "greater_is_better|group_by_length|hub_always_push|hub_model_id|hub_private_repo|hub_revision|"                                      \
    "hub_strategy|hub_token|ignore_data_skip|include_num_input_tokens_seen|"              \
    "include_tokens_per_second|label_names|learning_rate|length_column_name|load_best_model_at_end|local_rank|log_level|"                \
    "log_level_replica|log_on_each_node|logging_dir|logging_first_step|logging_nan_inf_filter|logging_steps|logging_strategy|"           \
    "lr_scheduler_kwargs|lr_scheduler_type|max_steps|metric_for_best_model|num_train_epochs|output_dir|overwrite_output_dir|"            \
    "project|push_to_hub|push_to_hub_model_id|"                  \
    "push_to_hub_organization|push_to_hub_token|ray_scope|remove_unused_columns|report_to|restore_callback_states_from_checkpoint|"      \
    "resume_from_checkpoint|run_name|save_on_each_node|save_only_model|save_safetensors|save_steps|save_strategy|save_total_limit|seed|" \
    "tpu_metrics_debug|tpu_num_cores|trackio_bucket_id|trackio_space_id|trackio_static_space_id|train_sampling_strategy|"                \
    "use_legacy_prediction_loop|jit_mode_eval|warmup_ratio|warmup_steps|weight_decay"

const struct their_key transformers_keys[] = {
    SAY("per_device_train_batch_size|per_gpu_train_batch_size|micro_batch_size", "training.micro_batch_size"),
    SAY("gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    SAY("per_device_eval_batch_size|per_gpu_eval_batch_size", "training.eval_batch_size"),
    SAY("eval_accumulation_steps", "training.eval_accumulation_steps"),
    SAY("prediction_loss_only", "training.prediction_loss_only"),
    BY(read_find_batch, "auto_find_batch_size", NULL),
    BY(read_optimizer, "optim|optimizer", "training.optimizer"),
    SAY("optim_args", "training.optim_args"),
    FLAG("adafactor", "training.optimizer=\"adafactor\""),
    SAY("max_grad_norm", "training.max_grad_norm"),
    BY(theirs_read_amp, "bf16", "bf16"),
    BY(theirs_read_amp, "fp16", "fp16"),
    SAY("tf32", "training.tf32"),
    BY(read_checkpointing, "gradient_checkpointing|activation_checkpointing", "training.gradient_checkpointing"),
    OBJECT("gradient_checkpointing_kwargs|activation_checkpointing_kwargs", checkpointing_kwargs),
    SAY("torch_compile", "training.compile"),
    BY(read_compile, "torch_compile_backend|torch_compile_mode|torchdynamo", "training.compile"),
    SAY("use_cache", "training.use_cache"),
    BY(theirs_read_liger, "use_liger_kernel|enable_liger_kernel", "training.liger_kernels"),
    BY(read_bucket_mb, "ddp_bucket_cap_mb", "training.buckets.ddp_bytes"),
    SAY("ddp_find_unused_parameters", "training.find_unused_parameters"),
    BY(read_deepspeed, "deepspeed", NULL),
    BY(theirs_read_fsdp, "fsdp", NULL),
    OBJECT("fsdp_config", fsdp_keys),
    OBJECT("accelerator_config", accelerator_keys),
    OBJECT("parallelism_config", parallelism_keys),
    KNOWN("liger_kernel_config"), /* read beside use_liger_kernel */
    MOVES_BUT(NEVER, "neftune_noise_alpha", "NEFTune's noise on the embeddings"), /* trainer.py: `is not None`, 0 makes the noise too */
    MOVES("label_smoothing_factor", "the loss with label smoothing"),
    MOVES("torch_empty_cache_steps", "emptying the cache between steps"),
    MOVES("optim_target_modules", "the choice of modules of an optimizer"),
    MOVES("use_cpu|no_cuda|use_mps_device|use_ipex", "a run that is not on CUDA"),
    MOVES("mp_parameters", "SageMaker's model parallelism"),
    MOVES("ddp_static_graph", "DistributedDataParallel's static graph"),
    MOVES_BUT("true", "ddp_broadcast_buffers", "buffers that are not broadcast"),
    MOVES_BUT("nccl|auto", "ddp_backend", "a backend other than NCCL"),
    MOVES_BUT("auto|cuda_amp", "half_precision_backend|fp16_backend", "NVIDIA Apex"),
    MOVES_BUT("-1", "past_index", "states that are kept between steps"),
    MOVES("full_determinism", "deterministic kernels, with another workspace"),  /* trainer_utils.py: CUBLAS_WORKSPACE_CONFIG=:16:8 */
    MOVES_BUT("true", "skip_memory_metrics", "the memory tracker's own thread"), /* trainer_utils.py TrainerMemoryTracker */
    MOVES("debug", "underflow_overflow's hooks on every module"),                /* debug_utils.py */
    MOVES("split_batches", "batches that are cut over the processes"),
    MOVES("dispatch_batches", "batches that one process hands out"),
    MOVES("fsdp_min_num_params", "wrapping by size"),
    BY(theirs_read_layer_class, "fsdp_transformer_layer_cls_to_wrap", NULL),
    NOTE("eval_strategy|evaluation_strategy|eval_on_start", "an evaluation has a peak of its own"),
    NOTE("bf16_full_eval|fp16_full_eval", "memory.around.evaluation is of the model as it trains, not of one that is cast to half"), /* evaluation_loop */
    NOTE("batch_eval_metrics|include_for_metrics|include_inputs_for_metrics", "memory.around.evaluation keeps predictions alone, and those of all its batches"),
    NOTE_BUT("true", "eval_do_concat_batches", "memory.around.evaluation joins its batches as they come"),
    KNOWN(HARMLESS),
    KNOWN(
        "sortish_sampler|predict_with_generate|generation_max_length|generation_num_beams|generation_config"), /* training_args_seq2seq.py */
    {0},
};

const struct their_key trainer_keys[] = {
    TABLE(transformers_keys), TABLE(trl_keys), TABLE(llama_factory_keys), TABLE(axolotl_keys), {0},
};
