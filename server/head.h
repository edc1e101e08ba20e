/*
 * head.h - the header lines that matter here, one after another.
 */
#ifndef SERVER_HEAD_H
#define SERVER_HEAD_H

#include "server/crowd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the headers say; texts live as long as the request does in the adapter. */
struct head {
    const char *path;
    const char *host, *content_type, *token, *id, *origin, *preflight, *if_none_match, *forwarded, *accept, *trace, *encodings, *coding;
    uint64_t length; /* Content-Length; 0: none */
    bool is_chunked;
    bool is_ambiguous;   /* two ways to say, differently, where a body ends or who is asked; a token on two lines */
    const char *address; /* of the peer; NULL: not needed */
    enum crowding crowding; /* when the request came */
};

/*
 * The path of a request's target; NULL stays. Of "http://localhost:8000/gpus", as a proxy is asked (RFC 9112, 3.2.2), what is asked is *ret_host, whatever
 * Host says: it moves to where its slashes stood, and ends in a zero.
 */
const char *head_target(char *target, const char **ret_host);

struct head_reading {
    struct head *head;   /* zero but for the path */
    bool is_old;         /* HTTP/1.0, which has no chunks (RFC 9112, 6.1) */
    unsigned lengths, codings, hosts, tokens;
    bool folded, hidden, odd;
    const char *end; /* where the text before this line ended; NULL: lines do not stand in one piece, or nothing is known of it */
};

/* value: may be NULL, of no bytes. */
void head_line(struct head_reading *r, const char *name, size_t name_bytes, const char *value, size_t value_bytes);

/*
 * libmicrohttpd before 1.0 leaves the lines of a message where they were read and writes zeros over their ends, one for LF and two for CR LF; where the
 * sender has put a zero (or a line goes on in the next) the text ends early for everybody, and what follows does not stand next to it.
 */
void head_follows(struct head_reading *r, const char *text, const char *end);
void head_end(struct head_reading *r);

#endif
