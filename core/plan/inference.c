#include "plan/inference_inside.h"

#include "base/budget.h"
#include "parallel/gap.h"
#include "parallel/nccl.h"
#include "perf/perf.h"

#include <stdio.h>
#include <string.h>

static const double TIGHT = 0.95; /* of the capacity: as of training's candidates */

static enum err_code no_room(const struct inferring *p)
{
    return err_set(p->err, ERR_NOMEM, "", "no room for the answer");
}

static uint64_t room_of(const struct inference_question *q)
{
    double most = (double)q->capacity_bytes * (1 - q->margin) - (double)q->device.context_bytes - (double)nccl_bytes(q->tensor_parallel);

    return most > 0 ? (uint64_t)most : 0;
}

/* What train_resolve() says of the attention, the class in that release and its quirks holds for a forward alone too; GPTQ loads as the release does. */
static enum err_code resolve(const struct inferring *p, const struct inference_weights *w, struct step *ret)
{
    const struct inference_question *q = p->q;
    struct recipe r = {
        .seq_len_tokens = q->prompt_tokens,
        .micro_batch_size = q->batch_size,
        .precision = w->cast,
        .attention = q->attention,
        .padded = q->padded,
        .framework = FRAMEWORK_TORCH,
        .method = METHOD_SINGLE,
        .max_grad_norm = -1,
        .stack = q->stack,
    };

    enum err_code rc = train_resolve(&r, q->arch, &q->device, p->keep, ret, p->err);
    bool gptq = w->packed.kind == PACKING_GPTQ4 || w->packed.kind == PACKING_GPTQ8;

    if (!rc && gptq && q->engine == ENGINE_TRANSFORMERS && !ret->quirks.gptq_loads_as_saved)
        ret->r.precision = PRECISION_FP16;
    return rc;
}

enum dtype inference_dtype(const struct inference_candidate *c)
{
    enum precision p = c->step.r.precision;

    return p == PRECISION_FP16 ? DTYPE_FP16 : p == PRECISION_FP32 ? DTYPE_FP32 : DTYPE_BF16;
}

struct generate_question inference_generate(const struct inferring *p, const struct inference_candidate *c)
{
    const struct inference_question *q = p->q;

    return (struct generate_question){
        .arch = q->arch,
        .quirks = &c->step.quirks,
        .device = &q->device,
        .dtype = inference_dtype(c),
        .compute = q->compute < DTYPE_COUNT ? q->compute : inference_dtype(c),
        .weights = c->weights->kbit,
        .packed = c->weights->packed,
        .unpacks = q->on_host ? PACKING_NONE : c->weights->unpacks,
        .tensor_parallel = q->tensor_parallel,
        .attention = c->step.r.attention == ATTENTION_EAGER     ? KERNEL_EAGER
                     : c->step.r.attention == ATTENTION_FLASH_2 ? KERNEL_FLASH_2
                                                                : KERNEL_SDPA,
        .packs_head = q->litgpt,
        .choice = q->choice,
        .padded = q->padded,
        .cache = q->engine == ENGINE_TRANSFORMERS ? q->cache : CACHE_DYNAMIC,
        .batch_size = q->batch_size,
        .prompt_tokens = q->prompt_tokens,
        .new_tokens = q->new_tokens,
    };
}

/* --- time ----------------------------------------------------------------------------------------------------------------------- */
static double seconds_of(const struct inferring *p, const struct inference_candidate *c, struct cost *cost)
{
    struct perf_system one = *p->q->system;
    struct step_time t;

    one.gpus_per_node = p->q->tensor_parallel;
    one.nodes = 1;
    cost->flash = c->step.flash;
    perf_step_time(cost, &one, &t);
    return t.step_s;
}

/* Weights and the cache in the middle of the answer are read for each token, weights for the prompt. */
static void take_bound(const struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    const struct generated *m = &c->memory;
    double middle = (q->prompt_tokens + q->new_tokens / 2.0) / ((double)q->prompt_tokens + q->new_tokens);
    double table = (double)inference_table(q->arch, inference_dtype(c)) / q->tensor_parallel, all = (double)m->static_bytes;
    double read = all > table ? all - table : all;
    double prompt = inference_bound(q->system, inference_dtype(c), read, m->prefill.model_flops);
    double token = q->new_tokens > 1 ? inference_bound(q->system, inference_dtype(c), read + middle * (double)m->kv_cache_bytes, m->decode.model_flops) : 0;

    if (prompt > 0)
        c->bound_tokens_per_s = (double)q->batch_size * q->new_tokens / (prompt + (q->new_tokens - 1) * token);
}

