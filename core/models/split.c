#include "models/split.h"

#include "models/program.h"

#include <string.h>

static bool has_table_by_rows(const struct model *m)
{
    return m->q->plans_cut_embeddings && m->embeddings && !strcmp(m->embeddings->name, "embed_tokens");
}

static enum err_code gap(const struct model *m, struct err *err)
{
    if (!m->q->tensor_parallel_plans)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "tensor parallelism is modelled as transformers 5.16 and later do it; before, other code cuts the weights");
    if (!m->q->plans_are_todays)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers",
                       "this release of transformers has no tensor parallel plan for %.40s, or another than 5.23's: that is modelled for 5.23",
                       m->arch->model_type);
    if (m->tree.head && m->tree.head->weight && m->tree.head->weight->tied && !has_table_by_rows(m))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "the plan of %.40s cuts the head alone: with tied embeddings that is not modelled",
                       m->arch->model_type);
    return ERR_OK;
}

enum err_code split_apply(struct model *m, struct err *err)
{
    enum err_code rc = gap(m, err);

    if (!rc)
        rc = program_split(m, err);
    if (rc)
        return rc;
    if (has_table_by_rows(m))
        m->embeddings->split = SPLIT_VOCABULARY;
    return ERR_OK;
}
