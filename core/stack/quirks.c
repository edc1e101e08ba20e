#include "stack/stack.h"

struct quirks quirks_of(const struct stack *s)
{
    return (struct quirks){
#define QUIRK(name, package, from, before, since, meaning) .name = s->package >= (from) ? (since) : (before),
#include "stack/quirks.def"
#undef QUIRK
    };
}
