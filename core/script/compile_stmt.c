#include "script/compile.h"

/* ---- functions and classes */

static void defaults(struct compiler *c, struct node *params, uint32_t *flags)
{
    uint32_t n = 0, k = 0;
    sv fixed;
    bool constant = true;
    struct tuple *t;

    for (struct node *p = params; p; p = p->next) {
        if (p->op > PARAM_PLAIN || !p->b) {
            if (p->op <= PARAM_PLAIN && n)
                compile_fail(c, ERR_LEAVES_LANGUAGE, "non-default argument follows default argument");
            continue;
        }
        constant &= node_const(p->b, &fixed);
        n++;
    }
    if (n) {
        t = constant ? arena_push(c->im->arena, sizeof *t + n * sizeof(sv), alignof(max_align_t), 1) : NULL;
        if (constant && t) {
            t->h = (struct obj){.refs = 1, .kind = KIND_TUPLE};
            t->n = n;
            n = 0;
            for (struct node *p = params; p; p = p->next)
                if (p->op <= PARAM_PLAIN && p->b)
                    (void)node_const(p->b, &t->items[n++]);
            emit_const(c, sv_forever(t));
        } else {
            for (struct node *p = params; p; p = p->next)
                if (p->op <= PARAM_PLAIN && p->b)
                    compile_expr(c, p->b);
            emit(c, OPC_BUILD_TUPLE, n);
        }
        *flags |= 1;
    }
    for (struct node *p = params; p; p = p->next)
        if (p->op == PARAM_KEYWORD && p->b) {
            emit_const(c, sv_forever(mangled(c->im, c->u->scope, p->name)));
            compile_expr(c, p->b);
            k++;
        }
    if (k) {
        emit(c, OPC_BUILD_MAP, k);
        *flags |= 2;
    }
}

void compile_closure(struct compiler *c, const struct code *code, uint32_t flags)
{
    if (code->n_free) {
        for (uint32_t i = 0; i < code->n_free; i++) {
            const struct str *name = code->vars[code->n_all - code->n_free + i];
            uint32_t at = UINT32_MAX;

            for (uint32_t k = 0; k < c->u->n_cells; k++)
                if (c->u->cells[k] == name)
                    at = k;
            for (uint32_t k = 0; k < c->u->n_frees; k++)
                if (c->u->frees[k] == name)
                    at = c->u->n_cells + k;
            if (at == UINT32_MAX) {
                compile_fail(c, ERR_INTERNAL, "a name without a place");
                return;
            }
            emit(c, OPC_LOAD_CLOSURE, at);
        }
        emit(c, OPC_BUILD_TUPLE, code->n_free);
        flags |= 8;
    }
    emit_const(c, sv_forever(code));
    emit(c, OPC_MAKE_FUNCTION, flags);
}

static void annotations(struct compiler *c, struct code *code, const struct node *def)
{
    uint32_t n = 0;
    struct annotation *list;

    for (const struct node *p = def->a; p; p = p->next)
        n += p->text != NULL;
    n += def->text != NULL;
    if (!n)
        return;
    list = arena_array(c->im->arena, struct annotation, n);
    if (!list) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return;
    }
    n = 0;
    for (const struct node *p = def->a; p; p = p->next)
        if (p->text)
            list[n++] = (struct annotation){p->name, image_intern(c->im, p->text, p->bytes)};
    if (def->text)
        list[n++] = (struct annotation){image_intern(c->im, "return", 6), image_intern(c->im, def->text, def->bytes)};
    code->annotations = list;
    code->n_annotations = (uint16_t)n;
}

