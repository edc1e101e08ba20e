/* Seconds of a step: laws over systems and steps, and tables of what one collective and one system come to. */
#include "perf/perf.h"
#include "plan/system.h"
#include "tests/support/steps.h"

#include <math.h>
#include <stdlib.h>

enum { ROOM = 512 << 20 };

static struct arena arena;

static void setup(void)
{
    static void *block;

    block = block ? block : malloc(ROOM);
    arena_init(&arena, block, ROOM);
}

/* --- systems ------------------------------------------------------------------------------------------------------------------- */

static struct perf_system system_of(const char *gpu, const char *intra, const char *inter, unsigned gpus, unsigned nodes, struct system_notes *notes)
{
    struct system_request a = {.gpu = gpu_find(gpu), .intra_node = intra, .inter_node = inter, .gpus_per_node = gpus, .nodes = nodes};
    struct gpu_notes ignored;
    struct perf_system s;
    struct err err = {0};

    ck_assert(gpu_device(a.gpu, &a.device, &ignored));
    ck_assert_msg(!plan_system(&a, &s, notes, &err), "%s %s", err.at, err.detail);
    return s;
}

static struct perf_system gpus(const char *gpu, unsigned n)
{
    struct system_notes notes;

    return system_of(gpu, "nvlink", NULL, n, 1, &notes);
}

static const struct {
    const char *gpu, *intra, *inter;
    unsigned gpus, nodes;
    double bf16_tflops, intra_gbs, inter_gbs; /* 0: no such link */
    unsigned notes;
} systems[] = {
    {"A100-80GB", "nvlink3", NULL, 8, 1, 312, 200, 0, 0},
    {"A100-80GB", "nvlink", NULL, 8, 1, 312, 200, 0, 0},
    {"A100-80GB", NULL, NULL, 8, 1, 312, 200, 0, 0},
    {"A100-80GB", NULL, NULL, 1, 1, 312, 0, 0, 0},
    {"H100", "nvlink", "ib-ndr x8", 8, 2, 989.4, 367.6, 332, 0},
    {"H100", "nvlink", NULL, 8, 2, 989.4, 367.6, 332, 1},               /* a network nobody named: 400 Gb/s a GPU, said so */
    {"H100", "nvlink", NULL, 4, 2, 989.4, 367.6, 166, 1},
    {"A100-80GB", "nvlink", NULL, 8, 4, 312, 200, 166, 1},              /* 200 */
    {"V100", "nvlink", NULL, 8, 2, 15.7, 114, 41.5, 2},                 /* 50, and bf16 at fp32's rate */
    {"L4", "pcie4", NULL, 8, 2, 121, 13.64, 10.375, 1},                 /* one adapter a node */
    {"H100", "nvlink", "slingshot-11-fallback", 8, 2, 989.4, 367.6, 5.4, 0}, /* measured below what it could */
    {"RTX 3090", NULL, NULL, 2, 1, 71.2, 6.82, 0, 2},                   /* PCIe, and a desktop's lanes: said so */
    {"RTX 3090", "pcie3", NULL, 2, 1, 71.2, 3.465, 0, 1},
    {"RTX 3090", "pcie4-x8", NULL, 2, 1, 71.2, 6.2, 0, 0},              /* as measured there */
    {"RTX 3090", "pcie4", NULL, 4, 1, 71.2, 13.64, 0, 0},               /* a server */
    {"RTX A6000", "pcie4", NULL, 2, 1, 154.8, 13.64, 0, 0},
    {"RTX 3090", "nvlink", NULL, 2, 1, 71.2, 52.8, 0, 0},               /* the bridge */
    {"RTX 3090", "nvlink", NULL, 4, 1, 71.2, 13.64, 0, 1},              /* joins pairs only */
    {"L4", "nvlink", NULL, 8, 1, 121, 13.64, 0, 1},                     /* it has none */
    {"V100", "nvlink", NULL, 4, 1, 15.7, 114, 0, 1},                    /* bf16 at fp32's rate */
    {"GB10", NULL, NULL, 1, 1, 125, 0, 0, 1},                           /* no fp32 rate */
    {"GB200", "nvlink5-nvl72", "ib-ndr x4", 4, 4, 2500, 680, 166, 1},   /* one domain */
    {"GB200", "nvlink5-nvl72", "ib-ndr x4", 4, 32, 2500, 680, 166, 0},  /* more than one */
};

