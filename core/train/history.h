/*
 * history.h - one rank's run on the allocator's model, told event by event: for timelines and snapshots.
 *
 * Purpose   whoever wants more of a run than its figures is told each block that is born or dies, with its address and size, and each segment.
 *           The highest `allocated_bytes` from peaks_begin on is train_measure()'s peak_allocated_bytes under the same allocator.
 * Models    a GPU that never lags behind the host.
 * Errors    those of train_measure().
 * Owner     the arena; nothing stays. Callbacks may use it above where they found it, and have to leave it so.
 */
#ifndef TRAIN_HISTORY_H
#define TRAIN_HISTORY_H

#include "train/measure.h"

struct tree;

/* What is told before the first event. */
struct history {
    const struct tree *tree; /* of modules */
    uint32_t n_births, n_events;
    uint32_t steps_begin, peaks_begin, last_begins; /* events: loading ends; peaks are taken; the last step begins */
};

struct history_event {
    enum { HISTORY_BORN, HISTORY_DIED, HISTORY_SEGMENT, HISTORY_SEGMENT_GONE } kind;
    uint32_t at;               /* event of the tape */
    uint32_t block;            /* number of its birth; of a segment: of the one that is about to be born */
    const struct birth *birth; /* of a block; NULL of a segment */
    enum phase phase;          /* in which the block was born */
    enum category category;
    uint64_t address, bytes, asked_bytes;
    unsigned stream;
    bool small;
    uint64_t allocated_bytes, reserved_bytes; /* afterwards */
};

struct torch_block; /* torch/alloc.h */

struct history_reader {
    void *of;
    bool (*begin)(void *of, const struct history *h); /* false: no room */
    bool (*event)(void *of, const struct history_event *e);
    void (*left)(void *of, const struct torch_block *b, uint32_t block); /* at the end, segment by segment; NULL: nobody wants to know */
};

enum { HISTORY_NOBODY = UINT32_MAX }; /* `block` of one that is cached */

/* step->r.rank is played. capacity_bytes: what the allocator is granted; 0: no limit. */
MUST_CHECK enum err_code train_history(const struct arch *arch, const struct step *step, const struct device *device,
                                       uint64_t capacity_bytes, bool expandable_segments, const struct history_reader *reader,
                                       struct arena *arena, struct err *err);

#endif
