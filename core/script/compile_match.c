/*
 * compile_match.c - match and case: CPython 3.11's compiler_match (Python/compile.c), whose subject and captures lie on the stack until a whole pattern fits.
 */
#include "script/compile.h"

enum { CAPTURES_MAX = 60, POPS_MAX = 200 };

struct captures {
    struct str *names[CAPTURES_MAX];
    int n;
};

struct pattern {
    struct captures stores;
    struct label fail[POPS_MAX]; /* [i]: i values to be let go of first */
    int n_fail, on_top;          /* values above the captures */
};

static void pattern(struct compiler *c, struct node *n, struct pattern *p);

static struct pattern *pattern_new(struct compiler *c)
{
    struct pattern *p = arena_new(c->scratch, struct pattern);

    if (!p)
        compile_fail(c, ERR_NOMEM, "too large to be read");
    return p;
}

static void fail_if_not(struct compiler *c, struct pattern *p, enum opcode op)
{
    int pops = p->on_top + p->stores.n;

    if (pops >= POPS_MAX) {
        compile_fail(c, ERR_LEAVES_LANGUAGE, "a pattern of too many parts");
        return;
    }
    for (; p->n_fail <= pops; p->n_fail++)
        p->fail[p->n_fail] = (struct label)NEW_LABEL;
    emit_jump(c, op, &p->fail[pops]);
}

static void failed_here(struct compiler *c, struct pattern *p)
{
    while (--p->n_fail > 0) {
        label_here(c, &p->fail[p->n_fail]);
        emit(c, OPC_POP_TOP, 0);
    }
    if (!p->n_fail)
        label_here(c, &p->fail[0]);
    p->n_fail = 0;
}

static void rotate(struct compiler *c, int n)
{
    while (n > 1)
        emit(c, OPC_SWAP, (uint32_t)n--);
}

static void keep(struct compiler *c, struct captures *list, struct str *name)
{
    for (int i = 0; i < list->n; i++)
        if (list->names[i] == name)
            compile_fail(c, ERR_LEAVES_LANGUAGE, "multiple assignments to a name in a pattern");
    if (list->n == CAPTURES_MAX)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "a pattern of too many names");
    else
        list->names[list->n++] = name;
}

static void capture(struct compiler *c, struct str *name, struct pattern *p)
{
    if (!name) {
        emit(c, OPC_POP_TOP, 0);
        return;
    }
    rotate(c, p->on_top + p->stores.n + 1);
    keep(c, &p->stores, name);
}

static uint32_t length(const struct node *list)
{
    uint32_t n = 0;

    for (; list; list = list->next)
        n++;
    return n;
}

/* n values lie on the stack, the first on top */
static void each(struct compiler *c, struct node *list, struct pattern *p)
{
    p->on_top += (int)length(list);
    for (struct node *n = list; n && !c->rc; n = n->next) {
        struct node *of = n->kind == N_KEYWORD ? n->a : n->kind == N_PAIR ? n->b : n;

        p->on_top--;
        if (of->kind == P_STAR)
            capture(c, of->name, p);
        else
            pattern(c, of, p);
    }
}

static void compare_length(struct compiler *c, struct pattern *p, uint32_t n, enum compare_op how)
{
    emit(c, OPC_GET_LEN, 0);
    emit_const(c, sv_int(n));
    emit(c, OPC_COMPARE, how);
    fail_if_not(c, p, OPC_POP_JUMP_IF_FALSE);
}

/* [a, *_, b]: items are read one by one */
static void by_items(struct compiler *c, struct node *list, uint32_t n, struct pattern *p)
{
    bool behind = false;
    uint32_t i = 0;

    p->on_top++;
    for (struct node *e = list; e && !c->rc; e = e->next, i++) {
        if (e->kind == P_STAR)
            behind = true;
        if (e->kind == P_STAR || is_wildcard(e))
            continue;
        emit(c, OPC_COPY, 1);
        if (behind) {
            emit(c, OPC_GET_LEN, 0);
            emit_const(c, sv_int(n - i));
            emit(c, OPC_BINARY, BINARY_SUB);
        } else
            emit_const(c, sv_int(i));
        emit(c, OPC_SUBSCR, 0);
        pattern(c, e, p);
    }
    p->on_top--;
    emit(c, OPC_POP_TOP, 0);
}

