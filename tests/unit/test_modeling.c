/*
 * Models that are text against tapes of real PyTorch (torch 2.15, transformers 5.23): OLMo 2, which is in the language alone, and files of strangers,
 * read as a request's are. tests/data/modeling/NAME_i.tape: `options`, then +BYTES of each birth and -NUMBER of each death; NAME/ has the files and
 * config.json. tests/data/modeling/tape.py makes a tape of what the tracer writes.
 */
#include "base/json.h"
#include "models/modeling.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/fold.h"
#include "train/repeats.h"
#include "train/trainer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 192 << 20, LIBRARY_ROOM = 64 << 20, TEXT_MAX = 1 << 18, FILES_MAX = 4 };

static const char *const tapes[] = {
#include "tests/data/modeling/tapes.inc"
};

static char *slurp(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? malloc(TEXT_MAX) : NULL;

    *bytes = f ? fread(text, 1, TEXT_MAX - 1, f) : 0;
    if (f) {
        text[*bytes] = 0;
        (void)fclose(f);
    }
    return text;
}

struct stranger {
    char *config, *names[FILES_MAX], *texts[FILES_MAX];
    struct modeling_file files[FILES_MAX];
    uint32_t n;
};

/* Those of the example lie where users find them. */
static void read_folder(const char *tape, struct stranger *ret)
{
    char folder[200], path[600];
    struct dirent *e;
    size_t bytes;
    DIR *d;

    (void)snprintf(folder, sizeof folder, "tests/data/modeling/%.*s", (int)(strrchr(tape, '_') - tape), tape);
    (void)snprintf(path, sizeof path, "%s/config.json", folder);
    *ret = (struct stranger){.config = slurp(path, &bytes)};
    ck_assert_msg(ret->config, "%s", path);
    if (!strncmp(tape, "example_", 8))
        (void)snprintf(folder, sizeof folder, "examples/modeling");
    for (d = opendir(folder); d && (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);

        if (n < 4 || strcmp(e->d_name + n - 3, ".py") != 0)
            continue;
        ck_assert_uint_lt(ret->n, FILES_MAX);
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ret->names[ret->n] = strdup(e->d_name);
        ret->texts[ret->n] = slurp(path, &bytes);
        ret->files[ret->n] = (struct modeling_file){ret->names[ret->n], ret->texts[ret->n], bytes};
        ret->n++;
    }
    if (d)
        (void)closedir(d);
}

static void give_back(struct stranger *x)
{
    free(x->config);
    for (uint32_t i = 0; i < x->n; i++) {
        free(x->names[i]);
        free(x->texts[i]);
    }
}

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
    struct trainer *t = calloc(1, sizeof *t);
    struct program_library library;
    struct arena library_room, room;
    struct json *given, *config;
    struct stranger from;
    struct arch arch;
    struct stack stack;
    struct step step;
    const char *targets[TRACED_TARGETS], *wrong;
    char path[256], of[32] = "new", *text, *end;
    struct err err = {0};
    size_t bytes;
    void *blocks[2] = {malloc(LIBRARY_ROOM), malloc(ROOM)};

    read_folder(tapes[_i], &from);
    (void)snprintf(path, sizeof path, "tests/data/modeling/%s.tape", tapes[_i]);
    text = slurp(path, &bytes);
    ck_assert_msg(text && !strncmp(text, "options ", 8), "%s", path);
    end = strchr(text, '\n');
    arena_init(&library_room, blocks[0], LIBRARY_ROOM);
    arena_init(&room, blocks[1], ROOM);
    ck_assert_msg(!program_library(&library_room, &library, &err), "%s %s", err.at, err.detail);
    ck_assert(!json_parse(text + 8, (size_t)(end - text) - 8, &json_limits_config, &given, &err));
    ck_assert(!json_parse(from.config, strlen(from.config), &json_limits_config, &config, &err));
    if (sscanf(end + 1, "stack %31s\n", of) == 1)
        end = strchr(end + 1, '\n');
    ck_assert(traced_stack(of, &stack));
    ck_assert_msg(!program_arch(&library, config, from.files, from.n, &stack, &room, &arch, &err), "%s %s", err.at, err.detail);
    wrong = traced_step(given, &arch, &stack, targets, &step);
    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_msg(!trainer_run(t, &arch, &step, &traced_device, &room, &err), "%s: %s %s after %u events", tapes[_i], err.at, err.detail,
                  t->run.n_events);
    compare_tape(&t->run, end + 1, tapes[_i]);
    json_free(given);
    json_free(config);
    give_back(&from);
    free(blocks[0]);
    free(blocks[1]);
    free(text);
    free(t);
}
END_TEST

