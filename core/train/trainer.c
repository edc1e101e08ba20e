#include "train/trainer.h"

#include "base/budget.h"
#include "models/program.h"
#include "models/split.h"
#include "models/stage.h"
#include "parallel/gap.h"
#include "train/around.h"
#include "train/loop.h"
#include "train/quantise.h"
#include "tuning/freeze.h"
#include "tuning/kbit_load.h"
#include "tuning/lora.h"

#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------------- declaration */
enum dtype compute_dtype(enum precision p)
{
    switch (p) {
    case PRECISION_BF16:
    case PRECISION_BF16_AUTOCAST:
    case PRECISION_BF16_MIXED:
        return DTYPE_BF16;
    case PRECISION_FP16:
    case PRECISION_FP16_AUTOCAST:
    case PRECISION_FP16_MIXED:
        return DTYPE_FP16;
    default:
        return DTYPE_FP32;
    }
}

/* As the model is loaded. An engine's weights are half, its master is its own; a frozen base of several GPUs is loaded in half. */
static enum dtype weights_dtype(const struct recipe *r, const struct quirks *q)
{
    bool half = method_is_zero(r->method) || (r->tuning != TUNING_FULL && r->method > METHOD_DDP);
    enum dtype dtype = precision_is_mixed(r->precision) && !half ? DTYPE_FP32 : compute_dtype(r->precision);

    return r->quantization == KBIT_AWQ4 && q->awq_casts_bf16 && dtype == DTYPE_BF16 ? DTYPE_FP16 : dtype;
}

static uint32_t modules_of(const struct arch *a, const struct quirks *q)
{
    uint32_t experts = q->experts_in_turn ? (uint32_t)a->experts : 0; /* three linears and an activation below each */
    uint32_t within = a->layers * (96 + experts * 24);

    if (within < a->modules_within * 6)
        within = a->modules_within * 6;
    return 64 + a->modules_beside * 6 + within; /* adapters make up to six of one */
}

/* Adapters are made where the base is: the Trainer moves the model when it wraps it, sharded models come to the device in pieces. */
static bool stands_on_host(const struct trainer *t)
{
    enum method m = t->step->r.method;

    return m != METHOD_SINGLE && !kbit_is_bnb(t->step->r.quantization) && !(t->plain && (m == METHOD_DDP || method_is_zero(m)));
}

/* Why peft's ParamWrapper, which reads adapters whose module nobody calls, does not go with a method. */
static const char *tensors_gap(enum method m)
{
    if (method_is_fsdp1(m)) /* peft utils/other.py fsdp_auto_wrap_policy; traced: "inconsistent tensor size" */
        return "peft makes each adapter a unit of FullyShardedDataParallel, and reads those of experts' tensors outside of it, where they are flat shards: "
               "RuntimeError. fsdp2, ddp, or the linears of attention alone";
    if (m == METHOD_ZERO3)
        return "adapters of experts' tensors under zero3 are not modelled yet: zero2, ddp or fsdp2, or the linears of attention alone";
    if (method_has_tensor_parallel(m))
        return "adapters of experts' tensors that tensor parallelism cuts are not modelled yet: the linears of attention alone";
    return NULL;
}

/* NULL, or why DoRA does not go with a method: peft calls each adapter twice, and asks lora_A for its width outside of it (tuners/lora/dora.py). */
static const char *dora_method_gap(const struct recipe *s)
{
    bool mixed = s->precision != PRECISION_BF16 && s->precision != PRECISION_FP16 && s->precision != PRECISION_FP32;
    bool flat = s->fsdp.use_orig_params != TRI_TRUE;

    if (method_is_fsdp1(s->method) && s->method != METHOD_FSDP_NO_SHARD && !flat)
        return "peft makes each adapter a unit of FullyShardedDataParallel, and DoRA asks lora_A for its width outside of it, where it is a flat shard: "
               "IndexError (\"tuple index out of range\"). fsdp2, ddp or ZeRO, or use_dora false";
    if (method_is_fsdp1(s->method) && mixed && flat)
        return "an adapter of DoRA is a unit of FullyShardedDataParallel that is called twice, and its shard stays in half under mixed precision: RuntimeError "
               "(\"expected dtype float for `end`\"). fsdp2, ddp or ZeRO, or use_dora false";
    if (s->method == METHOD_TP || s->method == METHOD_TP_FSDP2)
        return "DoRA adds a DTensor of the base's weight to what is none: RuntimeError (\"got mixed torch.Tensor and DTensor\"). fsdp2, ddp or ZeRO, or "
               "use_dora false";
    return s->method == METHOD_PP || method_is_colossal(s->method) || (method_is_fsdp1(s->method) && mixed)
               ? "DoRA under this method is not modelled yet: single, ddp, ZeRO or fsdp2"
               : NULL;
}

