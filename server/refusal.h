/*
 * refusal.h - a whole answer as bytes, for a request that the library could not read.
 */
#ifndef SERVER_REFUSAL_H
#define SERVER_REFUSAL_H

#include "server/exchange.h"

/* Makes x->answer the problem of that status and writes it, status line and header lines included; what follows is the end of the connection.
 * The bytes; 0: no memory, or no room. */
size_t refusal_write(struct exchange *x, unsigned status, const char *phrase, char *into, size_t room);

#endif
