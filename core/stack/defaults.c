#include "stack/defaults.h"

#include "stack/release.h"

#include <stddef.h>
#include <string.h>

#define PACKAGE(name) offsetof(struct stack, name)
#define NEVER UINT32_MAX

/* One default that begins to hold with a release of a package and ceases with another. */
static const struct since {
    size_t flag, package;
    release from, to; /* to: the first release without it */
} since[] = {
    /* training_args.py, default_optim: if is_torch_greater_or_equal_than_2_8 in 4.54, a comment in 4.53 (both rows must hold) */
    {offsetof(struct stack_defaults, fused_adamw), PACKAGE(torch), 2008, NEVER},
    {offsetof(struct stack_defaults, fused_adamw), PACKAGE(transformers), 4054, NEVER},
    /* modeling_utils.py, gradient_checkpointing_enable: {"use_reentrant": True} in 4.57, False in 5.0 */
    {offsetof(struct stack_defaults, reentrant), PACKAGE(transformers), 0, 5000},
    /* trainer.py since 5.0, not in 4.57: self.model.config.use_cache = self.args.use_cache (training_args.py: False) */
    {offsetof(struct stack_defaults, cache_off), PACKAGE(transformers), 5000, NEVER},
    /* modeling_utils.py, from_pretrained: dtype="auto" by itself in 5, torch_dtype=None (fp32) in 4 */
    {offsetof(struct stack_defaults, loads_as_saved), PACKAGE(transformers), 5000, NEVER},
    /* peft_model.py: autocast_adapter_dtype=True, since peft 0.12; tuners/lora/layer.py of 0.10 takes the base's dtype */
    {offsetof(struct stack_defaults, adapters_in_fp32), PACKAGE(peft), 12, NEVER},
    /* modeling_utils.py, from_pretrained: "`torch_dtype` is deprecated" in 4.56; 4.55 knows no other */
    {offsetof(struct stack_defaults, dtype_argument), PACKAGE(transformers), 4056, NEVER},
    /* accelerate accelerator.py prepare_model ("upcasting"): 0.30.1 has it, 0.29.3 not; fsdp2_prepare_model has had it from its first release, 1.6 */
    {offsetof(struct stack_defaults, fsdp_upcasts), PACKAGE(accelerate), 30, NEVER},
    /* accelerate utils/fsdp_utils.py fsdp2_prepare_model: "Carve embed + tail" in 1.14.0; 1.13.0 shards layers, then the model */
    {offsetof(struct stack_defaults, fsdp2_units), PACKAGE(accelerate), 1014, NEVER},
    /* trainer.py: accelerator.accumulate() up to 4.46, which asks; a no_sync() of its own from 4.47, which asks since 5.2 */
    {offsetof(struct stack_defaults, ignores_sync), PACKAGE(transformers), 4047, 5002},
    /* accelerate commands/launch.py: --fsdp_version in 1.6, none in 1.5 */
    {offsetof(struct stack_defaults, launches_fsdp2), PACKAGE(accelerate), 1006, NEVER},
    /* accelerate commands/launch.py, config_args.py: parallelism_config in 1.10, none in 1.9 */
    {offsetof(struct stack_defaults, launches_mesh), PACKAGE(accelerate), 1010, NEVER},
    /* trainer.py, create_accelerator_and_postprocess: TrainingArguments.parallelism_config beside model.tp_size in 4.56, none in 4.55 */
    {offsetof(struct stack_defaults, trains_tp), PACKAGE(transformers), 4056, NEVER},
    {offsetof(struct stack_defaults, trains_tp), PACKAGE(accelerate), 1010, NEVER},
    /* the same: a ParallelismConfig is given the model's tp_size in 5.0; 4.57 makes a TorchTensorParallelPlugin, which knows no shards */
    {offsetof(struct stack_defaults, trains_tp_fsdp2), PACKAGE(transformers), 5000, NEVER},
    {offsetof(struct stack_defaults, trains_tp_fsdp2), PACKAGE(accelerate), 1012, NEVER},
    /* distributed/configuration_utils.py: DistributedConfig.tp_size in 5.10, none in 5.9 */
    {offsetof(struct stack_defaults, tp_by_config), PACKAGE(transformers), 5010, NEVER},
    /* training_args.py, _process_fsdp_args: fsdp_config.get("version", 2) in 5.10; 5.9 has 1 */
    {offsetof(struct stack_defaults, trainer_fsdp2), PACKAGE(transformers), 5010, NEVER},
    /* training_args.py OptimizerNames: ADAMW_HF in 4.49, none in 4.50 */
    {offsetof(struct stack_defaults, own_adamw), PACKAGE(transformers), 0, 4050},
    /* torch/optim/_muon.py: 2.9 on, none in 2.7.1 */
    {offsetof(struct stack_defaults, muon), PACKAGE(torch), 2009, NEVER},
    /* distributed/tensor/_ops/_matrix_ops.py of 2.15; earlier layouts of products were not looked at */
    {offsetof(struct stack_defaults, dtensor_products), PACKAGE(torch), 2015, NEVER},
    /* modeling_utils.py: one _supports_flash_attn in 4.54; 4.53 has a _supports_flash_attn_3 of each class */
    {offsetof(struct stack_defaults, has_flash_3), PACKAGE(transformers), 4054, NEVER},
};