static enum err_code dora_gap(const struct trainer *t, struct err *err)
{
    static const char at[] = "/training/lora/use_dora";
    const struct recipe *s = &t->step->r;

    if (!t->model.q->dora_is_a_module)
        return err_set(err, ERR_FIELD_CONFLICT, at, "DoRA as peft had it before 0.12 is not modelled");
    if (dora_method_gap(s))
        return err_set(err, ERR_FIELD_CONFLICT, at, "%s", dora_method_gap(s));
    if (kbit_is_gptq(s->quantization) || s->quantization == KBIT_INT8 || s->quantization >= KBIT_TORCHAO_INT8)
        return err_set(err, ERR_FIELD_CONFLICT, at, "DoRA of these quantised weights is not modelled yet: of weights in half or in 4 bits");
    return ERR_OK;
}

/* A module that is copied, under methods that neither flatten nor gather it with what it is a copy of. */
static bool saves_nowhere(const struct recipe *s)
{
    enum method m = s->method;
    bool cut = method_is_fsdp1(m) || (method_is_fsdp2(m) && m != METHOD_TP_FSDP2) || m == METHOD_ZERO3;

    return m > METHOD_DDP && !method_is_zero_whole(m) && !cut;
}

/* NULL, or why biases are not trained beside adapters here. */
static const char *bias_gap(const struct recipe *s)
{
    if (method_is_fsdp1(s->method)) /* torch/distributed/fsdp/_flat_param.py */
        return "a unit of FullyShardedDataParallel is trained or frozen as a whole (\"Must flatten tensors with uniform `requires_grad`\"), and biases stand "
               "among frozen weights under %s: none, or ddp";
    if (s->quantization && (s->method != METHOD_SINGLE || s->quantization > KBIT_NF4_DQ))
        return "biases trained beside these quantised weights under %s are not modelled yet: nf4, nf4-dq or fp4 on one GPU, or none";
    return s->method > METHOD_DDP ? "biases trained beside adapters under %s are not modelled yet: single or ddp" : NULL;
}

static void find_half(void *context, struct module *m, struct param *p)
{
    (void)m;
    if (p->requires_grad && !p->buffer && p->dtype == DTYPE_FP16)
        *(const struct param **)context = p;
}

/* torch/amp/grad_scaler.py: "Attempting to unscale FP16 gradients."; peft casts adapters to fp32, not what it trains as it was loaded (tuners_utils.py
 * cast_adapter_dtype). Sharded methods and prepared bases hold fp32 copies. */
static enum err_code check_scaler(const struct trainer *t, struct err *err)
{
    const struct recipe *r = &t->step->r;
    const struct param *half = NULL;

    if (r->precision != PRECISION_FP16_AUTOCAST || (r->quantization && r->prepare_kbit) || r->method > METHOD_DDP || t->as_saved)
        return ERR_OK;
    params_visit(t->model.tree.root, find_half, &half);
    return !half ? ERR_OK
                 : err_set(err, ERR_FIELD_CONFLICT, "/training/precision",
                           "the GradScaler refuses to unscale gradients of fp16 weights, and %s of %s is trained as it was loaded: bf16-autocast has no scaler",
                           half->name, half->owner->name);
}

static enum err_code declare_adapters(struct trainer *t, struct err *err)
{
    const struct lora *l = &t->step->r.lora;
    struct lora_options o = {
        .q = t->model.q,
        .narrow = l->narrow,
        .rank = l->rank,
        .dropout = l->dropout,
        .dtype = l->dtype == LORA_DTYPE_FP32   ? DTYPE_FP32
                 : l->dtype == LORA_DTYPE_BF16 ? DTYPE_BF16
                                               : DTYPE_FP16,
        .dora = l->dora,
        .steps_modules = t->step->r.method == METHOD_ZERO3,
        .bias = l->bias,
        .all_linear = l->all_linear,
        .n_targets = l->n_targets,
        .targets = l->targets,
        .pattern = l->pattern,
        .experts = lora_experts(t->model.q, t->model.arch->model_type),
        .n_parameters = l->n_parameters,
        .parameters = l->parameters,
        .tensors_gap = t->as_saved ? NULL : tensors_gap(t->step->r.method),
        .n_saved = l->n_saved,
        .saved_names = l->saved,
        .alpha = l->alpha > 0 ? l->alpha : LORA_ALPHA,
        .saved = t->model.task ? t->model.task->saved : "",
        .on_host = stands_on_host(t),
        .spares_mamba = !t->step->r.peft_unnamed && lora_spares(t->model.arch->model_type, t->model.q),
    };
    enum err_code rc = ERR_OK;

