/* Why a candidate does not fit, and what would: first among the other candidates, which are known, else tried. */
#include "plan/memo.h"
#include "plan/planning.h"

#include <stdio.h>

/* --- the nearest change --------------------------------------------------------------------------------------------------------- */

struct change {
    enum tuning tuning;
    enum tri checkpointing;
};

static bool differs_only_so(const struct plan_candidate *a, const struct plan_candidate *b, struct change to)
{
    for (int i = 0; i < AXIS_COUNT; i++)
        if (i != AXIS_TUNING && i != AXIS_CHECKPOINTING && a->choice[i] != b->choice[i])
            return false;
    return a->sync_each_batch == b->sync_each_batch && b->step.r.tuning == to.tuning && b->step.r.gradient_checkpointing == to.checkpointing;
}

/* Another candidate is this change: its search has told already. */
static const struct plan_candidate *twin(const struct planning *p, const struct plan_candidate *c, struct change to)
{
    for (uint32_t i = 0; i < p->answer->n; i++) {
        const struct plan_candidate *other = &p->answer->candidates[i];

        if (other != c && other->modelled && differs_only_so(c, other, to))
            return other;
    }
    return NULL;
}

enum { FAR = 4 }; /* a quarter below the budget: nobody has to play how the allocator cuts its segments, nor to look closer than models of few layers do */

/* Lines over depth are closer than that where they were looked at (search.c). Empirical. */
static const double NEAR = 0.03;

static bool is_near(uint64_t bytes, uint64_t limit)
{
    double apart = (double)bytes - (double)limit;

    return (apart < 0 ? -apart : apart) < NEAR * (double)limit;
}

/* Of a model that is loaded whole and cut then the highest moment of loading is one of the embedding's in few layers and one of the layers' in many: no line
 * goes through it. */
static enum err_code look_at_loading(const struct probe *probe, uint32_t n, uint64_t clear, const struct measured *foreseen, uint64_t *loading)
{
    struct measured m;
    enum err_code rc;

    if (probe->step->r.method == METHOD_SINGLE || *loading <= foreseen->static_bytes || *loading >= clear)
        return ERR_OK;
    rc = probe_walk(probe, n, &m);
    if (!rc && m.loading_bytes > *loading)
        *loading = m.loading_bytes;
    return rc;
}

/* What is near either limit is walked, and what lies between them is played. */
static enum err_code look_closer(const struct probe *probe, uint32_t n, uint64_t budget, uint64_t clear, struct measured *m, bool *ret)
{
    uint64_t loading = m->loading_bytes;
    enum err_code rc = m->walk_peak_bytes <= budget ? look_at_loading(probe, n, clear, m, &loading) : ERR_OK;

    if (rc)
        return rc;
    if (m->walk_peak_bytes >= clear && (is_near(m->walk_peak_bytes, clear) || is_near(m->walk_peak_bytes, budget)))
        rc = probe_fold(probe, n, false, m);
    *ret = !rc && m->walk_peak_bytes < clear && loading < clear;
    if (rc || *ret || m->walk_peak_bytes > budget || loading > budget)
        return rc;
    return probe_may_advise(probe, n, ret);
}

/* Asked of one change when a candidate is explained and when it is told as advice. */
static struct memo_key key_of(const struct probe *p, uint32_t n, uint64_t budget)
{
    struct step s = probe_step(p, n);
    const uint64_t limits[] = {budget, p->q->expandable_segments, probe_roomy_budget(p)};

    return memo_key(p->q->arch, &s, &p->q->device, limits, sizeof limits);
}

/* Models of few layers tell what is clear of either limit. */
enum err_code surely_fits(const struct probe *probe, uint32_t n, bool *ret, struct measured *ret_foreseen)
{
    uint64_t budget = probe_budget(probe), clear = budget - budget / FAR;
    struct memo_key key = key_of(probe, n, budget);
    const struct memo_row *known = memo_find(probe->memo, &key);
    struct memo_row *row;
    struct measured m = {0};
    enum err_code rc = probe_foresee(probe, n, &m);

    *ret = !rc && known && known->is.fits;
    if (ret_foreseen)
        *ret_foreseen = m;
    if (rc || known)
        return rc;
    rc = look_closer(probe, n, budget, clear, &m, ret);
    row = rc ? NULL : memo_add(probe->memo, &key);
    if (row)
        row->is.fits = *ret;
    return rc;
}

/* The candidate with the change, at the same micro-batch and length. What cannot be run at all is no advice. */
static enum err_code would_fit(struct planning *p, const struct plan_candidate *c, struct change to, uint32_t seq_len_tokens, bool *ret)
{
    const struct plan_candidate *known = seq_len_tokens ? NULL : twin(p, c, to);
    struct recipe r = recipe_of(p->q, c);
    struct step step;
    struct probe probe = probe_on(p, &step);
    uint32_t n = c->step.r.micro_batch_size;
    enum err_code rc;

    *ret = false;
    if (known) {
        *ret = known->max_micro_batch_size >= n;
        return ERR_OK;
    }
    r.tuning = to.tuning;
    r.gradient_checkpointing = to.checkpointing;
    r.seq_len_tokens = seq_len_tokens ? seq_len_tokens : c->step.r.seq_len_tokens;
    rc = train_resolve(&r, p->q->arch, &p->q->device, p->keep, &step, p->err);
    if (!rc && !rests_above(&c->memory, &c->step.r, &probe))
        rc = surely_fits(&probe, n, ret, NULL);
    *ret = *ret && !rc;
    return candidate_tried(p, rc);
}

enum { SHORTEST = 128 };

