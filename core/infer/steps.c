#include "infer/steps.h"

static bool rank_survivors(const struct run_tape *t, struct played_step *s, struct arena *arena)
{
    uint32_t *rank = arena_array(arena, uint32_t, s->n_births + 1);

    if (!rank)
        return false;
    for (uint32_t i = s->event; i < s->end; i++) {
        uint32_t e = t->events[i];

        if (event_is_of_block(e) && (e & EVENT_DEATH) && (e & EVENT_BLOCK) >= s->birth)
            rank[(e & EVENT_BLOCK) - s->birth] = NOT_LEFT;
    }
    s->survivors = 0;
    for (uint32_t k = 0; k < s->n_births; k++)
        if (rank[k] != NOT_LEFT)
            rank[k] = s->survivors++;
    s->rank = rank;
    return true;
}

bool step_leaves(const struct run_tape *t, struct played_step *s, struct arena *arena)
{
    return rank_survivors(t, s, arena);
}

static uint32_t rank_in(const struct played_step *s, uint32_t block)
{
    return s && block >= s->birth && block < s->birth + s->n_births ? s->rank[block - s->birth] : NOT_LEFT;
}

bool step_read(const struct run_tape *t, const struct played_step *older, const struct played_step *before, struct played_step *s, struct arena *arena)
{
    uint32_t *died = arena_array(arena, uint32_t, s->end - s->event + 1);

    if (!died || !rank_survivors(t, s, arena))
        return false;
    s->died = died;
    for (uint32_t i = s->event; i < s->end; i++) {
        uint32_t e = t->events[i], block = e & EVENT_BLOCK;

        if (!event_is_of_block(e) || !(e & EVENT_DEATH) || block >= s->birth)
            continue;
        if (rank_in(before, block) != NOT_LEFT)
            died[i - s->event] = rank_in(before, block);
        else if (rank_in(older, block) != NOT_LEFT)
            died[i - s->event] = rank_in(older, block) | OF_OLDER;
        else
            return false; /* of the prompt, or of a step long ago: that dies once */
    }
    return true;
}

static bool grows_evenly(const struct run_tape *t, const struct played_step *a, const struct played_step *b, uint32_t k)
{
    int64_t more = (int64_t)t->births[b->birth + k].bytes - (int64_t)t->births[a->birth + k].bytes, steps = (int64_t)b->number - a->number;

    return !more || (steps && more % steps == 0);
}

bool steps_alike(const struct run_tape *t, const struct played_step *a, const struct played_step *b)
{
    uint32_t n = a->end - a->event;

    if (n != b->end - b->event || a->n_births != b->n_births || a->survivors != b->survivors)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = t->events[a->event + i], f = t->events[b->event + i];

        if (event_is_of_block(e) != event_is_of_block(f) || (e & EVENT_DEATH) != (f & EVENT_DEATH))
            return false;
        if (!event_is_of_block(e))
            continue;
        if ((e & EVENT_BLOCK) >= a->birth ? (e & EVENT_BLOCK) - a->birth != (f & EVENT_BLOCK) - b->birth : a->died[i] != b->died[i])
            return false;
    }
    for (uint32_t k = 0; k < a->n_births; k++)
        if (a->rank[k] != b->rank[k] || (a->rank[k] != NOT_LEFT && !grows_evenly(t, a, b, k)))
            return false;
    return true;
}

uint64_t pieces_events(const struct piece *p, uint32_t n)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < n; i++)
        sum += (uint64_t)(p[i].from->end - p[i].from->event) * (p[i].to->number - p[i].from->number + 1);
    return sum;
}

enum { LIVING = 3 }; /* steps whose blocks may live at once */

uint32_t pieces_handles(const struct piece *p, uint32_t n)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = p[i].from->n_births > most ? p[i].from->n_births : most;
    return LIVING * most;
}

uint32_t pieces_survivors(const struct piece *p, uint32_t n)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < n; i++)
        most = p[i].from->survivors > most ? p[i].from->survivors : most;
    return most;
}

/* One step of a piece. */
struct playing {
    const struct run_tape *t;
    const struct played_step *a, *b;
    uint32_t number, handle; /* of its token; of its first birth */
    struct torch_alloc *alloc;
    uint32_t *left, *older;
};

static uint32_t survivor_of(const struct playing *s, uint32_t died)
{
    return died & OF_OLDER ? s->older[died & ~OF_OLDER] : s->left[died];
}

static uint64_t bytes_of(const struct playing *s, uint32_t k)
{
    int64_t from = (int64_t)s->t->births[s->a->birth + k].bytes, to = (int64_t)s->t->births[s->b->birth + k].bytes;
    int64_t steps = (int64_t)s->b->number - s->a->number, at = (int64_t)s->number - s->a->number;

    return steps ? (uint64_t)(from + (to - from) / steps * at + (to - from) % steps * at / steps) : (uint64_t)from;
}

static bool play_step(const struct playing *s, uint64_t *live, uint64_t *peak)
{
    uint32_t n = s->a->end - s->a->event, now = s->handle;
    const uint32_t *events = &s->t->events[s->a->event];

    for (uint32_t i = 0; i < n; i++) {
        uint32_t e = events[i], block = e & EVENT_BLOCK, k = block - s->a->birth, h = now + k;
        unsigned stream;
        uint64_t high;

        if (!event_is_of_block(e))
            continue; /* the host waits: nothing is on another stream */
        if (e & EVENT_DEATH) {
            h = block >= s->a->birth ? h : survivor_of(s, s->a->died[i]);
            *live -= torch_alloc_block_bytes(s->alloc, h);
            torch_alloc_give(s->alloc, h);
            continue;
        }
        stream = s->t->births[block].stream;
        high = i + 1 < n && events[i + 1] == (e | EVENT_DEATH) ? torch_alloc_visit(s->alloc, bytes_of(s, k), stream) : 0;
        if (high) {
            *peak = *live + high > *peak ? *live + high : *peak;
            i++;
            continue;
        }
        if (!torch_alloc_take(s->alloc, h, bytes_of(s, k), stream))
            return false;
        *live += torch_alloc_block_bytes(s->alloc, h);
        *peak = *live > *peak ? *live : *peak;
    }
    for (uint32_t k = 0; k < s->a->n_births; k++)
        if (s->a->rank[k] != NOT_LEFT)
            s->older[s->a->rank[k]] = now + k; /* of the next step it is `left` */
    return true;
}

bool pieces_play(const struct run_tape *t, const struct piece *p, uint32_t n, struct torch_alloc *a, uint32_t handle, uint32_t *const left[2], uint64_t *live,
                 uint64_t *peak)
{
    uint32_t each = pieces_handles(p, n) / LIVING, turn = 0;
    bool ok = true;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t number = p[i].from->number; ok && number <= p[i].to->number; number++, turn++) {
            struct playing s = {t, p[i].from, p[i].to, number, handle + turn % LIVING * each, a, left[turn & 1], left[~turn & 1]};

            ok = play_step(&s, live, peak);
        }
    return ok;
}