static void sequence(struct compiler *c, struct node *n, struct pattern *p)
{
    uint32_t size = length(n->a), before = 0;
    const struct node *star = NULL;
    bool any = true;

    for (const struct node *e = n->a; e; e = e->next) {
        if (e->kind == P_STAR)
            star = e;
        else if (!star)
            before++;
        any &= is_wildcard(e) || (e->kind == P_STAR && !e->name);
    }
    p->on_top++;
    emit(c, OPC_MATCH_SEQUENCE, 0);
    fail_if_not(c, p, OPC_POP_JUMP_IF_FALSE);
    if (!star)
        compare_length(c, p, size, CMP_EQ);
    else if (size > 1)
        compare_length(c, p, size - 1, CMP_GE);
    p->on_top--;
    if (any) {
        emit(c, OPC_POP_TOP, 0);
    } else if (star && !star->name) {
        by_items(c, n->a, size, p);
    } else if (star && before < 256 && size - before - 1 < 256) {
        emit(c, OPC_UNPACK_EX, before | (size - before - 1) << 8);
        each(c, n->a, p);
    } else {
        emit(c, OPC_UNPACK, size);
        each(c, n->a, p);
    }
}

static void mapping(struct compiler *c, struct node *n, struct pattern *p)
{
    uint32_t size = length(n->a);

    p->on_top++;
    emit(c, OPC_MATCH_MAPPING, 0);
    fail_if_not(c, p, OPC_POP_JUMP_IF_FALSE);
    if (!size && !n->name) {
        p->on_top--;
        emit(c, OPC_POP_TOP, 0);
        return;
    }
    if (size)
        compare_length(c, p, size, CMP_GE);
    for (struct node *e = n->a; e && !c->rc; e = e->next)
        compile_expr(c, e->a);
    emit(c, OPC_BUILD_TUPLE, size);
    emit(c, OPC_MATCH_KEYS, 0);
    p->on_top += 2; /* keys and values above the subject */
    emit(c, OPC_COPY, 1);
    emit_const(c, sv_none());
    emit(c, OPC_IS, 1);
    fail_if_not(c, p, OPC_POP_JUMP_IF_FALSE);
    emit(c, OPC_UNPACK, size);
    p->on_top--;
    each(c, n->a, p);
    p->on_top -= 2;
    if (!n->name) {
        emit(c, OPC_POP_TOP, 0);
        emit(c, OPC_POP_TOP, 0);
        return;
    }
    emit(c, OPC_BUILD_MAP, 0); /* the rest: a copy without the keys */
    emit(c, OPC_SWAP, 3);
    emit(c, OPC_DICT_UPDATE, 2);
    emit(c, OPC_UNPACK, size);
    for (uint32_t i = size; i > 0; i--) {
        emit(c, OPC_COPY, 1 + i);
        emit(c, OPC_SWAP, 2);
        emit(c, OPC_DELETE_SUBSCR, 0);
    }
    capture(c, n->name, p);
}

static void class_(struct compiler *c, struct node *n, struct pattern *p)
{
    uint32_t positional = length(n->b), named = length(n->c), i = 0;
    struct tuple *names = arena_push(c->im->arena, sizeof *names + named * sizeof(sv), alignof(max_align_t), 1);

    if (!names) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return;
    }
    names->h = (struct obj){.refs = 1, .kind = KIND_TUPLE};
    names->n = named;
    for (const struct node *k = n->c; k; k = k->next)
        names->items[i++] = sv_forever(k->name);
    compile_expr(c, n->a);
    emit_const(c, sv_forever(names));
    emit(c, OPC_MATCH_CLASS, positional);
    emit(c, OPC_COPY, 1);
    emit_const(c, sv_none());
    emit(c, OPC_IS, 1);
    p->on_top++;
    fail_if_not(c, p, OPC_POP_JUMP_IF_FALSE);
    emit(c, OPC_UNPACK, positional + named);
    p->on_top += (int)named - 1;
    each(c, n->b, p);
    p->on_top -= (int)named;
    each(c, n->c, p);
}

