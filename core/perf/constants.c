#include "perf/perf.h"

static const struct perf_constant table[PERF_CONSTANTS] = {
    [PERF_PRODUCT_SHARE] = {"product_share", "of the best published product", 0.81, 0.9, ""},
    [PERF_BEST_SHARE] = {"best_share", "of the dense peak", 0.8, 0, ""},
    [PERF_BEST_SHARE_86] = {"best_share_86", "of the dense peak", 0.99, 0.95, ""},
    [PERF_BEST_SHARE_89] = {"best_share_89", "of the dense peak", 0.69, 0.7, ""},
    [PERF_ATTENTION_SHARE] = {"attention_share", "of the rate of products", 0.44, 0.6, ""},
    [PERF_EFFICIENT_SHARE] = {"efficient_share", "of the rate of products", 0.52, 0.35, ""},
    [PERF_MEMORY_SHARE] = {"memory_share", "of the memory bandwidth", 0.88, 0.85, ""},
    [PERF_CACHE_SPEED] = {"cache_speed", "times the memory bandwidth", 2.75, 2.5, ""},
    [PERF_KERNEL_S] = {"kernel_s", "seconds", 1.9e-6, 2e-6, ""},
    [PERF_FORWARD_CALL_S] = {"forward_call_s", "seconds", 5e-6, 5e-6, ""},
    [PERF_BACKWARD_CALL_S] = {"backward_call_s", "seconds", 4e-6, 4e-6, ""},
};

const struct perf_constant *perf_constant(enum perf_constant_id id)
{
    return &table[id];
}

const char *perf_assumption(void)
{
    return "";
}
