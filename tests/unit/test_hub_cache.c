#include "server/hub/cache.h"
#include "server/hub/snapshot.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct hub_config *config(const char *name, size_t bytes)
{
    static const struct snapshot_facts facts = {.source = "hub", .commit = "c"};
    char *text = calloc(1, bytes + 1);
    struct snapshot *s;
    const struct hub_config *c;

    memset(text, 'x', bytes);
    s = snapshot_new(text, bytes, &facts);
    c = config_new(&(struct view){.model = name, .revision = "main", .tier = "memory", .snapshot = s});
    snapshot_release(s);
    free(text);
    return c;
}

static enum cache_found ask(struct cache *c, const char *key, uint64_t now, struct waiter *w, struct pending **p)
{
    const struct hub_config *got = NULL;
    enum cache_found found = cache_ask(c, key, now, w, &got, p);

    ck_assert((found == CACHE_HIT) == (got != NULL));
    if (got)
        ck_assert_str_eq(got->model, key);
    hub_give_back(got);
    return found;
}

/* Asks, leads, and settles with a config of its own. */
static void put(struct cache *c, const char *key, size_t bytes, uint64_t keep_ms, uint64_t now)
{
    const struct hub_config *made = config(key, bytes);
    struct pending *p = NULL;
    struct waiter w;

    ck_assert_int_eq(ask(c, key, now, &w, &p), CACHE_LEADS);
    ck_assert_ptr_eq(cache_settle(c, p, made, keep_ms, now), &w);
    hub_give_back(made);
}

static bool has(struct cache *c, const char *key, uint64_t now)
{
    struct pending *p = NULL;
    struct waiter w;

    switch (ask(c, key, now, &w, &p)) {
    case CACHE_HIT:
        return true;
    case CACHE_LEADS:
        ck_assert_ptr_eq(cache_settle(c, p, NULL, 0, now), &w);
        return false;
    default:
        ck_abort_msg("joined");
    }
    return false;
}

static const struct {
    uint64_t stored, keep, now;
    bool fresh;
} times[] = {
    {1000, 500, 1000, true},  {1000, 500, 1499, true}, {1000, 500, 1500, false},       {1000, 500, 999, false}, /* the clock went back */
    {1000, 0, 1000, false},   {1000, 500, 0, false},   {0, 500, 499, true},            {1000, CACHE_FOREVER, 0, true},
    {5, CACHE_FOREVER, UINT64_MAX, true},              {UINT64_MAX - 5, 100, 3, false}, {5, UINT64_MAX - 1, UINT64_MAX, true},
};

START_TEST(freshness)
{
    struct cache *c = cache_new(8, 1 << 20, 1);

    put(c, "a", 10, times[_i].keep, times[_i].stored);
    ck_assert(has(c, "a", times[_i].now) == times[_i].fresh);
    cache_free(c);
}
END_TEST

START_TEST(stale_is_kept)
{
    struct cache *c = cache_new(8, 1 << 20, 1);
    const struct hub_config *stale;

    ck_assert_ptr_null(cache_stale(c, "a"));
    put(c, "a", 10, 5, 0);
    ck_assert(!has(c, "a", 50));
    stale = cache_stale(c, "a");
    ck_assert_uint_eq(stale->bytes, 10);
    put(c, "a", 20, 5, 60);
    ck_assert_uint_eq(stale->bytes, 10); /* whoever holds it keeps it */
    hub_give_back(stale);
    ck_assert(has(c, "a", 61));
    ck_assert_uint_eq(cache_entries(c), 1);
    cache_free(c);
}
END_TEST

START_TEST(least_recently_used_goes)
{
    struct cache *c = cache_new(3, 1 << 20, 7);

    put(c, "a", 1, 1000, 0);
    put(c, "b", 1, 1000, 0);
    put(c, "c", 1, 1000, 0);
    ck_assert(has(c, "a", 1));
    put(c, "d", 1, 1000, 0);
    ck_assert_uint_eq(cache_entries(c), 3);
    ck_assert(has(c, "a", 1));
    ck_assert(!has(c, "b", 1));
    ck_assert(has(c, "c", 1));
    ck_assert(has(c, "d", 1));
    cache_free(c);
}
END_TEST

START_TEST(bytes_are_bounded)
{
    struct cache *c = cache_new(1000, 100000, 7);
    char key[16];

    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(key, sizeof key, "k%u", i);
        put(c, key, 5000, 1000, 0);
        ck_assert_uint_le(hub_cache_bytes(c), 100000);
        ck_assert(has(c, key, 1));
    }
    ck_assert_uint_ge(cache_entries(c), 10);
    put(c, "huge", 200000, 1000, 0);
    ck_assert(!has(c, "huge", 1));
    ck_assert(has(c, key, 1)); /* nobody made room for what does not fit */
    cache_free(c);
}
END_TEST

START_TEST(single_flight)
{
    struct cache *c = cache_new(8, 1 << 20, 3);
    struct waiter w[3];
    struct pending *p[3] = {0};
    const struct hub_config *made = config("a", 3);

    ck_assert_int_eq(ask(c, "a", 0, &w[0], &p[0]), CACHE_LEADS);
    ck_assert_int_eq(ask(c, "a", 0, &w[1], &p[1]), CACHE_JOINED);
    ck_assert_int_eq(ask(c, "b", 0, &w[2], &p[2]), CACHE_LEADS);
    ck_assert_ptr_eq(p[0], p[1]);
    ck_assert_ptr_eq(cache_settle(c, p[0], made, 10, 0), &w[0]);
    ck_assert_ptr_eq(w[0].next, &w[1]);
    ck_assert_ptr_null(w[1].next);
    hub_give_back(made);
    ck_assert(has(c, "a", 1));
    ck_assert_ptr_eq(cache_settle(c, p[2], NULL, 0, 0), &w[2]);
    ck_assert_int_eq(ask(c, "b", 0, &w[2], &p[2]), CACHE_LEADS); /* a failure leaves room for a new leader */
    (void)cache_settle(c, p[2], NULL, 0, 0);
    cache_free(c);
}
END_TEST

START_TEST(errors_are_remembered)
{
    struct cache *c = cache_new(8, 1 << 20, 3);
    const struct err err = {.code = ERR_MODEL_NOT_FOUND, .detail = "no"};
    const struct hub_config *made = config_new(&(struct view){.model = "a", .revision = "main", .tier = "hub", .err = &err}), *got = NULL;
    struct pending *p = NULL;
    struct waiter w;

    ck_assert_int_eq(ask(c, "a", 0, &w, &p), CACHE_LEADS);
    (void)cache_settle(c, p, made, 30, 0);
    hub_give_back(made);
    ck_assert_int_eq(cache_ask(c, "a", 29, &w, &got, &p), CACHE_HIT);
    ck_assert_int_eq(got->err.code, ERR_MODEL_NOT_FOUND);
    ck_assert_ptr_null(got->text);
    hub_give_back(got);
    ck_assert(!has(c, "a", 30));
    cache_free(c);
}
END_TEST

UNIT_TESTS("hub/cache",
    unit_rows(freshness, times);
    unit_test(stale_is_kept);
    unit_test(least_recently_used_goes);
    unit_test(bytes_are_bounded);
    unit_test(single_flight);
    unit_test(errors_are_remembered);
)
