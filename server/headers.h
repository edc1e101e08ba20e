/*
 * headers.h - the header lines of an answer: which, and why.
 */
#ifndef SERVER_HEADERS_H
#define SERVER_HEADERS_H

#include "server/exchange.h"

typedef void header_add(void *arg, const char *name, const char *value);

/* Sets x->is_packed: he takes them so, and they are; and x->is_not_modified: he has these bytes already. */
void headers_decide(struct exchange *x);

/* Those of x->answer, whoever asks; an Age of 0 is left out. */
void headers_write_common(const struct exchange *x, uint64_t age_s, header_add *add, void *arg);

/* Those for this request: its id (the caller's, or of an answer that was made for it), its trace, CORS, the end of the connection. */
void headers_write_own(const struct exchange *x, header_add *add, void *arg);

/* headers_write_own() would write none: the answer goes out as it went to others. */
bool headers_are_common(const struct exchange *x);

/* Seconds since a cached answer was made. */
uint64_t headers_age_s(const struct exchange *x);

#endif
