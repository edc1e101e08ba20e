/*
 * yaml_text.h - a YAML file of settings as JSON.
 *
 * Models    one document of mappings, sequences and scalars. Plain scalars are what PyYAML's safe_load makes of them (YAML 1.1: `no`
 *           is false, `5e-5` without a dot is a string). Refused: aliases, tags, keys that are no scalars, more than 16 levels.
 * Source    PyYAML 6.0 resolver.py; accelerate and axolotl read their files with safe_load.
 * Errors    ERR_FIELD_VALUE with the line; ERR_NOMEM.
 * Owner     the document is the caller's: json_free().
 */
#ifndef API_THEIRS_YAML_TEXT_H
#define API_THEIRS_YAML_TEXT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/jsonw.h"

MUST_CHECK enum err_code yaml_parse(const char *text, size_t bytes, struct arena *arena, struct json **ret, struct err *err);

/* A plain scalar under a name: null, a flag, a number or text, as PyYAML resolves it. */
void yaml_write_plain(struct jsonw *w, const char *name, const char *s);

#endif
