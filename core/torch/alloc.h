/*
 * alloc.h - a model of PyTorch's CUDA caching allocator.
 *
 * Purpose   turn births and deaths of storages into what torch.cuda reports: allocated and reserved, now and at their peaks.
 * Units     bytes, uint64_t.
 * Models    one device; for each stream a small and a large pool; default segments or expandable ones
 *           (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True); a device that is full: cached memory is released, then one retry.
 *           Not modelled: max_split_size_mb, roundup_power2_divisions, garbage_collection_threshold, graph pools; the further
 *           segment of a stream whose expandable one has used up its addresses, 9/8 of the device.
 * Streams   a block belongs to the stream that it was taken on. One that another stream reads (record_stream()) is no longer
 *           allocated once given away, but active until that stream is past it: on a GPU that never lags at the next take, on
 *           one that always does when the host has waited (torch_alloc_wait) and then takes, or when the cache is emptied; on one whose
 *           pace somebody knows (TORCH_LAG_TIMED), at the first take after the time that was told when it was given away.
 * Source    c10/cuda/CUDACachingAllocator.cpp (the rules below are the same from torch 1.10 to 2.15).
 * Errors    too small an arena is ERR_NOMEM from torch_alloc_new(). After that the builder is sticky: when the blocks run out
 *           (ERR_NOMEM) or a handle is misused (ERR_INTERNAL) nothing moves any more, and torch_alloc_status() says why.
 *           A device without room is a result (stats.oom), not an error.
 * Budget    of that arena: whoever plays births and deaths counts them; long lists that are looked through for one of them are counted here (ERR_BUDGET).
 * Owner     all state lives in the arena given to torch_alloc_new().
 * Threads   pure; one arena, one thread.
 */
#ifndef TORCH_ALLOC_H
#define TORCH_ALLOC_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct torch_alloc;

enum { TORCH_ALLOC_STREAMS = 8 };

enum torch_lag { TORCH_LAG_NEVER, TORCH_LAG_ALWAYS, TORCH_LAG_TIMED }; /* of the GPU behind the host */

/*
 * Where the driver lays a new segment decides which of two cached blocks of one size is the lower one, and so how blocks are cut from then on.
 * Rising: above all earlier ones, as a runtime that only counts does it. Falling: addresses are set aside in units of 32 MiB, each below the last; what a
 * segment leaves of its unit is a gap, and a new one goes into the smallest gap that has room. Found in what 132 steps on an H100 had (driver 580.159,
 * torch 2.11; tests/data/accuracy/measured.jsonl, make_measured.py), no rule that a driver documents: docs/accuracy-notes.md counts both.
 */
struct torch_alloc_options {
    bool expandable;
    uint64_t capacity_bytes; /* what the device grants; 0: no limit */
    uint32_t max_live;       /* handles are 0..max_live-1 */
    uint32_t max_blocks;     /* live and free blocks together; 0: 3 * max_live + 1024 */
    enum torch_lag lag;
    bool addresses_fall;
};

struct torch_alloc_stats {
    uint64_t allocated_bytes, allocated_peak_bytes;
    uint64_t active_bytes, active_peak_bytes; /* allocated, and given away but not yet passed by another stream */
    uint64_t reserved_bytes, reserved_peak_bytes;
    uint64_t requested_bytes, requested_peak_bytes; /* of active blocks, before rounding */
    uint64_t slack_bytes, slack_peak_bytes;         /* part of allocated: remainders that were too small to be split off */
    uint32_t retries;                               /* times the cache was released because the device was full */
    bool oom;                                       /* a take found no room even then */
};

MUST_CHECK enum err_code torch_alloc_new(struct arena *a, const struct torch_alloc_options *options, struct torch_alloc **ret,
                                         struct err *err);

/* What a request counts in a walk: the next multiple of 512, at least 512. */
static inline uint64_t torch_alloc_round(uint64_t bytes)
{
    return bytes < 512 ? 512 : (bytes + 511) & ~UINT64_C(511);
}

/*
 * A storage of `bytes` is born under a free handle of the caller's choice. False: out of memory (stats.oom; the caller may go
 * on, as a program that catches the exception) or the status is no longer ERR_OK; the handle then stays free.
 * Storages without bytes have no block in PyTorch: they are not taken. `stream` is below TORCH_ALLOC_STREAMS.
 */
bool torch_alloc_take(struct torch_alloc *t, uint32_t handle, uint64_t bytes, unsigned stream);

/* The same, and it dies before anything else happens: what a take() and a give() leave, at less cost. Returns the size that its block had;
 * 0: nothing has happened, only take() can tell (no cached block has room, or the status is not ERR_OK). */
uint64_t torch_alloc_visit(struct torch_alloc *t, uint64_t bytes, unsigned stream);

/* record_stream() by a stream other than its own. A handle that holds nothing is left alone. */
void torch_alloc_cross(struct torch_alloc *t, uint32_t handle);

/* Its last owner has gone. A handle that holds nothing is left alone. */
void torch_alloc_give(struct torch_alloc *t, uint32_t handle);

/* TORCH_LAG_TIMED: the same of a crossed block that the streams will have passed at `until_s`; and what the time is from now on. */
void torch_alloc_give_until(struct torch_alloc *t, uint32_t handle, double until_s);
void torch_alloc_time(struct torch_alloc *t, double now_s);

/* A CUDA event recorded now: the number of crossed blocks given away so far. The host waits for it: the streams are past those. */
uint32_t torch_alloc_mark(const struct torch_alloc *t);
void torch_alloc_wait(struct torch_alloc *t, uint32_t mark);

/* The size of a live block, what allocated counts for it; 0 when the handle holds nothing. */
uint64_t torch_alloc_block_bytes(const struct torch_alloc *t, uint32_t handle);

/* Whoever wants to know what is taken from the device and given back: whole segments; of expandable ones pages. It lives as long as `t`. */
struct torch_alloc_watch {
    void *of;
    void (*segment)(void *of, bool taken, uint64_t address, uint64_t bytes, unsigned stream, bool small);
};
void torch_alloc_watch(struct torch_alloc *t, const struct torch_alloc_watch *watch);

/* Where it lies: a made-up address, by which alone of two blocks it can be told which lies lower in one segment; 0: the handle holds nothing. */
uint64_t torch_alloc_address(const struct torch_alloc *t, uint32_t handle);

/* All blocks, segment by segment, each in the order of addresses. */
struct torch_block {
    uint64_t address, bytes, asked_bytes;
    unsigned stream;
    bool small, cached; /* cached: nobody holds it */
    bool begins;        /* a segment */
};
MUST_CHECK enum err_code torch_alloc_each_block(const struct torch_alloc *t, struct arena *scratch,
                                                void (*see)(void *of, const struct torch_block *b), void *of, struct err *err);

void torch_alloc_empty_cache(struct torch_alloc *t);                    /* torch.cuda.empty_cache() */
void torch_alloc_forget_retries(struct torch_alloc *t);                 /* those of loading slow down no step */
void torch_alloc_limit(struct torch_alloc *t, uint64_t capacity_bytes); /* what the device grants from now on; 0: no limit */
void torch_alloc_reset_peaks(struct torch_alloc *t);                    /* torch.cuda.reset_peak_memory_stats() */
struct torch_alloc_stats torch_alloc_stats(const struct torch_alloc *t);
uint64_t torch_alloc_active_bytes(const struct torch_alloc *t); /* stats.active_bytes alone */
enum err_code torch_alloc_status(const struct torch_alloc *t, struct err *err);

#endif
