/* Laws of a model of which a part is trained; its bytes beside PyTorch's are in tests/data/accuracy/freeze.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static struct reply asked_of(const char *model, const char *training)
{
    char body[700];

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"precision\":\"bf16\",\"seq_len\":512,"
                   "\"micro_batch_size\":2,%s}}",
                   model, training);
    return ask(body);
}

static struct reply asked(const char *training)
{
    return asked_of("Qwen/Qwen3-0.6B", training);
}

static double peak_of(const char *model, const char *training)
{
    struct reply reply = asked_of(model, training);
    double v;

    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &v), "%s: %s", training, reply.r.body);
    reply_done(reply);
    return v;
}

static double peak(const char *training)
{
    return peak_of("Qwen/Qwen3-0.6B", training);
}

static const char *const methods[] = {"single", "ddp", "zero2", "zero3", "fsdp", "fsdp2"};

/* Less is trained, less is held: of the first layers gradients and states, of none more than of some. */
START_TEST(what_is_frozen_holds_less)
{
    char full[200], some[260], most[260];

    (void)snprintf(full, sizeof full, "\"methods\":\"%s\",\"tuning\":\"full\"", methods[_i]);
    (void)snprintf(some, sizeof some, "%s,\"freeze\":[\"embed_tokens\",\"layers.0-9\"]", full);
    (void)snprintf(most, sizeof most, "%s,\"freeze\":[\"embed_tokens\",\"layers.0-19\"]", full);
    ck_assert_msg(peak(some) < peak(full), "%s", methods[_i]);
    ck_assert_msg(peak(most) < peak(some), "%s", methods[_i]);
}
END_TEST

#define LORA(more) "\"methods\":\"single\",\"tuning\":\"lora\",\"lora\":{\"rank\":8,\"target_modules\":[\"q_proj\"]" more "}"
#define SINGLE "\"methods\":\"single\",\"tuning\":\"full\",\"freeze\":"

/* A name is a run of parts of the path; the tied head is the embeddings' own. */
START_TEST(names_are_parts_of_paths)
{
    ck_assert(peak(SINGLE "[\"embed_tokens\"]") == peak(SINGLE "[\"model.embed_tokens.weight\"]"));
    ck_assert(peak(SINGLE "[\"embed_tokens\"]") == peak(SINGLE "[\"lm_head\"]"));
    ck_assert(peak(SINGLE "[\"layers.0-1\"]") == peak(SINGLE "[\"layers.0\",\"layers.1\"]"));
    ck_assert(peak(SINGLE "[\"layers.1\"]") > peak(SINGLE "[\"layers.1-2\"]"));
}
END_TEST

/* Copies of tied modules part: each has an embedding's size of its own; the original stands once. */
START_TEST(copies_of_tied_modules_part)
{
    double none = peak(LORA("")), head = peak(LORA(",\"modules_to_save\":[\"lm_head\"]")),
           both = peak(LORA(",\"modules_to_save\":[\"lm_head\",\"embed_tokens\"]"));

    ck_assert_msg(none < head && head < both, "%.0f, %.0f, %.0f", none, head, both);
    ck_assert_msg(peak(LORA(",\"modules_to_save\":[\"wte\"]")) == none, "peft passes over what no module is called");
}
END_TEST

/* peft says nothing of a name that no module has. */
START_TEST(what_is_saved_nowhere_is_named)
{
    struct reply reply = asked(LORA(",\"modules_to_save\":[\"lm_head\",\"wte\"]"));

    ck_assert_msg(strstr(reply.r.body, "no module of this model is called 'wte'") != NULL, "%s", reply.r.body);
    ck_assert(!strstr(reply.r.body, "is called 'lm_head'"));
    reply_done(reply);
}
END_TEST

static const char *const packed[] = {"zero3", "fsdp2", "fsdp"};

