/* load.c - the model on the device, and its parameters in the optimizer's groups. */
#include "base/ascii.h"
#include "models/program.h"
#include "parallel/ddp/ddp.h"
#include "torch/autograd.h"
#include "torch/hooks.h"
#include "torch/offload.h"
#include "train/loop.h"
#include "tuning/kbit_load.h"
#include "tuning/lora.h"

#include <string.h>

/* trainer.py get_decay_parameter_names */
enum { SAVES_A_LAYER = 256 };
enum { DECAY_BY_NAME_ALONE = 2 }; /* of the quirk: of layer types, LayerNorm's is left */

static bool holds(const char *name, const char *part)
{
    return strstr(name, part) != NULL;
}

static bool decays(const struct trainer *t, const struct module *m, const struct param *p)
{
    char buf[256], *path = buf + (module_path(&t->model.tree, m->number, buf, sizeof buf) - buf);
    size_t n = strlen(path);

    for (char *s = path; t->step->quirks.decay_by_name && *s; s++) /* names in any case of letters */
        *s = ascii_lower(*s);
    if (holds(p->name, "bias") || holds(path, "bias"))
        return false;
    if (m->kind == MODULE_LAYER_NORM)
        return false;
    if (t->step->quirks.decay_by_name < DECAY_BY_NAME_ALONE && m->kind == MODULE_NORM && t->model.family->norm_registered)
        return false;
    if (!holds(path, "norm")) /* which all that follow have */
        return true;
    if (t->step->quirks.decay_by_name && (holds(path, "layernorm") || holds(path, "rmsnorm")))
        return false;
    if (t->step->quirks.decay_by_name < DECAY_BY_NAME_ALONE)
        return true;
    if (holds(path, "_norm.")) /* (^|.)norm($|.), _norm($|.) */
        return false;
    if ((n >= 5 && !strcmp(path + n - 5, "_norm")) || !strcmp(path, "norm") || (n >= 5 && !strcmp(path + n - 5, ".norm")))
        return false;
    return true;
}

/* torch/optim/_muon.py: matrices of hidden layers; embeddings, the head and the rest are AdamW's */
static bool takes_muon(const struct trainer *t, const struct module *m, const struct param *p)
{
    return p->ndim == 2 && m->kind != MODULE_EMBEDDING && m != t->model.tree.head;
}

/* Which parameters decay; a plain loop hands model.parameters() to the optimizer as they come. */
static void tell_group(void *context, struct module *m, struct param *p)
{
    const struct trainer *t = context;

    if (t->step->r.optimizer == OPTIMIZER_MUON)
        p->group = takes_muon(t, m, p) ? 0 : 1;
    else
        p->group = t->plain || decays(t, m, p) ? 0 : 1;
}

/* LLaMA-Factory 0.9.5 model/adapter.py init_adapter, _setup_freeze_tuning: not under ZeRO-3 and FSDP; an engine of ZeRO's casts all back. */
static bool widens_trained(const struct recipe *s)
{
    return s->llama_factory && freeze_asked(&s->freeze) && (s->method == METHOD_SINGLE || s->method == METHOD_DDP) && precision_autocasts(s->precision);
}

bool step_packs_by_host(const struct step *s)
{
    const struct recipe *r = &s->r;
    bool fsdp = method_is_fsdp1(r->method) || method_is_fsdp2(r->method), told = r->framework == FRAMEWORK_TRANSFORMERS;

    if (!kbit_is_bnb(r->quantization) || s->quirks.bnb_stays_on_device)
        return false;
    return fsdp ? r->fsdp.cpu_ram_efficient_loading == TRI_TRUE : r->method == METHOD_ZERO3 && told;
}

static void cast_to_compute(void *context, struct module *m, struct param *p)
{
    (void)m;
    wrapping_cast(context, p);
}

