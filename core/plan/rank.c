#include "plan/rank.h"

static const double TIE = 0.95;

static int standing(const struct plan_candidate *c)
{
    return !c->modelled ? 2 : !c->fits;
}

static int by_number(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* In the order in which they were to be tried. */
static int by_kind(const struct plan_candidate *a, const struct plan_candidate *b)
{
    return (a->choice[AXIS_TUNING] > b->choice[AXIS_TUNING]) - (a->choice[AXIS_TUNING] < b->choice[AXIS_TUNING]);
}

static int by_simplicity(const struct plan_candidate *a, const struct plan_candidate *b)
{
    int c = by_number((uint64_t)a->step.r.offload, (uint64_t)b->step.r.offload);

    if (!c)
        c = by_number(a->sync_each_batch, b->sync_each_batch);
    if (!c)
        c = by_number((uint64_t)a->step.r.method, (uint64_t)b->step.r.method);
    return c ? c : by_number(a->step.r.gradient_checkpointing, b->step.r.gradient_checkpointing);
}

bool rank_may_get_room(const struct plan_candidate *c)
{
    return c->fits && c->tight && c->basis == BASIS_REPLAYED && !c->room_tried;
}

/* A smaller micro-batch may be as good, until that was tried. */
static bool is_tight(const struct plan_candidate *c)
{
    return c->tight && !rank_may_get_room(c);
}

static double worth(const struct plan_candidate *c)
{
    return c->time.tokens_per_s * (c->fits && is_tight(c) ? RANK_TIGHT_IS_WORTH : 1);
}

static int by_speed(const struct plan_candidate *a, const struct plan_candidate *b)
{
    int c = (worth(a) < worth(b)) - (worth(a) > worth(b));

    if (!c)
        c = by_simplicity(a, b);
    return c ? c : by_number(b->max_micro_batch_size, a->max_micro_batch_size);
}

static uint64_t gpus_of(const struct plan_candidate *c)
{
    return (uint64_t)c->step.r.data_parallel * c->step.r.tensor_parallel * c->step.r.pipeline_parallel;
}

static int by_objective(enum objective objective, const struct plan_candidate *a, const struct plan_candidate *b)
{
    switch (objective) {
    case OBJECTIVE_LEAST_MEMORY:
        return by_number(a->high_bytes, b->high_bytes);
    case OBJECTIVE_FEWEST_GPUS:
        return by_number(gpus_of(a), gpus_of(b));
    case OBJECTIVE_LONGEST_SEQUENCE:
        return by_number(b->max_seq_len_tokens, a->max_seq_len_tokens);
    default:
        return 0;
    }
}

/* What is decided before speed is. */
static int by_group(const struct plan_question *q, const struct plan_candidate *a, const struct plan_candidate *b)
{
    int c = by_number((uint64_t)standing(a), (uint64_t)standing(b));

    if (c || !a->modelled)
        return c;
    c = a->launchable == b->launchable ? 0 : a->launchable ? -1 : 1;
    if (c)
        return c;
    if (!q->axes[AXIS_TUNING].asked)
        c = by_kind(a, b);
    return c ? c : by_objective(q->objective, a, b);
}

static int compare(const struct plan_question *q, const struct plan_candidate *a, const struct plan_candidate *b)
{
    int c = by_group(q, a, b);

    return c || !a->modelled ? c : by_speed(a, b);
}

static void move_up(struct plan_candidate *v, uint32_t from, uint32_t to)
{
    struct plan_candidate moved = v[from];

    for (; from > to; from--)
        v[from] = v[from - 1];
    v[to] = moved;
}

/* The simplest of those that are as fast as the first. */
static void settle_ties(const struct plan_question *q, struct plan_answer *answer)
{
    struct plan_candidate *v = answer->candidates;
    uint32_t best = 0;

    for (uint32_t i = 1; i < answer->n && v[i].modelled && !by_group(q, v, &v[i]) && worth(&v[i]) >= TIE * worth(v); i++)
        if ((is_tight(v) || !is_tight(&v[i])) && by_simplicity(&v[i], &v[best]) < 0)
            best = i;
    move_up(v, best, 0);
}

/* Insertion: stable, and there are few. */
void rank_candidates(const struct plan_question *q, struct plan_answer *answer)
{
    struct plan_candidate *v = answer->candidates;

    for (uint32_t i = 1; i < answer->n; i++) {
        uint32_t at = i;

        while (at && compare(q, &v[i], &v[at - 1]) < 0)
            at--;
        move_up(v, i, at);
    }
    if (answer->n)
        settle_ties(q, answer);
}

void rank_order(const struct plan_question *q, const struct plan_answer *answer, uint32_t *ret)
{
    for (uint32_t i = 0; i < answer->n; i++) {
        uint32_t at = i;

        for (; at && compare(q, &answer->candidates[i], &answer->candidates[ret[at - 1]]) < 0; at--)
            ret[at] = ret[at - 1];
        ret[at] = i;
    }
}

static bool beats(const struct plan_candidate *a, const struct plan_candidate *b)
{
    return a->modelled && a->fits && a->high_bytes <= b->low_bytes && a->host_bytes_per_node <= b->host_bytes_per_node &&
           a->time.tokens_per_s >= b->time.tokens_per_s && a->step.r.tuning == b->step.r.tuning &&
           a->step.r.micro_batch_size >= b->step.r.micro_batch_size;
}

void find_dominated(struct plan_answer *answer)
{
    for (uint32_t i = 0; i < answer->n; i++)
        for (uint32_t k = 0; k < answer->n && answer->candidates[i].modelled; k++)
            answer->candidates[i].dominated |= k != i && beats(&answer->candidates[k], &answer->candidates[i]);
}
