/* Workload inference: the answer written out. Members and their order: openapi.yaml. */
#include "api/answer/inference.h"

#include "parallel/nccl.h"

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
    bool generic = i->e->model.generic, range = i->q.on_host;

    jsonw_object(w, "memory");
    jsonw_u64(w, "peak_allocated_bytes", m->peak_allocated_bytes);
    jsonw_u64(w, "peak_active_bytes", m->peak_allocated_bytes);
    jsonw_u64(w, "peak_reserved_bytes", i->q.expandable_segments ? m->peak_reserved_expandable_bytes : m->peak_reserved_bytes);
    jsonw_u64(w, "peak_reserved_expandable_bytes", m->peak_reserved_expandable_bytes);
    jsonw_u64(w, "device_bytes", range ? 0 : c->device_bytes);
    if (range)
        jsonw_u64(w, "host_bytes_per_node", c->device_bytes);
    write_breakdown(w, m);
    jsonw_u64(w, "capacity_bytes", i->q.capacity_bytes);
    jsonw_u64(w, "static_bytes", m->static_bytes);
    jsonw_u64(w, "resting_bytes", m->resting_bytes);
    jsonw_u64(w, "kv_cache_bytes", m->kv_cache_bytes);
    jsonw_str(w, "basis", generic ? "generic" : range ? "range" : m->replayed_in_full ? "replayed" : "bounded");
    jsonw_u64(w, "low_bytes", generic ? m->peak_allocated_bytes / 100 * GENERIC_LOW_PERCENT : range ? m->resting_bytes : m->peak_allocated_bytes);
    jsonw_u64(w, "high_bytes",
              generic               ? m->peak_allocated_bytes / 100 * GENERIC_HIGH_PERCENT
              : m->replayed_in_full || range ? m->peak_allocated_bytes
                                    : m->peak_reserved_bytes);
    jsonw_str(w, "peak_phase", m->peak_phase == PHASE_INIT ? "load" : phase_name(m->peak_phase));
    jsonw_u64(w, "context_bytes", i->q.device.context_bytes);
    if (i->q.tensor_parallel > 1)
        jsonw_u64(w, "nccl_bytes", nccl_bytes(i->q.tensor_parallel));
    jsonw_object(w, "phase_peaks_bytes");
    jsonw_u64(w, "load", m->loading_bytes);
    jsonw_u64(w, "prefill", m->prefill_bytes);
    jsonw_u64(w, "decode", m->decode_bytes);
    jsonw_end(w);
    jsonw_end(w);
}

/* What vLLM shares out: what its start measures is a range, and `low` stands where one number is asked. */
static void write_pool(struct jsonw *w, const struct inferring *i, const struct inference_candidate *c)
{
    const struct vllm_answer *a = &c->vllm;
    uint64_t other = a->outside.high + a->graphs.high;

    jsonw_object(w, "memory");
    jsonw_u64(w, "peak_allocated_bytes", a->weights_bytes + a->pool.low + a->profile.high);
    jsonw_u64(w, "peak_reserved_bytes", a->weights_bytes + a->pool.low + a->profile.high);
    jsonw_u64(w, "device_bytes", c->device_bytes);
    jsonw_object(w, "breakdown_bytes");
    jsonw_u64(w, "weights", a->weights_bytes);
    jsonw_u64(w, "kv_cache", a->pool.low);
    jsonw_u64(w, "activations", a->profile.high);
    jsonw_end(w);
    jsonw_u64(w, "capacity_bytes", i->q.capacity_bytes);
    jsonw_u64(w, "static_bytes", a->weights_bytes);
    jsonw_u64(w, "kv_cache_bytes", a->pool.low);
    jsonw_str(w, "basis", "range");
    jsonw_u64(w, "low_bytes", a->weights_bytes + a->pool.low + a->profile.high);
    jsonw_u64(w, "high_bytes", a->requested_bytes > other ? a->requested_bytes : a->weights_bytes);
    jsonw_u64(w, "context_bytes", i->q.device.context_bytes);
    jsonw_end(w);
}

static void write_range(struct jsonw *w, const char *name, struct vllm_range r)
{
    jsonw_object(w, name);
    jsonw_u64(w, "low", r.low);
    jsonw_u64(w, "high", r.high);
    jsonw_end(w);
}

static double at_once(const struct vllm_answer *a, uint64_t blocks, uint64_t tokens)
{
    return (double)blocks / (double)vllm_blocks_of(a, tokens);
}

static void write_blocks(struct jsonw *w, const struct inference_candidate *c)
{
    const struct vllm_answer *a = &c->vllm;

    jsonw_object(w, "vllm");
    jsonw_str(w, "version", "0.33.0");
    jsonw_u64(w, "requested_bytes", a->requested_bytes);
    write_range(w, "profile_bytes", a->profile);
    write_range(w, "outside_torch_bytes", a->outside);
    write_range(w, "cuda_graph_bytes", a->graphs);
    write_range(w, "kv_pool_bytes", a->pool);
    write_range(w, "blocks", a->blocks);
    jsonw_u64(w, "bytes_per_block", a->bytes_per_block);
    jsonw_array(w, "groups");
    for (uint32_t k = 0; k < a->n_groups; k++) {
        jsonw_object(w, NULL);
        jsonw_u64(w, "block_size", a->group[k].block_tokens);
        jsonw_u64(w, "layers", a->group[k].layers);
        jsonw_u64(w, "window", a->group[k].window);
        if (a->group[k].state_blocks)
            jsonw_u64(w, "state_blocks", a->group[k].state_blocks);
        jsonw_end(w);
    }
    jsonw_end(w);
    jsonw_u64(w, "max_model_len", c->max_model_len);
    jsonw_u64(w, "max_num_seqs", a->max_num_seqs);
    jsonw_u64(w, "max_num_batched_tokens", a->batched_tokens);
    jsonw_object(w, "max_concurrency"); /* of requests as long as max_model_len, as its log says */
    jsonw_fixed(w, "low", at_once(a, a->blocks.low, c->max_model_len), 2);
    jsonw_fixed(w, "high", at_once(a, a->blocks.high, c->max_model_len), 2);
    jsonw_end(w);
    jsonw_end(w);
}

