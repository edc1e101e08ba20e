/* core/meters/peak: blocks that cross streams, on a GPU that never lags and on one that always does. */
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
            b->crossed = true;
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

static struct torch_alloc_stats replay(const struct tape *tape, bool lagging, struct peak *ret)
{
    const struct torch_alloc_options o = {.max_live = BIRTHS, .lagging = lagging};
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
    ck_assert_uint_eq(replay(&w.tape, false, &prompt).reserved_peak_bytes, row[_i].reserved_mib * MIB);
    ck_assert_uint_eq(replay(&w.tape, true, &lagging).reserved_peak_bytes, row[_i].lagging_reserved_mib * MIB);
    ck_assert_uint_eq(walk.active_bytes, row[_i].lagging_active_mib * MIB);
    ck_assert_uint_eq(lagging.active_bytes, row[_i].lagging_active_mib * MIB);
    ck_assert_uint_eq(prompt.active_bytes, row[_i].active_mib * MIB);
    ck_assert_uint_eq(prompt.peak_bytes, row[_i].active_mib * MIB);
    ck_assert_uint_eq(lagging.peak_bytes, prompt.peak_bytes); /* what is allocated does not wait */
    ck_assert_uint_eq(walk.peak_bytes, prompt.peak_bytes);
    ck_assert_int_eq(walk.crossed, strchr(row[_i].script, 'x') != NULL);
}
END_TEST

UNIT_TESTS("meters/peak",
    unit_rows(knows_who_holds_a_block, row);
)
