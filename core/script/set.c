/* Sets: operators and methods. */
#include "script/object.h"

#define PLAIN 0, NATIVE_PLAIN

static struct dict *of_value(sv v)
{
    return sv_is(v, KIND_VIEW) ? dict_ptr(AS(view, v)->dict) : dict_ptr(v);
}

static bool add_all(struct script *s, struct dict *d, sv iterable)
{
    sv iter = iter_of(s, iterable), item;

    if (!sv_ok(iter))
        return false;
    while (sv_ok(item = script_next(s, iter))) {
        bool ok = dict_put(s, d, item, sv_none());

        sv_drop(s, item);
        if (!ok)
            break;
    }
    sv_drop(s, iter);
    return !script_failed(s);
}

static sv fresh(struct script *s, sv like, sv items)
{
    sv r = set_new(s, sv_is(like, KIND_SET) && like.o->cls == s->w->types[B_FROZENSET]);

    if (sv_ok(r) && sv_ok(items) && !add_all(s, dict_ptr(r), items)) {
        sv_drop(s, r);
        return sv_null();
    }
    return r;
}

/* Those of `from` that are (or are not) in `in`. */
static bool keep_if(struct script *s, struct dict *into, const struct dict *from, const struct dict *in, bool want)
{
    for (uint32_t i = 0; i < from->used; i++) {
        struct entry *e;
        sv key = from->entries[i].key;
        int there = !script_charge(s, 1) ? -1 : key.tag == SV_NULL ? -2 : dict_find(s, in, key, &e);

        if (there == -1 || (there >= 0 && there == want && !dict_put(s, into, key, sv_none())))
            return false;
    }
    return true;
}

sv set_operate(struct script *s, enum script_binary op, sv a, sv b, bool in_place)
{
    sv other = sv_null(), r;
    const struct dict *x = of_value(a), *y;
    bool ok;

    if (!sv_is(b, KIND_SET) && !sv_is(b, KIND_VIEW) && !sv_is(b, KIND_DICT)) {
        other = fresh(s, sv_none(), b);
        if (!sv_ok(other))
            return other;
        b = other;
    }
    y = of_value(b);
    if (op == BINARY_OR && in_place) {
        ok = add_all(s, dict_ptr(a), b);
        sv_drop(s, other);
        return ok ? sv_keep(a) : sv_null();
    }
    r = fresh(s, a, sv_null());
    if (!sv_ok(r)) {
        sv_drop(s, other);
        return r;
    }
    switch (op) {
    case BINARY_OR:
        ok = add_all(s, dict_ptr(r), a) && add_all(s, dict_ptr(r), b);
        break;
    case BINARY_AND:
        ok = keep_if(s, dict_ptr(r), x, y, true);
        break;
    case BINARY_SUB:
        ok = keep_if(s, dict_ptr(r), x, y, false);
        break;
    case BINARY_XOR:
        ok = keep_if(s, dict_ptr(r), x, y, false) && keep_if(s, dict_ptr(r), y, x, false);
        break;
    default:
        sv_drop(s, r);
        sv_drop(s, other);
        return sv_not_implemented();
    }
    sv_drop(s, other);
    if (!ok) {
        sv_drop(s, r);
        return sv_null();
    }
    if (in_place && sv_is(a, KIND_SET) && a.o->cls != s->w->types[B_FROZENSET]) {
        struct dict *d = dict_ptr(a);

        dict_clear(s, d);
        ok = add_all(s, d, r);
        sv_drop(s, r);
        return ok ? sv_keep(a) : sv_null();
    }
    return r;
}

int set_compare(struct script *s, enum script_compare op, const struct dict *a, const struct dict *b)
{
    const struct dict *small = a, *large = b;
    struct entry *e;

    if (op == COMPARE_EQ || op == COMPARE_NE) {
        if (a->n != b->n)
            return op == COMPARE_NE;
    } else if (op == COMPARE_GT || op == COMPARE_GE) {
        small = b;
        large = a;
    }
    if ((op == COMPARE_LT || op == COMPARE_GT) && small->n >= large->n)
        return 0;
    for (uint32_t i = 0; i < small->used; i++) {
        int there = !script_charge(s, 1) ? -1 : small->entries[i].key.tag == SV_NULL ? 1 : dict_find(s, large, small->entries[i].key, &e);

        if (there < 0)
            return -1;
        if (!there)
            return op == COMPARE_NE;
    }
    return op != COMPARE_NE;
}

static sv changed(bool ok)
{
    return ok ? sv_none() : sv_null();
}

static sv set_new_(struct script *s, const struct script_args *a)
{
    struct cls *c = AS(cls, a->v[0]);
    sv r;

    if (cls_derives(c, s->w->types[B_FROZENSET])) {
        r = set_new(s, true);
        if (sv_ok(r) && sv_ok(a->v[1]) && !add_all(s, dict_ptr(r), a->v[1])) {
            sv_drop(s, r);
            return sv_null();
        }
        return r;
    }
    return instance_new(s, c);
}

static sv set_init(struct script *s, const struct script_args *a)
{
    if (a->v[0].o->cls == s->w->types[B_FROZENSET])
        return sv_none();
    dict_clear(s, dict_ptr(a->v[0]));
    return changed(!sv_ok(a->v[1]) || add_all(s, dict_ptr(a->v[0]), a->v[1]));
}

