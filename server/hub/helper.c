#include "server/hub/helper.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct helper {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t given, idle;
    struct job *first, **last;
    bool busy, stop;
};

static struct job *take(struct helper *h)
{
    struct job *j = h->first;

    h->first = j->next;
    if (!h->first)
        h->last = &h->first;
    return j;
}

static void *work(void *arg)
{
    struct helper *h = arg;

    pthread_mutex_lock(&h->lock);
    while (h->first || !h->stop) {
        struct job *j;

        if (!h->first) {
            h->busy = false;
            pthread_cond_broadcast(&h->idle);
            pthread_cond_wait(&h->given, &h->lock);
            continue;
        }
        h->busy = true;
        j = take(h);
        pthread_mutex_unlock(&h->lock);
        j->run(j);
        pthread_mutex_lock(&h->lock);
    }
    h->busy = false;
    pthread_cond_broadcast(&h->idle);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* Signals are for the threads that expect them. */
static bool begin(struct helper *h)
{
    sigset_t all, before;
    bool ok;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ok = !pthread_create(&h->thread, NULL, work, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

struct helper *helper_new(void)
{
    struct helper *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->last = &h->first;
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->given, NULL);
    pthread_cond_init(&h->idle, NULL);
    if (begin(h))
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

void helper_give(struct helper *h, struct job *j)
{
    j->next = NULL;
    pthread_mutex_lock(&h->lock);
    *h->last = j;
    h->last = &j->next;
    h->busy = true;
    pthread_cond_signal(&h->given);
    pthread_mutex_unlock(&h->lock);
}

void helper_settle(struct helper *h)
{
    pthread_mutex_lock(&h->lock);
    while (h->first || h->busy)
        pthread_cond_wait(&h->idle, &h->lock);
    pthread_mutex_unlock(&h->lock);
}
