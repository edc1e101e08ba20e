#include "script/compile.h"

#include <stdlib.h>

static const int8_t effects[] = {
#define OPCODE(name, effect) effect,
#include "script/ops.def"
#undef OPCODE
};

void compile_fail(struct compiler *c, enum err_code code, const char *what)
{
    if (!c->rc)
        c->rc = err_in_file(c->err, code, c->path, c->u ? c->u->line : 0, what);
}

static void *grown(struct compiler *c, void *old, uint32_t n, uint32_t *max, size_t size)
{
    void *more;

    if (n < *max)
        return old;
    more = arena_push_raw(c->scratch, size, alignof(max_align_t), (size_t)*max * 2 + 16);
    if (!more) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return NULL;
    }
    if (n)
        memcpy(more, old, n * size);
    *max = *max * 2 + 16;
    return more;
}

static int effect_of(enum opcode op, uint32_t arg)
{
    int low = (int)(arg & 0xFF), n = (int)arg;

    if (effects[op] != VARIES)
        return effects[op];
    switch (op) {
    case OPC_CALL:
        return -n;
    case OPC_CALL_KW:
        return -low;
    case OPC_CALL_METHOD:
        return -n - 1;
    case OPC_CALL_METHOD_KW:
        return -low - 1;
    case OPC_CALL_EX:
        return -1 - (n & 1);
    case OPC_BUILD_TUPLE:
    case OPC_BUILD_LIST:
    case OPC_BUILD_SET:
    case OPC_BUILD_STRING:
    case OPC_BUILD_SLICE:
        return 1 - n;
    case OPC_BUILD_MAP:
        return 1 - 2 * n;
    case OPC_BUILD_CONST_MAP:
        return -n;
    case OPC_UNPACK:
        return n - 1;
    case OPC_UNPACK_EX:
        return low + (n >> 8);
    case OPC_FORMAT:
        return n & 4 ? -1 : 0;
    case OPC_MAKE_FUNCTION:
        return -((n & 1) + (n >> 1 & 1) + (n >> 3 & 1));
    case OPC_RAISE:
        return -n;
    default:
        return 0;
    }
}

static void write_op(struct compiler *c, enum opcode op, uint32_t arg)
{
    struct unit *u = c->u;
    uint32_t max = u->max_ops, same = max, third = max;

    if (c->rc)
        return;
    if (arg >= 1u << 24) {
        compile_fail(c, ERR_LEAVES_LANGUAGE, "a function that is too large");
        return;
    }
    if (u->n_ops >= max) {
        uint32_t *ops = grown(c, u->ops, u->n_ops, &max, sizeof *ops);
        uint32_t *lines = grown(c, u->lines, u->n_ops, &same, sizeof *lines);
        struct landing **landings = grown(c, u->landings, u->n_ops, &third, sizeof *landings);

        if (!ops || !lines || !landings)
            return;
        u->ops = ops;
        u->lines = lines;
        u->landings = landings;
        u->max_ops = max;
    }
    u->ops[u->n_ops] = (uint32_t)op | arg << 8;
    u->lines[u->n_ops] = u->line;
    u->landings[u->n_ops++] = u->guard ? u->guard->to : NULL;
}

static void grow_depth(struct unit *u, int by)
{
    u->depth += by;
    if (u->depth > u->max_depth)
        u->max_depth = u->depth;
}

void emit(struct compiler *c, enum opcode op, uint32_t arg)
{
    struct unit *u = c->u;

    if (u->dead)
        return;
    write_op(c, op, arg);
    grow_depth(u, effect_of(op, arg));
    if (op == OPC_RETURN || op == OPC_RAISE || op == OPC_RERAISE)
        u->dead = true;
}

void emit_name(struct compiler *c, enum opcode op, struct str *name)
{
    struct unit *u = c->u;
    struct str **names;

    if (u->dead || c->rc)
        return;
    names = grown(c, u->names, u->n_names, &u->max_names, sizeof *names);
    if (!names)
        return;
    u->names = names;
    names[u->n_names++] = name;
    emit(c, op, u->n_names - 1);
}