static void take_time(const struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    struct generated *m = &c->memory;
    double all, peak = p->q->system ? p->q->system->flops_per_s[inference_dtype(c)] : 0;

    if (!p->q->system || peak <= 0)
        return;
    c->prefill_s = seconds_of(p, c, &m->prefill);
    c->token_s = q->new_tokens > 1 ? seconds_of(p, c, &m->decode) : 0;
    all = c->prefill_s + (q->new_tokens - 1) * c->token_s;
    take_bound(p, c);
    if (all <= 0)
        return;
    c->tokens_per_s = (double)q->batch_size * q->new_tokens / all;
    c->mfu = (m->prefill.model_flops + (q->new_tokens - 1) * (q->new_tokens > 1 ? m->decode.model_flops : 0)) / (all * peak);
}

/* --- the largest ------------------------------------------------------------------------------------------------------------------ */
struct search {
    struct inferring *p;
    const struct inference_candidate *c;
    bool of_batch;         /* else of the prompt */
};

/* Between what fits and what does not: as many, and the bytes that are held then. */
struct sought {
    uint64_t low, high, low_bytes, high_bytes; /* low 0, high_bytes 0: none is known */
    uint64_t low_live_bytes;
    bool low_retries;                          /* segments were given back: low_bytes says no more what one more takes */
    unsigned turn;
};

enum { TRIES = 16, MOST_BATCH = 65536, SHORT_ANSWER = 2048 }; /* layers x tokens that are replayed one by one while the largest is looked for */

/* convert_moe_packed_tensors(): an expert that has no room to be unpacked in comes by the host. */
static bool retries_on_host(const struct inference_candidate *c)
{
    return c->weights->unpacks == PACKING_MXFP4 && c->step.quirks.mxfp4_indexes_ints;
}

/* Of the allocator that was asked for; live ones on a host, which has none. */
static uint64_t held(const struct inferring *p, const struct generated *m)
{
    return p->q->on_host                ? m->peak_allocated_bytes
           : p->q->expandable_segments ? m->peak_reserved_expandable_bytes
                                        : m->peak_reserved_bytes;
}

static void learn(const struct search *s, uint64_t n, const struct generated *m, bool fits, struct sought *e)
{
    *(fits ? &e->low : &e->high) = n;
    *(fits ? &e->low_bytes : &e->high_bytes) = held(s->p, m);
    if (fits) {
        e->low_retries = m->retries > 0;
        e->low_live_bytes = m->peak_allocated_bytes;
    }
}

static enum err_code try_at(const struct search *s, uint64_t n, struct sought *e)
{
    struct generate_question q = inference_generate(s->p, s->c);
    unsigned char *mark = s->p->scratch->cur;
    struct generated made;
    enum err_code rc;

    q.unpacks = retries_on_host(s->c) ? PACKING_NONE : q.unpacks;
    *(s->of_batch ? &q.batch_size : &q.prompt_tokens) = (uint32_t)n;
    q.replay = s->p->q->on_host ? REPLAY_NONE : (uint64_t)q.new_tokens * q.arch->layers <= SHORT_ANSWER ? REPLAY_ALL : REPLAY_PLAYED;
    q.expandable_segments = s->p->q->expandable_segments;
    q.capacity_bytes = room_of(s->p->q);
    rc = generate(&q, s->p->scratch, &made, s->p->err);
    arena_rewind(s->p->scratch, mark);
    if (!rc)
        learn(s, n, &made, s->p->q->on_host ? made.peak_allocated_bytes <= q.capacity_bytes : made.fits, e);
    return rc;
}

/* Where the line from what stands without a batch through `bytes` at n meets the room. */
static double along(const struct search *s, uint64_t n, uint64_t bytes)
{
    double stands = (double)s->c->memory.static_bytes;

    return (double)n * ((double)room_of(s->p->q) - stands) / ((double)bytes - stands);
}

