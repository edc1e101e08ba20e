/* An answered question, written out. Members and their order: openapi.yaml. */
#include "api/estimate.h"

#include <string.h>

static void write_nearest(struct jsonw *w, const struct plan_nearest *n)
{
    if (!n->tuning && !n->gradient_checkpointing && !n->micro_batch_size)
        return;
    jsonw_object(w, "nearest");
    if (n->tuning)
        jsonw_str(w, "tuning", n->tuning);
    if (n->gradient_checkpointing)
        jsonw_bool(w, "gradient_checkpointing", n->gradient_checkpointing == TRI_TRUE);
    if (n->micro_batch_size)
        jsonw_u64(w, "micro_batch_size", n->micro_batch_size);
    jsonw_end(w);
}

static void write_reason(struct jsonw *w, const struct plan_reason *r)
{
    if (!r->code)
        return;
    jsonw_object(w, "reason");
    jsonw_str(w, "code", r->code);
    jsonw_str(w, "detail", r->detail);
    write_nearest(w, &r->nearest);
    jsonw_end(w);
}

static void write_largest(struct jsonw *w, const struct measured *m)
{
    jsonw_array(w, "largest");
    for (uint32_t i = 0; i < m->n_largest; i++) {
        const struct largest *l = &m->largest[i];

        jsonw_object(w, NULL);
        jsonw_str(w, "op", l->op);
        jsonw_str(w, "category", category_name(l->category));
        jsonw_str(w, "phase", l->phase);
        jsonw_str(w, "module", l->module);
        jsonw_u64(w, "bytes_each", l->bytes_each);
        jsonw_u64(w, "count", l->count);
        jsonw_u64(w, "bytes", l->bytes_each * l->count);
        jsonw_end(w);
    }
    jsonw_end(w);
}

static void write_phases(struct jsonw *w, const struct measured *m)
{
    jsonw_object(w, "phase_peaks_bytes");
    for (int p = PHASE_BATCH; p < PHASE_COUNT; p++)
        jsonw_u64(w, phase_name((enum phase)p), m->phase_peaks_bytes[p]);
    jsonw_end(w);
}

/* Expandable segments split every block: of the same tensors only what could not be split off differs. */
static void write_breakdown(struct jsonw *w, const struct measured *m, uint64_t allocated)
{
    uint64_t tensors = 0;

    for (int c = 0; c < CATEGORY_BLOCK_SLACK; c++)
        tensors += m->breakdown_bytes[c];
    jsonw_object(w, "breakdown_bytes");
    for (int c = 0; c < CATEGORY_BLOCK_SLACK; c++)
        jsonw_u64(w, category_name((enum category)c), m->breakdown_bytes[c]);
    jsonw_u64(w, category_name(CATEGORY_BLOCK_SLACK), allocated > tensors ? allocated - tensors : 0);
    jsonw_end(w);
}

/* low and high differ only when two modelled stacks answer: the replay itself is exact. */
static void write_memory(struct jsonw *w, const struct estimate *e, const struct plan_candidate *c)
{
    const struct plan_question *q = &e->question;
    const struct measured *m = &c->memory;
    uint64_t allocated = q->expandable_segments ? m->peak_allocated_expandable_bytes : m->peak_allocated_bytes;

    jsonw_object(w, "memory");
    jsonw_u64(w, "peak_allocated_bytes", allocated);
    jsonw_u64(w, "peak_active_bytes", allocated); /* one stream: nothing waits on another */
    jsonw_u64(w, "peak_reserved_bytes", q->expandable_segments ? m->peak_reserved_expandable_bytes : m->peak_reserved_bytes);
    jsonw_u64(w, "peak_reserved_expandable_bytes", m->peak_reserved_expandable_bytes);
    jsonw_u64(w, "device_bytes", c->device_bytes);
    jsonw_u64(w, "capacity_bytes", q->capacity_bytes);
    jsonw_u64(w, "static_bytes", m->static_bytes);
    jsonw_u64(w, "resting_bytes", m->resting_bytes);
    jsonw_str(w, "basis", "replayed");
    jsonw_u64(w, "low_bytes", c->low_bytes);
    jsonw_u64(w, "high_bytes", c->high_bytes);
    jsonw_str(w, "peak_phase", phase_name(m->peak_phase));
    jsonw_u64(w, "worst_rank", 0);
    write_breakdown(w, m, allocated);
    jsonw_u64(w, "context_bytes", q->device.context_bytes);
    jsonw_u64(w, "nccl_bytes", 0);
    write_largest(w, m);
    write_phases(w, m);
    jsonw_u64(w, "host_bytes_per_node", 0);
    jsonw_end(w);
}