uint32_t compile_const(struct compiler *c, sv value)
{
    struct unit *u = c->u;
    uint32_t i = u->n_consts, least = i > 64 ? i - 64 : 0;
    sv *consts;

    while (i-- > least)
        if (u->consts[i].tag == value.tag && u->consts[i].i == value.i)
            return i;
    consts = grown(c, u->consts, u->n_consts, &u->max_consts, sizeof *consts);
    if (!consts)
        return 0;
    u->consts = consts;
    consts[u->n_consts] = value;
    return u->n_consts++;
}

void emit_const(struct compiler *c, sv value)
{
    if (!c->u->dead)
        emit(c, OPC_LOAD_CONST, compile_const(c, value));
}

/* A jump's target is its index among the operations. Until it is known the operands are a chain. */
void emit_jump(struct compiler *c, enum opcode op, struct label *to)
{
    struct unit *u = c->u;
    int taken = u->depth;

    if (u->dead || c->rc)
        return;
    switch (op) {
    case OPC_FOR_ITER:
    case OPC_POP_JUMP_IF_FALSE:
    case OPC_POP_JUMP_IF_TRUE:
    case OPC_POP_JUMP_IF_NONE:
    case OPC_POP_JUMP_IF_NOT_NONE:
    case OPC_POP_JUMP_BACK_IF_TRUE:
    case OPC_POP_JUMP_BACK_IF_FALSE:
        taken--;
        break;
    default:
        break;
    }
    if (to->depth == UNKNOWN)
        to->depth = taken;
    if (to->at != UNKNOWN) {
        write_op(c, op, (uint32_t)to->at);
    } else {
        write_op(c, op, (uint32_t)to->jumps);
        to->jumps = (int32_t)u->n_ops;
    }
    grow_depth(u, effect_of(op, 0));
    if (op == OPC_JUMP || op == OPC_JUMP_BACK)
        u->dead = true;
}

static void patch(struct unit *u, struct label *l)
{
    for (int32_t at = l->jumps; at;) {
        uint32_t *op = &u->ops[at - 1];

        at = (int32_t)(*op >> 8);
        *op = (*op & 0xFF) | u->n_ops << 8;
    }
    l->jumps = 0;
}

void label_here(struct compiler *c, struct label *l)
{
    struct unit *u = c->u;

    if (c->rc)
        return;
    patch(u, l);
    l->at = (int32_t)u->n_ops;
    if (u->dead && l->depth != UNKNOWN) {
        u->dead = false;
        u->depth = l->depth;
    }
    if (!u->dead)
        l->depth = u->depth;
}

void label_loop(struct compiler *c, struct label *l)
{
    label_here(c, l);
}

void guard_open(struct compiler *c, struct guard *g, int more)
{
    *g = (struct guard){c->u->guard, arena_new(c->scratch, struct landing)};
    if (!g->to) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        g->to = &c->nowhere;
    }
    g->to->at = UNKNOWN;
    g->to->depth = (uint32_t)(c->u->depth + more);
    c->u->guard = g;
}

void guard_close(struct compiler *c)
{
    c->u->guard = c->u->guard->outer;
}

/* The exception lies on top of the values that stayed. */
bool handler_here(struct compiler *c, struct guard *g)
{
    struct unit *u = c->u;

    if (c->rc)
        return false;
    g->to->at = (int32_t)u->n_ops;
    u->dead = false;
    u->depth = (int32_t)g->to->depth;
    grow_depth(u, 1);
    return true;
}

/* ---- units */

