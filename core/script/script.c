/* A script: begins, is asked, imports. */
#include "script/freeze.h"
#include "script/object.h"

const struct script_limits script_limits_default = {.steps = UINT64_C(2500000), .depth = 1000, .stack = 1 << 16};

bool script_set_up(struct script *s, struct arena *arena, struct arena *cache, struct arena *stack, const struct script_limits *limits,
                   const struct script_host *host)
{
    if (!limits)
        limits = &script_limits_default;
    s->arena = arena;
    s->steps = 0;
    s->steps_kept = limits->steps > INT64_MAX / 4 ? INT64_MAX / 4 : (int64_t)limits->steps;
    s->max_depth = limits->depth;
    s->host = host ? *host : (struct script_host){0};
    s->cache = arena_array(cache, struct method_cache, METHOD_CACHE);
    s->stack = arena_array_raw(stack, sv, limits->stack);
    if (!s->cache || !s->stack)
        return false;
    s->sp = s->stack;
    s->stack_end = s->stack + limits->stack;
    return true;
}

enum err_code script_new_apart(struct arena *arena, struct arena *apart, const struct image *im, const struct script_limits *limits,
                               const struct script_host *host, struct script **ret, struct err *err)
{
    struct script *s = arena_new(arena, struct script);
    struct image *own = NULL;

    if (!s || image_new(arena, im, &own, NULL) || !script_set_up(s, arena, apart, apart, limits, host))
        return err_set(err, ERR_NOMEM, "", "no memory for a program");
    s->w = im->world;
    s->sym = im->world->symbols;
    s->own = own;
    s->image = own;
    s->next_version = 1 << 16;
    s->builtins = im->world->builtins;
    s->modules = dict_make(s);
    if (!s->modules)
        return err_set(err, ERR_NOMEM, "", "no memory for a program");
    *ret = s;
    return ERR_OK;
}

enum err_code script_new(struct arena *arena, const struct image *im, const struct script_limits *limits, const struct script_host *host,
                         struct script **ret, struct err *err)
{
    return script_new_apart(arena, arena, im, limits, host, ret, err);
}

void *script_of(struct script *s)
{
    return s->host.of;
}

void script_host_of(struct script *s, void *of)
{
    s->host.of = of;
}

struct arena *script_arena(struct script *s)
{
    return s->arena;
}

uint64_t script_steps_left(const struct script *s)
{
    return (uint64_t)s->steps_kept + (s->steps < 0 ? 0 : (uint64_t)s->steps);
}

/* ---- names */

sv script_symbol(struct script *s, const char *name)
{
    struct str *t = image_intern(s->own, name, strlen(name));

    return t ? sv_forever(t) : script_nomem(s);
}

struct str *name_of(struct script *s, sv v)
{
    struct str *t = as_str(v);

    if (!t) {
        (void)script_raise(s, EXC_TypeError, "attribute name must be string, not '%s'", class_of(s, v)->name->text);
        return NULL;
    }
    if (t->h.flags & STR_SYMBOL)
        return t;
    if (!pay_letters(s, t->bytes))
        return NULL;
    t = image_intern(s->own, t->text, t->bytes);
    if (!t)
        (void)script_nomem(s);
    return t;
}

sv script_intern(struct script *s, sv str)
{
    struct str *t = name_of(s, str);

    return t ? sv_forever(t) : sv_null();
}

sv native_new(struct script *s, const struct script_native *def, sv self)
{
    struct native *n = obj_new(s, sizeof *n, KIND_NATIVE), *made;

    if (!n)
        return sv_null();
    made = world_native(s->own, def, NULL);
    if (!made)
        return script_nomem(s);
    n->def = def;
    n->name = made->name;
    n->signature = made->signature;
    n->registered = made->registered;
    n->self = sv_keep(self);
    n->owner = NULL;
    return sv_counted(n);
}

/* ---- modules */

static struct module *module_new(struct script *s, struct str *name, const char *path, bool package)
{
    struct module *m = heap_zero(s, sizeof *m);
    const char *dot = name->bytes ? strrchr(name->text, '.') : NULL;
    struct str *parent;
    sv text;

