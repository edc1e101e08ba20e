#include "server/hub/hub.h"

#include "api/request.h"
#include "server/hub/inside.h"
#include "server/hub/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#ifndef LLMEMD_VERSION
#define LLMEMD_VERSION "0"
#endif

/* --- the hub ------------------------------------------------------------------------------------------------------------------------- */

static bool copy(const char **text)
{
    *text = *text ? strdup(*text) : NULL;
    return *text;
}

/* Every text becomes ours, or none is there. */
static bool copy_options(struct hub_options *to, const struct hub_options *from)
{
    const char **texts[] = {&to->endpoint, &to->token, &to->cache_dir, &to->hf_cache, &to->ca, &to->origin};
    bool ok = true;

    *to = *from;
    to->owned = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ok = (!*texts[i] || copy(texts[i])) && ok;
    return ok;
}

static void free_options(struct hub_options *o)
{
    const char *texts[] = {o->endpoint, o->token, o->cache_dir, o->hf_cache, o->ca, o->origin};

    if (o->token)
        explicit_bzero((char *)(uintptr_t)o->token, strlen(o->token));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        free((char *)(uintptr_t)texts[i]);
}

static bool options_good(const struct hub_options *o)
{
    const char *fault = o->endpoint ? transfer_endpoint_fault(o->endpoint) : "missing";

    if (fault)
        fprintf(stderr, "llmemd: HF_ENDPOINT: %s\n", fault);
    if (!fault && o->token && token_fault(o->token))
        fprintf(stderr, "llmemd: the hub token %s\n", fault = token_fault(o->token));
    return !fault;
}

static bool build(struct hub *h)
{
    uint64_t seed = 0;

    (void)getrandom(&seed, sizeof seed, 0);
    (void)snprintf(h->user_agent, sizeof h->user_agent, "llmemd/" LLMEMD_VERSION "%s%.200s", h->o.origin ? "; " : "", h->o.origin ? h->o.origin : "");
    h->cache = cache_new(ENTRIES_MAX, MEMORY_MAX, seed);
    h->helper = helper_new();
    if (!h->cache || !h->helper) {
        fprintf(stderr, "llmemd: no memory or thread for the hub's client\n");
        return false;
    }
    h->disk = h->o.cache_dir ? disk_new(h->o.cache_dir) : NULL;
    return true;
}

struct hub *hub_new(const struct hub_options *o)
{
    struct hub *h;

    if (!transfer_library_open()) {
        fprintf(stderr, "llmemd: libcurl does not start\n");
        return NULL;
    }
    h = calloc(1, sizeof *h);
    if (!h) {
        transfer_library_close();
        return NULL;
    }
    pthread_mutex_init(&h->lock, NULL);
    if (copy_options(&h->o, o) && options_good(&h->o) && build(h))
        return h;
    hub_free(h);
    return NULL;
}

void hub_free(struct hub *h)
{
    if (!h)
        return;
    helper_free(h->helper);
    disk_free(h->disk);
    cache_free(h->cache);
    free_options(&h->o);
    pthread_mutex_destroy(&h->lock);
    free(h);
    transfer_library_close();
}

void hub_counts_read(struct hub *h, struct hub_counts *ret)
{
    pthread_mutex_lock(&h->lock);
    *ret = h->counts;
    pthread_mutex_unlock(&h->lock);
}

/* With the lock. */
static void count_answer(struct hub_counts *n, const struct hub_config *c)
{
    uint64_t *by_tier = !strcmp(c->tier, "memory")     ? &n->memory
                        : !strcmp(c->tier, "disk")     ? &n->disk
                        : !strcmp(c->tier, "hf_cache") ? &n->hf_cache
                        : !strcmp(c->tier, "builtin")  ? &n->builtin
                                                       : &n->hub;

    ++*(c->text ? by_tier : &n->failed);
}

/* --- loops ---------------------------------------------------------------------------------------------------------------------------- */

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

static void loop_link(struct hub_loop *l, struct flight *f)
{
    f->loop = l;
    f->prev = NULL;
    f->next = l->flights;
    if (f->next)
        f->next->prev = f;
    l->flights = f;
}

static void loop_unlink(struct flight *f)
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
    uint64_t now = hub_now_ms();

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

    while ((f = inbox_take(l)))
        if (f->stage == STAGE_ADOPTED) {
            loop_link(l, f);
            flight_begin(f);
        } else {
            flight_advance(f);
        }
    transfers_turn(l->transfers);
    now = hub_now_ms();
    for (struct flight *at = l->flights, *next; at; at = next) {
        next = at->next;
        flight_tick(at, now);
    }
    call_back(l);
}

/* --- asks ------------------------------------------------------------------------------------------------------------------------------ */

