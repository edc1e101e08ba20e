#include "base/json.h"
#include "config/arch.h"
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned char block[1 << 16];

/* --- every member, against transformers ---------------------------------------------------------------------------------------- */

static const char *const activations[] = {"gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "silu", "relu", "bloom_gelu"};
static const char *const dtypes[] = {"absent", "float32", "bfloat16", "float16"};
static const char *const ropes[] = {"none", "default", "linear", "dynamic", "yarn", "llama3", "longrope", "proportional"};

#define AT(m) #m, offsetof(struct arch, m)

static const struct {
    const char *name;
    size_t at;
    enum { SIZE, FLAG, REAL, TEXT, TOKEN } kind;
} member[] = {
    {AT(hidden), SIZE}, {AT(layers), SIZE}, {AT(heads), SIZE}, {AT(kv_heads), SIZE}, {AT(head_dim), SIZE}, {AT(ffn), SIZE}, {AT(vocab), SIZE},
    {AT(max_positions), SIZE}, {AT(rotary_dim), SIZE}, {AT(sliding_window), SIZE}, {AT(pretraining_tp), SIZE}, {AT(embed_dim), SIZE},
    {AT(pad_token_id), TOKEN}, {AT(architecture), TEXT}, {AT(quantization), TEXT}, {AT(tie_embeddings), FLAG}, {AT(use_cache), FLAG},
    {AT(attention_bias), FLAG}, {AT(mlp_bias), FLAG}, {AT(multi_query), FLAG}, {AT(parallel_residual), FLAG}, {AT(enable_bias), FLAG},
    {AT(norm_before), FLAG}, {AT(final_norm), FLAG}, {AT(norm_affine), FLAG}, {AT(residual_post_norm), FLAG}, {AT(slow_but_exact), FLAG},
    {AT(scale_embedding), FLAG}, {AT(scale_attn_weights), FLAG}, {AT(scale_attn_by_inverse_layer_idx), FLAG}, {AT(reorder_and_upcast_attn), FLAG},
    {AT(attention_softmax_in_fp32), FLAG}, {AT(scale_attention_softmax_in_fp32), FLAG}, {AT(rope_dynamic), FLAG}, {AT(embed_dropout), REAL},
    {AT(residual_dropout), REAL}, {AT(attention_dropout), REAL}, {AT(activation_dropout), REAL}, {AT(layerdrop), REAL},
    {AT(attn_logit_softcapping), REAL}, {AT(final_logit_softcapping), REAL}, {AT(query_pre_attn_scalar), REAL}, {AT(rope_attention_scaling), REAL},
};

static void same_member(size_t i, const struct arch *a, const struct json *truth, const char *name)
{
    const char *key = member[i].name;
    const struct json *v = json_get(truth, key);
    const void *got = (const char *)a + member[i].at;
    int64_t whole = 0;
    double real = 0;
    bool flag = false;

    switch (member[i].kind) {
    case SIZE:
        ck_assert_msg(json_int64(v, &whole) && whole == *(const uint32_t *)got, "%s: %s is %u, not %lld", name, key, *(const uint32_t *)got, (long long)whole);
        break;
    case TOKEN:
        ck_assert_msg(json_int64(v, &whole) && whole == *(const int64_t *)got, "%s: %s is %lld, not %lld", name, key, (long long)*(const int64_t *)got, (long long)whole);
        break;
    case FLAG:
        ck_assert_msg(json_bool(v, &flag) && flag == *(const bool *)got, "%s: %s is not %d", name, key, flag);
        break;
    case REAL:
        ck_assert_msg(json_number(v, &real) && fabs(real - *(const double *)got) <= 1e-12 * fabs(real), "%s: %s is %.17g, not %.17g", name, key, *(const double *)got, real);
        break;
    case TEXT:
        ck_assert_msg(json_str(v) && !strcmp(json_str(v), *(const char *const *)got), "%s: %s is %s, not %s", name, key, *(const char *const *)got, json_str(v));
        break;
    }
}

static void same_text(const char *got, const struct json *truth, const char *key, const char *name)
{
    const char *want = json_str(json_get(truth, key));

    ck_assert_msg(want && !strcmp(want, got), "%s: %s is %s, not %s", name, key, got, want ? want : "(absent)");
}

static void same_arch(const struct arch *a, const struct json *truth, const char *name)
{
    char kinds[ARCH_MAX_LAYERS + 1] = {0};

    for (size_t i = 0; i < sizeof member / sizeof *member; i++)
        same_member(i, a, truth, name);
    for (uint32_t i = 0; i < a->layers; i++)
        kinds[i] = a->layer_kinds[i] == LAYER_SLIDING ? 'S' : 'F';
    same_text(family_name(a->family), truth, "family", name);
    same_text(a->model_type, truth, "family", name);
    same_text(activations[a->activation], truth, "activation", name);
    same_text(dtypes[a->saved], truth, "saved", name);
    same_text(ropes[a->rope], truth, "rope", name);
    same_text(kinds, truth, "layer_kinds", name);
}

/* The file may be ahead of the program: families to come are passed over. */
static int check_line(const char *line)
{
    struct json *doc;
    struct err err = {0};
    struct arena arena;
    struct arch a;
    const char *name;
    enum err_code rc;

    ck_assert_msg(json_parse(line, strlen(line), &json_limits_config, &doc, &err) == ERR_OK, "%s", err.detail);
    name = json_str(json_get(doc, "name"));
    if (family_find(json_str(json_get(json_get(doc, "arch"), "family"))) == FAMILY_COUNT) {
        json_free(doc);
        return 0;
    }
    arena_init(&arena, block, sizeof block);
    rc = arch_parse(json_get(doc, "config"), &arena, &a, &err);
    ck_assert_msg(rc == ERR_OK, "%s: %s at '%s': %s", name, err_slug(rc), err.at, err.detail);
    same_arch(&a, json_get(doc, "arch"), name);
    json_free(doc);
    return 1;
}

START_TEST(equals_transformers)
{
    static char line[1 << 16];
    FILE *f = fopen("tests/data/config/arch_truth.jsonl", "r");
    int lines = 0;

    ck_assert_msg(f != NULL, "run from the repository's root");
    while (fgets(line, sizeof line, f))
        lines += check_line(line);
    (void)fclose(f);
    ck_assert_int_ge(lines, 150);
}
END_TEST

/* --- what is refused, and what is read although transformers refuses it ------------------------------------------------------- */

#define LLAMA(rest) "{\"model_type\":\"llama\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"intermediate_size\":100,\"vocab_size\":100" rest "}"
#define QWEN3(rest) "{\"model_type\":\"qwen3\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"intermediate_size\":100,\"vocab_size\":100" rest "}"
#define MISTRAL(rest) "{\"model_type\":\"mistral\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"intermediate_size\":100,\"vocab_size\":100" rest "}"
#define GPT2(rest) "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":100" rest "}"
#define GPT_NEO(rest) "{\"model_type\":\"gpt_neo\",\"hidden_size\":64,\"num_layers\":2,\"num_heads\":4,\"vocab_size\":100" rest "}"
#define CODEGEN(heads, rest) "{\"model_type\":\"codegen\",\"n_embd\":256,\"n_layer\":2,\"n_head\":" heads ",\"vocab_size\":100" rest "}"

static const struct {
    const char *config;
    enum err_code code;
    const char *at, *says;
} row[] = {
    {"[]", ERR_FIELD_TYPE, "", "an object"},
    {"{}", ERR_FIELD_MISSING, "/model_type", ""},
    {"{\"model_type\":null}", ERR_FIELD_MISSING, "/model_type", ""},
    {"{\"model_type\":7}", ERR_FIELD_TYPE, "/model_type", ""},
    {"{\"model_type\":\"bert\"}", ERR_ARCH_UNKNOWN, "/model_type", "gemma2"},
    {"{\"model_type\":\"\"}", ERR_ARCH_UNKNOWN, "/model_type", "opt, bloom"},
    {"{\"model_type\":\"llava\",\"text_config\":" LLAMA("") "}", ERR_ARCH_UNKNOWN, "/model_type", "text_config"},
    {"{\"model_type\":\"llama\"}", ERR_FIELD_MISSING, "/hidden_size", ""},
    {"{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2}", ERR_FIELD_MISSING, "/n_head", ""},
    {"{\"model_type\":\"bloom\",\"n_embed\":64,\"n_layer\":2,\"num_attention_heads\":0}", ERR_FIELD_RANGE, "/num_attention_heads", ""},
    {LLAMA(",\"hidden_size\":\"4096\""), ERR_FIELD_TYPE, "/hidden_size", "the string \"4096\""},
    {LLAMA(",\"hidden_size\":64.5"), ERR_FIELD_TYPE, "/hidden_size", "whole"},
    {LLAMA(",\"hidden_size\":-64"), ERR_FIELD_RANGE, "/hidden_size", "-64"},
    {LLAMA(",\"hidden_size\":0"), ERR_FIELD_RANGE, "/hidden_size", ""},
    {LLAMA(",\"hidden_size\":1048577"), ERR_FIELD_RANGE, "/hidden_size", "1..1048576"},
    {LLAMA(",\"hidden_size\":1e999"), ERR_FIELD_RANGE, "/hidden_size", ""},
    {LLAMA(",\"hidden_size\":[64]"), ERR_FIELD_TYPE, "/hidden_size", ""},
    {LLAMA(",\"hidden_size\":null"), ERR_FIELD_MISSING, "/hidden_size", ""},
    {LLAMA(",\"num_hidden_layers\":1025"), ERR_FIELD_RANGE, "/num_hidden_layers", ""},
    {LLAMA(",\"num_attention_heads\":4097"), ERR_FIELD_RANGE, "/num_attention_heads", ""},
    {LLAMA(",\"intermediate_size\":4194305"), ERR_FIELD_RANGE, "/intermediate_size", ""},
    {LLAMA(",\"vocab_size\":16777217"), ERR_FIELD_RANGE, "/vocab_size", ""},
    {LLAMA(",\"max_position_embeddings\":268435457"), ERR_FIELD_RANGE, "/max_position_embeddings", ""},
    {LLAMA(",\"use_cache\":1"), ERR_FIELD_TYPE, "/use_cache", "true or false"},
    {LLAMA(",\"attention_dropout\":1.5"), ERR_FIELD_RANGE, "/attention_dropout", ""},
    {LLAMA(",\"attention_dropout\":\"0.1\""), ERR_FIELD_TYPE, "/attention_dropout", ""},
    {LLAMA(",\"hidden_act\":\"glu\""), ERR_FIELD_VALUE, "/hidden_act", "gelu_pytorch_tanh"},
    {LLAMA(",\"hidden_act\":3"), ERR_FIELD_TYPE, "/hidden_act", ""},
    {LLAMA(",\"torch_dtype\":\"int8\""), ERR_FIELD_VALUE, "/torch_dtype", "bfloat16"},
    {LLAMA(",\"dtype\":16"), ERR_FIELD_TYPE, "/dtype", ""},
    {LLAMA(",\"architectures\":\"LlamaForCausalLM\""), ERR_FIELD_TYPE, "/architectures", ""},
    {LLAMA(",\"num_key_value_heads\":3"), ERR_ARCH_INVALID, "/num_key_value_heads", "4 heads"},
    {LLAMA(",\"num_key_value_heads\":8"), ERR_ARCH_INVALID, "/num_key_value_heads", ""},
    {LLAMA(",\"head_dim\":15"), ERR_ARCH_INVALID, "/head_dim", ""},
    {LLAMA(",\"pad_token_id\":100"), ERR_ARCH_INVALID, "/pad_token_id", ""},
    {LLAMA(",\"pad_token_id\":-101"), ERR_ARCH_INVALID, "/pad_token_id", ""},
    {LLAMA(",\"rope_scaling\":{\"type\":\"mrope\"}"), ERR_FIELD_VALUE, "/rope_scaling/type", "llama3"},
    {LLAMA(",\"rope_parameters\":{\"rope_type\":1}"), ERR_FIELD_TYPE, "/rope_parameters/rope_type", ""},
    {LLAMA(",\"rope_scaling\":{\"type\":\"dynamic\"}"), ERR_FIELD_MISSING, "/rope_scaling/factor", ""},
    {LLAMA(",\"rope_scaling\":{\"type\":\"longrope\"}"), ERR_FIELD_MISSING, "/rope_scaling/short_factor", ""},
    {LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":\"4\"}"), ERR_FIELD_TYPE, "/rope_scaling/factor", ""},
    {LLAMA(",\"rope_scaling\":{\"type\":\"yarn\",\"factor\":-4}"), ERR_FIELD_RANGE, "/rope_scaling/factor", ""},
    {LLAMA(",\"rope_parameters\":[1]"), ERR_FIELD_TYPE, "/rope_parameters", ""},
    {LLAMA(",\"quantization_config\":4"), ERR_FIELD_TYPE, "/quantization_config", ""},
    {GPT2(",\"add_cross_attention\":true"), ERR_FIELD_VALUE, "/add_cross_attention", ""},
    {GPT2(",\"num_attention_heads\":7"), ERR_ARCH_INVALID, "/num_attention_heads", "64"},
    {GPT_NEO(""), ERR_ARCH_INVALID, "/num_layers", "24"},
    {GPT_NEO(",\"attention_types\":[[[\"global\"],3]]"), ERR_ARCH_INVALID, "/attention_types", "more layers than the 2"},
    {GPT_NEO(",\"attention_types\":[[[\"global\"],1]]"), ERR_ARCH_INVALID, "/attention_types", "1 layers"},
    {GPT_NEO(",\"attention_types\":[[[\"global\"],1000000000]]"), ERR_FIELD_TYPE, "/attention_types", ""},
    {GPT_NEO(",\"attention_types\":[[[\"all\"],2]]"), ERR_FIELD_VALUE, "/attention_types", "all"},
    {GPT_NEO(",\"attention_types\":\"global\""), ERR_ARCH_INVALID, "/attention_types", ""},
    {GPT_NEO(",\"attention_layers\":[\"global\",7]"), ERR_FIELD_VALUE, "/attention_layers", ""},
    {CODEGEN("2", ""), ERR_ARCH_INVALID, "/n_head", "4 parts"},
    {CODEGEN("4", ",\"rotary_dim\":66"), ERR_ARCH_INVALID, "/rotary_dim", ""},
    {CODEGEN("4", ",\"rotary_dim\":31"), ERR_ARCH_INVALID, "/rotary_dim", "even"},
    {QWEN3(",\"layer_types\":[\"full_attention\"]"), ERR_ARCH_INVALID, "/layer_types", ""},
    {QWEN3(",\"layer_types\":[\"full_attention\",\"linear_attention\"]"), ERR_FIELD_VALUE, "/layer_types", "linear_attention"},
    {QWEN3(",\"layer_types\":[\"full_attention\",\"sliding_attention\"]"), ERR_ARCH_INVALID, "/sliding_window", ""},
    {QWEN3(",\"max_window_layers\":\"2\""), ERR_FIELD_TYPE, "/max_window_layers", ""},
    {"{\"model_type\":\"gpt_neox\",\"hidden_size\":64,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"intermediate_size\":9,\"vocab_size\":9,"
     "\"rotary_pct\":0}", ERR_ARCH_INVALID, "/rotary_pct", ""},
    {MISTRAL(",\"sliding_window\":-1"), ERR_FIELD_RANGE, "/sliding_window", ""},
    {MISTRAL(",\"num_attention_heads\":128"), ERR_ARCH_INVALID, "/num_attention_heads", ""},
    {"{\"text_config\":{\"model_type\":\"llama\",\"head_dim\":-1}}", ERR_FIELD_RANGE, "/text_config/head_dim", ""},
    {"{\"text_config\":{\"model_type\":\"bert\"}}", ERR_ARCH_UNKNOWN, "/text_config/model_type", ""},
    /* read */
    {LLAMA(",\"hidden_size\":64.0,\"num_hidden_layers\":2e0"), ERR_OK, "", ""},
    {LLAMA(",\"use_cache\":null,\"max_position_embeddings\":null,\"tie_word_embeddings\":null"), ERR_OK, "", ""},
    {LLAMA(",\"torch_dtype\":\"torch.float16\",\"architectures\":[\"LlamaForSequenceClassification\"]"), ERR_OK, "", ""},
    {QWEN3(",\"head_dim\":null"), ERR_OK, "", ""},
    {MISTRAL(",\"hidden_size\":64,\"num_attention_heads\":24,\"num_key_value_heads\":null,\"sliding_window\":null"), ERR_OK, "", ""},
    {"{\"text_config\":{\"model_type\":\"llama\"}}", ERR_OK, "", ""},
};

