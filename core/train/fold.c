#include "train/fold.h"

#include "config/arch.h"
#include "train/play.h"
#include "train/timing.h"
#include "train/trainer.h"

#include <string.h>

enum {
    DEPTHS = 3,
    ENDS = 2, /* periods at either end of the model that are unlike its middle */
    LONGEST_PERIOD = 8,
    PERIODS = 4, /* that a run of few layers has: what a prefix is weighed against */
    OUTSIDE = 4, /* slots of what is outside of layers: of modules before and after them, each before and after they ran in this phase */
    ROUNDING = 4096, /* bytes a period that a foreach list's scratch is rounded by */
    SLOTS = OUTSIDE + 2 * ENDS * LONGEST_PERIOD,
    MIDDLE = 255, /* the slot of layers between the ends */
    STATIC = PHASE_COUNT * SLOTS,
    BEGIN,
    RESTING,
    FIGURES, /* BEGIN: where peaks begin to be told */
};

/* The highest moments of a walk: of each phase, outside of layers and in each layer at either end. */
struct moments {
    uint64_t bytes[FIGURES];
    uint64_t middle[PHASE_COUNT];
};

static uint32_t period_from_the_first(const struct arch *arch)
{
    uint32_t period = 1;

    for (uint32_t i = 1; i < arch->whole_layers && arch->layer_kinds; i++)
        if (arch->layer_kinds[i] != arch->layer_kinds[i % period])
            period = i + 1;
    return period;
}

/* Layers before the first from which on kinds come again after `period` of them. */
static uint32_t prefix_of(const struct arch *arch, uint32_t period)
{
    uint32_t i = arch->whole_layers - period;

    while (i && arch->layer_kinds[i - 1] == arch->layer_kinds[i - 1 + period])
        i--;
    return i;
}

struct fold fold_of(const struct arch *arch)
{
    struct fold best = {0, period_from_the_first(arch)};

    if (best.period <= LONGEST_PERIOD)
        return best;
    for (uint32_t period = 1; period <= LONGEST_PERIOD && 4 * period <= arch->whole_layers; period++) {
        uint32_t prefix = prefix_of(arch, period);

        if (prefix + 2 * period <= arch->whole_layers / 2 && prefix + PERIODS * period < best.prefix + PERIODS * best.period)
            best = (struct fold){prefix, period};
    }
    return best;
}

uint32_t fold_depth(const struct arch *arch, uint32_t periods)
{
    struct fold f = fold_of(arch);

    return f.prefix + periods * f.period + (arch->layers - f.prefix) % f.period;
}

static uint8_t slot_of(const struct module *m, const struct module *list, uint32_t layers, struct fold f)
{
    uint32_t i = 0, number = m->number;

    while (m && m->parent != list)
        m = m->parent;
    if (!m || !list)
        return list && number > list->number ? 2 : 0;
    for (const struct module *k = list->first; k != m; k = k->next)
        i++;
    if (i < f.prefix + ENDS * f.period)
        return (uint8_t)(OUTSIDE + i);
    return layers - i <= ENDS * f.period ? (uint8_t)(OUTSIDE + f.prefix + 2 * ENDS * f.period - (layers - i)) : MIDDLE;
}

static uint8_t *slots_of(const struct trainer *t, uint32_t layers, struct fold f, struct arena *arena)
{
    const struct tree *tree = &t->model.tree;
    const struct module *list = module_list(tree);
    uint8_t *slots = arena_array(arena, uint8_t, tree->n_modules);

    for (uint32_t i = 1; slots && i < tree->n_modules; i++)
        slots[i] = slot_of(tree->modules[i], list, layers, f);
    return slots;
}

static void note(struct moments *m, enum phase phase, uint8_t slot, uint64_t now)
{
    uint64_t *at = slot == MIDDLE ? &m->middle[phase] : &m->bytes[(int)phase * SLOTS + slot];

    *at = now > *at ? now : *at;
}

