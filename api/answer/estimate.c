/* One question: which way of training fits, with which batch. */
#include "api/answer/estimate.h"

#include "parallel/nccl.h"

#include <stdio.h>
#include <string.h>

enum { RUNS_BYTES = 332 << 20, RUNS_ALIGN = 64 };

/* Most of what is left is for the runs, which come and go; the rest keeps the answer. As much for each question, however long it and its config are: some
 * runs are dropped, or not even tried, for want of room. */
struct arena scratch_of(struct arena *arena)
{
    size_t most = (size_t)(arena->end - arena->cur) / 5 * 4, room = most < RUNS_BYTES ? most : RUNS_BYTES;
    unsigned char *end = arena->end - (uintptr_t)arena->end % RUNS_ALIGN;
    struct arena scratch = {.cur = end - room, .end = end, .budget = arena->budget};

    arena->end = scratch.cur;
    return scratch;
}

static const struct plan_candidate *first_modelled(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled)
            return &a->candidates[i];
    return NULL;
}

/* Adapters that found no module: peft refuses (tuners_utils.py, inject_adapter). */
static enum err_code check_targets(const struct estimate *e, const struct plan_candidate *c)
{
    if (c->step.r.tuning == TUNING_FULL || e->inventory.adapted_modules)
        return ERR_OK;
    return err_set(e->call->err, ERR_FIELD_VALUE, "/training/lora/target_modules", "none of them is a module of this model");
}

static void note_saved_nowhere(struct estimate *e, const struct lora *l)
{
    for (uint32_t k = 0; k < l->n_saved && k < SAVED_TOLD; k++)
        if (e->inventory.saved_nowhere >> k & 1)
            note(&e->warnings,
                 "/training/lora/modules_to_save: no module of this model is called '%.60s', which peft passes over without a word: nothing more is trained",
                 l->saved[k]);
}

static enum err_code take_inventory(struct estimate *e)
{
    const struct plan_candidate *c = first_modelled(&e->answer);
    struct budget *budget = e->call->arena->budget;
    enum err_code rc;

    if (!c)
        return ERR_OK;
    e->call->arena->budget = NULL; /* one declaration more, however little was left */
    rc = inventory_of(&e->model.arch, &c->step, e->call->arena, &e->inventory, e->call->err);
    e->call->arena->budget = budget;
    if (!rc)
        note_saved_nowhere(e, &c->step.r.lora);
    return rc ? rc : check_targets(e, c);
}

/* Where the work ended before the candidates did. */
static void note_partial(struct estimate *e)
{
    const struct plan_answer *a = &e->answer;

    if (a->n_cut)
        note(&e->warnings,
             "the answer is partial: %u of %u candidates have the reason budget, because one question may cause %llu events of work: name "
             "fewer methods, or state micro_batch_size",
             (unsigned)a->n_cut, (unsigned)a->n, (unsigned long long)e->work_limit);
    if (a->n_left_out)
        note(&e->warnings,
             "%u combinations that were not asked (with offload, synchronising each batch, with adapters) were not tried: the lists ask for nearly as many as "
             "one question may have, %u that run: name fewer",
             (unsigned)a->n_left_out, (unsigned)PLAN_MAX_MEASURED);
    if (a->n_untried)
        note(&e->warnings, "the advice is not complete: %u changes outgrew the memory or the work that one question has before it was known whether they fit",
             (unsigned)a->n_untried);
}

/* The answer of a snapshot is that alone. */
static enum err_code give_snapshot(struct estimate *e, struct arena *scratch)
{
    struct call *c = e->call;
    struct buf out;
    enum err_code rc;

    buf_init(&out, c->arena, ANSWER_MAX_BYTES);
    rc = snapshot_write(e, scratch, &out);
    c->ret->status = 200;
    c->ret->content_type = "application/octet-stream";
    c->ret->body = buf_text(&out);
    c->ret->bytes = out.bytes;
    c->ret->fits = e->answer.any_fits;
    c->ret->modelled = true;
    return rc;
}

