/* Workload inference: laws of its answer; its bytes beside PyTorch's are in tests/data/accuracy/generate.jsonl (tests/unit/test_generate.c). */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct reply asked(const char *gpu, const char *inference, const char *more)
{
    char body[600];

    bool members = strchr(gpu, '"') != NULL; /* of the cluster, written out; else a GPU's name */

    (void)snprintf(body, sizeof body, "{\"model\":\"Qwen/Qwen3-0.6B\",\"workload\":\"inference\",\"cluster\":{%s%s%s},\"inference\":{%s}%s}",
                   members ? "" : "\"gpu\":\"", gpu, members ? "" : "\"", inference, more);
    return ask(body);
}

static double figure(const char *gpu, const char *inference, const char *path)
{
    struct reply reply = asked(gpu, inference, "");
    double v;

    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_msg(json_number(reply_at(&reply, path), &v), "%s: no %s in %s", inference, path, reply.r.body);
    reply_done(reply);
    return v;
}

#define OF(weights, more) "\"weights\":\"" weights "\",\"prompt_tokens\":400,\"new_tokens\":50" more
#define PEAK "candidates/0/memory/peak_allocated_bytes"

START_TEST(each_form_of_the_weights_holds_what_it_packs)
{
    double fp32 = figure("A100", OF("fp32", ""), "candidates/0/memory/static_bytes"), bf16 = figure("A100", OF("bf16", ""), "candidates/0/memory/static_bytes");
    double int8 = figure("A100", OF("int8", ""), "candidates/0/memory/static_bytes"), nf4 = figure("A100", OF("nf4", ""), "candidates/0/memory/static_bytes");
    double twice = figure("A100", OF("nf4-dq", ""), "candidates/0/memory/static_bytes");

    ck_assert(twice < nf4 && nf4 < int8 && int8 < bf16 && bf16 < fp32);
}
END_TEST

/*
 * What others printed of one GPU, beside the figure of ours that it is: QwenLM/Qwen3 docs/source/getting_started/speed_benchmark.md (MiB, transformers 4.51) prints
 * what stands when the last token is made: weights, cache and cuBLAS's workspace, less than the products of its prompt. Its AWQ rows are the peak of the tokens.
 */
static const struct {
    const char *model, *weights, *stack, *path;
    int prompt, tokens;
    double bytes;
} published[] = {
#define MIB(n) ((n) * 1048576.0)
#define REST "candidates/0/memory/resting_bytes"
#define TOKENS "candidates/0/memory/phase_peaks_bytes/decode"
    {"Qwen/Qwen3-0.6B", "bf16", "4.51", REST, 6144, 2048, MIB(2066)},
    {"Qwen/Qwen3-8B", "bf16", "4.51", REST, 30720, 2048, MIB(20267)},
    {"Qwen/Qwen3-32B", "bf16", "4.51", REST, 30720, 2048, MIB(70728)},
    {"Qwen/Qwen3-30B-A3B", "bf16", "4.51", REST, 6144, 2048, MIB(59037)},
    {"Qwen/Qwen3-8B", "fp8", "4.51", REST, 30720, 2048, MIB(13644)},
    {"Qwen/Qwen3-1.7B", "gptq8", "4.51", REST, 6144, 2048, MIB(2901)},
    {"Qwen/Qwen3-14B", "awq4", "4.51", TOKENS, 6144, 2048, MIB(11020)},
    {"Qwen/Qwen3-32B", "awq4", "4.51", TOKENS, 30720, 2048, MIB(27718)},
};

START_TEST(is_what_others_printed)
{
    char body[500];
    double v = 0;
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"H20\"},\"inference\":{\"weights\":\"%s\",\"prompt_tokens\":%d,"
                   "\"new_tokens\":%d,\"batch_size\":1},\"stack\":{\"torch\":\"2.6\",\"transformers\":\"%s\"}}",
                   published[_i].model, published[_i].weights, published[_i].prompt, published[_i].tokens, published[_i].stack);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, published[_i].path), &v), "%s", reply.r.body);
    ck_assert_msg(v > published[_i].bytes * 0.995 && v < published[_i].bytes * 1.005, "%s in %s: %.0f, not %.0f", published[_i].model, published[_i].weights, v,
                  published[_i].bytes);
    reply_done(reply);
}
END_TEST

/* transformers' guide "Optimizing LLMs for Speed and Memory": max_memory_allocated() of octocoder, 60 tokens, bitsandbytes 0.41, whose 4 bits load in fp16 and
 * compute in fp32 by default; a V100's weights are fp16. */
static const struct {
    const char *gpu, *inference;
    double gib;
} octocoder[] = {
    {"A100-80GB", "\"weights\":\"bf16\"", 29.0260648727417},
    {"A100-80GB", "\"weights\":\"int8\"", 15.219234466552734},
    {"V100-32GB", "\"weights\":\"fp4\",\"compute_dtype\":\"fp32\"", 9.543574333190918},
};

START_TEST(octocoder_is_within_three_percent)
{
    char body[700];
    double v = 0;
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"config\":{\"model_type\":\"gpt_bigcode\",\"n_embd\":6144,\"n_layer\":40,\"n_head\":48,\"n_inner\":24576,\"multi_query\":true,"
                   "\"vocab_size\":49152,\"n_positions\":8192,\"activation_function\":\"gelu\"},\"workload\":\"inference\",\"cluster\":{\"gpu\":\"%s\"},"
                   "\"inference\":{%s,\"prompt_tokens\":30,\"new_tokens\":60,\"batch_size\":1},\"stack\":{\"torch\":\"2.15\",\"transformers\":\"5.23\","
                   "\"bitsandbytes\":\"0.41\"}}",
                   octocoder[_i].gpu, octocoder[_i].inference);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, PEAK), &v), "%s", reply.r.body);
    ck_assert_msg(fabs(v / (octocoder[_i].gib * 1073741824) - 1) < 0.03, "%s: %.0f", octocoder[_i].inference, v);
    reply_done(reply);
}
END_TEST

