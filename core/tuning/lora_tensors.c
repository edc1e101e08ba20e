/*
 * lora_tensors.c - LoRA on a tensor of a module, as experts are since transformers 5.
 *
 * While the module's forward runs, a parametrization stands in the place of each such tensor: what reads it first makes the sum of weight and product
 * of the adapters, which lives until forward returns, and as long as the graph wants it. Making the parametrization makes that sum once to look at it.
 * Source: peft tuners/lora/layer.py ParamWrapper (0.19 to 0.21), torch/nn/utils/parametrize.py.
 */
#include "torch/calls.h"
#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/lora_inside.h"
#include "tuning/targets.h"

#include <stdio.h>
#include <string.h>

/* Those of one module stand one in the other, the last outermost. */
struct wrapper {
    struct wrapper *inner;
    struct param *p;
    struct module *a, *b;
    bool scaled;      /* alpha over rank is not 1 */
    bool transposed;  /* [experts, in, out] */
    val left, right;  /* while forward runs: the factors; of a matrix, and before 0.21, `left` is their product */
    val sum;          /* what the weight reads as; 0: nobody has asked yet */
};

static bool has_experts(const struct wrapper *w)
{
    return w->p->ndim == 3;
}

/* --------------------------------------------------------------------------------------------------------------- forward */
/* [rank * experts, in] to [experts, rank, in] */
static val of_a(struct run *r, const struct wrapper *w)
{
    val a = w->a->weight->value;
    int64_t experts = w->p->size[0];

    return reshape(r, a, 3, (int64_t[]){experts, w->a->out / experts, w->a->in});
}

/* [out, rank * experts] to [experts, out, rank] */
static val of_b(struct run *r, const struct wrapper *w)
{
    int64_t experts = w->p->size[0];
    val b = reshape(r, w->b->weight->value, 3, (int64_t[]){w->b->out, w->b->in / experts, experts});

    return permute(r, b, 3, (int[]){2, 0, 1});
}

static void make_factors(struct run *r, struct wrapper *w)
{
    enum dtype dtype = dtype_of(r, w->p->value);
    val left = of_b(r, w), right = of_a(r, w);

    if (w->transposed) {
        val b = left;

        left = transpose(r, right, 1, 2);
        right = transpose(r, b, 1, 2);
    }
    w->left = owned(r, to_dtype(r, left, dtype));
    w->right = owned(r, to_dtype(r, right, dtype));
}

/* get_delta_weight(): of experts "o r e, e r i -> e o i" */
static void make_product(struct run *r, struct wrapper *w)
{
    val delta;

    if (!has_experts(w))
        delta = matmul(r, w->b->weight->value, w->a->weight->value);
    else if (w->transposed)
        delta = bmm(r, transpose(r, of_a(r, w), 1, 2), transpose(r, of_b(r, w), 1, 2));
    else
        delta = bmm(r, of_b(r, w), of_a(r, w));
    w->left = owned(r, to_dtype(r, mul_scalar(r, delta), dtype_of(r, w->p->value)));
}

static val sum_of(struct run *r, struct wrapper *w)
{
    bool autocast = r->autocast;
    val out;

    if (!w->right)
        return add(r, w->p->value, w->left);
    r->autocast = false;
    out = baddbmm(r, w->p->value, w->left, w->right, w->scaled);
    r->autocast = autocast;
    return out;
}

static val read_sum(struct run *r, struct param *p)
{
    struct wrapper *w = p->reads_of;

    if (!w->sum && !run_dead(r)) {
        p->reads = NULL; /* what is added to is the weight itself */
        w->sum = owned(r, sum_of(r, w));
        p->reads = read_sum;
    }
    return w->sum;
}

static void put_on(struct run *r, struct module *m)
{
    for (struct wrapper *w = m->around->of; w && !r->adapters_off && !run_dead(r); w = w->inner) {
        if (has_experts(w) && r->q->lora_folds_experts)
            make_factors(r, w);
        else
            make_product(r, w);
        consume(r, sum_of(r, w)); /* ParametrizationList: "Consistency checks" */
        w->p->reads_of = w;
        w->p->reads = read_sum;
    }
}

