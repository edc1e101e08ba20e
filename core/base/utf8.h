/*
 * utf8.h - is this well-formed UTF-8?
 *
 * Source    RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* Bytes of the well-formed character at p, 1..4; 0 when there is none within `bytes`. */
size_t utf8_char(const char *p, size_t bytes);

#endif