/* Over packed weights, too: head and embeddings (untied) are what they are without; a copy is trained beside each. */
START_TEST(copies_stand_beside_packed_weights)
{
    double none, head;
    char body[300];

    (void)snprintf(body, sizeof body, "\"methods\":\"%s\",\"tuning\":\"qlora\",\"quantization\":\"nf4\",\"lora\":{\"target_modules\":[\"q_proj\"]}",
                   packed[_i]);
    none = peak_of("TinyLlama/TinyLlama-1.1B-Chat-v1.0", body);
    (void)snprintf(body, sizeof body,
                   "\"methods\":\"%s\",\"tuning\":\"qlora\",\"quantization\":\"nf4\",\"lora\":{\"target_modules\":[\"q_proj\"],"
                   "\"modules_to_save\":[\"lm_head\"]}",
                   packed[_i]);
    head = peak_of("TinyLlama/TinyLlama-1.1B-Chat-v1.0", body);
    ck_assert_msg(none < head, "%s: %.0f, %.0f", packed[_i], none, head);
}
END_TEST

#define FULL "\"methods\":\"single\",\"tuning\":\"full\","

/* The same part, said by what is frozen, by what is trained, by a pattern. */
START_TEST(parts_are_said_three_ways)
{
    double frozen = peak(FULL "\"freeze\":[\"embed_tokens\",\"layers.0-19\"]");

    ck_assert(frozen == peak(FULL "\"trainable\":[\"layers.20-27\",\"model.norm\"]"));
    ck_assert(frozen == peak(FULL "\"trainable\":\"model\\\\.(norm|layers\\\\.2[0-7])\\\\..*\""));
    ck_assert(frozen == peak(FULL "\"freeze\":[\"model\"],\"trainable\":[\"layers.20-27\",\"model.norm\"]"));
}
END_TEST

/* A larger share is less to train; what is named is trained all the same. */
START_TEST(a_share_is_the_first_parameters)
{
    double half = peak(FULL "\"freeze_ratio\":0.5"), most = peak(FULL "\"freeze_ratio\":0.9"), none = peak(FULL "\"freeze_ratio\":0");

    ck_assert_msg(none > half && half > most, "%.0f, %.0f, %.0f", none, half, most);
    ck_assert(peak(FULL "\"freeze_ratio\":0.9,\"trainable\":[\"layers.3\"]") > most);
    ck_assert(none == peak("\"methods\":\"single\",\"tuning\":\"full\""));
}
END_TEST

/* LLaMA-Factory: what is trained in fp32, its states too. */
START_TEST(llama_factory_widens_what_it_trains)
{
    struct reply plain = ask("{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"precision\":"
                             "\"bf16-autocast\",\"seq_len\":64,\"micro_batch_size\":1,\"trainable\":[\"layers.27\"]}}");
    struct reply theirs = ask("{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"methods\":\"single\",\"tuning\":\"full\",\"precision\":"
                              "\"bf16-autocast\",\"seq_len\":64,\"micro_batch_size\":1,\"trainable\":[\"layers.27\"],\"trainer\":\"llama-factory\"}}");
    double half, wide;

    ck_assert(json_number(reply_at(&plain, "recommendation/memory/static_bytes"), &half) && json_number(reply_at(&theirs, "recommendation/memory/static_bytes"), &wide));
    ck_assert_msg(wide > half + 2 * 15e6 && wide < half + 2 * 17e6, "%.0f, %.0f: a layer of 15.7 million parameters", half, wide);
    reply_done(plain);
    reply_done(theirs);
}
END_TEST

