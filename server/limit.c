#include "server/limit.h"

#include <pthread.h>
#include <stdlib.h>

enum { SETS = 1024, WAYS = 4, MINUTE_MS = 60000 };

struct caller {
    struct digest who;
    uint64_t seen_ms; /* 0: nobody */
    uint64_t credit;  /* in units of 1/MINUTE_MS of an answer */
};

struct limit {
    unsigned per_minute;
    pthread_mutex_t lock;
    struct caller sets[SETS][WAYS];
};

struct limit *limit_new(unsigned per_minute)
{
    struct limit *l = per_minute ? calloc(1, sizeof *l) : NULL;

    if (!l)
        return NULL;
    l->per_minute = per_minute;
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

void limit_free(struct limit *l)
{
    free(l);
}

static struct caller *find(struct limit *l, struct digest who)
{
    struct caller *set = l->sets[who.d[0] % SETS], *oldest = set;

    for (int i = 0; i < WAYS; i++) {
        if (set[i].seen_ms && set[i].who.d[0] == who.d[0] && set[i].who.d[1] == who.d[1])
            return &set[i];
        if (set[i].seen_ms < oldest->seen_ms)
            oldest = &set[i];
    }
    *oldest = (struct caller){.who = who};
    return oldest;
}

static void refill(const struct limit *l, struct caller *c, uint64_t now_ms)
{
    uint64_t full = (uint64_t)l->per_minute * MINUTE_MS, since = MINUTE_MS;

    if (c->seen_ms)
        since = now_ms > c->seen_ms ? now_ms - c->seen_ms : 0; /* another thread may have looked at the clock later */

    c->credit = since >= MINUTE_MS ? full : c->credit + since * l->per_minute;
    if (c->credit > full)
        c->credit = full;
    if (now_ms > c->seen_ms)
        c->seen_ms = now_ms;
}

unsigned limit_take(struct limit *l, struct digest caller, uint64_t now_ms)
{
    unsigned wait_s = 0;
    struct caller *c;

    if (!l)
        return 0;
    pthread_mutex_lock(&l->lock);
    c = find(l, caller);
    refill(l, c, now_ms);
    if (c->credit >= MINUTE_MS)
        c->credit -= MINUTE_MS;
    else
        wait_s = (unsigned)((MINUTE_MS - c->credit + l->per_minute * 1000ull - 1) / (l->per_minute * 1000ull));
    pthread_mutex_unlock(&l->lock);
    return wait_s;
}
