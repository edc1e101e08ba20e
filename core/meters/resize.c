#include "meters/resize_inside.h"

#include <string.h>

/* ------------------------------------------------------------------------------------------------------- event by event */
static bool same_tape(const struct rows_of_run *a, const struct rows_of_run *b)
{
    if (a->n_births != b->n_births || a->n_events != b->n_events || memcmp(a->events, b->events, a->n_events * sizeof *a->events) != 0)
        return false;
    for (uint32_t i = 0; i < a->n_births; i++)
        if (resize_what(&a->births[i]) != resize_what(&b->births[i]) || a->births[i].module != b->births[i].module)
            return false;
    return true;
}

static bool same_kernel(const struct kernel *a, const struct kernel *b)
{
    return a->op == b->op && a->calls == b->calls && a->hooks == b->hooks && a->work == b->work && a->dtype == b->dtype && a->stage == b->stage &&
           a->stream == b->stream && a->recompute == b->recompute && a->at == b->at && a->launches == b->launches;
}

static bool same_message(const struct message *a, const struct message *b)
{
    return a->collective == b->collective && a->stage == b->stage && a->stream == b->stream && a->from == b->from && a->at == b->at &&
           a->kernels_before == b->kernels_before && a->waited_before == b->waited_before && a->group.ranks == b->group.ranks;
}

static bool same_log(const struct work *a, const struct work *b)
{
    if (a->n_kernels != b->n_kernels || a->n_messages != b->n_messages || a->n_orders != b->n_orders || a->n_events != b->n_events)
        return false;
    for (uint32_t i = 0; i < a->n_kernels; i++)
        if (!same_kernel(&a->kernels[i], &b->kernels[i]))
            return false;
    for (uint32_t i = 0; i < a->n_messages; i++)
        if (!same_message(&a->messages[i], &b->messages[i]))
            return false;
    return true;
}

/* --------------------------------------------------------------------------------------------------------------- sizes */
/* By class: a row of the shallow run that is of it, from 1; 0: none is. One that stands elsewhere among its like serves where all those have the same size
 * then. False: two of a class differ, or the arena is full. */
typedef bool (*as_large)(const struct rows_of_run *r, uint32_t a, uint32_t b);

#define DIFFERENT UINT32_MAX

static bool likes_of(const struct classes *c, const struct rows_of_run *then, uint32_t n, as_large same, struct arena *arena, uint32_t **ret)
{
    uint32_t *like = arena_array(arena, uint32_t, c->keys.n), *wider = arena_array(arena, uint32_t, c->wider.n);

    if (!like || !wider)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t of = c->of_shallow[i], w = c->wider_of_shallow[i];

        if (of != RESIZE_UNLIKE && like[of] && !same(then, like[of] - 1, i))
            return false;
        if (of != RESIZE_UNLIKE)
            like[of] = i + 1;
        if (w != RESIZE_UNLIKE)
            wider[w] = wider[w] && (wider[w] == DIFFERENT || !same(then, wider[w] - 1, i)) ? DIFFERENT : i + 1;
    }
    for (uint32_t i = 0; i < c->keys.n; i++)
        if (!like[i] && wider[c->wider_of[i]] != DIFFERENT)
            like[i] = wider[c->wider_of[i]];
    *ret = like;
    return true;
}

static bool births_as_large(const struct rows_of_run *r, uint32_t a, uint32_t b)
{
    return r->births[a].bytes == r->births[b].bytes;
}

static bool same_size(const struct kernel *a, const struct kernel *b)
{
    return a->flops == b->flops && a->bytes == b->bytes && a->rows == b->rows && a->columns == b->columns && a->inner == b->inner && a->batch == b->batch &&
           a->unaligned == b->unaligned;
}

static bool kernels_as_large(const struct rows_of_run *r, uint32_t a, uint32_t b)
{
    return same_size(&r->log->kernels[a], &r->log->kernels[b]);
}

