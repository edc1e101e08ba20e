/* Workload inference: the question. */
#include "api/answer/inference.h"

#include <stdio.h>
#include <string.h>

enum { PROMPT_TOKENS = 1024, NEW_TOKENS = 1024, SUMMARY_MAX = 480 };

bool asks_inference(const struct estimate_request *rq)
{
    return rq->workload.n && workload_words[rq->workload.at[0]].value == WORKLOAD_INFERENCE;
}

/* Its own loop over its own model: of a training step neither is modelled. */
bool asks_litgpt(const struct estimate_request *rq)
{
    const struct words *f = &rq->stack.framework;

    return asks_inference(rq) && f->n && !strcmp(framework_words[f->at[0]].name, "litgpt");
}

/* --- the question ----------------------------------------------------------------------------------------------------------------- */
static enum precision cast_of(const struct estimate *e, int weights)
{
    static const enum precision asked[] = {[WEIGHTS_BF16] = PRECISION_BF16, [WEIGHTS_FP16] = PRECISION_FP16, [WEIGHTS_FP32] = PRECISION_FP32};

    if (weights <= WEIGHTS_FP32)
        return asked[weights];
    if (e->question.device.cc_major >= 8 && asks_litgpt(&e->rq))
        return PRECISION_BF16; /* get_default_supported_precision() */
    return e->question.device.cc_major < 8 || (e->model.has_program && e->model.arch.saved == SAVED_FP16) ? PRECISION_FP16 : PRECISION_BF16;
}

static bool asks_vllm(const struct inference_request *r)
{
    return r->engine.n && engine_words[r->engine.at[0]].value == ENGINE_OF_VLLM;
}

/* Mxfp4Config(dequantize=True), or what transformers makes of it by itself. vLLM's are its own. */
static enum packing unpacked_from(const struct estimate *e, int value)
{
    uint32_t group;
    bool half = value == WEIGHTS_BF16 || value == WEIGHTS_FP16;

    int packed = half && !asks_vllm(&e->rq.inference) ? checkpoint_weights(e->model.config, &group) : -1;

    return packed == WEIGHTS_MXFP4 ? PACKING_MXFP4 : packed == WEIGHTS_FP8 ? PACKING_FP8 : PACKING_NONE;
}

/* What stands beside a checkpoint's own form. */
static const char *why_unpacked(const struct estimate *e, int packed)
{
    if (packed == WEIGHTS_MXFP4)
        return "mxfp4 wants the package kernels and Triton 3.4; unpacked while it loads where they are not installed (quantizers/quantizer_mxfp4.py)";
    if (packed == WEIGHTS_FP8 && e->question.device.cc_major * 10 + e->question.device.cc_minor < 89)
        return "below compute capability 8.9 transformers unpacks fp8 while it loads (quantizers/quantizer_finegrained_fp8.py)";
    return NULL;
}

static struct inference_weights form(const struct estimate *e, int value)
{
    static const enum kbit kbits[WEIGHTS_COUNT] = {
        [WEIGHTS_INT8] = KBIT_INT8, [WEIGHTS_NF4] = KBIT_NF4, [WEIGHTS_NF4_DQ] = KBIT_NF4_DQ, [WEIGHTS_FP4] = KBIT_FP4};
    static const enum packing packings[WEIGHTS_COUNT] = {
        [WEIGHTS_GPTQ4] = PACKING_GPTQ4, [WEIGHTS_GPTQ8] = PACKING_GPTQ8, [WEIGHTS_AWQ4] = PACKING_AWQ4,
        [WEIGHTS_FP8] = PACKING_FP8, [WEIGHTS_MXFP4] = PACKING_MXFP4};
    const char *name = word_named(weights_words, value);
    struct inference_weights w = {.name = name};
    uint32_t group;

    if (value == WORD_UNMODELLED)
        return w;
    w.cast = value == WEIGHTS_AWQ4 ? PRECISION_FP16 : cast_of(e, value); /* AWQ: whatever is asked, quantizer_awq.py */
    w.kbit = kbits[value];
    w.unpacks = unpacked_from(e, value);
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
    const char *why;
    uint32_t group;
    int packed = checkpoint_weights(e->model.config, &group);

