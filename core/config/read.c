#include "config/arch.h"

#include "base/json.h"
#include "config/keys.h"

#include <string.h>

#define AT(member) offsetof(struct arch, member)

static const struct {
    const char *name;
    enum dtype_saved saved;
} dtypes[] = {
    {"float32", SAVED_FP32}, {"float", SAVED_FP32}, {"fp32", SAVED_FP32}, {"bfloat16", SAVED_BF16}, {"bf16", SAVED_BF16},
    {"float16", SAVED_FP16}, {"half", SAVED_FP16},  {"fp16", SAVED_FP16}, {"auto", SAVED_ABSENT},
};

/* `dtype` where both are given (PreTrainedConfig.__post_init__); old files say "torch.float16". */
static enum err_code read_dtype(struct arch *a, const struct json *config, struct err *err)
{
    const char *key = json_type(json_get(config, "dtype")) > JSON_NULL ? "dtype" : "torch_dtype";
    const struct json *v = json_get(config, key);
    const char *name = json_str(v);

    if (json_type(v) <= JSON_NULL)
        return ERR_OK;
    if (!name)
        return keys_refuse(err, ERR_FIELD_TYPE, key, "must be a string like \"bfloat16\"");
    if (!strncmp(name, "torch.", 6))
        name += 6;
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(name, dtypes[i].name)) {
            a->saved = dtypes[i].saved;
            return ERR_OK;
        }
    return keys_refuse(err, ERR_FIELD_VALUE, key, "'%.40s' is none of float32, bfloat16, float16", name);
}

static enum err_code copy_str(const char **ret, const char *s, struct arena *arena, struct err *err)
{
    *ret = arena_str(arena, s, strlen(s));
    return *ret ? ERR_OK : err_set(err, ERR_NOMEM, "", "no room for the strings of the config");
}

/* configuration_utils.py PretrainedConfig: id2label tells the number of labels where it is given. */
void arch_read_labels(struct arch *a, const struct json *config)
{
    const struct json *names = json_get(config, "id2label");
    const char *problem = json_str(json_get(config, "problem_type"));
    uint64_t n = 2;

    if (json_type(names) == JSON_OBJECT)
        n = json_count(names);
    else
        (void)json_uint64(json_get(config, "num_labels"), &n);
    a->num_labels = n && n <= 1 << 20 ? (uint32_t)n : 2;
    a->problem = problem && !strcmp(problem, "multi_label_classification")            ? PROBLEM_MULTI
                 : problem ? (!strcmp(problem, "regression") ? PROBLEM_REGRESSION : PROBLEM_SINGLE)
                           : (a->num_labels == 1 ? PROBLEM_REGRESSION : PROBLEM_SINGLE);
}

bool arch_class_is_body(const char *name)
{
    static const char end[] = "Model", head[] = "LMHeadModel";
    size_t n = strlen(name);

    return n >= strlen(end) && !strcmp(name + n - strlen(end), end) && (n < strlen(head) || strcmp(name + n - strlen(head), head) != 0);
}

const char *arch_class_of(const struct json *config)
{
    const char *first = json_str(json_first(json_get(config, "architectures")));
    const char *mapped = json_str(json_get(json_get(config, "auto_map"), "AutoModelForCausalLM")), *dot = mapped ? strrchr(mapped, '.') : NULL;

    if (!first)
        return "";
    return dot && arch_class_is_body(first) ? dot + 1 : first;
}

/* Any class is welcome: what is trained is the decoder under a causal head, whatever the checkpoint was saved from. */
static enum err_code read_architecture(struct arch *a, const struct json *config, struct arena *arena, struct err *err)
{
    const struct json *list = json_get(config, "architectures"), *first = json_first(list);

    if (json_type(list) > JSON_NULL && (json_type(list) != JSON_ARRAY || (first && !json_str(first))))
        return keys_refuse(err, ERR_FIELD_TYPE, "architectures", "must be a list of class names");
    arch_read_labels(a, config);
    return copy_str(&a->architecture, arch_class_of(config), arena, err);
}

static enum err_code read_quantization(struct arch *a, const struct json *config, struct arena *arena, struct err *err)
{
    const struct json *q = json_get(config, "quantization_config");
    const char *method = json_str(json_get(q, "quant_method"));

    if (json_type(q) > JSON_NULL && json_type(q) != JSON_OBJECT)
        return keys_refuse(err, ERR_FIELD_TYPE, "quantization_config", "must be an object");
    if (!method) /* bitsandbytes once wrote no quant_method; some files are trimmed */
        method = !json_count(q) ? "" : json_get(q, "load_in_4bit") || json_get(q, "load_in_8bit") ? "bitsandbytes" : "unknown";
    return copy_str(&a->quantization, method, arena, err);
}

static enum err_code check_heads(struct arch *a, const struct family_row *f, const struct json *config, struct err *err)
{
    const char *heads = keys_spelling(f->keys, AT(heads), config);

