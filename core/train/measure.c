#include "train/measure.h"

#include "train/inventory.h"
#include "train/ranks.h"
#include "train/trainer.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- one run */
static struct tape tape_of(const struct trainer *t)
{
    return (struct tape){
        .births = t->run.births,
        .events = t->run.events,
        .n_births = t->run.n_births,
        .n_events = t->run.n_events,
        .steps_begin = t->steps_begin,
        .peaks_begin = trainer_peaks_begin(t),
        .head_module = t->model.tree.head->number,
    };
}

static void describe_host(const struct trainer *t, struct measured *m)
{
    const struct method_program *p = t->method;

    if (!p || !p->host_bytes)
        return;
    m->host_bytes = p->host_bytes(t->wrapped);
    m->host_bytes_of_all = p->host_bytes_of_rank ? 0 : m->host_bytes * t->parallel.at.world;
    for (uint32_t i = 0; i < t->parallel.at.world && p->host_bytes_of_rank; i++)
        m->host_bytes_of_all += p->host_bytes_of_rank(t->wrapped, i);
}

static void describe_run(const struct trainer *t, const struct peak *walk, struct measured *m)
{
    struct parameter_count n = parameters_of(t->model.tree.root);

    m->parameters = n.parameters;
    m->trainable_parameters = n.trainable;
    m->tensors = n.tensors;
    m->worst_rank = t->step->r.rank;
    describe_host(t, m);
    m->births = t->run.n_births;
    m->deaths = t->run.n_events - t->run.n_births - t->run.n_marks;
    m->walk_peak_bytes = m->peak_allocated_bytes = m->peak_active_bytes = walk->peak_bytes;
    m->crossed = walk->crossed;
    m->peak_active_lagging_bytes = walk->active_bytes;
    m->first_steps_peak_bytes = walk->first_bytes;
    m->static_bytes = walk->static_bytes;
    m->resting_bytes = walk->resting_bytes;
    m->peak_phase = walk->peak_phase;
    memcpy(m->phase_peaks_bytes, walk->phase_bytes, sizeof m->phase_peaks_bytes);
}

/* What a run is for: whose replay needs the history of blocks, or only what is alive, or only nearly that. */
enum look { LOOK_REPLAY, LOOK_WALK, LOOK_FORETELL };

static enum err_code run_step(const struct arch *arch, const struct step *step, const struct device *device, enum look look,
                              struct arena *arena, struct trainer **ret, struct tape *tape, struct peak *walk, struct err *err)
{
    struct trainer *t = arena_new(arena, struct trainer);
    enum err_code rc;

    if (!t)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
    t->live_blocks_only = look != LOOK_REPLAY;
    t->foretells = look == LOOK_FORETELL;
    rc = trainer_run(t, arch, step, device, arena, err);
    if (rc)
        return rc;
    *tape = tape_of(t);
    peak_walk(tape, walk);
    *ret = t;
    return ERR_OK;
}

static enum err_code allocator(const struct tape *tape, const struct peak *walk, struct torch_alloc_options o, struct arena *arena,
                               struct torch_alloc **ret, struct err *err)
{
    o.max_live = tape->n_births;
    o.max_blocks = 3 * walk->most_live + 4096;
    return torch_alloc_new(arena, &o, ret, err);
}

/* ----------------------------------------------------------------------------------------------------------- the three */
static enum err_code walk_rank(const struct arch *arch, const struct step *step, const struct device *device, enum look look, struct arena *arena,
                               struct measured *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct measured m = {0};
    struct trainer *t = NULL;
    struct tape tape;
    struct peak walk;
    enum err_code rc = run_step(arch, step, device, look, arena, &t, &tape, &walk, err);

    if (!rc) {
        describe_run(t, &walk, &m);
        *ret = m;
    }
    arena_rewind(arena, mark);
    return rc;
}

static enum err_code walk(const struct arch *arch, const struct step *step, const struct device *device, enum look look, struct arena *arena,
                          struct measured *ret, struct err *err)
{
    struct ranks all;
    enum err_code rc = ranks_of(arch, step, true, arena, &all, err);

    for (uint32_t i = 0; i < all.n && !rc; i++) {
        struct step s = of_rank(step, all.rank[i]);
        struct measured m;

        rc = walk_rank(arch, &s, device, look, arena, &m, err);
        if (!rc && (!i || m.walk_peak_bytes > ret->walk_peak_bytes))
            *ret = m;
    }
    return rc;
}

enum err_code train_walk(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                         struct measured *ret, struct err *err)
{
    return walk(arch, step, device, LOOK_WALK, arena, ret, err);
}

enum err_code train_foretell(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                             struct measured *ret, struct err *err)
{
    return walk(arch, step, device, LOOK_FORETELL, arena, ret, err);
}

