#include "server/hub/limit.h"
#include "server/hub/reply.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A40 "0123456789abcdef0123456789abcdef01234567"
#define B40 "89abcdef0123456789abcdef0123456789abcdef"

/* Lines are joined by "|". */
static void feed(struct reply *r, const char *lines)
{
    reply_init(r);
    while (*lines) {
        size_t n = strcspn(lines, "|");
        char line[512];

        (void)snprintf(line, sizeof line, "%.*s\r\n", (int)n, lines);
        reply_line(r, line, strlen(line));
        lines += n + (lines[n] == '|');
    }
    reply_line(r, "\r\n", 2);
}

static const struct {
    const char *header;
    enum bucket bucket;
    unsigned remaining, reset_s;
} rates[] = {
    {"RateLimit: \"api\";r=499;t=123", BUCKET_API, 499, 123},
    {"ratelimit:\"resolvers\";r=0;t=1", BUCKET_RESOLVERS, 0, 1},
    {"RateLimit: \"pages\"; t=5 ; r=7", BUCKET_PAGES, 7, 5},
    {"RateLimit: api;r=1;t=2", BUCKET_API, 1, 2},
    {"RateLimit: \"other\";r=1;t=2", BUCKET_NONE, 0, 0},
    {"RateLimit: \"api\";r=1", BUCKET_NONE, 0, 0},
    {"RateLimit: \"api\";r=-1;t=2", BUCKET_NONE, 0, 0},
    {"RateLimit: \"api\";r=99999999999;t=2", BUCKET_NONE, 0, 0},
    {"RateLimit: \"api\";r=;t=", BUCKET_NONE, 0, 0},
    {"RateLimit: ;;;", BUCKET_NONE, 0, 0},
    {"RateLimit:", BUCKET_NONE, 0, 0},
    {"RateLimit: \"", BUCKET_NONE, 0, 0},
};

START_TEST(rate)
{
    struct reply r;

    feed(&r, rates[_i].header);
    ck_assert_int_eq(r.rate.bucket, rates[_i].bucket);
    ck_assert_uint_eq(r.rate.remaining, rates[_i].remaining);
    ck_assert_uint_eq(r.rate.reset_s, rates[_i].reset_s);
}
END_TEST

static const struct {
    const char *lines, *commit;
    bool bad;
} commits[] = {
    {"HTTP/1.1 200 OK|X-Repo-Commit: " A40, A40, false},
    {"HTTP/2 200|x-repo-commit:\t" A40 "  ", A40, false},
    {"HTTP/1.1 302 Found|X-Repo-Commit: " A40 "|HTTP/1.1 200 OK", A40, false},
    {"HTTP/1.1 302 Found|X-Repo-Commit: " A40 "|HTTP/1.1 200 OK|X-Repo-Commit: " A40, A40, false},
    {"HTTP/1.1 302 Found|X-Repo-Commit: " A40 "|HTTP/1.1 200 OK|X-Repo-Commit: " B40, A40, true},
    {"HTTP/1.1 200 OK|X-Repo-Commit: main", "", true},
    {"HTTP/1.1 200 OK|X-Repo-Commit: 0123456789ABCDEF0123456789abcdef01234567", "", true},
    {"HTTP/1.1 200 OK|X-Repo-Commit:", "", true},
    {"HTTP/1.1 200 OK", "", false},
};

START_TEST(commit)
{
    struct reply r;

    feed(&r, commits[_i].lines);
    ck_assert_str_eq(r.commit, commits[_i].commit);
    ck_assert(r.commit_bad == commits[_i].bad);
}
END_TEST

static const struct {
    const char *lines, *etag;
} etags[] = {
    {"ETag: \"abc\"", "abc"}, {"ETag: W/\"abc\"", "abc"}, {"ETag: abc", "abc"}, {"X-Linked-Etag: \"l\"|ETag: \"p\"", "l"},
    {"ETag: \"p\"|X-Linked-Etag: \"l\"", "l"}, {"ETag: \"a\"b\"", ""}, {"ETag: \"\"", ""}, {"ETag: \"", ""}, {"HTTP/1.1 302 x|ETag: \"a\"|HTTP/1.1 200 x", ""},
};

START_TEST(etag)
{
    struct reply r;

    feed(&r, etags[_i].lines);
    ck_assert_str_eq(r.etag, etags[_i].etag);
}
END_TEST

