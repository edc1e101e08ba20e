#include "plan/search.h"

#include "base/budget.h"
#include "parallel/nccl.h"
#include "plan/memo.h"
#include "plan/pace.h"
#include "train/fold.h"
#include "train/timing.h"

#include <string.h>

/* What the process holds beside the allocator. */
uint64_t probe_beside(const struct probe *p)
{
    return p->q->device.context_bytes + nccl_bytes_of(p->step->r.data_parallel, p->step->r.tensor_parallel, p->step->r.pipeline_parallel);
}

uint64_t probe_budget(const struct probe *p)
{
    double kept = p->q->margin * (double)p->q->capacity_bytes;
    uint64_t limit = p->q->capacity_bytes - (uint64_t)kept, taken = probe_beside(p);

    return limit > taken ? limit - taken : 0;
}

/* As asked, else what fills the global batch, else the method's default. */
static uint32_t accumulation(const struct probe *p, uint32_t n)
{
    uint64_t at_once = (uint64_t)n * p->step->r.data_parallel;

    if (p->q->recipe.gradient_accumulation_steps)
        return p->q->recipe.gradient_accumulation_steps;
    return p->q->global_batch_size > at_once ? (uint32_t)((p->q->global_batch_size + at_once - 1) / at_once)
                                             : p->step->r.gradient_accumulation_steps;
}

struct step probe_step(const struct probe *p, uint32_t n)
{
    struct step s = *p->step;

    s.r.micro_batch_size = n;
    s.r.gradient_accumulation_steps = accumulation(p, n);
    return s;
}

enum err_code probe_walk(const struct probe *p, uint32_t n, struct measured *ret)
{
    struct step s = probe_step(p, n);

    return train_walk(p->q->arch, &s, &p->q->device, p->scratch, ret, p->err);
}

/* --- ranks that are foreseen to be lower than another ------------------------------------------------------------------------ */

/* Lines over depth and batch are that close where they were tried near by. Empirical: 0.01 % at most over depth where it was looked at; a kink may hide
 * between two batches. */
static const double SURELY_LOWER = 0.97;

static double along_batches(const struct plan_ranks *r, enum plan_depth of, uint32_t near, uint32_t far, uint32_t n, uint32_t rank)
{
    double a = (double)r->tried[near].bytes[of][rank], b = (double)r->tried[far].bytes[of][rank];
    double between = (double)r->tried[far].micro_batch_size - r->tried[near].micro_batch_size;

    return near == far ? a : a + (b - a) / between * ((double)n - r->tried[near].micro_batch_size);
}

static uint32_t distance(const struct plan_ranks *r, uint32_t i, uint32_t n)
{
    uint32_t at = r->tried[i].micro_batch_size;

    return at > n ? at - n : n - at;
}

/* The nearest that was tried, but for one. */
static uint32_t nearest(const struct plan_ranks *r, uint32_t kept, uint32_t n, uint32_t but)
{
    uint32_t best = but ? 0 : 1;

    for (uint32_t i = best + 1; i < kept; i++)
        if (i != but && distance(r, i, n) < distance(r, best, n))
            best = i;
    return best;
}

/* A bit for each rank that need not be walked at n. */
static uint32_t surely_lower(const struct plan_ranks *r, enum plan_depth of, uint32_t n)
{
    uint32_t kept = r && r->n < PLAN_RANKS_TRIED ? r->n : PLAN_RANKS_TRIED, skip = 0, near, far;
    double foreseen[RANKS_TOLD], highest = 0;

    if (!r || !r->n || !r->ranks)
        return 0;
    near = nearest(r, kept, n, kept);
    far = !distance(r, near, n) ? near : nearest(r, kept, n, near);
    if (distance(r, near, n) > n / 2 || far >= kept)
        return 0;
    for (uint32_t i = 0; i < r->ranks; i++) {
        foreseen[i] = along_batches(r, of, near, far, n, i);
        highest = foreseen[i] > highest ? foreseen[i] : highest;
    }
    for (uint32_t i = 0; i < r->ranks; i++)
        skip |= (uint32_t)(foreseen[i] < SURELY_LOWER * highest) << i;
    return skip;
}

