/*
 * pattern.h - Python's regular expressions, as far as module names need them.
 *
 * Purpose   peft reads target_modules as a regular expression where it is one string: re.fullmatch(pattern, name) (peft 0.21.2
 *           tuners/tuners_utils.py check_target_module_exists, utils/other.py match_target_against_key; 0.10.0 alike).
 * Models    literals, ., classes, \d \w \s and their opposites, anchors, \b, groups of every kind that only groups, alternation, greedy and lazy
 *           repetition, {m,n}, look-ahead, look-behind of one width, the flags i, m, s, a, u. All ways to match are followed at once, so that
 *           the time of a match is bounded by the lengths of pattern and name.
 *           Not modelled, refused: backreferences, conditionals, atomic groups, possessive repetition, the flag x.
 * Source    CPython 3.12 Lib/re/_parser.py: what is an error there is one here.
 * Errors    ERR_FIELD_VALUE with what is wrong, and where; ERR_NOMEM.
 * Owner     the arena.
 */
#ifndef TUNING_PATTERN_H
#define TUNING_PATTERN_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct pattern;

enum { PATTERN_MAX_BYTES = 1024 }; /* of text */

/* `at`: the JSON Pointer that errors name. */
MUST_CHECK enum err_code pattern_compile(const char *text, const char *at, struct arena *arena, const struct pattern **ret,
                                         struct err *err);

/* re.fullmatch. A match that takes more steps than PATTERN_MAX_STEPS, or than are left of all, is none, and `exhausted` is set. */
enum { PATTERN_MAX_STEPS = 200000, PATTERN_ALL_STEPS = 8000000 };
struct pattern_effort {
    uint32_t steps; /* of all matches so far */
    bool exhausted;
};
bool pattern_matches(const struct pattern *p, const char *name, struct pattern_effort *effort);

#endif
