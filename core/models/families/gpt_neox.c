/*
 * gpt_neox.c - GPT-NeoX, Pythia, Polyglot: one projection for q, k, v interleaved by head, rotary over a part of each head,
 * attention and MLP side by side. While its rotary tables were buffers they were fp32, and eager scores with them.
 */
#include "models/families.h"
#include "models/gpt_all.h"

struct neox_layer {
    struct model *model;
    uint32_t index;
    struct module *self, *norm1, *norm2, *drop1, *drop2, *attn, *qkv, *dense, *attn_drop, *mlp, *up, *down, *act;
    struct param *cos, *sin, *bias; /* buffers of some releases: rotary tables, the causal mask */
};

struct neox {
    struct module *decoder, *embed_drop, *norm, *rotary;
    struct param *inv_freq;
    val mask, cos, sin, ids; /* of the forward that runs */
};

/* -------------------------------------------------------------------------------------------------------- declaration */
static void declare_attention(struct model *m, struct neox_layer *l)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    int64_t rows = a->max_positions, half = a->rotary_dim / 2;

    l->attn = container(t, l->self, "attention");
    if (!m->q->gpt_neox_interface) {
        struct module *rotary = container(t, l->attn, "rotary_emb");

        (void)buffer_add(t, rotary, "inv_freq", DTYPE_FP32, SHAPE(half));
        if (!m->q->gpt_neox_cache_class) {
            l->cos = buffer_add(t, rotary, "cos_cached", DTYPE_FP32, SHAPE(rows, 2 * half));
            l->sin = buffer_add(t, rotary, "sin_cached", DTYPE_FP32, SHAPE(rows, 2 * half));
        }
        l->bias = buffer_add(t, l->attn, "bias", DTYPE_BOOL, SHAPE(1, 1, rows, rows));
        (void)buffer_add(t, l->attn, "masked_bias", t->dtype, 0, NULL);
    }
    l->qkv = linear(t, l->attn, "query_key_value", a->hidden, 3 * (int64_t)a->hidden, a->attention_bias);
    l->dense = linear(t, l->attn, "dense", a->hidden, a->hidden, a->attention_bias);
    if (!m->q->gpt_neox_interface)
        l->attn_drop = dropout_module(t, l->attn, "attention_dropout", a->attention_dropout);
}

static void declare_layer(struct model *m, struct module *list, struct neox_layer *l, uint32_t index)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;

    l->model = m;
    l->index = index;
    l->self = container_at(t, list, index);
    l->norm1 = layer_norm_module(t, l->self, "input_layernorm", a->hidden, true);
    l->norm2 = layer_norm_module(t, l->self, "post_attention_layernorm", a->hidden, true);
    l->drop1 = dropout_module(t, l->self, "post_attention_dropout", a->residual_dropout);
    l->drop2 = dropout_module(t, l->self, "post_mlp_dropout", a->residual_dropout);
    declare_attention(m, l);
    l->mlp = container(t, l->self, "mlp");
    l->up = linear(t, l->mlp, "dense_h_to_4h", a->hidden, a->ffn, true);
    l->down = linear(t, l->mlp, "dense_4h_to_h", a->ffn, a->hidden, true);
    l->act = activation_module(t, l->mlp, "act", a->activation);
}

