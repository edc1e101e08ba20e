/* core/perf/follow.c: where host and streams stand while a tape is played. */
#include "perf/perf.h"
#include "tests/support/unit.h"

#include <string.h>

enum { MOST = 2048 };

static const struct perf_system two = {
    .flops_per_s = {[DTYPE_FP32] = 1e12, [DTYPE_BF16] = 1e12, [DTYPE_FP16] = 1e12},
    .best_products = 1,
    .memory_bytes_per_s = 1e9,
    .multiprocessors = 1,
    .intra = {.bytes_per_s = 1e9},
    .bus_bytes_per_s = 1e9,
    .gpus_per_node = 2,
    .nodes = 1,
};

static unsigned char room[1 << 20];

/*
 * k g r   a kernel of compute, of the gathers' stream, of the reductions'
 * a       an all-gather that the gathers' stream is enqueued from, and takes       s  a reduce-scatter, of the reductions', apart from those
 * <  >    reductions wait for compute; compute waits for the gathers               t  compute takes the last message
 * e h     an event of the reductions; the host waits for the oldest                S  it waits for all
 */
struct script {
    struct kernel kernels[MOST];
    struct message messages[MOST];
    struct order orders[MOST];
    struct work log;
    uint32_t awaited;
};

static void add_order(struct script *s, enum order_kind kind, unsigned stream, uint32_t of)
{
    struct work *w = &s->log;

    w->orders[w->n_orders] = (struct order){w->n_kernels, w->n_messages, w->n_orders + w->n_kernels + w->n_messages, of, (uint8_t)kind, (uint8_t)stream};
    w->n_orders++;
}

static void add_kernel(struct script *s, unsigned stream)
{
    struct work *w = &s->log;

    w->kernels[w->n_kernels] = (struct kernel){.bytes = 1000000000,
                                               .launches = 1,
                                               .work = WORK_MOVE,
                                               .stage = STAGE_FORWARD,
                                               .stream = (uint8_t)stream,
                                               .at = w->n_orders + w->n_kernels + w->n_messages};
    w->n_kernels++;
}

static void add_message(struct script *s, enum collective what, unsigned from, bool apart)
{
    struct work *w = &s->log;

    w->messages[w->n_messages] = (struct message){.bytes = 1000000000,
                                                  .kernels_before = w->n_kernels,
                                                  .collective = (uint8_t)what,
                                                  .from = (uint8_t)from,
                                                  .stream = (uint8_t)from,
                                                  .apart = apart,
                                                  .at = w->n_orders + w->n_kernels + w->n_messages};
    w->n_messages++;
}

static void add(struct script *s, char c)
{
    static const char streams[] = "kgr";
    static const uint8_t stream_of[] = {STREAM_COMPUTE, STREAM_GATHER, STREAM_REDUCE};

    if (strchr(streams, c))
        add_kernel(s, stream_of[strchr(streams, c) - streams]);
    else if (c == 'a' || c == 's')
        add_message(s, c == 'a' ? COLLECTIVE_ALL_GATHER : COLLECTIVE_REDUCE_SCATTER, c == 'a' ? STREAM_GATHER : STREAM_REDUCE, c == 's');
    else if (c == '<')
        add_order(s, ORDER_STREAM_WAITS, STREAM_REDUCE, STREAM_COMPUTE);
    else if (c == '>')
        add_order(s, ORDER_STREAM_WAITS, STREAM_COMPUTE, STREAM_GATHER);
    else if (c == 't')
        add_order(s, ORDER_TAKES, STREAM_COMPUTE, s->log.n_messages - 1);
    else if (c == 'e')
        add_order(s, ORDER_EVENT, STREAM_REDUCE, ++s->log.n_events);
    else if (c == 'h')
        add_order(s, ORDER_HOST_WAITS, STREAM_COMPUTE, s->awaited < s->log.n_events ? ++s->awaited : 0); /* 0: none was recorded */
    else if (c == 'S')
        add_order(s, ORDER_HOST_SYNCS, STREAM_COMPUTE, 0);
}

static struct tape_clock *follow(struct script *s, const char *letters, unsigned times, enum host_engine engine)
{
    struct timekeeper keeper = perf_timekeeper(&two);
    struct tape_clock *c;
    struct arena a;

    *s = (struct script){0};
    s->log.kernels = s->kernels;
    s->log.messages = s->messages;
    s->log.orders = s->orders;
    while (times--)
        for (const char *l = letters; *l; l++)
            add(s, *l);
    arena_init(&a, room, sizeof room);
    c = keeper.follow(keeper.of, (struct timed_run){&s->log, engine, FLASH_2}, &a);
    ck_assert_ptr_nonnull(c);
    c->begin(c);
    return c;
}

/* What a kernel and a message take. */
static double kernel_takes(void)
{
    static struct script s;
    struct tape_clock *c = follow(&s, "k", 1, HOST_TORCH);

    c->advance(c, 0);
    return c->passes(c, 1u << STREAM_COMPUTE);
}

