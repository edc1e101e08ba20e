/*
 * parse.h - what the files of the parser share. Recursive descent; how deep it may go is bounded, and so is every tree's height.
 */
#ifndef SCRIPT_PARSE_H
#define SCRIPT_PARSE_H

#include "script/ast.h"
#include "script/lex.h"

enum { PARSE_DEPTH = 120, TREE_HEIGHT = 400 };

struct parser {
    struct image *im;
    struct arena *scratch;
    const char *path;
    struct err *err;
    struct lex lex;
    unsigned depth;
    bool failed;
    struct node none; /* stands for what could not be read */
};

struct node *parse_fail(struct parser *p, const char *what);
struct node *parse_node(struct parser *p, enum node_kind kind, struct node *a, struct node *b, struct node *c);
bool parse_deeper(struct parser *p);      /* false, and failed: too deep. Else p->depth-- afterwards */
struct str *parse_name(struct parser *p); /* the name that stands here */

static inline bool at(const struct parser *p, enum token t)
{
    return p->lex.kind == t;
}
static inline bool accept(struct parser *p, enum token t)
{
    if (p->lex.kind != t)
        return false;
    lex_next(&p->lex);
    return true;
}
void parse_expect(struct parser *p, enum token t, const char *what);

struct node_list {
    struct node *first, **end;
};
static inline void node_add(struct node_list *l, struct node *n)
{
    if (n->kind == N_MODULE && l->first) /* it stands for what could not be read, and may be the first of another list */
        return;
    if (!l->first)
        l->end = &l->first;
    *l->end = n;
    l->end = &n->next;
}

struct node *parse_expression(struct parser *p);       /* with lambda and `if else`, without := */
struct node *parse_named(struct parser *p);            /* with := */
struct node *parse_star_expressions(struct parser *p); /* a, *b, c */
struct node *parse_targets(struct parser *p);          /* of for: a, (b, *c) */
struct node *parse_bitwise_or(struct parser *p);
struct node *parse_strings(struct parser *p); /* adjacent ones are one */
struct node *parse_number(struct parser *p);
struct node *parse_params(struct parser *p, enum token end, bool annotated);
struct node *parse_yield(struct parser *p);
struct node *parse_block(struct parser *p);
struct node *parse_match(struct parser *p); /* NULL: `match` is a name here */
void parse_check_target(struct parser *p, const struct node *n); /* can be assigned to */
bool parse_at_expression(const struct parser *p);                /* an expression may begin here */

#endif
