/* How much work an answer takes, in events of base/budget.h, steps of the language among them: counts that depend on the question alone, so that a search that plays more turns this red. */
#include "api/answer/estimate.h"
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EIGHT(gpu) "\"cluster\":{\"gpu\":\"" gpu "\",\"gpus_per_node\":8}"
#define M8B "{\"model\":\"meta-llama/Meta-Llama-3-8B\","
#define M70B "{\"model\":\"meta-llama/Llama-2-70b-hf\","

static const struct {
    const char *path, *body;
    uint64_t most_events;
} questions[] = {
    {"/estimate", M8B EIGHT("A100-80GB") ",\"training\":{\"seq_len\":2048}}", 1500000},
    {"/estimate", M70B EIGHT("A100-80GB") ",\"training\":{\"seq_len\":2048}}", 4300000},
    {"/estimate", M70B EIGHT("B200") ",\"training\":{\"seq_len\":2048}}", 4650000},
    /* asked by their micro-batch: one play each, and a search for who wants it */
    {"/estimate", M8B EIGHT("A100-80GB") ",\"training\":{\"seq_len\":2048,\"methods\":\"fsdp2\",\"micro_batch_size\":2,\"gradient_checkpointing\":true}}", 310000},
    {"/estimate?largest=true", M8B EIGHT("A100-80GB") ",\"training\":{\"seq_len\":2048,\"methods\":\"fsdp2\",\"micro_batch_size\":2,\"gradient_checkpointing\":true}}",
     380000},
    {"/estimate", M8B EIGHT("A100-80GB") ",\"training\":{\"seq_len\":2048,\"methods\":\"zero3\",\"micro_batch_size\":2,\"gradient_checkpointing\":true}}", 360000},
    /* advice: what cannot fit is not played, what was looked at is not played again */
    {"/estimate", "{\"model\":\"google/gemma-2-9b\",\"cluster\":{\"gpu\":\"L4\"},\"training\":{\"seq_len\":200,\"tuning\":\"full\",\"micro_batch_size\":4}}", 540000},
    {"/estimate", "{\"model\":\"Qwen/Qwen2.5-7B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"seq_len\":200,\"tuning\":\"lora\",\"micro_batch_size\":4}}", 230000},
};

START_TEST(plays_no_more_than_it_has_to)
{
    struct reply reply = ask_within(API_ARENA_BYTES, "POST", questions[_i].path, NULL, questions[_i].body);

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(reply.r.work_events <= questions[_i].most_events, "%s: %llu events, at most %llu were wanted", questions[_i].body,
                  (unsigned long long)reply.r.work_events, (unsigned long long)questions[_i].most_events);
    ck_assert_uint_gt(reply.r.work_events, questions[_i].most_events / 4); /* else the bound says nothing */
    reply_done(reply);
}
END_TEST

/* Modules that another request imported are found; what is answered, events too, does not tell. */
START_TEST(is_the_same_where_another_request_imported)
{
    struct reply first = ask_within(API_ARENA_BYTES, "POST", questions[_i].path, NULL, questions[_i].body);
    struct reply other = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL,
                                    "{\"model\":\"openai-community/gpt2\",\"cluster\":{\"gpu\":\"T4\"},\"training\":{\"seq_len\":512}}");
    struct reply again = ask_within(API_ARENA_BYTES, "POST", questions[_i].path, NULL, questions[_i].body);

    ck_assert_int_eq(first.r.status, 200);
    ck_assert_int_eq(other.r.status, 200);
    ck_assert_uint_eq(first.r.bytes, again.r.bytes);
    ck_assert(!memcmp(first.r.body, again.r.body, first.r.bytes));
    ck_assert_uint_eq(first.r.work_events, again.r.work_events);
    reply_done(first);
    reply_done(other);
    reply_done(again);
}
END_TEST

