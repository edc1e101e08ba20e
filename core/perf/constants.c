#include "perf/perf.h"

static const struct perf_constant table[PERF_CONSTANTS] = {
    [PERF_PRODUCT_SHARE] = {"product_share", "of the best published product", 0.92, ""},
    [PERF_BEST_SHARE] = {"best_share", "of the dense peak", 0.8, ""},
    [PERF_ATTENTION_SHARE] = {"attention_share", "of the rate of products", 0.6, ""},
    [PERF_ATTENTION_WIDE_SHARE] = {"attention_wide_share", "of the rate of products", 0.3, ""},
    [PERF_MEMORY_SHARE] = {"memory_share", "of the memory bandwidth", 0.8, ""},
    [PERF_KERNEL_S] = {"kernel_s", "seconds", 2.5e-6, ""},
    [PERF_FORWARD_CALL_S] = {"forward_call_s", "seconds", 6e-6, ""},
    [PERF_BACKWARD_CALL_S] = {"backward_call_s", "seconds", 3e-6, ""},
};

const struct perf_constant *perf_constant(enum perf_constant_id id)
{
    return &table[id];
}

const char *perf_assumption(void)
{
    return "";
}
