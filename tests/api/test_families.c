/*
 * What is modelled of each model type: families.def and docs/families.md say what is answered about a small model of each (tests/data/families.jsonl).
 * FAMILIES_DEF=api/words/families.def FAMILIES_FILE=docs/families.md CK_DEFAULT_TIMEOUT=600 writes both anew (make docs).
 */
#include "api/words/families.h"
#include "base/buf.h"
#include "catalog/builtin.h"
#include "models/modeling.h"
#include "models/program.h"
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TYPES_MAX = 160, LINE_MAX_BYTES = 1 << 18, PARTS = 16 };
static const char parts[PARTS]; /* a run each, of every 16th type */

static const char *const releases[] = {"4.40", "4.45", "4.48", "4.53", "4.57", "5.0", "5.10", "5.18", "5.23"};
enum { N_RELEASES = sizeof releases / sizeof *releases, NEWEST = N_RELEASES - 1 };

/* --- a small model of each type --------------------------------------------------------------------------------------------------------- */

static struct sample {
    char type[64], *config, stage[32];
    unsigned traced;
} samples[TYPES_MAX];
static size_t n_samples;

static struct json *parsed(const char *text)
{
    struct json *doc = NULL;
    struct err err = {0};

    ck_assert_msg(!json_parse(text, strlen(text), &json_limits_config, &doc, &err), "%s: %.200s", err.detail,
                  text);
    return doc;
}

static void text_of(const struct json *doc, const char *key, char *to, size_t room)
{
    const char *text = json_str(json_get(doc, key));

    (void)snprintf(to, room, "%s", text ? text : "");
}

/* The object behind "config": as it is written. */
static char *config_text(const char *line)
{
    const char *from = strstr(line, "\"config\":"), *p;
    int depth = 0;

    ck_assert_ptr_nonnull(from);
    from += strlen("\"config\":");
    for (p = from; *p; p++) {
        depth += (*p == '{') - (*p == '}');
        if (!depth)
            break;
    }
    return strndup(from, (size_t)(p - from) + 1);
}

static void read_samples(void)
{
    static char line[LINE_MAX_BYTES];
    FILE *f = fopen("tests/data/families.jsonl", "r");

    ck_assert_ptr_nonnull(f);
    while (fgets(line, sizeof line, f)) {
        struct json *doc = parsed(line);
        struct sample *s = &samples[n_samples++];

        ck_assert_uint_le(n_samples, TYPES_MAX);
        text_of(json_get(doc, "config"), "model_type", s->type, sizeof s->type);
        text_of(doc, "stage", s->stage, sizeof s->stage);
        s->config = config_text(line);
        json_free(doc);
    }
    (void)fclose(f);
}

static struct sample *sample_of(const char *type)
{
    for (size_t i = 0; i < n_samples; i++)
        if (!strcmp(samples[i].type, type))
            return &samples[i];
    return NULL;
}

/* --- steps of real PyTorch of each type --------------------------------------------------------------------------------------------------- */

static void count_traced(const char *line)
{
    struct json *doc = parsed(line), *body;
    const char *text = json_str(json_get(doc, "body")), *type, *id;
    const struct builtin *b = NULL;
    struct sample *s;

    if (text && json_get(doc, "peak_allocated_bytes")) {
        body = parsed(text);
        type = json_str(json_get(json_get(body, "config"), "model_type"));
        id = json_str(json_get(body, "model"));
        b = !type && id ? builtin_find(id) : NULL;
        s = sample_of(program_type(type ? type : b ? b->model_type : ""));
        if (s)
            s->traced++;
        json_free(body);
    }
    json_free(doc);
}

