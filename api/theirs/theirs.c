/* Users' own configs: the walk through their keys. */
#include "api/theirs/theirs.h"

#include "api/request/query.h"
#include "api/decode/unknown.h"
#include "api/theirs/command_text.h"
#include "api/theirs/yaml_text.h"

#include <stdio.h>
#include <string.h>

const char *theirs_path(struct theirs *t)
{
    return arena_str(t->d.arena, t->d.path, strlen(t->d.path));
}

bool theirs_flag(const struct json *v, bool *ret)
{
    const char *s = json_str(v);
    uint64_t n;

    if (json_bool(v, ret))
        return true;
    if (json_uint64(v, &n) && n < 2) {
        *ret = n;
        return true;
    }
    if (!s || !word_among("true|false|yes|no", s, strlen(s), true))
        return false;
    *ret = word_among("true|yes", s, strlen(s), true);
    return true;
}

enum err_code theirs_flag_only(struct theirs *t, const struct json *v, bool *ret)
{
    if (theirs_flag(v, ret))
        return ERR_OK;
    return decode_fail(&t->d, ERR_FIELD_TYPE, "must be true or false, not %s", json_type_name(json_type(v)));
}

enum err_code theirs_read_flag(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *value = strchr(key->member, '=');
    const char *member = arena_str(t->d.arena, key->member, (size_t)(value - key->member));
    bool on;
    enum err_code rc = theirs_flag_only(t, v, &on);

    if (!rc && !member)
        rc = decode_fail(&t->d, ERR_NOMEM, "no room for the request");
    return rc || !on ? rc : theirs_say_text(t, member, value + 1);
}

void theirs_change(struct theirs *t, const struct config_change *change)
{
    struct config_changes *c = &t->e->changes;

    if (c->n == CONFIG_CHANGES) {
        theirs_gap(&t->d, "so many members of the model's config");
        return;
    }
    c->v[c->n++] = *change;
}

enum err_code theirs_read_weight(struct theirs *t, const struct json *v, const char **ret_json)
{
    double weight = 0;
    char text[32];

    *ret_json = NULL;
    if (!json_number(v, &weight) && (!json_str(v) || sscanf(json_str(v), "%lf", &weight) != 1)) /* "1e-3", which YAML takes for a text */
        return json_type(v) == JSON_NULL ? ERR_OK : decode_wrong_type(&t->d, "a number", v);
    if (!(weight > 0 || weight < 0))
        return ERR_OK;
    (void)snprintf(text, sizeof text, "%.17g", weight);
    *ret_json = arena_str(t->d.arena, text, strlen(text));
    return *ret_json ? ERR_OK : decode_fail(&t->d, ERR_NOMEM, "no room for the request");
}

/* What from_pretrained() takes beside members of a config, or what a config says of how a model is loaded. */
static bool is_no_member(const char *name)
{
    static const char words[] = "quantization_config|attn_implementation|_attn_implementation|experts_implementation|_experts_implementation|torch_dtype|dtype|"
                                "device_map|max_memory|load_in_4bit|load_in_8bit|use_kernels|tp_plan|text_config|vision_config|auto_map|model_type|config";

    return word_among(words, name, strlen(name), false) || !strncmp(name, "offload", 7);
}

enum err_code theirs_read_changes(struct theirs *t, const struct their_key *key, const struct json *v)
{
    static const char quiet[] = "disable_dropout|trust_remote_code|low_cpu_mem_usage|use_cache|token";

    if (json_type(v) == JSON_NULL)
        return ERR_OK;
    if (json_type(v) != JSON_OBJECT)
        return decode_wrong_type(&t->d, "an object of members of the model's config", v);
    json_each (one, v) {
        const char *name = json_name(one);

        if (is_no_member(name))
            theirs_gap(&t->d, "what is loaded in another way (of the config's other members the figures take notice)");
        else if (!word_among(quiet, name, strlen(name), false))
            theirs_change(t, &(struct config_change){.name = name, .value = one});
    }
    (void)key;
    return ERR_OK;
}

/* configuration_utils.py: the setter makes names of labels anew. */
enum err_code theirs_read_labels(struct theirs *t, const struct their_key *key, const struct json *v)
{
    uint64_t n;

