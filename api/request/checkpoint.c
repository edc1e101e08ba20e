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
    if (!strcmp(method, "mxfp4"))
        return WEIGHTS_MXFP4;
    return !strcmp(method, "fp8") && has_usual_blocks(q) ? WEIGHTS_FP8 : -1;
}

/* What is not packed beside the head, which transformers leaves alone by itself: a list of its own in the checkpoints that have one. */
static bool leaves_more_alone(const struct json *q)
{
    const struct json *skipped = json_get(q, "llm_int8_skip_modules");

    json_each (name, skipped)
        if (!json_str(name) || strcmp(json_str(name), "lm_head") != 0)
            return true;
    return false;
}

/* WQLinear_GEMM of every linear */
static bool is_plain_awq(const struct json *q)
{
    const char *version = json_str(json_get(q, "version"));

    return (!version || !strcmp(version, "gemm") || !strcmp(version, "GEMM")) && !json_count(json_get(q, "modules_to_not_convert"));
}

enum kbit checkpoint_kbit(const struct json *config)
{
    static const enum kbit kbits[WEIGHTS_COUNT] = {
        [WEIGHTS_INT8] = KBIT_INT8, [WEIGHTS_NF4] = KBIT_NF4, [WEIGHTS_NF4_DQ] = KBIT_NF4_DQ,
        [WEIGHTS_FP4] = KBIT_FP4, [WEIGHTS_GPTQ4] = KBIT_GPTQ4, [WEIGHTS_GPTQ8] = KBIT_GPTQ8, [WEIGHTS_AWQ4] = KBIT_AWQ4};
    uint32_t group;
    int weights = checkpoint_weights(config, &group);
    enum kbit k = weights >= 0 ? kbits[weights] : KBIT_NONE;

    if ((kbit_is_gptq(k) || k == KBIT_AWQ4) && group != PACKED_GROUP)
        return KBIT_NONE;
    if (k == KBIT_AWQ4 && !is_plain_awq(json_get(config, "quantization_config")))
        return KBIT_NONE;
    return kbit_is_bnb(k) && leaves_more_alone(json_get(config, "quantization_config")) ? KBIT_NONE : k;
}

enum checkpoint_form checkpoint_form(const struct json *config)
{
    const struct json *q = json_get(config, "quantization_config");
    const char *method = json_str(json_get(q, "quant_method")), *storage = json_str(json_get(q, "bnb_4bit_quant_storage"));
    enum kbit k = checkpoint_kbit(config);

    if (k)
        return kbit_is_bnb(k) && (!storage || !strcmp(storage, "uint8")) ? CHECKPOINT_PACKED_BYTES : CHECKPOINT_PACKED;
    if (!method)
        return CHECKPOINT_NUMBERS;
    return !strcmp(method, "mxfp4") ? CHECKPOINT_MXFP4 : !strcmp(method, "fp8") ? CHECKPOINT_FP8 : CHECKPOINT_NUMBERS;
}

bool checkpoint_is_read(const struct estimate *e, const struct json *config)
{
    uint32_t group;

    if (asks_inference(&e->rq))
        return e->rq.inference.weights.n || checkpoint_weights(config, &group) >= 0;
    return checkpoint_form(config) != CHECKPOINT_NUMBERS;
}

enum err_code checkpoint_take(struct estimate *e)
{
    enum kbit k = checkpoint_kbit(e->model.config), asked;
    struct words *said = &e->rq.training.quantization;
    enum checkpoint_form form = checkpoint_form(e->model.config);

    if (asks_inference(&e->rq))
        return ERR_OK;
    if (form == CHECKPOINT_MXFP4 || form == CHECKPOINT_FP8)
        note_of(&e->assumptions, NOTE_OF_YOURS, "the checkpoint's %s weights are dequantised while they are loaded (%s(dequantize=True)), to the dtype of "
                "the others: transformers trains none that stay packed", form == CHECKPOINT_MXFP4 ? "mxfp4" : "fp8",
                form == CHECKPOINT_MXFP4 ? "Mxfp4Config" : "FineGrainedFP8Config");
    if (!k)
        return ERR_OK;
    asked = said->n ? (enum kbit)quantization_words[said->at[0]].value : k;
    if (asked != k)
        return err_set(e->call->err, ERR_FIELD_CONFLICT, "/training/quantization",
                       "the checkpoint's quantization_config says %s: leave it out, or give the config quantization_config null, which is another checkpoint",
                       word_named(quantization_words, (int)k));
    if (said->n)
        return ERR_OK;
    while (quantization_words[said->at[0]].value != (int)k)
        said->at[0]++;
    said->n = 1;
    note_of(&e->assumptions, NOTE_OF_YOURS, "training.quantization %s: the checkpoint's quantization_config%s", word_named(quantization_words, (int)k),
            kbit_is_bnb(k) ? "; it is loaded as one that is quantised on the way" : "");
    return ERR_OK;
}
