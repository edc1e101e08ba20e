#include "server/httpd.h"

#include "server/client.h"
#include "server/clock.h"
#include "server/exchange.h"
#include "server/headers.h"
#include "server/listen.h"
#include "server/memory.h"
#include "server/refusal.h"
#include "server/thread.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    POOL_BYTES = 8 << 10, /* of a connection, request line and headers: the library zeroes all of it after each request */
    POOL_LINE_BYTES = 64, /* that it takes for each header line and each cookie beside its text */
    ANSWER_BYTES = 600,   /* that the header lines of an answer need there, beside what is echoed */
    SWEEP_MS = 1000,
    LOOK_MS = 250,    /* whether who waits is still there */
    GRACE_MS = 700,   /* to read a refusal, before the end */
    LINGER_MS = 250,  /* who was let in a moment before the end has his request on its way */
    HURRIED_TURNS = 4096, /* as many as a large body is read in */
    STUCK_MS = 5000,  /* a thread that has not swept for so long does not turn */
    LOOP_FILES = 16,  /* of an event thread, beside connections and the hub's: epoll, sockets that were accepted at once */
    HUB_FILES = 64,   /* of its transfers */
    OTHER_FILES = 64, /* of the process: log, caches, reading a disk */
    CUT_AT_ONCE =
        10, /* connections beyond all that may stay: accepted, so that they are cut and do not hang (the library accepts as many at once) */
    LEAST_CONNECTIONS = 8,
    TURNS_AT_THE_DOOR = 1000, /* of ten each: more than wait there, unless others listen at the same socket */
};

enum phase { PHASE_SERVE, PHASE_DRAIN, PHASE_REFUSE };

struct loop {
    struct httpd *h;
    struct MHD_Daemon *daemon;
    struct desk desk;
    struct client *clients;
    struct crowd *crowd;
    pthread_t thread;
    int epoll_fd, listen_fd;
    bool has_desk, has_thread, is_quiet;
    unsigned hurried; /* turns in a row that the library wanted at once */
    uint64_t swept_ms, looked_ms, refused_ms, quiet_ms;
    _Atomic uint64_t alive_ms; /* as swept_ms, for others */
};

struct httpd {
    struct service *service;
    _Atomic enum phase phase;
    atomic_uint ended;
    unsigned n, mains; /* loops; the last may be the admin listener's */
    struct listener main, admin;
    struct loop loops[];
};

/* --- what came in ----------------------------------------------------------------------------------------------------------------- */

static enum MHD_Result read_header(void *arg, enum MHD_ValueKind kind, const char *key, size_t key_bytes, const char *value,
                                   size_t value_bytes)
{
    struct head_reading *r = arg;

    (void)kind;
    if (r->end)
        head_follows(r, key, value + value_bytes);
    head_line(r, key, key_bytes, value, value ? value_bytes : 0);
    return MHD_YES;
}

/* Nobody reads them, but the library takes them apart in a copy. */
static enum MHD_Result weigh_cookie(void *arg, enum MHD_ValueKind kind, const char *key, size_t key_bytes, const char *value, size_t value_bytes)
{
    enum { BETWEEN = 3 }; /* "=", "; " */
    size_t *bytes = arg;

    (void)kind;
    (void)key;
    (void)value;
    *bytes += POOL_LINE_BYTES + key_bytes + value_bytes + BETWEEN;
    return MHD_YES;
}

/* Of 0.9.75; what stands behind the last value's zero is the message's end, an empty line. */
static const bool lines_stay = MHD_VERSION < 0x01000000;

/* What the caller sent comes back. */
static size_t echoed_bytes(const struct head *head)
{
    const char *const texts[] = {head->id, head->trace, head->origin};
    size_t n = 0;

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        n += texts[i] ? strlen(texts[i]) + 100 : 0;
    return n;
}

