#include "meters/align.h"

enum { LOOK_AHEAD = 4 };

/* From there on both are alike, as far as one looks; of what holds something of all layers the sizes differ, unless `sized`. */
static bool goes_on(const struct marks *a, const struct marks *b, uint32_t i, uint32_t j, bool sized)
{
    const uint64_t *of_a = sized ? a->like : a->loose, *of_b = sized ? b->like : b->loose;
    uint32_t left_a = a->n - i, left_b = b->n - j, n = left_a < left_b ? left_a : left_b;

    if (n < LOOK_AHEAD && left_a != left_b)
        return false;
    for (uint32_t k = 0; k < n && k < LOOK_AHEAD; k++)
        if (of_a[i + k] != of_b[j + k])
            return false;
    return true;
}

static bool repeats(const struct marks *m, uint32_t from, uint32_t length)
{
    for (uint32_t k = 0; k < length; k++)
        if (m->like[from + k] != m->like[from + k - length])
            return false;
    return true;
}

static uint32_t shortest(const struct marks *a, const struct marks *b, uint32_t i, uint32_t j, uint32_t since, bool sized)
{
    uint32_t more = (b->n - j) - (a->n - i);

    for (uint32_t n = 1; n <= more && j >= since + 2 * n; n++)
        if (goes_on(a, b, i, j + n, sized) && repeats(b, j, n) && repeats(b, j - n, n))
            return n;
    return 0;
}

/* How long a stretch the deeper one has more at j, as the shallow one is at i; `since`: where the last one ended. `sized`: rather one after which sizes are
 * alike, too. 0: none. */
static uint32_t stretch_at(const struct marks *a, const struct marks *b, uint32_t i, uint32_t j, uint32_t since, bool sized)
{
    uint32_t n = sized ? shortest(a, b, i, j, since, true) : 0;

    return n ? n : shortest(a, b, i, j, since, false);
}

bool align(const struct marks *a, const struct marks *b, bool sized, struct alignment *ret)
{
    uint32_t i = 0, j = 0, since = 0;

    ret->n = 0;
    while (j < b->n) {
        uint32_t length;

        if (i < a->n && a->like[i] == b->like[j]) {
            i++;
            j++;
            continue;
        }
        if (b->n - j < a->n - i)
            return false;
        length = stretch_at(a, b, i, j, since, sized);
        if (length && ret->n < STRETCHES_MAX) {
            ret->stretches[ret->n++] = (struct stretch){i, j, length};
            since = j += length;
        } else if (!length && i < a->n && a->loose[i] == b->loose[j]) { /* one that holds something of all layers */
            i++;
            j++;
        } else {
            return false;
        }
    }
    return i == a->n;
}
