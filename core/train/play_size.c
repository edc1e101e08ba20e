/* play_size.c - a kept run at another batch or length: what becomes of sizes in a model of few layers, played at both. */
#include "config/arch.h"
#include "train/play_inside.h"

static bool rows_of(const struct kept_run *k, const struct arch *arch, struct arena *arena, struct rows_of_run *ret)
{
    const struct trainer *t = k->t;
    const uint32_t *roles = k->role ? k->role : play_roles(&t->model.tree, arch, arena);

    *ret = (struct rows_of_run){t->run.births, t->run.events, t->run.n_births, t->run.n_events, t->log, roles, t->model.tree.n_modules};
    return roles;
}

/* The same question of a model of few layers, whose events are nobody's. */
static bool play_shallow(const struct kept *k, const struct step *step, struct arena *arena, bool stays, struct rows_of_run *ret)
{
    struct play_question q = {&k->arch, step, &k->device, k->live_blocks_only ? LOOK_WALK : LOOK_REPLAY, k->logged, false};
    struct arch few = k->arch;
    struct kept_run run;
    struct err err = {0};
    enum err_code rc;

    few.layers = play_few_layers(&q);
    q.arch = &few;
    rc = play_passing(&q, arena, &run, &err);
    if (!rc && stays)
        run_tape_alone(&run.t->run);
    return !rc && rows_of(&run, &few, arena, ret);
}

/* As it was played first, before it was resized. */
static bool prepare(struct kept *k, struct arena *arena)
{
    struct rows_of_run deep, shallow;

    if (arena->cur != arena->kept_end)
        return false;
    if (k->state == UNPREPARED) {
        k->state = REFUSED;
        if (play_shallow(k, &k->step, arena, true, &shallow) && rows_of(&k->deep, &k->arch, arena, &deep) &&
            resize_prepare(&deep, &shallow, arena, &k->z))
            k->state = PREPARED;
        arena_keep(arena, arena->kept);
    }
    return k->state == PREPARED;
}

static bool resized(struct kept *k, const struct step *step, struct arena *arena)
{
    struct rows_of_run then;
    unsigned char *mark;
    bool done;

    if (!prepare(k, arena))
        return false;
    mark = arena->cur;
    done = play_shallow(k, step, arena, false, &then) && resize(&k->z, &then, arena);
    arena_rewind(arena, mark);
    if (done) {
        k->micro_batch_size = step->r.micro_batch_size;
        k->seq_len_tokens = step->r.seq_len_tokens;
    }
    return done;
}

/* What finds no room here is played whole. */
bool play_takes_size(struct kept *k, const struct step *step, struct arena *arena)
{
    bool full = arena->full, done = resized(k, step, arena);

    arena->full = full;
    return done;
}
