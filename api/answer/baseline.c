/* LLMem's own answer beside ours: the block `llmem`, and its figures of its methods where a request names them. */
#include "api/answer/estimate.h"

#include "plan/baseline.h"

#include <string.h>

/* The method of LLMem that a name means; LLMEM_METHODS: none. */
static enum llmem_method method_of(const char *name)
{
    int m = 0;

    while (m < LLMEM_METHODS && strcmp(name, llmem_method_name((enum llmem_method)m)))
        m++;
    return (enum llmem_method)m;
}

static unsigned named(const struct methods *m)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->n; i++)
        n += method_of(m->v[i]) != LLMEM_METHODS;
    return n;
}

bool baseline_only(const struct estimate_request *rq)
{
    return rq->training.methods.n && named(&rq->training.methods) == rq->training.methods.n;
}

/* stack.framework colossalai names its methods; what LLMem ran them with is their stack where a request names none. */
void baseline_take(struct estimate *e)
{
    struct estimate_request *rq = &e->rq;
    struct methods *m = &rq->training.methods;
    const struct words *f = &rq->stack.framework;

    if (f->n && framework_words[f->at[0]].value == FRAMEWORK_COLOSSAL && !m->n)
        for (int i = 0; i < LLMEM_METHODS; i++)
            m->v[m->n++] = llmem_method_name((enum llmem_method)i);
    if (!baseline_only(rq) || rq->stack.torch || rq->stack.transformers)
        return;
    rq->stack.torch = "2.0.1";
    rq->stack.transformers = "4.29.2";
    note(&e->assumptions,
         "LLMem's methods run on LLMem's stack where none is named: torch 2.0.1, transformers 4.29.2, Colossal-AI 0.3.0 as its repository changes it");
}

/* The length that our own candidates take: resolve.c. */
static uint32_t length_of(const struct estimate *e)
{
    uint32_t most = e->model.arch.max_positions;

    if (e->rq.training.seq_len.set)
        return (uint32_t)e->rq.training.seq_len.whole;
    return most && most < 2048 ? most : 2048;
}

/* A sentence for whoever reads the figure. */
static void assume(struct estimate *e, const struct baseline_question *q)
{
    note_of(&e->assumptions, NOTE_OF_INTERNALS, "llmem: fp16 with fp32 masters, Adam, checkpointing, one node, as in the paper, whatever was asked%s",
         e->rq.llmem.base_bytes.set ? "" : "; base_bytes 600 MiB: 0.55 to 0.65 GiB fits its repository's formula on a V100");
    if (e->baseline.methods[LLMEM_DPTP].beyond_paper && !q->left_out[LLMEM_DPTP])
        note_of(&e->assumptions, NOTE_OF_INTERNALS, "llmem_dptp: the paper's equation is right for 2 x 2 GPUs alone");
}

/* Files that others wrote need not run in fp16 on the newest stack, which the paper's figures are of: then these are not told. */
static bool goes_without(const struct estimate *e, enum err_code rc)
{
    return (rc == ERR_LEAVES_LANGUAGE || rc == ERR_SCRIPT_RAISED) && (e->model.n_files || e->model.installed) && !baseline_only(&e->rq);
}

enum err_code baseline_read(struct estimate *e, struct arena *scratch)
{
    const struct estimate_request *rq = &e->rq;
    const struct training_request *t = &rq->training;
    struct baseline_question q = {
        .arch = &e->model.arch,
        .model_id = e->model.id,
        .variant = rq->llmem.variant.n ? (enum llmem_variant)llmem_words[rq->llmem.variant.at[0]].value : LLMEM_PAPER,
        .seq_len_tokens = length_of(e),
        .gpus = e->question.gpus,
        .tensor_parallel = (uint32_t)t->tensor_parallel.whole,
        .micro_batch_size = (uint32_t)t->micro_batch_size.whole,
        .base_bytes = rq->llmem.base_bytes.set ? rq->llmem.base_bytes.whole : LLMEM_DEFAULT_BASE_BYTES,
        .capacity_bytes = e->question.capacity_bytes,
    };
    enum err_code rc;

