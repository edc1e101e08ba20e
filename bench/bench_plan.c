/*
 * bench_plan.c - a cold answer of POST /estimate, from the body's bytes to the answer's, on one core; beside a fixed loop in the same run.
 *
 *   make bench
 */
#include "api/api.h"
#include "catalog/builtin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 9 };

static const struct {
    const char *what, *model, *body;
} questions[] = {
    {"8B, 8 x A100-80GB", "meta-llama/Meta-Llama-3-8B",
     "{\"model\":\"meta-llama/Meta-Llama-3-8B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":8},\"training\":{\"seq_len\":2048}}"},
    {"70B, 8 x A100-80GB", "meta-llama/Llama-2-70b-hf",
     "{\"model\":\"meta-llama/Llama-2-70b-hf\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":8},\"training\":{\"seq_len\":2048}}"},
    {"70B, 8 x B200", "meta-llama/Llama-2-70b-hf",
     "{\"model\":\"meta-llama/Llama-2-70b-hf\",\"cluster\":{\"gpu\":\"B200\",\"gpus_per_node\":8},\"training\":{\"seq_len\":2048}}"},
};

static double now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double answer_ms(const char *body, const struct builtin *model, void *block, int *status)
{
    struct arena arena;
    struct api_request rq = {.method = "POST", .path = "/estimate", .body = body, .body_bytes = strlen(body), .arena = &arena};
    struct api_config config = {.model = model->id, .revision = "main", .text = model->text, .bytes = model->bytes, .source = "builtin"};
    struct api_response rs;
    double begin;

    arena_init(&arena, block, API_ARENA_BYTES);
    begin = now_s();
    api_answer(&rq, &config, 1, &rs);
    *status = rs.status;
    return (now_s() - begin) * 1e3;
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

int main(void)
{
    void *block = malloc(API_ARENA_BYTES);

    if (!block)
        return 1;
    printf("a cold answer, ms of one core (median of %d); fixed loop %.2f ns a step\n", (int)ROUNDS, reference_ns());
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const struct builtin *model = builtin_find(questions[i].model);
        double ms[ROUNDS];
        int status = 0;

        if (!model)
            return 1;
        for (int r = 0; r < ROUNDS; r++)
            ms[r] = answer_ms(questions[i].body, model, block, &status);
        qsort(ms, ROUNDS, sizeof *ms, by_value);
        printf("  %-22s %7.1f   (%.1f to %.1f, status %d)\n", questions[i].what, ms[ROUNDS / 2], ms[0], ms[ROUNDS - 1], status);
    }
    free(block);
    return 0;
}
