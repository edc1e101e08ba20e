#include "server/workers.h"

#include "api/api.h"
#include "server/block.h"
#include "server/blocks.h"
#include "server/clock.h"
#include "server/memory.h"
#include "server/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum {
    KEEP_BYTES = 64 << 20, /* of a block, kept while one job follows another: most touch 40 MiB in large pages, which takes 5 ms anew */
    LOOK_JOBS = 64,        /* how often that is looked at */
    DEAR_EVENTS = 4 << 20, /* and after a job of so many, which takes half a second and more, and fills a block */
    LINGER_MS = 100,       /* with nothing to do, then all goes back */
};

/* What a lane is for, in events of work; and what its threads take from others: weights of the scheduler are 1024, 110 and 15. */
static const struct {
    uint64_t until_events;
    int nice;
} lanes_of[LANES] = {{500000, 0}, {6000000, 10}, {UINT64_MAX, 19}};

struct queue {
    struct job *first, **last;
    unsigned n;
};

struct lane {
    struct queue queue;
    unsigned slots, threads; /* threads: that there may be; that there are */
    unsigned idle, busy;
    pthread_cond_t filled;
};

/* One thread. */
struct worker {
    struct workers *all;
    unsigned lane;
    bool has_worked; /* since it looked for blocks that rest */
};

struct workers {
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a thread */
    struct lane lanes[LANES];
    struct blocks blocks; /* as many as threads: each brings one */
    unsigned threads, queued, queue_max;
    uint64_t work_events, begun_anew;
    bool is_ending;
};

/* --- under the lock ----------------------------------------------------------------------------------------------------------------- */

static void put(struct queue *q, struct job *job)
{
    job->next = NULL;
    *q->last = job;
    q->last = &job->next;
    q->n++;
}

static struct job *take(struct queue *q)
{
    struct job *job = q->first;

    if (!job)
        return NULL;
    q->first = job->next;
    if (!q->first)
        q->last = &q->first;
    q->n--;
    return job;
}

static void *run(void *arg);

/* One thread more for a lane that has room for it. */
static bool start(struct workers *w, unsigned lane)
{
    struct worker *me = w->lanes[lane].threads < w->lanes[lane].slots ? malloc(sizeof *me) : NULL;
    pthread_t thread;

    if (!me)
        return false;
    *me = (struct worker){.all = w, .lane = lane};
    if (!blocks_add(&w->blocks)) {
        free(me);
        return false;
    }
    if (!thread_start(&thread, run, me)) {
        block_destroy(blocks_remove(&w->blocks));
        free(me);
        return false;
    }
    (void)pthread_detach(thread); /* workers_free() counts them */
    w->lanes[lane].threads++;
    w->threads++;
    return true;
}

/* Somebody will take the job: who is idle, a new thread, or one that is busy still. false: there is no thread, and none can be had. */
static bool enqueue(struct workers *w, struct job *job)
{
    struct lane *l = &w->lanes[job->lane];

    if (l->queue.n >= l->idle && !start(w, job->lane) && !l->threads)
        return false;
    put(&l->queue, job);
    w->queued++;
    pthread_cond_signal(&l->filled);
    return true;
}

/* --- from lane to lane -------------------------------------------------------------------------------------------------------------- */

/* It cannot be taken back without privileges: such a thread ends with its lane's work. */
static void lower_priority(unsigned lane)
{
    if (lanes_of[lane].nice)
        (void)setpriority(PRIO_PROCESS, (id_t)gettid(), lanes_of[lane].nice);
}

/* Under the lock: a thread with its job. */
static void move_on(struct worker *me)
{
    struct workers *w = me->all;
    struct lane *from = &w->lanes[me->lane], *to = &w->lanes[me->lane + 1];

    from->threads--;
    from->busy--;
    to->threads++;
    to->busy++;
    me->lane++;
    if (me->lane == 1 || from->queue.n)
        (void)start(w, me->lane - 1);
}

/* The job has come to the end of what its lane is for. Where no thread can take this one's place, it stays. */
static bool passed(struct budget *b)
{
    struct job *job = (struct job *)(void *)((char *)b - offsetof(struct job, work));
    struct worker *me = job->worker;
    struct workers *w = me->all;
    struct lane *next = &w->lanes[me->lane + 1];
    bool goes_on;

    pthread_mutex_lock(&w->lock);
    goes_on = next->busy + next->queue.n < next->slots;
    if (goes_on)
        move_on(me);
    job->lane = goes_on ? me->lane : me->lane + 1;
    pthread_mutex_unlock(&w->lock);
    b->mark_events = lanes_of[job->lane].until_events;
    if (goes_on)
        lower_priority(me->lane);
    return goes_on;
}

/* --- a thread ----------------------------------------------------------------------------------------------------------------------- */

static bool is_cancelled(const struct job *job)
{
    return job->cancelled && atomic_load(job->cancelled);
}

/* false: it is to begin anew, in job->lane. */
static bool work(struct worker *me, struct job *job, struct block *block)
{
    struct arena arena;

    job->worker = me;
    job->work = (struct budget){.limit_events = me->all->work_events, .cancelled = job->cancelled};
    if (me->lane + 1 < LANES) {
        job->work.passed = passed;
        job->work.mark_events = lanes_of[me->lane].until_events;
    }
    if (clock_ms() >= job->until_ms || is_cancelled(job)) {
        job->run(job, NULL);
        return true;
    }
    arena_init(&arena, block->memory, API_ARENA_BYTES);
    block->is_touched = me->has_worked = true;
    job->run(job, &arena);
    return !job->work.is_stopped;
}