static void declare_compute(void *context, struct module *m, struct param *p)
{
    const struct wrapping *w = context;

    (void)m;
    if (!p->value && dtype_is_float(p->dtype))
        p->dtype = w->o->compute;
}

/* The engine casts the module, then moves it. */
static void move_to_engine(struct wrapping *w)
{
    params_visit(w->tree->root, cast_to_compute, w);
    params_visit(w->tree->root, declare_compute, w);
    kbit_move_rest(w->r, w->tree);
}

/* axolotl prepares nothing that FSDP or ZeRO-3 shards (loaders/model.py _prepare_model_for_quantization); the engine casts what is fp32 to its dtype. */
static bool prepares(const struct recipe *s)
{
    bool cut = method_is_fsdp1(s->method) || method_is_fsdp2(s->method) || s->method == METHOD_ZERO3;

    return s->prepare_kbit && !(s->prepare_kbit == KBIT_PREPARE_AXOLOTL && cut);
}

static void place_by_host(struct wrapping *w)
{
    const struct trainer *t = w->of;
    const struct recipe *s = &t->step->r;
    bool zero3 = s->method == METHOD_ZERO3, rest = !zero3 && t->step->quirks.fsdp_rest_on_host;

    kbit_load_by_host(w->r, w->tree, rest);
    kbit_cast_on_host(w->tree, s->prepare_kbit == KBIT_PREPARE_TRL ? KBIT_CASTS_BACK : prepares(s) ? KBIT_CASTS_UP : KBIT_CASTS_NONE);
    if (rest)
        return;
    if (prepares(s))
        kbit_prepare_weights(w->r, w->tree);
    if (w->o->adapters)
        lora_materialise(w->r, w->tree, NULL);
    if (s->prepare_kbit == KBIT_PREPARE_TRL)
        kbit_cast_back(w->r, w->tree);
    if (zero3)
        move_to_engine(w);
}

static void place(struct wrapping *w)
{
    const struct trainer *t = w->of;
    const struct recipe *s = &t->step->r;

    bool bnb = kbit_is_bnb(s->quantization); /* prepare_model_for_kbit_training() casts nothing of GPTQ's */

    if (step_packs_by_host(t->step)) {
        place_by_host(w);
        return;
    }
    if (kbit_is_loaded(s->quantization))
        kbit_load(w->r, w->tree);
    else
        materialise(w->r, w->tree);
    if (bnb && prepares(s) && s->prepare_kbit == KBIT_PREPARE_AXOLOTL)
        kbit_prepare_as_axolotl(w->r, w->tree, t->model.arch->model_type, s->quantize_experts);
    else if (prepares(s) && (bnb || (s->quantization == KBIT_AWQ4 && s->prepare_kbit != KBIT_PREPARE_AXOLOTL)))
        kbit_prepare_weights(w->r, w->tree);
    if (widens_trained(s))
        widen_trained(w->r, w->tree);
    if (w->o->adapters)
        lora_materialise(w->r, w->tree, NULL);
    if (bnb && s->prepare_kbit == KBIT_PREPARE_TRL)
        kbit_cast_back(w->r, w->tree);
}

static void count_leaf(void *context, struct module *m, struct param *p)
{
    uint32_t *n = context;

    (void)m;
    *n += p->requires_grad && !p->tied;
}

static bool make_room(struct trainer *t, struct wrapping *w)
{
    struct arena *a = t->model.tree.arena;
    uint32_t n = 1;

    params_visit(t->model.tree.root, count_leaf, &n);
    w->leaves.max = n;
    w->leaves.leaf = arena_array(a, val, n);
    w->leaves.group = arena_array(a, uint8_t, n);
    for (int g = 0; g < OPTIM_GROUPS; g++) {
        t->optim.group[g] = arena_array(a, val, n);
        t->optim.state[g] = arena_array(a, struct optim_state, n);
        if (!t->optim.group[g] || !t->optim.state[g])
            return false;
    }
    return w->leaves.leaf && w->leaves.group;
}

