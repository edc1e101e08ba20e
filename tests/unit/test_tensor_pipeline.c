/* Tensor and pipeline parallelism beside runs of PyTorch 2.15 and transformers 5.23, to the byte; what their cuts leave; what does not divide. */
#include "models/stage.h"
#include "parallel/gap.h"
#include "tests/support/steps.h"
#include "tests/support/traced.h"
#include "train/measure.h"

#include <inttypes.h>
#include <stdlib.h>

enum { ROOM = 128 << 20 };

static struct step step_of(const struct arch *arch, struct recipe r, struct arena *arena)
{
    struct step step = {0};
    struct err err = {0};

    r.seq_len_tokens = r.seq_len_tokens ? r.seq_len_tokens : 256;
    r.micro_batch_size = r.micro_batch_size ? r.micro_batch_size : 2;
    r.framework = FRAMEWORK_TORCH;
    r.stack = traced_new;
    r.max_grad_norm = 1;
    r.use_cache = TRI_FALSE;
    ck_assert_msg(!train_resolve(&r, arch, &traced_device, arena, &step, &err), "%s %s", err.at, err.detail);
    return step;
}

static enum err_code measured_as(const struct small_llama *s, bool tied, struct recipe r, struct measured *ret, struct err *err)
{
    struct arena arena;
    struct arch arch;
    struct step step;
    enum err_code rc;
    void *block = malloc(ROOM);

    ck_assert_ptr_nonnull(block);
    arena_init(&arena, block, ROOM);
    arch = small_arch_as(s, tied, &arena);
    step = step_of(&arch, r, &arena);
    rc = train_measure(&arch, &step, &traced_device, false, NULL, &arena, ret, err);
    free(block);
    return rc;
}

static enum err_code measured(const struct small_llama *s, struct recipe r, struct measured *ret, struct err *err)
{
    return measured_as(s, false, r, ret, err);
}

/* --- beside PyTorch: the small Llama of support/steps.h, 256 tokens, batches of 2; resting bytes are the stages' alone, since the traced loop over
 * DTensors keeps one batch in a variable --- */
static const struct {
    const char *name;
    struct recipe r;
    uint64_t peak_bytes, reserved_bytes, static_bytes;
    uint32_t worst_rank;
    bool tied_and_odd; /* 2,001 words, one table */
} traced[] = {
    {"two stages, seven micro-batches, checkpointed, mixed",
     {.method = METHOD_PP, .pipeline_parallel = 2, .gradient_accumulation_steps = 7, .precision = PRECISION_BF16_MIXED,
      .optimizer = OPTIMIZER_ADAMW_TORCH, .gradient_checkpointing = TRI_TRUE},
     156817408, 171966464, 27698176, 0, false},
    {"three stages, 24 micro-batches whose logits are kept",
     {.method = METHOD_PP, .pipeline_parallel = 3, .gradient_accumulation_steps = 24, .precision = PRECISION_FP32, .optimizer = OPTIMIZER_SGD,
      .keep_outputs = TRI_TRUE},
     254927872, 316669952, 15899648, 2, false},
    {"halves of a model, mixed",
     {.method = METHOD_TP, .tensor_parallel = 2, .precision = PRECISION_BF16_MIXED, .optimizer = OPTIMIZER_ADAMW_TORCH},
     125543424, 167772160, 21806080, 0, false},
    {"quarters, checkpointed, three micro-batches, fused",
     {.method = METHOD_TP, .tensor_parallel = 4, .gradient_accumulation_steps = 3, .precision = PRECISION_BF16,
      .optimizer = OPTIMIZER_ADAMW_TORCH_FUSED, .gradient_checkpointing = TRI_TRUE},
     42876928, 54525952, 5455872, 0, false},
    {"halves of a model with a tied head and a vocabulary that two do not divide",
     {.method = METHOD_TP, .tensor_parallel = 2, .gradient_accumulation_steps = 2, .precision = PRECISION_BF16_AUTOCAST,
      .optimizer = OPTIMIZER_ADAMW_TORCH, .keep_outputs = TRI_FALSE},
     77624320, 98566144, 9880576, 0, true},
    {"halves, fully sharded over four",
     {.method = METHOD_TP_FSDP2, .tensor_parallel = 2, .data_parallel = 4, .precision = PRECISION_BF16_MIXED, .optimizer = OPTIMIZER_ADAMW_TORCH},
     61576704, 125829120, 5452288, 0, false},
};

START_TEST(holds_what_pytorch_held)
{
    struct small_llama s = small_llama;
    struct measured m;
    struct err err = {0};

    s.vocab += traced[_i].tied_and_odd;
    ck_assert_msg(!measured_as(&s, traced[_i].tied_and_odd, traced[_i].r, &m, &err), "%s: %s %s", traced[_i].name, err.at, err.detail);
    ck_assert_msg(m.static_bytes == traced[_i].static_bytes, "%s: static %" PRIu64, traced[_i].name, m.static_bytes);
    ck_assert_msg(m.peak_allocated_bytes == traced[_i].peak_bytes, "%s: peak %" PRIu64, traced[_i].name, m.peak_allocated_bytes);
    ck_assert_msg(m.peak_reserved_bytes == traced[_i].reserved_bytes, "%s: reserved %" PRIu64, traced[_i].name, m.peak_reserved_bytes);
    ck_assert_msg(m.worst_rank == traced[_i].worst_rank, "%s: rank %u", traced[_i].name, m.worst_rank);
}
END_TEST

