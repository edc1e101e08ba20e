/*
 * gemma2.c - Gemma 2: four norms a layer, computed in fp32 with 1 + weight, capped scores and logits, scaled embeddings, a sliding
 * window in every other layer. SDPA knows no cap and leaves it out, until transformers refuses that.
 */
#include "models/blocks.h"
#include "models/families.h"

struct gemma2_layer {
    struct model *model;
    uint32_t index;
    struct module *self, *attn, *q, *k, *v, *o, *rotary, *mlp, *gate, *up, *down, *act, *norm[4];
    struct param *inv_freq;
};

struct gemma2 {
    struct module *decoder, *norm, *rotary;
    struct param *inv_freq;
    val masks[2], cos, sin, ids; /* of the forward that runs; masks for full and for sliding layers */
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

static struct module *token_embedding(struct tree *t, struct module *parent, const struct arch *a, bool scales)
{
    struct module *m = embedding(t, parent, "embed_tokens", a->vocab, a->hidden, a->pad_token_id >= 0);

    if (!t->error.code && scales) {
        m->extra = buffer_add(t, m, "embed_scale", t->dtype, 0, NULL);
        m->forward = embedding_forward;
    }
    return m;
}

static struct module *rotary(struct model *m, struct module *parent, struct param **inv_freq)
{
    struct tree *t = &m->tree;
    struct module *rotary = container(t, parent, "rotary_emb");

    *inv_freq = buffer_add(t, rotary, "inv_freq", DTYPE_FP32, SHAPE(m->arch->rotary_dim / 2));
    if (m->q->inv_freq_kept_twice)
        (void)buffer_add(t, rotary, "original_inv_freq", DTYPE_FP32, SHAPE(m->arch->rotary_dim / 2));
    return rotary;
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
    if (m->q->rope_in_attention)
        l->rotary = rotary(m, l->attn, &l->inv_freq);
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
    p->decoder = container(t, root, "model");
    m->embeddings = token_embedding(t, p->decoder, a, m->q->gemma2_embedding_scales);
    list = container(t, p->decoder, "layers");
    for (uint32_t i = 0; i < a->layers; i++)
        declare_layer(m, list, &layers[i], i);
    p->norm = norm(t, p->decoder, "norm", a->hidden);
    if (m->q->rope_once)
        p->rotary = rotary(m, p->decoder, &p->inv_freq);
    m->use_cache = m->use_cache && m->q->gemma2_caches_in_training;
    t->head = linear(t, root, "lm_head", a->hidden, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
}

/* ------------------------------------------------------------------------------------------------------------ forward */
static val view_heads(struct run *r, val x, int64_t d)
{
    return transpose(r, view(r, x, SHAPE(size_of(r, x, 0), size_of(r, x, 1), -1, d)), 1, 2);
}

static val heads(struct run *r, val x, int64_t d)
{
    return local(r, view_heads(r, x, d));
}

/*
 * Gemma2DecoderLayer.forward until masking_utils.py: a sliding layer cuts its window out of the mask that all share. *ones lives as long as the
 * layer's forward. Since 4.52 the columns are picked by an index, which copies.
 */
static val cut_window(struct run *r, const struct gemma2_layer *l, val mask, val *ones)
{
    val least, picked;
    int64_t b, s;

    if (run_dead(r) || l->model->attention == KERNEL_FLASH_2)
        return mask;
    b = size_of(r, mask, 0), s = size_of(r, mask, 3);
    *ones = local(r, pointwise_op(r, OP_TRIL, DTYPE_BOOL, factory(r, OP_ONES_LIKE, DTYPE_BOOL, SHAPE(b, 1, s, s)), 0));
    least = local(r, factory(r, OP_SCALAR_TENSOR, dtype_of(r, mask), 0, NULL));
    mask = local(r, pointwise_op(r, OP_WHERE, dtype_of(r, mask), *ones, mask));
    drop(r, &least);
    if (!l->model->q->gemma2_picks_columns)
        return mask;
    picked = local(r, add_scalar(r, factory(r, OP_SUB, DTYPE_INT64, 0, NULL))); /* cache_position[-1] - n + 1 */
    rebind(r, &picked, pointwise_op(r, OP_CLAMP, DTYPE_INT64, picked, 0));
    (void)local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(s)));
    rebind(r, &mask, factory(r, OP_INDEX, dtype_of(r, mask), SHAPE(b, 1, s, s)));
    return mask;
}

static bool slides(const struct gemma2_layer *l)
{
    return l->model->arch->layer_kinds[l->index] == LAYER_SLIDING;
}

/* Until 4.47: each kernel's class, or function, on locals of forward. */
static val attend(struct run *r, struct gemma2_layer *l, val *q, val *k, val *v, const struct attention_call *c)
{
    if (l->model->q->gemma2_attention_functions && l->model->attention != KERNEL_SDPA)
        return attention_interface(r, l->model, *q, *k, *v, c);
    return attention_440(r, l->model, q, k, v, c);
}

