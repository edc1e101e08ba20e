/*
 * A tape that was laid out from two shallow ones, or made of one at another batch or length, is the tape of a walk in full, event by event, with its log:
 * random deep models under every method.
 *
 * The seed is printed and fixed; LLMEMD_LAWS_SEED asks for other draws, LLMEMD_LAWS_DRAWS for more.
 */
#include "tests/support/programs.h"
#include "base/json.h"
#include "config/arch.h"
#include "tests/support/carried.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/fold.h"
#include "train/measure.h"
#include "train/play.h"
#include "train/timing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 60, LOOKS = 4, CONFIG_ROOM = 1 << 20, MODEL_ROOM = 64 << 20 };
#define ROOM ((size_t)512 << 20)

static uint64_t state;

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
    struct recipe recipe;
    struct step step;
    enum look look;
    const struct device *device; /* NULL: the traced one */
};

static const struct device *device_of(const struct draw *d)
{
    return d->device ? d->device : &traced_device;
}

static bool draw_arch(struct draw *d, void *room)
{
    struct arena a;
    struct json *config = NULL;
    struct err err;
    bool known;

    d->model = carried_at(below((uint32_t)carried_count()));
    arena_init(&a, room, CONFIG_ROOM);
    known = !json_parse(carried_text(d->model), d->model->bytes, &json_limits_config, &config, &err) && !arch_read(config, &a, &d->arch, &err);
    json_free(config);
    return known && d->arch.layers >= 8;
}

static void draw_method(struct recipe *r)
{
    do
        r->method = (enum method)below(METHOD_COUNT);
    while (r->method != METHOD_SINGLE && !method_is_modelled(r->method));
    r->zero = (struct zero_recipe){ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, TRI_UNSET, TRI_UNSET, false, false, false, false, 0};
    if (r->method == METHOD_SINGLE)
        return;
    r->data_parallel = 2 + below(7);
    if (r->method == METHOD_TP || r->method == METHOD_TP_FSDP2)
        r->tensor_parallel = 2;
    if (r->method == METHOD_PP)
        r->pipeline_parallel = 2;
    if (r->tensor_parallel == 2 || r->pipeline_parallel == 2) {
        r->data_parallel = r->method == METHOD_TP_FSDP2 ? r->data_parallel : 1;
        r->gradient_accumulation_steps += r->method == METHOD_PP;
        r->tuning = TUNING_FULL;
        r->stack = traced_new;
        r->rank = r->method == METHOD_PP ? below(2) : 0;
    }
    if (r->method == METHOD_HSDP || r->method == METHOD_HSDP2) {
        r->shard_group = 2;
        r->data_parallel = 4;
    }
}

static void draw_size(struct recipe *r, const struct arch *arch)
{
    uint32_t longest = arch->max_positions && arch->max_positions < 4096 ? arch->max_positions : 4096;

    r->micro_batch_size = chance(10) ? 1 : 2 + below(chance(50) ? 6 : 40);
    if (r->seq_len_tokens && chance(70))
        return;
    r->seq_len_tokens = chance(60) ? 256U << below(4) : 1 + below(longest);
    if (r->seq_len_tokens > longest)
        r->seq_len_tokens = longest;
}

static bool draw(struct draw *d, void *room)
{
    struct recipe *r = &d->recipe;
    struct arena a;
    struct err err;

    if (!draw_arch(d, room))
        return false;
    *r = (struct recipe){
        .gradient_accumulation_steps = chance(70) ? 1 : 2 + below(3),
        .tuning = chance(35) ? TUNING_LORA : TUNING_FULL,
        .precision = (enum precision)below(PRECISION_COUNT),
        .optimizer = (enum optimizer)below(chance(15) ? OPTIMIZER_COUNT : OPTIMIZER_SGD + 1),
        .max_grad_norm = chance(80) ? 1 : 0,
        .gradient_checkpointing = chance(50) ? TRI_TRUE : TRI_FALSE,
        .checkpoint_reentrant = (enum tri)below(3),
        .use_cache = chance(70) ? TRI_UNSET : (enum tri)below(3),
        .attention = chance(50) ? ATTENTION_UNSET : (enum attention)below(ATTENTION_COUNT),
        .padded = chance(20),
        .framework = chance(80) ? FRAMEWORK_TRANSFORMERS : FRAMEWORK_TORCH,
        .stack = chance(60) ? traced_new : traced_old,
    };
    if (r->tuning == TUNING_LORA)
        r->lora = (struct lora){.rank = 1U << below(6), .dropout = chance(50) ? 0.1 : 0, .all_linear = chance(30)};
    draw_size(r, &d->arch);
    draw_method(r);
    d->look = chance(30) ? LOOK_WALK : LOOK_REPLAY;
    arena_init(&a, (char *)room + CONFIG_ROOM, CONFIG_ROOM);
    return !train_resolve(r, &d->arch, &traced_device, &a, &d->step, &err);
}

