/*
 * longest.h - the longest sequence that fits, for the objective of that name. Only plan/ includes this.
 *
 * Search    over whole multiples of 64 tokens up to what the model has positions for (1,048,576 where it has no limit): a shallow model
 *           brackets, replays decide, as for the micro-batch; the last few units may stay untried, then the answer is the longest that was played.
 */
#ifndef PLAN_LONGEST_H
#define PLAN_LONGEST_H

#include "plan/search.h"

/* The same by the shallow model alone. */
MUST_CHECK enum err_code longest_foreseen(const struct probe *p, uint32_t n, uint32_t *ret_tokens);

/* Of micro-batch n; 0: not even 64 tokens fit. */
MUST_CHECK enum err_code longest_sequence(const struct probe *p, uint32_t n, uint32_t *ret_tokens);

#endif
