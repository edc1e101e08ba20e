/*
 * What each family does in each release of transformers: tests/data/programs/digests.txt holds a digest of the tape (births with operator, node,
 * module and phase, deaths) for each config and option. They were written by the programs in C that these families were before, which were
 * held to traces of every release; some are tapes of real PyTorch still (test_tapes). A row holds until the next one of its config.
 * PROGRAM_DIGESTS=FILE writes them anew, PROGRAM_FROM=N from the config N on.
 */
#include "base/json.h"
#include "models/program.h"
#include "stack/defaults.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "train/trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 192 << 20, IMAGE_ROOM = 32 << 20 };

#define LLAMA_SHAPE                                                                                                                                  \
    "\"hidden_size\":256,\"num_hidden_layers\":3,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"intermediate_size\":704,\"vocab_size\":1000," \
    "\"max_position_embeddings\":2048,\"rms_norm_eps\":1e-5"

#define LAYERS_OF_256 \
    "\"hidden_size\":256,\"num_hidden_layers\":3,\"num_attention_heads\":8,\"vocab_size\":1000,\"max_position_embeddings\":1024"
#define OPT_SHAPE  LAYERS_OF_256 ",\"ffn_dim\":1000"
#define NEO_OF_256 "\"hidden_size\":256,\"num_heads\":8,\"vocab_size\":1000,\"max_position_embeddings\":1024"
#define GPT_OF_192 "\"n_embd\":192,\"n_layer\":3,\"n_head\":6,\"vocab_size\":1000,\"n_positions\":1024"

static const char *const configs[] = {
    "{\"model_type\":\"llama\"," LLAMA_SHAPE "}",
    "{\"model_type\":\"llama\",\"tie_word_embeddings\":true,\"attention_bias\":true,\"mlp_bias\":true,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0,"
    "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,\"original_max_position_embeddings\":1024}," LLAMA_SHAPE "}",
    "{\"model_type\":\"mistral\",\"sliding_window\":null," LLAMA_SHAPE "}",
    "{\"model_type\":\"mistral\",\"sliding_window\":100,\"head_dim\":64," LLAMA_SHAPE "}",
    "{\"model_type\":\"qwen2\",\"tie_word_embeddings\":true," LLAMA_SHAPE "}",
    "{\"model_type\":\"qwen2\",\"use_sliding_window\":true,\"sliding_window\":64,\"max_window_layers\":1," LLAMA_SHAPE "}",
    "{\"model_type\":\"qwen3\",\"head_dim\":64," LLAMA_SHAPE "}",
    "{\"model_type\":\"gpt2\",\"n_embd\":192,\"n_layer\":3,\"n_head\":6,\"vocab_size\":1000,\"n_positions\":1024}",
    "{\"model_type\":\"gpt2\",\"n_embd\":192,\"n_layer\":2,\"n_head\":6,\"vocab_size\":1000,\"n_positions\":1024,\"resid_pdrop\":0.0,\"attn_pdrop\":0.0,"
    "\"embd_pdrop\":0.0,\"reorder_and_upcast_attn\":true,\"scale_attn_by_inverse_layer_idx\":true}",
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":256,\"num_hidden_layers\":3,\"num_attention_heads\":8,\"intermediate_size\":1024,\"vocab_size\":1000,"
    "\"max_position_embeddings\":2048,\"rotary_pct\":0.25}",
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":256,\"num_hidden_layers\":2,\"num_attention_heads\":8,\"intermediate_size\":1024,\"vocab_size\":1000,"
    "\"max_position_embeddings\":2048,\"rotary_pct\":1.0,\"use_parallel_residual\":false,\"hidden_dropout\":0.1}",
    "{\"model_type\":\"opt\"," OPT_SHAPE ",\"word_embed_proj_dim\":256}",
    "{\"model_type\":\"opt\"," OPT_SHAPE ",\"word_embed_proj_dim\":128,\"do_layer_norm_before\":false,\"enable_bias\":false,"
    "\"layer_norm_elementwise_affine\":false,\"dropout\":0.0,\"attention_dropout\":0.1}",
    "{\"model_type\":\"biogpt\"," LAYERS_OF_256 ",\"intermediate_size\":1000}",
    "{\"model_type\":\"biogpt\"," LAYERS_OF_256
    ",\"intermediate_size\":1000,\"hidden_dropout_prob\":0.0,\"attention_probs_dropout_prob\":0.1,"
    "\"activation_dropout\":0.1,\"tie_word_embeddings\":false}",
    "{\"model_type\":\"gpt_bigcode\"," GPT_OF_192 ",\"n_inner\":500}",
    "{\"model_type\":\"gpt_bigcode\"," GPT_OF_192 ",\"multi_query\":false,\"attn_pdrop\":0.0,\"resid_pdrop\":0.0}",
};

