/*
 * story.h - from a question to its answer: the cache, the configs, a worker.
 *
 * Course    story_ask() on the event thread: what is ready or comes from tables is answered at once. Else story_begin(), after the
 *           connection was suspended: what the question needs, then all configs at once, then a worker computes.
 */
#ifndef SERVER_STORY_H
#define SERVER_STORY_H

#include "server/exchange.h"

enum exchange_next story_ask(struct exchange *x);
void story_begin(struct exchange *x);

#endif