/* What is dropped, or not tried, for want of room moves events and answers: the room is the same however long a question and its config are. */
START_TEST(has_the_same_room_for_runs)
{
    static const size_t before[] = {0, 1, 1000003, 64 << 20, 90 << 20}; /* 60 MiB of an imported program's room among it */
    unsigned char *block = malloc(API_ARENA_BYTES);
    size_t first = 0;

    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct arena arena, scratch;

        arena_init(&arena, block, API_ARENA_BYTES);
        ck_assert_ptr_nonnull(arena_push_raw(&arena, 1, 1, before[i] + 1));
        scratch = scratch_of(&arena);
        if (!i)
            first = (size_t)(scratch.end - scratch.cur);
        ck_assert_uint_eq((size_t)(scratch.end - scratch.cur), first);
        ck_assert_uint_eq((uintptr_t)scratch.cur % 64, 0);
        ck_assert_ptr_eq(arena.end, scratch.cur);
    }
    ck_assert_uint_gt(first, API_ARENA_BYTES / 10 * 6);
    free(block);
}
END_TEST

/* So many layers that the model alone fills the room: a tensor beyond any memory is told before. */
START_TEST(says_what_is_beyond_any_memory)
{
    static const char body[] = "{\"config\":{\"model_type\":\"bloom\",\"hidden_size\":1024,\"n_head\":8,\"n_layer\":1024,\"vocab_size\":32000},"
                               "\"cluster\":{\"gpu\":\"H100 SXM\"},"
                               "\"training\":{\"seq_len\":4194304,\"micro_batch_size\":1024,\"methods\":\"single\",\"tuning\":\"full\"}}";
    struct reply reply = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, body);

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(strstr(reply.r.body, "\"summary\": \"Does not fit: a tensor of 67108864 GiB is larger than any memory.\""), "%.300s", reply.r.body);
    ck_assert_uint_gt(reply.r.work_events, 0);
    reply_done(reply);
}
END_TEST

static uint64_t work_of_depth(unsigned layers)
{
    char body[600];
    struct reply reply;
    uint64_t events;

    (void)snprintf(body, sizeof body,
                   "{\"config\":{\"model_type\":\"llama\",\"hidden_size\":64,\"num_attention_heads\":1,\"num_key_value_heads\":1,\"num_hidden_layers\":%u,"
                   "\"intermediate_size\":128,\"vocab_size\":100,\"max_position_embeddings\":2048}," EIGHT("A100-80GB") ","
                   "\"training\":{\"seq_len\":128,\"methods\":\"zero3\",\"tuning\":\"full\",\"micro_batch_size\":1,\"gradient_checkpointing\":false}}",
                   layers);
    reply = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, body);
    ck_assert_int_eq(reply.r.status, 200);
    events = reply.r.work_events;
    reply_done(reply);
    return events;
}

/* A layer whose part of the graph has to be fetched from memory is more work than one that lies in a processor's cache. */
START_TEST(counts_what_a_deep_graph_takes)
{
    uint64_t shallow = work_of_depth(80) - work_of_depth(40), deep = work_of_depth(280) - work_of_depth(240);

    ck_assert_msg(deep * 5 > shallow * 6, "%llu events for 40 layers more, %llu of a shallow one", (unsigned long long)deep, (unsigned long long)shallow);
}
END_TEST

/* Work that ends in a search leaves the figures of what it has found to fit, and says that the answer is partial. */
START_TEST(a_search_that_ends_early_tells_what_fits)
{
    static const char body[] = "{\"model\":\"facebook/opt-1.3b\"," EIGHT("A100-40GB") ",\"training\":{\"seq_len\":512,\"methods\":\"zero2\","
                               "\"tuning\":\"full\",\"gradient_checkpointing\":false}}";
    struct reply whole = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, body);
    uint64_t used = whole.r.work_events, searched = 0, n = 0;

    ck_assert(json_uint64(reply_at(&whole, "candidates/0/micro_batch_size"), &searched));
    for (unsigned tenths = 9; tenths >= 7; tenths--) {
        struct budget budget = {.limit_events = used * tenths / 10};
        struct reply reply = ask_working(&budget, body);
        bool fits = false;

        ck_assert_msg(json_bool(reply_at(&reply, "candidates/0/fits"), &fits) && fits, "%u tenths of %llu events: %s", tenths, (unsigned long long)used,
                      reply_text(&reply, "summary"));
        ck_assert(json_uint64(reply_at(&reply, "candidates/0/micro_batch_size"), &n) && n >= searched / 2);
        ck_assert_uint_le(budget.events, budget.limit_events + budget.limit_events / 10);
        reply_done(reply);
    }
    reply_done(whole);
}
END_TEST

