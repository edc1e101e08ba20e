/* What a module's forward asks of a run, written down and asked again: the same tape of one that is alike; what is not alike is seen. */
#include "torch/calls.h"
#include "stack/stack.h"
#include "tests/support/unit.h"
#include "torch/hooks.h"
#include "torch/module.h"
#include "torch/ops.h"
#include "torch/views.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 8 << 20, BOOK = 2 << 20, TOKENS = 16, WIDTH = 32, LAYERS = 3 };

static struct run run;
static struct tree tree;
static struct arena arena;
static struct calls_book *book;
static struct module *layer[LAYERS];
static struct quirks quirks;
static unsigned char *room;

/* Layers of two linears; the last one's second has another width. */
static void begin(void)
{
    struct run_limits limits = {.values = 512, .storages = 512, .nodes = 128, .births = 512};
    struct err err = {0};
    struct module *root, *list;

    room = malloc(ROOM + BOOK);
    arena_init(&arena, room, ROOM);
    book = calls_book(room + ROOM, BOOK);
    ck_assert(book != NULL);
    memset(&quirks, 0, sizeof quirks);
    ck_assert(!tree_init(&tree, &arena, DTYPE_BF16, 32, &err));
    root = container(&tree, NULL, "");
    list = container(&tree, root, "layers");
    for (uint32_t i = 0; i < LAYERS; i++) {
        layer[i] = container_at(&tree, list, i);
        (void)linear(&tree, layer[i], "up", WIDTH, 2 * WIDTH, false);
        (void)linear(&tree, layer[i], "down", 2 * WIDTH, i + 1 < LAYERS ? WIDTH : WIDTH / 2, false);
    }
    ck_assert(!run_init(&run, &arena, &quirks, (struct device){0}, limits, &err));
    materialise(&run, &tree);
    for (uint32_t i = 0; i < LAYERS; i++)
        for (struct module *m = layer[i]->first; m; m = m->next)
            require_grad(&run, m->weight->value);
}

static void end(void)
{
    free(room);
}

/* down(silu(up(x)) * up(x)), as a program holds and lets go of what it names; what it returns is held once. */
static val forward(struct module *m, val x)
{
    val up = call(&run, m->first, x), gate, both, out;

    calls_held(&run, CALLED_HOLD, up);
    gate = silu(&run, up);
    calls_held(&run, CALLED_HOLD, gate);
    both = mul(&run, gate, up);
    calls_held(&run, CALLED_HOLD, both);
    calls_held(&run, CALLED_DROP, gate);
    calls_held(&run, CALLED_DROP, up);
    out = call(&run, m->first->next, both);
    calls_held(&run, CALLED_HOLD, out);
    calls_held(&run, CALLED_DROP, both);
    return out;
}

/* tensor_becomes(): the part goes on as what was written into it. */
static void becomes(val part, val written)
{
    calls_held(&run, CALLED_HOLD, written);
    rebase_history(&run, part, written);
    calls_held(&run, CALLED_DROP, written);
}

/* Of two results; what is written in place goes on as what was written into it, a part of it too. */
static val forward_in_place(struct module *m, val x)
{
    val up = call(&run, m->first, x), two[2], part, out;

    calls_held(&run, CALLED_HOLD, up);
    topk(&run, up, 1, 4, two);
    for (int i = 0; i < 2; i++)
        calls_held(&run, CALLED_HOLD, two[i]);
    part = slice_step(&run, up, 1, 0, 4, 1);
    calls_held(&run, CALLED_HOLD, part);
    becomes(part, write_in_place(&run, OP_ADD, part, two[0]));
    out = mul(&run, up, up);
    calls_held(&run, CALLED_HOLD, out);
    calls_held(&run, CALLED_DROP, part);
    calls_held(&run, CALLED_DROP, two[1]);
    calls_held(&run, CALLED_DROP, two[0]);
    calls_held(&run, CALLED_DROP, up);
    return out;
}

