#include "models/gptj_block.h"

#include "models/gpt_all.h"

#include <stdio.h>

struct gptj {
    struct module *transformer, *drop, *ln_f;
    val mask, ids; /* of the forward that runs */
};

/* -------------------------------------------------------------------------------------------------------- declaration */
static void declare_layer(struct model *m, struct module *list, struct gptj_layer *l)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    int64_t rows = a->max_positions;

    l->self = container_at(t, list, l->index);
    l->ln_1 = layer_norm_module(t, l->self, "ln_1", a->hidden, true);
    l->attn = container(t, l->self, "attn");
    l->attn_dropout = dropout_module(t, l->attn, "attn_dropout", a->attention_dropout);
    l->resid_dropout = dropout_module(t, l->attn, "resid_dropout", a->residual_dropout);
    l->style->declare_projections(m, l);
    l->out = linear(t, l->attn, "out_proj", a->hidden, a->hidden, false);
    if (!m->q->gptj_plain_tensors)
        l->positions = buffer_add(t, l->attn, "embed_positions", DTYPE_FP32, SHAPE(rows, a->rotary_dim));
    if (!m->q->gptj_cache_class)
        l->bias = buffer_add(t, l->attn, l->style->mask, DTYPE_BOOL, SHAPE(1, 1, rows, rows));
    if (l->style->mask_value && !m->q->gptj_cache_class)
        (void)buffer_add(t, l->attn, l->style->mask_value, DTYPE_FP32, 0, NULL);
    l->mlp = container(t, l->self, "mlp");
    l->fc_in = linear(t, l->mlp, "fc_in", a->hidden, a->ffn, true);
    l->fc_out = linear(t, l->mlp, "fc_out", a->ffn, a->hidden, true);
    l->act = activation_module(t, l->mlp, "act", a->activation);
    l->dropout = dropout_module(t, l->mlp, "dropout", a->residual_dropout);
}

/* A tensor that is a plain attribute: it follows the model to the device after every module of it. */
static struct param *plain_tensor(struct tree *t, const struct gptj_layer *l, const char *name, enum dtype dtype, int ndim,
                                  const int64_t *size)
{
    enum { NAME_BYTES = 48 };
    char *path = arena_array(t->arena, char, NAME_BYTES);

    if (path)
        (void)snprintf(path, NAME_BYTES, "transformer.h.%u.attn.%s", l->index, name);
    return buffer_add(t, t->root, path ? path : name, dtype, ndim, size);
}

void gptj_declare(struct model *m, const struct gptj_style *style)
{
    const struct arch *a = m->arch;
    struct tree *t = &m->tree;
    struct gptj *p = m->parts = arena_new(t->arena, struct gptj);
    struct gptj_layer *layers = m->layers = arena_array(t->arena, struct gptj_layer, a->layers);
    struct module *root = container(t, NULL, ""), *list;

    if (!p || !layers) {
        (void)err_set(&t->error, ERR_NOMEM, "", "the working memory of one request is too small for this model");
        return;
    }
    m->attention = m->attention == KERNEL_SDPA ? KERNEL_EAGER : m->attention; /* there never was an SDPA class */
    m->position_table = true;
    p->transformer = container(t, root, "transformer");
    m->embeddings = embedding(t, p->transformer, "wte", a->vocab, a->hidden, false);
    p->drop = dropout_module(t, p->transformer, "drop", a->embed_dropout);
    list = container(t, p->transformer, "h");
    for (uint32_t i = 0; i < a->layers; i++) {
        layers[i] = (struct gptj_layer){.model = m, .style = style, .index = i};
        declare_layer(m, list, &layers[i]);
    }
    p->ln_f = layer_norm_module(t, p->transformer, "ln_f", a->hidden, true);
    t->head = linear(t, root, "lm_head", a->hidden, a->vocab, true);
    for (uint32_t i = 0; i < a->layers && m->q->gptj_plain_tensors; i++) {
        layers[i].scale = plain_tensor(t, &layers[i], "scale_attn", t->dtype, 0, NULL);
        layers[i].positions = plain_tensor(t, &layers[i], "embed_positions", DTYPE_FP32, SHAPE(a->max_positions, a->rotary_dim));
    }
    if (a->tie_embeddings)
        tie(t->head->weight, m->embeddings->weight);
}