    (void)key;
    if (json_type(v) == JSON_NULL)
        return ERR_OK;
    if (!json_uint64(v, &n))
        return decode_wrong_type(&t->d, "a whole number", v);
    theirs_change(t, &(struct config_change){.name = "id2label", .text = "null"});
    theirs_change(t, &(struct config_change){.name = "num_labels", .value = v});
    return ERR_OK;
}

enum err_code theirs_read_problem(struct theirs *t, const struct their_key *key, const struct json *v)
{
    (void)key;
    if (json_str(v))
        theirs_change(t, &(struct config_change){.name = "problem_type", .value = v});
    return ERR_OK;
}

/* Of DeepSpeed's config: what is in the file may be in the request. */
enum err_code theirs_read_file_name(struct theirs *t, const struct their_key *key, const struct json *v)
{
    const char *carried = theirs_carried(t, json_str(v));

    (void)key;
    if (t->e->rq.deepspeed_config && (!carried || strchr(json_str(v), '/'))) /* a name says it beside the file, a path is the file */
        return ERR_OK;
    if (carried) {
        if (strchr(json_str(v), '/'))
            note_of(&t->e->assumptions, NOTE_OF_YOURS, "framework_config.deepspeed: %.100s as %s has it; deepspeed_config says what yours has", json_str(v),
                    t->tool->source);
        return theirs_walk_text(t, carried, deepspeed_keys);
    }
    return decode_fail(&t->d, ERR_FIELD_VALUE, "is the name of a file on your side: give what is in it as the request's deepspeed_config");
}

enum err_code theirs_say_amp(struct theirs *t, enum amp amp)
{
    struct estimate *e = t->e;

    if (e->amp != AMP_UNSAID && e->amp != amp)
        return decode_fail(&t->d, ERR_FIELD_CONFLICT, "contradicts %s: give one of them, or the same", e->amp_at);
    e->amp = amp;
    e->amp_at = theirs_path(t);
    return ERR_OK;
}

/* --- the walk ------------------------------------------------------------------------------------------------------------------- */

static enum err_code walk_within(struct theirs *t, const struct their_key *key, const struct json *v)
{
    if (json_type(v) == JSON_OBJECT)
        return theirs_walk(t, v, key->keys, false);
    if (json_str(v))
        return decode_fail(&t->d, ERR_FIELD_VALUE, "is the name of a file on your side: give what is in it");
    return decode_fail(&t->d, ERR_FIELD_TYPE, "must be an object, not %s", json_type_name(json_type(v)));
}

static bool is_auto(const struct json *v)
{
    return json_str(v) && !strcmp(json_str(v), "auto");
}

static enum err_code read_key(struct theirs *t, const struct their_key *key, const struct json *v)
{
    switch (key->effect) {
    case SAYS:
        return is_auto(v) ? ERR_OK : theirs_say(t, key->member, v); /* auto: what the request says, or its default */
    case WITHIN:
        return walk_within(t, key, v);
    case READ:
        return key->read(t, key, v);
    case MOVED:
        if (!theirs_is_neutral(key, v))
            theirs_gap(&t->d, key->member);
        return ERR_OK;
    case NOTED:
        if (!theirs_is_neutral(key, v))
            note(t->d.warnings, "%.100s: the figures are those of a training step; %s", t->d.path, key->member);
        return ERR_OK;
    case QUIET:
    case ALSO:
        break;
    }
    return ERR_OK;
}

/* "/training/seq_len" and "training.seq_len" */
static bool pointer_is(const char *pointer, const char *dotted)
{
    for (pointer++; *pointer && (*pointer == *dotted || (*pointer == '/' && *dotted == '.')); pointer++)
        dotted++;
    return !*pointer && !*dotted;
}

/* What the file calls a member of ours. */
static const char *their_name(const struct lexicon *names, const char *pointer, char text[POINTER_BYTES])
{
    for (uint32_t i = 0; pointer && i < names->n; i++) {
        const struct their_key *key = names->v[i].row;

        if (key->effect == SAYS && pointer_is(pointer, key->member)) {
            (void)snprintf(text, POINTER_BYTES, "%.*s", (int)names->v[i].bytes, names->v[i].name);
            return text;
        }
    }
    return NULL;
}

