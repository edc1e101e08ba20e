/*
 * pace.h - how fast a candidate runs, and which of the micro-batches that fit is the fastest. Only plan/ includes this.
 *
 * Fastest   the largest that fits, or one of its halves while they are not slower: of equal speeds the smaller, which leaves memory free. One
 *           that leaves room for a twentieth of the GPU comes before one that does not and is less than a tenth faster.
 *           A micro-batch at which the allocator has to give cached segments back and try again every step is passed over where a
 *           smaller one need not: those calls stall the GPU, and step times know nothing of them. Models of few layers compare, the
 *           whole model's time is answered.
 */
#ifndef PLAN_PACE_H
#define PLAN_PACE_H

#include "plan/search.h"

/* Zero where the question has no system. */
MUST_CHECK enum err_code pace_at(const struct probe *p, uint32_t n, struct step_time *ret);

/* What pace_at() will say of it, by what a run for memory told. */
MUST_CHECK enum err_code pace_told(const struct probe *p, uint32_t n, const struct cost *cost);

/* The same from models of few layers, carried on to the whole depth in straight lines: for comparing, and for what does not fit. */
MUST_CHECK enum err_code pace_foresee(const struct probe *p, uint32_t n, struct step_time *ret);

/* The micro-batch among 1..f->n; 1 where nothing fits. Of a global batch only what divides a replica's share. */
MUST_CHECK enum err_code pace_fastest(const struct probe *p, const struct largest_fit *f, uint32_t *ret_n);

/* The same among 1..most, of which nothing was played: from models of few layers alone. */
MUST_CHECK enum err_code pace_foresee_fastest(const struct probe *p, uint32_t most, uint32_t *ret_n, struct step_time *ret);

/* Whether a smaller micro-batch that leaves room is worth a tight one's place, as models of few layers run them: rank.h says how much slower it may be. */
MUST_CHECK enum err_code pace_worth(const struct probe *p, uint32_t roomy, uint32_t tight, bool *ret);

/* n, or the next smaller that divides a replica's share of the global batch. */
uint32_t pace_allowed_below(const struct probe *p, uint32_t n);

#endif