static const char *say(const struct draw *d)
{
    static char said[400];
    const struct recipe *r = &d->step.r;

    (void)snprintf(said, sizeof said, "%s %s, %" PRIu32 " layers, torch %" PRIu32 ", accumulation %" PRIu32 ", tuning %d, precision %d, optimizer %d, "
                                      "attention %d%s, checkpointing %d reentrant %d, cache %d, framework %d, ranks %" PRIu32 ", look %d",
                   method_rows[r->method].name, d->model->id, d->arch.layers, r->stack.torch, r->gradient_accumulation_steps, (int)r->tuning,
                   (int)r->precision, (int)r->optimizer, (int)r->attention, r->padded ? " padded" : "", (int)r->gradient_checkpointing,
                   (int)r->checkpoint_reentrant, (int)r->use_cache, (int)r->framework, r->data_parallel, (int)d->look);
    return said;
}

/* `bare`: where in the tape a row stood is not told. */
static void same_log(const struct draw *d, const struct work *a, const struct work *b, bool bare)
{
    ck_assert_uint_eq(a->n_kernels, b->n_kernels);
    ck_assert_uint_eq(a->n_messages, b->n_messages);
    ck_assert_uint_eq(a->n_orders, b->n_orders);
    for (uint32_t i = 0; i < a->n_kernels; i++) {
        const struct kernel *x = &a->kernels[i], *y = &b->kernels[i];

        ck_assert_msg(x->op == y->op && (bare || x->at == y->at) && x->stage == y->stage && x->stream == y->stream && x->dtype == y->dtype && x->recompute == y->recompute &&
                          x->launches == y->launches && x->calls == y->calls && x->hooks == y->hooks, "%s: kernel %u",
                      say(d), i);
        ck_assert_msg(x->flops == y->flops && x->bytes == y->bytes && x->rows == y->rows && x->columns == y->columns && x->inner == y->inner &&
                          x->batch == y->batch && x->unaligned == y->unaligned, "%s: size of kernel %u, %s", say(d), i, op_rows[x->op].aten);
    }
    for (uint32_t i = 0; i < a->n_messages; i++) {
        const struct message *x = &a->messages[i], *y = &b->messages[i];

        ck_assert_msg(x->bytes == y->bytes && (bare || x->at == y->at) && x->collective == y->collective && x->stage == y->stage && x->stream == y->stream,
                      "%s: message %u", say(d), i);
        ck_assert_msg(x->kernels_before == y->kernels_before && x->host_after == y->host_after && x->waited_before == y->waited_before,
                      "%s: place of message %u", say(d), i);
    }
}

