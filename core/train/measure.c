#include "train/measure.h"

#include "base/budget.h"
#include "meters/clock.h"
#include "train/inventory.h"
#include "train/ranks.h"
#include "train/replays.h"
#include "train/timing.h"
#include "train/play.h"

#include <string.h>

bool train_loads_as_played(const struct step *step)
{
    return kbit_is_bnb(step->r.quantization);
}

/* ---------------------------------------------------------------------------------------------------------- one run */
static void describe_run(const struct taped *run, const struct peak *walk, struct measured *m)
{
    const struct trainer *t = run->t;
    struct parameter_count n = t->foretells ? (struct parameter_count){0} : t->whole.tensors ? t->whole : parameters_of(t->model.tree.root);

    m->parameters = n.parameters;
    m->trainable_parameters = n.trainable;
    m->tensors = n.tensors;
    m->worst_rank = t->step->r.rank;
    m->host_bytes = run->host_bytes;
    m->host_bytes_of_all = run->host_bytes_of_all;
    m->births = t->run.n_births;
    m->deaths = t->run.n_events - t->run.n_births - t->run.n_marks;
    m->walk_peak_bytes = m->peak_allocated_bytes = m->peak_active_bytes = walk->peak_bytes;
    m->crossed = walk->crossed;
    m->counts_evenly = t->run.counts_evenly;
    m->peak_active_lagging_bytes = walk->active_bytes;
    m->first_steps_peak_bytes = walk->first_bytes;
    m->loading_bytes = train_loads_as_played(t->step) ? walk->loading_bytes : 0;
    m->static_bytes = walk->static_bytes;
    m->resting_bytes = walk->resting_bytes;
    m->peak_phase = walk->peak_phase;
    memcpy(m->phase_peaks_bytes, walk->phase_bytes, sizeof m->phase_peaks_bytes);
}

/* Whether a run may have blocks that several streams use. */
static bool crosses_streams(const struct step *step)
{
    const struct method_program *m = method_rows[step->r.method].program;

    return m && m->records_streams && step->r.data_parallel * step->r.tensor_parallel > 1;
}

static enum host_engine engine_of(const struct step *step)
{
    return step->r.method == METHOD_ZERO3 ? HOST_ZERO3 : method_is_zero(step->r.method) ? HOST_ZERO12 : HOST_TORCH;
}

static enum err_code start_clock(const struct trainer *t, const struct timekeeper *keeper, struct arena *arena, struct tape *tape,
                                 struct err *err)
{
    tape->clock = keeper->follow(keeper->of, (struct timed_run){t->log, engine_of(t->step), t->step->flash}, arena);
    tape->clock_begins = t->last_begins;
    if (!tape->clock)
        return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for the clocks of a step");
    return budget_take(arena->budget, tape->clock->rows, err);
}

/* `clocked`: its replays ask the keeper; without, whoever looks at the run again may. */
static enum err_code run_step(const struct arch *arch, const struct step *step, const struct device *device, const struct timekeeper *keeper,
                              bool clocked, struct arena *arena, struct taped *ret, struct peak *walk, struct err *err)
{
    struct play_question q = {arch, step, device, LOOK_REPLAY, keeper && crosses_streams(step), false};
    enum err_code rc = train_play(&q, arena, ret, err);

    if (rc)
        return rc;
    peak_walk(&ret->tape, walk);
    return q.logged && clocked && walk->crossed ? start_clock(ret->t, keeper, arena, &ret->tape, err) : ERR_OK;
}

/* ----------------------------------------------------------------------------------------------------------- the three */
/* `cost`: of this rank; NULL: nobody asks. */
static enum err_code walk_rank(const struct arch *arch, const struct step *step, const struct device *device, enum look look, struct cost *cost,
                               struct arena *arena, struct measured *ret, struct err *err)
{
    struct play_question q = {arch, step, device, look, cost != NULL, false};
    unsigned char *mark = arena->cur;
    struct measured m = {0};
    struct taped run;
    struct peak walk;
    enum err_code rc = train_play(&q, arena, &run, err);

