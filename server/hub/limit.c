#include "server/hub/limit.h"

#include <stdio.h>

enum { WINDOW_S = 300, UNTOLD_S = 8 }; /* the longest pause of the Python client's http_backoff */

static unsigned left_s(const struct wait *w, uint64_t now_ms)
{
    uint64_t gone = now_ms > w->since_ms ? now_ms - w->since_ms : 0;

    return gone >= w->for_ms ? 0 : (unsigned)((w->for_ms - gone + 999) / 1000);
}

static struct wait wait_of(unsigned seconds, uint64_t now_ms)
{
    return (struct wait){.since_ms = now_ms, .for_ms = (uint64_t)(seconds > WINDOW_S ? WINDOW_S : seconds) * 1000};
}

unsigned limit_asked_s(const struct reply *r)
{
    unsigned s = r->rate.bucket != BUCKET_NONE && !r->rate.remaining ? r->rate.reset_s + 1 : r->retry_after_s;

    return !s ? UNTOLD_S : s > WINDOW_S ? WINDOW_S : s;
}

void limit_begin(struct limits *l, enum bucket b)
{
    l->bucket[b].in_flight++;
}

void limit_end(struct limits *l, enum bucket b, const struct reply *r, uint64_t now_ms)
{
    enum bucket told = r->rate.bucket;

    l->bucket[b].in_flight--;
    if (r->status == 429)
        l->bucket[b].wait = wait_of(limit_asked_s(r), now_ms);
    else if (told != BUCKET_NONE && r->rate.remaining <= l->bucket[told].in_flight + 1)
        l->bucket[told].wait = wait_of(r->rate.reset_s + 1, now_ms); /* those under way take the rest; one is never spent */
}

unsigned limit_wait_s(const struct limits *l, enum bucket b, uint64_t now_ms)
{
    return left_s(&l->bucket[b].wait, now_ms);
}

void limit_down(struct limits *l, const char *why, unsigned for_s, uint64_t now_ms)
{
    l->down = wait_of(for_s, now_ms);
    (void)snprintf(l->down_why, sizeof l->down_why, "%s", why);
}

unsigned limit_down_s(const struct limits *l, uint64_t now_ms)
{
    return left_s(&l->down, now_ms);
}
