/* around.c - what stands around an installed transformers' files: core/models/installed, and the flash-attn files of core/models/library. */
#include "models/program.h"

const struct program_file around_files[] = {
#include "gen/installed.inc"
};
const size_t n_around_files = sizeof around_files / sizeof *around_files;
