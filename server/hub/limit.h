/*
 * limit.h - when not to ask the hub: its quotas are nearly used up, or it could not be reached a moment ago.
 *
 * Purpose   what RateLimit headers and failures have said, for requests that do not carry a caller's own token (his quota is his).
 * Time      an argument, in milliseconds of any clock. One that goes back makes a wait at most as long as it was at first.
 * Source    hub rate limits: three buckets, fixed windows of 300 s (huggingface.co/docs/hub/rate-limits).
 * Threads   the caller's lock.
 */
#ifndef SERVER_HUB_LIMIT_H
#define SERVER_HUB_LIMIT_H

#include "server/hub/reply.h"

struct wait {
    uint64_t since_ms, for_ms; /* for_ms 0: none */
};

struct limits {
    struct {
        struct wait wait;
        unsigned in_flight;
    } bucket[BUCKET_NONE];
    struct wait down;
    char down_why[160];
};

void limit_begin(struct limits *l, enum bucket b); /* a request was sent */

/* It came back. `now_ms` decides from when the bucket's waiting counts. */
void limit_end(struct limits *l, enum bucket b, const struct reply *r, uint64_t now_ms);

/* Seconds to wait before the next request, rounded up; 0: go ahead. */
unsigned limit_wait_s(const struct limits *l, enum bucket b, uint64_t now_ms);

void limit_down(struct limits *l, const char *why, unsigned for_s, uint64_t now_ms);
unsigned limit_down_s(const struct limits *l, uint64_t now_ms);

/* How long a 429 asks to stay away: t of its bucket if that is used up, else Retry-After, else what the Python client would wait. */
unsigned limit_asked_s(const struct reply *r);

#endif
