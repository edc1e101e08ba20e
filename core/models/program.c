/* program.c - a model in the language: its classes become a tree, its forward a call. */
#include "models/stand_in.h"
#include "models/installed.h"
#include "models/program_parts.h"
#include "script/freeze.h"
#include "models/releases.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* transformers.models.llama of ours is what transformers calls modeling_llama and configuration_llama. */
static enum err_code add_family(struct image *im, const struct program_file *f, const char *family, struct err *err)
{
    char name[128], text[160];
    enum err_code rc;

    (void)snprintf(name, sizeof name, "%s.modeling_%s", f->name, family);
    rc = image_source(im, name, f->path, f->text, f->bytes, false, err);
    if (rc)
        return rc;
    (void)snprintf(text, sizeof text, "from %s import *\n", name);
    (void)snprintf(name, sizeof name, "%s.configuration_%s", f->name, family);
    return image_source(im, name, f->path, text, strlen(text), false, err);
}

/* What releases do otherwise: it continues the family or the file of the library of its name, or is a file that 5.23 no longer has. */
static enum err_code add_release(struct image *im, const struct program_file *f, const char *of, struct err *err)
{
    char name[128];

    (void)snprintf(name, sizeof name, "transformers.models.%s.modeling_%s", of, of);
    if (!image_has(im, name))
        (void)snprintf(name, sizeof name, "transformers.%s", of);
    if (!image_has(im, name))
        return image_source(im, name, f->path, f->text, f->bytes, f->package, err);
    return image_continue(im, name, f->path, f->text, f->bytes, err);
}

static bool within(const struct program_file *f, const char *package, const char **ret_name)
{
    size_t n = strlen(package);

    *ret_name = f->name + n;
    return !strncmp(f->name, package, n);
}

enum err_code program_image(struct arena *arena, const struct image **ret, struct err *err)
{
    const char *name;
    struct image *im = NULL;
    enum err_code rc = image_new(arena, NULL, &im, err);

    if (!rc)
        rc = natives_image(im, err);
    if (!rc)
        rc = image_native(im, &releases_module, err);
    if (!rc)
        rc = image_native(im, &task_module, err);
    for (size_t i = 0; !rc && i < n_program_files; i++) {
        const struct program_file *f = &program_files[i];

        if (within(f, "transformers.models.", &name))
            rc = add_family(im, f, name, err);
        else if (within(f, "transformers.releases.", &name))
            rc = add_release(im, f, name, err);
        else
            rc = image_source(im, f->name, f->path, f->text, f->bytes, f->package, err);
    }
    if (!rc)
        *ret = im;
    return rc;
}

/* ------------------------------------------------------------------------------------------------------------- config */
/* `fewer`: whose layers are cut to so many; NULL: as it stands there. */
static sv from_object(struct script *s, const struct json *v, const struct program_source *fewer, uint32_t layers);

static sv from_json(struct script *s, const struct json *v)
{
    sv made, item;

    switch (json_type(v)) {
    case JSON_BOOL: {
        bool b = false;

        (void)json_bool(v, &b);
        return sv_bool(b);
    }
    case JSON_NUMBER: {
        int64_t i;
        double d = 0;

        if (!json_is_float(v) && json_int64(v, &i))
            return sv_int(i);
        (void)json_number(v, &d);
        return sv_float(d);
    }
    case JSON_STRING:
        return str_new(s, json_str(v), strlen(json_str(v)));
    case JSON_ARRAY:
        made = list_new(s, 0, NULL);
        json_each (e, v) {
            item = from_json(s, e);
            if (!sv_ok(item) || !list_append(s, made, item))
                return sv_null();
            sv_drop(s, item);
        }
        return made;
    case JSON_OBJECT:
        return from_object(s, v, NULL, 0);
    default:
        return sv_none();
    }
}

static bool sets_layers(const struct program_source *from, const struct json *v)
{
    return !strcmp(json_name(v), from->layers_within ? from->layers_within : from->layers_name);
}

/* A walk may be of fewer layers than the config has: lists of all layers end sooner too. */
static sv of_fewer(struct script *s, const struct program_source *from, const struct json *v, uint32_t layers)
{
    sv list;

    if (json_type(v) == JSON_NUMBER && !strcmp(json_name(v), from->layers_name))
        return sv_int(layers);
    if (json_type(v) != JSON_ARRAY || json_count(v) != from->layers)
        return from_json(s, v);
    list = list_new(s, 0, NULL);
    json_each (e, v) {
        sv item = layers ? from_json(s, e) : sv_null();

        if (!layers--)
            break;
        if (!sv_ok(item) || !list_append(s, list, item))
            return sv_null();
        sv_drop(s, item);
    }
    return list;
}

static sv from_object(struct script *s, const struct json *v, const struct program_source *fewer, uint32_t layers)
{
    sv made = dict_new(s);

    json_each (e, v) {
        sv key = str_new(s, json_name(e), strlen(json_name(e))), item = fewer ? of_fewer(s, fewer, e, layers) : from_json(s, e);

        if (!sv_ok(key) || !sv_ok(item) || !dict_set(s, made, key, item))
            return sv_null();
        sv_drop(s, key);
        sv_drop(s, item);
    }
    return made;
}

static sv member_of_fewer(struct script *s, const struct program_source *from, const struct json *v, uint32_t layers)
{
    if (!from->layers_within)
        return of_fewer(s, from, v, layers);
    return sets_layers(from, v) && json_type(v) == JSON_OBJECT ? from_object(s, v, from, layers) : from_json(s, v);
}

/* What AutoConfig keeps for itself. */
static bool is_of_the_loader(const char *name)
{
    return !strcmp(name, "auto_map") || !strcmp(name, "model_type");
}

