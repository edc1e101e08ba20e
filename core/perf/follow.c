/*
 * follow.c - the clock of a replay (meters/clock.h): host, streams, links and launch queues of one rank, step by step with its tape.
 *
 * Streams   kernels run in the order of their stream; a stream waits where the program says so (orders of torch/work.h). Messages of a communicator
 *           follow each other; each waits for the stream that it was enqueued from.
 * Host      what it runs for kernels, hooks and messages (constants.c); it waits for CUDA events where the program does, and before a launch
 *           while the stream's queue is full.
 * Ranks     a message starts when the slowest rank has enqueued it: that one is played first. What is told is of one whose host is
 *           PERF_FAST_RANK ahead: the more it is ahead, the more blocks wait, and figures are the highest of any rank.
 */
#include "perf/kernel.h"

#include <string.h>

/* Operations of a stream that wait for the GPU before the next launch blocks. Source: facebookresearch/HolisticTraceAnalysis, hta/common/constants.py
 * CUDA_MAX_LAUNCH_QUEUE_PER_STREAM: 1,022 to 1,024 operations seen; undocumented (NVIDIA forum, topics 255260, 68937). */
enum { QUEUE = 1024 };

enum { WAY_GROUPS = 8, WAY_TO_HOST = 2 * WAY_GROUPS, WAY_FROM_HOST, WAYS };

struct follower {
    struct tape_clock clock; /* first: what is handed out */
    const struct work *log;
    double stream_s[STREAM_COUNT], way_s[WAYS];
    struct work_group group[WAY_GROUPS];
    uint32_t n_groups;
    struct queue {
        double end_s[QUEUE];
        uint64_t n;
    } *queue; /* by stream */
    uint32_t kernel, message, order; /* played */
    bool slowest;            /* the slowest rank is played */
    double pace;             /* of the host's time, what this rank takes */
    double call_s[2];        /* of Python; of autograd's engine */
    double hook_s, send_s, native_s;
    const double *kernel_s, *message_s; /* what each takes */
    double *enqueued_s;      /* by message: when the slowest rank was ready */
    double *arrived_s;       /* by message */
    double *event_s;         /* by CUDA event, from 1 */
};

/* ---------------------------------------------------------------------------------------------------------------- queues */
static void enqueue(struct follower *f, unsigned stream)
{
    struct queue *q = &f->queue[stream];

    if (q->n >= QUEUE)
        f->clock.host_s = larger(f->clock.host_s, q->end_s[q->n % QUEUE]);
    q->end_s[q->n++ % QUEUE] = f->stream_s[stream];
}

static void wait_in(struct follower *f, unsigned stream, double until)
{
    f->stream_s[stream] = larger(f->stream_s[stream], until);
    enqueue(f, stream);
}

/* ------------------------------------------------------------------------------------------------------ what is played */
static void play_kernel(struct follower *f, const struct kernel *k)
{
    bool engine = (k->stage == STAGE_BACKWARD && !k->recompute) || k->stage == STAGE_OPTIMIZER || k->stage == STAGE_CLIP;
    double *end = &f->stream_s[k->stream];

    f->clock.host_s += f->pace * (k->calls * f->call_s[engine] + k->hooks * f->hook_s);
    *end = larger(*end, f->clock.host_s) + f->kernel_s[f->kernel];
    for (uint32_t i = 0; i < k->launches; i++)
        enqueue(f, k->stream);
}

static double *way_of(struct follower *f, const struct message *m)
{
    uint32_t i = 0;

    if (m->collective == COLLECTIVE_TO_HOST)
        return &f->way_s[WAY_TO_HOST];
    if (m->collective == COLLECTIVE_FROM_HOST)
        return &f->way_s[WAY_FROM_HOST];
    while (i < f->n_groups && (f->group[i].ranks != m->group.ranks || f->group[i].stride != m->group.stride))
        i++;
    if (i == f->n_groups && i < WAY_GROUPS)
        f->group[f->n_groups++] = m->group;
    return &f->way_s[2 * (i < WAY_GROUPS ? i : WAY_GROUPS - 1) + m->apart];
}

static void host_waits_all(struct follower *f)
{
    for (int i = 0; i < STREAM_COUNT; i++)
        f->clock.host_s = larger(f->clock.host_s, f->stream_s[i]);
}

static void play_message(struct follower *f, const struct message *m)
{
    double *way = way_of(f, m), ready, takes_s = f->message_s[f->message];

    f->clock.host_s += f->pace * (m->native ? f->native_s : f->send_s);
    if (m->collective == COLLECTIVE_HOST_STEP) {
        host_waits_all(f);
        f->arrived_s[f->message] = f->clock.host_s += takes_s;
        return;
    }
    ready = larger(f->clock.host_s, f->stream_s[m->from]);
    if (m->after_compute)
        ready = larger(ready, f->stream_s[STREAM_COMPUTE]);
    if (f->slowest)
        f->enqueued_s[f->message] = ready;
    ready = larger(ready, f->enqueued_s[f->message]);
    *way = larger(*way, ready) + takes_s;
    f->arrived_s[f->message] = *way;
    enqueue(f, m->from);
}

