/* Users' own configs: what several keys, or a key and the model, mean together. */
#include "api/theirs/theirs.h"

#include "models/kernels.h"
#include "stack/defaults.h"
#include "tuning/pattern.h"

#include <stdio.h>
#include <string.h>

/* Errors are told where the key stands that says it. */
static void stand_at(struct theirs *t, const char *path)
{
    (void)snprintf(t->d.path, sizeof t->d.path, "%s", path ? path : "");
}

static enum err_code say_at(struct theirs *t, const char *path, const char *member, const char *word)
{
    stand_at(t, path);
    return theirs_say_word(t, member, word);
}

static enum err_code conflict(struct theirs *t, const char *path, const char *what)
{
    stand_at(t, path);
    return decode_fail(&t->d, ERR_FIELD_CONFLICT, "%s", what);
}

/* --- method ------------------------------------------------------------------------------------------------------------------------ */

static enum err_code settle_deepspeed(struct theirs *t)
{
    char method[16];

    t->e->deepspeed = true;
    if (t->stage < 3 && t->at.offload_params)
        return conflict(t, t->at.offload_params, "parameters are offloaded by stage 3 only");
    if (!t->stage && t->at.offload_optimizer)
        return conflict(t, t->at.offload_optimizer, "the optimizer is offloaded by stages 1 to 3 only");
    if (!t->stage && t->at.own_adam) { /* runtime/engine.py _configure_fp16_optimizer */
        stand_at(t, t->at.own_adam);
        theirs_gap(&t->d, "FP16_Optimizer, which flattens what DeepSpeed's own Adam steps under stage 0");
    }
    if (t->stage == 3 && t->e->rq.training.buckets.max_live_elems.set && !theirs_is_filled(t, "training.buckets.reuse_elems")) {
        enum err_code rc = theirs_say_text(t, "training.buckets.reuse_elems", "1000000000"); /* runtime/zero/config.py */

        if (rc)
            return rc;
    }
    (void)snprintf(method, sizeof method, "zero%u", t->stage % 4);
    return say_at(t, t->at.stage ? t->at.stage : "/deepspeed_config", "training.methods", method);
}

static bool is_tensor_parallel(const struct theirs *t)
{
    return t->e->rq.training.tensor_parallel.set && t->e->rq.training.tensor_parallel.whole > 1;
}

static const char *fsdp_method(const struct theirs *t, unsigned version, bool hybrid)
{
    bool keeps = t->reshard == TRI_FALSE || (t->fsdp_method && !strcmp(t->fsdp_method, "fsdp_grad_op"));

    if (version == 2 && is_tensor_parallel(t))
        return "tp+fsdp2";
    if (version == 2)
        return hybrid ? "hsdp2" : keeps ? "fsdp2_noreshard" : "fsdp2";
    return hybrid ? "hsdp" : t->fsdp_method ? t->fsdp_method : keeps ? "fsdp_grad_op" : "fsdp";
}

/* torch's two FSDPs. The Trainer and accelerate default to different ones. */
static enum err_code settle_fsdp(struct theirs *t)
{
    unsigned version = t->fsdp_version ? t->fsdp_version : t->distributed ? 1 : stack_defaults_of(&t->e->stack).trainer_fsdp2 ? 2 : 1;
    bool hybrid = t->replicas > 1 || (t->fsdp_method && !strcmp(t->fsdp_method, "hsdp"));
    const char *path = t->at.strategy ? t->at.strategy : t->at.distributed;
    enum err_code rc = ERR_OK;

    stand_at(t, path);
    if (t->at.strategy && !t->distributed && !theirs_tool_is(t, TOOL_OUMI) && !theirs_is_filled(t, "training.fsdp.cpu_ram_efficient_loading"))
        rc = theirs_say_text(t, "training.fsdp.cpu_ram_efficient_loading", "false"); /* training_args.py: fsdp_config.get(.., "false") */
    if (!rc && t->shards > 1 && hybrid)
        rc = theirs_say_number(t, "training.shard_group", t->shards);
    return rc ? rc : say_at(t, path, "training.methods", fsdp_method(t, version, hybrid));
}