/* Or may be. */
static bool is_asked_time(const struct probe *p)
{
    return p->paces && p->q->system;
}

enum err_code probe_fold(const struct probe *p, uint32_t n, bool one_step, struct measured *ret)
{
    struct step s = probe_step(p, n);
    struct rank_peaks peaks = {.skip = surely_lower(p->ranks, PLAN_WHOLE, n)};
    unsigned char *mark = p->scratch->cur;
    bool tells = is_asked_time(p);
    struct cost cost;
    enum err_code rc = train_fold(p->q->arch, &s, &p->q->device, one_step, &peaks, tells ? &cost : NULL, p->scratch, ret, p->err);

    if (!rc && tells && cost.n_kernels) {
        rc = pace_told(p, n, &cost);
        arena_rewind(p->scratch, arena_kept(p->scratch, mark));
    }
    return rc;
}

/* `of` is NULL where nothing says how fast the GPU is. */
static struct timekeeper timekeeper_of(const struct probe *p)
{
    return p->q->system ? perf_timekeeper(p->q->system) : (struct timekeeper){0};
}

static enum err_code ask_fit(const struct probe *p, uint32_t n, enum measuring measuring, bool highest_alone, struct fit *ret)
{
    struct step s = probe_step(p, n);
    struct timekeeper keeper = timekeeper_of(p);
    struct fit_question q = {.capacity_bytes = probe_budget(p),
                             .expandable_segments = p->q->expandable_segments,
                             .measuring = measuring,
                             .roomy_bytes = probe_roomy_budget(p),
                             .keeper = keeper.of ? &keeper : NULL,
                             .plays = p->plays,
                             .highest_alone = highest_alone};

    return train_fits(p->q->arch, &s, &p->q->device, &q, p->scratch, ret, p->err);
}

enum err_code probe_fits(const struct probe *p, uint32_t n, enum measuring measuring, struct fit *ret)
{
    return ask_fit(p, n, measuring, false, ret);
}

enum err_code probe_may_advise(const struct probe *p, uint32_t n, bool *ret)
{
    struct fit fit;
    enum err_code rc = ask_fit(p, n, MEASURE_NOTHING, true, &fit);

    *ret = !rc && fit.fits;
    return rc;
}

/* --- the verdict --------------------------------------------------------------------------------------------------------------- */

static const double TIGHT = 0.95; /* of the capacity */

bool probe_is_tight(const struct probe *p, uint64_t device_bytes)
{
    return (double)device_bytes > TIGHT * (double)p->q->capacity_bytes;
}

uint64_t probe_roomy_budget(const struct probe *p)
{
    uint64_t limit = (uint64_t)(TIGHT * (double)p->q->capacity_bytes), taken = probe_beside(p), budget = probe_budget(p);

    limit = limit > taken ? limit - taken : 0;
    return limit < budget ? limit : budget;
}

void probe_tell(const struct probe *p, const struct measured *m, bool retries, struct verdict *ret)
{
    uint64_t reserved = measured_reserved(m, p->q->expandable_segments);

    ret->memory = *m;
    ret->device_bytes = reserved + probe_beside(p);
    ret->fits = reserved <= probe_budget(p) && m->loading_bytes <= probe_budget(p);
    ret->tight = ret->fits && (retries || probe_is_tight(p, ret->device_bytes));
    ret->retries = ret->fits && retries;
}

/* Under the budget. */
static enum err_code judge_within(const struct probe *p, uint32_t n, struct verdict *v)
{
    struct fit fit;
    enum err_code rc = probe_fits(p, n, MEASURE_FITTING, &fit);

    if (!rc && fit.fits)
        probe_tell(p, &fit.memory, fit.retries, v);
    return rc;
}

