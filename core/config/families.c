#include "config/keys.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

#define AT(member) offsetof(struct arch, member)

/* (member, key, [alias,] class default). A key that feeds two members stands twice. */
#define REQUIRED(member, key, also, value)                                \
    {                                                                     \
        KEY_SIZE, key, also, AT(member), value, MAX_##member, true, false \
    }
#define SIZE(member, key, also, value)                                     \
    {                                                                      \
        KEY_SIZE, key, also, AT(member), value, MAX_##member, false, false \
    }
#define OR_NONE(member, key, value)                                       \
    {                                                                     \
        KEY_SIZE, key, NULL, AT(member), value, MAX_##member, false, true \
    }
#define FLAG(member, key, value)                                \
    {                                                           \
        KEY_FLAG, key, NULL, AT(member), value, 0, false, false \
    }
#define RATE(member, key, value)                                \
    {                                                           \
        KEY_RATE, key, NULL, AT(member), value, 0, false, false \
    }
#define REAL(member, key, value)                                \
    {                                                           \
        KEY_REAL, key, NULL, AT(member), value, 0, false, false \
    }
#define REAL_OR_NONE(member, key, value)                       \
    {                                                          \
        KEY_REAL, key, NULL, AT(member), value, 0, false, true \
    }
#define PAD(value)                                                               \
    {                                                                            \
        KEY_TOKEN, "pad_token_id", NULL, AT(pad_token_id), value, 0, false, true \
    }
#define ACT(key, value)                                                   \
    {                                                                     \
        KEY_ACTIVATION, key, NULL, AT(activation), value, 0, false, false \
    }
#define ACT_FIXED(value)                                              \
    {                                                                 \
        KEY_FIXED, NULL, NULL, AT(activation), value, 0, false, false \
    }
#define REFUSED(key)                                  \
    {                                                 \
        KEY_REFUSED, key, NULL, 0, 0, 0, false, false \
    }
#define END                                        \
    {                                              \
        KEY_END, NULL, NULL, 0, 0, 0, false, false \
    }

#define TIED(value) FLAG(tie_embeddings, "tie_word_embeddings", value)
#define CACHE       FLAG(use_cache, "use_cache", 1)
#define NONE        (-1)

/* head_dim, kv_heads, ffn and embed_dim left at 0 become hidden / heads, heads, 4 * hidden and hidden (read.c). */

static const struct arch_key opt_keys[] = {
    REQUIRED(hidden, "hidden_size", NULL, 768),
    REQUIRED(layers, "num_hidden_layers", NULL, 12),
    REQUIRED(heads, "num_attention_heads", NULL, 12),
    REQUIRED(ffn, "ffn_dim", NULL, 3072),
    REQUIRED(vocab, "vocab_size", NULL, 50272),
    SIZE(max_positions, "max_position_embeddings", NULL, 2048),
    OR_NONE(embed_dim, "word_embed_proj_dim", 0),
    ACT("activation_function", ACT_RELU),
    RATE(residual_dropout, "dropout", 0.1),
    RATE(attention_dropout, "attention_dropout", 0),
    RATE(layerdrop, "layerdrop", 0),
    PAD(1),
    FLAG(norm_before, "do_layer_norm_before", 1),
    FLAG(final_norm, "_remove_final_layer_norm", 0), /* read as it is called; opt_rule turns it round */
    FLAG(norm_affine, "layer_norm_elementwise_affine", 1),
    FLAG(enable_bias, "enable_bias", 1),
    TIED(1),
    CACHE,
    END,
};

static enum err_code opt_rule(struct arch *a, const struct json *config, struct err *err)
{
    (void)config, (void)err;
    a->final_norm = a->norm_before && !a->final_norm; /* OPTDecoder.__init__ */
    return ERR_OK;
}