static void play_order(struct follower *f, const struct order *o)
{
    switch ((enum order_kind)o->kind) {
    case ORDER_STREAM_WAITS:
        enqueue(f, o->of);
        wait_in(f, o->stream, f->stream_s[o->of]);
        return;
    case ORDER_TAKES:
        wait_in(f, o->stream, f->arrived_s[o->of]);
        return;
    case ORDER_EVENT:
        f->event_s[o->of] = f->stream_s[o->stream];
        enqueue(f, o->stream);
        return;
    case ORDER_HOST_WAITS:
        f->clock.host_s = larger(f->clock.host_s, f->event_s[o->of]);
        return;
    case ORDER_HOST_SYNCS:
        host_waits_all(f);
        return;
    }
}

/* ----------------------------------------------------------------------------------------------------------- in order */
/* The next of the log that was written before event `until`; `next`: of what comes then. False: there is none. */
static bool play_next(struct follower *f, uint32_t until)
{
    const struct work *w = f->log;
    const struct order *o = f->order < w->n_orders ? &w->orders[f->order] : NULL;
    const struct message *m = f->message < w->n_messages ? &w->messages[f->message] : NULL;
    const struct kernel *k = f->kernel < w->n_kernels ? &w->kernels[f->kernel] : NULL;
    uint32_t at;

    if (o && (o->kernel > f->kernel || o->message > f->message))
        o = NULL;
    if (o || (m && m->kernels_before > f->kernel))
        m = NULL;
    at = o ? o->at : m ? m->at : k ? k->at : UINT32_MAX;
    f->clock.next = at;
    if (at > until || at == UINT32_MAX)
        return false;
    if (o) {
        play_order(f, o);
        f->order++;
    } else if (m) {
        play_message(f, m);
        f->message++;
    } else {
        play_kernel(f, k);
        f->kernel++;
    }
    return true;
}

static void advance(struct tape_clock *c, uint32_t event)
{
    while (play_next((struct follower *)(void *)c, event))
        ;
}

static double passes(struct tape_clock *c, unsigned readers)
{
    struct follower *f = (struct follower *)(void *)c;
    double last = 0;

    for (unsigned i = 0; i < STREAM_COUNT; i++)
        if (readers >> i & 1) {
            last = larger(last, f->stream_s[i]);
            enqueue(f, i);
        }
    return last;
}

static void begin(struct tape_clock *c)
{
    struct follower *f = (struct follower *)(void *)c;

    memset(f->stream_s, 0, sizeof f->stream_s);
    memset(f->way_s, 0, sizeof f->way_s);
    memset(f->queue, 0, STREAM_COUNT * sizeof *f->queue);
    memset(f->event_s, 0, (f->log->n_events + (size_t)1) * sizeof *f->event_s);
    f->kernel = f->message = f->order = f->n_groups = 0;
    c->host_s = 0;
    c->next = 0;
}

/* -------------------------------------------------------------------------------------------------------------- making */
static bool make_room(struct follower *f, const struct work *log, struct rates *r, struct arena *arena)
{
    double *kernel_seconds = arena_array_raw(arena, double, log->n_kernels + (size_t)1);
    double *message_seconds = arena_array_raw(arena, double, log->n_messages + (size_t)1);

    f->queue = arena_array_raw(arena, struct queue, STREAM_COUNT);
    f->enqueued_s = arena_array(arena, double, log->n_messages + (size_t)1);
    f->arrived_s = arena_array(arena, double, log->n_messages + (size_t)1);
    f->event_s = arena_array_raw(arena, double, log->n_events + (size_t)1);
    if (!kernel_seconds || !message_seconds || !f->queue || !f->enqueued_s || !f->arrived_s || !f->event_s)
        return false;
    for (uint32_t i = 0; i < log->n_kernels; i++)
        kernel_seconds[i] = kernel_s(r, &log->kernels[i]);
    for (uint32_t i = 0; i < log->n_messages; i++)
        message_seconds[i] = message_s(r, &log->messages[i]);
    f->kernel_s = kernel_seconds;
    f->message_s = message_seconds;
    return true;
}

static void set_pace(struct follower *f, const double *constants, enum host_engine engine)
{
    f->call_s[0] = constants[PERF_FORWARD_CALL_S];
    f->call_s[1] = f->native_s = constants[PERF_BACKWARD_CALL_S];
    f->hook_s = constants[engine == HOST_ZERO3 ? PERF_STAGE3_HOOK_S : PERF_HOOK_S];
    f->send_s = constants[engine == HOST_TORCH ? PERF_MESSAGE_CALL_S : PERF_STAGE3_CALL_S];
}

static struct tape_clock *follow(const void *of, struct timed_run run, struct arena *arena)
{
    struct follower *f = arena_new(arena, struct follower);
    const struct cost kernels_of = {.flash = run.flash};
    double constants[PERF_CONSTANTS];
    struct rates r;

    perf_constants(constants);
    rates_of(constants, &kernels_of, of, &r);
    if (!f)
        return NULL;
    f->log = run.log;
    if (!make_room(f, run.log, &r, arena))
        return NULL;
    f->clock = (struct tape_clock){.begin = begin, .advance = advance, .passes = passes,
                               .rows = run.log->n_kernels + run.log->n_messages + run.log->n_orders};
    set_pace(f, constants, run.engine);
    f->pace = 1;
    f->slowest = true;
    begin(&f->clock);
    advance(&f->clock, UINT32_MAX - 1);
    f->slowest = false;
    f->pace = constants[PERF_FAST_RANK];
    return &f->clock;
}

struct timekeeper perf_timekeeper(const struct perf_system *s)
{
    return (struct timekeeper){follow, s};
}