/* Without a limit. */
static enum err_code judge_freely(const struct probe *p, uint32_t n, struct verdict *v)
{
    struct step s = probe_step(p, n);
    struct measured m;
    struct timekeeper keeper = timekeeper_of(p);
    enum err_code rc = train_measure(p->q->arch, &s, &p->q->device, p->q->expandable_segments, keeper.of ? &keeper : NULL, p->scratch, &m, p->err);

    if (!rc)
        probe_tell(p, &m, false, v);
    return rc;
}

/* Beyond the budget only release and retry can help; not if the live blocks alone exceed it. What waits for other streams is within the
 * budget on a GPU that has no more. */
static bool needs_limit(const struct probe *p, const struct verdict *v)
{
    uint64_t budget = probe_budget(p), lagging = p->q->expandable_segments ? v->memory.peak_reserved_lagging_expandable_bytes
                                                                           : v->memory.peak_reserved_lagging_bytes;

    return v->fits ? lagging > budget : v->memory.walk_peak_bytes <= budget && v->memory.loading_bytes <= budget;
}

enum err_code probe_judge(const struct probe *p, uint32_t n, bool likely, struct verdict *ret)
{
    struct verdict v = {0};
    enum err_code rc = likely ? judge_within(p, n, &v) : ERR_OK;

    if (!rc && !v.fits) {
        rc = judge_freely(p, n, &v);
        if (!rc && !likely && needs_limit(p, &v))
            rc = judge_within(p, n, &v);
    }
    if (!rc)
        *ret = v;
    return rc;
}

/* --- what a model of few layers says of the whole ------------------------------------------------------------------------------- */

void probe_shallow(const struct probe *p, uint32_t layers, struct shallow *ret)
{
    *ret = (struct shallow){.few = *p->q->arch, .q = *p->q, .probe = *p};
    ret->few.layers = fold_of(p->q->arch).prefix + layers * probe_stages(p);
    ret->q.arch = &ret->few;
    ret->probe.q = &ret->q;
}

static bool alternates_at_most(const struct arch *a, struct fold f)
{
    return a->family < FAMILY_COUNT || SHALLOW % f.period == 0;
}

struct depths probe_depths(const struct probe *p)
{
    const struct arch *a = p->q->arch;
    struct fold f = fold_of(a);
    uint32_t rest = (a->layers - f.prefix) % f.period;

    return alternates_at_most(a, f) ? (struct depths){SHALLOW, 2 * SHALLOW} : (struct depths){f.period + rest, 2 * f.period + rest};
}

/* Stages cut where kinds are not the same on each. */
bool probe_may_be_shallow(const struct probe *p)
{
    const struct arch *a = p->q->arch;
    struct fold f = fold_of(a);

    if (a->fixed_depth || probe_layers(p) < DEEP_ENOUGH || (f.prefix && probe_stages(p) > 1))
        return false;
    return alternates_at_most(a, f) || (probe_stages(p) == 1 && 2 * probe_depths(p).far <= probe_layers(p));
}

static enum err_code foretell(const struct probe *p, uint32_t n, struct rank_peaks *peaks, struct measured *ret)
{
    struct step s = probe_step(p, n);
    struct memo_key key = memo_key(p->q->arch, &s, &p->q->device, &peaks->skip, sizeof peaks->skip);
    const struct memo_row *known = memo_find(p->memo, &key);
    unsigned char *mark = p->scratch->cur;
    bool tells = is_asked_time(p);
    struct memo_key key_of_cost;
    struct memo_row *row;
    struct cost cost;
    enum err_code rc;

    if (known) {
        memcpy(ret, known->is.walk.foretold, offsetof(struct measured, largest));
        *peaks = known->is.walk.peaks;
        return budget_status(p->scratch->budget, p->err);
    }
    rc = train_foretell(p->q->arch, &s, &p->q->device, peaks, tells ? &cost : NULL, p->scratch, ret, p->err);
    if (!rc && tells && cost.n_kernels) {
        key_of_cost = memo_key(p->q->arch, &s, &p->q->device, NULL, 0);
        memo_keep_cost(p->memo, &key_of_cost, &cost);
        arena_rewind(p->scratch, mark);
    }
    row = rc ? NULL : memo_add(p->memo, &key);
    if (row) {
        memcpy(row->is.walk.foretold, ret, offsetof(struct measured, largest));
        row->is.walk.peaks = *peaks;
    }
    return rc;
}

