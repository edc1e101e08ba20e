/*
 * Laws that hold for any model and any step, over random ones: the carried configs cut to a few layers, random options of both
 * stacks. Those of the walk are strict; those of the replay allow the slack that it reports.
 *
 * The seed is printed and fixed, so that a failure comes back; LLMEMD_LAWS_SEED asks for other draws.
 */
#include "tests/support/programs.h"
#include "api/api.h"
#include "base/json.h"
#include "config/arch.h"
#include "tests/support/carried.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/fold.h"
#include "train/inventory.h"
#include "train/measure.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 300, ASKED = 12, ROOM = 128 << 20, CONFIG_ROOM = 1 << 20, MAX_LAYERS = 4 };

/* --- draws --------------------------------------------------------------------------------------------------------------------- */

static uint64_t state;

static uint64_t seed_of(const char *law)
{
    const char *given = getenv("LLMEMD_LAWS_SEED");
    uint64_t h = given ? strtoull(given, NULL, 10) : 20240229;

    printf("%s: seed %" PRIu64 "\n", law, h);
    for (; *law; law++)
        h = (h ^ (unsigned char)*law) * UINT64_C(0x100000001b3);
    return h;
}

static uint32_t below(uint32_t n) /* splitmix64 */
{
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) % n);
}

static bool chance(uint32_t percent)
{
    return below(100) < percent;
}

struct draw {
    const struct builtin *model;
    struct arch arch;
    uint32_t deep; /* its own number of layers */
    struct recipe recipe;
    struct device device;
};

static void *config_block, *block;
static char said[512];

static const char *say(const struct draw *d)
{
    const struct recipe *r = &d->recipe;

    (void)snprintf(said, sizeof said,
                   "%s, %" PRIu32 " layers, torch %" PRIu32 ": B %" PRIu32 " S %" PRIu32 " accumulation %" PRIu32
                   " %s precision %d optimizer %d attention %d%s"
                   " checkpointing %d reentrant %d cache %d%s clip %g framework %d",
                   d->model->id, d->arch.layers, r->stack.torch, r->micro_batch_size, r->seq_len_tokens, r->gradient_accumulation_steps,
                   r->tuning == TUNING_LORA ? "lora" : "full", (int)r->precision, (int)r->optimizer, (int)r->attention,
                   r->method == METHOD_DDP ? " ddp" : "", (int)r->gradient_checkpointing, (int)r->checkpoint_reentrant, (int)r->use_cache,
                   r->padded ? " padded" : r->attention_mask == TRI_FALSE ? " no mask" : "", r->max_grad_norm, (int)r->framework);
    return said;
}

static bool draw_arch(struct draw *d)
{
    struct arena a;
    struct json *config = NULL;
    struct err err;
    bool known;

    d->model = carried_at(below((uint32_t)carried_count()));
    arena_init(&a, config_block, CONFIG_ROOM);
    known = !json_parse(carried_text(d->model), d->model->bytes, &json_limits_config, &config, &err) && !arch_read(config, &a, &d->arch, &err);
    json_free(config);
    d->deep = d->arch.layers;
    if (known && d->arch.layers > MAX_LAYERS)
        d->arch.layers = MAX_LAYERS;
    return known;
}

static void draw_recipe(struct draw *d)
{
    uint32_t longest = d->arch.max_positions && d->arch.max_positions < 2048 ? d->arch.max_positions : 2048;
    struct recipe *r = &d->recipe;

    *r = (struct recipe){
        .seq_len_tokens = 1 + below(chance(30) ? longest : longest / 4),
        .micro_batch_size = 1 + below(8),
        .gradient_accumulation_steps = chance(70) ? 1 : 2 + below(3),
        .tuning = chance(35) ? TUNING_LORA : TUNING_FULL,
        .precision = (enum precision)below(PRECISION_COUNT),
        .optimizer = (enum optimizer)below(OPTIMIZER_SGD + 1),
        .max_grad_norm = chance(80) ? 1 : 0,
        .gradient_checkpointing = chance(40) ? TRI_TRUE : TRI_FALSE,
        .checkpoint_reentrant = (enum tri)below(3),
        .use_cache = (enum tri)below(3),
        .attention = chance(30) ? ATTENTION_UNSET : (enum attention)below(ATTENTION_COUNT),
        .padded = chance(30),
        .framework = chance(80) ? FRAMEWORK_TRANSFORMERS : FRAMEWORK_TORCH,
        .stack = chance(50) ? traced_new : traced_old,
    };
    if (!r->padded && chance(20))
        r->attention_mask = TRI_FALSE;
    if (chance(50))
        r->seq_len_tokens = (r->seq_len_tokens + 7) / 8 * 8;
    if (r->tuning == TUNING_LORA)
        r->lora = (struct lora){.rank = 1U << below(6), .dropout = chance(50) ? 0.1 : 0, .all_linear = chance(30)};
    d->device = traced_device;
}

