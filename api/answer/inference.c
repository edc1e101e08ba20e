/* Workload inference: the question, and its answer written out. Members and their order: openapi.yaml. */
#include "api/answer/estimate.h"

#include "plan/inference.h"

#include <stdio.h>
#include <string.h>

enum { PROMPT_TOKENS = 1024, NEW_TOKENS = 1024, SUMMARY_MAX = 480, FORMS = 3 };

struct inferring {
    struct estimate *e;
    struct inference_question q;
    struct inference_weights weights[FORMS];
    struct inference_answer answer;
};

bool asks_inference(const struct estimate_request *rq)
{
    return rq->workload.n && workload_words[rq->workload.at[0]].value == WORKLOAD_INFERENCE;
}

/* --- the question ----------------------------------------------------------------------------------------------------------------- */
static enum precision cast_of(const struct estimate *e, int weights)
{
    static const enum precision asked[] = {[WEIGHTS_BF16] = PRECISION_BF16, [WEIGHTS_FP16] = PRECISION_FP16, [WEIGHTS_FP32] = PRECISION_FP32};

    if (weights <= WEIGHTS_FP32)
        return asked[weights];
    return e->question.device.cc_major < 8 || (e->model.has_program && e->model.arch.saved == SAVED_FP16) ? PRECISION_FP16 : PRECISION_BF16;
}

static struct inference_weights form(const struct estimate *e, int value)
{
    static const enum kbit kbits[WEIGHTS_COUNT] = {
        [WEIGHTS_INT8] = KBIT_INT8, [WEIGHTS_NF4] = KBIT_NF4, [WEIGHTS_NF4_DQ] = KBIT_NF4_DQ, [WEIGHTS_FP4] = KBIT_FP4};
    static const enum packing packings[WEIGHTS_COUNT] = {
        [WEIGHTS_GPTQ4] = PACKING_GPTQ4, [WEIGHTS_GPTQ8] = PACKING_GPTQ8, [WEIGHTS_AWQ4] = PACKING_AWQ4, [WEIGHTS_FP8] = PACKING_FP8};
    const char *name = word_named(weights_words, value);
    struct inference_weights w = {.name = name};
    uint32_t group;

    if (value == WORD_UNMODELLED)
        return w;
    w.cast = value == WEIGHTS_AWQ4 ? PRECISION_FP16 : cast_of(e, value); /* AWQ: whatever is asked, quantizer_awq.py */
    w.kbit = kbits[value];
    w.packed = (struct packed_options){.kind = packings[value], .group = PACKED_GROUP};
    if (w.packed.kind && checkpoint_weights(e->model.config, &group) == value) {
        w.packed.group = group;
        w.packed.left_alone = json_get(json_get(e->model.config, "quantization_config"), "modules_to_not_convert");
    }
    return w;
}

static bool saved_in_half(const struct estimate *e)
{
    return e->model.has_program && e->model.arch.saved != SAVED_FP32 && e->model.arch.saved != SAVED_ABSENT;
}

/* As asked; else as the checkpoint is packed, or as they are saved, in half where they are saved in full, and by bitsandbytes in 8 and in 4 bits. */
static void take_weights(struct inferring *i)
{
    struct estimate *e = i->e;
    const struct words *asked = &e->rq.inference.weights;
    bool half = cast_of(e, WEIGHTS_NF4) == PRECISION_FP16;
    uint32_t group;
    int packed = checkpoint_weights(e->model.config, &group);

    i->q.weights = i->weights;
    i->q.asked = asked->n > 0;
    i->q.n_weights = asked->n || packed >= 0 ? 1 : FORMS;
    if (asked->n) {
        i->weights[0] = form(e, weights_words[asked->at[0]].value);
        i->weights[0].name = weights_words[asked->at[0]].name;
        return;
    }
    if (packed >= 0) {
        i->weights[0] = form(e, packed);
        note_of(&e->assumptions, NOTE_OF_YOURS, "inference.weights %s: the checkpoint's quantization_config", i->weights[0].name);
        return;
    }
    i->weights[0] = form(e, half ? WEIGHTS_FP16 : WEIGHTS_BF16);
    i->weights[1] = form(e, WEIGHTS_INT8);
    i->weights[2] = form(e, WEIGHTS_NF4);
    note_of(&e->assumptions, NOTE_OF_YOURS, "inference.weights %s, int8 and nf4 are compared: left out%s", i->weights[0].name,
            saved_in_half(e) ? "" : " (the model is saved in fp32 or does not say)");
}

