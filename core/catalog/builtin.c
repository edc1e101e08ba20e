#include "catalog/builtin.h"

#include "base/ascii.h"

#include <string.h>

static const struct builtin builtins[] = {
#include "gen/models.inc"
};

static const struct builtin_block blocks[] = {
#include "gen/blocks.inc"
};

enum { N_BUILTINS = sizeof builtins / sizeof *builtins };
_Static_assert(sizeof blocks / sizeof *blocks <= BUILTIN_BLOCKS_MAX, "a block of each number");

size_t builtin_count(void)
{
    return N_BUILTINS;
}

const struct builtin *builtin_at(size_t i)
{
    return i < N_BUILTINS ? &builtins[i] : NULL;
}

const struct builtin_block *builtin_block(const struct builtin *b)
{
    return &blocks[b->block];
}

static bool same_id(const char *a, const char *b)
{
    size_t n = strlen(b);

    return ascii_begins(a, b, n) && !a[n];
}

const struct builtin *builtin_find(const char *id)
{
    for (size_t i = 0; i < N_BUILTINS; i++)
        if (same_id(id, builtins[i].id))
            return &builtins[i];
    return NULL;
}