static bool resolved(const struct draw *d, struct step *ret)
{
    struct arena a;
    struct err err;

    arena_init(&a, block, ROOM);
    return !train_resolve(&d->recipe, &d->arch, &d->device, &a, ret, &err);
}

/* False: a step that the model, the stack or this program refuses. */
static bool walk(const struct draw *d, struct measured *ret)
{
    struct arena a;
    struct step step;
    struct err err;

    arena_init(&a, block, ROOM);
    if (!resolved(d, &step))
        return false;
    if (train_walk(&d->arch, &step, &d->device, &a, ret, &err)) {
        ck_assert_msg(err.code != ERR_NOMEM && err.code != ERR_INTERNAL, "%s: %s", say(d), err.detail);
        return false;
    }
    return true;
}

/* The next draw that walks. */
static struct draw draw(struct measured *ret)
{
    for (int i = 0; i < 1000; i++) {
        struct draw d;

        if (!draw_arch(&d))
            continue;
        draw_recipe(&d);
        if (walk(&d, ret))
            return d;
    }
    ck_abort_msg("no draw walks");
}

static void begin(const char *law)
{
    config_block = malloc(CONFIG_ROOM);
    block = malloc(ROOM);
    ck_assert(config_block && block);
    state = seed_of(law);
}

static void end(int kept)
{
    free(config_block);
    free(block);
    ck_assert_int_ge(kept, DRAWS / 5); /* a law that hardly any draw meets tests nothing */
}

static void never_less(const struct draw *d, const char *what, uint64_t less, uint64_t more)
{
    ck_assert_msg(less <= more, "%s: %s: %" PRIu64 ", before %" PRIu64, say(d), what, more, less);
}

/* The same step under DistributedDataParallel, of random buckets. Its batches have the mask that one GPU's have. */
static void on_several(struct draw *d)
{
    d->recipe.method = METHOD_DDP;
    d->recipe.data_parallel = 1 + below(64);
    d->recipe.ddp_bucket_bytes = chance(40) ? 0 : UINT64_C(1) << (10 + below(18));
    d->recipe.gradient_as_bucket_view = (enum tri)below(3);
    d->recipe.sync_each_batch = (enum tri)below(3);
}

/* Any method that has a program, on a few or many GPUs. */
static void on_any(struct draw *d)
{
    struct recipe *r = &d->recipe;

    do
        r->method = (enum method)(1 + below(METHOD_COUNT - 1));
    while (!method_is_modelled(r->method));
    r->data_parallel = 1 + below(chance(50) ? 8 : 64);
    r->zero = (struct zero_recipe){ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, TRI_UNSET, TRI_UNSET, false, false, false, false, 0};
    if (r->method == METHOD_TP || r->method == METHOD_TP_FSDP2)
        r->tensor_parallel = 2;
    if (r->method == METHOD_PP)
        r->pipeline_parallel = 2;
    if (r->tensor_parallel == 2 || r->pipeline_parallel == 2) { /* what these are modelled for */
        r->data_parallel = r->method == METHOD_TP_FSDP2 ? r->data_parallel : 1;
        r->gradient_accumulation_steps += r->method == METHOD_PP;
        r->tuning = TUNING_FULL;
        r->stack = traced_new;
    }
    if (r->method == METHOD_HSDP || r->method == METHOD_HSDP2) {
        r->shard_group = 1 + below(8);
        r->data_parallel = r->shard_group * (1 + below(4));
    }
}

