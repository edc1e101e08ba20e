/*
 * bnb_tiled.c - MatMul8bitLt of bitsandbytes before 0.45, where no input has an outlier: a weight is tiled for cuBLASLt when it is used first, inputs are
 * quantised by rows and by columns, and products lie in blocks of 32 columns.
 *
 * Source    bitsandbytes 0.43.3: autograd/_functions.py MatMul8bitLt, undo_layout, get_inverse_transform_indices; functional.py double_quant,
 *           get_colrow_absmax, transform, get_transform_buffer, igemmlt, mm_dequant, get_special_format_str; nn/modules.py Linear8bitLt.forward.
 * Not       GPUs below 7.5, which multiply in half; sizes that tiles do not fill, for which backward raises.
 */
#include "torch/autograd.h"
#include "torch/calls.h"
#include "torch/function.h"
#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/bnb_inside.h"
#include "tuning/kbit.h"
#include "tuning/kbit_load.h"

enum { TILE_COLUMNS = 32, AMPERE_ROWS = 32, TURING_ROWS = 8 };
enum { STAT_ROWS = 16, STAT_COLUMNS = 256 }; /* of a block whose outliers are counted */

static int64_t up_to(int64_t n, int64_t tile)
{
    return (n + tile - 1) / tile * tile;
}

/* get_special_format_str(): "col_ampere" is that of 8.x alone */
static int64_t tile_rows(const struct run *r)
{
    return r->device.cc_major == 8 ? AMPERE_ROWS : TURING_ROWS;
}

static val zeros(struct run *r, enum dtype dtype, int64_t rows, int64_t columns)
{
    return owned(r, value_empty(r, OP_ZEROS, dtype, SHAPE(rows, columns)));
}

struct both_ways {
    val row_codes, column_codes, rows, columns; /* what it was quantised to, by the largest value of each row and each column */
};

static void forget(struct run *r, struct both_ways *q)
{
    value_unref(r, q->row_codes);
    value_unref(r, q->column_codes);
    value_unref(r, q->rows);
    value_unref(r, q->columns);
}

/* How many outliers each block has, summed up in place; the host waits for the last. */
static val count_outliers(struct run *r, int64_t m, int64_t k)
{
    int64_t n = up_to(m, STAT_ROWS) * (up_to(k, STAT_COLUMNS) / STAT_COLUMNS) + 1;
    val counts = owned(r, value_empty(r, OP_ZEROS, DTYPE_INT32, SHAPE(n)));
    val scratch = run_dead(r) ? 0 : owned(r, value_empty(r, OP_CUMSUM, DTYPE_UINT8, SHAPE(cub_scan_bytes(r, n, 4))));

    value_unref(r, scratch);
    return counts;
}

/* double_quant(A.to(torch.float16)) */
static struct both_ways quantise(struct run *r, val x, bool finds_outliers)
{
    int64_t m = size_of(r, x, 0), k = size_of(r, x, 1);
    val half = dtype_of(r, x) == DTYPE_FP16 ? 0 : owned(r, cast_copy(r, x, DTYPE_FP16)), counts;
    struct both_ways q = {0};

    q.rows = owned(r, value_empty(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(m)));
    q.columns = owned(r, value_empty(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(k)));
    counts = finds_outliers ? count_outliers(r, m, k) : 0;
    q.column_codes = zeros(r, DTYPE_UINT8, m, k);
    q.row_codes = zeros(r, DTYPE_UINT8, m, k);
    work_add(r, OP_INT8_QUANT, (uint64_t)(2 * m * k), (uint64_t)(6 * m * k), 2);
    value_unref(r, half);
    value_unref(r, counts);
    return q;
}

/* transform(), igemmlt(), mm_dequant(): int32 products in blocks of columns, then fp16, then the input's dtype. Codes and sums stay until forward returns. */
static val product_of(struct run *r, const struct bnb_linear *l, val codes, enum dtype dtype, val locals[2])
{
    int64_t m = size_of(r, codes, 0);
    val half, out, rows, columns;

    locals[0] = zeros(r, DTYPE_UINT8, m, up_to(l->in, TILE_COLUMNS));
    locals[1] = zeros(r, DTYPE_INT32, m, up_to(l->out, TILE_COLUMNS));
    half = out = owned(r, value_empty(r, OP_INT8_DEQUANT, DTYPE_FP16, SHAPE(m, l->out)));
    rows = owned(r, value_empty(r, OP_INT8_DEQUANT, DTYPE_FP32, SHAPE(m)));
    columns = owned(r, value_empty(r, OP_INT8_DEQUANT, DTYPE_FP32, SHAPE(l->out)));

    work_add(r, OP_INT8_MATMUL, (uint64_t)(2 * m * l->in * l->out), (uint64_t)(m * l->in + l->in * l->out + 4 * m * l->out), 1);
    work_add(r, OP_INT8_DEQUANT, (uint64_t)(m * l->out), (uint64_t)(6 * m * l->out), 1);
    value_unref(r, rows);
    value_unref(r, columns);
    if (dtype != DTYPE_FP16 && !run_dead(r)) {
        out = owned(r, cast_copy(r, half, dtype));
        value_unref(r, half);
    }
    return out;
}

