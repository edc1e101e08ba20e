/* target_modules: a list, a word or a regular expression, and where that puts adapters. */
#include "api/answer/estimate.h"

#include "train/adapted.h"
#include "tuning/freeze.h"
#include "tuning/pattern.h"

#include <stdio.h>
#include <string.h>

enum err_code lora_read(const struct lora_request *asked, const char *at, struct arena *arena, struct lora *ret, struct err *err)
{
    const struct strs *targets = &asked->target_modules;
    bool all = targets->is_string && !strcmp(targets->v[0], "all-linear");
    enum err_code rc;

    if (targets->set && !targets->is_string && !targets->n && !asked->target_parameters.n)
        return err_set(err, ERR_FIELD_RANGE, at, "an empty list adapts nothing: names, or target_parameters beside it");
    *ret = (struct lora){
        .rank = (uint32_t)asked->rank.whole,
        .alpha = asked->alpha.real,
        .dropout = asked->dropout.real,
        .dtype = asked->dtype.n ? (enum lora_dtype)lora_dtype_words[asked->dtype.at[0]].value : LORA_DTYPE_UNSET,
        .dora = asked->use_dora == TRI_TRUE,
        .kernels = words_bits(&asked->kernels, lora_kernel_words),
        .bias = asked->bias.n ? (enum lora_bias)lora_bias_words[asked->bias.at[0]].value : LORA_BIAS_NONE,
        .all_linear = all,
        .n_targets = targets->is_string ? 0 : targets->n,
        .targets = asked->target_modules.v,
        .n_parameters = asked->target_parameters.n,
        .parameters = asked->target_parameters.v,
        .n_saved = asked->modules_to_save.n,
        .saved = asked->modules_to_save.v,
        .pattern_text = targets->is_string && !all ? targets->v[0] : NULL,
    };
    rc = ret->pattern_text ? pattern_compile(ret->pattern_text, at, arena, &ret->pattern, err) : ERR_OK;
    return rc ? rc : narrow_read(asked, at, arena, &ret->narrow, err);
}

static bool adapts(const struct words *tuning)
{
    bool ret = !tuning->n;

    for (unsigned i = 0; i < tuning->n; i++)
        ret |= tuning_words[tuning->at[i]].value != TUNING_FULL;
    return ret;
}

/* Fewer layers of a model whose layers are not alike are not the same model's. */
static void layers_differ(struct estimate *e)
{
    e->model.arch.fixed_depth = true;
    e->model.arch.may_repeat = false;
}

static bool asks_checkpointing(const struct words *w, enum checkpoint_kind kind)
{
    bool ret = false;

    for (unsigned i = 0; i < w->n; i++)
        ret |= checkpointing_words[w->at[i]].value == (int)kind;
    return ret;
}

/* every_n_layers, and what a script has to say by itself */
void layers_check(struct estimate *e)
{
    const struct words *w = &e->rq.training.gradient_checkpointing;

    if (e->rq.training.optimizer_in_backward == TRI_TRUE)
        note(&e->assumptions, "training.optimizer_in_backward: an optimizer for each parameter, stepped by register_post_accumulate_grad_hook, as torchtune "
             "does; the Trainer has no switch for it and launch files do not say so, a script has to");
    if (asks_checkpointing(w, CHECKPOINT_SELECTIVE))
        note(&e->assumptions, "training.gradient_checkpointing selective_op: a context_fn with torchtitan's list of operators (mm, every second of them "
             "left out, and sdpa's kernels); launch files do not say so, a script has to");
    if (asks_checkpointing(w, CHECKPOINT_SECOND))
        layers_differ(e);
}

enum err_code freeze_read(const struct training_request *asked, struct arena *arena, struct freeze *ret, struct err *err)
{
    const struct strs *trained = &asked->trainable;

    *ret = (struct freeze){
        .n = asked->freeze.n,
        .names = asked->freeze.v,
        .n_trained = trained->is_string ? 0 : trained->n,
        .trained = trained->v,
        .pattern_text = trained->is_string ? trained->v[0] : NULL,
        .share = asked->freeze_ratio.set ? asked->freeze_ratio.real : 0,
    };
    return ret->pattern_text ? pattern_compile(ret->pattern_text, "/training/trainable", arena, &ret->pattern, err) : ERR_OK;
}

/* A part of the model is trained, of what is all trained otherwise. */
enum err_code freeze_check(struct estimate *e)
{
    const struct freeze *f = &e->question.recipe.freeze;
    const char *name = f->n ? "freeze" : f->share > 0 ? "freeze_ratio" : "trainable";
    char at[32];

    if (!freeze_asked(f))
        return ERR_OK;
    (void)snprintf(at, sizeof at, "/training/%s", name);
    if (!e->rq.training.tuning.n || adapts(&e->rq.training.tuning))
        return err_set(e->call->err, ERR_FIELD_CONFLICT, at, "beside adapters the whole base is frozen: tuning full, or no %s", name);
    if (freeze_is_uneven(f))
        layers_differ(e);
    note(&e->assumptions, "training.%s: %s has requires_grad false before anything wraps the model; launch files do not say so, a script has to", name,
         f->n ? "what it names" : f->share > 0 ? "that share of the parameters, the first in the model's order," : "all that it does not name");
    return ERR_OK;
}

/* Where adapters go: some places have no model, others no adapter in peft. */
enum err_code targets_check(struct estimate *e)
{
    const struct lora_request *l = &e->rq.training.lora;
    const char *at = origin_of(&e->origins, &l->target_modules);
    struct arena scratch = *e->call->arena;
    struct lora_found found = {0};
    enum err_code rc;

    at = at ? at : "/training/lora/target_modules";
    if (((!l->target_modules.set || e->question.recipe.lora.all_linear) && !l->target_parameters.n && !e->question.recipe.lora.narrow &&
         !e->question.recipe.lora.bias) ||
        e->question.gap || !adapts(&e->rq.training.tuning))
        return ERR_OK;
    rc = adapted_find(&e->model.arch, &e->question.recipe, &scratch, &found, e->call->err);
    if (rc)
        return rc;
    if (found.exhausted)
        return err_set(e->call->err, ERR_FIELD_VALUE, at, "takes too many steps to match a module's name");
    if (found.refused[0])
        return err_set(e->call->err, ERR_FIELD_VALUE, at, "means %.100s, for which peft has no adapter", found.refused);
    if (e->question.recipe.lora.bias && !(e->question.recipe.lora.bias == LORA_BIAS_ALL ? found.biases : found.adapted_biases))
        note(&e->warnings, "/training/lora/bias: no %s of this model has a bias, so that none is trained",
             e->question.recipe.lora.bias == LORA_BIAS_ALL ? "module" : "adapted module");
    if (found.embeddings)
        left_out_gap(&e->left_out, GAP_OF_ADAPTERS, at, "adapters on embeddings are not modelled yet");
    else if (found.uneven)
        layers_differ(e);
    return ERR_OK;
}
