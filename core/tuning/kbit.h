/*
 * kbit.h - the words for quantised base weights: what a recipe says of them.
 */
#ifndef TUNING_KBIT_H
#define TUNING_KBIT_H

enum kbit { KBIT_NONE, KBIT_FP4, KBIT_NF4, KBIT_NF4_DQ, KBIT_INT8, KBIT_COUNT }; /* DQ: bnb_4bit_use_double_quant */
enum kbit_prepare { KBIT_PREPARE_NONE, KBIT_PREPARE_PEFT, KBIT_PREPARE_TRL };

#endif