/* --- laws ------------------------------------------------------------------------------------------------------------------------ */
static struct recipe pure(enum method method)
{
    return (struct recipe){.method = method, .precision = PRECISION_FP32, .optimizer = OPTIMIZER_SGD, .gradient_accumulation_steps = 8};
}

/* What is cut falls as 1 / N: two norms a layer and the last one stay, with the rotary tables. */
START_TEST(parts_sum_to_the_whole)
{
    struct small_llama s = small_llama;
    uint64_t norms = (2 * s.layers + 1) * s.hidden * 4, tables = 1024, cut = 4 * (small_weights(&s) + (uint64_t)s.hidden * s.vocab);

    for (uint32_t n = 1; n <= 4; n *= 2) {
        struct recipe r = pure(METHOD_TP);
        struct measured m;
        struct err err = {0};

        r.tensor_parallel = n;
        ck_assert_msg(!measured(&s, r, &m, &err), "%s", err.detail);
        ck_assert_uint_eq(m.parameters * 4, cut / n + norms);
        ck_assert_uint_ge(m.static_bytes, cut / n + norms + tables);
    }
}
END_TEST

/* More micro-batches than wait at once add what stays of them, and nothing else: ids on the first stage, losses on the last. */
START_TEST(waiting_is_bounded_by_stages)
{
    struct measured few, many;
    struct recipe r = pure(METHOD_PP);
    struct err err = {0};

    r.pipeline_parallel = 3;
    r.precision = PRECISION_BF16_MIXED;
    ck_assert(!measured(&small_llama, r, &few, &err));
    r.gradient_accumulation_steps = 16;
    ck_assert(!measured(&small_llama, r, &many, &err));
    ck_assert_uint_ge(many.walk_peak_bytes, few.walk_peak_bytes);
    ck_assert_uint_le(many.walk_peak_bytes - few.walk_peak_bytes, 8 * (2 * 256 * 8 + 512 + 2 * 256 * 512 * 4));
}
END_TEST

/* Every layer is on one stage; the earlier ones are the longer ones. */
static const struct {
    uint32_t layers, stages, first[5];
} cuts[] = {{32, 5, {0, 7, 14, 20, 26}}, {4, 4, {0, 1, 2, 3}}, {7, 2, {0, 4}}, {3, 1, {0}}};

START_TEST(stages_share_the_layers)
{
    for (uint32_t i = 0; i < cuts[_i].stages; i++) {
        uint32_t first, end;

        stage_layers(cuts[_i].layers, i, cuts[_i].stages, &first, &end);
        ck_assert_uint_eq(first, cuts[_i].first[i]);
        ck_assert_uint_eq(end, i + 1 < cuts[_i].stages ? cuts[_i].first[i + 1] : cuts[_i].layers);
    }
}
END_TEST

/* --- refusals -------------------------------------------------------------------------------------------------------------------- */
static const struct {
    struct parallel_shape s;
    const char *says; /* NULL: it can be laid out */
} gaps[] = {
    {{8, 4, 2, 32, 8, 32}, NULL},
    {{8, 0, 0, 15, 5, 32}, NULL},
    {{6, 4, 1, 32, 8, 32}, "6 GPUs are no whole number of groups of 4 x 1"},
    {{6, 6, 1, 32, 8, 32}, "32 attention heads cannot be shared by 6 GPUs"},
    {{8, 8, 1, 32, 4, 32}, "4 key-value heads cannot be shared by 8 GPUs"},
    {{64, 1, 64, 32, 8, 32}, "64 stages cannot share 32 layers"},
};

START_TEST(says_what_does_not_divide)
{
    struct err err = {0};
    enum err_code rc = parallel_gap(&gaps[_i].s, &err);

    ck_assert_int_eq(rc, gaps[_i].says ? ERR_FIELD_CONFLICT : ERR_OK);
    if (gaps[_i].says)
        ck_assert_msg(strstr(err.detail, gaps[_i].says) != NULL, "%s", err.detail);
}
END_TEST

START_TEST(refuses_what_it_does_not_play)
{
    struct recipe packed = pure(METHOD_PP), short_step = pure(METHOD_PP);
    struct measured m;
    struct err err = {0};

    packed.pipeline_parallel = 2;
    packed.tuning = TUNING_QLORA;
    packed.quantization = KBIT_NF4;
    ck_assert_int_eq(measured(&small_llama, packed, &m, &err), ERR_FIELD_CONFLICT);
    ck_assert_str_eq(err.at, "/training/quantization");
    short_step.pipeline_parallel = 3;
    short_step.gradient_accumulation_steps = 2;
    ck_assert_int_eq(measured(&small_llama, short_step, &m, &err), ERR_FIELD_CONFLICT);
    ck_assert_str_eq(err.at, "/training/gradient_accumulation_steps");
}
END_TEST

UNIT_TESTS("parallel/tp, parallel/pp",
    unit_rows(holds_what_pytorch_held, traced);
    unit_test(parts_sum_to_the_whole);
    unit_test(waiting_is_bounded_by_stages);
    unit_rows(stages_share_the_layers, cuts);
    unit_rows(says_what_does_not_divide, gaps);
    unit_test(refuses_what_it_does_not_play);
)