static void declare(struct model *m)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct neox *p = m->parts = arena_new(t->arena, struct neox);
    struct neox_layer *layers = m->layers = arena_array(t->arena, struct neox_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    p->decoder = container(t, root, "gpt_neox");
    m->embeddings = embedding(t, p->decoder, "embed_in", a->vocab, a->hidden, false);
    p->embed_drop = dropout_module(t, p->decoder, "emb_dropout", a->embed_dropout);
    list = container(t, p->decoder, "layers");
    for (uint32_t i = 0; i < a->layers; i++)
        declare_layer(m, list, &layers[i], i);
    p->norm = layer_norm_module(t, p->decoder, "final_layer_norm", a->hidden, true);
    if (m->q->gpt_neox_cache_class) {
        p->rotary = container(t, p->decoder, "rotary_emb");
        p->inv_freq = buffer_add(t, p->rotary, "inv_freq", DTYPE_FP32, SHAPE(a->rotary_dim / 2));
        if (m->q->gpt_neox_copies_inv_freq)
            (void)buffer_add(t, p->rotary, "original_inv_freq", DTYPE_FP32, SHAPE(a->rotary_dim / 2));
    }
    t->head = linear(t, root, m->q->gpt_neox_named_embed_out ? "embed_out" : "lm_head", a->hidden, a->vocab, false);
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
    if (!m->q->gpt_neox_sdpa && m->attention == KERNEL_SDPA)
        m->attention = KERNEL_EAGER; /* no SDPA class: transformers falls back */
}

/* ------------------------------------------------------------------------------------------------------------ forward */
/* The first rotary_dim elements of each head turn, the others pass: apply_rotary_pos_emb, before 4.49 lines of the attention.
 * q and k are the caller's locals. */
static struct two rotate_part(struct run *r, val q, val k, val cos, val sin, val ids)
{
    struct frame f = frame_enter(r);
    int64_t width = size_of(r, cos, -1), d = size_of(r, q, -1);
    val in[2] = {q, k}, turned[2], passed[2], embed[2];
    struct two qk = {0};

    if (run_dead(r))
        return qk;
    for (int i = 0; i < 2; i++) {
        turned[i] = local(r, index_slice(r, in[i], -1, 0, width, 1));
        passed[i] = local(r, index_slice(r, in[i], -1, width, d, 1));
    }
    qk = apply_rotary_at(r, turned[0], turned[1], cos, sin, ids);
    embed[0] = local(r, qk.a);
    embed[1] = local(r, qk.b);
    for (int i = 0; i < 2; i++)
        rebind(r, &embed[i], cat(r, 2, (val[]){embed[i], passed[i]}, -1));
    qk.a = give(r, embed[0]);
    qk.b = give(r, embed[1]);
    (void)frame_leave(r, f, 0);
    return qk;
}

/* GPTNeoXAttention.forward since 4.49; mask and tables are keywords or were checkpointed; b: the weights, which the layer holds */
static struct two attention(struct run *r, struct neox_layer *l, val x, val mask)
{
    const struct neox *p = l->model->parts;
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    int64_t rows = size_of(r, x, 0), seq = size_of(r, x, 1), d = a->head_dim;
    struct two out = {0}, qk;
    struct attention_call c = {.mask = mask, .dropout = a->attention_dropout, .groups = 1, .weights = &out.b};
    val part[3];

    (void)hold(r, x);
    out.a = view(r, call(r, l->qkv, x), SHAPE(rows, seq, -1, 3 * d));
    out.a = local(r, transpose(r, out.a, 1, 2));
    split(r, out.a, -1, 3, (int64_t[]){d, d, d}, part);
    for (int i = 0; i < 3; i++)
        (void)local(r, part[i]);
    qk = rotate_part(r, part[0], part[1], p->cos, p->sin, 0);
    rebind(r, &part[0], qk.a);
    rebind(r, &part[1], qk.b);
    cache_update(r, l->model, l->index, &part[1], &part[2]);
    out.a = local(r, attention_interface(r, l->model, part[0], part[1], part[2], &c));
    (void)local(r, out.b);
    rebind(r, &out.a, contiguous(r, reshape(r, out.a, SHAPE(rows, seq, -1))));
    rebind(r, &out.a, call(r, l->dense, out.a));
    out.b = give(r, out.b);
    out.a = frame_leave(r, f, out.a);
    return out;
}

