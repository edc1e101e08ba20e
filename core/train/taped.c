#include "train/taped.h"

#include "base/budget.h"
#include "config/arch.h"
#include "meters/deepen.h"
#include "meters/resize.h"
#include "train/fold.h"
#include "train/timing.h"

#include <string.h>

/* A run, whose tape alone has stayed. */
struct kept_run {
    struct trainer *t;
    uint64_t host_bytes, host_bytes_of_all;
};

struct kept {
    struct kept *next;                         /* of other ranks, or of sizes at which operators take other paths */
    uint32_t micro_batch_size, seq_len_tokens; /* as it is now */
    struct arch arch;
    struct step step;
    struct device device;
    bool live_blocks_only, logged;
    struct kept_run deep;
    enum { UNPREPARED, PREPARED, REFUSED } state;
    struct resizing z;
};

/* ------------------------------------------------------------------------------------------------------------ one play */
static enum err_code no_room(struct err *err)
{
    return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
}

static void look_at_host(struct kept_run *k)
{
    const struct trainer *t = k->t;
    const struct method_program *p = t->method;

    k->host_bytes = trainer_paged_bytes(t);
    k->host_bytes_of_all = k->host_bytes * t->step->r.data_parallel;
    if (!p || !p->host_bytes || !t->wrapped) /* nothing is wrapped where a tape was laid out: then nothing is offloaded */
        return;
    k->host_bytes = p->host_bytes(t->wrapped);
    k->host_bytes_of_all = p->host_bytes_of_all ? p->host_bytes_of_all(t->wrapped) : k->host_bytes * t->parallel.at.world;
}

static enum err_code play(const struct tape_question *q, struct arena *arena, struct kept_run *ret, struct err *err)
{
    struct kept_run k = {.t = arena_new(arena, struct trainer)};
    enum err_code rc = k.t ? ERR_OK : no_room(err);

    if (!rc && q->logged)
        rc = timing_log(q->arch, q->step, arena, &k.t->log, err);
    if (rc)
        return rc;
    k.t->live_blocks_only = q->look != LOOK_REPLAY;
    k.t->foretells = q->look == LOOK_FORETELL;
    rc = trainer_run(k.t, q->arch, q->step, q->device, arena, err);
    if (rc)
        return rc;
    look_at_host(&k);
    *ret = k;
    return ERR_OK;
}

static void tell(const struct kept_run *k, const struct arena *arena, struct taped *ret)
{
    const struct trainer *t = k->t;

    *ret = (struct taped){.t = t, .host_bytes = k->host_bytes, .host_bytes_of_all = k->host_bytes_of_all};
    ret->tape = (struct tape){
        .budget = arena->budget,
        .births = t->run.births,
        .events = t->run.events,
        .n_births = t->run.n_births,
        .n_events = t->run.n_events,
        .steps_begin = t->steps_begin,
        .peaks_begin = trainer_peaks_begin(t),
        .head_module = t->model.tree.head ? t->model.tree.head->number : 0,
    };
}

/* ---------------------------------------------------------------------------------------------------------- few layers */
static uint32_t stages_of(const struct step *s)
{
    return s->r.pipeline_parallel ? s->r.pipeline_parallel : 1;
}

/* Two of a kind: the first and the last of a model do not always do alike. */
static uint32_t few_layers(const struct tape_question *q)
{
    return 2 * fold_period(q->arch) * stages_of(q->step);
}

enum { DEEP = 4 }; /* times as many layers: below, a whole run is as cheap */

/* A pipeline's rounds are the more the fewer its layers are, where the allocator is played. */
static bool is_worth_keeping(const struct tape_question *q)
{
    bool few_rounds = q->step->r.method != METHOD_PP || q->look != LOOK_REPLAY;

    return !q->arch->fixed_depth && q->look != LOOK_FORETELL && few_rounds && q->arch->layers >= DEEP * few_layers(q);
}

static uint32_t hashed(uint32_t hash, const char *name)
{
    for (; *name; name++)
        hash = (hash ^ (uint8_t)*name) * UINT32_C(16777619);
    return hash;
}

/* Of a ModuleList's child. */
static uint32_t index_of(const char *name)
{
    uint32_t n = 0;

    for (; *name >= '0' && *name <= '9'; name++)
        n = n * 10 + (uint32_t)(*name - '0');
    return n;
}