/* Config(**config.json), as from_dict() calls it. Of several members of one name the last counts. */
static sv make_config(struct script *s, sv cls, const struct program_source *from, uint32_t layers)
{
    enum { MOST = 256 };
    sv values[MOST] = {0}, names[MOST] = {0}, made;
    bool fewer = from->layers_name && layers != from->layers, told = false;
    uint32_t n = 0;

    if (json_count(from->config) > 4 * MOST)
        return script_leave(s, "a config of more than %d members", MOST);
    json_each (e, from->config) {
        if (n == MOST - 1)
            return script_leave(s, "a config of more than %d members", MOST);
        if (is_of_the_loader(json_name(e)) || json_get(from->config, json_name(e)) != e)
            continue;
        names[n] = script_symbol(s, json_name(e));
        values[n] = fewer ? member_of_fewer(s, from, e, layers) : from_json(s, e);
        if (!sv_ok(values[n]) || !sv_ok(names[n]))
            return sv_null();
        told = told || (fewer && sets_layers(from, e));
        n++;
    }
    if (fewer && !told) {
        names[n] = script_symbol(s, from->layers_name);
        values[n++] = sv_int(layers);
    }
    made = script_call_kw(s, cls, 0, values, n, names);
    while (n--)
        sv_drop(s, values[n]);
    return made;
}

/* -------------------------------------------------------------------------------------------------------- declaration */
static sv take(struct script *s, sv of, const char *name)
{
    return script_get(s, of, script_symbol(s, name));
}

static bool put(struct script *s, sv of, const char *name, sv value)
{
    return script_set(s, of, script_symbol(s, name), value);
}

/* from MODULE import NAME */
static sv import_from(struct script *s, const char *module, const char *name)
{
    sv found = script_import(s, module);

    return sv_ok(found) ? take(s, found, name) : found;
}

/* list(model.modules()); the caller drops it. NULL: the script says why. */
static const sv *modules_of(struct script *s, sv model, sv *ret_list, uint32_t *ret_n)
{
    *ret_list = script_call_method(s, model, script_symbol(s, "modules"), 0, NULL);
    *ret_n = 0;
    return sv_ok(*ret_list) ? seq_items(*ret_list, ret_n) : NULL;
}

/* model.eval() */
static bool stop_training(struct script *s, sv model)
{
    sv list;
    uint32_t n, done = 0;
    const sv *modules = modules_of(s, model, &list, &n);

    while (done < n && put(s, modules[done], "training", sv_bool(false)))
        done++;
    sv_drop(s, list);
    return modules && done == n;
}

/* A class that the config names. */
static sv class_named(struct script *s, sv module, const char *name)
{
    sv found = sv_null();
    int rc = script_find(s, module, script_symbol(s, name), &found);

    if (rc == SCRIPT_ABSENT || (!rc && !sv_as_class(found)))
        return script_leave(s, rc ? "no class %.80s in the file that should have it" : "%.80s, which is no class", name);
    return rc ? sv_null() : found;
}

sv program_classes(struct program *p, const struct program_source *from, sv *ret_config)
{
    struct script *s = p->s;
    sv other = from->config_module ? script_import(s, from->config_module) : sv_none();
    sv module = sv_ok(other) ? script_import(s, from->module) : other, model;

    *ret_config = sv_null();
    if (!sv_ok(module))
        return module;
    model = class_named(s, module, from->model_class ? from->model_class : "causal_lm");
    if (!sv_ok(model))
        return model;
    *ret_config = from->config_class ? class_named(s, from->config_module ? other : module, from->config_class) : take(s, model, "config_class");
    if (sv_ok(*ret_config) && !sv_as_class(*ret_config))
        return script_leave(s, "%.60s without a config_class", from->model_class ? from->model_class : "the model");
    return sv_ok(*ret_config) ? model : sv_null();
}

static const char *const kernels[] = {
    [KERNEL_SDPA] = "sdpa", [KERNEL_EAGER] = "eager", [KERNEL_FLASH_2] = "flash_attention_2", [KERNEL_FLEX] = "flex_attention"};

/* Under which name a release's files look: 5.0 and later for the mark, before for the dtype (integrations/flash_attention.py, get_target_dtype()). */
static bool say_quantised(struct program *p, const struct model *m, sv config)
{
    sv dtype = p->n.dtypes[m->tree.dtype];

    return put(p->s, config, "_is_quantized", sv_bool(true)) && put(p->s, config, "dtype", dtype) && put(p->s, config, "_pre_quantization_dtype", dtype);
}

static bool switch_on(struct program *p, struct model *m, sv config)
{
    struct script *s = p->s;
    const char *name = kernels[m->attention];
    sv text = str_new(s, name, strlen(name)), said = sv_null();
    bool ok;

    if (!script_find(s, config, script_symbol(s, "use_cache"), &said))
        p->uses_cache = script_truth(s, said) == 1;
    sv_drop(s, said);
    ok = sv_ok(text) && put(s, config, "_attn_implementation", text) && put(s, config, "use_cache", sv_bool(m->use_cache));
    sv_drop(s, text);
    if (ok && m->experts_packed) {
        text = str_new(s, m->experts_packed, strlen(m->experts_packed));
        ok = sv_ok(text) && put(s, config, "_experts_packed", text);
        sv_drop(s, text);
    }
    return ok && (!m->quantised || !program_is_of_files(m->source) || say_quantised(p, m, config)); /* ours are told when they stand: tell() */
}

/* Whether a module is one of the layers that every_n_layers counts, of which the first of each n is checkpointed. */
static bool is_left_out(struct script *s, sv layer_class, sv module, uint32_t every, uint32_t *layers)
{
    if (every < 2 || !cls_derives(sv_class(s, module), sv_as_class(layer_class)))
        return false;
    return (*layers)++ % every != 0;
}

