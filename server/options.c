#include "server/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum kind { KIND_TEXT, KIND_NUMBER, KIND_FLAG };

static const struct option_row {
    const char *flag, *environment, *value, *help;
    enum kind kind;
    size_t at;
    unsigned least, most;
    const char *one_of; /* joined by '|' */
} table[] = {
    {"--listen", "LLMEMD_LISTEN", "ADDR:PORT", "where to listen; port 0 picks a free one (127.0.0.1:8080)", KIND_TEXT, offsetof(struct options, listen), 0, 0, NULL},
    {"--threads", "LLMEMD_THREADS", "N", "answers computed at once; 0: one a core (0)", KIND_NUMBER, offsetof(struct options, threads), 0, 256, NULL},
    {"--connections", "LLMEMD_CONNECTIONS", "N", "open connections (256)", KIND_NUMBER, offsetof(struct options, connections), 1, 4096, NULL},
    {"--idle", "LLMEMD_IDLE", "SECONDS", "a connection without a byte is closed (30)", KIND_NUMBER, offsetof(struct options, idle_s), 1, 3600, NULL},
    {"--log", "LLMEMD_LOG", "WHAT", "requests or none: lines on standard error (requests)", KIND_TEXT, offsetof(struct options, log), 0, 0, "requests|none"},
    {"--offline", "LLMEMD_OFFLINE", NULL, "never ask the network; this version never does", KIND_FLAG, offsetof(struct options, offline), 0, 0, NULL},
};
enum { ROWS = sizeof table / sizeof *table };

static bool among(const char *joined, const char *word)
{
    for (const char *p = joined; *p;) {
        size_t n = strcspn(p, "|");

        if (strlen(word) == n && !strncmp(p, word, n))
            return true;
        p += n + (p[n] == '|');
    }
    return false;
}

static bool number(const struct option_row *row, const char *text, unsigned *ret)
{
    char *end;
    unsigned long n = strtoul(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || *end || n < row->least || n > row->most)
        return false;
    *ret = (unsigned)n;
    return true;
}

static bool set(struct options *o, const struct option_row *row, const char *value)
{
    void *at = (char *)o + row->at;

    switch (row->kind) {
    case KIND_TEXT:
        if (!value[0] || (row->one_of && !among(row->one_of, value)))
            return false;
        memcpy(at, &value, sizeof value);
        return true;
    case KIND_NUMBER:
        return number(row, value, at);
    case KIND_FLAG:
        *(bool *)at = value[0] && strcmp(value, "0") != 0;
        return true;
    }
    return false;
}

static bool refuse(const char *name, const char *what)
{
    fprintf(stderr, "llmemd: %s: %s; see llmemd --help\n", name, what);
    return false;
}

static bool read_environment(struct options *o)
{
    for (int i = 0; i < ROWS; i++) {
        const char *value = getenv(table[i].environment);

        if (value && value[0] && !set(o, &table[i], value))
            return refuse(table[i].environment, "not a value it can have");
    }
    return true;
}

/* "--listen X" and "--listen=X". */
static bool read_flag(struct options *o, int argc, char **argv, int *i)
{
    const char *arg = argv[*i], *value = strchr(arg, '=');
    size_t n = value ? (size_t)(value - arg) : strlen(arg);
    const struct option_row *row = table;

    while (row < table + ROWS && (strlen(row->flag) != n || strncmp(row->flag, arg, n)))
        row++;
    if (row == table + ROWS)
        return refuse(arg, "no such option");
    if (row->kind == KIND_FLAG)
        return value ? refuse(arg, "takes no value") : set(o, row, "1");
    value = value ? value + 1 : ++*i < argc ? argv[*i] : NULL;
    if (!value)
        return refuse(arg, "needs a value");
    return set(o, row, value) || refuse(arg, "not a value it can have");
}

bool options_read(struct options *ret, int argc, char **argv, int first)
{
    struct options o = {.listen = "127.0.0.1:8080", .connections = 256, .idle_s = 30, .log = "requests"};

    if (!read_environment(&o))
        return false;
    for (int i = first; i < argc; i++)
        if (!read_flag(&o, argc, argv, &i))
            return false;
    *ret = o;
    return true;
}

void options_help(FILE *out)
{
    for (int i = 0; i < ROWS; i++) {
        char flag[40];

        (void)snprintf(flag, sizeof flag, "%s %s", table[i].flag, table[i].value ? table[i].value : "");
        fprintf(out, "  %-22s %-20s %s\n", flag, table[i].environment, table[i].help);
    }
}
