/*
 * accelerate_config: the file that `accelerate config` writes.
 *
 * Source    accelerate 1.15.0 and 0.29.3 commands/config/config_args.py (an unknown key is an error there), commands/launch.py,
 *           utils/dataclasses.py, parallelism_config.py.
 */
#include "api/theirs/theirs.h"

#include <string.h>

static enum err_code read_environment(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    if (json_str(v) && !strcmp(json_str(v), "LOCAL_MACHINE"))
        return ERR_OK;
    return decode_fail(&t->d, ERR_FIELD_VALUE, "LOCAL_MACHINE is known");
}

/* YAML's bare no is false. */
static const char *text_or_no(const struct json *v)
{
    bool on;

    return json_str(v) ? json_str(v) : json_bool(v, &on) && !on ? "no" : NULL;
}

static enum err_code read_distributed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = text_or_no(v);

    (void)key;
    if (!s || !word_among("NO|no|MULTI_GPU|DEEPSPEED|FSDP|MEGATRON_LM", s, strlen(s), false))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "one of: NO, MULTI_GPU, DEEPSPEED, FSDP, MEGATRON_LM");
    t->distributed = s;
    t->at.distributed = theirs_path(t);
    return ERR_OK;
}

static enum err_code read_mixed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = text_or_no(v);

    (void)key;
    if (s && !strcmp(s, "no")) /* the Trainer's own flag overrides it */
        return t->e->amp == AMP_UNSAID ? theirs_say_amp(t, AMP_NO) : ERR_OK;
    if (s && !strcmp(s, "bf16"))
        return theirs_say_amp(t, AMP_BF16);
    if (s && !strcmp(s, "fp16"))
        return theirs_say_amp(t, AMP_FP16);
    if (s && !strcmp(s, "fp8"))
        return theirs_say_word(t, "training.float8", "tensorwise");
    return decode_fail(&t->d, ERR_FIELD_VALUE, "one of: no, fp16, bf16, fp8");
}

/* Several counts; `member` says which. */
static enum err_code read_count(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t n;

    if (!json_uint64(v, &n) || !n || n > 65536)
        return decode_fail(&t->d, ERR_FIELD_RANGE, "must be within 1..65536");
    if (!strcmp(key->member, "machines")) {
        t->machines = n;
        return theirs_say(t, "cluster.nodes", v);
    }
    if (!strcmp(key->member, "replicas"))
        t->replicas = n;
    else if (!strcmp(key->member, "shards"))
        t->shards = n;
    else {
        t->processes = n;
        t->at.processes = theirs_path(t);
    }
    return ERR_OK;
}

/* Files from before mixed_precision: config_args.py from_json_file. */
static enum err_code read_old_fp16(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)key;
    return rc || !on || json_get(t->doc, "mixed_precision") ? rc : theirs_say_amp(t, AMP_FP16);
}

static enum err_code read_dynamo(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = text_or_no(v);

    if (s && word_among("no", s, strlen(s), true))
        return ERR_OK;
    if (s && !word_among("inductor", s, strlen(s), true))
        theirs_gap(&t->d, "torch.compile by another backend than Inductor");
    return theirs_say_text(t, key->member, "true");
}

static enum err_code read_use_deepspeed(struct theirs *t, const struct their_key *key, const struct json *v)
{
    bool on = false;
    enum err_code rc = theirs_flag_only(t, v, &on);

    (void)key;
    t->e->deepspeed |= on;
    return rc;
}

static enum err_code read_config_file(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    (void)v;
    if (t->e->rq.accelerate_config)
        return ERR_OK;
    return decode_fail(&t->d, ERR_FIELD_VALUE, "is the name of a file on your side: give what is in it as the request's accelerate_config");
}

