/* One key on its way down the ladder: disk and huggingface_hub's cache, the hub, what stands in for it. */
#include "server/hub/inside.h"

#include "server/hub/hf_cache.h"
#include "server/hub/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void step(struct flight *f);

uint64_t hub_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int64_t wall_s(void)
{
    return (int64_t)time(NULL);
}

static void let_go(struct snapshot **s)
{
    snapshot_release(*s);
    *s = NULL;
}

/* --- the helper's part ------------------------------------------------------------------------------------------------------------------ */

static void read_disks(struct job *j)
{
    struct flight *f = (struct flight *)j;
    const struct hub *h = f->loop->hub;
    struct snapshot *s = h->disk ? disk_read(h->disk, f->key) : NULL;

    /* Another process may have written a newer one than we remember. */
    if (s && (!f->mine || s->facts.checked_s > f->mine->facts.checked_s)) {
        snapshot_release(f->mine);
        f->mine = s;
        f->mine_tier = "disk";
    } else {
        snapshot_release(s);
    }
    if (h->o.hf_cache && !f->theirs)
        f->theirs = hf_cache_read(h->o.hf_cache, f->model, f->revision, &f->absent);
    f->stage = STAGE_READ;
    loop_post(f->loop, f);
}

static void check_text(struct job *j)
{
    struct flight *f = (struct flight *)j;

    if (!snapshot_check(f->fetched->text, f->fetched->bytes, f->why, sizeof f->why))
        let_go(&f->fetched);
    f->stage = STAGE_CHECKED;
    loop_post(f->loop, f);
}

struct writing {
    struct job job; /* first */
    struct hub *hub;
    struct snapshot *snapshot;
    char key[KEY_BYTES];
};

static void write_disk(struct job *j)
{
    struct writing *w = (struct writing *)j;

    (void)disk_write(w->hub->disk, w->key, w->snapshot);
    snapshot_release(w->snapshot);
    free(w);
}

/* Without memory nothing is kept: the next start asks again. */
static void keep_on_disk(struct hub *h, const char *key, struct snapshot *s)
{
    struct writing *w = h->disk && strcmp(s->facts.source, "hub") == 0 ? malloc(sizeof *w) : NULL;

    if (!w)
        return;
    *w = (struct writing){.job.run = write_disk, .hub = h, .snapshot = snapshot_hold(s)};
    memcpy(w->key, key, sizeof w->key);
    helper_give(h->helper, &w->job);
}

/* --- answers ------------------------------------------------------------------------------------------------------------------------------ */

static uint64_t fresh_ms(const struct flight *f)
{
    return is_commit(f->revision) ? CACHE_FOREVER : (uint64_t)f->loop->hub->o.fresh_s * 1000;
}

static void settle_with(struct flight *f, struct snapshot *s, const char *tier, uint64_t keep_ms)
{
    struct view v = {.model = f->model, .revision = f->revision, .tier = tier, .snapshot = s};

    flight_settle(f, &v, keep_ms);
}

/* Once a minute, for the owner: nobody else can mend it. */
static void tell_owner(struct flight *f)
{
    struct hub *h = f->loop->hub;
    uint64_t now = hub_now_ms();
    bool tell;

    pthread_mutex_lock(&h->lock);
    tell = !h->token_told_ms || now - h->token_told_ms > 60000;
    if (tell)
        h->token_told_ms = now;
    pthread_mutex_unlock(&h->lock);
    if (tell)
        fprintf(stderr, "llmemd: the hub does not accept the server's token\n");
}

static void fall_back(struct flight *f)
{
    struct fallback b;
    bool found;

    if (f->verdict == VERDICT_TOKEN_REFUSED && !f->is_callers)
        tell_owner(f);
    found = fallback_find(f, &b);
    if (!found && f->verdict == VERDICT_FAILED && f->attempt == 1) {
        f->stage = STAGE_AGAIN;
        f->due_ms = hub_now_ms() + AGAIN_MS;
        return;
    }
    flight_settle(f, &b.view, b.keep_ms);
    snapshot_release(b.view.snapshot);
}

/* --- facts beside the config --------------------------------------------------------------------------------------------------------------- */

