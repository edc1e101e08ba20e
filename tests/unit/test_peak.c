/* core/meters/peak: blocks that cross streams, on a GPU that never lags and on one that always does. */
#include "meters/clock.h"
#include "meters/peak.h"

#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

static unsigned char block[1 << 20];

/*
 *   +N  a block of N MiB is born; a capital letter before it is its stream (A: compute), x: another stream reads it
 *   -b  block b dies    w:p  the host waits for an event that was recorded after p events    s  it waits for all    e  empty_cache
 * What is active at its highest on a GPU that always lags; reserved on one that never does and on one that always does.
 */
static const struct {
    const char *name, *script;
    unsigned active_mib, lagging_active_mib, reserved_mib, lagging_reserved_mib;
} row[] = {
    {"nothing crosses", "+20 -0 +20", 20, 20, 20, 20},
    {"held until the end", "x+20 -0 +20", 20, 40, 20, 40},
    {"held until the host waits", "x+20 -0 s +20", 20, 20, 20, 20},
    {"an event before the death", "x+20 +30 w:1 -0 +20", 50, 70, 50, 70},
    {"an event after the first death alone", "x+20 x+30 -0 -1 w:3 +20 +30", 50, 80, 50, 80},
    {"an event after both", "x+20 x+30 -0 -1 w:4 +20 +30", 50, 50, 50, 50},
    {"an older event after a newer one", "x+20 x+30 -0 -1 s w:2 +20 +30", 50, 50, 50, 50},
    {"empty_cache waits", "x+20 -0 e +30", 30, 30, 30, 30},
    {"a stream's blocks stay with it", "B+20 -0 +20", 20, 20, 40, 40},
    {"on its own stream again", "Bx+20 -0 B+20", 20, 40, 20, 40},
};

enum { BIRTHS = 8, EVENTS = 16 };

struct written {
    struct birth births[BIRTHS];
    uint32_t events[EVENTS];
    struct tape tape;
};

static void write_birth(struct written *w, const char *token)
{
    struct birth *b = &w->births[w->tape.n_births];

    for (; *token != '+'; token++)
        if (*token == 'x')
            b->readers = 1u << STREAM_REDUCE;
        else
            b->stream = (uint8_t)(*token - 'A');
    b->bytes = strtoull(token + 1, NULL, 10) * MIB;
    b->stage = STAGE_FORWARD;
    w->events[w->tape.n_events++] = w->tape.n_births++;
}

static void write_tape(struct written *w, const char *script)
{
    *w = (struct written){0};
    w->tape.births = w->births;
    w->tape.events = w->events;
    for (const char *s = script; s; s = strchr(s, ' ') ? strchr(s, ' ') + 1 : NULL)
        if (*s == '-')
            w->events[w->tape.n_events++] = EVENT_DEATH | (uint32_t)strtoul(s + 1, NULL, 10);
        else if (*s == 'w')
            w->events[w->tape.n_events++] = EVENT_WAIT | (uint32_t)strtoul(s + 2, NULL, 10);
        else if (*s == 's' || *s == 'e')
            w->events[w->tape.n_events++] = *s == 's' ? EVENT_SYNC : EVENT_RELEASE;
        else
            write_birth(w, s);
}

static struct torch_alloc_stats replay(const struct tape *tape, enum torch_lag lag, struct peak *ret)
{
    const struct torch_alloc_options o = {.max_live = BIRTHS, .lag = lag};
    struct torch_alloc *t = NULL;
    struct arena a;

    arena_init(&a, block, sizeof block);
    ck_assert_int_eq(torch_alloc_new(&a, &o, &t, NULL), ERR_OK);
    ck_assert(peak_replay(tape, t, ret));
    ck_assert_int_eq(torch_alloc_status(t, NULL), ERR_OK);
    return torch_alloc_stats(t);
}

START_TEST(knows_who_holds_a_block)
{
    struct written w;
    struct peak walk, prompt, lagging;

    write_tape(&w, row[_i].script);
    peak_walk(&w.tape, &walk);
    ck_assert_uint_eq(replay(&w.tape, TORCH_LAG_NEVER, &prompt).reserved_peak_bytes, row[_i].reserved_mib * MIB);
    ck_assert_uint_eq(replay(&w.tape, TORCH_LAG_ALWAYS, &lagging).reserved_peak_bytes, row[_i].lagging_reserved_mib * MIB);
    ck_assert_uint_eq(walk.active_bytes, row[_i].lagging_active_mib * MIB);
    ck_assert_uint_eq(lagging.active_bytes, row[_i].lagging_active_mib * MIB);
    ck_assert_uint_eq(prompt.active_bytes, row[_i].active_mib * MIB);
    ck_assert_uint_eq(prompt.peak_bytes, row[_i].active_mib * MIB);
    ck_assert_uint_eq(lagging.peak_bytes, prompt.peak_bytes); /* what is allocated does not wait */
    ck_assert_uint_eq(walk.peak_bytes, prompt.peak_bytes);
    ck_assert_int_eq(walk.crossed, strchr(row[_i].script, 'x') != NULL);
}
END_TEST