/* These have no SDPA of their own: they are asked for what runs. */
static const char *const without_sdpa[] = {
    "{\"model_type\":\"gemma2\",\"hidden_size\":256,\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":2,"
    "\"head_dim\":32,\"intermediate_size\":704,\"vocab_size\":1000,\"sliding_window\":64,\"query_pre_attn_scalar\":32}",
    "{\"model_type\":\"gptj\"," GPT_OF_192 ",\"rotary_dim\":16}",
    "{\"model_type\":\"gptj\"," GPT_OF_192 ",\"rotary_dim\":32,\"attn_pdrop\":0.1,\"resid_pdrop\":0.1,\"tie_word_embeddings\":true}",
    "{\"model_type\":\"gpt_neo\"," NEO_OF_256 ",\"num_layers\":4,\"attention_types\":[[[\"global\",\"local\"],2]],\"window_size\":64}",
    "{\"model_type\":\"gpt_neo\"," NEO_OF_256 ",\"num_layers\":2,\"attention_types\":[[[\"global\"],2]],\"attention_dropout\":0.1,"
    "\"resid_dropout\":0.1,\"embed_dropout\":0.1,\"intermediate_size\":500}",
};
/* and these no other than eager */
static const char *const eager_alone[] = {
    "{\"model_type\":\"codegen\",\"n_embd\":256,\"n_layer\":3,\"n_head\":8,\"vocab_size\":1000,\"n_positions\":1024,\"n_ctx\":1024,\"rotary_dim\":16}",
    "{\"model_type\":\"codegen\",\"n_embd\":256,\"n_layer\":2,\"n_head\":4,\"vocab_size\":1000,\"n_positions\":1024,\"rotary_dim\":32,\"attn_pdrop\":0.1,"
    "\"resid_pdrop\":0.1}",
    "{\"model_type\":\"bloom\",\"hidden_size\":256,\"n_layer\":3,\"n_head\":8,\"vocab_size\":1000}",
    "{\"model_type\":\"bloom\",\"n_embed\":192,\"n_layer\":2,\"n_head\":6,\"vocab_size\":1000,\"hidden_dropout\":0.1,\"attention_dropout\":0.1,"
    "\"apply_residual_connection_post_layernorm\":true}",
};

/* Variants of llama and their kin. */
#define KIN_SHAPE                                                                                                                              \
    "\"hidden_size\":256,\"num_hidden_layers\":4,\"num_attention_heads\":8,\"num_key_value_heads\":2,\"intermediate_size\":704,\"vocab_size\":1000," \
    "\"max_position_embeddings\":2048,\"pad_token_id\":0"
