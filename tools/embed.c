/*
 * embed - turns data files into C initialisers, at build time.
 *
 *   embed rows FILE.csv COLUMN:KIND...   one `{.COLUMN = value, ...},` a row; KIND s: string, n: number. Empty cells are left out,
 *                                        so they become NULL or 0. CSV after RFC 4180.
 *   embed modules PREFIX ROOT FILE.py... one `{"import.name", "FILE.py", "text", bytes, is a package},` a file below ROOT; PREFIX '': none
 *   embed models MODELS.csv DIR          one `{.id = ..},` a row: core/catalog/builtin.h; DIR has the configs
 *   embed blocks MODELS.csv DIR          their texts, packed: one `{"bytes", packed bytes, bytes},` a block
 *   embed json FILE.csv COLUMN:KIND:NAME... one string literal: a JSON array, an object a row. KIND s: string, n: number,
 *                                        l: list joined by ';', c: list joined by ',', M: MiB, G: GB, both to bytes. Empty: null or [].
 *   embed text FILE                      one string literal
 *
 * Writes to standard output; exit status 1 and a sentence when the data is not what was promised.
 */
#include "tools/embed.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

static void put_cell(const char *file, const char *column, char kind, const char *cell)
{
    if (!*cell)
        return;
    printf(".%s = ", column);
    if (kind == 's') {
        put_literal(cell, strlen(cell));
    } else {
        if (strspn(cell, "0123456789.") != strlen(cell))
            die(file, "not a number: ", cell);
        printf("%s", cell);
    }
    printf(", ");
}

/* Cuts each COLUMN:... behind the column's name, and finds where it stands in the header. */
static void find_columns(const char *file, char **header, size_t n_header, char **specs, int n_specs, size_t at[MAX_COLUMNS])
{
    for (int i = 0; i < n_specs; i++) {
        size_t length = strcspn(specs[i], ":");

        for (at[i] = 0; at[i] < n_header; at[i]++)
            if (strlen(header[at[i]]) == length && strncmp(header[at[i]], specs[i], length) == 0)
                break;
        if (at[i] == n_header || i == MAX_COLUMNS - 1)
            die(file, "no such column: ", specs[i]);
        specs[i][length] = '\0';
    }
}

static void rows(const char *file, char **specs, int n_specs)
{
    struct text t = read_file(file);
    char *p = t.data, *header[MAX_COLUMNS], *cells[MAX_COLUMNS];
    size_t n_header = next_record(file, &p, header), n;
    size_t at[MAX_COLUMNS];

    find_columns(file, header, n_header, specs, n_specs, at);
    while ((n = next_record(file, &p, cells)) > 0) {
        if (n != n_header)
            die(file, "another number of cells than the header in the row of ", cells[0]);
        printf("{");
        for (int i = 0; i < n_specs; i++)
            put_cell(file, specs[i], specs[i][strlen(specs[i]) + 1], cells[at[i]]);
        printf("},\n");
    }
    free(t.data);
}

/* --- JSON ---------------------------------------------------------------------------------------------------------------------- */

struct out {
    char *data;
    size_t bytes;
};

static void put(struct out *o, const char *s, size_t n)
{
    if (o->bytes + n > MAX_FILE_BYTES)
        die("json", "is too large", "");
    memcpy(o->data + o->bytes, s, n);
    o->bytes += n;
}

static void put_string(struct out *o, const char *s, size_t n)
{
    put(o, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '"' || s[i] == '\\')
            put(o, "\\", 1);
        if ((unsigned char)s[i] < 0x20)
            die("json", "a control character within ", s);
        put(o, s + i, 1);
    }
    put(o, "\"", 1);
}

static void put_list(struct out *o, const char *cell, char joint)
{
    put(o, "[", 1);
    while (*cell) {
        const char *end = strchr(cell, joint);
        size_t n = end ? (size_t)(end - cell) : strlen(cell);
        const char *from = cell + strspn(cell, " ");

        put_string(o, from, n - (size_t)(from - cell));
        cell += n + (end != NULL);
        if (*cell)
            put(o, ", ", 2);
    }
    put(o, "]", 1);
}

