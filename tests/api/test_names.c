/* Names as people write them, and what they are told when nothing is called so. */
#include "base/near.h"
#include "catalog/gpu_name.h"
#include "models/modeling.h"
#include "tests/support/ask.h"
#include "tests/support/carried.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *text;
    uint64_t free_bytes;
    const char *name; /* NULL: none */
    unsigned count;
    bool is_choice;
} gpus[] = {
    {"RTX 4090", 0, "RTX 4090", 0, false},
    {"4090", 0, "RTX 4090", 0, false},
    {"3090", 0, "RTX 3090", 0, false},
    {"3090 Ti", 0, "RTX 3090 Ti", 0, false},
    {"rtx3090ti", 0, "RTX 3090 Ti", 0, false},
    {"  NVIDIA GeForce RTX 4090 ", 0, "RTX 4090", 0, false},
    {"RTX 4090 24GB", 0, "RTX 4090", 0, false},
    {"RTX 4090 (24 GB)", 0, "RTX 4090", 0, false},
    {"RTX 4090 48GB", 0, NULL, 0, false},
    {"RTX 3060 12GB", 0, "RTX 3060", 0, false},
    {"RTX 4060 Ti 16GB", 0, "RTX 4060 Ti 16GB", 0, false},
    {"2x RTX 3090", 0, "RTX 3090", 2, false},
    {"2 x RTX 3090", 0, "RTX 3090", 2, false},
    {"RTX 3090 x2", 0, "RTX 3090", 2, false},
    {"8xH100", 0, "H100-80GB SXM", 8, true},
    {"a100", 0, "A100-40GB SXM", 0, true},
    {"A100", 75000000000, "A100-80GB SXM", 0, true},
    {"A100 80GB", 0, "A100-80GB SXM", 0, false},
    {"A100-80GB", 0, "A100-80GB SXM", 0, false},
    {"NVIDIA A100-SXM4-80GB", 0, "A100-80GB SXM", 0, false},
    {"A100 64G", 0, "A100-64GB SXM", 0, false},
    {"A100 48GB", 0, NULL, 0, false},
    {"Tesla V100", 0, "V100-SXM2-16GB", 0, true},
    {"Tesla V100 32GB", 0, "V100-SXM2-32GB", 0, false},
    {"T4", 0, "T4", 0, false},
    {"NVIDIA L4", 0, "L4", 0, false},
    {"AMD Instinct MI250X", 0, "MI250X (per GCD)", 0, false},
    {"7900 XTX", 0, "RX 7900 XTX", 0, false},
    {"4", 0, NULL, 0, false},
    {"x", 0, NULL, 0, false},
    {"", 0, NULL, 0, false},
    {"2x", 0, NULL, 0, false},
    {"0x A100", 0, NULL, 0, false},
    {"24GB", 0, NULL, 0, false},
    {"banana", 0, NULL, 0, false},
};

START_TEST(reads_gpus)
{
    struct gpu_reading r = gpu_read_name(gpus[_i].text, gpus[_i].free_bytes);

    ck_assert_msg(!r.gpu == !gpus[_i].name, "'%s' is %s", gpus[_i].text, r.gpu ? r.gpu->name : "none");
    if (!r.gpu)
        return;
    ck_assert_str_eq(r.gpu->name, gpus[_i].name);
    ck_assert_uint_eq(r.count, gpus[_i].count);
    ck_assert_msg(r.is_choice == gpus[_i].is_choice, "'%s': %s", gpus[_i].text, r.others);
    ck_assert(r.is_choice == (r.others[0] != 0));
    ck_assert(r.by_free_bytes == (gpus[_i].free_bytes != 0));
}
END_TEST

/* Every name and alias of the table is its own row's, or, where several boards share it, a choice that is told. */
START_TEST(every_gpu_is_found_by_its_names)
{
    for (size_t i = 0; i < gpu_count(); i++) {
        struct gpu_reading r = gpu_read_name(gpu_at(i)->name, 0);

        ck_assert_msg(r.gpu == gpu_at(i), "%s is %s", gpu_at(i)->name, r.gpu ? r.gpu->name : "none");
        for (const char *p = gpu_at(i)->aliases; p && *p; p += strcspn(p, ";") + (strchr(p, ';') != NULL)) {
            char alias[96] = "";

            memcpy(alias, p, strcspn(p, ";"));
            r = gpu_read_name(alias, 0);
            ck_assert_msg(r.gpu == gpu_at(i), "%s is %s", alias, r.gpu ? r.gpu->name : "none");
        }
    }
}
END_TEST