/* --- a GPU whose pace is known: the host is at event i after i seconds, a stream so much later -------------------------------------- */

struct late {
    struct tape_clock clock;
    double behind_s[STREAM_COUNT];
};

static void late_begins(struct tape_clock *c)
{
    c->host_s = 0;
    c->next = 0;
}

static void late_advances(struct tape_clock *c, uint32_t event)
{
    c->host_s = event;
    c->next = event + 1;
}

static double late_passes(struct tape_clock *c, unsigned readers)
{
    const struct late *l = (const struct late *)(const void *)c;
    double last = 0;

    for (unsigned i = 0; i < STREAM_COUNT; i++)
        if (readers >> i & 1 && c->host_s + l->behind_s[i] > last)
            last = c->host_s + l->behind_s[i];
    return last;
}

static const struct {
    const char *name, *script;
    double behind_s;
    uint32_t clock_begins;
    unsigned active_mib, reserved_mib;
} timed[] = {
    {"nothing crosses", "+20 -0 +20", 9, 0, 20, 20},
    {"passed before the next birth", "x+20 -0 +20", 0.5, 0, 20, 20},
    {"passed just then", "x+20 -0 +20", 1, 0, 20, 20},
    {"passed after it", "x+20 -0 +20", 1.5, 0, 40, 40},
    {"passed before the one after", "x+20 -0 +20 -1 +20", 2.5, 0, 40, 40},
    {"each in its turn", "x+20 x+30 -0 -1 +20 +30", 2, 0, 50, 50},
    {"the host's waits are the clock's own", "x+20 -0 s +20", 9, 0, 40, 40},
    {"empty_cache waits", "x+20 -0 e +30", 9, 0, 30, 30},
    {"before the clock begins no GPU lags", "x+20 -0 +20", 9, 2, 20, 20},
};

START_TEST(asks_the_clock)
{
    struct late late = {{.begin = late_begins, .advance = late_advances, .passes = late_passes}, {[STREAM_REDUCE] = timed[_i].behind_s}};
    struct written w;
    struct peak prompt, p, always;

    write_tape(&w, timed[_i].script);
    (void)replay(&w.tape, TORCH_LAG_NEVER, &prompt);
    (void)replay(&w.tape, TORCH_LAG_ALWAYS, &always);
    w.tape.clock = &late.clock;
    w.tape.clock_begins = timed[_i].clock_begins;
    for (int again = 0; again < 2; again++) { /* begin() forgets */
        ck_assert_uint_eq(replay(&w.tape, TORCH_LAG_TIMED, &p).reserved_peak_bytes, timed[_i].reserved_mib * MIB);
        ck_assert_uint_eq(p.active_bytes, timed[_i].active_mib * MIB);
        ck_assert_uint_eq(p.peak_bytes, prompt.peak_bytes);
        ck_assert_uint_ge(p.active_bytes, prompt.active_bytes);
    }
}
END_TEST

/* A full device waits for the streams before it gives up. */
START_TEST(a_full_device_takes_back_what_waits)
{
    struct late late = {{.begin = late_begins, .advance = late_advances, .passes = late_passes}, {[STREAM_REDUCE] = 99}};
    struct written w;
    struct peak p;
    struct torch_alloc_stats stats;

    write_tape(&w, "x+20 -0 +20");
    w.tape.clock = &late.clock;
    w.tape.capacity_bytes = 30 * MIB;
    stats = replay(&w.tape, TORCH_LAG_TIMED, &p);
    ck_assert_uint_eq(stats.retries, 1);
    ck_assert(!stats.oom);
    ck_assert_uint_eq(stats.reserved_peak_bytes, 20 * MIB);
}
END_TEST

UNIT_TESTS("meters/peak",
    unit_rows(knows_who_holds_a_block, row);
    unit_rows(asks_the_clock, timed);
    unit_test(a_full_device_takes_back_what_waits);
)