/* n_inner is in most files and in no line of BloomMLP: always 4h. */
static const struct arch_key bloom_keys[] = {
    REQUIRED(hidden, "hidden_size", "n_embed", 64),
    REQUIRED(layers, "n_layer", "num_hidden_layers", 2),
    REQUIRED(heads, "n_head", "num_attention_heads", 8),
    REQUIRED(vocab, "vocab_size", NULL, 250880),
    ACT_FIXED(ACT_BLOOM_GELU),
    RATE(residual_dropout, "hidden_dropout", 0),
    RATE(attention_dropout, "attention_dropout", 0),
    FLAG(residual_post_norm, "apply_residual_connection_post_layernorm", 0),
    SIZE(pretraining_tp, "pretraining_tp", NULL, 1),
    FLAG(slow_but_exact, "slow_but_exact", 0),
    TIED(1),
    CACHE,
    END,
};

static const struct arch_key codegen_keys[] = {
    REQUIRED(hidden, "n_embd", "hidden_size", 4096),
    REQUIRED(layers, "n_layer", "num_hidden_layers", 28),
    REQUIRED(heads, "n_head", "num_attention_heads", 16),
    REQUIRED(vocab, "vocab_size", NULL, 50400),
    SIZE(max_positions, "n_positions", "max_position_embeddings", 2048),
    OR_NONE(ffn, "n_inner", 0),
    SIZE(rotary_dim, "rotary_dim", NULL, 64),
    ACT("activation_function", ACT_GELU_NEW),
    RATE(embed_dropout, "embd_pdrop", 0),
    RATE(residual_dropout, "resid_pdrop", 0),
    RATE(attention_dropout, "attn_pdrop", 0),
    TIED(0),
    CACHE,
    END,
};

static enum err_code codegen_rule(struct arch *a, const struct json *config, struct err *err)
{
    /* CodeGenAttention.forward: mp_num = 4 shares of whole heads. */
    if (a->heads % 4)
        return keys_refuse(err, ERR_ARCH_INVALID, keys_spelling(codegen_keys, AT(heads), config),
                           "%u heads do not split into the 4 parts of CodeGen's qkv_proj", a->heads);
    return ERR_OK;
}

static const struct arch_key biogpt_keys[] = {
    REQUIRED(hidden, "hidden_size", NULL, 1024),
    REQUIRED(layers, "num_hidden_layers", NULL, 24),
    REQUIRED(heads, "num_attention_heads", NULL, 16),
    REQUIRED(ffn, "intermediate_size", NULL, 4096),
    REQUIRED(vocab, "vocab_size", NULL, 42384),
    SIZE(max_positions, "max_position_embeddings", NULL, 1024),
    ACT("hidden_act", ACT_GELU),
    RATE(embed_dropout, "hidden_dropout_prob", 0.1),
    RATE(residual_dropout, "hidden_dropout_prob", 0.1),
    RATE(attention_dropout, "attention_probs_dropout_prob", 0.1),
    RATE(activation_dropout, "activation_dropout", 0),
    RATE(layerdrop, "layerdrop", 0),
    FLAG(scale_embedding, "scale_embedding", 1),
    PAD(1),
    TIED(1),
    CACHE,
    END,
};

#define GPT2_KEYS(default_activation)                                                                     \
    REQUIRED(hidden, "n_embd", "hidden_size", 768), REQUIRED(layers, "n_layer", "num_hidden_layers", 12), \
        REQUIRED(heads, "n_head", "num_attention_heads", 12), REQUIRED(vocab, "vocab_size", NULL, 50257), \
        SIZE(max_positions, "n_positions", "max_position_embeddings", 1024), OR_NONE(ffn, "n_inner", 0),  \
        ACT("activation_function", default_activation), RATE(embed_dropout, "embd_pdrop", 0.1),           \
        RATE(residual_dropout, "resid_pdrop", 0.1), RATE(attention_dropout, "attn_pdrop", 0.1),           \
        FLAG(scale_attn_weights, "scale_attn_weights", 1), REFUSED("add_cross_attention"), TIED(1), CACHE

