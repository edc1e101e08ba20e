/*
 * Whatever is said to fit fits on the card: its figures are within capacity x (1 - margin), of requests as people send them first and of some that squeeze.
 * tests/data/defaults.jsonl: 5 models x 4 GPUs x 1 or 2 nodes x full and LoRA; there is no truth, the answers have to make sense.
 */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t bytes_of(const struct json *candidate, const char *name)
{
    uint64_t bytes = 0;

    (void)json_uint64(json_get(json_get(candidate, "memory"), name), &bytes);
    return bytes;
}

static bool is_true(const struct json *candidate, const char *name)
{
    bool value = false;

    return json_bool(json_get(candidate, name), &value) && value;
}

/* Allocated within high, high and reserved within what the context leaves, and all of it within the card. */
static void is_within(const struct json *c, double margin, const char *body)
{
    double room = (double)bytes_of(c, "capacity_bytes") * (1 - margin) + 1;
    uint64_t beside = bytes_of(c, "context_bytes") + bytes_of(c, "nccl_bytes"), reserved = bytes_of(c, "peak_reserved_bytes"),
             device = bytes_of(c, "device_bytes"), high = bytes_of(c, "high_bytes");
    const char *method = json_str(json_get(c, "method"));

    ck_assert_msg((double)device <= room, "%s %s: device_bytes %llu of %.0f", body, method, (unsigned long long)device, room);
    ck_assert_msg((double)(high + beside) <= room, "%s %s: high_bytes %llu of %.0f", body, method, (unsigned long long)high, room);
    ck_assert_msg(bytes_of(c, "low_bytes") <= high, "%s %s: low over high", body, method);
    if (!device)
        return;
    ck_assert_uint_eq(device, reserved + beside);
    ck_assert_msg(bytes_of(c, "peak_allocated_bytes") <= reserved, "%s %s: allocated over reserved", body, method);
    if ((double)device > 0.95 * (double)bytes_of(c, "capacity_bytes"))
        ck_assert_msg(is_true(c, "tight"), "%s %s: %llu is not tight", body, method, (unsigned long long)device);
}

static void check(const char *body, double margin)
{
    struct reply reply = ask(body);
    const struct json *first = reply_at(&reply, "recommendation");

    ck_assert_msg(reply.r.status == 200, "%s: %d %s", body, reply.r.status, reply_text(&reply, "detail"));
    json_each(c, reply_at(&reply, "candidates")) {
        if (is_true(c, "fits"))
            is_within(c, margin, body);
        if (is_true(c, "fits") && is_true(c, "launchable"))
            ck_assert_msg(is_true(first, "launchable"), "%s: recommends what nobody starts", body);
    }
    if (json_type(first) == JSON_OBJECT)
        ck_assert_msg(bytes_of(first, "device_bytes"), "%s: recommended without its device_bytes", body);
    reply_done(reply);
}

enum { EACH = 10, ASKED = 80 };

static const int parts[ASKED / EACH];

START_TEST(first_requests)
{
    FILE *f = fopen("tests/data/defaults.jsonl", "r");
    char line[1024];
    int n = 0;

    ck_assert(f);
    for (; fgets(line, sizeof line, f); n++) {
        char *body = strstr(line, "\"request\": "), *end = strrchr(line, '}');

        ck_assert(body && end);
        *end = 0;
        if (n / EACH == _i)
            check(strchr(body, '{'), 0);
    }
    ck_assert_int_eq(n, ASKED);
    (void)fclose(f);
}
END_TEST

