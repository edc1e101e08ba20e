/* Buckets of DistributedDataParallel: how they are assigned, what they allocate, when they are reduced. */
#include "parallel/ddp/ddp.h"
#include "stack/stack.h"
#include "tests/support/unit.h"
#include "torch/autograd.h"
#include "torch/work.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 12, ROOM = 1 << 22 };

#define NO_LIMIT (UINT64_C(1) << 62)

/* What torch.distributed._compute_bucket_assignment_by_size answers, torch 2.2 and 2.15 alike. Tensors are fp32 (f) or bf16 (b). */
static const struct {
    const char *name;
    const char *dtypes;
    int64_t elems[MOST];
    uint64_t limits[2];
    const char *order;   /* a digit a tensor; NULL: as they stand */
    const char *buckets; /* "01 2": tensors 0 and 1, then 2 */
} row[] = {
    {"a tensor that reaches the limit closes its bucket", "fff", {256, 100, 1}, {1024}, NULL, "0 12"},
    {"one below the limit takes one more", "ffff", {255, 1, 300, 5}, {1024}, NULL, "01 2 3"},
    {"a bucket may overflow", "fff", {200, 5000, 1}, {1024}, NULL, "01 2"},
    {"the first limit holds once", "fffffffff", {64, 64, 64, 64, 64, 64, 64, 64, 64}, {256, 1024}, NULL, "0 1234 5678"},
    {"no limit, one bucket", "fff", {100, 2000, 3}, {NO_LIMIT}, NULL, "012"},
    {"a bucket for each dtype, by their lowest index", "fbfbffb", {10, 10, 10, 500, 10, 600, 3}, {1024}, NULL, "0245 136"},
    {"limits are counted for each dtype", "fbfffbfbfb", {64, 128, 64, 64, 64, 128, 300, 600, 1, 1}, {256, 1024}, NULL, "0 1 2346 57 8 9"},
    {"the later dtype begins first", "bfbfb", {10, 600, 10, 10, 600}, {1024}, NULL, "024 1 3"},
    {"in the order of arrival", "fffff", {64, 300, 10, 700, 20}, {256, 1024}, "43210", "43 21 0"},
    {"arrival, what remains is one", "ffffff", {10, 10, 10, 10, 10, 10}, {1024}, "531024", "531024"},
};

static void spell(const struct ddp_assignment *a, char *buf)
{
    for (uint32_t b = 0, i = 0; b < a->n_buckets; b++) {
        if (b)
            *buf++ = ' ';
        for (; i < a->ends[b]; i++)
            *buf++ = (char)('0' + a->indices[i]);
    }
    *buf = 0;
}

START_TEST(assigns_as_torch)
{
    uint32_t indices[MOST], ends[MOST], order[MOST], n = (uint32_t)strlen(row[_i].dtypes);
    struct ddp_assignment a = {.indices = indices, .ends = ends};
    struct ddp_tensor tensors[MOST];
    char text[4 * MOST];

    for (uint32_t i = 0; i < n; i++) {
        bool wide = row[_i].dtypes[i] == 'f';

        tensors[i] = (struct ddp_tensor){(uint64_t)row[_i].elems[i] * (wide ? 4 : 2), wide ? DTYPE_FP32 : DTYPE_BF16};
        order[i] = row[_i].order ? (uint32_t)(row[_i].order[i] - '0') : i;
    }
    ddp_assign(n, tensors, row[_i].order ? order : NULL, row[_i].limits[1] ? 2 : 1, row[_i].limits, &a);
    spell(&a, text);
    ck_assert_msg(!strcmp(text, row[_i].buckets), "%s: %s", row[_i].name, text);
}
END_TEST

/* --- a wrapper around four leaves of 64, 128, 256 and 512 fp32 --------------------------------------------------------------------- */
enum { LEAVES = 4 };

static unsigned char block[ROOM];
static struct run run;
static struct message messages[16];
static struct work work = {.messages = messages, .max_messages = 16};
static val leaves[LEAVES];

