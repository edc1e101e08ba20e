/* flash.c - attention through the flash-attn package: integrations/flash_attention.py, modeling_flash_attention_utils.py. */
#include "models/blocks.h"

/* masking_utils.flash_attention_mask: if attention_mask.all(): attention_mask = None */
val flash_attention_mask(struct run *r, struct model *m, val mask)
{
    consume(r, factory(r, OP_ALL, DTYPE_BOOL, 0, NULL));
    return m->padded ? mask : 0;
}

/* _is_packed_sequence: a batch of one row may be several sequences behind one another; positions that start anew tell */
static void look_for_packing(struct run *r, val ids)
{
    struct frame f = frame_enter(r);
    val steps, least, increasing, off;

    steps = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, ids, 1)));
    least = factory(r, OP_MIN, DTYPE_INT64, 0, NULL);
    increasing = local(r, add(r, steps, least));
    off = pointwise_op(r, OP_ABS, DTYPE_INT64, sub(r, increasing, ids), 0);
    consume(r, to_dtype(r, sum_all(r, off), DTYPE_BOOL));
    (void)frame_leave(r, f, 0);
}

/* get_target_dtype(): what autocast computes in, else the dtype of the first linear's weight */
static enum dtype flash_dtype(const struct run *r, const struct model *m)
{
    return r->autocast ? r->autocast_dtype : m->tree.dtype;
}

val flash_attention_2(struct run *r, struct model *m, val q, val k, val v, const struct attention_call *c)
{
    struct frame f = frame_enter(r);
    val out;

    q = local(r, transpose(r, q, 1, 2));
    k = local(r, transpose(r, k, 1, 2));
    v = local(r, transpose(r, v, 1, 2));
    if (c->mask)
        run_fail(r, ERR_FIELD_CONFLICT, "/training/attention", "flash_attention_2 on a padded batch is not modelled");
    if (!run_dead(r) && dtype_of(r, q) == DTYPE_FP32) { /* fa_peft_integration_check(); the caller's own stay until it returns */
        q = local(r, to_dtype(r, q, flash_dtype(r, m)));
        k = local(r, to_dtype(r, k, flash_dtype(r, m)));
        v = local(r, to_dtype(r, v, flash_dtype(r, m)));
    }
    if (m->q->attention_interface && m->position_ids && !run_dead(r) && size_of(r, q, 0) == 1 && size_of(r, q, 1) > 1)
        look_for_packing(r, m->position_ids);
    out = flash_attn_func(r, q, k, v, c->dropout);
    return frame_leave(r, f, out);
}