    if (l->n_saved && !t->as_saved && saves_nowhere(&t->step->r))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/modules_to_save",
                       "modules in full beside adapters under %s are not modelled yet: single, ddp, zero0 to zero3, fsdp or fsdp2",
                       method_rows[t->step->r.method].name);
    if (l->bias && !t->as_saved && bias_gap(&t->step->r))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/bias", bias_gap(&t->step->r), method_rows[t->step->r.method].name);
    if (l->dora)
        rc = dora_gap(t, err);
    if (rc)
        return rc;
    return lora_apply(&t->model.tree, &o, &t->adapted_modules, err);
}

/* utils/other.py ModulesToSaveWrapper: of all that a module holds a copy is trained beside what it is of. */
static void save_all(void *context, struct module *m, struct param *p)
{
    static const char original[] = "original_module.";
    struct model *of = context;
    char name[64];

    if (p->buffer || !strncmp(p->name, original, sizeof original - 1)) /* the latter as they are made */
        return;
    (void)snprintf(name, sizeof name, "%s%.40s", original, p->name);
    (void)param_add(&of->tree, m, arena_str(of->tree.arena, name, strlen(name)), p->ndim, p->size);
    p->requires_grad = true;
}

static void train_all(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    p->requires_grad = true;
}

/* Of a whole model that is tuned: what transformers' class made without a gradient stays so. Of somebody's own file `full` means all, also what the file froze:
 * so were the tapes of tests/data/modeling traced. */
static void train_whole(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    p->requires_grad = !p->born_frozen;
}

static void save_heads(struct model *m)
{
    char name[32];

    if (!m->task) { /* as saved: what a checkpoint has, and which of it is trained */
        m->tree.head->weight->requires_grad = true;
        return;
    }
    for (struct module *k = m->tree.root->first; k; k = k->next)
        for (int i = 0; task_name(m->task->saved, i, name, sizeof name); i++)
            if (!strcmp(k->name, name + (name[0] == '=')))
                params_visit(k, name[0] == '=' ? train_all : save_all, m);
}

/* fully_shard is handed in fp32 what is trained, and the rest as it was loaded. */
static void keep_half(void *context, struct module *m, struct param *p)
{
    const enum dtype *half = context;

    (void)m;
    if (!p->requires_grad && dtype_is_float(p->dtype))
        p->dtype = *half;
}

/* accelerate holds what is trained in fp32, the frozen base as it was loaded. */
static void train_wide(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    if (p->requires_grad && dtype_is_float(p->dtype))
        p->dtype = DTYPE_FP32;
}

/* What stands in the place of the model's loss and kernels; false: it is not modelled under this method. */
static bool take_loss(struct model *m, const struct recipe *s, struct err *err)
{
    static const char *const own[] = {[LOSS_CHUNKED] = "chunked", [LOSS_CHUNKED_NLL] = "chunked_nll", [LOSS_CUT_CROSS_ENTROPY] = "cut_cross_entropy",
                                      [LOSS_LOGITS_ONCE] = "logits_once", [LOSS_COMPILED] = "compiled",
                                      [LOSS_COMPILED_IN_PARTS] = "compiled_in_parts"};
    bool by_liger = s->loss == LOSS_LIGER, cuts = method_has_tensor_parallel(s->method) || s->method == METHOD_PP;
    enum loss fused = s->tuning == TUNING_FULL ? LOSS_COMPILED : LOSS_COMPILED_IN_PARTS;
    bool fuses = recipe_fuses_loss(s) && !m->source->installed;

    m->liger_kernels = s->liger_kernels | (by_liger && s->liger_kernels ? 1u << LIGER_FUSED_LINEAR : 0);
    m->liger_release = s->stack.liger;
    m->loss = by_liger ? (s->liger_kernels ? NULL : "liger") : own[fuses ? fused : s->loss];
    if (cuts && (s->loss || s->liger_kernels))
        return err_set(err, ERR_FIELD_CONFLICT, s->loss ? "/training/loss" : "/training/liger_kernels", "under %s this is not modelled yet",
                       method_rows[s->method].name), false;
    return true;
}

/* Where axolotl's kernels have no model here, or raise: they read the parts of an adapted linear, whose module nobody calls. */
static enum err_code take_lora_kernels(struct model *m, const struct recipe *s, struct err *err)
{
    static const char at[] = "/training/lora/kernels";
    bool of_attention = s->lora.kernels & (1u << LORA_KERNEL_QKV | 1u << LORA_KERNEL_O);
    enum lora_kernels_fit fit = lora_kernels_fit(m->arch->model_type);

