/* flash.c - attention through the flash-attn package: integrations/flash_attention.py, modeling_flash_attention_utils.py. */
#include "models/blocks.h"

/* masking_utils.flash_attention_mask: if attention_mask.all(): attention_mask = None */
val flash_attention_mask(struct run *r, struct model *m, val mask)
{
    consume(r, factory(r, OP_ALL, DTYPE_BOOL, 0, NULL));
    return m->padded ? mask : 0;
}

val flash_attention_2(struct run *r, struct model *m, val q, val k, val v, const struct attention_call *c)
{
    struct frame f = frame_enter(r);
    val out;

    (void)m;
    q = local(r, transpose(r, q, 1, 2));
    k = local(r, transpose(r, k, 1, 2));
    v = local(r, transpose(r, v, 1, 2));
    if (c->mask)
        run_fail(r, ERR_FIELD_CONFLICT, "/training/attention", "flash_attention_2 on a padded batch is not modelled");
    out = flash_attn_func(r, q, k, v, c->dropout);
    return frame_leave(r, f, out);
}