/* mamba's own path multiplies a weight that bitsandbytes has packed: of the forms that are compared that one has a reason, the others figures. */
START_TEST(a_form_that_raises_leaves_the_others)
{
    struct reply reply = ask("{\"config\":{\"model_type\":\"mamba\",\"hidden_size\":64,\"num_hidden_layers\":2,\"state_size\":8,\"vocab_size\":100},"
                             "\"workload\":\"inference\",\"cluster\":{\"gpu\":\"A100\"},\"inference\":{\"prompt_tokens\":16,\"new_tokens\":4}}");
    const char *code = json_str(reply_at(&reply, "candidates/2/reason/code")), *detail;
    double v = 0;

    ck_assert_msg(reply.r.status == 200 && json_number(reply_at(&reply, PEAK), &v), "%s", reply.r.body);
    ck_assert_msg(code && !strcmp(code, "modeling-raised"), "%s", reply.r.body);
    detail = json_str(reply_at(&reply, "candidates/2/reason/detail"));
    ck_assert_msg(detail && strstr(detail, "the modelling code raises with nf4 weights: RuntimeError: "), "%s", detail);
    reply_done(reply);
}
END_TEST

#define QWEN "Qwen/Qwen3-0.6B"                      /* 440,401,920 weights of linears, a table of 155,582,464 */
#define TINY "TinyLlama/TinyLlama-1.1B-Chat-v1.0" /* 968,884,224, a table and a head of 65,536,000 */

/* The linears' words, a half and a zero of 128 rows for each column, what is left in half; exllama's buffer of 2048 x 5632 halves. A block is up to 1 MiB larger
 * than what lies in it. */
static const struct {
    const char *model, *weights, *stack;
    double bytes;
} packed[] = {
    {QWEN, "gptq4", "4.51", 540.0e6}, {QWEN, "gptq4", "5.23", 538.3e6}, {QWEN, "gptq8", "4.51", 761.9e6},  {QWEN, "gptq8", "5.23", 758.5e6},
    {QWEN, "awq4", "4.51", 540.0e6},  {QWEN, "awq4", "5.23", 540.0e6},  {QWEN, "fp8", "4.51", 751.7e6},    {QWEN, "fp8", "5.23", 751.7e6},
    {TINY, "gptq4", "4.47", 788.6e6}, {TINY, "gptq4", "4.50", 765.5e6}, {TINY, "gptq8", "4.47", 1305e6}, {TINY, "awq4", "4.47", 765.5e6},
};

START_TEST(packed_checkpoints_hold_what_they_store)
{
    char body[400];
    double v = 0;
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"H100\"},\"inference\":{\"weights\":\"%s\",\"prompt_tokens\":200,"
                   "\"new_tokens\":20},\"stack\":{\"transformers\":\"%s\"}}",
                   packed[_i].model, packed[_i].weights, packed[_i].stack);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/static_bytes"), &v), "%s", reply.r.body);
    ck_assert_msg(v >= packed[_i].bytes && v <= packed[_i].bytes * 1.02, "%s of %s on %s: %.0f", packed[_i].weights, packed[_i].model, packed[_i].stack, v);
    reply_done(reply);
}
END_TEST

/* A quantization_config says the form; groups and what stays in half are its own. */
static const struct {
    const char *config, *weights;
} checkpoints[] = {
    {"{\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":64,\"desc_act\":false}", "gptq4"},
    {"{\"quant_method\":\"gptq\",\"bits\":8,\"group_size\":128}", "gptq8"},
    {"{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"version\":\"gemm\"}", "awq4"},
    {"{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128],\"activation_scheme\":\"dynamic\",\"modules_to_not_convert\":[\"mlp.down_proj\",\"\",3]}", "fp8"},
    {"{\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\",\"bnb_4bit_use_double_quant\":true}", "nf4-dq"},
};

START_TEST(a_checkpoint_says_its_form)
{
    char more[400];
    struct reply reply;
    double asked_alone = figure("H100", "\"weights\":\"fp8\",\"prompt_tokens\":8,\"new_tokens\":2", "candidates/0/memory/static_bytes"), v = 0;

    (void)snprintf(more, sizeof more, ",\"config\":{\"quantization_config\":%s}", checkpoints[_i].config);
    reply = asked("H100", "\"prompt_tokens\":8,\"new_tokens\":2", more);
    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_uint_eq(json_count(json_get(reply.doc, "candidates")), 1);
    ck_assert_str_eq(json_str(reply_at(&reply, "candidates/0/weights")), checkpoints[_i].weights);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/static_bytes"), &v), "%s", reply.r.body);
    if (!strcmp(checkpoints[_i].weights, "fp8")) /* down_proj in half: 28 x 3072 x 1024 bytes more, less what lay beside them in blocks */
        ck_assert_msg(v > asked_alone + 78e6 && v < asked_alone + 88.1e6, "%.0f %.0f", v, asked_alone);
    reply_done(reply);
}
END_TEST

START_TEST(more_never_holds_less)
{
    static const char *const rising[] = {OF("bf16", ""), OF("bf16", ",\"batch_size\":2"), OF("bf16", ",\"batch_size\":5"), OF("bf16", ",\"batch_size\":16")};
    double before = 0;

    for (size_t i = 0; i < sizeof rising / sizeof *rising; i++) {
        double now = figure("A100", rising[i], PEAK);

        ck_assert_msg(now >= before, "%s: %.0f, before %.0f", rising[i], now, before);
        before = now;
    }
    ck_assert(figure("A100", "\"weights\":\"bf16\",\"prompt_tokens\":64,\"new_tokens\":900", "candidates/0/memory/kv_cache_bytes") >
              figure("A100", "\"weights\":\"bf16\",\"prompt_tokens\":64,\"new_tokens\":899", "candidates/0/memory/kv_cache_bytes"));
}
END_TEST

#define OF_KV(more) "\"weights\":\"bf16\",\"prompt_tokens\":400,\"new_tokens\":50" more
#define AT_REST "candidates/0/memory/resting_bytes"