static const char *const kin[] = {
    "{\"model_type\":\"phi3\",\"sliding_window\":100,\"resid_pdrop\":0.1," KIN_SHAPE "}",
    "{\"model_type\":\"phi3\",\"original_max_position_embeddings\":1024,\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1.0,1.0,1.0,1.0,1.0,"
    "1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0,1.0],\"long_factor\":[2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0,2.0]}," KIN_SHAPE "}",
    "{\"model_type\":\"olmo\",\"clip_qkv\":8.0," KIN_SHAPE "}",
    "{\"model_type\":\"olmo2\",\"attention_bias\":true," KIN_SHAPE "}",
    "{\"model_type\":\"olmo3\",\"sliding_window\":64," KIN_SHAPE "}",
    "{\"model_type\":\"granite\",\"embedding_multiplier\":12.0,\"logits_scaling\":8.0,\"residual_multiplier\":0.22,\"attention_multiplier\":0.01,"
    "" KIN_SHAPE "}",
    "{\"model_type\":\"smollm3\",\"use_sliding_window\":true,\"sliding_window\":64," KIN_SHAPE "}",
    "{\"model_type\":\"gemma\",\"head_dim\":64," KIN_SHAPE "}",
    "{\"model_type\":\"gemma3_text\",\"head_dim\":32,\"sliding_window\":64,\"sliding_window_pattern\":2," KIN_SHAPE "}",
    "{\"model_type\":\"cohere\",\"use_qk_norm\":true," KIN_SHAPE "}",
    "{\"model_type\":\"cohere2\",\"sliding_window\":64," KIN_SHAPE "}",
    "{\"model_type\":\"stablelm\",\"use_qkv_bias\":true," KIN_SHAPE "}",
    "{\"model_type\":\"stablelm\",\"use_parallel_residual\":true,\"hidden_dropout\":0.1," KIN_SHAPE "}",
    "{\"model_type\":\"starcoder2\",\"sliding_window\":64,\"residual_dropout\":0.1,\"embedding_dropout\":0.1," KIN_SHAPE "}",
    "{\"model_type\":\"phi\",\"embd_pdrop\":0.1,\"resid_pdrop\":0.1," KIN_SHAPE "}",
    "{\"model_type\":\"glm\",\"head_dim\":32," KIN_SHAPE "}",
    "{\"model_type\":\"glm4\",\"head_dim\":32," KIN_SHAPE "}",
    "{\"model_type\":\"seed_oss\",\"head_dim\":32," KIN_SHAPE "}",
    "{\"model_type\":\"ministral3\",\"head_dim\":32," KIN_SHAPE "}",
    "{\"model_type\":\"exaone4\",\"sliding_window\":64," KIN_SHAPE "}",
    "{\"model_type\":\"ernie4_5\",\"head_dim\":32,\"use_bias\":true," KIN_SHAPE "}",
    "{\"model_type\":\"helium\",\"head_dim\":32," KIN_SHAPE "}",
    "{\"model_type\":\"arcee\",\"mlp_bias\":true," KIN_SHAPE "}",
    "{\"model_type\":\"apertus\",\"hidden_act\":\"xielu\"," KIN_SHAPE "}",
    "{\"model_type\":\"nemotron\",\"head_dim\":32," KIN_SHAPE "}",
    "{\"model_type\":\"phi\",\"qk_layernorm\":true,\"embd_pdrop\":0.1,\"resid_pdrop\":0.1," KIN_SHAPE "}", /* raises before 4.48 */
};

static const char *const options[] = {
    "{\"seq_len\":128}",
    "{\"seq_len\":128,\"attention\":\"eager\"}",
    "{\"seq_len\":127,\"attention\":\"flash_attention_2\",\"micro_batch_size\":2}",
    "{\"seq_len\":128,\"attention\":\"flash_attention_2\",\"padded\":true,\"micro_batch_size\":2}",
    "{\"seq_len\":128,\"padded\":true,\"micro_batch_size\":2}",
    "{\"seq_len\":128,\"padded\":true,\"micro_batch_size\":3,\"attention\":\"eager\",\"use_cache\":true}",
    "{\"seq_len\":128,\"use_cache\":true}",
    "{\"seq_len\":128,\"attention_mask\":false,\"micro_batch_size\":2}",
    "{\"seq_len\":128,\"attention_mask\":false,\"attention\":\"eager\",\"use_cache\":true}",
    "{\"seq_len\":128,\"gradient_checkpointing\":true}",
    "{\"seq_len\":128,\"gradient_checkpointing\":true,\"use_reentrant\":true}",
    "{\"seq_len\":128,\"gradient_checkpointing\":true,\"attention\":\"eager\",\"padded\":true}",
    "{\"seq_len\":128,\"gradient_accumulation_steps\":3,\"max_grad_norm\":0}",
    "{\"seq_len\":128,\"train_loop\":\"plain\",\"optimizer\":\"sgd\"}",
    "{\"seq_len\":128,\"precision\":\"bf16-mixed\",\"gradient_checkpointing\":true}",
    "{\"seq_len\":128,\"precision\":\"fp16-mixed\"}",
    "{\"seq_len\":128,\"precision\":\"fp32\"}",
    "{\"seq_len\":128,\"tuning\":\"lora\",\"lora\":{\"rank\":8,\"dropout\":0.1,\"target_modules\":\"all-linear\"}}",
    "{\"seq_len\":128,\"tuning\":\"lora\",\"gradient_checkpointing\":true,\"precision\":\"bf16-mixed\",\"lora\":{\"rank\":4,\"target_modules\":\"all-linear\"}}",
};
enum {
    N_OPTIONS = sizeof options / sizeof *options,
    N_CONFIGS = sizeof configs / sizeof *configs,
    N_WITHOUT_SDPA = sizeof without_sdpa / sizeof *without_sdpa,
    N_EAGER_ALONE = sizeof eager_alone / sizeof *eager_alone,
    N_KIN = sizeof kin / sizeof *kin,
    FIRST_KIN = N_CONFIGS + N_WITHOUT_SDPA + N_EAGER_ALONE
};

