/* Methods: the parts, and how composed ones are read. */
#include "api/words/words.h"

#include "base/near.h"
#include "train/recipe.h"

#include <string.h>

/* Known, accepted, not modelled yet. */
#define LATER(name, says)                 \
    {                                     \
        name, WORD_UNMODELLED, NULL, says \
    }
const struct method_part method_parts[] = {
    {{"single", METHOD_SINGLE, NULL, "One GPU; of a cluster, one of its GPUs."}, 0},
    {{"ddp", METHOD_DDP, NULL, "A whole copy on every GPU; gradients are averaged in buckets (torch DDP)."}, 5},
    {{"zero0", METHOD_ZERO0, "z0", "DeepSpeed without sharding: half weights, an fp32 master."}, 5},
    {{"zero1", METHOD_ZERO1, "z1", "Optimizer states are sharded (DeepSpeed ZeRO-1)."}, 5},
    {{"zero2", METHOD_ZERO2, "z2", "Gradients too (ZeRO-2)."}, 5},
    {{"zero3", METHOD_ZERO3, "z3", "Parameters too; layers are gathered when they run (ZeRO-3)."}, 5},
    {{"fsdp", METHOD_FSDP, "FULL_SHARD|fsdp1", "FSDP1 FULL_SHARD: flat units of a layer, gathered when they run."}, 5},
    {{"fsdp_grad_op", METHOD_FSDP_GRAD_OP, "SHARD_GRAD_OP", "FSDP1 SHARD_GRAD_OP: parameters stay gathered from forward to backward."}, 5},
    {{"fsdp_no_shard", METHOD_FSDP_NO_SHARD, "NO_SHARD", "FSDP1 NO_SHARD: as ddp."}, 5},
    {{"hsdp", METHOD_HSDP, "HYBRID_SHARD", "FSDP1 within a group, copies across groups."}, 5},
    {{"fsdp2", METHOD_FSDP2, NULL, "fully_shard: each parameter is sharded along its first dimension."}, 5},
    {{"fsdp2_noreshard", METHOD_FSDP2_NORESHARD, NULL, "fsdp2 that keeps parameters gathered until backward."}, 5},
    {{"hsdp2", METHOD_HSDP2, NULL, "fsdp2 within a group, copies across groups."}, 5},
    {{"tp", METHOD_TP, NULL, "Linear layers are split over GPUs (tensor parallelism)."}, 1},
    {{"pp", METHOD_PP, NULL, "Layers are split into stages, micro-batches flow through them (pipeline parallelism)."}, 2},
    {LATER("cp", "The sequence is split over GPUs (context parallelism)."), 3},
    {LATER("ep", "Experts are split over GPUs (expert parallelism)."), 4},
    {{"llmem_cdp", METHOD_LLMEM_CDP, NULL, "The paper's conventional data parallelism."}, 0},
    {{"llmem_adp", METHOD_LLMEM_ADP, NULL, "The paper's advanced data parallelism (Gemini, ZeRO-3)."}, 0},
    {{"llmem_tp", METHOD_LLMEM_TP, NULL, "The paper's tensor parallelism."}, 0},
    {{"llmem_dptp", METHOD_LLMEM_DPTP, NULL, "The paper's data with tensor parallelism."}, 0},
    {{0}, 0},
};

static const struct method_part *part_find(const char *text, size_t bytes)
{
    for (const struct method_part *p = method_parts; p->word.name; p++) {
        struct word one[] = {p->word, {0}};

        if (word_find(one, text, bytes) >= 0)
            return p;
    }
    return NULL;
}

static enum err_code no_method(struct decoding *d, const char *text, const char *part, size_t bytes)
{
    const char *typed = arena_str(d->arena, part, bytes);
    struct near near;

    near_init(&near, typed ? typed : "");
    for (const struct method_part *p = method_parts; p->word.name; p++) {
        near_offer(&near, p->word.name, p->word.name);
        near_offer_all(&near, p->word.name, p->word.also, '|');
    }
    (void)decode_fail(d, ERR_FIELD_VALUE, "'%.40s' is no method; GET /methods lists them", text);
    return near_tell(&near, d->err);
}

