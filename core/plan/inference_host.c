/*
 * inference_host.c - a candidate on a host without a GPU: the tensors of generate(), in a memory whose allocator keeps nothing back.
 *
 * Models    what lives of the model, its cache and a forward's tensors, without cuBLAS's workspaces. What CPU kernels take besides (scratch of attention a
 *           thread, weights that oneDNN orders anew for a product), the process and its libraries are not counted: the answer is a range from what stands
 *           between two tokens to what is alive at most.
 */
#include "plan/inference_inside.h"

#include "parallel/nccl.h"

#include <stdio.h>

bool inference_host_offers(struct inferring *p, struct inference_candidate *c, enum err_code *ret)
{
    const struct inference_question *q = p->q;
    const char *what = NULL;

    if (q->engine == ENGINE_VLLM)
        what = "vLLM's backend for CPUs is not modelled: engine transformers";
    else if (q->litgpt)
        what = "litgpt on a CPU is not modelled";
    else if (c->weights->kbit || c->weights->packed.kind)
        what = "packed weights on a CPU are not modelled: bf16, fp16 or fp32";
    else if (q->attention == ATTENTION_FLASH_2 || q->attention == ATTENTION_FLASH_3 || q->attention == ATTENTION_FLEX)
        what = "on a CPU attention is sdpa or eager";
    else if (q->tensor_parallel > 1)
        what = "tensor parallelism on a CPU is not modelled";
    if (what)
        *ret = inference_reason(p, c, "not-modelled", what);
    return !what;
}

/* Weights and the cache in the middle of the answer come from memory for each token, weights for the prompt. */
static void take_bound(const struct inference_question *q, struct inference_candidate *c)
{
    const struct generated *m = &c->memory;
    double table = (double)inference_table(q->arch, inference_dtype(c)), read = (double)m->static_bytes - table;
    double middle = (q->prompt_tokens + q->new_tokens / 2.0) / ((double)q->prompt_tokens + q->new_tokens);
    double all = read + (q->new_tokens - 1) * (read + middle * (double)m->kv_cache_bytes);

    if (q->host_bytes_per_s > 0 && all > 0)
        c->bound_tokens_per_s = (double)q->batch_size * q->new_tokens * q->host_bytes_per_s / all;
}

enum err_code inference_host(struct inferring *p, struct inference_candidate *c)
{
    const struct inference_question *q = p->q;
    struct generate_question g = inference_generate(p, c);
    unsigned char *mark = p->scratch->cur;
    double room = (double)q->capacity_bytes * (1 - q->margin);
    enum err_code rc;
    char text[96];

    g.replay = REPLAY_NONE;
    rc = generate(&g, p->scratch, &c->memory, p->err);
    arena_rewind(p->scratch, mark);
    if (rc)
        return rc;
    c->memory.peak_reserved_bytes = c->memory.peak_reserved_expandable_bytes = c->memory.peak_allocated_bytes;
    c->modelled = true;
    c->device_bytes = c->memory.peak_allocated_bytes;
    take_bound(q, c);
    c->fits = (double)c->device_bytes <= room;
    c->tight = c->fits && (double)c->device_bytes > 0.95 * (double)q->capacity_bytes;
    if (c->fits)
        return ERR_OK;
    (void)snprintf(text, sizeof text, "needs %.1f GiB more of the host's memory", ((double)c->device_bytes - room) / 1073741824.0);
    return inference_reason(p, c, "host-memory", text);
}
