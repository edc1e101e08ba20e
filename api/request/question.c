/* A decoded request into the question that plan/ answers. */
#include "api/answer/estimate.h"

#include "catalog/gpus.h"
#include "launch/launch.h"
#include "stack/defaults.h"

#include <stdio.h>
#include <string.h>

/* --- what has no model -------------------------------------------------------------------------------------------------------- */

static const char *first_gap(const struct estimate *e, enum gap_of of)
{
    const struct gap *g = e->left_out.gaps;

    while (g && g->of != of)
        g = g->next;
    return g ? g->detail : NULL;
}

/* The part of a composite config that is a model of text, where there is one: it can be asked by itself. */
static const char *text_part(const struct json *config)
{
    static const char *const parts[] = {"text_config", "llm_config", "language_config"};

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (json_get(json_get(config, parts[i]), "hidden_size"))
            return parts[i];
    return NULL;
}

/* A sentence about the first part of the request that no candidate can model; "" when there is none. */
static void find_gap(const struct estimate *e, char *text, size_t room)
{
    const char *asked = first_gap(e, GAP_OF_ALL), *part = text_part(e->model.config);
    bool seq2seq = false;

    text[0] = 0;
    (void)json_bool(json_get(e->model.config, "is_encoder_decoder"), &seq2seq);
    if (!e->model.has_program && seq2seq)
        (void)snprintf(text, room, "model type '%.60s' has an encoder beside its decoder: such models are not modelled", e->model.model_type);
    else if (!e->model.has_program && part)
        (void)snprintf(text, room, "model type '%.60s' has no program yet; its text alone is answered with its %s as `config`", e->model.model_type, part);
    else if (!e->model.has_program)
        (void)snprintf(text, room, "model type '%.60s' has no program yet", e->model.model_type);
    else if (e->model.arch.inventory_only)
        (void)snprintf(text, room, "the parameters of model type '%.60s' are known, a step of it is not modelled yet", e->model.model_type);
    else if (!e->model.arch.theirs && !stack_class_attention(e->model.model_type, &e->stack))
        (void)snprintf(text, room, "transformers %s has no %.60s: it came with %s", release_text(e->stack.transformers).text,
                       e->model.model_type, release_text(stack_class_first(e->model.model_type)).text);
    else if (asked)
        (void)snprintf(text, room, "%s", asked);
    else if (e->model.arch.encoder && e->rq.workload.n && workload_words[e->rq.workload.at[0]].value == WORKLOAD_INFERENCE)
        (void)snprintf(text, room, "%.60s is an encoder, which generates nothing: inference of it is not modelled", e->model.model_type);
    else if (json_type(json_get(e->model.config, "quantization_config")) == JSON_OBJECT && !checkpoint_is_read(e, e->model.config))
        (void)snprintf(text, room, "a checkpoint with a quantization_config is not modelled yet (null beside the model's id removes it)");
}

/* --- axes --------------------------------------------------------------------------------------------------------------------- */

/* The words of the request, or what makes sense when it names none. */
static enum err_code axis_of(struct estimate *e, enum plan_axis_name axis, const struct words *asked, const struct word *vocabulary,
                             const struct plan_choice *otherwise, uint32_t n_otherwise)
{
    struct plan_choice *c = arena_array(e->call->arena, struct plan_choice, WORDS_MAX);

    if (!c)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the question");
    for (unsigned i = 0; i < asked->n; i++)
        c[i] = (struct plan_choice){vocabulary[asked->at[i]].name, vocabulary[asked->at[i]].value};
    e->question.axes[axis] = (struct plan_axis){asked->n ? c : otherwise, asked->n ? asked->n : n_otherwise, asked->n > 0};
    return ERR_OK;
}

/* Methods with a program, by the name that the contract gives them. */
static int method_value(const char *name)
{
    enum method m = method_named(name);

    return m < METHOD_COUNT && method_is_modelled(m) ? (int)m : PLAN_UNMODELLED;
}

bool method_named_is_modelled(const char *name)
{
    return method_value(name) != PLAN_UNMODELLED;
}

struct method_list {
    struct plan_choice *choice;
    uint32_t *degree, n;
};