static void name_largest(const struct trainer *t, const struct tape *tape, uint32_t n, const struct alike *groups, struct measured *m)
{
    m->n_largest = n;
    for (uint32_t i = 0; i < n; i++) {
        struct largest *l = &m->largest[i];
        char buf[sizeof l->module];
        const char *path;

        l->op = op_rows[groups[i].op].aten;
        l->category = (enum category)groups[i].category;
        l->phase = stage_name((enum stage)groups[i].stage);
        l->bytes_each = groups[i].bytes_each;
        l->count = groups[i].count;
        path = module_path(&t->model.tree, tape->births[groups[i].first].module, buf, sizeof buf);
        memcpy(l->module, path, strlen(path) + 1);
    }
}

/* What a replay leaves. */
struct played {
    bool ended; /* false: the device ran out of memory */
    struct peak peak;
    struct torch_alloc_stats stats;
};

/* One replay; the allocator is gone afterwards. */
static enum err_code replay_on(const struct tape *tape, const struct peak *walk, bool expandable, bool lagging, struct arena *arena,
                               struct played *ret, struct err *err)
{
    struct torch_alloc_options o = {.expandable = expandable, .lagging = lagging};
    unsigned char *mark = arena->cur;
    struct torch_alloc *a = NULL;
    enum err_code rc = allocator(tape, walk, o, arena, &a, err);

    if (rc)
        return rc;
    ret->ended = peak_replay(tape, a, &ret->peak);
    ret->stats = torch_alloc_stats(a);
    rc = torch_alloc_status(a, err);
    arena_rewind(arena, mark);
    return rc;
}

/* A GPU that always lags; where it fills a limited one and waiting for the streams does not help either, it is as full as it can be. */
static enum err_code replay_lagging(const struct tape *tape, const struct peak *walk, bool expandable, const struct played *prompt,
                                    struct arena *arena, struct played *ret, struct err *err)
{
    uint64_t most = walk->active_bytes < tape->capacity_bytes ? walk->active_bytes : tape->capacity_bytes;
    enum err_code rc = ERR_OK;

    *ret = *prompt;
    if (!walk->crossed)
        return ERR_OK;
    rc = replay_on(tape, walk, expandable, true, arena, ret, err);
    if (rc || ret->ended)
        return rc;
    *ret = *prompt;
    ret->peak.active_bytes = most > prompt->peak.active_bytes ? most : prompt->peak.active_bytes;
    ret->stats.reserved_peak_bytes = tape->capacity_bytes;
    return ERR_OK;
}

/* The allocator that was not asked for; of a limit that is not enough for it, without. */
static enum err_code replay_other(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct played *ret,
                                  struct err *err)
{
    struct tape unlimited = *tape;
    enum err_code rc = replay_on(tape, walk, expandable, false, arena, ret, err);

    unlimited.capacity_bytes = 0;
    return rc || ret->ended ? rc : replay_on(&unlimited, walk, expandable, false, arena, ret, err);
}

static enum err_code measure_expandable(const struct tape *tape, const struct peak *walk, const struct played *prompt, struct arena *arena,
                                        struct measured *m, struct err *err)
{
    struct played lagging;
    enum err_code rc = replay_lagging(tape, walk, true, prompt, arena, &lagging, err);

    m->peak_allocated_expandable_bytes = prompt->peak.peak_bytes;
    m->peak_active_expandable_bytes = prompt->peak.active_bytes;
    m->peak_reserved_expandable_bytes = prompt->stats.reserved_peak_bytes;
    m->peak_active_lagging_expandable_bytes = lagging.peak.active_bytes;
    m->peak_reserved_lagging_expandable_bytes = lagging.stats.reserved_peak_bytes;
    return rc;
}

static enum err_code measure_default(const struct tape *tape, const struct peak *walk, const struct played *prompt, struct arena *arena,
                                     struct measured *m, struct err *err)
{
    struct played lagging;
    enum err_code rc = replay_lagging(tape, walk, false, prompt, arena, &lagging, err);

    m->peak_allocated_bytes = prompt->peak.peak_bytes;
    m->peak_active_bytes = prompt->peak.active_bytes;
    m->peak_reserved_bytes = prompt->stats.reserved_peak_bytes;
    m->peak_active_lagging_bytes = lagging.peak.active_bytes;
    m->peak_reserved_lagging_bytes = lagging.stats.reserved_peak_bytes;
    return rc;
}

/* Of the allocator that was asked for. */
static enum err_code describe_replay(const struct trainer *t, const struct tape *tape, const struct played *asked, struct arena *arena,
                                     struct measured *m, struct err *err)
{
    const struct peak *replay = &asked->peak;
    struct alike groups[LARGEST_MAX];
    uint32_t n = 0;
    enum err_code rc = peak_describe(tape, replay, arena, m->breakdown_bytes, LARGEST_MAX, groups, &n, err);

    m->first_steps_peak_bytes = replay->first_bytes;
    m->max_slack_bytes = asked->stats.slack_peak_bytes;
    m->static_bytes = replay->static_bytes;
    m->resting_bytes = replay->resting_bytes;
    m->peak_phase = replay->peak_phase;
    memcpy(m->phase_peaks_bytes, replay->phase_bytes, sizeof m->phase_peaks_bytes);
    if (!rc)
        name_largest(t, tape, n, groups, m);
    return rc;
}

