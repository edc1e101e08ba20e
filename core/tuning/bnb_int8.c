/* bnb_int8.c - Linear8bitLt: forward, and MatMul8bitLt with its backward, where no input has an outlier. See bnb.h. */
#include "torch/autograd.h"
#include "torch/function.h"
#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/bnb_inside.h"

/* (A.abs() >= threshold).any(), of which the host waits to hear: no */
static void look_for_outliers(struct run *r, val half)
{
    int64_t rows = size_of(r, half, 0), columns = size_of(r, half, 1);
    val magnitude = owned(r, pointwise(r, OP_ABS, DTYPE_FP16, 1, &half));
    val outliers = owned(r, pointwise(r, OP_GE, DTYPE_BOOL, 1, &magnitude)), any;

    value_unref(r, magnitude);
    any = owned(r, value_empty(r, OP_ANY, DTYPE_BOOL, 0, NULL));
    work_add(r, OP_ANY, (uint64_t)(rows * columns), (uint64_t)(rows * columns), 1);
    reduce_scratch(r, OP_ANY, outliers, 3, 1);
    value_unref(r, any);
    value_unref(r, outliers);
}

/* F.int8_vectorwise_quant(A.to(torch.float16), threshold): rows and their largest values */
static void quantise_rows(struct run *r, val rows, val *codes, val *largest)
{
    int64_t m = size_of(r, rows, 0), k = size_of(r, rows, 1);
    val half = dtype_of(r, rows) == DTYPE_FP16 ? 0 : owned(r, cast_copy(r, rows, DTYPE_FP16));

    *largest = owned(r, value_empty(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(m)));
    *codes = owned(r, value_empty(r, OP_INT8_QUANT, DTYPE_UINT8, SHAPE(m, k)));
    work_add(r, OP_INT8_QUANT, (uint64_t)(m * k), (uint64_t)(3 * m * k), 1);
    if (!run_dead(r))
        look_for_outliers(r, half ? half : rows);
    value_unref(r, half);
}

/* cuBLASLt has no int8 product of rows whose length four does not divide: cuda/ops.py _int8_linear_matmul_impl of bitsandbytes 0.46 and 0.50 takes fp32's */
static void multiply_in_fp32(struct run *r, const struct bnb_linear *l, val codes)
{
    val rows = owned(r, cast_copy(r, codes, DTYPE_FP32)), weight = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, SHAPE(l->out, l->in)));
    val turned = owned(r, transpose(r, weight, 0, 1)), product, sums;

    product = run_dead(r) ? 0 : owned(r, matmul(r, rows, turned));
    value_unref(r, turned);
    value_unref(r, rows);
    value_unref(r, weight);
    sums = run_dead(r) ? 0 : owned(r, cast_copy(r, product, DTYPE_INT32));
    value_unref(r, product);
    value_unref(r, sums);
}

/* int8_scaled_mm: int32 products, scaled to fp16; a bias of another dtype is added in place; then the input's dtype */
static val scaled_product(struct run *r, const struct bnb_linear *l, val rows)
{
    int64_t m = size_of(r, rows, 0);
    enum dtype dtype = dtype_of(r, rows);
    val codes, largest, sums, half, out;

    quantise_rows(r, rows, &codes, &largest);
    sums = owned(r, value_empty(r, OP_INT8_MATMUL, DTYPE_INT32, SHAPE(m, l->out)));
    if (l->in % 4 && !run_dead(r))
        multiply_in_fp32(r, l, codes);
    else
        work_add(r, OP_INT8_MATMUL, (uint64_t)(2 * m * l->in * l->out), (uint64_t)(m * l->in + l->in * l->out + 4 * m * l->out), 1);
    half = out = owned(r, value_empty(r, OP_INT8_DEQUANT, DTYPE_FP16, SHAPE(m, l->out)));
    work_add(r, OP_INT8_DEQUANT, (uint64_t)(m * l->out), (uint64_t)(6 * m * l->out), 1);
    if (dtype != DTYPE_FP16 && !run_dead(r)) {
        out = owned(r, cast_copy(r, half, dtype));
        value_unref(r, half);
    }
    value_unref(r, sums);
    value_unref(r, codes);
    value_unref(r, largest);
    return out;
}