START_TEST(a_system_is_what_sources_say)
{
    struct system_notes notes;
    struct perf_system s = system_of(systems[_i].gpu, systems[_i].intra, systems[_i].inter, systems[_i].gpus, systems[_i].nodes, &notes);

    ck_assert_double_eq_tol(s.flops_per_s[DTYPE_BF16] / 1e12, systems[_i].bf16_tflops, 1e-6);
    ck_assert_double_eq_tol(s.intra.bytes_per_s / 1e9, systems[_i].intra_gbs, 0.01);
    ck_assert_double_eq_tol(s.inter.bytes_per_s / 1e9, systems[_i].inter_gbs, 0.01);
    ck_assert_msg(notes.n == systems[_i].notes, "%u notes: %s", notes.n, notes.n ? notes.text[0] : "");
    for (unsigned n = 0; n < notes.n; n++)
        ck_assert_uint_lt(strlen(notes.text[n]), sizeof notes.text[n] - 1);
}
END_TEST

START_TEST(a_domain_of_nvlink_has_no_network_inside)
{
    struct system_notes notes;
    struct perf_system rack = system_of("GB200", "nvlink5-nvl72", "ib-ndr x4", 4, 18, &notes);
    struct perf_system racks = system_of("GB200", "nvlink5-nvl72", "ib-ndr x4", 4, 19, &notes);

    ck_assert_uint_eq(rack.gpus_per_node, 72);
    ck_assert_uint_eq(rack.nodes, 1);
    ck_assert_uint_eq(racks.nodes, 19);
    ck_assert_double_lt(perf_collective_s(&rack, COLLECTIVE_ALL_REDUCE, 1 << 30, (struct work_group){0, 0}), perf_collective_s(&racks, COLLECTIVE_ALL_REDUCE, 1 << 30, (struct work_group){0, 0}));
}
END_TEST

START_TEST(every_gpu_and_cluster_is_a_system_or_says_what_is_missing)
{
    for (size_t i = 0; i < gpu_count() + cluster_count(); i++) {
        const struct cluster *c = i < gpu_count() ? NULL : cluster_at(i - gpu_count());
        struct system_request a = {.gpu = c ? gpu_find(c->gpu) : gpu_at(i), .cluster = c, .gpus_per_node = c ? c->gpus_per_node : 8, .nodes = 2};
        struct perf_system s;
        struct system_notes notes;
        struct gpu_notes ignored;
        struct err err = {0};

        if (!gpu_device(a.gpu, &a.device, &ignored))
            continue;
        if (plan_system(&a, &s, &notes, &err)) {
            ck_assert_msg(strlen(err.at) && strlen(err.detail), "%s", a.gpu->name);
            continue;
        }
        ck_assert_msg(s.intra.bytes_per_s > 1e9 || a.gpus_per_node == 1, "%s", a.gpu->name);
        ck_assert_double_gt(s.inter.bytes_per_s, 1e8);
        for (int t = DTYPE_FP16; t < DTYPE_COUNT; t++)
            ck_assert_msg(s.flops_per_s[t] > 1e12, "%s %s", a.gpu->name, dtype_name((enum dtype)t));
    }
}
END_TEST

START_TEST(numbers_go_before_names)
{
    struct system_request a = {.gpu = gpu_find("A100"), .intra_node = "pcie4", .intra_node_gbs = 100, .inter_node_gbs = 50, .gpus_per_node = 8, .nodes = 2};
    struct perf_system s;
    struct system_notes notes;
    struct gpu_notes ignored;
    struct err err = {0};

    ck_assert(gpu_device(a.gpu, &a.device, &ignored));
    ck_assert(!plan_system(&a, &s, &notes, &err));
    ck_assert_double_eq_tol(s.intra.bytes_per_s, 76e9, 1e3);
    ck_assert_double_eq_tol(s.inter.bytes_per_s, 41.5e9, 1e3);
    a.intra_node_gbs = 0;
    a.intra_node = "carrier pigeon";
    ck_assert_int_eq(plan_system(&a, &s, &notes, &err), ERR_FIELD_VALUE);
    ck_assert_str_eq(err.at, "/cluster/intra_node");
}
END_TEST