/* 28 layers of 2 x 8 heads of 128: 229,376 bytes an element's byte; at rest a cache stands once, beside the model and a few rows. */
START_TEST(caches_hold_what_they_store)
{
    double cache = 28.0 * 2 * 8 * 128 * (400 + 49), still = figure("A100", OF_KV(""), "candidates/0/memory/static_bytes");
    double grows = figure("A100", OF_KV(""), AT_REST), fp8 = figure("A100", OF_KV(",\"kv_cache\":\"fp8\""), AT_REST),
           whole = figure("A100", OF_KV(",\"cache\":\"static\""), AT_REST);

    ck_assert(figure("A100", OF_KV(""), "candidates/0/memory/kv_cache_bytes") == 2 * cache);
    ck_assert(figure("A100", OF_KV(",\"cache\":\"static\""), "candidates/0/memory/kv_cache_bytes") == 2 * cache);
    ck_assert(figure("A100", OF_KV(",\"kv_cache\":\"fp8\""), "candidates/0/memory/kv_cache_bytes") == cache);
    ck_assert_msg(grows > still + 2 * cache && grows < still + 2 * cache + 12e6, "%.0f %.0f", grows, still);
    ck_assert_msg(fp8 > still + cache && fp8 < grows, "%.0f %.0f", fp8, grows);
    ck_assert_msg(whole > still + 2 * cache && whole < still + 2 * cache + 12e6, "%.0f %.0f", whole, still);
    ck_assert(figure("A100", OF_KV(""), PEAK) >= grows);
}
END_TEST

START_TEST(a_longer_prompt_never_holds_less)
{
    static const unsigned long tokens[] = {1, 7, 64, 65, 400, 1024, 1025, 4096};
    static const char *const of[] = {"", ",\"kv_cache\":\"fp8\"", ",\"cache\":\"static\"", ",\"weights\":\"nf4\"", ",\"weights\":\"awq4\""};

    for (size_t k = 0; k < sizeof of / sizeof *of; k++)
        for (double before = 0, i = 0; i < (double)(sizeof tokens / sizeof *tokens); i++) {
            char inference[160];
            double now;

            (void)snprintf(inference, sizeof inference, "\"prompt_tokens\":%lu,\"new_tokens\":8%s%s", tokens[(size_t)i],
                           strstr(of[k], "weights") ? "" : ",\"weights\":\"bf16\"", of[k]);
            now = figure("A100", inference, PEAK);
            ck_assert_msg(now >= before, "%s: %.0f, before %.0f", inference, now, before);
            before = now;
        }
}
END_TEST

START_TEST(more_gpus_never_hold_more_each)
{
    static const unsigned degrees[] = {1, 2, 4, 8};
    double before = 1e18;

    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        char inference[160];
        double now;

        (void)snprintf(inference, sizeof inference, OF("bf16", ",\"tensor_parallel\":%u"), degrees[i]);
        now = figure("\"gpu\":\"A100\",\"gpus_per_node\":8", inference, PEAK);
        ck_assert_msg(now < before, "%u: %.0f, before %.0f", degrees[i], now, before);
        before = now;
    }
}
END_TEST

static const char *const short_and_long[] = {"\"weights\":\"fp16\",\"prompt_tokens\":900,\"new_tokens\":40", "\"weights\":\"fp16\",\"prompt_tokens\":32,\"new_tokens\":8",
                                             "\"weights\":\"fp16\",\"prompt_tokens\":128,\"new_tokens\":4"};

/* What is said to be the largest fits, and one more does not. */
START_TEST(the_largest_batch_is_the_largest)
{
    char inference[160];
    double most = figure("T4", short_and_long[_i], "recommendation/max_batch_size");
    struct reply reply;

    ck_assert(most > 1);
    for (int more = 0; more < 2; more++) {
        (void)snprintf(inference, sizeof inference, "%s,\"batch_size\":%.0f", short_and_long[_i], most + more);
        reply = asked("T4", inference, "");
        ck_assert_msg(reply.r.fits == !more, "%s: %.300s", inference, reply.r.body);
        ck_assert_int_eq(json_type(json_get(json_first(json_get(reply.doc, "candidates")), "reason")), more ? JSON_OBJECT : JSON_ABSENT);
        reply_done(reply);
    }
}
END_TEST

