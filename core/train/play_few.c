/*
 * play_few.c - models of few layers at another batch or length: of two depths that a search looks at the deeper one's run, from the shallower one's.
 *
 * A question of both depths is asked at one size after the other. What either left at the first size is copied aside; from the second on the shallower one is
 * played, and the deeper one resized by it, or played where that is refused: then both sizes' operators differ, and the later ones are the copies.
 */
#include "train/play_inside.h"

#include "base/budget.h"
#include "config/arch.h"

#include <string.h>

enum { ROOM = 6 << 20, LAYERS_MOST = 16, ALIGN = 64 };

struct size {
    uint32_t micro_batch, seq_len;
};

/* Rows of a run, copied. */
struct copied_rows {
    struct rows_of_run rows; /* births NULL: there are none */
    struct work log;
    struct size size;
    uint32_t max_births, max_events, max_kernels, max_messages;
};

struct few {
    struct few *next;
    struct arch arch; /* without its depth */
    struct step step; /* without its size */
    struct device device;
    enum look look;
    bool logged;
    uint32_t shallow_layers, deep_layers;
    struct copied_rows shallow, then, deep; /* the first two sizes of the shallower one; `deep` and `shallow` are of one size until it is resized */
    struct kept_run of_deep;
    uint32_t head;
    enum resizable state;
    struct resizing z;
};

struct few_runs {
    struct arena arena;
    unsigned char *begin;
    struct few *first;
};

void train_runs_aside(struct arena *arena)
{
    bool full = arena->full;
    unsigned char *mark = arena->cur;
    struct few_runs *all = arena_new(arena, struct few_runs);
    void *room = all ? arena_push_raw(arena, ROOM, ALIGN, 1) : NULL;

    if (!room) {
        arena_rewind(arena, mark);
        arena->full = full;
        return;
    }
    arena_init(&all->arena, room, ROOM);
    all->begin = all->arena.cur;
    arena->aside = all;
}

/* What of it is counted in a run's own words, or lies on the host, may depend on the batch otherwise. */
static bool may_be_copied(const struct play_question *q)
{
    return (q->look == LOOK_FORETELL || q->look == LOOK_COSTS) && !q->arch->fixed_depth && q->arch->layers <= LAYERS_MOST &&
           q->step->r.method != METHOD_PP && q->step->r.offload == OFFLOAD_NONE;
}

static struct size at_size(const struct step *s)
{
    return (struct size){s->r.micro_batch_size, s->r.seq_len_tokens};
}

static bool same_size(struct size a, struct size b)
{
    return a.micro_batch == b.micro_batch && a.seq_len == b.seq_len;
}

static void key_of(const struct play_question *q, struct few *ret)
{
    memcpy(&ret->arch, q->arch, sizeof ret->arch);
    play_without_size(q->step, &ret->step);
    memcpy(&ret->device, q->device, sizeof ret->device);
    ret->arch.layers = 0;
    ret->look = q->look;
    ret->logged = q->logged;
}

static struct few *find(const struct few_runs *all, const struct few *key)
{
    for (struct few *f = all->first; f; f = f->next)
        if (f->look == key->look && f->logged == key->logged && memcmp(&f->step, &key->step, sizeof f->step) == 0 &&
            memcmp(&f->arch, &key->arch, sizeof f->arch) == 0 && memcmp(&f->device, &key->device, sizeof f->device) == 0)
            return f;
    return NULL;
}

/* Where it stood before, if that is large enough. */
static void *copy(struct arena *a, void *was, uint32_t *max, const void *of, uint32_t n, size_t each)
{
    void *p = was && n <= *max ? was : arena_push_raw(a, n ? n * each : each, ALIGN, 1);

    if (p && p != was)
        *max = n;
    return p ? memcpy(p, of, n * each) : NULL;
}

static bool copy_log(struct arena *a, const struct work *log, struct copied_rows *ret)
{
    struct kernel *kernels = copy(a, ret->log.kernels, &ret->max_kernels, log->kernels, log->n_kernels, sizeof *kernels);
    struct message *messages = copy(a, ret->log.messages, &ret->max_messages, log->messages, log->n_messages, sizeof *messages);

    ret->log = *log;
    ret->log.kernels = kernels;
    ret->log.messages = messages;
    ret->log.orders = NULL;
    ret->rows.log = &ret->log;
    return kernels && messages;
}

static bool copy_rows(struct arena *a, const struct play_question *q, const struct trainer *t, struct copied_rows *ret)
{
    const struct run *r = &t->run;
    struct birth *births = copy(a, ret->rows.births, &ret->max_births, r->births, r->n_births, sizeof *births);
    uint32_t *events = copy(a, ret->rows.events ? (void *)(uintptr_t)ret->rows.events : NULL, &ret->max_events, r->events, r->n_events, sizeof *events);

    ret->rows = (struct rows_of_run){births, events, r->n_births, r->n_events, NULL, play_roles(&t->model.tree, q->arch, a), t->model.tree.n_modules};
    ret->size = at_size(q->step);
    return births && events && ret->rows.role && (!t->log || copy_log(a, t->log, ret));
}

static void forget_deep(struct few *f)
{
    f->deep_layers = 0;
    f->state = UNPREPARED;
}

