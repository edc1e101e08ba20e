/*
 * reading DIR CONFIG.json OPTIONS [--stack TORCH/TRANSFORMERS/PEFT] [--tape] [--twin] [--declare]: the model of a config read from an installed transformers, and a step of it.
 *
 * DIR       .../site-packages/transformers, or a folder that holds one.
 * OPTIONS   those of a traced run: tests/support/traced.h. "{}": the usual.
 * Prints    one line: parameters, peak_allocated_bytes of the replay; or what stopped it. --twin: the first event that differs from the
 *           builtin program's. --tape: each event. A tool of the tests and of docs/reading.md.
 */
#include "base/json.h"
#include "models/installed.h"
#include "models/program.h"
#include "stack/release.h"
#include "tests/support/traced.h"
#include "train/measure.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM (UINT64_C(6) << 30)
enum { IMAGE_ROOM = 64 << 20, FILES = 512, PREFIX = sizeof "transformers/" - 1 };

static char root[1024];
static struct {
    char path[256], *text; /* of "transformers/models/.." */
    size_t bytes;
} kept[FILES];
static unsigned n_kept;

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

static enum installed_file read_installed(void *of, const char *path, const char **ret_name, const char **text, size_t *bytes)
{
    char full[1400];

    (void)of;
    for (unsigned i = 0; i < n_kept; i++)
        if (!strcmp(kept[i].path + PREFIX, path)) {
            *ret_name = kept[i].path;
            *text = kept[i].text;
            *bytes = kept[i].bytes;
            return INSTALLED_READ;
        }
    (void)snprintf(full, sizeof full, "%s/%s", root, path);
    if (n_kept == FILES || !(kept[n_kept].text = slurp(full, &kept[n_kept].bytes)))
        return INSTALLED_ABSENT;
    (void)snprintf(kept[n_kept].path, sizeof kept[n_kept].path, "transformers/%s", path);
    *ret_name = kept[n_kept].path;
    *text = kept[n_kept].text;
    *bytes = kept[n_kept++].bytes;
    return INSTALLED_READ;
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
            printf("%u -%u\n", i, e & EVENT_BLOCK);
        else
            printf("%u +%u %llu %s %s %s %d\n", i, e, (unsigned long long)b->bytes, op_rows[b->op].aten, op_rows[b->node].node,
                   module_path(&t->model.tree, b->module, path, sizeof path), b->recompute);
    }
}

static bool is_death(uint32_t e)
{
    return event_is_of_block(e) && (e & EVENT_DEATH);
}

static const char *told(const struct trainer *t, uint32_t i, char *buf, size_t bytes)
{
    char path[256];
    const struct birth *b;

    if (i >= t->run.n_events)
        return "its end";
    b = &t->run.births[t->run.events[i] & EVENT_BLOCK];
    if (!event_is_of_block(t->run.events[i]))
        return "a mark";
    (void)snprintf(buf, bytes, "%s of %llu bytes, %s, %s, in '%s'", is_death(t->run.events[i]) ? "death" : "birth",
                   (unsigned long long)b->bytes, op_rows[b->op].aten, op_rows[b->node].node,
                   module_path(&t->model.tree, b->module, path, sizeof path));
    return buf;
}

/* Blocks that die at one moment may die in any order. */
static uint32_t first_difference(const struct trainer *x, const struct trainer *y)
{
    uint32_t i = 0;

    while (i < x->run.n_events && i < y->run.n_events) {
        uint32_t e = x->run.events[i], f = y->run.events[i], end = i;
        uint64_t sum = 0, other = 0;

        if (!is_death(e)) {
            const struct birth *a = &x->run.births[e & EVENT_BLOCK], *b = &y->run.births[f & EVENT_BLOCK];

            if (e != f || (event_is_of_block(e) && (a->bytes != b->bytes || a->op != b->op || a->node != b->node)))
                return i;
            i++;
            continue;
        }
        while (end < x->run.n_events && end < y->run.n_events && is_death(x->run.events[end]) && is_death(y->run.events[end])) {
            sum += (uint64_t)x->run.events[end] * 2654435761u;
            other += (uint64_t)y->run.events[end++] * 2654435761u;
        }
        if (end == i || sum != other)
            return i;
        i = end;
    }
    return i;
}

static int failed(const char *what, const struct err *err)
{
    printf("%s: %s %s %s\n", what, err_slug(err->code), err->at, err->detail);
    return 1;
}