static const char digests[] = "tests/data/programs/digests.txt";
enum { CONFIGS = FIRST_KIN + N_KIN, LINE = 16 * 20 + 64 };

static bool is_death(uint32_t e)
{
    return event_is_of_block(e) && (e & EVENT_DEATH);
}

static uint64_t hash(uint64_t h, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        h = (h ^ ((const unsigned char *)bytes)[i]) * UINT64_C(1099511628211);
    return h;
}

static uint64_t hash_text(uint64_t h, const char *text)
{
    return hash(h, text, strlen(text) + 1);
}

static uint64_t hash_birth(uint64_t h, const struct trainer *t, uint32_t i)
{
    const struct birth *b = &t->run.births[i];
    const uint64_t numbers[] = {i, b->bytes, b->stage, b->forward_stage, b->mark, b->stream, b->recompute};
    char path[256];

    h = hash_text(h, op_rows[b->op].aten);
    h = hash_text(h, op_rows[b->node].node);
    h = hash_text(h, module_path(&t->model.tree, b->module, path, sizeof path));
    return hash(h, numbers, sizeof numbers);
}

/* Blocks that die at one moment may die in any order. */
static uint32_t digest(const struct trainer *t)
{
    uint64_t h = UINT64_C(14695981039346656037), deaths = 0;

    for (uint32_t i = 0; i < t->run.n_events; i++) {
        uint32_t e = t->run.events[i];

        if (is_death(e)) {
            uint64_t block = e & EVENT_BLOCK;

            deaths += hash(UINT64_C(14695981039346656037), &block, sizeof block);
            continue;
        }
        h = hash(h, &deaths, sizeof deaths);
        deaths = 0;
        h = event_is_of_block(e) ? hash_birth(h, t, e) : hash(h, &e, sizeof e);
    }
    h = hash(h, &deaths, sizeof deaths);
    return (uint32_t)(h ^ h >> 32);
}

static struct arena image_room;
static const struct image *image;
static void *blocks[2];
static struct trainer *trainer;

static void begin(void)
{
    struct err err = {0};

    blocks[0] = malloc(IMAGE_ROOM);
    blocks[1] = malloc(ROOM);
    trainer = calloc(1, sizeof *trainer);
    arena_init(&image_room, blocks[0], IMAGE_ROOM);
    ck_assert_msg(!program_image(&image_room, &image, &err), "%s %s", err.at, err.detail);
}

static void end(void)
{
    free(blocks[0]);
    free(blocks[1]);
    free(trainer);
}

static enum err_code run_once(const struct arch *arch, const struct step *step, struct arena *room, struct err *err)
{
    enum model_memory memory = trainer->memory;

    memset(trainer, 0, sizeof *trainer);
    trainer->memory = memory;
    return trainer_run(trainer, arch, step, &traced_device, room, err);
}

/* A source's second run keeps what its modules are once imported, and the third begins with that; of runs whose model passes the second has that of
 * the first, or the third that of the second, where runs write what was imported. Between them the same model is told otherwise, and another one, of fewer layers, is made of
 * the same beginning. */
enum { TURNS_KEPT = 5 };
static enum err_code run_kept(const struct arch *arch, struct program_source *source, const struct step *step, struct arena *room, struct err *err)
{
    struct step other = *step;
    struct arch few = *arch;
    unsigned char *mark;
    enum err_code rc = ERR_OK;

    few.layers -= few.layers > 1;
    other.r.gradient_checkpointing = step->r.gradient_checkpointing == TRI_TRUE ? TRI_FALSE : TRI_TRUE;
    source->ready = program_ready(room);
    ck_assert(source->ready != NULL);
    mark = room->cur;
    for (int i = 0; i < 8 && !rc; i++) {
        bool between = i == 4 || i == 6;
        struct err ignored = {0};

        arena_rewind(room, mark);
        trainer->memory = i > 2 ? MEMORY_PASSING : MEMORY_OWN;
        if (between)
            (void)!run_once(i == 4 ? arch : &few, &other, room, &ignored);
        else
            rc = run_once(arch, step, room, err);
    }
    trainer->memory = MEMORY_OWN;
    ck_assert(!trainer->model.by_hand); /* what was heard before is what its layers do */
    ck_assert(rc || program_is_kept(source->ready));
    ck_assert(rc || program_has_stood(source->ready));
    return rc;
}