/* ------------------------------------------------------------------------------------------------------------- rotary */
/* x[:, :, :, from:to:step] */
static val part_of_last(struct run *r, const struct model *m, val x, int64_t from, int64_t to, int64_t step)
{
    if (!m->q->full_slices_are_nodes)
        return index_slice(r, x, 3, from, to, step);
    for (int dim = 0; dim < 3; dim++) /* each `:` is a slice of its own in torch 2.2 */
        x = slice(r, x, dim, 0, size_of(r, x, dim));
    return index_slice(r, x, 3, from, to, step);
}

/* torch.repeat_interleave(x[:, :, None, :], 2, 3) */
static val repeat_twice(struct run *r, val x)
{
    int64_t b = size_of(r, x, 0), s = size_of(r, x, 1), half = size_of(r, x, 2);

    x = unsqueeze(r, unsqueeze(r, x, 2), 4);
    return view(r, contiguous(r, expand(r, x, SHAPE(b, s, 1, half, 2))), SHAPE(b, s, 1, 2 * half));
}

/* x1 = x[.., ::2]; x2 = x[.., 1::2]; stack((-x2, x1), dim=-1).flatten(-2) */
static val rotate_every_two(struct run *r, const struct model *m, val x)
{
    struct frame f = frame_enter(r);
    int64_t d = size_of(r, x, -1);
    val x1 = local(r, part_of_last(r, m, x, 0, d, 2)), x2 = local(r, part_of_last(r, m, x, 1, d, 2));

    x = local(r, stack_op(r, 2, (val[]){neg(r, x2), x1}, -1));
    if (run_dead(r))
        return frame_leave(r, f, 0);
    return frame_leave(r, f, view(r, x, SHAPE(size_of(r, x, 0), size_of(r, x, 1), size_of(r, x, 2), d)));
}

/* apply_rotary_pos_emb(tensor, sin, cos); tensor, sin and cos are the caller's locals */
static val rotate(struct run *r, const struct model *m, val x, val sin, val cos)
{
    struct frame f = frame_enter(r);
    val straight, turned;

    if (run_dead(r))
        return frame_leave(r, f, 0);
    sin = local(r, repeat_twice(r, sin));
    cos = local(r, repeat_twice(r, cos));
    straight = mul(r, x, cos);
    turned = mul(r, rotate_every_two(r, m, x), sin);
    return frame_leave(r, f, add(r, straight, turned));
}

/* ---------------------------------------------------------------------------------------------------------- attention */
/* attn_weights / self.scale_attn: a tensor in 4.40, a number since */
static val scaled(struct run *r, const struct gptj_layer *l, val weights)
{
    return l->scale ? divide(r, weights, l->scale->value) : div_scalar(r, weights);
}

/* attn_weights += mask takes no memory */
static bool masks_in_place(const struct gptj_layer *l)
{
    return l->model->arch->family == FAMILY_CODEGEN && l->model->q->codegen_masks_in_place;
}

/* self._attn(query, key, value, attention_mask): scores in fp32; b: the weights */
static struct two attend(struct run *r, struct gptj_layer *l, val q, val k, val v, val mask)
{
    struct frame f = frame_enter(r);
    int64_t s = size_of(r, q, 2);
    bool scales_first = l->style->scales_before_masking != (l->bias == NULL);
    val causal = 0, lowest, weights;
    struct two out = {0};

    if (run_dead(r))
        return out;
    if (l->bias)
        causal = local(r, slice(r, slice(r, l->bias->value, 2, 0, s), 3, 0, s));
    q = local(r, to_dtype(r, q, DTYPE_FP32));
    k = local(r, to_dtype(r, k, DTYPE_FP32));
    weights = local(r, matmul(r, q, transpose(r, k, -1, -2)));
    if (scales_first)
        rebind(r, &weights, scaled(r, l, weights));
    if (causal && weights) {
        lowest = local(r, factory(r, OP_TO_COPY, dtype_of(r, weights), 0, NULL));
        rebind(r, &weights, where(r, causal, weights, lowest));
        if (!scales_first)
            rebind(r, &weights, scaled(r, l, weights));
    }
    if (mask && !masks_in_place(l))
        rebind(r, &weights, add(r, weights, mask));
    if (!causal && !scales_first)
        rebind(r, &weights, scaled(r, l, weights));
    rebind(r, &weights, softmax(r, weights, DTYPE_COUNT));
    rebind(r, &weights, to_dtype(r, weights, dtype_of(r, v)));
    rebind(r, &weights, call(r, l->attn_dropout, weights));
    out.a = give(r, matmul(r, weights, v));
    out.b = give(r, weights);
    (void)frame_leave(r, f, 0);
    return out;
}

