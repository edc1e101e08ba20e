#include "stack/stack.h"

#include <stddef.h>
#include <string.h>

struct quirks quirks_of(const struct stack *s)
{
    return (struct quirks){
#define QUIRK(name, package, from, before, since, meaning) .name = s->package >= (from) ? (since) : (before),
#include "stack/quirks.def"
    };
}

struct quirks quirks_otherwise(const struct stack *s)
{
    return (struct quirks){
#define QUIRK(name, package, from, before, since, meaning) .name = s->package >= (from) ? (since) : (before),
#define QUIRK_SPAN(name, package, seen, from, before, since, meaning) .name = s->package > (seen) ? (since) : (before),
#include "stack/quirks.def"
    };
}

/* Those whose change lies between two releases that were looked at: (seen, from) is open at both ends. */
static const struct span {
    const char *name, *meaning;
    size_t package;
    release seen, from;
} spans[] = {
#define QUIRK(name, package, from, before, since, meaning)
#define QUIRK_SPAN(name, package, seen, from, before, since, meaning) {#name, meaning, offsetof(struct stack, package), seen, from},
#include "stack/quirks.def"
    {NULL, NULL, 0, 0, 0},
};

const char *quirks_undated(const struct stack *s, unsigned i, const char **ret_meaning)
{
    for (const struct span *row = spans; row->name; row++) {
        release have;

        memcpy(&have, (const char *)s + row->package, sizeof have);
        if (have > row->seen && have < row->from && !i--) {
            *ret_meaning = row->meaning;
            return row->name;
        }
    }
    return NULL;
}
