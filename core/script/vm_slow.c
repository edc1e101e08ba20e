/* The slower parts of the machine: what its loop does not do itself. */
#include "script/vm.h"

/* ---- names */

sv vm_global(struct script *s, struct cache *k, const struct module *m)
{
    struct entry *e = dict_find_name(m->dict, k->name);

    if (!e)
        e = dict_find_name(s->builtins, k->name);
    if (!e)
        return script_raise(s, EXC_NameError, "name '%.200s' is not defined", k->name->text);
    k->version = m->dict->version;
    k->entry = e;
    return sv_keep(e->value);
}

sv vm_name(struct script *s, struct frame *f, struct str *name)
{
    struct entry *e = dict_find_name(f->names, name);

    if (!e && f->names != f->module->dict)
        e = dict_find_name(f->module->dict, name);
    if (!e)
        e = dict_find_name(s->builtins, name);
    return e ? sv_keep(e->value) : script_raise(s, EXC_NameError, "name '%.200s' is not defined", name->text);
}

bool vm_unbound(struct script *s, const struct frame *f, uint32_t at)
{
    const struct code *c = f->code;

    if (at >= (uint32_t)c->n_all - c->n_free)
        (void)script_raise(s, EXC_NameError,
                           "cannot access free variable '%.100s' where it is not associated with a value in enclosing scope",
                           c->vars[at]->text);
    else
        (void)script_raise(s, EXC_UnboundLocalError, "cannot access local variable '%.100s' where it is not associated with a value",
                           c->vars[at]->text);
    return false;
}

/* ---- unpacking */

static bool too_few(struct script *s, uint32_t want, uint32_t got, bool least)
{
    (void)script_raise(s, EXC_ValueError, "not enough values to unpack (expected %s%u, got %u)", least ? "at least " : "", want, got);
    return false;
}

bool vm_unpack(struct script *s, sv seq, uint32_t n, sv *to)
{
    uint32_t have;
    const sv *items = sv_is(seq, KIND_LIST) || sv_is(seq, KIND_TUPLE) ? seq_items(seq, &have) : NULL;
    sv iter, item;

    if (items) {
        if (have < n)
            return too_few(s, n, have, false);
        if (have > n) {
            (void)script_raise(s, EXC_ValueError, "too many values to unpack (expected %u)", n);
            return false;
        }
        for (uint32_t i = 0; i < n; i++)
            to[n - 1 - i] = sv_keep(items[i]);
        return true;
    }
    iter = iter_of(s, seq);
    if (!sv_ok(iter)) {
        if (script_caught(s, EXC_TypeError)) {
            script_forgive(s);
            (void)script_raise(s, EXC_TypeError, "cannot unpack non-iterable %s object", class_of(s, seq)->name->text);
        }
        return false;
    }
    have = 0;
    while (have < n && sv_ok(item = iter_next(s, iter)))
        to[n - 1 - have++] = item;
    if (have == n && !script_failed(s)) {
        item = iter_next(s, iter);
        if (!sv_ok(item) && !script_failed(s)) {
            sv_drop(s, iter);
            return true;
        }
        sv_drop(s, item);
        if (!script_failed(s))
            (void)script_raise(s, EXC_ValueError, "too many values to unpack (expected %u)", n);
    } else if (!script_failed(s))
        (void)too_few(s, n, have, false);
    for (uint32_t i = 0; i < have; i++)
        sv_drop(s, to[n - 1 - i]);
    sv_drop(s, iter);
    return false;
}

bool vm_unpack_ex(struct script *s, sv seq, uint32_t before, uint32_t after, sv *to)
{
    sv list = list_of(s, seq), rest;
    uint32_t n, total = before + 1 + after;
    const sv *items;

    if (!sv_ok(list))
        return false;
    items = seq_items(list, &n);
    if (n < before + after) {
        sv_drop(s, list);
        return too_few(s, before + after, n, true);
    }
    rest = list_new(s, n - before - after, items + before);
    if (!sv_ok(rest)) {
        sv_drop(s, list);
        return false;
    }
    for (uint32_t i = 0; i < before; i++)
        to[total - 1 - i] = sv_keep(items[i]);
    to[after] = rest;
    for (uint32_t i = 0; i < after; i++)
        to[after - 1 - i] = sv_keep(items[n - after + i]);
    sv_drop(s, list);
    return true;
}

/* ---- functions, classes, calls */

struct run_code *run_code_of(struct script *s, const struct code *code)
{
    struct run_code *r;

    if (code->id >= s->n_runs) {
        uint32_t n = code->id + code->id / 2 + 256;
        struct run_code **runs = script_lasting(s, n * sizeof *runs);

        if (!runs)
            return NULL;
        if (s->n_runs)
            memcpy(runs, s->runs, s->n_runs * sizeof *runs);
        s->runs = runs;
        s->n_runs = n;
    }
    r = s->runs[code->id];
    if (r && r->code == code)
        return r;
    r = script_lasting(s, sizeof *r + code->n_names * sizeof r->cache[0]);
    if (!r)
        return NULL;
    r->code = code;
    for (uint32_t i = 0; i < code->n_names; i++)
        r->cache[i].name = code->names[i];
    s->runs[code->id] = r;
    return r;
}

