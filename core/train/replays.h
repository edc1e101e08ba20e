/*
 * replays.h - a tape on the model of PyTorch's caching allocator, by how far the GPU lags behind the host. Included by core/train only.
 *
 * Units     bytes; a tape's capacity_bytes is the limit, 0: none.
 * Owner     the allocators are gone afterwards.
 */
#ifndef TRAIN_REPLAYS_H
#define TRAIN_REPLAYS_H

#include "meters/peak.h"
#include "train/measure.h"

/* What a replay leaves. */
struct played {
    bool ended; /* false: the device ran out of memory */
    struct peak peak;
    struct torch_alloc_stats stats;
};

/* What was played of one run under the allocator that was asked for; `timed` is `prompt` where it has no clock. */
struct play {
    uint32_t micro_batch_size, rank;
    bool prompt_known, timed_known;
    bool crossed;
    bool others_left; /* the ranks behind this one are not played */
    uint64_t loading_bytes, static_bytes, walk_peak_bytes; /* of its live blocks */
    struct played prompt, timed;
};

/* A place for it, or the one that it has; NULL: nobody keeps them, or there are too many. */
struct play *plays_of(struct plays *plays, uint32_t micro_batch_size, uint32_t rank);

/* A GPU that never lags. */
MUST_CHECK enum err_code replay_prompt(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct played *ret,
                                       struct err *err);
/* The same; where the limit is not enough, without. */
MUST_CHECK enum err_code replay_unlimited(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena,
                                          struct played *ret, struct err *err);
/* As the tape's clock tells; it may not end. */
MUST_CHECK enum err_code replay_timed(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct played *ret,
                                      struct err *err);
/* One that lags, always or as the tape's clock tells; what `prompt` says where no block crosses streams. Where it fills a limited device and waiting
 * for the streams does not help either, it is as full as it can be. */
MUST_CHECK enum err_code replay_behind(const struct tape *tape, const struct peak *walk, bool expandable, enum torch_lag lag,
                                       const struct played *prompt, struct arena *arena, struct played *ret, struct err *err);

#endif
