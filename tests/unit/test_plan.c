/* The planner over a made-up memory: train_walk and its sisters are this file's, so that the answer is known. */
#include "config/arch.h"
#include "plan/plan.h"
#include "stack/release.h"
#include "train/fold.h"
#include "train/repeats.h"
#include "train/timing.h"
#include "tests/support/unit.h"

#include <stdlib.h>
#include <string.h>

/* --- a memory that is a formula ------------------------------------------------------------------------------------------------ */

struct formula {
    const char *name;
    uint64_t flat, base, slope; /* walk = max(flat, base + slope * n) */
    uint64_t slack;             /* the replay adds n * slack % 1000 */
    uint64_t capacity;
    uint32_t largest;
};

static const struct formula formulas[] = {
    {"a line", 0, 1000, 100, 0, 5000, 40},
    {"exactly full", 0, 1000, 100, 0, 4900, 39},
    {"one byte short", 0, 1000, 100, 0, 4899, 38},
    {"nothing fits", 0, 10000, 100, 0, 5000, 0},
    {"one fits", 0, 1000, 4000, 0, 5000, 1},
    {"two fit", 0, 1000, 2000, 0, 5000, 2},
    {"flat, then a line", 3000, 10, 100, 0, 5000, 49},
    {"flat beyond the capacity", 6000, 10, 100, 0, 5000, 0},
    {"no slope: the most that there is", 0, 100, 0, 0, 5000, PLAN_MAX_MICRO_BATCH},
    {"steep after a long flat", 4999, 0, 1, 0, 5000, 5000},
    {"slack decides", 0, 0, 1000, 301, 100000, 99},
    {"much slack", 0, 0, 100, 999, 5000, 0 /* see the law */},
};

static const struct formula *now;
static unsigned walks, replays;

static uint64_t walk_at(uint32_t n)
{
    uint64_t line = now->base + now->slope * n;

    return line > now->flat ? line : now->flat;
}

static uint64_t replay_at(uint32_t n)
{
    return walk_at(n) + (now->slack ? n * now->slack % 1000 : 0);
}

/* Checkpointing needs half of it, LoRA a tenth. */
static uint64_t less(const struct step *step, uint64_t bytes)
{
    bytes /= step->r.gradient_checkpointing == TRI_TRUE ? 2 : 1;
    return bytes / (step->r.tuning == TUNING_LORA ? 10 : 1);
}

const char *phase_name(enum phase phase)
{
    return phase == PHASE_BACKWARD ? "backward" : "another";
}

static bool outgrows; /* whatever is checkpointed needs more memory than a question has */

enum err_code train_walk(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                         struct measured *ret, struct err *err)
{
    (void)arch, (void)device, (void)arena;
    walks++;
    if (outgrows && step->r.gradient_checkpointing == TRI_TRUE)
        return err_set(err, ERR_NOMEM, "", "too small");
    *ret = (struct measured){.walk_peak_bytes = less(step, walk_at(step->r.micro_batch_size))};
    return ERR_OK;
}

enum err_code train_foretell(const struct arch *arch, const struct step *step, const struct device *device, struct rank_peaks *peaks,
                             struct cost *cost, struct arena *arena, struct measured *ret, struct err *err)
{
    (void)peaks;
    if (cost)
        *cost = (struct cost){0};
    return train_walk(arch, step, device, arena, ret, err);
}

enum err_code train_fold(const struct arch *arch, const struct step *step, const struct device *device, bool one_step,
                         struct rank_peaks *peaks, struct cost *cost, struct arena *arena, struct measured *ret, struct err *err)
{
    (void)one_step, (void)peaks;
    if (cost)
        *cost = (struct cost){0};
    return train_walk(arch, step, device, arena, ret, err);
}

enum err_code train_measure(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                            const struct timekeeper *keeper, struct arena *arena, struct measured *ret, struct err *err)
{
    uint64_t bytes = less(step, replay_at(step->r.micro_batch_size));

