/*
 * tape.c - prints the tape of a run, one birth or death a line, to be laid beside the oracle's.
 *
 *   tape CONFIG.json OPTIONS.json STACK [figures]    STACK: new, old or TORCH/TRANSFORMERS[/PEFT]; figures: those of a replay instead
 */
#include "tests/support/programs.h"
#include "tests/accuracy/accuracy.h"

#include "base/json.h"
#include "config/arch.h"
#include "tests/support/traced.h"
#include "train/measure.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *s = malloc(1 << 20);

    *n = f ? fread(s, 1, 1 << 20, f) : 0;
    if (f)
        (void)fclose(f);
    return s;
}

static int figures(const struct arch *arch, const struct step *step, struct arena *a)
{
    struct measured m;
    struct err err = {0};

    if (train_measure(arch, step, &traced_device, false, NULL, a, &m, &err)) {
        fprintf(stderr, "%s %s\n", err.at, err.detail);
        return 1;
    }
    printf("static %llu peak %llu reserved %llu resting %llu first %llu\n", (unsigned long long)m.static_bytes,
           (unsigned long long)m.peak_allocated_bytes, (unsigned long long)m.peak_reserved_bytes, (unsigned long long)m.resting_bytes,
           (unsigned long long)m.first_steps_peak_bytes);
    for (int i = 0; i < PHASE_COUNT; i++)
        printf("%s %llu\n", phase_name((enum phase)i), (unsigned long long)m.phase_peaks_bytes[i]);
    return 0;
}

static int print(const struct trainer *t)
{
    static const char *const stages[] = {"init",     "batch",     "forward", "loss",      "backward", "between",
                                         "clip",     "optimizer", "zero_grad", "rest"};
    char path[256];

    printf("kind,id,bytes,phase,fwd_phase,op,node,path,recompute,mark\n");
    for (uint32_t i = 0; i < t->run.n_events; i++) {
        uint32_t e = t->run.events[i], id = e & EVENT_BLOCK;
        const struct birth *b;

        if (!event_is_of_block(e)) {
            if (e == EVENT_RELEASE)
                printf("empty,-1,0,,,,,,0,0\n");
            continue;
        }
        b = &t->run.births[id];
        printf("%s,%u,%llu,%s,%s,%s,%s,%s,%d,%d\n", e & EVENT_DEATH ? "free" : "alloc", id, (unsigned long long)b->bytes,
               stages[b->stage], stages[b->forward_stage], op_rows[b->op].aten, op_rows[b->node].node,
               module_path(&t->model.tree, b->module, path, sizeof path), b->recompute, b->mark);
    }
    return 0;
}

/* What was walked before an error is printed too. */
static int tape(const struct arch *arch, const struct step *step, struct arena *a)
{
    struct trainer *t = arena_new(a, struct trainer);
    struct err err = {0};

    if (trainer_run(t, arch, step, &traced_device, a, &err)) {
        fprintf(stderr, "%s %s: %s (after %u births)\n", err_slug(err.code), err.at, err.detail, t->run.n_births);
        if (!t->run.n_births)
            return 1;
    }
    return print(t) || err.code != 0;
}

static bool read_json(const char *path, struct json **ret, struct err *err)
{
    size_t n;
    char *s = slurp(path, &n);
    bool good = s && !json_parse(s, n, &json_limits_config, ret, err);

    free(s);
    return good;
}

/* NULL, or what is wrong with the options. */
static const char *step_of(const struct json *options, const struct arch *arch, const struct stack *stack, struct arena *a,
                           struct step *ret, struct err *err)
{
    static const char *targets[TRACED_TARGETS];
    const char *method = json_str(json_get(options, "method")), *wrong;
    struct recipe asked;

    if (!method || !strcmp(method, "single"))
        return traced_step(options, arch, stack, targets, ret);
    wrong = traced_ddp_recipe(options, arch, stack, targets, &asked);
    if (wrong)
        return wrong;
    *ret = (struct step){0};
    return train_resolve(&asked, arch, &traced_device, a, ret, err) ? err->detail : NULL;
}

int tape_main(int argc, char **argv)
{
    size_t room = (size_t)1 << 31;
    struct json *config = NULL, *options = NULL;
    struct err err = {0};
    struct arena a;
    struct arch arch;
    struct step step;
    struct stack stack;
    const char *wrong;

    if (argc < 4 || !traced_stack(argv[3], &stack))
        return 2;
    arena_init(&a, malloc(room), room);
    if (!read_json(argv[1], &config, &err) || arch_read(config, &a, &arch, &err) || !read_json(argv[2], &options, &err)) {
        fprintf(stderr, "%s %s\n", err.at, err.detail);
        return 1;
    }
    wrong = step_of(options, &arch, &stack, &a, &step, &err);
    if (wrong) {
        fprintf(stderr, "%s\n", wrong);
        return 1;
    }
    return argc > 4 ? figures(&arch, &step, &a) : tape(&arch, &step, &a);
}
