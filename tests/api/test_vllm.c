/* Engine vllm: its budget rule beside what its start-up logs print, and laws of the blocks. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define LLAMA3  "meta-llama/Meta-Llama-3-8B"
#define LLAMA31 "meta-llama/Meta-Llama-3.1-8B"
#define GIB     1073741824.0

static struct reply served(const char *model, const char *cluster, const char *inference, const char *more)
{
    char body[900];

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"workload\":\"inference\",\"cluster\":{%s},\"inference\":{\"engine\":\"vllm\"%s}%s}", model, cluster,
                   inference, more);
    return ask(body);
}

static double of(const char *model, const char *cluster, const char *inference, const char *path)
{
    struct reply reply = served(model, cluster, inference, "");
    double v = 0;

    ck_assert_msg(reply.r.status == 200 && json_number(reply_at(&reply, path), &v), "no %s in %s", path, reply.r.body);
    reply_done(reply);
    return v;
}

/* "model weights take", "PyTorch activation peak memory" of an eager layer, bytes of a block: logs in the issues that are named. */
static const struct {
    const char *model, *cluster, *inference, *path;
    double value, off;
} logged[] = {
    {LLAMA3, "\"gpu\":\"H100\"", "", "candidates/0/memory/static_bytes", 14.96 * GIB, 0.005 * GIB},                    /* vllm#10511 */
    {LLAMA3, "\"gpu\":\"H100\",\"gpus_per_node\":2", "", "candidates/0/memory/static_bytes", 7.48 * GIB, 0.005 * GIB}, /* vllm#10511 */
    {LLAMA31, "\"gpu\":\"RTX 3090\"", ",\"max_model_len\":29000", "candidates/0/memory/static_bytes", 14.9888 * GIB,
     0.0001 * GIB}, /* vllm#10517 */
    {LLAMA31, "\"gpu\":\"RTX 3090\"", ",\"max_model_len\":20000,\"max_num_batched_tokens\":20000", "candidates/0/vllm/profile_bytes/high",
     2.06 * GIB, 0.02 * GIB},
    {LLAMA31, "\"gpu\":\"RTX 3090\"", ",\"max_model_len\":29000,\"max_num_batched_tokens\":29000", "candidates/0/vllm/profile_bytes/high",
     2.99 * GIB, 0.01 * GIB},
    {LLAMA31, "\"gpu\":\"RTX 3090\"", "", "candidates/0/vllm/bytes_per_block", 3.81 * GIB / 1952, 6000}, /* vllm#10517 */
    {"Qwen/Qwen3-8B", "\"gpu\":\"RTX 4090\"", ",\"max_model_len\":16384", "candidates/0/vllm/bytes_per_block", 6.37 * GIB / (46368 / 16),
     3000}, /* LMCache#3430 */
};

START_TEST(is_what_its_logs_print)
{
    double v = of(logged[_i].model, logged[_i].cluster, logged[_i].inference, logged[_i].path);

    ck_assert_msg(v >= logged[_i].value - logged[_i].off && v <= logged[_i].value + logged[_i].off, "%s %s: %.0f, not %.0f",
                  logged[_i].model, logged[_i].path, v, logged[_i].value);
}
END_TEST

/* Llama-3.1-8B on 23.58 GiB, gpu_memory_utilization 0.90, eager: 29,000 tokens do not start, 20,000 do, 1.56 at once (vllm#10517). */
START_TEST(starts_where_it_did)
{
    const char *gpu =
        "\"gpu\":{\"memory_bytes\":25319014400,\"bf16_tflops\":71,\"memory_gbs\":936,\"compute_capability\":\"8.6\",\"multiprocessors\":82}";

    ck_assert(of(LLAMA31, gpu, ",\"gpu_memory_utilization\":0.9,\"max_model_len\":29000,\"max_num_batched_tokens\":29000",
                 "candidates/0/vllm/max_concurrency/low") < 1);
    ck_assert(of(LLAMA31, gpu, ",\"gpu_memory_utilization\":0.9,\"max_model_len\":20000,\"max_num_batched_tokens\":20000",
                 "candidates/0/vllm/max_concurrency/high") > 1.4);
    ck_assert(of(LLAMA31, gpu, ",\"gpu_memory_utilization\":0.9,\"max_model_len\":20000,\"max_num_batched_tokens\":20000",
                 "candidates/0/vllm/max_concurrency/low") < 1.56);
}
END_TEST

