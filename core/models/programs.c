/* programs.c - the builtin programs in the language: core/natives/library, core/models/library, core/models/families, as they lie there. */
#include "models/program.h"

const struct program_file program_files[] = {
#include "gen/programs.inc"
};
const size_t n_program_files = sizeof program_files / sizeof *program_files;
