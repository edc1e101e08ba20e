/* modeling.c - a model that is made of text: which files and classes, and what everything beside memory asks of it. */
#include "models/program_parts.h"

#include "base/json.h"
#include "stack/defaults.h"
#include "stack/release.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- names */
static const char package[] = "transformers_modules.request";
enum { NAME_MAX = 96 };

/* "modeling_x.py" */
static bool is_file_name(const char *name)
{
    size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

    return n && n < 60 && (name[0] < '0' || name[0] > '9') && !strcmp(name + n, ".py");
}

struct naming {
    struct arena *arena;
    const char *package;
    const struct modeling_file *files;
    uint32_t n_files;
    struct err *err;
};

/* What `import` calls a file: transformers_modules.request.modeling_x, or as transformers itself does where the config names no class. */
static const char *module_name(const struct naming *n, const char *stem, size_t bytes)
{
    char text[256];
    int k = snprintf(text, sizeof text, "%s.%.*s", n->package, (int)bytes, stem);

    return arena_str(n->arena, text, (size_t)k);
}

static const struct modeling_file *file_of(const struct naming *n, const char *stem, size_t bytes)
{
    for (uint32_t i = 0; i < n->n_files; i++)
        if (strlen(n->files[i].name) == bytes + 3 && !memcmp(n->files[i].name, stem, bytes))
            return &n->files[i];
    return NULL;
}

/* auto_map: "modeling_x.XForCausalLM", maybe with "repository--" before it; a list where a class has several. */
static enum err_code read_auto(const struct naming *n, const struct json *map, const char *key, const char **ret_module, const char **ret_class)
{
    const struct json *v = json_get(map, key);
    const char *text = json_str(json_type(v) == JSON_ARRAY ? json_first(v) : v), *dot, *from;
    char at[64];

    (void)snprintf(at, sizeof at, "/config/auto_map/%s", key);
    if (!v)
        return ERR_OK;
    from = text ? strstr(text, "--") : NULL;
    from = from ? from + 2 : text;
    dot = text ? strrchr(from, '.') : NULL;
    if (!dot || !dot[1] || dot == from || strlen(text) > 200)
        return err_set(n->err, ERR_FIELD_VALUE, at, "must name a class of a file, like \"modeling_x.XForCausalLM\"");
    if (!file_of(n, from, (size_t)(dot - from)))
        return err_set(n->err, ERR_FIELD_VALUE, at, "%.*s.py is none of the files at hand", (int)(dot - from < 60 ? dot - from : 60), from);
    *ret_module = module_name(n, from, (size_t)(dot - from));
    *ret_class = arena_str(n->arena, dot + 1, strlen(dot + 1));
    return *ret_module && *ret_class ? ERR_OK : err_set(n->err, ERR_NOMEM, "", "no room for the names of the model's classes");
}

/* Without auto_map: architectures[0], in the file that begins a class of that name. */
static enum err_code read_architectures(const struct naming *n, const struct json *config, struct program_source *ret)
{
    const char *name = json_str(json_first(json_get(config, "architectures")));
    char begins[128];

    if (!name || strlen(name) > 100)
        return err_set(n->err, ERR_FIELD_MISSING, "/config/auto_map", "needed to find the classes in the files of /modeling: "
                       "{\"AutoConfig\": \"configuration_x.XConfig\", \"AutoModelForCausalLM\": \"modeling_x.XForCausalLM\"}; or architectures");
    (void)snprintf(begins, sizeof begins, "class %s", name);
    for (uint32_t i = 0; i < n->n_files; i++) {
        const struct modeling_file *f = &n->files[i];
        const char *at = strstr(f->text, begins);

        while (at && (strchr("(: ", at[strlen(begins)]) == NULL || (at != f->text && at[-1] != '\n')))
            at = strstr(at + 1, begins);
        if (!at)
            continue;
        ret->module = module_name(n, f->name, strlen(f->name) - 3);
        ret->model_class = arena_str(n->arena, name, strlen(name));
        return ret->module && ret->model_class ? ERR_OK : err_set(n->err, ERR_NOMEM, "", "no room for the names of the model's classes");
    }
    return err_set(n->err, ERR_FIELD_VALUE, "/config/architectures/0", "no file in /modeling has a class %.60s, and there is no auto_map", name);
}

static enum err_code read_classes(const struct naming *n, const struct json *config, struct program_source *ret)
{
    static const char *const keys[] = {"AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModel"}; /* ChatGLM's are the latter */
    const struct json *map = json_get(config, "auto_map");
    size_t key = 0;
    enum err_code rc;

