/*
 * Advice: the nearest change that was tried and fits. Other candidates have told already; what nobody enumerated (adapters, a larger batch, more GPUs,
 * larger ones) is tried as models of few layers and live blocks tell it. Another kind of change is one more row of `steps[]` or of `others`.
 */
#include "base/budget.h"
#include "plan/advise.h"
#include "plan/pace.h"

#include <string.h>

static const double WORTH = 0.05; /* of the peak: less is not worth a sentence */

static struct plan_advice *next_advice(struct planning *p)
{
    struct plan_answer *a = p->answer;

    return a->n_advice < PLAN_ADVICE_MAX ? &a->advice[a->n_advice] : NULL;
}

/* --- what another candidate shows --------------------------------------------------------------------------------------------- */

static unsigned count_changes(const struct plan_nearest *n)
{
    return (n->method != NULL) + 4U * (n->tuning != NULL) + 2U * (n->offload != NULL) +
           8U * (n->precision || n->optimizer || n->attention) + (n->gradient_checkpointing != TRI_UNSET) +
           (n->sync_each_batch != TRI_UNSET) + (n->micro_batch_size != 0) + (n->tensor_parallel != 0) + n->expandable_segments;
}

static bool is_empty(const struct plan_nearest *n)
{
    return !count_changes(n) && !n->seq_len_tokens && !n->gpu && !n->gpus;
}

/* What it is to be, where that is not what it is. */
static const char *unless_own(const char *changed, const struct plan_candidate *from, const struct plan_candidate *to, enum plan_axis_name axis)
{
    const char *own = from->choice[axis]->name, *name = changed ? changed : to->choice[axis]->name;

    return name && own && strcmp(name, own) != 0 ? name : own ? NULL : changed;
}

static enum tri unless_tri(enum tri changed, enum tri own)
{
    return changed != own ? changed : TRI_UNSET;
}

/* What makes `from` what a change makes of `to`. */
static struct plan_nearest change_from(const struct plan_candidate *from, const struct plan_candidate *to, const struct plan_nearest *change)
{
    const struct recipe *own = &from->step.r, *others = &to->step.r;
    uint32_t batch = change->micro_batch_size ? change->micro_batch_size : others->micro_batch_size;
    struct plan_nearest n = *change;

    n.method = unless_own(change->method, from, to, AXIS_METHOD);
    n.tuning = unless_own(change->tuning, from, to, AXIS_TUNING);
    n.offload = unless_own(change->offload, from, to, AXIS_OFFLOAD);
    n.precision = unless_own(change->precision, from, to, AXIS_PRECISION);
    n.optimizer = unless_own(change->optimizer, from, to, AXIS_OPTIMIZER);
    n.attention = unless_own(change->attention, from, to, AXIS_ATTENTION);
    if (change->gradient_checkpointing)
        n.gradient_checkpointing = unless_tri(change->gradient_checkpointing, own->gradient_checkpointing);
    else if (from->choice[AXIS_CHECKPOINTING] != to->choice[AXIS_CHECKPOINTING])
        n.gradient_checkpointing = others->gradient_checkpointing;
    if (!change->sync_each_batch && from->sync_each_batch != to->sync_each_batch)
        n.sync_each_batch = to->sync_each_batch ? TRI_TRUE : TRI_FALSE;
    if (!change->method && !change->tensor_parallel && method_has_tensor_parallel(others->method) && own->tensor_parallel != others->tensor_parallel)
        n.tensor_parallel = others->tensor_parallel;
    if (from->modelled)
        n.micro_batch_size = own->micro_batch_size != batch ? batch : 0;
    return n;
}

struct plan_nearest candidate_difference(const struct plan_candidate *from, const struct plan_candidate *to)
{
    return change_from(from, to, &(struct plan_nearest){0});
}

/* The candidate that fits and is the most like it. */
static struct plan_nearest nearest_that_fits(const struct plan_answer *a, const struct plan_candidate *c)
{
    struct plan_nearest best = {0};
    unsigned least = UINT32_MAX;

    for (uint32_t i = 0; i < a->n; i++) {
        const struct plan_candidate *other = &a->candidates[i];
        struct plan_nearest n;

        if (!other->modelled || !other->fits || (a->any_launches && !other->launchable))
            continue;
        n = candidate_difference(c, other);
        if (!is_empty(&n) && count_changes(&n) < least) {
            least = count_changes(&n);
            best = n;
        }
    }
    return best;
}

/* --- what is tried ------------------------------------------------------------------------------------------------------------ */

/* The first candidate's question and recipe, for the caller to change. */
struct trial trial_of(const struct planning *p, const struct plan_candidate *first)
{
    struct trial t = {.q = *p->q, .c = *first};

