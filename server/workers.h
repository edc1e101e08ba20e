/*
 * workers.h - a bounded queue and threads for what takes longer than an event thread may.
 *
 * Purpose   each job has one block of API_ARENA_BYTES of address space to work in (blocks.h). While one job follows another the pages they touched stay, up
 *           to what most need; a tenth of a second without one, and all go back to the system. A job has a budget that counts its work.
 * Lanes     what a job costs is known when it has been done, not before: each begins in the first lane, and when its work passes what that lane is for, its
 *           thread moves on to the next and lowers its own priority, and another thread takes its place. Where the next lane is full, the job ends there
 *           and begins anew when its turn in that lane has come: no thread is held meanwhile. So what is cheap waits for nothing that is dear, threads
 *           and memory are bounded, and answers do not depend on it.
 * Errors    a full queue is refused at once. A job whose time is over, or that was cancelled before it is taken, is not run: `run` is called with NULL.
 * Threads   any may push; `run` and then `done` are called on a worker.
 */
#ifndef SERVER_WORKERS_H
#define SERVER_WORKERS_H

#include "base/arena.h"
#include "base/budget.h"

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 3 };

struct worker;

struct job {
    struct job *next;
    /* NULL: too late. Where job->work.is_stopped afterwards it will be called again, and has left nothing behind. */
    void (*run)(struct job *job, struct arena *arena);
    void (*done)(struct job *job); /* the job is the pusher's again */
    uint64_t until_ms;             /* on the monotonic clock */
    bool is_large;                 /* it begins in the second lane */
    const atomic_bool *cancelled;  /* NULL: nobody cancels */

    struct budget work;            /* for api_answer() */
    unsigned lane;                 /* it waits for */
    struct worker *worker;         /* that runs it */
};

struct workers;

/* `threads` for the first lane, as many for the second, half as many for what is dearer. NULL: no threads or memory. */
struct workers *workers_new(unsigned threads, unsigned queue, uint64_t work_events);
void workers_free(struct workers *w); /* what is queued is run first */

bool workers_push(struct workers *w, struct job *job);

struct workers_counts {
    unsigned threads, busy, queued; /* threads: of the first lane */
    unsigned lane_busy[LANES];
    uint64_t begun_anew;            /* jobs, so far */
};
void workers_counts_read(struct workers *w, struct workers_counts *ret);

#endif
