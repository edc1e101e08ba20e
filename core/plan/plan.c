#include "plan/plan.h"

#include "base/budget.h"
#include "config/arch.h"
#include "plan/memo.h"
#include "plan/planning.h"
#include "plan/rank.h"
#include "train/repeats.h"

#include <stdio.h>
#include <string.h>

/* Member of /training and how a sentence names it. */
static const char *const axis_members[AXIS_COUNT] = {
    [AXIS_METHOD] = "methods",      [AXIS_TUNING] = "tuning",
    [AXIS_OFFLOAD] = "offload",     [AXIS_PRECISION] = "precision",
    [AXIS_OPTIMIZER] = "optimizer", [AXIS_ATTENTION] = "attention",
    [AXIS_LOSS] = "loss",           [AXIS_CHECKPOINTING] = "gradient_checkpointing",
};

/* The first thing of a candidate that has no model, as a sentence; NULL when all of it has. */
static const char *gap_of(struct planning *p, const struct plan_candidate *c)
{
    char text[160];

    if (p->q->gap)
        return p->q->gap;
    if (p->q->adapter_gap && c->choice[AXIS_TUNING]->value != TUNING_FULL)
        return p->q->adapter_gap;
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

/* Places are kept for what the lists still ask. */
static bool is_full(const struct planning *p, bool runs)
{
    return p->answer->n + p->listed >= PLAN_MAX_CANDIDATES || (runs && p->measured + p->listed_to_run >= PLAN_MAX_MEASURED);
}

static enum err_code add(struct planning *p, const struct plan_candidate *asked, bool is_listed)
{
    struct plan_answer *answer = p->answer;
    struct plan_candidate *c = &answer->candidates[answer->n];
    const char *gap = gap_of(p, asked);
    enum err_code rc = ERR_OK;

    if (gap && is_variation(p, asked))
        return ERR_OK;
    *c = *asked;
    if (gap)
        c->reason = (struct plan_reason){.code = "not-modelled", .detail = gap};
    else
        rc = candidate_resolve(p, c);
    if (rc)
        return rc;
    if (is_listed && p->listed) {
        p->listed--;
        p->listed_to_run -= c->modelled;
    }
    if (is_full(p, c->modelled)) {
        answer->n_left_out++;
        return ERR_OK;
    }
    if (c->modelled)
        rc = candidate_foresee(p, c);
    if (rc)
        return rc;
    answer->any_modelled |= c->modelled;
    answer->n++;
    return ERR_OK;
}

/* Whole gradients that wait for the last micro-batch are memory for fewer messages: both ways are tried where nobody said which, nor which micro-batch. */
static bool may_sync(const struct planning *p, const struct plan_candidate *c)
{
    return p->q->recipe.sync_each_batch == TRI_UNSET && !p->q->recipe.micro_batch_size && c->modelled && train_reads_sync(&c->step.r) &&
           method_holds_whole_gradients(c->step.r.method) && c->step.r.gradient_accumulation_steps > 1 && c->step.r.data_parallel > 1;
}

static enum err_code add_both(struct planning *p, const struct plan_candidate *asked, bool is_listed)
{
    struct plan_candidate synced = *asked;
    uint32_t at = p->answer->n;
    enum err_code rc = add(p, asked, is_listed);

    synced.sync_each_batch = true;
    if (!rc && p->answer->n > at && may_sync(p, &p->answer->candidates[at]))
        rc = add(p, &synced, false);
    return rc;
}

/* The host helps only where nobody said whether it may, and the GPU alone is not enough. */
static bool may_offload(const struct planning *p, const struct plan_candidate *c)
{
    return !p->q->axes[AXIS_OFFLOAD].asked && !p->q->recipe.micro_batch_size && c->modelled && !c->fits;
}

static enum err_code add_with_offload(struct planning *p, const struct plan_candidate *asked)
{
    static const struct plan_choice kinds[] = {{"optimizer", OFFLOAD_OPTIMIZER}, {"optimizer+params", OFFLOAD_OPTIMIZER_PARAMS}};
    enum method method = (enum method)asked->choice[AXIS_METHOD]->value;
    uint32_t before = p->answer->n;
    enum err_code rc = add_both(p, asked, true);

    for (uint32_t i = before; !rc && i < p->answer->n; i++)
        if (!may_offload(p, &p->answer->candidates[i]))
            return ERR_OK;
    if (rc || p->answer->n == before)
        return rc;
    for (size_t i = 0; !rc && i < sizeof kinds / sizeof *kinds; i++) {
        struct plan_candidate helped = *asked;

        helped.choice[AXIS_OFFLOAD] = &kinds[i];
        if (method_offloads(method, (enum offload)kinds[i].value))
            rc = add_both(p, &helped, false);
    }
    return rc;
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

static struct plan_candidate combination(const struct plan_question *q, const uint32_t *at)
{
    struct plan_candidate c = {0};

    for (int a = 0; a < AXIS_COUNT; a++)
        c.choice[a] = &q->axes[a].choices[at[a]];
    return c;
}

static enum err_code too_many(struct planning *p, int most, const char *of)
{
    return err_set(p->err, ERR_FIELD_RANGE, "/training", "the lists ask for more than %d %s: name fewer", most, of);
}

/* How many the lists ask for is told before the first of them is foretold. */
static enum err_code count_listed(struct planning *p, bool staged)
{
    uint32_t at[AXIS_COUNT] = {0};
    unsigned char *mark = p->keep->cur;
    enum err_code rc = ERR_OK;

    do {
        struct plan_candidate c = combination(p->q, at);
        const char *gap = gap_of(p, &c);

        p->listed += !gap || !is_variation(p, &c);
        rc = gap ? ERR_OK : candidate_resolve(p, &c);
        p->listed_to_run += c.modelled;
        arena_rewind(p->keep, mark);
    } while (!rc && p->listed <= PLAN_MAX_CANDIDATES && p->listed_to_run <= PLAN_MAX_MEASURED && next(p->q, at, staged));
    p->conflicts = 0;
    if (rc)
        return rc;
    if (p->listed_to_run > PLAN_MAX_MEASURED)
        return too_many(p, PLAN_MAX_MEASURED, "combinations");
    return p->listed > PLAN_MAX_CANDIDATES ? too_many(p, PLAN_MAX_CANDIDATES, "candidates") : ERR_OK;
}

/* All combinations, of one kind of tuning where they are tried kind by kind. */
static enum err_code enumerate(struct planning *p, uint32_t *at, bool staged)
{
    enum err_code rc = ERR_OK;

    do {
        struct plan_candidate asked = combination(p->q, at);

        rc = add_with_offload(p, &asked);
    } while (!rc && next(p->q, at, staged));
    return rc;
}

/* A row more than the limit, which add() fills before it knows whether it is one. */
static struct plan_candidate *room_for_candidates(const struct plan_question *q, struct arena *keep)
{
    uint64_t n = 1;

    for (int a = 0; a < AXIS_COUNT; a++)
        if (n <= PLAN_MAX_CANDIDATES)
            n *= a == AXIS_OFFLOAD && !q->axes[a].asked ? 3 : q->axes[a].n;
    n *= q->recipe.sync_each_batch == TRI_UNSET ? 2 : 1;
    if (n > PLAN_MAX_CANDIDATES)
        n = PLAN_MAX_CANDIDATES;
    return arena_array(keep, struct plan_candidate, (size_t)n + 1);
}

/* --- the whole ------------------------------------------------------------------------------------------------------------------ */

/* The most promising first: where work ends, it ends with what matters least. */
static enum err_code look_at(struct planning *p, enum err_code (*look)(struct planning *, struct plan_candidate *))
{
    uint32_t order[PLAN_MAX_CANDIDATES];
    enum err_code rc = ERR_OK;

    rank_order(p->q, p->answer, order);
    for (uint32_t i = 0; !rc && i < p->answer->n; i++) {
        struct plan_candidate *c = &p->answer->candidates[order[i]];

        if (c->modelled && c->basis == BASIS_NONE)
            rc = candidate_stands(p, c, look(p, c));
    }
    return rc;
}

static bool is_open(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled && a->candidates[i].basis == BASIS_NONE)
            return true;
    return false;
}

static uint32_t count_modelled(const struct plan_answer *a)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < a->n; i++)
        n += a->candidates[i].modelled;
    return n;
}