#define QUESTION "/estimate?model=openai-community%2Fgpt2&gpu=T4&tuning=lora&seq_len=64&micro_batch_size=1&methods=single"

static const struct {
    const char *query;
    unsigned status;
    const char *first, *detail; /* did_you_mean, or NULL; within the sentence, or NULL */
} asked[] = {
    {"/estimate?model=gpt2&gpu=RTX4091", 422, "RTX 4090", "RTX 4090, "},
    {"/estimate?model=gpt2&gpu=banana", 422, NULL, "GET /gpus"},
    {"/estimate?model=gpt2&gpu=A100%2048GB", 422, NULL, "A100-40GB SXM"},
    {"/estimate?model=gpt2&gpu=2x%20T4&gpus=4", 422, NULL, "names 2"},
    {"/estimate?model=gpt2&cluster=puti", 422, "puhti", NULL},
    {"/estimate?model=openai-community%2Fgpt2&cluster=LUMIG", 200, NULL, NULL},
    {"/estimate?model=Qwen/Qwen2.5-8B&gpu=T4", 404, "Qwen/Qwen2.5-3B", "Qwen/Qwen2.5-7B"},
    {"/estimate?model=fakebook/opt-126m&gpu=T4", 404, "facebook/opt-125m", NULL},
    {"/models/fakebook/opt-126m", 404, "facebook/opt-125m", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&methods=zeroo3", 422, "zero3", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&offload=optimzer", 422, "optimizer", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&optimizer=adamw_tirch", 422, "adamw_torch", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&precision=bfloat61", 422, "bf16", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&methods=zero3_offload&offload=none", 422, NULL, "contradicts"},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&trainning.seq_len=4", 422, "training.seq_len", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&batch_size=4", 422, "micro_batch_size", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&sequence_length=4", 422, "seq_len", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&offlod_optimizer=true", 422, "offload", NULL},
    {"/estimate?model=openai-community%2Fgpt2&gpu=T4&workload=dpo", 422, NULL, "it is a value of training.stage"},
    {QUESTION "&attention=eager", 200, NULL, NULL},
    {QUESTION "&expandable_segments=true&stack.torch=2.0.1&stack.transformers=4.40", 422, NULL, "raises"},
    {QUESTION "&expandable_segments=true&stack.torch=2.1&stack.transformers=4.40", 200, NULL, NULL},
};

START_TEST(tells_what_is_near)
{
    struct reply r = ask_get(asked[_i].query);

    ck_assert_msg((unsigned)r.r.status == asked[_i].status, "%s: %d", asked[_i].query, r.r.status);
    if (asked[_i].first)
        ck_assert_str_eq(reply_text(&r, "did_you_mean"), asked[_i].first);
    if (asked[_i].detail)
        ck_assert_msg(strstr(reply_text(&r, "detail"), asked[_i].detail) != NULL, "%s", reply_text(&r, "detail"));
    reply_done(r);
}
END_TEST

static bool says(const struct json *list, const char *text)
{
    json_each (e, list)
        if (strstr(json_str(e), text))
            return true;
    return false;
}

static const struct {
    const char *query, *where, *text; /* one of the lines there has the text */
} told[] = {
    {"/estimate?model=openai-community%2Fgpt2&gpu=a100&tuning=lora&seq_len=64&micro_batch_size=1", "warnings", "A100-40GB SXM: the name does not say which"},
    {"/estimate?model=openai-community%2Fgpt2&gpu=a100&free_memory_bytes=70GB&tuning=lora&seq_len=64&micro_batch_size=1", "assumptions",
     "A100-80GB SXM, the first with as much memory"},
    {"/estimate?model=openai-community%2Fgpt2&gpu=H100&tuning=lora&seq_len=64&micro_batch_size=1", "assumptions", "H100-80GB SXM: the name does not say which"},
    {"/estimate?model=openai-community%2Fgpt2&cluster=puhti&tuning=lora&seq_len=64&micro_batch_size=1", "warnings", "puhti is retired"},
    {"/estimate?model=openai-community%2Fgpt2&gpu=2x%20T4&methods=zero3_offload&tuning=full&seq_len=64&micro_batch_size=1", "assumptions",
     "training.offload optimizer+params"},
    {"/estimate?model=openai-community%2Fgpt2&gpu=MI300X&expandable_segments=true&tuning=lora&seq_len=64&micro_batch_size=1", "warnings",
     "ROCm reads expandable_segments since"},
};

START_TEST(tells_what_it_took)
{
    struct reply r = ask_get(told[_i].query);

    ck_assert_msg(r.r.status == 200, "%s: %s", told[_i].query, r.r.body);
    ck_assert_msg(says(json_get(r.doc, told[_i].where), told[_i].text), "%s", told[_i].query);
    reply_done(r);
}
END_TEST

static const struct {
    const char *pasted, *id;
} pasted[] = {
    {"https:%2F%2Fhuggingface.co%2Fopenai-community%2Fgpt2", "openai-community/gpt2"},
    {"https:%2F%2Fhuggingface.co%2Fopenai-community%2Fgpt2%2Ftree%2Fmain%2Fonnx", "openai-community/gpt2"},
    {"huggingface.co%2Fopenai-community%2Fgpt2%2Fblob%2Fmain%2Fconfig.json", "openai-community/gpt2"},
    {"hf.co%2Fopenai-community%2Fgpt2%3Flibrary=transformers", "openai-community/gpt2"},
    {"%20openai-community%2Fgpt2%20", "openai-community/gpt2"},
    {"openai-community%2Fgpt2%2F", "openai-community/gpt2"},
    {"facebook%2Fopt-125m", "facebook/opt-125m"},
};

START_TEST(reads_pasted_models)
{
    char query[300];
    struct reply r;

    (void)snprintf(query, sizeof query, "/estimate?gpu=T4&tuning=lora&seq_len=64&micro_batch_size=1&methods=single&model=%s", pasted[_i].pasted);
    r = ask_get(query);
    ck_assert_msg(r.r.status == 200, "%s: %s", pasted[_i].pasted, r.r.body);
    ck_assert_str_eq(json_str(json_get(json_get(r.doc, "model"), "id")), pasted[_i].id);
    reply_done(r);
}
END_TEST

/* The distance is one: it is symmetric, 0 of equals alone, and no detour is shorter. */
START_TEST(distance_is_a_distance)
{
    static const char *const words[] = {"", "a", "ab", "ba", "abc", "acb", "zero3", "zeroo3", "zreo3", "A100", "a10", "kitten", "sitting", "meta-llama/Llama-3-8B",
                                        "llama/Meta-Llama-8B-3"};
    enum { N = sizeof words / sizeof *words };

    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            unsigned d = near_distance(words[i], strlen(words[i]), words[k], strlen(words[k]), 50);

            ck_assert_uint_eq(d, near_distance(words[k], strlen(words[k]), words[i], strlen(words[i]), 50));
            ck_assert((d == 0) == (i == k));
            for (int m = 0; m < N; m++)
                ck_assert(d <= near_distance(words[i], strlen(words[i]), words[m], strlen(words[m]), 50) +
                                   near_distance(words[m], strlen(words[m]), words[k], strlen(words[k]), 50) + (strlen(words[m]) > 1));
            for (unsigned most = 0; most < 9; most++) /* a narrow look is the same as a wide one */
                ck_assert_uint_eq(near_distance(words[i], strlen(words[i]), words[k], strlen(words[k]), most), d > most ? most + 1 : d);
        }
    ck_assert_uint_eq(near_distance("kitten", 6, "sitting", 7, 50), 3);
    ck_assert_uint_eq(near_distance("zreo3", 5, "zero3", 5, 50), 1);
    ck_assert_uint_eq(near_distance("kitten", 6, "sitting", 7, 1), 2);
}
END_TEST

