/*
 * play.h - the one door into a run: a step played, or its tape made of what was played before. Included by core/train only.
 *
 * Laid out  a deep run is made from two shallow ones, a period of layers apart (meters/deepen.h), where nothing fills over layers; what that refuses is
 *           played in full.
 *           So is the log of what a step costs (LOOK_COSTS), without its tape; where a tape of that step was laid out for replays, its log came with it.
 * Kept      a deep run's tape stays in the arena (arena_keep()), one for each rank. Asked for at another batch or length, it is resized
 *           (meters/resize.h) by models of a few layers, whose own walks cost a tenth of it; what that refuses is played in full and kept in its place.
 * Few       what foretells a deep model is two models of few layers, at each batch that a search looks at. Of the second batch on the deeper of them is the one
 *           it was, resized by the shallower (meters/resize.h), where train_runs_aside() made room for both.
 * Budget    a tape counts by the way it comes to be: base/budget.h.
 * Owner     the arena. What train_play() leaves lives until it is called again or the arena is rewound below arena_kept().
 */
#ifndef TRAIN_PLAY_H
#define TRAIN_PLAY_H

#include "meters/peak.h"
#include "train/trainer.h"

/* What a run is for: whose replay needs the history of blocks, or only what is alive, or only nearly that; or the log alone, of what its last step gives the
 * GPU to do, which needs fewer steps. */
enum look { LOOK_REPLAY, LOOK_WALK, LOOK_FORETELL, LOOK_COSTS };

struct play_question {
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
    enum { TAPE_PLAYED, TAPE_LAID_OUT, TAPE_RESIZED, TAPE_TOLD } made; /* in full; from two depths; from what was kept; a log that came with a tape */
};

MUST_CHECK enum err_code train_play(const struct play_question *q, struct arena *arena, struct taped *ret, struct err *err);

/* To `begin`, which lies before it in the arena; returns where it ends. */
unsigned char *play_move_log(struct work *log, unsigned char *begin);

/* The highest moments of a deep run, from two of few layers, a period apart, where nothing but repeated layers lies between: what peak_walk() would
 * tell of it (meters/deepen.h). False: refused, and `arena` is as it was. `costs`, of a question with a log: what timing_read() wants of the deep run, laid out
 * in `arena`; NULL where that is refused. */
bool train_play_two(const struct play_question *q, struct arena *arena, struct peak *ret, const struct trainer **costs);

#endif
