/*
 * ast.h - the tree of a module, as Python's ast has it. Lists hang together by `next`.
 */
#ifndef SCRIPT_AST_H
#define SCRIPT_AST_H

#include "script/script.h"

enum node_kind {
    N_MODULE, /* a: body */
    /* expressions */
    N_CONST,     /* value */
    N_NAME,      /* name */
    N_ATTR,      /* a.name */
    N_SUBSCRIPT, /* a[b] */
    N_SLICE,     /* a:b:c */
    N_TUPLE,
    N_LIST,
    N_SET,     /* a: elements */
    N_DICT,    /* a: of N_PAIR */
    N_PAIR,    /* a: b; a NULL: **b */
    N_CALL,    /* a(b.., c..): c of N_KEYWORD */
    N_KEYWORD, /* name=a; name NULL: **a */
    N_BINARY,  /* a op b: enum script_binary */
    N_UNARY,   /* enum script_unary */
    N_NOT,
    N_AND,
    N_OR,      /* a: operands */
    N_COMPARE, /* a, b: of N_OPERAND */
    N_OPERAND, /* op a: enum compare_op */
    N_IFEXP,   /* b if a else c */
    N_LAMBDA,  /* a: N_PARAM.., b: expression */
    N_LISTCOMP,
    N_SETCOMP,
    N_DICTCOMP,
    N_GENEXP,    /* a (and b: value of dict) for c: of N_FOR_IN */
    N_FOR_IN,    /* a in b if c.. */
    N_JOINED,    /* a: parts of an f-string */
    N_FORMATTED, /* a, op: 's' 'r' 'a' or 0, b: N_JOINED or NULL */
    N_STARRED,
    N_NAMED /* a := b */,
    N_YIELD,
    N_YIELD_FROM,
    N_AWAIT,
    N_BYTES,
    N_IMAGINARY,
    N_BIG, /* literals that leave the language when they are met */
    /* statements */
    N_EXPR,
    N_ASSIGN /* a: targets, b */,
    N_AUGMENT /* a op= b */,
    N_ANNOTATE /* a: b = c; flag: a name without parentheses */,
    N_RETURN,
    N_DELETE,
    N_PASS,
    N_BREAK,
    N_CONTINUE,
    N_IF,        /* a: b else c */
    N_FOR,       /* a in b: c else d */
    N_WHILE,     /* a: b else c */
    N_WITH,      /* a: of N_WITH_ITEM, b: body */
    N_WITH_ITEM, /* a as b */
    N_TRY,       /* a, b: of N_EXCEPT, c: else, d: finally */
    N_EXCEPT,    /* a as name: b */
    N_RAISE,     /* a from b */
    N_ASSERT,
    N_IMPORT /* a: of N_ALIAS */,
    N_IMPORT_FROM /* op: dots, name, a */,
    N_ALIAS /* name as other */,
    N_GLOBAL,
    N_NONLOCAL /* a: of N_NAME */,
    N_DEF,   /* name, a: N_PARAM.., b: body, c: decorators, d: -> */
    N_CLASS, /* name, a: bases, b: body, c: decorators, d: of N_KEYWORD */
    N_PARAM, /* op: enum param, name, a: annotation, b: default */
    N_ASYNC, /* async def, for, with: leaves the language when it is met */
    N_MATCH, /* a, b: of N_CASE */
    N_CASE,  /* pattern a if c: b */
    /* patterns */
    P_VALUE,  /* == a */
    P_IS,     /* is a: None, True, False */
    P_NAME,   /* a as name; a NULL: anything; name NULL: nothing is bound */
    P_OR,     /* a: patterns */
    P_SEQ,    /* a: patterns */
    P_STAR,   /* *name in one */
    P_MAP,    /* a: of N_PAIR, key and pattern; **name */
    P_CLASS,  /* a(b.., c..): c of N_KEYWORD */
};

enum param { PARAM_POSITIONAL, PARAM_PLAIN, PARAM_REST, PARAM_KEYWORD, PARAM_KW };
enum compare_op { CMP_LT, CMP_LE, CMP_EQ, CMP_NE, CMP_GT, CMP_GE, CMP_IN, CMP_NOT_IN, CMP_IS, CMP_IS_NOT }; /* as enum script_compare */

struct node {
    uint8_t kind, op;
    bool flag;       /* parenthesised, or the kind's */
    uint16_t height; /* of the tree below */
    uint32_t line;
    struct node *next, *a, *b, *c, *d;
    union {
        struct str *name;
        sv value;
    };
    struct str *other;
    struct scope *scope; /* of what opens one: symbols.c */
    const char *text;    /* an annotation's, as it was written */
    uint32_t bytes;
};

static inline bool is_wildcard(const struct node *n)
{
    return n->kind == P_NAME && !n->a && !n->name;
}

struct parsed {
    struct node *module;
    struct arena *scratch;
};

/* Parses a module. Errors: ERR_LEAVES_LANGUAGE with path and line. The tree lies in `scratch`, names and constants in the image. */
MUST_CHECK enum err_code parse_module(struct image *im, struct arena *scratch, const char *path, const char *text, size_t bytes,
                                      struct node **ret, struct err *err);

#endif
