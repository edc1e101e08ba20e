#include "models/model.h"

#include "models/families.h"

static const struct family_program *const programs[FAMILY_COUNT] = {
#define FAMILY_PROGRAM(id, program) [FAMILY_##id] = &(program),
#include "models/families.def"
#undef FAMILY_PROGRAM
};

const struct family_program *family_program(enum family family)
{
    return family < FAMILY_COUNT ? programs[family] : NULL;
}

enum err_code model_declare(struct model *m, struct err *err)
{
    m->family = family_program(m->arch->family);
    if (!m->family)
        return err_set(err, ERR_ARCH_UNKNOWN, "/model_type", "'%.40s' has no program here yet", m->arch->model_type);
    m->n_layers = m->arch->layers;
    m->cache = arena_array(m->tree.arena, val, 2 * (size_t)m->arch->layers);
    if (!m->cache)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for a model of this size");
    m->family->declare(m);
    if (m->tree.error.code) {
        *err = m->tree.error;
        return err->code;
    }
    return ERR_OK;
}

val call_head(struct run *r, struct model *m, val hidden)
{
    val logits = call(r, m->tree.head, hidden);

    r->stage = STAGE_LOSS;
    return logits;
}

val call_embeddings(struct run *r, struct model *m, val ids)
{
    val x = call(r, m->embeddings, ids);

    if (m->embeddings_require_grad && x && !r->values[x].requires_grad)
        require_grad(r, x);
    return x;
}
