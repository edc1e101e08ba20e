/* bnb_pack.c - one tensor comes to the device, and is quantised there. See bnb.h. */
#include "torch/ops.h"
#include "tuning/bnb.h"
#include "tuning/bnb_inside.h"
#include "tuning/kbit_load.h"

/* get_4bit_type(): data.div_(data.abs().max()) */
static val code_of_4bit(struct run *r)
{
    val code = kbit_kept(r, OP_TO_COPY, DTYPE_FP32, SHAPE(BNB_CODE));
    val magnitude = owned(r, value_empty(r, OP_ABS, DTYPE_FP32, SHAPE(BNB_CODE)));
    val most = owned(r, value_empty(r, OP_MAX, DTYPE_FP32, 0, NULL));

    value_unref(r, magnitude);
    value_unref(r, most);
    return code;
}

/* quantize_blockwise(absmax - offset): the map is made once, and copied for each weight where the package's operators do it */
static void quantise_scales(struct run *r, struct bnb_linear *l, val *absmax, val *map)
{
    int64_t blocks = (l->blocks + BNB_NESTED_BLOCK - 1) / BNB_NESTED_BLOCK;
    val centred = 0, packed;

    l->offset = kbit_kept(r, OP_MEAN, DTYPE_FP32, 0, NULL);
    reduce_scratch(r, OP_MEAN, *absmax, 1, 4);
    if (r->q->bnb_is_operators)
        centred = owned(r, value_empty(r, OP_SUB, DTYPE_FP32, SHAPE(l->blocks)));
    if (!*map)
        *map = kbit_kept(r, OP_TO_COPY, DTYPE_FP32, SHAPE(BNB_NESTED_CODE));
    l->nested_absmax = kbit_kept(r, r->q->bnb_is_operators ? OP_QUANTIZE_BLOCKWISE : OP_ZEROS, DTYPE_FP32, SHAPE(blocks));
    packed = kbit_kept(r, r->q->bnb_is_operators ? OP_QUANTIZE_BLOCKWISE : OP_ZEROS_LIKE, DTYPE_UINT8, SHAPE(l->blocks));
    if (r->q->bnb_is_operators)
        l->nested_code = kbit_kept(r, OP_TO_COPY, DTYPE_FP32, SHAPE(BNB_NESTED_CODE));
    value_unref(r, centred);
    value_unref(r, *absmax);
    *absmax = packed;
}

/* A half copy of the weight; what is laid out otherwise is copied there by a loader that brings it to the device first. */
static val half_of(struct run *r, const struct bnb_linear *l, enum dtype dtype, val *laid_out)
{
    val half = owned(r, value_empty(r, OP_TO_COPY, dtype, SHAPE(l->out, l->in)));

    *laid_out = l->transposed && r->q->bnb_loads_by_name ? owned(r, value_empty(r, OP_CLONE, dtype, SHAPE(l->out, l->in))) : 0;
    return half;
}

/* double_quant(): rows and columns, of which the latter go at once */
static val quantise_both_ways(struct run *r, struct bnb_linear *l)
{
    val columns, across, packed;

    l->absmax = kbit_kept(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(l->out));
    columns = owned(r, value_empty(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(l->in)));
    across = owned(r, value_empty(r, OP_INT8_QUANT, DTYPE_UINT8, SHAPE(l->out, l->in)));
    packed = kbit_kept(r, OP_INT8_QUANT, DTYPE_UINT8, SHAPE(l->out, l->in));
    value_unref(r, across);
    value_unref(r, columns);
    return packed;
}

/* Int8Params.to(device): rows of fp16. A loader that brings a weight to the device first sends it back to the host before (transformers 5
 * integrations/bitsandbytes.py, value.to("cpu")): it comes twice. What is laid out otherwise is copied on the host. */
static val quantise_int8(struct run *r, struct bnb_linear *l)
{
    bool twice = r->q->bnb_loads_by_name;
    val half = owned(r, value_empty(r, OP_TO_COPY, twice ? l->dtype : DTYPE_FP16, SHAPE(l->out, l->in)));
    val again = twice ? owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP16, SHAPE(l->out, l->in))) : 0, packed;

    if (r->q->bnb_int8_in_rows) {
        l->absmax = kbit_kept(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(l->out));
        packed = kbit_kept(r, OP_INT8_QUANT, DTYPE_UINT8, SHAPE(l->out, l->in));
    } else {
        packed = quantise_both_ways(r, l);
        l->tiled = false;
        l->tile_indices = 0;
    }
    value_unref(r, again);
    value_unref(r, half);
    return packed;
}

/* Params4bit.to(device); of Conv1D a transpose, which is laid out anew */
val bnb_packed(struct run *r, struct bnb_linear *l, const struct param *p, val *map)
{
    enum op op = r->q->bnb_is_operators ? OP_QUANTIZE_4BIT : OP_ZEROS;
    val laid_out, half, packed;

    if (r->q->bnb_packs_fp16)
        l->dtype = DTYPE_FP16;
    half = half_of(r, l, l->dtype, &laid_out);
    l->absmax = kbit_kept(r, op, DTYPE_FP32, SHAPE(l->blocks));
    packed = kbit_kept(r, op, p->dtype, p->ndim, p->size);
    value_unref(r, laid_out);
    l->code = code_of_4bit(r);
    if (l->doubly)
        quantise_scales(r, l, &l->absmax, map);
    value_unref(r, half);
    return packed;
}

val bnb_packed_rows(struct run *r, struct bnb_linear *l, const struct param *p)
{
    val whole = owned(r, value_empty(r, OP_TO_COPY, l->dtype, SHAPE(l->out, l->in)));
    val half = l->dtype == DTYPE_FP16 ? 0 : owned(r, value_empty(r, OP_TO_COPY, DTYPE_FP16, SHAPE(l->out, l->in))), packed;

    l->absmax = kbit_kept(r, OP_INT8_QUANT, DTYPE_FP32, SHAPE(l->out));
    packed = kbit_kept(r, OP_INT8_QUANT, p->dtype, p->ndim, p->size);
    value_unref(r, half);
    value_unref(r, whole);
    return packed;
}

bool bnb_packs(const struct param *p)
{
    return bnb_is_quantised(p->owner) && p == p->owner->weight;
}

void bnb_pack(struct run *r, struct param *p, val *map)
{
    struct bnb_linear *l = p->owner->extra;

    p->value = bnb_is_int8(p->owner) ? quantise_int8(r, l) : bnb_packed(r, l, p, map);
}
