/* The hub's own step of the ladder: config.json and, beside it, what the API says. */
#include "server/hub/inside.h"

#include "server/hub/name.h"

#include <stdio.h>
#include <string.h>

static void step(struct flight *f);

/* --- facts beside the config --------------------------------------------------------------------------------------------------------------- */

static void on_facts(void *arg, struct reply *r)
{
    struct flight *f = arg;
    struct hub *h = f->loop->hub;

    f->facts_transfer = NULL;
    pthread_mutex_lock(&h->lock);
    if (!f->is_callers)
        limit_end(&h->limits, BUCKET_API, r, clock_ms());
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
        wait_s = limit_wait_s(&h->limits, b, clock_ms());
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
        limit_end(&h->limits, b, &nothing, clock_ms());
    pthread_mutex_unlock(&h->lock);
}

/* The quota of a transfer that is called off was used all the same; what it would have said of it is not known. */
static void call_off(struct flight *f, struct transfer **x, enum bucket b)
{
    if (!*x)
        return;
    transfer_cancel(*x);
    *x = NULL;
    withdraw(f, b);
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
    if (f->file[0])
        return false;
    if (f->verdict == VERDICT_CONFIG_ABSENT && !f->asked_about) {
        call_off(f, &f->facts_transfer, BUCKET_API);
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
    struct snapshot_facts facts = {.source = "hub", .checked_s = hub_wall_s(), .counted = facts_fit(f)};

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

void fetch_conclude(struct flight *f)
{
    struct snapshot_facts facts;

    f->due_ms = 0;
    call_off(f, &f->facts_transfer, BUCKET_API);
    if (f->verdict != VERDICT_OK && f->verdict != VERDICT_UNCHANGED) {
        flight_fall_back(f, f->verdict, f->why);
        return;
    }
    facts = facts_of(f);
    if (f->verdict == VERDICT_UNCHANGED)
        f->fetched = snapshot_with(known(f), &facts);
    else
        f->fetched = snapshot_new(f->config.body ? f->config.body : "", f->config.bytes, &facts);
    reply_release(&f->config);
    if (f->fetched)
        flight_check(f);
    else
        flight_fall_back(f, VERDICT_NO_MEMORY, "no memory for its text");
}

void fetch_end(struct flight *f)
{
    call_off(f, &f->config_transfer, BUCKET_RESOLVERS);
    call_off(f, &f->facts_transfer, BUCKET_API);
    reply_release(&f->config);
    f->has_config = f->has_facts = f->asked_facts = f->asked_pinned = f->asked_about = false;
    f->due_ms = 0;
    f->about[0] = 0;
}

/* Something came in. */
static void step(struct flight *f)
{
    if (!f->has_config)
        return;
    if (!more_facts(f))
        fetch_conclude(f);
    else if (!f->due_ms)
        f->due_ms = clock_ms() + GRACE_MS;
}

/* What a failure says about the hub itself, for all who come after. */
static void learn(struct flight *f, const struct reply *r)
{
    struct hub *h = f->loop->hub;
    uint64_t now = clock_ms();

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

static bool is_down(struct flight *f)
{
    struct hub *h = f->loop->hub;
    bool down;

    pthread_mutex_lock(&h->lock);
    down = limit_down_s(&h->limits, clock_ms()) > 0;
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
    if (url_of_file(f->loop->hub->o.endpoint, f->model, f->revision, flight_file(f), url, sizeof url))
        f->config_transfer = start(f, BUCKET_RESOLVERS, &rq, on_config);
    return f->config_transfer;
}

void fetch_begin(struct flight *f)
{
    const struct snapshot *s = known(f);

    f->stage = STAGE_TRANSFER;
    if (is_down(f)) {
        flight_fall_back(f, VERDICT_UNREACHABLE, f->why);
        return;
    }
    if (!ask_config(f)) {
        flight_fall_back(f, f->retry_after_s ? VERDICT_LIMITED : VERDICT_NO_MEMORY, "no memory for a request");
        return;
    }
    if (!f->file[0] && (!s || !s->facts.counted)) /* beside it, so that both take no longer than one */
        f->asked_facts = ask_facts(f, f->revision, FACTS_QUERY, FACTS_BYTES_MAX);
}
