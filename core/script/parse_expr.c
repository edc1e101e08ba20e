#include "script/parse.h"

#include "script/object.h"

#include <string.h>

static struct node *primary(struct parser *p);
static struct node *disjunction(struct parser *p);

struct node *parse_fail(struct parser *p, const char *what)
{
    if (!p->failed) {
        p->failed = true;
        if (p->lex.kind == T_BAD && p->lex.what)
            what = p->lex.what;
        (void)err_in_file(p->err, p->scratch->full || p->im->arena->full ? ERR_NOMEM : ERR_LEAVES_LANGUAGE, p->path, p->lex.token_line, what);
    }
    p->lex.kind = T_BAD;
    return &p->none;
}

struct node *parse_node(struct parser *p, enum node_kind kind, struct node *a, struct node *b, struct node *c)
{
    struct node *n = arena_new(p->scratch, struct node);
    struct node *below[3] = {a, b, c};

    if (!n) {
        if (!p->failed) {
            p->failed = true;
            (void)err_set(p->err, ERR_NOMEM, "", "%.150s: too large to be read", p->path);
        }
        p->lex.kind = T_BAD;
        return &p->none;
    }
    n->kind = (uint8_t)kind;
    n->line = p->lex.token_line;
    n->a = a;
    n->b = b;
    n->c = c;
    for (int i = 0; i < 3; i++)
        for (const struct node *k = below[i]; k; k = k->next)
            if (k->height >= n->height)
                n->height = (uint16_t)(k->height + 1);
    if (a && a->line && a->line < n->line && kind != N_FOR_IN)
        n->line = a->line;
    if (n->height > TREE_HEIGHT)
        return parse_fail(p, "an expression that is nested too deeply");
    return n;
}

bool parse_deeper(struct parser *p)
{
    if (++p->depth > PARSE_DEPTH)
        (void)parse_fail(p, "nested too deeply");
    return !p->failed;
}

void parse_expect(struct parser *p, enum token t, const char *what)
{
    if (!accept(p, t))
        (void)parse_fail(p, what);
}

struct str *parse_name(struct parser *p)
{
    struct str *s = NULL;

    if (!at(p, T_NAME)) {
        (void)parse_fail(p, "invalid syntax: a name was expected");
        return NULL;
    }
    s = image_intern(p->im, p->lex.text, p->lex.bytes);
    if (!s)
        (void)parse_fail(p, "no memory for a name");
    lex_next(&p->lex);
    return s;
}

bool parse_at_expression(const struct parser *p)
{
    switch (p->lex.kind) {
    case T_NAME:
    case T_NUMBER:
    case T_STRING:
    case T_FALSE:
    case T_NONE:
    case T_TRUE:
    case T_LAMBDA:
    case T_NOT:
    case T_AWAIT:
    case T_LPAR:
    case T_LSQB:
    case T_LBRACE:
    case T_ELLIPSIS:
    case T_PLUS:
    case T_MINUS:
    case T_TILDE:
    case T_STAR:
    case T_YIELD:
        return true;
    default:
        return false;
    }
}

/* ---- comprehensions and displays */

static struct node *for_in(struct parser *p)
{
    struct node_list clauses = {0};

    while (at(p, T_FOR) || at(p, T_ASYNC)) {
        struct node_list ifs = {0};
        struct node *target, *iter;

        if (at(p, T_ASYNC))
            return parse_fail(p, "an asynchronous comprehension");
        lex_next(&p->lex);
        target = parse_targets(p);
        parse_check_target(p, target);
        parse_expect(p, T_IN, "invalid syntax: `in` was expected");
        iter = disjunction(p);
        while (accept(p, T_IF))
            node_add(&ifs, disjunction(p));
        node_add(&clauses, parse_node(p, N_FOR_IN, target, iter, ifs.first));
        if (p->failed)
            break;
    }
    return clauses.first;
}

static struct node *comprehension(struct parser *p, enum node_kind kind, struct node *element, struct node *value)
{
    return parse_node(p, kind, element, value, for_in(p));
}

