#include "base/name.h"

#include "base/ascii.h"

static bool is_filler(char c)
{
    return c == ' ' || c == '-' || c == '_' || (c >= '\t' && c <= '\r');
}

static const char *skip(const char *p)
{
    while (is_filler(*p))
        p++;
    return p;
}

/* Against the first name of a list: up to ';' or the end. */
static bool same_as_first(const char *name, const char *list)
{
    const char *a = skip(name), *b = skip(list);

    if (!*a)
        return false;
    while (*a && *b && *b != ';' && ascii_lower(*a) == ascii_lower(*b)) {
        a = skip(a + 1);
        b = skip(b + 1);
    }
    return !*a && (!*b || *b == ';');
}

bool name_in_list(const char *name, const char *list)
{
    for (;;) {
        if (same_as_first(name, list))
            return true;
        while (*list && *list != ';')
            list++;
        if (!*list)
            return false;
        list++;
    }
}

bool name_same(const char *a, const char *b)
{
    a = skip(a);
    b = skip(b);
    if (!*a)
        return false;
    while (*a && ascii_lower(*a) == ascii_lower(*b)) {
        a = skip(a + 1);
        b = skip(b + 1);
    }
    return !*a && !*b;
}
