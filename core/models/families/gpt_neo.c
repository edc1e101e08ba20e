/*
 * gpt_neo.c - GPT-Neo: GPT-2 with separate projections, scores in fp32 without a scale, every other layer sees a window.
 *
 * The window is in the layer's causal buffer, so global and local layers take the same memory.
 */
#include "models/families.h"
#include "models/gpt.h"

/* -------------------------------------------------------------------------------------------------------- declaration */
static void declare_attention(struct model *m, struct gpt_layer *l)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->inner = container(t, l->attn, "attention");
    l->bias = buffer_add(t, l->inner, "bias", DTYPE_BOOL, SHAPE(1, 1, a->max_positions, a->max_positions));
    if (m->q->gpt_masked_bias)
        (void)buffer_add(t, l->inner, "masked_bias", t->dtype, 0, NULL);
    l->attn_dropout = dropout_module(t, l->inner, "attn_dropout", a->attention_dropout);
    l->resid_dropout = dropout_module(t, l->inner, "resid_dropout", a->residual_dropout);
    l->k = gpt_linear(l, l->inner, "k_proj", a->hidden, a->hidden, false);
    l->v = gpt_linear(l, l->inner, "v_proj", a->hidden, a->hidden, false);
    l->q = gpt_linear(l, l->inner, "q_proj", a->hidden, a->hidden, false);
    l->out = gpt_linear(l, l->inner, "out_proj", a->hidden, a->hidden, true);
}

/* ---------------------------------------------------------------------------------------------------------- attention */
/* GPTNeoSelfAttention._attn */
static struct two attn(struct run *r, const struct gpt_layer *l, val q, val k, val v, val mask)
{
    struct frame f = frame_enter(r);
    int64_t s = size_of(r, k, -2);
    struct two ret;
    val weights, causal, least, out;

    q = local(r, to_dtype(r, q, DTYPE_FP32));
    k = local(r, to_dtype(r, k, DTYPE_FP32));
    weights = local(r, matmul(r, q, transpose(r, k, -1, -2)));
    causal = local(r, slice(r, slice(r, l->bias->value, 2, 0, s), 3, 0, s));
    least = local(r, factory(r, OP_TO_COPY, dtype_of(r, weights), 0, NULL));
    rebind(r, &weights, where(r, causal, weights, least));
    if (mask)
        rebind(r, &weights, add(r, weights, mask));
    rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    rebind(r, &weights, to_dtype(r, weights, dtype_of(r, v)));
    rebind(r, &weights, call(r, l->attn_dropout, weights));
    out = local(r, matmul(r, weights, v));
    ret = (struct two){give(r, out), give(r, weights)};
    (void)frame_leave(r, f, 0);
    return ret;
}

static val heads(struct run *r, const struct gpt_layer *l, val x)
{
    return transpose(r, view(r, x, SHAPE(size_of(r, x, 0), size_of(r, x, 1), l->model->arch->heads, -1)), 1, 2);
}

/* GPTNeoSelfAttention.forward, GPTNeoFlashAttention2.forward */
static struct two self_attention(struct run *r, struct gpt_layer *l, val x, val mask)
{
    struct attention_call c = {.mask = mask, .dropout = l->model->arch->attention_dropout, .groups = 1};
    bool flash = l->model->attention == KERNEL_FLASH_2;
    struct frame f = module_enter(r, l->inner);
    int64_t rows, seq;
    struct two ret = {0};
    val q, k, v, out, beside;

