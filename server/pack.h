/*
 * pack.h - gzip of a text in memory (RFC 1952): equal texts give equal bytes; and what the build packed, unpacked. pack.c is the only file that
 * includes zlib.h.
 */
#ifndef SERVER_PACK_H
#define SERVER_PACK_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes written; 0: they do not fit in `room`, or there is no memory. */
size_t pack_gzip(const char *text, size_t bytes, char *into, size_t room);

/* What `packed` holds (RFC 1950), which has to be just as many bytes. */
bool pack_open(const char *packed, size_t packed_bytes, char *into, size_t bytes);

#endif
