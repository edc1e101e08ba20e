/*
 * advise.h - what advise.c and advise_stuck.c share: one trial of a change. Only plan/ includes this.
 */
#ifndef PLAN_ADVISE_H
#define PLAN_ADVISE_H

#include "plan/planning.h"

/* One trial: a question, a step of it, and what it comes to. */
struct trial {
    struct plan_question q;
    struct plan_candidate c;
    struct plan_choice method, offload;
    struct recipe recipe;
    bool ran, fits;     /* ran: a launcher starts it and a model runs it */
    bool names_targets; /* peft has no default for the type: all linear layers stand in */
    uint64_t peak_bytes;
    struct step_time time;
};

/* The first candidate's question and recipe, for the caller to change. */
struct trial trial_of(const struct planning *p, const struct plan_candidate *first);

/* Another tuning: what goes with it. Its word. */
const char *trial_tune(struct trial *t, enum tuning tuning);

/* Fits or not; what cannot be run, or started, does not. A broken budget ends the advice alone. */
MUST_CHECK enum err_code trial_run(struct planning *p, struct trial *t, uint32_t n);

/* One more piece of advice, where it fits and there is room. */
void trial_tell(struct planning *p, const struct plan_nearest *change, const struct trial *t, const struct plan_candidate *first);

/* What makes `to` of `from`. */
struct plan_nearest candidate_difference(const struct plan_candidate *from, const struct plan_candidate *to);

/* Fewer of the same GPUs, for the objective of that name: 2, 4, .. of a node, then nodes; the first that fits. One GPU is a candidate of its own. */
MUST_CHECK enum err_code advise_fewer(struct planning *p, const struct plan_candidate *first);

MUST_CHECK enum err_code advise_stuck(struct planning *p, const struct plan_candidate *first);

#endif
