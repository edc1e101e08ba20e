/*
 * A family in the language beside its twin in C: the same tape, event by event, with operator, node, module and phase. The twin is held to
 * tapes of real PyTorch (test_tapes).
 */
#include "base/json.h"
#include "models/program.h"
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
    N_EAGER_ALONE = sizeof eager_alone / sizeof *eager_alone
};

static bool is_death(uint32_t e)
{
    return event_is_of_block(e) && (e & EVENT_DEATH);
}

static const char *event_text(const struct trainer *t, uint32_t i, char *buf, size_t bytes)
{
    char path[256];
    const struct birth *b;

    if (i >= t->run.n_events)
        return "its end";
    b = &t->run.births[t->run.events[i] & EVENT_BLOCK];
    if (!event_is_of_block(t->run.events[i]))
        return "a mark";
    (void)snprintf(buf, bytes, "%s of %llu bytes, %s, %s, in '%s'", is_death(t->run.events[i]) ? "death" : "birth",
                   (unsigned long long)b->bytes, op_rows[b->op].aten, op_rows[b->node].node,
                   module_path(&t->model.tree, b->module, path, sizeof path));
    return buf;
}

static bool same_birth(const struct trainer *x, const struct trainer *y, uint32_t e)
{
    const struct birth *p = &x->run.births[e], *q = &y->run.births[e];
    char a[256], b[256];

    return p->bytes == q->bytes && p->op == q->op && p->node == q->node && p->stage == q->stage && p->forward_stage == q->forward_stage &&
           p->mark == q->mark && p->stream == q->stream && p->recompute == q->recompute &&
           !strcmp(module_path(&x->model.tree, p->module, a, sizeof a), module_path(&y->model.tree, q->module, b, sizeof b));
}

/* Blocks that die at one moment may die in any order. */
static uint32_t first_difference(const struct trainer *x, const struct trainer *y)
{
    uint32_t i = 0;

    while (i < x->run.n_events && i < y->run.n_events) {
        uint32_t e = x->run.events[i], f = y->run.events[i], end = i;
        uint64_t sum = 0, other = 0;

        if (!is_death(e)) {
            if (e != f || (event_is_of_block(e) && !same_birth(x, y, e)))
                return i;
            i++;
            continue;
        }
        while (end < x->run.n_events && end < y->run.n_events && is_death(x->run.events[end]) && is_death(y->run.events[end])) {
            sum += (uint64_t)x->run.events[end] * 2654435761u;
            other += (uint64_t)y->run.events[end++] * 2654435761u;
        }
        if (end == i || sum != other)
            return i;
        i = end;
    }
    return i;
}

static void compare_one(const char *config_text, const char *options_text)
{
    struct arena image_room, rooms[2];
    const struct image *image;
    struct json *config, *given;
    struct arch arch, own;
    struct stack stack;
    struct step step;
    struct program_source source = {0};
    struct trainer *x = calloc(1, sizeof *x), *y = calloc(1, sizeof *y);
    const char *targets[TRACED_TARGETS], *wrong;
    char module[128], a[512], b[512];
    struct err err = {0};
    void *blocks[3];
    uint32_t at;

    for (int i = 0; i < 3; i++)
        blocks[i] = malloc(i ? ROOM : IMAGE_ROOM);
    arena_init(&image_room, blocks[0], IMAGE_ROOM);
    for (int i = 0; i < 2; i++)
        arena_init(&rooms[i], blocks[i + 1], ROOM);
    ck_assert_msg(!program_image(&image_room, &image, &err), "%s %s", err.at, err.detail);
    ck_assert_msg(!json_parse(config_text, strlen(config_text), &json_limits_config, &config, &err), "%s", err.detail);
    ck_assert_msg(!json_parse(options_text, strlen(options_text), &json_limits_config, &given, &err), "%s", err.detail);
    ck_assert_msg(!arch_parse(config, &rooms[0], &arch, &err), "%s %s", err.at, err.detail);
    ck_assert(traced_stack("new", &stack));
    wrong = traced_step(given, &arch, &stack, targets, &step);
    ck_assert_msg(!wrong, "%s", wrong);
    ck_assert_msg(!trainer_run(x, &arch, &step, &traced_device, &rooms[0], &err), "%s %s", err.at, err.detail);
    (void)snprintf(module, sizeof module, "transformers.models.%s.modeling_%s", arch.model_type, arch.model_type);
    source.run = &script_program;
    source.image = image;
    source.config = config;
    source.module = module;
    own = arch;
    own.program = &source;
    ck_assert_msg(!trainer_run(y, &own, &step, &traced_device, &rooms[1], &err), "%s %s: %s %s after %u events", config_text, options_text,
                  err.at, err.detail, y->run.n_events);
    at = first_difference(x, y);
    ck_assert_msg(at == x->run.n_events && at == y->run.n_events, "%s %s: event %u is %s, in the language %s", config_text, options_text,
                  at, event_text(x, at, a, sizeof a), event_text(y, at, b, sizeof b));
    for (int i = 0; i < 3; i++)
        free(blocks[i]);
    json_free(config);
    json_free(given);
    free(x);
    free(y);
}

START_TEST(makes_the_tape_of_its_twin)
{
    compare_one(configs[_i / N_OPTIONS], options[_i % N_OPTIONS]);
}
END_TEST

START_TEST(makes_the_tape_without_sdpa)
{
    const char *given = options[_i % N_OPTIONS];
    char text[512];

    if (strstr(given, "\"attention\":"))
        compare_one(without_sdpa[_i / N_OPTIONS], given);
    else {
        (void)snprintf(text, sizeof text, "{\"attention\":\"eager\",%s", given + 1);
        compare_one(without_sdpa[_i / N_OPTIONS], text);
    }
}
END_TEST

START_TEST(makes_the_tape_of_eager_attention)
{
    const char *given = options[_i % N_OPTIONS];
    char text[512];

    if (strstr(given, "flash"))
        return;
    (void)snprintf(text, sizeof text, "{\"attention\":\"eager\",%s", given + 1);
    compare_one(eager_alone[_i / N_OPTIONS], strstr(given, "\"attention\":") ? given : text);
}
END_TEST

UNIT_TESTS("models/program against the families in C", tcase_set_timeout(unit_.tcase, 60);
           tcase_add_loop_test(unit_.tcase, makes_the_tape_of_its_twin, 0, N_CONFIGS *N_OPTIONS);
           tcase_add_loop_test(unit_.tcase, makes_the_tape_without_sdpa, 0, N_WITHOUT_SDPA *N_OPTIONS);
           tcase_add_loop_test(unit_.tcase, makes_the_tape_of_eager_attention, 0, N_EAGER_ALONE *N_OPTIONS);)