/* Along a line to what does not fit, or from what stands; between what fits by what was given back and what live blocks allow, or does not fit, the middle,
 * and every third time. */
static uint64_t next_at(const struct search *s, struct sought *e, uint64_t most)
{
    double low = (double)e->low, high = (double)e->high, at;

    if (!e->low)
        at = along(s, e->high, e->high_bytes);
    else if (e->low_retries || (++e->turn % 3 == 0 && e->high_bytes))
        at = low + ((e->high_bytes ? high : along(s, e->low, e->low_live_bytes)) - low) / 2;
    else if (e->high_bytes)
        at = low + (high - low) * ((double)room_of(s->p->q) - (double)e->low_bytes) / ((double)e->high_bytes - (double)e->low_bytes);
    else
        at = along(s, e->low, e->low_bytes);
    if (!(at > low)) /* or no number */
        return e->low + 1;
    return at < (double)most ? (uint64_t)at : most;
}

/* The most of 1..most that fits on an allocator of that capacity, which loses some of it to blocks that it cannot split: what fits beside what does not, a
 * prompt to `grain`, or to a hundredth. `own`: what the candidate itself was told at. */
static enum err_code search_largest(const struct search *s, uint64_t own, uint64_t most, uint64_t grain, uint64_t *ret)
{
    struct sought e = {.high = most + 1};
    enum err_code rc = ERR_OK;

    if (own <= most)
        learn(s, own, &s->c->memory, s->c->fits, &e);
    for (int i = 0; i < TRIES && !rc && e.high - e.low > (e.low / 128 > grain && !s->of_batch ? e.low / 128 : grain); i++) {
        uint64_t at = e.low || e.high_bytes ? next_at(s, &e, most) : most;

        if (at < e.low + grain)
            at = e.low + grain;
        rc = try_at(s, at < e.high ? at : e.high - 1, &e);
    }
    *ret = e.low;
    return rc;
}

static enum err_code find_largest(struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    uint64_t n = 0, positions = q->arch->max_positions, most = positions > q->new_tokens ? positions - q->new_tokens : 0;
    struct search s = {p, c, true};
    enum err_code rc = search_largest(&s, q->batch_size, MOST_BATCH, 1, &n);

    c->max_batch_size = (uint32_t)n;
    s.of_batch = false;
    if (rc || (positions && !most))
        return rc;
    rc = search_largest(&s, q->prompt_tokens, positions ? most : UINT32_C(1) << 22, 64, &n);
    c->max_context_tokens = n ? n + q->new_tokens : 0;
    return rc;
}

/* --- a candidate ------------------------------------------------------------------------------------------------------------------ */
enum err_code inference_reason(struct inferring *p, struct inference_candidate *c, const char *code, const char *detail)
{
    c->reason.code = code;
    c->reason.detail = arena_str(p->keep, detail, strlen(detail));
    return c->reason.detail ? ERR_OK : no_room(p);
}

/* What one form cannot do is its reason; memory and work that one question has end the answer's other forms alone. */
static enum err_code take_error(struct inferring *p, struct inference_candidate *c, enum err_code rc)
{
    struct err e = *p->err;

    *p->err = (struct err){0};
    c->modelled = false;
    if (rc == ERR_BUDGET)
        return inference_reason(p, c, "budget", e.detail);
    if (rc == ERR_FIELD_CONFLICT || rc == ERR_NOMEM)
        return inference_reason(p, c, "not-modelled", e.detail);
    if (rc == ERR_TENSOR_SIZE)
        return inference_reason(p, c, "does-not-fit", e.detail);
    if (rc == ERR_SCRIPT_RAISED && e.file[0])
        (void)snprintf(e.detail, sizeof e.detail, "the modelling code raises with %s weights: %s (%s:%u)", c->weights->name, e.construct, e.file, e.line);
    if (rc == ERR_LEAVES_LANGUAGE || rc == ERR_SCRIPT_RAISED) /* weights of another form may take another way through the same files */
        return inference_reason(p, c, err_slug(rc), e.detail);
    *p->err = e;
    return rc;
}

static enum err_code explain(struct inferring *p, struct inference_candidate *c, uint64_t reserved)
{
    uint64_t room = room_of(p->q);
    char text[160];