/* false: the library has no room left for the header lines of an answer, and would close the connection without one. */
static bool read_head(struct MHD_Connection *connection, struct exchange *x, const char *method, const char *version, const char *url,
                      struct head *ret)
{
    const char *asked = NULL;
    struct head_reading r = {.head = ret, .is_old = !strcmp(version, "HTTP/1.0"), .end = lines_stay ? x->uri_end : NULL};
    size_t cookies = 0;
    int lines;

    *ret = (struct head){.path = head_target((char *)(uintptr_t)url, &asked)}; /* it lies in the library's buffer, which is ours to read once */
    if (r.end) {
        r.hidden = version != r.end + 1;
        r.end = version + strlen(version);
    }
    lines = MHD_get_connection_values_n(connection, MHD_HEADER_KIND, read_header, &r);
    (void)MHD_get_connection_values_n(connection, MHD_COOKIE_KIND, weigh_cookie, &cookies);
    if (r.end && r.end[1])
        r.hidden = true;
    head_end(&r);
    if (asked)
        ret->host = asked;
    return !r.end || (size_t)(r.end - method) + (size_t)lines * POOL_LINE_BYTES + cookies + ANSWER_BYTES + echoed_bytes(ret) <= POOL_BYTES;
}

static struct client *client_of(struct MHD_Connection *connection)
{
    return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

static void enter(struct loop *l, const struct exchange *x, enum client_phase phase)
{
    client_enter(x->client, phase, l->desk.now_ms);
}

/* --- what the library would answer by itself ------------------------------------------------------------------------------------- */

/*
 * It sends a page of HTML to whom it does not understand, some of them with two status lines (0.9.75: connection.c builds the header again where
 * parse_connection_headers() refused). It queues that page by its public function, which it looks up by name like everybody: the one below is found first,
 * writes a problem to the socket and says MHD_NO, on which the library closes the connection. Where a library was linked so that it finds its own
 * (-Bsymbolic), its pages go out. Calls of ours take the library's function from `queue`.
 */
static enum MHD_Result (*queue)(struct MHD_Connection *connection, unsigned status, struct MHD_Response *response);
static _Thread_local struct loop *loop_of_thread;

static void write_refusal(struct client *c, struct exchange *x, unsigned status)
{
    const char *phrase = MHD_get_reason_phrase_for(status);
    char text[2048];
    size_t n = refusal_write(x, status, phrase, text, sizeof text);

    if (c)
        c->is_refused = n && send(c->fd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n;
}

/* NOLINTNEXTLINE: the library's name */
enum MHD_Result MHD_queue_response(struct MHD_Connection *connection, unsigned int status, struct MHD_Response *response)
{
    struct client *c = client_of(connection);
    struct exchange *x = c ? c->request : NULL;

    (void)response;
    if (!c || (x && (x->answer || x->is_closed)))
        return MHD_NO;
    if (x) {
        write_refusal(c, x, status);
        return MHD_NO;
    }
    x = exchange_new(&loop_of_thread->desk, connection, NULL); /* the request line itself: nobody has heard of it */
    if (!x)
        return MHD_NO;
    write_refusal(c, x, status);
    exchange_closed(x, (int)status, c->is_refused ? "sent" : "left");
    return MHD_NO;
}

/* --- what goes out ---------------------------------------------------------------------------------------------------------------- */

static void add_header(void *arg, const char *name, const char *value)
{
    (void)MHD_add_response_header(arg, name, value);
}

static void give_back(void *answer)
{
    answer_give_back(answer);
}

static const void *body_of(const struct exchange *x, size_t *ret_bytes)
{
    const struct answer *a = x->answer;

    *ret_bytes = x->is_not_modified ? 0 : x->is_packed ? a->packed_bytes : a->bytes;
    return x->is_packed ? a->packed : a->body;
}

/* The answer's own bytes: nothing is copied, and a slow reader keeps his answer and nothing else. */
static struct MHD_Response *response_of(struct exchange *x)
{
    struct MHD_Response *r;
    size_t bytes;
    const void *body = body_of(x, &bytes);

    if (!bytes)
        return MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
    r = MHD_create_response_from_buffer_with_free_callback_cls(bytes, (void *)(uintptr_t)body, give_back, answer_hold(x->answer));
    if (!r)
        answer_give_back(x->answer);
    return r;
}

static unsigned status_of(const struct exchange *x)
{
    return x->is_not_modified ? MHD_HTTP_NOT_MODIFIED : (unsigned)x->answer->status;
}

static enum MHD_Result send_own(struct MHD_Connection *connection, struct exchange *x)
{
    struct MHD_Response *response = response_of(x);
    enum MHD_Result rc;

    if (!response)
        return MHD_NO;
    headers_write_common(x, headers_age_s(x), add_header, response);
    headers_write_own(x, add_header, response);
    rc = queue(connection, status_of(x), response);
    MHD_destroy_response(response);
    return rc;
}

static void unmake(void *made)
{
    MHD_destroy_response(made);
}

/* Under the answer's lock. All header lines are in before another may see it, and none changes: an older age is another response. */
static struct MHD_Response *form_of(struct exchange *x)
{
    struct answer *a = x->answer;
    struct answer_form *form = &a->forms[(x->is_packed ? FORM_PACKED : FORM_WHOLE) + x->is_not_modified];
    uint64_t age_s = headers_age_s(x);
    struct MHD_Response *made;
    size_t bytes;
    const void *body = body_of(x, &bytes);

    if (form->made && form->age_s == age_s)
        return form->made;
    made = MHD_create_response_from_buffer(bytes, (void *)(uintptr_t)body, MHD_RESPMEM_PERSISTENT);
    if (!made)
        return NULL;
    headers_write_common(x, age_s, add_header, made);
    if (form->made)
        MHD_destroy_response(form->made); /* who sends it still, holds it */
    a->unmake = unmake;
    *form = (struct answer_form){made, age_s};
    return made;
}

/* The exchange holds the answer until its last byte is out. Queueing only counts the response: the lock is short. */
static enum MHD_Result send_form(struct MHD_Connection *connection, struct exchange *x)
{
    enum MHD_Result rc = MHD_NO;
    struct MHD_Response *form;

    pthread_mutex_lock(&x->answer->lock);
    form = form_of(x);
    if (form)
        rc = queue(connection, status_of(x), form);
    pthread_mutex_unlock(&x->answer->lock);
    return rc;
}

/* The library asks for more when what it had is out. A part takes no longer than an answer may. */
static ssize_t read_more(void *arg, uint64_t at, char *into, size_t room)
{
    struct exchange *x = arg;
    struct client *c = client_of(x->connection);
    unsigned part = exchange_part(x);
    ssize_t n = exchange_more(x, into, room);

    (void)at;
    if (n == 0)
        MHD_suspend_connection(x->connection);
    if (c && (n == 0 || c->phase != CLIENT_SENDING || part != exchange_part(x)))
        client_enter(c, n ? CLIENT_SENDING : CLIENT_WAITING, x->desk->now_ms);
    return n < 0 ? MHD_CONTENT_READER_END_OF_STREAM : n;
}

static void let_go(void *arg)
{
    exchange_let_go(arg);
}

enum { STREAM_BYTES = 16 << 10 };

static enum MHD_Result send_stream(struct MHD_Connection *connection, struct exchange *x)
{
    struct MHD_Response *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BYTES, read_more, x, let_go);
    enum MHD_Result rc;

    if (!response)
        return MHD_NO;
    exchange_hold(x);
    headers_write_common(x, 0, add_header, response);
    headers_write_own(x, add_header, response);
    rc = queue(connection, status_of(x), response);
    MHD_destroy_response(response);
    return rc;
}

static enum MHD_Result send_answer(struct loop *l, struct MHD_Connection *connection, struct exchange *x)
{
    if (!x->answer)
        return MHD_NO;
    enter(l, x, CLIENT_SENDING);
    if (x->is_streaming)
        return send_stream(connection, x);
    headers_decide(x);
    return headers_are_common(x) ? send_form(connection, x) : send_own(connection, x);
}

/* --- the library's calls ---------------------------------------------------------------------------------------------------------- */

/*
 * 0.9.75 would make a list of the query's parameters in the connection's pool, and where they are too many for it, goes on reading a connection that it has
 * closed: a null pointer. Nobody reads that list (exchange.c has its copy), so that the query ends here for the library. The text lies in its own buffer.
 */
static void hide_query(const char *uri)
{
    char *mark = uri ? strchr((char *)(uintptr_t)uri, '?') : NULL;

    if (mark && mark[1])
        mark[1] = 0;
}

static void *on_request_line(void *arg, const char *uri, struct MHD_Connection *connection)
{
    struct loop *l = arg;
    struct client *c = client_of(connection);
    struct exchange *x = exchange_new(&l->desk, connection, uri);

    client_enter(c, CLIENT_READING, l->desk.now_ms);
    if (x) {
        x->client = c;
        x->uri_end = uri ? uri + strlen(uri) : NULL;
    }
    hide_query(uri);
    if (c)
        c->request = x;
    return x;
}

static enum MHD_Result begin(struct loop *l, struct MHD_Connection *connection, struct exchange *x, const char *url, const char *method,
                             const char *version)
{
    struct client *c = x->client;
    struct head head;

    if (!read_head(connection, x, method, version, url, &head)) {
        write_refusal(c, x, MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE);
        return MHD_NO;
    }
    head.address = c ? c->address : "";
    head.crowding = crowd_of(l->crowd, c);
    return exchange_begin(x, method, &head) == NEXT_SEND ? send_answer(l, connection, x) : MHD_YES;
}

/* Suspended first: from then on anybody may have the answer ready. */
static enum MHD_Result ask(struct loop *l, struct MHD_Connection *connection, struct exchange *x)
{
    if (exchange_ask(x) == NEXT_SEND)
        return send_answer(l, connection, x);
    enter(l, x, CLIENT_WAITING);
    MHD_suspend_connection(connection);
    exchange_go_on(x);
    return MHD_YES;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                  const char *data, size_t *data_bytes, void **context)
{
    struct exchange *x = *context;
    struct loop *l = arg;

    if (!x)
        return MHD_NO;
    if (!x->has_begun)
        return begin(l, connection, x, url, method, version);
    if (*data_bytes) {
        exchange_append(x, data, *data_bytes);
        *data_bytes = 0;
        return MHD_YES;
    }
    return x->is_answered ? send_answer(l, connection, x) : ask(l, connection, x);
}

static const char *end_of(const struct client *c, enum MHD_RequestTerminationCode code)
{
    if (c && (c->is_cut || c->is_gone))
        return c->is_gone ? "left" : "cut";
    if (c && c->is_refused)
        return "sent";
    return code == MHD_REQUEST_TERMINATED_COMPLETED_OK ? "sent" : code == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN ? "closed" : "left";
}

static void on_completed(void *arg, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code)
{
    const union MHD_ConnectionInfo *status;
    struct exchange *x = *context;
    struct loop *l = arg;
    struct client *c;

    if (!x)
        return;
    c = x->client;
    status = x->answer ? NULL : MHD_get_connection_info(connection, MHD_CONNECTION_INFO_HTTP_STATUS);
    exchange_closed(x, status ? (int)status->http_status : 0, end_of(c, code));
    *context = NULL;
    if (c)
        c->request = NULL;
    client_enter(c, CLIENT_IDLE, l->desk.now_ms);
}

static void on_open(struct loop *l, struct MHD_Connection *connection, void **context)
{
    int fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
    struct client *c =
        client_new(&l->clients, fd, MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr, l->desk.now_ms);

    *context = c;
    if (c)
        crowd_join(l->crowd, l->clients, c, l->desk.now_ms);
}

static void on_connection(void *arg, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode code)
{
    struct loop *l = arg;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        on_open(l, connection, context);
        return;
    }
    if (*context)
        crowd_leave(l->crowd, *context);
    client_free(*context);
    *context = NULL;
}