    if (f->heads_fill_hidden && a->hidden % a->heads)
        return keys_refuse(err, ERR_ARCH_INVALID, heads, "%u heads do not divide the width of %u", a->heads, a->hidden);
    if (!a->head_dim)
        a->head_dim = a->hidden / a->heads;
    if (!a->head_dim)
        return keys_refuse(err, ERR_ARCH_INVALID, heads, "%u heads are more than the width of %u", a->heads, a->hidden);
    if (!a->kv_heads)
        a->kv_heads = a->heads;
    if (a->heads % a->kv_heads)
        return keys_refuse(err, ERR_ARCH_INVALID, keys_spelling(f->keys, AT(kv_heads), config), "%u key/value heads do not divide %u heads",
                           a->kv_heads, a->heads);
    return ERR_OK;
}

static enum err_code check_rotary(const struct arch *a, const struct family_row *f, const struct json *config, struct err *err)
{
    if (a->rotary_dim > a->head_dim)
        return keys_refuse(err, ERR_ARCH_INVALID, f->rotary > 0 ? "head_dim" : keys_spelling(f->keys, AT(rotary_dim), config),
                           "a head of %u cannot have %u rotated elements", a->head_dim, a->rotary_dim);
    if (a->rotary_dim % 2)
        return keys_refuse(err, ERR_ARCH_INVALID, keys_spelling(f->keys, AT(rotary_dim), config), "must be even: rotary works on pairs");
    return ERR_OK;
}

/* nn.Embedding counts a negative padding_idx from the end and asserts that it is a row. */
static enum err_code check_padding(struct arch *a, struct err *err)
{
    int64_t row = a->pad_token_id < 0 ? a->pad_token_id + a->vocab : a->pad_token_id;

    if (a->pad_token_id == NO_TOKEN)
        row = -1;
    else if (row < 0 || row >= a->vocab)
        return keys_refuse(err, ERR_ARCH_INVALID, "pad_token_id", "%lld is no row of the %u of the vocabulary", (long long)a->pad_token_id,
                           a->vocab);
    a->pad_token_id = row;
    return ERR_OK;
}

static enum err_code read_model(struct arch *a, const struct json *config, bool nested, struct arena *arena, struct err *err)
{
    const struct family_row *f = &family_rows[a->family];
    enum err_code rc;

    if ((rc = keys_read(a, f->keys, config, nested, err)) || (rc = f->rule ? f->rule(a, config, err) : ERR_OK) ||
        (rc = check_heads(a, f, config, err)) || (rc = rope_read(a, f, config, err)) || (rc = check_rotary(a, f, config, err)) ||
        (rc = layers_read(a, f, config, arena, err)) || (rc = check_padding(a, err)) || (rc = read_dtype(a, config, err)) ||
        (rc = read_architecture(a, config, arena, err)) || (rc = read_quantization(a, config, arena, err)))
        return rc;
    if (!a->ffn)
        a->ffn = 4 * a->hidden;
    if (!a->embed_dim)
        a->embed_dim = a->hidden;
    a->model_type = f->name;
    return ERR_OK;
}

static enum err_code find_family(const struct json *config, enum family *ret, struct err *err)
{
    const struct json *type = json_get(config, "model_type");
    const char *name = json_str(type);
    char known[256];

    if (json_type(type) <= JSON_NULL)
        return keys_refuse(err, ERR_FIELD_MISSING, "model_type", "needed to pick a family");
    if (!name)
        return keys_refuse(err, ERR_FIELD_TYPE, "model_type", "must be a string");
    *ret = family_find(name);
    if (*ret == FAMILY_COUNT) {
        family_names(known, sizeof known);
        return keys_refuse(err, ERR_ARCH_UNKNOWN, "model_type", "'%.40s' has no program; known are %s%s", name, known,
                           json_get(config, "text_config") ? " (text_config alone would leave out the rest of this model)" : "");
    }
    return ERR_OK;
}

/* What stands outside of text_config belongs to the whole file. */
static enum err_code read_outer(struct arch *a, const struct json *outer, struct arena *arena, struct err *err)
{
    bool tied;
    enum err_code rc = a->saved == SAVED_ABSENT ? read_dtype(a, outer, err) : ERR_OK;

    if (!rc && !*a->architecture)
        rc = read_architecture(a, outer, arena, err);
    if (!rc && !*a->quantization)
        rc = read_quantization(a, outer, arena, err);
    if (json_bool(json_get(outer, "tie_word_embeddings"), &tied) && !json_get(json_get(outer, "text_config"), "tie_word_embeddings"))
        a->tie_embeddings = tied;
    return rc;
}

enum err_code arch_parse(const struct json *config, struct arena *arena, struct arch *ret, struct err *err)
{
    const struct json *text = json_get(config, "text_config");
    bool nested = !json_get(config, "model_type") && json_type(text) == JSON_OBJECT;
    struct arch a = {.pad_token_id = NO_TOKEN};
    enum err_code rc;

    if (json_type(config) != JSON_OBJECT)
        return err_set(err, ERR_FIELD_TYPE, "", "a config.json is an object, this is %s", json_type_name(json_type(config)));
    rc = find_family(nested ? text : config, &a.family, err);
    if (!rc)
        rc = read_model(&a, nested ? text : config, nested, arena, err);
    if (rc)
        return nested && err && rc != ERR_NOMEM ? err_under(err, "/text_config") : rc;
    if (nested)
        rc = read_outer(&a, config, arena, err);
    if (!rc)
        *ret = a;
    return rc;
}