/* What each GPU has of a model that device_map spread, and what no GPU has. */
static void write_devices(struct jsonw *w, const struct inferring *i, const struct device_spread *s)
{
    jsonw_array(w, "devices");
    for (uint32_t d = 0; d < s->gpus; d++) {
        const struct device_share *g = &s->share[d];

        jsonw_object(w, NULL);
        jsonw_u64(w, "gpu", d);
        jsonw_u64(w, "weights_bytes", g->weights_bytes);
        jsonw_u64(w, "first_layer", g->first_layer);
        jsonw_u64(w, "layers", g->n_layers);
        jsonw_bool(w, "embeddings", g->embeddings);
        jsonw_bool(w, "head", g->head);
        jsonw_u64(w, "peak_allocated_bytes", g->peak_allocated_bytes);
        jsonw_u64(w, "peak_reserved_bytes", g->peak_reserved_bytes);
        jsonw_u64(w, "device_bytes", g->peak_reserved_bytes + i->q.device.context_bytes);
        jsonw_end(w);
    }
    jsonw_end(w);
    jsonw_object(w, "offloaded");
    jsonw_u64(w, "host_bytes", s->host_bytes);
    jsonw_u64(w, "host_layers", s->host_layers);
    jsonw_u64(w, "disk_bytes", s->disk_bytes);
    jsonw_u64(w, "disk_layers", s->disk_layers);
    jsonw_end(w);
    jsonw_u64(w, "moved_bytes_per_token", s->moved_bytes);
}

/* Of the GPU that has most. */
static void write_spread(struct jsonw *w, const struct inferring *i, const struct inference_candidate *c)
{
    const struct device_spread *s = c->devices;
    const struct device_share *most = &s->share[0];
    uint64_t worst = 0;

    for (uint32_t d = 1; d < s->gpus; d++)
        if (s->share[d].peak_reserved_bytes > most->peak_reserved_bytes) {
            most = &s->share[d];
            worst = d;
        }
    jsonw_object(w, "memory");
    jsonw_u64(w, "peak_allocated_bytes", most->peak_allocated_bytes);
    jsonw_u64(w, "peak_reserved_bytes", most->peak_reserved_bytes);
    jsonw_u64(w, "device_bytes", c->device_bytes);
    jsonw_u64(w, "capacity_bytes", i->q.capacity_bytes);
    jsonw_u64(w, "static_bytes", most->weights_bytes);
    jsonw_u64(w, "kv_cache_bytes", c->memory.kv_cache_bytes);
    jsonw_str(w, "basis", i->e->model.generic ? "generic" : "bounded");
    jsonw_u64(w, "low_bytes", most->peak_allocated_bytes);
    jsonw_u64(w, "high_bytes", most->peak_reserved_bytes);
    jsonw_u64(w, "worst_rank", worst);
    jsonw_u64(w, "context_bytes", i->q.device.context_bytes);
    jsonw_u64(w, "host_bytes_per_node", s->host_bytes);
    jsonw_end(w);
    write_devices(w, i, s);
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

const char *inference_method(const struct inferring *i, const struct inference_candidate *c)
{
    return i->q.on_host ? "cpu" : c->spread ? "device_map" : i->q.tensor_parallel > 1 ? "tp" : "single";
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
    jsonw_str(w, "method", inference_method(i, c));
    jsonw_str(w, "engine", i->q.engine == ENGINE_VLLM ? "vllm" : "transformers");
    if (i->q.tensor_parallel > 1)
        jsonw_u64(w, "tensor_parallel", i->q.tensor_parallel);
    jsonw_str(w, "weights", c->weights->name);
    if (c->modelled) {
        if (i->q.engine == ENGINE_TRANSFORMERS)
            jsonw_str(w, "attention", word_named(attention_words, (int)c->step.r.attention));
        jsonw_u64(w, "batch_size", i->q.batch_size);
        if (c->largest_known) {
            jsonw_u64(w, "max_batch_size", c->max_batch_size);
            jsonw_u64(w, "max_context_tokens", c->max_context_tokens);
        }
        if (c->spread) {
            write_spread(w, i, c);
        } else if (i->q.engine == ENGINE_VLLM) {
            write_pool(w, i, c);
            write_blocks(w, c);
        } else {
            write_memory(w, i, c);
        }
        if (c->bound_tokens_per_s > 0)
            jsonw_fixed(w, "bound_tokens_per_s", c->bound_tokens_per_s, 1);
        write_throughput(w, i, c);
    }
    write_reason(w, &c->reason);
    jsonw_end(w);
}

void inference_write(struct jsonw *w, struct inferring *i)
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
        jsonw_str(w, "method", inference_method(i, a->candidates));
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