/* get_inverse_transform_indices(): three bytes of a position, each tiled on the device by itself */
static val indices_of_tile(struct run *r)
{
    int64_t rows = tile_rows(r);

    for (int i = 0; i < 3; i++) {
        val sample = owned(r, value_empty(r, OP_TO_COPY, DTYPE_UINT8, SHAPE(rows, TILE_COLUMNS))), tiled = zeros(r, DTYPE_UINT8, rows, TILE_COLUMNS);

        value_unref(r, sample);
        value_unref(r, tiled);
    }
    return kbit_kept(r, OP_TO_COPY, DTYPE_INT64, SHAPE(rows, TILE_COLUMNS));
}

/* undo_layout(CxB, tile_indices).to(dtype).mul_(SCB / 127) */
static val unpacked(struct run *r, struct bnb_linear *l, enum dtype dtype)
{
    uint64_t n = (uint64_t)(l->in * l->out);
    val spread, laid_out, weight, scale;

    if (!l->tile_indices) {
        calls_unheard(r);
        l->tile_indices = indices_of_tile(r);
    }
    spread = owned(r, value_empty(r, OP_ZEROS_LIKE, DTYPE_UINT8, SHAPE(l->out, l->in)));
    laid_out = owned(r, value_empty(r, OP_CLONE, DTYPE_UINT8, SHAPE(l->out, l->in)));
    value_unref(r, spread);
    weight = owned(r, value_empty(r, OP_TO_COPY, dtype, SHAPE(l->out, l->in)));
    value_unref(r, laid_out);
    scale = owned(r, value_empty(r, OP_MUL, DTYPE_FP32, SHAPE(l->out, 1)));
    value_unref(r, scale);
    work_add(r, OP_TO_COPY, 0, n * (4 + dtype_bytes(dtype)), 3);
    work_add(r, OP_MUL, n, 2 * n * dtype_bytes(dtype), 1);
    return weight;
}

static void backward(struct run *r, void *of, const val *grad, const val *saved, val *ret)
{
    struct bnb_context *c = of;
    struct bnb_linear *l = c->linear;
    struct both_ways q;
    val rows = owned(r, view_as(r, grad[0], SHAPE(numel(r, grad[0]) / l->out, l->out))), weight;

    (void)saved;
    if (run_dead(r))
        return;
    q = quantise(r, rows, false);
    value_unref(r, rows);
    weight = unpacked(r, l, dtype_of(r, c->kept));
    if (!run_dead(r))
        ret[0] = bnb_gradient(r, grad[0], weight, l);
    forget(r, &q);
    value_unref(r, weight);
}

val bnb_matmul_tiled(struct run *r, struct bnb_linear *l, struct param *weight, val x, val bias)
{
    enum dtype dtype = dtype_of(r, x);
    val tiled = 0, product, laid_out, out, locals[2];
    struct bnb_call call;
    struct both_ways q;

    if (l->in % TILE_COLUMNS || l->out % tile_rows(r) || r->device.cc_major * 10 + r->device.cc_minor < 75) {
        run_fail(r, ERR_FIELD_CONFLICT, "/stack/bitsandbytes",
                 "int8 as bitsandbytes multiplies it before 0.45 is modelled on GPUs from 7.5 on and for sizes that its tiles of 32 columns and 8 or 32 "
                 "rows fill");
        return 0;
    }
    bnb_call_begin(r, l, x, bias, backward, &call);
    if (!call.context || run_dead(r))
        return 0;
    q = quantise(r, call.rows, true);
    calls_unheard(r); /* codes and their columns are attributes of ctx, the weight is another from its first use on */
    if (!l->tiled)
        tiled = kbit_kept(r, OP_ZEROS, DTYPE_UINT8, SHAPE(l->out, l->in));
    product = product_of(r, l, q.row_codes, dtype, locals);
    out = run_dead(r) ? 0 : view_as(r, product, call.ndim, call.size);
    laid_out = call.ndim < 3 || run_dead(r) ? 0 : owned(r, out); /* clone_func() of three dimensions */
    if (laid_out)
        out = cast_copy(r, laid_out, dtype);
    if (call.node && !run_dead(r)) {
        call.context->codes = q.column_codes;
        call.context->columns = q.columns;
        q.column_codes = q.columns = 0;
    }
    forget(r, &q);
    value_unref(r, locals[0]);
    value_unref(r, locals[1]);
    value_unref(r, laid_out);
    value_unref(r, product);
    if (tiled && !run_dead(r)) { /* del state.CB; weight.data = state.CxB */
        set_data(r, weight->value, tiled);
        l->tiled = true;
    }
    return bnb_call_end(r, &call, out);
}