static uint64_t highest(const struct measured *m)
{
    return m->walk_peak_bytes > m->first_steps_peak_bytes ? m->walk_peak_bytes : m->first_steps_peak_bytes;
}

/* --- of the walk --------------------------------------------------------------------------------------------------------------- */

START_TEST(more_tokens_never_need_less)
{
    int kept = 0;

    begin("tokens");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        if (!walk(&d, &a))
            continue;
        if (chance(50))
            d.recipe.micro_batch_size += 1 + below(4);
        else
            d.recipe.seq_len_tokens += 8 * (1 + below(64));
        if (!walk(&d, &b))
            continue;
        never_less(&d, "more tokens", a.walk_peak_bytes, b.walk_peak_bytes);
        kept++;
    }
    end(kept);
}
END_TEST

START_TEST(more_layers_never_need_less)
{
    int kept = 0;

    begin("layers");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&b);

        if (d.arch.layers < 2)
            continue;
        d.arch.layers -= 1 + below(d.arch.layers - 1);
        if (!walk(&d, &a))
            continue;
        never_less(&d, "more layers", a.walk_peak_bytes, b.walk_peak_bytes);
        never_less(&d, "more layers, static", a.static_bytes, b.static_bytes);
        kept++;
    }
    end(kept);
}
END_TEST

START_TEST(a_larger_vocabulary_never_needs_less)
{
    int kept = 0;

    begin("vocabulary");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        d.arch.vocab += 1 + below(100000);
        if (!walk(&d, &b))
            continue;
        never_less(&d, "a larger vocabulary", a.walk_peak_bytes, b.walk_peak_bytes);
        kept++;
    }
    end(kept);
}
END_TEST

/* Four layers, so that the activations of three weigh more than one layer's twice. Where a quarter of a micro-step
 * has fewer tokens than the weights are wide, backward peaks at its end, when AccumulateGrad holds every gradient: a recomputed first layer then stands beside them
 * with its output and its arguments, which backward without checkpointing has let go by then. Such steps are left out; LoRA has
 * few gradients and is not. */
START_TEST(checkpointing_never_raises_forward_and_backward)
{
    int kept = 0;

    begin("checkpointing");
    for (int i = 0; i < 2 * DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        if (d.arch.layers < 4 ||
            (d.recipe.tuning == TUNING_FULL && d.recipe.micro_batch_size * d.recipe.seq_len_tokens < 4 * d.arch.hidden))
            continue;
        d.recipe.gradient_checkpointing = TRI_FALSE;
        if (!walk(&d, &b))
            continue;
        d.recipe.gradient_checkpointing = TRI_TRUE;
        if (!walk(&d, &a))
            continue;
        never_less(&d, "the forward without checkpointing", a.phase_peaks_bytes[PHASE_FORWARD], b.phase_peaks_bytes[PHASE_FORWARD]);
        never_less(&d, "the backward without checkpointing", a.phase_peaks_bytes[PHASE_BACKWARD], b.phase_peaks_bytes[PHASE_BACKWARD]);
        kept++;
    }
    end(kept);
}
END_TEST

/* Gradients have the dtype of their parameter, AdamW's states too: bytes of what trains stand for both. */
static uint64_t trained_bytes(const struct draw *d)
{
    struct arena a;
    struct step step;
    struct inventory v;
    struct err err = {0};
    uint64_t sum = 0;

    if (!resolved(d, &step))
        return 0;
    arena_init(&a, block, ROOM);
    ck_assert_msg(!inventory_of(&d->arch, &step, &a, &v, &err), "%s: %s", say(d), err.detail);
    for (uint32_t i = 0; i < v.n; i++)
        if (v.rows[i].trainable && !v.rows[i].tied_to)
            sum += v.rows[i].elems * (strcmp(v.rows[i].dtype, "fp32") ? 2 : 4);
    return sum;
}

