#include "catalog/links.h"

#include "base/name.h"

#include <string.h>

static const struct link links[] = {
#include "gen/links.inc"
};

enum { N_LINKS = sizeof links / sizeof *links, NAME_ROOM = 64, COUNT_MAX = 64 };

size_t link_count(void)
{
    return N_LINKS;
}

const struct link *link_at(size_t i)
{
    return i < N_LINKS ? &links[i] : NULL;
}

/* "roce-400 x8": the length of the name, and 8; 0 for a count that is none. */
static size_t name_length(const char *text, unsigned *ret_count)
{
    size_t n = strlen(text), digits = 0;
    unsigned count = 0;

    *ret_count = 1;
    while (digits < n && text[n - digits - 1] >= '0' && text[n - digits - 1] <= '9')
        digits++;
    if (!digits || digits > 2 || n < digits + 2 || text[n - digits - 1] != 'x' || text[n - digits - 2] != ' ')
        return n;
    for (size_t i = n - digits; i < n; i++)
        count = count * 10 + (unsigned)(text[i] - '0');
    *ret_count = count;
    for (n -= digits + 1; n && text[n - 1] == ' '; n--)
        ;
    return count && count <= COUNT_MAX ? n : 0;
}

const struct link *link_find(const char *text, unsigned *ret_count)
{
    char name[NAME_ROOM];
    unsigned count;
    size_t n = name_length(text, &count);

    if (!n || n >= sizeof name)
        return NULL;
    memcpy(name, text, n);
    name[n] = '\0';
    for (size_t i = 0; i < N_LINKS; i++)
        if (name_same(name, links[i].name)) {
            *ret_count = count;
            return &links[i];
        }
    return NULL;
}
