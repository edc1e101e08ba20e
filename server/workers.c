#include "server/workers.h"

#include "api/api.h"
#include "server/clock.h"
#include "server/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum {
    KEEP_BYTES = 32 << 20, /* of a block, kept while one job follows another: most touch 20 MiB, which takes 5 ms anew */
    LINGER_MS = 100,       /* with nothing to do, then all goes back */
    LOOK_PAGES = 16 << 10,
};

struct queue {
    struct job *first, **last;
};

struct worker {
    struct workers *all;
    pthread_t thread;
    void *block;
    bool is_touched; /* pages of the block are resident */
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct queue small, large;
    unsigned queued, queue_max, busy, large_busy, large_max;
    bool ending;
    unsigned n;
    struct worker v[];
};

void *block_new(size_t bytes)
{
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return block == MAP_FAILED ? NULL : block;
}

void block_free(void *block, size_t bytes)
{
    struct arena whole;

    if (!block)
        return;
    arena_init(&whole, block, bytes);
    (void)arena_push_raw(&whole, 1, 1, bytes); /* whoever gets these addresses next finds them unpoisoned */
    (void)munmap(block, bytes);
}

static void put(struct queue *q, struct job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
}

static struct job *take(struct queue *q)
{
    struct job *job = q->first;

    if (job && !(q->first = job->next))
        q->last = &q->first;
    return job;
}

/* A large job waits while others of its kind hold all workers but one. */
static struct job *next(struct workers *w)
{
    struct job *job = take(&w->small);

    if (!job && w->large_busy < w->large_max)
        job = take(&w->large);
    if (!job)
        return NULL;
    w->queued--;
    w->busy++;
    w->large_busy += job->is_large;
    return job;
}

static void give_pages_back(struct worker *me)
{
    (void)madvise(me->block, API_ARENA_BYTES, MADV_DONTNEED);
    me->is_touched = false;
}

static size_t resident_bytes(const struct worker *me)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = API_ARENA_BYTES / page, n = 0;
    unsigned char there[LOOK_PAGES];

    for (size_t at = 0, some; at < pages; at += some) {
        some = pages - at < LOOK_PAGES ? pages - at : LOOK_PAGES;
        if (mincore((char *)me->block + at * page, some * page, there))
            return SIZE_MAX;
        for (size_t i = 0; i < some; i++)
            n += there[i] & 1;
    }
    return n * page;
}

/* Nothing to do. With the lock. */
static void rest(struct worker *me)
{
    struct workers *w = me->all;
    struct timespec until;

    if (!me->is_touched) {
        pthread_cond_wait(&w->filled, &w->lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LINGER_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (pthread_cond_timedwait(&w->filled, &w->lock, &until) != ETIMEDOUT)
        return;
    pthread_mutex_unlock(&w->lock);
    give_pages_back(me);
    pthread_mutex_lock(&w->lock);
}

static void work(struct worker *me, struct job *job)
{
    struct arena arena;

    if (clock_ms() >= job->until_ms) {
        job->run(job, NULL);
        return;
    }
    arena_init(&arena, me->block, API_ARENA_BYTES);
    job->run(job, &arena);
    me->is_touched = true;
    if (resident_bytes(me) > KEEP_BYTES)
        give_pages_back(me);
}

static void *run(void *arg)
{
    struct worker *me = arg;
    struct workers *w = me->all;

    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct job *job = next(w);
        bool large;

        if (!job) {
            if (w->ending && !w->queued)
                break;
            rest(me);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        large = job->is_large;
        work(me, job);
        job->done(job);
        pthread_mutex_lock(&w->lock);
        w->busy--;
        w->large_busy -= large;
        if (large || w->ending)
            pthread_cond_broadcast(&w->filled);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool workers_push(struct workers *w, struct job *job)
{
    bool room;

    pthread_mutex_lock(&w->lock);
    room = w->queued < w->queue_max;
    if (room) {
        put(job->is_large ? &w->large : &w->small, job);
        w->queued++;
    }
    pthread_mutex_unlock(&w->lock);
    if (room)
        pthread_cond_signal(&w->filled);
    return room;
}

void workers_counts_read(struct workers *w, struct workers_counts *ret)
{
    pthread_mutex_lock(&w->lock);
    *ret = (struct workers_counts){.threads = w->n, .busy = w->busy, .queued = w->queued};
    pthread_mutex_unlock(&w->lock);
}

static bool start(struct workers *w)
{
    struct worker *me = &w->v[w->n];

    me->all = w;
    me->block = block_new(API_ARENA_BYTES);
    if (me->block && thread_start(&me->thread, run, me))
        return true;
    block_free(me->block, API_ARENA_BYTES);
    return false;
}

struct workers *workers_new(unsigned threads, unsigned queue)
{
    struct workers *w = calloc(1, sizeof *w + threads * sizeof *w->v);
    pthread_condattr_t monotonic;
    bool good = w;

    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->filled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->small.last = &w->small.first;
    w->large.last = &w->large.first;
    w->queue_max = queue;
    w->large_max = threads > 1 ? threads - 1 : 1;
    while (good && w->n < threads) {
        good = start(w);
        w->n += good;
    }
    if (good)
        return w;
    workers_free(w);
    return NULL;
}

void workers_free(struct workers *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->ending = true;
    pthread_mutex_unlock(&w->lock);
    pthread_cond_broadcast(&w->filled);
    for (unsigned i = 0; i < w->n; i++) {
        pthread_join(w->v[i].thread, NULL);
        block_free(w->v[i].block, API_ARENA_BYTES);
    }
    pthread_cond_destroy(&w->filled);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
