/* Laws of a stage's trainer; its bytes beside PyTorch's are in tests/data/accuracy/stages.jsonl and stages_dist.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static struct reply asked(const char *training)
{
    char body[700];

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"precision\":\"bf16\",\"seq_len\":512,"
                   "\"micro_batch_size\":2,%s}}",
                   training);
    return ask(body);
}

static double figure(const char *training, const char *name)
{
    struct reply reply = asked(training);
    char at[80];
    double v;

    (void)snprintf(at, sizeof at, "recommendation/memory/%s", name);
    ck_assert_msg(json_number(reply_at(&reply, at), &v), "%s: %s", training, reply.r.body);
    reply_done(reply);
    return v;
}

static double peak(const char *training)
{
    return figure(training, "peak_allocated_bytes");
}

static const char *const methods[] = {"single", "ddp", "zero2"};

/* Numbers from before take no forward of a reference either; of unpaired rows too. */
START_TEST(unpaired_rows_too)
{
    static const char copy[] = "\"stage\":\"kto\",\"methods\":\"single\",\"tuning\":\"full\"",
                      before[] = "\"stage\":\"kto\",\"methods\":\"single\",\"tuning\":\"full\",\"reference\":\"precomputed\"";

    ck_assert(peak(before) + 596049920.0 * 2 <= peak(copy) + 4096);
}
END_TEST

START_TEST(a_precomputed_reference_is_never_above_a_copy)
{
    static const char *const how[] = {"\"gradient_checkpointing\":false", "\"gradient_checkpointing\":true"};

    for (int i = 0; i < 2; i++) {
        char copy[300], before[400];

        (void)snprintf(copy, sizeof copy, "\"stage\":\"dpo\",\"methods\":\"%s\",\"tuning\":\"full\",%s", methods[_i], how[i]);
        (void)snprintf(before, sizeof before, "%s,\"reference\":\"precomputed\"", copy);
        /* what the copy holds: 596,049,920 parameters in half */
        ck_assert_msg(peak(before) + 596049920.0 * 2 <= peak(copy) + 4096, "%s: %.0f and %.0f", copy, peak(before), peak(copy));
    }
}
END_TEST

static const char *const sharding[] = {"zero3", "fsdp", "fsdp2"};

/* The copy is cut, too: a shard of it at least, and less than the whole. */
START_TEST(a_sharded_reference_is_a_shard_at_least)
{
    char copy[300], before[400];

    (void)snprintf(copy, sizeof copy, "\"stage\":\"dpo\",\"methods\":\"%s\",\"tuning\":\"full\"", sharding[_i]);
    (void)snprintf(before, sizeof before, "%s,\"reference\":\"precomputed\"", copy);
    ck_assert_msg(peak(before) + 596049920.0 <= peak(copy) + 4096, "%s: %.0f and %.0f", copy, peak(before), peak(copy));
}
END_TEST

static double reference_static(const char *stage, const char *method)
{
    char copy[300], before[400];

    (void)snprintf(copy, sizeof copy, "\"stage\":\"%s\",\"methods\":\"%s\",\"tuning\":\"full\"", stage, method);
    (void)snprintf(before, sizeof before, "%s,\"reference\":\"precomputed\"", copy);
    return figure(copy, "static_bytes") - figure(before, "static_bytes");
}

static const char *const compared[] = {"dpo", "kto"};

/* A second engine of stage 3 holds half of what stands whole beside stage 2: two ranks, and what blocks are rounded up to. */
START_TEST(stage_3_cuts_the_reference)
{
    double two = reference_static(compared[_i], "zero2"), three = reference_static(compared[_i], "zero3");

    ck_assert_msg(three * 2 >= two && three <= two * 0.55, "%s: %.0f and %.0f", compared[_i], three, two);
}
END_TEST

#define LORA "\"methods\":\"single\",\"tuning\":\"lora\",\"lora\":{\"rank\":16,\"target_modules\":[\"q_proj\"]},\"stage\":\"dpo\""