/* Parts that are told what they are of, written one after the other: the whole wants a gradient from the first on. */
static val forward_told(struct module *m, val x)
{
    val up = call(&run, m->first, x), whole, part, out;

    calls_held(&run, CALLED_HOLD, up);
    whole = factory(&run, OP_EMPTY, DTYPE_BF16, SHAPE(TOKENS, WIDTH));
    calls_held(&run, CALLED_HOLD, whole);
    for (int i = 0; i < 2; i++) {
        part = select_op(&run, whole, 0, i);
        calls_held(&run, CALLED_HOLD, part);
        view_is_of(&run, part, whole);
        becomes(part, copy_in_place(&run, part, select_op(&run, up, 0, i)));
        calls_held(&run, CALLED_DROP, part);
    }
    out = mul(&run, whole, whole);
    calls_held(&run, CALLED_HOLD, out);
    calls_held(&run, CALLED_DROP, up);
    calls_held(&run, CALLED_DROP, whole);
    return out;
}

static void take_and_give(struct run *r, struct module *m, void *of)
{
    (void)m;
    (void)of;
    value_unref(r, owned(r, empty(r, DTYPE_BF16, SHAPE(TOKENS))));
}

/* A module whose parameters are looked at: what hangs on that does its work. */
static val forward_reads(struct module *m, val x)
{
    static struct module_hook looked_at = {.read = take_and_give};

    val out = forward(m, x);

    layer[0]->first->hooks = layer[1]->first->hooks = &looked_at;
    module_read(&run, m->first);
    return out;
}

static const struct forward_row {
    const char *name;
    val (*forward)(struct module *m, val x);
    bool views;
} forwards[] = {{"operators", forward, false}, {"in place", forward_in_place, true}, {"told", forward_told, false}, {"reads", forward_reads, false}};

static val input(void)
{
    return owned(&run, empty(&run, DTYPE_BF16, SHAPE(TOKENS, WIDTH)));
}

static struct calls_key key_of(uint64_t word)
{
    struct calls_key key = {0};

    calls_key_add(&key, word);
    return key;
}

/* What a program does by hand each time: relu() times a number of its own. */
static val hand(void *of, int n, const val *v, const int64_t *i)
{
    val out;

    ck_assert_int_eq(n, 1);
    ck_assert_int_eq(*i, 9);
    ++*(int *)of;
    out = relu(&run, v[0]);
    return owned(&run, out);
}

static int hands;
static const struct calls_host host = {hand, &hands};

static const struct calls *written(const struct forward_row *row, val x, val *ret)
{
    struct calls_key key = key_of(7);
    const struct calls *c = NULL;

    ck_assert(!calls_find(book, &key, &c));
    ck_assert(calls_begin(&run, book, &key, layer[0], 1, &x));
    *ret = row->forward(layer[0], x);
    calls_end(&run, 1, ret, 0, 5, 0);
    ck_assert_msg(calls_find(book, &key, &c) && c, "%s", row->name);
    ck_assert_uint_le(calls_steps(c), 5); /* a quarter of what is asked again, where that is less */
    return c;
}

static void same_births(uint32_t from, uint32_t to, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct birth *a = &run.births[from + i], *b = &run.births[to + i];

        ck_assert_uint_eq(a->bytes, b->bytes);
        ck_assert_uint_eq(a->op, b->op);
    }
}

/* Of the second layer the calls of the first: the tape of the second, module numbers too. */
START_TEST(asks_again)
{
    const struct forward_row *row = &forwards[_i];
    val x = input(), y, z, of_hand;
    const struct calls *c;
    uint32_t births, events, n, n_events;

    run.views_known = row->views;
    c = written(row, x, &y);
    births = run.n_births;
    events = run.n_events;
    of_hand = row->forward(layer[1], x);
    n = run.n_births - births;
    n_events = run.n_events - events;
    births = run.n_births;
    events = run.n_events;
    calls_again(&run, c, &host, layer[1], &x, &z);
    ck_assert(!run.error.code && !run.diverged);
    ck_assert_uint_eq(run.n_births - births, n);
    ck_assert_uint_eq(run.n_events - events, n_events);
    ck_assert_uint_eq(run.nodes[run.values[z].node].op, run.nodes[run.values[of_hand].node].op);
    same_births(births - n, births, n);
    ck_assert_uint_eq(run.births[births].module, layer[1]->first->number);
    ck_assert_uint_eq(run.values[z].refs, run.values[of_hand].refs);
}
END_TEST

