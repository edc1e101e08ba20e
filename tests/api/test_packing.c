/* Laws of packed rows; their bytes beside PyTorch's are in tests/data/accuracy/packing.jsonl. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <string.h>

static struct reply asked(const char *training)
{
    char body[700];

    (void)snprintf(body, sizeof body, "{\"model\":\"Qwen/Qwen3-0.6B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":2},\"training\":{\"precision\":\"bf16\",%s}}",
                   training);
    return ask(body);
}

static double peak(const char *training)
{
    struct reply reply = asked(training);
    double v;

    ck_assert_msg(json_number(reply_at(&reply, "recommendation/memory/peak_allocated_bytes"), &v), "%s: %s", training, reply.r.body);
    reply_done(reply);
    return v;
}

/* The same sequences, each padded to the longest and in one row. sdpa's mask of a packed row grows with its square, so this holds of flash attention; where
 * all are as long as the longest, the packed row's own rotary tables are what it takes more (a ten-thousandth). */
static const struct {
    const char *method, *padded, *packed;
} rows[] = {
    {"single", "\"micro_batch_size\":8,\"seq_len\":320", "\"micro_batch_size\":2,\"seq_len\":1024,\"lengths\":[256]"},
    {"ddp", "\"micro_batch_size\":4,\"seq_len\":768", "\"micro_batch_size\":1,\"seq_len\":2048,\"lengths\":[512]"},
    {"fsdp", "\"micro_batch_size\":4,\"seq_len\":768", "\"micro_batch_size\":1,\"seq_len\":2048,\"lengths\":[512]"},
    {"fsdp2", "\"micro_batch_size\":4,\"seq_len\":768", "\"micro_batch_size\":1,\"seq_len\":2048,\"lengths\":{\"tokens\":[256,768],\"counts\":[5,5]}"},
    {"zero2", "\"micro_batch_size\":4,\"seq_len\":768", "\"micro_batch_size\":1,\"seq_len\":2048,\"lengths\":[512]"},
    {"zero3", "\"micro_batch_size\":4,\"seq_len\":768", "\"micro_batch_size\":1,\"seq_len\":2048,\"lengths\":[512]"},
};

START_TEST(packing_is_never_above_padding)
{
    static const char *const how[] = {"\"gradient_checkpointing\":false", "\"gradient_checkpointing\":true"};

    for (int i = 0; i < 2; i++) {
        char padded[400], packed[400];

        (void)snprintf(padded, sizeof padded, "\"methods\":\"%s\",\"attention\":\"flash_attention_2\",\"padded\":true,%s,%s", rows[_i].method, rows[_i].padded, how[i]);
        (void)snprintf(packed, sizeof packed, "\"methods\":\"%s\",\"attention\":\"flash_attention_2\",\"packing\":true,%s,%s", rows[_i].method, rows[_i].packed, how[i]);
        ck_assert_msg(peak(packed) <= peak(padded), "%s: %.0f above %.0f", packed, peak(packed), peak(padded));
    }
}
END_TEST

#define ROW "\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":1024,\"attention\":\"flash_attention_2\",\"packing\":true"

START_TEST(more_sequences_take_no_less)
{
    double few = peak(ROW ",\"lengths\":[512]"), many = peak(ROW ",\"lengths\":[4]");

    ck_assert(few <= many);
    ck_assert(peak(ROW) == few); /* two a row, where nobody says */
    ck_assert(peak(ROW ",\"lengths\":[1000000]") == peak(ROW ",\"lengths\":[1024]")); /* cut at seq_len */
}
END_TEST

/* sdpa has a mask of all pairs of tokens where sequences have to be told apart, and none where a row is one */
START_TEST(sdpa_tells_sequences_apart_by_a_mask)
{
    ck_assert(peak("\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":2048,\"packing\":true,\"lengths\":[512]") >
              peak("\"methods\":\"single\",\"micro_batch_size\":1,\"seq_len\":2048,\"packing\":true,\"lengths\":[2048]"));
}
END_TEST

static const struct {
    const char *training, *pointer;
} conflicts[] = {
    {"\"methods\":\"single\",\"packing\":true,\"padded\":true", "/training/padded"},
    {"\"methods\":\"single\",\"packing\":true,\"attention_mask\":true", "/training/attention_mask"},
    {"\"methods\":\"pp\",\"packing\":true,\"tuning\":\"full\"", "/training/packing"},
};

START_TEST(refuses_a_mask_beside_it)
{
    struct reply reply = asked(conflicts[_i].training);
    const char *pointer = json_str(json_get(reply.doc, "pointer")), *detail = json_str(reply_at(&reply, "candidates/0/reason/detail"));

    ck_assert_msg((pointer && !strcmp(pointer, conflicts[_i].pointer)) || (detail && strstr(detail, "packed rows")), "%s", reply.r.body);
    reply_done(reply);
}
END_TEST

UNIT_TESTS("packing", unit_rows(packing_is_never_above_padding, rows); unit_test(more_sequences_take_no_less);
           unit_test(sdpa_tells_sequences_apart_by_a_mask); unit_rows(refuses_a_mask_beside_it, conflicts);)
