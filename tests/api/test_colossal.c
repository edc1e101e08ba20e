/* Colossal-AI's Gemini as LLMem ran it: chunks as its search lays them out, laws, what stands beside LLMem's own figures. Peaks beside PyTorch's are in
 * tests/data/accuracy/colossal.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define V100(n) "\"cluster\":{\"gpu\":\"V100-SXM2-16GB\",\"gpus_per_node\":" #n "}"
#define ALL     "\"methods\":[\"llmem_cdp\",\"llmem_adp\",\"llmem_tp\",\"llmem_dptp\"]"

static double number_at(const struct reply *reply, const char *path)
{
    double v;

    ck_assert_msg(json_number(reply_at(reply, path), &v), "no %s in %.2000s", path, reply->r.body);
    return v;
}

static struct reply ask_one(const char *model, unsigned gpus, const char *method, unsigned batch)
{
    char body[400];
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"V100-SXM2-16GB\",\"gpus_per_node\":%u},\"training\":{\"seq_len\":512,\"micro_batch_size\":%u,"
                   "\"methods\":\"%s\"}}",
                   model, gpus, batch, method);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    return reply;
}

/* What search_chunk_configuration() of the package itself says of the first three; of the last two docs/internals/llmem.md. 6 bytes an element, and five
 * numbers of 512 bytes. `own`: an embedding that is larger than a chunk. */
static const struct {
    const char *model;
    unsigned n;
    double chunk, own;
} layouts[] = {
    {"facebook/opt-125m", 3, 44101632, 0},
    {"facebook/opt-350m", 8, 44088320, 0},
    {"bigscience/bloom-560m", 6, 50385920, 256901120},
    {"facebook/opt-1.3b", 37, 33574912, 102957056},
};

START_TEST(chunks_are_laid_out)
{
    struct reply reply = ask_one(layouts[_i].model, 1, "llmem_cdp", 1);
    double expected = 6 * (layouts[_i].n * layouts[_i].chunk + layouts[_i].own) + 5 * 512;

    ck_assert_double_eq(number_at(&reply, "candidates/0/memory/static_bytes"), expected);
    reply_done(reply);
}
END_TEST

static double peak(const char *model, unsigned gpus, const char *method, unsigned batch)
{
    struct reply reply = ask_one(model, gpus, method, batch);
    double v = number_at(&reply, "candidates/0/memory/peak_allocated_bytes");

    reply_done(reply);
    return v;
}

static const char *const models[] = {"facebook/opt-125m", "EleutherAI/gpt-neo-125m", "bigcode/gpt_bigcode-santacoder"};

START_TEST(shards_take_less_than_copies)
{
    const char *m = models[_i];

    ck_assert(peak(m, 4, "llmem_adp", 2) < peak(m, 4, "llmem_cdp", 2));
    ck_assert(peak(m, 8, "llmem_adp", 2) < peak(m, 4, "llmem_adp", 2));
    ck_assert(peak(m, 4, "llmem_tp", 1) < peak(m, 4, "llmem_cdp", 1));
    ck_assert(peak(m, 4, "llmem_dptp", 1) < peak(m, 4, "llmem_cdp", 1));
    ck_assert(peak(m, 4, "llmem_cdp", 2) < peak(m, 4, "llmem_cdp", 3));
    ck_assert_double_eq(peak(m, 4, "llmem_cdp", 2), peak(m, 1, "llmem_cdp", 2)); /* plain data parallelism: each rank as one GPU */
}
END_TEST

