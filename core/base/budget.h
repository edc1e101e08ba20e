/*
 * budget.h - how much work one request may cause, and the flag by which others end it.
 *
 * Purpose   whatever a request may ask more of than a machine should do counts its work here before it does it, and ends where that is refused.
 *           What was done until then is answered.
 * Event     a birth, a death or a mark of a tape that a run plays. What is done with a tape otherwise counts by what it takes: two events of one that is
 *           replayed on the allocator's model or laid out from runs of few layers are one, and sixteen of one that takes another size; what is known is
 *           nothing. Beside tapes: a kernel or message of a step's log, once for the step's time and once for each clock that follows it; a module that is
 *           declared; 512 bytes of a model that is put back as it was; a step of a program, and four calls of a forward that is asked again without it; an
 *           autograd node beyond the first 8,192 that a run holds, as four; four turns of a stage in a pipeline's schedule; eight steps of a
 *           pattern. Counts depend on the question alone: equal requests end at the same event.
 * Owner     the caller of api_answer(); whatever has the arena finds it there (arena.h). NULL: no limit.
 * Errors    ERR_BUDGET: the limit is passed. ERR_CANCELLED: nobody waits any more, or `passed` said so.
 * Threads   counted by one; *cancelled may be set by any.
 */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct budget {
    uint64_t events, limit_events; /* done so far; that may be done */
    const atomic_bool *cancelled;  /* NULL: nobody cancels */

    /* Called when `events` pass mark_events: it may set another mark. False: the work ends here. NULL: nobody wants to know. */
    bool (*passed)(struct budget *b);
    uint64_t mark_events;
    bool is_stopped;
};

/* Of a tape's events, as many as count as one that is played. Empirical: cycles an event in the questions of tests/data/worst.jsonl, played 200 to 850,
 * replayed 60 to 160, laid out 45 to 220, resized 8 to 35. */
enum { EVENTS_REPLAYED = 2, EVENTS_LAID_OUT = 2, EVENTS_RESIZED = 16 };

bool budget_count(struct budget *b, uint64_t events);
bool budget_is_over(const struct budget *b);
bool budget_is_cancelled(const struct budget *b); /* or stopped: what was done meanwhile may lack anything */

/* So many events are about to be done. False: they are not to be; budget_status() says why. */
static inline bool budget_spend(struct budget *b, uint64_t events)
{
    return !b || budget_count(b, events);
}

/* ERR_OK, or why work ends. */
enum err_code budget_status(const struct budget *b, struct err *err);
MUST_CHECK enum err_code budget_take(struct budget *b, uint64_t events, struct err *err); /* both */

#endif
