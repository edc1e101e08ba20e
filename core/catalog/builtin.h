/*
 * builtin.h - models whose config.json the service carries, so that it answers with no network.
 *
 * Source    data/models.csv, a source a row, and data/configs/. Texts are packed with zlib in blocks, without blanks: whoever may call a library
 *           unpacks them (server/pack.h); equal ones are carried once, `of` names whose.
 * Threads   const tables, embedded.
 */
#ifndef CATALOG_BUILTIN_H
#define CATALOG_BUILTIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum builtin_made {
    BUILTIN_VERBATIM, /* the hub's file less the members that begin with "_" */
    BUILTIN_FACTS,    /* the members that shape the model, as a public source states them */
    BUILTIN_SAME,     /* another model's config: a source says that the shapes are equal */
    BUILTIN_PRESUMED  /* another model's config: a fine-tune or copy of it by its name; nobody was found who says so */
};

struct builtin {
    const char *id; /* "facebook/opt-1.3b" */
    const char *of; /* the id whose config.json this is; NULL: its own */
    enum builtin_made made;
    const char *model_type;
    uint64_t parameters; /* of the whole model, counted by its class; 0: not known */
    const char *source;
    uint16_t block;
    uint32_t offset, bytes; /* of the config.json within the block */
};

struct builtin_block {
    const char *packed; /* RFC 1950 */
    size_t packed_bytes, bytes;
};

/* By id, without case as the hub does; NULL when it is not carried. */
const struct builtin *builtin_find(const char *id);

size_t builtin_count(void);
const struct builtin *builtin_at(size_t i); /* sorted by id, byte by byte; NULL beyond the last */

const struct builtin_block *builtin_block(const struct builtin *b);
enum { BUILTIN_BLOCKS_MAX = 64 };

#endif