START_TEST(lora_never_trains_more_than_full)
{
    int kept = 0;

    begin("lora");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);
        uint64_t full, lora;

        d.recipe.tuning = TUNING_FULL;
        full = trained_bytes(&d);
        if (!walk(&d, &b))
            continue;
        d.recipe.tuning = TUNING_LORA;
        d.recipe.lora = (struct lora){.rank = 1 + below(8), .all_linear = chance(50)};
        lora = trained_bytes(&d);
        if (!walk(&d, &a))
            continue;
        ck_assert_uint_gt(lora, 0);
        never_less(&d, "what trains in full", lora, full);
        ck_assert_uint_le(a.trainable_parameters, b.trainable_parameters);
        ck_assert_uint_ge(a.parameters, b.parameters);
        kept++;
    }
    end(kept);
}
END_TEST

/* What stands beside a step's activations: weights, what of them trains, its states. Norms in fp32 (prepare_kbit) are not of the base that was given. */
START_TEST(quantised_weights_never_hold_more)
{
    int kept = 0;

    begin("qlora");
    for (int i = 0; i < DRAWS; i++) {
        static const enum kbit kinds[] = {KBIT_NF4, KBIT_NF4_DQ, KBIT_FP4};
        struct measured a, b;
        struct draw d = draw(&a);

        d.recipe.tuning = TUNING_LORA;
        d.recipe.lora = (struct lora){.rank = 1 + below(8), .all_linear = true};
        if (!walk(&d, &b))
            continue;
        d.recipe.quantization = kinds[below(3)];
        if (!walk(&d, &a))
            continue;
        never_less(&d, "LoRA's weights", a.static_bytes, b.static_bytes);
        never_less(&d, "what LoRA holds between steps", a.resting_bytes, b.resting_bytes);
        kept++;
    }
    end(kept);
}
END_TEST

/* One row of all sequences, without a mask, beside a row for each that is padded to the longest; but for positions and rotary tables, which rows share
 * and a packed row has for each token. Other attention than flash makes a mask of all pairs of them. */
START_TEST(packing_never_needs_more_than_padding)
{
    int kept = 0;

    begin("packing");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        d.recipe.attention = ATTENTION_FLASH_2;
        d.recipe.attention_mask = TRI_UNSET;
        d.recipe.padded = true;
        d.recipe.stack = traced_new;
        d.recipe.framework = FRAMEWORK_TRANSFORMERS;
        d.recipe.micro_batch_size = 2 + below(3);
        d.recipe.seq_len_tokens = 8 * (1 + d.recipe.seq_len_tokens / 16);
        if (!walk(&d, &b))
            continue;
        d.recipe.padded = false;
        d.recipe.packing = true;
        d.recipe.sequence_tokens = d.recipe.seq_len_tokens - 1; /* each row ended in one of padding */
        d.recipe.seq_len_tokens = (d.recipe.seq_len_tokens - 1) * d.recipe.micro_batch_size;
        d.recipe.micro_batch_size = 1;
        if (!walk(&d, &a))
            continue;
        never_less(&d, "rows that are padded", a.walk_peak_bytes, b.walk_peak_bytes + (32 + 24 * (uint64_t)d.arch.head_dim) * d.recipe.seq_len_tokens);
        kept++;
    }
    end(kept);
}
END_TEST

START_TEST(a_reference_that_was_computed_never_needs_more)
{
    int kept = 0;

    begin("reference");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        d.recipe.stage = TASK_DPO;
        d.recipe.tuning = TUNING_FULL;
        d.recipe.stack = traced_new;
        d.recipe.framework = FRAMEWORK_TRANSFORMERS;
        d.recipe.reference = REFERENCE_COPY;
        if (!walk(&d, &b))
            continue;
        d.recipe.reference = REFERENCE_PRECOMPUTED;
        if (!walk(&d, &a))
            continue;
        never_less(&d, "a copy", a.walk_peak_bytes, b.walk_peak_bytes);
        kept++;
    }
    end(kept);
}
END_TEST


/* --- of the replay ------------------------------------------------------------------------------------------------------------- */

START_TEST(ddp_is_the_same_on_any_number_of_ranks)
{
    int kept = 0;

    begin("ranks");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        on_several(&d);
        if (!walk(&d, &a))
            continue;
        d.recipe.data_parallel += 1 + below(1000);
        ck_assert(walk(&d, &b));
        ck_assert_msg(!memcmp(&a, &b, sizeof a), "%s: %" PRIu64 " and %" PRIu64, say(&d), a.walk_peak_bytes, b.walk_peak_bytes);
        kept++;
    }
    end(kept);
}
END_TEST

