/*
 * content.h - what is known of a tensor's elements: the lattice that decides what data decides.
 *
 * A training step's batch is described, not given. From the description (mask of ones, padded mask, positions that count up, experts chosen evenly) follows
 * what `mask.all()`, `x.max().item()`, `(x != 1).any()` answer; everything else is unknown, and reading it leaves the language.
 */
#ifndef NATIVES_CONTENT_H
#define NATIVES_CONTENT_H

#include <stdbool.h>
#include <stdint.h>

enum content_kind {
    CONTENT_UNKNOWN,
    CONTENT_CONST,  /* every element is c; a truth value is 0 or 1 */
    CONTENT_RISING, /* c, c + 1, .. along the last dimension */
    CONTENT_PADDED, /* 1, and at the end of each row so many 0 as `c` */
    CONTENT_TEXT,   /* numbers of tokens: no placeholder of an image or a sound, no padding but a last `c` in each row (< 0: none), perhaps some of `skew` */
    /* of rows that hold several sequences: */
    CONTENT_PACKED,   /* 0, 1, .. along the last dimension, `c` times, each time equally far */
    CONTENT_STEPS,    /* the differences of such neighbours: 1, but at `c` places */
    CONTENT_MARKS,    /* truth values, `c` of them true */
    CONTENT_STAIRS,   /* from 0 up to `c`, never down */
    CONTENT_POSITIVE,
    CONTENT_ROWS,     /* c, c + 1, .. along the first dimension */
    /* of experts, which tokens choose evenly but for the first, which has `skew` shares (chosen.c); `n` of them. A CONST of that `n`, too, is told by that: */
    CONTENT_CHOSEN,   /* their numbers, never twice in a row of the last dimension */
    CONTENT_HOT,      /* 1 where one was chosen, else 0, experts along `dim`; `c` ones in all */
    CONTENT_TAKEN,    /* of one of them: `c` ones, no two in a line of any dimension */
    CONTENT_SHARES,   /* how many chose each: `c` in all */
    CONTENT_OFFSETS   /* the sums of those up to each */
};

struct content {
    enum content_kind kind;
    uint16_t n;
    int16_t dim;
    double c, skew; /* skew of experts: 0 or 1: evenly */
};

static inline struct content content_unknown(void)
{
    return (struct content){0};
}
static inline struct content content_is(enum content_kind kind, double c)
{
    return (struct content){.kind = kind, .c = c};
}
static inline struct content content_const(double c)
{
    return content_is(CONTENT_CONST, c);
}

#endif
