/* repository.c - what size_estimator.py computes, with the chunks that it finds on the GPU laid out instead. */
#include "llmem/chunks.h"
#include "llmem/round.h"
#include "llmem/variants.h"

/* param_bytes(): fp16 of the other GPUs that is gathered beside the chunks. Nothing under TP alone or on one GPU. */
static uint64_t gathered(const struct layout *l, uint64_t fp16_bytes)
{
    uint64_t gpus = (uint64_t)l->dp * l->tp;

    if (l->dp == 1)
        return 0;
    return paged_share(fp16_bytes, l->tp == 1 ? gpus - 1 : gpus - l->tp - 1, gpus);
}

static void add_tensor(const struct layout *l, uint64_t elems, struct llmem_terms *ret)
{
    ret->m_gather_bytes += gathered(l, paged(elems * 2));
    ret->m_os_bytes += 2 * paged_share(elems, 4, (uint64_t)l->dp * l->tp);
}

/* Weights and biases of every Embedding and Linear, a tied lm_head once more; the last of them, meant to be the lm_head's weight,
 * is fp16 alone. */
static void at_rest(const struct llmem_question *q, const struct layout *l, struct llmem_terms *ret)
{
    struct chunks c = chunks_of(&q->model, l->tp, l->dp);
    const struct llmem_tensor *last = NULL;

    for (uint32_t i = 0; i < q->model.n; i++) {
        if (q->model.tensors[i].kind == LLMEM_OTHER)
            continue;
        if (last)
            add_tensor(l, last->elems, ret);
        last = &q->model.tensors[i];
    }
    ret->lm_p_bytes = last ? paged(last->elems * 2) : 0;
    ret->m_p16_bytes = c.fp16_bytes;
    ret->m_p32_bytes = c.fp32_bytes;
    ret->cs_elems = c.cs_elems;
    ret->n_chunks = c.n;
    ret->m_in_bytes = paged(2 * 8 * (uint64_t)q->seq_len_tokens); /* its probe is batch["input_ids"][0:2], int64 */
}

/* get_output_sizes(): two embeddings, every layer but the first, what the last one or project_out returns. backward_all_gather_sizes:
 * every layer but the first, and project_out. */
static void of_batch(const struct llmem_question *q, const struct layout *l, uint32_t batch, struct llmem_terms *ret)
{
    const struct llmem_model *m = &q->model;
    bool projected = m->embed_dim != m->hidden;
    uint64_t tokens = times(batch, q->seq_len_tokens), hidden = times(tokens, 2 * (uint64_t)m->hidden);
    uint64_t embedding = times(tokens, 2 * (uint64_t)m->embed_dim), layers = m->layers ? m->layers - 1 : 0;

    ret->m_out_bytes = plus(times(layers, paged(hidden)), times(3, paged(embedding)));
    ret->m_back_bytes = times(layers, paged_share(hidden, l->tp - 1, l->tp));
    if (projected)
        ret->m_back_bytes = plus(ret->m_back_bytes, paged_share(embedding, l->tp - 1, l->tp));
    ret->m_logits_bytes = llmem_logits_bytes(q, batch);
}

const struct variant llmem_repository = {"repository", at_rest, of_batch};