static sv set_add(struct script *s, const struct script_args *a)
{
    return changed(dict_put(s, dict_ptr(a->v[0]), a->v[1], sv_none()));
}

static sv set_discard(struct script *s, const struct script_args *a)
{
    int gone = dict_remove(s, dict_ptr(a->v[0]), a->v[1], NULL);

    if (!gone && a->def->data) {
        sv args = tuple_new(s, 1, &a->v[1]), e = sv_ok(args) ? exc_new(s, s->w->exceptions[EXC_KeyError], args) : args;

        sv_drop(s, args);
        if (sv_ok(e))
            exc_set(s, e);
        return sv_null();
    }
    return changed(gone >= 0);
}

static sv set_pop(struct script *s, const struct script_args *a)
{
    struct dict *d = dict_ptr(a->v[0]);

    for (uint32_t i = 0; i < d->used; i++)
        if (d->entries[i].key.tag != SV_NULL) {
            sv key = pay_items(s, i) ? sv_keep(d->entries[i].key) : sv_null();

            if (!sv_ok(key))
                return key;
            (void)dict_remove(s, d, key, NULL);
            return key;
        }
    return script_raise(s, EXC_KeyError, "pop from an empty set");
}

static sv set_clear(struct script *s, const struct script_args *a)
{
    dict_clear(s, dict_ptr(a->v[0]));
    return sv_none();
}

static sv set_copy(struct script *s, const struct script_args *a)
{
    return dict_copy(s, dict_ptr(a->v[0]));
}

/* union, difference, ..: with any iterables */
static sv set_many(struct script *s, const struct script_args *a)
{
    enum script_binary op = (enum script_binary)(a->def->data & 0xFF);
    bool in_place = a->def->data >> 8;
    sv r = in_place ? sv_keep(a->v[0]) : dict_copy(s, dict_ptr(a->v[0]));

    for (uint32_t i = 0; sv_ok(r) && i < a->n_rest; i++) {
        sv next = set_operate(s, op, r, a->rest[i], in_place);

        sv_drop(s, r);
        r = next;
    }
    if (in_place && sv_ok(r)) {
        sv_drop(s, r);
        return sv_none();
    }
    return r;
}

static sv set_is(struct script *s, const struct script_args *a)
{
    sv other = sv_is(a->v[1], KIND_SET) ? sv_keep(a->v[1]) : fresh(s, sv_none(), a->v[1]);
    struct dict *d = dict_ptr(a->v[0]);
    struct entry *e;
    int r = 1;

    if (!sv_ok(other))
        return other;
    if (a->def->data == 2) {
        for (uint32_t i = 0; r > 0 && i < d->used; i++)
            if (script_charge(s, 1) && d->entries[i].key.tag != SV_NULL)
                r = dict_find(s, dict_ptr(other), d->entries[i].key, &e) == 0;
    } else
        r = set_compare(s, a->def->data ? COMPARE_GE : COMPARE_LE, d, dict_ptr(other));
    sv_drop(s, other);
    return script_failed(s) ? sv_null() : sv_bool(r);
}

#define SHARED_METHODS                                                                                                      \
    {"copy", set_copy, "self, /", PLAIN}, {"union", set_many, "self, /, *others", BINARY_OR, NATIVE_PLAIN},                 \
        {"difference", set_many, "self, /, *others", BINARY_SUB, NATIVE_PLAIN},                                             \
        {"intersection", set_many, "self, /, *others", BINARY_AND, NATIVE_PLAIN},                                           \
        {"symmetric_difference", set_many, "self, /, *others", BINARY_XOR, NATIVE_PLAIN},                                   \
        {"issubset", set_is, "self, other, /", 0, NATIVE_PLAIN}, {"issuperset", set_is, "self, other, /", 1, NATIVE_PLAIN}, \
    {                                                                                                                       \
        "isdisjoint", set_is, "self, other, /", 2, NATIVE_PLAIN                                                             \
    }

const struct script_native set_methods[] = {{"__new__", set_new_, "cls, iterable=, /", 0, NATIVE_STATIC},
                                            {"__init__", set_init, "self, iterable=, /", PLAIN},
                                            {"add", set_add, "self, item, /", PLAIN},
                                            {"discard", set_discard, "self, item, /", 0, NATIVE_PLAIN},
                                            {"remove", set_discard, "self, item, /", 1, NATIVE_PLAIN},
                                            {"pop", set_pop, "self, /", PLAIN},
                                            {"clear", set_clear, "self, /", PLAIN},
                                            SHARED_METHODS,
                                            {"update", set_many, "self, /, *others", BINARY_OR | 256, NATIVE_PLAIN},
                                            {"difference_update", set_many, "self, /, *others", BINARY_SUB | 256, NATIVE_PLAIN},
                                            {"intersection_update", set_many, "self, /, *others", BINARY_AND | 256, NATIVE_PLAIN},
                                            {NULL, NULL, NULL, PLAIN}};

const struct script_native frozenset_methods[] = {{"__new__", set_new_, "cls, iterable=, /", 0, NATIVE_STATIC},
                                                  {"__init__", set_init, "self, iterable=, /", PLAIN},
                                                  SHARED_METHODS,
                                                  {NULL, NULL, NULL, PLAIN}};
