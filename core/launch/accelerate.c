/*
 * accelerate's YAML, for `accelerate launch --config_file`.
 *
 * Source    accelerate 1.15.0 commands/config/config_args.py ClusterConfig (an unknown key is an error), commands/launch.py
 *           _validate_launch_command, utils/launch.py prepare_multi_gpu_env, prepare_deepspeed_cmd_env,
 *           prepare_extend_env_parallelism_config; utils/dataclasses.py DeepSpeedPlugin._deepspeed_config_checks: beside a
 *           deepspeed_config_file stands no mixed_precision, no stage, no batch.
 */
#include "launch/launch.h"

static void pair(struct buf *out, const char *key, const char *value)
{
    buf_str(out, key);
    buf_str(out, ": ");
    buf_str(out, value);
    buf_char(out, '\n');
}

static void number(struct buf *out, const char *key, uint64_t value)
{
    buf_str(out, key);
    buf_str(out, ": ");
    buf_u64(out, value);
    buf_char(out, '\n');
}

static void flag(struct buf *out, const char *key, bool on)
{
    pair(out, key, on ? "true" : "false");
}

/* Each machine runs a launcher of its own: "standard"; the default would go to the others by pdsh. */
static void write_deepspeed(struct buf *out, const struct launch *l)
{
    buf_str(out, "deepspeed_config:\n");
    pair(out, "  deepspeed_config_file", launch_file(FILE_DEEPSPEED));
    pair(out, "  deepspeed_multinode_launcher", "standard");
    flag(out, "  zero3_init_flag", l->step->r.zero.zero_init == TRI_TRUE);
}

static const char *prefetch(enum fsdp_prefetch p)
{
    return p == FSDP_PREFETCH_PRE ? "BACKWARD_PRE" : p == FSDP_PREFETCH_POST ? "BACKWARD_POST" : "NO_PREFETCH";
}

static void write_fsdp1(struct buf *out, const struct launch *l)
{
    const struct fsdp_recipe *f = &l->step->r.fsdp;

    pair(out, "  fsdp_sharding_strategy", launch_method(l->step->r.method)->strategy);
    pair(out, "  fsdp_backward_prefetch", prefetch(f->backward_prefetch));
    flag(out, "  fsdp_forward_prefetch", f->forward_prefetch == TRI_TRUE);
    flag(out, "  fsdp_use_orig_params", f->use_orig_params == TRI_TRUE);
    flag(out, "  fsdp_sync_module_states", true);
}

static void write_fsdp(struct buf *out, const struct launch *l)
{
    const struct launch_method *m = launch_method(l->step->r.method);

    buf_str(out, "fsdp_config:\n");
    number(out, "  fsdp_version", m->fsdp_version);
    pair(out, "  fsdp_auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    if (m->fsdp_version == 1)
        write_fsdp1(out, l);
    else
        flag(out, "  fsdp_reshard_after_forward", m->reshard);
    flag(out, "  fsdp_offload_params", l->step->r.offload == OFFLOAD_OPTIMIZER_PARAMS);
    flag(out, "  fsdp_cpu_ram_efficient_loading", l->step->r.fsdp.cpu_ram_efficient_loading == TRI_TRUE);
    pair(out, "  fsdp_state_dict_type", "SHARDED_STATE_DICT");
}

/* Sizes that are left out are 1. Pure tensor parallelism has no data parallelism beside it. */
static void write_mesh(struct buf *out, const struct launch *l)
{
    const struct recipe *r = &l->step->r;
    bool hybrid = r->method == METHOD_HSDP2 && r->shard_group && r->shard_group < r->data_parallel;
    uint32_t shard = hybrid ? r->shard_group : r->data_parallel;

    buf_str(out, "parallelism_config:\n");
    number(out, "  parallelism_config_dp_replicate_size", hybrid ? r->data_parallel / shard : 1);
    number(out, "  parallelism_config_dp_shard_size", shard);
    number(out, "  parallelism_config_tp_size", r->tensor_parallel);
}

static void write_machines(struct buf *out, const struct launch *l)
{
    number(out, "num_machines", launch_nodes(l));
    number(out, "num_processes", launch_world(l));
    number(out, "machine_rank", 0);
    pair(out, "rdzv_backend", "static");
    pair(out, "same_network", "true");
    pair(out, "main_training_function", "main");
}

void launch_accelerate(struct buf *out, const struct launch *l)
{
    const struct launch_method *m = launch_method(l->step->r.method);
    const char *half = launch_half(l);

    pair(out, "compute_environment", "LOCAL_MACHINE");
    pair(out, "debug", "false");
    pair(out, "distributed_type", m->distributed);
    if (!m->engine)
        pair(out, "mixed_precision", half ? half : "'no'");
    write_machines(out, l);
    if (m->engine)
        write_deepspeed(out, l);
    if (m->fsdp_version)
        write_fsdp(out, l);
    if (m->mesh)
        write_mesh(out, l);
    pair(out, "use_cpu", "false");
}
