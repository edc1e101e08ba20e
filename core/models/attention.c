/* attention.c - the attention functions of transformers since 4.48, and the forms of the classes before. */
#include "models/blocks.h"

/* hidden[:, :, None, :, :].expand(b, kv, n, s, d).reshape(b, kv * n, s, d) */
val repeat_kv(struct run *r, const struct model *m, val x, int64_t n)
{
    struct frame f = frame_enter(r);
    int64_t b, kv, s, d;
    val wide;

    if (run_dead(r) || n == 1)
        return frame_leave(r, f, x);
    (void)local(r, x);
    b = size_of(r, x, 0), kv = size_of(r, x, 1), s = size_of(r, x, 2), d = size_of(r, x, 3);
    wide = x;
    if (m->q->full_slices_are_nodes) /* each `:` is a slice of its own in torch 2.2 */
        for (int dim = 0; dim < 2; dim++)
            wide = slice(r, wide, dim, 0, size_of(r, wide, dim));
    wide = unsqueeze(r, wide, 2);
    if (m->q->full_slices_are_nodes)
        for (int dim = 3; dim < 5; dim++)
            wide = slice(r, wide, dim, 0, size_of(r, wide, dim));
    wide = expand(r, wide, SHAPE(b, kv, n, s, d));
    return frame_leave(r, f, reshape(r, wide, SHAPE(b, kv * n, s, d)));
}

/* use_gqa_in_sdpa */
static bool shares_heads(struct run *r, const struct model *m, val k, val mask)
{
    return m->q->sdpa_shares_heads && m->q->sdpa_enables_gqa && !mask && (!m->q->sdpa_shares_narrow_heads || size_of(r, k, -1) <= 256);
}

/* sdpa_attention.py sdpa_attention_forward */
static val sdpa(struct run *r, struct model *m, val q, val k, val v, const struct attention_call *c)
{
    struct frame f = frame_enter(r);
    bool gqa = false;
    val out;

    q = local(r, q);
    k = local(r, k);
    v = local(r, v);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (c->groups > 1) {
        gqa = shares_heads(r, m, k, c->mask);
        if (!gqa) {
            rebind(r, &k, repeat_kv(r, m, k, c->groups));
            rebind(r, &v, repeat_kv(r, m, v, c->groups));
        }
    }
    if (m->q->sdpa_lays_out_inputs) {
        rebind(r, &q, contiguous(r, q));
        rebind(r, &k, contiguous(r, k));
        rebind(r, &v, contiguous(r, v));
    }
    out = local(r, scaled_dot_product_attention(r, q, k, v, c->mask, c->dropout, !c->mask, gqa));
    rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    return frame_leave(r, f, out);
}

/* eager_attention_forward of modeling_llama.py, before LlamaAttention.forward */
static val eager(struct run *r, struct model *m, val q, val k, val v, const struct attention_call *c)
{
    struct frame f = frame_enter(r);
    val weights, out;
    enum dtype dtype;

    q = local(r, q);
    k = local(r, k);
    v = local(r, v);
    if (run_dead(r))
        return frame_leave(r, f, 0);
    dtype = dtype_of(r, q);
    rebind(r, &k, repeat_kv(r, m, k, c->groups));
    rebind(r, &v, repeat_kv(r, m, v, c->groups));
    weights = matmul(r, q, transpose(r, k, 2, 3));
    weights = local(r, c->scale_by_division ? div_scalar(r, weights) : mul_scalar(r, weights));
    if (c->softcap > 0) {
        rebind(r, &weights, div_scalar(r, weights));
        rebind(r, &weights, tanh_op(r, weights));
        rebind(r, &weights, mul_scalar(r, weights));
    }
    if (c->mask)
        rebind(r, &weights, add(r, weights, c->mask));
    if (c->softmax_as_is)
        rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    else
        rebind(r, &weights, to_dtype(r, softmax(r, weights, DTYPE_FP32), dtype));
    rebind(r, &weights, dropout(r, weights, c->dropout));
    out = local(r, matmul(r, weights, v));
    rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    if (c->weights)
        *c->weights = give(r, weights);
    return frame_leave(r, f, out);
}

/* LlamaSdpaAttention.forward and its like of 4.40: grouped heads are always repeated, a mask wants contiguous heads. */
static val sdpa_440(struct run *r, struct model *m, val *q, val *k, val *v, const struct attention_call *c)
{
    val out;

    rebind(r, k, repeat_kv(r, m, *k, c->groups));
    rebind(r, v, repeat_kv(r, m, *v, c->groups));
    if (c->mask) {
        rebind(r, q, contiguous(r, *q));
        rebind(r, k, contiguous(r, *k));
        rebind(r, v, contiguous(r, *v));
    }
    out = local(r, scaled_dot_product_attention(r, *q, *k, *v, c->mask, c->dropout, !c->mask, false));
    rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    return out;
}

val attention_440(struct run *r, struct model *m, val *q, val *k, val *v, const struct attention_call *c)
{
    if (run_dead(r))
        return 0;
    if (m->attention == KERNEL_SDPA)
        return sdpa_440(r, m, q, k, v, c);
    if (m->attention == KERNEL_EAGER) {
        struct attention_call one = *c;

        rebind(r, k, repeat_kv(r, m, *k, c->groups));
        rebind(r, v, repeat_kv(r, m, *v, c->groups));
        one.groups = 1;
        return eager(r, m, *q, *k, *v, &one);
    }
    return attention_interface(r, m, *q, *k, *v, c);
}

val attention_interface(struct run *r, struct model *m, val q, val k, val v, const struct attention_call *c)
{
    switch (m->attention) {
    case KERNEL_SDPA:
        return sdpa(r, m, q, k, v, c);
    case KERNEL_EAGER:
        return eager(r, m, q, k, v, c);
    default:
        return flash_attention_2(r, m, q, k, v, c);
    }
}

val sdpa_of_class(struct run *r, val q, val k, val v, val mask, double dropout_p)
{
    struct frame f = frame_enter(r);
    val out = local(r, scaled_dot_product_attention(r, q, k, v, mask, dropout_p, !mask, false));

    rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    return frame_leave(r, f, out);
}
