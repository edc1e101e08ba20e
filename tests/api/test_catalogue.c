/* Every model that is carried is answered, or refused by a name: none raises, and each is as large as its name says. */
#include "base/json.h"
#include "catalog/builtin.h"
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 16 };
static const char parts[PARTS]; /* a run each, of every 16th model */

/* No step of these is modelled: what is said instead. A type that is built loses its row. */
static const struct {
    const char *type, *says;
} unmodelled[] = {
    {"deepseek_v32", "are known"},    {"deepseek_v4", "are known"},     {"deepseek_vl_v2", "language_config"},
    {"glm_moe_dsa", "are known"},     {"internvl_chat", "llm_config"},  {"kimi_k25", "are known"},
    {"kimi_k3", "text_config"},       {"mimo_v2_flash", "are known"},   {"minimax_m3_vl", "text_config"},
    {"mllama", "are known"},          {"qwen3_omni_moe", "no program"}, {"rwkv", "are known"},
    {"rwkv5", "num_attention_heads"}, {"step3p7", "are known"},
};

/* What a checkpoint of a known type says of itself. */
static const struct {
    const char *id, *says;
} unlike[] = {
    {"Alibaba-NLP/gte-Qwen2-7B-instruct", "is_causal"},
    {"THUDM/chatglm-6b", "no program"}, /* its files give no class to AutoModelForCausalLM */
};

static const char *what_is_said_of(const struct builtin *b)
{
    for (size_t i = 0; i < sizeof unmodelled / sizeof *unmodelled; i++)
        if (!strcmp(unmodelled[i].type, b->model_type))
            return unmodelled[i].says;
    for (size_t i = 0; i < sizeof unlike / sizeof *unlike; i++)
        if (!strcmp(unlike[i].id, b->id))
            return unlike[i].says;
    return NULL;
}

/* The billions of "Qwen2.5-0.5B-Instruct"; 0: it says none, or those of a part ("8x7B", "A3B", "E4B"). */
static double billions_of_name(const char *id)
{
    for (const char *p = strchr(id, '/'); p && *p; p++) {
        char *end;
        double n;

        if ((*p != '-' && *p != '/') || !isdigit((unsigned char)p[1]))
            continue;
        n = strtod(p + 1, &end);
        if (!isalnum((unsigned char)*end) || isalnum((unsigned char)end[1]))
            continue;
        if (tolower((unsigned char)*end) == 'b')
            return n;
        if (tolower((unsigned char)*end) == 'm')
            return n / 1000;
    }
    return 0;
}

/* Names that round far, or count the active ones. */
static const char *const rounded[] = {"Falcon3-1B", "Llama-4-"};

static bool name_counts(const char *id)
{
    for (size_t i = 0; i < sizeof rounded / sizeof *rounded; i++)
        if (strstr(id, rounded[i]))
            return false;
    return billions_of_name(id) > 0;
}

/* Quantised checkpoints by packages that training does not load: the reason says so. */
static bool is_of_a_quantised_checkpoint(const char *detail)
{
    return detail && strstr(detail, "quantization_config");
}

static void check(const struct builtin *b)
{
    char body[512];
    const char *says = what_is_said_of(b), *code, *detail;
    double parameters, of_name = billions_of_name(b->id) * 1e9;
    struct reply reply;

    (void)snprintf(
        body, sizeof body,
        "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"H200\"},\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"precision\":\"bf16\",\"micro_batch_size\":1,"
        "\"seq_len\":32,\"gradient_checkpointing\":false}}",
        b->id);
    reply = ask(body);
    code = json_str(reply_at(&reply, "candidates/0/reason/code"));
    detail = json_str(reply_at(&reply, reply.r.status == 200 ? "candidates/0/reason/detail" : "detail"));
    if (says) {
        ck_assert_msg(strstr(reply.r.body, says) != NULL, "%s: \"%s\" is not said: %.300s", b->id, says, reply.r.body);
    } else if (!is_of_a_quantised_checkpoint(detail)) {
        ck_assert_msg(reply.r.status == 200 && (!code || !strcmp(code, "does-not-fit")), "%s: %s: %s", b->id, code ? code : "",
                      detail ? detail : reply.r.body);
        ck_assert(json_number(reply_at(&reply, "model/parameters"), &parameters));
        ck_assert_msg(!name_counts(b->id) || (parameters > 0.75 * of_name && parameters < 1.4 * of_name), "%s has %.0f parameters", b->id,
                      parameters);
    }
    reply_done(reply);
}

START_TEST(what_is_carried_is_answered)
{
    for (size_t i = (size_t)_i; i < builtin_count(); i += PARTS)
        if (!builtin_at(i)->of)
            check(builtin_at(i));
}
END_TEST

