/* opt.c - OPT: learned positions with an offset, norms before or after, embeddings that may be narrower than the layers. */
#include "models/blocks.h"
#include "models/families.h"

enum { POSITION_OFFSET = 2 };

struct opt_layer {
    struct model *model;
    uint32_t index;
    struct module *self, *attn, *k, *v, *q, *out, *act, *norm1, *fc1, *fc2, *norm2;
};

struct opt {
    struct module *decoder, *positions, *project_out, *project_in, *norm;
    val mask; /* of the forward that runs */
};

/* what OPTAttention.forward returns beside its output: held by the layer */
struct beside {
    val weights, key, value;
};

static void declare_layer(struct model *m, struct module *list, struct opt_layer *l, uint32_t index)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->model = m;
    l->index = index;
    l->self = container_at(t, list, index);
    l->attn = container(t, l->self, "self_attn");
    l->k = linear(t, l->attn, "k_proj", a->hidden, a->hidden, a->enable_bias);
    l->v = linear(t, l->attn, "v_proj", a->hidden, a->hidden, a->enable_bias);
    l->q = linear(t, l->attn, "q_proj", a->hidden, a->hidden, a->enable_bias);
    l->out = linear(t, l->attn, "out_proj", a->hidden, a->hidden, a->enable_bias);
    l->act = activation_module(t, l->self, "activation_fn", a->activation);
    l->norm1 = layer_norm_module(t, l->self, "self_attn_layer_norm", a->hidden, a->norm_affine);
    l->fc1 = linear(t, l->self, "fc1", a->hidden, a->ffn, a->enable_bias);
    l->fc2 = linear(t, l->self, "fc2", a->ffn, a->hidden, a->enable_bias);
    l->norm2 = layer_norm_module(t, l->self, "final_layer_norm", a->hidden, a->norm_affine);
}

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct opt *p = m->parts = arena_new(t->arena, struct opt);
    struct opt_layer *layers = m->layers = arena_array(t->arena, struct opt_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    p->decoder = container(t, container(t, root, "model"), "decoder");
    m->embeddings = embedding(t, p->decoder, "embed_tokens", a->vocab, a->embed_dim, a->pad_token_id >= 0);
    p->positions = embedding(t, p->decoder, "embed_positions", a->max_positions + POSITION_OFFSET, a->hidden, false);
    if (a->embed_dim != a->hidden) {
        p->project_out = linear(t, p->decoder, "project_out", a->hidden, a->embed_dim, false);
        p->project_in = linear(t, p->decoder, "project_in", a->embed_dim, a->hidden, false);
    }
    if (a->final_norm)
        p->norm = layer_norm_module(t, p->decoder, "final_layer_norm", a->hidden, a->norm_affine);
    list = container(t, p->decoder, "layers");
    for (uint32_t i = 0; i < a->layers; i++)
        declare_layer(m, list, &layers[i], i);
    t->head = linear(t, root, "lm_head", a->embed_dim, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
}

/* ------------------------------------------------------------------------------------------------------------ forward */
static val heads(struct run *r, const struct arch *a, val x)
{
    return transpose(r, view(r, x, SHAPE(size_of(r, x, 0), -1, a->heads, a->head_dim)), 1, 2);
}

/* OPTAttention.forward of 5.x: the query is scaled here, attention itself scales by one. */
static val attention(struct run *r, struct opt_layer *l, val x, val mask, struct beside *ret)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    val q, k, v, out, weights = 0;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1, .weights = &weights};
    int64_t rows, seq;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    rows = size_of(r, x, 0);
    seq = size_of(r, x, 1);
    q = local(r, mul_scalar(r, call(r, l->q, x)));
    rebind(r, &q, heads(r, a, q));
    k = local(r, call(r, l->k, x));
    v = local(r, call(r, l->v, x));
    rebind(r, &k, heads(r, a, k));
    rebind(r, &v, heads(r, a, v));
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
static val flash_4(struct run *r, struct opt_layer *l, val *q, val *k, val *v, val mask)
{
    const struct arch *a = l->model->arch;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1};

    rebind(r, q, heads(r, a, *q));
    return attention_interface(r, l->model, *q, *k, *v, &c);
}

/* The products between them. */
static val eager_4(struct run *r, struct opt_layer *l, val *q, val *k, val *v, val mask)
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
static val attention_4(struct run *r, struct opt_layer *l, val x, val mask, struct beside *ret)
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
    cache_update(r, l->model, l->index, k, v);
    out = local(r, flash ? flash_4(r, l, &q, &k, &v, mask) : eager_4(r, l, &q, &k, &v, mask));
    rebind(r, &out, reshape(r, out, SHAPE(b, s, a->hidden)));
    rebind(r, &out, call(r, l->out, out));
    ret->key = give(r, ret->key);
    ret->value = give(r, ret->value);
    return frame_leave(r, f, out);
}

