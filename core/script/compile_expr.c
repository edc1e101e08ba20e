#include "script/compile.h"

#include <math.h>

enum { FEW = 30 }; /* STACK_USE_GUIDELINE */

bool node_const(const struct node *n, sv *ret)
{
    if (n->kind == N_CONST) {
        *ret = n->value;
        return true;
    }
    if (n->kind == N_UNARY && n->op == UNARY_NEG && n->a->kind == N_CONST) {
        sv v = n->a->value;

        if (v.tag == SV_INT && v.i != INT64_MIN) {
            *ret = sv_int(-v.i);
            return true;
        }
        if (v.tag == SV_FLOAT) {
            *ret = sv_float(-v.f);
            return true;
        }
    }
    return false;
}

static bool constant(struct compiler *c, const struct node *n, sv *ret)
{
    return n->kind == N_TUPLE ? compile_const_tuple(c, n->a, ret) : node_const(n, ret);
}

bool compile_const_tuple(struct compiler *c, struct node *first, sv *ret)
{
    uint32_t n = 0;
    struct tuple *t;
    sv item;

    for (const struct node *e = first; e; e = e->next, n++)
        if (e->kind == N_STARRED || (e->kind != N_TUPLE && !node_const(e, &item)))
            return false;
    for (const struct node *e = first; e; e = e->next)
        if (e->kind == N_TUPLE && !compile_const_tuple(c, e->a, &item))
            return false;
    t = arena_push(c->im->arena, sizeof *t + n * sizeof(sv), alignof(max_align_t), 1);
    if (!t) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return false;
    }
    t->h = (struct obj){.refs = 1, .kind = KIND_TUPLE};
    t->n = n;
    n = 0;
    for (const struct node *e = first; e; e = e->next, n++)
        if (!constant(c, e, &t->items[n]))
            return false;
    *ret = sv_forever(t);
    return true;
}

/* ---- names */

void compile_name(struct compiler *c, struct str *name, char how)
{
    const struct sym *y;
    enum place place;

    name = mangled(c->im, c->u->scope, name);
    y = name ? scope_find(c->u->scope, name) : NULL;
    place = y ? (enum place)y->place : PLACE_GLOBAL;
    if (!name || c->rc)
        return;
    if (place == PLACE_NAME && c->u->scope->kind == SCOPE_FUNCTION)
        place = PLACE_GLOBAL;
    if (place == PLACE_GLOBAL && c->u->scope->kind != SCOPE_FUNCTION)
        place = PLACE_NAME;
    switch (place) {
    case PLACE_FAST:
        emit(c, how == 'l' ? OPC_LOAD_FAST : how == 's' ? OPC_STORE_FAST : OPC_DELETE_FAST, unit_var(c, name));
        break;
    case PLACE_CELL:
    case PLACE_FREE:
        emit(c,
             how == 's'                         ? OPC_STORE_DEREF
             : how == 'd'                       ? OPC_DELETE_DEREF
             : c->u->scope->kind == SCOPE_CLASS ? OPC_LOAD_CLASSDEREF
                                                : OPC_LOAD_DEREF,
             unit_cell(c, name));
        break;
    case PLACE_GLOBAL:
    case PLACE_GLOBAL_SAID:
        emit_name(c, how == 'l' ? OPC_LOAD_GLOBAL : how == 's' ? OPC_STORE_GLOBAL : OPC_DELETE_GLOBAL, name);
        break;
    default:
        emit_name(c, how == 'l' ? OPC_LOAD_NAME : how == 's' ? OPC_STORE_NAME : OPC_DELETE_NAME, name);
    }
}

/* ---- calls */

static bool starred(const struct node *list)
{
    for (; list; list = list->next)
        if (list->kind == N_STARRED)
            return true;
    return false;
}

static uint32_t count(const struct node *list)
{
    uint32_t n = 0;

    for (; list; list = list->next)
        n++;
    return n;
}

