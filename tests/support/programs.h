/* programs.h - arch_parse() of a model with its program, as a request has it. */
#ifndef SUPPORT_PROGRAMS_H
#define SUPPORT_PROGRAMS_H

#include "config/arch.h"

struct json;

const struct program_library *programs_library(void); /* made once a process, by one thread; then any may use it */

/* arch_parse() and program_attach(); `config` may go. */
enum err_code arch_read(const struct json *config, struct arena *arena, struct arch *ret, struct err *err);

#endif