static bool holds(const struct since *row, const struct stack *s)
{
    release have;

    memcpy(&have, (const char *)s + row->package, sizeof have);
    return have >= row->from && have < row->to;
}

struct stack_defaults stack_defaults_of(const struct stack *s)
{
    struct stack_defaults d = {true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true};

    for (size_t i = 0; i < sizeof since / sizeof *since; i++)
        if (!holds(&since[i], s))
            *(bool *)((char *)&d + since[i].flag) = false;
    return d;
}

#define E CLASS_EAGER
#define S CLASS_SDPA
#define F CLASS_FLASH_2
#define X CLASS_FLEX
#define C CLASS_SEQUENCES
#define T CLASS_TOKENS

static const struct class_row {
    const char *model_type;
    release from;
    unsigned offers;
} classes[] = {
#define MODEL_TYPE(type, from, offers) {type, from, offers},
#include "stack/models.def"
#undef MODEL_TYPE
};

/* _check_and_enable_sdpa of modeling_gemma2.py in 4.45 to 4.47: only where somebody asks for it. (Before and after, it leaves the cap of scores out.) */
static bool is_if_asked(const char *model_type, const struct stack *s)
{
    return !strcmp(model_type, "gemma2") && s->transformers >= 4045 && s->transformers < 4048;
}

/* What the type's row at a release says; `otherwise`: it has none. */
static unsigned row_of(const char *model_type, release have, unsigned otherwise)
{
    unsigned offers = 0;
    bool known = false;

    for (const struct class_row *row = classes; row < classes + sizeof classes / sizeof *classes; row++) {
        if (strcmp(row->model_type, model_type) != 0)
            continue;
        known = true;
        if (have >= row->from)
            offers = row->offers;
    }
    return known ? offers : otherwise;
}

unsigned stack_class_attention(const char *model_type, const struct stack *s)
{
    unsigned offers = row_of(model_type, s->transformers, E | S | F) & ~(unsigned)(C | T);

    return is_if_asked(model_type, s) ? offers ^ (CLASS_SDPA | CLASS_SDPA_IF_ASKED) : offers;
}

unsigned stack_class_heads(const char *model_type, const struct stack *s)
{
    return row_of(model_type, s->transformers, C | T) & (C | T);
}

release stack_head_first(const char *model_type, unsigned head)
{
    for (const struct class_row *row = classes; row < classes + sizeof classes / sizeof *classes; row++)
        if (!strcmp(row->model_type, model_type) && row->offers & head)
            return row->from;
    return UINT32_MAX;
}

release stack_class_first(const char *model_type)
{
    for (const struct class_row *row = classes; row < classes + sizeof classes / sizeof *classes; row++)
        if (!strcmp(row->model_type, model_type))
            return row->from;
    return 0;
}

bool stack_type_is_known(const char *model_type)
{
    for (const struct class_row *row = classes; row < classes + sizeof classes / sizeof *classes; row++)
        if (!strcmp(row->model_type, model_type))
            return true;
    return false;
}

unsigned stack_kernels(const char *model_type)
{
    static const struct {
        unsigned packages;
        const char *types[8];
    } takes[] = {
        {PACKAGE_BIT(PACKAGE_MAMBA_SSM) | PACKAGE_BIT(PACKAGE_CAUSAL_CONV1D), {"mamba", "mamba2", "jamba", "bamba", "falcon_h1", "granitemoehybrid", "nemotron_h"}},
        {PACKAGE_BIT(PACKAGE_FLA) | PACKAGE_BIT(PACKAGE_CAUSAL_CONV1D), {"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"}},
        {PACKAGE_BIT(PACKAGE_CAUSAL_CONV1D), {"lfm2", "lfm2_moe"}},
    };

    for (size_t i = 0; model_type && i < sizeof takes / sizeof *takes; i++)
        for (size_t k = 0; k < 8 && takes[i].types[k]; k++)
            if (!strcmp(takes[i].types[k], model_type))
                return takes[i].packages;
    return 0;
}
