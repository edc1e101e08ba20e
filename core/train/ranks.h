/*
 * ranks.h - which ranks' memory is played, and what is told of several. Included by core/train only.
 *
 * Rules     every figure is the highest of any rank that was played; worst_rank, phases and breakdown are of the one with the highest allocated peak.
 */
#ifndef TRAIN_RANKS_H
#define TRAIN_RANKS_H

#include "train/measure.h"

enum { RANKS_MAX = 16 };

struct ranks {
    uint32_t n, rank[RANKS_MAX];
};

/* Those that may have the highest peak, found in the declared model; `one`: the highest as a rule alone, where the method knows it. n is 0 on errors. */
MUST_CHECK enum err_code ranks_of(const struct arch *arch, const struct step *step, bool one, struct arena *arena, struct ranks *ret,
                                  struct err *err);
struct step of_rank(const struct step *step, uint32_t rank);
void ranks_take_higher(struct measured *worst, const struct measured *m, bool first);

#endif