/* GPTJFlashAttention2.forward: what the rotation left in fp32 is cast to the dtype of autocast or of q_proj.weight, the base's under peft */
static val attend_flash(struct run *r, struct gptj_layer *l, val *q, val *k, val *v, val mask)
{
    struct attention_call c = {.mask = mask, .dropout = l->model->arch->attention_dropout, .groups = 1};
    val *in[3] = {q, k, v}, *laid_out[3] = {k, q, v};

    if (run_dead(r))
        return 0;
    for (int i = 0; i < 3; i++) /* x.permute(0, 2, 1, 3).contiguous(): what a DynamicCache joined is laid out by heads */
        rebind(r, laid_out[i], transpose(r, contiguous(r, transpose(r, *laid_out[i], 1, 2)), 1, 2));
    if (dtype_of(r, *q) == DTYPE_FP32)
        for (int i = 0; i < 3; i++)
            rebind(r, in[i], to_dtype(r, *in[i], r->autocast ? r->autocast_dtype : l->model->tree.dtype));
    return flash_attention_2(r, l->model, *q, *k, *v, &c);
}

/* codegen caches key.to(hidden_states.dtype), and with a DynamicCache computes with it; gptj casts for its tuples alone */
static void update_cache(struct run *r, struct gptj_layer *l, val *key, val *value, enum dtype dtype)
{
    struct model *m = l->model;
    val cast = *key;

    if (!m->use_cache)
        return;
    if (!m->q->gptj_cache_class || m->arch->family == FAMILY_CODEGEN)
        cast = local(r, to_dtype(r, *key, dtype));
    cache_update(r, m, l->index, &cast, value);
    if (m->q->gptj_cache_class)
        rebind(r, key, cast);
}

/* GPTJAttention.forward; b: the weights, where it returns them beside the output */
static struct two attention(struct run *r, struct gptj_layer *l, val x, val mask, val ids)
{
    const struct model *m = l->model;
    struct frame f = module_enter(r, l->attn);
    int64_t rows = size_of(r, x, 0), seq = size_of(r, x, 1), turned = m->arch->rotary_dim;
    val query = 0, key = 0, value = 0, *in[2] = {&key, &query}, part[2], sin_cos[2], rot[2], pass[2];
    struct two out = {0};
    enum dtype dtype = dtype_of(r, x);

    (void)hold(r, x);
    l->style->project(r, l, x, &query, &key, &value);
    part[0] = local(r, l->style->sincos(r, l, ids, dtype_of(r, key)));
    split(r, part[0], -1, 2, (int64_t[]){turned / 2, turned / 2}, sin_cos);
    (void)local(r, sin_cos[0]);
    (void)local(r, sin_cos[1]);
    for (int i = 0; i < 2; i++) {
        rot[i] = local(r, part_of_last(r, m, *in[i], 0, turned, 1));
        pass[i] = local(r, part_of_last(r, m, *in[i], turned, m->arch->head_dim, 1));
    }
    for (int i = 0; i < 2; i++)
        rebind(r, &rot[i], rotate(r, m, rot[i], sin_cos[0], sin_cos[1]));
    for (int i = 0; i < 2 && !run_dead(r); i++)
        rebind(r, in[i], cat(r, 2, (val[]){rot[i], pass[i]}, -1));
    for (int i = 0; i < 2; i++)
        rebind(r, in[i], permute(r, *in[i], 4, (int[]){0, 2, 1, 3}));
    update_cache(r, l, &key, &value, dtype);
    if (m->attention == KERNEL_FLASH_2) {
        out.b = local(r, attend_flash(r, l, &query, &key, &value, mask));
        out.a = local(r, reshape(r, out.b, SHAPE(rows, seq, m->arch->hidden)));
    } else {
        out = attend(r, l, query, key, value, mask);
        (void)local(r, out.a);
        (void)local(r, out.b);
        rebind(r, &out.a, contiguous(r, permute(r, out.a, 4, (int[]){0, 2, 1, 3}))); /* _merge_heads */
        rebind(r, &out.a, view(r, out.a, SHAPE(rows, seq, m->arch->hidden)));
    }
    rebind(r, &out.a, call(r, l->out, out.a));
    rebind(r, &out.a, call(r, l->resid_dropout, out.a));
    out.b = m->q->gpt_return_weights ? give(r, out.b) : 0;
    out.a = frame_leave(r, f, out.a);
    return out;
}

