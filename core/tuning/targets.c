#include "tuning/targets.h"

#include <string.h>

enum { MAX_TARGETS = 6 };

static const struct targets {
    const char *model_type;
    release since; /* the release whose table has it first; a later row of the same type replaces it */
    const char *modules[MAX_TARGETS + 1];
} table[] = {
#define TARGETS(type, since, ...) {type, since, {__VA_ARGS__}},
#include "tuning/targets.def"
#undef TARGETS
};

bool targets_default(const char *model_type, release peft, const char *const **ret, uint32_t *ret_n)
{
    const struct targets *last = NULL;
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].model_type, model_type) && table[i].since <= peft)
            last = &table[i];
    if (!last)
        return false;
    while (last->modules[n])
        n++;
    *ret = last->modules;
    *ret_n = n;
    return true;
}
