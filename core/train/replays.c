#include "train/replays.h"

#include "base/budget.h"
#include "meters/clock.h"

enum { PLAYS = 64 };

struct plays {
    uint32_t n;
    struct play play[PLAYS];
};

struct plays *train_plays_new(struct arena *arena)
{
    return arena_new(arena, struct plays);
}

struct play *plays_of(struct plays *plays, uint32_t micro_batch_size, uint32_t rank)
{
    struct play *p = plays ? plays->play : NULL;

    for (uint32_t i = 0; plays && i < plays->n; i++, p++)
        if (p->micro_batch_size == micro_batch_size && p->rank == rank)
            return p;
    if (!plays || plays->n == PLAYS)
        return NULL;
    plays->n++;
    p->micro_batch_size = micro_batch_size;
    p->rank = rank;
    return p;
}

static enum err_code allocator(const struct tape *tape, const struct peak *walk, struct torch_alloc_options o, struct arena *arena,
                               struct torch_alloc **ret, struct err *err)
{
    o.addresses_fall = tape->addresses_fall;
    o.max_live = tape->n_births;
    o.max_blocks = 3 * walk->most_live + 4096;
    return torch_alloc_new(arena, &o, ret, err);
}

/* One block that is larger than any device ends even a replay without a limit: what is told is what would be alive. */
static void take_walk(const struct peak *walk, struct played *ret)
{
    ret->peak = *walk;
    if (ret->stats.reserved_peak_bytes < walk->peak_bytes)
        ret->stats.reserved_peak_bytes = walk->peak_bytes;
}

static enum err_code replay_on(const struct tape *tape, const struct peak *walk, bool expandable, enum torch_lag lag, struct arena *arena,
                               struct played *ret, struct err *err)
{
    struct torch_alloc_options o = {.expandable = expandable, .lag = lag};
    unsigned char *mark = arena->cur;
    struct torch_alloc *a = NULL;
    enum err_code rc = allocator(tape, walk, o, arena, &a, err);

    if (!rc && tape->clock)
        rc = budget_take(tape->budget, tape->clock->rows, err);
    if (rc)
        return rc;
    ret->ended = peak_replay(tape, a, &ret->peak);
    ret->stats = torch_alloc_stats(a);
    rc = torch_alloc_status(a, err);
    if (!rc && !ret->ended)
        rc = budget_status(tape->budget, err);
    if (!ret->ended && !tape->capacity_bytes)
        take_walk(walk, ret);
    arena_rewind(arena, mark);
    return rc;
}

enum err_code replay_prompt(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct played *ret,
                            struct err *err)
{
    struct tape without = *tape;

    without.clock = NULL;
    return replay_on(&without, walk, expandable, TORCH_LAG_NEVER, arena, ret, err);
}

enum err_code replay_unlimited(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct played *ret,
                               struct err *err)
{
    struct tape unlimited = *tape;
    enum err_code rc = replay_prompt(tape, walk, expandable, arena, ret, err);

    unlimited.capacity_bytes = 0;
    return rc || ret->ended ? rc : replay_prompt(&unlimited, walk, expandable, arena, ret, err);
}

enum err_code replay_timed(const struct tape *tape, const struct peak *walk, bool expandable, struct arena *arena, struct played *ret,
                           struct err *err)
{
    return replay_on(tape, walk, expandable, TORCH_LAG_TIMED, arena, ret, err);
}

enum err_code replay_behind(const struct tape *tape, const struct peak *walk, bool expandable, enum torch_lag lag,
                            const struct played *prompt, struct arena *arena, struct played *ret, struct err *err)
{
    struct tape t = *tape;
    uint64_t most = walk->active_bytes < tape->capacity_bytes ? walk->active_bytes : tape->capacity_bytes;
    enum err_code rc;

    *ret = *prompt;
    if (!walk->crossed)
        return ERR_OK;
    t.clock = lag == TORCH_LAG_TIMED ? tape->clock : NULL;
    rc = replay_on(&t, walk, expandable, lag, arena, ret, err);
    if (rc || ret->ended || !tape->capacity_bytes)
        return rc;
    *ret = *prompt;
    ret->peak.active_bytes = most > prompt->peak.active_bytes ? most : prompt->peak.active_bytes;
    ret->stats.reserved_peak_bytes = tape->capacity_bytes;
    return ERR_OK;
}
