#include "server/answers.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- the cache: shards of chained tables, each in order of use -------------------------------------------------------------------- */

enum {
    SHARDS = 16,
    LARGEST_SHARE = 4,    /* one entry may take a quarter of its shard */
    FORMS_BYTES = 3 << 10 /* of an answer's forms: four times a response of the library with ten header lines; two with nine are 1,392 bytes by mallinfo2() */
};

struct entry {
    struct entry *next;         /* of its bucket */
    struct entry *newer, *older; /* in order of use */
    struct digest digest;
    struct answer *answer;
    uint64_t until_ms;
    size_t cost, key_bytes;
    char key[];
};

struct shard {
    pthread_mutex_t lock;
    struct entry **buckets, *newest, *oldest;
    size_t n_buckets, n, bytes, max_n, max_bytes;
    uint64_t dropped;
};

struct answers {
    struct hash_key key;
    struct shard shards[SHARDS];
};

struct part {
    const void *data;
    size_t bytes;
};
enum { PARTS = 6, SHORT_BYTES = 1024 };

/* Every text keeps its zero: where one part ends and the next begins is never open. */
static void parts_of(const struct answer_key *k, struct part parts[PARTS])
{
    const char *texts[] = {k->method, k->path, k->query, k->content_type};

    for (int i = 0; i < 4; i++)
        parts[i] = (struct part){texts[i] ? texts[i] : "", texts[i] ? strlen(texts[i]) + 1 : 1};
    parts[4] = (struct part){&k->token, sizeof k->token};
    parts[5] = (struct part){k->body, k->body_bytes};
}

static size_t bytes_of(const struct part parts[PARTS])
{
    size_t n = 0;

    for (int i = 0; i < PARTS; i++)
        n += parts[i].bytes;
    return n;
}

static void join(const struct part parts[PARTS], char *at)
{
    for (int i = 0; i < PARTS; at += parts[i++].bytes)
        memcpy(at, parts[i].data, parts[i].bytes);
}

/* Most keys are short: in one piece, they are hashed by words. */
static struct digest digest_of(const struct answers *s, const struct part parts[PARTS], size_t bytes)
{
    char whole[SHORT_BYTES];
    struct hash h;

    hash_begin_quick(&h, &s->key);
    if (bytes <= sizeof whole) {
        join(parts, whole);
        hash_add(&h, whole, bytes);
    } else {
        for (int i = 0; i < PARTS; i++)
            hash_add(&h, parts[i].data, parts[i].bytes);
    }
    return hash_end(&h);
}

static bool same_key(const struct entry *e, const struct part parts[PARTS])
{
    const char *at = e->key;

    for (int i = 0; i < PARTS; at += parts[i++].bytes)
        if (memcmp(at, parts[i].data, parts[i].bytes) != 0)
            return false;
    return true;
}

static struct shard *shard_of(struct answers *s, struct digest d)
{
    return &s->shards[d.d[1] % SHARDS];
}

static struct entry **bucket_of(struct shard *h, struct digest d)
{
    return &h->buckets[d.d[0] & (h->n_buckets - 1)];
}

static struct entry *find(struct shard *h, struct digest d, const struct part parts[PARTS], size_t bytes)
{
    struct entry *e = *bucket_of(h, d);

    while (e && (e->digest.d[0] != d.d[0] || e->digest.d[1] != d.d[1] || e->key_bytes != bytes || !same_key(e, parts)))
        e = e->next;
    return e;
}

static void unlink_use(struct shard *h, struct entry *e)
{
    *(e->newer ? &e->newer->older : &h->newest) = e->older;
    *(e->older ? &e->older->newer : &h->oldest) = e->newer;
}

static void link_newest(struct shard *h, struct entry *e)
{
    e->newer = NULL;
    e->older = h->newest;
    *(h->newest ? &h->newest->newer : &h->oldest) = e;
    h->newest = e;
}

static void drop(struct shard *h, struct entry *e)
{
    struct entry **at = bucket_of(h, e->digest);

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    unlink_use(h, e);
    h->n--;
    h->bytes -= e->cost;
    answer_give_back(e->answer);
    free(e);
}

static void make_room(struct shard *h, size_t entries, size_t bytes)
{
    while (h->oldest && (h->n + entries > h->max_n || h->bytes + bytes > h->max_bytes)) {
        drop(h, h->oldest);
        h->dropped++;
    }
}

static void add(struct shard *h, struct entry *e)
{
    struct entry **bucket = bucket_of(h, e->digest);

    make_room(h, 1, e->cost);
    e->next = *bucket;
    *bucket = e;
    link_newest(h, e);
    h->n++;
    h->bytes += e->cost;
}

struct answer *answers_find(struct answers *s, const struct answer_key *k, uint64_t now_ms)
{
    struct answer *found = NULL;
    struct part parts[PARTS];
    struct shard *h;
    struct digest d;
    struct entry *e;
    size_t bytes;

