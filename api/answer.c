/* An answered question, written out. Members and their order: openapi.yaml. */
#include "api/estimate.h"

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

/* Where the request names LLMem's methods alone, Algorithm 1 recommends. */
static void write_head(struct jsonw *w, const struct estimate *e)
{
    const struct plan_answer *a = &e->answer;
    bool theirs = e->has_baseline && baseline_only(&e->rq);

    if (theirs)
        jsonw_bool(w, "fits", e->baseline.method != LLMEM_OFFLOAD);
    else if (a->any_modelled)
        jsonw_bool(w, "fits", a->any_fits);
    else
        jsonw_null(w, "fits");
    if (theirs)
        baseline_write_recommendation(w, e);
    else
        write_recommendation(w, e);
    jsonw_array(w, "candidates");
    for (uint32_t i = 0; i < a->n && i < e->shape->top.whole; i++)
        candidate_write(w, NULL, e, &a->candidates[i]);
    baseline_write_candidates(w, e);
    jsonw_end(w);
    jsonw_u64(w, "candidates_total", a->n);
    baseline_write(w, e);
}

/* Parameters of the module that owns most of its own: what DeepSpeed's estimator calls the largest layer. */
static uint64_t largest_layer(const struct inventory *inv)
{
    uint64_t largest = 0, sum = 0;
    const char *module = "";
    size_t module_bytes = 0;

    for (uint32_t i = 0; i < inv->n; i++) {
        const struct tensor_info *t = &inv->rows[i];
        const char *dot = strrchr(t->name, '.');
        size_t n = dot ? (size_t)(dot - t->name) : 0;

        if (t->buffer || t->tied_to)
            continue;
        sum = n == module_bytes && !strncmp(t->name, module, n) ? sum + t->elems : t->elems;
        module = t->name;
        module_bytes = n;
        if (sum > largest)
            largest = sum;
    }
    return largest;
}

/* What people multiply by, beside the figures above: weights x 1.2, 16-bit weights x 5, DeepSpeed's states-only estimator
 * (stage3.py, estimate_zero3_model_states_mem_needs: 4 x largest layer + 18 x parameters / GPUs). */
static void write_rules(struct jsonw *w, const struct estimate *e)
{
    const struct inventory *inv = &e->inventory;
    uint64_t half = 2 * inv->base_parameters, gpus = request_gpus(&e->rq);

    if (!inv->n)
        return;
    jsonw_object(w, "rules_of_thumb");
    jsonw_u64(w, "inference_x1.2_bytes", half + half / 5);
    jsonw_u64(w, "finetune_x5_bytes", half * 5);
    jsonw_u64(w, "deepspeed_zero3_estimator_bytes", 4 * largest_layer(inv) + 18 * inv->base_parameters / gpus);
    jsonw_end(w);
}

static void write_model(struct jsonw *w, const struct estimate *e)
{
    jsonw_object(w, "model");
    model_write_origin(w, &e->model);
    if (e->inventory.n) {
        jsonw_u64(w, "parameters", e->inventory.base_parameters);
        jsonw_u64(w, "trainable_parameters", e->inventory.trainable_parameters);
        jsonw_u64(w, "tensors", e->inventory.tensors);
    }
    jsonw_end(w);
}

static void write_notes(struct jsonw *w, const char *name, const struct notes *notes)
{
    jsonw_array(w, name);
    for (uint32_t i = 0; i < notes->n; i++)
        jsonw_str(w, NULL, notes->v[i]);
    jsonw_end(w);
}

enum err_code answer_write(struct estimate *e)
{
    struct call *c = e->call;
    struct buf out;
    struct jsonw w;

    begin_json(c, &out, &w);
    jsonw_object(&w, NULL);
    write_head(&w, e);
    write_rules(&w, e);
    write_model(&w, e);
    jsonw_object(&w, "resolved");
    encode_members(&w, estimate_members, &e->rq);
    jsonw_end(&w);
    write_notes(&w, "assumptions", &e->assumptions);
    write_notes(&w, "warnings", &e->warnings);
    jsonw_end(&w);
    c->ret->fits = e->answer.any_fits || (e->has_baseline && baseline_only(&e->rq) && e->baseline.method != LLMEM_OFFLOAD);
    c->ret->modelled = e->answer.any_modelled || (e->has_baseline && baseline_only(&e->rq));
    return finish_json(c, &w);
}
