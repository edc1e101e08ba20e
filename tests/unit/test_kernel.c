/* Seconds of single kernels: attention by whose kernel it is, products by how their rows lie, limits by board. */
#include "perf/perf.h"
#include "plan/system.h"
#include "tests/support/steps.h"

#include <stdlib.h>

enum { ROOM = 512 << 20 };

static struct arena arena;

static void setup(void)
{
    static void *block;

    block = block ? block : malloc(ROOM);
    arena_init(&arena, block, ROOM);
}

static struct perf_system with_peaks(const char *gpu, double bf16_tflops, double fp16_tflops)
{
    struct system_request a = {.gpu = gpu_find(gpu), .bf16_tflops = bf16_tflops, .fp16_tflops = fp16_tflops, .gpus_per_node = 1, .nodes = 1};
    struct gpu_notes ignored;
    struct system_notes notes;
    struct perf_system s;
    struct err err = {0};

    ck_assert_msg(a.gpu && gpu_device(a.gpu, &a.device, &ignored), "%s", gpu);
    ck_assert(!plan_system(&a, &s, &notes, &err));
    return s;
}

static struct perf_system one(const char *gpu)
{
    return with_peaks(gpu, 0, 0);
}

static double seconds_on(const struct perf_system *s, enum flash_kernel flash, struct kernel k)
{
    struct cost c = {.kernels = &k, .n_kernels = 1, .n_micro = 1, .end_begin = 1, .accumulation = 1, .micro_batch_size = 1, .seq_len_tokens = 1,
                     .data_parallel = 1, .ranks_of_model = 1, .model_flops = 1, .flash = flash};
    struct step_time t;

    perf_step_time(&c, s, &t);
    return t.step_s;
}

static double seconds(const char *gpu, enum flash_kernel flash, struct kernel k)
{
    struct perf_system s = one(gpu);

    return seconds_on(&s, flash, k);
}

/* --- attention ----------------------------------------------------------------------------------------------------------------- */

static const struct {
    const char *gpu;
    enum flash_kernel flash;
    uint32_t head_dim, tokens;
    double tflops;
} attentions[] = {
    {"A100-80GB", FLASH_2, 128, 8192, 185.4},  /* the paper: 189 */
    {"A100-80GB", FLASH_2, 128, 2048, 157.6},  /* 155 */
    {"A100-80GB", FLASH_2, 64, 2048, 140.8},   /* 140 */
    {"H100-80GB", FLASH_2, 128, 16384, 321},   /* 328 */
    {"H100-80GB", FLASH_2, 128, 512, 165.5},   /* 163 */
    {"H100-80GB", FLASH_2, 64, 4096, 257.8},   /* 257 */
    {"B200", FLASH_2, 128, 65536, 344.3},
    {"A100-80GB", FLASH_1, 128, 65536, 104},
    {"H100-80GB", FLASH_1, 128, 65536, 168},
    {"A100-80GB PCIe", FLASH_2, 128, 8192, 172.9}, /* by its best products: 252.9 of 271.2 */
};

START_TEST(attention_has_the_rate_of_its_kernel)
{
    struct kernel k = {.flops = UINT64_C(1000000000000000), .bytes = 1, .rows = attentions[_i].tokens, .inner = attentions[_i].head_dim, .launches = 1,
                       .op = OP_FLASH, .work = WORK_ATTENTION, .dtype = DTYPE_BF16, .stage = STAGE_FORWARD};
    double s = seconds(attentions[_i].gpu, attentions[_i].flash, k);

    ck_assert_double_eq_tol(1000 / s, attentions[_i].tflops, 0.001 * attentions[_i].tflops);
}
END_TEST

static const struct {
    enum attention attention;
    enum framework framework;
    const char *torch, *flash_attn; /* NULL: left out */
    enum flash_kernel flash;
} askings[] = {
    {ATTENTION_SDPA, FRAMEWORK_TRANSFORMERS, NULL, NULL, FLASH_2},
    {ATTENTION_SDPA, FRAMEWORK_TORCH, "2.2", NULL, FLASH_2},
    {ATTENTION_FLASH_2, FRAMEWORK_TRANSFORMERS, NULL, NULL, FLASH_2},
    {ATTENTION_FLASH_2, FRAMEWORK_TRANSFORMERS, "2.0", NULL, FLASH_2}, /* which flash_attn of that day was not */
    {ATTENTION_FLASH_2, FRAMEWORK_TRANSFORMERS, NULL, "1.0", FLASH_1},
    {ATTENTION_FLASH_2, FRAMEWORK_TORCH, NULL, NULL, FLASH_1}, /* as the published plain loops */
    {ATTENTION_FLASH_2, FRAMEWORK_TORCH, NULL, "2.5", FLASH_2},
    {ATTENTION_FLASH_2, FRAMEWORK_TORCH, NULL, "1.0", FLASH_1},
};

