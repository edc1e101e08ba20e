/*
 * answer.h - what is sent: immutable, counted, shared by all who send it and by the cache.
 *
 * Owner     answer_new() hands out a count that answer_give_back() returns.
 * Packed    one that stands in the cache and has PACK_LEAST bytes is compressed when first asked so, and sent so from then on, unless
 *           that saves less than half.
 * Forms     what the adapter makes of an answer once and sends often (httpd.c): the whole answer and "not modified", plain and packed, each with its
 *           header lines. It refers to the answer's bytes and holds no count: who sends it holds the answer.
 * Threads   any; the forms under their lock.
 */
#ifndef SERVER_ANSWER_H
#define SERVER_ANSWER_H

#include "api/api.h"

#include <pthread.h>
#include <stdatomic.h>

/* What the server knows of an answer beside api/'s response. */
struct answer_about {
    const char *tier;       /* where its config came from: "hub", "disk"; NULL: it needed none. Constant */
    bool is_private;        /* a token was used: for its owner alone */
    bool is_streamed;       /* its body is not here, and will not be asked for again */
    bool is_kept;           /* stands in the cache */
    bool is_miss;           /* was looked for in the cache */
    uint64_t work_events;   /* that it took */
    unsigned max_age_s;     /* no more than this; what the response says is cut to it */
    unsigned retry_after_s; /* no less */
};

enum { FORM_WHOLE, FORM_NOT_MODIFIED, FORM_PACKED, FORM_PACKED_NOT_MODIFIED, FORMS };

struct answer_form {
    void *made;     /* NULL: not yet */
    uint64_t age_s; /* that it tells */
};

enum { ANSWER_ALIGN = 64 };

struct answer {
    atomic_uint holders;
    int status;
    const char *content_type, *allow, *accept_post; /* constant, or within the answer */
    const char *route, *code, *tier;                /* constant */
    const char *body;
    size_t bytes;
    unsigned retry_after_s;
    uint64_t made_ms, work_events;
    char etag[36];          /* in quotes */
    char cache_control[40];
    char cache_status[64];  /* of its first sending; "": it was not looked for */

    bool is_kept;

    pthread_mutex_t lock; /* of what follows */
    bool is_packed_once;  /* or tried */
    char *packed;         /* gzip; NULL: none. Set once, then constant */
    size_t packed_bytes;
    struct answer_form forms[FORMS];
    void (*unmake)(void *made);

    _Alignas(ANSWER_ALIGN) char text[]; /* the body: the kernel copies whole lines of cache at each sending */
};

/* A copy of what api/ answered, held once. about NULL: nothing is known. NULL: no memory. */
struct answer *answer_new(const struct api_response *r, const struct answer_about *about);
struct answer *answer_hold(struct answer *a);
void answer_give_back(struct answer *a); /* NULL: nothing */

/* What one may be packed on an event thread, at once: some milliseconds. */
enum { PACK_LEAST = 1400, PACK_AT_ONCE = 512 << 10 };

/* true: a->packed is there. Compresses one of at most `most` bytes; ret_now: it was not there before. */
bool answer_pack(struct answer *a, size_t most, bool *ret_now);

#endif
