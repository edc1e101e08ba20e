#include "script/symbols.h"

struct pass {
    struct image *im;
    struct arena *scratch;
    const char *path;
    struct err *err;
    enum err_code rc;
    const struct world *w;
};

static uint32_t bucket_of(const struct scope *sc, const struct str *name)
{
    return name->hash & (sc->n_buckets - 1);
}

struct sym *scope_find(const struct scope *sc, const struct str *name)
{
    for (struct sym *y = sc->n_buckets ? sc->bucket[bucket_of(sc, name)] : NULL; y; y = y->next)
        if (y->name == name)
            return y;
    return NULL;
}

struct str *mangled(struct image *im, const struct scope *sc, struct str *name)
{
    const char *cls;
    char text[512];
    size_t n;

    if (!sc->private || name->bytes < 3 || name->text[0] != '_' || name->text[1] != '_' || memchr(name->text, '.', name->bytes) ||
        (name->text[name->bytes - 1] == '_' && name->text[name->bytes - 2] == '_'))
        return name;
    cls = sc->private->text;
    while (*cls == '_')
        cls++;
    n = strlen(cls);
    if (!*cls || 1 + n + name->bytes >= sizeof text)
        return name;
    text[0] = '_';
    memcpy(text + 1, cls, n);
    memcpy(text + 1 + n, name->text, name->bytes);
    return image_intern(im, text, 1 + n + name->bytes);
}

static void fail(struct pass *p, const struct node *n, const char *what)
{
    if (!p->rc)
        p->rc = err_in_file(p->err, ERR_LEAVES_LANGUAGE, p->path, n ? n->line : 0, what);
}

static bool more_buckets(struct pass *p, struct scope *sc)
{
    uint32_t n = sc->n_buckets ? sc->n_buckets * 4 : 16;
    struct sym **bucket;

    if (sc->n < sc->n_buckets)
        return true;
    bucket = arena_array(p->scratch, struct sym *, n);
    if (!bucket)
        return false;
    sc->bucket = bucket;
    sc->n_buckets = n;
    for (struct sym *y = sc->first; y; y = y->later) {
        y->next = bucket[bucket_of(sc, y->name)];
        bucket[bucket_of(sc, y->name)] = y;
    }
    return true;
}

static struct sym *note(struct pass *p, struct scope *sc, struct str *name, unsigned flags)
{
    struct sym *y;

    name = name ? mangled(p->im, sc, name) : NULL;
    y = name ? scope_find(sc, name) : NULL;
    if (!y) {
        y = name && more_buckets(p, sc) ? arena_new(p->scratch, struct sym) : NULL;
        if (!y) {
            if (!p->rc)
                p->rc = err_set(p->err, ERR_NOMEM, "", "%.150s: too large to be read", p->path);
            return NULL;
        }
        y->name = name;
        y->next = sc->bucket[bucket_of(sc, name)];
        sc->bucket[bucket_of(sc, name)] = y;
        sc->n++;
        *sc->end = y;
        sc->end = &y->later;
    }
    y->flags |= (uint8_t)flags;
    return y;
}

static struct scope *scope_new(struct pass *p, struct scope *up, struct node *node, enum scope_kind kind)
{
    struct scope *sc = arena_new(p->scratch, struct scope);

    if (!sc) {
        if (!p->rc)
            p->rc = err_set(p->err, ERR_NOMEM, "", "%.150s: too large to be read", p->path);
        return NULL;
    }
    sc->up = up;
    sc->node = node;
    sc->kind = (uint8_t)kind;
    sc->end = &sc->first;
    if (up) {
        sc->private = up->private;
        sc->beside = up->inner;
        up->inner = sc;
    }
    node->scope = sc;
    return sc;
}

static void visit(struct pass *p, struct scope *sc, struct node *n);
static void bind(struct pass *p, struct scope *sc, struct node *n);

static void visit_list(struct pass *p, struct scope *sc, struct node *n)
{
    for (; n && !p->rc; n = n->next)
        visit(p, sc, n);
}

static void params(struct pass *p, struct scope *outer, struct scope *inner, struct node *list)
{
    for (struct node *a = list; a && !p->rc; a = a->next) {
        struct sym *y = scope_find(inner, a->name);

        if (y && (y->flags & SYM_PARAM))
            fail(p, a, "duplicate argument in function definition");
        (void)note(p, inner, a->name, SYM_BOUND | SYM_PARAM);
        if (a->b)
            visit(p, outer, a->b);
    }
}

