/*
 * taped.h - the one door to the tape of a step: played, or made of what was played before. Included by core/train only.
 *
 * Laid out  a deep run is made from two shallow ones, a period of layers apart (meters/deepen.h), where nothing fills over layers; what that refuses is
 *           played in full.
 * Kept      a deep run's tape stays in the arena (arena_keep()), one for each rank. Asked for at another batch or length, it is resized
 *           (meters/resize.h) by models of a few layers, whose own walks cost a tenth of it; what that refuses is played in full and kept in its place.
 * Budget    a tape counts the same, whichever way it comes to be.
 * Owner     the arena. What taped() leaves lives until it is called again or the arena is rewound below taped_kept().
 */
#ifndef TRAIN_TAPED_H
#define TRAIN_TAPED_H

#include "meters/peak.h"
#include "train/trainer.h"

/* What a run is for: whose replay needs the history of blocks, or only what is alive, or only nearly that. */
enum look { LOOK_REPLAY, LOOK_WALK, LOOK_FORETELL };

struct tape_question {
    const struct arch *arch;
    const struct step *step;
    const struct device *device;
    enum look look;
    bool logged;             /* with the log of the last step */
    bool in_full;            /* played, whatever it could be made of */
};

struct taped {
    const struct trainer *t; /* its tree and its log; of its run, what the tape has */
    struct tape tape;
    uint64_t host_bytes, host_bytes_of_all; /* that offload keeps on the host */
    enum { TAPE_PLAYED, TAPE_LAID_OUT, TAPE_RESIZED } made; /* in full; from two depths; from what was kept */
};

MUST_CHECK enum err_code taped(const struct tape_question *q, struct arena *arena, struct taped *ret, struct err *err);

/* How far an arena that had `mark` before may be rewound without losing what was kept since. */
unsigned char *taped_kept(const struct arena *arena, unsigned char *mark);

#endif