static void same_tape(const struct draw *d, const struct taped *a, const struct taped *b)
{
    const struct recipe *r = &d->step.r;

    ck_assert_msg(a->tape.n_births == b->tape.n_births && a->tape.n_events == b->tape.n_events, "%s: B %u S %u: %u events, in full %u", say(d),
                  r->micro_batch_size, r->seq_len_tokens, a->tape.n_events, b->tape.n_events);
    ck_assert(!memcmp(a->tape.events, b->tape.events, a->tape.n_events * sizeof *a->tape.events));
    ck_assert(a->tape.steps_begin == b->tape.steps_begin && a->tape.peaks_begin == b->tape.peaks_begin && a->tape.head_module == b->tape.head_module &&
              a->tape.addresses_fall == b->tape.addresses_fall);
    ck_assert(a->t->run.n_marks == b->t->run.n_marks && a->t->model.tree.n_modules == b->t->model.tree.n_modules);
    ck_assert(a->host_bytes == b->host_bytes && a->host_bytes_of_all == b->host_bytes_of_all && a->t->last_begins == b->t->last_begins);
    for (uint32_t i = 0; i < a->tape.n_births; i++) {
        const struct birth *x = &a->tape.births[i], *y = &b->tape.births[i];

        ck_assert_msg(x->bytes == y->bytes && x->op == y->op && x->node == y->node && x->module == y->module && x->mark == y->mark &&
                          x->stage == y->stage && x->stream == y->stream && x->readers == y->readers,
                      "%s: B %u S %u: birth %u, %s in stage %d: %" PRIu64 ", in full %" PRIu64, say(d), r->micro_batch_size, r->seq_len_tokens, i,
                      op_rows[x->op].aten, x->stage, x->bytes, y->bytes);
    }
    if (a->t->log)
        same_log(d, a->t->log, b->t->log, false);
}

static bool offload_some(struct draw *d, void *room)
{
    enum offload kind = chance(50) ? OFFLOAD_OPTIMIZER : OFFLOAD_OPTIMIZER_PARAMS;
    struct arena a;
    struct err err;

    if (!chance(40) || !method_offloads(d->recipe.method, kind))
        return true;
    d->recipe.offload = kind;
    arena_init(&a, (char *)room + CONFIG_ROOM, CONFIG_ROOM);
    return !train_resolve(&d->recipe, &d->arch, &traced_device, &a, &d->step, &err);
}

static void same_costs(const struct draw *d, const struct taped *x, const struct taped *y)
{
    same_log(d, x->t->log, y->t->log, true);
    ck_assert(x->t->model.tree.n_modules == y->t->model.tree.n_modules && x->t->run.n_events == y->t->run.n_events);
    ck_assert(x->t->whole.parameters == y->t->whole.parameters && x->t->whole.trainable == y->t->whole.trainable && x->t->whole.tensors == y->t->whole.tensors &&
              x->t->whole.experts == y->t->whole.experts && x->t->whole.trained_experts == y->t->whole.trained_experts);
}

/* What a step costs is told by the run whose tape was laid out for replays, as often as it is asked, and as a run for that alone tells it. */
static bool tells_costs(const struct draw *d, struct arena *kept, void *other)
{
    struct play_question q = {&d->arch, &d->step, device_of(d), LOOK_COSTS, false, false}, in_full = q;
    unsigned char *mark = kept->cur;
    struct arena fresh;
    struct taped a, b;
    struct err err;

    in_full.in_full = true;
    arena_init(&fresh, other, ROOM);
    ck_assert(!train_play(&q, kept, &a, &err));
    if (a.made == TAPE_TOLD) {
        ck_assert(!train_play(&in_full, &fresh, &b, &err));
        same_costs(d, &a, &b);
    }
    arena_rewind(kept, mark);
    return a.made == TAPE_TOLD;
}

/* How often a tape was made in each way, and told what its step costs too. */
struct ways {
    int n[TAPE_TOLD + 1];
};

/* The same question several times, of other sizes: as the arena finds it, and in full. */
static void look_again(struct draw *d, int looks, void *room, void *other, struct ways *ret)
{
    struct play_question q = {&d->arch, &d->step, device_of(d), d->look, method_is_zero(d->step.r.method) && chance(70), false}, in_full;
    struct arena kept, fresh;
    struct taped a, b;
    struct err err;

    arena_init(&kept, room, ROOM);
    for (int i = 0; i < looks; i++) {
        if (train_play(&q, &kept, &a, &err))
            return;
        ret->n[a.made]++;
        if (a.made != TAPE_PLAYED) {
            in_full = q;
            in_full.in_full = true;
            arena_init(&fresh, other, ROOM);
            ck_assert(!train_play(&in_full, &fresh, &b, &err));
            same_tape(d, &a, &b);
        }
        if (a.made == TAPE_LAID_OUT && d->look == LOOK_REPLAY)
            ret->n[TAPE_TOLD] += tells_costs(d, &kept, other);
        draw_size(&d->step.r, &d->arch);
    }
}