static const struct {
    double margin;
    const char *body;
} squeezed[] = {
    {0, "{\"model\":\"meta-llama/Meta-Llama-3-8B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":8},\"training\":{\"seq_len\":2048,"
        "\"methods\":\"zero3\"}}"},
    {0.1, "{\"model\":\"facebook/opt-1.3b\",\"cluster\":{\"gpu\":\"RTX 3090\"},\"margin\":0.1}"},
    {0.25, "{\"model\":\"facebook/opt-1.3b\",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4},\"margin\":0.25,\"training\":{\"seq_len\":1024}}"},
    {0, "{\"model\":\"facebook/opt-1.3b\",\"cluster\":{\"gpu\":\"A100-80GB\",\"free_memory_bytes\":24000000000},\"allocator\":{\"expandable_segments\":true}}"},
    {0.05, "{\"model\":\"openai-community/gpt2-large\",\"cluster\":{\"gpu\":\"T4\",\"gpus_per_node\":2},\"margin\":0.05,\"training\":{\"seq_len\":1024,"
           "\"micro_batch_size\":2}}"},
    {0, "{\"model\":\"facebook/opt-1.3b\",\"cluster\":{\"gpu\":\"RTX 3090\",\"gpus_per_node\":2},\"training\":{\"global_batch_size\":64},"
        "\"stack\":{\"torch\":\"2.4\",\"transformers\":\"4.45\"}}"},
    {0, "{\"model\":\"facebook/opt-2.7b\",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4},\"training\":{\"methods\":[\"zero3\",\"fsdp2\"],"
        "\"micro_batch_size\":4},\"allocator\":{\"expandable_segments\":true}}"},
};

START_TEST(squeezed_requests)
{
    check(squeezed[_i].body, squeezed[_i].margin);
}
END_TEST

/* --- one candidate never takes others with it ------------------------------------------------------------------------------------ */

#define SMALL_ARENA ((size_t)96 << 20) /* less than a stage of 64 takes, with its 64 micro-batches */
#define MANY(methods)                                                                                                                     \
    "{\"model\":\"meta-llama/Llama-2-70b-hf\",\"cluster\":{\"gpu\":\"H100-80GB\",\"gpus_per_node\":8,\"nodes\":8},\"training\":{\"seq_len\":512," \
    "\"gradient_checkpointing\":true,\"offload\":\"none\",\"tuning\":\"full\",\"methods\":[" methods "]}}"

/* Each candidate of `some`, written as it stands in `body`. */
static uint32_t count_candidates_within(const char *some, const char *body)
{
    static const char begin[] = "\n    {\n", end[] = "\n    }";
    const char *at = strstr(some, "\"candidates\": [");
    uint32_t n = 0;

    for (at = strstr(at, begin); at; at = strstr(at + 1, begin), n++) {
        size_t bytes = (size_t)(strstr(at, end) - at);
        char *text = strndup(at, bytes);

        ck_assert_msg(strstr(body, text), "not as it was: %s", text);
        free(text);
    }
    return n;
}

START_TEST(a_failure_is_its_own)
{
    struct reply alone = ask(MANY("\"fsdp2\",\"hsdp2\"")), beside = ask_within(SMALL_ARENA, "POST", "/estimate", NULL, MANY("\"pp\",\"fsdp2\",\"hsdp2\"")),
                 grown = ask(MANY("\"pp\",\"fsdp2\",\"hsdp2\""));
    const struct json *last = reply_at(&beside, "candidates/2");

    ck_assert_int_eq(beside.r.status, 200);
    ck_assert_str_eq(json_str(json_get(last, "method")), "pp");
    ck_assert_int_eq(json_type(json_get(last, "fits")), JSON_NULL);
    ck_assert_str_eq(json_str(json_get(json_get(last, "reason"), "code")), "budget");
    ck_assert_uint_eq(count_candidates_within(alone.r.body, beside.r.body), 2);
    json_each(c, reply_at(&grown, "candidates"))
        ck_assert_int_eq(json_type(json_get(c, "memory")), JSON_OBJECT);
    ck_assert_uint_eq(json_count(reply_at(&grown, "candidates")), 3);
    reply_done(alone);
    reply_done(beside);
    reply_done(grown);
}
END_TEST

/* From 8 to 64 GPUs of three kinds: each model answers. */
static const char *const wide[] = {"meta-llama/Meta-Llama-3.1-405B", "meta-llama/Meta-Llama-3.1-70B", "Qwen/Qwen1.5-110B", "bigscience/bloom"};

START_TEST(every_size_answers)
{
    static const char *const gpus[] = {"A100-40GB", "H100-80GB", "RTX 4090"}, *const nodes[] = {"1", "8"};

    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        for (size_t k = 0; k < sizeof nodes / sizeof *nodes; k++) {
            char body[256];

            (void)snprintf(body, sizeof body, "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"%s\",\"gpus_per_node\":8,\"nodes\":%s}}", wide[_i], gpus[i], nodes[k]);
            check(body, 0);
        }
}
END_TEST