/* Of 24 layers: whether the declaration says that fewer are the same model's, after how many layers they repeat, and whether the forward bears it out. */
static const struct depth_case {
    const char *folder, *deep; /* what config.json says otherwise, as a merge patch */
    const char *instead, *with; /* in the modelling files; NULL: as they are */
    bool may_repeat, repeats;
    uint32_t period;
} depths[] = {
    {"olmo2", "{\"num_hidden_layers\":24}", NULL, NULL, true, true, 1},
    {"nano", "{\"n_layer\":24}", NULL, NULL, true, true, 1},
    {"alibi", "{\"n_layers\":24}", NULL, NULL, true, true, 1},
    {"qknorm", "{\"num_hidden_layers\":24}", NULL, NULL, true, true, 1},
    {"sliding", "{\"num_hidden_layers\":24}", NULL, NULL, true, false, 4}, /* too few of a period of 4 to gain by it */
    {"llamakid", "{\"num_hidden_layers\":24}", NULL, NULL, true, true, 1},
    /* a layer in the middle that nothing but the forward knows of */
    {"llamakid", "{\"num_hidden_layers\":24}", "* gate)", "* gate + (gate * gate if self.layer_idx == 13 else gate))", true, false, 1},
};

static char *replaced(char *text, const char *instead, const char *with)
{
    char *at = strstr(text, instead), *made;

    if (!at)
        return text;
    made = malloc(strlen(text) + strlen(with) + 1);
    (void)sprintf(made, "%.*s%s%s", (int)(at - text), text, with, at + strlen(instead));
    free(text);
    return made;
}

START_TEST(takes_few_layers_where_they_repeat)
{
    const struct depth_case *c = &depths[_i];
    struct program_library library;
    struct arena library_room, room;
    struct json *config, *patch;
    struct stranger from;
    struct arch arch;
    struct recipe recipe = {.seq_len_tokens = 64, .precision = PRECISION_BF16};
    struct err err = {0};
    char name[64];
    void *blocks[2] = {malloc(LIBRARY_ROOM), malloc(ROOM)};

    (void)snprintf(name, sizeof name, "%s_1", c->folder);
    read_folder(name, &from);
    for (uint32_t i = 0; c->instead && i < from.n; i++) {
        from.texts[i] = replaced(from.texts[i], c->instead, c->with);
        from.files[i] = (struct modeling_file){from.names[i], from.texts[i], strlen(from.texts[i])};
    }
    arena_init(&library_room, blocks[0], LIBRARY_ROOM);
    arena_init(&room, blocks[1], ROOM);
    ck_assert_msg(!program_library(&library_room, &library, &err), "%s %s", err.at, err.detail);
    ck_assert(!json_parse(from.config, strlen(from.config), &json_limits_config, &config, &err));
    ck_assert(!json_parse(c->deep, strlen(c->deep), &json_limits_config, &patch, &err));
    ck_assert(!json_merge_patch(config, patch, &err));
    ck_assert_msg(!program_arch(&library, config, from.files, from.n, NULL, &room, &arch, &err), "%s %s", err.at, err.detail);
    ck_assert_uint_eq(arch.layers, 24);
    ck_assert_int_eq(arch.may_repeat, c->may_repeat);
    ck_assert_int_eq(arch.fixed_depth, from.n > 0);
    ck_assert_uint_eq(fold_of(&arch).period, c->period);
    recipe.stack = traced_new;
    ck_assert_int_eq(train_repeats(&arch, &recipe, &traced_device, &room), c->repeats);
    json_free(config);
    json_free(patch);
    give_back(&from);
    free(blocks[0]);
    free(blocks[1]);
}
END_TEST

UNIT_TESTS("programs in the language against tapes of PyTorch", unit_rows(makes_the_tape_of_pytorch, tapes);
           unit_rows(takes_few_layers_where_they_repeat, depths);)