    while (key < 3 && !json_get(map, keys[key]))
        key++;
    if (key == 3)
        return json_type(map) > JSON_NULL
                   ? err_set(n->err, ERR_FIELD_MISSING, "/config/auto_map/AutoModelForCausalLM", "the class to be trained, like \"modeling_x.XForCausalLM\"")
                   : read_architectures(n, config, ret);
    rc = read_auto(n, map, keys[key], &ret->module, &ret->model_class);
    return rc ? rc : read_auto(n, map, "AutoConfig", &ret->config_module, &ret->config_class);
}

/* ------------------------------------------------------------------------------------------------------------- files */
static enum err_code at_file(struct err *err, const struct modeling_file *files, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(files[i].name, err->file)) {
            (void)snprintf(err->at, sizeof err->at, "/modeling/%.100s", err->file);
            return err->code;
        }
    if (!err->at[0])
        (void)snprintf(err->at, sizeof err->at, "%s", n ? "/modeling" : "/config");
    return err->code;
}

static bool is_utf8_without_nul(const struct modeling_file *f)
{
    return strlen(f->text) == f->bytes;
}

static enum err_code read_files(const struct naming *n, const struct image *library, const struct image **ret)
{
    struct image *own;
    enum err_code rc = image_new(n->arena, library, &own, n->err);

    if (!rc)
        rc = image_source(own, n->package, "", "", 0, true, n->err);
    if (!rc && n->package == package)
        rc = image_source(own, "transformers_modules", "", "", 0, true, n->err);
    for (uint32_t i = 0; !rc && i < n->n_files; i++) {
        const struct modeling_file *f = &n->files[i];
        const char *name = is_file_name(f->name) ? module_name(n, f->name, strlen(f->name) - 3) : NULL;

        if (!is_file_name(f->name))
            return err_set(n->err, ERR_FIELD_VALUE, "/modeling", "'%.60s' is no name of a file of Python like \"modeling_x.py\"", f->name);
        if (!is_utf8_without_nul(f))
            return err_set(n->err, ERR_FIELD_VALUE, "/modeling", "%.60s has a NUL", f->name);
        rc = name ? image_source(own, name, f->name, f->text, f->bytes, false, n->err) : err_set(n->err, ERR_NOMEM, "", "no room for the files");
    }
    if (rc)
        return at_file(n->err, n->files, n->n_files);
    *ret = own;
    return ERR_OK;
}

/* ------------------------------------------------------------------------------------------------- what the model is */
/* A whole number of the config by one of several names, joined by '|'; 0: none. */
static uint32_t number_of(struct program *p, const char *names, const char **ret_name)
{
    char name[64];

    for (const char *at = names, *end; *at; at = *end ? end + 1 : end) {
        sv v = sv_null();

        end = at + strcspn(at, "|");
        (void)snprintf(name, sizeof name, "%.*s", (int)(end - at), at);
        if (script_find(p->s, p->config, script_symbol(p->s, name), &v) < 0) {
            script_forgive(p->s);
            continue;
        }
        if (v.tag == SV_INT && v.i > 0 && v.i <= UINT32_MAX) {
            if (ret_name)
                *ret_name = script_symbol(p->s, name).o ? str_text(script_symbol(p->s, name), NULL) : NULL;
            return (uint32_t)v.i;
        }
        sv_drop(p->s, v);
    }
    return 0;
}

static bool flag_of(struct program *p, sv of, const char *name, bool otherwise)
{
    sv v = sv_null();
    int truth = -1;

    if (script_find(p->s, of, script_symbol(p->s, name), &v) == 0)
        truth = script_truth(p->s, v);
    sv_drop(p->s, v);
    script_forgive(p->s);
    return truth < 0 ? otherwise : truth;
}

static uint32_t children(const struct module *m)
{
    uint32_t n = 0;

    for (const struct module *k = m ? m->first : NULL; k; k = k->next)
        n++;
    return n;
}

static uint32_t modules_below(const struct module *m)
{
    uint32_t n = 0;

    for (const struct module *k = m ? m->first : NULL; k; k = k->next)
        n += 1 + modules_below(k);
    return n;
}

static const char *text_of_dtype(const struct json *config)
{
    const struct json *v = json_get(config, json_type(json_get(config, "dtype")) > JSON_NULL ? "dtype" : "torch_dtype");
    const char *text = json_str(v);

    return !text ? "" : !strncmp(text, "torch.", 6) ? text + 6 : text;
}