static uint64_t live_bytes(enum mark mark)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < run.n_events; i++) {
        const struct birth *b = &run.births[run.events[i] & EVENT_BLOCK];

        if (b->mark == (uint8_t)mark)
            sum += run.events[i] & EVENT_DEATH ? -b->bytes : b->bytes;
    }
    return sum;
}

static struct ddp *wrap(uint64_t first, uint64_t cap, bool find, bool view)
{
    struct ddp_options o = {.bucket_bytes = cap, .first_bucket_bytes = first, .find_unused_parameters = find, .bucket_view = view};
    static struct arena a;
    static struct quirks q;
    struct err err;

    arena_init(&a, block, sizeof block);
    work.n_messages = 0;
    ck_assert(
        !run_init(&run, &a, &q, (struct device){0}, (struct run_limits){.values = 256, .storages = 256, .nodes = 64, .births = 256}, &err));
    for (int i = 0; i < LEAVES; i++) {
        leaves[i] = owned(&run, value_empty(&run, OP_EMPTY, DTYPE_FP32, 1, (int64_t[]){64 << i}));
        require_grad(&run, leaves[i]);
        pin_leaf(&run, leaves[i]);
    }
    run.work = &work;
    return ddp_new(&run, &o, LEAVES, leaves);
}

/* Gradients of the leaves arrive, the last first; zero_grad() afterwards. */
static void backward(void)
{
    for (int i = LEAVES; i-- > 0;) {
        val *grad = grad_of(&run, leaves[i]);

        *grad = owned(&run, value_empty(&run, OP_MM, DTYPE_FP32, 1, (int64_t[]){64 << i}));
        run.grad_ready(run.grad_ready_of, leaves[i]);
    }
}

static void zero_grad(void)
{
    for (int i = 0; i < LEAVES; i++) {
        val *grad = grad_of(&run, leaves[i]), old = *grad;

        *grad = 0;
        value_unref(&run, old);
    }
}

static void expect_messages(uint32_t from, uint32_t n, const uint64_t *bytes)
{
    ck_assert_uint_eq(work.n_messages, from + n);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_uint_eq(messages[from + i].bytes, bytes[i]);
}

START_TEST(makes_buckets_anew_in_the_order_of_arrival)
{
    struct ddp *d = wrap(1024, 2048, false, false);

    ck_assert_uint_eq(live_bytes(MARK_COMMUNICATION), 960 * 4); /* one bucket until the order is known */
    ddp_pre_forward(d);
    backward();
    zero_grad();
    expect_messages(0, 1, (uint64_t[]){960 * 4});
    ddp_pre_forward(d);
    expect_messages(1, 2, (uint64_t[]){5 * 4, 2 * 4}); /* indices and their number, then the sizes: two broadcasts */
    ck_assert_int_eq(messages[1].collective, COLLECTIVE_BROADCAST);
    backward();
    expect_messages(3, 2, (uint64_t[]){512 * 4, 448 * 4}); /* 512 alone reaches 1024 bytes; 256, 128 and 64 stay below 2048 */
    ck_assert_uint_eq(live_bytes(MARK_COMMUNICATION), 960 * 4);
    zero_grad();
    ddp_pre_forward(d);
    ck_assert_uint_eq(work.n_messages, 5); /* once is enough */
}
END_TEST

START_TEST(keeps_its_buckets_where_it_looks_for_unused_parameters)
{
    struct ddp *d = wrap(256, 1024, true, false);

    ck_assert_uint_eq(live_bytes(MARK_COMMUNICATION), 960 * 4 + LEAVES * 4); /* and an int32 for each parameter */
    for (int step = 0; step < 2; step++) {
        ddp_pre_forward(d);
        backward();
        zero_grad();
    }
    /* 64 reaches 256 bytes, 128 and 256 reach 1024, 512 is what remains; they go in reverse */
    expect_messages(0, 8, (uint64_t[]){2048, 1536, 256, 16, 2048, 1536, 256, 16});
}
END_TEST

