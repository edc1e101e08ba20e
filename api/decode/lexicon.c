#include "api/decode/lexicon.h"

#include "base/near.h"

#include <stdlib.h>
#include <string.h>

enum { NEAR_LETTERS = 5, NEAR_ERRORS = 2 };

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static uint32_t letters_of(const char *name, size_t bytes)
{
    uint32_t ret = 0;

    for (size_t i = 0; i < bytes; i++) {
        char c = lower(name[i]);

        ret |= c >= 'a' && c <= 'z' ? UINT32_C(1) << (c - 'a') : UINT32_C(1) << (26 + (unsigned char)c % 6);
    }
    return ret;
}

void lexicon_init(struct lexicon *l, struct arena *arena, size_t names)
{
    *l = (struct lexicon){.v = arena_array(arena, struct lexicon_entry, names + 1), .room = (uint32_t)names};
    l->full = !l->v;
}

size_t lexicon_count(const char *joined)
{
    size_t n = joined && *joined;

    for (const char *p = joined; p && *p; p++)
        n += *p == '|';
    return n;
}

void lexicon_add(struct lexicon *l, const char *joined, const void *row)
{
    for (const char *p = joined; p && *p && !l->full;) {
        size_t n = strcspn(p, "|");

        l->full = l->n == l->room || n > UINT16_MAX;
        if (!l->full)
            l->v[l->n++] = (struct lexicon_entry){p, letters_of(p, n), (uint16_t)n, row};
        p += n + (p[n] == '|');
    }
}

const void *lexicon_find(const struct lexicon *l, const char *name)
{
    size_t n = strlen(name);
    uint32_t letters = letters_of(name, n);

    for (uint32_t i = 0; i < l->n; i++)
        if (l->v[i].letters == letters && l->v[i].bytes == n && !memcmp(l->v[i].name, name, n))
            return l->v[i].row;
    return NULL;
}

/* --- one typing error away ------------------------------------------------------------------------------------------------------ */

static unsigned bits(uint32_t v)
{
    unsigned n = 0;

    for (; v; v &= v - 1)
        n++;
    return n;
}

const struct lexicon_entry *lexicon_near(const struct lexicon *l, const char *name)
{
    size_t n = strlen(name);
    unsigned least = NEAR_ERRORS + 1;
    const struct lexicon_entry *best = NULL;
    uint32_t letters;

    if (n + 1 < NEAR_LETTERS || n > NEAR_MAX_BYTES)
        return NULL;
    letters = letters_of(name, n);
    for (uint32_t i = 0; i < l->n; i++) {
        const struct lexicon_entry *e = &l->v[i];
        unsigned d;

        if (e->bytes < NEAR_LETTERS || e->bytes > NEAR_MAX_BYTES || e->bytes > n + NEAR_ERRORS || n > e->bytes + (size_t)NEAR_ERRORS)
            continue;
        if (bits(e->letters ^ letters) > 2 * NEAR_ERRORS) /* a change alters two of them at most */
            continue;
        d = near_distance(e->name, e->bytes, name, n, NEAR_ERRORS);
        if (d < least) {
            least = d;
            best = e;
        }
    }
    return best;
}

/* --- duplicates ------------------------------------------------------------------------------------------------------------------- */

struct numbered {
    const char *name;
    uint32_t at;
};

static int by_name(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    int order = strcmp(x->name, y->name);

    return order ? order : (x->at > y->at) - (x->at < y->at);
}

const bool *members_that_count(struct arena *arena, const struct json *object)
{
    size_t n = json_count(object);
    bool *ret = n ? arena_array(arena, bool, n) : NULL;
    unsigned char *mark = arena->cur;
    struct numbered *v = ret ? arena_array(arena, struct numbered, n) : NULL;
    uint32_t i = 0;

    if (!v)
        return NULL;
    json_each (m, object) {
        v[i] = (struct numbered){json_name(m), i};
        i++;
    }
    qsort(v, n, sizeof *v, by_name);
    for (i = 0; i < n; i++)
        ret[v[i].at] = i + 1 == n || strcmp(v[i].name, v[i + 1].name) != 0;
    arena_rewind(arena, mark);
    return ret;
}
