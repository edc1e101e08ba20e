/*
 * gpt2.c - GPT-2: learned positions, one Conv1D for query, key and value.
 */
#include "models/families.h"
#include "models/gpt.h"

/* -------------------------------------------------------------------------------------------------------- declaration */
static void declare_attention(struct model *m, struct gpt_layer *l)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    if (m->q->gpt2_causal_buffer)
        l->bias = buffer_add(t, l->attn, "bias", DTYPE_BOOL, SHAPE(1, 1, a->max_positions, a->max_positions));
    if (m->q->gpt_masked_bias)
        (void)buffer_add(t, l->attn, "masked_bias", t->dtype, 0, NULL);
    l->qkv = gpt_linear(l, l->attn, "c_attn", a->hidden, 3 * (int64_t)a->hidden, true);
    l->out = gpt_linear(l, l->attn, "c_proj", a->hidden, a->hidden, true);
    l->attn_dropout = dropout_module(t, l->attn, "attn_dropout", a->attention_dropout);
    l->resid_dropout = dropout_module(t, l->attn, "resid_dropout", a->residual_dropout);
}

/* ---------------------------------------------------------------------------------------------------------- attention */
/* weights = torch.where(self.bias[:, :, k - q : k, :k], weights, full([], min)) */
static void mask_causally(struct run *r, const struct gpt_layer *l, val *weights)
{
    int64_t s = size_of(r, *weights, -1);
    val causal = l->bias->value, least;

    causal = local(r, slice(r, slice(r, causal, 2, 0, s), 3, 0, s));
    least = local(r, factory(r, OP_FULL, dtype_of(r, *weights), 0, NULL));
    rebind(r, weights, where(r, causal, *weights, least));
}

/* q k^T, scaled; a local of the caller's */
static val scores(struct run *r, const struct gpt_layer *l, val q, val k)
{
    const struct arch *a = l->model->arch;
    val weights = matmul(r, q, transpose(r, k, -1, -2));

    if (l->model->q->gpt2_scaling_number)
        return local(r, mul_scalar(r, weights));
    weights = local(r, weights);
    if (a->scale_attn_weights)
        rebind(r, &weights, divide(r, weights, factory(r, OP_FULL, dtype_of(r, weights), 0, NULL)));
    if (a->scale_attn_by_inverse_layer_idx)
        rebind(r, &weights, div_scalar(r, weights));
    return weights;
}

/* GPT2Attention._attn, then eager_attention_forward, which hands over [batch, seq, heads, head_dim] */
static struct two eager(struct run *r, const struct gpt_layer *l, val q, val k, val v, val mask)
{
    struct frame f = frame_enter(r);
    const struct quirks *quirks = l->model->q;
    struct two ret;
    val weights = scores(r, l, q, k), out;

    if (l->bias)
        mask_causally(r, l, &weights);
    if (mask)
        rebind(r, &weights, add(r, weights, mask));
    rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    rebind(r, &weights, to_dtype(r, weights, dtype_of(r, v)));
    rebind(r, &weights, quirks->gpt2_scaling_number ? dropout(r, weights, l->model->arch->attention_dropout) : call(r, l->attn_dropout, weights));
    out = local(r, matmul(r, weights, v));
    if (quirks->gpt2_attention_functions)
        rebind(r, &out, transpose(r, out, 1, 2));
    ret = (struct two){give(r, out), give(r, weights)};
    (void)frame_leave(r, f, 0);
    return ret;
}

/* GPT2Attention._upcast_and_reordered_attn: fp32 scores by baddbmm into a tensor made for them, outside autocast */
static struct two upcast_and_reordered(struct run *r, const struct gpt_layer *l, val q, val k, val v, val mask)
{
    struct frame f = frame_enter(r);
    int64_t b = size_of(r, q, 0), h = size_of(r, q, 1), s = size_of(r, q, 2), d = size_of(r, q, 3);
    bool autocast = r->autocast;
    struct two ret;
    val weights, query, key, out;

    weights = local(r, empty(r, DTYPE_FP32, SHAPE(b * h, s, s)));
    r->autocast = false;
    query = local(r, reshape(r, q, SHAPE(-1, s, d)));
    key = local(r, reshape(r, transpose(r, k, -1, -2), SHAPE(-1, d, s)));
    query = to_dtype(r, query, DTYPE_FP32);
    key = to_dtype(r, key, DTYPE_FP32);
    rebind(r, &weights, baddbmm(r, weights, query, key, l->model->arch->scale_attn_weights));
    rebind(r, &weights, reshape(r, weights, SHAPE(b, h, s, s)));
    r->autocast = autocast;
    if (l->bias)
        mask_causally(r, l, &weights);
    if (mask)
        rebind(r, &weights, add(r, weights, mask));
    rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    rebind(r, &weights, to_dtype(r, weights, dtype_of(r, v)));
    rebind(r, &weights, call(r, l->attn_dropout, weights));
    out = local(r, matmul(r, weights, v));
    if (l->model->q->gpt2_attention_functions)
        rebind(r, &out, transpose(r, out, 1, 2));
    ret = (struct two){give(r, out), give(r, weights)};
    (void)frame_leave(r, f, 0);
    return ret;
}

static val heads(struct run *r, val x, int64_t n)
{
    return transpose(r, view(r, x, SHAPE(size_of(r, x, 0), size_of(r, x, 1), n, -1)), 1, 2);
}