static void take_leaves(struct trainer *t, const struct leaves *l)
{
    t->n_trainable = l->n;
    t->trainable = l->leaf;
    for (uint32_t i = 0; i < l->n; i++) {
        int g = l->group[i];

        t->optim.group[g][t->optim.n_group[g]++] = l->leaf[i];
    }
}

/* A stated bucket size does away with the first bucket of 1 MiB, in newer releases. */
static struct ddp_settings ddp_settings(const struct step *s)
{
    uint64_t cap = s->r.ddp_bucket_bytes;
    bool left_out = cap == (uint64_t)DDP_BUCKET_MIB << 20;

    return (struct ddp_settings){
        .bucket_bytes = cap,
        .first_bucket_bytes = left_out || s->quirks.ddp_small_first_bucket ? DDP_FIRST_BUCKET_BYTES : cap,
        .find_unused_parameters = s->find_unused_parameters,
        .bucket_view = s->r.gradient_as_bucket_view == TRI_TRUE,
    };
}

/* accelerate, set_mixed_precision(): reduced in what is computed in. */
static enum dtype reduced_in(const struct recipe *r)
{
    if (r->fsdp.reduce_dtype == REDUCE_FP32)
        return DTYPE_FP32;
    return r->fsdp.reduce_dtype == REDUCE_AS_COMPUTED && compute_dtype(r->precision) == DTYPE_FP16 ? DTYPE_FP16 : DTYPE_BF16;
}

void parallel_options_of(const struct step *s, struct parallel_options *ret)
{
    const struct recipe *r = &s->r;
    const struct fsdp_recipe *f = &r->fsdp;
    const struct zero_recipe *z = &r->zero;

    *ret = (struct parallel_options){
        .method = r->method,
        .at = {r->data_parallel * r->tensor_parallel * r->pipeline_parallel, r->rank, r->data_parallel, r->tensor_parallel,
               r->pipeline_parallel, r->shard_group, r->hosts},
        .plain = r->framework == FRAMEWORK_TORCH,
        .mixed = precision_is_mixed(r->precision) || (r->tuning != TUNING_FULL && precision_autocasts(r->precision)),
        .compute = compute_dtype(r->precision),
        .checkpointing = r->gradient_checkpointing == TRI_TRUE,
        .reentrant = r->checkpoint_reentrant == TRI_TRUE,
        .adapters = r->tuning != TUNING_FULL,
        .upcasts = r->upcasts_adapters,
        .quantised = kbit_is_bnb(r->quantization),
        .gradient_accumulation_steps = r->gradient_accumulation_steps,
        .sync_each_batch = r->sync_each_batch == TRI_TRUE,
        .max_grad_norm = r->max_grad_norm,
        .optimizer = optimizer_rows[r->optimizer].kind,
        .paged = optimizer_rows[r->optimizer].paged,
        .offload = offload_of_states(r->offload) ? r->offload : OFFLOAD_NONE,
        .ddp = ddp_settings(s),
        .fsdp = {f->wrap, f->backward_prefetch, f->forward_prefetch == TRI_TRUE, f->use_orig_params == TRI_TRUE,
                 f->limit_all_gathers == TRI_TRUE, reduced_in(r)},
        .zero = {z->reduce_elems, z->allgather_elems, z->prefetch_elems, z->max_live_elems, z->reuse_elems, z->sub_group_elems,
                 z->persistence_elems, z->overlap_comm == TRI_TRUE, z->zero_init == TRI_TRUE, z->round_robin},
    };
}

static bool widens_embeddings(const struct trainer *t)
{
    return optim_is_bnb(optimizer_rows[t->step->r.optimizer].kind) && !t->plain && t->step->quirks.trainer_widens_embeddings;
}

struct paging {
    struct optim optim;
    bool widens;
    uint64_t bytes;
};

