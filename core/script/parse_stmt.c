#include "script/parse.h"

#include "script/object.h"

#include <string.h>

static struct node *statement(struct parser *p);

/* An annotation's text. */
static void as_written(struct node *n, const char *from, const char *end)
{
    while (end > from && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n' || end[-1] == '\r'))
        end--;
    n->text = from;
    n->bytes = (uint32_t)(end - from);
}

/* a, b: annotation = default, /, *rest, c, **kw */
struct node *parse_params(struct parser *p, enum token end, bool annotated)
{
    struct node_list list = {0};
    enum param how = PARAM_PLAIN;

    while (!at(p, end) && !p->failed) {
        enum param this = how;
        struct str *name;
        struct node *n, *annotation = NULL, *value = NULL;
        const char *from = NULL, *until = NULL;

        if (accept(p, T_SLASH)) {
            for (n = list.first; n; n = n->next)
                n->op = PARAM_POSITIONAL;
            if (!accept(p, T_COMMA))
                break;
            continue;
        }
        if (accept(p, T_DSTAR)) {
            this = PARAM_KW;
        } else if (accept(p, T_STAR)) {
            how = PARAM_KEYWORD;
            if (accept(p, T_COMMA))
                continue;
            this = PARAM_REST;
        }
        name = parse_name(p);
        if (annotated && accept(p, T_COLON)) {
            from = p->lex.text;
            annotation = accept(p, T_STAR) ? parse_bitwise_or(p) : parse_expression(p);
            until = p->lex.text;
        }
        if (accept(p, T_ASSIGN))
            value = parse_expression(p);
        n = parse_node(p, N_PARAM, annotation, value, NULL);
        if (p->failed)
            break;
        n->op = (uint8_t)this;
        n->name = name;
        as_written(n, from, until);
        node_add(&list, n);
        if (!accept(p, T_COMMA))
            break;
    }
    return list.first;
}

void parse_check_target(struct parser *p, const struct node *n)
{
    if (p->failed)
        return;
    switch (n->kind) {
    case N_NAME:
    case N_ATTR:
    case N_SUBSCRIPT:
        return;
    case N_STARRED:
        parse_check_target(p, n->a);
        return;
    case N_TUPLE:
    case N_LIST:
        for (const struct node *e = n->a; e; e = e->next)
            parse_check_target(p, e);
        return;
    default:
        (void)parse_fail(p, "cannot assign to this expression");
    }
}

static struct node *dotted(struct parser *p)
{
    const char *from = p->lex.text, *end = from;
    struct node *n = parse_node(p, N_ALIAS, NULL, NULL, NULL);
    char text[256];
    size_t bytes = 0;

    for (;;) {
        if (!at(p, T_NAME) || bytes + p->lex.bytes + 2 > sizeof text)
            return parse_fail(p, "invalid syntax: a module's name was expected");
        memcpy(text + bytes, p->lex.text, p->lex.bytes);
        bytes += p->lex.bytes;
        end = p->lex.at;
        lex_next(&p->lex);
        if (!accept(p, T_DOT))
            break;
        text[bytes++] = '.';
    }
    (void)end;
    n->name = image_intern(p->im, text, bytes);
    if (!n->name)
        return parse_fail(p, "no memory for a name");
    return n;
}

static struct node *import(struct parser *p)
{
    struct node_list names = {0};

    lex_next(&p->lex);
    do {
        struct node *n = dotted(p);

        if (accept(p, T_AS) && !p->failed)
            n->other = parse_name(p);
        node_add(&names, n);
    } while (accept(p, T_COMMA) && !p->failed);
    return parse_node(p, N_IMPORT, names.first, NULL, NULL);
}

static struct node *from_import(struct parser *p)
{
    struct node_list names = {0};
    struct node *n;
    struct str *module = NULL;
    unsigned dots = 0;
    bool parens;

    lex_next(&p->lex);
    for (; at(p, T_DOT) || at(p, T_ELLIPSIS); lex_next(&p->lex))
        dots += at(p, T_DOT) ? 1 : 3;
    if (!at(p, T_IMPORT))
        module = dotted(p)->name;
    parse_expect(p, T_IMPORT, "invalid syntax: `import` was expected");
    if (dots > 100)
        return parse_fail(p, "too many dots");
    parens = accept(p, T_LPAR);
    if (at(p, T_STAR)) {
        n = parse_node(p, N_ALIAS, NULL, NULL, NULL);
        n->name = image_intern(p->im, "*", 1);
        lex_next(&p->lex);
        node_add(&names, n);
    } else {
        do {
            if (parens && at(p, T_RPAR))
                break;
            n = parse_node(p, N_ALIAS, NULL, NULL, NULL);
            if (p->failed)
                return n;
            n->name = parse_name(p);
            if (accept(p, T_AS))
                n->other = parse_name(p);
            node_add(&names, n);
        } while (accept(p, T_COMMA) && !p->failed);
    }
    if (parens)
        parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
    n = parse_node(p, N_IMPORT_FROM, names.first, NULL, NULL);
    n->op = (uint8_t)dots;
    n->name = module;
    return n;
}

static struct node *expression_statement(struct parser *p)
{
    struct node_list targets = {0};
    uint32_t line = p->lex.token_line;
    struct node *n, *value = at(p, T_YIELD) ? parse_yield(p) : parse_star_expressions(p);

    if (at(p, T_COLON) && (value->kind == N_NAME || value->kind == N_ATTR || value->kind == N_SUBSCRIPT)) {
        const char *from;
        struct node *annotation, *to = NULL;
        const char *end;

        lex_next(&p->lex);
        from = p->lex.text;
        annotation = at(p, T_YIELD) ? parse_yield(p) : parse_expression(p);
        end = p->lex.text;
        if (accept(p, T_ASSIGN))
            to = at(p, T_YIELD) ? parse_yield(p) : parse_star_expressions(p);
        n = parse_node(p, N_ANNOTATE, value, annotation, to);
        if (!p->failed) {
            as_written(n, from, end);
            n->flag = value->kind == N_NAME && !value->flag;
        }
        return n;
    }
    if (p->lex.kind >= T_PLUS_IS && p->lex.kind <= T_RSHIFT_IS) {
        enum token t = p->lex.kind;

        if (value->kind != N_NAME && value->kind != N_ATTR && value->kind != N_SUBSCRIPT)
            return parse_fail(p, "illegal expression for augmented assignment");
        lex_next(&p->lex);
        n = parse_node(p, N_AUGMENT, value, at(p, T_YIELD) ? parse_yield(p) : parse_star_expressions(p), NULL);
        n->op = (uint8_t)(t - T_PLUS_IS);
        n->line = line;
        return n;
    }
    if (!at(p, T_ASSIGN))
        return parse_node(p, N_EXPR, value, NULL, NULL);
    while (accept(p, T_ASSIGN) && !p->failed) {
        parse_check_target(p, value);
        node_add(&targets, value);
        value = at(p, T_YIELD) ? parse_yield(p) : parse_star_expressions(p);
    }
    n = parse_node(p, N_ASSIGN, targets.first, value, NULL);
    n->line = line;
    return n;
}

static struct node *names(struct parser *p, enum node_kind kind)
{
    struct node_list list = {0};

    lex_next(&p->lex);
    do {
        struct node *n = parse_node(p, N_NAME, NULL, NULL, NULL);

        if (p->failed)
            return n;
        n->name = parse_name(p);
        node_add(&list, n);
    } while (accept(p, T_COMMA) && !p->failed);
    return parse_node(p, kind, list.first, NULL, NULL);
}

static struct node *simple(struct parser *p)
{
    enum token t = p->lex.kind;
    uint32_t line = p->lex.token_line;
    struct node *a = NULL, *b = NULL, *n;

    switch (t) {
    case T_PASS:
    case T_BREAK:
    case T_CONTINUE:
        lex_next(&p->lex);
        n = parse_node(p, t == T_PASS ? N_PASS : t == T_BREAK ? N_BREAK : N_CONTINUE, NULL, NULL, NULL);
        break;
    case T_RETURN:
        lex_next(&p->lex);
        n = parse_node(p, N_RETURN, parse_at_expression(p) ? parse_star_expressions(p) : NULL, NULL, NULL);
        break;
    case T_RAISE:
        lex_next(&p->lex);
        if (parse_at_expression(p)) {
            a = parse_expression(p);
            if (accept(p, T_FROM))
                b = parse_expression(p);
        }
        n = parse_node(p, N_RAISE, a, b, NULL);
        break;
    case T_ASSERT:
        lex_next(&p->lex);
        a = parse_expression(p);
        if (accept(p, T_COMMA))
            b = parse_expression(p);
        n = parse_node(p, N_ASSERT, a, b, NULL);
        break;
    case T_DEL:
        lex_next(&p->lex);
        a = parse_star_expressions(p);
        parse_check_target(p, a);
        n = parse_node(p, N_DELETE, a->kind == N_TUPLE && !a->flag ? a->a : a, NULL, NULL);
        break;
    case T_GLOBAL:
    case T_NONLOCAL:
        n = names(p, t == T_GLOBAL ? N_GLOBAL : N_NONLOCAL);
        break;
    case T_IMPORT:
        n = import(p);
        break;
    case T_FROM:
        n = from_import(p);
        break;
    default:
        return expression_statement(p);
    }
    n->line = line;
    return n;
}

static void simple_line(struct parser *p, struct node_list *into)
{
    do {
        node_add(into, simple(p));
    } while (accept(p, T_SEMI) && !at(p, T_NEWLINE) && !p->failed);
    if (!at(p, T_END))
        parse_expect(p, T_NEWLINE, "invalid syntax");
}

/* `:` and what belongs to it. */
struct node *parse_block(struct parser *p)
{
    struct node_list list = {0};

    parse_expect(p, T_COLON, "expected ':'");
    if (!accept(p, T_NEWLINE)) {
        simple_line(p, &list);
        return list.first;
    }
    parse_expect(p, T_INDENT, "expected an indented block");
    if (!parse_deeper(p))
        return NULL;
    while (!p->failed && !at(p, T_DEDENT) && !at(p, T_END)) {
        struct node *n = statement(p);

        node_add(&list, n);
        while (*list.end) /* a line may hold several */
            list.end = &(*list.end)->next;
    }
    p->depth--;
    (void)accept(p, T_DEDENT);
    return list.first;
}

static struct node *if_statement(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    struct node *test, *body, *other = NULL, *n;

    lex_next(&p->lex);
    test = parse_named(p);
    body = parse_block(p);
    if (at(p, T_ELIF)) {
        if (!parse_deeper(p))
            return &p->none;
        other = if_statement(p);
        p->depth--;
    } else if (accept(p, T_ELSE))
        other = parse_block(p);
    n = parse_node(p, N_IF, test, body, other);
    n->line = line;
    return n;
}

static struct node *loop(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    bool is_for = at(p, T_FOR);
    struct node *target = NULL, *test, *body, *other = NULL, *n;

    lex_next(&p->lex);
    if (is_for) {
        target = parse_targets(p);
        parse_check_target(p, target);
        parse_expect(p, T_IN, "invalid syntax: `in` was expected");
        test = parse_star_expressions(p);
    } else
        test = parse_named(p);
    body = parse_block(p);
    if (accept(p, T_ELSE))
        other = parse_block(p);
    n = is_for ? parse_node(p, N_FOR, target, test, body) : parse_node(p, N_WHILE, test, body, other);
    if (is_for)
        n->d = other;
    n->line = line;
    return n;
}

static struct node *with_items(struct parser *p, bool parens)
{
    struct node_list list = {0};

    do {
        struct node *n, *a, *b = NULL;

        if (parens && at(p, T_RPAR))
            break;
        a = parse_expression(p);
        if (accept(p, T_AS)) {
            b = accept(p, T_STAR) ? &p->none : parse_bitwise_or(p);
            parse_check_target(p, b);
        }
        n = parse_node(p, N_WITH_ITEM, a, b, NULL);
        node_add(&list, n);
    } while (accept(p, T_COMMA) && !p->failed);
    return list.first;
}

static struct node *with_statement(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    struct node *items = NULL, *n;

    lex_next(&p->lex);
    if (at(p, T_LPAR)) { /* (a as b, c as d): or an expression that begins so */
        struct lex before = p->lex;
        struct err *err = p->err;
        unsigned depth = p->depth;
        bool whole;

        p->err = NULL;
        lex_next(&p->lex);
        items = with_items(p, true);
        whole = !p->failed && accept(p, T_RPAR) && at(p, T_COLON);
        p->err = err;
        if (!whole) {
            p->failed = false;
            p->lex = before;
            p->depth = depth;
            items = NULL;
        }
    }
    if (!items)
        items = with_items(p, false);
    n = parse_node(p, N_WITH, items, parse_block(p), NULL);
    n->line = line;
    return n;
}

static struct node *try_statement(struct parser *p)
{
    uint32_t line = p->lex.token_line;
    struct node_list handlers = {0};
    struct node *body, *other = NULL, *n;

    lex_next(&p->lex);
    body = parse_block(p);
    while (at(p, T_EXCEPT) && !p->failed) {
        struct node *type = NULL;
        struct str *name = NULL;
        uint32_t at_line = p->lex.token_line;

        lex_next(&p->lex);
        if (at(p, T_STAR))
            return parse_fail(p, "`except*`");
        if (!at(p, T_COLON)) {
            type = parse_expression(p);
            if (accept(p, T_AS))
                name = parse_name(p);
        }
        n = parse_node(p, N_EXCEPT, type, parse_block(p), NULL);
        if (p->failed)
            return n;
        n->name = name;
        n->line = at_line;
        node_add(&handlers, n);
    }
    if (handlers.first && accept(p, T_ELSE))
        other = parse_block(p);
    n = parse_node(p, N_TRY, body, handlers.first, other);
    n->line = line;
    if (accept(p, T_FINALLY))
        n->d = parse_block(p);
    else if (!handlers.first)
        return parse_fail(p, "expected 'except' or 'finally' block");
    return n;
}

static struct node *definition(struct parser *p, struct node *decorators)
{
    uint32_t line = p->lex.token_line;
    struct node *params, *returns = NULL, *n;
    const char *from = NULL, *until = NULL;
    struct str *name;

    lex_next(&p->lex);
    name = parse_name(p);
    parse_expect(p, T_LPAR, "invalid syntax: '(' was expected");
    params = parse_params(p, T_RPAR, true);
    parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
    if (accept(p, T_ARROW)) {
        from = p->lex.text;
        returns = parse_expression(p);
        until = p->lex.text;
    }
    n = parse_node(p, N_DEF, params, parse_block(p), decorators);
    if (p->failed)
        return n;
    n->d = returns;
    as_written(n, from, until);
    n->name = name;
    n->line = line;
    return n;
}

static struct node *class_stmt(struct parser *p, struct node *decorators)
{
    uint32_t line = p->lex.token_line;
    struct node_list bases = {0}, kws = {0};
    struct node *n;
    struct str *name;

    lex_next(&p->lex);
    name = parse_name(p);
    if (accept(p, T_LPAR)) {
        while (!at(p, T_RPAR) && !p->failed) {
            if (accept(p, T_STAR)) {
                node_add(&bases, parse_node(p, N_STARRED, parse_expression(p), NULL, NULL));
            } else if (accept(p, T_DSTAR)) {
                node_add(&kws, parse_node(p, N_KEYWORD, parse_expression(p), NULL, NULL));
            } else {
                n = parse_named(p);
                if (n->kind == N_NAME && accept(p, T_ASSIGN)) {
                    struct node *k = parse_node(p, N_KEYWORD, parse_expression(p), NULL, NULL);

                    if (!p->failed)
                        k->name = n->name;
                    node_add(&kws, k);
                } else
                    node_add(&bases, n);
            }
            if (!accept(p, T_COMMA))
                break;
        }
        parse_expect(p, T_RPAR, "invalid syntax: ')' was expected");
    }
    n = parse_node(p, N_CLASS, bases.first, parse_block(p), decorators);
    if (p->failed)
        return n;
    n->d = kws.first;
    n->name = name;
    n->line = line;
    return n;
}

static struct node *decorated(struct parser *p)
{
    struct node_list list = {0};

    while (accept(p, T_AT) && !p->failed) {
        node_add(&list, parse_named(p));
        parse_expect(p, T_NEWLINE, "invalid syntax");
    }
    if (at(p, T_DEF))
        return definition(p, list.first);
    if (at(p, T_CLASS))
        return class_stmt(p, list.first);
    if (at(p, T_ASYNC))
        return statement(p);
    return parse_fail(p, "invalid syntax: a function or class was expected");
}

/* One statement, or all of a line. */
static struct node *statement(struct parser *p)
{
    struct node_list line = {0};
    struct node *n;

    switch (p->lex.kind) {
    case T_IF:
        return if_statement(p);
    case T_FOR:
    case T_WHILE:
        return loop(p);
    case T_WITH:
        return with_statement(p);
    case T_TRY:
        return try_statement(p);
    case T_DEF:
        return definition(p, NULL);
    case T_CLASS:
        return class_stmt(p, NULL);
    case T_AT:
        return decorated(p);
    case T_ASYNC:
        lex_next(&p->lex);
        n = statement(p);
        return parse_node(p, N_ASYNC, n, NULL, NULL);
    case T_NAME:
        n = parse_match(p);
        if (n)
            return n;
        simple_line(p, &line);
        return line.first;
    default:
        simple_line(p, &line);
        return line.first;
    }
}

enum err_code parse_module(struct image *im, struct arena *scratch, const char *path, const char *text, size_t bytes, struct node **ret,
                           struct err *err)
{
    struct parser *p = arena_new(scratch, struct parser);
    struct node_list list = {0};
    struct err mine = {0};
    struct node *n;

    if (!p)
        return err_set(err, ERR_NOMEM, "", "%.150s: no memory to read it", path);
    p->im = im;
    p->scratch = scratch;
    p->path = path;
    p->err = &mine;
    lex_init(&p->lex, text, bytes, 1);
    if (memchr(text, 0, bytes))
        (void)parse_fail(p, "a zero byte");
    while (!p->failed && !at(p, T_END)) {
        if (accept(p, T_NEWLINE))
            continue;
        if (at(p, T_INDENT)) {
            (void)parse_fail(p, "unexpected indent");
            break;
        }
        n = statement(p);
        node_add(&list, n);
        while (*list.end)
            list.end = &(*list.end)->next;
    }
    if (p->failed) {
        if (err)
            *err = mine;
        return mine.code;
    }
    n = parse_node(p, N_MODULE, list.first, NULL, NULL);
    if (p->failed) {
        if (err)
            *err = mine;
        return mine.code;
    }
    *ret = n;
    return ERR_OK;
}
