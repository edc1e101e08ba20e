/*
 * workers.h - a bounded queue and threads for what takes longer than an event thread may.
 *
 * Purpose   each worker has one block of API_ARENA_BYTES of address space to work in. While one job follows another the pages they touched stay, up to
 *           what most need; a tenth of a second without one, and all go back to the system.
 * Fairness  a job may be large (a batch of a thousand): large jobs leave at least one worker free for the others, where there is
 *           more than one.
 * Errors    a full queue is refused at once. A job whose time is over before it is taken is not run: `run` is called with NULL.
 * Threads   any may push; `run` and then `done` are called on a worker.
 */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

struct job {
    struct job *next;
    void (*run)(struct job *job, struct arena *arena); /* NULL: too late */
    void (*done)(struct job *job);                     /* the job is the pusher's again */
    uint64_t until_ms;                                 /* on the monotonic clock */
    bool is_large;
};

struct workers;

/* NULL: no threads or memory. */
struct workers *workers_new(unsigned threads, unsigned queue);
void workers_free(struct workers *w); /* what is queued is run first */

bool workers_push(struct workers *w, struct job *job);

struct workers_counts {
    unsigned threads, busy, queued;
};
void workers_counts_read(struct workers *w, struct workers_counts *ret);

/* Blocks for arenas: address space that costs nothing until it is used. NULL when there is none. */
void *block_new(size_t bytes);
void block_free(void *block, size_t bytes);

#endif
