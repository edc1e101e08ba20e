/* POST /estimate: what is taken, what it is called in the answer, and what the answer says. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

/* --- taken -------------------------------------------------------------------------------------------------------------------- */

/* Known words without a model: an answer with a reason, never an error. */
static const struct {
    const char *body;
    const char *detail; /* part of the first candidate's reason */
} unmodelled[] = {
    {TRAIN("\"methods\":\"ep+zero_0\""), "method ep+zero0 is"},
    {TRAIN("\"methods\":\"TP + pp+cp+ep+Zero-1\",\"tensor_parallel\":2"), "method tp+pp+cp+ep+zero1 is"},
    {TRAIN("\"tuning\":\"loha\""), "tuning loha is"},
    {TRAIN("\"tuning\":\"MiSS\""), "tuning bone is"},
    {TRAIN("\"optim\":\"galore_adamw\""), "optimizer galore_adamw is"},
    {TRAIN("\"methods\":\"tp\",\"offload\":\"activations\""), "offload of activations under tp is"},
    {TRAIN("\"loss\":\"cce\",\"precision\":\"fp32\""), "hidden states in half precision"},
    {TRAIN("\"float8\":\"mxfp8\""), "float8 mxfp8 is"},
    {TRAIN("\"context_parallel\":2"), "context_parallel is"},
    {"{" OPT "," GPU ",\"stack\":{\"framework\":\"litgpt\"}}", "framework litgpt is"},
    {"{" OPT "," GPU ",\"config\":{\"quantization_config\":{\"bits\":4}}}", "quantization_config"},
    {"{" OPT "," GPU ",\"deepspeed_config\":{\"optimizer\":{\"type\":\"AdamW\"}}}", "DeepSpeed's own Adam steps under stage 0"},
    {"{\"config\":{\"model_type\":\"xlnet\"}," GPU "}", "'xlnet' has no program"},
    {"{\"config\":{\"model_type\":\"internvl_chat\",\"vision_config\":{},\"llm_config\":{\"hidden_size\":256}}," GPU "}", "its text alone is answered with its llm_config"},
    {"{\"config\":{\"model_type\":\"rwkv\",\"hidden_size\":256,\"num_hidden_layers\":2,\"vocab_size\":1000}," GPU "}",
     "are known, a step of it is not modelled"},
    {"{\"model\":\"Qwen/Qwen3-0.6B\"," GPU ",\"stack\":{\"transformers\":\"4.40\",\"torch\":\"2.2\"}}", "has no qwen3"},
};

/* accelerate makes last norm and head a unit: an encoder has neither. */
START_TEST(shards_an_encoder)
{
    struct reply reply = ask("{\"model\":\"google-bert/bert-base-uncased\",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":8},\"training\":{\"methods\":\"fsdp2\","
                             "\"tuning\":\"full\",\"seq_len\":512,\"micro_batch_size\":1}}");
    double bytes;

    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &bytes), "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

/* What Liger does not know it leaves as it is, and so do the figures. */
START_TEST(leaves_what_liger_does_not_know)
{
    struct reply plain = ask(TRAIN("\"micro_batch_size\":1")), reply = ask(TRAIN("\"micro_batch_size\":1,\"liger_kernels\":[\"rope\"]"));
    double a = 0, b = 0;

    ck_assert(json_number(reply_at(&plain, "candidates/0/memory/peak_allocated_bytes"), &a));
    ck_assert(json_number(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &b));
    ck_assert_msg(a == b && strstr(reply.r.body, "Liger has no kernels for this type"), "%.0f %.0f", a, b);
    reply_done(plain);
    reply_done(reply);
}
END_TEST

START_TEST(answers_what_is_not_modelled)
{
    struct reply reply = ask(unmodelled[_i].body);
    const struct json *first = json_first(json_get(reply.doc, "candidates"));
    const char *detail = json_str(json_get(json_get(first, "reason"), "detail"));

    ck_assert_msg(reply.r.status == 200, "%s: %s", unmodelled[_i].body, reply_text(&reply, "detail"));
    ck_assert_int_eq(json_type(json_get(reply.doc, "fits")), JSON_NULL);
    ck_assert_int_eq(json_type(json_get(first, "fits")), JSON_NULL);
    ck_assert_str_eq(json_str(json_get(json_get(first, "reason"), "code")), "not-modelled");
    ck_assert_msg(detail && strstr(detail, unmodelled[_i].detail), "%s: %s", unmodelled[_i].body, detail);
    ck_assert_int_eq(json_type(json_get(first, "memory")), JSON_ABSENT);
    ck_assert(!reply.r.fits && !reply.r.modelled);
    reply_done(reply);
}
END_TEST

