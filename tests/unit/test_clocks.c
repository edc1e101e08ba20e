/* Kernels, messages and pipelines on their clocks: logs of kernels and messages of one second each. */
#include "perf/perf.h"
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

/* A byte a nanosecond, everywhere; what is fitted counts for nothing. */
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

static void plain_constants(double ret[PERF_CONSTANTS])
{
    perf_constants(ret);
    ret[PERF_MEMORY_SHARE] = ret[PERF_CACHE_SPEED] = ret[PERF_BUS_SHARE] = 1;
    ret[PERF_KERNEL_S] = ret[PERF_FORWARD_CALL_S] = ret[PERF_BACKWARD_CALL_S] = ret[PERF_MESSAGE_CALL_S] = 0;
    ret[PERF_HOST_RANK_BYTES_PER_S] = ret[PERF_HOST_NODE_BYTES_PER_S] = 15e9;
}

/* --- a log from letters -------------------------------------------------------------------------------------------------------- */

struct script {
    struct kernel kernels[MOST];
    struct message messages[MOST];
    struct work log;
    uint32_t waited; /* messages that are waited for already */
};

static void add_kernel(struct script *s, enum stage stage)
{
    s->kernels[s->log.n_kernels++] = (struct kernel){.bytes = 1000000000, .launches = 1, .work = WORK_MOVE, .stage = (uint8_t)stage};
}

static void add_message(struct script *s, enum collective what, unsigned stream, bool after_compute, enum stage stage)
{
    s->messages[s->log.n_messages++] = (struct message){
        .bytes = 1000000000,
        .kernels_before = s->log.n_kernels,
        .waited_before = MESSAGE_UNWAITED,
        .collective = (uint8_t)what,
        .stream = (uint8_t)stream,
        .after_compute = after_compute,
        .stage = (uint8_t)stage,
    };
}

/*
 * n       a send to a neighbour
 * f b o   a kernel of forward, backward, optimizer         s   an all-reduce that waits for compute
 * p       one that does not, on another stream             W   compute waits for the oldest message not yet waited for
 * t r H   to the host, from it, the optimizer there        |   the optimizer's stage begins; ';': another forward
 */
static void write_script(const char *letters, struct script *s)
{
    enum stage stage = STAGE_FORWARD;

    *s = (struct script){.log = {.max_kernels = MOST}};
    for (const char *c = letters; *c; c++) {
        stage = *c == '|' || *c == 'o' ? STAGE_OPTIMIZER : *c == 'f' || *c == ';' ? STAGE_FORWARD : *c == 'b' ? STAGE_BACKWARD : stage;
        if (strchr("fbo", *c))
            add_kernel(s, stage);
        else if (*c == 's' || *c == 'p')
            add_message(s, COLLECTIVE_ALL_REDUCE, *c == 's' ? STREAM_REDUCE : STREAM_GATHER, *c == 's', stage);
        else if (*c == 'n')
            add_message(s, COLLECTIVE_SEND, STREAM_GATHER, true, stage);
        else if (*c == 't' || *c == 'r' || *c == 'H')
            add_message(s, *c == 't' ? COLLECTIVE_TO_HOST : *c == 'r' ? COLLECTIVE_FROM_HOST : COLLECTIVE_HOST_STEP, STREAM_COPY, *c != 'r', stage);
        else if (*c == 'W')
            s->messages[s->waited++].waited_before = s->log.n_kernels;
    }
    s->log.kernels = s->kernels;
    s->log.messages = s->messages;
}

static struct cost cost_of_script(const char *letters, uint32_t accumulation, struct script *s)
{
    struct cost c;

    write_script(letters, s);
    cost_read(&s->log, accumulation, &c);
    c.micro_batch_size = c.seq_len_tokens = 1;
    c.model_flops = 1;
    return c;
}

