/*
 * log.h - one line a request on a descriptor, written by a thread of its own.
 *
 * Purpose   who answers never waits for a terminal, a pipe or a disk: what a line tells goes into a ring of LOG_BYTES,
 *           and that thread makes the text of it; when the ring is full because nobody reads, lines are dropped and counted.
 * Format    logfmt (ts=2026-11-21T19:22:39.123Z id=.. method=POST route=/estimate status=200 ..) or JSON, a line each.
 *           Neither paths, model ids, bodies nor tokens are written: the route's template is.
 * Threads   any.
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include "base/err.h"
#include "server/log_line.h"

#include <stddef.h>
#include <stdint.h>

struct log;

/* NULL: no thread or memory. LOG_NONE: everything below does nothing. */
struct log *log_new(enum log_format format, int fd);
void log_free(struct log *l); /* what is left is written first, as long as somebody reads */

void log_request(struct log *l, const struct log_request *r);

/* A line about the server itself. */
void log_note(struct log *l, const char *level, const char *fmt, ...) PRINTF(3, 4);

uint64_t log_dropped(struct log *l);

#endif
