#include "models/loss.h"

val causal_lm_loss(struct run *r, val logits, val labels, bool by_items)
{
    struct frame f = frame_enter(r);
    val upcast, padded, shift, loss;
    int64_t rows, seq, vocab;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    rows = size_of(r, labels, 0);
    seq = size_of(r, labels, 1);
    vocab = size_of(r, logits, -1);
    upcast = local(r, to_dtype(r, logits, DTYPE_FP32));
    padded = local(r, factory(r, OP_CONSTANT_PAD, DTYPE_INT64, SHAPE(rows, seq + 1)));
    shift = local(r, contiguous(r, slice(r, padded, -1, 1, seq + 1)));
    rebind(r, &upcast, view(r, upcast, SHAPE(-1, vocab)));
    rebind(r, &shift, view(r, shift, SHAPE(-1)));
    loss = local(r, cross_entropy(r, upcast, shift));
    if (by_items)
        rebind(r, &loss, div_scalar(r, loss));
    return frame_leave(r, f, loss);
}
