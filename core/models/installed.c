/* installed.c - which file a name of transformers is, what stands in for those that are not read, and the classes of a model type. */
#include "models/installed.h"
#include "models/program.h"
#include "models/stand_in.h"
#include "models/task.h"

#include "natives/natives.h"

#include <stdio.h>
#include <string.h>

extern const struct program_file around_files[];
extern const size_t n_around_files;

/* Below the package, as they are: what a forward runs. Whatever else there is can be imported, but not used. */
static const char *const read_files[] = {
    "masking_utils",
    "modeling_attn_mask_utils",
    "modeling_rope_utils",
    "modeling_layers",
    "modeling_outputs",
    "activations",
    "cache_utils",
    "loss.loss_utils",
    "integrations.sdpa_attention",
    "integrations.moe",
    "utils.generic",
    "utils.output_capturing",
};
static bool is_one_of(const char *name, const char *const *of, size_t n)
{
    while (n--)
        if (!strcmp(name, of[n]))
            return true;
    return false;
}

static bool give_text(const char *given, const char **text, size_t *bytes, bool is_package, bool *package)
{
    *text = given;
    *bytes = strlen(given);
    *package = is_package;
    return true;
}

static bool stand_in(const char *name, const char **text, size_t *bytes, bool is_package, bool *package)
{
    return give_text(stand_in_file(name)->text, text, bytes, is_package, package);
}

/* "models.llama.modeling_llama" -> "models/llama/modeling_llama.py"; false: no such path. */
static bool file_of(const char *name, const char *end, char *ret, size_t room)
{
    int n = snprintf(ret, room, "%s%s", name, end);

    if (n < 0 || (size_t)n >= room)
        return false;
    for (char *c = ret; c < ret + strlen(name); c++)
        *c = *c == '.' ? '/' : *c;
    return true;
}

/* A module whose import says why its file is refused. */
static bool refusal(struct installed *from, const char *why, const char **text, size_t *bytes, bool *package)
{
    (void)snprintf(from->scratch, sizeof from->scratch, "from _script import leave\nleave('a file that is refused: %.400s')\n", why);
    return give_text(from->scratch, text, bytes, false, package);
}

static bool model_package(struct installed *from, const char *name, const char **text, size_t *bytes, bool *package)
{
    const char *called;
    char file[256];

    return file_of(name, "/__init__.py", file, sizeof file) && from->read(from->of, file, &called, text, bytes) != INSTALLED_ABSENT &&
           stand_in("transformers.models", text, bytes, true, package);
}

static bool read_module(struct installed *from, const char *name, bool is_model, const char **path, const char **text, size_t *bytes, bool *package)
{
    char file[256];

    *package = false;
    switch (file_of(name, ".py", file, sizeof file) ? from->read(from->of, file, path, text, bytes) : INSTALLED_ABSENT) {
    case INSTALLED_READ:
        return is_model || is_one_of(name, read_files, sizeof read_files / sizeof *read_files) || stand_in("anything", text, bytes, false, package);
    case INSTALLED_REFUSED:
        return refusal(from, *text, text, bytes, package);
    default:
        if (is_model)
            return model_package(from, name, text, bytes, package);
        return file_of(name, "/__init__.py", file, sizeof file) && from->read(from->of, file, path, text, bytes) != INSTALLED_ABSENT &&
               stand_in("anything", text, bytes, true, package);
    }
}

static const char *looked_up(const struct installed *from, const char *const *files, const char *table, const char *key, struct arena *arena);

/* "_auto:TABLE:type": a module whose `name` is the class that a table of models/auto has for the type, or None. */
static bool auto_class(struct installed *from, const char *asked, const char **text, size_t *bytes, bool *package)
{
    static const char *const files[] = {"models/auto/modeling_auto.py", "models/auto/auto_mappings.py", "models/auto/configuration_auto.py", NULL};
    unsigned char room[512];
    struct arena arena;
    char table[96];
    const char *type = strchr(asked, ':'), *name = NULL;

    arena_init(&arena, room, sizeof room);
    if (type && snprintf(table, sizeof table, "%.*s = ", (int)(type - asked), asked) < (int)sizeof table)
        name = looked_up(from, files, table, type + 1, &arena);
    (void)snprintf(from->scratch, sizeof from->scratch, name ? "name = '%.200s'\n" : "name = None\n", name);
    return give_text(from->scratch, text, bytes, false, package);
}