    (void)snprintf(text, sizeof text, "needs %.1f GiB more at %s", (double)(reserved - room) / 1073741824.0, phase_name(c->memory.peak_phase));
    return inference_reason(p, c, "does-not-fit", text);
}

/* What a replay without a limit reserves says nothing of what is missing: tensors that grow with each token leave a segment each. */
static enum err_code explain_played(struct inferring *p, struct inference_candidate *c)
{
    uint64_t room = room_of(p->q), live = c->memory.peak_allocated_bytes;
    char text[160];

    if (live > room)
        return explain(p, c, live);
    (void)snprintf(text, sizeof text, "the allocator cannot find a free block among those it holds, at %s: live tensors leave %.1f GiB",
                   phase_name(c->memory.peak_phase), (double)(room - live) / 1073741824.0);
    return inference_reason(p, c, "does-not-fit", text);
}

static enum err_code settle(struct inferring *p, struct inference_candidate *c, enum generate_replay how)
{
    struct generate_question q = inference_generate(p, c);
    unsigned char *mark = p->scratch->cur;
    uint64_t reserved;
    enum err_code rc;

    q.replay = how;
    q.expandable_segments = p->q->expandable_segments;
    q.capacity_bytes = room_of(p->q);
    q.timed = p->q->system != NULL;
    rc = generate(&q, p->scratch, &c->memory, p->err);
    if (rc == ERR_NOMEM && q.timed) { /* a scan that steps through a long prompt has more kernels than are kept: its memory can be told without them */
        arena_rewind(p->scratch, mark);
        *p->err = (struct err){0};
        q.timed = false;
        rc = generate(&q, p->scratch, &c->memory, p->err);
    }
    if (!rc && !c->memory.fits && retries_on_host(c) && q.unpacks) {
        arena_rewind(p->scratch, mark);
        q.unpacks = PACKING_NONE;
        rc = generate(&q, p->scratch, &c->memory, p->err);
    }
    if (!rc && q.timed)
        take_time(p, c);
    arena_rewind(p->scratch, mark);
    if (rc)
        return rc;
    c->modelled = true;
    reserved = held(p, &c->memory);
    c->device_bytes = reserved + p->q->device.context_bytes + nccl_bytes(p->q->tensor_parallel);
    c->fits = c->memory.fits;
    c->tight = c->memory.retries || (c->fits && (double)c->device_bytes > TIGHT * (double)p->q->capacity_bytes);
    c->reason = (struct plan_reason){0};
    return c->fits ? ERR_OK : explain_played(p, c);
}

/* transformers cuts heads of keys too. */
static enum err_code degree_gap(struct inferring *p)
{
    const struct arch *a = p->q->arch;
    bool whole = a->whole_heads && p->q->engine == ENGINE_TRANSFORMERS;
    struct parallel_shape shape = {.gpus = p->q->tensor_parallel, .tensor_parallel = p->q->tensor_parallel, .pipeline_parallel = 1,
                                   .heads = whole ? 0 : a->heads, .kv_heads = whole ? 0 : a->kv_heads, .layers = a->layers};

    return p->q->tensor_parallel > 1 ? parallel_gap(&shape, p->err) : ERR_OK;
}

static uint64_t most_reserved(const struct device_spread *s)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < s->gpus; d++)
        most = s->share[d].peak_reserved_bytes > most ? s->share[d].peak_reserved_bytes : most;
    return most;
}

/* What stands on the host comes over the bus for each token, and for the prompt. */
static void add_bus(const struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    double moved = (double)(c->devices->host_bytes + c->devices->disk_bytes), all, s;

    if (!q->system || c->tokens_per_s <= 0 || moved <= 0)
        return;
    s = q->system->bus_bytes_per_s > 0 ? moved / q->system->bus_bytes_per_s : 0;
    c->prefill_s += s;
    c->token_s += q->new_tokens > 1 ? s : 0;
    all = c->prefill_s + (q->new_tokens - 1) * c->token_s;
    c->tokens_per_s = s > 0 && !c->devices->disk_bytes ? (double)q->batch_size * q->new_tokens / all : 0; /* how fast a disk is nobody says */
    c->bound_tokens_per_s = c->bound_tokens_per_s > c->tokens_per_s ? c->tokens_per_s : c->bound_tokens_per_s;
}

