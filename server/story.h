/*
 * story.h - from a question to its answer: the cache, the configs, a worker.
 *
 * Course    story_ask() on the event thread: what is ready or comes from tables is answered at once. Else story_begin(), after the
 *           connection was suspended: what the question needs, then all configs at once, then a worker computes.
 */
#ifndef SERVER_STORY_H
#define SERVER_STORY_H

#include "server/exchange.h"

struct answer_key;

enum exchange_next story_ask(struct exchange *x);
void story_begin(struct exchange *x);

/* The response as an answer, in the cache if it is_lasting; held for the caller. NULL: no memory. On any thread. */
struct answer *story_keep(struct service *s, const struct answer_key *key, const struct gather *configs, bool has_token, const struct api_response *r,
                          bool is_lasting);

/* One more answer for the caller, by --rate. 0: go on; else seconds until there is one again. While the connection stands. */
unsigned story_may_compute(struct exchange *x);

/* A batch was read: its status and headers go out, the body as it comes. */
void story_stream(struct exchange *x);
/* The answer is there as gzip too; one that is not large is compressed now. */
bool story_pack(struct exchange *x);

#endif