static void on_facts(void *arg, struct reply *r)
{
    struct flight *f = arg;
    struct hub *h = f->loop->hub;

    f->facts_transfer = NULL;
    pthread_mutex_lock(&h->lock);
    if (!f->is_callers)
        limit_end(&h->limits, BUCKET_API, r, hub_now_ms());
    h->counts.transfer_errors += r->fault != FAULT_NONE || r->status >= 500;
    pthread_mutex_unlock(&h->lock);
    if (r->fault == FAULT_NONE && r->status == 200 && f->asked_about)
        facts_about(r->body, r->bytes, f->about, sizeof f->about);
    else if (r->fault == FAULT_NONE && r->status == 200)
        f->has_facts = facts_read(r->body, r->bytes, &f->facts);
    reply_release(r);
    step(f);
}

/* Asks for the quota of its bucket, but for a caller's own token: that quota is his. */
static bool admit(struct flight *f, enum bucket b)
{
    struct hub *h = f->loop->hub;
    unsigned wait_s = 0;

    pthread_mutex_lock(&h->lock);
    if (!f->is_callers) {
        wait_s = limit_wait_s(&h->limits, b, hub_now_ms());
        if (!wait_s)
            limit_begin(&h->limits, b);
    }
    h->counts.transfers += !wait_s;
    pthread_mutex_unlock(&h->lock);
    f->retry_after_s = wait_s;
    return !wait_s;
}

static void withdraw(struct flight *f, enum bucket b)
{
    struct hub *h = f->loop->hub;
    struct reply nothing;

    reply_init(&nothing);
    pthread_mutex_lock(&h->lock);
    if (!f->is_callers)
        limit_end(&h->limits, b, &nothing, hub_now_ms());
    pthread_mutex_unlock(&h->lock);
}

static struct transfer *start(struct flight *f, enum bucket b, const struct transfer_request *rq, transfer_done *done)
{
    struct transfer *x;

    if (!admit(f, b))
        return NULL;
    x = transfer_start(f->loop->transfers, rq, done, f);
    if (!x)
        withdraw(f, b);
    return x;
}

static bool ask_facts(struct flight *f, const char *revision, const char *query, size_t max_bytes)
{
    char url[2048];
    struct transfer_request rq = {.url = url, .token = f->has_token ? f->token : NULL, .max_bytes = max_bytes};

    if (url_of_facts(f->loop->hub->o.endpoint, f->model, revision, query, url, sizeof url))
        f->facts_transfer = start(f, BUCKET_API, &rq, on_facts);
    return f->facts_transfer;
}

static const struct snapshot *known(const struct flight *f)
{
    return f->mine ? f->mine : f->theirs;
}

/* The parameters of a commit that was counted before need not be asked for again. */
static bool counted_before(const struct flight *f)
{
    const struct snapshot *s = known(f);

    return s && s->facts.counted && !strcmp(s->facts.commit, f->config.commit);
}

static bool facts_fit(const struct flight *f)
{
    return f->has_facts && (f->asked_pinned || !strcmp(f->facts.sha, f->config.commit));
}

/* true: an answer of the API is under way that is worth waiting for. A branch may move between two requests: then once more, pinned. */
static bool more_facts(struct flight *f)
{
    if (f->verdict == VERDICT_CONFIG_ABSENT && !f->asked_about) {
        if (f->facts_transfer) {
            transfer_cancel(f->facts_transfer);
            f->facts_transfer = NULL;
            withdraw(f, BUCKET_API);
        }
        f->asked_about = true;
        return ask_facts(f, f->revision, ABOUT_QUERY, ABOUT_BYTES_MAX);
    }
    if (f->facts_transfer)
        return f->verdict == VERDICT_OK || f->verdict == VERDICT_UNCHANGED || f->verdict == VERDICT_GATED || f->asked_about;
    if ((f->verdict != VERDICT_OK && f->verdict != VERDICT_UNCHANGED) || counted_before(f) || facts_fit(f) || f->asked_pinned ||
        (f->asked_facts && !f->has_facts))
        return false;
    f->asked_pinned = true;
    return ask_facts(f, f->config.commit, FACTS_QUERY, FACTS_BYTES_MAX);
}

/* --- the hub ---------------------------------------------------------------------------------------------------------------------------------- */

static struct snapshot_facts facts_of(const struct flight *f)
{
    const struct snapshot *s = known(f);
    struct snapshot_facts facts = {.source = "hub", .checked_s = wall_s(), .counted = facts_fit(f)};