static void add_method(struct method_list *l, const char *name, uint32_t degree)
{
    if (l->n == METHODS_MAX)
        return;
    l->choice[l->n] = (struct plan_choice){name, method_value(name)};
    l->degree[l->n++] = degree;
}

/* Tensor parallelism stays inside a node: its all-reduces are in every layer's path. */
static void add_sharded_tensors(struct method_list *l, uint32_t gpus, uint32_t node)
{
    for (uint32_t degree = 2; degree <= node && degree < gpus; degree *= 2)
        if (gpus % degree == 0)
            add_method(l, "tp+fsdp2", degree);
}

/* What people launch on several GPUs. FSDP1 only where fully_shard is not yet what the Trainer means by fsdp; hybrid sharding only across nodes. */
static void add_likely(const struct estimate *e, struct method_list *l)
{
    static const char *const always[] = {"ddp", "zero1", "zero2", "zero3"};
    const struct training_request *t = &e->rq.training;
    uint32_t gpus = e->question.gpus, node = e->question.gpus_per_node;
    bool fsdp2 = stack_defaults_of(&e->stack).trainer_fsdp2, asks_tp = t->tensor_parallel.whole > 1,
         asks_pp = t->pipeline_parallel.whole > 1;

    for (size_t i = 0; !asks_tp && !asks_pp && i < sizeof always / sizeof *always; i++)
        add_method(l, always[i], 0);
    if (!asks_tp && !asks_pp) {
        add_method(l, fsdp2 ? "fsdp2" : "fsdp", 0);
        if (node < gpus)
            add_method(l, fsdp2 ? "hsdp2" : "hsdp", 0);
    }
    if (!asks_pp && (node == gpus || asks_tp))
        add_method(l, "tp", 0);
    if (!asks_tp)
        add_method(l, "pp", 0);
    if (asks_tp)
        add_method(l, "tp+fsdp2", 0);
    else if (!asks_pp)
        add_sharded_tensors(l, gpus, node);
    if (e->question.objective == OBJECTIVE_FEWEST_GPUS)
        add_method(l, "single", 0);
}

/* Unasked: one GPU, or the ways to use several. LLMem's own methods are its block's, see baseline. */
static enum err_code axis_methods(struct estimate *e)
{
    const struct methods *m = &e->rq.training.methods;
    struct method_list l = {arena_array(e->call->arena, struct plan_choice, METHODS_MAX),
                            arena_array(e->call->arena, uint32_t, METHODS_MAX), 0};

    if (!l.choice || !l.degree)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the question");
    for (unsigned i = 0; i < m->n; i++)
        add_method(&l, m->v[i], 0);
    if (!m->n && e->question.gpus > 1)
        add_likely(e, &l);
    if (!m->n && e->question.gpus == 1)
        add_method(&l, "single", 0);
    e->question.axes[AXIS_METHOD] = (struct plan_axis){l.choice, l.n, m->n > 0};
    e->question.method_degrees = l.degree;
    return ERR_OK;
}

static bool asks_quantised(const struct training_request *t)
{
    return t->quantization.n && quantization_words[t->quantization.at[0]].value;
}

/* LoRA over quantised weights is qlora, whatever it was called; all of the weights are trained as they were. */
static enum err_code axis_quantised(struct estimate *e)
{
    static const struct plan_choice quantised = {"qlora", TUNING_QLORA};
    const struct words *asked = &e->rq.training.tuning;
    struct plan_choice *c = arena_array(e->call->arena, struct plan_choice, WORDS_MAX);
    uint32_t n = 0, adapted = 0;

    if (!c)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the question");
    for (unsigned i = 0; i < asked->n; i++) {
        const struct word *w = &tuning_words[asked->at[i]];
        bool adapts = w->value == TUNING_LORA || w->value == TUNING_QLORA;

        if (!adapts || !adapted++)
            c[n++] = adapts ? quantised : (struct plan_choice){w->name, w->value};
    }
    if (n == 1 && c[0].value == TUNING_FULL)
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "/training/quantization",
                       "quantised weights are not trained in full: \"You cannot perform fine-tuning on purely quantized models\" (transformers trainer.py): "
                       "tuning qlora, or quantization none");
    if (!n)
        c[n++] = quantised;
    e->question.axes[AXIS_TUNING] = (struct plan_axis){c, n, asked->n > 0};
    return ERR_OK;
}