void compile_function(struct compiler *c, struct node *n)
{
    static const enum param order[] = {PARAM_POSITIONAL, PARAM_PLAIN, PARAM_KEYWORD, PARAM_REST, PARAM_KW};
    bool lambda = n->kind == N_LAMBDA;
    uint32_t flags = 0, n_decorators = 0;
    struct unit u;
    const struct code *code;

    if (!lambda)
        for (struct node *d = n->c; d; d = d->next, n_decorators++)
            compile_expr(c, d);
    defaults(c, n->a, &flags);
    unit_open(c, &u, n->scope, lambda ? c->w->symbols[SYM_lambda] : n->name, n->line);
    if (c->rc)
        return;
    for (unsigned k = 0; k < sizeof order / sizeof *order; k++)
        for (struct node *p = n->a; p; p = p->next) {
            if (p->op != order[k])
                continue;
            (void)unit_var(c, mangled(c->im, n->scope, p->name));
            u.code->n_args = (uint16_t)(u.code->n_args + (p->op <= PARAM_PLAIN));
            u.code->n_positional_only = (uint16_t)(u.code->n_positional_only + (p->op == PARAM_POSITIONAL));
            u.code->n_keyword = (uint16_t)(u.code->n_keyword + (p->op == PARAM_KEYWORD));
            if (p->op == PARAM_REST)
                u.code->flags |= CODE_REST;
            if (p->op == PARAM_KW)
                u.code->flags |= CODE_KW;
        }
    if (u.n_vars > 250)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "a function of too many parameters");
    annotations(c, u.code, n);
    if (lambda) {
        compile_expr(c, n->b);
    } else {
        compile_body(c, n->b);
        emit_const(c, sv_none());
    }
    emit(c, OPC_RETURN, 0);
    code = unit_close(c, &u);
    if (!code)
        return;
    compile_closure(c, code, flags);
    for (; n_decorators; n_decorators--)
        emit(c, OPC_CALL_DECORATOR, 0);
    if (!lambda)
        compile_name(c, n->name, 's');
}

void compile_class(struct compiler *c, struct node *n)
{
    uint32_t n_decorators = 0;
    struct unit u;
    const struct code *code;

    for (struct node *d = n->c; d; d = d->next, n_decorators++)
        compile_expr(c, d);
    unit_open(c, &u, n->scope, n->name, n->line);
    if (c->rc)
        return;
    u.scope->private = n->name;
    compile_body(c, n->b);
    for (uint32_t i = 0; i < u.n_cells; i++)
        if (u.cells[i] == c->w->symbols[SYM_class] && u.scope->class_cell) {
            emit(c, OPC_LOAD_CLOSURE, i);
            emit_name(c, OPC_STORE_NAME, c->w->symbols[SYM_classcell]);
            break;
        }
    emit_const(c, sv_none());
    emit(c, OPC_RETURN, 0);
    code = unit_close(c, &u);
    if (!code)
        return;
    /* closure, bases, keywords */
    if (code->n_free) {
        compile_closure(c, code, 0);
    } else {
        emit_const(c, sv_forever(code));
        emit(c, OPC_MAKE_FUNCTION, 0);
    }
    {
        struct node tuple = {.kind = N_TUPLE, .a = n->a, .line = n->line};

        compile_expr(c, &tuple);
    }
    if (n->d) {
        struct node dict = {.kind = N_DICT, .line = n->line};
        struct node_pairs {
            struct node *first, **end;
        } pairs = {0};

        pairs.end = &pairs.first;
        for (struct node *k = n->d; k; k = k->next) {
            struct node *pair = arena_new(c->scratch, struct node), *key = k->name ? arena_new(c->scratch, struct node) : NULL;

            if (!pair || (k->name && !key)) {
                compile_fail(c, ERR_NOMEM, "too large to be read");
                return;
            }
            pair->kind = N_PAIR;
            if (key) {
                key->kind = N_CONST;
                key->value = sv_forever(k->name);
            }
            pair->a = key;
            pair->b = k->a;
            *pairs.end = pair;
            pairs.end = &pair->next;
        }
        dict.a = pairs.first;
        compile_expr(c, &dict);
    } else
        emit_const(c, sv_none());
    emit_const(c, sv_forever(n->name));
    emit(c, OPC_MAKE_CLASS, 0);
    for (; n_decorators; n_decorators--)
        emit(c, OPC_CALL_DECORATOR, 0);
    compile_name(c, n->name, 's');
}

/* ---- assignment */

static void unpack(struct compiler *c, struct node *targets)
{
    uint32_t n = 0, before = 0, after = 0;
    bool star = false;

    for (struct node *t = targets; t; t = t->next, n++) {
        if (t->kind == N_STARRED) {
            if (star)
                compile_fail(c, ERR_LEAVES_LANGUAGE, "multiple starred expressions in assignment");
            star = true;
            before = n;
        }
    }
    after = star ? n - before - 1 : 0;
    if (star && before < 256 && after < 256)
        emit(c, OPC_UNPACK_EX, before | after << 8);
    else if (star || n > 3500)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "too many targets in an assignment");
    else
        emit(c, OPC_UNPACK, n);
    for (struct node *t = targets; t; t = t->next)
        compile_store(c, t->kind == N_STARRED ? t->a : t);
}