/* Blocks that are held and not lived in are those of the batch, of the loss above all: a model of few layers makes as many. Of a pipeline the stage that has
 * the loss, which forgets one micro-batch before it begins the next, is like one GPU. */
enum err_code probe_remainder(const struct probe *p, uint32_t n, struct remainder *ret)
{
    unsigned char *mark = p->scratch->cur;
    struct probe one = *p;
    struct step last = *p->step, step;
    struct shallow s;
    enum err_code rc;

    if (probe_stages(p) > 1) {
        last.r.method = METHOD_SINGLE;
        last.r.pipeline_parallel = 1;
        last.r.gradient_accumulation_steps = 2;
        last.r.rank = 0;
        one.step = &last;
    }
    probe_shallow(&one, probe_may_be_shallow(&one) ? probe_depths(&one).near : probe_layers(&one), &s);
    step = probe_step(&s.probe, n);
    rc = train_remainder(&s.few, &step, &p->q->device, p->q->expandable_segments, p->scratch, ret, p->err);
    arena_rewind(p->scratch, arena_kept(p->scratch, mark));
    return rc;
}

uint64_t remainder_beside(uint64_t live, const struct remainder *r)
{
    uint64_t unsplit = (uint64_t)(PLAN_LARGEST_REMAINDER * (double)live);

    return live + (r->held_bytes > unsplit ? r->held_bytes : unsplit);
}

enum { FEW = 2 }; /* sequences, of which one less is half or none: worth a replay */

uint32_t probe_fewer(const struct probe *p, uint32_t n, uint64_t stands, uint64_t live, const struct remainder *r)
{
    uint64_t budget = probe_budget(p), needs = remainder_beside(live, r) + r->largest_bytes;
    uint32_t less = n > FEW && stands < budget ? (uint32_t)((double)n * (double)(budget - stands) / (double)(needs - stands)) : 0;

    return less && less < n ? less : n - 1;
}

/* ZeRO-3 gathers a layer's adapters between what was unpacked of its weights: what is cut so grows with the depth. */
static bool cuts_in_each_layer(const struct step *s)
{
    return s->r.method == METHOD_ZERO3 && s->r.quantization;
}

enum err_code probe_surely_within(const struct probe *p, uint32_t n, uint64_t live, const struct remainder *r, bool *ret)
{
    uint64_t budget = probe_budget(p);
    bool told = !cuts_in_each_layer(p->step);
    struct fit fit;
    enum err_code rc;

    *ret = told && remainder_beside(live, r) + r->largest_bytes <= budget;
    if (*ret || live > budget || (told && n > FEW))
        return ERR_OK;
    rc = probe_fits(p, n, MEASURE_NOTHING, &fit);
    *ret = !rc && fit.fits;
    return rc;
}

/* Fewer sequences live below the chord from what stands to what n need: a peak is the highest of lines. */
enum err_code probe_most_within(const struct probe *p, uint32_t n, struct remainder *r, uint32_t *ret)
{
    struct measured m = {0};
    enum err_code rc = n ? probe_foresee(p, n, &m) : ERR_OK;
    uint64_t stands = m.static_bytes < m.walk_peak_bytes ? m.static_bytes : m.walk_peak_bytes, each = n ? (m.walk_peak_bytes - stands) / n : 0;

    for (bool within = false; !rc && n; n = probe_fewer(p, n, stands, stands + n * each, r)) {
        rc = probe_remainder(p, n, r);
        if (!rc)
            rc = probe_surely_within(p, n, stands + n * each, r, &within);
        if (rc || within)
            break;
    }
    *ret = n;
    return rc;
}

uint32_t probe_layers(const struct probe *p)
{
    uint32_t layers = p->q->arch->layers, prefix = fold_of(p->q->arch).prefix;

    return layers > prefix ? (layers - prefix) / probe_stages(p) : 0;
}

