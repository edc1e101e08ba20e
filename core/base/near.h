/*
 * near.h - which known names a name that is not known may have meant.
 *
 * Rules     names compare without (ASCII) case and without what is neither letter, digit, '.' nor '+'. The distance is Damerau's and Levenshtein's (each
 *           change, loss, addition or exchange of neighbours counts 1, no letter is touched twice); a known name that holds the whole of what was typed
 *           is near too. Far ones are never offered: more than a third of the letters, and one, may not differ.
 * Owner     names point to whoever offered them.
 */
#ifndef BASE_NEAR_H
#define BASE_NEAR_H

#include "base/err.h"

#include <stddef.h>

enum { NEAR_MAX = ERR_MEANT, NEAR_BYTES = 100 };

struct near {
    char typed[NEAR_BYTES]; /* folded; "" takes no offers */
    size_t bytes;
    unsigned n;
    const char *v[NEAR_MAX]; /* the nearest first; of equals the one that was offered first */
    unsigned far[NEAR_MAX];
};

void near_init(struct near *n, const char *typed);

/* `name` is told where `spelling` is near: an alias, the name itself. */
void near_offer(struct near *n, const char *name, const char *spelling);

/* The same for each of those joined by `joint`; NULL: none. */
void near_offer_all(struct near *n, const char *name, const char *joined, char joint);

/* Takes back what no typing error makes of formats and kinds of a few letters: other figures (fp8 for fp4), more than one letter of five. What holds the whole
 * of what was typed stays. */
void near_same_kind(struct near *n);

/* "; did you mean A, B or C?", or "". */
enum { NEAR_SAY_BYTES = 360 };
const char *near_say(const struct near *n, char text[NEAR_SAY_BYTES]);

/* The same error with the names added to its sentence and its list. */
enum err_code near_tell(const struct near *n, struct err *e);

/* The distance of two texts of at most NEAR_BYTES, whatever their case; `most` + 1 as soon as it is more. */
unsigned near_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes, unsigned most);

#endif