void compile_store(struct compiler *c, struct node *t)
{
    if (c->rc)
        return;
    switch (t->kind) {
    case N_NAME:
        compile_name(c, t->name, 's');
        break;
    case N_ATTR:
        compile_expr(c, t->a);
        emit_name(c, OPC_STORE_ATTR, mangled(c->im, c->u->scope, t->name));
        break;
    case N_SUBSCRIPT:
        compile_expr(c, t->a);
        compile_expr(c, t->b);
        emit(c, OPC_STORE_SUBSCR, 0);
        break;
    case N_TUPLE:
    case N_LIST:
        unpack(c, t->a);
        break;
    default:
        compile_fail(c, ERR_LEAVES_LANGUAGE, "cannot assign to this expression");
    }
}

static bool is_fast(struct compiler *c, const struct node *n)
{
    const struct sym *y = n->kind == N_NAME ? scope_find(c->u->scope, mangled(c->im, c->u->scope, n->name)) : NULL;

    return y && y->place == PLACE_FAST;
}

/*
 * a, b = x, y: CPython builds no tuple of two or three, it swaps; and where all targets are locals it stores them from the last to the
 * first instead (swaptimize, apply_static_swaps).
 */
static bool swapped(struct compiler *c, struct node *target, struct node *value)
{
    struct node *t = target->a, *v = value->a, *list[3];
    uint32_t n = 0;
    bool fast = true;
    sv fixed;

    if (value->kind != N_TUPLE || (target->kind != N_TUPLE && target->kind != N_LIST) || compile_const_tuple(c, value->a, &fixed))
        return false;
    for (; t && v; t = t->next, v = v->next, n++) {
        if (n >= 3 || t->kind == N_STARRED || v->kind == N_STARRED)
            return false;
        list[n] = t;
        fast &= is_fast(c, t) && t->line == target->a->line;
    }
    if (t || v || n < 1)
        return false;
    for (uint32_t i = 0; fast && i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            fast &= list[i]->name != list[k]->name;
    for (v = value->a; v; v = v->next)
        compile_expr(c, v);
    if (fast) {
        if (c->u->scope->kind == SCOPE_FUNCTION)
            for (uint32_t i = 0; i < n; i++) /* they are met in this order */
                (void)unit_var(c, mangled(c->im, c->u->scope, list[i]->name));
        for (uint32_t i = n; i-- > 0;)
            compile_store(c, list[i]);
    } else {
        if (n > 1)
            emit(c, OPC_SWAP, n);
        for (uint32_t i = 0; i < n; i++)
            compile_store(c, list[i]);
    }
    return true;
}

static void assign(struct compiler *c, struct node *n)
{
    if (!n->a->next && swapped(c, n->a, n->b))
        return;
    compile_expr(c, n->b);
    for (struct node *t = n->a; t; t = t->next) {
        if (t->next)
            emit(c, OPC_COPY, 1);
        compile_store(c, t);
    }
}

static void augment(struct compiler *c, struct node *n)
{
    struct node *t = n->a;
    struct str *name = t->kind == N_ATTR ? mangled(c->im, c->u->scope, t->name) : NULL;

    if (t->kind == N_NAME) {
        compile_name(c, t->name, 'l');
    } else if (t->kind == N_ATTR) {
        compile_expr(c, t->a);
        emit(c, OPC_COPY, 1);
        emit_name(c, OPC_LOAD_ATTR, name);
    } else {
        compile_expr(c, t->a);
        compile_expr(c, t->b);
        emit(c, OPC_COPY, 2);
        emit(c, OPC_COPY, 2);
        emit(c, OPC_SUBSCR, 0);
    }
    compile_expr(c, n->b);
    emit(c, OPC_INPLACE, n->op);
    if (t->kind == N_NAME) {
        compile_name(c, t->name, 's');
    } else if (t->kind == N_ATTR) {
        emit(c, OPC_SWAP, 2);
        emit_name(c, OPC_STORE_ATTR, name);
    } else {
        emit(c, OPC_SWAP, 3);
        emit(c, OPC_SWAP, 2);
        emit(c, OPC_STORE_SUBSCR, 0);
    }
}

static void annotate(struct compiler *c, struct node *n)
{
    struct str *text;

    if (n->c) {
        compile_expr(c, n->c);
        compile_store(c, n->a);
    }
    if (!n->flag || c->u->scope->kind == SCOPE_FUNCTION)
        return;
    text = image_intern(c->im, n->text, n->bytes);
    if (!text) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return;
    }
    emit_const(c, sv_forever(text));
    emit_name(c, OPC_ANNOTATE, mangled(c->im, c->u->scope, n->a->name));
}