sv func_new(struct script *s, const struct code *code, struct module *m)
{
    struct run_code *run = run_code_of(s, code);
    struct func *f = run ? obj_new(s, sizeof *f, KIND_FUNC) : NULL;

    if (!f)
        return sv_null();
    f->code = code;
    f->run = run;
    f->module = m;
    f->name = sv_forever(code->name);
    f->qualname = sv_forever(code->qualname);
    f->defaults = f->kwdefaults = f->closure = sv_null();
    f->attributes = NULL;
    return sv_counted(f);
}

sv vm_make_function(struct script *s, struct frame *f, sv *sp, uint32_t flags)
{
    uint32_t at = 0;
    sv defaults = flags & 1 ? sp[at++] : sv_null(), kw = flags & 2 ? sp[at++] : sv_null(), closure = flags & 8 ? sp[at++] : sv_null();
    sv r = func_new(s, AS(code, sp[at]), f->module);

    if (!sv_ok(r))
        return r;
    AS(func, r)->defaults = defaults;
    AS(func, r)->kwdefaults = kw;
    AS(func, r)->closure = closure;
    return r;
}

sv vm_call_ex(struct script *s, sv f, sv *args, sv kw)
{
    uint32_t n, n_kw = 0, k = 0;
    const sv *items;
    sv *base = s->sp, *names, r;

    if (!sv_is(*args, KIND_TUPLE)) {
        sv t = tuple_of(s, *args);

        if (!sv_ok(t)) {
            if (script_caught(s, EXC_TypeError) && !sv_is(*args, KIND_GEN)) {
                script_forgive(s);
                return script_raise(s, EXC_TypeError, "argument after * must be an iterable, not %s", class_of(s, *args)->name->text);
            }
            return t;
        }
        r = *args;
        *args = t;
        sv_drop(s, r);
    }
    if (sv_ok(kw) && (!sv_is(kw, KIND_DICT)))
        return script_raise(s, EXC_TypeError, "argument after ** must be a mapping, not %s", class_of(s, kw)->name->text);
    items = seq_items(*args, &n);
    n_kw = sv_ok(kw) ? dict_ptr(kw)->n : 0;
    if (!n_kw)
        return sv_call(s, f, items, n, 0, NULL);
    if ((size_t)(s->stack_end - base) < (size_t)n + 2 * (size_t)n_kw + 2 * SCRIPT_PARAMETERS)
        return script_raise(s, EXC_RecursionError, "the evaluation stack is full");
    names = base;
    if (n)
        memcpy(base + n_kw, items, n * sizeof(sv));
    for (uint32_t i = 0; i < dict_ptr(kw)->used; i++) {
        const struct entry *e = &dict_ptr(kw)->entries[i];

        if (e->key.tag == SV_NULL)
            continue;
        if (!sv_is(e->key, KIND_STR) && !as_str(e->key))
            return script_raise(s, EXC_TypeError, "keywords must be strings");
        names[k] = e->key;
        /* held, as _PyStack_UnpackDict does: the dict may change meanwhile */
        base[n_kw + n + k++] = sv_keep(e->value);
    }
    s->sp += n + 2 * n_kw;
    r = sv_call(s, f, base + n_kw, n, n_kw, names);
    s->sp = base;
    for (uint32_t i = 0; i < n_kw; i++)
        sv_drop(s, base[n_kw + n + i]);
    return r;
}

int vm_with(struct script *s, sv *top)
{
    sv manager = top[0], enter_, exit_, r, self;
    struct cls *c = class_of(s, manager);

    if (!sv_ok(type_find(s, c, s->sym[SYM_enter])) || !sv_ok(type_find(s, c, s->sym[SYM_exit]))) {
        (void)script_raise(s, EXC_TypeError, "'%s' object does not support the context manager protocol", c->name->text);
        return 0;
    }
    enter_ = method_find(s, manager, s->sym[SYM_enter], &self);
    if (sv_ok(self)) { /* looked up on the class: bound by hand, whatever lies in the instance */
        r = method_new(s, enter_, self);
        sv_drop(s, enter_);
        sv_drop(s, self);
        enter_ = r;
    }
    if (!sv_ok(enter_))
        return 0;
    exit_ = descriptor_get(s, type_find(s, c, s->sym[SYM_exit]), manager, c);
    if (!sv_ok(exit_)) {
        sv_drop(s, enter_);
        return 0;
    }
    top[0] = exit_;
    sv_drop(s, manager);
    r = sv_call(s, enter_, NULL, 0, 0, NULL);
    sv_drop(s, enter_);
    if (!sv_ok(r))
        return 0;
    top[1] = r;
    return 1;
}

sv vm_import(struct script *s, struct frame *f, struct str *name, int64_t flags)
{
    return import_name(s, f->module, name, (unsigned)(flags / 512), flags & 256);
}