int main(int argc, char **argv)
{
    struct arena image_room, room;
    struct json *config, *options;
    struct installed from = {.read = read_installed, .torch_text = NULL};
    struct trainer *t = calloc(1, sizeof *t);
    struct arch arch;
    struct stack stack;
    struct step step;
    const char *targets[TRACED_TARGETS], *wrong, *init, *name;
    char version[32], *text;
    struct measured m;
    struct err err = {0};
    size_t bytes;
    bool tape = false, twin = false, declare = false;
    char *torch_text;
    const char *stack_text = "new";

    if (argc < 4) {
        fprintf(stderr, "reading DIR CONFIG.json OPTIONS [--tape]\n");
        return 2;
    }
    for (int i = 4; i < argc; i++) {
        if (!strcmp(argv[i], "--stack") && i + 1 < argc)
            stack_text = argv[++i];
        declare = declare || !strcmp(argv[i], "--declare");
        twin = twin || !strcmp(argv[i], "--twin");
        tape = tape || !strcmp(argv[i], "--tape");
    }
    (void)snprintf(root, sizeof root, "%s", argv[1]);
    if (read_installed(NULL, "__init__.py", &name, &init, &bytes) != INSTALLED_READ || !installed_version(init, bytes, version, sizeof version)) {
        printf("no transformers in %s\n", root);
        return 1;
    }
    from.release = version;
    if (!traced_stack(stack_text, &stack)) {
        printf("no such stack: %s\n", stack_text);
        return 2;
    }
    from.torch_text = torch_text = strdup(release_text(stack.torch).text);
    text = slurp(argv[2], &bytes);
    if (!text || json_parse(text, bytes, &json_limits_config, &config, &err))
        return failed("config", &err);
    if (json_parse(argv[3], strlen(argv[3]), &json_limits_config, &options, &err))
        return failed("options", &err);
    arena_init(&image_room, malloc(IMAGE_ROOM), IMAGE_ROOM);
    arena_init(&room, malloc(ROOM), ROOM);
    if (installed_image(&image_room, version, &from.image, &err))
        return failed("image", &err);
    if (program_arch_installed(&from, config, &room, &arch, &err))
        return failed("declare", &err);
    wrong = traced_step(options, &arch, &stack, targets, &step);
    if (wrong) {
        printf("options: %s\n", wrong);
        return 1;
    }
    if (declare) {
        struct parameter_count n;

        if (trainer_declare(t, &arch, &step, &room, &err))
            return failed("declare", &err);
        n = parameters_of(t->model.tree.root);
        printf("parameters %llu trainable %llu tensors %u\n", (unsigned long long)n.parameters, (unsigned long long)n.trainable, n.tensors);
        return 0;
    }
    if (twin) {
        struct trainer *other = calloc(1, sizeof *other);
        struct program_library library;
        struct arch builtin;
        struct arena second;
        char a[512], b[512];
        uint32_t at;

        arena_init(&second, malloc(ROOM), ROOM);
        if (program_library(&second, &library, &err) || program_arch(&library, config, NULL, 0, NULL, &second, &builtin, &err))
            return failed("builtin", &err);
        if (trainer_run(t, &arch, &step, &traced_device, &room, &err))
            return failed("walk", &err);
        if (trainer_run(other, &builtin, &step, &traced_device, &second, &err))
            return failed("builtin", &err);
        at = first_difference(t, other);
        if (at == t->run.n_events && at == other->run.n_events)
            printf("equal: %u events\n", at);
        else
            printf("event %u is %s; of the builtin %s\n", at, told(t, at, a, sizeof a), told(other, at, b, sizeof b));
        return at != t->run.n_events || at != other->run.n_events;
    }
    if (tape) {
        if (trainer_run(t, &arch, &step, &traced_device, &room, &err)) {
            show(t);
            return failed("walk", &err);
        }
        show(t);
        return 0;
    }
    if (train_measure(&arch, &step, &traced_device, false, NULL, &room, &m, &err))
        return failed("walk", &err);
    printf("parameters %llu trainable %llu tensors %u peak_allocated_bytes %llu peak_reserved_bytes %llu resting %llu static %llu\n",
           (unsigned long long)m.parameters, (unsigned long long)m.trainable_parameters, m.tensors,
           (unsigned long long)m.peak_allocated_bytes, (unsigned long long)m.peak_reserved_bytes, (unsigned long long)m.resting_bytes,
           (unsigned long long)m.static_bytes);
    return 0;
}
