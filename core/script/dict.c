/* Dictionaries and sets: entries in the order of insertion. A set is a dict whose values are None. */
#include "script/object.h"

#define PLACES (UINT64_C(1) << 44) /* where nothing lies */

enum { NOWHERE = UINT32_MAX, MANY_PROBES = 16 };

struct dict *dict_make(struct script *s)
{
    struct dict *d = obj_new(s, sizeof *d, KIND_DICT);

    if (!d)
        return NULL;
    memset((char *)d + sizeof d->h, 0, sizeof *d - sizeof d->h);
    return d;
}

sv dict_new(struct script *s)
{
    struct dict *d = dict_make(s);

    return d ? sv_counted(d) : sv_null();
}

sv set_new(struct script *s, bool frozen)
{
    struct dict *d = dict_make(s);

    if (!d)
        return sv_null();
    d->h.kind = KIND_SET;
    if (frozen)
        d->h.cls = s->w->types[B_FROZENSET];
    return sv_counted(d);
}

struct dict *as_dict(sv v)
{
    return sv_is(v, KIND_DICT) || sv_is(v, KIND_SET) ? dict_ptr(v) : NULL;
}

/* ---- hashing */

static uint32_t mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    return (uint32_t)x ^ (uint32_t)(x >> 32);
}

static bool hash_tuple(struct script *s, const struct tuple *t, uint32_t *ret)
{
    uint64_t h = 0x345678;

    if (!script_charge(s, (t->n + 3) / 4) || !enter(s))
        return false;
    for (uint32_t i = 0; i < t->n; i++) {
        uint32_t item;

        if (!sv_hash(s, t->items[i], &item)) {
            leave(s);
            return false;
        }
        h = (h ^ item) * UINT64_C(1000003) + i;
    }
    leave(s);
    *ret = mix(h);
    return true;
}

/* The image that holds it, the nearest below; NULL: none. */
static const struct image *image_around(const struct script *s, uintptr_t at, unsigned *ret_depth)
{
    const struct image *found = NULL;
    unsigned depth = 1;

    for (const struct image *im = s->image; im; im = im->below, depth++)
        if (at > (uintptr_t)im && at < (uintptr_t)im->end && im > found) {
            found = im;
            *ret_depth = depth;
        }
    return found;
}

uint64_t script_place(const struct script *s, const struct obj *o)
{
    uintptr_t at = (uintptr_t)o, begin = (uintptr_t)s;
    unsigned depth = 0;
    const struct image *im = at >= begin && at < (uintptr_t)s->arena->end ? NULL : image_around(s, at, &depth);

    return PLACES + ((uint64_t)depth << 40) + (at - (im ? (uintptr_t)im : begin));
}

static uint32_t place_hash(const struct script *s, const struct obj *o)
{
    return mix(script_place(s, o) >> 4);
}

static bool hash_object(struct script *s, sv v, uint32_t *ret)
{
    struct cls *c = class_of(s, v);
    sv r, hash;

    if (c->flags & CLS_BOXED && !(cls_has(s, c) & HAS_HASH))
        return sv_hash(s, AS(boxed, v)->value, ret);
    if (cls_has(s, c) & HAS_HASH) {
        hash = type_find(s, c, s->sym[SYM_hash]);
        if (hash.tag == SV_NONE) {
            (void)script_raise(s, EXC_TypeError, "unhashable type: '%s'", c->name->text);
            return false;
        }
        r = special_call(s, v, SYM_hash, 0, NULL);
        if (r.tag == SV_NULL)
            return false;
        if (r.tag != SV_INT && r.tag != SV_BOOL) {
            sv_drop(s, r);
            (void)script_raise(s, EXC_TypeError, "__hash__ method should return an integer");
            return false;
        }
        *ret = mix((uint64_t)r.i);
        return true;
    }
    if (cls_has(s, c) & HAS_EQ) {
        (void)script_raise(s, EXC_TypeError, "unhashable type: '%s'", c->name->text);
        return false;
    }
    *ret = place_hash(s, v.o);
    return true;
}