/* Of the run, or of what it is refused with. */
static uint32_t digest_of(const char *config_text, const char *options_text, const struct stack *stack, bool program)
{
    struct arena room;
    struct json *config, *given;
    struct arch arch;
    struct step step;
    struct program_source source = {.run = &script_program, .image = image};
    const char *targets[TRACED_TARGETS], *wrong;
    char module[128];
    struct err err = {0};
    enum err_code rc;
    uint32_t result;
    static unsigned turn;

    arena_init(&room, blocks[1], ROOM);
    ck_assert_msg(!json_parse(config_text, strlen(config_text), &json_limits_config, &config, &err), "%s", err.detail);
    ck_assert_msg(!json_parse(options_text, strlen(options_text), &json_limits_config, &given, &err), "%s", err.detail);
    if (family_find(json_str(json_get(config, "model_type"))) == FAMILY_COUNT)
        rc = program_arch(&(struct program_library){.families = image, .wide = image}, config, NULL, 0, NULL, &room, &arch, &err);
    else
        rc = arch_parse(config, &room, &arch, &err);
    ck_assert_msg(!rc, "%s %s", err.at, err.detail);
    wrong = traced_step(given, &arch, stack, targets, &step);
    ck_assert_msg(!wrong, "%s", wrong);
    (void)snprintf(module, sizeof module, "transformers.models.%s.modeling_%s", arch.model_type, arch.model_type);
    source.config = config;
    source.module = module;
    arch.program = program ? &source : NULL;
    rc = program && turn++ % TURNS_KEPT == 0 ? run_kept(&arch, &source, &step, &room, &err) : run_once(&arch, &step, &room, &err);
    if (rc) {
        uint64_t h = hash_text(hash_text(UINT64_C(14695981039346656037), err.at), err.detail);

        ck_assert_msg(err.code == ERR_FIELD_CONFLICT, "%s, transformers %u, %s: %s %s", config_text, stack->transformers, options_text, err.at,
                      err.detail);
        result = (uint32_t)(h ^ h >> 32);
    } else {
        result = digest(trainer);
    }
    json_free(config);
    json_free(given);
    return result;
}

/* The i-th config, and an option as it can run it; NULL: it cannot. */
static const char *config_at(uint32_t i)
{
    if (i >= FIRST_KIN)
        return kin[i - FIRST_KIN];
    return i < N_CONFIGS ? configs[i] : i < N_CONFIGS + N_WITHOUT_SDPA ? without_sdpa[i - N_CONFIGS] : eager_alone[i - N_CONFIGS - N_WITHOUT_SDPA];
}

static const char *option_at(uint32_t i, uint32_t option, const struct stack *stack, char text[512])
{
    const char *given = options[option];
    char type[32];

    ck_assert_int_eq(sscanf(config_at(i), "{\"model_type\":\"%31[^\"]", type), 1);
    if (strstr(given, "flash") && !(stack_class_attention(type, stack) & CLASS_FLASH_2))
        return NULL;
    if (i < N_CONFIGS || i >= FIRST_KIN || strstr(given, "\"attention\":"))
        return given;
    (void)snprintf(text, 512, "{\"attention\":\"eager\",%s", given + 1);
    return text;
}

/* Every release of transformers under the newest of the others, and some of their own day. */
static const struct {
    bool transformers;
    release torch, of;
} stacks[] = {
#define PACKAGE_OF_torch 0
#define PACKAGE_OF_transformers 1
#define PACKAGE_OF_peft 0
#define PACKAGE_OF_accelerate 0
#define PACKAGE_OF_bitsandbytes 0
#define PACKAGE_OF_deepspeed 0
#define PACKAGE_OF_flash_attn 0
#define PACKAGE_OF_liger 0
#define PACKAGE_OF_causal_conv1d 0
#define PACKAGE_OF_mamba_ssm 0
#define PACKAGE_OF_fla 0
#define RELEASE(package, major, minor, year, month, day) {PACKAGE_OF_##package, 2015, (major) * 1000 + (minor)},
#include "stack/releases.def"
    {1, 2002, 4038}, {1, 2002, 4040}, {1, 2004, 4044}, {1, 2005, 4047}, {1, 2007, 4053}, {1, 2009, 4057},
};
enum { OLDEST = 4038 };