/* Each token's keys and values are new tensors: what a replay without a limit reserves of them, hundreds of gigabytes, is not what is missing. */
START_TEST(a_full_allocator_is_not_told_what_it_would_reserve)
{
    struct reply reply = ask("{\"model\":\"allenai/OLMo-2-1124-13B-DPO\",\"cluster\":{\"gpu\":\"V100-32GB\"},\"workload\":\"inference\",\"inference\":"
                             "{\"prompt_tokens\":128,\"new_tokens\":64,\"batch_size\":127,\"weights\":\"nf4\"}}");
    const char *detail = json_str(json_get(json_get(json_first(reply_at(&reply, "candidates")), "reason"), "detail"));

    ck_assert_msg(detail && strstr(detail, "cannot find a free block among those it holds, at decode"), "%s", detail ? detail : reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(compares_three_forms_where_none_is_named)
{
    struct reply reply = asked("RTX 4090", "\"prompt_tokens\":100,\"new_tokens\":20", "");
    const struct json *candidates = json_get(reply.doc, "candidates");

    ck_assert_uint_eq(json_count(candidates), 3);
    ck_assert(reply.r.fits);
    ck_assert_ptr_nonnull(strstr(reply.r.body, "inference.weights"));
    ck_assert_str_eq(json_str(reply_at(&reply, "resolved/workload")), "inference");
    ck_assert_str_eq(json_str(reply_at(&reply, "recommendation/memory/basis")), "replayed");
    reply_done(reply);
}
END_TEST

static const struct {
    const char *gpu, *inference, *more, *code, *says;
} refused[] = {
    {"V100 16GB", "\"weights\":\"bf16\"", "", "dtype-unsupported", "fp16"},
    {"A100", "\"weights\":\"bf16\"", ",\"stack\":{\"transformers\":\"4.40\"}", "not-modelled", "4."}, /* qwen3 came with 4.51 */
    {"\"gpu\":\"A100\",\"gpus_per_node\":2", "\"weights\":\"nf4\",\"tensor_parallel\":2", "", "not-modelled", "quantised"},
    {"\"gpu\":\"A100\",\"gpus_per_node\":3", "\"tensor_parallel\":3", "", "not-modelled", "3"},
    {"A100", "\"weights\":\"fp8\"", "", "dtype-unsupported", "8.9"},
    {"A100", "\"prompt_tokens\":8", ",\"config\":{\"quantization_config\":{\"quant_method\":\"gptq\",\"bits\":4,\"desc_act\":true}}", "not-modelled", "quantization_config"},
    {"A100", "\"kv_cache\":\"fp8\"", ",\"stack\":{\"transformers\":\"5.20\"}", "not-offered", "5.21"},
    {"A100", "\"cache\":\"static\"", ",\"stack\":{\"transformers\":\"5.17\"}", "not-modelled", "5.18"},
    {"A100", "\"cache_implementation\":\"quantized\"", "", "not-modelled", "quantized"},
    {"A100", "\"num_beams\":4", "", "not-modelled", "beam"},
    {"A100", "\"num_return_sequences\":4", "", "not-modelled", "do_sample"},
    {"A100", "\"weights\":\"fp32\",\"kv_cache\":\"bf16\"", "", "not-offered", "in fp32"},
    {"A100", "\"kv_cache\":\"int4\"", "", "not-modelled", "int4"},
    {"A100", "\"device_map\":\"auto\",\"max_memory\":{\"0\":\"10GiB\",\"1\":\"10GiB\"}", "", "not-modelled", "more GPUs"},
    {"A100", "\"engine\":\"vllm\",\"pipeline_parallel_size\":2", "", "not-modelled", "vLLM"},
    {"A100", "\"speculative_model\":\"Qwen/Qwen3-0.6B\"", "", "not-modelled", "speculative"},
    {"A100", "\"prompt_lookup_num_tokens\":10", "", "not-modelled", "speculative"},
    {"A100", "\"prefill_chunk_size\":256", "", "not-modelled", "chunks"},
};

START_TEST(says_what_it_cannot)
{
    struct reply reply = asked(refused[_i].gpu, refused[_i].inference, refused[_i].more);
    const struct json *reason = json_get(json_first(json_get(reply.doc, "candidates")), "reason");

    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_str_eq(json_str(json_get(reason, "code")), refused[_i].code);
    ck_assert_msg(strstr(json_str(json_get(reason, "detail")), refused[_i].says) != NULL, "%s", reply.r.body);
    ck_assert(!reply.r.fits);
    reply_done(reply);
}
END_TEST

/* Qwen3-0.6B over two GPUs: table, head and linears are cut, norms are not; half the heads are in the cache. */
START_TEST(tensor_parallelism_shares_weights_and_cache)
{
    const char *two = "\"gpu\":\"A100\",\"gpus_per_node\":2";
    double one = figure("A100", OF("bf16", ""), "candidates/0/memory/static_bytes"), half = figure(two, OF("bf16", ",\"tensor_parallel\":2"), "candidates/0/memory/static_bytes");
    double cache = figure("A100", OF("bf16", ""), "candidates/0/memory/kv_cache_bytes");

    ck_assert_msg(half > one / 2 && half < one / 2 * 1.02, "%.0f of %.0f", half, one);
    ck_assert(figure(two, OF("bf16", ",\"tensor_parallel\":2"), "candidates/0/memory/kv_cache_bytes") * 2 == cache);
    ck_assert(figure(two, OF("bf16", ",\"tensor_parallel\":2"), "candidates/0/memory/nccl_bytes") > 0);
}
END_TEST

/* A map that is asked is the only one answered; a prompt that comes back four times is four rows; a drawn token sorts more than the most likely one. */
START_TEST(maps_and_draws_are_heard)
{
    const char *two = "\"gpu\":\"A100\",\"gpus_per_node\":2";
    struct reply reply = asked(two, "\"device_map\":\"auto\"", "");

    json_each (c, json_get(reply.doc, "candidates"))
        ck_assert_str_eq(json_str(json_get(c, "method")), "device_map");
    reply_done(reply);
    reply = asked(two, "\"device_map\":\"cuda:0\"", "");
    json_each (c, json_get(reply.doc, "candidates"))
        ck_assert_str_eq(json_str(json_get(c, "method")), "single");
    reply_done(reply);
    ck_assert(figure("A100", "\"weights\":\"bf16\",\"prompt_tokens\":16,\"new_tokens\":4,\"do_sample\":true,\"num_return_sequences\":4", PEAK) ==
              figure("A100", "\"weights\":\"bf16\",\"prompt_tokens\":16,\"new_tokens\":4,\"do_sample\":true,\"batch_size\":4", PEAK));
    ck_assert(figure("A100", "\"weights\":\"bf16\",\"prompt_tokens\":16,\"new_tokens\":4,\"batch_size\":64,\"do_sample\":true,\"top_p\":0.9", PEAK) >
              figure("A100", "\"weights\":\"bf16\",\"prompt_tokens\":16,\"new_tokens\":4,\"batch_size\":64", PEAK) + 64 * 151936 * 30.);
}
END_TEST

/* Nothing is kept, whoever says so; what the config says is no engine's whose cache is its own. */
START_TEST(generates_without_a_cache)
{
    const char *says = ",\"config\":{\"use_cache\":false}", *of = "\"weights\":\"bf16\",\"prompt_tokens\":300,\"new_tokens\":9";
    const char *whole = "\"weights\":\"bf16\",\"prompt_tokens\":300,\"new_tokens\":9,\"use_cache\":false";
    struct reply asks = asked("A100", whole, ""), config = asked("A100", of, says), kept = asked("A100", of, "");
    double a, b, c, cache;

    ck_assert(json_number(reply_at(&asks, PEAK), &a) && json_number(reply_at(&config, PEAK), &b) && json_number(reply_at(&kept, PEAK), &c));
    ck_assert_msg(a == b && a < c, "%.0f %.0f %.0f", a, b, c);
    ck_assert(json_number(reply_at(&asks, "candidates/0/memory/kv_cache_bytes"), &cache) && cache == 0);
    ck_assert(json_number(reply_at(&asks, "candidates/0/throughput/mfu"), &a) && json_number(reply_at(&kept, "candidates/0/throughput/mfu"), &c) && a > c);
    ck_assert_ptr_nonnull(strstr(config.r.body, "inference.use_cache false: left out"));
    ck_assert_ptr_null(strstr(asks.r.body, "inference.use_cache false: left out"));
    reply_done(asks);
    reply_done(config);
    reply_done(kept);
    config = asked("A100", "\"engine\":\"vllm\",\"use_cache\":false", "");
    ck_assert_ptr_nonnull(strstr(config.r.body, "/inference/use_cache is generate()'s"));
    reply_done(config);
}
END_TEST

/* What an earlier release keeps otherwise, and is not played, is named. */
START_TEST(a_hybrid_cache_is_named)
{
    static const struct {
        const char *model, *release;
        bool named;
    } rows[] = {{"google/gemma-2-9b", "4.55.4", true}, {"google/gemma-2-9b", "4.57.6", false}, {"Qwen/Qwen3-0.6B", "4.55.4", false}};
    char body[400];

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct reply reply;

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"%s\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"stack\":{\"transformers\":\"%s\"},"
                       "\"inference\":{\"weights\":\"bf16\",\"prompt_tokens\":50,\"new_tokens\":5}}",
                       rows[i].model, rows[i].release);
        reply = ask(body);
        ck_assert_msg(reply.r.status == 200 && (strstr(reply.r.body, "keeps a HybridCache") != NULL) == rows[i].named, "%s %s: %s", rows[i].model,
                      rows[i].release, reply.r.body);
        reply_done(reply);
    }
}
END_TEST

