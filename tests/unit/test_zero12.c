/* DeepSpeed's ZeRO-1 and 2 on one rank of a small Llama: figures that PyTorch's allocator gave under DeepSpeed itself, and laws of shares. */
#include "meters/peak.h"
#include "parallel/zero/inside12.h"
#include "tests/support/steps.h"
#include "tests/support/traced.h"
#include "train/measure.h"
#include "train/trainer.h"

enum { ROOM = 1 << 27 };

static unsigned char outer[ROOM], inner[ROOM];
static const struct small_llama *const shape = &small_llama;

/* The Trainer's loop, micro-batch 2 of 128 tokens; deepspeed 0.19.8 (new) and 0.14.2 on torch's null device. K: reduce_bucket_size, 0: left out. */
static const struct {
    const char *name;
    bool new_stack;
    enum method method;
    uint32_t ranks, rank, accumulation;
    uint64_t bucket;
    bool overlap, offload, fp16;
    uint64_t static_bytes, peak_bytes, resting_bytes;
} row[] = {
    {"stage 2, one bucket", true, METHOD_ZERO2, 4, 1, 1, 0, false, false, false, 32697856, 1083160576, 54504960},
    {"stage 2, a tensor larger than the bucket, overlapping", true, METHOD_ZERO2, 4, 3, 1, 1000000, true, false, false, 32697856, 94021120,
     54504960},
    {"stage 1, two micro-steps, many buckets", true, METHOD_ZERO1, 2, 0, 2, 4000000, false, false, false, 43596800, 148109824, 87207936},
    {"stage 2, offload, two micro-steps", true, METHOD_ZERO2, 8, 7, 2, 3000000, false, true, false, 23846912, 58781184, 23860736},
    {"0.14, fp16, many buckets", false, METHOD_ZERO2, 4, 2, 1, 3000000, false, false, true, 35844096, 106120704, 74690048},
    {"0.14, fp16, offload", false, METHOD_ZERO2, 4, 0, 1, 900000, false, true, true, 26993152, 71518208, 44039680},
    {"one rank copies nothing flat", true, METHOD_ZERO2, 1, 0, 1, 3000000, false, false, false, 65853440, 241601536, 153971712},
};

static struct recipe recipe_of(int i)
{
    struct recipe r = small_recipe();

    r.stack = row[i].new_stack ? traced_new : traced_old;
    r.method = row[i].method;
    r.seq_len_tokens = 128;
    r.precision = row[i].fp16 ? PRECISION_FP16_MIXED : PRECISION_BF16_MIXED;
    r.data_parallel = row[i].ranks;
    r.rank = row[i].rank;
    r.gradient_accumulation_steps = row[i].accumulation;
    r.offload = row[i].offload ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
    r.max_grad_norm = 1;
    r.padded = !row[i].new_stack;
    r.zero =
        (struct zero_recipe){row[i].bucket ? row[i].bucket : ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET, ELEMS_UNSET,
                             row[i].overlap ? TRI_TRUE : TRI_FALSE,       TRI_UNSET,   false,       false,       false,       false,       0};
    return r;
}

static struct arena new_arena(unsigned char *block)
{
    struct arena a;

    arena_init(&a, block, ROOM);
    return a;
}

static struct step resolved(const struct recipe *r, const struct arch *arch, struct arena *a)
{
    struct err err = {0};
    struct step step;

    ck_assert_msg(!train_resolve(r, arch, &step_device, a, &step, &err), "%s %s", err.at, err.detail);
    return step;
}

/* One rank, replayed on the model of the allocator. */
static struct peak played(const struct arch *arch, const struct step *step, struct arena *a)
{
    struct trainer *t = arena_new(a, struct trainer);
    struct torch_alloc *alloc = NULL;
    struct err err = {0};
    struct peak p;

    ck_assert_msg(!trainer_run(t, arch, step, &step_device, a, &err), "%s %s", err.at, err.detail);
    struct tape tape = {.births = t->run.births,
                        .events = t->run.events,
                        .n_births = t->run.n_births,
                        .n_events = t->run.n_events,
                        .steps_begin = t->steps_begin,
                        .peaks_begin = t->last_begins,
                        .head_module = t->model.tree.head->number};
    struct torch_alloc_options o = {.max_live = tape.n_births, .max_blocks = 3 * tape.n_births + 4096};

    ck_assert(!torch_alloc_new(a, &o, &alloc, &err));
    ck_assert(peak_replay(&tape, alloc, &p));
    return p;
}

