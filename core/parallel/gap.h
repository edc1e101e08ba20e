/*
 * gap.h - degrees that no framework can run: what does not divide what.
 *
 * Purpose   one place that says why tensor_parallel x pipeline_parallel cannot be laid out over a model and its GPUs, for the planner's reason `indivisible`.
 * Errors    ERR_FIELD_CONFLICT at the degree's JSON Pointer, with a sentence; ERR_OK where it can.
 * Not told  what the frameworks offer beyond that: models/split.h and models/stage.h know the families.
 */
#ifndef PARALLEL_GAP_H
#define PARALLEL_GAP_H

#include "base/err.h"

#include <stdint.h>

/* Degrees left out are 1. */
struct parallel_shape {
    uint32_t gpus, tensor_parallel, pipeline_parallel;
    uint32_t heads, kv_heads, layers; /* heads 0: the plan leaves them whole */
};

MUST_CHECK enum err_code parallel_gap(const struct parallel_shape *s, struct err *err);

#endif