/* What is told of the first candidate beside its figures. */
static enum err_code look_inside(struct estimate *e, struct arena *scratch)
{
    const struct plan_candidate *first = e->answer.n ? e->answer.candidates : NULL;
    bool modelled = first && first->modelled;

    if (e->shape->snapshot && !modelled)
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "", "there is no step to take a snapshot of: %.200s",
                       first && first->reason.detail ? first->reason.detail : "nothing that was asked has a model");
    if (e->shape->snapshot)
        return give_snapshot(e, scratch);
    return modelled && e->shape->timeline == TRI_TRUE ? timeline_take(e, scratch) : ERR_OK;
}

static void widen(struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++) {
        a->candidates[i].low_bytes = a->candidates[i].low_bytes / 100 * GENERIC_LOW_PERCENT;
        a->candidates[i].high_bytes = a->candidates[i].high_bytes / 100 * GENERIC_HIGH_PERCENT;
    }
}

/* An exception of the modelling code is told with the choices that it may hang on, and before the place where it was raised. */
static enum err_code tell_raises(struct plan_answer *a, struct arena *arena)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const struct recipe *r = &a->candidates[i].step.r;
        struct plan_reason *why = &a->candidates[i].reason;
        char text[512];

        if (!reason_is(why, ERR_SCRIPT_RAISED) || !why->construct)
            continue;
        (void)snprintf(text, sizeof text, "the modelling code raises with precision %s and attention %s: %s (%s:%u)",
                       word_named(precision_words, (int)r->precision), word_named(attention_words, (int)r->attention), why->construct, why->file, why->line);
        why->detail = arena_str(arena, text, strlen(text));
        if (!why->detail)
            return ERR_NOMEM;
    }
    return ERR_OK;
}

/* What a compiler or float8 products gain nobody computes: seconds of the eager step ranked the candidates, and are not told. */
static void forget_speed(const struct plan_question *q, struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n && recipe_is_a_range(&q->recipe); i++)
        a->candidates[i].time = (struct step_time){0};
    for (uint32_t i = 0; i < a->n_advice && recipe_is_a_range(&q->recipe); i++)
        a->advice[i].time = (struct step_time){0};
}

/* What ended with a release: where nobody names one, the last that has it is meant. */
static const struct {
    enum kbit kbit; /* KBIT_NONE: transformers' own AdamW */
    const char *transformers, *why;
} last_releases[] = {
    {KBIT_NONE, "4.49", "stack.transformers 4.49: the last release with adamw_hf, which a later one has not"},
    {KBIT_AWQ4, "4.57", "stack.transformers 4.57: the last release whose AWQ weights are trained over (autoawq); later ones take gptqmodel's Marlin, which raises"},
    {KBIT_HQQ4, "4.56", "stack.transformers 4.56: the last release whose hqq computes in the model's dtype; from 5.0 on it loads nothing"},
    {KBIT_HQQ8, "4.56", "stack.transformers 4.56: the last release whose hqq computes in the model's dtype; from 5.0 on it loads nothing"},
};

static bool names_release(const struct stack_request *s)
{
    return s->transformers || s->torch || s->peft || s->accelerate || s->bitsandbytes || s->deepspeed || s->flash_attn || s->liger || s->trl;
}

static bool asks_for(const struct estimate *e, enum kbit k)
{
    const struct words *packed = &e->rq.training.quantization, *optimizer = &e->rq.training.optimizer;

    if (!k)
        return optimizer->n == 1 && optimizer_words[optimizer->at[0]].value == OPTIMIZER_ADAMW_HF;
    return (packed->n && (enum kbit)quantization_words[packed->at[0]].value == k) ||
           (e->model.config && !asks_inference(&e->rq) && checkpoint_kbit(e->model.config) == k);
}

/* Once for what is asked, and once for what the checkpoint says; whether it took one. */
static bool take_release(struct estimate *e)
{
    for (size_t i = 0; i < sizeof last_releases / sizeof *last_releases && !names_release(&e->rq.stack); i++)
        if (asks_for(e, last_releases[i].kbit)) {
            e->rq.stack.transformers = last_releases[i].transformers;
            note(&e->assumptions, "%s", last_releases[i].why);
            return true;
        }
    return false;
}

