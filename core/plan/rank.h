/*
 * rank.h - the order of candidates: what fits, what a launcher starts, the kind of tuning when nobody asked, the objective. Only plan/ includes this.
 *
 * Speed     tokens a second of the whole job; one that leaves room comes before one that is tight and less than a tenth faster. Of what is within 5 % of
 *           the fastest the simplest comes first: no offload, then without sync_each_batch, then the earlier
 *           row of parallel/methods.def, then no recomputation; step times are not known better than that. Without step times: the larger
 *           micro-batch.
 */
#ifndef PLAN_RANK_H
#define PLAN_RANK_H

#include "plan/plan.h"

/* What the speed of a tight candidate counts for. */
#define RANK_TIGHT_IS_WORTH 0.9

void rank_candidates(const struct plan_question *q, struct plan_answer *answer);

/* The same order as indices, of all n; nothing moves. */
void rank_order(const struct plan_question *q, const struct plan_answer *answer, uint32_t *ret);

/* A tight candidate of which nobody knows yet whether a smaller micro-batch leaves room: it counts as if one did until it stands first. */
bool rank_may_get_room(const struct plan_candidate *c);

/* Marks who is beaten in memory and speed by another that fits. */
void find_dominated(struct plan_answer *answer);

#endif
