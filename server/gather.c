#include "server/gather.h"

#include <stdlib.h>
#include <string.h>

struct gather_slot {
    struct gather *gather;
    const struct api_need *need;
    const struct hub_config *found;
};

static void on_done(void *arg, const struct hub_config *config)
{
    struct gather_slot *slot = arg;
    struct gather *f = slot->gather;

    slot->found = config;
    if (--f->open == 0)
        f->done(f->arg);
}

static bool room_for(struct gather *f, uint32_t n)
{
    f->slots = calloc(n, sizeof *f->slots);
    f->configs = calloc(n, sizeof *f->configs);
    f->no_memory = !f->slots || !f->configs;
    return !f->no_memory;
}

bool gather_begin(struct gather *f, struct hub_loop *loop, const struct api_needs *needs, const char *token, void (*done)(void *arg), void *arg)
{
    *f = (struct gather){.done = done, .arg = arg};
    if (!needs->n || !room_for(f, needs->n))
        return true;
    f->n = needs->n;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct api_need *need = &needs->v[i];
        struct hub_request rq = {.model = need->model, .revision = need->revision, .token = token};

        f->slots[i] = (struct gather_slot){.gather = f, .need = need};
        f->open += !hub_ask(loop, &rq, on_done, &f->slots[i], &f->slots[i].found);
    }
    return f->open == 0;
}

bool gather_is_open(const struct gather *f)
{
    return f->open > 0;
}

static struct api_config config_of(const struct gather_slot *slot)
{
    const struct hub_config *c = slot->found;

    return (struct api_config){.model = slot->need->model, .revision = slot->need->revision, .text = c->text, .bytes = c->bytes, .source = c->source,
                               .commit = c->commit, .note = c->note, .parameters = c->parameters, .err = c->text ? NULL : &c->err};
}

const struct api_config *gather_configs(struct gather *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        f->configs[i] = config_of(&f->slots[i]);
    return f->configs;
}

/* From the cheapest to the dearest. */
static int rank_of(const char *tier)
{
    static const char *const tiers[] = {"memory", "directory", "builtin", "disk", "hf_cache", "hub"};

    for (int i = 0; tier && i < (int)(sizeof tiers / sizeof *tiers); i++)
        if (!strcmp(tier, tiers[i]))
            return i;
    return -1;
}

static bool is_commit(const char *revision)
{
    return strlen(revision) == 40 && strspn(revision, "0123456789abcdef") == 40;
}

void gather_sum(const struct gather *f, struct gather_sum *ret)
{
    *ret = (struct gather_sum){.is_pinned = true};
    for (uint32_t i = 0; i < f->n; i++) {
        const struct hub_config *c = f->slots[i].found;

        if (rank_of(c->tier) > rank_of(ret->tier))
            ret->tier = c->tier;
        ret->is_private |= c->is_private;
        ret->is_pinned &= is_commit(f->slots[i].need->revision);
        ret->is_passing |= !c->text || c->note;
        if (c->retry_after_s > ret->retry_after_s)
            ret->retry_after_s = c->retry_after_s;
    }
}

void gather_end(struct gather *f)
{
    for (uint32_t i = 0; i < f->n; i++)
        hub_give_back(f->slots[i].found);
    free(f->slots);
    free(f->configs);
    *f = (struct gather){0};
}
