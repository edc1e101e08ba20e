/* Advice: nobody is left without a way out; what is advised, asked for by itself, fits; and the sentences say what the figures say. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define Q(gpu, model) "/estimate?model=" model "&gpu=" gpu

/* Questions with no fit, with the change that is advised first. */
static const struct {
    const char *path, *member, *value; /* of advice/0/change; value NULL: true */
} stuck[] = {
    {Q("RTX4090", "Qwen/Qwen2.5-7B") "&tuning=full", "tuning", "lora"},
    {Q("RTX4090", "Qwen/Qwen2.5-7B") "&tuning=lora&gradient_checkpointing=false", "gradient_checkpointing", NULL},
    {Q("T4", "facebook/opt-1.3b") "&tuning=full&gradient_checkpointing=true&micro_batch_size=64&seq_len=512", "tuning", "lora"},
    {Q("A100-80GB", "meta-llama/Meta-Llama-3-8B") "&tuning=lora&seq_len=65536", "seq_len", "32768"},
    {Q("RTX3090", "Qwen/Qwen2.5-32B") "&tuning=lora", "tuning", "qlora"},
    {Q("RTX4090", "Qwen/Qwen2.5-32B") "&tuning=lora&gpus=8&methods=ddp", "tuning", "qlora"},
    {Q("2x+RTX+3090", "Qwen/Qwen2.5-14B") "&tuning=lora&methods=ddp&seq_len=8192", "tuning", "qlora"},
    {Q("2x+RTX+3090", "meta-llama/Meta-Llama-3-70B") "&tuning=qlora&seq_len=512&methods=fsdp2&offload=optimizer%2Bparams", "gpu", "L40S"},
    {Q("2x+RTX+3090", "meta-llama/Meta-Llama-3-70B") "&tuning=qlora&seq_len=512&methods=fsdp2&offload=none", "gpu", "A100-80GB SXM"},
    {Q("L40S", "meta-llama/Meta-Llama-3.1-405B") "&tuning=full&micro_batch_size=8", "gpu", "H200 SXM"},
    {Q("2x+RTX+4090", "Qwen/Qwen3-32B") "&tuning=qlora", "expandable_segments", NULL},
    {Q("L40S", "microsoft/phi-4"), "lora.target_modules", "all-linear"},
    {Q("2x+RTX+3090", "microsoft/phi-4") "&micro_batch_size=2", "gradient_checkpointing", NULL},
    {Q("RTX+3060", "HuggingFaceTB/SmolLM3-3B"), "tuning", "qlora"},
};

/* "nodes": 2 as it stands in a query. */
static void add_parameter(char *query, size_t room, const char *name, const struct json *value)
{
    size_t n = strlen(query);
    uint64_t whole;
    bool on;

    if (json_type(value) == JSON_STRING)
        (void)snprintf(query + n, room - n, "&%s=%s", name, json_str(value));
    else if (json_bool(value, &on))
        (void)snprintf(query + n, room - n, "&%s=%s", name, on ? "true" : "false");
    else if (json_uint64(value, &whole))
        (void)snprintf(query + n, room - n, "&%s=%llu", name, (unsigned long long)whole);
    for (char *p = query + n; *p; p++)
        *p = (char)(*p == ' ' ? '+' : *p);
}

/* The question without the parameters that the change names. */
static void change_query(const char *path, const struct json *change, char *ret, size_t room)
{
    char copy[512], *save = NULL;

    (void)snprintf(copy, sizeof copy, "%s", strchr(path, '?') + 1);
    (void)snprintf(ret, room, "/estimate?strict=true");
    for (char *part = strtok_r(copy, "&", &save); part; part = strtok_r(NULL, "&", &save)) {
        char name[64];
        size_t n = strlen(ret);

        (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(part, "="), part);
        if (!json_get(change, name) && !(json_get(change, "gpus_per_node") && !strcmp(name, "gpus")))
            (void)snprintf(ret + n, room - n, "&%s", part);
    }
    json_each (member, change)
        add_parameter(ret, room, json_name(member), member);
}

