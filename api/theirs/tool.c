/*
 * framework_config: a tool's own file, whose keys stand in the tables of training_arguments, and what it means where it says nothing.
 *
 * Source    axolotl 0.19.0 utils/schemas/{config,training,model}.py; llamafactory 0.9.5 hparams; trl 1.16.0 trainer/{sft,model}_config.py;
 *           those of ms-swift, open-instruct and oumi at the head of their tables.
 */
#include "api/theirs/theirs.h"

#include <string.h>

static const struct tool_default axolotl_defaults[] = {
    {"sequence_len", "training.seq_len", "512", NULL},
    {"micro_batch_size", "training.micro_batch_size", "1", "training.global_batch_size"},
    {0},
};

static const struct tool_default llama_factory_defaults[] = {
    {"cutoff_len", "training.seq_len", "2048", NULL},
    {"finetuning_type", "training.tuning", "\"lora\"", NULL},
    {0},
};

static const struct tool_default trl_defaults[] = {
    {"max_length", "training.seq_len", "1024", NULL},
    {"gradient_checkpointing", "training.gradient_checkpointing", "true", NULL},
    {0},
};

static const struct tool_default ms_swift_defaults[] = {
    {"per_device_train_batch_size", "training.micro_batch_size", "1", "training.global_batch_size"},
    {"tuner_type", "training.tuning", "\"lora\"", NULL},
    {"lora_rank", "training.lora.rank", "8", NULL},
    {"target_modules", "training.lora.target_modules", "\"all-linear\"", NULL},
    {"gradient_checkpointing", "training.gradient_checkpointing", "true", NULL},
    {0},
};

static const struct tool_default open_instruct_defaults[] = {
    {"per_device_train_batch_size", "training.micro_batch_size", "8", "training.global_batch_size"},
    {"use_lora", "training.tuning", "\"full\"", NULL},
    {"lora_rank", "training.lora.rank", "64", NULL},
    {"gradient_checkpointing", "training.gradient_checkpointing", "false", NULL},
    {"fused_optimizer", "training.optimizer", "\"adamw_torch_fused\"", NULL},
    {"clip_grad_norm", "training.max_grad_norm", "0", NULL},
    {0},
};

static const struct tool_default oumi_defaults[] = {
    {"training.per_device_train_batch_size", "training.micro_batch_size", "8", "training.global_batch_size"},
    {"training.use_peft", "training.tuning", "\"full\"", NULL},
    {"peft.lora_r", "training.lora.rank", "8", NULL},
    {"training.enable_gradient_checkpointing", "training.gradient_checkpointing", "false", NULL},
    {"training.optimizer", "training.optimizer", "\"adamw_torch\"", NULL},
    {0},
};

/* SFTConfig's "nll"; another trainer's loss is its own. */
static enum err_code trl_settle(struct theirs *t)
{
    if (theirs_has_stage(t))
        return ERR_OK;
    return theirs_leave_out(t, "training.loss", "\"chunked_nll\"", "loss_type");
}

/* bf16: "auto" is axolotl's default, true SFTConfig's. */
static const struct tool_file files[TOOLS] = {
    [TOOL_AXOLOTL] = {.source = "axolotl 0.19.0", .amp = AMP_BF16, .defaults = axolotl_defaults, .settle = axolotl_settle},
    [TOOL_LLAMA_FACTORY] = {.source = "llamafactory 0.9.5", .amp = AMP_NO, .defaults = llama_factory_defaults},
    [TOOL_TRL] = {.source = "trl 1.16.0", .amp = AMP_BF16, .defaults = trl_defaults, .settle = trl_settle},
    [TOOL_MS_SWIFT] =
        {.source = "ms-swift 4.6.0", .amp = AMP_AS_LOADED, .keys = ms_swift_keys, .defaults = ms_swift_defaults, .settle = ms_swift_settle},
    [TOOL_OPEN_INSTRUCT] = {.source = "open-instruct e6c3044a finetune.py",
                            .amp = AMP_NO,
                            .keys = open_instruct_keys,
                            .defaults = open_instruct_defaults,
                            .settle = open_instruct_settle},
    [TOOL_OUMI] = {.source = "oumi 0.9", .amp = AMP_NO, .keys = oumi_keys, .defaults = oumi_defaults},
};