    if (!s)
        return NULL;
    parts_of(k, parts);
    bytes = bytes_of(parts);
    d = digest_of(s, parts, bytes);
    h = shard_of(s, d);
    pthread_mutex_lock(&h->lock);
    e = find(h, d, parts, bytes);
    if (e && now_ms >= e->until_ms) {
        drop(h, e);
    } else if (e) {
        unlink_use(h, e);
        link_newest(h, e);
        found = answer_hold(e->answer);
    }
    pthread_mutex_unlock(&h->lock);
    return found;
}

static size_t cost_of(const struct answer *a, size_t key_bytes)
{
    return sizeof(struct entry) + key_bytes + sizeof *a + a->bytes + a->packed_bytes + FORMS_BYTES;
}

static struct entry *entry_new(const struct part parts[PARTS], struct digest d, struct answer *a, uint64_t until_ms)
{
    size_t bytes = bytes_of(parts);
    struct entry *e = malloc(sizeof *e + bytes);

    if (!e)
        return NULL;
    *e = (struct entry){.digest = d, .answer = answer_hold(a), .until_ms = until_ms, .key_bytes = bytes, .cost = cost_of(a, bytes)};
    join(parts, e->key);
    return e;
}

void answers_keep(struct answers *s, const struct answer_key *k, struct answer *a, uint64_t now_ms, uint64_t until_ms)
{
    struct part parts[PARTS];
    struct entry *e, *before;
    struct shard *h;
    struct digest d;

    if (!s || until_ms <= now_ms)
        return;
    parts_of(k, parts);
    d = digest_of(s, parts, bytes_of(parts));
    h = shard_of(s, d);
    if (bytes_of(parts) + a->bytes > h->max_bytes / LARGEST_SHARE)
        return;
    e = entry_new(parts, d, a, until_ms);
    if (!e)
        return;
    pthread_mutex_lock(&h->lock);
    before = find(h, d, parts, e->key_bytes);
    if (before)
        drop(h, before);
    add(h, e);
    pthread_mutex_unlock(&h->lock);
}

void answers_recount(struct answers *s, const struct answer_key *k, const struct answer *a)
{
    struct part parts[PARTS];
    struct shard *h;
    struct digest d;
    struct entry *e;

    if (!s)
        return;
    parts_of(k, parts);
    d = digest_of(s, parts, bytes_of(parts));
    h = shard_of(s, d);
    pthread_mutex_lock(&h->lock);
    e = find(h, d, parts, bytes_of(parts));
    if (e && e->answer == a) {
        h->bytes -= e->cost;
        e->cost = cost_of(a, e->key_bytes);
        h->bytes += e->cost;
        make_room(h, 0, 0);
    }
    pthread_mutex_unlock(&h->lock);
}

void answers_forget(struct answers *s)
{
    for (int i = 0; i < SHARDS; i++) {
        struct shard *h = &s->shards[i];

        pthread_mutex_lock(&h->lock);
        while (h->oldest)
            drop(h, h->oldest);
        pthread_mutex_unlock(&h->lock);
    }
}

void answers_counts_read(struct answers *s, struct answers_counts *ret)
{
    *ret = (struct answers_counts){0};
    for (int i = 0; s && i < SHARDS; i++) {
        struct shard *h = &s->shards[i];

        pthread_mutex_lock(&h->lock);
        ret->entries += h->n;
        ret->bytes += h->bytes;
        ret->dropped += h->dropped;
        pthread_mutex_unlock(&h->lock);
    }
}

/* --- life ------------------------------------------------------------------------------------------------------------------------ */

static bool shard_init(struct shard *h, size_t entries, size_t bytes)
{
    pthread_mutex_init(&h->lock, NULL);
    h->max_n = entries;
    h->max_bytes = bytes;
    for (h->n_buckets = 16; h->n_buckets < entries; h->n_buckets *= 2)
        ;
    h->buckets = calloc(h->n_buckets, sizeof *h->buckets);
    return h->buckets;
}

struct answers *answers_new(size_t entries, size_t bytes)
{
    struct answers *s = entries ? calloc(1, sizeof *s) : NULL;
    bool good = s && hash_key_draw(&s->key);

    for (int i = 0; good && i < SHARDS; i++)
        good = shard_init(&s->shards[i], (entries + SHARDS - 1) / SHARDS, bytes / SHARDS);
    if (good)
        return s;
    answers_free(s);
    return NULL;
}

void answers_free(struct answers *s)
{
    for (int i = 0; s && i < SHARDS; i++) {
        struct shard *h = &s->shards[i];

        while (h->oldest)
            drop(h, h->oldest);
        free(h->buckets);
    }
    free(s);
}