double probe_along(struct depths at, double near, double far, uint32_t layers)
{
    return near + (far - near) / (at.far - at.near) * (layers - at.near);
}

static enum err_code walk_layers(const struct probe *p, uint32_t n, uint32_t layers, struct rank_peaks *peaks, struct measured *ret)
{
    struct shallow s;

    probe_shallow(p, layers, &s);
    return foretell(&s.probe, n, peaks, ret);
}

static void line(struct depths at, uint64_t near, uint64_t far, uint32_t layers, uint64_t *ret)
{
    double whole = probe_along(at, (double)near, (double)far, layers);

    *ret = whole > 0 ? (uint64_t)whole : 0;
}

/* Each figure on a straight line over the depth. */
static void carry_on(struct depths at, const struct measured *a, const struct measured *b, uint32_t layers, struct measured *ret)
{
    struct measured whole = {.worst_rank = b->worst_rank};

    line(at, a->loading_bytes, b->loading_bytes, layers, &whole.loading_bytes);
    line(at, a->static_bytes, b->static_bytes, layers, &whole.static_bytes);
    line(at, a->resting_bytes, b->resting_bytes, layers, &whole.resting_bytes);
    line(at, a->host_bytes, b->host_bytes, layers, &whole.host_bytes);
    line(at, a->host_bytes_of_all, b->host_bytes_of_all, layers, &whole.host_bytes_of_all);
    for (int i = 0; i < PHASE_COUNT; i++) {
        line(at, a->phase_peaks_bytes[i], b->phase_peaks_bytes[i], layers, &whole.phase_peaks_bytes[i]);
        if (whole.phase_peaks_bytes[i] > whole.walk_peak_bytes) {
            whole.walk_peak_bytes = whole.phase_peaks_bytes[i];
            whole.peak_phase = (enum phase)i;
        }
    }
    whole.peak_allocated_bytes = whole.peak_active_bytes = whole.walk_peak_bytes;
    *ret = whole;
}

static void note_ranks(struct depths depths, struct plan_ranks *r, uint32_t n, const struct rank_peaks *a, const struct rank_peaks *b, uint32_t layers)
{
    uint32_t at = r ? r->n % PLAN_RANKS_TRIED : 0;

    if (!r || !a->n || a->skip || b->skip)
        return;
    r->ranks = a->n;
    r->n++;
    r->tried[at].micro_batch_size = n;
    for (uint32_t i = 0; i < a->n; i++) {
        r->tried[at].bytes[PLAN_NEAR][i] = a->bytes[i];
        r->tried[at].bytes[PLAN_FAR][i] = b->bytes[i];
        line(depths, a->bytes[i], b->bytes[i], layers, &r->tried[at].bytes[PLAN_WHOLE][i]);
    }
}

enum err_code probe_foresee(const struct probe *p, uint32_t n, struct measured *ret)
{
    uint32_t layers = probe_layers(p);
    struct depths at = probe_depths(p);
    struct rank_peaks near = {.skip = surely_lower(p->ranks, PLAN_NEAR, n)}, far = {.skip = surely_lower(p->ranks, PLAN_FAR, n)};
    struct measured a, b;
    enum err_code rc;

    if (!probe_may_be_shallow(p)) {
        rc = foretell(p, n, &near, ret);
        far = near;
    } else {
        rc = walk_layers(p, n, at.near, &near, &a);
        if (!rc)
            rc = walk_layers(p, n, at.far, &far, &b);
        if (!rc)
            carry_on(at, &a, &b, layers, ret);
    }
    if (!rc)
        note_ranks(at, p->ranks, n, &near, &far, layers);
    return rc;
}

/* --- the largest ---------------------------------------------------------------------------------------------------------------- */

/* A bracket: `fits` is known to stay within the budget, `exceeds` not to. */
struct bracket {
    uint32_t fits, exceeds;
    uint64_t fits_bytes, exceeds_bytes; /* exceeds_bytes 0: not tried yet, only a limit */
    uint64_t slope_bytes;               /* last rise a sequence */
};