/* starunpack_helper: elements into a list or tuple, some of them with a star. */
static void sequence(struct compiler *c, struct node *list, enum opcode build, enum opcode add, enum opcode extend, bool tuple)
{
    uint32_t n = count(list), i = 0;
    bool built = false, big = n > FEW;
    sv fixed;

    if (n > 2 && build != OPC_BUILD_SET && compile_const_tuple(c, list, &fixed)) {
        if (tuple) {
            emit_const(c, fixed);
        } else {
            emit(c, build, 0);
            emit_const(c, fixed);
            emit(c, extend, 1);
        }
        return;
    }
    if (!starred(list) && !big) {
        for (struct node *e = list; e; e = e->next)
            compile_expr(c, e);
        emit(c, tuple ? OPC_BUILD_TUPLE : build, n);
        return;
    }
    if (big) {
        emit(c, build, 0);
        built = true;
    }
    for (struct node *e = list; e; e = e->next, i++) {
        if (e->kind == N_STARRED) {
            if (!built)
                emit(c, build, i);
            built = true;
            compile_expr(c, e->a);
            emit(c, extend, 1);
        } else {
            compile_expr(c, e);
            if (built)
                emit(c, add, 1);
        }
    }
    if (tuple)
        emit(c, OPC_LIST_TO_TUPLE, 0);
}

static sv names_tuple(struct compiler *c, const struct node *from, uint32_t n)
{
    struct tuple *t = arena_push(c->im->arena, sizeof *t + n * sizeof(sv), alignof(max_align_t), 1);

    if (!t) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return sv_none();
    }
    t->h = (struct obj){.refs = 1, .kind = KIND_TUPLE};
    t->n = n;
    for (uint32_t i = 0; i < n; i++, from = from->next)
        t->items[i] = sv_forever(from->name);
    return sv_forever(t);
}

/* compiler_subkwargs: n keywords as a dict */
static void keywords_dict(struct compiler *c, struct node *from, uint32_t n)
{
    if (n == 1) {
        emit_const(c, sv_forever(from->name));
        compile_expr(c, from->a);
        emit(c, OPC_BUILD_MAP, 1);
        return;
    }
    struct node *k = from;

    for (uint32_t i = 0; i < n; i++, k = k->next)
        compile_expr(c, k->a);
    emit_const(c, names_tuple(c, from, n));
    emit(c, OPC_BUILD_CONST_MAP, n);
}

static void keywords_all(struct compiler *c, struct node *kws)
{
    struct node *from = kws;
    uint32_t seen = 0;
    bool have = false;

    for (struct node *k = kws; k; k = k->next) {
        if (k->name) {
            seen++;
            continue;
        }
        if (seen) {
            keywords_dict(c, from, seen);
            if (have)
                emit(c, OPC_DICT_MERGE, 1);
            have = true;
            seen = 0;
        }
        if (!have)
            emit(c, OPC_BUILD_MAP, 0);
        have = true;
        compile_expr(c, k->a);
        emit(c, OPC_DICT_MERGE, 1);
        from = k->next;
    }
    if (seen) {
        keywords_dict(c, from, seen);
        if (have)
            emit(c, OPC_DICT_MERGE, 1);
    }
}

static bool plain_call(const struct node *args, const struct node *kws)
{
    for (const struct node *k = kws; k; k = k->next)
        if (!k->name)
            return false;
    return !starred(args) && count(args) + count(kws) <= 200;
}