/* A trainer of which nothing is asked but its tape, its log and what is counted. */
static bool take_deep(struct arena *a, struct few *f, const struct play_question *q, const struct kept_run *run)
{
    struct trainer *t = f->of_deep.t ? f->of_deep.t : arena_new(a, struct trainer);

    if (!t || !copy_rows(a, q, run->t, &f->deep))
        return false;
    *t = *run->t;
    t->model.tree.root = t->model.tree.head = NULL;
    t->wrapped = t->referred = NULL;
    t->run.births = f->deep.rows.births;
    t->run.events = (uint32_t *)(uintptr_t)f->deep.rows.events;
    t->log = run->t->log ? &f->deep.log : NULL;
    f->of_deep = *run;
    f->of_deep.t = t;
    f->head = play_head(run->t);
    f->deep_layers = q->arch->layers;
    f->state = UNPREPARED;
    return true;
}

/* The shallower one at this size becomes what it was at first. */
static void begin_with(struct few *f)
{
    struct copied_rows first = f->shallow;

    f->shallow = f->then;
    f->then = first;
    f->then.size = (struct size){0};
    f->shallow.rows.log = f->shallow.rows.log ? &f->shallow.log : NULL;
    f->then.rows.log = f->then.rows.log ? &f->then.log : NULL;
}

/* False: there is no room. */
static bool take(struct arena *a, struct few *f, const struct play_question *q, const struct kept_run *run)
{
    struct size size = at_size(q->step);
    uint32_t layers = q->arch->layers;

    if (!f->shallow_layers || layers < f->shallow_layers) {
        forget_deep(f);
        f->shallow_layers = layers;
        return copy_rows(a, q, run->t, &f->shallow);
    }
    if (layers == f->shallow_layers)
        return same_size(size, f->shallow.size) && f->deep_layers ? true : copy_rows(a, q, run->t, f->deep_layers ? &f->then : &f->shallow);
    if (!same_size(size, f->shallow.size)) {
        if (!f->then.rows.births || !same_size(size, f->then.size))
            return true;
        begin_with(f);
    }
    return take_deep(a, f, q, run);
}

static struct few *few_new(struct few_runs *all, const struct play_question *q)
{
    struct few *f = arena_new(&all->arena, struct few);

    if (f) {
        key_of(q, f);
        f->next = all->first;
        all->first = f;
    }
    return f;
}

/* Where there is no more room all of them go: others come again less often. */
static void note(struct few_runs *all, struct few *f, const struct play_question *q, const struct kept_run *run)
{
    f = f ? f : few_new(all, q);
    if (f && take(&all->arena, f, q, run))
        return;
    arena_rewind(&all->arena, all->begin);
    all->arena.full = false;
    all->first = NULL;
}

/* The shallower one at the size that is asked for; NULL: it was not played there. */
static const struct rows_of_run *shallow_at(const struct few *f, struct size size)
{
    if (same_size(f->shallow.size, size))
        return &f->shallow.rows;
    return f->then.rows.births && same_size(f->then.size, size) ? &f->then.rows : NULL;
}

static bool resized(struct few_runs *all, struct few *f, const struct play_question *q, struct arena *arena)
{
    const struct rows_of_run *then = f->deep_layers == q->arch->layers ? shallow_at(f, at_size(q->step)) : NULL;
    unsigned char *mark = arena->cur;
    bool full = arena->full, done;

    if (!then)
        return false;
    if (f->state == UNPREPARED) {
        f->state = resize_prepare(&f->deep.rows, &f->shallow.rows, &all->arena, &f->z) ? PREPARED : REFUSED;
        all->arena.full = false;
    }
    done = f->state == PREPARED && resize(&f->z, then, arena);
    if (done)
        f->deep.size = at_size(q->step);
    arena_rewind(arena, mark);
    arena->full = full;
    return done;
}

/* Its log in the arena of who asks, as a run would have left it. */
static enum err_code hand_out(const struct few *f, const struct play_question *q, struct arena *arena, struct few_played *ret, struct err *err)
{
    struct trainer *t = f->of_deep.t->log ? play_copy_costs(f->of_deep.t, arena) : arena_new(arena, struct trainer);
    struct work *log = t ? t->log : NULL;

    if (!t)
        return play_no_room(err);
    *t = *f->of_deep.t;
    t->log = log;
    t->step = q->step;
    *ret = (struct few_played){f->of_deep, f->head, true};
    ret->run.t = t;
    return budget_take(arena->budget, f->deep.rows.n_events / EVENTS_RESIZED, err);
}

enum err_code play_few(const struct play_question *q, struct arena *arena, struct few_played *ret, struct err *err)
{
    struct few_runs *all = !q->in_full && may_be_copied(q) ? arena->aside : NULL;
    struct few key, *f = NULL;
    enum err_code rc;

    if (all) {
        key_of(q, &key);
        f = find(all, &key);
    }
    if (f && resized(all, f, q, arena))
        return hand_out(f, q, arena, ret, err);
    *ret = (struct few_played){0};
    rc = play_passing(q, arena, &ret->run, err);
    if (rc)
        return rc;
    ret->head = play_head(ret->run.t);
    if (all)
        note(all, f, q, &ret->run);
    return ERR_OK;
}

const struct rows_of_run *play_few_again(const struct play_question *q, struct arena *arena, struct kept_run *ret)
{
    const struct few_runs *all = may_be_copied(q) ? arena->aside : NULL;
    const struct few *f = NULL;
    struct few key;

    if (!all)
        return NULL;
    key_of(q, &key);
    for (int logged = q->logged; !f && logged < 2; logged++) { /* one that has a log, too, does as well */
        key.logged = logged;
        f = find(all, &key);
        f = f && f->deep_layers == q->arch->layers && same_size(f->deep.size, at_size(q->step)) ? f : NULL;
    }
    if (!f || !budget_spend(arena->budget, f->deep.rows.n_events / EVENTS_RESIZED))
        return NULL;
    *ret = f->of_deep;
    return &f->deep.rows;
}
