/*
 * ascii.h - characters as the C locale sees them, whatever the locale.
 */
#ifndef BASE_ASCII_H
#define BASE_ASCII_H

#include <stdbool.h>

static inline char ascii_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static inline bool ascii_digit(char c)
{
    return c >= '0' && c <= '9';
}

#endif