    i->q.weights = i->weights;
    i->q.asked = asked->n > 0;
    i->q.n_weights = asked->n || packed >= 0 ? 1 : INFERENCE_FORMS;
    if (asked->n) {
        i->weights[0] = form(e, weights_words[asked->at[0]].value);
        i->weights[0].name = weights_words[asked->at[0]].name;
        return;
    }
    if (packed >= 0) {
        i->weights[0] = form(e, packed);
        note_of(&e->assumptions, NOTE_OF_YOURS, "inference.weights %s: the checkpoint's quantization_config", i->weights[0].name);
        why = asks_vllm(&e->rq.inference) ? NULL : why_unpacked(e, packed);
        if (!why)
            return;
        i->weights[1] = form(e, half ? WEIGHTS_FP16 : WEIGHTS_BF16);
        i->q.n_weights = 2;
        note(&e->assumptions, "inference.weights %s beside it: %s", i->weights[1].name, why);
        return;
    }
    if (i->q.on_host)
        i->q.n_weights = 1;
    i->weights[0] = form(e, half ? WEIGHTS_FP16 : WEIGHTS_BF16);
    i->weights[1] = form(e, WEIGHTS_INT8);
    i->weights[2] = form(e, WEIGHTS_NF4);
    if (i->q.on_host)
        return;
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
static void warn_of_training(struct inferring *i)
{
    struct estimate *e = i->e;
    bool other = e->rq.training.methods.n > 0;

    for (const struct member *m = training_members; m->key && !other; m++)
        other = m->kind != KIND_OWN && strcmp(m->key, "attention") != 0 && strcmp(m->key, "padded") != 0 && !(m->list && !m->min) &&
                member_is_set(m, (const char *)&e->rq.training + m->at);
    if (other)
        note(&e->warnings, "/training: of its members only attention and padded are read where the workload is inference");
    if (e->question.gpus > e->question.gpus_per_node)
        note(&e->warnings, "the GPUs of one node are used: neither device_map nor tensor_parallel goes over several here");
    if (i->q.on_host && i->q.host_bytes_per_s <= 0)
        note(&e->warnings, "/cluster/host_memory_gbs, how fast the host's memory is, is left out: no bound on tokens/s");
    if (e->rq.inference.gpu_memory_utilization.set && i->q.engine == ENGINE_TRANSFORMERS)
        note(&e->warnings, "/inference/gpu_memory_utilization is vLLM's: generate() takes what it needs");
}

enum { UTILIZATION_PERCENT = 92 }; /* vLLM 0.33.0 config/cache.py */

static bool is_a100(const struct estimate *e)
{
    return !e->rq.cluster.gpu.by_numbers && e->rq.cluster.gpu.name && strstr(gpu_in_words(e), "A100");
}

/* Left out, vLLM has all GPUs of a node where they divide the heads. */
static void take_degree(struct inferring *i)
{
    struct estimate *e = i->e;
    struct quantity *degree = &e->rq.inference.tensor_parallel;
    uint32_t node = e->question.gpus_per_node;

    if (!degree->set && i->q.engine == ENGINE_VLLM && node > 1 && i->q.arch && i->q.arch->heads % node == 0) {
        *degree = (struct quantity){.set = true, .whole = node, .real = node};
        note_of(&e->assumptions, NOTE_OF_YOURS, "inference.tensor_parallel %u: left out, the GPUs of a node", node);
    }
    i->q.tensor_parallel = degree->set ? (uint32_t)degree->whole : 1;
    i->q.gpus = i->q.gpus_per_node = node;
    i->q.host_bytes = e->question.host_memory_bytes_per_node;
}

static bool is_spread(int device_map)
{
    return device_map == DEVICE_MAP_AUTO || device_map == DEVICE_MAP_LOW_0 || device_map == DEVICE_MAP_SEQUENTIAL;
}

static void take_device_map(struct inferring *i)
{
    struct estimate *e = i->e;
    const struct words *map = &e->rq.inference.device_map;
    const struct max_memory_request *most = &e->rq.inference.max_memory;
    int asked = map->n ? device_map_words[map->at[0]].value : WORD_UNMODELLED;

    if (i->q.engine == ENGINE_VLLM && map->n)
        note(&e->warnings, "/inference/device_map is transformers': vLLM's is tensor_parallel");
    if (i->q.tensor_parallel > 1 && map->n)
        note(&e->warnings, "/inference/device_map goes with no tensor_parallel: this one answers");
    i->q.spread_alone = is_spread(asked) && !i->q.on_host && i->q.engine == ENGINE_TRANSFORMERS && i->q.tensor_parallel == 1;
    i->q.spread_never = asked == DEVICE_MAP_ONE || i->q.on_host;
    i->q.shares = asked == DEVICE_MAP_LOW_0 ? SHARES_BALANCED_LOW_0 : asked == DEVICE_MAP_SEQUENTIAL ? SHARES_SEQUENTIAL : SHARES_BALANCED;
    if (!most->set)
        return;
    if (!i->q.spread_alone)
        note(&e->warnings, "/inference/max_memory moves nothing: it goes with device_map auto, balanced_low_0 or sequential");
    else if (most->gpus > i->q.gpus_per_node && !i->q.gap)
        i->q.gap = "max_memory names more GPUs than a node has";
    else {
        i->q.max_memory.gpus = most->gpus;
        i->q.max_memory.host = most->host;
        i->q.max_memory.gpu_bytes = most->gpu_bytes;
        i->q.max_memory.host_bytes = most->host_bytes;
    }
}

enum { TOP_K = 50 }; /* GenerationConfig's own, where the model's generation_config.json says nothing else */

/* do_sample with its warpers; expand_inputs_for_generation(): a row for each sequence that comes back. */
static void take_choice(struct inferring *i)
{
    struct estimate *e = i->e;
    struct inference_request *r = &e->rq.inference;
    bool warps = r->temperature.set || r->top_k.set || r->top_p.set, drawn = r->do_sample == TRI_TRUE;

    if (i->q.engine == ENGINE_VLLM) {
        if (r->do_sample != TRI_UNSET || warps || r->num_return_sequences.set)
            note(&e->warnings, "/inference: do_sample, temperature, top_k, top_p and num_return_sequences move nothing here: vLLM's profile has a sampler's "
                               "logits of max_num_seqs rows");
        return;
    }
    if (warps && !drawn)
        note(&e->warnings, "/inference: temperature, top_k and top_p go with do_sample: true, which is not asked: generate() takes the most likely token");
    i->q.choice = (struct generation_choice){.drawn = drawn};
    if (drawn) {
        i->q.choice.tempered = r->temperature.set && r->temperature.real != 1;
        i->q.choice.cut = r->top_p.set && r->top_p.real < 1;
        i->q.choice.top_k = r->top_k.set ? (uint32_t)r->top_k.whole : TOP_K;
        if (!r->top_k.set)
            note_of(&e->assumptions, NOTE_OF_YOURS, "inference.top_k %d: left out, GenerationConfig's (a model's own file may say another)", TOP_K);
    }
    if (!r->num_return_sequences.set || r->num_return_sequences.whole == 1)
        return;
    if (!drawn && !i->q.gap)
        i->q.gap = "num_return_sequences above 1 wants do_sample: true (or beams): generate() refuses it where the most likely token is taken";
    note_of(&e->assumptions, NOTE_OF_YOURS, "num_return_sequences %u: each prompt is repeated before the model sees it, so that batch_size is %u x %u rows",
            (unsigned)r->num_return_sequences.whole, i->q.batch_size, (unsigned)r->num_return_sequences.whole);
    i->q.batch_size *= (uint32_t)r->num_return_sequences.whole;
}

/* GenerationConfig.from_model_config(): without a generation_config.json the model's own config says it. */
static bool is_uncached(const struct inferring *i)
{
    struct estimate *e = i->e;
    enum tri asked = e->rq.inference.use_cache;

    if (asked != TRI_UNSET || !e->model.has_program || e->model.arch.use_cache || asks_vllm(&e->rq.inference) || i->q.litgpt)
        return asked == TRI_FALSE;
    note_of(&e->assumptions, NOTE_OF_YOURS,
            "inference.use_cache false: left out, config.json's or its class keeps none (a generation_config.json may say another): each token is the "
            "whole text again");
    return true;
}

static void take_cache(struct inferring *i)
{
    struct estimate *e = i->e;
    struct inference_request *r = &e->rq.inference;
    int kv = r->kv_cache.n ? kv_cache_words[r->kv_cache.at[0]].value : KV_CACHE_AUTO;
    bool fp8 = kv == KV_CACHE_FP8, uncached = is_uncached(i);

    i->q.kv_bytes = fp8 ? 1 : kv == KV_CACHE_HALF ? 2 : 0;
    i->q.cache = fp8 ? CACHE_FP8 : r->cache.n && cache_words[r->cache.at[0]].value == CACHE_STATIC ? CACHE_STATIC : CACHE_DYNAMIC;
    if (i->q.litgpt)
        i->q.cache = CACHE_LITGPT;
    if (uncached && (i->q.litgpt || i->q.engine == ENGINE_VLLM))
        note(&e->warnings, "/inference/use_cache is generate()'s: this engine always keeps keys and values");
    else if (uncached)
        i->q.cache = CACHE_NONE;
    if (i->q.engine == ENGINE_TRANSFORMERS && !i->q.litgpt)
        r->use_cache = uncached ? TRI_FALSE : TRI_TRUE;
    if (i->q.cache == CACHE_NONE && (r->kv_cache.n || r->cache.n))
        note(&e->warnings, "/inference: kv_cache and cache move nothing where use_cache is false: generate() keeps none");
}

static void take_engine(struct inferring *i)
{
    struct estimate *e = i->e;
    struct inference_request *r = &e->rq.inference;

    i->q.engine = asks_vllm(r) ? ENGINE_VLLM : ENGINE_TRANSFORMERS;
    take_cache(i);
    take_degree(i);
    take_device_map(i);
    take_choice(i);
    i->q.max_model_len = (uint32_t)r->max_model_len.whole;
    i->q.batched_tokens = (uint32_t)r->max_num_batched_tokens.whole;
    i->q.utilization = r->gpu_memory_utilization.set ? r->gpu_memory_utilization.real : UTILIZATION_PERCENT / 100.0;
    i->q.a100 = is_a100(e);
    i->q.eager = r->enforce_eager == TRI_TRUE;
    if (i->q.engine != ENGINE_VLLM && r->enforce_eager != TRI_UNSET)
        note(&e->warnings, "/inference/enforce_eager is vLLM's: generate() captures no graphs");
    if (i->q.engine != ENGINE_VLLM)
        return;
    if (!r->gpu_memory_utilization.set)
        note_of(&e->assumptions, NOTE_OF_YOURS, "inference.gpu_memory_utilization 0.92: left out, vLLM 0.33.0's own");
    if (!r->max_model_len.set)
        note_of(&e->assumptions, NOTE_OF_YOURS, "inference.max_model_len %u: left out, the model's", i->q.arch ? i->q.arch->max_positions : 0);
    if (!r->weights.n && i->q.n_weights > 1)
        i->q.n_weights = 1;
}

static bool is_on_host(const struct inference_request *r)
{
    return r->device_map.n && device_map_words[r->device_map.at[0]].value == DEVICE_MAP_HOST;
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
    q->on_host = cluster_has_no_gpu(e) || is_on_host(&e->rq.inference);
    rc = q->on_host ? cluster_host(e) : ERR_OK;
    if (rc)
        return rc;
    q->host_bytes_per_s = e->rq.cluster.host_memory_gbs.real * 1e9;
    if (e->rq.cluster.host_memory_gbs.set && !q->on_host)
        note(&e->warnings, "/cluster/host_memory_gbs is read where a host without a GPU computes");
    q->arch = e->model.has_program ? &e->model.arch : NULL;
    q->stack = e->stack;
    q->device = e->question.device;
    q->system = e->question.system;
    q->capacity_bytes = e->question.capacity_bytes;
    q->margin = e->rq.margin.real;
    q->expandable_segments = e->rq.allocator.expandable_segments == TRI_TRUE;
    q->padded = e->rq.training.padded == TRI_TRUE;
    q->litgpt = asks_litgpt(&e->rq);
    if (q->litgpt)
        q->stack.transformers = stack_newest(PACKAGE_TRANSFORMERS); /* it has none: the layers as they are written here */
    q->attention = attention->n ? (enum attention)attention_words[attention->at[0]].value : ATTENTION_UNSET;
    q->compute = compute->n ? dtypes[compute->at[0]] : DTYPE_COUNT;
    take_weights(i);
    take_lengths(i);
    take_engine(i);
    warn_of_training(i);
    return left_out_check(&e->left_out, e->call->err);
}

static bool has_packed(const struct inferring *i)
{
    bool packed = false;

    for (uint32_t k = 0; k < i->answer.n; k++)
        packed |= i->answer.candidates[k].weights->kbit != KBIT_NONE || i->answer.candidates[k].weights->packed.kind;
    return packed;
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
    inference_assume(i);
    idle_say_inference(e, i->q.engine == ENGINE_VLLM, has_packed(i), i->answer.n && i->answer.candidates->spread);
    resolve_inference(e, i->answer.n && i->answer.candidates->modelled ? i->answer.candidates->step.r.attention : ATTENTION_UNSET);
    buf_init_fixed(&out, text, sizeof text);
    inference_say(&out, i);
    e->summary = arena_str(e->call->arena, buf_text(&out), strlen(buf_text(&out)));
    if (!e->summary)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the answer");
    begin_json(e->call, &out, &w);
    inference_write(&w, i);
    e->call->ret->fits = i->answer.any_fits;
    e->call->ret->modelled = i->answer.any_modelled;
    return finish_json(e->call, &w);
}
