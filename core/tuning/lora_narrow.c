/*
 * lora_narrow.c - what a LoraConfig says beside its targets: layers, modules that are left out, ranks of their own.
 *
 * Source: peft tuners/tuners_utils.py check_target_module_exists, utils/other.py get_pattern_key (before 0.15 tuners/lora/model.py
 * _create_and_replace). peft asks re.match() for what begins a name; here each part of the name that may begin or end the match is tried.
 */
#include "stack/stack.h"
#include "tuning/lora_inside.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 256 };

/* Where the next part of a name begins; NULL: it was the last. */
static const char *part_after(const char *p)
{
    p = strchr(p, '.');
    return p ? p + 1 : NULL;
}

static bool ends_in_part(const char *path, const char *name)
{
    size_t n = strlen(path), k = strlen(name);

    return n >= k && !strcmp(path + n - k, name) && (n == k || path[n - k - 1] == '.');
}

static bool is_excluded(const struct lora_narrow *w, const char *path, struct pattern_effort *effort)
{
    if (w->excluded_pattern)
        return pattern_matches(w->excluded_pattern, path, effort);
    for (uint32_t i = 0; i < w->n_excluded; i++)
        if (ends_in_part(path, w->excluded[i]))
            return true;
    return false;
}

/* Whether what stands in [from, to) is the name of a list of layers. Without names any one part is. */
static bool is_list(const struct lora_narrow *w, uint32_t k, const char *from, const char *to, struct pattern_effort *effort)
{
    char name[NAME_BYTES];

    if (!w->n_lists)
        return !memchr(from, '.', (size_t)(to - from));
    (void)snprintf(name, sizeof name, "%.*s", (int)(to - from), from);
    return pattern_matches(w->lists[k].pattern, name, effort);
}

/* The number after the k-th list's name: of the first place that matches, before 0.20 of the last one. A name begins with a list from 0.21 on,
 * and only where it was named. */
static const char *index_after(const struct lora_options *o, uint32_t k, const char *path, struct pattern_effort *effort)
{
    const struct lora_narrow *w = o->narrow;
    bool first = o->q->lora_first_index > 0, whole = w->n_lists && o->q->lora_first_index > 1;
    const char *ret = NULL;

    for (const char *from = whole ? path : part_after(path); from && !(first && ret); from = part_after(from))
        for (const char *at = part_after(from); at && !(first && ret); at = part_after(at)) {
            size_t digits = strspn(at, "0123456789");

            if (digits && at[digits] == '.' && is_list(w, k, from, at - 1, effort))
                ret = at;
        }
    return ret;
}

static uint64_t number_at(const char *digits)
{
    uint64_t n = 0;

    for (; *digits >= '0' && *digits <= '9' && n < UINT32_MAX; digits++)
        n = n * 10 + (uint64_t)(*digits - '0');
    return n;
}

static bool is_of_layers(const struct lora_options *o, const char *path, struct pattern_effort *effort)
{
    const struct lora_narrow *w = o->narrow;
    const char *at = NULL;

    for (uint32_t k = 0; !at && k < (w->n_lists ? w->n_lists : 1); k++)
        at = index_after(o, k, path, effort);
    for (uint32_t i = 0; at && i < w->n_layers; i++)
        if (number_at(at) == w->layers[i])
            return true;
    return false;
}

bool lora_narrows_out(const struct lora_options *o, const char *path, struct pattern_effort *effort)
{
    const struct lora_narrow *w = o->narrow;

    return w && (is_excluded(w, path, effort) || (w->n_layers && !is_of_layers(o, path, effort)));
}

/* The first name that is the end of this one, from some part on. */
static const struct lora_named *named(const struct lora_named *v, uint32_t n, const char *path, bool whole, struct pattern_effort *effort)
{
    for (uint32_t i = 0; i < n; i++)
        for (const char *from = whole ? path : part_after(path); from; from = part_after(from))
            if (pattern_matches(v[i].pattern, from, effort))
                return &v[i];
    return NULL;
}

uint32_t lora_rank_of(const struct lora_options *o, const char *path, uint32_t fused, struct pattern_effort *effort)
{
    const struct lora_narrow *w = o->narrow;
    const struct lora_named *own = w ? named(w->ranks, w->n_ranks, path, o->q->lora_rank_of_whole_names, effort) : NULL;

    return own ? (uint32_t)own->value : o->rank * fused;
}

double lora_alpha_of(const struct lora_options *o, const char *path, uint32_t fused, struct pattern_effort *effort)
{
    const struct lora_narrow *w = o->narrow;
    const struct lora_named *own = w ? named(w->alphas, w->n_alphas, path, o->q->lora_rank_of_whole_names, effort) : NULL;

    return own ? own->value : o->alpha * fused;
}

enum err_code lora_narrow_gap(const struct lora_options *o, struct err *err)
{
    const struct lora_narrow *w = o->narrow;

    if (o->n_parameters && !o->q->lora_takes_tensors)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/target_parameters", "peft has it from 0.17 on, and before raises for what it does not know");
    if (w && (w->n_excluded || w->excluded_pattern) && !o->q->lora_excludes)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/exclude_modules", "peft has it from 0.14 on, and before raises for what it does not know");
    for (uint32_t i = 0; w && i < w->n_ranks && !o->q->lora_rank_of_whole_names; i++)
        if (strchr(w->ranks[i].name, '|'))
            return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/rank_pattern", "before peft 0.15 '|' parts the whole expression: a key for each name");
    return ERR_OK;
}
