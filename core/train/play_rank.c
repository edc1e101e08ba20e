/*
 * play_rank.c - a deep run of one rank beside another's that is kept: its tape, and what its tree was asked for. The tree itself, ten times as large, passes.
 */
#include "train/play_inside.h"
#include "train/inventory.h"

static enum err_code play_alone(const struct play_question *q, struct arena *arena, struct kept_run *ret, struct err *err)
{
    enum err_code rc = play_once(q, arena, ret, err);

    if (!rc)
        run_tape_alone(&ret->t->run);
    return rc;
}

enum err_code play_beside(const struct play_question *q, const struct kept_run *first, struct arena *arena, struct kept_run *ret, struct err *err)
{
    unsigned char *mark = arena->cur;
    struct trainer *t;
    enum err_code rc;

    if (q->step->r.method == METHOD_PP) /* a stage has layers of its own */
        return play_alone(q, arena, ret, err);
    rc = play_passing(q, arena, ret, err);
    if (rc)
        return rc;
    t = ret->t;
    if (t->model.tree.n_modules != first->t->model.tree.n_modules) {
        arena_rewind(arena, mark);
        return play_alone(q, arena, ret, err);
    }
    run_tape_alone(&t->run);
    ret->role = play_roles(&t->model.tree, q->arch, arena);
    if (!ret->role)
        return play_no_room(err);
    t->whole = parameters_of(t->model.tree.root);
    t->model.tree = first->t->model.tree;
    return ERR_OK;
}
