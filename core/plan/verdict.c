/* A candidate's verdict: by replays, or by live blocks where they are clear of the budget. */
#include "base/budget.h"
#include "plan/longest.h"
#include "plan/pace.h"
#include "plan/planning.h"

uint64_t peak_of(const struct plan_question *q, const struct plan_candidate *c)
{
    const struct measured *m = &c->memory;

    return c->basis == BASIS_REPLAYED && q->expandable_segments ? m->peak_allocated_expandable_bytes : m->peak_allocated_bytes;
}

static uint64_t lagging_of(const struct plan_question *q, const struct measured *m)
{
    return q->expandable_segments ? m->peak_active_lagging_expandable_bytes : m->peak_active_lagging_bytes;
}

/* low..high of one reading. */
static void span(const struct planning *p, const struct plan_candidate *c, uint64_t *ret_low, uint64_t *ret_high)
{
    bool replayed = c->basis == BASIS_REPLAYED;
    uint64_t low = peak_of(p->q, c), high = replayed ? low : low + (uint64_t)(PLAN_LARGEST_REMAINDER * (double)low);

    if (replayed && c->memory.crossed && lagging_of(p->q, &c->memory) > high)
        high = lagging_of(p->q, &c->memory);
    *ret_low = low;
    *ret_high = high;
}

static void take_verdict(struct plan_candidate *c, const struct verdict *v)
{
    c->basis = BASIS_REPLAYED;
    c->fits = v->fits;
    c->tight = v->tight;
    c->retries = v->retries;
    c->memory = v->memory;
    c->device_bytes = v->device_bytes;
}

/* What the other reading of an undated stack would need, with the same options. It fits where both do; else the one that does not answers. */
static enum err_code widen(struct planning *p, struct plan_candidate *c)
{
    struct plan_candidate other = *c;
    struct probe probe = probe_on(p, &other.step);
    uint32_t n = c->step.r.micro_batch_size;
    struct verdict v = {0};
    uint64_t low, high;
    enum err_code rc;

    other.step.quirks = quirks_otherwise(&c->step.r.stack, p->q->arch->model_type);
    rc = c->basis == BASIS_REPLAYED ? probe_judge(&probe, n, c->fits, &v) : probe_fold(&probe, n, !c->fits, &v.memory);
    if (rc)
        return rc == ERR_FIELD_CONFLICT ? ERR_OK : rc;
    other.memory = v.memory;
    if (c->basis == BASIS_REPLAYED)
        take_verdict(&other, &v);
    span(p, &other, &low, &high);
    other.low_bytes = low < c->low_bytes ? low : c->low_bytes;
    other.high_bytes = high > c->high_bytes ? high : c->high_bytes;
    c->low_bytes = other.low_bytes;
    c->high_bytes = other.high_bytes;
    c->tight |= other.tight;
    if (c->fits && !other.fits) {
        other.step.quirks = c->step.quirks;
        *c = other;
    }
    return ERR_OK;
}

/*
 * Another GPU's kernels answer: what the live blocks come to with attention's other kernel. Before sm_80 that is attention written out, which is
 * what PyTorch falls back to; on newer and other vendors' GPUs the memory-efficient kernel, which runs where flash is not allowed. The verdict stays.
 */
static enum err_code widen_kernels(struct planning *p, struct plan_candidate *c)
{
    struct step step = c->step;
    struct probe probe = {.q = p->q, .step = &step, .scratch = p->scratch, .err = p->err, .memo = p->memo};
    struct measured m = {0};
    enum err_code rc;

    if (step.r.attention != ATTENTION_SDPA)
        return ERR_OK;
    if (p->q->device.cc_major < 8)
        step.r.attention = ATTENTION_EAGER;
    else
        step.r.no_flash = true;
    rc = probe_fold(&probe, step.r.micro_batch_size, true, &m);
    if (rc) /* what this kernel is refused for is no refusal of the other's answer */
        return err_status(rc) == 422 ? ERR_OK : rc;
    if (m.walk_peak_bytes < c->low_bytes)
        c->low_bytes = m.walk_peak_bytes;
    if (c->fits && m.walk_peak_bytes > probe_budget(&probe)) { /* then it would not fit: no figure of what is said to fit is above the GPU's */
        m.walk_peak_bytes = probe_budget(&probe);
        c->tight = true;
    }
    if (m.walk_peak_bytes > c->high_bytes)
        c->high_bytes = m.walk_peak_bytes;
    return ERR_OK;
}