START_TEST(a_tape_that_was_made_is_that_of_a_walk)
{
    const char *seed = getenv("LLMEMD_LAWS_SEED"), *draws = getenv("LLMEMD_LAWS_DRAWS");
    void *config = malloc(2 * CONFIG_ROOM), *room = malloc(ROOM), *other = malloc(ROOM);
    struct ways of[METHOD_COUNT] = {{{0}}};
    int left = draws ? atoi(draws) : DRAWS, played = 0, made = 0, told = 0;

    ck_assert(config && room && other);
    state = seed ? strtoull(seed, NULL, 10) : 20261122;
    while (left) {
        struct draw d = {0};

        if (!draw(&d, config) || !offload_some(&d, config))
            continue;
        look_again(&d, LOOKS, room, other, &of[d.step.r.method]);
        left--;
    }
    for (int i = 0; i < METHOD_COUNT; i++) {
        printf("%-16s played %d, laid out %d, resized %d, told costs %d\n", method_rows[i].name, of[i].n[TAPE_PLAYED], of[i].n[TAPE_LAID_OUT],
               of[i].n[TAPE_RESIZED], of[i].n[TAPE_TOLD]);
        told += of[i].n[TAPE_TOLD];
        played += of[i].n[TAPE_PLAYED];
        made += of[i].n[TAPE_LAID_OUT] + of[i].n[TAPE_RESIZED];
    }
    ck_assert_int_ge(made, played / 2);
    ck_assert_int_gt(told, 0);
    free(config);
    free(room);
    free(other);
}
END_TEST

/* A carried model with some members otherwise, its recipe still to be said. */
static void take_model(struct draw *d, const char *id, const char *otherwise, struct arena *a)
{
    struct json *json = NULL, *patch = NULL;
    struct err err;

    d->model = builtin_find(id);
    ck_assert(d->model && !d->model->of);
    ck_assert(!json_parse(carried_text(d->model), d->model->bytes, &json_limits_config, &json, &err));
    ck_assert(!json_parse(otherwise, strlen(otherwise), &json_limits_config, &patch, &err) && !json_merge_patch(json, patch, &err));
    ck_assert_msg(!arch_read(json, a, &d->arch, &err), "%s %s", err.at, err.detail);
    json_free(json);
    json_free(patch);
}

static void is_laid_out(struct draw *d, int looks, void *room, void *other)
{
    struct ways ways = {{0}};

    state = 1;
    look_again(d, looks, room, other, &ways);
    ck_assert_msg(ways.n[TAPE_LAID_OUT] > 0 && !ways.n[TAPE_PLAYED], "%s: laid out %d, played %d", say(d), ways.n[TAPE_LAID_OUT], ways.n[TAPE_PLAYED]);
}

/* Layers of two kinds whose matrices and norms are alike: a list of all layers' repeats itself by one layer, the model by two. */
START_TEST(layers_of_two_kinds_are_laid_out)
{
    void *config = malloc(MODEL_ROOM), *room = malloc(ROOM), *other = malloc(ROOM);
    struct device hopper = traced_device;
    struct draw d = {.look = _i & 2 ? LOOK_WALK : LOOK_REPLAY, .device = &hopper};
    struct arena a;
    struct err err;

    ck_assert(config && room && other);
    hopper.cc_major = 9;
    hopper.addresses_fall = true; /* which no run of a tape that is laid out can say */
    arena_init(&a, config, MODEL_ROOM);
    take_model(&d, "google/gemma-2-9b", "{}", &a);
    d.recipe = (struct recipe){.precision = PRECISION_BF16, .micro_batch_size = 2, .seq_len_tokens = 51, .stack = traced_new};
    d.recipe.gradient_checkpointing = _i & 1 ? TRI_TRUE : TRI_FALSE;
    ck_assert(fold_of(&d.arch).period == 2 && !train_resolve(&d.recipe, &d.arch, &hopper, &a, &d.step, &err));
    is_laid_out(&d, LOOKS, room, other);
    free(config);
    free(room);
    free(other);
}
END_TEST

