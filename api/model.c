#include "api/estimate.h"

#include <string.h>

static const struct api_config *config_find(const struct call *c, const char *id)
{
    for (size_t i = 0; i < c->n_configs; i++)
        if (!strcmp(c->configs[i].model, id))
            return &c->configs[i];
    return NULL;
}

/* The inline config alone, which has to be whole then. */
static enum err_code read_inline(struct call *c, const char *id, const struct api_config *f, const struct json *config,
                                 struct notes *warnings, struct model_info *info)
{
    if (!config && f && f->err) {
        *c->err = *f->err;
        return c->err->code;
    }
    if (!config)
        return err_set(c->err, ERR_MODEL_NOT_FOUND, "/model",
                       "'%.96s' is none of the models that are carried here (GET /models): send its config.json as `config`", id);
    info->config = config;
    info->source = "request";
    if (id)
        note(warnings, "no config.json of %.96s is at hand: the one in the request is taken as the whole", id);
    return ERR_OK;
}

static enum err_code read_fetched(struct call *c, const struct api_config *f, const struct json *patch, struct model_info *info)
{
    enum err_code rc = json_parse(f->text, f->bytes, &json_limits_config, &info->owned, c->err);

    if (!rc && patch)
        rc = json_merge_patch(info->owned, patch, c->err);
    info->config = info->owned;
    info->source = patch ? "request" : f->source;
    return rc ? err_under(c->err, "/model") : ERR_OK;
}

/* A type without a program is a model that is known by name only: its candidates say so. */
static enum err_code read_arch(struct call *c, struct model_info *info)
{
    const struct json *type = json_get(info->config, "model_type");
    const char *under = strcmp(info->source, "request") ? "/model" : "/config";
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

enum err_code model_read(struct call *c, const char *id, const struct json *config, struct notes *warnings, struct model_info *info)
{
    const struct api_config *f = id ? config_find(c, id) : NULL;
    enum err_code rc;

    info->id = id;
    if (f && f->note)
        note(warnings, "%s", f->note);
    rc = f && f->text ? read_fetched(c, f, config, info) : read_inline(c, id, f, config, warnings, info);
    return rc ? rc : read_arch(c, info);
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

void lora_read(const struct lora_request *asked, struct lora *ret)
{
    *ret = (struct lora){
        .rank = (uint32_t)asked->rank.whole,
        .dropout = asked->dropout.real,
        .dtype = asked->dtype.n ? (enum lora_dtype)lora_dtype_words[asked->dtype.at[0]].value : LORA_DTYPE_UNSET,
        .all_linear = asked->target_modules.is_string,
        .n_targets = asked->target_modules.is_string ? 0 : asked->target_modules.n,
        .targets = asked->target_modules.v,
    };
}