static enum err_code unknown_key(struct theirs *t, const struct lexicon *names, size_t parent, const char *name, bool complete)
{
    char text[POINTER_BYTES];
    const struct lexicon_entry *near = lexicon_near(names, name);
    const char *theirs = near ? NULL : their_name(names, alias_of(name), text);

    if (theirs)
        return unknown_refuse(&t->d, name, theirs);
    if (complete && !near)
        return decode_fail(&t->d, ERR_UNKNOWN_MEMBER, "is no key that accelerate knows: it refuses the file");
    return unknown_member(&t->d, parent, name, names);
}

/* Rows of a table, and of those that stand in it as a whole. `l` NULL: counts their names. */
static size_t add_keys(struct lexicon *l, const struct their_key *keys)
{
    size_t n = 0;

    for (const struct their_key *k = keys; k->names; k++) {
        n += k->effect == ALSO ? add_keys(l, k->keys) : lexicon_count(k->names);
        if (l && k->effect != ALSO)
            lexicon_add(l, k->names, k);
    }
    return n;
}

static enum err_code list_keys(struct theirs *t, const struct their_key *keys, struct lexicon *ret)
{
    lexicon_init(ret, t->d.arena, add_keys(NULL, keys));
    (void)add_keys(ret, keys);
    return ret->full ? decode_fail(&t->d, ERR_NOMEM, "no room for the request") : ERR_OK;
}

static enum err_code walk_keys(struct theirs *t, const struct json *doc, const struct their_key *keys, bool complete)
{
    size_t n = strlen(t->d.path), i = 0;
    const bool *counts = members_that_count(t->d.arena, doc);
    struct lexicon names;
    enum err_code rc = list_keys(t, keys, &names);

    if (!counts)
        return rc ? rc : decode_fail(&t->d, ERR_NOMEM, "no room for the request");
    json_each (v, doc) {
        bool last = counts[i++];
        const struct their_key *key = last && !rc ? lexicon_find(&names, json_name(v)) : NULL;

        if (rc || !last || (json_type(v) == JSON_NULL && key))
            continue;
        decode_path_push(&t->d, json_name(v));
        rc = key ? read_key(t, key, v) : unknown_key(t, &names, n, json_name(v), complete);
        if (!rc)
            t->d.path[n] = 0;
    }
    return rc;
}

enum err_code theirs_walk(struct theirs *t, const struct json *doc, const struct their_key *keys, bool complete)
{
    const struct json *outer = t->doc;
    enum err_code rc;

    if (!json_first(doc))
        return ERR_OK;
    t->doc = doc;
    rc = walk_keys(t, doc, keys, complete);
    t->doc = outer;
    return rc;
}

enum err_code theirs_walk_text(struct theirs *t, const char *json, const struct their_key *keys)
{
    struct json *doc = NULL;
    enum err_code rc = json_parse(json, strlen(json), &json_limits_request, &doc, t->d.err);

    if (!rc)
        rc = theirs_walk(t, doc, keys, false);
    json_free(doc);
    return rc;
}

/* --- the four ------------------------------------------------------------------------------------------------------------------ */

/* A file's text as it stands: JSON, a command, else YAML. */
static enum err_code parse_text(const char *text, bool commands, struct arena *arena, struct json **ret, struct err *err)
{
    size_t blank = strspn(text, " \t\r\n");

    return text[blank] == '{'             ? json_parse(text, strlen(text), &json_limits_config, ret, err)
           : commands && command_is(text) ? command_parse(text, arena, ret, err)
                                          : yaml_parse(text, strlen(text), arena, ret, err);
}

static enum err_code read_text(struct theirs *t, const char *text, bool commands, struct json **ret)
{
    enum err_code rc = parse_text(text, commands, t->d.arena, ret, t->d.err);

    if (rc)
        return decode_fail(&t->d, rc == ERR_NOMEM ? rc : ERR_FIELD_VALUE, "%.300s", t->d.err->detail);
    return json_type(*ret) == JSON_OBJECT
               ? ERR_OK
               : decode_fail(&t->d, ERR_FIELD_TYPE, "must hold an object, not %s", json_type_name(json_type(*ret)));
}

