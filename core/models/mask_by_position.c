/* mask_by_position.c - causal masks made of cache_position, as model files wrote them from 4.44 to 5.1; what classes for SDPA did. */
#include "models/blocks.h"

/* causal_mask[:, :, :, :n] = causal_mask[:, :, :, :n].masked_fill(causal_mask[:, :, :, :n] + attention_mask[:, None, None, :] == 0, min) */
static void mask_padding(struct run *r, val mask, val mask_2d, int64_t b, int64_t s)
{
    val padding = local(r, pointwise_op(r, OP_ADD, dtype_of(r, mask), mask, view(r, mask_2d, SHAPE(b, 1, 1, s))));

    rebind(r, &padding, compare(r, OP_EQ, padding, 0));
    consume(r, masked_fill(r, mask, padding));
}

/* _prepare_4d_causal_attention_mask_with_cache_position; without a mask it is one longer than the keys are */
static val mask_of_positions(struct run *r, enum dtype dtype, val mask_2d, val position, int64_t b, int64_t s)
{
    struct frame f = frame_enter(r);
    int64_t target = mask_2d ? s : s + 1;
    val mask = local(r, factory(r, OP_FULL, dtype, SHAPE(s, target))), grid;

    if (s != 1)
        rebind(r, &mask, factory(r, OP_TRIU, dtype, SHAPE(s, target)));
    grid = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(target));
    consume(r, compare(r, OP_GT, grid, view(r, position, SHAPE(-1, 1)))); /* multiplied in place */
    rebind(r, &mask, expand(r, view(r, mask, SHAPE(1, 1, s, target)), SHAPE(b, 1, s, target)));
    if (mask_2d && !run_dead(r)) {
        rebind(r, &mask, clone(r, mask));
        mask_padding(r, mask, mask_2d, b, s);
    }
    return frame_leave(r, f, mask);
}

/* (attention_mask == 0.0).any(); `0.0 in attention_mask` does the same */
static void look_for_zeros(struct run *r, val mask_2d)
{
    val zeros = compare(r, OP_EQ, mask_2d, 0);

    consume(r, factory(r, OP_ANY, DTYPE_BOOL, 0, NULL));
    consume(r, zeros);
}

val causal_mask_by_position(struct run *r, struct model *m, val embeds, val mask_2d, val position)
{
    struct frame f = frame_enter(r);
    int64_t b, s;
    val mask;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    b = size_of(r, embeds, 0);
    s = size_of(r, embeds, 1);
    if (m->attention == KERNEL_FLASH_2) {
        if (mask_2d)
            look_for_zeros(r, mask_2d);
        return frame_leave(r, f, flash_mask_440(m, mask_2d));
    }
    if (m->attention == KERNEL_SDPA && mask_is_full_440(r, m, mask_2d))
        return frame_leave(r, f, 0);
    mask = local(r, mask_of_positions(r, dtype_of(r, embeds), mask_2d, position, b, s));
    if (m->attention == KERNEL_SDPA)
        rebind(r, &mask, unmask_unattended_440(r, mask, b, s));
    if (!mask_2d) /* attention_mask[:, :, :, : key.shape[-2]] of each layer: a view */
        rebind(r, &mask, slice(r, mask, 3, 0, s));
    return frame_leave(r, f, mask);
}

val sdpa_of_class(struct run *r, val q, val k, val v, val mask, double dropout_p)
{
    struct frame f = frame_enter(r);
    val out = local(r, scaled_dot_product_attention(r, q, k, v, mask, dropout_p, !mask, false));

    rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    return frame_leave(r, f, out);
}
