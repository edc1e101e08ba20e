/*
 * answers.h - a cache of ready answers: a question that was answered before costs one lookup and no copy.
 *
 * Key       the parts of a request in a fixed order (struct answer_key): two requests that differ in any part never meet. The
 *           digest of a caller's token is a part, so what a token opened is not served to another.
 * Bounds    entries and bytes, keys included; the least recently used goes first. An entry ends when its time is over.
 * Owner     answers_find() hands out a count that answer_give_back() returns.
 * Threads   any; a lock per shard.
 */
#ifndef SERVER_ANSWERS_H
#define SERVER_ANSWERS_H

#include "server/answer.h"
#include "server/hash.h"

struct answer_key {
    const char *method, *path, *query, *content_type; /* NULL: none */
    const char *body;
    size_t body_bytes;
    struct digest token; /* zeros: none */
};

struct answers;

struct answers *answers_new(size_t entries, size_t bytes); /* NULL: no memory, or entries is 0 */
void answers_free(struct answers *s);

/* NULL: not there, or over at now_ms. Held for the caller. */
struct answer *answers_find(struct answers *s, const struct answer_key *k, uint64_t now_ms);

/* Takes a count of its own. An answer that does not fit is not kept. */
void answers_keep(struct answers *s, const struct answer_key *k, struct answer *a, uint64_t now_ms, uint64_t until_ms);

/* The answer has grown (it was packed): counted anew, if it is there. */
void answers_recount(struct answers *s, const struct answer_key *k, const struct answer *a);

/* Those in use live on with who holds them. */
void answers_forget(struct answers *s);

/* For metrics. */
struct answers_counts {
    uint64_t entries, bytes, dropped; /* dropped: for want of room, since the start */
};
void answers_counts_read(struct answers *s, struct answers_counts *ret);

#endif