/* What a list chooses is what stands in its rows, and one by its name is the row of the list. */
static const struct {
    const char *path, *key, *member, *value; /* every row's member has the value */
    size_t n;
} lists[] = {
    {"/gpus?vendor=amd", "gpus", "vendor", "AMD", 10},
    {"/gpus?arch=Ada&memory_gb_marketing=24", "gpus", "arch", "Ada", 2},
    {"/gpus?aliases=g5", "gpus", "name", "A10G", 1},
    {"/gpus?q=4090", "gpus", "name", "RTX 4090", 1},
    {"/gpus?vendor=nobody", "gpus", "vendor", "", 0},
    {"/clusters?site=csc%20finland", "clusters", "site", "CSC Finland", 4},
    {"/clusters?aliases=lumi", "clusters", "name", "lumi-g", 1},
    {"/models?config_of=Qwen/Qwen3-4B&config=same&q=unsloth/Qwen3-4B-unsloth", "models", "model_type", "qwen3", 1},
    {"/models?model_type=qwen3&limit=7", "models", "model_type", "qwen3", 7},
    {"/models?q=Qwen3-4B&limit=1&offset=1000", "models", "model_type", "", 0},
};

START_TEST(lists_choose)
{
    struct reply r = ask_get(lists[_i].path);
    size_t n = 0;

    ck_assert_msg(r.r.status == 200, "%s: %s", lists[_i].path, r.r.body);
    json_each (row, json_get(r.doc, lists[_i].key)) {
        n++;
        ck_assert_str_eq(json_str(json_get(row, lists[_i].member)), lists[_i].value);
    }
    ck_assert_uint_eq(n, lists[_i].n);
    reply_done(r);
}
END_TEST