bool sv_hash(struct script *s, sv v, uint32_t *ret)
{
    switch (v.tag) {
    case SV_INT:
    case SV_BOOL:
        *ret = mix((uint64_t)v.i);
        return true;
    case SV_FLOAT:
        if (v.f >= -9e18 && v.f <= 9e18 && (double)(int64_t)v.f == v.f)
            *ret = mix((uint64_t)(int64_t)v.f);
        else
            *ret = mix((uint64_t)v.i);
        return true;
    case SV_NONE:
    case SV_ELLIPSIS:
    case SV_NOTIMPLEMENTED:
        *ret = 7919 * v.tag;
        return true;
    default:
        break;
    }
    switch (v.o->kind) {
    case KIND_STR:
        *ret = str_hash(AS(str, v));
        return true;
    case KIND_TUPLE:
        return hash_tuple(s, AS(tuple, v), ret);
    case KIND_LIST:
    case KIND_DICT:
    case KIND_SLICE:
        if (v.o->cls && cls_has(s, v.o->cls) & HAS_HASH)
            return hash_object(s, v, ret);
        (void)script_raise(s, EXC_TypeError, "unhashable type: '%s'", class_of(s, v)->name->text);
        return false;
    case KIND_SET:
        if (v.o->cls == s->w->types[B_FROZENSET]) {
            struct dict *d = dict_ptr(v);
            uint32_t h = 0;

            if (!script_charge(s, (d->used + 3) / 4))
                return false;
            for (uint32_t i = 0; i < d->used; i++) {
                uint32_t item = 0;

                if (d->entries[i].key.tag != SV_NULL && sv_hash(s, d->entries[i].key, &item))
                    h += item;
            }
            *ret = mix(h);
            return true;
        }
        (void)script_raise(s, EXC_TypeError, "unhashable type: 'set'");
        return false;
    case KIND_RANGE:
        *ret = mix((uint64_t)(AS(range, v)->start * 31 + AS(range, v)->stop * 7 + AS(range, v)->step));
        return true;
    case KIND_METHOD:
        *ret = place_hash(s, AS(method, v)->function.o) ^ mix(place_hash(s, AS(method, v)->self.o));
        return true;
    case KIND_INSTANCE:
        return hash_object(s, v, ret);
    case KIND_ALIAS:
        *ret = sv_is_obj(AS(alias, v)->origin) ? place_hash(s, AS(alias, v)->origin.o) : mix((uint64_t)AS(alias, v)->origin.i);
        return true;
    default:
        *ret = place_hash(s, v.o);
        return true;
    }
}

/* ---- finding */

/* 1: the same key, 0, -1 */
static int key_equal(struct script *s, sv a, sv b)
{
    if (a.tag == b.tag || (sv_is_obj(a) && sv_is_obj(b))) {
        if (a.i == b.i && a.tag != SV_FLOAT)
            return 1;
        if (sv_is(a, KIND_STR) && sv_is(b, KIND_STR))
            return s && !pay_bytes(s, AS(str, a)->bytes) ? -1 : str_same(AS(str, a), AS(str, b));
        if (a.tag == SV_INT || a.tag == SV_BOOL)
            return 0;
    }
    return script_equal(s, a, b);
}

/* NOWHERE: not there; s NULL: names only. *failed: an __eq__ raised, or the dict changed meanwhile. */
static uint32_t locate(struct script *s, const struct dict *d, sv key, uint32_t hash, bool *failed)
{
    uint32_t version = d->version;

    if (!d->index) {
        for (uint32_t i = 0; i < d->used; i++) {
            const struct entry *e = &d->entries[i];
            int same;

            if (e->key.tag == SV_NULL || d->hashes[i] != hash)
                continue;
            same = key_equal(s, e->key, key);
            if (same < 0 || d->version != version) {
                *failed = true;
                return NOWHERE;
            }
            if (same)
                return i;
        }
        return NOWHERE;
    }
    for (uint32_t at = hash & d->mask, probes = 0;; at = (at + 1) & d->mask, probes++) {
        uint32_t i = d->index[at];
        int same;

        if (!i)
            return NOWHERE;
        i--;
        if (probes > MANY_PROBES && s && !script_charge(s, 1)) {
            *failed = true;
            return NOWHERE;
        }
        if (d->hashes[i] != hash || d->entries[i].key.tag == SV_NULL)
            continue;
        same = key_equal(s, d->entries[i].key, key);
        if (same < 0 || d->version != version) {
            *failed = true;
            return NOWHERE;
        }
        if (same)
            return i;
    }
}

int dict_find(struct script *s, const struct dict *d, sv key, struct entry **ret)
{
    bool failed = false;
    uint32_t hash, at;

    *ret = NULL;
    if (!sv_hash(s, key, &hash))
        return -1;
    at = locate(s, d, key, hash, &failed);
    if (failed) {
        if (!script_failed(s))
            (void)script_raise(s, EXC_RuntimeError, "dictionary changed during a look-up");
        return -1;
    }
    if (at == NOWHERE)
        return 0;
    *ret = &d->entries[at];
    return 1;
}