/* A host without a GPU: PyTorch 2.15 on one counts 345,819,432 bytes at most for this model, prompt and answer (torch.profiler, profile_memory). */
START_TEST(a_host_alone_generates_too)
{
    const char *body = "{\"workload\":\"inference\",\"config\":{\"model_type\":\"llama\",\"hidden_size\":1024,\"num_hidden_layers\":8,\"num_attention_heads\":16,"
                       "\"num_key_value_heads\":4,\"intermediate_size\":2816,\"vocab_size\":32000,\"max_position_embeddings\":2048,\"pad_token_id\":0},"
                       "\"cluster\":{\"gpu\":\"none\",\"host_memory_bytes_per_node\":\"%s\",\"host_memory_gbs\":100},\"inference\":{\"weights\":\"bf16\",\"batch_size\":4,"
                       "\"prompt_tokens\":256,\"new_tokens\":8}}";
    char text[900];
    struct reply reply;
    double v = 0, low = 0, bound = 0;

    (void)snprintf(text, sizeof text, body, "64GiB");
    reply = ask(text);
    ck_assert_msg(reply.r.fits && json_number(reply_at(&reply, "candidates/0/memory/high_bytes"), &v), "%s", reply.r.body);
    ck_assert_msg(v > 345819432 * 0.97 && v < 345819432 * 1.03, "%.0f", v);
    ck_assert(json_number(reply_at(&reply, "candidates/0/memory/low_bytes"), &low) && low < v);
    ck_assert(json_number(reply_at(&reply, "candidates/0/bound_tokens_per_s"), &bound));
    ck_assert(bound > 4 * 100e9 / low && bound < 4 * 100e9 / (low - 2 * 32000 * 1024. * 2)); /* each token reads the weights, but for the table */
    ck_assert_str_eq(json_str(reply_at(&reply, "candidates/0/method")), "cpu");
    reply_done(reply);
    (void)snprintf(text, sizeof text, body, "300MiB");
    reply = ask(text);
    ck_assert_str_eq(json_str(reply_at(&reply, "candidates/0/reason/code")), "host-memory");
    reply_done(reply);
    reply = ask("{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"none\",\"host_memory_bytes_per_node\":\"64GiB\"}}");
    ck_assert_int_eq(reply.r.status, 422);
    reply_done(reply);
}
END_TEST

/* Llama 3 8B on two and four GPUs of 24 GB: all weights stand somewhere, once; a model that no GPUs hold stands on the host too, and is said to. */
static const struct {
    const char *model, *cluster;
    double weights;
    bool offloads;
} spreads[] = {
    {"meta-llama/Meta-Llama-3-8B", "\"gpu\":\"RTX 4090\",\"gpus_per_node\":2", 16060522496.0, false},
    {"meta-llama/Meta-Llama-3-8B", "\"gpu\":\"RTX 4090\",\"gpus_per_node\":4", 16060522496.0, false},
    {"Qwen/Qwen2.5-32B", "\"gpu\":\"RTX 4090\",\"gpus_per_node\":2,\"host_memory_bytes_per_node\":\"64GiB\"", 65527752704.0, true},
    {"Qwen/Qwen2.5-32B", "\"gpu\":\"RTX 4090\",\"gpus_per_node\":2,\"host_memory_bytes_per_node\":\"8GiB\"", 65527752704.0, true},
};

/* Packed weights stand once, too, each GPU with what belongs to its layers: the GPUs together hold what one of that size holds, and no GPU less than its weights. */
static const struct {
    const char *weights, *transformers;
} packed_spreads[] = {
    {"nf4", "5.23"}, {"nf4-dq", "5.23"}, {"int8", "5.23"}, {"gptq4", "5.23"}, {"gptq8", "5.23"}, {"awq4", "5.23"}, {"fp8", "5.23"},
    {"nf4", "4.53"}, {"int8", "4.53"}, {"gptq4", "4.45"}, {"awq4", "4.53"}, {"fp8", "4.53"},
};

