/*
 * sha256.h - for names of files and of who asked: a token is never kept where its hash is enough.
 *
 * Source    FIPS 180-4.
 */
#ifndef SERVER_HUB_SHA256_H
#define SERVER_HUB_SHA256_H

#include <stddef.h>

enum { SHA256_HEX = 65 };

void sha256_hex(const void *data, size_t bytes, char ret[SHA256_HEX]);

#endif
