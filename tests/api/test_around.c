/* memory.around: evaluation beside real PyTorch (tests/data/accuracy/make_around.py), and laws. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static double figure(const char *method, unsigned gpus, const char *more, const char *name)
{
    char body[700], path[64];
    struct reply reply;
    double v;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":%u},\"stack\":{\"zero_init\":false},"
                   "\"training\":{\"methods\":\"%s\",\"micro_batch_size\":1,\"seq_len\":1024,\"gradient_checkpointing\":false,"
                   "\"optimizer\":\"adamw_torch\"%s}}",
                   gpus, method, more);
    (void)snprintf(path, sizeof path, "recommendation/memory/%s", name);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_msg(json_number(reply_at(&reply, path), &v), "no %s in %.1500s", path, reply.r.body);
    reply_done(reply);
    return v;
}

#define PURE  ",\"tuning\":\"full\",\"precision\":\"bf16\""
#define MIXED ",\"tuning\":\"full\",\"precision\":\"bf16-mixed\""
#define NF4   ",\"tuning\":\"qlora\",\"quantization\":\"nf4\",\"lora\":{\"rank\":8,\"alpha\":8},\"precision\":"
#define OFF(what) MIXED ",\"offload\":\"" what "\""

/* torch.cuda.max_memory_allocated() of an evaluation batch of 8; FSDP's units leave remainders of blocks that a sum of live ones does not have. */
static const struct {
    const char *method, *more;
    unsigned gpus;
    double traced, within;
} evaluations[] = {
    {"single", PURE, 1, 16040571392, 1e-4},       {"ddp", PURE, 4, 17232672768, 1e-4},     {"zero3", MIXED, 4, 17120053760, 1e-4},
    {"fsdp", MIXED, 4, 14600699904, 3e-3}, {"fsdp2", MIXED, 4, 14622859264, 3e-3},
    {"ddp", NF4 "\"bf16\"", 4, 13035392000, 1e-3}, {"fsdp", NF4 "\"bf16-mixed\"", 4, 12936529408, 1e-3},
    {"zero2", OFF("optimizer"), 4, 13966969344, 1e-4}, {"zero3", OFF("optimizer+params"), 4, 14735852032, 1e-4},
    {"fsdp2", OFF("optimizer+params") ",\"fsdp\":{\"wrap\":\"accelerate\"}", 4, 12806333440, 1e-4},
};

START_TEST(evaluation_is_near_pytorchs)
{
    double ours = figure(evaluations[_i].method, evaluations[_i].gpus, evaluations[_i].more, "around/evaluation");

    ck_assert_msg(fabs(ours / evaluations[_i].traced - 1) < evaluations[_i].within, "%s: %.0f of %.0f", evaluations[_i].method, ours, evaluations[_i].traced);
}
END_TEST

static const char *const methods[] = {"ddp", "zero2", "zero3", "fsdp", "fsdp2"};

START_TEST(laws_hold)
{
    const char *m = methods[_i];
    double one = figure(m, 4, MIXED ",\"eval_batch_size\":1", "around/evaluation");
    double kept = figure(m, 4, MIXED ",\"eval_batch_size\":1,\"prediction_loss_only\":false,\"eval_batches\":3", "around/evaluation");
    double more = figure(m, 4, MIXED ",\"eval_batch_size\":1,\"prediction_loss_only\":false,\"eval_batches\":6", "around/evaluation");
    double moved =
        figure(m, 4, MIXED ",\"eval_batch_size\":1,\"prediction_loss_only\":false,\"eval_batches\":6,\"eval_accumulation_steps\":3", "around/evaluation");

    ck_assert(one < figure(m, 4, MIXED ",\"eval_batch_size\":2", "around/evaluation"));
    ck_assert(one < kept && kept < more);
    ck_assert_double_eq(moved, kept);
    ck_assert(figure(m, 4, MIXED, "around/saving") >= figure(m, 4, MIXED, "around/resuming"));
    ck_assert(figure(m, 4, MIXED, "around/resuming") >= figure(m, 4, MIXED, "static_bytes"));
}
END_TEST

START_TEST(what_is_gathered_is_saved_from_the_gpu)
{
    double embedding = 151936.0 * 1024;

    ck_assert(figure("zero3", 4, MIXED, "around/saving") - figure("zero3", 4, MIXED, "around/resuming") >= 2 * embedding);
    ck_assert(figure("fsdp2", 4, MIXED, "around/saving") - figure("fsdp2", 4, MIXED, "around/resuming") >= 4 * embedding);
    ck_assert(figure("zero2", 4, MIXED, "around/saving") - figure("zero2", 4, MIXED, "around/resuming") < 1 << 20);
}
END_TEST

/* Each process holds the model before it goes to its device; accelerate has one of a node read it for FSDP. */
START_TEST(processes_load)
{
    double one = figure("single", 1, PURE, "around/loading_host");

    ck_assert_double_eq(figure("ddp", 4, PURE, "around/loading_host"), 4 * one);
    ck_assert(figure("fsdp", 4, PURE, "around/loading_host") <= 2 * one);
}
END_TEST

START_TEST(their_arguments_say_it)
{
    struct reply reply = ask("{\"model\":\"facebook/opt-125m\",\"cluster\":{\"gpu\":\"A100-40GB\"},\"training\":{\"seq_len\":512,\"micro_batch_size\":1,"
                             "\"tuning\":\"full\"},\"training_arguments\":{\"per_device_eval_batch_size\":16,\"eval_accumulation_steps\":4,"
                             "\"prediction_loss_only\":true}}");
    char text[64];

    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    reply_value(&reply, "resolved/training/eval_batch_size", text);
    ck_assert_str_eq(text, "16");
    reply_value(&reply, "resolved/training/prediction_loss_only", text);
    ck_assert_str_eq(text, "true");
    reply_done(reply);
}
END_TEST

UNIT_TESTS("around", unit_rows(evaluation_is_near_pytorchs, evaluations); unit_rows(laws_hold, methods);
           unit_test(what_is_gathered_is_saved_from_the_gpu); unit_test(processes_load); unit_test(their_arguments_say_it);)