/* GPUs whose kernels were never traced: a warning, and a range. */
static const struct {
    const char *gpu;
    bool untraced;
} gpus_asked[] = {{"A100-80GB", false}, {"RTX 4090", false}, {"H100", false}, {"B200", false}, {"RTX 5090", false},
                  {"MI250", true},      {"MI300X", true},    {"V100-SXM2-16GB", true}, {"T4", true}};

START_TEST(warns_of_untraced_kernels)
{
    char body[512];
    struct reply reply;
    const struct json *memory;
    uint64_t low = 0, high = 0;
    bool warned = false;

    (void)snprintf(body, sizeof body, "{" OPT ",\"cluster\":{\"gpu\":\"%s\"},\"training\":{\"methods\":\"single\",\"micro_batch_size\":1,"
                                      "\"attention\":\"sdpa\"}}", gpus_asked[_i].gpu);
    reply = ask(body);
    memory = json_get(json_first(json_get(reply.doc, "candidates")), "memory");
    ck_assert_msg(json_uint64(json_get(memory, "low_bytes"), &low) && json_uint64(json_get(memory, "high_bytes"), &high), "%s", body);
    json_each (w, json_get(reply.doc, "warnings"))
        warned |= strstr(json_str(w), "were not traced") != NULL;
    ck_assert_msg(warned == gpus_asked[_i].untraced, "%s", body);
    ck_assert_msg((high > low) == gpus_asked[_i].untraced, "%s: %llu..%llu", body, (unsigned long long)low, (unsigned long long)high);
    reply_done(reply);
}
END_TEST

#define ROUTED                                                                                                                                       \
    "\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":1000,\"n_routed_experts\":4,\"num_experts_per_tok\":2," \
    "\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"moe_intermediate_size\":64"

/* A type that nobody knows, by the keys that configs usually have; of heads that are rotated in part, routed experts, latents, and names of old; of releases whose experts are modules. */
static const char *const generic[] = {
    "\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":1000}",
    "\"n_embd\":256,\"n_layer\":2,\"n_head\":4,\"padded_vocab_size\":1000,\"multi_query_group_num\":2}",
    "\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":1000,\"partial_rotary_factor\":0.5}",
    ROUTED ",\"kv_lora_rank\":32,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":32}",
    ROUTED ",\"kv_lora_rank\":32,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":32,\"v_head_dim\":64}",
    ROUTED "},\"stack\":{\"transformers\":\"4.57\"}",
    ROUTED "},\"stack\":{\"transformers\":\"4.40\"}",
};

START_TEST(a_type_that_nobody_knows_is_sketched)
{
    char body[1024];
    struct reply reply;
    const struct json *memory;
    uint64_t low = 0, high = 0, peak = 0;
    bool warned = false;

    (void)snprintf(body, sizeof body, "{\"config\":{\"model_type\":\"a_type_of_tomorrow\",%s," GPU
                                      ",\"training\":{\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":128,\"attention\":\"sdpa\"}}", generic[_i]);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s: %s", body, reply_text(&reply, "detail"));
    memory = json_get(json_first(json_get(reply.doc, "candidates")), "memory");
    ck_assert_msg(json_str(json_get(memory, "basis")) && !strcmp(json_str(json_get(memory, "basis")), "generic"), "%s", reply.r.body);
    (void)json_uint64(json_get(memory, "peak_allocated_bytes"), &peak);
    ck_assert(json_uint64(json_get(memory, "low_bytes"), &low) && json_uint64(json_get(memory, "high_bytes"), &high));
    ck_assert_msg(low * 4 < peak * 3 && high > peak * 5 / 4, "%llu..%llu", (unsigned long long)low, (unsigned long long)high);
    json_each (w, json_get(reply.doc, "warnings"))
        warned |= strstr(json_str(w), "is not known: a generic decoder") != NULL;
    ck_assert(warned);
    reply_done(reply);
}
END_TEST

static uint64_t peak_of_loss(const char *asked, const char *transformers)
{
    struct reply reply;
    const struct json *phases;
    char body[1024];
    uint64_t peak = 0;

    (void)snprintf(body, sizeof body,
                   "{\"config\":{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":96,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
                   "\"num_hidden_layers\":6,\"num_local_experts\":64,\"num_experts_per_tok\":2,\"vocab_size\":128,\"output_router_logits\":%s}," GPU
                   ",\"training\":{\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":512,\"attention\":\"sdpa\"},\"stack\":{\"transformers\":\"%s\"}}",
                   asked, transformers);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s: %s", body, reply_text(&reply, "detail"));
    phases = json_get(json_get(json_first(json_get(reply.doc, "candidates")), "memory"), "phase_peaks_bytes");
    ck_assert_msg(json_uint64(json_get(phases, "loss"), &peak), "%s", body);
    reply_done(reply);
    return peak;
}