/* `first`: what the change is of; what it does not name stays. */
static void is_true_advice(const char *path, const struct json *first, const struct json *advice)
{
    const struct json *kept = json_get(first, "gradient_checkpointing");
    char query[768];
    struct reply reply;
    bool fits = false;

    change_query(path, json_get(advice, "change"), query, sizeof query);
    if (!strstr(query, "gradient_checkpointing") && json_get(json_get(first, "memory"), "basis"))
        add_parameter(query, sizeof query, "gradient_checkpointing", kept);
    reply = ask_get(query);
    ck_assert_msg(reply.r.status == 200, "%s: %d %s", query, reply.r.status, reply.r.body);
    ck_assert_msg(json_bool(reply_at(&reply, "fits"), &fits) && fits, "%s: advised, and does not fit", query);
    reply_done(reply);
}

START_TEST(a_way_out)
{
    struct reply reply = ask_get(stuck[_i].path);
    const struct json *all = reply_at(&reply, "advice"), *first = reply_at(&reply, "advice/0/change"),
                      *value = json_get(first, stuck[_i].member);
    char text[32] = "true";
    uint64_t whole;
    bool fits = true;

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(json_bool(reply_at(&reply, "fits"), &fits) && !fits, "%s fits", stuck[_i].path);
    ck_assert_msg(value, "%s: %s", stuck[_i].path, reply_text(&reply, "summary"));
    if (json_uint64(value, &whole))
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)whole);
    else if (json_type(value) == JSON_STRING)
        (void)snprintf(text, sizeof text, "%s", json_str(value));
    ck_assert_str_eq(text, stuck[_i].value ? stuck[_i].value : "true");
    ck_assert_msg(strstr(reply_text(&reply, "summary"), reply_text(&reply, "advice/0/why")), "%s", reply_text(&reply, "summary"));
    json_each (c, reply_at(&reply, "candidates"))
        ck_assert_msg(json_type(json_get(json_get(c, "reason"), "nearest")) == JSON_OBJECT || !json_get(c, "memory"),
                      "%s: a loser without a way out", stuck[_i].path);
    json_each (advice, all)
        is_true_advice(stuck[_i].path, reply_at(&reply, "candidates/0"), advice);
    reply_done(reply);
}
END_TEST

/* A loser's own way out is a change of that loser, whatever the first of them is. */
START_TEST(a_way_out_of_each)
{
    static const char path[] = Q("T4", "meta-llama/Meta-Llama-3-8B") "&gpus=2&tuning=full&micro_batch_size=16&top=64",
                      *const own[] = {"method", "gradient_checkpointing", "offload"};
    struct reply reply = ask_get(path);
    int elsewhere = 0;

    json_each (c, reply_at(&reply, "candidates")) {
        const struct json *change = json_get(json_get(c, "reason"), "nearest");
        char query[768];
        struct reply asked;
        bool fits = false;

        if (!json_get(c, "memory") || !json_get(change, "gpu"))
            continue;
        change_query(path, change, query, sizeof query);
        for (size_t i = 0; i < sizeof own / sizeof *own; i++)
            if (!json_get(change, i ? own[i] : "methods"))
                add_parameter(query, sizeof query, i ? own[i] : "methods", json_get(c, own[i]));
        asked = ask_get(query);
        ck_assert_msg(json_bool(reply_at(&asked, "fits"), &fits) && fits, "%s: the nearest, and does not fit", query);
        reply_done(asked);
        elsewhere++;
    }
    ck_assert_int_ge(elsewhere, 4);
    reply_done(reply);
}
END_TEST

/* Of what fits: what it would save or gain, and at what price. */
static const struct {
    const char *path, *summary, *member;
} lucky[] = {
    {Q("RTX4090", "Qwen/Qwen2.5-7B"), "Fits: LoRA with gradient checkpointing, batch 1 of 2,048 tokens, 19.4 of 23.5 GiB on one RTX 4090, ",
     "tuning"},
    {Q("A100-80GB", "meta-llama/Meta-Llama-3-8B") "&tuning=lora&micro_batch_size=2", "Fits: LoRA, batch 2 of 2,048 tokens, ",
     "gradient_checkpointing"},
    {Q("A100-80GB", "facebook/opt-1.3b") "&micro_batch_size=1&seq_len=512&gradient_checkpointing=false",
     "Fits: full fine-tuning, batch 1 of 512 tokens, ", "micro_batch_size"},
    {Q("H100", "meta-llama/Meta-Llama-3.1-70B") "&gpus=8&tuning=lora&objective=fewest_gpus", " 2 x H100-80GB SXM with fsdp2 and gradient checkpointing would fit too", "gpus_per_node"},
    {Q("RTX+A6000", "Qwen/Qwen2.5-7B") "&gpus=2", "optimizer+params offloaded, micro-batch ", "offload"},
    {Q("A100-80GB", "facebook/opt-1.3b") "&gpus=4&methods=fsdp2&seq_len=512&micro_batch_size=1", "on each of 4 x A100-80GB SXM", "tuning"},
};

