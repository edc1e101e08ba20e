/* Back from a JSON Pointer to the parameter of a query. */
#include "api/request/query.h"

#include <stdio.h>
#include <string.h>

void place_pointer(const struct place *p, char text[POINTER_BYTES])
{
    size_t used = 0;

    text[0] = 0;
    for (unsigned i = 0; i < p->depth && used < POINTER_BYTES - 1; i++)
        used += (size_t)snprintf(text + used, POINTER_BYTES - used, "/%s", p->row[i]->key);
}

static bool is_within(const char *pointer, const char *place)
{
    size_t n = strlen(place);

    return n && !strncmp(pointer, place, n) && (!pointer[n] || pointer[n] == '/');
}

/* Its last name, its last two, ... */
const char *query_name(const struct member *members, const char *pointer, struct arena *arena)
{
    char *dotted = arena_str(arena, pointer + 1, strlen(pointer + 1)), at[POINTER_BYTES];
    const char *best = dotted;

    for (char *p = dotted; p && *p; p++)
        if (*p == '/')
            *p = '.';
    for (const char *p = dotted; p; p = strchr(p, '.')) {
        struct place place;

        p += *p == '.';
        place = place_find(members, p);
        place_pointer(&place, at);
        if (!place.rest[0] && !strcmp(at, pointer))
            best = p;
    }
    return best;
}

const char *query_blame(const struct query *q, const struct member *members, const char *pointer, struct arena *arena)
{
    const char *best = NULL;
    size_t most = 0;
    char at[POINTER_BYTES];

    if (pointer[0] != '/')
        return NULL;
    for (uint32_t i = 0; i < q->n; i++) {
        struct place place = place_find(members, q->v[i].name);

        place_pointer(&place, at);
        if (place.depth && strlen(at) > most && is_within(pointer, at)) {
            best = q->v[i].name;
            most = strlen(at);
        }
    }
    return best ? best : query_name(members, pointer, arena);
}