static void read_traced(void)
{
    static char line[LINE_MAX_BYTES];
    glob_t files;

    ck_assert_int_eq(glob("tests/data/accuracy/*.jsonl", 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        FILE *f = fopen(files.gl_pathv[i], "r");

        ck_assert_ptr_nonnull(f);
        while (!strstr(files.gl_pathv[i], "published") && fgets(line, sizeof line, f))
            if (strstr(line, "\"peak_allocated_bytes\""))
                count_traced(line);
        (void)fclose(f);
    }
    globfree(&files);
}

/* --- what is answered ------------------------------------------------------------------------------------------------------------------- */

static bool answers(const struct sample *s, const char *rest, const char *figure)
{
    char body[8192];
    struct reply reply;
    double value;
    bool is;

    (void)snprintf(body, sizeof body, "{\"config\":%s,%s}", s->config, rest);
    reply = ask(body);
    is = json_number(reply_at(&reply, figure), &value) && value > 0;
    reply_done(reply);
    return is;
}

static bool trains(const struct sample *s, const char *method, unsigned gpus, const char *of, const char *figure)
{
    char rest[512], stage[48] = "";

    if (s->stage[0])
        (void)snprintf(stage, sizeof stage, ",\"stage\":\"%s\"", s->stage);
    (void)snprintf(rest, sizeof rest, "\"cluster\":{\"gpu\":\"H200\",\"gpus_per_node\":%u},\"training\":{\"methods\":\"%s\",\"tuning\":\"full\",\"precision\":\"bf16\","
                                      "\"gradient_checkpointing\":false,\"micro_batch_size\":2,\"seq_len\":64%s},\"stack\":{\"transformers\":\"%s\"}", gpus, method, stage, of);
    return answers(s, rest, figure);
}

#define PEAK "candidates/0/memory/peak_allocated_bytes"

static unsigned models_of(const struct sample *s)
{
    unsigned is = 0;

    if (!trains(s, "single", 1, releases[NEWEST], PEAK))
        return 0;
    is |= FAMILY_MEMORY;
    if (trains(s, "single", 1, releases[NEWEST], "candidates/0/throughput/step_s"))
        is |= FAMILY_TIME;
    if (trains(s, "tp", 2, releases[NEWEST], PEAK))
        is |= FAMILY_TENSOR;
    if (trains(s, "pp", 2, releases[NEWEST], PEAK))
        is |= FAMILY_PIPELINE;
    if (answers(s, "\"workload\":\"inference\",\"cluster\":{\"gpu\":\"H200\"},\"inference\":{\"weights\":\"bf16\"}", PEAK))
        is |= FAMILY_INFERENCE;
    return is;
}

/* What a pipeline of a decoder is refused for. */
static void no_stages_of(const struct sample *s, unsigned models, char to[240])
{
    char body[8192];
    const char *why;
    struct reply reply;

    to[0] = 0;
    if (!(models & FAMILY_MEMORY) || models & FAMILY_PIPELINE || s->stage[0])
        return;
    (void)snprintf(body, sizeof body,
                   "{\"config\":%s,\"cluster\":{\"gpu\":\"H200\",\"gpus_per_node\":2},\"training\":{\"methods\":\"pp\",\"tuning\":\"full\",\"precision\":\"bf16\","
                   "\"micro_batch_size\":2,\"seq_len\":64},\"stack\":{\"transformers\":\"%s\"}}",
                   s->config, releases[NEWEST]);
    reply = ask(body);
    why = json_str(reply_at(&reply, "candidates/0/reason/detail"));
    (void)snprintf(to, 240, "%s", why ? why : "");
    reply_done(reply);
}

static unsigned releases_of_type(const struct sample *s)
{
    unsigned bits = 0;

    for (unsigned r = 0; r < N_RELEASES; r++)
        if (trains(s, "single", 1, releases[r], PEAK))
            bits |= 1u << r;
    return bits;
}

/* --- the table and the page ---------------------------------------------------------------------------------------------------------------- */

static char def[1 << 16], page[1 << 16];

static void append(char *to, size_t room, const char *text)
{
    ck_assert_uint_lt(strlen(to) + strlen(text), room);
    strcat(to, text);
}

static const struct aspect {
    unsigned bit;
    const char *name;
} aspects[] = {{FAMILY_MEMORY, "MEMORY"}, {FAMILY_TIME, "TIME"}, {FAMILY_TENSOR, "TENSOR"}, {FAMILY_PIPELINE, "PIPELINE"}, {FAMILY_INFERENCE, "INFERENCE"}};
enum { N_ASPECTS = sizeof aspects / sizeof *aspects };

static void names_of(unsigned models, char to[80])
{
    to[0] = 0;
    for (unsigned i = 0; i < N_ASPECTS; i++)
        if (models & aspects[i].bit) {
            strcat(to, to[0] ? " | " : "");
            strcat(to, aspects[i].name);
        }
    if (!to[0])
        strcpy(to, "0");
}

static void releases_of(unsigned bits, char to[80])
{
    to[0] = 0;
    for (unsigned i = 0; i < N_RELEASES; i++)
        if (bits >> i & 1) {
            strcat(to, to[0] ? " " : "");
            strcat(to, releases[i]);
        }
}

static bool is_among(const char *which, const char *one)
{
    size_t n = strlen(one);

    for (const char *p = strstr(which, one); p; p = strstr(p + 1, one))
        if ((p == which || p[-1] == ' ') && (!p[n] || p[n] == ' '))
            return true;
    return false;
}

static void write_row(const struct family_row *f)
{
    char models[80], line[600];

    names_of(f->models, models);
    (void)snprintf(line, sizeof line, "FAMILY(\"%s\", %s, \"%s\", %u, \"%s\")\n", f->model_type, models, f->releases, f->traced, f->no_stages);
    append(def, sizeof def, line);
    (void)snprintf(line, sizeof line, "| `%s`", f->model_type);
    append(page, sizeof page, line);
    for (unsigned a = 0; a < N_ASPECTS; a++)
        append(page, sizeof page, f->models & aspects[a].bit ? " | yes" : " | ");
    for (unsigned r = 0; r < N_RELEASES; r++)
        append(page, sizeof page, is_among(f->releases, releases[r]) ? " | yes" : " | ");
    (void)snprintf(line, sizeof line, " | %u |\n", f->traced);
    append(page, sizeof page, line);
}

static void write_both(const struct family_row *rows, size_t n)
{
    append(def, sizeof def, "/* families.def - FAMILY(model type, what is modelled, releases of transformers that answer, traced steps, why a pipeline has no stages of it). Written by make docs. */\n");
    append(page, sizeof page,
        "# Model types\n\nWritten by `make docs`: what is answered about a small model of each type (tests/data/families.jsonl); a test asks again. "
        "`GET /models` lists the same as `types`.\n\n"
        "**memory, time**: a training step on one GPU. **TP, PP**: tensor and pipeline parallelism (data parallelism, ZeRO and FSDP take every type that has a step). "
        "**inference**: generation.\nThen releases of transformers in which a step is answered; those between them are too, where the code is the same. **traced**: steps of "
        "real PyTorch in tests/data/accuracy that are compared\nwith ours at each `make accuracy`. A type without `memory` has its parameters and buffers, and no step. "
        "Any other type is read from an installed transformers or the\nhub's files, or answered by a generic decoder as a range.\n\n| type | memory | time | TP | PP | inference");
    for (unsigned r = 0; r < N_RELEASES; r++) {
        append(page, sizeof page, " | ");
        append(page, sizeof page, releases[r]);
    }
    append(page, sizeof page, " | traced |\n|---|");
    for (unsigned i = 0; i < N_ASPECTS + N_RELEASES + 1; i++)
        append(page, sizeof page, "---|");
    append(page, sizeof page, "\n");
    for (size_t i = 0; i < n; i++)
        write_row(&rows[i]);
    append(page, sizeof page, "\n## Language models that are not cut into stages of a pipeline\n\n");
    for (size_t i = 0; i < n; i++) {
        const char *why = strstr(rows[i].no_stages, ": ");
        char line[400];

        (void)snprintf(line, sizeof line, "- `%s`%s\n", rows[i].model_type, why ? why : "");
        if (rows[i].no_stages[0])
            append(page, sizeof page, line);
    }
}

static void put(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_int_ge(fputs(text, f), 0);
    (void)fclose(f);
}

/* make docs: FAMILIES_DEF, FAMILIES_FILE */
START_TEST(are_written_where_asked)
{
    static struct family_row rows[TYPES_MAX];
    static char which[TYPES_MAX][80], why[TYPES_MAX][240];

    if (!getenv("FAMILIES_DEF"))
        return;
    read_samples();
    read_traced();
    for (size_t i = 0; i < n_samples; i++) {
        unsigned models = models_of(&samples[i]);

        releases_of(releases_of_type(&samples[i]), which[i]);
        no_stages_of(&samples[i], models, why[i]);
        rows[i] = (struct family_row){samples[i].type, models, which[i], samples[i].traced, why[i]};
    }
    write_both(rows, n_samples);
    put(getenv("FAMILIES_DEF"), def);
    put(getenv("FAMILIES_FILE"), page);
}
END_TEST

static const struct family_row *row_of(const char *type)
{
    for (size_t i = 0; i < n_families; i++)
        if (!strcmp(families[i].model_type, type))
            return &families[i];
    ck_abort_msg("%s has no row: make docs", type);
}

START_TEST(are_answered_as_rows_say)
{
    char models[80], said[80], which[80], why[240];

    read_samples();
    for (size_t i = (size_t)_i; i < n_samples; i += PARTS) {
        const struct sample *s = &samples[i];
        const struct family_row *row = row_of(s->type);

        names_of(models_of(s), models);
        names_of(row->models, said);
        releases_of(releases_of_type(s), which);
        no_stages_of(s, row->models, why);
        ck_assert_msg(!strcmp(why, row->no_stages), "%s: no pipeline for '%s'; families.def says '%s': make docs", s->type, why, row->no_stages);
        ck_assert_msg(!strcmp(models, said) && !strcmp(which, row->releases), "%s: %s in %s; families.def says %s in %s: make docs", s->type, models, which,
                      said, row->releases);
    }
}
END_TEST

START_TEST(count_what_is_traced)
{
    read_samples();
    read_traced();
    for (size_t i = 0; i < n_samples; i++)
        ck_assert_msg(samples[i].traced == row_of(samples[i].type)->traced, "%s: %u traced steps, families.def says %u: make docs", samples[i].type,
                      samples[i].traced, row_of(samples[i].type)->traced);
}
END_TEST

START_TEST(are_the_page)
{
    static char there[1 << 16];
    FILE *f = fopen("docs/families.md", "r");

    ck_assert_ptr_nonnull(f);
    there[fread(there, 1, sizeof there - 1, f)] = 0;
    (void)fclose(f);
    write_both(families, n_families);
    ck_assert_msg(!strcmp(there, page), "docs/families.md is not what families.def says: make docs");
}
END_TEST

/* A family's file is named as its type, with _ for -. */
START_TEST(have_a_row_for_each_program)
{
    static const char within[] = "transformers.models.";

    for (size_t i = 0; i < n_program_files; i++) {
        const char *name = program_files[i].name, *file = name + sizeof within - 1;
        bool has = false;

        if (strncmp(name, within, sizeof within - 1) || !strstr(program_files[i].path, "families/") || !strcmp(file, "generic"))
            continue;
        for (size_t k = 0; k < n_families; k++) {
            char type[64];

            (void)snprintf(type, sizeof type, "%s", families[k].model_type);
            for (char *p = type; *p; p++)
                *p = *p == '-' ? '_' : *p;
            has |= !strcmp(file, type);
        }
        ck_assert_msg(has, "%s: a small config in tests/data/families.jsonl, then make docs", file);
    }
}
END_TEST

START_TEST(are_listed)
{
    struct reply reply = ask_get("/models?limit=1"), one = ask_get("/models?model_type=gpt-oss&limit=0");
    char value[64];

    ck_assert_uint_eq(json_count(reply_at(&reply, "types")), n_families);
    for (size_t i = 0; i < n_families; i++) {
        char path[64];

        (void)snprintf(path, sizeof path, "types/%zu/model_type", i);
        reply_value(&reply, path, value);
        ck_assert_str_eq(value, families[i].model_type);
    }
    ck_assert_uint_eq(json_count(reply_at(&one, "types")), 1);
    reply_value(&one, "types/0/memory", value);
    ck_assert_str_eq(value, "true");
    reply_done(one);
    reply_done(reply);
}
END_TEST

/* Before transformers 5 an expert is a module with three linears: Qwen3-235B's 36,096 experts, and DeepSeek-V3's layers, of which the first three have none, have room;
 * a run that has none is a candidate's reason, no failure. */
START_TEST(experts_that_are_modules_have_room)
{
    static const char *const asked[] = {"\"model\":\"Qwen/Qwen3-235B-A22B\"", "\"config\":{\"model_type\":\"deepseek_v3\",\"architectures\":[\"DeepseekV3ForCausalLM\"]}"};
    char body[512];
    double v = 0;

    for (size_t i = 0; i < 2; i++) {
        struct reply reply;

        (void)snprintf(body, sizeof body,
                       "{%s,\"cluster\":{\"gpu\":\"H200\",\"gpus_per_node\":8,\"nodes\":16},\"stack\":{\"transformers\":\"4.57\"},\"training\":{\"methods\":\"fsdp\","
                       "\"tuning\":\"full\",\"seq_len\":512,\"micro_batch_size\":1,\"gradient_checkpointing\":true}}",
                       asked[i]);
        reply = ask(body);
        ck_assert_msg(reply.r.status == 200, "%s: %.300s", asked[i], reply.r.body);
        ck_assert_msg(i || json_number(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &v), "%.600s", reply.r.body);
        reply_done(reply);
    }
}
END_TEST

/* What a class raises on has no figures, the releases on either side have: Gemma 3 of text alone in training, a rotation that reads a head_dim which a
 * config leaves null. */
#define GEMMA3 "\"model\":\"google/gemma-3-4b-it\""
#define UNREAD(type, kind)                                                                                                                        \
    "\"config\":{\"model_type\":\"" type "\",\"hidden_size\":128,\"intermediate_size\":256,\"num_hidden_layers\":2,\"vocab_size\":1000,"               \
    "\"num_attention_heads\":8,\"rope_scaling\":{\"rope_type\":\"" kind "\",\"factor\":2.0}}"
static const struct {
    const char *model, *transformers, *raises; /* NULL: it does not */
} raising[] = {
    {GEMMA3, "4.53", NULL}, {GEMMA3, "4.57", NULL}, {GEMMA3, "5.0", "token_type_ids"}, {GEMMA3, "5.5", "token_type_ids"}, {GEMMA3, "5.6", NULL},
    {UNREAD("mistral", "yarn"), "4.51", NULL}, {UNREAD("mistral", "yarn"), "4.53", "head_dim"}, {UNREAD("mistral", "yarn"), "5.0", NULL},
    {UNREAD("mixtral", "dynamic"), "4.51", NULL}, {UNREAD("mixtral", "dynamic"), "4.53", "head_dim"}, {UNREAD("mixtral", "dynamic"), "5.23", "head_dim"},
    {UNREAD("mixtral", "linear"), "5.23", NULL}, {UNREAD("hunyuan_v1_dense", "yarn"), "5.23", "head_dim"}, {UNREAD("phimoe", "default"), "5.23", NULL},
};

START_TEST(what_a_release_raises_on_is_said)
{
    const char *raises = raising[_i].raises, *why;
    struct reply reply;
    char body[600];

    (void)snprintf(body, sizeof body, "{%s,\"cluster\":{\"gpu\":\"A100-80GB\"},\"stack\":{\"transformers\":\"%s\"},"
                   "\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"micro_batch_size\":1,\"seq_len\":128}}", raising[_i].model, raising[_i].transformers);
    reply = ask(body);
    ck_assert_msg(!strstr(reply.r.body, "\"peak_allocated_bytes\"") == !!raises, "%s: %.300s", body, reply.r.body);
    why = json_str(reply_at(&reply, "candidates/0/reason/detail"));
    ck_assert_msg(!raises || (why && strstr(why, raises)), "%s: %s", body, why);
    reply_done(reply);
}
END_TEST

/* A forward that asks the model's dtype of its first parameter, which fully_shard has not gathered: embeddings are a unit of their own. */
START_TEST(a_sharded_parameter_has_a_dtype)
{
    struct reply reply = ask("{\"config\":{\"model_type\":\"qwen\",\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"intermediate_size\":512,"
                             "\"vocab_size\":1000,\"seq_length\":512,\"kv_channels\":64},\"cluster\":{\"gpu\":\"RTX 3090\",\"gpus_per_node\":4},"
                             "\"training\":{\"methods\":\"fsdp2\",\"tuning\":\"full\",\"micro_batch_size\":1,\"seq_len\":128}}");

    ck_assert_msg(strstr(reply.r.body, "\"peak_allocated_bytes\"") != NULL, "%.600s", reply.r.body);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("families", unit_test(are_written_where_asked); unit_rows(are_answered_as_rows_say, parts); unit_test(count_what_is_traced); unit_test(are_the_page); unit_test(have_a_row_for_each_program); unit_test(are_listed); unit_test(experts_that_are_modules_have_room); unit_rows(what_a_release_raises_on_is_said, raising); unit_test(a_sharded_parameter_has_a_dtype);)
