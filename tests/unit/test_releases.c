/* Every date of quirks.def at which transformers changed these families shows: some small step of one of them walks otherwise from that release on. */
#include "tests/support/programs.h"
#include "base/json.h"
#include "config/arch.h"
#include "tests/support/traced.h"
#include "tests/support/unit.h"
#include "torch/run.h"
#include "train/trainer.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 64 << 20 };

static unsigned char *block;

static const char *const configs[] = {
#define SMALL "\"hidden_size\":64,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"num_hidden_layers\":2,\"intermediate_size\":96,\"vocab_size\":128,\"max_position_embeddings\":256"
    "{\"model_type\":\"llama\",\"mlp_bias\":true," SMALL "}",
    "{\"model_type\":\"llama\",\"is_causal\":false," SMALL "}",
    "{\"model_type\":\"mistral\",\"sliding_window\":32," SMALL "}",
    "{\"model_type\":\"qwen2\",\"sliding_window\":32,\"use_sliding_window\":false," SMALL "}",
    "{\"model_type\":\"qwen3\",\"head_dim\":512,\"use_sliding_window\":false," SMALL "}",
    "{\"model_type\":\"gemma2\",\"head_dim\":16,\"sliding_window\":32,\"attn_logit_softcapping\":50.0,\"final_logit_softcapping\":30.0," SMALL "}",
    "{\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts_per_tok\":2,\"output_router_logits\":true," SMALL "}",
    "{\"model_type\":\"mixtral\",\"num_local_experts\":4,\"num_experts_per_tok\":2," SMALL "}",
    "{\"model_type\":\"qwen2_moe\",\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"shared_expert_intermediate_size\":64," SMALL "}",
    "{\"model_type\":\"deepseek_v3\",\"n_routed_experts\":4,\"n_group\":2,\"topk_group\":1,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"q_lora_rank\":32,"
    "\"kv_lora_rank\":32,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":16,\"v_head_dim\":16,\"first_k_dense_replace\":1," SMALL "}",
    "{\"model_type\":\"phi3\",\"original_max_position_embeddings\":32,\"pad_token_id\":0,\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1,1,1,1,1,1,1],\"long_factor\":[2,2,2,2,2,2,2,2]}," SMALL "}",
    "{\"model_type\":\"qwen3_next\",\"head_dim\":16,\"layer_types\":[\"linear_attention\",\"full_attention\"],\"linear_num_value_heads\":4,\"linear_num_key_heads\":2,"
    "\"linear_key_head_dim\":16,\"linear_value_head_dim\":16,\"num_experts\":4,\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
    "\"shared_expert_intermediate_size\":32," SMALL "}",
    "{\"model_type\":\"gemma3_text\",\"head_dim\":16,\"sliding_window\":32," SMALL "}",
    "{\"model_type\":\"gemma3\",\"text_config\":{\"model_type\":\"gemma3_text\",\"head_dim\":16,\"sliding_window\":32," SMALL "},\"vision_config\":{\"model_type\":"
    "\"siglip_vision_model\",\"hidden_size\":32,\"image_size\":28,\"patch_size\":14,\"intermediate_size\":64,\"num_attention_heads\":2,\"num_hidden_layers\":1,"
    "\"vision_use_head\":false}}",
    "{\"model_type\":\"gemma4\",\"text_config\":{\"model_type\":\"gemma4_text\",\"head_dim\":16,\"global_head_dim\":16,\"sliding_window\":32,\"hidden_size_per_layer_input\":0,"
    SMALL "},\"vision_config\":{\"model_type\":\"gemma4_vision\",\"hidden_size\":32,\"intermediate_size\":64,\"num_attention_heads\":2,\"num_key_value_heads\":2,"
    "\"head_dim\":16,\"num_hidden_layers\":1,\"position_embedding_size\":16}}",
    "{\"model_type\":\"llama4\",\"text_config\":{\"model_type\":\"llama4_text\",\"head_dim\":16,\"intermediate_size_mlp\":96,\"num_local_experts\":4,"
    "\"num_experts_per_tok\":1," SMALL "},\"vision_config\":{\"model_type\":\"llama4_vision_model\",\"hidden_size\":32,\"intermediate_size\":128,"
    "\"num_attention_heads\":2,\"num_hidden_layers\":1,\"image_size\":28,\"patch_size\":14,\"vision_output_dim\":32,\"projector_input_dim\":32,"
    "\"projector_output_dim\":32}}",
#define SEES "\"in_channels\":3,\"patch_size\":14,\"spatial_merge_size\":2,\"temporal_patch_size\":2,\"num_heads\":2,\"depth\":1,"
    "{\"model_type\":\"qwen2_vl\",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[2,3,3]},\"vision_config\":{" SEES "\"embed_dim\":32,\"hidden_size\":64}," SMALL "}",
    "{\"model_type\":\"qwen2_5_vl\",\"rope_scaling\":{\"type\":\"mrope\",\"mrope_section\":[2,3,3]},\"vision_config\":{" SEES
    "\"hidden_size\":32,\"intermediate_size\":64,\"out_hidden_size\":64}," SMALL "}",
    "{\"model_type\":\"qwen3_vl\",\"text_config\":{\"model_type\":\"qwen3_vl_text\",\"head_dim\":16," SMALL "},\"vision_config\":{" SEES
    "\"hidden_size\":32,\"intermediate_size\":64,\"num_position_embeddings\":16,\"out_hidden_size\":64,\"deepstack_visual_indexes\":[0]}}",
#undef SEES
};

