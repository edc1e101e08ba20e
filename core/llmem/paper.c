/* paper.c - the equations as the paper has them. Numbers in brackets are those of docs/internals/llmem.md. */
#include "llmem/round.h"
#include "llmem/variants.h"

struct sums {
    uint64_t embed_p, lm_p, other_p; /* elements: input embedding, lm_head, the rest */
    uint64_t embeddings, linears;    /* weights by kind */
    uint32_t e_n;
};

/* A tied lm_head is the embedding; biases and norms are taken to fit into fragments of the states. */
static void count(const struct llmem_tensor *t, struct sums *s)
{
    if (t->lm_head && t->kind == LLMEM_LINEAR_WEIGHT)
        s->lm_p = t->elems;
    if (t->tied)
        return;
    if (t->kind == LLMEM_EMBEDDING)
        s->embeddings += t->elems;
    if (t->kind == LLMEM_LINEAR_WEIGHT)
        s->linears += t->elems;
    s->e_n += t->kind == LLMEM_EMBEDDING;
    if (t->input_embedding)
        s->embed_p += t->elems;
    else if (!t->lm_head)
        s->other_p += t->elems;
}

static struct sums sums_of(const struct llmem_model *m)
{
    struct sums s = {0};

    for (uint32_t i = 0; i < m->n; i++)
        count(&m->tensors[i], &s);
    return s;
}

/* (6) ADP: states divided, fp16 complete. (7) TP: all divided. (9) DP+TP: as ADP less m_p16 * tp / gpus. */
static void divide(const struct layout *l, struct llmem_terms *t)
{
    uint64_t gpus = (uint64_t)l->dp * l->tp;

    t->m_p32_bytes = divide_up(t->m_p32_bytes, gpus);
    t->m_os_bytes = divide_up(t->m_os_bytes, gpus);
    if (l->method == LLMEM_TP)
        t->m_p16_bytes = divide_up(t->m_p16_bytes, gpus);
    if (l->method == LLMEM_DPTP)
        t->m_p16_bytes -= t->m_p16_bytes * l->tp / gpus;
}

/* (2) to (5). cs is that of the whole model: the equations know no degree. m_p is rounded as a whole, a third of it is fp16. */
static void at_rest(const struct llmem_question *q, const struct layout *l, struct llmem_terms *ret)
{
    struct sums s = sums_of(&q->model);
    const struct chunks *c = l->undivided;
    uint64_t others = c->cs_elems ? divide_up(s.other_p, c->cs_elems) * c->cs_elems : 0, m_p = paged(times(s.embed_p + others, 2 + 4));

    ret->m_p16_bytes = m_p * 2 / (2 + 4);
    ret->m_p32_bytes = m_p - ret->m_p16_bytes;
    ret->m_os_bytes = paged(times(s.embeddings, 4 + 4)) + paged(times(s.linears, 4 + 4));
    ret->lm_p_bytes = s.lm_p * 2;
    ret->cs_elems = c->cs_elems;
    ret->n_chunks = c->n;
    divide(l, ret);
}

/* (4), (5), (8): a checkpoint of each layer and of each embedding layer */
static void of_batch(const struct llmem_question *q, const struct layout *l, uint32_t batch, struct llmem_terms *ret)
{
    const struct llmem_model *m = &q->model;
    uint64_t hidden = times(times(batch, q->seq_len_tokens), 2 * (uint64_t)m->hidden);

    ret->m_out_bytes = paged(times(sums_of(m).e_n + m->layers, hidden));
    ret->m_logits_bytes = llmem_logits_bytes(q, batch);
    ret->m_back_bytes = paged_share(times(m->layers, hidden), l->tp - 1, l->tp);
}

const struct variant llmem_paper = {"paper", at_rest, of_batch};
