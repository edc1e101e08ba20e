/*
 * name.h - names as people type them: compared without (ASCII) case, blanks, '-' and '_'.
 */
#ifndef BASE_NAME_H
#define BASE_NAME_H

#include <stdbool.h>

/* "a100 80gb" is "A100-80GB". A name of nothing but blanks is the same as none, itself included. */
bool name_same(const char *a, const char *b);

/* The same for one of `list`, whose names are joined by ';'. */
bool name_in_list(const char *name, const char *list);

#endif