static const struct {
    const char *letters;
    double compute, reduce, host; /* kernels; a message takes as long as `m` below */
    double compute_messages;
} scripts[] = {
    {"kk", 2, 0, 0, 0},
    {"kr", 1, 1, 0, 0},      /* nobody waits */
    {"k<r", 1, 2, 0, 0},
    {"k<rk", 2, 2, 0, 0},
    {"gk>k", 2, 0, 0, 0},    /* side by side */
    {"ggk>k", 3, 0, 0, 0},
    {"k<reh", 1, 2, 2, 0},   /* the host waits for the event, */
    {"k<rerrh", 1, 4, 2, 0}, /* not for what came after it */
    {"kkkS", 3, 0, 3, 0},
    {"kkShk", 3, 0, 2, 0},   /* an event that nobody recorded */
    {"at", 0, 0, 0, 1},
    {"aat", 0, 0, 0, 2},     /* one after another */
    {"ast", 0, 0, 0, 1},     /* on communicators of their own */
    {"gat", 1, 0, 0, 1},     /* enqueued from a stream that is busy */
};

START_TEST(streams_wait_as_the_program_says)
{
    static struct script s;
    double k = kernel_takes(), m = perf_collective_s(&two, COLLECTIVE_ALL_GATHER, 1000000000, (struct work_group){0, 0});
    struct tape_clock *c = follow(&s, scripts[_i].letters, 1, HOST_TORCH);

    for (int again = 0; again < 2; again++) {
        c->begin(c);
        c->advance(c, UINT32_MAX - 1);
        ck_assert_double_eq_tol(c->passes(c, 1u << STREAM_COMPUTE), scripts[_i].compute * k + scripts[_i].compute_messages * m, 0.01);
        ck_assert_double_eq_tol(c->passes(c, 1u << STREAM_REDUCE), scripts[_i].reduce * k, 0.01);
        ck_assert_double_eq_tol(c->host_s, scripts[_i].host * k, 0.01);
    }
}
END_TEST

START_TEST(goes_no_further_than_it_is_told)
{
    static struct script s;
    double k = kernel_takes();
    struct tape_clock *c = follow(&s, "kkkk", 1, HOST_TORCH);

    ck_assert_uint_eq(c->next, 0);
    c->advance(c, 1);
    ck_assert_double_eq_tol(c->passes(c, 1u << STREAM_COMPUTE), 2 * k, 0.01);
    ck_assert_uint_eq(c->next, 2);
    c->advance(c, 1);
    ck_assert_double_eq_tol(c->passes(c, 1u << STREAM_COMPUTE), 2 * k, 0.01);
}
END_TEST

/* A launch waits while 1,024 operations are in its stream; deaths of blocks record events there. */
START_TEST(a_full_queue_blocks_the_host)
{
    static struct script s;
    double k = kernel_takes();
    struct tape_clock *c = follow(&s, "k", 1030, HOST_TORCH);

    c->advance(c, 1023);
    ck_assert_double_lt(c->host_s, k);
    c->advance(c, UINT32_MAX - 1);
    ck_assert_double_eq_tol(c->host_s, 6 * k, 0.1);
    (void)c->passes(c, 1u << STREAM_COMPUTE);
    ck_assert_double_eq_tol(c->host_s, 7 * k, 0.1);
    (void)c->passes(c, 1u << STREAM_REDUCE);
    ck_assert_double_eq_tol(c->host_s, 7 * k, 0.1);
}
END_TEST

/* The slowest rank's message is what all wait for, however early the fastest is. */
START_TEST(a_message_waits_for_the_slowest_rank)
{
    static struct script s;
    double hook = perf_constant(PERF_STAGE3_HOOK_S)->value, fast = perf_constant(PERF_FAST_RANK)->value, slow_s = 20000 * hook;
    struct timekeeper keeper = perf_timekeeper(&two);
    struct tape_clock *c = follow(&s, "", 1, HOST_ZERO3);
    struct arena a;

    arena_init(&a, room, sizeof room);
    add(&s, 'k');
    s.kernels[0].hooks = 20000;
    add(&s, 'a');
    add(&s, 't');
    c = keeper.follow(keeper.of, (struct timed_run){&s.log, HOST_ZERO3, FLASH_2}, &a);
    c->begin(c);
    c->advance(c, UINT32_MAX - 1);
    ck_assert_double_eq_tol(c->host_s, fast * slow_s, 0.01);
    ck_assert_double_ge(c->passes(c, 1u << STREAM_COMPUTE), slow_s + perf_collective_s(&two, COLLECTIVE_ALL_GATHER, 1000000000, (struct work_group){0, 0}));
}
END_TEST

UNIT_TESTS("perf/follow",
    unit_rows(streams_wait_as_the_program_says, scripts);
    unit_test(goes_no_further_than_it_is_told);
    unit_test(a_full_queue_blocks_the_host);
    unit_test(a_message_waits_for_the_slowest_rank);
)
