/* alike.c - which layers of a declared model are alike: what their modules are, and what their classes wrote down about them. */
#include "models/program_parts.h"

#include <string.h>

enum { INDICES_MAX = 64, DEEPEST = 4 };

/* An attribute that is 0 in the first layer, 1 in the second, .. of those that have it: the layer's number, which tells it from no other. */
struct index_of {
    uint64_t key;
    uint32_t layers; /* that have it so; one may have any value by chance */
    bool otherwise;  /* one of those behind the first has not */
    uint8_t *has;    /* of each layer */
};

struct looking {
    struct script *s;
    struct arena *arena;
    uint64_t *sum;   /* of each layer */
    uint32_t n, now; /* which one is looked at */
    struct index_of index[INDICES_MAX];
    uint32_t n_index;
};

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

static uint64_t of_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return mixed(hash, 1);
}

static uint64_t of_value(struct script *s, sv v, int deep);

static uint64_t of_items(struct script *s, sv v, int deep)
{
    uint64_t hash = 7;
    uint32_t n = 0, at = 0;
    const sv *items = seq_items(v, &n);
    sv key, value;

    for (uint32_t i = 0; items && i < n; i++)
        hash = mixed(hash, of_value(s, items[i], deep + 1));
    while (!items && dict_each(v, &at, &key, &value))
        hash += mixed(of_value(s, key, deep + 1), of_value(s, value, deep + 1));
    return hash;
}

/* Of a float only whether it is 0: no size and no branch of a model hangs on more. What has no value of its own is its class. */
static uint64_t of_value(struct script *s, sv v, int deep)
{
    if (v.tag == SV_INT)
        return mixed(3, (uint64_t)v.i);
    if (v.tag == SV_BOOL)
        return mixed(4, v.b);
    if (v.tag == SV_FLOAT)
        return mixed(5, v.f != 0);
    if (sv_is(v, KIND_STR))
        return of_text(11, str_text(v, NULL));
    if (deep < DEEPEST && (sv_is(v, KIND_LIST) || sv_is(v, KIND_TUPLE) || sv_is(v, KIND_DICT)))
        return of_items(s, v, deep);
    return sv_as_class(v) ? of_text(13, cls_name(sv_as_class(v))) : of_text(17, cls_name(sv_class(s, v)));
}

static void note_index(struct looking *l, uint64_t key, bool is_number)
{
    uint32_t k = 0;

    while (k < l->n_index && l->index[k].key != key)
        k++;
    if (k == l->n_index && is_number && k < INDICES_MAX) {
        l->index[k] = (struct index_of){.key = key, .has = arena_array(l->arena, uint8_t, l->n)};
        l->n_index += l->index[k].has != NULL;
    }
    if (k == l->n_index)
        return;
    l->index[k].otherwise |= !is_number;
    if (is_number) {
        l->index[k].has[l->now] = 1;
        l->index[k].layers++;
    }
}

/* A number may be told in a module of the layer's own names: `at` is where that stands. */
static void see_attributes(struct looking *l, sv module, uint64_t at)
{
    sv all = script_dict_of(l->s, module), name, value;
    uint32_t i = 0;

    while (sv_is(all, KIND_DICT) && dict_each(all, &i, &name, &value)) {
        uint64_t key = sv_is(name, KIND_STR) ? of_text(at, str_text(name, NULL)) : 0;

        l->sum[l->now] += mixed(key, of_value(l->s, value, 0));
        if (value.tag == SV_INT)
            note_index(l, key, value.i == (int64_t)l->now);
    }
    sv_drop(l->s, all);
    script_forgive(l->s);
}

static uint64_t see_params(const struct module *m, uint64_t at)
{
    uint64_t hash = mixed(mixed(at, (uint64_t)m->kind), (uint64_t)m->in);

    hash = mixed(mixed(hash, (uint64_t)m->out), (m->p != 0 ? 1U : 0U) + (m->padding_idx ? 2U : 0U));
    for (const struct param *p = m->params; p; p = p->next) {
        hash = mixed(of_text(hash, p->name), (uint64_t)p->dtype + (p->buffer ? 64U : 0U) + (p->tied ? 128U : 0U));
        for (int i = 0; i < p->ndim; i++)
            hash = mixed(hash, (uint64_t)p->size[i]);
    }
    return hash;
}

/* The layer of the list that a module is in, and its place there. */
static bool place_of(const struct module *list, const struct module *m, uint32_t *ret_layer, uint64_t *ret_at)
{
    uint64_t at = 19;
    uint32_t i = 0;

    while (m && m->parent != list) {
        at = of_text(at, m->name);
        m = m->parent;
    }
    for (const struct module *k = m ? list->first : NULL; k && k != m; k = k->next)
        i++;
    *ret_layer = i;
    *ret_at = at;
    return m;
}

static void forget_indices(struct looking *l)
{
    for (uint32_t k = 0; k < l->n_index; k++)
        for (uint32_t i = 0; l->index[k].layers > 1 && !l->index[k].otherwise && i < l->n; i++)
            l->sum[i] -= l->index[k].has[i] ? mixed(l->index[k].key, of_value(l->s, sv_int(i), 0)) : 0;
}

/* Modules come layer by layer, as they stand in the list. */
static bool see_all(struct program *p, const struct module *list, struct looking *l)
{
    sv modules = script_call_method(p->s, p->model, script_symbol(p->s, "modules"), 0, NULL);
    uint32_t n = 0;
    const sv *items = sv_ok(modules) ? seq_items(modules, &n) : NULL;

    for (uint32_t i = 0; i < n; i++) {
        const struct module *m = natives_module(&p->n, items[i]);
        uint64_t at;

        if (!m || !place_of(list, m, &l->now, &at))
            continue;
        l->sum[l->now] += mixed(see_params(m, at), of_text(23, cls_name(sv_class(p->s, items[i]))));
        see_attributes(l, items[i], at);
    }
    sv_drop(p->s, modules);
    return items;
}

bool program_kinds(struct program *p, const struct tree *t, uint32_t layers, uint8_t *ret)
{
    struct looking l = {.s = p->s, .arena = t->arena, .n = layers};
    const struct module *list = module_list(t);
    uint32_t kinds = 0;

    l.sum = arena_array(t->arena, uint64_t, layers);
    if (!list || !l.sum || t->shares_modules || !see_all(p, list, &l))
        return false;
    forget_indices(&l);
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t k = 0;

        while (k < i && l.sum[k] != l.sum[i])
            k++;
        if (k == i && kinds == UINT8_MAX)
            return false;
        ret[i] = k < i ? ret[k] : (uint8_t)kinds++;
    }
    return true;
}