static void delete (struct compiler *c, struct node *t)
{
    switch (t->kind) {
    case N_NAME:
        compile_name(c, t->name, 'd');
        break;
    case N_ATTR:
        compile_expr(c, t->a);
        emit_name(c, OPC_DELETE_ATTR, mangled(c->im, c->u->scope, t->name));
        break;
    case N_SUBSCRIPT:
        compile_expr(c, t->a);
        compile_expr(c, t->b);
        emit(c, OPC_DELETE_SUBSCR, 0);
        break;
    default:
        for (struct node *e = t->a; e && !c->rc; e = e->next)
            delete (c, e);
    }
}

/* ---- imports */

static void import(struct compiler *c, struct node *n)
{
    for (struct node *a = n->a; a && !c->rc; a = a->next) {
        const char *dot = memchr(a->name->text, '.', a->name->bytes);
        struct str *into = a->other ? a->other : a->name;

        if (dot && !a->other)
            into = image_intern(c->im, a->name->text, (size_t)(dot - a->name->text));
        emit_const(c, sv_int(a->other ? 256 : 0));
        emit_name(c, OPC_IMPORT_NAME, a->name);
        compile_name(c, into, 's');
    }
}

static void import_names(struct compiler *c, struct node *n)
{
    /* dots above 512 */
    emit_const(c, sv_int(256 + 512 * n->op));
    emit_name(c, OPC_IMPORT_NAME, n->name ? n->name : c->w->symbols[SYM_empty]);
    for (struct node *a = n->a; a && !c->rc; a = a->next) {
        if (a->name == c->w->symbols[SYM_star]) {
            emit(c, OPC_IMPORT_STAR, 0);
            return;
        }
        emit_name(c, OPC_IMPORT_FROM, a->name);
        compile_name(c, a->other ? a->other : a->name, 's');
    }
    emit(c, OPC_POP_TOP, 0);
}

/* ---- blocks */

static void forget(struct compiler *c, struct str *name)
{
    emit_const(c, sv_none());
    compile_name(c, name, 's');
    compile_name(c, name, 'd');
}

static void final_body(struct compiler *c, struct node *body)
{
    if (++c->nested > 8)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "`finally` nested too deeply");
    else
        compile_body(c, body);
    c->nested--;
}

/* compiler_unwind_fblock */
void compile_block_leave(struct compiler *c, struct block *b, bool keep)
{
    struct unit *u = c->u;

    switch (b->kind) {
    case BLOCK_WHILE:
        break;
    case BLOCK_FOR:
        if (keep)
            emit(c, OPC_SWAP, 2);
        emit(c, OPC_POP_TOP, 0);
        break;
    case BLOCK_EXCEPT_TRY:
        u->guard = b->outer;
        break;
    case BLOCK_FINALLY_TRY: {
        struct block value = {.kind = BLOCK_VALUE, .up = u->block};

        u->guard = b->outer;
        if (keep)
            u->block = &value;
        final_body(c, b->final);
        u->block = value.up;
        break;
    }
    case BLOCK_FINALLY_END:
        if (keep)
            emit(c, OPC_SWAP, 2);
        emit(c, OPC_POP_TOP, 0);
        if (keep)
            emit(c, OPC_SWAP, 2);
        u->guard = b->outer;
        emit(c, OPC_POP_EXCEPT, 0);
        break;
    case BLOCK_WITH:
        u->guard = b->outer;
        if (keep)
            emit(c, OPC_SWAP, 2);
        emit(c, OPC_WITH_EXIT, 0);
        emit(c, OPC_POP_TOP, 0);
        break;
    case BLOCK_HANDLER:
    case BLOCK_NAMED_HANDLER:
        u->guard = b->outer;
        if (keep)
            emit(c, OPC_SWAP, 2);
        emit(c, OPC_POP_EXCEPT, 0);
        if (b->kind == BLOCK_NAMED_HANDLER)
            forget(c, b->name);
        break;
    case BLOCK_VALUE:
        if (keep)
            emit(c, OPC_SWAP, 2);
        emit(c, OPC_POP_TOP, 0);
        break;
    }
}