/* save_pretrained() writes other keys than the hub's file has (rope_parameters, dtype, gemma4's per_layer_config): the model is the same. */
START_TEST(a_saved_config_is_the_model_it_was_made_of)
{
    static const char question[] = "\"cluster\":{\"gpu\":\"H200\"},\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"precision\":\"bf16\",\"micro_batch_size\":1,"
                                   "\"seq_len\":32,\"gradient_checkpointing\":false}}";
    static const char *const figures[] = {"model/parameters", "candidates/0/memory/peak_allocated_bytes", "candidates/0/memory/static_bytes"};
    FILE *f = fopen("tests/data/saved.jsonl", "r");
    static char line[16 << 10], body[sizeof line + 512];
    unsigned same = 0;

    ck_assert(f);
    while (fgets(line, sizeof line, f)) {
        const char *config = strstr(line, "\"config\": ");
        int of_model = (int)(config - line) - 2; /* without the comma behind it */
        struct reply hub, saved;
        double a, b;

        line[strcspn(line, "\n")] = '\0';
        (void)snprintf(body, sizeof body, "%.*s,%s", of_model, line, question);
        hub = ask(body);
        (void)snprintf(body, sizeof body, "{%.*s,%s", (int)strlen(config) - 1, config, question);
        saved = ask(body);
        for (size_t i = 0; i < sizeof figures / sizeof *figures && reply_at(&hub, figures[1]); i++, same++) {
            ck_assert(json_number(reply_at(&hub, figures[i]), &a));
            ck_assert_msg(json_number(reply_at(&saved, figures[i]), &b) && a == b, "%.*s, %s: %.600s", of_model, line, figures[i], saved.r.body);
        }
        reply_done(hub);
        reply_done(saved);
    }
    ck_assert_uint_gt(same, 150);
    fclose(f);
}
END_TEST

/* Layers that attend to all, as large as the others: save_pretrained() writes that nothing differs. */
START_TEST(a_saved_config_whose_layers_are_alike)
{
#define GEMMA4(sizes)                                                                                                                             \
    "{\"config\":{\"model_type\":\"gemma4_text\",\"hidden_size\":64,\"num_hidden_layers\":6,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":64," \
    "\"intermediate_size\":128,\"vocab_size\":1000,\"vocab_size_per_layer_input\":1000," sizes "},\"cluster\":{\"gpu\":\"H200\"},\"training\":{" \
    "\"methods\":\"single\",\"tuning\":\"full\",\"micro_batch_size\":1,\"seq_len\":32}}"
    struct reply hub = ask(GEMMA4("\"global_head_dim\":64")), saved = ask(GEMMA4("\"per_layer_config\":{}")), wider = ask(GEMMA4("\"global_head_dim\":512"));
    struct reply others = ask(GEMMA4("\"per_layer_config\":{\"3\":{\"head_dim\":128}}"));
    double a, b, c;

    ck_assert(json_number(reply_at(&hub, "model/parameters"), &a) && json_number(reply_at(&wider, "model/parameters"), &c));
    ck_assert_msg(json_number(reply_at(&saved, "model/parameters"), &b) && a == b && b < c, "%s", saved.r.body);
    ck_assert_int_eq(others.r.status, 422);
    reply_done(hub);
    reply_done(saved);
    reply_done(wider);
    reply_done(others);
}
END_TEST

static void check_sketch(const struct builtin *b)
{
    char body[768];
    const char *code;
    struct reply reply;

    (void)snprintf(
        body, sizeof body,
        "{\"model\":\"%s\",\"config\":{\"model_type\":\"tomorrow\",\"architectures\":[\"TomorrowForCausalLM\"],\"auto_map\":null,\"quantization_config\":null},"
        "\"cluster\":{\"gpu\":\"H200\"},\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"precision\":\"bf16\",\"micro_batch_size\":1,\"seq_len\":32,"
        "\"gradient_checkpointing\":false}}",
        b->id);
    reply = ask(body);
    code = json_str(reply_at(&reply, "candidates/0/reason/code"));
    ck_assert_msg(reply.r.status == 422 ? strstr(reply.r.body, "\"pointer\":") != NULL
                                        : reply.r.status == 200 && (!code || strcmp(code, "modeling-raised")),
                  "%s: %.400s", b->id, reply.r.body);
    reply_done(reply);
}

/* A type that nobody knows has a decoder's keys or a refusal that names one: no config that is carried makes the sketch raise. */
START_TEST(a_sketch_of_what_is_carried_never_raises)
{
    for (size_t i = (size_t)_i; i < builtin_count(); i += PARTS) {
        const struct builtin *b = builtin_at(i);

        if (!b->of)
            check_sketch(b);
    }
}
END_TEST

UNIT_TESTS("api/catalogue", unit_rows(what_is_carried_is_answered, parts); unit_rows(a_sketch_of_what_is_carried_never_raises, parts);
           unit_test(a_saved_config_is_the_model_it_was_made_of); unit_test(a_saved_config_whose_layers_are_alike);)
