/* gptq.c - QuantLinear: forward, and QuantLinearFunction with its backward. See gptq.h. */
#include "tuning/gptq.h"

#include "torch/autograd.h"
#include "torch/function.h"
#include "torch/ops.h"

#include <string.h>

enum { WORD_BITS = 32 };

struct gptq_linear {
    int64_t in, out, groups, bits;
    enum dtype compute;
    struct function function; /* of every call: one input wants a gradient; what is saved lives anyway */
};

/* dequant248(): a half copy of the weight */
static val unpacked(struct run *r, const struct gptq_linear *l)
{
    val v = value_empty(r, OP_DEQUANTIZE_GPTQ, l->compute, SHAPE(l->in, l->out));
    uint64_t n = (uint64_t)(l->in * l->out);

    work_add(r, OP_DEQUANTIZE_GPTQ, n, n * (uint64_t)l->bits / 8 + n * dtype_bytes(l->compute), 1);
    return v;
}

/* quant_matmul_248(transpose=True) */
static void backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    val weight = owned(r, unpacked(r, of));

    (void)saved;
    if (run_dead(r))
        return;
    ret[0] = linear_op(r, grad[0], weight, 0);
    value_unref(r, weight);
}

static val product(struct run *r, void *of, val x)
{
    const struct gptq_linear *l = of;
    struct frame f = frame_enter(r);
    int64_t size[MAX_DIMS];
    int n = value_of(r, x)->ndim;
    val weight, out;

    for (int i = 0; i < n; i++)
        size[i] = size_of(r, x, i);
    size[n - 1] = l->out;
    x = local(r, view_as(r, x, SHAPE(numel(r, x) / l->in, l->in)));
    weight = local(r, unpacked(r, l));
    rebind(r, &x, to_dtype(r, x, l->compute)); /* autocast's */
    if (run_dead(r))
        return frame_leave(r, f, 0);
    out = local(r, matmul(r, x, weight));
    return frame_leave(r, f, run_dead(r) ? 0 : view_as(r, out, n, size));
}

static val gptq_forward(struct run *r, struct module *m, val x)
{
    struct gptq_linear *l = m->extra;
    struct frame f = frame_enter(r);
    val out;

    x = local(r, x);
    l->function = (struct function){.backward = backward, .of = l};
    out = function_apply(r, "QuantLinearFunctionBackward", &l->function, x, false, product);
    if (m->bias && !run_dead(r))
        out = add(r, out, m->bias->value);
    return frame_leave(r, f, run_dead(r) ? 0 : out);
}

bool gptq_is_quantised(const struct module *m)
{
    return m->forward == gptq_forward;
}

/* qweight in the weight's place, the rest behind it; the bias stays. */
static void pack(struct tree *t, struct module *m, const struct gptq_linear *l, bool as_parameters)
{
    int64_t rows = l->in / WORD_BITS * l->bits, zeros = l->out / WORD_BITS * l->bits, wide = 1;
    enum dtype dtype = DTYPE_INT32;
    struct param *weight = m->weight, *q;

    if (as_parameters) { /* view(torch_dtype) of int32 words */
        dtype = l->compute;
        wide = (int64_t)(dtype_bytes(DTYPE_INT32) / dtype_bytes(dtype));
    }
    weight->name = "qweight";
    weight->stands_for = param_numel(weight);
    weight->dtype = dtype;
    weight->size[0] = rows;
    weight->size[1] = l->out * wide;
    q = param_add(t, m, "qzeros", 2, (const int64_t[]){l->groups, zeros * wide});
    if (q) {
        q->dtype = dtype;
        q->stands_for = -1;
    }
    (void)buffer_add(t, m, "scales", l->compute, 2, (const int64_t[]){l->groups, l->out});
    (void)buffer_add(t, m, "g_idx", DTYPE_INT32, 1, &l->in);
}

/* auto_gptq 0.7.1 modeling/{mixtral,qwen2_moe}.py, gptqmodel 7.3.4 models/definitions: no list of layers has a router, whose outputs are few. */
static bool is_router(const struct module *m)
{
    return m->name && (!strcmp(m->name, "gate") || !strcmp(m->name, "router") || !strcmp(m->name, "shared_expert_gate"));
}

enum err_code gptq_apply(struct tree *t, const struct gptq_options *o, struct err *err)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct gptq_linear *l;

        if ((m->kind != MODULE_LINEAR && m->kind != MODULE_CONV1D) || m == t->head || is_router(m) || m->forward != module_leaf_forward(m->kind))
            continue;
        if (m->in % WORD_BITS || m->out % WORD_BITS)
            return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization", "QuantLinear takes widths that are multiples of 32, not %lld x %lld",
                           (long long)m->in, (long long)m->out);
        l = arena_new(t->arena, struct gptq_linear);
        if (!l)
            return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
        *l = (struct gptq_linear){
            .in = m->in,
            .out = m->out,
            .groups = (m->in + GPTQ_GROUP - 1) / GPTQ_GROUP,
            .bits = o->kind == KBIT_GPTQ8 ? 8 : 4,
            .compute = o->compute,
        };
        m->extra = l;
        m->forward = gptq_forward;
        pack(t, m, l, o->as_parameters);
    }
    if (t->error.code)
        *err = t->error;
    return t->error.code;
}