static bool is_type(const struct theirs *t, const char *type)
{
    return t->distributed && word_among(type, t->distributed, strlen(t->distributed), true);
}

/* accelerate/parallelism_config.py: replicas beside tensor parallelism are refused there. */
static const char *multi_gpu_method(const struct theirs *t)
{
    return !is_tensor_parallel(t) ? "ddp" : t->replicas > 1 || t->shards > 1 ? "tp+ddp" : "tp";
}

static enum err_code settle_method(struct theirs *t)
{
    bool deepspeed = t->at.stage || t->e->rq.deepspeed_config || t->e->deepspeed || is_type(t, "DEEPSPEED");
    bool fsdp = t->at.strategy || is_type(t, "FSDP");

    if (deepspeed && fsdp)
        return conflict(t, t->at.strategy ? t->at.strategy : t->at.distributed, "FSDP and DeepSpeed exclude each other");
    if (deepspeed)
        return settle_deepspeed(t);
    if (fsdp)
        return settle_fsdp(t);
    if (is_type(t, "MULTI_GPU"))
        return say_at(t, t->at.distributed, "training.methods", multi_gpu_method(t));
    if (is_type(t, "NO"))
        return say_at(t, t->at.distributed, "training.methods", "single");
    if (is_type(t, "MEGATRON_LM"))
        left_out_gap(&t->e->left_out, GAP_OF_ALL, t->at.distributed, "accelerate's Megatron-LM is not modelled yet");
    return ERR_OK;
}

static enum err_code settle_offload(struct theirs *t)
{
    if (t->at.offload_params)
        return say_at(t, t->at.offload_params, "training.offload", "optimizer+params");
    return t->at.offload_optimizer ? say_at(t, t->at.offload_optimizer, "training.offload", "optimizer") : ERR_OK;
}

/* accelerate 1.15.0 accelerator.py: checkpoint_wrapper of kind NO_REENTRANT around each unit, beside a Trainer's false too. */
static enum err_code settle_checkpoints(struct theirs *t)
{
    struct words *said = &t->e->rq.training.gradient_checkpointing;
    enum err_code rc;

    if (!t->at.checkpoints)
        return ERR_OK;
    if (origin_of(&t->e->origins, said))
        said->n = 0;
    stand_at(t, t->at.checkpoints);
    rc = theirs_say_text(t, "training.gradient_checkpointing", "true");
    return rc || theirs_is_filled(t, "training.checkpoint_reentrant") ? rc : theirs_say_text(t, "training.checkpoint_reentrant", "false");
}

/* num_processes counts all GPUs. */
static enum err_code settle_processes(struct theirs *t)
{
    uint64_t machines = t->machines ? t->machines : 1;

    if (!t->processes)
        return ERR_OK;
    if (t->processes % machines)
        return conflict(t, t->at.processes, "these processes do not divide over num_machines");
    stand_at(t, t->at.processes);
    return theirs_say_number(t, "cluster.gpus_per_node", t->processes / machines);
}

/* --- what a config leaves out -------------------------------------------------------------------------------------------------------- */

enum err_code theirs_leave_out(struct theirs *t, const char *member, const char *json, const char *name)
{
    if (theirs_is_filled(t, member))
        return ERR_OK;
    stand_at(t, t->arguments_at);
    note_of(&t->e->assumptions, NOTE_OF_YOURS, "%s.%s %s: left out, its default (%s)", t->tool ? "framework_config" : "training_arguments", name, json,
            t->tool ? t->tool->source : "training_args.py");
    return theirs_say_text(t, member, json);
}

/* LLaMA-Factory checkpoints unless it is told not to, reentrantly (hparams/model_args.py; model/model_utils/checkpointing.py, 0.8.3 and 0.9.5 alike). */
static enum err_code settle_llama_factory(struct theirs *t)
{
    const struct json *doc = t->arguments;
    enum err_code rc;

