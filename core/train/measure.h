/*
 * measure.h - a resolved step in, its memory figures out.
 *
 * Purpose   train_walk()    runs the program of loading and two steps (DDP: three) and sums live storages: a lower bound, microseconds.
 *           train_measure() also replays the run on the model of PyTorch's caching allocator: what users read off torch.cuda.
 * Units     bytes, uint64_t.
 * Models    the rank with the highest peak. Where blocks cross streams, active and reserved lie between a GPU that never lags behind the host and one
 *           that always does; a run costs two more replays then. Allocated does not depend on it.
 *           Not modelled: CUDA context beyond device.context_bytes, variable lengths.
 * Errors    ERR_NOMEM when the arena is too small (64 MiB are enough for 200 layers; see plan/), ERR_FIELD_CONFLICT for an
 *           option the model cannot run. Not fitting is a result.
 * Threads   pure; one arena a thread.
 */
#ifndef TRAIN_MEASURE_H
#define TRAIN_MEASURE_H

#include "base/arena.h"
#include "base/err.h"
#include "meters/peak.h"
#include "stack/device.h"
#include "train/recipe.h"

#include <stdbool.h>
#include <stdint.h>

struct arch;
struct cost;       /* meters/cost.h */
struct timekeeper; /* meters/clock.h */

/* Live blocks at the peak that have the same op, category, phase and size; largest sum first. */
struct largest {
    const char *op;     /* "aten::mm" */
    enum category category;
    const char *phase;  /* the program's phase at birth, as the oracle names it: init, optimizer_init, batch, forward, loss, ... */
    char module[128];    /* path of the module of the oldest such block, "model.layers.0.mlp.gate_proj" */
    uint64_t bytes_each; /* rounded to the allocator's 512 B */
    uint32_t count;
};

enum { LARGEST_MAX = 32 };

struct measured {
    uint64_t walk_peak_bytes;    /* sum of live blocks rounded to 512 B: lower bound of peak_allocated_bytes */
    uint64_t peak_allocated_bytes, peak_reserved_bytes, peak_reserved_expandable_bytes; /* 0 after train_walk, except allocated = walk */
    uint64_t peak_allocated_expandable_bytes;
    bool crossed;                /* another stream reads blocks of this run: the lagging figures differ from the others */
    bool counts_evenly;          /* the program read how many tokens an expert has: each as many as any other */
    bool timed;                  /* and a timekeeper said how far the GPU lags; else the timed figures are those of one that never does */
    uint64_t peak_active_bytes, peak_active_expandable_bytes; /* GPU that never lags; after train_walk as allocated */
    uint64_t peak_active_timed_bytes, peak_active_timed_expandable_bytes, peak_reserved_timed_bytes, peak_reserved_timed_expandable_bytes;
    uint64_t peak_active_lagging_bytes, peak_active_lagging_expandable_bytes; /* GPU that always lags; after train_walk the first alone */
    uint64_t peak_reserved_lagging_bytes, peak_reserved_lagging_expandable_bytes; /* 0 after train_walk */
    uint64_t first_steps_peak_bytes; /* DDP: allocated, of the steps before the last, which the other peaks are of; 0: of all steps */
    uint64_t loading_bytes;          /* live blocks, the most before the first step */
    uint64_t static_bytes, resting_bytes;
    uint64_t phase_peaks_bytes[PHASE_COUNT];
    uint64_t breakdown_bytes[CATEGORY_COUNT]; /* sums to peak_allocated_bytes */
    enum phase peak_phase;
    uint32_t worst_rank;         /* whose figures these are: where ranks differ, the highest of those that may be; reserved bytes are the highest of any */
    uint32_t ranks_left;         /* that may be as high and were not played, since that is more work than one question has */
    uint64_t host_bytes, host_bytes_of_all; /* that offload keeps on the host between two steps: of that rank, of all */
    uint64_t max_slack_bytes;    /* largest sum of unsplit remainders at any moment of the replay */
    uint32_t births, deaths;     /* of the whole run */
    uint64_t parameters, trainable_parameters;
    uint32_t tensors;
    uint32_t n_largest;          /* 0 after a walk */
    struct largest largest[LARGEST_MAX];
};

/* bitsandbytes packs on the device, whoever cuts it later: loading has the device's limit too. Of other loads how much stands there at once is not played. */
bool train_loads_as_played(const struct step *step);

/* What a replay answers: where blocks cross streams, as the clocks tell. */
static inline uint64_t measured_reserved(const struct measured *m, bool expandable)
{
    if (m->timed)
        return expandable ? m->peak_reserved_timed_expandable_bytes : m->peak_reserved_timed_bytes;
    return expandable ? m->peak_reserved_expandable_bytes : m->peak_reserved_bytes;
}

