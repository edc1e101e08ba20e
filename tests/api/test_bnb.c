/* Laws of quantised weights and of bitsandbytes' optimizers; their bytes beside PyTorch's are in tests/data/accuracy/kbit.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"
#include "tuning/bnb.h"

#include <stdio.h>
#include <string.h>

/* --- which products have a kernel of their own: rows read off bitsandbytes 0.50.2 _gemm_4bit_use_custom_cuda ------------------------------------- */

static const struct {
    unsigned major, minor, sms;
    enum dtype dtype;
    int64_t m, n, k;
    bool fused;
} products[] = {
    {8, 0, 108, DTYPE_BF16, 4, 4096, 4096, true},     {8, 0, 108, DTYPE_BF16, 2048, 4096, 4096, false},
    {8, 0, 108, DTYPE_BF16, 1024, 4096, 4096, false}, {8, 0, 108, DTYPE_BF16, 1024, 2048, 512, true},
    {8, 0, 108, DTYPE_BF16, 1537, 2048, 512, false},  {8, 0, 108, DTYPE_FP32, 8, 2048, 2048, false},
    {8, 0, 108, DTYPE_FP32, 7, 2048, 2048, true},     {8, 0, 108, DTYPE_BF16, 64, 14336, 4096, true},
    {8, 0, 108, DTYPE_BF16, 65, 14336, 4096, false},  {9, 0, 132, DTYPE_BF16, 16, 4096, 14336, false},
    {9, 0, 132, DTYPE_BF16, 32, 14336, 4096, true},   {9, 0, 132, DTYPE_BF16, 33, 14336, 4096, false},
    {8, 9, 128, DTYPE_BF16, 128, 16384, 4096, true},  {8, 9, 128, DTYPE_BF16, 129, 16384, 4096, false},
    {10, 0, 148, DTYPE_BF16, 16, 4096, 4096, false},  {7, 0, 80, DTYPE_FP16, 7, 4096, 4096, true},
    {7, 0, 80, DTYPE_FP16, 8, 4096, 4096, false},     {8, 0, 108, DTYPE_BF16, 16, 4096, 100, false},
};

START_TEST(fuses_what_bitsandbytes_does)
{
    const struct device d = {.cc_major = products[_i].major, .cc_minor = products[_i].minor, .multiprocessors = products[_i].sms};

    ck_assert_int_eq(bnb_gemm_is_fused(&d, products[_i].dtype, products[_i].m, products[_i].n, products[_i].k), products[_i].fused);
}
END_TEST

/* --- laws ------------------------------------------------------------------------------------------------------------------------------- */

static double figure(const char *training, const char *path)
{
    char body[600];
    struct reply reply;
    double v;

    (void)snprintf(
        body, sizeof body,
        "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"micro_batch_size\":2,"
        "\"seq_len\":384,\"precision\":\"bf16\",\"gradient_checkpointing\":true,%s}}",
        training);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_msg(json_number(reply_at(&reply, path), &v), "%s: no %s in %s", training, path, reply.r.body);
    reply_done(reply);
    return v;
}

#define PEAK  "recommendation/memory/peak_allocated_bytes"
#define PARTS "recommendation/memory/breakdown_bytes/"

/* --- quantised weights that a method flattens or cuts ------------------------------------------------------------------------------------- */

static const char *const sharding[] = {"fsdp", "fsdp2", "hsdp2", "zero1", "zero2"};

static double sharded(const char *method, unsigned gpus, const char *training, const char *path)
{
    char body[600];
    struct reply reply;
    double v;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":%u},\"training\":{\"methods\":\"%s\","
                   "\"micro_batch_size\":2,\"seq_len\":384,\"precision\":\"bf16\",\"gradient_checkpointing\":true,%s}}",
                   gpus, method, training);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_msg(json_number(reply_at(&reply, path), &v), "%s: no %s in %s", training, path, reply.r.body);
    reply_done(reply);
    return v;
}