static void write_word(struct jsonw *w, const char *name, const char *word)
{
    if (!word)
        return;
    if (!strcmp(word, "true") || !strcmp(word, "false"))
        jsonw_bool(w, name, word[0] == 't');
    else
        jsonw_str(w, name, word);
}

static const char *name_of(const struct word *words, int value)
{
    for (; words->name; words++)
        if (words->value == value)
            return words->name;
    return NULL;
}

/* The axes of a measured candidate are its step's; of another, what was asked. */
static void write_choices(struct jsonw *w, const struct plan_question *q, const struct plan_candidate *c)
{
    const struct recipe *r = &c->step.r;

    jsonw_str(w, "method", c->choice[AXIS_METHOD]->name);
    jsonw_str(w, "tuning", c->choice[AXIS_TUNING]->name);
    if (c->modelled || q->axes[AXIS_CHECKPOINTING].asked)
        write_word(w, "gradient_checkpointing", c->choice[AXIS_CHECKPOINTING]->name);
    jsonw_str(w, "offload", c->choice[AXIS_OFFLOAD]->name);
    write_word(w, "precision", c->modelled ? name_of(precision_words, (int)r->precision) : c->choice[AXIS_PRECISION]->name);
    write_word(w, "optimizer", c->modelled ? name_of(optimizer_words, (int)r->optimizer) : c->choice[AXIS_OPTIMIZER]->name);
    write_word(w, "attention", c->modelled ? name_of(attention_words, (int)r->attention) : c->choice[AXIS_ATTENTION]->name);
    jsonw_str(w, "loss", c->choice[AXIS_LOSS]->name);
}

static void write_degrees(struct jsonw *w)
{
    static const char *const names[] = {"data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        jsonw_u64(w, names[i], 1);
}

static void write_candidate(struct jsonw *w, const char *name, const struct estimate *e, const struct plan_candidate *c)
{
    jsonw_object(w, name);
    if (c->modelled)
        jsonw_bool(w, "fits", c->fits);
    else
        jsonw_null(w, "fits");
    if (c->modelled && c->tight)
        jsonw_bool(w, "tight", true);
    write_choices(w, &e->question, c);
    if (c->modelled) {
        write_degrees(w);
        jsonw_u64(w, "micro_batch_size", c->step.r.micro_batch_size);
        jsonw_u64(w, "max_micro_batch_size", c->max_micro_batch_size);
        jsonw_u64(w, "gradient_accumulation_steps", c->step.r.gradient_accumulation_steps);
        jsonw_u64(w, "global_batch_size", c->global_batch_size);
        write_memory(w, e, c);
    }
    write_reason(w, &c->reason);
    jsonw_end(w);
}

static void write_head(struct jsonw *w, const struct estimate *e)
{
    const struct plan_answer *a = &e->answer;

    if (a->any_modelled)
        jsonw_bool(w, "fits", a->any_fits);
    else
        jsonw_null(w, "fits");
    if (a->any_fits) {
        jsonw_str(w, "method", a->candidates[0].choice[AXIS_METHOD]->name);
        jsonw_u64(w, "micro_batch_size", a->candidates[0].step.r.micro_batch_size);
        write_candidate(w, "recommendation", e, &a->candidates[0]);
    } else {
        jsonw_null(w, "method");
        jsonw_null(w, "micro_batch_size");
        jsonw_null(w, "recommendation");
    }
    jsonw_array(w, "candidates");
    for (uint32_t i = 0; i < a->n && i < e->shape->top.whole; i++)
        write_candidate(w, NULL, e, &a->candidates[i]);
    jsonw_end(w);
    jsonw_u64(w, "candidates_total", a->n);
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
    c->ret->fits = e->answer.any_fits;
    c->ret->modelled = e->answer.any_modelled;
    return finish_json(c, &w);
}
