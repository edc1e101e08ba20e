/* Readers of what strangers write take time in proportion to it: eight times the text takes far less than sixty-four times as long. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SMALL_BYTES = 50 << 10, TIMES = 8, ALLOWED = 24, ROUNDS = 3 };

#define LLAMA "\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":64,\"num_attention_heads\":4,\"num_hidden_layers\":1,\"vocab_size\":100"
#define ASK OPT "," GPU ",\"training\":{\"seq_len\":16,\"micro_batch_size\":1,\"methods\":\"single\",\"tuning\":\"full\",\"gradient_checkpointing\":true"
#define OWN "{\"config\":{" LLAMA
#define REST "," GPU ",\"training\":{\"seq_len\":16,\"micro_batch_size\":1,\"methods\":\"single\",\"tuning\":\"full\",\"gradient_checkpointing\":true}}"

/* What is repeated may have its number in it. */
static const struct {
    const char *what, *before, *each, *after;
} rows[] = {
    {"members nobody knows", "{" ASK "}", ",\"some_member_%d\":1", "}"},
    {"the same of training", "{" ASK, ",\"some_member_%d\":1", "}}"},
    {"the same of lora", "{" ASK ",\"lora\":{\"rank\":8", ",\"some_member_%d\":1", "}}}"},
    {"a member again and again", "{" ASK, ",\"seq_len\":1%d", ",\"seq_len\":16}}"},
    {"an object again and again", "{" ASK "}", ",\"training\":{\"seq_len\":1%d}", "}"},
    {"DeepSpeed's keys", "{" ASK "},\"deepspeed_config\":{\"train_micro_batch_size_per_gpu\":1", ",\"some_key_%d\":1", "}}"},
    {"the Trainer's keys", "{" ASK "},\"training_arguments\":{\"bf16\":true", ",\"some_key_%d\":1", "}}"},
    {"accelerate's keys", "{" ASK "},\"accelerate_config\":{\"use_cpu\":false", ",\"some_key_%d\":1", "}}"},
    {"accelerate's lines", "{" ASK "},\"accelerate_config\":\"use_cpu: false\\n", "some_key_%d: 1\\n", "\"}"},
    {"a line again and again", "{" ASK "},\"accelerate_config\":\"", "use_cpu: false\\n", "\"}"},
    {"a list in YAML", "{" ASK "},\"accelerate_config\":\"fsdp_config: [1", ", %d", "]\\n\"}"},
    {"keys of a config", OWN, ",\"some_key_%d\":1", "}" REST},
    {"a key of a config again and again", OWN, ",\"hidden_size\":64", "}" REST},
    {"a list in a config", OWN ",\"layer_types\":[\"full_attention\"", ",\"full_attention\"", "]}" REST},
    {"keys that patch a config", "{" ASK "},\"config\":{\"x\":1", ",\"some_key_%d\":1", "}}"},
    {"lengths", "{" ASK ",\"packing\":true,\"lengths\":[5", ",%d", "]}}"},
    {"methods", "{" ASK ",\"methods\":[\"single\"", ",\"single\"", "]}}"},
    {"kernels", "{" ASK ",\"liger_kernels\":[\"rope\"", ",\"rope\"", "]}}"},
    {"names of modules", "{" ASK ",\"lora\":{\"target_modules\":[\"q_proj\"", ",\"m%d\"", "]}}}"},
    {"a pattern of modules", "{" ASK ",\"lora\":{\"target_modules\":\"q_proj", "|m%d", "\"}}}"},
    {"a word", "{" ASK ",\"optimizer\":\"adamw", "x", "\"}}"},
    {"a batch", "{\"requests\":[{}", ",{\"model\":%d}", "]}"},
};

static char *write_body(int row, size_t bytes)
{
    char *body = malloc(bytes + 1024), *at = body + sprintf(body, "%s", rows[row].before);

    for (int i = 1; (size_t)(at - body) < bytes; i++)
        at += snprintf(at, 64, rows[row].each, i);
    (void)strcpy(at, rows[row].after);
    return body;
}

static double ask_s(const char *path, const char *body)
{
    double best = 1e9;

    for (int i = 0; i < ROUNDS; i++) {
        clock_t begin = clock();
        struct reply reply = ask_within(API_ARENA_BYTES, "POST", path, NULL, body);
        double s = (double)(clock() - begin) / CLOCKS_PER_SEC;

        ck_assert_int_lt(reply.r.status, 500);
        reply_done(reply);
        if (s < best)
            best = s;
    }
    return best;
}

START_TEST(takes_time_in_proportion)
{
    const char *path = strstr(rows[_i].before, "requests") ? "/estimate/batch" : "/estimate";
    char *none = write_body(_i, 1), *small = write_body(_i, SMALL_BYTES), *large = write_body(_i, (size_t)SMALL_BYTES * TIMES);
    double base = ask_s(path, none), first = ask_s(path, small) - base, second = ask_s(path, large) - base;

    if (first < 0.002)
        first = 0.002; /* a clock's tick, and what else the machine does */
    ck_assert_msg(second < first * ALLOWED, "%s: %d bytes take %.4f s, eight times as many %.4f s", rows[_i].what, (int)SMALL_BYTES, first, second);
    free(none);
    free(small);
    free(large);
}
END_TEST

UNIT_TESTS("api/linear",
    unit_rows(takes_time_in_proportion, rows);
)