/* compiler_call_helper: the function is on the stack, with `n_before` arguments above it */
void compile_call(struct compiler *c, struct node *args, struct node *kws, uint32_t n_before, bool method)
{
    if (plain_call(args, kws)) {
        uint32_t n = n_before + count(args) + count(kws), names;

        for (struct node *a = args; a; a = a->next)
            compile_expr(c, a);
        for (struct node *k = kws; k; k = k->next)
            compile_expr(c, k->a);
        if (!kws) {
            emit(c, method ? OPC_CALL_METHOD : OPC_CALL, n);
            return;
        }
        names = compile_const(c, names_tuple(c, kws, count(kws)));
        if (names >= 1 << 16)
            compile_fail(c, ERR_LEAVES_LANGUAGE, "a function of too many constants");
        emit(c, method ? OPC_CALL_METHOD_KW : OPC_CALL_KW, n | names << 8);
        return;
    }
    if (args && !args->next && args->kind == N_STARRED)
        compile_expr(c, args->a);
    else
        sequence(c, args, OPC_BUILD_LIST, OPC_LIST_APPEND, OPC_LIST_EXTEND, true);
    if (kws)
        keywords_all(c, kws);
    emit(c, OPC_CALL_EX, kws != NULL);
}

static void call_expr(struct compiler *c, struct node *n)
{
    struct node *f = n->a;

    if (f->kind == N_ATTR && plain_call(n->b, n->c)) {
        compile_expr(c, f->a);
        c->u->line = f->line > n->line ? f->line : n->line;
        emit_name(c, OPC_LOAD_METHOD, mangled(c->im, c->u->scope, f->name));
        compile_call(c, n->b, n->c, 0, true);
        return;
    }
    compile_expr(c, f);
    compile_call(c, n->b, n->c, 0, false);
}

/* ---- displays */

static void dict(struct compiler *c, struct node *n)
{
    struct node *e = n->a;
    bool have = false;
    sv key;

    while (e || !have) {
        struct node *from = e;
        uint32_t k = 0;
        bool fixed = true;

        for (; e && e->a && k < 16; e = e->next, k++)
            fixed &= node_const(e->a, &key);
        if (k > 1 && fixed) {
            struct tuple *t = arena_push(c->im->arena, sizeof *t + k * sizeof(sv), alignof(max_align_t), 1);

            if (!t) {
                compile_fail(c, ERR_NOMEM, "too large to be read");
                return;
            }
            t->h = (struct obj){.refs = 1, .kind = KIND_TUPLE};
            t->n = k;
            for (uint32_t i = 0; i < k; i++, from = from->next) {
                (void)node_const(from->a, &t->items[i]);
                compile_expr(c, from->b);
            }
            emit_const(c, sv_forever(t));
            emit(c, OPC_BUILD_CONST_MAP, k);
        } else if (k || !have) {
            for (; from != e; from = from->next) {
                compile_expr(c, from->a);
                compile_expr(c, from->b);
            }
            emit(c, OPC_BUILD_MAP, k);
        } else {
            compile_expr(c, e->b);
            emit(c, OPC_DICT_UPDATE, 1);
            e = e->next;
            continue;
        }
        if (have)
            emit(c, OPC_DICT_UPDATE, 1);
        have = true;
        if (c->rc)
            return;
    }
}

/* ---- comprehensions */

static void generators(struct compiler *c, struct node *n, struct node *gen, uint32_t depth)
{
    struct label start = NEW_LABEL, skip = NEW_LABEL, end = NEW_LABEL;
    bool one = false;

    if (gen == n->c) {
        depth++;
        emit(c, OPC_LOAD_FAST, 0);
    } else if ((gen->b->kind == N_LIST || gen->b->kind == N_TUPLE) && gen->b->a && !gen->b->a->next && gen->b->a->kind != N_STARRED) {
        one = true; /* for x in [y]: an assignment */
        compile_expr(c, gen->b->a);
    } else {
        depth++;
        compile_expr(c, gen->b);
        emit(c, OPC_GET_ITER, 0);
    }
    if (!one) {
        label_loop(c, &start);
        emit_jump(c, OPC_FOR_ITER, &end);
    }
    compile_store(c, gen->a);
    for (struct node *i = gen->c; i; i = i->next)
        compile_jump_if(c, i, &skip, false);
    if (gen->next) {
        generators(c, n, gen->next, depth);
    } else {
        compile_expr(c, n->a);
        switch (n->kind) {
        case N_GENEXP:
            emit(c, OPC_YIELD, 0);
            emit(c, OPC_POP_TOP, 0);
            break;
        case N_DICTCOMP:
            compile_expr(c, n->b);
            emit(c, OPC_MAP_ADD, depth + 1);
            break;
        default:
            emit(c, n->kind == N_SETCOMP ? OPC_SET_ADD : OPC_LIST_APPEND, depth + 1);
        }
    }
    label_here(c, &skip);
    if (!one) {
        emit_jump(c, OPC_JUMP_BACK, &start);
        label_here(c, &end);
    }
}