/* PreTrainedModel._set_gradient_checkpointing: every module that knows the flag */
static bool checkpoint_all(struct program *p, const struct model *m)
{
    struct script *s = p->s;
    const char *reentrant = m->checkpoints_trained_alone ? "checkpoint_trained_reentrant" : "checkpoint_reentrant";
    const char *kept = m->checkpoints_trained_alone ? "checkpoint_trained" : "checkpoint_kept", *which = m->reentrant ? reentrant : kept;
    sv f = import_from(s, "torch.utils.checkpoint", which), flag_name, list, layer_class = sv_none();
    uint32_t n, counted = 0;
    const sv *modules;

    if (sv_ok(f) && m->checkpoint_every > 1)
        layer_class = import_from(s, "transformers.modeling_layers", "GradientCheckpointingLayer");
    if (!sv_ok(f) || !sv_ok(layer_class))
        return false;
    flag_name = script_symbol(s, "gradient_checkpointing");
    modules = modules_of(s, p->model, &list, &n);
    for (uint32_t i = 0; modules && i < n; i++) {
        sv flag;
        int has = script_find_plain(s, modules[i], flag_name, &flag);
        bool on;

        if (has < 0)
            return false;
        if (has == SCRIPT_ABSENT)
            continue;
        sv_drop(s, flag);
        on = !is_left_out(s, layer_class, modules[i], m->checkpoint_every, &counted);
        if (!put(s, modules[i], "gradient_checkpointing", sv_bool(on)) || !put(s, modules[i], "_gradient_checkpointing_func", f))
            return false;
    }
    sv_drop(s, layer_class);
    sv_drop(s, list);
    sv_drop(s, f);
    return modules != NULL;
}

/* model.a.b of a dotted path; its node */
static struct module *node_at(const struct tree *t, const char *path)
{
    struct module *m = t->root;

    while (m && *path) {
        size_t n = strcspn(path, ".");

        for (m = m->first; m && (strlen(m->name) != n || strncmp(m->name, path, n)); m = m->next)
            ;
        path += n + (path[n] == '.');
    }
    return m;
}

static struct param *param_at(const struct tree *t, const char *path, struct module **ret)
{
    const char *dot = strrchr(path, '.');
    char buf[256];
    struct module *m;

    if (!dot || (size_t)(dot - path) >= sizeof buf)
        return NULL;
    memcpy(buf, path, (size_t)(dot - path));
    buf[dot - path] = 0;
    m = node_at(t, buf);
    *ret = m;
    for (struct param *p = m ? m->params : NULL; p; p = p->next)
        if (!strcmp(p->name, dot + 1))
            return p;
    return NULL;
}

static bool tie_embeddings(struct model *m)
{
    if (m->tree.head && m->tree.head->weight && m->embeddings && m->embeddings->weight)
        tie(m->tree.head->weight, m->embeddings->weight);
    return true;
}

/* tie()s what {target: source} names. */
static bool tie_named(struct program *p, struct model *m, sv keys)
{
    struct script *s = p->s;
    sv key, value;
    uint32_t at = 0;

    while (sv_is(keys, KIND_DICT) && dict_each(keys, &at, &key, &value)) {
        struct module *head = NULL, *table = NULL;
        struct param *a = param_at(&m->tree, str_text(key, NULL), &head), *b = param_at(&m->tree, str_text(value, NULL), &table);

        if (!a || !b) {
            (void)script_leave(s, "_tied_weights_keys that names no parameter");
            return false;
        }
        tie(a, b);
    }
    return true;
}

/* Of the models within an installed one: zamba's shared layers. */
static bool tie_within(struct program *p, struct model *m)
{
    sv keys = script_call_method(p->s, p->model, script_symbol(p->s, "tied_within"), 0, NULL);
    bool good = sv_ok(keys) && tie_named(p, m, keys);

    sv_drop(p->s, keys);
    return good;
}

/* get_expanded_tied_weights_keys: {"lm_head.weight": "model.embed_tokens.weight"}, where the config has tie_word_embeddings. Before 5.0 tie_weights():
 * what get_output_embeddings() gives, unless the config says no. */
static bool tie_all(struct program *p, struct model *m, const struct program_source *from, sv config)
{
    struct script *s = p->s;
    sv keys = sv_none(), flag = sv_none();
    bool named = m->q->ties_named_weights || !(from->installed || from->n_files);
    int tied = script_find(s, config, script_symbol(s, "tie_word_embeddings"), &flag) == 0 ? script_truth(s, flag) : !named;
    bool good;

    sv_drop(s, flag);
    if (named && from->installed && tied >= 0 && !tie_within(p, m))
        return false;
    if (tied <= 0)
        return tied == 0;
    if (!named)
        return tie_embeddings(m);
    if (script_find(s, p->model, script_symbol(s, "_tied_weights_keys"), &keys) < 0)
        return false;
    if (sv_given(keys) && !sv_is(keys, KIND_DICT)) {
        (void)script_leave(s, "_tied_weights_keys that is no dict, which transformers 5 refuses");
        return false;
    }
    good = tie_named(p, m, keys);
    sv_drop(s, keys);
    return good;
}

/* What the model answers to a question of PreTrainedModel's; NULL: nothing. */
static struct module *asked(struct program *p, const char *question)
{
    sv answer = script_call_method(p->s, p->model, script_symbol(p->s, question), 0, NULL);
    struct module *m = sv_ok(answer) ? natives_module(&p->n, answer) : NULL;

    if (!sv_ok(answer))
        script_forgive(p->s);
    sv_drop(p->s, answer);
    return m;
}

/* ((^|\.)NAME($|\.)) of PreTrainedModel.from_pretrained() */
static bool named_in(const char *path, const char *name)
{
    size_t n = strlen(name);

    for (const char *at = path; *at; at += strcspn(at, ".") + (at[strcspn(at, ".")] == '.'))
        if (!strncmp(at, name, n) && (!at[n] || at[n] == '.'))
            return true;
    return false;
}