static void put_value(const char *file, struct out *o, char kind, const char *cell)
{
    char number[64];

    if (kind == 'l' || kind == 'c') {
        put_list(o, cell, kind == 'l' ? ';' : ',');
    } else if (!*cell) {
        put(o, "null", 4);
    } else if (kind == 's') {
        put_string(o, cell, strlen(cell));
    } else {
        if (strspn(cell, "0123456789.") != strlen(cell))
            die(file, "not a number: ", cell);
        if (kind == 'n')
            snprintf(number, sizeof number, "%s", cell);
        else
            snprintf(number, sizeof number, "%.0f", strtod(cell, NULL) * (kind == 'M' ? 1048576.0 : 1e9));
        put(o, number, strlen(number));
    }
}

static void json(const char *file, char **specs, int n_specs)
{
    struct text t = read_file(file);
    struct out o = {malloc(MAX_FILE_BYTES), 0};
    char *p = t.data, *header[MAX_COLUMNS], *cells[MAX_COLUMNS];
    size_t n_header = next_record(file, &p, header), n, at[MAX_COLUMNS];

    if (!o.data)
        die(file, "no memory", "");
    find_columns(file, header, n_header, specs, n_specs, at);
    while ((n = next_record(file, &p, cells)) > 0) {
        if (n != n_header)
            die(file, "another number of cells than the header in the row of ", cells[0]);
        put(&o, o.bytes ? ",\n    {" : "[\n    {", 7);
        for (int i = 0; i < n_specs; i++) {
            const char *kind = specs[i] + strlen(specs[i]) + 1;

            put(&o, i ? ", \"" : "\"", i ? 3 : 1);
            put(&o, kind + 2, strlen(kind + 2));
            put(&o, "\": ", 3);
            put_value(file, &o, *kind, cells[at[i]]);
        }
        put(&o, "}", 1);
    }
    put(&o, "\n  ]", 4);
    put_literal(o.data, o.bytes);
    free(o.data);
    free(t.data);
}

/* --- files --------------------------------------------------------------------------------------------------------------------- */

/* ROOT/a/b.py -> PREFIX.a.b, as Python imports it; a package's __init__.py is the package. */
static void modules(const char *prefix, const char *root, char **files, int n)
{
    size_t skip = strlen(root) + 1;

    for (int i = 0; i < n; i++) {
        struct text t = read_file(files[i]);
        size_t bytes = strlen(files[i]), end = bytes - 3;
        bool package = bytes >= 12 && !strcmp(files[i] + bytes - 12, "/__init__.py");

        if (bytes < skip + 3 || strncmp(files[i], root, skip - 1) != 0 || strcmp(files[i] + end, ".py") != 0)
            die(files[i], "no .py below ", root);
        end -= package ? 9 : 0;
        printf("{\"%s%s", prefix, *prefix && end > skip ? "." : "");
        for (size_t k = skip; k < end; k++)
            putchar(files[i][k] == '/' ? '.' : files[i][k]);
        printf("\", \"%s\",\n", files[i]);
        put_literal(t.data, t.bytes);
        printf(", %zu, %s},\n", t.bytes, package ? "true" : "false");
        free(t.data);
    }
}

int main(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "rows") == 0) {
        rows(argv[2], argv + 3, argc - 3);
    } else if (argc >= 4 && strcmp(argv[1], "json") == 0) {
        json(argv[2], argv + 3, argc - 3);
    } else if (argc == 4 && (strcmp(argv[1], "models") == 0 || strcmp(argv[1], "blocks") == 0)) {
        models(argv[2], argv[3], argv[1][0] == 'b');
    } else if (argc >= 5 && strcmp(argv[1], "modules") == 0) {
        modules(argv[2], argv[3], argv + 4, argc - 4);
    } else if (argc == 3 && strcmp(argv[1], "text") == 0) {
        struct text t = read_file(argv[2]);

        put_literal(t.data, t.bytes);
        putchar('\n');
        free(t.data);
    } else {
        fprintf(stderr, "embed rows FILE COLUMN:KIND... | json FILE COLUMN:KIND:NAME... | models FILE DIR | blocks FILE DIR | modules PREFIX ROOT FILE... | "
                        "text FILE\n");
        return 2;
    }
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
