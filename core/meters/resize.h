/*
 * resize.h - the tape and the log of a deep run at another batch or length, from those it had and from shallow models at both.
 *
 * Purpose   layers of a kind do alike, and a batch or a length changes sizes alone, as long as no operator takes another path. So a model of few layers,
 *           played at both, shows what becomes of each size: blocks of the same operator, node, stage, stream and mark, of modules of the same role, of
 *           the same place among their like and of the same size at first have the same size then. Kernels likewise.
 * Exact     or refused: where the shallow runs are not the same event by event, where two that were alike differ then, or where a deep run has what no
 *           shallow one has and what might depend on the batch.
 * Owner     the arenas that are handed in. Rows of the deep run are changed in place.
 */
#ifndef METERS_RESIZE_H
#define METERS_RESIZE_H

#include "base/arena.h"
#include "torch/run.h"
#include "torch/work.h"

/* A run's rows. role: by module number, alike for modules that do the same in layers of a kind. */
struct rows_of_run {
    struct birth *births;
    const uint32_t *events;
    uint32_t n_births, n_events;
    const struct work *log; /* NULL: none */
    const uint32_t *role;
    uint32_t n_roles;
};

/* Distinct keys, numbered as they came; as many as there is room for. */
struct keys {
    uint32_t n, most, mask;
    uint64_t *key;
    uint32_t *slot; /* of open addressing: 1 + a number */
};

/* Rows that are alike, as they are at first. */
struct classes {
    struct keys keys, wider, kinds; /* of rows; without their place among their like; without their size either */
    uint32_t *of;            /* by row of the deep run: its class, which is the number of its key */
    uint32_t *wider_of, *kind; /* by class */
    bool *fixed;             /* by class: the same at every batch, where no shallow run shows it either */
    uint32_t *of_shallow, *wider_of_shallow, *kind_of_shallow; /* by row of the shallow run, or RESIZE_UNLIKE */
};
#define RESIZE_UNLIKE UINT32_MAX

struct resizing {
    struct rows_of_run deep, shallow; /* both as they are at first; of the shallow one nothing may change any more */
    struct classes births, kernels, messages;
};

/* False: the arena is full, or there are more kinds of blocks than in any model that repeats its layers. */
bool resize_prepare(const struct rows_of_run *deep, const struct rows_of_run *shallow, struct arena *arena, struct resizing *ret);

/* `then`: the shallow run at the batch or length that is wanted. False: refused; the deep run is as it was, or as it was resized to last. */
bool resize(struct resizing *z, const struct rows_of_run *then, struct arena *scratch);

#endif