/* --- collectives --------------------------------------------------------------------------------------------------------------- */

/* NCCL's Simple protocol over NVLink: 8.4 us and 3.4 a hop, 14 a hop between nodes; its trees: 28 a hop. */
#define GIB_MS(gbs) (1073.741824 / (gbs))

static const struct {
    unsigned gpus, nodes;
    enum collective what;
    struct work_group group;
    double gib, ms;
} collectives[] = {
    {1, 1, COLLECTIVE_ALL_REDUCE, {0, 0}, 1, 0},
    {8, 4, COLLECTIVE_ALL_REDUCE, {1, 1}, 1, 0},
    {8, 1, COLLECTIVE_ALL_REDUCE, {0, 0}, 1, 0.056 + GIB_MS(200) * 1.75},    /* 2 (n - 1) / n over the ring */
    {8, 1, COLLECTIVE_ALL_GATHER, {0, 0}, 1, 0.0322 + GIB_MS(200) * 0.875},
    {8, 1, COLLECTIVE_REDUCE_SCATTER, {8, 1}, 1, 0.0322 + GIB_MS(200) * 0.875},
    {8, 1, COLLECTIVE_ALL_GATHER, {4, 2}, 1, 0.0186 + GIB_MS(200) * 0.75},
    {2, 1, COLLECTIVE_ALL_REDUCE, {0, 0}, 1, 0.0152 + GIB_MS(200)},
    {8, 1, COLLECTIVE_SEND, {2, 1}, 1, 0.0118 + GIB_MS(200)},
    {8, 4, COLLECTIVE_ALL_REDUCE, {0, 0}, 1, 0.504 + GIB_MS(50) * 1.5},      /* a tree: the nodes' adapters carry the sum of each node once */
    {1, 4, COLLECTIVE_ALL_REDUCE, {0, 0}, 1, 0.0924 + GIB_MS(50) * 1.5},     /* one GPU a node: a ring has fewer hops that cost more */
    {8, 4, COLLECTIVE_ALL_GATHER, {0, 0}, 1, 0.1456 + GIB_MS(50) * 31 / 32}, /* once around all */
    {8, 4, COLLECTIVE_ALL_GATHER, {4, 8}, 1, 0.0504 + GIB_MS(50) * 8 * 0.75}, /* eight groups share a node's adapters */
    {8, 4, COLLECTIVE_ALL_GATHER, {16, 2}, 1, 0.0912 + GIB_MS(50) * 2 * 15 / 16},
    {8, 4, COLLECTIVE_ALL_GATHER, {8, 1}, 1, 0.0322 + GIB_MS(200) * 0.875},  /* stays in its node */
    {8, 4, COLLECTIVE_SEND, {2, 8}, 1, 0.0224 + GIB_MS(50) * 8},             /* each GPU of the node sends */
    {8, 1, COLLECTIVE_ALL_REDUCE, {0, 0}, 0, 0.015},                         /* LL */
};

START_TEST(collectives_take_latency_and_bandwidth)
{
    struct perf_system s = {.intra = {.bytes_per_s = 200e9}, .inter = {.bytes_per_s = 50e9}, .gpus_per_node = collectives[_i].gpus, .nodes = collectives[_i].nodes};
    double s_taken = perf_collective_s(&s, collectives[_i].what, (uint64_t)(collectives[_i].gib * 1073741824), collectives[_i].group);

    ck_assert_double_eq_tol(s_taken * 1e3, collectives[_i].ms, 1e-6);
}
END_TEST

static const enum collective over_links[] = {COLLECTIVE_ALL_REDUCE, COLLECTIVE_ALL_GATHER, COLLECTIVE_REDUCE_SCATTER, COLLECTIVE_BROADCAST, COLLECTIVE_SEND};

START_TEST(more_bytes_never_arrive_earlier)
{
    struct perf_system s = {.intra = {.bytes_per_s = 200e9}, .inter = {.bytes_per_s = 50e9, .latency_s = 60e-6}, .gpus_per_node = 8, .nodes = 4};

    for (unsigned ranks = 2; ranks <= 32; ranks *= 2) {
        double last = 0;

        for (uint64_t bytes = 1; bytes < UINT64_C(1) << 36; bytes *= 2) {
            double now = perf_collective_s(&s, over_links[_i], bytes, (struct work_group){ranks, 32 / ranks});

            ck_assert_double_ge(now, last);
            last = now;
        }
    }
}
END_TEST

