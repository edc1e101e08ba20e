#include "api/answer/estimate.h"
#include "api/request/named.h"
#include "catalog/renamed.h"

#include "base/sha256.h"
#include "models/installed.h"
#include "models/modeling.h"
#include "stack/defaults.h"

#include <stdio.h>
#include <string.h>

static const struct api_config *config_find(const struct call *c, const char *id, const char *revision)
{
    for (size_t i = 0; i < c->n_configs; i++)
        if (!strcmp(c->configs[i].model, id) && !strcmp(c->configs[i].revision, revision ? revision : "main"))
            return &c->configs[i];
    return NULL;
}

/* Why there is none: the hub's word for it, or that nobody was asked. What is carried is main's. */
static enum err_code no_config(struct call *c, const char *id, const char *revision, const struct api_config *f)
{
    if (revision && strcmp(revision, "main") != 0 && builtin_known_as(id).model && (!f || !f->err || f->err->code == ERR_MODEL_NOT_FOUND))
        return err_set(c->err, ERR_REVISION_NOT_FOUND, "/revision",
                       "'%.96s' is carried here as main has it, and what its revision '%.60s' holds is not at hand: leave the revision out, or send its "
                       "config.json as `config`",
                       id, revision);
    if (!f || !f->err) {
        (void)err_set(c->err, ERR_MODEL_NOT_FOUND, "/model",
                      "'%.96s' is none of the models that are carried here (GET /models): send its config.json as `config`", id);
        return model_tell_near(id, c->err);
    }
    *c->err = *f->err;
    c->retry_after_s = f->retry_after_s;
    (void)err_set(c->err, f->err->code, f->err->code == ERR_REVISION_NOT_FOUND ? "/revision" : "/model", "%s", f->err->detail);
    return c->err->code == ERR_MODEL_NOT_FOUND ? model_tell_near(id, c->err) : c->err->code;
}

/* The inline config alone, which has to be whole then. */
static enum err_code read_inline(struct call *c, const char *id, const char *revision, const struct api_config *f, const struct json *config,
                                 struct notes *warnings, struct model_info *info)
{
    if (!config)
        return no_config(c, id, revision, f);
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
    if (!strcmp(f->source, "builtin") && !patch) {
        const struct builtin *carried = builtin_known_as(f->model).model;

        info->counted_parameters = carried ? carried->parameters : 0;
    }
    if (!strcmp(f->source, "builtin") && strcmp(f->revision, "main"))
        note(warnings, "/revision: the config that is carried here is that of main, '%.60s' was not looked at", f->revision);
    return ERR_OK;
}

/* --- a program in the language ---------------------------------------------------------------------------------------------------- */

enum { FILES_MAX = 64 };

/* "modeling": {"modeling_x.py": "its text", ..} */
static enum err_code read_files(struct call *c, const struct json *modeling, struct model_info *info)
{
    size_t n = json_count(modeling);
    struct modeling_file *files;

    if (json_type(modeling) != JSON_OBJECT)
        return err_set(c->err, ERR_FIELD_TYPE, "/modeling", "must be an object of files and their texts, not %s", json_type_name(json_type(modeling)));
    if (!n || n > FILES_MAX)
        return err_set(c->err, ERR_FIELD_RANGE, "/modeling", "must have 1 to %d files, not %zu", (int)FILES_MAX, n);
    files = arena_array(c->arena, struct modeling_file, n);
    if (!files)
        return err_set(c->err, ERR_NOMEM, "", "no room for the model's files");
    json_each(f, modeling) {
        const char *text = json_str(f);

        if (json_get(modeling, json_name(f)) != f)
            continue;
        if (!text)
            return err_set(c->err, ERR_FIELD_TYPE, pointer_to(c->arena, "/modeling", json_name(f)), "must be the file's text, not %s",
                           json_type_name(json_type(f)));
        files[info->n_files++] = (struct modeling_file){json_name(f), text, strlen(text)};
    }
    info->files = files;
    return ERR_OK;
}

/* Whoever serves has made it, or it is made for this request. */
static enum err_code library_of(struct call *c, struct program_library *ret)
{
    const struct program_library *shared = c->rq->library ? c->rq->library() : NULL;

    if (!shared)
        return program_library(c->arena, ret, c->err);
    *ret = *shared;
    return ERR_OK;
}

static enum err_code read_program(struct call *c, const struct stack_request *asked, const char *under, struct model_info *info)
{
    struct program_library library;
    struct stack stack;
    enum err_code rc = library_of(c, &library);
    char at[sizeof c->err->at];

