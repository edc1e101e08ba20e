/*
 * families.h - what is modelled of each model type that has a program within.
 *
 * Purpose   GET /models lists it, docs/families.md is written from it. families.def holds what the program itself answered about a small model of each
 *           type (tests/data/families.jsonl); tests/api/test_families.c asks again and turns red where a row is not what is answered.
 * Threads   a const table, sorted by type.
 */
#ifndef API_WORDS_FAMILIES_H
#define API_WORDS_FAMILIES_H

#include <stddef.h>

enum family_models {
    FAMILY_MEMORY = 1,    /* a training step on one GPU; without it only parameters and buffers are known */
    FAMILY_TIME = 2,      /* of that step */
    FAMILY_TENSOR = 4,    /* tensor parallelism */
    FAMILY_PIPELINE = 8,  /* pipeline parallelism */
    FAMILY_INFERENCE = 16 /* generation */
};

struct family_row {
    const char *model_type;
    unsigned models;       /* family_models */
    const char *releases;  /* of transformers, of those that were asked, in which a step is answered: "4.40 4.45", by a blank each */
    unsigned traced;       /* steps of real PyTorch in tests/data/accuracy that are compared with it */
    const char *no_stages; /* of a type that trains and has no pipeline: what a request for one is told; "" where it has */
};

extern const struct family_row families[];
extern const size_t n_families;

#endif