static bool lacks_host_memory(const struct plan_question *q, const struct plan_candidate *c)
{
    return q->host_memory_bytes_per_node && c->host_bytes_per_node > q->host_memory_bytes_per_node;
}

/* What the host has to hold; where it cannot, nothing fits. */
static void take_host(const struct plan_question *q, struct plan_candidate *c)
{
    uint32_t here = q->gpus_per_node ? q->gpus_per_node : q->gpus, nodes = q->gpus > here ? q->gpus / here : 1;

    c->host_bytes_per_node = c->memory.host_bytes_of_all / nodes;
    if (lacks_host_memory(q, c))
        c->fits = false;
}

/* What a verdict at the candidate's micro-batch means. */
static enum err_code told(struct planning *p, struct plan_candidate *c, const struct verdict *v)
{
    enum err_code rc;

    take_verdict(c, v);
    span(p, c, &c->low_bytes, &c->high_bytes);
    rc = p->q->undated ? widen(p, c) : ERR_OK;
    if (!rc && p->q->device.untraced)
        rc = widen_kernels(p, c);
    if (!rc && recipe_is_a_range(&c->step.r))
        rc = widen_to_least(p, c);
    if (!rc)
        take_host(p->q, c);
    return rc;
}

static enum err_code replay(struct planning *p, struct plan_candidate *c, const struct probe *probe, bool likely)
{
    struct verdict v;
    enum err_code rc = probe_judge(probe, c->step.r.micro_batch_size, likely, &v);

    return rc ? rc : told(p, c, &v);
}

/* The same of one that leaves room. One that does not is tight, and its other figures would be in vain where a smaller one takes its place. */
static enum err_code replay_roomy(struct planning *p, struct plan_candidate *c, const struct probe *probe)
{
    struct verdict v;
    struct fit fit;
    enum err_code rc = probe_fits(probe, c->step.r.micro_batch_size, MEASURE_ROOMY, &fit);

    if (rc)
        return rc;
    c->fits = fit.fits;
    c->tight = fit.fits;
    if (!fit.measured)
        return ERR_OK;
    probe_tell(probe, &fit.memory, false, &v);
    return told(p, c, &v);
}

/* A searched micro-batch that only one reading of an undated stack has room for gives way to a smaller one. */
static enum err_code replay_less(struct planning *p, struct plan_candidate *c, const struct probe *probe, uint32_t largest)
{
    enum err_code rc = ERR_OK;

    while (!rc && !c->fits && !lacks_host_memory(p->q, c) && c->step.r.micro_batch_size > 1) {
        uint32_t n = c->step.r.micro_batch_size;

        c->max_micro_batch_size = pace_allowed_below(probe, n - 1 - n / 16);
        candidate_take(p, c, c->max_micro_batch_size);
        rc = replay(p, c, probe, c->step.r.micro_batch_size <= largest);
    }
    return rc;
}

/* A searched micro-batch that turns out tight gives way to a smaller one that leaves room: one step down, or two. */
static enum err_code make_room(struct planning *p, struct plan_candidate *c, const struct probe *probe)
{
    struct plan_candidate roomy = *c;
    enum err_code rc = ERR_OK;

    for (int i = 0; !rc && i < 2 && roomy.fits && roomy.tight && roomy.step.r.micro_batch_size > 1; i++) {
        uint32_t was = roomy.step.r.micro_batch_size, n = pace_allowed_below(probe, was - 1 - was / 16);
        bool worth_it = false;

        rc = pace_worth(probe, n, c->step.r.micro_batch_size, &worth_it);
        if (rc || !worth_it)
            return rc;
        candidate_take(p, &roomy, n);
        rc = replay_roomy(p, &roomy, probe);
    }
    if (!rc && roomy.fits && !roomy.tight && c->tight)
        *c = roomy;
    return rc;
}

