/* The first image: builtin classes, exceptions, functions. */
#include "script/object.h"

#define NATIVE(name, base, layout, flags, methods, members) \
    {                                                       \
        name, base, layout, flags, methods, members         \
    }

static const struct {
    const char *name;
    uint8_t base, layout;
    uint16_t flags;
    const struct script_native *methods;
    const struct script_member *members;
} rows[B_COUNT] = {
    [B_OBJECT] = {"object", B_OBJECT, KIND_INSTANCE, 0, object_methods, object_members},
    [B_TYPE] = {"type", B_OBJECT, KIND_CLASS, 0, type_methods, type_members},
    [B_NONE] = {"NoneType", B_OBJECT, KIND_COUNT, CLS_FINAL, none_methods, NULL},
    [B_INT] = {"int", B_OBJECT, KIND_INSTANCE, CLS_BOXED, int_methods, int_members},
    [B_BOOL] = {"bool", B_INT, KIND_INSTANCE, CLS_FINAL | CLS_BOXED, bool_methods, NULL},
    [B_FLOAT] = {"float", B_OBJECT, KIND_INSTANCE, CLS_BOXED, float_methods, float_members},
    [B_STR] = {"str", B_OBJECT, KIND_INSTANCE, CLS_BOXED, str_methods, NULL},
    [B_TUPLE] = {"tuple", B_OBJECT, KIND_INSTANCE, CLS_BOXED, tuple_methods, NULL},
    [B_LIST] = {"list", B_OBJECT, KIND_LIST, 0, list_methods, NULL},
    [B_DICT] = {"dict", B_OBJECT, KIND_DICT, 0, dict_methods, NULL},
    [B_SET] = {"set", B_OBJECT, KIND_SET, 0, set_methods, NULL},
    [B_FROZENSET] = {"frozenset", B_OBJECT, KIND_SET, CLS_FINAL, frozenset_methods, NULL},
    [B_FUNC] = {"function", B_OBJECT, KIND_FUNC, CLS_FINAL, func_methods, func_members},
    [B_NATIVE] = {"builtin_function_or_method", B_OBJECT, KIND_NATIVE, CLS_FINAL, none_methods, native_members},
    [B_METHOD] = {"method", B_OBJECT, KIND_METHOD, CLS_FINAL, method_methods, method_members},
    [B_MODULE] = {"module", B_OBJECT, KIND_MODULE, CLS_FINAL, module_methods, NULL},
    [B_CELL] = {"cell", B_OBJECT, KIND_CELL, CLS_FINAL, none_methods, cell_members},
    [B_CODE] = {"code", B_OBJECT, KIND_CODE, CLS_FINAL, none_methods, code_members},
    [B_GEN] = {"generator", B_OBJECT, KIND_GEN, CLS_FINAL, gen_methods, gen_members},
    [B_RANGE] = {"range", B_OBJECT, KIND_RANGE, CLS_FINAL, range_methods, range_members},
    [B_SLICE] = {"slice", B_OBJECT, KIND_SLICE, CLS_FINAL, slice_methods, slice_members},
    [B_ITER] = {"iterator", B_OBJECT, KIND_ITER, CLS_FINAL, iter_methods, NULL},
    [B_SUPER] = {"super", B_OBJECT, KIND_SUPER, CLS_FINAL, super_methods, NULL},
    [B_PROPERTY] = {"property", B_OBJECT, KIND_PROPERTY, CLS_FINAL, property_methods, property_members},
    [B_CACHED] = {"cached_property", B_OBJECT, KIND_PROPERTY, CLS_FINAL, cached_methods, property_members},
    [B_STATICMETHOD] = {"staticmethod", B_OBJECT, KIND_WRAP, CLS_FINAL, wrap_methods, wrap_members},
    [B_CLASSMETHOD] = {"classmethod", B_OBJECT, KIND_WRAP, CLS_FINAL, wrap_methods, wrap_members},
    [B_TRACE] = {"traceback", B_OBJECT, KIND_TRACE, CLS_FINAL, none_methods, NULL},
    [B_FRAME] = {"frame", B_OBJECT, KIND_FRAME, CLS_FINAL, none_methods, NULL},
    [B_VIEW] = {"dict_view", B_OBJECT, KIND_VIEW, CLS_FINAL, view_methods, NULL},
    [B_ALIAS] = {"GenericAlias", B_OBJECT, KIND_ALIAS, CLS_FINAL, none_methods, alias_members},
    [B_UNION] = {"UnionType", B_OBJECT, KIND_ALIAS, CLS_FINAL, none_methods, alias_members},
    [B_ELLIPSIS] = {"ellipsis", B_OBJECT, KIND_COUNT, CLS_FINAL, none_methods, NULL},
    [B_NOTIMPLEMENTED] = {"NotImplementedType", B_OBJECT, KIND_COUNT, CLS_FINAL, none_methods, NULL},
    [B_MEMBER] = {"member", B_OBJECT, KIND_MEMBER, CLS_FINAL, none_methods, NULL},
    [B_ENUMERATE] = {"enumerate", B_ITER, KIND_ITER, CLS_FINAL, enumerate_methods, NULL},
    [B_ZIP] = {"zip", B_ITER, KIND_ITER, CLS_FINAL, zip_methods, NULL},
    [B_MAP] = {"map", B_ITER, KIND_ITER, CLS_FINAL, map_methods, NULL},
    [B_FILTER] = {"filter", B_ITER, KIND_ITER, CLS_FINAL, filter_methods, NULL},
    [B_REVERSED] = {"reversed", B_ITER, KIND_ITER, CLS_FINAL, reversed_methods, NULL},
};

