/* An answered question, written out. Members and their order: openapi.yaml. */
#include "api/answer/estimate.h"

#include <string.h>

static void write_recommendation(struct jsonw *w, const struct estimate *e)
{
    const struct plan_candidate *first = e->answer.candidates;

    if (e->answer.any_fits) {
        jsonw_str(w, "method", first->choice[AXIS_METHOD]->name);
        jsonw_u64(w, "micro_batch_size", first->step.r.micro_batch_size);
        candidate_write(w, "recommendation", e, first);
        return;
    }
    jsonw_null(w, "method");
    jsonw_null(w, "micro_batch_size");
    jsonw_null(w, "recommendation");
}

static bool is_decided(const struct plan_answer *a)
{
    return (a->any_modelled || a->any_beyond) && (a->any_fits || plan_saw_all(a));
}

static void write_head(struct jsonw *w, const struct estimate *e)
{
    const struct plan_answer *a = &e->answer;

    if (is_decided(a))
        jsonw_bool(w, "fits", a->any_fits);
    else
        jsonw_null(w, "fits");
    jsonw_str(w, "summary", e->summary);
    if (baseline_only(&e->rq) && is_decided(a) && !a->any_fits)
        baseline_write_offload(w);
    else
        write_recommendation(w, e);
    advice_write(w, e);
    jsonw_array(w, "candidates");
    for (uint32_t i = 0; i < a->n && i < e->shape->top.whole; i++)
        candidate_write(w, NULL, e, &a->candidates[i]);
    jsonw_end(w);
    jsonw_u64(w, "candidates_total", a->n);
    baseline_write(w, e);
}

void model_write(struct jsonw *w, const struct estimate *e)
{
    jsonw_object(w, "model");
    model_write_origin(w, &e->model, &e->stack);
    if (e->inventory.n) {
        jsonw_u64(w, "parameters", e->inventory.base_parameters);
        jsonw_u64(w, "trainable_parameters", e->inventory.trainable_parameters);
        jsonw_u64(w, "tensors", e->inventory.tensors);
    } else if (e->model.counted_parameters) {
        jsonw_u64(w, "parameters", e->model.counted_parameters);
    }
    jsonw_end(w);
}

void work_write(struct jsonw *w, const struct estimate *e)
{
    jsonw_object(w, "work");
    jsonw_u64(w, "events", e->call->arena->budget->events - e->work_began);
    jsonw_u64(w, "budget", e->work_limit);
    jsonw_end(w);
}

enum err_code answer_write(struct estimate *e)
{
    struct call *c = e->call;
    struct buf out;
    struct jsonw w;

    e->summary = summary_of(e);
    if (!e->summary)
        return err_set(c->err, ERR_NOMEM, "", "no room for the answer");
    begin_json(c, &out, &w);
    jsonw_object(&w, NULL);
    write_head(&w, e);
    rules_write(&w, e);
    model_write(&w, e);
    jsonw_object(&w, "resolved");
    encode_members(&w, estimate_members, &e->rq);
    jsonw_end(&w);
    timeline_write(&w, e);
    work_write(&w, e);
    gaps_write(&w, e);
    notes_write(&w, "assumptions", &e->assumptions);
    notes_write(&w, "warnings", &e->warnings);
    jsonw_end(&w);
    c->ret->fits = e->answer.any_fits;
    c->ret->modelled = is_decided(&e->answer);
    return finish_json(c, &w);
}