/* The model that a tool's own file names. */
static void take_model(struct estimate *e)
{
    if (e->rq.model || e->rq.config)
        return;
    e->rq.model = theirs_model(e->call->doc, e->call->arena);
    if (e->rq.model)
        note_of(&e->assumptions, NOTE_OF_YOURS, "model %s: the one that %s names", e->rq.model,
                e->rq.framework_config.text ? "framework_config" : "training_arguments");
}

static enum err_code estimate(struct estimate *e)
{
    struct call *c = e->call;
    struct arena scratch;
    enum err_code rc = request_read(c->doc, c->arena, &e->warnings, &e->left_out, &e->rq, c->err);

    if (!rc)
        take_model(e);
    if (!rc)
        baseline_take(e);
    if (!rc)
        (void)take_release(e);
    if (!rc)
        theirs_take_releases(e);
    if (!rc)
        rc = stack_read(&e->rq.stack, &e->stack, c->err);
    if (!rc)
        rc = theirs_read(e);
    if (!rc)
        rc = request_check(&e->rq, &e->assumptions, &e->warnings, c->err);
    if (!rc)
        rc = model_read(c,
                        &(struct model_asked){e->rq.model, e->rq.revision, e->rq.config, e->rq.modeling, program_wanted(&e->rq.program), &e->rq.stack,
                                              &e->changes},
                        &e->warnings, &e->model);
    if (!rc && !e->model.has_program && !(c->rq->installed && *c->rq->installed))
        note(&e->warnings,
             "no program of this type is carried: a transformers that has it can be read (--transformers DIR), or its modelling file sent as `modeling`");
    if (!rc && (e->model.installed || take_release(e))) /* the stack that it belongs to */
        rc = stack_read(&e->rq.stack, &e->stack, c->err);
    if (!rc && asks_inference(&e->rq))
        return inference_answer(e);
    if (!rc)
        rc = theirs_resolve(e);
    if (!rc)
        rc = question_build(e);
    if (rc)
        return rc;
    scratch = scratch_of(c->arena);
    rc = baseline_read(e, &scratch);
    if (!rc)
        rc = plan_answer(&e->question, c->arena, &scratch, &e->answer, c->err);
    if (!rc)
        rc = tell_raises(&e->answer, c->arena);
    forget_speed(&e->question, &e->answer);
    if (e->model.generic)
        widen(&e->answer);
    if (!rc)
        rc = look_inside(e, &scratch);
    if (!rc && !e->shape->snapshot)
        rc = around_take(e, &scratch);
    c->arena->end = scratch.end;
    if (!rc && !e->shape->snapshot)
        rc = take_inventory(e);
    if (rc || e->shape->snapshot)
        return model_blame(&e->model, rc, c->err);
    note_partial(e);
    model_compare_count(&e->model, e->inventory.base_parameters, &e->warnings);
    if (first_modelled(&e->answer))
        assume_answer(e, first_modelled(&e->answer));
    idle_say(e);
    resolve_request(e);
    return answer_write(e);
}

enum err_code estimate_answer(struct call *c, const struct shape *shape, const struct notes *noted)
{
    struct estimate *e = arena_new(c->arena, struct estimate);
    enum err_code rc;

    if (!e)
        return err_set(c->err, ERR_NOMEM, "", "no room for the request");
    e->call = c;
    e->work_began = c->arena->budget->events;
    e->work_limit = c->arena->budget->limit_events - e->work_began;
    e->shape = shape;
    e->warnings.arena = e->assumptions.arena = c->arena;
    left_out_init(&e->left_out, c->arena, shape->strict == TRI_TRUE);
    e->left_out.by_query = !strcmp(c->rq->method, "GET");
    for (uint32_t i = 0; noted && i < noted->n; i++)
        note(&e->warnings, "%s", noted->v[i]);
    rc = estimate(e);
    json_free(e->model.owned);
    for (size_t i = 0; i < sizeof e->owned / sizeof *e->owned; i++)
        json_free(e->owned[i]);
    return rc;
}
