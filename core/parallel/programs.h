/*
 * programs.h - the programs of this folder, one name each: see methods.def.
 */
#ifndef PARALLEL_PROGRAMS_H
#define PARALLEL_PROGRAMS_H

#include "parallel/program.h"

extern const struct method_program colossal_program; /* Colossal-AI's Gemini, as LLMem ran it */
extern const struct method_program ddp_program;
extern const struct method_program fsdp1_program;
extern const struct method_program fsdp2_program, tp_program, tp_fsdp2_program, pp_program;
extern const struct method_program zero0_program; /* an engine that shards nothing */
extern const struct method_program zero12_program; /* ZeRO-1 and 2 */
extern const struct method_program zero3_program;

#endif
