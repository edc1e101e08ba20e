/*
 * gpt_bigcode.c - GPTBigCode (santacoder, starcoder): GPT-2 with one key and value head, or one of each a head.
 *
 * Not modelled  eager attention of 4.40 below fp32: its softmax is TorchScript, whose executor fuses kernels as it warms up.
 */
#include "models/families.h"
#include "models/gpt.h"

/* -------------------------------------------------------------------------------------------------------- declaration */
static void declare_attention(struct model *m, struct gpt_layer *l)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->qkv = gpt_linear(l, l->attn, "c_attn", a->hidden, a->hidden + 2 * (int64_t)a->kv_heads * a->head_dim, true);
    l->out = gpt_linear(l, l->attn, "c_proj", a->hidden, a->hidden, true);
    if (!m->q->bigcode_interface) /* later the rate alone is kept */
        l->attn_dropout = dropout_module(t, l->attn, "attn_dropout", a->attention_dropout);
    l->resid_dropout = dropout_module(t, l->attn, "resid_dropout", a->residual_dropout);
}

/* --------------------------------------------------------------------------------------------------- attention of 5.x */
static struct two attention(struct run *r, struct gpt_layer *l, val x, val mask)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    int64_t rows, seq, d = a->head_dim;
    struct two ret = {0};
    struct attention_call c = {
        .mask = mask, .dropout = a->attention_dropout, .groups = a->heads / a->kv_heads, .weights = &ret.b};
    val part[3], out, weights;

    if (run_dead(r))
        return ret;
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    out = call(r, l->qkv, x);
    if (a->multi_query) {
        split_with_sizes(r, unsqueeze(r, out, 1), 3, 3, (int64_t[]){a->hidden, d, d}, part);
    } else {
        out = transpose(r, view(r, out, SHAPE(rows, seq, a->heads, 3 * d)), 1, 2);
        split_with_sizes(r, out, 3, 3, (int64_t[]){d, d, d}, part);
    }
    for (int i = 0; i < 3; i++)
        (void)local(r, part[i]);
    if (a->multi_query)
        rebind(r, &part[0], transpose(r, view(r, part[0], SHAPE(rows, seq, -1, d)), 1, 2));
    cache_update(r, l->model, l->index, &part[1], &part[2]);
    out = local(r, attention_interface(r, l->model, part[0], part[1], part[2], &c));
    weights = local(r, ret.b);
    rebind(r, &out, contiguous(r, reshape(r, out, SHAPE(rows, seq, -1))));
    rebind(r, &out, call(r, l->out, out));
    rebind(r, &out, call(r, l->resid_dropout, out));
    ret = (struct two){give(r, out), give(r, weights)};
    (void)frame_leave(r, f, 0);
    return ret;
}

/* -------------------------------------------------------------------------------------------------- attention of 4.40 */
/* GPTBigCodeSdpaAttention._attn; the mask always stands */
static val attn_sdpa(struct run *r, const struct gpt_layer *l, val q, val k, val v, val mask)
{
    const struct arch *a = l->model->arch;
    struct frame f = frame_enter(r);
    int64_t rows = size_of(r, q, 0), seq = size_of(r, q, 1), d = a->head_dim;
    val out;

    q = local(r, q);
    k = local(r, k);
    v = local(r, v);
    if (a->multi_query) {
        rebind(r, &q, transpose(r, view(r, q, SHAPE(rows, seq, a->heads, d)), 1, 2));
        rebind(r, &k, unsqueeze(r, k, 1));
        rebind(r, &v, unsqueeze(r, v, 1));
        rebind(r, &k, expand(r, k, SHAPE(-1, a->heads, -1, -1)));
        rebind(r, &v, expand(r, v, SHAPE(-1, a->heads, -1, -1)));
    } else {
        rebind(r, &q, contiguous(r, q));
        rebind(r, &k, contiguous(r, k));
        rebind(r, &v, contiguous(r, v));
    }
    out = local(r, scaled_dot_product_attention(r, q, k, v, mask, a->attention_dropout, false, false));
    if (a->multi_query) {
        rebind(r, &out, transpose(r, out, 1, 2));
        rebind(r, &out, reshape(r, out, SHAPE(rows, seq, a->hidden)));
    }
    return frame_leave(r, f, out);
}

/* _get_mask_value: kept by the module from its first forward on */
static val mask_value(struct run *r, struct gpt_layer *l, enum dtype dtype)
{
    if (!l->mask_value)
        l->mask_value = factory(r, OP_FULL, dtype, 0, NULL);
    if (l->mask_value)
        r->values[l->mask_value].floating = false;
    return l->mask_value;
}