#define FEW_EXPERTS "{\"n_routed_experts\": 16, \"n_group\": 1, \"topk_group\": 1, \"quantization_config\": null}"

static const struct behind {
    const char *id, *otherwise;
    struct fold fold;
    release transformers;
    enum method method;
    enum tuning tuning;
} behind[] = {
    {"deepseek-ai/DeepSeek-V3", FEW_EXPERTS, {3, 1}, 4057, METHOD_SINGLE, TUNING_FULL},
    {"deepseek-ai/DeepSeek-V3", FEW_EXPERTS, {3, 1}, 4057, METHOD_FSDP2, TUNING_LORA},
    {"deepseek-ai/DeepSeek-V3", FEW_EXPERTS, {3, 1}, 5023, METHOD_FSDP2, TUNING_FULL},
    {"zai-org/GLM-4.5-Air", "{\"n_routed_experts\": 16}", {1, 1}, 4057, METHOD_SINGLE, TUNING_FULL},
    {"zai-org/GLM-4.5-Air", "{}", {1, 1}, 5023, METHOD_DDP, TUNING_FULL},
    {"zai-org/GLM-4.5-Air", "{}", {1, 1}, 5023, METHOD_FSDP, TUNING_FULL},
    {"zai-org/GLM-4.5-Air", "{}", {1, 1}, 5023, METHOD_SINGLE, TUNING_LORA},
    {"deepseek-ai/DeepSeek-V2-Lite", "{}", {1, 1}, 5023, METHOD_SINGLE, TUNING_FULL},
};

/* Dense layers stand before those that repeat. */
START_TEST(layers_behind_dense_ones_are_laid_out)
{
    static char attention[] = "o_proj", *names[] = {attention};
    const struct behind *b = &behind[_i / 2];
    void *config = malloc(MODEL_ROOM), *room = malloc(ROOM), *other = malloc(ROOM);
    struct draw d = {.look = LOOK_REPLAY};
    struct arena a;
    struct err err;

    ck_assert(config && room && other);
    arena_init(&a, config, MODEL_ROOM);
    take_model(&d, b->id, b->otherwise, &a);
    ck_assert(fold_of(&d.arch).prefix == b->fold.prefix && fold_of(&d.arch).period == b->fold.period);
    d.recipe = (struct recipe){.method = b->method, .data_parallel = b->method == METHOD_SINGLE ? 0 : 8, .tuning = b->tuning, .precision = PRECISION_BF16,
                               .micro_batch_size = 2, .seq_len_tokens = 51, .max_grad_norm = 1, .gradient_checkpointing = _i % 2 ? TRI_TRUE : TRI_FALSE,
                               .stack = traced_new};
    d.recipe.stack.transformers = b->transformers;
    if (b->tuning == TUNING_LORA)
        d.recipe.lora = (struct lora){.rank = 8, .n_targets = 1, .targets = (const char *const *)names};
    ck_assert_msg(!train_resolve(&d.recipe, &d.arch, &traced_device, &a, &d.step, &err), "%s %s", err.at, err.detail);
    is_laid_out(&d, LOOKS, room, other);
    free(config);
    free(room);
    free(other);
}
END_TEST

static const struct looping {
    const char *id;
    enum method method;
    enum look look;
    uint32_t micro_batch_size, seq_len_tokens;
} looping[] = {
    {"state-spaces/mamba-790m-hf", METHOD_SINGLE, LOOK_REPLAY, 2, 51},  {"state-spaces/mamba-790m-hf", METHOD_SINGLE, LOOK_WALK, 1, 20},
    {"state-spaces/mamba-1.4b-hf", METHOD_DDP, LOOK_REPLAY, 1, 33},     {"state-spaces/mamba-1.4b-hf", METHOD_FSDP2, LOOK_REPLAY, 2, 40},
    {"Qwen/Qwen3.5-27B", METHOD_SINGLE, LOOK_REPLAY, 1, 300},           {"Qwen/Qwen3.5-27B", METHOD_SINGLE, LOOK_WALK, 1, 100},
    {"Qwen/Qwen3.5-35B-A3B", METHOD_SINGLE, LOOK_REPLAY, 2, 130},       {"Qwen/Qwen3.5-27B", METHOD_FSDP2, LOOK_REPLAY, 2, 64},
    {"Qwen/Qwen3-Next-80B-A3B-Instruct", METHOD_FSDP2, LOOK_WALK, 1, 64}, {"Qwen/Qwen3-Next-80B-A3B-Instruct", METHOD_FSDP2, LOOK_REPLAY, 1, 64},
    {"Qwen/Qwen3-Next-80B-A3B-Instruct", METHOD_SINGLE, LOOK_REPLAY, 1, 300}, {"Qwen/Qwen3-Next-80B-A3B-Instruct", METHOD_FSDP2, LOOK_REPLAY, 1, 700},
};