    if (!rc)
        rc = stack_read(asked, &stack, c->err);
    if (!rc)
        rc = program_arch(&library, info->config, info->files, info->n_files, &stack, c->arena, &info->arch, c->err);
    info->has_program = !rc;
    if (rc && info->code && !strncmp(c->err->at, "/modeling", 9)) {
        (void)snprintf(c->err->at, sizeof c->err->at, "/model");
    } else if (rc && !strncmp(c->err->at, "/config", 7)) { /* it may have come with the model's id */
        memcpy(at, c->err->at, sizeof at);
        (void)snprintf(c->err->at, sizeof c->err->at, "%s%.100s", under, at + 7);
    }
    return rc;
}

static enum err_code attach_program(struct call *c, struct model_info *info)
{
    struct program_library library;
    enum err_code rc = library_of(c, &library);

    return rc ? rc : program_attach(&library, info->config, c->arena, &info->arch, c->err);
}

/* --- code of the hub's ------------------------------------------------------------------------------------------------------------ */

/* The first that the config names and that is not there. */
static const struct api_file *missing_file(const struct api_code_found *code)
{
    for (uint32_t i = 0; i < code->n && i < code->n_named; i++)
        if (!code->files[i].text)
            return &code->files[i];
    return NULL;
}

/* What a file imports and is not there is told by the import itself. */
static enum err_code take_code(struct call *c, const struct api_code_found *code, struct model_info *info)
{
    struct modeling_file *files = arena_array(c->arena, struct modeling_file, code->n ? code->n : 1);

    if (!files)
        return err_set(c->err, ERR_NOMEM, "", "no room for the model's files");
    info->n_files = 0;
    for (uint32_t i = 0; i < code->n; i++)
        if (code->files[i].text)
            files[info->n_files++] = (struct modeling_file){code->files[i].name, code->files[i].text, code->files[i].bytes};
    info->files = files;
    info->code = code;
    return ERR_OK;
}

static enum err_code read_code(struct call *c, const struct model_asked *asked, const struct api_config *f, const char *under, struct notes *warnings,
                               struct model_info *info)
{
    enum err_code rc = take_code(c, f->code, info);

    if (!rc)
        rc = read_program(c, asked->stack, under, info);
    if (!rc)
        note(warnings, "the program is the code of %s%.96s at %.40s, as trust_remote_code=True runs it",
             f->code->repository ? "another repository, " : "", f->code->repository ? f->code->repository : f->model,
             f->code->commit ? f->code->commit : f->revision);
    return rc;
}

/* Why the code of the repository cannot be read; ERR_OK: it can. */
static enum err_code lacks_code(struct call *c, const struct model_asked *asked, const struct api_config *f)
{
    const struct api_file *missing = f && f->code ? missing_file(f->code) : NULL;

    if (!f || !f->text)
        return err_set(c->err, ERR_FIELD_VALUE, "/program",
                       "'hub' reads the code of a model's repository: name it as `model`, or send the files in `modeling`");
    if (!f->code)
        return err_set(c->err, ERR_FIELD_VALUE, "/program", "the config.json of '%.96s' names no code of its own (auto_map)", asked->id);
    if (f->code->fault)
        return err_set(c->err, ERR_FIELD_VALUE, "/model", "the code of '%.96s' is not read: %.200s", asked->id, f->code->fault);
    if (!missing)
        return ERR_OK;
    c->retry_after_s = missing->retry_after_s;
    return err_set(c->err, missing->err ? missing->err->code : ERR_CONFIG_NOT_FOUND, "/model", "%s", missing->err ? missing->err->detail : missing->name);
}

/* ---- a type that nobody knows */
static bool is_one_of_keys(const struct json *config, const char *names)
{
    char name[64];

    for (const char *at = names, *end; *at; at = *end ? end + 1 : end) {
        uint64_t v;

        end = at + strcspn(at, "|");
        (void)snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        if (json_uint64(json_get(config, name), &v) && v)
            return true;
    }
    return false;
}

/* Not a decoder by what its config says of itself, or one that transformers has and whose program is to be written. */
static bool is_known_otherwise(const struct json *config, const char *type)
{
    static const char *const parts[] = {"vision_config", "audio_config", "text_config", "encoder", "visual", "vision_tower"};
    const char *class = json_str(json_first(json_get(config, "architectures")));
    bool encoder_decoder = false, generates = json_get(json_get(config, "auto_map"), "AutoModelForCausalLM") != NULL;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (json_type(json_get(config, parts[i])) == JSON_OBJECT)
            return true;
    (void)json_bool(json_get(config, "is_encoder_decoder"), &encoder_decoder);
    return encoder_decoder || stack_type_is_known(type) || (class && !generates && !strstr(class, "CausalLM") && !strstr(class, "LMHead"));
}

