/* masks.c - attention masks: masking_utils.py, before it modeling_attn_mask_utils.py; masks made of positions: mask_by_position.c. */
#include "models/blocks.h"

val ones_for(struct run *r, val tokens, enum dtype dtype)
{
    return run_dead(r) ? 0 : factory(r, OP_FULL, dtype, 2, r->values[tokens].size);
}

/* mask.all(), later masking_utils.fast_all: mask.sum() == mask.numel() */
static void look_at(struct run *r, const struct model *m, val mask)
{
    if (m->q->mask_looked_at_by_sum)
        consume(r, compare(r, OP_EQ, sum_all(r, mask), 0));
    else
        consume(r, factory(r, OP_ALL, DTYPE_BOOL, 0, NULL));
}

/* find_packed_sequence_indices: (torch.diff(position_ids, prepend=first - 1) != 1).cumsum(-1); which sequence each token is of, if that may differ */
static val packed_indices(struct run *r, const struct quirks *q, val ids, int64_t b, int64_t s)
{
    struct frame f = frame_enter(r);
    val first, joined, diff, packed, all;

    ids = local(r, expand(r, ids, SHAPE(b, s)));
    first = local(r, factory(r, OP_SUB, DTYPE_INT64, SHAPE(b, 1)));
    joined = factory(r, OP_CAT, DTYPE_INT64, SHAPE(b, s + 1));
    diff = local(r, factory(r, OP_SUB, DTYPE_INT64, SHAPE(b, s)));
    consume(r, joined);
    (void)first;
    packed = local(r, cumsum(r, compare(r, OP_NE, diff, 0), -1));
    if (q->unmasked_rows_are_packed)
        return frame_leave(r, f, packed);
    all = factory(r, OP_EQ, DTYPE_BOOL, SHAPE(b)); /* if (packed_sequence_mask[:, -1] == 0).all(): return None */
    consume(r, factory(r, OP_ALL, DTYPE_BOOL, 0, NULL));
    consume(r, all);
    return frame_leave(r, f, 0);
}

/* What mask functions are called with: [batch, 1, 1, 1], [1, 1, q, 1], [1, 1, 1, kv] */
struct grid {
    val batches, rows, columns;
    int64_t b, s;
    bool mapped; /* torch.vmap calls them for one row, of which it makes all: what is new is as long as the rows are */
};

/* of[batch_idx, q_idx] or of[batch_idx, kv_idx]: index tensors that have to be expanded are copied */
static val picked(struct run *r, const struct grid *g, enum dtype dtype, bool by_columns)
{
    int64_t rows = by_columns ? 1 : g->s, columns = by_columns ? g->s : 1;
    val i = local(r, contiguous(r, expand(r, g->batches, SHAPE(g->b, 1, rows, columns))));
    val j = local(r, contiguous(r, expand(r, by_columns ? g->columns : g->rows, SHAPE(g->b, 1, rows, columns))));
    val out = factory(r, OP_INDEX, dtype, SHAPE(g->b, 1, rows, columns));

    drop(r, &j);
    drop(r, &i);
    return out;
}

/* result = result & mask(..) of and_masks */
static void and_mask(struct run *r, val *result, val mask)
{
    rebind(r, result, pointwise_op(r, OP_BITWISE_AND, DTYPE_BOOL, *result, mask));
}

/* q_idx.new_ones((), dtype=torch.bool) */
static val new_ones(struct run *r, const struct grid *g)
{
    return local(r, g->mapped ? factory(r, OP_NEW_ONES, DTYPE_BOOL, SHAPE(1, 1, g->s, 1)) : factory(r, OP_NEW_ONES, DTYPE_BOOL, 0, NULL));
}

/* causal_mask_function, or sliding_window_causal_mask_function */
static val plain_mask(struct run *r, const struct grid *g, int64_t window)
{
    struct frame f = frame_enter(r);
    val result;

    if (!window)
        return frame_leave(r, f, compare(r, OP_LE, g->columns, g->rows));
    result = new_ones(r, g);
    and_mask(r, &result, compare(r, OP_GT, g->columns, sub_scalar(r, g->rows)));
    and_mask(r, &result, compare(r, OP_LE, g->columns, g->rows));
    return frame_leave(r, f, result);
}