static int by_name(const void *of_a, const void *of_b)
{
    const struct str *a = *(struct str *const *)of_a, *b = *(struct str *const *)of_b;
    size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
    int order = memcmp(a->text, b->text, n);

    return order ? order : a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

uint32_t unit_cell(struct compiler *c, const struct str *name)
{
    const struct unit *u = c->u;
    struct str *const *at = u->n_cells ? bsearch(&name, u->cells, u->n_cells, sizeof name, by_name) : NULL;

    if (at)
        return (uint32_t)(at - u->cells);
    at = u->n_frees ? bsearch(&name, u->frees, u->n_frees, sizeof name, by_name) : NULL;
    if (at)
        return u->n_cells + (uint32_t)(at - u->frees);
    compile_fail(c, ERR_INTERNAL, "a name without a place");
    return 0;
}

static struct str **sorted(struct compiler *c, const struct scope *sc, bool cells, uint32_t *ret_n)
{
    uint32_t n = 0;
    struct str **list;

    for (const struct sym *y = sc->first; y; y = y->later)
        n++;
    list = arena_array(c->scratch, struct str *, n + 2);
    n = 0;
    if (!list) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        *ret_n = 0;
        return NULL;
    }
    if (cells && sc->class_cell)
        list[n++] = c->w->symbols[SYM_class];
    for (const struct sym *y = sc->first; y; y = y->later) {
        bool is_cell = y->place == PLACE_CELL;
        bool is_free = sc->kind != SCOPE_MODULE && (y->place == PLACE_FREE || ((y->flags & SYM_PASSED) && sc->kind == SCOPE_CLASS));

        if (cells ? is_cell : is_free)
            list[n++] = y->name;
    }
    qsort(list, n, sizeof *list, by_name);
    *ret_n = n;
    return list;
}

uint32_t unit_var(struct compiler *c, struct str *name)
{
    struct unit *u = c->u;
    struct sym *y = scope_find(u->scope, name);
    struct str **vars;

    if (!y) {
        compile_fail(c, ERR_INTERNAL, "a name without a scope");
        return 0;
    }
    if (y->var)
        return y->var - 1;
    vars = grown(c, u->vars, u->n_vars, &u->max_vars, sizeof *vars);
    if (!vars)
        return 0;
    u->vars = vars;
    vars[u->n_vars] = name;
    y->var = ++u->n_vars;
    if (u->n_vars > 3500)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "a function of too many names");
    return y->var - 1;
}

static struct str *qualified(struct compiler *c, const struct unit *up, struct str *name)
{
    char text[512];
    size_t n = 0;
    const struct sym *y;

    if (!up || up->scope->kind == SCOPE_MODULE)
        return name;
    y = scope_find(up->scope, mangled(c->im, up->scope, name));
    if (y && y->place == PLACE_GLOBAL_SAID)
        return name;
    if (up->qualname->bytes + name->bytes + 12 >= sizeof text)
        return name;
    memcpy(text, up->qualname->text, up->qualname->bytes);
    n = up->qualname->bytes;
    if (up->scope->kind == SCOPE_FUNCTION) {
        memcpy(text + n, ".<locals>", 9);
        n += 9;
    }
    text[n++] = '.';
    memcpy(text + n, name->text, name->bytes);
    return image_intern(c->im, text, n + name->bytes);
}

void unit_open(struct compiler *c, struct unit *u, struct scope *sc, struct str *name, uint32_t line)
{
    struct code *code = arena_new(c->im->arena, struct code);

    memset(u, 0, sizeof *u);
    u->up = c->u;
    u->c = c;
    u->scope = sc;
    u->line = line;
    for (struct sym *y = sc->first; y; y = y->later)
        y->var = 0; /* `finally` has it written more than once */
    u->qualname = qualified(c, c->u, name);
    u->cells = sorted(c, sc, true, &u->n_cells);
    u->frees = sorted(c, sc, false, &u->n_frees);
    c->u = u;
    u->code = code;
    if (!code || !u->qualname)
        compile_fail(c, ERR_NOMEM, "too large to be read");
    if (c->rc) {
        c->u = u->up; /* u is its caller's, who returns */
        return;
    }
    code->h = (struct obj){.refs = 1, .kind = KIND_CODE};
    code->name = name;
    code->qualname = u->qualname;
    code->path = c->path;
    code->id = c->im->n_codes++;
    code->line = (uint16_t)(line > UINT16_MAX ? UINT16_MAX : line);
}

