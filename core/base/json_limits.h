/*
 * json_limits.h - how much JSON one text may hold. Included by json.h.
 */
#ifndef BASE_JSON_LIMITS_H
#define BASE_JSON_LIMITS_H

#include <stdbool.h>
#include <stddef.h>

enum { JSON_MAX_DEPTH = 64 };

struct json_limits {
    size_t bytes;   /* of text */
    unsigned depth; /* of arrays and objects within each other; <= JSON_MAX_DEPTH */
    size_t values;  /* a value costs 64 bytes of memory and more, whatever it cost in text */
    bool python_floats;
    const char *python_within; /* names joined by '|': files that Python wrote, within a request; NULL: none */
};

#endif
