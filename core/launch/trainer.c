/*
 * TrainingArguments: the members that make the Trainer do what was estimated.
 *
 * Source    transformers 5.23.0 training_args.py (_process_fsdp_args, trainer_config_process in integrations/deepspeed.py), hf_argparser.py
 *           (dicts are JSON in quotes; a flag without a value is true); 4.40.0 training_args.py.
 */
#include "launch/launch.h"

#include "stack/defaults.h"

#include <stdio.h>
#include <string.h>

/* --- one argument, either spelling --------------------------------------------------------------------------------------------------- */

static void flag_name(struct arguments *to, const char *name)
{
    buf_str(to->flags, " \\\n    --");
    buf_str(to->flags, name);
    buf_char(to->flags, ' ');
}

static void argue_str(struct arguments *to, const char *name, const char *value)
{
    if (to->object) {
        jsonw_str(to->object, name, value);
        return;
    }
    flag_name(to, name);
    buf_str(to->flags, value);
}

static void argue_bool(struct arguments *to, const char *name, bool value)
{
    if (to->object)
        jsonw_bool(to->object, name, value);
    else
        argue_str(to, name, value ? "true" : "false");
}

static void argue_u64(struct arguments *to, const char *name, uint64_t value)
{
    if (to->object) {
        jsonw_u64(to->object, name, value);
        return;
    }
    flag_name(to, name);
    buf_u64(to->flags, value);
}

static void argue_real(struct arguments *to, const char *name, double value)
{
    struct jsonw w;

    if (to->object) {
        jsonw_fixed(to->object, name, value, 9);
        return;
    }
    flag_name(to, name);
    jsonw_init(&w, to->flags, false);
    jsonw_fixed(&w, NULL, value, 9);
}

/* An object: as JSON in single quotes it is one word of a shell. argue_end() closes it. */
static struct jsonw *argue_object(struct arguments *to, const char *name, struct jsonw *quoted)
{
    if (to->object) {
        jsonw_object(to->object, name);
        return to->object;
    }
    flag_name(to, name);
    buf_char(to->flags, '\'');
    jsonw_init(quoted, to->flags, false);
    jsonw_object(quoted, NULL);
    return quoted;
}

static void argue_end(struct arguments *to, struct jsonw *w)
{
    jsonw_end(w);
    if (to->flags)
        buf_char(to->flags, '\'');
}

/* --- what they are ------------------------------------------------------------------------------------------------------------------- */

static void argue_checkpointing(struct arguments *to, const struct recipe *r)
{
    struct jsonw quoted, *w;

    argue_bool(to, "gradient_checkpointing", r->gradient_checkpointing == TRI_TRUE);
    if (r->gradient_checkpointing != TRI_TRUE)
        return;
    w = argue_object(to, "gradient_checkpointing_kwargs", &quoted);
    jsonw_bool(w, "use_reentrant", r->checkpoint_reentrant == TRI_TRUE);
    argue_end(to, w);
}

static void argue_ddp(struct arguments *to, const struct step *s)
{
    argue_bool(to, "ddp_find_unused_parameters", s->find_unused_parameters);
    if (s->r.ddp_bucket_bytes % (1 << 20) == 0)
        argue_u64(to, "ddp_bucket_cap_mb", s->r.ddp_bucket_bytes >> 20);
}

static void argue_accumulation(struct arguments *to)
{
    struct jsonw quoted, *w = argue_object(to, "accelerator_config", &quoted);

    jsonw_object(w, "gradient_accumulation_kwargs");
    jsonw_bool(w, "sync_each_batch", true);
    jsonw_end(w);
    argue_end(to, w);
}

static const char *lower(char *text, size_t room, const char *from)
{
    size_t i = 0;

    for (; from[i] && i + 1 < room; i++)
        text[i] = (char)(from[i] >= 'A' && from[i] <= 'Z' ? from[i] + 32 : from[i]);
    text[i] = 0;
    return text;
}

static void write_fsdp1(struct jsonw *w, const struct fsdp_recipe *f)
{
    static const char *const prefetch[] = {
        [FSDP_PREFETCH_PRE] = "backward_pre", [FSDP_PREFETCH_POST] = "backward_post", [FSDP_PREFETCH_NONE] = "no_prefetch"};

    jsonw_str(w, "backward_prefetch", prefetch[f->backward_prefetch]);
    jsonw_bool(w, "forward_prefetch", f->forward_prefetch == TRI_TRUE);
    jsonw_bool(w, "use_orig_params", f->use_orig_params == TRI_TRUE);
    if (f->limit_all_gathers == TRI_FALSE)
        jsonw_bool(w, "limit_all_gathers", false);
}