/* GPTNeoXAttention._attn, then eager_attention_forward of 4.47 and 4.48, whose result is contiguous */
static struct two attend(struct run *r, struct neox_layer *l, val q, val k, val v, val mask)
{
    struct frame f = frame_enter(r);
    int64_t b = size_of(r, q, 0), h = size_of(r, q, 1), s = size_of(r, q, 2), d = size_of(r, q, 3);
    bool function = l->model->q->gpt_neox_functions;
    val scores, weights, lowest, causal, attended;
    struct two out = {0};

    if (run_dead(r))
        return out;
    q = local(r, view(r, q, SHAPE(b * h, s, d)));
    k = local(r, view(r, k, SHAPE(b * h, s, d)));
    scores = local(r, factory(r, OP_ZEROS, dtype_of(r, q), SHAPE(b * h, s, s)));
    rebind(r, &scores, baddbmm(r, scores, q, transpose(r, k, 1, 2), true));
    rebind(r, &scores, view(r, scores, SHAPE(b, h, s, s)));
    if (!function) {
        lowest = local(r, factory(r, OP_TO_COPY, dtype_of(r, scores), 0, NULL));
        causal = local(r, slice(r, slice(r, l->bias->value, 2, 0, s), 3, 0, s));
        rebind(r, &scores, where(r, causal, scores, lowest));
    }
    if (mask)
        rebind(r, &scores, add(r, scores, mask));
    weights = local(r, softmax(r, scores, DTYPE_COUNT));
    rebind(r, &weights, to_dtype(r, weights, dtype_of(r, v)));
    rebind(r, &weights, call(r, l->attn_drop, weights));
    attended = local(r, matmul(r, weights, v));
    if (function)
        rebind(r, &attended, contiguous(r, transpose(r, attended, 1, 2)));
    out.a = give(r, attended);
    out.b = give(r, weights);
    (void)frame_leave(r, f, 0);
    return out;
}

/* GPTNeoXSdpaAttention and GPTNeoXFlashAttention2 on their own locals: q and k in v's dtype */
static val attend_by_class(struct run *r, struct neox_layer *l, val *part, val mask)
{
    struct model *m = l->model;
    struct attention_call c = {.mask = mask, .dropout = m->arch->attention_dropout, .groups = 1};

    for (int i = 0; i < 2; i++)
        rebind(r, &part[i], to_dtype(r, part[i], dtype_of(r, part[2])));
    if (m->attention == KERNEL_FLASH_2)
        return flash_attention_2(r, m, part[0], part[1], part[2], &c);
    for (int i = 0; i < 3 && m->q->gpt_neox_functions; i++)
        rebind(r, &part[i], contiguous(r, part[i]));
    return sdpa_of_class(r, part[0], part[1], part[2], mask, c.dropout);
}

/* sdpa_attention_forward, flash_attention_forward: the same, called with them */
static val attend_by_function(struct run *r, struct neox_layer *l, const val *part, val mask)
{
    struct frame f = frame_enter(r);
    val own[3];

    for (int i = 0; i < 3; i++)
        own[i] = local(r, part[i]);
    return frame_leave(r, f, attend_by_class(r, l, own, mask));
}

/* What _attn_projections_and_rope returns; before 4.42 lines of GPTNeoXAttention.forward */
static void project_and_turn(struct run *r, struct neox_layer *l, val x, val ids, val *part)
{
    const struct arch *a = l->model->arch;
    const struct neox *p = l->model->parts;
    struct frame f = frame_enter(r);
    int64_t rows = size_of(r, x, 0), seq = size_of(r, x, 1), d = a->head_dim;
    val qkv, cos = p->cos, sin = p->sin;
    struct two two;

    qkv = local(r, call(r, l->qkv, x));
    rebind(r, &qkv, view(r, qkv, SHAPE(rows, seq, a->heads, 3 * d)));
    for (int i = 0; i < 3; i++)
        part[i] = local(r, permute(r, slice(r, qkv, -1, i * d, (i + 1) * d), 4, (int[]){0, 2, 1, 3}));
    if (!l->model->q->gpt_neox_cache_class) {
        cos = local(r, slice(r, l->cos->value, 0, 0, seq));
        sin = local(r, slice(r, l->sin->value, 0, 0, seq));
    } else {
        ids = 0;
    }
    two = rotate_part(r, part[0], part[1], cos, sin, ids);
    rebind(r, &part[0], two.a);
    rebind(r, &part[1], two.b);
    cache_update(r, l->model, l->index, &part[1], &part[2]);
    for (int i = 0; i < 3; i++)
        part[i] = give(r, part[i]);
    (void)frame_leave(r, f, 0);
}