    if (!rc) {
        peak_walk(&run.tape, &walk);
        describe_run(&run, &walk, &m);
        *ret = m;
    }
    mark = arena_kept(arena, mark);
    if (!rc && cost) { /* its log to where its run began, or behind what of it was kept */
        struct work log = *run.t->log;

        timing_read(run.t, arch, step, cost);
        mark = play_move_log(&log, mark);
        cost->messages = log.messages;
        cost->kernels = log.kernels;
    }
    arena_rewind(arena, mark);
    return rc;
}

static enum err_code walk(const struct arch *arch, const struct step *step, const struct device *device, enum look look, struct rank_peaks *peaks,
                          struct cost *cost, struct arena *arena, struct measured *ret, struct err *err)
{
    struct ranks all;
    enum err_code rc = ranks_of(arch, step, true, arena, &all, err);
    bool told = peaks && all.n > 1 && all.n <= RANKS_TOLD, any = false;

    if (peaks)
        peaks->n = told ? all.n : 0;
    if (cost)
        *cost = (struct cost){0};
    if (!timing_is_foretold(step) || (look == LOOK_WALK && !trainer_skips_first(arch, step))) /* a log of the last step, where one of costs has the first */
        cost = NULL;
    for (uint32_t i = 0; i < all.n && !rc; i++) {
        struct step s = of_rank(step, all.rank[i]);
        struct measured m = {0};

        if (!told || !(peaks->skip >> i & 1))
            rc = walk_rank(arch, &s, device, look, (look == LOOK_FORETELL ? i == 0 : s.r.rank == step->r.rank) ? cost : NULL, arena, &m, err);
        if (told)
            peaks->bytes[i] = m.walk_peak_bytes;
        if (rc || !m.walk_peak_bytes || (any && m.walk_peak_bytes <= ret->walk_peak_bytes))
            continue;
        *ret = m;
        any = true;
    }
    return rc;
}

enum err_code train_walk_ranks(const struct arch *arch, const struct step *step, const struct device *device, struct rank_peaks *peaks,
                               struct cost *cost, struct arena *arena, struct measured *ret, struct err *err)
{
    return walk(arch, step, device, LOOK_WALK, peaks, cost, arena, ret, err);
}

enum err_code train_walk(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                         struct measured *ret, struct err *err)
{
    return train_walk_ranks(arch, step, device, NULL, NULL, arena, ret, err);
}

enum err_code train_foretell(const struct arch *arch, const struct step *step, const struct device *device, struct rank_peaks *peaks,
                             struct cost *cost, struct arena *arena, struct measured *ret, struct err *err)
{
    return walk(arch, step, device, LOOK_FORETELL, peaks, cost, arena, ret, err);
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

/* Replays on one kind of allocator, by how far the GPU lags. */
struct replays {
    struct played prompt, timed, lagging;
};

static enum err_code play_prompt(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct play *play,
                                 struct err *err)
{
    enum err_code rc = play->prompt_known ? ERR_OK : replay_prompt(tape, walk, expandable, arena, &play->prompt, err);

    play->prompt_known = !rc;
    return rc;
}

/* As the clock tells; without one as a GPU that never lags. */
static enum err_code play_timed(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct play *play,
                                struct err *err)
{
    enum err_code rc = ERR_OK;

    if (play->timed_known)
        return ERR_OK;
    play->timed = play->prompt;
    if (tape->clock)
        rc = replay_behind(tape, walk, expandable, TORCH_LAG_TIMED, &play->prompt, arena, &play->timed, err);
    play->timed_known = !rc;
    return rc;
}

/* The allocator that was asked for. */
static enum err_code replay_asked(const struct tape *tape, const struct peak *walk, bool expandable, struct play *play, struct arena *arena,
                                  struct replays *ret, struct err *err)
{
    enum err_code rc = play_prompt(tape, walk, expandable, arena, play, err);

    if (!rc)
        rc = replay_behind(tape, walk, expandable, TORCH_LAG_ALWAYS, &play->prompt, arena, &ret->lagging, err);
    if (!rc)
        rc = play_timed(tape, walk, expandable, arena, play, err);
    ret->prompt = play->prompt;
    ret->timed = play->timed;
    return rc;
}

/* The other one: whose GPU never lags, or as the clock tells; `reserved_alone`: of what the clock tells nobody wants the former too. */
static enum err_code replay_other(const struct tape *tape, const struct peak *walk, bool expandable, bool reserved_alone,
                                  struct arena *arena, struct replays *ret, struct err *err)
{
    enum err_code rc;