/* Under their own names among the builtins. */
static const uint8_t named[] = {B_OBJECT,      B_TYPE,      B_BOOL,      B_INT,   B_FLOAT,  B_STR,     B_TUPLE,    B_LIST,
                                B_DICT,        B_SET,       B_FROZENSET, B_RANGE, B_SLICE,  B_SUPER,   B_PROPERTY, B_STATICMETHOD,
                                B_CLASSMETHOD, B_ENUMERATE, B_ZIP,       B_MAP,   B_FILTER, B_REVERSED};

static const struct {
    const char *name;
    uint8_t base;
} exceptions[EXC_COUNT] = {
#define EXC(name, base) {#name, EXC_##base},
#include "script/exceptions.def"
#undef EXC
};

static const char *const symbols[SYM_COUNT] = {
#define SYM(id, text) text,
#include "script/symbols.def"
#undef SYM
};

static bool make_names(struct image *im)
{
    for (unsigned i = 0; i < SYM_COUNT; i++)
        if (!(im->world->symbols[i] = image_intern(im, symbols[i], strlen(symbols[i]))))
            return false;
    for (unsigned i = 0; i < 128; i++) {
        char c = (char)i;

        if (!(im->world->letters[i] = image_intern(im, &c, 1)))
            return false;
    }
    im->world->empty = arena_new(im->arena, struct tuple);
    if (im->world->empty)
        im->world->empty->h = (struct obj){.refs = 1, .kind = KIND_TUPLE};
    return im->world->empty;
}

static bool make_classes(struct image *im)
{
    struct world *w = im->world;

    for (unsigned i = 0; i < B_COUNT; i++) {
        struct cls *c = world_class(im, i ? w->types[rows[i].base] : NULL, rows[i].name, (enum kind)rows[i].layout);

        if (!c)
            return false;
        w->types[i] = c;
        c->flags |= rows[i].flags;
        if (c->flags & CLS_BOXED)
            c->bytes = sizeof(struct boxed);
        c->module = w->symbols[SYM_builtins_module];
    }
    for (unsigned i = 0; i < B_COUNT; i++)
        if (!world_methods(im, w->types[i], rows[i].methods, rows[i].members))
            return false;
    w->object_new = dict_find_name(w->types[B_OBJECT]->dict, w->symbols[SYM_new])->value.o;
    w->object_init = dict_find_name(w->types[B_OBJECT]->dict, w->symbols[SYM_init])->value.o;
    return true;
}

static bool make_exceptions(struct image *im)
{
    struct world *w = im->world;

    for (unsigned i = 0; i < EXC_COUNT; i++) {
        struct cls *base = i ? w->exceptions[exceptions[i].base] : w->types[B_OBJECT],
                   *c = world_class(im, base, exceptions[i].name, KIND_INSTANCE);

        if (!c)
            return false;
        w->exceptions[i] = c;
        c->exc = (enum script_exc)i;
        c->bytes = sizeof(struct exc);
        c->flags |= CLS_EXCEPTION;
        c->module = w->symbols[SYM_builtins_module];
    }
    return world_methods(im, w->exceptions[EXC_BaseException], exception_methods, exception_members);
}

static bool make_builtins(struct image *im)
{
    struct world *w = im->world;
    struct dict *d = w->builtins = shared_dict(im->arena);
    struct str *t;

    if (!d)
        return false;
    for (const struct script_native *f = builtin_functions; f->name; f++) {
        struct native *n = world_native(im, f, NULL);

        if (!n || !shared_set(im->arena, d, n->name, sv_forever(n)))
            return false;
    }
    for (unsigned i = 0; i < sizeof named; i++)
        if (!shared_set(im->arena, d, w->types[named[i]]->name, sv_forever(w->types[named[i]])))
            return false;
    for (unsigned i = 0; i < EXC_COUNT; i++)
        if (!shared_set(im->arena, d, w->exceptions[i]->name, sv_forever(w->exceptions[i])))
            return false;
    t = image_intern(im, "IOError", 7);
    if (!t || !shared_set(im->arena, d, t, sv_forever(w->exceptions[EXC_OSError])))
        return false;
    t = image_intern(im, "NotImplemented", 14);
    if (!t || !shared_set(im->arena, d, t, sv_not_implemented()))
        return false;
    t = image_intern(im, "Ellipsis", 8);
    return t && shared_set(im->arena, d, t, (sv){.tag = SV_ELLIPSIS});
}

enum err_code world_new(struct image *im, struct err *err)
{
    enum err_code rc = ERR_OK;

    im->world = arena_new(im->arena, struct world);
    if (!im->world || !make_names(im) || !make_classes(im) || !make_exceptions(im) || !make_builtins(im))
        return err_set(err, ERR_NOMEM, "", "no memory for the language");
    for (const struct script_module *const *m = builtin_modules; !rc && *m; m++)
        rc = image_native(im, *m, err);
    im->world->made = true;
    for (const struct library_text *t = library_texts; !rc && t->name; t++) {
        if (t == library_texts || t->text != t[-1].text)
            rc = image_source(im, t->name, t->name, t->text, strlen(t->text), false, err);
        else
            rc = image_again(im, t->name, err); /* the text of the one before */
    }
    return rc;
}
