/* POST /estimate: what is refused, and where the pointer points. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEEP "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["

/* A small config of `type` on transformers 4.40. */
#define ON_4_40(type, more)                                                                                                                      \
    "{\"config\":{\"model_type\":\"" type "\",\"hidden_size\":512,\"intermediate_size\":1024,\"num_hidden_layers\":2,\"vocab_size\":1000," more      \
    "}," GPU ",\"stack\":{\"transformers\":\"4.40\"},\"training\":{\"methods\":\"single\"}}"
#define ROPE(type) "\"num_attention_heads\":8,\"rope_scaling\":{\"rope_type\":\"" type "\",\"factor\":8.0}"

#define BY_NUMBERS(more) "{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":\"80GiB\"," more "}}}"

static const struct {
    const char *body;
    int status;
    const char *code, *pointer;
} refused[] = {
    {"{" OPT ",\"cluster\":{\"gpu\":\"V100-32GB\",\"gpus_per_node\":4},\"training\":{\"methods\":\"fsdp\",\"precision\":\"fp16-mixed\",\"optimizer\":\"adamw_torch_fused\"}}",
     422, "field-conflict", "/training/optimizer"}, /* ShardedGradScaler's found_inf has a dimension */
    {"{" OPT "," GPU ",\"training\":{\"keep_outputs\":true}}", 422, "field-conflict", "/training/keep_outputs"},
    {ON_4_40("llama", ROPE("llama3")), 422, "field-conflict", "/stack/transformers"},
    {"{\"config\":{\"model_type\":\"phi3\",\"vocab_size\":1000,\"hidden_size\":256,\"num_attention_heads\":4}," GPU "}", 422, "modeling-raised", "/config"}, /* pad_token_id */
    {ON_4_40("llama", ROPE("yarn")), 422, "field-conflict", "/stack/transformers"},
    {ON_4_40("olmo", ROPE("linear")), 422, "field-conflict", "/config/rope_scaling"}, /* it wants it by `type` */
    {ON_4_40("mistral", "\"num_attention_heads\":12,\"num_key_value_heads\":4,\"head_dim\":64"), 422, "field-conflict", "/stack/transformers"},
    {"", 400, "malformed-json", ""},
    {"{", 400, "malformed-json", ""},
    {"{\"model\":\"facebook/opt-125m\",}", 400, "malformed-json", ""},
    {"{\"a\":NaN}", 400, "malformed-json", ""},
    {"{\"a\":\"\xff\"}", 400, "malformed-json", ""},
    {"{\"config\":" DEEP, 400, "malformed-json", ""},
    {"[]", 422, "field-type", ""},
    {"null", 422, "field-type", ""},
    {"{}", 422, "field-missing", "/model"},
    {"{" OPT "}", 422, "field-missing", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":null}", 422, "field-missing", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":7}", 422, "field-type", "/cluster"},
    {"{" OPT ",\"cluster\":{\"name\":\"atlantis\"}}", 422, "field-value", "/cluster/name"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"Voodoo 2\"}}", 422, "field-value", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"\"}}", 422, "field-range", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":{\"gpu\":[\"T4\"]}}", 422, "field-type", "/cluster/gpu"},
    {"{" OPT ",\"cluster\":{\"gpu\":{}}}", 422, "field-missing", "/cluster/gpu/memory_bytes"},
    {"{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":\"80 apples\"}}}", 422, "field-value", "/cluster/gpu/memory_bytes"},
    {"{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":-1}}}", 422, "field-range", "/cluster/gpu/memory_bytes"},
    {"{" OPT ",\"cluster\":{\"gpu\":{\"memory_bytes\":1e9,\"compute_capability\":\"x\"}}}", 422, "field-value", "/cluster/gpu/compute_capability"},
    {BY_NUMBERS("\"bf16_tflops\":1e-300"), 422, "field-range", "/cluster/gpu/bf16_tflops"},
    {BY_NUMBERS("\"fp16_tflops\":0.0009"), 422, "field-range", "/cluster/gpu/fp16_tflops"},
    {BY_NUMBERS("\"memory_gbs\":1e-9"), 422, "field-range", "/cluster/gpu/memory_gbs"},
    {BY_NUMBERS("\"memory_gbs\":1e300"), 422, "field-range", "/cluster/gpu/memory_gbs"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"intra_node_gbs\":1e-5}}", 422, "field-range", "/cluster/intra_node_gbs"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"inter_node_gbs\":-1}}", 422, "field-range", "/cluster/inter_node_gbs"},
    {"{" OPT "," GPU ",\"training\":{\"max_grad_norm\":1e-10}}", 422, "field-range", "/training/max_grad_norm"},
    {"{" OPT "," GPU ",\"training\":{\"lora\":{\"alpha\":1e-12}}}", 422, "field-range", "/training/lora/alpha"},
    {"{" OPT "," GPU ",\"training\":{\"lora\":{\"alpha_pattern\":{\"x\":1e-12}}}}", 422, "field-range", "/training/lora/alpha_pattern"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"gpus_per_node\":0}}", 422, "field-range", "/cluster/gpus_per_node"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"free_memory_bytes\":[1000000000,true]}}", 422, "field-type", "/cluster/free_memory_bytes/1"},
    {"{" OPT ",\"cluster\":{\"gpu\":\"T4\",\"intra_node\":\"string\"}}", 422, "field-value", "/cluster/intra_node"},
    {"{\"model\":7," GPU "}", 422, "field-type", "/model"},
    {"{\"model\":\"\"," GPU "}", 422, "field-range", "/model"},
    {"{\"model\":\"../x\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a/b/c\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"/etc/passwd\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a/.b\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a--b\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"a b\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"x.git\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"m\xc3\xb6" "del\"," GPU "}", 422, "field-value", "/model"},
    {"{\"model\":\"nobody/nothing\"," GPU "}", 404, "model-not-found", "/model"},
    {"{" OPT "," GPU ",\"config\":[]}", 422, "field-type", "/config"},
    {"{\"config\":{}," GPU "}", 422, "field-missing", "/config/model_type"},
    {"{\"config\":{\"model_type\":7}," GPU "}", 422, "field-type", "/config/model_type"},
    {"{\"config\":{\"model_type\":\"llama\"}," GPU "}", 422, "field-missing", "/config/hidden_size"},
    {"{\"config\":{\"model_type\":\"a_type_of_tomorrow\",\"n_embd\":64,\"n_layer\":2}," GPU "}", 422, "field-missing", "/config/num_attention_heads"},
    {"{" OPT "," GPU ",\"workload\":\"dreaming\"}", 422, "field-value", "/workload"},
    {"{" OPT "," GPU ",\"margin\":1}", 422, "field-range", "/margin"},
    {"{" OPT "," GPU ",\"margin\":-0.1}", 422, "field-range", "/margin"},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":2.2}}", 422, "field-type", "/stack/torch"},
    {"{" OPT "," GPU ",\"stack\":{\"torch\":\"latest\"}}", 422, "field-value", "/stack/torch"},
    {"{" OPT "," GPU ",\"stack\":{\"transformers\":\"4.99\"}}", 422, "field-value", "/stack/transformers"},
    {"{" OPT "," GPU ",\"deepspeed_config\":\"x\"}", 422, "field-type", "/deepspeed_config"},
    {TRAIN("\"seq_len\":0"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":-1"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":1e300"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":1e999"), 422, "field-range", "/training/seq_len"},
    {TRAIN("\"seq_len\":512.5"), 422, "field-type", "/training/seq_len"},
    {TRAIN("\"seq_len\":\"512\""), 422, "field-type", "/training/seq_len"},
    {TRAIN("\"seq_len\":512,\"max_length\":512"), 422, "field-conflict", "/training/max_length"},
    {TRAIN("\"micro_batch_size\":true"), 422, "field-type", "/training/micro_batch_size"},
    {TRAIN("\"micro_batch_size\":65537"), 422, "field-range", "/training/micro_batch_size"},
    {TRAIN("\"micro_batch_size\":5,\"global_batch_size\":128"), 422, "field-conflict", "/training/global_batch_size"},
    {TRAIN("\"micro_batch_size\":4,\"gradient_accumulation_steps\":2,\"global_batch_size\":4"), 422, "field-conflict", "/training/global_batch_size"},
    {TRAIN("\"gradient_accumulation_steps\":16385"), 422, "field-range", "/training/gradient_accumulation_steps"},
    {TRAIN("\"global_batch_size\":16385"), 422, "field-range", "/training/global_batch_size"},
    {TRAIN("\"methods\":[]"), 422, "field-range", "/training/methods"},
    {TRAIN("\"methods\":\"zero4\""), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"pp+tp\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"tp++pp\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"ddp+zero1\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":[\"single+tp\"]"), 422, "field-value", "/training/methods"},
    {TRAIN("\"methods\":{}"), 422, "field-type", "/training/methods"},
    {TRAIN("\"tuning\":[\"full\",7]"), 422, "field-type", "/training/tuning/1"},
    {TRAIN("\"tuning\":[\"full\",\"half\"]"), 422, "field-value", "/training/tuning/1"},
    {TRAIN("\"lora\":{\"rank\":0}"), 422, "field-range", "/training/lora/rank"},
    {TRAIN("\"lora\":{\"dropout\":1}"), 422, "field-range", "/training/lora/dropout"},
    {TRAIN("\"lora\":{\"target_modules\":[]}"), 422, "field-range", "/training/lora/target_modules"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"target_modules\":\"some-linear\"}"), 422, "field-value", "/training/lora/target_modules"},
    {TRAIN("\"lora\":{\"target_modules\":[\"q_proj\",\"\"]}"), 422, "field-range", "/training/lora/target_modules/1"},
    {TRAIN("\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"no_such_module\"]}"), 422, "field-value", "/training/lora/target_modules"},
    {TRAIN("\"gradient_checkpointing\":\"perhaps\""), 422, "field-value", "/training/gradient_checkpointing"},
    {TRAIN("\"attention\":\"flash_attention_2\",\"precision\":\"fp32\""), 422, "field-conflict", "/training/attention"},
    {TRAIN("\"loss\":\"liger\",\"liger_kernels\":[\"cross_entropy\"]"), 422, "field-conflict", "/training/liger_kernels"},
    {TRAIN("\"compile\":\"yes\""), 422, "field-type", "/training/compile"},
    {TRAIN("\"fsdp\":{\"wrap\":\"tightly\"}"), 422, "field-value", "/training/fsdp/wrap"},
    {TRAIN("\"buckets\":{\"reduce_elems\":0}"), 422, "field-range", "/training/buckets/reduce_elems"},
    {"{\"model\":\"openai-community/gpt2\"," GPU ",\"training\":{\"seq_len\":1025}}", 422, "field-range", "/training/seq_len"},
    {"{\"model\":\"facebook/opt-1.3b\"," GPU ",\"training\":{\"seq_len\":2049}}", 422, "field-range", "/training/seq_len"},
    {"{\"model\":\"Salesforce/codegen-350M-mono\"," GPU ",\"training\":{\"attention\":\"flash_attention_2\"}}", 422, "field-conflict", "/training/attention"},
    {"{\"model\":\"microsoft/biogpt\"," GPU ",\"training\":{\"tuning\":\"lora\"}}", 422, "no-default-targets", "/training/lora/target_modules"},
};