/* A path, whose layers go by their kind. */
static uint32_t role_of(const struct module *m, uint32_t period, uint32_t *roles)
{
    uint32_t above;

    if (!m)
        return UINT32_C(2166136261);
    if (roles[m->number])
        return roles[m->number];
    above = role_of(m->parent, period, roles);
    if (*m->name >= '0' && *m->name <= '9')
        roles[m->number] = (above + 1 + index_of(m->name) % period) * UINT32_C(16777619);
    else
        roles[m->number] = hashed(above, m->name);
    return roles[m->number];
}

static const uint32_t *roles_of(const struct tree *tree, const struct arch *arch, struct arena *arena)
{
    uint32_t *roles = arena_array(arena, uint32_t, tree->n_modules), period = fold_period(arch);

    for (uint32_t i = 1; roles && i < tree->n_modules; i++)
        (void)role_of(tree->modules[i], period, roles);
    return roles;
}

static bool rows_of(const struct kept_run *k, const struct arch *arch, struct arena *arena, struct rows_of_run *ret)
{
    const struct trainer *t = k->t;
    const uint32_t *roles = roles_of(&t->model.tree, arch, arena);

    *ret = (struct rows_of_run){t->run.births, t->run.events, t->run.n_births, t->run.n_events, t->log, roles, t->model.tree.n_modules};
    return roles;
}

/* The same question of a model of few layers, whose events are nobody's. */
static bool play_few(const struct kept *k, const struct step *step, struct arena *arena, bool stays, struct rows_of_run *ret)
{
    struct budget *budget = arena->budget;
    struct tape_question q = {&k->arch, step, &k->device, k->live_blocks_only ? LOOK_WALK : LOOK_REPLAY, k->logged, false};
    struct arch few = k->arch;
    struct kept_run run;
    struct err err = {0};
    enum err_code rc;

    few.layers = few_layers(&q);
    q.arch = &few;
    arena->budget = NULL;
    rc = play(&q, arena, &run, &err);
    arena->budget = budget;
    if (!rc && stays)
        run_tape_alone(&run.t->run);
    return !rc && rows_of(&run, &few, arena, ret);
}

/* ------------------------------------------------------------------------------------------------------------- full depth */
enum {
    FIRST_PERIODS = 4,
    LONGEST_PERIOD = 8
}; /* the first, two alike, the last; where the host waits for units that went before, one more */

static uint32_t first_depth(const struct tape_question *q)
{
    uint32_t period = fold_period(q->arch);
    enum method m = q->step->r.method;
    bool waits = m != METHOD_SINGLE && m != METHOD_DDP && m != METHOD_TP;

    return (FIRST_PERIODS + waits) * period + q->arch->layers % period;
}

/* Nothing that fills over several layers: neither buckets and windows nor a pipeline's stages. DistributedDataParallel's buckets are looked at. */
static bool may_be_deepened(const struct tape_question *q)
{
    const struct method_program *m = method_rows[q->step->r.method].program;
    uint32_t period = fold_period(q->arch);

    return !q->arch->fixed_depth && !q->logged && (!m || !m->cuts_layers) && q->step->r.method != METHOD_PP &&
           q->step->r.offload == OFFLOAD_NONE && period <= LONGEST_PERIOD && q->arch->layers >= 2 * (2 * first_depth(q) + period);
}

static bool play_depth(const struct tape_question *q, uint32_t layers, struct arena *arena, struct bare_tape *ret)
{
    struct tape_question shallow = *q;
    struct arch few = *q->arch;
    struct kept_run run;
    struct err err = {0};

    few.layers = layers;
    shallow.arch = &few;
    if (play(&shallow, arena, &run, &err))
        return false;
    run_tape_alone(&run.t->run);
    *ret = (struct bare_tape){
        .births = run.t->run.births,
        .events = run.t->run.events,
        .n_births = run.t->run.n_births,
        .n_events = run.t->run.n_events,
        .n_marks = run.t->run.n_marks,
        .place = {run.t->steps_begin, run.t->last_begins},
        .role = roles_of(&run.t->model.tree, &few, arena),
        .n_roles = run.t->model.tree.n_modules,
    };
    return ret->role;
}

static uint32_t buckets_of(const struct bare_tape *t)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n_births; i++)
        n += t->births[i].mark == MARK_COMMUNICATION;
    return n;
}