/* --- the loop --------------------------------------------------------------------------------------------------------------------- */

/* What was resumed is sent at once: in external mode nothing wakes the library for it. */
static void turn(struct loop *l)
{
    struct exchange *ready;

    l->desk.now_ms = clock_ms();
    do {
        MHD_run(l->daemon);
        ready = desk_turn(&l->desk);
        for (struct exchange *x = ready, *next; x; x = next) {
            next = x->next;
            MHD_resume_connection(x->connection);
        }
    } while (ready);
}

static void sweep(struct loop *l)
{
    const struct options *o = l->h->service->o;
    uint64_t deadline_ms = o->deadline_s * 1000ull, idle_ms = o->idle_s * 1000ull;

    l->swept_ms = l->desk.now_ms;
    atomic_store(&l->alive_ms, l->swept_ms);
    clients_cut(l->clients, l->desk.now_ms, idle_ms, deadline_ms);
    if (l->desk.now_ms > deadline_ms) /* the clock may have begun at boot, a moment ago */
        desk_refuse(&l->desk, (l->desk.now_ms - deadline_ms) * 1000, ERR_OVERLOADED,
                    "the answer took longer than the service grants a request");
    memory_trim_if_due();
}

/* The library does not look at a connection that is suspended. */
static void drop_leavers(struct loop *l)
{
    l->looked_ms = l->desk.now_ms;
    for (struct exchange *x = l->desk.waiting, *next; x; x = next) {
        struct client *c = client_of(x->connection);

        next = x->next;
        if (!client_has_left(MHD_get_connection_info(x->connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd))
            continue;
        if (c)
            c->is_gone = true;
        desk_drop(x);
    }
}

static bool has_ended(struct httpd *h, unsigned loops)
{
    return atomic_load(&h->ended) >= loops;
}

/* Who was let in by the system and not yet by us has his request on its way: he would read a reset. */
static void close_door(struct loop *l)
{
    for (unsigned i = 0; i < TURNS_AT_THE_DOOR && listen_waits(l->listen_fd); i++)
        turn(l);
    (void)MHD_quiesce_daemon(l->daemon);
    close(l->listen_fd);
    l->listen_fd = -1;
    l->is_quiet = true;
    l->quiet_ms = l->desk.now_ms;
}

/* Probes see a drain to its end. */
static void follow_phase(struct loop *l)
{
    enum phase phase = atomic_load(&l->h->phase);

    if (phase >= PHASE_DRAIN && !l->is_quiet && (!l->desk.is_admin || has_ended(l->h, l->h->mains)))
        close_door(l);
    if (phase >= PHASE_REFUSE && !l->desk.is_refusing) {
        l->desk.is_refusing = true;
        l->refused_ms = l->desk.now_ms;
        desk_refuse(&l->desk, UINT64_MAX, ERR_DRAINING, "the service is going away and the answer was not ready in time");
        turn(l);
    }
}

/* Never with a suspended connection: the library aborts the process then. */
static bool is_over(const struct loop *l)
{
    if (!l->is_quiet || l->desk.waiting || l->desk.ready)
        return false;
    if (l->desk.is_admin)
        return true;
    if (l->clients && l->desk.now_ms - l->quiet_ms < LINGER_MS)
        return false;
    return !l->desk.open || (l->desk.is_refusing && l->desk.now_ms - l->refused_ms >= GRACE_MS);
}

/*
 * 0.9.75 says "at once" for as long as there is a connection whose pool is full of what it cannot use (the extension of a chunk without an end):
 * it would turn for nothing until the deadline. What comes in ends the wait whatever it is.
 */
static unsigned wait_ms(struct loop *l)
{
    unsigned most = atomic_load(&l->h->phase) != PHASE_SERVE ? 50 : l->desk.waiting ? LOOK_MS : SWEEP_MS;
    MHD_UNSIGNED_LONG_LONG ms;

    if (MHD_get_timeout(l->daemon, &ms) != MHD_YES)
        ms = most;
    l->hurried = ms ? 0 : l->hurried + 1;
    if (l->hurried > HURRIED_TURNS)
        ms = 4;
    return ms < most ? (unsigned)ms : most;
}

static void *run(void *arg)
{
    struct loop *l = loop_of_thread = arg;

    l->desk.now_ms = l->swept_ms = l->looked_ms = clock_ms();
    while (!is_over(l)) {
        hub_loop_wait(l->desk.hub, l->epoll_fd, wait_ms(l));
        turn(l);
        if (l->desk.now_ms - l->swept_ms >= SWEEP_MS)
            sweep(l);
        if (l->desk.now_ms - l->looked_ms >= LOOK_MS)
            drop_leavers(l);
        follow_phase(l);
    }
    MHD_stop_daemon(l->daemon);
    l->daemon = NULL;
    while (l->desk.jobs) {
        hub_loop_wait(l->desk.hub, -1, 100);
        (void)desk_turn(&l->desk);
    }
    atomic_store(&l->alive_ms, UINT64_MAX); /* and forever */
    atomic_fetch_add(&l->h->ended, 1);
    return NULL;
}

/* --- life ------------------------------------------------------------------------------------------------------------------------- */

static bool complain(const char *what)
{
    fprintf(stderr, "llmemd: %s\n", what);
    return false;
}

static bool start_loop(struct httpd *h, struct loop *l, const struct listener *at)
{
    const unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME;

    l->h = h;
    l->has_desk = true;
    l->desk.is_admin = at == &h->admin;
    l->desk.is_loopback = at->is_loopback;
    l->crowd = l->desk.is_admin ? &h->service->admin_crowd : &h->service->crowd;
    atomic_store(&l->alive_ms, clock_ms());
    l->listen_fd = fcntl(at->fd, F_DUPFD_CLOEXEC, 3);
    if (!desk_open(&l->desk, h->service) || l->listen_fd < 0)
        return complain("no memory for an event thread");
    l->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, l, MHD_OPTION_LISTEN_SOCKET, l->listen_fd, MHD_OPTION_NOTIFY_COMPLETED,
                                 on_completed, l, MHD_OPTION_NOTIFY_CONNECTION, on_connection, l, MHD_OPTION_URI_LOG_CALLBACK,
                                 on_request_line, l, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)POOL_BYTES, MHD_OPTION_CONNECTION_LIMIT,
                                 l->crowd->max + l->crowd->spare + CUT_AT_ONCE, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
    if (!l->daemon)
        return complain("libmicrohttpd does not start");
    l->epoll_fd = MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
    l->has_thread = thread_start(&l->thread, run, l);
    return l->has_thread || complain("no thread to answer with");
}