    if (s->tuning == TUNING_FULL || !s->lora.kernels)
        return ERR_OK;
    if (method_is_fsdp1(s->method))
        return err_set(err, ERR_FIELD_CONFLICT, at, "axolotl refuses its kernels of adapters under FSDP1: fsdp2, ddp, or none of them");
    if (!method_keeps_whole(s->method))
        return err_set(err, ERR_FIELD_CONFLICT, at, "axolotl's kernels of adapters under %s are not modelled yet: single, ddp, zero1 or zero2, or none of them",
                       method_rows[s->method].name);
    if (s->lora.dora)
        return err_set(err, ERR_FIELD_CONFLICT, at, "axolotl's kernels of DoRA are not modelled yet: none of them, or use_dora false");
    if (s->quantization > KBIT_NF4_DQ)
        return err_set(err, ERR_FIELD_CONFLICT, at, "axolotl's kernels multiply by weights as loaded, or of nf4: none of them over these");
    if (s->lora.bias)
        return err_set(err, ERR_FIELD_CONFLICT, at, "axolotl's kernels compute no gradient of a base's bias, and its adapters have bias none");
    if (fit == LORA_KERNELS_UNREAD)
        return err_set(err, ERR_FIELD_CONFLICT, at, "axolotl's kernels of adapters for %.40s are not modelled yet: none of them", m->arch->model_type);
    if (of_attention && fit == LORA_KERNELS_RAISE)
        return err_set(err, ERR_FIELD_CONFLICT, at,
                       "axolotl 0.19 asserts \"Original QKV code not found\" for %.40s: lora_qkv_kernel and lora_o_kernel false, or mlp alone",
                       m->arch->model_type);
    m->lora_kernels = s->lora.kernels;
    return ERR_OK;
}

/* Dynamo cuts at DDP's buckets (_dynamo/backends/distributed.py) and at hooks of units that are gathered; hooks of gradients come after the graph. */
static bool is_one_graph(enum method m)
{
    return m == METHOD_SINGLE || m == METHOD_TP || m == METHOD_PP || method_is_zero_whole(m);
}

/* What a list of operators keeps of torchao's products, which are others, nobody has read: at the most all of them. */
static bool keeps_by_unread_list(const struct recipe *r)
{
    return r->float8 && !r->compile && !r->least && r->checkpoint_kind == CHECKPOINT_SELECTIVE;
}

/* The config as the class reads it: older ones take the width over the heads, whatever head_dim says. */
static const struct arch *arch_of_class(const struct arch *given, const struct quirks *q, struct arena *arena)
{
    struct arch *own;

    if (!q->head_dim_unread || !given->heads || given->head_dim == given->hidden / given->heads)
        return given;
    own = arena_new(arena, struct arch);
    if (!own)
        return given;
    *own = *given;
    own->head_dim = given->hidden / given->heads;
    if (own->rotary_dim == given->head_dim)
        own->rotary_dim = own->head_dim;
    return own;
}

static enum attention_kernel kernel_of(enum attention a)
{
    if (a == ATTENTION_FLEX)
        return KERNEL_FLEX;
    return a == ATTENTION_EAGER ? KERNEL_EAGER : attention_is_flash(a) ? KERNEL_FLASH_2 : KERNEL_SDPA;
}

/*
 * Whether a hook has the embeddings' output want a gradient. peft before transformers 5: utils/other.py prepare_model_for_kbit_training where checkpoints are
 * reentrant, peft_model.py prepare_model_for_gradient_checkpointing where nothing is quantised.
 */
static bool wants_inputs(const struct recipe *s, const struct quirks *q)
{
    if (s->tuning == TUNING_FULL)
        return freeze_asked(&s->freeze) && q->checkpoints_want_inputs && !s->llama_factory;
    return q->checkpoints_want_inputs || s->quantization == KBIT_NONE || !s->prepare_kbit || s->checkpoint_reentrant == TRI_TRUE;
}

static void cast_as_axolotl(struct trainer *t)
{
    const struct recipe *s = &t->step->r;

    if (recipe_casts_as_axolotl(s) && !t->as_saved)
        kbit_cast_as_axolotl(&t->model.tree, t->model.arch->model_type, recipe_keeps_wide(s));
}

enum err_code trainer_declare(struct trainer *t, const struct arch *arch, const struct step *step, struct arena *arena, struct err *err)
{
    const struct recipe *s = &step->r;
    struct model *m = &t->model;
    enum err_code rc = budget_status(arena->budget, err);

