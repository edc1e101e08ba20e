/* deepen_log.c - the log of a deep run, as deepen.c has its tape. */
#include "meters/align.h"
#include "meters/deepen.h"

struct laying {
    const struct work *a, *b;
    uint32_t times;
    struct alignment of;
    struct work *to;
};

/* ------------------------------------------------------------------------------------------------------------- kernels */
static uint64_t loose_kernel(const struct kernel *k)
{
    return mixed_mark(k->op | (uint64_t)k->work << 16 | (uint64_t)k->dtype << 24 | (uint64_t)k->stage << 32 | (uint64_t)k->stream << 40 |
                          (uint64_t)k->recompute << 48 | (uint64_t)k->unaligned << 49 | (uint64_t)!k->batch << 50 |
                          (uint64_t)k->lists << 52,
                      0);
}

static uint64_t like_kernel(const struct kernel *k, uint64_t hash)
{
    hash = mixed_mark(mixed_mark(hash, k->flops), k->bytes);
    hash = mixed_mark(hash, k->rows | (uint64_t)k->columns << 32);
    hash = mixed_mark(hash, k->inner | (uint64_t)k->batch << 32);
    hash = mixed_mark(hash, k->launches | (uint64_t)k->calls << 32 | (uint64_t)k->hooks << 48);
    return mixed_mark(hash, k->chunks | (uint64_t)k->tensors << 32);
}

static bool mark_kernels(const struct work *w, struct arena *arena, struct marks *ret)
{
    uint64_t *like = arena_array_raw(arena, uint64_t, w->n_kernels), *loose = arena_array_raw(arena, uint64_t, w->n_kernels);

    for (uint32_t i = 0; like && loose && i < w->n_kernels; i++) {
        loose[i] = loose_kernel(&w->kernels[i]);
        like[i] = like_kernel(&w->kernels[i], loose[i]);
    }
    *ret = (struct marks){like, loose, w->n_kernels};
    return like && loose;
}

/* Calls beside those that launch it; the log counts up to so many. */
static uint32_t calls_before(const struct kernel *k)
{
    return k->calls - work_calls(k->launches);
}

/* What holds something of all layers grows as they do: lists of parameters. What was computed of the whole batch does not. */
static bool grown(const struct kernel *a, const struct kernel *b, uint32_t times, struct kernel *ret)
{
    uint32_t calls = calls_before(b) + times * (calls_before(b) - calls_before(a)),
             hooks = b->hooks + times * ((uint32_t)b->hooks - a->hooks);
    struct kernel k = *b;

    if (b->batch || b->rows != a->rows || b->columns != a->columns || b->inner != a->inner)
        return false;
    k.flops += times * (b->flops - a->flops);
    k.bytes += times * (b->bytes - a->bytes);
    k.chunks += times * (b->chunks - a->chunks);
    k.tensors += times * (b->tensors - a->tensors);
    k.launches = k.lists ? work_launches(k.lists, k.chunks, k.tensors) : b->launches + times * (b->launches - a->launches);
    if (calls > UINT16_MAX / 2 || hooks > UINT16_MAX / 2)
        return false;
    k.calls = (uint16_t)(calls + work_calls(k.launches));
    k.hooks = (uint16_t)hooks;
    *ret = k;
    return true;
}

static bool put_kernel(struct laying *l, const struct kernel *a, const struct kernel *b, uint64_t like_a, uint64_t like_b)
{
    struct kernel *to = &l->to->kernels[l->to->n_kernels];

    if (l->to->n_kernels == l->to->max_kernels)
        return false;
    l->to->n_kernels++;
    *to = *b;
    return like_a == like_b || grown(a, b, l->times, to);
}

static bool put_kernels(struct laying *l, const struct marks *a, const struct marks *b, bool sized)
{
    uint32_t i = 0, j = 0;

    l->to->n_kernels = 0;
    if (!align(a, b, sized, &l->of))
        return false;
    for (uint32_t k = 0; k <= l->of.n; k++) {
        const struct stretch *s = k < l->of.n ? &l->of.stretches[k] : NULL;

        for (uint32_t until = s ? s->deeper : b->n; j < until; i++, j++)
            if (!put_kernel(l, &l->a->kernels[i], &l->b->kernels[j], a->like[i], b->like[j]))
                return false;
        for (uint32_t c = 0; s && c <= l->times; c++)
            for (uint32_t m = 0; m < s->length; m++)
                if (!put_kernel(l, NULL, &l->b->kernels[j + m], 0, 0))
                    return false;
        j += s ? s->length : 0;
    }
    return l->to->n_kernels == l->to->max_kernels;
}

/* ------------------------------------------------------------------------------------------------------------ messages */
/* Of what is sent only that: a bucket that holds several layers is no part of what repeats. */
static bool grows(const struct message *m)
{
    return m->counts || m->collective == COLLECTIVE_HOST_STEP;
}

/* How far the kernels are that it waits for and that wait for it: the last of several alike is often waited for sooner. */
static uint64_t reach_of(const struct message *m)
{
    uint64_t waited = m->waited_before == MESSAGE_UNWAITED ? MESSAGE_UNWAITED : m->waited_before - m->kernels_before;

    return waited | (uint64_t)(m->host_after ? m->kernels_before - m->host_after + 1 : 0) << 32;
}

