#include "tuning/lora.h"

#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/lora_inside.h"
#include "tuning/quantiser.h"
#include "tuning/targets.h"

#include <stdio.h>
#include <string.h>

static val identity(struct run *r, struct module *m, val x)
{
    (void)r;
    (void)m;
    return x;
}

static val dropped(struct run *r, const struct adapter *l, val x)
{
    struct module *m = l->dropout ? l->dropout : l->identity;

    return m ? call(r, m, x) : x;
}

/* variants.py DoraLinearVariant.forward(); x and result are the caller's */
static val add_dora(struct run *r, const struct adapter *l, val x, val result)
{
    struct frame f = frame_enter(r);
    val thinned = l->dropout ? local(r, call(r, l->dropout, x)) : x, delta;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    delta = dora_call(r, l, thinned, l->dropout ? 0 : result);
    return frame_leave(r, f, run_dead(r) ? 0 : add(r, result, delta));
}

/* peft's _cast_input_dtype(x, lora_A.weight.dtype): a method that has not gathered the weight yet does so when it is asked; gathered weights may be half */
static val cast_for(struct run *r, const struct adapter *l, val x)
{
    module_read(r, l->a);
    return to_dtype(r, x, dtype_of(r, l->a->weight->value));
}

/* result = base(x); result = result + B(A(dropout(x.to(adapter)))) * scaling; result = result.to(dtype of base's result) */
static val lora_sum(struct run *r, struct module *m, val x, bool casts)
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
    if (casts)
        rebind(r, &input, cast_for(r, l, input));
    if (l->magnitude) {
        rebind(r, &result, add_dora(r, l, input, result));
    } else {
        delta = call(r, l->a, dropped(r, l, input));
        delta = mul_scalar(r, call(r, l->b, delta));
        rebind(r, &result, add(r, result, delta));
    }
    if (casts)
        rebind(r, &result, to_dtype(r, result, dtype));
    return frame_leave(r, f, result);
}

static val lora_forward(struct run *r, struct module *m, val x)
{
    return lora_sum(r, m, x, true);
}

/* hqq.py: under autocast nothing is cast */
static val lora_forward_hqq(struct run *r, struct module *m, val x)
{
    return lora_sum(r, m, x, !r->autocast);
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
        rebind(r, &input, cast_for(r, l, input));
    if (l->magnitude) {
        enum dtype dtype = dtype_of(r, result);

        rebind(r, &result, add_dora(r, l, input, result));
        if (!r->autocast)
            rebind(r, &result, to_dtype(r, result, dtype));
        return frame_leave(r, f, result);
    }
    delta = call(r, l->a, dropped(r, l, input));
    delta = local(r, mul_scalar(r, call(r, l->b, delta)));
    if (!r->autocast)
        rebind(r, &delta, to_dtype(r, delta, dtype_of(r, result)));
    rebind(r, &result, add(r, result, delta));
    return frame_leave(r, f, result);
}

/* gptq.py: under autocast nothing is cast; else, in releases that add in place, what is added is, later the sum.
 * awq.py casts what it adds to a sum of its own. */
static val lora_forward_packed(struct run *r, struct module *m, val x)
{
    const struct adapter *l = m->extra;
    struct frame f = frame_enter(r);
    const struct quantiser *q = quantiser_of(l->base);
    bool in_place = r->q->gptq_adds_in_place && q->adds_in_place;
    val input, result, delta;
    enum dtype dtype;

    input = local(r, x);
    result = local(r, call(r, l->base, input));
    if (run_dead(r) || r->adapters_off)
        return frame_leave(r, f, run_dead(r) ? 0 : result);
    dtype = dtype_of(r, result);
    if (!r->autocast)
        rebind(r, &input, cast_for(r, l, input));
    delta = local(r, call(r, l->b, call(r, l->a, dropped(r, l, input))));
    if ((in_place || q->casts_what_it_adds) && !r->autocast)
        rebind(r, &delta, to_dtype(r, delta, dtype));
    rebind(r, &delta, mul_scalar(r, delta));
    rebind(r, &result, in_place ? write_in_place(r, OP_ADD, result, delta) : add(r, result, delta));
    rebind(r, &result, to_dtype(r, result, dtype));
    return frame_leave(r, f, result);
}

struct module *lora_part(struct tree *t, struct module *m, const char *list, int64_t in, int64_t out, const struct lora_options *o)
{
    struct module *part = linear(t, container(t, m, list), "default", in, out, false);

    if (!t->error.code) {
        part->weight->dtype = o->dtype;
        part->weight->requires_grad = true;
        part->weight->late = !o->on_host;
    }
    return part;
}

