#include "train/fold.h"

#include "config/arch.h"

enum { DEPTHS = 3, FEWEST = 4 }; /* FEWEST: hooks prefetch the layer after the next, and the ends of a model are unlike its middle */

uint32_t fold_period(const struct arch *arch)
{
    uint32_t period = 1;

    for (uint32_t i = 1; i < arch->layers && arch->layer_kinds; i++)
        if (arch->layer_kinds[i] != arch->layer_kinds[i % period])
            period = i + 1;
    return period;
}

/* The figures that grow with the depth. */
static int figures(const struct measured *m) { return PHASE_COUNT + 2 + m->crossed; }

static uint64_t *figure(struct measured *m, int i)
{
    switch (i - PHASE_COUNT) {
    case 0: return &m->static_bytes;
    case 1: return &m->resting_bytes;
    case 2: return &m->peak_active_lagging_bytes;
    default: return &m->phase_peaks_bytes[i];
    }
}

static bool on_a_line(struct measured m[DEPTHS])
{
    for (int i = 0; i < figures(m); i++)
        if (*figure(&m[2], i) - *figure(&m[1], i) != *figure(&m[1], i) - *figure(&m[0], i))
            return false;
    return true;
}

static void carry_on(struct measured m[DEPTHS], uint32_t periods, struct measured *ret)
{
    struct measured whole = m[2];

    for (int i = 0; i < figures(m); i++)
        *figure(&whole, i) += periods * (*figure(&m[2], i) - *figure(&m[1], i));
    whole.walk_peak_bytes = 0;
    for (int i = 0; i < PHASE_COUNT; i++)
        if (whole.phase_peaks_bytes[i] > whole.walk_peak_bytes) {
            whole.walk_peak_bytes = whole.phase_peaks_bytes[i];
            whole.peak_phase = (enum phase)i;
        }
    whole.peak_allocated_bytes = whole.peak_active_bytes = whole.walk_peak_bytes;
    if (!whole.crossed)
        whole.peak_active_lagging_bytes = whole.walk_peak_bytes;
    *ret = whole;
}

enum err_code train_fold(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                         struct measured *ret, struct err *err)
{
    uint32_t period = fold_period(arch), least = FEWEST + (arch->layers - FEWEST) % period;
    struct arch few = *arch;
    struct measured m[DEPTHS];

    if (arch->layers < least + (DEPTHS + 1) * period)
        return train_walk(arch, step, device, arena, ret, err);
    for (uint32_t i = 0; i < DEPTHS; i++) {
        enum err_code rc;

        few.layers = least + i * period;
        rc = train_walk(&few, step, device, arena, &m[i], err);
        if (rc)
            return rc;
    }
    if (!on_a_line(m))
        return train_walk(arch, step, device, arena, ret, err);
    carry_on(m, (arch->layers - few.layers) / period, ret);
    return ERR_OK;
}