/* Gemma2Attention.forward; b of the result: the weights that the layer's `_` holds */
static struct two attention(struct run *r, struct gemma2_layer *l, val x, val mask)
{
    const struct gemma2 *p = l->model->parts;
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    bool interface = l->model->q->interface_attention;
    int64_t rows = size_of(r, x, 0), seq = size_of(r, x, 1), d = a->head_dim;
    struct two out = {0}, qk;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = a->heads / a->kv_heads,
                               .softcap = a->attn_logit_softcapping, .weights = &out.b};
    val q, k, v, cos = p->cos, sin = p->sin;

    (void)hold(r, x);
    if (interface) {
        q = heads(r, call(r, l->q, x), d);
        k = heads(r, call(r, l->k, x), d);
        v = heads(r, call(r, l->v, x), d);
    } else { /* projects first, then rebinds the views */
        q = local(r, call(r, l->q, x));
        k = local(r, call(r, l->k, x));
        v = local(r, call(r, l->v, x));
        rebind(r, &q, view_heads(r, q, d));
        rebind(r, &k, view_heads(r, k, d));
        rebind(r, &v, view_heads(r, v, d));
    }
    if (!l->model->q->rope_once) {
        qk = rotary_tables(r, l->model, l->rotary, p->ids, v ? dtype_of(r, v) : DTYPE_FP32, l->inv_freq->value);
        cos = local(r, qk.a);
        sin = local(r, qk.b);
    }
    qk = apply_rotary(r, q, k, cos, sin);
    rebind(r, &q, qk.a);
    rebind(r, &k, qk.b);
    cache_update(r, l->model, l->index, &k, &v);
    out.a = local(r, interface ? attention_interface(r, l->model, q, k, v, &c) : attend(r, l, &q, &k, &v, &c));
    (void)local(r, out.b);
    rebind(r, &out.a, contiguous(r, reshape(r, out.a, SHAPE(rows, seq, -1))));
    rebind(r, &out.a, call(r, l->o, out.a));
    out.b = interface ? give(r, out.b) : 0; /* before: attn_weights = None */
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
    const struct gemma2 *p = l->model->parts;
    struct frame f = frame_enter(r);
    val hidden = local(r, args[0]), residual, mask, ones = 0;
    struct two attn;

    mask = l->model->q->checkpoint_keywords ? p->masks[slides(l)] : args[1];
    if (!l->model->q->masks_by_utils && slides(l) && mask)
        mask = cut_window(r, l, mask, &ones);
    residual = local(r, hidden);
    rebind(r, &hidden, call(r, l->norm[0], hidden));
    attn = attention(r, l, hidden, mask);
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

/* Both masks are made, whichever layers there are; before masking_utils.py one, whatever the kernel needs. */
static void make_masks(struct run *r, struct model *m, val embeds, val mask_2d, val ids)
{
    struct gemma2 *p = m->parts;

    if (!m->q->masks_by_utils) {
        p->masks[0] = p->masks[1] = local(r, causal_mask_always(r, m, embeds, mask_2d, ids));
        return;
    }
    p->masks[0] = local(r, causal_mask(r, m, embeds, mask_2d, ids, 0));
    p->masks[1] = local(r, causal_mask(r, m, embeds, mask_2d, ids, m->arch->sliding_window));
}

/* Gemma2Model.forward */
static val decoder_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct gemma2 *p = m->parts;
    struct gemma2_layer *layers = m->layers;
    struct frame f = module_enter(r, p->decoder);
    val embeds, ids, hidden, layer_outputs, args[3], closed[4];
    struct two tables = {0};

    embeds = local(r, call_embeddings(r, m, b->ids));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    ids = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, b->ids, 1)));
    p->ids = ids = local(r, unsqueeze(r, m->q->positions_are_added ? add_scalar(r, ids) : ids, 0));
    make_masks(r, m, embeds, b->mask, ids);
    hidden = local(r, embeds);
    if (m->q->rope_once)
        tables = rotary_tables(r, m, p->rotary, ids, dtype_of(r, hidden), p->inv_freq->value);
    p->cos = closed[2] = local(r, tables.a);
    p->sin = closed[1] = local(r, tables.b);
    closed[3] = m->position_ids = ids;
    if (!m->q->gemma2_embedding_scales) /* times a scalar of the host */
        rebind(r, &hidden, mul_scalar(r, hidden));
    layer_outputs = local(r, 0);
    for (uint32_t i = 0; i < m->n_layers; i++) {
        val out;

        closed[0] = p->masks[slides(&layers[i])];
        args[0] = hidden;
        args[1] = closed[0];
        args[2] = ids;
        if (m->q->checkpoint_keywords)
            out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 1, args, 4, closed);
        else
            out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], 3, args, 2, closed + 1);
        if (m->q->layers_return_tuples)
            rebind(r, &layer_outputs, out);
        rebind(r, &hidden, out);
    }
    rebind(r, &hidden, call(r, p->norm, hidden));
    return frame_leave(r, f, hidden);
}

/* Gemma2ForCausalLM.forward */
static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, decoder_forward(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, last_states(r, m, hidden)));
    if (m->arch->final_logit_softcapping > 0) {
        rebind(r, &logits, div_scalar(r, logits));
        rebind(r, &logits, tanh_op(r, logits));
        rebind(r, &logits, mul_scalar(r, logits));
    }
    loss = local(r, lm_loss(r, m, &logits, b->labels));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}

const struct family_program gemma2_program = {
    .name = "gemma2", .source = "models/gemma2/modeling_gemma2.py", .declare = declare, .forward = forward, .takes_item_count = true};