static void comprehension(struct pass *p, struct scope *sc, struct node *n)
{
    struct scope *in;

    visit(p, sc, n->c->b);
    in = scope_new(p, sc, n, SCOPE_FUNCTION);
    if (!in)
        return;
    in->comprehension = true;
    in->generator = n->kind == N_GENEXP;
    (void)note(p, in, p->w->symbols[SYM_dot_zero], SYM_BOUND | SYM_PARAM);
    for (struct node *c = n->c; c && !p->rc; c = c->next) {
        if (c != n->c)
            visit(p, in, c->b);
        bind(p, in, c->a);
        visit_list(p, in, c->c);
    }
    visit(p, in, n->a);
    if (n->b)
        visit(p, in, n->b);
}

/* := in a comprehension binds outside of it. */
static void named(struct pass *p, struct scope *sc, struct node *n)
{
    struct scope *out = sc;

    visit(p, sc, n->b);
    while (out->comprehension)
        out = out->up;
    if (out == sc) {
        bind(p, sc, n->a);
        return;
    }
    (void)note(p, out, n->a->name, out->kind == SCOPE_MODULE ? SYM_BOUND : SYM_BOUND);
    for (struct scope *x = sc; x != out; x = x->up)
        (void)note(p, x, n->a->name, out->kind == SCOPE_FUNCTION ? SYM_NONLOCAL : SYM_GLOBAL);
}

static void bind(struct pass *p, struct scope *sc, struct node *n)
{
    switch (n->kind) {
    case N_NAME:
        (void)note(p, sc, n->name, SYM_BOUND);
        break;
    case N_TUPLE:
    case N_LIST:
        for (struct node *e = n->a; e && !p->rc; e = e->next)
            bind(p, sc, e);
        break;
    case N_STARRED:
        bind(p, sc, n->a);
        break;
    default:
        visit(p, sc, n);
    }
}

static void function(struct pass *p, struct scope *sc, struct node *n)
{
    struct scope *in;

    visit_list(p, sc, n->kind == N_DEF ? n->c : NULL);
    if (n->kind == N_DEF)
        (void)note(p, sc, n->name, SYM_BOUND);
    in = scope_new(p, sc, n, SCOPE_FUNCTION);
    if (!in)
        return;
    params(p, sc, in, n->a);
    if (n->kind == N_DEF)
        visit_list(p, in, n->b);
    else
        visit(p, in, n->b);
}

static void class(struct pass *p, struct scope *sc, struct node *n)
{
    struct scope *in;

    visit_list(p, sc, n->c);
    visit_list(p, sc, n->a);
    visit_list(p, sc, n->d);
    (void)note(p, sc, n->name, SYM_BOUND);
    in = scope_new(p, sc, n, SCOPE_CLASS);
    if (!in)
        return;
    in->private = n->name;
    visit_list(p, in, n->b);
}

static void declare(struct pass *p, struct scope *sc, struct node *n)
{
    for (struct node *e = n->a; e && !p->rc; e = e->next) {
        if (n->kind == N_NONLOCAL && sc->kind == SCOPE_MODULE)
            fail(p, n, "nonlocal declaration not allowed at module level");
        (void)note(p, sc, e->name, n->kind == N_GLOBAL ? SYM_GLOBAL : SYM_NONLOCAL);
    }
}

static void import(struct pass *p, struct scope *sc, const struct node *n)
{
    for (const struct node *a = n->a; a && !p->rc; a = a->next) {
        struct str *name = a->other ? a->other : a->name;
        const char *dot = n->kind == N_IMPORT && !a->other ? memchr(name->text, '.', name->bytes) : NULL;

        if (name == p->w->symbols[SYM_star])
            continue;
        if (dot)
            name = image_intern(p->im, name->text, (size_t)(dot - name->text));
        (void)note(p, sc, name, SYM_BOUND);
    }
}

