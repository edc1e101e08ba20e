#include "server/library.h"

#include "models/modeling.h"
#include "server/block.h"

#include <pthread.h>
#include <stdio.h>

enum { ROOM = 64 << 20 }; /* of address space; less than a tenth stays touched */

static void lock_shelf(bool is)
{
    static pthread_mutex_t shelf = PTHREAD_MUTEX_INITIALIZER;

    if (is)
        pthread_mutex_lock(&shelf);
    else
        pthread_mutex_unlock(&shelf);
}

const struct program_library *library_shared(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct program_library library;
    static const struct program_library *made;
    static struct arena arena;
    const struct program_library *ret;
    struct err err;
    void *block;

    pthread_mutex_lock(&lock);
    block = made ? NULL : block_new(ROOM);
    if (block) {
        arena_init(&arena, block, ROOM);
        if (!program_library(&arena, &library, &err)) {
            block_forget(&arena);
            library.shelf = program_shelf_new(&arena, lock_shelf);
            made = &library;
        } else {
            fprintf(stderr, "llmemd: the library of models in the language: %s\n", err.detail);
            block_free(block, ROOM);
        }
    }
    ret = made;
    pthread_mutex_unlock(&lock);
    return ret;
}