static enum err_code axis_tuning(struct estimate *e)
{
    static const struct plan_choice kinds[] = {{"full", TUNING_FULL}, {"lora", TUNING_LORA}, {"qlora", TUNING_QLORA}};
    static const struct plan_choice at_home[] = {{"lora", TUNING_LORA}, {"qlora", TUNING_QLORA}, {"full", TUNING_FULL}};
    const struct gpu_request *asked = &e->rq.cluster.gpu;
    const struct gpu *gpu = asked->by_numbers ? NULL : gpu_find(asked->name);

    if (baseline_only(&e->rq) && !e->rq.training.tuning.n) {
        e->question.axes[AXIS_TUNING] = (struct plan_axis){kinds, 1, true};
        return ERR_OK;
    }
    if (asks_quantised(&e->rq.training))
        return axis_quantised(e);
    return axis_of(e, AXIS_TUNING, &e->rq.training.tuning, tuning_words, gpu && gpu_is_consumer(gpu) ? at_home : kinds, 3);
}

static enum err_code build_axes(struct estimate *e)
{
    static const struct plan_choice open = {NULL, 0}, none = {"none", 0}, hf = {"hf", LOSS_HF}, liger = {"liger", LOSS_LIGER};
    static const struct plan_choice both[] = {{"false", TRI_FALSE}, {"true", TRI_TRUE}};
    const struct training_request *t = &e->rq.training;
    bool fused = words_bits(&t->liger_kernels, liger_words) >> LIGER_FUSED_LINEAR & 1;
    const struct {
        enum plan_axis_name axis;
        const struct words *asked;
        const struct word *words;
        const struct plan_choice *otherwise;
        uint32_t n;
    } axes[] = {
        {AXIS_OFFLOAD, &t->offload, offload_words, &none, 1},
        {AXIS_PRECISION, &t->precision, precision_words, &open, 1},
        {AXIS_OPTIMIZER, &t->optimizer, optimizer_words, &open, 1},
        {AXIS_ATTENTION, &t->attention, attention_words, &open, 1},
        {AXIS_LOSS, &t->loss, loss_words, fused ? &liger : &hf, 1},
        {AXIS_CHECKPOINTING, &t->gradient_checkpointing, checkpointing_words, both, 2},
    };
    enum err_code rc = axis_methods(e);

    if (!rc)
        rc = axis_tuning(e);
    for (size_t i = 0; i < sizeof axes / sizeof *axes && !rc; i++)
        rc = axis_of(e, axes[i].axis, axes[i].asked, axes[i].words, axes[i].otherwise, axes[i].n);
    if (baseline_only(&e->rq) && !t->gradient_checkpointing.n) /* LLMem's are on */
        e->question.axes[AXIS_CHECKPOINTING] = (struct plan_axis){&both[1], 1, false};
    return rc;
}

/* --- the rest ----------------------------------------------------------------------------------------------------------------- */

static int word_or(const struct words *w, const struct word *vocabulary, int otherwise)
{
    return w->n ? vocabulary[w->at[0]].value : otherwise;
}

/* Of one that has no model there are no figures. */
static enum task_id stage_of(const struct training_request *t)
{
    int stage = word_or(&t->stage, stage_words, TASK_SFT);
    enum trainer_of by = (enum trainer_of)word_or(&t->trainer, trainer_words, TRAINER_TRL);
    enum task_id task = stage < 0 || stage >= TASK_COUNT ? TASK_SFT : task_by((enum task_id)stage, by);

    return task == TASK_COUNT ? TASK_SFT : task;
}

static struct fsdp_recipe fsdp_recipe(const struct training_request *t)
{
    const struct fsdp_request *f = &t->fsdp;

    return (struct fsdp_recipe){
        .wrap = (enum fsdp_wrap)word_or(&f->wrap, wrap_words, FSDP_WRAP_UNSET),
        .backward_prefetch = (enum fsdp_prefetch)word_or(&f->backward_prefetch, prefetch_words, FSDP_PREFETCH_UNSET),
        .forward_prefetch = f->forward_prefetch,
        .use_orig_params = f->use_orig_params,
        .limit_all_gathers = f->limit_all_gathers,
        .autocast = f->autocast,
        .cpu_ram_efficient_loading = f->cpu_ram_efficient_loading,
        .reduce_dtype = (enum half_or_full)word_or(&t->reduce_dtype, reduce_words, REDUCE_UNSET),
    };
}

