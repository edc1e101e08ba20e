#include "server/exchange.h"

#include "server/batch.h"
#include "server/clock.h"
#include "server/policy.h"
#include "server/story.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    SLOT_BYTES = 64 << 10,    /* a body of more takes its slot before it is read */
    SWALLOW_BYTES = 16 << 20, /* of a body that is too large, so that its sender reads the 413 */
};

/* --- birth and death -------------------------------------------------------------------------------------------------------------- */

static bool copy_query(struct exchange *x, const char *uri)
{
    const char *query = uri ? strchr(uri, '?') : NULL;

    if (!query)
        return true;
    x->query = strdup(query + 1);
    return x->query;
}

struct exchange *exchange_new(struct desk *d, void *connection, const char *uri)
{
    struct exchange *x = desk_take(d);

    if (!x)
        return NULL;
    memset(x, 0, offsetof(struct exchange, method));
    x->method[0] = x->id[0] = x->trace[0] = 0;
    x->desk = d;
    x->connection = connection;
    x->holders = 1;
    x->began_us = clock_us();
    x->body = x->first;
    x->cap = sizeof x->first;
    if (!copy_query(x, uri)) {
        desk_give(d, x);
        return NULL;
    }
    /* A zero in a path would end it early. */
    x->head.is_ambiguous = uri && strstr(uri, "%00");
    d->open++;
    atomic_fetch_add(&d->service->in_flight, 1);
    return x;
}

void exchange_hold(struct exchange *x)
{
    x->holders++;
}

void exchange_let_go(struct exchange *x)
{
    if (--x->holders)
        return;
    if (x->has_slot)
        atomic_fetch_sub(&x->desk->service->waiting, 1);
    if (x->batch_of_address) {
        atomic_fetch_sub(x->batch_of_address, 1);
        atomic_fetch_sub(&x->desk->service->batches, 1);
    }
    gather_end(&x->gather);
    batch_free(x->batch);
    answer_give_back(x->answer);
    answer_give_back(x->made);
    if (x->body != x->first)
        free(x->body);
    free(x->query);
    free(x->owned);
    free((void *)(uintptr_t)x->needs.v);
    desk_give(x->desk, x);
}

static enum outcome outcome_of(const struct exchange *x)
{
    const struct answer *a = x->answer;

    if (x->is_hit)
        return OUTCOME_HIT;
    if (!a)
        return OUTCOME_NONE;
    if (a->status >= 400)
        return a->status >= 500 ? OUTCOME_FAILED : OUTCOME_REFUSED;
    return x->is_streaming ? OUTCOME_STREAMED : x->owned ? OUTCOME_COMPUTED : OUTCOME_TABLES;
}

void exchange_closed(struct exchange *x, int status, const char *end)
{
    const struct answer *a = x->answer;
    struct service *s = x->desk->service;
    uint64_t now_us = clock_us(), us = now_us - x->began_us;
    struct log_request line = {.at_us = now_us, .id = x->id, .method = x->method, .trace = x->trace, .route = a ? a->route : "-",
                               .code = a ? a->code : NULL, .end = end,
                               .cache = !a || !a->cache_status[0] ? NULL : x->is_hit ? "hit" : "miss", .tier = a && !x->is_hit ? a->tier : NULL,
                               .status = x->is_not_modified ? 304 : a ? a->status : status, .in_bytes = x->bytes, .us = us};

    line.out_bytes = !a || x->is_not_modified ? 0 : x->is_packed ? a->packed_bytes : a->bytes;
    if (x->is_streaming) {
        line.items = batch_items(x->batch);
        line.items_sent = batch_sent(x->batch, &line.out_bytes);
        batch_leave(x);
    }
    log_request(s->log, &line);
    metrics_request(s->metrics, &(struct metrics_of){.route = line.route, .verb = x->verb, .status = line.status, .outcome = outcome_of(x),
                                                     .tier = line.tier, .us = us});
    desk_forget(x);
    atomic_store(&x->is_dropped, true);
    x->is_closed = x->is_answered = true;
    x->desk->open--;
    atomic_fetch_sub(&s->in_flight, 1);
    exchange_let_go(x);
}

