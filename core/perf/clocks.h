/*
 * clocks.h - the clocks of one rank while a part of its log is played. Inside core/perf only.
 *
 * Clocks    the host that launches; the compute stream; each stream of messages; each communicator and each direction of the bus, which take one
 *           message at a time. A message starts when the host has enqueued it, its stream and what it goes over are free, and, where it waits for
 *           compute, the kernels before it have ended. Kernels start when the one before has ended, the host has launched them, and what is waited
 *           for before them has arrived. The optimizer on the host is a message that the host itself waits for.
 */
#ifndef PERF_CLOCKS_H
#define PERF_CLOCKS_H

#include "perf/kernel.h"

enum { COMMUNICATORS = 8, WAITS = 32, MARKS = 16 };

struct clocks {
    double host_s, gpu_s;
    double stream_s[STREAM_COUNT], to_host_s, from_host_s;
    struct communicator {
        struct work_group group;
        double free_s;
    } communicator[COMMUNICATORS]; /* a group beyond them shares the last one's */
    uint32_t n_communicators, n_waits;
    uint32_t stage_begin, stage_end; /* kernels of `stage` in a row; 0, 0: not looked at yet */
    uint8_t stage;
    struct awaited {
        uint32_t before; /* kernel */
        double wire_s, host_s; /* when the last of them has arrived, over links and over the bus or from the host */
    } wait[WAITS];
    double mark_s[MARKS];   /* ends of kernels that the host will wait for: a ring */
    uint32_t n_marked, n_passed, marking; /* marks set and used; the message whose mark comes next */
    double waited_wire_s, waited_host_s; /* of gpu_s */
    double stage_s[COST_STAGES]; /* of gpu_s, kernels and waits before them, by stage */
    bool apart;             /* what goes to a neighbour takes no part: a schedule plays it */
    double send_s;          /* the longest of that */
};

/* Micro-step `i` of the log, and what follows the last: at the end of each, compute waits for all that is under way. `apart`: see above. */
struct clocks play_micro_step(struct rates *r, const struct cost *c, uint32_t i, bool apart);
struct clocks play_end(struct rates *r, const struct cost *c);

#endif
