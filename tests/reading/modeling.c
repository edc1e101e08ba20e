/*
 * modeling FOLDER OPTIONS [--stack TORCH/TRANSFORMERS/PEFT]: a step of the model whose files and config.json lie in FOLDER, event by event.
 *
 * OPTIONS   those of a traced run: tests/support/traced.h. "{}": the usual.
 * Prints    "+BYTES operator node module" of each birth and "-NUMBER" of each death; or what stopped it. A tool of tools/random-modules.
 */
#include "base/json.h"
#include "models/modeling.h"
#include "tests/support/traced.h"
#include "train/trainer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (UINT64_C(1) << 30)
enum { LIBRARY_ROOM = 64 << 20, FILES_MAX = 16, WIDEST = 4 };

static char *slurp(const char *path, size_t *ret_bytes)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t n = 0, room = 0;

    if (!f)
        return NULL;
    do {
        room = room * 2 + 65536;
        text = realloc(text, room);
        n += fread(text + n, 1, room - n - 1, f);
    } while (n == room - 1);
    (void)fclose(f);
    text[n] = 0;
    *ret_bytes = n;
    return text;
}

static uint32_t read_folder(const char *folder, struct modeling_file *ret)
{
    struct dirent *e;
    uint32_t n = 0;
    char path[1400];
    DIR *d = opendir(folder);

    while (d && (e = readdir(d)) != NULL) {
        size_t k = strlen(e->d_name);

        if (k < 4 || strcmp(e->d_name + k - 3, ".py") != 0 || n == FILES_MAX)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        ret[n].name = strdup(e->d_name);
        ret[n].text = slurp(path, &ret[n].bytes);
        n++;
    }
    if (d)
        (void)closedir(d);
    return n;
}

static void show(const struct trainer *t)
{
    char path[256];

    for (uint32_t i = 0; i < t->run.n_events; i++) {
        uint32_t e = t->run.events[i];
        const struct birth *b = &t->run.births[e & EVENT_BLOCK];

        if (!event_is_of_block(e))
            continue;
        if (e & EVENT_DEATH)
            printf("-%u\n", e & EVENT_BLOCK);
        else
            printf("+%llu %s %s %s\n", (unsigned long long)b->bytes, op_rows[b->op].aten, op_rows[b->node].node,
                   module_path(&t->model.tree, b->module, path, sizeof path));
    }
}

static int failed(const struct err *err)
{
    printf("failed: %s %s %s:%u %s\n", err_slug(err->code), err->at, err->file, err->line, err->detail);
    return 1;
}

int main(int argc, char **argv)
{
    struct trainer *t = calloc(1, sizeof *t);
    struct modeling_file files[FILES_MAX];
    struct arena library_room, room;
    struct program_library library;
    struct json *config, *options;
    const char *targets[TRACED_TARGETS], *wrong, *stack_text = argc > 4 && !strcmp(argv[3], "--stack") ? argv[4] : "new";
    struct arch arch;
    struct stack stack;
    struct step step;
    struct err err = {0};
    char path[1400], *text;
    size_t bytes;
    uint32_t n;

    if (argc < 3 || !traced_stack(stack_text, &stack)) {
        fprintf(stderr, "modeling FOLDER OPTIONS [--stack TORCH/TRANSFORMERS/PEFT]\n");
        return 2;
    }
    (void)snprintf(path, sizeof path, "%s/config.json", argv[1]);
    text = slurp(path, &bytes);
    n = read_folder(argv[1], files);
    arena_init(&library_room, malloc(LIBRARY_ROOM), LIBRARY_ROOM);
    arena_init(&room, malloc(ROOM), ROOM);
    if (!text || json_parse(text, bytes, &json_limits_config, &config, &err) || json_parse(argv[2], strlen(argv[2]), &json_limits_config, &options, &err) ||
        program_library(&library_room, &library, &err) || program_arch(&library, config, files, n, &stack, &room, &arch, &err))
        return failed(&err);
    wrong = traced_step(options, &arch, &stack, targets, &step);
    if (wrong) {
        printf("failed: options: %s\n", wrong);
        return 1;
    }
    for (unsigned char *mark = room.cur; trainer_run(t, &arch, &step, &traced_device, &room, &err);) {
        if (t->run.outgrew && t->wider < WIDEST) { /* a forward that loops, over tokens: train/play_once.c */
            arena_rewind(&room, mark);
            *t = (struct trainer){.wider = WIDEST};
            err = (struct err){0};
            continue;
        }
        show(t);
        return failed(&err);
    }
    show(t);
    return 0;
}
