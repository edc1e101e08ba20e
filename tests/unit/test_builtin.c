#include "base/json.h"
#include "catalog/renamed.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

START_TEST(there_are_enough)
{
    ck_assert_uint_ge(builtin_count(), 60);
    ck_assert_ptr_null(builtin_at(builtin_count()));
}
END_TEST

/* Sorted, unique without case, parseable, of a known type, and nothing private in it. */
START_TEST(every_config_is_sound)
{
    for (size_t i = 0; i < builtin_count(); i++) {
        const struct builtin *b = builtin_at(i);
        struct err err = {0};
        struct json *doc = NULL;

        ck_assert_uint_eq(strlen(b->text), b->bytes);
        ck_assert(i == 0 || strcmp(builtin_at(i - 1)->id, b->id) < 0);
        ck_assert_ptr_eq(builtin_find(b->id), b);
        ck_assert_ptr_nonnull(strchr(b->id, '/'));
        ck_assert_msg(json_parse(b->text, b->bytes, &json_limits_config, &doc, &err) == ERR_OK, "%s: %s", b->id, err.detail);
        ck_assert_msg(json_str(json_get(doc, "model_type")) != NULL, "%s", b->id);
        json_each(member, doc)
            ck_assert_msg(json_name(member)[0] != '_', "%s: %s", b->id, json_name(member));
        json_free(doc);
    }
}
END_TEST

static const struct {
    const char *asked, *id;
} ids[] = {
    {"facebook/opt-1.3b", "facebook/opt-1.3b"},
    {"Facebook/OPT-1.3B", "facebook/opt-1.3b"},
    {"facebook/opt-125m", "facebook/opt-125m"},
    {"openai-community/gpt2", "openai-community/gpt2"},
    {"facebook/opt", NULL},
    {"facebook/opt-1.3b ", NULL},
    {"facebook/opt_1.3b", NULL}, /* ids are not catalogue names: '_' and '-' differ on the hub */
    {"", NULL},
    {"../x", NULL},
};

START_TEST(finds_by_id)
{
    const struct builtin *b = builtin_find(ids[_i].asked);

    ck_assert(!b == !ids[_i].id);
    if (b)
        ck_assert_str_eq(b->id, ids[_i].id);
}
END_TEST

static const struct {
    const char *asked, *id; /* NULL: nothing is carried */
} known_as[] = {
    {"facebook/opt-1.3b", "facebook/opt-1.3b"},
    {"meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"},
    {"meta-llama/meta-llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B"},
    {"META-LLAMA/llama-3.1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct"},
    {"meta-llama/Meta-Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B-Instruct"},
    {"Meta-Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"},
    {"Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B"},
    {"gpt2", "openai-community/gpt2"},
    {"opt-125m", "facebook/opt-125m"},
    {"gg-hf/gemma-2b", "google/gemma-2b"},
    {"meta-llama/Llama-3.1-9B", NULL},
    {"Llama-3.1", NULL},
    {"meta-llama/", NULL},
    {"/Llama-3.1-8B", NULL},
    {"", NULL},
};

START_TEST(knows_other_names)
{
    const struct builtin *b = builtin_known_as(known_as[_i].asked);

    ck_assert_msg(!b == !known_as[_i].id, "%s", known_as[_i].asked);
    if (b)
        ck_assert_str_eq(b->id, known_as[_i].id);
}
END_TEST

START_TEST(names_are_each_others)
{
    char other[RENAMED_BYTES], back[RENAMED_BYTES];

    ck_assert(renamed_other("THUDM/chatglm3-6b", 0, other));
    ck_assert_str_eq(other, "zai-org/chatglm3-6b");
    ck_assert(renamed_other(other, 0, back));
    ck_assert_str_eq(back, "THUDM/chatglm3-6b");
    ck_assert(!renamed_other(other, 1, back));
    ck_assert(!renamed_other("THUDM", 0, other));
    ck_assert(!renamed_other("facebook/opt-125m", 0, other));
}
END_TEST

/* Every model type of which the service has a program comes with an example that needs no network. */
static const char *const types[] = {"opt",   "bloom",   "codegen", "biogpt", "gpt_bigcode", "gpt_neo", "gpt2",
                                    "gpt_neox", "llama", "mistral", "qwen2",  "qwen3",       "gemma2",  "gptj"};

START_TEST(covers_type)
{
    char member[64];

    (void)snprintf(member, sizeof member, "\"model_type\": \"%s\"", types[_i]);
    for (size_t i = 0; i < builtin_count(); i++)
        if (strstr(builtin_at(i)->text, member))
            return;
    ck_abort_msg("no config of type %s", types[_i]);
}
END_TEST

UNIT_TESTS("catalog/builtin",
    unit_test(there_are_enough);
    unit_test(every_config_is_sound);
    unit_rows(finds_by_id, ids);
    unit_rows(knows_other_names, known_as);
    unit_test(names_are_each_others);
    unit_rows(covers_type, types);
)