struct entry *dict_find_name(const struct dict *d, const struct str *name)
{
    uint32_t hash = name->hash;

    if (!d->index) {
        for (uint32_t i = 0; i < d->used; i++)
            if (d->entries[i].key.o == &name->h && d->entries[i].key.tag >= SV_OBJECT)
                return &d->entries[i];
        if (!(d->h.flags & DICT_OTHERS) && name->h.flags & STR_SYMBOL)
            return NULL;
        for (uint32_t i = 0; i < d->used; i++)
            if (d->hashes[i] == hash && sv_is(d->entries[i].key, KIND_STR) && str_same(AS(str, d->entries[i].key), name))
                return &d->entries[i];
        return NULL;
    }
    for (uint32_t at = hash & d->mask;; at = (at + 1) & d->mask) {
        uint32_t i = d->index[at];

        if (!i)
            return NULL;
        i--;
        if (d->hashes[i] == hash && sv_is(d->entries[i].key, KIND_STR) && str_same(AS(str, d->entries[i].key), name))
            return &d->entries[i];
    }
}

/* ---- room */

static size_t index_bytes(uint32_t mask)
{
    return ((size_t)mask + 1) * sizeof(uint32_t);
}

static size_t entry_bytes(uint32_t cap)
{
    return cap * (sizeof(struct entry) + sizeof(uint32_t));
}

/* How many places were taken. */
static uint32_t put_index(struct dict *d, uint32_t i)
{
    uint32_t at = d->hashes[i] & d->mask, taken = 0;

    for (; d->index[at]; taken++)
        at = (at + 1) & d->mask;
    d->index[at] = i + 1;
    return taken;
}

/* Places are looked for once for each entry; keys that share their hash take many. */
static bool put_all(struct script *s, struct dict *d)
{
    uint64_t taken = 0;

    for (uint32_t i = 0; d->index && i < d->used; i++)
        taken += put_index(d, i);
    return taken <= d->used || pay_items(s, taken);
}

/* The layout of `cap` entries, without those that were deleted. */
static bool resize(struct script *s, struct dict *d, uint32_t cap)
{
    struct entry *entries = heap_take(s, entry_bytes(cap));
    uint32_t *hashes, mask = 0, *index = NULL, n = 0;

    stirs(s, d);
    if (!entries)
        return false;
    hashes = (uint32_t *)(void *)(entries + cap);
    if (cap > DICT_SMALL) {
        for (mask = 31; mask < cap * 2; mask = mask * 2 + 1)
            ;
        index = heap_zero(s, index_bytes(mask));
        if (!index) {
            heap_give(s, entries, entry_bytes(cap));
            return false;
        }
    }
    for (uint32_t i = 0; i < d->used; i++)
        if (d->entries[i].key.tag != SV_NULL) {
            entries[n] = d->entries[i];
            hashes[n++] = d->hashes[i];
        }
    if (d->cap)
        heap_give(s, d->entries, entry_bytes(d->cap));
    if (d->index)
        heap_give(s, d->index, index_bytes(d->mask));
    d->entries = entries;
    d->hashes = hashes;
    d->index = index;
    d->mask = mask;
    d->cap = cap;
    d->used = n;
    return put_all(s, d);
}

static bool is_symbol(sv key)
{
    return sv_is(key, KIND_STR) && key.o->flags & STR_SYMBOL;
}

static bool insert(struct script *s, struct dict *d, sv key, uint32_t hash, sv value)
{
    stirs(s, d);
    if (!is_symbol(key))
        d->h.flags |= DICT_OTHERS;
    if (d->used == d->cap) {
        uint32_t cap = d->n + d->n / 2 + 4;

        if (d->n > 1 << 26)
            return script_nomem(s).tag;
        if (!resize(s, d, cap < DICT_SMALL && cap > 4 ? DICT_SMALL : cap))
            return false;
    }
    d->entries[d->used] = (struct entry){sv_keep(key), sv_keep(value)};
    d->hashes[d->used++] = hash;
    d->n++;
    d->version = ++s->next_version;
    if (d->index)
        (void)put_index(d, d->used - 1);
    return true;
}

