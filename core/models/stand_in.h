/*
 * stand_in.h - what files of strangers import and training has no use for: modules that can be imported, and leave the language where they are used.
 *
 * Threads   pure.
 */
#ifndef MODELS_STAND_IN_H
#define MODELS_STAND_IN_H

#include "models/program.h"

/* core/models/stand_in: the file of that name or of a package that it is in, else the one for anything. */
const struct program_file *stand_in_file(const char *name);
bool stand_in_package(const char *name); /* a package that people's files import at their top, without need */
/* script_host.source of a request's own files: those packages, and what else of transformers the library does not have. */
bool stand_in_source(void *files, const char *name, const char **path, const char **text, size_t *bytes, bool *package);

#endif