static struct node *starred(struct parser *p)
{
    return parse_node(p, N_STARRED, parse_bitwise_or(p), NULL, NULL);
}

static struct node *star_or_named(struct parser *p)
{
    return accept(p, T_STAR) ? starred(p) : parse_named(p);
}

static bool at_for(const struct parser *p)
{
    return at(p, T_FOR) || at(p, T_ASYNC);
}

static struct node *parenthesised(struct parser *p)
{
    struct node_list items = {0};
    uint32_t line = p->lex.token_line;
    struct node *n;

    lex_next(&p->lex);
    if (accept(p, T_RPAR)) {
        n = parse_node(p, N_TUPLE, NULL, NULL, NULL);
    } else if (at(p, T_YIELD)) {
        n = parse_yield(p);
        parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
    } else {
        n = star_or_named(p);
        if (at_for(p)) {
            n = comprehension(p, N_GENEXP, n, NULL);
        } else if (at(p, T_COMMA) || n->kind == N_STARRED) {
            node_add(&items, n);
            while (accept(p, T_COMMA) && !at(p, T_RPAR) && !p->failed)
                node_add(&items, star_or_named(p));
            n = parse_node(p, N_TUPLE, items.first, NULL, NULL);
        }
        parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
    }
    n->line = n->line > line ? line : n->line;
    n->flag = true;
    return n;
}

static struct node *list_display(struct parser *p)
{
    struct node_list items = {0};
    uint32_t line = p->lex.token_line;
    struct node *n;

    lex_next(&p->lex);
    if (!at(p, T_RSQB)) {
        node_add(&items, star_or_named(p));
        if (at_for(p)) {
            n = comprehension(p, N_LISTCOMP, items.first, NULL);
            n->line = line;
            parse_expect(p, T_RSQB, "invalid syntax: ']' was expected");
            return n;
        }
        while (accept(p, T_COMMA) && !at(p, T_RSQB) && !p->failed)
            node_add(&items, star_or_named(p));
    }
    parse_expect(p, T_RSQB, "invalid syntax: ']' was expected");
    n = parse_node(p, N_LIST, items.first, NULL, NULL);
    n->line = line;
    return n;
}

static struct node *pair(struct parser *p)
{
    struct node *key, *value;

    if (accept(p, T_DSTAR))
        return parse_node(p, N_PAIR, NULL, parse_bitwise_or(p), NULL);
    key = parse_expression(p);
    parse_expect(p, T_COLON, "invalid syntax: ':' was expected");
    value = parse_expression(p);
    return parse_node(p, N_PAIR, key, value, NULL);
}

static struct node *brace_display(struct parser *p)
{
    struct node_list items = {0};
    uint32_t line = p->lex.token_line;
    struct node *n, *first;
    bool dict;

    lex_next(&p->lex);
    if (at(p, T_RBRACE)) {
        n = parse_node(p, N_DICT, NULL, NULL, NULL);
    } else {
        dict = at(p, T_DSTAR);
        if (!dict) {
            first = star_or_named(p);
            dict = at(p, T_COLON);
            if (dict) {
                lex_next(&p->lex);
                first = parse_node(p, N_PAIR, first, parse_expression(p), NULL);
            }
        } else
            first = pair(p);
        if (at_for(p)) {
            if (dict) {
                struct node *key = first->a, *value = first->b;

                n = comprehension(p, N_DICTCOMP, key, value);
            } else
                n = comprehension(p, N_SETCOMP, first, NULL);
        } else {
            node_add(&items, first);
            while (accept(p, T_COMMA) && !at(p, T_RBRACE) && !p->failed)
                node_add(&items, dict ? pair(p) : star_or_named(p));
            n = parse_node(p, dict ? N_DICT : N_SET, items.first, NULL, NULL);
        }
    }
    parse_expect(p, T_RBRACE, "invalid syntax: '}' was expected");
    n->line = line;
    return n;
}