/* GPTBigCodeAttention._attn where the softmax is not upcast: baddbmm into a tensor made for it; k comes transposed */
static val attn_eager(struct run *r, struct gpt_layer *l, val q, val k, val v, val mask)
{
    const struct arch *a = l->model->arch;
    struct frame f = frame_enter(r);
    int64_t rows = size_of(r, q, 0), seq = size_of(r, k, -1), d = a->head_dim, h = a->heads;
    int64_t batches = a->multi_query ? rows : rows * h, lines = a->multi_query ? seq * h : seq;
    val weights, out;

    q = local(r, q);
    k = local(r, k);
    v = local(r, v);
    if (a->attention_softmax_in_fp32 && dtype_of(r, q) != DTYPE_FP32)
        run_fail(r, ERR_FIELD_CONFLICT, "/training/attention",
                 "eager attention of gpt_bigcode runs TorchScript kernels before transformers 5; that is not modelled, take sdpa");
    rebind(r, &q, reshape(r, q, SHAPE(batches, lines, d)));
    if (!a->multi_query)
        rebind(r, &k, reshape(r, k, SHAPE(batches, d, seq)));
    weights = local(r, empty(r, dtype_of(r, q), SHAPE(batches, lines, seq)));
    out = baddbmm(r, weights, q, k, a->scale_attn_weights);
    rebind(r, &weights, a->multi_query ? view(r, out, SHAPE(rows, seq, h, seq)) : view(r, out, SHAPE(rows, h, seq, seq)));
    rebind(r, &weights, where(r, mask, weights, mask_value(r, l, dtype_of(r, weights))));
    rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    rebind(r, &weights, call(r, l->attn_dropout, weights));
    if (a->multi_query)
        out = view(r, bmm(r, view(r, weights, SHAPE(batches, lines, seq)), v), SHAPE(rows, seq, a->hidden));
    else
        out = matmul(r, weights, v);
    return frame_leave(r, f, local(r, out));
}

static val attn_flash(struct run *r, const struct gpt_layer *l, val q, val k, val v, val mask)
{
    const struct arch *a = l->model->arch;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = a->heads / a->kv_heads};
    struct frame f = frame_enter(r);

    q = local(r, q);
    k = local(r, k);
    v = local(r, v);
    if (a->multi_query) {
        rebind(r, &q, transpose(r, view(r, q, SHAPE(size_of(r, q, 0), size_of(r, q, 1), a->heads, a->head_dim)), 1, 2));
        rebind(r, &k, unsqueeze(r, k, 1));
        rebind(r, &v, unsqueeze(r, v, 1));
    }
    return frame_leave(r, f, local(r, flash_attention_2(r, l->model, q, k, v, &c)));
}

static val attn_440(struct run *r, struct gpt_layer *l, val q, val k, val v, val mask)
{
    switch (l->model->attention) {
    case KERNEL_SDPA:
        return attn_sdpa(r, l, q, k, v, mask);
    case KERNEL_EAGER:
        return attn_eager(r, l, q, transpose(r, k, -1, -2), v, mask);
    default:
        return attn_flash(r, l, q, k, v, mask);
    }
}

static struct two attention_before(struct run *r, struct gpt_layer *l, val x, val mask)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    int64_t rows, seq, d = a->head_dim;
    struct two ret = {0};
    val part[2], kv[2], out;

    if (run_dead(r))
        return ret;
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    out = call(r, l->qkv, x);
    if (a->multi_query) {
        split_with_sizes(r, out, 2, 2, (int64_t[]){a->hidden, 2 * d}, part);
    } else {
        out = transpose(r, view(r, out, SHAPE(rows, seq, a->heads, 3 * d)), 1, 2);
        split_with_sizes(r, out, 3, 2, (int64_t[]){d, 2 * d}, part);
    }
    (void)local(r, part[0]);
    (void)local(r, part[1]);
    split_with_sizes(r, part[1], -1, 2, (int64_t[]){d, d}, kv);
    (void)local(r, kv[0]);
    (void)local(r, kv[1]);
    out = local(r, run_dead(r) ? 0 : attn_440(r, l, part[0], kv[0], kv[1], mask));
    if (!a->multi_query && l->model->attention != KERNEL_FLASH_2)
        rebind(r, &out, transpose(r, out, 1, 2));
    rebind(r, &out, reshape(r, out, SHAPE(rows, seq, a->hidden)));
    if (l->model->attention == KERNEL_FLASH_2) /* attn_weights_reshaped */
        (void)local(r, out);
    rebind(r, &out, call(r, l->out, out));
    rebind(r, &out, call(r, l->resid_dropout, out));
    ret = (struct two){give(r, out), l->model->use_cache ? give(r, part[1]) : 0};
    (void)frame_leave(r, f, 0);
    return ret;
}

