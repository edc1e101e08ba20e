/* ZeRO stage 3: figures of whole steps against runs of DeepSpeed itself, and laws of its shards. */
#include "meters/clock.h"
#include "parallel/program.h"
#include "perf/perf.h"
#include "tests/support/steps.h"
#include "tests/support/traced.h"
#include "train/measure.h"
#include "train/trainer.h"

#include <stdlib.h>

enum { ROOM = 1 << 28 };

static struct arena arena;

static void begin(void)
{
    static unsigned char *room;

    if (!room)
        room = malloc(ROOM);
    arena_init(&arena, room, ROOM);
}

/* Buckets of a size that a small model fills more than once. */
static struct recipe small_zero(uint32_t ranks)
{
    return (struct recipe){
        .method = METHOD_ZERO3,
        .framework = FRAMEWORK_TORCH,
        .stack = traced_new,
        .data_parallel = ranks,
        .seq_len_tokens = 128,
        .micro_batch_size = 2,
        .gradient_accumulation_steps = 1,
        .precision = PRECISION_BF16_MIXED,
        .attention = ATTENTION_SDPA,
        .use_cache = TRI_FALSE,
        .keep_outputs = TRI_TRUE,
        .max_grad_norm = 1,
        .zero = {3000000, 500000000, 400000, 2000000, 1000000, 1000, TRI_UNSET, TRI_UNSET},
    };
}

static struct measured measured_of(const struct recipe *asked)
{
    struct arch arch = small_arch(&small_llama, &arena);
    struct measured m;
    struct step step;
    struct err err = {0};

    ck_assert_msg(!train_resolve(asked, &arch, &traced_device, &arena, &step, &err), "%s %s", err.at, err.detail);
    ck_assert_msg(!train_measure(&arch, &step, &traced_device, false, NULL, &arena, &m, &err), "%s %s", err.at, err.detail);
    return m;
}

/* Torch's allocator in runs of DeepSpeed 0.19.8 (new) and 0.14.2 (old) on a null device: bytes after initialize(), at the second step's peak, at
 * its end, and what was reserved. small_llama, the recipe above and what each row adds. */
static const struct {
    const char *name;
    uint32_t ranks, accumulated;
    bool old, checkpoints, caches;
    enum offload offload;
    enum precision precision;
    uint64_t static_bytes, peak, resting, reserved;
} runs[] = {
    {"8 ranks", 8, 1, false, false, false, OFFLOAD_NONE, PRECISION_BF16_MIXED, 17158144, 64414720, 28179456, 134217728},
    {"8 ranks, KV cache", 8, 1, false, false, true, OFFLOAD_NONE, PRECISION_BF16_MIXED, 17158144, 64414720, 28179456, 134217728},
    {"8 ranks, checkpoints", 8, 1, false, true, false, OFFLOAD_NONE, PRECISION_BF16_MIXED, 17158144, 54094848, 28179456, 123731968},
    {"3 ranks, 2 micro-batches", 3, 2, false, false, false, OFFLOAD_NONE, PRECISION_BF16_MIXED, 35067392, 103819776, 65247744, 155189248},
    {"one rank", 1, 1, false, false, false, OFFLOAD_NONE, PRECISION_BF16_MIXED, 95409152, 216237568, 184110592, 281018368},
    {"4 ranks, optimizer offload", 4, 1, false, false, false, OFFLOAD_OPTIMIZER, PRECISION_BF16_MIXED, 11450880, 47693312, 11458048,
     115343360},
    {"4 ranks, both offloads, checkpoints", 4, 1, false, true, false, OFFLOAD_OPTIMIZER_PARAMS, PRECISION_BF16_MIXED, 6001152, 31923712,
     6008320, 83886080},
    {"4 ranks, fp16", 4, 1, false, false, false, OFFLOAD_NONE, PRECISION_FP16_MIXED, 27841024, 86269952, 50034688, 157286400},
};