/* ---- calls and subscripts */

static struct node *call_rest(struct parser *p, struct node *f)
{
    struct node_list args = {0}, kws = {0};
    struct node *n, *a;

    lex_next(&p->lex);
    while (!at(p, T_RPAR) && !p->failed) {
        if (accept(p, T_STAR)) {
            node_add(&args, parse_node(p, N_STARRED, parse_expression(p), NULL, NULL));
        } else if (accept(p, T_DSTAR)) {
            node_add(&kws, parse_node(p, N_KEYWORD, parse_expression(p), NULL, NULL));
        } else {
            a = parse_named(p);
            if (a->kind == N_NAME && !a->flag && at(p, T_ASSIGN)) {
                struct str *name = a->name;

                lex_next(&p->lex);
                n = parse_node(p, N_KEYWORD, parse_expression(p), NULL, NULL);
                if (!p->failed)
                    n->name = name;
                node_add(&kws, n);
            } else {
                if (at_for(p))
                    a = comprehension(p, N_GENEXP, a, NULL);
                else if (kws.first && !p->failed) {
                    for (const struct node *k = kws.first; k; k = k->next)
                        if (k->name)
                            return parse_fail(p, "positional argument follows keyword argument");
                    return parse_fail(p, "positional argument follows keyword argument unpacking");
                }
                node_add(&args, a);
            }
        }
        if (!accept(p, T_COMMA))
            break;
    }
    parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
    return parse_node(p, N_CALL, f, args.first, kws.first);
}

static struct node *slice(struct parser *p)
{
    struct node *a = NULL, *b = NULL, *c = NULL;

    if (accept(p, T_STAR))
        return starred(p);
    if (!at(p, T_COLON)) {
        a = parse_named(p);
        if (!at(p, T_COLON))
            return a;
    }
    lex_next(&p->lex);
    if (!at(p, T_COLON) && !at(p, T_COMMA) && !at(p, T_RSQB))
        b = parse_expression(p);
    if (accept(p, T_COLON) && !at(p, T_COMMA) && !at(p, T_RSQB))
        c = parse_expression(p);
    return parse_node(p, N_SLICE, a, b, c);
}

static struct node *subscript(struct parser *p, struct node *of)
{
    struct node_list items = {0};
    struct node *index;

    lex_next(&p->lex);
    index = slice(p);
    if (at(p, T_COMMA) || index->kind == N_STARRED) {
        node_add(&items, index);
        while (accept(p, T_COMMA) && !at(p, T_RSQB) && !p->failed)
            node_add(&items, slice(p));
        index = parse_node(p, N_TUPLE, items.first, NULL, NULL);
    }
    parse_expect(p, T_RSQB, "invalid syntax: ']' was expected");
    return parse_node(p, N_SUBSCRIPT, of, index, NULL);
}

static struct node *constant(struct parser *p, sv value)
{
    struct node *n = parse_node(p, N_CONST, NULL, NULL, NULL);

    if (!p->failed)
        n->value = value;
    lex_next(&p->lex);
    return n;
}

static struct node *atom(struct parser *p)
{
    struct node *n;

    switch (p->lex.kind) {
    case T_NAME:
        n = parse_node(p, N_NAME, NULL, NULL, NULL);
        if (!p->failed)
            n->name = parse_name(p);
        return n;
    case T_NUMBER:
        return parse_number(p);
    case T_STRING:
        return parse_strings(p);
    case T_NONE:
        return constant(p, sv_none());
    case T_TRUE:
        return constant(p, sv_bool(true));
    case T_FALSE:
        return constant(p, sv_bool(false));
    case T_ELLIPSIS:
        return constant(p, (sv){.tag = SV_ELLIPSIS});
    case T_LPAR:
        return parenthesised(p);
    case T_LSQB:
        return list_display(p);
    case T_LBRACE:
        return brace_display(p);
    default:
        return parse_fail(p, "invalid syntax");
    }
}

