/*
 * rows.h - lists of JSON objects that the build made, one a line, and what a query chooses of them.
 *
 * Rules     ?KEY=VALUE of any member of the objects: equal without case, blanks, - and _, or one of a list. ?q=TEXT: within a name. Both narrow the list.
 * Errors    ERR_UNKNOWN_MEMBER, with the names that are near, for a key that the objects do not have.
 */
#ifndef API_ENDPOINTS_ROWS_H
#define API_ENDPOINTS_ROWS_H

#include "api/call.h"

struct rows {
    const char *key;  /* of the answer: "gpus" */
    const char *text; /* the whole answer: "{\n  \"gpus\": [\n    {..},\n    {..}\n  ]\n}\n" */
};

/* Those that the query chooses; without one all of them, as the build wrote them. */
MUST_CHECK enum err_code rows_give(struct call *c, const struct rows *rows);

/* The i-th alone. */
MUST_CHECK enum err_code rows_give_one(struct call *c, const struct rows *rows, size_t i);

/* Whether the query chooses an object of these members; *ret_known false: there is a parameter that is none of them, c->err says so. */
struct row_member {
    const char *key, *value; /* value NULL: none */
};
bool rows_choose(struct call *c, const struct row_member *members, size_t n, const char *names, bool *ret_known);

/* ?limit=20&offset=40 of a list that is chosen so: which of those that are chosen are written. */
struct rows_page {
    uint64_t offset, limit;
};
MUST_CHECK enum err_code rows_page_read(struct call *c, struct rows_page *ret);
bool rows_page_has(const struct rows_page *p, uint64_t i); /* the i-th of those */

#endif