START_TEST(releases_say_whose_kernel_it_is)
{
    struct recipe r = small_recipe();
    struct step step;
    struct arch arch;
    struct err err = {0};

    setup();
    arch = small_arch(&small_llama, &arena);
    r.attention = askings[_i].attention;
    r.framework = askings[_i].framework;
    r.flash_attn_named = askings[_i].flash_attn != NULL;
    ck_assert(!askings[_i].torch || !stack_name(&r.stack, PACKAGE_TORCH, askings[_i].torch, &err));
    if (askings[_i].flash_attn) { /* alone, an old one would stand for a stack of its day */
        ck_assert(!stack_name(&r.stack, PACKAGE_TRANSFORMERS, "4.40", &err));
        ck_assert(!stack_name(&r.stack, PACKAGE_FLASH_ATTN, askings[_i].flash_attn, &err));
    }
    ck_assert_msg(!stack_complete(&r.stack, &err) && !train_resolve(&r, &arch, &step_device, &arena, &step, &err), "%s %s", err.at, err.detail);
    ck_assert_int_eq(step.flash, askings[_i].flash);
}
END_TEST

/* --- boards -------------------------------------------------------------------------------------------------------------------- */

/* A large product, in training: 0.827 of the best one. Limits belong to boards, not to the generation of their die. */
static const struct {
    const char *gpu;
    double best_tflops;
    enum dtype dtype;
} boards[] = {
    {"A100-80GB", 271.2, DTYPE_BF16},         /* published */
    {"A800-80GB SXM", 266.48, DTYPE_BF16},
    {"A100-40GB PCIe", 241.49, DTYPE_BF16},
    {"H100-80GB", 794.5, DTYPE_BF16},
    {"H100-80GB PCIe", 495.93, DTYPE_BF16},   /* lower clocks: more for each watt than the SXM board's */
    {"H20", 142.25, DTYPE_BF16},              /* fewer multiprocessors that meet no limit of power: 0.96 of the peak */
    {"RTX PRO 6000", 417.98, DTYPE_BF16},
    {"RTX A6000", 123.34, DTYPE_BF16},
    {"L4", 70.89, DTYPE_BF16},
    {"V100-16GB", 97.36, DTYPE_FP16},         /* of fp16: they have no bf16 */
    {"V100-32GB", 97.36, DTYPE_FP16},
    {"T4", 42.71, DTYPE_FP16},
    {"RTX 3090", 71.2 * 1.29, DTYPE_BF16},    /* GeForce */
    {"RTX 4090", 165.2 * 1.29, DTYPE_BF16},
    {"L40S", 350 * 0.76, DTYPE_BF16},         /* by its watts */
    {"RTX 6000 Ada", 300 * 0.76, DTYPE_BF16},
    {"L40", 181 * 0.8, DTYPE_BF16},           /* whose watts no source gave */
    {"H100-94GB NVL", 310 * 1.135, DTYPE_BF16},
    {"H100-96GB", 500 * 1.135, DTYPE_BF16},
    {"A10", 125 * 0.8, DTYPE_BF16},
    {"V100-PCIe-16GB", 112 * 0.8, DTYPE_FP16},
};

START_TEST(a_board_has_its_own_limit)
{
    struct perf_system s = one(boards[_i].gpu);
    struct kernel k = {.flops = 1, .bytes = 1, .rows = 256 * s.multiprocessors, .columns = 8192, .inner = 16384, .batch = 1, .launches = 1, .op = OP_MM,
                       .work = WORK_MATMUL, .dtype = boards[_i].dtype, .stage = STAGE_FORWARD};
    double tflops = 2.0 * k.rows * k.columns * k.inner / seconds(boards[_i].gpu, FLASH_2, k) / 1e12;

    ck_assert_double_eq_tol(tflops / (0.827 * boards[_i].best_tflops), 1, 0.01);
}
END_TEST

