/*
 * json.h - reads JSON that strangers wrote.
 *
 * Purpose   a whole check before a tree is built: size, depth, number of values, grammar, UTF-8. What passes is RFC 8259.
 *           A UTF-8 byte order mark is skipped.
 *           Duplicate names: the last one wins everywhere, as in Python's json, which writes and reads every config.json.
 *           Python's NaN, Infinity, -Infinity (json.dump, allow_nan): only with limits.python_floats, or within the members that
 *           limits.python_within names. NaN then reads as null.
 *           Refused although grammatical: \u0000 and lone surrogates (no C string, no UTF-8 can hold them), numbers of more
 *           than 63 characters (cJSON copies them into 64 bytes).
 * Errors    ERR_TOO_LARGE, or ERR_JSON with line, column and byte offset in the detail. `at` is "".
 *           ERR_NOMEM when malloc fails.
 * Owner     cJSON's malloc: json_parse's tree is the caller's until json_free. Strings live as long as the tree.
 * Threads   cJSON 1.7.15 writes one static variable on every parse (its error pointer), which nobody here reads.
 *
 * Readers take NULL and answer "absent", so that json_str(json_get(json_get(doc, "a"), "b")) needs no checks between.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include "base/err.h"
#include "base/json_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json; /* one value */

extern const struct json_limits json_limits_request; /* strict but within users' own files */
extern const struct json_limits json_limits_config;  /* with python_floats */

MUST_CHECK enum err_code json_parse(const char *text, size_t bytes, const struct json_limits *limits, struct json **ret, struct err *err);
struct json *json_copy(const struct json *v); /* a document of its own; NULL: no memory */
void json_free(struct json *doc); /* the whole document; NULL is fine */

enum json_type { JSON_ABSENT, JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

enum json_type json_type(const struct json *v);
const char *json_type_name(enum json_type type); /* "a string", for a sentence */

/* The member of an object, names compared byte by byte; NULL when there is none or `object` is no object. */
const struct json *json_get(const struct json *object, const char *name);

/* Elements of an array, members of an object in their order (duplicates included). */
size_t json_count(const struct json *container);
const struct json *json_first(const struct json *container);
const struct json *json_next(const struct json *v);
const char *json_name(const struct json *member); /* NULL for elements */

#define json_each(v, container) for (const struct json *v = json_first(container); v; v = json_next(v))

/* The value, when it has that type; else NULL or false, and *ret untouched. */
const char *json_str(const struct json *v);
bool json_bool(const struct json *v, bool *ret);
bool json_number(const struct json *v, double *ret);   /* 1e999 reads as infinity, as in Python */
bool json_is_float(const struct json *v);              /* a number written with a point or an exponent: of 1 and 1.0 Python makes an int and a float */
bool json_int64(const struct json *v, int64_t *ret);   /* whole and within 2^53, where doubles are exact; 1e3 and 1.0 are whole */
bool json_uint64(const struct json *v, uint64_t *ret); /* the same, and not negative */

/* RFC 7396: null removes, objects merge, all else replaces. Both are objects; `patch` stays as it is. After an error `target` is
 * good for json_free only. */
MUST_CHECK enum err_code json_merge_patch(struct json *target, const struct json *patch, struct err *err);
/* The member of that name of an object, in the place of what it had: a copy. `within`: of a member that is an object itself, where it has one; NULL: of
 * the object. After an error `object` is good for json_free only. */
MUST_CHECK enum err_code json_set(struct json *object, const char *within, const char *name, const struct json *v, struct err *err);

#endif
