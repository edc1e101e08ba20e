#include "plan/search.h"

uint64_t probe_budget(const struct plan_question *q)
{
    double kept = q->margin * (double)q->capacity_bytes;
    uint64_t limit = q->capacity_bytes - (uint64_t)kept;

    return limit > q->device.context_bytes ? limit - q->device.context_bytes : 0;
}

uint32_t plan_accumulation(const struct plan_question *q, uint32_t n)
{
    if (q->recipe.gradient_accumulation_steps)
        return q->recipe.gradient_accumulation_steps;
    return q->global_batch_size > n ? (q->global_batch_size + n - 1) / n : 1;
}

static struct step at(const struct probe *p, uint32_t n)
{
    struct step s = *p->step;

    s.r.micro_batch_size = n;
    s.r.gradient_accumulation_steps = plan_accumulation(p->q, n);
    return s;
}

static enum err_code walk(const struct probe *p, uint32_t n, uint64_t *ret_bytes)
{
    unsigned char *mark = p->scratch->cur;
    struct step s = at(p, n);
    struct measured m;
    enum err_code rc = train_walk(p->q->arch, &s, &p->q->device, p->scratch, &m, p->err);

    arena_rewind(p->scratch, mark);
    if (!rc)
        *ret_bytes = m.walk_peak_bytes;
    return rc;
}

/* Beyond the budget only a second replay, with release and retry, can tell; not if the live blocks alone exceed it. */
static enum err_code retry(const struct probe *p, const struct step *s, struct verdict *v)
{
    uint64_t budget = probe_budget(p->q);
    uint32_t retries = 0;

    if (v->memory.walk_peak_bytes > budget)
        return ERR_OK;
    v->tight = true;
    return train_fits(p->q->arch, s, &p->q->device, budget, p->q->expandable_segments, p->scratch, &v->fits, &retries, p->err);
}

static enum err_code judge(const struct probe *p, uint32_t n, struct verdict *v)
{
    struct step s = at(p, n);
    const struct measured *m = &v->memory;
    enum err_code rc = train_measure(p->q->arch, &s, &p->q->device, p->scratch, &v->memory, p->err);
    uint64_t reserved;

    if (rc)
        return rc;
    reserved = p->q->expandable_segments ? m->peak_reserved_expandable_bytes : m->peak_reserved_bytes;
    v->device_bytes = reserved + p->q->device.context_bytes;
    v->fits = reserved <= probe_budget(p->q);
    v->tight = v->fits && (double)v->device_bytes > 0.95 * (double)p->q->capacity_bytes;
    if (!v->fits)
        rc = retry(p, &s, v);
    v->tight = v->tight && v->fits;
    return rc;
}

enum err_code probe_judge(const struct probe *p, uint32_t n, struct verdict *ret)
{
    unsigned char *mark = p->scratch->cur;
    struct verdict v = {0};
    enum err_code rc = judge(p, n, &v);

    arena_rewind(p->scratch, mark);
    if (!rc)
        *ret = v;
    return rc;
}

/* A bracket on the walk: `fits` is known to stay within the budget, `exceeds` not to. */
struct bracket {
    uint32_t fits, exceeds;
    uint64_t fits_bytes, exceeds_bytes; /* exceeds_bytes 0: not walked yet, only a limit */
    uint64_t slope_bytes;               /* last rise a sequence */
};

static uint32_t most(const struct probe *p)
{
    uint64_t n = (UINT64_C(1) << 31) / p->step->r.seq_len_tokens; /* tensors beyond 2^31 tokens: PyTorch's kernels refuse */

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

static enum err_code try_walk(const struct probe *p, struct bracket *b, uint32_t n)
{
    uint64_t bytes, budget = probe_budget(p->q);
    enum err_code rc = walk(p, n, &bytes);

    if (rc)
        return rc;
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

static enum err_code largest_walk(const struct probe *p, uint32_t *ret)
{
    struct bracket b = {.exceeds = most(p) + 1};
    enum err_code rc = try_walk(p, &b, 1);

    if (!rc && b.fits && b.exceeds > 2)
        rc = try_walk(p, &b, 2);
    for (unsigned turn = 0; !rc && b.fits && b.exceeds - b.fits > 1; turn++)
        rc = try_walk(p, &b, propose(&b, probe_budget(p->q), turn));
    *ret = b.fits;
    return rc;
}

static enum err_code fits(const struct probe *p, uint32_t n, bool *ret)
{
    struct verdict v;
    enum err_code rc = probe_judge(p, n, &v);

    if (!rc)
        *ret = v.fits;
    return rc;
}

/* Down from what the walk allows, in steps that double until one fits, then halves between. */
enum err_code probe_largest(const struct probe *p, uint32_t *ret)
{
    uint32_t good = 0, bad, stride = 1;
    bool ok = false;
    enum err_code rc = largest_walk(p, &bad);

    if (rc)
        return rc;
    for (uint32_t n = bad++; n && !rc && !ok; n = n > stride ? n - stride : 0, stride *= 2) {
        rc = fits(p, n, &ok);
        if (ok)
            good = n;
        else
            bad = n;
    }
    if (!ok && bad > 1 && !rc) { /* the strides passed over 1 */
        rc = fits(p, 1, &ok);
        good = ok ? 1 : 0;
    }
    while (!rc && good && bad - good > 1) {
        uint32_t middle = good + (bad - good) / 2;

        rc = fits(p, middle, &ok);
        if (ok)
            good = middle;
        else
            bad = middle;
    }
    if (!rc)
        *ret = good;
    return rc;
}
