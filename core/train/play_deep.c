/* play_deep.c - a deep run from two shallow ones, a period of layers apart, where that is the same. */
#include "base/budget.h"
#include "config/arch.h"
#include "meters/deepen.h"
#include "train/fold.h"
#include "train/play_inside.h"

enum {
    FIRST_PERIODS = 4,
    LONGEST_PERIOD = 8
}; /* the first, two alike, the last; where the host waits for units that went before, one more */

static uint32_t first_depth(const struct play_question *q)
{
    enum method m = q->step->r.method;
    bool waits = m != METHOD_SINGLE && m != METHOD_DDP && m != METHOD_TP;

    return fold_depth(q->arch, FIRST_PERIODS + waits);
}

/* From where on two shallow runs cost half of one in full; of layers that loop over a sequence as much, for they need half of its memory. */
static uint32_t least_depth(const struct play_question *q)
{
    uint32_t both = 2 * first_depth(q) + fold_of(q->arch).period;

    return train_turns(q->arch, q->step) ? both : 2 * both;
}

/* Nothing that fills over several layers: neither buckets and windows nor a pipeline's stages. DistributedDataParallel's buckets are looked at. */
bool play_may_be_deepened(const struct play_question *q)
{
    const struct method_program *m = method_rows[q->step->r.method].program;
    uint32_t period = fold_of(q->arch).period;
    bool stays = q->step->r.offload != OFFLOAD_ACTIVATIONS || q->look == LOOK_COSTS; /* saves that wait on the host are a window */

    if (q->step->r.quantization && !q->step->quirks.bnb_loads_by_name)
        return false; /* layer 10 is loaded before layer 2, and files end where they end */
    return !q->arch->fixed_depth && !q->logged && (!m || !m->cuts_layers) && q->step->r.method != METHOD_PP && stays &&
           period <= LONGEST_PERIOD && q->arch->layers >= least_depth(q);
}

/* NULL: why stands in *err. */
static struct trainer *play_layers(const struct play_question *q, uint32_t layers, bool with_costs, struct arena *arena, struct err *err)
{
    struct play_question shallow = *q;
    struct arch few = *q->arch;
    struct kept_run run;

    few.layers = layers;
    shallow.arch = &few;
    return (with_costs ? play_passing_with_costs : play_passing)(&shallow, arena, &run, err) ? NULL : run.t;
}

static struct bare_tape tape_of(const struct trainer *t, const uint32_t *role)
{
    return (struct bare_tape){
        .births = t->run.births,
        .events = t->run.events,
        .n_births = t->run.n_births,
        .n_events = t->run.n_events,
        .n_marks = t->run.n_marks,
        .place = {t->steps_begin, t->last_begins},
        .role = role,
        .n_roles = t->model.tree.n_modules,
    };
}

static bool play_depth(const struct play_question *q, uint32_t layers, bool with_costs, struct arena *arena, struct kept_run *host, struct bare_tape *ret,
                       struct err *err)
{
    struct trainer *t = play_layers(q, layers, with_costs, arena, err);
    struct arch few = *q->arch;

    if (!t)
        return false;
    few.layers = layers;
    host->t = t;
    play_look_at_host(host);
    run_tape_alone(&t->run);
    *ret = tape_of(t, play_roles(&t->model.tree, &few, arena));
    return ret->role;
}

/* The same, where the question has looked at it before. */
static bool take_depth(const struct play_question *q, uint32_t layers, struct arena *arena, struct kept_run *host, struct bare_tape *ret)
{
    struct play_question shallow = *q;
    struct arch few = *q->arch;
    const struct rows_of_run *rows;

    few.layers = layers;
    shallow.arch = &few;
    rows = play_few_again(&shallow, arena, host);
    if (rows)
        *ret = tape_of(host->t, rows->role);
    return rows;
}

static uint32_t buckets_of(const struct bare_tape *t)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n_births; i++)
        n += t->births[i].mark == MARK_COMMUNICATION;
    return n;
}

/* A bucket that closes in each layer is empty at the same place of the next: then buckets repeat as layers do. */
static bool buckets_repeat(const struct play_question *q, const struct bare_tape *shallow, const struct bare_tape *deeper)
{
    return q->step->r.method != METHOD_DDP || buckets_of(deeper) > buckets_of(shallow);
}

unsigned char *play_move_log(struct work *log, unsigned char *begin)
{
    size_t messages = log->n_messages * sizeof *log->messages, kernels = log->n_kernels * sizeof *log->kernels;

    begin += -(uintptr_t)begin & (_Alignof(struct kernel) - 1);
    log->messages = arena_move(begin, log->messages, messages);
    log->kernels = arena_move(begin + messages, log->kernels, kernels);
    return begin + messages + kernels;
}

