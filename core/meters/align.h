/*
 * align.h - what a deeper run has more than a shallow one, a period of layers less: stretches, each of which repeats the two before it.
 */
#ifndef METERS_ALIGN_H
#define METERS_ALIGN_H

#include <stdbool.h>
#include <stdint.h>

enum { STRETCHES_MAX = 256 };

/* `length` rows from `deeper` on, missing before `shallow`. */
struct stretch {
    uint32_t shallow, deeper, length;
};

/* By row: what it is, and but for its size. */
struct marks {
    const uint64_t *like, *loose;
    uint32_t n;
};

struct alignment {
    uint32_t n;
    struct stretch stretches[STRETCHES_MAX];
};

/* False: b is not a with stretches more. Rows that are no part of one may differ in size: those that hold something of all layers. Of a period of several
 * layers a stretch may be taken for one layer's, where all make something alike: so the shortest are tried, then, `sized`, those after which sizes agree. */
bool align(const struct marks *a, const struct marks *b, bool sized, struct alignment *ret);

static inline uint64_t mixed_mark(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

#endif