static uint64_t elems(const struct quantity *q)
{
    return q->set ? q->whole : ELEMS_UNSET;
}

/* A script over DeepSpeed's engine makes its model first, unless it says otherwise. */
static bool drives_engine(const struct estimate *e)
{
    const struct words *f = &e->rq.stack.framework;

    return f->n && framework_words[f->at[0]].value == FRAMEWORK_ENGINE;
}

static struct zero_recipe zero_recipe(const struct estimate *e)
{
    const struct training_request *t = &e->rq.training;
    const struct buckets_request *b = &t->buckets;

    return (struct zero_recipe){
        .reduce_elems = elems(&b->reduce_elems),
        .allgather_elems = elems(&b->allgather_elems),
        .prefetch_elems = elems(&b->prefetch_elems),
        .max_live_elems = elems(&b->max_live_elems),
        .reuse_is_said = b->reuse_elems.set,
        .reuse_elems = b->reuse_elems.whole,
        .round_robin = b->round_robin == TRI_TRUE,
        .sub_group_elems = elems(&b->sub_group_elems),
        .persistence_elems = elems(&b->persistence_elems),
        .auto_prefetch = b->auto_prefetch,
        .auto_persistence = b->auto_persistence,
        .overlap_comm = t->overlap_comm,
        .zero_init = drives_engine(e) && e->rq.stack.zero_init == TRI_UNSET ? TRI_FALSE : e->rq.stack.zero_init,
    };
}

/* The traced loops over an engine that drop their outputs are the Trainer's, with its two groups of parameters. */
static enum framework framework_of(const struct estimate *e)
{
    int f = word_or(&e->rq.stack.framework, framework_words, FRAMEWORK_TRANSFORMERS);

    if (f == FRAMEWORK_ENGINE)
        return e->rq.training.keep_outputs == TRI_FALSE ? FRAMEWORK_TRANSFORMERS : FRAMEWORK_TORCH;
    return f == FRAMEWORK_COLOSSAL ? FRAMEWORK_TORCH : (enum framework)f;
}

static enum err_code build_recipe(struct estimate *e)
{
    const struct training_request *t = &e->rq.training;
    bool int8 = word_or(&t->quantization, quantization_words, KBIT_NONE) == KBIT_INT8;
    enum err_code rc;

    e->question.recipe = (struct recipe){
        .seq_len_tokens = (uint32_t)t->seq_len.whole,
        .micro_batch_size = (uint32_t)t->micro_batch_size.whole,
        .gradient_accumulation_steps = (uint32_t)t->gradient_accumulation_steps.whole,
        .max_grad_norm = t->max_grad_norm.set ? t->max_grad_norm.real : -1,
        .compile = t->compile == TRI_TRUE,
        .float8 = (enum float8)word_or(&t->float8, float8_words, FLOAT8_NONE),
        .optimizer_in_backward = t->optimizer_in_backward == TRI_TRUE,
        .checkpoint_reentrant = t->checkpoint_reentrant,
        .cudnn_attention = t->cudnn_attention,
        .use_cache = t->use_cache,
        .keep_outputs = t->keep_outputs,
        .ddp_bucket_bytes = t->buckets.ddp_bytes.whole,
        .gradient_as_bucket_view = t->gradient_as_bucket_view,
        .sync_each_batch = t->sync_each_batch,
        .find_unused_parameters = t->find_unused_parameters,
        .tensor_parallel = (uint32_t)t->tensor_parallel.whole,
        .pipeline_parallel = (uint32_t)t->pipeline_parallel.whole,
        .shard_group = (uint32_t)t->shard_group.whole,
        .fsdp = fsdp_recipe(t),
        .zero = zero_recipe(e),
        .quantization = (enum kbit)word_or(&t->quantization, quantization_words, KBIT_NONE),
        .checkpoint = checkpoint_form(e->model.config),
        .quantize_experts = t->quantize_experts == TRI_TRUE,
        .prepare_kbit = (enum kbit_prepare)word_or(&t->prepare_kbit, prepare_kbit_words, int8 ? KBIT_PREPARE_PEFT : KBIT_PREPARE_NONE),
        .liger_kernels = words_bits(&t->liger_kernels, liger_words),
        .padded = t->padded == TRI_TRUE,
        .stage = stage_of(t),
        .reference = (enum reference)word_or(&t->reference, reference_words, REFERENCE_UNSET),
        .packing = t->packing == TRI_TRUE,
        .expert_skew = t->expert_skew.set ? t->expert_skew.real : 1,
        .sequence_tokens = lengths_mean(&t->lengths, t->seq_len.set ? t->seq_len.whole : 2048),
        .attention_mask = t->attention_mask,
        .inputs_want_grad = e->inputs_want_grad,
        .llama_factory = word_or(&t->trainer, trainer_words, TRAINER_TRL) == TRAINER_LLAMA_FACTORY,
        .framework = framework_of(e),
        .stack = e->stack,
        .flash_attn_named = e->rq.stack.flash_attn != NULL,
        .peft_unnamed = !e->rq.stack.peft,
    };
    rc = freeze_read(t, e->call->arena, &e->question.recipe.freeze, e->call->err);
    return rc ? rc : lora_read(&t->lora, "/training/lora/target_modules", e->call->arena, &e->question.recipe.lora, e->call->err);
}

