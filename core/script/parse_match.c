/* parse_match.c - match and case, which are names everywhere else, and patterns. */
#include "script/parse.h"

#include "script/object.h"

#include <string.h>

static struct node *pattern(struct parser *p);

static bool at_word(const struct parser *p, const char *word)
{
    return at(p, T_NAME) && p->lex.bytes == strlen(word) && !memcmp(p->lex.text, word, p->lex.bytes);
}

/* a, *b, c: to `end`, behind what is read already */
static struct node *patterns_until(struct parser *p, enum token end, struct node *first)
{
    struct node_list list = {0};
    struct node *n;
    uint32_t stars = first && first->kind == P_STAR;

    if (first)
        node_add(&list, first);
    while (!at(p, end) && !p->failed) {
        if (accept(p, T_STAR)) {
            n = parse_node(p, P_STAR, NULL, NULL, NULL);
            if (p->failed)
                return n;
            n->name = parse_name(p);
            if (n->name && n->name->bytes == 1 && n->name->text[0] == '_')
                n->name = NULL;
            if (++stars > 1)
                return parse_fail(p, "multiple starred names in sequence pattern");
        } else
            n = pattern(p);
        node_add(&list, n);
        if (!accept(p, T_COMMA))
            break;
    }
    return parse_node(p, P_SEQ, list.first, NULL, NULL);
}

/* name.attr.attr */
static struct node *dotted_value(struct parser *p)
{
    struct node *n = parse_node(p, N_NAME, NULL, NULL, NULL);

    if (p->failed)
        return n;
    n->name = parse_name(p);
    while (accept(p, T_DOT) && !p->failed) {
        n = parse_node(p, N_ATTR, n, NULL, NULL);
        if (!p->failed)
            n->name = parse_name(p);
    }
    return n;
}

static struct node *single(struct parser *p)
{
    struct node *n = parse_node(p, N_CONST, NULL, NULL, NULL);

    if (!p->failed)
        n->value = at(p, T_NONE) ? sv_none() : sv_bool(at(p, T_TRUE));
    lex_next(&p->lex);
    return n;
}

/* a string, a number, minus a number */
static struct node *literal(struct parser *p)
{
    struct node *n;

    if (at(p, T_STRING))
        return parse_strings(p);
    if (!accept(p, T_MINUS))
        return parse_number(p);
    n = parse_node(p, N_UNARY, parse_number(p), NULL, NULL);
    n->op = UNARY_NEG;
    return n;
}

static struct node *class_pattern(struct parser *p, struct node *cls)
{
    struct node_list positional = {0}, named = {0};
    struct node *n;

    while (!at(p, T_RPAR) && !p->failed) {
        struct lex before = p->lex;
        struct str *name = at(p, T_NAME) ? parse_name(p) : NULL;

        if (name && accept(p, T_ASSIGN)) {
            n = parse_node(p, N_KEYWORD, pattern(p), NULL, NULL);
            if (!p->failed)
                n->name = name;
            node_add(&named, n);
        } else {
            if (p->failed || named.first)
                return parse_fail(p, "positional patterns follow keyword patterns");
            p->lex = before;
            node_add(&positional, pattern(p));
        }
        if (!accept(p, T_COMMA))
            break;
    }
    parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
    return parse_node(p, P_CLASS, cls, positional.first, named.first);
}

static struct node *mapping(struct parser *p)
{
    struct node_list pairs = {0};
    struct str *rest = NULL;
    struct node *n;

    while (!at(p, T_RBRACE) && !p->failed) {
        if (accept(p, T_DSTAR)) {
            rest = parse_name(p);
        } else {
            struct node *key = at(p, T_NAME) ? dotted_value(p) : at(p, T_NONE) || at(p, T_TRUE) || at(p, T_FALSE) ? single(p) : literal(p);

            parse_expect(p, T_COLON, "invalid syntax: ':' was expected");
            node_add(&pairs, parse_node(p, N_PAIR, key, pattern(p), NULL));
        }
        if (!accept(p, T_COMMA))
            break;
    }
    parse_expect(p, T_RBRACE, "invalid syntax: '}' was expected");
    n = parse_node(p, P_MAP, pairs.first, NULL, NULL);
    if (!p->failed)
        n->name = rest;
    return n;
}

