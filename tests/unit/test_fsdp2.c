/*
 * fully_shard: tapes of real PyTorch beside the walk, birth by birth with their streams and deaths; and laws that hold for any number
 * of ranks.
 */
#include "tests/support/programs.h"
#include "parallel/fsdp2/inside.h"

#include "base/json.h"
#include "config/arch.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 512 << 20, TAPE_MAX = 1 << 17, LIVE_MAX = 1 << 14 };

static const char folder[] = "tests/data/fsdp2/";
static const char *const adapted[] = {"q_proj", "v_proj"};

#define COMMON                                                                                                          \
    .seq_len_tokens = 64, .micro_batch_size = 1, .precision = PRECISION_BF16_MIXED, .optimizer = OPTIMIZER_ADAMW_TORCH, \
    .max_grad_norm = 1, .use_cache = TRI_FALSE, .attention = ATTENTION_SDPA
#define LOOP(checkpointing) \
    .framework = FRAMEWORK_TORCH, .keep_outputs = TRI_TRUE, .gradient_accumulation_steps = 1, .gradient_checkpointing = (checkpointing)
#define PLAIN        COMMON, LOOP(TRI_FALSE)
#define CHECKPOINTED COMMON, LOOP(TRI_TRUE)

static const struct {
    const char *name;
    struct recipe recipe;
} row[] = {
    {"llama-uneven", {PLAIN, .method = METHOD_FSDP2, .data_parallel = 7}},
    {"qwen2-trainer-accumulation",
     {COMMON, .method = METHOD_FSDP2, .data_parallel = 4, .fsdp = {.wrap = FSDP_WRAP_ACCELERATE, .reduce_dtype = REDUCE_FP32},
      .framework = FRAMEWORK_TRANSFORMERS, .gradient_accumulation_steps = 2, .gradient_checkpointing = TRI_FALSE}},
    {"llama-hsdp2-lora-reentrant",
     {CHECKPOINTED, .method = METHOD_HSDP2, .data_parallel = 8, .shard_group = 4, .tuning = TUNING_LORA,
      .fsdp = {.forward_prefetch = TRI_TRUE}, .lora = {.rank = 4, .dtype = LORA_DTYPE_FP32, .n_targets = 2, .targets = adapted},
      .checkpoint_reentrant = TRI_TRUE}},
    {"llama-titan-offload",
     {CHECKPOINTED, .method = METHOD_FSDP2, .data_parallel = 2, .fsdp = {.wrap = FSDP_WRAP_TITAN, .reduce_dtype = REDUCE_BF16},
      .offload = OFFLOAD_OPTIMIZER_PARAMS}},
    {"neox-one-rank", {PLAIN, .method = METHOD_FSDP2_NORESHARD, .data_parallel = 1}},
};

/* ------------------------------------------------------------------------------------------------------------- a run */
static unsigned char *block;

static struct trainer *run_of(const char *config, const struct recipe *asked)
{
    static struct arena a;
    static struct arch arch;
    static struct step step;
    struct trainer *t;
    struct json *j = NULL;
    struct recipe r = *asked;
    struct err err = {0};

    if (!block)
        block = malloc(ROOM);
    ck_assert_ptr_nonnull(block);
    arena_init(&a, block, ROOM);
    r.stack = traced_new;
    ck_assert(!json_parse(config, strlen(config), &json_limits_config, &j, &err) && !arch_read(j, &a, &arch, &err));
    json_free(j);
    ck_assert_msg(!train_resolve(&r, &arch, &traced_device, &a, &step, &err), "%s", err.detail);
    t = arena_new(&a, struct trainer);
    ck_assert_msg(!trainer_run(t, &arch, &step, &traced_device, &a, &err), "%s: %s", err.at, err.detail);
    return t;
}

/* ------------------------------------------------------------------------------------------------------ beside PyTorch */
struct walk {
    struct trainer *t;
    uint32_t at, n;                    /* next event; births so far, batches left out */
    int stream[STREAM_COUNT], streams; /* ours, as the tape numbers them; -1: not seen yet */
    uint32_t *number;                  /* by our birth: the tape's, UINT32_MAX: left out */
};

static bool loops_own(const struct run *r, uint32_t b)
{
    return r->births[b].stage == STAGE_BATCH && !strcmp(op_rows[r->births[b].op].aten, "aten::empty");
}

