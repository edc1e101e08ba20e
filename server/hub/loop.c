#include "server/hub/inside.h"

#include <stdlib.h>

struct hub_loop *hub_loop_new(struct hub *h)
{
    struct hub_loop *l = calloc(1, sizeof *l);
    const struct transfer_options o = {
        .endpoint = h->o.endpoint, .user_agent = h->user_agent, .ca = h->o.ca, .connect_ms = h->o.connect_ms, .total_ms = h->o.total_ms};

    if (!l)
        return NULL;
    l->hub = h;
    l->inbox_last = &l->inbox;
    l->ready_last = &l->ready;
    l->transfers = transfers_new(&o);
    if (l->transfers)
        return l;
    free(l);
    return NULL;
}

/* With the lock. */
static void push(struct hub_loop *l, struct flight *f)
{
    f->next_in_inbox = NULL;
    *l->inbox_last = f;
    l->inbox_last = &f->next_in_inbox;
    transfers_wake(l->transfers);
}

void loop_post(struct hub_loop *l, struct flight *f)
{
    pthread_mutex_lock(&l->hub->lock);
    push(l, f);
    pthread_mutex_unlock(&l->hub->lock);
}

static struct flight *inbox_take(struct hub_loop *l)
{
    struct flight *f;

    pthread_mutex_lock(&l->hub->lock);
    f = l->inbox;
    if (f) {
        l->inbox = f->next_in_inbox;
        if (!l->inbox)
            l->inbox_last = &l->inbox;
    }
    pthread_mutex_unlock(&l->hub->lock);
    return f;
}

void loop_ready(struct ask *a, const struct hub_config *c)
{
    struct hub_loop *l = a->loop;

    a->config = config_hold(c);
    a->next = NULL;
    *l->ready_last = a;
    l->ready_last = &a->next;
    transfers_wake(l->transfers);
}

void loop_link(struct hub_loop *l, struct flight *f)
{
    f->loop = l;
    f->prev = NULL;
    f->next = l->flights;
    if (f->next)
        f->next->prev = f;
    l->flights = f;
}

void loop_unlink(struct flight *f)
{
    *(f->prev ? &f->prev->next : &f->loop->flights) = f->next;
    if (f->next)
        f->next->prev = f->prev;
}

void hub_loop_wake(struct hub_loop *l)
{
    transfers_wake(l->transfers);
}

unsigned hub_loop_open(const struct hub_loop *l)
{
    return l->open;
}

void hub_loop_wait(struct hub_loop *l, int fd, unsigned timeout_ms)
{
    uint64_t now = l->flights ? clock_ms() : 0;

    for (const struct flight *f = l->flights; f; f = f->next)
        if (f->due_ms && f->due_ms < now + timeout_ms)
            timeout_ms = f->due_ms > now ? (unsigned)(f->due_ms - now) : 0;
    transfers_wait(l->transfers, fd, timeout_ms);
}

static struct ask *ready_take(struct hub_loop *l)
{
    struct ask *a;

    pthread_mutex_lock(&l->hub->lock);
    a = l->ready;
    l->ready = NULL;
    l->ready_last = &l->ready;
    pthread_mutex_unlock(&l->hub->lock);
    return a;
}

/* A callback may ask again: what it begins is not waited for here. */
static void call_back(struct hub_loop *l)
{
    for (struct ask *a = ready_take(l), *next; a; a = next) {
        next = a->next;
        l->open--;
        a->done(a->arg, a->config);
        free(a);
    }
}

void hub_loop_turn(struct hub_loop *l)
{
    uint64_t now;
    struct flight *f;

    if (!transfers_have_news(l->transfers) && !l->flights)
        return;
    while ((f = inbox_take(l)))
        if (f->stage == STAGE_ADOPTED) {
            loop_link(l, f);
            flight_begin(f);
        } else {
            flight_advance(f);
        }
    transfers_turn(l->transfers);
    now = clock_ms();
    for (struct flight *at = l->flights, *next; at; at = next) {
        next = at->next;
        flight_tick(at, now);
    }
    call_back(l);
}

/* --- the end of a loop ------------------------------------------------------------------------------------------------------------------ */

struct leaving {
    struct hub_loop *loop;
    struct ask *asks;
};

/* With the lock: those who asked here wait no longer. */
static void leave(void *arg, struct pending *p)
{
    struct leaving *v = arg;
    struct waiter **at = &p->first;

    while (*at) {
        struct ask *a = (struct ask *)*at;

        if (a->loop != v->loop) {
            at = &a->waiter.next;
            continue;
        }
        *at = a->waiter.next;
        a->next = v->asks;
        v->asks = a;
    }
    p->last = at;
}

/* With the lock: the next who waits leads, from the first step; a flight that nobody waits for ends. */
static void hand_over(struct hub *h, struct flight *f)
{
    struct hub_loop *heir = f->pending->first ? ((struct ask *)f->pending->first)->loop : NULL;

    loop_unlink(f);
    if (!heir) {
        (void)cache_settle(h->cache, f->pending, NULL, 0, 0);
        flight_free(f);
        return;
    }
    f->loop = heir;
    f->stage = STAGE_ADOPTED;
    push(heir, f);
}

static struct ask *leave_all(struct hub_loop *l)
{
    struct leaving v = {.loop = l};
    struct hub *h = l->hub;

    for (struct flight *f = l->flights; f; f = f->next)
        flight_abandon(f);
    pthread_mutex_lock(&h->lock);
    cache_each_pending(h->cache, leave, &v);
    for (struct flight *f = l->inbox; f; f = f->next_in_inbox)
        if (f->stage == STAGE_ADOPTED)
            loop_link(l, f);
    while (l->flights)
        hand_over(h, l->flights);
    pthread_mutex_unlock(&h->lock);
    return v.asks;
}

static const struct hub_config *gone(void)
{
    struct err err = {0};
    struct view v = {.model = "", .revision = "", .tier = "hub", .err = &err};

    (void)err_set(&err, ERR_HUB_FAILED, "/model", "the service is going away");
    return config_new(&v);
}

void hub_loop_free(struct hub_loop *l)
{
    if (!l)
        return;
    helper_settle(l->hub->helper); /* its jobs of this loop are in the inbox now */
    for (struct ask *a = leave_all(l), *next; a; a = next) {
        next = a->next;
        l->open--;
        a->done(a->arg, gone());
        free(a);
    }
    call_back(l);
    transfers_free(l->transfers);
    free(l);
}