static bool is_loop(const struct block *b)
{
    return b->kind == BLOCK_WHILE || b->kind == BLOCK_FOR;
}

/* All blocks up to `until`, from the innermost; code after it stands where it stood. */
static void leave_blocks(struct compiler *c, const struct block *until, bool keep)
{
    for (struct block *b = c->u->block; b != until && !c->rc; b = b->up) {
        c->u->block = b->up;
        compile_block_leave(c, b, keep);
    }
}

static void return_(struct compiler *c, struct node *n)
{
    struct block *block = c->u->block;
    struct guard *guard = c->u->guard;
    sv fixed;
    bool keep = n->a && !node_const(n->a, &fixed);

    if (c->u->scope->kind != SCOPE_FUNCTION)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "'return' outside function");
    if (keep)
        compile_expr(c, n->a);
    leave_blocks(c, NULL, keep);
    if (!n->a)
        emit_const(c, sv_none());
    else if (!keep)
        compile_expr(c, n->a);
    emit(c, OPC_RETURN, 0);
    c->u->block = block;
    c->u->guard = guard;
}

static void jump_out(struct compiler *c, bool next)
{
    struct block *block = c->u->block, *loop = block;
    struct guard *guard = c->u->guard;

    while (loop && !is_loop(loop))
        loop = loop->up;
    if (!loop) {
        compile_fail(c, ERR_LEAVES_LANGUAGE, next ? "'continue' not properly in loop" : "'break' outside loop");
        return;
    }
    leave_blocks(c, loop, false);
    if (!next) {
        c->u->block = loop->up;
        compile_block_leave(c, loop, false);
        emit_jump(c, OPC_JUMP, loop->end);
    } else
        emit_jump(c, OPC_JUMP_BACK, loop->top);
    c->u->block = block;
    c->u->guard = guard;
}

static void if_(struct compiler *c, struct node *n)
{
    struct label other = NEW_LABEL, end = NEW_LABEL;

    compile_jump_if(c, n->a, &other, false);
    compile_body(c, n->b);
    if (n->c)
        emit_jump(c, OPC_JUMP, &end);
    label_here(c, &other);
    compile_body(c, n->c);
    label_here(c, &end);
}

static void while_(struct compiler *c, struct node *n)
{
    struct label top = NEW_LABEL, out = NEW_LABEL, end = NEW_LABEL;
    struct block b = {.kind = BLOCK_WHILE, .up = c->u->block, .top = &top, .end = &end};

    label_loop(c, &top);
    c->u->block = &b;
    compile_jump_if(c, n->a, &out, false);
    compile_body(c, n->b);
    emit_jump(c, OPC_JUMP_BACK, &top);
    c->u->block = b.up;
    label_here(c, &out);
    compile_body(c, n->c);
    label_here(c, &end);
}

static void for_(struct compiler *c, struct node *n)
{
    struct label top = NEW_LABEL, out = NEW_LABEL, end = NEW_LABEL;
    struct block b = {.kind = BLOCK_FOR, .up = c->u->block, .top = &top, .end = &end};

    compile_expr(c, n->b);
    emit(c, OPC_GET_ITER, 0);
    c->u->block = &b;
    label_loop(c, &top);
    emit_jump(c, OPC_FOR_ITER, &out);
    compile_store(c, n->a);
    compile_body(c, n->c);
    emit_jump(c, OPC_JUMP_BACK, &top);
    c->u->block = b.up;
    label_here(c, &out);
    compile_body(c, n->d);
    label_here(c, &end);
}

/* What was handled goes on being raised when the handler fails. */
static void reraise_after(struct compiler *c, struct guard *g)
{
    if (!handler_here(c, g))
        return;
    emit(c, OPC_COPY, 2);
    emit(c, OPC_POP_EXCEPT, 0);
    emit(c, OPC_RERAISE, 0);
}