    (void)arch, (void)device, (void)expandable_segments, (void)keeper, (void)arena, (void)err;
    replays++;
    *ret = (struct measured){.walk_peak_bytes = bytes,
                             .peak_allocated_bytes = bytes,
                             .peak_reserved_bytes = bytes,
                             .peak_phase = PHASE_BACKWARD,
                             .n_largest = 1,
                             .largest = {{.op = "aten::mm", .phase = "forward", .module = "layers.0"}}};
    return ERR_OK;
}

enum err_code train_fits(const struct arch *arch, const struct step *step, const struct device *device, const struct fit_question *q,
                         struct arena *arena, struct fit *ret, struct err *err)
{
    struct measured m;
    enum err_code rc = train_measure(arch, step, device, q->expandable_segments, q->keeper, arena, &m, err);
    bool fits = m.peak_reserved_bytes <= q->capacity_bytes, roomy = q->measuring == MEASURE_ROOMY && fits && m.peak_reserved_bytes <= q->roomy_bytes;

    *ret = (struct fit){.fits = fits,
                        .reserved_bytes = m.peak_reserved_bytes,
                        .roomy = roomy,
                        .walk = m,
                        .measured = roomy || (fits && q->measuring == MEASURE_FITTING),
                        .memory = m};
    return rc;
}

enum err_code train_remainder(const struct arch *arch, const struct step *step, const struct device *device, bool expandable_segments,
                              struct arena *arena, struct remainder *ret, struct err *err)
{
    uint32_t n = step->r.micro_batch_size;

    (void)arch, (void)device, (void)expandable_segments, (void)arena, (void)err;
    *ret = (struct remainder){.held_bytes = less(step, replay_at(n)) - less(step, walk_at(n))};
    return ERR_OK;
}

struct plays *train_plays_new(struct arena *arena)
{
    (void)arena;
    return NULL;
}

void train_runs_aside(struct arena *arena)
{
    (void)arena;
}

/* --- the model is our own: nobody has to see its layers repeat -------------------------------------------------------------------------- */

struct fold fold_of(const struct arch *arch)
{
    (void)arch;
    return (struct fold){0, 1};
}

bool train_repeats(const struct arch *arch, const struct recipe *like, const struct device *device, struct arena *scratch)
{
    (void)arch, (void)like, (void)device, (void)scratch;
    return false;
}

/* --- a time that is a formula: half of the most at three sequences, a fifth less under checkpointing -------------------------------- */

static double most_tokens_per_s;

enum err_code train_cost(const struct arch *arch, const struct step *step, const struct device *device, struct arena *arena,
                         struct cost *ret, struct err *err)
{
    (void)arch, (void)device, (void)arena, (void)err;
    *ret = (struct cost){.micro_batch_size = step->r.micro_batch_size, .model_flops = step->r.gradient_checkpointing == TRI_TRUE ? 0.8 : 1};
    return ERR_OK;
}

bool timing_is_foretold(const struct step *step)
{
    (void)step;
    return false;
}

struct timekeeper perf_timekeeper(const struct perf_system *s)
{
    (void)s;
    return (struct timekeeper){0};
}

void perf_step_time(const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    double n = c->micro_batch_size;

    *ret = (struct step_time){.tokens_per_s =
                                  most_tokens_per_s * c->model_flops * s->gpus_per_node * s->nodes * (n < 100 ? n / (n + 3) : 0.5)};
}

/* No question here is about a pipeline. */
void perf_stage_time(const struct cost *c, const struct perf_system *s, struct stage_time *ret)
{
    (void)c, (void)s;
    *ret = (struct stage_time){0};
    ck_abort_msg("a stage is timed");
}

bool perf_pipeline(const struct stage_time *stages, uint32_t n, enum schedule schedule, uint32_t micro_batches, struct arena *arena, struct step_time *ret)
{
    (void)stages, (void)n, (void)schedule, (void)micro_batches, (void)arena;
    *ret = (struct step_time){0};
    return false;
}

void perf_sum_up(const struct cost *c, const struct perf_system *s, struct step_time *ret)
{
    perf_step_time(c, s, ret);
}

/* --- questions ------------------------------------------------------------------------------------------------------------------ */

static const struct plan_choice single = {"single", 0}, full = {"full", TUNING_FULL}, none = {"none", 0}, open = {NULL, 0}, hf = {"hf", 0},
                                plain = {"false", TRI_FALSE};
