/*
 * builtin.h - config.json files that the service carries, so that it answers with no network.
 *
 * Source    data/configs/: the hub's files less the members that begin with "_", named org__name.json.
 * Threads   const tables, embedded.
 */
#ifndef CATALOG_BUILTIN_H
#define CATALOG_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>

struct builtin {
    const char *id;   /* "facebook/opt-1.3b" */
    const char *text; /* its config.json, terminated by a zero that `bytes` does not count */
    size_t bytes;
};

/* By id, without case as the hub does; NULL when it is not carried. */
const struct builtin *builtin_find(const char *id);

size_t builtin_count(void);
const struct builtin *builtin_at(size_t i); /* sorted by id, byte by byte; NULL beyond the last */

#endif
