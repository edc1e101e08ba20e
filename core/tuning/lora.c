#include "tuning/lora.h"

#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/gptq.h"
#include "tuning/targets.h"

#include <stdio.h>
#include <string.h>

struct adapter {
    struct module *base, *dropout, *a, *b;
};

/* result = base(x); result = result + B(A(dropout(x.to(adapter)))) * scaling; result = result.to(dtype of base's result) */
static val lora_forward(struct run *r, struct module *m, val x)
{
    const struct adapter *l = m->extra;
    struct frame f = frame_enter(r);
    val input, result, delta;
    enum dtype dtype;

    input = local(r, x);
    result = local(r, call(r, l->base, input));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (r->adapters_off) /* tuners/lora/layer.py: disable_adapters */
        return frame_leave(r, f, result);
    dtype = dtype_of(r, result);
    rebind(r, &input, to_dtype(r, input, dtype_of(r, l->a->weight->value))); /* gathered weights may be half */
    delta = call(r, l->a, l->dropout ? call(r, l->dropout, input) : input);
    delta = mul_scalar(r, call(r, l->b, delta));
    rebind(r, &result, add(r, result, delta));
    rebind(r, &result, to_dtype(r, result, dtype));
    return frame_leave(r, f, result);
}

/* bnb.py: what Linear4bit returns is cloned first, what Linear8bitLt returns not; under autocast nothing is cast; else what is added is, and not the sum */
static val lora_forward_kbit(struct run *r, struct module *m, val x)
{
    const struct adapter *l = m->extra;
    struct frame f = frame_enter(r);
    val input, result, delta;

    input = local(r, x);
    result = local(r, call(r, l->base, input));
    if (r->adapters_off)
        return frame_leave(r, f, result);
    if (!bnb_is_int8(l->base))
        rebind(r, &result, clone(r, result));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (!r->autocast)
        rebind(r, &input, to_dtype(r, input, dtype_of(r, l->a->weight->value)));
    delta = call(r, l->a, l->dropout ? call(r, l->dropout, input) : input);
    delta = local(r, mul_scalar(r, call(r, l->b, delta)));
    if (!r->autocast)
        rebind(r, &delta, to_dtype(r, delta, dtype_of(r, result)));
    rebind(r, &result, add(r, result, delta));
    return frame_leave(r, f, result);
}

/* gptq.py: under autocast nothing is cast; else, in releases that add in place, what is added is, later the sum */
static val lora_forward_gptq(struct run *r, struct module *m, val x)
{
    const struct adapter *l = m->extra;
    struct frame f = frame_enter(r);
    bool in_place = r->q->gptq_adds_in_place;
    val input, result, delta;
    enum dtype dtype;

    input = local(r, x);
    result = local(r, call(r, l->base, input));
    if (run_dead(r) || r->adapters_off)
        return frame_leave(r, f, run_dead(r) ? 0 : result);
    dtype = dtype_of(r, result);
    if (!r->autocast)
        rebind(r, &input, to_dtype(r, input, dtype_of(r, l->a->weight->value)));
    delta = local(r, call(r, l->b, call(r, l->a, l->dropout ? call(r, l->dropout, input) : input)));
    if (in_place && !r->autocast)
        rebind(r, &delta, to_dtype(r, delta, dtype));
    rebind(r, &delta, mul_scalar(r, delta));
    rebind(r, &result, in_place ? write_in_place(r, OP_ADD, result, delta) : add(r, result, delta));
    rebind(r, &result, to_dtype(r, result, dtype));
    return frame_leave(r, f, result);
}

static bool names_expert(const struct lora_options *o, const char *leaf)
{
    for (const struct expert_names *e = o->experts; e && e->name; e++)
        if (!strcmp(e->name, leaf))
            return true;
    return false;
}

static bool is_saved(const struct tree *t, const struct module *m, const char *saved)
{
    size_t n;

    if (m->parent == t->root)
        for (const char *w = saved ? saved : ""; *w; w += n + (w[n] == ' ')) {
            n = strcspn(w, " ");
            if (strlen(m->name) == n && !memcmp(m->name, w, n))
                return true;
        }
    return false;
}