/* --- laws ---------------------------------------------------------------------------------------------------------------------- */

static const struct small_llama mid_llama = {6, 1024, 16, 8, 2816, 8000};

static struct recipe ddp_recipe(unsigned ranks)
{
    struct recipe r = small_recipe();

    r.framework = FRAMEWORK_TORCH;
    if (ranks > 1) {
        r.method = METHOD_DDP;
        r.data_parallel = ranks;
    }
    return r;
}

static struct step_time time_of(const struct small_llama *s, const struct recipe *r, const struct perf_system *system)
{
    struct cost c = cost_of(s, r, &arena);
    struct step_time t;

    perf_step_time(&c, system, &t);
    ck_assert_double_gt(t.step_s, 0);
    ck_assert_double_gt(t.mfu, 0);
    ck_assert_double_lt(t.mfu, 1);
    ck_assert_double_eq_tol(t.step_s, t.compute_s + t.communication_exposed_s + t.optimizer_s + t.offload_s + t.bubble_s, 1e-12);
    ck_assert_double_eq_tol(t.tokens_per_s, t.samples_per_s * r->seq_len_tokens, 1e-6 * t.tokens_per_s);
    return t;
}

static const char *const law_gpus[] = {"A100-80GB", "H100", "L4", "RTX 3090", "V100", "B200", "MI300X"};

START_TEST(more_layers_are_never_faster)
{
    struct small_llama s = mid_llama;
    struct recipe r = small_recipe();
    struct perf_system system = gpus(law_gpus[_i], 1);
    double last = 0;

    for (s.layers = 1; s.layers < 9; s.layers++) {
        double now;

        setup();
        now = time_of(&s, &r, &system).step_s;
        ck_assert_double_gt(now, last);
        last = now;
    }
}
END_TEST

START_TEST(batches_cost_more_and_never_twice_as_much_each)
{
    struct recipe r = small_recipe();
    struct perf_system system = gpus(law_gpus[_i], 1);
    struct step_time last = {0};

    for (r.micro_batch_size = 1; r.micro_batch_size <= 64; r.micro_batch_size *= 2) {
        struct step_time now;

        setup();
        now = time_of(&mid_llama, &r, &system);
        ck_assert_double_ge(now.step_s, last.step_s);
        ck_assert_double_gt(now.samples_per_s, 0.5 * last.samples_per_s);
        last = now;
    }
}
END_TEST

START_TEST(checkpointing_is_never_faster)
{
    struct recipe r = small_recipe();
    struct perf_system system = gpus(law_gpus[_i], 1);
    double without;

    setup();
    without = time_of(&mid_llama, &r, &system).step_s;
    r.gradient_checkpointing = TRI_TRUE;
    ck_assert_double_gt(time_of(&mid_llama, &r, &system).step_s, without);
    r.checkpoint_reentrant = TRI_TRUE;
    ck_assert_double_gt(time_of(&mid_llama, &r, &system).step_s, without);
}
END_TEST

START_TEST(a_faster_part_never_makes_it_slower)
{
    struct recipe r = ddp_recipe(8);
    struct perf_system slow = gpus(law_gpus[_i], 8), fast;
    double before;

    slow.gpus_per_node = 4;
    slow.nodes = 2;
    slow.inter = (struct perf_link){.bytes_per_s = 20e9, .latency_s = 1e-3};
    setup();
    before = time_of(&mid_llama, &r, &slow).step_s;
    for (int part = 0; part < 6; part++) {
        fast = slow;
        switch (part) {
        case 0:
            fast.intra.bytes_per_s *= 2;
            break;
        case 1:
            fast.inter.bytes_per_s *= 2;
            break;
        case 2:
            fast.inter.latency_s = fast.intra.latency_s = 0;
            break;
        case 3:
            fast.memory_bytes_per_s *= 2;
            break;
        case 4:
            fast.cache_bytes *= 2;
            break;
        default:
            for (int t = 0; t < DTYPE_COUNT; t++)
                fast.flops_per_s[t] *= 2;
        }
        ck_assert_msg(time_of(&mid_llama, &r, &fast).step_s <= before * (1 + 1e-12), "part %d", part);
    }
}
END_TEST

