/* embed.h - what the parts of the build's tool `embed` share. Whatever is wrong ends it with a sentence. */
#ifndef TOOLS_EMBED_H
#define TOOLS_EMBED_H

#include <stdbool.h>
#include <stddef.h>

enum { MAX_COLUMNS = 128, MAX_FILE_BYTES = 16 << 20 };

struct text {
    char *data;
    size_t bytes;
};

_Noreturn void die(const char *file, const char *what, const char *detail);

/* The caller frees its data, which ends in a zero that `bytes` does not count. */
struct text read_file(const char *name);

void put_literal(const char *s, size_t bytes);

/* Splits the record at *p in place, moves *p behind it and returns the number of cells; 0 at the end. */
size_t next_record(const char *file, char **p, char *cells[MAX_COLUMNS]);

/* models.csv and its configs: rows of core/catalog/builtin.h, or the packed blocks that they point into. */
void models(const char *file, const char *directory, bool blocks);

#endif