/* A job that waits for its lane now. This thread has it where no other can. */
static void begin_anew(struct worker *me, struct job *job)
{
    struct workers *w = me->all;

    w->begun_anew++;
    if (enqueue(w, job))
        return;
    w->lanes[me->lane].threads--;
    w->lanes[job->lane].threads++;
    me->lane = job->lane;
    (void)enqueue(w, job);
}

/* Called and left under the lock. The block is there again before anybody hears of the answer: who asks the next question at once finds its pages. */
static void run_job(struct worker *me, struct job *job)
{
    struct workers *w = me->all;
    struct block *block = blocks_take(&w->blocks);
    bool is_done, is_dear;

    w->queued--;
    w->lanes[me->lane].busy++;
    pthread_mutex_unlock(&w->lock);
    is_done = work(me, job, block);
    is_dear = job->work.events > DEAR_EVENTS; /* done() may free it */
    if (block->is_touched && (++block->jobs % LOOK_JOBS == 0 || is_dear))
        block_trim(block->memory, API_ARENA_BYTES, KEEP_BYTES);
    pthread_mutex_lock(&w->lock);
    blocks_leave(&w->blocks, block);
    w->lanes[me->lane].busy--;
    if (!is_done) {
        begin_anew(me, job);
        return;
    }
    pthread_mutex_unlock(&w->lock);
    job->done(job);
    pthread_mutex_lock(&w->lock);
}

/* A job, or a tenth of a second without one. false: that. */
static bool linger(struct worker *me, struct lane *l)
{
    struct timespec until;
    int rc;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LINGER_MS * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    rc = pthread_cond_timedwait(&l->filled, &me->all->lock, &until);
    return rc != ETIMEDOUT;
}

/* Blocks that rest as long as the thread has, of whoever worked in them: it is the last that saw some of them. */
static void give_pages_back(struct worker *me)
{
    struct workers *w = me->all;
    struct block *b;

    while ((b = blocks_take_cold(&w->blocks, LINGER_MS))) {
        pthread_mutex_unlock(&w->lock);
        block_clear(b);
        pthread_mutex_lock(&w->lock);
        blocks_leave(&w->blocks, b);
    }
    me->has_worked = false;
}

/* Nothing to do. false: and there will not be. Those of the first lane stay; their pages, and others, go. */
static bool rest(struct worker *me)
{
    struct workers *w = me->all;
    struct lane *l = &w->lanes[me->lane];
    bool stays = !me->lane, came = true;

    if (w->is_ending)
        return false;
    l->idle++;
    if (stays && !me->has_worked)
        pthread_cond_wait(&l->filled, &w->lock);
    else
        came = linger(me, l);
    l->idle--;
    if (came || l->queue.n)
        return true;
    give_pages_back(me);
    if (!stays)
        return l->queue.n;
    pthread_mutex_unlock(&w->lock);
    memory_trim(false);
    pthread_mutex_lock(&w->lock);
    return true;
}

/* Jobs that moved on from another lane may hold all of this one. */
static struct job *next_job(struct worker *me)
{
    struct lane *l = &me->all->lanes[me->lane];
    struct job *job = NULL;

    do
        job = l->busy < l->slots ? take(&l->queue) : NULL;
    while (!job && rest(me));
    return job;
}

static void *run(void *arg)
{
    struct worker *me = arg;
    struct workers *w = me->all;
    struct block *block;

    lower_priority(me->lane);
    pthread_mutex_lock(&w->lock);
    for (struct job *job; (job = next_job(me));)
        run_job(me, job);
    block = blocks_remove(&w->blocks);
    w->lanes[me->lane].threads--;
    w->threads--;
    pthread_cond_signal(&w->ended);
    pthread_mutex_unlock(&w->lock);
    block_destroy(block);
    free(me);
    memory_trim(false);
    return NULL;
}

/* --- for others --------------------------------------------------------------------------------------------------------------------- */

bool workers_push(struct workers *w, struct job *job)
{
    bool room;

    job->lane = job->is_large;
    pthread_mutex_lock(&w->lock);
    room = w->queued < w->queue_max && enqueue(w, job);
    pthread_mutex_unlock(&w->lock);
    return room;
}

void workers_counts_read(struct workers *w, struct workers_counts *ret)
{
    pthread_mutex_lock(&w->lock);
    *ret = (struct workers_counts){.threads = w->lanes[0].slots, .queued = w->queued, .begun_anew = w->begun_anew};
    for (unsigned i = 0; i < LANES; i++) {
        ret->lane_busy[i] = w->lanes[i].busy;
        ret->busy += w->lanes[i].busy;
    }
    pthread_mutex_unlock(&w->lock);
}

struct workers *workers_new(unsigned threads, unsigned queue, uint64_t work_events)
{
    struct workers *w = calloc(1, sizeof *w);
    pthread_condattr_t monotonic;
    bool good = w;

    if (!w)
        return NULL;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->ended, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    w->queue_max = queue;
    w->work_events = work_events;
    for (unsigned i = 0; i < LANES; i++) {
        struct lane *l = &w->lanes[i];

        pthread_cond_init(&l->filled, &monotonic);
        l->queue.last = &l->queue.first;
        l->slots = i + 1 < LANES ? threads : (threads + 1) / 2;
    }
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_lock(&w->lock);
    while (good && w->lanes[0].threads < threads)
        good = start(w, 0);
    pthread_mutex_unlock(&w->lock);
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
    w->is_ending = true;
    for (unsigned i = 0; i < LANES; i++)
        pthread_cond_broadcast(&w->lanes[i].filled);
    while (w->threads)
        pthread_cond_wait(&w->ended, &w->lock);
    pthread_mutex_unlock(&w->lock);
    for (unsigned i = 0; i < LANES; i++)
        pthread_cond_destroy(&w->lanes[i].filled);
    pthread_cond_destroy(&w->ended);
    pthread_mutex_destroy(&w->lock);
    free(w);
}