START_TEST(steps_as_deepspeed)
{
    struct recipe asked = small_zero(runs[_i].ranks);
    struct measured m;

    begin();
    asked.gradient_accumulation_steps = runs[_i].accumulated;
    asked.gradient_checkpointing = runs[_i].checkpoints ? TRI_TRUE : TRI_FALSE;
    asked.use_cache = runs[_i].caches ? TRI_TRUE : TRI_FALSE;
    asked.offload = runs[_i].offload;
    asked.precision = runs[_i].precision;
    asked.stack = runs[_i].old ? traced_old : traced_new;
    m = measured_of(&asked);
    ck_assert_msg(m.static_bytes == runs[_i].static_bytes && m.peak_allocated_bytes == runs[_i].peak && m.resting_bytes == runs[_i].resting,
                  "%s: static %llu peak %llu resting %llu", runs[_i].name, (unsigned long long)m.static_bytes,
                  (unsigned long long)m.peak_allocated_bytes, (unsigned long long)m.resting_bytes);
    ck_assert_msg(m.peak_reserved_bytes == runs[_i].reserved, "%s: reserved %llu", runs[_i].name,
                  (unsigned long long)m.peak_reserved_bytes);
}
END_TEST

static struct trainer *run_of(const struct recipe *asked)
{
    static struct step step;
    static struct arch arch;
    struct trainer *t = arena_new(&arena, struct trainer);
    struct err err = {0};

    arch = small_arch(&small_llama, &arena);
    ck_assert(t && !train_resolve(asked, &arch, &traced_device, &arena, &step, &err));
    ck_assert_msg(!trainer_run(t, &arch, &step, &traced_device, &arena, &err), "%s %s", err.at, err.detail);
    return t;
}

static uint64_t host_bytes(uint32_t ranks, enum offload offload)
{
    struct recipe asked = small_zero(ranks);
    struct trainer *t;

    begin();
    asked.offload = offload;
    t = run_of(&asked);
    return t->method->host_bytes(t->wrapped);
}

/* fp32 weights, gradients and two states, gradients in half: 18 bytes of every trained element; the half weights with parameter offload. */
START_TEST(host_holds_the_shards)
{
    uint64_t one = host_bytes(1, OFFLOAD_OPTIMIZER), elems = one / 18;

    ck_assert_uint_eq(one % 18, 0);
    ck_assert_uint_eq(host_bytes(1, OFFLOAD_NONE), 0);
    ck_assert_uint_eq(host_bytes(1, OFFLOAD_OPTIMIZER_PARAMS), 20 * elems);
    ck_assert_uint_eq(host_bytes(8, OFFLOAD_OPTIMIZER) * 8, one);
    ck_assert_uint_ge(host_bytes(7, OFFLOAD_OPTIMIZER) * 7, one);
    ck_assert_uint_le(host_bytes(7, OFFLOAD_OPTIMIZER) * 7, one + 18 * 6 * 64); /* less than a rank's worth of elements for each tensor */
}
END_TEST

/* What is born on a stream of its own stays there; nothing gathered survives the step but persistent tensors. */
START_TEST(streams_and_leftovers)
{
    struct recipe asked = small_zero(4);
    const struct run *r;
    uint64_t of_stream[STREAM_COUNT] = {0}, live = 0;

    begin();
    r = &run_of(&asked)->run;
    for (uint32_t i = 0; i < r->n_births; i++)
        of_stream[r->births[i].stream] += r->births[i].bytes;
    ck_assert_uint_gt(of_stream[STREAM_GATHER], 0);
    ck_assert_uint_gt(of_stream[STREAM_REDUCE], 0);
    for (uint32_t i = 0; i < r->n_events; i++) {
        uint32_t e = r->events[i];

        if (event_is_of_block(e) && r->births[e & EVENT_BLOCK].stream == STREAM_GATHER)
            live += e & EVENT_DEATH ? -r->births[e & EVENT_BLOCK].bytes : r->births[e & EVENT_BLOCK].bytes;
    }
    ck_assert_uint_eq(live, 0);
    asked.zero.overlap_comm = TRI_FALSE;
    begin();
    r = &run_of(&asked)->run;
    for (uint32_t i = 0; i < r->n_births; i++)
        ck_assert_uint_eq(r->births[i].stream, STREAM_COMPUTE);
}
END_TEST

