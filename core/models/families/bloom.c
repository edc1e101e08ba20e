/* bloom.c - BLOOM: alibi instead of positions, queries, keys and values in one projection, a GeLU with a backward of its own. */
#include "models/families.h"
#include "models/gpt_all.h"

struct bloom_layer {
    struct model *model;
    uint32_t index;
    struct module *self, *norm1, *attn, *qkv, *dense, *dropout, *norm2, *mlp, *up, *act, *down;
};

struct bloom {
    struct module *transformer, *embed_norm, *norm;
    val alibi, mask, position; /* of the forward that runs; cache_position where it is handed on */
};

static void declare_layer(struct model *m, struct module *list, struct bloom_layer *l, uint32_t index)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->model = m;
    l->index = index;
    l->self = container_at(t, list, index);
    l->norm1 = layer_norm_module(t, l->self, "input_layernorm", a->hidden, true);
    l->attn = container(t, l->self, "self_attention");
    l->qkv = linear(t, l->attn, "query_key_value", a->hidden, 3 * (int64_t)a->hidden, true);
    l->dense = linear(t, l->attn, "dense", a->hidden, a->hidden, true);
    l->dropout = dropout_module(t, l->attn, "attention_dropout", a->attention_dropout);
    l->norm2 = layer_norm_module(t, l->self, "post_attention_layernorm", a->hidden, true);
    l->mlp = container(t, l->self, "mlp");
    l->up = linear(t, l->mlp, "dense_h_to_4h", a->hidden, 4 * (int64_t)a->hidden, true);
    l->act = activation_module(t, l->mlp, "gelu_impl", a->activation);
    l->down = linear(t, l->mlp, "dense_4h_to_h", 4 * (int64_t)a->hidden, a->hidden, true);
}

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct bloom *p = m->parts = arena_new(t->arena, struct bloom);
    struct bloom_layer *layers = m->layers = arena_array(t->arena, struct bloom_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    if (m->attention == KERNEL_SDPA)
        m->attention = KERNEL_EAGER; /* there never was an SDPA class */
    if (!m->q->loss_pads_labels)
        m->refuses_items = "BloomForCausalLM.forward of this transformers release raises on num_items_in_batch, which its Trainer hands over "
                           "(modeling_bloom.py: Got unexpected arguments)";
    if (m->q->bloom_cache_class && !m->q->bloom_trains_with_cache)
        m->use_cache = false;
    if (a->slow_but_exact && a->pretraining_tp > 1)
        (void)err_set(&t->error, ERR_FIELD_CONFLICT, "/slow_but_exact", "projections cut by pretraining_tp are not modelled");
    p->transformer = container(t, root, "transformer");
    m->embeddings = embedding(t, p->transformer, "word_embeddings", a->vocab, a->hidden, false);
    p->embed_norm = layer_norm_module(t, p->transformer, "word_embeddings_layernorm", a->hidden, true);
    list = container(t, p->transformer, "h");
    for (uint32_t i = 0; i < a->layers; i++)
        declare_layer(m, list, &layers[i], i);
    p->norm = layer_norm_module(t, p->transformer, "ln_f", a->hidden, true);
    t->head = linear(t, root, "lm_head", a->hidden, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
}

/* -------------------------------------------------------------------------------------------------------------- alibi */
/* torch.pow(base, torch.arange(1, 1 + n, step, dtype=torch.int32)); base is made on the device, or copied there before */
static val powers_of(struct run *r, const struct model *m, int64_t n)
{
    val base = local(r, factory(r, m->q->bloom_alibi_of_length ? OP_FULL : OP_TO_COPY, DTYPE_FP32, 0, NULL));
    val powers = local(r, factory(r, OP_ARANGE, DTYPE_INT32, SHAPE(n)));

    return pointwise_op(r, OP_POW, DTYPE_FP32, base, powers);
}

/* _get_alibi_slopes, before lines of build_alibi_tensor: heads that are no power of two take every other slope of the next one */
static val alibi_slopes(struct run *r, const struct model *m)
{
    struct frame f = frame_enter(r);
    int64_t heads = m->arch->heads, power = 1, rest;
    val slopes, extra;

    while (2 * power <= heads)
        power *= 2;
    slopes = local(r, powers_of(r, m, power));
    rest = heads - power < power ? heads - power : power;
    if (rest) {
        extra = powers_of(r, m, rest);
        rebind(r, &slopes, cat(r, 2, (val[]){slopes, extra}, 0));
    }
    return m->q->bloom_alibi_of_length ? frame_leave(r, f, slopes) : slopes;
}

/* build_alibi_tensor: [batch * heads, 1, seq] */
static val alibi(struct run *r, const struct model *m, val mask, enum dtype dtype)
{
    struct frame f = frame_enter(r);
    val slopes, positions, out;
    int64_t b, s;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    b = size_of(r, mask, 0);
    s = size_of(r, mask, 1);
    slopes = local(r, alibi_slopes(r, m));
    positions = pointwise_op(r, OP_MUL, dtype_of(r, mask), sub_scalar(r, cumsum_as(r, mask, 1, dtype_of(r, mask))), mask);
    positions = local(r, unsqueeze(r, positions, 1));
    out = local(r, pointwise_op(r, OP_MUL, DTYPE_FP32, unsqueeze(r, slopes, -1), positions));
    return frame_leave(r, f, to_dtype(r, reshape(r, out, SHAPE(b * m->arch->heads, 1, s)), dtype));
}

/* BloomModel.forward without a mask: slopes[:, None, None] * torch.arange(seq), repeated for each row; its locals are that forward's */
static val alibi_unmasked(struct run *r, const struct model *m, int64_t b, int64_t s, enum dtype dtype)
{
    val slopes = local(r, alibi_slopes(r, m)), alibi;
    val positions = factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(s));

    alibi = local(r, pointwise_op(r, OP_MUL, DTYPE_FP32, view(r, slopes, SHAPE(m->arch->heads, 1, 1)), positions));
    rebind(r, &alibi, to_dtype(r, factory(r, OP_REPEAT, DTYPE_FP32, SHAPE(b * m->arch->heads, 1, s)), dtype));
    return alibi;
}

