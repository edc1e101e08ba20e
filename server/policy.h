/*
 * policy.h - whom a request may come from and what it may be called: pure functions of header texts.
 */
#ifndef SERVER_POLICY_H
#define SERVER_POLICY_H

#include <stdbool.h>
#include <stddef.h>

/* `list` is joined by commas, NULL: empty. Letters are compared without case. */
bool policy_listed(const char *list, const char *word, size_t bytes);

/* A Host header that a request to this machine alone may carry: else a foreign page has made its own name point here (DNS
 * rebinding). Loopback names and addresses, and those listed; any port. */
bool policy_host_is_ours(const char *host, const char *listed);

/* The value of Access-Control-Allow-Origin, NULL: none. */
const char *policy_origin(const char *origin, const char *listed);

/* Of X-Forwarded-For the hop that our proxy saw: its last. */
void policy_forwarded(const char *header, char *ret, size_t bytes);

/* Whom limits count: an address without its port, of version 6 the /64 that one site has whole, and one of version 4 in the guise of 6 as itself. Any other
 * text stays, cut. */
enum { POLICY_NETWORK_BYTES = 46 };
void policy_network(const char *who, char *ret, size_t bytes);

/* A caller's X-Request-Id that may be echoed and logged as it stands. */
bool policy_id_is_good(const char *id);

/* A W3C traceparent (Trace Context, section 3.2.2): "00-", 32 hexadecimal digits, "-", 16, "-", 2; a later version may go on behind a "-". */
bool policy_trace_is_good(const char *traceparent);

/* Accept-Encoding: gzip is named, or * is, and not with q=0 (RFC 9110, 12.5.3). */
bool policy_takes_gzip(const char *encodings);

enum verb { VERB_GET, VERB_HEAD, VERB_POST, VERB_OPTIONS, VERB_OTHER, VERBS };
enum verb policy_verb(const char *method);

/* Visible ASCII, of a length that a token may have. */
bool policy_method_is_good(const char *method); /* may stand in a log */
bool policy_token_is_good(const char *token);

/* If-None-Match: "a", W/"b" or *. */
bool policy_etag_matches(const char *header, const char *etag);

#endif