static const struct json *spread_of(const struct reply *reply)
{
    json_each (c, json_get(reply->doc, "candidates"))
        if (!strcmp(json_str(json_get(c, "method")), "device_map"))
            return c;
    return NULL;
}

START_TEST(device_map_puts_every_weight_somewhere)
{
    char body[400];
    struct reply reply;
    double sum = 0, v = 0;

    (void)snprintf(body, sizeof body, "{\"model\":\"%s\",\"workload\":\"inference\",\"cluster\":{%s},\"inference\":{\"weights\":\"bf16\",\"new_tokens\":8}}",
                   spreads[_i].model, spreads[_i].cluster);
    reply = ask(body);
    ck_assert_msg(spread_of(&reply) != NULL, "%s", reply.r.body);
    json_each (d, json_get(spread_of(&reply), "devices")) {
        ck_assert(json_number(json_get(d, "weights_bytes"), &v));
        sum += v;
        ck_assert(json_number(json_get(d, "peak_allocated_bytes"), &v) && v > 0);
    }
    ck_assert(json_number(json_get(json_get(spread_of(&reply), "offloaded"), "host_bytes"), &v));
    ck_assert_int_eq(v > 0, spreads[_i].offloads);
    sum += v;
    ck_assert(json_number(json_get(json_get(spread_of(&reply), "offloaded"), "disk_bytes"), &v));
    sum += v;
    ck_assert_msg(sum >= spreads[_i].weights && sum < spreads[_i].weights + 1e5, "%.0f, not %.0f", sum, spreads[_i].weights);
    reply_done(reply);
}
END_TEST

/* Llama-3-8B: 32 layers of 436 MB, table and head of 1.05 GB; device by device as infer_auto_device_map() of 5.23 says */
static const struct {
    const char *inference;
    int layers[3], host_layers, disk_layers;
} rooms[] = {
    {"\"device_map\":\"auto\",\"max_memory\":{\"0\":\"6GiB\",\"1\":\"12GiB\",\"cpu\":\"30GiB\"}", {9, 23, 0}, 0, 0},
    {"\"device_map\":\"balanced\",\"max_memory\":{\"0\":\"3GiB\",\"1\":\"3GiB\",\"2\":\"3GiB\",\"cpu\":\"30GiB\"}", {2, 7, 7}, 16, 0},
    {"\"device_map\":\"sequential\",\"max_memory\":{\"0\":\"6GiB\"}", {9}, 0, 23},
    {"\"device_map\":\"balanced_low_0\"", {0, 19, 13}, 0, 0},
};

START_TEST(device_map_keeps_to_the_room_that_it_is_given)
{
    char body[500];
    struct reply reply;
    const struct json *off;
    uint32_t n = 0;
    double v = 0;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"meta-llama/Meta-Llama-3-8B\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"RTX 4090\",\"gpus_per_node\":3},"
                   "\"inference\":{\"weights\":\"bf16\",\"new_tokens\":8,%s}}",
                   rooms[_i].inference);
    reply = ask(body);
    ck_assert_msg(spread_of(&reply) != NULL && json_get(spread_of(&reply), "devices") != NULL, "%s", reply.r.body);
    json_each (d, json_get(spread_of(&reply), "devices")) {
        ck_assert(json_number(json_get(d, "layers"), &v));
        ck_assert_msg((int)v == rooms[_i].layers[n], "GPU %u: %.0f layers, not %d", n, v, rooms[_i].layers[n]);
        n++;
    }
    off = json_get(spread_of(&reply), "offloaded");
    ck_assert(json_number(json_get(off, "host_layers"), &v) && (int)v == rooms[_i].host_layers);
    ck_assert(json_number(json_get(off, "disk_layers"), &v) && (int)v == rooms[_i].disk_layers);
    reply_done(reply);
}
END_TEST

/* biogpt's class has no _no_split_modules. */
static const struct {
    const char *transformers, *says;
} uncut[] = {{"5.23", "cuts a layer"}, {"4.53", "before 5.1"}};

START_TEST(device_map_cuts_no_layer)
{
    char body[500];
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"workload\":\"inference\",\"cluster\":{\"gpu\":\"RTX 4090\",\"gpus_per_node\":2},\"config\":{\"model_type\":\"biogpt\","
                   "\"hidden_size\":1024,\"num_hidden_layers\":23,\"num_attention_heads\":16,\"intermediate_size\":4096,\"vocab_size\":42384,"
                   "\"max_position_embeddings\":1024},\"stack\":{\"transformers\":\"%s\"},\"inference\":{\"new_tokens\":8,\"device_map\":\"auto\"}}",
                   uncut[_i].transformers);
    reply = ask(body);
    ck_assert_msg(spread_of(&reply) != NULL, "%s", reply.r.body);
    ck_assert_str_eq(json_str(json_get(json_get(spread_of(&reply), "reason"), "code")), "not-offered");
    ck_assert_ptr_nonnull(strstr(json_str(json_get(json_get(spread_of(&reply), "reason"), "detail")), uncut[_i].says));
    reply_done(reply);
}
END_TEST

START_TEST(device_map_puts_packed_weights_with_their_layers)
{
    char body[400];
    struct reply reply;
    double sum = 0, v = 0, own = 0, all = 0;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"meta-llama/Meta-Llama-3-8B\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"RTX 4090\",\"gpus_per_node\":2},"
                   "\"inference\":{\"weights\":\"%s\",\"new_tokens\":8},\"stack\":{\"transformers\":\"%s\"}}",
                   packed_spreads[_i].weights, packed_spreads[_i].transformers);
    reply = ask(body);
    ck_assert_msg(spread_of(&reply) != NULL && json_get(spread_of(&reply), "devices") != NULL, "%s", reply.r.body);
    json_each (d, json_get(spread_of(&reply), "devices")) {
        ck_assert(json_number(json_get(d, "weights_bytes"), &own));
        ck_assert(json_number(json_get(d, "peak_allocated_bytes"), &v));
        ck_assert_msg(v > own && v < own * 1.35, "%s: %.0f of %.0f", packed_spreads[_i].weights, v, own);
        sum += own;
    }
    json_each (c, json_get(reply.doc, "candidates"))
        if (strcmp(json_str(json_get(c, "method")), "device_map") != 0)
            ck_assert(json_number(json_get(json_get(json_get(c, "memory"), "breakdown_bytes"), "weights"), &all));
    ck_assert_msg(sum <= all && sum > all * 0.86, "%s: %.0f of %.0f", packed_spreads[_i].weights, sum, all); /* scales of nf4 are none of the parameters */
    reply_done(reply);
}
END_TEST