/* A larger threshold keeps more tensors whole between steps. */
START_TEST(persistent_tensors_stay)
{
    struct recipe few = small_zero(8), more = small_zero(8);
    uint64_t least;

    begin();
    least = measured_of(&few).resting_bytes;
    more.zero.persistence_elems = 300000;
    begin();
    ck_assert_uint_gt(measured_of(&more).resting_bytes, least + 2 * 3 * 2 * 256 * 512); /* k and v of three layers, in half */
}
END_TEST

static uint64_t peak_within(const struct stack *stack, enum tri zero_init)
{
    struct recipe asked = small_zero(8);

    asked.framework = FRAMEWORK_TRANSFORMERS;
    asked.keep_outputs = TRI_FALSE;
    asked.stack = *stack;
    asked.zero.zero_init = zero_init;
    begin();
    return measured_of(&asked).peak_allocated_bytes;
}

/* Linears of a model that is made outside zero.Init keep gathered weights for backward, until DeepSpeed 0.19; left out, that is what is answered. */
START_TEST(where_a_model_is_made_matters_until_linears_are_wrapped)
{
    uint64_t outside = peak_within(&traced_old, TRI_FALSE);

    ck_assert_uint_gt(outside, peak_within(&traced_old, TRI_TRUE));
    ck_assert_uint_eq(outside, peak_within(&traced_old, TRI_UNSET));
    outside = peak_within(&traced_new, TRI_FALSE);
    ck_assert_uint_eq(outside, peak_within(&traced_new, TRI_TRUE));
    ck_assert_uint_eq(outside, peak_within(&traced_new, TRI_UNSET));
}
END_TEST

/* A timekeeper's figures lie between those of a GPU that never lags and of one that always does; allocated ones are the same; and so are all of the
 * same question. */
START_TEST(timed_lies_between)
{
    static const struct perf_system fast = {.flops_per_s = {[DTYPE_BF16] = 300e12, [DTYPE_FP32] = 20e12},
                                            .best_products = 0.9,
                                            .capability = 80,
                                            .memory_bytes_per_s = 2e12,
                                            .multiprocessors = 108,
                                            .intra = {.bytes_per_s = 230e9},
                                            .inter = {.bytes_per_s = 25e9},
                                            .gpus_per_node = 8,
                                            .nodes = 1};
    struct perf_system slow = fast;
    const struct perf_system *systems[] = {&fast, &slow};
    struct recipe asked = small_zero(8);
    struct arch arch;
    struct step step;
    struct err err = {0};
    struct measured of[2], again, without;

    slow.memory_bytes_per_s = 2e7; /* the host is always far ahead */
    begin();
    without = measured_of(&asked);
    ck_assert(!without.timed);
    ck_assert_uint_eq(without.peak_active_timed_bytes, without.peak_active_bytes);
    for (int i = 0; i < 2; i++) {
        struct timekeeper keeper = perf_timekeeper(systems[i]);

        arch = small_arch(&small_llama, &arena);
        ck_assert(!train_resolve(&asked, &arch, &traced_device, &arena, &step, &err));
        ck_assert(!train_measure(&arch, &step, &traced_device, false, &keeper, &arena, &of[i], &err));
        ck_assert(!train_measure(&arch, &step, &traced_device, false, &keeper, &arena, &again, &err));
        ck_assert(of[i].timed);
        ck_assert_uint_eq(of[i].peak_active_timed_bytes, again.peak_active_timed_bytes);
        ck_assert_uint_eq(of[i].peak_reserved_timed_bytes, again.peak_reserved_timed_bytes);
        ck_assert_uint_eq(of[i].peak_allocated_bytes, without.peak_allocated_bytes);
        ck_assert_uint_ge(of[i].peak_active_timed_bytes, of[i].peak_active_bytes);
        ck_assert_uint_le(of[i].peak_active_timed_bytes, of[i].peak_active_lagging_bytes);
    }
    ck_assert_uint_gt(of[1].peak_active_timed_bytes, of[0].peak_active_timed_bytes);
}
END_TEST

UNIT_TESTS("parallel/zero3", unit_rows(steps_as_deepspeed, runs); unit_test(host_holds_the_shards); unit_test(streams_and_leftovers);
           unit_test(persistent_tensors_stay); unit_test(where_a_model_is_made_matters_until_linears_are_wrapped); unit_test(timed_lies_between);)
