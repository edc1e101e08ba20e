#include "models/split.h"

#include "models/program.h"

#include <string.h>

struct rule {
    enum family family;
    const char *path; /* below a layer */
    enum split split;
};
static const struct rule rules[] = {
#define FAMILY_SPLIT(family, path, split) {FAMILY_##family, path, SPLIT_##split},
#include "models/splits.def"
#undef FAMILY_SPLIT
};
enum { RULES = sizeof rules / sizeof *rules };

static bool has_plan(enum family f)
{
    for (unsigned i = 0; i < RULES; i++)
        if (rules[i].family == f)
            return true;
    return false;
}

static enum err_code gap(const struct arch *a, const struct quirks *q, struct err *err)
{
    if (!q->tensor_parallel_plans)
        return err_set(err, ERR_FIELD_CONFLICT, "/stack/transformers", "tensor parallelism over DTensor is modelled for transformers 5");
    if (!a->program && !has_plan(a->family))
        return err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "transformers has no tensor parallel plan for %.40s", a->model_type);
    if (a->family == FAMILY_GPT_NEOX && a->tie_embeddings)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/methods", "the plan of gpt_neox cuts the head alone: with tied embeddings that is not modelled");
    return ERR_OK;
}

static enum split split_of(enum family f, const char *path)
{
    for (unsigned i = 0; i < RULES; i++)
        if (rules[i].family == f && !strcmp(rules[i].path, path))
            return rules[i].split;
    return SPLIT_NONE;
}

/* Modules two below a layer, as every rule names them: "self_attn.q_proj". */
static void split_layer(const struct model *m, struct module *layer)
{
    for (struct module *part = layer->first; part; part = part->next)
        for (struct module *leaf = part->first; leaf; leaf = leaf->next) {
            char path[64];
            size_t n = strlen(part->name), k = strlen(leaf->name);

            if (n + k + 2 > sizeof path)
                continue;
            memcpy(path, part->name, n);
            path[n] = '.';
            memcpy(path + n + 1, leaf->name, k + 1);
            leaf->split = (uint8_t)split_of(m->arch->family, path);
        }
}

enum err_code split_apply(struct model *m, struct err *err)
{
    struct module *list = module_list(&m->tree);
    enum err_code rc = gap(m->arch, m->q, err);

    if (!rc && m->source)
        rc = program_split(m, err);
    if (rc)
        return rc;
    for (struct module *l = m->source ? NULL : list ? list->first : NULL; l; l = l->next)
        split_layer(m, l);
    if (m->embeddings && !strcmp(m->embeddings->name, "embed_tokens"))
        m->embeddings->split = SPLIT_VOCABULARY;
    if (m->tree.head)
        m->tree.head->split = SPLIT_COLUMNS_GATHERED;
    return ERR_OK;
}