/* Of a command what stands before its script too. */
static const struct their_key tool_keys[] = {OBJECT("launcher", launcher_keys), TABLE(trainer_keys), {0}};

const struct json *theirs_model_said(const struct json *arguments, const char **ret_name)
{
    static const char *const names[] = {"model_name_or_path", "base_model", "model", "model_name", "model_id_or_path"};
    const struct json *of = json_type(json_get(arguments, "model")) == JSON_OBJECT ? json_get(arguments, "model") : arguments; /* oumi */

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (json_str(json_get(of, names[i]))) {
            *ret_name = names[i];
            return json_get(of, names[i]);
        }
    return NULL;
}

const char *theirs_model(const struct json *request, struct arena *arena)
{
    const struct json *given = json_get(json_get(request, "framework_config"), "text");
    const char *id = json_str(json_get(request, "model")), *name;
    struct json *doc = NULL;
    struct err err;

    if (id || json_get(request, "model") || json_get(request, "config"))
        return id;
    if (!given)
        given = json_get(request, "training_arguments");
    if (json_str(given) && !parse_text(json_str(given), true, arena, &doc, &err))
        given = doc;
    id = json_str(theirs_model_said(given, &name));
    id = id && !model_id_fault(id) ? arena_str(arena, id, strlen(id)) : NULL;
    json_free(doc);
    return id;
}

/* A tool's own file: the keys of training_arguments, with defaults of its own. */
static enum err_code read_tool(struct theirs *t)
{
    struct estimate *e = t->e;
    enum err_code rc = theirs_tool(t, &t->tool);

    if (rc || !t->tool)
        return rc;
    t->arguments_at = "/framework_config/text";
    (void)snprintf(t->d.path, sizeof t->d.path, "%s", t->arguments_at);
    rc = read_text(t, e->rq.framework_config.text, true, &e->owned[0]);
    t->arguments = e->owned[0];
    return rc ? rc : theirs_walk(t, t->arguments, t->tool->keys ? t->tool->keys : tool_keys, false);
}

static enum err_code read_config(struct theirs *t, const char *name, const struct json *given, const struct their_key *keys,
                                 struct json **owned)
{
    const struct json *doc = given;
    enum err_code rc = ERR_OK;

    if (!given)
        return ERR_OK;
    (void)snprintf(t->d.path, sizeof t->d.path, "/%s", name);
    if (json_str(given)) {
        rc = read_text(t, json_str(given), false, owned);
        doc = *owned;
    }
    if (keys == trainer_keys) {
        t->arguments = doc;
        t->arguments_at = "/training_arguments";
    }
    if (!rc)
        rc = theirs_walk(t, doc, keys, keys == accelerate_keys);
    if (!rc && keys == accelerate_keys && !json_get(doc, "distributed_type"))
        rc = err_set(t->d.err, ERR_FIELD_MISSING, "/accelerate_config/distributed_type", "accelerate refuses a file without it");
    return rc;
}

enum err_code theirs_read(struct estimate *e)
{
    const struct estimate_request *rq = &e->rq;
    struct theirs *t = arena_new(e->call->arena, struct theirs);
    enum err_code rc;

    if (!rq->training_arguments && !rq->accelerate_config && !rq->deepspeed_config && !rq->framework_config.text &&
        !rq->framework_config.framework.n)
        return ERR_OK;
    if (!t)
        return err_set(e->call->err, ERR_NOMEM, "", "no room for the request");
    t->e = e;
    t->d = (struct decoding){
        .arena = e->call->arena, .warnings = &e->warnings, .err = e->call->err, .left_out = &e->left_out, .root = estimate_members};
    rc = read_tool(t);
    if (!rc)
        rc = read_config(t, "training_arguments", rq->training_arguments, trainer_keys, &e->owned[0]);
    if (!rc)
        rc = read_config(t, "accelerate_config", rq->accelerate_config, accelerate_keys, &e->owned[1]);
    if (!rc)
        rc = read_config(t, "deepspeed_config", rq->deepspeed_config, deepspeed_keys, &e->owned[2]);
    return rc ? rc : theirs_settle(t);
}
