/*
 * renamed.h - what else a repository is called, and whose config.json stands for one that is not carried.
 *
 * Purpose   the hub redirects an old id; where it cannot be asked, this table does, in both directions. A copy under another organisation, or with its
 *           weights stored otherwise, has the shape of what it copies.
 * Source    data/renamed.csv, a source a row; "OLD/" + "*" stands for a whole organisation. Endings: hub names of quantised and converted weights.
 * Threads   const tables, embedded.
 */
#ifndef CATALOG_RENAMED_H
#define CATALOG_RENAMED_H

#include "catalog/builtin.h"

enum { RENAMED_BYTES = 192, KNOWN_SAY_BYTES = 384 };

/* The i-th other name of a repository, without case as the hub does; false behind the last. What does not fit into `ret` is passed over. */
bool renamed_other(const char *id, unsigned i, char ret[RENAMED_BYTES]);

enum known_by {
    KNOWN_BY_ID,
    KNOWN_BY_RENAME,   /* another name of the same repository */
    KNOWN_BY_LAST,     /* a name without an organisation (the hub had such ones until 2024: github.com/huggingface/transformers pull 28795) */
    KNOWN_BY_COPY,     /* a repository that another organisation calls the same */
    KNOWN_BY_STORAGE   /* "-FP8", "-bnb-4bit", ..: the same weights, stored otherwise */
};

struct known {
    const struct builtin *model; /* NULL: nothing is carried for the name */
    enum known_by by;
};

/*
 * What is carried for `id`, in the order of known_by. A name without an organisation compares without case, blanks, - and _. Of several that
 * differ in shape none is meant.
 */
struct known builtin_known_as(const char *id);

/* A sentence's end: "the config.json of X that is carried here". True where it is another repository's, or not the hub's own file: a person should know. */
bool known_say(const struct known *k, const char *id, char ret[KNOWN_SAY_BYTES]);

#endif
