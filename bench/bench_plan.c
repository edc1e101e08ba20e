/*
 * bench_plan.c - a cold answer of POST /estimate, from the body's bytes to the answer's, on one core; beside a fixed loop in the same run.
 *
 *   make bench
 */
#include "api/api.h"
#include "bench/measure.h"
#include "catalog/builtin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static double answer_ms(const char *body, const struct builtin *model, void *block, int *status)
{
    struct arena arena;
    struct api_request rq = {.method = "POST", .path = "/estimate", .body = body, .body_bytes = strlen(body), .arena = &arena};
    struct api_config config = {.model = model->id, .revision = "main", .text = model->text, .bytes = model->bytes, .source = "builtin"};
    struct api_response rs;
    double begin;

    arena_init(&arena, block, API_ARENA_BYTES);
    begin = core_s();
    api_answer(&rq, &config, 1, &rs);
    *status = rs.status;
    return (core_s() - begin) * 1e3;
}

int main(void)
{
    void *block = malloc(API_ARENA_BYTES);

    if (!block)
        return 1;
    printf("a cold answer, ms of one core (median of %d); fixed loop %.2f ns a step\n", (int)ROUNDS, reference_ns());
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const struct builtin *model = builtin_find(questions[i].model);
        double ms[ROUNDS], middle;
        int status = 0;

        if (!model)
            return 1;
        for (int r = 0; r < ROUNDS; r++)
            ms[r] = answer_ms(questions[i].body, model, block, &status);
        middle = median(ms, ROUNDS);
        printf("  %-22s %7.1f   (%.1f to %.1f, status %d)\n", questions[i].what, middle, ms[0], ms[ROUNDS - 1], status);
    }
    free(block);
    return 0;
}
