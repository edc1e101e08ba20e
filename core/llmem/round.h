/*
 * round.h - the estimator's arithmetic: bytes in steps of cu_p, and products that stay at the largest number instead of wrapping.
 *
 * Source    cu_p = 2 MiB, the allocator's small segment: the paper; base_size in size_estimator.py.
 */
#ifndef LLMEM_ROUND_H
#define LLMEM_ROUND_H

#include "base/size.h"

enum { CU_P = 2 << 20 };

static inline uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = UINT64_MAX;

    return size_mul(a, b, &product) ? product : UINT64_MAX;
}

static inline uint64_t plus(uint64_t a, uint64_t b)
{
    uint64_t sum = UINT64_MAX;

    return size_add(a, b, &sum) ? sum : UINT64_MAX;
}

static inline uint64_t divide_up(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

/* ceil(bytes / cu_p) * cu_p */
static inline uint64_t paged(uint64_t bytes)
{
    return times(divide_up(bytes, CU_P), CU_P);
}

/* The same of `share` parts out of `of`. */
static inline uint64_t paged_share(uint64_t bytes, uint64_t share, uint64_t of)
{
    return paged(divide_up(times(bytes, share), of));
}

#endif