/* Without a cache in the outputs: the wrapper's clones of it are compact, what they take the place of may be views of more. */
/* A walk leaves a step out where a replay does not; what lives is the same. Nothing fits into no byte, so nothing is replayed here. */
START_TEST(ddp_walks_as_it_is_replayed)
{
    int kept = 0;

    begin("walks");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a;
        struct draw d = draw(&a);
        struct step step;
        struct arena arena;
        struct err err;
        struct fit fit;

        on_several(&d);
        if (!walk(&d, &a) || !resolved(&d, &step))
            continue;
        arena_init(&arena, block, ROOM);
        ck_assert(!train_fits(&d.arch, &step, &d.device, &(struct fit_question){0}, &arena, &fit, &err));
        ck_assert_msg(fit.walk.walk_peak_bytes == a.walk_peak_bytes, "%s: %" PRIu64 ", whole %" PRIu64, say(&d), a.walk_peak_bytes,
                      fit.walk.walk_peak_bytes);
        ck_assert_uint_eq(fit.walk.static_bytes, a.static_bytes);
        ck_assert_uint_eq(fit.walk.resting_bytes, a.resting_bytes);
        ck_assert(!memcmp(fit.walk.phase_peaks_bytes, a.phase_peaks_bytes, sizeof a.phase_peaks_bytes));
        kept++;
    }
    end(kept);
}
END_TEST

START_TEST(ddp_never_needs_less_than_one_gpu)
{
    int kept = 0;

    begin("ddp");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        d.recipe.use_cache = TRI_FALSE;
        ck_assert(walk(&d, &a));
        on_several(&d);
        if (!walk(&d, &b))
            continue;
        never_less(&d, "ddp", a.walk_peak_bytes, highest(&b) + 512 * (uint64_t)b.tensors); /* a view is not rounded up */
        never_less(&d, "ddp, static", a.static_bytes, b.static_bytes);
        kept++;
    }
    end(kept);
}
END_TEST

/* Buckets and foreach lists end in the middle of a layer: there a block is rounded more or less. */
static void same_but_for_rounding(const struct draw *d, const char *what, uint64_t folded, uint64_t whole)
{
    uint64_t off = folded > whole ? folded - whole : whole - folded;

    ck_assert_msg(off <= 4096 + whole / 10000, "%s %s: %s: %" PRIu64 ", whole %" PRIu64, method_rows[d->recipe.method].name, say(d), what,
                  folded, whole);
}

/* A model deep enough to fold, under any method, walked both ways; false: a draw that is refused. */
static bool deep_and_folded(struct draw *d, bool one_step, struct measured *whole, struct measured *folded)
{
    struct arena arena;
    struct step step;
    struct err err;

    d->arch.layers = d->deep > 16 ? 10 + below(7) : d->deep;
    if (chance(80))
        on_any(d);
    if (!walk(d, whole) || !resolved(d, &step))
        return false;
    arena_init(&arena, block, ROOM);
    ck_assert(!train_fold(&d->arch, &step, &d->device, one_step, NULL, NULL, &arena, folded, &err));
    return true;
}

/* A deep model from shallow ones, under every method that has a program. */
START_TEST(a_folded_walk_is_the_whole_walk)
{
    int kept = 0;

    begin("fold");
    for (int i = 0; i < DRAWS / 2; i++) {
        struct measured whole, folded;
        struct draw d = draw(&whole);

        if (!deep_and_folded(&d, false, &whole, &folded))
            continue;
        same_but_for_rounding(&d, "peak", folded.walk_peak_bytes, whole.walk_peak_bytes);
        same_but_for_rounding(&d, "static", folded.static_bytes, whole.static_bytes);
        same_but_for_rounding(&d, "resting", folded.resting_bytes, whole.resting_bytes);
        for (int k = 0; k < PHASE_COUNT; k++)
            same_but_for_rounding(&d, phase_name((enum phase)k), folded.phase_peaks_bytes[k], whole.phase_peaks_bytes[k]);
        kept++;
    }
    end(kept);
}
END_TEST

