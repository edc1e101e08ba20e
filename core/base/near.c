#include "base/near.h"

#include "base/ascii.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

static size_t fold(const char *text, size_t bytes, char ret[NEAR_BYTES])
{
    size_t n = 0;

    for (size_t i = 0; i < bytes && n < NEAR_BYTES - 1; i++) {
        char c = ascii_lower(text[i]);

        if ((c >= 'a' && c <= 'z') || ascii_digit(c) || c == '.' || c == '+')
            ret[n++] = c;
    }
    ret[n] = 0;
    return n;
}

static void lower(const char *text, size_t bytes, char *ret)
{
    for (size_t i = 0; i < bytes; i++)
        ret[i] = ascii_lower(text[i]);
}

enum { BEYOND = UINT8_MAX - 1 }; /* of the band: no way of at most `most` steps leads through it */

/* Three rows of the table: a step back reaches over two. Of each as much as `most` steps aside can reach. */
unsigned near_distance(const char *a, size_t a_bytes, const char *b, size_t b_bytes, unsigned most)
{
    uint8_t rows[3][NEAR_BYTES + 1];
    uint8_t *before = rows[0], *last = rows[1], *row = rows[2];
    char x[NEAR_BYTES], y[NEAR_BYTES];

    if (a_bytes > NEAR_BYTES || b_bytes > NEAR_BYTES || a_bytes > b_bytes + most || b_bytes > a_bytes + most)
        return most + 1;
    lower(a, a_bytes, x);
    lower(b, b_bytes, y);
    for (size_t j = 0; j <= b_bytes && j <= (size_t)most + 1; j++)
        last[j] = (uint8_t)j;
    for (size_t i = 1; i <= a_bytes; i++) {
        size_t first = i > most ? i - most : 1, end = i + most < b_bytes ? i + most : b_bytes;
        uint8_t *spare = before, least = row[first - 1] = first > 1 ? BEYOND : (uint8_t)i;

        for (size_t j = first; j <= end; j++) {
            uint8_t d = (uint8_t)(last[j - 1] + (x[i - 1] != y[j - 1]));

            d = last[j] + 1 < d ? (uint8_t)(last[j] + 1) : d;
            d = row[j - 1] + 1 < d ? (uint8_t)(row[j - 1] + 1) : d;
            if (i > 1 && j > 1 && x[i - 1] == y[j - 2] && y[j - 1] == x[i - 2] && before[j - 2] + 1 < d)
                d = (uint8_t)(before[j - 2] + 1);
            row[j] = d;
            least = d < least ? d : least;
        }
        if (least > most)
            return most + 1;
        if (end < b_bytes)
            row[end + 1] = BEYOND;
        before = last;
        last = row;
        row = spare;
    }
    return last[b_bytes] > most ? most + 1 : last[b_bytes];
}

void near_init(struct near *n, const char *typed)
{
    *n = (struct near){0};
    n->bytes = fold(typed, strlen(typed), n->typed);
}

static void keep(struct near *n, const char *name, unsigned far)
{
    unsigned at = n->n;

    for (unsigned i = 0; i < n->n; i++)
        if (!strcmp(n->v[i], name)) {
            if (n->far[i] <= far)
                return;
            memmove(&n->v[i], &n->v[i + 1], (n->n - i - 1) * sizeof *n->v);
            memmove(&n->far[i], &n->far[i + 1], (n->n - i - 1) * sizeof *n->far);
            n->n--;
            break;
        }
    for (at = n->n; at && n->far[at - 1] > far; at--)
        ;
    if (at == NEAR_MAX)
        return;
    n->n += n->n < NEAR_MAX;
    memmove(&n->v[at + 1], &n->v[at], (n->n - 1 - at) * sizeof *n->v);
    memmove(&n->far[at + 1], &n->far[at], (n->n - 1 - at) * sizeof *n->far);
    n->v[at] = name;
    n->far[at] = far;
}

/* What is no nearer than the last of a full list is not kept. */
static unsigned most_kept(const struct near *n, unsigned most)
{
    unsigned last = n->n == NEAR_MAX ? (n->far[NEAR_MAX - 1] + 3) / 4 : most;

    return last < most ? last : most;
}

static void offer(struct near *n, const char *name, const char *spelling, size_t bytes)
{
    char folded[NEAR_BYTES];
    size_t m = fold(spelling, bytes, folded);
    unsigned most = 1 + (unsigned)n->bytes / 3, far;

    if (n->bytes < 2 || !m)
        return;
    far = near_distance(n->typed, n->bytes, folded, m, most_kept(n, most)) * 4;
    if (n->bytes >= 3 && m > n->bytes && strstr(folded, n->typed)) {
        unsigned held = 2 + (unsigned)(m - n->bytes) / 2;

        far = held < far ? held : far;
    }
    if (far <= most * 4)
        keep(n, name, far);
}

void near_offer(struct near *n, const char *name, const char *spelling)
{
    offer(n, name, spelling, strlen(spelling));
}

void near_offer_all(struct near *n, const char *name, const char *joined, char joint)
{
    for (const char *p = joined; p && *p;) {
        const char *end = strchr(p, joint);
        size_t bytes = end ? (size_t)(end - p) : strlen(p);

        offer(n, name, p, bytes);
        p += bytes + (end != NULL);
    }
}

static unsigned figures(const char *text, size_t bytes, unsigned ret[10])
{
    unsigned n = 0;

    memset(ret, 0, 10 * sizeof *ret);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] >= '0' && text[i] <= '9') {
            ret[text[i] - '0']++;
            n++;
        }
    return n;
}

static bool is_same_kind(const struct near *n, const char *name)
{
    enum { SHORT = 5 };
    char folded[NEAR_BYTES];
    size_t m = fold(name, strlen(name), folded);
    unsigned typed[10], known[10];

    if (strstr(folded, n->typed))
        return true;
    (void)figures(folded, m, known);
    if (figures(n->typed, n->bytes, typed) && memcmp(typed, known, sizeof typed) != 0)
        return false;
    return n->bytes > SHORT || near_distance(n->typed, n->bytes, folded, m, 2) <= 1;
}

void near_same_kind(struct near *n)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < n->n; i++)
        if (is_same_kind(n, n->v[i])) {
            n->v[kept] = n->v[i];
            n->far[kept++] = n->far[i];
        }
    n->n = kept;
}

const char *near_say(const struct near *n, char text[NEAR_SAY_BYTES])
{
    size_t used = 0;

    text[0] = 0;
    for (unsigned i = 0; i < n->n; i++)
        used += (size_t)snprintf(text + used, NEAR_SAY_BYTES - used, "%s%.96s", !i ? "; did you mean " : i + 1 < n->n ? ", " : " or ", n->v[i]);
    if (n->n)
        (void)snprintf(text + used, NEAR_SAY_BYTES - used, "?");
    return text;
}

enum err_code near_tell(const struct near *n, struct err *e)
{
    char text[NEAR_SAY_BYTES];
    size_t used;

    if (!e)
        return ERR_OK;
    used = strlen(e->detail);
    (void)snprintf(e->detail + used, sizeof e->detail - used, "%s", near_say(n, text));
    for (unsigned i = 0; i < n->n; i++)
        (void)snprintf(e->meant[i], sizeof e->meant[i], "%s", n->v[i]);
    return e->code;
}