    if (f->verdict == VERDICT_UNCHANGED) {
        facts.source = s->facts.source;
        memcpy(facts.etag, s->facts.etag, sizeof facts.etag);
    } else {
        memcpy(facts.etag, f->config.etag, sizeof facts.etag);
    }
    memcpy(facts.commit, f->config.commit, sizeof facts.commit);
    facts.parameters = facts.counted ? f->facts.parameters : 0;
    facts.is_private = f->has_token && !(facts.counted && f->facts.is_open);
    if (!facts.counted && counted_before(f)) {
        facts.counted = true;
        facts.parameters = s->facts.parameters;
        facts.is_private = s->facts.is_private;
    }
    return facts;
}

static void no_memory(struct flight *f)
{
    f->verdict = VERDICT_USELESS;
    (void)snprintf(f->why, sizeof f->why, "no memory for its config.json");
    fall_back(f);
}

static void conclude(struct flight *f)
{
    struct snapshot_facts facts;

    f->due_ms = 0;
    if (f->facts_transfer) {
        transfer_cancel(f->facts_transfer);
        f->facts_transfer = NULL;
        withdraw(f, BUCKET_API);
    }
    if (f->verdict != VERDICT_OK && f->verdict != VERDICT_UNCHANGED) {
        fall_back(f);
        return;
    }
    facts = facts_of(f);
    if (f->verdict == VERDICT_UNCHANGED)
        f->fetched = snapshot_with(known(f), &facts);
    else
        f->fetched = snapshot_new(f->config.body ? f->config.body : "", f->config.bytes, &facts);
    reply_release(&f->config);
    if (!f->fetched) {
        no_memory(f);
        return;
    }
    f->job.run = check_text;
    helper_give(f->loop->hub->helper, &f->job);
}

/* Something came in. */
static void step(struct flight *f)
{
    if (!f->has_config)
        return;
    if (!more_facts(f))
        conclude(f);
    else if (!f->due_ms)
        f->due_ms = hub_now_ms() + GRACE_MS;
}

/* What a failure says about the hub itself, for all who come after. */
static void learn(struct flight *f, const struct reply *r)
{
    struct hub *h = f->loop->hub;
    uint64_t now = hub_now_ms();

    pthread_mutex_lock(&h->lock);
    if (!f->is_callers)
        limit_end(&h->limits, BUCKET_RESOLVERS, r, now);
    if (f->verdict == VERDICT_UNREACHABLE)
        limit_down(&h->limits, f->why, h->o.down_s, now);
    h->counts.transfer_errors += r->fault != FAULT_NONE || r->status >= 500;
    h->counts.limited += f->verdict == VERDICT_LIMITED;
    pthread_mutex_unlock(&h->lock);
    if (f->verdict == VERDICT_LIMITED)
        f->retry_after_s = limit_asked_s(r);
}

static void on_config(void *arg, struct reply *r)
{
    struct flight *f = arg;

    f->config_transfer = NULL;
    f->config = *r;
    f->has_config = true;
    f->verdict = reply_verdict(r, f->has_token, f->why, sizeof f->why);
    learn(f, r);
    step(f);
}

static void give_up(struct flight *f, enum verdict v, const char *why)
{
    f->verdict = v;
    if (why != f->why)
        (void)snprintf(f->why, sizeof f->why, "%s", why);
    fall_back(f);
}

static bool is_down(struct flight *f)
{
    struct hub *h = f->loop->hub;
    bool down;

    pthread_mutex_lock(&h->lock);
    down = limit_down_s(&h->limits, hub_now_ms()) > 0;
    if (down)
        (void)snprintf(f->why, sizeof f->why, "%s", h->limits.down_why);
    pthread_mutex_unlock(&h->lock);
    return down;
}

static bool ask_config(struct flight *f)
{
    const struct snapshot *s = known(f);
    char url[2048];
    struct transfer_request rq = {.url = url, .token = f->has_token ? f->token : NULL, .max_bytes = CONFIG_BYTES_MAX};

    if (s && s->facts.etag[0])
        rq.etag = s->facts.etag;
    if (s && s->facts.commit[0])
        rq.known_commit = s->facts.commit;
    if (url_of_config(f->loop->hub->o.endpoint, f->model, f->revision, url, sizeof url))
        f->config_transfer = start(f, BUCKET_RESOLVERS, &rq, on_config);
    return f->config_transfer;
}

