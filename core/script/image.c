/* Images: names, compiled modules, native modules. */
#include "script/object.h"

#include "base/ascii.h"

#include <stdio.h>

struct str *image_find(const struct image *im, const char *text, size_t bytes, uint32_t hash)
{
    for (; im; im = im->below)
        for (uint32_t at = hash & (im->cap - 1); im->cap && im->table[at]; at = (at + 1) & (im->cap - 1)) {
            struct str *t = im->table[at];

            if (t->hash == hash && t->bytes == bytes && memcmp(t->text, text, bytes) == 0)
                return t;
        }
    return NULL;
}

void *image_room(struct image *im, size_t bytes)
{
    if (im->beyond && (size_t)(im->arena->end - im->arena->cur) < bytes + sizeof(max_align_t)) {
        im->is_beyond = true;
        im->arena = im->beyond;
    }
    return arena_push(im->arena, bytes, alignof(max_align_t), 1);
}

static bool grow(struct image *im)
{
    uint32_t cap = im->cap ? im->cap * 2 : 1024;
    struct str **table;

    if (im->cap && im->n_names < im->cap / 2)
        return true;
    if (!im->cap && im->below)
        cap = 256;
    table = image_room(im, cap * sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 0; i < im->cap; i++)
        if (im->table[i]) {
            uint32_t at = im->table[i]->hash & (cap - 1);

            while (table[at])
                at = (at + 1) & (cap - 1);
            table[at] = im->table[i];
        }
    im->table = table;
    im->cap = cap;
    return true;
}

struct str *image_intern(struct image *im, const char *text, size_t bytes)
{
    uint32_t hash = text_hash(text, bytes), at;
    struct str *t = image_find(im, text, bytes, hash);

    if (t)
        return t;
    if (!grow(im))
        return NULL;
    t = image_room(im, sizeof *t + bytes + 1);
    if (!t)
        return NULL;
    t->h = (struct obj){.refs = 1, .kind = KIND_STR, .flags = STR_SYMBOL | STR_ASCII};
    t->bytes = (uint32_t)bytes;
    t->hash = hash;
    if (bytes)
        memcpy(t->text, text, bytes);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] >= 0x80)
            t->h.flags = STR_SYMBOL;
    for (at = hash & (im->cap - 1); im->table[at]; at = (at + 1) & (im->cap - 1))
        ;
    im->table[at] = t;
    im->n_names++;
    return t;
}

sv image_symbol(struct image *im, const char *name)
{
    struct str *t = image_intern(im, name, strlen(name));

    return t ? sv_forever(t) : sv_null();
}

enum err_code image_new(struct arena *arena, const struct image *below, struct image **ret, struct err *err)
{
    struct image *im = arena_new(arena, struct image);
    enum err_code rc = ERR_OK;

    if (!im)
        return err_set(err, ERR_NOMEM, "", "no memory for the language");
    im->arena = arena;
    im->end = arena->end;
    im->below = below;
    if (below) {
        im->world = below->world;
        im->n_codes = below->n_codes;
    } else
        rc = world_new(im, err);
    if (!rc)
        *ret = im;
    return rc;
}

/* ---- sources by name */
enum { FEW_SOURCES = 16, PLACES = 4 }; /* places a source */

static struct source_module **place_of(const struct image *im, const struct str *name)
{
    uint32_t mask = im->n_places - 1, at = name->hash & mask;

    while (im->by_name[at] && im->by_name[at]->name != name)
        at = (at + 1) & mask;
    return &im->by_name[at];
}

/* Without room for the table the list is all there is. */
static void place_all(struct image *im)
{
    im->n_places = im->n_places ? 2 * im->n_places : PLACES * FEW_SOURCES;
    im->by_name = arena_array(im->arena, struct source_module *, im->n_places);
    for (struct source_module *m = im->by_name ? im->sources : NULL; m; m = m->next) {
        struct source_module **place = place_of(im, m->name);

        if (!*place) /* the list begins with the newest */
            *place = m;
    }
}

