/*
 * Programs that have no twin in C against tapes of real PyTorch (torch 2.15, transformers 5.23): a family that is in the language alone, and a
 * file of a stranger's. tests/data/modeling/NAME.tape: `options`, then +BYTES of each birth and -NUMBER of each death.
 */
#include "base/json.h"
#include "models/program.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 192 << 20, IMAGE_ROOM = 32 << 20, TEXT_MAX = 1 << 17 };

#define OLMO2                                                                                                                                        \
    "\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"intermediate_size\":704,\"vocab_size\":1000," \
    "\"max_position_embeddings\":2048,\"rms_norm_eps\":1e-5"
#define OWN "\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_size\":1000,\"max_position_embeddings\":512"

static const struct row {
    const char *tape, *module, *config, *arch; /* arch: of a family in C of the same sizes */
} rows[] = {
    {"own_1", "own.modeling_x", "{" OWN "}", "{\"model_type\":\"llama\",\"intermediate_size\":512," OWN "}"},
    {"own_2", "own.modeling_x", "{" OWN "}", "{\"model_type\":\"llama\",\"intermediate_size\":512," OWN "}"},
    {"own_3", "own.modeling_x", "{" OWN "}", "{\"model_type\":\"llama\",\"intermediate_size\":512," OWN "}"},
    {"own_4", "own.modeling_x", "{" OWN "}", "{\"model_type\":\"llama\",\"intermediate_size\":512," OWN "}"},
    {"olmo2_1", "transformers.models.olmo2.modeling_olmo2", "{" OLMO2 "}", "{\"model_type\":\"llama\"," OLMO2 "}"},
    {"olmo2_2", "transformers.models.olmo2.modeling_olmo2", "{" OLMO2 "}", "{\"model_type\":\"llama\"," OLMO2 "}"},
    {"olmo2_3", "transformers.models.olmo2.modeling_olmo2", "{" OLMO2 "}", "{\"model_type\":\"llama\"," OLMO2 "}"},
};

static char *slurp(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    char *text = malloc(TEXT_MAX);

    *bytes = f ? fread(text, 1, TEXT_MAX - 1, f) : 0;
    text[*bytes] = 0;
    if (!f) {
        free(text);
        return NULL;
    }
    (void)fclose(f);
    return text;
}

static char *lent[8]; /* what the host handed out */
static unsigned n_lent;

/* own.NAME is tests/data/modeling/own/NAME.py */
static bool source(void *of, const char *name, const char **path, const char **text, size_t *bytes, bool *package)
{
    char file[256];

    (void)of;
    *path = "own";
    *package = !strcmp(name, "own");
    *bytes = 0;
    *text = "";
    if (*package)
        return true;
    if (strncmp(name, "own.", 4))
        return false;
    (void)snprintf(file, sizeof file, "tests/data/modeling/own/%s.py", name + 4);
    ck_assert_uint_lt(n_lent, 8);
    *text = lent[n_lent] = slurp(file, bytes);
    n_lent += *text != NULL;
    return *text != NULL;
}

static const struct script_host host = {.source = source};

static bool is_death(uint32_t e)
{
    return event_is_of_block(e) && (e & EVENT_DEATH);
}

/* Deaths between two births are a set. */
static void compare_tape(const struct run *r, char *tape, const char *name)
{
    uint32_t i = 0, births = 0;
    int64_t ours = 0, theirs = 0;

    for (char *word = strtok(tape, " \n"); word; word = strtok(NULL, " \n")) {
        long long n = strtoll(word + 1, NULL, 10);

        while (i < r->n_events && !event_is_of_block(r->events[i]))
            i++;
        ck_assert_msg(i < r->n_events, "%s: ends %u events in, before %s", name, i, word);
        if (*word == '-') {
            ck_assert_msg(is_death(r->events[i]), "%s: event %u is no death, as block %lld's", name, i, n);
            ours += r->events[i] & EVENT_BLOCK;
            theirs += n;
        } else {
            ck_assert_msg(ours == theirs && !is_death(r->events[i]), "%s: before event %u other blocks die", name, i);
            ck_assert_msg(r->births[births].bytes == (uint64_t)n, "%s: block %u has %llu bytes, not %lld", name, births,
                          (unsigned long long)r->births[births].bytes, n);
            births++;
        }
        i++;
    }
    ck_assert_msg(ours == theirs && i == r->n_events, "%s: %u events follow the end of the tape", name, r->n_events - i);
}

START_TEST(makes_the_tape_of_pytorch)
{
    const struct row *row = &rows[_i];
    struct program_source program = {.run = &script_program, .module = row->module, .host = &host};
    struct trainer *t = calloc(1, sizeof *t);
    struct arena image_room, room;
    struct json *given, *as_arch, *config;
    struct arch arch;
    struct stack stack;
    struct step step;
    const char *targets[TRACED_TARGETS], *wrong;
    char path[256], *text, *end;
    struct err err = {0};
    size_t bytes;
    void *blocks[2];

    (void)snprintf(path, sizeof path, "tests/data/modeling/%s.tape", row->tape);
    text = slurp(path, &bytes);
    ck_assert_msg(text && !strncmp(text, "options ", 8), "%s", path);
    end = strchr(text, '\n');
    blocks[0] = malloc(IMAGE_ROOM);
    blocks[1] = malloc(ROOM);
    arena_init(&image_room, blocks[0], IMAGE_ROOM);
    arena_init(&room, blocks[1], ROOM);
    ck_assert_msg(!program_image(&image_room, &program.image, &err), "%s %s", err.at, err.detail);
    ck_assert(!json_parse(text + 8, (size_t)(end - text) - 8, &json_limits_config, &given, &err));
    ck_assert(!json_parse(row->arch, strlen(row->arch), &json_limits_config, &as_arch, &err));
    ck_assert(!json_parse(row->config, strlen(row->config), &json_limits_config, &config, &err));
    ck_assert_msg(!arch_parse(as_arch, &room, &arch, &err), "%s %s", err.at, err.detail);
    ck_assert(traced_stack("new", &stack));
    wrong = traced_step(given, &arch, &stack, targets, &step);
    ck_assert_msg(!wrong, "%s", wrong);
    program.config = config;
    arch.program = &program;
    ck_assert_msg(!trainer_run(t, &arch, &step, &traced_device, &room, &err), "%s: %s %s after %u events", row->tape, err.at, err.detail,
                  t->run.n_events);
    compare_tape(&t->run, end + 1, row->tape);
    json_free(given);
    json_free(as_arch);
    json_free(config);
    free(blocks[0]);
    free(blocks[1]);
    free(text);
    free(t);
    while (n_lent)
        free(lent[--n_lent]);
}
END_TEST

UNIT_TESTS("programs in the language against tapes of PyTorch", unit_rows(makes_the_tape_of_pytorch, rows);)