/* What makes an answer better ends where the work does that is kept for the answer itself. */
struct reserve {
    struct budget *b;
    uint64_t limit_events;
    unsigned char *mark;
};

static struct reserve reserve_for(struct planning *p, const struct largest_fit *f)
{
    struct reserve r = {.b = p->scratch->budget, .mark = p->scratch->cur};
    uint64_t kept = probe_reserve(f);

    if (!r.b)
        return r;
    r.limit_events = r.b->limit_events;
    if (kept && r.b->events < r.limit_events)
        r.b->limit_events = r.b->events + kept < r.limit_events ? r.limit_events - kept : r.b->events;
    return r;
}

/* True: there is work left, and that reserve was what ended it. */
static bool reserve_back(struct planning *p, struct reserve r, enum err_code rc)
{
    if (!r.b)
        return false;
    r.b->limit_events = r.limit_events;
    if (rc != ERR_BUDGET || budget_is_over(r.b))
        return false;
    arena_rewind(p->scratch, r.mark);
    return true;
}

static enum err_code room_within(struct planning *p, struct plan_candidate *c, const struct probe *probe, const struct largest_fit *f)
{
    struct reserve r = reserve_for(p, f);
    enum err_code rc = make_room(p, c, probe);

    return reserve_back(p, r, rc) ? ERR_OK : rc;
}

/* The largest, where what would be the fastest cannot be found any more. */
static enum err_code fastest_within(struct planning *p, const struct probe *probe, const struct largest_fit *f, uint32_t *ret_n)
{
    struct reserve r = reserve_for(p, f);
    enum err_code rc = pace_fastest(probe, f, ret_n);

    if (!reserve_back(p, r, rc))
        return rc;
    *ret_n = pace_allowed_below(probe, f->n);
    return ERR_OK;
}

/* The verdict at a searched micro-batch. Of a stack with two readings both have to tell before anything is known to be tight. */
static enum err_code replay_searched(struct planning *p, struct plan_candidate *c, const struct probe *probe, const struct largest_fit *f)
{
    uint32_t largest = f->n;
    enum err_code rc = ERR_OK;

    c->basis = BASIS_NONE;
    c->room_tried = p->rooms_of_all || !largest;
    if (p->q->undated)
        rc = replay(p, c, probe, c->step.r.micro_batch_size <= largest);
    else if (p->rooms_of_all)
        rc = replay_roomy(p, c, probe);
    if (!rc && largest && p->q->undated)
        rc = replay_less(p, c, probe, largest);
    if (!rc && largest && p->rooms_of_all)
        rc = room_within(p, c, probe, f);
    if (!rc && c->basis != BASIS_REPLAYED)
        rc = replay(p, c, probe, c->step.r.micro_batch_size <= largest);
    return rc;
}

static struct probe probe_at(const struct planning *p, struct plan_candidate *c)
{
    struct probe probe = probe_on(p, &c->step);

    probe.paces = &c->paces;
    return probe;
}

static enum err_code longest(struct planning *p, struct plan_candidate *c, const struct probe *probe, uint32_t n)
{
    return p->q->objective == OBJECTIVE_LONGEST_SEQUENCE ? longest_sequence(probe, n, &c->max_seq_len_tokens) : ERR_OK;
}

static enum err_code settle_searched(struct planning *p, struct plan_candidate *c, const struct probe *probe)
{
    struct largest_fit f;
    uint32_t n = 1;
    enum err_code rc = probe_largest(probe, c->max_micro_batch_size, 0, &f);

    if (!rc)
        rc = fastest_within(p, probe, &f, &n);
    if (!rc)
        rc = longest(p, c, probe, 1);
    if (rc)
        return rc;
    c->max_micro_batch_size = f.n;
    candidate_take(p, c, n);
    rc = replay_searched(p, c, probe, &f);
    if (!rc)
        rc = f.n ? pace_at(probe, c->step.r.micro_batch_size, &c->time) : pace_foresee(probe, n, &c->time);
    return rc;
}

