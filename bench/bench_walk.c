/*
 * bench_walk.c - a step of a 32-layer model walked and replayed, per birth or death of a block, beside a fixed loop in the same run.
 *
 *   make bench
 */
#include "catalog/builtin.h"
#include "train/measure.h"
#include "train/trainer.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 40 };

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The loop that other machines can be compared by: xorshift64, one step each. */
static double reference_ns(void)
{
    const long n = 50000000;
    volatile uint64_t sink;
    uint64_t x = 88172645463325252u;
    double begin = now_s();

    for (long i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    sink = x;
    (void)sink;
    return (now_s() - begin) * 1e9 / (double)n;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

int main(void)
{
    static const char *const models[] = {"meta-llama/Meta-Llama-3-8B", "facebook/opt-2.7b", "EleutherAI/pythia-1.4b"};
    size_t room = (size_t)512 << 20;
    void *block = malloc(room);
    double reference = reference_ns();

    if (!block)
        return 1;
    memset(block, 1, room); /* pages are there before the clock runs */
    printf("fixed loop: %.2f ns a step of xorshift64\n", reference);
    printf("%-28s %8s %10s %10s %10s\n", "model (full, bf16, B1 S1024)", "events", "walk ns", "x loop", "replay ns");
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        double walk[ROUNDS], replay[ROUNDS];
        uint32_t events = 0;
        const struct builtin *b = builtin_find(models[k]);

        if (!b)
            continue;
        for (int i = 0; i < ROUNDS; i++) {
            struct arena a;
            struct arch arch;
            struct json *config = NULL;
            struct err err = {0};
            struct step step = {0};
            struct measured m;
            struct device device = {8, 0, 108, 2048, UINT64_C(80) << 30, 0};
            double begin, middle;

            arena_init(&a, block, room);
            if (json_parse(b->text, b->bytes, &json_limits_config, &config, &err) || arch_parse(config, &a, &arch, &err))
                return 1;
            step.r.stack = (struct stack){2015, 5023, 21, 1015, 50, 19, 2007};
            step.quirks = quirks_of(&step.r.stack);
            step.r.precision = PRECISION_BF16;
            step.r.seq_len_tokens = 1024;
            step.r.micro_batch_size = step.r.gradient_accumulation_steps = 1;
            step.r.max_grad_norm = 1;
            step.r.optimizer = OPTIMIZER_ADAMW_TORCH_FUSED;
            step.r.attention = ATTENTION_SDPA;
            begin = now_s();
            if (train_walk(&arch, &step, &device, &a, &m, &err)) {
                fprintf(stderr, "%s\n", err.detail);
                return 1;
            }
            middle = now_s();
            if (train_measure(&arch, &step, &device, &a, &m, &err))
                return 1;
            events = m.births + m.deaths;
            walk[i] = (middle - begin) * 1e9 / events;
            replay[i] = ((now_s() - middle) * 1e9 / events - walk[i]) / 2; /* measure walks once and replays on two allocators */
            json_free(config);
        }
        {
            double w = median(walk, ROUNDS), r = median(replay, ROUNDS);

            printf("%-28s %8u %10.1f %10.1f %10.1f\n", models[k], events, w, w / reference, r);
        }
    }
    free(block);
    return 0;
}
