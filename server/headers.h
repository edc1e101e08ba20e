/*
 * headers.h - the header lines of an answer: which, and why.
 */
#ifndef SERVER_HEADERS_H
#define SERVER_HEADERS_H

#include "server/exchange.h"

typedef void header_add(void *arg, const char *name, const char *value);

/* Sets x->is_not_modified: the caller has these bytes already. */
void headers_decide(struct exchange *x);

/* Those of x->answer for this request. */
void headers_write(const struct exchange *x, header_add *add, void *arg);

#endif
