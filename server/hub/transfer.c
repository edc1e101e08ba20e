#include "server/hub/transfer.h"

#include "server/clock.h"
#include "server/hub/hop.h"
#include "server/hub/name.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOPS_MAX = 5, HEADERS_MAX = 64 << 10, CONNECTIONS_MAX = 32, IDLE_HANDLES = 16 };

struct transfers {
    CURLM *multi;
    struct transfer_options o;
    bool ca_is_dir;
    struct transfer *open;
    CURL *idle[IDLE_HANDLES]; /* reused, with their buffers */
    unsigned n_idle;
    bool is_due; /* since the last wait: a socket of a transfer is ready */
    int wake_fd; /* curl's own wakes curl_multi_poll() alone */
    int set, waited_fd; /* an epoll of it and of the caller's, which costs less than poll() where most waits are short */
    atomic_bool is_woken;
};

struct transfer {
    struct transfers *of;
    struct transfer *prev, *next;
    CURL *easy;
    CURLU *url, *home; /* where it is, and the endpoint */
    struct curl_slist *headers;
    bool has_token, lacks; /* lacks: a descriptor, for this hop */
    char token[1040], etag[144], known[41];
    size_t max_bytes;
    unsigned hops;
    uint64_t ends_ms;
    struct reply reply;
    transfer_done *done;
    void *arg;
};

bool transfer_library_open(void)
{
    return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

void transfer_library_close(void)
{
    curl_global_cleanup();
}

/* --- where a hop may lead --------------------------------------------------------------------------------------------------------- */

static bool origin_of(CURLU *url, struct origin *o)
{
    *o = (struct origin){0};
    return !curl_url_get(url, CURLUPART_SCHEME, &o->scheme, 0) && !curl_url_get(url, CURLUPART_HOST, &o->host, 0) &&
           !curl_url_get(url, CURLUPART_PORT, &o->port, CURLU_DEFAULT_PORT);
}

static void origin_release(struct origin *o)
{
    curl_free(o->scheme);
    curl_free(o->host);
    curl_free(o->port);
}

static bool has_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    bool has = !curl_url_get(url, part, &text, 0);

    curl_free(text);
    return has;
}

/* Moves x->url to its reply's Location. NULL, or what is wrong. */
static const char *move_to_location(struct transfer *x)
{
    struct origin home, from, to;
    const char *fault;

    if (x->reply.location_bad || !x->reply.location[0])
        return "without a usable Location";
    fault = origin_of(x->home, &home) && origin_of(x->url, &from) ? NULL : "from nowhere";
    if (fault) /* cannot be: both were parsed before */
        return fault;
    if (curl_url_set(x->url, CURLUPART_URL, x->reply.location, 0)) /* none but supported schemes; relative ones are resolved */
        fault = "to something that is no http address";
    to = (struct origin){0};
    if (!fault && !origin_of(x->url, &to))
        fault = "to nowhere";
    if (!fault && (has_part(x->url, CURLUPART_USER) || has_part(x->url, CURLUPART_PASSWORD)))
        fault = "to an address with a user's name in it";
    if (!fault)
        fault = hop_fault(&home, &from, &to);
    if (!fault && !origin_same(&home, &to))
        x->reply.away = true; /* for good: who sends us back gets no token either */
    origin_release(&home);
    origin_release(&from);
    origin_release(&to);
    return fault;
}

const char *transfer_endpoint_fault(const char *endpoint)
{
    CURLU *url = curl_url();
    struct origin o = {0};
    const char *fault = NULL;

    if (!url)
        return "no memory";
    if (curl_url_set(url, CURLUPART_URL, endpoint, 0) || !origin_of(url, &o))
        fault = "not an address, like https://huggingface.co";
    else if (has_part(url, CURLUPART_USER) || has_part(url, CURLUPART_QUERY) || has_part(url, CURLUPART_FRAGMENT))
        fault = "may have neither a user, nor a query, nor a fragment";
    else if (strcasecmp(o.scheme, "https") != 0 && (strcasecmp(o.scheme, "http") != 0 || !is_loopback(o.host)))
        fault = "must be https; plain http only on loopback";
    origin_release(&o);
    curl_url_cleanup(url);
    return fault;
}

