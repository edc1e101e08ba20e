/*
 * serve.h - a request to its response: fetches what api_needs() names, then asks api_answer().
 */
#ifndef SERVER_SERVE_H
#define SERVER_SERVE_H

#include "api/api.h"

/* Configs come from the builtin catalogue. Threads: pure. */
void serve(const struct api_request *rq, struct api_response *ret);

/* Blocks for arenas: address space that costs nothing until it is used. NULL when there is none. */
void *block_new(size_t bytes);
void block_free(void *block, size_t bytes);

/* Gives the pages behind the first `keep` bytes back to the system. */
void block_trim(void *block, size_t keep, size_t bytes);

#endif
