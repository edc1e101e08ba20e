#include "server/headers.h"

#include "server/policy.h"
#include "server/story.h"

#include <stdio.h>
#include <string.h>

enum { ETAG_BYTES = sizeof((struct answer *)0)->etag + sizeof "-gzip" };

static void write_number(header_add *add, void *arg, const char *name, uint64_t n)
{
    char text[24];

    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    add(arg, name, text);
}

/* Other bytes, another strong validator: "..-gzip". */
static void etag_of(const struct exchange *x, char ret[ETAG_BYTES])
{
    size_t n = strlen(x->answer->etag);

    memcpy(ret, x->answer->etag, n + 1);
    if (x->is_packed)
        memcpy(ret + n - 1, "-gzip\"", sizeof "-gzip\"");
}

static void write_etag(const struct exchange *x, header_add *add, void *arg)
{
    char etag[ETAG_BYTES];

    etag_of(x, etag);
    add(arg, "ETag", etag);
}

/* RFC 9111 and 9211. What a token opened has no Age: it is kept for nobody else. */
static void write_cache(const struct exchange *x, uint64_t age_s, header_add *add, void *arg)
{
    const struct answer *a = x->answer;

    add(arg, "Cache-Control", a->cache_control);
    if (a->status == 200 && a->etag[0])
        write_etag(x, add, arg);
    if (a->cache_status[0])
        add(arg, "Cache-Status", x->is_hit ? "llmemd; hit" : a->cache_status);
    if (age_s)
        write_number(add, arg, "Age", age_s);
}

static void write_cors(const struct exchange *x, header_add *add, void *arg)
{
    const char *allowed = policy_origin(x->head.origin, x->desk->service->o->origins);

    if (!allowed)
        return;
    add(arg, "Access-Control-Allow-Origin", allowed);
    if (x->head.preflight && x->answer->status == 204) {
        add(arg, "Access-Control-Allow-Methods", "GET, HEAD, POST");
        add(arg, "Access-Control-Allow-Headers", "Content-Type, If-None-Match, X-HF-Token, X-Request-Id, traceparent");
        add(arg, "Access-Control-Max-Age", "600");
    } else {
        add(arg, "Access-Control-Expose-Headers", "Cache-Status, ETag, Retry-After, X-Request-Id, traceparent");
    }
}

/* Data may run nothing and be framed by nobody; a page loads what this service serves, and no script within it. */
static void write_security(const struct answer *a, header_add *add, void *arg)
{
    bool is_page = a->content_type && !strncmp(a->content_type, "text/html", 9);

    add(arg, "X-Content-Type-Options", "nosniff");
    add(arg, "Content-Security-Policy",
        is_page ? "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'" : "default-src 'none'; frame-ancestors 'none'");
    add(arg, "Referrer-Policy", "no-referrer");
}

static void write_refusal(const struct answer *a, header_add *add, void *arg)
{
    if (a->allow)
        add(arg, "Allow", a->allow);
    if (a->accept_post)
        add(arg, "Accept-Post", a->accept_post);
    if (a->retry_after_s)
        write_number(add, arg, "Retry-After", a->retry_after_s);
    if (a->status == 401)
        add(arg, "WWW-Authenticate", "Bearer");
}

void headers_decide(struct exchange *x)
{
    bool reads = x->verb == VERB_GET || x->verb == VERB_HEAD;
    char etag[ETAG_BYTES];

    x->is_packed = x->takes_gzip && story_pack(x);
    if (!reads || x->answer->status != 200 || !x->head.if_none_match)
        return;
    etag_of(x, etag);
    x->is_not_modified = policy_etag_matches(x->head.if_none_match, etag);
}

/* A worker may have made it after this turn began. */
uint64_t headers_age_s(const struct exchange *x)
{
    uint64_t now_ms = x->desk->now_ms, made_ms = x->answer->made_ms;

    return x->is_hit && now_ms > made_ms ? (now_ms - made_ms) / 1000 : 0;
}

static bool tells_id(const struct exchange *x)
{
    return x->has_callers_id || !x->is_hit;
}

/* Where a message ends is in doubt, what comes behind it is nobody's request. */
static bool closes(const struct exchange *x)
{
    return x->desk->service->is_draining || x->head.is_ambiguous;
}

bool headers_are_common(const struct exchange *x)
{
    const struct service *s = x->desk->service;

    return !tells_id(x) && !x->trace[0] && !closes(x) && !policy_origin(x->head.origin, s->o->origins);
}

void headers_write_common(const struct exchange *x, uint64_t age_s, header_add *add, void *arg)
{
    if (x->answer->content_type && !x->is_not_modified)
        add(arg, "Content-Type", x->answer->content_type);
    if (x->is_packed && !x->is_not_modified)
        add(arg, "Content-Encoding", "gzip");
    write_cache(x, age_s, add, arg);
    add(arg, "Vary", x->desk->service->o->origins ? "X-HF-Token, Accept-Encoding, Origin" : "X-HF-Token, Accept-Encoding");
    if (x->is_streaming)
        add(arg, "Vary", "Accept");
    write_security(x->answer, add, arg);
    write_refusal(x->answer, add, arg);
}

void headers_write_own(const struct exchange *x, header_add *add, void *arg)
{
    if (tells_id(x))
        add(arg, "X-Request-Id", x->id);
    if (x->trace[0])
        add(arg, "traceparent", x->trace);
    write_cors(x, add, arg);
    if (closes(x))
        add(arg, "Connection", "close");
}
