/* Each method by the names of those who start it. Source: accelerate 1.15.0 utils/dataclasses.py DistributedType, utils/constants.py
 * FSDP_SHARDING_STRATEGY; what accelerate does not start, torchrun does (torch 2.15 distributed/run.py, distributed/pipelining). */
#include "launch/launch.h"

#include "stack/defaults.h"

// clang-format off
#define ZERO(n)     {.launcher = LAUNCHER_ACCELERATE, .distributed = "DEEPSPEED", .engine = true, .zero_stage = n}
#define FSDP1(name) {.launcher = LAUNCHER_ACCELERATE, .distributed = "FSDP", .fsdp_version = 1, .strategy = name}
#define FSDP2(...)  {.launcher = LAUNCHER_ACCELERATE, .distributed = "FSDP", .fsdp_version = 2, __VA_ARGS__}

static const struct launch_method methods[METHOD_COUNT] = {
    [METHOD_SINGLE]          = {.launcher = LAUNCHER_PYTHON},
    [METHOD_DDP]             = {.launcher = LAUNCHER_ACCELERATE, .distributed = "MULTI_GPU"},
    [METHOD_ZERO0]           = ZERO(0),
    [METHOD_ZERO1]           = ZERO(1),
    [METHOD_ZERO2]           = ZERO(2),
    [METHOD_ZERO3]           = ZERO(3),
    [METHOD_FSDP]            = FSDP1("FULL_SHARD"),
    [METHOD_FSDP_GRAD_OP]    = FSDP1("SHARD_GRAD_OP"),
    [METHOD_FSDP_NO_SHARD]   = FSDP1("NO_SHARD"),
    [METHOD_HSDP]            = FSDP1("HYBRID_SHARD"),
    [METHOD_FSDP2]           = FSDP2(.reshard = true),
    [METHOD_FSDP2_NORESHARD] = FSDP2(.reshard = false),
    [METHOD_HSDP2]           = FSDP2(.reshard = true, .mesh = true),
    [METHOD_TP]              = {.launcher = LAUNCHER_ACCELERATE, .distributed = "MULTI_GPU", .mesh = true},
    [METHOD_TP_FSDP2]        = FSDP2(.reshard = true, .mesh = true),
    [METHOD_PP]              = {.launcher = LAUNCHER_TORCHRUN},
    [METHOD_LLMEM_CDP]       = {.launcher = LAUNCHER_TORCHRUN},
    [METHOD_LLMEM_ADP]       = {.launcher = LAUNCHER_TORCHRUN},
    [METHOD_LLMEM_TP]        = {.launcher = LAUNCHER_TORCHRUN},
    [METHOD_LLMEM_DPTP]      = {.launcher = LAUNCHER_TORCHRUN},
};
// clang-format on

const struct launch_method *launch_method(enum method m)
{
    return &methods[m];
}

bool launch_offers(const struct step *step)
{
    struct stack_defaults d = stack_defaults_of(&step->r.stack);

    if (step->r.method == METHOD_PP || method_is_colossal(step->r.method))
        return false;
    if (step->r.framework != FRAMEWORK_TRANSFORMERS)
        return true;
    switch (step->r.method) {
    case METHOD_FSDP2:
    case METHOD_FSDP2_NORESHARD:
        return d.launches_fsdp2;
    case METHOD_HSDP2:
        return d.launches_mesh;
    case METHOD_TP:
        return d.trains_tp;
    case METHOD_TP_FSDP2:
        return d.trains_tp_fsdp2;
    default:
        return true;
    }
}

const char *launch_file(enum launch_file file)
{
    static const char *const names[] = {
        [FILE_DEEPSPEED] = "deepspeed.json", [FILE_ACCELERATE] = "accelerate.yaml", [FILE_SCRIPT] = "train.py"};

    return names[file];
}

bool launch_is_trainer(const struct launch *l)
{
    bool offered = launch_method(l->step->r.method)->launcher != LAUNCHER_TORCHRUN;

    return offered && !l->own_loop && l->step->r.framework == FRAMEWORK_TRANSFORMERS;
}

uint32_t launch_world(const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    return r->data_parallel * r->tensor_parallel * r->pipeline_parallel;
}

uint32_t launch_nodes(const struct launch *l)
{
    uint32_t per_node = l->gpus_per_node ? l->gpus_per_node : 1;

    return (launch_world(l) + per_node - 1) / per_node;
}

uint32_t launch_gpus_per_node(const struct launch *l)
{
    return launch_world(l) / launch_nodes(l);
}

const char *launch_half(const struct launch *l)
{
    switch (l->step->r.precision) {
    case PRECISION_BF16_AUTOCAST:
    case PRECISION_BF16_MIXED:
        return "bf16";
    case PRECISION_FP16_AUTOCAST:
    case PRECISION_FP16_MIXED:
        return "fp16";
    default:
        return NULL;
    }
}

bool launch_has_deepspeed(const struct launch *l)
{
    return launch_method(l->step->r.method)->engine;
}

bool launch_has_accelerate(const struct launch *l)
{
    return launch_is_trainer(l) && launch_method(l->step->r.method)->launcher == LAUNCHER_ACCELERATE;
}