/* What the generic decoder cannot do without, by the name that most configs have. */
static enum err_code read_generic(struct call *c, const struct model_asked *asked, const char *under, struct notes *warnings, struct model_info *info)
{
    static const char *const wanted[] = {"hidden_size|n_embd|d_model|dim|n_embed|model_dim", "num_hidden_layers|n_layer|n_layers|num_layers",
                                         "num_attention_heads|n_head|n_heads|num_heads", "vocab_size|n_vocab|padded_vocab_size"};
    const char *of_class = program_of_class(info->config);
    char at[64];

    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
        if (!is_one_of_keys(info->config, wanted[i])) {
            (void)snprintf(at, sizeof at, "%.16s/%.*s", under, (int)strcspn(wanted[i], "|"), wanted[i]);
            return err_set(c->err, ERR_FIELD_MISSING, arena_str(c->arena, at, strlen(at)),
                           "model type '%.40s' has no program, and a decoder by the usual keys needs this one", info->model_type);
        }
    info->generic = true;
    if (of_class)
        note(warnings, "model type '%.60s' is not known: its class is %.60s's, whose program answers for it, and low_bytes..high_bytes are wide",
             info->model_type, of_class);
    else
        note(warnings, "model type '%.60s' is not known: a generic decoder of these sizes answers for it, and low_bytes..high_bytes are wide",
             info->model_type);
    return read_program(c, asked->stack, under, info);
}

/* Of a type that nothing else has a program for. Without its code it is a model that is known by name only. */
static enum err_code read_unknown(struct call *c, const struct model_asked *asked, const struct api_config *f, const char *under, struct notes *warnings,
                                  struct model_info *info)
{
    if (asked->program == PROGRAM_ANY && f && f->code) {
        if (!lacks_code(c, asked, f))
            return read_code(c, asked, f, under, warnings, info);
        note(warnings, "the config.json names code of its own, which is not at hand: %.300s", c->err->detail);
        c->retry_after_s = 0;
        *c->err = (struct err){0};
    }
    return asked->program == PROGRAM_ANY && !is_known_otherwise(info->config, info->model_type) ? read_generic(c, asked, under, warnings, info) : ERR_OK;
}

/* --- an installed transformers --------------------------------------------------------------------------------------------------- */

enum program_wanted program_wanted(const struct words *given)
{
    return given->n ? (enum program_wanted)program_words[given->at[0]].value : PROGRAM_ANY;
}

static release transformers_of(const char *text)
{
    struct stack s = {0};
    struct err err;

    return !text || stack_name(&s, PACKAGE_TRANSFORMERS, text, &err) ? 0 : s.transformers;
}

/* The one that the request's stack names; where it names none, the newest. */
static const struct installed *installed_for(const struct call *c, const char *named)
{
    const struct installed *found = NULL;

    for (const struct installed *const *i = c->rq->installed; i && *i; i++) {
        release its = transformers_of((*i)->release);

        if (its && (named ? its == transformers_of(named) : !found || its > transformers_of(found->release)))
            found = *i;
    }
    return found;
}

enum { EARLIEST_HELD = 5000 };

/* A copy of the request's own: the torch around it is that of the question. */
static enum err_code read_installed(struct call *c, const struct installed *shared, struct stack_request *asked, struct notes *warnings,
                                    struct model_info *info)
{
    struct installed *mine = arena_new(c->arena, struct installed);
    struct stack stack;
    const char *torch_text, *under = c->doc && json_get(c->doc, "config") ? "/config" : "/model";
    char at[sizeof c->err->at];
    enum err_code rc;

