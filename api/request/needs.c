/* Which configs a request needs, each once. */
#include "api/request/named.h"
#include "api/routes.h"

#include <string.h>

/* FNV-1a. */
static uint32_t hash(uint32_t h, const char *s)
{
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 16777619U;
    return (h ^ '@') * 16777619U;
}

static bool is_same(const struct api_need *need, const char *model, const char *revision)
{
    return !strcmp(need->model, model) && !strcmp(need->revision, revision);
}

bool needs_init(struct needs *needs, uint32_t most)
{
    needs->most = most;
    needs->n_slots = most * 4;
    needs->v = arena_array(needs->arena, struct api_need, most);
    needs->slots = arena_array(needs->arena, uint16_t, needs->n_slots);
    return needs->v && needs->slots;
}

enum api_code_wanted need_of_code(const char *program, bool has_modeling)
{
    if (has_modeling)
        return API_CODE_NEVER;
    return !program ? API_CODE_UNKNOWN : strcmp(program, "hub") ? API_CODE_NEVER : API_CODE_ASKED;
}

static uint32_t need_also(struct needs *needs, uint32_t i, enum api_code_wanted code)
{
    if (needs->v[i].code < code)
        needs->v[i].code = code;
    return i;
}

uint32_t need_add(struct needs *needs, const char *model, const char *revision, enum api_code_wanted code)
{
    uint32_t at;

    if (!model)
        return API_NO_NEED;
    model = model_named(model, needs->arena, &revision);
    if (!model) {
        needs->full = true;
        return API_NO_NEED;
    }
    if (!revision)
        revision = "main";
    if (model_id_fault(model) || revision_fault(revision))
        return API_NO_NEED;
    for (at = hash(hash(2166136261U, model), revision) % needs->n_slots; needs->slots[at]; at = (at + 1) % needs->n_slots)
        if (is_same(&needs->v[needs->slots[at] - 1], model, revision))
            return need_also(needs, needs->slots[at] - 1U, code);
    if (needs->n == needs->most)
        return API_NO_NEED;
    needs->v[needs->n].model = model; /* in the arena: the document does not outlive this call */
    needs->v[needs->n].revision = arena_str(needs->arena, revision, strlen(revision));
    if (!needs->v[needs->n].model || !needs->v[needs->n].revision) {
        needs->full = true;
        return API_NO_NEED;
    }
    needs->slots[at] = (uint16_t)++needs->n;
    return need_also(needs, needs->n - 1, code);
}