static val attend(struct run *r, struct opt_layer *l, val x, val mask, struct beside *ret)
{
    return l->model->q->attention_interface ? attention(r, l, x, mask, ret) : attention_4(r, l, x, mask, ret);
}

/* OPTDecoderLayer.forward; args: hidden states, and in 4.40 the mask */
static val layer_forward(struct run *r, void *context, const val *args)
{
    struct opt_layer *l = context;
    const struct arch *a = l->model->arch;
    const struct opt *p = l->model->parts;
    struct frame f = frame_enter(r);
    val hidden, residual, mask = l->model->q->checkpoint_keywords ? p->mask : args[1];
    struct beside beside = {0};
    int64_t b, s;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    b = size_of(r, args[0], 0);
    s = size_of(r, args[0], 1);
    hidden = local(r, args[0]);
    residual = local(r, hidden);
    if (a->norm_before)
        rebind(r, &hidden, call(r, l->norm1, hidden));
    rebind(r, &hidden, attend(r, l, hidden, mask, &beside));
    (void)local(r, beside.weights);
    (void)local(r, beside.key);
    (void)local(r, beside.value);
    rebind(r, &hidden, dropout(r, hidden, a->residual_dropout));
    rebind(r, &hidden, add(r, residual, hidden));
    if (!a->norm_before)
        rebind(r, &hidden, call(r, l->norm1, hidden));
    rebind(r, &hidden, reshape(r, hidden, SHAPE(-1, a->hidden)));
    rebind(r, &residual, hidden);
    if (a->norm_before)
        rebind(r, &hidden, call(r, l->norm2, hidden));
    rebind(r, &hidden, call(r, l->fc1, hidden));
    rebind(r, &hidden, call(r, l->act, hidden));
    rebind(r, &hidden, call(r, l->fc2, hidden));
    rebind(r, &hidden, dropout(r, hidden, a->residual_dropout));
    rebind(r, &hidden, view(r, add(r, residual, hidden), SHAPE(b, s, a->hidden)));
    if (!a->norm_before)
        rebind(r, &hidden, call(r, l->norm2, hidden));
    return frame_leave(r, f, hidden);
}

/* (cumsum(mask, dim=1) * mask - 1).long() */
static val position_ids(struct run *r, val mask)
{
    val ids = cumsum(r, mask, 1);

    ids = pointwise_op(r, OP_MUL, DTYPE_INT64, ids, mask);
    return sub_scalar(r, ids);
}

/* OPTLearnedPositionalEmbedding.forward */
static val positions_forward(struct run *r, struct opt *p, val ids, val mask)
{
    struct frame f = module_enter(r, p->positions);

    if (!ids)
        ids = local(r, position_ids(r, mask));
    return frame_leave(r, f, p->positions->forward(r, p->positions, add_scalar(r, ids)));
}

/* OPTDecoder.forward */
static val decoder_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct opt *p = m->parts;
    struct opt_layer *layers = m->layers;
    struct frame f = module_enter(r, p->decoder);
    val embeds, positions = 0, ids = 0, hidden, layer_outputs, args[2], closed[2];

    embeds = local(r, call_embeddings(r, m, b->ids));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    if (m->q->attention_interface) {
        ids = local(r, cumsum(r, b->mask, 1));
        positions = pointwise_op(r, OP_MUL, DTYPE_INT64, ids, b->mask);
        rebind(r, &ids, sub_scalar(r, positions));
        p->mask = local(r, causal_mask(r, m, embeds, b->mask, 0));
    } else if (m->attention == KERNEL_FLASH_2) {
        p->mask = flash_mask_440(m, b->mask);
    } else {
        p->mask = local(r, causal_mask_4d_440(r, m, embeds, b->mask, 0, false));
    }
    positions = local(r, positions_forward(r, p, ids, b->mask));
    if (p->project_in)
        rebind(r, &embeds, call(r, p->project_in, embeds));
    hidden = local(r, add(r, embeds, positions));
    args[1] = closed[0] = p->mask;
    closed[1] = ids;
    layer_outputs = local(r, 0);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        val out;

        args[0] = hidden;
        if (m->q->checkpoint_keywords)
            out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 1, args, 2, closed);
        else
            out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 2, args, 0, NULL);
        if (!m->q->attention_interface)
            rebind(r, &layer_outputs, out);
        rebind(r, &hidden, out);
    }
    if (p->norm)
        rebind(r, &hidden, call(r, p->norm, hidden));
    if (p->project_out)
        rebind(r, &hidden, call(r, p->project_out, hidden));
    return frame_leave(r, f, hidden);
}

/* OPTForCausalLM.forward */
static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, decoder_forward(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, hidden));
    if (m->q->loss_shifts_labels)
        loss = local(r, causal_lm_loss(r, logits, b->labels, m->family->takes_item_count));
    else
        loss = local(r, shifted_loss(r, m, logits, b->labels));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}

const struct family_program opt_program = {"opt", "models/opt/modeling_opt.py", declare, forward, true, false};
