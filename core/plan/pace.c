#include "plan/pace.h"

#include "base/budget.h"
#include "plan/memo.h"
#include "plan/rank.h"
#include "train/timing.h"

enum { TRIES = 4 };

/* Slower by less is called equal: the model of time is not finer. */
static const double EQUAL = 0.995;

/* One GPU of the cluster, or all. */
static struct perf_system system_of(const struct probe *p, const struct step *s)
{
    struct perf_system system = *p->q->system;

    if (s->r.data_parallel * s->r.tensor_parallel * s->r.pipeline_parallel == 1)
        system.gpus_per_node = system.nodes = 1;
    return system;
}

/* The cost of one rank; its log stays in the scratch arena. */
static enum err_code rank_cost(const struct probe *p, const struct step *step, uint32_t rank, struct cost *ret)
{
    struct step s = *step;
    struct memo_key key;

    s.r.rank = rank;
    key = memo_key(p->q->arch, &s, &p->q->device, NULL, 0);
    if (memo_find_cost(p->memo, &key, ret))
        return budget_take(p->scratch->budget, (uint64_t)ret->n_kernels + ret->n_messages, p->err);
    return train_cost(p->q->arch, &s, &p->q->device, p->scratch, ret, p->err);
}

/* The residual stream goes over the wire in the dtype of the weights. */
static double send_s(const struct probe *p, const struct recipe *r)
{
    unsigned wide = precision_is_mixed(r->precision) || r->precision == PRECISION_FP32 ? 4 : 2;
    uint64_t bytes = (uint64_t)r->micro_batch_size * r->seq_len_tokens * p->q->arch->hidden * wide;

    return perf_collective_s(p->q->system, COLLECTIVE_SEND, bytes, (struct work_group){2, 1});
}

/* The first, the second, which stands for those between, and the last; the last one's cost. */
static enum err_code stage_times(const struct probe *p, const struct step *s, const struct perf_system *system, struct stage_time *stages,
                                 struct cost *ret)
{
    uint32_t n = s->r.pipeline_parallel, looked[] = {0, 1, n - 1};

    for (uint32_t k = 0; k < 3; k++) {
        enum err_code rc;

        if (k && looked[k] == looked[k - 1])
            continue;
        rc = rank_cost(p, s, looked[k], ret);
        if (rc)
            return rc;
        perf_stage_time(ret, system, &stages[looked[k]]);
        stages[looked[k]].send_s = send_s(p, &s->r);
    }
    for (uint32_t i = 2; i + 1 < n; i++)
        stages[i] = stages[1];
    return ERR_OK;
}

enum { TURNS_OF_EVENT = 4 }; /* of a stage, with one micro-batch: forward and backward */

static enum err_code pipeline_time(const struct probe *p, const struct step *s, const struct perf_system *system, struct step_time *ret)
{
    struct stage_time *stages = arena_array(p->scratch, struct stage_time, s->r.pipeline_parallel);
    struct cost c;
    enum err_code rc = stages ? stage_times(p, s, system, stages, &c) : ERR_NOMEM;

    if (!rc)
        rc = budget_take(p->scratch->budget, (uint64_t)s->r.pipeline_parallel * s->r.gradient_accumulation_steps / TURNS_OF_EVENT, p->err);
    if (!rc && !perf_pipeline(stages, s->r.pipeline_parallel, SCHEDULE_1F1B, s->r.gradient_accumulation_steps, p->scratch, ret))
        rc = ERR_NOMEM;
    if (rc == ERR_NOMEM)
        return err_set(p->err, rc, "", "the working memory of one request is too small for the stages of a pipeline");
    if (!rc)
        perf_sum_up(&c, system, ret);
    return rc;
}

static enum err_code play_pace(const struct probe *p, const struct step *step, struct step_time *ret)
{
    unsigned char *mark = p->scratch->cur;
    struct step s = *step;
    struct perf_system system = system_of(p, &s);
    struct cost cost;
    enum err_code rc;

    if (s.r.pipeline_parallel > 1) {
        rc = pipeline_time(p, &s, &system, ret);
    } else {
        rc = rank_cost(p, &s, s.r.rank, &cost);
        if (!rc)
            perf_step_time(&cost, &system, ret);
    }
    arena_rewind(p->scratch, mark);
    return rc;
}

static struct memo_key key_of(const struct probe *p, const struct step *s)
{
    return memo_key(p->q->arch, s, &p->q->device, p->q->system, sizeof *p->q->system);
}