START_TEST(says_what_it_would_save)
{
    struct reply reply = ask_get(lucky[_i].path);
    bool found = false;

    ck_assert_msg(strstr(reply_text(&reply, "summary"), lucky[_i].summary), "%s", reply_text(&reply, "summary"));
    json_each (advice, reply_at(&reply, "advice")) {
        found |= lucky[_i].member && json_get(json_get(advice, "change"), lucky[_i].member);
        is_true_advice(lucky[_i].path, reply_at(&reply, "candidates/0"), advice);
    }
    ck_assert_msg(found || !lucky[_i].member, "%s: nothing about %s", lucky[_i].path, lucky[_i].member);
    reply_done(reply);
}
END_TEST

/* Walks of what would be advised may run out of their room in the middle of a backward: the answer stands. */
START_TEST(advice_may_run_out_of_room)
{
    struct reply reply = ask("{\"model\":\"meta-llama/Meta-Llama-3.1-405B\",\"cluster\":{\"gpu\":\"H100-80GB\",\"gpus_per_node\":8},\"training\":{\"seq_len\":2048,"
                             "\"micro_batch_size\":1,\"methods\":\"fsdp\",\"tuning\":\"lora\",\"lora\":{\"rank\":16,\"target_modules\":\"all-linear\"},"
                             "\"precision\":\"bf16-autocast\",\"optimizer\":\"adamw_torch_fused\",\"attention\":\"sdpa\",\"loss\":\"liger\","
                             "\"liger_kernels\":[\"rope\",\"rms_norm\",\"swiglu\"],\"gradient_checkpointing\":true}}");

    ck_assert_msg(strstr(reply_text(&reply, "summary"), "Does not fit: LoRA with fsdp, gradient checkpointing, "), "%s", reply_text(&reply, "summary"));
    reply_done(reply);
}
END_TEST

/* What a newcomer reads first: the nearest miss and not the farthest, what an objective asked for, a way on where there is no answer. */
static const struct {
    const char *path, *says;
} sentences[] = {
    {Q("RTX4090", "Qwen/Qwen2.5-32B") "&tuning=qlora", "Does not fit: even QLoRA with gradient checkpointing, batch 1 of 2,048 tokens, needs 24.4 GiB; one RTX 4090 has 23.5. "},
    {Q("RTX4090", "Qwen/Qwen2.5-32B") "&tuning=qlora", " would fit: about "},
    {Q("RTX4090", "Qwen/Qwen2.5-14B") "&tuning=lora&gradient_checkpointing=true", "Does not fit: LoRA with gradient checkpointing, batch 1 of "},
    {Q("RTX3090", "Qwen/Qwen2.5-32B") "&tuning=qlora&gpus=2", "; each of 2 x RTX 3090 has 23.6. "},
    {Q("A100-80GB", "Qwen/Qwen2.5-7B") "&tuning=lora&free_memory_bytes=40GB&micro_batch_size=1", " of the 37.3 GiB free on one A100-80GB SXM"},
    {Q("RTX4090", "Qwen/Qwen2.5-7B") "&tuning=lora&objective=longest_sequence", " The longest sequence that fits is 4,480 tokens. "},
    {Q("T4", "facebook/opt-1.3b") "&stage=ppo", "No answer: training.stage ppo is not modelled yet. Left out, the rest can be answered."},
    {Q("A100-80GB", "facebook/opt-1.3b") "&stage=dpo&tuning=lora&micro_batch_size=1", "Fits: DPO with LoRA, batch 1 pairs of "},
    {Q("T4", "RWKV/rwkv-4-430m-pile"), " parameters alone are "},
    {Q("RTX+4090", "mistralai/Mixtral-8x7B-v0.1"), " One H200 SXM with LoRA over all linear layers and gradient checkpointing would fit: about "},
    {Q("RTX+4090", "deepseek-ai/DeepSeek-V3"), " 32 x H200 SXM with LoRA over all linear layers, fsdp2 and gradient checkpointing would fit: about "},
    {Q("RTX+4090", "deepseek-ai/DeepSeek-V3") "&seq_len=65536", " LoRA and QLoRA over all linear layers were tried, as peft has no default modules for this type: neither fits."},
};

