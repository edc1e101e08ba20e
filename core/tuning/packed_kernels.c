/* packed_kernels.c - products of packed weights, without a graph. See packed.h. */
#include "torch/autograd.h"
#include "torch/ops.h"
#include "torch/views.h"
#include "tuning/packed_inside.h"

/* Rows from which a kernel unpacks the whole weight and multiplies by that: awq gemm.py; qlinear_cuda_old.py kernel_switch_threshold */
enum {
    AWQ_UNPACKS = 1024,
    OLD_UNPACKS = 128,
    AWQ_SPLITS = 8,
    MARLIN_ROWS = 16,
    MARLIN_MOST_ROWS = 64,
    MARLIN_PARTS = 16,
    MARLIN_WIDTH = 256
};

static int64_t rows_of(struct run *r, const struct packed_linear *l, val x)
{
    return numel(r, x) / l->in;
}

/* One kernel that reads packed words: what it computes and moves. */
static void log_product(struct run *r, enum op op, const struct packed_linear *l, int64_t m, enum dtype dtype)
{
    uint64_t words = (uint64_t)(l->in * l->out * l->bits / 8), half = dtype_bytes(dtype);

    work_add_product(r, op, dtype, (uint64_t)(2 * m * l->in * l->out), words + (uint64_t)(m * (l->in + l->out)) * half);
}

/* determine_reduce_max_m() */
static int64_t reduced_rows(int64_t m)
{
    int64_t parts = (m + MARLIN_MOST_ROWS - 1) / MARLIN_MOST_ROWS;

    if (m <= MARLIN_MOST_ROWS)
        return round_up(m, MARLIN_ROWS);
    return MARLIN_MOST_ROWS * (parts < MARLIN_PARTS ? parts : MARLIN_PARTS);
}

/* gptq_marlin_gemm(): output, a copy's room of the input (taken by 2.2.0 whether it is used or not), partial sums in fp32 */
static val marlin(struct run *r, const struct packed_linear *l, val x)
{
    int64_t m = rows_of(r, l, x), rows = round_up(m < MARLIN_MOST_ROWS ? m : MARLIN_MOST_ROWS, MARLIN_ROWS);
    enum dtype dtype = dtype_of(r, x);
    val out = value_empty(r, OP_MARLIN_GEMM, dtype, SHAPE(m, l->out)), copy = 0, sums;

    if (!l->newer_marlin)
        copy = owned(r, value_empty(r, OP_MARLIN_GEMM, dtype, SHAPE(m, l->in)));
    sums =
        owned(r, value_empty(r, OP_MARLIN_GEMM, DTYPE_FP32,
                             SHAPE(l->newer_marlin ? (int64_t)r->device.multiprocessors * rows * MARLIN_WIDTH : reduced_rows(m) * l->out)));
    log_product(r, OP_MARLIN_GEMM, l, m, dtype);
    value_unref(r, sums);
    value_unref(r, copy);
    return out;
}

/* q4_matmul(): many rows unpack into the buffer that lives with the model */
static val exllama(struct run *r, const struct packed_linear *l, val x)
{
    int64_t m = rows_of(r, l, x);
    val out = value_empty(r, OP_EXLLAMA_MATMUL, DTYPE_FP16, SHAPE(m, l->out));

    log_product(r, OP_EXLLAMA_MATMUL, l, m, DTYPE_FP16);
    return out;
}

/* Few rows: sums in fp32, the input and the scales in fp32 beside. */
static val old_fused(struct run *r, const struct packed_linear *l, val x)
{
    int64_t m = rows_of(r, l, x);
    val sums = owned(r, value_empty(r, OP_ZEROS, DTYPE_FP32, SHAPE(m, l->out))), wide = owned(r, cast_copy(r, x, DTYPE_FP32)), out;
    val scales = owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP32, SHAPE(l->groups, l->out)));

    log_product(r, OP_GPTQ_MATMUL, l, m, DTYPE_FP32);
    value_unref(r, scales);
    out = run_dead(r) ? 0 : cast_copy(r, sums, dtype_of(r, x));
    value_unref(r, wide);
    value_unref(r, sums);
    return out;
}

/* A word for each element (int32), then int16, masked; differences and products with their scales; a half weight in the end. */
static val old_unpacked(struct run *r, const struct packed_linear *l)
{
    uint64_t n = (uint64_t)(l->in * l->out);
    val words = owned(r, value_empty(r, OP_DEQUANTIZE_GPTQ, DTYPE_INT32, SHAPE(l->in, l->out))), shorts, masked, less, weight;

    shorts = owned(r, value_empty(r, OP_DEQUANTIZE_GPTQ, DTYPE_FP16, SHAPE(l->in, l->out)));
    value_unref(r, words);
    masked = owned(r, value_empty(r, OP_DEQUANTIZE_GPTQ, DTYPE_FP16, SHAPE(l->in, l->out)));
    value_unref(r, shorts);
    less = owned(r, value_empty(r, OP_DEQUANTIZE_GPTQ, DTYPE_FP16, SHAPE(l->in, l->out)));
    weight = value_empty(r, OP_DEQUANTIZE_GPTQ, DTYPE_FP16, SHAPE(l->in, l->out));
    value_unref(r, less);
    value_unref(r, masked); /* `weight` is bound anew */
    work_add(r, OP_DEQUANTIZE_GPTQ, 2 * n, 24 * n, 4);
    return weight;
}

