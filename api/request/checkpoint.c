/* The form that a checkpoint's quantization_config says its weights have. */
#include "api/answer/estimate.h"

#include "tuning/packed.h"

#include <string.h>

static bool is_true(const struct json *q, const char *key)
{
    bool v = false;

    return json_bool(json_get(q, key), &v) && v;
}

static uint64_t whole(const struct json *q, const char *key, uint64_t otherwise)
{
    uint64_t v;

    return json_uint64(json_get(q, key), &v) ? v : otherwise;
}

static bool has_usual_blocks(const struct json *q)
{
    const struct json *block = json_get(q, "weight_block_size");
    uint64_t v;

    if (json_count(block) != 2)
        return false;
    json_each (side, block)
        if (!json_uint64(side, &v) || v != PACKED_BLOCK)
            return false;
    return !json_str(json_get(q, "activation_scheme")) || !strcmp(json_str(json_get(q, "activation_scheme")), "dynamic");
}

static int of_bitsandbytes(const struct json *q)
{
    const char *kind = json_str(json_get(q, "bnb_4bit_quant_type"));

    if (is_true(q, "load_in_8bit"))
        return WEIGHTS_INT8;
    if (!is_true(q, "load_in_4bit"))
        return -1;
    if (!kind || !strcmp(kind, "fp4")) /* BitsAndBytesConfig's default: utils/quantization_config.py */
        return WEIGHTS_FP4;
    return is_true(q, "bnb_4bit_use_double_quant") ? WEIGHTS_NF4_DQ : WEIGHTS_NF4;
}

int checkpoint_weights(const struct json *config, uint32_t *ret_group)
{
    const struct json *q = json_get(config, "quantization_config");
    const char *method = json_str(json_get(q, "quant_method"));
    uint64_t bits = whole(q, "bits", whole(q, "w_bit", 4)), group = whole(q, "group_size", whole(q, "q_group_size", 0));

    *ret_group = group < UINT32_MAX ? (uint32_t)group : 0;
    if (!method || !strcmp(method, "bitsandbytes"))
        return of_bitsandbytes(q);
    if (!strcmp(method, "gptq") && !is_true(q, "desc_act"))
        return bits == 4 ? WEIGHTS_GPTQ4 : bits == 8 ? WEIGHTS_GPTQ8 : -1;
    if (!strcmp(method, "awq"))
        return bits == 4 ? WEIGHTS_AWQ4 : -1;
    return !strcmp(method, "fp8") && has_usual_blocks(q) ? WEIGHTS_FP8 : -1;
}

bool checkpoint_is_read(const struct estimate *e, const struct json *config)
{
    uint32_t group;

    return asks_inference(&e->rq) && (e->rq.inference.weights.n || checkpoint_weights(config, &group) >= 0);
}