/* "zero3_offload": how many of its letters are the method's. */
static size_t less_offload(const char *text)
{
    static const char ending[] = "offload";
    size_t n = strlen(text), m = sizeof ending - 1;

    return n > m + 1 && word_same(text + n - m, m, ending, m) && strchr("_- ", text[n - m - 1]) ? n - m - 1 : n;
}

/* "TP + pp+Zero_1" -> "tp+pp+zero1". */
static enum err_code read_method(struct decoding *d, const struct json *v, struct methods *m, const char **ret)
{
    const char *text = json_str(v);
    char name[96] = "";
    unsigned rank = 0, parts = 0;

    if (!text)
        return decode_fail(d, ERR_FIELD_TYPE, "must be a method's name or a list of them, not %s", json_type_name(json_type(v)));
    for (const char *p = text;; parts++) {
        size_t n = strcspn(p, "+"), less = p[n] ? n : less_offload(p);
        const struct method_part *part = part_find(p, less);

        if (less < n && part && (part->word.value == METHOD_ZERO1 || part->word.value == METHOD_ZERO2 || part->word.value == METHOD_ZERO3)) {
            m->offloads_optimizer = true;
            m->offloads_params |= part->word.value == METHOD_ZERO3;
        } else if (!p[n]) {
            m->is_plain_too = true;
            part = part_find(p, n);
        }
        if (!part || parts == 5)
            return no_method(d, text, p, n);
        if (parts && (!part->rank || !rank || part->rank <= rank))
            return decode_fail(d, ERR_FIELD_VALUE,
                               "'%.40s': a composed method is its parts in the order tp+pp+cp+ep+ and one data-parallel part", text);
        rank = part->rank;
        if (parts)
            strcat(name, "+");
        strcat(name, part->word.name); /* five of at most 16 letters */
        if (!p[n])
            break;
        p += n + 1;
    }
    *ret = arena_str(d->arena, name, strlen(name));
    return *ret ? ERR_OK : decode_fail(d, ERR_NOMEM, "no room for the request");
}

static enum err_code add_method(struct decoding *d, const struct json *v, struct methods *m)
{
    const char *name = NULL;
    enum err_code rc = read_method(d, v, m, &name);

    if (rc)
        return rc;
    for (unsigned i = 0; i < m->n; i++)
        if (!strcmp(m->v[i], name))
            return ERR_OK;
    if (m->n == METHODS_MAX)
        return decode_fail(d, ERR_FIELD_RANGE, "at most %d methods", (int)METHODS_MAX);
    m->v[m->n++] = name;
    return ERR_OK;
}

enum err_code methods_read(struct decoding *d, const struct json *v, void *at)
{
    struct methods *m = at;
    enum err_code rc = ERR_OK;

    if (json_type(v) != JSON_ARRAY)
        return add_method(d, v, m);
    if (!json_count(v))
        return decode_fail(d, ERR_FIELD_RANGE, "must name at least one; leave it out for the planner's choice");
    json_each (e, v) {
        rc = add_method(d, e, m);
        if (rc)
            break;
    }
    return rc;
}

bool methods_are_set(const void *at)
{
    return ((const struct methods *)at)->n > 0;
}

bool methods_agree(const void *have, const void *said)
{
    const struct methods *all = have, *wanted = said;

    for (unsigned i = 0; i < wanted->n; i++) {
        bool found = false;

        for (unsigned k = 0; k < all->n; k++)
            found |= !strcmp(all->v[k], wanted->v[i]);
        if (!found)
            return false;
    }
    return true;
}

void methods_write(struct jsonw *w, const char *key, const void *at)
{
    const struct methods *m = at;

    if (!m->n)
        return;
    jsonw_array(w, key);
    for (unsigned i = 0; i < m->n; i++)
        jsonw_str(w, NULL, m->v[i]);
    jsonw_end(w);
}
