/*
 * bnb_experts.c - tensors of experts in 4 or 8 bits, in whose place a parametrization stands. See bnb.h.
 *
 * Who reads one first while its module's forward runs makes the whole tensor, of 4 bits in half, of 8 in fp32; that lives until forward returns, and as long as
 * the graph wants it. Source: bitsandbytes 0.50.2 nn/parametrize.py replace_parameter_4bit, _register_parametrization_hooks, _ops.py int8_vectorwise_dequant;
 * axolotl 0.19.0 monkeypatch/moe_quant.py.
 */
#include "tuning/bnb.h"

#include "torch/autograd.h"
#include "torch/ops.h"
#include "tuning/bnb_inside.h"

#include <string.h>

struct packed_tensor {
    struct packed_tensor *next; /* of the same module */
    struct param *p;
    struct bnb_linear packed;
    int64_t size[PARAM_DIMS]; /* unpacked */
    int ndim;
    val whole; /* parametrize.py _cache; 0: nobody has asked yet */
};

/* A * stats.view(-1, 1) * (1 / 127) */
static val unpacked_rows(struct run *r, const struct packed_tensor *x)
{
    int64_t rows = x->packed.out, columns = x->packed.in;
    uint64_t n = (uint64_t)(rows * columns);
    val scaled = owned(r, value_empty(r, OP_MUL, DTYPE_FP32, SHAPE(rows, columns))), out, whole;

    work_add(r, OP_MUL, n, 5 * n, 1);
    out = owned(r, pointwise(r, OP_MUL, DTYPE_FP32, 1, &scaled));
    value_unref(r, scaled);
    whole = run_dead(r) ? 0 : owned(r, view_as(r, out, x->ndim, x->size));
    value_unref(r, out);
    return whole;
}

static val read_whole(struct run *r, struct param *p)
{
    struct packed_tensor *x = p->reads_of;
    bool grad_enabled = r->grad_enabled;

    if (x->whole || run_dead(r))
        return x->whole;
    r->grad_enabled = false;
    x->whole = x->packed.int8 ? unpacked_rows(r, x) : owned(r, bnb_unpacked(r, &x->packed, x->ndim, x->size));
    r->grad_enabled = grad_enabled;
    return x->whole;
}

static void put_on(struct run *r, struct module *m)
{
    (void)r;
    for (struct packed_tensor *x = m->around->of; x; x = x->next)
        x->p->reads = read_whole;
}

/* The hook that lets go runs after forward alone before 0.50, and axolotl's own of 8 bits so: a recomputation that stops within forward leaves the cache on for
 * good. */
static void take_off(struct run *r, struct module *m)
{
    const struct packed_tensor *first = m->around->of;

    if (r->stopped && first->packed.int8)
        run_fail(r, ERR_FIELD_CONFLICT, "/training/quantize_experts",
                 "axolotl's cache of experts that come back from 8 bits is never emptied once a recomputation stops within their forward "
                 "(monkeypatch/moe_quant.py, a hook without always_call): checkpoint_reentrant true, or a 4-bit kind");
    if (r->stopped && !first->packed.int8 && !r->q->bnb_always_lets_go)
        run_fail(
            r, ERR_FIELD_CONFLICT, "/stack/bitsandbytes",
            "before 0.50 the cache of dequantised experts is never emptied once a recomputation stops within their forward (bitsandbytes pull request "
            "1999): 0.50, or checkpoint_reentrant true");
    for (struct packed_tensor *x = m->around->of; x; x = x->next) {
        x->p->reads = NULL;
        value_unref(r, x->whole);
        x->whole = 0;
    }
}

bool bnb_holds_tensors(const struct module *m)
{
    return m->around && m->around->enter == put_on;
}

static struct packed_tensor *tensor_of(const struct param *p)
{
    for (struct packed_tensor *x = bnb_holds_tensors(p->owner) ? p->owner->around->of : NULL; x; x = x->next)
        if (x->p == p)
            return x;
    return NULL;
}

bool bnb_packs_tensor(const struct param *p)
{
    return tensor_of(p) != NULL;
}

void bnb_pack_tensor(struct run *r, struct param *p, val *map)
{
    struct packed_tensor *x = tensor_of(p);

    p->value = x->packed.int8 ? bnb_packed_rows(r, &x->packed, p) : bnb_packed(r, &x->packed, p, map);
    empty_cache(r);
}

/* ----------------------------------------------------------------------------------------------------------- declaration */
static bool says_expert(const char *path)
{
    static const char word[] = "expert";
    size_t n = sizeof word - 1;

    for (; *path; path++) {
        size_t k = 0;

        while (k < n && (path[k] | 0x20) == word[k]) /* in any case of letters */
            k++;
        if (k == n)
            return true;
    }
    return false;
}

static bool declare(struct tree *t, struct module *m, struct param *p, const struct bnb_options *o)
{
    struct packed_tensor *x = arena_new(t->arena, struct packed_tensor);
    int64_t n = param_numel(p);

    if (!m->around && (m->around = arena_new(t->arena, struct module_around)) != NULL)
        *m->around = (struct module_around){put_on, take_off, NULL};
    if (!x || !m->around)
        return false;
    *x = (struct packed_tensor){
        .next = m->around->of,
        .p = p,
        .packed = {.in = p->size[p->ndim - 1],
                   .blocks = (n + BNB_BLOCK - 1) / BNB_BLOCK,
                   .int8 = o->kind == KBIT_INT8,
                   .doubly = o->kind == KBIT_NF4_DQ,
                   .compute = o->compute,
                   .dtype = t->dtype},
        .ndim = p->ndim,
    };
    x->packed.out = n / x->packed.in;
    memcpy(x->size, p->size, sizeof x->size);
    if (x->packed.int8)
        p->dtype = DTYPE_UINT8; /* int8: as wide */
    else
        bnb_pack_words(p, DTYPE_UINT8);
    p->reads_of = x;
    m->around->of = x;
    return true;
}

enum err_code bnb_apply_to_experts(struct tree *t, const struct bnb_options *o, struct err *err)
{
    char buf[256];
    uint32_t n = 0;

    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        bool named = m->params && says_expert(module_path(t, m->number, buf, sizeof buf));

        for (struct param *p = m->params; p; p = p->next) {
            if (p->buffer || p->tied || p->ndim < 3 || bnb_is_quantised(m) || (!named && !says_expert(p->name)))
                continue;
            if (m->around && !bnb_holds_tensors(m))
                return err_set(err, ERR_FIELD_CONFLICT, "/training/quantize_experts",
                               "what stands around these experts has no model beside their dequantisation");
            if (!declare(t, m, p, o))
                return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
            n++;
        }
    }
    return n ? ERR_OK : err_set(err, ERR_FIELD_CONFLICT, "/training/quantize_experts", "this model has no experts in tensors: left out");
}