START_TEST(allocates_as_deepspeed)
{
    struct arena a = new_arena(outer);
    struct arch arch = small_arch(shape, &a);
    struct recipe r = recipe_of(_i);
    struct step step = resolved(&r, &arch, &a);
    struct peak p = played(&arch, &step, &a);

    ck_assert_msg(p.static_bytes == row[_i].static_bytes && p.peak_bytes == row[_i].peak_bytes && p.resting_bytes == row[_i].resting_bytes,
                  "%s: static %llu, peak %llu, resting %llu", row[_i].name, (unsigned long long)p.static_bytes,
                  (unsigned long long)p.peak_bytes, (unsigned long long)p.resting_bytes);
}
END_TEST

/* ------------------------------------------------------------------------------------------------------------------ shares */
enum { MOST = 9 };

static void fill(struct zero12 *z, struct zero12_group *g, uint32_t n, struct zero12_param *params)
{
    *g = (struct zero12_group){.end = n};
    for (uint32_t i = 0; i < n; i++) {
        params[i] = (struct zero12_param){.elems = 1 + (i * 7919 + 13) % 1000, .offset = g->elems};
        g->elems += params[i].elems;
    }
    z->params = params;
}

START_TEST(shares_sum_to_the_whole)
{
    for (uint32_t ranks = 1; ranks <= 70; ranks++) {
        struct zero12_param params[MOST];
        struct zero12 z = {.ranks = ranks};
        struct zero12_group g;
        uint64_t held = 0;

        for (z.rank = 0; z.rank < ranks; z.rank++) {
            fill(&z, &g, MOST, params);
            zero12_share(&z, &g);
            ck_assert_uint_eq(g.share * ranks, g.flat_elems);
            ck_assert(g.flat_elems >= g.elems && g.flat_elems < g.elems + 2 * ranks);
            for (uint32_t i = 0; i < MOST; i++)
                held += params[i].mine ? params[i].end - params[i].begin : 0;
        }
        ck_assert_uint_eq(held, g.elems);
    }
}
END_TEST

/* Where gradients accumulate on the host a rank keeps whole parameters that its share touches: told for all at once, without going through them. */
START_TEST(the_host_bytes_of_all_are_the_sum)
{
    const struct quirks q = {.zero_updates_by_fp32 = true};
    struct run run = {.q = &q};
    const struct parallel_options o = {.optimizer = OPTIM_SGD};

    for (uint32_t ranks = 1; ranks <= 70; ranks++) {
        struct zero12_param params[MOST];
        struct zero12 z = {
            .ranks = ranks, .r = &run, .o = &o, .offload = true, .accumulated = true, .dtype = DTYPE_BF16, .n_groups = 1, .n = MOST};
        uint64_t sum = 0, touched = 0;

        fill(&z, &z.groups[0], MOST, params);
        for (uint32_t i = 0; i < MOST; i++) { /* large enough to count */
            params[i].elems *= 1000;
            params[i].offset *= 1000;
        }
        z.groups[0].elems *= 1000;
        for (z.rank = 0; z.rank < ranks; z.rank++) {
            zero12_share(&z, &z.groups[0]);
            sum += zero12_host_bytes(&z);
            for (uint32_t i = 0; i < MOST; i++)
                touched += params[i].mine && params[i].elems >= 32768 ? 2 * params[i].elems : 0;
        }
        z.rank = 0;
        ck_assert_uint_eq(zero12_host_bytes_of_all(&z), sum);
        z.accumulated = false;
        ck_assert_uint_eq(sum - zero12_host_bytes_of_all(&z), touched);
    }
}
END_TEST

/* The rank that keeps most of what its share touches, of those that the first bucket reaches: rank by rank. */
static uint32_t highest_by_going_through(const struct tree *t, uint32_t ranks, uint64_t reduce_elems)
{
    uint64_t offset[256], elems[256], total = 0, share, most = 0;
    uint32_t n = 0, found = 0;

    for (uint32_t i = 1; i < t->n_modules; i++)
        for (const struct param *p = t->modules[i]->params; p; p = p->next)
            if (!p->buffer && !p->tied) {
                ck_assert_uint_lt(n, 256);
                offset[n] = total;
                elems[n] = (uint64_t)param_numel(p);
                total += elems[n++];
            }
    share = total / ranks + 1;
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t block = 0;
        bool reached = total <= reduce_elems;

        for (uint32_t i = 0; i < n; i++)
            if (offset[i] < (r + (uint64_t)1) * share && offset[i] + elems[i] > r * share) {
                block += elems[i];
                reached |= offset[i] + elems[i] == total || total - offset[i] <= reduce_elems;
            }
        if (reached && block > most) {
            most = block;
            found = r;
        }
    }
    return found;
}

