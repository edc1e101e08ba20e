#include "base/budget.h"

#include <stddef.h>

bool budget_is_cancelled(const struct budget *b)
{
    return b && (b->is_stopped || (b->cancelled && atomic_load_explicit(b->cancelled, memory_order_relaxed)));
}

bool budget_is_over(const struct budget *b)
{
    return b && (b->events > b->limit_events || budget_is_cancelled(b));
}

bool budget_count(struct budget *b, uint64_t events)
{
    b->events = events > UINT64_MAX - b->events ? UINT64_MAX : b->events + events;
    if (b->passed && b->events >= b->mark_events && !b->is_stopped)
        b->is_stopped = !b->passed(b);
    return !budget_is_over(b);
}

enum err_code budget_status(const struct budget *b, struct err *err)
{
    if (!b || !budget_is_over(b))
        return ERR_OK;
    if (budget_is_cancelled(b))
        return err_set(err, ERR_CANCELLED, "", "nobody waits for the answer any more");
    return err_set(err, ERR_BUDGET, "", "it takes more than the %llu events of work that are left to it", (unsigned long long)b->limit_events);
}

enum err_code budget_take(struct budget *b, uint64_t events, struct err *err)
{
    return budget_spend(b, events) ? ERR_OK : budget_status(b, err);
}