static uint32_t most(const struct probe *p)
{
    uint64_t n = (UINT64_C(1) << 31) / p->step->r.seq_len_tokens; /* tensors beyond 2^31 tokens: PyTorch's kernels refuse */

    uint64_t shared = p->q->global_batch_size / probe_stages(p); /* each stage wants a micro-batch */

    n = probe_stages(p) > 1 && shared && shared < n ? shared : n;
    return n > PLAN_MAX_MICRO_BATCH ? PLAN_MAX_MICRO_BATCH : n ? (uint32_t)n : 1;
}

/* From B = 2 on the peak is nearly a maximum of lines: the secant proposes, every third time the middle does. Until a batch is known
 * that exceeds, no leap goes beyond eightfold: the optimizer's peak hides the slope, and kernels cut tensors over 2^31 elements. */
static uint32_t propose(const struct bracket *b, uint64_t budget, unsigned turn)
{
    uint64_t room = budget - b->fits_bytes, next, last = b->exceeds - 1;
    uint32_t width = b->exceeds - b->fits;

    if (!b->exceeds_bytes && last > 8 * (uint64_t)b->fits)
        last = 8 * (uint64_t)b->fits;
    if (turn % 3 == 2)
        next = b->fits + width / 2;
    else if (b->exceeds_bytes)
        next = b->fits + (uint64_t)((double)room / (double)(b->exceeds_bytes - b->fits_bytes) * width);
    else
        next = b->slope_bytes ? b->fits + room / b->slope_bytes : last;
    if (next <= b->fits)
        return b->fits + 1;
    return (uint32_t)(next > last ? last : next);
}

/* The allocator needs room beside the live blocks, so that the first play of what they alone allow nearly always fails: proposals leave it
 * what remainders take. What is answered as replayed does not depend on it. */
static uint64_t proposed_budget(const struct probe *p)
{
    return (uint64_t)((double)probe_budget(p) / (1 + PLAN_LARGEST_REMAINDER));
}

static enum err_code try_batch(const struct probe *p, struct bracket *b, uint32_t n)
{
    uint64_t bytes, budget = proposed_budget(p);
    struct measured m;
    enum err_code rc = probe_foresee(p, n, &m);

    if (rc)
        return rc;
    bytes = m.walk_peak_bytes;
    if (bytes > budget) {
        b->exceeds = n;
        b->exceeds_bytes = bytes;
        return ERR_OK;
    }
    if (b->fits)
        b->slope_bytes = bytes > b->fits_bytes ? (bytes - b->fits_bytes) / (n - b->fits) : 0;
    b->fits = n;
    b->fits_bytes = bytes;
    return ERR_OK;
}

/* One sequence, and two: B = 1 is unlike all others. */
static enum err_code try_least(const struct probe *p, struct bracket *b)
{
    enum err_code rc = try_batch(p, b, 1);

    return !rc && b->fits && b->exceeds > 2 ? try_batch(p, b, 2) : rc;
}

/* Down from what exceeds, along a slope. */
static enum err_code try_back(const struct probe *p, struct bracket *b, uint64_t slope)
{
    uint64_t over = b->exceeds_bytes - proposed_budget(p), back = slope ? (over + slope - 1) / slope : 1;

    return back < b->exceeds - 1 ? try_batch(p, b, b->exceeds - (uint32_t)back) : ERR_OK;
}

/* The largest of a candidate alike, and where its slope leads from there: often the answer. */
static enum err_code try_near(const struct probe *p, struct bracket *b, const struct foreseen_like *like)
{
    uint32_t n = like->n;
    uint64_t bytes;
    enum err_code rc = try_batch(p, b, n);

    if (rc || b->fits) {
        b->slope_bytes = like->slope_bytes;
        return rc || like->slope_bytes || n + 1 == b->exceeds ? rc : try_batch(p, b, n + 1);
    }
    bytes = b->exceeds_bytes;
    rc = try_back(p, b, like->slope_bytes);
    if (rc || b->fits || b->exceeds == n || b->exceeds <= 2)
        return rc;
    return try_back(p, b, bytes > b->exceeds_bytes ? (bytes - b->exceeds_bytes) / (n - b->exceeds) : 0);
}

