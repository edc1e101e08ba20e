/*
 * json_scan.h - the check that stands before json_parse's tree. Only json.c includes this.
 */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include "base/err.h"
#include "base/json_limits.h"

/*
 * ERR_OK when the text is what json.h describes. *ret_skip: bytes of byte order mark before it. *ret_python_floats: how many NaN,
 * Infinity and -Infinity are in it.
 */
MUST_CHECK enum err_code json_scan(const char *text, size_t bytes, const struct json_limits *limits, size_t *ret_skip,
                                   size_t *ret_python_floats, struct err *err);

#endif
