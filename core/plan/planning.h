/*
 * planning.h - one question on its way to an answer: what plan.c, candidate.c and explain.c share. Only plan/ includes this.
 */
#ifndef PLAN_PLANNING_H
#define PLAN_PLANNING_H

#include "plan/plan.h"
#include "plan/search.h"

struct planning {
    const struct plan_question *q;
    struct arena *keep, *scratch;
    struct plan_answer *answer;
    uint32_t measured, conflicts;
    struct err *err;
};

static inline enum err_code no_room(struct planning *p)
{
    return err_set(p->err, ERR_NOMEM, "", "no room for the candidates");
}

/* Resolves a candidate, chooses its micro-batch and time, and looks whether it fits: bounded, or open (BASIS_NONE) where it fits. What
 * contradicts itself in one combination of several, or has no model, is set aside with its reason. */
MUST_CHECK enum err_code candidate_judge(struct planning *p, struct plan_candidate *c);

/* Its figures from a replay; from live blocks, or a replay where they do not settle it. */
MUST_CHECK enum err_code candidate_replay(struct planning *p, struct plan_candidate *c);
MUST_CHECK enum err_code candidate_bound(struct planning *p, struct plan_candidate *c);

/* The recipe of a candidate: what is fixed and what its choices say. */
struct recipe recipe_of(const struct plan_question *q, const struct plan_candidate *c);

/* Peak allocated under the allocator that was asked for; after a walk the live blocks. */
uint64_t peak_of(const struct plan_question *q, const struct plan_candidate *c);

/* Why a modelled candidate does not fit, and the nearest change that does. */
MUST_CHECK enum err_code explain(struct planning *p, struct plan_candidate *c);

#endif
