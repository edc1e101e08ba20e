/* Which modules a LoraConfig's target_modules mean. */
#include "tuning/lora_inside.h"

#include "base/budget.h"

#include "stack/stack.h"

#include <stdio.h>
#include <string.h>

static bool ends_in(const char *path, size_t n, const char *target)
{
    size_t k = strlen(target);

    return n >= k && !strcmp(path + n - k, target) && (n == k || path[n - k - 1] == '.');
}

bool lora_means(const struct lora_options *o, const char *path, struct pattern_effort *effort)
{
    size_t n = strlen(path);
    bool ret = false;

    if (o->pattern)
        return pattern_matches(o->pattern, path, effort);
    for (uint32_t i = 0; i < o->n_targets && !ret; i++)
        ret = ends_in(path, n, o->targets[i]);
    effort->steps += o->n_targets;
    return ret;
}

bool lora_spares(const char *model_type, const struct quirks *q)
{
    static const char *const types[] = {"nemotron_h", "falcon_h1", "mamba", "mamba2", "falcon_mamba"}; /* the first since a later release */

    for (size_t i = q->lora_spares_mamba > 1 ? 0 : 1; q->lora_spares_mamba && i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i], model_type))
            return true;
    return false;
}

bool lora_saves(const struct lora_options *o, const char *path)
{
    size_t n = strlen(path);

    for (uint32_t i = 0; i < o->n_saved; i++) {
        size_t k = strlen(o->saved_names[i]);

        if (n >= k && !strcmp(path + n - k, o->saved_names[i]))
            return true;
    }
    return false;
}

/* The heads that peft trains in full; `within`: what stands in one, too. */
static bool is_saved(const struct tree *t, const struct module *m, const char *saved, bool within)
{
    size_t n;

    while (within && m->parent && m->parent != t->root)
        m = m->parent;
    if (m->parent == t->root)
        for (const char *w = saved ? saved : ""; *w; w += n + (w[n] == ' ')) {
            n = strcspn(w, " ");
            if (strlen(m->name) == n && !memcmp(m->name, w, n))
                return true;
        }
    return false;
}

/* Beneath a module that is trained in full, too. */
static bool is_within_saved(const struct lora_options *o, const char *path)
{
    for (const char *p = path; p; p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL)
        for (uint32_t i = 0; i < o->n_saved; i++) {
            size_t k = strlen(o->saved_names[i]);

            if (!strncmp(p, o->saved_names[i], k) && (!p[k] || p[k] == '.'))
                return true;
        }
    return false;
}

/* Before peft 0.15: last names without the path of the head. */
static bool is_spared(const struct tree *t, const struct module *m, const struct lora_options *o)
{
    if (o->q->lora_spares_by_path || !t->head)
        return m == t->head;
    return t->head->parent == t->root && !strcmp(m->name, t->head->name);
}

bool lora_adapts(const struct tree *t, const struct module *m, const char *path, const struct lora_options *o, struct pattern_effort *effort)
{
    bool meant;

    if ((m->kind != MODULE_LINEAR && m->kind != MODULE_CONV1D) || lora_names_expert(o, m->name))
        return false;
    if (lora_saves(o, path) || is_within_saved(o, path) || (o->q->lora_spares_saved && is_saved(t, m, o->saved, true)))
        return false;
    meant = o->all_linear ? !is_spared(t, m, o) && !is_saved(t, m, o->saved, false) : lora_means(o, path, effort);
    return meant && !lora_narrows_out(o, path, effort);
}

enum err_code lora_count(const struct tree *t, const struct pattern_effort *effort, struct err *err)
{
    enum { STEPS_OF_EVENT = 8 };

    return budget_take(t->arena->budget, effort->steps / STEPS_OF_EVENT, err);
}

/* --- layers that are not alike ------------------------------------------------------------------------------------------------------------ */

/* Of a layer: its list's name, what stands in it, and what of that is meant. */
struct layer {
    uint64_t list, built, meant;
    uint32_t number;
};