static const struct plan_choice kinds[] = {{"full", TUNING_FULL}, {"lora", TUNING_LORA}, {"qlora", PLAN_UNMODELLED}};
static const struct plan_choice both[] = {{"false", TRI_FALSE}, {"true", TRI_TRUE}};
static const struct plan_choice methods[] = {{"single", 0}, {"ddp", PLAN_UNMODELLED}};

static const struct arch model = {.family = FAMILY_LLAMA, .model_type = "llama", .hidden = 8, .layers = 1, .max_positions = 16};

static struct plan_question question(void)
{
    struct plan_question q = {
        .arch = &model,
        .device = {.cc_major = 8},
        .gpus = 1,
        .capacity_bytes = now->capacity,
        .recipe = {.max_grad_norm = -1},
        .axes =
            {
                [AXIS_METHOD] = {&single, 1, false},
                [AXIS_TUNING] = {&full, 1, true},
                [AXIS_OFFLOAD] = {&none, 1, false},
                [AXIS_PRECISION] = {&open, 1, false},
                [AXIS_OPTIMIZER] = {&open, 1, false},
                [AXIS_ATTENTION] = {&open, 1, false},
                [AXIS_LOSS] = {&hf, 1, false},
                [AXIS_CHECKPOINTING] = {&plain, 1, true},
            },
    };
    struct err err;

    ck_assert_int_eq(stack_complete(&q.recipe.stack, &err), ERR_OK);
    return q;
}

static unsigned char keep_block[8 << 20], scratch_block[1 << 16];

static struct plan_answer answer(const struct plan_question *q)
{
    struct arena keep, scratch;
    struct plan_answer a = {0};
    struct err err = {0};

    arena_init(&keep, keep_block, sizeof keep_block);
    arena_init(&scratch, scratch_block, sizeof scratch_block);
    walks = replays = 0;
    ck_assert_msg(plan_answer(q, &keep, &scratch, &a, &err) == ERR_OK, "%s", err.detail);
    ck_assert_ptr_eq(scratch.cur, scratch_block);
    return a;
}

/* The law: its replay fits, and that of one more does not. */
START_TEST(finds_the_largest_batch)
{
    struct plan_question q;
    struct plan_answer a;
    uint32_t n;

    now = &formulas[_i];
    q = question();
    a = answer(&q);
    n = a.candidates[0].max_micro_batch_size;
    if (now->largest)
        ck_assert_msg(n == now->largest, "%s: %u, not %u", now->name, n, now->largest);
    ck_assert_msg(n == 0 || replay_at(n) <= now->capacity, "%s: %u does not fit", now->name, n);
    ck_assert_msg(n == PLAN_MAX_MICRO_BATCH || replay_at(n + 1) > now->capacity, "%s: %u fits too", now->name, n + 1);
    ck_assert_msg(walks <= 40 && replays <= 32, "%s: %u walks, %u replays", now->name, walks, replays);
    ck_assert_int_eq(a.any_fits, n > 0);
}
END_TEST

START_TEST(keeps_the_margin_and_the_context_free)
{
    struct plan_question q;

    now = &formulas[0];
    q = question();
    q.device.context_bytes = 500;
    ck_assert_uint_eq(answer(&q).candidates[0].max_micro_batch_size, 35);
    q.margin = 0.1;
    ck_assert_uint_eq(answer(&q).candidates[0].max_micro_batch_size, 30);
    q.capacity_bytes = 400;
    ck_assert(!answer(&q).any_fits);
}
END_TEST

START_TEST(fills_the_global_batch)
{
    struct plan_question q;
    struct plan_answer a;

    now = &formulas[0]; /* 40 at most */
    q = question();
    q.global_batch_size = 96;
    a = answer(&q);
    ck_assert_uint_eq(a.candidates[0].step.r.micro_batch_size, 32);
    ck_assert_uint_eq(a.candidates[0].step.r.gradient_accumulation_steps, 3);
    ck_assert_uint_eq(a.candidates[0].global_batch_size, 96);
    q.recipe.micro_batch_size = 4;
    a = answer(&q);
    ck_assert_uint_eq(a.candidates[0].step.r.gradient_accumulation_steps, 24);
    q.largest = true;
    ck_assert_uint_eq(answer(&q).candidates[0].max_micro_batch_size, 40);
}
END_TEST

