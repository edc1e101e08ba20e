/* What a step computes, moves, launches and sends: against formulas, and against what must not change. */
#include "tests/support/steps.h"
#include "torch/autograd.h"
#include "train/trainer.h"

#include <stdlib.h>

enum { ROOM = 256 << 20, KERNELS = 64 };

static void *block;
static struct arena arena;

static void setup(void)
{
    block = block ? block : malloc(ROOM);
    arena_init(&arena, block, ROOM);
}

/* --- one operator -------------------------------------------------------------------------------------------------------------- */

static void operator_log(struct run *r)
{
    static struct quirks quirks;
    static struct work log;
    struct err err = {0};
    struct run_limits limits = {.values = 512, .storages = 256, .nodes = 512, .births = 1024};

    setup();
    ck_assert(!run_init(r, &arena, &quirks, step_device, limits, &err));
    ck_assert(work_init(&log, &arena, (struct work_limits){KERNELS, 4, 0}));
    r->work = &log;
}

static val tensor(struct run *r, enum dtype dtype, int n, const int64_t *size)
{
    val v = local(r, empty(r, dtype, n, size));

    require_grad(r, v);
    return v;
}

static void do_add(struct run *r) { (void)local(r, add(r, tensor(r, DTYPE_BF16, SHAPE(4, 8)), tensor(r, DTYPE_BF16, SHAPE(4, 8)))); }
static void do_broadcast(struct run *r) { (void)local(r, mul(r, tensor(r, DTYPE_FP32, SHAPE(4, 8)), tensor(r, DTYPE_FP32, SHAPE(8)))); }
static void do_expanded(struct run *r)
{
    val narrow = local(r, expand(r, tensor(r, DTYPE_FP32, SHAPE(1, 8)), SHAPE(4, 8)));

    (void)local(r, mul(r, tensor(r, DTYPE_FP32, SHAPE(4, 8)), narrow));
}
static void do_cast(struct run *r) { (void)local(r, to_dtype(r, tensor(r, DTYPE_BF16, SHAPE(16)), DTYPE_FP32)); }
static void do_views(struct run *r)
{
    val x = tensor(r, DTYPE_BF16, SHAPE(4, 8));

    (void)local(r, transpose(r, local(r, view(r, x, SHAPE(8, 4))), 0, 1));
}
static void do_sum(struct run *r) { (void)local(r, sum_all(r, tensor(r, DTYPE_FP32, SHAPE(4, 8)))); }
static void do_mm(struct run *r) { (void)local(r, matmul(r, tensor(r, DTYPE_BF16, SHAPE(3, 5)), tensor(r, DTYPE_BF16, SHAPE(5, 7)))); }
static void do_bmm(struct run *r) { (void)local(r, bmm(r, tensor(r, DTYPE_BF16, SHAPE(2, 3, 5)), tensor(r, DTYPE_BF16, SHAPE(2, 5, 7)))); }
static void do_dropout(struct run *r) { (void)local(r, dropout(r, tensor(r, DTYPE_BF16, SHAPE(4, 8)), 0.1)); }
static void do_flash(struct run *r)
{
    val q = tensor(r, DTYPE_BF16, SHAPE(2, 4, 16, 32)), k = tensor(r, DTYPE_BF16, SHAPE(2, 2, 16, 32)), v = tensor(r, DTYPE_BF16, SHAPE(2, 2, 16, 32));

    (void)local(r, scaled_dot_product_attention(r, q, k, v, 0, 0, true, true));
}
static void do_embedding(struct run *r)
{
    val ids = local(r, empty(r, DTYPE_INT64, SHAPE(6)));

    (void)local(r, embedding_op(r, tensor(r, DTYPE_BF16, SHAPE(1000, 8)), ids, false));
}