START_TEST(packed_weights_are_sharded)
{
    const char *method = sharding[_i];
    double lora = sharded(method, 4, "\"tuning\":\"lora\"", PARTS "parameters"), nf4 = sharded(method, 4, "\"tuning\":\"qlora\"", PARTS "parameters");
    double few = sharded(method, 2, "\"tuning\":\"qlora\"", PARTS "parameters");

    ck_assert(nf4 < lora);
    ck_assert(method[0] == 'h' ? nf4 <= few : nf4 < few); /* a node is a group, and its ranks share a copy; of ZeRO the masters of adapters */
    ck_assert(sharded(method, 4, "\"tuning\":\"qlora\"", PARTS "optimizer_states") == sharded(method, 4, "\"tuning\":\"lora\"", PARTS "optimizer_states"));
}
END_TEST

/* Under ZeRO-3 with offload: states leave the device, then the adapters' shards. */
START_TEST(packed_weights_go_to_the_host)
{
    double here = sharded("zero3", 4, "\"tuning\":\"qlora\"", PEAK), states = sharded("zero3", 4, "\"tuning\":\"qlora\",\"offload\":\"optimizer\"", PEAK),
           both = sharded("zero3", 4, "\"tuning\":\"qlora\",\"offload\":\"optimizer+params\"", PEAK);

    ck_assert_msg(both <= states && states < here, "%.0f, %.0f, %.0f", both, states, here);
}
END_TEST

/* What is asked of weights is in the figures whatever the tuning was called; without a tuning it is qlora. */
static const char *const kinds[] = {"int8", "nf4", "nf4-dq", "fp4", "gptq4", "gptq8", "torchao-int8", "torchao-nf4"}; /* awq4 and hqq4 are of other releases */

START_TEST(adapters_over_quantised_weights_are_qlora)
{
    char lora[160], qlora[160], open[160];

    (void)snprintf(lora, sizeof lora, "\"tuning\":\"lora\",\"quantization\":\"%s\"", kinds[_i]);
    (void)snprintf(qlora, sizeof qlora, "\"tuning\":\"qlora\",\"quantization\":\"%s\"", kinds[_i]);
    (void)snprintf(open, sizeof open, "\"quantization\":\"%s\"", kinds[_i]);
    ck_assert(figure(lora, PEAK) == figure(qlora, PEAK));
    ck_assert(figure(open, PEAK) == figure(qlora, PEAK));
    ck_assert(figure(qlora, PEAK) != figure("\"tuning\":\"lora\"", PEAK));
}
END_TEST

START_TEST(quantised_weights_are_not_trained)
{
    struct reply reply = ask("{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"tuning\":\"full\",\"quantization\":\"nf4\"}}");

    ck_assert_int_eq(reply.r.status, 422);
    ck_assert_str_eq(json_str(reply_at(&reply, "pointer")), "/training/quantization");
    reply_done(reply);
}
END_TEST

/* adamw_hf ended with 4.49; a release that is named and has it not is a conflict */
START_TEST(goes_back_to_its_last_release)
{
#define ADAMW_HF "{\"model\":\"Qwen/Qwen2-0.5B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"tuning\":\"full\",\"optimizer\":\"adamw_hf\"}"
    struct reply open = ask(ADAMW_HF "}"), named = ask(ADAMW_HF ",\"stack\":{\"transformers\":\"5.23\"}}");

    ck_assert_msg(open.r.status == 200, "%s", open.r.body);
    ck_assert_str_eq(json_str(reply_at(&open, "resolved/stack/transformers")), "4.49");
    ck_assert_int_eq(named.r.status, 422);
    reply_done(open);
    reply_done(named);
#undef ADAMW_HF
}
END_TEST

