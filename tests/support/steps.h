/*
 * steps.h - small Llamas and resolved steps for tests of cost and time.
 */
#ifndef SUPPORT_STEPS_H
#define SUPPORT_STEPS_H

#include "base/json.h"
#include "config/arch.h"
#include "stack/release.h"
#include "tests/support/programs.h"
#include "tests/support/unit.h"
#include "train/timing.h"

#include <stdio.h>
#include <string.h>

static const struct device step_device = {8, 0, 108, 2048, false, UINT64_C(84974501888), 0, false, false};

/* What a small Llama is made of; its products hold `layers * layer_weights + head` weights. */
struct small_llama {
    uint32_t layers, hidden, heads, kv_heads, ffn, vocab;
};
static const struct small_llama small_llama = {3, 512, 8, 4, 1408, 2000};

static inline struct arch small_arch_as(const struct small_llama *s, bool tied, struct arena *arena)
{
    char text[512];
    struct json *config = NULL;
    struct arch arch = {0};
    struct err err = {0};
    int n = snprintf(text, sizeof text,
                     "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":%u,\"num_hidden_layers\":%u,"
                     "\"num_attention_heads\":%u,\"num_key_value_heads\":%u,\"intermediate_size\":%u,\"vocab_size\":%u,"
                     "\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-5,\"tie_word_embeddings\":%s,\"torch_dtype\":\"bfloat16\"}",
                     s->hidden, s->layers, s->heads, s->kv_heads, s->ffn, s->vocab, tied ? "true" : "false");

    ck_assert_msg(!json_parse(text, (size_t)n, &json_limits_config, &config, &err) && !arch_read(config, arena, &arch, &err), "%s %s",
                  err.at, err.detail);
    json_free(config); /* strings live in the arena */
    return arch;
}

static inline struct arch small_arch(const struct small_llama *s, struct arena *arena)
{
    return small_arch_as(s, false, arena);
}

static inline uint64_t small_weights(const struct small_llama *s)
{
    uint64_t d = s->hidden / s->heads;

    return s->layers * ((uint64_t)s->hidden * s->hidden * 2 + (uint64_t)s->hidden * s->kv_heads * d * 2 + (uint64_t)s->hidden * s->ffn * 3) +
           (uint64_t)s->hidden * s->vocab;
}

/* bf16, batch 2 of 512 tokens, fused AdamW, SDPA, the newest stack. */
static inline struct recipe small_recipe(void)
{
    return (struct recipe){.seq_len_tokens = 512,
                           .micro_batch_size = 2,
                           .gradient_accumulation_steps = 1,
                           .precision = PRECISION_BF16,
                           .optimizer = OPTIMIZER_ADAMW_TORCH_FUSED,
                           .attention = ATTENTION_SDPA,
                           .gradient_checkpointing = TRI_FALSE,
                           .max_grad_norm = 0,
                           .lora = {.rank = 0}};
}

static inline enum err_code small_cost(const struct arch *arch, const struct recipe *asked, struct arena *arena, struct cost *ret, struct err *err)
{
    struct recipe r = *asked;
    struct step step;
    enum err_code rc = stack_complete(&r.stack, err);

    if (!rc)
        rc = train_resolve(&r, arch, &step_device, arena, &step, err);
    return rc ? rc : train_cost(arch, &step, &step_device, arena, ret, err);
}

static inline struct cost cost_of(const struct small_llama *s, const struct recipe *r, struct arena *arena)
{
    struct arch arch = small_arch(s, arena);
    struct cost c;
    struct err err = {0};

    ck_assert_msg(!small_cost(&arch, r, arena, &c, &err), "%s %s", err.at, err.detail);
    return c;
}

#endif
