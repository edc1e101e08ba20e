#include "server/gather_code.h"

#include <stdlib.h>
#include <string.h>

struct part {
    struct gather_code *code;
    const struct hub_config *found; /* NULL: not yet */
};

struct gather_code {
    struct gather *gather;
    const struct api_need *need;
    const struct hub_config *config;
    struct api_code wanted;
    uint32_t asked;
    size_t bytes;
    struct part parts[API_CODE_FILES];
    struct api_file files[API_CODE_FILES];
    struct api_code_found found;
};

struct gather_code *gather_code_new(struct gather *f, const struct api_need *need, const struct hub_config *config)
{
    struct gather_code *c;
    struct api_code wanted;

    if (!api_code_begin(&wanted, need, config->text, config->bytes))
        return NULL;
    c = calloc(1, sizeof *c);
    f->no_memory |= !c;
    if (c)
        *c = (struct gather_code){.gather = f, .need = need, .config = config, .wanted = wanted};
    return c;
}

/* NULL: it is not known yet. */
static const char *commit_of(const struct gather_code *c)
{
    if (!c->wanted.repository[0] && c->config->commit)
        return c->config->commit;
    return c->parts[0].found ? c->parts[0].found->commit : NULL;
}

static bool has_to_wait(const struct gather_code *c)
{
    return c->asked && !commit_of(c) && !c->parts[0].found;
}

static void take(struct part *p, const struct hub_config *found)
{
    struct gather_code *c = p->code;

    p->found = found;
    c->bytes += found->bytes;
    if (c->bytes > API_CODE_BYTES)
        c->wanted.fault = "its files of code take more than 2 MiB";
    else if (found->text)
        api_code_follow(&c->wanted, found->text);
}

static void on_file(void *arg, const struct hub_config *found)
{
    struct part *p = arg;
    struct gather_code *c = p->code;

    take(p, found);
    gather_code_ask(c);
    gather_arrived(c->gather);
}

void gather_code_ask(struct gather_code *c)
{
    bool is_elsewhere = c->wanted.repository[0];

    while (c->asked < c->wanted.n && !c->wanted.fault && !has_to_wait(c)) {
        const char *commit = commit_of(c);
        struct part *p = &c->parts[c->asked];
        struct hub_request rq = {.model = is_elsewhere ? c->wanted.repository : c->need->model,
                                 .revision = commit ? commit : is_elsewhere ? "main" : c->need->revision,
                                 .token = c->gather->token,
                                 .file = c->wanted.names[c->asked++],
                                 .is_owners = !is_elsewhere && !strcmp(c->config->source, "directory")};
        const struct hub_config *found = NULL;

        p->code = c;
        if (hub_ask(c->gather->loop, &rq, on_file, p, &found))
            take(p, found);
        else
            c->gather->open++;
    }
}

const struct api_code_found *gather_code_found(struct gather_code *c)
{
    for (uint32_t i = 0; i < c->asked; i++) {
        const struct hub_config *f = c->parts[i].found;

        c->files[i] = (struct api_file){c->wanted.names[i], f->text, f->bytes, f->text ? NULL : &f->err, f->retry_after_s};
    }
    c->found = (struct api_code_found){.repository = c->wanted.repository[0] ? c->wanted.repository : NULL, .commit = commit_of(c), .files = c->files,
                                       .n = c->asked, .n_named = c->wanted.n_named, .fault = c->wanted.fault};
    return &c->found;
}

/* Code of the config's own repository is as private as the config. */
void gather_code_sum(const struct gather_code *c, struct gather_sum *sum)
{
    for (uint32_t i = 0; i < c->asked; i++) {
        bool was = sum->is_private;

        gather_add(sum, c->parts[i].found);
        if (!c->wanted.repository[0])
            sum->is_private = was;
    }
    sum->is_pinned &= !c->wanted.repository[0];
}

void gather_code_free(struct gather_code *c)
{
    for (uint32_t i = 0; c && i < c->asked; i++)
        hub_give_back(c->parts[i].found);
    free(c);
}
