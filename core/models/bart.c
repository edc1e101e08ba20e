/* bart.c - what opt and biogpt share. */
#include "models/bart.h"

enum { POSITION_OFFSET = 2 };

void bart_layer_declare(struct model *m, struct module *list, struct bart_layer *l, uint32_t index, bool bias, bool affine)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->model = m;
    l->index = index;
    l->self = container_at(t, list, index);
    l->attn = container(t, l->self, "self_attn");
    l->k = linear(t, l->attn, "k_proj", a->hidden, a->hidden, bias);
    l->v = linear(t, l->attn, "v_proj", a->hidden, a->hidden, bias);
    l->q = linear(t, l->attn, "q_proj", a->hidden, a->hidden, bias);
    l->out = linear(t, l->attn, "out_proj", a->hidden, a->hidden, bias);
    l->act = activation_module(t, l->self, "activation_fn", a->activation);
    l->norm1 = layer_norm_module(t, l->self, "self_attn_layer_norm", a->hidden, affine);
    l->fc1 = linear(t, l->self, "fc1", a->hidden, a->ffn, bias);
    l->fc2 = linear(t, l->self, "fc2", a->ffn, a->hidden, bias);
    l->norm2 = layer_norm_module(t, l->self, "final_layer_norm", a->hidden, affine);
}

struct module *bart_positions_declare(struct model *m, struct module *parent)
{
    m->position_table = true;
    return embedding(&m->tree, parent, "embed_positions", m->arch->max_positions + POSITION_OFFSET, m->arch->hidden, false);
}

/* ---------------------------------------------------------------------------------------------------------- attention */
static val heads(struct run *r, const struct arch *a, val x)
{
    return transpose(r, view(r, x, SHAPE(size_of(r, x, 0), -1, a->heads, a->head_dim)), 1, 2);
}

/* OPTAttention.forward of 5.x, which scales the query itself; BioGptAttention.forward leaves that to the kernel. */
static val attention(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    val q, k, v, out, weights = 0;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1, .softmax_as_is = a->family != FAMILY_OPT,
                               .weights = &weights};
    int64_t rows, seq;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    q = call(r, l->q, x);
    q = local(r, a->family == FAMILY_OPT ? mul_scalar(r, q) : q);
    rebind(r, &q, heads(r, a, q));
    k = local(r, call(r, l->k, x));
    v = local(r, call(r, l->v, x));
    rebind(r, &k, heads(r, a, k));
    rebind(r, &v, heads(r, a, v));
    cache_update(r, l->model, l->index, &k, &v);
    out = local(r, attention_interface(r, l->model, q, k, v, &c));
    weights = local(r, weights);
    rebind(r, &out, contiguous(r, reshape(r, out, SHAPE(rows, seq, -1))));
    rebind(r, &out, call(r, l->out, out));
    ret->weights = give(r, weights);
    return frame_leave(r, f, out);
}

/* OPTAttention._shape of 4.40 */
static val shape(struct run *r, const struct arch *a, val x)
{
    struct frame f = frame_enter(r);

    (void)local(r, x);
    return frame_leave(r, f, contiguous(r, heads(r, a, x)));
}

/* OptFlashAttention2.forward of 4.40 from the projections on: q is not scaled; keys and values were made contiguous. */
static val flash_4(struct run *r, struct bart_layer *l, val *q, val *k, val *v, val mask)
{
    const struct arch *a = l->model->arch;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1};

    rebind(r, q, heads(r, a, *q));
    return attention_interface(r, l->model, *q, *k, *v, &c);
}

/* The products between them. */
static val eager_4(struct run *r, struct bart_layer *l, val *q, val *k, val *v, val mask)
{
    const struct arch *a = l->model->arch;
    int64_t b = size_of(r, *k, 0), s = size_of(r, *k, 2), h = a->heads, d = a->head_dim;
    val weights, probs;

    rebind(r, q, view(r, shape(r, a, *q), SHAPE(b * h, -1, d)));
    rebind(r, k, view(r, *k, SHAPE(b * h, -1, d)));
    rebind(r, v, view(r, *v, SHAPE(b * h, -1, d)));
    weights = local(r, bmm(r, *q, transpose(r, *k, 1, 2)));
    if (mask) {
        rebind(r, &weights, add(r, view(r, weights, SHAPE(b, h, s, s)), mask));
        if (a->family == FAMILY_OPT) /* torch.max(weights, torch.tensor(finfo.min)) */
            rebind(r, &weights, maximum(r, weights, factory(r, OP_TO_COPY, DTYPE_FP32, 0, NULL)));
        rebind(r, &weights, view(r, weights, SHAPE(b * h, s, s)));
    }
    if (a->family == FAMILY_OPT && weights && dtype_of(r, weights) == DTYPE_FP16)
        rebind(r, &weights, to_dtype(r, softmax(r, weights, DTYPE_FP32), DTYPE_FP16));
    else
        rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    probs = local(r, dropout(r, weights, a->attention_dropout));
    return transpose(r, view(r, bmm(r, probs, *v), SHAPE(b, h, s, d)), 1, 2);
}