/* _keep_in_fp32_modules_strict: parameters that stay in fp32 whatever the rest is cast to; without _strict: where that is fp16. */
static bool keep_in_fp32(struct program *p, struct model *m, const char *list_name)
{
    sv list = sv_none();
    uint32_t n = 0;
    const sv *names;
    char path[256], full[320];

    if (script_find(p->s, p->model, script_symbol(p->s, list_name), &list) < 0)
        return false;
    names = sv_is(list, KIND_LIST) ? seq_items(list, &n) : NULL;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 1; i < m->tree.n_modules; i++)
            for (struct param *of = m->tree.modules[i]->params; of; of = of->next) {
                (void)snprintf(full, sizeof full, "%s.%s", module_path(&m->tree, i, path, sizeof path), of->name);
                if (!of->buffer && dtype_is_float(of->dtype) && str_text(names[k], NULL) && named_in(full, str_text(names[k], NULL)))
                    of->dtype = DTYPE_FP32;
            }
    sv_drop(p->s, list);
    return true;
}

static bool names_whole_modules(struct program *p, bool *ret)
{
    sv names = sv_none();
    bool found = script_find(p->s, p->model, script_symbol(p->s, "_no_split_modules"), &names) >= 0;

    *ret = found && script_truth(p->s, names) > 0;
    sv_drop(p->s, names);
    return found;
}

/* ALL_LAYERNORM_LAYERS, by which older Trainers tell what does not decay: modules of those classes are norms. */
static bool mark_norms(struct program *p)
{
    struct script *s = p->s;
    sv classes = import_from(s, "transformers.pytorch_utils", "ALL_LAYERNORM_LAYERS"), list = sv_null();
    uint32_t n = 0;
    const sv *modules = sv_ok(classes) ? modules_of(s, p->model, &list, &n) : NULL;

    for (uint32_t i = 0; i < n; i++) {
        int has = script_contains(s, classes, cls_value(sv_class(s, modules[i])));
        struct module *m = natives_module(&p->n, modules[i]);

        if (has < 0)
            return false;
        if (has && m && m->kind == MODULE_CONTAINER)
            m->kind = MODULE_NORM;
    }
    sv_drop(s, list);
    sv_drop(s, classes);
    return modules != NULL;
}

/* transformers.NAME(model, **keywords) of the library */
static bool call_on_model(struct program *p, const char *file, const char *name, uint32_t n, const sv *values, const char *const *names)
{
    struct script *s = p->s;
    sv f = import_from(s, file, name), given[1 + LIGER_COUNT + 1], keys[LIGER_COUNT + 1], done;

    given[0] = p->model;
    for (uint32_t i = 0; i < n; i++) {
        given[1 + i] = values[i];
        keys[i] = script_symbol(s, names[i]);
    }
    done = sv_ok(f) ? script_call_kw(s, f, 1, given, n, keys) : f;
    sv_drop(s, f);
    sv_drop(s, done);
    return sv_ok(done);
}

/* What the Trainer, or a script, puts in the place of parts of a model that stands. */
static bool replace_parts(struct program *p, struct model *m)
{
    static const char *const names[] = {
        [LIGER_ROPE] = "rope", [LIGER_RMS_NORM] = "rms_norm", [LIGER_SWIGLU] = "swiglu", [LIGER_GEGLU] = "geglu", [LIGER_LAYER_NORM] = "layer_norm",
        [LIGER_CROSS_ENTROPY] = "cross_entropy", [LIGER_FUSED_LINEAR] = "fused_linear_cross_entropy", [LIGER_COUNT] = "release",
    };
    static const char *const adapted[] = {[LORA_KERNEL_QKV] = "qkv", [LORA_KERNEL_O] = "o", [LORA_KERNEL_MLP] = "mlp"};
    sv values[LIGER_COUNT + 1];

    if ((m->liger_kernels || m->loss || m->lora_kernels) && m->source->installed) {
        (void)script_leave(p->s, "kernels in the place of a model's own, or another loss, over an installed transformers");
        return false;
    }
    for (int i = 0; i < LIGER_COUNT; i++)
        values[i] = sv_bool(m->liger_kernels >> i & 1);
    values[LIGER_COUNT] = sv_int(m->liger_release);
    if (m->liger_kernels && !call_on_model(p, "transformers.liger", "apply", LIGER_COUNT + 1, values, names))
        return false;
    for (int i = 0; i < LORA_KERNEL_COUNT; i++)
        values[i] = sv_bool(m->lora_kernels >> i & 1);
    if (m->lora_kernels && !call_on_model(p, "transformers.axolotl.kernels", "apply", LORA_KERNEL_COUNT, values, adapted))
        return false;
    return !m->loss || call_on_model(p, "transformers.losses", m->loss, 0, NULL, NULL);
}

static bool says(struct program *p, sv of, const char *flag)
{
    sv v = sv_null();
    bool yes = script_find(p->s, of, script_symbol(p->s, flag), &v) == 0 && script_truth(p->s, v) > 0;

    sv_drop(p->s, v);
    return yes;
}

/* The class of an installed transformers that a stage asks for. */
static sv installed_head(struct program *p, struct model *m, sv otherwise)
{
    enum task_id task = (enum task_id)(m->task - tasks);
    const char *name = m->source->heads[task];
    sv module;

    if (!name)
        return script_leave(p->s, "a stage that the installed transformers has no class of this type for: %.40s", m->task->stage);
    if (m->source->trains_head && !strcmp(name, m->source->model_class))
        return otherwise;
    module = script_import(p->s, m->source->module);
    return sv_ok(module) ? class_named(p->s, module, name) : module;
}

