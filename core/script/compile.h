/*
 * compile.h - what the files of the compiler share: a unit is one code object being written.
 *
 * The order of operations is CPython 3.11's (Python/compile.c): who holds what how long follows from it. Code that cannot be
 * reached is not written.
 */
#ifndef SCRIPT_COMPILE_H
#define SCRIPT_COMPILE_H

#include "script/symbols.h"

enum opcode {
#define OPCODE(name, effect) OPC_##name,
#include "script/ops.def"
#undef OPCODE
    OPC_COUNT
};

enum { VARIES = 127, UNKNOWN = -1 };

struct label {
    int32_t at, depth; /* where, with how many values on the stack; UNKNOWN */
    int32_t jumps;     /* chain of jumps that wait for it: through their operands, + 1; 0: none */
};

enum block_kind {
    BLOCK_WHILE,
    BLOCK_FOR,
    BLOCK_EXCEPT_TRY,
    BLOCK_FINALLY_TRY,
    BLOCK_FINALLY_END,
    BLOCK_WITH,
    BLOCK_HANDLER,
    BLOCK_NAMED_HANDLER,
    BLOCK_VALUE
};

struct block { /* what a return, break or continue must leave: compiler_unwind_fblock */
    enum block_kind kind;
    struct block *up;
    struct guard *outer; /* guards that are left with it */
    struct label *top, *end;
    struct node *final;
    struct str *name;
};

struct landing { /* where an exception goes on, with how many values on the stack */
    int32_t at;
    uint32_t depth;
};

struct guard { /* operations under it go there when an exception is raised */
    struct guard *outer;
    struct landing *to;
};

struct unit {
    struct unit *up;
    struct compiler *c;
    struct scope *scope;
    struct code *code;
    struct str *qualname;
    uint32_t *ops, *lines;
    struct landing **landings; /* of each operation; NULL: nowhere */
    uint32_t n_ops, max_ops;
    sv *consts;
    uint32_t n_consts, max_consts;
    struct str **names;
    uint32_t n_names, max_names;
    struct str **vars, **cells, **frees; /* locals as they are met; cells and free by name */
    uint32_t n_vars, max_vars, n_cells, n_frees;
    struct block *block;
    struct guard *guard;
    int32_t depth, max_depth;
    bool dead;
    uint32_t line;
};

struct compiler {
    struct image *im;
    struct arena *scratch;
    const char *path;
    struct err *err;
    enum err_code rc;
    const struct world *w;
    struct unit *u;
    struct landing nowhere;
    unsigned nested; /* finally bodies within each other are written more than once */
};

void compile_fail(struct compiler *c, enum err_code code, const char *what);
void emit(struct compiler *c, enum opcode op, uint32_t arg);
void emit_name(struct compiler *c, enum opcode op, struct str *name); /* at a site of its own */
void emit_const(struct compiler *c, sv value);
uint32_t compile_const(struct compiler *c, sv value);
void emit_jump(struct compiler *c, enum opcode op, struct label *to);
void label_here(struct compiler *c, struct label *l);
void label_loop(struct compiler *c, struct label *l);           /* the same, to be jumped back to */
void guard_open(struct compiler *c, struct guard *g, int more); /* `more` values than now stay on the stack */
void guard_close(struct compiler *c);                           /* POP_BLOCK */
bool handler_here(struct compiler *c, struct guard *g);         /* false: nothing can be raised into it */
#define NEW_LABEL           \
    {                       \
        UNKNOWN, UNKNOWN, 0 \
    }

void unit_open(struct compiler *c, struct unit *u, struct scope *sc, struct str *name, uint32_t line);
const struct code *unit_close(struct compiler *c, struct unit *u);
uint32_t unit_var(struct compiler *c, struct str *name);
uint32_t unit_cell(struct compiler *c, const struct str *name); /* among cells, then free names */

void compile_expr(struct compiler *c, struct node *n);
void compile_body(struct compiler *c, struct node *n);
void compile_store(struct compiler *c, struct node *target);
void compile_jump_if(struct compiler *c, struct node *n, struct label *to, bool when);
void compile_name(struct compiler *c, struct str *name, char how); /* l load, s store, d delete */
void compile_call(struct compiler *c, struct node *args, struct node *kws, uint32_t n_before, bool method);
void compile_function(struct compiler *c, struct node *n);
void compile_class(struct compiler *c, struct node *n);
void compile_closure(struct compiler *c, const struct code *code, uint32_t flags);
void compile_match(struct compiler *c, struct node *n);
void compile_block_leave(struct compiler *c, struct block *b, bool keep_top);
bool node_const(const struct node *n, sv *ret);                            /* a literal, or minus one */
bool compile_const_tuple(struct compiler *c, struct node *first, sv *ret); /* all of them are constant */

#endif