static bool messages_as_large(const struct rows_of_run *r, uint32_t a, uint32_t b)
{
    return r->log->messages[a].bytes == r->log->messages[b].bytes;
}

enum { UNSEEN, CONSTANT, VARYING }; /* a kind, at both sizes */

static void see_kind(uint8_t *kinds, uint32_t kind, bool varies)
{
    if (kind != RESIZE_UNLIKE && kinds[kind] != VARYING)
        kinds[kind] = varies ? VARYING : CONSTANT;
}

/* What no shallow run shows is of a deep run's own: buckets, groups and totals of parameters and gradients. */
static bool all_known(const struct classes *c, const uint32_t *like, const uint8_t *kinds)
{
    for (uint32_t i = 0; i < c->keys.n; i++)
        if (!like[i] && (kinds[c->kind[i]] == VARYING || (kinds[c->kind[i]] == UNSEEN && !c->fixed[i])))
            return false;
    return true;
}

static bool births_known(const struct resizing *z, const struct rows_of_run *then, const uint32_t *like, struct arena *scratch)
{
    uint8_t *kinds = arena_array(scratch, uint8_t, z->births.kinds.n);

    for (uint32_t i = 0; i < then->n_births && kinds; i++)
        see_kind(kinds, z->births.kind_of_shallow[i], then->births[i].bytes != z->shallow.births[i].bytes);
    return kinds && all_known(&z->births, like, kinds);
}

static bool kernels_known(const struct resizing *z, const struct work *then, const uint32_t *like, struct arena *scratch)
{
    uint8_t *kinds = arena_array(scratch, uint8_t, z->kernels.kinds.n);

    for (uint32_t i = 0; i < then->n_kernels && kinds; i++)
        see_kind(kinds, z->kernels.kind_of_shallow[i], !same_size(&then->kernels[i], &z->shallow.log->kernels[i]));
    return kinds && all_known(&z->kernels, like, kinds);
}

static void resize_births(struct resizing *z, const struct rows_of_run *then, const uint32_t *like)
{
    for (uint32_t i = 0; i < z->deep.n_births; i++) {
        uint32_t row = like[z->births.of[i]];

        if (row)
            z->deep.births[i].bytes = then->births[row - 1].bytes;
    }
}

static void resize_log(struct resizing *z, const struct work *then, const uint32_t *like, const uint32_t *like_message)
{
    for (uint32_t i = 0; i < z->deep.log->n_kernels; i++) {
        struct kernel *k = &z->deep.log->kernels[i];
        const struct kernel *as = &then->kernels[like[z->kernels.of[i]] - (size_t)1];

        if (!like[z->kernels.of[i]])
            continue;
        k->flops = as->flops;
        k->bytes = as->bytes;
        k->rows = as->rows;
        k->columns = as->columns;
        k->inner = as->inner;
        k->batch = as->batch;
        k->unaligned = as->unaligned;
    }
    for (uint32_t i = 0; i < z->deep.log->n_messages; i++)
        if (like_message[z->messages.of[i]])
            z->deep.log->messages[i].bytes = then->messages[like_message[z->messages.of[i]] - 1].bytes;
}

bool resize(struct resizing *z, const struct rows_of_run *then, struct arena *scratch)
{
    uint32_t *births, *kernels, *messages;

    if (!same_tape(&z->shallow, then) || !likes_of(&z->births, then, then->n_births, births_as_large, scratch, &births) ||
        !births_known(z, then, births, scratch))
        return false;
    if (z->deep.log) {
        const struct work *log = then->log;

        if (!same_log(z->shallow.log, log) || !likes_of(&z->kernels, then, log->n_kernels, kernels_as_large, scratch, &kernels) ||
            !likes_of(&z->messages, then, log->n_messages, messages_as_large, scratch, &messages) || !kernels_known(z, log, kernels, scratch))
            return false;
        resize_log(z, log, kernels, messages);
    }
    resize_births(z, then, births);
    return true;
}