    if (!m)
        return NULL;
    m->h = (struct obj){.refs = 1, .kind = KIND_MODULE};
    m->name = name;
    m->path = path;
    m->package = package;
    m->dict = dict_make(s);
    parent = package || !dot ? (package ? name : s->sym[SYM_empty]) : image_intern(s->own, name->text, (size_t)(dot - name->text));
    text = path ? str_new(s, path, strlen(path)) : sv_none();
    if (!m->dict || !parent || !sv_ok(text) || !dict_put_name(s, m->dict, s->sym[SYM_name], sv_forever(name)) ||
        !dict_put_name(s, m->dict, s->sym[SYM_package], sv_forever(parent)) || !dict_put_name(s, m->dict, s->sym[SYM_file], text) ||
        !dict_put_name(s, m->dict, s->sym[SYM_doc], sv_none()))
        return NULL;
    sv_drop(s, text);
    return dict_put_name(s, s->modules, name, sv_forever(m)) ? m : NULL;
}

static const struct source_module *source_of(const struct image *im, const struct str *name)
{
    const struct source_module *found = NULL;

    for (; im && !found; im = im->below)
        found = image_source_of(im, name);
    return found;
}

static const struct native_module *native_of(const struct image *im, const struct str *name)
{
    for (; im; im = im->below)
        for (const struct native_module *m = im->natives; m; m = m->next)
            if (m->name == name)
                return m;
    return NULL;
}

static const struct source_module *ask_host(struct script *s, struct str *name)
{
    const char *path = NULL, *text = NULL;
    size_t bytes = 0;
    bool package = false;

    if (!s->host.source || !s->host.source(s->host.files ? s->host.files : s->host.of, name->text, &path, &text, &bytes, &package))
        return NULL;
    if (s->own->beyond) { /* what runs again and again has no room for files */
        s->own->arena = s->own->beyond;
        s->own->is_beyond = true;
    }
    if (image_source(s->own, name->text, path ? path : name->text, text, bytes, package, &s->end)) {
        s->over = true;
        return NULL;
    }
    return source_of(s->own, name);
}

/* The parent's attribute of that name. */
static bool tell_parent(struct script *s, struct module *m)
{
    const char *dot = strrchr(m->name->text, '.');
    struct str *parent, *last;
    struct entry *e;

    if (!dot)
        return true;
    parent = image_intern(s->own, m->name->text, (size_t)(dot - m->name->text));
    last = image_intern(s->own, dot + 1, strlen(dot + 1));
    e = parent ? dict_find_name(s->modules, parent) : NULL;
    return last && (!e || dict_put_name(s, AS(module, e->value)->dict, last, sv_forever(m)));
}

static sv run_source(struct script *s, const struct source_module *source, struct module *m)
{
    const struct code *codes[] = {source->code, source->continued};
    sv r = source->begins ? run_source(s, source->begins, m) : sv_none();

    for (int i = 0; i < 2 && sv_ok(r); i++)
        if (codes[i]) {
            sv_drop(s, r);
            r = run_body(s, codes[i], m, m->dict, sv_null());
        }
    return r;
}

static bool load(struct script *s, struct str *name)
{
    const struct native_module *native = native_of(s->image, name);
    const struct source_module *source = source_of(s->image, name);
    struct module *m;
    sv r;

    if (!native && !source)
        source = ask_host(s, name);
    if (s->over)
        return false;
    if (!native && !source) {
        (void)script_raise(s, EXC_ModuleNotFoundError, "No module named '%.200s'", name->text);
        return false;
    }
    m = module_new(s, name, source ? source->path : NULL, source ? source->package : false);
    if (!m)
        return false;
    if (native) {
        if (!dict_merge(s, m->dict, sv_forever(native->dict), false))
            return false;
        if (native->def && native->def->begin && !native->def->begin(s, sv_forever(m)))
            goto fail;
    }
    if (source) { /* after the natives of the same name */
        r = run_source(s, source, m);
        sv_drop(s, r);
        if (!sv_ok(r))
            goto fail;
    }
    m->ready = true;
    return tell_parent(s, m);
fail:
    if (!s->over) {
        sv exc = s->exc;

        s->exc = sv_null();
        (void)dict_remove(s, s->modules, sv_forever(name), NULL);
        s->exc = exc;
    }
    return false;
}

