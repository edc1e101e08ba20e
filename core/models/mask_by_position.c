/* mask_by_position.c - causal masks made of cache_position, as model files wrote them until masking_utils.py. */
#include "models/blocks.h"

enum { NO_WINDOW = -1 }; /* the class knows none */

/* padding_mask = causal_mask[:, :, :, :n] + attention_mask[:, None, None, :] == 0; 4.40.0: a product of two comparisons */
static val padded_places(struct run *r, const struct model *m, val mask, val wide)
{
    val places;

    if (!m->q->mask_adds_padding) {
        places = local(r, compare(r, OP_EQ, mask, 0));
        rebind(r, &places, pointwise_op(r, OP_MUL, DTYPE_BOOL, places, compare(r, OP_EQ, wide, 0)));
    } else {
        enum dtype sum = dtype_of(r, wide) == DTYPE_FP32 ? DTYPE_FP32 : dtype_of(r, mask); /* ones that stand for no mask are fp32 */

        places = local(r, pointwise_op(r, OP_ADD, sum, mask, wide));
        rebind(r, &places, compare(r, OP_EQ, places, 0));
    }
    return places;
}

/* torch.arange(n) > cache_position.reshape(-1, 1), times the mask in place; a class with a window gives it a name, and adds what lies behind */
static void cut(struct run *r, const struct model *m, val position, int64_t n, int64_t window)
{
    val grid = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(n)), above, behind;

    above = compare(r, OP_GT, grid, view(r, position, SHAPE(-1, 1)));
    if (window == NO_WINDOW) {
        consume(r, above);
        return;
    }
    (void)local(r, above);
    if (!window)
        return;
    grid = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(n));
    behind = compare(r, OP_LE, grid, sub_scalar(r, view(r, position, SHAPE(-1, 1))));
    if (m->q->mask_made_apart) /* sliding_attend_mask */
        (void)local(r, behind);
    else
        consume(r, behind);
}

/* _prepare_4d_causal_attention_mask_with_cache_position; without a mask it is one longer than the keys are */
static val mask_of_positions(struct run *r, const struct model *m, enum dtype dtype, val mask_2d, val position, int64_t b, int64_t s, int64_t window)
{
    int64_t n = mask_2d ? s : s + 1;
    val mask = local(r, factory(r, OP_FULL, dtype, SHAPE(s, n)));

    if (window == NO_WINDOW && s != 1)
        rebind(r, &mask, factory(r, OP_TRIU, dtype, SHAPE(s, n)));
    cut(r, m, position, n, window);
    rebind(r, &mask, expand(r, view(r, mask, SHAPE(1, 1, s, n)), SHAPE(b, 1, s, n)));
    if (mask_2d && !run_dead(r)) {
        rebind(r, &mask, clone(r, mask));
        consume(r, masked_fill(r, mask, padded_places(r, m, mask, view(r, mask_2d, SHAPE(b, 1, 1, s)))));
    }
    return mask;
}

/* (attention_mask == 0.0).any(); before, and where a window is known, `0.0 in attention_mask`, whose temporaries are not traced */
static void look_for_zeros(struct run *r, val mask_2d)
{
    val zeros = compare(r, OP_EQ, mask_2d, 0);

    consume(r, factory(r, OP_ANY, DTYPE_BOOL, 0, NULL));
    consume(r, zeros);
}

void look_for_right_padding(struct run *r, const struct model *m)
{
    if (!m->q->flash_wants_left_padding || !m->use_cache)
        return;
    consume(r, factory(r, OP_SUM, DTYPE_INT64, 0, NULL));
    if (m->padded)
        run_fail(r, ERR_FIELD_CONFLICT, "/stack/transformers",
                 "this release's flash attention of mistral and qwen2 refuses rows that are padded on the right while use_cache is on: modeling_mistral.py, "
                 "modeling_qwen2.py");
}

static val mask_for(struct run *r, struct model *m, enum attention_kernel kernel, val embeds, val mask_2d, val position, int64_t window)
{
    struct frame f = frame_enter(r), apart;
    int64_t b, s, declared = window;
    val mask;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    b = size_of(r, embeds, 0);
    s = size_of(r, embeds, 1);
    if (kernel == KERNEL_FLASH_2) {
        if (mask_2d && window != NO_WINDOW)
            look_for_right_padding(r, m);
        if (mask_2d && m->q->mask_zeros_compared && window == NO_WINDOW)
            look_for_zeros(r, mask_2d);
        return frame_leave(r, f, flash_mask_440(m, mask_2d));
    }
    if (kernel == KERNEL_SDPA && (declared <= 0 || s < declared) && (!mask_2d || mask_is_full_440(r, m, mask_2d)))
        return frame_leave(r, f, 0);
    if (window > 0 && m->q->mask_window_may_be_off)
        window = m->arch->sliding_window;
    if (m->q->mask_made_apart) {
        apart = frame_enter(r);
        mask = local(r, frame_leave(r, apart, mask_of_positions(r, m, dtype_of(r, embeds), mask_2d, position, b, s, window)));
    } else {
        mask = mask_of_positions(r, m, dtype_of(r, embeds), mask_2d, position, b, s, window);
    }
    if (kernel == KERNEL_SDPA && mask_2d)
        rebind(r, &mask, unmask_unattended_440(r, mask, b, s));
    if (!mask_2d) /* attention_mask[:, :, :, : key.shape[-2]] of each layer: a view */
        rebind(r, &mask, slice(r, mask, 3, 0, s));
    return frame_leave(r, f, mask);
}

val causal_mask_in_window(struct run *r, struct model *m, val embeds, val mask_2d, val position, int64_t window)
{
    return mask_for(r, m, m->attention, embeds, mask_2d, position, window);
}

val causal_mask_by_position(struct run *r, struct model *m, val embeds, val mask_2d, val position)
{
    return mask_for(r, m, m->attention, embeds, mask_2d, position, NO_WINDOW);
}

val causal_mask_always(struct run *r, struct model *m, val embeds, val mask_2d, val position)
{
    if (m->attention == KERNEL_FLASH_2)
        return m->q->gemma2_always_unpads ? mask_2d : flash_mask_440(m, mask_2d);
    return mask_for(r, m, KERNEL_EAGER, embeds, mask_2d, position, NO_WINDOW);
}