    if (!asked->transformers)
        asked->transformers = shared->release;
    rc = stack_read(asked, &stack, c->err);
    if (rc)
        return rc;
    torch_text = arena_str(c->arena, release_text(stack.torch).text, strlen(release_text(stack.torch).text));
    if (!mine || !torch_text)
        return err_set(c->err, ERR_NOMEM, "", "no room for the model's program");
    *mine = *shared;
    mine->torch_text = torch_text;
    rc = program_arch_installed(mine, info->config, c->arena, &info->arch, c->err);
    info->has_program = !rc;
    info->installed = mine;
    if (!rc && transformers_of(shared->release) < EARLIEST_HELD)
        note(warnings, "the program is the installed transformers %.20s's own: of releases before 5.0 some types were held to PyTorch, docs/reading.md "
                       "says which", shared->release);
    if (rc && !strncmp(c->err->at, "/config", 7)) {
        memcpy(at, c->err->at, sizeof at);
        (void)snprintf(c->err->at, sizeof c->err->at, "%s%.100s", under, at + 7);
    }
    return rc;
}

static enum err_code none_installed(struct call *c, const struct model_asked *asked)
{
    if (!c->rq->installed || !*c->rq->installed)
        return err_set(c->err, ERR_FIELD_VALUE, "/program", "no transformers is installed here: llmemd serve --transformers DIR reads one");
    return err_set(c->err, ERR_FIELD_VALUE, "/program", "no transformers %.20s is installed here, but %.20s", asked->stack->transformers,
                   c->rq->installed[0]->release);
}

/* A type without a program is a model that is known by name only: its candidates say so. */
static enum err_code read_arch(struct call *c, const struct model_asked *asked, const struct api_config *f, struct notes *warnings,
                               struct model_info *info)
{
    const struct json *modeling = asked->modeling;
    const struct installed *installed = asked->program == PROGRAM_ANY || asked->program == PROGRAM_INSTALLED
                                            ? installed_for(c, asked->stack->transformers)
                                            : NULL;
    const struct json *type = json_get(info->config, "model_type");
    const char *under = c->doc && json_get(c->doc, "config") ? "/config" : "/model";
    enum err_code rc;

    if (type && !json_str(type) && json_type(type) != JSON_NULL)
        return err_set(c->err, ERR_FIELD_TYPE, "/config/model_type", "must be a string");
    info->model_type = program_type(json_str(type));
    if (json_type(modeling) > JSON_NULL) {
        rc = read_files(c, modeling, info);
        return rc ? rc : read_program(c, asked->stack, under, info);
    }
    if (asked->program == PROGRAM_INSTALLED)
        return installed ? read_installed(c, installed, asked->stack, warnings, info) : none_installed(c, asked);
    if (asked->program == PROGRAM_HUB) {
        rc = lacks_code(c, asked, f);
        return rc ? rc : read_code(c, asked, f, under, warnings, info);
    }
    if (program_is_builtin(info->model_type) && family_find(info->model_type) == FAMILY_COUNT) {
        rc = read_program(c, asked->stack, under, info);
        if (!rc && info->arch.inventory_only && installed) /* its own files may have a step too */
            rc = read_installed(c, installed, asked->stack, warnings, info);
        return rc;
    }
    rc = arch_parse(info->config, c->arena, &info->arch, c->err);
    if (!rc)
        rc = attach_program(c, info);
    info->has_program = !rc;
    if (rc == ERR_ARCH_UNKNOWN && info->model_type && installed) {
        rc = read_installed(c, installed, asked->stack, warnings, info);
        if (rc != ERR_ARCH_UNKNOWN)
            return rc;
        note(warnings, "%s", c->err->detail);
        info->installed = NULL;
    }
    if (rc == ERR_ARCH_UNKNOWN && info->model_type)
        return read_unknown(c, asked, f, under, warnings, info);
    return rc ? err_under(c->err, under) : ERR_OK;
}

/* Of the types that a change is for; with types, that of a part is one of the part's own. */
static bool is_for(const struct config_change *v, const struct json *config)
{
    const char *type = json_str(json_get(v->of_text ? json_get(config, "text_config") : config, "model_type"));

    return !v->types || (type && word_among(v->types, type, strlen(type), true));
}

static enum err_code change_one(const struct config_change *v, struct json *config, struct err *err)
{
    struct json *said = NULL;
    enum err_code rc;

    if (!is_for(v, config))
        return ERR_OK;
    rc = v->value  ? ERR_OK
         : !v->text ? err_set(err, ERR_NOMEM, "", "no room for the model's config")
                    : json_parse(v->text, strlen(v->text), &json_limits_config, &said, err);
    if (!rc)
        rc = json_set(config, v->of_text ? "text_config" : NULL, v->name, v->value ? v->value : said, err);
    json_free(said);
    return rc;
}

/* As from_pretrained() finds it, and then as the tool's file says. */
static enum err_code change(struct call *c, const struct config_changes *changes, struct model_info *info)
{
    enum err_code rc = ERR_OK;

