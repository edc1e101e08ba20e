/*
 * buf.h - text that grows by appending, up to a hard maximum.
 *
 * Purpose   answers are appended to, never edited. A failure sticks: append freely, check once with buf_ok().
 * Errors    buf_ok() is false once something did not fit (the maximum, or the arena's end); from then on appends do nothing.
 * Owner     the text lives in the arena, or in the caller's block. While the buffer is the arena's last tenant it grows in place;
 *           after another push its next growth moves the text.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
    char *data; /* NULL before the first append: read it with buf_text() */
    size_t bytes, cap, max;
    struct arena *arena; /* NULL: a fixed block */
    bool failed;
};

void buf_init(struct buf *b, struct arena *arena, size_t max_bytes);
void buf_init_fixed(struct buf *b, char *block, size_t bytes); /* bytes >= 1: room for the zero */

void buf_add(struct buf *b, const void *data, size_t bytes);
void buf_str(struct buf *b, const char *s);
void buf_char(struct buf *b, char c);
void buf_u64(struct buf *b, uint64_t value);
bool buf_ok(const struct buf *b);
const char *buf_text(const struct buf *b); /* terminated by a zero that `bytes` does not count */

#endif
