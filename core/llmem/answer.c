#include "llmem/llmem.h"

#include "llmem/round.h"
#include "llmem/variants.h"

static const struct variant *const variants[] = {[LLMEM_PAPER] = &llmem_paper, [LLMEM_REPOSITORY] = &llmem_repository};

static const char *const method_names[] = {
    [LLMEM_CDP] = "llmem_cdp", [LLMEM_ADP] = "llmem_adp", [LLMEM_TP] = "llmem_tp", [LLMEM_DPTP] = "llmem_dptp", [LLMEM_OFFLOAD] = "offload",
};

const char *llmem_method_name(enum llmem_method method)
{
    return method_names[method];
}

const char *llmem_variant_name(enum llmem_variant variant)
{
    return variants[variant]->name;
}

uint64_t llmem_logits_bytes(const struct llmem_question *q, uint32_t batch)
{
    uint64_t row = times(times(batch, q->model.vocab), q->model.logits_fp32[q->variant] ? 4 : 2);

    return plus(paged(times(row, q->seq_len_tokens)), times(2, paged(times(row, q->seq_len_tokens - 1))));
}

/* -------------------------------------------------------------------------------------------------------------- methods */
static struct layout layout_of(const struct llmem_question *q, enum llmem_method method, const struct chunks *undivided)
{
    uint32_t tp = q->tensor_parallel ? q->tensor_parallel : LLMEM_DEFAULT_TENSOR_PARALLEL;
    struct layout l = {.method = method, .dp = 1, .tp = 1, .undivided = undivided};

    if (method == LLMEM_ADP)
        l.dp = q->gpus;
    if (method == LLMEM_TP)
        l.tp = q->gpus;
    if (method == LLMEM_DPTP) {
        l.tp = tp;
        l.dp = q->gpus / tp;
    }
    return l;
}

/* Why the equations say nothing of it; NULL: they do. */
static const char *absence(const struct llmem_question *q, const struct layout *l)
{
    const struct llmem_model *m = &q->model;

    if (q->left_out[l->method])
        return "was not asked for";
    if (l->method == LLMEM_DPTP && (l->tp == 1 || l->dp < 2 || q->gpus % l->tp))
        return "needs a tensor-parallel degree that divides the GPUs and is neither 1 nor all of them";
    if (m->hidden % l->tp || m->ffn % l->tp || m->embed_dim % l->tp) /* Colossal-AI asserts it */
        return "needs a hidden size and an FFN that the tensor-parallel degree divides";
    return NULL;
}

static uint64_t peak_of(const struct llmem_terms *t)
{
    const uint64_t terms[] = {t->m_base_bytes, t->m_p16_bytes, t->m_p32_bytes, t->m_gather_bytes, t->m_os_bytes,
                              t->lm_p_bytes,   t->m_in_bytes,  t->m_out_bytes, t->m_logits_bytes, t->m_back_bytes};
    uint64_t sum = 0;

    for (unsigned i = 0; i < sizeof terms / sizeof *terms; i++)
        sum = plus(sum, terms[i]);
    return sum;
}

static uint64_t peak_at(const struct llmem_question *q, const struct layout *l, uint32_t batch, struct llmem_terms *t)
{
    variants[q->variant]->of_batch(q, l, batch, t);
    return peak_of(t);
}

/* Algorithm 1 counts up by one; no peak falls with the batch, so doubling and halving find the same. */
static uint32_t largest(const struct llmem_question *q, const struct layout *l, struct llmem_terms *t)
{
    uint32_t fits = 0, fails = 1;

    while (fails < LLMEM_MAX_BATCH && peak_at(q, l, fails, t) <= q->capacity_bytes) {
        fits = fails;
        fails *= 2;
    }
    while (fails - fits > 1) {
        uint32_t middle = fits + (fails - fits) / 2;

        if (peak_at(q, l, middle, t) <= q->capacity_bytes)
            fits = middle;
        else
            fails = middle;
    }
    return fits;
}

/* Samples of one iteration; ZeRO-3 moves 1.5 times the bytes of plain data parallel, which CDP gets as a bonus. */
static double evaluation(const struct llmem_question *q, const struct layout *l, uint32_t batch)
{
    if (l->method == LLMEM_CDP)
        return (double)batch * q->gpus * 1.5;
    return (double)batch * l->dp;
}

static void judge(const struct llmem_question *q, enum llmem_method method, const struct chunks *undivided, struct llmem_method_answer *ret)
{
    struct layout l = layout_of(q, method, undivided);
    struct llmem_method_answer a = {.absent = absence(q, &l)};

    if (!a.absent) {
        a.terms.m_base_bytes = q->base_bytes;
        variants[q->variant]->at_rest(q, &l, &a.terms);
        a.max_micro_batch_size = largest(q, &l, &a.terms);
        a.evaluation = evaluation(q, &l, a.max_micro_batch_size);
        a.peak_micro_batch_size = q->micro_batch_size ? q->micro_batch_size : a.max_micro_batch_size ? a.max_micro_batch_size : 1;
        a.peak_bytes = peak_at(q, &l, a.peak_micro_batch_size, &a.terms);
        a.dp = method == LLMEM_CDP ? q->gpus : l.dp;
        a.tp = l.tp;
        a.beyond_paper = method == LLMEM_DPTP && (l.dp != 2 || l.tp != 2);
    }
    *ret = a;
}

/* ----------------------------------------------------------------------------------------------------------- Algorithm 1 */
static uint64_t lowest_peak(const struct llmem_answer *a)
{
    uint64_t lowest = 0;

    for (int i = 0; i < LLMEM_METHODS; i++)
        if (!a->methods[i].absent && (!lowest || a->methods[i].peak_bytes < lowest))
            lowest = a->methods[i].peak_bytes;
    return lowest;
}

void llmem_answer(const struct llmem_question *q, struct llmem_answer *ret)
{
    struct llmem_answer a = {.variant = q->variant, .method = LLMEM_OFFLOAD};
    struct chunks undivided = chunks_of(&q->model, 1, 1);
    double best = 0;

    for (int i = 0; i < LLMEM_METHODS; i++) {
        judge(q, (enum llmem_method)i, &undivided, &a.methods[i]);
        if (!a.methods[i].absent && a.methods[i].evaluation > best) {
            best = a.methods[i].evaluation;
            a.method = (enum llmem_method)i;
        }
    }
    a.peak_bytes = a.method == LLMEM_OFFLOAD ? lowest_peak(&a) : a.methods[a.method].peak_bytes;
    a.micro_batch_size = a.method == LLMEM_OFFLOAD ? 0 : a.methods[a.method].max_micro_batch_size;
    *ret = a;
}
