#include "server/hub/cache.h"

#include "server/hub/snapshot.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    struct entry *next_key, *newer, *older;
    const struct hub_config *config;
    uint64_t since_ms, for_ms;
    size_t bytes;
    char key[];
};

struct cache {
    size_t entries_max, bytes_max, entries, bytes, slots; /* slots: a power of two */
    uint64_t seed;
    struct entry *newest, *oldest;
    struct entry **table;
    struct pending **pendings;
};

static size_t slot_of(const struct cache *c, const char *key)
{
    uint64_t h = c->seed ^ 0xcbf29ce484222325u; /* FNV-1a, begun at a secret */

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 0x100000001b3u;
    h ^= h >> 32;
    return (size_t)h & (c->slots - 1);
}

struct cache *cache_new(size_t entries_max, size_t bytes_max, uint64_t seed)
{
    struct cache *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->entries_max = entries_max;
    c->bytes_max = bytes_max;
    c->seed = seed;
    c->slots = 16;
    while (c->slots < entries_max)
        c->slots *= 2;
    c->table = calloc(c->slots, sizeof(struct entry *));
    c->pendings = calloc(c->slots, sizeof(struct pending *));
    if (c->table && c->pendings)
        return c;
    cache_free(c);
    return NULL;
}

/* --- entries ------------------------------------------------------------------------------------------------------------------------ */

static void age_unlink(struct cache *c, struct entry *e)
{
    if (e->newer)
        e->newer->older = e->older;
    else
        c->newest = e->older;
    if (e->older)
        e->older->newer = e->newer;
    else
        c->oldest = e->newer;
}

static void age_push(struct cache *c, struct entry *e)
{
    e->newer = NULL;
    e->older = c->newest;
    if (c->newest)
        c->newest->newer = e;
    else
        c->oldest = e;
    c->newest = e;
}

static void drop(struct cache *c, struct entry *e)
{
    struct entry **at = &c->table[slot_of(c, e->key)];

    while (*at != e)
        at = &(*at)->next_key;
    *at = e->next_key;
    age_unlink(c, e);
    c->entries--;
    c->bytes -= e->bytes;
    hub_give_back(e->config);
    free(e);
}

/* The least recently used go, down to what is allowed. */
static void shrink(struct cache *c, size_t entries, size_t bytes)
{
    for (struct entry *e = c->oldest, *newer; e && (c->entries > entries || c->bytes > bytes); e = newer) {
        newer = e->newer;
        drop(c, e);
    }
}

static struct entry *find(const struct cache *c, const char *key)
{
    struct entry *e = c->table[slot_of(c, key)];

    while (e && strcmp(e->key, key) != 0)
        e = e->next_key;
    return e;
}

static bool is_fresh(const struct entry *e, uint64_t now_ms)
{
    return e->for_ms == CACHE_FOREVER || (now_ms >= e->since_ms && now_ms - e->since_ms < e->for_ms);
}

void cache_expire(struct cache *c)
{
    for (struct entry *e = c->newest; e; e = e->older)
        e->for_ms = 0;
}

static void put(struct cache *c, const char *key, const struct hub_config *config, uint64_t keep_ms, uint64_t now_ms)
{
    size_t key_bytes = strlen(key) + 1, bytes = sizeof(struct entry) + key_bytes + config_bytes(config);
    struct entry *e = find(c, key);

    if (e)
        drop(c, e);
    e = bytes <= c->bytes_max ? malloc(sizeof *e + key_bytes) : NULL;
    if (!e)
        return;
    *e = (struct entry){.config = config_hold(config), .since_ms = now_ms, .for_ms = keep_ms, .bytes = bytes};
    memcpy(e->key, key, key_bytes);
    e->next_key = c->table[slot_of(c, key)];
    c->table[slot_of(c, key)] = e;
    age_push(c, e);
    c->entries++;
    c->bytes += bytes;
    shrink(c, c->entries_max, c->bytes_max);
}

void cache_free(struct cache *c)
{
    if (!c)
        return;
    shrink(c, 0, 0);
    free(c->table);
    free(c->pendings);
    free(c);
}

/* --- pendings ----------------------------------------------------------------------------------------------------------------------- */

static struct pending *pending_find(const struct cache *c, const char *key)
{
    struct pending *p = c->pendings[slot_of(c, key)];

    while (p && strcmp(p->key, key) != 0)
        p = p->next_key;
    return p;
}

static struct pending *pending_new(struct cache *c, const char *key)
{
    size_t key_bytes = strlen(key) + 1, slot = slot_of(c, key);
    struct pending *p = malloc(sizeof *p + key_bytes);

    if (!p)
        return NULL;
    *p = (struct pending){.next_key = c->pendings[slot], .last = &p->first};
    memcpy(p->key, key, key_bytes);
    c->pendings[slot] = p;
    return p;
}

enum cache_found cache_ask(struct cache *c, const char *key, uint64_t now_ms, struct waiter *w, const struct hub_config **ret,
                           struct pending **ret_pending)
{
    struct entry *e = find(c, key);
    struct pending *p;
    bool leads;

    if (e && is_fresh(e, now_ms)) {
        age_unlink(c, e);
        age_push(c, e);
        *ret = config_hold(e->config);
        return CACHE_HIT;
    }
    p = pending_find(c, key);
    leads = !p;
    if (leads)
        p = pending_new(c, key);
    if (!p)
        return CACHE_NO_MEMORY;
    w->next = NULL;
    *p->last = w;
    p->last = &w->next;
    *ret_pending = p;
    return leads ? CACHE_LEADS : CACHE_JOINED;
}

bool cache_has(struct cache *c, const char *key, uint64_t now_ms)
{
    const struct entry *e = find(c, key);

    return e && is_fresh(e, now_ms);
}

const struct hub_config *cache_stale(struct cache *c, const char *key)
{
    const struct entry *e = find(c, key);

    return e ? config_hold(e->config) : NULL;
}

struct waiter *cache_settle(struct cache *c, struct pending *p, const struct hub_config *keep, uint64_t keep_ms, uint64_t now_ms)
{
    struct pending **at = &c->pendings[slot_of(c, p->key)];
    struct waiter *first = p->first;

    if (keep)
        put(c, p->key, keep, keep_ms, now_ms);
    while (*at != p)
        at = &(*at)->next_key;
    *at = p->next_key;
    free(p);
    return first;
}

void cache_each_pending(struct cache *c, void (*call)(void *arg, struct pending *p), void *arg)
{
    for (size_t i = 0; i < c->slots; i++)
        for (struct pending *p = c->pendings[i], *next; p; p = next) {
            next = p->next_key;
            call(arg, p);
        }
}

size_t cache_entries(const struct cache *c)
{
    return c->entries;
}

size_t hub_cache_bytes(const struct cache *c)
{
    return c->bytes;
}