START_TEST(device_map_puts_no_packed_weights_on_the_host)
{
    struct reply reply = ask("{\"model\":\"Qwen/Qwen2.5-32B\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"RTX 3060\",\"gpus_per_node\":2,"
                             "\"free_memory_bytes\":\"6GiB\"},\"inference\":{\"weights\":\"nf4\",\"new_tokens\":8}}");
    bool fits = true;

    ck_assert_msg(spread_of(&reply) != NULL, "%s", reply.r.body);
    ck_assert(json_bool(json_get(spread_of(&reply), "fits"), &fits) && !fits);
    ck_assert_ptr_nonnull(strstr(json_str(json_get(json_get(spread_of(&reply), "reason"), "detail")), "host"));
    reply_done(reply);
}
END_TEST

/* litgpt's own table of resources (Lightning-AI/litgpt tutorials/resource-tables.md), decimal GB of max_memory_allocated: ten tokens and at most fifty more. */
static const struct {
    const char *model, *weights;
    double gb;
} litgpt_rows[] = {
    {"meta-llama/Llama-2-7b-hf", "bf16", 13.52}, {"meta-llama/Llama-2-7b-hf", "nf4", 4.57}, {"meta-llama/Llama-2-7b-hf", "nf4-dq", 4.26},
    {"meta-llama/Llama-2-13b-hf", "bf16", 26.21}, {"meta-llama/Llama-2-13b-hf", "nf4", 8.32}, {"meta-llama/Llama-2-13b-hf", "nf4-dq", 7.72},
    {"meta-llama/Llama-2-70b-hf", "nf4-dq", 37.21},
};

START_TEST(litgpt_generates_in_what_it_printed)
{
    char body[400];
    struct reply reply;
    double v = 0;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"A100-40GB\"},\"stack\":{\"framework\":\"litgpt\",\"torch\":\"2.1.0\"},"
                   "\"inference\":{\"weights\":\"%s\",\"prompt_tokens\":10,\"new_tokens\":50}}",
                   litgpt_rows[_i].model, litgpt_rows[_i].weights);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &v), "%s", reply.r.body);
    ck_assert_msg(v > litgpt_rows[_i].gb * 0.994e9 && v < litgpt_rows[_i].gb * 1.004e9, "%s %s: %.3f GB, not %.2f", litgpt_rows[_i].model, litgpt_rows[_i].weights, v / 1e9,
                  litgpt_rows[_i].gb);
    reply_done(reply);
}
END_TEST

START_TEST(of_litgpt_the_rest_is_refused)
{
    static const char *const bodies[] = {
        "{\"model\":\"meta-llama/Llama-2-7b-hf\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"A100\"},\"stack\":{\"framework\":\"litgpt\"},\"inference\":{\"weights\":\"int8\"}}",
        "{\"model\":\"meta-llama/Llama-2-7b-hf\",\"cluster\":{\"gpu\":\"A100\"},\"training\":{\"methods\":\"single\",\"tuning\":\"full\"},\"stack\":{\"framework\":\"litgpt\"}}",
    };

    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct reply reply = ask(bodies[i]);

        ck_assert_ptr_nonnull(strstr(reply.r.body, "litgpt"));
        ck_assert_msg(!strcmp(json_str(reply_at(&reply, "candidates/0/reason/code")), "not-modelled"), "%s", reply.r.body);
        reply_done(reply);
    }
}
END_TEST

/* As they are saved where that fits. */
START_TEST(precision_is_not_given_up_unasked)
{
    struct reply reply = asked("A100", "\"prompt_tokens\":100,\"new_tokens\":20", "");

    ck_assert_str_eq(json_str(reply_at(&reply, "recommendation/weights")), "bf16");
    reply_done(reply);
}
END_TEST

START_TEST(nothing_is_faster_than_its_bound)
{
    static const char *const weights[] = {OF("bf16", ""), OF("nf4", ""), OF("awq4", ""), OF("bf16", ",\"batch_size\":8")};

    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        ck_assert(figure("H100", weights[i], "candidates/0/throughput/tokens_per_s") < figure("H100", weights[i], "candidates/0/bound_tokens_per_s"));
}
END_TEST

START_TEST(encoders_beside_a_decoder_are_refused_by_that)
{
    struct reply reply = ask("{\"config\":{\"model_type\":\"t5\",\"is_encoder_decoder\":true,\"d_model\":512,\"num_layers\":6,\"num_heads\":8,\"vocab_size\":32128},"
                             "\"workload\":\"inference\",\"cluster\":{\"gpu\":\"H100\"}}");

    ck_assert_str_eq(json_str(reply_at(&reply, "candidates/0/reason/code")), "not-modelled");
    ck_assert_ptr_nonnull(strstr(json_str(reply_at(&reply, "candidates/0/reason/detail")), "encoder"));
    reply_done(reply);
}
END_TEST

/* gpt-oss-20b: 1.17 GB of it in half, of the experts' 19.1e9 weights 17/32 byte each. T4 has 16 GB, and computes in fp16. */
static const struct {
    const char *gpu, *stack, *fits;
} oss[] = {
    {"RTX 4090", "{}", "mxfp4"}, {"T4", "{}", "mxfp4"}, {"RTX 3090", "{\"transformers\":\"4.57\"}", "mxfp4"}, {"L40S", "{\"torch\":\"2.7\",\"transformers\":\"5.23\"}", "bf16"},
    {"V100", "{}", NULL},
};