static const char *const balances[] = {"4.40", "4.45", "4.48", "4.53", "4.57", "5.0", "5.23"};

START_TEST(the_loss_that_balances_experts_is_answered_in_every_release)
{
    ck_assert_uint_gt(peak_of_loss("true", balances[_i]), peak_of_loss("false", balances[_i]));
}
END_TEST

/* Kimi-K2's config: DeepSeek's class under a type of its own. */
#define LATENT                                                                                                                                      \
    "\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":4,\"vocab_size\":1000,\"n_routed_experts\":8,"          \
    "\"num_experts_per_tok\":2,\"n_group\":1,\"topk_group\":1,\"n_shared_experts\":1,\"first_k_dense_replace\":1,\"moe_intermediate_size\":64,"          \
    "\"intermediate_size\":512,\"q_lora_rank\":64,\"kv_lora_rank\":32,\"qk_nope_head_dim\":32,\"qk_rope_head_dim\":32,\"v_head_dim\":64"

static const struct {
    const char *asked;
    bool wide;
} of_a_class[] = {
    {"\"training\":{\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":128}", true},
    {"\"workload\":\"inference\",\"inference\":{\"engine\":\"vllm\",\"tensor_parallel\":2}", false},
};

START_TEST(a_known_class_answers_for_a_type_that_nobody_knows)
{
    static const char form[] = "{\"config\":{\"architectures\":[\"DeepseekV3ForCausalLM\"],\"model_type\":\"%s\"," LATENT "},"
                               "\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},%s}";
    uint64_t peak[2] = {0};

    for (int i = 0; i < 2; i++) {
        char body[1024];
        struct reply reply;
        const struct json *memory, *file;
        bool told = false;

        (void)snprintf(body, sizeof body, form, i ? "deepseek_v3" : "a_type_of_tomorrow", of_a_class[_i].asked);
        reply = ask(body);
        ck_assert_msg(reply.r.status == 200, "%s: %s", body, reply_text(&reply, "detail"));
        memory = json_get(json_first(json_get(reply.doc, "candidates")), "memory");
        ck_assert_msg(json_uint64(json_get(memory, "peak_allocated_bytes"), &peak[i]), "%s", reply.r.body);
        file = json_first(json_get(json_get(json_get(reply.doc, "model"), "program"), "files"));
        ck_assert_str_eq(json_str(json_get(file, "name")), "models/deepseek_v3/modeling_deepseek_v3.py");
        json_each (w, json_get(reply.doc, "warnings"))
            told |= strstr(json_str(w), "its class is deepseek_v3's") != NULL;
        ck_assert(told == !i);
        ck_assert(i || !strcmp(json_str(json_get(memory, "basis")), of_a_class[_i].wide ? "generic" : "range"));
        reply_done(reply);
    }
    ck_assert_uint_eq(peak[0], peak[1]);
}
END_TEST

/* One grouped product for all experts: as large however the tokens fall. Before, one after the other: a crowd on the first makes that one's tensors larger. */
START_TEST(experts_and_how_tokens_fall)
{
    static const struct {
        const char *release, *skew;
    } rows[] = {{"5.23", "1"}, {"5.23", "4"}, {"4.48", "1"}, {"4.48", "2"}, {"4.48", "4"}};
    uint64_t peak[sizeof rows / sizeof *rows] = {0};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[1024];
        struct reply reply;
        bool said = false;

        (void)snprintf(body, sizeof body, "{\"config\":{\"model_type\":\"mixtral\",\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
                       "\"num_key_value_heads\":2,\"intermediate_size\":512,\"vocab_size\":1000,\"num_local_experts\":4}," GPU
                       ",\"training\":{\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":4096,\"attention\":\"sdpa\",\"expert_skew\":%s},\"stack\":{\"transformers\":\"%s\"}}",
                       rows[i].skew, rows[i].release);
        reply = ask(body);
        ck_assert_msg(reply.r.status == 200, "%s: %s", body, reply_text(&reply, "detail"));
        ck_assert(json_uint64(json_get(json_get(json_first(json_get(reply.doc, "candidates")), "memory"), "peak_allocated_bytes"), &peak[i]));
        json_each (a, json_get(reply.doc, "assumptions"))
            said |= strstr(json_str(a), "a token takes 2 of 4") != NULL;
        ck_assert(said);
        reply_done(reply);
    }
    ck_assert_uint_eq(peak[0], peak[1]);
    ck_assert_uint_lt(peak[2], peak[3]);
    ck_assert_uint_eq(peak[3], peak[4]); /* two shares of four are all tokens, where each takes two experts */
}
END_TEST