/* GPTNeoXAttention.forward before the attention interface */
static val attention_before(struct run *r, struct neox_layer *l, val x, val mask, val ids)
{
    const struct arch *a = l->model->arch;
    struct frame f = module_enter(r, l->attn);
    int64_t rows = size_of(r, x, 0), seq = size_of(r, x, 1);
    val part[3], out;
    struct two two;

    (void)hold(r, x);
    project_and_turn(r, l, x, ids, part);
    for (int i = 0; i < 3; i++)
        part[i] = local(r, part[i]);
    if (l->model->attention != KERNEL_EAGER) {
        out = local(r, (l->model->q->gpt_neox_functions ? attend_by_function(r, l, part, mask) : attend_by_class(r, l, part, mask)));
        out = local(r, reshape(r, out, SHAPE(rows, seq, a->heads * a->head_dim)));
    } else {
        two = attend(r, l, part[0], part[1], part[2], mask);
        out = local(r, two.a);
        (void)local(r, two.b);
        if (!l->model->q->gpt_neox_functions) /* _merge_heads */
            rebind(r, &out, contiguous(r, permute(r, out, 4, (int[]){0, 2, 1, 3})));
        rebind(r, &out, view(r, out, SHAPE(rows, seq, a->heads * a->head_dim)));
    }
    rebind(r, &out, call(r, l->dense, out));
    return frame_leave(r, f, out);
}

/* GPTNeoXMLP.forward */
static val mlp_forward(struct run *r, struct neox_layer *l, val x)
{
    struct frame f = module_enter(r, l->mlp);
    val hidden = local(r, hold(r, x));

    rebind(r, &hidden, call(r, l->up, hidden));
    rebind(r, &hidden, call(r, l->act, hidden));
    rebind(r, &hidden, call(r, l->down, hidden));
    return frame_leave(r, f, hidden);
}

/* GPTNeoXLayer.forward; args: hidden states, and before layers checkpointed themselves mask and position ids */
static val layer_forward(struct run *r, void *context, const val *args)
{
    struct neox_layer *l = context;
    const struct neox *p = l->model->parts;
    struct frame f = frame_enter(r);
    val hidden, attn, mlp;
    struct two two = {0};

    hidden = local(r, args[0]);
    attn = call(r, l->norm1, hidden);
    if (l->model->q->gpt_neox_interface)
        two = attention(r, l, attn, l->model->checkpoint_keywords ? p->mask : args[1]);
    else
        two.b = give(r, two.a = attention_before(r, l, attn, args[1], args[2])); /* attention_layer_outputs holds it too */
    attn = local(r, two.a);
    (void)local(r, two.b);
    rebind(r, &attn, call(r, l->drop1, attn));
    if (!l->model->arch->parallel_residual)
        rebind(r, &attn, add(r, attn, hidden));
    mlp = call(r, l->norm2, l->model->arch->parallel_residual ? hidden : attn);
    mlp = local(r, mlp_forward(r, l, mlp));
    rebind(r, &mlp, call(r, l->drop2, mlp));
    if (l->model->arch->parallel_residual)
        rebind(r, &hidden, add(r, add(r, mlp, attn), hidden));
    else
        rebind(r, &hidden, add(r, mlp, attn));
    return frame_leave(r, f, hidden);
}