static struct node *primary(struct parser *p)
{
    struct node *n;

    if (accept(p, T_AWAIT))
        return parse_node(p, N_AWAIT, primary(p), NULL, NULL);
    if (!parse_deeper(p))
        return &p->none;
    n = atom(p);
    p->depth--;
    while (!p->failed) {
        if (accept(p, T_DOT)) {
            n = parse_node(p, N_ATTR, n, NULL, NULL);
            if (!p->failed)
                n->name = parse_name(p);
        } else if (at(p, T_LPAR)) {
            n = call_rest(p, n);
        } else if (at(p, T_LSQB)) {
            n = subscript(p, n);
        } else
            break;
    }
    return n;
}

static struct node *unary(struct parser *p);

static struct node *power(struct parser *p)
{
    struct node *base = primary(p), *n;

    if (!accept(p, T_DSTAR))
        return base;
    n = parse_node(p, N_BINARY, base, unary(p), NULL);
    n->op = BINARY_POW;
    return n;
}

static struct node *unary(struct parser *p)
{
    enum script_unary op;
    struct node *n;

    if (at(p, T_MINUS))
        op = UNARY_NEG;
    else if (at(p, T_PLUS))
        op = UNARY_POS;
    else if (at(p, T_TILDE))
        op = UNARY_INVERT;
    else
        return power(p);
    lex_next(&p->lex);
    if (!parse_deeper(p))
        return &p->none;
    n = parse_node(p, N_UNARY, unary(p), NULL, NULL);
    p->depth--;
    n->op = (uint8_t)op;
    return n;
}

static int binds(enum token t)
{
    switch (t) {
    case T_BAR:
        return 1;
    case T_CARET:
        return 2;
    case T_AMPER:
        return 3;
    case T_LSHIFT:
    case T_RSHIFT:
        return 4;
    case T_PLUS:
    case T_MINUS:
        return 5;
    case T_STAR:
    case T_SLASH:
    case T_DSLASH:
    case T_PERCENT:
    case T_AT:
        return 6;
    default:
        return 0;
    }
}

static const uint8_t binary_of[] = {BINARY_ADD,    BINARY_SUB, BINARY_MUL, BINARY_DIV, BINARY_FLOORDIV, BINARY_MOD,   BINARY_POW,
                                    BINARY_MATMUL, BINARY_AND, BINARY_OR,  BINARY_XOR, BINARY_LSHIFT,   BINARY_RSHIFT};

static struct node *binary(struct parser *p, int least)
{
    struct node *n = unary(p);

    while (!p->failed) {
        enum token t = p->lex.kind;
        int level = binds(t);

        if (!level || level < least)
            break;
        lex_next(&p->lex);
        n = parse_node(p, N_BINARY, n, binary(p, level + 1), NULL);
        n->op = binary_of[t - T_PLUS];
    }
    return n;
}

struct node *parse_bitwise_or(struct parser *p)
{
    return binary(p, 1);
}

static bool comparison_op(struct parser *p, enum compare_op *ret)
{
    enum token t = p->lex.kind;

    if (t >= T_LT && t <= T_GE) {
        *ret = (enum compare_op)(CMP_LT + (int)(t - T_LT));
    } else if (t == T_IN) {
        *ret = CMP_IN;
    } else if (t == T_IS) {
        lex_next(&p->lex);
        *ret = accept(p, T_NOT) ? CMP_IS_NOT : CMP_IS;
        return true;
    } else if (t == T_NOT) {
        lex_next(&p->lex);
        if (!at(p, T_IN)) {
            (void)parse_fail(p, "invalid syntax: `in` was expected");
            return false;
        }
        *ret = CMP_NOT_IN;
    } else
        return false;
    lex_next(&p->lex);
    return true;
}

static struct node *comparison(struct parser *p)
{
    struct node *left = parse_bitwise_or(p), *n;
    struct node_list operands = {0};
    enum compare_op op;