/* "fsdp" is a flag since transformers 5, and everything else stands in fsdp_config; before, it was the strategy and its options, under
 * fully_shard too, which reads its own setting. */
static void argue_fsdp_flag(struct arguments *to, const struct launch *l, bool is_flag)
{
    const char *named = launch_method(l->step->r.method)->strategy, *strategy = named ? named : "full_shard";
    char name[32], text[80];

    if (is_flag && to->object) {
        jsonw_bool(to->object, "fsdp", true);
    } else if (is_flag) {
        buf_str(to->flags, " \\\n    --fsdp");
    } else {
        (void)snprintf(text, sizeof text, to->object ? "%s auto_wrap%s" : "'%s auto_wrap%s'", lower(name, sizeof name, strategy),
                       l->step->r.offload == OFFLOAD_OPTIMIZER_PARAMS ? " offload" : "");
        argue_str(to, "fsdp", text);
    }
}

static void argue_fsdp(struct arguments *to, const struct launch *l)
{
    const struct launch_method *m = launch_method(l->step->r.method);
    bool is_flag = stack_defaults_of(&l->step->r.stack).trainer_fsdp2;
    struct jsonw quoted, *w;
    char name[32];

    argue_fsdp_flag(to, l, is_flag);
    w = argue_object(to, "fsdp_config", &quoted);
    if (is_flag || m->fsdp_version == 2)
        jsonw_u64(w, "version", m->fsdp_version);
    if (is_flag && m->fsdp_version == 1)
        jsonw_str(w, "reshard_after_forward", lower(name, sizeof name, m->strategy));
    if (m->fsdp_version == 1)
        write_fsdp1(w, &l->step->r.fsdp);
    else
        jsonw_bool(w, "reshard_after_forward", m->reshard);
    if (is_flag)
        jsonw_str(w, "auto_wrap_policy", "TRANSFORMER_BASED_WRAP");
    if (is_flag && l->step->r.offload == OFFLOAD_OPTIMIZER_PARAMS)
        jsonw_bool(w, "cpu_offload", true);
    jsonw_bool(w, "cpu_ram_efficient_loading", l->step->r.fsdp.cpu_ram_efficient_loading == TRI_TRUE);
    jsonw_str(w, "state_dict_type", "SHARDED_STATE_DICT");
    argue_end(to, w);
}

static void argue_loop(struct arguments *to, const struct launch *l)
{
    const struct recipe *r = &l->step->r;
    const char *half = launch_half(l);

    argue_u64(to, "per_device_train_batch_size", r->micro_batch_size);
    argue_u64(to, "gradient_accumulation_steps", r->gradient_accumulation_steps);
    argue_bool(to, "bf16", half && !strcmp(half, "bf16"));
    argue_bool(to, "fp16", half && !strcmp(half, "fp16"));
    argue_str(to, "optim", l->optimizer);
    argue_real(to, "max_grad_norm", r->max_grad_norm);
    argue_checkpointing(to, r);
    if (stack_defaults_of(&r->stack).cache_off) /* an argument since transformers 5 */
        argue_bool(to, "use_cache", r->use_cache == TRI_TRUE);
}

/* integrations/deepspeed.py: a stage 3 that TrainingArguments know makes from_pretrained() build the model within zero.Init(). Without
 * it accelerate's file alone says who wraps the model, and its zero3_init_flag holds. */
static bool names_deepspeed(const struct launch *l)
{
    return launch_has_deepspeed(l) && (l->step->r.method != METHOD_ZERO3 || l->step->r.zero.zero_init == TRI_TRUE);
}

void launch_training_arguments(struct arguments *to, const struct launch *l)
{
    const struct recipe *r = &l->step->r;

    argue_str(to, "output_dir", "output");
    argue_loop(to, l);
    if (r->method == METHOD_DDP)
        argue_ddp(to, l->step);
    if (r->sync_each_batch == TRI_TRUE)
        argue_accumulation(to);
    if (names_deepspeed(l))
        argue_str(to, "deepspeed", launch_file(FILE_DEEPSPEED));
    if (launch_method(r->method)->fsdp_version)
        argue_fsdp(to, l);
}