static uint32_t tokens_or(struct estimate *e, struct quantity *q, const char *name, uint32_t otherwise)
{
    if (!q->set) {
        *q = (struct quantity){.set = true, .whole = otherwise, .real = otherwise};
        note_of(&e->assumptions, NOTE_OF_YOURS, "inference.%s %u: left out", name, otherwise);
    }
    return (uint32_t)q->whole;
}

/* A table of positions bounds what is left out; what is asked beyond it is refused where it is played. */
static void take_lengths(struct inferring *i)
{
    struct estimate *e = i->e;
    struct inference_request *r = &e->rq.inference;
    uint32_t most = e->model.has_program ? e->model.arch.max_positions : 0, prompt = PROMPT_TOKENS, made = NEW_TOKENS;

    if (most && most < prompt + made)
        prompt = made = most / 2;
    if (!r->prompt_tokens.set && r->new_tokens.set && most > r->new_tokens.whole && most - r->new_tokens.whole < prompt)
        prompt = (uint32_t)(most - r->new_tokens.whole);
    if (!r->new_tokens.set && r->prompt_tokens.set && most > r->prompt_tokens.whole && most - r->prompt_tokens.whole < made)
        made = (uint32_t)(most - r->prompt_tokens.whole);
    i->q.prompt_tokens = tokens_or(e, &r->prompt_tokens, "prompt_tokens", prompt);
    i->q.new_tokens = tokens_or(e, &r->new_tokens, "new_tokens", made);
    i->q.batch_size = tokens_or(e, &r->batch_size, "batch_size", 1);
    if (most && (uint64_t)i->q.prompt_tokens + i->q.new_tokens > most)
        note(&e->warnings, "/inference: %u and %u tokens are beyond the %u positions that this model was made for (max_position_embeddings)",
             i->q.prompt_tokens, i->q.new_tokens, most);
}

/* What a training step has and a generation has not. */
static void warn_of_training(struct estimate *e)
{
    bool other = e->rq.training.methods.n > 0;

    for (const struct member *m = training_members; m->key && !other; m++)
        other = m->kind != KIND_OWN && strcmp(m->key, "attention") != 0 && strcmp(m->key, "padded") != 0 && !(m->list && !m->min) &&
                member_is_set(m, (const char *)&e->rq.training + m->at);
    if (other)
        note(&e->warnings, "/training: of its members only attention and padded are read where the workload is inference");
    if (e->question.gpus > 1)
        note(&e->warnings, "one of the %u GPUs is used: generate() over several (device_map, tensor parallelism) is not modelled yet", e->question.gpus);
    if (e->rq.inference.gpu_memory_utilization.set)
        note(&e->warnings, "/inference/gpu_memory_utilization is vLLM's: generate() takes what it needs");
}

static const char *release_gap(struct estimate *e)
{
    char text[160];

    if (quirks_of(&e->stack).generate_asks_last)
        return NULL;
    (void)snprintf(text, sizeof text, "generate() of transformers %s, which makes logits of the whole prompt, is not modelled yet: 4.45 or newer",
                   release_text(e->stack.transformers).text);
    return arena_str(e->call->arena, text, strlen(text));
}

static enum err_code build(struct inferring *i)
{
    struct estimate *e = i->e;
    struct inference_question *q = &i->q;
    const struct words *compute = &e->rq.inference.compute_dtype, *attention = &e->rq.training.attention;
    static const enum dtype dtypes[] = {DTYPE_BF16, DTYPE_FP16, DTYPE_FP32};
    enum err_code rc = cluster_read(e);

    if (!rc)
        rc = question_gap(e, &q->gap);
    if (rc)
        return rc;
    if (!q->gap)
        q->gap = release_gap(e);
    q->arch = e->model.has_program ? &e->model.arch : NULL;
    q->stack = e->stack;
    q->device = e->question.device;
    q->system = e->question.system;
    q->capacity_bytes = e->question.capacity_bytes;
    q->margin = e->rq.margin.real;
    q->expandable_segments = e->rq.allocator.expandable_segments == TRI_TRUE;
    q->padded = e->rq.training.padded == TRI_TRUE;
    q->attention = attention->n ? (enum attention)attention_words[attention->at[0]].value : ATTENTION_UNSET;
    q->compute = compute->n ? dtypes[compute->at[0]] : DTYPE_COUNT;
    take_weights(i);
    take_lengths(i);
    warn_of_training(e);
    return left_out_check(&e->left_out, e->call->err);
}

