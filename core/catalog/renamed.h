/*
 * renamed.h - repositories of the hub that go by another name too, because they were renamed.
 *
 * Purpose   the hub redirects an old id; where it cannot be asked, this table does, in both directions.
 * Source    data/renamed.csv, a source a row; "OLD/" + "*" stands for a whole organisation.
 * Threads   const tables, embedded.
 */
#ifndef CATALOG_RENAMED_H
#define CATALOG_RENAMED_H

#include "catalog/builtin.h"

enum { RENAMED_BYTES = 192 };

/* The i-th other name of a repository, without case as the hub does; false behind the last. What does not fit into `ret` is passed over. */
bool renamed_other(const char *id, unsigned i, char ret[RENAMED_BYTES]);

/*
 * The config that is carried for `id`: its own, that of another name of the same repository, or, for a name without an organisation, of the
 * only repository that is called so (the hub had such names until 2024: github.com/huggingface/transformers pull 28795). NULL: none.
 */
const struct builtin *builtin_known_as(const char *id);

#endif