static val cuda_old(struct run *r, const struct packed_linear *l, val x)
{
    val weight, out;

    if (rows_of(r, l, x) < OLD_UNPACKS)
        return old_fused(r, l, x);
    weight = owned(r, old_unpacked(r, l));
    out = run_dead(r) ? 0 : matmul(r, x, weight);
    value_unref(r, weight);
    return out;
}

/* WQLinearMMFunction with awq_ext: a half copy of the weight, or eight partial outputs that are summed */
static val awq(struct run *r, const struct packed_linear *l, val x)
{
    int64_t m = rows_of(r, l, x);
    uint64_t n = (uint64_t)(l->in * l->out);
    val made, out;

    if (m >= AWQ_UNPACKS) {
        made = owned(r, value_empty(r, OP_AWQ_DEQUANTIZE, DTYPE_FP16, SHAPE(l->in, l->out)));
        work_add(r, OP_AWQ_DEQUANTIZE, n, n / 2 + 2 * n, 1);
        out = run_dead(r) ? 0 : matmul(r, x, made);
    } else {
        made = owned(r, value_empty(r, OP_AWQ_GEMM, DTYPE_FP16, SHAPE(AWQ_SPLITS, m, l->out)));
        log_product(r, OP_AWQ_GEMM, l, m, DTYPE_FP16);
        out = run_dead(r) ? 0 : sum_dim(r, made, 0, false);
    }
    value_unref(r, made);
    return out;
}

/* act_quant(), then w8a8_block_fp8_matmul_triton(); later one kernel does both. */
static val fp8(struct run *r, const struct packed_linear *l, val x)
{
    int64_t m = rows_of(r, l, x);
    enum dtype dtype = dtype_of(r, x);
    val codes = 0, scales = 0, out;

    if (!l->quantises_within) {
        codes = owned(r, value_empty(r, OP_FP8_ACT_QUANT, DTYPE_UINT8, SHAPE(m, l->in)));
        scales = owned(r, value_empty(r, OP_FP8_ACT_QUANT, DTYPE_FP32, SHAPE(m, (l->in + PACKED_BLOCK - 1) / PACKED_BLOCK)));
        work_add(r, OP_FP8_ACT_QUANT, (uint64_t)(m * l->in), (uint64_t)(m * l->in) * (1 + dtype_bytes(dtype)), 1);
    }
    out = value_empty(r, OP_FP8_MATMUL, dtype, SHAPE(m, l->out));
    log_product(r, OP_FP8_MATMUL, l, m, dtype);
    value_unref(r, scales);
    value_unref(r, codes);
    return out;
}

static val product(struct run *r, const struct packed_linear *l, val x)
{
    static val (*const kernels[])(struct run *, const struct packed_linear *, val) = {
        [PACKED_MARLIN] = marlin, [PACKED_EXLLAMA] = exllama, [PACKED_CUDA_OLD] = cuda_old, [PACKED_AWQ] = awq, [PACKED_FP8] = fp8};

    return kernels[l->kernel](r, l, x);
}

/* Kernels of fp16 alone take a copy of anything else, and hand back its dtype. */
val packed_forward(struct run *r, struct module *m, val x)
{
    const struct packed_linear *l = m->extra;
    struct frame f = frame_enter(r);
    bool half = l->kernel == PACKED_EXLLAMA || l->kernel == PACKED_AWQ, grad_enabled = r->grad_enabled;
    enum dtype dtype;
    int64_t size[MAX_DIMS];
    int n;
    val out;

    x = local(r, x);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    dtype = dtype_of(r, x);
    n = value_of(r, x)->ndim;
    for (int i = 0; i < n; i++)
        size[i] = size_of(r, x, i);
    size[n - 1] = l->out;
    r->grad_enabled = false;
    x = local(r, view_as(r, x, SHAPE(rows_of(r, l, x), l->in)));
    if (half)
        x = local(r, to_dtype(r, x, DTYPE_FP16));
    out = run_dead(r) ? 0 : local(r, product(r, l, x));
    if (m->bias && !run_dead(r))
        out = local(r, (l->adds_in_place ? write_in_place(r, OP_ADD, out, m->bias->value) : add(r, out, m->bias->value)));
    if (half && !run_dead(r))
        out = local(r, to_dtype(r, out, dtype));
    out = run_dead(r) ? 0 : view_as(r, out, n, size);
    r->grad_enabled = grad_enabled;
    return frame_leave(r, f, out);
}
