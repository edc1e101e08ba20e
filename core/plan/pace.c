#include "plan/pace.h"

#include "train/timing.h"

enum { TRIES = 4 };

/* Slower by less is called equal: the model of time is not finer. */
static const double EQUAL = 0.995;

/* One GPU of the cluster, or all. */
static struct perf_system system_of(const struct probe *p, const struct step *s)
{
    struct perf_system system = *p->q->system;

    if (s->r.data_parallel == 1)
        system.gpus_per_node = system.nodes = 1;
    return system;
}

enum err_code pace_at(const struct probe *p, uint32_t n, struct step_time *ret)
{
    unsigned char *mark = p->scratch->cur;
    struct step s = probe_step(p, n);
    struct perf_system system;
    struct cost cost;
    enum err_code rc;

    *ret = (struct step_time){0};
    if (!p->q->system)
        return ERR_OK;
    system = system_of(p, &s);
    rc = train_cost(p->q->arch, &s, &p->q->device, p->scratch, &cost, p->err);
    if (!rc)
        perf_step_time(&cost, &system, ret);
    arena_rewind(p->scratch, mark);
    return rc;
}

enum err_code pace_hopeless(const struct probe *p, struct step_time *ret, struct measured *ret_walk, bool *ret_settled)
{
    unsigned char *mark = p->scratch->cur;
    struct step s = probe_step(p, 1);
    struct perf_system system;
    struct cost cost;
    uint64_t foreseen;
    enum err_code rc = probe_foresee(p, 1, &foreseen);

    *ret_settled = false;
    if (rc || !p->q->system || foreseen <= probe_budget(p) || s.r.gradient_accumulation_steps > 2)
        return rc;
    rc = train_cost_and_walk(p->q->arch, &s, &p->q->device, p->scratch, &cost, ret_walk, p->err);
    if (rc)
        return rc;
    system = system_of(p, &s);
    perf_step_time(&cost, &system, ret);
    arena_rewind(p->scratch, mark);
    *ret_settled = ret_walk->walk_peak_bytes > probe_budget(p);
    return ERR_OK;
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

static uint32_t allowed_below(const struct probe *p, uint32_t n)
{
    while (n > 1 && !is_allowed(p, n))
        n--;
    return n ? n : 1;
}

/* Down in tenths to one that needs no retry; the largest where none of three does without. */
static enum err_code avoid_retries(const struct probe *p, const struct largest_fit *f, uint32_t *n)
{
    struct fit fit;
    enum err_code rc = ERR_OK;

    if (!f->retries || f->without_retry) {
        *n = f->retries ? f->without_retry : f->n;
        return ERR_OK;
    }
    *n = f->n;
    for (uint32_t k = 1, last = f->n; k <= 3 && last > 1; k++) {
        uint32_t less = f->n > 10 * k ? f->n - f->n * k / 10 : f->n > k ? f->n - k : 1;

        last = less;
        rc = probe_fits(p, less, &fit);
        if (rc || (fit.fits && !fit.retries)) {
            *n = rc ? *n : less;
            break;
        }
    }
    return rc;
}

enum err_code pace_fastest(const struct probe *p, const struct largest_fit *f, uint32_t *ret_n, struct step_time *ret)
{
    struct step_time best;
    uint32_t n = 1;
    enum err_code rc = f->n ? avoid_retries(p, f, &n) : ERR_OK;

    n = allowed_below(p, n);
    if (!rc)
        rc = pace_at(p, n, &best);
    for (int i = 1; !rc && i < TRIES && n > 1 && best.tokens_per_s > 0; i++) {
        struct step_time half;
        uint32_t next = allowed_below(p, n / 2);

        rc = pace_at(p, next, &half);
        if (rc || half.tokens_per_s < EQUAL * best.tokens_per_s)
            break;
        n = next;
        best = half;
    }
    if (rc)
        return rc;
    *ret_n = n;
    *ret = best;
    return ERR_OK;
}