/* A bucket that closes in each layer is empty at the same place of the next: then buckets repeat as layers do. */
static bool buckets_repeat(const struct tape_question *q, const struct bare_tape *shallow, const struct bare_tape *deeper)
{
    return q->step->r.method != METHOD_DDP || buckets_of(deeper) > buckets_of(shallow);
}

static void take_tape(struct run *r, struct arena *arena, unsigned char *begin, const struct bare_tape *t)
{
    size_t births = t->n_births * sizeof *t->births, events = t->n_events * sizeof *t->events;

    begin += -(uintptr_t)begin & (_Alignof(struct birth) - 1);
    r->arena = arena;
    r->births = arena_move(begin, t->births, births);
    r->events = arena_move(begin + births, t->events, events);
    r->n_births = t->n_births;
    r->n_events = t->n_events;
    r->n_marks = t->n_marks;
    arena_rewind(arena, begin + births + events);
}

/* False: it has to be played. */
static bool lay_out(const struct tape_question *q, struct arena *arena, struct kept_run *ret)
{
    uint32_t period = fold_period(q->arch), first = first_depth(q);
    struct trainer *t = arena_new(arena, struct trainer);
    struct budget *budget = arena->budget;
    struct bare_tape shallow, deeper, deep;
    unsigned char *begin;
    struct err err = {0};
    bool done;

    arena->budget = NULL;
    done = t && !trainer_stand_in(t, q->arch, q->step, arena, &err);
    begin = arena->cur;
    done = done && play_depth(q, first, arena, &shallow) && play_depth(q, first + period, arena, &deeper) &&
           buckets_repeat(q, &shallow, &deeper) && deepen(&shallow, &deeper, (q->arch->layers - first) / period - 1, arena, &deep);
    arena->budget = budget;
    if (!done)
        return false;
    t->steps_begin = deep.place[0];
    t->last_begins = deep.place[1];
    take_tape(&t->run, arena, begin, &deep);
    *ret = (struct kept_run){.t = t};
    look_at_host(ret);
    return true;
}

/* As many events as a play has, whichever way. */
static enum err_code lay_out_or_play(const struct tape_question *q, struct arena *arena, struct kept_run *ret, bool *laid_out,
                                     struct err *err)
{
    unsigned char *mark = arena->cur;
    enum err_code rc;

    *laid_out = may_be_deepened(q) && lay_out(q, arena, ret);
    if (*laid_out)
        return budget_take(arena->budget, ret->t->model.tree.n_modules + (uint64_t)ret->t->run.n_events, err);
    arena_rewind(arena, mark);
    rc = play(q, arena, ret, err);
    if (!rc)
        run_tape_alone(&ret->t->run);
    return rc;
}

/* -------------------------------------------------------------------------------------------------------------- keeping */
/* All that has to be the same but batch and length. */
static struct step without_size(const struct step *step)
{
    struct step s;

    memcpy(&s, step, sizeof s);
    s.r.micro_batch_size = s.r.seq_len_tokens = 0;
    return s;
}

static bool same_but_size(const struct step *a, const struct step *b)
{
    struct step x = without_size(a), y = without_size(b);

    return memcmp(&x, &y, sizeof x) == 0;
}

/* Whose tape is another where nobody replays it: fewer steps, or rounds of a pipeline. */
static bool lives_alone(const struct tape_question *q)
{
    return q->look == LOOK_WALK && (q->step->r.method == METHOD_PP || q->step->find_unused_parameters || trainer_skips_first(q->arch, q->step));
}

static bool answers(const struct kept *k, const struct tape_question *q)
{
    return memcmp(&k->arch, q->arch, sizeof k->arch) == 0 && memcmp(&k->device, q->device, sizeof k->device) == 0 &&
           k->live_blocks_only == lives_alone(q) && k->logged >= q->logged && same_but_size(&k->step, q->step);
}

static bool is_of_other_rank(const struct kept *k, const struct tape_question *q)
{
    struct tape_question of_it = *q;
    struct step s = *q->step;

    s.r.rank = k->step.r.rank;
    of_it.step = &s;
    return answers(k, &of_it);
}

enum { KEPT_MOST = 24 };

