#include "server/httpd.h"

#include "server/listen.h"
#include "server/serve.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    HEADER_BYTES = 32 << 10,      /* a connection's pool: request line and headers */
    SWALLOW_BYTES = 64 << 20,     /* of a body that is too large, so that its sender reads the 413 */
    BLOCK_KEEP_BYTES = 16 << 20,  /* of a block, kept between two answers */
    BLOCKS_MAX = 256,
    WAITING_MAX = 128,            /* callers without a block; who comes then is told to come back */
};

struct httpd {
    struct MHD_Daemon *daemon;
    int fd;
    bool log;
    atomic_uint active;
    pthread_mutex_t lock;
    pthread_cond_t given_back;
    void *blocks[BLOCKS_MAX]; /* those that nobody uses */
    unsigned n_blocks, waiting;
};

/* One request, from its first byte to its last. */
struct exchange {
    struct httpd *h;
    char *body;
    size_t bytes, cap;
    bool too_large, started;
    struct timespec began;
};

/* --- blocks of memory to answer in --------------------------------------------------------------------------------------------- */

/* NULL: too many wait already. */
static void *block_take(struct httpd *h)
{
    void *block = NULL;

    pthread_mutex_lock(&h->lock);
    if (h->waiting < WAITING_MAX) {
        h->waiting++;
        while (!h->n_blocks)
            pthread_cond_wait(&h->given_back, &h->lock);
        h->waiting--;
        block = h->blocks[--h->n_blocks];
    }
    pthread_mutex_unlock(&h->lock);
    return block;
}

static void block_give(struct httpd *h, void *block)
{
    pthread_mutex_lock(&h->lock);
    h->blocks[h->n_blocks++] = block;
    pthread_cond_signal(&h->given_back);
    pthread_mutex_unlock(&h->lock);
}

/* --- one request --------------------------------------------------------------------------------------------------------------- */

static struct exchange *exchange_new(struct httpd *h)
{
    struct exchange *x = calloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->h = h;
    clock_gettime(CLOCK_MONOTONIC, &x->began);
    atomic_fetch_add(&h->active, 1);
    return x;
}

static void append(struct exchange *x, const char *data, size_t n)
{
    size_t cap = x->cap ? x->cap : 4096;

    if (x->too_large || n > API_BODY_MAX - x->bytes) {
        x->too_large = true;
        return;
    }
    while (cap < x->bytes + n)
        cap *= 2;
    if (cap > x->cap) {
        char *grown = realloc(x->body, cap);

        if (!grown) {
            x->too_large = true;
            return;
        }
        x->body = grown;
        x->cap = cap;
    }
    memcpy(x->body + x->bytes, data, n);
    x->bytes += n;
}

struct header_count {
    unsigned lengths, codings;
    bool chunked;
};

static enum MHD_Result count_header(void *arg, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct header_count *n = arg;

    (void)kind;
    n->lengths += !strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (!strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING)) {
        n->codings++;
        n->chunked = value && !strcasecmp(value, "chunked");
    }
    return MHD_YES;
}

/* Ways to say twice, and differently, where a body ends. */
static bool is_smuggling(struct MHD_Connection *connection)
{
    struct header_count n = {0};

    (void)MHD_get_connection_values(connection, MHD_HEADER_KIND, count_header, &n);
    return n.lengths > 1 || n.codings > 1 || (n.codings && (n.lengths || !n.chunked));
}

static bool is_hopeless(struct MHD_Connection *connection)
{
    const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return length && strtoull(length, NULL, 10) > SWALLOW_BYTES;
}

static void log_line(const struct exchange *x, const char *method, const struct api_response *r)
{
    struct timespec now, wall;
    struct tm utc;
    char at[32];
    double ms;

    if (!x->h->log)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock_gettime(CLOCK_REALTIME, &wall);
    gmtime_r(&wall.tv_sec, &utc);
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%S", &utc);
    ms = (double)(now.tv_sec - x->began.tv_sec) * 1e3 + (double)(now.tv_nsec - x->began.tv_nsec) / 1e6;
    fprintf(stderr, "%s.%03ldZ %.16s %s %d%s%s in=%zu out=%zu ms=%.1f\n", at, wall.tv_nsec / 1000000, method, r->route ? r->route : "-",
            r->status, r->code ? " " : "", r->code ? r->code : "", x->bytes, r->bytes, ms);
}

static void header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value)
        (void)MHD_add_response_header(response, name, value);
}

/* Copied: a slow reader keeps his own answer, not the block that it was made in. */
static enum MHD_Result send_response(struct MHD_Connection *connection, const struct api_response *r)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(r->bytes, (void *)(uintptr_t)r->body, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result rc;
    char seconds[16];

    if (!response)
        return MHD_NO;
    header(response, MHD_HTTP_HEADER_CONTENT_TYPE, r->content_type);
    header(response, "X-Content-Type-Options", "nosniff");
    header(response, MHD_HTTP_HEADER_ALLOW, r->allow);
    header(response, "Accept-Post", r->accept_post);
    (void)snprintf(seconds, sizeof seconds, "%u", r->retry_after_s);
    header(response, MHD_HTTP_HEADER_RETRY_AFTER, r->retry_after_s ? seconds : NULL);
    rc = MHD_queue_response(connection, (unsigned)r->status, response);
    MHD_destroy_response(response);
    return rc;
}

/* What is wrong with the message itself: no block is needed to say so. */
static enum MHD_Result refuse(struct exchange *x, struct MHD_Connection *connection, const char *method, enum err_code code, const char *detail)
{
    char text[2048];
    struct arena arena;
    struct api_response r = {.route = "-"};
    struct err err = {0};