/* Spellings that people use, and the one that is answered: a path into `resolved`. */
static const struct {
    const char *body, *group, *member, *word;
    uint64_t number;
} spelled[] = {
    {TRAIN("\"precision\":\"bfloat16\""), "training", "precision", "bf16", 0},
    {TRAIN("\"precision\":\"Half\""), "training", "precision", "fp16", 0},
    {TRAIN("\"max_seq_length\":640"), "training", "seq_len", NULL, 640},
    {TRAIN("\"per_device_train_batch_size\":3"), "training", "micro_batch_size", NULL, 3},
    {TRAIN("\"micro_batch_size\":2,\"global_batch_size\":8"), "training", "gradient_accumulation_steps", NULL, 4},
    {TRAIN("\"optim\":\"ADAMW-torch\""), "training", "optimizer", "adamw_torch", 0},
    {TRAIN("\"attention\":null"), "training", "attention", "sdpa", 0},
    {"{" OPT ",\"cluster\":{\"gpu\":\"a100 40gb\",\"free_memory_bytes\":[\"30GB\",\"20GiB\"]}}", "cluster", "free_memory_bytes", NULL,
     UINT64_C(20) << 30},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.2.2\",\"transformers\":\"4.40.0\"}}", "stack", "peft", "0.10", 0},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.2.2\",\"transformers\":\"4.40.0\"}}", "training", "attention", "eager", 0},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"2.2.2\",\"transformers\":\"4.40.0\"}}", "training", "optimizer", "adamw_torch", 0},
    {"{" OPT ",\"cluster\":{\"name\":\"Mahti\"}}", "cluster", "gpu", "A100-40GB SXM", 0},
    {"{" OPT ",\"cluster\":{\"name\":\"Mahti\"}}", "cluster", "gpus_per_node", NULL, 4},
    {"{" OPT "," GPU "}", "training", "optimizer", "adamw_torch_fused", 0},
    {"{" OPT "," GPU "}", "training", "seq_len", NULL, 2048},
};

START_TEST(resolves)
{
    struct reply reply = ask(spelled[_i].body);
    const struct json *v = json_get(json_get(json_get(reply.doc, "resolved"), spelled[_i].group), spelled[_i].member);
    uint64_t n = 0;

    ck_assert_msg(reply.r.status == 200, "%s: %s", spelled[_i].body, reply_text(&reply, "detail"));
    if (spelled[_i].word)
        ck_assert_str_eq(json_str(v) ? json_str(v) : "(no string)", spelled[_i].word);
    else
        ck_assert_msg(json_uint64(v, &n) && n == spelled[_i].number, "%s: %llu", spelled[_i].body, (unsigned long long)n);
    reply_done(reply);
}
END_TEST

START_TEST(names_what_it_ignored)
{
    struct reply reply = ask(TRAIN("\"learning_rate\":1e-4,\"a/b~c\":1,\"a/b~c\":2"));
    const struct json *first = json_first(json_get(reply.doc, "ignored"));

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_str_eq(json_str(first), "/training/a~1b~0c");
    ck_assert_ptr_null(json_next(first));
    reply_done(reply);
}
END_TEST

START_TEST(equal_requests_get_equal_bytes)
{
    struct reply a = ask(TRAIN("\"seq_len\":256")), b = ask(TRAIN("\"seq_len\":256"));

    ck_assert_int_eq(a.r.status, 200);
    ck_assert_uint_eq(a.r.bytes, b.r.bytes);
    ck_assert(!memcmp(a.r.body, b.r.body, a.r.bytes));
    reply_done(a);
    reply_done(b);
}
END_TEST

/* The largest micro-batch is that: it fits, and one more does not. */
START_TEST(a_larger_batch_than_the_largest_does_not_fit)
{
    struct reply searched = ask(TRAIN("\"seq_len\":1024,\"tuning\":\"full\",\"gradient_checkpointing\":false"));
    const struct json *c = json_first(json_get(searched.doc, "candidates"));
    uint64_t largest = 0;

    ck_assert(json_uint64(json_get(c, "max_micro_batch_size"), &largest) && largest > 1);
    for (uint64_t more = 0; more < 2; more++) {
        char body[256];
        struct reply reply;
        bool fits = more;

        (void)snprintf(body, sizeof body,
                       TRAIN("\"seq_len\":1024,\"tuning\":\"full\",\"gradient_checkpointing\":false,\"micro_batch_size\":%llu"),
                       (unsigned long long)(largest + more));
        reply = ask(body);
        ck_assert(json_bool(json_get(reply.doc, "fits"), &fits));
        ck_assert_msg(fits == !more, "%s", body);
        reply_done(reply);
    }
    reply_done(searched);
}
END_TEST