/* --- what comes in ------------------------------------------------------------------------------------------------------------------ */

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct transfer *x = arg;
    struct rate rate = x->reply.rate;

    reply_line(&x->reply, line, size * n);
    if (x->reply.away)
        x->reply.rate = rate; /* another host's quota is not the hub's */
    if (x->reply.header_bytes <= HEADERS_MAX)
        return size * n;
    reply_fail(&x->reply, FAULT_TOO_LARGE, "its headers are longer than 64 KiB");
    return 0;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct transfer *x = arg;

    return reply_body(&x->reply, data, size * n, x->max_bytes) ? size * n : 0;
}

/* Without a descriptor libcurl says that the host was not reached: that is ours, and no reason to leave the hub alone. */
static curl_socket_t on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct transfer *x = arg;
    int fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);

    (void)purpose;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
        x->lacks = true;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* --- one hop ------------------------------------------------------------------------------------------------------------------------ */

static bool add_header(struct transfer *x, const char *name, const char *value)
{
    char line[1100];
    struct curl_slist *longer;

    (void)snprintf(line, sizeof line, "%s: %s", name, value);
    longer = curl_slist_append(x->headers, line);
    x->headers = longer ? longer : x->headers;
    return longer;
}

static bool set_headers(struct transfer *x)
{
    char quoted[160], bearer[1060];
    bool ok = true;

    curl_slist_free_all(x->headers);
    x->headers = NULL;
    (void)snprintf(quoted, sizeof quoted, "\"%s\"", x->etag);
    (void)snprintf(bearer, sizeof bearer, "Bearer %s", x->token);
    ok = add_header(x, "Accept", "application/json, text/plain, */*");
    if (ok && x->etag[0])
        ok = add_header(x, "If-None-Match", quoted);
    if (ok && x->has_token && !x->reply.away)
        ok = add_header(x, "Authorization", bearer);
    return ok && !curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->headers);
}

/* What is on this machine is asked directly, whatever proxy the environment names. */
static bool set_proxy(struct transfer *x)
{
    char *host = NULL;
    bool ok = !curl_url_get(x->url, CURLUPART_HOST, &host, 0) && !curl_easy_setopt(x->easy, CURLOPT_PROXY, is_loopback(host) ? "" : NULL);

    curl_free(host);
    return ok;
}

/* Whatever differs between hops; the rest was set once. */
static bool begin_hop(struct transfer *x)
{
    uint64_t now = clock_ms();
    char *url = NULL;
    bool ok;

    if (now >= x->ends_ms) {
        reply_fail(&x->reply, FAULT_TIMEOUT, "it did not answer in time");
        return false;
    }
    reply_release(&x->reply);
    x->lacks = false;
    ok = set_headers(x) && set_proxy(x) && !curl_url_get(x->url, CURLUPART_URL, &url, 0) && !curl_easy_setopt(x->easy, CURLOPT_URL, url) &&
         !curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)(x->ends_ms - now)) && !curl_multi_add_handle(x->of->multi, x->easy);
    curl_free(url);
    if (!ok)
        reply_fail(&x->reply, FAULT_MEMORY, "no memory for a request");
    return ok;
}

/* What is the same for every request of these transfers. */
static void set_up(struct transfers *t, CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP09_ALLOWED, 0L);
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);               /* else a name server that is silent is waited for, on this thread */
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L); /* a proxy's are not the hub's */
    curl_easy_setopt(easy, CURLOPT_ACCEPT_ENCODING, "gzip");
    curl_easy_setopt(easy, CURLOPT_USERAGENT, t->o.user_agent);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)t->o.connect_ms);
    if (t->o.ca)
        curl_easy_setopt(easy, t->ca_is_dir ? CURLOPT_CAPATH : CURLOPT_CAINFO, t->o.ca);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
}

static CURL *easy_take(struct transfers *t)
{
    CURL *easy = t->n_idle ? t->idle[--t->n_idle] : curl_easy_init();

    if (easy)
        set_up(t, easy);
    return easy;
}

static void easy_give(struct transfers *t, CURL *easy)
{
    if (t->n_idle < IDLE_HANDLES) {
        curl_easy_reset(easy);
        t->idle[t->n_idle++] = easy;
    } else {
        curl_easy_cleanup(easy);
    }
}

/* --- one transfer --------------------------------------------------------------------------------------------------------------------- */