static enum dtype_saved saved_of(const struct json *config)
{
    const char *text = text_of_dtype(config);

    return !strcmp(text, "bfloat16") ? SAVED_BF16 : !strcmp(text, "float16") ? SAVED_FP16 : !strcmp(text, "float32") ? SAVED_FP32 : SAVED_ABSENT;
}

/* Sizes as the config's own class names them, through its attribute_map; what it does not name is the model's. */
static void take_sizes(struct program *p, const struct model *m, struct arch *a)
{
    const struct param *table = m->embeddings ? m->embeddings->weight : NULL;

    a->hidden = number_of(p, "hidden_size|n_embd|d_model|dim|hidden_dim|n_embed|embed_dim|model_dim", NULL);
    if (!a->hidden && table)
        a->hidden = (uint32_t)table->size[1];
    a->vocab = number_of(p, "vocab_size|n_vocab|padded_vocab_size", NULL);
    if (!a->vocab && table)
        a->vocab = (uint32_t)table->size[0];
    a->heads = number_of(p, "num_attention_heads|n_head|n_heads|num_heads", NULL);
    a->kv_heads = number_of(p, "num_key_value_heads|n_kv_heads|num_kv_heads|n_kv_head|n_head_kv", NULL);
    a->head_dim = number_of(p, "head_dim|d_head|kv_channels|head_size", NULL);
    a->ffn = number_of(p, "intermediate_size|ffn_dim|n_inner|d_ff|ffn_hidden_size|mlp_hidden_size", NULL);
    a->max_positions = number_of(p, "max_position_embeddings|n_positions|block_size|max_seq_len|max_sequence_length|n_ctx|seq_length", NULL);
    a->experts = number_of(p, "num_experts|num_local_experts|n_routed_experts|moe_num_experts", NULL);
    a->experts_used = number_of(p, "num_experts_per_tok|moe_k|moe_top_k|moe_topk", NULL);
    a->layers = children(module_list(&m->tree));
    if (!a->layers)
        a->layers = 1;
    if (!a->kv_heads)
        a->kv_heads = a->heads;
    if (!a->head_dim && a->heads)
        a->head_dim = a->hidden / a->heads;
    if (!a->ffn)
        a->ffn = 4 * a->hidden;
    a->embed_dim = table ? (uint32_t)table->size[1] : a->hidden;
    a->tie_embeddings = m->tree.head && m->tree.head->weight && m->tree.head->weight->tied;
    a->use_cache = p->uses_cache;
}

static unsigned offers_of(struct program *p, const struct quirks *q)
{
    unsigned offers = CLASS_EAGER;

    if (flag_of(p, p->model_class, "_supports_sdpa", false))
        offers |= CLASS_SDPA;
    if (flag_of(p, p->model_class, "_supports_flash_attn", false) || (q->flash_offered_by_2 && flag_of(p, p->model_class, "_supports_flash_attn_2", false)))
        offers |= CLASS_FLASH_2;
    return offers;
}

static bool lacks(struct program *p, const char *name)
{
    sv found = sv_null();
    bool absent = script_find(p->s, p->model_class, script_symbol(p->s, name), &found) == SCRIPT_ABSENT;

    sv_drop(p->s, found);
    script_forgive(p->s);
    return absent;
}

static enum err_code too_large(const struct arch *a, struct err *err)
{
    if (a->layers > ARCH_MAX_LAYERS)
        return err_set(err, ERR_ARCH_INVALID, "/config", "a model of %u layers; at most %d are looked at", a->layers, (int)ARCH_MAX_LAYERS);
    return ERR_OK;
}

/* Before transformers 5 each expert is a module with linears and an activation of its own: DeepSeek-V3 has 75,000 modules, Kimi K2 117,000. */
enum { MODULES = 1 << 16, MODULES_MOST = 1 << 18 };

/* Declares the model on the stack that was asked (NULL: the newest), of so many layers where the source has a name for them. What is made lives until
 * the arena is rewound. */
static enum err_code declare_with(const struct program_source *from, const struct stack *stack, struct arch *as, struct quirks *quirks, struct arena *arena,
                                  struct model *ret, struct err *err)
{
    struct stack asked = stack ? *stack : (struct stack){0};
    enum err_code rc = stack_complete(&asked, err);
    unsigned char *mark = arena->cur;
    uint32_t room = MODULES;