bool installed_source(void *files, const char *name, const char **path, const char **text, size_t *bytes, bool *package)
{
    static const char root[] = "transformers.", models[] = "models.";
    struct installed *from = files;

    *path = name;
    if (stand_in_package(name))
        return stand_in(name, text, bytes, true, package);
    if (!strcmp(name, "_release")) {
        (void)snprintf(from->scratch, sizeof from->scratch, "import torch\ntorch.__version__ = '%.40s'\n", from->torch_text);
        return give_text(from->scratch, text, bytes, false, package);
    }
    if (!strncmp(name, "_auto:", 6))
        return auto_class(from, name + 6, text, bytes, package);
    if (strncmp(name, root, sizeof root - 1) != 0)
        return false;
    name += sizeof root - 1;
    if (!strcmp(name, "models"))
        return give_text("", text, bytes, true, package);
    return read_module(from, name, !strncmp(name, models, sizeof models - 1), path, text, bytes, package);
}

enum err_code installed_image(struct arena *arena, const char *named, const struct image **ret, struct err *err)
{
    const struct program_file *package = stand_in_file("transformers");
    struct image *im = NULL;
    char version[64];
    enum err_code rc = image_new(arena, NULL, &im, err);

    (void)snprintf(version, sizeof version, "__version__ = '%.40s'\n", named);
    if (!rc)
        rc = natives_image(im, err);
    if (!rc)
        rc = image_source(im, "_installed", "_installed", version, strlen(version), false, err);
    if (!rc)
        rc = image_source(im, package->name, package->path, package->text, package->bytes, true, err);
    for (size_t i = 0; !rc && i < n_around_files; i++) {
        const struct program_file *f = &around_files[i];

        rc = image_source(im, f->name, f->path, f->text, f->bytes, f->package, err);
    }
    if (!rc)
        *ret = im;
    return rc;
}

/* ------------------------------------------------------------------------------------------------ classes of a model type */
static const char *text_find(const char *text, size_t bytes, const char *what)
{
    const char *end = text + bytes;
    size_t n = strlen(what);

    while ((size_t)(end - text) >= n && (text = memchr(text, *what, (size_t)(end - text) - n + 1)) != NULL) {
        if (!memcmp(text, what, n))
            return text;
        text++;
    }
    return NULL;
}

/* The string after the colon or comma behind "KEY" in the table that begins with `table`: ("llama", "LlamaConfig") or "llama": "..". */
static const char *named_in(const char *text, size_t bytes, const char *table, const char *key, struct arena *arena)
{
    const char *at = text_find(text, bytes, table), *end, *stop, *close;
    char quoted[128], *copy;

    if (!at)
        return NULL;
    (void)snprintf(quoted, sizeof quoted, "\"%.100s\"", key);
    stop = text_find(at, bytes - (size_t)(at - text), "\n)");
    close = text_find(at, bytes - (size_t)(at - text), "\n}");
    if (!stop || (close && close < stop))
        stop = close;
    end = stop ? stop : text + bytes;
    for (const char *from = at; (from = text_find(from, (size_t)(end - from), quoted)) != NULL; from++) {
        const char *c = from + strlen(quoted), *last;

        if (from[-1] != '(' && from[-1] != ' ' && from[-1] != '{')
            continue;
        while (c < end && (*c == ',' || *c == ':' || *c == ' ' || *c == '\n' || *c == '('))
            c++;
        if (c >= end || *c != '"' || from[-1] == ',')
            continue;
        last = memchr(c + 1, '"', (size_t)(end - c - 1));
        if (!last)
            return NULL;
        copy = arena_array(arena, char, (size_t)(last - c));
        if (!copy)
            return NULL;
        memcpy(copy, c + 1, (size_t)(last - c - 1));
        copy[last - c - 1] = 0;
        return copy;
    }
    return NULL;
}

