/*
 * number.h - numbers as Python reads and writes them, whatever the locale.
 */
#ifndef SCRIPT_NUMBER_H
#define SCRIPT_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_what { NUMBER_OK, NUMBER_BAD, NUMBER_BIG /* beyond 64 bits */ };

/* Digits, with 0x, 0o, 0b where base is 0 or that; a sign. No blanks, no underscores. */
enum number_what number_int(const char *text, size_t n, int base, int64_t *ret);
bool number_double(const char *text, size_t n, double *ret); /* correctly rounded; also inf, infinity, nan */
size_t number_repr(double f, char *text);                    /* as repr(); at most 32 bytes and a zero */
bool strpbrk_any(const char *text, const char *any);         /* one of `any` is in it */
size_t utf8_put(char *to, uint32_t code_point);              /* 1..4 bytes */

/* [[fill]align][sign][#][0][width][,][.precision][type] */
struct number_spec {
    char fill[5];
    char align, sign, type, group;
    bool alternate, zero;
    uint32_t width;
    int precision; /* -1: none */
};
bool number_spec(const char *text, size_t n, struct number_spec *ret);
/* The bytes of f, or of i, under a spec, without its width. At most 400 and a zero; 0: the type does not fit. */
size_t number_format_double(double f, const struct number_spec *spec, char *text, size_t room);
size_t number_format_int(int64_t i, const struct number_spec *spec, char *text, size_t room);

#endif
