/* A checkpoint that is saved quantised: what training takes from its quantization_config, what contradicts it, how it is loaded. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define BNB(more)     "\"quant_method\":\"bitsandbytes\",\"load_in_4bit\":true,\"bnb_4bit_quant_type\":\"nf4\",\"bnb_4bit_use_double_quant\":true" more
#define GPTQ4         "\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":128,\"desc_act\":false"
#define FP8           "\"quant_method\":\"fp8\",\"weight_block_size\":[128,128],\"activation_scheme\":\"dynamic\""
#define MXFP4         "\"quant_method\":\"mxfp4\""
#define SKIPS(module) ",\"llm_int8_skip_modules\":[\"lm_head\",\"" module "\"]"
#define OF_BF16       ",\"bnb_4bit_quant_storage\":\"bfloat16\""
#define SMALL         "\"model\":\"Qwen/Qwen3-0.6B\""
#define OSS           "\"model\":\"openai/gpt-oss-20b\""

/* `saved`: the members of quantization_config; NULL: none. */
static struct reply asked_of(const char *model, const char *saved, unsigned gpus, const char *training, const char *stack)
{
    char body[900];

    (void)snprintf(body, sizeof body,
                   "{%s,\"config\":{\"quantization_config\":%s%s%s},\"cluster\":{\"gpu\":\"B200\",\"gpus_per_node\":%u},\"stack\":{%s},\"training\":{"
                   "\"micro_batch_size\":1,\"seq_len\":256,\"gradient_checkpointing\":true,%s}}",
                   model, saved ? "{" : "null", saved ? saved : "", saved ? "}" : "", gpus, stack, training);
    return ask(body);
}

static double peak_of(const struct reply *reply)
{
    double v;

    ck_assert_msg(reply->r.status == 200 && json_number(reply_at(reply, "recommendation/memory/peak_allocated_bytes"), &v), "%s", reply->r.body);
    return v;
}

/* --- a checkpoint's form is trained as the same form asked of the config without it ---------------------------------------------------------- */

static const struct {
    const char *model, *saved, *training, *same, *tuning, *assumed;
} forms[] = {
    {SMALL, BNB(""), "\"methods\":\"single\"", "\"quantization\":\"nf4-dq\",\"tuning\":\"qlora\"", "qlora", "training.quantization nf4-dq: the checkpoint's"},
    {SMALL, BNB(""), "\"methods\":\"single\",\"tuning\":\"lora\"", "\"quantization\":\"nf4-dq\",\"tuning\":\"qlora\"", "qlora", "nf4-dq: the checkpoint's"},
    {SMALL, BNB(""), "\"methods\":\"single\",\"quantization\":\"nf4-dq\"", "\"quantization\":\"nf4-dq\",\"tuning\":\"qlora\"", "qlora", NULL},
    {SMALL, GPTQ4, "\"methods\":\"single\"", "\"quantization\":\"gptq4\",\"tuning\":\"qlora\"", "qlora", "training.quantization gptq4: the checkpoint's"},
    {SMALL, FP8, "\"methods\":\"single\",\"tuning\":\"full\"", "\"tuning\":\"full\"", "full", "FineGrainedFP8Config(dequantize=True)"},
    {SMALL, FP8, "\"methods\":\"single\",\"tuning\":\"lora\"", "\"tuning\":\"lora\"", "lora", "FineGrainedFP8Config(dequantize=True)"},
    {OSS, MXFP4, "\"methods\":\"single\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":\"all-linear\"}",
     "\"tuning\":\"lora\",\"lora\":{\"target_modules\":\"all-linear\"}", "lora", "Mxfp4Config(dequantize=True)"},
};

