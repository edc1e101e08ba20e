/*
 * gemma2.c - Gemma 2: four norms a layer, computed in fp32 with 1 + weight, capped scores and logits, scaled embeddings, a sliding
 * window in every other layer. transformers has it since 4.42; SDPA knows no cap, so attention is eager or flash-attn.
 */
#include "models/blocks.h"
#include "models/families.h"

struct gemma2_layer {
    struct model *model;
    uint32_t index;
    struct module *self, *attn, *q, *k, *v, *o, *mlp, *gate, *up, *down, *act, *norm[4];
};

struct gemma2 {
    struct module *decoder, *norm, *rotary;
    struct param *inv_freq;
    val masks[2], cos, sin; /* of the forward that runs; masks for full and for sliding layers */
};

/* -------------------------------------------------------------------------------------------------------- declaration */
/* Gemma2RMSNorm.forward: (x.float() * rsqrt(..)) * (1.0 + weight.float()), then back to x's dtype */
static val norm_forward(struct run *r, struct module *m, val x)
{
    struct frame f = frame_enter(r), g;
    val wide, variance, output;
    enum dtype dtype = dtype_of(r, x);

    (void)local(r, x);
    g = frame_enter(r); /* self._norm(x.float()) */
    wide = local(r, to_dtype(r, x, DTYPE_FP32));
    variance = mean_last(r, pow_scalar(r, wide, 2));
    output = frame_leave(r, g, mul(r, wide, rsqrt(r, add_scalar(r, variance))));
    output = local(r, output);
    rebind(r, &output, mul(r, output, add_scalar(r, to_dtype(r, m->weight->value, DTYPE_FP32))));
    return frame_leave(r, f, to_dtype(r, output, dtype));
}

static struct module *norm(struct tree *t, struct module *parent, const char *name, int64_t width)
{
    struct module *m = rms_norm(t, parent, name, width);

    if (!t->error.code)
        m->forward = norm_forward;
    return m;
}

/* Gemma2TextScaledWordEmbedding.forward */
static val embedding_forward(struct run *r, struct module *m, val ids)
{
    const struct param *scale = m->extra;
    val rows = embedding_op(r, m->weight->value, ids, m->padding_idx);

    return mul(r, rows, to_dtype(r, scale->value, dtype_of(r, m->weight->value))); /* gathered weights may be half */
}

static struct module *scaled_embedding(struct tree *t, struct module *parent, const struct arch *a)
{
    struct module *m = embedding(t, parent, "embed_tokens", a->vocab, a->hidden, a->pad_token_id >= 0);

    if (!t->error.code) {
        m->extra = buffer_add(t, m, "embed_scale", t->dtype, 0, NULL);
        m->forward = embedding_forward;
    }
    return m;
}

