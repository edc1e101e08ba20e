/*
 * kbit.h - the words for quantised base weights: what a recipe says of them.
 */
#ifndef TUNING_KBIT_H
#define TUNING_KBIT_H

#include <stdbool.h>

/* DQ: bnb_4bit_use_double_quant */
enum kbit {
    KBIT_NONE, KBIT_FP4, KBIT_NF4, KBIT_NF4_DQ, KBIT_INT8, KBIT_GPTQ4, KBIT_GPTQ8,
    KBIT_TORCHAO_INT8, KBIT_TORCHAO_NF4, KBIT_AWQ4, KBIT_HQQ4, KBIT_HQQ8, KBIT_COUNT
};
enum kbit_prepare { KBIT_PREPARE_NONE, KBIT_PREPARE_PEFT, KBIT_PREPARE_TRL, KBIT_PREPARE_AXOLOTL };

/* What a checkpoint's quantization_config says: it stays packed, as `quantization` has it (BYTES: bitsandbytes' in uint8), or is dequantised while it is
 * loaded. */
enum checkpoint_form { CHECKPOINT_NUMBERS, CHECKPOINT_PACKED, CHECKPOINT_PACKED_BYTES, CHECKPOINT_MXFP4, CHECKPOINT_FP8 };

/* Quantised while the model loads, by bitsandbytes. */
static inline bool kbit_is_bnb(enum kbit k)
{
    return k >= KBIT_FP4 && k <= KBIT_INT8;
}
static inline bool kbit_is_torchao(enum kbit k)
{
    return k == KBIT_TORCHAO_INT8 || k == KBIT_TORCHAO_NF4;
}
static inline bool kbit_is_hqq(enum kbit k)
{
    return k == KBIT_HQQ4 || k == KBIT_HQQ8;
}
/* Quantised while the model loads, by whichever package. */
static inline bool kbit_is_loaded(enum kbit k)
{
    return kbit_is_bnb(k) || kbit_is_hqq(k) || kbit_is_torchao(k);
}
/* A checkpoint that is packed already. */
static inline bool kbit_is_gptq(enum kbit k)
{
    return k == KBIT_GPTQ4 || k == KBIT_GPTQ8;
}

#endif
