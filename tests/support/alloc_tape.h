/*
 * alloc_tape.h - reads the tapes of tests/data/alloc (their form: make_tapes.py, make_streams.py there) and replays them.
 *
 * A header alone, because tests and benchmarks share it. Paths are relative to the root of the repository.
 */
#ifndef SUPPORT_ALLOC_TAPE_H
#define SUPPORT_ALLOC_TAPE_H

#include "torch/alloc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TAPE_EXPECTS_MAX = 8 };

struct tape_event {
    char kind; /* + birth, - death, e empty_cache, r reset_peaks, x record_stream, m event, w wait for it, y synchronize */
    uint32_t slot, stream;
    uint64_t bytes;
};

struct tape_expect {
    bool expandable, lagging;
    uint64_t capacity_bytes, allocated_peak_bytes, reserved_peak_bytes, requested_peak_bytes;
    uint32_t retries, refused;
    uint64_t hash; /* of (allocated, reserved) after every event; of active too, where it is not allocated */
};

struct tape {
    uint32_t slots, n_events, n_expects;
    struct tape_event *events;
    struct tape_expect expects[TAPE_EXPECTS_MAX];
};

static inline bool tape_event_read(FILE *f, const uint64_t *sizes, uint32_t n_sizes, struct tape_event *e)
{
    char token[64];
    uint32_t size = 0;

    if (fscanf(f, "%63s", token) != 1)
        return false;
    *e = (struct tape_event){.kind = token[0]};
    if (token[0] == '+') {
        if (sscanf(token + 1, "%" SCNu32 ":%" SCNu32 ":%" SCNu32, &e->slot, &size, &e->stream) < 2 || size >= n_sizes)
            return false;
        e->bytes = sizes[size];
        return true;
    }
    if (token[0] == '-' || token[0] == 'x')
        return sscanf(token + 1, "%" SCNu32, &e->slot) == 1;
    return strchr("ermwy", token[0]) != NULL;
}

static inline bool tape_expect_read(FILE *f, struct tape_expect *x)
{
    char mode[24];

    if (fscanf(f, "%23s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu64, mode, &x->capacity_bytes,
               &x->allocated_peak_bytes, &x->reserved_peak_bytes, &x->requested_peak_bytes, &x->retries, &x->refused, &x->hash) != 8)
        return false;
    x->expandable = strstr(mode, "expandable") != NULL;
    x->lagging = strncmp(mode, "lagging-", 8) == 0;
    return true;
}

/* False: not there, or not a tape. What was read is given back by tape_release() either way. */
static inline bool tape_read(const char *path, struct tape *t)
{
    FILE *f = fopen(path, "r");
    uint64_t *sizes = NULL;
    uint32_t n_sizes = 0;
    char word[16];
    bool good = f != NULL;

    *t = (struct tape){0};
    while (good && fscanf(f, "%15s", word) == 1) {
        if (word[0] == '#') {
            good = fscanf(f, "%*[^\n]") == 0;
        } else if (strcmp(word, "slots") == 0) {
            good = fscanf(f, "%" SCNu32, &t->slots) == 1;
        } else if (strcmp(word, "sizes") == 0 && !sizes) {
            good = fscanf(f, "%" SCNu32, &n_sizes) == 1 && (sizes = calloc(n_sizes, sizeof *sizes));
            for (uint32_t i = 0; good && i < n_sizes; i++)
                good = fscanf(f, "%" SCNu64, &sizes[i]) == 1;
        } else if (strcmp(word, "expect") == 0 && t->n_expects < TAPE_EXPECTS_MAX) {
            good = tape_expect_read(f, &t->expects[t->n_expects++]);
        } else if (strcmp(word, "events") == 0 && !t->events) {
            good = fscanf(f, "%" SCNu32, &t->n_events) == 1 && (t->events = calloc(t->n_events, sizeof *t->events));
            for (uint32_t i = 0; good && i < t->n_events; i++)
                good = tape_event_read(f, sizes, n_sizes, &t->events[i]) && t->events[i].slot < t->slots;
        } else {
            good = false;
        }
    }
    free(sizes);
    if (f)
        fclose(f);
    return good && t->events && t->n_expects;
}

static inline void tape_release(struct tape *t) { free(t->events); }

/* False: the birth was refused. The death of a refused birth does nothing. `mark` is the event that a wait waits for. */
static inline bool tape_step(struct torch_alloc *t, const struct tape_event *e, uint32_t *mark)
{
    switch (e->kind) {
    case '+': return torch_alloc_take(t, e->slot, e->bytes, e->stream);
    case '-': torch_alloc_give(t, e->slot); break;
    case 'x': torch_alloc_cross(t, e->slot); break;
    case 'm': *mark = torch_alloc_mark(t); break;
    case 'w': torch_alloc_wait(t, *mark); break;
    case 'y': torch_alloc_wait(t, torch_alloc_mark(t)); break;
    case 'e': torch_alloc_empty_cache(t); break;
    default: torch_alloc_reset_peaks(t);
    }
    return true;
}

#endif
