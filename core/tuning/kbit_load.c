/* kbit_load.c - the model on the device: a half tensor at a time, quantised as it comes; and the casts after. See kbit_load.h. */
#include "tuning/kbit_load.h"

#include "torch/autograd.h"
#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/bnb_inside.h"
#include "tuning/quantiser.h"

#include <string.h>

val kbit_kept(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    val v = owned(r, value_empty(r, op, dtype, ndim, size));

    if (v)
        mark_block(r, v, MARK_PARAMETER);
    return v;
}

void kbit_place(struct run *r, enum op op, struct param *p)
{
    p->value = kbit_kept(r, op, p->dtype, p->ndim, p->size);
}

bool kbit_comes_later(const struct param *p)
{
    return p->late || (p->owner && p->owner->original);
}

static bool is_loaded(const struct param *p)
{
    return !p->buffer && !kbit_comes_later(p) && !p->tied;
}

static void load_param(struct run *r, struct param *p, void *of)
{
    const struct quantiser *q = quantiser_that_packs(p);
    val *map = of;

    if (p->value || !is_loaded(p) || run_dead(r))
        return;
    run_owner(r, p->owner);
    if (q)
        q->pack(r, p, map);
    else
        kbit_place(r, OP_TO_COPY, p);
    run_owner(r, NULL);
}

/* --------------------------------------------------------------------------------------- in the order of core_model_loading.py */

static bool is_number(const char *s)
{
    return *s >= '0' && *s <= '9' && strspn(s, "0123456789") == strlen(s);
}

static uint64_t number_at(const char *s)
{
    uint64_t n = 0;

    while (*s >= '0' && *s <= '9')
        n = 10 * n + (uint64_t)(*s++ - '0');
    return n;
}

static size_t without_digits(const char *s)
{
    size_t n = strlen(s);

    while (n && s[n - 1] >= '0' && s[n - 1] <= '9')
        n--;
    return n;
}

/* dot_natural_key() of one part of a name: numbers by value before words; words by their letters, then by the number behind them */
static int by_part(const char *a, const char *b)
{
    size_t n = without_digits(a), k = without_digits(b);
    int order;

    if (is_number(a) != is_number(b))
        return is_number(a) ? -1 : 1;
    if (!is_number(a)) {
        order = strncmp(a, b, n < k ? n : k);
        if (order || n != k)
            return order ? order : n < k ? -1 : 1;
        if (!a[n] || !b[k])
            return (a[n] != 0) - (b[k] != 0);
    }
    return number_at(a + n) < number_at(b + k) ? -1 : number_at(a + n) > number_at(b + k);
}

static bool is_next(const char *name, const char *after, const char *best)
{
    return (!after || by_part(name, after) > 0) && (!best || by_part(name, best) < 0);
}

static void load_sorted(struct run *r, struct module *m, kbit_loader load, void *of)
{
    const char *after = NULL;

    for (;;) {
        const char *best = NULL;
        struct param *param = NULL;
        struct module *child = NULL;

        for (struct param *p = m->params; p; p = p->next)
            if (is_next(p->name, after, best)) {
                best = p->name;
                param = p;
            }
        for (struct module *c = m->first; c; c = c->next)
            if (is_next(c->name, after, best)) {
                best = c->name;
                param = NULL;
                child = c;
            }
        if (!best)
            return;
        if (param)
            load(r, param, of);
        else
            load_sorted(r, child, load, of);
        after = best;
    }
}

static void load_rest(struct run *r, struct module *m)
{
    for (struct param *p = m->params; p; p = p->next) {
        if (p->tied)
            p->value = p->tied->value;
        if (p->buffer && !p->value && !p->late && !run_dead(r)) {
            p->value = owned(r, value_empty(r, OP_EMPTY, p->dtype, p->ndim, p->size));
            mark_block(r, p->value, MARK_BUFFER);
        }
    }
    for (struct module *c = m->first; c; c = c->next)
        load_rest(r, c);
}

uint64_t kbit_share(const struct run *r, const struct module *m, uint64_t bytes)
{
    bool shared = r->load_ranks > 1 && (m->planned || r->load_shares_all);

    return shared ? bytes / r->load_ranks : bytes;
}

struct warming {
    const struct run *r;
    uint64_t bytes;
};