/* What is asked by its micro-batch is judged by that alone; its other figures do not depend on whether the largest is searched too. */
START_TEST(judges_an_asked_batch_by_itself)
{
    static const struct {
        uint32_t asked, advised;
        bool fits;
        unsigned replays, walks; /* at most */
    } cases[] = {{1, 0, true, 1, 4}, {4, 0, true, 1, 4}, {40, 0, true, 1, 2}, {41, 0, false, 2, 20}, {101, 40, false, 9, 18}};

    now = &formulas[0]; /* 40 at most */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan_question q = question();
        struct plan_candidate alone, searched;

        q.recipe.micro_batch_size = cases[i].asked;
        alone = *answer(&q).candidates;
        ck_assert_int_eq(alone.fits, cases[i].fits);
        ck_assert_msg(replays <= cases[i].replays && walks <= cases[i].walks, "%u: %u replays, %u walks", cases[i].asked, replays, walks);
        ck_assert_uint_eq(alone.reason.nearest.micro_batch_size, cases[i].advised);
        q.largest = true;
        searched = *answer(&q).candidates;
        ck_assert_uint_eq(searched.max_micro_batch_size, 40);
        ck_assert_int_eq(searched.fits, alone.fits);
        ck_assert_uint_eq(searched.device_bytes, alone.device_bytes);
        ck_assert_uint_eq(searched.reason.nearest.micro_batch_size, alone.reason.nearest.micro_batch_size);
    }
}
END_TEST

START_TEST(advises_one_change_that_fits)
{
    struct plan_question q;
    struct plan_answer a;

    now = &(struct formula){"", 0, 1000, 100, 0, 5000, 0};
    q = question();
    q.recipe.micro_batch_size = 60; /* 7000: half of it fits */
    a = answer(&q);
    ck_assert(!a.any_fits && a.any_modelled);
    ck_assert_str_eq(a.candidates[0].reason.code, "does-not-fit");
    ck_assert(strstr(a.candidates[0].reason.detail, "at backward"));
    ck_assert_int_eq(a.candidates[0].reason.nearest.gradient_checkpointing, TRI_TRUE);
    q.recipe.micro_batch_size = 200; /* 21000: half does not */
    a = answer(&q);
    ck_assert_uint_eq(a.candidates[0].reason.nearest.micro_batch_size, 40);
    ck_assert_int_eq(a.candidates[0].reason.nearest.gradient_checkpointing, TRI_UNSET);
    now = &(struct formula){"", 0, 20000, 100, 0, 5000, 0};
    q.recipe.micro_batch_size = 1; /* no batch fits, no checkpointing helps, a tenth does */
    a = answer(&q);
    ck_assert_str_eq(a.candidates[0].reason.nearest.tuning, "lora");
}
END_TEST

START_TEST(tries_the_kinds_of_tuning_in_order)
{
    struct plan_question q;
    struct plan_answer a;

    now = &formulas[0];
    q = question();
    q.axes[AXIS_TUNING] = (struct plan_axis){kinds, 3, false};
    q.axes[AXIS_CHECKPOINTING] = (struct plan_axis){both, 2, false};
    q.axes[AXIS_METHOD] = (struct plan_axis){methods, 2, false};
    a = answer(&q);
    ck_assert_uint_eq(a.n, 3); /* full twice, ddp once */
    ck_assert_int_eq(a.candidates[0].step.r.gradient_checkpointing, TRI_FALSE);
    ck_assert(!a.candidates[2].modelled);
    ck_assert_str_eq(a.candidates[2].reason.code, "not-modelled");
    now = &(struct formula){"", 20000, 0, 100, 0, 5000, 0}; /* full does not fit, nor does half of it */
    a = answer(&q);
    ck_assert(a.any_fits);
    ck_assert_uint_eq(a.n, 5); /* LoRA twice, full twice, ddp once */
    ck_assert_int_eq(a.candidates[0].step.r.tuning, TUNING_LORA);
    ck_assert_str_eq(a.candidates[2].reason.nearest.tuning, "lora");
    now = &(struct formula){"", 200000, 0, 100, 0, 5000, 0};
    a = answer(&q);
    ck_assert(!a.any_fits);
    ck_assert_uint_eq(a.n, 6); /* and qlora, which has no model */
    ck_assert_str_eq(a.candidates[5].reason.code, "not-modelled");
}
END_TEST