/* Index among [cells, free] to index among the locals: a parameter's cell lies in the parameter's place. */
static void place_cells(struct compiler *c, struct unit *u, uint32_t *map)
{
    uint32_t next = u->n_vars;

    for (uint32_t i = 0; i < u->n_cells; i++) {
        const struct sym *y = scope_find(u->scope, u->cells[i]);

        map[i] = y && y->var ? y->var - 1 : next++;
    }
    for (uint32_t i = 0; i < u->n_frees; i++)
        map[u->n_cells + i] = next + i;
    if (next + u->n_frees > 3500)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "a function of too many names");
    u->code->n_all = (uint16_t)(next + u->n_frees);
}

static bool is_jump(enum opcode op)
{
    switch (op) {
    case OPC_FOR_ITER:
    case OPC_JUMP:
    case OPC_JUMP_BACK:
    case OPC_POP_JUMP_IF_FALSE:
    case OPC_POP_JUMP_IF_TRUE:
    case OPC_POP_JUMP_BACK_IF_TRUE:
    case OPC_POP_JUMP_BACK_IF_FALSE:
    case OPC_POP_JUMP_IF_NONE:
    case OPC_POP_JUMP_IF_NOT_NONE:
    case OPC_JUMP_IF_FALSE_OR_POP:
    case OPC_JUMP_IF_TRUE_OR_POP:
        return true;
    default:
        return false;
    }
}

static void relocate(struct unit *u, const uint32_t *map, uint32_t before)
{
    for (uint32_t i = before; i < u->n_ops; i++) {
        enum opcode op = (enum opcode)(u->ops[i] & 0xFF);
        uint32_t arg = u->ops[i] >> 8;

        if (op == OPC_LOAD_CLOSURE || op == OPC_LOAD_DEREF || op == OPC_STORE_DEREF || op == OPC_DELETE_DEREF || op == OPC_LOAD_CLASSDEREF)
            arg = map[arg];
        else if (is_jump(op))
            arg += before;
        u->ops[i] = (uint32_t)op | arg << 8;
    }
}

static void *kept(struct compiler *c, const void *from, uint32_t n, size_t size)
{
    void *to = arena_push_raw(c->im->arena, size, alignof(max_align_t), (size_t)n + 1);

    if (!to)
        compile_fail(c, ERR_NOMEM, "too large to be read");
    else if (n)
        memcpy(to, from, n * size);
    return to;
}

/* Ranges of operations under one guard. */
static void handlers(struct compiler *c, struct unit *u)
{
    struct code *code = u->code;
    struct handler *list;
    uint32_t n = 0;

    for (uint32_t i = 0; i < u->n_ops; i++)
        n += u->landings[i] && (!i || u->landings[i - 1] != u->landings[i]);
    if (!n)
        return;
    list = arena_array(c->im->arena, struct handler, n);
    if (!list) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        return;
    }
    n = 0;
    for (uint32_t i = 0; i < u->n_ops; i++) {
        const struct landing *g = u->landings[i];

        if (!g || g->at == UNKNOWN)
            continue;
        if (!i || u->landings[i - 1] != g || !n) {
            list[n].from = i;
            list[n].target = (uint32_t)g->at;
            list[n++].depth = g->depth;
        }
        list[n - 1].to = i + 1;
    }
    code->handlers = list;
    code->n_handlers = n;
}