static enum err_code parse(const char *text, size_t room, struct arch *ret, struct err *err)
{
    struct json *doc;
    struct arena arena;
    enum err_code rc;

    ck_assert_int_eq(json_parse(text, strlen(text), &json_limits_config, &doc, err), ERR_OK);
    arena_init(&arena, block, room);
    rc = arch_parse(doc, &arena, ret, err);
    json_free(doc);
    return rc;
}

START_TEST(refuses)
{
    static const struct arch untouched;
    struct arch a = {0};
    struct err err = {0};
    enum err_code rc = parse(row[_i].config, sizeof block, &a, &err);

    ck_assert_msg(rc == row[_i].code && !strcmp(err.at, row[_i].at), "%s: %s at '%s': %s", row[_i].config, err_slug(rc), err.at, err.detail);
    ck_assert_msg(strstr(err.detail, row[_i].says) != NULL, "'%s' does not say '%s'", err.detail, row[_i].says);
    if (rc)
        ck_assert_msg(!memcmp(&a, &untouched, sizeof a), "%s: written although refused", row[_i].config);
}
END_TEST

START_TEST(follows_text_config)
{
    struct arch a;
    struct err err = {0};

    ck_assert_int_eq(parse("{\"architectures\":[\"X\"],\"torch_dtype\":\"bfloat16\",\"tie_word_embeddings\":true,"
                           "\"text_config\":{\"model_type\":\"mistral\",\"vocab_size\":7}}", sizeof block, &a, &err), ERR_OK);
    ck_assert_int_eq(a.family, FAMILY_MISTRAL);
    ck_assert_uint_eq(a.hidden, 4096); /* the class default: nested configs leave out what equals it */
    ck_assert_uint_eq(a.vocab, 7);
    ck_assert_str_eq(a.architecture, "X");
    ck_assert_int_eq(a.saved, SAVED_BF16);
    ck_assert(a.tie_embeddings);
}
END_TEST

