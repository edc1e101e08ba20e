/* One key on its way down the ladder: disk and huggingface_hub's cache, the hub, what stands in for it. */
#include "server/hub/inside.h"

#include "catalog/renamed.h"

#include "server/hub/hf_cache.h"
#include "server/hub/models_dir.h"
#include "server/hub/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t hub_wall_s(void)
{
    return (int64_t)time(NULL);
}

static void let_go(struct snapshot **s)
{
    snapshot_release(*s);
    *s = NULL;
}

const char *flight_file(const struct flight *f)
{
    return f->file[0] ? f->file : "config.json";
}

/* --- the helper's part ------------------------------------------------------------------------------------------------------------------ */

/* A repository that was renamed lies there by the name that it was fetched by. */
static void read_theirs(struct flight *f)
{
    const char *dir = f->loop->hub->o.hf_cache;
    char other[RENAMED_BYTES];
    bool absent;

    f->theirs = hf_cache_read(dir, f->model, f->revision, flight_file(f), &f->absent);
    for (unsigned i = 0; !f->theirs && renamed_other(f->model, i, other); i++)
        f->theirs = hf_cache_read(dir, other, f->revision, flight_file(f), &absent);
}

static void read_disks(struct job *j)
{
    struct flight *f = (struct flight *)j;
    const struct hub *h = f->loop->hub;
    struct snapshot *s = h->disk && !f->is_owners ? disk_read(h->disk, f->key) : NULL;

    /* Another process may have written a newer one than we remember. */
    if (s && (!f->mine || s->facts.checked_s > f->mine->facts.checked_s)) {
        snapshot_release(f->mine);
        f->mine = s;
        f->mine_tier = "disk";
    } else {
        snapshot_release(s);
    }
    if (h->o.models && !f->local && (f->file[0] || !strcmp(f->revision, "main")))
        f->local = models_dir_read(h->o.models, f->model, f->revision, flight_file(f));
    if (h->o.hf_cache && !f->theirs && !f->local && !f->is_owners)
        read_theirs(f);
    f->stage = STAGE_READ;
    loop_post(f->loop, f);
}

static void check_text(struct job *j)
{
    struct flight *f = (struct flight *)j;

    f->checked = snapshot_check(flight_file(f), f->fetched->text, f->fetched->bytes, f->why, sizeof f->why);
    if (f->checked)
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
    helper_give(h->helper, &w->job, HELPER_LATER);
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
    uint64_t now = clock_ms();
    bool tell;

    pthread_mutex_lock(&h->lock);
    tell = !h->token_told_ms || now - h->token_told_ms > 60000;
    if (tell)
        h->token_told_ms = now;
    pthread_mutex_unlock(&h->lock);
    if (tell)
        fprintf(stderr, "llmemd: the hub does not accept the server's token\n");
}

void flight_fall_back(struct flight *f, enum verdict v, const char *why)
{
    struct fallback b;
    bool found;

    f->verdict = v;
    if (why != f->why)
        (void)snprintf(f->why, sizeof f->why, "%s", why);
    if (v == VERDICT_TOKEN_REFUSED && !f->is_callers)
        tell_owner(f);
    found = fallback_find(f, &b);
    if (!found && v == VERDICT_FAILED && !f->is_second) {
        f->stage = STAGE_AGAIN;
        f->due_ms = clock_ms() + AGAIN_MS;
        return;
    }
    flight_settle(f, &b.view, b.keep_ms);
    snapshot_release(b.view.snapshot);
}

void flight_check(struct flight *f)
{
    f->job.run = check_text;
    helper_give(f->loop->hub->helper, &f->job, HELPER_NOW);
}

/* --- the ladder -------------------------------------------------------------------------------------------------------------------------------- */

static bool was_reloaded(struct hub *h, int64_t checked_s)
{
    bool is;

    pthread_mutex_lock(&h->lock);
    is = checked_s <= h->reloaded_s;
    pthread_mutex_unlock(&h->lock);
    return is;
}

static uint64_t still_fresh_ms(const struct flight *f)
{
    int64_t age_s = f->mine ? hub_wall_s() - f->mine->facts.checked_s : -1, fresh_s = f->loop->hub->o.fresh_s;

    if (f->mine && is_commit(f->revision))
        return CACHE_FOREVER;
    if (f->mine && was_reloaded(f->loop->hub, f->mine->facts.checked_s))
        return 0;
    return age_s >= 0 && age_s < fresh_s ? (uint64_t)(fresh_s - age_s) * 1000 : 0; /* written in the future: a clock is wrong */
}

static void after_read(struct flight *f)
{
    uint64_t fresh = still_fresh_ms(f);

    if (f->local) {
        settle_with(f, f->local, "directory", fresh_ms(f));
    } else if (f->is_owners) {
        flight_fall_back(f, VERDICT_CONFIG_ABSENT, "");
    } else if (fresh) {
        settle_with(f, f->mine, f->mine_tier, fresh);
    } else if (f->theirs && is_commit(f->revision)) {
        settle_with(f, f->theirs, "hf_cache", CACHE_FOREVER);
    } else if (f->absent && (is_commit(f->revision) || f->loop->hub->o.offline)) {
        flight_fall_back(f, VERDICT_CONFIG_ABSENT, "");
    } else if (f->loop->hub->o.offline) {
        flight_fall_back(f, VERDICT_OFFLINE, "");
    } else {
        fetch_begin(f);
    }
}

static void after_check(struct flight *f)
{
    struct snapshot *s = f->fetched;

    if (!s) {
        flight_fall_back(f, f->checked == ERR_NOMEM ? VERDICT_NO_MEMORY : VERDICT_USELESS, f->why);
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

void flight_tick(struct flight *f, uint64_t now_ms)
{
    if (!f->due_ms || now_ms < f->due_ms)
        return;
    if (f->stage == STAGE_AGAIN) {
        fetch_end(f);
        f->is_second = true;
        fetch_begin(f);
    } else {
        fetch_conclude(f);
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
    (void)snprintf(f->file, sizeof f->file, "%s", rq->file ? rq->file : "");
    f->is_owners = rq->is_owners;
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
    if (h->disk || h->o.hf_cache || h->o.models)
        helper_give(h->helper, &f->job, HELPER_NOW);
    else
        loop_post(f->loop, f);
}

void flight_abandon(struct flight *f)
{
    fetch_end(f);
    let_go(&f->fetched);
    f->is_second = false;
}

void flight_free(struct flight *f)
{
    flight_abandon(f);
    let_go(&f->mine);
    let_go(&f->theirs);
    let_go(&f->local);
    explicit_bzero(f->token, sizeof f->token);
    free(f);
}