    if ((!json_get(doc, "finetuning_type") && !json_get(doc, "cutoff_len")) || theirs_is_filled(t, "training.gradient_checkpointing"))
        return ERR_OK;
    stand_at(t, t->arguments_at);
    note_of(&t->e->assumptions, NOTE_OF_YOURS, "%s.disable_gradient_checkpointing false: left out, LLaMA-Factory's default",
            t->tool ? "framework_config" : "training_arguments");
    rc = theirs_say_text(t, "training.gradient_checkpointing", "true");
    return rc || t->at.strategy || theirs_is_filled(t, "training.checkpoint_reentrant") ? rc
                                                                                          : theirs_say_text(t, "training.checkpoint_reentrant", "true");
}

uint64_t theirs_gpus(const struct theirs *t)
{
    const struct cluster_request *c = &t->e->rq.cluster;

    return c->gpus_per_node.whole * (c->nodes.set ? c->nodes.whole : 1);
}

/* A file's model was taken where it is an id (theirs_model()). */
static enum err_code tell_model(struct theirs *t)
{
    const char *name, *said;

    if (t->e->rq.model || t->e->rq.config)
        return ERR_OK;
    said = json_str(theirs_model_said(t->arguments, &name));
    if (said)
        return err_set(t->d.err, ERR_FIELD_MISSING, "/model",
                       "a model's id; %s of %s says '%.96s', which is none: send one as `model`, or its config.json as `config`", name,
                       t->tool ? "framework_config" : "training_arguments", said);
    return err_set(t->d.err, ERR_FIELD_MISSING, "/model", "a model's id, or its config.json as `config`");
}

bool theirs_has_stage(const struct theirs *t)
{
    const struct words *w = &t->e->rq.training.stage;

    return w->n == 1 && !has_word(w, stage_words, "sft") && !has_word(w, stage_words, "pretrain");
}

/* What a command runs: a trainer, or nothing that trains. trl 1.16.0 scripts and cli; ms-swift 4.6.0 cli/main.py; open-instruct's own scripts. */
static const struct {
    enum tool tool;
    const char *names, *stage;
} runs[] = {
    {TOOL_TRL, "sft|run_sft|chat_sft", "sft"},
    {TOOL_TRL, "dpo|run_dpo|dpo_vlm", "dpo"},
    {TOOL_TRL, "kto|run_kto", "kto"},
    {TOOL_TRL, "orpo|run_orpo", "orpo"},
    {TOOL_TRL, "cpo|run_cpo", "cpo"},
    {TOOL_TRL, "reward|reward_modeling|run_rm", "reward"},
    {TOOL_TRL, "grpo|run_grpo|rloo", "grpo"},
    {TOOL_TRL, "ppo|ppo_tldr", "ppo"},
    {TOOL_MS_SWIFT, "infer|export|deploy|eval|app|sample|rollout|web-ui|merge-lora", ""},
    {TOOL_OPEN_INSTRUCT, "finetune|dpo_tune_cache", "sft"}, /* of the latter open_instruct_settle() says which */
    {TOOL_OPEN_INSTRUCT, "grpo|grpo_fast|grpo_vllm_thread_ray_gtrl|online_dpo|online_dpo_vllm_thread", "grpo"},
    {TOOL_OPEN_INSTRUCT, "ppo|ppo_fast|ppo_vllm_thread|ppo_vllm_thread_ray_gtrl", "ppo"},
    {TOOL_OPEN_INSTRUCT, "dpo|dpo_tune|reward_modeling|rejection_sampling|olmo_core_finetune|olmo_core_dpo", NULL},
};