/* A result of another size is not what the program saw. */
START_TEST(sees_what_differs)
{
    val x = input(), y, z = 0;
    const struct calls *c = written(forwards, x, &y);

    calls_again(&run, c, &host, layer[LAYERS - 1], &x, &z);
    ck_assert(run.diverged);
    ck_assert_int_eq(run.error.code, ERR_INTERNAL);
}
END_TEST

static const char *const ways[] = {"a value beside it", "one from outside", "held beyond the end", "another module", "what cannot be written"};

/* Nothing is written down, and that is known. */
START_TEST(gives_up)
{
    val x = input(), other = input(), y = 0;
    struct calls_key key = key_of(8 + (uint64_t)_i);
    const struct calls *c;

    ck_assert_msg(calls_begin(&run, book, &key, layer[0], 1, &x), "%s", ways[_i]);
    if (_i == 0)
        (void)owned(&run, value_empty(&run, OP_EMPTY, DTYPE_FP32, SHAPE(3)));
    if (_i == 1)
        calls_held(&run, CALLED_HOLD, mul(&run, x, other));
    if (_i == 2)
        calls_held(&run, CALLED_LEND, x);
    if (_i == 3)
        calls_held(&run, CALLED_HOLD, call(&run, layer[1]->first, x));
    if (_i == 4)
        calls_unheard(&run);
    y = forward(layer[0], x);
    calls_end(&run, 1, &y, 0, 1, 0);
    ck_assert_msg(calls_find(book, &key, &c) && !c, "%s", ways[_i]);
    ck_assert(!run.error.code && !run.calls);
}
END_TEST

/* A full book begins anew. */
START_TEST(full_book)
{
    val x = input(), y;
    struct calls_key key;
    const struct calls *c;

    (void)written(forwards, x, &y);
    for (uint64_t i = 0; i < 20000; i++) {
        key = key_of(100 + i);
        ck_assert(calls_begin(&run, book, &key, layer[0], 1, &x));
        calls_give_up(&run);
        ck_assert(calls_find(book, &key, &c) && !c);
    }
    key = key_of(7);
    ck_assert(!calls_find(book, &key, &c));
}
END_TEST

/* Of what is done by hand nothing is written but that it was: it is done again, and its result held once. */
START_TEST(by_hand)
{
    const int64_t nine = 9;
    val x = input(), y, z = 0;
    struct calls_key key = key_of(7);
    const struct calls *c = NULL;
    struct calls_writer *w;
    uint32_t births;

    ck_assert(calls_begin(&run, book, &key, layer[0], 1, &x));
    w = calls_hand_begins(&run, 1, &x, 1, &nine);
    ck_assert(w && !run.calls);
    hands = 0;
    y = hand(&hands, 1, &x, &nine);
    calls_hand_ends(&run, w, 1, &x, y);
    calls_end(&run, 1, &y, 0, 5, 2);
    ck_assert(calls_find(book, &key, &c) && c);
    ck_assert_uint_eq(calls_steps(c), 0); /* less than four calls */
    births = run.n_births;
    calls_again(&run, c, &host, layer[1], &x, &z);
    ck_assert(!run.error.code && !run.diverged);
    ck_assert_int_eq(hands, 2);
    ck_assert_uint_eq(run.n_births, births + 1);
    ck_assert_uint_eq(run.values[z].refs, run.values[y].refs);
}
END_TEST

UNIT_TESTS("torch/calls", tcase_add_checked_fixture(unit_.tcase, begin, end); unit_rows(asks_again, forwards); unit_test(sees_what_differs);
           unit_rows(gives_up, ways); unit_test(full_book); unit_test(by_hand);)
