/* flash.c - attention through the flash-attn package: integrations/flash_attention.py, modeling_flash_attention_utils.py. */
#include "models/blocks.h"

/* masking_utils.flash_attention_mask: if attention_mask.all(): attention_mask = None */
val flash_attention_mask(struct run *r, struct model *m, val mask)
{
    consume(r, factory(r, OP_ALL, DTYPE_BOOL, 0, NULL));
    return m->padded ? mask : 0;
}

/* _is_packed_sequence: a batch of one row may be several sequences behind one another; positions that start anew tell. The answer is a temporary. */
static val is_packed(struct run *r, val ids, bool one)
{
    struct frame f = frame_enter(r);
    val steps, least, increasing, off;

    steps = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, ids, 1)));
    least = factory(r, OP_MIN, DTYPE_INT64, 0, NULL);
    increasing = local(r, add(r, steps, least));
    if (!one)
        return frame_leave(r, f, 0);
    off = pointwise_op(r, OP_ABS, DTYPE_INT64, sub(r, increasing, ids), 0);
    return frame_leave(r, f, to_dtype(r, sum_all(r, off), DTYPE_BOOL));
}

/* not (torch.diff(position_ids, dim=-1) >= 0).all() */
static void look_for_falling(struct run *r, val ids)
{
    val steps = factory(r, OP_SUB, DTYPE_INT64, SHAPE(size_of(r, ids, 0), size_of(r, ids, 1) - 1));
    val rising = compare(r, OP_GE, steps, 0);

    consume(r, factory(r, OP_ALL, DTYPE_BOOL, 0, NULL));
    consume(r, rising);
}

/* The values of the quirk flash_looks_for_packing. */
enum { PACKING_BY_ORDER = 1, PACKING_BY_ORDER_OF_ONE, PACKING_TAKEN, PACKING_KEPT, PACKING_UNMASKED, PACKING_OF_ONE };

/* What _flash_attention_forward asks of position ids; some releases keep the answer to their end. */
static void look_at_positions(struct run *r, const struct model *m, val q, bool masked)
{
    bool one = size_of(r, q, 0) == 1;
    int how = m->q->flash_looks_for_packing;

    if (!m->position_ids || size_of(r, q, 1) < 2 || (masked && how != PACKING_BY_ORDER_OF_ONE && how != PACKING_KEPT))
        return;
    if (how == PACKING_BY_ORDER || (how == PACKING_BY_ORDER_OF_ONE && one))
        look_for_falling(r, m->position_ids);
    if (how == PACKING_TAKEN)
        run_fail(r, ERR_FIELD_CONFLICT, "/stack/transformers",
                 "4.54 cuts every batch without padding into sequences by its position ids (modeling_flash_attention_utils.py _prepare_from_posids); that is "
                 "not modelled");
    if (how == PACKING_KEPT)
        (void)local(r, is_packed(r, m->position_ids, one));
    if (how == PACKING_UNMASKED || (how == PACKING_OF_ONE && one))
        consume(r, is_packed(r, m->position_ids, one));
}

/* A padded row is one token short: how many are is data, and fewer are less. */
enum { PADDING_OF_A_ROW = 1 };

/* _get_unpad_data(attention_mask): indices of the tokens; *cumulative: lengths of the rows, summed up; *longest: 0 where .item() reads it */
static val unpad_data(struct run *r, const struct model *m, val mask, val *cumulative, val *longest)
{
    struct frame f = frame_enter(r);
    int64_t rows = size_of(r, mask, 0), seq = size_of(r, mask, 1), tokens = rows * (m->padded ? seq - PADDING_OF_A_ROW : seq);
    val indices, sums, lengths = local(r, factory(r, OP_SUM, DTYPE_INT32, SHAPE(rows)));

    scratch(r, OP_TO_COPY, (uint64_t)(rows * seq * 4)); /* sum(dtype=int32) casts first */
    indices = local(r, factory(r, OP_NONZERO, DTYPE_INT64, SHAPE(tokens)));
    *longest = local(r, factory(r, OP_MAX, DTYPE_INT32, 0, NULL));
    if (!m->q->flash_keeps_longest)
        drop(r, longest);
    sums = cumsum_as(r, lengths, 0, DTYPE_INT32);
    *cumulative = give(r, local(r, factory(r, OP_CONSTANT_PAD, DTYPE_INT32, SHAPE(rows + 1))));
    consume(r, sums);
    *longest = give(r, *longest);
    return frame_leave(r, f, indices);
}

/* The rows of x that are tokens: flash_attn's IndexFirstAxis makes a row of all heads, and copies what is not laid out like that */
static val tokens_of(struct run *r, const struct model *m, val x, val indices)
{
    int64_t d = size_of(r, x, 3), rows = size_of(r, x, 0) * size_of(r, x, 1);

    if (!m->q->flash_indexes)
        x = view(r, reshape(r, x, SHAPE(rows, -1)), SHAPE(rows, -1, d));
    else
        x = reshape(r, m->q->flash_lays_out_tokens ? contiguous(r, x) : x, SHAPE(rows, -1, d));
    return local(r, index_first(r, m->q->flash_indexes ? OP_INDEX : OP_INDEX_FIRST, x, indices));
}

/* _flash_attention_forward with a mask: _upad_input(), flash_attn_varlen_func(), pad_input() */
static val without_padding(struct run *r, struct model *m, val q, val k, val v, val mask)
{
    struct frame f = frame_enter(r);
    int64_t rows, seq, d;
    val indices, cumulative, longest = 0, out;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    rows = size_of(r, q, 0), seq = size_of(r, q, 1), d = size_of(r, q, 3);
    indices = local(r, unpad_data(r, m, mask, &cumulative, &longest));
    cumulative = local(r, cumulative);
    (void)local(r, longest);
    k = tokens_of(r, m, k, indices);
    v = tokens_of(r, m, v, indices);
    q = tokens_of(r, m, q, indices);
    out = local(r, flash_attn_varlen(r, q, k, v, cumulative, rows));
    out = index_put_first(r, out, indices, rows * seq);
    return frame_leave(r, f, view(r, out, SHAPE(rows, seq, -1, d)));
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
    if (!run_dead(r) && dtype_of(r, q) == DTYPE_FP32) { /* fa_peft_integration_check(); the caller's own stay until it returns */
        q = local(r, to_dtype(r, q, flash_dtype(r, m)));
        k = local(r, to_dtype(r, k, flash_dtype(r, m)));
        v = local(r, to_dtype(r, v, flash_dtype(r, m)));
    }
    if (!run_dead(r))
        look_at_positions(r, m, q, c->mask != 0);
    if (c->mask)
        return frame_leave(r, f, without_padding(r, m, q, k, v, c->mask));
    out = flash_attn_func(r, q, k, v);
    return frame_leave(r, f, out);
}
