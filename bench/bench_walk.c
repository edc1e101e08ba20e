/*
 * bench_walk.c - a step walked for its live blocks, and measured on the allocators, per birth or death of a block; beside a fixed loop in the same run.
 *
 *   make bench
 */
#include "bench/measure.h"
#include "catalog/builtin.h"
#include "tests/support/carried.h"
#include "tests/support/programs.h"
#include "train/measure.h"
#include "train/trainer.h"

#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 40 };

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
    printf("%-28s %8s %10s %10s %12s\n", "model (full, bf16, B1 S1024)", "events", "walk ns", "x loop", "measured ns");
    for (size_t k = 0; k < sizeof models / sizeof *models; k++) {
        double walk[ROUNDS], measured[ROUNDS];
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
            struct device device = {8, 0, 108, 2048, false, UINT64_C(80) << 30, 0, false, false};
            double begin, middle;

            arena_init(&a, block, room);
            if (json_parse(carried_text(b), b->bytes, &json_limits_config, &config, &err) || arch_read(config, &a, &arch, &err))
                return 1;
            step.r.stack = (struct stack){2015, 5023, 21, 1015, 50, 19, 2007, 8, 0, 0, 0};
            step.quirks = quirks_for(&step.r.stack, arch.model_type);
            step.r.precision = PRECISION_BF16;
            step.r.seq_len_tokens = 1024;
            step.r.micro_batch_size = step.r.gradient_accumulation_steps = 1;
            step.r.max_grad_norm = 1;
            step.r.optimizer = OPTIMIZER_ADAMW_TORCH_FUSED;
            step.r.attention = ATTENTION_SDPA;
            begin = core_s();
            if (train_walk(&arch, &step, &device, &a, &m, &err)) {
                fprintf(stderr, "%s\n", err.detail);
                return 1;
            }
            middle = core_s();
            if (train_measure(&arch, &step, &device, false, NULL, &a, &m, &err))
                return 1;
            events = m.births + m.deaths;
            walk[i] = (middle - begin) * 1e9 / events;
            measured[i] = (core_s() - middle) * 1e9 / events; /* a tape, laid out where layers repeat, and its replays */
            json_free(config);
        }
        {
            double w = median(walk, ROUNDS), r = median(measured, ROUNDS);

            printf("%-28s %8u %10.1f %10.1f %12.1f\n", models[k], events, w, w / reference, r);
        }
    }
    free(block);
    return 0;
}
