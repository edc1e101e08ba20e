#include "plan/plan.h"

#include "plan/planning.h"
#include "plan/rank.h"

#include <stdio.h>
#include <string.h>

/* Member of /training and how a sentence names it. */
static const char *const axis_members[AXIS_COUNT] = {
    [AXIS_METHOD] = "methods",       [AXIS_TUNING] = "tuning",       [AXIS_OFFLOAD] = "offload",
    [AXIS_PRECISION] = "precision",  [AXIS_OPTIMIZER] = "optimizer", [AXIS_ATTENTION] = "attention",
    [AXIS_LOSS] = "loss",            [AXIS_CHECKPOINTING] = "gradient_checkpointing",
};

/* The first thing of a candidate that has no model, as a sentence; NULL when all of it has. */
static const char *gap_of(struct planning *p, const struct plan_candidate *c)
{
    char text[160];

    if (p->q->gap)
        return p->q->gap;
    for (int a = 0; a < AXIS_COUNT; a++)
        if (c->choice[a]->value == PLAN_UNMODELLED) {
            int n = snprintf(text, sizeof text, "%s %.80s is not modelled yet", a == AXIS_METHOD ? "method" : axis_members[a],
                             c->choice[a]->name);

            return arena_str(p->keep, text, (size_t)n);
        }
    return NULL;
}

/* A candidate without a model is named once, not once for each value that was nobody's wish. */
static bool is_variation(const struct planning *p, const struct plan_candidate *c)
{
    for (int a = 0; a < AXIS_COUNT; a++) {
        bool kind = a == AXIS_TUNING && c->choice[AXIS_METHOD]->value != PLAN_UNMODELLED;

        if (!p->q->axes[a].asked && !kind && a != AXIS_METHOD && c->choice[a] != p->q->axes[a].choices)
            return true;
    }
    return false;
}

static enum err_code add(struct planning *p, const uint32_t *at)
{
    struct plan_answer *answer = p->answer;
    struct plan_candidate *c = &answer->candidates[answer->n];
    const char *gap;
    enum err_code rc = ERR_OK;

    memset(c, 0, sizeof *c);
    for (int a = 0; a < AXIS_COUNT; a++)
        c->choice[a] = &p->q->axes[a].choices[at[a]];
    gap = gap_of(p, c);
    if (gap && is_variation(p, c))
        return ERR_OK;
    if (answer->n == PLAN_MAX_CANDIDATES)
        return err_set(p->err, ERR_FIELD_RANGE, "/training", "the lists ask for more than %d candidates: name fewer",
                       (int)PLAN_MAX_CANDIDATES);
    if (gap)
        c->reason = (struct plan_reason){.code = "not-modelled", .detail = gap};
    else
        rc = candidate_judge(p, c);
    if (rc)
        return rc;
    answer->any_fits |= c->modelled && c->fits;
    answer->any_modelled |= c->modelled;
    answer->n++;
    return ERR_OK;
}

/* Counts `at` up within the axes; the tuning stays when it is tried kind by kind. */
static bool next(const struct plan_question *q, uint32_t *at, bool tuning_stays)
{
    for (int a = AXIS_COUNT - 1; a >= 0; a--) {
        if (a == AXIS_TUNING && tuning_stays)
            continue;
        if (++at[a] < q->axes[a].n)
            return true;
        at[a] = 0;
    }
    return false;
}

static enum err_code enumerate(struct planning *p)
{
    bool staged = !p->q->axes[AXIS_TUNING].asked;
    const struct plan_answer *so_far = p->answer;
    uint32_t at[AXIS_COUNT] = {0};
    enum err_code rc = ERR_OK;

    do {
        do
            rc = add(p, at);
        while (!rc && next(p->q, at, staged));
    } while (!rc && staged && so_far->any_modelled && !so_far->any_fits && ++at[AXIS_TUNING] < p->q->axes[AXIS_TUNING].n);
    return rc;
}

/* A row more than the limit, which add() fills before it knows that there is one too many. */
static struct plan_candidate *room_for_candidates(const struct plan_question *q, struct arena *keep)
{
    uint64_t n = 1;

    for (int a = 0; a < AXIS_COUNT; a++)
        if (n <= PLAN_MAX_CANDIDATES)
            n *= q->axes[a].n;
    if (n > PLAN_MAX_CANDIDATES)
        n = PLAN_MAX_CANDIDATES;
    return arena_array(keep, struct plan_candidate, (size_t)n + 1);
}

/* --- the whole ------------------------------------------------------------------------------------------------------------------ */

/* `all` by replays, or those that are open by their live blocks. */
static enum err_code look_at(struct planning *p, bool all)
{
    enum err_code rc = ERR_OK;

    for (uint32_t i = 0; !rc && i < p->answer->n; i++) {
        struct plan_candidate *c = &p->answer->candidates[i];

        if (c->modelled && (all ? c->basis != BASIS_REPLAYED : c->basis == BASIS_NONE))
            rc = all ? candidate_replay(p, c) : candidate_bound(p, c);
    }
    return rc;
}

/* The recommendation is played before it is named; if it fails, the next is tried. */
static enum err_code settle(struct planning *p)
{
    struct plan_candidate *first = p->answer->candidates;
    enum err_code rc = p->answer->n <= PLAN_REPLAY_ALL ? look_at(p, true) : ERR_OK;

    rank(p->q, p->answer);
    while (!rc && p->answer->n && first->modelled && first->fits && first->basis != BASIS_REPLAYED) {
        rc = candidate_replay(p, first);
        rank(p->q, p->answer);
    }
    if (!rc)
        rc = look_at(p, false);
    p->answer->any_fits = p->answer->n && first->modelled && first->fits;
    return rc;
}

enum err_code plan_answer(const struct plan_question *q, struct arena *keep, struct arena *scratch, struct plan_answer *ret,
                          struct err *err)
{
    struct plan_answer answer = {.candidates = room_for_candidates(q, keep)};
    struct planning p = {.q = q, .keep = keep, .scratch = scratch, .answer = &answer, .err = err};
    enum err_code rc;

    if (!answer.candidates)
        return no_room(&p);
    rc = enumerate(&p);
    if (!rc && answer.n && p.conflicts == answer.n)
        rc = ERR_FIELD_CONFLICT; /* as train_resolve() said it last */
    if (!rc)
        rc = settle(&p);
    for (uint32_t i = 0; !rc && i < answer.n; i++)
        if (answer.candidates[i].modelled && !answer.candidates[i].fits)
            rc = explain(&p, &answer.candidates[i]);
    if (!rc)
        *ret = answer;
    return rc;
}