START_TEST(many_gpus_are_no_more_than_many_times_one)
{
    struct recipe one = ddp_recipe(1), many = ddp_recipe(8);
    struct perf_system alone = gpus(law_gpus[_i], 1), eight = gpus(law_gpus[_i], 8);
    struct step_time a, b;

    setup();
    a = time_of(&mid_llama, &one, &alone);
    b = time_of(&mid_llama, &many, &eight);
    ck_assert_double_eq(a.communication_exposed_s, 0);
    ck_assert_double_gt(b.communication_exposed_s, 0); /* the last bucket, at least */
    ck_assert_double_le(b.samples_per_s, 8 * a.samples_per_s * (1 + 1e-12));
}
END_TEST

START_TEST(one_rank_of_ddp_communicates_nothing)
{
    struct recipe r = ddp_recipe(2);
    struct perf_system alone = gpus("A100-80GB", 1);

    setup();
    ck_assert_double_eq(time_of(&mid_llama, &r, &alone).communication_exposed_s, 0);
}
END_TEST

START_TEST(what_is_exposed_is_between_nothing_overlapped_and_all)
{
    struct recipe r = ddp_recipe(8);
    struct perf_system s = gpus("A100-80GB", 8);

    for (double gbs = 0.1; gbs < 1000; gbs *= 3) {
        struct cost c;
        struct step_time t;
        double all = 0;

        setup();
        s.intra.bytes_per_s = gbs * 1e9;
        c = cost_of(&mid_llama, &r, &arena);
        perf_step_time(&c, &s, &t);
        for (uint32_t i = 0; i < c.n_messages; i++)
            all += perf_collective_s(&s, (enum collective)c.messages[i].collective, c.messages[i].bytes, c.messages[i].group);
        ck_assert_double_le(t.communication_exposed_s, all);
        ck_assert_double_ge(t.communication_exposed_s, all - t.compute_s);
    }
}
END_TEST

START_TEST(accumulation_communicates_once_unless_each_batch_syncs)
{
    struct recipe r = ddp_recipe(8);
    struct perf_system s = gpus("A100-80GB", 8);
    struct step_time one, four, each;

    s.intra.bytes_per_s = 5e9;
    setup();
    one = time_of(&mid_llama, &r, &s);
    r.gradient_accumulation_steps = 4;
    four = time_of(&mid_llama, &r, &s);
    r.sync_each_batch = TRI_TRUE;
    each = time_of(&mid_llama, &r, &s);
    ck_assert_double_eq_tol(four.communication_exposed_s, one.communication_exposed_s, 0.1 * one.communication_exposed_s);
    ck_assert_double_gt(each.communication_exposed_s, 3.5 * one.communication_exposed_s);
    ck_assert_double_gt(four.samples_per_s, one.samples_per_s);
    ck_assert_double_ge(four.compute_s, 3.9 * one.compute_s);
}
END_TEST

START_TEST(adapters_are_faster_and_launches_bound_the_small)
{
    static const char *const targets[] = {"q_proj", "v_proj"};
    struct recipe full = small_recipe(), lora = small_recipe();
    struct perf_system s = gpus("A100-80GB", 1);
    struct step_time a, b;

    setup();
    lora.tuning = TUNING_LORA;
    lora.lora = (struct lora){.rank = 8, .dtype = LORA_DTYPE_BF16, .n_targets = 2, .targets = targets};
    full.seq_len_tokens = lora.seq_len_tokens = 4096;
    full.micro_batch_size = lora.micro_batch_size = 8;
    a = time_of(&mid_llama, &full, &s);
    b = time_of(&mid_llama, &lora, &s);
    ck_assert_double_gt(b.tokens_per_s, a.tokens_per_s);
    full.seq_len_tokens = lora.seq_len_tokens = 16; /* more operators, nothing to compute */
    full.micro_batch_size = lora.micro_batch_size = 1;
    ck_assert_double_gt(time_of(&mid_llama, &lora, &s).compute_s, time_of(&mid_llama, &full, &s).compute_s);
}
END_TEST