static const struct {
    const char *letters;
    uint32_t accumulation;
    double compute, exposed, optimizer, offload;
} scripts[] = {
    {"fffbbb", 1, 6, 0, 0, 0},
    {"fsWf", 1, 2, 1, 0, 0},            /* tensor parallel: in the way of the layer */
    {"fsWfsWbsWb", 1, 4, 3, 0, 0},
    {"pWf", 1, 1, 1, 0, 0},             /* nothing to hide behind */
    {"pWfpWf", 1, 2, 1, 0, 0},          /* sent early: the second goes while the first kernel runs */
    {"ppWWfff", 1, 3, 2, 0, 0},         /* one at a time */
    {"pWpfWpfWf", 1, 3, 1, 0, 0},       /* the next layer's weights come while this one runs */
    {"fbs", 1, 2, 1, 0, 0},             /* waits at the end of the stage */
    {"fbsb", 1, 3, 0, 0, 0},
    {"fbsbsbWWb", 1, 5, 0, 0, 0},
    {"fbsssb", 1, 3, 2, 0, 0},
    {"fbspWWb", 1, 3, 2, 0, 0},         /* one communicator: the second behind the first */
    {"fbs|o", 1, 2, 1, 1, 0},
    {"fb|sWo", 1, 2, 1, 1, 0},
    {"fb|osW", 1, 2, 1, 1, 0},
    {"fbtbW|o", 1, 3, 0, 1, 0},         /* a copy to the host beside backward */
    {"fbt|o", 1, 2, 0, 1, 1},
    {"fb|H", 1, 2, 0, 0, 1},
    {"fb|Ho", 1, 2, 0, 1, 1},
    {"fb|tHrWWWo", 1, 2, 0, 1, 3},      /* gradients down, Adam, weights up */
    {"fbtbtbt|HrrWWWWWWo", 1, 4, 0, 1, 4},
    {"fbptWWb", 1, 3, 0, 0, 1},         /* the bus and the link go on beside each other */
    {"fbfb", 5, 10, 0, 0, 0},
    {"fbfbs", 5, 10, 1, 0, 0},          /* gradients are sent once */
    {"fbsfbs", 5, 10, 5, 0, 0},         /* or each time */
    {"sWfb;sWfb|o", 5, 10, 5, 1, 0},   /* what the next micro-step begins with is its own */
    {"pWfb;pWfbs|o", 5, 10, 6, 1, 0},
};

START_TEST(a_log_takes_as_long_as_its_edges_say)
{
    static struct script s;
    struct cost c = cost_of_script(scripts[_i].letters, scripts[_i].accumulation, &s);
    double constants[PERF_CONSTANTS];
    struct step_time t;

    plain_constants(constants);
    perf_step_time_with(constants, &c, &two, &t);
    ck_assert_msg(fabs(t.compute_s - scripts[_i].compute) < 1e-3, "%s computes %g s", scripts[_i].letters, t.compute_s);
    ck_assert_msg(fabs(t.communication_exposed_s - scripts[_i].exposed) < 1e-3, "%s exposes %g s", scripts[_i].letters, t.communication_exposed_s);
    ck_assert_msg(fabs(t.optimizer_s - scripts[_i].optimizer) < 1e-3, "%s optimizes %g s", scripts[_i].letters, t.optimizer_s);
    ck_assert_msg(fabs(t.offload_s - scripts[_i].offload) < 1e-3, "%s offloads %g s", scripts[_i].letters, t.offload_s);
    ck_assert_double_eq_tol(t.step_s, t.compute_s + t.communication_exposed_s + t.optimizer_s + t.offload_s + t.bubble_s, 1e-12);
}
END_TEST

START_TEST(a_wait_counts_once_however_many_are_under_way)
{
    static struct script s;
    char letters[MOST] = "f";
    struct cost c;
    double constants[PERF_CONSTANTS];
    struct step_time t;

    for (int i = 0; i < 50; i++) /* waited for before as many kernels: more than there is room for */
        strcat(letters, i < 25 ? "p" : i % 2 ? "W" : "f");
    c = cost_of_script(letters, 1, &s);
    plain_constants(constants);
    perf_step_time_with(constants, &c, &two, &t);
    ck_assert_double_ge(t.step_s, 25 - 1e-3);
    ck_assert_double_le(t.step_s, 25 + 14);
}
END_TEST

START_TEST(ranks_of_a_node_share_its_memory)
{
    static struct script s;
    struct cost c = cost_of_script("fb|H", 1, &s);
    struct perf_system eight = two;
    double constants[PERF_CONSTANTS];
    struct step_time a, b;

    plain_constants(constants);
    perf_step_time_with(constants, &c, &two, &a);
    eight.gpus_per_node = 8;
    perf_step_time_with(constants, &c, &eight, &b);
    ck_assert_double_eq_tol(b.offload_s, 4 * a.offload_s, 1e-6);
    constants[PERF_HOST_NODE_BYTES_PER_S] *= 100; /* a process alone reaches no more */
    perf_step_time_with(constants, &c, &eight, &b);
    ck_assert_double_eq_tol(b.offload_s, a.offload_s / 2, 1e-6);
}
END_TEST

/* --- pipelines ----------------------------------------------------------------------------------------------------------------- */