    while (!p->failed && comparison_op(p, &op)) {
        n = parse_node(p, N_OPERAND, parse_bitwise_or(p), NULL, NULL);
        n->op = (uint8_t)op;
        node_add(&operands, n);
    }
    return operands.first ? parse_node(p, N_COMPARE, left, operands.first, NULL) : left;
}

static struct node *inversion(struct parser *p)
{
    struct node *n;

    if (!accept(p, T_NOT))
        return comparison(p);
    if (!parse_deeper(p))
        return &p->none;
    n = parse_node(p, N_NOT, inversion(p), NULL, NULL);
    p->depth--;
    return n;
}

static struct node *conjunction(struct parser *p)
{
    struct node *n = inversion(p);
    struct node_list items = {0};

    if (!at(p, T_AND))
        return n;
    node_add(&items, n);
    while (accept(p, T_AND) && !p->failed)
        node_add(&items, inversion(p));
    return parse_node(p, N_AND, items.first, NULL, NULL);
}

static struct node *disjunction(struct parser *p)
{
    struct node *n = conjunction(p);
    struct node_list items = {0};

    if (!at(p, T_OR))
        return n;
    node_add(&items, n);
    while (accept(p, T_OR) && !p->failed)
        node_add(&items, conjunction(p));
    return parse_node(p, N_OR, items.first, NULL, NULL);
}

static struct node *lambda(struct parser *p)
{
    struct node *params, *body;
    uint32_t line = p->lex.token_line;

    lex_next(&p->lex);
    params = parse_params(p, T_COLON, false);
    parse_expect(p, T_COLON, "invalid syntax: ':' was expected");
    body = parse_expression(p);
    params = parse_node(p, N_LAMBDA, params, body, NULL);
    params->line = line;
    return params;
}

struct node *parse_expression(struct parser *p)
{
    struct node *n, *test;

    if (!parse_deeper(p))
        return &p->none;
    if (at(p, T_LAMBDA)) {
        n = lambda(p);
    } else {
        n = disjunction(p);
        if (accept(p, T_IF)) {
            test = disjunction(p);
            parse_expect(p, T_ELSE, "invalid syntax: `else` was expected");
            n = parse_node(p, N_IFEXP, test, n, parse_expression(p));
        }
    }
    p->depth--;
    return n;
}

struct node *parse_named(struct parser *p)
{
    struct node *n = parse_expression(p);

    if (n->kind != N_NAME || !at(p, T_WALRUS))
        return n;
    lex_next(&p->lex);
    return parse_node(p, N_NAMED, n, parse_expression(p), NULL);
}

struct node *parse_star_expressions(struct parser *p)
{
    struct node_list items = {0};
    struct node *n = accept(p, T_STAR) ? starred(p) : parse_expression(p);

    if (!at(p, T_COMMA))
        return n;
    node_add(&items, n);
    while (accept(p, T_COMMA) && parse_at_expression(p))
        node_add(&items, accept(p, T_STAR) ? starred(p) : parse_expression(p));
    return parse_node(p, N_TUPLE, items.first, NULL, NULL);
}

struct node *parse_targets(struct parser *p)
{
    struct node_list items = {0};
    struct node *n = accept(p, T_STAR) ? starred(p) : parse_bitwise_or(p);

    if (!at(p, T_COMMA))
        return n;
    node_add(&items, n);
    while (accept(p, T_COMMA) && parse_at_expression(p))
        node_add(&items, accept(p, T_STAR) ? starred(p) : parse_bitwise_or(p));
    return parse_node(p, N_TUPLE, items.first, NULL, NULL);
}

struct node *parse_yield(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    struct node *n;

    lex_next(&p->lex);
    if (accept(p, T_FROM))
        n = parse_node(p, N_YIELD_FROM, parse_expression(p), NULL, NULL);
    else
        n = parse_node(p, N_YIELD, parse_at_expression(p) ? parse_star_expressions(p) : NULL, NULL, NULL);
    n->line = line;
    return n;
}