/* peft's policy wraps each adapter: the limiter counts their small gathers, and the next layer's waits for them. */
START_TEST(the_limiter_of_gathers_keeps_a_layer_from_coming_early)
{
    struct recipe r = small_recipe();
    struct perf_system s = gpus("RTX 3090", 2);
    double exposed[2];

    s.intra.bytes_per_s = 2e9;
    r.method = METHOD_FSDP;
    r.data_parallel = 2;
    r.micro_batch_size = 4;
    for (int lora = 0; lora < 2; lora++) {
        r.tuning = lora ? TUNING_LORA : TUNING_FULL;
        r.lora = (struct lora){.rank = lora ? 8 : 0, .all_linear = lora};
        for (int limited = 0; limited < 2; limited++) {
            setup();
            r.fsdp.limit_all_gathers = limited ? TRI_TRUE : TRI_FALSE;
            exposed[limited] = time_of(&mid_llama, &r, &s).communication_exposed_s;
        }
        ck_assert_double_ge(exposed[1], exposed[0]);
        ck_assert(!lora || exposed[1] > 1.1 * exposed[0]);
    }
}
END_TEST

/* From its second step on ZeRO-3 gathers while the module before computes, as far ahead as its bucket; the first step, which cannot, is not what is told. */
START_TEST(zero3_gathers_behind_what_computes)
{
    static const struct small_llama wide = {4, 4096, 32, 8, 11008, 8000};
    static const uint64_t ahead[] = {0, UINT64_C(1) << 22, UINT64_C(1) << 26};
    struct recipe r = small_recipe();
    struct perf_system s = gpus("A100-80GB", 8);
    double exposed[3];

    r.method = METHOD_ZERO3;
    r.data_parallel = 8;
    r.zero.reduce_elems = r.zero.max_live_elems = r.zero.sub_group_elems = r.zero.persistence_elems = ELEMS_UNSET;
    r.micro_batch_size = 2;
    r.seq_len_tokens = 1024;
    for (int i = 0; i < 3; i++) {
        setup();
        r.zero.prefetch_elems = ahead[i];
        exposed[i] = time_of(&wide, &r, &s).communication_exposed_s;
    }
    ck_assert_double_lt(exposed[1], 0.8 * exposed[0]);
    ck_assert_double_le(exposed[2], exposed[1]);
}
END_TEST

START_TEST(constants_say_where_they_are_from)
{
    for (int i = 0; i < PERF_CONSTANTS; i++) {
        const struct perf_constant *c = perf_constant((enum perf_constant_id)i);

        ck_assert_double_gt(c->value, 0);
        ck_assert_msg(strlen(c->data) > 20, "%s", c->name);
        ck_assert(c->unit[0] != 'o' || c->value <= 1); /* "of the .." is a share */
    }
    ck_assert_uint_gt(strlen(perf_assumption()), 40);
}
END_TEST

UNIT_TESTS("perf",
    unit_rows(a_system_is_what_sources_say, systems);
    unit_test(a_domain_of_nvlink_has_no_network_inside);
    unit_test(every_gpu_and_cluster_is_a_system_or_says_what_is_missing);
    unit_test(numbers_go_before_names);
    unit_rows(collectives_take_latency_and_bandwidth, collectives);
    unit_rows(more_bytes_never_arrive_earlier, over_links);
    unit_rows(more_layers_are_never_faster, law_gpus);
    unit_rows(batches_cost_more_and_never_twice_as_much_each, law_gpus);
    unit_rows(checkpointing_is_never_faster, law_gpus);
    unit_rows(a_faster_part_never_makes_it_slower, law_gpus);
    unit_rows(many_gpus_are_no_more_than_many_times_one, law_gpus);
    unit_test(one_rank_of_ddp_communicates_nothing);
    unit_test(what_is_exposed_is_between_nothing_overlapped_and_all);
    unit_test(accumulation_communicates_once_unless_each_batch_syncs);
    unit_test(adapters_are_faster_and_launches_bound_the_small);
    unit_test(the_limiter_of_gathers_keeps_a_layer_from_coming_early);
    unit_test(zero3_gathers_behind_what_computes);
    unit_test(constants_say_where_they_are_from);
)