START_TEST(reduces_nothing_under_no_sync)
{
    struct ddp *d = wrap(1024, 2048, false, false);

    ddp_pre_forward(d);
    ddp_sync(d, false);
    backward();
    zero_grad();
    expect_messages(0, 0, NULL);
    ddp_pre_forward(d); /* no order is known yet */
    expect_messages(0, 0, NULL);
    ddp_sync(d, true);
    backward();
    expect_messages(0, 1, (uint64_t[]){960 * 4});
}
END_TEST

START_TEST(views_leave_no_gradient_beside_the_bucket)
{
    struct ddp *d = wrap(1024, 2048, false, true);
    uint64_t bucket = live_bytes(MARK_GRADIENT), before = live_bytes(MARK_NONE);

    ck_assert_uint_eq(bucket, 960 * 4);
    ddp_pre_forward(d);
    backward();
    ck_assert_uint_eq(live_bytes(MARK_NONE), before); /* what backward made is gone */
    ck_assert_uint_eq(live_bytes(MARK_GRADIENT), bucket);
    ddp_pre_forward(d); /* gradients that are alive move into the new buckets, and the old one dies */
    ck_assert_uint_eq(live_bytes(MARK_GRADIENT), bucket);
    zero_grad();
    ck_assert_uint_eq(live_bytes(MARK_GRADIENT), bucket);
    ck_assert(!run.error.code);
}
END_TEST

START_TEST(hands_clones_on_where_it_looks_for_unused_parameters)
{
    struct ddp *d = wrap(1024, 2048, true, false);
    val outputs[2];

    outputs[0] = leaves[0];
    outputs[1] = owned(&run, value_empty(&run, OP_EMPTY, DTYPE_INT64, 1, (int64_t[]){3})); /* no gradient: handed on */
    value_ref(&run, outputs[0]);
    ddp_post_forward(d, 2, outputs);
    ck_assert_uint_ne(outputs[0], leaves[0]);
    ck_assert_int_eq(run.nodes[run.values[outputs[0]].node].op, OP_PASS_EACH);
    ck_assert_int_eq(run.values[outputs[1]].dtype, DTYPE_INT64);
    ck_assert_uint_eq(run.values[outputs[1]].node, 0);
    d = wrap(1024, 2048, false, false);
    outputs[0] = leaves[0];
    ddp_post_forward(d, 1, outputs);
    ck_assert_uint_eq(outputs[0], leaves[0]);
}
END_TEST

/* Whatever the arena holds, the constructor says so or stands. */
START_TEST(survives_any_arena_size)
{
    struct quirks q = {0};
    struct ddp_options o = {.bucket_bytes = 2048, .first_bucket_bytes = 1024};
    struct err err;
    bool stood = false;

    for (size_t room = 1 << 15; room < 1 << 17; room += 40) {
        struct arena a;
        struct ddp *d;

        arena_init(&a, block, room);
        if (run_init(&run, &a, &q, (struct device){0}, (struct run_limits){.values = 64, .storages = 64, .nodes = 64, .births = 64}, &err))
            continue;
        leaves[0] = owned(&run, value_empty(&run, OP_EMPTY, DTYPE_FP32, 1, (int64_t[]){64}));
        require_grad(&run, leaves[0]);
        pin_leaf(&run, leaves[0]);
        d = ddp_new(&run, &o, 1, leaves);
        ck_assert((d != NULL) == (run.error.code == ERR_OK));
        stood |= d != NULL;
    }
    ck_assert(stood);
}
END_TEST

UNIT_TESTS("parallel/ddp", unit_rows(assigns_as_torch, row); unit_test(makes_buckets_anew_in_the_order_of_arrival);
           unit_test(keeps_its_buckets_where_it_looks_for_unused_parameters); unit_test(reduces_nothing_under_no_sync);
           unit_test(views_leave_no_gradient_beside_the_bucket); unit_test(hands_clones_on_where_it_looks_for_unused_parameters);
           unit_test(survives_any_arena_size);)
