#include "train/play_inside.h"

#include "base/budget.h"

#include <string.h>

static void tell(const struct play_question *q, const struct kept_run *k, uint32_t head, const struct arena *arena, struct taped *ret)
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
        .head_module = head,
        .addresses_fall = q->device->addresses_fall, /* a tape that was laid out has no run of its own */
    };
}

void play_without_size(const struct step *step, struct step *ret)
{
    memcpy(ret, step, sizeof *ret); /* gaps are compared too */
    ret->r.micro_batch_size = ret->r.seq_len_tokens = 0;
}

static bool same_but_size(const struct step *a, const struct step *b)
{
    struct step x, y;

    play_without_size(a, &x);
    play_without_size(b, &y);
    return memcmp(&x, &y, sizeof x) == 0;
}

/* Whose tape is another where nobody replays it: fewer steps, or rounds of a pipeline. */
static bool lives_alone(const struct play_question *q)
{
    return q->look == LOOK_WALK && (q->step->r.method == METHOD_PP || q->step->find_unused_parameters || trainer_skips_first(q->arch, q->step));
}

static bool same_model(const struct kept *k, const struct play_question *q)
{
    return memcmp(&k->arch, q->arch, sizeof k->arch) == 0 && memcmp(&k->device, q->device, sizeof k->device) == 0;
}

static bool answers(const struct kept *k, const struct play_question *q)
{
    return same_model(k, q) && k->live_blocks_only == lives_alone(q) && k->logged >= q->logged && same_but_size(&k->step, q->step);
}

static bool is_of_other_rank(const struct kept *k, const struct play_question *q)
{
    struct play_question of_it = *q;
    struct step s = *q->step;

    s.r.rank = k->step.r.rank;
    of_it.step = &s;
    return answers(k, &of_it);
}

/* Bounds of their own, not what else lies in the arena: what is played anew is counted, and equal questions may be spelled at any length. */
enum { KEPT_MOST = 24, KEPT_BYTES = 160 << 20, KEPT_ALIGN = 64 };

struct kept *play_first_kept(const struct arena *arena, uint32_t *ret_n)
{
    struct kept *k = arena->kept;

    for (*ret_n = 1; k->next; k = k->next)
        ++*ret_n;
    return k;
}

/* Their place is free where nobody has what is behind them; else they are forgotten alone. */
static bool let_go_of_kept(struct arena *arena, const unsigned char *end)
{
    uint32_t n;
    bool frees = end == arena->kept_end;

    if (frees)
        arena_rewind(arena, (unsigned char *)play_first_kept(arena, &n));
    arena->kept = NULL;
    return frees;
}

/* Others of the same question stay, as long as they are few. */
static void make_room(struct arena *arena, const struct play_question *q)
{
    uint32_t n;

    if (!arena->kept)
        return;
    if (is_of_other_rank(arena->kept, q) && arena->kept_end - (unsigned char *)play_first_kept(arena, &n) <= KEPT_BYTES && n < KEPT_MOST)
        return;
    (void)let_go_of_kept(arena, arena->cur);
}

static enum err_code keep_one(const struct play_question *q, struct arena *arena, struct taped *ret, struct err *err)
{
    struct kept *k;
    bool laid_out;
    enum err_code rc;

    k = arena_push(arena, sizeof *k, KEPT_ALIGN, 1);
    if (!k)
        return play_no_room(err);
    k->next = arena->kept;
    memcpy(&k->arch, q->arch, sizeof k->arch);
    memcpy(&k->step, q->step, sizeof k->step);
    memcpy(&k->device, q->device, sizeof k->device);
    k->live_blocks_only = lives_alone(q);
    k->logged = q->logged;
    k->micro_batch_size = q->step->r.micro_batch_size;
    k->seq_len_tokens = q->step->r.seq_len_tokens;
    rc = play_deep(q, arena, &k->deep, &laid_out, err);
    if (rc)
        return rc;
    arena_keep(arena, k);
    tell(q, &k->deep, play_head(k->deep.t), arena, ret);
    ret->made = laid_out ? TAPE_LAID_OUT : TAPE_PLAYED;
    return ERR_OK;
}

/* Those that are kept leave room for it, or go. */
static enum err_code play_and_keep(const struct play_question *q, struct arena *arena, struct taped *ret, struct err *err)
{
    unsigned char *begin;
    enum err_code rc;

