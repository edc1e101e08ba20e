/*
 * linear1d.c - 1-D tensor parallelism as tp_real.py asks for it: every Linear takes a part of its input's columns and sums over the ranks (colo_linear_1drow),
 * every Embedding has a part of its width, which is gathered (colo_embedding_1Dcol). What stands between runs on whole tensors.
 */
#include "parallel/colossal/inside.h"

#include "torch/autograd.h"
#include "torch/collective.h"
#include "torch/ops.h"

struct part {
    struct work_group ranks;
};

/* Input:S[1] x Weight:S[0] = Output:P, all-reduced in its place; the bias is whole on every rank. */
static val linear_forward(struct run *r, struct module *m, val x)
{
    const struct part *p = m->extra;
    val out = linear_op(r, shard_columns(r, x, p->ranks), m->weight->value, 0);

    all_reduce_in_place(r, out, p->ranks);
    return m->bias && !run_dead(r) ? add(r, out, m->bias->value) : out;
}

/* LLMem's copy calls output.to_replicate() once for nothing: gathered, and dropped. */
static val embedding_forward(struct run *r, struct module *m, val ids)
{
    const struct part *p = m->extra;
    val out = embedding_op(r, m->weight->value, ids, m->padding_idx);

    if (run_dead(r))
        return out;
    out = owned(r, out);
    consume(r, gather_list(r, out, p->ranks));
    r->values[out].floating = true;
    return gather_list(r, out, p->ranks);
}

static bool is_split(const struct module *m)
{
    return m->weight && (m->kind == MODULE_LINEAR || m->kind == MODULE_EMBEDDING);
}

bool colossal_is_cut(const struct module *m, const struct param *p)
{
    return is_split(m) && p == m->weight;
}

static void cut_module(struct wrapping *w, struct module *m)
{
    uint32_t ranks = w->o->at.tensor_parallel;
    module_forward forward = m->kind == MODULE_LINEAR ? linear_forward : embedding_forward;
    struct part *p = arena_new(w->tree->arena, struct part);

    if (!p || m->weight->size[1] % ranks) {
        run_fail(w->r, p ? ERR_FIELD_CONFLICT : ERR_NOMEM, "/training/tensor_parallel",
                 p ? "Colossal-AI cuts the last dimension of every Linear and Embedding, and these ranks do not divide all of them"
                   : "the working memory of one request is too small for tensor parallelism");
        return;
    }
    p->ranks = (struct work_group){ranks, 1};
    m->extra = p;
    if (m->forward == module_leaf_forward(m->kind))
        m->forward = forward;
    else
        m->within = forward;
    m->weight->size[1] /= ranks; /* a tied one too: who makes a tensor of its own for it asks for its size */
}

void colossal_cut(struct wrapping *w)
{
    for (uint32_t i = 1; i < w->tree->n_modules && !run_dead(w->r); i++)
        if (is_split(w->tree->modules[i]))
            cut_module(w, w->tree->modules[i]);
}
