/*
 * memo.h - what models of few layers were once asked of a question, a step's time, and whether a change fits: asked again, it is not played again. Only plan/
 *          includes this.
 *
 * Key       all that a play reads: model, step, device; for a time the system too, for whether it fits what may be reserved. Two hashes of 64 bits.
 * Costs     what a step gives the GPU to do, told by the run that foretold its memory: the last of them, as many as there is room for.
 * Owner     the arena; the last MEMO_ROWS are kept.
 */
#ifndef PLAN_MEMO_H
#define PLAN_MEMO_H

#include "meters/cost.h"
#include "plan/plan.h"

#include <stddef.h>

struct memo;

struct memo_key {
    uint64_t a, b;
};

struct memo_row {
    union {
        struct {
            uint64_t foretold[(offsetof(struct measured, largest) + 7) / 8]; /* what a walk has of struct measured */
            struct rank_peaks peaks;
        } walk;
        struct step_time time;
        bool fits;
    } is;
};

/* NULL: no room; then nothing is kept. */
struct memo *memo_new(struct arena *arena);

/* `more`: what else it depends on. */
struct memo_key memo_key(const struct arch *arch, const struct step *step, const struct device *device, const void *more, size_t bytes);
const struct memo_row *memo_find(const struct memo *m, const struct memo_key *key); /* NULL: it is not known */
struct memo_row *memo_add(struct memo *m, const struct memo_key *key);              /* to be written; NULL without a memo */

/* A copy, with all that it points to. */
void memo_keep_cost(struct memo *m, const struct memo_key *key, const struct cost *cost);
/* The same for as long as none is kept. False: it is not known. */
bool memo_find_cost(const struct memo *m, const struct memo_key *key, struct cost *ret);

#endif
