/*
 * httpd.h - the HTTP daemon. httpd.c is the only file that includes microhttpd.h.
 *
 * Threads   `event_threads` of them, each with a libmicrohttpd daemon of its own in external epoll mode on the shared listening
 *           socket, and a hub_loop whose wait is their only one. Nothing on them waits for a hub, a worker, a disk or a terminal.
 * Deadlines a sweep once a second: a connection without a request for idle_s, and a request that is not read, answered or sent
 *           in deadline_s, is cut or refused. (The library's own timeout starts anew with every byte.)
 * Admin     with --admin-listen one thread more, for /healthz, /readyz and /metrics alone: a full service is seen, and a drain to its end.
 * Refuses   with 503 who comes when too many are open; Content-Length together with Transfer-Encoding or twice, other codings
 *           than chunked (400): libmicrohttpd 0.9.75 lets them through.
 * Life      httpd_drain(): nobody new is accepted. httpd_refuse(): who still waits is told so. Both return at once;
 *           httpd_has_ended() says when the last answer is out.
 */
#ifndef SERVER_HTTPD_H
#define SERVER_HTTPD_H

#include "server/service.h"

struct httpd;

/* Listens and answers at once. NULL: a line on standard error says why. The line "listening on http://..." follows when ready. */
struct httpd *httpd_start(struct service *s);

void httpd_drain(struct httpd *h);
void httpd_refuse(struct httpd *h);
bool httpd_has_ended(struct httpd *h);

/* All event threads turn. */
bool httpd_is_alive(struct httpd *h);

/* Once it has ended: gives everything back. */
void httpd_stop(struct httpd *h);

#endif