/* A change that outgrows the memory of a question is neither advised nor refused: the answer says that it was not tried to the end. */
START_TEST(counts_advice_that_outgrew_its_memory)
{
    struct plan_question q;
    struct plan_answer a;

    now = &(struct formula){"", 200000, 0, 100, 0, 5000, 0}; /* nothing fits */
    q = question();
    a = answer(&q);
    ck_assert(!a.any_fits);
    ck_assert_uint_eq(a.n_untried, 0);
    outgrows = true;
    a = answer(&q);
    outgrows = false;
    ck_assert(!a.any_fits);
    ck_assert_str_eq(a.candidates[0].reason.code, "does-not-fit");
    ck_assert_uint_ge(a.n_untried, 1);
    ck_assert_int_eq(a.candidates[0].reason.nearest.gradient_checkpointing, TRI_UNSET);
}
END_TEST

START_TEST(bounds_what_is_asked)
{
    static const struct plan_choice sharded = {"zero3", METHOD_ZERO3};
    static struct plan_choice many[PLAN_MAX_MEASURED + 2];
    struct plan_question q;
    uint32_t n;
    struct plan_answer a;
    struct arena keep, scratch;
    struct err err = {0};

    now = &formulas[0];
    q = question();
    for (int i = 0; i < PLAN_MAX_MEASURED + 2; i++)
        many[i] = (struct plan_choice){"bf16", PRECISION_BF16};
    q.axes[AXIS_PRECISION] = (struct plan_axis){many, PLAN_MAX_MEASURED + 2, true};
    arena_init(&keep, keep_block, sizeof keep_block);
    arena_init(&scratch, scratch_block, sizeof scratch_block);
    walks = replays = 0;
    ck_assert_int_eq(plan_answer(&q, &keep, &scratch, &a, &err), ERR_FIELD_RANGE);
    ck_assert_str_eq(err.at, "/training");
    ck_assert_uint_eq(walks + replays, 0); /* counted before the first of them is foretold */

    /* With offload, which nobody asked for, there would be more: those beyond the limit are not tried, and counted. */
    now = &formulas[3];
    q = question();
    q.axes[AXIS_METHOD] = (struct plan_axis){&sharded, 1, true};
    q.gpus = 2;
    q.axes[AXIS_PRECISION] = (struct plan_axis){many, PLAN_MAX_MEASURED - 3, true};
    a = answer(&q);
    ck_assert(!a.any_fits && !plan_saw_all(&a));
    ck_assert_uint_eq(a.n, PLAN_MAX_MEASURED);
    for (uint32_t i = n = 0; i < a.n; i++)
        n += a.candidates[i].choice[AXIS_OFFLOAD] == &none;
    ck_assert_uint_eq(n, PLAN_MAX_MEASURED - 3); /* whatever was asked is */
    ck_assert_uint_eq(a.n_left_out, 2 * (PLAN_MAX_MEASURED - 3) - 3);
}
END_TEST

static const struct plan_choice both_methods[] = {{"single", METHOD_SINGLE}, {"ddp", METHOD_DDP}};
static const struct perf_system eight = {.gpus_per_node = 8, .nodes = 1};

static struct plan_question timed_question(void)
{
    struct plan_question q = question();

    most_tokens_per_s = 1000;
    q.system = &eight;
    q.gpus = 8;
    return q;
}

/* Beside NCCL's 688 MiB a few bytes would not count. */
static const struct formula in_mib = {"", 0, UINT64_C(1000) << 20, UINT64_C(100) << 20, 0, UINT64_C(5000) << 20, 40};