START_TEST(hops_begin_anew)
{
    struct reply r;

    feed(&r, "HTTP/1.1 307 Temporary Redirect|Location: /a|X-Error-Code: GatedRepo|Retry-After: 9|RateLimit: \"api\";r=3;t=4|HTTP/1.1 200 OK");
    ck_assert_int_eq(r.status, 200);
    ck_assert_str_eq(r.location, "");
    ck_assert_str_eq(r.error_code, "");
    ck_assert_uint_eq(r.retry_after_s, 0);
    ck_assert_int_eq(r.rate.bucket, BUCKET_API);
    ck_assert(r.whole);
    feed(&r, "HTTP/1.1 302 x|Location: /a|Location: /b");
    ck_assert(r.location_bad);
    feed(&r, "HTTP/1.1 302 x|Location: /a\rX: y");
    ck_assert(r.location_bad); /* a fuzzer's: control characters are in no address */
    reply_init(&r);
    reply_line(&r, "HTTP/1.1 200 OK\r\n", 17);
    ck_assert(!r.whole);
    feed(&r, "HTTP/1.1 2x0 OK");
    ck_assert_int_eq(r.status, 0);
    feed(&r, "X-Error-Message: a\x1b[31mb\x01");
    ck_assert_str_eq(r.error_message, "a?[31mb?"); /* what a log or a terminal would obey */
}
END_TEST

/* Table 4 of the contract with the hub, in its order: the row above wins. */
static const struct {
    const char *lines, *body;
    bool token;
    enum verdict verdict;
} cases[] = {
    {"HTTP/1.1 200 OK|X-Repo-Commit: " A40, "{}", false, VERDICT_OK},
    {"HTTP/1.1 200 OK", "{}", false, VERDICT_USELESS},
    {"HTTP/1.1 200 OK|X-Repo-Commit: " A40 "|Content-Type: text/html; charset=utf-8", "{}", false, VERDICT_USELESS},
    {"HTTP/1.1 200 OK|X-Repo-Commit: " A40, "\n <!doctype", false, VERDICT_USELESS},
    {"HTTP/1.1 404 x|X-Error-Code: RevisionNotFound|X-Error-Message: Access to this resource is disabled.", "", false, VERDICT_REVISION_ABSENT},
    {"HTTP/1.1 404 x|X-Error-Code: EntryNotFound|X-Repo-Commit: " A40, "", false, VERDICT_CONFIG_ABSENT},
    {"HTTP/1.1 401 x|X-Error-Code: GatedRepo|X-Error-Message: Invalid credentials in Authorization header", "", true, VERDICT_GATED},
    {"HTTP/1.1 403 x|X-Error-Code: GatedRepo|X-Error-Message: Access to this resource is disabled.", "", true, VERDICT_GATED},
    {"HTTP/1.1 403 x|X-Error-Message: Access to this resource is disabled.", "", false, VERDICT_DISABLED},
    {"HTTP/1.1 404 x|X-Error-Code: RepoNotFound", "", true, VERDICT_MODEL_ABSENT},
    {"HTTP/1.1 401 x|X-Error-Code: RepoNotFound|X-Error-Message: Invalid credentials in Authorization header", "", true, VERDICT_MODEL_ABSENT},
    {"HTTP/1.1 401 x|X-Error-Message: Invalid username or password.", "", false, VERDICT_MODEL_ABSENT},
    {"HTTP/1.1 401 x", "", true, VERDICT_MODEL_ABSENT},
    {"HTTP/1.1 401 x|X-Error-Message: Invalid credentials in Authorization header", "", true, VERDICT_TOKEN_REFUSED},
    {"HTTP/1.1 401 x|X-Error-Message: User Access Token \"x\" is expired", "", true, VERDICT_TOKEN_REFUSED},
    {"HTTP/1.1 404 x", "", false, VERDICT_MODEL_ABSENT},
    {"HTTP/1.1 403 x", "", true, VERDICT_FORBIDDEN},
    {"HTTP/1.1 403 x", "", false, VERDICT_USELESS},
    {"HTTP/1.1 400 x", "", false, VERDICT_USELESS},
    {"HTTP/1.1 416 x", "", false, VERDICT_USELESS},
    {"HTTP/1.1 204 x|X-Repo-Commit: " A40, "", false, VERDICT_USELESS},
    {"HTTP/1.1 206 x|X-Repo-Commit: " A40, "{}", false, VERDICT_USELESS},
    {"HTTP/1.1 429 x", "", false, VERDICT_LIMITED},
    {"HTTP/1.1 408 x", "", false, VERDICT_FAILED},
    {"HTTP/1.1 500 x", "", false, VERDICT_FAILED},
    {"HTTP/1.1 502 x", "<html>", false, VERDICT_FAILED},
    {"HTTP/1.1 000 x", "", false, VERDICT_USELESS},
};

