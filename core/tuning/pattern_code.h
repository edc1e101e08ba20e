/*
 * pattern_code.h - what a regular expression is compiled to, between pattern.c and pattern_match.c.
 *
 * A program of relative jumps: SET takes one character, SPLIT goes both ways, LOOK runs what follows it up to its MATCH from here (or from
 * b characters back) and goes on behind it.
 */
#ifndef TUNING_PATTERN_CODE_H
#define TUNING_PATTERN_CODE_H

#include <stdbool.h>
#include <stdint.h>

enum pattern_op {
    PATTERN_MATCH,
    PATTERN_SET,   /* a: which */
    PATTERN_SPLIT, /* a, b: where to */
    PATTERN_JUMP,  /* a */
    PATTERN_BEGIN,
    PATTERN_END,
    PATTERN_EDGE, /* \b */
    PATTERN_NO_EDGE,
    PATTERN_LOOK, /* a: what is behind it; b: how far back it begins, -1: ahead */
    PATTERN_LOOK_NOT
};

struct pattern_code {
    uint8_t op;
    int16_t a, b;
};

struct pattern_set {
    uint32_t bits[8];
};

enum { PATTERN_MAX_CODE = 4096, PATTERN_MAX_SETS = 1024 };

struct pattern {
    uint32_t n, n_sets;
    struct pattern_code code[PATTERN_MAX_CODE + 1];
    struct pattern_set sets[PATTERN_MAX_SETS];
};

static inline bool pattern_has(const struct pattern_set *set, int c)
{
    return set->bits[c >> 5] >> (c & 31) & 1;
}

bool pattern_is_word(int c);

#endif
