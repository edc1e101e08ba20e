/*
 * err.h - one registry of errors, one error type.
 *
 * Purpose   what can fail returns enum err_code and fills one caller-owned struct err; results are written only on success.
 *           The registry is err.def: code, HTTP status, slug (stable, for machines), title.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

enum err_code {
    ERR_OK = 0,
#define ERR(code, status, slug, title) ERR_##code,
#include "base/err.def"
#undef ERR
    ERR_COUNT
};

enum { ERR_MEANT = 3 };

struct err {
    enum err_code code;
    char at[128];     /* JSON Pointer into the client's document, or "" */
    char detail[384]; /* one line for a human; machines read code */
    char meant[ERR_MEANT][100]; /* names that were probably meant, the likeliest first; "" behind the last */
    char file[64];    /* of modelling code: the file and line where it ends, and what stands there; "" and 0: none */
    unsigned line;
    char construct[192];
};

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))

/* Fills *e and returns code, so that callers can `return err_set(...)`. `e` may be NULL. */
enum err_code err_set(struct err *e, enum err_code code, const char *at, const char *fmt, ...) PRINTF(4, 5);

/* Of modelling code: "FILE:LINE: construct" is the detail, its parts are members of their own. */
enum err_code err_in_file(struct err *e, enum err_code code, const char *file, unsigned line, const char *construct);

/* Puts `prefix` before the pointer: the config parser says "/vocab_size", its caller knows it stood under "/config". */
enum err_code err_under(struct err *e, const char *prefix);

int err_status(enum err_code code);
const char *err_slug(enum err_code code);
const char *err_title(enum err_code code);

#endif