static void named_handler(struct compiler *c, struct node *h, struct guard *outer, struct label *end)
{
    struct block b = {.kind = BLOCK_NAMED_HANDLER, .up = c->u->block, .outer = outer, .name = h->name};
    struct guard g;

    compile_name(c, h->name, 's');
    guard_open(c, &g, 0);
    c->u->block = &b;
    compile_body(c, h->b);
    c->u->block = b.up;
    guard_close(c);
    if (!c->u->dead) {
        struct guard *within = c->u->guard;

        c->u->guard = outer;
        emit(c, OPC_POP_EXCEPT, 0);
        forget(c, h->name);
        emit_jump(c, OPC_JUMP, end);
        c->u->guard = within;
    }
    if (handler_here(c, &g)) {
        forget(c, h->name);
        emit(c, OPC_RERAISE, 0);
    }
}

static void try_except(struct compiler *c, struct node *n)
{
    struct label end = NEW_LABEL;
    struct block b = {.kind = BLOCK_EXCEPT_TRY, .up = c->u->block, .outer = c->u->guard};
    struct guard g, g2, *outer = c->u->guard;
    bool was_dead = c->u->dead;

    guard_open(c, &g, 0);
    c->u->block = &b;
    compile_body(c, n->a);
    c->u->block = b.up;
    guard_close(c);
    compile_body(c, n->c);
    emit_jump(c, OPC_JUMP, &end);
    if (was_dead || !handler_here(c, &g)) {
        label_here(c, &end);
        return;
    }
    guard_open(c, &g2, 0); /* above what was handled before, which comes between */
    emit(c, OPC_PUSH_EXC_INFO, 0);
    for (struct node *h = n->b; h && !c->rc; h = h->next) {
        struct label next = NEW_LABEL;

        c->u->line = h->line;
        if (h->a) {
            compile_expr(c, h->a);
            emit(c, OPC_CHECK_EXC_MATCH, 0);
            emit_jump(c, OPC_POP_JUMP_IF_FALSE, &next);
        } else if (h->next)
            compile_fail(c, ERR_LEAVES_LANGUAGE, "default 'except:' must be last");
        if (h->name) {
            named_handler(c, h, outer, &end);
        } else {
            struct block hb = {.kind = BLOCK_HANDLER, .up = c->u->block, .outer = outer};

            emit(c, OPC_POP_TOP, 0);
            c->u->block = &hb;
            compile_body(c, h->b);
            c->u->block = hb.up;
            c->u->guard = outer;
            emit(c, OPC_POP_EXCEPT, 0);
            emit_jump(c, OPC_JUMP, &end);
            c->u->guard = &g2;
        }
        label_here(c, &next);
    }
    emit(c, OPC_RERAISE, 0);
    guard_close(c);
    reraise_after(c, &g2);
    label_here(c, &end);
}

static void try_(struct compiler *c, struct node *n)
{
    struct label end = NEW_LABEL;
    struct block b = {.kind = BLOCK_FINALLY_TRY, .up = c->u->block, .outer = c->u->guard, .final = n->d};
    struct block b2 = {.kind = BLOCK_FINALLY_END, .up = c->u->block, .outer = c->u->guard};
    struct guard g, g2;
    bool was_dead = c->u->dead;

    if (!n->d) {
        try_except(c, n);
        return;
    }
    guard_open(c, &g, 0);
    c->u->block = &b;
    if (n->b)
        try_except(c, n);
    else
        compile_body(c, n->a);
    c->u->block = b.up;
    guard_close(c);
    final_body(c, n->d);
    emit_jump(c, OPC_JUMP, &end);
    if (!was_dead && handler_here(c, &g)) {
        guard_open(c, &g2, 0); /* above what was handled before, which comes between */
        emit(c, OPC_PUSH_EXC_INFO, 0);
        c->u->block = &b2;
        final_body(c, n->d);
        c->u->block = b2.up;
        emit(c, OPC_RERAISE, 0);
        guard_close(c);
        reraise_after(c, &g2);
    }
    label_here(c, &end);
}

enum { BLOCKS_MOST = 20 }; /* CPython's CO_MAXBLOCKS (Include/cpython/code.h): "too many statically nested blocks" */