static struct module *magnitude(struct tree *t, struct module *m, const struct adapter *l, const struct lora_options *o)
{
    struct module *at = container(t, container(t, m, "lora_magnitude_vector"), "default");

    if (!t->error.code && !dora_declare(t, at, l))
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for the adapters");
    at->weight = param_add(t, at, "weight", 1, &m->out);
    if (!t->error.code) {
        at->weight->dtype = o->dtype;
        at->weight->requires_grad = true;
        at->weight->late = !o->on_host;
    }
    return at;
}

static val (*forward_over(const struct quantiser *q))(struct run *, struct module *, val)
{
    static val (*const forward[])(struct run *, struct module *, val) = {
        [ADAPTER_OF_LINEAR] = lora_forward, [ADAPTER_OF_BNB] = lora_forward_kbit, [ADAPTER_OF_PACKED] = lora_forward_packed,
        [ADAPTER_OF_HQQ] = lora_forward_hqq};

    return forward[q ? q->sum : ADAPTER_OF_LINEAR];
}

static void adapt(struct tree *t, struct module *m, uint32_t rank, const struct lora_options *o)
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
    if (o->dropout <= 0 && o->steps_modules) {
        l->identity = container(t, container(t, m, "lora_dropout"), "default");
        l->identity->forward = identity;
    }
    l->a = lora_part(t, m, "lora_A", m->in, rank, o);
    l->b = lora_part(t, m, "lora_B", rank, m->out, o);
    if (o->dora)
        l->magnitude = magnitude(t, m, l, o);
    l->packed = quantiser_of(base) != NULL;
    l->unpacked = bnb_is_quantised(base) && !bnb_is_int8(base) ? bnb_unpacked_first : NULL;
    m->kind = MODULE_CONTAINER;
    m->forward = forward_over(quantiser_of(base));
    m->weight = m->bias = NULL;
    m->params = m->last_param = NULL;
    m->extra = l;
    m->adapter = l;
}

static void freeze(void *context, struct module *m, struct param *p)
{
    (void)context;
    (void)m;
    p->requires_grad = false;
}

static bool is_original(const struct module *m)
{
    return m->parent && m->parent->original == m;
}

struct biases {
    bool adapted; /* of these alone */
};

/* tuners_utils.py _mark_only_adapters_as_trainable(); what modules_to_save leaves in its wrapper is frozen again */
static void train_bias(void *context, struct module *m, struct param *p)
{
    const struct biases *b = context;

    if (strcmp(p->name, "bias") != 0 || p->requires_grad || is_original(m))
        return;
    if (b->adapted && strcmp(m->name, "base_layer") != 0)
        return;
    p->requires_grad = true;
}

struct tying {
    const struct param *of;
    struct param *to;
};

/* A head that shares a saved embedding's weight keeps the one that stays. */
static void tie_to_original(void *context, struct module *m, struct param *p)
{
    const struct tying *tie = context;

    if (p->tied == tie->of && !is_original(m))
        p->tied = tie->to;
}

static struct module *original_of(struct tree *t, struct module *m)
{
    struct module *o = m->original ? m->original : container(t, m, "original_module");

    if (t->error.code || m->original)
        return o;
    if (m->forward == module_leaf_forward(m->kind)) {
        o->kind = m->kind;
        o->forward = m->forward;
        o->in = m->in;
        o->out = m->out;
        o->padding_idx = m->padding_idx;
    }
    return m->original = o;
}

static void save_param(void *context, struct module *m, struct param *p)
{
    struct tree *t = context;
    struct tying tying = {p, NULL};
    struct module *original;

    if (p->requires_grad || is_original(m))
        return;
    original = original_of(t, m);
    if (t->error.code)
        return;
    tying.to = param_add(t, original, p->name, p->ndim, p->size);
    p->requires_grad = true;
    if (t->error.code)
        return;
    if (p == m->weight)
        original->weight = tying.to;
    if (p == m->bias)
        original->bias = tying.to;
    if (p->tied) /* copy.deepcopy(): copies of one tensor are two */
        tie(tying.to, p->tied);
    else
        params_visit(t->root, tie_to_original, &tying);
    p->tied = NULL;
}

/* utils/other.py ModulesToSaveWrapper: a copy is trained beside what it is of, which stays. A name that nothing has is passed over (_set_trainable()). */
static void save_modules(struct tree *t, const struct lora_options *o, uint32_t declared)
{
    char buf[256];

    for (uint32_t i = 1; i < declared; i++) {
        struct module *m = t->modules[i];
        const char *path = module_path(t, m->number, buf, sizeof buf);

        if (!*path || !lora_saves(o, path))
            continue;
        params_visit(m, save_param, t);
    }
}