static void add_pages(void *context, struct module *m, struct param *p)
{
    struct paging *g = context;

    if (p->requires_grad && !p->tied)
        g->bytes += optim_paged_bytes(&g->optim, param_numel(p), g->widens && m->kind == MODULE_EMBEDDING);
}

uint64_t trainer_paged_bytes(const struct trainer *t)
{
    const struct optimizer_row *o = &optimizer_rows[t->step->r.optimizer];
    struct paging g = {.optim = {.kind = o->kind, .paged = o->paged}, .widens = widens_embeddings(t)};

    if (g.optim.paged)
        params_visit(t->model.tree.root, add_pages, &g);
    return g.bytes;
}

/* trainer.py create_optimizer: GlobalOptimManager keeps the states of nn.Embedding in 32 bits */
static void widen_embeddings(struct trainer *t)
{
    const struct tree *tree = &t->model.tree;

    for (uint32_t i = 1; i < tree->n_modules; i++) {
        const struct param *p = tree->modules[i]->kind == MODULE_EMBEDDING ? tree->modules[i]->weight : NULL;

        for (int g = 0; g < OPTIM_GROUPS && p; g++)
            for (uint32_t k = 0; k < t->optim.n_group[g]; k++)
                t->optim.state[g][k].wide |= t->optim.group[g][k] == p->value || t->optim.group[g][k] == p->shard;
    }
}

static void want_gradient(void *context, struct module *m, struct param *p)
{
    (void)m;
    if (!p->tied)
        require_grad(context, p->value);
}

static void place_whole(struct wrapping *w)
{
    materialise(w->r, w->tree);
}

/* DeepSpeed's file for it: no optimizer, and what the Trainer makes of "auto" when train() begins is not made of it yet: DeepSpeed's defaults. */
static void options_beside(struct trainer *t)
{
    const struct zero_recipe *z = &t->step->r.zero;
    struct parallel_options *o = &t->beside;

    *o = t->parallel;
    o->adapters = o->checkpointing = o->counts_items = o->inputs_want_grad = false;
    o->offload = o->offload == OFFLOAD_OPTIMIZER_PARAMS ? o->offload : OFFLOAD_NONE;
    if (z->auto_prefetch)
        o->zero.prefetch_elems = ZERO_PREFETCH_ELEMS;
    if (z->auto_persistence)
        o->zero.persistence_elems = ZERO_PERSISTENCE_ELEMS;
}

/* TRL does not freeze it: it runs under no_grad, and autocast keeps the casts of what wants a gradient until it ends. LLaMA-Factory does, in half. */
static void place_reference(struct trainer *t)
{
    struct arena *a = t->model.tree.arena;
    struct tree *tree = arena_new(a, struct tree);
    struct wrapping *w = arena_new(a, struct wrapping);

    if (!tree || !w) {
        run_fail(&t->run, ERR_NOMEM, "", "the working memory of one request is too small for a second model");
        return;
    }
    *tree = t->model.tree;
    tree->root = t->model.reference_root;
    tree->head = t->model.reference_head;
    options_beside(t);
    *w = (struct wrapping){.r = &t->run, .tree = tree, .head = tree->head, .layers = module_list(tree), .o = &t->beside, .place = place_whole, .of = t};
    if (t->method && t->method->refer)
        t->referred = t->method->refer(w);
    else
        place_whole(w);
    if (!t->referred && tasks[t->step->r.stage].by != TRAINER_LLAMA_FACTORY)
        params_visit(tree->root, want_gradient, &t->run);
}

static val head_enters(struct run *r, struct module *m, void *of, val x)
{
    (void)m;
    (void)of;
    offload_pause(r, true);
    return x;
}

static val head_returns(struct run *r, struct module *m, void *of, val result)
{
    (void)m;
    (void)of;
    offload_pause(r, false);
    return result;
}