bool dict_put(struct script *s, struct dict *d, sv key, sv value)
{
    struct entry *e;
    uint32_t hash;
    int there;
    sv old;

    if (sv_is(key, KIND_STR)) {
        if (!pay_bytes(s, AS(str, key)->bytes))
            return false;
        hash = key.o->flags & STR_SYMBOL ? AS(str, key)->hash : str_hash(AS(str, key));
        e = dict_find_name(d, AS(str, key));
        there = e != NULL;
    } else {
        if (!sv_hash(s, key, &hash))
            return false;
        there = dict_find(s, d, key, &e);
    }
    if (there < 0)
        return false;
    if (!there)
        return insert(s, d, key, hash, value);
    stirs(s, d);
    old = e->value;
    e->value = sv_keep(value);
    sv_drop(s, old);
    return true;
}

bool dict_put_name(struct script *s, struct dict *d, struct str *name, sv value)
{
    return dict_put(s, d, sv_forever(name), value);
}

int dict_remove(struct script *s, struct dict *d, sv key, sv *ret)
{
    struct entry *e, gone;
    int there = dict_find(s, d, key, &e);

    if (there <= 0)
        return there;
    stirs(s, d);
    gone = *e;
    e->key = sv_null();
    e->value = sv_null();
    d->n--;
    d->version = ++s->next_version;
    /* CPython drops the key first when it deletes, and hands the value out when it pops */
    sv_drop(s, gone.key);
    if (ret)
        *ret = gone.value;
    else
        sv_drop(s, gone.value);
    return 1;
}

void dict_release(struct script *s, struct dict *d)
{
    struct entry *entries = d->entries;
    uint32_t used = d->used, cap = d->cap;

    d->entries = NULL;
    d->n = d->used = d->cap = 0;
    if (d->index)
        heap_give(s, d->index, index_bytes(d->mask));
    d->index = NULL;
    for (uint32_t i = 0; i < used; i++) {
        sv_drop(s, entries[i].key);
        sv_drop(s, entries[i].value);
    }
    if (cap)
        heap_give(s, entries, entry_bytes(cap));
}

void dict_clear(struct script *s, struct dict *d)
{
    stirs(s, d);
    d->version = ++s->next_version;
    dict_release(s, d);
}

sv dict_copy(struct script *s, const struct dict *d)
{
    struct dict *n = dict_make(s);

    if (!n)
        return sv_null();
    n->h.kind = d->h.kind;
    n->h.flags = d->h.flags;
    if (d->h.kind == KIND_SET && d->h.cls == s->w->types[B_FROZENSET])
        n->h.cls = d->h.cls;
    if (d->n && !resize(s, n, d->n > 4 && d->n < DICT_SMALL ? DICT_SMALL : d->n)) {
        sv_drop(s, sv_counted(n));
        return sv_null();
    }
    for (uint32_t i = 0; i < d->used; i++) {
        if (d->entries[i].key.tag == SV_NULL)
            continue;
        n->entries[n->used] = (struct entry){sv_keep(d->entries[i].key), sv_keep(d->entries[i].value)};
        n->hashes[n->used] = d->hashes[i];
        n->used++;
        n->n++;
    }
    if (put_all(s, n))
        return sv_counted(n);
    sv_drop(s, sv_counted(n));
    return sv_null();
}

bool dict_room(struct script *s, struct dict *d, uint32_t n)
{
    return d->cap >= n || resize(s, d, n > 4 && n < DICT_SMALL ? DICT_SMALL : n);
}

bool dict_add(struct script *s, struct dict *d, struct str *name, sv value)
{
    return insert(s, d, sv_forever(name), name->hash, value);
}

/* Of names into what has none of them yet, mostly nothing: as a copy. False: not that. */
static bool merge_names(struct script *s, struct dict *d, const struct dict *from, bool *ret_ok)
{
    if (d->h.kind != KIND_DICT || (d->h.flags | from->h.flags) & DICT_OTHERS)
        return false;
    *ret_ok = pay_items(s, 8 * (uint64_t)from->used);
    if (!*ret_ok)
        return true;
    for (uint32_t i = 0; d->n && i < from->used; i++)
        if (from->entries[i].key.tag != SV_NULL && dict_find_name(d, AS(str, from->entries[i].key)))
            return false;
    *ret_ok = dict_room(s, d, d->used + from->n);
    for (uint32_t i = 0; *ret_ok && i < from->used; i++)
        if (from->entries[i].key.tag != SV_NULL)
            *ret_ok = insert(s, d, from->entries[i].key, from->hashes[i], from->entries[i].value);
    return true;
}