START_TEST(adapters_need_no_copy)
{
    ck_assert(peak(LORA) == peak(LORA ",\"reference\":\"adapter\""));
    ck_assert(peak(LORA) < peak(LORA ",\"reference\":\"copy\""));
    ck_assert(peak(LORA ",\"reference\":\"precomputed\"") <= peak(LORA));
}
END_TEST

/* Two rows a sample, and no logits of a row: below twice the rows of the plain loss */
START_TEST(pairs_are_two_rows)
{
    ck_assert(peak("\"stage\":\"reward\",\"methods\":\"single\",\"tuning\":\"full\"") <
              peak("\"stage\":\"sft\",\"methods\":\"single\",\"tuning\":\"full\",\"micro_batch_size\":4"));
    ck_assert(peak("\"stage\":\"pretrain\",\"methods\":\"single\"") == peak("\"stage\":\"sft\",\"methods\":\"single\""));
}
END_TEST

/* The teacher is a model of its own, whatever trains; logits of both are what a step of it holds. */
START_TEST(a_teacher_stands_beside)
{
    ck_assert(peak("\"stage\":\"distillation\",\"methods\":\"single\",\"tuning\":\"full\"") >
              peak("\"stage\":\"sft\",\"methods\":\"single\",\"tuning\":\"full\"") + 596049920.0 * 2);
}
END_TEST

static const char *const pairs[] = {"orpo", "cpo", "simpo"};

START_TEST(pairs_without_a_reference_hold_all_logits)
{
    char own[200];

    (void)snprintf(own, sizeof own, "\"stage\":\"%s\",\"methods\":\"single\",\"tuning\":\"full\"", pairs[_i]);
    ck_assert(peak(own) > peak("\"stage\":\"dpo\",\"methods\":\"single\",\"tuning\":\"full\",\"reference\":\"precomputed\""));
}
END_TEST

/* A head of labels in the place of the vocabulary's; what peft trains beside adapters is all of it. */
START_TEST(a_label_a_row)
{
    double labels = peak("\"stage\":\"classification\",\"methods\":\"single\",\"tuning\":\"full\""),
           tokens = peak("\"stage\":\"token_classification\",\"methods\":\"single\",\"tuning\":\"full\""),
           words = peak("\"stage\":\"sft\",\"methods\":\"single\",\"tuning\":\"full\"");

    ck_assert(labels <= tokens && tokens < words);
}
END_TEST

/* Two forwards of a decoder without its head: more than the activations of one, and no logits. */
START_TEST(both_sides_of_a_pair_are_forwards)
{
    double both = peak("\"stage\":\"embedding\",\"methods\":\"single\",\"tuning\":\"full\""),
           labels = peak("\"stage\":\"classification\",\"methods\":\"single\",\"tuning\":\"full\"");

    ck_assert(both > labels && both < peak("\"stage\":\"classification\",\"methods\":\"single\",\"tuning\":\"full\",\"micro_batch_size\":8"));
}
END_TEST

/* A plain loop's outputs stay half; rows that flash attention's path flattens are the rows. */
START_TEST(pairs_of_other_loops)
{
    static const char rows[] = "\"stage\":\"embedding\",\"methods\":\"fsdp2\",\"tuning\":\"full\",\"attention\":\"flash_attention_2\"";
    char body[400], packed[400];
    struct reply plain;
    double v;

    (void)snprintf(body, sizeof body, "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"stack\":{\"framework\":\"torch\"},"
                                      "\"training\":{\"precision\":\"bf16-mixed\",\"seq_len\":512,\"micro_batch_size\":2,\"stage\":\"embedding\",\"methods\":\"single\"}}");
    plain = ask(body);
    ck_assert_msg(json_number(reply_at(&plain, "recommendation/memory/peak_allocated_bytes"), &v), "%s", plain.r.body);
    reply_done(plain);
    (void)snprintf(packed, sizeof packed, "%s,\"packing\":true", rows);
    ck_assert(peak(packed) == peak(rows));
    ck_assert(peak("\"stage\":\"embedding\",\"methods\":\"zero2\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":\"all-linear\"}") > 0); /* has room */
}
END_TEST