START_TEST(ranks_that_are_alike_are_looked_at_once)
{
    static const uint32_t many[] = {2, 3, 8, 64, 1000, 65536, 1000000};
    struct arena a = new_arena(outer);
    struct arch arch = small_arch(shape, &a);
    struct recipe r = recipe_of(0);
    struct step step = resolved(&r, &arch, &a);
    struct trainer *t = arena_new(&a, struct trainer);
    struct err err = {0};

    ck_assert(t && !trainer_declare(t, &arch, &step, &a, &err));
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        for (uint64_t reduce_elems = 1000; reduce_elems < 1000000000; reduce_elems *= 100) {
            struct parallel_options o = {.method = METHOD_ZERO2, .at = {.data_parallel = many[i]}, .zero = {.reduce_elems = reduce_elems}};
            uint32_t first;

            ck_assert_uint_eq(zero12_ranks(&o, &t->model.tree, 1, &first), 1);
            ck_assert_uint_eq(first, highest_by_going_through(&t->model.tree, many[i], reduce_elems));
        }
}
END_TEST

static struct measured measured(struct recipe r)
{
    struct arena a = new_arena(inner);
    struct arch arch = small_arch(shape, &a);
    struct step step = resolved(&r, &arch, &a);
    struct measured m;
    struct err err = {0};

    ck_assert_msg(!train_measure(&arch, &step, &step_device, false, NULL, &a, &m, &err), "%s %s", err.at, err.detail);
    return m;
}

/* Half weights stay, fp32 weights and states are shared: 2 P + 12 P/N. Each of the three blocks may keep up to 1 MiB that is not split off. */
START_TEST(states_fall_with_the_ranks)
{
    struct recipe r = recipe_of(0);
    struct measured one, many;

    r.data_parallel = 1;
    one = measured(r);
    for (uint32_t n = 2; n <= 64; n *= 4) {
        uint64_t saved, spared;

        r.data_parallel = n;
        many = measured(r);
        saved = one.resting_bytes - many.resting_bytes;
        spared = 12 * one.parameters - 12 * one.parameters / n;
        ck_assert_msg(saved <= spared + (3 << 20) && saved + (3 << 20) >= spared, "%u ranks: %llu, not %llu", n, (unsigned long long)saved,
                      (unsigned long long)spared);
    }
}
END_TEST

START_TEST(the_host_holds_what_offload_took)
{
    struct recipe r = recipe_of(0);
    struct measured m;

    r.offload = OFFLOAD_OPTIMIZER;
    m = measured(r);
    ck_assert_uint_eq(m.host_bytes_of_all, 4 * m.host_bytes);
    ck_assert(m.host_bytes > 18 * m.parameters / 4 - 18 * 4096 && m.host_bytes < 18 * m.parameters / 4 + 2 * 2000 * 512 + 4096);
    r.offload = OFFLOAD_NONE;
    ck_assert_uint_eq(measured(r).host_bytes_of_all, 0);
}
END_TEST

/* Every rank is looked at: the answer is that of the highest. */
START_TEST(the_worst_rank_is_told)
{
    struct recipe r = recipe_of(0);
    struct arena a = new_arena(outer);
    struct arch arch = small_arch(shape, &a);
    struct measured m;
    uint64_t highest = 0;

    r.zero.reduce_elems = 3000000;
    m = measured(r);
    for (r.rank = 0; r.rank < r.data_parallel; r.rank++) {
        unsigned char *mark = a.cur;
        struct step step = resolved(&r, &arch, &a);
        uint64_t peak = played(&arch, &step, &a).peak_bytes;

        highest = peak > highest ? peak : highest;
        ck_assert(r.rank != m.worst_rank || peak == m.peak_allocated_bytes);
        arena_rewind(&a, mark);
    }
    ck_assert_uint_eq(m.peak_allocated_bytes, highest);
}
END_TEST

UNIT_TESTS("parallel/zero12", unit_rows(allocates_as_deepspeed, row); unit_test(shares_sum_to_the_whole);
           unit_test(the_host_bytes_of_all_are_the_sum); unit_test(ranks_that_are_alike_are_looked_at_once);
           unit_test(states_fall_with_the_ranks); unit_test(the_host_holds_what_offload_took); unit_test(the_worst_rank_is_told);)
