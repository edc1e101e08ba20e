/*
 * bench_program.c - models in the language: what their image costs, and a run of all layers, beside a fixed loop in the same run.
 *
 *   bench_program [MODEL ROUNDS]    MODEL alone (a builtin name), without and with checkpointing, each walked ROUNDS times
 *
 * TRANSFORMERS=.../site-packages/transformers: the same walks through that release's own files, and how much more they take.
 * Instructions: tools/count-walks, which has callgrind count walk_program and walk_installed.
 *
 * docs/architecture.md has what runs cost beside twins in C, measured when every family had one.
 */
#include "bench/measure.h"
#include "catalog/builtin.h"
#include "models/installed.h"
#include "models/program.h"
#include "server/installed.h"
#include "tests/support/carried.h"
#include "train/trainer.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 20, IMAGE_ROOM = 64 << 20 };

static int rounds = MOST_ROUNDS;

/* By names that a profiler is told. */
__attribute__((noinline)) static enum err_code make_image(struct arena *a, const struct image **ret, struct err *err)
{
    enum err_code rc = program_image(a, ret, err);

    __asm__ volatile("" ::: "memory");
    return rc;
}

__attribute__((noinline)) static enum err_code walk_program(const struct arch *arch, const struct step *step, const struct device *d,
                                                            struct arena *a, struct trainer *t, struct err *err)
{
    enum err_code rc = trainer_run(t, arch, step, d, a, err);

    __asm__ volatile("" ::: "memory");
    return rc;
}

static void default_step(struct step *s, const char *model_type, bool checkpointing)
{
    *s = (struct step){0};
    s->r.stack = (struct stack){.torch = 2015, .transformers = 5023, .peft = 21, .accelerate = 1015, .bitsandbytes = 50, .deepspeed = 19, .flash_attn = 2007};
    s->quirks = quirks_for(&s->r.stack, model_type);
    s->r.precision = PRECISION_BF16;
    s->r.seq_len_tokens = 1024;
    s->r.micro_batch_size = s->r.gradient_accumulation_steps = 1;
    s->r.max_grad_norm = 1;
    s->r.optimizer = OPTIMIZER_ADAMW_TORCH_FUSED;
    s->r.attention = ATTENTION_SDPA;
    s->r.gradient_checkpointing = checkpointing ? TRI_TRUE : TRI_FALSE;
}

__attribute__((noinline)) static enum err_code walk_installed(const struct arch *arch, const struct step *step, const struct device *d,
                                                              struct arena *a, struct trainer *t, struct err *err)
{
    enum err_code rc = trainer_run(t, arch, step, d, a, err);

    __asm__ volatile("" ::: "memory");
    return rc;
}

typedef enum err_code walking(const struct arch *arch, const struct step *step, const struct device *d, struct arena *a, struct trainer *t, struct err *err);

/* The median of its time, ns; 0: it ends, *err says why. */
static double time_of(walking *walk, const struct arch *arch, const struct step *step, struct arena *a, struct trainer *t, struct err *err)
{
    const struct device device = {8, 0, 108, 2048, false, UINT64_C(80) << 30, 0, false, false};
    unsigned char *mark = a->cur;
    double ns[MOST_ROUNDS];

    for (int i = 0; i < rounds; i++) {
        double from;

        memset(t, 0, sizeof *t);
        from = core_s();
        if (walk(arch, step, &device, a, t, err))
            return 0;
        ns[i] = 1e9 * (core_s() - from);
        arena_rewind(a, mark);
    }
    return median(ns, rounds);
}

/* The same model by an installed transformers' own files: times the builtin one's. */
static int beside_installed(const struct json *config, const struct step *step, double builtin_ns, struct arena *a, struct trainer *t)
{
    const struct installed *const *all = installed_all();
    struct installed mine;
    struct arch arch;
    struct err err = {0};
    double ns;

    if (!all)
        return 0;
    mine = **all;
    mine.torch_text = "2.15.0";
    if (program_arch_installed(&mine, config, a, &arch, &err))
        return fprintf(stderr, "installed: %s\n", err.detail), 1;
    ns = time_of(walk_installed, &arch, step, a, t, &err);
    if (!(ns > 0))
        return fprintf(stderr, "installed: %s\n", err.detail), 1;
    printf("%-42s %8u %9.1f %7.2f x builtin\n", "  transformers' own files", t->run.n_events, ns / t->run.n_events, ns / builtin_ns);
    return 0;
}

static int one_model(const char *name, const struct image *image, struct arena *a, bool checkpointing, double loop)
{
    const struct builtin *b = builtin_find(name);
    unsigned char *begin = a->cur;
    double ns;
    struct json *config = NULL;
    struct arch arch;
    struct step step;
    struct trainer *t = arena_new(a, struct trainer);
    struct err err = {0};

    if (!b || !t)
        return !t;
    if (json_parse(carried_text(b), b->bytes, &json_limits_config, &config, &err) || arch_parse(config, a, &arch, &err) ||
        program_attach(&(struct program_library){.families = image}, config, a, &arch, &err))
        return fprintf(stderr, "%s: %s\n", name, err.detail), 1;
    default_step(&step, arch.model_type, checkpointing);
    ns = time_of(walk_program, &arch, &step, a, t, &err);
    if (!(ns > 0))
        return fprintf(stderr, "%s: %s\n", name, err.detail), 1;
    printf("%-28s %-13s %8u %9.1f %7.1f\n", name, checkpointing ? "checkpointing" : "", t->run.n_events, ns / t->run.n_events, ns / t->run.n_events / loop);
    if (beside_installed(config, &step, ns, a, t))
        return 1;
    json_free(config);
    arena_rewind(a, begin);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const models[] = {"meta-llama/Meta-Llama-3-8B", "openai-community/gpt2-xl", "bigscience/bloom-3b"};
    size_t room = (size_t)512 << 20;
    struct arena image_room, a;
    const struct image *image;
    struct err err = {0};
    double from, loop = reference_ns();

    arena_init(&a, malloc(room), room);
    arena_init(&image_room, malloc(IMAGE_ROOM), IMAGE_ROOM);
    if (!a.cur || !image_room.cur)
        return 1;
    if (argc == 3) {
        rounds = atoi(argv[2]);
        if (rounds < 1 || rounds > MOST_ROUNDS)
            return fprintf(stderr, "ROUNDS: 1 to %d\n", MOST_ROUNDS), 2;
    }
    if (!installed_open(getenv("TRANSFORMERS")))
        return 1;
    printf("fixed loop: %.2f ns a step of xorshift64\n", loop);
    from = core_s();
    if (make_image(&image_room, &image, &err))
        return fprintf(stderr, "%s\n", err.detail), 1;
    printf("an image of the library and all families: %.2f ms, %.2f MB\n", 1e3 * (core_s() - from),
           (double)(IMAGE_ROOM - (image_room.end - image_room.cur)) / 1e6);
    printf("%-28s %-13s %8s %9s %7s\n", "model (full, bf16, B1 S1024)", "", "events", "ns each", "x loop");
    for (size_t i = 0; i < (argc == 3 ? 1 : sizeof models / sizeof *models); i++)
        for (int checkpointing = 0; checkpointing < 2; checkpointing++)
            if (one_model(argc == 3 ? argv[1] : models[i], image, &a, checkpointing, loop))
                return 1;
    installed_close();
    return 0;
}