enum err_code theirs_read_run(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *s = json_str(v), *base = s ? strrchr(s, '/') : NULL;
    bool known = !s || !theirs_tool_is(t, TOOL_OPEN_INSTRUCT) || !strstr(s, ".py");
    size_t n;

    if (!s)
        return ERR_OK;
    s = base ? base + 1 : s;
    n = strlen(s) - (strlen(s) > 3 && !strcmp(s + strlen(s) - 3, ".py") ? 3 : 0);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        if (!theirs_tool_is(t, runs[i].tool) || !word_among(runs[i].names, s, n, false))
            continue;
        known = true;
        if (!runs[i].stage)
            theirs_gap(&t->d, "another trainer than finetune.py and dpo_tune_cache.py");
        else if (!*runs[i].stage)
            return decode_fail(&t->d, ERR_FIELD_VALUE, "trains nothing: send the command of sft, pt or rlhf");
        else if (strcmp(runs[i].stage, "sft") != 0)
            return theirs_say_word(t, key->member, runs[i].stage);
    }
    return known ? ERR_OK : decode_fail(&t->d, ERR_FIELD_VALUE, "is no trainer that is read: send the command of finetune.py or dpo_tune_cache.py");
}

static bool says_no(const struct json *v)
{
    bool on;

    return theirs_flag(v, &on) && !on;
}

/* TrainingArguments are a whole: what they leave out is their default, not ours to vary. */
static enum err_code settle_defaults(struct theirs *t)
{
    bool by_global = theirs_is_filled(t, "training.global_batch_size");
    enum err_code rc = ERR_OK;

    if (!t->arguments_at)
        return ERR_OK;
    if (t->tool)
        rc = theirs_tool_defaults(t);
    if (!rc && !t->find_batch && !by_global) /* TrainingArguments' own, where a tool has none */
        rc = theirs_leave_out(t, "training.micro_batch_size", "8", "per_device_train_batch_size");
    if (!rc && !by_global)
        rc = theirs_leave_out(t, "training.gradient_accumulation_steps", "1", "gradient_accumulation_steps");
    if (!rc)
        rc = settle_llama_factory(t);
    if (!rc)
        rc = theirs_leave_out(t, "training.gradient_checkpointing", "false", "gradient_checkpointing");
    if (!rc && t->e->amp == AMP_UNSAID && !theirs_is_filled(t, "training.precision")) {
        t->e->amp = t->tool && !says_no(json_get(t->arguments, "bf16")) ? t->tool->amp : AMP_NO;
        t->e->amp_at = t->arguments_at;
    }
    if (!rc)
        theirs_tool_loads(t);
    return rc;
}

enum err_code theirs_settle(struct theirs *t)
{
    enum err_code rc = tell_model(t);

    if (!rc)
        rc = settle_method(t);
    if (!rc)
        rc = settle_offload(t);
    if (!rc)
        rc = settle_checkpoints(t);
    if (!rc)
        rc = settle_processes(t);
    return rc ? rc : settle_defaults(t);
}

/* --- once the model is known --------------------------------------------------------------------------------------------------------- */

static bool is_sharded(const struct methods *m)
{
    return m->n && (strstr(m->v[0], "zero") || strstr(m->v[0], "fsdp") || strstr(m->v[0], "hsdp"));
}

static const char *without_autocast(enum dtype_saved loaded)
{
    return loaded == SAVED_BF16 ? "bf16" : loaded == SAVED_FP16 ? "fp16" : "fp32";
}

/* What the weights are loaded in: as a key says, else as the release does. */
static enum dtype_saved loaded(const struct estimate *e)
{
    if (e->loaded)
        return e->loaded;
    return e->loads_as_saved || stack_defaults_of(&e->stack).loads_as_saved ? e->model.arch.saved : SAVED_FP32;
}

/* DeepSpeed keeps an fp32 master, accelerate casts what FSDP trains to fp32; else the weights are as loaded. */
static const char *precision_of(const struct estimate *e)
{
    enum dtype_saved weights = loaded(e);
    bool autocast = (weights == SAVED_BF16 || weights == SAVED_FP16) && !is_sharded(&e->rq.training.methods);

    if (e->amp == AMP_NO)
        return without_autocast(weights);
    if (e->amp == AMP_BF16)
        return autocast ? "bf16-autocast" : "bf16-mixed";
    return autocast && weights == SAVED_FP16 ? "fp16-autocast" : "fp16-mixed";
}

