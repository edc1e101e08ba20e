/*
 * limit.h - how many answers one caller may have computed.
 *
 * Purpose   a bucket a caller: it holds `per_minute` at most and fills evenly. What is answered from tables or the cache is free.
 * Bounds    a fixed number of callers is remembered; a new one takes the place of the one longest unseen of its set.
 * Threads   any.
 */
#ifndef SERVER_LIMIT_H
#define SERVER_LIMIT_H

#include "server/hash.h"

struct limit;

struct limit *limit_new(unsigned per_minute); /* NULL: no memory, or no limit is asked */
void limit_free(struct limit *l);

/* 0: go on. Else: seconds until there is one again. */
unsigned limit_take(struct limit *l, struct digest caller, uint64_t now_ms);

#endif
