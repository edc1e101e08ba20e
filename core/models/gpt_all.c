#include "models/gpt_all.h"

val gpt_all_positions(struct run *r, const struct model *m, int64_t seq)
{
    val ids = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(seq));

    return local(r, unsqueeze(r, m->q->gpt_all_cache_position ? ids : add_scalar(r, ids), 0));
}

val gpt_all_loss(struct run *r, struct model *m, val logits, val labels)
{
    return m->q->loss_pads_labels ? causal_lm_loss(r, logits, labels, m->counts_items) : shifted_loss(r, m, logits, labels);
}