static const struct recipe steps[] = {
    {.attention = ATTENTION_SDPA, .micro_batch_size = 2, .use_cache = TRI_TRUE, .gradient_accumulation_steps = 2},
    {.attention = ATTENTION_SDPA, .micro_batch_size = 1, .precision = PRECISION_BF16_AUTOCAST, .use_cache = TRI_TRUE},
    {.attention = ATTENTION_SDPA, .micro_batch_size = 2, .padded = true},
    {.attention = ATTENTION_SDPA, .micro_batch_size = 1, .max_grad_norm = -1}, /* no clipping */
    {.attention = ATTENTION_SDPA, .micro_batch_size = 2, .attention_mask = TRI_FALSE},
    {.attention = ATTENTION_EAGER, .micro_batch_size = 2, .padded = true},
    {.attention = ATTENTION_FLASH_2, .micro_batch_size = 2, .padded = true},
    {.attention = ATTENTION_FLASH_2, .micro_batch_size = 1, .use_cache = TRI_TRUE},
    {.attention = ATTENTION_FLASH_2, .micro_batch_size = 2},
    {.attention = ATTENTION_EAGER, .micro_batch_size = 2, .gradient_checkpointing = TRI_TRUE, .checkpoint_reentrant = TRI_TRUE, .padded = true},
};

/* FNV-1a 64 of all births and deaths, or of the refusal. */
static uint64_t walked(const struct arch *arch, const struct step *step)
{
    uint64_t h = 0xcbf29ce484222325;
    struct arena a;
    struct trainer *t;
    struct err err = {0};

    arena_init(&a, block, ROOM);
    t = arena_new(&a, struct trainer);
    if (trainer_run(t, arch, step, &traced_device, &a, &err))
        return 1 + (uint64_t)err.code;
    for (uint32_t i = 0; i < t->run.n_events; i++) {
        uint32_t e = t->run.events[i];
        uint64_t bytes = event_is_of_block(e) ? t->run.births[e & EVENT_BLOCK].bytes : 0;

        h = (h ^ e) * 0x100000001b3;
        h = (h ^ bytes) * 0x100000001b3;
    }
    return h;
}

static bool arch_of(const char *text, struct arena *a, struct arch *ret)
{
    struct json *config = NULL;
    struct err err = {0};
    bool read = !json_parse(text, strlen(text), &json_limits_config, &config, &err) && !arch_read(config, a, ret, &err);

    json_free(config);
    return read;
}

static struct step step_at(const struct recipe *asked, const struct arch *arch, release transformers)
{
    struct step step = {.r = *asked};