/* trl 1.16.0 get_act_offloading_ctx_manager(): what the head saves stays, where it is called lm_head */
static void offload_activations(struct trainer *t)
{
    struct module *head = t->model.tree.head;

    t->offload = offload_new(&t->run, SAVES_A_LAYER * (t->model.arch->layers + 4), t->step->r.method == METHOD_SINGLE || t->step->r.method == METHOD_DDP);
    if (head && !strcmp(head->name, "lm_head"))
        module_hook(&t->model.tree, &head->hooks, (struct module_hook){head_enters, head_returns, NULL, NULL, NULL});
}

/* optim_dict[param].step(), .zero_grad() */
static void step_of_one(void *of, val leaf)
{
    struct trainer *t = of;

    for (int g = 0; g < OPTIM_GROUPS; g++)
        for (uint32_t i = 0; i < t->optim.n_group[g]; i++)
            if (t->optim.group[g][i] == leaf) {
                val *grad = grad_of(&t->run, leaf);

                optim_step_one(&t->run, &t->optim, g, i);
                value_unref(&t->run, *grad);
                *grad = 0;
                return;
            }
}

/* What from_pretrained() thinks a rank will have, of weights that it brings to the device. */
static void tell_shares(struct trainer *t)
{
    const struct step *s = t->step;
    uint32_t ranks = s->r.data_parallel * s->r.tensor_parallel * s->r.pipeline_parallel;
    int counts = s->quirks.load_counts_shares;

    if (!kbit_is_loaded(s->r.quantization) || ranks < 2 || counts == LOAD_COUNTS_WHOLE)
        return;
    t->run.load_ranks = ranks;
    t->run.load_shares_all = !program_tell_plan(&t->model) && counts == LOAD_COUNTS_ALL_SHARED;
}

void trainer_load(struct trainer *t)
{
    struct run *r = &t->run;
    const struct recipe *s = &t->step->r;
    struct wrapping w = {
        .r = r,
        .tree = &t->model.tree,
        .embeddings = t->model.embeddings,
        .head = t->model.tree.head,
        .o = &t->parallel,
        .place = place,
        .of = t,
    };

    r->stage = STAGE_INIT;
    parallel_options_of(t->step, &t->parallel);
    t->parallel.inputs_want_grad = t->model.embeddings_require_grad;
    t->parallel.counts_items = t->model.counts_items && t->step->quirks.loss_over_ranks; /* a number until then */
    params_visit(t->model.tree.root, tell_group, t);
    tell_shares(t);
    w.layers = module_list(&t->model.tree);
    if (!make_room(t, &w)) {
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for the optimizer's states");
        return;
    }
    t->method = method_rows[s->method].program;
    if (t->model.reference_root && s->method != METHOD_SINGLE && s->method != METHOD_DDP)
        place_reference(t); /* TRL prepares it in __init__, an engine wraps the policy when train() begins */
    if (t->method) {
        t->wrapped = t->method->wrap(&w);
    } else {
        place(&w);
        wrapping_train_all(&w);
    }
    if (t->model.reference_root && (s->method == METHOD_SINGLE || s->method == METHOD_DDP))
        place_reference(t);
    take_leaves(t, &w.leaves);
    t->optim.kind = t->parallel.optimizer;
    t->optim.paged = optimizer_rows[s->optimizer].paged;
    if (method_is_fsdp1(s->method)) /* trainer.py _prepare_for_training: delay_optimizer_creation */
        optim_start(r, &t->optim);
    if (!t->plain || t->method)
        release_cached(r); /* Accelerator.free_memory when train() begins */
    t->autocast = t->step->autocast;
    t->autocast_dtype = compute_dtype(s->precision);
    if (widens_embeddings(t))
        widen_embeddings(t);
    optim_start(r, &t->optim);
    if (s->optimizer_in_backward) {
        r->grad_ready = step_of_one;
        r->grad_ready_of = t;
        r->grad_ready_of_tensors = true;
    }
    if (s->offload == OFFLOAD_ACTIVATIONS)
        offload_activations(t);
    t->steps_begin = r->n_events;
}
