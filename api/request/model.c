#include "api/answer/estimate.h"

#include <string.h>

static const struct api_config *config_find(const struct call *c, const char *id, const char *revision)
{
    for (size_t i = 0; i < c->n_configs; i++)
        if (!strcmp(c->configs[i].model, id) && !strcmp(c->configs[i].revision, revision ? revision : "main"))
            return &c->configs[i];
    return NULL;
}

/* Why there is none: the hub's word for it, or that nobody was asked. */
static enum err_code no_config(struct call *c, const char *id, const struct api_config *f)
{
    if (!f || !f->err)
        return err_set(c->err, ERR_MODEL_NOT_FOUND, "/model",
                       "'%.96s' is none of the models that are carried here (GET /models): send its config.json as `config`", id);
    *c->err = *f->err;
    c->retry_after_s = f->retry_after_s;
    (void)err_set(c->err, f->err->code, f->err->code == ERR_REVISION_NOT_FOUND ? "/revision" : "/model", "%s", f->err->detail);
    return c->err->code;
}

/* The inline config alone, which has to be whole then. */
static enum err_code read_inline(struct call *c, const char *id, const struct api_config *f, const struct json *config,
                                 struct notes *warnings, struct model_info *info)
{
    if (!config)
        return no_config(c, id, f);
    info->config = config;
    info->source = "request";
    if (id)
        note(warnings, "no config.json of %.96s is at hand: the one in the request is taken as the whole", id);
    return ERR_OK;
}

static enum err_code read_fetched(struct call *c, const struct api_config *f, const struct json *patch, struct notes *warnings,
                                  struct model_info *info)
{
    enum err_code rc = json_parse(f->text, f->bytes, &json_limits_config, &info->owned, c->err);

    if (!rc && patch)
        rc = json_merge_patch(info->owned, patch, c->err);
    if (rc)
        return err_under(c->err, "/model");
    info->config = info->owned;
    info->commit = f->commit;
    info->source = patch ? "request" : f->source;
    info->hub_parameters = patch ? 0 : f->parameters;
    if (!strcmp(f->source, "builtin") && strcmp(f->revision, "main"))
        note(warnings, "/revision: the config that is carried here is that of main, '%.60s' was not looked at", f->revision);
    return ERR_OK;
}

/* A type without a program is a model that is known by name only: its candidates say so. */
static enum err_code read_arch(struct call *c, struct model_info *info)
{
    const struct json *type = json_get(info->config, "model_type");
    const char *under = c->doc && json_get(c->doc, "config") ? "/config" : "/model";
    enum err_code rc;

    if (type && !json_str(type) && json_type(type) != JSON_NULL)
        return err_set(c->err, ERR_FIELD_TYPE, "/config/model_type", "must be a string");
    info->model_type = json_str(type);
    rc = arch_parse(info->config, c->arena, &info->arch, c->err);
    info->has_program = !rc;
    if (rc == ERR_ARCH_UNKNOWN && info->model_type)
        return ERR_OK;
    return rc ? err_under(c->err, under) : ERR_OK;
}

enum err_code model_read(struct call *c, const char *id, const char *revision, const struct json *config, struct notes *warnings,
                         struct model_info *info)
{
    const struct api_config *f = id ? config_find(c, id, revision) : NULL;
    enum err_code rc;

    info->id = id;
    info->revision = id ? revision ? revision : "main" : NULL;
    if (f && f->note)
        note(warnings, "%s", f->note);
    rc = f && f->text ? read_fetched(c, f, config, warnings, info) : read_inline(c, id, f, config, warnings, info);
    return rc ? rc : read_arch(c, info);
}

void model_write_origin(struct jsonw *w, const struct model_info *info)
{
    if (info->id) {
        jsonw_str(w, "id", info->id);
        jsonw_str(w, "revision", info->revision);
        jsonw_str(w, "commit", info->commit);
    }
    jsonw_str(w, "source", info->source);
    jsonw_str(w, "model_type", info->model_type);
}

void model_compare_count(const struct model_info *info, uint64_t parameters, struct notes *warnings)
{
    if (info->hub_parameters && parameters && info->hub_parameters != parameters)
        note(
            warnings,
            "the hub counts %llu parameters in the files of %.96s, the model that its config.json declares has %llu: buffers, tied or packed "
            "weights in the files, or a class of its own",
            (unsigned long long)info->hub_parameters, info->id, (unsigned long long)parameters);
}

enum err_code stack_read(const struct stack_request *asked, struct stack *ret, struct err *err)
{
    const struct {
        enum package package;
        const char *text;
    } named[] = {
        {PACKAGE_TORCH, asked->torch},           {PACKAGE_TRANSFORMERS, asked->transformers}, {PACKAGE_PEFT, asked->peft},
        {PACKAGE_ACCELERATE, asked->accelerate}, {PACKAGE_BITSANDBYTES, asked->bitsandbytes}, {PACKAGE_DEEPSPEED, asked->deepspeed},
        {PACKAGE_FLASH_ATTN, asked->flash_attn},
    };
    struct stack s = {0};
    enum err_code rc = ERR_OK;

    for (size_t i = 0; i < sizeof named / sizeof *named && !rc; i++)
        if (named[i].text)
            rc = stack_name(&s, named[i].package, named[i].text, err);
    if (!rc)
        rc = stack_complete(&s, err);
    if (rc)
        return err_under(err, "/stack");
    *ret = s;
    return ERR_OK;
}
