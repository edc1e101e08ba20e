/*
 * stand_in.h - what files of strangers import and training has no use for: modules that can be imported, and leave the language where they are used.
 *
 * Threads   pure.
 */
#ifndef MODELS_STAND_IN_H
#define MODELS_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>

extern const char stand_in_text[];           /* of such a module */
const char *stand_in_text_of(const char *name); /* numpy has a little more */
bool stand_in_package(const char *name);     /* a package that people's files import at their top, without need */
/* script_host.source of a request's own files: those packages, and what else of transformers the library does not have. */
bool stand_in_source(void *files, const char *name, const char **path, const char **text, size_t *bytes, bool *package);

#endif
