/*
 * options.h - flags and environment, from one table: --listen is LLMEMD_LISTEN, a flag wins.
 */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

struct options {
    const char *listen;                     /* "127.0.0.1:8080", "[::1]:0", ":8080", "unix:/run/llmemd.sock" */
    const char *admin_listen;               /* the same, for probes and metrics alone; NULL: none */
    bool admin_only;                        /* and they are answered nowhere else */
    unsigned socket_mode;                   /* of a unix socket's file */
    const char *hosts, *origins, *proxies;  /* joined by commas; NULL: none */
    unsigned event_threads, threads;        /* 0: one a core */
    unsigned connections, per_address, waiting, queue; /* per_address 0: three quarters of connections */
    unsigned rate;                          /* a minute and caller; 0: no limit */
    unsigned max_body;
    unsigned batches, batch_work, batch_fetches, batch_deadline_s;
    unsigned deadline_s, idle_s, drain_wait_s, drain_s;
    unsigned work_budget;                   /* events that one answer may cause */
    unsigned answers, answers_mib;
    const char *models, *cache_dir;         /* NULL: none */
    const char *installed;                  /* folders of transformers, joined by ':'; NULL: none */
    bool offline, share_token;
    unsigned hub_connect_ms, hub_total_ms, hub_fresh_s; /* 0: the hub's defaults */
    const char *log;                        /* "logfmt", "json" or "none" */
};

struct options_rest {
    int n;
    char **v; /* the arguments that are none of the table's, moved to argv[first...] */
};

/* false: something is wrong, and a line on standard error says what. Reads argv[first...]; rest NULL: there are options only. */
bool options_read(struct options *ret, int argc, char **argv, int first, struct options_rest *rest);

/* The i-th option as text, for help, manual and completion; false behind the last. */
struct option_text {
    const char *flag, *environment, *value, *help; /* value NULL: it takes none */
};
bool options_text(unsigned i, struct option_text *ret);

#endif