static const struct {
    const char *name;
    void (*run)(struct run *r);
    uint32_t kernels;
    uint64_t flops, bytes;
} operators[] = {
    {"add reads two, writes one", do_add, 1, 32, 3 * 32 * 2},
    {"a broadcast argument is read once", do_broadcast, 1, 32, (32 + 8 + 32) * 4},
    {"so is an expanded one", do_expanded, 1, 32, (32 + 8 + 32) * 4},
    {"a cast moves and computes nothing", do_cast, 1, 0, 16 * 2 + 16 * 4},
    {"views launch nothing", do_views, 0, 0, 0},
    {"a sum adds what it reads", do_sum, 1, 32, 33 * 4},
    {"a product", do_mm, 1, 2 * 3 * 5 * 7, (3 * 5 + 5 * 7 + 3 * 7) * 2},
    {"a batch of them", do_bmm, 1, 2 * 2 * 3 * 5 * 7, 2 * (3 * 5 + 5 * 7 + 3 * 7) * 2},
    {"dropout writes a mask", do_dropout, 1, 32, 32 * 2 * 2 + 32},
    {"causal attention is a triangle", do_flash, 1, 4 * 2 * 4 * 16 * 17 / 2 * 32, (2 * 2 * 4 * 16 * 32 + 2 * 2 * 2 * 16 * 32) * 2},
    {"a lookup reads rows, not the table", do_embedding, 1, 0, 2 * 6 * 8 * 2 + 6 * 8},
};

START_TEST(an_operator_is_counted)
{
    struct run r;

    operator_log(&r);
    operators[_i].run(&r);
    ck_assert_int_eq(r.error.code, ERR_OK);
    ck_assert_msg(r.work->n_kernels == operators[_i].kernels, "%s: %u kernels", operators[_i].name, r.work->n_kernels);
    if (!r.work->n_kernels)
        return;
    ck_assert_msg(r.work->kernels[0].flops == operators[_i].flops, "%s: %lu flops", operators[_i].name, (unsigned long)r.work->kernels[0].flops);
    ck_assert_msg(r.work->kernels[0].bytes == operators[_i].bytes, "%s: %lu bytes", operators[_i].name, (unsigned long)r.work->kernels[0].bytes);
}
END_TEST

START_TEST(a_full_log_is_an_error)
{
    struct run r;

    operator_log(&r);
    for (int i = 0; i <= KERNELS; i++)
        do_mm(&r);
    ck_assert_int_eq(r.error.code, ERR_NOMEM);
    ck_assert_uint_eq(r.work->n_kernels, KERNELS);
}
END_TEST

/* --- a step -------------------------------------------------------------------------------------------------------------------- */

/* Scores and values of a causal forward pass, every layer. */
static uint64_t attention_flops(const struct small_llama *s, const struct recipe *r)
{
    return 4 * (uint64_t)s->layers * r->micro_batch_size * s->hidden * r->seq_len_tokens * (r->seq_len_tokens + 1) / 2;
}

START_TEST(forward_is_two_and_backward_four_a_weight)
{
    struct recipe r = small_recipe();
    uint64_t tokens = r.seq_len_tokens * r.micro_batch_size, products = 2 * small_weights(&small_llama) * tokens;
    uint64_t attention = attention_flops(&small_llama, &r);
    struct cost c;

    setup();
    c = cost_of(&small_llama, &r, &arena);
    ck_assert_uint_eq(c.sum[COST_FORWARD].product_flops + c.sum[COST_LOSS].product_flops, products + attention);
    ck_assert_uint_eq(c.sum[COST_BACKWARD].product_flops, 2 * products + attention / 2 * 5);
    ck_assert_uint_eq(c.sum[COST_RECOMPUTE].flops, 0);
}
END_TEST

START_TEST(eager_attention_computes_both_triangles)
{
    struct recipe r = small_recipe();
    uint64_t square = 4 * (uint64_t)small_llama.layers * r.micro_batch_size * small_llama.hidden * r.seq_len_tokens * r.seq_len_tokens;
    uint64_t products = 2 * small_weights(&small_llama) * r.seq_len_tokens * r.micro_batch_size;
    struct cost c;

    setup();
    r.attention = ATTENTION_EAGER;
    c = cost_of(&small_llama, &r, &arena);
    ck_assert_uint_eq(c.sum[COST_FORWARD].product_flops + c.sum[COST_LOSS].product_flops, products + square);
    ck_assert_uint_eq(c.sum[COST_BACKWARD].product_flops, 2 * products + 2 * square);
}
END_TEST

START_TEST(reentrant_checkpointing_is_one_more_forward_of_the_layers)
{
    struct recipe r = small_recipe();
    uint64_t head = 2 * (uint64_t)small_llama.hidden * small_llama.vocab * r.seq_len_tokens * r.micro_batch_size;
    struct cost plain, again;

    setup();
    plain = cost_of(&small_llama, &r, &arena);
    r.gradient_checkpointing = r.checkpoint_reentrant = TRI_TRUE;
    r.use_cache = TRI_FALSE;
    again = cost_of(&small_llama, &r, &arena);
    ck_assert_uint_eq(again.sum[COST_RECOMPUTE].product_flops,
                      plain.sum[COST_FORWARD].product_flops + plain.sum[COST_LOSS].product_flops - head);
    ck_assert_uint_eq(again.sum[COST_BACKWARD].product_flops, plain.sum[COST_BACKWARD].product_flops);
}
END_TEST