/* All figures of one rank's run. `known`: its replay under the default allocator and with expandable segments; NULL: not played yet. */
static enum err_code measure_run(const struct trainer *t, const struct tape *tape, const struct peak *walk, const struct played *known[2],
                                 bool expandable_segments, struct arena *arena, struct measured *m, struct err *err)
{
    struct played played[2];
    enum err_code rc = ERR_OK;

    describe_run(t, walk, m);
    for (int kind = 0; kind < 2 && !rc; kind++)
        if (known[kind])
            played[kind] = *known[kind];
        else
            rc = replay_other(tape, walk, kind, arena, &played[kind], err);
    if (!rc)
        rc = measure_expandable(tape, walk, &played[1], arena, m, err);
    if (!rc)
        rc = measure_default(tape, walk, &played[0], arena, m, err);
    return rc ? rc : describe_replay(t, tape, &played[expandable_segments], arena, m, err);
}

static enum err_code measure(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                             struct arena *arena, struct measured *m, struct err *err)
{
    const struct played *known[2] = {NULL, NULL};
    struct trainer *t = NULL;
    struct tape tape;
    struct peak walk = {0};
    enum err_code rc = run_step(arch, step, device, LOOK_REPLAY, arena, &t, &tape, &walk, err);

    return rc ? rc : measure_run(t, &tape, &walk, known, expandable_segments, arena, m, err);
}

enum err_code train_measure(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                            struct arena *arena, struct measured *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct ranks all;
    enum err_code rc = ranks_of(arch, step, false, arena, &all, err);

    for (uint32_t i = 0; i < all.n && !rc; i++) {
        struct step s = of_rank(step, all.rank[i]);
        struct measured m = {0};

        rc = measure(arch, &s, device, expandable_segments, arena, &m, err);
        if (!rc)
            ranks_take_higher(ret, &m, !i);
        arena_rewind(arena, mark);
    }
    return rc;
}

static bool wanted(enum measuring measuring, const struct fit *fit)
{
    return fit->fits && (measuring == MEASURE_FITTING || (measuring == MEASURE_ROOMY && !fit->retries));
}

/* A limit that no retry met changed nothing: such a replay is one without a limit. What loading leaves reserved has to stay within it too. */
static enum err_code fits_rank(const struct arch *arch, const struct step *step, const struct device *device, uint64_t capacity_bytes,
                               bool expandable_segments, enum measuring measuring, struct arena *arena, struct fit *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct trainer *t = NULL;
    struct tape tape = {0};
    struct peak walk = {0};
    struct played played = {0};
    const struct played *known[2] = {expandable_segments ? NULL : &played, expandable_segments ? &played : NULL};
    enum err_code rc = run_step(arch, step, device, LOOK_REPLAY, arena, &t, &tape, &walk, err);

    tape.capacity_bytes = capacity_bytes;
    if (!rc)
        describe_run(t, &walk, &ret->walk);
    if (!rc && walk.peak_bytes <= capacity_bytes)
        rc = replay_on(&tape, &walk, expandable_segments, false, arena, &played, err);
    ret->fits = !rc && played.ended && played.stats.reserved_peak_bytes <= capacity_bytes;
    ret->retries = played.stats.retries;
    ret->reserved_bytes = played.stats.reserved_peak_bytes;
    ret->measured = wanted(measuring, ret);
    if (ret->measured)
        rc = measure_run(t, &tape, &walk, known, expandable_segments, arena, &ret->memory, err);
    arena_rewind(arena, mark);
    return rc;
}

static void take_worse(struct fit *worst, const struct fit *fit, bool first)
{
    worst->fits &= fit->fits;
    worst->measured &= fit->measured;
    worst->retries = fit->retries > worst->retries ? fit->retries : worst->retries;
    worst->reserved_bytes = fit->reserved_bytes > worst->reserved_bytes ? fit->reserved_bytes : worst->reserved_bytes;
    if (fit->walk.walk_peak_bytes > worst->walk.walk_peak_bytes)
        worst->walk = fit->walk;
    if (worst->measured)
        ranks_take_higher(&worst->memory, &fit->memory, first);
}

/* It fits where it fits on every rank. */
enum err_code train_fits(const struct arch *arch, const struct step *step, const struct device *device, uint64_t capacity_bytes,
                         bool expandable_segments, enum measuring measuring, struct arena *arena, struct fit *ret, struct err *err)
{
    struct fit worst = {.fits = true, .measured = measuring != MEASURE_NOTHING};
    struct ranks all;
    enum err_code rc = ranks_of(arch, step, false, arena, &all, err);

    for (uint32_t i = 0; i < all.n && !rc && worst.fits; i++) {
        struct step s = of_rank(step, all.rank[i]);
        struct fit fit = {0};

        rc = fits_rank(arch, &s, device, capacity_bytes, expandable_segments, worst.measured ? measuring : MEASURE_NOTHING, arena, &fit, err);
        if (!rc)
            take_worse(&worst, &fit, !i);
    }
    if (!rc)
        *ret = worst;
    return rc;
}