/* A reward model's, say, made of the causal model's; of an encoder's classes the stage's, else the one that the config names. */
static sv class_of_task(struct program *p, struct model *m, sv causal)
{
    struct script *s = p->s;
    const char *stage = m->task ? m->task->classes : "";
    sv args[3], f, made;

    if (!stage[0] && !says(p, causal, "encoder"))
        return causal;
    if (m->source->installed && stage[0]) {
        made = installed_head(p, m, causal);
        m->score_head = sv_ok(made) && m->task->saved[0];
        return made;
    }
    f = import_from(s, "transformers.modeling_heads", "class_of");
    if (sv_ok(f) && (m->source->installed || m->source->files))
        f = script_leave(s, "a stage with another head than the causal model's, on a model whose files are not the service's own");
    args[0] = causal;
    args[1] = str_new(s, stage, strlen(stage));
    args[2] = str_new(s, m->arch->architecture, strlen(m->arch->architecture));
    made = sv_ok(f) ? script_call(s, f, 3, args) : f;
    sv_drop(s, args[1]);
    sv_drop(s, args[2]);
    sv_drop(s, f);
    m->score_head = sv_ok(made) && m->task && m->task->saved[0];
    return made;
}

/* transformers.configuration_utils.of_model(config, model_class); takes the config */
static sv config_of_model(struct script *s, sv config, sv model_class)
{
    sv f = import_from(s, "transformers.configuration_utils", "of_model");
    sv made = sv_ok(f) ? script_call(s, f, 2, (sv[]){config, model_class}) : f;

    sv_drop(s, f);
    sv_drop(s, config);
    return made;
}

/* The Trainer sets it on the model's own, which is the text's where a class takes that out of what it was given. */
static bool switch_cache(struct script *s, sv model, bool on)
{
    sv config = sv_null();
    bool ok = script_find(s, model, script_symbol(s, "config"), &config) != 0 || put(s, config, "use_cache", sv_bool(on));

    sv_drop(s, config);
    return ok;
}

bool program_make(struct program *p, struct model *m, const struct program_source *from)
{
    struct script *s = p->s;
    sv model_class = program_classes(p, from, &p->config_class), config;

    if (sv_ok(model_class))
        model_class = class_of_task(p, m, model_class);
    p->model_class = model_class;
    if (!sv_ok(model_class))
        return false;
    config = p->config = make_config(s, p->config_class, from, m->arch->layers);
    if (sv_ok(config) && from->installed)
        config = p->config = config_of_model(s, config, model_class);
    if (!sv_ok(config) || !put(s, config, "_model_class", model_class) || !switch_on(p, m, config))
        return false;
    p->n.default_dtype = m->tree.dtype;
    p->n.making = true;
    p->n.any_dtype = m->only_sizes;
    p->model = script_call(s, model_class, 1, &config);
    p->n.making = p->n.any_dtype = false;
    p->n.default_dtype = DTYPE_FP32;
    if (!sv_ok(p->model) || (from->installed && !switch_cache(s, p->model, m->use_cache)))
        return false;
    if (natives_tree(&p->n, p->model, &m->tree, &m->tree.error))
        return false;
    if (m->tree.dtype != DTYPE_FP32 && !keep_in_fp32(p, m, "_keep_in_fp32_modules_strict"))
        return false;
    if (m->tree.dtype == DTYPE_FP16 && !keep_in_fp32(p, m, "_keep_in_fp32_modules"))
        return false;
    if (!names_whole_modules(p, &m->names_whole_modules))
        return false;
    m->embeddings = asked(p, "get_input_embeddings");
    m->tree.head = asked(p, "get_output_embeddings");
    if (script_over(s) || !tie_all(p, m, from, config) || !replace_parts(p, m))
        return false;
    return m->q->decay_by_name >= 2 || mark_norms(p);
}

/* As the Trainer asks a class that is not ours. */
static bool accepts_items(struct program *p)
{
    struct script *s = p->s;
    sv f = import_from(s, "transformers.trainer", "accepts_loss_kwargs");
    sv said = sv_ok(f) ? script_call(s, f, 1, &p->model_class) : sv_null();
    bool is = sv_ok(said) && script_truth(s, said) > 0;

    sv_drop(s, said);
    sv_drop(s, f);
    script_forgive(s);
    return is;
}

/* What a class of ours says of itself: positions end with a table, or its forward raises on num_items_in_batch, and why. */
static void hear(struct program *p, struct model *m)
{
    struct script *s = p->s;
    sv table = sv_null(), why = sv_null();

    if (script_find(s, p->model_class, script_symbol(s, "position_table"), &table) == 0)
        m->position_table = script_truth(s, table) > 0;
    m->takes_token_types = says(p, p->model_class, "takes_token_types");
    m->writes_into_views = says(p, p->model_class, "writes_into_views");
    if (script_find(s, p->model_class, script_symbol(s, "refuses_items"), &why) == 0 && sv_is(why, KIND_STR))
        m->refuses_items = str_text(why, NULL);
    if (m->takes_items && (m->source->n_files || m->source->installed))
        m->takes_items = accepts_items(p);
    if (says(p, p->model_class, "items_are_not_taken"))
        m->takes_items = false;
    sv_drop(s, table); /* the class keeps the text */
    sv_drop(s, why);
}

static void outputs_end(struct run *r, struct model *m)
{
    struct program *p = m->parts;

    (void)r;
    sv_drop(p->s, p->outputs);
    p->outputs = sv_null();
}

/* --------------------------------------------------------------------------------------------------------- a model begins */
static struct program *begin(struct model *m, const struct frozen *frozen, struct arena *apart)
{
    struct tree *t = &m->tree;
    struct script_host host = program_host(m->source);
    struct program *p;
    void *root;