static void note(const struct probe *p, const struct step *s, const struct step_time *t)
{
    const struct memo_key key = key_of(p, s);
    struct memo_row *row = memo_add(p->memo, &key);

    if (row)
        row->is.time = *t;
}

enum err_code pace_told(const struct probe *p, uint32_t n, const struct cost *cost)
{
    const struct step s = probe_step(p, n);
    const struct perf_system system = system_of(p, &s);
    struct step_time t;
    enum err_code rc = budget_take(p->scratch->budget, (uint64_t)cost->n_kernels + cost->n_messages, p->err);

    if (rc)
        return rc;
    perf_step_time(cost, &system, &t);
    note(p, &s, &t);
    return ERR_OK;
}

enum err_code pace_at(const struct probe *p, uint32_t n, struct step_time *ret)
{
    struct step s = probe_step(p, n);
    const struct memo_row *known;
    struct memo_key key;
    enum err_code rc;

    *ret = (struct step_time){0};
    if (!p->q->system)
        return ERR_OK;
    key = key_of(p, &s);
    known = memo_find(p->memo, &key);
    if (known) {
        *ret = known->is.time;
        return budget_status(p->scratch->budget, p->err);
    }
    rc = play_pace(p, &s, ret);
    if (!rc)
        note(p, &s, ret);
    return rc;
}

static struct step_time extend(struct depths at, const struct step_time *a, const struct step_time *b, uint32_t layers)
{
    double tokens = a->tokens_per_s * a->step_s, samples = a->samples_per_s * a->step_s;
    bool hides = b->communication_exposed_s < a->communication_exposed_s; /* more backward hides more, to none */
    double exposed = probe_along(at, a->communication_exposed_s, b->communication_exposed_s, layers);
    struct step_time t = {
        .compute_s = probe_along(at, a->compute_s, b->compute_s, layers),
        .communication_exposed_s = hides && exposed < 0 ? 0 : exposed,
        .optimizer_s = probe_along(at, a->optimizer_s, b->optimizer_s, layers),
        .offload_s = probe_along(at, a->offload_s, b->offload_s, layers),
        .bubble_s = probe_along(at, a->bubble_s, b->bubble_s, layers),
    };

    t.step_s = t.compute_s + t.communication_exposed_s + t.optimizer_s + t.offload_s + t.bubble_s;
    t.tokens_per_s = tokens / t.step_s;
    t.samples_per_s = samples / t.step_s;
    t.mfu = probe_along(at, a->mfu * a->step_s, b->mfu * b->step_s, layers) / t.step_s;
    return t;
}

static bool is_foreseen(const struct plan_paces *k, uint32_t n, struct step_time *ret)
{
    for (uint32_t i = 0; k && i < k->n && i < PLAN_PACES; i++)
        if (k->at[i].micro_batch_size == n) {
            *ret = k->at[i].time;
            return true;
        }
    return false;
}

static void keep(struct plan_paces *k, uint32_t n, const struct step_time *t)
{
    uint32_t at = k ? k->n++ % PLAN_PACES : 0;

    if (!k)
        return;
    k->at[at].micro_batch_size = n;
    k->at[at].time = *t;
}

static enum err_code foresee(const struct probe *p, uint32_t n, struct step_time *ret)
{
    uint32_t layers = probe_layers(p);
    struct step_time near, far;
    struct depths at;
    struct shallow s;
    enum err_code rc;

    *ret = (struct step_time){0};
    if (!probe_may_be_shallow(p) || !p->q->system)
        return pace_at(p, n, ret);
    at = probe_depths(p);
    probe_shallow(p, at.near, &s);
    rc = pace_at(&s.probe, n, &near);
    probe_shallow(p, at.far, &s);
    if (!rc)
        rc = pace_at(&s.probe, n, &far);
    if (!rc)
        *ret = extend(at, &near, &far, layers);
    return rc;
}

enum err_code pace_foresee(const struct probe *p, uint32_t n, struct step_time *ret)
{
    enum err_code rc;

    if (is_foreseen(p->paces, n, ret))
        return ERR_OK;
    rc = foresee(p, n, ret);
    if (!rc)
        keep(p->paces, n, ret);
    return rc;
}

/* --- which may be chosen -------------------------------------------------------------------------------------------------------- */