    if (rc)
        return rc;
    t->step = step;
    m->arch = arch_of_class(arch, &step->quirks, arena);
    m->q = &step->quirks;
    m->source = m->arch->program;
    m->family = m->source ? m->source->run : NULL;
    m->attention = kernel_of(s->attention);
    if (!take_loss(m, s, err))
        return err->code;
    rc = t->as_saved ? ERR_OK : take_lora_kernels(m, s, err);
    if (rc)
        return rc;
    m->padded = s->padded;
    m->quantised = s->quantization != KBIT_NONE;
    m->memory = t->memory;
    m->checkpointing = s->gradient_checkpointing == TRI_TRUE && !keeps_by_unread_list(s);
    m->checkpoint_every = s->checkpoint_kind == CHECKPOINT_SECOND ? 2 : 1;
    m->layers_wrapped = method_is_fsdp1(s->method);
    m->capability = step->capability;
    m->reentrant = s->checkpoint_reentrant == TRI_TRUE;
    m->checkpoints_trained_alone = s->llama_factory && freeze_asked(&s->freeze);
    m->use_cache = s->use_cache == TRI_TRUE;
    m->embeddings_require_grad = (m->checkpointing && wants_inputs(s, &step->quirks)) || s->inputs_want_grad;
    m->task = s->stage == TASK_SFT ? NULL : &tasks[s->stage];
    m->reference = s->reference;
    m->reference_dtype = s->upcast || tasks[s->stage].by == TRAINER_LLAMA_FACTORY ? compute_dtype(s->precision) : weights_dtype(s, m->q);
    t->plain = s->framework == FRAMEWORK_TORCH || s->method == METHOD_PP; /* the Trainer has no schedule */
    rc = tree_init(&m->tree, arena, weights_dtype(s, m->q), modules_of(arch, m->q) * (s->reference == REFERENCE_COPY ? 2 : 1), err);
    if (!rc)
        rc = model_declare(m, err);
    if (rc)
        return rc;
    m->counts_items = m->takes_items && !t->plain && (!m->task || task_counts_items(m->task));
    if (!m->task && m->refuses_items && m->q->trainer_counts_items && !t->plain)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers", "%s", m->refuses_items);
    if (t->as_saved && !m->arch->theirs && !m->arch->encoder) /* else the class is the one that was asked for */
        model_take_class(m);
    if (s->quantization && !t->as_saved) {
        rc = quantise(&t->model, s, compute_dtype(s->precision), err);
        if (rc)
            return rc;
    }
    cast_as_axolotl(t);
    if (s->tuning != TUNING_FULL) {
        rc = declare_adapters(t, err);
        if (!rc && s->lora.n_saved && s->upcasts_saved)
            params_visit(m->tree.root, train_wide, NULL);
        if (!rc && m->score_head)
            save_heads(m);
        rc = rc ? rc : check_scaler(t, err);
    } else {
        params_visit(m->tree.root, program_is_of_files(m->source) ? train_all : train_whole, NULL);
        rc = freeze_apply(&m->tree, &s->freeze, err);
        if (!rc && m->checkpointing && m->reentrant && !m->embeddings_require_grad && !s->llama_factory && m->embeddings &&
            m->embeddings->weight && !m->embeddings->weight->requires_grad)
            return err_set(err, ERR_FIELD_CONFLICT, "/training/checkpoint_reentrant",
                           "reentrant checkpoints whose input wants no gradient give none to what is in them, and before transformers 5 nothing "
                           "has the output of frozen embeddings want one");
        if (!rc && freeze_asked(&s->freeze) && s->upcast && method_is_fsdp2(s->method))
            params_visit(m->tree.root, keep_half, &m->reference_dtype);
    }
    if (rc || !m->task || !m->task->module || t->as_saved)
        return rc;
    rc = m->family->refer(m, err);
    cast_as_axolotl(t); /* a reference that is loaded beside it too */
    return rc;
}

/* ------------------------------------------------------------------------------------------------------------- a run */
static uint32_t micro_steps(const struct trainer *t, const struct step *s)
{
    if (s->r.method == METHOD_PP)
        return pipeline_plays(t, &s->r);
    return s->r.gradient_accumulation_steps < MICRO_STEPS ? s->r.gradient_accumulation_steps : MICRO_STEPS;
}

static uint32_t n_steps(const struct step *s)
{
    const struct method_program *m = method_rows[s->r.method].program;

    return m && m->steps ? m->steps : 2;
}

bool trainer_learns_order(const struct step *s)
{
    const struct method_program *m = method_rows[s->r.method].program;

    return m && m->learns_order;
}

