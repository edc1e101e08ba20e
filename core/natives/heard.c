/* heard.c - layers of a program that all carry: what a forward of one asks of core/torch is written down (torch/calls.h) and asked again for those alike. */
#include "natives/heard.h"

#include "base/budget.h"

#include <stdio.h>
#include <string.h>

enum { DEEPEST = 3, ITEMS = 8 };

void natives_heard(struct natives *n, struct calls_book *book, uint64_t identity, const uint8_t *layer_kinds, uint32_t n_layers)
{
    n->book = book;
    n->identity = identity;
    n->layer_kinds = layer_kinds;
    n->n_layers = n_layers;
    n->layers = NULL;
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* Of a ModuleList's child; UINT32_MAX: it is none. */
static uint32_t index_of(const char *name)
{
    uint32_t i = 0;

    if (!*name)
        return UINT32_MAX;
    for (; *name >= '0' && *name <= '9' && i < UINT32_C(100000); name++)
        i = i * 10 + (uint32_t)(*name - '0');
    return *name ? UINT32_MAX : i;
}

bool is_heard(struct natives *n, const struct module *m)
{
    if (!n->book || !m || !m->parent || n->run->calls || index_of(m->name) >= n->n_layers)
        return false;
    if (!n->layers)
        n->layers = module_list(n->tree);
    return m->parent == n->layers;
}

/* All of it that its forward may hang on. */
static uint64_t looks_of(const struct run *r, const struct module *m)
{
    uint64_t kind = (uint64_t)m->kind | (m->hooks ? 16U : 0U) | (m->around ? 32U : 0U) | (uint64_t)m->split << 8;
    uint64_t hash = mixed((uint64_t)(uintptr_t)m->forward, kind);

    hash = mixed(mixed(mixed(hash, (uint64_t)m->in), (uint64_t)m->out), (uint64_t)calls_bits(m->p));
    for (const struct param *p = m->params; p; p = p->next) {
        unsigned flags = (p->buffer ? 1U : 0U) | (p->reads ? 2U : 0U) | (p->requires_grad ? 4U : 0U) | (p->tied ? 8U : 0U);

        hash = mixed(hash, (uint64_t)p->dtype | (uint64_t)p->ndim << 8 | (uint64_t)flags << 16);
        hash = mixed(hash, p->value ? (uint64_t)dtype_of(r, p->value) : DTYPE_COUNT);
        for (int i = 0; i < p->ndim; i++)
            hash = mixed(hash, (uint64_t)p->size[i]);
    }
    for (const struct module *c = m->first; c; c = c->next)
        hash = mixed(hash, looks_of(r, c));
    return hash;
}

/* What a program may ask of the run itself, and whether a region runs again. */
static uint64_t switches_of(const struct run *r)
{
    unsigned flags = (r->grad_enabled ? 1U : 0U) | (r->autocast ? 2U : 0U) | (r->in_backward ? 4U : 0U) | (r->recompute ? 8U : 0U) | (r->region ? 16U : 0U) |
                     (r->node_running ? 32U : 0U) | (r->no_flash ? 64U : 0U) | (r->cudnn_attention ? 128U : 0U);

    return (uint64_t)flags | (uint64_t)r->autocast_dtype << 16 | (uint64_t)r->stage << 24 | (uint64_t)(unsigned)r->autocast_depth << 32;
}

bool hearing_begins(struct natives *n, struct hearing *h, struct nn_module *layer, bool in_region)
{
    const struct run *r = n->run;
    uint32_t index;

    h->calls = NULL;
    h->writes = false;
    if (!is_heard(n, layer->m) || layer->m->around)
        return false;
    index = index_of(layer->m->name);
    h->unit = layer->m;
    h->cache = sv_null();
    h->in_region = in_region;
    h->n = 0;
    h->key.n = 0;
    h->key.beyond = false;
    calls_key_add(&h->key, n->identity);
    calls_key_add(&h->key, n->layer_kinds ? n->layer_kinds[index] : 256 + (uint64_t)index);
    calls_key_add(&h->key, switches_of(r) | (in_region ? 256U : 0U) | (layer->eval ? 512U : 0U));
    calls_key_add(&h->key, looks_of(r, layer->m));
    return true;
}

enum { CONTENT_WORDS = 3 };

static void pack_content(struct content c, int64_t ret[CONTENT_WORDS])
{
    ret[0] = (int64_t)((uint64_t)c.kind | (uint64_t)c.n << 8 | (uint64_t)(uint16_t)c.dim << 24);
    ret[1] = calls_bits(c.c);
    ret[2] = calls_bits(c.skew);
}

static struct content unpack_content(const int64_t words[CONTENT_WORDS])
{
    uint64_t w = (uint64_t)words[0];

    return (struct content){(enum content_kind)(w & 0xff), (uint16_t)(w >> 8), (int16_t)(uint16_t)(w >> 24), calls_double(words[1]), calls_double(words[2])};
}

static void add_content(struct calls_key *k, struct content c)
{
    int64_t words[CONTENT_WORDS];

    pack_content(c, words);
    for (int i = 0; i < CONTENT_WORDS; i++)
        calls_key_add(k, (uint64_t)words[i]);
}

bool hearing_takes_tensor(struct natives *n, struct hearing *h, val v, struct content c)
{
    int at = 0;

    while (at < h->n && h->in[at] != v)
        at++;
    calls_key_add(&h->key, 64 + (uint64_t)at);
    if (at == CALLS_INPUTS)
        return false;
    if (at == h->n) {
        h->in[h->n++] = v;
        calls_key_value(&h->key, n->run, v);
    }
    add_content(&h->key, c);
    return true;
}

/* Keys and values, or states, of a layer that has stored none before: as hears(), stored() and store() of cache_utils.py tell. */
static bool takes_cache(struct natives *n, struct hearing *h, sv v)
{
    struct script *s = n->s;
    sv name = script_symbol(s, "hears"), index = sv_int(index_of(h->unit->name)), found = sv_null();
    bool has = !sv_ok(h->cache) && !h->in_region && h->n && v.tag & SV_OBJECT && !script_find(s, v, name, &found);
    int64_t kind = 0;

    sv_drop(s, found);
    found = has ? script_call_method(s, v, name, 1, &index) : sv_null();
    if (sv_ok(found))
        (void)script_int(s, found, &kind);
    sv_drop(s, found);
    script_forgive(s);
    calls_key_add(&h->key, (uint64_t)kind);
    h->cache = v;
    return kind != 0;
}

static bool takes(struct natives *n, struct hearing *h, sv v, unsigned depth)
{
    struct tensor *t;
    uint32_t items;
    const sv *item;

    calls_key_add(&h->key, v.tag & SV_OBJECT ? 32 : v.tag);
    switch (v.tag) {
    case SV_INT:
    case SV_BOOL:
        calls_key_add(&h->key, (uint64_t)v.i);
        return true;
    case SV_FLOAT:
        calls_key_add(&h->key, (uint64_t)calls_bits(v.f));
        return true;
    case SV_NULL:
    case SV_NONE:
        return true;
    default:
        break;
    }
    if (sv_is(v, KIND_STR)) {
        uint64_t hash = 7;

        for (const char *text = str_text(v, NULL); *text; text++)
            hash = mixed(hash, (unsigned char)*text);
        calls_key_add(&h->key, hash);
        return true;
    }
    if (sv_is(v, KIND_TUPLE) && depth < DEEPEST) {
        item = seq_items(v, &items);
        calls_key_add(&h->key, items);
        for (uint32_t i = 0; i < items && items <= ITEMS; i++)
            if (!takes(n, h, item[i], depth + 1))
                return false;
        return items <= ITEMS;
    }
    t = as_tensor(n->s, v);
    if (!t)
        return takes_cache(n, h, v);
    return t->run == n->run && !t->param && t->v && !t->mapped && hearing_takes_tensor(n, h, t->v, t->content);
}

bool hearing_takes(struct natives *n, struct hearing *h, sv v)
{
    return takes(n, h, v, 0);
}

bool hearing_takes_named(struct natives *n, struct hearing *h, sv name, sv v)
{
    return takes(n, h, name, DEEPEST) && takes(n, h, v, 0);
}

/* Where work may end within, it ends as it would by hand. */
static bool has_work(const struct natives *n, const struct calls *c)
{
    const struct budget *b = n->run->arena->budget;
    uint64_t needs = 4 * (calls_steps(c) + calls_count(c)) + (UINT64_C(1) << 16);

    return script_steps_left(n->s) > needs && (!b || (b->limit_events > b->events && b->limit_events - b->events > needs));
}

void hearing_begun(struct natives *n, struct hearing *h)
{
    if (h->key.beyond)
        return;
    h->left = script_steps_left(n->s);
    if (!calls_find(n->book, &h->key, &h->calls)) {
        n->by_hand = 0;
        h->writes = calls_begin(n->run, n->book, &h->key, h->unit, h->n, h->in);
    } else if (h->calls && !has_work(n, h->calls)) {
        h->calls = NULL;
    }
}

/* Tensors of which nothing is known but what core/torch knows, and what they contain. */
static bool is_telling(const struct natives *n, const struct tensor *t)
{
    return t && t->run == n->run && !t->param && t->v && !t->mapped && !t->rows;
}

static bool is_plain(const struct natives *n, const struct tensor *t)
{
    return is_telling(n, t) && t->content.kind == CONTENT_UNKNOWN;
}

/* ------------------------------------------------------------------------------------------------------------ by hand */
/* The class that a module has under its name, as "module:name". */
static sv class_told(struct script *s, char *text)
{
    char *name = strchr(text, ':');
    sv module, found = sv_null();

    if (!name)
        return sv_null();
    *name = 0;
    module = script_import(s, text);
    if (sv_ok(module) && script_find(s, module, script_symbol(s, name + 1), &found))
        found = sv_null();
    sv_drop(s, module);
    script_forgive(s);
    return found;
}

/* Into numbers, eight letters each. */
static bool tell_class(struct script *s, sv cls, struct hand *h)
{
    char text[8 * (HAND_NUMBERS / 2)] = {0}, again[sizeof text];
    sv module = script_get(s, cls, script_symbol(s, "__module__")), found;
    const char *from = sv_ok(module) ? str_text(module, NULL) : NULL;
    size_t words;
    bool same;

    sv_drop(s, module); /* the class keeps it */
    if (!from || snprintf(text, sizeof text, "%s:%s", from, cls_name(sv_as_class(cls))) >= (int)sizeof text)
        return false;
    words = strlen(text) / 8 + 1;
    if ((size_t)h->n_i + words > HAND_NUMBERS)
        return false;
    memcpy(again, text, sizeof text);
    found = class_told(s, again);
    same = sv_as_class(found) && sv_as_class(found) == sv_as_class(cls);
    sv_drop(s, found);
    memcpy(h->i + h->n_i, text, 8 * words);
    h->n_i += (int)words;
    return same;
}

enum { TUPLE_TOLD = SV_OBJECT | SV_COUNTED };

/* Sizes. */
static bool tell_tuple(sv v, struct hand *h)
{
    uint32_t n;
    const sv *item = seq_items(v, &n);

    if ((size_t)h->n_i + 2 + n > HAND_NUMBERS)
        return false;
    h->i[h->n_i++] = TUPLE_TOLD;
    h->i[h->n_i++] = n;
    for (uint32_t k = 0; k < n; k++) {
        if (item[k].tag != SV_INT)
            return false;
        h->i[h->n_i++] = item[k].i;
    }
    return true;
}

static sv tuple_told(struct script *s, const int64_t **i)
{
    uint32_t n = (uint32_t)*(*i)++;
    sv item[HAND_NUMBERS];

    for (uint32_t k = 0; k < n; k++)
        item[k] = sv_int(*(*i)++);
    return tuple_new(s, n, item);
}

/* Numbers: how many arguments, of each its tag and its value, of a tensor what it contains; the class. */
static bool tell(struct natives *n, struct hand *h, const struct script_args *a)
{
    h->i[h->n_i++] = a->n - 1;
    for (uint32_t i = 1; i < a->n; i++) {
        sv v = a->v[i];
        struct tensor *t = as_tensor(n->s, v);

        if (sv_is(v, KIND_TUPLE)) {
            if (!tell_tuple(v, h))
                return false;
            continue;
        }
        if (h->n == CALLS_INPUTS || h->n_i + 1 + CONTENT_WORDS > HAND_NUMBERS || (t ? !is_telling(n, t) : v.tag > SV_FLOAT))
            return false;
        h->i[h->n_i++] = t ? SV_OBJECT : v.tag;
        if (t) {
            h->v[h->n++] = t->v;
            pack_content(t->content, h->i + h->n_i);
            h->n_i += CONTENT_WORDS;
        } else {
            h->i[h->n_i++] = v.tag > SV_NONE ? v.i : 0;
        }
    }
    return !a->n_kw && tell_class(n->s, a->v[0], h);
}

void hand_begins(struct natives *n, struct hand *h, const struct script_args *a)
{
    h->n = h->n_i = 0;
    h->writer = NULL;
    h->book = n->book;
    h->left = script_steps_left(n->s);
    if (tell(n, h, a))
        h->writer = calls_hand_begins(n->run, h->n, h->v, h->n_i, h->i);
    else
        calls_unheard(n->run);
    n->book = NULL; /* one forward at a time */
}

void hand_ends(struct natives *n, struct hand *h, sv result)
{
    struct tensor *t = sv_ok(result) ? as_tensor(n->s, result) : NULL;

    n->book = h->book;
    n->by_hand += h->left - script_steps_left(n->s);
    if (!h->writer)
        return;
    calls_hand_ends(n->run, h->writer, h->n, h->v, is_telling(n, t) ? t->v : 0);
    if (sv_ok(result) && !is_telling(n, t))
        calls_give_up(n->run);
}

/* What hand_begins() told, of a run that asks again. */
static sv apply_again(struct natives *n, const val *v, const int64_t *i)
{
    sv args[1 + HAND_NUMBERS], result = sv_null();
    uint32_t n_args = (uint32_t)*i++;
    char text[8 * HAND_NUMBERS];
    bool ok = true;

    for (uint32_t k = 1; k <= n_args; k++) {
        uint32_t tag = (uint32_t)*i++;

        if (tag == TUPLE_TOLD) {
            args[k] = tuple_told(n->s, &i);
        } else if (tag & SV_OBJECT) {
            args[k] = natives_tensor(n, *v++);
            if (sv_ok(args[k]))
                as_tensor(n->s, args[k])->content = unpack_content(i);
            i += CONTENT_WORDS;
        } else {
            args[k] = (sv){.tag = tag, .i = *i++};
        }
        ok = ok && sv_ok(args[k]);
    }
    memcpy(text, i, 8 * (strlen((const char *)i) / 8 + 1));
    args[0] = class_told(n->s, text);
    if (ok && sv_as_class(args[0]))
        result = function_applied(n->s, &(struct script_args){.v = args, .n = n_args + 1});
    for (uint32_t k = 0; k <= n_args; k++)
        sv_drop(n->s, args[k]);
    return result;
}

static val by_hand(void *of, int n, const val *v, const int64_t *i)
{
    struct natives *host = of;
    struct calls_book *book = host->book;
    struct run *r = host->run;
    sv result;
    struct tensor *t;
    val out = 0;

    (void)n;
    host->book = NULL;
    result = apply_again(host, v, i);
    host->book = book;
    t = sv_ok(result) ? as_tensor(host->s, result) : NULL;
    if (t)
        value_ref(r, out = value_in(t));
    sv_drop(host->s, result);
    if (!t && r->stopped)
        script_forgive(host->s);
    else if (!t)
        natives_fail_run(host);
    return out;
}

/* ---------------------------------------------------------------------------------------------------------------- */
bool hearing_asks_again(struct natives *n, struct hearing *h, val ret[CALLS_RESULTS], uint32_t *form)
{
    if (!script_charge(n->s, calls_steps(h->calls)))
        return false;
    calls_again(n->run, h->calls, &(struct calls_host){by_hand, n}, h->unit, h->in, ret);
    *form = calls_form(h->calls);
    return !run_dead(n->run);
}

/* Behind its own results. */
static bool takes_stored(struct natives *n, const struct hearing *h, val *out, int *n_out)
{
    struct script *s = n->s;
    sv index = sv_int(index_of(h->unit->name)), stored = script_call_method(s, h->cache, script_symbol(s, "stored"), 1, &index);
    uint32_t items = 0;
    const sv *item = sv_ok(stored) ? seq_items(stored, &items) : NULL;
    bool ok = item && items + (uint32_t)*n_out <= CALLS_RESULTS;

    for (uint32_t i = 0; i < items && ok; i++) {
        ok = is_telling(n, as_tensor(s, item[i]));
        if (ok)
            out[(*n_out)++] = as_tensor(s, item[i])->v;
    }
    sv_drop(s, stored); /* the cache keeps them */
    return ok;
}

void hearing_ends(struct natives *n, struct hearing *h, sv result)
{
    struct run *r = n->run;
    uint64_t left = script_steps_left(n->s);
    val out[CALLS_RESULTS];
    uint32_t items = 0;
    const sv *item = sv_is(result, KIND_TUPLE) ? seq_items(result, &items) : NULL;
    int n_out = 0;
    bool ok = true;

    if (!r->calls)
        return;
    if (sv_ok(result) && !item) {
        ok = is_plain(n, as_tensor(n->s, result));
        out[n_out++] = ok ? as_tensor(n->s, result)->v : 0;
    }
    for (uint32_t i = 0; i < items && ok; i++) { /* a tensor first, None and tensors after it */
        ok = (sv_is_none(item[i]) && i) || (is_plain(n, as_tensor(n->s, item[i])) && n_out == (int)i && n_out < CALLS_RESULTS);
        if (ok && !sv_is_none(item[i]))
            out[n_out++] = as_tensor(n->s, item[i])->v;
    }
    if (ok && sv_ok(h->cache))
        ok = n_out == (items ? (int)items : 1) && takes_stored(n, h, out, &n_out);
    if (!ok || (item && !items) || items > CALLS_RESULTS || (!sv_ok(result) && !r->stopped) || left > h->left || h->left - left < n->by_hand)
        calls_give_up(r);
    else
        calls_end(r, n_out, out, items, h->left - left, n->by_hand);
}

static sv tensor_of(struct natives *n, val v)
{
    sv made = script_object(n->s, n->tensor);

    if (sv_ok(made)) {
        ((struct tensor *)(void *)made.o)->run = n->run;
        ((struct tensor *)(void *)made.o)->v = v;
    }
    return made;
}

/* What it was given first are the tokens' hidden states. */
static bool store(struct natives *n, const struct hearing *h, uint32_t k, const val *out)
{
    struct script *s = n->s;
    sv args[2 + CALLS_RESULTS] = {sv_int(index_of(h->unit->name)), sv_int(n->run->values[h->in[0]].size[1])}, done;
    uint32_t given = 2;
    bool ok = true;

    for (; k < CALLS_RESULTS && out[k]; k++) {
        args[given] = tensor_of(n, out[k]);
        ok = ok && sv_ok(args[given++]);
    }
    done = ok ? script_call_method(s, h->cache, script_symbol(s, "store"), given, args) : sv_null();
    for (uint32_t i = 2; i < given; i++)
        sv_drop(s, args[i]);
    ok = sv_ok(done);
    sv_drop(s, done);
    return ok;
}

static sv ask_again(struct script *s, struct natives *n, struct hearing *h)
{
    val out[CALLS_RESULTS] = {0};
    sv made[CALLS_RESULTS] = {0};
    uint32_t form;

    if (!hearing_asks_again(n, h, out, &form))
        return script_failed(s) ? sv_null() : run_failed(s, n->run);
    for (uint32_t i = 0; i < (form ? form : 1); i++) {
        made[i] = out[i] ? tensor_of(n, out[i]) : sv_none();
        if (!sv_ok(made[i]))
            return made[i];
    }
    if (sv_ok(h->cache) && !store(n, h, form ? form : 1, out))
        return sv_null();
    return form ? tuple_take(s, form, made) : made[0];
}

sv heard_forward(struct script *s, sv self, const struct script_args *a)
{
    struct natives *n = natives_of(s);
    struct hearing h;
    bool told = hearing_begins(n, &h, nn_of(self), false);
    sv result;

    for (uint32_t i = 0; i < a->n && told; i++)
        told = hearing_takes(n, &h, a->v[i]);
    for (uint32_t i = 0; i < a->n_kw && told; i++)
        told = hearing_takes_named(n, &h, a->names[i], a->kw[i]);
    if (told)
        hearing_begun(n, &h);
    if (h.calls)
        return ask_again(s, n, &h);
    result = script_call_method_args(s, self, n->forward, a);
    if (h.writes)
        hearing_ends(n, &h, result);
    return result;
}