static void transfer_free(struct transfer *x)
{
    if (x->easy)
        easy_give(x->of, x->easy);
    curl_slist_free_all(x->headers);
    curl_url_cleanup(x->url);
    curl_url_cleanup(x->home);
    reply_release(&x->reply);
    explicit_bzero(x->token, sizeof x->token);
    free(x);
}

static void open_link(struct transfer *x)
{
    struct transfers *t = x->of;

    x->next = t->open;
    if (x->next)
        x->next->prev = x;
    t->open = x;
}

static void open_unlink(struct transfer *x)
{
    *(x->prev ? &x->prev->next : &x->of->open) = x->next;
    if (x->next)
        x->next->prev = x->prev;
}

static bool prepare(struct transfer *x, const struct transfer_request *rq)
{
    x->easy = easy_take(x->of);
    x->url = curl_url();
    x->home = curl_url();
    if (!x->easy || !x->url || !x->home || curl_url_set(x->home, CURLUPART_URL, x->of->o.endpoint, 0) ||
        curl_url_set(x->url, CURLUPART_URL, rq->url, 0))
        return false;
    curl_easy_setopt(x->easy, CURLOPT_PRIVATE, x);
    curl_easy_setopt(x->easy, CURLOPT_HEADERDATA, x);
    curl_easy_setopt(x->easy, CURLOPT_WRITEDATA, x);
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, on_socket);
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETDATA, x);
    return begin_hop(x);
}

struct transfer *transfer_start(struct transfers *t, const struct transfer_request *rq, transfer_done *done, void *arg)
{
    struct transfer *x = calloc(1, sizeof *x);

    if (!x)
        return NULL;
    x->of = t;
    x->done = done;
    x->arg = arg;
    x->max_bytes = rq->max_bytes;
    x->ends_ms = clock_ms() + t->o.total_ms;
    x->has_token = rq->token;
    (void)snprintf(x->token, sizeof x->token, "%s", rq->token ? rq->token : "");
    (void)snprintf(x->etag, sizeof x->etag, "%s", rq->etag ? rq->etag : "");
    (void)snprintf(x->known, sizeof x->known, "%s", rq->known_commit ? rq->known_commit : "");
    reply_init(&x->reply);
    if (!prepare(x, rq)) {
        transfer_free(x);
        return NULL;
    }
    open_link(x);
    return x;
}

void transfer_cancel(struct transfer *x)
{
    curl_multi_remove_handle(x->of->multi, x->easy);
    open_unlink(x);
    transfer_free(x);
}

/* The reply changes hands; the transfer is gone before the call, which may start others. */
static void finish(struct transfer *x)
{
    struct reply reply = x->reply;
    transfer_done *done = x->done;
    void *arg = x->arg;

    x->reply.body = NULL;
    open_unlink(x);
    transfer_free(x);
    done(arg, &reply);
}

/* --- when a hop has ended --------------------------------------------------------------------------------------------------------------- */

static bool was_connected(CURL *easy)
{
    curl_off_t us = 0;

    return !curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &us) && us > 0;
}

static enum reply_fault fault_of(CURLcode code, CURL *easy)
{
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return was_connected(easy) ? FAULT_TIMEOUT : FAULT_UNREACHABLE;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_CERTPROBLEM:
        return FAULT_UNREACHABLE;
    case CURLE_OUT_OF_MEMORY:
    case CURLE_FAILED_INIT:
        return FAULT_MEMORY;
    default:
        return FAULT_CUT;
    }
}

/* true: it goes on to another place. */
static bool follow(struct transfer *x)
{
    const char *wrong = x->hops++ < HOPS_MAX ? move_to_location(x) : "too often";
    char why[120];

    if (!wrong)
        return begin_hop(x);
    (void)snprintf(why, sizeof why, "it redirects %s", wrong);
    reply_fail(&x->reply, FAULT_REDIRECT, why);
    return false;
}

static void on_hop(struct transfer *x, CURLcode code)
{
    struct reply *r = &x->reply;

    if (code)
        reply_fail(r, x->lacks ? FAULT_MEMORY : fault_of(code, x->easy), x->lacks ? "no file descriptor" : curl_easy_strerror(code));
    else if (!r->whole)
        reply_fail(r, FAULT_CUT, "the connection was cut within the headers"); /* no error to libcurl */
    curl_multi_remove_handle(x->of->multi, x->easy);
    code = r->fault != FAULT_NONE ? CURLE_RECV_ERROR : code;
    r->unchanged = !code && x->etag[0] && r->status == 304;
    if (!code && reply_is_redirect(r) && x->known[0] && !r->commit_bad && !r->error_code[0] && !strcmp(r->commit, x->known))
        r->unchanged = true;
    else if (!code && reply_is_redirect(r) && follow(x))
        return;
    finish(x);
}