/* Which parameters have states only a step tells, where a batch may leave some alone. The log and the live blocks of a step need fewer: optimizer states and
 * grown buckets change what is held, not what is done; and where unused parameters are looked for, buckets are never made anew, so that the third step holds
 * what the second held. */
static uint32_t steps_to_play(const struct trainer *t, const struct arch *arch, const struct step *s)
{
    bool learns = trainer_learns_order(s);

    if (t->foretells || t->alike)
        return arch->has_towers || learns ? 2 : 1;
    if (t->costs_alone)
        return learns ? n_steps(s) : n_steps(s) - 1;
    return t->live_blocks_only && s->find_unused_parameters ? 2 : n_steps(s);
}

static uint32_t stages_of(const struct step *s)
{
    return s->r.pipeline_parallel ? s->r.pipeline_parallel : 1;
}

/* Of all micro-batches that wait on a stage, which has its share of the layers. */
static uint32_t layers_alive(const struct arch *a, const struct step *s)
{
    return a->layers + 4 * stages_of(s);
}

static uint32_t layers_held(const struct arch *a, const struct step *s)
{
    return (a->layers - 1) / stages_of(s) + 5;
}

/* The families that have a stage make a tenth of what eager attention of 4.40 makes. */
static uint32_t births_of_layer(const struct step *s)
{
    return s->r.method == METHOD_PP ? 800 : 2400;
}

uint32_t train_turns(const struct arch *a, const struct step *s)
{
    return a->turn_tokens ? (s->r.seq_len_tokens / a->turn_tokens + 1) * a->turn_nodes + a->loop_nodes : 0;
}

/* What the loops of a layer make beside it; the graph of a region that is not reentrant stands too. Of Qwen3.5's and Mamba's nodes a third have a value and a
 * fifth a storage at once, and a step makes 1.4 blocks each. */
static void add_turns(struct run_limits *l, const struct arch *a, const struct step *s, uint32_t steps)
{
    uint32_t turns = train_turns(a, s), nodes = a->layers * turns;

    l->values += nodes / 2;
    l->storages += nodes / 3;
    l->nodes += nodes;
    l->births += ((a->layers - 1) / stages_of(s) + 1) * turns * 3 / 2 * steps;
}

/* Bounds of a run: each layer makes at most so many of each in forward and backward; checkpointing makes forward twice. */
enum { SHARDS = 16384 };

/* Experts that are modules: a chain of operators each. Where every layer is checkpointed the chains of one stand at a time, of the others their parameters,
 * gradients and states. ZeRO-3 gathers each parameter for itself, and partitions each gradient. */
static void add_experts(struct run_limits *l, const struct step *s, uint32_t experts, uint32_t layers, uint32_t held, uint32_t steps)
{
    bool one = s->r.gradient_checkpointing == TRI_TRUE && s->r.checkpoint_kind == CHECKPOINT_WHOLE && s->r.tuning == TUNING_FULL;

    l->values += experts * (one ? 36 + layers * 18 : layers * 36);
    l->storages += experts * layers * 16;
    l->nodes += experts * (one ? 18 + layers * 6 : layers * 18);
    l->births += held * experts * (s->r.method == METHOD_ZERO3 && s->r.tuning == TUNING_FULL ? 120 : 40) * steps;
}

static struct run_limits limits_of(const struct trainer *t, const struct arch *a, const struct step *s)
{
    uint32_t layers = layers_alive(a, s), steps = n_steps(s) * micro_steps(t, s);
    uint32_t experts = s->quirks.experts_in_turn ? a->experts : 0; /* each of them a chain of operators of its own */
    uint32_t batches = s->r.gradient_accumulation_steps; /* all on the device at once since transformers 4.46 */
    struct run_limits l = {0};

    l.values = 4096 + layers * 512 + 8 * batches;
    l.storages = 2048 + layers * 256 + 8 * batches;
    l.nodes = 1024 + layers * 256;
    l.births = 8192 + layers_held(a, s) * (births_of_layer(s) * steps + 512) + 16 * batches;
    add_experts(&l, s, experts, layers, layers_held(a, s), steps);
    add_turns(&l, a, s, steps);
    l.marks = steps; /* the Trainer of 4.41 empties the cache in each */
    if (s->r.quantization)
        l.marks += t->model.tree.max_modules; /* accelerate does with what it places */
    if (s->r.offload == OFFLOAD_ACTIVATIONS) { /* a shape for each save that waits, a second birth when it comes back */
        l.values += layers * 256;
        l.births += layers * 256 * steps;
        l.hooks = 8;
    }
    if (s->r.stage == TASK_EMBEDDING) { /* two forwards in one graph */
        l.values *= 2;
        l.storages *= 2;
        l.nodes *= 2;
        l.births *= 2;
    }
    if (s->r.method == METHOD_SINGLE)
        return l;
    l.values += SHARDS; /* pieces of a bucket, however few the layers are */
    l.storages += SHARDS;
    l.marks += layers * (64 + experts * 24) * steps; /* FSDP1 makes a unit of each adapter of an expert that is a module, and waits for each */
    l.hooks += layers * (s->r.tuning == TUNING_FULL ? 64 + experts * 8 : 192 + experts * 24); /* of every module and parameter, adapters included */
    return l;
}

