/* Laws of parameters on the host; their bytes beside PyTorch's are in tests/data/accuracy/many.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>

enum { PARAMETERS = 596049920 }; /* of Qwen/Qwen3-0.6B */

static const char *const methods[] = {"fsdp", "fsdp_grad_op", "hsdp", "fsdp2", "zero3"};
static const char *const tunings[] = {"full", "lora"};

static double figure(const char *method, const char *tuning, const char *offload, const char *path)
{
    char body[600];
    struct reply reply;
    double v;

    (void)snprintf(body, sizeof body,
                   "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":4},\"training\":{\"methods\":\"%s\",\"tuning\":\"%s\","
                   "\"offload\":\"%s\",\"micro_batch_size\":1,\"seq_len\":512,\"precision\":\"bf16-mixed\",\"gradient_checkpointing\":true}}",
                   method, tuning, offload);
    reply = ask(body);
    ck_assert_msg(reply.r.status == 200, "%s", reply.r.body);
    ck_assert_msg(json_number(reply_at(&reply, path), &v), "%s of %s: no %s in %s", offload, method, path, reply.r.body);
    reply_done(reply);
    return v;
}

#define MEMORY "recommendation/memory/"

START_TEST(the_gpu_never_holds_more)
{
    const char *method = methods[_i];

    for (size_t i = 0; i < sizeof tunings / sizeof *tunings; i++) {
        double none = figure(method, tunings[i], "none", MEMORY "peak_allocated_bytes");
        double host = figure(method, tunings[i], "optimizer+params", MEMORY "peak_allocated_bytes");

        ck_assert_msg(host <= none, "%s, %s: %.0f with offload, %.0f without", method, tunings[i], host, none);
        ck_assert(figure(method, tunings[i], "optimizer+params", MEMORY "host_bytes_per_node") > 0);
        ck_assert(figure(method, tunings[i], "none", MEMORY "host_bytes_per_node") == 0);
    }
}
END_TEST

/* FSDP1 pins a gradient for each shard of fp32, beside which Adam has two states; a few bytes of padding for each layer. */
START_TEST(flat_parameters_wait_on_the_host)
{
    double host = figure("fsdp", "full", "optimizer+params", MEMORY "host_bytes_per_node");
    double left = figure("fsdp", "full", "optimizer+params", MEMORY "resting_bytes");

    ck_assert_msg(host >= 16.0 * PARAMETERS && host < 16.0 * PARAMETERS + (1 << 20), "%.0f", host);
    ck_assert_msg(left < (1 << 20), "%.0f bytes stay on the device", left);
}
END_TEST

UNIT_TESTS("offload", unit_rows(the_gpu_never_holds_more, methods); unit_test(flat_parameters_wait_on_the_host);)