enum err_code theirs_tool(struct theirs *t, const struct tool_file **ret)
{
    const struct estimate_request *rq = &t->e->rq;
    const struct framework_config_request *f = &rq->framework_config;
    int tool = f->framework.n ? tool_words[f->framework.at[0]].value : WORD_UNMODELLED;

    *ret = NULL;
    if (!f->text && !f->framework.n)
        return ERR_OK;
    if (!f->framework.n)
        return err_set(t->d.err, ERR_FIELD_MISSING, "/framework_config/framework",
                       "whose file it is: axolotl, llama-factory, ms-swift, oumi, open-instruct or trl");
    if (!f->text)
        return err_set(t->d.err, ERR_FIELD_MISSING, "/framework_config/text", "what is in the file");
    if (rq->training_arguments)
        return err_set(t->d.err, ERR_FIELD_CONFLICT, "/framework_config", "says what training_arguments say: give one of them");
    if (tool != WORD_UNMODELLED)
        *ret = &files[tool];
    else
        note(
            &t->e->warnings,
            "/framework_config: %s's file is not read; say the same in `training` (micro_batch_size, seq_len, tuning, lora, precision), or, where its "
            "arguments are transformers' own, as training_arguments",
            tool_words[f->framework.at[0]].name);
    return ERR_OK;
}

const char *theirs_tool_source(enum tool tool)
{
    return files[tool].source;
}

bool theirs_tool_is(const struct theirs *t, enum tool tool)
{
    return t->tool == &files[tool];
}

/* axolotl utils/config normalize_config; trl's ModelConfig.dtype; LLaMA-Factory model/adapter.py upcasts what full tuning trains (but with
 * pure_bf16, a precision of its own) and loads the rest as patcher.py and parser.py say. */
void theirs_tool_loads(struct theirs *t)
{
    struct estimate *e = t->e;
    const char *type = json_str(json_get(t->arguments, "finetuning_type"));
    bool is_llama_factory = t->tool ? theirs_tool_is(t, TOOL_LLAMA_FACTORY) : type || json_get(t->arguments, "cutoff_len"), in_8bit = false;
    enum dtype_saved half = e->amp == AMP_BF16 ? SAVED_BF16 : e->amp == AMP_FP16 ? SAVED_FP16 : SAVED_ABSENT;

    if (e->loaded || e->loads_as_saved)
        return;
    (void)theirs_flag(json_get(t->arguments, "load_in_8bit"), &in_8bit);
    if (theirs_tool_is(t, TOOL_MS_SWIFT) || theirs_tool_is(t, TOOL_OUMI)) /* torch_dtype: that of the config; torch_dtype_str: "auto" */
        e->loads_as_saved = true;
    else if (theirs_tool_is(t, TOOL_OPEN_INSTRUCT))
        e->loaded = SAVED_BF16;
    else if (theirs_tool_is(t, TOOL_AXOLOTL))
        e->loaded = half ? half : in_8bit ? SAVED_FP16 : SAVED_FP32;
    else if (theirs_tool_is(t, TOOL_TRL) || (is_llama_factory && type && !strcmp(type, "full")))
        e->loaded = SAVED_FP32;
    else if (is_llama_factory && half)
        e->loaded = half;
}

static bool trains_adapters(const struct theirs *t)
{
    const struct words *w = &t->e->rq.training.tuning;

    return w->n && strcmp(tuning_words[w->at[0]].name, "full") != 0;
}

enum err_code theirs_tool_defaults(struct theirs *t)
{
    enum err_code rc = ERR_OK;

    for (const struct tool_default *d = t->tool->defaults; d->name && !rc; d++)
        if ((!d->unless || !theirs_is_filled(t, d->unless)) && (strncmp(d->member, "training.lora.", 14) != 0 || trains_adapters(t)))
            rc = theirs_leave_out(t, d->member, d->json, d->name);
    return rc || !t->tool->settle ? rc : t->tool->settle(t);
}
