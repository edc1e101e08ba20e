#include "train/ranks.h"

#include "base/budget.h"
#include "train/trainer.h"

#include <stddef.h>

enum err_code ranks_of(const struct arch *arch, const struct step *step, bool one, struct arena *arena, struct ranks *ret, struct err *err)
{
    const struct method_program *m = method_rows[step->r.method].program;
    unsigned char *mark = arena->cur;
    struct parallel_options o;
    struct trainer *t;
    enum err_code rc;

    *ret = (struct ranks){1, {step->r.rank}};
    if (!m || !m->ranks)
        return ERR_OK;
    ret->n = 0;
    t = arena_new(arena, struct trainer);
    if (t)
        t->memory = MEMORY_PASSING;
    rc = t ? trainer_declare(t, arch, step, arena, err) : err_set(err, ERR_NOMEM, "", "the working memory of one request is too small");
    if (!rc)
        rc = budget_take(arena->budget, t->model.tree.n_modules, err);
    if (!rc) {
        parallel_options_of(step, &o);
        ret->n = m->ranks(&o, &t->model.tree, one && m->first_is_highest ? 1 : RANKS_MAX, ret->rank);
    }
    arena_rewind(arena, mark);
    return rc;
}

struct step of_rank(const struct step *step, uint32_t rank)
{
    struct step s = *step;

    s.r.rank = rank;
    return s;
}

/* Figures that are the highest of any rank. */
static const size_t highest_of_all[] = {
    offsetof(struct measured, peak_reserved_bytes),
    offsetof(struct measured, peak_reserved_expandable_bytes),
    offsetof(struct measured, peak_reserved_lagging_bytes),
    offsetof(struct measured, peak_reserved_lagging_expandable_bytes),
    offsetof(struct measured, peak_allocated_expandable_bytes),
    offsetof(struct measured, peak_active_bytes),
    offsetof(struct measured, peak_active_expandable_bytes),
    offsetof(struct measured, peak_active_timed_bytes),
    offsetof(struct measured, peak_active_timed_expandable_bytes),
    offsetof(struct measured, peak_reserved_timed_bytes),
    offsetof(struct measured, peak_reserved_timed_expandable_bytes),
    offsetof(struct measured, peak_active_lagging_bytes),
    offsetof(struct measured, peak_active_lagging_expandable_bytes),
    offsetof(struct measured, first_steps_peak_bytes),
    offsetof(struct measured, loading_bytes),
    offsetof(struct measured, static_bytes),
    offsetof(struct measured, resting_bytes),
};

static uint64_t *figure(struct measured *m, size_t at)
{
    return (uint64_t *)(void *)((unsigned char *)m + at);
}

void ranks_take_higher(struct measured *worst, const struct measured *m, bool first)
{
    struct measured other = *m, highest = *m;

    if (!first && m->peak_allocated_bytes <= worst->peak_allocated_bytes) {
        highest = *worst;
    } else if (!first) {
        other = *worst;
    }
    for (size_t i = 0; i < sizeof highest_of_all / sizeof *highest_of_all && !first; i++) {
        uint64_t *a = figure(&highest, highest_of_all[i]), b = *figure(&other, highest_of_all[i]);

        *a = b > *a ? b : *a;
    }
    *worst = highest;
}