static void let_go(struct run *r, val *v)
{
    value_unref(r, *v); /* where a recomputation has enough, too */
    *v = 0;
}

static void take_off(struct run *r, struct module *m)
{
    for (struct wrapper *w = m->around->of; w; w = w->inner) {
        w->p->reads = NULL;
        let_go(r, &w->sum);
        let_go(r, &w->left);
        let_go(r, &w->right);
    }
}

/* ----------------------------------------------------------------------------------------------------------- declaration */
bool lora_names_expert(const struct lora_options *o, const char *leaf)
{
    for (const struct expert_names *e = o->experts; e && e->name; e++)
        if (!strcmp(e->name, leaf))
            return true;
    return false;
}

const struct expert_names *lora_experts(const struct quirks *q, const char *model_type)
{
    if (!q->lora_on_expert_tensors || q->experts_in_turn)
        return NULL;
    return targets_of_experts(q->maps_as_itself ? model_type : "qwen3_moe"); /* one of those that are converted so */
}

bool lora_means_tensor(const struct lora_options *o, const char *path)
{
    size_t n = strlen(path);

    for (uint32_t i = 0; i < o->n_parameters; i++) {
        size_t k = strlen(o->parameters[i]);

        if (n >= k && !strcmp(path + n - k, o->parameters[i]) && (n == k || path[n - k - 1] == '.'))
            return true;
    }
    return false;
}

/* How many of the names that this tensor once was are targets. */
static uint32_t asked_of(const char *module, const char *tensor, const struct lora_options *o, struct pattern_effort *effort, uint32_t *ret_all)
{
    char path[320];
    uint32_t n = 0;

    *ret_all = 0;
    for (const struct expert_names *e = o->experts; e && e->name; e++) {
        if (strcmp(e->tensor, tensor) != 0)
            continue;
        ++*ret_all;
        (void)snprintf(path, sizeof path, "%s.%s", module, e->name);
        n += o->all_linear || lora_means(o, path, effort);
    }
    return n;
}

/* A linear with no text of its own, a router that is one. */
static val adapted_linear(struct run *r, struct module *m, val x)
{
    struct frame f = frame_enter(r);
    val out;

    calls_unheard(r);
    (void)local(r, x);
    put_on(r, m);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    out = local(r, linear_op(r, x, m->weight->reads ? m->weight->reads(r, m->weight) : m->weight->value, m->bias ? m->bias->value : 0));
    take_off(r, m);
    return frame_leave(r, f, out);
}

static struct module_around *around_of(struct tree *t, struct module *m)
{
    if (!m->around && (m->around = arena_new(t->arena, struct module_around)) != NULL) {
        *m->around = (struct module_around){put_on, take_off, NULL};
        if (m->kind == MODULE_LINEAR)
            m->forward = adapted_linear;
    }
    return m->around;
}

static bool is_plain_linear(const struct module *m)
{
    module_forward plain = module_leaf_forward(MODULE_LINEAR);

    return m->kind == MODULE_LINEAR && !m->within && (m->forward == plain || m->forward == adapted_linear);
}