    step.r.stack = (struct stack){2006, transformers, 13, 1002, 44, 15, 2006, 6, 0, 0, 0};
    step.r.seq_len_tokens = 64;
    step.r.max_grad_norm = asked->max_grad_norm < 0 ? 0 : 1;
    step.r.optimizer = OPTIMIZER_ADAMW_TORCH;
    step.r.attention_mask = asked->attention_mask == TRI_UNSET ? TRI_TRUE : asked->attention_mask;
    step.r.gradient_accumulation_steps = asked->gradient_accumulation_steps ? asked->gradient_accumulation_steps : 1;
    step.r.precision = asked->precision == PRECISION_UNSET ? PRECISION_BF16 : asked->precision;
    step.autocast = precision_autocasts(step.r.precision);
    step.quirks = quirks_for(&step.r.stack, arch->model_type);
    return step;
}

static bool lists(const char *model_types, const char *one)
{
    size_t n = strlen(one);

    for (const char *at = model_types; (at = strstr(at, one)); at += n)
        if ((at == model_types || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

/* Whether a step of one of the families walks otherwise at `from` than at the release before; model_types: NULL, or those that are asked. */
static bool shows(release from, const char *model_types)
{
    static unsigned char room[ROOM];
    bool differs = false;

    for (size_t c = 0; c < sizeof configs / sizeof *configs && !differs; c++) {
        struct arena a;
        struct arch arch;

        arena_init(&a, room, sizeof room);
        ck_assert(arch_of(configs[c], &a, &arch));
        if (model_types && !lists(model_types, arch.model_type))
            continue;
        for (size_t i = 0; i < sizeof steps / sizeof *steps && !differs; i++) {
            struct step before = step_at(&steps[i], &arch, from - 1), since = step_at(&steps[i], &arch, from);

            differs = walked(&arch, &before) != walked(&arch, &since);
        }
    }
    return differs;
}

/* Rows of other families and of other methods. */
static bool is_of_others(const char *name)
{
    static const char *const others[] = {"gpt", "bloom", "opt_", "biogpt", "bigcode", "codegen", "tensor_parallel_plans", "plans_are_todays", "loss_over_ranks", "trainer_divides",
                                         "checkpoints_forward_alone" /* hooks see it */, "checkpoints_every_n" /* refused before a walk */, "bnb_", "hqq_",
                                         "trainer_widens_embeddings",
                                         "masking_is_a_class" /* gpt_oss */, "generate_", "mpt_", "cohere_", "generation_in_config" /* no step has it */, "starcoder2_", "olmo2_", "olmo_",
                                         "nemotron_", "longrope_is_told_length" /* phi3 */, "scores_masked_in_place" /* phi, starcoder2 */,
                                         "load_counts_shares" /* of several ranks over 4 bits */, NULL};

    for (int i = 0; others[i]; i++)
        if (strstr(name, others[i]))
            return true;
    return false;
}

static bool is_of_these(const char *model_types)
{
    static const char *const these[] = {"llama", "mistral", "qwen2", "qwen3", "gemma2", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"};
    bool found = false;

    for (size_t i = 0; i < sizeof these / sizeof *these; i++)
        found |= lists(model_types, these[i]);
    return found;
}

START_TEST(each_date_shows)
{
    static const struct {
        const char *package, *name, *model_types;
        release from;
    } row[] = {
#define QUIRK(name, package, from, before, since, meaning) {#package, #name, NULL, from},
#define QUIRK_LATER(name, package, from, value, meaning) {#package, #name, NULL, from},
#define QUIRK_FOR(model_types, name, package, from) {#package, #name, model_types, from},
#define QUIRK_LATER_FOR(model_types, name, package, from, value, meaning) {#package, #name, model_types, from},
#include "stack/quirks.def"
    };

    block = malloc(ROOM);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (strcmp(row[i].package, "transformers") || is_of_others(row[i].name) || (row[i].model_types && !is_of_these(row[i].model_types)))
            continue;
        if (row[i].from >= 4041) /* what was read begins with 4.40 */
            ck_assert_msg(shows(row[i].from, row[i].model_types), "%s: nothing differs at %u", row[i].name, row[i].from);
    }
    free(block);
}
END_TEST

UNIT_TESTS("releases of transformers, date by date",
    unit_test(each_date_shows);
)
