#include "server/answer.h"

#include "server/clock.h"
#include "server/hash.h"
#include "server/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Equal bytes have equal validators, on every server and after a restart. */
static void write_etag(struct answer *a)
{
    static const struct hash_key fixed = {{0x6c6c6d656d64, 0x65746167}};
    struct hash h;
    struct digest d;

    hash_begin(&h, &fixed);
    hash_add(&h, a->body, a->bytes);
    d = hash_end(&h);
    (void)snprintf(a->etag, sizeof a->etag, "\"%016llx%016llx\"", (unsigned long long)d.d[0], (unsigned long long)d.d[1]);
}

static void write_cache_control(struct answer *a, const struct api_response *r, const struct answer_about *about)
{
    unsigned age = r->max_age_s < about->max_age_s ? r->max_age_s : about->max_age_s;

    if (about->is_streamed)
        (void)snprintf(a->cache_control, sizeof a->cache_control, about->is_private ? "private, no-store" : "no-store");
    else if (about->is_private)
        (void)snprintf(a->cache_control, sizeof a->cache_control, "private, no-store");
    else if (a->status != 200)
        (void)snprintf(a->cache_control, sizeof a->cache_control, "no-store");
    else if (age)
        (void)snprintf(a->cache_control, sizeof a->cache_control, "public, max-age=%u", age);
    else
        (void)snprintf(a->cache_control, sizeof a->cache_control, "no-cache");
}

/* RFC 9211. */
static void write_cache_status(struct answer *a, const struct answer_about *about)
{
    if (about->is_miss)
        (void)snprintf(a->cache_status, sizeof a->cache_status, "llmemd; fwd=miss%s%s%s", about->is_kept ? "; stored" : "",
                       about->tier ? "; detail=" : "", about->tier ? about->tier : "");
}

/* Constant strings are shared; `allow` is made for the request and moves in behind the body. */
struct answer *answer_new(const struct api_response *r, const struct answer_about *about)
{
    static const struct answer_about nothing = {0};
    size_t allow_bytes = r->allow ? strlen(r->allow) + 1 : 0;
    struct answer *a = aligned_alloc(ANSWER_ALIGN, (sizeof *a + r->bytes + allow_bytes + ANSWER_ALIGN - 1) / ANSWER_ALIGN * ANSWER_ALIGN);
    char *text;

    if (!a)
        return NULL;
    text = a->text;
    about = about ? about : &nothing;
    *a = (struct answer){.status = r->status, .content_type = r->content_type, .accept_post = r->accept_post, .route = r->route, .code = r->code,
                         .tier = about->tier, .body = text, .bytes = r->bytes, .made_ms = clock_ms(), .work_events = about->work_events,
                         .is_kept = about->is_kept,
                         .retry_after_s = r->retry_after_s > about->retry_after_s ? r->retry_after_s : about->retry_after_s};
    atomic_init(&a->holders, 1);
    pthread_mutex_init(&a->lock, NULL);
    memcpy(text, r->body, r->bytes);
    if (r->allow)
        a->allow = memcpy(text + r->bytes, r->allow, allow_bytes);
    if (!about->is_streamed)
        write_etag(a);
    write_cache_control(a, r, about);
    write_cache_status(a, about);
    return a;
}

struct answer *answer_hold(struct answer *a)
{
    atomic_fetch_add_explicit(&a->holders, 1, memory_order_relaxed);
    return a;
}

/* Under the lock. */
static void pack(struct answer *a)
{
    char *into = malloc(a->bytes / 2), *whole;
    size_t n = into ? pack_gzip(a->body, a->bytes, into, a->bytes / 2) : 0;

    a->is_packed_once = true;
    if (!n) {
        free(into);
        return;
    }
    whole = realloc(into, n);
    a->packed = whole ? whole : into;
    a->packed_bytes = n;
}

bool answer_pack(struct answer *a, size_t most, bool *ret_now)
{
    bool is_there;

    *ret_now = false;
    if (!a->is_kept || a->status != 200 || a->bytes < PACK_LEAST)
        return false;
    pthread_mutex_lock(&a->lock);
    if (!a->is_packed_once && a->bytes <= most) {
        pack(a);
        *ret_now = a->packed;
    }
    is_there = a->packed;
    pthread_mutex_unlock(&a->lock);
    return is_there;
}

static void answer_free(struct answer *a)
{
    for (int i = 0; i < FORMS; i++)
        if (a->forms[i].made)
            a->unmake(a->forms[i].made);
    pthread_mutex_destroy(&a->lock);
    free(a->packed);
    free(a);
}

void answer_give_back(struct answer *a)
{
    if (a && atomic_fetch_sub_explicit(&a->holders, 1, memory_order_acq_rel) == 1)
        answer_free(a);
}