static bool merge_one(struct script *s, struct dict *d, sv key, sv value, bool unique)
{
    struct entry *e;

    if (unique) {
        int there = dict_find(s, d, key, &e);

        if (there < 0)
            return false;
        if (there) {
            (void)script_raise(s, EXC_TypeError, "got multiple values for keyword argument '%s'", as_str(key) ? as_str(key)->text : "?");
            return false;
        }
        if (!as_str(key)) {
            (void)script_raise(s, EXC_TypeError, "keywords must be strings");
            return false;
        }
    }
    return dict_put(s, d, key, value);
}

bool dict_merge(struct script *s, struct dict *d, sv from, bool unique)
{
    sv keys, key, iter;

    if (sv_is(from, KIND_DICT) && (!from.o->cls || !(cls_has(s, from.o->cls) & (HAS_ITER | HAS_GETITEM)))) {
        const struct dict *f = dict_ptr(from);
        bool ok;

        if (f == d || !f->n)
            return true;
        if (merge_names(s, d, f, &ok))
            return ok;
        for (uint32_t i = 0; i < f->used; i++)
            if (f->entries[i].key.tag != SV_NULL && !(script_charge(s, 1) && merge_one(s, d, f->entries[i].key, f->entries[i].value, unique)))
                return false;
        return true;
    }
    keys = script_call_method(s, from, sv_forever(s->sym[SYM_keys]), 0, NULL);
    if (!sv_ok(keys))
        return false;
    iter = script_iter(s, keys);
    sv_drop(s, keys);
    if (!sv_ok(iter))
        return false;
    while (sv_ok(key = script_next(s, iter))) {
        sv value = script_getitem(s, from, key);
        bool ok = sv_ok(value) && merge_one(s, d, key, value, unique);

        sv_drop(s, key);
        sv_drop(s, value);
        if (!ok)
            break;
    }
    sv_drop(s, iter);
    return !script_failed(s);
}

/* ---- the outside */

bool dict_set(struct script *s, sv dict, sv key, sv value)
{
    return dict_put(s, dict_ptr(dict), key, value);
}

bool dict_del(struct script *s, sv dict, sv key)
{
    return dict_remove(s, dict_ptr(dict), key, NULL) == 1;
}

sv dict_get(struct script *s, sv dict, sv key)
{
    struct entry *e;

    return dict_find(s, dict_ptr(dict), key, &e) == 1 ? e->value : sv_null();
}

bool dict_each(sv dict, uint32_t *at, sv *key, sv *value)
{
    const struct dict *d = dict_ptr(dict);

    while (*at < d->used) {
        const struct entry *e = &d->entries[(*at)++];

        if (e->key.tag == SV_NULL)
            continue;
        *key = e->key;
        *value = e->value;
        return true;
    }
    return false;
}

uint32_t dict_count(sv dict)
{
    return dict_ptr(dict)->n;
}

/* ---- in an image, where nothing is counted and nothing given back */

struct dict *shared_dict(struct arena *a)
{
    struct dict *d = arena_new(a, struct dict);

    if (d)
        d->h = (struct obj){.refs = 1, .kind = KIND_DICT};
    return d;
}

bool shared_set(struct arena *a, struct dict *d, struct str *key, sv value)
{
    struct entry *e = dict_find_name(d, key);

    if (e) {
        e->value = value;
        return true;
    }
    if (d->used == d->cap) {
        uint32_t cap = d->cap * 2 + 4, mask = 0, *index = NULL;
        struct entry *entries = arena_array(a, struct entry, cap);
        uint32_t *hashes = arena_array(a, uint32_t, cap);

        if (!entries || !hashes)
            return false;
        if (cap > DICT_SMALL) {
            for (mask = 31; mask < cap * 2; mask = mask * 2 + 1)
                ;
            index = arena_array(a, uint32_t, (size_t)mask + 1);
            if (!index)
                return false;
        }
        if (d->used) {
            memcpy(entries, d->entries, d->used * sizeof *entries);
            memcpy(hashes, d->hashes, d->used * sizeof *hashes);
        }
        d->entries = entries;
        d->hashes = hashes;
        d->index = index;
        d->mask = mask;
        d->cap = cap;
        for (uint32_t i = 0; index && i < d->used; i++)
            put_index(d, i);
    }
    d->entries[d->used] = (struct entry){sv_forever(key), value};
    d->hashes[d->used++] = key->hash;
    d->n++;
    d->version++;
    if (d->index)
        put_index(d, d->used - 1);
    return true;
}
