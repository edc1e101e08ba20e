/*
 * sha256.h - a file by what it holds. FIPS 180-4.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>

enum { SHA256_TEXT = 65 }; /* 64 hex digits and a zero */

void sha256(const void *data, size_t bytes, char ret[SHA256_TEXT]);

#endif
