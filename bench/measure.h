/*
 * measure.h - what the benchmarks measure with.
 *
 * Units     seconds of one core, which others on the machine do not lengthen; wall_s(): of the wall.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static inline double clock_s(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double wall_s(void)
{
    return clock_s(CLOCK_MONOTONIC);
}

/* Of this process. */
static inline double core_s(void)
{
    return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

static inline int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Sorts them. */
static inline double median(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return v[n / 2];
}

static inline uint64_t xorshift(uint64_t x)
{
    x ^= x << 13;
    x ^= x >> 7;
    return x ^ x << 17;
}

/* The loop that other machines can be compared by: a chain of xorshift steps, ns each. */
static inline double reference_ns(void)
{
    const long n = 50000000;
    volatile uint64_t sink;
    uint64_t x = 88172645463325252u;
    double begin = core_s();

    for (long i = 0; i < n; i++)
        x = xorshift(x);
    sink = x;
    (void)sink;
    return (core_s() - begin) * 1e9 / (double)n;
}

#endif
