#include "meters/deepen.h"

#include "meters/align.h"

struct side {
    const struct bare_tape *t;
    uint64_t *of_birth, *like, *loose; /* of births, and by event: what it is, and but for its size */
};

struct deepening {
    struct side a, b;
    uint32_t times;
    struct alignment of;
    struct birth *births;
    uint32_t *events;
    uint8_t *alive;
    uint32_t n_births, n_events, max_births, max_events;
};

/* --------------------------------------------------------------------------------------------------------------- symbols */
static uint64_t loose_of(const struct bare_tape *t, const struct birth *b)
{
    uint64_t what = b->op | (uint64_t)b->node << 16 | (uint64_t)b->stage << 32 | (uint64_t)b->forward_stage << 36 |
                    (uint64_t)b->mark << 40 | (uint64_t)b->stream << 44 | (uint64_t)b->recompute << 48 | (uint64_t)b->readers << 52;

    return mixed_mark(b->module < t->n_roles ? t->role[b->module] : 0, what);
}

static bool read_side(struct side *s, const struct bare_tape *t, struct arena *arena)
{
    s->t = t;
    s->of_birth = arena_array_raw(arena, uint64_t, t->n_births);
    s->like = arena_array_raw(arena, uint64_t, t->n_events);
    s->loose = arena_array_raw(arena, uint64_t, t->n_events);
    if (!s->of_birth || !s->like || !s->loose)
        return false;
    for (uint32_t i = 0; i < t->n_births; i++)
        s->of_birth[i] = loose_of(t, &t->births[i]);
    for (uint32_t i = 0; i < t->n_events; i++) {
        uint32_t e = t->events[i], block = e & EVENT_BLOCK;
        bool waits_for = !event_is_of_block(e) && e != EVENT_RELEASE && e != EVENT_SYNC;

        if (event_is_of_block(e)) {
            s->loose[i] = s->of_birth[block] + (e & EVENT_DEATH);
            s->like[i] = mixed_mark(s->loose[i], t->births[block].bytes);
        } else {
            s->loose[i] = s->like[i] = waits_for ? EVENT_WAIT : e;
        }
    }
    return true;
}

static bool align_sides(struct deepening *d, bool sized)
{
    struct marks a = {d->a.like, d->a.loose, d->a.t->n_events}, b = {d->b.like, d->b.loose, d->b.t->n_events};

    return align(&a, &b, sized, &d->of);
}

/* ----------------------------------------------------------------------------------------------------------------- output */
static bool put_birth(struct deepening *d, uint32_t e, struct birth b)
{
    if (e != d->n_births || d->n_births == d->max_births)
        return false;
    d->alive[d->n_births] = 1;
    d->births[d->n_births++] = b;
    return true;
}

/* Of a block that is alive, and is what dies there. */
static bool put_death(struct deepening *d, uint32_t e, const struct birth *as, uint64_t bytes)
{
    uint32_t block = e & EVENT_BLOCK;

    if (block >= d->n_births || !d->alive[block] || d->births[block].bytes != bytes || d->births[block].op != as->op ||
        d->births[block].stage != as->stage)
        return false;
    d->alive[block] = 0;
    return true;
}

static bool put(struct deepening *d, uint32_t e, const struct birth *as, uint32_t module, uint64_t bytes)
{
    if (d->n_events == d->max_events)
        return false;
    if (event_is_of_block(e) && !(e & EVENT_DEATH)) {
        struct birth b = *as;

        b.module = module;
        b.bytes = bytes;
        if (!put_birth(d, e, b))
            return false;
    } else if (event_is_of_block(e)) {
        if (!put_death(d, e, as, bytes))
            return false;
    } else if (e < EVENT_SYNC && (e & EVENT_POSITION) > d->n_events) {
        return false;
    }
    d->events[d->n_events++] = e;
    return true;
}

static const struct birth *birth_at(const struct side *s, uint32_t event)
{
    uint32_t e = s->t->events[event];

    return event_is_of_block(e) ? &s->t->births[e & EVENT_BLOCK] : NULL;
}

/* Event j of the deeper tape, which is event i of the shallow one. */
static bool put_same(struct deepening *d, uint32_t i, uint32_t j)
{
    const struct birth *a = birth_at(&d->a, i), *b = birth_at(&d->b, j);
    uint32_t e = d->b.t->events[j];

    e += d->times * (e - d->a.t->events[i]);
    if (!b)
        return put(d, e, NULL, 0, 0);
    return put(d, e, b, b->module + d->times * (b->module - a->module), b->bytes + d->times * (b->bytes - a->bytes));
}

