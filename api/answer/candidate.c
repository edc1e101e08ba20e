/* One candidate of an answer, written out. Members and their order: openapi.yaml. */
#include "api/answer/estimate.h"

#include "parallel/nccl.h"

#include <string.h>

static void write_reason(struct jsonw *w, const struct estimate *e, const struct plan_reason *r)
{
    if (!r->code)
        return;
    jsonw_object(w, "reason");
    jsonw_str(w, "code", r->code);
    jsonw_str(w, "detail", r->detail);
    if (r->file && r->construct) {
        jsonw_str(w, "file", r->file);
        jsonw_u64(w, "line", r->line);
        jsonw_str(w, "construct", r->construct);
    }
    change_write(w, "nearest", e, &r->nearest);
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
    for (int p = PHASE_BATCH; p < PHASES_OF_A_STEP; p++)
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

/* What only a replay on the allocator's model can tell. */
static void write_replayed(struct jsonw *w, const struct estimate *e, const struct plan_candidate *c, uint64_t allocated)
{
    const struct measured *m = &c->memory;

    jsonw_u64(w, "peak_reserved_bytes", measured_reserved(m, e->question.expandable_segments));
    jsonw_u64(w, "peak_reserved_expandable_bytes", measured_reserved(m, true));
    jsonw_u64(w, "device_bytes", c->device_bytes);
    write_breakdown(w, m, allocated);
    write_largest(w, m);
}

/* Of ZeRO-3 over several GPUs blocks wait for other streams, by how far the GPU lags behind the host: as the clocks tell; where nothing says how fast
 * the GPU is, midway between never and always. */
static uint64_t active_of(const struct plan_candidate *c, bool expandable)
{
    const struct measured *m = &c->memory;
    uint64_t never = expandable ? m->peak_active_expandable_bytes : m->peak_active_bytes;
    uint64_t always = expandable ? m->peak_active_lagging_expandable_bytes : m->peak_active_lagging_bytes;

    if (c->basis != BASIS_REPLAYED || c->step.r.method != METHOD_ZERO3 || !m->crossed)
        return never;
    if (m->timed)
        return expandable ? m->peak_active_timed_expandable_bytes : m->peak_active_timed_bytes;
    return always > never ? never + (always - never) / 2 : never;
}

static void write_memory(struct jsonw *w, const struct estimate *e, const struct plan_candidate *c)
{
    const struct plan_question *q = &e->question;
    const struct measured *m = &c->memory;
    bool replayed = c->basis == BASIS_REPLAYED;
    bool expandable = replayed && q->expandable_segments;
    uint64_t allocated = expandable ? m->peak_allocated_expandable_bytes : m->peak_allocated_bytes;

    jsonw_object(w, "memory");
    jsonw_u64(w, "peak_allocated_bytes", allocated);
    jsonw_u64(w, "peak_active_bytes", active_of(c, expandable));
    if (replayed)
        write_replayed(w, e, c, allocated);
    jsonw_u64(w, "capacity_bytes", q->capacity_bytes);
    jsonw_u64(w, "static_bytes", m->static_bytes);
    jsonw_u64(w, "resting_bytes", m->resting_bytes);
    jsonw_str(w, "basis", e->model.generic ? "generic" : recipe_is_a_range(&c->step.r) ? "range" : replayed ? "replayed" : "bounded");
    jsonw_u64(w, "low_bytes", c->low_bytes);
    jsonw_u64(w, "high_bytes", c->high_bytes);
    jsonw_str(w, "peak_phase", phase_name(m->peak_phase));
    jsonw_u64(w, "worst_rank", c->memory.worst_rank);
    jsonw_u64(w, "context_bytes", q->device.context_bytes);
    jsonw_u64(w, "nccl_bytes", nccl_bytes_of(c->step.r.data_parallel, c->step.r.tensor_parallel, c->step.r.pipeline_parallel));
    write_phases(w, m);
    jsonw_u64(w, "host_bytes_per_node", c->host_bytes_per_node);
    around_write(w, e, c);
    jsonw_end(w);
}

static void write_seconds(struct jsonw *w, const char *name, double s)
{
    jsonw_fixed(w, name, s, 6);
}

static void write_throughput(struct jsonw *w, const struct step_time *t)
{
    if (t->tokens_per_s <= 0)
        return;
    jsonw_object(w, "throughput");
    write_seconds(w, "step_s", t->step_s);
    jsonw_fixed(w, "samples_per_s", t->samples_per_s, 4);
    jsonw_fixed(w, "tokens_per_s", t->tokens_per_s, 1);
    jsonw_fixed(w, "mfu", t->mfu, 4);
    jsonw_object(w, "breakdown_s");
    write_seconds(w, "compute", t->compute_s);
    write_seconds(w, "communication_exposed", t->communication_exposed_s);
    write_seconds(w, "optimizer", t->optimizer_s);
    write_seconds(w, "offload", t->offload_s);
    write_seconds(w, "bubble", t->bubble_s);
    jsonw_end(w);
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

/* The axes of a measured candidate are its step's; of another, what was asked. */
static void write_choices(struct jsonw *w, const struct plan_question *q, const struct plan_candidate *c)
{
    const struct recipe *r = &c->step.r;

    jsonw_str(w, "method", c->choice[AXIS_METHOD]->name);
    jsonw_str(w, "tuning", c->choice[AXIS_TUNING]->name);
    if (c->modelled || q->axes[AXIS_CHECKPOINTING].asked)
        write_word(w, "gradient_checkpointing", c->choice[AXIS_CHECKPOINTING]->name);
    jsonw_str(w, "offload", c->choice[AXIS_OFFLOAD]->name);
    write_word(w, "precision", c->modelled ? word_named(precision_words, (int)r->precision) : c->choice[AXIS_PRECISION]->name);
    write_word(w, "optimizer", c->modelled ? word_named(optimizer_words, (int)r->optimizer) : c->choice[AXIS_OPTIMIZER]->name);
    write_word(w, "attention", c->modelled ? word_named(attention_words, (int)r->attention) : c->choice[AXIS_ATTENTION]->name);
    jsonw_str(w, "loss", c->choice[AXIS_LOSS]->name);
}

static void write_degrees(struct jsonw *w, const struct recipe *r)
{
    jsonw_u64(w, "data_parallel", r->data_parallel);
    jsonw_u64(w, "tensor_parallel", r->tensor_parallel);
    jsonw_u64(w, "pipeline_parallel", r->pipeline_parallel);
    jsonw_u64(w, "context_parallel", 1);
    jsonw_u64(w, "expert_parallel", 1);
}

void candidate_write(struct jsonw *w, const char *name, const struct estimate *e, const struct plan_candidate *c)
{
    jsonw_object(w, name);
    if (c->modelled)
        jsonw_bool(w, "fits", c->fits);
    else
        jsonw_null(w, "fits");
    if (c->modelled && c->tight)
        jsonw_bool(w, "tight", true);
    if (c->modelled)
        jsonw_bool(w, "launchable", c->launchable);
    if (c->modelled && c->dominated)
        jsonw_bool(w, "dominated", true);
    write_choices(w, &e->question, c);
    if (c->modelled) {
        write_degrees(w, &c->step.r);
        jsonw_u64(w, "micro_batch_size", c->step.r.micro_batch_size);
        if (e->question.largest || !e->question.recipe.micro_batch_size)
            jsonw_u64(w, "max_micro_batch_size", c->max_micro_batch_size);
        if (c->max_seq_len_tokens)
            jsonw_u64(w, "max_seq_len", c->max_seq_len_tokens);
        jsonw_u64(w, "gradient_accumulation_steps", c->step.r.gradient_accumulation_steps);
        jsonw_u64(w, "global_batch_size", c->global_batch_size);
        jsonw_bool(w, "sync_each_batch", c->step.r.sync_each_batch == TRI_TRUE);
        write_memory(w, e, c);
        write_throughput(w, &c->time);
    }
    if (!c->modelled && e->question.recipe.micro_batch_size)
        jsonw_u64(w, "micro_batch_size", e->question.recipe.micro_batch_size);
    baseline_write_figures(w, e, c->choice[AXIS_METHOD]->name);
    write_reason(w, e, &c->reason);
    candidate_launch(w, e, c, name != NULL);
    jsonw_end(w);
}