static enum err_code find_largest(struct plan_candidate *c, const struct probe *probe, uint32_t bad)
{
    struct largest_fit f;
    enum err_code rc = probe_largest(probe, c->max_micro_batch_size, bad, &f);

    if (!rc)
        c->max_micro_batch_size = f.n;
    return rc;
}

/* Nobody has foretold it where it is played at any rate: what does not fit is foretold then, and costs what it would have cost had it been before. */
static enum err_code judge_asked(struct planning *p, struct plan_candidate *c, const struct probe *probe, struct verdict *ret)
{
    struct budget *b = p->scratch->budget;
    uint64_t events = b ? b->events : 0;
    uint32_t n = p->q->recipe.micro_batch_size;
    struct fit fit;
    enum err_code rc;

    if (p->plays_all) {
        rc = probe_fits(probe, n, MEASURE_FITTING, &fit);
        if (!rc && fit.fits)
            probe_tell(probe, &fit.memory, fit.retries, ret);
        if (rc || fit.fits)
            return rc;
        if (b)
            b->events = events;
        c->memory = fit.walk;
        rc = candidate_foretell_asked(p, c);
        if (rc)
            return rc;
    }
    return probe_judge(probe, n, n <= c->max_micro_batch_size, ret);
}

/* An asked micro-batch is judged by itself. */
static enum err_code settle_asked(struct planning *p, struct plan_candidate *c, const struct probe *probe)
{
    uint32_t n = p->q->recipe.micro_batch_size;
    struct verdict v;
    enum err_code rc = p->q->largest ? find_largest(c, probe, 0) : ERR_OK;

    if (!rc)
        rc = longest(p, c, probe, n);
    if (!rc)
        rc = judge_asked(p, c, probe, &v);
    if (!rc)
        rc = v.fits ? pace_at(probe, n, &c->time) : pace_foresee(probe, n, &c->time);
    if (rc)
        return rc;
    if (!p->q->largest)
        c->max_micro_batch_size = v.fits ? n : c->max_micro_batch_size < n ? c->max_micro_batch_size : n - 1;
    candidate_take(p, c, n);
    c->room_tried = true; /* it was asked */
    return told(p, c, &v);
}

enum err_code candidate_settle(struct planning *p, struct plan_candidate *c)
{
    unsigned char *mark = p->scratch->cur;
    struct probe probe = probe_at(p, c);
    enum err_code rc;

    probe.plays = train_plays_new(p->scratch);
    rc = p->q->recipe.micro_batch_size ? settle_asked(p, c, &probe) : settle_searched(p, c, &probe);
    arena_rewind(p->scratch, mark);
    return rc;
}

enum err_code candidate_make_room(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = probe_at(p, c);
    uint32_t was = c->step.r.micro_batch_size;
    enum err_code rc;

    c->room_tried = true;
    rc = make_room(p, c, &probe);
    if (rc == ERR_BUDGET) { /* what it has been told stands */
        arena_rewind(p->scratch, p->begin);
        return ERR_OK;
    }
    return rc || c->step.r.micro_batch_size == was ? rc : pace_at(&probe, c->step.r.micro_batch_size, &c->time);
}

/* What was foreseen of a candidate that does not fit as it was asked is played before it is advised. */
enum err_code candidate_advise_less(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = probe_on(p, &c->step);

    if (!p->q->recipe.micro_batch_size || p->q->largest || c->basis != BASIS_REPLAYED)
        return ERR_OK;
    return find_largest(c, &probe, c->step.r.micro_batch_size);
}

static void take_fewer(struct planning *p, struct plan_candidate *c, const struct probe *probe, uint32_t most)
{
    c->max_micro_batch_size = most;
    candidate_take(p, c, pace_allowed_below(probe, most));
}

/* Of what was searched: as many as leave the allocator its remainder, as models of few layers tell both; one sequence where none does. */
static enum err_code leave_remainder(struct planning *p, struct plan_candidate *c, const struct probe *probe, struct remainder *r)
{
    uint32_t most = c->max_micro_batch_size, within;
    enum err_code rc;