/* ---------------------------------------------------------------------------------------------------------- attention */
/* fused_qkv[..., i, :] of [batch, seq, heads, 3, head_dim] */
static val part_of(struct run *r, const struct model *m, val fused, int i)
{
    val part = select_op(r, fused, -2, i);

    return m->q->full_slices_are_nodes && part ? slice(r, part, -1, 0, size_of(r, part, -1)) : part;
}

/* _merge_heads */
static val merge_heads(struct run *r, val x, int64_t b, int64_t s, const struct arch *a)
{
    struct frame f = frame_enter(r);

    (void)local(r, x);
    x = permute(r, view(r, x, SHAPE(b, a->heads, s, a->head_dim)), 4, (const int[]){0, 2, 1, 3});
    return frame_leave(r, f, reshape(r, local(r, x), SHAPE(b, s, a->hidden)));
}

static val dropout_add(struct run *r, val x, val residual, double p)
{
    struct frame f = frame_enter(r);
    val out = local(r, dropout(r, x, p));

    rebind(r, &out, add(r, residual, out));
    return frame_leave(r, f, out);
}

/* softmax(scores + mask, dtype=fp32).to(dtype); before cache_position came a bool mask filled */
static val probabilities(struct run *r, const struct bloom_layer *l, val scores, val mask, enum dtype dtype)
{
    val weights = scores;

    if (l->model->q->bloom_cache_class) {
        if (mask)
            rebind(r, &weights, add(r, weights, mask));
    } else {
        if (dtype == DTYPE_FP16)
            rebind(r, &scores, to_dtype(r, scores, DTYPE_FP32));
        weights = local(r, masked_fill(r, scores, mask));
    }
    return to_dtype(r, softmax(r, weights, DTYPE_FP32), dtype);
}

/* kv_length = cache_position[-1] + 1 */
static void length_on_device(struct run *r, const struct bloom_layer *l)
{
    if (l->model->q->bloom_length_on_device)
        (void)local(r, factory(r, OP_ADD, DTYPE_INT64, 0, NULL));
}

/* BloomAttention.forward; the probabilities are its second result since 4.54 */
static val attention(struct run *r, struct bloom_layer *l, val x, val residual, val alibi_tensor, val mask, val *ret_probs)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    bool new = l->model->q->bloom_cache_class;
    int64_t b, s, n, d = a->head_dim;
    val fused, split, q, k, v, scores, probs, out;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    (void)hold(r, x);
    (void)hold(r, residual);
    b = size_of(r, x, 0);
    s = size_of(r, x, 1);
    n = b * a->heads;
    fused = local(r, call(r, l->qkv, x));
    split = local(r, view(r, fused, SHAPE(b, s, a->heads, 3, d)));
    q = local(r, part_of(r, l->model, split, 0));
    k = local(r, part_of(r, l->model, split, 1));
    v = local(r, part_of(r, l->model, split, 2));
    drop(r, &split);
    if (new) {
        rebind(r, &k, transpose(r, k, 1, 2));
        rebind(r, &v, transpose(r, v, 1, 2));
        cache_update(r, l->model, l->index, &k, &v);
    }
    rebind(r, &q, reshape(r, transpose(r, q, 1, 2), SHAPE(n, s, d)));
    if (new)
        rebind(r, &k, transpose(r, reshape(r, k, SHAPE(n, s, d)), -1, -2));
    else
        rebind(r, &k, reshape(r, permute(r, k, 4, (const int[]){0, 2, 3, 1}), SHAPE(n, d, s)));
    rebind(r, &v, reshape(r, new ? v : transpose(r, v, 1, 2), SHAPE(n, s, d)));
    if (!new)
        cache_update(r, l->model, l->index, &k, &v);
    length_on_device(r, l);
    scores = local(r, baddbmm(r, alibi_tensor, q, k, true)); /* stays while its view is bound anew */
    scores = local(r, view(r, scores, SHAPE(b, a->heads, s, s)));
    probs = local(r, probabilities(r, l, scores, mask, dtype_of(r, new ? q : scores)));
    rebind(r, &probs, call(r, l->dropout, probs));
    out = local(r, bmm(r, view(r, probs, SHAPE(n, s, s)), v));
    rebind(r, &out, merge_heads(r, out, b, s, a));
    out = local(r, call(r, l->dense, out)); /* context_layer stays */
    rebind(r, &out, dropout_add(r, out, residual, a->residual_dropout));
    *ret_probs = l->model->q->gpt_return_weights ? give(r, probs) : 0;
    return frame_leave(r, f, out);
}

