/*
 * batch.h - one call's many questions: computed side by side, sent in their order as they come.
 *
 * Course    batch_begin(): a worker takes the batch apart, then the exchange has its status and headers; batch_more() hands out the body
 *           while later items are under way. An item is POST /estimate of its own: found in the cache of answers, or computed and kept there.
 * Bounds    WINDOW items are under way, AHEAD_BYTES of answers wait for their turn; as many as threads but one are computed at once; FETCHES
 *           configs are fetched at once, and --batch-fetches in all. Equal items are computed once; their answer is kept for the later ones up to
 *           KEPT_BYTES, beyond it is asked of the cache or computed again.
 * Failure   each item's own problem document, in its place. A caller who leaves ends what has not begun; a deadline or the end of a drain
 *           (batch_refuse()) answers the rest with a problem: the document is whole.
 * Threads   the desk's; workers have an item's task.
 */
#ifndef SERVER_BATCH_H
#define SERVER_BATCH_H

#include "server/exchange.h"

#include <sys/types.h>

bool batch_is(const struct exchange *x); /* asked, not yet begun */

void batch_begin(struct exchange *x); /* suspended */

/* More of the body: how many bytes; 0: what comes next is not ready, and the exchange waits for it (to be suspended); -1: that was all. */
ssize_t batch_more(struct exchange *x, char *into, size_t room);

const char *batch_content_type(const struct exchange *x);

/* Whoever has no answer yet gets this problem. */
void batch_refuse(struct exchange *x, enum err_code code, const char *detail);
void batch_expire(struct exchange *x); /* the same, if its time is over */

void batch_leave(struct exchange *x); /* the caller is gone, or has everything */
void batch_free(struct batch *b);     /* NULL: nothing; no task and no ask is open */

/* For the log. */
unsigned batch_items(const struct batch *b);
unsigned batch_sent(const struct batch *b, uint64_t *ret_bytes); /* items and bytes */

#endif