/* The value in the first of the files that has the table and the key. */
static const char *looked_up(const struct installed *from, const char *const *files, const char *table, const char *key, struct arena *arena)
{
    for (; *files; files++) {
        const char *name, *text, *value;
        size_t bytes;

        if (from->read(from->of, *files, &name, &text, &bytes) != INSTALLED_READ)
            continue;
        value = named_in(text, bytes, table, key, arena);
        if (value)
            return value;
    }
    return NULL;
}

static void path_of(const char *folder, const char *what, const char *name, char *ret, size_t room)
{
    (void)snprintf(ret, room, "models/%.80s/%s_%.80s.py", folder, what, name);
    for (char *c = ret; *c; c++)
        *c = *c == '-' ? '_' : *c;
}

static bool has(const struct installed *from, const char *folder, const char *what, const char *name)
{
    char path[256];
    const char *as, *text;
    size_t bytes;

    path_of(folder, what, name, path, sizeof path);
    return from->read(from->of, path, &as, &text, &bytes) == INSTALLED_READ;
}

static bool has_file(const struct installed *from, const char *folder, const char *name)
{
    return has(from, folder, "modeling", name);
}

/* getattribute_from_module() looks in all of transformers: the first type of the table that has the class, and a file. */
static const char *type_of_class(const struct installed *from, const char *table_file, const char *model, const char *otherwise, struct arena *arena)
{
    const char *name, *text, *at;
    char quoted[128];
    size_t bytes, n;

    if (from->read(from->of, table_file, &name, &text, &bytes) != INSTALLED_READ)
        return otherwise;
    (void)snprintf(quoted, sizeof quoted, "\", \"%.100s\")", model);
    n = strlen(quoted);
    for (at = text; (at = text_find(at, bytes - (size_t)(at - text), quoted)) != NULL; at += n) {
        const char *begin = at;
        char *type;

        while (begin > text && begin[-1] != '"' && begin[-1] != '\n')
            begin--;
        type = arena_str(arena, begin, (size_t)(at - begin));
        if (type && begin < at && has_file(from, type, type))
            return type;
    }
    return otherwise;
}

static const char *const classes[] = {"models/auto/modeling_auto.py", NULL};

/* AutoModelForMaskedLM and the like, of which a stage asks for one. */
static const char *const *heads_of(const struct installed *from, const char *model_type, struct arena *arena)
{
    static const char *const tables[TASK_COUNT] = {
        [TASK_CLASSIFICATION] = "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES = ",
        [TASK_TOKEN_CLASSIFICATION] = "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES = ",
        [TASK_QUESTION_ANSWERING] = "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES = ",
        [TASK_MASKED_LM] = "MODEL_FOR_MASKED_LM_MAPPING_NAMES = ",
        [TASK_PRETRAINING] = "MODEL_FOR_PRETRAINING_MAPPING_NAMES = ",
    };
    const char **heads = arena_array(arena, const char *, TASK_COUNT);

    for (int i = 0; heads && i < TASK_COUNT; i++)
        heads[i] = tables[i] ? looked_up(from, classes, tables[i], model_type, arena) : NULL;
    return heads;
}