static void (*loop_of(const struct trainer *t))(struct trainer *, struct held *)
{
    if (t->step->r.method == METHOD_PP)
        return pipeline_step;
    return t->plain ? plain_step : trainer_step;
}

static enum err_code take_stage(struct trainer *t, struct err *err)
{
    const struct recipe *s = &t->step->r;

    if (!t->costs_alone && s->gradient_accumulation_steps < s->pipeline_parallel)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/gradient_accumulation_steps",
                       "Schedule1F1B needs a micro-batch for each of %u stages at least", s->pipeline_parallel);
    return stage_cut(&t->model, s->rank, s->pipeline_parallel, err);
}

static enum err_code take_shard(struct trainer *t, struct err *err)
{
    return split_apply(&t->model, err);
}

/* What one rank has of a declared model. */
static enum err_code take_part(struct trainer *t, struct err *err)
{
    const struct recipe *s = &t->step->r;
    const struct arch *a = t->model.arch;
    uint32_t shards = s->tensor_parallel, stages = s->pipeline_parallel;
    bool tp = s->method == METHOD_TP || s->method == METHOD_TP_FSDP2, pp = s->method == METHOD_PP;
    enum err_code rc;

    if (!tp && !pp)
        return ERR_OK;
    if (s->quantization)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization", "quantised weights under %s are not modelled: none", method_rows[s->method].name);
    if (s->data_parallel > 1 && s->method != METHOD_TP_FSDP2)
        return err_set(err, ERR_FIELD_CONFLICT, pp ? "/training/pipeline_parallel" : "/training/tensor_parallel",
                       "%s over a part of the GPUs needs a data-parallel method beside it: over all of them, or tp+fsdp2",
                       method_rows[s->method].name);
    rc = parallel_gap(
        &(struct parallel_shape){shards * stages, shards, stages, a->whole_heads ? 0 : a->heads, a->whole_heads ? 0 : a->kv_heads, a->layers}, err);
    if (rc)
        return rc;
    rc = tp ? take_shard(t, err) : take_stage(t, err);
    return rc || !tp || s->tuning == TUNING_FULL ? rc : lora_split(&t->model.tree, t->model.q, err);
}

static void prepare_states(struct trainer *t)
{
    if (t->method && t->method->prepare)
        t->method->prepare(t->wrapped);
    else
        optim_prepare(&t->run, &t->optim);
}

bool trainer_skips_first(const struct arch *arch, const struct step *s)
{
    const struct quirks *q = &s->quirks;
    enum method m = s->r.method;
    bool method = m == METHOD_ZERO1 || m == METHOD_ZERO2 || m == METHOD_FSDP2 || m == METHOD_FSDP2_NORESHARD || m == METHOD_HSDP2 || m == METHOD_TP ||
                  m == METHOD_TP_FSDP2 || (m == METHOD_PP && s->r.keep_outputs != TRI_TRUE);

    return !arch->fixed_depth && !arch->has_towers && method && s->r.offload == OFFLOAD_NONE && s->r.use_cache != TRI_TRUE && !q->cublas_workspace_kept &&
           q->cublaslt_workspace != CUBLASLT_KEPT && !precision_scales_loss(s->r.precision);
}

/* As a step leaves it. */
static void leave(struct trainer *t, struct held *h)
{
    prepare_states(t);
    if (t->method && t->method->leave)
        t->method->leave(t->wrapped);
    if (!t->plain)
        trainer_left(t, h);
}

enum err_code trainer_stand_in(struct trainer *t, const struct arch *arch, const struct step *step, struct arena *arena, struct err *err)
{
    enum err_code rc = trainer_declare(t, arch, step, arena, err);

    t->method = method_rows[step->r.method].program;
    if (!rc)
        rc = take_part(t, err);
    if (!rc)
        rc = budget_take(arena->budget, t->model.tree.n_modules, err);
    return rc;
}

static struct run_limits widened(struct run_limits l, unsigned wider)
{
    l.values <<= wider;
    l.storages <<= wider;
    l.nodes <<= wider;
    l.births <<= wider;
    return l;
}

