/*
 * lexicon.h - names that are known, asked for by names that may not be.
 *
 * Purpose   an object of any size is read in time that grows with its members: each name is looked up in one table whose entries
 *           carry what rules a name out without comparing it.
 * Rules     One typing error is a Damerau-Levenshtein distance of at most 2 (each change, loss, addition or exchange of neighbours
 *           counts 1, no letter is touched twice), for names of 5 letters and more. Case does not count.
 * Owner     the arena; names point into the tables that they came from.
 */
#ifndef API_DECODE_LEXICON_H
#define API_DECODE_LEXICON_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NEAR_MAX_BYTES = 64 }; /* of names that are compared */

struct lexicon_entry {
    const char *name; /* `bytes` of it: not terminated */
    uint32_t letters; /* a bit a letter that occurs */
    uint16_t bytes;
    const void *row;
};

struct lexicon {
    struct lexicon_entry *v;
    uint32_t n, room;
    bool full; /* there was no room for a name */
};

/* Room for `names` names. */
void lexicon_init(struct lexicon *l, struct arena *arena, size_t names);

/* Names joined by '|' that mean a row of the caller's table. */
void lexicon_add(struct lexicon *l, const char *joined, const void *row);
size_t lexicon_count(const char *joined);

/* The row of a name as it stands; NULL. */
const void *lexicon_find(const struct lexicon *l, const char *name);

/* The known name that is one typing error away, the nearest and first of them; NULL. */
const struct lexicon_entry *lexicon_near(const struct lexicon *l, const char *name);

/*
 * Of each member of an object, in its order, whether it counts: of duplicate names the last does (json.h). One flag a member;
 * NULL: the arena is full, or the object is empty.
 */
const bool *members_that_count(struct arena *arena, const struct json *object);

#endif