/* Halves are taken while they are not slower: of a rate that is flat above 100 and half of what stands below it, those below. */
START_TEST(takes_the_fastest_batch_that_fits)
{
    struct plan_question q;
    struct plan_answer a;

    now = &formulas[0]; /* 40 at most */
    q = timed_question();
    a = answer(&q);
    ck_assert_uint_eq(a.candidates[0].max_micro_batch_size, 40);
    ck_assert_uint_eq(a.candidates[0].step.r.micro_batch_size, 37); /* 37 / 40 beats 20 / 23, and is nearly 40 / 43; it leaves a twentieth free */
    ck_assert(!a.candidates[0].tight);
    q.recipe.micro_batch_size = 40;
    a = answer(&q);
    ck_assert_uint_eq(a.candidates[0].step.r.micro_batch_size, 40);
    ck_assert(a.candidates[0].fits && a.candidates[0].tight);
    now = &(struct formula){"", 0, 1000, 1900, 0, 4850, 2};
    q = timed_question();
    a = answer(&q);
    ck_assert_uint_eq(a.candidates[0].step.r.micro_batch_size, 2); /* 1 / 4 is no 2 / 5 */
    ck_assert(a.candidates[0].tight);
    now = &(struct formula){"", 0, 0, 10, 0, 2000, 200};
    q = timed_question();
    a = answer(&q);
    ck_assert_uint_eq(a.candidates[0].max_micro_batch_size, 200);
    ck_assert_uint_eq(a.candidates[0].step.r.micro_batch_size, 94); /* half of what leaves room; 189 and 100 run at half the rate */
    q.global_batch_size = 96;
    a = answer(&q);
    ck_assert_uint_eq(96 % a.candidates[0].step.r.micro_batch_size, 0);
}
END_TEST

START_TEST(ranks_by_speed_and_by_objective)
{
    struct plan_question q;
    struct plan_answer a;

    now = &in_mib;
    q = timed_question();
    q.axes[AXIS_METHOD] = (struct plan_axis){both_methods, 2, true};
    q.axes[AXIS_CHECKPOINTING] = (struct plan_axis){both, 2, false};
    a = answer(&q);
    ck_assert_uint_eq(a.n, 4);
    ck_assert_int_eq(a.candidates[0].step.r.method, METHOD_DDP);
    ck_assert_int_eq(a.candidates[0].step.r.gradient_checkpointing, TRI_FALSE);
    ck_assert_uint_eq(a.candidates[0].step.r.data_parallel, 8);
    ck_assert_uint_eq(a.candidates[0].global_batch_size, 8 * a.candidates[0].step.r.micro_batch_size);
    q.objective = OBJECTIVE_FEWEST_GPUS;
    a = answer(&q);
    ck_assert_int_eq(a.candidates[0].step.r.method, METHOD_SINGLE);
    q.objective = OBJECTIVE_LEAST_MEMORY;
    a = answer(&q);
    for (uint32_t i = 1; i < a.n; i++)
        ck_assert_uint_le(a.candidates[i - 1].high_bytes, a.candidates[i].high_bytes);
}
END_TEST

/* Four in a hundred slower is as fast: the simpler comes first. */
START_TEST(prefers_the_simpler_of_equals)
{
    static const struct perf_system one = {.gpus_per_node = 1, .nodes = 1};
    struct plan_question q;
    struct plan_answer a;

    now = &in_mib;
    q = timed_question();
    q.system = &one;
    q.gpus = 1;
    q.axes[AXIS_METHOD] = (struct plan_axis){both_methods, 2, true};
    a = answer(&q);
    ck_assert_int_eq(a.candidates[0].step.r.method, METHOD_SINGLE);
    ck_assert_int_eq(a.candidates[1].step.r.method, METHOD_DDP);
}
END_TEST

static bool one_gpu(const struct step *s)
{
    return s->r.method == METHOD_SINGLE;
}

static bool adapters(const struct step *s)
{
    return s->r.tuning == TUNING_LORA;
}

