#include "server/hub/reply.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void reply_init(struct reply *r)
{
    memset(r, 0, sizeof *r);
    r->rate.bucket = BUCKET_NONE;
}

void reply_release(struct reply *r)
{
    free(r->body);
    r->body = NULL;
    r->bytes = r->cap = 0;
}

void reply_fail(struct reply *r, enum reply_fault kind, const char *why)
{
    if (r->fault != FAULT_NONE)
        return;
    r->fault = kind;
    (void)snprintf(r->why, sizeof r->why, "%s", why);
}

/* --- the body -------------------------------------------------------------------------------------------------------------------- */

static bool grow(struct reply *r, size_t bytes)
{
    size_t cap = r->cap ? r->cap : 4096;
    char *grown;

    while (cap < bytes)
        cap *= 2;
    grown = cap > r->cap ? realloc(r->body, cap) : r->body;
    if (!grown)
        return false;
    r->body = grown;
    r->cap = cap;
    return true;
}

bool reply_body(struct reply *r, const char *data, size_t bytes, size_t max)
{
    if (bytes > max - r->bytes)
        reply_fail(r, FAULT_TOO_LARGE, "the file is larger than what is read here");
    else if (!grow(r, r->bytes + bytes + 1))
        reply_fail(r, FAULT_MEMORY, "no memory for the file");
    else {
        memcpy(r->body + r->bytes, data, bytes);
        r->bytes += bytes;
        r->body[r->bytes] = 0;
        return true;
    }
    return false;
}

/* --- values ---------------------------------------------------------------------------------------------------------------------- */

struct span {
    const char *at;
    size_t n;
};

static struct span trim(const char *at, size_t n)
{
    while (n && isspace((unsigned char)at[0]))
        at++, n--;
    while (n && isspace((unsigned char)at[n - 1]))
        n--;
    return (struct span){at, n};
}

/* Cut off where it is too long; what could harm a terminal or a log becomes '?'. */
static void keep_text(char *ret, size_t bytes, struct span v)
{
    size_t n = v.n < bytes - 1 ? v.n : bytes - 1;

    for (size_t i = 0; i < n; i++)
        ret[i] = v.at[i] >= ' ' && v.at[i] <= '~' ? v.at[i] : '?';
    ret[n] = 0;
}

static bool number(struct span v, unsigned *ret)
{
    unsigned n = 0;

    if (!v.n || v.n > 9)
        return false;
    for (size_t i = 0; i < v.n; i++) {
        if (v.at[i] < '0' || v.at[i] > '9')
            return false;
        n = 10 * n + (unsigned)(v.at[i] - '0');
    }
    *ret = n;
    return true;
}

/* --- headers --------------------------------------------------------------------------------------------------------------------- */

static void on_commit(struct reply *r, struct span v)
{
    char text[41];

    if (v.n != 40) {
        r->commit_bad = true;
        return;
    }
    memcpy(text, v.at, 40);
    text[40] = 0;
    if (strspn(text, "0123456789abcdef") != 40 || (r->commit[0] && strcmp(r->commit, text) != 0))
        r->commit_bad = true;
    else
        memcpy(r->commit, text, sizeof text);
}

static struct span bare_etag(struct span v)
{
    if (v.n >= 2 && v.at[0] == 'W' && v.at[1] == '/')
        v.at += 2, v.n -= 2;
    if (v.n >= 2 && v.at[0] == '"' && v.at[v.n - 1] == '"')
        v.at++, v.n -= 2;
    return v;
}

/* One that does not fit, or would not survive being quoted, is none. */
static void keep_etag(struct reply *r, struct span v)
{
    v = bare_etag(v);
    if (v.n && v.n < sizeof r->etag && !memchr(v.at, '"', v.n))
        keep_text(r->etag, sizeof r->etag, v);
}

static void on_linked_etag(struct reply *r, struct span v)
{
    r->etag[0] = 0;
    keep_etag(r, v);
}

static void on_etag(struct reply *r, struct span v)
{
    if (!r->etag[0])
        keep_etag(r, v);
}

static void on_error_code(struct reply *r, struct span v)
{
    keep_text(r->error_code, sizeof r->error_code, v);
}

static void on_error_message(struct reply *r, struct span v)
{
    keep_text(r->error_message, sizeof r->error_message, v);
}