static void look(const struct tape *t, const uint8_t *slots, struct moments *ret)
{
    enum phase was = PHASE_INIT;
    bool past_layers = false;
    uint64_t now = 0;

    for (uint32_t i = 0; i < t->n_events; i++) {
        uint32_t e = t->events[i];
        const struct birth *b = &t->births[e & EVENT_BLOCK];
        uint8_t slot;

        if (i == t->steps_begin)
            ret->bytes[STATIC] = now;
        if (i == t->peaks_begin)
            ret->bytes[BEGIN] = now;
        if (!event_is_of_block(e))
            continue;
        if (e & EVENT_DEATH) {
            now -= torch_alloc_round(b->bytes);
            continue;
        }
        now += torch_alloc_round(b->bytes);
        slot = slots[b->module];
        past_layers = (past_layers && phase_of(b) == was) || slot >= OUTSIDE;
        was = phase_of(b);
        if (i >= t->peaks_begin)
            note(ret, was, (uint8_t)(slot + (slot < OUTSIDE && past_layers)), now);
    }
    ret->bytes[RESTING] = now;
}

static enum err_code walk_at(const struct arch *arch, uint32_t layers, const struct step *step, const struct device *device, bool one_step,
                             struct arena *arena, struct moments *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct arch few = *arch;
    struct play_question q = {&few, step, device, one_step ? LOOK_FORETELL : LOOK_WALK, false, true};
    struct taped run;
    uint8_t *slots;
    enum err_code rc;

    few.layers = layers;
    rc = train_play(&q, arena, &run, err);
    slots = rc ? NULL : slots_of(run.t, layers, fold_of(arch), arena);
    if (!rc && !slots)
        rc = err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
    memset(ret, 0, sizeof *ret);
    if (!rc)
        look(&run.tape, slots, ret);
    arena_rewind(arena, mark);
    return rc;
}

/* What lies between the ends is no higher than they, as long as it rises or falls by the same from layer to layer. */
static bool ends_are_highest(const struct moments *m)
{
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        uint64_t highest = 0;

        for (int slot = 0; slot < SLOTS; slot++)
            highest = m->bytes[phase * SLOTS + slot] > highest ? m->bytes[phase * SLOTS + slot] : highest;
        if (m->middle[phase] > highest)
            return false;
    }
    return true;
}

static bool on_a_line(const struct moments m[DEPTHS])
{
    for (int i = 0; i < FIGURES; i++) {
        uint64_t once = m[1].bytes[i] - m[0].bytes[i], twice = m[2].bytes[i] - m[1].bytes[i];

        if (once - twice > ROUNDING && twice - once > ROUNDING) /* unsigned: one of them wraps */
            return false;
    }
    return ends_are_highest(&m[2]);
}

static uint64_t carried(const struct moments m[DEPTHS], uint32_t periods, int i)
{
    return m[2].bytes[i] + periods * (m[2].bytes[i] - m[1].bytes[i]);
}

static void carry_on(const struct moments m[DEPTHS], uint32_t periods, struct measured *ret)
{
    struct measured whole = {.static_bytes = carried(m, periods, STATIC), .resting_bytes = carried(m, periods, RESTING)};

    for (int i = 0; i < STATIC; i++) {
        uint64_t bytes = carried(m, periods, i), *phase = &whole.phase_peaks_bytes[i / SLOTS];

        *phase = bytes > *phase ? bytes : *phase;
    }
    whole.walk_peak_bytes = carried(m, periods, BEGIN);
    for (int i = 0; i < PHASE_COUNT; i++)
        if (whole.phase_peaks_bytes[i] > whole.walk_peak_bytes) {
            whole.walk_peak_bytes = whole.phase_peaks_bytes[i];
            whole.peak_phase = (enum phase)i;
        }
    whole.peak_allocated_bytes = whole.peak_active_bytes = whole.walk_peak_bytes;
    *ret = whole;
}