/* The same steps from one repetition to the next, at both depths. */
static bool is_steady(const struct deepening *d, const struct stretch *s, uint32_t k)
{
    uint32_t j = s->deeper + k, i = s->shallow + k, n = s->length;
    const uint32_t *a = d->a.t->events, *b = d->b.t->events;
    const struct birth *x = birth_at(&d->b, j);

    if (b[j] - b[j - n] != b[j - n] - b[j - 2 * n] || b[j] - b[j - n] != a[i - n] - a[i - 2 * n])
        return false;
    if (!x)
        return true;
    return x->module - birth_at(&d->b, j - n)->module == birth_at(&d->b, j - n)->module - birth_at(&d->b, j - 2 * n)->module &&
           x->module - birth_at(&d->b, j - n)->module == birth_at(&d->a, i - n)->module - birth_at(&d->a, i - 2 * n)->module;
}

static bool put_stretch(struct deepening *d, const struct stretch *s)
{
    uint32_t n = s->length;

    for (uint32_t k = 0; k < n; k++)
        if (!is_steady(d, s, k))
            return false;
    for (uint32_t c = 1; c <= d->times + 1; c++)
        for (uint32_t k = 0; k < n; k++) {
            uint32_t j = s->deeper + k - n, i = s->shallow + k - n;
            uint32_t was = d->b.t->events[j], e = was + d->times * (was - d->a.t->events[i]) + c * (d->b.t->events[j + n] - was);
            const struct birth *x = birth_at(&d->b, j + n), *before = birth_at(&d->b, j), *a = birth_at(&d->a, i);

            if (x ? !put(d, e, x, before->module + d->times * (before->module - a->module) + c * (x->module - before->module), x->bytes)
                  : !put(d, e, NULL, 0, 0))
                return false;
        }
    return true;
}

/* A position that lies in no stretch moves with those before it. */
static bool put_place(const struct deepening *d, int which, uint32_t *ret)
{
    uint32_t at = d->b.t->place[which], more = 0;

    for (uint32_t i = 0; i < d->of.n; i++) {
        const struct stretch *s = &d->of.stretches[i];

        if (at > s->deeper && at < s->deeper + s->length)
            return false;
        more += at >= s->deeper + s->length ? s->length : 0;
    }
    *ret = at + d->times * more;
    return at - d->a.t->place[which] == more;
}

/* Events i and j are not the same after all: of one layer the shallow tape has its first, say, and the deeper one the layer above. Then what the deeper one
 * has more begins here, if it repeats what was before as well from here on. */
static bool begins_here(struct deepening *d, struct stretch *s, uint32_t i, uint32_t j, uint32_t since)
{
    const uint64_t *a = d->a.like, *b = d->b.like;
    uint32_t n = s->length;

    if (j < since + 2 * n)
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (b[j + k] != b[j + k - n] || b[j + k - n] != b[j + k - 2 * n])
            return false;
    for (uint32_t k = 0; k < s->shallow - i; k++)
        if (a[i + k] != b[j + k + n])
            return false;
    s->shallow = i;
    s->deeper = j;
    return true;
}

/* All that lies before a stretch, or before the end. */
static bool put_before(struct deepening *d, struct stretch *s, uint32_t since, uint32_t *i, uint32_t *j)
{
    while (*j < (s ? s->deeper : d->b.t->n_events)) {
        if (put_same(d, *i, *j)) {
            ++*i;
            ++*j;
        } else if (!s || !begins_here(d, s, *i, *j, since)) {
            return false;
        }
    }
    return true;
}

static bool put_all(struct deepening *d)
{
    uint32_t i = 0, j = 0, since = 0;

    for (uint32_t k = 0; k <= d->of.n; k++) {
        struct stretch *s = k < d->of.n ? &d->of.stretches[k] : NULL;

        if (!put_before(d, s, since, &i, &j) || (s && !put_stretch(d, s)))
            return false;
        since = j += s ? s->length : 0;
    }
    return true;
}

static bool make_room(struct deepening *d, struct arena *arena)
{
    d->max_births = d->b.t->n_births + d->times * (d->b.t->n_births - d->a.t->n_births);
    d->max_events = d->b.t->n_events + d->times * (d->b.t->n_events - d->a.t->n_events);
    d->births = arena_array_raw(arena, struct birth, d->max_births);
    d->events = arena_array_raw(arena, uint32_t, d->max_events);
    d->alive = arena_array_raw(arena, uint8_t, d->max_births);
    return d->births && d->events && d->alive;
}

static bool lay_out(struct deepening *d, bool sized, struct bare_tape *t)
{
    d->n_births = d->n_events = 0;
    if (!align_sides(d, sized) || !put_all(d) || d->n_births != d->max_births || d->n_events != d->max_events)
        return false;
    for (int i = 0; i < TAPE_PLACES; i++)
        if (!put_place(d, i, &t->place[i]))
            return false;
    return true;
}

