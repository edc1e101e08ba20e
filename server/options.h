/*
 * options.h - flags and environment, from one table: --listen is LLMEMD_LISTEN, a flag wins.
 */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

struct options {
    const char *listen; /* "127.0.0.1:8080", "[::1]:0", ":8080" */
    unsigned threads;   /* answers computed at once; 0: one a core */
    unsigned connections, idle_s;
    const char *log;    /* "requests" or "none" */
    bool offline;
};

/* false: something is wrong, and a line on standard error says what. Reads argv[first...]. */
bool options_read(struct options *ret, int argc, char **argv, int first);

void options_help(FILE *out);

#endif
