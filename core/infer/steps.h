/*
 * steps.h - the tokens of a generation that nobody played, on an allocator: a step repeats the births and deaths of another, sizes growing on a line.
 *           Included by core/infer only.
 *
 * Purpose   between two played steps that are alike each step is the first of them with sizes between theirs. A generation is a few such pieces: a kernel
 *           takes another path from some length on, a window is full.
 * Alike     the same births and deaths, one by one; what outlives a step grows by as many bytes each step. What dies in its own step may grow otherwise
 *           (scratch of attention, by how many parts it is cut in): it lies on the line too, off by little.
 * Errors    step_read(), steps_alike() say false.
 */
#ifndef INFER_STEPS_H
#define INFER_STEPS_H

#include "meters/peak.h"
#include "torch/alloc.h"

/* A played step: its part of a tape, and what that means. */
struct played_step {
    uint32_t number;        /* of its token behind the first: 1, 2, .. */
    uint32_t event, end;    /* events */
    uint32_t birth, n_births;
    uint32_t survivors;     /* births that outlive it */
    const uint32_t *rank;   /* of each birth among the survivors; NOT_LEFT */
    const uint32_t *died;   /* of each event that is the death of a survivor of the step before: its rank; of the one before that: with OF_OLDER */
};
enum { NOT_LEFT = UINT32_MAX };
static const uint32_t OF_OLDER = UINT32_C(1) << 31;

struct run_tape {
    const struct birth *births;
    const uint32_t *events;
};

/* Fills in what follows from the tape, `before` being the step that was played just before it, `older` the one before that; NULL: nothing of it dies here. */
bool step_read(const struct run_tape *t, const struct played_step *older, const struct played_step *before, struct played_step *s, struct arena *arena);
/* A step of which only what it leaves is asked. */
bool step_leaves(const struct run_tape *t, struct played_step *s, struct arena *arena);

bool steps_alike(const struct run_tape *t, const struct played_step *a, const struct played_step *b);

/* From one played step to another like it, both included; the pieces of a generation follow each other without a gap. */
struct piece {
    const struct played_step *from, *to;
};

uint64_t pieces_events(const struct piece *p, uint32_t n);

/*
 * Plays pieces on an allocator that stands where the step before the first piece has ended, whose survivors lie at left[0] by rank, those of the step before
 * it at left[1]; both are written over, with room for pieces_survivors(). Handles from `handle` on are free, pieces_handles() of them. *live: allocated,
 * before and after; *peak: highest of it. False: out of memory.
 */
bool pieces_play(const struct run_tape *t, const struct piece *p, uint32_t n, struct torch_alloc *a, uint32_t handle, uint32_t *const left[2], uint64_t *live,
                 uint64_t *peak);
uint32_t pieces_handles(const struct piece *p, uint32_t n);
uint32_t pieces_survivors(const struct piece *p, uint32_t n);

#endif
