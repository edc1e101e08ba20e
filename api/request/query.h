/*
 * query.h - what follows the '?' of a URL.
 *
 * Purpose   "model=gpt2&lora.rank=16" as names and values, and as the JSON document that a POST would have sent.
 * Rules     application/x-www-form-urlencoded: '+' is a blank, %XX a byte; the result is UTF-8 without control characters. A parameter
 *           without a value is left out, as an empty field of a form is.
 * Errors    ERR_REQUEST for what is no query string; ERR_FIELD_CONFLICT for a parameter given twice.
 * Owner     everything lives in the arena.
 */
#ifndef API_REQUEST_QUERY_H
#define API_REQUEST_QUERY_H

#include "api/decode/decode.h"
#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

enum { QUERY_MAX = 256 }; /* parameters */

struct parameter {
    const char *name, *value;
    const char *plus; /* the value with each '+' as it stood: "tp+fsdp2" is not two words */
};

struct query {
    uint32_t n;
    const struct parameter *v;
};

/* text: NULL or "" is no parameter. */
MUST_CHECK enum err_code query_read(const char *text, struct arena *arena, struct query *ret, struct err *err);

/* The value of a parameter by its name; NULL: it is not there. Of two the last counts. */
const char *query_value(const struct query *q, const char *name);

/*
 * A member's place by its name in a query: its own name ("seq_len") where it is looked for in the table itself and then in the
 * table's objects in their order, or a path of names ("training.seq_len", "lora.rank").
 */
enum { PLACE_DEPTH = 4 };

struct place {
    const struct member *row[PLACE_DEPTH];
    unsigned depth;   /* 0: no such member */
    const char *rest; /* of the name, beyond the last row: within a JSON document of the caller's, or unknown; "" */
};

enum { POINTER_BYTES = 192 };
void place_pointer(const struct place *p, char text[POINTER_BYTES]); /* "/training/lora/rank" */
struct place place_find(const struct member *members, const char *name);

/* The document as text; parameters named in `except` (joined by '|') are no members. */
MUST_CHECK enum err_code query_document(const struct query *q, const struct member *members, const char *except, struct arena *arena,
                                        struct json **ret, const char **ret_parameter, struct err *err);

/* The parameter that put what `pointer` names; else the name that would: "gpu" for "/cluster/gpu". NULL for the whole document. */
/* The shortest name that a query has for a member: "seq_len" of "/training/seq_len". */
const char *query_name(const struct member *members, const char *pointer, struct arena *arena);

const char *query_blame(const struct query *q, const struct member *members, const char *pointer, struct arena *arena);

#endif