/* Half the length, and half of that: only for one sequence that is too long. */
static enum err_code try_shorter(struct planning *p, struct plan_candidate *c, struct change as_it_is)
{
    bool ok = false;
    enum err_code rc = ERR_OK;

    for (uint32_t s = c->step.r.seq_len_tokens / 2; !rc && !ok && s >= SHORTEST; s /= 2) {
        rc = would_fit(p, c, as_it_is, s, &ok);
        if (ok)
            c->reason.nearest.seq_len_tokens = s;
    }
    return rc;
}

static enum err_code try_adapters(struct planning *p, struct plan_candidate *c, bool *ret)
{
    struct change to = {TUNING_LORA, c->step.r.gradient_checkpointing};
    enum err_code rc = would_fit(p, c, to, 0, ret);

    if (!rc && !*ret && to.checkpointing == TRI_FALSE) {
        to.checkpointing = TRI_TRUE;
        rc = would_fit(p, c, to, 0, ret);
        c->reason.nearest.gradient_checkpointing = *ret ? TRI_TRUE : TRI_UNSET;
    }
    c->reason.nearest.tuning = *ret ? "lora" : NULL;
    return rc;
}

/* What stands before the first step is the least that any length needs. */
static bool is_hopeless(const struct planning *p, const struct plan_candidate *c)
{
    struct probe probe = probe_on(p, &c->step);
    uint64_t budget = probe_budget(&probe);

    return c->memory.static_bytes > budget || c->memory.loading_bytes > budget || rests_above(&c->memory, &c->step.r, &probe);
}

/* Of one that was not played, as many as leave the allocator its remainder. */
static enum err_code clear_batch(struct planning *p, struct plan_candidate *c, uint32_t *ret)
{
    struct probe probe = probe_on(p, &c->step);
    struct remainder r;

    *ret = c->max_micro_batch_size;
    return !*ret || c->basis == BASIS_REPLAYED ? ERR_OK : probe_most_within(&probe, *ret, &r, ret);
}

/* One thing at a time first; checkpointing before a smaller batch before adapters before a shorter sequence. */
static enum err_code find_nearest(struct planning *p, struct plan_candidate *c)
{
    struct change as_it_is = {c->step.r.tuning, c->step.r.gradient_checkpointing}, checkpointed = {c->step.r.tuning, TRI_TRUE};
    struct plan_nearest *near = &c->reason.nearest;
    enum err_code rc = ERR_OK;
    bool ok = false, hopeless = is_hopeless(p, c);
    uint32_t n = 0;

    if (as_it_is.checkpointing == TRI_FALSE && !hopeless)
        rc = would_fit(p, c, checkpointed, 0, &ok);
    if (!ok && hopeless)
        c->max_micro_batch_size = 0;
    else if (!rc && !ok)
        rc = candidate_tried(p, candidate_advise_less(p, c));
    if (ok)
        near->gradient_checkpointing = TRI_TRUE;
    else if (!rc)
        rc = candidate_tried(p, clear_batch(p, c, &n));
    near->micro_batch_size = n;
    if (rc || ok || n)
        return rc;
    if (c->step.r.tuning == TUNING_FULL)
        rc = try_adapters(p, c, &ok);
    return rc || ok || hopeless ? rc : try_shorter(p, c, as_it_is);
}

/* --- the reason ----------------------------------------------------------------------------------------------------------------- */

enum { BESIDE_BYTES = 1 << 27 }; /* less than that reads as nothing beside what is needed */

static enum err_code explain_gpu(struct planning *p, struct plan_candidate *c, uint64_t budget, uint64_t allocated)
{
    struct probe probe = probe_on(p, &c->step);
    uint64_t loading = c->memory.loading_bytes, need = allocated > budget ? allocated : loading > budget ? loading : c->device_bytes - probe_beside(&probe);
    bool holds_more = c->basis == BASIS_REPLAYED && allocated > budget && c->device_bytes - probe_beside(&probe) > need + BESIDE_BYTES;
    bool may_fit = recipe_is_a_range(&c->step.r) && c->low_bytes <= budget;
    const char *why = may_fit              ? " at the most; at the least (low_bytes) it would fit"
                      : holds_more         ? " for live tensors alone"
                      : allocated > budget ? ""
                           : loading > budget   ? ": each GPU takes the whole model before it is cut"
                                                : ": the allocator cannot find a free block among those it holds";
    char text[160];
    int n = snprintf(text, sizeof text, "needs %.1f GiB more at %s%s", (double)(need - budget) / 1073741824.0,
                     allocated <= budget && loading > budget ? "loading" : phase_name(c->memory.peak_phase), why);

    c->reason.code = "does-not-fit";
    c->reason.detail = arena_str(p->keep, text, (size_t)n);
    return c->reason.detail ? find_nearest(p, c) : no_room(p);
}

static enum err_code explain_host(struct planning *p, struct plan_candidate *c)
{
    uint64_t missing = c->host_bytes_per_node - p->q->host_memory_bytes_per_node;
    char text[160];
    int n = snprintf(text, sizeof text, "offload keeps %.1f GiB more on each node than its host memory", (double)missing / 1073741824.0);

    c->reason.code = "host-memory";
    c->reason.detail = arena_str(p->keep, text, (size_t)n);
    return c->reason.detail ? ERR_OK : no_room(p);
}

enum err_code explain(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = probe_on(p, &c->step);
    uint64_t budget = probe_budget(&probe), allocated = peak_of(p->q, c);

    if (p->q->host_memory_bytes_per_node && c->host_bytes_per_node > p->q->host_memory_bytes_per_node)
        return explain_host(p, c);
    return explain_gpu(p, c, budget, allocated);
}
