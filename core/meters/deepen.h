/*
 * deepen.h - the tape of a deep model from those of two shallow ones, a period of layers apart.
 *
 * Purpose   the tape of one period more is the same but for some stretches, each of which repeats the one before it: block numbers and modules rise by the
 *           same from layer to layer, and from depth to depth. So it goes on, as often as the depth asks.
 * Exact     or refused: a stretch has to repeat the two before it, event by event, at both depths; every death of what comes out has to be of a block that is
 *           alive and of the size that died there in the shallow tape. Whoever asks knows that nothing else depends on the depth: no bucket or window that
 *           fills over layers.
 * Owner     the arena.
 */
#ifndef METERS_DEEPEN_H
#define METERS_DEEPEN_H

#include "base/arena.h"
#include "meters/peak.h"
#include "torch/run.h"
#include "torch/work.h"

enum { TAPE_PLACES = 2 };

struct bare_tape {
    const struct birth *births;
    const uint32_t *events;
    uint32_t n_births, n_events, n_marks;
    uint32_t place[TAPE_PLACES]; /* positions among the events that somebody wants to know */
    const uint32_t *role;        /* by module number: alike for modules that do the same in layers of a kind */
    uint32_t n_roles;
};

/* `deeper` has a period more than `shallow`; *ret has `times` more than that. False: refused, or the arena is full. */
bool deepen(const struct bare_tape *shallow, const struct bare_tape *deeper, uint32_t times, struct arena *arena, struct bare_tape *ret);

/* The same of their logs, of kernels and messages; where in a tape they stood is not told. */
bool deepen_log(const struct work *shallow, const struct work *deeper, uint32_t times, struct arena *arena, struct work *ret);

/* The moments of that tape without it: what a walk would sum (peak.h), from position place[0] and, of peaks, from place[peaks] on. most_live, active_bytes and
 * peak_event are not told, nor is that every death is of a block that is alive. */
bool deepen_walk(const struct bare_tape *shallow, const struct bare_tape *deeper, uint32_t times, int peaks, struct arena *arena, struct peak *ret);

#endif
