#include "tuning/targets.h"

#include <string.h>

enum { MAX_TARGETS = 6 };

static const struct targets {
    const char *model_type;
    release since; /* the release whose table has it first; a later row of the same type replaces it */
    const char *modules[MAX_TARGETS + 1];
    const char *pattern;
} table[] = {
#define TARGETS(type, since, ...) {type, since, {__VA_ARGS__}, NULL},
#define TARGETS_PATTERN(type, since, pattern) {type, since, {NULL}, pattern},
#include "tuning/targets.def"
#undef TARGETS_PATTERN
#undef TARGETS
};

bool targets_default(const char *model_type, release peft, struct default_targets *ret)
{
    const struct targets *last = NULL;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].model_type, model_type) && table[i].since <= peft)
            last = &table[i];
    if (!last || (!last->modules[0] && !last->pattern))
        return false;
    *ret = (struct default_targets){.modules = last->modules, .pattern = last->pattern};
    while (last->modules[ret->n])
        ret->n++;
    return true;
}

static const struct expert_names of_mixtral[] = {{"gate", "gate.weight"}, {"w1", "gate_up_proj"}, {"w3", "gate_up_proj"}, {"w2", "down_proj"}, {0}};
static const struct expert_names of_qwen2_moe[] = {
    {"gate", "gate.weight"}, {"gate_proj", "gate_up_proj"}, {"up_proj", "gate_up_proj"}, {"down_proj", "down_proj"}, {0}};
static const struct {
    const char *model_type;
    const struct expert_names *names;
} experts[] = {
    {"mixtral", of_mixtral},
    {"minimax", of_mixtral},
    {"minimax_m2", of_mixtral},
    {"afmoe", of_qwen2_moe},
    {"beam", of_qwen2_moe},
    {"cohere2_moe", of_qwen2_moe},
    {"deepseek_v2", of_qwen2_moe},
    {"deepseek_v3", of_qwen2_moe},
    {"deepseek_v32", of_qwen2_moe},
    {"dots1", of_qwen2_moe},
    {"ernie4_5_moe", of_qwen2_moe},
    {"exaone_moe", of_qwen2_moe},
    {"flex_olmo", of_qwen2_moe},
    {"glm4_moe", of_qwen2_moe},
    {"glm4_moe_lite", of_qwen2_moe},
    {"glm4v_moe", of_qwen2_moe},
    {"glm_moe_dsa", of_qwen2_moe},
    {"hunyuan_v1_moe", of_qwen2_moe},
    {"longcat_flash", of_qwen2_moe},
    {"mellum", of_qwen2_moe},
    {"olmoe", of_qwen2_moe},
    {"qwen3_moe", of_qwen2_moe},
    {"qwen3_next", of_qwen2_moe},
    {"qwen3_omni_moe", of_qwen2_moe},
    {"qwen3_omni_moe_text", of_qwen2_moe},
    {"qwen3_omni_moe_thinker", of_qwen2_moe},
    {"solar_open", of_qwen2_moe},
};

const char *const *targets_of_sketch(const char *name)
{
    static const char *const qkv[] = {"q_proj", "k_proj", "v_proj", NULL}, *const out[] = {"o_proj", NULL},
                             *const in[] = {"gate_proj", "up_proj", NULL}, *const down[] = {"down_proj", NULL};
    static const struct {
        const char *name;
        const char *const *as;
    } alike[] = {
        {"query_key_value", qkv}, {"qkv_proj", qkv},     {"Wqkv", qkv},        {"W_pack", qkv},         {"wqkv", qkv},
        {"dense", out},           {"dense_h_to_4h", in}, {"gate_up_proj", in}, {"dense_4h_to_h", down},
    };

    for (size_t i = 0; i < sizeof alike / sizeof *alike; i++)
        if (!strcmp(alike[i].name, name))
            return alike[i].as;
    return NULL;
}

const struct expert_names *targets_of_experts(const char *model_type)
{
    for (size_t i = 0; i < sizeof experts / sizeof *experts; i++)
        if (!strcmp(experts[i].model_type, model_type))
            return experts[i].names;
    return NULL;
}