static void add_source(struct image *im, struct source_module *m)
{
    m->next = im->sources;
    im->sources = m;
    if (++im->n_sources >= FEW_SOURCES && 2 * im->n_sources > im->n_places)
        place_all(im);
    else if (im->by_name)
        *place_of(im, m->name) = m;
}

const struct source_module *image_source_of(const struct image *im, const struct str *name)
{
    if (im->by_name)
        return *place_of(im, name);
    for (const struct source_module *m = im->sources; m; m = m->next)
        if (m->name == name)
            return m;
    return NULL;
}

enum err_code image_source(struct image *im, const char *name, const char *path, const char *text, size_t bytes, bool package,
                           struct err *err)
{
    struct source_module *m = arena_new(im->arena, struct source_module);
    char *kept = arena_str(im->arena, path, strlen(path));
    enum err_code rc;

    if (!m || !kept || !(m->name = image_intern(im, name, strlen(name))))
        return err_set(err, ERR_NOMEM, "", "%.150s: no memory to read it", path);
    m->path = kept;
    m->package = package;
    rc = compile_module(im, kept, text, bytes, &m->code, err);
    if (rc)
        return rc;
    add_source(im, m);
    return ERR_OK;
}

static struct source_module *source_named(const struct image *im, const char *name)
{
    for (struct source_module *m = im->sources; m; m = m->next)
        if (!strcmp(m->name->text, name))
            return m;
    return NULL;
}

/* A module of an image below is continued for those who stand on this one. */
static struct source_module *continues_below(struct image *im, const char *name)
{
    for (const struct image *b = im->below; b; b = b->below) {
        const struct source_module *found = source_named(b, name);
        struct source_module *m = found ? arena_new(im->arena, struct source_module) : NULL;

        if (!found)
            continue;
        if (!m)
            return NULL;
        *m = (struct source_module){.name = found->name, .begins = found, .path = found->path, .package = found->package};
        add_source(im, m);
        return m;
    }
    return NULL;
}

bool image_has(const struct image *im, const char *name)
{
    return source_named(im, name) != NULL;
}

enum err_code image_continue(struct image *im, const char *name, const char *path, const char *text, size_t bytes, struct err *err)
{
    struct source_module *here = source_named(im, name), *m = here ? here : continues_below(im, name);
    char *kept = arena_str(im->arena, path, strlen(path));

    if (!m || !kept)
        return err_set(err, m ? ERR_NOMEM : ERR_INTERNAL, "", "%.150s continues no module that is there", path);
    return compile_module(im, kept, text, bytes, &m->continued, err);
}

enum err_code image_again(struct image *im, const char *name, struct err *err)
{
    struct source_module *m = arena_new(im->arena, struct source_module);

    if (!m)
        return err_set(err, ERR_NOMEM, "", "no memory for the language");
    *m = *im->sources;
    m->name = image_intern(im, name, strlen(name));
    if (m->name)
        add_source(im, m);
    return m->name ? ERR_OK : err_set(err, ERR_NOMEM, "", "no memory for the language");
}

/* ---- natives */

static const char *word(const char *at, const char **end)
{
    while (*at == ' ' || *at == ',')
        at++;
    *end = at;
    while (**end && **end != ',' && **end != ' ' && **end != '=')
        ++*end;
    return at;
}

/* Behind a word: "=", "=!", "=!mean|sum". *ret: the values behind `!`, NULL: none is refused. */
static const char *default_of(const char *end, const char **ret)
{
    *ret = NULL;
    if (*end != '=')
        return end;
    if (end[1] != '!')
        return end + 1;
    *ret = end + 2;
    return end + 2 + strcspn(end + 2, ",");
}

/* What a value may be where others are refused, by position in the signature. */
const char *signature_allows(const char *text, uint32_t at)
{
    const char *end, *allowed;
    uint32_t i = 0;

    for (const char *w = word(text, &end); *w; w = word(end, &end)) {
        bool named = *w != '*' && *w != '/';

        end = default_of(end, &allowed);
        if (named && i++ == at)
            return allowed;
    }
    return NULL;
}