/* `log`, which stands behind the tape, behind what was moved too; NULL: there is none. */
static void take_tape(struct run *r, struct arena *arena, unsigned char *begin, const struct bare_tape *t, struct work *log)
{
    size_t births = t->n_births * sizeof *t->births, events = t->n_events * sizeof *t->events;

    begin += -(uintptr_t)begin & (_Alignof(struct birth) - 1);
    r->arena = arena;
    r->births = arena_move(begin, t->births, births);
    r->events = arena_move(begin + births, t->events, events);
    r->n_births = t->n_births;
    r->n_events = t->n_events;
    r->n_marks = t->n_marks;
    begin += births + events;
    arena_rewind(arena, log ? play_move_log(log, begin) : begin);
}

/* What the host holds grows with each period by the same. */
static void host_along(const struct kept_run *a, const struct kept_run *b, uint32_t times, struct kept_run *ret)
{
    ret->host_bytes = b->host_bytes + times * (b->host_bytes - a->host_bytes);
    ret->host_bytes_of_all = b->host_bytes_of_all + times * (b->host_bytes_of_all - a->host_bytes_of_all);
}

static const struct work *costs_of(const struct trainer *t)
{
    return t->costs ? t->costs : t->log;
}

/* What of it is counted goes with the depth. `events`: of either as LOOK_COSTS has them. */
static void count_on(struct trainer *t, const struct trainer *a, const struct trainer *b, uint32_t times, const uint32_t events[2])
{
    t->whole = parameters_along(&a->whole, &b->whole, times);
    t->model.tree.n_modules = b->model.tree.n_modules + times * (b->model.tree.n_modules - a->model.tree.n_modules);
    t->run.n_events = events[1] + times * (events[1] - events[0]);
}

static bool deepen_costs(const struct play_question *q, const struct trainer *shallow, const struct trainer *deeper, uint32_t times, struct arena *arena,
                         struct work *log)
{
    const struct work *a = costs_of(shallow), *b = costs_of(deeper);
    bool in_every_layer = q->step->r.method != METHOD_DDP || a->n_messages != b->n_messages;

    return in_every_layer && deepen_log(a, b, times, arena, log);
}

/* Behind the tape, for who asks what this step costs: NULL: it could not be laid out, and is played then. */
static struct work *costs_along(const struct play_question *q, const struct trainer *a, const struct trainer *b, uint32_t times, struct arena *arena,
                                struct trainer *ret)
{
    unsigned char *mark = arena->cur;
    bool full = arena->full;
    const uint32_t events[] = {a->last_begins, b->last_begins};

    if (!ret || !ret->log)
        return NULL;
    if (!deepen_costs(q, a, b, times, arena, ret->log)) {
        arena_rewind(arena, mark);
        arena->full = full;
        return NULL;
    }
    count_on(ret, a, b, times, events);
    return ret->log;
}

static struct trainer *room_for_costs(struct arena *arena)
{
    struct trainer *t = arena_new(arena, struct trainer);

    if (t)
        t->log = arena_new(arena, struct work);
    return t;
}

/* What is left of the work reaches as far as laying it out does; else that is spent, and over. */
static bool may_be_laid_out(const struct bare_tape *shallow, const struct bare_tape *deeper, uint32_t times, struct budget *b)
{
    uint64_t events = deeper->n_events + (uint64_t)times * (deeper->n_events - shallow->n_events), takes = events / EVENTS_LAID_OUT;

    return !b || b->events + takes <= b->limit_events || budget_spend(b, takes);
}

/* False: it has to be played; *err: why, where a run of few layers ended. */
static bool lay_out(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err)
{
    uint32_t period = fold_of(q->arch).period, first = first_depth(q), times = (q->arch->layers - first) / period - 1;
    struct trainer *t = arena_new(arena, struct trainer), *costs = play_tells_costs(q) ? room_for_costs(arena) : NULL;
    struct bare_tape shallow, deeper, deep;
    struct kept_run few, more;
    struct work *log;
    unsigned char *begin;
    bool done;

    if (t)
        t->memory = arena->kept ? MEMORY_OWN : MEMORY_KEPT;
    done = t && !trainer_stand_in(t, q->arch, q->step, arena, err);
    begin = arena->cur;
    done = done && play_depth(q, first, costs, arena, &few, &shallow, err) && play_depth(q, first + period, costs, arena, &more, &deeper, err) &&
           buckets_repeat(q, &shallow, &deeper) && may_be_laid_out(&shallow, &deeper, times, arena->budget) && deepen(&shallow, &deeper, times, arena, &deep);
    if (!done)
        return false;
    log = costs_along(q, few.t, more.t, times, arena, costs);
    t->steps_begin = deep.place[0];
    t->last_begins = deep.place[1];
    t->run.counts_evenly = more.t->run.counts_evenly;
    take_tape(&t->run, arena, begin, &deep, log);
    *ret = (struct kept_run){.t = t, .costs = log ? costs : NULL};
    host_along(&few, &more, times, ret);
    return true;
}