/* torch.optim.Muon came with 2.9 */
START_TEST(muon_wants_its_release)
{
#define MUON "{\"model\":\"Qwen/Qwen2-0.5B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"tuning\":\"full\",\"optimizer\":\"muon\"}"
    struct reply newer = ask(MUON ",\"stack\":{\"torch\":\"2.9\"}}"), older = ask(MUON ",\"stack\":{\"torch\":\"2.8\"}}");

    ck_assert_msg(newer.r.status == 200, "%s", newer.r.body);
    ck_assert_msg(older.r.status == 422, "%s", older.r.body);
    ck_assert_str_eq(reply_text(&older, "pointer"), "/training/optimizer");
    reply_done(newer);
    reply_done(older);
#undef MUON
}
END_TEST

/* Why it does not run, where PyTorch itself raises. */
static const struct {
    const char *method, *training, *why;
} refused[] = {
    {"ddp", "\"quantization\":\"awq4\"", "AWQ weights under ddp"},
    {"ddp", "\"quantization\":\"torchao-int8\"", "DDP expects same model across all ranks"},
    {"ddp", "\"quantization\":\"torchao-nf4\"", "DDP expects same model across all ranks"},
    {"fsdp2", "\"quantization\":\"torchao-int8\"", "Int8Tensor raises NotImplementedError"},
    {"ddp", "\"quantization\":\"hqq4\"", "hqq's weights under ddp"},
    {"fsdp2", "\"quantization\":\"torchao-nf4\"", "torchao's weights under fsdp2"},
    {"single", "\"quantization\":\"hqq4\",\"precision\":\"bf16-mixed\"", "cannot multiply gradients in half"},
    {"single", "\"quantization\":\"hqq4\",\"lora\":{\"use_dora\":true}", "of these quantised weights"},
    {"single", "\"quantization\":\"torchao-int8\",\"lora\":{\"use_dora\":true}", "of these quantised weights"},
    {"single", "\"quantization\":\"int8\",\"lora\":{\"bias\":\"all\"}", "biases trained beside these quantised weights"},
    {"ddp", "\"quantization\":\"nf4\",\"lora\":{\"bias\":\"all\"}", "biases trained beside these quantised weights"},
    {"single", "\"tuning\":\"qlora\",\"quantization\":\"nf4\",\"stage\":\"token_classification\",\"lora\":{\"target_modules\":[\"q_proj\"]}",
     "packs a head that has a bias"},
    {"fsdp", "\"tuning\":\"qlora\",\"quantization\":\"int8\"", "where fsdp flattens or cuts"},
    {"fsdp2", "\"tuning\":\"qlora\",\"quantization\":\"int8\"", "where fsdp2 flattens or cuts"},
    {"fsdp", "\"tuning\":\"qlora\",\"prepare_kbit\":\"peft\"", "are not of one dtype"},
    {"fsdp_grad_op", "\"tuning\":\"qlora\"", "does not support changing the parameters"},
    {"single", "\"tuning\":\"qlora\",\"prepare_kbit\":\"trl\",\"precision\":\"bf16\"", "expected scalar type Float but found BFloat16"},
    {"ddp", "\"tuning\":\"qlora\",\"prepare_kbit\":\"trl\",\"precision\":\"bf16\"", "expected scalar type Float but found BFloat16"},
};

