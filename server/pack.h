/*
 * pack.h - gzip of a text in memory (RFC 1952): equal texts give equal bytes. pack.c is the only file that includes zlib.h.
 */
#ifndef SERVER_PACK_H
#define SERVER_PACK_H

#include <stddef.h>

/* Bytes written; 0: they do not fit in `room`, or there is no memory. */
size_t pack_gzip(const char *text, size_t bytes, char *into, size_t room);

#endif
