#include "api/request/left_out.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void left_out_init(struct left_out *l, struct arena *arena, bool strict)
{
    *l = (struct left_out){.arena = arena, .strict = strict};
    l->gaps_end = &l->gaps;
    l->ignored_end = &l->ignored;
    l->harmless_end = &l->harmless;
}

void left_out_gap(struct left_out *l, enum gap_of of, const char *pointer, const char *fmt, ...)
{
    struct gap *g;
    char text[240];
    va_list ap;

    for (g = l->gaps; g; g = g->next)
        if (!strcmp(g->pointer, pointer))
            return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    g = arena_new(l->arena, struct gap);
    if (g) {
        *g = (struct gap){NULL, arena_str(l->arena, pointer, strlen(pointer)), arena_str(l->arena, text, strlen(text)), of};
        l->full |= !g->pointer || !g->detail;
    }
    l->full |= !g;
    if (l->full)
        return;
    *l->gaps_end = g;
    l->gaps_end = &g->next;
}

const char *pointer_to(struct arena *arena, const char *parent, const char *name)
{
    size_t n = strlen(parent), room = n + 2 * strlen(name) + 2;
    char *ret = arena_array_raw(arena, char, room);

    if (!ret)
        return NULL;
    memcpy(ret, parent, n);
    ret[n++] = '/';
    for (; *name; name++) {
        if (*name == '~' || *name == '/')
            ret[n++] = '~';
        ret[n++] = *name == '~' ? '0' : *name == '/' ? '1' : *name;
    }
    ret[n] = 0;
    return ret;
}

static void append(struct left_out *l, struct ignored ***end, const char *pointer)
{
    struct ignored *i = arena_new(l->arena, struct ignored);

    l->full |= !i || !pointer;
    if (l->full)
        return;
    i->pointer = pointer;
    **end = i;
    *end = &i->next;
}

void left_out_ignore(struct left_out *l, const char *parent, const char *name)
{
    append(l, &l->ignored_end, pointer_to(l->arena, parent, name));
}

void left_out_harmless(struct left_out *l, const char *pointer)
{
    append(l, &l->harmless_end, arena_str(l->arena, pointer, strlen(pointer)));
}

enum err_code left_out_check(const struct left_out *l, struct err *err)
{
    return l->full ? err_set(err, ERR_NOMEM, "", "no room for what the answer leaves out") : ERR_OK;
}
