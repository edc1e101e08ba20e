/*
 * jsonw.h - writes JSON by appending: same calls, same bytes.
 *
 * Purpose   answers, problems, inventories. Every function takes the member's name first, or NULL within an array and for the
 *           document itself: jsonw_u64(w, "peak_allocated_bytes", n).
 * Errors    stick, in the buffer: check jsonw_done() once. Misplaced names and unbalanced ends are mistakes of the caller: assert.
 * Owner     the buffer is the caller's.
 */
#ifndef BASE_JSONW_H
#define BASE_JSONW_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSONW_MAX_DEPTH = 32 };

struct jsonw {
    struct buf *out;
    bool pretty;      /* two blanks a level, a line a member */
    unsigned depth;
    uint32_t members; /* bit d: depth d has a member already */
    uint32_t arrays;  /* bit d: depth d is an array */
};

void jsonw_init(struct jsonw *w, struct buf *out, bool pretty);

void jsonw_object(struct jsonw *w, const char *name);
void jsonw_array(struct jsonw *w, const char *name);
void jsonw_end(struct jsonw *w); /* of the innermost object or array */

void jsonw_str(struct jsonw *w, const char *name, const char *s); /* NULL: null. What is not UTF-8 becomes U+FFFD */
void jsonw_str_n(struct jsonw *w, const char *name, const char *s, size_t bytes);
void jsonw_u64(struct jsonw *w, const char *name, uint64_t value);
void jsonw_i64(struct jsonw *w, const char *name, int64_t value);
void jsonw_bool(struct jsonw *w, const char *name, bool value);
void jsonw_null(struct jsonw *w, const char *name);

/* Rounded half away from zero to at most `decimals` (0..9) places, no exponent, no zeros at the end: 0.5, 2, -0.125.
 * Infinities and NaN: null. */
void jsonw_fixed(struct jsonw *w, const char *name, double value, unsigned decimals);

/* JSON that was rendered before, as it stands. */
void jsonw_raw(struct jsonw *w, const char *name, const char *json, size_t bytes);

/* The document is complete and everything fitted. */
bool jsonw_done(const struct jsonw *w);

#endif
