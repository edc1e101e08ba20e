/*
 * block.h - address space for arenas: it costs nothing until it is used.
 */
#ifndef SERVER_BLOCK_H
#define SERVER_BLOCK_H

#include <stddef.h>

struct arena;

void *block_new(size_t bytes); /* NULL: there is none */
void *block_for_work(size_t bytes); /* the same in large pages, for what is filled and emptied again and again */
void block_free(void *block, size_t bytes);

void block_empty(void *block, size_t bytes);      /* its pages go back, it stays */
void block_forget(const struct arena *a);         /* an arena's pages behind what was taken: where files are compiled, their trees lay there */
void block_trim(void *block, size_t bytes, size_t keep); /* all but its first `keep` bytes that are in memory */

#endif