static struct node *named_pattern(struct parser *p)
{
    struct node *value = dotted_value(p);

    if (p->failed)
        return value;
    if (accept(p, T_LPAR))
        return class_pattern(p, value);
    if (value->kind == N_ATTR)
        return parse_node(p, P_VALUE, value, NULL, NULL);
    value->kind = P_NAME;
    if (value->name->bytes == 1 && value->name->text[0] == '_')
        value->name = NULL;
    return value;
}

static struct node *closed(struct parser *p)
{
    struct node *n;

    switch (p->lex.kind) {
    case T_NAME:
        return named_pattern(p);
    case T_NONE:
    case T_TRUE:
    case T_FALSE:
        return parse_node(p, P_IS, single(p), NULL, NULL);
    case T_LSQB:
        lex_next(&p->lex);
        n = patterns_until(p, T_RSQB, NULL);
        parse_expect(p, T_RSQB, "invalid syntax: ']' was expected");
        return n;
    case T_LPAR:
        lex_next(&p->lex);
        if (at(p, T_RPAR) || at(p, T_STAR)) {
            n = patterns_until(p, T_RPAR, NULL);
        } else {
            n = pattern(p);
            if (accept(p, T_COMMA))
                n = patterns_until(p, T_RPAR, n);
        }
        parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
        return n;
    case T_LBRACE:
        lex_next(&p->lex);
        return mapping(p);
    case T_NUMBER:
    case T_STRING:
    case T_MINUS:
        return parse_node(p, P_VALUE, literal(p), NULL, NULL);
    default:
        return parse_fail(p, "invalid syntax: a pattern was expected");
    }
}

/* a | b as name */
static struct node *pattern(struct parser *p)
{
    struct node_list list = {0};
    struct node *n;

    if (!parse_deeper(p))
        return &p->none;
    n = closed(p);
    if (at(p, T_BAR)) {
        node_add(&list, n);
        while (accept(p, T_BAR) && !p->failed)
            node_add(&list, closed(p));
        n = parse_node(p, P_OR, list.first, NULL, NULL);
    }
    if (accept(p, T_AS)) {
        n = parse_node(p, P_NAME, n, NULL, NULL);
        if (!p->failed)
            n->name = parse_name(p);
    }
    p->depth--;
    return n;
}

static struct node *case_(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    struct node *n, *guard = NULL;
    bool open;

    lex_next(&p->lex);
    open = at(p, T_STAR);
    n = open ? patterns_until(p, T_COLON, NULL) : pattern(p);
    if (!open && accept(p, T_COMMA))
        n = patterns_until(p, T_COLON, n);
    if (accept(p, T_IF))
        guard = parse_named(p);
    n = parse_node(p, N_CASE, n, parse_block(p), guard);
    n->line = line;
    return n;
}

struct node *parse_match(struct parser *p)
{
    struct lex before = p->lex;
    struct err *err = p->err;
    unsigned depth = p->depth;
    uint32_t line = p->lex.token_line;
    struct node_list cases = {0};
    struct node *subject, *n;

    if (!at_word(p, "match"))
        return NULL;
    p->err = NULL;
    lex_next(&p->lex);
    subject = parse_at_expression(p) ? parse_star_expressions(p) : parse_fail(p, "");
    (void)(accept(p, T_COLON) && accept(p, T_NEWLINE) && accept(p, T_INDENT));
    p->err = err;
    if (p->failed || !at_word(p, "case")) {
        p->failed = false;
        p->lex = before;
        p->depth = depth;
        return NULL;
    }
    if (!parse_deeper(p))
        return &p->none;
    while (at_word(p, "case") && !p->failed)
        node_add(&cases, case_(p));
    p->depth--;
    if (!at(p, T_END))
        parse_expect(p, T_DEDENT, "invalid syntax: `case` was expected");
    n = parse_node(p, N_MATCH, subject, cases.first, NULL);
    n->line = line;
    return n;
}