static void comprehension(struct compiler *c, struct node *n)
{
    static const uint8_t names[] = {
        [N_LISTCOMP] = SYM_listcomp, [N_SETCOMP] = SYM_setcomp, [N_DICTCOMP] = SYM_dictcomp, [N_GENEXP] = SYM_genexpr};
    struct unit u;
    const struct code *code;

    unit_open(c, &u, n->scope, c->w->symbols[names[n->kind]], n->line);
    if (c->rc)
        return;
    (void)unit_var(c, c->w->symbols[SYM_dot_zero]);
    u.code->n_args = 1;
    u.code->n_positional_only = 1;
    if (n->kind != N_GENEXP)
        emit(c, n->kind == N_LISTCOMP ? OPC_BUILD_LIST : n->kind == N_SETCOMP ? OPC_BUILD_SET : OPC_BUILD_MAP, 0);
    generators(c, n, n->c, n->kind == N_GENEXP ? 0 : 0);
    if (n->kind == N_GENEXP)
        emit_const(c, sv_none());
    emit(c, OPC_RETURN, 0);
    code = unit_close(c, &u);
    if (!code)
        return;
    compile_closure(c, code, 0);
    compile_expr(c, n->c->b);
    emit(c, OPC_GET_ITER, 0);
    emit(c, OPC_CALL, 1);
}

/* ---- comparisons, jumps */

static void compare_op(struct compiler *c, unsigned op)
{
    switch (op) {
    case CMP_IN:
    case CMP_NOT_IN:
        emit(c, OPC_CONTAINS, op == CMP_NOT_IN);
        break;
    case CMP_IS:
    case CMP_IS_NOT:
        emit(c, OPC_IS, op == CMP_IS_NOT);
        break;
    default:
        emit(c, OPC_COMPARE, op);
    }
}

static void comparison(struct compiler *c, struct node *n)
{
    struct label clean = NEW_LABEL, end = NEW_LABEL;
    struct node *o = n->b;

    compile_expr(c, n->a);
    if (!o->next) {
        compile_expr(c, o->a);
        compare_op(c, o->op);
        return;
    }
    for (; o->next; o = o->next) {
        compile_expr(c, o->a);
        emit(c, OPC_SWAP, 2);
        emit(c, OPC_COPY, 2);
        compare_op(c, o->op);
        emit_jump(c, OPC_JUMP_IF_FALSE_OR_POP, &clean);
    }
    compile_expr(c, o->a);
    compare_op(c, o->op);
    emit_jump(c, OPC_JUMP, &end);
    label_here(c, &clean);
    emit(c, OPC_SWAP, 2);
    emit(c, OPC_POP_TOP, 0);
    label_here(c, &end);
}