static void with_(struct compiler *c, struct node *n, struct node *item, int blocks)
{
    struct label end = NEW_LABEL, suppress = NEW_LABEL;
    struct block b = {.kind = BLOCK_WITH, .up = c->u->block, .outer = c->u->guard};
    struct guard g, g2;
    bool was_dead = c->u->dead;

    if (blocks == BLOCKS_MOST) {
        compile_fail(c, ERR_LEAVES_LANGUAGE, "too many statically nested blocks");
        return;
    }
    compile_expr(c, item->a);
    emit(c, OPC_BEFORE_WITH, 0);
    guard_open(c, &g, -1); /* without what __enter__ gave */
    c->u->block = &b;
    if (item->b)
        compile_store(c, item->b);
    else
        emit(c, OPC_POP_TOP, 0);
    if (item->next)
        with_(c, n, item->next, blocks + 1);
    else
        compile_body(c, n->b);
    c->u->block = b.up;
    guard_close(c);
    c->u->line = n->line;
    emit(c, OPC_WITH_EXIT, 0);
    emit(c, OPC_POP_TOP, 0);
    emit_jump(c, OPC_JUMP, &end);
    if (!was_dead && handler_here(c, &g)) {
        guard_open(c, &g2, 0); /* above what was handled before, which comes between */
        emit(c, OPC_PUSH_EXC_INFO, 0);
        emit(c, OPC_WITH_EXCEPT_START, 0);
        emit_jump(c, OPC_POP_JUMP_IF_TRUE, &suppress);
        emit(c, OPC_RERAISE, 0);
        label_here(c, &suppress);
        emit(c, OPC_POP_TOP, 0);
        guard_close(c);
        emit(c, OPC_POP_EXCEPT, 0);
        emit(c, OPC_POP_TOP, 0);
        emit_jump(c, OPC_JUMP, &end);
        reraise_after(c, &g2);
    }
    label_here(c, &end);
}

static void assert_(struct compiler *c, struct node *n)
{
    struct label end = NEW_LABEL;

    compile_jump_if(c, n->a, &end, true);
    emit(c, OPC_LOAD_ASSERTION_ERROR, 0);
    if (n->b) {
        compile_expr(c, n->b);
        emit(c, OPC_CALL, 1);
    }
    emit(c, OPC_RAISE, 1);
    label_here(c, &end);
}

static void raise_(struct compiler *c, struct node *n)
{
    uint32_t k = 0;

    if (n->a) {
        compile_expr(c, n->a);
        k++;
        if (n->b) {
            compile_expr(c, n->b);
            k++;
        }
    }
    emit(c, OPC_RAISE, k);
}

static void statement(struct compiler *c, struct node *n)
{
    struct str *what;

    switch (n->kind) {
    case N_EXPR:
        if (n->a->kind == N_CONST || n->a->kind == N_JOINED) {
            if (n->a->kind == N_CONST)
                break;
        }
        compile_expr(c, n->a);
        emit(c, OPC_POP_TOP, 0);
        break;
    case N_ASSIGN:
        assign(c, n);
        break;
    case N_AUGMENT:
        augment(c, n);
        break;
    case N_ANNOTATE:
        annotate(c, n);
        break;
    case N_RETURN:
        return_(c, n);
        break;
    case N_DELETE:
        for (struct node *t = n->a; t && !c->rc; t = t->next)
            delete (c, t);
        break;
    case N_PASS:
    case N_GLOBAL:
    case N_NONLOCAL:
        break;
    case N_BREAK:
        jump_out(c, false);
        break;
    case N_CONTINUE:
        jump_out(c, true);
        break;
    case N_IF:
        if_(c, n);
        break;
    case N_FOR:
        for_(c, n);
        break;
    case N_WHILE:
        while_(c, n);
        break;
    case N_WITH:
        with_(c, n, n->a, 0);
        break;
    case N_TRY:
        try_(c, n);
        break;
    case N_RAISE:
        raise_(c, n);
        break;
    case N_ASSERT:
        assert_(c, n);
        break;
    case N_IMPORT:
        import(c, n);
        break;
    case N_IMPORT_FROM:
        import_names(c, n);
        break;
    case N_DEF:
        compile_function(c, n);
        break;
    case N_CLASS:
        compile_class(c, n);
        break;
    case N_MATCH:
        compile_match(c, n);
        break;
    case N_ASYNC:
        what = image_intern(c->im, "async", 5);
        if (what)
            emit(c, OPC_LEAVES, compile_const(c, sv_forever(what)));
        break;
    default:
        compile_fail(c, ERR_INTERNAL, "a statement of no kind");
    }
}

void compile_body(struct compiler *c, struct node *n)
{
    for (; n && !c->rc; n = n->next) {
        c->u->line = n->line;
        statement(c, n);
    }
}
