#include "perf/perf.h"

/*
 * Fitted together by `accuracy speed fit` on tests/data/accuracy/speed.jsonl: 71 published rows of six sources on A100, H100, L40S and RTX 3090,
 * each source and GPU weighted by the root of its rows. `data` says which of them tell a constant; `prior` is what was expected before.
 */
// clang-format off
static const struct perf_constant table[PERF_CONSTANTS] = {
    [PERF_PRODUCT_SHARE]     = {"product_share", "of the best published product", 0.81, 0.9,
        "llm-foundry, torchtune, fms-acceleration on A100, NeMo Automodel on H100: products in training against the best single one (gpus.csv)"},
    [PERF_BEST_SHARE]        = {"best_share", "of the dense peak", 0.80, 0,
        "gpus.csv, best published product / dense peak: A100 0.87, H100 0.80, B200 0.78; for GPUs without one"},
    [PERF_BEST_SHARE_86]     = {"best_share_86", "of the dense peak", 0.99, 0.95,
        "gpjt on one RTX 3090: its data sheet's peak is that of a clock which the card exceeds"},
    [PERF_BEST_SHARE_89]     = {"best_share_89", "of the dense peak", 0.69, 0.7,
        "peft-metamath on one L40S, which its power limit slows"},
    [PERF_ATTENTION_SHARE]   = {"attention_share", "of the rate of products", 0.44, 0.6,
        "llm-foundry at 512 to 16,384 tokens, fms-acceleration: flash attention, counted without the masked half"},
    [PERF_EFFICIENT_SHARE]   = {"efficient_share", "of the rate of products", 0.52, 0.35,
        "gpjt and peft-metamath: scaled_dot_product_attention with a mask, counted in full"},
    [PERF_MEMORY_SHARE]      = {"memory_share", "of the memory bandwidth", 0.88, 0.85,
        "all rows: elementwise kernels, reductions, foreach optimizers"},
    [PERF_CACHE_SPEED]       = {"cache_speed", "times the memory bandwidth", 2.75, 2.5,
        "peft-metamath on L40S (96 MiB of L2) beside gpjt on RTX 3090 (6 MiB)"},
    [PERF_KERNEL_S]          = {"kernel_s", "seconds", 1.9e-6, 2e-6,
        "peft-metamath, gpjt at 1,024 tokens: start and end of each kernel on the GPU"},
    [PERF_FORWARD_CALL_S]    = {"forward_call_s", "seconds", 5e-6, 5e-6,
        "an operator called from Python; the rows hardly tell: below the prior's cost (gpjt below 700 tokens bounds it, behind DeepSpeed's hooks)"},
    [PERF_BACKWARD_CALL_S]   = {"backward_call_s", "seconds", 4e-6, 4e-6,
        "an operator or node run by autograd's engine; as forward_call_s"},
};
// clang-format on

const struct perf_constant *perf_constant(enum perf_constant_id id)
{
    return &table[id];
}

const char *perf_assumption(void)
{
    return "step times: each kernel of the run by the GPU's peak and bandwidth, collectives by latency and bandwidth; ten empirical shares, fitted on 71 "
           "published runs, stand in the program's core/perf/constants.c. A source left out of the fit is met within 5 to 16 % (median)";
}