START_TEST(a_form_is_trained_as_it_is_asked)
{
    char same[200];
    struct reply of_checkpoint = asked_of(forms[_i].model, forms[_i].saved, 1, forms[_i].training, ""), of_numbers;

    (void)snprintf(same, sizeof same, "\"methods\":\"single\",%s", forms[_i].same);
    of_numbers = asked_of(forms[_i].model, NULL, 1, same, "");
    ck_assert_msg(peak_of(&of_checkpoint) == peak_of(&of_numbers), "%s", of_checkpoint.r.body);
    ck_assert_str_eq(json_str(reply_at(&of_checkpoint, "recommendation/tuning")), forms[_i].tuning);
    if (forms[_i].assumed)
        ck_assert_msg(strstr(of_checkpoint.r.body, forms[_i].assumed) != NULL, "%s", of_checkpoint.r.body);
    ck_assert_msg(strstr(of_numbers.r.body, "the checkpoint's") == NULL, "%s", of_numbers.r.body);
    reply_done(of_checkpoint);
    reply_done(of_numbers);
}
END_TEST

/* --- what contradicts it, and what has no model ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *saved, *training, *stack;
    unsigned gpus;
    const char *code, *says;
} refused[] = {
    {BNB(""), "\"quantization\":\"none\"", "", 1, "field-conflict", "quantization_config says nf4-dq"},
    {BNB(""), "\"quantization\":\"nf4\"", "", 1, "field-conflict", "quantization_config says nf4-dq"},
    {GPTQ4, "\"quantization\":\"nf4\"", "", 1, "field-conflict", "quantization_config says gptq4"},
    {BNB(""), "\"tuning\":\"full\"", "", 1, "field-conflict", "not trained in full"},
    {BNB(""), "\"methods\":\"fsdp\"", "", 2, "field-conflict", "bnb_4bit_quant_storage is uint8"},
    {BNB(""), "\"methods\":\"zero3\"", "", 2, "field-conflict", "bnb_4bit_quant_storage is uint8"},
    {FP8, "\"tuning\":\"qlora\",\"quantization\":\"nf4\"", "", 1, "field-conflict", "saved in fp8"},
    {FP8, "\"tuning\":\"lora\"", "\"transformers\":\"5.10\"", 1, "field-conflict", "the dtype of their scales"},
    {MXFP4, "\"tuning\":\"lora\",\"precision\":\"fp32\"", "\"transformers\":\"5.22\"", 1, "field-conflict", "mxfp4 experts to bf16"},
    {BNB(SKIPS("model.layers.0.mlp")), "\"tuning\":\"qlora\"", "", 1, "not-modelled", "quantization_config"},
    {"\"quant_method\":\"gptq\",\"bits\":4,\"group_size\":64", "\"tuning\":\"qlora\"", "", 1, "not-modelled", "quantization_config"},
    {"\"quant_method\":\"compressed-tensors\"", "\"tuning\":\"lora\"", "", 1, "not-modelled", "quantization_config"},
};

START_TEST(what_contradicts_it_is_refused)
{
    struct reply reply = asked_of(SMALL, refused[_i].saved, refused[_i].gpus, refused[_i].training, refused[_i].stack);

    ck_assert_msg(strstr(reply.r.body, "peak_allocated_bytes") == NULL, "%s", reply.r.body);
    ck_assert_msg(strstr(reply.r.body, refused[_i].code) && strstr(reply.r.body, refused[_i].says), "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(storage_of_the_compute_dtype_is_cut)
{
    struct reply reply = asked_of(SMALL, BNB(OF_BF16), 2, "\"methods\":\"fsdp\",\"precision\":\"bf16\"", "");

    ck_assert_double_gt(peak_of(&reply), 0);
    reply_done(reply);
}
END_TEST

/* --- the files that start it ------------------------------------------------------------------------------------------------------------------ */

START_TEST(the_script_unpacks_it)
{
    struct reply reply = asked_of(SMALL, FP8, 1, "\"methods\":\"single\",\"tuning\":\"lora\"", "");
    const char *script = json_str(reply_at(&reply, "recommendation/launch/script"));

    ck_assert(script && strstr(script, "from transformers import FineGrainedFP8Config\n"));
    ck_assert(strstr(script, "MODEL[\"quantization_config\"] = FineGrainedFP8Config(dequantize=True)") != NULL);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("api/checkpoint", unit_rows(a_form_is_trained_as_it_is_asked, forms); unit_rows(what_contradicts_it_is_refused, refused);
           unit_test(storage_of_the_compute_dtype_is_cut); unit_test(the_script_unpacks_it);)
