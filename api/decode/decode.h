/*
 * decode.h - a JSON object into a struct, by a table of members.
 *
 * Purpose   the request's schema is data: kinds, ranges, words and what else people call them. The same table writes the struct
 *           back (resolved), so that nothing is accepted that is not echoed. openapi.yaml is tested against these tables.
 * Rules     null is "left out". Unknown members are refused or listed, never dropped in silence (unknown.h). Words compare without case,
 *           blanks, - and _. The time of a reading grows with the members of the document.
 *           A member under two names is a conflict.
 * Errors    the first violation: ERR_FIELD_* with the JSON Pointer of the member.
 * Owner     strings point into the JSON document or the tables; notes into the arena.
 */
#ifndef API_DECODE_DECODE_H
#define API_DECODE_DECODE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/jsonw.h"
#include "train/recipe.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A word of a closed vocabulary. value: an enum of core/, or WORD_UNMODELLED. also: other spellings, joined by '|'.
 * says: one sentence for people. */
struct word {
    const char *name;
    int value;
    const char *also, *says;
};
enum { WORD_UNMODELLED = -1 };

enum { WORDS_MAX = 16, STRS_MAX = 64, STR_MAX_BYTES = 1024 };

/* Chosen words, as positions in their vocabulary; n 0: left out. */
struct words {
    uint8_t n, at[WORDS_MAX];
};

struct quantity {
    bool set;
    uint64_t whole; /* KIND_WHOLE, KIND_BYTES */
    double real;    /* KIND_REAL */
};

struct strs {
    bool set, is_string;
    uint32_t n;
    const char *v[STRS_MAX];
};

enum member_kind {
    KIND_STR,    /* const char *; min..max bytes */
    KIND_WHOLE,  /* struct quantity; min..max */
    KIND_BYTES,  /* struct quantity: a whole number or "80GB" */
    KIND_REAL,   /* struct quantity; 0, or `least` or more, up to max; `open`: below max */
    KIND_BOOL,   /* enum tri */
    KIND_WORDS,  /* struct words: one, or a list where `list` is set; JSON booleans stand for the words "true" and "false" */
    KIND_STRS,   /* struct strs: a list of strings, or the one string `words` allows; `open`: or any one */
    KIND_OBJECT, /* a struct of its own, `members` */
    KIND_JSON,   /* const struct json *: an object that others read; `open`: or the text of a file */
    KIND_OWN     /* `own` reads it, `write` writes it; `list` and `members` only say what a query may write for it */
};

struct decoding;

struct member {
    const char *key, *also; /* also: other spellings, joined by '|' */
    enum member_kind kind;
    size_t at;
    bool list, open;
    uint64_t min, max;
    double least; /* of a real that is not 0; 0: the smallest that is echoed as it is */
    const struct word *words;
    const struct member *members;
    enum err_code (*own)(struct decoding *d, const struct json *v, void *at);
    void (*write)(struct jsonw *w, const char *key, const void *at);
    bool (*is_set)(const void *at);                      /* of `own`, as is what follows */
    bool (*agrees)(const void *have, const void *said); /* it is the same, or a list that has it */
    size_t size;
    const char *later; /* no model yet: what it is, for a sentence; NULL: it has one, or its words say (WORD_UNMODELLED) */
    const char
        *neutral; /* of `later`: the number that changes nothing, "0" where it is not said. false, an empty list and "none" never do */
};

/* Lines for people: what the reader can change first, how the figures were made, internals last; each in the order in which they were noted. */
enum { NOTES_MAX = 48 };
enum note_of { NOTE_OF_YOURS, NOTE_OF_FIGURES, NOTE_OF_INTERNALS, NOTE_OF_COUNT };
struct notes {
    struct arena *arena;
    uint32_t n;
    const char *v[NOTES_MAX];
    uint8_t of[NOTES_MAX];
};
void note(struct notes *notes, const char *fmt, ...) PRINTF(2, 3); /* of the figures */
void note_of(struct notes *notes, enum note_of of, const char *fmt, ...) PRINTF(3, 4);
void notes_write(struct jsonw *w, const char *name, const struct notes *notes);

struct decoding {
    struct arena *arena;
    struct notes *warnings;
    struct err *err;
    char path[128];            /* JSON Pointer of what is being read */
    struct left_out *left_out; /* of what is not known; NULL: that is somebody else's */
    const struct member *root; /* the whole document's table, for names that stand at a wrong place; NULL: none */
    /* A member that `members` does not have, whose value another tool's table may know: *ret_known then. NULL: nobody does. */
    enum err_code (*others)(struct decoding *d, const struct member *members, const struct json *v, bool *ret_known);
    void *asking; /* whoever set `others` */
};

/* Reads `doc` into the zeroed struct at `into`. */
MUST_CHECK enum err_code decode(struct decoding *d, const struct json *doc, const struct member *members, void *into);

/* Reads one value as the first row of a table says. */
MUST_CHECK enum err_code decode_value(struct decoding *d, const struct member *m, const struct json *v, void *at);

/* Appends "/name" to the path, with the escapes of RFC 6901; what is too long is cut. */
void decode_path_push(struct decoding *d, const char *name);

/* An error at the current path. */
enum err_code decode_fail(struct decoding *d, enum err_code code, const char *fmt, ...) PRINTF(3, 4);
enum err_code decode_wrong_type(struct decoding *d, const char *wanted, const struct json *v);

/* Position of a spelling in a vocabulary; -1. `bytes` of text. */
int word_find(const struct word *words, const char *text, size_t bytes);
bool word_same(const char *a, size_t a_bytes, const char *b, size_t b_bytes); /* without case, blanks, - and _ */

bool word_among(const char *joined, const char *text, size_t bytes, bool folded); /* one of those joined by '|' */

bool member_is_set(const struct member *m, const void *at);
bool members_any_set(const struct member *members, const void *from);

/* Writes what is set, members in the table's order. */
void encode_members(struct jsonw *w, const struct member *members, const void *from);

#endif