    *quirks = quirks_for(&asked, as->model_type);
    if (rc)
        return rc;
    for (;; room *= 2) {
        *ret = (struct model){.arch = as, .source = from, .family = &script_program, .q = quirks, .only_sizes = true};
        rc = tree_init(&ret->tree, arena, DTYPE_FP32, room, err);
        if (!rc)
            rc = model_declare(ret, err);
        if (rc != ERR_NOMEM || arena->full || ret->tree.n_modules < room || room == MODULES_MOST)
            return rc;
        arena_rewind(arena, mark);
        *err = (struct err){0};
    }
}

static const char *const layer_names[] = {"num_hidden_layers", "n_layer", "num_layers", "n_layers", "num_blocks", "depth"};
enum { LAYER_NAMES = sizeof layer_names / sizeof *layer_names, OF_FAMILIES = 4 }; /* OF_FAMILIES: that configs of family_rows[] have */

static const char *name_in_file(const struct json *config, uint32_t layers)
{
    uint64_t said;

    for (size_t i = 0; i < LAYER_NAMES; i++)
        if (json_uint64(json_get(config, layer_names[i]), &said) && said == layers)
            return layer_names[i];
    return NULL;
}

/* The config's member that says how many layers there are: as config.json has it, of the model or of its text, else as its class has. */
static void name_layers(struct program *p, struct program_source *from, uint32_t layers)
{
    from->layers_within = NULL;
    from->layers_name = name_in_file(from->config, layers);
    if (from->layers_name)
        return;
    from->layers_name = name_in_file(json_get(from->config, "text_config"), layers);
    if (from->layers_name)
        from->layers_within = "text_config";
    for (size_t i = 0; !from->layers_name && i < LAYER_NAMES; i++)
        if (number_of(p, layer_names[i], NULL) == layers)
            from->layers_name = layer_names[i];
}

enum { FEW = 4 }; /* below twice as many nobody takes fewer */

/* The kinds of its layers; NULL: they cannot be told, or too few to matter. */
static const uint8_t *kinds_of(struct program *p, const struct tree *t, uint32_t layers, uint8_t *room)
{
    return layers >= 2 * FEW && program_kinds(p, t, layers, room) ? room : NULL;
}

/* Of half the layers the same config makes the first half of the model. */
static bool takes_fewer(const struct program_source *from, const struct stack *stack, const struct arch *a, struct arena *arena)
{
    struct arch as = *a;
    struct quirks quirks;
    struct model m;
    struct err err = {0};
    bool full = arena->full, same;
    uint8_t *kinds;

    as.layers = a->layers / 2;
    kinds = arena_array(arena, uint8_t, as.layers);
    same = kinds && !declare_with(from, stack, &as, &quirks, arena, &m, &err) && children(module_list(&m.tree)) == as.layers &&
           program_kinds(m.parts, &m.tree, as.layers, kinds) && !memcmp(kinds, a->layer_kinds, as.layers);
    arena->full = full;
    return same;
}

/* PACKAGE_COUNT: none has that name. */
static enum package package_named(const char *name)
{
    enum package p = 0;

    while (p < PACKAGE_COUNT && (!name || strcmp(package_name(p), name) != 0))
        p++;
    return p;
}

/* `turn` of a class: how many tokens a turn of the loops in its layers takes, how many nodes it makes; how many those make that do not depend on tokens; which
 * package has kernels in their place. Where that is installed there are no loops. */
static void take_turns(struct program *p, const struct stack *stack, struct arch *ret)
{
    sv said = sv_null();
    uint32_t n = 0;
    const sv *items;

    if (script_find(p->s, p->model_class, script_symbol(p->s, "turn"), &said) == 0 && (items = seq_items(said, &n)) && n == 4) {
        enum package kernels = package_named(str_text(items[3], NULL));

        if (kernels == PACKAGE_COUNT || !stack || !stack_release(stack, kernels)) {
            ret->loop_package = kernels < PACKAGE_COUNT ? package_name(kernels) : NULL;
            ret->turn_tokens = (uint32_t)items[0].i;
            ret->turn_nodes = (uint32_t)items[1].i;
            ret->loop_nodes = (uint32_t)items[2].i;
        }
    }
    sv_drop(p->s, said);
    script_forgive(p->s);
}