    if (!changes->n)
        return ERR_OK;
    if (!info->owned)
        info->config = info->owned = json_copy(info->config);
    if (!info->owned)
        return err_set(c->err, ERR_NOMEM, "", "no room for the model's config");
    for (uint32_t i = 0; i < changes->n && !rc; i++)
        rc = change_one(&changes->v[i], info->owned, c->err);
    info->source = "request";
    info->hub_parameters = info->counted_parameters = 0;
    return rc;
}

enum err_code model_read(struct call *c, const struct model_asked *asked, struct notes *warnings, struct model_info *info)
{
    const char *id = asked->id, *revision = asked->revision;
    const struct api_config *f = id ? config_find(c, id, revision) : NULL;
    enum err_code rc;

    info->id = id;
    info->revision = id ? revision ? revision : "main" : NULL;
    if (f && f->note)
        note(warnings, "%s", f->note);
    rc = f && f->text ? read_fetched(c, f, asked->config, warnings, info) : read_inline(c, id, revision, f, asked->config, warnings, info);
    if (!rc && asked->changes)
        rc = change(c, asked->changes, info);
    return rc ? rc : read_arch(c, asked, f, warnings, info);
}

enum err_code model_blame(const struct model_info *info, enum err_code rc, struct err *err)
{
    for (uint32_t i = 0; rc && err->file[0] && !err->at[0] && i < info->n_files; i++)
        if (!strcmp(info->files[i].name, err->file) && info->code)
            (void)snprintf(err->at, sizeof err->at, "/model");
        else if (!strcmp(info->files[i].name, err->file))
            (void)snprintf(err->at, sizeof err->at, "/modeling/%.100s", err->file);
    return rc;
}

static void write_file(struct jsonw *w, const char *name, const char *sum)
{
    jsonw_object(w, NULL);
    jsonw_str(w, "name", name);
    if (sum)
        jsonw_str(w, "sha256", sum);
    jsonw_end(w);
}

/* A file that was read for a stand-in too, and again for the model. */
static bool is_named_before(const struct installed *of, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(of->files[i].name, of->files[n].name))
            return true;
    return false;
}

/* Whose text the model is: the request's, or ours, which answers to a file of transformers. `version`: the release that is around it. */
static void write_program(struct jsonw *w, const struct model_info *info, const struct stack *stack)
{
    const char *type = info->generic ? program_of_class(info->config) : info->arch.model_type; /* the generic decoder is no file of transformers */
    char text[160];

    if (!info->has_program) {
        jsonw_null(w, "program");
        return;
    }
    jsonw_object(w, "program");
    jsonw_str(w, "source", info->installed ? "installed" : info->code ? "hub" : info->n_files ? "request" : "builtin");
    jsonw_str(w, "version", info->installed ? info->installed->release : release_text(stack->transformers).text);
    if (info->code && info->code->repository) {
        jsonw_str(w, "repository", info->code->repository);
        jsonw_str(w, "commit", info->code->commit);
    }
    jsonw_array(w, "files");
    for (uint32_t i = 0; info->installed && i < info->installed->n_files; i++) {
        if (is_named_before(info->installed, i))
            continue;
        sha256(info->installed->files[i].text, info->installed->files[i].bytes, text);
        write_file(w, info->installed->files[i].name, text);
    }
    for (uint32_t i = 0; i < info->n_files; i++) {
        sha256(info->files[i].text, info->files[i].bytes, text);
        write_file(w, info->files[i].name, text);
    }
    if (type && !info->n_files && !info->installed) {
        (void)snprintf(text, sizeof text, "models/%.60s/modeling_%.60s.py", type, type);
        write_file(w, text, NULL);
    }
    jsonw_end(w);
    jsonw_end(w);
}

void model_write_origin(struct jsonw *w, const struct model_info *info, const struct stack *stack)
{
    if (info->id) {
        jsonw_str(w, "id", info->id);
        jsonw_str(w, "revision", info->revision);
        jsonw_str(w, "commit", info->commit);
    }
    jsonw_str(w, "source", info->source);
    jsonw_str(w, "model_type", info->model_type);
    write_program(w, info, stack);
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
        {PACKAGE_FLASH_ATTN, asked->flash_attn}, {PACKAGE_LIGER, asked->liger}, {PACKAGE_CAUSAL_CONV1D, asked->causal_conv1d},
        {PACKAGE_MAMBA_SSM, asked->mamba_ssm}, {PACKAGE_FLA, asked->fla},
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