/* Packages that the request runs at all; of the others nobody wants to hear. */
static unsigned packages_that_matter(const struct estimate *e)
{
    const struct plan_axis *methods = &e->question.axes[AXIS_METHOD];
    unsigned bits = PACKAGE_BIT(PACKAGE_TORCH) | PACKAGE_BIT(PACKAGE_TRANSFORMERS);

    for (unsigned i = 0; i < e->rq.training.tuning.n; i++)
        if (tuning_words[e->rq.training.tuning.at[i]].value != TUNING_FULL)
            bits |= PACKAGE_BIT(PACKAGE_PEFT);
    for (uint32_t i = 0; i < methods->n; i++)
        if (methods->choices[i].value != PLAN_UNMODELLED)
            bits |= PACKAGE_BIT(method_is_zero((enum method)methods->choices[i].value) ? PACKAGE_DEEPSPEED : PACKAGE_ACCELERATE);
    return bits | stack_kernels(e->model.model_type);
}

static void build_stack(struct estimate *e)
{
    struct stack_gaps gaps = stack_unread(&e->stack);
    unsigned matter = packages_that_matter(e);
    const char *meaning;

    for (int i = 0; i < PACKAGE_COUNT; i++) {
        enum package p = (enum package)i;
        struct release_text have = release_text(stack_release(&e->stack, p));

        if (gaps.older & matter & PACKAGE_BIT(p))
            note(&e->warnings, "%s %s is older than the releases whose code was read: %s answers for it", package_name(p), have.text,
                 release_text(stack_first_read(p)).text);
        if (gaps.newer & PACKAGE_BIT(p))
            note(&e->warnings, "%s %s is newer than the newest release known here: %s answers for it", package_name(p), have.text,
                 release_text(stack_newest(p)).text);
    }
    e->question.undated = quirks_undated(&e->stack, 0, &meaning) != NULL;
    for (unsigned i = 0; quirks_undated(&e->stack, i, &meaning); i++)
        note_of(&e->assumptions, NOTE_OF_YOURS, "low_bytes..high_bytes span a change that is not dated for the asked releases: %s", meaning);
}

static void warn(struct estimate *e)
{
    const struct estimate_request *rq = &e->rq;

    if (rq->training.optim_args && rq->training.optim_args[0])
        note(&e->warnings, "/training/optim_args is not read: no optimizer that has a model takes memory by it");
}

/* Rotary models run beyond what they were trained for; a table of positions is refused where it is walked. */
static void warn_positions(struct estimate *e)
{
    uint32_t most = e->model.has_program ? e->model.arch.max_positions : 0;

    if (most && e->rq.training.seq_len.set && e->rq.training.seq_len.whole > most)
        note(&e->warnings, "/training/seq_len %llu is beyond the %u positions that this model was made for (max_position_embeddings): the figures hold, but "
             "what it learns there is of use only with a rope_scaling or a larger rope_theta",
             (unsigned long long)e->rq.training.seq_len.whole, most);
}