/* --- refusals --------------------------------------------------------------------------------------------------------------------- */

enum exchange_next exchange_send(struct exchange *x, const struct api_response *r)
{
    x->answer = answer_new(r, NULL);
    return NEXT_SEND;
}

enum exchange_next exchange_refuse(struct exchange *x, enum err_code code, unsigned retry_after_s, const char *fmt, ...)
{
    char detail[256];
    struct api_response r = {.route = "-"};
    struct arena arena;
    struct err err = {0};
    va_list args;

    va_start(args, fmt);
    (void)vsnprintf(detail, sizeof detail, fmt, args);
    va_end(args);
    arena_init(&arena, x->desk->scratch, API_CHEAP_BYTES);
    (void)err_set(&err, code, "", "%s", detail);
    api_problem(&err, &arena, &r);
    r.retry_after_s = retry_after_s;
    return exchange_send(x, &r);
}

bool exchange_take_slot(struct exchange *x)
{
    atomic_uint *waiting = &x->desk->service->waiting;

    if (!x->has_slot && atomic_fetch_add(waiting, 1) >= x->desk->service->o->waiting)
        atomic_fetch_sub(waiting, 1);
    else
        x->has_slot = true;
    return x->has_slot;
}

/* --- the headers ------------------------------------------------------------------------------------------------------------------ */

/* splitmix64: ids that do not look alike, of a random start that nobody guesses. */
static void make_id(struct desk *d, char ret[17])
{
    uint64_t z = d->ids += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    z ^= z >> 31;
    for (int i = 0; i < 16; i++, z >>= 4)
        ret[i] = "0123456789abcdef"[z & 15];
    ret[16] = 0;
}

void exchange_name(struct exchange *x)
{
    if (!x->id[0])
        make_id(x->desk, x->id);
}

static void digest_token(struct exchange *x)
{
    struct hash h;

    if (!x->head.token)
        return;
    hash_begin(&h, &x->desk->service->key);
    hash_add(&h, x->head.token, strlen(x->head.token));
    x->token_digest = hash_end(&h);
}

/* Cut to what there is room for. */
static void copy(char *ret, size_t room, const char *text)
{
    size_t n = strnlen(text, room - 1);

    memcpy(ret, text, n);
    ret[n] = 0;
}

/* Whoever watches the service has to see it when it is full, too. */
static bool is_probe(const char *path)
{
    switch (path[0] ? path[1] : 0) {
    case 'h':
        return !strcmp(path, "/healthz");
    case 'r':
        return !strcmp(path, "/readyz");
    case 'm':
        return !strcmp(path, "/metrics");
    default:
        return false;
    }
}

static void take_head(struct exchange *x, const char *method, const struct head *head)
{
    bool is_ambiguous = x->head.is_ambiguous;

    x->has_begun = true;
    x->head = *head;
    x->head.is_ambiguous |= is_ambiguous;
    copy(x->method, sizeof x->method, policy_method_is_good(method) ? method : "?");
    x->verb = policy_verb(x->method);
    x->is_probe = is_probe(head->path);
    x->has_callers_id = head->id && policy_id_is_good(head->id);
    if (x->has_callers_id)
        copy(x->id, sizeof x->id, head->id);
    else
        exchange_name(x);
    x->takes_gzip = head->encodings && policy_takes_gzip(head->encodings);
    if (head->trace && policy_trace_is_good(head->trace))
        copy(x->trace, sizeof x->trace, head->trace); /* of a later version no more than this one knows */
    digest_token(x);
}

static enum exchange_next refuse_count(struct exchange *x, enum refusal why, const char *what)
{
    metrics_refused(x->desk->service->metrics, why);
    return exchange_refuse(x, ERR_OVERLOADED, 1, "%s", what);
}

enum exchange_next exchange_begin(struct exchange *x, const char *method, const struct head *head)
{
    const struct service *s = x->desk->service;
    bool is_long = head->is_chunked || head->length > SLOT_BYTES;