/* Layers that loop over a sequence: what the first of them saves lies otherwise among its like than what the others save. */
START_TEST(layers_that_loop_are_laid_out)
{
    const struct looping *b = &looping[_i / 2];
    void *config = malloc(MODEL_ROOM), *room = malloc(ROOM), *other = malloc(ROOM);
    struct device hopper = traced_device;
    struct draw d = {.look = b->look, .device = &hopper};
    struct arena a;
    struct err err;

    ck_assert(config && room && other);
    hopper.cc_major = 9;
    hopper.multiprocessors = 132;
    hopper.addresses_fall = true;
    arena_init(&a, config, MODEL_ROOM);
    take_model(&d, b->id, "{}", &a);
    d.recipe = (struct recipe){.method = b->method, .data_parallel = b->method == METHOD_SINGLE ? 0 : 8, .precision = PRECISION_BF16,
                               .micro_batch_size = b->micro_batch_size, .seq_len_tokens = b->seq_len_tokens, .max_grad_norm = 1,
                               .gradient_checkpointing = _i % 2 ? TRI_TRUE : TRI_FALSE, .stack = traced_new};
    ck_assert_msg(!train_resolve(&d.recipe, &d.arch, device_of(&d), &a, &d.step, &err), "%s %s", err.at, err.detail);
    ck_assert(train_turns(&d.arch, &d.step) > 0);
    is_laid_out(&d, 1, room, other);
    free(config);
    free(room);
    free(other);
}
END_TEST

/* What a step costs: laid out, and in full. */
static bool costs_alike(const struct draw *d, void *room, void *other)
{
    struct play_question q = {&d->arch, &d->step, &traced_device, LOOK_COSTS, false, false}, in_full = q;
    struct arena a, b;
    struct taped x, y;
    struct err err;

    in_full.in_full = true;
    arena_init(&a, room, ROOM);
    arena_init(&b, other, ROOM);
    if (train_play(&q, &a, &x, &err) || x.made != TAPE_LAID_OUT)
        return false;
    ck_assert(!train_play(&in_full, &b, &y, &err));
    same_costs(d, &x, &y);
    return true;
}

START_TEST(a_log_that_was_laid_out_is_that_of_a_walk)
{
    const char *seed = getenv("LLMEMD_LAWS_SEED"), *draws = getenv("LLMEMD_LAWS_DRAWS");
    void *config = malloc(2 * CONFIG_ROOM), *room = malloc(ROOM), *other = malloc(ROOM);
    int left = draws ? atoi(draws) : 2 * DRAWS, made[METHOD_COUNT] = {0}, tried[METHOD_COUNT] = {0}, all = 0, offloaded = 0;

    ck_assert(config && room && other);
    state = seed ? strtoull(seed, NULL, 10) : 20261124;
    while (left) {
        struct draw d = {0};

        if (!draw(&d, config) || !offload_some(&d, config))
            continue;
        offloaded += d.step.r.offload != OFFLOAD_NONE;
        tried[d.step.r.method]++;
        made[d.step.r.method] += costs_alike(&d, room, other);
        left--;
    }
    for (int i = 0; i < METHOD_COUNT; i++) {
        printf("%-16s drawn %d, laid out %d\n", method_rows[i].name, tried[i], made[i]);
        all += made[i];
    }
    printf("of those drawn %d offload\n", offloaded);
    ck_assert_int_ge(all, DRAWS / 4);
    free(config);
    free(room);
    free(other);
}
END_TEST

