/*
 * zero_scalars.h - tensors of one element and what becomes of them. Included by core/parallel/zero_*.c only.
 */
#ifndef PARALLEL_ZERO_ZERO_SCALARS_H
#define PARALLEL_ZERO_ZERO_SCALARS_H

#include "parallel/zero/zero_common.h"
#include "torch/work.h"

static inline void zero_die(struct run *r, int n, const val *all)
{
    for (int i = 0; i < n; i++)
        value_unref(r, all[i]);
}
#define DIE(r, ...) zero_die(r, (int)(sizeof((val[]){__VA_ARGS__}) / sizeof(val)), (const val[]){__VA_ARGS__})

/* A scalar made of another, which dies. */
static inline val zero_next(struct run *r, enum op op, enum dtype dtype, val old)
{
    val v = zero_scalar(r, op, dtype);

    value_unref(r, old);
    return v;
}

/* A kernel over all of `v`, so many bytes an element. */
static inline void zero_moved(struct run *r, enum op op, val v, unsigned bytes_each)
{
    work_add(r, op, 0, (uint64_t)numel(r, v) * bytes_each, 1);
}

val zero_is_finite(struct run *r, val x); /* torch.isfinite(x) */

#endif
