/*
 * size.h - checked arithmetic on bytes and elements, and sizes as people write them.
 */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* false when the result does not fit in 64 bits; *ret is then untouched. */
bool size_add(uint64_t a, uint64_t b, uint64_t *ret);
bool size_mul(uint64_t a, uint64_t b, uint64_t *ret);

/*
 * "80GB" -> 80e9, "79.6GiB", "512 mib", "1.5T", "24Gi", "1024": without case; decimal prefixes are powers of 1000, binary ones
 * ("i") of 1024, no unit means bytes. Fractions of a byte are cut off. false for anything else, a sign or an overflow included.
 */
bool size_parse(const char *text, uint64_t *ret_bytes);

#endif