/* Sequences of a step that one replica trains on; 0: free. */
static uint32_t share(const struct probe *p)
{
    return p->q->global_batch_size / p->step->r.data_parallel;
}

static bool is_allowed(const struct probe *p, uint32_t n)
{
    uint32_t all = share(p), steps = p->q->recipe.gradient_accumulation_steps;

    return !p->q->global_batch_size || (all % n == 0 && (!steps || all / n == steps));
}

uint32_t pace_allowed_below(const struct probe *p, uint32_t n)
{
    while (n > 1 && !is_allowed(p, n))
        n--;
    return n ? n : 1;
}

enum err_code pace_worth(const struct probe *p, uint32_t roomy, uint32_t tight, bool *ret)
{
    struct step_time t;
    double least;
    enum err_code rc = pace_foresee(p, tight, &t);

    least = RANK_TIGHT_IS_WORTH * t.tokens_per_s;
    if (!rc)
        rc = pace_foresee(p, roomy, &t);
    *ret = !rc && t.tokens_per_s >= least;
    return rc;
}

/* Down in tenths to one that needs no retry; the largest where none of three does without. */
static enum err_code avoid_retries(const struct probe *p, const struct largest_fit *f, uint32_t *n)
{
    struct fit fit;
    enum err_code rc = ERR_OK;

    *n = f->n;
    for (uint32_t k = 1, less; k <= 3 && f->n > 1; k++) {
        less = f->n > 10 * k ? f->n - f->n * k / 10 : f->n > k ? f->n - k : 1;
        rc = probe_fits(p, less, MEASURE_NOTHING, &fit);
        if (!rc && fit.fits && !fit.retries)
            *n = less;
        if (rc || *n == less || less == 1)
            break;
    }
    return rc;
}

/* The largest that should leave room: from what was reserved at one, along the slope of live blocks. */
static uint32_t roomy_of(const struct probe *p, const struct largest_fit *f)
{
    uint64_t budget = probe_roomy_budget(p), slope = f->slope_bytes ? f->slope_bytes : 1, n = f->without_retry;

    if (f->reserved_bytes <= budget)
        n += (budget - f->reserved_bytes) / slope;
    else
        n -= n > (f->reserved_bytes - budget) / slope + 1 ? (f->reserved_bytes - budget) / slope + 1 : n - 1;
    return n < f->n ? (uint32_t)n : f->n;
}

/* The largest that fits; a smaller one where that leaves room and is worth it. */
static enum err_code leave_room(const struct probe *p, const struct largest_fit *f, uint32_t *ret_n)
{
    bool worth_it = false;
    uint32_t n;
    enum err_code rc;

    if (!f->without_retry)
        return avoid_retries(p, f, ret_n);
    *ret_n = f->without_retry;
    n = pace_allowed_below(p, roomy_of(p, f));
    if (n == f->n)
        return ERR_OK;
    rc = pace_worth(p, n, pace_allowed_below(p, f->n), &worth_it);
    if (worth_it)
        *ret_n = n;
    return rc;
}

/* From n down by halves, as models of few layers run them; the time of the chosen. */
static enum err_code choose(const struct probe *p, uint32_t *n, struct step_time *ret)
{
    struct step_time half;
    double best;
    enum err_code rc = pace_foresee(p, *n, ret);

    best = ret->tokens_per_s;
    for (int i = 1; !rc && i<TRIES && * n> 1 && best > 0; i++) {
        uint32_t next = pace_allowed_below(p, *n / 2);

        rc = pace_foresee(p, next, &half);
        if (rc || half.tokens_per_s < EQUAL * best)
            break;
        *n = next;
        *ret = half;
        best = half.tokens_per_s > best ? half.tokens_per_s : best;
    }
    return rc;
}

enum err_code pace_fastest(const struct probe *p, const struct largest_fit *f, uint32_t *ret_n)
{
    struct step_time t;
    uint32_t n = 1;
    enum err_code rc = f->n ? leave_room(p, f, &n) : ERR_OK;

    n = pace_allowed_below(p, n);
    if (!rc && n > 1)
        rc = choose(p, &n, &t);
    if (!rc)
        *ret_n = n;
    return rc;
}

enum err_code pace_foresee_fastest(const struct probe *p, uint32_t most, uint32_t *ret_n, struct step_time *ret)
{
    uint32_t n = pace_allowed_below(p, most ? most : 1);
    enum err_code rc = choose(p, &n, ret);

    if (!rc)
        *ret_n = n;
    return rc;
}
