/* How people write things: words in many spellings, and lines for them to read. */
#include "api/decode/decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void add(struct notes *notes, enum note_of of, const char *fmt, va_list ap)
{
    char text[320];
    int n;

    if (notes->n == NOTES_MAX)
        return;
    n = vsnprintf(text, sizeof text, fmt, ap);
    if (n < 0)
        return;
    notes->v[notes->n] = arena_str(notes->arena, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
    notes->of[notes->n] = (uint8_t)of;
    if (notes->v[notes->n])
        notes->n++;
}

void note(struct notes *notes, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(notes, NOTE_OF_FIGURES, fmt, ap);
    va_end(ap);
}

void note_of(struct notes *notes, enum note_of of, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    add(notes, of, fmt, ap);
    va_end(ap);
}

static bool is_joint(char c)
{
    return c == ' ' || c == '-' || c == '_';
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool word_same(const char *a, size_t a_bytes, const char *b, size_t b_bytes)
{
    size_t i = 0, j = 0;

    for (;;) {
        while (i < a_bytes && is_joint(a[i]))
            i++;
        while (j < b_bytes && is_joint(b[j]))
            j++;
        if (i == a_bytes || j == b_bytes)
            return i == a_bytes && j == b_bytes;
        if (lower(a[i++]) != lower(b[j++]))
            return false;
    }
}

bool word_among(const char *joined, const char *text, size_t bytes, bool folded)
{
    for (const char *p = joined; p && *p;) {
        size_t n = strcspn(p, "|");

        if (folded ? word_same(p, n, text, bytes) : n == bytes && !memcmp(p, text, n))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

int word_find(const struct word *words, const char *text, size_t bytes)
{
    for (int i = 0; words[i].name; i++)
        if (word_same(words[i].name, strlen(words[i].name), text, bytes) || word_among(words[i].also, text, bytes, true))
            return i;
    return -1;
}
