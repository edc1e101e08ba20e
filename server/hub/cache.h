/*
 * cache.h - what is remembered by key, and who waits for what is not.
 *
 * Purpose   bounded in entries and in bytes, the least recently used go first. An entry is fresh for as long as was said, errors
 *           included; then it is stale: kept for whoever may show it when nothing newer can be had, and for its ETag.
 *           Single flight: the first who asks for what is not fresh leads, who comes later waits behind him.
 * Time      an argument, in milliseconds; a clock that has gone back makes an entry stale, never fresh for longer.
 * Owner     holds configs; pendings are the cache's, waiters the caller's.
 * Threads   the caller's lock.
 */
#ifndef SERVER_HUB_CACHE_H
#define SERVER_HUB_CACHE_H

#include "server/hub/hub.h"

#define CACHE_FOREVER UINT64_MAX

struct waiter {
    struct waiter *next;
};

struct pending {
    struct pending *next_key; /* the table's */
    struct waiter *first, **last;
    char key[];
};

struct cache;

enum cache_found { CACHE_HIT, CACHE_JOINED, CACHE_LEADS, CACHE_NO_MEMORY };

/* NULL: no memory. `seed` makes the table unguessable. */
struct cache *cache_new(size_t entries_max, size_t bytes_max, uint64_t seed);
void cache_free(struct cache *c); /* nobody waits any more */

/* HIT: *ret is held for the caller. JOINED, LEADS: `w` waits in *ret_pending until it is settled. */
enum cache_found cache_ask(struct cache *c, const char *key, uint64_t now_ms, struct waiter *w, const struct hub_config **ret,
                           struct pending **ret_pending);

bool cache_has(struct cache *c, const char *key, uint64_t now_ms); /* and it is fresh */

/* The entry, fresh or not, held for the caller; NULL: none. */
const struct hub_config *cache_stale(struct cache *c, const char *key);

/* Those who waited, in their order; the pending is gone. `keep`: remembered for keep_ms in place of what was there; NULL: nothing. */
struct waiter *cache_settle(struct cache *c, struct pending *p, const struct hub_config *keep, uint64_t keep_ms, uint64_t now_ms);

/* Calls for each pending; it may settle that one. */
void cache_each_pending(struct cache *c, void (*call)(void *arg, struct pending *p), void *arg);

/* Every entry is stale: asked for anew, still there to be confirmed or shown. */
void cache_expire(struct cache *c);

size_t cache_entries(const struct cache *c);
size_t hub_cache_bytes(const struct cache *c);

#endif
