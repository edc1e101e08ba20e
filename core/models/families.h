/*
 * families.h - the programs that models/families/ define, one name each. A new family: its file, a line here and in families.def.
 */
#ifndef MODELS_FAMILIES_H
#define MODELS_FAMILIES_H

#include "models/model.h"

extern const struct family_program gpt_neo_program;
extern const struct family_program gpt2_program;
extern const struct family_program gpt_bigcode_program;
extern const struct family_program opt_program, biogpt_program, bloom_program;
extern const struct family_program gpt_neox_program, codegen_program, gptj_program;

#endif