enum { HALVED = 4 }; /* half of fewer is one sequence, which is unlike all others */
static const double SURELY_MORE = 0.001; /* of the budget: the line is that close. Empirical */

/* Whether one more than what fits surely does not. The time of half as many will be asked too (pace.h), and the run that tells it tells how the peak has
 * risen from there: beyond, it rises no slower, a maximum of lines. */
static enum err_code look_from_half(const struct probe *p, struct bracket *b)
{
    struct step s = probe_step(p, b->fits);
    bool asked = p->paces && p->q->system && !p->q->recipe.micro_batch_size; /* the time of half as many */
    uint32_t half = pace_allowed_below(p, b->fits / 2);
    uint64_t budget = proposed_budget(p), rise;
    struct measured m;
    enum err_code rc;

    if (b->fits < HALVED || !asked || !timing_is_foretold(&s) || pace_allowed_below(p, b->fits) != b->fits)
        return ERR_OK;
    rc = probe_foresee(p, half, &m);
    if (rc || m.walk_peak_bytes > b->fits_bytes)
        return rc;
    rise = (b->fits_bytes - m.walk_peak_bytes) / (b->fits - half);
    if ((double)(b->fits_bytes + rise) > (1 + SURELY_MORE) * (double)budget) {
        b->exceeds = b->fits + 1;
        b->exceeds_bytes = b->fits_bytes + rise;
    }
    return ERR_OK;
}

/* What is proposed next; where that is one more, the half may tell. */
static enum err_code try_next(const struct probe *p, struct bracket *b, unsigned turn)
{
    uint32_t n = propose(b, proposed_budget(p), turn);
    bool last = n == b->fits + 1;
    struct probe untimed = *p; /* what is one too many is asked no time */
    enum err_code rc = last ? look_from_half(p, b) : ERR_OK;

    untimed.paces = NULL;
    return rc || b->exceeds - b->fits == 1 ? rc : try_batch(last ? &untimed : p, b, n);
}

enum err_code probe_foresee_largest(const struct probe *p, struct foreseen_like *like, uint32_t *ret)
{
    struct bracket b = {.exceeds = most(p) + 1};
    enum err_code rc = like->n > 1 && like->n < b.exceeds ? try_near(p, &b, like) : ERR_OK;

    if (!rc && !b.fits && b.exceeds > 1)
        rc = try_least(p, &b);
    for (unsigned turn = 0; !rc && b.fits && b.exceeds - b.fits > 1; turn++)
        rc = try_next(p, &b, turn);
    *ret = b.fits;
    if (!rc)
        *like = (struct foreseen_like){b.fits, b.fits && b.exceeds_bytes ? b.exceeds_bytes - b.fits_bytes : 0};
    return rc;
}

enum err_code probe_foresee_fits(const struct probe *p, uint32_t n, bool *ret)
{
    struct bracket b = {0};
    enum err_code rc = n <= most(p) ? try_batch(p, &b, n) : ERR_OK;

    *ret = !rc && b.fits;
    return rc;
}

/* What is known of the largest: `good` was played and fits, `bad` does not, or is one more than there can be. */
struct played {
    struct largest_fit good;
    uint32_t bad, stride;
    bool bad_tried;
    unsigned turn;
    uint64_t room_bytes, slope_bytes; /* that were left at good; of live blocks a sequence */
    uint32_t last_n;                  /* of the walk before */
    uint64_t last_walk_bytes;
};

enum { FIGURES = 3 }; /* plays that the figures of what was found, and its time, take at most */

/* Whether so many more plays leave room for what is to be told of one that fits. */
static bool has_work_for(const struct probe *p, const struct played *k, unsigned plays)
{
    const struct budget *b = p->scratch->budget;

    return !b || b->events + (plays + FIGURES) * k->good.play_events <= b->limit_events;
}