sv import_module(struct script *s, struct str *name)
{
    struct entry *e = dict_find_name(s->modules, name);
    const char *dot;

    if (e)
        return e->value;
    dot = strrchr(name->text, '.');
    if (dot) { /* its parents first */
        struct str *parent = image_intern(s->own, name->text, (size_t)(dot - name->text));
        sv p;

        if (!parent)
            return script_nomem(s);
        if (!enter(s))
            return sv_null();
        p = import_module(s, parent);
        leave(s);
        if (!sv_ok(p)) { /* natives may lie in no package */
            if (!script_caught(s, EXC_ModuleNotFoundError) || (!native_of(s->image, name) && !source_of(s->image, name)))
                return p;
            script_forgive(s);
        }
        e = dict_find_name(s->modules, name);
        if (e)
            return e->value;
    }
    if (!enter(s))
        return sv_null();
    if (load(s, name))
        e = dict_find_name(s->modules, name);
    leave(s);
    return e ? e->value : sv_null();
}

sv script_import(struct script *s, const char *name)
{
    sv t = script_symbol(s, name);

    return sv_ok(t) ? import_module(s, AS(str, t)) : t;
}

/* from ..a import b: relative to the package that `from` is in */
static struct str *absolute(struct script *s, const struct module *from, const struct str *name, unsigned dots)
{
    char text[512];
    size_t n = from->name->bytes;

    if (!from->package)
        dots++;
    memcpy(text, from->name->text, n < sizeof text ? n : sizeof text);
    for (; dots > 1; dots--) {
        while (n && text[n - 1] != '.')
            n--;
        if (!n && dots > 2) {
            (void)script_raise(s, EXC_ImportError, "attempted relative import beyond top-level package");
            return NULL;
        }
        n -= n > 0;
    }
    if (n + name->bytes + 2 >= sizeof text) {
        (void)script_raise(s, EXC_ImportError, "a module's name is too long");
        return NULL;
    }
    if (name->bytes && n)
        text[n++] = '.';
    memcpy(text + n, name->text, name->bytes);
    return image_intern(s->own, text, n + name->bytes);
}

sv import_name(struct script *s, struct module *from, struct str *name, unsigned dots, bool last)
{
    sv m;
    const char *dot;

    if (dots) {
        name = absolute(s, from, name, dots);
        if (!name)
            return script_failed(s) ? sv_null() : script_nomem(s);
    }
    m = import_module(s, name);
    dot = strchr(name->text, '.');
    if (last || !dot || !sv_ok(m))
        return m;
    return import_module(s, image_intern(s->own, name->text, (size_t)(dot - name->text)));
}

sv import_from(struct script *s, sv module, struct str *name)
{
    sv v;
    int found = attr_find(s, module, name, &v);
    const struct module *m = AS(module, module);
    struct str *full;
    char text[512];

    if (!found)
        return v;
    if (found < 0)
        return sv_null();
    if (m->name->bytes + name->bytes + 2 < sizeof text) { /* a module of the package */
        memcpy(text, m->name->text, m->name->bytes);
        text[m->name->bytes] = '.';
        memcpy(text + m->name->bytes + 1, name->text, name->bytes);
        full = image_intern(s->own, text, m->name->bytes + 1 + name->bytes);
        if (!full)
            return script_nomem(s);
        if (m->package || native_of(s->image, full) || source_of(s->image, full)) {
            v = import_module(s, full);
            if (sv_ok(v) || !script_caught(s, EXC_ModuleNotFoundError))
                return v;
            script_forgive(s);
        }
    }
    return script_raise(s, EXC_ImportError, "cannot import name '%.200s' from '%.200s'", name->text, m->name->text);
}

bool import_star(struct script *s, sv module, struct dict *into)
{
    const struct dict *d = AS(module, module)->dict;
    struct entry *all = dict_find_name(d, s->sym[SYM_all]);
    uint32_t n = 0;
    const sv *names = all ? seq_items(all->value, &n) : NULL;

    for (uint32_t i = 0; i < n; i++) {
        struct str *name = name_of(s, names[i]);
        sv v = name ? import_from(s, module, name) : sv_null();

        if (!sv_ok(v) || !dict_put_name(s, into, name, v))
            return false;
        sv_drop(s, v);
    }
    for (uint32_t i = 0; !names && i < d->used; i++) {
        sv key = d->entries[i].key;

        if (sv_is(key, KIND_STR) && AS(str, key)->text[0] != '_' && !dict_put(s, into, key, d->entries[i].value))
            return false;
    }
    return true;
}