/* -------------------------------------------------------------------------------------------------------------- model */
static const struct gpt_style style = {.declare_attention = declare_attention, .attention = attention};
static const struct gpt_style style_440 = {.declare_attention = declare_attention, .attention = attention_before};

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    const struct quirks *q = m->q;
    struct gpt *p;

    if (q->bigcode_never_checkpoints)
        m->checkpointing = false;
    m->cache_checkpointed = !q->bigcode_cache_off;
    p = gpt_declare(m, q->bigcode_interface ? &style : &style_440);
    if (!p)
        return;
    p->by_place = !q->bigcode_keywords;
    p->block_in_tuple = q->bigcode_block_in_tuple;
    p->second = !q->bigcode_block_in_tuple ? GPT_SECOND_NONE : q->bigcode_interface ? GPT_SECOND_WEIGHTS
                : m->use_cache ? GPT_SECOND_CACHE : GPT_SECOND_NONE;
    p->bias = buffer_add(&m->tree, p->transformer, "bias", DTYPE_BOOL, SHAPE(a->max_positions, a->max_positions));
}

/* 4.40: attention_mask.long().cumsum(-1) - 1, ones where it is padding */
static val position_ids_440(struct run *r, val mask_2d)
{
    val ids = local(r, sub_scalar(r, cumsum(r, mask_2d, -1)));

    consume(r, compare(r, OP_EQ, mask_2d, 0)); /* filled in place */
    return ids;
}

/* 4.40: the causal buffer times the padding; for SDPA as numbers, rows without a key unmasked */
static val self_attention_mask_440(struct run *r, struct model *m, const struct gpt *p, const struct batch *b)
{
    int64_t rows = size_of(r, b->ids, 0), s = size_of(r, b->ids, 1);
    val mask, padding, zero, least;

    mask = local(r, slice(r, slice(r, unsqueeze(r, p->bias->value, 0), 1, 0, s), 2, 0, s));
    if (b->mask) {
        padding = to_dtype(r, view(r, b->mask, SHAPE(rows, 1, s)), DTYPE_BOOL);
        rebind(r, &mask, pointwise_op(r, OP_MUL, DTYPE_BOOL, mask, padding));
    }
    rebind(r, &mask, unsqueeze(r, mask, m->arch->multi_query ? 2 : 1));
    if (m->attention != KERNEL_SDPA)
        return mask;
    zero = factory(r, OP_FULL, m->tree.dtype, 0, NULL);
    least = factory(r, OP_FULL, m->tree.dtype, 0, NULL);
    rebind(r, &mask, where(r, mask, zero, least));
    if (m->arch->multi_query)
        rebind(r, &mask, transpose(r, mask, 1, 2));
    if (s > 1 && b->mask)
        rebind(r, &mask, unmask_unattended_440(r, mask, rows, s));
    return mask;
}

/* 4.40: attention_mask.bool() if 0 in attention_mask */
static val bool_mask(struct run *r, const struct model *m, val mask_2d)
{
    return m->padded && mask_2d ? local(r, to_dtype(r, mask_2d, DTYPE_BOOL)) : 0;
}

/* GPTBigCodeModel.forward */
static val model_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct gpt *p = m->parts;
    struct frame f = module_enter(r, p->transformer);
    val ids, embeds, positions, hidden;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (m->q->bigcode_interface) {
        embeds = local(r, call_embeddings(r, m, b->ids));
        ids = gpt_all_positions(r, m, size_of(r, b->ids, 1));
        p->position = m->q->gpt_all_cache_position ? ids : 0;
        p->mask = local(r, causal_mask(r, m, embeds, b->mask, ids, 0));
    } else {
        ids = b->mask ? position_ids_440(r, b->mask) : gpt_all_positions(r, m, size_of(r, b->ids, 1));
        p->mask = m->attention == KERNEL_FLASH_2 ? bool_mask(r, m, b->mask) : self_attention_mask_440(r, m, p, b);
        embeds = local(r, call_embeddings(r, m, b->ids));
    }
    positions = local(r, call(r, p->wpe, ids));
    hidden = local(r, add(r, embeds, positions));
    rebind(r, &hidden, call(r, p->dropout, hidden));
    return frame_leave(r, f, gpt_blocks(r, m, hidden));
}

static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    gpt_forward(r, m, b, ret, model_forward);
}

const struct family_program gpt_bigcode_program = {
    "gpt_bigcode", "models/gpt_bigcode/modeling_gpt_bigcode.py", declare, forward, true, false};