uint64_t probe_reserve(const struct largest_fit *f)
{
    return f->n ? FIGURES * f->play_events : 0;
}

/* One sequence that is foreseen not to fit: its live blocks alone may say so. */
static enum err_code exceeds(const struct probe *p, struct played *k)
{
    struct measured m;
    enum err_code rc = probe_walk(p, 1, &m);

    if (!rc && m.walk_peak_bytes > probe_budget(p))
        k->bad = 1;
    return rc;
}

/* A first slope counts all that is not there between steps. */
static void learn_slope(struct played *k, uint32_t n, const struct measured *walk)
{
    uint64_t low = k->last_n ? k->last_walk_bytes : walk->static_bytes, high = walk->walk_peak_bytes;

    if (n < k->last_n) {
        low = high;
        high = k->last_walk_bytes;
    }
    k->slope_bytes = high > low ? (high - low) / (n > k->last_n ? n - k->last_n : k->last_n - n) : 0;
    k->last_n = n;
    k->last_walk_bytes = walk->walk_peak_bytes;
}

/* Figures cost further replays: those of what is chosen are told then. */
static enum err_code play(const struct probe *p, uint32_t n, struct played *k)
{
    uint64_t events = p->scratch->budget ? p->scratch->budget->events : 0;
    struct fit fit;
    enum err_code rc = probe_fits(p, n, MEASURE_NOTHING, &fit);

    if (rc)
        return rc;
    k->good.play_events = p->scratch->budget ? p->scratch->budget->events - events : 0;
    learn_slope(k, n, &fit.walk);
    if (!fit.fits) {
        k->bad_tried = true;
        k->bad = n;
        return ERR_OK;
    }
    k->good.n = n;
    k->good.retries = fit.retries;
    k->room_bytes = fit.reserved_bytes < probe_budget(p) ? probe_budget(p) - fit.reserved_bytes : 0;
    if (fit.retries) {
        k->room_bytes = 0;
        return ERR_OK;
    }
    k->good.without_retry = n;
    k->good.reserved_bytes = fit.reserved_bytes;
    return ERR_OK;
}

enum { STEPS = 2 };   /* plays that a search takes as a rule, where the first fails */
enum { GUESSES = 4 }; /* then by halves: short sequences come by ten thousands */

/* Down from what failed in steps that double; up from what fits by what there is room for, at most to twice as many, where there is none in steps that
 * double; by halves where that does not end, and by doubles until something fails. To a half at once where the work that is left reaches few more. */
static uint32_t next_to_play(const struct probe *p, struct played *k)
{
    uint32_t step = k->stride, gap = k->bad - k->good.n;
    uint64_t up;

    k->stride *= 2;
    if (!k->good.n && !has_work_for(p, k, STEPS))
        return k->bad / 2;
    if (!k->good.n)
        return k->bad > step ? k->bad - step : 1;
    up = k->slope_bytes ? k->room_bytes / k->slope_bytes : k->good.n;
    if (up > k->good.n)
        up = k->good.n;
    if (up < step && !k->room_bytes)
        up = step;
    if (k->turn++ >= GUESSES)
        up = k->bad_tried || gap / 2 < k->good.n ? gap / 2 : k->good.n;
    return k->good.n + (up < 1 ? 1 : up < gap ? (uint32_t)up : gap - 1);
}

enum err_code probe_largest(const struct probe *p, uint32_t first, uint32_t bad, struct largest_fit *ret)
{
    struct played k = {.bad = bad ? bad : most(p) + 1, .stride = 1, .bad_tried = bad > 0};
    enum err_code rc = ERR_OK;

    if (!first && k.bad > 1)
        rc = exceeds(p, &k);
    if (!rc && k.bad > 1)
        rc = play(p, first ? first : 1, &k);
    while (!rc && k.bad > 1 && k.bad - k.good.n > 1 && (!k.good.n || has_work_for(p, &k, 1)))
        rc = play(p, next_to_play(p, &k), &k);
    k.good.slope_bytes = k.slope_bytes;
    if (!rc)
        *ret = k.good;
    return rc;
}