/* One token a sequence: ten thousands of them fit, and a search that goes one by one does not end. */
/* 38 GiB of 4-bit weights on a card of 24: transformers 5 has all of them on each GPU before FSDP cuts them, 4 has them on the host (both seen with
 * AutoModelForCausalLM.from_pretrained() under ACCELERATE_USE_FSDP and FSDP_CPU_RAM_EFFICIENT_LOADING). */
static const struct {
    const char *method, *stack, *expandable, *efficient, *offload;
    bool fits;
    int gpus;
} loads[] = {
    {"fsdp2", "\"transformers\":\"4.53.3\",\"torch\":\"2.8\"", "false", "true", "optimizer+params", true, 2},
    {"fsdp", "\"transformers\":\"4.53.3\"", "false", "true", "optimizer+params", true, 2},
    {"fsdp", "\"transformers\":\"4.53.3\"", "false", "false", "optimizer+params", false, 2},
    {"fsdp2", "\"transformers\":\"5.23\"", "false", "true", "optimizer+params", false, 2},
    {"fsdp", "\"transformers\":\"5.23\"", "false", "true", "optimizer+params", false, 2},
    {"fsdp2", "\"transformers\":\"5.23\"", "true", "true", "optimizer+params", false, 2},
    {"zero3", "\"transformers\":\"4.53.3\"", "false", "", "none", false, 8}, /* back on the host, and whole on each GPU before it is shared out */
};

START_TEST(four_bits_have_to_be_loaded)
{
    char body[720], fsdp[80] = "";
    struct reply reply;
    const struct json *c;

    if (*loads[_i].efficient)
        (void)snprintf(fsdp, sizeof fsdp, ",\"checkpoint_reentrant\":false,\"fsdp\":{\"cpu_ram_efficient_loading\":%s}", loads[_i].efficient);
    (void)snprintf(body, sizeof body,
                   "{\"model\":\"meta-llama/Meta-Llama-3-70B\",\"cluster\":{\"gpu\":\"RTX 3090\",\"gpus_per_node\":%d},\"training\":{\"tuning\":\"qlora\","
                   "\"methods\":\"%s\",\"offload\":\"%s\",\"gradient_checkpointing\":true,\"micro_batch_size\":1,\"seq_len\":512%s},"
                   "\"stack\":{%s},\"allocator\":{\"expandable_segments\":%s}}",
                   loads[_i].gpus, loads[_i].method, loads[_i].offload, fsdp, loads[_i].stack, loads[_i].expandable);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s: %s", body, reply_text(&reply, "detail"));
    c = json_first(reply_at(&reply, "candidates"));
    ck_assert_msg(is_true(c, "fits") == loads[_i].fits, "%s: %s", body, json_str(json_get(json_get(c, "reason"), "detail")));
    if (loads[_i].fits)
        is_within(c, 0, body);
    else
        ck_assert_ptr_nonnull(strstr(json_str(json_get(json_get(c, "reason"), "detail")), "more at loading: each GPU takes the whole model"));
    ck_assert(loads[_i].fits || json_type(json_get(json_get(json_get(c, "reason"), "nearest"), "seq_len")) != JSON_NUMBER);
    reply_done(reply);
}
END_TEST

START_TEST(short_sequences_end)
{
    static const char *const methods[] = {"zero1", "zero2", "zero3", "fsdp2", "ddp"};

    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char body[300];

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"EleutherAI/pythia-160m\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"seq_len\":1,"
                       "\"micro_batch_size\":1,\"methods\":\"%s\",\"tuning\":\"full\",\"gradient_checkpointing\":true,\"precision\":\"fp16-mixed\"}}",
                       methods[i]);
        check(body, 0);
    }
}
END_TEST

/* A model whose tower has nothing to do has no gradients there, and its tower is larger than the few layers of what foretells it. */
#define TOWER "{\"model\":\"Qwen/Qwen2-VL-2B-Instruct\",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4},\"training\":{\"tuning\":\"full\",\"seq_len\":128,\"micro_batch_size\":4"