/* What a request is answered with, member by member. */
static const struct {
    const char *body, *path, *value;
} answers[] = {
    {"{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512," ALL "}}", "llmem/method", "llmem_adp"},
    {"{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512," ALL "}}", "recommendation/method", "llmem_adp"},
    {"{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512," ALL "}}", "recommendation/memory/basis", "replayed"},
    {"{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512," ALL "}}", "recommendation/gradient_checkpointing", "true"},
    {"{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512," ALL "}}", "resolved/stack/transformers", "4.29.2"},
    {"{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512},\"stack\":{\"framework\":\"colossalai\"}}", "method", "llmem_adp"},
    {"{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512},\"stack\":{\"framework\":\"colossalai\"}}", "candidates_total", "4"},
    {"{\"model\":\"huggyllama/llama-7b\"," V100(4) ",\"training\":{\"seq_len\":512," ALL "}}", "method", "offload"},
    {"{\"model\":\"huggyllama/llama-7b\"," V100(4) ",\"training\":{\"seq_len\":512," ALL "}}", "recommendation/fits", "false"},
    {"{\"model\":\"facebook/opt-125m\"," V100(4) ",\"training\":{\"tuning\":\"lora\",\"methods\":\"llmem_adp\"}}", "candidates/0/reason/code", "not-offered"},
    {"{\"model\":\"facebook/opt-125m\"," V100(2) ",\"training\":{\"seq_len\":512,\"methods\":\"llmem_dptp\"}}", "candidates/0/reason/code", "indivisible"},
    {"{\"model\":\"facebook/opt-125m\"," V100(4) ",\"training\":{\"methods\":\"llmem_adp\",\"micro_batch_size\":1,\"gradient_accumulation_steps\":2}}",
     "candidates/0/reason/code", "not-offered"},
    {"{\"model\":\"facebook/opt-125m\"," V100(4) ",\"training\":{\"seq_len\":512,\"methods\":[\"ddp\",\"llmem_adp\"],\"tuning\":\"full\"}}", "candidates_total", "4"},
};

START_TEST(answers_say)
{
    struct reply reply = ask(answers[_i].body);
    char text[64];

    ck_assert_msg(reply.r.status == 200 || !strcmp(answers[_i].value, "not-offered"), "%s", reply.r.body);
    if (reply.r.status != 200) { /* all that was asked contradicts itself */
        ck_assert_int_eq(reply.r.status, 422);
        reply_done(reply);
        return;
    }
    reply_value(&reply, answers[_i].path, text);
    ck_assert_msg(!strcmp(text, answers[_i].value), "%s: %s, not %s, in %.3000s", answers[_i].path, text, answers[_i].value, reply.r.body);
    reply_done(reply);
}
END_TEST

/* The nine models that LLMem compared its methods on, 4 x V100, 512 tokens: what our step time recommends, over NVLink and PCIe alike. */
static const struct {
    const char *model, *method;
} nine[] = {
    {"facebook/opt-1.3b", "llmem_adp"},        {"facebook/opt-2.7b", "llmem_adp"},      {"bigscience/bloom-1b1", "llmem_adp"},
    {"bigscience/bloom-3b", "llmem_dptp"},     {"microsoft/BioGPT-Large", "llmem_adp"}, {"Salesforce/codegen-2B-nl", "llmem_dptp"},
    {"bigcode/gpt_bigcode-santacoder", "llmem_adp"}, {"EleutherAI/gpt-neo-1.3B", "llmem_adp"}, {"huggyllama/llama-7b", "offload"},
};

START_TEST(recommends_by_time)
{
    static const char *const links[] = {"nvlink2", "pcie3"};

    for (int i = 0; i < 2; i++) {
        char body[320];
        struct reply reply;

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"V100-SXM2-16GB\",\"gpus_per_node\":4,\"intra_node\":\"%s\"},"
                       "\"training\":{\"seq_len\":512," ALL "}}",
                       nine[_i].model, links[i]);
        reply = ask(body);
        ck_assert_msg(!strcmp(reply_text(&reply, "method"), nine[_i].method), "%s: %s", nine[_i].model, reply_text(&reply, "summary"));
        reply_done(reply);
    }
}
END_TEST

/* LLMem's closed forms stay beside what is played. */
START_TEST(llmem_stays_beside)
{
    struct reply reply = ask("{\"model\":\"facebook/opt-1.3b\"," V100(4) ",\"training\":{\"seq_len\":512,\"micro_batch_size\":8," ALL "}}");

    for (int i = 0; i < 4; i++) {
        char path[64];

        (void)snprintf(path, sizeof path, "candidates/%d/llmem/peak_bytes", i);
        ck_assert(number_at(&reply, path) > 0);
        (void)snprintf(path, sizeof path, "candidates/%d/llmem/terms/cs_elems", i);
        ck_assert(number_at(&reply, path) >= 1 << 25);
    }
    reply_done(reply);
}
END_TEST

UNIT_TESTS("colossal", unit_rows(chunks_are_laid_out, layouts); unit_rows(shards_take_less_than_copies, models); unit_rows(answers_say, answers);
           tcase_set_timeout(unit_.tcase, 60); unit_rows(recommends_by_time, nine);
           unit_test(llmem_stays_beside);)
