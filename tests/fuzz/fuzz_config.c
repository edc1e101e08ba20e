/*
 * config.json as a hub or a request gives it: its reader, the program's inventory of parameters, and the file as a patch of itself.
 */
#include "api/api.h"
#include "base/json.h"
#include "config/arch.h"
#include "config/keys.h"
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
    "model_type", "architectures", "hidden_size", "n_embd", "d_model", "num_hidden_layers", "n_layer", "num_layers", "num_attention_heads", "n_head",
    "num_key_value_heads", "head_dim", "intermediate_size", "n_inner", "ffn_dim", "vocab_size", "max_position_embeddings", "n_positions", "rotary_dim",
    "rotary_pct", "rope_scaling", "rope_parameters", "rope_theta", "rope_type", "type", "factor", "original_max_position_embeddings", "short_factor",
    "long_factor", "partial_rotary_factor", "sliding_window", "use_sliding_window", "max_window_layers", "layer_types", "attention_types", "attention_layers",
    "window_size", "pretraining_tp", "word_embed_proj_dim", "pad_token_id", "hidden_act", "activation_function", "torch_dtype", "dtype",
    "tie_word_embeddings", "use_cache", "attention_bias", "mlp_bias", "multi_query", "use_parallel_residual", "enable_bias", "do_layer_norm_before",
    "_remove_final_layer_norm", "layer_norm_elementwise_affine", "attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop", "layerdrop",
    "attn_logit_softcapping", "final_logit_softcapping", "query_pre_attn_scalar", "quantization_config", "quant_method", "load_in_4bit", "text_config",
    "num_labels", "id2label", "is_causal", "scale_embedding", "add_cross_attention", "is_encoder_decoder", "num_experts", NULL,
};
static const char *const values[] = {
    "\"opt\"", "\"bloom\"", "\"codegen\"", "\"gptj\"", "\"biogpt\"", "\"gpt_bigcode\"", "\"gpt_neo\"", "\"gpt2\"", "\"gpt_neox\"", "\"llama\"", "\"mistral\"",
    "\"qwen2\"", "\"qwen3\"", "\"gemma2\"", "\"gelu_new\"", "\"silu\"", "\"torch.bfloat16\"", "\"linear\"", "\"dynamic\"", "\"yarn\"", "\"llama3\"",
    "\"longrope\"", "\"full_attention\"", "\"sliding_attention\"", "\"global\"", "\"local\"", "[[[\"global\",\"local\"],6]]", "1024", "1025", "1048576",
    "64", "4", "3", "NaN", "Infinity", "[1.0,1.0]", "{\"rope_type\":\"yarn\",\"factor\":4.0}", "{\"model_type\":\"llama\"}", NULL,
};
static const struct fuzz_grammar grammar = {.names = names, .values = values};
FUZZ_JSON(&grammar)

static struct api_response ask(const char *method, const char *path, const char *body, const struct api_config *config, struct arena *arena)
{
    struct api_request rq = {.method = method, .path = path, .body = body, .body_bytes = strlen(body), .arena = arena, .library = fuzz_library};
    struct api_needs needs;
    struct api_response r;

    api_needs(&rq, &needs);
    api_answer(&rq, config, config ? 1 : 0, &r);
    FUZZ_CHECK(r.status == 200 || r.status == 422 || r.status == 400 || r.status == 503, "%d: %s", r.status, r.body);
    FUZZ_CHECK(r.body[r.bytes - 1] == '\n' && strlen(r.body) == r.bytes, "an answer that does not end well");
    return r;
}

/* The parameters as the hub's file and as an inline config: the same. */
static void compare(const char *text, size_t bytes, struct arena *arena)
{
    const struct api_config config = {.model = "a/b", .revision = "main", .text = text, .bytes = bytes, .source = "hub"};
    struct api_response fetched = ask("GET", "/models/a/b", "", &config, arena), inline_;
    size_t room = bytes + 32;
    char *body = malloc(room);

    FUZZ_CHECK(body, "no memory");
    (void)snprintf(body, room, "{\"config\":%s}", text);
    inline_ = ask("POST", "/models", body, NULL, arena);
    FUZZ_CHECK(fetched.status != 200 || inline_.status == 200, "fetched it is read, inline: %s", inline_.body);
    (void)snprintf(body, room, "{\"model\":\"a/b\",\"config\":%s}", text);
    (void)ask("POST", "/models", body, &config, arena);
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = fuzz_arena(64 << 20);
    char *text = fuzz_text(data, size);
    struct json *doc = NULL;
    struct arch arch;
    struct err err = {0};

    if (!json_parse(text, size, &json_limits_config, &doc, &err)) {
        enum err_code rc = arch_parse(doc, &arena, &arch, &err);

        FUZZ_CHECK(rc != ERR_NOMEM && rc != ERR_INTERNAL && (!rc || err.detail[0]), "%d %s", rc, err.detail);
        FUZZ_CHECK(rc || (arch.layers && arch.layers <= ARCH_MAX_LAYERS && arch.heads && arch.kv_heads && arch.heads % arch.kv_heads == 0), "an odd shape");
        if (strlen(text) == size && (rc || arch.layers <= 48))
            compare(text, size, &arena);
    }
    json_free(doc);
    free(text);
    return 0;
}