START_TEST(refuses)
{
    struct reply reply = ask(refused[_i].body);

    ck_assert_msg(reply.r.status == refused[_i].status && !strcmp(reply_text(&reply, "code"), refused[_i].code) &&
                      !strcmp(reply_text(&reply, "pointer"), refused[_i].pointer),
                  "%s: %d %s at '%s': %s", refused[_i].body, reply.r.status, reply_text(&reply, "code"), reply_text(&reply, "pointer"), reply_text(&reply, "detail"));
    ck_assert_str_eq(reply.r.content_type, "application/problem+json");
    ck_assert(reply_text(&reply, "detail")[0] && reply_text(&reply, "title")[0] && reply_text(&reply, "type")[0]);
    ck_assert_str_eq(reply.r.code, refused[_i].code);
    reply_done(reply);
}
END_TEST

/* DBRX adds rows of an expert, which autocast made bf16, to fp32 ones: what a choice causes is told with it. */
START_TEST(a_raise_is_told_with_the_choices_it_hangs_on)
{
#define DBRX(precision)                                                                                                                           \
    "{\"config\":{\"model_type\":\"dbrx\",\"d_model\":64,\"n_heads\":4,\"n_layers\":2,\"vocab_size\":100,\"attn_config\":{\"kv_n_heads\":2,\"clip_qkv\":8,\"rope_theta\":500000},\"ffn_config\":" \
    "{\"ffn_hidden_size\":64,\"moe_num_experts\":4,\"moe_top_k\":2}}," GPU ",\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"seq_len\":16," \
    "\"gradient_checkpointing\":false,\"precision\":\"" precision "\"}}"
    struct reply raises = ask(DBRX("bf16-autocast")), runs = ask(DBRX("bf16"));
    const char *detail = json_str(reply_at(&raises, "candidates/0/reason/detail"));

    ck_assert_msg(detail && strstr(detail, "the modelling code raises with precision bf16-autocast and attention sdpa: RuntimeError: "), "%s", raises.r.body);
    ck_assert_msg(reply_at(&runs, "candidates/0/memory"), "%s", runs.r.body);
    reply_done(raises);
    reply_done(runs);
}
END_TEST

START_TEST(refuses_names_of_any_length)
{
    static const size_t lengths[] = {97, 1000, 100000};
    static const char *const around[] = {"{\"model\":\"%s\"," GPU "}", "{" OPT ",\"cluster\":{\"gpu\":\"%s\"}}", "{" OPT "," GPU ",\"objective\":\"%s\"}",
                                         TRAIN("\"methods\":\"%s\""), "{\"model\":\"\\u00e4%s\"," GPU "}"};

    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t j = 0; j < sizeof around / sizeof *around; j++) {
            char *name = calloc(1, lengths[i] + 1), *body = malloc(lengths[i] + 200);
            struct reply reply;

            memset(name, 'x', lengths[i]);
            (void)sprintf(body, around[j], name);
            reply = ask(body);
            ck_assert_int_eq(reply.r.status, 422);
            ck_assert(reply_text(&reply, "pointer")[0] == '/');
            ck_assert_uint_lt(reply.r.bytes, 2000);
            reply_done(reply);
            free(name);
            free(body);
        }
}
END_TEST

UNIT_TESTS("api/refused",
    unit_rows(refuses, refused);
    unit_test(a_raise_is_told_with_the_choices_it_hangs_on);
    unit_test(refuses_names_of_any_length);
)