static bool is_packed(const struct inference_candidate *c)
{
    return c->weights->kbit || c->weights->packed.kind;
}

/* validate_environment() of quantizer_bnb_4bit.py, _8bit.py, quantizer_awq.py raise; what others would bring back is not modelled */
static enum err_code needs_more_gpus(struct inferring *p, struct inference_candidate *c)
{
    c->fits = false;
    return inference_reason(p, c, "does-not-fit", "device_map leaves a part of the quantised weights to the host, where they cannot stand");
}

/* What each GPU has, or is said to have. */
static uint32_t give_room(const struct inference_question *q, struct device_play_question *d, uint64_t *gpu_bytes)
{
    uint32_t gpus = q->max_memory.gpus ? q->max_memory.gpus : q->gpus_per_node;
    uint64_t each = q->capacity_bytes > q->device.context_bytes ? q->capacity_bytes - q->device.context_bytes : 0;

    gpus = gpus < DEVICE_MAP_GPUS ? gpus : DEVICE_MAP_GPUS;
    for (uint32_t i = 0; i < gpus; i++)
        gpu_bytes[i] = q->max_memory.gpus ? q->max_memory.gpu_bytes[i] : each;
    if (q->max_memory.gpus)
        d->host_bytes = q->max_memory.host_bytes;
    d->gpu_bytes = gpu_bytes;
    d->as_given = q->max_memory.gpus > 0;
    d->no_host = d->as_given && !q->max_memory.host;
    return gpus;
}

/* What the release, or the model's forward, raises at; NULL: nothing. */
static const char *refusal_of(const struct inference_candidate *c)
{
    if (c->devices->names_no_whole && !c->step.quirks.device_map_cuts_layers)
        return "transformers before 5.1 raises at a device_map of a class without _no_split_modules, such as this one";
    if (c->devices->cuts_a_layer)
        return "device_map cuts a layer between GPUs, as its class has no _no_split_modules: the sum of what stands on two GPUs raises";
    return NULL;
}

/* device_map over a node's GPUs */
static enum err_code spread(struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    unsigned char *mark = p->scratch->cur;
    uint64_t reserved, host = q->host_bytes ? q->host_bytes : UINT64_C(1) << 50;
    uint64_t gpu_bytes[DEVICE_MAP_GPUS];
    struct device_play_question d = {
        .model = inference_generate(p, c),
        .host_bytes = host,
        .shares = q->shares,
        .by_accelerate = !c->step.quirks.bnb_loads_by_name, /* transformers 5 has its own */
    };
    enum err_code rc;

    c->devices = arena_new(p->keep, struct device_spread);
    if (!c->devices)
        return no_room(p);
    d.model.timed = q->system != NULL;
    d.gpus = give_room(q, &d, gpu_bytes);
    rc = device_play(&d, p->scratch, &c->memory, c->devices, p->err);
    if (!rc)
        take_time(p, c);
    arena_rewind(p->scratch, mark);
    if (rc)
        return rc;
    if (refusal_of(c))
        return inference_reason(p, c, "not-offered", refusal_of(c));
    add_bus(p, c);
    c->modelled = true;
    reserved = most_reserved(c->devices);
    c->device_bytes = reserved + q->device.context_bytes;
    if (is_packed(c) && c->devices->host_bytes + c->devices->disk_bytes)
        return needs_more_gpus(p, c);
    c->fits = reserved <= room_of(q) && c->devices->host_bytes <= host;
    c->tight = c->fits && (c->devices->host_layers || c->devices->disk_layers || (double)c->device_bytes > TIGHT * (double)q->capacity_bytes);
    return c->fits ? ERR_OK : explain(p, c, reserved);
}