/* One that systemd has opened, or else the option's. */
static bool open_listeners(struct httpd *h)
{
    const struct options *o = h->service->o;

    if (!listen_inherit(&h->main, &h->admin))
        return false;
    if (h->main.fd < 0 && !listen_at(&h->main, "--listen", o->listen, o->socket_mode))
        return false;
    if (h->admin.fd < 0 && o->admin_listen && !listen_at(&h->admin, "--admin-listen", o->admin_listen, o->socket_mode))
        return false;
    return !o->admin_only || h->admin.fd >= 0 || complain("--admin-only: there is no admin listener");
}

/* Fewer connections where files are few: a library that cannot accept tries again all the time. */
static bool admit(struct httpd *h)
{
    struct service *s = h->service;
    unsigned others = OTHER_FILES + h->n * LOOP_FILES + SPARE + 2 * ADMIN_CONNECTIONS, hub = h->n * HUB_FILES;
    unsigned files = listen_raise_files(s->o->connections, others + hub);

    if (files < LEAST_CONNECTIONS && files < s->o->connections)
        files = listen_raise_files(s->o->connections, others);
    if (files < LEAST_CONNECTIONS && files < s->o->connections)
        return complain("too few open files are granted (ulimit -n)");
    if (files < s->o->connections)
        fprintf(stderr, "llmemd: %u connections instead of %u: no more open files are granted (ulimit -n)\n", files, s->o->connections);
    service_admit(s, files);
    return true;
}

