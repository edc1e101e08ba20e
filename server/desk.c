#include "server/exchange.h"

#include "server/batch.h"

#include <stdlib.h>
#include <unistd.h>

enum { SPARES_MAX = 256 }; /* exchanges that are kept for the next requests */

/* --- exchanges that are not in use ------------------------------------------------------------------------------------------------- */

struct exchange *desk_take(struct desk *d)
{
    struct exchange *x = d->spare;

    if (!x)
        return malloc(sizeof *x);
    d->spare = x->next;
    d->spares--;
    return x;
}

void desk_give(struct desk *d, struct exchange *x)
{
    if (d->spares == SPARES_MAX) {
        free(x);
        return;
    }
    x->next = d->spare;
    d->spare = x;
    d->spares++;
}

/* --- who waits, and who is ready ---------------------------------------------------------------------------------------------------- */

static void link_list(struct exchange **list, struct exchange *x)
{
    x->at = list;
    x->next = *list;
    if (x->next)
        x->next->at = &x->next;
    *list = x;
}

void desk_forget(struct exchange *x)
{
    if (!x->at)
        return;
    *x->at = x->next;
    if (x->next)
        x->next->at = x->at;
    x->at = NULL;
}

void desk_wait(struct exchange *x)
{
    link_list(&x->desk->waiting, x);
}

void exchange_ready(struct exchange *x)
{
    x->is_answered = true;
    desk_forget(x);
    link_list(&x->desk->ready, x);
}

/* --- what workers do ---------------------------------------------------------------------------------------------------------------- */

struct task *task_of(struct job *job)
{
    return (struct task *)(void *)((char *)job - offsetof(struct task, job));
}

/* On the worker. Under the lock, so that the desk is not gone before it was woken. */
static void give_back(struct job *job)
{
    struct task *t = task_of(job);
    struct desk *d = t->x->desk;

    pthread_mutex_lock(&d->lock);
    t->next_finished = d->finished;
    d->finished = t;
    hub_loop_wake(d->hub);
    pthread_mutex_unlock(&d->lock);
}

bool desk_push(struct task *t)
{
    struct desk *d = t->x->desk;

    t->job.done = give_back;
    exchange_hold(t->x);
    d->jobs++;
    if (workers_push(d->service->workers, &t->job))
        return true;
    d->jobs--;
    exchange_let_go(t->x);
    return false;
}

static struct task *take_finished(struct desk *d)
{
    struct task *list;

    if (!d->jobs)
        return NULL;
    pthread_mutex_lock(&d->lock);
    list = d->finished;
    d->finished = NULL;
    pthread_mutex_unlock(&d->lock);
    return list;
}

struct exchange *desk_turn(struct desk *d)
{
    struct exchange *ready;

    hub_loop_turn(d->hub);
    for (struct task *t = take_finished(d), *next; t; t = next) {
        struct exchange *x = t->x; /* the task may go on to another worker at once */

        next = t->next_finished;
        d->jobs--;
        t->finished(t);
        exchange_let_go(x);
    }
    ready = d->ready;
    d->ready = NULL;
    for (struct exchange *x = ready; x; x = x->next)
        x->at = NULL; /* of no list that is kept */
    return ready;
}

void desk_drop(struct exchange *x)
{
    if (x->is_streaming) {
        batch_refuse(x, ERR_CANCELLED, "the caller is gone");
        return;
    }
    atomic_store(&x->is_dropped, true);
    (void)exchange_refuse(x, ERR_CANCELLED, 0, "the caller is gone");
    exchange_ready(x);
}

void desk_refuse(struct desk *d, uint64_t began_us, enum err_code code, const char *detail)
{
    for (struct exchange *x = d->waiting, *next; x; x = next) {
        next = x->next;
        if (x->is_streaming && began_us == UINT64_MAX)
            batch_refuse(x, code, detail);
        else if (x->is_streaming)
            batch_expire(x);
        if (x->is_streaming || x->began_us > began_us)
            continue;
        atomic_store(&x->is_dropped, true);
        metrics_refused(d->service->metrics, code == ERR_DRAINING ? REFUSED_DRAINING : REFUSED_DEADLINE);
        (void)exchange_refuse(x, code, 1, "%s", detail);
        exchange_ready(x);
    }
}

/* --- life ------------------------------------------------------------------------------------------------------------------------ */

bool desk_open(struct desk *d, struct service *s)
{
    d->service = s;
    d->hub = hub_loop_new(s->hub);
    d->scratch = malloc(API_CHEAP_BYTES);
    pthread_mutex_init(&d->lock, NULL);
    return d->hub && d->scratch && getentropy(&d->ids, sizeof d->ids) == 0;
}

void desk_close(struct desk *d)
{
    if (d->hub)
        hub_loop_free(d->hub);
    free(d->scratch);
    for (struct exchange *x = d->spare, *next; x; x = next) {
        next = x->next;
        free(x);
    }
    pthread_mutex_destroy(&d->lock);
}
