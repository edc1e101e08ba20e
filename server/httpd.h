/*
 * httpd.h - the HTTP daemon. httpd.c is the only file that includes microhttpd.h.
 *
 * Purpose   reads requests, hands them to serve(), sends what comes back.
 * Threads   one a connection, most of which sleep; an answer is computed with one of `threads` blocks of memory, and who finds
 *           none waits for one. More connections than the limit wait in the backlog.
 * Refuses   bodies over API_BODY_MAX (413), Content-Length together with Transfer-Encoding or twice, other codings than chunked
 *           (400): libmicrohttpd 0.9.75 lets them through.
 */
#ifndef SERVER_HTTPD_H
#define SERVER_HTTPD_H

#include "server/options.h"

struct httpd;

/* Listens and answers at once. NULL: a line on standard error says why. The line "listening on http://..." follows when ready. */
struct httpd *httpd_start(const struct options *o);

/* Accepts nobody any more. Answers under way go on. */
void httpd_drain(struct httpd *h);

/* Requests that are being read or answered. */
unsigned httpd_active(struct httpd *h);

/* Closes what is left and gives everything back. */
void httpd_stop(struct httpd *h);

#endif