    if (!m->q->family_is_written && !program_is_of_files(m->source)) {
        (void)err_set(&t->error, ERR_FIELD_CONFLICT, "/stack/transformers", "%.40s as this release of transformers has it is not written here",
                      m->arch->model_type);
        return NULL;
    }
    if (frozen) {
        struct script *s = script_thaw(frozen, t->arena, apart, &script_limits_default, &host, &root);

        p = s ? root : NULL;
        if (p) {
            if (apart != t->arena)
                script_may_stay(s, frozen);
            script_host_of(s, &p->n);
            return natives_wake(&p->n, apart, m->q, &t->error) ? NULL : p;
        }
    } else {
        p = arena_new(t->arena, struct program);
        host.of = p ? &p->n : NULL;
        if (p)
            return script_new(t->arena, m->source->image, &script_limits_default, &host, &p->s, &t->error) ||
                           natives_begin(&p->n, p->s, t->arena, m->q, &t->error)
                       ? NULL
                       : p;
    }
    (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
    return NULL;
}

static void make(struct model *m)
{
    struct tree *t = &m->tree;
    struct program *p = m->parts;

    m->outputs_end = outputs_end;
    p->n.layers_wrapped = m->layers_wrapped;
    p->n.capability = m->capability;
    if (program_make(p, m, m->source))
        hear(p, m);
    else if (!t->error.code)
        (void)script_error(p->s, &t->error);
    p->n.embeddings = m->embeddings;
}

/* What the Trainer and a quantiser tell a model that stands, whether it was made or had stood before. */
static void tell(struct model *m)
{
    struct program *p = m->parts;
    bool ok;

    if (m->tree.error.code || !p)
        return;
    p->n.capability = m->capability;
    p->n.embeddings_require_grad = m->embeddings_require_grad;
    ok = !m->quantised || program_is_of_files(m->source) || say_quantised(p, m, p->config);
    if ((!ok || (m->checkpointing && !checkpoint_all(p, m))) && !m->tree.error.code)
        (void)script_error(p->s, &m->tree.error);
}

static void declare(struct model *m)
{
    static const struct making_of how = {program_imported, begin, make};
    uint64_t identity = 0;

    (void)program_book(m, &identity);
    if (m->memory == MEMORY_OWN || !program_stands(m, &how)) {
        m->parts = begin(m, program_imported(m), m->tree.arena);
        if (m->parts)
            make(m);
    }
    tell(m);
    m->identity = identity;
}

void program_on_device(struct program *p, const struct model *m, struct run *r)
{
    const struct arch *a = m->arch;

    natives_on_device(&p->n, r);
    r->views_known = program_is_of_files(m->source) || m->writes_into_views; /* the others write into what they have sliced for it, and nothing else */
    /* a layer looks at its own gradient_checkpointing: where not all are told the same, each is heard for itself */
    bool alone = m->by_hand || !m->identity || m->writes_into_views;
    natives_heard(&p->n, alone ? NULL : program_book(m, NULL), m->identity, m->checkpoint_every > 1 ? NULL : a->layer_kinds, a->layers);
}

/* ------------------------------------------------------------------------------------------------------------- forward */
/* Of what forward returned: an output class, a dict, or a tuple with the loss first. */
static sv part_of(struct program *p, sv result, const char *name)
{
    uint32_t n, at = !strcmp(name, "logits");
    const sv *items = seq_items(result, &n);
    sv found = sv_null();

    if (items)
        return at < n ? sv_keep(items[at]) : sv_none();
    if (script_find(p->s, result, script_symbol(p->s, name), &found) == 0 || !sv_is(result, KIND_DICT))
        return found;
    script_forgive(p->s);
    found = dict_get(p->s, result, script_symbol(p->s, name));
    return sv_ok(found) ? sv_keep(found) : sv_none();
}

static val own(struct program *p, struct run *r, sv result, const char *name)
{
    sv v = part_of(p, result, name);
    val x = sv_ok(v) ? natives_value(&p->n, v) : 0;

    if (x) {
        value_ref(r, x);
        r->values[x].floating = true;
    }
    sv_drop(p->s, v);
    return x;
}

/* A cache that forward hands out as tuples is the caller's, who converts and clones what it returns. */
static void hand_over_cache(struct program *p, struct run *r, struct model *m)
{
    struct script *s = p->s;
    sv past = sv_none(), tuples = sv_null();
    uint32_t n = 0, parts = 0;
    const sv *layers;

    if (script_find(s, p->outputs, script_symbol(s, "past_key_values"), &past) == SCRIPT_ABSENT) /* states' outputs have none */
        script_forgive(s);

    if (sv_given(past))
        tuples = sv_is(past, KIND_TUPLE) || sv_is(past, KIND_LIST) ? sv_keep(past) : script_call_method(s, past, script_symbol(s, "to_legacy_cache"), 0, NULL);
    layers = sv_ok(tuples) ? seq_items(tuples, &n) : NULL;
    for (uint32_t i = 0; i < n && i < m->n_layers; i++) {
        const sv *items = seq_items(layers[i], &parts);

        for (uint32_t k = 0; k < (items ? parts : 1) && k < CACHE_ROWS; k++) {
            val v = natives_value(&p->n, items ? items[k] : layers[i]);

            if (v)
                value_ref(r, m->cache[CACHE_ROWS * i + k] = v);
        }
    }
    sv_drop(s, past);
    sv_drop(s, tuples);
    if (script_failed(s))
        natives_fail_run(&p->n);
}

/* Wrappers take loss and logits out of what forward returned, and let go of it: the rest lives on as their own, a cache that is handed over aside. */
static bool keep_rest(struct program *p, bool handed_over)
{
    struct script *s = p->s;
    sv rest = list_new(s, 0, NULL), key, value;
    uint32_t at = 0, n = 0;
    const sv *items = seq_items(p->outputs, &n);

    if (!sv_ok(rest))
        return false;
    for (uint32_t i = 2; items && i < n && !handed_over; i++)
        if (!list_append(s, rest, items[i]))
            return false;
    while (sv_is(p->outputs, KIND_DICT) && dict_each(p->outputs, &at, &key, &value))
        if (!str_is(key, "loss") && !str_is(key, "logits") && !str_is(key, "end_logits") && !(handed_over && str_is(key, "past_key_values")) &&
            !list_append(s, rest, value))
            return false;
    sv_drop(s, p->outputs);
    p->outputs = rest;
    return true;
}

/* What stands in lists, tuples and dicts, each tensor as `leaf` has it; an object of another kind stays. */
static sv mapped(struct program *p, sv v, unsigned depth, sv (*leaf)(struct program *p, sv v, val x, void *of), void *of)
{
    enum { DEEPEST = 8 };
    struct script *s = p->s;
    uint32_t n = 0, at = 0;
    const sv *items = depth < DEEPEST ? seq_items(v, &n) : NULL;
    sv made, key, value;
    val x = natives_value(&p->n, v);

    if (x)
        return leaf(p, v, x, of);
    if (!items && !(depth < DEEPEST && sv_is(v, KIND_DICT)))
        return sv_keep(v);
    made = list_new(s, 0, NULL);
    for (uint32_t i = 0; items && i < n && !script_failed(s); i++) {
        value = mapped(p, items[i], depth + 1, leaf, of);
        if (sv_ok(value))
            (void)list_append(s, made, value);
        sv_drop(s, value);
    }
    while (!items && !script_failed(s) && dict_each(v, &at, &key, &value)) {
        value = mapped(p, value, depth + 1, leaf, of);
        if (sv_ok(value))
            (void)list_append(s, made, value);
        sv_drop(s, value);
    }
    return made;
}

static void map_rest(struct run *r, struct model *m, sv (*leaf)(struct program *p, sv v, val x, void *of), void *of)
{
    struct program *p = m->parts;
    sv made = sv_ok(p->outputs) && !run_dead(r) ? mapped(p, p->outputs, 0, leaf, of) : sv_null();

    if (sv_ok(made)) {
        sv_drop(p->s, p->outputs);
        p->outputs = made;
    }
    if (script_failed(p->s))
        natives_fail_run(&p->n);
}

/* operations.py recursively_apply() of convert_to_fp32 */
static sv widened(struct program *p, sv v, val x, void *of)
{
    enum dtype dtype = (enum dtype)p->n.run->values[x].dtype;

    (void)of;
    return dtype == DTYPE_BF16 || dtype == DTYPE_FP16 ? script_call_method(p->s, v, script_symbol(p->s, "float"), 0, NULL) : sv_keep(v);
}

static void widen(struct run *r, struct model *m)
{
    map_rest(r, m, widened, NULL);
}

struct rest {
    uint32_t n;
    val *v;          /* NULL: they are counted */
    bool put_others; /* those of `v` in their place */
};

static sv met(struct program *p, sv v, val x, void *of)
{
    struct rest *rest = of;
    val *at = rest->v ? &rest->v[rest->n] : NULL;

    rest->n++;
    if (at && rest->put_others && *at != x)
        return natives_tensor(&p->n, *at);
    if (at && !rest->put_others)
        value_ref(p->n.run, *at = x);
    return sv_keep(v);
}

static uint32_t rest(struct run *r, struct model *m, val *v, bool put_others)
{
    struct rest rest = {0, v, put_others};

    map_rest(r, m, met, &rest);
    return rest.n;
}

/* trainer.py compute_loss: what is returned is asked for its loss, and has one. */
static void miss_loss(struct program *p)
{
    uint32_t n;
    bool has_parts = seq_items(p->outputs, &n) || sv_is(p->outputs, KIND_DICT);

    if (!script_failed(p->s) && !has_parts)
        sv_drop(p->s, take(p->s, p->outputs, "loss"));
    if (!script_failed(p->s))
        (void)script_raise(p->s, EXC_ValueError, "the model did not return a loss from the inputs");
    natives_fail_run(&p->n);
}

/* A number of the config, or of its text's; < 0: it has none. */
static int64_t token_of(const struct json *config, const char *name)
{
    const struct json *v = json_get(config, name);
    int64_t i;

    if (json_type(v) == JSON_ABSENT)
        v = json_get(json_get(config, "text_config"), name);
    return json_int64(v, &i) ? i : -1;
}

static void tell_ids(const struct model *m, sv ids)
{
    const struct json *config = m->source->config;
    int64_t pad = m->padded ? token_of(config, "pad_token_id") : -1;

    if (!m->padded || pad >= 0)
        natives_tell_text(ids, pad, token_of(config, "eos_token_id"));
}

static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    bool handed_over = m->q->cache_in_tuple && !m->arch->encoder;
    struct program *p = m->parts;
    struct script *s = p->s;
    enum { MASK = 1, LABELS, POSITIONS, TYPES, GIVEN };
    sv values[GIVEN + TASK_MORE + 1] = {0}, names[GIVEN + TASK_MORE + 1] = {0};
    uint32_t n = 0;
    const val given[GIVEN] = {b->ids, b->mask, b->labels, b->positions, b->types};
    static const char *const called[GIVEN] = {"input_ids", "attention_mask", "labels", "position_ids", "token_type_ids"};
    char name[32];

