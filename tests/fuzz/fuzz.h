/*
 * fuzz.h - what the fuzz targets share.
 *
 * A file fuzz_name.c is a target: LLVMFuzzerTestOneInput(), and where its input is text that a table of names describes, a mutator
 * of its own (FUZZ_JSON, or fuzz_pick). Built by clang it is a libFuzzer program (`make fuzz`); built by the usual compiler, with
 * driver.c, it runs the corpus of tests/fuzz/corpus/name and some mutations of it, always the same (`make test`).
 */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include "base/arena.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct program_library;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes, uint8_t *out, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size); /* the library's; driver.c has a plain one */

/* Ends the process, with the sentence, where it does not hold: a finding. */
#define FUZZ_CHECK(holds, ...) ((holds) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #holds, __VA_ARGS__))
_Noreturn void fuzz_fail(const char *file, int line, const char *what, const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* One block for all inputs, begun anew. */
struct arena fuzz_arena(size_t bytes);

/* The families, compiled once. */
const struct program_library *fuzz_library(void);

/* A copy that ends with a zero, and where it has to end for a reader that goes too far to be noticed; free() it. */
char *fuzz_text(const uint8_t *data, size_t size);

/* --- text that tables describe -------------------------------------------------------------------------------------------------- */

struct member;
struct their_key;

/* Tables whose names the mutator writes; NULL: none. names: further ones, ended by NULL. */
struct fuzz_grammar {
    const struct member *members;
    const struct their_key *keys;
    const char *const *names;
    const char *const *values; /* JSON */
};

/* splitmix64. */
uint64_t fuzz_random(uint64_t *state);
size_t fuzz_below(uint64_t *state, size_t n);

/* A name of the grammar that an object called `of` may have (NULL: the document), and a JSON value that its row would take, or nearly. */
enum { FUZZ_NAME = 160, FUZZ_VALUE = 512 };
void fuzz_pick(const struct fuzz_grammar *g, uint64_t *random, const char *of, char name[FUZZ_NAME], char value[FUZZ_VALUE]);

/* Changes a value, a member, or bytes. */
size_t fuzz_mutate_json(const struct fuzz_grammar *g, uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t fuzz_cross_json(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes, uint8_t *out, size_t max, unsigned seed);

/* A target whose input is one JSON document. */
#define FUZZ_JSON(grammar)                                                                                                                      \
    size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)                                                  \
    {                                                                                                                                           \
        return fuzz_mutate_json(grammar, data, size, max_size, seed);                                                                           \
    }                                                                                                                                           \
    size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_bytes, const uint8_t *b, size_t b_bytes, uint8_t *out, size_t max, unsigned seed) \
    {                                                                                                                                           \
        return fuzz_cross_json(a, a_bytes, b, b_bytes, out, max, seed);                                                                         \
    }

#endif
