#include "models/stage.h"

#include "models/program.h"

void stage_layers(uint32_t layers, uint32_t index, uint32_t n, uint32_t *first, uint32_t *end)
{
    uint32_t each = layers / n, longer = layers % n;

    *first = index * each + (index < longer ? index : longer);
    *end = *first + each + (index < longer);
}

/* The list of layers keeps the names of those that stay. */
static void keep_layers(struct model *m, uint32_t first, uint32_t end)
{
    struct module *list = module_list(&m->tree), *next;
    uint32_t i = 0;

    for (struct module *l = list ? list->first : NULL; l; l = next, i++) {
        next = l->next;
        if (i < first || i >= end)
            module_unlink(l);
    }
    m->tree.n_layers = end - first;
}

static enum err_code gap(const struct model *m, struct err *err)
{
    char why[200];

    if (m->source && program_stage_gap(m, why, sizeof why))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "%.40s is not cut into stages of a pipeline: %s", m->arch->model_type, why);
    if (!m->source || !program_has_stage(m))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/methods",
                       "a pipeline stage is cut from models of embed_tokens, rotary_emb, layers and norm, which %.40s is not", m->arch->model_type);
    if (!m->q->rope_once || !m->q->checkpoint_keywords)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/torch", "torch.distributed.pipelining is modelled for torch 2.4 and newer with transformers 5");
    return ERR_OK;
}

enum { MODULES_MOST = 8 };

/* Buffers of the whole stack (masks as long as its positions) belong to no module that a stage has; what the embeddings take is the first's. */
static void drop_buffers(const struct model *of, struct module *list)
{
    struct module *m = list ? list->parent : NULL;
    struct param *first = NULL, *last = NULL;

    for (struct param *q = m ? m->params : NULL, *next; q; q = next) {
        next = q->next;
        if (q->buffer && (of->first_layer || !program_first_has(of, q->name)))
            continue;
        q->next = NULL;
        if (last)
            last->next = q;
        else
            first = q;
        last = q;
    }
    if (m) {
        m->params = first;
        m->last_param = last;
    }
}

static void take_off(struct module **modules, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        module_unlink(modules[i]);
}

enum err_code stage_cut(struct model *m, uint32_t index, uint32_t n, struct err *err)
{
    struct module *before[MODULES_MOST], *behind[MODULES_MOST];
    enum err_code rc;

    stage_layers(m->n_layers, index, n, &m->first_layer, &m->end_layer);
    rc = gap(m, err);
    if (rc)
        return rc;
    drop_buffers(m, module_list(&m->tree));
    keep_layers(m, m->first_layer, m->end_layer);
    m->tree.head->weight->tied = NULL;
    if (index)
        take_off(before, program_before_layers(m, before, MODULES_MOST));
    if (index + 1 < n) {
        take_off(behind, program_behind_layers(m, behind, MODULES_MOST));
        module_unlink(m->tree.head);
    }
    m->starts = !index;
    m->ends = index + 1 == n;
    return ERR_OK;
}
