/*
 * transfer.h - GET from the hub without waiting; transfer.c is the only file that includes curl/curl.h.
 *
 * Purpose   one struct transfers a loop: a curl multi handle whose poll is the loop's. Redirects are followed by hand, so that
 *           each hop is judged: the token goes to the endpoint's own scheme, host and port and, once left, to nobody any more;
 *           http and https only; https never becomes http; from an https endpoint to other hosts by name and port 443 only; from
 *           one on loopback to loopback, or to such.
 * Limits    bytes of a body as unpacked (gzip), of headers, hops, the time to connect, the time of all hops together.
 * Source    huggingface_hub 1.29 file_download.py (_httpx_follow_relative_redirects), libcurl 7.88.
 * Errors    reply.fault, with a clause for people in reply.why. NULL of transfer_start(): no memory.
 * Threads   one each, but transfers_wake().
 */
#ifndef SERVER_HUB_TRANSFER_H
#define SERVER_HUB_TRANSFER_H

#include "server/hub/reply.h"

struct transfers;
struct transfer;

struct transfer_options {
    const char *endpoint, *user_agent; /* live as long as the transfers */
    const char *ca;                    /* file or directory; NULL: the system's */
    unsigned connect_ms, total_ms;
};

struct transfer_request {
    const char *url;
    const char *token;        /* NULL: none */
    const char *etag;         /* If-None-Match; NULL: none */
    const char *known_commit; /* a redirect that names it ends the transfer: `unchanged`; NULL */
    size_t max_bytes;
};

/* Called from transfers_turn(). The reply is the callee's to release; the transfer is gone. */
typedef void transfer_done(void *arg, struct reply *reply);

/* Once a process, before any thread. */
bool transfer_library_open(void);
void transfer_library_close(void);

/* "https://host[:port][/path]", or http on loopback; what is wrong, or NULL. */
const char *transfer_endpoint_fault(const char *endpoint);

struct transfers *transfers_new(const struct transfer_options *o);
void transfers_free(struct transfers *t); /* what is under way ends without a call */

struct transfer *transfer_start(struct transfers *t, const struct transfer_request *rq, transfer_done *done, void *arg);
void transfer_cancel(struct transfer *x); /* no call follows */

void transfers_wait(struct transfers *t, int fd, unsigned timeout_ms);
void transfers_turn(struct transfers *t);
void transfers_wake(struct transfers *t);

/* false: nobody has woken it since the last asking and nothing is under way: a turn would do nothing. */
bool transfers_have_news(struct transfers *t);

#endif