START_TEST(experts_stay_in_mxfp4_where_their_kernels_run)
{
    char body[300];
    struct reply reply;
    double v = 0;

    (void)snprintf(body, sizeof body, "{\"model\":\"openai/gpt-oss-20b\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"%s\"},\"stack\":%s}", oss[_i].gpu, oss[_i].stack);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200 && reply.r.fits == (oss[_i].fits != NULL), "%s", reply.r.body);
    if (oss[_i].fits) {
        ck_assert_str_eq(json_str(reply_at(&reply, "candidates/0/weights")), oss[_i].fits);
        ck_assert(json_number(reply_at(&reply, "candidates/0/memory/static_bytes"), &v));
        ck_assert_msg(strcmp(oss[_i].fits, "mxfp4") || (v > 13.7e9 && v < 13.85e9), "%.0f", v);
    }
    reply_done(reply);
}
END_TEST

/* An fp8 checkpoint on an A100: in half beside it, from transformers 5.0 on. */
START_TEST(fp8_is_unpacked_below_its_kernels)
{
    struct reply reply = asked("A100", "\"prompt_tokens\":8,\"new_tokens\":2", ",\"config\":{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}");

    ck_assert_msg(reply.r.status == 200 && reply.r.fits, "%s", reply.r.body);
    ck_assert_str_eq(json_str(reply_at(&reply, "candidates/0/weights")), "bf16");
    ck_assert_str_eq(json_str(reply_at(&reply, "candidates/1/reason/code")), "dtype-unsupported");
    reply_done(reply);
    reply = asked("A100", "\"prompt_tokens\":8,\"new_tokens\":2",
                  ",\"stack\":{\"transformers\":\"4.57\"},\"config\":{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":[128,128]}}");
    ck_assert_msg(reply.r.status == 200 && !reply.r.fits, "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(fp8_came_with_a_release)
{
    struct reply reply = ask("{\"model\":\"TinyLlama/TinyLlama-1.1B-Chat-v1.0\",\"workload\":\"inference\",\"cluster\":{\"gpu\":\"H100\"},"
                             "\"inference\":{\"weights\":\"fp8\"},\"stack\":{\"transformers\":\"4.48\"}}");

    ck_assert_str_eq(json_str(reply_at(&reply, "candidates/0/reason/code")), "not-offered");
    ck_assert_ptr_nonnull(strstr(reply.r.body, "4.49"));
    reply_done(reply);
}
END_TEST

/* models/mixtral/modeling_mixtral.py, models/qwen2_moe/modeling_qwen2_moe.py: num_logits_to_keep from 4.45 on */
static const char *const mixtures[] = {"\"mixtral\",\"num_local_experts\":8", "\"qwen2_moe\",\"num_experts\":8,\"moe_intermediate_size\":64,\"shared_expert_intermediate_size\":64"};

static double prefill_of(const char *type, const char *transformers)
{
    struct reply reply;
    char body[600];
    double v = 0;

    (void)snprintf(body, sizeof body,
                   "{\"config\":{\"model_type\":%s,\"num_experts_per_tok\":2,\"hidden_size\":256,\"intermediate_size\":512,\"num_attention_heads\":4,"
                   "\"num_key_value_heads\":2,\"num_hidden_layers\":6,\"vocab_size\":40960},\"workload\":\"inference\",\"cluster\":{\"gpu\":\"A100\"},"
                   "\"inference\":{\"prompt_tokens\":700,\"new_tokens\":20,\"batch_size\":3,\"weights\":\"bf16\"},\"stack\":{\"transformers\":\"%s\"}}",
                   type, transformers);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/phase_peaks_bytes/prefill"), &v), "%s", reply.r.body);
    reply_done(reply);
    return v;
}

START_TEST(a_mixture_makes_logits_of_the_last_token_alone)
{
    double all = prefill_of(mixtures[_i], "4.44"), last = prefill_of(mixtures[_i], "4.45");

    ck_assert_msg(2 * last < all, "%s: %.0f, %.0f", mixtures[_i], all, last);
}
END_TEST

UNIT_TESTS("api/inference", unit_test(generates_without_a_cache); unit_rows(a_mixture_makes_logits_of_the_last_token_alone, mixtures); unit_test(caches_hold_what_they_store); unit_test(a_longer_prompt_never_holds_less); unit_test(more_gpus_never_hold_more_each);
           unit_test(fp8_came_with_a_release); unit_test(fp8_is_unpacked_below_its_kernels); unit_rows(experts_stay_in_mxfp4_where_their_kernels_run, oss); unit_test(encoders_beside_a_decoder_are_refused_by_that); unit_rows(device_map_puts_every_weight_somewhere, spreads);
           unit_rows(device_map_puts_packed_weights_with_their_layers, packed_spreads);
           unit_rows(device_map_keeps_to_the_room_that_it_is_given, rooms); unit_rows(device_map_cuts_no_layer, uncut); unit_test(device_map_puts_no_packed_weights_on_the_host); unit_rows(litgpt_generates_in_what_it_printed, litgpt_rows);
           unit_test(of_litgpt_the_rest_is_refused);
           unit_test(precision_is_not_given_up_unasked); unit_test(maps_and_draws_are_heard); unit_test(a_host_alone_generates_too); unit_test(tensor_parallelism_shares_weights_and_cache);
           unit_test(nothing_is_faster_than_its_bound); unit_test(a_form_that_raises_leaves_the_others);
    unit_rows(is_what_others_printed, published);
    unit_rows(octocoder_is_within_three_percent, octocoder);
    unit_test(each_form_of_the_weights_holds_what_it_packs); unit_rows(packed_checkpoints_hold_what_they_store, packed); unit_rows(a_checkpoint_says_its_form, checkpoints);
           unit_test(more_never_holds_less); unit_test(a_hybrid_cache_is_named);
           unit_rows(the_largest_batch_is_the_largest, short_and_long); unit_test(a_full_allocator_is_not_told_what_it_would_reserve); unit_test(compares_three_forms_where_none_is_named); unit_rows(says_what_it_cannot, refused);)