/* compiler_jump_if */
void compile_jump_if(struct compiler *c, struct node *n, struct label *to, bool when)
{
    struct label skip = NEW_LABEL, other = NEW_LABEL;
    bool is_or = n->kind == N_OR;
    struct node *e, *o;

    if (c->rc)
        return;
    c->u->line = n->line ? n->line : c->u->line;
    switch (n->kind) {
    case N_NOT:
        compile_jump_if(c, n->a, to, !when);
        return;
    case N_AND:
    case N_OR:
        for (e = n->a; e->next; e = e->next)
            compile_jump_if(c, e, is_or == when ? to : &skip, is_or);
        compile_jump_if(c, e, to, when);
        label_here(c, &skip);
        return;
    case N_IFEXP:
        compile_jump_if(c, n->a, &other, false);
        compile_jump_if(c, n->b, to, when);
        emit_jump(c, OPC_JUMP, &skip);
        label_here(c, &other);
        compile_jump_if(c, n->c, to, when);
        label_here(c, &skip);
        return;
    case N_COMPARE:
        if (!n->b->next) {
            sv v;

            /* x is None, as compile.c's optimizer has it */
            if ((n->b->op == CMP_IS || n->b->op == CMP_IS_NOT) && node_const(n->b->a, &v) && v.tag == SV_NONE) {
                compile_expr(c, n->a);
                emit_jump(c, (n->b->op == CMP_IS) == when ? OPC_POP_JUMP_IF_NONE : OPC_POP_JUMP_IF_NOT_NONE, to);
                return;
            }
            break;
        }
        compile_expr(c, n->a);
        for (o = n->b; o->next; o = o->next) {
            compile_expr(c, o->a);
            emit(c, OPC_SWAP, 2);
            emit(c, OPC_COPY, 2);
            compare_op(c, o->op);
            emit_jump(c, OPC_POP_JUMP_IF_FALSE, &other);
        }
        compile_expr(c, o->a);
        compare_op(c, o->op);
        emit_jump(c, when ? OPC_POP_JUMP_IF_TRUE : OPC_POP_JUMP_IF_FALSE, to);
        emit_jump(c, OPC_JUMP, &skip);
        label_here(c, &other);
        emit(c, OPC_POP_TOP, 0);
        if (!when)
            emit_jump(c, OPC_JUMP, to);
        label_here(c, &skip);
        return;
    case N_CONST:
        if (n->value.tag == SV_BOOL || n->value.tag == SV_NONE || n->value.tag == SV_INT) {
            bool truth = n->value.tag != SV_NONE && n->value.i != 0;

            if (truth == when)
                emit_jump(c, OPC_JUMP, to);
            return;
        }
        break;
    default:
        break;
    }
    compile_expr(c, n);
    emit_jump(c, when ? OPC_POP_JUMP_IF_TRUE : OPC_POP_JUMP_IF_FALSE, to);
}

static void joined(struct compiler *c, struct node *n)
{
    uint32_t k = 0;

    for (struct node *e = n->a; e; e = e->next, k++)
        compile_expr(c, e);
    if (!k)
        emit_const(c, sv_forever(c->w->symbols[SYM_empty]));
    else if (k > 1 || n->a->kind != N_FORMATTED)
        emit(c, OPC_BUILD_STRING, k);
}

static void leaves(struct compiler *c, const char *what)
{
    struct str *text = image_intern(c->im, what, strlen(what));

    if (!text) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return;
    }
    emit(c, OPC_LEAVES, compile_const(c, sv_forever(text)));
    emit_const(c, sv_none());
}

static void simple(struct compiler *c, struct node *n);

