/*
 * hash.h - SipHash: a keyed hash that a caller without the key cannot steer.
 *
 * Purpose   tables whose keys callers choose (a key drawn at the start), validators and token digests (128 bits).
 * Source    Aumasson, Bernstein: SipHash, a fast short-input PRF (2012); the 128-bit output of the authors' reference code.
 * Use       hash_begin(), hash_add() as often as wanted, hash_end(). Equal bytes give equal hashes however they were cut.
 * Threads   pure.
 */
#ifndef SERVER_HASH_H
#define SERVER_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_key {
    uint64_t k[2];
};

struct hash {
    uint64_t v[4], tail; /* tail: bytes that do not fill a word yet */
    uint64_t bytes;
    bool is_quick;
};

struct digest {
    uint64_t d[2];
};

/* Drawn from the system; false: there is no randomness. */
bool hash_key_draw(struct hash_key *ret);

/* SipHash-2-4: for what is compared by its digest. */
void hash_begin(struct hash *h, const struct hash_key *key);

/* SipHash-1-3, as Rust's and Python's tables: to find a place, where whole keys are compared. */
void hash_begin_quick(struct hash *h, const struct hash_key *key);

void hash_add(struct hash *h, const void *data, size_t bytes);
struct digest hash_end(struct hash *h);

#endif