/* Foretold: of the step that others have alone. */
static struct work *log_of(const struct trainer *t, uint32_t i, uint32_t n)
{
    bool learns = trainer_learns_order(t->step);

    if (i + (learns ? 1 : 2) == n && t->costs)
        return t->costs;
    return i + 1 == (t->foretells && !learns ? 1 : n) ? t->log : NULL;
}

static void empty_log(struct work *log)
{
    if (log)
        log->n_kernels = log->n_messages = log->n_orders = log->calls = log->hooks = log->n_events = 0;
}

static enum err_code run_once(struct trainer *t, const struct arch *arch, const struct step *step, const struct device *device, bool by_hand,
                              struct arena *arena, struct err *err)
{
    struct held h = {0};
    bool alike = t->live_blocks_only && !t->foretells && trainer_skips_first(arch, step);
    uint32_t n;
    enum err_code rc;

    *t = (struct trainer){.log = t->log,
                          .costs_alone = t->costs_alone,
                          .costs = t->costs,
                          .live_blocks_only = t->live_blocks_only,
                          .memory = t->memory,
                          .wider = t->wider,
                          .foretells = t->foretells,
                          .around = t->around,
                          .alike = alike};
    n = steps_to_play(t, arch, step);
    t->model.by_hand = by_hand;
    rc = trainer_declare(t, arch, step, arena, err);
    if (!rc && (t->log || t->costs))
        t->whole = parameters_of(t->model.tree.root);
    if (!rc)
        rc = take_part(t, err);
    if (!rc)
        rc = budget_take(arena->budget, t->model.tree.n_modules, err);
    if (rc)
        return rc;
    if (t->model.position_table && step->r.seq_len_tokens > arch->max_positions)
        return err_set(err, ERR_FIELD_RANGE, "/training/seq_len", "this model has positions for %u tokens and no more",
                       arch->max_positions);
    rc = run_init(&t->run, arena, &step->quirks, *device, widened(limits_of(t, arch, step), t->wider), err);
    if (rc)
        return rc;
    t->run.expert_skew = step->r.expert_skew;
    t->run.selective = step->r.checkpoint_kind >= CHECKPOINT_SELECTIVE;
    t->run.all_products = step->r.checkpoint_kind == CHECKPOINT_LEAST_PRODUCTS;
    t->run.what_is_read = step->r.checkpoint_kind >= CHECKPOINT_LEAST_SELECTIVE;
    t->run.casts_uncached = step->r.least;
    t->run.float8 = step->r.float8 && !step->r.least;
    t->run.float8_not = t->model.tree.head;
    t->run.compiled = step->r.compile;
    t->run.one_graph = step->r.compile && is_one_graph(step->r.method);
    t->run.flash_3 = step->r.attention == ATTENTION_FLASH_3;
    t->run.no_flash = step->r.no_flash;
    t->run.cudnn_attention &= step->r.cudnn_attention != TRI_FALSE && !step->r.no_flash;
    h.batches = arena_array(arena, struct batch, 2 * (size_t)step->r.gradient_accumulation_steps);
    if (!h.batches)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for so many batches");
    trainer_load(t);
    if (t->foretells && !arch->has_towers && !t->run.error.code && step->r.offload == OFFLOAD_NONE)
        prepare_states(t);
    else if (t->alike && !t->run.error.code)
        leave(t, &h);
    for (uint32_t i = 0; i < n && !t->run.error.code; i++) {
        t->last_begins = t->run.n_events;
        t->run.work = log_of(t, i, n);
        loop_of(t)(t, &h);
    }
    if (t->around && !t->run.error.code)
        around_play(t, &h);
    (void)run_count(&t->run);
    if (arena->full) /* a part of it was not there, whatever came of that */
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for this run");
    if (t->run.error.code) {
        *err = t->run.error;
        return err->code;
    }
    return ERR_OK;
}

/* Where what was heard before is not what a layer does (torch/calls.h), the program says itself what it does; the attempt is not counted. */
enum err_code trainer_run(struct trainer *t, const struct arch *arch, const struct step *step, const struct device *device,
                          struct arena *arena, struct err *err)
{
    unsigned char *mark = arena->cur;
    uint64_t events = arena->budget ? arena->budget->events : 0;
    bool full = arena->full;
    enum err_code rc = run_once(t, arch, step, device, false, arena, err);

    if (!rc || !t->run.diverged)
        return rc;
    arena_rewind(arena, mark);
    arena->full = full;
    if (arena->budget)
        arena->budget->events = events;
    empty_log(t->log);
    empty_log(t->costs);
    return run_once(t, arch, step, device, true, arena, err);
}
