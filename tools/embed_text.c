/* Files, C literals and CSV after RFC 4180, for embed. */
#include "tools/embed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void die(const char *file, const char *what, const char *detail)
{
    fprintf(stderr, "embed: %s: %s%s\n", file, what, detail);
    exit(1);
}

struct text read_file(const char *name)
{
    struct text t = {malloc(MAX_FILE_BYTES), 0};
    FILE *f = fopen(name, "rb");

    if (!t.data || !f)
        die(name, "cannot be read", "");
    t.bytes = fread(t.data, 1, MAX_FILE_BYTES, f);
    if (ferror(f) || t.bytes == MAX_FILE_BYTES)
        die(name, "cannot be read, or is too large", "");
    fclose(f);
    t.data[t.bytes] = '\0';
    return t;
}

void put_literal(const char *s, size_t bytes)
{
    putchar('"');
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)s[i];

        if (c == '\n')
            printf(i + 1 < bytes ? "\\n\"\n\"" : "\\n");
        else if (c == '"' || c == '\\' || c == '?') /* ? could begin a trigraph */
            printf("\\%c", c);
        else if (c < 0x20 || c > 0x7E)
            printf("\\%03o", c);
        else
            putchar(c);
    }
    putchar('"');
}

/* --- CSV ----------------------------------------------------------------------------------------------------------------------- */

size_t next_record(const char *file, char **p, char *cells[MAX_COLUMNS])
{
    char *in = *p, *out = *p;
    size_t n = 0;

    if (!*in)
        return 0;
    for (;;) {
        char end;

        if (n == MAX_COLUMNS)
            die(file, "too many columns", "");
        cells[n++] = out;
        if (*in == '"') {
            for (in++; *in && (*in != '"' || in[1] == '"'); in++) {
                if (*in == '"')
                    in++;
                *out++ = *in;
            }
            if (*in++ != '"')
                die(file, "a quote is not closed near ", cells[0]);
        } else {
            while (*in && *in != ',' && *in != '\n' && *in != '\r')
                *out++ = *in++;
        }
        while (*in == '\r')
            in++;
        end = *in;
        if (end && end != ',' && end != '\n')
            die(file, "text after a quoted cell near ", cells[0]);
        if (end)
            in++;
        *out++ = '\0';
        if (end != ',') {
            *p = in;
            return n;
        }
    }
}