void compile_expr(struct compiler *c, struct node *n)
{
    struct label end = NEW_LABEL, other = NEW_LABEL;
    uint32_t line = c->u->line;
    sv fixed;

    if (c->rc || !n)
        return;
    c->u->line = n->line ? n->line : line;
    switch (n->kind) {
    case N_CALL:
        call_expr(c, n);
        break;
    case N_TUPLE:
        if (compile_const_tuple(c, n->a, &fixed))
            emit_const(c, fixed);
        else
            sequence(c, n->a, OPC_BUILD_LIST, OPC_LIST_APPEND, OPC_LIST_EXTEND, true);
        break;
    case N_LIST:
        sequence(c, n->a, OPC_BUILD_LIST, OPC_LIST_APPEND, OPC_LIST_EXTEND, false);
        break;
    case N_SET:
        sequence(c, n->a, OPC_BUILD_SET, OPC_SET_ADD, OPC_SET_UPDATE, false);
        break;
    case N_DICT:
        dict(c, n);
        break;
    case N_AND:
    case N_OR:
        for (struct node *e = n->a; e; e = e->next) {
            compile_expr(c, e);
            if (e->next)
                emit_jump(c, n->kind == N_AND ? OPC_JUMP_IF_FALSE_OR_POP : OPC_JUMP_IF_TRUE_OR_POP, &end);
        }
        label_here(c, &end);
        break;
    case N_COMPARE:
        comparison(c, n);
        break;
    case N_IFEXP:
        compile_jump_if(c, n->a, &other, false);
        compile_expr(c, n->b);
        emit_jump(c, OPC_JUMP, &end);
        label_here(c, &other);
        compile_expr(c, n->c);
        label_here(c, &end);
        break;
    case N_LISTCOMP:
    case N_SETCOMP:
    case N_DICTCOMP:
    case N_GENEXP:
        comprehension(c, n);
        break;
    case N_JOINED:
        joined(c, n);
        break;
    case N_FORMATTED:
        compile_expr(c, n->a);
        if (n->b)
            compile_expr(c, n->b);
        emit(c, OPC_FORMAT, (n->op == 's' ? 1 : n->op == 'r' ? 2 : n->op == 'a' ? 3 : 0) | (n->b ? 4 : 0));
        break;
    default:
        simple(c, n);
    }
    if (line)
        c->u->line = line;
}

static void simple(struct compiler *c, struct node *n)
{
    sv fixed;

    switch (n->kind) {
    case N_CONST:
        emit_const(c, n->value);
        break;
    case N_NAME:
        compile_name(c, n->name, 'l');
        break;
    case N_ATTR:
        compile_expr(c, n->a);
        emit_name(c, OPC_LOAD_ATTR, mangled(c->im, c->u->scope, n->name));
        break;
    case N_SUBSCRIPT:
        compile_expr(c, n->a);
        compile_expr(c, n->b);
        emit(c, OPC_SUBSCR, 0);
        break;
    case N_SLICE: {
        struct node *part[3] = {n->a, n->b, n->c};

        for (int i = 0; i < (n->c ? 3 : 2); i++)
            if (part[i])
                compile_expr(c, part[i]);
            else
                emit_const(c, sv_none());
        emit(c, OPC_BUILD_SLICE, n->c ? 3 : 2);
        break;
    }
    case N_BINARY:
        compile_expr(c, n->a);
        compile_expr(c, n->b);
        emit(c, OPC_BINARY, n->op);
        break;
    case N_UNARY:
        if (node_const(n, &fixed)) {
            emit_const(c, fixed);
            break;
        }
        compile_expr(c, n->a);
        emit(c, OPC_UNARY, n->op);
        break;
    case N_NOT:
        compile_expr(c, n->a);
        emit(c, OPC_NOT, 0);
        break;
    case N_LAMBDA:
        compile_function(c, n);
        break;
    case N_NAMED:
        compile_expr(c, n->b);
        emit(c, OPC_COPY, 1);
        compile_store(c, n->a);
        break;
    case N_YIELD:
        if (n->a)
            compile_expr(c, n->a);
        else
            emit_const(c, sv_none());
        emit(c, OPC_YIELD, 0);
        break;
    case N_YIELD_FROM:
        compile_expr(c, n->a);
        emit(c, OPC_GET_ITER, 1);
        emit_const(c, sv_none());
        emit(c, OPC_YIELD_FROM, 0);
        break;
    case N_STARRED:
        compile_fail(c, ERR_LEAVES_LANGUAGE, "can't use starred expression here");
        break;
    case N_AWAIT:
        leaves(c, "await");
        break;
    case N_BYTES:
        leaves(c, "bytes");
        break;
    case N_IMAGINARY:
        leaves(c, "a complex number");
        break;
    case N_BIG:
        leaves(c, "an integer beyond 64 bits");
        break;
    default:
        compile_fail(c, ERR_INTERNAL, "an expression of no kind");
    }
}