    t.recipe = recipe_of(p->q, first);
    return t;
}

const char *trial_tune(struct trial *t, enum tuning tuning)
{
    t->recipe.tuning = tuning;
    t->recipe.quantization = tuning == TUNING_QLORA ? KBIT_NF4 : KBIT_NONE;
    return tuning == TUNING_QLORA ? "qlora" : "lora";
}

static enum err_code look(struct planning *p, struct trial *t, const struct recipe *was, uint32_t n)
{
    struct plan_paces paces = {0}; /* the runs that foretell memory tell the time too, which is asked of what fits */
    struct probe probe = {.q = &t->q, .step = &t->c.step, .scratch = p->scratch, .err = p->err, .memo = p->memo, .paces = &paces};
    struct measured m;
    enum err_code rc;

    if (rests_above(&t->c.memory, was, &probe))
        return ERR_OK;
    rc = surely_fits(&probe, n, &t->fits, &t->c.memory);
    if (rc || !t->fits)
        return rc;
    rc = probe_fold(&probe, n, true, &m);
    if (rc)
        return rc;
    t->peak_bytes = m.walk_peak_bytes;
    return pace_at(&probe, n, &t->time);
}

/* Fits or not; what cannot be run, or started, does not. A broken budget ends the advice alone. */
enum err_code trial_run(struct planning *p, struct trial *t, uint32_t n)
{
    const struct recipe was = t->c.step.r; /* that t->c.memory is of */
    enum err_code rc = train_resolve(&t->recipe, t->q.arch, &t->q.device, p->keep, &t->c.step, p->err);

    t->fits = t->ran = false;
    if (rc == ERR_NO_TARGETS) {
        t->recipe.lora.all_linear = t->names_targets = true;
        rc = train_resolve(&t->recipe, t->q.arch, &t->q.device, p->keep, &t->c.step, p->err);
    }
    if (!rc && t->q.launches && !t->q.launches(&t->c.step))
        return ERR_OK;
    if (!rc)
        rc = look(p, t, &was, n);
    t->ran = !rc;
    t->fits &= t->ran;
    return rc == ERR_BUDGET ? rc : candidate_tried(p, rc);
}

void trial_tell(struct planning *p, const struct plan_nearest *change, const struct trial *t, const struct plan_candidate *first)
{
    struct plan_advice *advice = next_advice(p);
    uint64_t before = first->modelled ? peak_of(p->q, first) : t->peak_bytes;

    if (!advice || !t->fits)
        return;
    *advice = (struct plan_advice){*change, t->peak_bytes, t->q.capacity_bytes, (int64_t)before - (int64_t)t->peak_bytes, t->time};
    if (t->names_targets)
        advice->change.target_modules = "all-linear";
    p->answer->n_advice++;
}

/* --- where something fits ------------------------------------------------------------------------------------------------------- */

/* One thing changed at a time, with the micro-batch that goes with it. */
static bool is_one_change(const struct plan_nearest *n)
{
    struct plan_nearest one = *n;

    one.micro_batch_size = 0;
    return count_changes(&one) == 1 && !n->tuning;
}

static uint64_t needs(const struct planning *p, const struct plan_candidate *c)
{
    return c->basis == BASIS_REPLAYED ? peak_of(p->q, c) : c->high_bytes;
}

/* The candidates beside the first that need less and are no more than half as slow, the leanest of each kind of change. */
void tell_leaner(struct planning *p, const struct plan_candidate *first)
{
    struct plan_answer *a = p->answer;
    const struct plan_candidate *best = NULL;

    for (uint32_t i = 1; i < a->n; i++) {
        const struct plan_candidate *c = &a->candidates[i];
        struct plan_nearest change;

        if (!c->modelled || !c->fits || !c->launchable || (double)needs(p, c) > (1 - WORTH) * (double)needs(p, first))
            continue;
        change = candidate_difference(first, c);
        if (is_one_change(&change) && 2 * c->time.tokens_per_s >= first->time.tokens_per_s && (!best || needs(p, c) < needs(p, best)))
            best = c;
    }
    if (best && next_advice(p)) {
        *next_advice(p) = (struct plan_advice){candidate_difference(first, best), peak_of(p->q, best), p->q->capacity_bytes,
                                               (int64_t)peak_of(p->q, first) - (int64_t)peak_of(p->q, best), best->time};
        a->n_advice++;
    }
}