START_TEST(recommends_what_can_be_launched)
{
    struct plan_question q;
    struct plan_answer a;

    now = &in_mib;
    q = timed_question();
    q.axes[AXIS_METHOD] = (struct plan_axis){both_methods, 2, true};
    q.launches = one_gpu;
    a = answer(&q);
    ck_assert_int_eq(a.candidates[0].step.r.method, METHOD_SINGLE);
    ck_assert(a.candidates[0].launchable && !a.candidates[1].launchable);
    ck_assert(a.candidates[1].time.tokens_per_s > 2 * a.candidates[0].time.tokens_per_s);
    q.axes[AXIS_TUNING] = (struct plan_axis){kinds, 3, false};
    q.launches = adapters;
    a = answer(&q);
    ck_assert_uint_eq(a.n, 4);
    ck_assert_int_eq(a.candidates[0].step.r.tuning, TUNING_LORA);
    ck_assert(a.candidates[3].fits && !a.candidates[3].launchable);
}
END_TEST

/* An order that the question gives: adapters first. */
START_TEST(keeps_the_order_of_kinds)
{
    static const struct plan_choice at_home[] = {{"lora", TUNING_LORA}, {"full", TUNING_FULL}};
    struct plan_question q;
    struct plan_answer a;

    now = &in_mib;
    q = timed_question();
    q.axes[AXIS_TUNING] = (struct plan_axis){at_home, 2, false};
    a = answer(&q);
    ck_assert_uint_eq(a.n, 1);
    ck_assert_int_eq(a.candidates[0].step.r.tuning, TUNING_LORA);
}
END_TEST

START_TEST(cannot_share_what_does_not_divide)
{
    struct plan_question q;
    struct plan_answer a;

    now = &in_mib;
    q = timed_question();
    q.axes[AXIS_METHOD] = (struct plan_axis){both_methods, 2, true};
    q.global_batch_size = 12; /* of eight replicas */
    a = answer(&q);
    ck_assert(a.any_fits);
    ck_assert_int_eq(a.candidates[0].step.r.method, METHOD_SINGLE);
    ck_assert(!a.candidates[1].modelled);
    ck_assert_str_eq(a.candidates[1].reason.code, "batch-conflict");
}
END_TEST

/* With more than eight candidates only the recommendation is replayed, and nobody doubts what the rest is. */
START_TEST(replays_what_it_recommends)
{
    static const struct plan_choice losses[] = {{"hf", 0}, {"hf", 0}, {"hf", 0}};
    struct plan_question q;
    struct plan_answer a;

    now = &(struct formula){"", 0, 1000, 100, 0, UINT64_C(1) << 40, 0};
    q = timed_question();
    q.recipe.micro_batch_size = 4;
    q.axes[AXIS_METHOD] = (struct plan_axis){both_methods, 2, true};
    q.axes[AXIS_CHECKPOINTING] = (struct plan_axis){both, 2, true};
    a = answer(&q);
    for (uint32_t i = 0; i < a.n; i++)
        ck_assert_int_eq(a.candidates[i].basis, BASIS_REPLAYED);
    q.axes[AXIS_LOSS] = (struct plan_axis){losses, 3, true};
    a = answer(&q);
    ck_assert_uint_eq(a.n, 12);
    ck_assert_int_eq(a.candidates[0].basis, BASIS_REPLAYED);
    ck_assert_int_eq(a.candidates[11].basis, BASIS_BOUNDED);
    ck_assert_uint_lt(a.candidates[11].low_bytes, a.candidates[11].high_bytes);
}
END_TEST

UNIT_TESTS("plan", unit_rows(finds_the_largest_batch, formulas); unit_test(keeps_the_margin_and_the_context_free);
           unit_test(fills_the_global_batch); unit_test(judges_an_asked_batch_by_itself); unit_test(advises_one_change_that_fits); unit_test(tries_the_kinds_of_tuning_in_order);
           unit_test(counts_advice_that_outgrew_its_memory); unit_test(bounds_what_is_asked); unit_test(takes_the_fastest_batch_that_fits); unit_test(ranks_by_speed_and_by_objective);
           unit_test(prefers_the_simpler_of_equals); unit_test(recommends_what_can_be_launched); unit_test(keeps_the_order_of_kinds);
           unit_test(cannot_share_what_does_not_divide); unit_test(replays_what_it_recommends);)
