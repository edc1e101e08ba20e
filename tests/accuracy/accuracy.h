#ifndef ACCURACY_H
#define ACCURACY_H

#include "base/json.h"

#include <stdbool.h>
#include <stdio.h>

int tape_main(int argc, char **argv);

double number(const struct json *o, const char *key); /* NAN where there is none */

/* Every group of a trace that is larger than its eleventh. */
void largest_judge(const char *id, const struct json *memory, const struct json *truth, bool loud);
/* Whether all were met. */
bool largest_report(FILE *f, bool markdown);

void write_page(void); /* docs/accuracy.md */

#endif