START_TEST(adapters_save_the_gradients_of_frozen_weights)
{
    static const char *const targets[] = {"q_proj", "v_proj"};
    struct recipe r = small_recipe();
    struct cost full, lora;

    setup();
    full = cost_of(&small_llama, &r, &arena);
    r.tuning = TUNING_LORA;
    r.lora = (struct lora){.rank = 8, .dtype = LORA_DTYPE_BF16, .n_targets = 2, .targets = targets};
    lora = cost_of(&small_llama, &r, &arena);
    ck_assert_uint_lt(lora.sum[COST_BACKWARD].product_flops, full.sum[COST_BACKWARD].product_flops * 7 / 10);
    ck_assert_uint_gt(lora.sum[COST_FORWARD].product_flops, full.sum[COST_FORWARD].product_flops);
    ck_assert_uint_gt(lora.sum[COST_FORWARD].launches, full.sum[COST_FORWARD].launches);
    ck_assert_uint_lt(lora.sum[COST_OPTIMIZER].bytes, full.sum[COST_OPTIMIZER].bytes / 50);
}
END_TEST

static const struct {
    enum optimizer optimizer;
    unsigned accesses; /* of each element, in the parameter's dtype */
    bool a_tensor_at_a_time;
} optimizers[] = {
    {OPTIMIZER_ADAMW_TORCH_FUSED, 7, false},
    {OPTIMIZER_ADAMW_TORCH, 20, false},
    {OPTIMIZER_ADAMW_TORCH_LOOP, 20, true},
    {OPTIMIZER_SGD, 3, false},
};

START_TEST(optimizers_move_their_states)
{
    struct recipe r = small_recipe();
    uint64_t norms = (2 * small_llama.layers + 1) * small_llama.hidden;
    uint64_t elems = small_weights(&small_llama) + (uint64_t)small_llama.hidden * small_llama.vocab + norms;
    uint64_t tensors = 9 * small_llama.layers + 3;
    struct cost c;

    setup();
    r.optimizer = optimizers[_i].optimizer;
    c = cost_of(&small_llama, &r, &arena);
    ck_assert_uint_eq(c.sum[COST_OPTIMIZER].bytes, optimizers[_i].accesses * elems * 2);
    if (optimizers[_i].a_tensor_at_a_time)
        ck_assert_uint_eq(c.sum[COST_OPTIMIZER].launches, 8 * tensors);
    else
        ck_assert_uint_le(c.sum[COST_OPTIMIZER].launches, 64);
}
END_TEST

START_TEST(clipping_reads_and_scales_gradients)
{
    struct recipe r = small_recipe();
    struct cost without, with;

    setup();
    without = cost_of(&small_llama, &r, &arena);
    r.max_grad_norm = 1;
    with = cost_of(&small_llama, &r, &arena);
    ck_assert_uint_eq(3 * without.sum[COST_OPTIMIZER].bytes, 7 * with.sum[COST_CLIP].bytes);
}
END_TEST

START_TEST(accumulation_repeats_micro_steps)
{
    struct recipe r = small_recipe();
    struct cost one, many;

    setup();
    one = cost_of(&small_llama, &r, &arena);
    r.gradient_accumulation_steps = 7;
    many = cost_of(&small_llama, &r, &arena);
    ck_assert_uint_eq(many.n_micro, 2);
    ck_assert_uint_eq(many.sum[COST_FORWARD].flops, 7 * one.sum[COST_FORWARD].flops);
    ck_assert_uint_eq(many.sum[COST_BACKWARD].product_flops, 7 * one.sum[COST_BACKWARD].product_flops);
    ck_assert_uint_gt(many.sum[COST_BACKWARD].bytes, 7 * one.sum[COST_BACKWARD].bytes); /* gradients are added */
    ck_assert_uint_eq(many.sum[COST_OPTIMIZER].bytes, one.sum[COST_OPTIMIZER].bytes);
}
END_TEST