static void on_content_type(struct reply *r, struct span v)
{
    keep_text(r->content_type, sizeof r->content_type, v);
}

static void on_request_id(struct reply *r, struct span v)
{
    keep_text(r->request_id, sizeof r->request_id, v);
}

static bool has_control(struct span v)
{
    for (size_t i = 0; i < v.n; i++)
        if ((unsigned char)v.at[i] < ' ' || v.at[i] == 127)
            return true;
    return false;
}

static void on_location(struct reply *r, struct span v)
{
    r->location_bad = r->location_bad || r->location[0] || !v.n || v.n >= sizeof r->location || has_control(v);
    if (!r->location_bad) {
        memcpy(r->location, v.at, v.n);
        r->location[v.n] = 0;
    }
}

static void on_retry_after(struct reply *r, struct span v)
{
    (void)number(v, &r->retry_after_s); /* the form with a date is not used by the hub */
}

static enum bucket bucket_named(struct span v)
{
    static const char *const names[] = {"api", "resolvers", "pages"};

    if (v.n >= 2 && v.at[0] == '"' && v.at[v.n - 1] == '"')
        v.at++, v.n -= 2;
    for (unsigned i = 0; i < BUCKET_NONE; i++)
        if (strlen(names[i]) == v.n && !strncasecmp(names[i], v.at, v.n))
            return (enum bucket)i;
    return BUCKET_NONE;
}

/* "api";r=499;t=123 */
static void on_rate_limit(struct reply *r, struct span v)
{
    struct rate rate = {BUCKET_NONE, 0, 0};
    bool has_r = false, has_t = false;
    const char *end = v.at + v.n;

    for (const char *at = v.at; at < end;) {
        const char *semicolon = memchr(at, ';', (size_t)(end - at)), *stop = semicolon ? semicolon : end;
        struct span part = trim(at, (size_t)(stop - at)), value = {part.at + 2, part.n < 2 ? 0 : part.n - 2};

        if (at == v.at)
            rate.bucket = bucket_named(part);
        else if (part.n > 2 && !strncmp(part.at, "r=", 2))
            has_r = number(value, &rate.remaining);
        else if (part.n > 2 && !strncmp(part.at, "t=", 2))
            has_t = number(value, &rate.reset_s);
        at = stop + 1;
    }
    if (rate.bucket != BUCKET_NONE && has_r && has_t)
        r->rate = rate;
}

static const struct header {
    const char *name;
    void (*take)(struct reply *r, struct span v);
} headers[] = {
    {"x-repo-commit", on_commit},
    {"x-linked-etag", on_linked_etag},
    {"etag", on_etag},
    {"x-error-code", on_error_code},
    {"x-error-message", on_error_message},
    {"content-type", on_content_type},
    {"x-request-id", on_request_id},
    {"location", on_location},
    {"retry-after", on_retry_after},
    {"ratelimit", on_rate_limit},
};

/* "HTTP/1.1 200 OK": all but the commit and the limits begins anew. */
static void begin_hop(struct reply *r, const char *line, size_t bytes)
{
    const char *blank = memchr(line, ' ', bytes);
    unsigned status = 0;

    if (blank && line + bytes - blank >= 4)
        (void)number((struct span){blank + 1, 3}, &status);
    r->status = (int)status;
    r->etag[0] = r->error_code[0] = r->error_message[0] = r->content_type[0] = r->request_id[0] = r->location[0] = 0;
    r->location_bad = r->whole = false;
    r->retry_after_s = 0;
}

void reply_line(struct reply *r, const char *line, size_t bytes)
{
    const char *colon = memchr(line, ':', bytes);

    r->header_bytes += bytes;
    if (bytes > 5 && !strncasecmp(line, "HTTP/", 5)) {
        begin_hop(r, line, bytes);
        return;
    }
    r->whole = r->whole || !trim(line, bytes).n;
    if (!colon)
        return;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        size_t n = strlen(headers[i].name);

        if ((size_t)(colon - line) == n && !strncasecmp(line, headers[i].name, n))
            headers[i].take(r, trim(colon + 1, bytes - n - 1));
    }
}

bool reply_is_redirect(const struct reply *r)
{
    return r->status == 301 || r->status == 302 || r->status == 303 || r->status == 307 || r->status == 308;
}