/* The model as it is declared there: what it has is read off; every question makes it anew. */
static enum err_code look(struct program_source *from, const struct stack *stack, struct arena *arena, struct arch *ret, struct err *err)
{
    struct arch as = *ret;
    struct quirks quirks;
    struct model m;
    uint8_t *kinds = arena_array(arena, uint8_t, ARCH_MAX_LAYERS);
    unsigned char *mark = arena->cur;
    enum err_code rc;

    as.layers = 1;
    rc = kinds ? declare_with(from, stack, &as, &quirks, arena, &m, err) : err_set(err, ERR_NOMEM, "", "no room for the model's program");
    if (rc) {
        arena_rewind(arena, mark);
        return rc;
    }
    take_sizes(m.parts, &m, ret);
    ret->offers = ret->theirs ? offers_of(m.parts, &quirks) : 0;
    ret->never_adapts = from->n_files && lacks(m.parts, "prepare_inputs_for_generation");
    ret->inventory_only = flag_of(m.parts, ((struct program *)m.parts)->model_class, "inventory_only", false);
    ret->encoder = from->trains_head || flag_of(m.parts, ((struct program *)m.parts)->model_class, "encoder", false);
    ret->whole_heads = program_leaves_heads_whole(m.parts);
    take_turns(m.parts, stack, ret);
    ret->modules_within = modules_below(module_list(&m.tree));
    ret->has_towers = module_lists_beside(&m.tree);
    ret->modules_beside = m.tree.n_modules - ret->modules_within;
    ret->never_checkpoints = !flag_of(m.parts, ((struct program *)m.parts)->model_class, "supports_gradient_checkpointing", false);
    rc = too_large(ret, err);
    ret->layer_kinds = rc ? NULL : kinds_of(m.parts, &m.tree, ret->layers, kinds);
    ret->whole_layers = ret->layers;
    if (ret->layer_kinds)
        name_layers(m.parts, from, ret->layers);
    from->layers = ret->layers;
    ret->may_repeat = from->layers_name && takes_fewer(from, stack, ret, arena);
    ret->fixed_depth = ret->theirs || !ret->may_repeat;
    if (!ret->may_repeat)
        from->layers_name = NULL;
    arena_rewind(arena, mark);
    return rc;
}

/* configuration_auto.py model_type_to_module_name: "xlm-roberta" lives in xlm_roberta. */
static bool is_module_of(const char *module, const char *model_type)
{
    for (; *module && *model_type && (*module == *model_type || (*module == '_' && *model_type == '-')); module++, model_type++)
        ;
    return *module == *model_type;
}

static const char families[] = "transformers.models.";

static const struct program_file *family_file(const char *model_type)
{
    for (size_t i = 0; i < n_program_files; i++)
        if (!strncmp(program_files[i].name, families, sizeof families - 1) && is_module_of(program_files[i].name + sizeof families - 1, model_type))
            return &program_files[i];
    return NULL;
}

/* Names that types had before transformers knew them. */
const char *program_type(const char *named)
{
    if (named && (!strcmp(named, "RefinedWebModel") || !strcmp(named, "RefinedWeb")))
        return "falcon";
    return named && !strcmp(named, "gpt-sw3") ? "gpt2" : named; /* CONFIG_MAPPING has GPT2Config for it */
}

bool program_is_builtin(const char *model_type)
{
    return model_type && family_file(model_type);
}

bool program_has_step(const char *model_type)
{
    const struct program_file *file = model_type ? family_file(program_type(model_type)) : NULL;

    return file && !strstr(file->text, "(InventoryOnly, ") && !strstr(file->text, ", inventory_only = ");
}

const char *program_of_class(const struct json *config)
{
    const char *class = json_str(json_first(json_get(config, "architectures"))), *type;
    char begins[96];

    if (!class || !*class || (size_t)snprintf(begins, sizeof begins, "\nclass %s(", class) >= sizeof begins)
        return NULL;
    for (size_t i = 0; i < n_program_files; i++) {
        if (strncmp(program_files[i].name, families, sizeof families - 1) != 0 || !strstr(program_files[i].text, begins))
            continue;
        type = program_files[i].name + sizeof families - 1;
        return program_has_step(type) ? type : NULL;
    }
    return NULL;
}

static enum err_code read_names(struct naming *n, const struct json *config, const char *type, struct program_source *ret)
{
    char text[160];