static val causal(struct run *r, struct model *m, val embeds, val mask_2d, val ids)
{
    const struct quirks *q = m->q;

    if (q->gpt_neox_create_mask)
        return causal_mask(r, m, embeds, mask_2d, ids, 0);
    if (q->gpt_neox_cache_class)
        return causal_mask_by_position(r, m, embeds, mask_2d, ids);
    if (m->attention == KERNEL_FLASH_2)
        return flash_mask_440(m, mask_2d);
    if (!mask_2d)
        return 0;
    return q->gpt_neox_sdpa ? causal_mask_4d_440(r, m, embeds, mask_2d, 0, m->attention == KERNEL_SDPA) : additive_mask_440(r, m, mask_2d);
}

/* GPTNeoXModel.forward up to the layers: position ids, mask, embeddings in the order of each release; the hidden states */
static val before_layers(struct run *r, struct model *m, const struct batch *b)
{
    struct neox *p = m->parts;
    const struct quirks *q = m->q;
    int64_t seq = size_of(r, b->ids, 1);
    val embeds = 0, hidden;
    struct two tables;

    if (!q->gpt_neox_cache_class && seq > m->arch->max_positions)
        run_fail(r, ERR_FIELD_RANGE, "/training/seq_len", "longer than the positions this model has");
    if (q->gpt_neox_cache_class)
        embeds = local(r, call_embeddings(r, m, b->ids));
    p->ids = gpt_all_positions(r, m, seq);
    if (!embeds && q->gpt_neox_sdpa)
        embeds = local(r, call_embeddings(r, m, b->ids));
    p->mask = local(r, causal(r, m, embeds, b->mask, p->ids));
    if (!embeds)
        embeds = local(r, call_embeddings(r, m, b->ids));
    hidden = local(r, call(r, p->embed_drop, embeds));
    if (!q->gpt_neox_cache_class)
        return hidden;
    tables = rotary_tables(r, m, p->rotary, p->ids, dtype_of(r, hidden), p->inv_freq->value);
    p->cos = local(r, tables.a);
    p->sin = local(r, tables.b);
    return hidden;
}

/* GPTNeoXModel.forward */
static val decoder_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct neox *p = m->parts;
    struct neox_layer *layers = m->layers;
    struct frame f = module_enter(r, p->decoder);
    val hidden = before_layers(r, m, b), outputs = local(r, 0), args[3], closed[4] = {p->sin, p->cos, p->mask, p->ids};
    bool keywords = m->checkpoint_keywords;

    args[1] = p->mask;
    args[2] = p->ids;
    m->position_ids = m->q->gpt_neox_positions_to_flash ? p->ids : 0;
    for (uint32_t i = 0; i < m->n_layers; i++) {
        val out;

        args[0] = hidden;
        out = decoder_layer(r, m, layers[i].self, layer_forward, &layers[i], keywords ? 1 : 3, args, keywords ? 4 : 2, closed);
        if (m->q->gpt_neox_layer_in_tuple) /* outputs = layer(..); hidden_states = outputs[0] */
            rebind(r, &outputs, out);
        rebind(r, &hidden, out);
    }
    rebind(r, &hidden, call(r, p->norm, hidden));
    return frame_leave(r, f, hidden);
}

/* GPTNeoXForCausalLM.forward */
static void forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, decoder_forward(r, m, b)), logits, loss;

    logits = local(r, call_head(r, m, hidden));
    if (m->q->loss_pads_labels)
        loss = causal_lm_loss(r, logits, b->labels, m->counts_items);
    else /* lm_logits[:, :-1, :], never upcast */
        loss = shifted_loss(r, m, m->q->full_slices_are_nodes ? slice(r, logits, 0, 0, size_of(r, b->ids, 0)) : logits, b->labels);
    ret->loss = give(r, local(r, loss));
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}

const struct family_program gpt_neox_program = {
    .name = "gpt_neox", .source = "models/gpt_neox/modeling_gpt_neox.py", .declare = declare, .forward = forward, .takes_item_count = true};
