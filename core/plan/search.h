/*
 * search.h - the largest micro-batch of one step that fits. Only plan.c includes this.
 */
#ifndef PLAN_SEARCH_H
#define PLAN_SEARCH_H

#include "plan/plan.h"

/* One step on one GPU, measured at any micro-batch. */
struct probe {
    const struct plan_question *q;
    const struct step *step;
    struct arena *scratch;
    struct err *err;
};

struct verdict {
    bool fits, tight;
    uint64_t device_bytes;
    struct measured memory;
};

/* Replays at micro-batch n and judges. */
MUST_CHECK enum err_code probe_judge(const struct probe *p, uint32_t n, struct verdict *ret);

/* 0 when not even one sequence fits. */
MUST_CHECK enum err_code probe_largest(const struct probe *p, uint32_t *ret);

/* Bytes that may be reserved, context taken off. */
uint64_t probe_budget(const struct plan_question *q);

/* Accumulation steps of micro-batch n: as asked, else what fills the global batch, else 1. */
uint32_t plan_accumulation(const struct plan_question *q, uint32_t n);

#endif