/* One step whose states stand already bounds two from below, and misses no more than what a step leaves to the next. */
START_TEST(one_step_bounds_the_whole_walk)
{
    int kept = 0;

    begin("one step");
    for (int i = 0; i < DRAWS / 2; i++) {
        struct measured whole, one;
        struct draw d = draw(&whole);

        if (!deep_and_folded(&d, true, &whole, &one))
            continue;
        ck_assert_msg(one.walk_peak_bytes <= whole.walk_peak_bytes + 4096 + whole.walk_peak_bytes / 10000, "%s %s: %" PRIu64 ", whole %" PRIu64,
                      method_rows[d.recipe.method].name, say(&d), one.walk_peak_bytes, whole.walk_peak_bytes);
        never_less(&d, "what a step leaves to the next", whole.walk_peak_bytes, one.walk_peak_bytes + whole.walk_peak_bytes / 200 + (32u << 20));
        kept++;
    }
    end(kept);
}
END_TEST

/* Reducing each micro-batch, gradients become views before the last: that is never more either. A bucket's size is no such law: it only
 * moves where blocks are rounded. */
START_TEST(bucket_views_never_need_more)
{
    int kept = 0;

    begin("views");
    for (int i = 0; i < DRAWS; i++) {
        struct measured a, b;
        struct draw d = draw(&a);

        on_several(&d);
        d.recipe.gradient_as_bucket_view = TRI_FALSE;
        if (!walk(&d, &b))
            continue;
        d.recipe.gradient_as_bucket_view = TRI_TRUE;
        d.recipe.sync_each_batch = TRI_FALSE;
        ck_assert(walk(&d, &a));
        never_less(&d, "gradients beside buckets", highest(&a), highest(&b));
        b = a;
        d.recipe.sync_each_batch = TRI_TRUE;
        ck_assert(walk(&d, &a));
        never_less(&d, "views under no_sync", highest(&a), highest(&b));
        kept++;
    }
    end(kept);
}
END_TEST

START_TEST(the_replay_stays_within_its_slack)
{
    begin("replay");
    for (int i = 0; i < DRAWS; i++) {
        struct measured w, m;
        struct draw d = draw(&w);
        struct step step;
        struct arena a;
        struct err err = {0};
        uint64_t sum = 0;
        struct fit fit = {.retries = 1};

        ck_assert(resolved(&d, &step));
        arena_init(&a, block, ROOM);
        ck_assert_msg(!train_measure(&d.arch, &step, &d.device, false, NULL, &a, &m, &err), "%s: %s", say(&d), err.detail);
        ck_assert_uint_eq(m.walk_peak_bytes, w.walk_peak_bytes);
        never_less(&d, "allocated over the walk", m.walk_peak_bytes, m.peak_allocated_bytes);
        never_less(&d, "walk and slack over allocated", m.peak_allocated_bytes, m.walk_peak_bytes + m.max_slack_bytes);
        never_less(&d, "expandable allocated over the walk", m.walk_peak_bytes, m.peak_allocated_expandable_bytes);
        never_less(&d, "reserved over allocated", m.peak_allocated_bytes, m.peak_reserved_bytes);
        never_less(&d, "expandable reserved over allocated", m.peak_allocated_expandable_bytes, m.peak_reserved_expandable_bytes);
        for (int c = 0; c < CATEGORY_COUNT; c++)
            sum += m.breakdown_bytes[c];
        ck_assert_msg(sum == m.peak_allocated_bytes, "%s: categories sum to %" PRIu64 ", the peak is %" PRIu64, say(&d), sum,
                      m.peak_allocated_bytes);
        ck_assert_uint_le(m.breakdown_bytes[CATEGORY_BLOCK_SLACK], m.max_slack_bytes);
        ck_assert_uint_eq(m.phase_peaks_bytes[m.peak_phase], m.peak_allocated_bytes);
        for (int p = 0; p < PHASE_COUNT; p++)
            never_less(&d, "the peak over a phase's", m.phase_peaks_bytes[p], m.peak_allocated_bytes);
        ck_assert_uint_le(m.deaths, m.births);
        arena_init(&a, block, ROOM);
        ck_assert(!train_fits(&d.arch, &step, &d.device, &(struct fit_question){.capacity_bytes = m.peak_reserved_bytes}, &a, &fit, &err));
        ck_assert_msg(fit.fits && fit.retries == 0, "%s: %" PRIu64 " bytes are not enough, or only after %" PRIu32 " retries", say(&d),
                      m.peak_reserved_bytes, fit.retries);
        arena_init(&a, block, ROOM);
        ck_assert(!train_fits(&d.arch, &step, &d.device, &(struct fit_question){.capacity_bytes = m.walk_peak_bytes - 1}, &a, &fit, &err));
        ck_assert_msg(!fit.fits, "%s: fits below what lives at once", say(&d));
    }
    end(DRAWS);
}
END_TEST

