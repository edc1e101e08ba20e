#include "plan/memo.h"

#include "config/arch.h"

#include <stdalign.h>
#include <string.h>

enum { MEMO_ROWS = 512, MEMO_COSTS = 32, COSTS_ROOM = 2 << 20 };

struct kept_cost {
    struct memo_key key;
    struct cost cost;
};

struct memo {
    uint32_t n; /* in all */
    uint32_t n_costs;
    size_t room_used;
    struct kept_cost costs[MEMO_COSTS];
    alignas(max_align_t) unsigned char room[COSTS_ROOM];
    struct memo_key keys[MEMO_ROWS];
    struct memo_row rows[MEMO_ROWS];
};

struct memo *memo_new(struct arena *arena)
{
    bool full = arena->full;
    struct memo *m = arena_array_raw(arena, struct memo, 1);

    arena->full = full; /* without it everything is the same, but slower */
    if (m) {
        m->n = m->n_costs = 0;
        m->room_used = 0;
    }
    return m;
}

static void mix(struct memo_key *k, const void *of, size_t bytes)
{
    const unsigned char *at = of;

    while (bytes) {
        uint64_t word = bytes;
        size_t n = bytes < sizeof word ? bytes : sizeof word;

        memcpy(&word, at, n);
        k->a = (k->a ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        k->a ^= k->a >> 29;
        k->b = (k->b + word) * UINT64_C(0xBF58476D1CE4E5B9);
        k->b ^= k->b >> 32;
        at += n;
        bytes -= n;
    }
}

struct memo_key memo_key(const struct arch *arch, const struct step *step, const struct device *device, const void *more, size_t bytes)
{
    struct memo_key k = {bytes, ~(uint64_t)bytes};

    mix(&k, arch, sizeof *arch);
    mix(&k, step, sizeof *step);
    mix(&k, device, sizeof *device);
    mix(&k, more, bytes);
    return k;
}

const struct memo_row *memo_find(const struct memo *m, const struct memo_key *key)
{
    uint32_t n = m && m->n < MEMO_ROWS ? m->n : MEMO_ROWS;

    for (uint32_t i = 0; m && i < n; i++)
        if (m->keys[i].a == key->a && m->keys[i].b == key->b)
            return &m->rows[i];
    return NULL;
}

struct memo_row *memo_add(struct memo *m, const struct memo_key *key)
{
    uint32_t at = m ? m->n++ % MEMO_ROWS : 0;

    if (!m)
        return NULL;
    m->keys[at] = *key;
    return &m->rows[at];
}

/* Into what room is left. */
static const void *copy(struct memo *m, const void *of, size_t bytes)
{
    void *to = m->room + m->room_used;

    memcpy(to, of, bytes);
    m->room_used += (bytes + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    return to;
}

void memo_keep_cost(struct memo *m, const struct memo_key *key, const struct cost *cost)
{
    size_t kernels = cost->n_kernels * sizeof *cost->kernels, messages = cost->n_messages * sizeof *cost->messages;
    struct kept_cost *k;

    if (!m || kernels + messages + 2 * alignof(max_align_t) > COSTS_ROOM)
        return;
    if (m->n_costs == MEMO_COSTS || kernels + messages + 2 * alignof(max_align_t) > COSTS_ROOM - m->room_used) { /* others are asked less often again */
        m->n_costs = 0;
        m->room_used = 0;
    }
    k = &m->costs[m->n_costs++];
    *k = (struct kept_cost){*key, *cost};
    k->cost.kernels = copy(m, cost->kernels, kernels);
    k->cost.messages = copy(m, cost->messages, messages);
}

bool memo_find_cost(const struct memo *m, const struct memo_key *key, struct cost *ret)
{
    for (uint32_t i = 0; m && i < m->n_costs; i++)
        if (m->costs[i].key.a == key->a && m->costs[i].key.b == key->b) {
            *ret = m->costs[i].cost;
            return true;
        }
    return false;
}
