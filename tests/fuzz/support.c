#include "tests/fuzz/fuzz.h"

#include "models/modeling.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_fail(const char *file, int line, const char *what, const char *fmt, ...)
{
    va_list args;

    (void)fflush(stdout);
    fprintf(stderr, "%s:%d: does not hold: %s: ", file, line, what);
    va_start(args, fmt);
    (void)vfprintf(stderr, fmt, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

struct arena fuzz_arena(size_t bytes)
{
    static void *block;
    static size_t has;
    struct arena a;

    if (has < bytes) {
        free(block);
        block = malloc(bytes);
        has = bytes;
    }
    FUZZ_CHECK(block, "no memory for an arena");
    arena_init(&a, block, bytes);
    return a;
}

const struct program_library *fuzz_library(void)
{
    enum { ROOM = 64 << 20 };
    static struct program_library library;
    static struct arena arena;
    static bool made;
    struct err err = {0};

    if (!made) {
        arena_init(&arena, malloc(ROOM), ROOM);
        FUZZ_CHECK(!program_library(&arena, &library, &err), "%s", err.detail);
        made = true;
    }
    return &library;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Made before an input's time is taken: on a machine that others use too, the library is seconds under sanitizers. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    (void)fuzz_library();
    return 0;
}

char *fuzz_text(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    FUZZ_CHECK(text, "no memory for the input");
    if (size)
        memcpy(text, data, size);
    text[size] = 0;
    return text;
}

uint64_t fuzz_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

size_t fuzz_below(uint64_t *state, size_t n)
{
    return n ? (size_t)(fuzz_random(state) % n) : 0;
}