static void add_bytes(void *context, struct module *m, struct param *p)
{
    struct warming *w = context;
    uint64_t n = (uint64_t)param_numel(p);

    if (!kbit_comes_later(p) && !p->tied && p->stands_for >= 0)
        w->bytes += kbit_share(w->r, m, bnb_is_int8(m) && p == m->weight ? n : n * dtype_bytes(p->dtype));
}

/* caching_allocator_warmup(): one block as large as the model, so that the allocator need not ask for many */
static void warm_up(struct run *r, const struct tree *t)
{
    struct warming w = {.r = r};
    uint64_t bytes, spared = (uint64_t)12 << 30;

    params_visit(t->root, add_bytes, &w);
    bytes = w.bytes;
    spared /= 10; /* 1.2 GiB */
    if (r->device.usable_bytes > spared && bytes > r->device.usable_bytes - spared)
        bytes = r->device.usable_bytes - spared;
    scratch(r, OP_EMPTY, bytes / 2 * 2);
}

static bool holds_tensors(const struct tree *t)
{
    for (uint32_t i = 1; i < t->n_modules; i++)
        if (bnb_holds_tensors(t->modules[i]))
            return true;
    return false;
}

void kbit_load(struct run *r, struct tree *t)
{
    val map = 0;

    if (r->q->bnb_loads_by_name)
        kbit_load_by_name(r, t, load_param, &map);
    else if (kbit_load_shards(r, t, KBIT_ON_DEVICE, &map))
        load_rest(r, t->root);
    else
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
}

void kbit_load_by_name(struct run *r, struct tree *t, kbit_loader load, void *of)
{
    if (r->q->bnb_loads_by_name && !holds_tensors(t)) /* axolotl 0.19.0 monkeypatch/moe_quant.py: caching_allocator_warmup does nothing */
        warm_up(r, t);
    load_sorted(r, t->root, load, of);
    load_rest(r, t->root);
}

/* ------------------------------------------------------------------------------------------------------------------ casts after */

static void cast_param(struct run *r, struct param *p, enum dtype dtype)
{
    val old = p->value;

    p->value = kbit_kept(r, OP_TO_COPY, dtype, p->ndim, p->size);
    p->dtype = dtype;
    value_unref(r, old);
}

static void cast_half(void *context, struct module *m, struct param *p)
{
    struct run *r = context;
    bool half;

    (void)m;
    if (!p->value || p->late || p->tied || run_dead(r) || bnb_packs(p))
        return;
    half = dtype_of(r, p->value) == DTYPE_BF16 || dtype_of(r, p->value) == DTYPE_FP16;
    if (half)
        cast_param(r, p, DTYPE_FP32);
}

/* Whoever shares a parameter. */
static void share(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    if (p->tied)
        p->value = p->tied->value;
}

void kbit_prepare_weights(struct run *r, struct tree *t)
{
    params_visit(t->root, cast_half, r);
    params_visit(t->root, share, NULL);
    if (r->q->kbit_empties_cache)
        empty_cache(r);
}

/* TRL's peft_module_casting_to_bf16(): by name */
static bool is_cast_back(const struct module *m)
{
    static const char *const names[] = {"lm_head", "embed_tokens", "wte", "wpe"};

    for (; m; m = m->parent)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (m->name && strstr(m->name, names[i]))
                return true;
    return false;
}

void kbit_cast_back(struct run *r, struct tree *t)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct param *p = m->weight && m->weight->tied ? m->weight->tied : m->weight;

        if (p && p->value && is_cast_back(m) && dtype_of(r, p->value) == DTYPE_FP32 && !run_dead(r)) { /* module.to(): its bias too */
            cast_param(r, p, DTYPE_BF16);
            if (m->bias && m->bias->value && dtype_of(r, m->bias->value) == DTYPE_FP32)
                cast_param(r, m->bias, DTYPE_BF16);
        }
        if (m->weight && m->weight->tied)
            m->weight->value = p->value;
    }
}

/* loaders/utils.py get_linear_embedding_layers */
static bool is_embedding(const char *path, const char *model_type)
{
    static const struct {
        const char *model_type, *names[2];
    } others[] = {{"gpt_neox", {"embed_in", "embed_out"}},
                  {"falcon", {"word_embeddings", "lm_head"}},
                  {"nemotron_h", {"embeddings", "lm_head"}}};
    static const char *const usual[] = {"embed_tokens", "lm_head"};
    const char *const *names = usual;

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(others[i].model_type, model_type))
            names = others[i].names;
    return strstr(path, names[0]) || strstr(path, names[1]);
}