bool deepen(const struct bare_tape *shallow, const struct bare_tape *deeper, uint32_t times, struct arena *arena, struct bare_tape *ret)
{
    struct deepening *d = arena_new(arena, struct deepening);
    struct bare_tape t = {0};

    if (!d || deeper->n_events < shallow->n_events || deeper->n_births < shallow->n_births || !read_side(&d->a, shallow, arena) ||
        !read_side(&d->b, deeper, arena))
        return false;
    d->times = times;
    if (!make_room(d, arena) || (!lay_out(d, false, &t) && !lay_out(d, true, &t)))
        return false;
    t.births = d->births;
    t.events = d->events;
    t.n_births = d->n_births;
    t.n_events = d->n_events;
    t.n_marks = deeper->n_marks + times * (deeper->n_marks - shallow->n_marks);
    *ret = t;
    return true;
}

/* ----------------------------------------------------------------------------------------------------------- its moments */
struct moments {
    uint64_t live;
    bool begun;
    struct peak *p;
};

static void sum_event(struct moments *m, uint32_t e, const struct birth *b, uint64_t bytes)
{
    uint64_t *phase;

    if (e & EVENT_DEATH) {
        m->live -= torch_alloc_round(bytes);
        return;
    }
    m->live += torch_alloc_round(bytes);
    if (!m->begun)
        return;
    phase = &m->p->phase_bytes[phase_of(b)];
    *phase = m->live > *phase ? m->live : *phase;
    if (m->live > m->p->peak_bytes) {
        m->p->peak_bytes = m->live;
        m->p->peak_phase = phase_of(b);
    }
}

static void sum_stretch(const struct deepening *d, const struct stretch *s, struct moments *m)
{
    for (uint32_t k = 0; k < s->length; k++) {
        const struct birth *x = birth_at(&d->b, s->deeper + k);

        if (x)
            sum_event(m, d->b.t->events[s->deeper + k], x, x->bytes);
    }
}

/* Each repetition adds the same, so that the first or the last is the highest. */
static bool sum_repetitions(const struct deepening *d, const struct stretch *s, struct moments *m)
{
    uint64_t was = m->live, more;

    for (uint32_t k = 0; k < s->length; k++)
        if (!is_steady(d, s, k))
            return false;
    sum_stretch(d, s, m);
    more = m->live - was; /* unsigned: what goes wraps, and back */
    m->live = was + d->times * more;
    sum_stretch(d, s, m);
    return true;
}

/* False: two parameters or states of them met that differ in size. Only lists of all layers grow. */
static bool sum_same(const struct deepening *d, uint32_t i, uint32_t j, struct moments *m)
{
    const struct birth *a = birth_at(&d->a, i), *b = birth_at(&d->b, j);

    if (b && b->mark != MARK_NONE && a->bytes != b->bytes)
        return false;
    if (b)
        sum_event(m, d->b.t->events[j], b, b->bytes + d->times * (b->bytes - a->bytes));
    return true;
}

static void arrive_at(const struct deepening *d, uint32_t j, int peaks, struct moments *m)
{
    if (j == d->b.t->place[0])
        m->p->static_bytes = m->live;
    if (j == d->b.t->place[peaks] && !m->begun) {
        m->begun = true;
        m->p->peak_bytes = m->live;
    }
}

static bool sum_all(const struct deepening *d, int peaks, struct moments *m)
{
    uint32_t i = 0, j = 0;

    for (uint32_t k = 0; k <= d->of.n; k++) {
        uint32_t until = k < d->of.n ? d->of.stretches[k].deeper : d->b.t->n_events;

        for (; j < until; i++, j++) {
            arrive_at(d, j, peaks, m);
            if (!sum_same(d, i, j, m))
                return false;
        }
        arrive_at(d, j, peaks, m);
        if (k < d->of.n && !sum_repetitions(d, &d->of.stretches[k], m))
            return false;
        j += k < d->of.n ? d->of.stretches[k].length : 0;
    }
    return true;
}

static bool sum_up(const struct deepening *d, int peaks, struct peak *ret)
{
    struct peak p = {0};
    struct moments m = {.p = &p};
    uint32_t place;

    if (!put_place(d, 0, &place) || !put_place(d, peaks, &place) || !sum_all(d, peaks, &m))
        return false;
    p.resting_bytes = m.live;
    *ret = p;
    return true;
}

bool deepen_walk(const struct bare_tape *shallow, const struct bare_tape *deeper, uint32_t times, int peaks, struct arena *arena,
                 struct peak *ret)
{
    struct deepening *d = arena_new(arena, struct deepening);

    if (!d || deeper->n_events < shallow->n_events || deeper->n_births < shallow->n_births || !read_side(&d->a, shallow, arena) ||
        !read_side(&d->b, deeper, arena))
        return false;
    d->times = times;
    return (align_sides(d, false) && sum_up(d, peaks, ret)) || (align_sides(d, true) && sum_up(d, peaks, ret));
}