#define BERT(architecture) \
    "{\"config\":{\"model_type\":\"bert\",\"architectures\":[\"" architecture "\"],\"num_hidden_layers\":2},\"cluster\":{\"gpu\":\"A100-80GB\"}"
static const struct {
    const char *body, *says;
} encoders[] = {
    {BERT("BertForSequenceClassification") "}", "training.stage classification, by the class that architectures names"},
    {BERT("BertForMaskedLM") "}", "training.stage masked_lm, by the class"},
    {BERT("BertForPreTraining") "}", "training.stage masked_lm_nsp, by the class"},
    {BERT("BertForMaskedLM") ",\"training\":{\"stage\":\"qa\"}}", "training.stage question_answering:"},
    {BERT("BertForMaskedLM") ",\"training\":{\"stage\":\"qa\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":\"all-linear\"}}}", "adapts the head too"},
    {BERT("BertForMaskedLM") ",\"training\":{\"packing\":true}}", "packed rows is not modelled"},
    {BERT("BertForMaskedLM") ",\"training\":{\"liger_kernels\":[\"rope\"]}}", "without Liger's kernels"},
    {BERT("BertForMaskedLM") ",\"workload\":\"inference\"}", "an encoder, which generates nothing"},
    {BERT("BertForMaskedLM") ",\"training\":{\"seq_len\":1024}}", "positions for 512 tokens and no more"},
};

START_TEST(an_encoder_trains_what_its_class_says)
{
    struct reply reply = ask(encoders[_i].body);

    ck_assert_msg(strstr(reply.r.body, encoders[_i].says), "%s: %s", encoders[_i].body, reply.r.body);
    reply_done(reply);
}
END_TEST

static const struct {
    const char *training, *says;
} refused[] = {
    {"\"stage\":\"question_answering\",\"methods\":\"single\"", "question_answering of this model is not modelled"},
    {"\"stage\":\"embedding\",\"methods\":\"single\",\"attention_mask\":false", "embedding has rows with a mask"},
    {"\"stage\":\"classification\",\"methods\":\"tp\",\"tensor_parallel\":2", "under tp is not modelled yet"},
    {"\"stage\":\"distillation\",\"methods\":\"single\",\"reference\":\"precomputed\"", "a model beside the student"},
    {"\"stage\":\"kto\",\"methods\":\"single\",\"micro_batch_size\":1", "two rows at least"},
    {"\"stage\":\"orpo\",\"methods\":\"single\",\"reference\":\"copy\"", "no reference model"},
    {"\"stage\":\"sft\",\"trainer\":\"llama-factory\",\"methods\":\"single\"", "own trainers are those of dpo, orpo, simpo, kto and reward"},
    {"\"stage\":\"kto\",\"trainer\":\"open-instruct\",\"methods\":\"single\"", "open-instruct's dpo and simpo"},
    {"\"stage\":\"reward\",\"trainer\":\"llama-factory\",\"methods\":\"ddp\",\"tuning\":\"full\"", "single, or adapters under ddp"},
    {"\"stage\":\"dpo\",\"trainer\":\"ms-swift\",\"methods\":\"single\",\"reference\":\"precomputed\"", "copy or adapter"},
    {"\"stage\":\"dpo\",\"trainer\":\"llama-factory\",\"methods\":\"single\",\"reference\":\"precomputed\"", "compute the reference in each step"},
    {"\"stage\":\"cpo\",\"trainer\":\"axolotl\",\"methods\":\"single\"", "axolotl's those but the last"},
    {"\"stage\":\"kto\",\"trainer\":\"axolotl\",\"methods\":\"single\",\"micro_batch_size\":1", "two rows at least"},
    {"\"stage\":\"dpo\",\"trainer\":\"llama-factory\",\"methods\":\"zero3\",\"tuning\":\"full\"", "LLaMA-Factory's dpo under zero3"},
    {"\"stage\":\"dpo\",\"methods\":\"single\",\"tuning\":\"full\",\"reference\":\"adapter\"", "without adapters"},
    {"\"stage\":\"dpo\",\"methods\":\"single\",\"reference\":\"none\"", "compares with a reference"},
    {"\"stage\":\"sft\",\"methods\":\"single\",\"reference\":\"copy\"", "no reference model"},
    {"\"stage\":\"dpo\",\"methods\":\"single\",\"packing\":true", "rows with a mask"},
    {"\"stage\":\"dpo\",\"methods\":\"single\",\"loss\":\"liger\"", "trainer's own"},
    {"\"stage\":\"distillation\",\"methods\":\"fsdp2\"", "leaves the teacher on the host"},
    {"\"stage\":\"distillation\",\"methods\":\"fsdp\"", "leaves the teacher on the host"},
    {"\"stage\":\"dpo\",\"methods\":\"tp\",\"tensor_parallel\":2", "under tp is not modelled yet"},
    {"\"stage\":\"grpo\",\"methods\":\"single\"", "grpo is not modelled yet"},
    {"\"stage\":\"ppo\",\"methods\":\"single\"", "ppo is not modelled yet"},
};