/* packed_sequence_mask_function beside the plain mask: of the same sequence */
static val packed_mask(struct run *r, const struct grid *g, int64_t window)
{
    struct frame f = frame_enter(r);
    val result = new_ones(r, g), q, kv, same;

    and_mask(r, &result, plain_mask(r, g, window));
    q = local(r, picked(r, g, DTYPE_INT64, false));
    kv = local(r, picked(r, g, DTYPE_INT64, true));
    same = compare(r, OP_EQ, q, kv);
    drop(r, &q);
    drop(r, &kv);
    and_mask(r, &result, same);
    return frame_leave(r, f, result);
}

/* torch.arange of the places that mask functions are asked about; `position`: the row of position ids where they serve as queries' places */
static struct grid places(struct run *r, const struct model *m, val position, int64_t b, int64_t s)
{
    struct grid g = {.b = b, .s = s, .mapped = m->q->mask_by_vmap};
    val batch, q = position, kv = 0;

    if (g.mapped) /* kv_arange += kv_offset */
        kv = local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(s)));
    batch = local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(b)));
    (void)local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(1))); /* heads */
    if (!m->q->mask_by_cache_position)
        q = local(r, add_scalar(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(s))));
    if (!g.mapped)
        kv = local(r, add_scalar(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(s))));
    if (!q) /* a class that keeps its cache_position to itself */
        q = kv;
    g.rows = local(r, view(r, q, SHAPE(1, 1, s, 1)));
    g.columns = local(r, view(r, kv, SHAPE(1, 1, 1, s)));
    g.batches = local(r, view(r, batch, SHAPE(b, 1, 1, 1)));
    return g;
}

/* sdpa_mask: index arithmetic broadcast to [batch, 1, seq, seq], bool */
static val sdpa_mask(struct run *r, const struct model *m, val mask, bool packed, val position, int64_t b, int64_t s, int64_t window)
{
    struct frame f = frame_enter(r);
    struct grid g = places(r, m, position, b, s);
    val result;

    if (packed) {
        result = local(r, packed_mask(r, &g, window));
    } else if (!mask) {
        result = local(r, plain_mask(r, &g, window));
    } else {
        result = new_ones(r, &g);
        and_mask(r, &result, plain_mask(r, &g, window));
        and_mask(r, &result, picked(r, &g, DTYPE_BOOL, true)); /* padding_mask[batch_idx, kv_idx] */
    }
    return frame_leave(r, f, expand(r, result, SHAPE(b, -1, s, s)));
}

/* eager_mask: where(mask, tensor(0.0), min) in the embeddings' dtype */
static void eager_mask(struct run *r, val *mask, enum dtype dtype)
{
    val zero = local(r, factory(r, OP_ZEROS, dtype, 0, NULL)), least = local(r, factory(r, OP_SCALAR_TENSOR, dtype, 0, NULL));

    rebind(r, mask, pointwise_op(r, OP_WHERE, dtype, *mask, 0));
    drop(r, &least);
    drop(r, &zero);
}

val causal_mask(struct run *r, struct model *m, val embeds, val mask_2d, val ids, int64_t window)
{
    struct frame f = frame_enter(r);
    int64_t b, s;
    val mask, packed = 0, out;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    b = size_of(r, embeds, 0);
    s = size_of(r, embeds, 1);
    mask = mask_2d ? local(r, to_dtype(r, mask_2d, DTYPE_BOOL)) : 0;
    if (!mask && ids && !m->use_cache)
        packed = local(r, packed_indices(r, m->q, ids, b, s));
    if (m->attention == KERNEL_FLASH_2)
        return frame_leave(r, f, mask ? flash_attention_mask(r, m, mask) : 0);
    if (m->attention == KERNEL_SDPA && !(window && s >= window) && !packed) {
        if (mask)
            look_at(r, m, mask); /* kv_length == q_length and .. */
        if (!mask || !m->padded)
            return frame_leave(r, f, 0);
        if (m->q->mask_looked_at_by_sum)
            look_at(r, m, mask); /* q_offset == 0 and .. */
    }
    out = local(r, sdpa_mask(r, m, mask, packed != 0, ids, b, s, window));
    if (m->attention == KERNEL_EAGER)
        eager_mask(r, &out, dtype_of(r, embeds));
    return frame_leave(r, f, out);
}

/* torch.all(attention_mask == 1) of _ignore_causal_mask_sdpa; without a mask nothing is asked */
bool mask_is_full_440(struct run *r, const struct model *m, val mask_2d)
{
    val equal, all;

    if (!mask_2d)
        return true;
    equal = local(r, compare(r, OP_EQ, mask_2d, 0));
    all = local(r, factory(r, OP_ALL, DTYPE_BOOL, 0, NULL));
    drop(r, &equal);
    drop(r, &all);
    return !m->padded;
}