static enum err_code adapt_linear(struct tree *t, struct module *m, const struct lora_options *o, struct pattern_effort *effort, uint32_t *n, struct err *err)
{
    char buf[256];
    const char *path = module_path(t, m->number, buf, sizeof buf);

    if (!lora_adapts(t, m, path, o, effort))
        return ERR_OK;
    if (o->spares_mamba && (!strcmp(m->name, "out_proj") || !strcmp(m->name, "conv1d")))
        return err_set(err, ERR_FIELD_VALUE, "/training/lora/target_modules",
                       "peft raises for %.20s of a model of this type (tuners/tuners_utils.py, _check_lora_target_modules_mamba): name others", m->name);
    adapt(t, m, lora_rank_of(o, path, 1, effort), o);
    ++*n;
    return ERR_OK;
}

enum err_code lora_apply(struct tree *t, const struct lora_options *o, uint32_t *ret, struct err *err)
{
    uint32_t declared = t->n_modules, n = 0;
    struct pattern_effort effort = {0};
    enum err_code gap = lora_narrow_gap(o, err);

    if (gap)
        return gap;
    if (t->shares_modules)
        return err_set(err, ERR_FIELD_CONFLICT, "/training/tuning",
                       "adapters in a model whose modules stand in several places are not modelled: tuning full");
    params_visit(t->root, freeze, NULL);
    for (uint32_t i = 1; i < declared; i++) {
        enum err_code rc = adapt_linear(t, t->modules[i], o, &effort, &n, err);

        if (rc)
            return rc;
    }
    for (uint32_t i = 1; i < declared && (o->experts || o->n_parameters); i++) {
        enum err_code rc = lora_adapt_tensors(t, t->modules[i], o, &effort, &n, err);

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
        return err_set(err, ERR_FIELD_VALUE, "/training/lora/target_modules", "no %s of this model has such a name",
                       o->n_targets || !o->n_parameters ? "linear module" : "parameter");
    *ret = n;
    if (o->n_saved)
        save_modules(t, o, declared);
    if (o->bias)
        params_visit(t->root, train_bias, &(struct biases){.adapted = o->bias == LORA_BIAS_ADAPTED});
    return lora_count(t, &effort, err);
}

static bool is_adapted(const struct module *m)
{
    return m->forward == lora_forward || m->forward == lora_forward_kbit || m->forward == lora_forward_packed || m->forward == lora_forward_hqq;
}

/* What real adapters of a linear that is cut so raise; NULL: they run. */
static const char *split_gap(enum split split, const struct quirks *q)
{
    if (split == SPLIT_COLUMNS_GATHERED || split == SPLIT_ROWS_OF_WHOLE) /* tuners_utils.py _get_in_out_features: weight.to_local().shape */
        return "the plan of tensor parallelism gathers what goes into or comes out of %.40s, and peft makes its adapters as wide as a rank's part: "
               "RuntimeError (\"must match the size\", \"cannot be multiplied\"). Name linears that are cut by columns alone, or tuning full";
    if (split != SPLIT_COLUMNS && split != SPLIT_ROWS)
        return NULL;
    if (!q->lora_under_plans)
        return "peft before 0.18 makes adapters of %.40s as wide as the whole, where tensor parallelism leaves a rank a part: RuntimeError. stack.peft 0.21";
    if (q->lora_under_plans < 2)
        return NULL;
    if (!q->adapters_under_plans)
        return "peft 0.21 raises for %.40s, which tensor parallelism has cut: \"LoRA with DTensor tensor parallelism requires transformers >= 5.17.0\"";
    if (split == SPLIT_ROWS && q->rows_told_their_width)
        return "this release of transformers cuts the input of a linear by in_features, of which peft 0.21 tells the adapters of %.40s a rank's part: "
               "RuntimeError. stack.transformers 5.20, or q_proj, k_proj, v_proj, gate_proj, up_proj";
    return NULL;
}

static void split_adapter(struct adapter *l, const struct quirks *q)
{
    bool hooked = q->lora_under_plans > 1;

    if (l->base->split == SPLIT_COLUMNS)
        l->b->split = hooked ? SPLIT_COLUMNS : SPLIT_NARROW_OUT;
    if (l->base->split == SPLIT_ROWS)
        l->a->split = hooked ? SPLIT_ROWS : SPLIT_NARROW_IN;
}

enum err_code lora_split(struct tree *t, const struct quirks *q, struct err *err)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct adapter *l = is_adapted(m) ? m->extra : NULL;
        const char *gap = l ? split_gap((enum split)m->split, q) : NULL;

        if (gap)
            return err_set(err, ERR_FIELD_CONFLICT, "/training/lora/target_modules", gap, m->name);
        if (!l)
            continue;
        l->base->split = m->split;
        m->split = SPLIT_NONE;
        split_adapter(l, q);
    }
    return ERR_OK;
}

