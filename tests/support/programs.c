#include "tests/support/programs.h"

#include "base/json.h"
#include "models/modeling.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROOM = 64 << 20, CONFIGS = 1024 };

static void *block;
static struct json *configs[CONFIGS]; /* the last ones, kept for their programs */
static unsigned n_configs;

static void end(void)
{
    for (unsigned i = 0; i < CONFIGS; i++)
        json_free(configs[i]);
    free(block);
}

static void lock_shelf(bool is)
{
    static pthread_mutex_t shelf = PTHREAD_MUTEX_INITIALIZER;

    (void)(is ? pthread_mutex_lock(&shelf) : pthread_mutex_unlock(&shelf));
}

const struct program_library *programs_library(void)
{
    static struct program_library library;
    static struct arena arena;
    struct err err = {0};

    if (block)
        return &library;
    block = malloc(ROOM);
    arena_init(&arena, block, ROOM);
    if (program_library(&arena, &library, &err)) {
        fprintf(stderr, "%s %s\n", err.at, err.detail);
        abort();
    }
    library.shelf = program_shelf_new(&arena, lock_shelf);
    atexit(end);
    return &library;
}

enum err_code arch_read(const struct json *config, struct arena *arena, struct arch *ret, struct err *err)
{
    enum err_code rc = arch_parse(config, arena, ret, err);
    struct json **kept = &configs[n_configs++ % CONFIGS];

    if (rc == ERR_ARCH_UNKNOWN && program_is_builtin(json_str(json_get(config, "model_type")))) {
        json_free(*kept);
        *kept = json_copy(config);
        *err = (struct err){0};
        return program_arch(programs_library(), *kept, NULL, 0, NULL, arena, ret, err);
    }
    if (rc)
        return rc;
    json_free(*kept);
    *kept = json_copy(config);
    return program_attach(programs_library(), *kept, arena, ret, err);
}