static void declare_layer(struct model *m, struct module *list, struct gemma2_layer *l, uint32_t index)
{
    static const char *const norms[4] = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                                         "post_feedforward_layernorm"};
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    int64_t q = (int64_t)a->heads * a->head_dim, kv = (int64_t)a->kv_heads * a->head_dim;

    l->model = m;
    l->index = index;
    l->self = container_at(t, list, index);
    l->attn = container(t, l->self, "self_attn");
    l->q = linear(t, l->attn, "q_proj", a->hidden, q, a->attention_bias);
    l->k = linear(t, l->attn, "k_proj", a->hidden, kv, a->attention_bias);
    l->v = linear(t, l->attn, "v_proj", a->hidden, kv, a->attention_bias);
    l->o = linear(t, l->attn, "o_proj", q, a->hidden, a->attention_bias);
    l->mlp = container(t, l->self, "mlp");
    l->gate = linear(t, l->mlp, "gate_proj", a->hidden, a->ffn, false);
    l->up = linear(t, l->mlp, "up_proj", a->hidden, a->ffn, false);
    l->down = linear(t, l->mlp, "down_proj", a->ffn, a->hidden, false);
    l->act = activation_module(t, l->mlp, "act_fn", a->activation);
    for (int i = 0; i < 4; i++)
        l->norm[i] = norm(t, l->self, norms[i], a->hidden);
}

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct gemma2 *p = m->parts = arena_new(t->arena, struct gemma2);
    struct gemma2_layer *layers = m->layers = arena_array(t->arena, struct gemma2_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    if (!m->q->attention_interface) {
        (void)err_set(&t->error, ERR_ARCH_UNKNOWN, "/model_type", "this release of transformers has no gemma2");
        return;
    }
    if (m->attention == KERNEL_SDPA)
        m->attention = KERNEL_EAGER;
    p->decoder = container(t, root, "model");
    m->embeddings = scaled_embedding(t, p->decoder, a);
    list = container(t, p->decoder, "layers");
    for (uint32_t i = 0; i < a->layers; i++)
        declare_layer(m, list, &layers[i], i);
    p->norm = norm(t, p->decoder, "norm", a->hidden);
    p->rotary = container(t, p->decoder, "rotary_emb");
    p->inv_freq = buffer_add(t, p->rotary, "inv_freq", DTYPE_FP32, SHAPE(a->rotary_dim / 2));
    (void)buffer_add(t, p->rotary, "original_inv_freq", DTYPE_FP32, SHAPE(a->rotary_dim / 2));
    t->head = linear(t, root, "lm_head", a->hidden, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
}

/* ------------------------------------------------------------------------------------------------------------ forward */
static val heads(struct run *r, val x, int64_t d)
{
    return local(r, transpose(r, view(r, x, SHAPE(size_of(r, x, 0), size_of(r, x, 1), -1, d)), 1, 2));
}

static val layer_mask(const struct gemma2_layer *l)
{
    const struct gemma2 *p = l->model->parts;

    return p->masks[l->model->arch->layer_kinds[l->index] == LAYER_SLIDING];
}

/* Gemma2Attention.forward; b of the result: the weights that the layer's `_` holds */
static struct two attention(struct run *r, struct gemma2_layer *l, val x)
{
    const struct gemma2 *p = l->model->parts;
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    int64_t rows = size_of(r, x, 0), seq = size_of(r, x, 1), d = a->head_dim;
    struct two out = {0}, qk;
    struct attention_call c = {.mask = layer_mask(l), .dropout = a->attention_dropout, .groups = a->heads / a->kv_heads,
                               .softcap = a->attn_logit_softcapping, .weights = &out.b};
    val q, k, v;

    (void)hold(r, x);
    q = heads(r, call(r, l->q, x), d);
    k = heads(r, call(r, l->k, x), d);
    v = heads(r, call(r, l->v, x), d);
    qk = apply_rotary(r, q, k, p->cos, p->sin);
    rebind(r, &q, qk.a);
    rebind(r, &k, qk.b);
    cache_update(r, l->model, l->index, &k, &v);
    out.a = local(r, attention_interface(r, l->model, q, k, v, &c));
    (void)local(r, out.b);
    rebind(r, &out.a, contiguous(r, reshape(r, out.a, SHAPE(rows, seq, -1))));
    rebind(r, &out.a, call(r, l->o, out.a));
    out.b = give(r, out.b);
    out.a = frame_leave(r, f, out.a);
    return out;
}

/* Gemma2MLP.forward */
static val mlp_forward(struct run *r, struct gemma2_layer *l, val x)
{
    struct frame f = module_enter(r, l->mlp);
    val gate;

    (void)hold(r, x);
    gate = call(r, l->act, call(r, l->gate, x));
    gate = mul(r, gate, call(r, l->up, x));
    return frame_leave(r, f, local(r, call(r, l->down, gate)));
}

/* Gemma2DecoderLayer.forward */
static val layer_forward(struct run *r, void *context, const val *args)
{
    struct gemma2_layer *l = context;
    struct frame f = frame_enter(r);
    val hidden = local(r, args[0]), residual = local(r, hidden);
    struct two attn;

    rebind(r, &hidden, call(r, l->norm[0], hidden));
    attn = attention(r, l, hidden);
    rebind(r, &hidden, attn.a);
    (void)local(r, attn.b);
    rebind(r, &hidden, call(r, l->norm[1], hidden));
    rebind(r, &hidden, add(r, residual, hidden));
    rebind(r, &residual, hidden);
    rebind(r, &hidden, call(r, l->norm[2], hidden));
    rebind(r, &hidden, mlp_forward(r, l, hidden));
    rebind(r, &hidden, call(r, l->norm[3], hidden));
    rebind(r, &hidden, add(r, residual, hidden));
    return frame_leave(r, f, hidden);
}

/* Gemma2Model.forward: both masks are made, whichever layers there are */
static val decoder_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct gemma2 *p = m->parts;
    struct gemma2_layer *layers = m->layers;
    struct frame f = module_enter(r, p->decoder);
    val embeds, ids, hidden, closed[4];
    struct two tables;

    embeds = local(r, call_embeddings(r, m, b->ids));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    ids = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, b->ids, 1)));
    ids = local(r, unsqueeze(r, add_scalar(r, ids), 0));
    p->masks[0] = local(r, causal_mask(r, m, embeds, b->mask, ids, 0));
    p->masks[1] = local(r, causal_mask(r, m, embeds, b->mask, ids, m->arch->sliding_window));
    hidden = local(r, embeds);
    tables = rotary_tables(r, m, p->rotary, ids, dtype_of(r, hidden), p->inv_freq->value);
    p->cos = closed[2] = local(r, tables.a);
    p->sin = closed[1] = local(r, tables.b);
    closed[3] = m->position_ids = ids;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        closed[0] = layer_mask(&layers[i]);
        rebind(r, &hidden, decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 1, &hidden, 4, closed));
    }
    rebind(r, &hidden, call(r, p->norm, hidden));
    return frame_leave(r, f, hidden);
}

/* Gemma2ForCausalLM.forward */
static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, decoder_forward(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, hidden));
    if (m->arch->final_logit_softcapping > 0) {
        rebind(r, &logits, div_scalar(r, logits));
        rebind(r, &logits, tanh_op(r, logits));
        rebind(r, &logits, mul_scalar(r, logits));
    }
    loss = local(r, causal_lm_loss(r, logits, b->labels, m->counts_items));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}

const struct family_program gemma2_program = {
    .name = "gemma2", .source = "models/gemma2/modeling_gemma2.py", .declare = declare, .forward = forward, .takes_item_count = true};