    if (!p->n.run)
        program_on_device(p, m, r);
    for (int i = 0; i < GIVEN; i++) {
        if (!given[i] || (i == LABELS && m->task))
            continue;
        names[n] = script_symbol(s, called[i]);
        values[n] = natives_tensor(&p->n, given[i]);
        if (!i && sv_ok(values[n]))
            tell_ids(m, values[n]);
        if (i == POSITIONS && sv_ok(values[n]))
            natives_tell_packed(values[n], b->sequences);
        if (i == MASK && sv_ok(values[n]) && !b->mask_of_pairs)
            (m->padded ? natives_tell_padded : natives_tell_ones)(values[n]);
        n++;
    }
    for (int i = 0; m->task && i < TASK_MORE && b->more[i] && task_name(m->task->more, i, name, sizeof name); i++) {
        name[strcspn(name, "#")] = 0;
        names[n] = script_symbol(s, name);
        values[n++] = natives_tensor(&p->n, b->more[i]);
    }
    if (m->counts_items) {
        names[n] = script_symbol(s, "num_items_in_batch");
        values[n++] = m->items ? natives_tensor(&p->n, m->items) : sv_int(1);
    }
    p->outputs = script_call_kw(s, p->model, 0, values, n, names);
    while (n--)
        sv_drop(s, values[n]);
    if (!sv_ok(p->outputs)) {
        natives_fail_run(&p->n);
        return;
    }
    ret->loss = own(p, r, p->outputs, "loss");
    ret->logits = own(p, r, p->outputs, "logits");
    ret->more = m->task ? own(p, r, p->outputs, "end_logits") : 0;
    if ((b->labels || m->task) && !ret->loss) {
        miss_loss(p);
        return;
    }
    if (handed_over)
        hand_over_cache(p, r, m);
    if (!keep_rest(p, handed_over))
        natives_fail_run(&p->n);
}

