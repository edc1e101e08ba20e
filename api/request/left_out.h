/*
 * left_out.h - what was asked and is not in the figures, and what nobody knows.
 *
 * Purpose   nothing is left out in silence: what moves memory or time and has no model is a gap, by its JSON Pointer in
 *           `not_in_figures`, and candidates that it applies to have no figures. What is not known at all stands in `ignored`.
 * Rules     ?strict=true refuses what would be ignored. What is harmless, or has its neutral value, is in neither.
 * Owner     the arena. `full` is sticky: there was no room, ask left_out_check() once.
 */
#ifndef API_REQUEST_LEFT_OUT_H
#define API_REQUEST_LEFT_OUT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/jsonw.h"

#include <stdbool.h>
#include <stdint.h>

/* Which candidates a gap applies to. */
enum gap_of {
    GAP_OF_ALL,
    GAP_OF_CHOICE,   /* those that chose the word: they say so themselves */
    GAP_OF_ADAPTERS, /* lora and qlora */
};

struct gap {
    struct gap *next;
    const char *pointer, *detail; /* detail: a sentence */
    enum gap_of of;
};

struct ignored {
    struct ignored *next;
    const char *pointer;
};

struct left_out {
    struct arena *arena;
    bool strict, full;
    bool by_query; /* the document was a query, whose names have no objects around them */
    struct gap *gaps, **gaps_end;
    struct ignored *ignored, **ignored_end;
    struct ignored *harmless, **harmless_end; /* names of another tool's in the request itself, that move nothing */
};

void left_out_init(struct left_out *l, struct arena *arena, bool strict);

/* A pointer that is there already is not added again. */
void left_out_gap(struct left_out *l, enum gap_of of, const char *pointer, const char *fmt, ...) PRINTF(4, 5);
void left_out_ignore(struct left_out *l, const char *parent, const char *name);
void left_out_harmless(struct left_out *l, const char *pointer);

MUST_CHECK enum err_code left_out_check(const struct left_out *l, struct err *err);

/* Escapes a member's name behind `parent` (RFC 6901), however long it is; NULL: no room. */
const char *pointer_to(struct arena *arena, const char *parent, const char *name);

#endif
