/*
 * rank.h - the order of candidates: what fits, the kind of tuning when nobody asked, the objective. Only plan.c includes this.
 *
 * Until step times are modelled "fastest" is: no recomputation before recomputation, then the larger micro-batch.
 */
#ifndef PLAN_RANK_H
#define PLAN_RANK_H

#include "plan/plan.h"

void rank(const struct plan_question *q, struct plan_answer *answer);

#endif
