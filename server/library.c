#include "server/library.h"

#include "models/modeling.h"
#include "server/block.h"

#include <pthread.h>
#include <stdio.h>

enum { ROOM = 64 << 20 }; /* of address space; it touches less than a tenth */

const struct image *library_shared(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static const struct image *made;
    static struct arena arena;
    const struct image *ret;
    struct err err;
    void *block;

    pthread_mutex_lock(&lock);
    block = made ? NULL : block_new(ROOM);
    if (block) {
        arena_init(&arena, block, ROOM);
        if (program_image(&arena, &made, &err)) {
            fprintf(stderr, "llmemd: the library of models in the language: %s\n", err.detail);
            block_free(block, ROOM);
            made = NULL;
        }
    }
    ret = made;
    pthread_mutex_unlock(&lock);
    return ret;
}