/* A symbol is data to dlsym(). */
static bool find_queue(void)
{
    void *symbol = dlsym(RTLD_NEXT, "MHD_queue_response");

    memcpy(&queue, &symbol, sizeof queue);
    return symbol || complain("libmicrohttpd is not a shared library");
}

static bool start(struct httpd *h)
{
    bool good = find_queue() && open_listeners(h);

    h->mains = h->n;
    h->n += h->admin.fd >= 0;
    good = good && admit(h);
    for (unsigned i = 0; good && i < h->n; i++)
        good = start_loop(h, &h->loops[i], i < h->mains ? &h->main : &h->admin);
    return good;
}

struct httpd *httpd_start(struct service *s)
{
    unsigned n = s->o->event_threads ? s->o->event_threads : service_cores();
    struct httpd *h = calloc(1, sizeof *h + (n + 1) * sizeof *h->loops);

    if (!h)
        return NULL;
    h->service = s;
    h->n = n;
    h->main.fd = h->admin.fd = -1;
    if (start(h)) {
        fprintf(stderr, "listening on %s\n", h->main.name);
        if (h->admin.fd >= 0)
            fprintf(stderr, "probes and metrics on %s\n", h->admin.name);
        if (isatty(STDERR_FILENO) && !strncmp(h->main.name, "http", 4))
            fprintf(stderr, "open %s/ in a browser; Ctrl-C ends it\n", h->main.name);
        return h;
    }
    httpd_refuse(h);
    httpd_stop(h);
    return NULL;
}

