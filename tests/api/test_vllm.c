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
    char body[1800];

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
    {"openai/gpt-oss-120b", "\"gpu\":\"H100\"", "", "candidates/0/memory/static_bytes", 64.38 * GIB, 0.25 * GIB},       /* triton_kernels: vllm#33155 */
    {"openai/gpt-oss-120b", "\"gpu\":\"A100-80GB\"", "", "candidates/0/memory/static_bytes", 65.9651 * GIB, 0.1 * GIB}, /* Marlin: vllm#23278 */
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

/*
 * Blocks of keys as large as a layer's states, which are padded to them; a request holds two of each group of states, three where kernels leave one in the middle
 * of a prompt. Qwen3.8-27B's attention on two RTX 3090, keys in fp8: blocks of 1,568 tokens, 4.99 GiB hold 302,921 tokens or 2.31 requests of 131,072
 * (mitchross/talos-argocd-proxmox#1995). Nemotron-Nano-9B-v2's: 672 tokens where its states are in half (vllm#24280).
 */
#define DELTA                                                                                                                                      \
    "{\"model_type\":\"qwen3_5_text\",\"num_hidden_layers\":64,\"hidden_size\":512,\"num_attention_heads\":24,\"num_key_value_heads\":4,\"head_dim\":256," \
    "\"linear_num_value_heads\":48,\"linear_num_key_heads\":16,\"linear_key_head_dim\":128,\"linear_value_head_dim\":128,\"linear_conv_kernel_dim\":4,"  \
    "\"intermediate_size\":1024,\"vocab_size\":1000,\"max_position_embeddings\":131072,\"mamba_ssm_dtype\":\"float32\"}"
#define NEMOTRON(dtype)                                                                                                                               \
    "{\"model_type\":\"nemotron_h\",\"num_hidden_layers\":8,\"hybrid_override_pattern\":\"MM-M*-MM\",\"hidden_size\":512,\"num_attention_heads\":40,"         \
    "\"num_key_value_heads\":8,\"head_dim\":128,\"mamba_num_heads\":128,\"mamba_head_dim\":80,\"ssm_state_size\":128,\"n_groups\":8,\"conv_kernel\":4,"       \
    "\"intermediate_size\":1024,\"vocab_size\":1000,\"max_position_embeddings\":131072,\"mamba_ssm_cache_dtype\":\"" dtype "\"}"
#define MAMBA                                                                                                                                      \
    "{\"model_type\":\"mamba\",\"num_hidden_layers\":4,\"hidden_size\":512,\"intermediate_size\":1024,\"state_size\":16,\"conv_kernel\":4,\"vocab_size\":1000}"
static const struct {
    const char *config, *cluster, *inference;
    int groups, block_size, state_blocks; /* of the first group of keys; of the first of states */
    double bytes_per_block;
} hybrids[] = {
    {DELTA, "\"gpu\":\"RTX 3090\",\"gpus_per_node\":2", ",\"kv_cache\":\"fp8\"", 4, 1568, 2, 16. * 1568 * 1024},
    {DELTA, "\"gpu\":\"H100\",\"gpus_per_node\":2", ",\"kv_cache\":\"fp8\"", 4, 1600, 3, 16. * 1600 * 1024},
    {NEMOTRON("bfloat16"), "\"gpu\":\"A100-80GB\"", "", 6, 672, 3, 672 * 4096.},
    {NEMOTRON("float32"), "\"gpu\":\"A100-80GB\"", "", 6, 1312, 3, 1312 * 4096.},
    {MAMBA, "\"gpu\":\"A100-80GB\"", "", 1, 0, 1, 4 * (1024 * 3 + 1024 * 16) * 2.},
};

START_TEST(states_are_blocks_too)
{
    char more[900];
    struct reply reply;
    const struct json *groups;
    double v = 0;

    (void)snprintf(more, sizeof more, ",\"config\":%s", hybrids[_i].config);
    reply = served("x/y", hybrids[_i].cluster, hybrids[_i].inference, more);
    groups = reply_at(&reply, "candidates/0/vllm/groups");
    ck_assert_msg(json_count(groups) == (size_t)hybrids[_i].groups, "%s", reply.r.body);
    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/vllm/bytes_per_block"), &v) && v == hybrids[_i].bytes_per_block, "%.0f", v);
    json_each (g, groups) {
        double tokens = 0, held = 0;

        (void)json_number(json_get(g, "block_size"), &tokens);
        if (json_number(json_get(g, "state_blocks"), &held))
            ck_assert_int_eq((int)held, hybrids[_i].state_blocks);
        else
            ck_assert_int_eq((int)tokens, hybrids[_i].block_size);
    }
    reply_done(reply);
}
END_TEST

