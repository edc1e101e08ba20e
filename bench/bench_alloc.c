/*
 * bench_alloc - what a birth or a death of a block costs in the allocator model, on one core.
 *
 * Printed beside a fixed loop (a chain of xorshift steps) of the same run, so that machines can be compared by the ratio.
 * Goal: 100 ns or less an event.
 */
#include "bench/measure.h"
#include "tests/support/alloc_tape.h"

enum { ROUNDS = 100, RANDOM_SLOTS = 6000, RANDOM_EVENTS = 30000 };

static unsigned char block[8 << 20];

/* Each event turns a random slot over, so half of them live; sizes of many orders of magnitude. Far more free blocks than a
 * training step leaves: what the search costs at its worst. */
static bool random_tape(struct tape *t)
{
    static bool born[RANDOM_SLOTS];
    uint64_t x = 1;

    *t = (struct tape){.slots = RANDOM_SLOTS, .n_events = RANDOM_EVENTS, .events = calloc(RANDOM_EVENTS, sizeof *t->events)};
    for (uint32_t i = 0; t->events && i < RANDOM_EVENTS; i++) {
        x = xorshift(x);

        uint32_t slot = (uint32_t)(x >> 40) % RANDOM_SLOTS;
        uint64_t bytes = 1 + (x >> 20) % (UINT64_C(1) << (9 + x % 16));
        t->events[i] = (struct tape_event){born[slot] ? '-' : '+', slot, 0, bytes};
        born[slot] = !born[slot];
    }
    return t->events;
}

/* Best of ROUNDS replays: seconds of torch_alloc_new() and of all events. */
static bool measure(const struct tape *tape, bool expandable, double *ret_new_s, double *ret_events_s)
{
    *ret_new_s = *ret_events_s = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        struct torch_alloc *t;
        struct arena a;
        double start = core_s();
        uint32_t mark = 0;

        arena_init(&a, block, sizeof block);
        if (torch_alloc_new(&a, &(struct torch_alloc_options){.expandable = expandable, .max_live = tape->slots}, &t, NULL))
            return false;

        double made = core_s();
        for (uint32_t i = 0; i < tape->n_events; i++)
            tape_step(t, &tape->events[i], &mark);

        double done = core_s();
        if (torch_alloc_status(t, NULL))
            return false;
        if (made - start < *ret_new_s)
            *ret_new_s = made - start;
        if (done - made < *ret_events_s)
            *ret_events_s = done - made;
    }
    return true;
}

static bool report(const char *name, const struct tape *tape, double reference)
{
    for (int expandable = 0; expandable < 2; expandable++) {
        double new_s, events_s;

        if (!measure(tape, expandable, &new_s, &events_s))
            return false;

        double ns = events_s * 1e9 / tape->n_events;
        printf("%-32s %-10s %6u events  %6.1f ns each  %6.1f x reference  (new: %.0f us)\n", name, expandable ? "expandable" : "default",
               (unsigned)tape->n_events, ns, ns / reference, new_s * 1e6);
    }
    return true;
}

int main(void)
{
    static const char *const traced[] = {"llama-32l", "llama-4l", "llama-3l-lora"};
    double reference = reference_ns();
    struct tape tape;
    bool good = true;

    printf("%-32s %.2f ns\n", "reference: one xorshift step", reference);
    for (size_t i = 0; i < sizeof traced / sizeof *traced && good; i++) {
        char path[128];

        snprintf(path, sizeof path, "tests/data/alloc/%s.tape", traced[i]);
        good = tape_read(path, &tape) && report(traced[i], &tape, reference);
        tape_release(&tape);
    }
    if (good && (good = random_tape(&tape))) {
        good = report("random, 3,000 live", &tape, reference);
        tape_release(&tape);
    }
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