static void visit(struct pass *p, struct scope *sc, struct node *n)
{
    if (!n || p->rc)
        return;
    switch (n->kind) {
    case N_NAME:
        (void)note(p, sc, n->name, SYM_USED);
        if (n->name == p->w->symbols[SYM_super] && sc->kind == SCOPE_FUNCTION)
            (void)note(p, sc, p->w->symbols[SYM_class], SYM_USED);
        return;
    case N_DEF:
    case N_LAMBDA:
        function(p, sc, n);
        return;
    case N_CLASS:
        class(p, sc, n);
        return;
    case N_LISTCOMP:
    case N_SETCOMP:
    case N_DICTCOMP:
    case N_GENEXP:
        comprehension(p, sc, n);
        return;
    case N_NAMED:
        named(p, sc, n);
        return;
    case N_GLOBAL:
    case N_NONLOCAL:
        declare(p, sc, n);
        return;
    case N_IMPORT:
    case N_IMPORT_FROM:
        import(p, sc, n);
        return;
    case N_YIELD:
    case N_YIELD_FROM:
        if (sc->kind != SCOPE_FUNCTION || sc->comprehension)
            fail(p, n, "'yield' outside function");
        sc->generator = true;
        visit(p, sc, n->a);
        return;
    case N_ANNOTATE:
        if (n->flag) {
            (void)note(p, sc, n->a->name, SYM_BOUND);
            sc->annotated = true;
        } else
            visit(p, sc, n->a);
        visit(p, sc, n->c);
        return;
    case N_ASSIGN:
    case N_DELETE:
        for (struct node *t = n->a; t && !p->rc; t = t->next)
            bind(p, sc, t);
        visit(p, sc, n->b);
        return;
    case N_AUGMENT:
        if (n->a->kind == N_NAME)
            (void)note(p, sc, n->a->name, SYM_BOUND | SYM_USED);
        else
            visit(p, sc, n->a);
        visit(p, sc, n->b);
        return;
    case N_FOR:
        bind(p, sc, n->a);
        visit(p, sc, n->b);
        visit_list(p, sc, n->c);
        visit_list(p, sc, n->d);
        return;
    case N_WITH_ITEM:
        visit(p, sc, n->a);
        if (n->b)
            bind(p, sc, n->b);
        return;
    case P_NAME:
    case P_STAR:
    case P_MAP:
        visit_list(p, sc, n->a);
        if (n->name)
            (void)note(p, sc, n->name, SYM_BOUND);
        return;
    case N_EXCEPT:
        visit(p, sc, n->a);
        if (n->name)
            (void)note(p, sc, n->name, SYM_BOUND);
        visit_list(p, sc, n->b);
        return;
    case N_ASYNC:
        if (n->a && n->a->kind == N_DEF)
            (void)note(p, sc, n->a->name, SYM_BOUND);
        return;
    case N_CONST:
        return;
    default:
        visit_list(p, sc, n->a);
        visit_list(p, sc, n->b);
        visit_list(p, sc, n->c);
        visit_list(p, sc, n->d);
    }
}

/* ---- where each name lives */

/* The scopes between take it on; its owner puts it into a cell. */
static enum place from_outside(struct pass *p, struct scope *sc, struct str *name)
{
    for (struct scope *o = sc->up; o; o = o->up) {
        struct sym *y = scope_find(o, name);

        if (o->kind == SCOPE_CLASS) {
            if (name != p->w->symbols[SYM_class])
                continue;
            o->class_cell = true;
        } else if (o->kind == SCOPE_MODULE || (y && (y->flags & SYM_GLOBAL))) {
            return o->kind == SCOPE_MODULE ? PLACE_GLOBAL : PLACE_GLOBAL_SAID;
        } else if (y && (y->flags & SYM_BOUND) && !(y->flags & SYM_NONLOCAL)) {
            y->place = PLACE_CELL;
        } else
            continue;
        for (struct scope *x = sc->up; x != o; x = x->up) {
            struct sym *z = note(p, x, name, SYM_PASSED);

            if (z && x->kind == SCOPE_FUNCTION)
                z->place = PLACE_FREE;
        }
        return PLACE_FREE;
    }
    return PLACE_GLOBAL;
}

static void place_all(struct pass *p, struct scope *sc)
{
    for (struct sym *y = sc->first; y && !p->rc; y = y->later) {
        if (y->flags & SYM_GLOBAL)
            y->place = PLACE_GLOBAL_SAID;
        else if (sc->kind == SCOPE_MODULE)
            y->place = PLACE_NAME;
        else if ((y->flags & SYM_BOUND) && !(y->flags & SYM_NONLOCAL)) {
            if (sc->kind == SCOPE_CLASS)
                y->place = PLACE_NAME;
            else if (y->place != PLACE_CELL)
                y->place = PLACE_FAST;
        } else if (y->flags & SYM_USED || y->flags & SYM_NONLOCAL) {
            y->place = (uint8_t)from_outside(p, sc, y->name);
            if ((y->flags & SYM_NONLOCAL) && y->place != PLACE_FREE)
                fail(p, sc->node, "no binding for nonlocal name found");
            if (sc->kind == SCOPE_CLASS && y->place == PLACE_GLOBAL)
                y->place = PLACE_NAME;
        }
    }
    for (struct scope *in = sc->inner; in && !p->rc; in = in->beside)
        place_all(p, in);
}

enum err_code symbols_build(struct image *im, struct arena *scratch, const char *path, struct node *module, struct scope **ret,
                            struct err *err)
{
    struct pass p = {.im = im, .scratch = scratch, .path = path, .err = err, .w = im->world};
    struct scope *sc = scope_new(&p, NULL, module, SCOPE_MODULE);

    if (sc)
        visit_list(&p, sc, module->a);
    if (!p.rc)
        place_all(&p, sc);
    if (!p.rc)
        *ret = sc;
    return p.rc;
}
