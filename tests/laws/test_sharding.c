/*
 * Laws between the distributed methods, over the carried configs cut to a few layers: what is sharded falls with the ranks, what a larger bucket or a
 * weaker stage holds is never less. Those of one method alone stand in its unit test.
 */
#include "tests/support/programs.h"
#include "base/json.h"
#include "config/arch.h"
#include "parallel/method.h"
#include "tests/support/carried.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/inventory.h"
#include "train/measure.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROOM = 192 << 20, CONFIG_ROOM = 1 << 20, LAYERS = 3, EVERY = 7 }; /* every 7th config: a dozen families in a second */

static void *block, *config_block;

static struct recipe recipe_of(enum method m, uint32_t ranks)
{
    return (struct recipe){
        .seq_len_tokens = 96,
        .micro_batch_size = 1,
        .gradient_accumulation_steps = 1,
        .precision = PRECISION_BF16_MIXED,
        .optimizer = OPTIMIZER_ADAMW_TORCH_FUSED,
        .max_grad_norm = 1,
        .gradient_checkpointing = TRI_FALSE,
        .use_cache = TRI_FALSE,
        .framework = FRAMEWORK_TRANSFORMERS,
        .method = m,
        .data_parallel = ranks,
        .zero = {1000000, 5000000, 500000, 10000000, 4000000, 1000, TRI_UNSET, TRI_UNSET},
        .stack = traced_new,
    };
}

static bool arch_at(size_t i, struct arch *ret)
{
    const struct builtin *model = carried_at((uint32_t)i);
    struct json *config = NULL;
    struct arena a;
    struct err err;
    bool known;

    arena_init(&a, config_block, CONFIG_ROOM);
    known = !json_parse(carried_text(model), model->bytes, &json_limits_config, &config, &err) && !arch_read(config, &a, ret, &err);
    json_free(config);
    ret->layers = known && ret->layers > LAYERS ? LAYERS : ret->layers;
    return known;
}

/* False: a method, a model or an option that is refused. */
static bool walks(const struct arch *arch, const struct recipe *r, struct measured *ret)
{
    struct arena a;
    struct step step;
    struct err err;

    arena_init(&a, block, ROOM);
    return !train_resolve(r, arch, &traced_device, &a, &step, &err) && !train_walk(arch, &step, &traced_device, &a, ret, &err);
}

static void never_less(const char *what, size_t model, enum method m, uint64_t less, uint64_t more)
{
    ck_assert_msg(less <= more, "%s, %s, %s: %" PRIu64 ", %" PRIu64, what, carried_at((uint32_t)model)->id, method_rows[m].name, less,
                  more);
}

static void begin(void)
{
    block = malloc(ROOM);
    config_block = malloc(CONFIG_ROOM);
    ck_assert(block && config_block);
}

static void end(unsigned kept)
{
    free(block);
    free(config_block);
    ck_assert_uint_ge(kept, 8);
}

static const enum method sharded[] = {METHOD_ZERO1,        METHOD_ZERO2, METHOD_ZERO3,          METHOD_FSDP,
                                      METHOD_FSDP_GRAD_OP, METHOD_FSDP2, METHOD_FSDP2_NORESHARD};

/* Blocks of a shard are rounded, each tensor by itself. */
static uint64_t rounding(const struct measured *m)
{
    return 6 * 512 * (uint64_t)m->tensors;
}

START_TEST(more_ranks_never_hold_more)
{
    enum method m = sharded[_i];
    unsigned kept = 0;

    begin();
    for (size_t i = 0; i < carried_count(); i += EVERY) {
        struct arch arch;
        struct measured few, many;
        struct recipe two = recipe_of(m, 2), eight = recipe_of(m, 8);

        if (!arch_at(i, &arch) || !walks(&arch, &two, &few))
            continue;
        ck_assert(walks(&arch, &eight, &many));
        never_less("static", i, m, many.static_bytes, few.static_bytes + rounding(&few));
        never_less("resting", i, m, many.resting_bytes, few.resting_bytes + rounding(&few));
        kept++;
    }
    end(kept);
}
END_TEST

struct padded {
    uint64_t ranks, shares;
};

static void add_share(void *context, struct module *m, struct param *p)
{
    struct padded *s = context;
    (void)m;
    if (p->tied)
        return;
    s->shares += ((uint64_t)param_numel(p) + s->ranks - 1) / s->ranks;
}

/* Elements of one rank of N when each tensor is padded to N equal parts. */
static uint64_t shares_of(const struct arch *arch, const struct recipe *r)
{
    struct padded s = {.ranks = r->data_parallel};
    struct trainer *t;
    struct arena a;
    struct step step;
    struct err err;

    arena_init(&a, block, ROOM);
    t = arena_new(&a, struct trainer);
    ck_assert(t && !train_resolve(r, arch, &traced_device, &a, &step, &err) && !trainer_declare(t, arch, &step, &a, &err));
    params_visit(t->model.tree.root, add_share, &s);
    return s.shares;
}

/* 2 of weights, 2 of gradients, 12 of master and states: of each element of a share, once all tensors are above the persistence threshold. */
START_TEST(states_of_zero3_fall_with_the_ranks)
{
    unsigned kept = 0;

    begin();
    for (size_t i = 0; i < carried_count(); i += EVERY) {
        struct arch arch;
        struct measured few, many;
        struct recipe two = recipe_of(METHOD_ZERO3, 2), sixteen = recipe_of(METHOD_ZERO3, 16);
        uint64_t fall, expected, off;

        two.zero.persistence_elems = sixteen.zero.persistence_elems = 0;
        if (!arch_at(i, &arch) || !walks(&arch, &two, &few))
            continue;
        ck_assert(walks(&arch, &sixteen, &many));
        fall = few.resting_bytes - many.resting_bytes;
        expected = 16 * (shares_of(&arch, &two) - shares_of(&arch, &sixteen));
        off = fall > expected ? fall - expected : expected - fall;
        ck_assert_msg(off <= rounding(&few), "%s: falls by %" PRIu64 ", 16 bytes a share are %" PRIu64, carried_at((uint32_t)i)->id, fall,
                      expected);
        kept++;
    }
    end(kept);
}
END_TEST