/* Our next birth; its deaths so far are counted off `dying`. NULL: the run has ended. */
static const struct birth *next_birth(struct walk *w, bool *dying, uint32_t *n_dying)
{
    const struct run *r = &w->t->run;

    for (; w->at < r->n_events; w->at++) {
        uint32_t e = r->events[w->at], b = e & EVENT_BLOCK;

        if (e == EVENT_RELEASE || e == EVENT_SYNC)
            continue;
        if (!(e & EVENT_DEATH) && !loops_own(r, b)) {
            w->number[b] = w->n++;
            w->at++;
            return &r->births[b];
        }
        if (!(e & EVENT_DEATH) || w->number[b] == UINT32_MAX)
            continue;
        ck_assert_msg(dying[w->number[b]], "birth %u dies in the walk alone, after birth %u", w->number[b], w->n - 1);
        dying[w->number[b]] = false;
        --*n_dying;
    }
    return NULL;
}

static int stream_of(struct walk *w, unsigned ours, int theirs)
{
    if (w->stream[ours] < 0)
        w->stream[ours] = theirs;
    return w->stream[ours];
}

static uint32_t read_deaths(char *line, bool *dying)
{
    uint32_t n = 0;

    for (char *p = strchr(line, '-'); p; p = strchr(p + 1, '-'), n++)
        dying[strtoul(p + 1, NULL, 10)] = true;
    return n;
}

static void lay_beside(struct walk *w, char *tape)
{
    bool *dying = calloc(LIVE_MAX, 1);
    uint32_t n_dying = 0;

    ck_assert_ptr_nonnull(dying);
    for (char *line = strtok(tape, "\n"); line; line = strtok(NULL, "\n")) {
        char *rest;
        uint64_t bytes = strtoull(line, &rest, 10);
        int stream = (int)strtol(rest, &rest, 10);
        const struct birth *b = next_birth(w, dying, &n_dying);

        ck_assert_msg(b != NULL, "the walk ends before birth %u", w->n);
        ck_assert_msg(!n_dying, "%u more die before birth %u", n_dying, w->n - 1);
        ck_assert_msg(b->bytes == bytes, "birth %u: %llu bytes of %s, not %llu", w->n - 1, (unsigned long long)b->bytes,
                      op_rows[b->op].aten, (unsigned long long)bytes);
        ck_assert_msg(stream_of(w, b->stream, stream) == stream, "birth %u: stream %d", w->n - 1, stream);
        n_dying += read_deaths(rest, dying);
    }
    ck_assert_ptr_null(next_birth(w, dying, &n_dying)); /* what the loop's variables hold dies with PyTorch's loop; ours has no end */
    free(dying);
}

static char *slurp(const char *name)
{
    char path[128], *text = malloc(TAPE_MAX);
    FILE *f;
    size_t n;

    (void)snprintf(path, sizeof path, "%s%s.tape", folder, name);
    f = fopen(path, "rb");
    ck_assert_msg(f && text, "%s", path);
    n = fread(text, 1, TAPE_MAX - 1, f);
    text[n] = 0;
    (void)fclose(f);
    return text;
}

START_TEST(walks_as_pytorch_does)
{
    char *text = slurp(row[_i].name), *config = text + strlen("config "), *tape = strchr(text, '\n');
    struct walk w = {.stream = {-1, -1, -1, -1, -1, -1}};

    *tape++ = 0;
    w.t = run_of(config, &row[_i].recipe);
    w.at = w.t->steps_begin;
    w.number = malloc(w.t->run.n_births * sizeof *w.number);
    ck_assert_ptr_nonnull(w.number);
    memset(w.number, 0xff, w.t->run.n_births * sizeof *w.number);
    lay_beside(&w, tape);
    free(w.number);
    free(text);
}
END_TEST

/* ---------------------------------------------------------------------------------------------------------------- laws */
static const char tiny[] = "{\"model_type\":\"llama\",\"hidden_size\":96,\"intermediate_size\":256,\"num_hidden_layers\":2,"
                           "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":1001,\"max_position_embeddings\":256,"
                           "\"tie_word_embeddings\":false,\"torch_dtype\":\"float32\"}";

static const char deep[] = "{\"model_type\":\"llama\",\"hidden_size\":96,\"intermediate_size\":256,\"num_hidden_layers\":8,"
                           "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":64,\"max_position_embeddings\":256,"
                           "\"tie_word_embeddings\":false,\"torch_dtype\":\"float32\"}";

static uint64_t live_bytes(const struct trainer *t, uint32_t until, enum mark mark)
{
    const struct run *r = &t->run;
    uint64_t sum = 0;

    for (uint32_t i = 0; i < until; i++) {
        uint32_t e = r->events[i];

        if (e != EVENT_RELEASE && e != EVENT_SYNC && r->births[e & EVENT_BLOCK].mark == (uint8_t)mark)
            sum += e & EVENT_DEATH ? -r->births[e & EVENT_BLOCK].bytes : r->births[e & EVENT_BLOCK].bytes;
    }
    return sum;
}