START_TEST(ddp_sends_every_gradient_once_in_the_last_micro_step)
{
    struct recipe r = small_recipe();
    uint64_t sent = 0, trained;
    struct cost c;

    setup();
    r.framework = FRAMEWORK_TORCH; /* the Trainer looks for unused parameters, which is one more message */
    r.method = METHOD_DDP;
    r.data_parallel = 8;
    r.gradient_accumulation_steps = 3;
    r.ddp_bucket_bytes = 4 << 20;
    c = cost_of(&small_llama, &r, &arena);
    trained = 2 * (small_weights(&small_llama) + (uint64_t)small_llama.hidden * small_llama.vocab + (2 * small_llama.layers + 1) * small_llama.hidden);
    ck_assert_uint_gt(c.n_messages, 2);
    for (uint32_t i = 0; i < c.n_messages; i++) {
        sent += c.messages[i].bytes;
        ck_assert_uint_gt(c.messages[i].kernels_before, c.micro_begin[1]);
        ck_assert_uint_le(c.messages[i].kernels_before, c.end_begin);
        ck_assert(!i || c.messages[i].kernels_before >= c.messages[i - 1].kernels_before);
    }
    ck_assert_uint_eq(sent, trained);
}
END_TEST

START_TEST(messages_follow_the_line_too)
{
    struct kernel kernels[2] = {{.stage = STAGE_FORWARD, .bytes = 8, .launches = 1}, {.stage = STAGE_BACKWARD, .bytes = 8, .launches = 1}};
    struct message m[2][2] = {{{.stage = STAGE_FORWARD, .bytes = 100, .kernels_before = 1, .waited_before = 1}, {.stage = STAGE_FORWARD, .bytes = 7, .kernels_before = 1, .waited_before = 2}},
                              {{.stage = STAGE_FORWARD, .bytes = 200, .kernels_before = 1, .waited_before = 1}, {.stage = STAGE_FORWARD, .bytes = 7, .kernels_before = 1, .waited_before = 2}}};
    struct cost two[2], at;

    setup();
    for (int i = 0; i < 2; i++) {
        struct work log = {.n_kernels = 2, .kernels = kernels, .n_messages = 2, .messages = m[i]};

        cost_read(&log, 1, &two[i]);
        two[i].micro_batch_size = (uint32_t)i + 1;
    }
    ck_assert(cost_at(&two[0], &two[1], 5, 1, &arena, &at));
    ck_assert_uint_eq(at.messages[0].bytes, 500); /* activations */
    ck_assert_uint_eq(at.messages[1].bytes, 7);   /* weights */
    ck_assert_uint_eq(at.messages[1].waited_before, 2);
    m[1][0].kernels_before = 0;
    ck_assert(!cost_at(&two[0], &two[1], 5, 1, &arena, &at));
}
END_TEST

static const struct {
    enum stage stage;
    uint32_t kernels_before, part; /* 0, 1: micro-steps; 2: the end */
} boundaries[] = {
    {STAGE_FORWARD, 0, 0},  {STAGE_BACKWARD, 2, 0}, {STAGE_BETWEEN, 2, 0},   {STAGE_FORWARD, 2, 1}, {STAGE_BATCH, 2, 1},
    {STAGE_BACKWARD, 4, 1}, {STAGE_CLIP, 4, 2},     {STAGE_OPTIMIZER, 5, 2}, {STAGE_FORWARD, 1, 0}, {STAGE_BACKWARD, 3, 1},
};

START_TEST(a_message_between_two_parts_is_that_of_its_stage)
{
    static const enum stage stages[] = {STAGE_FORWARD, STAGE_BACKWARD, STAGE_FORWARD, STAGE_BACKWARD, STAGE_OPTIMIZER};
    struct kernel kernels[5] = {{0}};
    struct message m = {.stage = (uint8_t)boundaries[_i].stage, .kernels_before = boundaries[_i].kernels_before};
    struct work log = {.n_kernels = 5, .kernels = kernels, .n_messages = 1, .messages = &m};
    struct cost c;

    for (int i = 0; i < 5; i++)
        kernels[i].stage = (uint8_t)stages[i];
    cost_read(&log, 2, &c);
    ck_assert_uint_eq(c.micro_message[1], boundaries[_i].part == 0);
    ck_assert_uint_eq(c.end_message, boundaries[_i].part < 2);
}
END_TEST

/* --- the log and memory -------------------------------------------------------------------------------------------------------- */