/* An explicit precision says more than a flag does; it may not say the opposite. */
static bool allows(enum amp amp, const char *word)
{
    bool mixed = strstr(word, "autocast") || strstr(word, "mixed");

    return amp == AMP_NO ? !mixed : mixed && !strncmp(word, amp == AMP_BF16 ? "bf16" : "fp16", 4);
}

static enum err_code settle_precision(struct estimate *e)
{
    struct words *w = &e->rq.training.precision;
    const char *word;

    if (e->amp == AMP_UNSAID || (e->amp == AMP_AS_LOADED && w->n))
        return ERR_OK;
    if (e->amp == AMP_AS_LOADED)
        e->amp = loaded(e) == SAVED_BF16 ? AMP_BF16 : AMP_FP16;
    for (unsigned i = 0; i < w->n; i++)
        if (!allows(e->amp, precision_words[w->at[i]].name))
            return err_set(e->call->err, ERR_FIELD_CONFLICT, e->amp_at, "contradicts /training/precision: give one of them, or the same");
    if (w->n)
        return ERR_OK;
    word = precision_of(e);
    *w = (struct words){.n = 1, .at = {(uint8_t)word_find(precision_words, word, strlen(word))}};
    return ERR_OK;
}

static void whole(struct quantity *q, uint64_t n)
{
    if (!q->set)
        *q = (struct quantity){.set = true, .whole = n, .real = (double)n};
}

/* integrations/deepspeed.py trainer_config_finalize. */
static void settle_buckets(struct estimate *e)
{
    struct buckets_request *b = &e->rq.training.buckets;
    const struct methods *m = &e->rq.training.methods;
    uint64_t hidden = e->model.arch.hidden;

    if (e->auto_buckets.reduce)
        whole(&b->reduce_elems, hidden * hidden);
    if (!m->n || !strstr(m->v[0], "zero3"))
        return;
    b->auto_prefetch = e->auto_buckets.prefetch;
    b->auto_persistence = e->auto_buckets.persistence;
    if (e->auto_buckets.prefetch)
        whole(&b->prefetch_elems, hidden * hidden * 9 / 10);
    if (e->auto_buckets.persistence)
        whole(&b->persistence_elems, 10 * hidden);
}

/* What axolotl switches on unasked, where it has a model here; else its trainer runs peft's own adapters with them false, which is told. */
static void settle_lora_kernels(struct estimate *e)
{
    struct training_request *r = &e->rq.training;
    bool whole_model = !r->methods.n || method_keeps_whole(method_named(r->methods.v[0])); /* a file has one strategy, which is the first's */
    bool foreign = e->model.installed || !e->model.has_program || e->model.files;
    enum lora_kernels_fit fit = foreign ? LORA_KERNELS_FIT : lora_kernels_fit(e->model.arch.model_type);
    const char *why = foreign                        ? "they are modelled of the service's own files of a model alone"
                      : fit == LORA_KERNELS_RAISE    ? "it asserts \"Original QKV code not found\" for this type, and ends"
                      : fit == LORA_KERNELS_CAST     ? "they raise on this type's norms under autocast (addmm_ of bf16 and fp32)"
                      : fit == LORA_KERNELS_UNREAD   ? "those of this type are not modelled yet"
                      : !whole_model                 ? "under this method they are not modelled yet"
                      : r->lora.use_dora == TRI_TRUE ? "those of DoRA are not modelled yet"
                                                     : NULL;

    if (!e->lora_kernels_at || r->lora.kernels.n)
        return;
    if (!why) {
        r->lora.kernels = (struct words){.n = 3, .at = {0, 1, 2}};
        note_of(&e->assumptions, NOTE_OF_YOURS, "lora_qkv_kernel, lora_o_kernel and lora_mlp_kernel true: left out, axolotl 0.19 switches them on");
        return;
    }
    note_of(&e->warnings, NOTE_OF_FIGURES,
            "%s/adapter: axolotl turns on LoRA kernels of its own where the file says nothing, and %s; the figures are of peft's own adapters, as with "
            "lora_mlp_kernel, lora_qkv_kernel, lora_o_kernel and lora_embedding_kernel false",
            e->lora_kernels_at, why);
}