/* A class that AutoModelForSequenceClassification and AutoModelForTokenClassification do not find in the release. */
#define CLASSES(type, more, stage) \
    "{\"config\":{\"model_type\":\"" type "\",\"num_hidden_layers\":2" more "},\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"stage\":\"" stage "\"}"
static const struct {
    const char *body, *says;
} classes[] = {
    {CLASSES("granite", "", "reward") "}", "transformers 5.23 has no AutoModelForSequenceClassification of granite: no release has"},
    {CLASSES("mamba", "", "classification") "}", "AutoModelForSequenceClassification of mamba: no release has"},
    {CLASSES("internlm3", ",\"hidden_size\":256,\"num_attention_heads\":4,\"intermediate_size\":512,\"vocab_size\":1000", "reward") "}", "of internlm3: no release has"},
    {CLASSES("olmo2", ",\"hidden_size\":256,\"num_attention_heads\":4,\"intermediate_size\":512,\"vocab_size\":1000", "token_classification") "}", "AutoModelForTokenClassification of olmo2: no release has"},
    {CLASSES("gemma3_text", "", "reward") ",\"stack\":{\"transformers\":\"4.56\"}}", "transformers 4.56 has no AutoModelForSequenceClassification of gemma3_text: it came with 4.57"},
    {CLASSES("gemma3_text", "", "reward") "}", "peak_allocated_bytes"},
    {CLASSES("bert", "", "token_classification") "}", "peak_allocated_bytes"},
};