START_TEST(the_log_changes_no_block)
{
    struct recipe r = small_recipe();
    struct trainer *with, *without;
    struct step step;
    struct work log;
    struct err err = {0};
    struct arch arch;

    setup();
    arch = small_arch(&small_llama, &arena);
    r.gradient_accumulation_steps = 2;
    r.max_grad_norm = 1;
    ck_assert(!stack_complete(&r.stack, &err) && !train_resolve(&r, &arch, &step_device, &arena, &step, &err));
    ck_assert(work_init(&log, &arena, (struct work_limits){1 << 16, 16, 0}));
    with = arena_new(&arena, struct trainer);
    without = arena_new(&arena, struct trainer);
    with->log = &log;
    with->costs_alone = true;
    ck_assert(!trainer_run(with, &arch, &step, &step_device, &arena, &err));
    ck_assert(!trainer_run(without, &arch, &step, &step_device, &arena, &err));
    ck_assert_uint_gt(log.n_kernels, 100);
    ck_assert_uint_lt(with->run.n_events, without->run.n_events); /* it needs no second step */
    ck_assert(!memcmp(with->run.events, without->run.events, with->run.n_events * sizeof *with->run.events));
    for (uint32_t i = 0; i < with->run.n_births; i++)
        ck_assert_uint_eq(with->run.births[i].bytes, without->run.births[i].bytes);
}
END_TEST

static const enum tri checkpointing[] = {TRI_FALSE, TRI_TRUE};

START_TEST(costs_are_linear_in_the_batch)
{
    struct recipe r = small_recipe();
    struct cost two, eight, five, line;

    setup();
    r.gradient_checkpointing = checkpointing[_i];
    two = cost_of(&small_llama, &r, &arena);
    r.micro_batch_size = 6;
    eight = cost_of(&small_llama, &r, &arena);
    r.micro_batch_size = 5;
    five = cost_of(&small_llama, &r, &arena);
    ck_assert(cost_at(&two, &eight, 5, 1, &arena, &line));
    ck_assert_uint_eq(line.n_kernels, five.n_kernels);
    for (uint32_t i = 0; i < five.n_kernels; i++) {
        const struct kernel *a = &line.kernels[i], *b = &five.kernels[i];

        ck_assert_msg(a->op == b->op && a->flops == b->flops && a->bytes == b->bytes && a->rows == b->rows && a->inner == b->inner,
                      "kernel %u: %s %lu %lu", i, op_rows[b->op].aten, (unsigned long)a->bytes, (unsigned long)b->bytes);
    }
    ck_assert(line.model_flops == five.model_flops);
    ck_assert(!cost_at(&two, &two, 5, 1, &arena, &line));
    ck_assert(!cost_at(&two, &eight, 5, 2, &arena, &line));
}
END_TEST

START_TEST(too_little_room_is_an_error_and_given_back)
{
    struct recipe r = small_recipe();

    for (size_t room = 64 << 10; room < 24 << 20; room += 1 << 20) {
        struct arena small;
        struct arch arch;
        struct cost c;
        struct err err = {0};
        unsigned char *mark;
        enum err_code rc;

        setup();
        arch = small_arch(&small_llama, &arena);
        arena_init(&small, arena.cur, room);
        mark = small.cur;
        rc = small_cost(&arch, &r, &small, &c, &err);
        ck_assert(rc == ERR_OK || rc == ERR_NOMEM);
        ck_assert(!rc || small.cur == mark);
    }
}
END_TEST

UNIT_TESTS("meters/cost",
    unit_test(messages_follow_the_line_too);
    unit_rows(a_message_between_two_parts_is_that_of_its_stage, boundaries);
    unit_rows(an_operator_is_counted, operators);
    unit_test(a_full_log_is_an_error);
    unit_test(forward_is_two_and_backward_four_a_weight);
    unit_test(eager_attention_computes_both_triangles);
    unit_test(reentrant_checkpointing_is_one_more_forward_of_the_layers);
    unit_test(adapters_save_the_gradients_of_frozen_weights);
    unit_rows(optimizers_move_their_states, optimizers);
    unit_test(clipping_reads_and_scales_gradients);
    unit_test(accumulation_repeats_micro_steps);
    unit_test(ddp_sends_every_gradient_once_in_the_last_micro_step);
    unit_test(the_log_changes_no_block);
    unit_rows(costs_are_linear_in_the_batch, checkpointing);
    unit_test(too_little_room_is_an_error_and_given_back);
)