static val birth(struct run *r, const struct param *p, enum dtype dtype)
{
    val v = value_empty(r, OP_TO_COPY, dtype, p->ndim, p->size);

    if (v)
        r->values[v].floating = false;
    return v;
}

/* tuners_utils.py _move_adapter_to_device_of_base_layer, then cast_adapter_dtype */
static void give_birth(struct run *r, struct param *p, enum dtype made, int pass)
{
    val old = p->value;

    if (!p->late)
        return;
    if (!pass) {
        p->value = birth(r, p, made);
    } else if (p->dtype != made) {
        p->value = birth(r, p, p->dtype);
        value_unref(r, old);
    }
    if (pass)
        mark_block(r, p->value, MARK_PARAMETER);
}

/* What the base lies in by now: prepare_model_for_kbit_training() has cast what is not packed, some parameters stay in fp32. */
static enum dtype dtype_of_base(struct run *r, const struct tree *t, const struct param *p)
{
    const struct param *own = p->tied ? p->tied : p;

    return own->value ? dtype_of(r, own->value) : t->dtype;
}

static void materialise_linear(struct run *r, const struct tree *t, const struct adapter *l, int pass)
{
    const struct quantiser *q = quantiser_of(l->base);
    bool integers = bnb_is_quantised(l->base) && (bnb_is_int8(l->base) || !dtype_is_float(l->base->weight->dtype));
    bool in_fp32 = (integers && (bnb_is_int8(l->base) || !r->q->lora_takes_compute_dtype)) || (q && q->adapters_in_fp32);
    const struct param *base = l->base->weight;
    enum dtype made = in_fp32 ? DTYPE_FP32 : q ? t->dtype : dtype_of_base(r, t, l->base->weight);

    if (base && bnb_is_quantised(l->base) && !base->value) /* it waits on the host, and they with it */
        return;
    give_birth(r, l->a->weight, made, pass);
    give_birth(r, l->b->weight, made, pass);
    if (l->magnitude && !pass)
        dora_give_birth(r, l);
    else if (l->magnitude)
        give_birth(r, l->magnitude->weight, made, pass);
}

static void materialise_tensors(struct run *r, const struct tree *t, const struct module *m, int pass)
{
    struct param *p;

    for (uint32_t k = 0; (p = lora_tensor_part(m, k)) != NULL; k++)
        give_birth(r, p, dtype_of_base(r, t, lora_tensor_base(m, k)), pass);
}

static const struct param *same_of(const struct module *m, const struct param *of)
{
    for (const struct param *p = m->params; p; p = p->next)
        if (!strcmp(p->name, of->name))
            return p;
    return NULL;
}

/* utils/other.py ModulesToSaveWrapper.update(): copy.deepcopy() of what a quantised checkpoint brought; others came with the model. */
static void copy_saved(struct run *r, const struct tree *t, const struct module *m)
{
    for (struct param *p = m->original ? m->params : NULL; p && !run_dead(r); p = p->next) {
        const struct param *of = same_of(m->original, p), *own = of && of->tied ? of->tied : of;

        if (p->buffer || p->value || !own || !own->value)
            continue;
        p->dtype = dtype_of_base(r, t, of);
        p->value = birth(r, p, p->dtype);
        mark_block(r, p->value, MARK_PARAMETER);
    }
}

/* models/llama4/modeling_llama4.py Llama4Router; tuners/lora/layer.py Linear.forward reads the dtype of what its base returns */
static bool returns_pair(const struct module *m)
{
    return m->class_name && !strcmp(m->class_name, "Llama4Router");
}

/* Parameters are adapted once all modules are; what is cast goes by the tree. */
void lora_materialise(struct run *r, struct tree *t, const struct lora_options *o)
{
    (void)o;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 1; i < t->n_modules; i++) {
            if (is_adapted(t->modules[i]) && returns_pair(t->modules[i]))
                run_fail(r, ERR_FIELD_VALUE, "/training/lora/target_modules",
                         "means a router that returns two tensors, and peft raises in its first forward: AttributeError \"'tuple' object has no attribute "
                         "'dtype'\". Name linears of attention and of shared experts (transformers before 4.54 runs)");
            if (is_adapted(t->modules[i]))
                materialise_linear(r, t, t->modules[i]->extra, pass);
            if (pass)
                materialise_tensors(r, t, t->modules[i], pass);
        }
        for (uint32_t i = 1; i < t->n_modules && !pass; i++)
            materialise_tensors(r, t, t->modules[i], pass);
        for (uint32_t i = 1; i < t->n_modules && !pass; i++)
            copy_saved(r, t, t->modules[i]);
    }
}
