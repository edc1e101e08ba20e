#include "server/gather.h"

#include "server/gather_code.h"

#include <stdlib.h>
#include <string.h>

struct gather_slot {
    struct gather *gather;
    const struct api_need *need;
    const struct hub_config *found;
    struct gather_code *code; /* NULL: none is needed */
};

static void look_for_code(struct gather_slot *slot)
{
    struct gather *f = slot->gather;

    slot->code = slot->found->text ? gather_code_new(f, slot->need, slot->found) : NULL;
    if (slot->code)
        gather_code_ask(slot->code);
}

void gather_arrived(struct gather *f)
{
    if (--f->open == 0)
        f->done(f->arg);
}

static void on_done(void *arg, const struct hub_config *config)
{
    struct gather_slot *slot = arg;

    slot->found = config;
    look_for_code(slot);
    gather_arrived(slot->gather);
}

static bool room_for(struct gather *f, uint32_t n, const char *token)
{
    f->slots = calloc(n, sizeof *f->slots);
    f->configs = calloc(n, sizeof *f->configs);
    f->token = token ? strdup(token) : NULL;
    f->no_memory = !f->slots || !f->configs || (token && !f->token);
    return !f->no_memory;
}

bool gather_begin(struct gather *f, struct hub_loop *loop, const struct api_needs *needs, const char *token, void (*done)(void *arg), void *arg)
{
    *f = (struct gather){.loop = loop, .done = done, .arg = arg};
    if (!needs->n || !room_for(f, needs->n, token))
        return true;
    f->n = needs->n;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct api_need *need = &needs->v[i];
        struct hub_request rq = {.model = need->model, .revision = need->revision, .token = token};

        f->slots[i] = (struct gather_slot){.gather = f, .need = need};
        if (!hub_ask(loop, &rq, on_done, &f->slots[i], &f->slots[i].found))
            f->open++;
        else
            look_for_code(&f->slots[i]);
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
                               .commit = c->commit, .note = c->note, .parameters = c->parameters, .err = c->text ? NULL : &c->err,
                               .code = slot->code ? gather_code_found(slot->code) : NULL};
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

void gather_add(struct gather_sum *sum, const struct hub_config *c)
{
    if (rank_of(c->tier) > rank_of(sum->tier))
        sum->tier = c->tier;
    sum->is_private |= c->is_private;
    sum->is_passing |= !c->text || c->note;
    if (c->retry_after_s > sum->retry_after_s)
        sum->retry_after_s = c->retry_after_s;
}

void gather_sum(const struct gather *f, struct gather_sum *ret)
{
    *ret = (struct gather_sum){.is_pinned = true};
    for (uint32_t i = 0; i < f->n; i++) {
        const struct gather_slot *slot = &f->slots[i];

        gather_add(ret, slot->found);
        ret->is_pinned &= is_commit(slot->need->revision);
        if (slot->code)
            gather_code_sum(slot->code, ret);
    }
}

void gather_end(struct gather *f)
{
    for (uint32_t i = 0; i < f->n; i++) {
        gather_code_free(f->slots[i].code);
        hub_give_back(f->slots[i].found);
    }
    if (f->token)
        explicit_bzero(f->token, strlen(f->token));
    free(f->token);
    free(f->slots);
    free(f->configs);
    *f = (struct gather){0};
}
