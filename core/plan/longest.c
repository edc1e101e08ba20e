#include "plan/longest.h"

#include "config/arch.h"

enum { UNIT_TOKENS = 64, MOST_TOKENS = 1 << 20, PLAYS = 8 };

/* Whole units that the model and PyTorch's kernels take: tensors beyond 2^31 tokens are refused. */
static uint32_t most_units(const struct probe *p, uint32_t n)
{
    uint64_t most = p->q->arch->max_positions ? p->q->arch->max_positions : MOST_TOKENS, kernels = (UINT64_C(1) << 31) / n;

    most = most < MOST_TOKENS ? most : MOST_TOKENS;
    return (uint32_t)((most < kernels ? most : kernels) / UNIT_TOKENS);
}

static struct step with_length(const struct probe *p, uint32_t units)
{
    struct step s = *p->step;

    s.r.seq_len_tokens = units * UNIT_TOKENS;
    return s;
}

static enum err_code foresee(const struct probe *p, uint32_t n, uint32_t units, bool *ret)
{
    struct step s = with_length(p, units);
    struct probe longer = {.q = p->q, .step = &s, .scratch = p->scratch, .err = p->err, .memo = p->memo};
    struct measured m;
    enum err_code rc = probe_foresee(&longer, n, &m);

    *ret = !rc && m.walk_peak_bytes <= probe_budget(p);
    return rc;
}

static enum err_code play(const struct probe *p, uint32_t n, uint32_t units, bool *ret)
{
    struct step s = with_length(p, units);
    struct probe longer = {.q = p->q, .step = &s, .scratch = p->scratch, .err = p->err, .memo = p->memo};
    struct fit fit;
    enum err_code rc = probe_fits(&longer, n, MEASURE_NOTHING, &fit);

    *ret = !rc && fit.fits;
    return rc;
}

/* The largest that is foreseen to fit: memory only grows with the length. */
static enum err_code bracket(const struct probe *p, uint32_t n, uint32_t *ret_units)
{
    uint32_t good = 0, bad = most_units(p, n) + 1;
    enum err_code rc = ERR_OK;
    bool ok;

    while (!rc && bad - good > 1) {
        uint32_t middle = good + (bad - good) / 2;

        rc = foresee(p, n, middle, &ok);
        if (ok)
            good = middle;
        else
            bad = middle;
    }
    *ret_units = good;
    return rc;
}

enum err_code longest_foreseen(const struct probe *p, uint32_t n, uint32_t *ret_tokens)
{
    uint32_t units = 0;
    enum err_code rc = bracket(p, n, &units);

    *ret_tokens = units * UNIT_TOKENS;
    return rc;
}

struct lengths {
    uint32_t good, bad; /* units: known to fit, known not to */
};

static enum err_code try_length(const struct probe *p, uint32_t n, uint32_t units, struct lengths *l)
{
    bool ok;
    enum err_code rc = play(p, n, units, &ok);

    *(ok ? &l->good : &l->bad) = units;
    return rc;
}

/* What was foreseen is played; down in steps that double until one fits, then up again between. */
enum err_code longest_sequence(const struct probe *p, uint32_t n, uint32_t *ret_tokens)
{
    uint32_t units = 0, stride = 1;
    struct lengths l = {0};
    enum err_code rc = bracket(p, n, &units);

    for (l.bad = units + 1; !rc && !l.good && units; stride *= 2) {
        rc = try_length(p, n, units, &l);
        units = units > stride ? units - stride : 0;
    }
    for (int i = 0; !rc && l.good && l.bad - l.good > 1 && i < PLAYS; i++)
        rc = try_length(p, n, l.good + (l.bad - l.good) / 2, &l);
    *ret_tokens = l.good * UNIT_TOKENS;
    return rc;
}
