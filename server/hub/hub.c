#include "server/hub/hub.h"

#include "api/request/request.h"
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
    const char **texts[] = {&to->endpoint, &to->token, &to->cache_dir, &to->models, &to->hf_cache, &to->ca, &to->origin};
    bool ok = true;

    *to = *from;
    to->owned = NULL;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ok = (!*texts[i] || copy(texts[i])) && ok;
    return ok;
}

static void free_options(struct hub_options *o)
{
    const char *texts[] = {o->endpoint, o->token, o->cache_dir, o->models, o->hf_cache, o->ca, o->origin};

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

    if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
        seed = clock_ms();
    (void)snprintf(h->user_agent, sizeof h->user_agent, "llmemd/" LLMEMD_VERSION "%s%.200s", h->o.origin ? "; origin/" : "",
                   h->o.origin ? h->o.origin : "");
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

static void take_token(struct hub *h, const char *token)
{
    const char *old = h->o.token, *fresh = token && !token_fault(token) ? strdup(token) : NULL;

    if (token && !fresh)
        fprintf(stderr, "llmemd: the hub token cannot be used: the one before stays\n");
    if (token && !fresh)
        return;
    h->o.token = fresh;
    if (old)
        explicit_bzero((char *)(uintptr_t)old, strlen(old));
    free((char *)(uintptr_t)old);
}

void hub_reload(struct hub *h)
{
    struct hub_options now;
    bool read = hub_options_read(&now);

    pthread_mutex_lock(&h->lock);
    if (read)
        take_token(h, now.token);
    h->token_told_ms = 0;
    h->reloaded_s = h->o.offline ? 0 : hub_wall_s();
    cache_expire(h->cache);
    pthread_mutex_unlock(&h->lock);
    if (read)
        hub_options_release(&now);
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
    uint64_t *by_tier = !strcmp(c->tier, "memory")      ? &n->memory
                        : !strcmp(c->tier, "directory") ? &n->directory
                        : !strcmp(c->tier, "disk")      ? &n->disk
                        : !strcmp(c->tier, "hf_cache")  ? &n->hf_cache
                        : !strcmp(c->tier, "builtin")   ? &n->builtin
                                                        : &n->hub;

    ++*(c->text ? by_tier : &n->failed);
}

/* --- asks ------------------------------------------------------------------------------------------------------------------------------ */

void flight_settle(struct flight *f, const struct view *v, uint64_t keep_ms)
{
    struct hub *h = f->loop->hub;
    struct view later = *v;
    const struct hub_config *now = config_new(v), *kept;

    later.tier = "memory";
    kept = config_new(&later);
    pthread_mutex_lock(&h->lock);
    for (struct waiter *w = cache_settle(h->cache, f->pending, config_is_made(kept) && keep_ms ? kept : NULL, keep_ms, clock_ms()), *next;
         w; w = next) {
        next = w->next;
        loop_ready((struct ask *)w, now);
        count_answer(&h->counts, now);
    }
    pthread_mutex_unlock(&h->lock);
    hub_give_back(now);
    hub_give_back(kept);
    loop_unlink(f);
    flight_free(f);
}

static const struct hub_config *refuse(const struct hub_request *rq, enum err_code code, const char *at, const char *what,
                                       const char *fault)
{
    struct err err = {0};
    struct view v = {.model = rq->model, .revision = rq->revision, .tier = "hub", .err = &err};

    (void)err_set(&err, code, at, "%s %s", what, fault);
    return config_new(&v);
}

/* A name that could not be on the hub is never asked for. NULL: all is well. */
static const struct hub_config *check(const struct hub_request *rq)
{
    const char *fault = model_id_fault(rq->model);

    if (fault)
        return refuse(rq, ERR_FIELD_VALUE, "/model", "an id", fault);
    fault = revision_fault(rq->revision);
    if (fault)
        return refuse(rq, ERR_FIELD_VALUE, "/revision", "a revision", fault);
    fault = rq->file ? code_file_fault(rq->file) : NULL;
    if (fault)
        return refuse(rq, ERR_FIELD_VALUE, "/model", "a file of code", fault);
    fault = rq->token ? token_fault(rq->token) : NULL;
    return fault ? refuse(rq, ERR_HUB_TOKEN, "", "a token", fault) : NULL;
}

/* Who may share an answer: callers with the token that opened it, or all without one. */
static void key_of(const struct hub *h, const struct hub_request *rq, char ret[KEY_BYTES])
{
    const char *token = rq->token ? rq->token : h->o.share_token ? h->o.token : NULL;
    char who[SHA256_HEX] = "-";

    if (token)
        sha256_hex(token, strlen(token), who);
    (void)snprintf(ret, KEY_BYTES, "%s\n%s\n%s%s%s", rq->model, rq->revision, rq->is_owners ? "the owner's" : who, rq->file ? " " : "",
                   rq->file ? rq->file : "");
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
static bool find_or_wait(struct hub_loop *l, const struct hub_request *rq, struct ask *a, const struct hub_config **ret,
                         struct flight **ret_lead)
{
    struct hub *h = l->hub;
    struct pending *p = NULL;
    enum cache_found found;
    char key[KEY_BYTES];

    *ret_lead = NULL;
    pthread_mutex_lock(&h->lock);
    key_of(h, rq, key);
    found = cache_ask(h->cache, key, clock_ms(), &a->waiter, ret, &p);
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
        *ret = refuse(rq, ERR_OVERLOADED, "", "the hub's client", "found no memory");
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

bool hub_has(struct hub_loop *l, const struct hub_request *rq)
{
    struct hub *h = l->hub;
    char key[KEY_BYTES];
    bool has;

    pthread_mutex_lock(&h->lock);
    key_of(h, rq, key);
    has = cache_has(h->cache, key, clock_ms());
    pthread_mutex_unlock(&h->lock);
    return has;
}
