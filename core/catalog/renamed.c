#include "catalog/renamed.h"

#include "base/ascii.h"

#include <stdio.h>
#include <string.h>

static const struct renamed {
    const char *from, *to;
} rows[] = {
#include "gen/renamed.inc"
};

enum { N_ROWS = sizeof rows / sizeof *rows };

static bool ends_in_star(const char *name, size_t *ret_before)
{
    size_t n = strlen(name);

    *ret_before = n && name[n - 1] == '*' ? n - 1 : n;
    return *ret_before < n;
}

/* `id` as the other side of a row calls it. */
static bool apply(const char *from, const char *to, const char *id, char ret[RENAMED_BYTES])
{
    size_t n, m;
    bool all = ends_in_star(from, &n);
    int written;

    (void)ends_in_star(to, &m);
    if (!ascii_begins(id, from, n) || (!all && id[n]))
        return false;
    written = snprintf(ret, RENAMED_BYTES, "%.*s%s", (int)m, to, all ? id + n : "");
    return written > 0 && written < RENAMED_BYTES;
}

bool renamed_other(const char *id, unsigned i, char ret[RENAMED_BYTES])
{
    for (size_t r = 0; r < N_ROWS; r++) {
        if (apply(rows[r].from, rows[r].to, id, ret) && !i--)
            return true;
        if (apply(rows[r].to, rows[r].from, id, ret) && !i--)
            return true;
    }
    return false;
}

static const struct builtin *by_other_name(const char *id)
{
    char other[RENAMED_BYTES];
    const struct builtin *found = NULL;

    for (unsigned i = 0; !found && renamed_other(id, i, other); i++)
        found = builtin_find(other);
    return found;
}

static bool is_called(const char *id, const char *name)
{
    const char *slash = strchr(id, '/');
    size_t n = strlen(name);

    return slash && ascii_begins(slash + 1, name, n) && !slash[1 + n];
}

/* Two of the name: none is meant more than the other. */
static const struct builtin *by_last_part(const char *name)
{
    const struct builtin *found = NULL;

    for (size_t i = 0; i < builtin_count(); i++)
        if (is_called(builtin_at(i)->id, name)) {
            if (found)
                return NULL;
            found = builtin_at(i);
        }
    for (size_t r = 0; !found && r < N_ROWS; r++)
        if (is_called(rows[r].from, name) || is_called(rows[r].to, name)) {
            found = builtin_find(rows[r].from);
            found = found ? found : builtin_find(rows[r].to);
        }
    return found;
}

const struct builtin *builtin_known_as(const char *id)
{
    const struct builtin *found = builtin_find(id);

    if (!found)
        found = by_other_name(id);
    return found || strchr(id, '/') ? found : by_last_part(id);
}