static unsigned number_of(const struct json *candidate, const char *name)
{
    uint64_t n = 0;

    (void)json_uint64(json_get(candidate, name), &n);
    return (unsigned)n;
}

/* Of the host's time, which few layers hide, as much as of the GPU's. */
static void is_as_fast(const struct json *bounded, const struct json *played, const char *body)
{
    double told = 0, is = 0;

    if (!is_true(bounded, "fits") || !is_true(played, "fits"))
        return;
    ck_assert(json_number(json_get(json_get(bounded, "throughput"), "tokens_per_s"), &told));
    ck_assert(json_number(json_get(json_get(played, "throughput"), "tokens_per_s"), &is));
    ck_assert_msg(told == is, "%s: %g tokens/s foretold, %g", body, told, is);
}

/* A candidate asked for alone. */
static void pin(const char *asked, const struct json *candidate, char *ret, size_t room)
{
    (void)snprintf(ret, room, "%s,\"methods\":\"%s\",\"gradient_checkpointing\":%s,\"offload\":\"%s\",\"tensor_parallel\":%u,\"pipeline_parallel\":%u}}",
                   asked, json_str(json_get(candidate, "method")), is_true(candidate, "gradient_checkpointing") ? "true" : "false",
                   json_str(json_get(candidate, "offload")), number_of(candidate, "tensor_parallel"), number_of(candidate, "pipeline_parallel"));
}

static void holds_its_replay(const char *asked, const struct json *bounded)
{
    struct reply reply;
    const struct json *c;
    char body[512];
    uint64_t peak;

    pin(asked, bounded, body, sizeof body);
    reply = ask(body);
    c = json_first(reply_at(&reply, "candidates"));
    peak = bytes_of(c, "peak_allocated_bytes");
    ck_assert_msg(peak && bytes_of(bounded, "low_bytes") <= peak && peak <= bytes_of(bounded, "high_bytes"), "%s: %llu to %llu, played %llu", body,
                  (unsigned long long)bytes_of(bounded, "low_bytes"), (unsigned long long)bytes_of(bounded, "high_bytes"), (unsigned long long)peak);
    is_as_fast(bounded, c, body);
    reply_done(reply);
}

#define SMALL "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"V100-32GB\",\"gpus_per_node\":4},\"training\":{\"tuning\":\"full\",\"seq_len\":128,\"micro_batch_size\":2"

static const char *const bounded_ones[] = {TOWER, SMALL};

START_TEST(bounds_hold_what_is_played)
{
    const char *asked = bounded_ones[_i];
    struct reply reply;
    char body[256];
    int held = 0;

    (void)snprintf(body, sizeof body, "%s}}", asked);
    reply = ask_within(API_ARENA_BYTES, "POST", "/estimate?top=64", NULL, body);

    json_each (c, reply_at(&reply, "candidates")) {
        const char *basis = json_str(json_get(json_get(c, "memory"), "basis"));

        if (!basis || strcmp(basis, "bounded") != 0)
            continue;
        holds_its_replay(asked, c);
        held++;
    }
    ck_assert_int_ge(held, 6);
    reply_done(reply);
}
END_TEST

/* Blocks of a loss over a large vocabulary, which the allocator cuts in vain: 28 % of them beside what lives, and more. */
static const char *const cut_in_vain[] = {
    "{\"model\":\"cerebras/Cerebras-GPT-111M\",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":8},\"training\":{\"tuning\":\"full\",\"seq_len\":2048",
    "{\"model\":\"Qwen/Qwen2-0.5B\",\"cluster\":{\"gpu\":\"RTX 3090\",\"gpus_per_node\":4},\"training\":{\"tuning\":\"lora\",\"seq_len\":2048",
    "{\"model\":\"tiiuae/Falcon3-1B-Instruct\",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4},\"training\":{\"tuning\":\"full\",\"seq_len\":2048,\"micro_batch_size\":8",
};