/* Layers of several kinds, their text's config within the model's: foretold from few of them, so that every method is looked at within one question's work. */
static const char *const of_kinds[] = {
    "{\"model\":\"Qwen/Qwen3-Next-80B-A3B-Instruct\"," EIGHT("H100") ",\"training\":{\"seq_len\":4096}}",
    "{\"model\":\"Qwen/Qwen3.5-35B-A3B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"seq_len\":4096}}",
    /* a chunk's system row by row, 63 turns whatever the sequence: they have room */
    "{\"model\":\"Qwen/Qwen3.5-9B\"," EIGHT("H100") ",\"stack\":{\"transformers\":\"5.6\"},\"training\":{\"seq_len\":2048,\"methods\":\"ddp\",\"tuning\":\"lora\","
    "\"lora\":{\"target_modules\":\"all-linear\"},\"micro_batch_size\":1,\"gradient_checkpointing\":true}}",
};

START_TEST(layers_of_several_kinds_are_few_enough)
{
    struct reply reply = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, of_kinds[_i]);
    bool fits = false;

    ck_assert_msg(json_bool(reply_at(&reply, "fits"), &fits) && fits, "%s", reply_text(&reply, "summary"));
    reply_done(reply);
}
END_TEST

/* A loop over 128 experts is 3 million events a rank: of eight the likely one is played, and said to be. */
START_TEST(plays_one_rank_where_all_are_too_much_work)
{
    static const char body[] = "{\"model\":\"Qwen/Qwen3-30B-A3B\"," EIGHT("B200") ",\"stack\":{\"transformers\":\"4.57\"},"
                               "\"training\":{\"seq_len\":2048,\"methods\":\"zero2\",\"tuning\":\"full\",\"micro_batch_size\":1,"
                               "\"gradient_checkpointing\":true}}";
    struct reply reply = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, body);

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(strstr(reply.r.body, "\"fits\": true"), "%.300s", reply.r.body);
    ck_assert_ptr_nonnull(strstr(reply.r.body, "the one is played that is likely to need most (worst_rank)"));
    reply_done(reply);
}
END_TEST

/* The kernels of a package that is named take no turns over the sequence; where they are not, and the work ends, the reason names it. */
START_TEST(kernels_need_no_room_for_loops)
{
#define LONG(stack) "{\"model\":\"Qwen/Qwen3.5-0.8B\",\"cluster\":{\"gpu\":\"H100\"},\"stack\":{\"transformers\":\"5.23\"" stack "}," \
                    "\"training\":{\"seq_len\":32768,\"methods\":\"single\",\"tuning\":\"full\",\"micro_batch_size\":1,\"gradient_checkpointing\":true}}"
    struct reply with = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, LONG(",\"fla\":\"0.5\""));
    struct reply without = ask_within(API_ARENA_BYTES, "POST", "/estimate", NULL, LONG(""));
#undef LONG
    uint64_t peak = 0;

    ck_assert_msg(json_uint64(reply_at(&with, "candidates/0/memory/peak_allocated_bytes"), &peak) && peak > 0, "%s", reply_text(&with, "summary"));
    ck_assert_ptr_null(strstr(with.r.body, "name stack.fla"));
    ck_assert_str_eq(json_str(reply_at(&without, "candidates/0/reason/code")), "budget");
    ck_assert_ptr_nonnull(strstr(json_str(reply_at(&without, "candidates/0/reason/detail")), "name stack.fla where it is installed"));
    reply_done(with);
    reply_done(without);
}
END_TEST

UNIT_TESTS("api/work", unit_rows(plays_no_more_than_it_has_to, questions); unit_rows(is_the_same_where_another_request_imported, questions);
           unit_test(has_the_same_room_for_runs); unit_test(says_what_is_beyond_any_memory); unit_test(counts_what_a_deep_graph_takes);
           unit_test(a_search_that_ends_early_tells_what_fits); unit_rows(layers_of_several_kinds_are_few_enough, of_kinds);
           unit_test(plays_one_rank_where_all_are_too_much_work); unit_test(kernels_need_no_room_for_loops);)
