/* bnb_load.c - the model on the device: a half tensor at a time, quantised as it comes; and the casts after. See bnb.h. */
#include "torch/autograd.h"
#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/bnb_inside.h"

#include <string.h>

static val kept(struct run *r, enum op op, enum dtype dtype, int ndim, const int64_t *size)
{
    val v = owned(r, value_empty(r, op, dtype, ndim, size));

    if (v)
        mark_block(r, v, MARK_PARAMETER);
    return v;
}

/* ------------------------------------------------------------------------------------------------- one tensor comes to the device */

/* get_4bit_type(): data.div_(data.abs().max()) */
static val code_of_4bit(struct run *r)
{
    val code = kept(r, OP_TO_COPY, DTYPE_FP32, SHAPE(BNB_CODE));
    val magnitude = owned(r, value_empty(r, OP_ABS, DTYPE_FP32, SHAPE(BNB_CODE)));
    val most = owned(r, value_empty(r, OP_MAX, DTYPE_FP32, 0, NULL));

    value_unref(r, magnitude);
    value_unref(r, most);
    return code;
}

/* quantize_blockwise(absmax - offset): the map is made once and copied for each weight */
static void quantise_scales(struct run *r, struct bnb_linear *l, val *absmax, val *map)
{
    int64_t blocks = (l->blocks + BNB_NESTED_BLOCK - 1) / BNB_NESTED_BLOCK;
    val centred, packed;

    l->offset = kept(r, OP_MEAN, DTYPE_FP32, 0, NULL);
    centred = owned(r, value_empty(r, OP_SUB, DTYPE_FP32, SHAPE(l->blocks)));
    if (!*map)
        *map = kept(r, OP_TO_COPY, DTYPE_FP32, SHAPE(BNB_NESTED_CODE));
    l->nested_absmax = kept(r, OP_QUANTIZE_BLOCKWISE, DTYPE_FP32, SHAPE(blocks));
    packed = kept(r, OP_QUANTIZE_BLOCKWISE, DTYPE_UINT8, SHAPE(l->blocks));
    l->nested_code = kept(r, OP_TO_COPY, DTYPE_FP32, SHAPE(BNB_NESTED_CODE));
    value_unref(r, centred);
    value_unref(r, *absmax);
    *absmax = packed;
}

/* Int8Params.to(device): rows of fp16; what is laid out otherwise or of another dtype is copied */
static val quantise_int8(struct run *r, struct bnb_linear *l, const struct param *p)
{
    val half = owned(r, value_empty(r, OP_TO_COPY, l->dtype, p->ndim, p->size));
    val laid_out = l->transposed ? owned(r, value_empty(r, OP_CLONE, l->dtype, p->ndim, p->size)) : 0;
    val fp16 = l->dtype == DTYPE_FP16 ? 0 : owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP16, p->ndim, p->size)), packed;

    if (fp16) {
        value_unref(r, laid_out);
        laid_out = fp16;
    }
    l->absmax = kept(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(l->out));
    packed = kept(r, OP_INT8_QUANT, DTYPE_UINT8, SHAPE(l->out, l->in));
    value_unref(r, laid_out);
    value_unref(r, half);
    return packed;
}

/* Params4bit.to(device); of Conv1D a transpose, which is laid out anew */
static val quantise(struct run *r, struct bnb_linear *l, const struct param *p, val *map)
{
    val half = owned(r, value_empty(r, OP_TO_COPY, l->dtype, SHAPE(l->out, l->in)));
    val laid_out = l->transposed ? owned(r, value_empty(r, OP_CLONE, l->dtype, SHAPE(l->out, l->in))) : 0;
    val packed;

    l->absmax = kept(r, OP_QUANTIZE_4BIT, DTYPE_FP32, SHAPE(l->blocks));
    packed = kept(r, OP_QUANTIZE_4BIT, p->dtype, p->ndim, p->size);
    value_unref(r, laid_out);
    l->code = code_of_4bit(r);
    if (l->doubly)
        quantise_scales(r, l, &l->absmax, map);
    value_unref(r, half);
    return packed;
}

static void load_param(struct run *r, struct param *p, val *map)
{
    bool quantised = bnb_is_quantised(p->owner) && p == p->owner->weight;

    if (p->value || p->buffer || p->late || p->tied || run_dead(r))
        return;
    p->value = quantised ? bnb_is_int8(p->owner) ? quantise_int8(r, p->owner->extra, p) : quantise(r, p->owner->extra, p, map)
                         : kept(r, OP_TO_COPY, p->dtype, p->ndim, p->size);
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

static void load_sorted(struct run *r, struct module *m, val *map)
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
            load_param(r, param, map);
        else
            load_sorted(r, child, map);
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

static void add_bytes(void *context, struct module *m, struct param *p)
{
    uint64_t *bytes = context, n = (uint64_t)param_numel(p);

    if (!p->late && !p->tied)
        *bytes += bnb_is_int8(m) && p == m->weight ? n : n * dtype_bytes(p->dtype);
}

/* caching_allocator_warmup(): one block as large as the model, so that the allocator need not ask for many */
static void warm_up(struct run *r, const struct tree *t)
{
    uint64_t bytes = 0, spared = (uint64_t)12 << 30;

    params_visit(t->root, add_bytes, &bytes);
    spared /= 10; /* 1.2 GiB */
    if (r->device.usable_bytes > spared && bytes > r->device.usable_bytes - spared)
        bytes = r->device.usable_bytes - spared;
    scratch(r, OP_EMPTY, bytes / 2 * 2);
}

void bnb_load(struct run *r, struct tree *t)
{
    val map = 0;

    warm_up(r, t);
    load_sorted(r, t->root, &map);
    load_rest(r, t->root);
}

/* ------------------------------------------------------------------------------------------------------------------ casts after */

static void cast_param(struct run *r, struct param *p, enum dtype dtype)
{
    val old = p->value;

    p->value = kept(r, OP_TO_COPY, dtype, p->ndim, p->size);
    p->dtype = dtype;
    value_unref(r, old);
}

static void cast_half(void *context, struct module *m, struct param *p)
{
    struct run *r = context;
    bool half;

    if (!p->value || p->late || p->tied || run_dead(r) || (bnb_is_quantised(m) && p == m->weight))
        return;
    half = dtype_of(r, p->value) == DTYPE_BF16 || dtype_of(r, p->value) == DTYPE_FP16;
    if (half)
        cast_param(r, p, DTYPE_FP32);
}

void bnb_prepare(struct run *r, struct tree *t)
{
    params_visit(t->root, cast_half, r);
    load_rest(r, t->root); /* whoever shares a parameter */
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

void bnb_cast_back(struct run *r, struct tree *t)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct param *p = m->weight && m->weight->tied ? m->weight->tied : m->weight;

        if (p && p->value && is_cast_back(m) && dtype_of(r, p->value) == DTYPE_FP32 && !run_dead(r))
            cast_param(r, p, DTYPE_BF16);
        if (m->weight && m->weight->tied)
            m->weight->value = p->value;
    }
}