    if (p->q->recipe.micro_batch_size || !most)
        return probe_remainder(probe, c->step.r.micro_batch_size, r);
    rc = probe_most_within(probe, most, r, &within);
    if (rc)
        return rc;
    if (within < most)
        take_fewer(p, c, probe, within ? within : 1);
    return c->step.r.micro_batch_size < within ? probe_remainder(probe, c->step.r.micro_batch_size, r) : ERR_OK;
}

/* At the foreseen micro-batch; of one that was searched, at the next smaller until it surely fits. */
static enum err_code look_within(struct planning *p, struct plan_candidate *c, const struct probe *probe, bool *ret)
{
    bool asked = p->q->recipe.micro_batch_size;
    struct remainder r = {0};
    enum err_code rc = c->fits ? leave_remainder(p, c, probe, &r) : ERR_OK;

    *ret = false;
    while (!rc) {
        uint32_t n = c->step.r.micro_batch_size;

        rc = probe_fold(probe, n, !c->fits, &c->memory);
        c->low_bytes = c->memory.walk_peak_bytes;
        c->high_bytes = remainder_beside(c->low_bytes, &r);
        *ret = c->fits && c->high_bytes <= probe_budget(probe);
        if (!rc && c->fits && (asked || !*ret || n == 1)) /* else a block more was left when it was foreseen */
            rc = probe_surely_within(probe, n, c->low_bytes, &r, ret);
        if (*ret && c->high_bytes > probe_budget(probe)) /* it was played: by what is given back it stays within */
            c->high_bytes = probe_budget(probe);
        if (rc || !c->fits || *ret || asked || n == 1)
            return rc;
        take_fewer(p, c, probe, probe_fewer(probe, n, c->memory.static_bytes, c->low_bytes, &r));
    }
    return rc;
}

/* What is played to tell whether it fits is played once. */
static enum err_code look_once(struct planning *p, struct plan_candidate *c, bool *ret)
{
    unsigned char *mark = p->scratch->cur;
    struct probe probe = probe_on_candidate(p, c);
    enum err_code rc;

    probe.plays = train_plays_new(p->scratch);
    if (!c->fits)
        probe.paces = NULL;
    rc = look_within(p, c, &probe, ret);
    arena_rewind(p->scratch, arena_kept(p->scratch, mark));
    return rc;
}

/* A folded walk tells nothing of the host. */
static enum err_code host_of(const struct probe *probe, struct plan_candidate *c)
{
    struct measured m;
    enum err_code rc = probe_foresee(probe, c->step.r.micro_batch_size, &m);

    c->memory.host_bytes = rc ? 0 : m.host_bytes;
    c->memory.host_bytes_of_all = rc ? 0 : m.host_bytes_of_all;
    return rc;
}

enum err_code candidate_bound(struct planning *p, struct plan_candidate *c)
{
    struct probe probe = probe_at(p, c);
    bool within;
    enum err_code rc = look_once(p, c, &within);

    if (!rc && c->fits) /* of what does not fit the time stays as it was foreseen */
        rc = pace_at(&probe, c->step.r.micro_batch_size, &c->time);
    if (rc)
        return rc;
    c->basis = BASIS_BOUNDED;
    if (c->step.r.offload != OFFLOAD_NONE)
        rc = host_of(&probe, c);
    if (rc)
        return rc;
    take_host(p->q, c);
    if (lacks_host_memory(p->q, c))
        return ERR_OK;
    c->tight = c->fits && probe_is_tight(&probe, c->high_bytes + probe_beside(&probe));
    if (p->q->undated)
        rc = widen(p, c);
    if (!rc && p->q->device.untraced)
        rc = widen_kernels(p, c);
    if (!rc && recipe_is_a_range(&c->step.r))
        rc = widen_to_least(p, c);
    if (rc)
        return rc;
    if (c->fits ? !within : c->low_bytes <= probe_budget(&probe)) {
        if (!c->max_micro_batch_size && c->step.r.micro_batch_size == 1)
            c->max_micro_batch_size = 1; /* its live blocks do not exceed: a replay has to tell */
        return candidate_settle(p, c);
    }
    return ERR_OK;
}