static bool matches(const struct tree *t, const struct module *m, const struct lora_options *o, struct pattern_effort *effort)
{
    char buf[256];

    if (m->kind != MODULE_LINEAR && m->kind != MODULE_CONV1D)
        return false;
    if (names_expert(o, m->name))
        return false;
    if (o->n_saved && lora_saves(o, module_path(t, m->number, buf, sizeof buf)))
        return false;
    if (o->all_linear)
        return m != t->head && !is_saved(t, m, o->saved);
    return lora_means(o, module_path(t, m->number, buf, sizeof buf), effort);
}

static struct module *adapter_part(struct tree *t, struct module *m, const char *list, int64_t in, int64_t out,
                                   const struct lora_options *o)
{
    struct module *part = linear(t, container(t, m, list), "default", in, out, false);

    if (!t->error.code) {
        part->weight->dtype = o->dtype;
        part->weight->requires_grad = true;
        part->weight->late = !o->on_host;
    }
    return part;
}

static void adapt(struct tree *t, struct module *m, const struct lora_options *o)
{
    struct adapter *l = arena_new(t->arena, struct adapter);
    struct module *base = container(t, m, "base_layer");

    if (!l || t->error.code) {
        if (!t->error.code)
            (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for the adapters");
        return;
    }
    base->kind = m->kind; /* the node's own parameters move to the base layer */
    base->forward = m->forward;
    base->extra = m->extra;
    base->in = m->in;
    base->out = m->out;
    base->weight = m->weight;
    base->bias = m->bias;
    base->params = m->params;
    base->last_param = m->last_param;
    for (struct param *p = base->params; p; p = p->next)
        p->owner = base;
    l->base = base;
    if (o->dropout > 0)
        l->dropout = dropout_module(t, container(t, m, "lora_dropout"), "default", o->dropout);
    l->a = adapter_part(t, m, "lora_A", m->in, o->rank, o);
    l->b = adapter_part(t, m, "lora_B", o->rank, m->out, o);
    m->kind = MODULE_CONTAINER;
    m->forward = bnb_is_quantised(base) ? lora_forward_kbit : gptq_is_quantised(base) ? lora_forward_gptq : lora_forward;
    m->weight = m->bias = NULL;
    m->params = m->last_param = NULL;
    m->extra = l;
}

/* How many of the names that this tensor once was are targets. */
static uint32_t asked_of(const struct tree *t, const struct module *m, const char *tensor, const struct lora_options *o, struct pattern_effort *effort,
                         uint32_t *ret_all)
{
    char buf[256], path[320];
    uint32_t n = 0;

    *ret_all = 0;
    for (const struct expert_names *e = o->experts; e && e->name; e++) {
        if (strcmp(e->tensor, tensor) != 0)
            continue;
        ++*ret_all;
        (void)snprintf(path, sizeof path, "%s.%s", module_path(t, m->number, buf, sizeof buf), e->name);
        n += o->all_linear || lora_means(o, path, effort);
    }
    return n;
}

/* LoRA on a tensor of a module, tuners/lora/layer.py ParamWrapper: of [experts, out, in] each expert has its share of the rank. */
static void adapt_tensor(struct tree *t, struct module *m, const struct param *p, uint32_t fused, const struct lora_options *o)
{
    bool many = p->ndim == 3;
    int64_t rank = (int64_t)o->rank * fused * (many ? p->size[0] : 1);
    struct module *at = container(t, container(t, m, "parametrizations"), p->name);

    (void)adapter_part(t, at, "lora_A", p->size[many ? 2 : 1], rank, o);
    (void)adapter_part(t, at, "lora_B", rank, p->size[many ? 1 : 0], o);
}

static enum err_code adapt_tensors(struct tree *t, struct module *m, const struct lora_options *o, struct pattern_effort *effort, uint32_t *n, struct err *err)
{
    for (struct param *p = m->params; p; p = p->next) {
        bool router = !strcmp(p->name, "weight") && !strcmp(m->name, "gate") && m->kind != MODULE_LINEAR;
        uint32_t all, asked = p->buffer ? 0 : asked_of(t, m, router ? "gate.weight" : p->name, o, effort, &all);

        if (!asked)
            continue;
        if (asked < all)
            return err_set(err, ERR_FIELD_VALUE, "/training/lora/target_modules", "gate and up are one tensor of the experts: peft adapts both or none");
        if (!o->counts_only)
            return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/target_modules",
                           "peft adapts tensors of the experts and routers for these names; that is not modelled: name the linears of attention alone");
        adapt_tensor(t, m, p, all, o);
        ++*n;
    }
    return ERR_OK;
}