/* The recommendation is played before it is named; if it fails, the next is tried. What is left is told by its live blocks, and may turn out to fit. */
static enum err_code settle(struct planning *p)
{
    struct plan_candidate *first = p->answer->candidates;
    bool few = count_modelled(p->answer) <= PLAN_REPLAY_ALL;
    enum err_code rc = ERR_OK;

    p->rooms_of_all = few || p->q->objective != OBJECTIVE_FASTEST;
    if (few)
        rc = look_at(p, candidate_settle);
    else if (p->q->objective == OBJECTIVE_LEAST_MEMORY)
        rc = look_at(p, candidate_bound);
    for (bool done = false; !rc && !done;) {
        rank_candidates(p->q, p->answer);
        if (p->answer->n && first->modelled && first->fits && first->basis != BASIS_REPLAYED)
            rc = candidate_stands(p, first, candidate_settle(p, first));
        else if (p->answer->n && first->modelled && rank_may_get_room(first))
            rc = candidate_stands(p, first, candidate_make_room(p, first));
        else if (is_open(p->answer))
            rc = look_at(p, candidate_bound);
        else
            done = true;
    }
    for (uint32_t i = 0; i < p->answer->n; i++)
        p->answer->candidates[i].room_tried = true; /* nobody will: what is tight counts as that */
    rank_candidates(p->q, p->answer);
    p->answer->any_fits = p->answer->n && first->modelled && first->fits;
    p->answer->any_launches = p->answer->any_fits && first->launchable;
    return rc;
}

