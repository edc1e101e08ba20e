/*
 * bench_plan.c - a cold answer of POST /estimate, from the body's bytes to the answer's, on one core; beside a fixed loop in the same run.
 *
 *   make bench; BASELINE=another/llmemd build/bench/bench_plan has another program answer the same in the same run
 */
#include "tests/support/programs.h"
#include "api/api.h"
#include "base/budget.h"
#include "bench/daemon.h"
#include "bench/measure.h"
#include "catalog/builtin.h"
#include "server/block.h"
#include "tests/support/carried.h"

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

/* One answer: its time, and the events of its runs and replays, which do not depend on the machine. */
struct cold {
    double ms;
    uint64_t events;
    int status;
};

static struct cold answer(const char *body, const struct builtin *model, void *block)
{
    struct budget counter = {.limit_events = UINT64_MAX, .mark_events = UINT64_MAX};
    struct arena arena;
    struct api_request rq = {.method = "POST", .path = "/estimate", .body = body, .body_bytes = strlen(body), .arena = &arena, .library = programs_library,
                             .budget = &counter};
    struct api_config config = {.model = model->id, .revision = "main", .text = carried_text(model), .bytes = model->bytes, .source = "builtin"};
    struct api_response rs;
    double begin;

    arena_init(&arena, block, API_ARENA_BYTES);
    begin = core_s();
    api_answer(&rq, &config, 1, &rs);
    return (struct cold){(core_s() - begin) * 1e3, counter.events, rs.status};
}

/* The program that BASELINE names is asked the same between our own rounds, as a daemon without a cache: its processor time, HTTP included. */
static void compare(const char *body, const struct builtin *model, void *block, const struct daemon *baseline, const char *what)
{
    double ours[ROUNDS], theirs[ROUNDS], middle;
    struct cold c = {0};
    int status = 200;

    for (int r = -1; r < ROUNDS; r++) { /* once to warm up */
        double ms = baseline ? daemon_ask(baseline, body, &status) * 1e3 : 0;

        c = answer(body, model, block);
        theirs[r < 0 ? 0 : r] = ms;
        ours[r < 0 ? 0 : r] = c.ms;
    }
    middle = median(ours, ROUNDS);
    printf("  %-22s %7.1f   (%.1f to %.1f, status %d; %.2f million events)", what, middle, ours[0], ours[ROUNDS - 1], c.status, (double)c.events * 1e-6);
    if (baseline && status == 200) {
        double was = median(theirs, ROUNDS);

        printf("; the baseline's %.1f (%.1f to %.1f): %.3f of it, by the least %.3f", was, theirs[0], theirs[ROUNDS - 1], middle / was, ours[0] / theirs[0]);
    }
    printf("\n");
}

int main(void)
{
    const char *path = getenv("BASELINE");
    void *block = block_for_work(API_ARENA_BYTES); /* as a worker has it */
    struct daemon baseline;

    if (!block)
        return 1;
    if (path && !daemon_start(path, &baseline)) {
        fprintf(stderr, "%s does not start\n", path);
        return 1;
    }
    printf("a cold answer, ms of one core (median of %d); fixed loop %.2f ns a step\n", (int)ROUNDS, reference_ns());
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
        const struct builtin *model = builtin_find(questions[i].model);

        if (model)
            compare(questions[i].body, model, block, path ? &baseline : NULL, questions[i].what);
    }
    if (path)
        daemon_end(&baseline);
    block_free(block, API_ARENA_BYTES);
    return 0;
}
