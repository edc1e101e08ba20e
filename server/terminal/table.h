/*
 * table.h - an answer of POST /estimate for people: its sentence, a row a candidate with a bar against the card, why the others lose, what was tried
 * that would fit, what it rests on.
 *
 * Rules     every figure is one of the JSON's, rounded: GiB to a tenth, tokens a second as they stand. A candidate takes what nvidia-smi would show
 *           (device_bytes), and where the answer has bounds alone the upper one with context and NCCL, as the page does.
 */
#ifndef SERVER_TERMINAL_TABLE_H
#define SERVER_TERMINAL_TABLE_H

#include "server/terminal/paint.h"

#include <stddef.h>

/* false: it is no answer. */
bool table_answer(const struct paint *p, const char *text, size_t bytes);

/* A problem document as one line, "llmemd: ..", with what was probably meant. */
bool table_problem(const struct paint *p, const char *text, size_t bytes);

#endif