    if (!e->model.has_program || (rq->workload.n && workload_words[rq->workload.at[0]].value == WORD_UNMODELLED))
        return ERR_OK;
    if (named(&t->methods))
        for (int m = 0; m < LLMEM_METHODS; m++)
            q.left_out[m] = true;
    for (unsigned i = 0; i < t->methods.n; i++)
        if (method_of(t->methods.v[i]) != LLMEM_METHODS)
            q.left_out[method_of(t->methods.v[i])] = false;
    rc = baseline_answer(&q, scratch, &e->baseline, e->call->err);
    if (goes_without(e, rc)) {
        *e->call->err = (struct err){0};
        return ERR_OK;
    }
    if (rc)
        return rc;
    e->has_baseline = true;
    assume(e, &q);
    return ERR_OK;
}

/* --- written -------------------------------------------------------------------------------------------------------------------- */

static void write_terms(struct jsonw *w, const struct llmem_terms *t)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } rows[] = {
        {"m_base_bytes", t->m_base_bytes},     {"m_p16_bytes", t->m_p16_bytes}, {"m_p32_bytes", t->m_p32_bytes},
        {"m_gather_bytes", t->m_gather_bytes}, {"m_os_bytes", t->m_os_bytes},   {"lm_p_bytes", t->lm_p_bytes},
        {"m_in_bytes", t->m_in_bytes},         {"m_out_bytes", t->m_out_bytes}, {"m_logits_bytes", t->m_logits_bytes},
        {"m_back_bytes", t->m_back_bytes},
    };

    jsonw_object(w, "terms");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        jsonw_u64(w, rows[i].name, rows[i].bytes);
    jsonw_u64(w, "cs_elems", t->cs_elems);
    jsonw_end(w);
}

/* LLMem's own figures beside ours, of one of its methods. */
void baseline_write_figures(struct jsonw *w, const struct estimate *e, const char *name)
{
    enum llmem_method method = method_of(name);
    const struct llmem_method_answer *m = method == LLMEM_METHODS ? NULL : &e->baseline.methods[method];

    if (!m || !e->has_baseline || m->absent)
        return;
    jsonw_object(w, "llmem");
    jsonw_u64(w, "micro_batch_size", m->peak_micro_batch_size);
    jsonw_u64(w, "max_micro_batch_size", m->max_micro_batch_size);
    jsonw_u64(w, "peak_bytes", m->peak_bytes);
    jsonw_fixed(w, "evaluation", m->evaluation, 2);
    write_terms(w, &m->terms);
    jsonw_end(w);
}

/* Where nothing of LLMem's fits, it names CPU offloading, which has no figure. */
void baseline_write_offload(struct jsonw *w)
{
    jsonw_str(w, "method", llmem_method_name(LLMEM_OFFLOAD));
    jsonw_u64(w, "micro_batch_size", 0);
    jsonw_object(w, "recommendation");
    jsonw_bool(w, "fits", false);
    jsonw_str(w, "method", llmem_method_name(LLMEM_OFFLOAD));
    jsonw_object(w, "reason");
    jsonw_str(w, "code", "does-not-fit");
    jsonw_str(w, "detail", "no method of LLMem's fits: it names CPU offloading then, which is not modelled");
    jsonw_end(w);
    jsonw_end(w);
}

void baseline_write(struct jsonw *w, const struct estimate *e)
{
    const struct llmem_answer *a = &e->baseline;

    if (!e->has_baseline)
        return;
    jsonw_object(w, "llmem");
    jsonw_str(w, "method", llmem_method_name(a->method));
    jsonw_u64(w, "micro_batch_size", a->micro_batch_size);
    if (a->peak_bytes)
        jsonw_u64(w, "peak_bytes", a->peak_bytes);
    else
        jsonw_null(w, "peak_bytes");
    jsonw_str(w, "variant", llmem_variant_name(a->variant));
    jsonw_end(w);
}