/* validate_environment() of quantizer_mxfp4.py: elsewhere experts are unpacked, which weights in half ask for. *ret: they stay as they are. */
static enum err_code mxfp4_gap(struct inferring *p, struct inference_candidate *c, bool *ret)
{
    *ret = false;
    if (strcmp(p->q->arch->model_type, "gpt_oss") != 0)
        return inference_reason(p, c, "not-offered", "transformers keeps experts in mxfp4 of gpt_oss alone: engine vllm, or weights bf16");
    if (p->q->on_host)
        return inference_reason(p, c, "not-offered", "on a host without a GPU transformers unpacks mxfp4: weights bf16");
    if (p->q->device.cc_major * 10 + p->q->device.cc_minor < 75)
        return inference_reason(p, c, "dtype-unsupported", "mxfp4 takes compute capability 7.5 or newer, below transformers unpacks it: weights bf16 or fp16");
    if (!c->step.quirks.mxfp4_has_triton)
        return inference_reason(p, c, "not-offered", "mxfp4 takes Triton 3.4, which comes with PyTorch 2.8: without it transformers unpacks it: weights bf16");
    *ret = true;
    return ERR_OK;
}

static enum err_code answer_one(struct inferring *p, struct inference_candidate *c)
{
    enum err_code rc = ERR_OK;
    bool stays = true;

    if (p->q->gap)
        return inference_reason(p, c, "not-modelled", p->q->gap);
    if (c->weights->cast == PRECISION_UNSET) {
        char text[96];

        (void)snprintf(text, sizeof text, "weights in %s are not modelled yet", c->weights->name);
        return inference_reason(p, c, "not-modelled", text);
    }
    if (p->q->on_host && !inference_host_offers(p, c, &rc))
        return rc;
    if (p->q->attention == ATTENTION_FLASH_3)
        return inference_reason(p, c, "not-modelled", "generating with flash_attention_3 is not modelled: flash_attention_2, or sdpa");
    if (p->q->attention == ATTENTION_FLEX)
        return inference_reason(p, c, "not-modelled", "generating with flex_attention is not modelled: sdpa, eager or flash_attention_2");
    if (c->weights->cast == PRECISION_BF16 && p->q->device.cc_major < 8)
        return inference_reason(p, c, "dtype-unsupported", "this GPU computes nothing in bf16: fp16");
    if (p->q->tensor_parallel > p->q->gpus)
        return inference_reason(p, c, "needs-gpus", "tensor_parallel wants more GPUs than the cluster has");
    if (p->q->engine == ENGINE_VLLM && !inference_vllm_offers(p, c, &rc))
        return rc;
    if (p->q->litgpt && (c->weights->packed.kind || c->weights->kbit == KBIT_INT8 || c->spread))
        return inference_reason(p, c, "not-modelled", "of litgpt's generate: weights in bf16, fp16, fp32 and 4 bits on one GPU");
    rc = resolve(p, c->weights, &c->step);
    if (!rc && p->q->engine == ENGINE_TRANSFORMERS && p->q->kv_bytes == 2 && inference_dtype(c) == DTYPE_FP32)
        return inference_reason(p, c, "not-offered", "generate() keeps keys and values as the weights are, in fp32: kv_cache auto, or weights in half");
    if (!rc && p->q->engine == ENGINE_TRANSFORMERS && p->q->cache == CACHE_FP8 && !c->step.quirks.cache_in_fp8)
        return inference_reason(p, c, "not-offered", "generate() keeps a cache in fp8 from transformers 5.21 on");
    if (!rc && p->q->engine == ENGINE_TRANSFORMERS && p->q->cache == CACHE_STATIC && !c->step.quirks.generate_drops_mask)
        return inference_reason(p, c, "not-modelled", "a static cache is modelled from transformers 5.18 on");
    if (!rc && p->q->engine == ENGINE_TRANSFORMERS && c->weights->packed.kind == PACKING_MXFP4)
        rc = mxfp4_gap(p, c, &stays);
    if (!rc && !stays)
        return ERR_OK;
    if (!rc && c->weights->packed.kind == PACKING_FP8 && !c->step.quirks.has_finegrained_fp8)
        return inference_reason(p, c, "not-offered", "transformers reads fp8 checkpoints from 4.49 on");
    if (!rc && c->weights->packed.kind == PACKING_FP8 && p->q->device.cc_major * 10 + p->q->device.cc_minor < 89)
        return inference_reason(p, c, "dtype-unsupported", "fp8 products take compute capability 8.9 or newer (quantizer_finegrained_fp8.py)");
    if (!rc && c->weights->unpacks == PACKING_FP8 && !p->q->asked && !c->step.quirks.fp8_unpacks_below)
        return inference_reason(p, c, "not-offered", "transformers before 5.0 raises where fp8 products have no GPU, since then it unpacks them");
    if (!rc)
        rc = p->q->engine == ENGINE_VLLM ? inference_vllm(p, c) : degree_gap(p);
    if (!rc && p->q->engine != ENGINE_VLLM)
        rc = p->q->on_host ? inference_host(p, c) : c->spread ? spread(p, c) : settle(p, c, REPLAY_PLAYED);
    return rc ? take_error(p, c, rc) : ERR_OK;
}