/* AttentionMaskConverter._make_causal_mask: made in fp32, cast to the model's dtype */
static val make_causal_440(struct run *r, enum dtype dtype, int64_t b, int64_t s, int64_t window)
{
    struct frame f = frame_enter(r);
    val mask = local(r, factory(r, OP_FULL, DTYPE_FP32, SHAPE(s, s)));
    val cond = local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(s)));
    val next = view(r, add_scalar(r, cond), SHAPE(s, 1));

    consume(r, compare(r, OP_LT, cond, next)); /* masked_fill_ in place */
    rebind(r, &mask, to_dtype(r, mask, dtype));
    if (window) {
        val ones = factory(r, OP_ONES_LIKE, DTYPE_BOOL, SHAPE(s, s));

        (void)local(r, pointwise_op(r, OP_TRIL, DTYPE_BOOL, ones, 0)); /* context_mask */
    }
    return frame_leave(r, f, expand(r, view(r, mask, SHAPE(1, 1, s, s)), SHAPE(b, 1, s, s)));
}

/* AttentionMaskConverter._expand_mask */
static val expand_mask_440(struct run *r, val mask_2d, enum dtype dtype, int64_t b, int64_t s)
{
    struct frame f = frame_enter(r);
    val wide = expand(r, view(r, mask_2d, SHAPE(b, 1, 1, s)), SHAPE(b, 1, s, s)), inverted, out;

    wide = local(r, to_dtype(r, wide, dtype));
    inverted = local(r, rsub_scalar(r, wide));
    out = masked_fill(r, inverted, to_dtype(r, inverted, DTYPE_BOOL));
    return frame_leave(r, f, out);
}

/* AttentionMaskConverter._unmask_unattended: mask.mul(~all(mask == min, dim=-1, keepdim=True)) */
val unmask_unattended_440(struct run *r, val mask, int64_t b, int64_t s)
{
    val equal = local(r, compare(r, OP_EQ, mask, 0)), rows;

    rows = factory(r, OP_ALL, DTYPE_BOOL, SHAPE(b, 1, s, 1));
    drop(r, &equal);
    rows = pointwise_op(r, OP_BITWISE_NOT, DTYPE_BOOL, rows, 0);
    return pointwise_op(r, OP_MUL, dtype_of(r, mask), mask, rows);
}

val causal_mask_4d_440(struct run *r, struct model *m, val embeds, val mask_2d, int64_t window, bool for_sdpa)
{
    struct frame f = frame_enter(r);
    int64_t b, s;
    enum dtype dtype;
    val causal, expanded;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    b = size_of(r, embeds, 0);
    s = size_of(r, embeds, 1);
    dtype = dtype_of(r, embeds);
    if (for_sdpa && (!window || s < window) && mask_is_full_440(r, m, mask_2d))
        return frame_leave(r, f, 0);
    causal = local(r, make_causal_440(r, dtype, b, s, window));
    if (!mask_2d)
        return frame_leave(r, f, causal); /* to_causal_4d() */
    expanded = local(r, expand_mask_440(r, mask_2d, dtype, b, s));
    rebind(r, &expanded, masked_fill(r, causal, to_dtype(r, expanded, DTYPE_BOOL)));
    drop(r, &causal);
    if (for_sdpa)
        rebind(r, &expanded, unmask_unattended_440(r, expanded, b, s));
    return frame_leave(r, f, expanded);
}

/* attention_mask[:, None, None, :]; (1.0 - attention_mask.to(dtype)) * finfo(dtype).min */
val additive_mask_440(struct run *r, struct model *m, val mask_2d)
{
    struct frame f = frame_enter(r);
    val mask;

    if (run_dead(r) || !mask_2d)
        return frame_leave(r, f, 0);
    mask = local(r, view(r, mask_2d, SHAPE(size_of(r, mask_2d, 0), 1, 1, size_of(r, mask_2d, 1))));
    rebind(r, &mask, to_dtype(r, mask, m->tree.dtype));
    rebind(r, &mask, mul_scalar(r, rsub_scalar(r, mask)));
    return frame_leave(r, f, mask);
}

val flash_mask_440(const struct model *m, val mask_2d)
{
    return m->padded ? mask_2d : 0;
}