static bool trains_a_part(const struct training_request *t)
{
    return t->trainable.n || t->freeze.n || t->freeze_ratio.real > 0;
}

static enum err_code check_global(const struct estimate *e)
{
    const struct training_request *t = &e->rq.training;
    int trainer = word_or(&t->trainer, trainer_words, TRAINER_TRL);

    if (t->global_batch_size.set && t->micro_batch_size.set && t->global_batch_size.whole < t->micro_batch_size.whole)
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "/training/global_batch_size", "is smaller than the micro-batch");
    if (trainer != TRAINER_TRL && stage_of(t) == TASK_SFT &&
        !(trainer == TRAINER_LLAMA_FACTORY && (trains_a_part(t) || t->packing == TRI_TRUE)))
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "/training/trainer",
                       "LLaMA-Factory's own trainers are those of dpo, orpo, simpo, kto and reward, axolotl's those but the last, open-instruct's dpo and "
                       "simpo, ms-swift's dpo, orpo, cpo, simpo and kto; beside sft LLaMA-Factory says how a part is trained (trainable) and how rows are "
                       "packed (packing)");
    if ((stage_of(t) == TASK_KTO || stage_of(t) == TASK_AX_KTO) && t->micro_batch_size.set && t->micro_batch_size.whole < 2)
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "/training/micro_batch_size", "KTOTrainer raises on a batch of one: two rows at least");
    if (t->keep_outputs == TRI_TRUE && word_or(&e->rq.stack.framework, framework_words, FRAMEWORK_TRANSFORMERS) == FRAMEWORK_TRANSFORMERS)
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "/training/keep_outputs",
                       "the Trainer lets go of the model's output before backward (trainer.py, training_step): stack.framework torch or deepspeed keeps it");
    return ERR_OK;
}

/* CUDACachingAllocator.cpp of 2.0.1, parseArgs(): "Unrecognized CachingAllocator option", at the first tensor. */
static enum err_code check_allocator(const struct estimate *e)
{
    if (e->rq.allocator.expandable_segments != TRI_TRUE || cluster_has_no_gpu(e) || quirks_of(&e->stack).has_expandable_segments)
        return ERR_OK;
    return err_set(e->call->err, ERR_FIELD_CONFLICT, "/allocator/expandable_segments",
                   "PyTorch %s does not know it and raises \"Unrecognized CachingAllocator option\": it came with 2.1", release_text(e->stack.torch).text);
}

enum err_code question_gap(struct estimate *e, const char **ret)
{
    enum err_code rc = check_allocator(e);
    char gap[256];

    if (rc)
        return rc;
    gaps_find(e);
    find_gap(e, gap, sizeof gap);
    *ret = gap[0] ? arena_str(e->call->arena, gap, strlen(gap)) : NULL;
    return gap[0] && !*ret ? err_set(e->call->err, ERR_NOMEM, "", "no room for the question") : ERR_OK;
}

enum err_code question_build(struct estimate *e)
{
    struct plan_question *q = &e->question;
    enum err_code rc = check_global(e);

    q->objective = e->rq.objective.n ? (enum objective)objective_words[e->rq.objective.at[0]].value : OBJECTIVE_FASTEST;
    if (!rc)
        rc = cluster_read(e);
    if (!rc)
        rc = checkpoint_take(e);
    if (!rc)
        rc = build_axes(e);
    if (!rc)
        rc = question_gap(e, &q->gap);
    if (rc)
        return rc;
    q->arch = e->model.has_program ? &e->model.arch : NULL;
    q->launches = launch_offers;
    q->alternative = alternative_cluster;
    q->alternative_of = e;
    q->margin = e->rq.margin.real;
    q->expandable_segments = e->rq.allocator.expandable_segments == TRI_TRUE;
    q->global_batch_size = (uint32_t)e->rq.training.global_batch_size.whole;
    q->largest = e->shape->largest == TRI_TRUE;
    rc = build_recipe(e);
    if (!rc)
        layers_check(e);
    if (!rc)
        rc = targets_check(e);
    if (!rc)
        rc = freeze_check(e);
    if (rc)
        return rc;
    q->adapter_gap = first_gap(e, GAP_OF_ADAPTERS);
    build_stack(e);
    warn(e);
    warn_positions(e);
    return left_out_check(&e->left_out, e->call->err);
}