/* BloomMLP.forward */
static val mlp_forward(struct run *r, struct bloom_layer *l, val x, val residual)
{
    struct frame f = module_enter(r, l->mlp);
    val hidden, out;

    (void)hold(r, x);
    (void)hold(r, residual);
    hidden = local(r, call(r, l->act, call(r, l->up, x)));
    out = local(r, call(r, l->down, hidden));
    return frame_leave(r, f, local(r, dropout_add(r, out, residual, l->model->arch->residual_dropout)));
}

/* BloomBlock.forward; args: hidden states, and before it checkpointed itself alibi and mask */
static val layer_forward(struct run *r, void *context, const val *args)
{
    struct bloom_layer *l = context;
    const struct arch *a = l->model->arch;
    const struct bloom *p = l->model->parts;
    struct frame f = frame_enter(r);
    bool keywords = l->model->checkpoint_keywords;
    val norm, attn, probs = 0, out;

    norm = local(r, call(r, l->norm1, args[0]));
    attn = local(r, attention(r, l, norm, a->residual_post_norm ? norm : args[0], keywords ? p->alibi : args[1],
                              keywords ? p->mask : args[2], &probs));
    probs = local(r, probs);
    rebind(r, &norm, call(r, l->norm2, attn));
    out = local(r, mlp_forward(r, l, norm, a->residual_post_norm ? norm : attn));
    if (!run_dead(r))
        r->second = give(r, probs);
    return frame_leave(r, f, out);
}

/* Alibi and mask; without a mask one of ones stands for it, up to 5.20 */
static void bias_and_mask(struct run *r, struct model *m, const struct batch *b, val embeds, enum dtype dtype)
{
    struct bloom *p = m->parts;
    int64_t rows = size_of(r, b->ids, 0), seq = size_of(r, b->ids, 1);
    val mask = b->mask;

    if (!mask && !m->q->bloom_alibi_of_length)
        mask = local(r, ones_for(r, b->ids, DTYPE_FP32));
    p->alibi = mask ? local(r, alibi(r, m, mask, dtype)) : alibi_unmasked(r, m, rows, seq, dtype);
    if (m->q->gpt_create_mask) {
        p->mask = local(r, causal_mask(r, m, embeds, mask, 0, 0));
    } else if (m->q->bloom_cache_class) {
        p->mask = local(r, causal_mask_by_position(r, m, embeds, mask, p->position));
    } else {
        p->mask = local(r, causal_mask_4d_440(r, m, embeds, mask, 0, false));
        rebind(r, &p->mask, to_dtype(r, p->mask, DTYPE_BOOL));
    }
}

/* BloomModel.forward */
static val model_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct bloom *p = m->parts;
    struct bloom_layer *layers = m->layers;
    struct frame f = module_enter(r, p->transformer);
    bool keywords = m->checkpoint_keywords, positions = m->q->bloom_cache_class && m->q->gpt_all_cache_position;
    val embeds, hidden, outputs, second, args[4], closed[3];

    embeds = local(r, call_embeddings(r, m, b->ids));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    p->position = positions ? local(r, factory(r, OP_ARANGE, DTYPE_INT64, SHAPE(size_of(r, b->ids, 1)))) : 0;
    hidden = local(r, call(r, p->embed_norm, embeds));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    bias_and_mask(r, m, b, embeds, dtype_of(r, hidden));
    args[1] = closed[1] = p->alibi;
    args[2] = closed[0] = p->mask;
    args[3] = closed[2] = p->position;
    outputs = local(r, 0); /* the tuple of the layer before: its hidden states, its probabilities */
    second = local(r, 0);
    for (uint32_t i = 0; i < m->n_layers && !run_dead(r); i++) {
        val out;

        args[0] = hidden;
        out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], keywords ? 1 : positions ? 4 : 3, args,
                            keywords ? 3 : 0, closed);
        rebind(r, &outputs, out);
        rebind(r, &second, r->second);
        r->second = 0;
        rebind(r, &hidden, out);
    }
    rebind(r, &hidden, call(r, p->norm, hidden));
    return frame_leave(r, f, hidden);
}

/* BloomForCausalLM.forward */
static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, model_forward(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, hidden));
    loss = local(r, gpt_all_loss(r, m, logits, b->labels));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}

const struct family_program bloom_program = {"bloom", "models/bloom/modeling_bloom.py", declare, forward, true, false};