/* What a script makes of a config: the causal language model, or what the type has in its place. */
static const char *class_of(const struct installed *from, const char *model_type, const char *architecture, struct arena *arena, struct program_source *ret)
{
    static const char *const others[] = {"MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES = ", "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES = ",
                                         "MODEL_FOR_VISION_2_SEQ_MAPPING_NAMES = ", "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES = "};
    const char *causal = looked_up(from, classes, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES = ", model_type, arena), *first = NULL;

    if (causal && !strcmp(causal, architecture))
        return causal;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) { /* before heads: the table for pretraining has these classes too */
        const char *other = looked_up(from, classes, others[i], model_type, arena);

        if (other && !strcmp(other, architecture))
            return other;
        first = first ? first : other;
    }
    for (int i = 0; i < TASK_COUNT; i++)
        if (ret->heads[i] && !strcmp(ret->heads[i], architecture)) {
            ret->trains_head = true;
            return architecture;
        }
    if (causal || first)
        return causal ? causal : first;
    ret->trains_head = ret->heads[TASK_MASKED_LM] != NULL;
    return ret->heads[TASK_MASKED_LM];
}

enum err_code installed_classes(const struct installed *from, const char *model_type, const char *architecture, struct arena *arena,
                                struct program_source *ret, struct err *err)
{
    static const char *const configs[] = {"models/auto/auto_mappings.py", "models/auto/configuration_auto.py", NULL};
    const char *model, *config = looked_up(from, configs, "CONFIG_MAPPING_NAMES = ", model_type, arena),
               *folder = looked_up(from, configs, "SPECIAL_MODEL_TYPE_TO_MODULE_NAME = ", model_type, arena);
    char *module = arena_array(arena, char, 256);
    char *other_module = arena_array(arena, char, 256);
    const char *file = NULL, *other = NULL;

    ret->heads = heads_of(from, model_type, arena);
    if (!module || !other_module || !ret->heads)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for this model");
    model = class_of(from, model_type, architecture, arena, ret);
    if (!model || !config)
        return err_set(err, ERR_ARCH_UNKNOWN, "/model_type", "transformers %.20s, as installed, has no language model of the type '%.80s'",
                       from->release, model_type);
    if (!folder)
        folder = model_type;
    if (!has_file(from, folder, folder)) { /* data2vec-text has a file of its own; internlm3 the classes of another type, gpt-sw3 its config too */
        file = has_file(from, folder, model_type) ? model_type : NULL;
        other = !file && has(from, folder, "configuration", folder) ? folder : NULL;
        folder = file ? folder : type_of_class(from, classes[0], model, folder, arena);
    }
    (void)snprintf(module, 256, "transformers.models.%.80s.modeling_%.80s", folder, file ? file : folder);
    for (char *c = module; *c; c++)
        *c = *c == '-' ? '_' : *c;
    if (other)
        (void)snprintf(other_module, 256, "transformers.models.%.80s.configuration_%.80s", other, other);
    ret->config_module = other ? other_module : NULL;
    ret->module = module;
    ret->config_class = config;
    ret->model_class = model;
    return ERR_OK;
}

/* "5.23.0", "4.57.0.dev0": two numbers of at most four digits, then what a release's name may have. */
static bool is_release(const char *name)
{
    static const char digits[] = "0123456789", more[] = "0123456789abcdefghijklmnopqrstuvwxyz.+-_";
    size_t major = strspn(name, digits), minor = name[major] == '.' ? strspn(name + major + 1, digits) : 0;

    return major && major < 5 && minor && minor < 5 && (!name[major + 1 + minor] || name[major + 1 + minor] == '.') && !name[strspn(name, more)];
}

bool installed_version(const char *text, size_t bytes, char *ret, size_t room)
{
    static const char says[] = "__version__ = ";
    const char *at = text, *end = text + bytes, *close;
    size_t n = sizeof says - 1;

    while ((at = text_find(at, (size_t)(end - at), says)) != NULL && at > text && at[-1] != '\n')
        at++;
    if (!at || (size_t)(end - at) <= n + 1 || (at[n] != '"' && at[n] != '\''))
        return false;
    close = memchr(at + n + 1, at[n], (size_t)(end - at) - n - 1);
    at += n + 1;
    if (!close || (size_t)(close - at) >= room)
        return false;
    memcpy(ret, at, (size_t)(close - at));
    ret[close - at] = 0;
    return is_release(ret);
}