    take_head(x, method, head);
    if (x->head.is_ambiguous)
        return exchange_refuse(x, ERR_REQUEST, 0,
                               "one Content-Length, or Transfer-Encoding: chunked of version 1.1, says where a body ends; a name ends at its colon, no control "
                               "character is in a line, none is folded");
    if (x->method[0] == '?')
        return exchange_refuse(x, ERR_REQUEST, 0, "a method is one word of letters");
    if (x->desk->is_loopback && head->host && !policy_host_is_ours(head->host, s->o->hosts))
        return exchange_refuse(x, ERR_MISDIRECTED, 0, "this address answers for localhost; --hosts allows other names");
    if (x->head.token && !policy_token_is_good(x->head.token))
        return exchange_refuse(x, ERR_REQUEST, 0, "X-HF-Token: not a token on one line; leave the header out to ask without one");
    if (x->desk->is_admin ? !x->is_probe : s->o->admin_only && x->is_probe)
        return exchange_refuse(x, ERR_NOT_FOUND, 0, "probes and metrics are answered %s", x->desk->is_admin ? "here, and nothing else" : "elsewhere");
    if (head->crowding != CROWD_ROOM && !x->is_probe)
        return refuse_count(x, REFUSED_CONNECTIONS,
                            head->crowding == CROWD_FULL ? "too many connections are open" : "too many connections of this address are open");
    if (head->coding && strcasecmp(head->coding, "identity") != 0)
        return exchange_refuse(x, ERR_MEDIA_TYPE, 0, "Content-Encoding: a body is read as it comes, send it unpacked");
    if (head->length > SWALLOW_BYTES)
        return exchange_refuse(x, ERR_TOO_LARGE, 0, "a body may have %u bytes", s->o->max_body);
    if (is_long && !exchange_take_slot(x))
        return refuse_count(x, REFUSED_WAITING, "too many requests are waiting");
    return NEXT_READ;
}

/* --- the body --------------------------------------------------------------------------------------------------------------------- */

static bool grow(struct exchange *x, size_t bytes)
{
    size_t cap = x->cap;
    char *grown;

    while (cap < bytes)
        cap *= 2;
    if (cap == x->cap)
        return true;
    grown = realloc(x->body == x->first ? NULL : x->body, cap);
    if (!grown)
        return false;
    if (x->body == x->first)
        memcpy(grown, x->first, x->bytes);
    x->body = grown;
    x->cap = cap;
    return true;
}

void exchange_append(struct exchange *x, const char *data, size_t bytes)
{
    x->is_too_large |= bytes > x->desk->service->o->max_body - x->bytes;
    x->has_no_memory |= !x->is_too_large && !grow(x, x->bytes + bytes);
    if (x->is_too_large || x->has_no_memory)
        return;
    memcpy(x->body + x->bytes, data, bytes);
    x->bytes += bytes;
}

enum exchange_next exchange_ask(struct exchange *x)
{
    enum exchange_next next;

    if (x->is_too_large)
        return exchange_refuse(x, ERR_TOO_LARGE, 0, "a body may have %u bytes", x->desk->service->o->max_body);
    if (x->has_no_memory)
        return exchange_refuse(x, ERR_NOMEM, 1, "no memory for the request");
    next = own_answer(x);
    return next == NEXT_READ ? story_ask(x) : next;
}

void exchange_go_on(struct exchange *x)
{
    desk_wait(x);
    story_begin(x);
}

void exchange_drop_body(struct exchange *x)
{
    if (x->body != x->first)
        free(x->body);
    x->body = x->first;
    x->cap = sizeof x->first;
    x->rq.body = "";
    x->rq.body_bytes = 0;
}

ssize_t exchange_more(struct exchange *x, char *into, size_t room)
{
    ssize_t n = batch_more(x, into, room);

    if (!n)
        desk_wait(x);
    return n;
}

unsigned exchange_part(const struct exchange *x)
{
    uint64_t bytes;

    return batch_sent(x->batch, &bytes);
}

void exchange_give_up(struct exchange *x)
{
    (void)exchange_refuse(x, ERR_NOMEM, 1, "no memory, or no time, is left for the request");
    exchange_ready(x);
}