static struct signature *signature(struct image *im, const char *text)
{
    struct signature *g = arena_push(im->arena, sizeof *g + SCRIPT_PARAMETERS * sizeof g->names[0], alignof(max_align_t), 1);
    const char *end, *allowed;
    bool keyword = false;

    if (!g)
        return NULL;
    for (const char *at = word(text, &end); *at; at = word(end, &end)) {
        size_t n = (size_t)(end - at);

        if (n == 1 && *at == '/') {
            g->n_positional_only = g->n;
        } else if (n >= 2 && at[0] == '*' && at[1] == '*') {
            g->kw = true;
        } else if (*at == '*') {
            g->rest = n > 1;
            if (!keyword)
                g->n_positional = g->n;
            keyword = true;
        } else if (g->n < SCRIPT_PARAMETERS) {
            g->names[g->n] = image_intern(im, at, n);
            if (!g->names[g->n])
                return NULL;
            if (*end != '=')
                g->required |= 1u << g->n;
            (void)default_of(end, &allowed);
            if (allowed)
                g->refused |= 1u << g->n;
            g->n++;
        }
        end = default_of(end, &allowed);
    }
    if (!keyword)
        g->n_positional = g->n;
    return g;
}

struct native *world_native(struct image *im, const struct script_native *def, struct cls *owner)
{
    struct native *n = arena_new(im->arena, struct native);

    if (!n)
        return NULL;
    n->h = (struct obj){.refs = 1, .kind = KIND_NATIVE};
    n->def = def;
    n->owner = owner;
    n->registered = im->world->made;
    n->name = image_intern(im, def->name, strlen(def->name));
    n->signature = def->signature ? signature(im, def->signature) : NULL;
    return n->name && (!def->signature || n->signature) ? n : NULL;
}

bool world_methods(struct image *im, struct cls *c, const struct script_native *methods, const struct script_member *members)
{
    for (; methods && methods->name; methods++) {
        struct native *n = world_native(im, methods, c);

        if (!n || !shared_set(im->arena, c->dict, n->name, sv_forever(n)))
            return false;
    }
    for (; members && members->name; members++) {
        struct member *m = arena_new(im->arena, struct member);

        if (!m)
            return false;
        m->h = (struct obj){.refs = 1, .kind = KIND_MEMBER};
        m->def = members;
        m->name = image_intern(im, members->name, strlen(members->name));
        if (!m->name || !shared_set(im->arena, c->dict, m->name, sv_forever(m)))
            return false;
    }
    return true;
}

struct cls *world_class(struct image *im, struct cls *base, const char *name, enum kind layout)
{
    struct cls *c = arena_new(im->arena, struct cls);

    if (!c)
        return NULL;
    c->h = (struct obj){.refs = 1, .kind = KIND_CLASS};
    c->name = c->qualname = image_intern(im, name, strlen(name));
    c->dict = shared_dict(im->arena);
    c->mro = arena_array(im->arena, struct cls *, base ? base->n_mro + 1 : 1);
    c->bases = arena_array(im->arena, struct cls *, 1);
    if (!c->name || !c->dict || !c->mro || !c->bases)
        return NULL;
    c->flags = CLS_SHARED;
    c->layout = (uint8_t)layout;
    c->bytes = sizeof(struct script_object);
    c->mro[c->n_mro++] = c;
    c->version = 1 + (uint32_t)(im->world->n_classes++);
    if (base) {
        memcpy(c->mro + 1, base->mro, base->n_mro * sizeof *c->mro);
        c->n_mro += base->n_mro;
        c->bases[c->n_bases++] = base;
        c->bytes = base->bytes;
        c->native = base->native;
        c->exc = base->exc;
        c->flags |= base->flags & (CLS_BOXED | CLS_EXCEPTION);
    }
    return c;
}

static struct cls *class_by_def(const struct image *im, const struct script_class *def)
{
    for (; im; im = im->below)
        for (const struct native_classes *n = im->classes; n; n = n->next)
            if (n->def == def)
                return n->cls;
    return NULL;
}

#define INHERIT(member)             \
    if (!m->member && from->member) \
    m->member = from->member

