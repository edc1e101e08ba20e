/*
 * batch_inside.h - what batch.c (which item is under way) and batch_text.c (what is sent of it) share.
 */
#ifndef SERVER_BATCH_INSIDE_H
#define SERVER_BATCH_INSIDE_H

#include "server/batch.h"
#include "server/batch_items.h"

#include <stdatomic.h>

enum { WINDOW = 16, FETCHES = 8, PROBLEM_BYTES = 2048 };

enum place_state { PLACE_FREE, PLACE_FETCHING, PLACE_READY, PLACE_RUNNING };

/* Room to work on one item. */
struct place {
    struct task task;
    struct batch *batch;
    struct item *item;
    enum place_state state;
    struct api_needs needs;
    struct gather gather;
    struct answer *made;
    struct err *err;
    unsigned retry_after_s;
    bool was_cached;
};

struct piece {
    const char *text;
    size_t bytes;
    bool is_document; /* an item's: a line of it loses its blanks */
};

enum batch_stage { STAGE_HEAD, STAGE_ITEMS, STAGE_END };

struct batch {
    struct exchange *x;
    struct items *items;
    uint32_t at;            /* the item whose turn it is to be sent */
    uint32_t next;          /* the first that was not looked at yet */
    atomic_bool is_left;    /* the caller is gone, or has everything */
    atomic_bool is_cancelled; /* that, or it was stopped: nobody waits for what is computed */
    struct err stopped;     /* code: why whatever is not ready gets this problem */
    uint64_t until_ms, told_ms;

    struct place places[WINDOW];
    unsigned running, lanes;
    unsigned fetched, fetching; /* configs */
    size_t held_bytes, kept_bytes; /* of answers that are ready; of those that were sent and are kept for equal items */
    uint64_t events, most_events;  /* of work */

    /* what is sent */
    bool by_lines, quoted, escaped; /* quoted, escaped: where the copying of a line's document is */
    enum batch_stage stage;
    struct piece pieces[3];
    unsigned n_pieces, piece;
    bool has_item;                  /* the pieces are item `at` */
    uint64_t sent_bytes;
    char problem[PROBLEM_BYTES];
};

/* Item `at` can be sent now. */
bool batch_is_ready(struct batch *b);

/* Its last byte was handed out: on to the next. */
void batch_pass(struct batch *b);

#endif
