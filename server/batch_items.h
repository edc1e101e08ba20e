/*
 * batch_items.h - the items of a batch, and what became of each; in one block that outlives the request's body.
 */
#ifndef SERVER_BATCH_ITEMS_H
#define SERVER_BATCH_ITEMS_H

#include "server/answer.h"

enum item_state {
    ITEM_OPEN,      /* nobody has begun it, or its answer was given up */
    ITEM_UNDER_WAY,
    ITEM_DONE,
};

/* What equal items share stands in the first of them. */
struct item {
    const char *body;
    size_t bytes;
    uint32_t same_as, need;
    uint32_t left;         /* equal items that are not sent yet, this one included */
    enum item_state state;
    bool is_charged;       /* its work was counted, unless the batch had none left: then is_over */
    bool is_over, is_kept; /* is_kept: was sent, and stays for equal ones */
    bool was_cached;
    uint64_t events;       /* of work, of ITEM_DONE */
    struct answer *answer; /* of ITEM_DONE; NULL: a problem */
    struct err *err;       /* NULL: no memory for it either */
    unsigned retry_after_s;
};

/* A config that items need, once. */
struct item_need {
    struct api_need need;
    bool is_counted; /* among those that were fetched */
};

struct items {
    uint32_t n, n_needs;
    struct item_need *needs;
    struct item v[];
};

struct items *items_new(const struct api_batch *parts); /* NULL: no memory */
void items_free(struct items *items);

/* The one that is computed for item i. */
struct item *item_first(struct items *items, uint32_t i);

void item_forget(struct item *it); /* its answer is given up; it is open again */

#endif