static bool lay_out_log(const struct play_question *q, struct arena *arena, struct trainer *t)
{
    uint32_t period = fold_of(q->arch).period, first = first_depth(q), times = (q->arch->layers - first) / period - 1, events[2];
    struct work *log = arena_new(arena, struct work);
    unsigned char *begin = arena->cur;
    struct err err = {0};
    const struct trainer *shallow = play_layers(q, first, false, arena, &err),
                         *deeper = shallow ? play_layers(q, first + period, false, arena, &err) : NULL;

    if (!log || !deeper || !deepen_costs(q, shallow, deeper, times, arena, log))
        return false;
    t->log = log;
    events[0] = shallow->run.n_events;
    events[1] = deeper->run.n_events;
    count_on(t, shallow, deeper, times, events);
    arena_rewind(arena, play_move_log(log, begin));
    return true;
}

bool play_costs(const struct play_question *q, struct arena *arena, struct taped *ret)
{
    unsigned char *mark = arena->cur;
    bool full = arena->full, done;
    struct trainer *t;

    if (!play_may_be_deepened(q))
        return false;
    t = arena_new(arena, struct trainer);
    done = t && lay_out_log(q, arena, t);
    if (done) {
        *ret = (struct taped){.t = t, .made = TAPE_LAID_OUT};
        return true;
    }
    arena_rewind(arena, mark);
    arena->full = full;
    return false;
}

/* Both depths, as few as tell the moments of all. */
static bool play_both(const struct play_question *asked, struct arena *arena, struct kept_run run[2], struct bare_tape tape[2])
{
    uint32_t period = fold_of(asked->arch).period, first = first_depth(asked);
    bool costs = asked->logged && asked->look == LOOK_WALK && !trainer_skips_first(asked->arch, asked->step); /* of the step before the last */
    struct play_question q = *asked;
    struct err err = {0};

    q.logged = asked->logged && !costs;
    return (take_depth(&q, first, arena, &run[0], &tape[0]) || play_depth(&q, first, costs, arena, &run[0], &tape[0], &err)) &&
           play_depth(&q, first + period, costs, arena, &run[1], &tape[1], &err);
}

bool train_play_two(const struct play_question *q, struct arena *arena, struct peak *ret, const struct trainer **costs)
{
    uint32_t times = (q->arch->layers - first_depth(q)) / fold_of(q->arch).period - 1;
    unsigned char *mark = arena->cur, *begin;
    bool full = arena->full, done;
    struct trainer *told = q->logged ? room_for_costs(arena) : NULL;
    const struct work *log = NULL;
    struct bare_tape tape[2];
    struct kept_run run[2];

    begin = arena->cur;
    done = play_both(q, arena, run, tape) && deepen_walk(&tape[0], &tape[1], times, method_rows[q->step->r.method].program ? 1 : 0, arena, ret);
    if (done)
        log = costs_along(q, run[0].t, run[1].t, times, arena, told);
    arena_rewind(arena, log ? play_move_log(told->log, begin) : mark);
    arena->full = full;
    if (costs)
        *costs = log ? told : NULL;
    return done;
}

enum err_code play_deep(const struct play_question *q, struct arena *arena, struct kept_run *ret, bool *laid_out, struct err *err)
{
    unsigned char *mark = arena->cur;
    enum err_code rc = budget_status(arena->budget, err);
    struct err few = {0};
    uint32_t n;

    *laid_out = false;
    if (rc)
        return rc;
    *laid_out = play_may_be_deepened(q) && lay_out(q, arena, ret, &few);
    if (*laid_out)
        return budget_take(arena->budget, ret->t->run.n_events / EVENTS_LAID_OUT, err);
    arena_rewind(arena, mark);
    rc = budget_status(arena->budget, err);
    if (rc)
        return rc;
    /* The deep one has it too, and may not find room for all its layers before it comes to that. Once more, and counted. */
    if (few.code == ERR_TENSOR_SIZE && !play_layers(q, first_depth(q), false, arena, err))
        return err->code;
    arena_rewind(arena, mark);
    if (arena->kept)
        return play_beside(q, &play_first_kept(arena, &n)->deep, arena, ret, err);
    rc = play_kept(q, arena, ret, err);
    if (!rc) {
        run_tape_alone(&ret->t->run);
        if (ret->t->costs && ret->t->costs->n_kernels)
            ret->costs = play_costs_of(ret->t, ret->t->costs, ret->t->last_begins, arena);
        else if (play_tells_costs(q) && trainer_learns_order(q->step) && ret->t->log->n_kernels) /* it is laid out for other batches */
            ret->costs = play_copy_costs(ret->t, arena);
    }
    return rc;
}