/* "12 2015/4053 a1b2c3d4 ..", one digest for each option */
static void row_of(uint32_t i, const struct stack *stack, bool program, char line[LINE])
{
    int n = snprintf(line, LINE, "%u %u/%u", i, stack->torch, stack->transformers);
    char text[512];

    for (uint32_t o = 0; o < N_OPTIONS; o++) {
        const char *option = option_at(i, o, stack, text);

        n += option ? snprintf(line + n, LINE - (size_t)n, " %08x", digest_of(config_at(i), option, stack, program)) : snprintf(line + n, LINE - (size_t)n, " -");
    }
}

static bool begins(const char *line, uint32_t i, const struct stack *stack)
{
    char head[64];
    int n = snprintf(head, sizeof head, "%u %u/%u ", i, stack->torch, stack->transformers);

    return !strncmp(line, head, (size_t)n);
}

static const char *digests_of(const char *line)
{
    return strchr(strchr(line, ' ') + 1, ' ');
}

/* Calls f for each stack that the config's class is in, by rising release. */
static void each_stack(uint32_t i, void (*f)(uint32_t, const struct stack *, void *), void *context)
{
    char type[32];

    ck_assert_int_eq(sscanf(config_at(i), "{\"model_type\":\"%31[^\"]", type), 1);
    for (size_t k = 0; k < sizeof stacks / sizeof *stacks; k++) {
        struct stack s = traced_new;

        s.torch = stacks[k].torch;
        s.transformers = stacks[k].of;
        if (stacks[k].transformers && s.transformers >= OLDEST && s.transformers >= stack_class_first(type))
            f(i, &s, context);
    }
}

struct rows {
    FILE *file;
    char line[LINE], kept[LINE]; /* the next one; the one that holds */
    bool program;
};

static void next_line(struct rows *rows)
{
    if (!fgets(rows->line, sizeof rows->line, rows->file))
        rows->line[0] = 0;
    rows->line[strcspn(rows->line, "\n")] = 0;
}

static void check_row(uint32_t i, const struct stack *stack, void *context)
{
    struct rows *rows = context;
    char made[LINE];
    const char *a, *b;

    if (begins(rows->line, i, stack)) {
        memcpy(rows->kept, rows->line, sizeof rows->kept);
        next_line(rows);
    }
    ck_assert_msg(rows->kept[0], "%s has no row for transformers %u", digests, stack->transformers);
    row_of(i, stack, rows->program, made);
    a = digests_of(rows->kept);
    b = digests_of(made);
    for (uint32_t o = 0; o < N_OPTIONS; o++, a = strchr(a + 1, ' '), b = strchr(b + 1, ' ')) {
        size_t n = strcspn(a + 1, " ");

        ck_assert_msg(n == strcspn(b + 1, " ") && !strncmp(a, b, n + 1), "torch %u, transformers %u, %s, %s: another tape than %.*s, %.*s", stack->torch,
                      stack->transformers, config_at(i), options[o], (int)n, a + 1, (int)n, b + 1);
    }
}

static void write_row(uint32_t i, const struct stack *stack, void *context)
{
    struct rows *rows = context;

    row_of(i, stack, rows->program, rows->line);
    if (!rows->kept[0] || strcmp(digests_of(rows->line), digests_of(rows->kept)) != 0)
        fprintf(rows->file, "%s\n", rows->line);
    memcpy(rows->kept, rows->line, sizeof rows->kept);
}

START_TEST(makes_its_tapes)
{
    struct rows rows = {.file = fopen(digests, "r"), .program = true};
    uint32_t i = (uint32_t)_i;

    ck_assert_msg(rows.file, "%s", digests);
    begin();
    for (next_line(&rows); rows.line[0] && (uint32_t)atoi(rows.line) != i;)
        next_line(&rows);
    each_stack(i, check_row, &rows);
    end();
    fclose(rows.file);
}
END_TEST

START_TEST(writes_digests)
{
    const char *path = getenv("PROGRAM_DIGESTS"), *from = getenv("PROGRAM_FROM");
    struct rows rows = {.file = path ? fopen(path, "w") : NULL, .program = !getenv("PROGRAM_TWINS")};

    if (!rows.file)
        return;
    begin();
    for (uint32_t i = from ? (uint32_t)atoi(from) : 0; i < CONFIGS; i++) {
        rows.kept[0] = 0;
        each_stack(i, write_row, &rows);
    }
    end();
    fclose(rows.file);
}
END_TEST

UNIT_TESTS("models/program in every release", tcase_set_timeout(unit_.tcase, 600);
           tcase_add_loop_test(unit_.tcase, makes_its_tapes, 0, CONFIGS); unit_test(writes_digests);)