START_TEST(verdict)
{
    struct reply r;
    char why[200];

    feed(&r, cases[_i].lines);
    r.body = (char *)(uintptr_t)cases[_i].body;
    ck_assert_int_eq(reply_verdict(&r, cases[_i].token, why, sizeof why), cases[_i].verdict);
}
END_TEST

START_TEST(unchanged)
{
    struct reply r;
    char why[200];

    feed(&r, "HTTP/1.1 304 x|X-Repo-Commit: " A40);
    ck_assert_int_eq(reply_verdict(&r, false, why, sizeof why), VERDICT_USELESS); /* nobody asked for that */
    r.unchanged = true;
    ck_assert_int_eq(reply_verdict(&r, false, why, sizeof why), VERDICT_UNCHANGED);
    r.commit[0] = 0;
    ck_assert_int_eq(reply_verdict(&r, false, why, sizeof why), VERDICT_USELESS);
    r.fault = FAULT_UNREACHABLE;
    ck_assert_int_eq(reply_verdict(&r, false, why, sizeof why), VERDICT_UNREACHABLE);
    r.away = true;
    ck_assert_int_eq(reply_verdict(&r, false, why, sizeof why), VERDICT_FAILED);
}
END_TEST

/* --- limits ------------------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *lines;
    unsigned seconds;
} asked[] = {
    {"HTTP/1.1 429 x|RateLimit: \"api\";r=0;t=7|Retry-After: 99", 8},
    {"HTTP/1.1 429 x|RateLimit: \"api\";r=5;t=7|Retry-After: 42", 42},
    {"HTTP/1.1 429 x|Retry-After: 99999", 300},
    {"HTTP/1.1 429 x|Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", 8},
    {"HTTP/1.1 429 x", 8},
};

START_TEST(waits)
{
    struct limits l = {0};
    struct reply r;

    feed(&r, asked[_i].lines);
    ck_assert_uint_eq(limit_asked_s(&r), asked[_i].seconds);
    limit_begin(&l, BUCKET_RESOLVERS);
    limit_end(&l, BUCKET_RESOLVERS, &r, 1000000);
    ck_assert_uint_eq(limit_wait_s(&l, BUCKET_RESOLVERS, 1000000), asked[_i].seconds);
    ck_assert_uint_eq(limit_wait_s(&l, BUCKET_RESOLVERS, 1001500), asked[_i].seconds - 1);
    ck_assert_uint_eq(limit_wait_s(&l, BUCKET_RESOLVERS, 1000000 + 1000 * (uint64_t)asked[_i].seconds), 0);
    ck_assert_uint_eq(limit_wait_s(&l, BUCKET_RESOLVERS, 5), asked[_i].seconds); /* a clock that went back: no longer than that */
    ck_assert_uint_eq(limit_wait_s(&l, BUCKET_API, 1000000), 0);
}
END_TEST

/* Ends a request whose answer leaves `remaining`, while `others` are under way. */
static unsigned wait_after(unsigned remaining, unsigned others)
{
    struct limits l = {0};
    struct reply r;

    reply_init(&r);
    r.rate = (struct rate){BUCKET_API, remaining, 9};
    for (unsigned i = 0; i <= others; i++)
        limit_begin(&l, BUCKET_API);
    limit_end(&l, BUCKET_API, &r, 0);
    return limit_wait_s(&l, BUCKET_API, 0);
}

START_TEST(one_request_is_never_spent)
{
    ck_assert_uint_eq(wait_after(2, 0), 0);
    ck_assert_uint_eq(wait_after(1, 0), 10);
    ck_assert_uint_eq(wait_after(0, 0), 10);
    ck_assert_uint_eq(wait_after(5, 3), 0);
    ck_assert_uint_eq(wait_after(4, 3), 10);
}
END_TEST

START_TEST(down)
{
    struct limits l = {0};

    ck_assert_uint_eq(limit_down_s(&l, 0), 0);
    limit_down(&l, "why", 30, 1000);
    ck_assert_str_eq(l.down_why, "why");
    ck_assert_uint_eq(limit_down_s(&l, 1000), 30);
    ck_assert_uint_eq(limit_down_s(&l, 30999), 1);
    ck_assert_uint_eq(limit_down_s(&l, 31000), 0);
    ck_assert_uint_eq(limit_down_s(&l, 0), 30);
}
END_TEST

UNIT_TESTS("hub/reply",
    unit_rows(rate, rates);
    unit_rows(commit, commits);
    unit_rows(etag, etags);
    unit_test(hops_begin_anew);
    unit_rows(verdict, cases);
    unit_test(unchanged);
    unit_rows(waits, asked);
    unit_test(one_request_is_never_spent);
    unit_test(down);
)
