/* inference_vllm.c - a candidate that vLLM serves. See infer/vllm.h. */
#include "plan/inference_inside.h"

#include <stdio.h>

enum { DEFAULT_SEQS = 256 }; /* of the smaller GPUs: a larger batch has to be asked for there */

static double most(double a, double b)
{
    return a > b ? a : b;
}

uint64_t inference_table(const struct arch *a, enum dtype dtype)
{
    return a->tie_embeddings ? 0 : (uint64_t)a->vocab * a->hidden * dtype_bytes(dtype);
}

double inference_bound(const struct perf_system *s, enum dtype dtype, double bytes, double flops)
{
    if (!s || s->memory_bytes_per_s <= 0 || s->flops_per_s[dtype] <= 0)
        return 0;
    return most(bytes / s->memory_bytes_per_s, flops / s->flops_per_s[dtype]);
}

/* Weights of experts that a batch meets: with as many tokens as there are experts nearly all. */
static double weights_read(const struct vllm_answer *a, double batch, double experts, double used)
{
    double met = experts > 0 ? batch * used / experts : 1;

    return (double)(a->weights_bytes - a->expert_bytes) + (double)a->expert_bytes * (met < 1 ? met : 1);
}

/* A token in the middle of the answer for each request, and the prompts. */
static void take_bound(const struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    const struct vllm_answer *a = &c->vllm;
    enum dtype dtype = inference_dtype(c);
    double batch = q->batch_size, middle = q->prompt_tokens + q->new_tokens / 2.0, flops = 2 * a->active_parameters / q->tensor_parallel;
    double read = weights_read(a, batch, q->arch->experts, q->arch->experts_used) - (double)inference_table(q->arch, dtype) / q->tensor_parallel;

    c->token_s = inference_bound(q->system, dtype, read + batch * (middle * (double)a->bytes_per_token + (double)a->state_bytes), flops * batch);
    c->prefill_s = inference_bound(q->system, dtype, (double)a->weights_bytes, flops * batch * q->prompt_tokens);
    if (c->token_s > 0)
        c->bound_tokens_per_s = batch * q->new_tokens / (c->prefill_s + (q->new_tokens - 1) * c->token_s);
}

static enum err_code explain_start(struct inferring *p, struct inference_candidate *c)
{
    uint64_t longest = vllm_longest(&c->vllm, c->vllm.blocks.low ? c->vllm.blocks.low - 1 : 0, c->max_model_len);
    uint64_t at_most = vllm_longest(&c->vllm, c->vllm.blocks.high ? c->vllm.blocks.high - 1 : 0, c->max_model_len);
    char text[200];

    if (longest && c->start == START_MAYBE)
        (void)snprintf(text, sizeof text,
                       "what vLLM measures when it starts may leave blocks for %llu of the %u tokens of max_model_len: --max-model-len %llu surely starts",
                       (unsigned long long)longest, c->max_model_len, (unsigned long long)longest);
    else if (longest)
        (void)snprintf(text, sizeof text, "blocks are left for at most %llu of the %u tokens of max_model_len: --max-model-len %llu starts",
                       (unsigned long long)at_most, c->max_model_len, (unsigned long long)longest);
    else
        (void)snprintf(text, sizeof text, "weights, profile and graphs %s nothing of gpu_memory_utilization %.4g for blocks",
                       c->start == START_MAYBE ? "may leave" : "leave", p->q->utilization);
    return inference_reason(p, c, "does-not-fit", text);
}

static enum err_code explain_batch(struct inferring *p, struct inference_candidate *c)
{
    char text[160];

    (void)snprintf(text, sizeof text, "at most %u requests of this length are held at once: others wait", c->max_batch_size);
    return inference_reason(p, c, "does-not-fit", text);
}

/* One block is the null block: v1/core/block_pool.py */
static enum err_code judge(struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    const struct vllm_answer *a = &c->vllm;
    uint64_t usable = a->blocks.low ? a->blocks.low - 1 : 0, length = (uint64_t)q->prompt_tokens + q->new_tokens;
    uint64_t held = usable / vllm_blocks_of(a, length);
    bool free = (double)a->requested_bytes <= (double)q->capacity_bytes * (1 - q->margin) - (double)q->device.context_bytes;
    uint64_t needed = vllm_blocks_of(a, c->max_model_len);
    bool starts = a->blocks.low >= needed;

    c->start = starts ? START_SURE : a->blocks.high >= needed ? START_MAYBE : START_NEVER;

    c->largest_known = true;
    c->max_batch_size = (uint32_t)(held < a->max_num_seqs ? held : a->max_num_seqs);
    c->max_context_tokens = vllm_longest(a, usable, c->max_model_len);
    c->device_bytes = a->requested_bytes + q->device.context_bytes;
    c->fits = starts && length <= c->max_model_len && c->max_batch_size >= q->batch_size && free;
    c->tight = c->fits && held < 2 * (uint64_t)q->batch_size;
    if (!starts)
        return explain_start(p, c);
    if (length > c->max_model_len)
        return inference_reason(p, c, "does-not-fit", "prompt and answer are longer than max_model_len");
    if (!free)
        return inference_reason(p, c, "does-not-fit", "less memory is free than gpu_memory_utilization asks for, and vLLM does not start");
    return c->fits ? ERR_OK : explain_batch(p, c);
}

bool inference_vllm_offers(struct inferring *p, struct inference_candidate *c, enum err_code *ret)
{
    const char *type = p->q->arch->model_type, *last = vllm_gave_up(type);
    char text[160];

    if (c->weights->kbit) {
        *ret = inference_reason(p, c, "not-offered", "vLLM 0.33.0 has no bitsandbytes weights: gptq, awq, fp8, mxfp4 (model_executor/layers/quantization)");
    } else if (last) {
        (void)snprintf(text, sizeof text, "vLLM served %.40s until %s, and 0.33.0, whose rule this is, does not", type, last);
        *ret = inference_reason(p, c, "not-offered", text);
    }
    return !c->weights->kbit && !last;
}

enum err_code inference_vllm(struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    uint64_t length = (uint64_t)q->prompt_tokens + q->new_tokens;
    unsigned char *mark = p->scratch->cur;
    struct vllm_question v = {
        .model = inference_generate(p, c),
        .memory_bytes = q->device.usable_bytes,
        .utilization = q->utilization,
        .a100 = q->a100,
        .kv_bytes = q->kv_bytes ? q->kv_bytes : (unsigned)dtype_bytes(inference_dtype(c)),
        .tensor_parallel = q->tensor_parallel,
        .max_num_seqs = q->batch_size > DEFAULT_SEQS ? q->batch_size : 0,
        .batched_tokens = q->batched_tokens,
        .eager = q->eager,
    };
    enum err_code rc;

    c->max_model_len = q->max_model_len ? q->max_model_len : q->arch->max_positions ? q->arch->max_positions : (uint32_t)length;
    v.max_model_len = c->max_model_len;
    v.model.tensor_parallel = 1;
    rc = vllm_budget(&v, p->scratch, &c->vllm, p->err);
    arena_rewind(p->scratch, mark);
    if (rc)
        return rc;
    c->modelled = true;
    c->memory.parameters = c->vllm.parameters;
    take_bound(p, c);
    return judge(p, c);
}