/* An asked micro-batch is judged by itself, unless the largest is asked for beside it. */
START_TEST(searches_the_largest_beside_an_asked_batch_for_who_asks)
{
    static const struct {
        const char *path;
        bool told;
    } cases[] = {{"/estimate", false}, {"/estimate?largest=false", false}, {"/estimate?largest=true", true}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct reply reply = ask_within(API_ARENA_BYTES, "POST", cases[i].path, NULL, TRAIN("\"seq_len\":1024,\"tuning\":\"full\",\"micro_batch_size\":1"));
        const struct json *c = json_first(json_get(reply.doc, "candidates"));
        uint64_t largest = 0;

        ck_assert_int_eq(json_uint64(json_get(c, "max_micro_batch_size"), &largest), cases[i].told);
        ck_assert_int_eq(largest > 1, cases[i].told);
        reply_done(reply);
    }
}
END_TEST

START_TEST(says_what_is_missing)
{
    struct reply reply = ask("{\"model\":\"facebook/opt-13b\"," GPU ",\"training\":{\"tuning\":\"full\",\"micro_batch_size\":4}}");
    const struct json *c = json_first(json_get(reply.doc, "candidates"));
    bool fits = true;

    ck_assert(json_bool(json_get(reply.doc, "fits"), &fits) && !fits);
    ck_assert_str_eq(json_str(json_get(json_get(c, "reason"), "code")), "does-not-fit");
    ck_assert(strstr(json_str(json_get(json_get(c, "reason"), "detail")), "GiB more at"));
    ck_assert_int_eq(json_type(json_get(c, "memory")), JSON_OBJECT);
    ck_assert_int_eq(json_type(json_get(reply.doc, "recommendation")), JSON_NULL);
    reply_done(reply);
}
END_TEST

static uint64_t whole(const struct json *o, const char *name)
{
    uint64_t n = 0;

    ck_assert_msg(json_uint64(json_get(o, name), &n), "%s", name);
    return n;
}

/* Between its first release under accelerate launch and the Trainer's own flag, fully_shard is started by FSDP's strategy and a version. */
START_TEST(starts_fully_shard_of_any_release)
{
    static const char *const transformers[] = {"4.53", "5.0", "5.9", "5.10", "5.23"};

    for (size_t i = 0; i < sizeof transformers / sizeof *transformers; i++) {
        char body[384];
        struct reply reply;
        const struct json *launch;

        (void)snprintf(body, sizeof body,
                       "{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4},\"training\":{\"methods\":\"fsdp2\",\"seq_len\":64,\"tuning\":\"full\","
                       "\"micro_batch_size\":1},\"stack\":{\"transformers\":\"%s\"}}",
                       transformers[i]);
        reply = ask(body);
        launch = json_get(json_get(reply.doc, "recommendation"), "launch");
        ck_assert_msg(json_str(json_get(launch, "command")) && strstr(json_str(json_get(launch, "command")), "--fsdp"), "transformers %s", transformers[i]);
        reply_done(reply);
    }
}
END_TEST

/* Ids and labels are left of the batch that the Trainer still holds between two steps: 8 bytes a token less. Nothing that it attends to differs. */
START_TEST(a_batch_without_a_mask_holds_that_much_less)
{
    uint64_t resting[2], peak[2];

    for (int i = 0; i < 2; i++) {
        char body[256];
        struct reply reply;
        const struct json *memory;

        (void)snprintf(body, sizeof body, TRAIN("\"seq_len\":512,\"tuning\":\"full\",\"gradient_checkpointing\":false,\"micro_batch_size\":2,\"attention_mask\":%s"),
                       i ? "true" : "false");
        reply = ask(body);
        memory = json_get(json_first(json_get(reply.doc, "candidates")), "memory");
        resting[i] = whole(memory, "resting_bytes");
        peak[i] = whole(memory, "peak_allocated_bytes");
        reply_done(reply);
    }
    ck_assert_uint_eq(resting[0] + UINT64_C(8) * 2 * 512, resting[1]);
    ck_assert_uint_lt(peak[0], peak[1]);
    ck_assert_uint_lt(peak[1] - peak[0], UINT64_C(64) * 2 * 512);
}
END_TEST