/* Shares and buckets that cut across layers lie on no line; a pipeline's stage has its share of the layers. */
static bool cuts_layers(const struct step *step)
{
    const struct method_program *m = method_rows[step->r.method].program;

    return step->r.pipeline_parallel > 1 || (m && m->cuts_layers);
}

static uint32_t least_layers(const struct arch *arch)
{
    return fold_depth(arch, 2 * ENDS + 1);
}

/* A cache makes moments outside of layers grow with their number, each by its own slope. */
static bool holds(const struct arch *arch, const struct step *step)
{
    struct fold f = fold_of(arch);

    return !arch->fixed_depth && step->r.use_cache != TRI_TRUE && !cuts_layers(step) && f.prefix + 2 * ENDS * f.period <= SLOTS - OUTSIDE &&
           arch->layers >= least_layers(arch) + (DEPTHS + 1) * f.period;
}

/* Neither buckets, which fill over layers, nor saves that wait on the host. */
static bool has_layers_alone(const struct step *step)
{
    return step->r.method != METHOD_DDP && step->r.offload != OFFLOAD_ACTIVATIONS;
}

static void take_moments(const struct peak *p, struct measured *ret)
{
    struct measured whole = {.static_bytes = p->static_bytes, .resting_bytes = p->resting_bytes, .walk_peak_bytes = p->peak_bytes, .peak_phase = p->peak_phase};

    memcpy(whole.phase_peaks_bytes, p->phase_bytes, sizeof whole.phase_peaks_bytes);
    whole.peak_allocated_bytes = whole.peak_active_bytes = whole.walk_peak_bytes;
    *ret = whole;
}

static enum err_code walk_whole(const struct arch *arch, const struct step *step, const struct device *device, bool one_step,
                                struct rank_peaks *peaks, struct cost *cost, struct arena *arena, struct measured *ret, struct err *err)
{
    const struct method_program *m = method_rows[step->r.method].program;

    if (one_step)
        return train_foretell(arch, step, device, peaks, m && m->ranks ? NULL : cost, arena, ret, err);
    return train_walk_ranks(arch, step, device, peaks, cost, arena, ret, err);
}

/* A pipeline's last stage keeps outputs until the next begins. */
static bool repeats_at_once(const struct step *step)
{
    return !trainer_learns_order(step) && step->r.method != METHOD_PP;
}

enum err_code train_fold(const struct arch *arch, const struct step *step, const struct device *device, bool one_step,
                         struct rank_peaks *peaks, struct cost *cost, struct arena *arena, struct measured *ret, struct err *err)
{
    uint32_t period = fold_of(arch).period, least = least_layers(arch);
    bool one = one_step && repeats_at_once(step);
    struct play_question two = {arch, step, device, one ? LOOK_FORETELL : LOOK_WALK, false, true};
    const struct trainer *costs;
    struct moments m[DEPTHS];
    struct peak p;

    if (cost)
        *cost = (struct cost){0};
    if (!holds(arch, step))
        return walk_whole(arch, step, device, one, peaks, cost, arena, ret, err);
    two.logged = cost && timing_is_foretold(step);
    if (has_layers_alone(step) && train_play_two(&two, arena, &p, two.logged ? &costs : NULL)) {
        take_moments(&p, ret);
        if (two.logged && costs)
            timing_read(costs, arch, step, cost);
        return ERR_OK;
    }
    for (uint32_t i = 0; i < DEPTHS; i++) {
        enum err_code rc = walk_at(arch, least + i * period, step, device, one, arena, &m[i], err);

        if (rc)
            return rc;
    }
    if (!on_a_line(m))
        return walk_whole(arch, step, device, one, peaks, cost, arena, ret, err);
    carry_on(m, (arch->layers - least) / period - (DEPTHS - 1), ret);
    return ERR_OK;
}