static const struct {
    const char *training, *says;
} refused[] = {
    {FULL "\"trainable\":[\"vision_tower\"]", "is called vision_tower"},
    {FULL "\"trainable\":\"visual.*\"", "no parameter of this model has a name that matches"},
    {FULL "\"trainable\":\"lm_head.*\"", "no parameter of this model has a name that matches"}, /* tied: named_parameters() has it once */
    {FULL "\"trainable\":\"(\"", "/training/trainable"},
    {FULL "\"freeze_ratio\":1", "nothing of the model is left"},
    {"\"methods\":\"single\",\"tuning\":\"lora\",\"trainable\":[\"embed_tokens\"]", "no trainable"},
    {FULL "\"trainer\":\"llama-factory\"", "beside sft LLaMA-Factory says how a part is trained"},
    {SINGLE "[\"vision_tower\"]", "is called vision_tower"},
    {SINGLE "[\"layers.28\"]", "is called layers.28"},
    {SINGLE "[\"model\"]", "nothing of the model is left"},
    {"\"methods\":\"single\",\"tuning\":\"lora\",\"freeze\":[\"embed_tokens\"]", "the whole base is frozen"},
    {"\"methods\":\"tp+fsdp2\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"q_proj\"],\"modules_to_save\":[\"lm_head\"]}", "in full beside adapters under"},
    {"\"methods\":\"single\",\"tuning\":\"lora\",\"precision\":\"fp16-autocast\",\"lora\":{\"target_modules\":[\"q_proj\"],\"modules_to_save\":[\"lm_head\"]}",
     "weight of lm_head is trained as it was loaded"},
    {"\"methods\":\"fsdp2\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"q_proj\"],\"modules_to_save\":[\"lm_head\"]}",
     "managed by another FSDP group"},
    {"\"methods\":\"fsdp2\",\"tuning\":\"lora\",\"lora\":{\"target_modules\":[\"q_proj\"],\"modules_to_save\":[\"embed_tokens\"]}",
     "managed by another FSDP group"},
    {"\"methods\":\"fsdp\",\"tuning\":\"full\",\"fsdp\":{\"use_orig_params\":false},\"freeze\":[\"q_proj\"]", "uniform `requires_grad`"},
};

START_TEST(says_what_cannot_be)
{
    struct reply reply = asked(refused[_i].training);

    ck_assert_msg(strstr(reply.r.body, refused[_i].says), "%s: %s", refused[_i].training, reply.r.body);
    ck_assert_msg(!strstr(reply.r.body, "peak_allocated_bytes"), "%s: %s", refused[_i].training, reply.r.body);
    reply_done(reply);
}
END_TEST

/* --- what a checkpoint computes again under ZeRO-3: 41 rows of PyTorch 2.7 with DeepSpeed 0.17 and 2.15 with 0.19 raised and ran as here ---------- */
#define ZERO3(deepspeed, more)                                                                                                                   \
    "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":4},\"stack\":{\"torch\":\"2.7\",\"transformers\":\"4.53\","        \
    "\"peft\":\"0.16\",\"deepspeed\":\"" deepspeed "\"},\"training\":{\"methods\":\"zero3\",\"precision\":\"bf16-mixed\",\"seq_len\":128,"          \
    "\"micro_batch_size\":1,\"gradient_checkpointing\":true," more "}}"
#define NOT_REENTRANT "\"checkpoint_reentrant\":false,"

static const struct {
    const char *body;
    bool raises;
} again[] = {
    {ZERO3("0.17", NOT_REENTRANT "\"tuning\":\"lora\""), true},
    {ZERO3("0.18", NOT_REENTRANT "\"tuning\":\"lora\""), true},
    {ZERO3("0.19", NOT_REENTRANT "\"tuning\":\"lora\""), false},
    {ZERO3("0.17", "\"tuning\":\"lora\""), false}, /* reentrant is the Trainer's default there */
    {ZERO3("0.17", NOT_REENTRANT "\"tuning\":\"full\""), false},
    {ZERO3("0.17", NOT_REENTRANT "\"tuning\":\"full\",\"freeze\":[\"input_layernorm\"]"), true},
    {ZERO3("0.17", NOT_REENTRANT "\"tuning\":\"full\",\"freeze\":[\"embed_tokens\",\"layers.0\"]"), false}, /* nothing of it is computed again */
};

START_TEST(what_is_lost_in_a_recomputation_raises)
{
    struct reply reply = ask(again[_i].body);

    ck_assert_msg(!strstr(reply.r.body, "\"peak_allocated_bytes\"") == again[_i].raises, "%s", reply.r.body);
    ck_assert_msg(!strstr(reply.r.body, "CheckpointError") != again[_i].raises, "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("freeze", unit_rows(what_is_lost_in_a_recomputation_raises, again); unit_rows(what_is_frozen_holds_less, methods); unit_test(names_are_parts_of_paths); unit_test(copies_of_tied_modules_part); unit_test(what_is_saved_nowhere_is_named); unit_rows(copies_stand_beside_packed_weights, packed); unit_test(parts_are_said_three_ways); unit_test(a_share_is_the_first_parameters); unit_test(llama_factory_widens_what_it_trains); unit_rows(says_what_cannot_be, refused);)