#define DDP(inner)                                                                                                                                     \
    "{" OPT                                                                                                                                            \
    ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":4,\"nodes\":2},\"training\":{\"methods\":\"ddp\",\"seq_len\":64,\"tuning\":\"full\"," inner \
    "}}"

/* Eight replicas: the batch, the buckets, and what is taken for granted. */
START_TEST(answers_for_ddp)
{
    struct reply reply = ask(DDP("\"precision\":\"bf16\",\"micro_batch_size\":2,\"global_batch_size\":48,\"gradient_checkpointing\":true"));
    const struct json *c = json_first(json_get(reply.doc, "candidates")), *parts = json_get(json_get(c, "memory"), "breakdown_bytes");
    const struct json *resolved = json_get(json_get(reply.doc, "resolved"), "training");
    bool third_step = false;

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_str_eq(json_str(json_get(c, "method")), "ddp");
    ck_assert_uint_eq(whole(c, "data_parallel"), 8);
    ck_assert_uint_eq(whole(c, "gradient_accumulation_steps"), 3);
    ck_assert_uint_eq(whole(c, "global_batch_size"), 48);
    ck_assert_uint_ge(whole(parts, "communication"), 2 * UINT64_C(125239296)); /* a second copy of the gradients */
    ck_assert_uint_lt(whole(parts, "communication"), 3 * UINT64_C(125239296));
    ck_assert_uint_eq(whole(json_get(resolved, "buckets"), "ddp_bytes"), 26214400);
    json_each (a, json_get(reply.doc, "assumptions"))
        third_step |= json_str(a) && strstr(json_str(a), "third step");
    ck_assert(third_step);
    reply_done(reply);
}
END_TEST

/* sdp_utils.cpp check_prefer_cudnn_attention: by GPU, dtype and release. */
START_TEST(says_whose_attention_it_is)
{
    static const struct {
        const char *gpu, *torch, *precision, *further, *said;
    } rows[] = {{"H100-80GB SXM", "2.15", "bf16", "", "as measured on an H100"},
                {"H100-80GB SXM", "2.11", "bf16", "", "as measured on an H100"},
                {"H100-80GB SXM", "2.10", "bf16", "", NULL},
                {"H100-80GB SXM", "2.15", "fp32", "", NULL},
                {"H100-80GB SXM", "2.15", "bf16", ",\"cudnn_attention\":false", NULL},
                {"B200", "2.15", "bf16", "", "it was not measured"},
                {"A100-80GB SXM", "2.15", "bf16", "", NULL}};

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[512];
        struct reply reply;
        bool said = false;

        (void)snprintf(body, sizeof body, "{" OPT ",\"cluster\":{\"gpu\":\"%s\"},\"training\":{\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":64,"
                       "\"precision\":\"%s\"%s},\"stack\":{\"torch\":\"%s\"}}", rows[i].gpu, rows[i].precision, rows[i].further, rows[i].torch);
        reply = ask(body);
        ck_assert_msg(reply.r.status == 200, "%s: %s", body, reply_text(&reply, "detail"));
        json_each (a, json_get(reply.doc, "assumptions"))
            said |= json_str(a) && strstr(json_str(a), rows[i].said ? rows[i].said : "cuDNN's attention");
        ck_assert_msg(said == (rows[i].said != NULL), "%s", body);
        reply_done(reply);
    }
}
END_TEST

/* Up to eight ranks all are played; of more those that the order before dealing makes likely. And who loads what under FSDP. */
static const struct {
    const char *cluster, *training, *stack, *said;
} loads_and_ranks[] = {
    {"\"gpus_per_node\":8", "\"methods\":\"zero2\",\"buckets\":{\"round_robin\":true}", "", NULL},
    {"\"gpus_per_node\":8,\"nodes\":2", "\"methods\":\"zero2\",\"buckets\":{\"round_robin\":true}", "", "of more than 8 ranks"},
    {"\"gpus_per_node\":8,\"nodes\":2", "\"methods\":\"zero2\"", "", NULL},
    {"\"gpus_per_node\":2", "\"methods\":\"fsdp2\",\"tuning\":\"qlora\"", "", "loads all of them onto each GPU"},
    {"\"gpus_per_node\":2", "\"methods\":\"fsdp2\",\"tuning\":\"qlora\"", "\"transformers\":\"4.57\"", "they wait on the host"},
    {"\"gpus_per_node\":2", "\"methods\":\"fsdp2\",\"tuning\":\"lora\"", "", NULL},
};