/* vLLM's classes cut what transformers has no plan for; routers and the first half of latent projections stay whole. */
START_TEST(its_classes_cut_by_themselves)
{
    double one = of("tiiuae/falcon-7b", "\"gpu\":\"H100\"", "", "candidates/0/memory/static_bytes");
    double two = of("openai/gpt-oss-120b", "\"gpu\":\"H100\",\"gpus_per_node\":2", "", "candidates/0/memory/static_bytes");

    ck_assert(one > 0 && of("bigscience/bloom-560m", "\"gpu\":\"H100\",\"gpus_per_node\":2", "", "candidates/0/memory/static_bytes") <
                             0.51 * of("bigscience/bloom-560m", "\"gpu\":\"H100\"", "", "candidates/0/memory/static_bytes"));
    ck_assert(two > 31 * GIB && two < 35 * GIB);
    ck_assert(of(LLAMA3, "\"gpu\":\"H100\"", ",\"enforce_eager\":true", "candidates/0/vllm/cuda_graph_bytes/high") == 0);
}
END_TEST

static const struct {
    const char *model, *cluster, *inference, *code, *says;
} refused[] = {
    {LLAMA31, "\"gpu\":\"RTX 4090\"", "", "does-not-fit", "--max-model-len"},
    {LLAMA31, "\"gpu\":\"RTX 4090\"", ",\"gpu_memory_utilization\":0.5", "does-not-fit", "nothing"},
    {LLAMA3, "\"gpu\":\"H100\"", ",\"tensor_parallel\":2", "needs-gpus", "GPUs"},
    {LLAMA3, "\"gpu\":\"H100\"", ",\"weights\":\"nf4\"", "not-offered", "bitsandbytes"},
    {"mosaicml/mpt-7b", "\"gpu\":\"H100\"", "", "not-offered", "0.28.0"},
    {LLAMA3, "\"gpu\":\"H100\"", ",\"batch_size\":1000,\"prompt_tokens\":4000,\"new_tokens\":100", "does-not-fit", "others wait"},
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

/* A range is called one: what may start is not said not to. */
static const struct {
    const char *model, *cluster, *inference, *says;
} starts[] = {
    {"openai/gpt-oss-120b", "\"gpu\":\"H100\"", "", "May not start: mxfp4 weights, "},
    {"openai/gpt-oss-120b", "\"gpu\":\"H100\"", "", " surely starts."},
    {"meta-llama/Meta-Llama-3.1-70B", "\"gpu\":\"A100-80GB\",\"gpus_per_node\":2", "", "Does not start: bf16 weights, "},
    {"meta-llama/Meta-Llama-3.1-70B", "\"gpu\":\"A100-80GB\",\"gpus_per_node\":2", "", " GiB of weights where vLLM takes "},
    {"meta-llama/Meta-Llama-3.1-70B", "\"gpu\":\"A100-80GB\"", "", " leave nothing of gpu_memory_utilization "},
    {LLAMA31, "\"gpu\":\"RTX 4090\"", ",\"max_model_len\":8192,\"batch_size\":500", "Does not fit: bf16 weights, "},
};

START_TEST(says_whether_it_may_start)
{
    struct reply reply = served(starts[_i].model, starts[_i].cluster, starts[_i].inference, "");

    ck_assert_msg(strstr(reply_text(&reply, "summary"), starts[_i].says) != NULL, "%s", reply_text(&reply, "summary"));
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/vllm", unit_rows(says_whether_it_may_start, starts); unit_rows(is_what_its_logs_print, logged); unit_test(starts_where_it_did); unit_test(low_is_never_above_high);
           unit_test(layers_of_two_kinds_are_groups); unit_test(latent_attention_keeps_one_vector);
           unit_rows(states_are_blocks_too, hybrids); unit_test(its_classes_cut_by_themselves);
           unit_rows(says_what_it_cannot, refused);)