static const struct arch_key gpt2_keys[] = {
    GPT2_KEYS(ACT_GELU_NEW),
    FLAG(scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx", 0),
    FLAG(reorder_and_upcast_attn, "reorder_and_upcast_attn", 0),
    END,
};

static const struct arch_key gpt_bigcode_keys[] = {
    GPT2_KEYS(ACT_GELU_PYTORCH_TANH),
    FLAG(multi_query, "multi_query", 1),
    FLAG(attention_softmax_in_fp32, "attention_softmax_in_fp32", 1),
    FLAG(scale_attention_softmax_in_fp32, "scale_attention_softmax_in_fp32", 1),
    END,
};

static enum err_code gpt_bigcode_rule(struct arch *a, const struct json *config, struct err *err)
{
    (void)config, (void)err;
    if (a->multi_query)
        a->kv_heads = 1;
    return ERR_OK;
}

static const struct arch_key gpt_neo_keys[] = {
    REQUIRED(hidden, "hidden_size", NULL, 2048),
    REQUIRED(layers, "num_layers", "num_hidden_layers", 24),
    REQUIRED(heads, "num_heads", "num_attention_heads", 16),
    REQUIRED(vocab, "vocab_size", NULL, 50257),
    SIZE(max_positions, "max_position_embeddings", NULL, 2048),
    OR_NONE(ffn, "intermediate_size", 0),
    SIZE(sliding_window, "window_size", NULL, 256),
    ACT("activation_function", ACT_GELU_NEW),
    RATE(embed_dropout, "embed_dropout", 0),
    RATE(residual_dropout, "resid_dropout", 0),
    RATE(attention_dropout, "attention_dropout", 0),
    TIED(1),
    CACHE,
    END,
};

static const struct arch_key gpt_neox_keys[] = {
    REQUIRED(hidden, "hidden_size", NULL, 6144),
    REQUIRED(layers, "num_hidden_layers", NULL, 44),
    REQUIRED(heads, "num_attention_heads", NULL, 64),
    REQUIRED(ffn, "intermediate_size", NULL, 24576),
    REQUIRED(vocab, "vocab_size", NULL, 50432),
    SIZE(max_positions, "max_position_embeddings", NULL, 2048),
    ACT("hidden_act", ACT_GELU),
    RATE(embed_dropout, "hidden_dropout", 0),
    RATE(residual_dropout, "hidden_dropout", 0),
    RATE(attention_dropout, "attention_dropout", 0),
    FLAG(attention_bias, "attention_bias", 1),
    FLAG(parallel_residual, "use_parallel_residual", 1),
    TIED(0),
    CACHE,
    END,
};

/* What llama and those that were copied from it share. */
#define LLAMA_KEYS(h, l, a, i, v, positions)                                                                     \
    REQUIRED(hidden, "hidden_size", NULL, h), REQUIRED(layers, "num_hidden_layers", NULL, l),                    \
        REQUIRED(heads, "num_attention_heads", NULL, a), REQUIRED(ffn, "intermediate_size", NULL, i),            \
        REQUIRED(vocab, "vocab_size", NULL, v), SIZE(max_positions, "max_position_embeddings", NULL, positions), \
        RATE(attention_dropout, "attention_dropout", 0), FLAG(is_causal, "is_causal", 1), CACHE

static const struct arch_key llama_keys[] = {
    LLAMA_KEYS(4096, 32, 32, 11008, 32000, 2048),
    OR_NONE(kv_heads, "num_key_value_heads", 0),
    OR_NONE(head_dim, "head_dim", 0),
    ACT("hidden_act", ACT_SILU),
    FLAG(attention_bias, "attention_bias", 0),
    FLAG(mlp_bias, "mlp_bias", 0),
    SIZE(pretraining_tp, "pretraining_tp", NULL, 1),
    PAD(NONE),
    TIED(0),
    END,
};

static const struct arch_key mistral_keys[] = {
    LLAMA_KEYS(4096, 32, 32, 14336, 32000, 131072),
    OR_NONE(kv_heads, "num_key_value_heads", 8),
    OR_NONE(head_dim, "head_dim", 0),
    ACT("hidden_act", ACT_SILU),
    OR_NONE(sliding_window, "sliding_window", 4096),
    PAD(NONE),
    TIED(0),
    END,
};

static const struct arch_key qwen2_keys[] = {
    LLAMA_KEYS(4096, 32, 32, 22016, 151936, 32768),
    OR_NONE(kv_heads, "num_key_value_heads", 32),
    OR_NONE(head_dim, "head_dim", 0), /* no argument of the class, but Qwen2Attention asks for it */
    ACT("hidden_act", ACT_SILU),
    OR_NONE(sliding_window, "sliding_window", 4096),
    PAD(NONE),
    TIED(0),
    END,
};

static const struct arch_key qwen3_keys[] = {
    LLAMA_KEYS(4096, 32, 32, 22016, 151936, 32768),
    OR_NONE(kv_heads, "num_key_value_heads", 32),
    OR_NONE(head_dim, "head_dim", 128),
    ACT("hidden_act", ACT_SILU),
    OR_NONE(sliding_window, "sliding_window", 4096),
    FLAG(attention_bias, "attention_bias", 0),
    PAD(NONE),
    TIED(0),
    END,
};

static const struct arch_key gemma2_keys[] = {
    LLAMA_KEYS(2304, 26, 8, 9216, 256000, 8192),
    OR_NONE(kv_heads, "num_key_value_heads", 4),
    OR_NONE(head_dim, "head_dim", 256),
    ACT("hidden_activation", ACT_GELU_PYTORCH_TANH), /* hidden_act is in the files and is not read */
    OR_NONE(sliding_window, "sliding_window", 4096),
    FLAG(attention_bias, "attention_bias", 0),
    REAL(query_pre_attn_scalar, "query_pre_attn_scalar", 256),
    REAL_OR_NONE(final_logit_softcapping, "final_logit_softcapping", 30),
    REAL_OR_NONE(attn_logit_softcapping, "attn_logit_softcapping", 50),
    REFUSED("use_bidirectional_attention"),
    PAD(0),
    TIED(1),
    END,
};

const struct family_row family_rows[FAMILY_COUNT] = {
    [FAMILY_OPT] = {"opt", opt_keys, 0, LAYERS_FULL, true, opt_rule},
    [FAMILY_BLOOM] = {"bloom", bloom_keys, 0, LAYERS_FULL, true, NULL},
    [FAMILY_CODEGEN] = {"codegen", codegen_keys, 0, LAYERS_FULL, true, codegen_rule},
    [FAMILY_GPTJ] = {"gptj", codegen_keys, 0, LAYERS_FULL, true, NULL},
    [FAMILY_BIOGPT] = {"biogpt", biogpt_keys, 0, LAYERS_FULL, true, NULL},
    [FAMILY_GPT_BIGCODE] = {"gpt_bigcode", gpt_bigcode_keys, 0, LAYERS_FULL, true, gpt_bigcode_rule},
    [FAMILY_GPT_NEO] = {"gpt_neo", gpt_neo_keys, 0, LAYERS_GPT_NEO, true, NULL},
    [FAMILY_GPT2] = {"gpt2", gpt2_keys, 0, LAYERS_FULL, true, NULL},
    [FAMILY_GPT_NEOX] = {"gpt_neox", gpt_neox_keys, 0.25, LAYERS_FULL, true, NULL},
    [FAMILY_LLAMA] = {"llama", llama_keys, 1, LAYERS_FULL, false, NULL},
    [FAMILY_MISTRAL] = {"mistral", mistral_keys, 1, LAYERS_WINDOWED, false, NULL},
    [FAMILY_QWEN2] = {"qwen2", qwen2_keys, 1, LAYERS_ABOVE, false, NULL},
    [FAMILY_QWEN3] = {"qwen3", qwen3_keys, 1, LAYERS_ABOVE, false, NULL},
    [FAMILY_GEMMA2] = {"gemma2", gemma2_keys, 1, LAYERS_ALTERNATE, false, NULL},
};

enum family family_find(const char *model_type)
{
    int family = 0;

    while (family < FAMILY_COUNT && strcmp(family_rows[family].name, model_type))
        family++;
    return (enum family)family;
}

void family_names(char *ret, size_t bytes)
{
    size_t used = 0;

    for (int i = 0; i < FAMILY_COUNT && used < bytes; i++)
        used += (size_t)snprintf(ret + used, bytes - used, "%s%s", i ? ", " : "", family_rows[i].name);
}

const char *family_name(enum family family)
{
    return family_rows[family].name;
}