START_TEST(says_who_loads_and_which_ranks_are_played)
{
    static const char *const any[] = {"of more than 8 ranks", "loads all of them onto each GPU", "they wait on the host"};
    bool said[3] = {false, false, false};
    char body[512];
    struct reply reply;

    (void)snprintf(body, sizeof body, "{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\",%s},\"training\":{%s,\"micro_batch_size\":1,\"seq_len\":64},\"stack\":{%s}}",
                   loads_and_ranks[_i].cluster, loads_and_ranks[_i].training, loads_and_ranks[_i].stack);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s: %s", body, reply_text(&reply, "detail"));
    for (int i = 0; i < 3; i++) {
        json_each (a, json_get(reply.doc, "assumptions"))
            said[i] |= json_str(a) && strstr(json_str(a), any[i]);
        ck_assert_msg(said[i] == (loads_and_ranks[_i].said && !strcmp(loads_and_ranks[_i].said, any[i])), "%s: %s", body, any[i]);
    }
    reply_done(reply);
}
END_TEST

START_TEST(fills_the_global_batch_with_every_replica)
{
    struct reply reply = ask(DDP("\"global_batch_size\":64,\"gradient_checkpointing\":false"));
    const struct json *c = json_first(json_get(reply.doc, "candidates"));

    ck_assert_uint_eq(whole(c, "micro_batch_size") * whole(c, "gradient_accumulation_steps") * 8, 64);
    ck_assert_uint_eq(whole(c, "global_batch_size"), 64);
    reply_done(reply);
}
END_TEST

/* What nobody said is not told to say nothing, nor echoed. */
START_TEST(is_silent_of_what_was_not_asked)
{
    struct reply reply = ask("{" OPT ",\"cluster\":{\"gpu\":\"A100-40GB\"},\"training\":{\"tuning\":\"full\",\"seq_len\":64}}");

    ck_assert_int_eq(reply.r.status, 200);
    json_each (a, json_get(reply.doc, "assumptions"))
        ck_assert_msg(!strstr(json_str(a), "says nothing here"), "%s", json_str(a));
    ck_assert(!reply_at(&reply, "resolved/training/lora"));
    ck_assert(!reply_at(&reply, "resolved/cluster/intra_node"));
    reply_done(reply);
}
END_TEST

/* What the Trainer sets by itself ends in an error there: the answer is about the run that works, and says so. */
START_TEST(ignores_unused_parameters_under_reentrant_checkpoints)
{
    struct reply reply =
        ask("{" OPT
            ",\"cluster\":{\"gpu\":\"A100-40GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"ddp\",\"seq_len\":64,\"tuning\":\"lora\","
            "\"micro_batch_size\":1,\"gradient_checkpointing\":true,\"checkpoint_reentrant\":true}}");
    bool said = false;

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_int_eq(json_type(json_get(json_first(json_get(reply.doc, "candidates")), "memory")), JSON_OBJECT);
    json_each (a, json_get(reply.doc, "assumptions"))
        said |= json_str(a) && strstr(json_str(a), "ddp_find_unused_parameters");
    ck_assert(said);
    reply_done(reply);
}
END_TEST

/* What no degree of GPUs or no framework allows: the candidate keeps its reason. */
static const struct {
    const char *body, *code, *says;
} impossible[] = {
    {DDP("\"micro_batch_size\":1,\"tensor_parallel\":2"), "not-offered", "tp+ddp"},
    {DDP("\"micro_batch_size\":1,\"offload\":\"optimizer\""), "not-offered", "no offload"},
    {TRAIN("\"tensor_parallel\":2"), "needs-gpus", "more than 1 GPU"},
    {TRAIN("\"offload\":\"optimizer+params\""), "not-offered", "single has no offload"},
};

START_TEST(gives_the_reason_why_a_layout_cannot_be)
{
    struct reply reply = ask(impossible[_i].body);
    const struct json *reason = json_get(json_first(json_get(reply.doc, "candidates")), "reason");

    ck_assert_int_eq(reply.r.status, 200);
    ck_assert_int_eq(json_type(json_get(reply.doc, "fits")), JSON_NULL);
    ck_assert_str_eq(json_str(json_get(reason, "code")), impossible[_i].code);
    ck_assert_msg(strstr(json_str(json_get(reason, "detail")), impossible[_i].says), "%s", json_str(json_get(reason, "detail")));
    reply_done(reply);
}
END_TEST

/* Every allocation's turn to fail: an answer or a clean 503, whatever the room. */
START_TEST(survives_any_arena_size)
{
    for (size_t room = 0; room < 24 << 20; room = room < 4096 ? room + 97 : room + room / 7) {
        struct reply reply =
            ask_within(room + 1, "POST", "/estimate", NULL,
                       TRAIN("\"seq_len\":64,\"micro_batch_size\":1,\"tuning\":\"full\",\"gradient_checkpointing\":false"));

        ck_assert_msg(reply.r.status == 200 || reply.r.status == 503, "room %zu: %d", room, reply.r.status);
        reply_done(reply);
    }
}
END_TEST