static struct two kernel(struct run *r, struct gpt_layer *l, val q, val k, val v, val mask)
{
    struct model *m = l->model;
    struct attention_call c = {.mask = mask, .dropout = m->arch->attention_dropout, .groups = 1};

    if (m->attention == KERNEL_SDPA && !m->q->gpt2_attention_functions)
        return (struct two){sdpa_of_class(r, q, k, v, mask, c.dropout), 0};
    if (m->attention != KERNEL_EAGER)
        return (struct two){attention_interface(r, m, q, k, v, &c), 0};
    if (m->arch->reorder_and_upcast_attn)
        return upcast_and_reordered(r, l, q, k, v, mask);
    return eager(r, l, q, k, v, mask);
}

/* GPT2Attention.forward */
static struct two attention(struct run *r, struct gpt_layer *l, val x, val mask)
{
    const struct arch *a = l->model->arch;
    const struct quirks *q = l->model->q;
    int64_t width = a->hidden, rows, seq;
    struct frame f = module_enter(r, l->attn);
    struct two ret = {0};
    val part[3], out, weights;

    if (run_dead(r))
        return ret;
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    split(r, call(r, l->qkv, x), 2, 3, (int64_t[]){width, width, width}, part);
    for (int i = 0; i < 3; i++)
        (void)local(r, part[i]);
    for (int i = 0; i < 3 && !run_dead(r); i++) { /* key, value, query since masking_utils came */
        int k = q->gpt2_create_mask ? (i + 1) % 3 : i;

        rebind(r, &part[k], heads(r, part[k], a->heads));
    }
    cache_update(r, l->model, l->index, &part[1], &part[2]);
    if (!run_dead(r))
        ret = kernel(r, l, part[0], part[1], part[2], mask);
    out = local(r, ret.a);
    weights = local(r, ret.b);
    if (!q->gpt2_attention_functions && l->model->attention == KERNEL_EAGER) /* _merge_heads */
        rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    rebind(r, &out, reshape(r, out, SHAPE(rows, seq, -1)));
    if (!q->gpt2_attention_functions && l->model->attention == KERNEL_FLASH_2) /* attn_weights_reshaped */
        (void)local(r, out);
    rebind(r, &out, call(r, l->out, out));
    rebind(r, &out, call(r, l->resid_dropout, out));
    ret = (struct two){give(r, out), q->gpt2_cache_class ? give(r, weights) : 0};
    (void)frame_leave(r, f, 0);
    return ret;
}

/* -------------------------------------------------------------------------------------------------------------- model */
static const struct gpt_style style = {.conv1d = true, .declare_attention = declare_attention, .attention = attention};

static void declare(struct model *m)
{
    struct gpt *p;

    if (!m->q->gpt2_sdpa && m->attention == KERNEL_SDPA)
        m->attention = KERNEL_EAGER; /* no SDPA class: transformers falls back */
    p = gpt_declare(m, &style);
    if (!p)
        return;
    p->by_place = true;
    p->block_in_tuple = m->q->gpt2_block_in_tuple;
}

/* Before cache_position: position ids of their own, and masks as each kernel's class takes them */
static val mask_before_positions(struct run *r, struct model *m, val embeds, val mask_2d)
{
    if (m->attention == KERNEL_FLASH_2)
        return flash_mask_440(m, mask_2d);
    if (!mask_2d)
        return 0;
    return local(r, m->attention == KERNEL_SDPA ? causal_mask_4d_440(r, m, embeds, mask_2d, 0, true) : additive_mask_440(r, m, mask_2d));
}

/* GPT2Model.forward */
static val model_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct gpt *p = m->parts;
    struct frame f = module_enter(r, p->transformer);
    const struct quirks *q = m->q;
    val ids, embeds, positions, hidden;
    int64_t seq;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    seq = size_of(r, b->ids, 1);
    embeds = q->gpt2_cache_class ? local(r, call_embeddings(r, m, b->ids)) : 0;
    ids = gpt_all_positions(r, m, seq);
    if (!q->gpt2_sdpa)
        p->mask = mask_before_positions(r, m, 0, b->mask);
    if (!q->gpt2_cache_class)
        embeds = local(r, call_embeddings(r, m, b->ids));
    positions = local(r, call(r, p->wpe, ids));
    hidden = local(r, add(r, embeds, positions));
    if (q->gpt2_create_mask)
        p->mask = local(r, causal_mask(r, m, embeds, b->mask, ids, 0));
    else if (q->gpt2_cache_class)
        p->mask = local(r, causal_mask_by_position(r, m, embeds, b->mask, ids));
    else if (q->gpt2_sdpa)
        p->mask = mask_before_positions(r, m, embeds, b->mask);
    rebind(r, &hidden, call(r, p->dropout, hidden));
    p->position = q->gpt2_cache_class && q->gpt_all_cache_position ? ids : 0;
    p->ids = m->position_ids = q->gpt2_position_keyword ? ids : 0;
    return frame_leave(r, f, gpt_blocks(r, m, hidden));
}

static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    gpt_forward(r, m, b, ret, model_forward);
}

const struct family_program gpt2_program = {"gpt2", "models/gpt2/modeling_gpt2.py", declare, forward, true, false};