/* --- of the whole answer ------------------------------------------------------------------------------------------------------- */

enum { TOUCHED_BYTES = 32 << 20 };

static size_t ask(const char *body, const struct builtin *model, unsigned char fill, char **ret)
{
    void *arena_block = malloc(API_ARENA_BYTES);
    struct arena a;
    struct api_request rq = {
        .method = "POST", .path = "/estimate", .content_type = "application/json", .body = body, .body_bytes = strlen(body), .arena = &a};
    struct api_config config = {.model = model->id, .revision = "main", .text = carried_text(model), .bytes = model->bytes, .source = "builtin"};
    struct api_response rs = {0};

    memset(arena_block, fill, TOUCHED_BYTES);
    memset((char *)arena_block + API_ARENA_BYTES / 4, fill, TOUCHED_BYTES); /* scratch begins about there */
    arena_init(&a, arena_block, API_ARENA_BYTES);
    api_answer(&rq, &config, 1, &rs);
    *ret = malloc(rs.bytes);
    memcpy(*ret, rs.body, rs.bytes);
    free(arena_block);
    return rs.bytes;
}

/* Even where the working memory held something else before. */
START_TEST(equal_requests_get_equal_answers)
{
    static const char *const gpus[] = {"A100-80GB", "H100", "RTX 4090", "T4"}, *const tunings[] = {"full", "lora"},
                             *const precisions[] = {"bf16", "bf16-mixed", "fp16-mixed", "fp32"};

    begin("answers");
    for (int i = 0; i < ASKED; i++) {
        const struct builtin *model = carried_at(below((uint32_t)carried_count()));
        char body[512], *first, *second;
        size_t n, m;

        (void)snprintf(body, sizeof body,
                       "{\"model\":\"%s\",\"cluster\":{\"gpu\":\"%s\"},\"training\":{\"seq_len\":%" PRIu32 ",\"micro_batch_size\":%" PRIu32
                       ",\"tuning\":\"%s\",\"precision\":\"%s\",\"gradient_checkpointing\":%s}}",
                       model->id, gpus[below(4)], 1 + below(1024), 1 + below(4), tunings[below(2)], precisions[below(4)],
                       chance(50) ? "true" : "false");
        n = ask(body, model, 0, &first);
        m = ask(body, model, 0xa5, &second);
        ck_assert_msg(n == m && !memcmp(first, second, n), "%s: two answers", body);
        free(first);
        free(second);
    }
    end(DRAWS);
}
END_TEST

UNIT_TESTS("laws", unit_test(more_tokens_never_need_less); unit_test(more_layers_never_need_less);
           unit_test(a_larger_vocabulary_never_needs_less); unit_test(checkpointing_never_raises_forward_and_backward);
           unit_test(lora_never_trains_more_than_full); unit_test(quantised_weights_never_hold_more); unit_test(packing_never_needs_more_than_padding);
           unit_test(a_reference_that_was_computed_never_needs_more); unit_test(ddp_is_the_same_on_any_number_of_ranks);
           unit_test(ddp_walks_as_it_is_replayed); unit_test(ddp_never_needs_less_than_one_gpu); unit_test(a_folded_walk_is_the_whole_walk);
           unit_test(one_step_bounds_the_whole_walk); unit_test(bucket_views_never_need_more); unit_test(the_replay_stays_within_its_slack);
           unit_test(equal_requests_get_equal_answers);)