START_TEST(says_what_a_person_wants_to_know)
{
    struct reply reply = ask_get(sentences[_i].path);

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_msg(strstr(reply_text(&reply, "summary"), sentences[_i].says) != NULL, "%s", reply_text(&reply, "summary"));
    reply_done(reply);
}
END_TEST

/* More than one change is joined as a sentence is. */
START_TEST(advice_reads_as_a_sentence)
{
    struct reply reply = ask_get(Q("RTX4090", "Qwen/Qwen2.5-14B") "&tuning=lora");

    json_each (advice, reply_at(&reply, "advice")) {
        const char *why = json_str(json_get(advice, "why"));

        ck_assert_msg(why[0] < 'a' || why[0] > 'z', "%s", why);
        ck_assert_msg(!strstr(why, ", gradient"), "%s", why);
        ck_assert_msg(!json_get(json_get(advice, "change"), "gpus_per_node") || strstr(why, "RTX 4090 with fsdp2 and gradient checkpointing"), "%s", why);
    }
    reply_done(reply);
}
END_TEST

/* A work budget that ends while advice is sought leaves the answer as it is. */
START_TEST(advice_never_costs_the_answer)
{
    static const char body[] = "{\"model\":\"Qwen/Qwen2.5-7B\",\"cluster\":{\"gpu\":\"RTX 4090\"},\"training\":{\"tuning\":\"full\"}}";
    struct reply whole = ask(body);
    uint64_t used = whole.r.work_events, first_bytes = 0, bytes = 0;

    ck_assert(json_uint64(reply_at(&whole, "candidates/0/memory/peak_allocated_bytes"), &first_bytes));
    for (uint64_t limit = used; limit > used - used / 8; limit -= used / 32) {
        struct budget budget = {.limit_events = limit};
        struct reply reply = ask_working(&budget, body);

        ck_assert_int_eq(reply.r.status, 200);
        ck_assert(json_uint64(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &bytes));
        ck_assert_uint_eq(bytes, first_bytes);
        reply_done(reply);
    }
    reply_done(whole);
}
END_TEST

START_TEST(a_length_beyond_the_positions_warns)
{
    struct reply reply = ask_get(Q("A100-80GB", "meta-llama/Meta-Llama-3-8B") "&seq_len=16384"),
                 within = ask_get(Q("A100-80GB", "meta-llama/Meta-Llama-3-8B") "&seq_len=8192");

    ck_assert(strstr(reply.r.body, "beyond the 8192 positions"));
    ck_assert(!strstr(within.r.body, "beyond the"));
    reply_done(reply);
    reply_done(within);
}
END_TEST

/* What the reader can change comes first, internals last. */
START_TEST(assumptions_are_sorted)
{
    struct reply reply = ask_get(Q("RTX4090", "Qwen/Qwen2.5-7B"));
    size_t n = json_count(reply_at(&reply, "assumptions"));
    char last[32];

    (void)snprintf(last, sizeof last, "assumptions/%zu", n - 1);
    ck_assert(!strncmp(json_str(reply_at(&reply, "assumptions/0")), "training.seq_len", 16));
    ck_assert(!strncmp(json_str(reply_at(&reply, "assumptions/1")), "micro_batch_size", 16));
    ck_assert(!strncmp(json_str(reply_at(&reply, last)), "step times", 10));
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/advice", unit_test(a_way_out_of_each); unit_rows(a_way_out, stuck); unit_rows(says_what_it_would_save, lucky); unit_rows(says_what_a_person_wants_to_know, sentences); unit_test(advice_reads_as_a_sentence); unit_test(advice_never_costs_the_answer); unit_test(advice_may_run_out_of_room);
           unit_test(a_length_beyond_the_positions_warns); unit_test(assumptions_are_sorted);)