static const struct {
    uint32_t stages, micro_batches;
    enum schedule schedule;
    double forward, backward, send, slow; /* slow: times, the last stage */
    double bubble, step;
} pipelines[] = {
    {1, 4, SCHEDULE_1F1B, 1, 2, 0, 1, 0, 12},
    {2, 1, SCHEDULE_1F1B, 1, 2, 0, 1, 3, 6},
    {4, 8, SCHEDULE_1F1B, 1, 2, 0, 1, 9, 33},   /* (m + p - 1) slots */
    {4, 8, SCHEDULE_GPIPE, 1, 2, 0, 1, 9, 33},
    {4, 1, SCHEDULE_GPIPE, 1, 2, 0.5, 1, 12, 15}, /* each way three sends */
    {2, 4, SCHEDULE_GPIPE, 1, 2, 0.5, 1, 4, 16},
    {4, 8, SCHEDULE_1F1B, 1, 2, 0, 2, 33, 57},  /* the slowest stage: eight of it, filling and draining by the others */
};

static struct step_time pipelined(uint32_t n, uint32_t micro_batches, enum schedule schedule, const struct stage_time *stages)
{
    static unsigned char block[1 << 16];
    struct arena arena;
    struct step_time t;

    arena_init(&arena, block, sizeof block);
    ck_assert(perf_pipeline(stages, n, schedule, micro_batches, &arena, &t));
    return t;
}

static double sum(const struct step_time *t)
{
    return t->compute_s + t->communication_exposed_s + t->optimizer_s + t->offload_s + t->bubble_s;
}

START_TEST(pipelines_fill_and_drain)
{
    struct stage_time stages[8];
    struct step_time t;

    for (uint32_t i = 0; i < pipelines[_i].stages; i++) {
        double times = i + 1 == pipelines[_i].stages ? pipelines[_i].slow : 1;

        stages[i] = (struct stage_time){.forward_s = times * pipelines[_i].forward, .backward_s = times * pipelines[_i].backward, .send_s = pipelines[_i].send};
    }
    t = pipelined(pipelines[_i].stages, pipelines[_i].micro_batches, pipelines[_i].schedule, stages);
    ck_assert_double_eq_tol(t.bubble_s, pipelines[_i].bubble, 1e-9);
    ck_assert_double_eq_tol(sum(&t), pipelines[_i].step, 1e-9);
}
END_TEST

START_TEST(more_micro_batches_never_wait_more_each)
{
    static const struct stage_time stages[4] = {{.forward_s = 1, .backward_s = 2.5, .send_s = 0.1, .waited_wire_s = 0.5, .end_s = 1, .end_waited_wire_s = 0.25},
                                                {.forward_s = 1.5, .backward_s = 2, .send_s = 0.1},
                                                {.forward_s = 1, .backward_s = 2, .send_s = 0.1},
                                                {.forward_s = 1.25, .backward_s = 2.5, .waited_host_s = 0.25}};
    double last = 1e9;

    for (uint32_t m = 1; m <= 128; m *= 2) {
        struct step_time one = pipelined(4, m, SCHEDULE_1F1B, stages);

        ck_assert_double_lt(sum(&one) / m, last);
        ck_assert_double_ge(one.bubble_s, 0);
        ck_assert_double_ge(sum(&one), 3.75 * m);
        last = sum(&one) / m;
    }
}
END_TEST

START_TEST(a_pipeline_needs_room)
{
    unsigned char block[64];
    struct arena arena;
    struct step_time t;

    arena_init(&arena, block, sizeof block);
    ck_assert(!perf_pipeline(&(struct stage_time){.forward_s = 1}, 1, SCHEDULE_1F1B, 1000, &arena, &t));
}
END_TEST

START_TEST(a_stage_is_forward_and_backward)
{
    static struct script s;
    struct cost c = cost_of_script("ffnWbbbsWbn|osW", 1, &s);
    struct stage_time t;

    perf_stage_time(&c, &two, &t);
    ck_assert_double_gt(t.forward_s, 2);
    ck_assert_double_lt(t.forward_s, 3);
    ck_assert_double_eq_tol(t.send_s, 1, 1e-3); /* the schedule's to place */
    ck_assert_double_gt(t.backward_s, 5);
    ck_assert_double_lt(t.backward_s, 6.5);
    ck_assert_double_eq_tol(t.waited_wire_s, 1, 1e-3);
    ck_assert_double_eq_tol(t.end_waited_wire_s, 1, 1e-3);
    ck_assert_double_gt(t.end_s, 2);
}
END_TEST

UNIT_TESTS("perf/clocks",
    unit_rows(a_log_takes_as_long_as_its_edges_say, scripts);
    unit_test(a_wait_counts_once_however_many_are_under_way);
    unit_test(ranks_of_a_node_share_its_memory);
    unit_rows(pipelines_fill_and_drain, pipelines);
    unit_test(more_micro_batches_never_wait_more_each);
    unit_test(a_pipeline_needs_room);
    unit_test(a_stage_is_forward_and_backward);
)