/* --------------------------------------------------------------------------------------------------------------- tasks */
/* A frozen copy of the model beside it, in the same tree: from_pretrained() leaves it in eval mode. */
static sv make_reference(struct program *p, struct model *m)
{
    struct script *s = p->s;
    struct tree *t = &m->tree;
    struct module *root = t->root;
    sv policy = p->model, made;
    bool ok;

    p->n.default_dtype = m->reference_dtype;
    made = script_call(s, p->model_class, 1, &p->config);
    p->n.default_dtype = DTYPE_FP32;
    if (!sv_ok(made) || !stop_training(s, made) || !put(s, made, "_uses_cache", sv_bool(p->uses_cache)) || natives_tree(&p->n, made, t, &t->error))
        return sv_null();
    p->model = made;
    ok = tie_all(p, m, m->source, p->config);
    m->reference_head = asked(p, "get_output_embeddings");
    p->model = policy;
    m->reference_root = t->root;
    m->reference_root->name = "ref_model";
    t->root = root;
    return ok ? made : sv_null();
}

static enum err_code refer(struct model *m, struct err *err)
{
    struct program *p = m->parts;
    struct script *s = p->s;
    sv reference = m->reference == REFERENCE_COPY ? make_reference(p, m) : sv_none(), args[2], module, prepare;

    if (sv_ok(reference) && m->source->installed)
        reference = script_leave(s, "a stage of TRL's over an installed transformers");
    module = sv_ok(reference) ? script_import(s, m->task->module) : reference;
    prepare = sv_ok(module) ? take(s, module, "prepare") : module;
    args[0] = p->model;
    args[1] = reference;
    p->models = sv_ok(prepare) ? script_call(s, prepare, 2, args) : prepare;
    p->loss = sv_ok(p->models) ? take(s, module, "compute_loss") : sv_null();
    sv_drop(s, prepare);
    sv_drop(s, reference);
    if (sv_ok(p->loss))
        return ERR_OK;
    if (!m->tree.error.code)
        return script_error(s, err);
    *err = m->tree.error;
    return err->code;
}

static bool add_input(struct program *p, sv inputs, const char *name, val v, sv *ret)
{
    sv tensor = natives_tensor(&p->n, v);

    *ret = tensor;
    return sv_ok(tensor) && dict_set(p->s, inputs, script_symbol(p->s, name), tensor);
}

/* The tensors of a task's batch by their names. */
static sv inputs_of(struct program *p, const struct model *m, const struct batch *b)
{
    struct script *s = p->s;
    sv inputs = dict_new(s), one;
    bool ok = sv_ok(inputs) && add_input(p, inputs, "input_ids", b->ids, &one);
    char name[32];

    if (ok)
        sv_drop(s, one);
    if (ok && b->mask) {
        ok = add_input(p, inputs, "attention_mask", b->mask, &one);
        if (ok)
            (m->padded ? natives_tell_padded : natives_tell_ones)(one);
        sv_drop(s, one);
    }
    if (ok && b->types) {
        ok = add_input(p, inputs, "token_type_ids", b->types, &one);
        sv_drop(s, one);
    }
    for (int i = 0, k = 0; ok && i < TASK_MORE && b->more[i]; i++) {
        const char *called = task_name(m->task->more, i, name, sizeof name);

        if (!called)
            called = task_name(m->task->kept, k++, name, sizeof name);
        name[strcspn(name, "?%")] = 0;
        ok = called && add_input(p, inputs, called, b->more[i], &one);
        if (ok && strstr(called, "attention_mask"))
            (m->padded ? natives_tell_padded : natives_tell_ones)(one);
        sv_drop(s, one);
    }
    return ok ? inputs : sv_null();
}

static val loss_of_task(struct run *r, struct model *m, const struct batch *b)
{
    struct program *p = m->parts;
    struct script *s = p->s;
    sv args[2], loss;
    val v = 0;

    if (!p->n.run)
        program_on_device(p, m, r);
    p->n.of = m;
    args[0] = p->models;
    args[1] = inputs_of(p, m, b);
    loss = sv_ok(args[1]) ? script_call(s, p->loss, 2, args) : args[1];
    sv_drop(s, args[1]);
    v = sv_ok(loss) ? natives_value(&p->n, loss) : 0;
    if (v) {
        value_ref(r, v);
        r->values[v].floating = true;
    }
    sv_drop(s, loss);
    if (!v || script_failed(s))
        natives_fail_run(&p->n);
    return v;
}

static void evaluate(struct model *m)
{
    struct program *p = m->parts;

    if (!stop_training(p->s, p->model))
        natives_fail_run(&p->n);
    for (uint32_t i = 1; i < m->tree.n_modules; i++)
        if (m->tree.modules[i]->kind == MODULE_DROPOUT)
            m->tree.modules[i]->p = 0;
}

const struct family_program script_program = {
    .name = "script",
    .source = "the request's own",
    .declare = declare,
    .forward = forward,
    .widen = widen,
    .rest = rest,
    .loss = loss_of_task,
    .evaluate = evaluate,
    .refer = refer,
    .takes_item_count = true,
    .norm_registered = true, /* as ALL_LAYERNORM_LAYERS says */
};