val bnb_gradient(struct run *r, val grad, val weight, const struct bnb_linear *l)
{
    int n = value_of(r, grad)->ndim;
    int64_t size[MAX_DIMS];
    val rows, product, out;

    for (int i = 0; i < n; i++)
        size[i] = size_of(r, grad, i);
    size[n - 1] = l->in;
    rows = owned(r, view_as(r, grad, SHAPE(numel(r, grad) / l->out, l->out)));
    product = run_dead(r) ? 0 : owned(r, matmul(r, rows, weight));
    out = run_dead(r) ? 0 : view_as(r, product, n, size);
    value_unref(r, product);
    value_unref(r, rows);
    return out;
}

void bnb_call_begin(struct run *r, struct bnb_linear *l, val x, val bias, bnb_backward *backward, struct bnb_call *ret)
{
    const val in[2] = {x, bias};

    *ret = (struct bnb_call){.context = bnb_context(r, l, backward), .grad_enabled = r->grad_enabled, .ndim = value_of(r, x)->ndim};
    if (!ret->context)
        return;
    ret->node = function_begin(r, "MatMul8bitLtBackward", bias ? 2 : 1, in, &ret->context->function);
    r->grad_enabled = false;
    for (int i = 0; i < ret->ndim; i++)
        ret->size[i] = size_of(r, x, i);
    ret->size[ret->ndim - 1] = l->out;
    ret->rows = owned(r, view_as(r, x, SHAPE(numel(r, x) / l->in, l->in)));
}

val bnb_call_end(struct run *r, const struct bnb_call *call, val out)
{
    r->grad_enabled = call->grad_enabled;
    if (!call->node) {
        value_unref(r, call->rows);
        bnb_context_end(r, call->context);
        return out;
    }
    call->context->kept = call->rows;
    function_results(r, call->node, run_dead(r) ? 0 : 1, &out);
    return out;
}

/* CB.to(dtype, copy=True).mul_(SCB / 127), then grad_output @ CB */
static void backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    struct bnb_context *c = of;
    const struct bnb_linear *l = c->linear;
    enum dtype dtype = dtype_of(r, c->kept);
    uint64_t n = (uint64_t)(l->in * l->out);
    val weight = owned(r, value_empty(r, OP_TO_COPY, dtype, SHAPE(l->out, l->in)));
    val scale = owned(r, value_empty(r, OP_MUL, DTYPE_FP32, SHAPE(l->out, 1)));

    (void)saved;
    work_add(r, OP_TO_COPY, 0, n * (1 + dtype_bytes(dtype)), 1);
    work_add(r, OP_MUL, n, 2 * n * dtype_bytes(dtype), 1);
    value_unref(r, scale);
    if (!run_dead(r))
        ret[0] = bnb_gradient(r, grad[0], weight, l);
    value_unref(r, weight);
}

static val matmul_8bit(struct run *r, struct bnb_linear *l, val x, val bias)
{
    struct bnb_call call;
    val product, out;

    bnb_call_begin(r, l, x, bias, backward, &call);
    if (!call.context)
        return 0;
    product = run_dead(r) ? 0 : scaled_product(r, l, call.rows);
    out = run_dead(r) ? 0 : view_as(r, product, call.ndim, call.size);
    value_unref(r, product);
    return bnb_call_end(r, &call, out);
}

val bnb_forward_int8(struct run *r, struct module *m, val x)
{
    struct frame f = frame_enter(r);
    val out;

    x = local(r, x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (r->q->bnb_int8_in_rows)
        out = matmul_8bit(r, m->extra, x, bnb_bias(r, m, dtype_of(r, x)));
    else
        out = bnb_matmul_tiled(r, m->extra, m->weight, x, bnb_bias(r, m, dtype_of(r, x)));
    return frame_leave(r, f, run_dead(r) ? 0 : out);
}
