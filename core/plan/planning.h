/*
 * planning.h - one question on its way to an answer: what plan.c and explain.c share. Only plan/ includes this.
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

/* The recipe of a candidate: what is fixed and what its choices say. */
struct recipe recipe_of(const struct plan_question *q, const struct plan_candidate *c);

/* Peak allocated under the allocator that was asked for; after a walk the live blocks. */
uint64_t peak_of(const struct plan_question *q, const struct plan_candidate *c);

/* Why a modelled candidate does not fit, and the nearest change that does. */
MUST_CHECK enum err_code explain(struct planning *p, struct plan_candidate *c);

#endif
