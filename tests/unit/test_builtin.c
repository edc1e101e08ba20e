#include "base/json.h"
#include "catalog/renamed.h"
#include "tests/support/carried.h"
#include "tests/support/unit.h"

#include <string.h>

START_TEST(there_are_enough)
{
    size_t own = 0;

    for (size_t i = 0; i < builtin_count(); i++)
        own += !builtin_at(i)->of;
    ck_assert_uint_ge(own, 250);
    ck_assert_ptr_null(builtin_at(builtin_count()));
}
END_TEST

/* Sorted, unique without case, parseable, of the type that the row says, with a source, and nothing private in it. */
START_TEST(every_config_is_sound)
{
    for (size_t i = 0; i < builtin_count(); i++) {
        const struct builtin *b = builtin_at(i), *of = b->of ? builtin_find(b->of) : b;
        const char *text = carried_text(b);
        struct err err = {0};
        struct json *doc = NULL;

        ck_assert_uint_eq(strlen(text), b->bytes);
        ck_assert(i == 0 || strcmp(builtin_at(i - 1)->id, b->id) < 0);
        ck_assert_ptr_eq(builtin_find(b->id), b);
        ck_assert_ptr_nonnull(strchr(b->id, '/'));
        ck_assert_msg(b->source && b->source[0], "%s has no source", b->id);
        ck_assert_msg(of && !of->of && !strcmp(of->model_type, b->model_type), "%s", b->id);
        ck_assert_msg((b->of != NULL) == (b->made == BUILTIN_SAME || b->made == BUILTIN_PRESUMED), "%s", b->id);
        ck_assert_msg(json_parse(text, b->bytes, &json_limits_config, &doc, &err) == ERR_OK, "%s: %s", b->id, err.detail);
        ck_assert_msg(json_str(json_get(doc, "model_type")) && !strcmp(json_str(json_get(doc, "model_type")), b->model_type), "%s", b->id);
        json_each(member, doc)
            ck_assert_msg(json_name(member)[0] != '_', "%s: %s", b->id, json_name(member));
        json_free(doc);
    }
}
END_TEST

/* No two texts are equal: whoever adds a config that is carried already names whose it is. */
START_TEST(equal_configs_are_carried_once)
{
    for (size_t i = 0; i < builtin_count(); i++)
        for (size_t k = 0; k < i; k++) {
            const struct builtin *a = builtin_at(i), *b = builtin_at(k);

            if (!a->of && !b->of && a->made == BUILTIN_FACTS && a->bytes == b->bytes)
                ck_assert_msg(memcmp(carried_text(a), carried_text(b), a->bytes) != 0, "%s, %s", a->id, b->id);
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
    const char *says;       /* of what a person should know; NULL: nothing */
} known_as[] = {
    {"facebook/opt-1.3b", "facebook/opt-1.3b", NULL},
    {"meta-llama/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B", NULL},
    {"meta-llama/meta-llama-3.1-8b", "meta-llama/Meta-Llama-3.1-8B", NULL},
    {"META-LLAMA/llama-3.1-70b-instruct", "meta-llama/Llama-3.1-70B-Instruct", NULL},
    {"meta-llama/Meta-Llama-3.1-70B-Instruct", "meta-llama/Meta-Llama-3.1-70B-Instruct", "a sibling of equal shape"},
    {"Meta-Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B", NULL},
    {"Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B", NULL},
    {"gpt2", "openai-community/gpt2", NULL},
    {"opt-125m", "facebook/opt-125m", NULL},
    {"gg-hf/gemma-2b", "google/gemma-2b", NULL},
    {"unsloth/Llama-3.1-8B", "meta-llama/Meta-Llama-3.1-8B", "another organisation's repository of the same name"},
    {"unsloth/llama-3-8b-bnb-4bit", "unsloth/llama-3-8b-bnb-4bit", "the config.json of meta-llama/Meta-Llama-3-8B that is carried here, a sibling of equal shape"},
    {"Qwen/Qwen2.5-14B-Instruct", "Qwen/Qwen2.5-14B-Instruct", "a sibling of equal shape"},
    {"Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct-AWQ", "the same; how its own weights are packed is not in it"},
    {"Qwen3-8B", "Qwen/Qwen3-8B", "the config.json of Qwen/Qwen3-8B"},
    {"stranger/Qwen3-8B-Base-bnb-4bit", "unsloth/Qwen3-8B-Base-bnb-4bit", "another organisation"},
    {"TheBloke/Llama-2-7b-hf-GPTQ", "meta-llama/Llama-2-7b-hf", "stored otherwise"},
    {"qwen2.5 7b", "Qwen/Qwen2.5-7B", NULL},
    {"Qwen/", NULL, NULL},
    {"meta-llama/Llama-3.1-9B", NULL, NULL},
    {"Llama-3.1", NULL, NULL},
    {"meta-llama/", NULL, NULL},
    {"/Llama-3.1-8B", NULL, NULL},
    {"", NULL, NULL},
};

START_TEST(knows_other_names)
{
    struct known k = builtin_known_as(known_as[_i].asked);
    char text[KNOWN_SAY_BYTES];
    bool told;

    ck_assert_msg(!k.model == !known_as[_i].id, "%s", known_as[_i].asked);
    if (!k.model)
        return;
    ck_assert_str_eq(k.model->id, known_as[_i].id);
    told = known_say(&k, known_as[_i].asked, text);
    ck_assert_msg(!known_as[_i].says || (told && strstr(text, known_as[_i].says)), "%s", text);
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
    for (size_t i = 0; i < builtin_count(); i++)
        if (!strcmp(builtin_at(i)->model_type, types[_i]))
            return;
    ck_abort_msg("no config of type %s", types[_i]);
}
END_TEST

UNIT_TESTS("catalog/builtin",
    unit_test(there_are_enough);
    unit_test(every_config_is_sound);
    unit_test(equal_configs_are_carried_once);
    unit_rows(finds_by_id, ids);
    unit_rows(knows_other_names, known_as);
    unit_test(names_are_each_others);
    unit_rows(covers_type, types);
)