/* And the fewer sequences that a loser is told. */
START_TEST(what_is_bounded_fits)
{
    const char *asked = cut_in_vain[_i];
    bool stated = strstr(asked, "micro_batch_size");
    struct reply reply;
    char body[512], sized[300];
    int n = 0;

    (void)snprintf(body, sizeof body, "%s}}", asked);
    reply = ask_within(API_ARENA_BYTES, "POST", "/estimate?top=64", NULL, body);
    json_each (c, reply_at(&reply, "candidates")) {
        const char *basis = json_str(json_get(json_get(c, "memory"), "basis"));
        const struct json *fewer = json_get(json_get(json_get(c, "reason"), "nearest"), "micro_batch_size");
        struct reply played;
        uint64_t sequences = number_of(c, "micro_batch_size");

        if (!basis || (is_true(c, "fits") ? strcmp(basis, "bounded") != 0 : !json_uint64(fewer, &sequences)))
            continue;
        (void)snprintf(sized, sizeof sized, "%.*s", stated ? (int)(strstr(asked, ",\"micro_batch_size") - asked) : (int)strlen(asked), asked);
        (void)snprintf(sized + strlen(sized), sizeof sized - strlen(sized), ",\"micro_batch_size\":%u", (unsigned)sequences);
        pin(sized, c, body, sizeof body);
        played = ask(body);
        ck_assert_msg(is_true(json_first(reply_at(&played, "candidates")), "fits"), "%s: said to fit", body);
        reply_done(played);
        n++;
    }
    ck_assert_int_ge(n, 4);
    reply_done(reply);
}
END_TEST

/* Two sequences that fit once cached segments are given back: nothing but a replay tells, and one would be half as fast. No more than the card is told. */
START_TEST(few_sequences_are_played)
{
    struct reply reply = ask_within(API_ARENA_BYTES, "POST", "/estimate?top=64", NULL,
                                    "{\"model\":\"meta-llama/Meta-Llama-3.1-8B\",\"cluster\":{\"name\":\"mahti\",\"nodes\":2},"
                                    "\"training\":{\"seq_len\":2048,\"global_batch_size\":64}}");
    int found = 0;

    json_each (c, reply_at(&reply, "candidates")) {
        const struct json *m = json_get(c, "memory");

        if (!is_true(c, "fits") || strcmp(json_str(json_get(m, "basis")), "bounded") != 0)
            continue;
        ck_assert_uint_le(bytes_of(c, "high_bytes") + bytes_of(c, "context_bytes") + bytes_of(c, "nccl_bytes"), bytes_of(c, "capacity_bytes"));
        found += !strcmp(json_str(json_get(c, "method")), "fsdp2") && is_true(c, "gradient_checkpointing") && !is_true(c, "sync_each_batch") &&
                 number_of(c, "micro_batch_size") == 2 && is_true(c, "tight");
    }
    ck_assert_int_eq(found, 1);
    reply_done(reply);
}
END_TEST

/* Reducer::ensure_prior_reduction_finished(): the Trainer looks for unused parameters only where nothing is checkpointed. */
START_TEST(buckets_want_every_gradient)
{
    struct reply refused = ask(TOWER ",\"methods\":\"ddp\",\"gradient_checkpointing\":true}}"),
                 found = ask(TOWER ",\"methods\":\"ddp\",\"gradient_checkpointing\":true,\"find_unused_parameters\":true}}");
    double exposed = 0;

    ck_assert_msg(strstr(json_str(reply_at(&refused, "candidates/0/reason/detail")), "find_unused_parameters is true"), "%s", refused.r.body);
    ck_assert_int_eq(found.r.status, 200);
    ck_assert(json_number(reply_at(&found, "recommendation/throughput/breakdown_s/communication_exposed"), &exposed) && exposed > 0);
    reply_done(refused);
    reply_done(found);
}
END_TEST

UNIT_TESTS("api/fits", unit_rows(bounds_hold_what_is_played, bounded_ones); unit_rows(what_is_bounded_fits, cut_in_vain); unit_test(few_sequences_are_played); unit_test(buckets_want_every_gradient); unit_rows(four_bits_have_to_be_loaded, loads); unit_test(short_sequences_end); unit_test(a_failure_is_its_own);
           unit_rows(every_size_answers, wide); unit_rows(first_requests, parts); unit_rows(squeezed_requests, squeezed);)
