/* Laws of checkpoints and attention kernels that a request switches on; bytes beside PyTorch's are in tests/data/accuracy/options.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

#define STEP "\"methods\":\"single\",\"micro_batch_size\":2,\"seq_len\":512,\"precision\":\"bf16\",\"tuning\":\"full\""

static struct reply asked(const char *gpu, const char *training, const char *stack)
{
    char body[700];

    (void)snprintf(body, sizeof body, "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"%s\"},\"training\":{" STEP ",%s},\"stack\":{%s}}", gpu, training, stack);
    return ask(body);
}

static double peak(const char *gpu, const char *training)
{
    struct reply reply = asked(gpu, training, "");
    double v;

    ck_assert_msg(json_number(reply_at(&reply, "candidates/0/memory/peak_allocated_bytes"), &v), "%s: %s", training, reply.r.body);
    reply_done(reply);
    return v;
}

/* FlashAttention 3 keeps no state of a random generator: 512 bytes a layer, which has no other difference until backward */
START_TEST(flash_3_keeps_no_seed)
{
    enum { LAYERS = 28, BLOCK = 512 };
    double second = peak("H100-80GB", "\"attention\":\"flash_attention_2\",\"gradient_checkpointing\":false");
    double third = peak("H100-80GB", "\"attention\":\"flash_attention_3\",\"gradient_checkpointing\":false");

    ck_assert_msg(second - third == LAYERS * BLOCK, "%.0f and %.0f", second, third);
}
END_TEST

/* Scores nowhere, the mask by blocks: beside flash_attention_2 the layers' log-sum-exp alone and what the mask is made of */
START_TEST(flex_keeps_no_scores)
{
    double flex = peak("A100-80GB", "\"attention\":\"flex_attention\",\"gradient_checkpointing\":false");
    double flash = peak("A100-80GB", "\"attention\":\"flash_attention_2\",\"gradient_checkpointing\":false");
    double eager = peak("A100-80GB", "\"attention\":\"eager\",\"gradient_checkpointing\":false");

    ck_assert_msg(flex < eager && flex > 0.9 * flash && flex < 1.1 * flash, "%.0f, %.0f and %.0f", flex, flash, eager);
}
END_TEST

static const struct {
    const char *gpu, *training, *stack, *why;
} refused[] = {
    {"A100-80GB", "\"attention\":\"flex_attention\"", "\"torch\":\"2.7\"", "as torch 2.15 compiles it"},
    {"A100-80GB", "\"attention\":\"flex_attention\"", "\"transformers\":\"5.10\"", "for transformers 5.14 and later"},
    {"B200", "\"attention\":\"flash_attention_3\"", "", "has no kernels for compute capability 10.0"},
    {"H100-80GB", "\"attention\":\"flash_attention_3\"", "\"transformers\":\"4.53\"", "it came with 4.54"},
    {"H100-80GB", "\"attention\":\"flash_attention_3\",\"precision\":\"fp32\"", "", "fp16 and bf16 only"},
    {"A100-80GB", "\"gradient_checkpointing\":\"selective_op\",\"checkpoint_reentrant\":true", "", "takes no context_fn"},
    {"A100-80GB", "\"gradient_checkpointing\":\"selective_op\",\"tuning\":\"qlora\"", "", "selective_op over quantised weights is not modelled yet"},
    {"A100-80GB", "\"optimizer_in_backward\":true,\"max_grad_norm\":1", "", "leaves none to clip"},
    {"A100-80GB", "\"optimizer_in_backward\":true,\"gradient_accumulation_steps\":2", "", "gradient_accumulation_steps 1"},
    {"A100-80GB", "\"gradient_checkpointing\":\"every_2nd_layer\"", "\"transformers\":\"5.15\"", "every_n_layers came with 5.16"},
};

START_TEST(says_why_not)
{
    struct reply reply = asked(refused[_i].gpu, refused[_i].training, refused[_i].stack);

    ck_assert_msg(strstr(reply.r.body, refused[_i].why) != NULL, "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

START_TEST(flex_of_few_tokens_is_refused)
{
    struct reply reply = ask("{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\"},\"training\":{\"seq_len\":127,\"attention\":\"flex_attention\"}}");

    ck_assert_msg(reply.r.status == 422 && strstr(reply.r.body, "may take its kernel for decoding"), "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

/* Between all layers and none */
START_TEST(some_checkpoints_hold_some)
{
    double all = peak("A100-80GB", "\"gradient_checkpointing\":true"), none = peak("A100-80GB", "\"gradient_checkpointing\":false");
    double second = peak("A100-80GB", "\"gradient_checkpointing\":\"every_2nd_layer\"");
    double selective = peak("A100-80GB", "\"gradient_checkpointing\":\"selective_op\"");

    ck_assert_msg(all < second && second < none, "%.0f %.0f %.0f", all, second, none);
    ck_assert_msg(all < selective && selective < none, "%.0f %.0f %.0f", all, selective, none);
}
END_TEST

/* Gradients that go one by one are never all there; states are the same, but for a map of each where there are maps */
START_TEST(steps_in_backward_hold_less)
{
    static const char *const optimizers[] = {"adamw_torch_fused", "sgd", "adafactor"};
    char plain[200], each[240];

    for (int i = 0; i < 3; i++) {
        (void)snprintf(plain, sizeof plain, "\"gradient_checkpointing\":true,\"max_grad_norm\":0,\"optimizer\":\"%s\"", optimizers[i]);
        (void)snprintf(each, sizeof each, "%s,\"optimizer_in_backward\":true", plain);
        ck_assert_msg(peak("A100-80GB", each) < peak("A100-80GB", plain), "%s", optimizers[i]);
    }
}
END_TEST

UNIT_TESTS("switches", unit_test(flash_3_keeps_no_seed); unit_test(flex_keeps_no_scores); unit_test(flex_of_few_tokens_is_refused); unit_rows(says_why_not, refused); unit_test(some_checkpoints_hold_some);
           unit_test(steps_in_backward_hold_less);)