/* Of [experts, out, in] each expert has its share of the rank; of what was two tensors each has its rank. */
static void adapt_tensor(struct tree *t, struct module *m, struct param *p, uint32_t own_rank, bool scaled, const struct lora_options *o)
{
    bool many = p->ndim == 3;
    int64_t rank = (int64_t)own_rank * (many ? p->size[0] : 1);
    struct module *wraps = container(t, m, "parametrizations"), *at = container(t, wraps, p->name);
    struct wrapper *w = arena_new(t->arena, struct wrapper);
    struct module_around *around = around_of(t, m);

    if (!w || !around) {
        if (!t->error.code)
            (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for the adapters");
        return;
    }
    wraps->wraps_parent = true;
    *w = (struct wrapper){.inner = around->of, .p = p, .scaled = scaled, .transposed = p->transposed};
    w->a = lora_part(t, at, "lora_A", p->size[many && !p->transposed ? 2 : 1], rank, o);
    w->b = lora_part(t, at, "lora_B", rank, p->size[!many ? 0 : p->transposed ? 2 : 1], o);
    around->of = w;
}

/* route_tokens_to_experts() of the block reads self.gate.e_score_correction_bias, and self.gate is a ParamWrapper (traced, 5.4, 5.10) */
static bool is_read_through(const struct module *m, const struct lora_options *o)
{
    for (const struct param *p = m->params; p && !o->q->router_groups_itself; p = p->next)
        if (p->buffer && !strcmp(p->name, "e_score_correction_bias"))
            return true;
    return false;
}

/* NULL, or why peft has no adapter for it or we no forward. */
static const char *tensor_gap(const struct module *m, const struct param *p, const struct lora_options *o)
{
    if (o->tensors_gap)
        return o->tensors_gap;
    if (o->dropout > 0)
        return "peft adapts tensors of experts and routers for these names, and \"lora.ParamWrapper does not work with lora_dropout != 0\": dropout 0, or the "
               "linears of attention alone";
    if (o->dora)
        return "\"lora.ParamWrapper does not work with use_dora=True\", and peft adapts tensors of experts for these names: the linears of attention alone";
    if (bnb_holds_tensors(m))
        return "adapters of experts' tensors over quantised ones are not modelled yet: the linears of attention, or quantize_experts left out";
    if (m->kind != MODULE_CONTAINER && !is_plain_linear(m))
        return "target_parameters of an embedding, a norm, a linear that is quantised or has a text of its own are not modelled: target_modules";
    if (is_read_through(m, o))
        return "this release of transformers reads the router's e_score_correction_bias through the module that peft wraps: AttributeError. A later one, "
               "or the linears of attention alone";
    return p->ndim == 2 || p->ndim == 3 ? NULL : "peft adapts parameters of two or three dimensions alone";
}

static bool is_scaled(const struct lora_options *o, const char *path, uint32_t fused, struct pattern_effort *effort)
{
    double alpha = lora_alpha_of(o, path, fused, effort), rank = lora_rank_of(o, path, fused, effort);

    return alpha < rank || alpha > rank;
}

enum err_code lora_adapt_tensors(struct tree *t, struct module *m, const struct lora_options *o, struct pattern_effort *effort, uint32_t *n,
                                 struct err *err)
{
    char buf[256], path[320];
    const char *module = m->params ? module_path(t, m->number, buf, sizeof buf) : "";

    for (struct param *p = m->params; p; p = p->next) {
        bool router = !strcmp(p->name, "weight") && !strcmp(m->name, "gate");
        uint32_t all = 0, asked = p->buffer ? 0 : asked_of(module, router ? "gate.weight" : p->name, o, effort, &all);
        const char *gap;

        (void)snprintf(path, sizeof path, "%s.%s", module, p->name);
        if (p->buffer || (!asked && !lora_means_tensor(o, path)))
            continue;
        if (asked && asked < all)
            return err_set(err, ERR_FIELD_VALUE, "/training/lora/target_modules", "gate and up are one tensor of the experts: peft adapts both or none");
        gap = tensor_gap(m, p, o);
        if (gap)
            return err_set(err, ERR_FIELD_CONFLICT, asked ? "/training/lora/target_modules" : "/training/lora/target_parameters", "%s", gap);
        adapt_tensor(t, m, p, lora_rank_of(o, path, asked ? all : 1, effort), is_scaled(o, path, asked ? all : 1, effort), o);
        ++*n;
    }
    return ERR_OK;
}

static const struct wrapper *wrapper_at(const struct module *m, uint32_t k)
{
    const struct wrapper *w = m->around && m->around->enter == put_on ? m->around->of : NULL;
    uint32_t n = 0;

    for (const struct wrapper *i = w; i; i = i->inner)
        n += 2;
    if (k >= n)
        return NULL;
    for (uint32_t at = n / 2 - 1; at > k / 2; at--)
        w = w->inner;
    return w;
}

struct param *lora_tensor_part(const struct module *m, uint32_t k)
{
    const struct wrapper *w = wrapper_at(m, k);

    return w ? (k % 2 ? w->b : w->a)->weight : NULL;
}

const struct param *lora_tensor_base(const struct module *m, uint32_t k)
{
    return wrapper_at(m, k)->p;
}
