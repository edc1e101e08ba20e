/*
 * reply.h - what came back from the hub: headers as they are read, and what they mean.
 *
 * Purpose   reply_line() takes the header lines of one hop after another; what belongs to one hop begins anew with its status
 *           line, while the commit and the rate limit are kept over redirects (a redirect carries the metadata of the file).
 *           reply_verdict() decides as table 4 of the field's page does, in its order.
 * Source    huggingface_hub 1.29 constants.py (names), utils/_http.py hf_raise_for_status (order), http_backoff and parse_ratelimit_headers.
 * Threads   pure.
 */
#ifndef SERVER_HUB_REPLY_H
#define SERVER_HUB_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum reply_fault { FAULT_NONE, FAULT_UNREACHABLE, FAULT_TIMEOUT, FAULT_CUT, FAULT_TOO_LARGE, FAULT_REDIRECT, FAULT_MEMORY /* or no descriptor */ };

/* The hub's rate limits: fixed windows of five minutes. */
enum bucket { BUCKET_API, BUCKET_RESOLVERS, BUCKET_PAGES, BUCKET_NONE };

struct rate {
    enum bucket bucket;
    unsigned remaining, reset_s;
};

struct reply {
    enum reply_fault fault;
    char why[160];     /* of a fault, for people */
    int status;
    bool whole;        /* the headers came to their end */
    char commit[41];   /* X-Repo-Commit; "" */
    bool commit_bad;   /* there was one that is none, or two that differ */
    bool away;         /* a redirect has left the endpoint */
    bool unchanged;    /* 304, or a redirect that names the commit that the asker has */
    char etag[132];    /* bare; that of a linked file before that of a pointer to it */
    char error_code[40], error_message[200], content_type[64], request_id[64];
    char location[2048];
    bool location_bad; /* longer than that, or two */
    struct rate rate;  /* bucket BUCKET_NONE: not told */
    unsigned retry_after_s;
    size_t header_bytes;
    char *body;        /* terminated by a zero; malloc'd, NULL: none */
    size_t bytes, cap;
};

void reply_init(struct reply *r);
void reply_release(struct reply *r);

/* One line, with or without its line end. */
void reply_line(struct reply *r, const char *line, size_t bytes);

/* Appends to the body, of `max` bytes at most. false: a fault. */
bool reply_body(struct reply *r, const char *data, size_t bytes, size_t max);

/* The first fault stays. */
void reply_fail(struct reply *r, enum reply_fault kind, const char *why);

bool reply_is_redirect(const struct reply *r);

enum verdict {
    VERDICT_OK,
    VERDICT_UNCHANGED,
    VERDICT_REVISION_ABSENT,
    VERDICT_CONFIG_ABSENT,
    VERDICT_GATED,
    VERDICT_DISABLED,
    VERDICT_MODEL_ABSENT, /* or private */
    VERDICT_TOKEN_REFUSED,
    VERDICT_FORBIDDEN,
    VERDICT_LIMITED,
    VERDICT_FAILED,       /* for now: 5xx, cut off */
    VERDICT_USELESS,      /* no answer of a hub, and the next one will be no better */
    VERDICT_TIMEOUT,
    VERDICT_UNREACHABLE,
    VERDICT_NO_MEMORY,    /* nor descriptors: ours, and nothing is said of the hub */
    VERDICT_OFFLINE,      /* never of a reply */
    VERDICTS
};

/* token_sent: whether the request carried one. ret_why: a clause for people, of a failure. */
enum verdict reply_verdict(const struct reply *r, bool token_sent, char *ret_why, size_t bytes);

#endif
