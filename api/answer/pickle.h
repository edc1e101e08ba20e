/*
 * pickle.h - Python's pickle format, protocol 2, as far as a memory snapshot needs it: dictionaries, lists, strings, whole numbers, booleans.
 *
 * Purpose   the writer of GET /estimate/snapshot. Strings and whole subtrees that come again are written once and named by their number (the memo).
 * Source    CPython's Lib/pickletools.py, the opcodes of protocols 0 to 2.
 * Errors    those of the buffer: they stick, see buf.h.
 */
#ifndef API_ANSWER_PICKLE_H
#define API_ANSWER_PICKLE_H

#include "base/buf.h"

struct pickle {
    struct buf *out;
    uint32_t memos;
};

void pickle_begin(struct pickle *p, struct buf *out);
void pickle_end(struct pickle *p);

/* Between them: keys and values in turn; elements. */
void pickle_dict(struct pickle *p);
void pickle_dict_end(struct pickle *p);
void pickle_list(struct pickle *p);
void pickle_list_more(struct pickle *p); /* of a long one, now and then: readers append what stands on their stack at once */
void pickle_list_end(struct pickle *p);

void pickle_str(struct pickle *p, const char *text);
void pickle_u64(struct pickle *p, uint64_t value);
void pickle_bool(struct pickle *p, bool value);
void pickle_pair(struct pickle *p, uint64_t a, uint64_t b); /* a tuple */

/* What was just ended, or written, may come again: its number. */
uint32_t pickle_keep(struct pickle *p);
void pickle_again(struct pickle *p, uint32_t number);

/* A key that comes again and again. *number is 0 until it was written once. */
void pickle_key(struct pickle *p, const char *text, uint32_t *number);

#endif
