/* FullyShardedDataParallel: whole runs to the byte as traced, and laws that hold for any. */
#include "tests/support/programs.h"
#include "base/json.h"
#include "config/arch.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/measure.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM = 96 << 20 };

static const char llama[] =
    "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":256,\"intermediate_size\":640,\"num_hidden_layers\":3,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":4000,\"max_position_embeddings\":512,\"tie_word_embeddings\":false,"
    "\"hidden_act\":\"silu\",\"rms_norm_eps\":1e-5,\"torch_dtype\":\"bfloat16\"}";
static const char gpt2[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"n_embd\":192,\"n_layer\":3,\"n_head\":3,\"n_positions\":512,"
    "\"vocab_size\":5003,\"activation_function\":\"gelu_new\",\"resid_pdrop\":0.1,\"embd_pdrop\":0.1,\"attn_pdrop\":0.1,"
    "\"layer_norm_epsilon\":1e-5}";

enum {
    TRAINER = 1,
    CHECKPOINTS = 2,
    LORA = 4, /* rank 8 on q_proj and v_proj, fp32 */
    FLAT = 8, /* use_orig_params=False */
    FORWARD_PREFETCH = 16,
    SYNCS = 32, /* each micro-batch */
    REDUCES_BF16 = 64,
    PURE_BF16 = 128,
    UNLIMITED = 256,
    OLD = 512, /* the older stack, whose batches have a mask */
};

/* 2 x 256 tokens. Figures: torch 2.15.0 with transformers 5.23.0, peft 0.21.2, or 2.2.2 with 4.40.0, 0.10.0: allocated after loading, at the
 * peak of the second step, reserved, between steps. */
struct case_row {
    const char *config;
    enum method method;
    uint32_t ranks, group, accumulation;
    unsigned options;
    enum fsdp_prefetch prefetch;
    uint64_t loaded, peak, reserved, resting;
};

static const struct case_row rows[] = {
    {llama, METHOD_FSDP, 4, 0, 1, CHECKPOINTS, FSDP_PREFETCH_PRE, 4115456, 48898048, 104857600, 16948736},
    {llama, METHOD_FSDP, 3, 0, 1, FLAT, FSDP_PREFETCH_POST, 5487616, 66914304, 163577856, 16461312},
    {llama, METHOD_FSDP, 8, 0, 3, TRAINER | FORWARD_PREFETCH, FSDP_PREFETCH_PRE, 2059264, 62657536, 119537664, 8273408},
    {llama, METHOD_FSDP, 2, 0, 2, TRAINER | SYNCS | REDUCES_BF16, FSDP_PREFETCH_PRE, 8229376, 81155584, 161480704, 32941568},
    {llama, METHOD_FSDP_GRAD_OP, 4, 0, 2, TRAINER, FSDP_PREFETCH_PRE, 4115456, 71566336, 119537664, 16975360},
    {llama, METHOD_FSDP_NO_SHARD, 4, 0, 1, 0, FSDP_PREFETCH_PRE, 16457728, 101621760, 186646528, 66248192},
    {llama, METHOD_FSDP, 4, 0, 1, TRAINER | LORA | CHECKPOINTS, FSDP_PREFETCH_PRE, 2080768, 34062336, 81788928, 2160128},
    {llama, METHOD_FSDP, 4, 0, 1, PURE_BF16 | UNLIMITED, FSDP_PREFETCH_NONE, 2059264, 57120768, 94371840, 8234496},
    {llama, METHOD_FSDP, 2, 0, 1, OLD, FSDP_PREFETCH_PRE, 9016320, 99290624, 180355072, 50347520},
    {llama, METHOD_FSDP, 4, 0, 1, OLD | TRAINER | LORA | CHECKPOINTS | FLAT, FSDP_PREFETCH_PRE, 2474496, 50187776, 104857600, 19570688},
    {gpt2, METHOD_HSDP, 8, 4, 1, TRAINER, FSDP_PREFETCH_PRE, 2394112, 67545088, 132120576, 9594368},
    {gpt2, METHOD_FSDP, 5, 0, 1, CHECKPOINTS, FSDP_PREFETCH_PRE, 1916928, 46403072, 106954752, 7671296},
};

static enum tri tri(unsigned options, unsigned bit)
{
    return options & bit ? TRI_TRUE : TRI_FALSE;
}

static struct recipe recipe_of(const struct case_row *c)
{
    static const char *const targets[] = {"q_proj", "v_proj"};
    unsigned o = c->options;
    struct recipe r = {
        .seq_len_tokens = 256,
        .micro_batch_size = 2,
        .gradient_accumulation_steps = c->accumulation,
        .precision = o & PURE_BF16 ? PRECISION_BF16
                     : o & LORA    ? PRECISION_BF16_AUTOCAST
                                   : PRECISION_BF16_MIXED,
        .optimizer = OPTIMIZER_ADAMW_TORCH,
        .max_grad_norm = 1,
        .gradient_checkpointing = tri(o, CHECKPOINTS),
        .use_cache = TRI_FALSE,
        .keep_outputs = tri(~o, TRAINER),
        .attention = ATTENTION_SDPA,
        .padded = o & OLD,
        .framework = o & TRAINER ? FRAMEWORK_TRANSFORMERS : FRAMEWORK_TORCH,
        .method = c->method,
        .data_parallel = c->ranks,
        .shard_group = c->group,
        .sync_each_batch = tri(o, SYNCS),
        .fsdp = {.backward_prefetch = c->prefetch,
                 .forward_prefetch = tri(o, FORWARD_PREFETCH),
                 .use_orig_params = tri(~o, FLAT),
                 .limit_all_gathers = tri(~o, UNLIMITED),
                 .reduce_dtype = o & REDUCES_BF16 ? REDUCE_BF16 : REDUCE_FP32},
        .zero = {.reduce_elems = ELEMS_UNSET,
                 .allgather_elems = ELEMS_UNSET,
                 .prefetch_elems = ELEMS_UNSET,
                 .max_live_elems = ELEMS_UNSET,
                 .sub_group_elems = ELEMS_UNSET,
                 .persistence_elems = ELEMS_UNSET},
        .stack = o & OLD ? traced_old : traced_new,
    };

    if (o & LORA) {
        r.tuning = TUNING_LORA;
        r.lora = (struct lora){.rank = 8, .dtype = LORA_DTYPE_FP32, .n_targets = 2, .targets = targets};
    }
    return r;
}

static struct measured run(const struct case_row *c)
{
    void *room = malloc(ROOM);
    struct arena arena;
    struct json *config = NULL;
    struct arch arch;
    struct step step = {0};
    struct recipe recipe = recipe_of(c);
    struct measured m = {0};
    struct err err = {0};

    arena_init(&arena, room, ROOM);
    ck_assert_int_eq(json_parse(c->config, strlen(c->config), &json_limits_config, &config, &err), ERR_OK);
    ck_assert_msg(!arch_read(config, &arena, &arch, &err), "%s %s", err.at, err.detail);
    ck_assert_msg(!train_resolve(&recipe, &arch, &traced_device, &arena, &step, &err), "%s %s", err.at, err.detail);
    ck_assert_msg(!train_measure(&arch, &step, &traced_device, false, NULL, &arena, &m, &err), "%s %s", err.at, err.detail);
    json_free(config);
    free(room);
    return m;
}

START_TEST(runs_as_traced)
{
    const struct case_row *c = &rows[_i];
    struct measured m = run(c);

    ck_assert_uint_eq(m.static_bytes, c->loaded);
    ck_assert_uint_eq(m.peak_allocated_bytes, c->peak);
    ck_assert_uint_eq(m.peak_reserved_bytes, c->reserved);
    ck_assert_uint_eq(m.resting_bytes, c->resting);
}
END_TEST

/* What is at rest is sharded: weights, two states and the flat gradient, 16 bytes a parameter over the ranks. */
START_TEST(rests_in_equal_shares)
{
    for (uint32_t ranks = 2; ranks <= 16; ranks *= 2) {
        struct case_row c = {.config = llama, .method = METHOD_FSDP, .ranks = ranks, .accumulation = 1, .prefetch = FSDP_PREFETCH_PRE};
        struct measured m = run(&c);
        uint64_t share = 16 * m.parameters / ranks;

        ck_assert_uint_ge(m.resting_bytes, share);
        ck_assert_uint_le(m.resting_bytes, share + share / 10 + 65536);
    }
}
END_TEST

/* _init_core_state: a group of one is NO_SHARD, whatever was asked. */
START_TEST(one_rank_shards_nothing)
{
    struct case_row c = {.config = llama, .method = METHOD_FSDP, .ranks = 1, .accumulation = 1, .prefetch = FSDP_PREFETCH_PRE};
    struct measured sharded = run(&c), whole;

    c.method = METHOD_FSDP_NO_SHARD;
    whole = run(&c);
    ck_assert_uint_eq(sharded.peak_allocated_bytes, whole.peak_allocated_bytes);
    ck_assert_uint_eq(sharded.resting_bytes, whole.resting_bytes);
}
END_TEST

/* A group that is all ranks is FULL_SHARD; one of half of them holds twice as much at rest. */
START_TEST(hybrid_groups_hold_copies)
{
    struct case_row c = {.config = llama, .method = METHOD_FSDP, .ranks = 8, .accumulation = 1, .prefetch = FSDP_PREFETCH_PRE};
    struct measured full = run(&c), all, half;

    c.method = METHOD_HSDP;
    c.group = 8;
    all = run(&c);
    c.group = 4;
    half = run(&c);
    ck_assert_uint_eq(all.resting_bytes, full.resting_bytes);
    ck_assert_uint_ge(half.resting_bytes, 19 * full.resting_bytes / 10);
    ck_assert_uint_le(half.resting_bytes, 21 * full.resting_bytes / 10);
}
END_TEST

/* SHARD_GRAD_OP keeps every gathered layer until its backward. */
START_TEST(layers_stay_gathered_without_resharding)
{
    struct case_row c = {.config = llama, .method = METHOD_FSDP, .ranks = 8, .accumulation = 1, .prefetch = FSDP_PREFETCH_PRE};
    struct measured full = run(&c), kept;

    c.method = METHOD_FSDP_GRAD_OP;
    kept = run(&c);
    ck_assert_uint_gt(kept.phase_peaks_bytes[PHASE_FORWARD], full.phase_peaks_bytes[PHASE_FORWARD]);
    ck_assert_uint_eq(kept.resting_bytes, full.resting_bytes);
}
END_TEST

UNIT_TESTS("parallel/fsdp1", unit_rows(runs_as_traced, rows); unit_test(rests_in_equal_shares); unit_test(one_rank_shards_nothing);
           unit_test(hybrid_groups_hold_copies); unit_test(layers_stay_gathered_without_resharding);)