/* The share is of the peak that the product was published beside: of fp16's where the GPU has no bf16. */
static const struct {
    const char *gpu;
    double bf16_tflops, fp16_tflops; /* that the request names */
    double share;
} peaks[] = {
    {"A100-80GB", 0, 0, 271.2 / 312}, {"A100-80GB", 280, 0, 0}, {"A100-80GB", 0, 280, 271.2 / 312}, {"T4", 0, 0, 42.71 / 65},
    {"T4", 0, 50, 0}, {"V100-16GB", 0, 0, 97.36 / 125}, {"V100-PCIe-16GB", 0, 0, 0},
};

START_TEST(a_peak_that_the_request_names_has_no_published_share)
{
    ck_assert_double_eq_tol(with_peaks(peaks[_i].gpu, peaks[_i].bf16_tflops, peaks[_i].fp16_tflops).best_products, peaks[_i].share, 1e-9);
}
END_TEST

static const struct {
    const char *gpu;
    unsigned mib;
} caches[] = {{"L4", 48}, {"RTX 4090", 72}, {"RTX 4000 Ada", 40}, {"H100-94GB NVL", 60}, {"H100-80GB", 50}, {"A10", 6}};

START_TEST(a_cache_is_what_device_query_printed)
{
    ck_assert_uint_eq(one(caches[_i].gpu).cache_bytes, (uint64_t)caches[_i].mib << 20);
}
END_TEST

START_TEST(a_server_launches_slower_than_a_desktop)
{
    struct perf_system server = one("A100-80GB"), desktop = server;
    struct kernel k = {.flops = 1, .bytes = 1, .launches = 1, .calls = 10000, .op = OP_MUL, .work = WORK_POINT, .dtype = DTYPE_BF16, .stage = STAGE_FORWARD};

    desktop.geforce = true;
    ck_assert_double_eq_tol(seconds_on(&server, FLASH_2, k) / seconds_on(&desktop, FLASH_2, k), 1.5, 0.001);
    k.calls = 1;
    k.bytes = 1 << 30; /* the GPU has something to do */
    ck_assert_double_eq_tol(seconds_on(&server, FLASH_2, k) / seconds_on(&desktop, FLASH_2, k), 1, 0.02);
}
END_TEST

/* --- products ------------------------------------------------------------------------------------------------------------------ */

START_TEST(an_odd_vocabulary_costs_its_products_three_times)
{
    struct kernel k = {.flops = 1, .bytes = 1, .rows = 12288, .columns = 50257, .inner = 4096, .batch = 1, .launches = 1, .op = OP_MM, .work = WORK_MATMUL,
                       .dtype = DTYPE_BF16, .stage = STAGE_FORWARD};
    double aligned = seconds("A100-80GB", FLASH_2, k);

    k.unaligned = true;
    ck_assert_double_eq_tol(seconds("A100-80GB", FLASH_2, k) / aligned, 3, 0.05);
}
END_TEST

static const struct {
    uint32_t vocab;
    enum precision precision;
    unsigned unaligned; /* of a step's products */
} vocabularies[] = {{2000, PRECISION_BF16, 0}, {2001, PRECISION_BF16, 3}, {2002, PRECISION_BF16, 0}, {2001, PRECISION_FP32, 0}};

START_TEST(the_log_tells_products_over_odd_rows)
{
    struct small_llama s = small_llama;
    struct recipe r = small_recipe();
    struct cost c;
    unsigned n = 0;

    setup();
    s.vocab = vocabularies[_i].vocab;
    r.precision = vocabularies[_i].precision;
    c = cost_of(&s, &r, &arena);
    for (uint32_t i = 0; i < c.n_kernels; i++)
        n += c.kernels[i].unaligned;
    ck_assert_uint_eq(n, vocabularies[_i].unaligned);
}
END_TEST

UNIT_TESTS("perf/kernel",
    unit_rows(attention_has_the_rate_of_its_kernel, attentions);
    unit_rows(releases_say_whose_kernel_it_is, askings);
    unit_rows(a_board_has_its_own_limit, boards);
    unit_rows(a_peak_that_the_request_names_has_no_published_share, peaks);
    unit_rows(a_cache_is_what_device_query_printed, caches);
    unit_test(a_server_launches_slower_than_a_desktop);
    unit_test(an_odd_vocabulary_costs_its_products_three_times);
    unit_rows(the_log_tells_products_over_odd_rows, vocabularies);
)