    arena_init(&arena, text, sizeof text);
    (void)err_set(&err, code, "", "%s", detail);
    api_problem(&err, &arena, &r);
    log_line(x, method, &r);
    return send_response(connection, &r);
}

static enum MHD_Result answer_within(struct exchange *x, struct MHD_Connection *connection, struct api_request *rq, void *block, size_t bytes)
{
    struct arena arena;
    struct api_response r;
    enum MHD_Result rc;

    arena_init(&arena, block, bytes);
    rq->arena = &arena;
    serve(rq, &r);
    rc = send_response(connection, &r);
    log_line(x, rq->method, &r);
    return rc;
}

/* From tables: nobody who computes is waited for. */
static enum MHD_Result answer_cheap(struct exchange *x, struct MHD_Connection *connection, struct api_request *rq)
{
    void *block = malloc(API_CHEAP_BYTES);
    enum MHD_Result rc = block ? answer_within(x, connection, rq, block, API_CHEAP_BYTES) : MHD_NO;

    free(block);
    return rc;
}

static enum MHD_Result answer(struct exchange *x, struct MHD_Connection *connection, const char *url, const char *method)
{
    struct api_request rq = {
        .method = method,
        .path = url,
        .content_type = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE),
        .body = x->body ? x->body : "",
        .body_bytes = x->bytes,
    };
    enum MHD_Result rc;
    void *block;

    if (x->too_large)
        return refuse(x, connection, method, ERR_TOO_LARGE, "a body may have 1048576 bytes");
    if (api_is_cheap(&rq))
        return answer_cheap(x, connection, &rq);
    block = block_take(x->h);
    if (!block)
        return refuse(x, connection, method, ERR_OVERLOADED, "too many requests are waiting to be computed");
    rc = answer_within(x, connection, &rq, block, API_ARENA_BYTES);
    block_trim(block, BLOCK_KEEP_BYTES, API_ARENA_BYTES);
    block_give(x->h, block);
    return rc;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                  const char *data, size_t *data_bytes, void **context)
{
    struct exchange *x = *context;

    (void)version;
    if (!x) {
        x = exchange_new(arg);
        *context = x;
        if (!x)
            return MHD_NO;
        if (is_smuggling(connection))
            return refuse(x, connection, method, ERR_REQUEST, "one Content-Length, or Transfer-Encoding: chunked, says where a body ends");
        if (is_hopeless(connection))
            return refuse(x, connection, method, ERR_TOO_LARGE, "a body may have 1048576 bytes");
        return MHD_YES;
    }
    if (*data_bytes) {
        append(x, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    return answer(x, connection, url, method);
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code)
{
    struct exchange *x = *context;

    (void)arg;
    (void)connection;
    (void)code;
    if (!x)
        return;
    atomic_fetch_sub(&x->h->active, 1);
    free(x->body);
    free(x);
    *context = NULL;
}

/* --- life ---------------------------------------------------------------------------------------------------------------------- */

static bool make_blocks(struct httpd *h, unsigned n)
{
    for (; h->n_blocks < n; h->n_blocks++) {
        h->blocks[h->n_blocks] = block_new(API_ARENA_BYTES);
        if (!h->blocks[h->n_blocks])
            return false;
    }
    return true;
}

static unsigned cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);

    return n < 1 ? 1 : n > BLOCKS_MAX ? BLOCKS_MAX : (unsigned)n;
}

static bool start(struct httpd *h, const struct options *o)
{
    const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG;
    char name[160];

    if (!make_blocks(h, o->threads ? o->threads : cores())) {
        fprintf(stderr, "llmemd: no memory for --threads %u\n", o->threads);
        return false;
    }
    h->fd = listen_at(o->listen, name, sizeof name);
    if (h->fd < 0)
        return false;
    h->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, h->fd, MHD_OPTION_NOTIFY_COMPLETED,
                                 on_completed, NULL, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HEADER_BYTES,
                                 MHD_OPTION_CONNECTION_LIMIT, o->connections, MHD_OPTION_CONNECTION_TIMEOUT, o->idle_s, MHD_OPTION_END);
    if (!h->daemon) {
        fprintf(stderr, "llmemd: libmicrohttpd does not start\n");
        return false;
    }
    fprintf(stderr, "listening on http://%s\n", name);
    return true;
}

struct httpd *httpd_start(const struct options *o)
{
    struct httpd *h = calloc(1, sizeof *h);

    if (!h)
        return NULL;
    h->fd = -1;
    h->log = !strcmp(o->log, "requests");
    pthread_mutex_init(&h->lock, NULL);
    pthread_cond_init(&h->given_back, NULL);
    if (start(h, o))
        return h;
    httpd_stop(h);
    return NULL;
}

void httpd_drain(struct httpd *h)
{
    int fd = MHD_quiesce_daemon(h->daemon);

    if (fd >= 0) {
        close(fd);
        h->fd = -1;
    }
}

unsigned httpd_active(struct httpd *h)
{
    return atomic_load(&h->active);
}

void httpd_stop(struct httpd *h)
{
    if (h->daemon)
        MHD_stop_daemon(h->daemon);
    else if (h->fd >= 0)
        close(h->fd);
    while (h->n_blocks)
        block_free(h->blocks[--h->n_blocks], API_ARENA_BYTES);
    pthread_cond_destroy(&h->given_back);
    pthread_mutex_destroy(&h->lock);
    free(h);
}