/* --- all of them --------------------------------------------------------------------------------------------------------------------- */

static bool watch(struct transfers *t, int what, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};

    return !epoll_ctl(t->set, what, fd, &e);
}

struct transfers *transfers_new(const struct transfer_options *o)
{
    struct transfers *t = calloc(1, sizeof *t);
    struct stat s;

    if (!t)
        return NULL;
    t->o = *o;
    t->ca_is_dir = o->ca && !stat(o->ca, &s) && S_ISDIR(s.st_mode);
    t->multi = curl_multi_init();
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->set = epoll_create1(EPOLL_CLOEXEC);
    t->waited_fd = -1;
    if (!t->multi || t->wake_fd < 0 || t->set < 0 || !watch(t, EPOLL_CTL_ADD, t->wake_fd)) {
        transfers_free(t);
        return NULL;
    }
    curl_multi_setopt(t->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
    return t;
}

void transfers_free(struct transfers *t)
{
    for (struct transfer *x = t->open, *next; x; x = next) {
        next = x->next;
        transfer_cancel(x);
    }
    while (t->n_idle)
        curl_easy_cleanup(t->idle[--t->n_idle]);
    curl_multi_cleanup(t->multi);
    if (t->wake_fd >= 0)
        close(t->wake_fd);
    if (t->set >= 0)
        close(t->set);
    free(t);
}

static void drain_wake(struct transfers *t)
{
    eventfd_t n;

    (void)eventfd_read(t->wake_fd, &n);
}

/* Most of the time the hub is asked nothing: then curl has no socket, and no say. */
static void wait_alone(struct transfers *t, int fd, unsigned timeout_ms)
{
    struct epoll_event ready[2];
    int n;

    if (fd != t->waited_fd) {
        (void)watch(t, EPOLL_CTL_DEL, t->waited_fd); /* gone already, if it was closed */
        t->waited_fd = fd < 0 || watch(t, EPOLL_CTL_ADD, fd) ? fd : -1;
    }
    n = epoll_wait(t->set, ready, 2, (int)timeout_ms);
    while (n-- > 0)
        if (ready[n].data.fd == t->wake_fd)
            drain_wake(t);
}

void transfers_wait(struct transfers *t, int fd, unsigned timeout_ms)
{
    struct curl_waitfd also[] = {{.fd = t->wake_fd, .events = CURL_WAIT_POLLIN}, {.fd = fd, .events = CURL_WAIT_POLLIN}};
    int n = 0;

    if (!t->open) {
        wait_alone(t, fd, timeout_ms);
        return;
    }
    (void)curl_multi_poll(t->multi, also, 1 + (fd >= 0), (int)timeout_ms, &n);
    t->is_due |= n > (also[0].revents != 0) + (also[1].revents != 0);
    if (also[0].revents)
        drain_wake(t);
}

/* A socket of a transfer is ready, or a timer: one that begins has a timer that is over. */
static bool is_due(struct transfers *t)
{
    bool due = t->is_due;
    long ms;

    t->is_due = false;
    return due || curl_multi_timeout(t->multi, &ms) || ms == 0;
}

void transfers_turn(struct transfers *t)
{
    struct transfer *x;
    const CURLMsg *m;
    int running, left;

    if (!is_due(t))
        return; /* it would look at every open transfer, each time that anybody asks this server something */
    (void)curl_multi_perform(t->multi, &running);
    while ((m = curl_multi_info_read(t->multi, &left))) {
        CURLcode code = m->data.result; /* gone once the handle is removed */

        if (m->msg == CURLMSG_DONE && !curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&x))
            on_hop(x, code);
    }
}

void transfers_wake(struct transfers *t)
{
    if (!atomic_exchange(&t->is_woken, true))
        (void)eventfd_write(t->wake_fd, 1);
}

bool transfers_have_news(struct transfers *t)
{
    /* Set by another at this moment, it ends the next wait. */
    bool woken = atomic_load_explicit(&t->is_woken, memory_order_relaxed) && atomic_exchange(&t->is_woken, false);

    return woken || t->open;
}