/* --- the answer ------------------------------------------------------------------------------------------------------------------- */
/* Of a step's categories those that a generation has; a breakdown sums to the peak of generating. */
static void write_breakdown(struct jsonw *w, const struct generated *m)
{
    const uint64_t *b = m->breakdown_bytes;

    jsonw_object(w, "breakdown_bytes");
    jsonw_u64(w, "weights", b[CATEGORY_PARAMETERS] + b[CATEGORY_BUFFERS]);
    jsonw_u64(w, "kv_cache", b[CATEGORY_KV_CACHE]);
    jsonw_u64(w, "activations", b[CATEGORY_ACTIVATIONS] + b[CATEGORY_TEMPORARIES]);
    jsonw_u64(w, "logits", b[CATEGORY_LOGITS_AND_LOSS]);
    jsonw_u64(w, "workspaces", b[CATEGORY_WORKSPACES]);
    jsonw_u64(w, "inputs", b[CATEGORY_INPUTS]);
    jsonw_u64(w, "block_slack", b[CATEGORY_BLOCK_SLACK]);
    jsonw_end(w);
}

static void write_memory(struct jsonw *w, const struct inferring *i, const struct inference_candidate *c)
{
    const struct generated *m = &c->memory;

    jsonw_object(w, "memory");
    jsonw_u64(w, "peak_allocated_bytes", m->peak_allocated_bytes);
    jsonw_u64(w, "peak_active_bytes", m->peak_allocated_bytes);
    jsonw_u64(w, "peak_reserved_bytes", i->q.expandable_segments ? m->peak_reserved_expandable_bytes : m->peak_reserved_bytes);
    jsonw_u64(w, "peak_reserved_expandable_bytes", m->peak_reserved_expandable_bytes);
    jsonw_u64(w, "device_bytes", c->device_bytes);
    write_breakdown(w, m);
    jsonw_u64(w, "capacity_bytes", i->q.capacity_bytes);
    jsonw_u64(w, "static_bytes", m->static_bytes);
    jsonw_u64(w, "kv_cache_bytes", m->kv_cache_bytes);
    jsonw_str(w, "basis", m->replayed_in_full ? "replayed" : "bounded");
    jsonw_u64(w, "low_bytes", m->peak_allocated_bytes);
    jsonw_u64(w, "high_bytes", m->replayed_in_full ? m->peak_allocated_bytes : m->peak_reserved_bytes);
    jsonw_str(w, "peak_phase", m->peak_phase == PHASE_INIT ? "load" : phase_name(m->peak_phase));
    jsonw_u64(w, "context_bytes", i->q.device.context_bytes);
    jsonw_object(w, "phase_peaks_bytes");
    jsonw_u64(w, "load", m->loading_bytes);
    jsonw_u64(w, "prefill", m->prefill_bytes);
    jsonw_u64(w, "decode", m->decode_bytes);
    jsonw_end(w);
    jsonw_end(w);
}

static void write_throughput(struct jsonw *w, const struct inferring *i, const struct inference_candidate *c)
{
    double all = c->prefill_s + (i->q.new_tokens - 1) * c->token_s;

    if (c->tokens_per_s <= 0)
        return;
    jsonw_object(w, "throughput");
    jsonw_fixed(w, "step_s", all, 6);
    jsonw_fixed(w, "samples_per_s", i->q.batch_size / all, 4);
    jsonw_fixed(w, "tokens_per_s", c->tokens_per_s, 1);
    jsonw_fixed(w, "mfu", c->mfu, 4);
    jsonw_object(w, "breakdown_s");
    jsonw_fixed(w, "prefill", c->prefill_s, 6);
    jsonw_fixed(w, "decode", all - c->prefill_s, 6);
    jsonw_end(w);
    jsonw_fixed(w, "token_s", c->token_s, 6);
    jsonw_end(w);
}

