/*
 * clock.h - where the host and the streams of a GPU stand while a tape is played.
 *
 * Purpose   a block that another stream reads is free again when that stream is past it and the host allocates next. When that is, only
 *           somebody who knows how long things take can tell: core/perf, from the log of the same run. Whoever replays asks here.
 * Order     begin(), then for rising events advance() to just before each; passes() where a block dies. Seconds count from the log's beginning.
 * Owner     whoever made it; one replay at a time.
 */
#ifndef METERS_CLOCK_H
#define METERS_CLOCK_H

#include "base/arena.h"
#include "torch/run.h"
#include "torch/work.h"

struct tape_clock {
    void (*begin)(struct tape_clock *c);
    void (*advance)(struct tape_clock *c, uint32_t event); /* plays what was logged before that event */
    /* A block dies that `readers` (birth.readers) use: a CUDA event is recorded on each; when the last of them is past it. */
    double (*passes)(struct tape_clock *c, unsigned readers);
    uint32_t rows;  /* of the log: what it takes to follow it once */
    uint32_t next;  /* advance() has nothing to do before this event */
    double host_s;
};

/* Whose Python the host runs around the model: what a hook and a message cost. */
enum host_engine { HOST_TORCH, HOST_ZERO12, HOST_ZERO3 };

/* Whose kernels ran, and around what. */
struct timed_run {
    const struct work *log;
    enum host_engine engine;
    enum flash_kernel flash;
};

struct timekeeper {
    /* A clock for replays of that run; NULL: the arena is full. */
    struct tape_clock *(*follow)(const void *of, struct timed_run run, struct arena *arena);
    const void *of;
};

#endif
