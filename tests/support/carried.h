/*
 * carried.h - configs of core/catalog, unpacked for tests; kept until the process ends.
 */
#ifndef SUPPORT_CARRIED_H
#define SUPPORT_CARRIED_H

#include "catalog/builtin.h"

/* b->bytes of it, and a zero behind them. Aborts when it cannot be unpacked. */
const char *carried_text(const struct builtin *b);

/* Those that have a config of their own, of a type that has a program, in the order of the catalogue. */
size_t carried_count(void);
const struct builtin *carried_at(size_t i);

#endif
