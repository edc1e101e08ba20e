#include "plan/rank.h"

static int standing(const struct plan_candidate *c)
{
    return !c->modelled ? 2 : !c->fits;
}

static int by_number(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int by_kind(const struct plan_candidate *a, const struct plan_candidate *b)
{
    return by_number((uint64_t)a->step.r.tuning, (uint64_t)b->step.r.tuning);
}

static int by_speed(const struct plan_candidate *a, const struct plan_candidate *b)
{
    int c = by_number(a->step.r.gradient_checkpointing, b->step.r.gradient_checkpointing);

    return c ? c : by_number(b->max_micro_batch_size, a->max_micro_batch_size);
}

static int compare(const struct plan_question *q, const struct plan_candidate *a, const struct plan_candidate *b)
{
    int c = by_number((uint64_t)standing(a), (uint64_t)standing(b));

    if (c || !a->modelled)
        return c;
    if (!q->axes[AXIS_TUNING].asked)
        c = by_kind(a, b);
    if (!c && q->objective == OBJECTIVE_LEAST_MEMORY)
        c = by_number(a->device_bytes, b->device_bytes);
    return c ? c : by_speed(a, b);
}

/* Insertion: stable, and there are few. */
void rank(const struct plan_question *q, struct plan_answer *answer)
{
    struct plan_candidate *v = answer->candidates;

    for (uint32_t i = 1; i < answer->n; i++) {
        struct plan_candidate moved = v[i];
        uint32_t at = i;

        for (; at && compare(q, &moved, &v[at - 1]) < 0; at--)
            v[at] = v[at - 1];
        v[at] = moved;
    }
}
