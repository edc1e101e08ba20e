#include "models/split.h"

#include "models/program.h"

#include <string.h>

static enum err_code gap(const struct arch *a, const struct quirks *q, struct err *err)
{
    if (!q->tensor_parallel_plans)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers", "tensor parallelism over DTensor is modelled for transformers 5");
    if (a->family == FAMILY_GPT_NEOX && a->tie_embeddings)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "the plan of gpt_neox cuts the head alone: with tied embeddings that is not modelled");
    return ERR_OK;
}

enum err_code split_apply(struct model *m, struct err *err)
{
    enum err_code rc = gap(m->arch, m->q, err);

    if (!rc)
        rc = program_split(m, err);
    if (rc)
        return rc;
    if (m->embeddings && !strcmp(m->embeddings->name, "embed_tokens"))
        m->embeddings->split = SPLIT_VOCABULARY;
    if (m->tree.head)
        m->tree.head->split = SPLIT_COLUMNS_GATHERED;
    return ERR_OK;
}
