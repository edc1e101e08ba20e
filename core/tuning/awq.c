/* awq.c - WQLinear_GEMM: forward, and WQLinearMMFunction with its backward. See awq.h. */
#include "tuning/awq.h"

#include "torch/autograd.h"
#include "torch/function.h"
#include "torch/ops.h"

enum { GROUP = 128, PACKED = 8, UNPACKS_FROM = 1024, SPLITS = 8 };

struct awq_linear {
    int64_t in, out;
    struct function function; /* of every call: one input wants a gradient; what is saved is the node's */
};

/* awq_ext.dequantize_weights_cuda() */
static val unpacked(struct run *r, const struct awq_linear *l)
{
    val v = value_empty(r, OP_AWQ_DEQUANTIZE, DTYPE_FP16, SHAPE(l->in, l->out));
    uint64_t n = (uint64_t)(l->in * l->out);

    work_add(r, OP_AWQ_DEQUANTIZE, n, n / 2 + 2 * n, 1);
    return v;
}

/* grad_output.bmm(weights.transpose(0, 1).unsqueeze(0).repeat(batch_size, 1, 1)) */
static void backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    const struct awq_linear *l = ((const struct module *)of)->extra;
    enum dtype dtype = dtype_of(r, grad[0]);
    val weight = owned(r, unpacked(r, l)), each;

    (void)saved;
    if (run_dead(r))
        return;
    if (dtype != DTYPE_FP16) {
        val half = weight;

        weight = owned(r, cast_copy(r, half, dtype));
        value_unref(r, half);
    }
    each = owned(r, value_empty(r, OP_REPEAT, dtype, SHAPE(size_of(r, grad[0], 0), l->out, l->in)));
    ret[0] = run_dead(r) ? 0 : bmm(r, grad[0], each);
    value_unref(r, each);
    value_unref(r, weight);
}

/* gemm_forward_cuda(): a partial product for each of eight, which are summed */
static val few_rows(struct run *r, const struct awq_linear *l, val x)
{
    int64_t rows = numel(r, x) / l->in;
    val parts = owned(r, value_empty(r, OP_AWQ_GEMM, DTYPE_FP16, SHAPE(SPLITS, rows, l->out))), out;

    work_add(r, OP_AWQ_GEMM, (uint64_t)(2 * rows * l->in * l->out), (uint64_t)(l->in * l->out / 2 + 2 * rows * (l->in + l->out)), 1);
    out = run_dead(r) ? 0 : sum_dim(r, parts, 0, false);
    value_unref(r, parts);
    return out;
}

static val product(struct run *r, void *of, val x)
{
    const struct module *m = of;
    const struct awq_linear *l = m->extra;
    struct frame f = frame_enter(r);
    int64_t size[MAX_DIMS];
    int n = value_of(r, x)->ndim;
    val out;

    for (int i = 0; i < n; i++)
        size[i] = size_of(r, x, i);
    size[n - 1] = l->out;
    if (size[0] * size_of(r, x, 1) >= UNPACKS_FROM) {
        out = local(r, unpacked(r, l));
        rebind(r, &out, matmul(r, x, out));
    } else {
        out = local(r, few_rows(r, l, x));
    }
    if (m->bias && !run_dead(r))
        rebind(r, &out, add(r, out, m->bias->value));
    return frame_leave(r, f, run_dead(r) ? 0 : view_as(r, out, n, size));
}

static val awq_forward(struct run *r, struct module *m, val x)
{
    struct awq_linear *l = m->extra;
    struct frame f = frame_enter(r);
    enum dtype dtype;
    val out;

    x = local(r, x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    dtype = dtype_of(r, x);
    rebind(r, &x, to_dtype(r, x, DTYPE_FP16));
    l->function = (struct function){.backward = backward, .of = m};
    out = local(r, function_apply(r, "WQLinearMMFunctionBackward", &l->function, x, true, product));
    if (dtype != DTYPE_FP16 && !run_dead(r))
        rebind(r, &out, to_dtype(r, out, dtype));
    return frame_leave(r, f, run_dead(r) ? 0 : out);
}

bool awq_is_quantised(const struct module *m)
{
    return m->forward == awq_forward;
}

/* qweight in the weight's place, all of them buffers there */
static void pack(struct tree *t, struct module *m, const struct awq_linear *l)
{
    struct param *weight = m->weight;

    weight->name = "qweight";
    weight->stands_for = param_numel(weight);
    weight->dtype = DTYPE_INT32;
    weight->size[0] = l->in;
    weight->size[1] = l->out / PACKED;
    if (m->bias)
        m->bias->buffer = true;
    (void)buffer_add(t, m, "qzeros", DTYPE_INT32, 2, (const int64_t[]){l->in / GROUP, l->out / PACKED});
    (void)buffer_add(t, m, "scales", DTYPE_FP16, 2, (const int64_t[]){l->in / GROUP, l->out});
}

enum err_code awq_apply(struct tree *t, struct err *err)
{
    for (uint32_t i = 1; i < t->n_modules; i++) {
        struct module *m = t->modules[i];
        struct awq_linear *l;

        if (m->kind != MODULE_LINEAR || m == t->head || m->forward != module_leaf_forward(m->kind))
            continue;
        if (m->in % GROUP || m->out % PACKED)
            return err_set(err, ERR_FIELD_CONFLICT, "/training/quantization", "WQLinear_GEMM takes rows in groups of %d and columns in eights, not %lld x %lld",
                           GROUP, (long long)m->in, (long long)m->out);
        l = arena_new(t->arena, struct awq_linear);
        if (!l)
            return err_set(err, ERR_NOMEM, "", "the working memory of one request is too small for quantised weights");
        *l = (struct awq_linear){.in = m->in, .out = m->out};
        m->extra = l;
        m->forward = awq_forward;
        pack(t, m, l);
    }
    if (t->error.code)
        *err = t->error;
    return t->error.code;
}