/* What is offloaded because all is trained need not be with adapters: one sequence shows how much faster that is. */
static uint32_t stop_offload(const struct planning *p, const struct plan_candidate *first, struct trial *t, struct plan_nearest *change)
{
    uint32_t n = p->q->recipe.micro_batch_size ? p->q->recipe.micro_batch_size : 1;

    t->recipe.offload = OFFLOAD_NONE;
    change->offload = "none";
    change->micro_batch_size = n == first->step.r.micro_batch_size ? 0 : n;
    return n;
}

/* The next leaner tuning: adapters where all is trained, a quantised base where it is not; what it would leave free, or how fast it is without offload. */
static enum err_code try_adapters(struct planning *p, const struct plan_candidate *first)
{
    bool stops = first->step.r.offload != OFFLOAD_NONE && !p->q->axes[AXIS_OFFLOAD].asked;
    struct trial t = trial_of(p, first);
    struct plan_nearest change = {0};
    uint32_t n = first->step.r.micro_batch_size;
    enum err_code rc;

    if (first->step.r.tuning == TUNING_QLORA || p->q->adapter_gap)
        return ERR_OK;
    change.tuning = trial_tune(&t, first->step.r.tuning == TUNING_FULL ? TUNING_LORA : TUNING_QLORA);
    if (stops)
        n = stop_offload(p, first, &t, &change);
    rc = trial_run(p, &t, n);
    if (!rc && (stops ? t.time.tokens_per_s > first->time.tokens_per_s : (double)t.peak_bytes < (1 - WORTH) * (double)peak_of(p->q, first)))
        trial_tell(p, &change, &t, first);
    return rc;
}

/* A stated micro-batch that leaves room: twice as many sequences, where that is no slower. */
static enum err_code try_more(struct planning *p, const struct plan_candidate *first)
{
    struct trial t = trial_of(p, first);
    uint32_t n = p->q->recipe.micro_batch_size;
    const struct plan_nearest change = {.micro_batch_size = 2 * n};
    enum err_code rc;

    if (!n || n > PLAN_MAX_MICRO_BATCH / 2 || first->tight || p->q->global_batch_size)
        return ERR_OK;
    rc = trial_run(p, &t, 2 * n);
    if (!rc && t.time.tokens_per_s >= first->time.tokens_per_s)
        trial_tell(p, &change, &t, first);
    return rc;
}

/* --- the whole ------------------------------------------------------------------------------------------------------------------ */

static enum err_code advise_all(struct planning *p, const struct plan_candidate *first)
{
    if (p->answer->any_fits) {
        enum err_code rc = p->q->objective == OBJECTIVE_FEWEST_GPUS ? advise_fewer(p, first) : ERR_OK;

        if (!rc)
            rc = try_more(p, first);
        tell_leaner(p, first);
        return rc ? rc : try_adapters(p, first);
    }
    return advise_stuck(p, first);
}

/* A quarter of what the answer took, half where what fits was not foretold, and what a small answer needs: more where it is all that there is to say. */
enum { SHARE = 4, SHARE_OF_PLAYED = 2, LEAST_EVENTS = 400000, LEAST_EVENTS_STUCK = 1000000 };

static enum err_code advise_within(struct planning *p, const struct plan_candidate *first)
{
    struct budget *b = p->scratch->budget;
    uint64_t least = p->answer->any_fits ? LEAST_EVENTS : LEAST_EVENTS_STUCK, limit = b ? b->limit_events : 0,
             taken = b ? p->work_events - (limit - b->events) : 0, share = taken / (p->plays_all && p->answer->any_fits ? SHARE_OF_PLAYED : SHARE);
    enum err_code rc;

    if (b && budget_is_over(b))
        return ERR_OK;
    if (b && b->events + share + least < limit)
        b->limit_events = b->events + share + least;
    rc = advise_all(p, first);
    if (b)
        b->limit_events = limit;
    return rc == ERR_BUDGET ? ERR_OK : rc;
}

enum err_code advise(struct planning *p)
{
    struct plan_answer *a = p->answer;
    const struct plan_candidate *first = a->candidates;
    const struct plan_nearest *last;
    enum err_code rc = ERR_OK;

    if (!a->n || (!first->modelled && !reason_is(&first->reason, ERR_NO_TARGETS)))
        return ERR_OK;
    if (a->any_fits || !a->n_cut)
        rc = advise_within(p, first);
    last = a->n_advice ? &a->advice[a->n_advice - 1].change : NULL;
    for (uint32_t i = 0; !rc && i < a->n; i++) {
        struct plan_candidate *c = &a->candidates[i];

        if (!c->reason.code || !is_empty(&c->reason.nearest) || reason_is(&c->reason, ERR_BUDGET))
            continue;
        if (a->any_fits)
            c->reason.nearest = nearest_that_fits(a, c);
        else if (last)
            c->reason.nearest = change_from(c, first, last);
    }
    return rc;
}