sv vm_build_map(struct script *s, sv *at, uint32_t n)
{
    sv r = dict_new(s);
    bool ok = sv_ok(r);

    for (uint32_t i = 0; ok && i < n; i++)
        ok = dict_put(s, dict_ptr(r), at[2 * i], at[2 * i + 1]);
    for (uint32_t i = 2 * n; i-- > 0;)
        sv_drop(s, at[i]);
    if (!ok) {
        sv_drop(s, r);
        return sv_null();
    }
    return r;
}

sv vm_build_string(struct script *s, sv *at, uint32_t n)
{
    size_t bytes = 0, k = 0;
    uint8_t flags = STR_ASCII;
    struct str *t;

    for (uint32_t i = 0; i < n; i++) {
        bytes += AS(str, at[i])->bytes;
        flags &= at[i].o->flags;
    }
    t = str_raw(s, bytes);
    for (uint32_t i = 0; t && i < n; i++) {
        memcpy(t->text + k, AS(str, at[i])->text, AS(str, at[i])->bytes);
        k += AS(str, at[i])->bytes;
    }
    for (uint32_t i = 0; i < n; i++)
        sv_drop(s, at[i]);
    if (!t)
        return sv_null();
    t->h.flags = flags & STR_ASCII;
    return sv_counted(t);
}

/* ---- match: ceval.c match_keys(), match_class() */

sv vm_match_keys(struct script *s, sv map, sv keys)
{
    struct tuple *asked = AS(tuple, keys);
    sv made = list_new(s, 0, NULL), found;
    bool ok = sv_ok(made) && script_charge(s, asked->n);

    for (uint32_t i = 0; ok && i < asked->n; i++) {
        found = dict_get(s, map, asked->items[i]);
        if (!sv_ok(found)) {
            sv_drop(s, made);
            return script_failed(s) ? sv_null() : sv_none();
        }
        ok = list_push(s, AS(list, made), sv_keep(found));
    }
    found = ok ? tuple_new(s, asked->n, AS(list, made)->items) : sv_null();
    sv_drop(s, made);
    return found;
}

/* A class without names for its parts whose one part is itself. */
static bool is_its_part(const struct script *s, struct cls *c)
{
    static const uint8_t of[] = {B_BOOL, B_INT, B_FLOAT, B_STR, B_TUPLE, B_LIST, B_DICT, B_SET, B_FROZENSET};

    for (size_t i = 0; i < sizeof of; i++)
        if (cls_derives(c, s->w->types[of[i]]))
            return true;
    return false;
}

/* 1: *ret has it too; 0: there is no such attribute */
static int add_attr(struct script *s, sv subject, sv name, struct list *ret)
{
    sv value = sv_null();
    int found = script_find(s, subject, name, &value);

    if (found)
        return found == SCRIPT_ABSENT ? 0 : -1;
    return list_push(s, ret, value) ? 1 : -1;
}

static int add_parts(struct script *s, sv subject, sv cls, uint32_t n, struct list *ret)
{
    sv names = sv_null();
    int found = script_find(s, cls, sv_forever(s->sym[SYM_match_args]), &names), yes = 1;
    uint32_t allowed = 0;
    const sv *items = found ? NULL : seq_items(names, &allowed);

    if (found == SCRIPT_ABSENT && n == 1 && is_its_part(s, sv_as_class(cls)))
        return list_push(s, ret, sv_keep(subject)) ? 1 : -1;
    if (allowed < n && found >= 0) {
        (void)script_raise(s, EXC_TypeError, "%.100s() accepts %u positional sub-pattern%s (%u given)", sv_as_class(cls)->name->text, allowed,
                           allowed == 1 ? "" : "s", n);
        yes = -1;
    }
    for (uint32_t i = 0; yes > 0 && i < n; i++)
        yes = add_attr(s, subject, items[i], ret);
    sv_drop(s, names);
    return found < 0 ? -1 : yes;
}

sv vm_match_class(struct script *s, sv subject, sv cls, sv names, uint32_t n)
{
    struct tuple *keywords = AS(tuple, names);
    int yes = sv_as_class(cls) ? isinstance_of(s, subject, cls) : -1;
    sv made, all = sv_null();

    if (!sv_as_class(cls))
        return script_raise(s, EXC_TypeError, "called match pattern must be a class");
    if (yes <= 0 || !script_charge(s, n + keywords->n))
        return script_failed(s) ? sv_null() : sv_none();
    made = list_new(s, 0, NULL);
    yes = !sv_ok(made) ? -1 : n ? add_parts(s, subject, cls, n, AS(list, made)) : 1;
    for (uint32_t i = 0; yes > 0 && i < keywords->n; i++)
        yes = add_attr(s, subject, keywords->items[i], AS(list, made));
    if (yes > 0)
        all = tuple_new(s, AS(list, made)->n, AS(list, made)->items);
    sv_drop(s, made);
    return yes > 0 ? all : yes < 0 ? sv_null() : sv_none();
}
