/*
 * peak.h - the meter of a run's tape: phase peaks, what is alive at the peak, the largest storages.
 *
 * Purpose   reads births and deaths; with an allocator model it reads block sizes from there, else each birth counts rounded
 *           to 512 B (the walk: a lower bound).
 * Phases    api.md: batch, forward, loss, loss_backward (nodes born in loss), backward, clip, optimizer, between. A phase's
 *           peak is the highest allocated at an allocation made in it. Loading comes before: no peak is taken there.
 * Streams   a block that another stream reads and that is dead is not allocated, but active until that stream is past it. A GPU
 *           that never lags is past it at the next birth: active peaks where allocated does. One that always lags is past it
 *           when the host waits (EVENT_SYNC, EVENT_WAIT): the upper end, on which peaks of `allocated` do not depend. Between them a replay with a
 *           clock (clock.h).
 * Source    categories as the oracle's report.py tells them; streams: alloc.h.
 */
#ifndef METERS_PEAK_H
#define METERS_PEAK_H

#include "base/arena.h"
#include "base/err.h"
#include "torch/alloc.h"
#include "torch/run.h"

enum phase { /* of api.md, in the order in which a step passes them */
    PHASE_INIT,
    PHASE_BATCH,
    PHASE_FORWARD,
    PHASE_LOSS,
    PHASE_LOSS_BACKWARD,
    PHASE_BACKWARD,
    PHASE_CLIP,
    PHASE_OPTIMIZER,
    PHASE_BETWEEN,
    PHASE_PREFILL, /* of a generation */
    PHASE_DECODE,
    PHASE_COUNT,
    PHASES_OF_A_STEP = PHASE_PREFILL
};

enum category {
    CATEGORY_PARAMETERS,
    CATEGORY_GRADIENTS,
    CATEGORY_OPTIMIZER_STATES,
    CATEGORY_ACTIVATIONS,
    CATEGORY_LOGITS_AND_LOSS,
    CATEGORY_COMMUNICATION,
    CATEGORY_TEMPORARIES,
    CATEGORY_WORKSPACES,
    CATEGORY_BUFFERS,
    CATEGORY_INPUTS,
    CATEGORY_BLOCK_SLACK,
    CATEGORY_KV_CACHE, /* of a generation */
    CATEGORY_COUNT,
    CATEGORIES_OF_A_STEP = CATEGORY_KV_CACHE
};

const char *phase_name(enum phase phase);          /* "loss_backward" */
const char *category_name(enum category category); /* "logits_and_loss" */
const char *stage_name(enum stage stage);          /* "zero_grad" */

struct tape_clock; /* clock.h */

struct tape {
    const struct birth *births;
    const uint32_t *events;
    uint32_t n_births, n_events;
    uint32_t steps_begin; /* events before it are loading */
    uint32_t peaks_begin; /* first event of the steps whose peaks are taken: steps_begin, or later where the first steps differ */
    uint32_t head_module;
    struct tape_clock *clock; /* of a replay on a GPU whose pace is known, from event clock_begins on; NULL: none */
    uint32_t clock_begins;
    struct budget *budget;   /* what replays are counted in; NULL: none */
    bool addresses_fall;     /* of a replay: torch/alloc.h */
    uint64_t capacity_bytes; /* of a replay: what the device grants the steps; 0: no limit */
    bool limits_loading;     /* and loading, where how much of the model stands there at once is played */
};

struct peak {
    uint64_t peak_bytes;       /* allocated; from peaks_begin on */
    uint32_t peak_event;
    enum phase peak_phase;
    uint64_t phase_bytes[PHASE_COUNT];
    uint64_t loading_bytes;    /* highest before the steps begin */
    uint64_t static_bytes, resting_bytes; /* when the steps begin; when the tape ends */
    uint64_t first_bytes;      /* highest of the steps before peaks_begin; 0: there are none */
    uint64_t active_bytes;     /* highest from peaks_begin on; of a walk: on a GPU that always lags; of a replay: as the allocator's */
    bool crossed;              /* blocks that another stream reads stand on the tape */
    uint32_t most_live;        /* blocks; of a walk: active ones on a GPU that always lags */
};

enum phase phase_of(const struct birth *b);
enum category category_of(const struct tape *t, const struct birth *b);

/* Sums live births rounded to 512 B. */
void peak_walk(const struct tape *t, struct peak *ret);

/* Plays the tape on `alloc`, empty so far, whatever its lag (TORCH_LAG_TIMED: where the tape has a clock); its handles are birth numbers. False when
 * the device ran out of memory, or the budget is over. */
bool peak_replay(const struct tape *t, struct torch_alloc *alloc, struct peak *ret);

/* Live blocks of one op, category, stage and size at the peak. */
struct alike {
    uint16_t op;
    uint8_t category, stage;
    uint32_t first;            /* the oldest such birth */
    uint32_t count;
    uint64_t bytes_each;
};

/* What is alive at p->peak_event: sums by category (block_slack is what remains of the peak), the largest groups by sum. */
MUST_CHECK enum err_code peak_describe(const struct tape *t, const struct peak *p, struct arena *scratch,
                                       uint64_t breakdown[CATEGORY_COUNT], uint32_t max_groups, struct alike *groups,
                                       uint32_t *ret_groups, struct err *err);

#endif