static const struct their_key accelerate_deepspeed_keys[] = {
    BY(theirs_read_file_name, "deepspeed_config_file", NULL),
    BY(theirs_read_stage, "zero_stage", NULL),
    BY(theirs_read_device, "offload_optimizer_device", "optimizer"),
    BY(theirs_read_device, "offload_param_device", "params"),
    SAY("gradient_accumulation_steps", "training.gradient_accumulation_steps"),
    SAY("gradient_clipping", "training.max_grad_norm"),
    SAY("zero3_init_flag", "stack.zero_init"),
    MOVES("deepspeed_moe_layer_cls_names", "layers that are gathered as one"),
    KNOWN("zero3_save_16bit_model|deepspeed_hostfile|deepspeed_multinode_launcher|deepspeed_exclusion_filter|deepspeed_inclusion_filter|"
          "offload_optimizer_nvme_path|offload_param_nvme_path"),
    {0},
};

const struct their_key parallelism_keys[] = {
    BY(read_count, "parallelism_config_dp_replicate_size|dp_replicate_size", "replicas"),
    BY(read_count, "parallelism_config_dp_shard_size|dp_shard_size", "shards"),
    SAY("parallelism_config_tp_size|tp_size", "training.tensor_parallel"),
    SAY("parallelism_config_cp_size|cp_size", "training.context_parallel"),
    MOVES_BUT("1", "parallelism_config_sp_size|sp_size", "Ulysses sequence parallelism"),
    KNOWN("parallelism_config_cp_comm_strategy|cp_comm_strategy|parallelism_config_cp_backend|cp_backend|tp_handler|cp_handler|sp_handler|"
          "parallelism_config_sp_backend|sp_backend|parallelism_config_sp_attn_implementation|sp_attn_implementation|"
          "parallelism_config_sp_seq_length|sp_seq_length|parallelism_config_sp_seq_length_is_variable|sp_seq_length_is_variable"),
    {0},
};

static const struct their_key dynamo_keys[] = {
    BY(read_dynamo, "dynamo_backend", "training.compile"),
    MOVES_BUT("default", "dynamo_mode", "torch.compile in another mode than its default"),
    KNOWN("dynamo_use_dynamic|dynamo_use_fullgraph"),
    MOVES_BUT("false", "dynamo_use_regional_compilation", "torch.compile of layers alone, whose loss is eager"),
    {0},
};

/* torchrun's, and accelerate launch's where they are not called as in its file. */
const struct their_key launcher_keys[] = {
    BY(theirs_read_run, "run", "training.stage"),
    SAY("nproc_per_node|NPROC_PER_NODE", "cluster.gpus_per_node"),
    BY(read_count, "nnodes|NNODES", "machines"),
    BY(read_use_deepspeed, "use_deepspeed", NULL),
    BY(theirs_read_file_name, "deepspeed_config_file", NULL),
    BY(read_config_file, "config_file", NULL),
    BY(theirs_read_fsdp, "use_fsdp", NULL),
    MOVES_BUT("default", "dynamo_mode", "torch.compile in another mode than its default"),
    KNOWN("multi_gpu|node_rank|master_addr|master_port|rdzv_endpoint|rdzv_id|deepspeed_multinode_launcher|standalone"),
    TABLE(accelerate_keys),
    TABLE(fsdp_keys),
    {0},
};

const struct their_key accelerate_keys[] = {
    BY(read_environment, "compute_environment", NULL),
    BY(read_distributed, "distributed_type", NULL),
    BY(read_mixed, "mixed_precision", NULL),
    BY(read_count, "num_machines", "machines"),
    BY(read_count, "num_processes", "processes"),
    OBJECT("deepspeed_config", accelerate_deepspeed_keys),
    OBJECT("fsdp_config", fsdp_keys),
    OBJECT("parallelism_config", parallelism_keys),
    OBJECT("dynamo_config", dynamo_keys),
    BY(read_dynamo, "dynamo_backend", "training.compile"),
    MOVES("megatron_lm_config", "Megatron-LM"),
    MOVES("fp8_config", "float8 products"),
    MOVES("use_cpu|ipex_config|mpirun_config", "a run that is not on CUDA"),
    KNOWN(
        "debug|machine_rank|gpu_ids|main_process_ip|main_process_port|rdzv_backend|same_network|main_training_function|enable_cpu_affinity|"
        "downcast_bf16|tpu_name|tpu_zone|tpu_use_cluster|tpu_use_sudo|command_file|commands|tpu_vm|tpu_env"),
    BY(read_old_fp16, "fp16", NULL),
    {0},
};