START_TEST(says_why_they_are_not)
{
    char body[600];
    struct reply reply;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":4},\"training\":{\"methods\":\"%s\",%s}}",
                   refused[_i].method, refused[_i].training);
    reply = ask(body);
    ck_assert_msg(strstr(reply.r.body, refused[_i].why) != NULL, "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(checkpoints_of_gptq_hold_less)
{
    double lora = figure("\"tuning\":\"lora\",\"lora\":{\"dtype\":\"fp32\"}", PARTS "parameters");
    double eight = figure("\"tuning\":\"qlora\",\"quantization\":\"gptq8\"", PARTS "parameters");
    double four = figure("\"tuning\":\"qlora\",\"quantization\":\"gptq4\"", PARTS "parameters");
    double trained = figure("\"tuning\":\"qlora\",\"quantization\":\"gptq4\"", "recommendation/memory/breakdown_bytes/optimizer_states");

    ck_assert(four < eight && eight < lora);
    ck_assert(trained == figure("\"tuning\":\"lora\",\"lora\":{\"dtype\":\"fp32\"}", PARTS "optimizer_states"));
    ck_assert(sharded("fsdp", 4, "\"tuning\":\"qlora\",\"quantization\":\"gptq4\"", PARTS "parameters") <
              sharded("fsdp", 2, "\"tuning\":\"qlora\",\"quantization\":\"gptq4\"", PARTS "parameters"));
}
END_TEST

/* The router of eight experts has eight outputs, which no QuantLinear packs: no list of layers has it. */
START_TEST(gptq_leaves_routers_alone)
{
    struct reply reply = ask("{\"config\":{\"model_type\":\"mixtral\",\"hidden_size\":256,\"intermediate_size\":512,\"num_hidden_layers\":2,"
                             "\"num_attention_heads\":4,\"num_key_value_heads\":4,\"num_local_experts\":8,\"vocab_size\":1024},"
                             "\"cluster\":{\"gpu\":\"A100-80GB\"},\"stack\":{\"torch\":\"2.4\",\"transformers\":\"4.48\"},\"training\":{\"methods\":\"single\","
                             "\"tuning\":\"qlora\",\"quantization\":\"gptq4\",\"lora\":{\"target_modules\":[\"q_proj\"]},\"precision\":\"fp16-autocast\","
                             "\"micro_batch_size\":1,\"seq_len\":128}}");

    ck_assert_msg(json_type(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes")) == JSON_NUMBER, "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(packed_weights_hold_less)
{
    double lora = figure("\"tuning\":\"lora\"", PARTS "parameters"), nf4 = figure("\"tuning\":\"qlora\"", PARTS "parameters");
    double twice = figure("\"tuning\":\"qlora\",\"quantization\":\"nf4-dq\"", PARTS "parameters");
    double fp4 = figure("\"tuning\":\"qlora\",\"quantization\":\"fp4\"", PARTS "parameters");
    double wide = figure("\"tuning\":\"qlora\",\"prepare_kbit\":\"peft\"", PARTS "parameters");

    ck_assert(twice < nf4 && nf4 < lora);
    ck_assert(fp4 == nf4);
    ck_assert(wide > nf4);
    ck_assert(figure("\"tuning\":\"qlora\"", PARTS "optimizer_states") == figure("\"tuning\":\"lora\"", PARTS "optimizer_states"));
}
END_TEST

/* Int8Tensor's product is torch.mm of a copy in half, which the graph keeps: less than LoRA at rest, more in a step whose layers are not checkpointed. */
START_TEST(torchao_keeps_what_it_casts)
{
#define OPEN ",\"gradient_checkpointing\":false"
    const char *lora = "\"tuning\":\"lora\"", *ao = "\"quantization\":\"torchao-int8\"";

    ck_assert(figure(ao, PARTS "parameters") < figure(lora, PARTS "parameters"));
    ck_assert(figure("\"quantization\":\"torchao-int8\"" OPEN, PEAK) > figure("\"tuning\":\"lora\"" OPEN, PEAK));
    ck_assert(figure(ao, PARTS "optimizer_states") == figure(lora, PARTS "optimizer_states"));
#undef OPEN
}
END_TEST

/* NF4Tensor holds what doubly quantised nf4 does, but for its factors' dtype; LinearNF4 keeps no input, and makes each weight by way of eight bytes an element. */
START_TEST(torchao_makes_nf4_by_index)
{
#define OPEN ",\"gradient_checkpointing\":false"
#define CHECKED ",\"gradient_checkpointing\":true"
    double ours = figure("\"quantization\":\"nf4-dq\"", PARTS "parameters"), ao = figure("\"quantization\":\"torchao-nf4\"", PARTS "parameters");

    ck_assert_msg(ao > 0.99 * ours && ao < 1.01 * ours, "%.0f beside %.0f", ao, ours);
    ck_assert(figure("\"quantization\":\"torchao-nf4\"" OPEN, PEAK) < figure("\"quantization\":\"torchao-int8\"" OPEN, PEAK));
    ck_assert(figure("\"quantization\":\"torchao-nf4\"" CHECKED, PEAK) >= figure("\"quantization\":\"nf4-dq\"" CHECKED, PEAK));
#undef OPEN
#undef CHECKED
}
END_TEST

/* transformers 5 takes a kernel that does not train; where no release is named it is the last one before */
/* Before 0.45 the graph keeps of each input what it was quantised to by columns, a byte an element; rows and weights hold as much. */
START_TEST(int8_was_tiled)
{
#define TILED(intermediate, bnb)                                                                                                                    \
    "{\"config\":{\"model_type\":\"llama\",\"hidden_size\":512,\"intermediate_size\":" intermediate ",\"num_attention_heads\":8,\"num_hidden_layers\":4," \
    "\"vocab_size\":512},\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"tuning\":\"qlora\",\"quantization\":\"int8\"," \
    "\"gradient_checkpointing\":false,\"micro_batch_size\":4,\"seq_len\":512},\"stack\":{\"transformers\":\"4.48\",\"bitsandbytes\":\"" bnb "\"}}"
    struct reply tiled = ask(TILED("1408", "0.43")), rows = ask(TILED("1408", "0.45")), unfilled = ask(TILED("1400", "0.43"));
    double before = 0, after = 0, inputs = 4.0 * 512 * (6 * 512 + 1408), weights = 4.0 * 512 * (4 * 512 + 3 * 1408), is = 0, was = 0;

    ck_assert_msg(json_number(reply_at(&tiled, PEAK), &before), "%s", tiled.r.body);
    ck_assert_msg(json_number(reply_at(&rows, PEAK), &after), "%s", rows.r.body);
    ck_assert_msg(before - after > 3 * inputs && before - after < 5 * inputs, "%.0f beside %.0f", before, after);
    ck_assert(json_number(reply_at(&tiled, PARTS "parameters"), &was) && json_number(reply_at(&rows, PARTS "parameters"), &is));
    ck_assert_msg(was >= is && was - is < 0.1 * weights, "%.0f beside %.0f", was, is);
    ck_assert_msg(strstr(unfilled.r.body, "tiles of 32 columns") != NULL, "%s", unfilled.r.body);
    reply_done(tiled);
    reply_done(rows);
    reply_done(unfilled);
#undef TILED
}
END_TEST

START_TEST(awq_goes_back_to_its_last_release)
{
#define AWQ "{\"model\":\"Qwen/Qwen2-0.5B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"quantization\":\"awq4\",\"seq_len\":1024,\"precision\":\"fp16\"}"
    struct reply open = ask(AWQ "}"), named = ask(AWQ ",\"stack\":{\"transformers\":\"5.23\"}}"), before = ask(AWQ ",\"stack\":{\"transformers\":\"4.53\"}}");
    double bytes;

    ck_assert_msg(json_number(reply_at(&open, "recommendation/memory/peak_allocated_bytes"), &bytes), "%s", open.r.body);
    ck_assert_str_eq(json_str(reply_at(&open, "resolved/stack/transformers")), "4.57");
    ck_assert_msg(strstr(named.r.body, "raises NotImplementedError in train()") != NULL, "%s", named.r.body);
    ck_assert_msg(json_number(reply_at(&before, "recommendation/memory/peak_allocated_bytes"), &bytes), "%s", before.r.body);
    reply_done(open);
    reply_done(named);
    reply_done(before);
#undef AWQ
}
END_TEST

/* HqqHfQuantizer quantises nothing in transformers 5, and in fp32 in 4.57; 8 bits hold twice what 4 do, and less than half does */
START_TEST(hqq_goes_back_to_its_last_release)
{
#define HQQ(kind, more) \
    "{\"model\":\"Qwen/Qwen2-0.5B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"seq_len\":1024," \
    "\"tuning\":\"qlora\",\"quantization\":\"" kind "\"}" more "}"
    struct reply open = ask(HQQ("hqq", "")), wide = ask(HQQ("hqq8", "")), named = ask(HQQ("hqq4", ",\"stack\":{\"transformers\":\"5.23\"}"));
    struct reply late = ask(HQQ("hqq4", ",\"stack\":{\"transformers\":\"4.57\"}")), early = ask(HQQ("hqq4", ",\"stack\":{\"transformers\":\"4.48\"}"));
    double four, eight;

    ck_assert_msg(json_number(reply_at(&open, PARTS "parameters"), &four), "%s", open.r.body);
    ck_assert_msg(json_number(reply_at(&wide, PARTS "parameters"), &eight), "%s", wide.r.body);
    ck_assert(four < eight);
    ck_assert_str_eq(json_str(reply_at(&open, "resolved/stack/transformers")), "4.56");
    ck_assert_msg(strstr(named.r.body, "does not quantise by hqq") != NULL, "%s", named.r.body);
    ck_assert_msg(strstr(late.r.body, "compute in fp32") != NULL, "%s", late.r.body);
    ck_assert_msg(strstr(early.r.body, "before 4.51 are not modelled") != NULL, "%s", early.r.body);
    reply_done(open);
    reply_done(wide);
    reply_done(named);
    reply_done(late);
    reply_done(early);
#undef HQQ
}
END_TEST

/* A checkpoint's own AWQ config says it as well as a word does. */
START_TEST(checkpoints_of_awq_go_back_too)
{
    struct reply reply = ask("{\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"seq_len\":512,\"tuning\":\"qlora\"},"
                             "\"config\":{\"model_type\":\"llama\",\"hidden_size\":1024,\"intermediate_size\":2048,\"num_hidden_layers\":4,"
                             "\"num_attention_heads\":8,\"num_key_value_heads\":8,\"vocab_size\":32000,\"quantization_config\":"
                             "{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":128,\"version\":\"gemm\",\"zero_point\":true}}}");
    double bytes;

    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &bytes), "%s", reply.r.body);
    ck_assert_str_eq(json_str(reply_at(&reply, "resolved/stack/transformers")), "4.57");
    reply_done(reply);
}
END_TEST

/* --- experts' tensors ------------------------------------------------------------------------------------------------------------------------ */

#define EXPERTS(method, quantization, more, stack) EXPERTS_IN("bf16", method, quantization, more, stack)
#define EXPERTS_IN(precision, method, quantization, more, stack)                                                                           \
    "{\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"" method                                         \
    "\",\"seq_len\":512,\"tuning\":\"qlora\","                                                                                             \
    "\"quantization\":\"" quantization "\",\"precision\":\"" precision                                                                     \
    "\",\"gradient_checkpointing\":true,\"lora\":{\"target_modules\":[\"q_proj\"]}," more "},"                                             \
    "\"stack\":{" stack "},\"config\":{\"model_type\":\"qwen3_moe\",\"architectures\":[\"Qwen3MoeForCausalLM\"],\"hidden_size\":512,"      \
    "\"moe_intermediate_size\":512,\"intermediate_size\":512,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":8," \
    "\"head_dim\":64,\"num_experts\":16,\"num_experts_per_tok\":2,\"vocab_size\":1024,\"decoder_sparse_step\":1,\"mlp_only_layers\":[]}}"

static double parameters_of(const char *body)
{
    struct reply reply = ask(body);
    double v;

    ck_assert_msg(json_number(reply_at(&reply, PARTS "parameters"), &v), "%s", reply.r.body);
    reply_done(reply);
    return v;
}

/* A byte in the place of two, and a number of fp32 a row of 512; what axolotl casts beside them are the routers, and beside whole experts these too. */
START_TEST(experts_in_8_bits_hold_less)
{
    double elements = 2 * 16 * 3 * 512.0 * 512.0, routers = 2 * 16 * 512.0;
    double whole = parameters_of(EXPERTS_IN("bf16-autocast", "single", "int8", "\"micro_batch_size\":1,\"prepare_kbit\":\"none\"", ""));
    double packed = parameters_of(EXPERTS_IN("bf16-autocast", "single", "int8",
                                             "\"micro_batch_size\":1,\"prepare_kbit\":\"none\",\"checkpoint_reentrant\":true,"
                                             "\"quantize_experts\":true",
                                             ""));
    double gates = parameters_of(EXPERTS_IN("bf16-autocast", "single", "int8",
                                            "\"micro_batch_size\":1,\"prepare_kbit\":\"axolotl\",\"checkpoint_reentrant\":true,"
                                            "\"quantize_experts\":true",
                                            ""));
    double wide = parameters_of(EXPERTS_IN("bf16-autocast", "single", "int8", "\"micro_batch_size\":1,\"prepare_kbit\":\"axolotl\"", ""));

    ck_assert_msg(whole - packed == elements - elements / 512 * 4, "%.0f packed, %.0f whole", packed, whole);
    ck_assert_msg(gates - packed == routers * 2, "%.0f with routers in fp32, %.0f", gates, packed);
    ck_assert_msg(wide - whole == (elements + routers) * 2, "%.0f with experts in fp32, %.0f", wide, whole);
}
END_TEST

#define CASTS(method, more)                                                                                                            \
    "{\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"methods\":\"" method                                         \
    "\",\"seq_len\":512,\"precision\":\"bf16-autocast\",\"micro_batch_size\":1," more "},\"stack\":{\"peft\":\"0.21\"},"                       \
    "\"config\":{\"model_type\":\"qwen3_moe\",\"architectures\":[\"Qwen3MoeForCausalLM\"],\"hidden_size\":512,"                              \
    "\"moe_intermediate_size\":512,\"intermediate_size\":512,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":8," \
    "\"head_dim\":64,\"num_experts\":16,\"num_experts_per_tok\":2,\"vocab_size\":1024,\"decoder_sparse_step\":1,\"mlp_only_layers\":[]}}"
#define AS_AXOLOTL ",\"prepare_kbit\":\"axolotl\""

/* What axolotl's loader casts where nothing is packed: two bytes more of each element of routers, and of norms, embedding and head where nothing takes these back. */
static const struct {
    const char *plain, *cast;
    bool gates, rest;
} casts[] = {
#define CAST(method, more, gates, rest) {CASTS(method, more), CASTS(method, more AS_AXOLOTL), gates, rest}
    CAST("single", "\"tuning\":\"full\",\"attention\":\"sdpa\"", true, true),
    CAST("single", "\"tuning\":\"full\",\"attention\":\"eager\"", true, true),
    CAST("single", "\"tuning\":\"full\",\"attention\":\"flash_attention_2\"", true, false),
    CAST("single", "\"tuning\":\"full\",\"attention\":\"sdpa\",\"loss\":\"cut_cross_entropy\"", true, false),
    CAST("single", "\"tuning\":\"lora\",\"attention\":\"sdpa\",\"lora\":{\"target_modules\":[\"q_proj\"]}", true, false),
    CAST("ddp", "\"tuning\":\"full\",\"attention\":\"sdpa\"", true, true),
    CAST("fsdp2", "\"tuning\":\"full\",\"attention\":\"sdpa\"", false, false),
    CAST("zero2", "\"tuning\":\"full\",\"attention\":\"sdpa\"", false, false),
#undef CAST
};

START_TEST(axolotl_casts_what_nothing_packs)
{
    double routers = 2 * 16 * 512.0, rest = 2 * 1024 * 512.0 + 5 * 512.0; /* norms of heads stay within their block */
    double grown = parameters_of(casts[_i].cast) - parameters_of(casts[_i].plain);
    double wanted = 2 * (casts[_i].gates * routers + casts[_i].rest * rest);

    ck_assert_msg(grown == wanted, "%s: %.0f more, %.0f wanted", casts[_i].cast, grown, wanted);
}
END_TEST

/* 2 layers x 16 experts x 3 matrices of 512 x 512: from two bytes an element to a half and four bytes in 64 elements */
START_TEST(packed_experts_hold_less)
{
    double elements = 2 * 16 * 3 * 512.0 * 512.0;
    double whole = parameters_of(EXPERTS("single", "nf4", "\"micro_batch_size\":1", "\"bitsandbytes\":\"0.50\""));
    double packed = parameters_of(EXPERTS("single", "nf4", "\"micro_batch_size\":1,\"quantize_experts\":true", "\"bitsandbytes\":\"0.50\""));
    double tables = 2 * 2 * 512; /* a code for each tensor, in a block of its own */

    ck_assert_msg(whole - packed > elements * (2 - 0.5625) - 2 * tables && whole - packed <= elements * (2 - 0.5625), "%.0f packed, %.0f whole", packed, whole);
}
END_TEST

static const struct {
    const char *body, *says;
} unpacked_experts[] = {
    {EXPERTS("single", "int8", "\"micro_batch_size\":1,\"quantize_experts\":true", ""), "axolotl's cache of experts"},
    {EXPERTS("fsdp2", "nf4", "\"micro_batch_size\":1,\"quantize_experts\":true", ""), "quantised experts under fsdp2"},
    {EXPERTS("single", "nf4", "\"micro_batch_size\":1,\"quantize_experts\":true", "\"transformers\":\"4.57\""), "has experts as linears"},
    {EXPERTS("single", "nf4", "\"micro_batch_size\":1,\"quantize_experts\":true", "\"transformers\":\"5.14\",\"bitsandbytes\":\"0.49\""), "is never emptied"},
};

START_TEST(says_why_experts_are_not_packed)
{
    struct reply reply = ask(unpacked_experts[_i].body);

    ck_assert_msg(reply.r.body && strstr(reply.r.body, unpacked_experts[_i].says), "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(small_states_hold_less)
{
    double whole = figure("\"optimizer\":\"adamw_torch\"", PARTS "optimizer_states");
    double small = figure("\"optimizer\":\"adamw_bnb_8bit\"", PARTS "optimizer_states");
    double paged = figure("\"optimizer\":\"paged_adamw_8bit\"", PARTS "optimizer_states");
    double lion = figure("\"optimizer\":\"lion_8bit\"", PARTS "optimizer_states");
    double host = figure("\"optimizer\":\"paged_adamw_32bit\"", "recommendation/memory/host_bytes_per_node");
    double left = figure("\"optimizer\":\"paged_adamw_32bit\"", PARTS "optimizer_states");

    ck_assert(small < whole && lion < small && paged < small / 10);
    /* what is not on the device is paged, to the byte: two states of four bytes for each of 596,049,920 parameters */
    ck_assert_msg(host + left == 2 * 4 * 596049920.0, "%.0f on the host, %.0f on the device", host, left);
}
END_TEST

UNIT_TESTS("bnb", unit_rows(fuses_what_bitsandbytes_does, products); unit_test(packed_weights_hold_less);
           unit_test(checkpoints_of_gptq_hold_less); unit_test(gptq_leaves_routers_alone); unit_rows(packed_weights_are_sharded, sharding);
           unit_test(packed_weights_go_to_the_host); unit_rows(adapters_over_quantised_weights_are_qlora, kinds);
           unit_test(quantised_weights_are_not_trained); unit_test(goes_back_to_its_last_release); unit_test(muon_wants_its_release);
           unit_rows(says_why_they_are_not, refused); unit_test(torchao_keeps_what_it_casts); unit_test(torchao_makes_nf4_by_index);
           unit_test(awq_goes_back_to_its_last_release); unit_test(hqq_goes_back_to_its_last_release);
           unit_test(checkpoints_of_awq_go_back_too); unit_test(packed_experts_hold_less); unit_test(experts_in_8_bits_hold_less); unit_rows(axolotl_casts_what_nothing_packs, casts);
           unit_rows(says_why_experts_are_not_packed, unpacked_experts); unit_test(small_states_hold_less); unit_test(int8_was_tiled);)