/* OPTAttention.forward of 4.40, BartAttention.forward with which BioGPT's is one */
static val attention_4(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    bool flash = l->model->attention == KERNEL_FLASH_2;
    int64_t b, s;
    val q, k, v, out;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    b = size_of(r, x, 0);
    s = size_of(r, x, 1);
    q = call(r, l->q, x);
    q = local(r, flash ? q : mul_scalar(r, q));
    k = local(r, shape(r, a, call(r, l->k, x)));
    v = local(r, shape(r, a, call(r, l->v, x)));
    ret->key = local(r, k); /* past_key_value: made whether a cache is asked for or not */
    ret->value = local(r, v);
    cache_update(r, l->model, l->index, &k, &v);
    out = local(r, flash ? flash_4(r, l, &q, &k, &v, mask) : eager_4(r, l, &q, &k, &v, mask));
    rebind(r, &out, reshape(r, out, SHAPE(b, s, a->hidden)));
    rebind(r, &out, call(r, l->out, out));
    ret->key = give(r, ret->key);
    ret->value = give(r, ret->value);
    return frame_leave(r, f, out);
}

val bart_attention(struct run *r, struct bart_layer *l, val x, val mask, struct bart_beside *ret)
{
    return l->model->q->attention_interface ? attention(r, l, x, mask, ret) : attention_4(r, l, x, mask, ret);
}

/* ---------------------------------------------------------------------------------------------------------- positions */
/* (torch.cumsum(mask, dim=1) * mask).long() - 1 */
static val position_ids(struct run *r, val mask)
{
    val ids;

    mask = local(r, to_dtype(r, mask, DTYPE_INT64));
    ids = cumsum(r, mask, 1);
    ids = pointwise_op(r, OP_MUL, DTYPE_INT64, ids, mask);
    return sub_scalar(r, ids);
}

val bart_positions(struct run *r, struct module *positions, val ids, val mask)
{
    struct frame f = module_enter(r, positions);

    if (!ids)
        ids = local(r, position_ids(r, mask));
    return frame_leave(r, f, positions->forward(r, positions, add_scalar(r, ids)));
}

/* ------------------------------------------------------------------------------------------------------------ decoder */
val bart_layers(struct run *r, struct model *m, region_function layer, val hidden, val mask, int n_closed, const val *closed)
{
    struct bart_layer *layers = m->layers;
    val layer_outputs = local(r, 0), args[2];
    bool keywords = m->q->checkpoint_keywords; /* 5.x; in 4.40 the mask is positional */

    args[1] = mask;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        val out;

        args[0] = hidden;
        out = decoder_layer(r, m, layers[i].self, layer, &layers[i], keywords ? 1 : 2, args, keywords ? n_closed : 0, closed);
        if (!m->q->attention_interface) /* 4.40: layer_outputs = layer(..); hidden_states = layer_outputs[0] */
            rebind(r, &layer_outputs, out);
        rebind(r, &hidden, out);
    }
    return hidden;
}

/* biogpt of 4.40 cuts scores[:, :-1, :], opt logits[..., :-1, :] */
static val shifted(struct run *r, const struct model *m, val logits)
{
    if (m->arch->family == FAMILY_OPT || !m->q->full_slices_are_nodes || run_dead(r))
        return logits;
    return slice(r, logits, 0, 0, size_of(r, logits, 0));
}

void bart_forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret,
                  val (*decoder)(struct run *r, struct model *m, const struct batch *b))
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, decoder(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, hidden));
    if (m->q->loss_pads_labels)
        loss = local(r, causal_lm_loss(r, logits, b->labels, m->counts_items));
    else
        loss = local(r, shifted_loss(r, m, shifted(r, m, logits), b->labels));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}