static void write_reason(struct jsonw *w, const struct plan_reason *r)
{
    if (!r->code)
        return;
    jsonw_object(w, "reason");
    jsonw_str(w, "code", r->code);
    jsonw_str(w, "detail", r->detail);
    jsonw_end(w);
}

static void write_candidate(struct jsonw *w, const char *name, const struct inferring *i, const struct inference_candidate *c)
{
    jsonw_object(w, name);
    if (c->modelled)
        jsonw_bool(w, "fits", c->fits);
    else
        jsonw_null(w, "fits");
    if (c->modelled && c->tight)
        jsonw_bool(w, "tight", true);
    jsonw_str(w, "method", "single");
    jsonw_str(w, "engine", "transformers");
    jsonw_str(w, "weights", c->weights->name);
    if (c->modelled) {
        jsonw_str(w, "attention", word_named(attention_words, (int)c->step.r.attention));
        jsonw_u64(w, "batch_size", i->q.batch_size);
        if (c->largest_known) {
            jsonw_u64(w, "max_batch_size", c->max_batch_size);
            jsonw_u64(w, "max_context_tokens", c->max_context_tokens);
        }
        write_memory(w, i, c);
        write_throughput(w, i, c);
    }
    write_reason(w, &c->reason);
    jsonw_end(w);
}

static void say(struct buf *out, const struct inferring *i)
{
    const struct inference_candidate *c = i->answer.candidates;
    const struct inference_question *q = &i->q;

    if (!i->answer.any_modelled) {
        buf_str(out, "No answer: ");
        buf_str(out, c->reason.detail ? c->reason.detail : "nothing was asked that has a model");
        buf_char(out, '.');
        return;
    }
    buf_str(out, !c->fits ? "Does not fit: " : c->tight ? "Fits tightly: " : "Fits: ");
    buf_str(out, c->weights->name);
    buf_str(out, " weights, batch ");
    say_number(out, q->batch_size);
    buf_str(out, ", ");
    say_number(out, q->new_tokens);
    buf_str(out, " tokens behind a prompt of ");
    say_number(out, q->prompt_tokens);
    buf_str(out, c->fits ? ", " : ", needs ");
    say_gib(out, (double)c->device_bytes);
    buf_str(out, " of ");
    say_gib(out, (double)q->capacity_bytes);
    buf_str(out, " GiB on ");
    say_gpus(out, 1, gpu_in_words(i->e));
    if (c->fits && c->tokens_per_s > 0) {
        buf_str(out, ", ");
        say_number(out, c->tokens_per_s);
        buf_str(out, " tokens/s");
    }
    buf_char(out, '.');
    if (c->largest_known && c->max_batch_size && c->fits) {
        buf_str(out, " At most a batch of ");
        say_number(out, c->max_batch_size);
        if (c->max_context_tokens) {
            buf_str(out, ", or a context of ");
            say_number(out, (double)c->max_context_tokens);
            buf_str(out, " tokens");
        }
        buf_char(out, '.');
    }
}

static void write(struct jsonw *w, struct inferring *i)
{
    const struct inference_answer *a = &i->answer;
    struct estimate *e = i->e;

    jsonw_object(w, NULL);
    if (a->any_modelled)
        jsonw_bool(w, "fits", a->any_fits);
    else
        jsonw_null(w, "fits");
    jsonw_str(w, "summary", e->summary);
    if (a->any_fits) {
        jsonw_str(w, "method", "single");
        jsonw_u64(w, "micro_batch_size", i->q.batch_size);
        write_candidate(w, "recommendation", i, a->candidates);
    } else {
        jsonw_null(w, "method");
        jsonw_null(w, "micro_batch_size");
        jsonw_null(w, "recommendation");
    }
    jsonw_array(w, "advice"); /* other forms of the weights are candidates already */
    jsonw_end(w);
    jsonw_array(w, "candidates");
    for (uint32_t k = 0; k < a->n && k < e->shape->top.whole; k++)
        write_candidate(w, NULL, i, &a->candidates[k]);
    jsonw_end(w);
    jsonw_u64(w, "candidates_total", a->n);
    rules_write(w, e);
    model_write(w, e);
    jsonw_object(w, "resolved");
    encode_members(w, estimate_members, &e->rq);
    jsonw_end(w);
    work_write(w, e);
    gaps_write(w, e);
    notes_write(w, "assumptions", &e->assumptions);
    notes_write(w, "warnings", &e->warnings);
    jsonw_end(w);
}