static uint64_t hash(uint64_t h, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)s[i]) * UINT64_C(1099511628211);
    return (h ^ 1) * UINT64_C(1099511628211);
}

/* The first part of a path that is a number: the layer. NULL: there is none. */
static const char *layer_of(const char *path, size_t *ret_digits)
{
    for (const char *p = path; *p; p++) {
        size_t n = strspn(p, "0123456789");

        if (n && (p == path || p[-1] == '.') && p[n] == '.') {
            *ret_digits = n;
            return p;
        }
        p += strcspn(p, ".");
        if (!*p)
            break;
    }
    return NULL;
}

struct layers {
    struct layer *v;
    uint32_t n;
};

/* `rank`: of its adapter; 0: it has none */
static void see(struct layers *l, const struct module *m, const char *path, uint32_t rank)
{
    size_t digits = 0;
    const char *at = layer_of(path, &digits);
    struct layer *last = l->n ? &l->v[l->n - 1] : NULL, is = {0};

    if (!at)
        return;
    is.list = hash(0, path, (size_t)(at - path));
    for (size_t i = 0; i < digits; i++)
        is.number = is.number * 10 + (uint32_t)(at[i] - '0');
    if (!last || last->list != is.list || last->number != is.number) {
        last = &l->v[l->n++];
        *last = is;
    }
    last->built = hash(last->built + (uint64_t)m->kind, at + digits, strlen(at + digits));
    if (rank)
        last->meant = hash(last->meant + rank, at + digits, strlen(at + digits));
}

/* Layers that are built alike have the same modules meant. */
static bool differ(const struct layers *l)
{
    for (uint32_t i = 1; i < l->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (l->v[i].list == l->v[k].list && l->v[i].built == l->v[k].built) {
                if (l->v[i].meant != l->v[k].meant)
                    return true;
                break;
            }
    return false;
}

static uint32_t rank_of_tensors(const struct module *m, const char *path, const struct lora_options *o, struct pattern_effort *effort)
{
    char full[320];
    uint32_t ret = 0;

    for (const struct param *p = o->n_parameters ? m->params : NULL; p; p = p->next) {
        (void)snprintf(full, sizeof full, "%s.%s", path, p->name);
        if (!p->buffer && lora_means_tensor(o, full))
            ret = ret * 31 + lora_rank_of(o, full, 1, effort);
    }
    return ret;
}

enum err_code lora_find(const struct tree *t, const struct lora_options *o, struct arena *arena, struct lora_found *ret, struct err *err)
{
    struct layers layers = {arena_array(arena, struct layer, t->n_modules), 0};
    struct pattern_effort effort = {0};
    char buf[256];

    if (!layers.v)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
    *ret = (struct lora_found){0};
    for (uint32_t i = 1; i < t->n_modules; i++) {
        const struct module *m = t->modules[i];
        const char *path = module_path(t, m->number, buf, sizeof buf);
        bool linear = m->kind == MODULE_LINEAR || m->kind == MODULE_CONV1D, meant = *path && lora_means(o, path, &effort);
        bool adapted = lora_adapts(t, m, path, o, &effort);

        meant &= !lora_narrows_out(o, path, &effort);
        see(&layers, m, path, adapted || meant ? lora_rank_of(o, path, 1, &effort) : rank_of_tensors(m, path, o, &effort));
        for (const struct param *p = m->params; p; p = p->next)
            ret->biases |= !strcmp(p->name, "bias");
        ret->adapted_biases |= adapted && m->bias;
        ret->linears += meant && linear;
        ret->embeddings |= meant && m->kind == MODULE_EMBEDDING;
        if (meant && !linear && m->kind != MODULE_EMBEDDING && !lora_names_expert(o, m->name) && !ret->refused[0])
            memcpy(ret->refused, path, strlen(path) < sizeof ret->refused ? strlen(path) : sizeof ret->refused - 1);
    }
    ret->uneven = differ(&layers);
    ret->exhausted = effort.exhausted;
    return lora_count(t, &effort, err);
}
