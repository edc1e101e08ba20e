/*
 * paint.h - what a terminal can show: colours, blocks, columns.
 *
 * Rules     colours on a terminal alone, and not where NO_COLOR is set (no-color.org) or TERM is dumb; bars of blocks where the locale's encoding is
 *           UTF-8, else of '#'. COLUMNS wins over what the terminal says.
 */
#ifndef SERVER_TERMINAL_PAINT_H
#define SERVER_TERMINAL_PAINT_H

#include <stdbool.h>
#include <stdio.h>

enum ink { INK_PLAIN, INK_BOLD, INK_DIM, INK_GOOD, INK_TIGHT, INK_BAD };

struct paint {
    FILE *out;
    bool is_terminal, colours, blocks;
    unsigned columns;
};

struct paint paint_of(FILE *out);

/* Text in a colour; `width` columns at least, and as many at most where it is not 0. */
void paint_text(const struct paint *p, enum ink ink, int width, const char *text);

/* `share` of `cells` columns filled; what is beyond 1 stands out. */
void paint_bar(const struct paint *p, enum ink ink, double share, unsigned cells);

/* Words wrapped into the columns, each line but the first behind `indent` blanks. */
void paint_wrapped(const struct paint *p, unsigned indent, const char *text);

/* The same where `used` columns of the first line are taken; without indent. */
void paint_after(const struct paint *p, unsigned used, const char *text);

/* 1234567 -> "1,234,567"; decimals below 100. */
enum { COUNT_BYTES = 40 };
const char *paint_count(double value, char text[COUNT_BYTES]);

#endif