static void freeze(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    p->requires_grad = false;
}

static void save_param(void *context, struct module *m, struct param *p)
{
    struct tree *t = context;
    char name[64];

    if (p->requires_grad || p->tied || !strncmp(p->name, "original_module.", 16))
        return;
    (void)snprintf(name, sizeof name, "original_module.%.40s", p->name);
    (void)param_add(t, m, arena_str(t->arena, name, strlen(name)), p->ndim, p->size);
    p->requires_grad = true;
}

/* utils/other.py ModulesToSaveWrapper: a copy is trained beside what it is of, which stays. */
static enum err_code save_modules(struct tree *t, const struct lora_options *o, uint32_t declared, struct err *err)
{
    char buf[256];
    uint32_t n = 0;

    if (t->head && t->head->weight && t->head->weight->tied)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/modules_to_save",
                       "modules_to_save of a model whose head is tied to its embeddings is not modelled: their copies part");
    for (uint32_t i = 1; i < declared; i++) {
        struct module *m = t->modules[i];
        const char *path = module_path(t, m->number, buf, sizeof buf);

        if (!*path || !lora_saves(o, path))
            continue;
        params_visit(m, save_param, t);
        n++;
    }
    return n ? ERR_OK : err_set(err, ERR_FIELD_VALUE, "/training/lora/modules_to_save", "no module of this model has such a name");
}

enum err_code lora_apply(struct tree *t, const struct lora_options *o, uint32_t *ret, struct err *err)
{
    uint32_t declared = t->n_modules, n = 0;
    struct pattern_effort effort = {0};

    if (t->shares_modules)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/tuning",
                       "adapters in a model whose modules stand in several places are not modelled: tuning full");
    params_visit(t->root, freeze, NULL);
    for (uint32_t i = 1; i < declared; i++)
        if (matches(t, t->modules[i], o, &effort)) {
            adapt(t, t->modules[i], o);
            n++;
        }
    for (uint32_t i = 1; i < declared && o->experts; i++) {
        enum err_code rc = adapt_tensors(t, t->modules[i], o, &effort, &n, err);

        if (rc)
            return rc;
    }
    if (t->error.code) {
        *err = t->error;
        return t->error.code;
    }
    if (effort.exhausted)
        return err_set(err, ERR_FIELD_VALUE, "/training/lora/target_modules", "takes too many steps to match a module's name");
    if (!n)
        return err_set(err, ERR_FIELD_VALUE, "/training/lora/target_modules", "no linear module of this model has such a name");
    *ret = n;
    if (o->n_saved) {
        enum err_code rc = save_modules(t, o, declared, err);

        if (rc)
            return rc;
    }
    return lora_count(t, &effort, err);
}

static bool is_adapted(const struct module *m)
{
    return m->forward == lora_forward || m->forward == lora_forward_kbit || m->forward == lora_forward_gptq;
}

static val birth(struct run *r, const struct param *p, enum dtype dtype)
{
    val v = value_empty(r, OP_TO_COPY, dtype, p->ndim, p->size);

    if (v)
        r->values[v].floating = false;
    return v;
}

void lora_materialise(struct run *r, struct tree *t, const struct lora_options *o)
{
    (void)o;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 1; i < t->n_modules; i++) {
            const struct adapter *l = is_adapted(t->modules[i]) ? t->modules[i]->extra : NULL;

            bool integers = l && bnb_is_quantised(l->base) && (bnb_is_int8(l->base) || !dtype_is_float(l->base->weight->dtype));
            bool packed = l && ((integers && (bnb_is_int8(l->base) || !r->q->lora_takes_compute_dtype)) || gptq_is_quantised(l->base));
            enum dtype made = packed ? DTYPE_FP32 : t->dtype; /* integers are no dtype that adapters could take over */

            for (int k = 0; l && k < 2; k++) {
                struct param *p = (k ? l->b : l->a)->weight;
                val old = p->value;

                if (!p->late)
                    continue;
                if (!pass) {
                    p->value = birth(r, p, made);
                } else if (p->dtype != made) {
                    p->value = birth(r, p, p->dtype);
                    value_unref(r, old);
                }
                if (pass)
                    mark_block(r, p->value, MARK_PARAMETER);
            }
        }
}
