/*
 * command_text.h - a command line, or the shell script that holds it, as JSON.
 *
 * Purpose   ms-swift, open-instruct and trl are started by commands: `swift sft --model X --tuner_type lora`. Their flags are what
 *           their YAML files hold.
 * Models    the first command that has a flag: {"model": "X", "tuner_type": "lora"}. A flag alone is true, one value is what YAML makes of
 *           it (or an object where it is JSON), several are a list; '-' within a name is '_'. Flags before the script (a word that ends in
 *           .py), NPROC_PER_NODE, NNODES of the environment and what is run (the script, or "sft" of `swift sft`) stand in
 *           "launcher". Known variables and `expr A / B` are filled in.
 * Not       run: no other substitution, no loops. What is left of them stays as text.
 * Errors    ERR_FIELD_VALUE, ERR_NOMEM.
 * Owner     the document is the caller's: json_free().
 */
#ifndef API_THEIRS_COMMAND_TEXT_H
#define API_THEIRS_COMMAND_TEXT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>

/* Whether a text is a command rather than YAML: its first line that says something is no mapping, and a flag stands in it. */
bool command_is(const char *text);

MUST_CHECK enum err_code command_parse(const char *text, struct arena *arena, struct json **ret, struct err *err);

#endif