static const char *kernels_of(const struct inference_candidate *c)
{
    const struct quirks *q = &c->step.quirks;
    enum packing kind = c->weights->packed.kind;

    if (kind == PACKING_AWQ4)
        return q->awq_by_gptqmodel ? "gptqmodel's Marlin" : "autoawq's kernels";
    return q->gptq_by_gptqmodel ? "gptqmodel's Marlin" : kind == PACKING_GPTQ4 ? "auto-gptq's exllama" : "auto-gptq's cuda-old";
}

static void assume_packed(struct notes *n, const struct inference_candidate *c)
{
    if (c->weights->packed.kind == PACKING_FP8)
        note_of(n, NOTE_OF_YOURS, "fp8: linears in blocks of %d x %d, their inputs quantised for each product; seconds are those of products in half",
                PACKED_BLOCK, PACKED_BLOCK);
    else
        note_of(n, NOTE_OF_YOURS, "%s: groups of %u rows, no act-order, products by %s: read from its host code, not traced", c->weights->name,
                c->weights->packed.group, kernels_of(c));
}

static void assume(struct inferring *i)
{
    struct notes *n = &i->e->assumptions;
    bool part = false;

    note_of(n, NOTE_OF_YOURS, "greedy search with a cache that grows: sampling, beams, static caches and torch.compile hold other temporaries");
    for (uint32_t k = 0; k < i->answer.n; k++)
        part |= i->answer.candidates[k].modelled && !i->answer.candidates[k].memory.replayed_in_full;
    if (part)
        note_of(n, NOTE_OF_INTERNALS,
                "basis bounded: of the tokens the first and the last were played on the allocator, not each between: reserved bytes are at least what is told");
    for (uint32_t k = 0; k < i->answer.n; k++)
        if (i->answer.candidates[k].modelled && i->answer.candidates[k].weights->packed.kind) {
            assume_packed(n, &i->answer.candidates[k]);
            break;
        }
    if (i->answer.any_modelled && i->q.system)
        note_of(n, NOTE_OF_YOURS, "tokens_per_s counts new tokens alone, the prompt's time included; constants were fitted on training steps");
}

enum err_code inference_answer(struct estimate *e)
{
    struct inferring *i = arena_new(e->call->arena, struct inferring);
    char text[SUMMARY_MAX];
    struct budget *budget = e->call->arena->budget;
    struct arena scratch;
    struct jsonw w;
    struct buf out;
    enum err_code rc;

    if (!i)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the request");
    if (e->shape->snapshot)
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "/workload",
                       "there is no step to take a snapshot of: a snapshot is of a training step, workload finetune");
    if (e->shape->timeline == TRI_TRUE)
        note(&e->warnings, "?timeline is of training steps: an answer about generating has none");
    i->e = e;
    rc = build(i);
    if (rc)
        return rc;
    scratch = scratch_of(e->call->arena);
    rc = plan_inference(&i->q, e->call->arena, &scratch, &i->answer, e->call->err);
    if (rc)
        return model_blame(&e->model, rc, e->call->err);
    e->call->arena->end = scratch.end;
    e->call->arena->budget = NULL; /* one declaration more, however little was left */
    for (uint32_t k = 0; k < i->answer.n && !e->inventory.n && !rc; k++)
        if (i->answer.candidates[k].modelled)
            rc = inventory_of(&e->model.arch, &i->answer.candidates[k].step, e->call->arena, &e->inventory, e->call->err);
    e->call->arena->budget = budget;
    if (rc)
        return rc;
    assume(i);
    resolve_inference(e, i->answer.n && i->answer.candidates->modelled ? i->answer.candidates->step.r.attention : ATTENTION_UNSET);
    buf_init_fixed(&out, text, sizeof text);
    say(&out, i);
    e->summary = arena_str(e->call->arena, buf_text(&out), strlen(buf_text(&out)));
    if (!e->summary)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the answer");
    begin_json(e->call, &out, &w);
    write(&w, i);
    e->call->ret->fits = i->answer.any_fits;
    e->call->ret->modelled = i->answer.any_modelled;
    return finish_json(e->call, &w);
}
