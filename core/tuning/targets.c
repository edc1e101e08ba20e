#include "tuning/targets.h"

#include <string.h>

enum { MAX_TARGETS = 6 };

static const struct targets {
    const char *model_type;
    release since; /* one of the releases whose table was read, 0.10 and 0.21 */
    const char *modules[MAX_TARGETS + 1];
} table[] = {
#define TARGETS(type, since, ...) {type, since, {__VA_ARGS__}},
#include "tuning/targets.def"
#undef TARGETS
};

/* Before 0.10 there is no older table to fall back on: the first one answers. */
static bool has(const struct targets *row, release peft)
{
    return row->since <= peft || row->since == table[0].since;
}

bool targets_default(const char *model_type, release peft, const char *const **ret, uint32_t *ret_n)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint32_t n = 0;

        if (strcmp(table[i].model_type, model_type) || !has(&table[i], peft))
            continue;
        while (table[i].modules[n])
            n++;
        *ret = table[i].modules;
        *ret_n = n;
        return true;
    }
    return false;
}