    if (flash && mask && l->model->q->gpt_neo_flash_cuts_mask)
        run_fail(r, ERR_FIELD_CONFLICT, "/training/attention",
                 "GPTNeoFlashAttention2 of this transformers release raises on a padded batch: it slices the 2-D mask by four dimensions");
    if (run_dead(r))
        return ret;
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    q = local(r, call(r, l->q, x));
    k = local(r, call(r, l->k, x));
    v = local(r, call(r, l->v, x));
    if (run_dead(r)) {
        (void)frame_leave(r, f, 0);
        return ret;
    }
    rebind(r, &q, heads(r, l, q));
    rebind(r, &k, heads(r, l, k));
    rebind(r, &v, heads(r, l, v));
    cache_update(r, l->model, l->index, &k, &v);
    if (flash)
        ret.a = flash_attention_2(r, l->model, q, k, v, &c);
    else
        ret = attn(r, l, q, k, v, mask);
    out = local(r, ret.a);
    beside = local(r, ret.b);
    if (!flash) /* _merge_heads */
        rebind(r, &out, contiguous(r, transpose(r, out, 1, 2)));
    rebind(r, &out, reshape(r, out, SHAPE(rows, seq, -1)));
    if (flash) /* attn_weights_reshaped */
        rebind(r, &beside, out);
    rebind(r, &out, call(r, l->out, out));
    rebind(r, &out, call(r, l->resid_dropout, out));
    ret = (struct two){give(r, out), l->model->q->gpt_return_weights ? give(r, beside) : 0};
    (void)frame_leave(r, f, 0);
    return ret;
}

/* GPTNeoAttention.forward */
static struct two attention(struct run *r, struct gpt_layer *l, val x, val mask)
{
    struct frame f = module_enter(r, l->attn);
    struct two ret;

    (void)hold(r, x);
    ret = self_attention(r, l, x, mask);
    (void)frame_leave(r, f, 0);
    return ret;
}

/* -------------------------------------------------------------------------------------------------------------- model */
static const struct gpt_style style = {.declare_attention = declare_attention, .attention = attention};

static void declare(struct model *m)
{
    struct gpt *p;

    if (m->attention == KERNEL_SDPA)
        m->attention = KERNEL_EAGER; /* there is no SDPA class: transformers falls back */
    p = gpt_declare(m, &style);
    if (!p)
        return;
    p->block_in_tuple = true;
    p->second = m->q->gpt_return_weights ? GPT_SECOND_WEIGHTS : GPT_SECOND_NONE;
    p->casts_logits = m->q->gpt_cast_logits;
}

static val causal(struct run *r, struct model *m, val embeds, val mask_2d, val ids)
{
    if (m->q->gpt_create_mask)
        return causal_mask(r, m, embeds, mask_2d, ids, 0);
    if (m->q->gpt_neo_cache_class)
        return causal_mask_by_position(r, m, embeds, mask_2d, ids);
    return m->attention == KERNEL_FLASH_2 ? flash_mask_440(m, mask_2d) : causal_mask_4d_440(r, m, embeds, mask_2d, 0, false);
}

/* GPTNeoModel.forward */
static val model_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct gpt *p = m->parts;
    struct frame f = module_enter(r, p->transformer);
    bool mask_first = m->q->gpt_neo_cache_class;
    val ids, embeds, positions, hidden;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (!mask_first)
        ids = gpt_all_positions(r, m, size_of(r, b->ids, 1));
    embeds = local(r, call_embeddings(r, m, b->ids));
    if (mask_first) {
        ids = gpt_all_positions(r, m, size_of(r, b->ids, 1));
        p->mask = local(r, causal(r, m, embeds, b->mask, ids));
    }
    positions = local(r, call(r, p->wpe, ids));
    hidden = local(r, add(r, embeds, positions));
    if (!mask_first)
        p->mask = local(r, causal(r, m, embeds, b->mask, ids));
    rebind(r, &hidden, call(r, p->dropout, hidden));
    p->position = mask_first && m->q->gpt_all_cache_position ? ids : 0;
    return frame_leave(r, f, gpt_blocks(r, m, hidden));
}

static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    gpt_forward(r, m, b, ret, model_forward);
}

const struct family_program gpt_neo_program = {"gpt_neo", "models/gpt_neo/modeling_gpt_neo.py", declare, forward, true, false};