    if (!n->n_files && program_is_builtin(type)) {
        type = strrchr(family_file(type)->name, '.') + 1;
    } else if (!n->n_files) {
        type = program_of_class(config);
        type = type ? type : "generic";
    }
    (void)snprintf(text, sizeof text, "transformers.models.%.60s", type);
    n->package = json_type(json_get(config, "auto_map")) == JSON_OBJECT ? package : arena_str(n->arena, text, strlen(text));
    if (n->n_files)
        return read_classes(n, config, ret);
    (void)snprintf(text, sizeof text, "transformers.models.%.60s.modeling_%.60s", type, type);
    ret->module = arena_str(n->arena, text, strlen(text));
    return n->package && ret->module ? ERR_OK : err_set(n->err, ERR_NOMEM, "", "no room for the names of the model's classes");
}

static bool is_word(const char *type)
{
    return type[0] && strlen(type) < 60 && !type[strspn(type, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-.")];
}

/* The member of a config that says how many layers there are; each class knows its own by attribute_map. */
static const char *layers_name(const struct json *config)
{
    for (int i = 0; i < OF_FAMILIES; i++)
        if (json_get(config, layer_names[i]))
            return layer_names[i];
    return layer_names[0];
}

enum err_code program_attach(const struct program_library *library, const struct json *config, struct arena *arena, struct arch *ret, struct err *err)
{
    struct program_source *from = arena_new(arena, struct program_source);
    struct naming n = {.arena = arena, .err = err};
    const struct json *inner = json_get(config, "model_type") ? config : json_get(config, "text_config");

    if (!from)
        return err_set(err, ERR_NOMEM, "", "no room for the model's program");
    *from = (struct program_source){.run = &script_program, .image = library->families, .config = inner, .layers_name = layers_name(inner),
                                      .layers = ret->layers, .shelf = library->shelf,
                                      .ready = program_ready(arena)};
    ret->program = from;
    return read_names(&n, inner, ret->model_type, from);
}

enum err_code program_arch(const struct program_library *library, const struct json *config, const struct modeling_file *files, uint32_t n_files,
                           const struct stack *stack, struct arena *arena, struct arch *ret, struct err *err)
{
    const char *type = json_str(json_get(config, "model_type"));
    struct program_source *from = arena_new(arena, struct program_source);
    struct arch a = program_arch_blank(config, from, arena);
    struct naming n = {.arena = arena, .files = files, .n_files = n_files, .err = err};
    enum err_code rc;

    a.theirs = n_files;
    if (!from || !a.model_type || !a.architecture)
        return err_set(err, ERR_NOMEM, "", "no room for the model's program");
    if (type && !a.model_type[0])
        return err_set(err, ERR_FIELD_VALUE, "/config/model_type", "'%.40s' is no name of a model type", type);
    *from = (struct program_source){.run = &script_program, .image = library->families, .config = config, .files = n_files ? files : NULL, .n_files = n_files,
                                      .shelf = n_files ? NULL : library->shelf, .ready = program_ready(arena)};
    rc = read_names(&n, config, a.model_type[0] ? a.model_type : "request", from);
    if (!rc && n_files)
        rc = read_files(&n, library->wide, &from->image);
    if (rc)
        return rc;
    if (stack && !n_files && !quirks_for(stack, a.model_type).family_is_written)
        stack = NULL; /* a step on it is refused (declare()); what the model is, the newest says */
    rc = look(from, stack, arena, &a, err);
    if (rc)
        return at_file(err, files, n_files);
    *ret = a;
    return ERR_OK;
}

/* --------------------------------------------------------------------------------------------------- for an installed release */
enum err_code program_look(struct program_source *from, const struct stack *stack, struct arena *arena, struct arch *ret, struct err *err)
{
    return look(from, stack, arena, ret, err);
}

bool arch_is_of_files(const struct arch *a)
{
    return a->program && program_is_of_files(a->program);
}

struct arch program_arch_blank(const struct json *config, struct program_source *from, struct arena *arena)
{
    const char *type = program_type(json_str(json_get(config, "model_type"))), *class = arch_class_of(config);
    struct arch a = {.program = from, .family = FAMILY_COUNT, .quantization = "", .pad_token_id = -1, .fixed_depth = true};

    a.model_type = type && is_word(type) ? arena_str(arena, type, strlen(type)) : "";
    a.architecture = arena_str(arena, class, strlen(class));
    a.saved = saved_of(config);
    if (a.saved == SAVED_ABSENT) /* a checkpoint of parts has one dtype, which its text's config names */
        a.saved = saved_of(json_get(config, "text_config"));
    arch_read_labels(&a, config);
    return a;
}
