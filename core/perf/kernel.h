/*
 * kernel.h - seconds of one kernel on one GPU. Inside core/perf only.
 *
 * Products  the output is cut into tiles, a wave of them runs at a time, one tile a multiprocessor; a tile's rate grows with its size (it reads
 *           rows + columns for rows x columns products), thin ones are split along the inner dimension when that fills the GPU. The fastest of
 *           the tiles that cuBLAS has is taken; a product that has too little to compute for what it moves goes by memory.
 * Source    NVIDIA, "Matrix Multiplication Background User's Guide" (tile and wave quantisation, tile efficiency).
 */
#ifndef PERF_KERNEL_H
#define PERF_KERNEL_H

#include "perf/perf.h"

#include <math.h>

static inline double larger(double a, double b) /* no NaN comes here: fmax() would ask for it at each kernel */
{
    return a > b ? a : b;
}
static inline double smaller(double a, double b)
{
    return a < b ? a : b;
}
static inline uint32_t smaller_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What a GPU and the constants come to, computed once a step; shapes of products repeat from layer to layer: the last ones are kept. */
enum { SHAPES_KEPT = 64 };

struct rates {
    const double *constants;
    const struct perf_system *system;
    double products_per_s[DTYPE_COUNT], best_per_s[DTYPE_COUNT]; /* in training; the best single one */
    enum flash_kernel flash;
    double s_per_byte, cache_bytes, multiprocessors;
    double host;            /* what the host takes, of a desktop's */
    double cached_share;    /* of the time that a byte from memory takes, what one from the cache saves */
    struct shape {
        uint32_t rows, columns, inner, batch;
        uint8_t dtype;
        bool unaligned;
        double seconds;
    } kept[SHAPES_KEPT];
};

void rates_of(const double *constants, const struct cost *c, const struct perf_system *s, struct rates *ret);

double kernel_s(struct rates *r, const struct kernel *k);

/* attention.c. `causal_start`: a causal kernel as if so many keys were more, whose tiles the mask cuts. */
struct flash_rate {
    double flops_per_s, causal_start;
};
struct flash_rate flash_rate(const struct rates *r, enum flash_kernel kernel, enum dtype dtype, unsigned head_dim);

/* One message, by itself: a collective, a copy over the bus, the optimizer on the host. */
double message_s(const struct rates *r, const struct message *m);

#endif