/* A slot, a node, a module that is taken has to be made anew: in a daemon it is what another question left. */
#define SMALL(type, more) "\"config\":{\"model_type\":\"" type "\",\"hidden_size\":256,\"num_hidden_layers\":4,\"num_attention_heads\":4,\"vocab_size\":1000" more "}"
#define ON(n)             "\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":" n "}"
static const char *const over_what_was[] = {
    "{" SMALL("bloom", "") "," ON("1") ",\"training\":{\"precision\":\"bf16-mixed\",\"gradient_checkpointing\":true,\"checkpoint_reentrant\":true,\"seq_len\":64}}",
    "{" SMALL("llama", ",\"intermediate_size\":512") "," ON("1") ",\"training\":{\"tuning\":\"qlora\",\"seq_len\":64},\"stack\":{\"torch\":\"2.4\",\"transformers\":\"4.48\"}}",
    "{" SMALL("qwen2", ",\"intermediate_size\":512,\"num_key_value_heads\":2") "," ON("4") ",\"training\":{\"precision\":\"bf16-mixed\",\"seq_len\":64}}",
    "{" SMALL("qwen2", ",\"intermediate_size\":512,\"num_key_value_heads\":2") "," ON("4") ",\"training\":{\"tuning\":\"lora\",\"precision\":\"bf16-autocast\",\"seq_len\":64,\"stage\":\"dpo\"}}",
    "{" SMALL("mixtral", ",\"intermediate_size\":512,\"num_local_experts\":4,\"output_router_logits\":true") "," ON("2") ",\"training\":{\"precision\":\"bf16-mixed\","
    "\"seq_len\":64,\"gradient_accumulation_steps\":2}}",
    "{" SMALL("gemma2", ",\"intermediate_size\":512,\"head_dim\":64,\"num_key_value_heads\":2") "," ON("2") ",\"training\":{\"methods\":[\"tp\",\"tp+fsdp2\",\"hsdp2\",\"pp\"],"
    "\"precision\":\"bf16-mixed\",\"seq_len\":64}}",
    "{" SMALL("llama", ",\"intermediate_size\":512") "," ON("1") ",\"workload\":\"inference\",\"inference\":{\"prompt_tokens\":32,\"new_tokens\":8}}",
};

START_TEST(what_memory_held_before_moves_nothing)
{
    struct reply zeros = ask_over(0, over_what_was[_i]), ones = ask_over(0xff, over_what_was[_i]);

    ck_assert_int_eq(zeros.r.status, 200);
    ck_assert_msg(zeros.r.bytes == ones.r.bytes && !memcmp(zeros.r.body, ones.r.body, zeros.r.bytes), "%s:\n%s\n%s", over_what_was[_i], zeros.r.body, ones.r.body);
    reply_done(zeros);
    reply_done(ones);
}
END_TEST

UNIT_TESTS("api/estimate", unit_test(shards_an_encoder); unit_rows(what_memory_held_before_moves_nothing, over_what_was);
    unit_test(is_silent_of_what_was_not_asked);
    unit_test(leaves_what_liger_does_not_know);
    unit_rows(answers_what_is_not_modelled, unmodelled); unit_rows(a_type_that_nobody_knows_is_sketched, generic);
    unit_rows(the_loss_that_balances_experts_is_answered_in_every_release, balances);
    unit_rows(says_who_loads_and_which_ranks_are_played, loads_and_ranks);
    unit_rows(a_known_class_answers_for_a_type_that_nobody_knows, of_a_class);
           unit_test(experts_and_how_tokens_fall); unit_rows(warns_of_untraced_kernels, gpus_asked); unit_rows(resolves, spelled);
           unit_test(starts_fully_shard_of_any_release);
    unit_test(a_batch_without_a_mask_holds_that_much_less);
    unit_test(names_what_it_ignored); unit_test(equal_requests_get_equal_bytes);
           unit_test(a_larger_batch_than_the_largest_does_not_fit);
           unit_test(searches_the_largest_beside_an_asked_batch_for_who_asks); unit_test(says_what_is_missing); unit_test(answers_for_ddp);
           unit_test(says_whose_attention_it_is);
           unit_test(fills_the_global_batch_with_every_replica); unit_test(ignores_unused_parameters_under_reentrant_checkpoints);
           unit_rows(gives_the_reason_why_a_layout_cannot_be, impossible); unit_test(survives_any_arena_size);)