/* All but where among the kernels it stands; `reach`: but how far it reaches from there is the same for those that repeat. */
static bool mark_messages(const struct work *w, bool reach, struct arena *arena, struct marks *ret)
{
    uint64_t *like = arena_array_raw(arena, uint64_t, w->n_messages), *loose = arena_array_raw(arena, uint64_t, w->n_messages);

    for (uint32_t i = 0; like && loose && i < w->n_messages; i++) {
        const struct message *m = &w->messages[i];
        uint64_t how = m->collective | (uint64_t)m->stage << 8 | (uint64_t)m->stream << 16 | (uint64_t)m->from << 24 |
                       (uint64_t)m->after_compute << 32 | (uint64_t)m->native << 33 | (uint64_t)m->apart << 34 | (uint64_t)m->counts << 35;

        loose[i] = mixed_mark(mixed_mark(mixed_mark(0, how), m->group.ranks | (uint64_t)m->group.stride << 32), grows(m) ? 0 : m->bytes);
        like[i] = mixed_mark(mixed_mark(loose[i], m->bytes), reach ? reach_of(m) : 0);
    }
    *ret = (struct marks){like, loose, w->n_messages};
    return like && loose;
}

enum { POSITIONS = 3 };

static const uint32_t *position_of(const struct message *m, int which)
{
    return which == 0 ? &m->kernels_before : which == 1 ? &m->host_after : &m->waited_before;
}

static bool put_message(struct laying *l, const struct message *as, uint64_t bytes, const uint32_t *positions)
{
    struct message m = *as;

    if (l->to->n_messages == l->to->max_messages)
        return false;
    m.bytes = bytes;
    m.kernels_before = positions[0];
    m.host_after = positions[1];
    m.waited_before = positions[2];
    l->to->messages[l->to->n_messages++] = m;
    return true;
}

static bool put_same(struct laying *l, uint32_t i, uint32_t j)
{
    const struct message *of_a = &l->a->messages[i], *of_b = &l->b->messages[j];
    uint32_t at[POSITIONS];

    for (int p = 0; p < POSITIONS; p++) {
        uint32_t a = *position_of(of_a, p), b = *position_of(of_b, p);

        at[p] = b + l->times * (b - a);
    }
    return put_message(l, of_b, of_b->bytes + l->times * (of_b->bytes - of_a->bytes), at);
}

/* The same steps from one repetition to the next, at both depths. */
static bool is_steady(const struct laying *l, const struct stretch *s, uint32_t k)
{
    const struct message *b = &l->b->messages[s->deeper + k - 2 * s->length], *a = &l->a->messages[s->shallow + k - 2 * s->length];
    uint32_t n = s->length;

    for (int p = 0; p < POSITIONS; p++) {
        uint32_t step = *position_of(b + n, p) - *position_of(b, p);

        if (step != *position_of(b + 2 * n, p) - *position_of(b + n, p) || step != *position_of(a + n, p) - *position_of(a, p))
            return false;
    }
    return true;
}

static bool put_repetitions(struct laying *l, const struct stretch *s)
{
    for (uint32_t k = 0; k < s->length; k++)
        if (s->shallow + k < 2 * s->length || s->shallow + k - s->length >= l->a->n_messages || !is_steady(l, s, k))
            return false;
    for (uint32_t c = 1; c <= l->times + 1; c++)
        for (uint32_t k = 0; k < s->length; k++) {
            const struct message *b = &l->b->messages[s->deeper + k], *before = b - s->length,
                                 *a = &l->a->messages[s->shallow + k - s->length];
            uint32_t at[POSITIONS];

            for (int p = 0; p < POSITIONS; p++) {
                uint32_t was = *position_of(before, p);

                at[p] = was + l->times * (was - *position_of(a, p)) + c * (*position_of(b, p) - was);
            }
            if (!put_message(l, b, b->bytes, at))
                return false;
        }
    return true;
}

/* Messages that are waited for one by one, or all at the end. */
static bool put_messages(struct laying *l, bool reach, bool sized, struct arena *arena)
{
    uint32_t i = 0, j = 0;
    struct marks a, b;

    if (!mark_messages(l->a, reach, arena, &a) || !mark_messages(l->b, reach, arena, &b) || !align(&a, &b, sized, &l->of))
        return false;
    l->to->n_messages = 0;
    for (uint32_t k = 0; k <= l->of.n; k++) {
        const struct stretch *s = k < l->of.n ? &l->of.stretches[k] : NULL;

        for (uint32_t until = s ? s->deeper : b.n; j < until; i++, j++)
            if (!put_same(l, i, j))
                return false;
        if (s && !put_repetitions(l, s))
            return false;
        j += s ? s->length : 0;
    }
    return l->to->n_messages == l->to->max_messages;
}

/* -------------------------------------------------------------------------------------------------------------------- */
static bool make_room(struct laying *l, struct arena *arena)
{
    struct work *w = l->to;

    *w = (struct work){.max_kernels = l->b->n_kernels + l->times * (l->b->n_kernels - l->a->n_kernels),
                       .max_messages = l->b->n_messages + l->times * (l->b->n_messages - l->a->n_messages)};
    w->messages = arena_array_raw(arena, struct message, w->max_messages);
    w->kernels = arena_array_raw(arena, struct kernel, w->max_kernels);
    return w->messages && w->kernels;
}

bool deepen_log(const struct work *shallow, const struct work *deeper, uint32_t times, struct arena *arena, struct work *ret)
{
    struct laying *l = arena_new(arena, struct laying);
    struct marks a, b;

    if (!l || deeper->n_kernels < shallow->n_kernels || deeper->n_messages < shallow->n_messages)
        return false;
    l->a = shallow;
    l->b = deeper;
    l->times = times;
    l->to = ret;
    if (!make_room(l, arena) || !mark_kernels(shallow, arena, &a) || !mark_kernels(deeper, arena, &b) ||
        (!put_kernels(l, &a, &b, false) && !put_kernels(l, &a, &b, true)))
        return false;
    return put_messages(l, true, false, arena) || put_messages(l, false, false, arena) || put_messages(l, true, true, arena) ||
           put_messages(l, false, true, arena);
}