struct sum {
    uint64_t ranks, bytes;
};

/* fp32 master weights, each tensor's first dimension rounded up to the ranks. */
static void add_shard(void *context, struct module *m, struct param *p)
{
    struct sum *s = context;
    uint64_t elems = ((uint64_t)p->size[0] + s->ranks - 1) / s->ranks;

    (void)m;
    for (int i = 1; i < p->ndim; i++)
        elems *= (uint64_t)p->size[i];
    s->bytes += 4 * elems;
}

static const uint32_t world[] = {1, 2, 3, 8, 64, 1001, 2048};

START_TEST(shards_fall_with_the_ranks_to_the_byte)
{
    struct recipe r = {PLAIN, .method = METHOD_FSDP2, .data_parallel = world[_i]};
    struct trainer *t = run_of(tiny, &r);
    struct sum s = {.ranks = world[_i]};

    params_visit(t->model.tree.root, add_shard, &s);
    ck_assert_uint_eq(live_bytes(t, t->steps_begin, MARK_PARAMETER), s.bytes);
    ck_assert_uint_eq(live_bytes(t, t->run.n_events, MARK_OPTIMIZER_STATE), 2 * s.bytes);
    ck_assert_uint_eq(live_bytes(t, t->run.n_events, MARK_COMMUNICATION), 0); /* nothing gathered stays */
    ck_assert_uint_eq(live_bytes(t, t->run.n_events, MARK_GRADIENT), 0);
}
END_TEST

/* What a rank holds of a copy depends on the ranks that share it alone. */
START_TEST(a_hybrid_group_holds_what_its_own_ranks_would)
{
    struct recipe hybrid = {PLAIN, .method = METHOD_HSDP2, .data_parallel = 32, .shard_group = 4};
    struct recipe alone = {PLAIN, .method = METHOD_FSDP2, .data_parallel = 4};
    struct trainer *t = run_of(tiny, &hybrid);
    uint64_t parameters = live_bytes(t, t->run.n_events, MARK_PARAMETER), births = t->run.n_births;

    t = run_of(tiny, &alone);
    ck_assert_uint_eq(live_bytes(t, t->run.n_events, MARK_PARAMETER), parameters);
    ck_assert_uint_eq(t->run.n_births, births); /* the all-reduce works in place */
}
END_TEST

/* Both release every unit by the end of backward; only between does the one that does not reshard hold more. */
static uint64_t most_gathered(const struct recipe *asked)
{
    const struct run *r = &run_of(deep, asked)->run;
    uint64_t live = 0, most = 0;

    for (uint32_t i = 0; i < r->n_events; i++) {
        uint32_t e = r->events[i];

        if (e == EVENT_RELEASE || r->births[e & EVENT_BLOCK].mark != MARK_COMMUNICATION)
            continue;
        live += e & EVENT_DEATH ? -r->births[e & EVENT_BLOCK].bytes : r->births[e & EVENT_BLOCK].bytes;
        most = live > most ? live : most;
    }
    return most;
}

START_TEST(resharding_holds_less)
{
    struct recipe reshards = {PLAIN, .method = METHOD_FSDP2, .data_parallel = 4}, keeps = reshards;

    keeps.method = METHOD_FSDP2_NORESHARD;
    ck_assert_uint_lt(most_gathered(&reshards), most_gathered(&keeps));
}
END_TEST

/* Nothing of weights, gradients or states rests on the GPU; the host has a shard and two states of it. */
START_TEST(offload_leaves_nothing_on_the_gpu)
{
    struct recipe r = {PLAIN, .method = METHOD_FSDP2, .data_parallel = 8, .offload = OFFLOAD_OPTIMIZER_PARAMS};
    struct trainer *t = run_of(tiny, &r);
    struct sum s = {.ranks = 8};

    params_visit(t->model.tree.root, add_shard, &s);
    ck_assert_uint_eq(live_bytes(t, t->steps_begin, MARK_PARAMETER), 0);
    ck_assert_uint_eq(live_bytes(t, t->run.n_events, MARK_OPTIMIZER_STATE), 0);
    ck_assert_uint_eq(t->method->host_bytes(t->wrapped), 3 * s.bytes);
}
END_TEST

UNIT_TESTS("parallel/fsdp2", unit_rows(walks_as_pytorch_does, row); unit_rows(shards_fall_with_the_ranks_to_the_byte, world);
           unit_test(a_hybrid_group_holds_what_its_own_ranks_would); unit_test(resharding_holds_less);
           unit_test(offload_leaves_nothing_on_the_gpu);)
