/*
 * bnb_gemm.c - which products with packed weights bitsandbytes 0.50.2 leaves to a kernel of its own, and which unpack the weights first:
 * backends/cuda/ops.py _gemm_4bit_use_custom_cuda, _gemm_4bit_custom_max_m, measured by its authors. Of M rows by [N, K] weights.
 */
#include "tuning/bnb.h"
#include "tuning/bnb_inside.h"

enum { SMALL_WEIGHT = 4 << 20, FLOOR_ROWS = 4, SIMT_ROWS = 8, MAX_ROWS_SMALL = 1536, MAX_ROWS = 512 };

/* sms: multiprocessors; waves: tiles of 64 outputs */
struct shape {
    int64_t m, n, k, tiles, sms;
    int sm; /* compute capability, 80 */
};

static bool hbm(const struct shape *s)
{
    return s->sm == 80 || s->sm == 90;
}

/* N * K < 4 Mi */
static bool small_weight(const struct shape *s)
{
    if (s->k * 2 < s->n) {
        bool low_wave = s->tiles * 3 < s->sms;

        if (s->sm == 80)
            return s->m <= (low_wave ? 1536 : 512);
        if (s->sm == 90)
            return s->m <= (low_wave ? 512 : 320);
        if (s->sm == 75) {
            if (s->tiles >= s->sms * 3)
                return s->m <= 320;
            return s->m <= (s->k >= 1024 ? 64 : s->k >= 704 ? 96 : 320);
        }
        if (s->tiles >= s->sms)
            return s->m <= 320;
        return s->m <= (s->tiles * s->k > s->sms * 320 ? 192 : 320);
    }
    if (s->sm == 80 && s->tiles * 4 <= s->sms) {
        if (s->k >= s->n)
            return s->m <= (s->tiles * 8 <= s->sms ? 32 : 128);
        return s->m <= 384;
    }
    if (s->sm == 75 && s->tiles < s->sms && s->m > 8)
        return s->m <= 64;
    if (s->tiles * 4 <= s->sms)
        return s->m <= (s->k < s->n || hbm(s) ? 32 : 23);
    if (s->tiles * 2 <= s->sms)
        return s->m <= 16;
    return false;
}

/* 5 to 7 rows */
static bool few_rows(const struct shape *s)
{
    if (hbm(s) && s->m >= 6 && s->tiles >= (s->sm == 90 ? 36 : 48)) {
        bool under_75 = s->tiles * 4 < s->sms * 3, under_60 = s->tiles * 5 < s->sms * 3;

        if (s->k > s->n && under_75)
            return false;
        if (s->k == s->n && s->sm == 80 && under_60)
            return false;
        if (s->k == s->n && s->sm == 90 && under_75 && !under_60)
            return false;
    }
    return true;
}

static bool on_sm75(const struct shape *s)
{
    if (s->tiles >= s->sms * 3)
        return s->m <= (s->k < s->n ? 128 : 64);
    return s->m <= (s->tiles >= s->sms / 2 ? 64 : 32);
}

static bool on_sm80(const struct shape *s)
{
    if (s->tiles >= s->sms * 3)
        return s->m <= 128;
    if (s->tiles >= s->sms)
        return s->m <= (s->k < s->n ? 64 : 32);
    if (s->k >= s->n * 3 && s->tiles * 4 > s->sms)
        return false;
    if (s->k == s->n && s->tiles >= 48 && s->tiles * 5 < s->sms * 3)
        return false;
    if (s->tiles * 2 < s->sms) {
        if (s->k <= s->n)
            return s->m <= 128;
        if (s->tiles * 3 >= s->sms)
            return false;
    }
    if (s->tiles >= s->sms / 2 && s->k < s->n)
        return s->m <= 128;
    return s->m <= 16;
}

static bool on_sm86(const struct shape *s)
{
    return s->m <= (s->tiles >= s->sms ? 128 : s->tiles >= s->sms / 2 ? 64 : 16);
}

static bool on_sm90(const struct shape *s)
{
    if (s->tiles >= s->sms)
        return s->m <= (s->tiles >= s->sms * 3 ? 64 : s->tiles >= s->sms * 2 ? 48 : 32);
    if (s->tiles < s->sms / 2 || (s->k >= s->n && s->tiles * 4 < s->sms * 3))
        return false;
    return s->m <= 16;
}

static bool on_sm100(const struct shape *s)
{
    if (s->tiles >= s->sms * 3)
        return s->m <= 32;
    return s->tiles >= s->sms && s->k < s->n && s->m <= 8;
}

static bool on_sm120(const struct shape *s)
{
    if (s->tiles >= s->sms * 2)
        return s->m <= (s->tiles >= s->sms * 3 ? 256 : 128);
    if (s->tiles * 5 >= s->sms * 4)
        return s->m <= (s->k >= s->n ? 96 : 64);
    if (s->tiles >= s->sms / 2)
        return s->m <= (s->k * 2 >= s->n && s->tiles >= 128 ? 64 : 8);
    return s->m <= (s->k > s->n * 2 && s->tiles > 64 ? 16 : 8);
}

/* sm_89, and those that nobody measured */
static bool elsewhere(const struct shape *s)
{
    bool tall = s->k > s->n * 2;

    if (s->tiles >= s->sms * 2)
        return s->m <= (s->tiles >= s->sms * 3 ? 256 : 128);
    if (s->tiles * 5 >= s->sms * 4) {
        if (tall || s->tiles >= 200)
            return s->m <= 128;
        return s->m <= (s->k < s->n ? 64 : s->sms >= 60 ? 128 : 32);
    }
    if (s->tiles >= s->sms / 2)
        return s->m <= (tall ? 64 : s->tiles >= 64 ? 8 : 32);
    if (s->k > s->n && s->tiles <= 48)
        return s->m <= (s->k >= s->n * 3 ? 12 : 10);
    return s->m <= (tall || s->tiles < 48 ? 16 : 8);
}

bool bnb_gemm_is_fused(const struct device *d, enum dtype dtype, int64_t m, int64_t n, int64_t k)
{
    struct shape s = {m, n, k, (n + 63) / 64, d->multiprocessors, (int)(d->cc_major * 10 + d->cc_minor)};

    if (m > MAX_ROWS_SMALL || k % BNB_BLOCK)
        return false;
    if (m <= FLOOR_ROWS)
        return true;
    if (dtype == DTYPE_FP32 || d->cc_major < 7 || (d->cc_major == 7 && (d->cc_minor < 5 || dtype != DTYPE_FP16)))
        return m < SIMT_ROWS;
    if (s.sm == 87 || d->cc_major == 11)
        return false;
    if (d->cc_major == 10)
        return on_sm100(&s);
    if (n * k < SMALL_WEIGHT)
        return small_weight(&s);
    if (m > MAX_ROWS)
        return false;
    if (m < SIMT_ROWS)
        return few_rows(&s);
    if (s.sm == 121 && s.tiles >= s.sms)
        return m <= 256;
    return s.sm == 75    ? on_sm75(&s)
           : s.sm == 80  ? on_sm80(&s)
           : s.sm == 86  ? on_sm86(&s)
           : s.sm == 90  ? on_sm90(&s)
           : s.sm == 120 ? on_sm120(&s)
                         : elsewhere(&s);
}