static bool ends_in_gate(const char *path)
{
    size_t n = strlen(path);

    return n > 5 && !strcmp(path + n - 5, ".gate");
}

/* module.to(): nothing where it is of that dtype already */
static void cast_module(struct run *r, struct module *m, enum dtype dtype)
{
    for (struct param *p = m->params; p; p = p->next) {
        struct param *own = p->tied ? p->tied : p;

        if (own->value && !own->buffer && !own->late && dtype_is_float(dtype_of(r, own->value)) && dtype_of(r, own->value) != dtype &&
            !run_dead(r))
            cast_param(r, own, dtype);
        p->value = own->value;
    }
}

/* _convert_embedding_modules_dtype(): which modules it casts, routers only on the way up */
static bool axolotl_casts(const struct module *m, const char *path, const char *model_type, bool gates)
{
    return strstr(path, "norm") || (gates && ends_in_gate(path)) || (m->weight && is_embedding(path, model_type));
}

static void cast_named(struct run *r, struct tree *t, const char *model_type, enum dtype dtype, bool gates)
{
    char buf[256];

    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];

        if (axolotl_casts(m, module_path(t, m->number, buf, sizeof buf), model_type, gates))
            cast_module(r, m, dtype);
    }
}

/* module.to(): what is below a module comes along, and its buffers. */
static void declare_wide(struct module *m)
{
    for (struct module *c = m->first; c; c = c->next)
        declare_wide(c);
    for (struct param *p = m->params; p; p = p->next) {
        struct param *own = p->tied ? p->tied : p;

        if (!own->late && (own->dtype == DTYPE_BF16 || own->dtype == DTYPE_FP16))
            own->dtype = p->dtype = DTYPE_FP32;
    }
}

void kbit_cast_as_axolotl(struct tree *t, const char *model_type, bool keeps_wide)
{
    char buf[256];

    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        const char *path = module_path(t, m->number, buf, sizeof buf);

        if (keeps_wide ? axolotl_casts(m, path, model_type, true) : ends_in_gate(path) && !axolotl_casts(m, path, model_type, false))
            declare_wide(m);
    }
}

void kbit_prepare_as_axolotl(struct run *r, struct tree *t, const char *model_type, bool packs_experts)
{
    cast_named(r, t, model_type, DTYPE_FP32, true);
    if (!packs_experts)
        kbit_prepare_weights(r, t);
    cast_named(r, t, model_type, t->dtype, false);
    params_visit(t->root, share, NULL);
}

/* ------------------------------------------------------------------------------------------------------------------ by the host */
static void cast_on_host(void *context, struct module *m, struct param *p)
{
    const enum kbit_casts *casts = context;
    bool half = p->dtype == DTYPE_BF16 || p->dtype == DTYPE_FP16;

    if (!half || p->value || p->late || bnb_packs(p))
        return;
    p->dtype = *casts == KBIT_CASTS_BACK && is_cast_back(m) ? DTYPE_BF16 : DTYPE_FP32;
}

void kbit_cast_on_host(struct tree *t, enum kbit_casts casts)
{
    if (casts)
        params_visit(t->root, cast_on_host, &casts);
}

static void move_module(struct run *r, struct module *m)
{
    for (struct module *c = m->first; c; c = c->next)
        move_module(r, c);
    for (int buffers = 0; buffers < 2; buffers++)
        for (struct param *p = m->params; p; p = p->next)
            if (p->buffer == (buffers == 1) && !p->value && !p->tied && !run_dead(r)) {
                run_owner(r, p->owner);
                p->value = owned(r, value_empty(r, OP_TO_COPY, p->dtype, p->ndim, p->size));
                run_owner(r, NULL);
                mark_block(r, p->value, p->buffer ? MARK_BUFFER : MARK_PARAMETER);
            }
}

void kbit_move_rest(struct run *r, struct tree *t)
{
    move_module(r, t->root);
    params_visit(t->root, share, NULL);
}

void kbit_load_by_host(struct run *r, struct tree *t, bool rest_on_host)
{
    val map = 0;

    if (!kbit_load_shards(r, t, rest_on_host ? KBIT_ON_HOST : KBIT_REST_ON_DEVICE, &map))
        run_fail(r, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
    else
        params_visit(t->root, share, NULL);
}