/* Each stage shards what the one before replicates; its bucket, which stage 3 keeps, is no state. */
START_TEST(a_higher_stage_never_holds_more)
{
    unsigned kept = 0;

    begin();
    for (size_t i = 0; i < carried_count(); i += EVERY) {
        struct arch arch;
        struct measured none, one, two, three, ddp;
        struct recipe stage2 = recipe_of(METHOD_ZERO2, 8), stage3 = recipe_of(METHOD_ZERO3, 8), whole = recipe_of(METHOD_DDP, 8);
        struct recipe stage0 = recipe_of(METHOD_ZERO0, 8), stage1 = recipe_of(METHOD_ZERO1, 8);

        if (!arch_at(i, &arch) || !walks(&arch, &stage2, &two) || !walks(&arch, &stage3, &three) || !walks(&arch, &whole, &ddp) ||
            !walks(&arch, &stage0, &none) || !walks(&arch, &stage1, &one))
            continue;
        never_less("zero3", i, METHOD_ZERO2, three.resting_bytes, two.resting_bytes + 2 * stage3.zero.reduce_elems + rounding(&two));
        never_less("zero2", i, METHOD_ZERO1, two.resting_bytes, one.resting_bytes + rounding(&two));
        never_less("zero1", i, METHOD_ZERO0, one.resting_bytes, none.resting_bytes + rounding(&two));
        never_less("zero2", i, METHOD_DDP, two.resting_bytes, ddp.resting_bytes + rounding(&two));
        kept++;
    }
    end(kept);
}
END_TEST

static uint64_t largest_tensor(const struct arch *a)
{
    uint64_t rows = a->vocab > 4 * (uint64_t)a->ffn ? a->vocab : 4 * (uint64_t)a->ffn, wide = 4 * (uint64_t)a->hidden;

    return rows * a->hidden > wide * a->hidden ? rows * a->hidden : wide * a->hidden;
}

/* From buckets on that hold any tensor: a larger tensor is reduced beside its bucket. */
static const enum method bucketed[] = {METHOD_ZERO1, METHOD_ZERO2, METHOD_ZERO3};

START_TEST(a_larger_bucket_never_needs_less)
{
    enum method m = bucketed[_i];
    unsigned kept = 0;

    begin();
    for (size_t i = 0; i < carried_count(); i += EVERY) {
        struct arch arch;
        struct measured small, large;
        struct recipe narrow = recipe_of(m, 8), wide = recipe_of(m, 8);

        if (!arch_at(i, &arch))
            continue;
        narrow.zero.reduce_elems = largest_tensor(&arch);
        wide.zero.reduce_elems = 3 * narrow.zero.reduce_elems;
        if (!walks(&arch, &narrow, &small))
            continue;
        ck_assert(walks(&arch, &wide, &large));
        never_less("peak", i, m, small.walk_peak_bytes, large.walk_peak_bytes + rounding(&small));
        kept++;
    }
    end(kept);
}
END_TEST

/* Nothing is cut in one part: what stands on the device is one GPU's model. */
static const enum method alone[] = {METHOD_FSDP2, METHOD_FSDP, METHOD_FSDP_NO_SHARD, METHOD_HSDP2};

START_TEST(one_rank_holds_what_one_gpu_does)
{
    enum method m = alone[_i];
    unsigned kept = 0;

    begin();
    for (size_t i = 0; i < carried_count(); i += EVERY) {
        struct arch arch;
        struct measured one, single;
        struct recipe r = recipe_of(m, 1), s = recipe_of(METHOD_SINGLE, 1);

        if (!arch_at(i, &arch) || !walks(&arch, &r, &one) || !walks(&arch, &s, &single))
            continue;
        never_less("static", i, m, one.static_bytes, single.static_bytes + rounding(&single));
        never_less("single's static", i, m, single.static_bytes, one.static_bytes + rounding(&single));
        kept++;
    }
    end(kept);
}
END_TEST

/* What a rank of tensor parallelism holds is what fully_shard shards across the groups: tied heads too. */
START_TEST(shards_of_both_are_shards_of_shards)
{
    unsigned kept = 0;

    begin();
    for (size_t i = 0; i < carried_count(); i++) {
        struct arch arch;
        struct measured part, both;
        struct recipe tp = recipe_of(METHOD_TP, 1), across = recipe_of(METHOD_TP_FSDP2, 4);

        tp.tensor_parallel = across.tensor_parallel = 2;
        tp.framework = across.framework = FRAMEWORK_TORCH;
        if (!arch_at(i, &arch) || arch.heads % 2 || arch.kv_heads % 2 || !walks(&arch, &tp, &part) || !walks(&arch, &across, &both))
            continue;
        never_less("static", i, METHOD_TP_FSDP2, both.static_bytes, part.static_bytes / 4 + rounding(&part));
        kept++;
    }
    end(kept);
}
END_TEST

UNIT_TESTS("laws of sharding", unit_test(shards_of_both_are_shards_of_shards); unit_rows(more_ranks_never_hold_more, sharded);
           unit_test(states_of_zero3_fall_with_the_ranks); unit_test(a_higher_stage_never_holds_more);
           unit_rows(a_larger_bucket_never_needs_less, bucketed); unit_rows(one_rank_holds_what_one_gpu_does, alone);)
