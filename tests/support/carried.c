#include "tests/support/carried.h"

#include "base/arena.h"
#include "base/json.h"
#include "config/arch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CARRIED_MAX = 8192, ARENA_BYTES = 4 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *texts[CARRIED_MAX];
static const struct builtin *modelled[CARRIED_MAX];
static size_t n_modelled;

static _Noreturn void give_up(const char *id)
{
    (void)fprintf(stderr, "carried: %s cannot be read\n", id);
    abort();
}

static size_t index_of(const struct builtin *b)
{
    return (size_t)(b - builtin_at(0));
}

static char *unpack(const struct builtin *b)
{
    const struct builtin_block *block = builtin_block(b);
    char *whole = malloc(block->bytes), *ret = malloc(b->bytes + 1);
    uLongf n = block->bytes;

    if (!whole || !ret || uncompress((Bytef *)whole, &n, (const Bytef *)block->packed, block->packed_bytes) != Z_OK || n != block->bytes)
        give_up(b->id);
    memcpy(ret, whole + b->offset, b->bytes);
    ret[b->bytes] = 0;
    free(whole);
    return ret;
}

const char *carried_text(const struct builtin *b)
{
    size_t i = index_of(b);

    (void)pthread_mutex_lock(&lock);
    if (!texts[i])
        texts[i] = unpack(b);
    (void)pthread_mutex_unlock(&lock);
    return texts[i];
}

static bool has_program(const struct builtin *b, void *block)
{
    struct arena arena;
    struct json *doc = NULL;
    struct arch arch;
    struct err err = {0};
    bool ret;

    arena_init(&arena, block, ARENA_BYTES);
    if (json_parse(carried_text(b), b->bytes, &json_limits_config, &doc, &err))
        give_up(b->id);
    ret = !arch_parse(doc, &arena, &arch, &err);
    json_free(doc);
    return ret;
}

size_t carried_count(void)
{
    void *block = n_modelled ? NULL : malloc(ARENA_BYTES);

    for (size_t i = 0; block && i < builtin_count(); i++)
        if (!builtin_at(i)->of && has_program(builtin_at(i), block))
            modelled[n_modelled++] = builtin_at(i);
    free(block);
    return n_modelled;
}

const struct builtin *carried_at(size_t i)
{
    return i < carried_count() ? modelled[i] : NULL;
}
