#include "server/hub/helper.h"

#include "server/thread.h"

#include <stdlib.h>

struct helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given, idle;
    struct {
        struct job *first, **last;
    } queue[HELPER_WHENS];
    bool busy, stop;
};

/* NULL: there is nothing to do. */
static struct job *take(struct helper *h)
{
    for (int when = HELPER_NOW; when < HELPER_WHENS; when++) {
        struct job *j = h->queue[when].first;

        if (!j)
            continue;
        h->queue[when].first = j->next;
        if (!j->next)
            h->queue[when].last = &h->queue[when].first;
        return j;
    }
    return NULL;
}

static void *work(void *arg)
{
    struct helper *h = arg;

    struct job *j;

    pthread_mutex_lock(&h->lock);
    while ((j = take(h)) || !h->stop) {
        h->busy = j;
        if (!j) {
            pthread_cond_wait(&h->given, &h->lock);
            continue;
        }
        pthread_mutex_unlock(&h->lock);
        j->run(j);
        pthread_mutex_lock(&h->lock);
        h->busy = false;
        pthread_cond_broadcast(&h->idle);
    }
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

struct helper *helper_new(void)
{
    struct helper *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    for (int when = HELPER_NOW; when < HELPER_WHENS; when++)
        h->queue[when].last = &h->queue[when].first;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->given, NULL);
    pthread_cond_init(&h->idle, NULL);
    if (thread_start(&h->thread, work, h))
        return h;
    free(h);
    return NULL;
}

void helper_free(struct helper *h)
{
    if (!h)
        return;
    pthread_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_signal(&h->given);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->given);
    pthread_cond_destroy(&h->idle);
    pthread_mutex_destroy(&h->lock);
    free(h);
}

void helper_give(struct helper *h, struct job *j, enum helper_when when)
{
    j->next = NULL;
    pthread_mutex_lock(&h->lock);
    *h->queue[when].last = j;
    h->queue[when].last = &j->next;
    pthread_cond_signal(&h->given);
    pthread_mutex_unlock(&h->lock);
}

void helper_settle(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->queue[HELPER_NOW].first || h->busy)
        pthread_cond_wait(&h->idle, &h->lock);
    pthread_mutex_unlock(&h->lock);
}