/* GPTJMLP.forward */
static val mlp_forward(struct run *r, struct gptj_layer *l, val x)
{
    struct frame f = module_enter(r, l->mlp);
    val hidden = local(r, hold(r, x));

    rebind(r, &hidden, call(r, l->fc_in, hidden));
    rebind(r, &hidden, call(r, l->act, hidden));
    rebind(r, &hidden, call(r, l->fc_out, hidden));
    rebind(r, &hidden, call(r, l->dropout, hidden));
    return frame_leave(r, f, hidden);
}

/* GPTJBlock.forward; args: hidden states, and in 4.40 mask and position ids */
static val block_forward(struct run *r, void *context, const val *args)
{
    struct gptj_layer *l = context;
    const struct gptj *p = l->model->parts;
    bool keywords = l->model->checkpoint_keywords;
    struct frame f = frame_enter(r);
    val hidden = local(r, args[0]), residual = local(r, hidden), feed_forward;
    struct two attn;

    rebind(r, &hidden, call(r, l->ln_1, hidden));
    attn = attention(r, l, hidden, keywords ? p->mask : args[1], keywords ? p->ids : args[2]);
    (void)local(r, attn.a);
    (void)local(r, attn.b);
    feed_forward = local(r, mlp_forward(r, l, hidden));
    rebind(r, &hidden, add(r, add(r, attn.a, feed_forward), residual));
    if (!run_dead(r))
        r->second = give(r, attn.b);
    return frame_leave(r, f, hidden);
}

/* -------------------------------------------------------------------------------------------------------------- model */
static val causal(struct run *r, struct model *m, val embeds, val mask_2d, val ids)
{
    if (m->q->gpt_create_mask)
        return causal_mask(r, m, embeds, mask_2d, ids, 0);
    if (m->q->gptj_cache_class)
        return causal_mask_by_position(r, m, embeds, mask_2d, ids);
    if (m->attention == KERNEL_FLASH_2 || !mask_2d)
        return mask_2d; /* a full mask unpads, too */
    return additive_mask_440(r, m, mask_2d);
}

/* Position ids, mask and embeddings in the order of each release; the hidden states */
static val before_blocks(struct run *r, struct model *m, const struct batch *b)
{
    struct gptj *p = m->parts;
    bool first = m->q->gptj_cache_class;
    val embeds = first ? local(r, call_embeddings(r, m, b->ids)) : 0;

    p->ids = gpt_all_positions(r, m, size_of(r, b->ids, 1));
    p->mask = local(r, causal(r, m, embeds, b->mask, p->ids));
    if (!first)
        embeds = local(r, call_embeddings(r, m, b->ids));
    return local(r, call(r, p->drop, embeds));
}

/* GPTJModel.forward */
static val model_forward(struct run *r, struct model *m, const struct batch *b)
{
    struct gptj *p = m->parts;
    struct gptj_layer *layers = m->layers;
    struct frame f = module_enter(r, p->transformer);
    val hidden = before_blocks(r, m, b), outputs = local(r, 0), weights = local(r, 0), args[3];
    bool keywords = m->checkpoint_keywords;

    args[1] = p->mask;
    args[2] = p->ids;
    for (uint32_t i = 0; i < m->n_layers; i++) { /* outputs = block(..); hidden_states = outputs[0] */
        val out;

        args[0] = hidden;
        out = decoder_layer(r, m, layers[i].self, block_forward, &layers[i], keywords ? 1 : 3, args, keywords ? 2 : 0, args + 1);
        rebind(r, &outputs, out);
        rebind(r, &weights, r->second);
        r->second = 0;
        rebind(r, &hidden, out);
    }
    rebind(r, &hidden, call(r, p->ln_f, hidden));
    if (!run_dead(r))
        rebind(r, &hidden, view(r, hidden, SHAPE(-1, size_of(r, hidden, 1), size_of(r, hidden, 2))));
    return frame_leave(r, f, hidden);
}

/* GPTJForCausalLM.forward; before 5.0 logits in fp32, the loss back in the hidden states' dtype */
void gptj_forward(struct run *r, struct model *m, const struct batch *b, struct outputs *ret)
{
    struct frame f = module_enter(r, m->tree.root);
    val hidden = local(r, model_forward(r, m, b)), logits = call_head(r, m, hidden), loss;

    logits = local(r, m->q->gpt_cast_logits ? to_dtype(r, logits, DTYPE_FP32) : logits);
    loss = local(r, gpt_all_loss(r, m, logits, b->labels));
    if (m->q->gpt_cast_logits && hidden)
        rebind(r, &loss, to_dtype(r, loss, dtype_of(r, hidden)));
    ret->loss = give(r, loss);
    ret->logits = give(r, logits);
    (void)frame_leave(r, f, 0);
}