/* All combinations, foretold with half of the work that is left; what is best among them is looked at closer with the rest. */
static enum err_code foretell(struct planning *p, uint32_t *at, bool staged)
{
    const struct budget *b = p->scratch->budget;

    p->foretell_until = b && b->limit_events > b->events ? b->events + (b->limit_events - b->events) / 2 : 0;
    return enumerate(p, at, staged);
}

/* Where the micro-batch is stated and all are played anyway, what they are foretold decides nothing. */
static bool plays_all(const struct plan_question *q)
{
    uint64_t n = 1;

    for (int a = 0; a < AXIS_COUNT && n <= PLAN_REPLAY_ALL; a++)
        n *= q->axes[a].n;
    return n <= PLAN_REPLAY_ALL && q->recipe.micro_batch_size && !q->largest && q->objective != OBJECTIVE_LONGEST_SEQUENCE;
}

/* Any that runs: what outgrew the question might. */
static bool any_runs(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (a->candidates[i].modelled || reason_is(&a->candidates[i].reason, ERR_BUDGET))
            return true;
    return false;
}

/* Where adapters have to be told where to go, another kind of tuning may run. */
static bool any_lacks_targets(const struct plan_answer *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        if (reason_is(&a->candidates[i].reason, ERR_NO_TARGETS))
            return true;
    return false;
}

/* Somebody else's layers are taken for alike where that was seen; one step that is asked alone is played as it is. */
static bool may_take_few(const struct plan_question *q, struct arena *scratch)
{
    bool many = !q->recipe.micro_batch_size || q->largest;

    for (int i = 0; i < AXIS_COUNT; i++)
        many = many || q->axes[i].n > 1;
    return q->arch && q->arch->fixed_depth && q->arch->may_repeat && many && train_repeats(q->arch, &q->recipe, &q->device, scratch);
}

/* What was foretold, and the runs that foretold it. */
static struct memo *memo_with_runs(struct arena *scratch)
{
    train_runs_aside(scratch);
    return memo_new(scratch);
}

enum err_code plan_answer(const struct plan_question *asked, struct arena *keep, struct arena *scratch, struct plan_answer *ret,
                          struct err *err)
{
    struct arch repeating = asked->arch ? *asked->arch : (struct arch){0};
    struct plan_question own = *asked;
    const struct plan_question *q = &own;
    struct memo *memo = memo_with_runs(scratch);
    struct plan_answer answer = {.candidates = room_for_candidates(q, keep)};
    struct planning p = {.q = q,
                         .keep = keep,
                         .scratch = scratch,
                         .begin = scratch->cur,
                         .answer = &answer,
                         .err = err,
                         .memo = memo,
                         .plays_all = plays_all(q),
                         .work_events = scratch->budget ? scratch->budget->limit_events - scratch->budget->events : 0};
    bool staged = !q->axes[AXIS_TUNING].asked;
    uint32_t at[AXIS_COUNT] = {0};
    enum err_code rc;

    if (!answer.candidates)
        return no_room(&p);
    rc = count_listed(&p, staged);
    if (rc)
        return rc;
    if (may_take_few(asked, scratch)) {
        repeating.fixed_depth = false;
        own.arch = &repeating;
    }
    do {
        rc = foretell(&p, at, staged);
        if (!rc && answer.n && p.conflicts == answer.n)
            rc = ERR_FIELD_CONFLICT; /* as train_resolve() said it last */
        if (!rc)
            rc = settle(&p);
        if (p.plays_all) /* nobody has run before */
            answer.any_modelled = any_runs(&answer);
    } while (!rc && staged && (answer.any_modelled || any_lacks_targets(&answer)) && !answer.any_launches && !answer.n_cut && !answer.n_left_out &&
             ++at[AXIS_TUNING] < q->axes[AXIS_TUNING].n);
    if (!rc)
        find_dominated(&answer);
    answer.any_modelled = count_modelled(&answer) > 0; /* some were set aside while they ran */
    for (uint32_t i = 0; !rc && i < answer.n; i++)
        if (answer.candidates[i].modelled && !answer.candidates[i].fits)
            rc = explain(&p, &answer.candidates[i]);
    if (!rc)
        rc = advise(&p);
    if (!rc && budget_is_cancelled(scratch->budget)) /* some looks are only tried */
        rc = budget_status(scratch->budget, err);
    if (!rc)
        *ret = answer;
    return rc;
}