    if (reserved_alone && walk->crossed && tape->clock) {
        rc = replay_timed(tape, walk, expandable, arena, &ret->timed, err);
        ret->prompt = ret->lagging = ret->timed;
        if (rc || ret->timed.ended)
            return rc;
    }
    rc = replay_unlimited(tape, walk, expandable, arena, &ret->prompt, err);

    ret->timed = ret->lagging = ret->prompt;
    return rc || !tape->clock ? rc : replay_behind(tape, walk, expandable, TORCH_LAG_TIMED, &ret->prompt, arena, &ret->timed, err);
}

static void take_expandable(const struct replays *r, struct measured *m)
{
    m->peak_allocated_expandable_bytes = r->prompt.peak.peak_bytes;
    m->peak_active_expandable_bytes = r->prompt.peak.active_bytes;
    m->peak_reserved_expandable_bytes = r->prompt.stats.reserved_peak_bytes;
    m->peak_active_timed_expandable_bytes = r->timed.peak.active_bytes;
    m->peak_reserved_timed_expandable_bytes = r->timed.stats.reserved_peak_bytes;
    m->peak_active_lagging_expandable_bytes = r->lagging.peak.active_bytes;
    m->peak_reserved_lagging_expandable_bytes = r->lagging.stats.reserved_peak_bytes;
}

static void take_default(const struct replays *r, struct measured *m)
{
    m->peak_allocated_bytes = r->prompt.peak.peak_bytes;
    m->peak_active_bytes = r->prompt.peak.active_bytes;
    m->peak_reserved_bytes = r->prompt.stats.reserved_peak_bytes;
    m->peak_active_timed_bytes = r->timed.peak.active_bytes;
    m->peak_reserved_timed_bytes = r->timed.stats.reserved_peak_bytes;
    m->peak_active_lagging_bytes = r->lagging.peak.active_bytes;
    m->peak_reserved_lagging_bytes = r->lagging.stats.reserved_peak_bytes;
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

/* All figures of one rank's run. `play`: what was played of it under the allocator that is asked for. */
static enum err_code measure_run(const struct taped *run, const struct peak *walk, struct play *play, bool expandable_segments,
                                 bool reserved_alone, struct arena *arena, struct measured *m, struct err *err)
{
    const struct tape *tape = &run->tape;
    struct replays of[2]; /* the default allocator, expandable segments */
    enum err_code rc = replay_asked(tape, walk, expandable_segments, play, arena, &of[expandable_segments], err);

    if (!rc)
        rc = replay_other(tape, walk, !expandable_segments, reserved_alone && !expandable_segments, arena, &of[!expandable_segments], err);
    if (rc)
        return rc;
    describe_run(run, walk, m);
    m->timed = walk->crossed && tape->clock;
    take_expandable(&of[1], m);
    take_default(&of[0], m);
    return describe_replay(run->t, tape, &of[expandable_segments].prompt, arena, m, err);
}

static enum err_code measure(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                             const struct timekeeper *keeper, struct arena *arena, struct measured *m, struct err *err)
{
    struct taped run;
    struct peak walk = {0};
    struct play play = {0};
    enum err_code rc = run_step(arch, step, device, keeper, true, arena, &run, &walk, err);

    return rc ? rc : measure_run(&run, &walk, &play, expandable_segments, false, arena, m, err);
}

/* What the first rank took since `events`, so often once more, is within the question's work. Where it is not, the others would end the question. */
static bool affords_others(const struct budget *b, uint64_t events, uint64_t times)
{
    return !b || (b->events - events) * times <= b->limit_events - b->events;
}

enum err_code train_measure(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                            const struct timekeeper *keeper, struct arena *arena, struct measured *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    uint64_t events = arena->budget ? arena->budget->events : 0;
    struct ranks all;
    enum err_code rc = ranks_of(arch, step, false, arena, &all, err);

    for (uint32_t i = 0; i < all.n && !rc; i++) {
        struct step s = of_rank(step, all.rank[i]);
        struct measured m = {0};

        rc = measure(arch, &s, device, expandable_segments, keeper, arena, &m, err);
        if (!rc)
            ranks_take_higher(ret, &m, !i);
        arena_rewind(arena, arena_kept(arena, mark));
        if (!rc && !i && !affords_others(arena->budget, events, all.n - 1)) {
            ret->ranks_left = all.n - 1;
            break;
        }
    }
    return rc;
}

static uint64_t largest_block(const struct tape *tape)
{
    uint64_t most = 0;

    for (uint32_t i = tape->steps_begin; i < tape->n_events; i++)
        if (tape->events[i] < EVENT_WAIT && tape->births[tape->events[i]].bytes > most)
            most = tape->births[tape->events[i]].bytes;
    return most;
}

static enum err_code remainder_of_rank(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                                       struct arena *arena, struct remainder *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct taped run = {0};
    struct played played = {0};
    struct peak walk = {0};
    enum err_code rc = run_step(arch, step, device, NULL, false, arena, &run, &walk, err);

    if (!rc)
        rc = replay_prompt(&run.tape, &walk, expandable_segments, arena, &played, err);
    if (!rc) {
        uint64_t reserved = played.stats.reserved_peak_bytes;

        *ret = (struct remainder){reserved > walk.peak_bytes ? reserved - walk.peak_bytes : 0, largest_block(&run.tape)};
    }
    arena_rewind(arena, arena_kept(arena, mark));
    return rc;
}

enum err_code train_remainder(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                              struct arena *arena, struct remainder *ret, struct err *err)
{
    struct ranks all;
    enum err_code rc = ranks_of(arch, step, true, arena, &all, err);

    *ret = (struct remainder){0};
    for (uint32_t i = 0; i < all.n && !rc; i++) {
        struct step s = of_rank(step, all.rank[i]);
        struct remainder one = {0};

        rc = remainder_of_rank(arch, &s, device, expandable_segments, arena, &one, err);
        ret->held_bytes = one.held_bytes > ret->held_bytes ? one.held_bytes : ret->held_bytes;
        ret->largest_bytes = one.largest_bytes > ret->largest_bytes ? one.largest_bytes : ret->largest_bytes;
    }
    return rc;
}

/* What is answered as reserved leaves room: where blocks cross streams, as the clock tells. */
static enum err_code is_roomy(const struct tape *tape, const struct peak *walk, const struct fit_question *q, struct arena *arena,
                              struct play *play, bool *ret, struct err *err)
{
    enum err_code rc = play->prompt.stats.retries ? ERR_OK : play_timed(tape, walk, q->expandable_segments, arena, play, err);

    *ret = !rc && !play->prompt.stats.retries && play->timed.stats.reserved_peak_bytes <= q->roomy_bytes;
    return rc;
}

/* A limit that no retry met changed nothing: such a replay is one without a limit. What loading leaves reserved has to stay within it too. */
static enum err_code fits_tape(const struct taped *run, const struct peak *walk, const struct fit_question *q, struct arena *arena,
                               struct play *play, struct fit *ret, struct err *err)
{
    const struct tape *tape = &run->tape;
    enum err_code rc = ERR_OK;

    if (walk->peak_bytes <= q->capacity_bytes)
        rc = play_prompt(tape, walk, q->expandable_segments, arena, play, err);
    ret->fits = !rc && play->prompt.ended && play->prompt.stats.reserved_peak_bytes <= q->capacity_bytes;
    ret->retries = play->prompt.stats.retries;
    ret->reserved_bytes = play->prompt.stats.reserved_peak_bytes;
    if (!rc && ret->fits && q->measuring == MEASURE_ROOMY)
        rc = is_roomy(tape, walk, q, arena, play, &ret->roomy, err);
    ret->measured = !rc && ret->fits && (ret->roomy || q->measuring == MEASURE_FITTING);
    if (ret->measured)
        rc = measure_run(run, walk, play, q->expandable_segments, true, arena, &ret->memory, err);
    return rc;
}

/* What was played of it is enough; of its live blocks only what a search reads is told. */
static bool is_known(const struct play *play, const struct fit_question *q, struct fit *ret)
{
    const struct torch_alloc_stats *s = &play->prompt.stats;
    bool fits = play->prompt.ended && s->reserved_peak_bytes <= q->capacity_bytes;
    bool tight = !fits || s->retries || (!play->crossed && s->reserved_peak_bytes > q->roomy_bytes);

    if (!play->prompt_known || q->measuring == MEASURE_FITTING || (q->measuring == MEASURE_ROOMY && !tight))
        return false;
    ret->fits = fits;
    ret->retries = s->retries;
    ret->reserved_bytes = s->reserved_peak_bytes;
    ret->walk.loading_bytes = play->loading_bytes;
    ret->walk.static_bytes = play->static_bytes;
    ret->walk.walk_peak_bytes = play->walk_peak_bytes;
    ret->walk.crossed = play->crossed;
    return true;
}

static enum err_code fits_rank(const struct arch *arch, const struct step *step, const struct device *device, const struct fit_question *q,
                               struct arena *arena, struct fit *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct taped run = {0};
    struct peak walk = {0};
    struct play once = {0}, *play = plays_of(q->plays, step->r.micro_batch_size, step->r.rank);
    enum err_code rc;

    if (play && is_known(play, q, ret))
        return ERR_OK;
    rc = run_step(arch, step, device, q->keeper, q->measuring != MEASURE_NOTHING, arena, &run, &walk, err);
    run.tape.capacity_bytes = q->capacity_bytes;
    run.tape.limits_loading = train_loads_as_played(step);
    if (!rc)
        describe_run(&run, &walk, &ret->walk);
    if (!rc)
        rc = fits_tape(&run, &walk, q, arena, play ? play : &once, ret, err);
    if (!rc && play) {
        play->crossed = walk.crossed;
        play->loading_bytes = ret->walk.loading_bytes;
        play->static_bytes = walk.static_bytes;
        play->walk_peak_bytes = walk.peak_bytes;
    }
    arena_rewind(arena, arena_kept(arena, mark));
    return rc;
}

static void take_worse(struct fit *worst, const struct fit *fit, bool first)
{
    worst->fits &= fit->fits;
    worst->measured &= fit->measured;
    worst->roomy &= fit->roomy;
    worst->retries = fit->retries > worst->retries ? fit->retries : worst->retries;
    worst->reserved_bytes = fit->reserved_bytes > worst->reserved_bytes ? fit->reserved_bytes : worst->reserved_bytes;
    if (fit->walk.walk_peak_bytes > worst->walk.walk_peak_bytes)
        worst->walk = fit->walk;
    if (worst->measured)
        ranks_take_higher(&worst->memory, &fit->memory, first);
}

/* The ranks behind the first, where playing them would end the question: what is only asked whether it fits is measured later too, all ranks again. What was
 * left once is left whenever it is asked again. */
static bool leaves_others(const struct fit *fit, const struct fit_question *q, const struct step *first, const struct budget *b, uint64_t events,
                          uint32_t n)
{
    struct play *play = plays_of(q->plays, first->r.micro_batch_size, first->r.rank);
    bool left = n > 1 && fit->fits && ((play && play->others_left) || !affords_others(b, events, q->measuring == MEASURE_NOTHING ? 2 * n - 1 : n - 1));

    if (left && play)
        play->others_left = true;
    return left;
}

/* It fits where it fits on every rank. */
enum err_code train_fits(const struct arch *arch, const struct step *step, const struct device *device, const struct fit_question *q,
                         struct arena *arena, struct fit *ret, struct err *err)
{
    struct fit worst = {.fits = true, .measured = q->measuring != MEASURE_NOTHING, .roomy = q->measuring == MEASURE_ROOMY};
    struct fit_question of_rank_i = *q;
    uint64_t events = arena->budget ? arena->budget->events : 0;
    struct ranks all;
    enum err_code rc = ranks_of(arch, step, q->highest_alone, arena, &all, err);

    for (uint32_t i = 0; i < all.n && !rc && worst.fits; i++) {
        struct step s = of_rank(step, all.rank[i]);
        struct fit fit = {0};

        if (!worst.measured)
            of_rank_i.measuring = MEASURE_NOTHING;
        rc = fits_rank(arch, &s, device, &of_rank_i, arena, &fit, err);
        if (!rc)
            take_worse(&worst, &fit, !i);
        if (!rc && !i && leaves_others(&fit, q, &s, arena->budget, events, all.n)) {
            worst.memory.ranks_left = all.n - 1;
            break;
        }
    }
    if (!rc)
        *ret = worst;
    return rc;
}