const struct code *unit_close(struct compiler *c, struct unit *u)
{
    struct code *code = u->code;
    uint32_t *map = arena_array(c->scratch, uint32_t, u->n_cells + u->n_frees + 1), before = 0, *ops, *lines;
    struct str **vars;

    c->u = u;
    if (!map)
        compile_fail(c, ERR_NOMEM, "too large to be read");
    if (c->rc) {
        c->u = u->up;
        return NULL;
    }
    place_cells(c, u, map);
    before = u->n_cells + (u->n_frees > 0);
    ops = arena_array_raw(c->im->arena, uint32_t, u->n_ops + before + 1);
    lines = arena_array_raw(c->im->arena, uint32_t, u->n_ops + before + 1);
    vars = arena_array(c->im->arena, struct str *, (size_t)code->n_all + 1);
    if (!ops || !lines || !vars) {
        compile_fail(c, ERR_NOMEM, "too large to be read");
        c->u = u->up;
        return NULL;
    }
    /* prologue: the closure into its places, cells */
    if (u->n_frees)
        ops[0] = OPC_COPY_FREE | map[u->n_cells] << 8;
    for (uint32_t i = 0; i < u->n_cells; i++)
        ops[(u->n_frees > 0) + i] = OPC_MAKE_CELL | map[i] << 8;
    for (uint32_t i = 0; i < before; i++)
        lines[i] = code->line;
    if (u->n_ops) {
        memcpy(ops + before, u->ops, u->n_ops * sizeof *ops);
        memcpy(lines + before, u->lines, u->n_ops * sizeof *lines);
    }
    handlers(c, u);
    for (uint32_t i = 0; i < code->n_handlers; i++) {
        struct handler *h = (struct handler *)(uintptr_t)&code->handlers[i];

        h->from += before;
        h->to += before;
        h->target += before;
    }
    u->ops = ops;
    u->n_ops += before;
    relocate(u, map, before);
    for (uint32_t i = 0; i < u->n_vars; i++)
        vars[i] = u->vars[i];
    for (uint32_t i = 0; i < u->n_cells; i++)
        vars[map[i]] = u->cells[i];
    for (uint32_t i = 0; i < u->n_frees; i++)
        vars[map[u->n_cells + i]] = u->frees[i];
    code->ops = ops;
    code->lines = lines;
    code->vars = vars;
    code->n_ops = u->n_ops;
    code->n_vars = (uint16_t)u->n_vars;
    code->n_free = (uint16_t)u->n_frees;
    code->consts = kept(c, u->consts, u->n_consts, sizeof(sv));
    code->n_consts = u->n_consts;
    code->names = kept(c, u->names, u->n_names, sizeof *u->names);
    code->n_names = u->n_names;
    if (u->max_depth > 30000)
        compile_fail(c, ERR_LEAVES_LANGUAGE, "an expression that holds too many values");
    code->stack = (uint16_t)(u->max_depth + 2);
    if (u->scope->generator && u->scope->kind == SCOPE_FUNCTION)
        code->flags |= CODE_GENERATOR;
    if (u->scope->kind == SCOPE_FUNCTION)
        code->flags |= CODE_FUNCTION;
    if (!(code->flags & (CODE_REST | CODE_KW)) && !code->n_keyword)
        code->flags |= CODE_SIMPLE;
    c->u = u->up;
    return c->rc ? NULL : code;
}

/* ---- a module */

enum err_code compile_module(struct image *im, const char *path, const char *text, size_t bytes, const struct code **ret, struct err *err)
{
    /* The tree and what is half done lie at the far end of the arena, and are forgotten afterwards. */
    struct arena *keep = im->arena, scratch;
    unsigned char *end = keep->end;
    size_t room = (size_t)(end - keep->cur);
    struct compiler c = {.im = im, .scratch = &scratch, .path = path, .err = err, .w = im->world};
    struct node *module = NULL;
    struct scope *sc = NULL;
    struct unit u;
    const struct code *code = NULL;

    keep->end = keep->cur + (room / 3 & ~(size_t)15);
    arena_init(&scratch, keep->end, (size_t)(end - keep->end));
    c.rc = parse_module(im, &scratch, path, text, bytes, &module, err);
    if (!c.rc)
        c.rc = symbols_build(im, &scratch, path, module, &sc, err);
    if (!c.rc) {
        unit_open(&c, &u, sc, im->world->symbols[SYM_module_name], 1);
        if (!c.rc)
            compile_body(&c, module->a);
        if (!c.rc) {
            emit_const(&c, sv_none());
            emit(&c, OPC_RETURN, 0);
            code = unit_close(&c, &u);
        }
    }
    keep->end = end;
    if (c.rc)
        return c.rc;
    *ret = code;
    return ERR_OK;
}