/* What the list says of parameters and of a step is what the program of the type declares; a classifier's class has another head than the program. */
START_TEST(counts_are_the_inventorys)
{
    for (size_t i = 0; i < carried_count(); i++) {
        const struct builtin *b = carried_at(i);
        char path[160];
        struct reply r;
        uint64_t n = 0;
        bool modelled = false;

        if (strstr(carried_text(b), "ForSequenceClassification"))
            continue;
        (void)snprintf(path, sizeof path, "/models/%s", b->id);
        r = ask_get(path);
        ck_assert_msg(r.r.status == 200 && json_uint64(json_get(r.doc, "parameters"), &n), "%s: %s", b->id, r.r.body);
        ck_assert_msg(json_bool(json_get(r.doc, "modelled"), &modelled) && modelled == program_has_step(b->model_type), "%s: %s", b->id, b->model_type);
        ck_assert_msg(!b->parameters || n == b->parameters, "%s has %llu parameters, its row says %llu", b->id, (unsigned long long)n, (unsigned long long)b->parameters);
        reply_done(r);
    }
}
END_TEST

START_TEST(one_is_the_row_of_the_list)
{
    struct reply all = ask_get("/gpus"), one = ask_get("/gpus/h100 sxm"), none = ask_get("/models/Qwen/Qwen3-30B-A3B");

    ck_assert(all.r.status == 200 && one.r.status == 200);
    ck_assert_str_eq(reply_text(&one, "name"), "H100-80GB SXM");
    ck_assert(memmem(all.r.body, all.r.bytes, one.r.body, one.r.bytes - 1) != NULL);
    ck_assert_msg(none.r.status == 200 && json_get(none.doc, "parameters"), "%s", none.r.body); /* no program, and a count all the same */
    reply_done(all);
    reply_done(one);
    reply_done(none);
}
END_TEST

UNIT_TESTS("api/names",
    unit_rows(reads_gpus, gpus);
    unit_test(every_gpu_is_found_by_its_names);
    unit_rows(tells_what_is_near, asked);
    unit_rows(tells_what_it_took, told);
    unit_rows(reads_pasted_models, pasted);
    unit_rows(lists_choose, lists);
    unit_test(one_is_the_row_of_the_list);
    unit_test(counts_are_the_inventorys);
    unit_test(distance_is_a_distance);
)