/* With the lock: from a pending to the loops of those who waited in it. */
static void hand_out(struct hub *h, struct waiter *first, const struct hub_config *c, const struct hub_loop *own)
{
    for (struct waiter *w = first, *next; w; w = next) {
        struct ask *a = (struct ask *)w;

        next = w->next;
        a->config = config_hold(c);
        a->next = NULL;
        *a->loop->ready_last = a;
        a->loop->ready_last = &a->next;
        count_answer(&h->counts, c);
        if (a->loop != own)
            transfers_wake(a->loop->transfers);
    }
}

void flight_settle(struct flight *f, const struct view *v, uint64_t keep_ms)
{
    struct hub *h = f->loop->hub;
    struct view later = *v;
    const struct hub_config *now = config_new(v), *kept;

    later.tier = "memory";
    kept = config_new(&later);
    pthread_mutex_lock(&h->lock);
    hand_out(h, cache_settle(h->cache, f->pending, kept, keep_ms, hub_now_ms()), now, f->loop);
    pthread_mutex_unlock(&h->lock);
    hub_give_back(now);
    hub_give_back(kept);
    loop_unlink(f);
    flight_free(f);
}

static const struct hub_config *refuse(const struct hub_request *rq, enum err_code code, const char *at, const char *fault)
{
    struct err err = {0};
    struct view v = {.model = rq->model, .revision = rq->revision, .tier = "hub", .err = &err};

    (void)err_set(&err, code, at, "it %s", fault);
    return config_new(&v);
}

/* A name that could not be on the hub is never asked for. NULL: all is well. */
static const struct hub_config *check(const struct hub_request *rq)
{
    const char *fault = model_id_fault(rq->model);

    if (fault)
        return refuse(rq, ERR_FIELD_VALUE, "/model", fault);
    fault = revision_fault(rq->revision);
    if (fault)
        return refuse(rq, ERR_FIELD_VALUE, "/revision", fault);
    fault = rq->token ? token_fault(rq->token) : NULL;
    return fault ? refuse(rq, ERR_HUB_TOKEN, "", fault) : NULL;
}

/* Who may share an answer: callers with the token that opened it, or all without one. */
static void key_of(const struct hub *h, const struct hub_request *rq, char ret[KEY_BYTES])
{
    const char *token = rq->token ? rq->token : h->o.share_token ? h->o.token : NULL;
    char who[SHA256_HEX] = "-";

    if (token)
        sha256_hex(token, strlen(token), who);
    (void)snprintf(ret, KEY_BYTES, "%s\n%s\n%s", rq->model, rq->revision, who);
}

/* What is left of an entry that is no longer fresh may still be confirmed or shown. */
static void take_stale(struct flight *f, const struct hub_config *old)
{
    struct snapshot *s = old ? config_snapshot(old) : NULL;

    if (s && !strcmp(s->facts.source, "hub")) {
        f->mine = snapshot_hold(s);
        f->mine_tier = "memory";
    }
    hub_give_back(old);
}

/* With the lock: somebody has to look for it, and did not before. */
static struct flight *lead(struct hub_loop *l, const struct hub_request *rq, const char *key, struct pending *p)
{
    struct hub *h = l->hub;
    struct flight *f = flight_new(l, rq, key);

    if (!f) {
        (void)cache_settle(h->cache, p, NULL, 0, 0); /* nobody but the asker waits in it yet */
        return NULL;
    }
    take_stale(f, cache_stale(h->cache, key));
    f->pending = p;
    return f;
}

/* false: there is no memory to wait in. ret: what is at hand. */
static bool find_or_wait(struct hub_loop *l, const struct hub_request *rq, struct ask *a, const struct hub_config **ret, struct flight **ret_lead)
{
    struct hub *h = l->hub;
    struct pending *p = NULL;
    enum cache_found found;
    char key[KEY_BYTES];

    key_of(h, rq, key);
    *ret_lead = NULL;
    pthread_mutex_lock(&h->lock);
    found = cache_ask(h->cache, key, hub_now_ms(), &a->waiter, ret, &p);
    if (found == CACHE_HIT)
        count_answer(&h->counts, *ret);
    if (found == CACHE_LEADS) {
        *ret_lead = lead(l, rq, key, p);
        found = *ret_lead ? found : CACHE_NO_MEMORY;
    }
    pthread_mutex_unlock(&h->lock);
    return found != CACHE_NO_MEMORY;
}

bool hub_ask(struct hub_loop *l, const struct hub_request *rq, hub_done *done, void *arg, const struct hub_config **ret)
{
    struct flight *f = NULL;
    struct ask *a;

    *ret = check(rq);
    if (*ret)
        return true;
    a = malloc(sizeof *a);
    if (a)
        *a = (struct ask){.loop = l, .done = done, .arg = arg};
    if (!a || !find_or_wait(l, rq, a, ret, &f))
        *ret = refuse(rq, ERR_OVERLOADED, "", "found no memory");
    if (*ret) {
        free(a);
        return true;
    }
    l->open++;
    if (f) {
        loop_link(l, f);
        flight_begin(f);
    }
    return false;
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
