/* Which files of code a model's config names, and which those import: what is to be fetched beside the config. */
#include "api/request/request.h"
#include "api/routes.h"
#include "config/arch.h"
#include "models/modeling.h"

#include <stdio.h>
#include <string.h>

/* Names of a class each; the first that the config has is the model. transformers' own: models/auto/auto_factory.py. */
static const char *const model_keys[] = {"AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModel"};

static bool is_new(const struct api_code *code, const char *stem, size_t bytes)
{
    for (uint32_t i = 0; i < code->n; i++)
        if (strlen(code->names[i]) == bytes + 3 && !memcmp(code->names[i], stem, bytes))
            return false;
    return true;
}

static bool is_stem(const char *text, size_t bytes)
{
    return bytes && bytes + 3 < API_CODE_NAME &&
           strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") >= bytes && (*text < '0' || *text > '9');
}

static void add(struct api_code *code, const char *stem, size_t bytes)
{
    if (!is_stem(stem, bytes) || !is_new(code, stem, bytes))
        return;
    if (code->n == API_CODE_FILES)
        code->fault = "its files of code import more than " API_CODE_FILES_TEXT " of their own";
    else
        (void)snprintf(code->names[code->n++], API_CODE_NAME, "%.*s.py", (int)bytes, stem);
}

/* "modeling_x.XForCausalLM", or "owner/name--modeling_x.XForCausalLM"; a list where a class has several. */
static void add_class(struct api_code *code, const struct json *v)
{
    const char *text = json_str(json_type(v) == JSON_ARRAY ? json_first(v) : v), *from, *dot;
    size_t owner;

    if (!text)
        return;
    from = strstr(text, "--");
    owner = from ? (size_t)(from - text) : 0;
    from = from ? from + 2 : text;
    dot = strchr(from, '.');
    if (!dot)
        return;
    if (owner >= sizeof code->repository || (code->n && (strlen(code->repository) != owner || strncmp(code->repository, text, owner) != 0))) {
        code->fault = "its auto_map names files of several repositories";
        return;
    }
    (void)snprintf(code->repository, sizeof code->repository, "%.*s", (int)owner, text);
    if (owner && model_id_fault(code->repository))
        code->fault = "its auto_map names a repository by what is no name of one";
    else
        add(code, from, (size_t)(dot - from));
}

static bool is_ours(const char *type)
{
    return type && (program_is_builtin(type) || family_find(type) != FAMILY_COUNT);
}

bool api_code_begin(struct api_code *code, const struct api_need *need, const char *config, size_t bytes)
{
    struct json *doc = NULL;
    struct err err;
    const struct json *map, *model = NULL;

    *code = (struct api_code){0};
    if (!need->code || !strstr(config, "\"auto_map\"") || json_parse(config, bytes, &json_limits_config, &doc, &err))
        return false;
    map = json_get(doc, "auto_map");
    for (size_t i = 0; i < sizeof model_keys / sizeof *model_keys && !model; i++)
        model = json_get(map, model_keys[i]);
    if (model && (need->code == API_CODE_ASKED || !is_ours(json_str(json_get(doc, "model_type"))))) {
        add_class(code, model);
        add_class(code, json_get(map, "AutoConfig"));
    }
    code->n_named = code->n;
    if (code->n && !strcmp(code->repository, need->model))
        code->repository[0] = 0;
    json_free(doc);
    return code->n > 0;
}

/* "from .x import y" at the beginning of a line, maybe below an `if`; as transformers finds them (dynamic_module_utils.py get_relative_imports). */
void api_code_follow(struct api_code *code, const char *text)
{
    static const char from[] = "from";

    for (const char *line = text; line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        const char *at = line + strspn(line, " \t"), *stem;

        if (strncmp(at, from, sizeof from - 1) != 0)
            continue;
        at += sizeof from - 1;
        stem = at + strspn(at, " \t");
        if (stem == at || *stem++ != '.')
            continue;
        at = stem + strcspn(stem, " \t\r\n");
        if (!strncmp(at + strspn(at, " \t"), "import", 6))
            add(code, stem, (size_t)(at - stem));
    }
}