/* Of a run whose ranks differ: the peaks of those that may be the highest, in their order; n 0: there is one, or too many. Who is known to be lower than
 * another need not be walked: `skip`, a bit each; its peak is 0 then. */
enum { RANKS_TOLD = 4 };
struct rank_peaks {
    uint32_t n, skip;
    uint64_t bytes[RANKS_TOLD];
};

/* Room for what models of few layers foretold (play.h), for as long as the arena is not rewound below it. Without it everything is the same, but slower. */
void train_runs_aside(struct arena *arena);

MUST_CHECK enum err_code train_walk(const struct arch *arch, const struct step *step, const struct device *device,
                                    struct arena *arena, struct measured *ret, struct err *err);
/* The same of one step whose optimizer states stand before it: near the walk, at half its price. For what is proposed, never for an answer; parameters are
 * not counted. `cost`: what
 * train_cost() would tell too, where the same run tells it (timing_is_foretold()): its log stays in `arena`; else without kernels. Where ranks do not do the
 * same, of the one that is likely the highest. NULL: nobody asks. */
MUST_CHECK enum err_code train_foretell(const struct arch *arch, const struct step *step, const struct device *device, struct rank_peaks *peaks,
                                        struct cost *cost, struct arena *arena, struct measured *ret, struct err *err);
/* train_walk() of ranks; `peaks` NULL: of all; `cost` as above, of the step's rank. */
MUST_CHECK enum err_code train_walk_ranks(const struct arch *arch, const struct step *step, const struct device *device, struct rank_peaks *peaks,
                                          struct cost *cost, struct arena *arena, struct measured *ret, struct err *err);
/* What is of one allocator (static, resting, phases, breakdown, largest, slack) is of the one that is asked for, and so is what a
 * GPU that always lags holds. `keeper`: whoever knows how long things take; NULL: nobody. */
MUST_CHECK enum err_code train_measure(const struct arch *arch, const struct step *step, const struct device *device,
                                       bool expandable_segments, const struct timekeeper *keeper, struct arena *arena, struct measured *ret,
                                       struct err *err);

/* What of a fit is wanted beside whether it does. `memory` leaves out what is not told of the allocator that nobody asked for where a clock tells what it
 * reserves: the figures of a GPU that never lags. Nothing; what is answered as reserved, and `memory` where that leaves room; `memory` of whatever fits. */
enum measuring { MEASURE_NOTHING, MEASURE_ROOMY, MEASURE_FITTING };

/* Replays of one step under one capacity, by micro-batch and rank: none is played twice. */
struct plays;
struct plays *train_plays_new(struct arena *arena); /* NULL: the arena is full */

struct fit_question {
    uint64_t capacity_bytes;
    bool expandable_segments;
    enum measuring measuring;
    uint64_t roomy_bytes;            /* of MEASURE_ROOMY: a run that needs no retry and is answered with no more leaves room */
    const struct timekeeper *keeper; /* NULL: nobody */
    struct plays *plays;             /* NULL: nobody keeps them */
    bool highest_alone;              /* of ranks only the highest as a rule, where the method knows it: for advice, never for an answer */
};

struct fit {
    bool fits;              /* false: even release-and-retry does not help */
    uint32_t retries;       /* how often cached segments had to be given back */
    uint64_t reserved_bytes; /* the highest under the allocator that was asked for, of a GPU that never lags; 0: it was not played */
    bool roomy;             /* of MEASURE_ROOMY: it leaves room on every rank; where it does not, `memory` is not known */
    struct measured walk;   /* as train_walk() has it */
    bool measured;          /* `memory` is known: what train_measure() says; with retries, what this run had, reserved within the capacity */
    struct measured memory;
};

/* What the allocator holds beside live blocks where nothing limits it, of a GPU that never lags; and the largest block of the steps: for one more of them it
 * may find no place. */
struct remainder {
    uint64_t held_bytes, largest_bytes;
};

MUST_CHECK enum err_code train_remainder(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                                         struct arena *arena, struct remainder *ret, struct err *err);

/* Replays the run on a GPU with `capacity_bytes` for the allocator, one that never lags (a full one waits for the streams before
 * it gives up, so one that lags retries sooner); not where the live blocks alone exceed it. Ranks behind the first that does not fit are
 * not played. One that always lags is measured within the capacity too: where it reaches it, it waits for the streams. Of the allocator
 * that was not asked for reserved is within the capacity only where that is enough for it. */
MUST_CHECK enum err_code train_fits(const struct arch *arch, const struct step *step, const struct device *device, const struct fit_question *q,
                                    struct arena *arena, struct fit *ret, struct err *err);

#endif