static void costs_are_foretold(const struct draw *d, void *room, void *other)
{
    struct play_question foretold = {&d->arch, &d->step, &traced_device, LOOK_FORETELL, true, true}, alone = {&d->arch, &d->step, &traced_device, LOOK_COSTS, false, true};
    struct arena a, b;
    struct taped x, y;
    struct err err;

    arena_init(&a, room, ROOM);
    arena_init(&b, other, ROOM);
    if (train_play(&foretold, &a, &x, &err))
        return;
    ck_assert(!train_play(&alone, &b, &y, &err));
    same_log(d, x.t->log, y.t->log, true);
    ck_assert(!memcmp(&x.t->whole, &y.t->whole, sizeof x.t->whole));
}

/* One run tells memory and time: of models of few layers, which are asked both. */
START_TEST(what_is_foretold_has_the_log_of_its_costs)
{
    void *config = malloc(2 * CONFIG_ROOM), *room = malloc(ROOM), *other = malloc(ROOM);
    const char *draws = getenv("LLMEMD_LAWS_DRAWS");
    int left = draws ? atoi(draws) : 2 * DRAWS;

    ck_assert(config && room && other);
    state = 20261125;
    while (left) {
        struct draw d = {0};

        if (!draw(&d, config) || !offload_some(&d, config))
            continue;
        d.arch.layers = 2 * fold_of(&d.arch).period;
        d.recipe.optimizer = d.step.r.optimizer = (enum optimizer)below(OPTIMIZER_COUNT);
        left--;
        if (timing_is_foretold(&d.step))
            costs_are_foretold(&d, room, other);
    }
    free(config);
    free(room);
    free(other);
}
END_TEST

/* Two depths at one size after the other, as a search asks. */
static int few_again(struct draw *d, void *room, void *other)
{
    uint32_t few = 2 * fold_of(&d->arch).period;
    bool logged = timing_is_foretold(&d->step) && chance(60);
    struct play_question q = {&d->arch, &d->step, &traced_device, chance(30) ? LOOK_COSTS : LOOK_FORETELL, logged, false}, in_full;
    struct arena aside, fresh;
    struct taped a, b;
    struct err err;
    int n = 0;

    arena_init(&aside, room, ROOM);
    train_runs_aside(&aside);
    for (int i = 0; i < 2 * LOOKS; i++) {
        unsigned char *mark = aside.cur;

        d->arch.layers = i % 2 ? 2 * few : few;
        if (i && i % 2 == 0)
            draw_size(&d->step.r, &d->arch);
        if (train_play(&q, &aside, &a, &err))
            break;
        if (a.made == TAPE_RESIZED) {
            in_full = q;
            in_full.in_full = true;
            arena_init(&fresh, other, ROOM);
            ck_assert(!train_play(&in_full, &fresh, &b, &err));
            same_tape(d, &a, &b);
            if (a.t->log)
                same_costs(d, &a, &b);
            n++;
        }
        arena_rewind(&aside, mark);
    }
    return n;
}

/* Of what foretells a deep model, too, the deeper of two is the one it was at another size, resized by the shallower. */
START_TEST(few_layers_at_another_size_are_those_of_a_run)
{
    void *config = malloc(2 * CONFIG_ROOM), *room = malloc(ROOM), *other = malloc(ROOM);
    const char *draws = getenv("LLMEMD_LAWS_DRAWS");
    int left = draws ? atoi(draws) : 2 * DRAWS, n = 0;

    ck_assert(config && room && other);
    state = 20261127;
    while (left) {
        struct draw d = {0};

        if (!draw(&d, config) || d.arch.fixed_depth || fold_of(&d.arch).period > 4)
            continue;
        n += few_again(&d, room, other);
        left--;
    }
    printf("runs of few layers that were resized: %d\n", n);
    ck_assert_int_ge(n, DRAWS / 2);
    free(config);
    free(room);
    free(other);
}
END_TEST

