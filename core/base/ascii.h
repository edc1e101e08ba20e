/*
 * ascii.h - characters as the C locale sees them, whatever the locale.
 */
#ifndef BASE_ASCII_H
#define BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline char ascii_upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

/* The first n characters of `a` are those of `b`, whatever their case. */
static inline bool ascii_begins(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!a[i] || ascii_lower(a[i]) != ascii_lower(b[i]))
            return false;
    return true;
}

static inline bool ascii_digit(char c)
{
    return c >= '0' && c <= '9';
}

#endif