START_TEST(works_without_err)
{
    struct arch a;
    struct json *doc;
    struct arena arena;
    static const char text[] = "{\"text_config\":{\"model_type\":\"llama\",\"hidden_size\":-1}}";

    arena_init(&arena, block, sizeof block);
    ck_assert_int_eq(json_parse(text, strlen(text), &json_limits_config, &doc, NULL), ERR_OK);
    ck_assert_int_eq(arch_parse(doc, &arena, &a, NULL), ERR_FIELD_RANGE);
    json_free(doc);
}
END_TEST

START_TEST(survives_any_arena_size)
{
    size_t enough = 0;

    for (size_t room = 0; room < 256; room++) {
        struct arch a = {0};
        struct err err = {0};
        enum err_code rc = parse(LLAMA(",\"architectures\":[\"LlamaForCausalLM\"]"), room, &a, &err);

        ck_assert_msg(rc == ERR_OK || rc == ERR_NOMEM, "room %zu: %s", room, err_slug(rc));
        ck_assert(rc ? a.hidden == 0 : a.hidden == 64);
        enough += !rc;
    }
    ck_assert_uint_gt(enough, 0);
}
END_TEST

START_TEST(names_every_family)
{
    for (int i = 0; i < FAMILY_COUNT; i++) {
        ck_assert_ptr_nonnull(family_name((enum family)i));
        ck_assert_int_eq(family_find(family_name((enum family)i)), i);
    }
    ck_assert_int_eq(family_find("llam"), FAMILY_COUNT);
}
END_TEST

UNIT_TESTS("config/arch",
    unit_test(equals_transformers);
    unit_rows(refuses, row);
    unit_test(follows_text_config);
    unit_test(works_without_err);
    unit_test(survives_any_arena_size);
    unit_test(names_every_family);
)