/* Others of the same question stay, as long as they leave half of the room. */
static void make_room(struct arena *arena, const struct tape_question *q)
{
    struct kept *k = arena->kept, *first = k;
    uint32_t n = 1;

    if (!k)
        return;
    for (; first->next; first = first->next)
        n++;
    if (is_of_other_rank(k, q) && n < KEPT_MOST && arena->end - arena->cur > arena->kept_end - (unsigned char *)first)
        return;
    if (arena->cur == arena->kept_end)
        arena_rewind(arena, (unsigned char *)first);
    arena->kept = NULL;
}

static enum err_code play_and_keep(const struct tape_question *q, struct arena *arena, struct taped *ret, struct err *err)
{
    struct kept *k;
    bool laid_out;
    enum err_code rc;

    make_room(arena, q);
    k = arena_new(arena, struct kept);
    if (!k)
        return no_room(err);
    k->next = arena->kept;
    memcpy(&k->arch, q->arch, sizeof k->arch);
    memcpy(&k->step, q->step, sizeof k->step);
    memcpy(&k->device, q->device, sizeof k->device);
    k->live_blocks_only = lives_alone(q);
    k->logged = q->logged;
    k->micro_batch_size = q->step->r.micro_batch_size;
    k->seq_len_tokens = q->step->r.seq_len_tokens;
    rc = lay_out_or_play(q, arena, &k->deep, &laid_out, err);
    if (rc)
        return rc;
    arena_keep(arena, k);
    tell(&k->deep, arena, ret);
    ret->made = laid_out ? TAPE_LAID_OUT : TAPE_PLAYED;
    return ERR_OK;
}

/* As it was played first, before it was resized. */
static bool prepare(struct kept *k, struct arena *arena)
{
    struct rows_of_run deep, shallow;

    if (arena->cur != arena->kept_end)
        return false;
    if (k->state == UNPREPARED) {
        k->state = REFUSED;
        if (play_few(k, &k->step, arena, true, &shallow) && rows_of(&k->deep, &k->arch, arena, &deep) &&
            resize_prepare(&deep, &shallow, arena, &k->z))
            k->state = PREPARED;
        arena_keep(arena, arena->kept);
    }
    return k->state == PREPARED;
}

static bool is_as_asked(const struct kept *k, const struct step *step)
{
    return k->micro_batch_size == step->r.micro_batch_size && k->seq_len_tokens == step->r.seq_len_tokens;
}

static bool resized(struct kept *k, const struct step *step, struct arena *arena)
{
    struct rows_of_run then;
    unsigned char *mark;
    bool done;

    if (!prepare(k, arena))
        return false;
    mark = arena->cur;
    done = play_few(k, step, arena, false, &then) && resize(&k->z, &then, arena);
    arena_rewind(arena, mark);
    if (done) {
        k->micro_batch_size = step->r.micro_batch_size;
        k->seq_len_tokens = step->r.seq_len_tokens;
    }
    return done;
}

/* What finds no room here is played whole. */
static bool takes_size(struct kept *k, const struct step *step, struct arena *arena)
{
    bool full = arena->full, done = resized(k, step, arena);

    arena->full = full;
    return done;
}

/* One that has that size, or takes it; NULL: none. */
static struct kept *find(struct arena *arena, const struct tape_question *q)
{
    for (struct kept *k = arena->kept; k; k = k->next)
        if (answers(k, q) && is_as_asked(k, q->step))
            return k;
    for (struct kept *k = arena->kept; k; k = k->next)
        if (answers(k, q) && takes_size(k, q->step, arena))
            return k;
    return NULL;
}

enum err_code taped(const struct tape_question *q, struct arena *arena, struct taped *ret, struct err *err)
{
    struct kept_run run;
    struct kept *k;
    enum err_code rc;

    if (q->in_full || !is_worth_keeping(q)) {
        rc = play(q, arena, &run, err);
        if (!rc)
            tell(&run, arena, ret);
        return rc;
    }
    k = find(arena, q);
    if (!k)
        return play_and_keep(q, arena, ret, err);
    k->deep.t->step = q->step;
    tell(&k->deep, arena, ret);
    ret->made = TAPE_RESIZED;
    return budget_take(arena->budget, k->deep.t->model.tree.n_modules + (uint64_t)k->deep.t->run.n_events, err);
}

unsigned char *taped_kept(const struct arena *arena, unsigned char *mark)
{
    unsigned char *at = arena->kept && arena->kept_end > mark ? arena->kept_end : mark;

    /* What took the place of a longer tape may end below the mark. */
    return at < arena->cur ? at : arena->cur;
}
