#include "stack/stack.h"

#include <stddef.h>
#include <string.h>

/* One of the words of `list`. */
static bool names(const char *list, const char *word)
{
    size_t n = word ? strlen(word) : 0;

    for (const char *p = list; n && (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

struct quirks quirks_of(const struct stack *s)
{
    return quirks_for(s, NULL);
}

struct quirks quirks_for(const struct stack *s, const char *model_type)
{
    struct quirks q;
#define QUIRK(name, package, from, before, since, meaning) \
    enum { name##_before = (before), name##_since = (since) }; \
    q.name = s->package >= (from) ? name##_since : name##_before;
#define QUIRK_LATER(name, package, from, value, meaning) \
    if (s->package >= (from)) \
        q.name = (value);
#define QUIRK_FOR(model_types, name, package, from) \
    if (names(model_types, model_type)) \
        q.name = s->package >= (from) ? name##_since : name##_before;
#define QUIRK_LATER_FOR(model_types, name, package, from, value, meaning) \
    if (names(model_types, model_type) && s->package >= (from)) \
        q.name = (value);
#include "stack/quirks.def"
    return q;
}

struct quirks quirks_otherwise(const struct stack *s, const char *model_type)
{
    struct quirks q = quirks_for(s, model_type);
#define QUIRK(name, package, from, before, since, meaning)
#define QUIRK_SPAN(name, package, seen, from, before, since, meaning) q.name = s->package > (seen) ? (since) : (before);
#include "stack/quirks.def"
    return q;
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