static void enter_phase(struct httpd *h, enum phase phase)
{
    atomic_store(&h->phase, phase);
    for (unsigned i = 0; i < h->n; i++)
        if (h->loops[i].has_thread)
            hub_loop_wake(h->loops[i].desk.hub);
}

void httpd_drain(struct httpd *h)
{
    listen_refuse(&h->main);
    listen_end(&h->main);
    enter_phase(h, PHASE_DRAIN);
}

void httpd_refuse(struct httpd *h)
{
    enter_phase(h, PHASE_REFUSE);
}

bool httpd_has_ended(struct httpd *h)
{
    return has_ended(h, h->n);
}

bool httpd_is_alive(struct httpd *h)
{
    uint64_t now_ms = clock_ms();
    bool alive = true;

    for (unsigned i = 0; i < h->n; i++)
        alive &= now_ms < STUCK_MS || atomic_load(&h->loops[i].alive_ms) > now_ms - STUCK_MS;
    return alive;
}

void httpd_stop(struct httpd *h)
{
    for (unsigned i = 0; i < h->n; i++) {
        struct loop *l = &h->loops[i];

        if (l->has_thread)
            pthread_join(l->thread, NULL);
        else if (l->daemon)
            MHD_stop_daemon(l->daemon); /* closes its socket too */
        else if (l->has_desk && l->listen_fd >= 0)
            close(l->listen_fd);
        if (l->has_desk)
            desk_close(&l->desk);
    }
    listen_end(&h->main);
    listen_end(&h->admin);
    free(h);
}
