/* How much work a question may cause: where it ends, the answer is partial and says so, and equal questions end alike. */
#include "tests/support/ask.h"
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEVEN "{\"model\":\"Qwen/Qwen2.5-7B\",\"cluster\":{\"gpu\":\"A100-80GB\",\"gpus_per_node\":8},\"training\":{\"seq_len\":512}}"

static uint64_t number_at(const struct reply *r, const char *path)
{
    uint64_t n = 0;

    (void)json_uint64(reply_at(r, path), &n);
    return n;
}

static unsigned cut_of(const struct reply *r)
{
    unsigned n = 0;

    json_each(c, reply_at(r, "candidates")) {
        const char *code = json_str(json_get(json_get(c, "reason"), "code"));

        n += code && !strcmp(code, "budget");
    }
    return n;
}

static bool warns(const struct reply *r)
{
    json_each(w, reply_at(r, "warnings"))
        if (strstr(json_str(w), "the answer is partial"))
            return true;
    return false;
}

START_TEST(work_is_told)
{
    struct reply r = ask(SEVEN);

    ck_assert_int_eq(r.r.status, 200);
    ck_assert_uint_gt(number_at(&r, "work/events"), 100000);
    ck_assert_uint_eq(number_at(&r, "work/budget"), API_WORK_EVENTS);
    ck_assert(!cut_of(&r) && !warns(&r));
    reply_done(r);
}
END_TEST

/* In shares of what the whole takes, in per mille. */
static const unsigned shares[] = {1, 10, 50, 100, 250, 500, 750, 900, 990};

START_TEST(ends_and_says_so)
{
    struct budget whole = {.limit_events = UINT64_MAX}, b, c;
    struct reply all = ask_working(&whole, SEVEN), part, again;

    b = c = (struct budget){.limit_events = whole.events * shares[_i] / 1000};
    part = ask_working(&b, SEVEN);
    again = ask_working(&c, SEVEN);
    ck_assert_int_eq(part.r.status, 200);
    ck_assert(cut_of(&part) && warns(&part));
    ck_assert_uint_le(b.events, b.limit_events + 100000); /* it is counted in pieces */
    ck_assert_uint_eq(number_at(&part, "work/events"), b.events);
    ck_assert_uint_eq(number_at(&part, "work/budget"), b.limit_events);
    ck_assert_uint_eq(part.r.bytes, again.r.bytes);
    ck_assert(!memcmp(part.r.body, again.r.body, part.r.bytes));
    ck_assert(!part.r.fits || all.r.fits);
    ck_assert(json_type(reply_at(&part, "fits")) == (part.r.fits ? JSON_BOOL : JSON_NULL));
    reply_done(part);
    reply_done(again);
    reply_done(all);
}
END_TEST

/* Half of the work is enough for what would be recommended with all of it. */
START_TEST(what_matters_comes_first)
{
    struct budget whole = {.limit_events = UINT64_MAX}, half;
    struct reply all = ask_working(&whole, SEVEN), part;

    half = (struct budget){.limit_events = whole.events / 2};
    part = ask_working(&half, SEVEN);
    ck_assert_str_eq(reply_text(&part, "method"), reply_text(&all, "method"));
    ck_assert_uint_eq(number_at(&part, "micro_batch_size"), number_at(&all, "micro_batch_size"));
    reply_done(part);
    reply_done(all);
}
END_TEST

/* tests/data/worst.jsonl: what took longest of many questions (tools/worst), and loops over ranks, micro-batches and tensors that have to have an end. A part
 * of the budget; bench/bench_work.c grants it whole. */
enum { LINE_MAX_BYTES = 16 << 10 };

static const char *next_worst(FILE *f, char *line)
{
    const char *request = fgets(line, LINE_MAX_BYTES, f) ? strstr(line, "\"request\": ") : NULL;
    size_t n = request ? strlen(request) : 0;

    if (!request)
        return NULL;
    ck_assert(n > 2 && line[n + (size_t)(request - line) - 2] == '}');
    line[n + (size_t)(request - line) - 2] = 0;
    return request + strlen("\"request\": ");
}

START_TEST(the_worst_is_bounded)
{
    FILE *f = fopen("tests/data/worst.jsonl", "r");
    char *line = malloc(LINE_MAX_BYTES);
    const char *body;
    int n = 0;

    ck_assert(f && line);
    while ((body = next_worst(f, line))) {
        struct budget b = {.limit_events = API_WORK_EVENTS / 24}, c = b;
        struct reply once, again;

        if (n++ % 4 != _i) /* in four parts: each has its own time */
            continue;
        once = ask_working(&b, body);
        ck_assert_msg(once.r.status == 200, "%s: %d %s", body, once.r.status, reply_text(&once, "detail"));
        ck_assert_msg(b.events <= b.limit_events + 1000000, "%s: %llu events", body, (unsigned long long)b.events);
        ck_assert_msg(b.events <= b.limit_events || (cut_of(&once) && warns(&once)), "%s", body);
        again = ask_working(&c, body);
        ck_assert_msg(once.r.bytes == again.r.bytes && !memcmp(once.r.body, again.r.body, once.r.bytes), "%s: not the same twice", body);
        reply_done(once);
        reply_done(again);
    }
    ck_assert_int_gt(n, 10);
    free(line);
    fclose(f);
}
END_TEST

static const unsigned quarters[4];

START_TEST(cancelled_is_no_answer)
{
    atomic_bool cancelled = true;
    struct budget b = {.limit_events = UINT64_MAX, .cancelled = &cancelled};
    struct reply r = ask_working(&b, SEVEN);

    ck_assert_int_eq(r.r.status, 503);
    ck_assert_str_eq(reply_text(&r, "code"), "cancelled");
    reply_done(r);
}
END_TEST

static bool stop(struct budget *b)
{
    (void)b;
    return false;
}

/* Wherever it was: also where a look was only tried. */
START_TEST(stopped_is_no_answer)
{
    static const char nothing_fits[] = "{\"model\":\"Qwen/Qwen2.5-7B\",\"cluster\":{\"gpu\":\"T4\"},\"training\":{\"seq_len\":4096}}";
    struct budget whole = {.limit_events = UINT64_MAX};
    struct reply all = ask_working(&whole, nothing_fits);

    ck_assert(!all.r.fits);
    for (unsigned share = 1; share < 100; share += 3) {
        struct budget b = {.limit_events = UINT64_MAX, .passed = stop, .mark_events = whole.events * share / 100};
        struct reply r = ask_working(&b, nothing_fits);

        ck_assert_msg(r.r.status == 503, "at %u %%: %d", share, r.r.status);
        reply_done(r);
    }
    reply_done(all);
}
END_TEST

UNIT_TESTS("api/work", unit_test(work_is_told); unit_rows(ends_and_says_so, shares); unit_test(what_matters_comes_first); unit_rows(the_worst_is_bounded, quarters);
           unit_test(cancelled_is_no_answer); unit_test(stopped_is_no_answer);)