static void alternatives(struct compiler *c, struct node *n, struct pattern *p)
{
    struct label end = NEW_LABEL;
    struct captures first = {0};
    int n_first = -1, down;

    for (struct node *a = n->a; a && !c->rc; a = a->next) {
        struct pattern *in = pattern_new(c);

        if (!in)
            return;
        emit(c, OPC_COPY, 1);
        pattern(c, a, in);
        if (n_first < 0) {
            first = in->stores;
            n_first = first.n;
        }
        if (in->stores.n != n_first)
            compile_fail(c, ERR_LEAVES_LANGUAGE, "alternative patterns bind different names");
        for (int i = 0; i < n_first && i < in->stores.n; i++)
            if (in->stores.names[i] != first.names[i])
                compile_fail(c, ERR_LEAVES_LANGUAGE, "alternative patterns bind names in another order");
        emit_jump(c, OPC_JUMP, &end);
        failed_here(c, in);
    }
    emit(c, OPC_POP_TOP, 0);
    fail_if_not(c, p, OPC_JUMP);
    label_here(c, &end);
    down = n_first + 1 + p->on_top + p->stores.n;
    for (int i = 0; i < n_first; i++) {
        rotate(c, down);
        keep(c, &p->stores, first.names[i]);
    }
    emit(c, OPC_POP_TOP, 0);
}

/* The subject lies on top, and is gone when the pattern fits. */
static void pattern(struct compiler *c, struct node *n, struct pattern *p)
{
    if (c->rc)
        return;
    switch (n->kind) {
    case P_VALUE:
        compile_expr(c, n->a);
        emit(c, OPC_COMPARE, CMP_EQ);
        fail_if_not(c, p, OPC_POP_JUMP_IF_FALSE);
        break;
    case P_IS:
        compile_expr(c, n->a);
        emit(c, OPC_IS, 0);
        fail_if_not(c, p, OPC_POP_JUMP_IF_FALSE);
        break;
    case P_NAME:
        if (n->a) {
            p->on_top++;
            emit(c, OPC_COPY, 1);
            pattern(c, n->a, p);
            p->on_top--;
        }
        capture(c, n->name, p);
        break;
    case P_OR:
        alternatives(c, n, p);
        break;
    case P_SEQ:
        sequence(c, n, p);
        break;
    case P_MAP:
        mapping(c, n, p);
        break;
    case P_CLASS:
        class_(c, n, p);
        break;
    default:
        compile_fail(c, ERR_INTERNAL, "a pattern of no kind");
    }
}

void compile_match(struct compiler *c, struct node *n)
{
    struct label end = NEW_LABEL;

    compile_expr(c, n->a);
    for (struct node *k = n->b; k && !c->rc; k = k->next) {
        struct pattern *p = pattern_new(c);
        bool whole = !k->next && k != n->b && is_wildcard(k->a); /* a `case _` at the end, not alone: the one before let go of the subject */
        bool copied = k->next && !(k->next->next == NULL && is_wildcard(k->next->a));

        if (!p)
            return;
        c->u->line = k->line;
        if (copied)
            emit(c, OPC_COPY, 1);
        if (!whole)
            pattern(c, k->a, p);
        for (int i = 0; i < p->stores.n; i++)
            compile_name(c, p->stores.names[i], 's');
        p->stores.n = 0;
        if (k->c) {
            if (!p->n_fail)
                p->fail[p->n_fail++] = (struct label)NEW_LABEL;
            compile_jump_if(c, k->c, &p->fail[0], false);
        }
        if (copied)
            emit(c, OPC_POP_TOP, 0);
        compile_body(c, k->b);
        emit_jump(c, OPC_JUMP, &end);
        failed_here(c, p);
    }
    label_here(c, &end);
}
