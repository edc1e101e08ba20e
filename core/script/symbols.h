/*
 * symbols.h - which name belongs to which scope, as CPython's symtable tells.
 */
#ifndef SCRIPT_SYMBOLS_H
#define SCRIPT_SYMBOLS_H

#include "script/ast.h"
#include "script/object.h"

enum scope_kind { SCOPE_MODULE, SCOPE_CLASS, SCOPE_FUNCTION };
enum {
    SYM_BOUND = 1,
    SYM_PARAM = 2,
    SYM_USED = 4,
    SYM_GLOBAL = 8,
    SYM_NONLOCAL = 16,
    SYM_PASSED = 32 /* an inner scope needs it from outside */,
    SYM_COMP_TARGET = 64
};
enum place { PLACE_NAME, PLACE_FAST, PLACE_CELL, PLACE_FREE, PLACE_GLOBAL, PLACE_GLOBAL_SAID };

struct sym {
    struct sym *next, *later; /* of its bucket; in order */
    struct str *name;
    uint8_t flags, place;
    uint32_t var; /* 1 + its place among the locals of the unit that is written; 0: not met yet */
};

struct scope {
    struct scope *up, *inner, *beside;
    struct node *node;
    uint8_t kind;
    bool generator, comprehension, class_cell, annotated;
    struct str *private; /* class whose __names are its own */
    struct sym **bucket, *first, **end;
    uint32_t n, n_buckets; /* a power of two */
};

MUST_CHECK enum err_code symbols_build(struct image *im, struct arena *scratch, const char *path, struct node *module, struct scope **ret,
                                       struct err *err);
struct sym *scope_find(const struct scope *sc, const struct str *name);
struct str *mangled(struct image *im, const struct scope *sc, struct str *name);

#endif