/* Its own losses keep all logits, of a batch of one too. A file of its names the trainer; the reference of full tuning is in half. */
START_TEST(llama_factory_computes_over_logits)
{
    static const char file[] = "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"framework_config\":{\"framework\":\"llama-factory\",\"text\":"
                               "\"stage: dpo\\npref_loss: orpo\\nlora_target: q_proj,v_proj\\nlora_rank: 16\\ncutoff_len: 512\\nper_device_train_batch_size: 2\\nbf16: true\\n\"}}",
                      said[] = "\"methods\":\"single\",\"precision\":\"bf16-autocast\",\"tuning\":\"lora\",\"lora\":{\"rank\":16,\"target_modules\":[\"q_proj\",\"v_proj\"]},"
                               "\"gradient_checkpointing\":true,\"stage\":\"orpo\",\"trainer\":\"llama-factory\"";
    double logits = 4.0 * 511 * 151936 * 4, v = 0, w = 0; /* four rows in fp32 */
    struct reply reply = ask(file);
    char body[900];

    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &v), "%s", reply.r.body);
    reply_done(reply);
    (void)snprintf(body, sizeof body, "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"seq_len\":512,\"micro_batch_size\":2,%s},"
                    "\"stack\":{\"transformers\":\"5.6\",\"peft\":\"0.18\",\"accelerate\":\"1.11\"}}", said);
    reply = ask(body);
    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &w) && w == v, "%.0f and %s", v, reply.r.body);
    reply_done(reply);
    ck_assert(v > 2 * logits);
    ck_assert(peak("\"stage\":\"kto\",\"trainer\":\"llama-factory\",\"methods\":\"single\",\"tuning\":\"lora\"") > logits);
    reply = ask("{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"seq_len\":512,\"micro_batch_size\":1,\"methods\":\"single\",\"precision\":\"bf16-mixed\","
                "\"tuning\":\"full\",\"stage\":\"dpo\",\"trainer\":\"llama-factory\"}}");
    /* 596,049,920 parameters in fp32, and in half */
    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/static_bytes"), &v) && v >= 6 * 596049920.0 && v < 6.01 * 596049920.0, "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

/* trl 1.9's DPO, which axolotl pins, keeps logits where trl 1.16's keeps none. */
START_TEST(axolotl_computes_over_logits)
{
#define AXOLOTL(rl) \
    "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"framework_config\":{\"framework\":\"axolotl\",\"text\":" \
    "\"rl: " rl "\\nadapter: lora\\nlora_r: 16\\nlora_target_modules: [q_proj, v_proj]\\nsequence_len: 512\\nmicro_batch_size: 2\\nbf16: true\\n\"}}"
    struct reply reply = ask(AXOLOTL("dpo"));
    double logits = 4.0 * 511 * 151936 * 4, v = 0;

    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &v) && v > 2 * logits, "%s", reply.r.body);
    ck_assert_str_eq(json_str(reply_at(&reply, "resolved/training/trainer")), "axolotl");
    reply_done(reply);
    reply = ask(AXOLOTL("ipo"));
    ck_assert_msg(strstr(reply.r.body, "a preference trainer of the trl that axolotl pins") && !strstr(reply.r.body, "peak_allocated_bytes"), "%s", reply.r.body);
    reply_done(reply);
#undef AXOLOTL
}
END_TEST

START_TEST(a_stage_wants_a_class_of_the_type)
{
    struct reply reply = ask(classes[_i].body);

    ck_assert_msg(strstr(reply.r.body, classes[_i].says), "%s: %s", classes[_i].body, reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(says_what_has_no_model)
{
    struct reply reply = asked(refused[_i].training);

    ck_assert_msg(strstr(reply.r.body, refused[_i].says), "%s: %s", refused[_i].training, reply.r.body);
    ck_assert_msg(!strstr(reply.r.body, "peak_allocated_bytes"), "%s: %s", refused[_i].training, reply.r.body);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("stages", unit_rows(a_precomputed_reference_is_never_above_a_copy, methods); unit_rows(a_sharded_reference_is_a_shard_at_least, sharding);
           unit_rows(stage_3_cuts_the_reference, compared); unit_test(unpaired_rows_too); unit_test(adapters_need_no_copy); unit_test(pairs_are_two_rows);
           unit_test(a_teacher_stands_beside); unit_rows(pairs_without_a_reference_hold_all_logits, pairs);
           unit_test(a_label_a_row); unit_test(both_sides_of_a_pair_are_forwards); unit_test(pairs_of_other_loops); unit_rows(an_encoder_trains_what_its_class_says, encoders); unit_test(llama_factory_computes_over_logits); unit_test(axolotl_computes_over_logits); unit_rows(a_stage_wants_a_class_of_the_type, classes);
           unit_rows(says_what_has_no_model, refused);)