static void ask_hub(struct flight *f)
{
    const struct snapshot *s = known(f);

    f->attempt++;
    f->stage = STAGE_TRANSFER;
    if (is_down(f)) {
        give_up(f, VERDICT_UNREACHABLE, f->why);
        return;
    }
    if (!ask_config(f)) {
        give_up(f, f->retry_after_s ? VERDICT_LIMITED : VERDICT_USELESS, "no memory for a request");
        return;
    }
    if (!s || !s->facts.counted) /* beside it, so that both take no longer than one */
        f->asked_facts = ask_facts(f, f->revision, FACTS_QUERY, FACTS_BYTES_MAX);
}

/* --- the ladder -------------------------------------------------------------------------------------------------------------------------------- */

static uint64_t still_fresh_ms(const struct flight *f)
{
    int64_t age_s = f->mine ? wall_s() - f->mine->facts.checked_s : -1, fresh_s = f->loop->hub->o.fresh_s;

    if (f->mine && is_commit(f->revision))
        return CACHE_FOREVER;
    return age_s >= 0 && age_s < fresh_s ? (uint64_t)(fresh_s - age_s) * 1000 : 0; /* written in the future: a clock is wrong */
}

static void after_read(struct flight *f)
{
    uint64_t fresh = still_fresh_ms(f);

    if (fresh) {
        settle_with(f, f->mine, f->mine_tier, fresh);
    } else if (f->theirs && is_commit(f->revision)) {
        settle_with(f, f->theirs, "hf_cache", CACHE_FOREVER);
    } else if (f->absent && (is_commit(f->revision) || f->loop->hub->o.offline)) {
        give_up(f, VERDICT_CONFIG_ABSENT, "");
    } else if (f->loop->hub->o.offline) {
        give_up(f, VERDICT_OFFLINE, "");
    } else {
        ask_hub(f);
    }
}

static void after_check(struct flight *f)
{
    struct snapshot *s = f->fetched;

    if (!s) {
        give_up(f, VERDICT_USELESS, f->why);
        return;
    }
    keep_on_disk(f->loop->hub, f->key, s);
    settle_with(f, s, "hub", fresh_ms(f));
}

void flight_advance(struct flight *f)
{
    if (f->stage == STAGE_READ)
        after_read(f);
    else
        after_check(f);
}

static void forget_transfers(struct flight *f)
{
    reply_release(&f->config);
    f->has_config = f->has_facts = f->asked_facts = f->asked_pinned = f->asked_about = false;
    f->due_ms = 0;
    f->about[0] = 0;
}

void flight_tick(struct flight *f, uint64_t now_ms)
{
    if (!f->due_ms || now_ms < f->due_ms)
        return;
    if (f->stage == STAGE_AGAIN) {
        forget_transfers(f);
        ask_hub(f);
    } else {
        conclude(f);
    }
}

/* --- life ----------------------------------------------------------------------------------------------------------------------------------------- */

struct flight *flight_new(struct hub_loop *l, const struct hub_request *rq, const char *key)
{
    const struct hub_options *o = &l->hub->o;
    const char *token = rq->token ? rq->token : o->share_token ? o->token : NULL;
    struct flight *f = calloc(1, sizeof *f);

    if (!f)
        return NULL;
    f->loop = l;
    (void)snprintf(f->key, sizeof f->key, "%s", key);
    (void)snprintf(f->model, sizeof f->model, "%s", rq->model);
    (void)snprintf(f->revision, sizeof f->revision, "%s", rq->revision);
    (void)snprintf(f->token, sizeof f->token, "%s", token ? token : "");
    f->has_token = token;
    f->is_callers = rq->token;
    reply_init(&f->config);
    return f;
}

void flight_begin(struct flight *f)
{
    const struct hub *h = f->loop->hub;

    f->stage = STAGE_READ;
    f->job.run = read_disks;
    if (h->disk || h->o.hf_cache)
        helper_give(h->helper, &f->job);
    else
        loop_post(f->loop, f);
}

void flight_abandon(struct flight *f)
{
    if (f->config_transfer) {
        transfer_cancel(f->config_transfer);
        withdraw(f, BUCKET_RESOLVERS);
    }
    if (f->facts_transfer) {
        transfer_cancel(f->facts_transfer);
        withdraw(f, BUCKET_API);
    }
    f->config_transfer = f->facts_transfer = NULL;
    forget_transfers(f);
    let_go(&f->fetched);
    f->attempt = 0;
}

void flight_free(struct flight *f)
{
    flight_abandon(f);
    let_go(&f->mine);
    let_go(&f->theirs);
    explicit_bzero(f->token, sizeof f->token);
    free(f);
}