/* A stage of a pipeline, one of those that may be the highest. */
static bool draw_stage(struct draw *d, void *room)
{
    struct recipe *r = &d->recipe;
    struct arena a;
    struct err err;

    if (!draw_arch(d, room))
        return false;
    *r = (struct recipe){.method = METHOD_PP, .stack = traced_new, .data_parallel = 1, .max_grad_norm = 1, .micro_batch_size = 1 + below(4)};
    r->pipeline_parallel = 2 + below(d->arch.layers / 2 < 11 ? d->arch.layers / 2 - 1 : 10);
    r->gradient_accumulation_steps = r->pipeline_parallel + (chance(60) ? below(4) : below(40));
    r->rank = chance(30) ? r->pipeline_parallel - 1 : below(2);
    r->precision = (enum precision)below(PRECISION_COUNT);
    r->optimizer = (enum optimizer)below(OPTIMIZER_COUNT);
    r->gradient_checkpointing = chance(50) ? TRI_TRUE : TRI_FALSE;
    r->zero = (struct zero_recipe){ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, TRI_UNSET, TRI_UNSET, false, false, false, false, 0};
    r->seq_len_tokens = 64U << below(5);
    arena_init(&a, (char *)room + CONFIG_ROOM, CONFIG_ROOM);
    return d->arch.layers % r->pipeline_parallel == 0 && !train_resolve(r, &d->arch, &traced_device, &a, &d->step, &err);
}

static bool play_alone(const struct draw *d, enum look look, void *room, struct peak *ret)
{
    struct play_question q = {&d->arch, &d->step, &traced_device, look, false, true};
    struct arena arena;
    struct taped t;
    struct err err;

    arena_init(&arena, room, ROOM);
    if (train_play(&q, &arena, &t, &err))
        return false;
    peak_walk(&t.tape, ret);
    return true;
}

static void are_as_high(const struct draw *d, void *room)
{
    struct peak few, many;

    if (!play_alone(d, LOOK_REPLAY, room, &many))
        return;
    ck_assert(play_alone(d, LOOK_WALK, room, &few));
    for (int i = 0; i < PHASE_COUNT; i++)
        ck_assert_msg(few.phase_bytes[i] == many.phase_bytes[i], "%s: stage %u of %u: %s %" PRIu64 ", in full %" PRIu64, say(d), d->step.r.rank,
                      d->step.r.pipeline_parallel, phase_name((enum phase)i), few.phase_bytes[i], many.phase_bytes[i]);
    ck_assert(few.peak_bytes == many.peak_bytes && few.peak_phase == many.peak_phase);
    ck_assert(few.static_bytes == many.static_bytes && few.resting_bytes == many.resting_bytes);
}

/* Few rounds of a pipeline, one step that finds what a step leaves. */
START_TEST(what_is_walked_is_as_high_as_what_is_replayed)
{
    void *config = malloc(2 * CONFIG_ROOM), *room = malloc(ROOM);
    const char *draws = getenv("LLMEMD_LAWS_DRAWS");
    int left = draws ? atoi(draws) : DRAWS;

    ck_assert(config && room);
    state = 20261123;
    while (left) {
        struct draw d = {0};

        if (!(chance(30) ? draw_stage(&d, config) : draw(&d, config)) || (!trainer_skips_first(&d.arch, &d.step) && (d.step.r.method != METHOD_PP || d.step.r.use_cache == TRI_TRUE)))
            continue;
        are_as_high(&d, room);
        left--;
    }
    free(config);
    free(room);
}
END_TEST

UNIT_TESTS("train/play",
    unit_test(what_is_walked_is_as_high_as_what_is_replayed);
    unit_test(a_tape_that_was_made_is_that_of_a_walk);
    unit_rows(layers_of_two_kinds_are_laid_out, ((int[]){0, 1, 2, 3}));
    unit_rows(layers_behind_dense_ones_are_laid_out, ((char[2 * (sizeof behind / sizeof *behind)]){0}));
    unit_rows(layers_that_loop_are_laid_out, ((char[2 * (sizeof looping / sizeof *looping)]){0}));
    unit_test(a_log_that_was_laid_out_is_that_of_a_walk);
    unit_test(what_is_foretold_has_the_log_of_its_costs);
    unit_test(few_layers_at_another_size_are_those_of_a_run);
)