    make_room(arena, q);
    begin = arena->cur;
    rc = keep_one(q, arena, ret, err);
    if (rc != ERR_NOMEM || !arena->kept || begin != arena->kept_end)
        return rc;
    (void)let_go_of_kept(arena, begin);
    arena->full = false;
    return keep_one(q, arena, ret, err);
}

struct trainer *play_costs_of(const struct trainer *of, struct work *log, uint32_t events, struct arena *arena)
{
    struct trainer *t = arena_new(arena, struct trainer);

    if (!t)
        return NULL;
    t->whole = of->whole;
    t->model.tree.n_modules = of->model.tree.n_modules;
    t->run.n_events = events;
    t->log = log;
    return t;
}

struct trainer *play_copy_costs(const struct trainer *of, struct arena *arena)
{
    struct work *log = arena_new(arena, struct work);
    struct trainer *t = log ? play_costs_of(of, log, of->run.n_events, arena) : NULL;

    if (!t)
        return NULL;
    *log = *of->log;
    log->messages = arena_array_raw(arena, struct message, log->n_messages);
    log->kernels = arena_array_raw(arena, struct kernel, log->n_kernels);
    if (!log->messages || !log->kernels)
        return NULL;
    memcpy(log->messages, of->log->messages, log->n_messages * sizeof *log->messages);
    memcpy(log->kernels, of->log->kernels, log->n_kernels * sizeof *log->kernels);
    return t;
}

/* Told by the run whose tape was laid out for replays. */
static bool told_costs(const struct play_question *q, struct arena *arena, struct taped *ret)
{
    unsigned char *mark = arena->cur;
    bool full = arena->full;
    const struct trainer *t;

    for (const struct kept *k = arena->kept; k; k = k->next) {
        if (!k->deep.costs || memcmp(&k->step, q->step, sizeof k->step) != 0 || !same_model(k, q))
            continue;
        t = play_copy_costs(k->deep.costs, arena);
        if (t) {
            *ret = (struct taped){.t = t, .made = TAPE_TOLD};
            return true;
        }
        arena_rewind(arena, mark);
        arena->full = full;
    }
    return false;
}

static bool is_as_asked(const struct kept *k, const struct step *step)
{
    return k->micro_batch_size == step->r.micro_batch_size && k->seq_len_tokens == step->r.seq_len_tokens;
}

/* One sequence is unlike several: where layers are laid out that is cheaper than to see so. */
static bool is_unlike(const struct kept *k, const struct play_question *q)
{
    return (k->micro_batch_size == 1) != (q->step->r.micro_batch_size == 1) && play_may_be_deepened(q);
}

/* One that has that size, or takes it; NULL: none. */
static struct kept *find(struct arena *arena, const struct play_question *q)
{
    for (struct kept *k = arena->kept; k; k = k->next)
        if (answers(k, q) && is_as_asked(k, q->step))
            return k;
    for (struct kept *k = arena->kept; k; k = k->next)
        if (answers(k, q) && !is_unlike(k, q) && play_takes_size(k, q->step, arena))
            return k;
    return NULL;
}

enum err_code train_play(const struct play_question *q, struct arena *arena, struct taped *ret, struct err *err)
{
    struct few_played few;
    struct kept *k;
    enum err_code rc;

    if (q->look == LOOK_COSTS && !q->in_full && (told_costs(q, arena, ret) || play_costs(q, arena, ret)))
        return budget_take(arena->budget, ret->t->run.n_events / EVENTS_RESIZED, err);
    if (q->in_full || !play_is_deep(q)) {
        rc = play_few(q, arena, &few, err);
        if (rc)
            return rc;
        tell(q, &few.run, few.head, arena, ret);
        ret->made = few.resized ? TAPE_RESIZED : TAPE_PLAYED;
        return ERR_OK;
    }
    k = find(arena, q);
    if (!k)
        return play_and_keep(q, arena, ret, err);
    k->deep.t->step = q->step;
    tell(q, &k->deep, play_head(k->deep.t), arena, ret);
    ret->made = TAPE_RESIZED;
    return budget_take(arena->budget, k->deep.t->run.n_events / EVENTS_RESIZED, err);
}