static void settle_gated_norm(struct estimate *e)
{
    const char *type = e->model.model_type ? e->model.model_type : "";

    if (e->gated_norm_at && !strncmp(type, "qwen3_5", 7))
        left_out_gap(&e->left_out, GAP_OF_ALL, e->gated_norm_at,
                     "axolotl's kernel of gated norms for %.40s is not modelled yet: liger_rms_norm_gated false", type);
}

/* A vocabulary that is a multiple of 32 has room for every tokenizer that fits into it, rounded up. */
static void settle_vocabulary(struct estimate *e)
{
    unsigned vocab = e->model.arch.vocab;

    if (!e->vocabulary_to_32x_at)
        return;
    if (vocab && vocab % 32 == 0)
        note_of(&e->assumptions, NOTE_OF_YOURS,
                "resize_token_embeddings_to_32x: the vocabulary of %u is a multiple of 32 and stays, as long as the tokenizer and what is added to it have "
                "no more",
                vocab);
    else
        left_out_gap(&e->left_out, GAP_OF_ALL, e->vocabulary_to_32x_at,
                     "resize_token_embeddings_to_32x over a vocabulary of %u, which is no multiple of 32, is not modelled yet: config.vocab_size says how "
                     "many it makes",
                     vocab);
}

/* "q,mlp" to "q|mlp" behind a name's layer; "all": anything */
static size_t add_names(char *text, size_t room, const char *before, const char *names)
{
    size_t n = (size_t)snprintf(text, room, "%s", before);

    for (size_t k; *names && n < room; names += k + (names[k] == ',')) {
        k = strcspn(names, ",");
        n += (size_t)snprintf(text + n, room - n, "%.*s%s", k == 3 && !strncmp(names, "all", 3) ? 0 : (int)k, names, names[k] ? "|" : "");
    }
    return n;
}

/*
 * LLaMA-Factory's "freeze" as a pattern of names: ".30.mlp" of some layers, and more modules, anywhere in a name.
 * Source    llamafactory 0.9.5 model/adapter.py _setup_freeze_tuning
 */
static enum err_code settle_part(struct estimate *e)
{
    long layers = (long)e->model.arch.layers, many = e->part.layers < 0 ? -e->part.layers : e->part.layers;
    long from = e->part.layers < 0 || many > layers ? 0 : layers - many, to = many > layers ? layers : from + many;
    char text[PATTERN_MAX_BYTES + 1], *kept;
    size_t n = 0;

    if (!e->part.layers || !layers || e->rq.training.trainable.set)
        return ERR_OK;
    n += (size_t)snprintf(text, sizeof text, ".*\\.(?:");
    for (long i = from; i < to && n < sizeof text; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%ld", i > from ? "|" : "", i);
    if (n < sizeof text)
        n += add_names(text + n, sizeof text - n, ")\\.(?:", e->part.modules);
    if (n < sizeof text)
        n += (size_t)snprintf(text + n, sizeof text - n, ").*");
    if (*e->part.extra && n < sizeof text)
        n += add_names(text + n, sizeof text - n, "|.*(?:", e->part.extra);
    if (*e->part.extra && n < sizeof text)
        n += (size_t)snprintf(text + n, sizeof text - n, ").*");
    kept = n < sizeof text ? arena_str(e->call->arena, text, n) : NULL;
    if (!kept)
        return err_set(e->call->err, ERR_FIELD_RANGE, "/framework_config", "names too many layers and modules to train");
    e->rq.training.trainable = (struct strs){.set = true, .is_string = true, .n = 1, .v = {kept}};
    return ERR_OK;
}

enum err_code theirs_resolve(struct estimate *e)
{
    enum err_code rc = settle_precision(e);

    if (!rc)
        rc = settle_part(e);

    if (!rc && e->model.has_program)
        settle_buckets(e);
    if (!rc)
        settle_lora_kernels(e);
    if (!rc) {
        settle_vocabulary(e);
        settle_gated_norm(e);
    }
    return rc;
}