START_TEST(low_is_never_above_high)
{
    static const char *const models[] = {LLAMA3, "Qwen/Qwen3-0.6B", "google/gemma-2-2b-it", "TinyLlama/TinyLlama-1.1B-Chat-v1.0"};

    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        for (int weights = 0; weights < 4; weights++) {
            static const char *const form[] = {"", ",\"weights\":\"gptq4\"", ",\"weights\":\"awq4\"", ",\"kv_cache\":\"fp8\""};
            double low = of(models[i], "\"gpu\":\"L40S\"", form[weights], "candidates/0/vllm/blocks/low");
            double high = of(models[i], "\"gpu\":\"L40S\"", form[weights], "candidates/0/vllm/blocks/high");

            ck_assert(low > 0 && low < high);
        }
    ck_assert(of(LLAMA3, "\"gpu\":\"L40S\"", ",\"kv_cache\":\"fp8\"", "candidates/0/vllm/bytes_per_block") * 2 ==
              of(LLAMA3, "\"gpu\":\"L40S\"", "", "candidates/0/vllm/bytes_per_block"));
}
END_TEST

/* gemma-2: 13 layers with a window, 13 without: two groups of 13; a long request stops growing in one of them. */
START_TEST(layers_of_two_kinds_are_groups)
{
    struct reply reply = served("google/gemma-2-2b-it", "\"gpu\":\"L40S\"", "", "");
    const struct json *groups = reply_at(&reply, "candidates/0/vllm/groups");
    double layers = 0, window = 0;

    ck_assert_uint_eq(json_count(groups), 2);
    ck_assert(json_number(reply_at(&reply, "candidates/0/vllm/groups/0/layers"), &layers) && (int)layers == 13);
    ck_assert(json_number(reply_at(&reply, "candidates/0/vllm/groups/0/window"), &window) && (int)window == 4096);
    reply_done(reply);
}
END_TEST

/* One vector of 512 + 64 for all heads: 27 layers of DeepSeek-V2-Lite's kind, 16 tokens, halves. */
START_TEST(latent_attention_keeps_one_vector)
{
    struct reply reply = served(
        "x/y", "\"gpu\":\"H100\"", "",
        ",\"config\":{\"model_type\":\"deepseek_v2\",\"num_hidden_layers\":3,\"hidden_size\":512,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
        "\"kv_lora_rank\":512,\"qk_rope_head_dim\":64,\"qk_nope_head_dim\":128,\"v_head_dim\":128,\"q_lora_rank\":null,\"intermediate_size\":1024,"
        "\"moe_intermediate_size\":256,\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"n_shared_experts\":1,\"first_k_dense_replace\":1,"
        "\"vocab_size\":1000,\"max_position_embeddings\":4096}");
    double v = 0;

    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/vllm/bytes_per_block"), &v), "%s", reply.r.body);
    ck_assert_int_eq((int)v, 3 * 16 * (512 + 64) * 2);
    reply_done(reply);
}
END_TEST

static const struct {
    const char *model, *cluster, *inference, *code, *says;
} refused[] = {
    {LLAMA31, "\"gpu\":\"RTX 4090\"", "", "does-not-fit", "--max-model-len"},
    {LLAMA31, "\"gpu\":\"RTX 4090\"", ",\"gpu_memory_utilization\":0.5", "does-not-fit", "nothing"},
    {LLAMA3, "\"gpu\":\"H100\"", ",\"tensor_parallel\":2", "needs-gpus", "GPUs"},
    {LLAMA3, "\"gpu\":\"H100\"", ",\"weights\":\"nf4\"", "not-modelled", "bitsandbytes"},
    {LLAMA3, "\"gpu\":\"H100\"", ",\"batch_size\":1000,\"prompt_tokens\":4000,\"new_tokens\":100", "does-not-fit", "others wait"},
    {"tiiuae/Falcon-H1-0.5B-Base", "\"gpu\":\"H100\"", "", "not-modelled", "states"},
};

START_TEST(says_what_it_cannot)
{
    struct reply reply = served(refused[_i].model, refused[_i].cluster, refused[_i].inference, "");
    const struct json *reason = json_get(json_first(json_get(reply.doc, "candidates")), "reason");

    ck_assert_msg(reply.r.status == 200 && json_str(json_get(reason, "code")), "%s", reply.r.body);
    ck_assert_str_eq(json_str(json_get(reason, "code")), refused[_i].code);
    ck_assert_msg(strstr(json_str(json_get(reason, "detail")), refused[_i].says) != NULL, "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/vllm", unit_rows(is_what_its_logs_print, logged); unit_test(starts_where_it_did); unit_test(low_is_never_above_high);
           unit_test(layers_of_two_kinds_are_groups); unit_test(latent_attention_keeps_one_vector);
           unit_rows(says_what_it_cannot, refused);)