static const struct script_class *merged(struct image *im, const struct script_class *def, const struct script_class *from)
{
    struct script_class *m = arena_new(im->arena, struct script_class);

    if (!m)
        return NULL;
    *m = *def;
    if (from) {
        INHERIT(die);
        INHERIT(getattr);
        INHERIT(setattr);
        INHERIT(call);
        INHERIT(binary);
        INHERIT(compare);
        INHERIT(unary);
        INHERIT(getitem);
        INHERIT(setitem);
        INHERIT(contains);
        INHERIT(len);
        INHERIT(iter);
        INHERIT(next);
        INHERIT(truth);
        INHERIT(number);
        INHERIT(repr);
    }
    return m;
}

static struct cls *native_class(struct image *im, const struct script_class *def, const char *module)
{
    struct cls *base = def->base ? class_by_def(im, def->base) : im->world->types[B_OBJECT], *c;
    struct native_classes *n = arena_new(im->arena, struct native_classes);
    const char *dot = strrchr(def->name, '.');

    if (!base || !n)
        return NULL;
    c = world_class(im, base, dot ? dot + 1 : def->name, KIND_INSTANCE);
    if (!c)
        return NULL;
    c->native = merged(im, def, base->native);
    c->def = def;
    c->module = image_intern(im, module, strlen(module));
    if (def->bytes)
        c->bytes = def->bytes;
    if (def->final)
        c->flags |= CLS_FINAL;
    n->def = def;
    n->cls = c;
    n->next = im->classes;
    im->classes = n;
    return c->native && c->module && world_methods(im, c, def->methods, def->members) ? c : NULL;
}

static struct native_module *module_of(struct image *im, const char *name, size_t bytes)
{
    struct str *t = image_intern(im, name, bytes);
    struct native_module *m;

    if (!t)
        return NULL;
    for (m = im->natives; m; m = m->next)
        if (m->name == t)
            return m;
    m = arena_new(im->arena, struct native_module);
    if (!m)
        return NULL;
    m->name = t;
    m->dict = shared_dict(im->arena);
    m->next = im->natives;
    im->natives = m;
    return m->dict ? m : NULL;
}

/* "nn.Module" of torch lies in torch.nn. */
static bool place(struct image *im, const char *module, const char *name, sv value)
{
    const char *dot = strrchr(name, '.');
    char full[256];
    int n = dot ? snprintf(full, sizeof full, "%s.%.*s", module, (int)(dot - name), name) : snprintf(full, sizeof full, "%s", module);
    struct native_module *m = n > 0 && (size_t)n < sizeof full ? module_of(im, full, (size_t)n) : NULL;
    struct str *key = image_intern(im, dot ? dot + 1 : name, strlen(dot ? dot + 1 : name));

    return m && key && shared_set(im->arena, m->dict, key, value);
}

void image_keywords(struct image *im, const struct script_keyword *table, const char *under)
{
    im->world->keywords = table;
    im->world->keywords_under = under;
}

enum err_code image_native(struct image *im, const struct script_module *def, struct err *err)
{
    struct native_module *m = module_of(im, def->name, strlen(def->name));
    bool ok = m != NULL;

    if (ok)
        m->def = def;
    for (const struct script_class *const *c = def->classes; ok && c && *c; c++) {
        struct cls *made = native_class(im, *c, def->name);

        ok = made && place(im, def->name, (*c)->name, sv_forever(made));
    }
    for (const struct script_native *f = def->functions; ok && f && f->name; f++) {
        struct native *made = world_native(im, f, NULL);

        ok = made && place(im, def->name, f->name, sv_forever(made));
        if (ok && strrchr(f->name, '.'))
            ok = (made->name = image_intern(im, strrchr(f->name, '.') + 1, strlen(strrchr(f->name, '.') + 1))) != NULL;
    }
    for (const struct script_constant *k = def->constants; ok && k && k->name; k++)
        ok = place(im, def->name, k->name, k->value);
    return ok ? ERR_OK : err_set(err, ERR_NOMEM, "", "no memory for the native module %s", def->name);
}