/* Nobody asked to lose precision where the weights have room, nor to wait for the host where they have it quantised. */
static int rank_of(const struct inference_candidate *c)
{
    if (c->spread && (c->devices->host_layers || c->devices->disk_layers))
        return 2;
    return c->weights->kbit != KBIT_NONE;
}

static bool is_better(const struct inference_candidate *a, const struct inference_candidate *b)
{
    if (a->modelled != b->modelled)
        return a->modelled;
    if (a->fits != b->fits)
        return a->fits;
    if (!a->fits && a->modelled)
        return a->device_bytes < b->device_bytes; /* the nearest miss */
    if (a->fits && rank_of(a) != rank_of(b))
        return rank_of(a) < rank_of(b);
    if (a->tokens_per_s <= 0)
        return a->fits && a->bound_tokens_per_s > b->bound_tokens_per_s * 1.005;
    return a->fits && a->tokens_per_s > b->tokens_per_s * 1.005;
}

/* Stable: what was to be tried first stays first among equals. */
static void rank(struct inference_answer *a)
{
    for (uint32_t i = 1; i < a->n; i++)
        for (uint32_t k = i; k > 0 && is_better(&a->candidates[k], &a->candidates[k - 1]); k--) {
            struct inference_candidate t = a->candidates[k];

            a->candidates[k] = a->candidates[k - 1];
            a->candidates[k - 1] = t;
        }
}

/* The first one token by token, as far as the work that is left allows: else it stays as it was. false: it no longer fits, another is first. */
static bool in_full(struct inferring *p, struct inference_candidate *c)
{
    struct inference_candidate before = *c;

    if (c->spread || p->q->on_host)
        return true;
    if (settle(p, c, REPLAY_ALL)) {
        *p->err = (struct err){0};
        *c = before;
    }
    return c->fits == before.fits;
}

/* Not known where the work ends before it is found. */
static void look_for_largest(struct inferring *p, struct inference_candidate *c)
{
    if (!c->modelled || c->spread || p->q->engine == ENGINE_VLLM)
        return;
    c->largest_known = !find_largest(p, c);
    *p->err = (struct err){0};
}

enum err_code plan_inference(const struct inference_question *q, struct arena *keep, struct arena *scratch, struct inference_answer *ret, struct err *err)
{
    struct inferring p = {q, keep, scratch, err};
    bool spreads = q->engine == ENGINE_TRANSFORMERS && q->tensor_parallel == 1 && q->gpus_per_node > 1 && !q->spread_alone && !q->spread_never;
    struct inference_answer a = {.n = q->n_weights + spreads};
    enum err_code rc = ERR_OK;

    a.candidates = arena_array(keep, struct inference_candidate, a.n);
    if (!a.candidates)
        return no_room(&p);
    for (uint32_t i = 0; i < a.n && !rc; i++) {
        a.candidates[i].spread = q->spread_alone || (spreads && i == 1); /* of the first form, behind it on one GPU */
        a.candidates[i].weights = &q->weights[spreads && i ? i - 1 : i];
        rc = answer_one(&p, &a.candidates[i]);
    }
    rank(&a);
    for (uint32_t i = 0; i < a.n && !rc && a.candidates->modelled && q->engine != ENGINE_VLLM && !in_full(&p, a.candidates); i++)
        rank(&a);
    for (uint32_t i = 0; i < a.n; i++) {
        look_for_largest(&p, &a.candidates[i]);
        a.any_modelled |= a.candidates[i].modelled;
        a.any_fits |= a.candidates[i].modelled && a.candidates[i].fits;
    }
    *ret = a;
    return rc;
}
